"""Predictions and attention of P1's classifier (Eq. 1 to 11) through score tables, and documents as
pooled games.

With the score tables of `weights.py`, P1's Eq. 1 to 9 become `f = (1/K) sum_i sum_t
softmax(s^(i))_t u_t^(i) + b_l`: no matrix product is left. A model sees L tokens of a document of
T: [CLS], the document and, with positions, [UNK] up to L = T_max. Without positions L = T + 1. As a
game (P1 section 5.1) a document has [CLS] and the padding as its background. A player is a position
or every occurrence of a word; [UNK] replaces an absent one, or it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._arrays import check, choice, numbered, softmax, usual_float_errors, whole
from .._errors import warn_user
from .._types import Array, Ids, Tokens
from ..game.pooled_game import PooledGame, merge_tokens
from ..game.scores import PooledScores
from .weights import BIASES, WEIGHT_AXES, AttentionWeights, sinusoidal_positions

# Tuning: numbers in one block of `predict_many`, enough to amortize a call, few enough to stay in a
# core's cache.
DOCUMENT_ELEMENTS = 1 << 18
# The index of an output, or C coefficients of a combination of outputs, such as the margin of two
# classes.
Output = int | Sequence[float] | Array
# Fills up the shorter documents of a block if the model has no padding; it has no mass.
NOTHING = -1


class TruncationWarning(UserWarning):
    """A document was longer than the model's T_max - 1 positions, and its end was dropped."""


def as_tokens(weights: AttentionWeights, tokens: Tokens, name: str = "tokens") -> Ids:
    """Check the ids of a document, and truncate it to `weights.room` tokens with a warning."""
    expected = "a one-dimensional sequence of ids"
    try:
        raw = np.asarray(tokens)
    except ValueError as error:
        raise ValueError(f"{name}: expected {expected}, got nested lists ({error})") from None
    check(name, raw.ndim == 1, expected, f"shape {raw.shape}")
    if raw.size == 0:
        return np.zeros(0, dtype=np.intp)
    check(name, raw.dtype.kind in "iu", "integer ids", f"dtype {raw.dtype}")
    if np.minimum.reduce(raw) < 0 or np.maximum.reduce(raw) >= weights.D:
        unknown = (raw < 0) | (raw >= weights.D)
        first = int(np.argmax(unknown))
        check(name, False, f"ids in 0..{weights.D - 1}", f"{raw[first]} at position {first}")
    if raw.size > weights.room:
        room = int(weights.room)
        warn_user(
            f"document of {raw.size} tokens: the model has room for {room}; the last "
            f"{raw.size - room} are dropped",
            TruncationWarning,
        )
        raw = raw[:room]
    return raw.astype(np.intp)


def as_output(weights: AttentionWeights, output: Output) -> Array:
    """Return the (C,) coefficients of an output that is given by its index or as a combination of
    outputs.
    """
    if np.shape(output) == (weights.C,):
        return np.asarray(output, dtype=np.float64)
    index = whole("output", output, 0, weights.C - 1)
    coefficients = np.zeros(weights.C)
    coefficients[index] = 1.0
    return coefficients


def pad(weights: AttentionWeights, documents: Iterable[Ids], length: int | None = None) -> Ids:
    """Return the (B, L) ids that the model reads: [CLS], the document, and [UNK] up to T_max (P1,
    Eq. 4).

    Without positions, shorter documents are filled up to the longest one, or to `length`, with
    NOTHING.
    """
    rows = list(documents)
    longest = max((row.size for row in rows), default=0)
    L = weights.T_max or length or 1 + longest
    filler = weights.unk
    if weights.T_max is None:
        filler = NOTHING
    ids = np.full((len(rows), L), filler, dtype=np.intp)
    ids[:, 0] = weights.cls
    for row, document in zip(ids, rows, strict=True):
        row[1 : 1 + document.size] = document
    return ids


def padded(weights: AttentionWeights, tokens: Tokens) -> Ids:
    """Return the (L,) ids that the model reads for one document, which is checked."""
    document = as_tokens(weights, tokens)
    return pad(weights, [document])[0]


class Seen(NamedTuple):
    """A document as the model reads it: ids (L,), attention logits s and values u of one output,
    both (K, L).
    """

    ids: Ids
    s: Array
    u: Array


def scores(weights: AttentionWeights, tokens: Tokens, output: Output) -> Seen:
    """Return the scores of one document for one output, C-contiguous."""
    ids = padded(weights, tokens)
    c = as_output(weights, output)
    tables = weights.collapse
    s = tables.s_tok[ids] + tables.s_pos
    u = (tables.u_tok[ids] + tables.u_pos) @ c
    return Seen(ids=ids, s=np.ascontiguousarray(s.T), u=np.ascontiguousarray(u.T))


@usual_float_errors
def predict(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Compute the (C,) outputs f(xi) of the model for a document, P1 Eq. 1.

    An empty document is [CLS] and padding. A model with positions ignores the end of a
    document that is too long, with a `TruncationWarning`.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids

    Returns
    -------
    (C,) float64
        one logit per output; a model with two classes has a single one, the log-odds of the second

    Examples
    --------
    >>> weights = random_weights(seed=0)
    >>> predict(weights, [2, 3, 5]).round(6)
    array([0.411824])
    """
    ids = padded(weights, tokens)
    return _predict_ids(weights, ids[None])[0]


@usual_float_errors
def predict_many(weights: AttentionWeights, documents: Sequence[Tokens] | Ids) -> Array:
    """Compute the (B, C) outputs for B sequences of token ids of any lengths, or for a (B, T)
    integer array.

    Parameters
    ----------
    weights : AttentionWeights
    documents : B sequences of token ids, or a (B, T) integer array

    Returns
    -------
    (B, C) float64
        the outputs of `predict`, one row per document, in the order of the documents

    Examples
    --------
    >>> predict_many(random_weights(seed=0), [[5, 7], [9]]).round(6)
    array([[0.503718],
           [0.571243]])
    """
    checked = [
        as_tokens(weights, document, name=f"documents[{i}]") for i, document in enumerate(documents)
    ]
    out = np.empty((len(checked), weights.C))
    # Documents of similar lengths share a block, the longest first, so that blocks contain few
    # NOTHINGs.
    order = np.argsort([-document.size for document in checked], kind="stable")
    start = 0
    while start < len(order):
        longest = weights.T_max or 1 + checked[order[start]].size
        documents_at_once = max(1, DOCUMENT_ELEMENTS // (longest * weights.K))
        block = order[start : start + documents_at_once]
        ids = pad(weights, [checked[i] for i in block])
        out[block] = _predict_ids(weights, ids)
        start += block.size
    return out


def _predict_ids(weights: AttentionWeights, ids: Ids) -> Array:
    """Compute the outputs: (B, L) padded ids -> (B, C)."""
    tables = weights.collapse
    s = tables.s_tok[ids] + tables.s_pos
    if weights.T_max is None:
        s[ids == NOTHING] = -np.inf
    alpha = softmax(s.transpose(0, 2, 1))
    out = np.empty((len(ids), weights.C))
    for c in range(weights.C):
        u = tables.u_tok[ids, :, c] + tables.u_pos[:, :, c]
        mean_of_heads = np.einsum("bkt,btk->b", alpha, u) / weights.K
        out[:, c] = mean_of_heads + weights.b_l[c]
    return out


@usual_float_errors
def alpha(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Compute the (K, L) attention of the [CLS] query, the only one that the prediction uses (P1
    Eq. 8).

    Rows sum to 1. Column 0 is [CLS], columns 1..T are the document, and the rest, if the model has
    positions, is padding.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids

    Returns
    -------
    (K, L) float64
        attention of [CLS] to every token that the model reads, one row per head

    Examples
    --------
    >>> alpha(random_weights(seed=0), [2, 3, 5]).sum(axis=1)
    array([1., 1.])
    """
    return softmax(scores(weights, tokens, output=0).s)


@usual_float_errors
def attention_matrices(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Compute the (K, L, L) attention of every query (P1 section 3); entry (i, s, t) is
    alpha_t(q_s) in head i.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids

    Returns
    -------
    (K, L, L) float64
        attention of every token to every token, one matrix per head

    Examples
    --------
    >>> weights = random_weights(seed=0, K=1, T_max=None)
    >>> attention_matrices(weights, [2, 3]).round(3)  # row 0 of each head is `alpha`
    array([[[0.33 , 0.313, 0.357],
            [0.398, 0.066, 0.537],
            [0.269, 0.248, 0.483]]])
    """
    e = weights.embed(padded(weights, tokens))
    W_q = weights.W_q.transpose(0, 2, 1)
    W_k = weights.W_k.transpose(0, 2, 1)
    q = e @ W_q + weights.b_q[:, None]
    k = e @ W_k + weights.b_k[:, None]
    products = q @ k.transpose(0, 2, 1)
    logits = products / np.sqrt(weights.d_att)
    return softmax(logits)


@usual_float_errors
def alpha_avg(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Compute the (T,) mean attention over heads for the tokens of a document, P1 Eq. 10.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids

    Returns
    -------
    (T,) float64
        mean attention that each token of the document receives; it has no sign and is the same for
        every class

    Examples
    --------
    >>> alpha_avg(random_weights(seed=0), [5, 7]).round(6)
    array([0.0252  , 0.128285])
    """
    of_document = alpha(weights, tokens)[:, 1 : 1 + len(tokens)]
    return of_document.mean(axis=0)


@usual_float_errors
def alpha_max(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Compute the (T,) maximum attention over heads for the tokens of a document, P1 Eq. 11.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids

    Returns
    -------
    (T,) float64
        largest attention that each token of the document receives from any head

    Examples
    --------
    >>> alpha_max(random_weights(seed=0), [5, 7]).round(6)
    array([0.029388, 0.204286])
    """
    of_document = alpha(weights, tokens)[:, 1 : 1 + len(tokens)]
    return of_document.max(axis=0)


def document_scores(
    weights: AttentionWeights, ids: Ids, lengths: Ids | None = None
) -> PooledScores:
    """Return the scores of the T >= 1 tokens of a document, given as checked ids; absent tokens
    become [UNK].

    With `lengths`, `ids` contains several documents of these lengths, one after the other.
    """
    rows = np.arange(weights.K * weights.C)
    head, output = np.divmod(rows, weights.C)
    T = ids.size
    starts = None
    if lengths is None:
        places: Any = slice(1, 1 + T)
        s_background, v_background = _background(weights, T)
    else:
        starts = np.cumsum(lengths) - lengths
        places = np.arange(1, 1 + T) - np.repeat(starts, lengths)
        # Without positions the background does not depend on the length of the document.
        backgrounds = [_background(weights, T if weights.T_max else 1) for T in lengths.tolist()]
        all_s, all_v = zip(*backgrounds, strict=True)
        s_background = np.stack(all_s, axis=1)
        v_background = np.stack(all_v, axis=1)
    s, v = _scores_at(weights, ids, places)
    s_absent, v_absent = _absent_scores(weights, T, places)
    return PooledScores(
        s=s,
        v=v,
        bias=weights.b_l,
        head=head,
        output=output,
        s_absent=s_absent,
        v_absent=v_absent,
        s_background=s_background,
        v_background=v_background,
        starts=starts,
    )


def _scores_at(weights: AttentionWeights, ids: Ids, places: Any) -> tuple[Array, Array]:
    """Return log-masses (K, n) of ids at some positions, and values divided by K, (K C, n), sorted
    by head.

    `places` are the positions, as an index array or a slice; a model without positions ignores
    them.
    """
    tables = weights.collapse
    if weights.T_max is None:
        places = slice(None)
    s = tables.s_tok[ids] + tables.s_pos[places]
    u = tables.u_tok[ids] + tables.u_pos[places]
    rows = u.reshape(ids.size, -1).T
    return np.ascontiguousarray(s.T), np.ascontiguousarray(rows) / weights.K


def _absent_scores(weights: AttentionWeights, n: int, places: Any) -> tuple[Array, Array]:
    """Return the scores of n [UNK] tokens at some positions, as `_scores_at` does."""
    # Without positions all of them have the same scores.
    distinct = n if weights.T_max else 1
    s, v = _scores_at(weights, np.full(distinct, weights.unk), places)
    s_of_tokens = np.broadcast_to(s, (len(s), n))
    v_of_tokens = np.broadcast_to(v, (len(v), n))
    return s_of_tokens, v_of_tokens


@lru_cache(maxsize=512)
def _background(weights: AttentionWeights, T: int) -> tuple[Array, Array]:
    """Return the scores of the background of a document of T tokens: [CLS] and the padding, one
    token per head.
    """
    places = np.r_[0, 1 + T : weights.T_max or 0]
    ids = np.where(places == 0, weights.cls, weights.unk)
    s, v = _scores_at(weights, ids, places)
    s_of_rows = np.repeat(s, weights.C, axis=0)
    s_background, _ = merge_tokens(s, s)
    _, v_background = merge_tokens(s_of_rows, v)
    return s_background, v_background


@usual_float_errors
def pooled_game(
    weights: AttentionWeights,
    tokens: Tokens,
    players: str = "positions",
    absent: str | None = None,
    output: Output = 0,
    labels: Sequence[str] | None = None,
) -> PooledGame:
    """Return the game of a document under P1's classifier; [CLS] and padding are its background.

    Parameters
    ----------
    tokens : T token ids, at least one
    players : "positions" makes every token a player; "words" makes every distinct id a player, by
        first appearance
    absent : "unk" replaces an absent token by [UNK], as in P1 section 5.1; "deleted" removes it
        from the softmax, and the other tokens keep their positions. By default "unk" with positions
        and "deleted" without, where the value is the prediction for the document without these
        tokens
    output : index of the explained output, or C coefficients of a combination of outputs
    labels : names of the tokens, by default their ids; a player is named after its first token

    Returns
    -------
    PooledGame
        the document as a game, which `shapley`, `lime_limit` and the other functions of games take

    Examples
    --------
    >>> weights, tokens = random_weights(seed=0), [5, 7, 5]
    >>> game = pooled_game(weights, tokens, players="words")
    >>> game.d, game.labels
    (2, ('5', '7'))
    >>> game.value([[True, True], [False, True]]).round(6)
    array([0.485513, 0.541086])
    >>> predict(weights, tokens).round(6), predict(weights, [weights.unk, 7, weights.unk]).round(6)
    (array([0.485513]), array([0.541086]))
    """
    choice("players", players, ("positions", "words"))
    deleted = is_deleted(weights, absent)
    ids = as_tokens(weights, tokens)
    check("tokens", ids.size > 0, "at least one token", "an empty document")
    coefficients = as_output(weights, output)
    if labels is None:
        labels = ids.tolist()
    names = [str(label) for label in labels]
    groups = None
    if players == "words":
        # The text of a document that was truncated has more words than players.
        fits = len(names) >= ids.size
    else:
        fits = len(names) == ids.size
    check("labels", fits, f"{ids.size} names, one per token", len(names))
    if players == "words":
        groups, first = numbered(ids)
        names = [names[i] for i in first]
    scores_of_tokens = document_scores(weights, ids)
    return scores_of_tokens.game(coefficients, groups, names, deleted)


def is_deleted(weights: AttentionWeights, absent: str | None) -> bool:
    """Return whether absent tokens are removed from the softmax, given the option `absent` of
    `pooled_game`.
    """
    if absent is None:
        return weights.T_max is None
    return choice("absent", absent, ("unk", "deleted")) == "deleted"


def random_weights(
    seed: int,
    D: int = 50,
    d_e: int = 16,
    T_max: int | None = 32,
    K: int = 2,
    d_att: int = 8,
    d_out: int = 8,
    C: int = 1,
    score_scale: float = 1.0,
    biases: bool = False,
) -> AttentionWeights:
    """Draw Gaussian weights for examples, tests and benchmarks.

    Parameters
    ----------
    seed : seed of the random numbers
    score_scale : approximate size of the attention logits
    D, d_e, T_max, K, d_att, d_out, C : sizes, see `AttentionWeights`
    biases : whether biases are drawn too; otherwise they are zero

    Returns
    -------
    AttentionWeights
        Gaussian weights of these sizes

    Examples
    --------
    >>> random_weights(seed=0)
    AttentionWeights(D=50, d_e=16, T_max=32, K=2, d_att=8, d_out=8, C=1, cls=0, unk=1)
    """
    rng = np.random.default_rng(seed)
    sizes = {"D": D, "d_e": d_e, "K": K, "d_att": d_att, "d_out": d_out, "C": C}
    arrays: dict[str, Array] = {}
    for name, axes in WEIGHT_AXES.items():
        is_drawn = biases or name not in BIASES
        if name == "W_p" or not is_drawn:
            continue
        shape = [sizes[axis] for axis in axes]
        # A matrix is divided by the square root of its number of columns; embeddings and biases are
        # not scaled.
        scale = 1.0
        if len(shape) == 3:
            scale = np.sqrt(shape[-1])
        arrays[name] = rng.normal(size=shape) / scale
    arrays["W_q"] *= score_scale
    W_p = None
    if T_max is not None:
        W_p = sinusoidal_positions(T_max, d_e)
    return AttentionWeights(W_p=W_p, **arrays, cls=0, unk=min(1, D - 1))
