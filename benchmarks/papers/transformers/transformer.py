"""A small transformer classifier in JAX: the model that P2 (appendix B.1) proves things about, to
train and to explain.

    h_t = W_e[token_t] (+ W_p[t])
    L times:  h <- h + W_o concat_i softmax(Q_i K_i^T / sqrt(d_h)) V_i + b_o,   Q, K, V = affine in norm(h)  (Eq. 7-11)
              h <- h + W_2 gelu(W_1 norm(h) + b_1) + b_2                                                      (Eq. 12)
    f = w . norm(h_r) + b                                                                                     (Eq. 13)

An *encoder* (`causal=False`) looks at all tokens and classifies at the first one, r = 1; a
*decoder* (`causal=True`) looks back only and classifies at the last one. The caller adds a [CLS]
token: P2's propositions hold without one, its experiments have one in BERT and none in GPT-2. Where
this departs from P2: layer norms stand before attention and feed-forward (as in GPT-2, not BERT),
because small models train from scratch that way. Padding (ids below zero, at the end) is masked: it
changes nothing, unlike the [UNK] padding of P1's classifier in `model.py`.

Layers are stacked on a leading axis and scanned, so that six compile as fast as one. The three
steps that layer-wise relevance propagation treats differently go through `Steps` (`lrp.py` has
another set of them).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

PAD = -1
EPS = 1e-5  # under the square root of a layer norm
# Padded lengths, and documents per call of `predict_documents`: few shapes, so few compilations.
LENGTHS = (8, 32, 64, 128, 256, 512)
BLOCKS = (32, 256)

Tree = dict[str, Any]


class Config(NamedTuple):
    """Sizes: D tokens, width d, L layers, H heads, d_ff hidden units, T_max positions, d_h per head
    (None: d / H).
    """

    D: int
    d: int = 32
    L: int = 2
    H: int = 4
    d_ff: int = 64
    T_max: int = 128
    causal: bool = False
    positions: bool = True
    d_h: int | None = None

    @property
    def head_width(self) -> int:
        """Size of queries, keys and values of one head."""
        if self.d_h is None:
            return self.d // self.H
        return self.d_h


class Steps(NamedTuple):
    """The steps that are not linear: divide by the deviation, gate a hidden unit, multiply two
    arrays (einsum).
    """

    divide: Callable[[jax.Array, jax.Array], jax.Array]
    gate: Callable[[jax.Array], jax.Array]
    product: Callable[[str, jax.Array, jax.Array], jax.Array]


PLAIN = Steps(
    lambda x, deviation: x / deviation,
    functools.partial(jax.nn.gelu, approximate=False),
    jnp.einsum,
)


def init_transformer(key: jax.Array, config: Config, dtype: Any = jnp.float32) -> Tree:
    """Random parameters to train from; biases zero, layer norms the identity.

    >>> params = init_transformer(jax.random.key(0), Config(D=11, d=8, L=3, H=2))
    >>> params["W_e"].shape, params["layers"]["W_q"].shape
    ((11, 8), (3, 8, 8))
    """
    c = config
    if c.d_h is None and c.d % c.H:
        raise ValueError(f"d: expected a multiple of the {c.H} heads, got {c.d}")
    keys = iter(jax.random.split(key, 9))

    def normal(*shape: int, scale: float) -> jax.Array:
        return jax.random.normal(next(keys), shape, dtype) * scale

    def constant(value: float, *shape: int) -> jax.Array:
        return jnp.full(shape, value, dtype)

    inside = c.d**-0.5
    outside = (2 * c.L * c.d) ** -0.5  # what joins the residual stream starts small
    heads = c.H * c.head_width
    layers: Tree = {f"W_{x}": normal(c.L, c.d, heads, scale=inside) for x in "qkv"}
    layers |= {f"b_{x}": constant(0.0, c.L, heads) for x in "qkv"}
    layers |= {f"b_{x}": constant(0.0, c.L, c.d) for x in "o2"} | {
        "b_1": constant(0.0, c.L, c.d_ff)
    }
    layers["W_o"] = normal(c.L, heads, c.d, scale=outside * (c.d / heads) ** 0.5)
    layers["W_1"] = normal(c.L, c.d, c.d_ff, scale=inside)
    layers["W_2"] = normal(c.L, c.d_ff, c.d, scale=outside * (c.d / c.d_ff) ** 0.5)
    for n in ("1", "2"):
        layers |= {f"gain_{n}": constant(1.0, c.L, c.d), f"shift_{n}": constant(0.0, c.L, c.d)}
    return {
        "W_e": normal(c.D, c.d, scale=0.3),
        **({"W_p": normal(c.T_max, c.d, scale=0.1)} if c.positions else {}),
        "layers": layers,
        "gain": constant(1.0, c.d),
        "shift": constant(0.0, c.d),
        "w": normal(c.d, scale=inside),
        "b": constant(0.0),
    }


def embed(params: Tree, ids: jax.Array) -> jax.Array:
    """(B, T) ids -> (B, T, d): tokens, plus learned positions if the model has them."""
    e = params["W_e"][jnp.maximum(ids, 0)]
    if "W_p" in params:
        return e + params["W_p"][: ids.shape[1]]
    return e


def from_embeddings(
    params: Tree, config: Config, e: jax.Array, real: jax.Array, steps: Steps = PLAIN
) -> jax.Array:
    """Log-odds of embedded documents: (B, T, d), and (B, T) bool, False for padding -> (B,)."""
    B, T, _ = e.shape
    allowed = real[:, None, None, :]
    if config.causal:
        allowed = allowed & jnp.tril(jnp.ones((T, T), bool))

    def norm(x: jax.Array, gain: jax.Array, shift: jax.Array) -> jax.Array:
        x = x - x.mean(axis=-1, keepdims=True)
        return steps.divide(x, jnp.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS)) * gain + shift

    def layer(h: jax.Array, p: Tree) -> tuple[jax.Array, None]:
        x = norm(h, p["gain_1"], p["shift_1"])
        q, k, v = ((x @ p[f"W_{n}"] + p[f"b_{n}"]).reshape(B, T, config.H, -1) for n in "qkv")
        scores = steps.product("bqhc,bkhc->bhqk", q, k) * config.head_width**-0.5
        A = jax.nn.softmax(jnp.where(allowed, scores, -1e9), axis=-1)
        h = h + steps.product("bhqk,bkhc->bqhc", A, v).reshape(B, T, -1) @ p["W_o"] + p["b_o"]
        x = norm(h, p["gain_2"], p["shift_2"])
        return h + steps.gate(x @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"], None

    h, _ = jax.lax.scan(layer, e, params["layers"])
    last = real.sum(axis=1) - 1
    if config.causal:
        at = h[jnp.arange(B), last]
    else:
        at = h[:, 0]
    return norm(at, params["gain"], params["shift"]) @ params["w"] + params["b"]


@functools.partial(jax.jit, static_argnums=1)
def forward(params: Tree, config: Config, ids: jax.Array) -> jax.Array:
    """Log-odds of documents: (B, T) ids, padded at the end with ids below zero -> (B,).

    >>> config = Config(D=11, d=8, L=2, H=2, causal=True)
    >>> params = init_transformer(jax.random.key(0), config)
    >>> f = forward(params, config, jnp.array([[3, 4, PAD], [3, 4, 5]]))
    >>> bool(jnp.isclose(f[0], forward(params, config, jnp.array([[3, 4]]))[0], atol=1e-5))
    True
    """
    return from_embeddings(params, config, embed(params, ids), ids >= 0)


def pad_documents(
    documents: Sequence[Any], length: int, first: tuple[int, ...] = ()
) -> NDArray[np.int32]:
    """(n, length) ids of documents of any lengths, `first` (such as a [CLS]) in front of each, PAD
    at the end.

    >>> pad_documents([[5, 6], []], length=4, first=(0,)).tolist()
    [[0, 5, 6, -1], [0, -1, -1, -1]]
    """
    ids = np.full((len(documents), length), PAD, dtype=np.int32)
    for row, document in zip(ids, documents, strict=True):
        whole = (*first, *document)
        if not 0 < len(whole) <= length:
            raise ValueError(
                f"documents: expected 1..{length} tokens, {len(first)} in front included, got "
                f"{whole}"
            )
        row[: len(whole)] = whole
    return ids


def predict_documents(
    params: Tree, config: Config, documents: Sequence[Any], first: tuple[int, ...] = ()
) -> NDArray[np.float64]:
    """Log-odds of a list of id arrays, (n,): the model as the black box that LIME, SHAP and SLALOM
    evaluate.

    Documents of similar lengths share a call; shapes are few, so that nothing is compiled twice.
    """
    room = [length for length in LENGTHS if length <= config.T_max or not config.positions]
    sizes = np.array([len(document) + len(first) for document in documents], dtype=np.intp)
    if sizes.size and sizes.max() > room[-1]:
        raise ValueError(f"documents: expected at most {room[-1]} tokens, got {sizes.max()}")
    bucket = np.searchsorted(room, sizes)
    out = np.empty(len(sizes))
    for b in np.unique(bucket):
        rows = np.flatnonzero(bucket == b)
        while rows.size:
            block = next((size for size in BLOCKS if size >= rows.size), BLOCKS[-1])
            some = rows[:block]
            rows = rows[block:]
            ids = pad_documents(
                [documents[i] for i in np.resize(some, block).tolist()], room[b], first
            )
            out[some] = np.asarray(forward(params, config, ids))[: some.size]
    return out
