"""Train the gated-attention network of `bag_network.py`: one label per bag, any number of instances in each.

Departures from Ilse, Tomczak and Welling (2018): AdamW and an average of the weights along the way (EMA), which is what
is validated and kept; features are standardised with the training instances, and that is folded into the first layer
afterwards; and in training a random share of each bag's instances is left out, which regularises and keeps the sub-bags
that explanations ask about in distribution. A run is a function of its settings and its data.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from .bag_network import BagConfig, Params, bag_logits, losses, pack, standardisation, start_params

# b2 below the usual 0.999: with a few hundred steps in all, the second moment must forget the start.
ADAM = optax.scale_by_adam(b2=0.99)


class BagTraining(NamedTuple):
    """A trained network: parameters for standardised features, the standardisation, one record per epoch."""

    params: Params
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    history: list[dict[str, float]]


def fit_bags(
    bags: Sequence[NDArray[Any]],
    labels: NDArray[np.int64],
    classes: int,
    config: BagConfig,
    held_out: tuple[Sequence[NDArray[Any]], NDArray[np.int64]] | None = None,
    class_weight: NDArray[Any] | None = None,
) -> BagTraining:
    """Train on bags.

    Parameters
    ----------
    bags : arrays (n_i, D)
    labels : (B,) class of each bag, 0 to classes - 1
    classes : at least 2; two classes give one log-odds
    config : BagConfig
    held_out : bags and labels to validate with after every epoch; the epoch of the smallest loss is kept, and training
        stops `config.patience` epochs after it. None trains for all epochs.
    class_weight : (classes,) weight of a bag in the loss

    Returns
    -------
    BagTraining, a function of the arguments alone: the same ones give the same bits on the same machine
    """
    mean, scale = standardisation(bags)
    ready = [((np.asarray(bag, dtype=np.float64) - mean) / scale).astype(np.float32) for bag in bags]
    weights = (np.ones(classes) if class_weight is None else class_weight)[labels].astype(np.float32)
    outputs = 1 if classes == 2 else classes
    size = min(config.batch_size, len(bags))
    steps = -(-len(bags) // size) * config.epochs
    params = start_params(ready[0].shape[1], outputs, config)
    state = (params, ADAM.init(params), params)
    validation = None if held_out is None else _Validation(held_out, mean, scale)
    rng, key = np.random.default_rng([config.seed, 1]), jax.random.key(config.seed)
    history: list[dict[str, float]] = []
    best, best_epoch = params, 0
    done = 0
    for epoch in range(config.epochs):
        losses = []
        for chosen in _batches(rng, len(bags), size):
            packed = pack([ready[i] for i in chosen], size)
            target, weight = np.zeros(size, np.int32), np.zeros(size, np.float32)
            target[: len(chosen)], weight[: len(chosen)] = labels[chosen], weights[chosen]
            rates = _rates(config, done, steps)
            state, loss = _step(state, rates, jax.random.fold_in(key, done), packed.x, packed.bag, target, weight)
            losses.append(loss)
            done += 1
        record = {"epoch": float(epoch + 1), "training_loss": float(np.mean(jax.device_get(losses)))}
        if validation is not None:
            record["validation_loss"] = validation.loss(state[2])
            if epoch == 0 or record["validation_loss"] < history[best_epoch]["validation_loss"]:
                best, best_epoch = state[2], epoch
        history.append(record)
        if validation is not None and epoch - best_epoch >= config.patience:
            break
    kept = state[2] if validation is None else best
    return BagTraining(jax.device_get(kept), mean, scale, history)


def predict_bags(training: BagTraining, bags: Sequence[NDArray[Any]], block: int = 64) -> NDArray[np.float64]:
    """Logits (B, C) of bags, in float32 and in blocks of bags."""
    found = []
    for start in range(0, len(bags), block):
        part = bags[start : start + block]
        ready = [((np.asarray(bag, dtype=np.float64) - training.mean) / training.scale) for bag in part]
        packed = pack(ready, block)
        found.append(np.asarray(_logits(training.params, packed.x, packed.bag, block))[: len(part)])
    return np.concatenate(found).astype(np.float64)


def state_dict(training: BagTraining) -> dict[str, NDArray[np.float64]]:
    """The weights under the names of CLAM's single-branch network, the standardisation folded into its first layer."""
    p = {name: np.asarray(array, dtype=np.float64) for name, array in training.params.items()}
    first = p["L"] / training.scale
    return {
        "attention_net.0.weight": first,
        "attention_net.0.bias": p["l"] - first @ training.mean,
        "attention_net.2.attention_a.0.weight": p["V"],
        "attention_net.2.attention_a.0.bias": p["v"],
        "attention_net.2.attention_b.0.weight": p["U"],
        "attention_net.2.attention_b.0.bias": p["u"],
        "attention_net.2.attention_c.weight": p["w"],
        "attention_net.2.attention_c.bias": np.zeros(1),
        "classifiers.weight": p["W"],
        "classifiers.bias": p["b"],
    }


def _batches(rng: np.random.Generator, count: int, size: int) -> Iterator[NDArray[np.intp]]:
    order = rng.permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]


class _Rates(NamedTuple):
    """Numbers that the compiled step takes as arguments, so that one compilation serves all settings."""

    learning_rate: np.float32
    weight_decay: np.float32
    dropout: np.float32
    instance_dropout: np.float32
    ema: np.float32


def _rates(config: BagConfig, done: int, steps: int) -> _Rates:
    """Settings of step `done` of `steps`: the rate falls along a cosine to 2 %, the average forgets its start."""
    rate = config.learning_rate * (0.02 + 0.49 * (1 + np.cos(np.pi * done / steps)))
    ema = min(config.ema, (1 + done) / (10 + done))
    numbers = (rate, config.weight_decay, config.dropout, config.instance_dropout, ema)
    return _Rates(*(np.float32(number) for number in numbers))


@jax.jit
def _step(state: Any, rates: _Rates, key: jax.Array, x: Any, bag: Any, target: Any, weight: Any) -> Any:
    """One step of AdamW (weight decay on matrices alone) on (parameters, moments, average); also the loss."""
    params, moments, average = state

    def loss(params: Params) -> jax.Array:
        logits = bag_logits(params, x, bag, len(target), key, rates.dropout, rates.instance_dropout)
        return jnp.sum(weight * losses(logits, target)) / jnp.maximum(jnp.sum(weight), 1e-6)

    value, slope = jax.value_and_grad(loss)(params)
    direction, moments = ADAM.update(slope, moments)

    def moved(old: jax.Array, step: jax.Array) -> jax.Array:
        decay = rates.weight_decay * old if old.ndim > 1 else 0.0
        return old - rates.learning_rate * (step + decay)

    params = jax.tree.map(moved, params, direction)
    average = jax.tree.map(lambda old, new: rates.ema * old + (1 - rates.ema) * new, average, params)
    return (params, moments, average), value


@functools.partial(jax.jit, static_argnums=3)
def _logits(params: Params, x: Any, bag: Any, count: int) -> jax.Array:
    return bag_logits(params, x, bag, count)


class _Validation:
    """Held-out bags, standardised once."""

    def __init__(
        self, held_out: tuple[Sequence[NDArray[Any]], NDArray[np.int64]], mean: NDArray[Any], scale: NDArray[Any]
    ) -> None:
        bags, self.labels = held_out[0], np.asarray(held_out[1])
        self.packed = pack([(np.asarray(bag, dtype=np.float64) - mean) / scale for bag in bags])

    def loss(self, params: Params) -> float:
        logits = _logits(params, self.packed.x, self.packed.bag, self.packed.bags)
        return float(losses(logits, jnp.asarray(self.labels)).mean())
