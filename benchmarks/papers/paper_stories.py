"""The parts of a paper's page that are about this paper alone: its main table, and what the
authors' repository answers. All numbers come from the result files and `authors_values.json`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import authors
from .terms import (
    APPENDIX_F,
    DELETED,
    EXACT,
    FIGURE,
    MOVED,
    PRINTED,
    UNK_POSITIONS,
    UNK_WORDS,
    WITH_KERNEL,
)

Record = dict[str, Any]

SHORT_WAYS = {
    DELETED: "words deleted",
    UNK_WORDS: "[UNK] for words",
    UNK_POSITIONS: "[UNK] for tokens",
}
GROWTH = "P1 Theorem 5.1 (T_max grows)"


class Rows:
    """The rows of the result files, by result and case."""

    def __init__(self, records: list[Record]) -> None:
        self.rows = [row for r in records for row in r["rows"] if "result" in row]

    def find(self, result: str, *parts: str) -> list[Record]:
        """All rows of a result whose case has all the parts."""
        return [
            row
            for row in self.rows
            if row["result"] == result and all(part in row["case"] for part in parts)
        ]

    def number(self, result: str, *parts: str, claims: bool = False) -> str:
        """Our number of the first such row, or of the first claim; empty if there is none."""
        for row in self.find(result, *parts):
            if row["case"].startswith("claim: ") == claims:
                ours = row["ours"]
                return ours.removeprefix("holds in ") if isinstance(ours, str) else f"{ours:.3g}"
        return ""


def table(header: list[str], lines: list[list[str]]) -> str:
    """A table in Markdown; nothing if it has no lines."""
    if not lines:
        return ""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


FORMS = (
    PRINTED,
    "first order, corrected",
    "mean field, corrected",
    WITH_KERNEL,
    EXACT,
    MOVED,
)


def table_of_forms(rows: Rows, result: str, ways: dict[str, str]) -> str:
    """Each form under each way to leave a word out: reviews that it is near to, the mean error,
    and the mean correlation.
    """
    lines = []
    for name in FORMS:
        cells = []
        for way in ways:
            holds = rows.number(result, f"{name} is within", way, claims=True)
            error = rows.number(result, f"{way}: {name}: relative norm-2 error")
            follows = rows.number(result, f"{way}: {name}: Pearson correlation")
            numbers = ", ".join(number for number in (error, follows) if number)
            cells.append(f"{holds} ({numbers})" if holds else "")
        if any(cells):
            lines.append([name, *cells])
    return table(["form", *ways.values()], lines)


def forms_of_theorem_5_1(rows: Rows) -> list[str]:
    """P1: every form against LIME, under the three ways to leave a word out."""
    ours = table_of_forms(rows, FIGURE, SHORT_WAYS)
    if not ours:
        return []
    (_, sample), *_ = [
        (row["case"], f"{row['n']} {row['of']}")
        for row in rows.find(FIGURE, f"{PRINTED} is within", DELETED)
    ]
    best = rows.number(FIGURE, f"{MOVED} is within", DELETED, claims=True)
    return [
        "## Theorem 5.1 and LIME, compared by one measure",
        f"Each cell has the number of {sample} in which the form is within 10% of the mean of five "
        "runs of LIME, and in brackets the mean relative error and the mean correlation. The "
        "reviews are the same in all cells. The lime package deletes words by default, which the "
        "authors ran; the theorem puts [UNK] in their place.",
        ours,
        "The corrected first order, which is right as T_max grows, is *further* from LIME than the "
        "printed theorem at the paper's size. Neither is close. What is close under deletion is a "
        "mean field with LIME's kernel in which the words behind a deleted one move up "
        f"({best} reviews; [`lime_deletion`](../../benchmarks/papers/lime_deletion.py)). With "
        "[UNK] in place, the library's `lime_mean_field` with LIME's kernel and the exact limit "
        "(`lime_limit`) are close. Under deletion both miss LIME by what the positions change.",
        "![Errors of every form](../../benchmarks/figures/paper1_lime_forms.png)",
        *trained_as_appendix_f(rows),
    ]


def trained_as_appendix_f(rows: Rows) -> list[str]:
    """P1: the same on a model with the paper's settings to the letter."""
    ways = {way: name for way, name in SHORT_WAYS.items() if way != UNK_POSITIONS}
    forms = table_of_forms(rows, APPENDIX_F, ways)
    if not forms:
        return []
    accuracy = float(rows.find(APPENDIX_F, "accuracy on the test reviews")[0]["ours"])
    held = float(rows.find(APPENDIX_F, "share of the attention")[0]["ours"])
    few = rows.number(APPENDIX_F, "tokens that share")
    many = rows.number("P1 sec. 6, B.1", "tokens that share")
    factor = rows.number(APPENDIX_F, DELETED, "multiple of Eq. 19")
    norm, deviation = rows.find(APPENDIX_F, f"{DELETED}: {PRINTED}: norm-2 error")[:2]
    card = authors.values()["P1"]["model"]
    return [
        "### The same with the settings of appendix F",
        "The model above has the paper's sizes and our settings of the training. This one is "
        f"trained as appendix F says: AdamW with a learning rate of {card['LR']}, batches of "
        f"{card['BATCH_SIZE']} and {card['EPOCHS']} epochs. It is right about {accuracy:.1%} of "
        f"the test reviews, where the authors' model card has {float(card['Test accuracy']):.1f}%. "
        "The norm-2 error of the printed theorem, for one of two mirrored logits, is "
        f"{norm['ours'] / 2:.2f} with a deviation of {deviation['ours'] / 2:.2f}, where the paper "
        f"has {norm['paper']} and {deviation['paper']}. The multiple of Eq. 19 without its 3/2 that is nearest to LIME "
        f"is {factor} on average (the authors' review: {authors.best_factor():.2f}).",
        forms,
        f"A review's own words hold {held:.0%} of the attention, and effectively {few} tokens share "
        f"a head's attention on them; in our training {many} do. A mean field replaces the mean of a ratio "
        "by the ratio of the means, which is wrong where the absence of one token changes the "
        "denominator by much. So every closed form above fails here, and the exact limit, which "
        "makes no such step, holds with [UNK] in place. Under deletion the words behind move up, "
        "and no form of ours holds on this model.",
    ]


def growing_t_max(rows: Rows) -> list[str]:
    """P1: the same reviews with more padding."""
    sizes = [
        row["case"].split(":")[0] for row in rows.find(GROWTH, "share of the attention on the")
    ]
    forms = [PRINTED, "first order, corrected", "first and next order, corrected"]
    forms.append("mean field, corrected")
    lines = []
    for size in sizes:
        held = rows.number(GROWTH, f"{size}: share of the attention")
        factor = rows.number(GROWTH, f"{size}: factor of the mean field, LIME's kernel")
        errors = [
            rows.number(GROWTH, f"{size}, infinite bandwidth, no ridge: {name}: error")
            for name in forms
        ]
        lines.append([size.removeprefix("T_max = "), held, factor, *errors])
    if not lines:
        return []
    return [
        "### Why: the words hold most of the attention",
        "The theorem lets T_max grow for a fixed document. Here a trained model keeps its weights "
        "and reviews, and gets more padding. The errors are relative to LIME's exact limit in the "
        "theorem's regime (infinite bandwidth, [UNK] in place), without sampling.",
        table(["T_max", "attention on the review", "factor", *forms], lines),
        "At T_max = 256 the words hold most of the attention. LIME looks at half-empty reviews, in "
        "which a word that is left weighs more: the factor, which the theorem takes from full "
        "reviews, is near 3/2 with LIME's kernel. That is how the printed 3/2 can look right in "
        "Fig. 4, although the constant of the theorem is 1. The next order of the series comes "
        "from the softmax's denominator alone; it halves the error at this size and is not enough. "
        "Summed up, the series is the mean field.",
        "![Errors by T_max and by length](../../benchmarks/figures/paper1_growth.png)",
    ]


def attention_repository() -> list[str]:
    """What P1's repository answers."""
    stored = authors.values()["P1"]
    _, lime, printed = authors.figure_4()
    scores = stored["figure 1"]["scores"]
    negative = [name for name, words in scores.items() if words["questionable"] < 0]
    theory, autodiff = (np.array(stored["figure 5"][name]) for name in ("theory", "autodiff"))
    equal = int((theory[1:] == autodiff[1:]).all(axis=1).sum())
    error = authors.relative_error(lime, printed)
    plain = authors.relative_error(lime, printed / 1.5)
    model = stored["model"]
    shown = stored["figure 5"]["coordinates in the figure"]
    return [
        f"The notebooks of [{stored['repository']}](https://github.com/{stored['repository']}) "
        "store their outputs. [`authors`](../../benchmarks/papers/authors.py) has the values with "
        "their cells.",
        "\n".join(
            [
                f"- **Figure 4**: LIME's mean over five runs and Eq. 19 for all {lime.size} words. "
                f"The relative error of Theorem 5.1 is {error:.0%} with 3/2 and {plain:.0%} with "
                "the "
                f"constant 1; the best multiple is {authors.best_factor():.3f}.",
                f"- **Figure 5**: the row of [CLS] differs ({theory[0, 0]:.3f} by the theorem, "
                f"{autodiff[0, 0]:.3f} by autodiff, and {theory[0, 1]:.3f} against "
                f"{autodiff[0, 1]:.3f}); the other {equal} printed rows agree in all digits. "
                f'"d_e = 80" means the first {shown} of {model["EMBED_DIM"]} coordinates.',
                f"- **Figure 1**: {len(negative)} methods find 'questionable' negative, "
                f"{', '.join(negative)}; the caption names two.",
                f"- **Model**: {float(model['Test accuracy']):.2f}% test accuracy with the "
                f"settings of appendix F (learning rate {model['LR']}, batches of "
                f"{model['BATCH_SIZE']}, {model['EPOCHS']} epochs).",
            ]
        ),
    ]


def expressions_of_tables_7_8(rows: Rows) -> list[str]:
    """P2: the numbers of Tables 7 and 8 next to both expressions."""
    lines = []
    for result, name in (("P2 Table 7", "the log-odds"), ("P2 Table 8", "s and v")):
        for row in rows.find(result, f": MSE x 100 of {name}"):
            if not row["case"].endswith(f"of {name}") or "paper" not in row:
                continue
            kind = row["case"].split(":")[0]
            mean = f"{kind}: squared mean difference x 100 of"
            network = ["", ""]
            if result == "P2 Table 7":
                network = [
                    rows.number(result, f"{kind}: MSE x 100 of the network's log-odds"),
                    rows.number(result, f"{mean} the network's log-odds"),
                ]
            ours = [f"{row['ours']:.3g}", rows.number(result, f"{mean} {name}")]
            lines.append([name, kind, f"{row['paper']:g}", *ours, *network])
    if not rows.find("P2 Tables 7, 8"):
        return []
    text = [
        "## Tables 7 and 8: mean squared errors or squared mean differences?",
        "The notebook that draws Fig. 4 (c, d) computes its RMSE as sqrt(mean(a - b)^2), which is "
        "the mean difference, and compares with the transformer's outputs instead of the true "
        "log-odds. The code of the tables is not public. Here transformers are trained on data of a "
        "SLALOM, and every error is computed both ways. All numbers are times 100; the printed ones "
        "are those of BERT and GPT-2.",
        table(
            [
                "of",
                "model",
                "printed",
                "mean squared error",
                "squared mean difference",
                "the same two against the network",
                "",
            ],
            lines,
        ),
    ]
    for what in ("log-odds", "log-odds, against the network", "parameters"):
        start = f"the numbers for the {what} are nearer"
        square = rows.number("P2 Tables 7, 8", f"claim: {start}", claims=True)
        mean = rows.number("P2 Tables 7, 8", f"claim: (ours) {start}", claims=True)
        text.append(
            f"Of the printed numbers for the {what}, {square} are nearer to our mean squared errors "
            f"and {mean} to our squared mean differences, in decades."
        )
    kinds = {"few": "38,400 labels", "exact": "labels without noise"}
    odds = {
        name: rows.number("P2 Table 7", "variance of the true log-odds", part, claims=True)
        for name, part in kinds.items()
    }
    scores = {
        name: rows.number("P2 Table 8", "variance of the true ones", part, claims=True)
        for name, part in kinds.items()
    }
    text.append(
        "The models here are smaller than the paper's and know ten words instead of up to 200, so "
        "that sizes can be compared and digits cannot. The tables' rows of twelve layers were not "
        "retrained."
    )
    text.append(
        "Whether a SLALOM is recovered depends on the labels. From labels without noise, the fit "
        f"explains 90% of the variance of the true log-odds in {odds['exact']} runs and 75% of "
        f"that of the parameters in {scores['exact']}. From 38,400 drawn labels, a tenth of the "
        f"paper's, it does in {odds['few']} and {scores['few']} (these thresholds are ours; the "
        "paper shows scatter plots). So the claim of the section stands where the labels suffice, "
        "and the numbers of the tables do not show it."
    )
    text.append(
        "![Recovered SLALOMs, and which expression was printed]"
        "(../../benchmarks/figures/recovery.png)"
    )
    return text


def areas_of_table_11(rows: Rows) -> list[str]:
    """P2: deletion and insertion by both measures."""
    lines = []
    for result, kind in (("P2 Table 1c", "insertion"), ("P2 Table 11a", "deletion")):
        for name in ("encoder", "decoder"):
            for method in ("SLALOM-eff, lin.", "LIME", "SHAP", "LRP"):
                theirs = rows.find(result, f"{name}, L = 2, {method}:", "authors' measure")
                text = rows.number(result, f"{name}, L = 2, {method}:", "AOPC (")
                if theirs and text:
                    ours = f"{theirs[0]['ours']:.3g}"
                    printed = theirs[0].get("paper", "")
                    printed = f"{printed:g}" if printed != "" else ""
                    lines.append([kind, f"{name}, L = 2", method, printed, ours, text])
    if not lines:
        return []
    return [
        "## Deletion and insertion: two measures under one name",
        "The text defines the AOPC, f(document) minus the mean. The authors' code reports 1 minus "
        "the mean probability of the true class at every fifth token, and only that can be put "
        "next "
        "to Tables 1c, 11 and 12. Printed numbers are those of BERT for the encoder and GPT-2 for "
        "the decoder; ours are small models on short reviews.",
        table(
            ["curve", "model", "scores", "printed", "ours, the tables' measure", "ours, AOPC"],
            lines,
        ),
    ]


def slalom_repository() -> list[str]:
    """What P2's repository answers."""
    stored = authors.values()["P2"]
    fit = stored["recovery"]["s by |v|^1.5"]
    large = stored["table 15"]["AU-ROC and standard error"]
    cells = "; ".join(
        f"{name} {', '.join(f'{numbers[0]:.3f}' for numbers in scores.values())}"
        for name, scores in large.items()
    )
    return [
        f"The repository [{stored['repository']}](https://github.com/{stored['repository']}) has "
        "data and outputs that the paper leaves open. "
        "[`authors`](../../benchmarks/papers/authors.py) has the values with their files.",
        "\n".join(
            [
                f"- **Eq. 81** was run with |v|: the file of {stored['recovery']['words']} words "
                "has "
                f"s = {fit['slope']:.3f} |v|^1.5 {fit['offset']:+.3f} with a residual deviation of "
                f"{fit['residual standard deviation']:.2f}, and {fit['words of negative value']} "
                "negative values.",
                "- **Algorithm 2** ends after its first s-step in the code.",
                f"- **Table 15**: the notebook stores other numbers ({cells}; values, importances, "
                "linear scores).",
                "- **Fig. 4 (c, d)**: the RMSE is the mean difference, and the comparison is with "
                "the "
                "transformer's outputs.",
                "- **Tables 1c, 11, 12**: see the two measures above.",
            ]
        ),
    ]
