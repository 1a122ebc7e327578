"""Layouts of saved networks: from the names in a state dict to a network.

`LAYOUTS` has one entry per layout: the layers by which it is recognized (regular expressions), and
the options that the file does not contain. One builder reads nearly all of them,

    h = embedding of x,   s = w . (activation(V h) * gate(U h)) / temperature,   logits = readout . pooled + b,

and attentive probes and plain means have a builder each. A layout must read, or explicitly ignore,
every weight of the file. A remaining weight is an error that names it, because it belongs to a
layer outside the layout, and a layer after the pooling would make the result wrong. A new layout is
one entry.

Instances must not interact before the pooling, and a softmax (or mean) runs over the instances. Any
layers may follow: a linear one makes a pooled game, and others are the tail of the network
(`tail.py`). `REFUSALS` lists known networks that do not pool like this, with the reason.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any

import numpy as np

from ..files.arrays import StateDict
from . import layout_builders, tail_builders
from .bag_network import BagNetwork
from .layout import GATED, HEADS, OPTIONS, SPELLED, UNGATED, Layout, Options, defaults

__all__ = ["LAYOUTS", "OPTIONS", "assumptions", "network_from_state", "proposals", "renamed"]


def assumptions(network: BagNetwork, layout: str, given: Options, unsaid: Mapping[str, str]) -> str:
    """Return the unspecified options in words, such as "tanh attention, ReLU embedding, temperature
    1".

    `unsaid` has the words of options that only some files of a layout need, by option.
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
        # The last layer may have an activation of its own, so the first one is described.
        "embed_activation": (network.embed or (None,))[0],
    }
    for name in used.keys() & values.keys():
        layer = used[name]
        values[name] = None if layer is None else SPELLED.get(layer.activation, layer.activation)
    if not attention.w.any():
        # All log-masses are zero, so the temperature changes nothing.
        values.pop("attention_temperature", None)
    if not entry.norm:
        values.pop("epsilon", None)  # then `unsaid` says it
    if "num_heads" in values:
        # None stands for the number that follows from the weights.
        values["num_heads"] = values["num_heads"] or network.H
    phrases = [
        OPTIONS[name].described.format(value) for name, value in values.items() if value is not None
    ]
    phrases += [words for name, words in unsaid.items() if name not in given]
    # Layouts whose name says that they are means.
    means = ("mean", "chemprop", "transformers_audio", "transformers_image")
    # A network without an attention could as well take the maximum of its instances.
    if layout not in means and not attention.w.any():
        phrases.append("mean pooling")
    return ", ".join(phrases)


# The names of CLAM's attention: "module." if the file was saved from several devices.
_CLAM = r"attention_net\.(?:module\.)?[1-9]\d*\."
# Its gated attention: both hidden layers, and the layer that scores.
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
# The names of an attention layer of PyTorch, outside of an encoder, and of a learned query: a
# parameter outside of any layer, under whatever name, or an embedding of that name.
_MULTIHEAD = (
    r"(?!.*(?:self_attn|encoder|transformer|blocks?\.)).*(?:in_proj_weight|q_proj_weight)",
    r"(?:.*\.)?(?!weight$|bias$|bias_[kv]$|(?:in|[qkv])_proj_|running_|num_batches)[^.]*"
    r"|(?:.*[._])?(?:query|queries|latents?|probe|seed|cls_token|token)\.weight",
)
# CLAM, from whose single branch CHIEF starts.
_CLAM_LAYOUT = Layout(
    embed=r"attention_net\.(?:module\.)?0",
    attention=(tuple(_CLAM + name for name in _CLAM_NETWORK), (_CLAM + r"module\.\d+",)),
    readout=r"classifiers(?:\.\d+)?",
    head=("classifiers",),
    options={**GATED, **HEADS},
    leave=_INSTANCES,
)
# Networks whose layers the user named, or a builder did.
_ROLES_LAYOUT = Layout(
    embed=r"roles\.embed\.\d+",
    bare=True,
    attention=tuple(tuple(rf"roles\.{part}" for part in parts) for parts in ("VUw", "Vw", "w", "")),
    readout=r"roles\.classifier(?:\.\d+)?",
    head=("roles.head", "roles.classifier"),
    options={**GATED, **HEADS},
)
# The table of layouts. A new one is one entry, and a network in
# `tests/app/models/layouts/networks.py`.
LAYOUTS: dict[str, Layout] = {
    # CLAM (Lu et al. 2021, mahmoodlab/CLAM). The single branch has one attention for all classes
    # and one layer `classifiers`; the multiple branch has one row of attention_c and one layer
    # `classifiers.c` per class. The attention has number 3 if the network had dropout, otherwise 2.
    "clam": _CLAM_LAYOUT,
    # CHIEF (hms-dbmi/CHIEF) with its `organ_embedding`: CLAM's single branch and a text. The queues
    # of its contrastive training and `att_head` play no part in the logits.
    "chief": Layout(
        marks=(r"text_to_vision\.0\.weight", "organ_embedding", r"classifiers\.weight"),
        options=defaults(*GATED, "organ"),
        leave=(*_INSTANCES, "att_head.", "pos_mem", "neg_mem", "hard_neg_mem"),
        build=layout_builders.build_chief,
        inner=_CLAM_LAYOUT,
    ),
    # MIL-Lab's ABMIL and CLAM, and FEATHER, which is the former (mahmoodlab/MIL-Lab).
    "mil_lab": Layout(
        embed=r"patch_embed\.\d+",
        attention=(
            tuple(rf"global_attn\.{name}" for name in _CLAM_NETWORK),
            (r"global_attn\.module\.\d+",),
        ),
        readout=r"classifier(?:\.\d+)?",
        head=("classifier",),
        options={**GATED, **HEADS},
        leave=_INSTANCES,
    ),
    # xMIL's attention MIL (bifold-pathomics/xMIL), with or without `out_layers` after the pooling.
    # Its last layer was called `classifier` before the package had a release.
    "xmil": Layout(
        embed=r"linear_layers\.\d+\.0",
        attention=(_PLAIN,),
        readout=r"linear_head|classifier(?:\.\d+)?",
        head=("out_layers", "linear_head", "classifier"),
        options={**UNGATED, **HEADS},
    ),
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
        options=defaults(*UNGATED, "attention_gate", "epsilon"),
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
        readout=r"classifier(?:\.module|\.\d+)?",
        head=("classifier",),
        options={**defaults(*GATED, "extracted"), **HEADS},
        leave=("inst_classifiers.", "inst_loss_fn."),
    ),
    # owkin's ABMIL and MeanPool (owkin/HistoSSLscaling). Their first three columns are metadata
    # (level, x, y), which the network drops.
    "owkin": Layout(
        embed=r"tiles_emb\.hidden_layers\.\d+",
        bare=True,
        attention=((r"attention_layer\.att", r"attention_layer\.gate", r"attention_layer\.w"), ()),
        readout=r"mlp\.0(?:\.0)?",
        head=("mlp",),
        options={
            **GATED,
            **HEADS,
            "embed_activation": "sigmoid",
            "last_activation": "identity",
            "metadata_columns": 3,
            "head_activation": "sigmoid",
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
        readout=r"classifier\.\d+",
        head=("classifier",),
        options={**GATED, **HEADS},
        leave=("feature_extractor_part1.",),
    ),
    # AIM's attentive probe (apple/ml-aim, AttentionPoolingClassifier), on frozen patch tokens.
    "aim": Layout(
        marks=("cls_token", r"k\.weight", r"v\.weight"),
        options={"num_heads": 12},
        build=layout_builders.build_aim,
    ),
    # timm's AttentionPoolLatent with out_features=0 and a linear head. The encoder that makes the
    # tokens is not part of the pooling.
    "timm": Layout(
        marks=(r"(?:.*\.)?latent", r"(?:.*\.)?kv\.weight"),
        options={"num_heads": 8, "pool_type": "token"},
        leave=_ENCODER,
        build=layout_builders.build_timm,
    ),
    # V-JEPA's attentive probe (facebookresearch/jepa) without a complete block.
    "vjepa": Layout(
        marks=(r"(?:.*\.)?query_tokens", r"(?:.*\.)?cross_attention_block\.kv\.weight"),
        options={"num_heads": 12},
        build=layout_builders.build_vjepa,
    ),
    # timm's AttentionPoolLatent with its projection and its MLP, as in SigLIP's image encoders.
    "timm_mlp": Layout(
        marks=(r"(?:.*\.)?latent", r"(?:.*\.)?kv\.weight", r"(?:.*\.)?mlp\.fc1\.weight"),
        options={**HEADS, "num_heads": 8, "head_activation": "gelu", "epsilon": 1e-6},
        leave=_ENCODER,
        build=tail_builders.build_timm_mlp,
    ),
    # V-JEPA's attentive probe with a complete block and no self-attention before it.
    "vjepa_block": Layout(
        marks=(
            r"(?:.*\.)?query_tokens",
            r"(?:.*\.)?cross_attention_block\.xattn\.kv\.weight",
            r"(?:.*\.)?cross_attention_block\.norm1\.weight",
        ),
        options={**HEADS, "num_heads": 12, "head_activation": "gelu"},
        without=r"(?:.*\.)?blocks\.\d+\..*",
        build=tail_builders.build_vjepa_block,
    ),
    # PyTorch's nn.MultiheadAttention(query, bag, bag) with a learned query, then a linear head or
    # several layers.
    "multihead": Layout(
        marks=_MULTIHEAD,
        options={
            **HEADS,
            **defaults("num_heads", "add_zero_attn", "query_in_bag", "query_added"),
        },
        without=r"vision_model\.head\..*",
        build=tail_builders.build_multihead,
    ),
    # The pooling head of SigLIP and SigLIP 2 in transformers, with a classifier.
    "siglip": Layout(
        marks=(*_MULTIHEAD, r"(?:.*\.)?layernorm\.weight", r"(?:.*\.)?mlp\.fc1\.weight"),
        options={
            **HEADS,
            "num_heads": None,
            "add_zero_attn": False,
            "head_activation": "gelu_tanh",
            "epsilon": 1e-6,
        },
        # Prefixes of the layers of encoders of transformers, which make the patches or frames
        # before the pooling.
        leave=("vision_model.embeddings.", "vision_model.encoder.", "vision_model.post_layernorm."),
        # In a file of transformers these layers are left over; its image classifiers take the mean
        # of the patches.
        without=r"vision_model\.head\..*",
        build=tail_builders.build_siglip,
    ),
    # EleutherAI's attention probe on the activations of a language model (EleutherAI/attention-
    # probes).
    "attention_probe": Layout(
        marks=(r"q\.weight", r"v\.weight", "position_weight"),
        options=defaults("use_tanh"),
        build=tail_builders.build_attention_probe,
    ),
    # AttnLite of models-under-pressure (arXiv 2506.10805), on the activations of a language model.
    "attn_lite": Layout(
        marks=(r"context_query(?:\.linear)?\.weight", r"classifier(?:\.linear)?\.weight"),
        options=defaults("attention_temperature"),
        build=tail_builders.build_attn_lite,
    ),
    # The softmax probe of models-under-pressure. Only with layout="softmax_probe", because its file
    # is one linear layer.
    "softmax_probe": Layout(
        options={"attention_temperature": None}, build=tail_builders.build_softmax_probe
    ),
    # Efficient Probing (billpsomas/efficient-probing), on frozen patch tokens.
    "efficient_probing": Layout(
        marks=(
            r"(?!blocks\.)(?:.*\.)?v\.weight",
            r"(?:.*\.)?cls_token",
            r"(?!blocks\.)(?:.*\.)?(?:1|bn)\.running_mean",
        ),
        without=r"(?!blocks\.)(?:.*\.)?(?:k|q|qkv|kv)\.weight",
        options=defaults("qk_scale"),
        leave=_ENCODER,
        build=tail_builders.build_efficient_probing,
    ),
    # TRIDENT's ABMIL slide encoder (mahmoodlab/TRIDENT) with a classifier, as in its tutorial.
    "trident": Layout(
        marks=(r"(?:.*\.)?attention_heads\.0\.0\.weight", r"(?:.*\.)?branching_layers\.0\.weight"),
        options={
            **HEADS,
            **defaults("activation", "gate", "post_activation"),
            "embed_activation": "gelu",
        },
        build=tail_builders.build_trident,
    ),
    # chemprop's aggregation of atoms and feed-forward network (chemprop/chemprop 2), on the atoms'
    # vectors.
    "chemprop": Layout(
        marks=(r"predictor\.ffn\..*\.weight", r"message_passing\..*"),
        options={**HEADS, "aggregation": None, "negative_slope": 0.1},
        leave=("message_passing.", "metrics.", "predictor.criterion.", "X_d_transform."),
        build=tail_builders.build_chemprop,
    ),
    # Classifiers of transformers on the mean of frames: ...ForSequenceClassification of wav2vec2,
    # HuBERT, WavLM, UniSpeech, SEW, data2vec-audio and Whisper; and of patches:
    # ...ForImageClassification of SigLIP, CLIP and I-JEPA.
    "transformers_audio": Layout(
        marks=(
            r"(?:wav2vec2|hubert|wavlm|unispeech|sew|data2vec_audio)[^.]*\..*|encoder\.conv1\..*",
            r"projector\.weight",
            r"classifier\.weight",
        ),
        options={},
        leave=(
            "wav2vec2",
            "hubert",
            "wavlm",
            "unispeech",
            "sew",
            "data2vec_audio",
            "encoder.",
            "layer_weights",
        ),
        without=r"(?:tdnn|objective|feature_extractor|lm_head|decoder)\..*",
        build=tail_builders.build_transformers_mean,
    ),
    "transformers_image": Layout(
        marks=(r"(?:vision_model|ijepa)\.embeddings\..*", r"classifier\.weight"),
        options={},
        leave=("vision_model.", "ijepa."),
        build=tail_builders.build_transformers_mean,
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
        build=layout_builders.build_class_token,
    ),
    # The example `attention_mil_classification` of keras.io, from the HDF5 file of its weights.
    "keras": Layout(
        marks=(rf"(?!.*dense){layout_builders.KERAS}", rf"(?=.*dense){layout_builders.KERAS}"),
        options=GATED,
        build=layout_builders.build_keras,
        inner=_ROLES_LAYOUT,
    ),
    # Networks with other names, after `renamed` has replaced them.
    "roles": _ROLES_LAYOUT,
    # Only with layout="mean", because a single linear layer could follow any pooling. See
    # `MeanPooledText` for texts.
    "mean": Layout(options={}, build=layout_builders.build_mean),
}

# The reason for refusing networks whose instances are mixed first.
_DEPENDENT = "instances depend on each other before the pooling"
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
        r"(.*\.)?(post_attn|pooled_mlp)\..*",
        "a slide encoder",
        "it has no classifier, so there is no output to explain; layers after its pooling are "
        "built by BagNetwork.then",
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


# Layouts whose tokens come from an encoder in the same file, and some that share a name with
# transformers.
POOLING_OF_TOKENS = (
    "timm",
    "timm_mlp",
    "class_token",
    "multihead",
    "siglip",
    "vjepa_block",
    "efficient_probing",
    "chemprop",
    "transformers_audio",
    "transformers_image",
    "trident",
)


def network_from_state(
    state: StateDict, layout: str, options: dict[str, Any]
) -> tuple[BagNetwork, str]:
    """Return the network of a state dict and the name of its layout; `state.unsaid` says what the
    builder assumed.

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
        network = (entry.build or layout_builders.build_attention)(
            state, entry, {**entry.options, **options}
        )
    except ValueError as error:
        # An error that begins with the file or an option says enough.
        if str(error).startswith((state.source, *(f"{name}:" for name in (*options, "num_heads")))):
            raise
        raise ValueError(f"{state.source}: layout {layout!r}: {error}") from None
    hint = (
        ". Layers after the pooling that no layout reads can be given as roles (`head`) or by "
        "BagNetwork.then, and other layers may make instances depend on each other"
    )
    state.check_all_read(f"are not part of the layout {layout!r}", hint)
    return network, layout


def _recognize(state: StateDict) -> str:
    """Return the one layout whose names a state dict has, or raise an error."""

    def fits(layout: Layout) -> bool:
        needed = (layout.readout,) if layout.bare else (layout.readout, layout.embed)
        groups = (all(map(state.layers, (*needed, *group))) for group in layout.attention)
        if layout.without and state.keys(layout.without):
            return False
        # A layout with marks is recognized by them alone.
        return all(map(state.keys, layout.marks)) if layout.marks else any(groups)

    names = [name for name, entry in LAYOUTS.items() if fits(entry)]
    if len(names) > 1:  # CHIEF also has all names of CLAM, and a class token has some of AIM's
        most = max(len(LAYOUTS[name].marks) for name in names)
        names = [name for name in names if len(LAYOUTS[name].marks) == most]
    if len(names) > 1:
        names = [name for name in names if state.layers(LAYOUTS[name].embed)]
    # The encoder in front of timm's pooling is not part of it, so it is not rejected as a
    # transformer.
    is_pooling = len(names) == 1 and names[0] in POOLING_OF_TOKENS
    for pattern, what, why in REFUSALS:
        keys = state.keys(pattern)
        if keys and not is_pooling:
            raise ValueError(
                f"{state.source}: looks like {what} ({keys[0]}), which is not a pooled game: {why}"
            )
    if len(names) == 1:
        return names[0]
    if _is_single_layer(state):
        raise ValueError(
            f"{state.source}: has one linear layer, which does not say how the model pools: "
            "layout='mean' is the mean, and layout='softmax_probe' a softmax probe on "
            "activations, with its attention_temperature. A maximum, a rolling mean or the last "
            "token is not a weighted mean"
        )
    if any("embedding" in key for key in state.arrays):
        raise ValueError(
            f"{state.source}: looks like a text model, an embedding and a linear layer "
            f"({state.summary()}): use MeanPooledText.from_state_dict, which also takes the words"
        )
    raise ValueError(
        f"{state.source}: no layout of {', '.join(LAYOUTS)} fits; it has {state.summary()}. An "
        "encoder without a classifier has no output to explain. For a network of an embedding, an "
        "attention and a linear layer with other names, give them as `roles` (the command `roles` "
        "proposes some); any other network that pools with one softmax can be passed to "
        "BagClassifier.from_attention or game_from_black_box"
    )


def _is_single_layer(state: StateDict) -> bool:
    """Return whether the file has the weights of one linear layer, and nothing else."""
    parts = {key.rpartition(".")[2] for key in state.arrays}
    return parts in ({"weight"}, {"weight", "bias"}) and len(state.arrays) == len(parts)


# Networks with other names


# Roles in a mapping by the user: the layers of the embedding (one or several, in order), the hidden
# layer and the gate of the attention, its last layer, layers between the pooling and the classifier
# (each with an activation), the classifier, and prefixes of names that do not affect the
# prediction.
ROLES = ("embed", "V", "U", "w", "head", "classifier", "leave")


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
            new = f"roles.{role}"
            if role == "head":
                # The inner number leaves room for an activation between the layers
                # (`head_layers.py`).
                new = f"roles.head.{i}.0"
            elif role == "embed" or not isinstance(roles[role], str):
                new = f"roles.{role}.{i}"
            if name in arrays:  # a separate parameter, which may be a vector
                arrays[f"{new}.weight"] = np.atleast_2d(arrays.pop(name))
            elif f"{name}.weight" not in arrays:
                raise ValueError(
                    f"roles: {role}: {state.source} has no layer {name!r}, only {state.summary()}"
                )
            for part in ("weight", "bias"):
                if f"{name}.{part}" in arrays:
                    arrays[f"{new}.{part}"] = arrays.pop(f"{name}.{part}")
    return StateDict(arrays, state.source, state.outputs, state.options, state.labels)


def _listed(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def proposals(state: StateDict) -> list[dict[str, Any]]:
    """Return the assignments of roles that use every matrix and have matching shapes, the likeliest
    first.

    >>> shapes = {"enc": (5, 7), "gate": (3, 5), "tan": (3, 5), "score": (1, 3), "out": (2, 5)}
    >>> state = StateDict(
    ...     {f"{name}.weight": np.ones(shape) for name, shape in shapes.items()}, "file"
    ... )
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
        # Roles suggested by the names of layers.
        hints = {
            "embed": r"emb|enc|feat|proj|backbone|fc1",
            "V": r"v\b|_a\b|tanh|hidden|att",
            "U": r"u\b|_b\b|gate|sigm",
            "w": r"w\b|_c\b|att|score|weight",
            "classifier": r"class|head|out|logit|pred|fc",
        }
        hits = sum(
            bool(re.search(hints[role], n.lower()))
            for role, names in roles.items()
            for n in _listed(names)
        )
        # Layers are mostly stored in the order in which they are used.
        places = [order.index(name) for names in roles.values() for name in _listed(names)]
        return 2 * hits + sum(a < b for a, b in pairwise(places))

    return sorted(_assignments(shapes), key=score, reverse=True)


def _assignments(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Any]]:
    """Yield the roles that layers can have by their shapes alone."""
    # The maximum number of embedding layers whose order is found by trial.
    most_layers = 4
    for classifier, w in permutations(shapes, 2):
        (C, E) = shapes[classifier]
        (H, k) = shapes[w]
        # One attention serves all classes, or each class has its own.
        if H not in (1, C):
            continue
        others = [name for name in shapes if name not in (classifier, w)]
        hidden = [name for name in others if shapes[name] == (k, E)]
        # Without a hidden layer, w scores the embedding itself.
        for parts in [
            *([()] if k == E else []),
            *permutations(hidden, 1),
            *permutations(hidden, 2),
        ]:
            rest = [name for name in others if name not in parts]
            for chain in permutations(rest) if len(rest) <= most_layers else ():
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
