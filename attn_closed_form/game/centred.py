"""What a pooled game's arrays say at once: masses as plain numbers, values in units of a power of two, less their
centre.

f is a constant, `base`, plus one mean per head of values that are centred in that head. A constant therefore costs no
digits, however large it is: `base` is an exact sum, rounded once, and the means never see it. Values are counted in
units of 2^exponent, a division without rounding, so that products with masses stay inside float64 for values of any
size.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .merging import exp_difference, times_power


class Masses(NamedTuple):
    """Masses as plain numbers, in units of the largest of each head: present, absent (H, d), background (H,)."""

    present: Array
    absent: Array
    background: Array


class CentredValues:
    """The derived quantities of `PooledGame`, each computed once."""

    s: Array
    v: Array
    s_absent: Array
    v_absent: Array
    s_background: Array
    v_background: Array
    bias: float
    empty_value: float

    @cached_property
    def _states(self) -> tuple[Array, Array]:
        """Log-masses and values of all states side by side, (H, 2d + 1): players present, absent, the background."""
        return (
            np.concatenate([self.s, self.s_absent, self.s_background[:, None]], axis=1),
            np.concatenate([self.v, self.v_absent, self.v_background[:, None]], axis=1),
        )

    @cached_property
    def _without_mass(self) -> NDArray[np.bool_] | None:
        """(H, 2d + 1) which states have no mass; None if all have some."""
        s = self._states[0]
        return s == -np.inf if np.minimum.reduce(s, axis=None) == -np.inf else None

    @cached_property
    def _head_can_be_empty(self) -> NDArray[np.bool_]:
        if self._without_mass is None:
            return np.zeros(len(self.s), dtype=bool)
        return np.logical_and.reduce(self._without_mass[:, self.s.shape[1] :], axis=1)

    @property
    def can_be_empty(self) -> bool:
        """Whether the coalition of nobody has no mass, so that its value is `empty_value`."""
        return self._without_mass is not None and bool(self._head_can_be_empty[0])

    @cached_property
    def unit(self) -> Array:
        """(H,) largest log-mass of each head: masses are counted in units of e^unit."""
        return np.maximum.reduce(self._states[0], axis=1)

    @cached_property
    def _masses(self) -> Array:
        return exp_difference(self._states[0], self.unit[:, None])

    @property
    def masses(self) -> Masses:
        """Every mass e^s over the largest mass of its head; what is less than about 1e-308 of that becomes 0.

        Examples
        --------
        >>> from attn_closed_form import PooledGame
        >>> game = PooledGame.from_scores([0.0, 1000.0], [1.0, 3.0], s_background=1000.0, v_background=0.0)
        >>> game.masses.present, game.masses.background
        (array([[0., 1.]]), array([1.]))
        """
        return Masses(*self._parts(self._masses))

    @cached_property
    def exponent(self) -> int:
        """The k for which 2^k is just above every |value| that has a mass: values are computed in units of 2^k."""
        least, most = self._value_range
        return math.frexp(max(-min(least.tolist()), max(most.tolist())))[1]

    @cached_property
    def _value_range(self) -> tuple[Array, Array]:
        """(H,) smallest and (H,) largest value that has any mass, per head."""
        low = high = self._states[1]
        if self._without_mass is not None:
            low, high = np.where(self._without_mass, np.inf, low), np.where(self._without_mass, -np.inf, high)
        return np.minimum.reduce(low, axis=1), np.maximum.reduce(high, axis=1)

    @cached_property
    def centre(self) -> Array:
        """(H,) midpoint of the values that each head can take, rounded; the engine works with what is off it."""
        least, most = self._value_range
        return least / 2 + most / 2

    @cached_property
    def half_range(self) -> Array:
        """(H,) an upper bound, in units of 2^exponent, of how far a head's value can lie off its centre."""
        off = self._off_centre
        return np.maximum(np.maximum.reduce(off, axis=1), -np.minimum.reduce(off, axis=1))

    @cached_property
    def base(self) -> float:
        """The bias and the heads' centres, summed exactly and rounded once: f is this plus the heads' centred means."""
        return math.fsum([self.bias, *self.centre.tolist()])

    @cached_property
    def empty_excess(self) -> float:
        """`empty_value` minus `base`, summed exactly, where nobody has no mass; 0 elsewhere."""
        return math.fsum([self.empty_value, -self.bias, *(-self.centre).tolist()]) if self.can_be_empty else 0.0

    @cached_property
    def everyone_means(self) -> Array:
        """(H,) each head's mean with everyone present, less its centre, in units of 2^exponent.

        Right to about 100 ulps of `half_range`, whatever the number of players and whatever the constants are: masses
        relative to the largest of those that are present, sums in pairs.
        """
        top = np.maximum(self.s.max(axis=1), self.s_background)
        with np.errstate(over="ignore"):
            mass, always = np.exp(self.s - top[:, None]), np.exp(self.s_background - top)
        v, _, v_background = self._centred
        means: Array = ((mass * v).sum(axis=1) + always * v_background) / (mass.sum(axis=1) + always)
        return means

    @cached_property
    def _off_centre(self) -> Array:
        """(H, 2d + 1) values less their head's centre in units of 2^exponent; 0 where there is no mass."""
        values = times_power(self._states[1], -self.exponent)
        values -= times_power(self.centre, -self.exponent)[:, None]
        if self._without_mass is not None:
            values[self._without_mass] = 0.0
        return values

    @property
    def _centred(self) -> tuple[Array, Array, Array]:
        """The values of `_off_centre`: present (H, d), absent (H, d), background (H,)."""
        return self._parts(self._off_centre)

    @cached_property
    def _weighted(self) -> Array:
        """(H, 2d + 1) masses times values, in the units of `_masses` and `_off_centre`."""
        return self._masses * self._off_centre

    def _parts(self, states: Array) -> tuple[Array, Array, Array]:
        """Players present (H, d), absent (H, d), the background (H,), of an array like `_states`."""
        d = states.shape[1] // 2
        return states[:, :d], states[:, d:-1], states[:, -1]
