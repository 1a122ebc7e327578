"""Builders of probes and pooling heads of published code: from the names in a state dict to a
network.

Attention probes on language models (EleutherAI, models-under-pressure), Efficient Probing,
TRIDENT's ABMIL, pooling heads with a residual MLP (SigLIP, timm, V-JEPA), attentive aggregation of
chemprop, and classifiers of Hugging Face on a mean. Each docstring has the formula of the network's
own code. What the file does not contain is an option.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import check, positive
from ..._types import Array
from ..files.arrays import Linear, StateDict
from .bag_network import Attention, BagNetwork
from .head_layers import head_modules, read_head, read_module
from .layers import Layer
from .layout import SPELLED, Layout, Options
from .layout_builders import as_rows, head_width, split_layers
from .tail import Elementwise, Residual, Step

# Names of the last layers of probes and pooling heads.
LAST_LAYERS = ("classifier", "head", "fc", "linear", "out", "output", "mlp")
# The beginning of the name of a layer, up to the first of these names.
LAST_LAYER = rf"(?:\w+\.)*?(?:{'|'.join(LAST_LAYERS)})(?=\.)"


def pooled_heads(queries: Array, keys: Linear, values: Linear, options: Options) -> BagNetwork:
    """Return the network whose pooled vector has the outputs of all heads of one query (1, D), one
    after the other.

    Head m has the log-mass q_m . k_m(x) / sqrt(width), and its outputs are the means of its part of
    the values.
    """
    received = f"{len(queries)}; the pooled vectors of several queries have no reader yet"
    check("query", len(queries) == 1, "one query", received)
    query = queries[0]
    width = head_width(query.size, options)
    heads = query.size // width
    parts = query.reshape(heads, width)
    # The rows of a projection belong to one head after the other.
    weight = keys.W.reshape(heads, width, -1)
    bias = keys.b.reshape(heads, width)
    rows = len(values.W)
    return BagNetwork(
        attention=Attention(
            np.einsum("hk,hkd->hd", parts, weight) / np.sqrt(width),
            np.einsum("hk,hk->h", parts, bias) / np.sqrt(width),
        ),
        readout=values.W,
        bias=values.b,
        value_class=np.arange(rows),
        value_head=np.repeat(np.arange(heads), rows // heads),
    )


def last_layers(state: StateDict, options: Options) -> list[Step]:
    """Return the layers of the classifier: the only weights that are left, under one name of
    `LAST_LAYERS`.
    """
    left = [key for key in state.arrays if key not in state.read]
    found = {match[0] for key in left if (match := re.match(LAST_LAYER, key))}
    if len(found) != 1:
        raise ValueError(
            f"{state.source}: expected a classifier named {', '.join(LAST_LAYERS)}, got "
            f"{sorted(found) or state.summary()}; a pooling without a classifier has no output to "
            "explain"
        )
    (name,) = found
    # Those that leave no doubt that they come after the pooling.
    classifiers = ("classifier", "head", "out", "output")
    if name.rpartition(".")[2] not in classifiers:
        # Such a layer might as well be in front of the pooling.
        state.unsaid["head"] = f"{name!r} after the pooling"
    return read_head(state, head_modules(state, [name]), options)


def build_attention_probe(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build EleutherAI's attention probe: sum over heads of softmax(q_h . x_i + i p_h) v_h(x_i),
    then o(relu(.)).

    Without a hidden layer the sum is the logits. The weight p_h of the position i is often zero.
    """
    if options["use_tanh"]:
        raise ValueError(
            "use_tanh: expected False, got True: weights tanh(k) do not add up to 1, so the probe "
            "is a sum over tokens and not a weighted mean; the values of a sum are its terms"
        )
    q = state.linear("q")
    v = state.linear("v")
    weight = state.array("position_weight", 1)
    heads = len(q.W)
    fits = len(v.W) % heads == 0 and weight.size == heads
    check(f"{state.source}: v.weight", fits, f"rows for {heads} heads", v.W.shape)
    pooled = len(v.W) // heads
    # The weights of a head add up to 1, so the bias of its values remains as it is in the sum.
    bias = v.b.reshape(heads, pooled).sum(axis=0)
    if weight.any():
        state.unsaid["positions"] = "positions 0, 1, 2, ..."
    network = BagNetwork(
        attention=Attention(q.W, q.b),
        readout=v.W,
        bias=bias,
        value_class=np.tile(np.arange(pooled), heads),
        value_head=np.repeat(np.arange(heads), pooled),
        position_weight=weight,
    )
    if "o.weight" not in state.arrays:
        return network
    return network.then([Elementwise("relu"), Layer(*state.linear("o"))])


def build_attn_lite(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build AttnLite of models-under-pressure: scores (w . x + b) / sqrt(D), and a linear layer on
    the mean.
    """
    inner = ".linear" if "context_query.linear.weight" in state.arrays else ""
    query = state.linear(f"context_query{inner}")
    classifier = state.linear(f"classifier{inner}")
    check("context_query", len(query.W) == 1, "one row", len(query.W))
    temperature = np.sqrt(query.W.shape[1]) * positive(
        "attention_temperature", options["attention_temperature"]
    )
    return BagNetwork(Attention(query.W, query.b, temperature=temperature), *classifier)


def build_softmax_probe(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build the softmax probe of models-under-pressure: z_i = w . x_i + b, and f = sum of softmax(z
    / T)_i z_i.

    The file has one linear layer, and the temperature T is a setting of the training, so it has to
    be given.
    """
    temperature = options["attention_temperature"]
    if temperature is None:
        raise ValueError(
            "attention_temperature: expected the temperature of the softmax of this probe, which "
            "its file does not contain, got none"
        )
    name = "linear." if "linear.weight" in state.arrays else ""
    # A module that is one linear layer has no prefix in its state dict.
    if not name and "weight" in state.arrays:
        state.arrays = {f"linear.{key}": array for key, array in state.arrays.items()}
    W, b = state.linear("linear")
    check("linear.weight", len(W) == 1, "one row", len(W))
    # One layer gives the scores and the values, as in the formula.
    return BagNetwork(
        attention=Attention(W, b, temperature=positive("attention_temperature", temperature)),
        readout=W,
        bias=b,
    )


def build_efficient_probing(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build Efficient Probing: query i gives token x the log-mass q_i . x scale, and its part of
    the values V x.

    Batch normalization without weights and a linear layer follow. The keys are the tokens
    themselves.
    """
    start = state.keys(layout.marks[0])[0].removesuffix("v.weight")
    queries = as_rows(state.array(f"{start}cls_token"))
    V, b = state.linear(f"{start}v")
    Q = len(queries)
    check(
        f"{start}v.weight", len(V) % Q == 0, f"a multiple of {Q} rows, one part per query", len(V)
    )
    scale = options["qk_scale"]
    if scale is None:
        scale = queries.shape[1] ** -0.5
        state.unsaid["qk_scale"] = f"scores times {scale:.3g}"
    norm = f"{start}bn"
    last = [f"{start}head", f"{start}classifier", f"{start}fc", f"{start}linear"]
    # In an nn.Sequential the probe is module 0, its normalization 1 and its linear layer 2.
    if start.endswith("0."):
        norm = f"{start[:-2]}1"
        last = [f"{start[:-2]}2"]
    state.leave(*layout.leave)
    # The epsilon of the batch normalization of Efficient Probing, in its code.
    efficient_probing_eps = 1e-6
    gain, shift = state.batch_norm(norm, efficient_probing_eps)
    names = [name for name in last if f"{name}.weight" in state.arrays]
    if not names:
        raise ValueError(
            f"{state.source}: expected a linear layer {last[0]!r}, got {state.summary()}"
        )
    network = BagNetwork(
        attention=Attention(queries * positive("qk_scale", scale)),
        readout=V,
        bias=b,
        value_class=np.arange(len(V)),
        value_head=np.repeat(np.arange(Q), len(V) // Q),
    )
    return network.then([Layer(np.diag(gain), shift), Layer(*state.linear(names[0]))])


def build_multihead(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build PyTorch's `nn.MultiheadAttention` with one learned query, and a linear head or several
    layers.

    Keys and values read the same bag. The layer has the weights of queries, keys and values in one
    array, or in three if their widths differ, and a linear projection of its output. With
    `query_in_bag` the query is a class token: an instance that is always present. With
    `query_added` it is added to the pooled vector.
    """
    layer = _multihead(state, layout, options)
    network = layer.network
    projection = layer.projection
    if options["query_in_bag"]:
        size = layer.query.size
        check("query_in_bag", size == network.D, f"instances of {size} numbers", network.D)
        network = replace(network, background=layer.query)
    if options["query_added"]:
        # The query is the same for every bag, so it becomes a part of the bias.
        projection = Layer(projection.W, projection.b + layer.query)
    return network.then([projection, *last_layers(state, options)])


class Multihead(NamedTuple):
    """An attention layer of PyTorch with a learned query."""

    start: str  # the beginning of its names
    query: Array  # (D,), before its projection
    network: BagNetwork  # whose pooled vector has the outputs of all heads
    projection: Layer  # of the outputs


def _multihead(state: StateDict, layout: Layout, options: Options) -> Multihead:
    """Read an attention layer of PyTorch and its learned query."""
    key, *others = state.keys(layout.marks[0])
    if others:
        raise ValueError(
            f"{state.source}: expected one attention layer, got {[key, *others]}: attention before "
            "the pooling makes instances depend on each other, so this is not a pooled game"
        )
    start = key.removesuffix("in_proj_weight").removesuffix("q_proj_weight")
    if options["add_zero_attn"]:
        raise ValueError(
            "add_zero_attn: expected False, got True: a background of zeros has no reader yet"
        )
    if key.endswith("in_proj_weight"):
        weights = np.split(state.array(key, 2), 3)
    else:
        weights = [state.array(f"{start}{part}_proj_weight", 2) for part in "qkv"]
    width = len(weights[0])
    biases = [np.zeros(width)] * 3
    if f"{start}in_proj_bias" in state.arrays:
        biases = np.split(state.array(f"{start}in_proj_bias", 1), 3)
    (Q, a), keys, values = map(Linear, weights, biases)
    query = as_rows(state.array(_learned_query(state, layout, width)))
    network = pooled_heads(query @ Q.T + a, keys, values, options)
    return Multihead(
        start=start,
        query=query[0],
        network=network,
        projection=Layer(*state.linear(f"{start}out_proj")),
    )


def _learned_query(state: StateDict, layout: Layout, width: int) -> str:
    """Return the name of the only parameter outside of any layer that has the width of a query."""
    names = [
        name for name in state.keys(layout.marks[1]) if state.arrays[name].shape[-1:] == (width,)
    ]
    if len(names) > 1:
        # Names of a learned query, where several parameters have its width.
        query = r"(?:.*[._])?(?:query|queries|q|latents?|probe|seed|cls|token)(?:\.weight|[._].*)?"
        names = [name for name in names if re.fullmatch(query, name)]
    if len(names) != 1:
        raise ValueError(
            f"{state.source}: looks like an attention layer (nn.MultiheadAttention) without a "
            f"learned query: expected one parameter of {width} numbers, got "
            f"{names or state.summary()}. If the queries are the instances, these depend on each "
            "other before the pooling, and it is not a pooled game"
        )
    return names[0]


def _residual_mlp(state: StateDict, norm: str, mlp: str, options: Options) -> Residual:
    """Return x + mlp(norm(x)), with two linear layers fc1 and fc2 in the MLP, and perhaps no
    normalization.
    """
    steps: list[Any] = []
    if f"{norm}.weight" in state.arrays:
        steps.append(read_module(state, norm, options))
    activation = options["head_activation"]
    state.unsaid["head_activation"] = f"{SPELLED.get(activation, activation)} in the MLP"
    steps += [Layer(*state.linear(f"{mlp}.fc1")), activation, Layer(*state.linear(f"{mlp}.fc2"))]
    return Residual(steps)


def build_siglip(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build the pooling head of SigLIP in transformers: y = attention(probe, x), then y +
    mlp(layernorm(y)).

    A classifier follows. Its hidden activation, if it has one, is that of the MLP.
    """
    layer = _multihead(state, layout, options)
    owner = layer.start.removesuffix("attention.")
    if owner:
        state.leave(*layout.leave)
    block = _residual_mlp(state, f"{owner}layernorm", mlp=f"{owner}mlp", options=options)
    return layer.network.then([layer.projection, block, *last_layers(state, options)])


def build_timm_mlp(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build timm's attention pooling with its MLP: y = proj(attention(latent, x)), then y +
    mlp(norm(y)).
    """
    start = state.keys(layout.marks[0])[0].removesuffix("latent")
    latent = as_rows(state.array(f"{start}latent"))
    if f"{start}q.weight" in state.arrays:
        Q, a = state.linear(f"{start}q")
        latent = latent @ Q.T + a
    keys, values = split_layers(state, start, "kv")
    network = pooled_heads(latent, keys, values, options)
    projection = Layer(*state.linear(f"{start}proj"))
    block = _residual_mlp(state, f"{start}norm", mlp=f"{start}mlp", options=options)
    if f"{start}pos_embed" in state.arrays:
        network = replace(network, positions=as_rows(state.array(f"{start}pos_embed")))
    if start:
        state.leave(*layout.leave)
    return network.then([projection, block, *last_layers(state, options)])


def build_vjepa_block(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build V-JEPA's probe with a complete block: y = q + attention(q, norm1(x)), then y +
    mlp(norm2(y)).

    norm1 normalizes each token alone. Tokens of a probe with self-attention blocks depend on each
    other.
    """
    query_name = state.keys(r"(?:.*\.)?query_tokens")[0]
    start = query_name.removesuffix("query_tokens")
    block = f"{start}cross_attention_block."
    query = as_rows(state.array(query_name))
    Q, a = state.linear(f"{block}xattn.q")
    keys, values = split_layers(state, f"{block}xattn.", "kv")
    state.leave(f"{block}xattn.proj.")
    network = pooled_heads(query @ Q.T + a, keys, values, options)
    gain = state.array(f"{block}norm1.weight", 1)
    shift = state.array(f"{block}norm1.bias", 1)
    # Without its weights, LayerNorm is the option `normalize`; the weights are a linear layer.
    tokens = BagNetwork(
        attention=network.attention,
        readout=network.readout,
        bias=network.bias + query[0],
        value_class=network.value_class,
        value_head=network.value_head,
        embed=(Layer(np.diag(gain), shift),),
        normalize="layer_norm",
    )
    mlp = _residual_mlp(state, f"{block}norm2", mlp=f"{block}mlp", options=options)
    return tokens.then([mlp, *last_layers(state, options)])


def build_trident(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build TRIDENT's ABMIL: GELU embedding, heads with an attention network each, a linear layer,
    GELU, a classifier.

    The heads' means are concatenated and condensed by a linear layer if there are several.
    """
    key = state.keys(layout.marks[0])[0]
    start = key[: key.index("attention_heads.")]
    owner = start.removesuffix("image_pooler.")
    hidden = [state.linear(name) for name in state.layers(rf"{start}attention_heads\.\d+\.0")]
    gates = [state.linear(name) for name in state.layers(rf"{start}gating_layers\.\d+\.0")]
    last = [state.linear(name) for name in state.layers(rf"{start}branching_layers\.\d+")]
    heads = len(hidden)
    check(f"{start}branching_layers", len(last) == heads, f"{heads} layers", len(last))
    for layer in last:
        check(f"{start}branching_layers", len(layer.W) == 1, "one branch", len(layer.W))
    k = len(hidden[0].W)
    # Every head has hidden units of its own, so a row of w is zero at those of the other heads.
    w = np.zeros((heads, heads * k))
    for h, layer in enumerate(last):
        w[h, h * k : (h + 1) * k] = layer.W[0]
    gate = None
    if gates:
        gate = Layer(*_stacked(gates), options["gate"])
    attention = Attention(
        w,
        np.concatenate([layer.b for layer in last]),
        hidden=Layer(*_stacked(hidden), options["activation"]),
        gate=gate,
    )
    embed: tuple[Layer, ...] = ()
    before = f"{owner}pre_attention_layers.0"
    if f"{before}.weight" in state.arrays:
        embed = (Layer(*state.linear(before), options["embed_activation"]),)
    E = attention.E
    steps: list[Any] = []
    if f"{start}condensing_layer.weight" in state.arrays:
        steps.append(Layer(*state.linear(f"{start}condensing_layer")))
    after = f"{owner}post_attention_layers.0"
    if f"{after}.weight" in state.arrays:
        steps += [Layer(*state.linear(after)), options["post_activation"]]
        words = SPELLED.get(options["post_activation"], options["post_activation"])
        state.unsaid["post_activation"] = f"{words} after the pooling"
    network = BagNetwork(
        attention=attention,
        readout=np.tile(np.eye(E), (heads, 1)),
        bias=np.zeros(heads * E),
        value_class=np.arange(heads * E),
        value_head=np.repeat(np.arange(heads), E),
        embed=embed,
    )
    return network.then([*steps, *last_layers(state, options)])


def _stacked(layers: list[Linear]) -> Linear:
    """Return several linear layers of the same inputs as one."""
    return Linear(
        np.concatenate([layer.W for layer in layers]),
        np.concatenate([layer.b for layer in layers]),
    )


def build_chemprop(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build chemprop's aggregation of atoms and its feed-forward network; the features are the
    atoms' final vectors.

    The attentive aggregation has the weights softmax(W h). The mean, the sum and the sum over a
    constant have no weights in the file, so one has to be named, and only the mean is a weighted
    mean. Predictions of a regression are scaled back by `output_transform`.
    """
    modules = head_modules(state, ["predictor.ffn"])
    width = state.array(f"{modules[0].name}.weight", 2).shape[1]
    atoms = width
    if "message_passing.W_o.weight" in state.arrays:
        atoms = len(state.arrays["message_passing.W_o.weight"])
    # With descriptors of the atoms, W_d makes their final vectors, which are longer than the rows
    # of W_o.
    is_extended = "message_passing.W_d.weight" in state.arrays
    fits = is_extended or atoms == width
    expected = f"a layer for the {atoms} numbers of an atom, without descriptors of the molecule"
    check("predictor.ffn", fits, expected, f"one for {width}")
    state.leave(*layout.leave)
    aggregation = options["aggregation"]
    if "agg.W.weight" in state.arrays:
        check(
            "aggregation",
            aggregation in (None, "attentive"),
            "'attentive', as in the file",
            aggregation,
        )
        attention = Attention(*state.linear("agg.W"))
    elif aggregation == "mean":
        attention = Attention(np.zeros((1, width)))
    elif aggregation in ("sum", "norm"):
        raise ValueError(
            f"aggregation: expected 'mean', got {aggregation!r}: a sum over atoms is not a "
            "weighted mean, since its size grows with the number of atoms, so the model is not a "
            "pooled game"
        )
    else:
        raise ValueError(
            "aggregation: expected 'mean', 'sum' or 'norm', the aggregation that this model was "
            f"trained with, which its file does not contain, got {aggregation!r}"
        )
    check("agg.W", width == attention.E, f"weights for {width} numbers of an atom", attention.E)
    steps: list[Any] = []
    if "bn.running_mean" in state.arrays:
        steps.append(read_module(state, "bn", options))
    steps += read_head(state, modules, options)
    if "predictor.output_transform.scale" in state.arrays:
        scale = state.array("predictor.output_transform.scale").reshape(-1)
        mean = state.array("predictor.output_transform.mean").reshape(-1)
        steps.append(Layer(np.diag(scale), mean))
    network = BagNetwork(attention=attention, readout=np.eye(width), bias=np.zeros(width)).then(
        steps
    )
    state.heads = _chemprop_heads(state, network.Q)
    return network


def _chemprop_heads(state: StateDict, outputs: int) -> tuple[str, ...]:
    """Return the meanings that the outputs can have: `output_transform` scales back the values of a
    regression, and several tasks are not classes that exclude each other.
    """
    if "predictor.output_transform.scale" in state.arrays:
        return ("regression",)
    tasks = state.arrays.get("predictor.criterion.task_weights")
    if outputs > 1 and tasks is not None and tasks.size == outputs:
        return ("labels", "regression")
    state.unsaid["head"] = "logits of classes"
    return ()


def build_transformers_mean(state: StateDict, layout: Layout, options: Options) -> BagNetwork:
    """Build a classifier of transformers on a mean: of frames after `projector`, or of patches;
    then `classifier`.

    The features are the last hidden states of the encoder in the same file: of wav2vec2 and HuBERT
    the frames (their weighted sum over layers with `use_weighted_layer_sum`), of SigLIP and I-JEPA
    the patches, of CLIP the patches without the class token.
    """
    state.leave(*layout.leave)
    classifier = Layer(*state.linear("classifier"))
    if any(key.startswith("vision_model.") for key in state.arrays):
        state.unsaid["pooling"] = "the mean of the patches"
        if any(key.startswith("vision_model.head.") for key in state.arrays):
            state.unsaid["pooling"] = (
                "the mean of the patches and not the attention pooling in the file, which is "
                "layout 'siglip'"
            )
    if "layer_weights" in state.arrays:
        state.unsaid["features"] = (
            "features that are the weighted sum over the layers of the encoder"
        )
    steps = [classifier]
    if "projector.weight" in state.arrays:
        steps = [Layer(*state.linear("projector")), classifier]
    width = steps[0].W.shape[1]
    network = BagNetwork(
        attention=Attention(np.zeros((1, width))), readout=np.eye(width), bias=np.zeros(width)
    )
    return network.then(steps)
