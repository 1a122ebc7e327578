"""P1, section 5.1 and 5.2 up to Eq. 18, and the slides' theorem on LIME: the limit of the
coefficients.

With pi(s) the kernel at s removed words, alpha_0 = E[pi], alpha_1 = E[pi Z_j], alpha_2 = E[pi Z_j
Z_k], the limit coefficients solve the (d+1) x (d+1) normal equations; all checks solve them in
rationals by elimination.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from .. import brute_force as bf
from ..registry import CONDITION, CORRECTED, MISPRINT, SLIP, Outcome, one_plus, statement
from ..tolerances import ALGEBRA, EXACT
from . import small_model as m


def random_game(d: int, seed: int, shift: int = 0) -> bf.Value:
    """A set function with arbitrary rational values: no structure that a wrong formula could lean
    on.
    """
    rng = random.Random(seed)
    table = {S: Fraction(rng.randint(-60, 60), rng.randint(1, 12)) + shift for S in bf.subsets(d)}
    return table.__getitem__


def largest(differences: list[Fraction]) -> float:
    """The largest absolute value, 0.0 only if all vanish exactly."""
    return float(max(abs(x) for x in differences))


@statement(
    paper="P1",
    ref="Eq. 15",
    claim=(
        "the weight is positive and falls with the number s of removed words: d(1, Z) = 1 - "
        "sqrt((d-s)/d)"
    ),
    assumptions=(
        "Z != 0; at s = d, drawn with probability 1/d, the cosine distance is 0/0 and LIME takes "
        "it as 1"
    ),
    method="algebra",
)
def eq_15(perturb: float = 0.0) -> Outcome:
    """Cosine distance of the vectors themselves against its closed form, and monotony of the
    weight.
    """
    error = 0.0
    for d in (1, 2, 5, 8):
        weights = []
        for s in range(d):
            Z = np.array([0.0] * s + [1.0] * (d - s))
            distance = 1 - Z.sum() / (math.sqrt(d) * np.linalg.norm(Z))
            error = max(error, abs(distance - (1 - (1 + perturb) * math.sqrt((d - s) / d))))
            weights.append(math.exp(-(distance**2) / (2 * 0.25**2)))
        falls = all(a > b > 0 for a, b in zip([*weights, 0.0], weights[1:], strict=False))
        error = max(error, 0.0 if falls else 1.0)
    return Outcome(error, ALGEBRA)


def moments(
    d: int, value: bf.Value, weight: Callable[[int], Fraction]
) -> tuple[list[Fraction], list[Fraction]]:
    """(alpha_0, alpha_1, alpha_2) and (E[pi f], E[pi Z_1 f], ..., E[pi Z_d f]) by enumeration."""
    alpha = [Fraction(0)] * 3
    right = [Fraction(0)] * (d + 1)
    for S, p in bf.sampling_law(d).items():
        mass = p * weight(len(S))
        alpha[0] += mass
        alpha[1] += mass * (1 not in S)
        alpha[2] += mass * (1 not in S and 2 not in S)
        right[0] += mass * value(S)
        for j in range(1, d + 1):
            right[j] += mass * value(S) * (j not in S)
    return alpha, right


def kernel(s: int) -> Fraction:
    """A positive, falling, rational stand-in for Eq. 15: the algebra does not depend on which."""
    return Fraction(3, 2 + s * s)


@statement(
    paper="P1",
    ref="Eq. 16",
    claim=(
        "LIME outputs the minimizer of sum pi (y - beta.z)^2 + lambda |beta|^2 over beta in R^{d+1}"
    ),
    assumptions="z has a leading 1 for the intercept, beta_0",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=SLIP,
    printed="The penalty lambda |beta|^2 over all of beta in R^{d+1}, the intercept included.",
    corrected=(
        "The penalty is lambda sum_{j>=1} beta_j^2: the package fits Ridge with a free intercept. "
        "The minimizer then is beta_j = (Gamma_j - G)/(alpha_1 - alpha_2 + rho) + G/(alpha_1 + "
        "(d-1) alpha_2 - d alpha_1^2/alpha_0 + rho), Gamma_j = E[pi Z_j f] - alpha_1 E[pi "
        "f]/alpha_0, G = mean Gamma, rho = lambda/n."
    ),
    consequence=(
        "With a penalized intercept the explanation of f + c depends on c, so a constant model "
        "gets non-zero coefficients. It vanishes with lambda/n, hence not visible in the limit of "
        "section 5.2."
    ),
)
def eq_16(perturb: float = 0.0) -> Outcome:
    """Normal equations with a ridge, free and penalized intercept, against the closed form."""
    rho = Fraction(1, 20)
    error = []
    printed = []
    for d in (2, 3, 5):
        value = random_game(d, seed=d)
        (a0, a1, a2), right = moments(d, value, kernel)
        Gamma = [right[j] - a1 * right[0] / a0 for j in range(1, d + 1)]
        G = sum(Gamma, Fraction(0)) / d
        spread = one_plus(perturb) / (a1 - a2 + rho)
        formula = [
            (x - G) * spread + G / (a1 + (d - 1) * a2 - d * a1 * a1 / a0 + rho) for x in Gamma
        ]
        free = bf.lime_limit(d, value, kernel, rho)[1:]
        penalized = bf.lime_limit(d, value, kernel, rho, penalize_intercept=True)[1:]
        error += [x - y for x, y in zip(formula, free, strict=True)]
        printed += [x - y for x, y in zip(formula, penalized, strict=True)]
    constant = bf.lime_limit(
        2, lambda S: Fraction(1), ridge=Fraction(1, 4), penalize_intercept=True
    )
    return Outcome(
        largest(error),
        EXACT,
        largest(printed),
        counterexample=(
            "d = 2, f = 1 for every sample, pi = 1, lambda/n = 1/4. Samples (0,1), (1,0), (0,0) "
            "with probabilities 1/4, 1/4, 1/2. Eq. 16: (5/4) b0 + (1/2) b = 1 and (1/4) b0 + "
            f"(1/2) b = 1/4, so b0 = 3/4 and b = {constant[1]}; LIME returns b = 0."
        ),
    )


@statement(
    paper="P1",
    ref="Slides, local surrogate",
    claim="the surrogate is fitted over beta in R^d",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="argmin over beta in R^d of sum pi (Y - beta.Z)^2 + lambda |beta|^2, no intercept.",
    corrected=(
        "beta in R^{d+1} with an intercept, as in the paper; without it Eq. 17 does not follow "
        "even to leading order."
    ),
    consequence="Without intercept a constant model would get coefficients of order one.",
)
def slides_surrogate(perturb: float = 0.0) -> Outcome:
    """Adding a constant to f leaves the coefficients alone with an intercept, not without."""
    error = []
    printed = []
    for d in (2, 3, 4):
        value = random_game(d, 20 + d)
        raised = random_game(d, 20 + d, shift=7)
        slip = 7 * one_plus(perturb) - 7
        plain = bf.lime_limit(d, value)
        shifted = bf.lime_limit(d, raised)
        error += [shifted[0] - plain[0] - 7 - slip] + [
            x - y for x, y in zip(shifted[1:], plain[1:], strict=True)
        ]
        without = bf.lime_limit(d, raised, intercept=False)
        printed += [x - y for x, y in zip(without[1:], plain[1:], strict=True)]
    return Outcome(
        largest(error),
        EXACT,
        largest(printed),
        counterexample=(
            "d = 2, f = 1: samples (0,1), (1,0), (0,0). Without intercept beta = (1, 1) fits the "
            "first two; with intercept beta_0 = 1, beta = (0, 0) fits all."
        ),
    )


@statement(
    paper="P1",
    ref="Slides, Theorem (Mardaoui, Garreau)",
    claim="beta_j = (sigma_1 E[pi f] + sigma_2 E[pi Z_j f] + sigma_3 sum_{k != j} E[pi Z_k f])/c_d",
    assumptions="lambda = 0; c_d, sigma_i as in Mardaoui, Garreau (2021)",
    method="exact rational enumeration",
)
def slides_theorem(perturb: float = 0.0) -> Outcome:
    """c_d = (d-1)a0 a2 - d a1^2 + a0 a1 and the three sigmas against elimination, for a kernel that
    is not flat.
    """
    error = []
    for d in (2, 3, 4, 5):
        value = random_game(d, seed=30 + d)
        (a0, a1, a2), right = moments(d, value, kernel)
        c_d = (d - 1) * a0 * a2 - d * a1 * a1 + a0 * a1
        sigma_2 = one_plus(perturb) * ((d - 2) * a0 * a2 - (d - 1) * a1 * a1 + a0 * a1) / (a1 - a2)
        sigma_3 = (a1 * a1 - a0 * a2) / (a1 - a2)
        beta = bf.lime_limit(d, value, kernel)
        for j in range(1, d + 1):
            others = sum((right[k] for k in range(1, d + 1) if k != j), Fraction(0))
            error.append((-a1 * right[0] + sigma_2 * right[j] + sigma_3 * others) / c_d - beta[j])
    return Outcome(largest(error), EXACT)


@statement(
    paper="P1",
    ref="Eq. 17",
    claim="beta_j = 3 E[f | j not in S] - (3/d) sum_k E[f | k not in S]",
    assumptions="infinite bandwidth, no ridge, infinitely many samples",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    changes=(
        "LIME's coefficients do not sum to zero. In the regime of Theorem 5.1 the term left out is "
        "as large as the coefficients."
    ),
    printed="beta_j = 3 E[f(X)|j not in S] - (3/d) sum_k E[f(X)|k not in S], as an equality.",
    corrected=(
        "beta_j = 3 (d-1)/(d+1) (E_j - Ebar) + 6/(d+1) (Ebar - E[f]), where E_j = E[f | j not in "
        "S] and Ebar = mean of the E_j. Eq. 17 is this with O(1/d) terms left out."
    ),
    consequence=(
        "The coefficients of Eq. 17 sum to zero for every model. The term left out, 6/(d+1) (Ebar "
        "- E[f]), is the mean coefficient: small against a coefficient of order one, but of the "
        "same order as the coefficients themselves when these are of order 1/d or less, which is "
        "the regime of Theorem 5.1."
    ),
)
def eq_17(perturb: float = 0.0) -> Outcome:
    """Both forms against elimination, for arbitrary set functions."""
    error = []
    printed = []
    for d in (2, 3, 4, 5, 6):
        value = random_game(d, seed=40 + d)
        law = bf.sampling_law(d)
        E = bf.expectation(law, value)
        E_j = [bf.expectation(law, value, bf.kept(j)) for j in range(1, d + 1)]
        mean = sum(E_j, Fraction(0)) / d
        beta = bf.lime_limit(d, value)[1:]
        slope = one_plus(perturb) * Fraction(3 * (d - 1), d + 1)
        error += [
            slope * (x - mean) + Fraction(6, d + 1) * (mean - E) - b
            for x, b in zip(E_j, beta, strict=True)
        ]
        printed += [3 * x - 3 * mean - b for x, b in zip(E_j, beta, strict=True)]
    d = 5
    share = bf.lime_limit(d, lambda S: Fraction(d - len(S), d))
    return Outcome(
        largest(error),
        EXACT,
        largest(printed),
        counterexample=(
            "f = the fraction of words left, d = 5: f is linear with every coefficient "
            f"{share[1]}, which least squares returns. By symmetry all E_j are equal (3/5), so Eq. "
            "17 gives 3 E_j - 3 E_j = 0."
        ),
    )


@statement(
    paper="P1",
    ref="Eq. 18",
    claim=(
        "alpha_{h,t} = g_{h,t}/sum_u g_{h,u} is the attention at t when every position holds [UNK]"
    ),
    assumptions="q stays that of [CLS]",
    method="algebra",
)
def eq_18(perturb: float = 0.0) -> Outcome:
    """The softmax of the model on a document of [UNK] only, against the definition by k_{h,t} = W_k
    h + W_k W_p(t).
    """
    w = m.random_weights(18)
    error = 0.0
    positions = 0.2 * np.random.default_rng(18).normal(size=(m.T_max, m.d_e))
    for i in range(m.K):
        q = w.W_q[i] @ w.e[0]
        k_h = (w.W_k[i] @ w.h)[None] + positions @ w.W_k[i].T
        g_h = np.exp((1 + perturb) * k_h @ q / math.sqrt(m.d_att))
        logits = (w.h + positions) @ w.W_k[i].T @ q / math.sqrt(m.d_att)
        softmax = np.exp(logits - logits.max())
        error = max(error, m.relative_error(g_h / g_h.sum(), softmax / softmax.sum()))
    return Outcome(error, ALGEBRA)
