"""Classifiers of bags: attention pooling over instances, explained exactly.

A network of `bag_network.py` gives each instance a log-mass per attention head and a value per
class, and its logits are softmax-weighted means: a `PooledGame` whose players are the instances, or
regions of them. An absent instance is deleted from the bag. The value of a bag without instances is
the bias of the last layer, as for a pooled vector of zeros (another choice f0' shifts each of d
Shapley values by (f0 - f0')/d). Only the heads that the explained output needs enter its game: one
if the classes share an attention, two for a margin of CLAM-MB.

A state dict does not contain activations, the temperature of a softmax or the number of heads.
Every output reports what a layout assumes until `BagClassifier.check` has compared the logits of
several bags with those of the user's network. If they differ, the check tries other values of these
options and takes those that fit best. One bag is not enough, because explanations evaluate
sub-bags: a temperature that depends on the size of the bag agrees on one size.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._arrays import check, choice, finite
from ..._shapes import axis_sizes
from ..._types import Array, Ids, Label
from ...game.hidden_layer import HiddenLayer
from ...game.scores import PooledScores
from ...game.tails import Tail
from ...slalom.recover import BlackBox
from ..files.arrays import read_state
from .bag import Bag, as_bag
from .bag_check import BagCheck, compare
from .bag_network import GRADIENT_SCORES, Attention, BagNetwork, gradient_scores
from .black_box import CHECKS, COALITIONS_AT_ONCE, DEVIATION, measure_deviation
from .layouts import assumptions, network_from_state, renamed
from .protocol import BagModel
from .tail import as_hidden_layer
from .target import Target
from .units import Units

# The axes of the arguments of `from_attention`: n instances, C classes, H heads.
ATTENTION_AXES: dict[str, tuple[str, ...]] = {
    "instance_logits": ("n", "C"),
    "raw_attention": ("H", "n"),
}
# Kinds of outputs, each with its loss (see `Model`) and the default name of a single output.
OUTPUT_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    # Mutually exclusive classes; a single logit is that of the second of two.
    "classes": ("softmax", ()),
    # Several labels at once, each with a probability.
    "labels": ("sigmoid", ("label",)),
    # Cumulative logits of ordered grades: the probability of more than each grade.
    "ordinal": ("sigmoid", ()),
    # Numbers, explained without a link.
    "regression": ("identity", ("value",)),
    # The log-risk of a Cox model, explained as the risk exp(f).
    "survival": ("exp", ("risk",)),
}


class BagUnits(Units):
    """The instances of a bag, with the scores that a classifier derived from gradients."""

    @cached_property
    def gradients(self) -> dict[tuple[float, ...], dict[str, Array]]:
        """Scores (n,) by name, for each combination of the logits whose gradient was computed."""
        return {}


@dataclass(frozen=True, eq=False)
class BagClassifier(BagModel):
    """A bag classifier that can be explained.

    Load one with `from_state_dict`, or pass the arrays of its network.

    Attributes
    ----------
    network : BagNetwork
    outputs : names of the C classes; two names where C = 1 (the logit is the log-odds of the
        second), or one name for an output without a probability, such as ("age",)
    loss : meaning of the outputs, see `Model`; each entry of `OUTPUT_KINDS` has one
    labels : C labels that `predict` returns instead of the names, see `Model`
    temperature : divides the logits in probabilities only
    layout : name of the layout with which the file was read
    deviation : largest difference from the black box on random sub-bags, if it was made from one
    bag : the only bag (with its sub-bags) that a model made by `from_attention` explains
    reload : function that loads the same file with other options, or None
    assumed : options that were neither stored in the file nor given, such as "tanh attention,
        temperature 1"
    checked : whether the logits of the user's network agreed; until then `doubts` lists what is
        assumed

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> attention = Attention(w=rng.normal(size=(1, 5)))  # without a hidden layer
    >>> model = BagClassifier(
    ...     BagNetwork(attention, rng.normal(size=(2, 5)), [0.5, -0.5]), ("normal", "tumor")
    ... )
    >>> model
    BagClassifier(arrays: D=5, H=1, outputs=('normal', 'tumor'); the empty bag has the bias)
    >>> bag = rng.normal(size=(7, 5))
    >>> (
    ...     model.predict([bag, bag[:2]]).tolist(),
    ...     model.predict_logits([bag]).shape,
    ...     model.predict_proba([bag]).shape,
    ... )
    (['normal', 'tumor'], (1, 2), (1, 2))
    >>> values = model.explain(bag, "shapley", output="tumor")["shapley"]
    >>> bool(np.isclose(values.baseline + values.scores.sum(), model.predict_proba([bag])[0, 1]))
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
    labels: tuple[Label, ...] = ()

    groupings = ("instances", "regions")
    absences = ("deleted",)

    def __post_init__(self) -> None:
        self.name_outputs(self.network.Q)
        # A single output with one name is a number and not one of two classes.
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
        labels: Sequence[Label] | None = None,
        **options: Any,
    ) -> BagClassifier:
        """Load the classifier of a saved network: a file, a mapping of names to arrays or tensors,
        or a torch module.

        An error names the file and states why it cannot be read or is not a pooled game.

        Parameters
        ----------
        source : a `.pt`, `.pth`, `.ckpt`, `.safetensors` or `.npz` file, a state dict, or a module
            that has one
        layout : "auto" to recognize the network by names and shapes, or a name in `layouts.LAYOUTS`
        outputs : names of the classes, in the order of the last layer; by default those in the
            file, or "0", "1", ... For ordered grades, give the names of all grades or one name per
            output
        head : meaning of the outputs: "classes", "labels" (each with a probability), "ordinal"
            (cumulative logits), "regression" (explained without a link) or "survival" (log-risks,
            explained as risks); see `OUTPUT_KINDS`
        labels : what `predict` returns for each class; by default the labels in the file, or the
            names
        options : options of the layout that a file does not store, such as `activation`,
            `attention_temperature` or `num_heads`; defaults are those of the network's code.
            `check` compares with the logits of your network
        roles : for networks with other names, the layers that serve as `embed`, `V`, `U`, `w` and
            `classifier` (`layouts.ROLES`), and optionally a mapping `options`
        checked : whether these options are known to be correct, so that they are not reported as
            assumed

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"linear_layers.0.0": (5, 7), "attention.0": (3, 5), "attention.2": (1, 3), "classifier": (2, 5)}
        >>> state = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
        >>> BagClassifier.from_state_dict(state, outputs=["normal", "tumor"])
        BagClassifier(xmil: D=7, H=1, outputs=('normal', 'tumor'); assumed: tanh attention, ReLU embedding, \
temperature 1 (not checked))
        """  # noqa: E501
        choice("head", head, OUTPUT_KINDS)
        if hasattr(source, "state_dict"):
            source = source.state_dict()
        state = read_state(source)
        if roles is not None:
            layers = dict(roles)
            options = {**layers.pop("options", {}), **options}
            state = renamed(state, layers)
            layout = "roles"
        # What the caller says has precedence over what the file says.
        options = {**state.options, **options}
        network, layout = network_from_state(state, layout, options)
        if state.heads and head not in state.heads:
            expected = " or ".join(map(repr, state.heads))
            raise ValueError(
                f"head: expected {expected}, the meaning that the outputs of {state.source} can "
                f"have, got {head!r}"
            )
        if head != "classes":
            # The meaning of the outputs was given, so it is not assumed.
            state.unsaid.pop("head", None)
        loss, name_of_single_output = OUTPUT_KINDS[head]
        names = tuple(outputs or state.outputs)
        if not names and network.Q == 1:
            names = name_of_single_output
        if labels is None:
            # The labels in a file belong to the names of the classes in it.
            labels = () if outputs else state.labels
        # The check loads the arrays with other options again, without reading the file.
        reload = functools.partial(
            cls.from_state_dict,
            state.arrays,
            layout,
            names,
            temperature,
            head=head,
            labels=labels,
            **options,
        )
        # Between K + 1 grades there are K outputs, each for more than a grade.
        if head == "ordinal" and len(names) == network.Q + 1:
            names = tuple(f"above {grade}" for grade in names[:-1])
        if head != "classes" and names:
            fits = len(names) == network.Q
            check("outputs", fits, f"{network.Q} names for head {head!r}", f"{len(names)}: {names}")
        return cls(
            network,
            names,
            temperature,
            layout,
            reload=reload,
            assumed=assumptions(network, layout, given=options, unsaid=state.unsaid),
            checked=checked,
            loss=loss,
            labels=tuple(labels),
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
        batch_size: int = COALITIONS_AT_ONCE,
        checks: int = CHECKS,
        tol: float = DEVIATION,
        seed: int = 0,
    ) -> BagClassifier:
        """Build the classifier of one bag from the outputs of a network in any framework; no layout
        is needed.

        Parameters
        ----------
        raw_attention : (n,) attention before the softmax; (C, n) if each class has a separate
            attention
        instance_logits : (n,) or (n, C) logits of the n bags of one instance each
        f : takes a list of index arrays (sub-bags) and returns their (m,) or (m, C) logits. The
            deviation is measured on `checks` random sub-bags. If it exceeds `tol` times the largest
            |logit|, the model is not a pooled game, and an error is raised. None skips the
            check, and every output reports that nothing was checked
        bias : (C,) bias of the last layer, the value of the empty bag
        coords, ids : of the instances of `bag`, which the model explains:
            `model.explain(model.bag)`

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
        if v.ndim == 1:
            v = v[:, None]
        sizes = axis_sizes({"instance_logits": v, "raw_attention": s}, ATTENTION_AXES)
        H = sizes["H"]
        C = sizes["C"]
        check(
            "raw_attention", H in (1, C), "one row, or one per class", f"{H} rows for {C} classes"
        )
        shift = np.broadcast_to(finite("bias", bias), (C,))
        heads = np.arange(C)
        if H == 1:
            heads = np.zeros(C, dtype=np.intp)
        deviation = None
        assumed = "one softmax over the instances"
        if f is not None:
            deviation = measure_deviation(f, s, v, heads, batch_size, checks, tol, seed)
            assumed = ""
        # A network whose features are the scores themselves: log-masses, then values without the
        # bias.
        network = BagNetwork(
            attention=Attention(np.eye(H + C)[:H]),
            readout=np.eye(H + C)[H:],
            bias=shift,
            value_head=heads,
        )
        bag = Bag(features=np.concatenate([s.T, v - shift], axis=1), coords=coords, ids=ids)  # type: ignore[arg-type]  # which it converts
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
        regions = bag.region_numbers()
        if regions is not None:
            groups["regions"], names["regions"] = regions
        attrs = {**bag.attrs, "patch_size": bag.patch_size}
        return BagUnits(
            bag.labels, groups, data=bag, coords=bag.coords, attrs=attrs, group_labels=names
        )

    @property
    def tail(self) -> Tail | None:
        """What follows the pooling, from pooled vectors (n, m) to logits (n, C); None if nothing
        does.
        """
        return self.network.tail

    @property
    def hidden_layer(self) -> HiddenLayer | None:
        """The tail, if it is one hidden layer with an analytic activation behind a single head."""
        layer = as_hidden_layer(self.network.tail)
        if layer is None or self.network.H != 1 or not layer.is_exact:
            return None
        return layer

    @property
    def most_heads(self) -> int:
        """The number of heads of a label, or of all classes together."""
        network = self.network
        if network.tail is not None or self.loss != "sigmoid" or network.value_head is None:
            return network.H
        classes = network.value_class
        assert classes is not None
        return max(len(np.unique(network.value_head[classes == c])) for c in range(network.C))

    def scores(self, units: Units) -> PooledScores:
        """Return the log-masses and values of the instances."""
        return self.network.scores(units.data.features)

    def inside(self, name: str, units: Units, target: Target) -> Any:
        """Return attention or gradients with respect to the features by method name, or None for
        other names.
        """
        # The gradient with respect to scores, which are the features of `from_attention`, is of no
        # interest.
        if name not in GRADIENT_SCORES or self.bag is not None:
            return super().inside(name, units, target)
        return self._gradients(units, target.coefficients)[name]

    def _gradients(self, units: Units, coefficients: tuple[float, ...]) -> dict[str, Array]:
        """Return all scores from the gradient of an output, computed once per bag and output."""
        assert isinstance(units, BagUnits)
        gradients = units.gradients
        if coefficients not in gradients:
            gradients[coefficients] = gradient_scores(
                self.network,
                units.data.features,
                scores=self.pooled(units),
                coefficients=coefficients,
            )
        return gradients[coefficients]

    @property
    def doubts(self) -> str:  # type: ignore[override]
        """Unchecked assumptions about the file; "" if there are none."""
        if self.checked or not self.assumed:
            return ""
        return f"assumed: {self.assumed} (not checked)"

    def check(
        self,
        bags: Sequence[Any],
        logits: ArrayLike | Callable[[list[Array]], ArrayLike],
        tol: float = 1e-4,
        seed: int = 0,
    ) -> BagCheck:
        """Compare with the logits of your network for some bags, and find the cause of a
        difference.

        If the logits agree, `BagCheck.model` is this model without doubts; otherwise it has the
        options that fit best. This model itself does not change.

        Parameters
        ----------
        bags : at least two bags of different size, each of two instances or more, preferably small
        logits : (B, C) outputs of your network before any softmax or sigmoid; or your network as a
            function of a list of features (n, D), which is then evaluated on random sub-bags as
            well
        tol : largest difference that counts as agreement, relative to the largest |logit|
        seed : seed of the sub-bags

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> shapes = {
        ...     "linear_layers.0.0": (5, 7),
        ...     "attention.0": (3, 5),
        ...     "attention.2": (1, 3),
        ...     "classifier": (2, 5),
        ... }
        >>> state = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
        >>> bags = [rng.normal(size=(6, 7)), rng.normal(size=(9, 7))]
        >>> yours = BagClassifier.from_state_dict(state, activation="relu").predict_logits(bags)
        >>> result = BagClassifier.from_state_dict(state).check(bags, yours)
        >>> result.cause.split(";")[0], result.options
        ("load with activation='relu'", {'activation': 'relu'})
        >>> result.model
        BagClassifier(xmil: D=7, H=1, outputs=('0', '1'); the empty bag has the bias)
        """
        return compare(self, bags, logits, tol, seed)

    def __repr__(self) -> str:
        network = self.network
        empty = "the bias"
        if network.background is not None:
            empty = "the class token"
        facts = self.doubts or f"the empty bag has {empty}"
        if self.deviation is not None and not self.doubts:
            facts += f"; within {self.deviation:.1e} of the black box"
        sizes = f"D={network.D}, H={network.H}"
        if network.tail is not None:
            sizes += f", tail={network.tail!r}"
        return f"BagClassifier({self.layout}: {sizes}, outputs={self.outputs}; {facts})"
