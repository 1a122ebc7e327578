"""Scores of units, the form to which every model converts its input.

A model whose prediction is a softmax-weighted mean gives unit i (a token, an instance, a row) in
head h a log-mass s_hi, and in value row r, which belongs to one head and one output, a value v_ri.
The logits are

    f_c = bias_c + sum over the rows r of output c of sum_i softmax_i(s of r's head)_i v_ri,

where the softmax runs over the units and a background that is always present. One attention that C
classes share has C rows in one head; CLAM-MB has one head and one row per class; K heads with C
outputs have K C rows. Logits, attention and games follow from these arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._arrays import check, run_lengths, usual_float_errors
from .._shapes import axis_sizes
from .._types import Array, Ids
from .pooled_game import LARGEST_VALUE, PooledGame, merge_runs

# The axes of every array: H heads, R value rows, n units, C outputs.
SCORE_AXES: dict[str, tuple[str, ...]] = {
    "s": ("H", "n"),
    "v": ("R", "n"),
    "bias": ("C",),
    "head": ("R",),
    "output": ("R",),
    "s_absent": ("H", "n"),
    "v_absent": ("R", "n"),
    "s_background": ("H",),
    "v_background": ("R",),
}
# The axes that differ for the concatenated units of B inputs.
AXES_OF_SEVERAL_INPUTS: dict[str, tuple[str, ...]] = {
    "starts": ("B",),
    "s_background": ("H", "B"),
    "v_background": ("R", "B"),
}
# The first unit of the only input.
ONE_INPUT = np.zeros(1, dtype=np.intp)


class _RelativeMasses(NamedTuple):
    """Masses of n units of B inputs in H heads, over the largest mass of their head and input."""

    units: Array  # (H, n)
    background: Array  # (H, B)
    total: Array  # (H, B)
    lengths: Ids  # (B,) the number of units of each input


@dataclass(frozen=True, eq=False)
class PooledScores:
    """Log-masses and values of n units under a model with H heads, R value rows and C outputs.

    They are the units of one input, or the concatenated units of several inputs. Results for
    several inputs equal those for the inputs one by one, bit for bit, because sums and maxima run
    over each input separately.

    Attributes
    ----------
    s, v : (H, n) log-masses and (R, n) values
    bias : (C,) added to the logits
    head, output : (R,) head and output of each value row, which holds the values of all units for
        one head and one output; by default row r is output r of head 0
    s_absent, v_absent : (H, n) and (R, n), scores that replace those of absent units; None if
        absent units are deleted
    s_background, v_background : (H,) and (R,), scores of the background that is always present, or
        None. For several inputs, (H, B) and (R, B)
    starts : (B,) the first unit of each of several inputs, which have at least one unit each; None
        for one input

    Examples
    --------
    >>> scores = PooledScores(
    ...     np.zeros((1, 3)), np.array([[1.0, 2.0, 6.0], [0.0, 3.0, 0.0]]), np.array([0.0, 10.0])
    ... )
    >>> scores.logits()
    array([ 3., 11.])
    >>> scores.attention().round(3)
    array([[0.333, 0.333, 0.333]])
    >>> margin = scores.game([-1.0, 1.0], groups=np.array([0, 1, 0]), labels=["a", "b"])
    >>> margin.labels, float(margin.value([True, True])), float(margin.value([False, True]))
    (('a', 'b'), 8.0, 11.0)
    """

    s: Array
    v: Array
    bias: Array
    head: Ids = None  # type: ignore[assignment]  # filled in __post_init__, like those below
    output: Ids = None  # type: ignore[assignment]
    s_absent: Array | None = None
    v_absent: Array | None = None
    s_background: Array = None  # type: ignore[assignment]
    v_background: Array = None  # type: ignore[assignment]
    starts: Ids | None = None

    def __post_init__(self) -> None:
        axes = SCORE_AXES
        if self.starts is not None:
            axes = {**SCORE_AXES, **AXES_OF_SEVERAL_INPUTS}
        given = {}
        for name in axes:
            array = getattr(self, name)
            if array is not None:
                given[name] = array
        sizes = axis_sizes(given, axes)
        s_background = [sizes[axis] for axis in axes["s_background"]]
        v_background = [sizes[axis] for axis in axes["v_background"]]
        defaults = {
            "head": np.zeros(sizes["R"], dtype=np.intp),
            "output": np.arange(sizes["R"]),
            "s_background": np.full(s_background, -np.inf),
            "v_background": np.zeros(v_background),
        }
        for name, default in defaults.items():
            if name not in given:
                object.__setattr__(self, name, default)
        both = (self.s_absent is None) == (self.v_absent is None)
        check("s_absent, v_absent", both, "both or neither", "one of them")
        _check_numbers("head", self.head, sizes["H"])
        _check_numbers("output", self.output, sizes["C"])

    def heads(self, coefficients: Sequence[float] | Array) -> tuple[Ids, Ids, Array]:
        """Return the (h,) heads and (r,) value rows of `coefficients @ logits`, and the (h, r)
        weights of the rows.
        """
        weight = np.asarray(coefficients, dtype=np.float64)[self.output]
        rows = np.flatnonzero(weight)
        if not rows.size:  # an output that is constant, such as a pruned unit of a hidden layer
            rows = np.zeros(1, dtype=np.intp)
        head_of = self.head[rows]
        heads = np.flatnonzero(np.bincount(head_of))
        belongs = head_of == heads[:, None]
        return heads, rows, np.where(belongs, weight[rows], 0.0)

    def shares(self) -> tuple[Array, Array]:
        """Return the share of each unit (H, n) and of the background (H,) or (H, B) in the softmax
        of each head.
        """
        masses = self._masses()
        of_units = masses.units / np.repeat(masses.total, masses.lengths, axis=1)
        of_background = masses.background / masses.total
        if self.starts is None:
            of_background = of_background[:, 0]
        return of_units, of_background

    @usual_float_errors
    def _masses(self) -> _RelativeMasses:
        """Return all masses over the largest one of their head and input."""
        starts = self._first_units
        H, n = self.s.shape
        s_background = self.s_background.reshape(H, -1)
        lengths = run_lengths(starts, n)
        largest = np.maximum.reduceat(self.s, starts, axis=1)
        top = np.maximum(largest, s_background)
        mass = np.exp(self.s - np.repeat(top, lengths, axis=1))
        background = np.exp(s_background - top)
        total = np.add.reduceat(mass, starts, axis=1) + background
        return _RelativeMasses(units=mass, background=background, total=total, lengths=lengths)

    @property
    def _first_units(self) -> Ids:
        """The first unit of each input, (B,)."""
        if self.starts is None:
            return ONE_INPUT
        return self.starts

    def attention(self, coefficients: Sequence[float] | Array | None = None) -> Array:
        """Return the (h, n) attention of the heads that a combination of the outputs needs, by
        default of all heads.
        """
        units = self.shares()[0]
        if coefficients is None:
            return units
        return units[self.heads(coefficients)[0]]

    def logits(self) -> Array:
        """Return the (C,) logits with every unit present, or (B, C) for several inputs."""
        masses = self._masses()
        starts = self._first_units
        v_background = self.v_background.reshape(len(self.v), -1)
        of_units = np.add.reduceat(masses.units[self.head] * self.v, starts, axis=1)
        of_background = masses.background[self.head] * v_background
        means = (of_units + of_background) / masses.total[self.head]
        logits = np.repeat(self.bias[None], starts.size, axis=0)
        for mean, output in zip(means, self.output.tolist(), strict=True):
            logits[:, output] += mean
        if self.starts is not None:
            return logits
        return logits[0]

    def game(
        self,
        coefficients: Sequence[float] | Array,
        groups: Ids | None = None,
        labels: Sequence[str] | None = None,
        deleted: bool = False,
    ) -> PooledGame:
        """Return the game of the output `coefficients @ logits`, with only the heads that it needs.

        Parameters
        ----------
        groups : (n,) the player of each unit, numbered by first appearance; None makes every unit a
            player
        labels : names of the players
        deleted : delete absent units even if the model has replacements for them
        """
        if groups is None:
            players = np.arange(self.s.shape[1])
        else:
            players = groups
        if labels is None:
            names = [str(player) for player in range(int(players.max()) + 1)]
        else:
            names = [str(label) for label in labels]
        order = stable_order(players)
        return self.games(coefficients, players, order, labels=[tuple(names)], deleted=deleted)[0]

    def by_player(self, groups: Ids, deleted: bool = False) -> PooledScores:
        """Return the scores of one input with one unit per player, whose units are merged.

        Parameters
        ----------
        groups : (n,) the player of each unit, numbered by first appearance
        deleted : delete absent units even if the model has replacements for them

        Examples
        --------
        >>> scores = PooledScores(np.zeros((1, 3)), np.array([[1.0, 2.0, 6.0]]), np.zeros(1))
        >>> scores.by_player(np.array([0, 1, 0])).v
        array([[3.5, 2. ]])
        """
        order = stable_order(groups)
        counts = np.bincount(groups)
        starts = np.cumsum(counts) - counts

        def merged(s: Array, v: Array) -> tuple[Array, Array]:
            sorted_s = np.ascontiguousarray(s[:, order])
            sorted_v = np.ascontiguousarray(v[:, order])
            # A row of values has the log-masses of its head.
            s_of_rows = np.ascontiguousarray(sorted_s[self.head])
            _, merged_v = merge_runs(s_of_rows, sorted_v, starts)
            merged_s, _ = merge_runs(sorted_s, np.zeros_like(sorted_s), starts)
            return merged_s, merged_v

        s, v = merged(self.s, self.v)
        s_absent = None
        v_absent = None
        if not deleted and self.s_absent is not None and self.v_absent is not None:
            s_absent, v_absent = merged(self.s_absent, self.v_absent)
        return PooledScores(
            s=s,
            v=v,
            bias=self.bias,
            head=self.head,
            output=self.output,
            s_absent=s_absent,
            v_absent=v_absent,
            s_background=self.s_background,
            v_background=self.v_background,
        )

    def games(
        self,
        coefficients: Sequence[float] | Array,
        players: Ids,
        order: Ids,
        labels: Sequence[tuple[str, ...]],
        deleted: bool = False,
    ) -> list[PooledGame]:
        """Return the `game` of each of several inputs, for the same output.

        Parameters
        ----------
        players : (n,) the player of each unit; those of the second input follow those of the first,
            and so on
        order : (n,) the units in the order of their players
        labels : for each input, the names of its players
        """
        heads, rows, mixture = self.heads(coefficients)

        def chosen(s: Array, v: Array) -> tuple[Array, Array]:
            """Return the log-masses and values of the heads that the output needs."""
            return s[heads], mixture @ v[rows]

        def of_players(s: Array, v: Array) -> tuple[Array, Array]:
            """Merge the units of every player."""
            if order.size == d:
                return s, v
            sorted_s = np.ascontiguousarray(s[:, order])
            sorted_v = np.ascontiguousarray(v[:, order])
            return merge_runs(sorted_s, sorted_v, runs)

        ends = np.cumsum([len(names) for names in labels])
        d = int(ends[-1])
        B = len(labels)
        counts = np.bincount(players)
        runs = np.cumsum(counts) - counts
        present = of_players(*chosen(self.s, self.v))
        if deleted or self.s_absent is None or self.v_absent is None:
            shape = (heads.size, d)
            absent = np.full(shape, -np.inf), np.zeros(shape)
        else:
            absent = of_players(*chosen(self.s_absent, self.v_absent))
        s_background = self.s_background.reshape(-1, B)
        v_background = self.v_background.reshape(-1, B)
        background = chosen(s_background, v_background)
        bias = float(np.dot(coefficients, self.bias))
        make: Callable[..., PooledGame] = PooledGame
        if _is_valid(present, absent, background, bias):
            make = PooledGame.unchecked
        by_input = [np.ascontiguousarray(array.T) for array in background]
        for array in (*present, *absent, *by_input):
            array.flags.writeable = False
        games = []
        start = 0
        for end, names, *always in zip(ends.tolist(), labels, *by_input, strict=True):
            arrays = [array[:, start:end] for array in (*present, *absent)]
            if heads.size > 1:
                arrays = [np.ascontiguousarray(array) for array in arrays]
            s, v, s_absent, v_absent = arrays
            s_background, v_background = always
            games.append(
                make(
                    s=s,
                    v=v,
                    s_absent=s_absent,
                    v_absent=v_absent,
                    s_background=s_background,
                    v_background=v_background,
                    bias=bias,
                    # Without any mass the logit is its bias.
                    empty_value=bias,
                    labels=names,
                )
            )
            start = end
        return games


def _is_valid(
    present: tuple[Array, Array],
    absent: tuple[Array, Array],
    background: tuple[Array, Array],
    bias: float,
) -> bool:
    """Make the checks of `PooledGame` once for all inputs; if one fails, the constructor raises the
    error.
    """
    s, v = present
    s_absent, v_absent = absent
    s_background, v_background = background
    if not (np.isfinite(s).all() and np.isfinite(s_background).all()):
        return False
    if not (s_absent < np.inf).all():
        return False
    values = (v, v_absent, v_background, np.array(bias))
    return all((np.abs(array) <= LARGEST_VALUE).all() for array in values)


def _check_numbers(name: str, numbers: Ids, count: int) -> None:
    """Raise an error unless every number of a head or an output is below their count."""
    fits = numbers.min() >= 0 and numbers.max() < count
    check(name, fits, f"numbers in 0..{count - 1}, one per value row", numbers)


def stable_order(numbers: Ids) -> Ids:
    """Return `np.argsort(numbers, kind="stable")` of nonnegative numbers, several times faster if
    they are small.
    """
    # NumPy sorts 16 bits by radix.
    largest = np.iinfo(np.uint16).max
    if numbers.size and numbers.max() <= largest:
        return np.argsort(numbers.astype(np.uint16), kind="stable")
    return np.argsort(numbers, kind="stable")
