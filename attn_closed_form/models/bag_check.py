"""The self-check of a loaded bag network against the logits of the user's own network.

A state dict holds no activations, no temperature of a softmax and no number of heads. Where the logits of one bag
differ, the check tries what the file may have left out; the variant that agrees is the likely cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import finite, softmax
from .._types import Array
from .bag import Bag, as_bag
from .bag_network import ACTIVATIONS, sigmoid

if TYPE_CHECKING:
    from .bag_classifier import BagClassifier

TEMPERATURES = (0.05, 0.1, 0.2, 0.25, 0.5, 0.75, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0, 16.0, 20.0, 100.0)


@dataclass(frozen=True)
class BagCheck:
    """Result of `BagClassifier.check`.

    Attributes
    ----------
    difference : largest |ours - yours| over the logits
    agrees : whether it is within the tolerance
    cause : "" if it agrees; else what to change, or that nothing tried helps
    ours, yours : (C,) the logits
    """

    difference: float
    agrees: bool
    cause: str
    ours: Array
    yours: Array

    def __bool__(self) -> bool:
        return self.agrees

    def __repr__(self) -> str:
        if self.agrees:
            return f"BagCheck(agrees: largest difference {self.difference:.1e})"
        return f"BagCheck(differs by {self.difference:.3g}: {self.cause})"


def check(model: BagClassifier, raw: Any, logits: ArrayLike, tol: float) -> BagCheck:
    """Compare with the logits of another implementation of the same network; see `BagClassifier.check`."""
    bag = as_bag(raw)
    yours = finite("logits", logits).reshape(-1)
    ours = model.predict_logits([bag])[0]
    if yours.shape != ours.shape:
        cause = f"the number of classes: the file has {ours.size}, you gave {yours.size}"
        return BagCheck(float("inf"), False, cause, ours, yours)
    limit = tol * max(1e-3, float(np.abs(yours).max()), float(np.abs(ours).max()))
    difference = float(np.abs(ours - yours).max())
    if difference <= limit:
        return BagCheck(difference, True, "", ours, yours)
    return BagCheck(difference, False, _cause(model, bag, ours, yours, limit), ours, yours)


def _cause(model: BagClassifier, bag: Bag, ours: Array, yours: Array, limit: float) -> str:
    order = _order(ours, yours, limit)
    if order:
        return order
    as_probabilities = softmax(ours) if ours.size > 1 else sigmoid(ours)
    if np.abs(as_probabilities - yours).max() <= min(limit, 1e-4):
        return "you gave probabilities; give the logits before the softmax or sigmoid"
    if np.abs(ours + yours).max() <= limit:
        return "the sign: your logits are ours times -1 (the other class of a binary network?)"
    if np.abs(ours - model.network.bias - yours).max() <= limit:
        return "the bias of the last layer: your logits are without it"
    for cause, variant, features in _variants(model, bag):
        logits = variant.predict_logits([features])[0]
        difference = float(np.abs(logits - yours).max())
        if difference <= limit:
            return f"{cause}; then the largest difference is {difference:.1e}"
        order = _order(logits, yours, limit)
        if order:
            return f"{cause}, and {order}"
    return (
        "no activation, gate, temperature, number of heads or order of the classes that was tried explains it; look "
        "for other weights, other features, or dropout left on"
    )


def _order(ours: Array, yours: Array, limit: float) -> str:
    """The classes in another order."""
    a, b = np.argsort(ours, kind="stable"), np.argsort(yours, kind="stable")
    if ours.size > 1 and not np.array_equal(a, b) and np.abs(ours[a] - yours[b]).max() <= limit:
        place = np.empty(ours.size, dtype=int)
        place[b] = a
        return f"the order of the classes: yours are our classes {place.tolist()}"
    return ""


def _variants(model: BagClassifier, bag: Bag) -> Iterator[tuple[str, BagClassifier, Bag]]:
    """Networks that the same file could mean, the likeliest first."""
    network, attention, layers = model.network, model.network.attention, model.network.embed
    shallow, embedded = model, bag
    if layers and network.background is None and network.positions is None:  # most variants differ after the embedding
        h = np.concatenate([network.embedded(network.inputs(bag.features, rows)) for rows in network.chunks(len(bag))])
        shallow, embedded = replace(model, network=replace(network, embed=())), Bag(h)
    for option, weight in (("activation", attention.V), ("gate", attention.U)):
        for name in ACTIVATIONS if weight is not None else ():
            cause = f"the {option} of the attention: load with {option}={name!r}"
            yield cause, _attention(shallow, **{option: name}), embedded
    for temperature in (factor * attention.temperature for factor in TEMPERATURES):
        cause = f"the temperature of the attention: load with attention_temperature={temperature:g}"
        yield cause, _attention(shallow, temperature=temperature), embedded
    if model.other_heads is not None:
        width = network.readout.shape[1]
        for count in (count for count in range(1, width + 1) if width % count == 0):
            yield f"the number of heads: load with num_heads={count}", model.other_heads(num_heads=count), bag
    # A last layer without an activation keeps none.
    end = len(layers) - (len(layers) > 1 and layers[-1].activation == "identity")
    for name in ACTIVATIONS if layers else ():
        embed = (*(replace(layer, activation=name) for layer in layers[:end]), *layers[end:])
        cause = f"the activation of the embedding: load with embed_activation={name!r}"
        yield cause, replace(model, network=replace(network, embed=embed)), bag
    size = np.linalg.norm(np.asarray(bag.features, dtype=np.float64), axis=1, keepdims=True)
    unit = Bag(bag.features / np.where(size == 0, 1.0, size))
    yield "the features: your network gets them scaled to length 1", model, unit


def _attention(model: BagClassifier, **changes: Any) -> BagClassifier:
    return replace(model, network=replace(model.network, attention=replace(model.network.attention, **changes)))
