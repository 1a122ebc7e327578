"""Scores of units: the common form of an input for every model.

A model whose prediction is a softmax-weighted mean gives unit i (a token, an instance, a row) in head h a log-mass
s_hi, and in value row r, which belongs to one head and one output, a value v_ri. The logits are

    f_c = bias_c + sum over the rows r of output c of sum_i softmax_i(s of r's head)_i v_ri,

where the softmax runs over the units and a background that is always present. One attention that C classes share has
C rows in one head; CLAM-MB has one head and one row per class; K heads with C outputs have K C rows. Logits, attention
and games follow from these arrays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._types import Array, Ids
from ..game.pooled_game import PooledGame, merge_runs


@dataclass(frozen=True, eq=False)
class PooledScores:
    """Log-masses and values of n units under a model with H heads, R value rows and C outputs.

    Attributes
    ----------
    s, v : (H, n) log-masses and (R, n) values
    bias : (C,) added to the logits
    head, output : (R,) head and output of each value row; by default row r is output r of head 0
    s_absent, v_absent : (H, n) and (R, n), what takes the place of an absent unit; None if absent units are deleted
    s_background, v_background : (H,) and (R,), what is always present; None if nothing is

    Examples
    --------
    >>> scores = PooledScores(np.zeros((1, 3)), np.array([[1.0, 2.0, 6.0], [0.0, 3.0, 0.0]]), np.array([0.0, 10.0]))
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
    head: Ids = None  # type: ignore[assignment]  # this and the like are filled in __post_init__
    output: Ids = None  # type: ignore[assignment]
    s_absent: Array | None = None
    v_absent: Array | None = None
    s_background: Array = None  # type: ignore[assignment]
    v_background: Array = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        (H, n), R, C = self.s.shape, len(self.v), self.bias.size
        rows = {"head": np.zeros(R, dtype=np.intp), "output": np.arange(R)}
        for name, default in {**rows, "s_background": np.full(H, -np.inf), "v_background": np.zeros(R)}.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        shapes = {"v": (R, n), "s_absent": (H, n), "v_absent": (R, n), "s_background": (H,), "v_background": (R,)}
        for name, shape in {**shapes, "head": (R,), "output": (R,)}.items():
            if (array := getattr(self, name)) is not None and array.shape != shape:
                raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
        if (self.s_absent is None) != (self.v_absent is None):
            raise ValueError("s_absent, v_absent: expected both or neither")
        for name, top in (("head", H), ("output", C)):
            if (numbers := getattr(self, name)).min() < 0 or numbers.max() >= top:
                raise ValueError(f"{name}: expected numbers in 0..{top - 1}, one per value row, got {numbers}")

    def heads(self, coefficients: Sequence[float] | Array) -> tuple[Ids, Ids, Array]:
        """The (h,) heads and (r,) value rows that `coefficients @ logits` needs, and (h, r) the rows' weights."""
        weight = np.asarray(coefficients, dtype=np.float64)[self.output]
        rows = np.flatnonzero(weight)
        heads = np.unique(self.head[rows])
        return heads, rows, np.where(self.head[rows] == heads[:, None], weight[rows], 0.0)

    def shares(self) -> tuple[Array, Array]:
        """Share of each unit (H, n) and of the background (H,) in the softmax of each head."""
        top = np.maximum(self.s.max(axis=1), self.s_background)
        mass, background = np.exp(self.s - top[:, None]), np.exp(self.s_background - top)
        total = mass.sum(axis=1) + background
        return mass / total[:, None], background / total

    def attention(self, coefficients: Sequence[float] | Array | None = None) -> Array:
        """(h, n) attention of the heads that a combination of the outputs needs; of all heads without one."""
        units = self.shares()[0]
        return units if coefficients is None else units[self.heads(coefficients)[0]]

    def logits(self) -> Array:
        """(C,) logits with every unit present."""
        units, background = self.shares()
        pooled = np.einsum("rn,rn->r", units[self.head], self.v) + background[self.head] * self.v_background
        return self.bias + np.bincount(self.output, weights=pooled, minlength=self.bias.size)

    def game(
        self,
        coefficients: Sequence[float] | Array,
        groups: Ids | None = None,
        labels: Sequence[str] | None = None,
        deleted: bool = False,
    ) -> PooledGame:
        """Game of the output `coefficients @ logits`; only the heads that it needs enter.

        Parameters
        ----------
        groups : (n,) the player of each unit, numbered by first appearance; None makes every unit a player
        labels : names of the players
        deleted : delete absent units even where something else could take their place
        """
        heads, rows, mixture = self.heads(coefficients)

        def chosen(s: Array, v: Array) -> tuple[Array, Array]:
            return s[heads], mixture @ v[rows]

        present, background = chosen(self.s, self.v), chosen(self.s_background, self.v_background)
        h, n = present[0].shape
        d = n if groups is None else int(groups.max()) + 1
        merged = groups is not None and d < n
        if groups is not None and merged:
            order = np.argsort(groups, kind="stable")
            starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
            present = merge_runs(present[0][:, order], present[1][:, order], starts)
        if deleted or self.s_absent is None or self.v_absent is None:
            absent = np.full((h, d), -np.inf), np.zeros((h, d))
        else:
            absent = chosen(self.s_absent, self.v_absent)
            if merged:
                absent = merge_runs(absent[0][:, order], absent[1][:, order], starts)
        bias = float(np.dot(coefficients, self.bias))
        names = tuple(map(str, range(d) if labels is None else labels))
        return PooledGame(*present, *absent, *background, bias, bias, names)
