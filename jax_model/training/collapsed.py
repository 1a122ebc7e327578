"""The forward pass that the trainer uses: P1's Eq. 1 to 9 through score tables, in JAX.

A token enters the prediction through two numbers a head (DESIGN section 4), so a step makes one (D, 2K) table and
gathers from it; no (T_max, d) matrix product a document is left, and an epoch of IMDB takes seconds on two cores.
`model.py` stays the naive witness; `tests/test_train.py` holds the two together, values and gradients.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..witness.params import Params


def score_tables(params: Params, cls: int) -> tuple[jax.Array, jax.Array]:
    """Attention logits and values by token and by position: (D, 2K) and (T_max, 2K); for C = 1.

    Columns 0..K-1 are s, the attention logits, columns K..2K-1 are u, the values. Constants are in the positions.
    """
    p = params
    q = p.W_q @ (p.W_e[cls] + p.W_p[0]) + p.b_q
    scale = p.W_k.shape[1] ** -0.5
    w_k = jnp.einsum("kae,ka->ke", p.W_k, q) * scale
    w_v = jnp.einsum("koe,ko->ke", p.W_v, p.W_l[:, 0])
    constants = jnp.concatenate([(p.b_k * q).sum(axis=1) * scale, (p.b_v * p.W_l[:, 0]).sum(axis=1)])
    w = jnp.concatenate([w_k, w_v]).T
    return p.W_e @ w, p.W_p @ w + constants


def collapsed_forward(params: Params, ids: jax.Array, cls: int = 0) -> jax.Array:
    """Model outputs of many documents: (B, T_max) padded ids -> (B,); for C = 1.

    >>> from attn_closed_form import random_weights
    >>> from jax_model import params_from_weights
    >>> params = params_from_weights(random_weights(seed=0, T_max=5))
    >>> jax.jit(collapsed_forward)(params, jnp.array([[0, 4, 9, 1, 1], [0, 2, 2, 3, 10]])).shape
    (2,)
    """
    by_token, by_position = score_tables(params, cls)
    scores = by_token[ids] + by_position  # (B, T_max, 2K): one gather for both halves
    s, u = jnp.split(scores, 2, axis=-1)
    return (jax.nn.softmax(s, axis=1) * u).sum(axis=1).mean(axis=-1) + params.b_l[0]
