"""How good are explanations of models of real reviews? P2 Tables 1 (a, b, c), 9, 10, 11, 14 and
Fig. 6.

Two transformers are trained on IMDB; they and the shipped classifier of P1 are explained by every
method that P2 compares, on 100 test reviews of IMDB and 100 of Yelp-HAT. Each explanation is then
measured in four ways: rank correlation with Naive Bayes scores, agreement with human attention,
deletion and insertion, and strict fidelity.

    python -m benchmarks.papers.reviews --data PATH [--quick]
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form._arrays import spearman
from attn_closed_form._types import Array
from attn_closed_form.app.models.text import Vocabulary, tokenize
from attn_closed_form.game.pooled_game import PooledGame
from attn_closed_form.slalom import fit_slalom, slalom_linearized
from benchmarks.papers.correlations import auroc
from jax_model.training.imdb import load_imdb

from ..faithfulness import (
    Value,
    aopc,
    class_probability,
    deletion_curve,
    insertion_curve,
    missing_probability,
    naive_bayes_scores,
    strict_fidelity,
)
from ..shapley import kernel_shap
from .reproduction import Run, mean_row
from .retrained import first_model
from .reviews_rows import (
    AUTHORS,
    REMOVALS,
    claim_rows,
    collect,
    collect_claims,
    draw_figure,
    draw_scatter,
    scatter_rows,
    set_up,
    subject_rows,
    table_14_rows,
)
from .rivals import explanations
from .text_models import T_MAX, Ids, Subject, classifier, transformer
from .yelp_hat import load_yelp_hat

SHORTEST = 32
UNSIGNED = ("SLALOM-fidel, s", "SLALOM-eff, s")
BLOCK = 10  # reviews of one part

Blocks = Callable[[int, int], list[Any]]


class Held(NamedTuple):
    """Test reviews of IMDB: short ones to explain, 500 for the accuracy, and the labels of both."""

    documents: list[Ids]
    labels: list[int]
    test: list[Ids]
    test_labels: Array


def imdb_documents(run: Run, vocabulary: Vocabulary, count: int) -> Held:
    """Short test reviews to explain, and 500 for the accuracy, with their labels."""
    reviews = load_imdb(run.imdb, "test")
    encoded = [vocabulary.encode(text) for text in reviews.texts]
    short = [i for i, document in enumerate(encoded) if SHORTEST <= len(document) < T_MAX]
    order = np.random.default_rng(0).permutation(len(short))
    picked = [short[i] for i in order[:count]]
    return Held(
        [encoded[i] for i in picked],
        [int(reviews.labels[i]) for i in picked],
        [d[: T_MAX - 1] for d in encoded[::50]],
        reviews.labels[::50].astype(float),
    )


def yelp_documents(
    run: Run, vocabulary: Vocabulary, count: int
) -> tuple[list[Ids], list[Array], list[int]]:
    """Short Yelp-HAT reviews, the tokens that every annotator chose, and the labels."""
    reviews = load_yelp_hat(run.data)
    documents = []
    chosen = []
    labels = []
    for i in np.random.default_rng(0).permutation(len(reviews)):
        tokens = tokenize(reviews[i].text)
        picked = reviews[i].at_spans([(token.start, token.end) for token in tokens])
        if SHORTEST <= len(tokens) < T_MAX and 0 < picked.sum() < len(tokens):
            documents.append(vocabulary.encode_words(token.word for token in tokens))
            chosen.append(picked)
            labels.append(reviews[i].label)
        if len(documents) == count:
            break
    return documents, chosen, labels


def class_curves(model: Any, scores: Array, positive: bool) -> tuple[Array, Array]:
    """Probability of a class under deletion and insertion, the tokens that support the class most
    first.
    """
    towards = scores if positive else -scores
    down = class_probability(deletion_curve(model, towards), positive)
    return down, class_probability(insertion_curve(model, towards), positive)


def removal_scores(subject: Subject, tokens: Ids, scores: Array, label: int) -> dict[str, float]:
    """Deletion and insertion by both measures: AOPC of the predicted class, and the authors' of the
    true class.
    """
    model = subject.remove(tokens)
    predicted = bool(np.asarray(subject.f([tokens]))[0] > 0)
    curves = {predicted: class_curves(model, scores, predicted)}
    true = label > 0
    if true != predicted:
        curves[true] = class_curves(model, scores, true)
    down, up = curves[predicted]
    true_down, true_up = curves[true]
    return {
        "deletion": aopc(down),
        "insertion": aopc(up, full=float(up[-1])),
        f"deletion{AUTHORS}": missing_probability(true_down[::-1]),
        f"insertion{AUTHORS}": missing_probability(true_up),
    }


def scatter(tokens: Ids, v: Array, s: Array, the: int) -> dict[str, Any]:
    """What P2's Fig. 5 and 12 show of a review: importances against values of its distinct words.

    `agreement` is the rank correlation of importance and |value|, `both signs` whether words of
    either sign are in the most important fifth, `the` whether "the" is below the median importance
    (None if the review does not have it).
    """
    words = np.unique(tokens, return_index=True)[1]
    value = v[words]
    importance = s[words]
    top = value[np.argsort(-importance)[: max(2, words.size // 5)]]
    place = np.flatnonzero(tokens[words] == the)
    below = None
    if place.size:
        below = bool(importance[place[0]] < np.median(importance))
    return {
        "agreement": float(spearman(importance, np.abs(value))),
        "both signs": bool((top > 0).any() and (top < 0).any()),
        "the": below,
        "points": [tokens[words].tolist(), value.tolist(), importance.tolist()],
    }


def measure(
    subject: Subject,
    documents: list[Ids],
    first: int,
    samples: int,
    labels: list[int],
    nb: Array | None,
    chosen: list[Array] | None,
    the: int = -1,
) -> list[dict[str, dict[str, Any]]]:
    """Every measure of every method, one dictionary per review."""
    out = []
    for number, tokens in enumerate(documents, start=first):
        one: dict[str, dict[str, Any]] = defaultdict(dict)
        found = explanations(subject, tokens, samples, seed=number)
        for name, explanation in found.items():
            scores = explanation.scores
            if name not in UNSIGNED:
                areas = removal_scores(subject, tokens, scores, labels[number - first])
                for kind, area in areas.items():
                    one[kind][name] = area
            if nb is not None:
                truth = np.abs(nb[tokens]) if name in UNSIGNED else nb[tokens]
                one["correlation"][name] = spearman(scores, truth)
            if chosen is not None:
                one["human"][name] = auroc(
                    chosen[number - first], scores if name in UNSIGNED else np.abs(scores)
                )
        if nb is not None:
            surrogates = {name: e.surrogate for name, e in found.items() if e.surrogate is not None}
            model = subject.remove(tokens)
            errors = strict_fidelity(
                model, len(tokens), surrogates.values(), REMOVALS, samples=40, seed=number
            )
            one["fidelity"] = {
                name: error.tolist() for name, error in zip(surrogates, errors, strict=True)
            }
            v = found["SLALOM-eff, v"].scores
            s = found["SLALOM-eff, s"].scores
            one["scatter"] = scatter(np.asarray(tokens), v, s, the)
        out.append(dict(one))
    return out


def table_14(
    subject: Subject,
    documents: list[Ids],
    labels: list[int],
    sizes: tuple[int, ...],
    start: int,
    stop: int,
) -> list[dict[str, float]]:
    """Deletion AOPC of SLALOM-eff (lin.) by the number of samples, and of KernelSHAP at its
    default, per review.
    """
    out = []
    for number, tokens in enumerate(documents[start:stop], start=start):
        areas: dict[str, float] = {}
        for size in sizes:
            slalom = fit_slalom(subject.f, tokens, "eff", size, seed=number, progress=False).slalom
            scores = slalom_linearized(slalom, tokens, as_printed=True)
            areas[str(size)] = removal_scores(subject, tokens, scores, labels[number])["deletion"]
        model = subject.remove(tokens)
        value = model.value if isinstance(model, PooledGame) else model
        np.random.seed(number)  # noqa: NPY002  # shap draws from the global state
        scores = kernel_shap(partial(_on_numbers, value), len(tokens), "auto")
        areas["SHAP"] = removal_scores(subject, tokens, scores, labels[number])["deletion"]
        out.append(areas)
    return out


def _on_numbers(value: Value, masks: Array) -> Array:
    return np.asarray(value(masks > 0.5))


def accuracies(
    run: Run, subject: Subject, imdb: tuple[list[Ids], Array], yelp: tuple[list[Ids], Array]
) -> None:
    """Rows of Table 4."""
    printed = {"BERT": (0.90, 0.88), "GPT-2": (0.74, 0.88)}.get(subject.paper or "", (None, None))
    for (documents, labels), paper, case, note in (
        (imdb, printed[0], f"accuracy on IMDB, first {T_MAX - 1} tokens", set_up(subject)),
        (
            yelp,
            printed[1],
            "accuracy on Yelp-HAT",
            "trained on IMDB alone; the paper trains on Yelp",
        ),
    ):
        right = (np.asarray(subject.f(documents)) > 0) == (np.asarray(labels) > 0)
        run.rows.append(
            mean_row("P2 Table 4", f"{subject.name}: {case}", right, paper, note, "reviews")
        )


def in_parts(
    run: Run, name: str, settings: dict[str, Any], count: int, compute: Blocks
) -> list[Any]:
    """`compute(start, stop)` for blocks of reviews, each kept, one after the other."""
    blocks = [(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    parts = [
        run.part(f"{name}-{start:03d}", {**settings, "stop": stop}, partial(compute, start, stop))
        for start, stop in blocks
    ]
    return [one for part in parts for one in part]


class Corpus(NamedTuple):
    """Reviews to explain: of IMDB with Naive Bayes scores of the words, of Yelp with what
    annotators chose.
    """

    imdb: list[Ids]
    labels: list[int]
    nb: Array
    yelp: list[Ids]
    yelp_labels: list[int]
    chosen: list[Array]
    the: int


def explain_subject(
    run: Run, name: str, subject: Subject, corpus: Corpus, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Every measure on both corpora, from the work folder where it is there."""
    samples = settings["samples"]

    def on_imdb(start: int, stop: int) -> list[Any]:
        labels = corpus.labels[start:stop]
        some = corpus.imdb[start:stop]
        return measure(subject, some, start, samples, labels, corpus.nb, None, corpus.the)

    def on_yelp(start: int, stop: int) -> list[Any]:
        labels = corpus.yelp_labels[start:stop]
        chosen = corpus.chosen[start:stop]
        return measure(subject, corpus.yelp[start:stop], start, samples, labels, None, chosen)

    both = {**settings, "measures": "both"}
    imdb = in_parts(run, f"imdb-{name}", both, len(corpus.imdb), on_imdb)
    yelp = in_parts(run, f"yelp-{name}", both, len(corpus.yelp), on_yelp)
    for table, texts in (("11a", corpus.imdb), ("11c", corpus.yelp)):
        sure = class_probability(np.abs(np.asarray(subject.f(texts))), True)
        case = (
            f"{subject.name}: probability of the predicted class, which deletion AOPC cannot exceed"
        )
        run.rows.append(
            mean_row(f"P2 Table {table}", case, sure, None, "not in the paper", "reviews")
        )
    return collect(imdb), collect(yelp)


def main(argv: list[str] | None = None) -> int:
    run = Run("reviews", __doc__ or "", argv, data=True)
    warnings.filterwarnings("ignore", module="shap")
    steps, count, samples = (60, 2, 200) if run.quick else (800, 100, 500)
    count = run.wanted(count)
    sizes = (500,) if run.quick else (500, 1000, 2000, 5000, 10000)
    model = first_model(run)
    vocabulary = model.vocabulary
    train = load_imdb(run.imdb, "train")
    nb = naive_bayes_scores(
        [vocabulary.encode(text) for text in train.texts], train.labels, len(vocabulary)
    )
    held = imdb_documents(run, vocabulary, count)
    documents = held.documents
    yelp, chosen, yelp_labels = yelp_documents(run, vocabulary, count)
    run.say("data read")
    settings = {"steps": steps, "samples": samples}
    (the,) = vocabulary.encode_words(["the"]).tolist()
    claims: dict[str, list[bool]] = defaultdict(list)
    curves: dict[str, dict[str, Array]] = {}
    for name in ("classifier", "encoder", "decoder"):
        if name == "classifier":
            subject = classifier(model.weights)
        else:
            subject = transformer(vocabulary, train, causal=name == "decoder", steps=steps)
        accuracies(run, subject, (held.test, held.test_labels), (yelp, np.array(yelp_labels)))
        on_imdb, on_yelp = explain_subject(
            run,
            name,
            subject,
            Corpus(documents, held.labels, nb, yelp, yelp_labels, chosen, the),
            settings,
        )
        subject_rows(run, subject, on_imdb, on_yelp)
        collect_claims(claims, on_imdb, on_yelp)
        curves[subject.name] = {
            method: np.mean(many, axis=0) for method, many in on_imdb["fidelity"].items()
        }
        if name != "classifier":
            scatter_rows(run, subject, on_imdb["scatter"])
            points = on_imdb["scatter"]["points"][0]
            draw_scatter(run, subject, vocabulary.decode(points[0]), points)
            compute = partial(table_14, subject, documents, held.labels, sizes)
            wanted = {"steps": steps, "sizes": list(sizes)}
            areas = collect(
                [{"areas": one} for one in in_parts(run, f"samples-{name}", wanted, count, compute)]
            )
            table_14_rows(run, subject, areas["areas"])
            few, shap = (float(np.mean(areas["areas"][key])) for key in ("500", "SHAP"))
            claims["500 match SHAP"].append(few >= shap - 0.02)
    claim_rows(run, claims, count)
    draw_figure(run, curves)
    return run.finish({**settings, "reviews": count, "removals": list(REMOVALS), "T_max": T_MAX})


if __name__ == "__main__":
    sys.exit(main())
