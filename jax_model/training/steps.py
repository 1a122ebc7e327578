"""The parts of a training run that JAX compiles: settings, state, start, step and validation.

`train.py` puts them together; everything here is float32, whatever `jax_enable_x64` says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from attn_closed_form.classifier.positions import sinusoidal_positions

from ..witness.params import Params
from .batches import Documents, pad_rows
from .collapsed import collapsed_forward
from .devices import cut_by_document

EVALUATION_BLOCK = 1000

Trained = dict[str, jax.Array]


@dataclass(frozen=True)
class Config:
    """Settings of a run; every one is a flag of the command line. NOTATION.md has the letters."""

    T_max: int = 256
    D: int = 6000
    d_e: int = 128
    K: int = 6
    d_att: int = 64
    d_out: int = 64
    scale: float = 0.1
    epochs: int = 8
    patience: int = 2
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 200
    weight_decay: float = 0.3
    ema: float = 0.998
    max_unk: float = 1.0
    crop: float = 0.5
    validation: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("T_max", "D"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name}: expected at least 2, got {getattr(self, name)}")
        for name in ("d_e", "K", "d_att", "d_out", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        for name in ("patience", "warmup_steps", "seed", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected at least 0, got {getattr(self, name)}")
        for name in ("ema", "max_unk", "crop"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: expected a number in 0..1, got {getattr(self, name)}")
        for name in ("learning_rate", "scale"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name}: expected a positive number, got {getattr(self, name)}")


class State(NamedTuple):
    """Everything that a step changes, and so everything that a checkpoint holds."""

    trained: Trained
    optimizer: Any
    average: Trained
    best: Trained
    step: jax.Array
    loss_sum: jax.Array


def start_arrays(config: Config, D: int, cls: int) -> tuple[dict[str, NDArray[Any]], Trained]:
    """Fixed and trained arrays at the start, distributed as the twin's but for scaled embeddings and positions.

    Small embeddings let a word that is hardly seen start, and stay, without an opinion. [CLS] keeps its size, as it
    alone makes the query. NumPy draws the numbers: no compilation, and the same ones under every version of JAX.
    """
    c = config
    rng = np.random.default_rng(c.seed)

    def normal(*shape: int, deviation: float) -> NDArray[Any]:
        return (deviation * rng.standard_normal(shape)).astype(np.float32)

    trained = {
        "W_e": normal(D, c.d_e, deviation=c.scale),
        "W_q": normal(c.K, c.d_att, c.d_e, deviation=c.d_e**-0.5),
        "W_k": normal(c.K, c.d_att, c.d_e, deviation=c.d_e**-0.5),
        "W_v": normal(c.K, c.d_out, c.d_e, deviation=c.d_e**-0.5),
        "W_l": normal(c.K, 1, c.d_out, deviation=c.d_out**-0.5),
        "b_l": np.zeros(1, np.float32),
    }
    trained["W_e"][cls] = normal(c.d_e, deviation=1.0)
    fixed = {
        "W_p": (c.scale * sinusoidal_positions(c.T_max, c.d_e)).astype(np.float32),
        "b_q": np.zeros((c.K, c.d_att), np.float32),
        "b_k": np.zeros((c.K, c.d_att), np.float32),
        "b_v": np.zeros((c.K, c.d_out), np.float32),
    }
    return fixed, trained


def step_function(optimizer: Any, fixed: dict[str, Any], cls: int, decay: float) -> Callable[..., State]:
    """The compiled step: (state, ids (B, T_max), labels (B,)) -> state. The state that goes in is used up."""

    def loss(trained: Trained, ids: jax.Array, labels: jax.Array) -> jax.Array:
        logits = collapsed_forward(Params(**fixed, **trained), ids, cls)
        return optax.sigmoid_binary_cross_entropy(logits, labels).mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def take_step(state: State, ids: jax.Array, labels: jax.Array) -> State:
        value, slope = jax.value_and_grad(loss)(state.trained, ids, labels)
        updates, inner = optimizer.update(slope, state.optimizer, state.trained)
        trained = optax.apply_updates(state.trained, updates)
        # A young average forgets faster, or the random start would stay in it for hundreds of steps.
        count = state.step.astype(jnp.float32)
        keep = jnp.minimum(jnp.float32(decay), (1 + count) / (10 + count))
        average = jax.tree.map(lambda old, new: keep * old + (1 - keep) * new, state.average, trained)
        return State(trained, inner, average, state.best, state.step + 1, state.loss_sum + value)

    return take_step


def predict_function(mesh: Mesh, fixed: dict[str, Any], cls: int) -> Callable[..., jax.Array]:
    """The compiled forward pass: (trained, ids (B, T_max)) -> (B,), whole on every device and host."""
    whole = NamedSharding(mesh, PartitionSpec())

    @functools.partial(jax.jit, out_shardings=whole)
    def predict(trained: Trained, ids: jax.Array) -> jax.Array:
        return collapsed_forward(Params(**fixed, **trained), ids, cls)

    return predict


def all_logits(
    mesh: Mesh,
    predict: Callable[..., jax.Array],
    trained: Trained,
    documents: Documents,
    T_max: int,
    cls: int,
    unk: int,
) -> NDArray[np.float32]:
    """Outputs of all documents, in blocks of one size so that one compilation serves; the last is filled up."""
    block = min(EVALUATION_BLOCK, documents.size)
    block += -block % mesh.size
    out = []
    for start in range(0, documents.size, block):
        rows = np.arange(start, start + block) % documents.size
        out.append(np.asarray(predict(trained, cut_by_document(mesh, pad_rows(documents, rows, T_max, cls, unk)))))
    return np.concatenate(out)[: documents.size]


def validation_scores(logits: NDArray[np.float32], labels: NDArray[np.float32]) -> dict[str, float]:
    """Loss and accuracy of logits (n,) for labels (n,).

    >>> scores = validation_scores(np.float32([0.0, 3.0]), np.float32([0, 1]))
    >>> scores["validation_accuracy"], round(scores["validation_loss"], 4)
    (1.0, 0.3709)
    """
    signed = np.where(labels > 0, logits, -logits).astype(np.float64)
    return {
        "validation_loss": float(np.logaddexp(0, -signed).mean()),
        "validation_accuracy": float(((logits > 0) == (labels > 0)).mean()),
    }
