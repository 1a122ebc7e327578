"""Exact gradients with respect to the embedded tokens: P1 Theorem 4.1, and the term it leaves out for [CLS].

In terms of the score tables (`score_tables.py`) Theorem 4.1 reads, with f_i the output of head i,

    grad_t = (1/K) sum_i alpha_t^(i) [ w_v^(i) + (u_t^(i) - f_i) w_k^(i) ],

a matrix of rank 2K. So the mean over coordinates needs 2K numbers, gradient-times-input only s and u, and the
L2 norm only the (2K, 2K) Gram matrix of the w's; the L1 norm alone needs the full matrix.

Departure from the paper: Theorem 4.1 treats the query as a constant, which is right for every position but that of
[CLS], whose embedding also makes the query. Its row has one more term,

    (1/K) sum_i W_q^T / sqrt(d_att) sum_s alpha_s (u_s - f_i) k_s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._arrays import softmax
from ..._types import Array, Ids, Tokens
from .score_tables import as_output, as_tokens, pad, padded_scores
from .weights import AttentionWeights


class _Parts(NamedTuple):
    """Coefficients of the rank-2K form: grad_t = sum_i alpha_t w_v + beta_t w_k, both (K, T_max), with the 1/K in."""

    alpha: Array
    beta: Array
    s: Array
    u: Array
    ids: Ids


def _parts(weights: AttentionWeights, tokens: Tokens, output: int) -> _Parts:
    ids = pad(weights, [as_tokens(weights, tokens, stacklevel=4)])[0]
    s, u = padded_scores(weights, ids, as_output(weights, output))
    alpha = softmax(s)
    f = (alpha * u).sum(axis=1, keepdims=True)
    alpha /= weights.K
    return _Parts(alpha, alpha * (u - f), s, u, ids)


def _document(tokens: Tokens, full: Array) -> Array:
    """The entries of a (T_max, ...) array that belong to the document's own tokens."""
    return full[1 : 1 + len(tokens)]


def gradient(weights: AttentionWeights, tokens: Tokens, output: int = 0) -> Array:
    """Gradient of f[output] with respect to every embedded position, P1 Theorem 4.1 with the [CLS] term.

    Returns
    -------
    (T_max, d_e) float64; row 0 is [CLS], rows 1..T the document, the rest padding

    Examples
    --------
    >>> from attn_closed_form import random_weights
    >>> weights = random_weights(seed=0)
    >>> gradient(weights, [2, 3, 5]).shape == (weights.T_max, weights.d_e)
    True
    """
    parts = _parts(weights, tokens, output)
    tables = weights.collapse
    grad = np.concatenate([parts.alpha, parts.beta]).T @ np.concatenate([tables.w_v[:, output], tables.w_k])
    # beta sums to zero over positions, so the key bias drops out of the extra term.
    mean_e = parts.beta @ (weights.W_e[parts.ids] + weights.W_p)
    mean_k = np.matmul(weights.W_k, mean_e[:, :, None])[:, :, 0] / np.sqrt(weights.d_att)
    grad[0] += np.matmul(mean_k[:, None, :], weights.W_q)[:, 0].sum(axis=0)
    return grad


def gradient_mean(weights: AttentionWeights, tokens: Tokens, output: int = 0) -> Array:
    """G-avg, P1 section 4.1: mean of the gradient's coordinates, (T,).

    >>> from attn_closed_form import random_weights
    >>> weights = random_weights(seed=0)
    >>> bool(np.allclose(gradient_mean(weights, [2, 3]), gradient(weights, [2, 3])[1:3].mean(axis=1)))
    True
    """
    parts = _parts(weights, tokens, output)
    tables = weights.collapse
    full = tables.w_v[:, output].mean(axis=1) @ parts.alpha + tables.w_k.mean(axis=1) @ parts.beta
    return _document(tokens, full)


def gradient_l1(weights: AttentionWeights, tokens: Tokens, output: int = 0) -> Array:
    """G-l1, P1 section 4.1: L1 norm of the gradient, (T,).

    >>> from attn_closed_form import random_weights
    >>> bool((gradient_l1(random_weights(seed=0), [2, 3]) >= 0).all())
    True
    """
    parts = _parts(weights, tokens, output)
    tables = weights.collapse
    alpha, beta = _document(tokens, parts.alpha.T), _document(tokens, parts.beta.T)
    return np.abs(alpha @ tables.w_v[:, output] + beta @ tables.w_k).sum(axis=1)


def gradient_l2(weights: AttentionWeights, tokens: Tokens, output: int = 0) -> Array:
    """G-l2, P1 section 4.1: L2 norm of the gradient, (T,).

    >>> from attn_closed_form import random_weights
    >>> weights = random_weights(seed=0)
    >>> norm = np.linalg.norm(gradient(weights, [2, 3])[1:3], axis=1)
    >>> bool(np.allclose(gradient_l2(weights, [2, 3]), norm))
    True
    """
    parts = _parts(weights, tokens, output)
    w = np.concatenate([weights.collapse.w_v[:, output], weights.collapse.w_k])
    # |c W|^2 = |c R^T|^2 with W^T = Q R: as cheap as the Gram matrix, without its squared condition number.
    r: Array = np.linalg.qr(w.T)[1]
    coefficients = _document(tokens, np.concatenate([parts.alpha, parts.beta]).T)
    return np.linalg.norm(coefficients @ r.T, axis=1)


def gradient_times_input(weights: AttentionWeights, tokens: Tokens, output: int = 0) -> Array:
    """G x I, P1 section 4.1: e_t . grad_t, (T,). Needs s and u alone.

    >>> from attn_closed_form import random_weights
    >>> gradient_times_input(random_weights(seed=0), [2, 3]).shape
    (2,)
    """
    parts = _parts(weights, tokens, output)
    tables = weights.collapse
    e_w_v = parts.u - tables.u_const[:, output, None]
    e_w_k = parts.s - tables.s_const[:, None]
    return _document(tokens, (parts.alpha * e_w_v + parts.beta * e_w_k).sum(axis=0))
