"""Explanations of small games by enumeration in high precision, from a game's arrays alone: imports
nothing of the core.

Two precisions: the platform's long double, fast, with an estimate of its own error, is a screen;
ball arithmetic (python-flint), slow and beyond doubt, decides where the screen cannot. f of every
coalition comes first; every explanation is a linear map of it, written down from the definition in
fractions or balls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[Any]
LONG = np.longdouble
# Estimated error of the long double enumeration, relative to the largest thing that is added up.
LONG_ERROR = 200 * float(np.finfo(LONG).eps)
BITS = 2000


def masks(d: int) -> NDArray[np.bool_]:
    """(2^d, d), coalition k in row k, player j in bit j."""
    return (np.arange(1 << d)[:, None] >> np.arange(d) & 1).astype(bool)


def shapley_weights(d: int) -> list[Fraction]:
    """Weight of f(S + j) - f(S) for |S| = 0..d-1."""
    return [
        Fraction(math.factorial(k) * math.factorial(d - k - 1), math.factorial(d)) for k in range(d)
    ]


def extended_values(game: Any) -> tuple[Float, float]:
    """F of every coalition (2^d,) in long double, and an estimate of the absolute error."""
    d = game.s.shape[1]
    H = game.s.shape[0]
    here = masks(d)
    total = np.full(len(here), LONG(game.bias))
    size = abs(game.bias)
    if np.isneginf(game.s_absent).all() and np.isneginf(game.s_background).all():
        empty = ~here.any(axis=1)
    else:
        empty = None
    for h in range(H):
        log_mass = np.where(here, game.s[h].astype(LONG), game.s_absent[h].astype(LONG))
        log_mass = np.concatenate(
            [log_mass, np.full((len(here), 1), LONG(game.s_background[h]))], axis=1
        )
        value = np.where(here, game.v[h].astype(LONG), game.v_absent[h].astype(LONG))
        value = np.concatenate([value, np.full((len(here), 1), LONG(game.v_background[h]))], axis=1)
        top = log_mass.max(axis=1, keepdims=True)
        top[np.isneginf(top)] = 0
        mass = np.exp(log_mass - top)
        with np.errstate(invalid="ignore"):
            total = total + (mass * value).sum(axis=1) / mass.sum(axis=1)
        size += float(np.abs(value[:, mass.any(axis=0)]).max())
    if empty is not None:
        total[empty] = LONG(game.empty_value)
        size += abs(game.empty_value)
    return total, LONG_ERROR * size


def ball_values(game: Any, bits: int = BITS) -> list[Any]:
    """F of every coalition as balls, from the exact float64 numbers of the game."""
    from flint import arb, ctx

    ctx.prec = bits
    d = game.s.shape[1]
    H = game.s.shape[0]
    out = []
    for bit in masks(d):
        total = arb(float(game.bias))
        some = False
        for h in range(H):
            pairs = [
                (game.s[h, j], game.v[h, j])
                if bit[j]
                else (game.s_absent[h, j], game.v_absent[h, j])
                for j in range(d)
            ]
            pairs = [
                (s, v)
                for s, v in [*pairs, (game.s_background[h], game.v_background[h])]
                if s > -math.inf
            ]
            if not pairs:
                continue
            some = True
            top = max(s for s, _ in pairs)
            mass = [(arb(float(s)) - arb(float(top))).exp() for s, _ in pairs]
            # Off the first value, so that a constant head is a number without a radius.
            base = arb(float(pairs[0][1]))
            off = sum(
                (m * (arb(float(v)) - base) for m, (_, v) in zip(mass, pairs, strict=True)), arb(0)
            )
            total += base + off / sum(mass, arb(0))
        out.append(total if some else arb(float(game.empty_value)))
    return out


def linked_extended_values(game: Any, name: str, scale: float) -> tuple[Float, float]:
    """The link's function of every f, and an estimate of the absolute error."""
    f, doubt = extended_values(game)
    x = LONG(scale) * f
    doubt = abs(scale) * (doubt + LONG_ERROR * float(np.abs(f).max()))
    if name == "sigmoid":
        # The exponential of a modulus cannot overflow, not even for x of a game of distant values.
        small = np.exp(-np.abs(x))
        g = np.where(x >= 0, 1, small) / (1 + small)
        slope = 0.25
    else:
        g = np.exp(x)
        slope = float(np.exp(x.max()))
    return g, slope * doubt + LONG_ERROR * float(np.abs(g).max())


def linked_ball_values(game: Any, name: str, scale: float, bits: int = 400) -> list[Any]:
    """The link's function of every f as balls."""
    from flint import arb

    functions = {
        "sigmoid": lambda x: 1 / (1 + (-x).exp()),
        "exp": lambda x: x.exp(),
    }
    return [functions[name](arb(scale) * f) for f in ball_values(game, bits)]


def shapley_rows(d: int) -> list[list[Fraction]]:
    """Shapley values by their definition: row j holds the weight of f of every coalition."""
    w = shapley_weights(d)
    size = masks(d).sum(axis=1).tolist()
    return [
        [w[size[k] - 1] if k >> j & 1 else -w[size[k]] for k in range(1 << d)] for j in range(d)
    ]


def banzhaf_rows(d: int) -> list[list[Fraction]]:
    """Banzhaf values by their definition."""
    return [
        [Fraction(1 if k >> j & 1 else -1, 1 << (d - 1)) for k in range(1 << d)] for j in range(d)
    ]


def by_size_rows(d: int) -> list[list[Fraction]]:
    """Mean of f over the coalitions with 0..d players absent."""
    size = masks(d).sum(axis=1).tolist()
    zero = Fraction(0)
    return [
        [Fraction(1, math.comb(d, s)) if size[k] == d - s else zero for k in range(1 << d)]
        for s in range(d + 1)
    ]


def interaction_rows(d: int) -> list[list[Fraction]]:
    """Shapley interaction indices of all pairs i < j, in the order of the upper triangle."""
    w = [
        Fraction(math.factorial(k) * math.factorial(d - k - 2), math.factorial(d - 1))
        for k in range(d - 1)
    ]
    size = masks(d).sum(axis=1).tolist()
    out = []
    for i in range(d):
        for j in range(i + 1, d):
            inside = [(k >> i & 1) + (k >> j & 1) for k in range(1 << d)]
            out.append([w[size[k] - inside[k]] * (-1) ** inside[k] for k in range(1 << d)])
    return out


def size_rows(d: int, weights: Sequence[Any]) -> list[list[Any]]:
    """The semivalue with weight `weights[s]` on the mean over all coalitions of s others."""
    size = masks(d).sum(axis=1).tolist()
    w = [weights[s] / math.comb(d - 1, s) for s in range(d)]
    return [
        [w[size[k] - 1] if k >> j & 1 else -w[size[k]] for k in range(1 << d)] for j in range(d)
    ]


def beta_shapley_rows(d: int, alpha: float, beta: float) -> list[list[Any]]:
    """Beta Shapley (Kwon and Zou, 2022): C(d-1, s) B(s + beta, d - 1 - s + alpha) / B(alpha, beta)
    on size s.
    """
    from flint import arb

    def log_beta(a: Any, b: Any) -> Any:
        return arb(a).lgamma() + arb(b).lgamma() - arb(a + b).lgamma()

    whole = log_beta(alpha, beta)
    return size_rows(
        d,
        [
            math.comb(d - 1, s) * (log_beta(s + beta, d - 1 - s + alpha) - whole).exp()
            for s in range(d)
        ],
    )


def weighted_banzhaf_rows(d: int, p: float) -> list[list[Fraction]]:
    """Every other player present with probability p."""
    q = Fraction(p)
    return size_rows(d, [math.comb(d - 1, s) * q**s * (1 - q) ** (d - 1 - s) for s in range(d)])


def semivalue_rows(d: int, *weights: float) -> list[list[Fraction]]:
    """Any weights, over the sum of their moduli, to which the error is relative."""
    total = sum(abs(Fraction(w)) for w in weights)
    if total:
        return size_rows(d, [Fraction(w) / total for w in weights])
    return [[Fraction(0)] * (1 << d)] * d


def owen_rows(d: int, *numbers: int) -> list[list[Fraction]]:
    """Owen values: other groups are there as wholes, by Shapley weights, and other members of the
    own one likewise.
    """
    groups = [[j for j in range(d) if numbers[j] == number] for number in sorted(set(numbers))]
    outer = shapley_weights(len(groups))
    rows = [[Fraction(0)] * (1 << d) for _ in range(d)]
    for own in groups:
        others = [group for group in groups if group is not own]
        inner = shapley_weights(len(own))
        for there in range(1 << len(others)):
            outside = sum(1 << j for g, group in enumerate(others) if there >> g & 1 for j in group)
            for j in own:
                mates = [i for i in own if i != j]
                for some in range(1 << len(mates)):
                    k = outside + sum(1 << i for m, i in enumerate(mates) if some >> m & 1)
                    weight = outer[there.bit_count()] * inner[some.bit_count()]
                    rows[j][k | 1 << j] += weight
                    rows[j][k] -= weight
    return rows


def index_rows(d: int, index: str) -> list[list[Fraction]]:
    """Singles, then pairs i < j, of an interaction index, from the Moebius coefficients of the
    game.
    """
    sets = [[1 << j] for j in range(d)] + [
        [1 << i, 1 << j] for i in range(d) for j in range(i + 1, d)
    ]
    out = []
    for members in sets:
        own = sum(members)
        order = len(members)
        row = [Fraction(0)] * (1 << d)
        for T in range(1 << d):
            if T & own != own:
                continue
            weight = _moebius_weight(index, order, T.bit_count())
            part = T
            while True:  # all subsets of T
                row[part] += weight * (-1) ** (T ^ part).bit_count()
                if part == 0:
                    break
                part = (part - 1) & T
        out.append(row)
    return out


def _moebius_weight(index: str, order: int, t: int) -> Fraction:
    """What the Moebius coefficient of a set of t players adds to each of its members, or pairs of
    members.

    STII (Sundararajan et al., 2020) leaves the singles what they are and shares out larger sets
    among their pairs. FSII and FBII (Tsai et al., 2023) are the best fits of order two; their
    coefficients are those of the papers.
    """
    if index == "BII":
        return Fraction(1, 1 << (t - order))
    if index == "STII":
        if order == 1:
            return Fraction(int(t == 1))
        return Fraction(1, math.comb(t, 2))
    if index == "FSII":
        if order == 1:
            return Fraction(-2 * (t - 2), t * (t + 1))
        return Fraction(6, t * (t + 1))
    # FBII: (-1)^(2-s) 2^-(t-s) C(t-s-1, 2-s) for t > 2
    if t <= 2:
        return Fraction(int(t == order))
    return Fraction((-1) ** (2 - order) * math.comb(t - order - 1, 2 - order), 1 << (t - order))


def lime_rows(
    d: int, kernel_width: float, ridge: float, n: int | None, features: tuple[int, ...] = ()
) -> list[list[Any]]:
    """LIME's coefficients and intercept from the normal equations of the weighted ridge regression,
    in balls.

    Samples: the document itself with weight 1/n, and every coalition with s = 1..d players removed
    with the probability (n-1)/(n d) / C(d, s) times the kernel. Without n the document's own row
    and the ridge vanish, but for d = 1.
    """
    from flint import arb, arb_mat, ctx

    # Twice the bits of the ratios of the weights that decide the coefficients, those of up to two
    # players absent.
    largest = (100 * (1 - math.sqrt(1 - min(2, d) / d)) / kernel_width) ** 2
    ctx.prec = BITS + int(3 * largest)
    if d == 1 and n is None:
        share = 1 / (1 + arb(float(ridge)))
        return [[-share, share], [arb(1), arb(0)]]
    distance = [100 * (1 - (1 - arb(s) / d).sqrt()) for s in range(d + 1)]
    pi = [
        arb(1) if math.isinf(kernel_width) else (-((x / arb(float(kernel_width))) ** 2) / 2).exp()
        for x in distance
    ]
    if n is None:
        drawn = arb(1)
        one = arb(0)
    else:
        drawn = arb(n - 1) / n
        one = arb(1) / n
    size = masks(d).sum(axis=1).tolist()
    weight = [
        one if size[k] == d else drawn / d / math.comb(d, size[k]) * pi[d - size[k]]
        for k in range(1 << d)
    ]
    chosen = features or tuple(range(d))
    z = [[k >> j & 1 for j in chosen] + [1] for k in range(1 << d)]
    size_of = len(chosen) + 1
    A = [
        [
            sum((weight[k] for k in range(1 << d) if z[k][a] and z[k][b]), arb(0))
            for b in range(size_of)
        ]
        for a in range(size_of)
    ]
    for j in range(len(chosen)):
        A[j][j] += arb(0) if n is None else arb(float(ridge)) / n
    y = arb_mat([[weight[k] if z[k][a] else arb(0) for k in range(1 << d)] for a in range(size_of)])
    found = arb_mat(A).solve(y)
    rows = {j: [found[a, k] for k in range(1 << d)] for a, j in enumerate((*chosen, d))}
    ctx.prec = BITS
    return [rows.get(j, [arb(0)] * (1 << d)) for j in range(d + 1)]


@lru_cache(maxsize=4096)
def _rows(what: str, d: int, settings: tuple[Any, ...]) -> list[list[Any]]:
    makers = {
        "shapley": shapley_rows,
        "banzhaf": banzhaf_rows,
        "by size": by_size_rows,
        "interactions": interaction_rows,
        "lime": lime_rows,
        "beta shapley": beta_shapley_rows,
        "weighted banzhaf": weighted_banzhaf_rows,
        "semivalue": semivalue_rows,
        "owen": owen_rows,
        "index": index_rows,
    }
    return makers[what](d, *settings)  # type: ignore[operator]


@lru_cache(maxsize=4096)
def _long_matrix(what: str, d: int, settings: tuple[Any, ...]) -> tuple[Float, float]:
    rows = _rows(what, d, settings)
    if not rows:
        return np.zeros((0, 1 << d), dtype=LONG), 0.0
    matrix = np.array([[_long(x) for x in row] for row in rows])
    return matrix, float(np.abs(matrix).sum(axis=1).max())


def _long(x: Any) -> Any:
    """A fraction or a ball as a long double."""
    if isinstance(x, Fraction):
        return LONG(x.numerator) / LONG(x.denominator)
    mantissa, exponent = x.mid().man_exp()
    bits = max(0, int(mantissa).bit_length() - 70)
    return np.ldexp(LONG(str(int(mantissa) >> bits)), int(exponent) + bits)


def screen(
    what: str, f: Float, doubt: float, ours: Float, allowed: float, settings: tuple[Any, ...] = ()
) -> bool:
    """Whether `ours` is within `allowed` of the truth, for sure as far as long doubles can tell."""
    matrix, norm = _long_matrix(what, int(f.size).bit_length() - 1, settings)
    if not len(matrix):
        return True
    error = np.abs(matrix @ f - ours.astype(LONG)).max()
    return bool(error + doubt * (norm + 1) <= allowed)


def exact_answers(what: str, f: list[Any], settings: tuple[Any, ...] = ()) -> list[Any]:
    """Return all numbers of an answer as balls, from the values of all coalitions."""
    from flint import arb

    answers = []
    for row in _rows(what.split(",")[0], len(f).bit_length() - 1, settings):
        weights = [arb(x.numerator) / x.denominator if isinstance(x, Fraction) else x for x in row]
        answers.append(sum((w * x for w, x in zip(weights, f, strict=True)), arb(0)))
    return answers


def largest_ratio(
    what: str, f: list[Any], ours: Float, tol: float, settings: tuple[Any, ...] = ()
) -> float:
    """Largest error over tol max|f|, an upper bound of it, in balls."""
    from flint import arb

    largest = arb(0)
    for x in f:
        largest = largest.max(abs(x))
    worst = 0.0
    for exact, value in zip(exact_answers(what, f, settings), ours.tolist(), strict=True):
        error = abs(arb(value) - exact)
        if not bool(error == 0):
            worst = max(
                worst,
                float((error / (arb(tol) * largest)).upper()) if bool(largest > 0) else math.inf,
            )
    return worst
