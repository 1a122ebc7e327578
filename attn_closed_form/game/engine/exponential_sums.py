"""Sums of exponentials for 1/D with proved errors.

1/D = int_0^inf e^(-lam D) dlam turns a ratio of sums over players into products over players. A
rule is a set of nodes and weights, all positive, with

    | D sum_l w_l e^(-lam_l D) - 1 | <= eps        for every D in [1, R].

*Short sums* are used up to R = e^12: a table of nearly best sums of exponentials (Braess and
Hackbusch, 2005), made by `benchmarks/exponential_sums.py`. The bound of each entry is proved in
ball arithmetic by `tests/game/engine/test_exponential_sums.py`.

*The trapezoidal rule* is used beyond: lam = exp(t - e^(-(t - t0))), t0 = 1/2 - ln R, in equal steps
h = pi^2 / ln(1400 / eps) of t, without the nodes at both ends that are too small to matter. The
steps are multiples of 2^-20, so that every t is exact and lam = e^t e^(-squeeze) has the rounding
of two exponentials for any R.

*Sectors.* For |arg w| <= angle < pi/2 and 1 <= Re w <= R the substitution is the same, with smaller
steps (`sector_segments`). A second table has short sums for most angles and ranges, a third to a
half as long, made by `benchmarks/sector_sums.py` and proved in ball arithmetic on the boundary of
that region, where the error is largest.

The proofs are in docs/theory/bounds-of-the-engine.md.

A relative error eps of 1/D is a relative error eps of every coalition's value, so it moves no
difference of two mean values of f by more than 2 eps max|f|: that is what turns eps into a
guarantee for Shapley values and the rest.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..._types import Array, Ids, Masks

# Smallest eps that is requested of a lambda rule: every range has a rule this good, because the
# table ends here, and so does the proof of the trapezoidal rule (proofs_check/trapezoid.py).
EPS_MIN = 2e-14
# The step error of the trapezoidal rule is at most 0.5 eps for h = pi^2 / ln(STEP_CONSTANT / eps):
# 2 N / (e^(2 pi a / h)
# - 1) with N and the best line a from proofs_check/trapezoid.py, which proves it for this constant.
STEP_CONSTANT = 1400.0
# t_0 + ln R, the place where the left end of the integrand is squeezed. The same proof.
T0 = 0.5
# Steps are multiples of 2^-STEP_BITS, so that every node t = k h is exact for |t| below 2^32.
STEP_BITS = 20
# Nodes that are dropped: at the right those with e^lam above (CUT/eps) ln(CUT/eps), which make at
# most 0.26 eps, at the left those with w R below eps / LEFT_CUT, which make less than 0.07 eps
# (docs/theory/bounds-of-the-engine.md).
CUT = 8.0
# See CUT.
LEFT_CUT = 16.0
# No node has a squeeze above LARGEST_SQUEEZE + ln(1/eps): its w R would be far below the left cut.
# Generous: 8 would do, too, because the nodes beyond the left cut are dropped again.
LARGEST_SQUEEZE = 80.0
# Longest ln R whose nodes fit into float64 together with a mass; longer rules are split into
# segments.
LOG_RANGE_SEGMENT = 256.0
# The part of eps that is dropped at each end of a rule for a sector; the steps have 0.5 eps.
SECTOR_CUT = 0.2
# Tuning: the lines Im t = a that are tried, as shares of that difference. Any of them gives a
# bound.
SECTOR_LINES = np.array([0.6, 0.7, 0.78, 0.84, 0.88, 0.91, 0.94, 0.96])

# A table of rules: for each tuple of keys its entries, a bound and two arrays, shortest first.
Table = dict[tuple[float, ...], list[tuple[float, Array, Array]]]


def lambda_rule(log_range: float, eps: float) -> tuple[Array, Array]:
    """Return nodes and weights for 1/D with relative error at most `eps` for D in [1,
    exp(log_range)].

    Parameters
    ----------
    log_range : ln R, between 0 and 500; for more see `lambda_segments`
    eps : wanted relative error, between EPS_MIN and 0.1

    Returns
    -------
    lam, w : (L,), lam ascending; for D in [D_min, R D_min] divide both by D_min

    Examples
    --------
    >>> lam, w = lambda_rule(np.log(10.0), 1e-12)
    >>> D = np.linspace(1.0, 10.0, 5)
    >>> error = D * (w * np.exp(-lam * D[:, None])).sum(axis=1) - 1
    >>> bool(np.abs(error).max() < 1e-12), lam.size
    (True, 15)
    """
    _check_eps(eps)
    longest = 2 * LOG_RANGE_SEGMENT
    if not 0 <= log_range <= longest:
        raise ValueError(f"log_range: expected a number in [0, {longest:g}], got {log_range}")
    key = short_sum_key(log_range, eps)
    if key is not None:
        return _short_sum(*key)
    return _trapezoid_plain(*rounded_arguments(log_range, eps))


def _check_eps(eps: float) -> None:
    """Raise an error unless there is a rule with this relative error for every range."""
    # The proof of the rules is for smaller errors.
    eps_max = 0.1
    if not EPS_MIN <= eps <= eps_max:
        raise ValueError(
            f"eps: expected a relative error between {EPS_MIN:g} and {eps_max:g}, got {eps:g}"
        )


class Segment(NamedTuple):
    """A part of a rule whose numbers fit into float64: its nodes are lam e^(-shift), its weights w
    e^(-shift).
    """

    shift: float
    lam: Array
    w: Array


class Trapezoid(NamedTuple):
    """The nodes of a trapezoidal rule in t, log lam = t - squeeze, with the step h."""

    t: Array  # exact
    squeeze: Array  # e^(-(t - t0))
    h: float

    def pick(self, which: Masks) -> Trapezoid:
        """Return some of the nodes."""
        return self._replace(t=self.t[which], squeeze=self.squeeze[which])

    def log_lam(self) -> Array:
        """Return the logarithms of the nodes, rounded."""
        return self.t - self.squeeze

    def log_weights(self) -> Array:
        """Return the logarithms of the weights h dlam/dt, rounded."""
        slope = 1 + self.squeeze
        return self.log_lam() + np.log(self.h * slope)

    def segment(self, shift: float = 0.0) -> Segment:
        """Return nodes and weights to a few ulps, from two exponentials for any range."""
        lam = np.exp(self.t + shift) * np.exp(-self.squeeze)
        slope = 1 + self.squeeze
        w = self.h * lam * slope
        lam.flags.writeable = False
        w.flags.writeable = False
        return Segment(shift, lam, w)

    def segments(self) -> list[Segment]:
        """Return the rule in segments of LOG_RANGE_SEGMENT, lam falling."""
        numbers = np.floor(-self.t / LOG_RANGE_SEGMENT)
        segments = []
        for number in np.unique(numbers):
            nodes = self.pick(numbers == number)
            segments.append(nodes.segment(float(number * LOG_RANGE_SEGMENT)))
        return segments


def lambda_segments(log_range: float, eps: float) -> list[Segment]:
    """Return the rule of `lambda_rule` for any range, in segments."""
    if log_range <= LOG_RANGE_SEGMENT:
        lam, w = lambda_rule(log_range, eps)
        return [Segment(shift=0.0, lam=lam, w=w)]
    return trapezoid_of(*rounded_arguments(log_range, eps)).segments()


def sector_segments(log_range: float, eps: float, angle: float) -> list[Segment]:
    """Return a rule for 1/w, |arg w| <= angle and 1 <= Re w <= e^log_range, in segments as in
    `lambda_segments`.

    >>> ((shift, lam, w),) = sector_segments(1.0, 1e-10, 0.8)
    >>> z = 3.0 * np.exp(0.8j)
    >>> bool(abs(z * (w * np.exp(-lam * z)).sum() - 1) < 1e-10)
    True
    """
    _check_eps(eps)
    short = _short_sector_sum(log_range, eps, angle)
    if short is not None:
        return [short]
    # The angle is rounded up, with its difference from pi/2 in steps of 3 percent.
    right_angle = math.pi / 2
    # Tuning: steps for rounding the difference between pi/2 and an angle, so that games share a
    # cached rule.
    sector_step = 0.03
    steps = math.floor(math.log(right_angle - angle) / sector_step)
    rest = math.exp(steps * sector_step)
    return computed_sector_segments(*rounded_arguments(log_range, eps), right_angle - rest)


def _short_sector_sum(log_range: float, eps: float, angle: float) -> Segment | None:
    """Return the shortest sum of the table for this sector, or None."""
    angles, log_ranges, _ = short_sector_sums()
    i = bisect_left(angles, angle)
    j = bisect_left(log_ranges, log_range)
    for bound, lam, w in _sums_from(i, j):
        if bound <= eps:
            return Segment(shift=0.0, lam=lam, w=w)
    return None


@lru_cache(maxsize=512)
def _sums_from(i: int, j: int) -> list[tuple[float, Array, Array]]:
    """Return all sums of the table for sectors that contain this one, shortest first."""
    angles, log_ranges, table = short_sector_sums()
    sums: list[tuple[float, Array, Array]] = []
    for angle in angles[i:]:
        for log_range in log_ranges[j:]:
            sums += table.get((angle, log_range), [])
    return sorted(sums, key=lambda entry: entry[1].size)


def short_sector_sums() -> tuple[list[float], list[float], Table]:
    """Return the table for sectors: its angles and ln R, ascending, and the sums (bound, lam, w),
    shortest first.
    """
    (angles, log_ranges), table = read_table("sector_sums.npz", "angle", "log_range")
    return angles, log_ranges, table


@lru_cache(maxsize=512)
def computed_sector_segments(log_range: float, eps: float, angle: float) -> list[Segment]:
    """Return the trapezoidal rule for a sector; the bound is in
    docs/theory/bounds-of-the-engine.md, "Sectors".
    """
    angle = max(angle, 0.0)
    cos = math.cos(angle)
    # The step: for the best line Im t = a, 2 N / (e^(2 pi a / h) - 1) is eps / 2.
    a = (math.pi / 2 - angle) * SECTOR_LINES
    decay = np.cos(a) * np.cos(angle + a)
    left_of_corner = np.exp(math.exp(T0) * np.sin(a) / cos)
    N = left_of_corner / decay
    steps = 2 * math.pi * a / np.log1p(4 * N / eps)
    h = _exact_step(float(steps.max()))
    # The range from the underflow of lam to that of e^-lam.
    t0 = T0 - log_range
    # Logarithm of the smallest and the largest numbers in a rule for a sector: e^-700 is the end of
    # float64.
    log_float_max = 700.0
    reach = math.log(log_float_max)
    nodes = _equal_steps(h, t0 - reach, highest=reach, t0=t0)
    # |w| is at most Re w / cos. All terms up to a node that is dropped, or from it on, add up to
    # less than the cut.
    cut = SECTOR_CUT * eps * cos
    log_w = nodes.log_weights()
    left_terms = np.exp(log_w + log_range)
    with np.errstate(over="ignore"):
        right_terms = np.exp(log_w - np.exp(nodes.log_lam()))
    from_left = np.cumsum(left_terms)
    from_right = np.cumsum(right_terms[::-1])[::-1]
    nodes = nodes.pick((from_left > cut) & (from_right > cut))
    if log_range <= LOG_RANGE_SEGMENT:
        return [nodes.segment()]
    return nodes.segments()


def _equal_steps(h: float, lowest: float, highest: float, t0: float) -> Trapezoid:
    """Return the nodes at all multiples of h from just below `lowest` to just above `highest`."""
    first = math.floor(lowest / h)
    last = math.ceil(highest / h)
    t = h * np.arange(first, last + 1.0)
    return Trapezoid(t=t, squeeze=np.exp(-(t - t0)), h=h)


def _exact_step(h: float) -> float:
    """Round a step down to a multiple of 2^-STEP_BITS."""
    unit = 2.0**STEP_BITS
    return math.floor(h * unit) / unit


def rounded_arguments(log_range: float, eps: float) -> tuple[float, float]:
    """Round both to the safe side, so that games of similar range share a cached rule with a proved
    eps.
    """
    eighths = math.floor(8 * math.log10(eps))
    return math.ceil(2 * log_range) / 2, 10 ** (eighths / 8)


def trapezoid_of(log_range: float, eps: float) -> Trapezoid:
    """Return every kept node of the trapezoidal rule, lam ascending."""
    h = _exact_step(math.pi**2 / math.log(STEP_CONSTANT / eps))
    # The largest lam, of which e^lam is (8/eps) ln(8/eps).
    largest = math.log(CUT / eps)
    largest += math.log(largest)
    t0 = T0 - log_range
    largest_squeeze = LARGEST_SQUEEZE + math.log(1 / eps)
    lowest = t0 - math.log(largest_squeeze)
    highest = math.log(largest) + 1.5  # t is log lam plus the squeeze, which is less there
    nodes = _equal_steps(h, lowest, highest, t0)
    keep = nodes.log_lam() <= math.log(largest)
    keep &= nodes.log_weights() + log_range >= math.log(eps / LEFT_CUT)
    return nodes.pick(keep)


@lru_cache(maxsize=512)
def _trapezoid_plain(log_range: float, eps: float) -> tuple[Array, Array]:
    """Return the nodes and weights of a range of one segment."""
    segment = trapezoid_of(log_range, eps).segment()
    return segment.lam, segment.w


@lru_cache(maxsize=8)
def read_table(
    file: str, *keys: str, columns: tuple[str, str] = ("lam", "w")
) -> tuple[list[list[float]], Table]:
    """Read a table of this folder: the values of each key, ascending, and the entries of each of
    their tuples.

    An entry is a bound and two arrays; the shortest ones are first.
    """
    with np.load(Path(__file__).parent / file, allow_pickle=False) as data:
        stored = {name: data[name] for name in data.files}
    first, second = columns
    # The entries are stored one after the other; `size` has their lengths.
    stop = np.cumsum(stored["size"].astype(int))
    start = stop - stored["size"]
    table: Table = {}
    for i, bound in enumerate(stored["bound"].tolist()):
        key = tuple(float(stored[name][i]) for name in keys)
        entry = slice(start[i], stop[i])
        arrays = _frozen(stored[first][entry], stored[second][entry])
        table.setdefault(key, []).append((bound, *arrays))
    values = [np.unique(stored[name]).tolist() for name in keys]
    return values, table


def short_sum_key(log_range: float, eps: float) -> tuple[int, int] | None:
    """Return the key of the shortest sum for this range and relative error, or None if there is
    none.
    """
    log_ranges, errors = _errors()
    i = bisect_left(log_ranges, log_range)
    if i == len(log_ranges):
        return None
    k = bisect_left(errors[i], -eps)
    if k == len(errors[i]):
        return None
    return i, k


def _short_sum(i: int, k: int) -> tuple[Array, Array]:
    """Return the nodes and weights of a key of `short_sum_key`."""
    (log_ranges,), table = read_table("exponential_sums.npz", "log_range")
    sums = table[log_ranges[i],]
    _, lam, w = sums[k]
    return lam, w


@lru_cache(maxsize=1024)
def short_sums_together(keys: tuple[tuple[int, int], ...]) -> tuple[Array, Array, Ids]:
    """Return the concatenated nodes and weights of several sums of the table, and the sum of each,
    (L,) each.
    """
    sums = [_short_sum(*key) for key in keys]
    all_lam, all_w = zip(*sums, strict=True)
    lam, w = _frozen(np.concatenate(all_lam), np.concatenate(all_w))
    lengths = [nodes.size for nodes in all_lam]
    return lam, w, np.repeat(np.arange(len(sums)), lengths)


@lru_cache(maxsize=1)
def _errors() -> tuple[list[float], list[list[float]]]:
    """Return the table's ln R, ascending, and the negated bounds of the sums of each, which makes
    them ascend.
    """
    (log_ranges,), table = read_table("exponential_sums.npz", "log_range")
    bounds = []
    for key in log_ranges:
        bounds.append([-bound for bound, _, _ in table[key,]])
    return log_ranges, bounds


def _frozen(lam: Array, w: Array) -> tuple[Array, Array]:
    """Return both arrays, which became read-only."""
    lam.flags.writeable = False
    w.flags.writeable = False
    return lam, w
