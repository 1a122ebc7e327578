"""The text classifier in JAX for training: initial arrays, loss, and forward pass of P1's Eq. 1 to
9, multiplied out.

A token enters a prediction through its attention logit and its C values, per head (DESIGN section
4). With few classes, a step makes one table with K (1 + C) columns and one row per word, and
gathers from it. With many classes, the embeddings are gathered and pooled, and the C values are
computed from the K pooled vectors. In both cases no matrix product per document is left, and an
epoch of IMDB takes seconds on two cores. `witness/model.py` remains the naive reference
implementation; `tests/jax_model/test_text_model.py` compares their values and gradients. An id
below zero is not a token: it has no mass, and fills up the shorter documents of a batch if the
model has no padding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from attn_closed_form.attention import sinusoidal_positions

from ..witness.params import Params
from .batches import Batches, Documents, pad_rows
from .config import Config
from .devices import cut_by_document
from .loop import cross_entropy
from .word_tables import MASSLESS

Trained = dict[str, jax.Array]


def start_arrays(
    config: Config, D: int, C: int, cls: int, unk: int
) -> tuple[dict[str, Any], Trained]:
    """Draw the initial fixed and trained arrays, distributed as in the twin except for scaled
    embeddings and positions.

    With small embeddings, rare words start, and stay, close to neutral. [CLS] keeps its size, as it
    determines the query. If [UNK] is also the padding, it starts at the attention logit `unk_start`
    in every head: below zero, padding does not dominate a short text while the heads learn to
    ignore it (with one head and `unk_start` 0, some runs never did). NumPy draws the numbers,
    without compilation and equally under every version of JAX.
    """
    c = config
    rng = np.random.default_rng(c.seed)

    def normal(*shape: int, deviation: float) -> NDArray[Any]:
        return (deviation * rng.standard_normal(shape)).astype(np.float32)

    # Deviations of one over the root of the number of summands keep the size of what is multiplied.
    trained = {
        "W_e": normal(D, c.d_e, deviation=c.scale),
        "W_q": normal(c.K, c.d_att, c.d_e, deviation=c.query_scale * c.d_e**-0.5),
        "W_k": normal(c.K, c.d_att, c.d_e, deviation=c.d_e**-0.5),
        "W_v": normal(c.K, c.d_out, c.d_e, deviation=c.d_e**-0.5),
        "W_l": normal(c.K, C, c.d_out, deviation=c.d_out**-0.5),
        "b_l": np.zeros(C, np.float32),
    }
    trained["W_e"][cls] = normal(c.d_e, deviation=1.0)
    if c.unk_start and c.positions != "none":
        query = trained["W_q"] @ trained["W_e"][cls]
        keys = np.einsum("kae,ka->ke", trained["W_k"], query) * c.d_att**-0.5
        # The smallest embedding of [UNK] that has this attention logit in every head.
        wanted = np.full(c.K, c.unk_start, np.float32)
        trained["W_e"][unk] = np.linalg.lstsq(keys, wanted, rcond=None)[0]
    positions = None
    if c.positions != "none":
        positions = (c.scale * sinusoidal_positions(c.T_max, c.d_e)).astype(np.float32)
    fixed = {
        "W_p": positions,
        "b_q": np.zeros((c.K, c.d_att), np.float32),
        "b_k": np.zeros((c.K, c.d_att), np.float32),
        "b_v": np.zeros((c.K, c.d_out), np.float32),
    }
    return fixed, trained


def start_from_tables(
    trained: dict[str, NDArray[Any]],
    fixed: dict[str, Any],
    cls: int,
    unk: int,
    masses: NDArray[np.float64],
    values: NDArray[np.float64],
) -> None:
    """Add to the embeddings what makes every head compute given tables, and change nothing else.

    Parameters
    ----------
    trained, fixed : the arrays of `start_arrays`; the embeddings are changed in place
    masses : (D,) log-masses of the words minus that of the background
    values : (D, C) values of the words; that of the background is 0

    The query is that of [CLS], so that the attention logits and values of a word are linear in its
    embedding. The added part is the smallest one that gives the words their scores, relative to
    those of [CLS]. If all heads and classes need more numbers than an embedding has, it is the best
    approximation.
    """
    embeddings = trained["W_e"]
    cls_embedding = embeddings[cls]
    K = trained["W_l"].shape[0]
    readings = _readings(trained, fixed, cls)
    scores = np.concatenate([np.tile(masses[:, None], K), np.tile(values, K)], axis=1)
    present = embeddings @ readings.T
    missing = scores + readings @ cls_embedding - present
    added = np.linalg.lstsq(readings, missing.T, rcond=None)[0].T
    added[cls] = 0.0
    if fixed["W_p"] is not None:
        # [UNK] is also the padding, whose mass starts small (`unk_start`).
        added[unk] = 0.0
    embeddings += added.astype(np.float32)


def _readings(trained: Trained, fixed: dict[str, Any], cls: int) -> NDArray[Any]:
    """Return what is read from an embedding (K + K C, d_e): one number per head for the mass, and
    one per head and class.
    """
    with_place = trained["W_e"][cls]
    if fixed["W_p"] is not None:
        with_place = with_place + fixed["W_p"][0]
    query = trained["W_q"] @ with_place
    keys = np.einsum("kae,ka->ke", trained["W_k"], query) * trained["W_k"].shape[1] ** -0.5
    directions = np.einsum("kco,koe->kce", trained["W_l"], trained["W_v"])
    K, C, d_e = directions.shape
    return np.concatenate([keys, directions.reshape(K * C, d_e)])


def take_masses(
    trained: Trained, fixed: dict[str, Any], cls: int, massless: NDArray[np.bool_]
) -> Trained:
    """Return the arrays with other embeddings for the words (D,) that shall have no mass.

    Their embedding has an attention logit below that of [CLS] by -MASSLESS in every head. Among
    such embeddings it is the smallest one whose values are nearest to those of [CLS].
    """
    readings = _readings(trained, fixed, cls).astype(np.float64)
    wanted = readings @ np.asarray(trained["W_e"][cls], dtype=np.float64)
    K = trained["W_l"].shape[0]
    keys = readings[:K]
    values = readings[K:]
    embedding = np.linalg.lstsq(keys, wanted[:K] + MASSLESS, rcond=None)[0]
    # Directions in which the attention logits do not change.
    free = np.linalg.svd(keys)[2][K:]
    missing = wanted[K:] - values @ embedding
    embedding += np.linalg.lstsq(values @ free.T, missing, rcond=None)[0] @ free
    embeddings = np.array(trained["W_e"])
    embeddings[massless] = embedding
    return {**trained, "W_e": embeddings}


class Baseline(NamedTuple):
    """The constraint on a text without words: its outputs (C,), and the id that fills its row."""

    logits: NDArray[np.float32]
    filler: NDArray[np.int32]


def text_loss(
    trained: Trained,
    fixed: Any,
    cls: jax.Array,
    class_weights: jax.Array,
    baseline: Baseline | None,
    ids: jax.Array,
    labels: jax.Array,
) -> jax.Array:
    """Compute the mean cross-entropy of ids (B, L) and class numbers (B,), weighted by class."""
    # Only the trained arrays have derivatives.
    params = Params(**fixed, **trained)
    logits = collapsed_forward(params, ids, cls)
    if baseline is not None:
        # A text without words: [CLS] and filling.
        empty = jnp.full((1, ids.shape[1]), baseline.filler).at[0, 0].set(cls)
        logits = logits - collapsed_forward(params, empty, cls) + baseline.logits
    # Weights have the mean 1 over the training texts, so the mean loss keeps its size.
    losses = cross_entropy(logits, labels)
    return (class_weights[labels] * losses).mean()


@functools.lru_cache(maxsize=4)
def _predict_function(mesh: Mesh) -> Callable[..., jax.Array]:
    """Compile the forward pass: (trained, fixed, cls, ids (B, L)) -> (B, C), whole on every device
    and host.
    """

    @functools.partial(jax.jit, out_shardings=NamedSharding(mesh, PartitionSpec()))
    def predict(trained: Trained, fixed: Any, cls: jax.Array, ids: jax.Array) -> jax.Array:
        return collapsed_forward(Params(**fixed, **trained), ids, cls)

    return predict


def all_logits(
    mesh: Mesh, trained: Trained, fixed: Any, documents: Documents, batches: Batches
) -> NDArray[np.float32]:
    """Compute the (n, C) outputs of all documents, in blocks of few shapes."""
    predict = _predict_function(mesh)
    # The longest documents first: documents of one block have about one length.
    order = np.argsort(-documents.lengths, kind="stable")
    out = np.empty((documents.size, trained["b_l"].size), np.float32)
    start = 0
    # Number of ids in one block of documents to evaluate.
    evaluation_block = 1 << 18
    while start < documents.size:
        length = batches.row_length(documents.lengths[order[start:]])
        block = min(max(1, evaluation_block // length), documents.size)
        # Repeated rows fill the last block up, and blocks up to a multiple of the devices.
        rows = np.resize(order[start : start + block], block + -block % mesh.size)
        ids = pad_rows(documents, rows, length, batches.cls, batches.filler)
        out[rows] = predict(trained, fixed, np.int32(batches.cls), cut_by_document(mesh, ids))
        start += block
    return out


def collapsed_forward(params: Params, ids: jax.Array, cls: Any = 0) -> jax.Array:
    """Compute the outputs of many documents: (B, L) padded ids -> (B, C).

    >>> from attn_closed_form.attention import random_weights
    >>> from jax_model import params_from_weights
    >>> params = params_from_weights(random_weights(seed=0, T_max=5, C=3))
    >>> jax.jit(collapsed_forward)(params, jnp.array([[0, 4, 9, 1, 1], [0, 2, 2, 3, 10]])).shape
    (2, 3)
    """
    K, C, _ = params.W_l.shape
    # A table of all tokens has K (1 + C) columns to gather per token. An embedding has d_e columns,
    # from which the K scores are computed.
    if K + params.W_e.shape[1] >= K * (1 + C):
        return _by_table(params, ids, cls)
    return _by_embedding(params, ids, cls)


def _directions(p: Params, cls: Any) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return the directions of keys (K, d_e) and values (K, C, d_e) of an embedding, and the
    constants.
    """
    embedding = p.W_e[cls]
    if p.W_p is not None:
        embedding = embedding + p.W_p[0]
    q = p.W_q @ embedding + p.b_q
    scale = p.W_k.shape[1] ** -0.5
    keys = jnp.einsum("kae,ka->ke", p.W_k, q) * scale
    values = jnp.einsum("kco,koe->kce", p.W_l, p.W_v)
    key_constants = (p.b_k * q).sum(axis=1) * scale
    value_constants = jnp.einsum("kco,ko->kc", p.W_l, p.b_v)
    return keys, values, key_constants, value_constants


def _attention(logits: jax.Array, ids: jax.Array) -> jax.Array:
    """Return the attention (B, L, K) of logits, which is zero where there is no token."""
    absent = ids[..., None] < 0
    return jax.nn.softmax(jnp.where(absent, -jnp.inf, logits), axis=1)


def _by_table(p: Params, ids: jax.Array, cls: Any) -> jax.Array:
    """Compute the outputs by a table of the scores of all tokens."""
    keys, values, key_constants, value_constants = _directions(p, cls)
    K, C, d_e = values.shape
    w = jnp.concatenate([keys, values.reshape(K * C, d_e)]).T
    constants = jnp.concatenate([key_constants, value_constants.reshape(-1)])
    if p.W_p is None:
        by_place = constants
    else:
        by_place = p.W_p @ w + constants
    # (B, L, K + K C): one gather for all columns.
    scores = (p.W_e @ w)[ids] + by_place
    attention = _attention(scores[..., :K], ids)
    u = scores[..., K:].reshape(*ids.shape, K, C)
    return jnp.einsum("btk,btkc->bc", attention, u) / K + p.b_l


def _by_embedding(p: Params, ids: jax.Array, cls: Any) -> jax.Array:
    """Compute the outputs from the pooled embeddings."""
    keys, values, key_constants, value_constants = _directions(p, cls)
    if p.W_p is None:
        e = p.W_e[ids]
    else:
        e = p.W_e[ids] + p.W_p
    attention = _attention(e @ keys.T + key_constants, ids)
    pooled = jnp.einsum("btk,bte->bke", attention, e)
    # P1's model is the mean of its heads.
    summed = jnp.einsum("bke,kce->bc", pooled, values) + value_constants.sum(axis=0)
    return summed / len(keys) + p.b_l
