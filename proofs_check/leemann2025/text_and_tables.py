"""P2: sentences of the text against the paper's own tables, and against what the authors' code
computes.

The numbers are those that the paper prints. Where a statement is about code, it names the file in
the authors' repository (tleemann/slalom_explanations).
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..registry import (
    CONDITION,
    CORRECTED,
    MISPRINT,
    NOT_CHECKABLE,
    SLIP,
    WRONG,
    Outcome,
    one_plus,
    statement,
)
from ..tolerances import ALGEBRA, EXACT
from .forms import worst

#: Table 9, Spearman correlation with Naive Bayes: SLALOM-eff (v, lin.), LIME, SHAP.
TABLE_9 = {
    "BERT": (0.619, 0.626, 0.616, 0.554),
    "DistilBERT": (0.692, 0.693, 0.691, 0.619),
    "GPT-2": (0.618, 0.619, 0.213, 0.560),
}
#: Table 1b, AU-ROC of human attention: values, importances, linear scores.
TABLE_1B = {
    "BERT": (0.786, 0.807, 0.801),
    "DistilBERT": (0.688, 0.681, 0.686),
    "GPT-2": (0.674, 0.685, 0.683),
}


@statement(
    paper="P2",
    ref="Fig. 4 (c, d), RMSE",
    claim="the RMSE between recovered and true log-odds, and between recovered and true parameters",
    assumptions="cell 59 of notebooks/C_Explaining_SLALOM_synth.ipynb, which draws the figure",
    method="extended precision",
    verdict=CORRECTED,
    kind=WRONG,
    printed="'RMSE' = sqrt((mean(a - b))^2), which is the absolute mean difference |mean(a - b)|",
    corrected="RMSE = sqrt(mean((a - b)^2)).",
    consequence="A fit without a bias has a printed value near 0, good or bad. The notebook also "
    "compares with the transformer's outputs instead of the true log-odds. The code of Tables 7 "
    "and 8 is not public. Their numbers are of the size of squared mean differences, and below "
    "what any unbiased estimator can reach; benchmarks/papers/recovery.py computes both.",
    changes="The RMSEs of Fig. 4 (c, d), and by their size the numbers of Tables 7 and 8, are "
    "mean differences. How well SLALOMs are recovered does not follow from them.",
)
def rmse_of_figure_4(perturb: float = 0.0) -> Outcome:
    """Both expressions on 16 words of which one importance is off by 5, as in the stored figure."""
    differences = [0.0] * 32
    differences[3] = 5.0
    differences[7] = -4.64
    n = len(differences)
    root = math.sqrt(sum(x * x for x in differences) / n)
    formula = math.sqrt(math.fsum((1 + perturb) * x * x for x in differences) / n)
    printed = abs(math.fsum(differences) / n)
    return Outcome(
        abs(formula - root),
        ALGEBRA,
        abs(printed - root),
        "16 words have 32 parameters. If one importance is off by 5, the RMSE is at least "
        f"5/sqrt(32) = {5 / math.sqrt(32):.2f}; the figure shows such a word and prints 0.011. "
        "With "
        f"a second one off by -4.64, the mean difference is 0.36/32 = {printed:.3f}.",
    )


@statement(
    paper="P2",
    ref="App. F.4 (AOPC)",
    claim="deletion and insertion are scored by the area over the perturbation curve, 'as in "
    "DeYoung et al. (2020)'",
    assumptions="compute_insertion_deletion and compute_auc of experiment_utils/metrics.py, and "
    "notebooks/G_FidelityMetrics.ipynb, which prints the tables",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="AOPC as in DeYoung et al.: the mean of f(document) - f(what is left)",
    corrected="Tables 1c, 11 and 12 show 1 - mean p(true class | i tokens left), i = 5, 10, 15, "
    "...: f(document) does not occur, the class is the true one, and every fifth token counts.",
    consequence="The tables rank methods of one model as the AOPC would, up to the tokens that are "
    "left out. Their numbers cannot be compared with an AOPC: insertion is never negative there, "
    "and a model that is unsure gets a high deletion score. benchmarks computes both.",
)
def aopc_of_the_tables(perturb: float = 0.0) -> Outcome:
    """Both quantities on one curve; their difference is 1 - f(document) if all tokens count."""
    curve = [Fraction(n, 20) for n in (10, 11, 13, 12, 15, 16, 17, 17, 18, 18, 18)]
    full = curve[-1]
    left = curve[5::5]
    tables = 1 - sum(left) / len(left)
    formula = one_plus(perturb) * (1 - full) + sum(full - p for p in left) / len(left)
    text = sum(full - p for p in curve[1:]) / (len(curve) - 1)
    return Outcome(
        float(abs(formula - tables)),
        EXACT,
        float(abs(text - tables)),
        "Ten tokens, p = 0.5, 0.55, 0.65, 0.6, 0.75, 0.8, 0.85, 0.85, 0.9, 0.9, 0.9: the tables "
        f"would show 1 - (0.8 + 0.9)/2 = {float(tables):.2f}, the text's AOPC is "
        f"{float(text):.3f}.",
    )


@statement(
    paper="P2",
    ref="App. F.3.2 (SHAP on BERT)",
    claim="SLALOM's correlations with Naive Bayes are higher than those of LIME and SHAP",
    assumptions="Table 9, SLALOM-eff",
    method="algebra",
    verdict=CORRECTED,
    kind=SLIP,
    printed="'While SHAP achieves higher correlation on BERT, SLALOM achieves higher correlation "
    "than LIME and SHAP on all models'",
    corrected="SHAP's correlation on BERT is lower: 0.554 against 0.619 and 0.626. The second half "
    "of the sentence is right.",
    consequence="None: the first half contradicts the second, and Table 9 supports the second.",
)
def shap_on_bert(perturb: float = 0.0) -> Outcome:
    """Smallest lead of linearized SLALOM over LIME and SHAP, and over SHAP on BERT."""
    leads = {name: row[1] - max(row[2:]) for name, row in TABLE_9.items()}
    over_shap = TABLE_9["BERT"][1] - TABLE_9["BERT"][3]
    claimed = {"BERT": 0.010, "DistilBERT": 0.002, "GPT-2": 0.059}
    return Outcome(
        worst([(1 + perturb) * claimed[name] - lead for name, lead in leads.items()]),
        ALGEBRA,
        over_shap,
        "Table 9, BERT: SHAP 0.554, SLALOM-eff 0.619 (values) and 0.626 (linearized).",
    )


@statement(
    paper="P2",
    ref="Table 1b, caption",
    claim="importances are the SLALOM scores that predict human attention best",
    method="algebra",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="'The importance scores are clearly and most strongly predictive of human attention.'",
    corrected="They are best for BERT and GPT-2, by 0.006 and 0.002. For DistilBERT values are "
    "(0.688 against 0.681). The averages of importances and linearized scores agree (0.724).",
    consequence="The lead is of the size of the standard errors (0.01). In our models, importances "
    "are not the best of the three (RESULTS, Tables 1b, 10).",
)
def table_1b(perturb: float = 0.0) -> Outcome:
    """Leads of importances over the better of the other two, and the averages."""
    leads = {name: s - max(v, lin) for name, (v, s, lin) in TABLE_1B.items()}
    claimed = {"BERT": 0.006, "DistilBERT": -0.007, "GPT-2": 0.002}
    average = sum(row[1] - row[2] for row in TABLE_1B.values()) / 3
    return Outcome(
        worst(
            [
                *((1 + perturb) * claimed[name] - lead for name, lead in leads.items()),
                (1 + perturb) * 0.001 - average,
            ]
        ),
        ALGEBRA,
        max(-lead for lead in leads.values()),
        "DistilBERT: values 0.688, importances 0.681. Averages 0.7243 and 0.7233.",
    )


@statement(
    paper="P2",
    ref="Sec. 6.3, App. E.3 (samples)",
    claim="the number of reviews behind the correlations with Naive Bayes",
    assumptions="notebooks/F_Tables.ipynb and G_FidelityMetrics.ipynb",
    method="algebra",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="100 random test samples (section 6.3); 50 random samples (appendix E.3)",
    corrected="100: the arrays of the fidelity notebook, from the same runs, have 100 rows, and "
    "the standard error of Table 1a is the deviation of Table 9 over the root of 100.",
    consequence="None for the correlations.",
)
def samples_of_table_1a(perturb: float = 0.0) -> Outcome:
    """Rows of the printed shape (100, 10, 10), documents by removals by methods."""
    shape = (100, 10, 10)
    return Outcome(
        float(abs(one_plus(perturb) * 100 - shape[0])),
        EXACT,
        float(abs(50 - shape[0])),
        "The notebook prints the shape (100, 10, 10): 100 documents, 1 to 10 removals, 10 methods.",
    )


@statement(
    paper="P2",
    ref="Table 9 (deviations)",
    claim="what stands after the correlations of Tables 1a and 9",
    method="algebra",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="0.619 +- 0.01 in Table 1a ('std.errors') and 0.619 +- 0.08 in Table 9, for the same "
    "number",
    corrected="Table 9 shows standard deviations over the 100 samples (notebooks/F_Tables.ipynb "
    "does not divide by the root of their number), Table 1a standard errors.",
    consequence="Differences of Table 9 are better supported than its +- suggests.",
)
def deviations_of_table_9(perturb: float = 0.0) -> Outcome:
    """The deviation over the root of 100, rounded to two digits as Table 1a has it."""
    error = round((1 + perturb) * 0.08 / math.sqrt(100) * 100) / 100
    exact = abs((1 + perturb) * 0.08 - 0.08)
    return Outcome(
        abs(error - 0.01) + exact,
        ALGEBRA,
        abs(0.08 - 0.01),
        "0.08/sqrt(100) = 0.008, printed as 0.01.",
    )


@statement(
    paper="P2",
    ref="Cor. B.2 (context)",
    claim="a single layer cannot be a linear model, for a context window of C tokens",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="'Let the context window be C > 2'",
    corrected="C >= 2, as in Prop. 4.1, of which it is a case: [tau] and [tau, tau] suffice.",
    consequence="None. Section 4.1 cites 'Eqn. (1)' for the linear model, which is Eq. 2.",
)
def context_of_cor_b_2(perturb: float = 0.0) -> Outcome:
    """At C = 2, the outputs on [tau] and [tau, tau] are one number, those of the linear model two.

    The softmax mean of equal tokens is their value: the smallest C with a contradiction is 2.
    """
    value = Fraction(3, 7)
    mass = Fraction(5, 2)
    outputs = [sum([mass * value] * n) / sum([mass] * n) for n in (1, 2, 3)]
    weight = Fraction(1, 2)
    linear = [weight * n for n in (1, 2, 3)]
    contradicted = [
        n for n in (2, 3) if outputs[n - 1] - outputs[n - 2] != linear[n - 1] - linear[n - 2]
    ]
    return Outcome(
        float(abs(one_plus(perturb) * 2 - min(contradicted))),
        EXACT,
        float(abs(3 - min(contradicted))),
        "w = 1/2: the linear model has 1/2 on [tau] and 1 on [tau, tau]; the transformer has one "
        "number for both. Two tokens are enough.",
    )


@statement(
    paper="P2",
    ref="Sec. 6.1 (BLOOM)",
    claim="which of the large models are transformers",
    method="none",
    verdict=NOT_CHECKABLE,
    reason="Section 6.1 counts BLOOM among 'non-transformer models such as Mamba or BLOOM'. BLOOM "
    "is a decoder-only transformer, and appendix F.7 says so of Mamba alone. The printed Table 15 "
    "also differs from the output that the notebook F_Tables.ipynb stores (BLOOM 0.739, 0.712, "
    "0.740; Mamba 0.615, 0.437, 0.535). Neither model was run here.",
)
def bloom(perturb: float = 0.0) -> Outcome:
    """Nothing to run."""
    raise NotImplementedError


@statement(
    paper="P2",
    ref="Names and numbers",
    claim="references inside the paper",
    method="none",
    verdict=NOT_CHECKABLE,
    reason="Misprints without consequence: Corollary B.3 is called Corollary 4.2 of the main paper "
    "(it is 4.3); Prop. 5.2 names the normalization constant tau instead of gamma and asks for "
    "forward passes of F, which is called G; Algorithm 2 initializes s = 0 twice, for v and s; "
    "Table 13a says DistilBERT for what appendix F.6 calls a 6-layer BERT; Table 3 has weights of "
    "0.6 for 'ok' and 'bad', the authors' code 0.7 and 'poor'.",
)
def names_and_numbers(perturb: float = 0.0) -> Outcome:
    """Nothing to run."""
    raise NotImplementedError
