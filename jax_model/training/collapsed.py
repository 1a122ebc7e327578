"""The forward pass that the trainer uses: P1's Eq. 1 to 9 with the matrices multiplied out, in JAX.

A token enters a prediction through its attention logit and its C values, per head (DESIGN section 4). Few classes: a
step makes one table with K (1 + C) columns and one row per word, and gathers from it. Many classes: the embeddings are
gathered and pooled, and the C values are taken of the K pooled vectors. Either way no matrix product per document is
left, and an epoch of IMDB takes seconds on two cores. `witness/model.py` stays the naive witness;
`tests/jax_model/test_collapsed.py` holds the two together, values and gradients.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..witness.params import Params


def collapsed_forward(params: Params, ids: jax.Array, cls: int = 0) -> jax.Array:
    """Model outputs of many documents: (B, T_max) padded ids -> (B, C).

    >>> from attn_closed_form import random_weights
    >>> from jax_model import params_from_weights
    >>> params = params_from_weights(random_weights(seed=0, T_max=5, C=3))
    >>> jax.jit(collapsed_forward)(params, jnp.array([[0, 4, 9, 1, 1], [0, 2, 2, 3, 10]])).shape
    (2, 3)
    """
    K, C, _ = params.W_l.shape
    few = K + params.W_e.shape[1] >= K * (1 + C)
    return (_by_table if few else _by_embedding)(params, ids, cls)


def _directions(p: Params, cls: int) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """What an embedding is multiplied with: keys (K, d_e) and values (K, C, d_e), and the constants beside them."""
    q = p.W_q @ (p.W_e[cls] + p.W_p[0]) + p.b_q
    scale = p.W_k.shape[1] ** -0.5
    keys = jnp.einsum("kae,ka->ke", p.W_k, q) * scale
    values = jnp.einsum("kco,koe->kce", p.W_l, p.W_v)
    return keys, values, (p.b_k * q).sum(axis=1) * scale, jnp.einsum("kco,ko->kc", p.W_l, p.b_v)


def _by_table(p: Params, ids: jax.Array, cls: int) -> jax.Array:
    keys, values, key_constants, value_constants = _directions(p, cls)
    K, C, d_e = values.shape
    w = jnp.concatenate([keys, values.reshape(K * C, d_e)]).T
    constants = jnp.concatenate([key_constants, value_constants.reshape(-1)])
    scores = (p.W_e @ w)[ids] + (p.W_p @ w + constants)  # (B, T_max, K + K C): one gather for all columns
    attention = jax.nn.softmax(scores[..., :K], axis=1)
    u = scores[..., K:].reshape(*ids.shape, K, C)
    return jnp.einsum("btk,btkc->bc", attention, u) / K + p.b_l


def _by_embedding(p: Params, ids: jax.Array, cls: int) -> jax.Array:
    keys, values, key_constants, value_constants = _directions(p, cls)
    e = p.W_e[ids] + p.W_p
    attention = jax.nn.softmax(e @ keys.T + key_constants, axis=1)
    pooled = jnp.einsum("btk,bte->bke", attention, e)
    return (jnp.einsum("bke,kce->bc", pooled, values) + value_constants.sum(axis=0)) / len(keys) + p.b_l
