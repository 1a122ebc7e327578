"""The rows of RESULTS.md on MiniLM: numbers with standard errors, and P2's claims as paired
differences.

A claim is tested on differences within each document: it holds for the model if their mean is
positive, and the mean stands beside it with its standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attn_closed_form._types import Array

from .minilm_model import SENTENCES, SHORTEST
from .minilm_rivals import FITS, PACKAGE, Found
from .paper_tables import TABLE_2, TABLE_9, TABLE_10, TABLE_11
from .reproduction import Row, claim, mean_row
from .reviews_rows import OTHER_MEASURE

MODEL = "MiniLM"
BESIDE = "BERT"
OWN = (
    f"MiniLM, 22 million parameters (paper: BERT); first sentences of reviews, {SHORTEST} to "
    f"{SENTENCES} tokens"
)
OURS_ALONE = "not in the paper"
SLALOM_LINEAR = ("SLALOM-eff, lin.", "SLALOM-fidel, lin.")
GRADIENTS = ("Grad", "IG", "LRP")
LINEAR = ("LIME", "SHAP", *GRADIENTS)
ON_PAR = 0.02
# Documents from which on a claim is said to hold or not.
DECIDES = 50
FAR = 0.1


@dataclass
class Measured:
    """What `minilm.py` measured, one entry per document; names of methods are those of
    `minilm_rivals.py`.
    """

    found: list[dict[str, Found]]
    samples: int
    areas: list[dict[str, list[float]]] = field(default_factory=list)
    fidelity: list[dict[str, list[float]]] = field(default_factory=list)
    bayes: list[dict[str, float]] = field(default_factory=list)
    yelp: list[dict[str, Found]] = field(default_factory=list)
    human: list[dict[str, float]] = field(default_factory=list)
    right: list[list[bool]] = field(default_factory=list)


def all_rows(measured: Measured) -> list[Row]:
    """Everything that has been measured, in the order of the paper's tables."""
    rows = accuracy_rows(measured)
    if measured.found:
        rows += score_rows("P2 Tables 1a, 9", "Spearman with Naive Bayes", measured.bayes, TABLE_9)
        rows += bayes_claims(measured.bayes)
    if measured.human:
        rows += score_rows(
            "P2 Tables 1b, 10", "Yelp-HAT, AU-ROC of human attention", measured.human, TABLE_10
        )
        rows += human_claims(measured.human)
    if measured.found:
        rows += area_rows(measured.areas) + fidelity_rows(measured.fidelity)
        rows += cost_rows(measured.found, measured.samples)
    return rows


def column(rows: Sequence[dict[str, Any]], name: str) -> Array:
    """One number per document."""
    return np.array([row[name] for row in rows], dtype=float)


def best(
    rows: Sequence[dict[str, float]], names: Sequence[str], high: bool = True
) -> tuple[str, Array]:
    """The method with the best mean, and its numbers."""
    means = {
        name: np.nanmean(column(rows, name)) * (1 if high else -1)
        for name in names
        if name in rows[0]
    }
    winner = max(means, key=lambda name: means[name])
    return winner, column(rows, winner)


def for_model(result: str, text: str, margins: ArrayLike, why: str) -> Row:
    """A claim of the paper for this model: it holds if the mean of the margins, one per document,
    is positive.

    With fewer than `DECIDES` documents the margin stands there as a number, and nothing is decided.
    """
    x = np.asarray(margins, dtype=float)
    x = x[np.isfinite(x)]
    if x.size < DECIDES:
        few = (
            f"positive where the claim holds; {why}; fewer than {DECIDES} documents, so nothing is "
            "decided"
        )
        return mean_row(result, f"{MODEL}, margin: {text}", x, None, few)
    mean = float(x.mean())
    pm = float(x.std(ddof=1) / np.sqrt(x.size))
    if abs(mean) > 2 * pm:
        unsure = ""
    else:
        unsure = ", within two standard errors of zero"
    words = f"mean margin {mean:.3g} ± {pm:.2g} over {x.size} documents{unsure}; {why}"
    return claim(result, f"{text} ({MODEL})", [mean > 0], words, of="models")


def difference(result: str, text: str, margins: ArrayLike, why: str) -> Row:
    """A comparison that the paper does not make."""
    return mean_row(result, f"{MODEL}, difference: {text}", margins, None, f"{OURS_ALONE}; {why}")


def accuracy_rows(measured: Measured) -> list[Row]:
    """Accuracy on the documents that are explained."""
    return [
        mean_row(
            "P2 Table 4",
            f"{MODEL}: accuracy on the {name}",
            np.array(right, dtype=float),
            paper,
            OWN,
        )
        for name, right, paper in (
            ("first sentences that are explained, IMDB", measured.right[0], 0.90),
            ("Yelp-HAT reviews that are explained; trained on IMDB", measured.right[1], 0.88),
        )
        if right
    ]


def score_rows(result: str, what: str, rows: list[dict[str, float]], table: Any) -> list[Row]:
    """A number per method."""
    out = []
    for name in rows[0]:
        paper = table[BESIDE].get(name)
        many = column(rows, name)
        out.append(
            mean_row(
                result,
                f"{MODEL}, {name}: {what}",
                many[np.isfinite(many)],
                paper,
                _differs(name, paper),
            )
        )
    return out


def _differs(name: str, paper: Any) -> str:
    if name.startswith(PACKAGE):
        return f"{OURS_ALONE}: the authors' package, at its defaults"
    if paper is None:
        return f"{OURS_ALONE} for {BESIDE}"
    return OWN + ("; partition explainer (paper: KernelSHAP)" if name == "SHAP" else "")


def bayes_claims(rows: list[dict[str, float]]) -> list[Row]:
    """P2 section 6.2."""
    result = "P2 Tables 1a, 9"
    winner, other = best(rows, LINEAR)
    values = column(rows, "SLALOM-eff, v")
    return [
        for_model(
            result,
            "SLALOM's values agree with Naive Bayes more than importances",
            values - column(rows, "SLALOM-eff, s"),
            "SLALOM-eff, difference of the correlations",
        ),
        difference(
            result,
            f"correlation of SLALOM-eff's values minus that of {winner}",
            values - other,
            "the best other",
        ),
    ]


def human_claims(rows: list[dict[str, float]]) -> list[Row]:
    """P2 section 6.2, human attention."""
    result = "P2 Tables 1b, 10"
    own, values = best(rows, ("SLALOM-eff, v", "SLALOM-eff, lin."))
    importances = column(rows, "SLALOM-eff, s")
    claimed = for_model(
        result,
        "importances predict human attention best among SLALOM's scores",
        importances - values,
        f"SLALOM-eff; the better of its values and its linear scores is {own}",
    )
    return [
        claimed,
        *(
            difference(
                result,
                f"AU-ROC of SLALOM-eff's importances minus that of {name}",
                importances - column(rows, name),
                why,
            )
            for name, why in (
                (best(rows, ("LIME", "SHAP", "LRP"))[0], "the best of LIME, SHAP and LRP"),
                (best(rows, ("attention", "rollout"))[0], "the better kind of attention"),
            )
        ),
    ]


def area_rows(areas: list[dict[str, list[float]]]) -> list[Row]:
    """Deletion and insertion, and the claims on them."""
    deletion = [{name: pair[0] for name, pair in row.items()} for row in areas]
    insertion = [{name: pair[1] for name, pair in row.items()} for row in areas]
    table = {kind: TABLE_11["IMDB", kind] for kind in ("deletion", "insertion")}
    scored = score_rows(
        "P2 Table 11a", "IMDB, deletion AOPC (high is good)", deletion, table["deletion"]
    )
    scored += score_rows(
        "P2 Table 1c", "IMDB, insertion AOPC (low is good)", insertion, table["insertion"]
    )
    # The tables have the authors' measure, so that their numbers cannot stand next to these.
    rows = [
        row._replace(paper=None, paper_pm=None, differs=row.differs + OTHER_MEASURE)
        for row in scored
    ]
    for kind, many, high in (("deletion", deletion, True), ("insertion", insertion, False)):
        rows += area_claims(kind, many, high)
    return rows


def area_claims(kind: str, many: list[dict[str, float]], high: bool) -> list[Row]:
    """What P2 says of its Tables 1c and 11, in one of the two directions."""
    result = "P2 Tables 1c, 11"
    sign = 1 if high else -1
    mine, slalom = best(many, SLALOM_LINEAR, high)
    winner, other = best(many, ("LIME", "SHAP", "LRP"), high)
    surrogate, sampled = best(many, ("LIME", "SHAP"), high)
    derivative = column(many, "SLALOM-fidel, derivative")
    return [
        for_model(
            result,
            f"linearized SLALOM is on par with LIME, SHAP and LRP ({ON_PAR}), {kind}",
            sign * (slalom - other) + ON_PAR,
            f"{mine} against {winner}",
        ),
        *(
            for_model(
                result,
                f"{name} is far worse than LIME and SHAP (by {FAR}), {kind}",
                sign * (sampled - column(many, name)) - FAR,
                f"against {surrogate}; {how}",
            )
            for name, how in (("IG", "IG starts from [PAD]s"), ("Grad", "gradient times input"))
        ),
        difference(
            result,
            f"{kind} AOPC of SLALOM-fidel's derivative (Eq. 64) minus that of Eq. 65 as printed",
            derivative - column(many, "SLALOM-fidel, lin."),
            "both from the same fit",
        ),
    ]


def fidelity_rows(fidelity: list[dict[str, list[float]]]) -> list[Row]:
    """P2 Fig. 6, and whether SLALOM-fidel predicts best."""
    rows = []
    mean = [{name: float(np.mean(errors)) for name, errors in row.items()} for row in fidelity]
    first = [{name: errors[0] for name, errors in row.items()} for row in fidelity]
    for what, many in (("1 token removed", first), ("mean over 1 to 10 tokens removed", mean)):
        for name in many[0]:
            case = f"{MODEL}, {name}: MSE of the change, {what}"
            rows.append(
                mean_row(
                    "P2 Fig. 6",
                    case,
                    column(many, name),
                    None,
                    _differs(name, name in LINEAR or None),
                )
            )
        winner, other = best(many, LINEAR, high=False)
        rows.append(
            for_model(
                "P2 Fig. 6",
                f"SLALOM-fidel predicts the change best, {what}",
                other - column(many, "SLALOM-fidel"),
                f"the best linear method is {winner}",
            )
        )
        rows.append(
            difference(
                "P2 Fig. 6",
                f"MSE of the package's SLALOM-fidel minus that of ours, {what}",
                column(many, f"{PACKAGE} fidel") - column(many, "SLALOM-fidel"),
                "same budget of model calls",
            )
        )
    ratio = float(
        np.mean(column(mean, "SLALOM-fidel")) / np.mean(best(mean, LINEAR, high=False)[1])
    )
    case = f"{MODEL}: MSE of SLALOM-fidel over the best linear method's, mean over 1 to 10"
    return [*rows, Row("P2 Fig. 6", case, ratio, 0.3, OWN, n=len(mean), statistic="once")]


def cost_rows(found: list[dict[str, Found]], samples: int) -> list[Row]:
    """P2 Table 2: processor seconds and model calls."""
    result = "P2 Tables 2, 13"
    own = (
        f"processor seconds of one CPU thread, {samples} model calls (paper: an A100, 5,000 "
        "samples); compare ratios"
    )
    seconds = [{name: one["seconds"] for name, one in row.items()} for row in found]
    rows = []
    for name in seconds[0]:
        calls = np.mean([row[name]["calls"] for row in found])
        alone = np.median([row[name]["seconds without the model"] for row in found])
        if name not in FITS:
            inside = ""
        else:
            inside = f", of which {alone * 1e3:.3g} ms without the model (median)"
        case = f"{MODEL}, {name}: seconds for {calls:.0f} model calls{inside}"
        paper = TABLE_2.get(name)
        rows.append(
            mean_row(
                result, case, column(seconds, name), paper, own if paper else _differs(name, None)
            )
        )
    eff = column(seconds, "SLALOM-eff")
    surrogates = [column(seconds, name) for name in ("SLALOM-fidel", "LIME", "SHAP")]
    cheap = np.max([column(seconds, name) for name in GRADIENTS], axis=0)
    shap = column(seconds, "SHAP")
    return [
        *rows,
        for_model(
            result,
            "SLALOM-eff is the fastest surrogate",
            np.min(surrogates, axis=0) - eff,
            "seconds",
        ),
        for_model(
            result, "SHAP is the slowest", shap - np.max([*surrogates[:2], eff], axis=0), "seconds"
        ),
        for_model(
            result,
            "Grad, IG and LRP are far cheaper than surrogates (ten times)",
            np.min([*surrogates, eff], axis=0) - 10 * cheap,
            "seconds; IG takes 32 forward and backward passes",
        ),
    ]
