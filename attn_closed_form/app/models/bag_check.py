"""Compare the logits of a bag classifier with those of the user's network, and find the cause of a
difference.

A state dict does not contain activations, the temperature of a softmax or the number of heads. The
check compares logits of bags of different size. If they differ, it looks for a simple change of the
logits (probabilities, signs, the bias, the order of the classes), then tries other values of the
options, one at a time or two that belong together.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..._arrays import check, finite, softmax
from ..._types import Array, Ids
from .bag import Bag, as_bag
from .layers import sigmoid
from .layouts import LAYOUTS, OPTIONS

if TYPE_CHECKING:
    from .bag_classifier import BagClassifier

# Activations that follow an embedding of several layers; the last layer may have another one than
# the inner layers.
EMBEDDING_ACTIVATIONS = ("relu", "gelu", "tanh", "identity")
# What a check answers when no change that it tried explains a difference.
NO_CAUSE = (
    "no activation, gate, temperature, number of heads or class order among those tried explains "
    "it. Check the weights, the features, whether dropout is on, or whether the network is not a "
    "pooled game"
)


@dataclass(frozen=True)
class BagCheck:
    """Result of `BagClassifier.check`.

    Attributes
    ----------
    difference : the largest difference of the logits
    agrees : whether it is within the tolerance
    cause : "" if they agree; otherwise the change that is needed, or that none was found
    ours, yours : (B, C) logits
    mended : the model that agrees, if there is one
    options : options with which the file agrees, if there are any
    """

    difference: float
    agrees: bool
    cause: str
    ours: Array
    yours: Array
    mended: BagClassifier | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.agrees

    @property
    def model(self) -> BagClassifier:
        """The model that agrees: the given one, or the same file with other options.

        Raises an error if none does.
        """
        if self.mended is None:
            raise ValueError(f"check: the logits differ by {self.difference:.3g}: {self.cause}")
        return self.mended

    def __repr__(self) -> str:
        if self.agrees:
            return f"BagCheck(agrees: largest difference {self.difference:.1e})"
        return f"BagCheck(differs by {self.difference:.3g}: {self.cause})"


def compare(
    model: BagClassifier,
    bags: Sequence[Any],
    logits: ArrayLike | Callable[[list[Array]], ArrayLike],
    tol: float,
    seed: int,
) -> BagCheck:
    """Compare a model with the logits of a network; see `BagClassifier.check`."""
    several = _bags_of(bags)
    # The scores of an instance may depend on its place, which it would lose in a sub-bag.
    has_places = model.network.has_places
    if callable(logits):
        if not has_places:
            several += _sub_bags(several, np.random.default_rng(seed))
        # Copies that the network may change, since the features of a bag are read-only.
        logits = logits([bag.features.copy() for bag in several])
    _check_sizes([len(bag) for bag in several], has_places)
    yours = finite("logits", logits)
    # One logit per bag may be given as a vector.
    if yours.size % len(several) == 0:
        yours = yours.reshape(len(several), -1)
    ours = model.predict_logits(several)
    if yours.shape != ours.shape:
        shape_cause = (
            f"the shape: expected {ours.shape}, one row per bag and one column per class, got "
            f"{yours.shape}"
        )
        return BagCheck(
            difference=float("inf"), agrees=False, cause=shape_cause, ours=ours, yours=yours
        )
    largest = max(float(np.abs(yours).max()), float(np.abs(ours).max()))
    # The smallest largest |logit| to which a tolerance is relative, so that logits near zero are
    # not compared to nothing.
    smallest_scale = 1e-3
    limit = tol * max(smallest_scale, largest)
    difference = float(np.abs(ours - yours).max())
    if difference <= limit:
        return BagCheck(
            difference=difference,
            agrees=True,
            cause="",
            ours=ours,
            yours=yours,
            mended=replace(model, checked=True),
        )
    cause = _simple_cause(model, ours, yours, limit)
    if cause is not None:
        return BagCheck(difference=difference, agrees=False, cause=cause, ours=ours, yours=yours)
    mended = _best_variant(model, several, yours, limit)
    if mended is None:
        return BagCheck(difference=difference, agrees=False, cause=NO_CAUSE, ours=ours, yours=yours)
    return BagCheck(
        difference=difference,
        agrees=False,
        cause=mended.cause,
        ours=ours,
        yours=yours,
        mended=mended.model,
        options=mended.options,
    )


def _bags_of(bags: Any) -> list[Bag]:
    """Return a list of bags, also if one bag was given alone."""
    is_single = isinstance(bags, Bag | str | os.PathLike) or getattr(bags, "ndim", 0) == 2
    if is_single:
        return [as_bag(bags)]
    return [as_bag(raw) for raw in bags]


def _check_sizes(sizes: list[int], has_places: bool) -> None:
    """Raise an error if bags of these sizes would agree with many networks."""
    different = len(set(sizes))
    if has_places:
        different = len(sizes)
    check(
        "bags",
        min(sizes) >= 2 and different >= 2,
        "at least two bags of different size, of two instances or more: one instance reveals "
        "nothing about attention, and one size nothing about sub-bags",
        sizes,
    )


def _sub_bags(bags: list[Bag], rng: np.random.Generator) -> list[Bag]:
    """Return random sub-bags of the bags of three instances or more."""
    large = [bag for bag in bags if len(bag) > 2]
    # Tuning: random sub-bags of each bag on which a callable network is evaluated. One of another
    # size is enough to see a temperature that depends on the size.
    sub_bags = 4
    sizes = [rng.integers(2, len(bag), sub_bags) for bag in large]
    return [
        bag.subset(rng.permutation(len(bag))[:size])
        for bag, sizes_of_bag in zip(large, sizes, strict=True)
        for size in sizes_of_bag
    ]


class Agreement(NamedTuple):
    """The largest difference of logits in the better of two orders of the classes, and that order
    if it is another.
    """

    difference: float
    order: Ids | None

    def described(self, words: str) -> str:
        """Describe a change of the logits together with the order of the classes."""
        if self.order is None:
            return words
        order = (
            f"the order of the classes: yours are the classes {self.order.tolist()} of this model"
        )
        if not words:
            return order
        return f"{words} and {order}"


def _fit(ours: Array, yours: Array) -> Agreement:
    """Compare logits (B, C) as they are, and with the classes in the order of the first bag's
    logits.
    """
    # To try all orders would take C! comparisons, so classes are paired by the rank of their logits
    # in the first bag.
    ranks = np.argsort(np.argsort(yours[0], kind="stable"))
    by_rank = np.argsort(ours[0], kind="stable")[ranks]
    same = float(np.abs(ours - yours).max())
    reordered = float(np.abs(ours[:, by_rank] - yours).max())
    if reordered < same:
        return Agreement(reordered, by_rank)
    return Agreement(same, None)


def _simple_cause(model: BagClassifier, ours: Array, yours: Array, limit: float) -> str | None:
    """Describe a change of the logits that needs no other model, or return None."""
    if ours.shape[1] > 1:
        probabilities = softmax(ours)
    else:
        probabilities = sigmoid(ours)
    changes = {
        "": ours,
        "these are probabilities; pass the logits before the softmax or sigmoid": probabilities,
        "the sign: your logits are those of this model times -1 (perhaps those of the other "
        "class)": -ours,
    }
    # With a tail, the bias is added before the last layers and is no summand of the logits.
    if model.network.tail is None:
        words = "the bias of the last layer: your logits are without it"
        changes[words] = ours - model.network.bias
    for words, changed in changes.items():
        fit = _fit(changed, yours)
        if fit.difference <= limit:
            return fit.described(words)
    return None


class Mended(NamedTuple):
    """Other options of a file that explain a difference, and the model with them if the classes
    have the same order.
    """

    cause: str
    model: BagClassifier | None
    options: dict[str, Any]


def _best_variant(
    model: BagClassifier, bags: list[Bag], yours: Array, limit: float
) -> Mended | None:
    """Return the options that bring the logits within the limit, or None."""
    # Tuning: bags on which all variants are tried, the smallest ones; the others confirm the best
    # variants.
    trial_bags = 2
    smallest = np.argsort([len(bag) for bag in bags], kind="stable")[:trial_bags]
    trials = []
    for options in variants(model):
        try:
            variant = model.reload(**options)  # type: ignore[misc]  # there are variants of reloaded models only
            logits = variant.predict_logits([bags[i] for i in smallest])
        except ValueError:  # a variant that cannot read the features
            continue
        trials.append((_fit(logits, yours[smallest]).difference, options, variant))
    trials.sort(key=lambda trial: trial[0])
    # Tuning: the number of variants that are compared on all bags.
    confirmed_variants = 3
    for trial_difference, options, variant in trials[:confirmed_variants]:
        if trial_difference > limit:
            # The trials are sorted, so no later one agrees either.
            break
        fit = _fit(variant.predict_logits(bags), yours)
        if fit.difference > limit:
            continue
        stated = ", ".join(f"{name}={value!r}" for name, value in options.items())
        words = f"load with {stated}; then the largest difference is {fit.difference:.1e}"
        if fit.order is None:
            return Mended(cause=words, model=replace(variant, checked=True), options=options)
        # The classes of the reloaded model are in another order than the logits, so it is not
        # handed out.
        return Mended(cause=fit.described(words), model=None, options=options)
    return None


def variants(model: BagClassifier) -> Iterator[dict[str, Any]]:
    """Yield alternative options for the same file: one changed option, or two that belong
    together.
    """
    if model.reload is None:
        return
    names = LAYOUTS[model.layout].options
    values = {name: OPTIONS[name].tried for name in names}
    if "num_heads" in names:
        values["num_heads"] = _possible_heads(model.reload)
    singles = [{name: value} for name in names for value in values[name]]
    yield from singles
    for count in values.get("num_heads", ()):
        yield from ({"num_heads": count, **other} for other in singles if "num_heads" not in other)
    if "head_activation" in names:
        yield from _variants_of_head(names)
    if "last_activation" in names and len(model.network.embed) > 1:
        for inner, last in itertools.permutations(EMBEDDING_ACTIVATIONS, 2):
            yield {"embed_activation": inner, "last_activation": last}


def _possible_heads(reload: Callable[..., BagClassifier]) -> tuple[int, ...]:
    """Return the numbers of heads with which the file can be read: the divisors of the width of its
    queries.
    """
    possible = []
    # The largest number of heads that is tried, that of the largest published networks.
    most_heads = 64
    # The builder knows which numbers divide the width, so each one is tried.
    for count in range(1, most_heads + 1):
        try:
            reload(num_heads=count)
        except ValueError:
            continue
        possible.append(count)
    return tuple(possible)


def _variants_of_head(names: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield options of layers after the pooling that belong together."""
    for slope in OPTIONS["negative_slope"].tried:
        yield {"head_activation": "leaky_relu", "negative_slope": slope}
    for activation in OPTIONS["head_activation"].tried:
        for other in ("embed_activation", "post_activation", "activation"):
            if other in names:
                yield {"head_activation": activation, other: activation}
                yield from (
                    {"head_activation": activation, other: value} for value in EMBEDDING_ACTIVATIONS
                )
