"""What a layout of a saved network consists of, and the options that a file does not contain.

`layouts.py` has the table of all layouts, and `layout_builders.py` and `tail_builders.py` build
their networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..files.arrays import StateDict
from .bag_network import BagNetwork
from .layers import ACTIVATIONS, NORMALIZATIONS
from .tail import LEAKY_SLOPE

Options = Mapping[str, Any]


class Option(NamedTuple):
    """An option that a file does not contain: its default, its description, and values that a check
    tries.
    """

    default: Any
    described: str = ""
    tried: tuple[Any, ...] = ()


# All options of all layouts, by name.
OPTIONS = {
    "activation": Option(default="tanh", described="{} attention", tried=tuple(ACTIVATIONS)),
    "gate": Option(default="sigmoid", described="{} gate", tried=tuple(ACTIVATIONS)),
    "embed_activation": Option(default="relu", described="{} embedding", tried=tuple(ACTIVATIONS)),
    "last_activation": Option(
        None, tried=tuple(ACTIVATIONS)
    ),  # that of the embedding's last layer, if it differs
    # A function of the scores before their temperature and their softmax.
    "score_activation": Option("identity", tried=("sigmoid", "tanh", "relu", "leaky_relu")),
    # Temperatures that a check tries, those of published networks and between.
    "attention_temperature": Option(
        default=1.0,
        described="temperature {:g}",
        tried=(
            0.05,
            0.1,
            0.2,
            0.25,
            0.5,
            0.75,
            1.5,
            2.0,
            3.0,
            4.0,
            5.0,
            8.0,
            10.0,
            16.0,
            20.0,
            100.0,
        ),
    ),
    "normalize": Option("", tried=NORMALIZATIONS[1:]),
    # By default that of PyTorch.
    "epsilon": Option(
        default=1e-5, described="epsilon {:g}", tried=(1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    ),
    "num_heads": Option(None, "{} heads"),  # a check tries the divisors of the width
    "pool_type": Option(default="token", described="pooling by {!r}", tried=("token", "avg")),
    "metadata_columns": Option(
        0, "{} columns of metadata"
    ),  # in front of the features; the network drops them
    "attention_gate": Option(0.0, "no quantile gate"),
    "extracted": Option(False),  # the features come out of the feature extractor of the file
    "organ": Option(0, "the text of organ {}"),
    # The activation between the layers after the pooling. Builders say it where there is one.
    "head_activation": Option("relu", tried=tuple(ACTIVATIONS)),
    # What comes before the first layer after the pooling, where the numbers of the layers leave
    # room for something.
    "pooled_activation": Option("identity", tried=tuple(ACTIVATIONS)),
    # What comes between linear layers after the pooling whose numbers leave no room: a list of
    # layers whose code applies an activation.
    "adjacent_activation": Option("identity", tried=tuple(ACTIVATIONS)),
    "negative_slope": Option(LEAKY_SLOPE, tried=(0.1, 0.2)),  # of "leaky_relu" after the pooling
    "post_activation": Option("gelu", tried=tuple(ACTIVATIONS)),
    "use_tanh": Option(False, "softmax attention"),
    # The factor of the scores; by default one over the square root of the width.
    "qk_scale": Option(None, tried=(1.0, 0.5, 0.25, 0.125, 0.0625)),
    "add_zero_attn": Option(False, "without add_zero_attn"),
    # Whether the learned query is an instance of the bag itself, as a class token is.
    "query_in_bag": Option(
        default=False, described="a query that is not part of the bag", tried=(True,)
    ),
    # Whether the learned query is added to the pooled vector.
    "query_added": Option(default=False, described="no residual connection", tried=(True,)),
    "aggregation": Option(None),  # "mean" if the file has no weights of an attention
}


def defaults(*names: str) -> Options:
    """Return the defaults of some options by name."""
    return {name: OPTIONS[name].default for name in names}


# Activations as messages spell them, where that is not their name.
SPELLED = {name: name.upper() for name in ("gelu", "elu", "selu")} | {
    "relu": "ReLU",
    "silu": "SiLU",
}

# Options of layouts that embed the instances.
_EMBEDDED = (
    "embed_activation",
    "last_activation",
    "score_activation",
    "attention_temperature",
    "normalize",
)
# Defaults of layouts whose attention has one hidden layer.
UNGATED = defaults("activation", *_EMBEDDED)
# Defaults of layouts with a gate.
GATED = defaults("activation", "gate", *_EMBEDDED)
# Defaults of a head of several layers; `epsilon` is that of its normalizations.
# Options of layouts whose last layer may be several layers.
HEADS = {
    **defaults(*("head_activation", "pooled_activation", "adjacent_activation", "negative_slope")),
    "epsilon": OPTIONS["epsilon"].default,
}


class Layout(NamedTuple):
    """One kind of file."""

    embed: str = ""  # layers of the embedding
    bare: bool = False  # whether there may be no embedding
    # The first alternative that fits is used: (V, w), (V, U, w) with a gate, (w,) on the embedding,
    # () for the mean. V and w may be one pattern that matches two layers.
    attention: tuple[tuple[str, ...], ...] = ()
    readout: str = ""  # the last layer, or one layer per class and attention branch
    # Modules after the pooling, in order, each a linear layer or numbered layers. If they are more
    # than one linear layer, they are read instead of `readout`.
    head: tuple[str, ...] = ()
    options: Options = (
        UNGATED  # options that the file does not contain, with the defaults of the network's code
    )
    leave: tuple[str, ...] = ()  # prefixes of names that do not affect the prediction
    norm: str = ""  # a batch normalization before the readout
    gated_activation: str = (
        ""  # default of the option `activation` with a gate, if it differs from that without one
    )
    # A separate builder, and names by which its files are recognized; the others are recognized by
    # their layers.
    build: Callable[[StateDict, Layout, Options], BagNetwork] | None = None
    marks: tuple[str, ...] = ()
    without: str = ""  # a name that files of this layout do not have
    inner: Layout | None = None  # the layout that a builder starts from
