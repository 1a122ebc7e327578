"""Parameters of the twin: a pytree of arrays, which converts exactly to and from
`AttentionWeights`.

`AttentionWeights` is float64. Float64 parameters therefore convert exactly both ways; float32
parameters convert exactly to weights and back to the same float32 parameters (weights to float32
rounds, as it must).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import AttentionWeights


class Params(NamedTuple):
    """Arrays of the model, named and shaped as in `AttentionWeights` (see NOTATION.md); every leaf
    is a float array.

    W_e (D, d_e); W_p (T_max, d_e), or None without positions; W_q, W_k (K, d_att, d_e); W_v (K,
    d_out, d_e); W_l (K, C, d_out); b_q, b_k (K, d_att); b_v (K, d_out); b_l (C,). The ids of [CLS]
    and [UNK] are data of the tokenizer and not included.
    """

    W_e: jax.Array
    W_p: jax.Array | None
    W_q: jax.Array
    W_k: jax.Array
    W_v: jax.Array
    W_l: jax.Array
    b_q: jax.Array
    b_k: jax.Array
    b_v: jax.Array
    b_l: jax.Array


def params_from_weights(weights: AttentionWeights, dtype: Any = None) -> Params:
    """Convert `weights` to parameters.

    Parameters
    ----------
    weights : AttentionWeights
    dtype : floating type of the parameters; None selects JAX's default, float64 if `jax_enable_x64`
        is on and float32 otherwise

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> params_from_weights(random_weights(seed=0), dtype="float32").W_l.shape
    (2, 1, 8)
    """
    dtype = np.dtype(jnp.result_type(float) if dtype is None else dtype)
    if dtype == np.float64 and not jax.config.jax_enable_x64:
        # JAX would silently return float32.
        raise ValueError(
            "dtype: expected float32, got float64 while jax_enable_x64 is off; turn it on first"
        )
    arrays = {name: jnp.array(array, dtype=dtype) for name, array in weights.arrays().items()}
    return Params(**{"W_p": None, **arrays})


def weights_from_params(params: Params, cls: int = 0, unk: int = 1) -> AttentionWeights:
    """Convert `params` to checked weights; `cls` and `unk` are the ids of [CLS] and [UNK].

    >>> from attn_closed_form.attention import random_weights
    >>> weights = random_weights(seed=0)
    >>> weights_from_params(params_from_weights(weights, dtype="float32"))
    AttentionWeights(D=50, d_e=16, T_max=32, K=2, d_att=8, d_out=8, C=1, cls=0, unk=1)
    """
    return AttentionWeights(**jax.tree.map(np.asarray, params)._asdict(), cls=cls, unk=unk)
