"""How good are explanations of models of real reviews? P2 Tables 1 (a, b, c), 9, 10, 11, 14 and Fig. 6.

Two transformers are trained on IMDB; they and the shipped classifier of P1 are explained by every method that P2
compares, on test reviews of IMDB and on Yelp-HAT. Each explanation is then measured in four ways: rank correlation
with Naive Bayes scores, agreement with human attention, deletion and insertion, and strict fidelity.

    python -m benchmarks.reviews --data PATH [--quick]
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from functools import partial

import numpy as np

from attn_closed_form import Vocabulary, load_demo_model, slalom_fit_eff, slalom_linearized, tokenize
from attn_closed_form._types import Array
from attn_closed_form.evaluate.datasets import load_imdb, load_yelp_hat
from attn_closed_form.evaluate.faithfulness import (
    Value,
    aopc,
    class_probability,
    deletion_curve,
    insertion_curve,
    naive_bayes_scores,
    strict_fidelity,
)
from attn_closed_form.evaluate.ranks import auroc, spearman
from attn_closed_form.game.pooled_game import PooledGame

from .paper_tables import TABLE_9, TABLE_10, TABLE_11, TABLE_14
from .reproduction import Row, Run, claim, mean_row
from .rivals import Explanation, explanations
from .shapley import kernel_shap
from .text_models import T_MAX, Ids, Subject, accuracy, classifier, transformer

SHORTEST = 32
REMOVALS = (1, 2, 3, 5, 7, 10)
UNSIGNED = ("SLALOM-fidel, s", "SLALOM-eff, s")
OWN = (
    "small transformer from scratch, whole words, reviews of 32 to 63 tokens (paper: fine-tuned, reviews of any length)"
)
P1_OWN = "not in the paper: P1's classifier, a removed token becomes [UNK]"

NO_BACKGROUND = (
    "a SLALOM lacks what always gets attention ([CLS], padding), which tells as more tokens go; "
    "compare SLALOM-fidel + background"
)
ELSEWHERE = "; trained on IMDB, the paper on Yelp"

Measured = dict[str, dict[str, list[float]]]


def imdb_documents(run: Run, vocabulary: Vocabulary, count: int) -> tuple[list[Ids], list[Ids], Array]:
    """Short test reviews to explain, and 500 for the accuracy, with their labels."""
    reviews = load_imdb(run.imdb, "test")
    encoded = [vocabulary.encode(text) for text in reviews.texts]
    short = [document for document in encoded if SHORTEST <= len(document) < T_MAX]
    order = np.random.default_rng(0).permutation(len(short))
    return (
        [short[i] for i in order[:count]],
        [d[: T_MAX - 1] for d in encoded[::50]],
        reviews.labels[::50].astype(float),
    )


def yelp_documents(run: Run, vocabulary: Vocabulary, count: int) -> tuple[list[Ids], list[Array], list[int]]:
    """Short Yelp-HAT reviews, the tokens that every annotator chose, and the labels."""
    reviews = load_yelp_hat(run.data)
    documents, chosen, labels = [], [], []
    for i in np.random.default_rng(0).permutation(len(reviews)):
        tokens = tokenize(reviews[i].text)
        picked = reviews[i].at_spans([(token.start, token.end) for token in tokens])
        if SHORTEST <= len(tokens) < T_MAX and 0 < picked.sum() < len(tokens):
            documents.append(vocabulary.encode_tokens(tokens))
            chosen.append(picked)
            labels.append(reviews[i].label)
        if len(documents) == count:
            break
    return documents, chosen, labels


def removal_scores(subject: Subject, tokens: Ids, scores: Array) -> tuple[float, float]:
    """AOPC of deletion and of insertion, in the probability of the predicted class."""
    model = subject.remove(tokens)
    down = deletion_curve(model, scores)
    positive = bool(down[0] > 0)
    if not positive:  # the highest scores are those that speak for the predicted class
        down = deletion_curve(model, -scores)
    up = insertion_curve(model, scores if positive else -scores)
    p_down, p_up = class_probability(down, positive), class_probability(up, positive)
    return aopc(p_down), aopc(p_up, full=float(p_up[-1]))


def measure(
    run: Run, subject: Subject, documents: list[Ids], samples: int, nb: Array | None, chosen: list[Array] | None
) -> tuple[Measured, dict[str, list[Array]]]:
    """Every measure of every method: by measure, method and document."""
    out: Measured = defaultdict(lambda: defaultdict(list))
    fidelity: dict[str, list[Array]] = defaultdict(list)
    for number, tokens in enumerate(documents):
        found: dict[str, Explanation] = explanations(subject, tokens, samples, seed=number)
        for name, one in found.items():
            if name not in UNSIGNED:
                down, up = removal_scores(subject, tokens, one.scores)
                out["deletion"][name].append(down)
                out["insertion"][name].append(up)
            if nb is not None:
                truth = np.abs(nb[tokens]) if name in UNSIGNED else nb[tokens]
                out["correlation"][name].append(spearman(one.scores, truth))
            if chosen is not None:
                strength = one.scores if name in UNSIGNED else np.abs(one.scores)
                out["human"][name].append(auroc(chosen[number], strength))
        if nb is not None:
            surrogates = {name: one.surrogate for name, one in found.items() if one.surrogate is not None}
            errors = strict_fidelity(
                subject.remove(tokens), len(tokens), surrogates.values(), REMOVALS, samples=40, seed=number
            )
            for name, error in zip(surrogates, errors, strict=True):
                fidelity[name].append(error)
        run.say(f"{subject.name}: {number + 1} of {len(documents)} reviews")
    return out, fidelity


def add_rows(
    run: Run,
    result: str,
    what: str,
    subject: Subject,
    many: dict[str, list[float]],
    table: dict[str, dict[str, tuple[float, float]]],
) -> None:
    for name, values in many.items():
        paper = table.get(subject.paper or "", {}).get(name)
        good = [value for value in values if np.isfinite(value)]
        differs = P1_OWN if subject.paper is None else OWN
        if subject.paper is not None and ("Yelp" in what or "human" in what):
            differs += ELSEWHERE
        if np.mean(good) < 0 and "insertion" in what:
            differs += "; negative: the best tokens alone convince more than the whole review"
        if paper is not None and "deletion" in what:
            differs += "; a short review and a small model leave less probability to lose"
        if name.endswith("background"):
            differs = "not in the paper: SLALOM with one token more that is always there; scores by Eq. 64"
        if name.endswith("derivative"):
            differs = "not in the paper: the true derivative, Eq. 64, in place of Eq. 65"
        run.rows.append(mean_row(result, f"{subject.name}, {name}: {what}", good, paper, differs))


def best(many: dict[str, list[float]], names: tuple[str, ...], high: bool) -> float:
    means = [np.nanmean(many[name]) for name in names if name in many]
    return float(max(means) if high else min(means))


def _on_numbers(value: Value, masks: Array) -> Array:
    return np.asarray(value(masks > 0.5))


def table_14(run: Run, subject: Subject, documents: list[Ids], sizes: tuple[int, ...]) -> None:
    """Deletion AOPC of SLALOM-eff (lin.) by the number of samples, beside KernelSHAP's default."""
    for size in sizes:
        areas = []
        for number, tokens in enumerate(documents):
            slalom = slalom_fit_eff(subject.f, tokens, size, seed=number, progress=False).slalom
            areas.append(removal_scores(subject, tokens, slalom_linearized(slalom, tokens, as_printed=True))[0])
        run.rows.append(
            mean_row(
                "P2 Table 14", f"{subject.name}, SLALOM-eff, {size} samples: deletion AOPC", areas, TABLE_14[size], OWN
            )
        )
    areas = []
    for number, tokens in enumerate(documents):
        model = subject.remove(tokens)
        value = model.value if isinstance(model, PooledGame) else model
        np.random.seed(number)  # noqa: NPY002  # shap draws from the global state
        scores = kernel_shap(partial(_on_numbers, value), len(tokens), "auto")
        areas.append(removal_scores(subject, tokens, scores)[0])
    run.rows.append(
        mean_row("P2 Table 14", f"{subject.name}, SHAP, nsamples='auto': deletion AOPC", areas, TABLE_14["SHAP"], OWN)
    )


def main(argv: list[str] | None = None) -> int:
    run = Run("reviews", __doc__ or "", argv, data=True)
    warnings.filterwarnings("ignore", module="shap")
    steps, count, samples = (60, 2, 200) if run.quick else (800, 20, 500)
    model = load_demo_model()
    weights, vocabulary = model.weights, model.vocabulary
    train = load_imdb(run.imdb, "train")
    encoded = [vocabulary.encode(text) for text in train.texts]
    nb = naive_bayes_scores(encoded, train.labels, len(vocabulary))
    documents, test, labels = imdb_documents(run, vocabulary, count)
    yelp, chosen, yelp_labels = yelp_documents(run, vocabulary, count)
    run.say("data read")
    subjects = [
        classifier(weights),
        transformer(vocabulary, train, causal=False, steps=steps),
        transformer(vocabulary, train, causal=True, steps=steps),
    ]
    claims: dict[str, list[bool]] = defaultdict(list)
    curves: dict[str, dict[str, Array]] = {}
    for subject in subjects:
        trained = P1_OWN if subject.paper is None else OWN
        printed = {"BERT": (0.90, 0.88), "GPT-2": (0.74, 0.88)}.get(subject.paper or "", (None, None))  # P2 Table 4
        run.rows += [
            Row(
                "P2 Table 4",
                f"{subject.name}: accuracy on IMDB, first {T_MAX - 1} tokens of 500 reviews",
                accuracy(subject, test, labels),
                printed[0],
                trained,
            ),
            Row(
                "P2 Table 4",
                f"{subject.name}: accuracy on Yelp-HAT",
                accuracy(subject, yelp, np.array(yelp_labels)),
                printed[1],
                "trained on IMDB alone; the paper trains on Yelp",
            ),
        ]
        for name, texts in (("11a", documents), ("11c", yelp)):
            sure = class_probability(np.abs(np.asarray(subject.f(texts))), True)
            case = f"{subject.name}: probability of the predicted class, which deletion AOPC cannot exceed"
            run.rows.append(mean_row(f"P2 Table {name}", case, sure, None, "not in the paper"))
        on_imdb, fidelity = measure(run, subject, documents, samples, nb, None)
        on_yelp, _ = measure(run, subject, yelp, samples, None, chosen)
        add_rows(run, "P2 Tables 1a, 9", "Spearman with Naive Bayes", subject, on_imdb["correlation"], TABLE_9)
        add_rows(run, "P2 Tables 1b, 10", "AU-ROC of human attention", subject, on_yelp["human"], TABLE_10)
        for kind, better in (("insertion", "low"), ("deletion", "high")):
            what = f"{kind} AOPC ({better} is good)"
            name = "P2 Table 1c" if kind == "insertion" else "P2 Table 11a"
            add_rows(run, name, f"IMDB, {what}", subject, on_imdb[kind], TABLE_11["IMDB", kind])
            name = "P2 Table 11b" if kind == "insertion" else "P2 Table 11c"
            add_rows(run, name, f"Yelp, {what}", subject, on_yelp[kind], TABLE_11["Yelp", kind])
        curves[subject.name] = {name: np.mean(errors, axis=0) for name, errors in fidelity.items()}
        collect_claims(claims, on_imdb, on_yelp, curves[subject.name])
        fidelity_rows(run, subject, curves[subject.name])
    table_14(run, subjects[1], documents, (500,) if run.quick else (500, 1000, 2000))
    claim_rows(run, claims)
    draw_figure(run, curves)
    return run.finish(
        {"steps": steps, "reviews": count, "samples": samples, "removals": list(REMOVALS), "T_max": T_MAX}
    )


LINEAR = ("LIME", "SHAP", "IG", "Grad", "LRP")


def collect_claims(claims: dict[str, list[bool]], imdb: Measured, yelp: Measured, fidelity: dict[str, Array]) -> None:
    c, h = imdb["correlation"], yelp["human"]
    claims["values beat importances"].append(best(c, ("SLALOM-eff, v",), True) > best(c, ("SLALOM-eff, s",), True))
    claims["importances best"].append(
        best(h, ("SLALOM-eff, s",), True) >= best(h, ("SLALOM-eff, v", "SLALOM-eff, lin."), True)
    )
    slalom = ("SLALOM-eff, lin.", "SLALOM-fidel, lin.")
    claims["lin. on par"].append(
        best(imdb["deletion"], slalom, True) >= best(imdb["deletion"], ("LIME", "SHAP", "LRP"), True) - 0.02
    )
    for name in ("IG", "Grad"):
        far = best(imdb["deletion"], (name,), True) < best(imdb["deletion"], ("LIME", "SHAP"), True) - 0.1
        claims[f"{name} bad"].append(far)
    own = fidelity["SLALOM-fidel, v"]
    better = fidelity["SLALOM-fidel + background"].mean() < min(own.mean(), *(fidelity[name].mean() for name in LINEAR))
    claims["background best"].append(bool(better))
    claims["fidel best at 1"].append(bool(own[0] < min(fidelity[name][0] for name in LINEAR)))
    claims["fidel best"].append(bool(own.mean() < min(fidelity[name].mean() for name in LINEAR)))


def fidelity_rows(run: Run, subject: Subject, curves: dict[str, Array]) -> None:
    differs = P1_OWN if subject.paper is None else OWN
    for name, curve in curves.items():
        label = name.removesuffix(", v")
        own = "not in the paper: SLALOM with one token more that is always there" if "background" in name else differs
        for k in (1, 5, 10):
            case = f"{subject.name}, {label}: MSE of the change, {k} tokens removed"
            run.rows.append(Row("P2 Fig. 6", case, float(curve[REMOVALS.index(k)]), None, own))
    second = min(float(curves[name].mean()) for name in LINEAR)
    ratio = float(curves["SLALOM-fidel, v"].mean()) / second
    run.rows.append(
        Row(
            "P2 Fig. 6",
            f"{subject.name}: MSE of SLALOM-fidel + background over the best other's",
            float(curves["SLALOM-fidel + background"].mean()) / second,
            None,
            "not in the paper: SLALOM with one token more that is always there",
        )
    )
    run.rows.append(
        Row(
            "P2 Fig. 6",
            f"{subject.name}: MSE of SLALOM-fidel over the best other's",
            ratio,
            0.3,
            differs if ratio < 0.9 else f"disagrees: {NO_BACKGROUND}; {differs}",
        )
    )


def claim_rows(run: Run, claims: dict[str, list[bool]]) -> None:
    why = "our models are small and few reviews were explained: see the standard errors"
    for result, key, text, reason in (
        (
            "P2 Tables 1a, 9",
            "values beat importances",
            "SLALOM's values agree with Naive Bayes more than importances",
            why,
        ),
        ("P2 Tables 1b, 10", "importances best", "importances predict human attention best among SLALOM's scores", why),
        ("P2 Tables 1c, 11", "lin. on par", "linearised SLALOM is on par with LIME, SHAP and LRP (0.02)", why),
        (
            "P2 Tables 1c, 11",
            "IG bad",
            "IG is far worse than LIME and SHAP (deletion, by 0.1)",
            "from a document of [UNK]s, IG is a good explanation of these models; the paper names no baseline",
        ),
        (
            "P2 Tables 1c, 11",
            "Grad bad",
            "Grad is far worse than LIME and SHAP (deletion, by 0.1)",
            "one layer of attention is close to linear in its values, so that its gradient already ranks the tokens",
        ),
        ("P2 Fig. 6", "fidel best at 1", "SLALOM-fidel predicts the change best, 1 token removed", NO_BACKGROUND),
        ("P2 Fig. 6", "background best", "(ours) with a background token it does, mean over 1 to 10", why),
        ("P2 Fig. 6", "fidel best", "SLALOM-fidel predicts changes best, mean over 1 to 10", NO_BACKGROUND),
    ):
        run.rows.append(
            claim(result, text, claims[key], "over the three models: P1's classifier, encoder, decoder", reason)
        )


def draw_figure(run: Run, curves: dict[str, dict[str, Array]]) -> None:
    figure, axes = run.figure(ncols=len(curves), figsize=(12, 4), sharey=True)
    for at, (name, methods) in zip(axes, curves.items(), strict=True):
        for method, curve in methods.items():
            style = "k-" if "exact" in method else "-" if "SLALOM" in method else "--"
            at.semilogy(REMOVALS, curve, style, label=method.removesuffix(", v"))
        at.set(title=name, xlabel="tokens removed")
    axes[0].set_ylabel("MSE of the predicted change (P2 Fig. 6)")
    axes[0].legend(fontsize=7)
    run.save(figure)


if __name__ == "__main__":
    sys.exit(main())
