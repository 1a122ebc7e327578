"""A document under the classifier as a softmax-pooled game: [CLS] and padding are its background.

Lopardo et al. 2024, section 5.1: a player is a position or every occurrence of a word, and [UNK] stands in for an
absent one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._types import Ids, Tokens
from ..game.merging import merge_runs, merge_tokens
from ..game.pooled_game import PooledGame
from .score_tables import as_output, as_tokens, scores
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
    s, v = scores(weights, ids, c)
    own = slice(1, 1 + ids.size)
    rest = np.r_[0, 1 + ids.size : weights.T_max]
    v = v / weights.K
    tables = weights.collapse
    s_background, v_background = merge_tokens(s[:, rest], v[:, rest])
    states = [(s[:, own], v[:, own])]
    if absent == "unk":
        s_unk = tables.s_tok[weights.unk] + tables.s_pos[own]
        u_unk = tables.u_tok[weights.unk, :, c] + tables.u_pos[own, :, c]
        states.append((s_unk.T, u_unk.T / weights.K))
    names = [str(i) for i in ids.tolist()] if labels is None else list(labels)
    if players == "words":  # merged here, before a game is made and checked
        numbers = word_numbers(ids)
        order = numbers.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        states = [merge_runs(one[:, order], other[:, order], starts) for one, other in states]
        names = [names[i] for i in order[starts].tolist()]
    s_absent, v_absent = states[1] if absent == "unk" else (None, None)
    return PooledGame.from_scores(
        s=states[0][0],
        v=states[0][1],
        s_absent=s_absent,
        v_absent=v_absent,
        s_background=s_background,
        v_background=v_background,
        bias=float(weights.b_l[c]),
        labels=names,
    )


def word_groups(tokens: Tokens) -> list[list[int]]:
    """Positions of each distinct token, in order of first appearance.

    >>> word_groups([5, 7, 5])
    [[0, 2], [1]]
    """
    groups: dict[int, list[int]] = {}
    for position, token in enumerate(np.asarray(tokens).tolist()):
        groups.setdefault(token, []).append(position)
    return list(groups.values())


def word_numbers(tokens: Tokens) -> Ids:
    """The group of `word_groups` that each position belongs to, (T,).

    >>> word_numbers([5, 7, 5])
    array([0, 1, 0])
    """
    _, first, inverse = np.unique(np.asarray(tokens), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
