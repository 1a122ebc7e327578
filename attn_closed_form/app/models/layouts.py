"""Layouts of saved networks: from the names in a state dict to a network.

`LAYOUTS` has one entry per layout: the layers by which it is recognized (regular expressions), and
the options that the file does not contain. One builder reads nearly all of them,

    h = embedding of x,   s = w . (activation(V h) * gate(U h)) / temperature,   logits = readout . pooled + b,

and attentive probes and plain means have a builder each. A layout must read, or explicitly ignore,
every weight of the file. A remaining weight is an error that names it, because it belongs to a
layer outside the layout, and a layer after the pooling would make the result wrong. A new layout is
one entry.

In a pooled game, instances do not interact before the pooling, one softmax (or mean) runs over the
instances, and only linear layers follow. `REFUSALS` lists known networks that are not pooled games,
with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import check, whole
from ..._types import Array
from ..files.arrays import Linear, StateDict
from .bag_network import Attention, BagNetwork
from .layers import ACTIVATIONS, NORMALIZATIONS, Layer

Options = Mapping[str, Any]
# Temperatures that a check tries, those of published networks and between.
_TEMPERATURES = (
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
)


class Option(NamedTuple):
    """An option that a file does not contain: its default, its description, and values that a check
    tries.
    """

    default: Any
    described: str = ""
    tried: tuple[Any, ...] = ()


# All options of all layouts, by name.
OPTIONS = {
    "activation": Option("tanh", "{} attention", tuple(ACTIVATIONS)),
    "gate": Option("sigmoid", "{} gate", tuple(ACTIVATIONS)),
    "embed_activation": Option("relu", "{} embedding", tuple(ACTIVATIONS)),
    "last_activation": Option(None, tried=tuple(ACTIVATIONS)),
    # A function of the scores before their temperature and their softmax.
    "score_activation": Option("identity", tried=("sigmoid", "tanh", "relu", "leaky_relu")),
    "attention_temperature": Option(1.0, "temperature {:g}", _TEMPERATURES),
    "normalize": Option("", tried=NORMALIZATIONS[1:]),
    # PyTorch's default.
    "epsilon": Option(1e-5, "epsilon {:g}", (1e-8, 1e-6, 1e-4, 1e-3, 1e-2)),
    # A check tries the divisors of the width.
    "num_heads": Option(None, "{} heads"),
    "pool_type": Option("token", "pooling by {!r}", ("token", "avg")),
    "metadata_columns": Option(0, "{} columns of metadata"),
    "attention_gate": Option(0.0, "no quantile gate"),
    # The features come out of the feature extractor of the file.
    "extracted": Option(False),
    "organ": Option(0, "the text of organ {}"),
}


def _defaults(*names: str) -> Options:
    return {name: OPTIONS[name].default for name in names}


# Options of layouts that embed the instances.
_EMBEDDED = (
    "embed_activation",
    "last_activation",
    "score_activation",
    "attention_temperature",
    "normalize",
)
# Defaults of layouts whose attention has one hidden layer.
UNGATED = _defaults("activation", *_EMBEDDED)
# Defaults of layouts with a gate.
GATED = _defaults("activation", "gate", *_EMBEDDED)
# Default width of a head, as in timm's AttentionPool2d.
HEAD_WIDTH = 64
# An array in Keras' HDF5 files: layer and part, which is a number or, in the older format, a name.
KERAS = r"(?!optimizer)(?:.*\.)?(?!vars\.)(\w+)\.(?:vars\.)?(\d|kernel|bias|[vwu])(?::0)?"
# The names that Keras gives to dense layers.
DENSE = re.compile(r"dense(?:_\d{1,9})?")
# The place of each part of a layer among the arrays of a Keras file.
KERAS_PARTS = {"kernel": 0, "bias": 1, "v": 0, "w": 1, "u": 2}
# Activations as messages spell them, where that is not their name.
SPELLED = {name: name.upper() for name in ("gelu", "elu", "selu")} | {
    "relu": "ReLU",
    "silu": "SiLU",
}


def assumptions(network: BagNetwork, layout: str, given: Options) -> str:
    """Return the unspecified options in words, such as "tanh attention, ReLU embedding, temperature
    1".
    """
    attention = network.attention
    entry = LAYOUTS[layout]
    values = {
        name: value
        for name, value in entry.options.items()
        if name not in given and OPTIONS[name].described
    }
    used = {
        "activation": attention.hidden,
        "gate": attention.gate,
        "embed_activation": (network.embed or (None,))[0],
    }
    for name in used.keys() & values.keys():
        layer = used[name]
        values[name] = None if layer is None else SPELLED.get(layer.activation, layer.activation)
    if not attention.w.any():
        values.pop("attention_temperature", None)
    if not entry.norm:
        values.pop("epsilon", None)
    if "num_heads" in values:
        values["num_heads"] = values["num_heads"] or network.H
    phrases = [
        OPTIONS[name].described.format(value) for name, value in values.items() if value is not None
    ]
    # A network without an attention could as well take the maximum of its instances.
    if layout != "mean" and not attention.w.any():
        phrases.append("mean pooling")
    return ", ".join(phrases)


class Layout(NamedTuple):
    """One kind of file."""

    embed: str = ""  # layers of the embedding
    bare: bool = False  # whether there may be no embedding
    # The first alternative that fits is used: (V, w), (V, U, w) with a gate, (w,) on the embedding,
    # () for the mean. V and w may be one pattern that matches two layers.
    attention: tuple[tuple[str, ...], ...] = ()
    readout: str = ""  # the last layer, or one layer per class and attention branch
    # Options that the file does not contain, with the defaults of the network's code.
    options: Options = UNGATED
    leave: tuple[str, ...] = ()  # prefixes of names that do not affect the prediction
    norm: str = ""  # a batch normalization before the readout
    # Default of the option `activation` with a gate, if it differs from that without one.
    gated_activation: str = ""
    # A separate builder, and names by which its files are recognized; the others are recognized by
    # their layers.
    build: Callable[[StateDict, Layout, Options], BagNetwork] | None = None
    marks: tuple[str, ...] = ()


def _build(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build a network of an embedding, an attention and a linear readout."""
    if options.get("attention_gate"):
        raise ValueError(
            f"attention_gate: expected 0, got {options['attention_gate']}: a quantile of the bag's "
            "scores decides "
            "which instances count, so the model is not a pooled game"
        )
    extracted = options.get("extracted", False)
    state.leave(*layout.leave, *(["feat_ext."] if extracted else []))
    inner = options["embed_activation"]
    last = options.get("last_activation") or inner
    layers = [] if extracted else [state.linear(name) for name in state.layers(layout.embed)]
    readouts = [state.linear(name) for name in state.layers(layout.readout)]
    if not readouts:
        raise ValueError(
            f"{state.source}: expected a last layer {layout.readout.replace(chr(92), '')!r}, got "
            "only "
            f"{state.summary()}; an encoder without a classifier has no output to explain"
        )
    W, bias = Linear(*(np.concatenate(parts) for parts in zip(*readouts, strict=True)))
    if layout.norm:
        scale, shift = state.batch_norm(layout.norm, options["epsilon"])
        W, bias = W * scale, bias + W @ shift
    chain = [*layers, Linear(W, bias)]
    dropped = options.get("metadata_columns", 0)
    chain[0] = Linear(np.pad(chain[0].W, ((0, 0), (dropped, 0))), chain[0].b)
    *layers, (W, bias) = chain
    embed = tuple(Layer(*layer, last if layer is layers[-1] else inner) for layer in layers)
    attention = _attention(state, layout, options, W.shape[1])
    more: dict[str, Any] = {"embed": embed, "normalize": options["normalize"]}
    H = len(attention.w)
    C = len(bias)
    if len(readouts) == 1 and W.shape[1] == H * attention.E:
        # AttentionDeepMIL with several branches: their means are concatenated before the last
        # layer.
        rows = W.reshape(C, H, -1).swapaxes(0, 1).reshape(H * C, -1)
        return BagNetwork(
            attention, rows, bias, np.tile(np.arange(C), H), np.repeat(np.arange(H), C), **more
        )
    if not len(readouts) == H == C and not len(readouts) == H == 1:
        raise ValueError(
            f"{state.source}: expected one attention branch, or one last layer of one output per "
            "branch, got "
            f"{H} branches and {len(readouts)} layers of {C} outputs"
        )
    branches = None if H == 1 else np.arange(H)
    return BagNetwork(attention, W, bias, branches, branches, **more)


def _attention(state: StateDict, layout: Layout, options: Options, E: int) -> Attention:
    groups = ([state.layers(pattern) for pattern in group] for group in layout.attention)
    names = next(
        ([name for layers in group for name in layers] for group in groups if all(group)), None
    )
    if names is None or len(names) > 3:
        raise ValueError(
            f"{state.source}: expected one attention network, got "
            f"{names or 'only ' + state.summary()}"
        )
    if not names:
        return Attention(np.zeros((1, E)))  # the mean
    *hidden, w = (state.linear(name) for name in names)
    activation = options["activation"] or (layout.gated_activation if len(hidden) == 2 else "tanh")
    functions = {"hidden": activation, "gate": options.get("gate", "sigmoid")}
    named = zip(functions.items(), hidden, strict=False)
    layers: dict[str, Any] = {part: Layer(*layer, function) for (part, function), layer in named}
    return Attention(
        *w,
        **layers,
        score_activation=options["score_activation"],
        temperature=options["attention_temperature"],
    )


def _probe(
    queries: Array, parts: list[Linear], out: Linear, options: Options, **more: Any
) -> BagNetwork:
    """Build a `BagNetwork` of attention with fixed queries (Q, D).

    Keys k = K x + a and values v = V x + b (`parts`) are split into M heads of width D/M. Head m of
    query q gives instance x the log-mass q_m . k_m(x) / sqrt(D/M). The outputs of the heads are
    concatenated before the linear layer W (C, D), and queries are averaged. So head (q, m) has
    w = K_m^T q_m / sqrt(D/M) and readout rows V_m^T W[:, m]^T / Q; the biases of the values become
    part of the bias.
    """
    (Q, D) = queries.shape
    num_heads = options["num_heads"] or max(1, queries.shape[1] // HEAD_WIDTH)
    if num_heads < 1 or D % num_heads:
        raise ValueError(
            f"num_heads: expected a divisor of {D}, the width of the queries, got {num_heads}"
        )
    width = D // num_heads
    C = len(out.W)
    (K, a), (V, b) = parts
    heads = [
        (query, slice(m * width, (m + 1) * width)) for query in queries for m in range(num_heads)
    ]
    return BagNetwork(
        Attention(
            np.array([q[part] @ K[part] for q, part in heads]) / np.sqrt(width),
            np.array([q[part] @ a[part] for q, part in heads]) / np.sqrt(width),
        ),
        np.concatenate([out.W[:, part] @ V[part] / Q for _, part in heads]),
        out.b + out.W @ b,
        np.tile(np.arange(C), len(heads)),
        np.repeat(np.arange(len(heads)), C),
        **more,
    )


def _rows(array: Array) -> Array:
    """Reshape (..., D) to (n, D)."""
    return array.reshape(-1, np.atleast_1d(array).shape[-1])


def _after(first: Linear, second: Linear) -> Linear:
    """Combine two linear layers into one."""
    return Linear(second.W @ first.W, second.b + second.W @ first.b)


def _parts(state: StateDict, start: str, names: str) -> list[Linear]:
    """Return linear layers called "q", "k", "v", or the parts of one layer called "kv" or "qkv"."""
    if f"{start}{names}.weight" not in state.arrays:
        return [state.linear(start + name) for name in names]
    W, b = state.linear(start + names)
    return [
        Linear(*part) for part in zip(np.split(W, len(names)), np.split(b, len(names)), strict=True)
    ]


def _last(state: StateDict, start: str, names: str) -> Linear:
    """Return the last layer, including a linear projection after the attention if there is one."""
    if f"{start}proj.weight" not in state.arrays:
        return state.layer(names)
    projection = state.linear(f"{start}proj")
    return _after(projection, state.layer(names)) if state.layers(names) else projection


def _build_aim(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build AIM's probe: batch normalization, learned queries `cls_token` (1, Q, D), keys, values,
    a linear layer.
    """
    parts = _parts(state, "", "kv")
    out = state.linear("linear")
    if "bn.running_mean" in state.arrays:
        scale, shift = state.batch_norm("bn", 1e-6)  # eps of AIM's code
        parts = [_after(Linear(np.diag(scale), shift), part) for part in parts]
    return _probe(_rows(state.array("cls_token")), parts, out, options)


def _build_timm(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build timm's attention pooling, whose query is Q latent + a or the latent itself.

    Keys and values come from one layer. The output is that of the first latent, or the mean.
    Position embeddings are added to the tokens. A projection `proj` without `mlp` is linear and
    becomes part of the head.
    """
    start = state.keys(r"(.*\.)?latent")[0].removesuffix("latent")
    if options["pool_type"] not in ("token", "avg"):
        raise ValueError(f"pool_type: expected 'token' or 'avg', got {options['pool_type']!r}")
    latent = _rows(state.array(f"{start}latent"))[: 1 if options["pool_type"] == "token" else None]
    if f"{start}q.weight" in state.arrays:
        Q, a = state.linear(f"{start}q")
        latent = latent @ Q.T + a
    positions = (
        _rows(state.array(f"{start}pos_embed")) if f"{start}pos_embed" in state.arrays else None
    )
    if start:  # the pooling is part of a whole network, whose encoder makes the tokens
        state.leave(*layout.leave)
    out = _last(state, start, r"head|fc|classifier|linear|head\.fc|0|1")
    return _probe(latent, _parts(state, start, "kv"), out, options, positions=positions)


def _build_class_token(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build attention with the query of a class token, which is always present with a key and a
    value.
    """
    start = state.keys(layout.marks[0])[0].removesuffix("cls_token")
    token, *positions = _rows(state.array(f"{start}pos_embed"))
    token = token + state.array(f"{start}cls_token").reshape(-1)
    (Q, a), *parts = _parts(state, start, "qkv")
    if start:
        state.leave(*layout.leave)
    out = _last(state, start, r"head|fc|classifier|linear|head\.fc")
    return _probe(
        (Q @ token + a)[None], parts, out, options, positions=np.array(positions), background=token
    )


def _build_chief(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build CHIEF: CLAM with one branch, where the embedding of an organ's text is added to the
    pooled vector.

    The sum is linear in the pooled vector, so the text only changes the bias: b + W relu(T e + t).
    """
    network = _build(state, LAYOUTS["clam"]._replace(leave=layout.leave), options)
    T, t = state.linear("text_to_vision.0")
    texts = state.array("organ_embedding", 2)
    text = np.maximum(T @ texts[whole("organ", options["organ"], 0, len(texts) - 1)] + t, 0.0)
    return replace(network, bias=network.bias + network.readout @ text)


def _build_vjepa(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build V-JEPA's probe without a complete block: one query, keys and values from one layer, a
    linear head.

    The first version of V-JEPA has a layer `proj` after the attention, which its `forward` never
    applies.
    """
    query = state.keys(r"(?:.*\.)?query_tokens")[0]
    start = query.removesuffix("query_tokens") + "cross_attention_block."
    Q, a = state.linear(f"{start}q")
    queries = _rows(state.array(query)) @ Q.T + a
    check(query, len(queries) == 1, "one query", f"{len(queries)}; each has a separate output")
    state.leave(f"{start}proj.")
    out = state.layer("linear|head|classifier")
    return _probe(queries, _parts(state, start, "kv"), out, options)


def _build_multihead(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build PyTorch's `nn.MultiheadAttention` with one learned query, and a linear head.

    The layer has the weights of queries, keys and values in one array, and a linear projection of
    its output.
    """
    start = state.keys(layout.marks[0])[0].removesuffix("in_proj_weight")
    query = state.keys(layout.marks[1])[0]
    weights = np.split(state.array(f"{start}in_proj_weight", 2), 3)
    if f"{start}in_proj_bias" in state.arrays:
        biases = np.split(state.array(f"{start}in_proj_bias", 1), 3)
    else:
        biases = [np.zeros(len(W)) for W in weights]
    (Q, a), *parts = map(Linear, weights, biases)
    queries = _rows(state.array(query)) @ Q.T + a
    check(query, len(queries) == 1, "one query", f"{len(queries)}; each has a separate output")
    projection = state.linear(f"{start}out_proj")
    head = state.layer(r"(?:.*\.)?(?:head|fc|classifier|linear|out|output)(?:\.\d+)?")
    return _probe(queries, parts, _after(projection, head), options)


def _build_keras(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build dense layers, an attention (v, w, optionally u), and a last layer on the concatenated
    embeddings.

    Each position in the bag has a block of the last layer, so bags have as many instances as there
    are blocks.
    """
    parts = {
        (match[1], match[2]): key for key in state.arrays if (match := re.fullmatch(KERAS, key))
    }
    names = dict.fromkeys(name for name, _ in parts)
    *embed, last = sorted(filter(DENSE.fullmatch, names), key=lambda name: int(f"0{name[6:]}")) or [
        ""
    ]
    attentions = [name for name in names if not DENSE.fullmatch(name)]
    if len(attentions) != 1:
        raise ValueError(
            f"{state.source}: expected one attention layer, got {attentions or state.summary()}"
        )
    roles: dict[str, tuple[str, ...]] = {
        n: (f"embed.{i}.weight", f"embed.{i}.bias") for i, n in enumerate(embed)
    }
    roles |= {
        last: ("classifier.weight", "classifier.bias"),
        attentions[0]: ("V.weight", "w.weight", "U.weight"),
    }
    keys: dict[str, str] = {}
    for (name, part), key in parts.items():
        number = int(part) if part.isdigit() else KERAS_PARTS[part]
        keys |= {f"roles.{role}": key for role in roles[name][number : number + 1]}
    named = StateDict({role: state.arrays[key].T for role, key in keys.items()}, state.source)
    W, b = named.linear("roles.classifier")
    blocks = W.reshape(len(b), -1, named.array("roles.V.weight", 2).shape[1]).swapaxes(0, 1)
    named.arrays["roles.classifier.weight"] = blocks[0]
    network = _build(named, LAYOUTS["roles"], options)
    state.leave("optimizer", *(keys[role] for role in named.read))
    return replace(network, readout=blocks) if len(blocks) > 1 else network


def _build_mean(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build one linear layer of any name on the mean of the instances."""
    if "weight" in state.arrays:  # a linear layer saved alone has no name
        state.arrays = {f"layer.{key}": array for key, array in state.arrays.items()}
    W, bias = state.layer(".*")
    return BagNetwork(Attention(np.zeros((1, W.shape[1]))), W, bias)


_CLAM = r"attention_net\.(?:module\.)?[1-9]\d*\."  # "module." if the file was saved from several devices
_CLAM_NETWORK = (r"attention_a\.0", r"attention_b\.0", "attention_c")
_INSTANCES = ("instance_classifiers.", "instance_loss_fn.")  # only used in CLAM's training
_PLAIN = (r"attention\.0", r"attention\.2")
# Prefixes of the layers of a vision transformer, which make the tokens before the pooling.
_ENCODER = (
    "blocks.",
    "patch_embed.",
    "cls_token",
    "pos_embed",
    "reg_token",
    "norm.",
    "norm_pre.",
    "stages.",
    "stem.",
)
# The table of layouts. A new one is one entry, and a network in
# `tests/app/models/layouts/networks.py`.
LAYOUTS: dict[str, Layout] = {
    # CLAM (Lu et al. 2021, mahmoodlab/CLAM). The single branch has one attention for all classes
    # and one layer `classifiers`; the multiple branch has one row of attention_c and one layer
    # `classifiers.c` per class. The attention has number 3 if the network had dropout, otherwise 2.
    "clam": Layout(
        embed=r"attention_net\.(?:module\.)?0",
        attention=(tuple(_CLAM + name for name in _CLAM_NETWORK), (_CLAM + r"module\.\d+",)),
        readout=r"classifiers(?:\.\d+)?",
        options=GATED,
        leave=_INSTANCES,
    ),
    # CHIEF (hms-dbmi/CHIEF) with its `organ_embedding`: CLAM's single branch and a text. The queues
    # of its contrastive training and `att_head` play no part in the logits.
    "chief": Layout(
        marks=(r"text_to_vision\.0\.weight", "organ_embedding", r"classifiers\.weight"),
        options=_defaults(*GATED, "organ"),
        leave=(*_INSTANCES, "att_head.", "pos_mem", "neg_mem", "hard_neg_mem"),
        build=_build_chief,
    ),
    # MIL-Lab's ABMIL and CLAM, and FEATHER, which is the former (mahmoodlab/MIL-Lab).
    "mil_lab": Layout(
        embed=r"patch_embed\.\d+",
        attention=(
            tuple(rf"global_attn\.{name}" for name in _CLAM_NETWORK),
            (r"global_attn\.module\.\d+",),
        ),
        readout="classifier",
        options=GATED,
        leave=_INSTANCES,
    ),
    # xMIL's attention MIL (bifold-pathomics/xMIL), without `out_layers`.
    "xmil": Layout(embed=r"linear_layers\.\d+\.0", attention=(_PLAIN,), readout="classifier"),
    # HistoBistro's AttentionMIL (peng-lab/HistoBistro).
    "histobistro": Layout(
        embed=r"encoder\.0",
        attention=((r"attention\.linear1", r"attention\.linear2"),),
        readout=r"head\.2",
    ),
    # marugoto's MILModel and slideflow's Attention_MIL, which also has one linear layer
    # `attention`. slideflow's attention_gate above 0 drops the instances below a quantile of the
    # bag's scores; the file does not contain it.
    "marugoto": Layout(
        embed=r"encoder\.\d+",
        attention=(("attention",), _PLAIN),
        readout=r"head\.3",
        options=_defaults(*UNGATED, "attention_gate", "epsilon"),
        leave=("_neg_inf",),
        norm="head.1",
    ),
    # torchmil's ABMIL and CLAM_SB (Franblueee/torchmil), whose lazy layers are wrapped in a module.
    # A feature extractor of linear layers is the embedding; with extracted=True the features are
    # its output, and it may be anything.
    "torchmil": Layout(
        embed=r"feat_ext(?:\.\d+)?",
        bare=True,
        attention=(
            (r"pool\.fc1(?:\.module)?", r"pool\.fc_gated(?:\.module)?", r"pool\.fc2"),
            (r"pool\.fc1(?:\.module)?", r"pool\.fc2"),
        ),
        readout=r"classifier(?:\.module)?",
        options=_defaults(*GATED, "extracted"),
        leave=("inst_classifiers.", "inst_loss_fn."),
    ),
    # owkin's ABMIL and MeanPool (owkin/HistoSSLscaling). Their first three columns are metadata
    # (level, x, y), which the network drops.
    "owkin": Layout(
        embed=r"tiles_emb\.hidden_layers\.\d+",
        bare=True,
        attention=((r"attention_layer\.att", r"attention_layer\.gate", r"attention_layer\.w"), ()),
        readout=r"mlp\.0",
        options={
            **GATED,
            "embed_activation": "sigmoid",
            "last_activation": "identity",
            "metadata_columns": 3,
        },
    ),
    # MIL_BASELINE's AB_MIL, GATE_AB_MIL, ADD_MIL (lingxitong/MIL_BASELINE): the gated form has ReLU
    # where others have tanh. ADD_MIL pools the logits of the instances, which is the same as
    # pooling their embeddings.
    "mil_baseline": Layout(
        embed=r"feature\.0",
        attention=(_CLAM_NETWORK, _PLAIN),
        readout=r"(?:instance_)?classifier\.0",
        options={**GATED, "activation": None},
        gated_activation="relu",
    ),
    # MIL_BASELINE's AEM_MIL.
    "mil_baseline_aem": Layout(
        embed=r"feature\.0",
        attention=(
            (
                r"attention\.attention_V\.0",
                r"attention\.attention_U\.0",
                r"attention\.attention_weights",
            ),
        ),
        readout=r"classifier\.0",
        options=GATED,
    ),
    # MIL_BASELINE's MEAN_MIL: the mean of the logits of the instances.
    "mil_baseline_mean": Layout(embed=r"head\.0", attention=((),), readout="classifier"),
    # AttentionDeepMIL (Ilse, Tomczak, Welling 2018). The features are the input of
    # feature_extractor_part2, which is the flattened output of the convolutions. The logit is the
    # input of the sigmoid.
    "abmil": Layout(
        embed=r"feature_extractor_part2\.\d+",
        bare=True,
        attention=((r"attention_V\.0", r"attention_U\.0", "attention_w"), _PLAIN),
        readout=r"classifier\.0",
        options=GATED,
        leave=("feature_extractor_part1.",),
    ),
    # AIM's attentive probe (apple/ml-aim, AttentionPoolingClassifier), on frozen patch tokens.
    "aim": Layout(
        marks=("cls_token", r"k\.weight", r"v\.weight"), options={"num_heads": 12}, build=_build_aim
    ),
    # timm's AttentionPoolLatent with out_features=0 and a linear head. The encoder that makes the
    # tokens is not part of the pooling.
    "timm": Layout(
        marks=(r"(?:.*\.)?latent", r"(?:.*\.)?kv\.weight"),
        options={"num_heads": 8, "pool_type": "token"},
        leave=_ENCODER,
        build=_build_timm,
    ),
    # V-JEPA's attentive probe (facebookresearch/jepa) without a complete block.
    "vjepa": Layout(
        marks=(r"(?:.*\.)?query_tokens", r"(?:.*\.)?cross_attention_block\.kv\.weight"),
        options={"num_heads": 12},
        build=_build_vjepa,
    ),
    # PyTorch's nn.MultiheadAttention(query, bag, bag) with a learned query, then a linear head.
    "multihead": Layout(
        marks=(
            r"(?!.*(?:self_attn|encoder|transformer|blocks?\.)).*in_proj_weight",
            r"(?:.*\.)?(?:query|queries|q|latent|probe|seed|cls|cls_token|token)",
        ),
        options={"num_heads": None},
        build=_build_multihead,
    ),
    # timm's AttentionPool2d with class_token=True; without it, the query is the mean of the
    # instances.
    "class_token": Layout(
        marks=tuple(
            rf"(?:[^.]+\.)?{name}"
            for name in ("cls_token", "pos_embed", r"q(?:kv)?\.weight", r"(?:qk)?v\.weight")
        ),
        options={"num_heads": None},
        leave=_ENCODER,
        build=_build_class_token,
    ),
    # The example `attention_mil_classification` of keras.io, from the HDF5 file of its weights.
    "keras": Layout(
        marks=(rf"(?!.*dense){KERAS}", rf"(?=.*dense){KERAS}"), options=GATED, build=_build_keras
    ),
    # Networks with other names, after `renamed` has replaced them.
    "roles": Layout(
        embed=r"roles\.embed\.\d+",
        bare=True,
        attention=tuple(
            tuple(rf"roles\.{part}" for part in parts) for parts in ("VUw", "Vw", "w", "")
        ),
        readout=r"roles\.classifier(?:\.\d+)?",
        options=GATED,
    ),
    # Only with layout="mean", because a single linear layer could follow any pooling. See
    # `MeanPooledText` for texts.
    "mean": Layout(options={}, build=_build_mean),
}

# The reason for refusing networks whose instances are mixed first.
_DEPENDENT = "instances depend on each other before the pooling"
# The reason for refusing networks with a layer after the pooling.
_AFTER = "what follows the pooling is not linear"
#: Patterns of names, the network, and the reason why it is not a pooled game.
REFUSALS = (
    (r"[ib]_classifier\..*", "DSMIL", "its query is the highest-scoring instance that is present"),
    (r"(.*\.)?pos_layer\.proj\..*|.*to_qkv\..*", "TransMIL", f"self-attention: {_DEPENDENT}"),
    (
        r".*(self_attn|transformer|encoder\.layers?\.\d|blocks?\.\d+\.attn).*",
        "a transformer",
        _DEPENDENT,
    ),
    (
        r"(.*\.)?in_proj_weight",
        "an attention layer (nn.MultiheadAttention) without a learned query",
        f"with a learned query it would be the layout 'multihead'; with others, {_DEPENDENT}",
    ),
    (r".*(weight_ih_l\d|weight_hh_l\d).*", "a recurrent network", _DEPENDENT),
    (
        r".*additive.*",
        "Additive MIL",
        "it acts on features times attention, which is not linear in the attention",
    ),
    (r"out_layers\..*", "xMIL with out_layers", _AFTER),
    (r"mlp\.0\.0\..*", "owkin's network with mlp_hidden", _AFTER),
    (
        r"(.*\.)?(dimReduction|attCls|UClassifier)\..*",
        "DTFD-MIL",
        "it pools random groups of instances twice",
    ),
    (
        r"chowder.*|score_model\..*|.*extreme.*",
        "Chowder",
        "it keeps the extreme scores, not a softmax mean",
    ),
    (
        r"(.*\.)?(post_attn|pooled_mlp|condensing_layer|image_pooler)\..*",
        "TRIDENT's slide encoder",
        _AFTER,
    ),
    (
        r"(.*\.)?cross_attention_block\.(xattn|mlp|norm\d)\..*",
        "V-JEPA's attentive probe with a complete block",
        _AFTER,
    ),
    (
        r"(.*\.)?attnpool\.(positional_embedding|[qkvc]_proj\.weight)|([^.]+\.)?qkv\.weight",
        "AttentionPool2d without a class token, as in CLIP",
        "its query is the mean of the instances that are present",
    ),
    (
        r"attention_nn\..*",
        "DeepRC",
        "it keeps the tenth of the instances with most attention before it pools",
    ),
    (r"(.*\.)?(gcn|gnn|gat|graph_?conv)s?\d*\..*", "a graph network", _DEPENDENT),
)


# Layouts whose tokens come from an encoder in the same file, and one that shares a name with
# transformers.
POOLING_OF_TOKENS = (["timm"], ["class_token"], ["multihead"])


def network_from_state(
    state: StateDict, layout: str, options: dict[str, Any]
) -> tuple[BagNetwork, str]:
    """Return the network of a state dict and the name of its layout.

    The layout is a name of `LAYOUTS` or "auto"; an option that it does not have is an error.
    """
    if layout == "auto":
        layout = _recognize(state)
    elif layout not in LAYOUTS:
        raise ValueError(f"layout: expected 'auto' or one of {', '.join(LAYOUTS)}, got {layout!r}")
    entry = LAYOUTS[layout]
    for name in options:
        if name not in entry.options:
            expected = f"one of {', '.join(entry.options)}" if entry.options else "no options"
            raise ValueError(f"{name}: expected {expected} for layout {layout!r}")
    try:
        network = (entry.build or _build)(state, entry, {**entry.options, **options})
    except ValueError as error:
        if str(error).startswith((state.source, *(f"{name}:" for name in (*options, "num_heads")))):
            raise
        raise ValueError(f"{state.source}: layout {layout!r}: {error}") from None
    hint = ". With a nonlinear layer after the pooling, a model is not a pooled game"
    state.check_all_read(f"are not part of the layout {layout!r}", hint)
    return network, layout


def _recognize(state: StateDict) -> str:
    def fits(layout: Layout) -> bool:
        needed = (layout.readout,) if layout.bare else (layout.readout, layout.embed)
        groups = (all(map(state.layers, (*needed, *group))) for group in layout.attention)
        return all(map(state.keys, layout.marks)) if layout.marks else any(groups)

    names = [name for name, entry in LAYOUTS.items() if fits(entry)]
    if len(names) > 1:  # CHIEF also has all names of CLAM, and a class token has some of AIM's
        most = max(len(LAYOUTS[name].marks) for name in names)
        names = [name for name in names if len(LAYOUTS[name].marks) == most]
    if len(names) > 1:
        names = [name for name in names if state.layers(LAYOUTS[name].embed)]
    # The encoder in front of timm's pooling is not part of it, so it is not rejected as a
    # transformer.
    for pattern, what, why in REFUSALS if names not in POOLING_OF_TOKENS else ():
        if keys := state.keys(pattern):
            raise ValueError(
                f"{state.source}: looks like {what} ({keys[0]}), which is not a pooled game: {why}"
            )
    if len(names) == 1:
        return names[0]
    if any("embedding" in key for key in state.arrays):
        raise ValueError(
            f"{state.source}: looks like a text model, an embedding and a linear layer "
            f"({state.summary()}): use "
            "MeanPooledText.from_state_dict, which also takes the words"
        )
    raise ValueError(
        f"{state.source}: no layout of {', '.join(LAYOUTS)} fits; it has {state.summary()}. An "
        "encoder without a "
        "classifier has no output to explain. For a network of an embedding, an attention and a "
        "linear layer with "
        "other names, give them as `roles` (the command `roles` proposes some); any other network "
        "that pools with "
        "one softmax can be passed to BagClassifier.from_attention or game_from_black_box"
    )


# Networks with other names


# Roles in a mapping by the user: the layers of the embedding (one or several, in order), the hidden
# layer and the gate of the attention, its last layer, the classifier, and prefixes of names that do
# not affect the prediction.
ROLES = ("embed", "V", "U", "w", "classifier", "leave")
# Roles suggested by the names of layers.
HINTS = {
    "embed": r"emb|enc|feat|proj|backbone|fc1",
    "V": r"v\b|_a\b|tanh|hidden|att",
    "U": r"u\b|_b\b|gate|sigm",
    "w": r"w\b|_c\b|att|score|weight",
    "classifier": r"class|head|out|logit|pred|fc",
}
# The maximum number of embedding layers whose order is found by trial.
MOST_LAYERS = 4


def renamed(state: StateDict, roles: Mapping[str, Any]) -> StateDict:
    """Rename the layers of a state dict to those of the layout "roles"; names without a role are
    kept.
    """
    if unknown := [role for role in roles if role not in ROLES]:
        raise ValueError(f"roles: expected roles among {', '.join(ROLES)}, got {unknown[0]!r}")
    arrays = dict(state.arrays)
    for start in _listed(roles.get("leave", ())):
        arrays = {key: array for key, array in arrays.items() if not key.startswith(start)}
    for role in ROLES[:-1]:
        for i, name in enumerate(_listed(roles.get(role, ()))):
            new = (
                f"roles.{role}.{i}"
                if role == "embed" or not isinstance(roles[role], str)
                else f"roles.{role}"
            )
            if name in arrays:  # a separate parameter, which may be a vector
                arrays[f"{new}.weight"] = np.atleast_2d(arrays.pop(name))
            elif f"{name}.weight" not in arrays:
                raise ValueError(
                    f"roles: {role}: {state.source} has no layer {name!r}, only {state.summary()}"
                )
            for part in ("weight", "bias"):
                if f"{name}.{part}" in arrays:
                    arrays[f"{new}.{part}"] = arrays.pop(f"{name}.{part}")
    return StateDict(arrays, state.source, state.outputs, state.options)


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def proposals(state: StateDict) -> list[dict[str, Any]]:
    """Return the assignments of roles that use every matrix and have matching shapes, the likeliest
    first.

    >>> shapes = {"enc": (5, 7), "gate": (3, 5), "tan": (3, 5), "score": (1, 3), "out": (2, 5)}
    >>> state = StateDict({f"{name}.weight": np.ones(shape) for name, shape in shapes.items()}, "file")
    >>> proposals(state)[0]
    {'embed': ['enc'], 'V': 'tan', 'U': 'gate', 'w': 'score', 'classifier': 'out'}
    """
    shapes = {
        key.removesuffix(".weight"): array.shape
        for key, array in state.arrays.items()
        if array.ndim == 2
    }
    order = list(shapes)

    def score(roles: dict[str, Any]) -> int:
        hits = sum(
            bool(re.search(HINTS[role], n.lower()))
            for role, names in roles.items()
            for n in _listed(names)
        )
        # Layers are mostly stored in the order in which they are used.
        places = [order.index(name) for names in roles.values() for name in _listed(names)]
        return 2 * hits + sum(a < b for a, b in pairwise(places))

    return sorted(_assignments(shapes), key=score, reverse=True)


def _assignments(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Any]]:
    for classifier, w in permutations(shapes, 2):
        (C, E) = shapes[classifier]
        (H, k) = shapes[w]
        if H not in (1, C):
            continue
        others = [name for name in shapes if name not in (classifier, w)]
        hidden = [name for name in others if shapes[name] == (k, E)]
        for parts in [
            *([()] if k == E else []),
            *permutations(hidden, 1),
            *permutations(hidden, 2),
        ]:
            rest = [name for name in others if name not in parts]
            for chain in permutations(rest) if len(rest) <= MOST_LAYERS else ():
                widths = [*(shapes[name][1] for name in chain), E]
                if all(
                    shapes[name][0] == width for name, width in zip(chain, widths[1:], strict=True)
                ):
                    found = {"embed": list(chain), **dict(zip("VU", parts, strict=False)), "w": w}
                    yield {
                        role: name
                        for role, name in {**found, "classifier": classifier}.items()
                        if name
                    }
