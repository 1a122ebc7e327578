"""The gated-attention network of bags: any number of instances in each, one set of logits per bag.

    h_i = relu(L x_i + l),   s_i = w . (tanh(V h_i + v) * sigmoid(U h_i + u)),   f = W sum_i softmax(s)_i h_i + b

This is the network of Ilse, Tomczak and Welling (2018), "Attention-based deep multiple instance learning", with one
embedding layer. f is one log-odds for two classes and one logit per class for more. Its state dict has the names and
shapes of CLAM's single-branch network, so that every reader of such files can take it.

Instances of a batch of bags lie in one long array with the number of the bag beside each, so that no bag is padded to
the longest one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

Params = dict[str, jax.Array]
# Smallest padded number of instances in a batch; larger ones double, so that few shapes are ever compiled.
BLOCK = 64


@dataclass(frozen=True)
class BagConfig:
    """Settings of a run: sizes of the network, regularisation, optimiser, and when to stop."""

    hidden: int = 64
    attention: int = 32
    dropout: float = 0.25
    instance_dropout: float = 0.3
    learning_rate: float = 2e-3
    weight_decay: float = 0.1
    epochs: int = 60
    batch_size: int = 8
    ema: float = 0.98
    patience: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("hidden", "attention", "epochs", "batch_size", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        for name in ("dropout", "instance_dropout", "ema"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: expected a number from 0 to below 1, got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate: expected a positive number, got {self.learning_rate}")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay: expected 0 or more, got {self.weight_decay}")


class Packed(NamedTuple):
    """Bags end to end: `x` (N, D) float32, `bag` (N,) the bag of each row; rows of padding belong to bag `bags`."""

    x: NDArray[np.float32]
    bag: NDArray[np.int32]
    bags: int


def start_params(D: int, C: int, config: BagConfig) -> Params:
    """Random weights: He's for the embedding, Glorot's for the gates, a small classifier."""
    rng = np.random.default_rng(config.seed)

    def normal(rows: int, columns: int, deviation: float) -> jax.Array:
        return jnp.asarray(deviation * rng.standard_normal((rows, columns)), jnp.float32)

    h, a = config.hidden, config.attention
    zeros = functools.partial(jnp.zeros, dtype=jnp.float32)
    gate = (2.0 / (h + a)) ** 0.5
    return {
        "L": normal(h, D, (2.0 / D) ** 0.5),
        "l": zeros(h),
        "V": normal(a, h, gate),
        "v": zeros(a),
        "U": normal(a, h, gate),
        "u": zeros(a),
        "w": normal(1, a, (1.0 / a) ** 0.5),
        "W": normal(C, h, (1.0 / h) ** 0.5),
        "b": zeros(C),
    }


def bag_logits(
    params: Params,
    x: jax.Array,
    bag: jax.Array,
    count: int,
    key: jax.Array | None = None,
    dropout: Any = 0.0,
    instance_dropout: Any = 0.0,
) -> jax.Array:
    """Logits of every bag.

    Parameters
    ----------
    params : weights, named as in the formula of the module docstring
    x : (N, D) standardised instances of all bags
    bag : (N,) number of the bag of each instance, from 0; `bags` marks padding
    count : number of bags
    key : randomness for dropout; None for none
    dropout, instance_dropout : rates, as in `BagConfig`

    Returns
    -------
    (count, C)

    Examples
    --------
    >>> params = start_params(D=3, C=2, config=BagConfig(hidden=5, attention=4))
    >>> x = jnp.ones((3, 3))
    >>> bag_logits(params, x, jnp.array([0, 1, 1]), 2).shape
    (2, 2)
    """
    keys = None if key is None else jax.random.split(key, 4)
    if keys is not None:
        x = _drop(keys[0], x, dropout)
    h = jax.nn.relu(x @ params["L"].T + params["l"])
    if keys is not None:
        h = _drop(keys[1], h, dropout)
    gates = jnp.tanh(h @ params["V"].T + params["v"]) * jax.nn.sigmoid(h @ params["U"].T + params["u"])
    scores = (gates @ params["w"].T)[:, 0]
    if keys is not None:
        scores = jnp.where(_kept(keys[2:], bag, count, instance_dropout), scores, -jnp.inf)
    top = jax.ops.segment_max(scores, bag, count + 1)
    mass = jnp.exp(scores - jax.lax.stop_gradient(top)[bag])
    total = jax.ops.segment_sum(mass, bag, count + 1)
    pooled = jax.ops.segment_sum(mass[:, None] * h, bag, count + 1) / jnp.where(total > 0, total, 1.0)[:, None]
    return pooled[:count] @ params["W"].T + params["b"]


def _drop(key: jax.Array, x: jax.Array, rate: Any) -> jax.Array:
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0.0)


def _kept(keys: jax.Array, bag: jax.Array, count: int, most: Any) -> jax.Array:
    """Which instances stay: each bag draws its own rate up to `most`, and at least one instance stays."""
    draw = jax.random.uniform(keys[0], bag.shape)
    rate = jax.random.uniform(keys[1], (count + 1,), maxval=most)
    return (draw >= rate[bag]) | (draw >= jax.ops.segment_max(draw, bag, count + 1)[bag])


def pack(bags: Sequence[NDArray[Any]], count: int | None = None) -> Packed:
    """Bags end to end, padded to a power of two times `BLOCK` rows and to `bags` bags.

    >>> packed = pack([np.ones((2, 3)), np.zeros((1, 3))])
    >>> packed.x.shape, packed.bag[:4].tolist()
    ((64, 3), [0, 0, 1, 2])
    """
    count = len(bags) if count is None else count
    sizes = [len(bag) for bag in bags]
    rows = BLOCK
    while rows < sum(sizes):
        rows *= 2
    x = np.zeros((rows, bags[0].shape[1]), dtype=np.float32)
    x[: sum(sizes)] = np.concatenate(bags)
    number = np.full(rows, count, dtype=np.int32)
    number[: sum(sizes)] = np.repeat(np.arange(len(bags)), sizes)
    return Packed(x, number, count)


def standardisation(bags: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each feature over all instances; the scale of a constant feature is 1."""
    total = sum(len(bag) for bag in bags)
    mean = sum(np.sum(bag, axis=0, dtype=np.float64) for bag in bags) / total
    square = sum(np.sum((np.asarray(bag, dtype=np.float64) - mean) ** 2, axis=0) for bag in bags) / total
    scale = np.sqrt(square)
    return np.asarray(mean), np.where(scale > 1e-12 * (1 + np.abs(mean)), scale, 1.0)


def losses(logits: jax.Array, target: jax.Array) -> jax.Array:
    """Cross-entropy of each bag: binary for one log-odds, over the classes otherwise."""
    if logits.shape[1] == 1:
        return optax.sigmoid_binary_cross_entropy(logits[:, 0], target.astype(logits.dtype))
    return optax.softmax_cross_entropy_with_integer_labels(logits, target)
