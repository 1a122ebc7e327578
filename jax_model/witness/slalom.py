"""SLALOM from its definition, P2 (Leemann et al.) Eq. 4: a softmax-weighted mean of the values of a
sequence's tokens.

A sequence is padded, with a mask of its real tokens, so that one program works for all lengths.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def _soft(
    presence: jax.Array,
    s: jax.Array,
    v: jax.Array,
    ids: jax.Array,
    real: jax.Array,
    s_background: jax.Array,
    v_background: jax.Array,
) -> jax.Array:
    """Return the output (C,) if token i of the sequence counts `presence[i]` times."""
    # Padding has no mass, and neither has a token that is absent (log 0).
    weighted = s[ids] + jnp.log(presence)
    logits = jnp.where(real, weighted, -jnp.inf)
    alpha = jax.nn.softmax(jnp.append(logits, s_background))
    values = jnp.concatenate([v[ids], v_background[None]])
    return alpha @ values


@jax.jit  # type: ignore[untyped-decorator]
def forward(
    s: jax.Array,
    v: jax.Array,
    ids: jax.Array,
    real: jax.Array,
    s_background: jax.Array,
    v_background: jax.Array,
) -> jax.Array:
    """Compute F(t) of P2 Eq. 4, (C,), with a background that is present in every sequence.

    Parameters
    ----------
    s, v : (V,) importances and (V, C) values of the tokens
    ids, real : (T,) indices into s and v, and whether a position of the padded sequence is filled
    s_background, v_background : () and (C,); importance -inf for P2's SLALOM, which has no
        background

    >>> s, v = jnp.array([0.0, 1.0]), jnp.array([[1.0], [-1.0]])
    >>> f = forward(
    ...     s, v, jnp.array([0, 1, 0]), jnp.array([True, True, False]), -jnp.inf, jnp.zeros(1)
    ... )
    >>> round(float(f[0]), 3)
    -0.462
    """
    return _soft(jnp.ones(ids.shape, s.dtype), s, v, ids, real, s_background, v_background)


@jax.jit  # type: ignore[untyped-decorator]
def derivative(
    s: jax.Array,
    v: jax.Array,
    ids: jax.Array,
    real: jax.Array,
    s_background: jax.Array,
    v_background: jax.Array,
) -> jax.Array:
    """Compute the (C, T) derivative of F by the soft presence of each token, at full presence (P2
    Eq. 64).
    """
    return jax.jacrev(_soft)(
        jnp.ones(ids.shape, s.dtype), s, v, ids, real, s_background, v_background
    )
