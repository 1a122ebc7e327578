"""Section 2 of P1, line by line: an attention classifier in JAX, to be read from top to bottom.

P1 = Lopardo, Precioso, Garreau, "Attention Meets Post-hoc Interpretability" (ICML 2024). The input
is a padded document, `[CLS] xi [UNK] ... [UNK]`, exactly T_max token ids; without positions it is
`[CLS] xi`, of any length, and T_max below is its number of ids. Everything is computed as the paper
writes it: every token has a key, a query and a value, every query attends to every key, and only at
the end does the [CLS] row of each attention matrix matter. That wastes almost all of the work, on
purpose: this file is the reference implementation that the closed forms of `attn_closed_form` are
compared with, so it must not share their shortcut.

All functions are pure functions of `(params, input)`, which can be transformed with jit, grad and
vmap. The dtype and the device are those of the parameters. Functions take one document;
`forward_batch` maps over many.

Departures from the paper: arrays have one row per token (the paper has columns); position 0 is
[CLS]; `W_l` may have C > 1 rows; biases may be non-zero, and the output has one too; a model may
have no positions (`W_p` None).
"""

from __future__ import annotations

import jax

from .params import Params


def embed(params: Params, ids: jax.Array) -> jax.Array:
    """Embed tokens: (T_max,) padded ids -> e, (T_max, d_e).

    Padding is the [UNK] token, so Eq. 4 (h plus position) is Eq. 2 with h = W_e[unk].
    """
    e = params.W_e[ids]
    if params.W_p is not None:
        e = e + params.W_p  # Eq. 2, Eq. 4
    return e


def head(
    e: jax.Array,
    W_q: jax.Array,
    W_k: jax.Array,
    W_v: jax.Array,
    W_l: jax.Array,
    b_q: jax.Array,
    b_k: jax.Array,
    b_v: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Compute one head: e (T_max, d_e) -> its output f_i (C,) and its attention matrix A (T_max,
    T_max).

    Row s of A is the attention of query s over all positions, A[s, t] = alpha_t(q_s) (section 3).
    """
    k = e @ W_k.T + b_k  # Eq. 5: (T_max, d_att)
    q = e @ W_q.T + b_q  # Eq. 6: (T_max, d_att)
    v = e @ W_v.T + b_v  # Eq. 7: (T_max, d_out)

    d_att = W_k.shape[0]
    logits = q @ k.T / d_att**0.5
    A = jax.nn.softmax(logits, axis=-1)  # Eq. 8: (T_max, T_max)
    v_tilde = A @ v  # Eq. 9: (T_max, d_out)

    f_i = W_l @ v_tilde[0]  # section 2.2, output of the model: the query of [CLS]
    return f_i, A


def _all_heads(params: Params, e: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Compute outputs (K, C) and attention matrices (K, T_max, T_max) of the K heads, which share
    the embedding.
    """
    p = params
    every_head = jax.vmap(head, in_axes=(None, 0, 0, 0, 0, 0, 0, 0))
    return every_head(e, p.W_q, p.W_k, p.W_v, p.W_l, p.b_q, p.b_k, p.b_v)


def from_embeddings(params: Params, e: jax.Array) -> jax.Array:
    """Compute the output from embedded tokens, e (T_max, d_e) -> f (C,); its gradient is P1's Eq.
    12.
    """
    f_i, _ = _all_heads(params, e)
    return f_i.mean(axis=0) + params.b_l  # Eq. 1


def forward(params: Params, ids: jax.Array) -> jax.Array:
    """Compute the model output f: (T_max,) padded ids -> (C,).

    >>> from attn_closed_form.attention import random_weights
    >>> from jax_model import params_from_weights
    >>> params = params_from_weights(random_weights(seed=0, T_max=5))
    >>> forward(params, jax.numpy.array([0, 4, 9, 1, 1])).shape
    (1,)
    """
    return from_embeddings(params, embed(params, ids))


def forward_batch(params: Params, ids: jax.Array) -> jax.Array:
    """Compute the model outputs of many documents: (B, T_max) padded ids -> (B, C)."""
    return jax.vmap(forward, in_axes=(None, 0))(params, ids)


def attention_matrices(params: Params, ids: jax.Array) -> jax.Array:
    """Compute the attention of every query in every head (section 3): (T_max,) padded ids -> (K,
    T_max, T_max).
    """
    _, A = _all_heads(params, embed(params, ids))
    return A
