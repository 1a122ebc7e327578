"""A document under the classifier as a softmax-pooled game: [CLS] and padding are its background.

Lopardo et al. 2024, section 5.1: a player is a position or every occurrence of a word, and [UNK] stands in for an
absent one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._arrays import numbered
from ..._types import Array, Ids, Tokens
from ...game.pooled_game import PooledGame, merge_runs, merge_tokens
from .score_tables import as_output, as_tokens
from .weights import AttentionWeights


def pooled_game(
    weights: AttentionWeights,
    tokens: Tokens,
    players: str = "positions",
    absent: str = "unk",
    output: int = 0,
    labels: Sequence[str] | None = None,
) -> PooledGame:
    """Game of a document under P1's classifier.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids, at least one
    players : "positions" makes every token a player; "words" makes every distinct id a player, by first appearance
    absent : "unk", [UNK] takes the place of an absent token, as in P1 section 5.1; "deleted", the token leaves the
        softmax and the other tokens keep their positions
    output : which of the C outputs is explained
    labels : a name for each token; by default its id

    Returns
    -------
    PooledGame, whose labels are those of the (first) tokens; [CLS] and padding are its background

    Examples
    --------
    >>> from attn_closed_form import predict, random_weights
    >>> weights, tokens = random_weights(seed=0), [5, 7, 5]
    >>> game = pooled_game(weights, tokens, players="words")
    >>> game.d, game.labels
    (2, ('5', '7'))
    >>> bool(np.isclose(game.value([True, True]), predict(weights, tokens)[0]))
    True
    >>> bool(np.isclose(game.value([False, True]), predict(weights, [weights.unk, 7, weights.unk])[0]))
    True
    """
    if players not in ("positions", "words"):
        raise ValueError(f"players: expected 'positions' or 'words', got {players!r}")
    if absent not in ("unk", "deleted"):
        raise ValueError(f"absent: expected 'unk' or 'deleted', got {absent!r}")
    ids = as_tokens(weights, tokens)
    if ids.size == 0:
        raise ValueError("tokens: expected at least one token, got an empty document")
    c = as_output(weights, output)
    names = [str(label) for label in (ids.tolist() if labels is None else labels)]
    if len(names) < ids.size or (players == "positions" and len(names) > ids.size):
        raise ValueError(f"labels: expected {ids.size} names, one per token, got {len(names)}")
    order = starts = None
    if players == "words":  # merged here, before a game is made
        numbers = numbered(ids)[0]
        order = numbers.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        names = [names[i] for i in order[starts].tolist()]
    s, v = _states(weights, ids, c, absent, order, starts)
    return PooledGame._of_states(s, v, float(weights.b_l[c]), tuple(names))


def _states(
    weights: AttentionWeights, ids: Ids, c: int, absent: str, order: Ids | None, starts: Ids | None
) -> tuple[Array, Array]:
    """Log-masses and values (K, 2d + 1) of the players present and absent and of the background.

    `order` of the positions and where in it each player `starts`, or None if every position is a player.
    """
    tables, T = weights.collapse, ids.size
    places = slice(1, 1 + T)
    unknown, backgrounds = weights.documents(c)
    if T not in backgrounds:
        rest = np.r_[0, 1 + T : weights.T_max]
        backgrounds[T] = np.stack(merge_tokens(unknown[0][:, rest], unknown[1][:, rest]))
    present: Array = np.empty((2, weights.K, T))
    np.add(tables.s_tok[ids].T, tables.s_pos[places].T, out=present[0])
    np.add(tables.u_tok[ids, :, c].T, tables.u_pos[places, :, c].T, out=present[1])
    present[1] /= weights.K
    without = unknown[:, :, places] if absent == "unk" else None
    if order is not None and starts is not None:
        present = np.stack(merge_runs(present[0][:, order], present[1][:, order], starts))
        if without is not None:
            without = np.stack(merge_runs(without[0][:, order], without[1][:, order], starts))
    d = present.shape[2]
    both = np.empty((2, weights.K, 2 * d + 1))
    both[:, :, :d] = present
    if without is not None:
        both[:, :, d:-1] = without
    else:
        both[0, :, d:-1], both[1, :, d:-1] = -np.inf, 0.0
    both[:, :, -1] = backgrounds[T]
    return both[0], both[1]
