"""Gradients, integrated gradients and layer-wise relevance propagation (LRP) of the transformer.

LRP follows Achtibat et al. (2024), "AttnLRP", the version that P2 compares with. Its rules, with a
vanishing stabilizer, say how the relevance R of an output is handed to inputs x; each is gradient
times input of a *modified* model with the same values, so that one backward pass does it
(`RELEVANT` below):

    linear map           R_i = x_i sum_j W_ji R_j / y_j            unchanged
    softmax              R_i = x_i (R_i - s_i sum_j R_j)           unchanged: its own Jacobian
    product of two       half to each factor                       y = (stop(a) b + a stop(b)) / 2
    layer norm           the division is handed through            x / stop(deviation)
    hidden unit          handed through                            x stop(gate(x)/x)

What reaches biases (and [CLS]) is lost to the tokens, so that the sum is not f; see
`tests/benchmarks/test_transformer.py`. For P1's model they have a closed form:
`attn_closed_form.classifier_lrp`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .transformer import PLAIN, Config, Steps, Tree, embed, from_embeddings

Scores = NDArray[np.float64]
stop = jax.lax.stop_gradient


def _half(subscripts: str, a: jax.Array, b: jax.Array) -> jax.Array:
    return (jnp.einsum(subscripts, stop(a), b) + jnp.einsum(subscripts, a, stop(b))) / 2


RELEVANT = Steps(
    divide=lambda x, deviation: x / stop(deviation),
    gate=lambda x: x * stop(jax.scipy.stats.norm.cdf(x)),
    product=_half,
)


def _single(params: Tree, config: Config, e: jax.Array, real: jax.Array, steps: Steps) -> jax.Array:
    return from_embeddings(params, config, e, real, steps).sum()


@functools.partial(jax.jit, static_argnums=(1, 3))
def _slope_and_input(
    params: Tree, config: Config, ids: jax.Array, steps: Steps
) -> tuple[jax.Array, jax.Array]:
    e = embed(params, ids)
    return jax.grad(_single, argnums=2)(params, config, e, ids >= 0, steps), e


@functools.partial(jax.jit, static_argnums=(1, 4))
def _path_slope(
    params: Tree, config: Config, ids: jax.Array, baseline: jax.Array, steps: int
) -> jax.Array:
    """Mean over the straight path from `baseline` of the gradient, times the way: (B, T)."""
    e0 = embed(params, baseline)
    e1 = embed(params, ids)
    grad = jax.grad(_single, argnums=2)

    def add(total: jax.Array, at: jax.Array) -> tuple[jax.Array, None]:
        return total + grad(params, config, e0 + at * (e1 - e0), ids >= 0, PLAIN), None

    total, _ = jax.lax.scan(add, jnp.zeros_like(e0), (jnp.arange(steps) + 0.5) / steps)
    return (total / steps * (e1 - e0)).sum(axis=-1)


def transformer_gradient(params: Tree, config: Config, ids: jax.Array) -> Scores:
    """Mean over the coordinates of the gradient with respect to each embedding (as P1's g-avg): (B,
    T) -> (B, T).
    """
    return np.asarray(
        _slope_and_input(params, config, ids, PLAIN)[0].mean(axis=-1), dtype=np.float64
    )


def transformer_gradient_times_input(params: Tree, config: Config, ids: jax.Array) -> Scores:
    """Gradient times input, (B, T) -> (B, T)."""
    slope, e = _slope_and_input(params, config, ids, PLAIN)
    return np.asarray((slope * e).sum(axis=-1), dtype=np.float64)


def transformer_lrp(params: Tree, config: Config, ids: jax.Array) -> Scores:
    """Relevance of each position by the rules above, (B, T) -> (B, T)."""
    slope, e = _slope_and_input(params, config, ids, RELEVANT)
    return np.asarray((slope * e).sum(axis=-1), dtype=np.float64)


def transformer_integrated_gradients(
    params: Tree, config: Config, ids: jax.Array, baseline: jax.Array, steps: int = 32
) -> Scores:
    """Integrated gradients from a document `baseline` (B, T) of the same length (midpoint rule):
    (B, T).
    """
    return np.asarray(_path_slope(params, config, ids, baseline, steps), dtype=np.float64)
