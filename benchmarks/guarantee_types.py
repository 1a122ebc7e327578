"""Explanations of games with few types of players, by counting them: an oracle for games of
thousands of players.

Players with equal scores and values, present and absent, are of one type, and f of a coalition
depends on how many of each type are present. There are prod (n_t + 1) such counts c, few enough to
enumerate where 2^d coalitions are not. With h(c) = prod C(n_t, c_t) / C(d, m), the share of c among
the coalitions of m = sum c_t present players,

    mean(m)       = E[f | m present]                    = sum_c h(c) f(c)
    present_t(m)  = E[f, j present | m present]         = sum_c h(c) c_t / n_t f(c)                  j of type t
    both_tu(m)    = E[f, i and j present | m present],    c_t c_u / (n_t n_u), or c_t (c_t - 1) / (n_t (n_t - 1)),

and every explanation is a linear functional of these moments, whose weights only depend on d and
the settings (`guarantee_sizes.py`). Owen values are Shapley values of the members of a group,
averaged over the other groups.

Everything is computed twice by the same formulas: in the platform's long double, with a bound of
its error, and in ball arithmetic (python-flint) where that bound does not decide. Nothing of the
core is imported: a game is its arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .guarantee_oracle import shapley_weights
from .guarantee_sizes import LONG, LONG_EPS, Numbers, long_doubles, rows_of

# Precisions of the balls that are tried in turn, in bits. The last one is for kernels whose weights
# fall like e^-1000.
BITS = (320, 960, 4800, 24_000)
# The ratio of the error to its bound must be known this well.
RESOLUTION = 1e-3
# A screen accepts results with at most this share of the allowed error; balls decide about all
# others.
SCREENED = 0.25
# Scores further apart than this underflow in long double.
LARGEST_SPREAD = 10_000.0
# pi as a long double.
PI = LONG("3.14159265358979323846264338327950288")


class Types(NamedTuple):
    """Players by type, T types."""

    counts: tuple[int, ...]  # number of players of each type
    first: NDArray[np.intp]  # (T,) one player of each type
    member: NDArray[np.intp]  # (d,) the type of each player

    @property
    def d(self) -> int:
        """Number of players."""
        return self.member.size

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of counts of each type that can be present."""
        return tuple(n + 1 for n in self.counts)


class Link(NamedTuple):
    """The function g that f is sent through, g(scale f)."""

    name: str
    scale: float


class Layer(NamedTuple):
    """One hidden layer of K units behind the C means of one head: f = output_bias + sum_k output_k
    activation(weight_k . means + bias_k).
    """

    activation: str
    weight: tuple[tuple[float, ...], ...]  # (K, C)
    bias: tuple[float, ...]  # (K,)
    output: tuple[float, ...]  # (K,)
    output_bias: float


class Values(NamedTuple):
    """f, or g(f), of all counts, and a bound of the absolute error of each (0 for balls)."""

    f: NDArray[Any]  # the shape of `Types`
    error: float
    largest: Any  # max|f|, not too small by more than `error`


def types_of(game: Any, marks: ArrayLike | None = None) -> Types:
    """Find the types of a game's players; players with different `marks` (d,) are of different
    types.

    >>> from attn_closed_form import PooledGame
    >>> types_of(PooledGame.from_scores([0.5, 2.0, 0.5, 0.5], [1.0, 3.0, 1.0, 1.0])).counts
    (3, 1)
    """
    rows = [game.s, game.v, game.s_absent, game.v_absent]
    if marks is not None:
        rows.append(np.asarray(marks, dtype=float)[None])
    columns = np.concatenate(rows)
    _, first, member, counts = np.unique(
        columns, axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return Types(tuple(counts.tolist()), first, member.reshape(-1))


# --- f of all counts ------------------------------------------------------------------------------


def numbers_of(x: ArrayLike, bits: int | None) -> Numbers:
    """Convert float64 numbers to long doubles, or without rounding to balls of this precision."""
    x = np.asarray(x, dtype=float)
    if bits is None:
        return x.astype(LONG)
    from flint import arb

    balls = np.empty(x.shape, dtype=object)
    balls.reshape(-1)[:] = [arb(y) for y in x.reshape(-1).tolist()]
    return balls


def values_by_counts(
    game: Any, types: Types, link: Link | Layer | None, bits: int | None = None
) -> Values:
    """Compute f of all counts, in balls of this precision or, by default, in long double with a
    bound of its error.

    Long doubles: a mass e^(s - top) has a relative error of |s - top| + 5 roundings, a sum over T
    types another 2 T + 2, so a mean of values has an error of twice that, times the largest value.
    """
    if bits is not None:
        from flint import ctx

        ctx.prec = bits
    if isinstance(link, Layer):
        total, error = _through_layer(game, types, link, bits)
        return _values(total, error, bits)
    total = numbers_of(game.bias, bits) + np.zeros(types.shape, dtype=int)
    size = abs(float(game.bias))
    error = 0.0
    for h in range(len(game.s)):
        mean, largest, roundings = _head(game, h, types, bits)
        total = total + mean
        size += largest
        error += roundings * LONG_EPS * largest
    error += (len(game.s) + 2) * LONG_EPS * size
    if np.isneginf(game.s_absent).all() and np.isneginf(game.s_background).all():
        total[(0,) * len(types.counts)] = numbers_of(game.empty_value, bits)[()]
        size += abs(float(game.empty_value))
    if link is not None:
        total, error = _through(total, link, error + LONG_EPS * size, bits)
    return _values(total, error, bits)


def _values(total: Numbers, error: float, bits: int | None) -> Values:
    """Find the largest value."""
    if bits is not None:
        return Values(
            total, 0.0, reduce(lambda x, y: x.max(abs(y)), total.flat, abs(total.flat[0]))
        )
    return Values(total, error, float(np.abs(total).max()))


def _head(
    game: Any, h: int, types: Types, bits: int | None, row: int | None = None
) -> tuple[Numbers, float, float]:
    """Return the mean of one head for all counts, its largest value, and the roundings of the mean.

    `row` is the row of the values, where it is not that of the head.
    """
    if row is None:
        row = h
    state = {
        "present": (game.s[h, types.first], game.v[row, types.first]),
        "absent": (game.s_absent[h, types.first], game.v_absent[row, types.first]),
        "background": (game.s_background[h : h + 1], game.v_background[row : row + 1]),
    }
    all_scores = np.concatenate([s for s, _ in state.values()])
    all_values = np.concatenate([v for _, v in state.values()])
    with_mass = all_scores > -np.inf
    top = float(all_scores[with_mass].max())
    # Values are taken relative to one of them, so that a constant head is a number without an
    # error.
    base = float(all_values[with_mass][0])
    mass = {}
    moment = {}
    for name, (s, v) in state.items():
        mass[name] = np.where(
            s > -np.inf,
            np.exp(numbers_of(np.maximum(s, -1e300), bits) - numbers_of(top, bits)),
            numbers_of(0.0, bits),
        )
        moment[name] = mass[name] * (numbers_of(v, bits) - numbers_of(base, bits))
    D = _sum_over_types(mass, types)
    N = _sum_over_types(moment, types)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = numbers_of(base, bits) + N / D
    spread = top - float(all_scores[with_mass].min())
    largest = 2 * float(np.abs(all_values[with_mass]).max())
    roundings = 2 * (spread + 2 * len(types.counts) + 16)
    return mean, largest, roundings if spread <= LARGEST_SPREAD else math.inf


def _sum_over_types(each: dict[str, Numbers], types: Types) -> Numbers:
    """Add c_t times what a present player of type t contributes, n_t - c_t times an absent one, and
    the background.
    """
    total: Numbers = each["background"][0]
    T = len(types.counts)
    for t, n in enumerate(types.counts):
        count = np.arange(n + 1)
        part = count * each["present"][t] + (n - count) * each["absent"][t]
        total = total + part.reshape([n + 1 if axis == t else 1 for axis in range(T)])
    return total


def _through(f: Numbers, link: Link, error: float, bits: int | None) -> tuple[Numbers, float]:
    """Apply the link to f with this error; functions of long doubles are within 4 roundings."""
    if link.name not in LINKS:
        raise ValueError(f"link: expected one of {', '.join(LINKS)}, got {link.name!r}")
    x = numbers_of(link.scale, bits) * f
    g = LINKS[link.name](x)
    if bits is not None:
        return g, 0.0
    largest_x = float(np.abs(x).max())
    largest_g = float(np.abs(g).max())
    if link.name == "exp":
        slope = largest_g
    elif link.name == "sigmoid":
        slope = 0.25
    else:
        slope = 1.0
    error_of_x = abs(link.scale) * error + LONG_EPS * largest_x
    return g, 1.01 * slope * error_of_x + 32 * LONG_EPS * (largest_g + slope * largest_x)


def _sigmoid(x: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-x))


def _x_tanh(x: Numbers) -> Numbers:
    """Return SiLU minus half of its argument."""
    return x * np.tanh(x / 2) / 2


def _log_cosh(x: Numbers) -> Numbers:
    """Return softplus minus half of its argument."""
    return np.log(2 * np.cosh(x / 2))


def _x_erf(x: Numbers) -> Numbers:
    """Return GELU minus half of its argument; there is no error function of long doubles."""
    if x.dtype != object:
        return np.full(x.shape, np.nan, dtype=LONG)
    from flint import arb

    root = arb(2).sqrt()
    g = np.empty(x.shape, dtype=object)
    g.reshape(-1)[:] = [y * (y / root).erf() / 2 for y in x.flat]
    return g


def _x_tanh_cubic(x: Numbers) -> Numbers:
    """Return GELU's approximation by tanh, minus half of its argument."""
    root: Any
    if x.dtype == object:
        from flint import arb

        root = (2 / arb.pi()).sqrt()
    else:
        root = np.sqrt(2 / PI)
    return x * np.tanh(root * (x + 44715 * x * x * x / 10**6)) / 2


# Links by their names: probabilities, risks, and the even parts of activations, which hidden layers
# use.
LINKS: dict[str, Callable[[Numbers], Numbers]] = {
    "sigmoid": _sigmoid,
    "exp": np.exp,
    "x tanh": _x_tanh,
    "log cosh": _log_cosh,
    "x erf": _x_erf,
    "x tanh cubic": _x_tanh_cubic,
}


# --- a hidden layer -------------------------------------------------------------------------------


def _through_layer(
    game: Any, types: Types, layer: Layer, bits: int | None
) -> tuple[Numbers, float]:
    """Compute the means of the only head for all counts, and send them through a hidden layer.

    An argument is a sum of C products with the errors of the means and C + 2 roundings, and an
    activation has a slope of at most 1.13 and 32 roundings, as a link has.
    """
    # GELU has the largest slope of all of them, 1.1290 at x = sqrt(2).
    steepest = 1.13
    without_mass = np.isneginf(game.s_absent).all() and np.isneginf(game.s_background).all()
    means = []
    for c in range(len(game.v)):
        mean, largest, roundings = _head(game, 0, types, bits, row=c)
        if without_mass:
            mean[(0,) * len(types.counts)] = numbers_of(0.0, bits)[()]
        means.append((mean, largest, roundings * LONG_EPS * largest))
    total = numbers_of(layer.output_bias, bits) + np.zeros(types.shape, dtype=int)
    error = 0.0
    largest_sum = abs(layer.output_bias)
    for weights, bias, factor in zip(layer.weight, layer.bias, layer.output, strict=True):
        x = numbers_of(bias, bits) + np.zeros(types.shape, dtype=int)
        size = abs(bias)
        error_of_x = 0.0
        for weight, (mean, largest, error_of_mean) in zip(weights, means, strict=True):
            x = x + numbers_of(weight, bits) * mean
            size += abs(weight) * largest
            error_of_x += abs(weight) * error_of_mean
        error_of_x += (len(weights) + 2) * LONG_EPS * size
        unit = ACTIVATIONS[layer.activation](x)
        total = total + numbers_of(factor, bits) * unit
        error += abs(factor) * (steepest * error_of_x + 32 * LONG_EPS * (1 + size))
        largest_sum += abs(factor) * (1 + steepest * size)
    error += (len(layer.output) + 1) * LONG_EPS * largest_sum
    return total, error


# By their definitions; in long double the logistic function does not overflow up to 1e4.
ACTIVATIONS: dict[str, Callable[[Numbers], Numbers]] = {
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "gelu": lambda x: x / 2 + _x_erf(x),
    "gelu-tanh": lambda x: x / 2 + _x_tanh_cubic(x),
}


# --- moments by size ------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """All counts of T types, ordered by the number m of players that are present."""

    order: NDArray[np.intp]  # flat indices of the counts, by size
    starts: NDArray[np.intp]  # (d+1,) where each size begins
    share: NDArray[Any]  # h(c), the shape of the counts
    fractions: tuple[tuple[NDArray[Any], ...], ...]  # c_t / n_t, and (c_t - 1) / (n_t - 1)


@lru_cache(maxsize=4)
def sizes_of(counts: tuple[int, ...], bits: int | None) -> Sizes:
    """Return the sizes and shares of all counts, in long double or in balls."""
    T = len(counts)
    sizes = np.zeros((1,) * T, dtype=np.intp)
    ways: Numbers = np.ones((1,) * T, dtype=object if bits else LONG)
    fractions = []
    for t, n in enumerate(counts):
        along = [n + 1 if axis == t else 1 for axis in range(T)]
        count = np.arange(n + 1)
        sizes = sizes + count.reshape(along)
        ways = ways * _binomials(n, bits).reshape(along)
        first = numbers_of(count, bits) / n
        second = numbers_of(count - 1, bits) / max(n - 1, 1)
        fractions.append((first.reshape(along), second.reshape(along)))
    flat = sizes.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(sum(counts) + 1))
    share = ways / _binomials(sum(counts), bits)[sizes]
    return Sizes(order, starts, share, tuple(fractions))


@lru_cache(maxsize=32)
def _binomials(n: int, bits: int | None) -> Numbers:
    """Return C(n, 0..n), correct to a rounding."""
    value = 1
    exact = [value]
    for k in range(n):
        value = value * (n - k) // (k + 1)
        exact.append(value)
    if bits is None:
        return long_doubles([(x, 0) for x in exact])
    from flint import arb, ctx

    ctx.prec = bits
    balls = np.empty(n + 1, dtype=object)
    balls[:] = [arb(x) for x in exact]
    return balls


Moments = dict[tuple[Any, ...], Numbers]


def moments_by_size(
    f: Numbers, counts: tuple[int, ...], bits: int | None, pairs: bool = False
) -> Moments:
    """Return ("mean",), ("present", t) and, with `pairs`, ("both", t, u) for t <= u, each (d+1,)
    over m = 0..d.
    """
    sizes = sizes_of(counts, bits)

    def by_size(x: Numbers) -> Numbers:
        return np.add.reduceat(x.reshape(-1)[sizes.order], sizes.starts)

    weighted = f * sizes.share
    moments: Moments = {("mean",): by_size(weighted)}
    for t, (share, next_share) in enumerate(sizes.fractions):
        with_j = weighted * share
        moments["present", t] = by_size(with_j)
        if pairs:
            moments["both", t, t] = by_size(with_j * next_share)
            for u in range(t + 1, len(counts)):
                moments["both", t, u] = by_size(with_j * sizes.fractions[u][0])
    return moments


def owen_moments(
    f: Numbers, types: Types, groups: Sequence[int], bits: int | None
) -> list[Moments]:
    """Return the moments of the members of each group, averaged over which other groups are
    present.

    `groups` has the number of the group of every type, 0..M-1.
    """
    M = max(groups) + 1
    weights = shapley_weights(M)
    out = []
    for g in range(M):
        others = [other for other in range(M) if other != g]
        total: Any = 0
        for there in itertools.product((False, True), repeat=M - 1):
            arrived = {other for other, present in zip(others, there, strict=True) if present}
            # The counts of the members of g, with every other group as a whole.
            where = tuple(
                slice(None) if group == g else (n if group in arrived else 0)
                for group, n in zip(groups, types.counts, strict=True)
            )
            weight = weights[len(arrived)]
            total = total + f[where] * weight.numerator / weight.denominator
        counts = tuple(n for n, group in zip(types.counts, groups, strict=True) if group == g)
        out.append(moments_by_size(total, counts, bits))
    return out


# --- answers --------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A function of `guarantee_functions.py` with its settings, asked about the players of a game
    by type.
    """

    what: str  # without what follows a comma
    settings: tuple[Any, ...]
    types: Types
    chosen: tuple[int, ...]  # types in LIME's surrogate model
    groups: tuple[int, ...]  # group of each type, for Owen values


def question_of(what: str, game: Any, settings: tuple[Any, ...]) -> Question:
    """Sort the players by what the game and the settings say about them."""
    what = what.split(",")[0]
    d = game.s.shape[1]
    marks: NDArray[Any] | None = None
    if what == "lime" and settings[3]:
        marks = np.isin(np.arange(d), settings[3])
    if what == "owen":
        marks = np.unique(settings, return_inverse=True)[1].reshape(-1)
    types = types_of(game, marks)
    of_types = np.zeros(len(types.counts)) if marks is None else marks[types.first]
    chosen = np.flatnonzero(of_types == (1 if marks is not None else 0)).tolist()
    return Question(what, settings, types, tuple(chosen), tuple(of_types.astype(int).tolist()))


def largest_ratio(
    what: str,
    game: Any,
    link: Link | Layer | None,
    ours: NDArray[Any],
    tol: float,
    settings: tuple[Any, ...],
) -> float:
    """Return the largest error over tol max|f|, rounded up; it is decided in balls unless it is
    safely small.

    >>> from attn_closed_form import PooledGame, shapley
    >>> game = PooledGame.from_scores([0.5] + 40 * [0.1], [1.0] + 40 * [-2.0])
    >>> phi = shapley(game)
    >>> largest_ratio("shapley", game, None, phi, 1e-10, ()) < 1
    True
    >>> largest_ratio("shapley", game, None, phi + 1e-9, 1e-10, ()) > 1
    True
    """
    question = question_of(what, game, settings)
    estimate = estimated_ratio(question, game, link, ours, tol)
    if estimate.ratio + estimate.doubt <= SCREENED:
        return estimate.ratio + estimate.doubt
    return decided_ratio(question, game, link, ours, tol)


class Estimate(NamedTuple):
    """The ratio in long double, and a bound of its error."""

    ratio: float
    doubt: float


def estimated_ratio(
    question: Question, game: Any, link: Link | Layer | None, ours: NDArray[Any], tol: float
) -> Estimate:
    """Return the ratio in long double; the bound of its error is infinite if they do not have the
    digits.

    A moment of size m is a sum of products of relative errors T + 6, so with the error e of f it is
    wrong by at most e + (n_m + T + 8) roundings of max|f|, n_m the number of counts of that size; a
    functional of them multiplies that by the sum of its weights' moduli (`Row.norm`) and adds d + 4
    roundings.
    """
    T = len(question.types.counts)
    with np.errstate(all="ignore"):
        values = values_by_counts(game, question.types, link)
        exact, norms, ids = _answers(question, values.f, None)
        sizes = sizes_of(question.types.counts, None)
        summed = int(np.diff(sizes.starts, append=sizes.order.size).max()) + question.types.d
        of_moments = values.error + (summed + 2 * T + 32) * LONG_EPS * values.largest
        # f is relative to the grand coalition, which doubles both of its errors.
        doubt = 2 * norms[ids] * of_moments + values.error + 2 * LONG_EPS * values.largest
        error = np.abs(exact[ids] - ours.astype(LONG))
        allowed = LONG(tol) * (values.largest - values.error)
        ratio = float((error / allowed).max())
        of_ratio = float((doubt / allowed).max())
    if allowed > 0 and np.isfinite(ratio) and np.isfinite(of_ratio):
        return Estimate(ratio, of_ratio)
    return Estimate(0.0, math.inf)


def decided_ratio(
    question: Question, game: Any, link: Link | Layer | None, ours: NDArray[Any], tol: float
) -> float:
    """Return an upper bound of the ratio from balls, with as many bits as it needs."""
    from flint import arb

    ratio = math.inf
    for bits in BITS:
        values = values_by_counts(game, question.types, link, bits)
        exact, _, ids = _answers(question, values.f, bits)
        worst = arb(0)
        for number, truth in enumerate(exact):
            results = ours[ids == number]
            for result in {float(results.min()), float(results.max())} if results.size else ():
                worst = worst.max(abs(arb(result) - truth))
        if bool(worst == 0):
            return 0.0
        if not bool(values.largest > 0):
            continue
        allowed = arb(tol) * values.largest
        ratio = float((worst / allowed).upper())
        if float((worst / allowed).rad()) <= RESOLUTION * max(ratio, RESOLUTION):
            break
    return ratio


def exact_answers(
    what: str,
    game: Any,
    link: Link | Layer | None,
    settings: tuple[Any, ...],
    bits: int = BITS[0],
) -> list[Any]:
    """Return all numbers of an answer, in the order of `guarantee_functions.answer`, as balls."""
    question = question_of(what, game, settings)
    exact, _, ids = _answers(question, values_by_counts(game, question.types, link, bits).f, bits)
    return list(exact[ids])


def _answers(
    question: Question, f: Numbers, bits: int | None
) -> tuple[Numbers, NDArray[Any], NDArray[np.intp]]:
    """Return the different numbers of an answer, their norms (`Row.norm`), and which of them each
    number is.
    """
    types = question.types
    # Everything but means by size is a difference, so f is taken relative to the grand coalition.
    everyone = f.reshape(-1)[-1]
    off = f - everyone
    if question.what == "owen":
        return _owen_answers(question, off, bits)
    pairs = question.what in ("interactions", "index")
    moments = moments_by_size(off, types.counts, bits, pairs)
    if question.what == "lime":
        moments["chosen",] = sum(
            (types.counts[t] * moments["present", t] for t in question.chosen), 0 * moments["mean",]
        )
    rows, ids = rows_of(question.what, types, question.chosen, question.settings, bits)
    exact = [row.apply(moments) + (everyone if row.with_constant else 0) for row in rows]
    return _array(exact, bits), np.array([row.norm for row in rows], dtype=LONG), ids


def _owen_answers(
    question: Question, off: Numbers, bits: int | None
) -> tuple[Numbers, NDArray[Any], NDArray[np.intp]]:
    types = question.types
    exact: list[Any] = [None] * len(types.counts)
    norms = np.zeros(len(types.counts), dtype=LONG)
    for g, moments in enumerate(owen_moments(off, types, question.groups, bits)):
        inside = [t for t, group in enumerate(question.groups) if group == g]
        counts = tuple(types.counts[t] for t in inside)
        member = np.repeat(np.arange(len(inside)), counts)
        group_types = Types(counts, np.zeros(0, dtype=np.intp), member)
        rows, _ = rows_of("shapley", group_types, (), (), bits)
        for t, row in zip(inside, rows, strict=True):
            exact[t] = row.apply(moments)
            # An average over 2^(M-1) sets of groups costs a rounding for each of them, far below
            # those of the sums.
            norms[t] = 4 * row.norm
    return _array(exact, bits), norms, types.member


def _array(numbers: Sequence[Any], bits: int | None) -> Numbers:
    array = np.empty(len(numbers), dtype=LONG if bits is None else object)
    array[:] = numbers
    return array
