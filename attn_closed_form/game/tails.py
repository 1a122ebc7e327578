"""Games with any function after the pooling: f(S) = g(h(S)), where h(S) is a vector of
softmax-weighted means.

A network pools its units with one or several heads and then computes g, its *tail*: the softmax
over classes, a LayerNorm, a cosine, layers with ReLU. Such a game has no closed form in general,
but its values are cheap along an *order* of the players. If the players enter one after the other,
numerators and denominators of the pooled means are cumulative sums, so the d + 1 values of one
order cost O(d m) together, as much as one value from its mask.

The Shapley value of a player is its mean change of f over all orders (`game/sampled.py`). Present
players are summed from the front of the order and absent ones from the back, so that every sum has
terms of one sign and keeps its digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import usual_float_errors
from .._types import Array, Ids, Masks
from .pooled_game import PooledGame
from .scores import PooledScores

Tail = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class TailGame:
    """Players that are pooled into a vector, and a function of that vector.

    Attributes
    ----------
    scores : log-masses and values with one unit per player; its C outputs are the pooled vector h
    tail : from pooled vectors (n, C) to predictions (n,) or (n, Q)
    labels : a name for each player

    Examples
    --------
    The cosine between the mean of three vectors and the first axis:

    >>> scores = PooledScores(
    ...     s=np.zeros((1, 3)), v=np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), bias=np.zeros(2)
    ... )
    >>> cosine = TailGame(scores, lambda h: h[:, 0] / np.maximum(np.linalg.norm(h, axis=1), 1e-12))
    >>> cosine.value([[True, False, False], [True, True, True]]).round(3)
    array([1.   , 0.707])
    >>> cosine.along(np.array([[0, 1, 2]])).round(3)
    array([[0.   , 1.   , 0.707, 0.707]])
    """

    scores: PooledScores
    tail: Tail
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.labels:
            numbers = tuple(map(str, range(self.d)))
            object.__setattr__(self, "labels", numbers)

    @property
    def d(self) -> int:
        """Number of players."""
        return self.scores.s.shape[1]

    @cached_property
    def means(self) -> PooledMeans:
        """The pooled means, from which every pooled vector follows."""
        scores = self.scores
        s_absent = scores.s_absent
        v_absent = scores.v_absent
        if s_absent is None or v_absent is None:
            s_absent = np.full(scores.s.shape, -np.inf)
            v_absent = np.zeros(scores.v.shape)
        return PooledMeans(
            s=scores.s,
            v=scores.v,
            s_absent=s_absent,
            v_absent=v_absent,
            s_background=scores.s_background,
            v_background=scores.v_background,
            head=scores.head,
        )

    @usual_float_errors
    def pooled(self, present: ArrayLike) -> Array:
        """Compute the pooled vectors (n, C) of coalitions, masks (n, d)."""
        masks = np.atleast_2d(np.asarray(present, dtype=bool))
        return self._vectors(self.means.of_masks(masks))

    @usual_float_errors
    def value(self, present: ArrayLike) -> Array:
        """Compute the predictions (n,) or (n, Q) of coalitions, masks (n, d)."""
        return np.asarray(self.tail(self.pooled(present)))

    def pooled_along(self, orders: Ids) -> Array:
        """Compute the pooled vectors (n, m + 1, C) while the first m players of each order (n, m)
        enter one after the other.
        """
        return self._vectors(self.means.along(orders))

    @usual_float_errors
    def along(self, orders: Ids) -> Array:
        """Compute the predictions (n, d + 1) or (n, d + 1, Q) along orders (n, d)."""
        vectors = self.pooled_along(orders)
        rows = vectors.reshape(-1, vectors.shape[-1])
        values = np.asarray(self.tail(rows))
        return values.reshape(vectors.shape[:2] + values.shape[1:])

    def direction(self, coefficients: ArrayLike) -> PooledGame:
        """Return the game of `coefficients @ h`, which is a pooled game."""
        return self.scores.game(np.asarray(coefficients, dtype=np.float64), labels=self.labels)

    def _vectors(self, means: Array) -> Array:
        """Add the means (..., R) of the value rows up to the pooled vector (..., C)."""
        if np.array_equal(self.scores.output, np.arange(self.scores.bias.size)):
            return means + self.scores.bias
        vectors = np.zeros((*means.shape[:-1], self.scores.bias.size))
        for row, output in enumerate(self.scores.output.tolist()):
            vectors[..., output] += means[..., row]
        return vectors + self.scores.bias


@dataclass(frozen=True, eq=False)
class PooledMeans:
    """R softmax-weighted means over d players, whose log-masses belong to one of H heads.

    Attributes
    ----------
    s, s_absent : (H, d) log-masses of present and of absent players; -inf where absent players are
        deleted
    v, v_absent : (R, d) values
    s_background, v_background : (H,) and (R,), the background that is always present
    head : (R,) the head of each row
    """

    s: Array
    v: Array
    s_absent: Array
    v_absent: Array
    s_background: Array
    v_background: Array
    head: Ids

    @cached_property
    def _masses(self) -> tuple[Array, Array, Array]:
        """Masses (H, d) of present players and of absent ones, and of the background (H,), relative
        to the largest.
        """
        top = np.maximum(self.s.max(axis=1), self.s_absent.max(axis=1))
        top = np.maximum(top, self.s_background)
        present = np.exp(self.s - top[:, None])
        absent = np.exp(self.s_absent - top[:, None])
        return present, absent, np.exp(self.s_background - top)

    def of_masks(self, present: Masks) -> Array:
        """Compute the means (n, R) of coalitions, masks (n, d); 0 where nothing has any mass."""
        mass, mass_absent, background = self._masses
        here = present.astype(np.float64)
        gone = 1.0 - here
        total = here @ mass.T + gone @ mass_absent.T + background
        sums = here @ (mass[self.head] * self.v).T
        sums += gone @ (mass_absent[self.head] * self.v_absent).T
        sums += background[self.head] * self.v_background
        return _ratio(sums, total[:, self.head])

    def along(self, orders: Ids) -> Array:
        """Compute the means (n, m + 1, R) while the first m players of each order (n, m) enter; 0
        where nothing has any mass.
        """
        mass, mass_absent, background = self._masses
        total = _entering(mass, orders) + background
        sums = _entering(mass[self.head] * self.v, orders)
        sums += background[self.head] * self.v_background
        if mass_absent.any():
            backwards = orders[:, ::-1]
            of_values = mass_absent[self.head] * self.v_absent
            total += _entering(mass_absent, backwards)[:, ::-1]
            sums += _entering(of_values, backwards)[:, ::-1]
            # Players that do not enter at all are absent all the time.
            never = np.ones((len(orders), self.s.shape[1]))
            np.put_along_axis(never, orders, 0.0, axis=1)
            if never.any():
                total += (never @ mass_absent.T)[:, None]
                sums += (never @ of_values.T)[:, None]
        return _ratio(sums, total[:, :, self.head])


def _entering(parts: Array, orders: Ids) -> Array:
    """Sum the parts (k, d) of the players that have entered, along orders (n, m): (n, m + 1, k)."""
    n, m = orders.shape
    sums = np.zeros((n, m + 1, len(parts)))
    np.cumsum(parts.T[orders], axis=1, out=sums[:, 1:])
    return sums


def _ratio(sums: Array, total: Array) -> Array:
    """Divide, with 0 where nothing has any mass."""
    if total.all():
        return np.divide(sums, total, out=sums)
    return np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
