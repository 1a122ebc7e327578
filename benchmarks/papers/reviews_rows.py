"""Rows, claims and the picture of `reviews.py`: what was measured on 100 reviews beside what P2
prints.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attn_closed_form._types import Array

from .paper_tables import TABLE_9, TABLE_10, TABLE_11, TABLE_14
from .reproduction import Row, Run, claim, mean_row
from .text_models import Subject

REMOVALS = (1, 2, 3, 5, 7, 10)
LINEAR = ("LIME", "SHAP", "IG", "Grad", "LRP")
OWN = (
    "small transformer from scratch, whole words, reviews of 32 to 63 tokens (paper: fine-tuned, "
    "reviews of any length)"
)
P1_OWN = "not in the paper: P1's classifier, a removed token becomes [UNK]"
NO_BACKGROUND = (
    "a SLALOM lacks what always gets attention ([CLS], padding), which matters more as more tokens "
    "are removed; compare SLALOM-fidel + background"
)
BACKGROUND = "not in the paper: SLALOM with one additional token that is always present"
ELSEWHERE = "; trained on IMDB, the paper on Yelp"

# What the authors' code reports as AOPC (`missing_probability`), after the name of the curve.
AUTHORS = ", authors' measure"
OTHER_MEASURE = (
    "; f(document) minus the mean, the text's AOPC; the paper's tables have another measure"
)
# By measure and method, one number (of fidelity: one list) per review.
Measured = dict[str, dict[str, list[Any]]]


def collect(documents: list[dict[str, dict[str, Any]]]) -> Measured:
    """From one dictionary per review to one list per measure and method."""
    out: Measured = defaultdict(lambda: defaultdict(list))
    for one in documents:
        for measure, methods in one.items():
            for name, value in methods.items():
                out[measure][name].append(value)
    return out


def set_up(subject: Subject) -> str:
    """What differs from the paper's set-up."""
    return P1_OWN if subject.paper is None else OWN


def add_rows(
    run: Run, result: str, what: str, subject: Subject, many: dict[str, list[Any]], table: Any
) -> None:
    """One row per method."""
    for name, values in many.items():
        paper = table.get(subject.paper or "", {}).get(name)
        differs = set_up(subject)
        if subject.paper is not None and ("Yelp" in what or "human" in what):
            differs += ELSEWHERE
        if AUTHORS not in what and np.nanmean(values) < 0 and "insertion" in what:
            differs += (
                "; negative: the best tokens alone have a higher probability than the whole review"
            )
        if "AOPC" in what and AUTHORS not in what:
            paper = None
            differs += OTHER_MEASURE
        if paper is not None and "deletion" in what:
            differs += "; a short review and a small model leave less probability to lose"
        if name.endswith("background"):
            differs = f"{BACKGROUND}; scores by Eq. 64"
        if name.endswith("derivative"):
            differs = "not in the paper: the true derivative, Eq. 64, in place of Eq. 65"
        run.rows.append(
            mean_row(result, f"{subject.name}, {name}: {what}", values, paper, differs, "reviews")
        )


def subject_rows(run: Run, subject: Subject, imdb: Measured, yelp: Measured) -> None:
    """All tables for one model."""
    add_rows(
        run, "P2 Tables 1a, 9", "Spearman with Naive Bayes", subject, imdb["correlation"], TABLE_9
    )
    add_rows(run, "P2 Tables 1b, 10", "AU-ROC of human attention", subject, yelp["human"], TABLE_10)
    for kind, better in (("insertion", "low"), ("deletion", "high")):
        on_imdb = "P2 Table 1c" if kind == "insertion" else "P2 Table 11a"
        on_yelp = "P2 Table 11b" if kind == "insertion" else "P2 Table 11c"
        for measure in ("", AUTHORS):
            what = f"{kind} AOPC{measure} ({better} is good)"
            key = f"{kind}{measure}"
            add_rows(run, on_imdb, f"IMDB, {what}", subject, imdb[key], TABLE_11["IMDB", kind])
            add_rows(run, on_yelp, f"Yelp, {what}", subject, yelp[key], TABLE_11["Yelp", kind])
    fidelity_rows(run, subject, imdb["fidelity"])


def fidelity_rows(run: Run, subject: Subject, fidelity: dict[str, list[Any]]) -> None:
    """Fig. 6: the error of the predicted change, with the ratio to the best other method."""
    for name, many in fidelity.items():
        if "background" in name:
            note = BACKGROUND
        else:
            note = set_up(subject)
        for k in (1, 5, 10):
            case = (
                f"{subject.name}, {name.removesuffix(', v')}: MSE of the change, {k} tokens removed"
            )
            values = np.array(many)[:, REMOVALS.index(k)]
            run.rows.append(mean_row("P2 Fig. 6", case, values, None, note, "reviews"))
    means = {name: np.array(many).mean(axis=1) for name, many in fidelity.items()}
    second = min(LINEAR, key=lambda name: float(means[name].mean()))
    for name, paper in (("SLALOM-fidel, v", 0.3), ("SLALOM-fidel + background", None)):
        case = f"{subject.name}: MSE of {name.removesuffix(', v')} over the best other's ({second})"
        row = ratio_row("P2 Fig. 6", case, means[name], means[second])
        if paper is None:
            note = BACKGROUND
        else:
            note = set_up(subject)
        missed = paper is not None and float(row.ours) >= 0.9
        run.rows.append(
            row._replace(
                paper=paper, differs=f"disagrees: {NO_BACKGROUND}; {note}" if missed else note
            )
        )


def ratio_row(result: str, case: str, above: ArrayLike, below: ArrayLike) -> Row:
    """Ratio of two means over the same reviews, with the jackknife's standard error."""
    a = np.asarray(above, dtype=float)
    b = np.asarray(below, dtype=float)
    n = a.size
    without = (a.sum() - a) / (b.sum() - b)
    if n > 1:
        pm = float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))
    else:
        pm = None
    kind = "mean" if n > 1 else "once"
    return Row(
        result, case, float(a.mean() / b.mean()), ours_pm=pm, n=n, of="reviews", statistic=kind
    )


def table_14_rows(run: Run, subject: Subject, areas: dict[str, list[float]]) -> None:
    """Deletion AOPC by the number of samples, beside KernelSHAP's default."""
    for name, values in areas.items():
        if subject.paper == "BERT":
            paper = TABLE_14["SHAP" if name == "SHAP" else int(name)]
        else:
            paper = None
        if name == "SHAP":
            method = "SHAP, nsamples='auto'"
        else:
            method = f"SLALOM-eff, {name} samples"
        case = f"{subject.name}, {method}: deletion AOPC"
        run.rows.append(mean_row("P2 Table 14", case, values, paper, OWN, "reviews"))


def best(many: dict[str, list[Any]], names: tuple[str, ...], high: bool) -> float:
    """The best mean of some methods."""
    means = [np.nanmean(many[name]) for name in names if name in many]
    return float(max(means) if high else min(means))


def collect_claims(claims: dict[str, list[bool]], imdb: Measured, yelp: Measured) -> None:
    """Whether each sentence of the paper holds for the means of one model."""
    c = imdb["correlation"]
    h = yelp["human"]
    deleted = imdb["deletion"]
    claims["values beat importances"].append(
        best(c, ("SLALOM-eff, v",), True) > best(c, ("SLALOM-eff, s",), True)
    )
    others = ("SLALOM-eff, v", "SLALOM-eff, lin.")
    claims["importances best"].append(best(h, ("SLALOM-eff, s",), True) >= best(h, others, True))
    slalom = ("SLALOM-eff, lin.", "SLALOM-fidel, lin.")
    rivals = ("LIME", "SHAP", "LRP")
    for key, measure in (("lin. on par", ""), ("lin. on par, authors", AUTHORS)):
        areas = imdb[f"deletion{measure}"]
        claims[key].append(best(areas, slalom, True) >= best(areas, rivals, True) - 0.02)
        areas = imdb[f"insertion{measure}"]
        on_par = best(areas, slalom, False) <= best(areas, rivals, False) + 0.02
        claims[f"{key}, insertion"].append(on_par)
    for name in ("IG", "Grad"):
        claims[f"{name} bad"].append(
            best(deleted, (name,), True) < best(deleted, ("LIME", "SHAP"), True) - 0.1
        )
    fidelity = {name: np.array(many).mean(axis=0) for name, many in imdb["fidelity"].items()}
    own = fidelity["SLALOM-fidel, v"]
    better = fidelity["SLALOM-fidel + background"].mean() < min(
        own.mean(), *(fidelity[name].mean() for name in LINEAR)
    )
    claims["background best"].append(bool(better))
    claims["fidel best at 1"].append(bool(own[0] < min(fidelity[name][0] for name in LINEAR)))
    claims["fidel best"].append(bool(own.mean() < min(fidelity[name].mean() for name in LINEAR)))


WHY = "our models are small: see the standard errors"
MANY_REVIEWS = "importances of a small model's words, in all reviews instead of a chosen one"
SENTENCES = (
    (
        "P2 Tables 1a, 9",
        "values beat importances",
        "SLALOM's values agree with Naive Bayes more than importances",
        WHY,
    ),
    (
        "P2 Tables 1b, 10",
        "importances best",
        "importances predict human attention best among SLALOM's scores",
        WHY,
    ),
    (
        "P2 Tables 1c, 11",
        "lin. on par",
        "linearized SLALOM is on par with LIME, SHAP and LRP (0.02), deletion",
        WHY,
    ),
    (
        "P2 Tables 1c, 11",
        "lin. on par, insertion",
        "linearized SLALOM is on par with LIME, SHAP and LRP (0.02), insertion",
        WHY,
    ),
    (
        "P2 Tables 1c, 11 (authors' measure)",
        "lin. on par, authors",
        "linearized SLALOM is on par with LIME, SHAP and LRP (0.02), deletion",
        WHY,
    ),
    (
        "P2 Tables 1c, 11 (authors' measure)",
        "lin. on par, authors, insertion",
        "linearized SLALOM is on par with LIME, SHAP and LRP (0.02), insertion",
        WHY,
    ),
    (
        "P2 Tables 1c, 11",
        "IG bad",
        "IG is far worse than LIME and SHAP (deletion, by 0.1)",
        "from a document of [UNK]s, IG is a good explanation of these models; the paper names no "
        "baseline",
    ),
    (
        "P2 Tables 1c, 11",
        "Grad bad",
        "Grad is far worse than LIME and SHAP (deletion, by 0.1)",
        "one layer of attention is close to linear in its values, so that its gradient already "
        "ranks the tokens",
    ),
    (
        "P2 Fig. 6",
        "fidel best at 1",
        "SLALOM-fidel predicts the change best, 1 token removed",
        NO_BACKGROUND,
    ),
    (
        "P2 Fig. 6",
        "background best",
        "(ours) with a background token it does, mean over 1 to 10",
        WHY,
    ),
    (
        "P2 Fig. 6",
        "fidel best",
        "SLALOM-fidel predicts changes best, mean over 1 to 10",
        NO_BACKGROUND,
    ),
    ("P2 Table 14", "500 match SHAP", "500 samples are as good as SHAP (deletion AOPC, 0.02)", WHY),
)


def scatter_rows(run: Run, subject: Subject, many: dict[str, list[Any]]) -> None:
    """P2's Fig. 5 and 12 in numbers: importances and values of the words of every review."""
    result = "P2 Fig. 5, 12"
    case = f"{subject.name}: Spearman correlation of importance and |value|, SLALOM-eff"
    note = "paper: scatter plots of one review"
    run.rows.append(mean_row(result, case, many["agreement"], None, note, "reviews"))
    text = f"words of both signs are among the most important fifth, {subject.name}"
    run.rows.append(claim(result, text, many["both signs"], note, MANY_REVIEWS, "reviews"))
    the = [below for below in many["the"] if below is not None]
    if the:
        text = f"the importance of 'the' is below the median, {subject.name}"
        run.rows.append(claim(result, text, the, note, MANY_REVIEWS, "reviews with 'the'"))


def draw_scatter(run: Run, subject: Subject, words: list[str], points: list[list[float]]) -> None:
    """P2's Fig. 12 for the first review."""
    _, value, importance = points
    figure, axes = run.figure(figsize=(9, 5.5))
    axes.plot(value, importance, ".", color="tab:blue")
    for i, (word, x, y) in enumerate(zip(words, value, importance, strict=True)):
        # Neighbors in a review get their labels on different sides.
        above = 4 if i % 2 else -10
        axes.annotate(word, (x, y), xytext=(3, above), textcoords="offset points", fontsize=9)
    axes.axvline(0, color="0.7", linewidth=0.8)
    axes.margins(x=0.08)
    axes.set(
        xlabel="value v",
        ylabel="importance s",
        title=f"{subject.name}: SLALOM-eff of one review (P2 Fig. 5, 12)",
    )
    run.save(figure, f"_scatter_{subject.name.split(',')[0]}")


def claim_rows(run: Run, claims: dict[str, list[bool]], count: int) -> None:
    """The sentences as counts over the models."""
    for result, key, text, reason in SENTENCES:
        note = "over the models: P1's classifier, encoder, decoder (Table 14: the last two)"
        run.rows.append(
            claim(result, text, claims[key], note, reason, f"models, {count} reviews each")
        )


# Line styles of Fig. 6, by what a method's name has; the rest is dashed.
STYLES = (("exact LIME", "k:"), ("exact", "k-"), ("SLALOM", "-"))


def draw_figure(run: Run, curves: dict[str, dict[str, Array]]) -> None:
    """P2 Fig. 6, with one legend below all panels."""
    figure, axes = run.figure(ncols=len(curves), figsize=(12, 5), sharey=True)
    for at, (name, methods) in zip(axes, curves.items(), strict=True):
        for method, curve in methods.items():
            style = next((line for part, line in STYLES if part in method), "--")
            at.semilogy(REMOVALS, curve, style, label=method.removesuffix(", v"))
        at.set(title=name, xlabel="tokens removed")
    axes[0].set_ylabel("MSE of the predicted change (P2 Fig. 6)")
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=5, fontsize=10)
    run.save(figure)
