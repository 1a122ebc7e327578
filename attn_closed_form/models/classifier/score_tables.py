"""Score tables: a token enters the prediction through two numbers per head.

[CLS] is fixed, so its query q^(i) is a constant of the model, and so are

    w_k^(i) = W_k^T q^(i) / sqrt(d_att)      w_v^(i,c) = W_v^T W_l[c]        (both in R^{d_e}).

The attention logit of a token is `s_t = e_t . w_k + const`, its value `u_t = e_t . w_v + const`, and because
e_t = W_e[token] + W_p[t] both split into a token part and a position part. With tables for the two parts, P1's
Eq. 1 to 9 become `f = (1/K) sum_i sum_t softmax(s^(i))_t u_t^(i) + b_l`: no matrix product is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._types import Array, Ids, Tokens

if TYPE_CHECKING:
    from .weights import AttentionWeights


class TruncationWarning(UserWarning):
    """A document was longer than the model's T_max - 1 positions, and its end was dropped."""


class Collapse(NamedTuple):
    """Score tables of a model; shapes as in NOTATION.md.

    q (K, d_att); w_k (K, d_e); w_v (K, C, d_e); s_const (K,); u_const (K, C);
    s_tok (D, K); s_pos (T_max, K); u_tok (D, K, C); u_pos (T_max, K, C).
    The constants are inside the position tables.
    """

    q: Array
    w_k: Array
    w_v: Array
    s_const: Array
    u_const: Array
    s_tok: Array
    s_pos: Array
    u_tok: Array
    u_pos: Array


def build_collapse(weights: AttentionWeights) -> Collapse:
    """Score tables of `weights`; use the cached `weights.collapse`.

    Raises
    ------
    ValueError
        weights that are finite, but whose products are not
    """
    with np.errstate(over="ignore", invalid="ignore"):
        tables = _tables(weights)
    for name, table in zip(Collapse._fields, tables, strict=True):
        # Two tables are added up: half of the range of float64 for each.
        if not (np.abs(table) < np.finfo(np.float64).max / 2).all():
            raise ValueError(f"weights: expected products within the range of float64, but {name} overflows")
        table.flags.writeable = False
    return tables


def _tables(weights: AttentionWeights) -> Collapse:
    w = weights
    q = np.einsum("kae,e->ka", w.W_q, w.W_e[w.cls] + w.W_p[0]) + w.b_q
    scale = 1.0 / np.sqrt(w.d_att)
    w_k = np.einsum("kae,ka->ke", w.W_k, q) * scale
    w_v = np.einsum("koe,kco->kce", w.W_v, w.W_l)
    s_const = np.einsum("ka,ka->k", w.b_k, q) * scale
    u_const = np.einsum("ko,kco->kc", w.b_v, w.W_l)
    flat_v = w_v.reshape(-1, w.d_e).T
    return Collapse(
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
    """Attention logits s and values u of one document, each (K, T_max), for one output.

    >>> from attn_closed_form import random_weights
    >>> s, u = scores(random_weights(seed=0), [2, 3], output=0)
    >>> s.shape == u.shape
    True
    """
    ids = pad(weights, [as_tokens(weights, tokens, stacklevel=4)])[0]
    return padded_scores(weights, ids, as_output(weights, output))


def padded_scores(weights: AttentionWeights, ids: Ids, output: int) -> tuple[Array, Array]:
    """`scores` of (T_max,) ids that are already checked and padded; both results are C-contiguous."""
    tables = weights.collapse
    s = tables.s_tok[ids] + tables.s_pos
    u = tables.u_tok[ids, :, output] + tables.u_pos[:, :, output]
    return np.ascontiguousarray(s.T), np.ascontiguousarray(u.T)
