"""Every statement of the two papers and the slides: where it is looked at, and with which outcome.

An independent reader listed 153 statements: equations, theorems, figures, tables, settings, and
sentences of the text. Each has a place in this project: entries of the registry of `proofs_check`
(whose verdicts the tests reproduce), experiments, or code with its tests; otherwise the reason why
nothing can be tested here. `statements_page` writes them to docs/papers/statements.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from proofs_check.registry import CORRECTED as FAILS_AS_PRINTED
from proofs_check.registry import HOLDS, NOT_CHECKABLE, Statement

CHECKED = "checked"
CORRECTED = "corrected"
EXPERIMENT = "experiment"
UNTESTED = "not testable here"

# Short names of files and modules.
ATTENTION = "attn_closed_form/attention"
LIME = "attn_closed_form/lime"
SLALOM = "attn_closed_form/slalom"
PAPERS = "benchmarks/papers"


class Item(NamedTuple):
    """A statement of a paper.

    paper : "P1" or "P2"
    place : where it is, in the paper's words
    proofs : places of the registry, without the paper
    files : code and tests, from the root of the repository
    experiments : modules of `benchmarks.papers`
    why : why nothing can be tested here, or what there is to know
    """

    paper: str
    place: str
    proofs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    why: str = ""

    def status(self, registry: Mapping[str, Statement]) -> str:
        """One of the four, from the verdicts of the registry."""
        verdicts = {registry[f"{self.paper} {ref}"].verdict for ref in self.proofs}
        if FAILS_AS_PRINTED in verdicts:
            return CORRECTED
        if HOLDS in verdicts:
            return CHECKED
        if self.experiments:
            return EXPERIMENT
        if NOT_CHECKABLE not in verdicts and any("test" in file for file in self.files):
            return CHECKED
        return UNTESTED


def proof(paper: str, ref: str, *files: str, experiments: tuple[str, ...] = ()) -> Item:
    """An item that has the name of its entry in the registry."""
    return Item(paper, ref, (ref,), files, experiments)


def proofs(paper: str, *refs: str) -> tuple[Item, ...]:
    """Items that have the names of their entries."""
    return tuple(proof(paper, ref) for ref in refs)


P1_MODEL = (
    Item(
        "P1",
        "Section 1: the results hold for several labels",
        files=(f"{ATTENTION}/predict.py", "tests/attention/test_predict.py"),
    ),
    Item(
        "P1",
        "Section 2.1: documents, distinct tokens, local dictionary",
        files=(f"{ATTENTION}/predict.py", "tests/attention/test_predict.py"),
    ),
    Item("P1", "Eq. 1: f is the mean of the heads", ("Eq. 1",)),
    Item(
        "P1",
        "Section 2.1: positive if f > 0",
        files=("tests/app/models/test_text_classifier.py",),
    ),
    Item(
        "P1",
        "Eq. 2: embeddings",
        files=(f"{ATTENTION}/weights.py", "tests/attention/test_weights.py"),
    ),
    Item(
        "P1",
        "Eq. 3: positions",
        files=(f"{ATTENTION}/weights.py", "tests/attention/test_positions.py"),
        why="The authors' code has base 10,000 and counts from zero; `base=` offers both.",
    ),
    Item("P1", "Eq. 4: padding", ("Eq. 4",)),
    Item("P1", "Section 2.1: documents longer than T_max", ("Section 2.1, long documents",)),
    Item("P1", "Section 2.2: separate embeddings", ("Section 2.2, embeddings per head",)),
    Item(
        "P1",
        "Eqs. 5-7: keys, queries, values, biases",
        ("Eqs. 2, 3, 5-7, 12, 15",),
        (f"{ATTENTION}/weights.py", "tests/attention/test_weights.py"),
        why="Definitions; the checks of Eqs. 8, 14 and 20 to 28 use them as printed.",
    ),
    Item("P1", "Eq. 8: attention, and the factor that is absorbed", ("Eq. 8",)),
    Item("P1", "Eq. 9: only the query of [CLS] matters", ("Eq. 9",)),
    Item("P1", "Fig. 2: drawing of the architecture", why="A drawing makes no statement."),
    Item(
        "P1",
        "Section 3, Fig. 3: attention matrices, heads differ",
        files=("tests/attention/test_attention.py",),
        experiments=("paper1_examples",),
    ),
    Item("P1", "Eq. 10: alpha-avg", ("Eq. 10",)),
    Item(
        "P1",
        "Eq. 11: alpha-max; non-negative scores",
        ("Eq. 11", "Section 3, non-negative scores"),
    ),
    Item(
        "P1",
        "Fig. 1 and its caption",
        ("Figure 1, caption",),
        experiments=("paper1_examples", "authors"),
    ),
)
P1_GRADIENTS = (
    Item("P1", "Eq. 12: G-avg, G-l1, G-l2, GxI", ("Section 4.1",)),
    Item("P1", "Eq. 13: linear over the heads", ("Eq. 13",)),
    Item(
        "P1",
        "Theorem 4.1, Eq. 14",
        ("Theorem 4.1",),
        (f"{ATTENTION}/gradient.py",),
        ("paper1_gradients",),
    ),
    Item(
        "P1",
        "Section 4.2, comment (i)",
        ("Section 4.2, comment (i)",),
        experiments=("paper1_gradients",),
    ),
    Item(
        "P1",
        "Section 4.2, comment (ii)",
        ("Section 4.2, comment (ii)",),
        experiments=("paper1_gradients",),
    ),
    Item("P1", "Slides: insight on gradients", ("Slides, gradient insight",)),
    *proofs(
        "P1",
        "Eq. 20",
        "Eq. 21",
        "Eq. 22",
        "Appendix A, gradient of alpha_t",
        "Appendix A, gradient of alpha_s",
        "Appendix A, gradient of v~",
    ),
    Item(
        "P1",
        "Fig. 5: Theorem 4.1 against autodiff ('d_e = 80')",
        experiments=("paper1_gradients", "authors"),
        why="The figure shows the first 80 of 128 coordinates.",
    ),
)
P1_LIME = (
    Item(
        "P1",
        "Section 5.1: sampling",
        files=(f"{LIME}/sampled.py", "tests/lime/test_as_it_is_run.py"),
    ),
    Item("P1", "Eq. 15: weights of the samples", ("Eq. 15",)),
    Item("P1", "Eq. 16: ridge regression with an intercept", ("Eq. 16",)),
    Item("P1", "Slides: surrogate in R^d", ("Slides, local surrogate",)),
    Item(
        "P1",
        "Slides: theorem of Mardaoui and Garreau",
        ("Slides, Theorem (Mardaoui, Garreau)",),
    ),
    Item("P1", "Eq. 17", ("Eq. 17",), (f"{LIME}/limit.py",)),
    Item("P1", "Eq. 18: masses and values of [UNK]", ("Eq. 18",)),
    Item(
        "P1",
        "Theorem 5.1",
        ("Theorem 5.1",),
        (f"{LIME}/theory.py",),
        ("paper1_lime", "paper1_growth"),
    ),
    *proofs(
        "P1",
        "Theorem 5.1 (missing term)",
        "Theorem 5.1 (constant 3/2)",
        "Theorem 5.1 (remainder)",
        "Section 5.2, comment (i)",
        "Section 5.2, comment (ii)",
        "Section 5.2, comment (iii)",
        "Section 5.2, comment (iv)",
    ),
    Item(
        "P1",
        "Fig. 4: LIME against Theorem 5.1",
        ("Figure 4",),
        experiments=("paper1_lime", "paper1_growth", "authors"),
    ),
    Item(
        "P1",
        "Section 6, B.1: norm-2 error 0.808 +- 0.219",
        ("Appendix B.1, experiment",),
        experiments=("paper1_lime",),
    ),
    Item(
        "P1",
        "Section 6: satisfying for documents of a few dozen tokens",
        experiments=("paper1_growth",),
    ),
    Item(
        "P1",
        "Section 6 (ii): skip connections",
        ("Section 6 (ii), skip connections",),
    ),
    Item(
        "P1",
        "Sections 6 (i), (iii), 7: layers, non-linearities, future work",
        experiments=("paper1_layers",),
        why="Plans, but for the six layers of appendix E.",
    ),
    *proofs(
        "P1",
        "Eqs. 23-25",
        "Eq. 26",
        "Eqs. 27-28",
        "Proposition B.1 (Eq. 29)",
        "Proposition B.1 (Eq. 30)",
        "Eq. 31",
        "Appendix B, derivative",
        "Appendix B, Riemann sum",
        "Appendix B, use of Lemma D.2",
        "Appendix B, other positions",
        "Appendix B, integral form",
        "Appendix B.1, repeated words",
        "Appendix C, size law",
        "Eq. 32",
        "Eq. 33",
        "Eq. 34",
        "Eq. 35",
        "Lemma D.1",
        "Eq. 36",
        "Lemma D.2",
        "Lemma D.3 (expectation)",
        "Lemma D.3 (variance)",
        "Lemma D.4 (Eq. 37)",
        "Lemma D.5 (Eq. 38)",
    ),
    Item(
        "P1",
        "B.1: with bow=False repeated words are distinct",
        files=(f"{PAPERS}/lime_runs.py", "tests/benchmarks/test_paper1.py"),
    ),
    Item(
        "P1",
        "Appendix E, Fig. 6: six layers, 82.22%, -0.424, 0.672",
        ("Appendix E",),
        experiments=("paper1_layers",),
    ),
    Item(
        "P1",
        "Appendix F: sizes, split, 10 epochs, batch 16, AdamW 1e-4",
        files=("jax_model/training/config.py",),
        experiments=("retrained", "paper1_lime"),
        why="One of our trainings has these settings to the letter; [its accuracy and the claims "
        "that depend on a model](lopardo2024.md) are next to the paper's. The others have the "
        "sizes, and our settings of the optimizer.",
    ),
    Item(
        "P1",
        "Slides: histogram task with two solutions; sizes of vocabularies",
        ("Slides, histogram task",),
        why="Which solution a training finds is the subject of Cui et al. (2024).",
    ),
    Item("P1", "Slides: T = d = 99 in Fig. 4", ("Slides, T = d = 99",)),
    Item("P1", "Slides: softmax, lemma, samples, year", ("Slides, softmax",)),
)
P2_TRANSFORMERS = (
    Item(
        "P2",
        "Fig. 1: sums of log-odds",
        why="Outputs of the authors' BERT; the sums 1.38 and 1.12 are right.",
    ),
    proof("P2", "Eq. 1"),
    Item(
        "P2",
        "Eqs. 2, 6, 28: linear model; Cor. B.2",
        ("Cor. B.2", "Cor. B.2 (context)"),
    ),
    *proofs(
        "P2",
        "Eq. 10",
        "Eq. 13",
        "Eq. 19-21",
        "Eq. 22-24",
        "Prop. 4.1",
        "Eq. 25-27",
        "Cor. 4.2",
        "Lemma in B.4",
        "Cor. 4.3",
    ),
    proof("P2", "Fig. 3", experiments=("linear_data",)),
    *proofs(
        "P2",
        "App. C.2 ([CLS])",
        "App. C.2 (inversion)",
        "App. C.2 (capacity bound)",
        "Sec. 7 (disjoint spaces)",
    ),
    Item("P2", "Section 5: four requirements", why="Wishes, not statements."),
    Item("P2", "Eq. 4: SLALOM and its normalization", ("Eq. 4 (shift)",), (f"{SLALOM}/slalom.py",)),
    *proofs(
        "P2",
        "Eq. 4 (one token)",
        "Eq. 4 (order, duplicates)",
        "Sec. 7 (SLALOM not additive)",
        "Eq. 30-36",
        "Eq. 37-43",
        "Eq. 36 with Eq. 10",
        "Prop. 5.1",
        "Sec. 5.1 (uniqueness)",
        "Eq. 45-54",
        "Eq. 55",
        "Eq. 56",
        "Eq. 57-58",
    ),
    proof("P2", "Prop. 5.2", f"{SLALOM}/recover.py"),
    *proofs(
        "P2",
        "Eq. 5, 59",
        "Eq. 60-61",
        "Eq. 62-64",
        "Eq. 65",
        "Eq. 66",
        "Eq. 67-68",
        "Eq. 69",
        "Below Eq. 69",
    ),
    proof("P2", "Fig. 7", experiments=("linear_data",)),
    *proofs("P2", "Eq. 71", "Eq. 72", "Below Eq. 73"),
)
P2_EXPERIMENTS = (
    Item("P2", "Algorithm 1 (SLALOM-eff)", ("Algorithm 1",), (f"{PAPERS}/p2_solvers.py",)),
    Item(
        "P2",
        "Algorithm 2 (SLALOM-fidel)",
        files=(f"{PAPERS}/p2_solvers.py", "tests/benchmarks/test_p2_solvers.py"),
        why="The authors' code ends after the first s-step.",
    ),
    *proofs(
        "P2",
        "Eq. 74 (matrix A)",
        "Eq. 74 (normal equation)",
        "Eq. 75-76",
        "Eq. 77",
        "Eq. 78-79",
        "App. E.1.1 (step 4)",
        "Table 3",
    ),
    proof("P2", "Eq. 81", experiments=("authors",)),
    *proofs("P2", "Eq. 82", "Below Eq. 82", "Fig. 4", "Fig. 9"),
    proof("P2", "App. F.2", experiments=("recovery",)),
    Item(
        "P2",
        "Tables 1a, 9: correlation with Naive Bayes",
        (
            "App. F.3.2 (SHAP on BERT)",
            "Sec. 6.3, App. E.3 (samples)",
            "Table 9 (deviations)",
        ),
        experiments=("reviews", "minilm"),
    ),
    Item(
        "P2",
        "Tables 1b, 10: human attention",
        ("Table 1b, caption",),
        experiments=("reviews", "minilm"),
    ),
    Item(
        "P2",
        "Tables 1c, 11, 12: deletion and insertion",
        ("App. F.4 (AOPC)",),
        ("benchmarks/faithfulness.py",),
        ("reviews", "minilm", "other_model"),
    ),
    Item("P2", "Fig. 6: strict fidelity", experiments=("reviews", "minilm")),
    Item("P2", "Tables 2, 13a: runtimes", experiments=("cost",)),
    Item(
        "P2",
        "Tables 13b, 15: BLOOM and Mamba",
        ("Sec. 6.1 (BLOOM)",),
        why="No GPU and no weights of either model were available.",
    ),
    Item(
        "P2",
        "Tables 7, 8, Fig. 4 (c, d): recovery",
        ("Fig. 4 (c, d), RMSE",),
        experiments=("recovery",),
    ),
    Item("P2", "Table 6, Fig. 10: fits to transformers", experiments=("linear_data",)),
    Item("P2", "Table 14: number of samples", experiments=("reviews",)),
    Item("P2", "Fig. 8: scores of the true SLALOM", experiments=("recovery", "authors")),
    Item(
        "P2",
        "Tables 4, 5, E.1 to E.3: training",
        experiments=("reviews", "minilm"),
        why="Smaller models, trained from scratch or fine-tuned on a CPU.",
    ),
    Item(
        "P2",
        "Fig. 5, 11, 12: scatter plots and maps of one review",
        experiments=("reviews",),
        why="The scatter plots in numbers, for all reviews; the maps of Fig. 11 are pictures of "
        "what Table 10 measures.",
    ),
    Item("P2", "F.5: a network that is not a transformer", experiments=("other_model",)),
    Item(
        "P2",
        "Names and numbers of corollaries, symbols, tables",
        ("Names and numbers",),
        ("proofs_check/ERRATA.md",),
        why="Misprints, listed in the errata.",
    ),
)
ITEMS = (*P1_MODEL, *P1_GRADIENTS, *P1_LIME, *P2_TRANSFORMERS, *P2_EXPERIMENTS)
