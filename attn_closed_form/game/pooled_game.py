"""The softmax-pooled game: what a prediction becomes when players may be absent.

A player j (a position, or every occurrence of a word) is present with log-mass s_j and value v_j, or absent with
s'_j, v'_j ([UNK] in its place; log-mass -inf if it is deleted). A background ([CLS] and padding) is always there. In
one head, with a = e^s, A = a v, b = e^s', B = b v' and the background's mass c0 and mass times value n0,

    f(S) = (n0 + sum_{present} A_j + sum_{absent} B_j) / (c0 + sum_{present} a_j + sum_{absent} b_j),

and heads add up. P1's classifier, SLALOM (P2, Eq. 6), attention-pooled multiple-instance learning and attentive
probes are all this. Everything that explains them (`shapley.py`, `lime.py`, ...) takes a `PooledGame`.

Masses stay in the log domain. Several tokens act as one with the log-sum-exp of their log-masses and the
mass-weighted mean of their values, which is how words are made of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._types import Array
from .centred import CentredValues
from .checks import broadcast, check_size, check_values, rows
from .merging import merge_runs, merge_tokens

# Masks a block in `value`: keeps the working set near 16 MB.
BLOCK_ELEMENTS = 1 << 20
# Log-masses further apart than this are not turned into plain numbers: a mass times a value may leave float64.
LOG_RANGE_PLAIN = 300.0


@dataclass(frozen=True, eq=False)
class PooledGame(CentredValues):
    """A cooperative game whose value is a sum of softmax-weighted means. Build it with `from_scores` or `pooled_game`.

    Attributes
    ----------
    s, v : (H, d) log-masses and values of the players when present
    s_absent, v_absent : (H, d) the same when absent; log-mass -inf where absence is deletion
    s_background, v_background : (H,) what is always present; log-mass -inf if there is nothing
    bias : added to every value but that of an empty coalition without any mass
    empty_value : the value where no mass is left (all players deleted and no background)
    labels : a name for each player

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 1.0], v=[1.0, -1.0])
    >>> game
    PooledGame(d=2, H=1, absent='deleted', background=False)
    >>> game.value([[True, True], [True, False], [False, False]]).round(3)
    array([-0.462,  1.   ,  0.   ])
    """

    s: Array
    v: Array
    s_absent: Array
    v_absent: Array
    s_background: Array
    v_background: Array
    bias: float
    empty_value: float
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        check_values("s", self.s)
        check_size("v", self.v)
        check_values("s_absent", self.s_absent, minus_inf=True)
        check_size("v_absent", self.v_absent)
        check_values("s_background", self.s_background, minus_inf=True)
        check_size("v_background", self.v_background)
        check_size("bias", np.asarray(self.bias))
        check_size("empty_value", np.asarray(self.empty_value))
        H, d = self.s.shape
        if d < 1 or H < 1:
            raise ValueError(f"s: expected at least one player and one head, got shape {self.s.shape}")
        for name, shape in [("v", (H, d)), ("s_absent", (H, d)), ("v_absent", (H, d))]:
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name}: expected shape {shape} like s, got {getattr(self, name).shape}")
        for name in ("s_background", "v_background"):
            if getattr(self, name).shape != (H,):
                raise ValueError(f"{name}: expected shape ({H},), one per head, got {getattr(self, name).shape}")
        if len(self.labels) != d:
            raise ValueError(f"labels: expected {d} names, one per player, got {len(self.labels)}")
        empty = self._head_can_be_empty
        if empty.any() and not empty.all():
            raise ValueError(
                f"s_absent, s_background: head {int(np.argmax(empty))} has no mass when every player is absent and "
                f"head {int(np.argmin(empty))} has; expected all heads alike"
            )
        for name in ("s", "v", "s_absent", "v_absent", "s_background", "v_background"):
            getattr(self, name).flags.writeable = False

    @classmethod
    def from_scores(
        cls,
        s: ArrayLike,
        v: ArrayLike,
        s_absent: ArrayLike | None = None,
        v_absent: ArrayLike | None = None,
        s_background: ArrayLike | None = None,
        v_background: ArrayLike | None = None,
        bias: float = 0.0,
        empty_value: float = 0.0,
        labels: Sequence[str] | None = None,
    ) -> PooledGame:
        """Game of any softmax-pooled model, from its attention logits and values.

        Parameters
        ----------
        s, v : (d,) or (H, d) log-masses and values of the players; a value carries the weight of its head (1/K)
        s_absent, v_absent : the same for absent players, broadcast to (H, d); None means deleted
        s_background, v_background : scalars or (H,); several background tokens: merge them with `merge_tokens`.
            None means that nothing is always present
        bias : constant added to f
        empty_value : f where no mass is left
        labels : d names, "0", "1", ... by default

        Examples
        --------
        >>> game = PooledGame.from_scores([0.0, 2.0], [1.0, 3.0], s_background=0.0, v_background=0.0)
        >>> float(game.value([False, False]))
        0.0
        """
        s2, v2 = rows("s", s), rows("v", v)
        for name, given, needed in (
            ("v_absent", v_absent, s_absent),
            ("v_background", v_background, s_background),
        ):
            if given is not None and needed is None:
                raise ValueError(f"{name}: given without {name.replace('v_', 's_')}")
        H, d = s2.shape
        return cls(
            s=s2,
            v=v2,
            s_absent=broadcast("s_absent", s_absent, -np.inf, (H, d)),
            v_absent=broadcast("v_absent", v_absent, 0.0, (H, d)),
            s_background=broadcast("s_background", s_background, -np.inf, (H,)),
            v_background=broadcast("v_background", v_background, 0.0, (H,)),
            bias=float(bias),
            empty_value=float(empty_value),
            labels=tuple(map(str, range(d))) if labels is None else tuple(map(str, labels)),
        )

    @classmethod
    def _of_states(cls, s: Array, v: Array, bias: float, labels: tuple[str, ...]) -> PooledGame:
        """The game with these states (H, 2d + 1), see `CentredValues._states`, known to be sound: no copy, no check."""
        s.flags.writeable = v.flags.writeable = False
        game: PooledGame = object.__new__(cls)
        for name, states in (("s", s), ("v", v)):
            for end, part in zip(("", "_absent", "_background"), game._parts(states), strict=True):
                game.__dict__[name + end] = part
        game.__dict__.update(bias=bias, empty_value=0.0, labels=labels, _states=(s, v))
        return game

    @property
    def H(self) -> int:
        """Number of heads."""
        return self.s.shape[0]

    @property
    def d(self) -> int:
        """Number of players."""
        return self.s.shape[1]

    def value(self, present: ArrayLike) -> Array:
        """F of one coalition or of many.

        Parameters
        ----------
        present : (..., d) bool, True where a player is present

        Returns
        -------
        (...) float64
        """
        raw = np.asarray(present)
        if raw.dtype.kind not in "biuf" or raw.ndim == 0 or raw.shape[-1] != self.d:
            raise ValueError(f"present: expected a boolean mask of shape (..., {self.d}), got {raw.dtype} {raw.shape}")
        if raw.dtype.kind != "b" and not np.isin(raw, (0, 1)).all():
            raise ValueError("present: expected a boolean mask, got numbers other than 0 and 1")
        mask = raw.astype(bool).reshape(-1, self.d)
        out = np.empty(len(mask))
        block = max(1, BLOCK_ELEMENTS // self.d)
        for start in range(0, len(mask), block):
            out[start : start + block] = self._value_block(mask[start : start + block])
        return out.reshape(raw.shape[:-1])[()]

    def _value_block(self, mask: NDArray[np.bool_]) -> Array:
        """(n, d) mask -> (n,). Centred values are summed, so that a constant costs no digits."""
        if self._linear is not None:
            # Numerators and denominators of all heads in two matrix products; sums of positive masses lose no digit.
            present, absent, background = self._linear
            here = mask.astype(np.float64)
            sums = here @ present + (1 - here) @ absent + background
            with np.errstate(invalid="ignore"):
                total = (sums[:, self.H :] / sums[:, : self.H]).sum(axis=1)
        else:
            total = np.zeros(len(mask))
            v, v_absent, v_background = self._centred
            for h in range(self.H):
                log_mass = np.where(mask, self.s[h], self.s_absent[h])
                top = np.maximum(log_mass.max(axis=1), self.s_background[h])
                top[np.isneginf(top)] = 0.0
                with np.errstate(over="ignore"):
                    mass = np.exp(log_mass - top[:, None])
                    base = np.exp(self.s_background[h] - top)
                num = (mass * np.where(mask, v[h], v_absent[h])).sum(axis=1) + base * v_background[h]
                with np.errstate(invalid="ignore"):
                    total += num / (mass.sum(axis=1) + base)
        with np.errstate(over="ignore"):
            out = self.base + np.ldexp(total, self.exponent)
        if self.can_be_empty:
            out[~mask.any(axis=1)] = self.empty_value
        return out

    @cached_property
    def _linear(self) -> tuple[Array, Array, Array] | None:
        """Masses and masses times values as plain numbers, (d, 2H) (d, 2H) (2H,); None where they would underflow."""
        tiny = self._masses < np.exp(-LOG_RANGE_PLAIN)
        if tiny.any() and (self._without_mass is None or (tiny & ~self._without_mass).any()):
            return None
        present, absent, background = self._parts(np.concatenate([self._masses, self._weighted]))
        return present.T, absent.T, background

    def fix(self, player: int, present: bool) -> PooledGame:
        """The game of the other players, `player` being part of the background in one of its two states.

        Examples
        --------
        >>> game = PooledGame.from_scores([0.0, 0.0, 1.0], [1.0, 3.0, 5.0])
        >>> float(game.fix(0, True).value([True, False])) == float(game.value([True, True, False]))
        True
        """
        if not -self.d <= player < self.d or self.d == 1:
            raise ValueError(f"player: expected one of 0..{self.d - 1} in a game of two players or more, got {player}")
        s, v = (self.s, self.v) if present else (self.s_absent, self.v_absent)
        s_background, v_background = merge_tokens(
            np.stack([self.s_background, s[:, player]], axis=1), np.stack([self.v_background, v[:, player]], axis=1)
        )
        others = np.arange(self.d) != player % self.d
        return PooledGame(
            s=self.s[:, others],
            v=self.v[:, others],
            s_absent=self.s_absent[:, others],
            v_absent=self.v_absent[:, others],
            s_background=s_background,
            v_background=v_background,
            bias=self.bias,
            empty_value=self.empty_value,
            labels=tuple(label for label, other in zip(self.labels, others, strict=True) if other),
        )

    def merge(self, groups: Sequence[Sequence[int]], labels: Sequence[str] | None = None) -> PooledGame:
        """Game whose players are groups of this game's players, each present or absent as a whole.

        Parameters
        ----------
        groups : a partition of the players, such as [[0, 2], [1]]
        labels : names of the groups; by default the label of each group's first member
        """
        members = [list(group) for group in groups]
        if sorted(j for group in members for j in group) != list(range(self.d)) or not all(members):
            raise ValueError(f"groups: expected each player 0..{self.d - 1} in exactly one group, got {members}")
        order = np.concatenate([np.asarray(group) for group in members])
        starts = np.cumsum([0, *map(len, members)])[:-1]
        s, v = merge_runs(self.s[:, order], self.v[:, order], starts)
        s_absent, v_absent = merge_runs(self.s_absent[:, order], self.v_absent[:, order], starts)
        return PooledGame(
            s=s,
            v=v,
            s_absent=s_absent,
            v_absent=v_absent,
            s_background=self.s_background,
            v_background=self.v_background,
            bias=self.bias,
            empty_value=self.empty_value,
            labels=tuple(labels) if labels is not None else tuple(self.labels[group[0]] for group in members),
        )

    def __repr__(self) -> str:
        deleted = np.isneginf(self.s_absent)
        absent = "deleted" if deleted.all() else "mixed" if deleted.any() else "replaced"
        background = not np.isneginf(self.s_background).all()
        return f"PooledGame(d={self.d}, H={self.H}, absent={absent!r}, background={background})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}
