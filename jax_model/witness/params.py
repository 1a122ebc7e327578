"""Parameters of the twin: a pytree of arrays, to and from `AttentionWeights` without changing a bit.

`AttentionWeights` is float64. Float64 parameters therefore convert exactly both ways; float32 parameters convert
exactly to weights and back to the same float32 parameters (weights to float32 rounds, as it must).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import AttentionWeights, sinusoidal_positions


class Params(NamedTuple):
    """Arrays of the model, named and shaped as in `AttentionWeights` (see NOTATION.md); every leaf is a float array.

    W_e (D, d_e); W_p (T_max, d_e); W_q, W_k (K, d_att, d_e); W_v (K, d_out, d_e); W_l (K, C, d_out);
    b_q, b_k (K, d_att); b_v (K, d_out); b_l (C,). The ids of [CLS] and [UNK] are data of the tokenizer and stay out.
    """

    W_e: jax.Array
    W_p: jax.Array
    W_q: jax.Array
    W_k: jax.Array
    W_v: jax.Array
    W_l: jax.Array
    b_q: jax.Array
    b_k: jax.Array
    b_v: jax.Array
    b_l: jax.Array


class Sizes(NamedTuple):
    """The numbers that fix every shape (see NOTATION.md)."""

    D: int
    d_e: int
    T_max: int
    K: int
    d_att: int
    d_out: int
    C: int = 1


def params_from_weights(weights: AttentionWeights, dtype: Any = None) -> Params:
    """Parameters with the values of `weights`.

    Parameters
    ----------
    weights : AttentionWeights
    dtype : floating type of the parameters; None takes JAX's default, float64 if `jax_enable_x64` is on and float32
        otherwise

    Examples
    --------
    >>> from attn_closed_form import random_weights
    >>> params_from_weights(random_weights(seed=0), dtype="float32").W_l.shape
    (2, 1, 8)
    """
    dtype = np.dtype(jnp.result_type(float) if dtype is None else dtype)
    if dtype == np.float64 and not jax.config.jax_enable_x64:
        # JAX would silently hand back float32.
        raise ValueError("dtype: expected float32, got float64 while jax_enable_x64 is off; turn it on first")
    return Params(*(jnp.array(getattr(weights, name), dtype=dtype) for name in Params._fields))


def weights_from_params(params: Params, cls: int = 0, unk: int = 1) -> AttentionWeights:
    """Weights with the values of `params`, checked as any others are; `cls` and `unk` are the two special ids.

    >>> from attn_closed_form import random_weights
    >>> weights = random_weights(seed=0)
    >>> weights_from_params(params_from_weights(weights, dtype="float32"))
    AttentionWeights(D=50, d_e=16, T_max=32, K=2, d_att=8, d_out=8, C=1, cls=0, unk=1)
    """
    return AttentionWeights(**{name: np.asarray(array) for name, array in params._asdict().items()}, cls=cls, unk=unk)


def init_params(key: jax.Array, sizes: Sizes, dtype: Any = None) -> Params:
    """Random parameters to train from: unit normal embeddings, the rest scaled by 1/sqrt(fan in), biases zero.

    `W_p` is P1's Eq. 3. Attention logits start with unit variance, so no head starts out saturated.

    >>> init_params(jax.random.key(0), Sizes(D=11, d_e=7, T_max=13, K=2, d_att=3, d_out=5)).W_p.shape
    (13, 7)
    """
    D, d_e, T_max, K, d_att, d_out, C = sizes
    dtype = jnp.result_type(float) if dtype is None else np.dtype(dtype)
    keys = iter(jax.random.split(key, 5))

    def normal(shape: tuple[int, ...], fan_in: int) -> jax.Array:
        return jax.random.normal(next(keys), shape, dtype) / fan_in**0.5

    return Params(
        W_e=normal((D, d_e), fan_in=1),
        W_p=jnp.array(sinusoidal_positions(T_max, d_e), dtype),
        W_q=normal((K, d_att, d_e), fan_in=d_e),
        W_k=normal((K, d_att, d_e), fan_in=d_e),
        W_v=normal((K, d_out, d_e), fan_in=d_e),
        W_l=normal((K, C, d_out), fan_in=d_out),
        b_q=jnp.zeros((K, d_att), dtype),
        b_k=jnp.zeros((K, d_att), dtype),
        b_v=jnp.zeros((K, d_out), dtype),
        b_l=jnp.zeros(C, dtype),
    )
