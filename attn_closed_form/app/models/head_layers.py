"""Layers after the pooling, read from the names in a state dict: a linear layer, or the numbered
layers of a module.

PyTorch numbers the modules of an `nn.Sequential`, and a module without weights has no name in the
file: "classifier.0" and "classifier.2" are two linear layers with something between them. That is
an activation (the option `head_activation`), or dropout, which does nothing in evaluation mode
(`head_activation="identity"`). If no number is missing between two linear layers, nothing is
between them in an `nn.Sequential`, but the code of an `nn.ModuleList` may have an activation there
(`adjacent_activation`).
Where several numbers are missing at different places between two linear layers, the order of
normalization and activation is unknown, which is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..files.arrays import StateDict
from .layers import Layer
from .layout import SPELLED, Options
from .tail import Elementwise, Standardize, Step

Path = tuple[int, ...]


class Module(NamedTuple):
    """A module with weights: its name in the file, and its place (number of the part, then numbers
    in its name).
    """

    name: str
    path: Path


def head_modules(state: StateDict, starts: Sequence[str]) -> list[Module]:
    """Return the modules with weights whose names begin with one of `starts`, in the order in which
    they are applied.
    """
    modules = []
    for part, start in enumerate(starts):
        names = {key.rpartition(".")[0] for key in state.arrays if key.startswith(f"{start}.")}
        for name in names:
            parts = name.removeprefix(start).split(".")
            # torchmil wraps its lazy layers in a module of this name.
            numbers = [number for number in parts if number not in ("", "module")]
            if not all(number.isdigit() for number in numbers):
                raise ValueError(
                    f"{state.source}: expected numbered layers after the pooling, got {name!r}; "
                    "name them in their order as `roles`, or build the network with "
                    "BagNetwork.then"
                )
            modules.append(Module(name, (part, *map(int, numbers))))
    return sorted(modules, key=lambda module: module.path)


def is_plain(modules: Sequence[Module]) -> bool:
    """Return whether the modules are one layer, with no room for an activation before it."""
    # A number above 0 leaves room in front, where the file would not show an activation.
    return len(modules) == 1 and not any(modules[0].path[1:])


def are_branches(state: StateDict, modules: Sequence[Module]) -> bool:
    """Return whether the modules are a list of linear layers of one output each, one per branch as
    in CLAM-MB.
    """
    numbers = [module.path[1:] for module in modules]
    shapes = {weight_shape(state, name) for name, _ in modules}
    is_list = len(modules) > 1 and numbers == [(i,) for i in range(len(modules))]
    if not is_list or len(shapes) > 1:
        return False
    (shape,) = shapes
    # A weight of shape (1, 1) is a layer on one number and not a branch.
    return shape[:1] == (1,) and shape != (1, 1)


def weight_shape(state: StateDict, name: str) -> tuple[int, ...]:
    """Return the shape of the weights of a layer; () if it has none."""
    if f"{name}.weight" not in state.arrays:
        return ()
    return state.arrays[f"{name}.weight"].shape


def read_head(state: StateDict, modules: Sequence[Module], options: Options) -> list[Step]:
    """Return the steps after the pooling; the file says nothing about its activations, which
    `state.unsaid` records.
    """
    steps: list[Step] = []
    # Layers since the last linear one, and the places among them where something without weights
    # may be.
    between: list[Step] = []
    places: list[int] = []
    activation = "pooled_activation"
    for previous, module in pairwise([None, *modules]):
        assert module is not None
        if _has_room(previous, module):
            places.append(len(between))
        layer = read_module(state, module.name, options)
        # A batch normalization is a `Layer`, too, but not the linear layer that ends a group.
        if not isinstance(layer, Layer) or f"{module.name}.running_mean" in state.arrays:
            between.append(layer)
            continue
        if any(isinstance(step, Elementwise) for step in between):
            places = []  # an activation with weights, and perhaps dropout
        elif steps and not places:
            activation = "adjacent_activation"
            places = [len(between)]
        if len(places) > 1:
            raise ValueError(
                f"{state.source}: the place of the activation before {module.name} is unknown, "
                "because numbers are missing at several places; build the network with "
                "BagNetwork.then"
            )
        for place in places:
            function = _activation(state, activation, options)
            between.insert(place, function)
        steps += [*between, layer]
        between = []
        places = []
        activation = "head_activation"
    if not steps or between:
        names = ", ".join(module.name for module in modules)
        raise ValueError(f"{state.source}: expected a linear layer at the end, got {names}")
    return steps


def _activation(state: StateDict, option: str, options: Options) -> Elementwise:
    """Return the activation of an option, and record that the file does not contain it."""
    name = options[option]
    words = SPELLED.get(name, name)
    if name == "identity":
        words = "nothing"
    # Where the activation of an option is, in words.
    places = {
        "head_activation": "in the head",
        "pooled_activation": "before the head",
        "adjacent_activation": "between adjacent layers of the head",
    }
    state.unsaid[option] = f"{words} {places[option]}"
    return Elementwise(name, options["negative_slope"])


def _has_room(previous: Module | None, module: Module) -> bool:
    """Return whether a module without weights may be between two modules, or before the first."""
    path = module.path
    if previous is None:
        # In front of a first module with a number above 0 was another one.
        return any(path[1:])
    before = previous.path
    # The number of blocks that contain both modules.
    shared = 0
    while shared < min(len(before), len(path)) and before[shared] == path[shared]:
        shared += 1
    ends_early = len(before) > shared + 1  # more modules may follow in the inner block of the first
    starts_late = any(path[shared + 1 :])
    skips = shared > 0 and path[shared] - before[shared] > 1
    return ends_early or starts_late or skips


def read_module(state: StateDict, name: str, options: Options) -> Step:
    """Return a module with weights: a linear layer, a batch or layer normalization, or PReLU with
    one slope.
    """
    if f"{name}.running_mean" in state.arrays:
        scale, shift = state.batch_norm(name, options["epsilon"])
        state.unsaid["epsilon"] = f"BatchNorm with epsilon {options['epsilon']:g}"
        return Layer(np.diag(scale), shift)
    weight = state.array(f"{name}.weight")
    if weight.ndim == 2:
        return Layer(*state.linear(name))
    # Of the modules with a vector of weights, only a normalization has a bias.
    if f"{name}.bias" in state.arrays:
        state.unsaid["epsilon"] = f"LayerNorm with epsilon {options['epsilon']:g}"
        return Standardize(
            weight=weight, bias=state.array(f"{name}.bias", 1), epsilon=options["epsilon"]
        )
    if weight.size == 1:
        return Elementwise("leaky_relu", float(weight.reshape(())))
    raise ValueError(
        f"{state.source}: {name}: expected a linear layer, a normalization with a bias or PReLU "
        f"with one slope, got weights of shape {weight.shape}"
    )
