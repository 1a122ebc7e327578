"""Shapley interactions of one player with all others, without the d x d matrix.

The interaction index of i and j (Grabisch and Roubens, 1999) is the Shapley value of j in the game of the others with i
present, minus that with i absent: both average the same second differences with the same weights
s! (d - s - 2)! / (d - 1)!. That is two Shapley computations, O(L m d).
"""

from __future__ import annotations

import numpy as np

from .._types import Array
from .pooled_game import PooledGame, merge_tokens
from .shapley import shapley


def interactions_of(game: PooledGame, player: int, tol: float = 1e-10) -> Array:
    """Shapley interactions of one player with the others, (d,) with 0 at its own place.

    Examples
    --------
    >>> from attn_closed_form import shapley_interactions
    >>> game = PooledGame.from_scores(s=[0.0, 1.0, -2.0], v=[1.0, -1.0, 4.0], s_background=0.5, v_background=0.0)
    >>> row = interactions_of(game, 1)
    >>> bool(np.allclose(row[[0, 2]], shapley_interactions(game)[1, [0, 2]], atol=1e-9))
    True
    """
    row = np.zeros(game.d)
    others = np.arange(game.d) != player
    if game.d > 1:
        for present, sign in ((True, 1.0), (False, -1.0)):
            row[others] += sign * shapley(with_fixed(game, player, present), tol / 2)
    return row


def with_fixed(game: PooledGame, player: int, present: bool) -> PooledGame:
    """The game of the others, `player` being part of the background in one of its two states."""
    s, v = (game.s, game.v) if present else (game.s_absent, game.v_absent)
    s_background, v_background = merge_tokens(
        np.stack([game.s_background, s[:, player]], axis=1), np.stack([game.v_background, v[:, player]], axis=1)
    )
    others = np.arange(game.d) != player
    return PooledGame(
        s=game.s[:, others],
        v=game.v[:, others],
        s_absent=game.s_absent[:, others],
        v_absent=game.v_absent[:, others],
        s_background=s_background,
        v_background=v_background,
        bias=game.bias,
        empty_value=game.empty_value,
        labels=tuple(label for label, other in zip(game.labels, others, strict=True) if other),
    )
