"""Classifiers of bags: attention pooling over instances, explained exactly.

A network of `bag_network.py` gives each instance a log-mass per attention head and a value per class, and its logits
are softmax-weighted means: a `PooledGame` whose players are the instances, or regions of them. An absent instance is
deleted from the bag. A bag without instances has nothing to pool; its value is the bias of the last layer, which is
what a pooled vector of zeros would give (another choice f0' shifts each of d Shapley values by (f0 - f0')/d). Only the
heads that the explained output needs enter its game: one where classes share an attention, two for a margin of
CLAM-MB.

A state dict holds no activations, no temperature of a softmax and no number of heads. `BagClassifier.check` compares
the logits of one bag with those of the user's own network and, where they differ, tries what the file may have left
out; the variant that agrees is the likely cause.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import finite, softmax
from .._types import Array, Ids
from ..files.arrays import read_state
from ..slalom.recover import BlackBox
from .bag import Bag, as_bag
from .bag_network import ACTIVATIONS, GRADIENT_SCORES, Attention, BagNetwork, gradient_scores, sigmoid
from .black_box import BATCH, CHECKS, DEVIATION, measure_deviation
from .layouts import LAYOUTS, network_from_state
from .protocol import Model, Resolved, Units
from .scores import PooledScores

# Factors of the temperature of the attention that the self-check tries.
TEMPERATURES = (0.05, 0.1, 0.2, 0.25, 0.5, 0.75, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0, 16.0, 20.0, 100.0)


@dataclass(frozen=True)
class BagCheck:
    """Result of `BagClassifier.check`: the largest |ours - yours| over the logits (C,), and its cause.

    The cause is "" where they agree within the tolerance; else what to change, or that nothing tried helps.
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


@dataclass(frozen=True, eq=False)
class BagClassifier(Model):
    """A bag classifier that can be explained. Load one with `from_state_dict`, or give the arrays of its network.

    Attributes
    ----------
    network : BagNetwork
    outputs : names of the C classes; two names where C = 1 (the logit is the log-odds of the second), or ("risk",)
        for an output without a probability, such as a Cox risk
    temperature : divides the logits in probabilities only
    layout : which loader made it
    deviation : largest difference from the black box on random sub-bags, where it was made from one
    bag : the bag of scores of a model made by `from_attention`, which explains this bag and its sub-bags
    other_heads : the same file with another `num_heads`, where the file does not say it

    Examples
    --------
    >>> from attn_closed_form.models.bag_network import Attention, Layer
    >>> rng = np.random.default_rng(0)
    >>> network = BagNetwork(
    ...     Attention(w=rng.normal(size=(1, 3)), hidden=Layer(rng.normal(size=(3, 5)), activation="tanh")),
    ...     readout=rng.normal(size=(2, 5)),
    ...     bias=[0.5, -0.5],
    ... )
    >>> model = BagClassifier(network, outputs=("normal", "tumour"))
    >>> model
    BagClassifier(arrays: D=5, H=1, outputs=('normal', 'tumour'); the empty bag has the bias)
    >>> bag = rng.normal(size=(7, 5))
    >>> model.predict([bag, bag[:2]]).tolist(), model.predict_logits([bag]).shape, model.predict_proba([bag]).shape
    (['normal', 'normal'], (1, 2), (1, 2))
    >>> values = model.explain(bag, "shapley", output="tumour")["shapley"]
    >>> bool(np.isclose(values.base_value + values.scores.sum(), model.predict_proba([bag])[0, 1]))
    True
    """

    network: BagNetwork
    outputs: tuple[str, ...] = ()
    temperature: float = 1.0
    layout: str = "arrays"
    deviation: float | None = None
    bag: Bag | None = None
    other_heads: Callable[..., BagClassifier] | None = None

    reads = "a bag"
    groupings = ("instances", "regions")
    absences = ("deleted",)

    def __post_init__(self) -> None:
        self.name_outputs(self.network.C)

    @classmethod
    def from_state_dict(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        layout: str = "auto",
        outputs: Sequence[str] | None = None,
        temperature: float = 1.0,
        **options: Any,
    ) -> BagClassifier:
        """Classifier of a saved network: a file, or a mapping of names to arrays or torch tensors.

        Parameters
        ----------
        source : a `.pt`, `.pth`, `.ckpt`, `.safetensors` or `.npz` file, or a state dict
        layout : "auto" recognises the network by its names and shapes; `layouts.LAYOUTS` has the others
        outputs : names of the classes, in the order of the last layer; ("risk",) for a Cox risk; default: those in the
            file, if it has any, else "0", "1", ...
        options : what a file does not say and the layout takes, such as `activation`, `attention_temperature` or
            `num_heads`; defaults are those of the network's own code. `check` compares with a logit of your network

        Raises
        ------
        FileNotFoundError, ImportError, ValueError
            one line: which file, and why it cannot be read or is no pooled game

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"linear_layers.0.0": (5, 7), "attention.0": (3, 5), "attention.2": (1, 3), "classifier": (2, 5)}
        >>> state = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
        >>> BagClassifier.from_state_dict(state, outputs=["normal", "tumour"])
        BagClassifier(xmil: D=7, H=1, outputs=('normal', 'tumour'); the empty bag has the bias)
        """
        state = read_state(source)
        arrays = state.arrays
        network, layout = network_from_state(state, layout, options)
        again = None
        if "num_heads" in LAYOUTS[layout].options:
            others = {key: value for key, value in options.items() if key != "num_heads"}
            again = functools.partial(cls.from_state_dict, arrays, layout, outputs, temperature, **others)
        return cls(network, tuple(outputs or state.outputs), temperature, layout, other_heads=again)

    @classmethod
    def from_attention(
        cls,
        raw_attention: ArrayLike,
        instance_logits: ArrayLike,
        f: BlackBox | None = None,
        *,
        bias: ArrayLike = 0.0,
        outputs: Sequence[str] | None = None,
        coords: ArrayLike | None = None,
        ids: Sequence[str] | None = None,
        batch_size: int = BATCH,
        checks: int = CHECKS,
        tol: float = DEVIATION,
        seed: int = 0,
    ) -> BagClassifier:
        """Classifier of one bag from what any framework's network returns for it; no layout is needed.

        Parameters
        ----------
        raw_attention : (n,) attention before the softmax; (C, n) where each class has an attention of its own
        instance_logits : (n,) or (n, C) logits of the n bags of one instance each
        f : takes a list of index arrays (sub-bags), returns their (m,) or (m, C) logits. On `checks` random sub-bags
            the deviation is measured; above `tol` times the largest |logit| the model is no pooled game, an error.
            None checks nothing, and `deviation` stays None
        bias : (C,) bias of the last layer, the value of the empty bag
        coords, ids : of the instances of `bag`, which the model explains: `model.explain(model.bag)`

        Examples
        --------
        >>> s, v = np.array([0.0, 1.0, -2.0]), np.array([1.0, -1.0, 3.0])
        >>> pooled = lambda bags: [np.exp(s[b]) @ v[b] / np.exp(s[b]).sum() for b in bags]
        >>> model = BagClassifier.from_attention(s, v, pooled)
        >>> bool(model.deviation < 1e-12), model.predict_logits([model.bag]).round(3)
        (True, array([[-0.341]]))
        """
        s = np.atleast_2d(finite("raw_attention", raw_attention))
        v = finite("instance_logits", instance_logits)
        v = v[:, None] if v.ndim == 1 else v
        if v.ndim != 2 or s.ndim != 2 or s.shape[1] != len(v) or len(s) not in (1, v.shape[1]):
            raise ValueError(
                f"raw_attention: expected shape (n,) or (C, n) for instance_logits (n, C) = {v.shape}, got {s.shape}"
            )
        H, C = len(s), v.shape[1]
        shift = np.broadcast_to(finite("bias", bias), (C,))
        heads = np.zeros(C, dtype=np.intp) if H == 1 else np.arange(C)
        deviation = None if f is None else measure_deviation(f, s, v, heads, batch_size, checks, tol, seed)
        # A network whose features are the scores themselves: log-masses, then values without the bias.
        network = BagNetwork(Attention(np.eye(H + C)[:H]), np.eye(H + C)[H:], shift, value_head=heads)
        bag = Bag(np.concatenate([s.T, v - shift], axis=1), coords, ids)  # type: ignore[arg-type]  # which it converts
        return cls(network, tuple(outputs or ()), layout="attention", deviation=deviation, bag=bag)

    def read(self, raw: Any) -> Units:
        """Read a bag: a `Bag`, an array (n, D) or (1, n, D), or the path of a file."""
        bag = as_bag(raw)
        groups: dict[str, Ids] = {"instances": np.arange(len(bag))}
        names: dict[str, tuple[str, ...]] = {}
        if (regions := bag.region_numbers()) is not None:
            groups["regions"], names["regions"] = regions
        attrs = {**bag.attrs, "patch_size": bag.patch_size}
        return Units(bag.labels, groups, data=bag, coords=bag.coords, attrs=attrs, group_labels=names)

    def scores(self, units: Units) -> PooledScores:
        """Log-masses and values of the instances."""
        return self.network.scores(units.data.features)

    def inside(self, name: str, units: Units, settings: Resolved) -> Any:
        """Attention and gradients by the features, by the names of their methods; None for other names."""
        if name not in GRADIENT_SCORES or self.bag is not None:  # features that are scores have no gradient of interest
            return super().inside(name, units, settings)
        inputs = self.network, units.data.features, self.pooled(units), settings.coefficients
        return units.cached(("gradients", settings.coefficients), lambda: gradient_scores(*inputs))[name]

    def check(self, raw: Any, logits: ArrayLike, tol: float = 1e-4) -> BagCheck:
        """Compare with the logits that your own network gives for a bag, and find the cause of a difference.

        The cause may be an activation, a gate, a temperature, the number of heads, the order of the classes,
        probabilities in place of logits, scaled features, or none of these.

        Parameters
        ----------
        raw : a bag, best a small one
        logits : (C,) what your network gives for it, before any softmax or sigmoid
        tol : largest difference that counts as agreement, relative to the largest |logit|

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"linear_layers.0.0": (5, 7), "attention.0": (3, 5), "attention.2": (1, 3), "classifier": (2, 5)}
        >>> state = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
        >>> bag = rng.normal(size=(6, 7))
        >>> yours = BagClassifier.from_state_dict(state, activation="relu").predict_logits([bag])[0]
        >>> BagClassifier.from_state_dict(state).check(bag, yours).cause.split(";")[0]
        "the activation of the attention: load with activation='relu'"
        """
        bag = as_bag(raw)
        yours = finite("logits", logits).reshape(-1)
        ours = self.predict_logits([bag])[0]
        if yours.shape != ours.shape:
            cause = f"the number of classes: the file has {ours.size}, you gave {yours.size}"
            return BagCheck(float("inf"), False, cause, ours, yours)
        limit = tol * max(1e-3, float(np.abs(yours).max()), float(np.abs(ours).max()))
        difference = float(np.abs(ours - yours).max())
        agrees = difference <= limit
        return BagCheck(difference, agrees, "" if agrees else _cause(self, bag, ours, yours, limit), ours, yours)

    def __repr__(self) -> str:
        checked = "" if self.deviation is None else f"; within {self.deviation:.1e} of the black box"
        sizes = f"D={self.network.D}, H={self.network.H}"
        return f"BagClassifier({self.layout}: {sizes}, outputs={self.outputs}; the empty bag has the bias{checked})"


def _cause(model: BagClassifier, bag: Bag, ours: Array, yours: Array, limit: float) -> str:
    """The first change that makes our logits yours, perhaps with the classes in another order."""
    b = np.argsort(yours, kind="stable")
    for cause, logits in _changes(model, bag, ours):
        if np.abs(logits - yours).max() <= limit:
            return f"{cause}; then the largest difference is {np.abs(logits - yours).max():.1e}"
        a = np.argsort(logits, kind="stable")
        if np.abs(logits[a] - yours[b]).max() <= limit:
            order = f"the order of the classes: yours are our classes {a[np.argsort(b)].tolist()}"
            return f"{cause}, and {order}" if cause else order
    return (
        "no activation, gate, temperature, number of heads or order of the classes that was tried explains it; look "
        "for other weights, other features, or dropout left on"
    )


def _changes(model: BagClassifier, bag: Bag, ours: Array) -> Iterator[tuple[str, Array]]:
    """Causes and the logits that they would give, the likeliest first."""
    yield "", ours
    chances = softmax(ours) if ours.size > 1 else sigmoid(ours)
    yield "you gave probabilities; give the logits before the softmax or sigmoid", chances
    yield "the sign: your logits are ours times -1 (the other class of a binary network?)", -ours
    yield "the bias of the last layer: your logits are without it", ours - model.network.bias
    for cause, variant, features in _variants(model, bag):
        yield cause, variant.predict_logits([features])[0]


def _variants(model: BagClassifier, bag: Bag) -> Iterator[tuple[str, BagClassifier, Bag]]:
    """Networks that the same file could mean, the likeliest first."""
    network, attention, layers = model.network, model.network.attention, model.network.embed

    def changed(base: BagClassifier, **changes: Any) -> BagClassifier:
        return replace(base, network=replace(base.network, **changes))

    shallow, embedded = model, bag
    if layers and network.positions is None:  # most variants differ after the embedding
        h = np.concatenate([network.embedded(network.inputs(bag.features, rows)) for rows in network.chunks(len(bag))])
        shallow, embedded = changed(model, embed=()), Bag(h)
    for option, part in (("activation", "hidden"), ("gate", "gate")):
        layer = getattr(attention, part)
        for name in ACTIVATIONS if layer is not None else ():
            variant = replace(attention, **{part: replace(layer, activation=name)})
            cause = f"the {option} of the attention: load with {option}={name!r}"
            yield cause, changed(shallow, attention=variant), embedded
    for temperature in (factor * attention.temperature for factor in TEMPERATURES):
        cause = f"the temperature of the attention: load with attention_temperature={temperature:g}"
        yield cause, changed(shallow, attention=replace(attention, temperature=temperature)), embedded
    if model.other_heads is not None:
        width = network.readout.shape[1]
        for count in (count for count in range(1, width + 1) if width % count == 0):
            yield f"the number of heads: load with num_heads={count}", model.other_heads(num_heads=count), bag
    # A last layer without an activation keeps none.
    end = len(layers) - (len(layers) > 1 and layers[-1].activation == "identity")
    for name in ACTIVATIONS if layers else ():
        embed = (*(replace(layer, activation=name) for layer in layers[:end]), *layers[end:])
        yield f"the activation of the embedding: load with embed_activation={name!r}", changed(model, embed=embed), bag
    size = np.linalg.norm(np.asarray(bag.features, dtype=np.float64), axis=1, keepdims=True)
    unit = Bag(bag.features / np.where(size == 0, 1.0, size))
    yield "the features: your network gets them scaled to length 1", model, unit
