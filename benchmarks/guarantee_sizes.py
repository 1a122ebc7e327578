"""Explanations as linear functionals of moments by size: their weights, from the definitions, in
ball arithmetic.

The moments of a game, for m = 0..d players present, are those of `guarantee_types.py`: mean(m),
present_t(m) for a player of type t, both_tu(m) for one of each of two types, and chosen(m), the sum
of present over the players in LIME's surrogate model. A `Row` has the weights of one number of an
answer.

*Semivalues.* With the probability q_s that s others are present, a coalition of m players that
contains j is one of C(d-1, m-1), so phi_j = sum_m q_{m-1} d/m present(m) - q_m d/(d-m)
(mean(m) - present(m)). *Indices of pairs* follow the same way from second differences. *LIME* is
the solution of its normal equations, which players that are exchanged leave as they are, so that
the matrix has one number on its diagonal and one off it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .guarantee_types import Moments, Types

LONG = np.longdouble
LONG_EPS = float(np.finfo(LONG).eps)
# Numbers as long doubles, or as balls in an array of objects.
Numbers = NDArray[Any]
# Bits of the balls from which weights are rounded to long doubles, beyond those that cancel in
# them.
WEIGHT_BITS = 400
# Binary digits of the integer that becomes a long double.
LONG_BITS = 64


class Row(NamedTuple):
    """One number as a functional: the weights (d+1,) of each moment that it uses."""

    weights: dict[tuple[Any, ...], Numbers]
    norm: float  # sum over m of |weight| times a bound of the moment for |f| <= 1
    with_constant: bool  # whether f = 1 has the value 1, not 0

    def apply(self, moments: Moments) -> Any:
        """Return the number for these moments."""
        return sum((weights * moments[key]).sum() for key, weights in self.weights.items())


Weights = dict[str, list[Any]]  # lists of d + 1 balls by name


def rows_of(
    what: str,
    types: Types,
    chosen: tuple[int, ...],
    settings: tuple[Any, ...],
    bits: int | None,
) -> tuple[list[Row], NDArray[np.intp]]:
    """Return the different numbers of an answer, and for each number of the answer which of them it
    is.
    """
    d = types.d
    T = len(types.counts)
    if what == "by size":
        every = np.eye(d + 1, dtype=int)[::-1]
        return [Row({("mean",): unit}, 1.0, True) for unit in every], np.arange(d + 1)
    if what == "lime":
        k = sum(types.counts[t] for t in chosen)
        weights = _converted("lime", d, (*settings[:3], k), bits)
        coefficients = [_lime_row(weights, t, t in chosen, d, k) for t in range(T)]
        moduli = _moduli(
            {"mean": weights["intercept"], "chosen": weights["intercept chosen"]}, d, k
        )
        parts = {("mean",): weights["intercept"], ("chosen",): weights["intercept chosen"]}
        return [*coefficients, Row(parts, moduli, True)], np.append(types.member, T)
    if what in ("interactions", "index"):
        return _pair_rows(what, types, settings, bits)
    weights = _converted(what, d, settings, bits)
    return [_single_row(weights, t, d) for t in range(T)], types.member


def _single_row(weights: dict[str, Numbers], t: int, d: int) -> Row:
    parts = {("mean",): weights["mean"], ("present", t): weights["present"]}
    return Row(parts, _moduli(weights, d), False)


def _lime_row(weights: dict[str, Numbers], t: int, chosen: bool, d: int, k: int) -> Row:
    """Return a coefficient; it is 0 for a player that is not in the surrogate model."""
    if not chosen:
        return Row({("mean",): 0 * weights["mean"]}, 0.0, False)
    moduli = _moduli({name: weights[name] for name in ("mean", "present", "chosen")}, d, k)
    parts = {
        ("mean",): weights["mean"],
        ("present", t): weights["present"],
        ("chosen",): weights["chosen"],
    }
    return Row(parts, moduli, False)


def _pair_rows(
    what: str, types: Types, settings: tuple[Any, ...], bits: int | None
) -> tuple[list[Row], NDArray[np.intp]]:
    """Return the rows of singles (for "index") and pairs, and which of them every entry of the
    triangle is.
    """
    d = types.d
    T = len(types.counts)
    index = settings[0] if settings else "SII"
    weights = _converted(f"pairs {index}", d, (), bits)
    singles = []
    if what == "index":
        singles = [_single_row(_converted(f"singles {index}", d, (), bits), t, d) for t in range(T)]
    number = np.full((T, T), -1)
    pairs: list[Row] = []
    # Second differences have four parts, each of them bounded by the sum of all weights.
    moduli = _moduli(weights, d)
    for t in range(T):
        for u in range(t, T):
            number[t, u] = number[u, t] = len(singles) + len(pairs)
            with_t = {("present", t): weights["present"]}
            with_u = {("present", u): weights["present"]}
            if t == u:
                with_t = {("present", t): 2 * weights["present"]}
            parts = {("mean",): weights["mean"], ("both", t, u): weights["both"]}
            pairs.append(Row(with_u | with_t | parts, moduli, False))
    i, j = np.triu_indices(d, 1)
    ids = number[types.member[i], types.member[j]]
    return [*singles, *pairs], np.concatenate([types.member, ids]) if what == "index" else ids


def _moduli(weights: dict[str, Numbers], d: int, k: int = 0) -> float:
    """Bound a functional of moments of |f| <= 1: present(m) is at most m/d, and chosen(m) at most k
    m/d.
    """
    share = np.arange(d + 1) / d
    bounds = {"mean": np.ones(d + 1), "present": share, "both": share, "chosen": k * share}
    factor = {"present": 2.0} if "both" in weights else {}
    total = 0.0
    for name, numbers in weights.items():
        moduli = np.abs(numbers) if numbers.dtype == LONG else np.zeros(d + 1)
        total += factor.get(name, 1.0) * float(moduli @ bounds[name])
    return total


# --- weights in balls -----------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _converted(
    what: str, d: int, settings: tuple[Any, ...], bits: int | None
) -> dict[str, Numbers]:
    """Return weights by name in long double, or in balls."""
    from flint import ctx

    ctx.prec = bits or WEIGHT_BITS + (_cancelling_bits(d, *settings) if what == "lime" else 0)
    balls = _balls(what, d, settings)
    if bits is None:
        return {
            name: long_doubles([x.mid().man_exp() for x in numbers])
            for name, numbers in balls.items()
        }
    out = {}
    for name, numbers in balls.items():
        out[name] = np.empty(d + 1, dtype=object)
        out[name][:] = numbers
    return out


def _cancelling_bits(d: int, width: float, ridge: float, n: int | None, k: int) -> int:
    """Return a generous number of bits that LIME's weights lose, from the ratio of the kernel's
    first weights.
    """
    log_ratio = (100 * (1 - math.sqrt(1 - min(2, d) / d)) / width) ** 2 / 2
    return int(5 * log_ratio) + (3 * n.bit_length() if n else 0)


def long_doubles(mantissas_exponents: Sequence[tuple[Any, Any]]) -> NDArray[Any]:
    """Round numbers m 2^e, pairs of integers, to long doubles (downwards)."""
    high = []
    low = []
    exponents = []
    for mantissa, exponent in mantissas_exponents:
        modulus = abs(int(mantissa))
        beyond = max(0, modulus.bit_length() - LONG_BITS)
        sign = -1.0 if mantissa < 0 else 1.0
        # Both halves are exact in float64, and their sum in long double.
        high.append(sign * float(modulus >> beyond + LONG_BITS // 2))
        low.append(sign * float((modulus >> beyond) & (1 << LONG_BITS // 2) - 1))
        exponents.append(max(-(1 << 20), min(1 << 20, int(exponent) + beyond)))
    whole = np.array(high).astype(LONG) * LONG(2.0 ** (LONG_BITS // 2)) + np.array(low)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(whole, np.array(exponents)))


def _balls(what: str, d: int, settings: tuple[Any, ...]) -> Weights:
    if what == "lime":
        return lime_weights(d, *settings)
    if what.startswith("pairs "):
        return _pair_weights(d, pair_probabilities(what.removeprefix("pairs "), d))
    return _single_weights(d, size_probabilities(what, d, settings))


def _single_weights(d: int, q: Sequence[Any]) -> Weights:
    """Turn probabilities (d,) of the number of others that are present into the weights of a
    semivalue.
    """
    from flint import arb

    joined = [arb(0)] + [q[m - 1] * d / m for m in range(1, d + 1)]
    before = [q[m] * d / (d - m) for m in range(d)] + [arb(0)]
    return {
        "mean": [-x for x in before],
        "present": [x + y for x, y in zip(joined, before, strict=True)],
    }


def _pair_weights(d: int, q: Sequence[Any]) -> Weights:
    """Do the same for second differences, with probabilities (d-1,) of the number of others of a
    pair.
    """
    from flint import arb

    both = [arb(0)] * (d + 1)
    one = [arb(0)] * (d + 1)
    none = [arb(0)] * (d + 1)
    pairs = d * (d - 1)
    for s in range(d - 1):
        both[s + 2] = q[s] * pairs / ((s + 2) * (s + 1))
        one[s + 1] = q[s] * pairs / ((s + 1) * (d - s - 1))
        none[s] = q[s] * pairs / ((d - s) * (d - s - 1))
    # both_tu - (present_t - both_tu) - (present_u - both_tu) + (mean - present_t - present_u +
    # both_tu)
    return {
        "mean": none,
        "present": [-x - y for x, y in zip(one, none, strict=True)],
        "both": [x + 2 * y + z for x, y, z in zip(both, one, none, strict=True)],
    }


def size_probabilities(what: str, d: int, settings: tuple[Any, ...]) -> list[Any]:
    """Return the weights (d,) of s = 0..d-1 others in a value, or in the single players of an
    index.
    """
    from flint import arb

    index = what.removeprefix("singles ")
    if what in ("shapley", "singles SII"):
        return [arb(1) / d] * d
    if what == "banzhaf" or index == "BII":
        return _binomial(d - 1, arb(1) / 2)
    if what == "weighted banzhaf":
        return _binomial(d - 1, arb(settings[0]))
    if what == "beta shapley":
        return beta_probabilities(d, *settings)
    if what == "semivalue":
        total = sum((abs(arb(w)) for w in settings), arb(0))
        return [arb(w) / total if any(settings) else arb(0) for w in settings]
    if index == "STII":
        return [arb(1)] + [arb(0)] * (d - 1)
    if index == "FSII":
        # 4 - 6 p, of which beta densities are 4 and 3 times 2 p.
        uniform = arb(1) / d
        rising = beta_probabilities(d, 1, 2)
        return [4 * uniform - 3 * x for x in rising]
    if index == "FBII":
        # Delta_j - 1/2 dDelta_j/dp at p = 1/2
        binomial = _binomial(d - 1, arb(1) / 2)
        return [x * (1 - (2 * s - d + 1)) for s, x in enumerate(binomial)]
    raise ValueError(f"what: expected a value or an index, got {what!r}")


def pair_probabilities(index: str, d: int) -> list[Any]:
    """Return the weights (d-1,) of s = 0..d-2 others in the pairs of an index."""
    from flint import arb

    n = d - 2
    if index == "SII":
        return [arb(1) / (d - 1)] * (d - 1)
    if index in ("BII", "FBII"):
        return _binomial(n, arb(1) / 2)
    if index == "STII":
        # 2/d sum over S of 1 / C(d-1, |S|) times the second difference (Sundararajan et al., 2020)
        return [arb(2 * (d - 1 - s)) / (d * (d - 1)) for s in range(d - 1)]
    if index == "FSII":
        # 6 int p (1-p) I_ij dp, p (1-p) being a beta density over 6
        return beta_probabilities(d - 1, 2, 2)
    raise ValueError(f"index: expected SII, BII, STII, FSII or FBII, got {index!r}")


def _binomial(n: int, p: Any) -> list[Any]:
    return [math.comb(n, s) * p**s * (1 - p) ** (n - s) for s in range(n + 1)]


def beta_probabilities(d: int, alpha: int, beta: int) -> list[Any]:
    """Return C(d-1, s) B(s + beta, d - 1 - s + alpha) / B(alpha, beta) for s = 0..d-1 (Kwon and
    Zou, 2022).
    """
    from flint import arb

    # Successive quotients, beginning with B(beta, d - 1 + alpha) / B(alpha, beta).
    first = arb(1)
    for k in range(d - 1):
        first = first * (alpha + k) / (alpha + beta + k)
    out = [first]
    for s in range(d - 1):
        quotient = arb((d - 1 - s) * (s + beta)) / ((s + 1) * (d - 2 - s + alpha))
        out.append(out[-1] * quotient)
    return out


def kernel_weights(d: int, width: float) -> list[Any]:
    """Return LIME's kernel pi(s) for s = 0..d players absent."""
    from flint import arb

    if math.isinf(width):
        return [arb(1)] * (d + 1)
    out = []
    for s in range(d + 1):
        distance = 100 * (1 - (arb(d - s) / d).sqrt())
        out.append((-((distance / arb(width)) ** 2) / 2).exp())
    return out


def lime_weights(d: int, width: float, ridge: float, n: int | None, k: int) -> Weights:
    """Return the weights of LIME's coefficients and intercept with k of d > 1 features, for f
    relative to f(all).

    The normal equations have the weights q_s of samples with s players absent: 1/n for the
    document, (n-1)/(n d) pi(s) for s = 1..d. With A = sum q, a = E[Z_i], b = E[Z_i Z_j] for i != j,
    all times A, and rho = ridge/n,

        (a - b + rho) coef_i + (b - a^2/A) sum coef = E[q Z_i f] - a/A E[q f],   intercept = E[q f]/A - a/A sum coef.
    """
    from flint import arb

    pi = kernel_weights(d, width)
    document = arb(0)
    drawn = arb(1)
    if n is not None:
        document = arb(1) / n
        drawn = arb(n - 1) / n
    q = [document] + [drawn / d * x for x in pi[1:]]
    rho = arb(ridge) * document
    A = sum(q, arb(0))
    # A - a, a - b and a^2/A - b have no large parts that cancel: the document adds nothing to them.
    absent = sum((q[s] * s / d for s in range(d + 1)), arb(0))
    apart = sum((q[s] * s * (d - s) for s in range(d + 1)), arb(0)) / (d * (d - 1))
    off_center = [arb(s) / d - absent / A for s in range(d + 1)]
    centered = sum((weight * x * x for weight, x in zip(q, off_center, strict=True)), arb(0))
    # V - B/d, the covariance b - a^2/A of two features, see E[W_i W_j] of samples with s absent.
    covariance = centered - apart / d
    a_share = 1 - absent / A
    alone = 1 / (apart + rho)
    together = 1 / (apart + rho + k * covariance)
    # coef_i = alone (c_i - covariance together sum c), c_i = E[q Z_i f] - a/A E[q f]
    spread = alone * covariance * together
    weights: Weights = {
        "mean": [],
        "present": [],
        "chosen": [],
        "intercept": [],
        "intercept chosen": [],
    }
    for m in range(d + 1):
        # f(all) - f(all) is 0.
        weight = q[d - m] if m < d else arb(0)
        weights["present"].append(alone * weight)
        weights["mean"].append(weight * a_share * (k * spread - alone))
        weights["chosen"].append(-spread * weight)
        weights["intercept"].append(weight * (1 / A + k * together * a_share * a_share))
        weights["intercept chosen"].append(-weight * together * a_share)
    return weights
