"""Builders of networks: from the names in a state dict to arrays.

One builder reads nearly all layouts, and attentive probes and plain means have a builder each.
`head_layers.py` reads several layers after the pooling, and `tail_builders.py` has the networks
that always have them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from ..._arrays import check, whole
from ..._types import Array
from ..files.arrays import Linear, StateDict
from .bag_network import Attention, BagNetwork
from .head_layers import are_branches, head_modules, is_plain, read_head, weight_shape
from .layers import Layer
from .layout import Layout, Options

# An array in Keras' HDF5 files: layer and part, which is a number or, in the older format, a name.
KERAS = r"(?!optimizer)(?:.*\.)?(?!vars\.)(\w+)\.(?:vars\.)?(\d|kernel|bias|[vwu])(?::0)?"
# The names that Keras gives to dense layers.
DENSE = re.compile(r"dense(?:_\d{1,9})?")


def build_attention(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build a network of an embedding, an attention, and a linear readout or several layers after
    the pooling.
    """
    if options.get("attention_gate"):
        raise ValueError(
            f"attention_gate: expected 0, got {options['attention_gate']}: a quantile of the bag's "
            "scores decides which instances count, so the model is not a pooled game"
        )
    extracted = options.get("extracted", False)
    state.leave(*layout.leave, *(["feat_ext."] if extracted else []))
    layers = [] if extracted else [state.linear(name) for name in state.layers(layout.embed)]
    modules = head_modules(state, layout.head)
    if not modules or is_plain(modules) or are_branches(state, modules):
        return _with_readout(state, layout, options, layers)
    dropped = options.get("metadata_columns", 0)
    # The first layer drops the columns of metadata, so a network without one gets the identity.
    if dropped and not layers:
        width = len(state.array(f"{modules[0].name}.weight", 2).T)
        layers = [Linear(np.eye(width), np.zeros(width))]
        options = {**options, "embed_activation": "identity", "last_activation": "identity"}
    if layers:
        width = len(layers[-1].W)
    else:
        width = weight_shape(state, modules[0].name)[-1]
    attention = attention_of(state, layout, options, E=width)
    return _pooled(layers, attention, options).then(read_head(state, modules, options))


def _embedding(layers: list[Linear], options: Options) -> dict[str, Any]:
    """Return the arguments of `BagNetwork` for an embedding of linear layers."""
    inner = options["embed_activation"]
    last = options.get("last_activation") or inner
    dropped = options.get("metadata_columns", 0)
    embed: list[Layer] = []
    for layer in layers:
        W = layer.W
        if not embed:
            # Weights of zero drop the columns of metadata, which are in front of the features.
            W = np.pad(W, ((0, 0), (dropped, 0)))
        activation = last if layer is layers[-1] else inner
        embed.append(Layer(W, layer.b, activation))
    return {"embed": tuple(embed), "normalize": options["normalize"]}


def _pooled(layers: list[Linear], attention: Attention, options: Options) -> BagNetwork:
    """Return the network whose pooled vector has the mean of the embedding under each branch, one
    after the other.
    """
    H = len(attention.w)
    E = attention.E
    return BagNetwork(
        attention=attention,
        readout=np.tile(np.eye(E), (H, 1)),
        bias=np.zeros(H * E),
        value_class=np.arange(H * E),
        value_head=np.repeat(np.arange(H), E),
        **_embedding(layers, options),
    )


def _with_readout(
    state: StateDict, layout: Layout, options: Options, layers: list[Linear]
) -> BagNetwork:
    """Build a network with a linear readout, or one for each branch of the attention."""
    readouts = [state.linear(name) for name in state.layers(layout.readout)]
    if not readouts:
        raise ValueError(
            f"{state.source}: expected a last layer {layout.readout.replace(chr(92), '')!r}, got "
            f"only {state.summary()}; an encoder without a classifier has no output to explain"
        )
    W, bias = Linear(*(np.concatenate(parts) for parts in zip(*readouts, strict=True)))
    if layout.norm:
        # The normalization of the pooled vector is linear, so it becomes a part of the readout.
        scale, shift = state.batch_norm(layout.norm, options["epsilon"])
        W, bias = W * scale, bias + W @ shift
    if not layers:
        # Without an embedding, the readout itself skips the columns of metadata.
        W = np.pad(W, ((0, 0), (options.get("metadata_columns", 0), 0)))
    attention = attention_of(state, layout, options, E=W.shape[1])
    more = _embedding(layers, options)
    H = len(attention.w)
    C = len(bias)
    if len(readouts) == 1 and W.shape[1] == H * attention.E:
        # AttentionDeepMIL with several branches: their means are concatenated before the last
        # layer.
        rows = W.reshape(C, H, -1).swapaxes(0, 1).reshape(H * C, -1)
        return BagNetwork(
            attention=attention,
            readout=rows,
            bias=bias,
            value_class=np.tile(np.arange(C), H),
            value_head=np.repeat(np.arange(H), C),
            **more,
        )
    if not len(readouts) == H == C and not len(readouts) == H == 1:
        raise ValueError(
            f"{state.source}: expected one attention branch, or one last layer of one output per "
            f"branch, got {H} branches and {len(readouts)} layers of {C} outputs"
        )
    branches = None if H == 1 else np.arange(H)
    return BagNetwork(
        attention=attention, readout=W, bias=bias, value_class=branches, value_head=branches, **more
    )


def attention_of(state: StateDict, layout: Layout, options: Options, E: int) -> Attention:
    """Build the attention of a layout, on embedded instances of length E."""
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
    # There is one hidden layer without a gate, and none if w scores the embedding itself.
    named = zip(functions.items(), hidden, strict=False)
    layers: dict[str, Any] = {part: Layer(*layer, function) for (part, function), layer in named}
    return Attention(
        *w,
        **layers,
        score_activation=options["score_activation"],
        temperature=options["attention_temperature"],
    )


def probe_network(
    queries: Array, parts: list[Linear], out: Linear, options: Options, **more: Any
) -> BagNetwork:
    """Build a `BagNetwork` of attention with fixed queries (Q, D).

    Keys k = K x + a and values v = V x + b (`parts`) are split into M heads of width D/M. Head m of
    query q gives instance x the log-mass q_m . k_m(x) / sqrt(D/M). The outputs of the heads are
    concatenated before the linear layer W (C, D), and queries are averaged. So head (q, m) has w =
    K_m^T q_m / sqrt(D/M) and readout rows V_m^T W[:, m]^T / Q; the biases of the values become part
    of the bias.
    """
    (Q, D) = queries.shape
    width = head_width(D, options)
    num_heads = D // width
    C = len(out.W)
    (K, a), (V, b) = parts
    heads = [
        (query, slice(m * width, (m + 1) * width)) for query in queries for m in range(num_heads)
    ]
    return BagNetwork(
        attention=Attention(
            np.array([q[part] @ K[part] for q, part in heads]) / np.sqrt(width),
            np.array([q[part] @ a[part] for q, part in heads]) / np.sqrt(width),
        ),
        readout=np.concatenate([out.W[:, part] @ V[part] / Q for _, part in heads]),
        bias=out.b + out.W @ b,
        value_class=np.tile(np.arange(C), len(heads)),
        value_head=np.repeat(np.arange(len(heads)), C),
        **more,
    )


def head_width(D: int, options: Options) -> int:
    """Return the width of a head of queries of width D, by default that of most networks."""
    # Default width of a head, as in timm's AttentionPool2d.
    usual_width = 64
    num_heads = options["num_heads"] or max(1, D // usual_width)
    if num_heads < 1 or D % num_heads:
        raise ValueError(
            f"num_heads: expected a divisor of {D}, the width of the queries, got {num_heads}"
        )
    return D // int(num_heads)


def as_rows(array: Array) -> Array:
    """Reshape (..., D) to (n, D)."""
    return array.reshape(-1, np.atleast_1d(array).shape[-1])


def composed(first: Linear, second: Linear) -> Linear:
    """Combine two linear layers into one."""
    return Linear(second.W @ first.W, second.b + second.W @ first.b)


def split_layers(state: StateDict, start: str, names: str) -> list[Linear]:
    """Return linear layers called "q", "k", "v", or the parts of one layer called "kv" or "qkv"."""
    if f"{start}{names}.weight" not in state.arrays:
        return [state.linear(start + name) for name in names]
    W, b = state.linear(start + names)
    return [
        Linear(*part) for part in zip(np.split(W, len(names)), np.split(b, len(names)), strict=True)
    ]


def last_layer(state: StateDict, start: str, names: str) -> Linear:
    """Return the last layer, including a linear projection after the attention if there is one."""
    if f"{start}proj.weight" not in state.arrays:
        return state.layer(names)
    projection = state.linear(f"{start}proj")
    return composed(projection, state.layer(names)) if state.layers(names) else projection


def build_aim(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build AIM's probe: batch normalization, learned queries `cls_token` (1, Q, D), keys, values,
    a linear layer.
    """
    parts = split_layers(state, "", "kv")
    out = state.linear("linear")
    if "bn.running_mean" in state.arrays:
        scale, shift = state.batch_norm("bn", 1e-6)  # eps of AIM's code
        parts = [composed(Linear(np.diag(scale), shift), part) for part in parts]
    return probe_network(as_rows(state.array("cls_token")), parts, out, options)


def build_timm(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build timm's attention pooling, whose query is Q latent + a or the latent itself.

    Keys and values come from one layer. The output is that of the first latent, or the mean.
    Position embeddings are added to the tokens. A projection `proj` without `mlp` is linear and
    becomes part of the head.
    """
    start = state.keys(r"(.*\.)?latent")[0].removesuffix("latent")
    if options["pool_type"] not in ("token", "avg"):
        raise ValueError(f"pool_type: expected 'token' or 'avg', got {options['pool_type']!r}")
    latent = as_rows(state.array(f"{start}latent"))[
        : 1 if options["pool_type"] == "token" else None
    ]
    if f"{start}q.weight" in state.arrays:
        Q, a = state.linear(f"{start}q")
        latent = latent @ Q.T + a
    positions = (
        as_rows(state.array(f"{start}pos_embed")) if f"{start}pos_embed" in state.arrays else None
    )
    if start:  # the pooling is part of a whole network, whose encoder makes the tokens
        state.leave(*layout.leave)
    out = last_layer(state, start, r"head|fc|classifier|linear|head\.fc|0|1")
    return probe_network(
        latent, split_layers(state, start, "kv"), out, options, positions=positions
    )


def build_class_token(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build attention with the query of a class token, which is always present with a key and a
    value.
    """
    start = state.keys(layout.marks[0])[0].removesuffix("cls_token")
    token, *positions = as_rows(state.array(f"{start}pos_embed"))
    token = token + state.array(f"{start}cls_token").reshape(-1)
    (Q, a), *parts = split_layers(state, start, "qkv")
    if start:
        state.leave(*layout.leave)
    out = last_layer(state, start, r"head|fc|classifier|linear|head\.fc")
    return probe_network(
        (Q @ token + a)[None], parts, out, options, positions=np.array(positions), background=token
    )


def build_chief(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build CHIEF: CLAM with one branch, where the embedding of an organ's text is added to the
    pooled vector.

    The sum is linear in the pooled vector, so the text only changes the bias: b + W relu(T e + t).
    """
    assert layout.inner is not None
    inner = layout.inner._replace(leave=layout.leave, head=())
    network = build_attention(state, inner, options)
    T, t = state.linear("text_to_vision.0")
    texts = state.array("organ_embedding", 2)
    text = np.maximum(T @ texts[whole("organ", options["organ"], 0, len(texts) - 1)] + t, 0.0)
    return replace(network, bias=network.bias + network.readout @ text)


def build_vjepa(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build V-JEPA's probe without a complete block: one query, keys and values from one layer, a
    linear head.

    The first version of V-JEPA has a layer `proj` after the attention, which its `forward` never
    applies.
    """
    query = state.keys(r"(?:.*\.)?query_tokens")[0]
    start = query.removesuffix("query_tokens") + "cross_attention_block."
    Q, a = state.linear(f"{start}q")
    queries = as_rows(state.array(query)) @ Q.T + a
    check(query, len(queries) == 1, "one query", f"{len(queries)}; each has a separate output")
    state.leave(f"{start}proj.")
    out = state.layer("linear|head|classifier")
    return probe_network(queries, split_layers(state, start, "kv"), out, options)


def build_keras(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build dense layers, an attention (v, w, optionally u), and a last layer on the concatenated
    embeddings.

    Each position in the bag has a block of the last layer, so bags have as many instances as there
    are blocks.
    """
    parts = {
        (match[1], match[2]): key for key in state.arrays if (match := re.fullmatch(KERAS, key))
    }
    names = dict.fromkeys(name for name, _ in parts)
    # Keras names its layers dense, dense_1, dense_2 and so on; the last one is the classifier.
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
    # The place of each part of a layer among the arrays of a Keras file.
    keras_parts = {"kernel": 0, "bias": 1, "v": 0, "w": 1, "u": 2}
    for (name, part), key in parts.items():
        number = int(part) if part.isdigit() else keras_parts[part]
        # A slice leaves out the parts that a layer of this role does not have.
        keys |= {f"roles.{role}": key for role in roles[name][number : number + 1]}
    # Keras stores weights as (in, out), and PyTorch as (out, in).
    named = StateDict({role: state.arrays[key].T for role, key in keys.items()}, state.source)
    W, b = named.linear("roles.classifier")
    blocks = W.reshape(len(b), -1, named.array("roles.V.weight", 2).shape[1]).swapaxes(0, 1)
    # The builder reads a readout of one block; all blocks take its place below.
    named.arrays["roles.classifier.weight"] = blocks[0]
    assert layout.inner is not None
    network = build_attention(named, layout.inner, options)
    state.leave("optimizer", *(keys[role] for role in named.read))
    return replace(network, readout=blocks) if len(blocks) > 1 else network


def build_mean(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build one linear layer of any name on the mean of the instances."""
    if "weight" in state.arrays:  # a linear layer saved alone has no name
        state.arrays = {f"layer.{key}": array for key, array in state.arrays.items()}
    W, bias = state.layer(".*")
    return BagNetwork(attention=Attention(np.zeros((1, W.shape[1]))), readout=W, bias=bias)
