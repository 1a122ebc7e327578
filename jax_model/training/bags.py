"""The gated-attention network of bags and its training, with one label per bag and any number of
instances.

    h_i = relu(L x_i + l),   s_i = w . (tanh(V h_i + v) * sigmoid(U h_i + u)),
    f = W sum_i softmax(s)_i h_i + b

This is the network of Ilse, Tomczak and Welling (2018), "Attention-based deep multiple instance
learning", with one embedding layer. f is one log-odds for two classes and one logit per class for
more. Its state dict has the names and shapes of CLAM's single-branch network, so that every reader
of such files can read it. The instances of a batch of bags are stored in one long array with the
number of the bag of each, so that no bag is padded to the longest one.

Departures from the paper: AdamW and a running average of the weights (EMA), which is validated and
kept; features are standardized with the training instances, which is folded into the first layer
afterwards; and in training a random share of each bag's instances is dropped, which regularizes and
keeps the sub-bags that explanations evaluate in distribution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .config import check_settings
from .loop import Optimizer, cross_entropy, fit

Params = dict[str, jax.Array]


@dataclass(frozen=True)
class BagConfig:
    """Settings of a run: sizes of the network, regularization, optimizer and early stopping."""

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
        counts = ("hidden", "attention", "epochs", "batch_size", "patience")
        least = dict.fromkeys(counts, 1) | {"weight_decay": 0}
        check_settings(self, least, shares=(), positive=("learning_rate",))
        # A rate of 1 would drop everything, or never leave the start.
        for name in ("dropout", "instance_dropout", "ema"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name}: expected a number from 0 to below 1, got {value}")


class Packed(NamedTuple):
    """Concatenated bags: `x` (N, D) float32 and `bag` (N,), the bag of each row; padding rows
    belong to bag `bags`.
    """

    x: NDArray[np.float32]
    bag: NDArray[np.int32]
    bags: int


def start_params(D: int, C: int, config: BagConfig) -> Params:
    """Draw initial weights: He's for the embedding, Glorot's for the gates, a small classifier."""
    rng = np.random.default_rng(config.seed)

    def normal(rows: int, columns: int, deviation: float) -> jax.Array:
        return jnp.asarray(deviation * rng.standard_normal((rows, columns)), jnp.float32)

    h = config.hidden
    a = config.attention
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
    """Return (count, C) logits of bags from standardized instances x (N, D) and their bags (N,);
    `count` marks padding.

    Weights are named as in the formula above. With a `key`, features and instances are dropped at
    the two rates.

    >>> params = start_params(D=3, C=2, config=BagConfig(hidden=5, attention=4))
    >>> x = jnp.ones((3, 3))
    >>> bag_logits(params, x, jnp.array([0, 1, 1]), 2).shape
    (2, 2)
    """
    keys = None
    if key is not None:
        keys = jax.random.split(key, 4)
        x = dropped(keys[0], x, dropout)
    h = jax.nn.relu(x @ params["L"].T + params["l"])
    if keys is not None:
        h = dropped(keys[1], h, dropout)
    contents = jnp.tanh(h @ params["V"].T + params["v"])
    gates = jax.nn.sigmoid(h @ params["U"].T + params["u"])
    scores = ((contents * gates) @ params["w"].T)[:, 0]
    if keys is not None:
        kept = kept_instances(keys[2:], bag, count, most=instance_dropout)
        scores = jnp.where(kept, scores, -jnp.inf)
    # A softmax per bag. The largest score is a constant for the derivative, which it cancels from.
    top = jax.ops.segment_max(scores, bag, count + 1)
    mass = jnp.exp(scores - jax.lax.stop_gradient(top)[bag])
    total = jax.ops.segment_sum(mass, bag, count + 1)
    # A bag that fills up the batch has no instances: 0 instead of 0/0, whose derivative is no
    # number.
    total = jnp.where(total > 0, total, 1.0)
    pooled = jax.ops.segment_sum(mass[:, None] * h, bag, count + 1) / total[:, None]
    return pooled[:count] @ params["W"].T + params["b"]


def dropped(key: jax.Array, x: jax.Array, rate: Any) -> jax.Array:
    """Return x with a share `rate` of its entries set to 0, and the others scaled to the same
    mean.
    """
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0.0)


def kept_instances(keys: jax.Array, bag: jax.Array, count: int, most: Any) -> jax.Array:
    """Return a mask of instances to keep; each bag draws a rate up to `most`, and keeps at least
    one instance.
    """
    draw = jax.random.uniform(keys[0], bag.shape)
    rate = jax.random.uniform(keys[1], (count + 1,), maxval=most)
    # The instance with the largest draw of its bag stays in any case.
    largest = jax.ops.segment_max(draw, bag, count + 1)
    return (draw >= rate[bag]) | (draw >= largest[bag])


def pack(bags: Sequence[NDArray[Any]], count: int | None = None) -> Packed:
    """Concatenate bags, padded to a power of two times `BLOCK` rows and to `count` bags.

    >>> packed = pack([np.ones((2, 3)), np.zeros((1, 3))])
    >>> packed.x.shape, packed.bag[:4].tolist()
    ((64, 3), [0, 0, 1, 2])
    """
    if count is None:
        count = len(bags)
    sizes = [len(bag) for bag in bags]
    # Minimum padded number of instances in a batch; larger sizes double, so that few shapes are
    # compiled.
    block = 64
    # Few different numbers of rows, because each is compiled.
    rows = block
    while rows < sum(sizes):
        rows *= 2
    x = np.zeros((rows, bags[0].shape[1]), dtype=np.float32)
    x[: sum(sizes)] = np.concatenate(bags)
    number = np.full(rows, count, dtype=np.int32)
    number[: sum(sizes)] = np.repeat(np.arange(len(bags)), sizes)
    return Packed(x=x, bag=number, bags=count)


def standardization(
    bags: Sequence[NDArray[Any]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and standard deviation of each feature over all instances; 1 for a constant
    feature.
    """
    total = sum(len(bag) for bag in bags)
    mean = sum(np.sum(bag, axis=0, dtype=np.float64) for bag in bags) / total
    # A second pass over the bags is more accurate than the mean of squares minus the square.
    squares = [np.sum((np.asarray(bag, dtype=np.float64) - mean) ** 2, axis=0) for bag in bags]
    scale = np.sqrt(sum(squares) / total)
    # The spread of a constant feature is rounding.
    varies = scale > 1e-12 * (1 + np.abs(mean))
    return np.asarray(mean), np.where(varies, scale, 1.0)


class BagTraining(NamedTuple):
    """A trained network: parameters for standardized features, the standardization, and one record
    per epoch.
    """

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
    """Train on bags (n_i, D) with class numbers (B,) and, if given, a weight (classes,) of each
    class in the loss.

    With held-out bags and labels, the epoch with the smallest loss on them is kept, and training
    stops `config.patience` epochs after it. On one machine, the same arguments give the same
    result, bit by bit.
    """
    mean, scale = standardization(bags)
    ready = [
        ((np.asarray(bag, dtype=np.float64) - mean) / scale).astype(np.float32) for bag in bags
    ]
    if class_weight is None:
        class_weight = np.ones(classes)
    weights = class_weight[labels].astype(np.float32)
    size = min(config.batch_size, len(bags))
    # Rounded up: the last batch of an epoch may be smaller, and is filled up with weight 0.
    steps = -(-len(bags) // size)
    rng = np.random.default_rng([config.seed, 1])
    # NumPy orders the bags, and JAX draws what is dropped within the compiled step.
    key = jax.random.key(config.seed)
    orders = [rng.permutation(len(bags)) for _ in range(config.epochs)]
    dropout = np.float32(config.dropout)
    instance_dropout = np.float32(config.instance_dropout)

    def batch(step: int) -> tuple[Any, ...]:
        epoch, i = divmod(step, steps)
        chosen = orders[epoch][i * size : (i + 1) * size]
        packed = pack([ready[j] for j in chosen], size)
        target = np.zeros(size, np.int32)
        weight = np.zeros(size, np.float32)
        target[: len(chosen)] = labels[chosen]
        weight[: len(chosen)] = weights[chosen]
        return (
            jax.random.fold_in(key, step),
            dropout,
            instance_dropout,
            packed.x,
            packed.bag,
            target,
            weight,
        )

    validate: Callable[[Params], dict[str, float]] | None = None
    if held_out is not None:
        validation = pack(
            [(np.asarray(bag, dtype=np.float64) - mean) / scale for bag in held_out[0]]
        )
        truth = jnp.asarray(held_out[1])

        def held_out_loss(params: Params) -> dict[str, float]:
            logits = _logits(params, validation.x, validation.bag, validation.bags)
            return {"validation_loss": float(cross_entropy(logits, truth).mean())}

        validate = held_out_loss

    # One logit is enough for two classes.
    outputs = classes
    if classes == 2:
        outputs = 1
    patience = None
    if held_out is not None:
        patience = config.patience
    fitted = fit(
        bag_loss,
        start_params(ready[0].shape[1], outputs, config),
        batches=batch,
        steps=steps,
        optimizer=Optimizer(
            learning_rate=config.learning_rate,
            warmup_steps=0,
            weight_decay=config.weight_decay,
            ema=config.ema,
            decay_biases=False,
        ),
        epochs=config.epochs,
        validate=validate,
        patience=patience,
    )
    return BagTraining(
        params=jax.device_get(fitted.params), mean=mean, scale=scale, history=fitted.history
    )


def bag_loss(
    params: Params,
    key: jax.Array,
    dropout: Any,
    instance_dropout: Any,
    x: Any,
    bag: Any,
    target: Any,
    weight: Any,
) -> jax.Array:
    """Compute the weighted mean cross-entropy of bags; bags that fill up the batch have weight
    0.
    """
    logits = bag_logits(
        params,
        x,
        bag,
        count=len(target),
        key=key,
        dropout=dropout,
        instance_dropout=instance_dropout,
    )
    return jnp.sum(weight * cross_entropy(logits, target)) / jnp.maximum(jnp.sum(weight), 1e-6)


def predict_bags(
    training: BagTraining, bags: Sequence[NDArray[Any]], block: int = 64
) -> NDArray[np.float64]:
    """Compute the (B, C) logits of bags, in float32 and in blocks of bags."""
    # Blocks of one size, the last one filled up, so that one shape of bags is compiled.
    logits = []
    for start in range(0, len(bags), block):
        part = bags[start : start + block]
        packed = pack(
            [(np.asarray(bag, dtype=np.float64) - training.mean) / training.scale for bag in part],
            block,
        )
        logits.append(
            np.asarray(_logits(training.params, packed.x, packed.bag, block))[: len(part)]
        )
    return np.concatenate(logits).astype(np.float64)


#: The options of the layout "clam" for the network of `bag_logits`, which its weights alone do not
#: tell.
LAYOUT_OPTIONS: dict[str, Any] = {
    "activation": "tanh",
    "gate": "sigmoid",
    "embed_activation": "relu",
    "attention_temperature": 1.0,
}


def state_dict(training: BagTraining) -> dict[str, NDArray[np.float64]]:
    """Return the weights under the names of CLAM's single-branch network, including the
    standardization.
    """
    p = {name: np.asarray(array, dtype=np.float64) for name, array in training.params.items()}
    # A reader of the file has raw features x: L (x - mean) / scale = (L / scale) (x - mean).
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


_logits = jax.jit(bag_logits, static_argnums=3)
