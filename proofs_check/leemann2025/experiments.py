"""P2, Appendices E and F, Figures 4 and 9: the statements that the experiments rest on."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from proofs_check.leemann2025.forms import worst
from proofs_check.registry import CONDITION, CORRECTED, MISPRINT, Outcome, statement
from proofs_check.tolerances import ALGEBRA, EXACT


@statement(
    paper="P2",
    ref="App. E.1.1 (step 4)",
    claim="p(1)/p(0) = exp(F) is p(1) = exp(F)/(1 + exp(F))",
    method="exact rational enumeration",
)
def app_e_1_1(perturb: float = 0.0) -> Outcome:
    """Rational odds."""
    differences = []
    for odds in (Fraction(1, 100), Fraction(1), Fraction(7, 2), Fraction(1000)):
        p = odds / (1 + odds)
        differences.append(p / (1 - p) - (1 + Fraction(perturb)) * odds)
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Table 3",
    claim="the occurrence probabilities sum to one; lengths from Bin(30, 1/2) have mean 15",
    assumptions="Section 6.2 lists the weights as {-1.5, -1, 0, 1, 1.5}; the table has -0.6 and 0.6 as well. The "
    "length 0, which Section 3.1 excludes, has probability 2^-30",
    method="exact rational enumeration",
)
def table_3(perturb: float = 0.0) -> Outcome:
    """Exact sums."""
    p = [Fraction(1, 6)] * 4 + [Fraction(1, 15), Fraction(1, 20), Fraction(1, 20)] * 2
    mean = sum(Fraction(k * math.comb(30, k), 2**30) for k in range(31))
    return Outcome(
        worst([(1 + Fraction(perturb)) * sum(p) - 1, (1 + Fraction(perturb)) * mean - 15]), EXACT
    )


@statement(
    paper="P2",
    ref="Eq. 81",
    claim="importances of the recovery experiment are drawn around a power of the value",
    assumptions="values of both signs (bag-of-words log-ratios)",
    method="extended precision",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="s(tau) ~ 5 v(tau)^(3/2) + N(0, 1)/2",
    corrected="s(tau) ~ 5 |v(tau)|^(3/2) + N(0, 1)/2, then shifted to mean 0: in the file datasets/"
    "slalom_200words.pt of the authors' repository, s is 5.045 |v|^(3/2) - 0.985, with a residual "
    "deviation of 0.494.",
    consequence="For v < 0 the printed power is not a real number: about half of the vocabulary has no importance.",
)
def eq_81(perturb: float = 0.0) -> Outcome:
    """|v|^(3/2) = sqrt(|v|)^3 is real for every v and equals the printed power for v >= 0."""
    right = [
        (1 + perturb) * 5 * abs(v) ** 1.5 - 5 * (v * math.sqrt(v) if v >= 0 else -v * math.sqrt(-v))
        for v in (-2.0, -0.25, 0.0, 0.25, 1.0, 2.0)
    ]
    imaginary = abs((5 * complex(-0.25) ** 1.5).imag)
    return Outcome(
        worst(right),
        ALGEBRA,
        imaginary,
        "v = -1/4: (-1/4)^(3/2) = (-1/4) sqrt(-1/4) = -i/8, so 5 v^(3/2) = -0.625 i; 5 |v|^(3/2) = "
        "0.625.",
        detail="printed_error is the imaginary part at v = -1/4",
    )


@statement(
    paper="P2",
    ref="Eq. 82",
    claim="Naive Bayes: log-odds = log prior odds + sum of log p(t_i|1)/p(t_i|0)",
    assumptions="tokens independent given the class",
    method="exact rational enumeration",
)
def eq_82(perturb: float = 0.0) -> Outcome:
    """Both sides exponentiated, on the joint distribution of a class and two tokens."""
    prior = (Fraction(2, 5), Fraction(3, 5))
    given = (
        (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)),
        (Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)),
    )
    differences = []
    for t in itertools.product(range(3), repeat=2):
        joint = [prior[y] * given[y][t[0]] * given[y][t[1]] for y in range(2)]
        total = sum(joint)
        odds = (joint[1] / total) / (joint[0] / total)
        ratio = prior[1] / prior[0]
        for token in t:
            ratio *= given[1][token] / given[0][token]
        differences.append(odds - (1 + Fraction(perturb)) * ratio)
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Below Eq. 82",
    claim="the linear score w of a token, from counts with Laplace smoothing alpha",
    assumptions="p(t|y) = (#occurrences in y + alpha)/(N_y + alpha |V|)",
    method="extended precision",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="w(tau) = (#occ. in class 1 + alpha)/(#occ. in class 0 + alpha)",
    corrected="w(tau) = log[(#occ. in class 1 + alpha)/(#occ. in class 0 + alpha)] + log[(N_0 + alpha |V|)/(N_1 + "
    "alpha |V|)]: the logarithm of Eq. 82, and a constant that vanishes if both classes have "
    "equally many words.",
    consequence="Rank correlations with v do not change (the logarithm is monotone). Those with importances do: they "
    "use |w|, and the printed w is positive, so words that support class 0 get the lowest ranks. "
    "The authors' "
    "published code takes the log.",
)
def below_eq_82(perturb: float = 0.0) -> Outcome:
    """Sum of scores plus prior log-odds against Eq. 82 with the smoothed probabilities; vocabulary
    of three words.
    """
    alpha = 40
    counts = ((0, 40), (30, 0), (50, 25))  # (class 1, class 0) of each word
    N_1, N_0 = (sum(c[i] for c in counts) + alpha * len(counts) for i in range(2))
    ratios = [Fraction(c_1 + alpha, c_0 + alpha) for c_1, c_0 in counts]
    right = []
    printed = []
    for t in itertools.product(range(3), repeat=2):
        target = sum(
            math.log(Fraction(counts[k][0] + alpha, N_1) / Fraction(counts[k][1] + alpha, N_0))
            for k in t
        )
        right.append(
            sum((1 + perturb) * math.log(ratios[k]) + math.log(N_0 / N_1) for k in t) - target
        )
        printed.append(float(sum(ratios[k] for k in t)) - target)
    return Outcome(
        worst(right),
        ALGEBRA,
        worst(printed),
        "alpha = 40, word A with 0 and 40 occurrences in class 1 and 0, word B with 40 and 0, "
        "equal priors: "
        "printed w(A) = 40/80 = 0.5 and w(B) = 80/40 = 2, so A seems to support class 1 and |w(A)| "
        "< |w(B)|. Right: "
        "w(A) = log 0.5 = -0.693, w(B) = +0.693, equally strong and of opposite sign.",
    )


@statement(
    paper="P2",
    ref="Fig. 4",
    claim="the GAM of the experiment has C/2 = 15 times more parameters than SLALOM",
    assumptions="C = 30, |V| = 10, SLALOM counted with 2|V| parameters (2|V| - 1 are free)",
    method="algebra",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="'Despite having C/2=15x more parameters than the SLALOM model, the linear and GAM models does not match'",
    corrected="The GAM has C |V| = 300 parameters, C/2 = 15 times SLALOM's 2|V| = 20; the linear model has |V| = 10 "
    "(11 with an offset), about half of SLALOM's. (Figure 10's caption has it right.)",
    consequence="SLALOM's better fit than the linear model is not at equal or fewer parameters.",
)
def fig_4(perturb: float = 0.0) -> Outcome:
    """Counts."""
    C = 30
    V = 10
    return Outcome(
        worst([(1 + Fraction(perturb)) * Fraction(C * V, 2 * V) - Fraction(C, 2)]),
        EXACT,
        worst([Fraction(V, 2 * V) - Fraction(C, 2)]),
        "300/20 = 15 for the GAM, 10/20 = 1/2 for the linear model.",
    )


@statement(
    paper="P2",
    ref="Fig. 9",
    claim="outputs 2.5, 2.5, -2.6, -2.5 force the GAM's output on 'worst perfect'",
    assumptions="F(t) = sum_i w_i(t_i), b = 0",
    method="algebra",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="'Expected GAM output w_1(perfect) + w_2(worst) = 2.6' for the sequence 'worst perfect'",
    corrected="w_1(worst) + w_2(perfect) = -2.6 + 0 = -2.6. (2.6 is the output for 'perfect worst'.)",
    consequence="None for the argument: the model's output is 0.0, so the GAM is contradicted either way. SLALOM's "
    "-0.05 is right.",
)
def fig_9(perturb: float = 0.0) -> Outcome:
    """Solve for the weights from the first four rows, then predict the fifth."""
    perfect = Fraction(5, 2)
    perfect_2 = Fraction(5, 2)
    worst_1 = Fraction(-13, 5)
    worst_2 = Fraction(-5, 2)
    w_1 = {"perfect": perfect, "worst": worst_1}
    w_2 = {"perfect": perfect_2 - perfect, "worst": worst_2 - worst_1}
    gam = w_1["worst"] + w_2["perfect"]
    slalom_output = (perfect + worst_1) / 2
    scale = 1 + Fraction(perturb)
    return Outcome(
        worst([scale * gam - Fraction(-13, 5), scale * slalom_output - Fraction(-1, 20)]),
        EXACT,
        worst([gam - (w_1["perfect"] + w_2["worst"])]),
        "w_1(perfect) = 2.5, w_2(perfect) = 2.5 - 2.5 = 0, w_1(worst) = -2.6, w_2(worst) = -2.5 + "
        "2.6 = 0.1: 'worst "
        "perfect' is -2.6 + 0 = -2.6, 'perfect worst' is 2.5 + 0.1 = 2.6.",
    )


@statement(
    paper="P2",
    ref="App. F.2",
    claim="the largest mean squared error in parameter space of Table 8",
    method="algebra",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="'the largest value being MSE=0.015'",
    corrected="0.017: Table 8's largest entry is 1.652 (GPT-2, two layers), given in units of 1/100.",
    consequence="None for the argument.",
)
def app_f_2(perturb: float = 0.0) -> Outcome:
    """Maximum of the table, rounded to three digits."""
    table = (0.092, 0.540, 0.940, 0.094, 0.368, 1.652, 0.124, 0.830, 0.569, 0.287, 0.394, 0.385)
    largest = max(table) / 100
    return Outcome(
        worst([(1 + perturb) * 0.017 - round(largest, 3)]),
        ALGEBRA,
        worst([0.015 - round(largest, 3)]),
        "1.652/100 = 0.01652, which rounds to 0.017.",
    )
