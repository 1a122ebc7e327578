"""Reference results by autodiff and brute force, with which the closed forms are compared.

Each function takes the parameters and a padded document (`pad_ids` makes one) and is jitted.
Gradients are taken with respect to all T_max embedded positions, including [CLS] and padding,
through the naive model of `model.py`. This includes the path through the query of [CLS], which P1's
Theorem 4.1 omits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from . import model
from .params import Params

# Documents at a time in `gradient_batch`, to bound the memory; the fastest of 1, 2, 8 and 16 at
# T_max = 256.
AT_ONCE = 8


def pad_ids(tokens: Sequence[int], T_max: int | None, cls: int = 0, unk: int = 1) -> jax.Array:
    """Return the (T_max,) ids `[CLS] tokens [UNK] ...`, truncated to T_max (P1 Eq. 4), or `[CLS]
    tokens` for None.

    >>> pad_ids([5, 7], T_max=5).tolist()
    [0, 5, 7, 1, 1]
    """
    body = [int(token) for token in tokens]
    if T_max is None:
        return jnp.array([cls, *body], dtype=jnp.int32)
    room = T_max - 1
    body = body[:room]
    padding = [unk] * (room - len(body))
    return jnp.array([cls, *body, *padding], dtype=jnp.int32)


predict = jax.jit(model.forward)
predict_batch = jax.jit(model.forward_batch)
attention_matrices = jax.jit(model.attention_matrices)


@jax.jit  # type: ignore[untyped-decorator]
def attention(params: Params, ids: jax.Array) -> jax.Array:
    """Compute the attention of the [CLS] query: (T_max,) padded ids -> (K, T_max), P1 Eq. 8."""
    return model.attention_matrices(params, ids)[:, 0]


def _output_of(params: Params, e: jax.Array, output: int | jax.Array) -> jax.Array:
    return model.from_embeddings(params, e)[output]


_gradient_at = jax.grad(_output_of, argnums=1)


@jax.jit  # type: ignore[untyped-decorator]
def gradient(params: Params, ids: jax.Array, output: int | jax.Array = 0) -> jax.Array:
    """Compute the gradient of f[output] with respect to e: (T_max,) padded ids -> (T_max, d_e), P1
    Eq. 12.
    """
    return _gradient_at(params, model.embed(params, ids), output)


@jax.jit  # type: ignore[untyped-decorator]
def gradient_batch(params: Params, ids: jax.Array, output: int | jax.Array = 0) -> jax.Array:
    """Compute the gradients of many documents: (B, T_max) padded ids -> (B, T_max, d_e)."""
    return jax.lax.map(lambda row: gradient(params, row, output), ids, batch_size=AT_ONCE)


@partial(jax.jit, static_argnames=("panels", "order"))
def integrated_gradients(
    params: Params,
    ids: jax.Array,
    baseline: jax.Array,
    output: int | jax.Array = 0,
    panels: int = 64,
    order: int = 16,
) -> jax.Array:
    """Compute integrated gradients on the straight line between two embedded documents, by dense
    quadrature.

    Parameters
    ----------
    ids, baseline : (T_max,) padded ids of the document and of the start of the path
    panels, order : `panels` equal panels with `order` Gauss-Legendre nodes each, with one autodiff
        gradient per node

    Returns
    -------
    (T_max,) the integral of grad_t . (e_t - e'_t)
    """
    start = model.embed(params, baseline)
    step = model.embed(params, ids) - start
    nodes, weights = np.polynomial.legendre.leggauss(order)
    x = jnp.array((nodes + 1) / 2, start.dtype)
    w = jnp.array(weights / 2, start.dtype)

    def slope(tau: jax.Array) -> jax.Array:
        gradient = _gradient_at(params, start + tau * step, output)
        return (gradient * step).sum(axis=1)

    def add_panel(total: jax.Array, left: jax.Array) -> tuple[jax.Array, None]:
        slopes = jax.vmap(slope)((left + x) / panels)
        return total + w @ slopes / panels, None

    nothing = jnp.zeros(len(ids), start.dtype)
    lefts = jnp.arange(panels).astype(start.dtype)
    total, _ = jax.lax.scan(add_panel, nothing, lefts)
    return total


def half_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return a @ b, with half of the relevance for each factor."""
    stop = jax.lax.stop_gradient
    return (stop(a) @ b + a @ stop(b)) / 2


@jax.jit  # type: ignore[untyped-decorator]
def relevance(params: Params, ids: jax.Array, output: int | jax.Array = 0) -> jax.Array:
    """Compute the (T_max,) layer-wise relevance propagation by the rules of Achtibat et al. (2024),
    "AttnLRP".

    Linear maps propagate relevance in proportion and a softmax by its Jacobian, as gradient times
    input does; a product passes half of it to each factor. So it is gradient times input of a model
    with halved products.
    """
    p = params
    e = model.embed(params, ids)

    def halved(e: jax.Array) -> jax.Array:
        f = jnp.zeros((), e.dtype)
        K = len(p.W_q)
        for i in range(K):
            q = p.W_q[i] @ e[0] + p.b_q[i]
            k = e @ p.W_k[i].T + p.b_k[i]
            v = e @ p.W_v[i].T + p.b_v[i]
            logits = half_product(k, q) / len(q) ** 0.5
            v_tilde = half_product(jax.nn.softmax(logits), v)
            f = f + p.W_l[i, output] @ v_tilde / K
        return f

    gradient_of_halved = jax.grad(halved)(e)
    return (gradient_of_halved * e).sum(axis=1)
