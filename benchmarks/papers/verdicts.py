"""One verdict per claim of the two papers, from `proofs_check` and the result files: the table on
top of RESULTS.md.

A claim is tied to statements of the registry, whose verdicts the tests reproduce, and to rows
"claim: ..." of the result files, which count the cases in which a sentence holds. The verdict is
the worst of the two:

    statement that holds                                  holds
    misprint, slip, wrong constant, missing condition     fails as printed; a corrected form holds
    statement that is wrong as stated                     does not hold
    sentence that holds in 90 % of the cases or more      holds, else does not hold
    the same, in the corrected form only                  fails as printed; a corrected form holds
    neither a statement nor a row                         could not be tested
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from proofs_check.registry import HOLDS as STATEMENT_HOLDS
from proofs_check.registry import NOT_CHECKABLE, PAPERS, WRONG, Statement, statements

from .terms import (
    APPENDIX_F,
    DELETED,
    EXACT,
    FEW_PERCENT,
    FIGURE,
    MOVED,
    NONE_ABSENT,
    PRINTED,
    RUNS,
    TOKENS_DELETED,
    UNK_POSITIONS,
    UNK_WORDS,
    WITH_KERNEL,
)

HOLDS = "holds"
FAILS = "does not hold"
UNTRIED = "could not be tested"
CORRECTED = "fails as printed; a corrected form holds"
WORST = (HOLDS, CORRECTED, FAILS)
ENOUGH = 0.9  # share of the cases from which on we say that a sentence holds
# Lengths of paper1_growth that are a few dozen tokens, and the ways to leave words out, each with
# the corrected form that is judged.
LENGTH = "P1 sec. 6 (length)"
STORED = "P1 Fig. 4 (authors' values)"
FEW_DOZEN = (24, 48)
CUT_WAYS = ((DELETED, "words deleted", MOVED), (UNK_WORDS, "[UNK] in place", WITH_KERNEL))
# How P2's Eq. 5 removes a token.
SOFT = "a token's mass times lambda in 0..1"
COUNT = re.compile(r"holds in (\d+) of (\d+)")
# How a row says why a claim fails.
REASON = re.compile(r"disagrees in \d+ of \d+: (.*)", re.DOTALL)

Record = dict[str, Any]
Place = tuple[str, str] | tuple[str, str, str]


class Claim(NamedTuple):
    """A claim of a paper and where its verdict comes from.

    where : paper and place
    text : the claim, in a sentence
    proofs : keys of the registry
    rows : (result, part of the row's case, short name): the counts that decide; those of all rows
        that fit one place, such as those of several trainings, are added up
    mended : the same for counts with our correction; they decide if `rows` fail
    untried : why nothing was tried, where nothing was
    absent : what stands for an absent word in the statements of `proofs`
    note : what a reader has to know to read the verdict as it is meant
    """

    where: str
    text: str
    proofs: tuple[str, ...] = ()
    rows: tuple[Place, ...] = ()
    mended: tuple[Place, ...] = ()
    untried: str = ""
    absent: str = ""
    note: str = ""

    @property
    def paper(self) -> str:
        """Return "P1" or "P2"."""
        return self.where.split()[0]


class Count(NamedTuple):
    """In how many cases a sentence holds: `good` of n, of what, in words, and from which modules."""

    good: int
    n: int
    of: str
    text: str
    modules: tuple[str, ...]


class Side(NamedTuple):
    """One side of a comparison: what is judged, and how; `outcome` says in how many cases it holds.

    Two sides can be compared if everything between the statement and the outcome is equal. `name`
    is short, for a sentence that has said the rest.
    """

    statement: str
    absent: str
    sample: str
    measure: str
    threshold: str
    outcome: str
    name: str = ""

    @property
    def terms(self) -> tuple[str, str, str, str]:
        """What both sides of a comparison must share."""
        return self.absent, self.sample, self.measure, self.threshold


class Verdict(NamedTuple):
    """What became of a claim: the verdict, the numbers that decide, how many of what, the modules,
    both sides (the printed form's, and the corrected one's if there is one), and why counts fail.
    """

    claim: Claim
    verdict: str
    numbers: str
    n: str
    modules: str
    printed: tuple[Side, ...] = ()
    corrected: tuple[Side, ...] = ()
    reasons: tuple[str, ...] = ()


def _match(form: str, way: str) -> str:
    """Text of the claim of `paper1_lime` that a form is near LIME, for a way to leave words out."""
    ours = "" if form == PRINTED else "(ours) "
    return f"claim: {ours}{form} is within {FEW_PERCENT} of the mean of {RUNS} runs, {way}"


def _follows(form: str, way: str) -> str:
    """The same for the claim that it is correlated with LIME."""
    ours = "" if form == PRINTED else "(ours) "
    return f"claim: {ours}{form} follows the mean of {RUNS} runs, {way}"


def _cut(length: int, form: str, way: str) -> str:
    """Text of the claim of `paper1_growth` for reviews that are cut to a length."""
    ours = "" if form == PRINTED else "(ours) "
    near = f"is within {FEW_PERCENT} of the mean of {RUNS} runs"
    return f"claim: {ours}{length} tokens: {form} {near}, {way}"


def _both_trainings(form: str, way: str) -> tuple[Place, ...]:
    """Both claims of a form on our training and on that of appendix F."""
    name = "Eq. 19" if form == PRINTED else form
    return (
        (FIGURE, _match(form, way), f"{name}, near LIME, our training"),
        (FIGURE, _follows(form, way), f"{name}, correlated with LIME, our training"),
        (APPENDIX_F, _match(form, way), f"{name}, near LIME, trained as appendix F says"),
        (APPENDIX_F, _follows(form, way), f"{name}, correlated with LIME, as appendix F says"),
    )


OURS_TO_SET = (
    "The paper names no number for a very good match. 10% of the norm is our threshold, and the "
    "correlation is judged beside it because no common factor changes it."
)

CLAIMS = (
    Claim(
        "P1 Theorem 4.1, Fig. 5",
        "The gradient with respect to an embedding is given by Eq. 14.",
        ("P1 Theorem 4.1",),
        (
            ("P1 Fig. 5", "claim: Theorem 4.1 is autodiff", "Eq. 14 at the tokens"),
            ("P1 Fig. 5", "claim: Theorem 4.1 at [CLS]", "Eq. 14 at [CLS]"),
            (
                "P1 Fig. 5 (authors' values)",
                "every printed row but",
                "the authors' stored values, tokens and padding",
            ),
            ("P1 Fig. 5 (authors' values)", "at [CLS]", "the authors' stored values, [CLS]"),
        ),
        (("P1 Fig. 5", "claim: (ours) the corrected theorem", "corrected, at [CLS]"),),
        absent=NONE_ABSENT,
        note="If [CLS] is not counted among the tokens of the document, the theorem holds as "
        "printed.",
    ),
    Claim(
        "P1 Fig. 1",
        "All seven explainers rank 'questionable' high, only LIME and G×I find it negative, and "
        "attention alone ranks 'popular' first, on the scores that the authors' notebook stores.",
        ("P1 Figure 1, caption",),
        rows=(
            (
                "P1 Fig. 1 (authors' values)",
                "two strongest",
                "'questionable' is one of the two strongest words",
            ),
            (
                "P1 Fig. 1 (authors' values)",
                "negative",
                "'questionable' is negative for LIME and G×I alone",
            ),
            (
                "P1 Fig. 1 (authors' values)",
                "'popular' is first",
                "'popular' is first for attention alone",
            ),
        ),
        mended=(
            (
                "P1 Fig. 1 (authors' values)",
                "(ours) LIME",
                "'questionable' is negative for LIME, G×I and G-avg alone",
            ),
        ),
        absent=DELETED,
    ),
    Claim(
        "P1 Fig. 1 (other trainings)",
        "The three sentences of the caption hold for other trainings of the model as well.",
        rows=(
            ("P1 Fig. 1", "two strongest", "'questionable' is one of the two strongest words"),
            ("P1 Fig. 1", "negative", "'questionable' is negative for LIME and G×I alone"),
            ("P1 Fig. 1", "first for attention", "'popular' is first for attention alone"),
        ),
        note="The paper shows one sentence and one training, and does not claim more. Its message, "
        "that explainers differ, holds for all trainings.",
    ),
    Claim(
        "P1 Fig. 3",
        "The heads concentrate on different tokens.",
        rows=(("P1 Fig. 3", "reviews: heads concentrate"),),
    ),
    Claim(
        "P1 sec. 4.2 (i), correlated",
        "The mean attention is correlated with the mean and the L1 norm of the gradient.",
        rows=(
            ("P1 sec. 4.2 (i)", "is correlated with G-avg", "mean of the gradient"),
            ("P1 sec. 4.2 (i)", "is correlated with G-l1", "L1 norm of the gradient"),
        ),
        note="The paper names no number; correlations above 0.5 count here.",
    ),
    Claim(
        "P1 sec. 4.2 (i), not correlated",
        "The mean attention is not correlated with the maximum over the heads and the L2 norm of "
        "the gradient.",
        ("P1 Section 4.2, comment (i)",),
        (
            ("P1 sec. 4.2 (i)", "is not correlated with alpha-max", "maximum over the heads"),
            ("P1 sec. 4.2 (i)", "is not correlated with G-l2", "L2 norm of the gradient"),
        ),
        absent=NONE_ABSENT,
        note="The paper says that 'the same does not hold' for these two, which we read as above.",
    ),
    Claim(
        "P1 sec. 4.2 (ii)",
        "A token with attention can have a negative gradient.",
        ("P1 Section 4.2, comment (ii)",),
        (("P1 sec. 4.2 (ii)", "claim: "),),
        absent=NONE_ABSENT,
    ),
    Claim(
        "P1 Theorem 5.1",
        "LIME's weights are 3/2 times the weighted difference of Eq. 19 to leading order.",
        ("P1 Theorem 5.1",),
        absent=UNK_WORDS,
    ),
    Claim(
        "P1 Fig. 4, sec. 6, B.1",
        "Theorem 5.1 matches five runs of LIME very well, as the package runs by default.",
        rows=(
            *_both_trainings(PRINTED, DELETED),
            (STORED, "the printed theorem is within", "Eq. 19, near LIME, the authors' values"),
            (
                STORED,
                "the printed theorem follows",
                "Eq. 19, correlated with LIME, the authors' values",
            ),
        ),
        mended=_both_trainings(MOVED, DELETED),
        note=OURS_TO_SET
        + " The mean field of the last form holds on our training, where many words share the "
        "attention, and not on that of appendix F, where few do. Deletion moves the words behind, "
        "so that no exact limit is known.",
    ),
    Claim(
        "P1 Fig. 4, sec. 5.1",
        "Theorem 5.1 matches five runs of LIME very well, with [UNK] in place of words, as it "
        "assumes.",
        rows=_both_trainings(PRINTED, UNK_WORDS),
        mended=_both_trainings(EXACT, UNK_WORDS),
        note=OURS_TO_SET
        + " The exact limit is an integral over the share of absent words, not a first order; no "
        "simpler form holds on both trainings (below).",
    ),
    Claim(
        "P1 App. B.1 (bow=False)",
        "Theorem 5.1 matches five runs of LIME with bow=False, where every token is a feature.",
        rows=((FIGURE, _match(PRINTED, UNK_POSITIONS), "Eq. 19"),),
        mended=((FIGURE, _match(EXACT, UNK_POSITIONS), EXACT),),
    ),
    Claim(
        "P1 sec. 6",
        "Theorem 5.1 is experimentally satisfying for documents of a few dozen tokens.",
        rows=tuple(
            (LENGTH, _cut(length, PRINTED, way), f"Eq. 19, {length} tokens, {name}")
            for length in FEW_DOZEN
            for way, name, _ in CUT_WAYS
        ),
        mended=tuple(
            (LENGTH, _cut(length, form, way), f"{form}, {length} tokens, {name}")
            for length in FEW_DOZEN
            for way, name, form in CUT_WAYS
        ),
        note="Measured on our training alone, where the mean field holds.",
    ),
    Claim(
        "P1 sec. 6 (ii)",
        "Skip connections do not raise the accuracy, and the analysis adapts to them.",
        ("P1 Section 6 (ii), skip connections",),
        absent=NONE_ABSENT,
    ),
    Claim(
        "P1 App. B.1",
        "With many repeated words Theorem 5.1 is no longer true.",
        ("P1 Appendix B.1, repeated words",),
        absent=UNK_WORDS,
        note="This is in the paper's favor: the theorem, once corrected, covers repeated words.",
    ),
    Claim(
        "P1 App. E",
        "With six layers, |LIME| and attention are correlated, and LIME's correlation with "
        "attention has the sign of the prediction.",
        rows=(
            ("P1 App. E", "six layers: |LIME|", "|LIME| and attention"),
            ("P1 App. E", "six layers: the sign", "sign of the prediction"),
        ),
        note="The paper measured one document, and offers the sign as an explanation for it.",
    ),
    Claim(
        "P2 Prop. 4.1, Cor. 4.3, App. C.2",
        "No transformer represents an additive model, with a [CLS] token in front or without one.",
        ("P2 Prop. 4.1", "P2 Cor. 4.3", "P2 App. C.2 ([CLS])"),
        absent=NONE_ABSENT,
        note="The proposition and the corollary hold as printed, for transformers without [CLS]. "
        "What fails is the sentence of the appendix that treats [CLS] as any other token.",
    ),
    Claim(
        "P2 Fig. 3, 7",
        "Transformers do not learn a linear model: they overestimate short sequences and "
        "underestimate long ones.",
        rows=(
            ("P2 Fig. 3", "claim: ", "slope"),
            ("P2 Fig. 7", "claim: ", "over- and underestimated"),
        ),
    ),
    Claim(
        "P2 Fig. 4 (a, b), Table 6",
        "SLALOM describes a transformer better than a linear model or a GAM.",
        rows=(("P2 Table 6", "claim: SLALOM"),),
    ),
    Claim(
        "P2 Prop. 5.1, 5.2",
        "Transformers can represent SLALOMs, and 2|V| - 1 queries recover one.",
        ("P2 Prop. 5.1", "P2 Prop. 5.2"),
        absent=NONE_ABSENT,
    ),
    Claim(
        "P2 Fig. 4 (c, d), Tables 7, 8",
        "A SLALOM can be recovered from a transformer that was trained on its data.",
        rows=(
            ("P2 Table 7", "variance of the true log-odds, 400,000 labels", "outputs"),
            ("P2 Table 8", "variance of the true ones, 400,000 labels", "parameters"),
        ),
        note="Transformers of one layer and width 32, ten words instead of 200, and as many labels as "
        "in the paper; with a tenth of the labels, and with labels without noise, the outcome is "
        "below, under Tables 7 and 8. After six trainings the parameters had 5 of 6, too few to "
        "decide; six more followed, so the number of runs was not fixed beforehand.",
    ),
    Claim(
        "P2 Fig. 4 (c, d), Tables 7, 8 (numbers)",
        "The tables show mean squared errors, and the figure root mean squared errors.",
        ("P2 Fig. 4 (c, d), RMSE",),
        rows=(
            ("P2 Tables 7, 8", "claim: the numbers for the log-odds are", "log-odds"),
            (
                "P2 Tables 7, 8",
                "claim: the numbers for the log-odds, against",
                "log-odds, against the network",
            ),
            ("P2 Tables 7, 8", "claim: the numbers for the parameters", "parameters"),
        ),
        mended=(
            (
                "P2 Tables 7, 8",
                "claim: (ours) the numbers for the log-odds are",
                "squared mean differences: log-odds",
            ),
            (
                "P2 Tables 7, 8",
                "claim: (ours) the numbers for the log-odds, against",
                "squared mean differences: log-odds, against the network",
            ),
            (
                "P2 Tables 7, 8",
                "claim: (ours) the numbers for the parameters",
                "squared mean differences: parameters",
            ),
        ),
        absent=NONE_ABSENT,
        note="For the figure this is what the notebook computes. For the tables, whose code is not "
        "public, it is an inference from the sizes of the numbers.",
    ),
    Claim(
        "P2 Eq. 65",
        "v exp(s) ranks tokens like the derivative of soft removal.",
        ("P2 Eq. 65",),
        absent=SOFT,
    ),
    Claim(
        "P2 below Eq. 69",
        "The Shapley values of a SLALOM are usually intractable and need sampling.",
        ("P2 Below Eq. 69",),
        absent=TOKENS_DELETED,
    ),
    Claim(
        "P2 Fig. 6",
        "SLALOM-fidel predicts the effect of removing up to ten tokens best.",
        rows=(
            ("P2 Fig. 6", "1 token removed", "one token"),
            ("P2 Fig. 6", "best, mean over 1 to 10", "one to ten tokens"),
        ),
        note="The paper fits to 5,000 samples of BERT-sized models; these are small models and 304 "
        "to 500 samples.",
    ),
    Claim(
        "P2 Tables 1a, 9",
        "Values agree with Naive Bayes scores better than importances do.",
        rows=(("P2 Tables 1a, 9", "claim: "),),
    ),
    Claim(
        "P2 Tables 1b, 10",
        "Among SLALOM's scores, importances predict human attention best.",
        rows=(("P2 Tables 1b, 10", "claim: "),),
        note="In the paper the lead is 0.006 and 0.002 for two models, and values lead for the "
        "third.",
    ),
    Claim(
        "P2 Tables 1c, 11, 12",
        "Linearized SLALOM scores are on par with LIME, SHAP and LRP under deletion and insertion, "
        "by the measure of the tables.",
        rows=(
            ("P2 Tables 1c, 11 (authors' measure)", "(0.02), deletion", "transformers, deletion"),
            ("P2 Tables 1c, 11 (authors' measure)", "(0.02), insertion", "transformers, insertion"),
            ("P2 Table 12 (authors' measure)", "claim: linearized", "TF-IDF network"),
        ),
    ),
    Claim(
        "P2 App. F.4",
        "Linearized SLALOM scores are on par with LIME, SHAP and LRP under deletion and insertion, "
        "by the AOPC that the text defines.",
        rows=(
            ("P2 Tables 1c, 11", "(0.02), deletion", "transformers, deletion"),
            ("P2 Tables 1c, 11", "(0.02), insertion", "transformers, insertion"),
            ("P2 Table 12", "claim: linearized", "TF-IDF network"),
        ),
    ),
    Claim(
        "P2 Fig. 5, 12",
        "Words of both signs are among the most important, and 'the' has little importance.",
        rows=(
            ("P2 Fig. 5, 12", "both signs", "both signs"),
            ("P2 Fig. 5, 12", "'the'", "'the'"),
        ),
        note="The paper shows one review under BERT; these are all reviews under two small "
        "transformers.",
    ),
    Claim(
        "P2 Tables 2, 13a (SLALOM-eff)",
        "SLALOM-eff is the fastest surrogate.",
        rows=(("P2 Tables 2, 13", "fastest"),),
    ),
    Claim(
        "P2 Tables 2, 13a (SHAP)",
        "SHAP is the slowest surrogate.",
        rows=(("P2 Tables 2, 13", "slowest"),),
        note="SLALOM-fidel is fitted to its optimum here, by another solver than the paper's. On "
        "MiniLM, whose calls cost most of the time as those of BERT do, SHAP is the slowest.",
    ),
    Claim(
        "P2 Tables 2, 13a (gradients)",
        "Gradients, integrated gradients and LRP cost far less than surrogates.",
        rows=(
            ("P2 Tables 2, 13", "Grad and LRP are far cheaper", "Grad and LRP"),
            ("P2 Tables 2, 13", "claim: IG is far cheaper", "IG"),
        ),
        note="The paper does not say how many steps IG takes; 32 are taken here, on a model whose "
        "calls are cheap.",
    ),
    Claim(
        "P2 Tables 13b, 15",
        "SLALOM is cheap and predicts human attention for BLOOM (7.1 billion parameters) and Mamba "
        "(2.8 billion).",
        untried="only two CPU cores, no GPU, and no weights of either model were available",
    ),
    Claim(
        "P2 Table 14", "500 samples are enough to match SHAP.", rows=(("P2 Table 14", "claim: "),)
    ),
)


def verdicts(records: list[Record]) -> list[Verdict]:
    """The verdicts of all claims, from the records of the result files."""
    registry = {entry.key: entry for entry in statements()}
    return [verdict_of(claim, registry, records) for claim in CLAIMS]


def of_statement(entry: Statement) -> str:
    """The verdict on a claim that the registry knows."""
    if entry.verdict == STATEMENT_HOLDS:
        return HOLDS
    if entry.verdict == NOT_CHECKABLE:
        raise ValueError(f"{entry.key}: expected a statement that can be checked")
    return FAILS if entry.kind == WRONG else CORRECTED


def of_counts(counts: list[Count]) -> str:
    """The verdict that counts give together: each sentence must hold in nine of ten cases."""
    if all(one.good >= ENOUGH * one.n for one in counts):
        return HOLDS
    return FAILS


def count(row: Record) -> tuple[int, int]:
    """(m, n) of a row "holds in m of n"."""
    found = COUNT.fullmatch(str(row["ours"]))
    if found is None:
        raise ValueError(
            f"{row['result']}, {row['case']}: expected 'holds in m of n', got {row['ours']!r}"
        )
    return int(found[1]), int(found[2])


def verdict_of(claim: Claim, registry: dict[str, Statement], records: list[Record]) -> Verdict:
    proofs = [registry[key] for key in claim.proofs]
    counts = counts_of(claim.rows, records)
    mended = counts_of(claim.mended, records)
    found = [of_statement(entry) for entry in proofs]
    printed = [*(of_check(entry, claim, False) for entry in proofs), *_sides(claim.rows, records)]
    corrected = [of_check(entry, claim, True) for entry in proofs if entry.corrected]
    corrected += _sides(claim.mended, records)
    comparable(claim, printed, corrected)
    if counts:
        measured = of_counts(counts)
        found.append(
            CORRECTED if measured == FAILS and mended and of_counts(mended) == HOLDS else measured
        )
    if not found:
        why = claim.untried or "the benchmark has not been run at this size"
        return Verdict(claim, UNTRIED, why, "", "")
    numbers = [entry.kind for entry in proofs if entry.kind]
    numbers += [one.text for one in counts] + [f"corrected: {one.text}" for one in mended]
    sizes = dict.fromkeys(f"{one.n:,} {one.of}" for one in counts)
    files = [name for one in counts for name in one.modules]
    modules = [*(["proofs_check"] if proofs else []), *dict.fromkeys(files)]
    return Verdict(
        claim,
        max(found, key=WORST.index),
        "; ".join(numbers) or "checked by enumeration or algebra",
        "; ".join(sizes) or "not sampled",
        ", ".join(f"`{name}`" for name in modules),
        tuple(printed),
        tuple(corrected),
        tuple(reasons(claim.rows, records)),
    )


def reasons(places: tuple[Place, ...], records: list[Record]) -> list[str]:
    """Why rows fail, in their own words and without repetition."""
    found = []
    for _, rows in _rows(places, records):
        for row in rows:
            said = REASON.fullmatch(str(row.get("differs", "")))
            if said is not None:
                found.append(said[1])
    return list(dict.fromkeys(found))


def of_check(entry: Statement, claim: Claim, corrected: bool) -> Side:
    """The side of a statement of the registry; one check judges both forms by one tolerance."""
    if corrected:
        outcome = "holds"
        form = f"{entry.key}, corrected"
    else:
        outcome = "fails" if entry.corrected else "holds"
        form = f"{entry.key}, as printed"
    return Side(
        form,
        claim.absent,
        f"cases of the check ({entry.method})",
        "error of the form against the exact value",
        "tolerance of the check",
        outcome,
    )


def comparable(claim: Claim, printed: list[Side], corrected: list[Side]) -> None:
    """Raise unless every side has all fields, and every corrected form is judged as a printed "
    "one.
    """
    for side in (*printed, *corrected):
        empty = [key for key, value in side._asdict().items() if key != "name" and not value]
        if empty:
            raise ValueError(f"{claim.where}: expected {', '.join(empty)} of {side.statement!r}")
    known = {side.terms for side in printed}
    for side in corrected:
        if side.terms not in known:
            raise ValueError(
                f"{claim.where}: expected a printed form that is judged like {side.statement!r} "
                f"({'; '.join(side.terms)})"
            )


def _rows(places: tuple[Place, ...], records: list[Record]) -> list[tuple[Place, list[Record]]]:
    """The claims of the result files that fit each place."""
    every = [{**row, "file": r["name"]} for r in records for row in r["rows"] if "result" in row]
    claims = [row for row in every if row["case"].startswith("claim: ")]
    return [
        (
            place,
            [
                row
                for row in claims
                if row["result"] == place[0]
                and place[1] in row["case"]
                and ("(ours)" in place[1]) == ("(ours)" in row["case"])
            ],
        )
        for place in places
    ]


def _sides(places: tuple[Place, ...], records: list[Record]) -> list[Side]:
    """One side per place: the fields that its rows carry, which must agree."""
    out = []
    for place, rows in _rows(places, records):
        if not rows:
            continue
        terms = {(row["absent"], row["measure"], row["threshold"]) for row in rows}
        if len(terms) != 1:
            raise ValueError(f"{place}: expected rows that are judged alike, got {sorted(terms)}")
        ((absent, measure, threshold),) = terms
        good, n = (sum(numbers) for numbers in zip(*map(count, rows), strict=True))
        statement = rows[0]["case"].removeprefix("claim: ")
        files = " and ".join(dict.fromkeys(row["file"] for row in rows))
        of = rows[0].get("of", "cases")
        if n == 1:
            of = of.removesuffix("s")
        sample = f"{n:,} {of} ({files})"
        outcome = f"{good:,} of {n:,}"
        name = place[2] if len(place) > 2 else ""
        out.append(Side(statement, absent, sample, measure, threshold, outcome, name))
    return out


def counts_of(places: tuple[Place, ...], records: list[Record]) -> list[Count]:
    """One count per place that some row fits."""
    out = []
    for (_, _, *short), rows in _rows(places, records):
        if not rows:
            continue
        good, n = (sum(numbers) for numbers in zip(*map(count, rows), strict=True))
        if any("seed 1" in row["case"] for row in rows):
            trainings = f" ({len(rows)} trainings)"
        else:
            trainings = ""
        text = f"{short[0] if short else ''} {good:,} of {n:,}{trainings}".lstrip()
        modules = tuple(dict.fromkeys(row["file"] for row in rows))
        out.append(Count(good, n, rows[0].get("of", "cases"), text, modules))
    return out


def tally(found: list[Verdict]) -> str:
    """How often each verdict is given, in words."""
    n = {name: sum(v.verdict == name for v in found) for name in (*WORST, UNTRIED)}
    hold = {name: "holds" if n[name] == 1 else "hold" for name in n}
    if n[FAILS] == 1:
        fail = "does not hold"
    else:
        fail = "do not hold"
    return (
        f"{n[HOLDS]} {hold[HOLDS]}, {n[CORRECTED]} {'fails' if n[CORRECTED] == 1 else 'fail'} as "
        "printed and "
        f"{hold[CORRECTED]} in a corrected form, {n[FAILS]} {fail}, and "
        f"{n[UNTRIED]} could not be tested"
    )


def verdict_table(found: list[Verdict]) -> list[str]:
    """The tables in Markdown: the verdicts with their counts, then both sides of each with how they
    are judged.
    """
    lines = [
        f"Of {len(found)} claims, {tally(found)}. Counts give the number of cases in which a claim "
        "is true. A claim "
        f"holds if it is true in at least {100 * ENOUGH:.0f}% of the cases. "
        "`proofs_check/ERRATA.md` has the "
        "corrected forms of the statements that are wrong as stated.\n",
        "| place | claim | verdict | numbers | sample | module |\n|---|---|---|---|---|---|",
    ]
    for v in found:
        lines.append(
            f"| {v.claim.where} | {_cell(v.claim.text)} | **{v.verdict}** | {_cell(v.numbers)} | "
            f"{v.n} | {v.modules} |"
        )
    lines += [
        "",
        "### How each claim was judged\n",
        "Each line is a form of a claim. A corrected form is listed only next to a printed one "
        "that "
        "is judged in the same way: the same words are absent, and sample, measure and threshold "
        "are the same.\n",
        "| place | form | absent words | sample | measure | threshold | holds |",
        "|---|---|---|---|---|---|---|",
    ]
    for v in found:
        for side in (*v.printed, *v.corrected):
            cells = " | ".join(_cell(text) for text in side[:-1])
            lines.append(f"| {v.claim.where} | {cells} |")
    return [*lines, ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def of_paper(found: list[Verdict], paper: str) -> list[Verdict]:
    """The verdicts on one paper, "P1" or "P2"."""
    if paper not in PAPERS:
        raise ValueError(f"paper: expected one of {', '.join(PAPERS)}, got {paper!r}")
    return [v for v in found if v.claim.paper == paper]
