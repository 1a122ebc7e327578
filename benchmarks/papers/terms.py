"""How a claim was judged: what stands for an absent word, the measure of one case, and from which
value on it is true.

A row "claim: ..." of a result file carries these fields, and two rows can be compared only if
theirs are the same. The sample is the row's `n` and `of`, the statement its text. The table has one
entry per claim; a claim without one cannot be made (`of_claim`), so that no comparison leaves out
what it compares.
"""

from __future__ import annotations

from typing import NamedTuple

# What stands for an absent word.
DELETED = "deleted (bow=True, the package's default)"
UNK_WORDS = "[UNK] in place of every occurrence of a word"
UNK_POSITIONS = "[UNK] in place of single tokens (bow=False)"
TOKENS_DELETED = "deleted"
KIND_OF_MODEL = "deleted; for P1's classifier, [UNK] in place"
NONE_ABSENT = "none"


# P1's Fig. 4: its place in the tables, runs of LIME, and the forms that are compared with them.
FIGURE = "P1 Fig. 4"
APPENDIX_F = "P1 Fig. 4 (appendix F)"
RUNS = 5
PRINTED = "Theorem 5.1 as printed"
WITH_KERNEL = "mean field with LIME's kernel"
EXACT = "exact limit under [UNK]"
MOVED = "mean field with LIME's kernel, words moved up"


class Terms(NamedTuple):
    """Fields of a claim besides its statement and its sample."""

    absent: str
    measure: str
    threshold: str


# Correlations of P1 section 4.2 count as such from here on; the paper names no number.
HALF = "0.5"
CORRELATION = "Pearson correlation of a review's token scores"
FEW_PERCENT = "10% of the norm"
NEAR_FIVE_RUNS = (
    "norm of the difference to the mean of five runs of LIME, over the norm of that mean"
)
NEAR_LIMIT = "norm of the difference to LIME's exact limit, over the norm of the limit"
AREAS = (
    "area over the curve as f(document) minus the mean, in the probability of the predicted class"
)
MISSING = (
    "1 - mean probability of the true class at every fifth token, as the authors' code computes"
)

FOLLOWING = "Pearson correlation with the mean of five runs of LIME"
AT_LEAST = "at least 0.9"

ON_PAR = "at most 0.02 worse than the best of the others"

# (result, part of the claim's text): how it is judged. The most specific part decides.
TABLE: dict[tuple[str, str], Terms] = {
    ("P1 Fig. 1", "two strongest words"): Terms(
        UNK_WORDS, "rank of 'questionable' by absolute score", "at most 2 for all seven methods"
    ),
    ("P1 Fig. 1", "alone find 'questionable' negative"): Terms(
        UNK_WORDS,
        "sign of the score of 'questionable'",
        "negative for the methods that are named, and for no other",
    ),
    ("P1 Fig. 1", "'popular' is first"): Terms(
        UNK_WORDS, "word of the largest absolute score", "'popular' for attention alone"
    ),
    ("P1 Fig. 1 (authors' values)", "two strongest words"): Terms(
        DELETED, "rank of 'questionable' by absolute score", "at most 2 for all seven methods"
    ),
    ("P1 Fig. 1 (authors' values)", "alone find 'questionable' negative"): Terms(
        DELETED,
        "sign of the score of 'questionable'",
        "negative for the methods that are named, and for no other",
    ),
    ("P1 Fig. 1 (authors' values)", "'popular' is first"): Terms(
        DELETED, "word of the largest absolute score", "'popular' for attention alone"
    ),
    ("P1 Fig. 3", "heads concentrate on different tokens"): Terms(
        NONE_ABSENT, "different favorite tokens of the six heads", "at least 2"
    ),
    ("P1 Fig. 4", DELETED): Terms(DELETED, NEAR_FIVE_RUNS, FEW_PERCENT),
    ("P1 Fig. 4", UNK_WORDS): Terms(UNK_WORDS, NEAR_FIVE_RUNS, FEW_PERCENT),
    ("P1 Fig. 4", UNK_POSITIONS): Terms(UNK_POSITIONS, NEAR_FIVE_RUNS, FEW_PERCENT),
    ("P1 Fig. 4", f"follows the mean of {RUNS} runs, {DELETED}"): Terms(
        DELETED, FOLLOWING, AT_LEAST
    ),
    ("P1 Fig. 4", f"follows the mean of {RUNS} runs, {UNK_WORDS}"): Terms(
        UNK_WORDS, FOLLOWING, AT_LEAST
    ),
    ("P1 Fig. 4", f"follows the mean of {RUNS} runs, {UNK_POSITIONS}"): Terms(
        UNK_POSITIONS, FOLLOWING, AT_LEAST
    ),
    (APPENDIX_F, DELETED): Terms(DELETED, NEAR_FIVE_RUNS, FEW_PERCENT),
    (APPENDIX_F, UNK_WORDS): Terms(UNK_WORDS, NEAR_FIVE_RUNS, FEW_PERCENT),
    (APPENDIX_F, f"follows the mean of {RUNS} runs, {DELETED}"): Terms(
        DELETED, FOLLOWING, AT_LEAST
    ),
    (APPENDIX_F, f"follows the mean of {RUNS} runs, {UNK_WORDS}"): Terms(
        UNK_WORDS, FOLLOWING, AT_LEAST
    ),
    ("P1 Fig. 4 (authors' values)", ""): Terms(DELETED, NEAR_FIVE_RUNS, FEW_PERCENT),
    ("P1 Fig. 4 (authors' values)", "follows"): Terms(DELETED, FOLLOWING, AT_LEAST),
    ("P1 sec. 6 (length)", DELETED): Terms(DELETED, NEAR_FIVE_RUNS, FEW_PERCENT),
    ("P1 sec. 6 (length)", UNK_WORDS): Terms(UNK_WORDS, NEAR_FIVE_RUNS, FEW_PERCENT),
    ("P1 Theorem 5.1 (T_max grows)", ""): Terms(UNK_POSITIONS, NEAR_LIMIT, FEW_PERCENT),
    ("P1 sec. 6, B.1", "further from the exact limit"): Terms(
        UNK_WORDS, NEAR_LIMIT, "the other form's"
    ),
    ("P1 Fig. 5", "autodiff"): Terms(
        NONE_ABSENT, "largest difference of a coordinate to the gradient by autodiff", "1e-10"
    ),
    ("P1 Fig. 5 (authors' values)", "digits shown"): Terms(
        NONE_ABSENT, "difference of a coordinate to the gradient by autodiff", "0 in five digits"
    ),
    ("P1 sec. 4.2 (i)", "is correlated with"): Terms(NONE_ABSENT, CORRELATION, f"above {HALF}"),
    ("P1 sec. 4.2 (i)", "is not correlated with"): Terms(NONE_ABSENT, CORRELATION, f"below {HALF}"),
    ("P1 sec. 4.2 (ii)", "positive attention and a negative"): Terms(
        NONE_ABSENT, "number of such tokens of a review", "at least 1"
    ),
    ("P1 App. E", "six layers: the sign"): Terms(
        DELETED, "sign of the Pearson correlation of LIME and attention", "that of the prediction"
    ),
    ("P1 App. E", "six layers: |LIME|"): Terms(
        DELETED, "Pearson correlation of |LIME| and attention", "above 0"
    ),
    ("P1 App. E", "one layer: the sign"): Terms(
        UNK_WORDS, "sign of the Pearson correlation of LIME and attention", "that of the prediction"
    ),
    ("P1 App. E", "one layer: |LIME|"): Terms(
        UNK_WORDS, "Pearson correlation of |LIME| and attention", "above 0"
    ),
    ("P2 Fig. 3", "less than half its slope"): Terms(
        NONE_ABSENT, "slope of the output in the number of repetitions", "half of the truth's"
    ),
    ("P2 Fig. 7", "overrate short"): Terms(
        TOKENS_DELETED,
        "Shapley value of each repeated word",
        "above 1.5 for 1 word and below for 30",
    ),
    ("P2 Table 6", "SLALOM describes"): Terms(
        NONE_ABSENT, "MSE on fresh sequences", "the smallest of SLALOM, linear model and GAM"
    ),
    ("P2 Fig. 4 (a, b)", "SLALOM describes"): Terms(
        NONE_ABSENT, "MSE on repetitions of a word", "the smallest of SLALOM, linear model and GAM"
    ),
    ("P2 Table 6", "GAM"): Terms(NONE_ABSENT, "MSE on fresh sequences", "that of the other fit"),
    ("P2 Table 7", "true log-odds"): Terms(
        NONE_ABSENT, "share of the variance of the true log-odds that is explained", "0.9"
    ),
    ("P2 Table 8", "true ones"): Terms(
        NONE_ABSENT, "share of the variance of the true parameters that is explained", "0.75"
    ),
    ("P2 Tables 7, 8", "are nearer to our"): Terms(
        NONE_ABSENT,
        "distance in decades of a printed number to the mean of our trainings",
        "that of the other expression",
    ),
    ("P2 Fig. 6", "1 token removed"): Terms(
        KIND_OF_MODEL, "MSE of the predicted change", "the smallest of all methods"
    ),
    ("P2 Fig. 6", "1 to 10"): Terms(
        KIND_OF_MODEL,
        "MSE of the predicted change, mean over 1 to 10",
        "the smallest of all methods",
    ),
    ("P2 Tables 1a, 9", "agree with Naive Bayes"): Terms(
        KIND_OF_MODEL, "mean Spearman correlation with Naive Bayes scores", "that of importances"
    ),
    ("P2 Tables 1b, 10", "predict human attention best"): Terms(
        KIND_OF_MODEL,
        "mean AU-ROC of the tokens that people chose",
        "the best of values and linear scores",
    ),
    ("P2 Tables 1c, 11", "on par"): Terms(KIND_OF_MODEL, AREAS, ON_PAR),
    ("P2 Tables 1c, 11", "far worse"): Terms(
        KIND_OF_MODEL, AREAS, "at least 0.1 worse than LIME and SHAP"
    ),
    ("P2 Tables 1c, 11 (authors' measure)", "on par"): Terms(KIND_OF_MODEL, MISSING, ON_PAR),
    ("P2 Table 12", "at least as good"): Terms(
        TOKENS_DELETED, AREAS, "at most 0.005 worse than the other"
    ),
    ("P2 Table 12 (authors' measure)", "at least as good"): Terms(
        TOKENS_DELETED, MISSING, "at most 0.005 worse than the other"
    ),
    ("P2 Tables 2, 13", "fastest"): Terms(
        TOKENS_DELETED, "processor time of an explanation", "the smallest of the surrogates"
    ),
    ("P2 Tables 2, 13", "slowest"): Terms(
        TOKENS_DELETED, "processor time of an explanation", "the largest of the surrogates"
    ),
    ("P2 Tables 2, 13", "far cheaper"): Terms(
        TOKENS_DELETED, "processor time of an explanation", "a tenth of every surrogate's"
    ),
    ("P2 Table 14", "500 samples"): Terms(TOKENS_DELETED, AREAS, "at most 0.02 worse than SHAP"),
    ("P2 Fig. 5, 12", "both signs"): Terms(
        TOKENS_DELETED,
        "signs of the values of the most important fifth of a review's words, SLALOM-eff",
        "both",
    ),
    ("P2 Fig. 5, 12", "'the'"): Terms(
        TOKENS_DELETED, "importance of 'the', SLALOM-eff", "below the median of the review's words"
    ),
    ("P1 sec. 6 (ii)", ""): Terms(NONE_ABSENT, "class of a review", "equal with and without"),
}


def of_claim(result: str, text: str) -> Terms:
    """The terms of a claim; the most specific entry of its result.

    >>> of_claim("P1 sec. 4.2 (i)", "alpha-avg is correlated with G-l1").threshold
    'above 0.5'
    """
    fits = [part for name, part in TABLE if name == result and part in text]
    if not fits:
        raise ValueError(f"terms: expected an entry of TABLE for a claim on {result}, got {text!r}")
    return TABLE[result, max(fits, key=len)]
