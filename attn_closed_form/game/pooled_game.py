"""The softmax-pooled game: the prediction as a function of the players that are present.

A player j (a position, or every occurrence of a word) is present with log-mass s_j and value v_j,
or absent with s'_j, v'_j ([UNK] in its place; log-mass -inf if it is deleted). A background ([CLS]
and padding) is always present. In one head, with a = e^s, A = a v, b = e^s', B = b v' and the
background's mass c0 and mass times value n0,

    f(S) = N / D,
    N = n0 + sum_{present} A_j + sum_{absent} B_j,
    D = c0 + sum_{present} a_j + sum_{absent} b_j,

and heads add up (docs/theory/pooled-game.md).

**Units.** f is a constant, `base`, plus one mean per head of values that are centered in that head.
`base` is an exact sum, rounded once, so a large constant costs no digits. Centered values are
counted in units of 2^exponent, a division without rounding, so that products with masses stay
inside float64 for values of any size. Masses stay in the log domain until they are divided by the
largest mass of their head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import check, not_negative, real, run_lengths, usual_float_errors
from .._shapes import cached_arrays, checked_arrays, set_fields
from .._types import Array, Ids, Masks
from .engine.budget import finite, in_units, times_power
from .engine.pieces import exp_difference, game_pieces, head_masses
from .engine.rounding import (
    ULP,
    VALUE_BASE,
    VALUE_FIXED_PLAYERS,
    VALUE_ITSELF,
    VALUE_PER_PLAYER,
)
from .engine.terms import Masses, Pieces

if TYPE_CHECKING:
    from .links import LinkedGame

# The axes of every array: H heads, d players.
GAME_AXES: dict[str, tuple[str | int, ...]] = {
    "s": ("H", "d"),
    "v": ("H", "d"),
    "s_absent": ("H", "d"),
    "v_absent": ("H", "d"),
    "s_background": ("H",),
    "v_background": ("H",),
}
# Tuning: elements (masks times players) of one block of `value`, which keeps the working set near
# 16 MB.
BLOCK_ELEMENTS = 1 << 20
# Log-masses further apart than this are not turned into plain numbers: e^-300 is 2^-433, and times
# a centered value of 2^-500 it is still above 2^-1022, the smallest number with all of its digits.
LOG_RANGE_PLAIN = 300.0
# Values above it would overflow in sums over heads, differences or coefficients: 1.8e308 is 1,800
# times as large.
LARGEST_VALUE = 1e305


class PlayerMasses(NamedTuple):
    """Masses as plain numbers, in units of the largest of each head: present, absent (H, d),
    background (H,).
    """

    present: Array
    absent: Array
    background: Array


@dataclass(frozen=True, eq=False)
class PooledGame:
    """A cooperative game whose value is a sum of softmax-weighted means. Build it with
    `from_scores` or `pooled_game`.

    Attributes
    ----------
    s, v : (H, d) log-masses and values of the players when present
    s_absent, v_absent : (H, d) the same when absent; log-mass -inf for deleted players
    s_background, v_background : (H,) scores of the background, which is always present; log-mass
        -inf for none
    bias : added to every value but that of an empty coalition without any mass
    empty_value : the value if no mass is left (all players deleted and no background)
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

    # The engine computes with the game itself (`EngineGame`): it adds no rounding and no error of
    # an approximation, its constants are correct to their last digit, and its factors are positive.
    known_error: ClassVar[float] = 0.0
    grand_error: ClassVar[float] = 0.0
    extra_ulps: ClassVar[float] = 0.0
    engine_share: ClassVar[float] = 1.0
    positive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in GAME_AXES}
        arrays, sizes = checked_arrays(given, GAME_AXES, deletable=("s_absent", "s_background"))
        for name in ("v", "v_absent", "v_background"):
            _check_size(name, arrays[name])
        for name in ("bias", "empty_value"):
            _check_size(name, np.asarray(getattr(self, name)))
        labeled = len(self.labels) == sizes["d"]
        check("labels", labeled, f"{sizes['d']} names, one per player", len(self.labels))
        set_fields(self, arrays)
        empty = self._head_can_be_empty
        if empty.any() and not empty.all():
            raise ValueError(
                f"s_absent, s_background: head {int(np.argmax(empty))} has no mass when every "
                f"player is absent and head {int(np.argmin(empty))} has; expected the same of all "
                f"heads"
            )

    @classmethod
    @usual_float_errors
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
        """Build the game of any softmax-pooled model from its attention logits and values.

        Parameters
        ----------
        s, v : (d,) or (H, d) log-masses and values of the players; a value carries the weight of
            its head (1/K)
        s_absent, v_absent : the same for absent players, broadcast to (H, d); None means deleted
        s_background, v_background : scalars or (H,); merge several background tokens with
            `merge_tokens`. None means no background
        bias : constant added to f
        empty_value : f if no mass is left
        labels : d names, "0", "1", ... by default

        Examples
        --------
        >>> game = PooledGame.from_scores(
        ...     [0.0, 2.0], [1.0, 3.0], s_background=0.0, v_background=0.0
        ... )
        >>> float(game.value([False, False]))
        0.0
        """
        s2 = _as_rows("s", s)
        v2 = _as_rows("v", v)
        for name, given, needed in (
            ("v_absent", v_absent, s_absent),
            ("v_background", v_background, s_background),
        ):
            if given is not None and needed is None:
                raise ValueError(f"{name}: given without {name.replace('v_', 's_')}")
        H, d = s2.shape
        if labels is None:
            names = [str(player) for player in range(d)]
        else:
            names = [str(label) for label in labels]
        return cls(
            s=s2,
            v=v2,
            s_absent=_broadcast("s_absent", s_absent, default=-np.inf, shape=(H, d)),
            v_absent=_broadcast("v_absent", v_absent, default=0.0, shape=(H, d)),
            s_background=_broadcast("s_background", s_background, default=-np.inf, shape=(H,)),
            v_background=_broadcast("v_background", v_background, default=0.0, shape=(H,)),
            bias=float(real("bias", bias)),
            empty_value=float(real("empty_value", empty_value)),
            labels=tuple(names),
        )

    @classmethod
    @usual_float_errors
    def from_weights(
        cls,
        weights: ArrayLike,
        values: ArrayLike,
        background_weight: float = 0.0,
        background_value: float = 0.0,
        empty_value: float = 0.0,
        labels: Sequence[str] | None = None,
    ) -> PooledGame:
        """Build the game of a plain weighted mean, sum(w v) / sum(w) over the present players.

        Parameters
        ----------
        weights, values : (d,) weights above 0, which need not add up to 1, and values of the
            players. If weights underflow, give their logarithms to `from_scores`
        background_weight, background_value : weight and value of a background, such as a prior
        empty_value, labels : as in `from_scores`

        Examples
        --------
        >>> from attn_closed_form import shapley
        >>> shapley(PooledGame.from_weights([2.0, 1.0, 1.0], [1.0, 0.0, 4.0])).round(4).tolist()
        [-0.0556, -0.5556, 2.1111]
        """
        w = real("weights", weights).astype(np.float64)
        check("weights", w.ndim == 1, "(d,) numbers", f"shape {w.shape}")
        have_mass = (np.isfinite(w) & (w > 0)).all()
        expected = "finite numbers above 0 (omit players without weight)"
        check("weights", have_mass, expected, w)
        not_negative("background_weight", background_weight)
        background: dict[str, float] = {}
        if background_weight:
            background["s_background"] = math.log(background_weight)
            background["v_background"] = background_value
        return cls.from_scores(
            np.log(w), values, empty_value=empty_value, labels=labels, **background
        )

    @classmethod
    def unchecked(cls, **values: Any) -> PooledGame:
        """Build a game from valid values of all fields, without checks; arrays must be
        read-only.
        """
        game = object.__new__(cls)
        game.__dict__.update(values)
        return game

    @cached_property
    def H(self) -> int:
        """Number of heads."""
        return self.s.shape[0]

    @cached_property
    def d(self) -> int:
        """Number of players."""
        return self.s.shape[1]

    @usual_float_errors
    def value(self, present: ArrayLike) -> Array:
        """Compute the values (...) of coalitions, (..., d) bool, True for present players.

        Examples
        --------
        >>> game = PooledGame.from_weights([2.0, 1.0, 1.0], [1.0, 0.0, 4.0])
        >>> game.value([[True, True, True], [True, False, False]])
        array([1.5, 1. ])
        """
        raw = np.asarray(present)
        if raw.dtype.kind not in "biuf" or raw.shape[-1:] != (self.d,):
            raise ValueError(
                f"present: expected a boolean mask of shape (..., {self.d}), got {raw.dtype} "
                f"{raw.shape}"
            )
        if raw.dtype.kind != "b" and not np.isin(raw, (0, 1)).all():
            raise ValueError("present: expected a boolean mask, got numbers other than 0 and 1")
        masks = raw.astype(bool).reshape(-1, self.d)
        out = np.empty(len(masks))
        masks_at_once = max(1, BLOCK_ELEMENTS // self.d)
        for start in range(0, len(masks), masks_at_once):
            block = slice(start, start + masks_at_once)
            out[block] = self._values_of(masks[block])
        return out.reshape(raw.shape[:-1])[()]

    def _values_of(self, mask: Masks) -> Array:
        """Compute the values (n,) of a mask (n, d). Centered values are summed, so that a constant
        costs no digits.
        """
        empty = ~mask.any(axis=1)
        if self.linear is not None:
            # Numerators and denominators of all heads in two matrix products; sums of positive
            # masses lose no digit.
            present, absent, background = self.linear
            ones = mask.astype(np.float64)
            of_players = ones @ present + (1 - ones) @ absent
            return self.pooled(of_players + background, empty)
        sums = np.empty((len(mask), 2 * self.H))
        D = sums[:, : self.H]
        N = sums[:, self.H :]
        v, v_absent, v_background = self.centered
        for h in range(self.H):
            log_mass = np.where(mask, self.s[h], self.s_absent[h])
            top = np.maximum(log_mass.max(axis=1), self.s_background[h])
            top[np.isneginf(top)] = 0.0
            with np.errstate(over="ignore", under="ignore"):
                mass = np.exp(log_mass - top[:, None])
                c_0 = np.exp(self.s_background[h] - top)
            values = np.where(mask, v[h], v_absent[h])
            D[:, h] = mass.sum(axis=1) + c_0
            of_players = (mass * values).sum(axis=1)
            N[:, h] = of_players + c_0 * v_background[h]
        return self.pooled(sums, empty)

    def pooled(self, sums: Array, empty: Any) -> Array:
        """Return values (n,) from sums (n, 2H) of masses and of masses times centered values;
        `empty` flags no mass.
        """
        D = sums[:, : self.H]
        N = sums[:, self.H :]
        with np.errstate(invalid="ignore", over="ignore"):
            total = (N / D).sum(axis=1)
            values = self.base + np.ldexp(total, self.exponent)
            out = finite(values, nan=self.can_be_empty)
        if self.can_be_empty:
            out[empty] = self.empty_value
        return out

    @cached_arrays
    def linear(self) -> tuple[Array, Array, Array] | None:
        """Masses and masses times values as plain numbers, (d, 2H) (d, 2H) (2H,); None if they
        would underflow.
        """
        tiny = self.relative_masses < np.exp(-LOG_RANGE_PLAIN)
        if self.without_mass is not None:
            tiny &= ~self.without_mass
        if tiny.any():
            return None
        both = np.concatenate([self.relative_masses, self.weighted_masses])
        present, absent, background = self.split_states(both)
        return present.T, absent.T, background

    @cached_property
    def baseline(self) -> float:
        """The value of the empty coalition, in which every player is absent."""
        if self.can_be_empty:
            return self.empty_value
        if (self.s_absent == -np.inf).all():  # only the background is left
            return _exact_sum([self.bias, *self.v_background.tolist()])
        return float(self.value(np.zeros(self.d, dtype=bool)))

    def merge(
        self, groups: Sequence[Sequence[int]], labels: Sequence[str] | None = None
    ) -> PooledGame:
        """Return the game whose players are groups of this game's players, a partition such as [[0,
        2], [1]].

        By default a group has the label of its first member.

        Examples
        --------
        >>> from attn_closed_form import shapley
        >>> game = PooledGame.from_weights([2.0, 1.0, 1.0], [1.0, 0.0, 4.0], labels=["a", "b", "c"])
        >>> merged = game.merge([[0, 2], [1]])
        >>> merged.labels, shapley(merged).round(4).tolist()
        (('a', 'b'), [1.75, -0.25])
        """
        members = [list(group) for group in groups]
        listed = sorted(j for group in members for j in group)
        is_partition = listed == list(range(self.d)) and all(members)
        check("groups", is_partition, f"each player 0..{self.d - 1} in exactly one group", members)
        order = np.concatenate([np.asarray(group) for group in members])
        lengths = [len(group) for group in members]
        starts = np.cumsum([0, *lengths])[:-1]
        present = (self.s[:, order], self.v[:, order])
        absent = (self.s_absent[:, order], self.v_absent[:, order])
        s, v = merge_runs(*present, starts)
        s_absent, v_absent = merge_runs(*absent, starts)
        if labels is not None:
            names = tuple(labels)
        else:
            names = tuple(self.labels[group[0]] for group in members)
        return replace(self, s=s, v=v, s_absent=s_absent, v_absent=v_absent, labels=names)

    def through(self, link: str, scale: float = 1.0) -> LinkedGame:
        """Return the game with value g(f), for a game with one head, which every function for games
        accepts.

        Parameters
        ----------
        link : "sigmoid", the probability 1 / (1 + e^(-scale f)); or "exp", e^(scale f)
        scale : factor of f, such as one over the temperature of a calibrated model

        Examples
        --------
        >>> from attn_closed_form import shapley
        >>> game = PooledGame.from_scores(
        ...     [0.0, 1.0], [3.0, -1.0], s_background=0.0, v_background=0.0
        ... )
        >>> probability = game.through("sigmoid")
        >>> round(float(shapley(probability).sum()), 4)  # from 0.5 with nobody to 0.5149 with both
        0.0149
        """
        from .links import Link, LinkedGame

        return LinkedGame(self, Link(link, float(scale)))

    def leave_one_out(self) -> Array:
        """Compute f(all) - f(all but j) for each player, (d,), in O(d).

        Examples
        --------
        >>> PooledGame.from_weights([2.0, 1.0, 1.0], [1.0, 0.0, 4.0]).leave_one_out().round(4)
        array([-0.5   , -0.5   ,  0.8333])
        """
        v, v_absent, v_background = self.centered
        a, b, c_0 = self.masses
        n_0 = (c_0 * v_background)[:, None]
        # Sums over the others are taken from both sides, not by subtraction, so nothing cancels if
        # one player dominates.
        D = c_0[:, None] + _sums_of_others(a) + b
        N = n_0 + _sums_of_others(a * v) + b * v_absent
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            changes = self.grand_means[:, None] - N / D
            out = np.ldexp(changes.sum(axis=0), self.exponent)
        # Next to a mass of 1, the other players must have at least this mass for their mean to keep
        # all of its digits: 1e-200 times a centered value of 1e-100 is still above the smallest
        # number with all of its digits.
        least_mass = 1e-200
        # If a player has nearly all of the mass of a head, the others are too light for these units
        # of mass.
        dominating = np.flatnonzero((least_mass > D).any(axis=0))
        if dominating.size:
            without = np.ones((dominating.size, self.d), dtype=bool)
            without[np.arange(dominating.size), dominating] = False
            grand = self.value(np.ones(self.d, dtype=bool))
            out[dominating] = grand - self.value(without)
        return finite(out)

    # --- the game in the units of the engine (`EngineGame`) ---------------------------------------

    def engine_game(self, tol: float) -> PooledGame:
        """Return this game, because the engine needs no other game in its place."""
        return self

    def least_tol(self, amplification: float) -> float:
        """Return 0: the game is not approximated."""
        return 0.0

    def pieces(self, eps: float) -> Iterator[Pieces]:
        """Yield the masses of all heads with nodes and weights for 1/D, accurate to a relative
        `eps`.
        """
        return game_pieces(self, eps)

    @cached_property
    def head_masses(self) -> Masses:
        """The varying heads in units of their largest masses."""
        return head_masses(self)

    @cached_property
    def scale(self) -> float:
        """A lower bound of max|f| over all coalitions, in units of 2^exponent.

        It is the largest value of a few coalitions minus its rounding (`rounding.py`, step 2).
        """
        values = self._values_of(self.extreme_coalitions())
        largest = in_units(float(np.abs(values).max()), self.exponent)
        base = in_units(abs(self.base), self.exponent)
        spread = float(self.half_range.sum())
        heads = VALUE_PER_PLAYER * (self.d + VALUE_FIXED_PLAYERS) * spread
        rounding = ULP * (heads + VALUE_BASE * base)
        return max(0.0, largest * (1 - VALUE_ITSELF * ULP) - rounding)

    def extreme_coalitions(self) -> Masks:
        """Return (6, d) coalitions with likely large |f|: all, none, all that raise or lower f, two
        single players.
        """
        present, absent, _ = self.split_states(self.weighted_masses)
        rise = np.add.reduce(present - absent, axis=0)
        single = np.add.reduce(self.centered[0], axis=0)
        coalitions = np.zeros((6, self.d), dtype=bool)
        coalitions[0] = True
        np.greater(rise, 0.0, out=coalitions[2])
        np.less(rise, 0.0, out=coalitions[3])
        coalitions[4, single.argmax()] = True
        coalitions[5, single.argmin()] = True
        return coalitions

    @cached_arrays
    def states(self) -> tuple[Array, Array]:
        """Log-masses and values of all states side by side, (H, 2d + 1): players present, absent,
        the background.
        """
        return (
            np.concatenate([self.s, self.s_absent, self.s_background[:, None]], axis=1),
            np.concatenate([self.v, self.v_absent, self.v_background[:, None]], axis=1),
        )

    def split_states(self, states: Array) -> tuple[Array, Array, Array]:
        """Split an array like `states` into players present (H, d), absent (H, d), and the
        background (H,).
        """
        d = states.shape[1] // 2
        present = states[:, :d]
        absent = states[:, d:-1]
        return present, absent, states[:, -1]

    @cached_arrays
    def without_mass(self) -> Masks | None:
        """The (H, 2d + 1) mask of states without mass; None if all have some."""
        s = self.states[0]
        if np.minimum.reduce(s, axis=None) == -np.inf:
            return s == -np.inf
        return None

    @cached_property
    def some_replaced(self) -> bool:
        """Whether some player has a mass when it is absent, in the first head."""
        if self.without_mass is None:
            return True
        absent = self.without_mass[0, self.d : -1]
        return not absent.all()

    @cached_arrays
    def _head_can_be_empty(self) -> Masks:
        if self.without_mass is None:
            return np.zeros(len(self.s), dtype=bool)
        absent_and_background = self.without_mass[:, self.d :]
        return np.logical_and.reduce(absent_and_background, axis=1)

    @cached_property
    def can_be_empty(self) -> bool:
        """Whether the empty coalition has no mass, so that its value is `empty_value`."""
        return bool(self._head_can_be_empty[0])

    @cached_arrays
    def unit(self) -> Array:
        """The (H,) largest log-mass of each head: masses are counted in units of e^unit."""
        return np.maximum.reduce(self.states[0], axis=1)

    @cached_arrays
    @usual_float_errors
    def relative_masses(self) -> Array:
        """The (H, 2d + 1) masses of all states over the largest of their head."""
        return exp_difference(self.states[0], self.unit[:, None])

    @property
    def masses(self) -> PlayerMasses:
        """Every mass e^s over the largest mass of its head; masses below about 1e-308 of that
        become 0.

        >>> from attn_closed_form import PooledGame
        >>> game = PooledGame.from_scores(
        ...     [0.0, 1000.0], [1.0, 3.0], s_background=1000.0, v_background=0.0
        ... )
        >>> game.masses.present, game.masses.background
        (array([[0., 1.]]), array([1.]))
        """
        return PlayerMasses(*self.split_states(self.relative_masses))

    @cached_property
    def exponent(self) -> int:
        """The k for which 2^k is just above every |value| that has a mass: values are computed in
        units of 2^k.
        """
        least, most = self._value_range
        largest = max(-min(least.tolist()), max(most.tolist()))
        _, exponent = math.frexp(largest)
        return exponent

    @cached_arrays
    def _value_range(self) -> tuple[Array, Array]:
        """The (H,) smallest and largest values with any mass of each head."""
        low = self.states[1]
        high = low
        if self.without_mass is not None:
            low = np.where(self.without_mass, np.inf, low)
            high = np.where(self.without_mass, -np.inf, high)
        return np.minimum.reduce(low, axis=1), np.maximum.reduce(high, axis=1)

    @cached_arrays
    def center(self) -> Array:
        """The (H,) midpoint of the values that each head can take, rounded; the engine uses values
        relative to it.
        """
        least, most = self._value_range
        return least / 2 + most / 2

    @cached_arrays
    def half_range(self) -> Array:
        """The (H,) upper bounds, in units of 2^exponent, on the distance of a head's value from its
        center.
        """
        off = self.off_center
        above = np.maximum.reduce(off, axis=1)
        below = -np.minimum.reduce(off, axis=1)
        return np.maximum(above, below)

    @cached_property
    def base(self) -> float:
        """The bias and the heads' centers, summed exactly and rounded once; f adds the centered
        means.
        """
        return _exact_sum([self.bias, *self.center.tolist()])

    @cached_property
    def empty_excess(self) -> float:
        """`empty_value` minus `base`, summed exactly, if the empty coalition has no mass; otherwise
        0.
        """
        if self.can_be_empty:
            return _exact_sum([self.empty_value, -self.bias, *(-self.center).tolist()])
        return 0.0

    @cached_arrays
    def grand_means(self) -> Array:
        """The (H,) means of the heads with all players present, minus their centers, in units of
        2^exponent.

        Correct to about 100 ulps of `half_range`, for any number of players and any constants:
        masses relative to the largest of those that are present, sums in pairs.
        """
        top = np.maximum(self.s.max(axis=1), self.s_background)
        with np.errstate(over="ignore", under="ignore"):
            mass = np.exp(self.s - top[:, None])
            c_0 = np.exp(self.s_background - top)
        v, _, v_background = self.centered
        N = (mass * v).sum(axis=1) + c_0 * v_background
        D = mass.sum(axis=1) + c_0
        means: Array = N / D
        return means

    @cached_arrays
    def off_center(self) -> Array:
        """The (H, 2d + 1) values minus their head's center in units of 2^exponent; 0 where there is
        no mass.
        """
        values = times_power(self.states[1], -self.exponent)
        values -= times_power(self.center, -self.exponent)[:, None]
        if self.without_mass is not None:
            values[self.without_mass] = 0.0
        return values

    @property
    def centered(self) -> tuple[Array, Array, Array]:
        """The values of `off_center`: present (H, d), absent (H, d), background (H,)."""
        return self.split_states(self.off_center)

    @cached_arrays
    def weighted_masses(self) -> Array:
        """The (H, 2d + 1) masses times values, in the units of `relative_masses` and
        `off_center`.
        """
        return self.relative_masses * self.off_center

    def __repr__(self) -> str:
        deleted = np.isneginf(self.s_absent)
        if deleted.all():
            absent = "deleted"
        elif deleted.any():
            absent = "mixed"
        else:
            absent = "replaced"
        background = not np.isneginf(self.s_background).all()
        return f"PooledGame(d={self.d}, H={self.H}, absent={absent!r}, background={background})"

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: self.__dict__[field.name] for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, state)


@usual_float_errors
def merge_tokens(s: Array, v: Array) -> tuple[Array, Array]:
    """Merge tokens over the last axis: log-sum-exp of the log-masses and mass-weighted mean of the
    values.

    Tokens without any mass have the log-mass -inf and the value 0.

    Parameters
    ----------
    s, v : (..., n) log-masses and values of n tokens

    Returns
    -------
    s, v : (...) log-mass and value of the merged token

    Examples
    --------
    >>> s, v = merge_tokens(np.array([0.0, 0.0]), np.array([1.0, 3.0]))
    >>> float(np.exp(s)), float(v)
    (2.0, 2.0)
    """
    shape = s.shape[:-1]
    if s.shape[-1] == 0:
        return np.full(shape, -np.inf), np.zeros(shape)
    s, v = merge_runs(s, v, np.zeros(1, dtype=np.intp))
    return s[..., 0], v[..., 0]


def merge_runs(s: Array, v: Array, starts: Ids) -> tuple[Array, Array]:
    """Apply `merge_tokens` to each run of the last axis, given the `starts` of the runs: (..., n)
    -> (..., runs).
    """
    top = np.maximum.reduceat(s, starts, axis=-1)
    shift = np.where(np.isneginf(top), 0.0, top)
    lengths = run_lengths(starts, s.shape[-1])
    mass = np.exp(s - np.repeat(shift, lengths, axis=-1))
    total = np.add.reduceat(mass, starts, axis=-1)
    with np.errstate(divide="ignore"):
        log_mass = np.log(total) + shift
    empty = total == 0
    weighted = np.add.reduceat(mass * v, starts, axis=-1)
    mean = weighted / np.where(empty, 1.0, total)
    # Rounding must not push the mean outside the values, or a constant model would seem to vary.
    least = np.minimum.reduceat(v, starts, axis=-1)
    most = np.maximum.reduceat(v, starts, axis=-1)
    mean = np.clip(mean, least, most)
    return log_mass, np.where(empty, 0.0, mean)


def _exact_sum(terms: list[float]) -> float:
    """Return the sum, rounded once; a sum that overflows on the way is computed in units of
    2^16.
    """
    try:
        return math.fsum(terms)
    except OverflowError:
        total = math.fsum(math.ldexp(x, -16) for x in terms)
        with np.errstate(over="ignore"):
            in_ones = np.ldexp(np.asarray(total), 16)
        return float(finite(in_ones))


def _sums_of_others(x: Array) -> Array:
    """Sum over all players except j, (H, d)."""
    zero = np.zeros((x.shape[0], 1))
    up_to = np.cumsum(x, axis=1)
    reversed_x = x[:, ::-1]
    from_there = np.cumsum(reversed_x, axis=1)[:, ::-1]
    before = np.concatenate([zero, up_to[:, :-1]], axis=1)
    after = np.concatenate([from_there[:, 1:], zero], axis=1)
    return before + after


def _as_rows(name: str, value: ArrayLike) -> Array:
    """Return a float64 copy of `value`, (d,) or (H, d), as (H, d)."""
    array = np.array(real(name, value), dtype=np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name}: expected shape (d,) or (H, d), got {array.shape}")
    return np.atleast_2d(array)


def _broadcast(name: str, value: ArrayLike | None, default: float, shape: tuple[int, ...]) -> Array:
    """Return a float64 copy of `value`, or of `default` if it is None, broadcast to `shape`."""
    if value is None:
        return np.full(shape, default)
    array = real(name, value).astype(np.float64)
    try:
        return np.array(np.broadcast_to(array, shape))
    except ValueError:
        raise ValueError(
            f"{name}: expected something that broadcasts to {shape}, got {array.shape}"
        ) from None


def _check_size(name: str, array: Array) -> None:
    """Raise unless every number is within LARGEST_VALUE of zero, which NaN is not."""
    largest = float(np.abs(array).max(initial=0.0))
    if not largest <= LARGEST_VALUE:
        check(name, False, f"numbers within {LARGEST_VALUE:g} of zero", f"{largest:g}")
