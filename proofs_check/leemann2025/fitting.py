"""P2, Appendix D: the two algorithms that fit a SLALOM to a model's outputs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

from proofs_check.leemann2025.forms import (
    MASSES,
    VALUES,
    matrix_rank,
    sequences,
    slalom,
    slalom_jacobian_row,
    worst,
)
from proofs_check.registry import CONDITION, CORRECTED, MISPRINT, WRONG, Outcome, statement
from proofs_check.tolerances import EXACT


def _counts(tokens: Sequence[int], size: int) -> list[int]:
    return [list(tokens).count(k) for k in range(size)]


@statement(
    paper="P2",
    ref="Eq. 74 (matrix A)",
    claim="SLALOM's outputs on the sample are A v with a matrix A that depends on s alone",
    assumptions="v has one entry for each distinct token, as E in Eq. 77 has one column for each",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="a_ij = exp(s(t_i))/sum_{t_j in t_i} exp(s(t_j))",
    corrected=(
        "a_ij = n_ij exp(s_j)/sum_k n_ik exp(s_k), n_ij the number of occurrences of token j in "
        "sequence i."
    ),
    consequence="The numerator belongs to token j, not to sequence i, and a repeated token counts "
    "as often as it occurs; otherwise rows with duplicates do not sum to one. The authors' "
    "published code does count occurrences.",
)
def eq_74_matrix(perturb: float = 0.0) -> Outcome:
    """A v against Eq. 4 on all sequences of length up to 4 over three tokens; printed: exp(s_j) in
    the numerator.
    """
    right = []
    printed = []
    for tokens in sequences(3, 4):
        counts = _counts(tokens, 3)
        total = sum(n * g for n, g in zip(counts, MASSES, strict=False))
        target = slalom(tokens, MASSES, VALUES)
        rows = [
            (n * g / total * v, (n > 0) * g / total * v)
            for n, g, v in zip(counts, MASSES, VALUES, strict=False)
        ]
        right.append((1 + Fraction(perturb)) * sum(row[0] for row in rows) - target)
        printed.append(sum(row[1] for row in rows) - target)
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "t = [a, a, b], s = 0, v = 1, 1: the row without occurrences is (1/3, 1/3) and gives 2/3; "
        "(2/3, 1/3) gives 1 = F(t).",
    )


@statement(
    paper="P2",
    ref="Eq. 74 (normal equation)",
    claim="for fixed s the best v is the solution of the normal equation",
    assumptions="A of full column rank",
    method="exact rational enumeration",
)
def eq_74_normal(perturb: float = 0.0) -> Outcome:
    """Two tokens: solve A^T A v = A^T f exactly; then loss(v + delta) - loss(v) = |A delta|^2,
    never negative.
    """
    g = MASSES[:2]
    sample = [(0,), (0, 1), (0, 0, 1), (1,)]
    f = [Fraction(1, 2), Fraction(-1), Fraction(3), Fraction(2, 7)]
    A = [slalom_jacobian_row(tokens, g, (Fraction(0),) * 2)[2:] for tokens in sample]
    (p, q, r) = (sum(row[i] * row[j] for row in A) for i, j in ((0, 0), (0, 1), (1, 1)))
    y = [sum(row[i] * f_i for row, f_i in zip(A, f, strict=True)) for i in range(2)]
    det = p * r - q * q
    v = [(1 + Fraction(perturb)) * x / det for x in (r * y[0] - q * y[1], p * y[1] - q * y[0])]

    def loss(v: Sequence[Fraction]) -> Fraction:
        return sum(
            ((row[0] * v[0] + row[1] * v[1] - f_i) ** 2 for row, f_i in zip(A, f, strict=True)),
            Fraction(0),
        )

    differences = []
    for delta in itertools.product((Fraction(-1), Fraction(0), Fraction(1, 10)), repeat=2):
        grown = sum((row[0] * delta[0] + row[1] * delta[1]) ** 2 for row in A)
        differences.append(loss([v[0] + delta[0], v[1] + delta[1]]) - loss(v) - grown)
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 75-76",
    claim="F(t_i) = f_i if and only if sum_j exp(s(t_j)) (v(t_j) - f_i) = 0",
    method="exact rational enumeration",
)
def eq_75_76(perturb: float = 0.0) -> Outcome:
    """The sum is D_i (F(t_i) - f_i) with D_i = sum exp(s) > 0: checked for f = F and for f
    different from F.
    """
    differences = []
    for tokens in sequences(4, 3):
        D = sum(MASSES[t] for t in tokens)
        F = slalom(tokens, MASSES, VALUES)
        for f in (F, F + 1, Fraction(2, 9)):
            residual = sum(MASSES[t] * (VALUES[t] - (1 + Fraction(perturb)) * f) for t in tokens)
            differences.append(residual - D * (F - f))
    return Outcome(worst(differences), EXACT)


def _mse_example(z: float) -> float:
    """Squared error of the sample [a, b] -> 1/2, [a, a, b] -> 1/2 with v = 0, 1 and masses 2 - z,
    z.
    """
    return (z / 2 - 0.5) ** 2 + (z / (4 - z) - 0.5) ** 2


def _minimum(low: float, high: float) -> float:
    """Bisection on the sign of the derivative of `_mse_example`: (z-1)/2 + 8
    (z/(4-z) - 1/2)/(4-z)^2 is increasing.
    """
    for _ in range(200):
        z = (low + high) / 2
        slope = (z - 1) / 2 + 8 * (z / (4 - z) - 0.5) / (4 - z) ** 2
        low, high = (z, high) if slope < 0 else (low, z)
    return low


def _reweighted() -> float:
    """Fixed point of Eq. 77 with rows divided by the previous D:
    ((z-1)/2)^2 + ((3z/2 - 2)/(4 - previous))^2.
    """
    z = 1.0
    for _ in range(100):
        weight = 1 / (4 - z) ** 2
        z = (0.25 + 3 * weight) / (0.25 + 2.25 * weight)
    return z


@statement(
    paper="P2",
    ref="Eq. 77",
    claim=(
        "the s-step of Algorithm 2, argmin of the squared error over s, is the quadratic problem "
        "min |E s-bar|^2"
    ),
    assumptions="e_ij = n_ij (v_j - f_i), s-bar = exp(s)",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=WRONG,
    changes=(
        "The two steps of Algorithm 2 minimize different functions, so that the loop need not end "
        "at the best SLALOM."
    ),
    printed="min (E s-bar)^T (E s-bar), said to solve Algorithm 2's argmin_s sum_i (F(B[i]) - "
    "SLALOM(B[i]))^2 ('Quadratic problem')",
    corrected="(E s-bar)_i = D_i (SLALOM_i - f_i) with D_i = sum_j n_ij s-bar_j: Eq. 77 weights "
    "the residuals by D_i^2. The squared error is |diag(1/D) E s-bar|^2, not quadratic in s-bar; "
    "Gauss-Newton steps minimize it. (Dividing by the D of the previous step comes closer in the "
    "example, but its fixed point is not the minimizer.)",
    consequence="The two steps of Algorithm 2 minimize different functions, so the squared error "
    "need not fall in an s-step; long sequences and heavy tokens dominate. Both agree if SLALOM "
    "fits the sample exactly.",
)
def eq_77(perturb: float = 0.0) -> Outcome:
    """Both objectives as exact numbers at several s-bar; and the two minimizers of a sample of two
    sequences.
    """
    sample = [(0, 1), (0, 0, 1), (1, 2), (0, 1, 2)]
    f = [Fraction(1, 2), Fraction(0), Fraction(-1), Fraction(1, 3)]
    right = []
    for mass in ((1, 1, 1), (2, 1, 5), (1, 9, 3)):
        g = [Fraction(m) for m in mass]
        residual = [
            sum(g[t] * (VALUES[t] - f_i) for t in tokens)
            for tokens, f_i in zip(sample, f, strict=True)
        ]
        D = [sum(g[t] for t in tokens) for tokens in sample]
        error = sum(
            (slalom(tokens, g, VALUES) - f_i) ** 2 for tokens, f_i in zip(sample, f, strict=True)
        )
        right.append(
            sum(((1 + Fraction(perturb)) * e / d) ** 2 for e, d in zip(residual, D, strict=True))
            - error
        )
    z = _minimum(0.5, 1.5)
    return Outcome(
        worst(right),
        EXACT,
        _mse_example(16 / 13) / _mse_example(z) - 1,
        "v(a) = 0, v(b) = 1, sample F([a, b]) = F([a, a, b]) = 1/2, masses (2 - z, z) on "
        "|s-bar|_1 = |V| = 2. Eq. 77: (z - 1)^2 + (3z/2 - 2)^2, smallest at z = 16/13 = 1.2308, "
        f"squared error (z/2 - 1/2)^2 + (z/(4-z) - 1/2)^2 = {_mse_example(16 / 13):.6f}. The "
        f"squared error is smallest at z = {z:.4f}: {_mse_example(z):.6f}.",
        detail="printed_error is the relative excess of the squared error at the minimizer of Eq. "
        f"77; dividing by the previous D ends at z = {_reweighted():.4f}",
    )


@statement(
    paper="P2",
    ref="Eq. 78-79",
    claim="the constraints exclude s-hat = 0, and the importances are log s-hat",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="s-hat >= 0, |s-hat|_1 >= |V|; 'The conditions ensure that we can obtain the original "
    "s-scores as log s-hat'",
    corrected="s-hat_j >= eps > 0 for every token, |s-hat|_1 >= |V| (attained with equality, since "
    "Eq. 77 is homogeneous). Eq. 77 writes s-bar for the same vector.",
    consequence="s-hat_j = 0 is feasible and is the solution whenever a token is best ignored; log "
    "0 = -infinity, and s - mean(s) at the end of Algorithm 2 is then undefined for all tokens. "
    "(The solver of the authors' code keeps strictly inside its bounds and returns a tiny number "
    "instead.)",
)
def eq_78_79(perturb: float = 0.0) -> Outcome:
    """V = {a, b}, v = 0, 1, sample [a, b] -> 1: E = (-1, 0), objective s-hat_a^2, smallest at its
    lower bound.
    """
    differences = []
    for eps in (Fraction(1, 10), Fraction(1, 1000)):
        g = (eps, 2 - eps)
        output = slalom((0, 1), g, (Fraction(0), Fraction(1)))
        differences.append(1 - output - (1 + Fraction(perturb)) * eps / 2)
    best = min((Fraction(k, 100) for k in range(201)), key=lambda a: (a * (0 - 1)) ** 2)
    undefined = sum(1 for mass in (best, 2 - best) if mass == 0)
    return Outcome(
        worst(differences),
        EXACT,
        float(undefined),
        "V = {a, b}, v = 0, 1, one sample [a, b] with output 1: E s-hat = -s-hat_a, smallest at "
        "s-hat = (0, 2), and log 0 is not a number. With s-hat_a >= eps the solution is (eps, 2 - "
        "eps) and F = 1 - eps/2.",
        detail="printed_error counts the tokens whose log s-hat is undefined",
    )


@statement(
    paper="P2",
    ref="Algorithm 1",
    claim="sequences of two tokens determine SLALOM; s - mean(s) at the end changes no output",
    assumptions="not all values equal, and the sample has pairs [tau, tau] (tokens drawn with "
    "replacement): pairs of different tokens alone leave 5 to 7 parameters to 3 to 6 equations for "
    "|V| = 3, 4",
    method="exact rational enumeration",
)
def algorithm_1(perturb: float = 0.0) -> Outcome:
    """Exact rank of the derivatives on all pairs against 2|V| - 1, |V| = 2 .. 5."""
    differences = []
    for size in range(2, 6):
        g = [Fraction(k + 2, 2 * k + 1) for k in range(size)]
        v = [Fraction(k * k - 2, k + 1) for k in range(size)]
        rank = matrix_rank(
            slalom_jacobian_row(tokens, g, v) for tokens in sequences(size, 2, shortest=2)
        )
        differences.append(rank - (1 + Fraction(perturb)) * (2 * size - 1))
    return Outcome(worst(differences), EXACT)
