"""Predictions of P1's classifier (Eq. 1 to 9) through score tables, and documents as softmax-pooled games.

[CLS] is fixed, so its query q^(i) is a constant of the model, and so are

    w_k^(i) = W_k^T q^(i) / sqrt(d_att)      w_v^(i,c) = W_v^T W_l[c]        (both in R^{d_e}).

The attention logit of a token is `s_t = e_t . w_k + const`, its value `u_t = e_t . w_v + const`, and because
e_t = W_e[token] + W_p[t] both split into a token part and a position part. With tables for the two parts, P1's
Eq. 1 to 9 become `f = (1/K) sum_i sum_t softmax(s^(i))_t u_t^(i) + b_l`: no matrix product is left.

As a game (P1 section 5.1) a document has [CLS] and the padding as its background; a player is a position or every
occurrence of a word, and [UNK] takes the place of an absent one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..._arrays import numbered, softmax
from ..._types import Array, Ids, Tokens
from ...game.pooled_game import PooledGame, merge_tokens
from ..scores import PooledScores
from .weights import AttentionWeights, sinusoidal_positions

# Numbers in one block of `predict_many`: enough to amortise a call, few enough to stay in cache.
BLOCK_ELEMENTS = 1 << 18


class TruncationWarning(UserWarning):
    """A document was longer than the model's T_max - 1 positions, and its end was dropped."""


class Collapse(NamedTuple):
    """Score tables of a model; the constants are inside the position tables."""

    q: Array  # (K, d_att)
    w_k: Array  # (K, d_e)
    w_v: Array  # (K, C, d_e)
    s_const: Array  # (K,)
    u_const: Array  # (K, C)
    s_tok: Array  # (D, K)
    s_pos: Array  # (T_max, K)
    u_tok: Array  # (D, K, C)
    u_pos: Array  # (T_max, K, C)


def build_collapse(weights: AttentionWeights) -> Collapse:
    """Score tables of `weights`, whose products must be finite; use the cached `weights.collapse`."""
    w = weights
    with np.errstate(over="ignore", invalid="ignore"):
        q = np.einsum("kae,e->ka", w.W_q, w.W_e[w.cls] + w.W_p[0]) + w.b_q
        scale = 1.0 / np.sqrt(w.d_att)
        w_k = np.einsum("kae,ka->ke", w.W_k, q) * scale
        w_v = np.einsum("koe,kco->kce", w.W_v, w.W_l)
        s_const = np.einsum("ka,ka->k", w.b_k, q) * scale
        u_const = np.einsum("ko,kco->kc", w.b_v, w.W_l)
        flat_v = w_v.reshape(-1, w.d_e).T
        tables = Collapse(
            q=q,
            w_k=w_k,
            w_v=w_v,
            s_const=s_const,
            u_const=u_const,
            s_tok=w.W_e @ w_k.T,
            s_pos=w.W_p @ w_k.T + s_const,
            u_tok=(w.W_e @ flat_v).reshape(w.D, w.K, w.C),
            u_pos=(w.W_p @ flat_v).reshape(w.T_max, w.K, w.C) + u_const,
        )
    for name, table in zip(Collapse._fields, tables, strict=True):
        # Two tables are added up: half of the range of float64 for each.
        if not (np.abs(table) < np.finfo(np.float64).max / 2).all():
            raise ValueError(f"weights: expected products within the range of float64, but {name} overflows")
        table.flags.writeable = False
    return tables


def as_tokens(weights: AttentionWeights, tokens: Tokens, stacklevel: int = 3, name: str = "tokens") -> Ids:
    """Checked document: ids in range, at most T_max - 1 of them (longer: the end is dropped, with a warning)."""
    try:
        raw = np.asarray(tokens)
    except ValueError as error:
        raise ValueError(f"{name}: expected a one-dimensional sequence of ids, got nested lists ({error})") from None
    if raw.size == 0 and raw.ndim == 1:
        return np.zeros(0, dtype=np.intp)
    if raw.ndim != 1:
        raise ValueError(f"{name}: expected a one-dimensional sequence of ids, got shape {raw.shape}")
    if raw.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected integer ids, got dtype {raw.dtype}")
    if np.minimum.reduce(raw) < 0 or np.maximum.reduce(raw) >= weights.D:
        bad = int(np.argmax((raw < 0) | (raw >= weights.D)))
        raise ValueError(f"{name}: expected ids in 0..{weights.D - 1}, got {raw[bad]} at position {bad}")
    room = weights.T_max - 1
    if raw.size > room:
        warnings.warn(
            f"document of {raw.size} tokens: the model has room for {room}, the last {raw.size - room} are dropped",
            TruncationWarning,
            stacklevel=stacklevel,
        )
        raw = raw[:room]
    return raw.astype(np.intp)


def as_output(weights: AttentionWeights, output: int) -> int:
    """Checked index of an output (a class)."""
    if isinstance(output, bool) or not isinstance(output, int | np.integer):
        raise ValueError(f"output: expected an integer, got {output!r}")
    if not 0 <= output < weights.C:
        raise ValueError(f"output: expected an index in 0..{weights.C - 1}, got {output}")
    return int(output)


def pad(weights: AttentionWeights, documents: Iterable[Ids]) -> Ids:
    """(B, T_max) ids: [CLS], the document, [UNK] to the end (P1, Eq. 4)."""
    rows = list(documents)
    ids = np.full((len(rows), weights.T_max), weights.unk, dtype=np.intp)
    ids[:, 0] = weights.cls
    for row, document in zip(ids, rows, strict=True):
        row[1 : 1 + document.size] = document
    return ids


def scores(weights: AttentionWeights, tokens: Tokens, output: int) -> tuple[Array, Array]:
    """Attention logits s and values u of one document, each (K, T_max), for one output."""
    ids = pad(weights, [as_tokens(weights, tokens, stacklevel=4)])[0]
    return padded_scores(weights, ids, as_output(weights, output))


def padded_scores(weights: AttentionWeights, ids: Ids, output: int) -> tuple[Array, Array]:
    """`scores` of (T_max,) ids that are already checked and padded; both results are C-contiguous."""
    tables = weights.collapse
    s = tables.s_tok[ids] + tables.s_pos
    u = tables.u_tok[ids, :, output] + tables.u_pos[:, :, output]
    return np.ascontiguousarray(s.T), np.ascontiguousarray(u.T)


def predict(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Model output f(xi), P1 Eq. 1: (C,).

    An empty document is [CLS] and padding; one with more than T_max - 1 tokens is cut, with a `TruncationWarning`.

    >>> weights = random_weights(seed=0)
    >>> predict(weights, [2, 3, 5]).shape
    (1,)
    """
    return _predict_ids(weights, pad(weights, [as_tokens(weights, tokens)]))[0]


def predict_many(weights: AttentionWeights, documents: Sequence[Tokens] | Ids) -> Array:
    """Model outputs (B, C) of B sequences of token ids, of any lengths, or of a (B, T) integer array.

    >>> weights = random_weights(seed=0)
    >>> bool(np.allclose(predict_many(weights, [[2, 3, 5], [4]])[1], predict(weights, [4])))
    True
    """
    if isinstance(documents, np.ndarray) and documents.ndim == 2 and documents.dtype.kind in "iu":
        checked = _as_matrix(weights, documents)
    else:
        checked = pad(weights, [as_tokens(weights, d, name=f"documents[{i}]") for i, d in enumerate(documents)])
    block = max(1, BLOCK_ELEMENTS // (weights.T_max * weights.K))
    out = np.empty((len(checked), weights.C))
    for start in range(0, len(checked), block):
        out[start : start + block] = _predict_ids(weights, checked[start : start + block])
    return out


def _as_matrix(weights: AttentionWeights, documents: Ids) -> Ids:
    """A rectangular batch, checked and padded without a loop over documents."""
    if documents.size and (documents.min() < 0 or documents.max() >= weights.D):
        row, column = np.argwhere((documents < 0) | (documents >= weights.D))[0]
        raise ValueError(
            f"documents[{row}]: expected ids in 0..{weights.D - 1}, got {documents[row, column]} at position {column}"
        )
    if documents.shape[1] > weights.T_max - 1:
        return pad(weights, [as_tokens(weights, row, stacklevel=4) for row in documents])
    ids = np.full((len(documents), weights.T_max), weights.unk, dtype=np.intp)
    ids[:, 0] = weights.cls
    ids[:, 1 : 1 + documents.shape[1]] = documents
    return ids


def _predict_ids(weights: AttentionWeights, ids: Ids) -> Array:
    """(B, T_max) padded ids -> (B, C)."""
    tables = weights.collapse
    alpha = softmax((tables.s_tok[ids] + tables.s_pos).transpose(0, 2, 1))
    out = np.empty((len(ids), weights.C))
    for c in range(weights.C):
        u = tables.u_tok[ids, :, c] + tables.u_pos[:, :, c]
        out[:, c] = np.einsum("bkt,btk->b", alpha, u) / weights.K + weights.b_l[c]
    return out


class Blank(NamedTuple):
    """Scores of the document of [CLS] and [UNK] tokens: s (K, T_max), v (K C, T_max), and backgrounds by length."""

    s: Array
    v: Array
    backgrounds: dict[int, tuple[Array, Array]]


def build_blank(weights: AttentionWeights) -> Blank:
    """The empty document; use the cached `weights.blank`."""
    ids = pad(weights, [np.zeros(0, dtype=np.intp)])[0]
    return Blank(*_scores(weights, ids, slice(0, weights.T_max)), {})


def _scores(weights: AttentionWeights, ids: Ids, places: slice) -> tuple[Array, Array]:
    """Log-masses (K, n) and values over K (K C, n) of ids at some positions; row K C is output C of head K."""
    tables = weights.collapse
    s = tables.s_tok[ids] + tables.s_pos[places]
    u = tables.u_tok[ids] + tables.u_pos[places]
    return np.ascontiguousarray(s.T), np.ascontiguousarray(u.reshape(ids.size, -1).T) / weights.K


def document_scores(weights: AttentionWeights, ids: Ids) -> PooledScores:
    """Scores of the T tokens of a document, at least one, that are checked ids; absent tokens become [UNK].

    >>> weights = random_weights(seed=0, C=3)
    >>> bool(np.allclose(document_scores(weights, np.array([2, 3, 5])).logits(), predict(weights, [2, 3, 5])))
    True
    """
    T, blank = ids.size, weights.blank
    places = slice(1, 1 + T)
    rows = np.arange(weights.K * weights.C)
    head, output = rows // weights.C, rows % weights.C
    if T not in blank.backgrounds:
        others = np.r_[0, 1 + T : weights.T_max]
        s, v = blank.s[:, others], blank.v[:, others]
        blank.backgrounds[T] = merge_tokens(s, s)[0], merge_tokens(s[head], v)[1]
    s, v = _scores(weights, ids, places)
    absent = blank.s[:, places], blank.v[:, places]
    return PooledScores(s, v, weights.b_l, head, output, *absent, *blank.backgrounds[T])


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
    >>> from attn_closed_form import predict
    >>> from attn_closed_form.models.classifier import random_weights
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
    groups, first = numbered(ids) if players == "words" else (None, range(ids.size))
    player_names = [names[i] for i in first]
    return document_scores(weights, ids).game(np.eye(weights.C)[c], groups, player_names, absent == "deleted")


def random_weights(
    seed: int,
    D: int = 50,
    d_e: int = 16,
    T_max: int = 32,
    K: int = 2,
    d_att: int = 8,
    d_out: int = 8,
    C: int = 1,
    score_scale: float = 1.0,
    biases: bool = False,
) -> AttentionWeights:
    """Seeded Gaussian weights with attention logits of about `score_scale`, for examples, tests and benchmarks.

    >>> random_weights(seed=0)
    AttentionWeights(D=50, d_e=16, T_max=32, K=2, d_att=8, d_out=8, C=1, cls=0, unk=1)
    """
    rng = np.random.default_rng(seed)

    def normal(*shape: int, fan_in: int) -> Array:
        return rng.normal(size=shape) / np.sqrt(fan_in)

    return AttentionWeights(
        W_e=rng.normal(size=(D, d_e)),
        W_p=sinusoidal_positions(T_max, d_e),
        W_q=normal(K, d_att, d_e, fan_in=d_e) * score_scale,
        W_k=normal(K, d_att, d_e, fan_in=d_e),
        W_v=normal(K, d_out, d_e, fan_in=d_e),
        W_l=normal(K, C, d_out, fan_in=d_out),
        b_q=normal(K, d_att, fan_in=1) if biases else None,  # type: ignore[arg-type]
        b_k=normal(K, d_att, fan_in=1) if biases else None,  # type: ignore[arg-type]
        b_v=normal(K, d_out, fan_in=1) if biases else None,  # type: ignore[arg-type]
        b_l=normal(C, fan_in=1) if biases else None,  # type: ignore[arg-type]
        cls=0,
        unk=min(1, D - 1),
    )
