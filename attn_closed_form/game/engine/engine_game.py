"""What the engine needs of a game: two protocols.

A user's game (`Game`) is a `PooledGame` or a `LinkedGame`. `engine_game(tol)` turns it into an
`EngineGame`, whose value is a sum of heads N_h / D_h: a pooled game is one already, and a linked
game is approximated by a `PoleGame`, whose heads are poles and have complex masses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from numpy.typing import ArrayLike

from ..._types import Array

if TYPE_CHECKING:
    from .terms import Pieces


class Game(Protocol):
    """A game of d players for which the library has values with a guarantee."""

    @property
    def d(self) -> int:
        """Number of players."""
        ...

    @property
    def scale(self) -> float:
        """A lower bound of max|f| over all coalitions, in units of 2^exponent."""
        ...

    @property
    def exponent(self) -> int:
        """Values are computed in units of 2^exponent."""
        ...

    def value(self, present: ArrayLike) -> Array:
        """Compute the values (...) of coalitions, masks (..., d) of present players."""
        ...

    def leave_one_out(self) -> Array:
        """Compute f(all) - f(all but j) for each player, (d,)."""
        ...

    def engine_game(self, tol: float) -> EngineGame:
        """Return the game that the engine computes with, which differs by a small share of `tol`
        times max|f|.
        """
        ...


class EngineGame(Protocol):
    """A sum of heads N_h / D_h, in units of 2^exponent, plus the constant `base`.

    Coalitions without any mass count as `base` in the engine's sums; `empty_excess` is what is
    missing.
    """

    @property
    def d(self) -> int:
        """Number of players."""
        ...

    @property
    def scale(self) -> float:
        """A lower bound of max|f| over all coalitions, in units of 2^exponent."""
        ...

    @property
    def exponent(self) -> int:
        """Sums are in units of 2^exponent."""
        ...

    @property
    def base(self) -> float:
        """The constant that the sums leave out, as it is."""
        ...

    @property
    def half_range(self) -> Array:
        """The (H,) upper bounds on the modulus of each head, in units of 2^exponent; their sum is
        the spread.
        """
        ...

    @property
    def grand_means(self) -> Array:
        """The (H,) values of the heads with all players present, in units of 2^exponent."""
        ...

    @property
    def can_be_empty(self) -> bool:
        """Whether the empty coalition has no mass."""
        ...

    @property
    def empty_excess(self) -> float:
        """The value of an empty coalition without mass, minus `base`; 0 if it has some."""
        ...

    @property
    def known_error(self) -> float:
        """A bound on the errors of `base` and of `empty_excess` together, in units of 2^exponent; 0
        if both are correct to their last digit.
        """
        ...

    @property
    def grand_error(self) -> float:
        """A bound on the error of the sum of `grand_means`, in units of 2^exponent, in addition to
        what is relative to the spread (LIME_GRAND).
        """
        ...

    @property
    def extra_ulps(self) -> float:
        """Rounding in addition to that of a pooled game, in ulps of the spread."""
        ...

    @property
    def positive(self) -> bool:
        """Whether all factors are positive, so that their product can be taken through
        logarithms.
        """
        ...

    @property
    def engine_share(self) -> float:
        """The share of `tol` that is left to the engine; an approximation of the game has the
        rest.
        """
        ...

    def least_tol(self, amplification: float) -> float:
        """Return the smallest tol that the approximation of the game can keep."""
        ...

    def engine_game(self, tol: float) -> EngineGame:
        """Return the game that the engine computes with for another tol: this one, if it is not
        approximated.
        """
        ...

    def pieces(self, eps: float) -> Iterator[Pieces]:
        """Yield the masses of all heads with nodes and weights for 1/D, accurate to a relative
        `eps`.
        """
        ...
