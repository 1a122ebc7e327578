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
from .merging import times_power


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
    def _head_can_be_empty(self) -> NDArray[np.bool_]:
        return self._nothing & self._deleted.all(axis=1)

    @property
    def can_be_empty(self) -> bool:
        """Whether the coalition of nobody has no mass, so that its value is `empty_value`."""
        return bool(self._head_can_be_empty[0])

    @cached_property
    def masses(self) -> Masses:
        """Every mass e^s over the largest mass of its head; what is less than about 1e-308 of that becomes 0.

        Examples
        --------
        >>> from attn_closed_form import PooledGame
        >>> game = PooledGame.from_scores([0.0, 1000.0], [1.0, 3.0], s_background=1000.0, v_background=0.0)
        >>> game.masses.present, game.masses.background
        (array([[0., 1.]]), array([1.]))
        """
        top = np.maximum(np.maximum(self.s, self.s_absent).max(axis=1), self.s_background)
        with np.errstate(over="ignore"):
            return Masses(
                np.exp(self.s - top[:, None]), np.exp(self.s_absent - top[:, None]), np.exp(self.s_background - top)
            )

    @cached_property
    def exponent(self) -> int:
        """The k for which 2^k is just above every |value| that has a mass: values are computed in units of 2^k."""
        least, most = self._value_range
        largest = max(float(np.maximum(-least, most).max()), float(np.maximum(-most, least).max()))
        return math.frexp(largest)[1]

    @cached_property
    def _value_range(self) -> tuple[Array, Array]:
        """(H,) smallest and (H,) largest value that has any mass, per head."""
        least, most = self.v.min(axis=1), self.v.max(axis=1)
        deleted = self._deleted
        if not deleted.any():
            least = np.minimum(least, self.v_absent.min(axis=1))
            most = np.maximum(most, self.v_absent.max(axis=1))
        elif not deleted.all():
            least = np.minimum(least, np.where(deleted, np.inf, self.v_absent).min(axis=1))
            most = np.maximum(most, np.where(deleted, -np.inf, self.v_absent).max(axis=1))
        background = ~self._nothing
        least = np.where(background, np.minimum(least, self.v_background), least)
        most = np.where(background, np.maximum(most, self.v_background), most)
        return least, most

    @cached_property
    def centre(self) -> Array:
        """(H,) midpoint of the values that each head can take, rounded; the engine works with what is off it."""
        least, most = self._value_range
        return least / 2 + most / 2

    @cached_property
    def half_range(self) -> Array:
        """(H,) an upper bound, in units of 2^exponent, of how far a head's value can lie off its centre."""
        least, most = (times_power(x, -self.exponent) for x in self._value_range)
        middle = times_power(self.centre, -self.exponent)
        return np.maximum(most - middle, middle - least)

    @cached_property
    def base(self) -> float:
        """The bias and the heads' centres, summed exactly and rounded once: f is this plus the heads' centred means."""
        return math.fsum([self.bias, *self.centre.tolist()])

    @cached_property
    def empty_excess(self) -> float:
        """`empty_value` minus `base`, summed exactly, where nobody has no mass; 0 elsewhere."""
        return math.fsum([self.empty_value, -self.bias, *(-self.centre).tolist()]) if self.can_be_empty else 0.0

    @cached_property
    def _centred(self) -> tuple[Array, Array, Array]:
        """Values less their head's centre in units of 2^exponent, (H, d) (H, d) (H,); 0 where there is no mass."""
        v, v_absent, v_background, middle = (
            times_power(x, -self.exponent) for x in (self.v, self.v_absent, self.v_background, self.centre)
        )
        v_absent = v_absent - middle[:, None]
        return (
            v - middle[:, None],
            np.where(self._deleted, 0.0, v_absent) if self._deleted.any() else v_absent,
            np.where(self._nothing, 0.0, v_background - middle),
        )

    @cached_property
    def _deleted(self) -> NDArray[np.bool_]:
        """(H, d) whether a player has no mass when absent."""
        return np.isneginf(self.s_absent)

    @cached_property
    def _nothing(self) -> NDArray[np.bool_]:
        """(H,) whether there is no background."""
        return np.isneginf(self.s_background)
