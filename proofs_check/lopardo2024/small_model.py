"""P1's classifier (section 2) at toy size, written once for NumPy and JAX: the subject of Eq. 1 to
14.

Row 0 of the embeddings is [CLS], rows 1, ..., T the document, the rest padding. Dimensions are
different primes, so that a transposed matrix cannot pass.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

K = 2
d_att = 3
d_out = 5
d_e = 7
T = 4
T_max = 11


class Weights(NamedTuple):
    """W_q, W_k (K, d_att, d_e), W_v (K, d_out, d_e), W_l (K, d_out); embeddings e (T_max, d_e) and
    h (d_e,).
    """

    W_q: Any
    W_k: Any
    W_v: Any
    W_l: Any
    e: Any
    h: Any


def random_weights(seed: int, heads: int = K, out: int = d_out) -> Weights:
    """A model and an embedded document; padding rows hold h plus a position vector, as Eq. 4
    says.
    """
    rng = np.random.default_rng(seed)
    positions = 0.3 * rng.normal(size=(T_max, d_e))
    h = rng.normal(size=d_e)
    e = rng.normal(size=(T_max, d_e)) + positions
    e[T + 1 :] = h + positions[T + 1 :]
    return Weights(
        rng.normal(size=(heads, d_att, d_e)),
        rng.normal(size=(heads, d_att, d_e)),
        rng.normal(size=(heads, out, d_e)),
        rng.normal(size=(heads, out)),
        e,
        h,
    )


def attention(w: Weights, e: Any, head: int, query_row: int = 0, xp: Any = np) -> Any:
    """Attention alpha (T_max,) of Eq. 8 for the query at `query_row` ([CLS] by default)."""
    q = w.W_q[head] @ e[query_row]
    logits = (e @ w.W_k[head].T) @ q / xp.sqrt(float(d_att))
    g = xp.exp(logits - xp.max(logits))
    return g / xp.sum(g)


def head_value(w: Weights, e: Any, head: int, xp: Any = np) -> Any:
    """v-tilde (d_out,) of Eq. 9."""
    return attention(w, e, head, xp=xp) @ (e @ w.W_v[head].T)


def head_output(w: Weights, e: Any, head: int, xp: Any = np) -> Any:
    """f_i of Eq. 1: a scalar."""
    return head_value(w, e, head, xp) @ w.W_l[head]


def output(w: Weights, e: Any, xp: Any = np) -> Any:
    """The model f of Eq. 1."""
    heads = w.W_q.shape[0]
    return sum(head_output(w, e, i, xp) for i in range(heads)) / heads


def gradient_eq_14(w: Weights, factor: float = 1.0) -> np.ndarray:
    """(T_max, d_e): Theorem 4.1 as printed, every row; `factor` multiplies its second part."""
    rows = np.zeros_like(w.e)
    heads = w.W_q.shape[0]
    for i in range(heads):
        alpha = attention(w, w.e, i)
        v = w.e @ w.W_v[i].T
        q = w.W_q[i] @ w.e[0]
        deviation = (v - alpha @ v) @ w.W_l[i]
        rows += alpha[:, None] * (w.W_l[i] @ w.W_v[i])
        rows += factor * (alpha * deviation)[:, None] * (w.W_k[i].T @ q) / np.sqrt(d_att)
    return rows / heads


def cls_term(w: Weights) -> np.ndarray:
    """(d_e,): what Eq. 14 lacks for [CLS], whose embedding is also the query."""
    heads = w.W_q.shape[0]
    total = np.zeros(d_e)
    for i in range(heads):
        alpha = attention(w, w.e, i)
        v = w.e @ w.W_v[i].T
        k = w.e @ w.W_k[i].T
        deviation = (v - alpha @ v) @ w.W_l[i]
        total += w.W_q[i].T @ ((alpha * deviation) @ k) / np.sqrt(d_att)
    return total / heads


@contextlib.contextmanager
def double_precision() -> Iterator[tuple[Any, Any]]:
    """(jax, jax.numpy) with 64-bit floats inside the block only; says which extra is missing if JAX
    is.
    """
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        raise ImportError(
            "this check differentiates with JAX: install the extra 'jax' (pip install "
            "'attn-closed-form[jax]')"
        ) from error
    # jax.enable_x64 is new; before it the switch lived in jax.experimental.
    if hasattr(jax, "enable_x64"):
        switch = jax.enable_x64
    else:
        switch = importlib.import_module("jax.experimental").enable_x64
    with switch(True):
        yield jax, jnp


def jacobian(function: Callable[[Any, Any], Any], at: np.ndarray) -> np.ndarray:
    """Derivative of function(x, xp) in x by JAX in double precision: shape of the result, then
    shape of x.
    """
    with double_precision() as (jax, jnp):
        y, pull_back = jax.vjp(lambda x: function(x, jnp), jnp.asarray(at))
        # One reverse pass a component: half the start-up of jax.jacobian, which compiles batched
        # operations.
        rows = [
            np.asarray(pull_back(jnp.asarray(row.reshape(y.shape)))[0]) for row in np.eye(y.size)
        ]
    return np.stack(rows).reshape(y.shape + at.shape)


def relative_error(found: Any, true: Any) -> float:
    """Largest absolute difference over the largest magnitude of `true`."""
    return float(np.max(np.abs(np.asarray(found) - np.asarray(true))) / np.max(np.abs(true)))
