"""Classifiers of bags: attention pooling over instances, explained exactly.

A network of `bag_network.py` gives each instance a log-mass per attention head and a value per class, and its logits
are softmax-weighted means: a `PooledGame` whose players are the instances, or regions of them. An absent instance is
deleted from the bag. The value of a bag without instances is the bias of the last layer, as for a pooled vector of
zeros (another choice f0' shifts each of d Shapley values by (f0 - f0')/d). Only the heads that the explained output
needs enter its game: one if the classes share an attention, two for a margin of CLAM-MB.

A state dict does not contain activations, the temperature of a softmax or the number of heads. Every output reports
what a layout assumes until `BagClassifier.check` has compared the logits of several bags with those of the user's
network. If they differ, the check tries other values of these options and takes those that fit best. One bag is not
enough, because explanations evaluate sub-bags: a temperature that depends on the size of the bag agrees on one size.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._arrays import finite, softmax
from ..._types import Array, Ids
from ...game.scores import PooledScores
from ...slalom.recover import BlackBox
from ..files.arrays import read_state
from .bag import Bag, as_bag
from .bag_network import GRADIENT_SCORES, Attention, BagNetwork, gradient_scores, sigmoid
from .black_box import BATCH, CHECKS, DEVIATION, measure_deviation
from .layouts import LAYOUTS, OPTIONS, assumptions, network_from_state, renamed
from .protocol import BagModel
from .target import Target
from .units import Units

# Random sub-bags of each bag on which a check evaluates a callable network.
SUB_BAGS = 4


# Kinds of outputs, each with its loss (see `Model`) and the default name of a single output.
HEADS: dict[str, tuple[str, tuple[str, ...]]] = {
    "classes": (
        "softmax",
        (),
    ),  # mutually exclusive classes; a single logit is that of the second of two
    "labels": ("sigmoid", ("label",)),  # several labels at once, each with a probability
    "ordinal": (
        "sigmoid",
        (),
    ),  # cumulative logits of ordered grades: the probability of more than each grade
    "regression": ("identity", ("value",)),  # numbers, explained without a link
    "survival": ("exp", ("risk",)),  # the log-risk of a Cox model, explained as the risk exp(f)
}


@dataclass(frozen=True)
class BagCheck:
    """Result of `BagClassifier.check`."""

    difference: float  # the largest difference of the logits (B, C)
    agrees: bool
    cause: str  # "" if they agree within the tolerance; otherwise the change that is needed, if one was found
    ours: Array
    yours: Array
    mended: BagClassifier | None = None
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # options with which the file agrees, if there are any

    def __bool__(self) -> bool:
        return self.agrees

    @property
    def model(self) -> BagClassifier:
        """The model that agrees: the given one, or the same file with other options. Raises an error if none does."""
        if self.mended is None:
            raise ValueError(f"check: the logits differ by {self.difference:.3g}: {self.cause}")
        return self.mended

    def __repr__(self) -> str:
        if self.agrees:
            return f"BagCheck(agrees: largest difference {self.difference:.1e})"
        return f"BagCheck(differs by {self.difference:.3g}: {self.cause})"


class BagUnits(Units):
    """The instances of a bag, with the scores that a classifier derived from gradients."""

    @cached_property
    def gradients(self) -> dict[tuple[float, ...], dict[str, Array]]:
        """Scores (n,) by name, for each combination of the logits whose gradient was computed."""
        return {}


@dataclass(frozen=True, eq=False)
class BagClassifier(BagModel):
    """A bag classifier that can be explained. Load one with `from_state_dict`, or pass the arrays of its network.

    Attributes
    ----------
    network : BagNetwork
    outputs : names of the C classes; two names where C = 1 (the logit is the log-odds of the second), or one name for
        an output without a probability, such as ("age",)
    loss : meaning of the outputs, see `Model`; each entry of `HEADS` has one
    temperature : divides the logits in probabilities only
    layout : name of the layout with which the file was read
    deviation : largest difference from the black box on random sub-bags, if it was made from one
    bag : the only bag (with its sub-bags) that a model made by `from_attention` explains
    reload : function that loads the same file with other options, or None
    assumed : options that were neither stored in the file nor given, such as "tanh attention, temperature 1"
    checked : whether the logits of the user's network agreed; until then `doubts` lists what is assumed

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> attention = Attention(w=rng.normal(size=(1, 5)))  # without a hidden layer
    >>> model = BagClassifier(BagNetwork(attention, rng.normal(size=(2, 5)), [0.5, -0.5]), ("normal", "tumor"))
    >>> model
    BagClassifier(arrays: D=5, H=1, outputs=('normal', 'tumor'); the empty bag has the bias)
    >>> bag = rng.normal(size=(7, 5))
    >>> model.predict([bag, bag[:2]]).tolist(), model.predict_logits([bag]).shape, model.predict_proba([bag]).shape
    (['normal', 'tumor'], (1, 2), (1, 2))
    >>> values = model.explain(bag, "shapley", output="tumor")["shapley"]
    >>> bool(np.isclose(values.base_value + values.scores.sum(), model.predict_proba([bag])[0, 1]))
    True
    """

    network: BagNetwork
    outputs: tuple[str, ...] = ()
    temperature: float = 1.0
    layout: str = "arrays"
    deviation: float | None = None
    bag: Bag | None = None
    reload: Callable[..., BagClassifier] | None = None
    assumed: str = ""
    checked: bool = False
    loss: str = "softmax"

    groupings = ("instances", "regions")
    absences = ("deleted",)

    def __post_init__(self) -> None:
        self.name_outputs(self.network.C)
        if self.loss == "softmax" and len(self.outputs) == 1:
            object.__setattr__(self, "loss", "identity")

    @classmethod
    def from_state_dict(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        layout: str = "auto",
        outputs: Sequence[str] | None = None,
        temperature: float = 1.0,
        checked: bool = False,
        roles: Mapping[str, Any] | None = None,
        head: str = "classes",
        **options: Any,
    ) -> BagClassifier:
        """Load the classifier of a saved network: a file, a mapping of names to arrays or tensors, or a torch module.

        Parameters
        ----------
        source : a `.pt`, `.pth`, `.ckpt`, `.safetensors` or `.npz` file, a state dict, or a module that has one
        layout : "auto" to recognize the network by names and shapes, or a name in `layouts.LAYOUTS`
        outputs : names of the classes, in the order of the last layer; by default those in the file, or "0", "1", ...
            Of ordered grades, either all grades or one name per output
        head : meaning of the outputs: "classes", "labels" (each with a probability), "ordinal" (cumulative logits),
            "regression" (explained without a link) or "survival" (log-risks, explained as risks); see `HEADS`
        options : options of the layout that a file does not store, such as `activation`, `attention_temperature` or
            `num_heads`; defaults are those of the network's code. `check` compares with the logits of your network
        roles : for networks with other names, the layers that serve as `embed`, `V`, `U`, `w` and `classifier`
            (`layouts.ROLES`), and optionally a mapping `options`
        checked : whether these options are known to be correct, so that they are not reported as assumed

        An error names the file and states why it cannot be read or is not a pooled game.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"linear_layers.0.0": (5, 7), "attention.0": (3, 5), "attention.2": (1, 3), "classifier": (2, 5)}
        >>> state = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
        >>> BagClassifier.from_state_dict(state, outputs=["normal", "tumor"])
        BagClassifier(xmil: D=7, H=1, outputs=('normal', 'tumor'); assumed: tanh attention, ReLU embedding, \
temperature 1 (not checked))
        """
        state = read_state(source.state_dict() if hasattr(source, "state_dict") else source)
        if roles is not None:
            options = {**roles.get("options", {}), **options}
            state = renamed(
                state, {role: name for role, name in roles.items() if role != "options"}
            )
            layout = "roles"
        options = {**state.options, **options}
        network, layout = network_from_state(state, layout, options)
        if head not in HEADS:
            raise ValueError(f"head: expected one of {', '.join(HEADS)}, got {head!r}")
        loss, default = HEADS[head]
        names = tuple(outputs or state.outputs) or (default if network.C == 1 else ())
        reload = functools.partial(
            cls.from_state_dict, state.arrays, layout, names, temperature, head=head, **options
        )
        if head == "ordinal" and len(names) == network.C + 1:
            names = tuple(f"above {grade}" for grade in names[:-1])
        if head != "classes" and names and len(names) != network.C:
            raise ValueError(
                f"outputs: expected {network.C} names for head {head!r}, got {len(names)}: {names}"
            )
        assumed = assumptions(network, layout, options)
        return cls(
            network,
            names,
            temperature,
            layout,
            reload=reload,
            assumed=assumed,
            checked=checked,
            loss=loss,
        )

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
        """Build the classifier of one bag from the outputs of a network in any framework; no layout is needed.

        Parameters
        ----------
        raw_attention : (n,) attention before the softmax; (C, n) if each class has a separate attention
        instance_logits : (n,) or (n, C) logits of the n bags of one instance each
        f : takes a list of index arrays (sub-bags) and returns their (m,) or (m, C) logits. The deviation is measured
            on `checks` random sub-bags. If it exceeds `tol` times the largest |logit|, the model is not a pooled game,
            and an error is raised. With None nothing is checked, which every output reports
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
        H = len(s)
        C = v.shape[1]
        shift = np.broadcast_to(finite("bias", bias), (C,))
        heads = np.zeros(C, dtype=np.intp) if H == 1 else np.arange(C)
        deviation = (
            None if f is None else measure_deviation(f, s, v, heads, batch_size, checks, tol, seed)
        )
        # A network whose features are the scores themselves: log-masses, then values without the bias.
        network = BagNetwork(
            Attention(np.eye(H + C)[:H]), np.eye(H + C)[H:], shift, value_head=heads
        )
        bag = Bag(np.concatenate([s.T, v - shift], axis=1), coords, ids)  # type: ignore[arg-type]  # which it converts
        assumed = "one softmax over the instances" if f is None else ""
        return cls(
            network,
            tuple(outputs or ()),
            layout="attention",
            deviation=deviation,
            bag=bag,
            assumed=assumed,
        )

    def read(self, raw: Any) -> Units:
        """Read a bag from a `Bag`, an array (n, D) or (1, n, D), or the path of a file."""
        bag = as_bag(raw)
        groups: dict[str, Ids] = {"instances": np.arange(len(bag))}
        names: dict[str, tuple[str, ...]] = {}
        if (regions := bag.region_numbers()) is not None:
            groups["regions"], names["regions"] = regions
        attrs = {**bag.attrs, "patch_size": bag.patch_size}
        return BagUnits(
            bag.labels, groups, data=bag, coords=bag.coords, attrs=attrs, group_labels=names
        )

    def scores(self, units: Units) -> PooledScores:
        """Return the log-masses and values of the instances."""
        return self.network.scores(units.data.features)

    def inside(self, name: str, units: Units, target: Target) -> Any:
        """Return attention or gradients with respect to the features by method name, or None for other names."""
        if (
            name not in GRADIENT_SCORES or self.bag is not None
        ):  # the gradient with respect to scores is of no interest
            return super().inside(name, units, target)
        return self._gradients(units, target.coefficients)[name]

    def _gradients(self, units: Units, coefficients: tuple[float, ...]) -> dict[str, Array]:
        """Return all scores from the gradient of an output, computed once per bag and output."""
        assert isinstance(units, BagUnits)
        gradients = units.gradients
        if coefficients not in gradients:
            gradients[coefficients] = gradient_scores(
                self.network, units.data.features, self.pooled(units), coefficients
            )
        return gradients[coefficients]

    @property
    def doubts(self) -> str:  # type: ignore[override]
        """Unchecked assumptions about the file; "" if there are none."""
        return f"assumed: {self.assumed} (not checked)" if self.assumed and not self.checked else ""

    def check(
        self,
        bags: Sequence[Any],
        logits: ArrayLike | Callable[[list[Array]], ArrayLike],
        tol: float = 1e-4,
        seed: int = 0,
    ) -> BagCheck:
        """Compare with the logits of your network for some bags, and find the cause of a difference.

        If the logits agree, `BagCheck.model` is this model without doubts; otherwise it has the options that fit best.
        This model itself does not change.

        Parameters
        ----------
        bags : at least two bags of different size, each of two instances or more, preferably small
        logits : (B, C) outputs of your network before any softmax or sigmoid; or your network as a function of a list
            of features (n, D), which is then evaluated on random sub-bags as well
        tol : largest difference that counts as agreement, relative to the largest |logit|
        seed : seed of the sub-bags

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"linear_layers.0.0": (5, 7), "attention.0": (3, 5), "attention.2": (1, 3), "classifier": (2, 5)}
        >>> state = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
        >>> bags = [rng.normal(size=(6, 7)), rng.normal(size=(9, 7))]
        >>> yours = BagClassifier.from_state_dict(state, activation="relu").predict_logits(bags)
        >>> result = BagClassifier.from_state_dict(state).check(bags, yours)
        >>> result.cause.split(";")[0], result.options
        ("load with activation='relu'", {'activation': 'relu'})
        >>> result.model
        BagClassifier(xmil: D=7, H=1, outputs=('0', '1'); the empty bag has the bias)
        """
        single = isinstance(bags, Bag | str | os.PathLike) or getattr(bags, "ndim", 0) == 2
        several = [as_bag(raw) for raw in ([bags] if single else bags)]
        places = (
            self.network.size is not None
        )  # then all bags have one size, and the network takes no sub-bags
        if callable(logits):
            rng = np.random.default_rng(seed)
            sizes = [
                (bag, rng.integers(2, len(bag), SUB_BAGS))
                for bag in several
                if len(bag) > 2 and not places
            ]
            parts = [
                bag.subset(rng.permutation(len(bag))[:n]) for bag, lengths in sizes for n in lengths
            ]
            several += parts
            logits = logits([bag.features for bag in several])
        if (
            min(map(len, several)) < 2
            or len(several if places else {len(bag) for bag in several}) < 2
        ):
            raise ValueError(
                "bags: expected at least two bags of different size, of two instances or more: one instance reveals "
                f"nothing about attention, and one size nothing about sub-bags; got {[len(bag) for bag in several]}"
            )
        yours = finite("logits", logits)
        yours = yours.reshape(len(several), -1) if yours.size % len(several) == 0 else yours
        ours = self.predict_logits(several)
        if yours.shape != ours.shape:
            cause = f"the shape: expected {ours.shape}, one row per bag and one column per class, got {yours.shape}"
            return BagCheck(float("inf"), False, cause, ours, yours)
        limit = tol * max(1e-3, float(np.abs(yours).max()), float(np.abs(ours).max()))
        difference = float(np.abs(ours - yours).max())
        if difference <= limit:
            return BagCheck(difference, True, "", ours, yours, replace(self, checked=True))
        cause, mended, options = _cause(self, several, ours, yours, limit)
        return BagCheck(difference, False, cause, ours, yours, mended, options)

    def __repr__(self) -> str:
        checked = (
            "" if self.deviation is None else f"; within {self.deviation:.1e} of the black box"
        )
        sizes = f"D={self.network.D}, H={self.network.H}"
        empty = "the bias" if self.network.background is None else "the class token"
        facts = self.doubts or f"the empty bag has {empty}{checked}"
        return f"BagClassifier({self.layout}: {sizes}, outputs={self.outputs}; {facts})"


def _cause(
    model: BagClassifier, bags: list[Bag], ours: Array, yours: Array, limit: float
) -> tuple[str, BagClassifier | None, dict[str, Any]]:
    """Describe the change that brings the logits closest to yours; also return the changed model and its options."""
    same = np.arange(yours.shape[1])
    everything = np.arange(len(bags))

    def fits(logits: Array, rows: Ids) -> tuple[float, Ids]:
        """Return the largest difference in some rows for the better of two orders of the classes, and that order."""
        ranks = np.argsort(np.argsort(yours[rows[0]], kind="stable"))
        by_rank = np.argsort(logits[0], kind="stable")[ranks]
        differences = [
            float(np.abs(logits[:, classes] - yours[rows]).max()) for classes in (same, by_rank)
        ]
        return min(differences), by_rank if differences[1] < differences[0] else same

    def described(words: str, classes: Ids) -> str:
        order = f"the order of the classes: yours are the classes {classes.tolist()} of this model"
        return " and ".join(filter(None, (words, "" if classes is same else order)))

    chances = softmax(ours) if ours.shape[1] > 1 else sigmoid(ours)
    for words, logits in (
        ("", ours),
        ("these are probabilities; pass the logits before the softmax or sigmoid", chances),
        (
            "the sign: your logits are those of this model times -1 (perhaps those of the other class)",
            -ours,
        ),
        ("the bias of the last layer: your logits are without it", ours - model.network.bias),
    ):
        difference, classes = fits(logits, everything)
        if difference <= limit:
            return described(words, classes), None, {}
    first = np.argsort([len(bag) for bag in bags], kind="stable")[
        :2
    ]  # variants are tried on the two smallest bags
    trials = []
    for options in variants(model):
        try:
            variant = model.reload(**options)  # type: ignore[misc]  # there are variants of reloaded models only
            trials.append(
                (fits(variant.predict_logits([bags[i] for i in first]), first)[0], options, variant)
            )
        except ValueError:  # a variant that cannot read the features
            continue
    for difference, options, variant in sorted(trials, key=lambda trial: trial[0])[:3]:
        if difference > limit:
            break
        difference, classes = fits(variant.predict_logits(bags), everything)
        if difference <= limit:
            told = ", ".join(f"{name}={value!r}" for name, value in options.items())
            words = f"load with {told}; then the largest difference is {difference:.1e}"
            return (
                described(words, classes),
                replace(variant, checked=True) if classes is same else None,
                options,
            )
    return (
        "no activation, gate, temperature, number of heads or class order among those tried explains it. Check "
        "the weights, the features, whether dropout is on, or whether the network is not a pooled game",
        None,
        {},
    )


def variants(model: BagClassifier) -> Iterator[dict[str, Any]]:
    """Yield alternative options for the same file: one changed option, or two changed activations."""
    names = LAYOUTS[model.layout].options if model.reload is not None else ()
    width = model.network.readout.shape[1]
    for name in names:
        values = OPTIONS[name].tried
        if name == "num_heads":
            values = tuple(count for count in range(1, width + 1) if width % count == 0)
        yield from ({name: value} for value in values)
    if "last_activation" in names and len(model.network.embed) > 1:
        for inner, last in itertools.permutations(("relu", "gelu", "tanh", "identity"), 2):
            yield {"embed_activation": inner, "last_activation": last}
