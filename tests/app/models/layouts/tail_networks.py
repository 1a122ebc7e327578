"""Networks with layers after their pooling, probes and pooling heads, in torch, under the names of
their own code.

They import nothing from the core. Widths are different primes where heads do not have to divide
them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the witnesses of the layouts need torch (extra bench)")
nn = torch.nn

D = 11
E = 7
K = 5
C = 3
WIDTH = 12  # of networks whose heads divide it
HEADS = 3


def attend(query: Any, key: Any, value: Any, heads: int = HEADS) -> Any:
    """Scaled dot-product attention of queries (Q, D) on n keys and values, with several heads."""
    split = lambda t: t.reshape(len(t), heads, -1).transpose(0, 1)  # noqa: E731
    out = nn.functional.scaled_dot_product_attention(split(query), split(key), split(value))
    return out.transpose(0, 1).reshape(len(query), -1)


class AbmilMlp(nn.Module):
    """AttentionDeepMIL with another classifier, and perhaps several attention branches."""

    def __init__(self, classifier: Any, branches: int = 1) -> None:
        super().__init__()
        self.feature_extractor_part2 = nn.Sequential(nn.Linear(D, E), nn.ReLU())
        self.attention = nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Linear(K, branches))
        self.classifier = classifier

    def forward(self, x: Any) -> Any:
        h = self.feature_extractor_part2(x)
        pooled = torch.softmax(self.attention(h).T, dim=1) @ h
        return self.classifier(pooled.reshape(1, -1))[0]


class ClamMlp(nn.Module):
    """CLAM's single branch with several layers instead of one classifier."""

    def __init__(self) -> None:
        super().__init__()
        gated = nn.Module()
        gated.attention_a = nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Dropout(0.25))
        gated.attention_b = nn.Sequential(nn.Linear(E, K), nn.Sigmoid(), nn.Dropout(0.25))
        gated.attention_c = nn.Linear(K, 1)
        self.attention_net = nn.Sequential(nn.Linear(D, E), nn.ReLU(), nn.Dropout(0.25), gated)
        self.classifiers = nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Linear(K, C))
        self.instance_classifiers = nn.ModuleList([nn.Linear(E, 2) for _ in range(C)])

    def forward(self, x: Any) -> Any:
        h = self.attention_net[:3](x)
        gated = self.attention_net[3]
        s = gated.attention_c(gated.attention_a(h) * gated.attention_b(h))
        return self.classifiers(torch.softmax(s.T, dim=1) @ h)[0]


class XmilOut(nn.Module):
    """xMIL's attention MIL with `n_out_layers` after the pooling; its last layer has two names."""

    def __init__(self, out_layers: int, last: str = "classifier") -> None:
        super().__init__()
        self.linear_layers = nn.Sequential(nn.Sequential(nn.Linear(D, E), nn.ReLU()))
        self.attention = nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Linear(K, 1))
        blocks = [nn.Sequential(nn.Linear(E, E), nn.ReLU()) for _ in range(out_layers)]
        self.out_layers = nn.Sequential(*blocks)
        setattr(self, last, nn.Linear(E, C))
        self.last = last

    def forward(self, x: Any) -> Any:
        h = self.linear_layers(x)
        pooled = torch.softmax(self.attention(h).T, dim=1) @ h
        return getattr(self, self.last)(self.out_layers(pooled))[0]


class OwkinHidden(nn.Module):
    """owkin's MeanPool with `mlp_hidden`, whose first three columns are metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Sequential(nn.Linear(D, K), nn.Sigmoid()), nn.Linear(K, C))

    def forward(self, x: Any) -> Any:
        return self.mlp(x[:, 3:].mean(dim=0, keepdim=True))[0]


class Trident(nn.Module):
    """TRIDENT's ABMIL slide encoder under the classifier of its tutorial."""

    def __init__(self, heads: int, gated: bool) -> None:
        super().__init__()
        pooler = nn.Module()
        pooler.attention_heads = nn.ModuleList(
            [nn.Sequential(nn.Linear(D, K), nn.Tanh(), nn.Dropout(0.1)) for _ in range(heads)]
        )
        if gated:
            pooler.gating_layers = nn.ModuleList(
                [nn.Sequential(nn.Linear(D, K), nn.Sigmoid()) for _ in range(heads)]
            )
        pooler.branching_layers = nn.ModuleList([nn.Linear(K, 1) for _ in range(heads)])
        if heads > 1:
            pooler.condensing_layer = nn.Linear(heads * D, D)
        layers = {
            "pre_attention_layers": nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Dropout(0.1)),
            "image_pooler": pooler,
            "post_attention_layers": nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Dropout(0.1)),
        }
        self.feature_encoder = nn.Module()
        self.feature_encoder.model = nn.ModuleDict(layers)
        self.classifier = nn.Sequential(nn.Linear(D, E), nn.ReLU(), nn.Linear(E, 1))
        self.gated = gated

    def forward(self, x: Any) -> Any:
        layers = self.feature_encoder.model
        pooler = layers["image_pooler"]
        h = layers["pre_attention_layers"](x)
        means = []
        for i, head in enumerate(pooler.attention_heads):
            hidden = head(h)
            if self.gated:
                hidden = hidden * pooler.gating_layers[i](h)
            means.append(torch.softmax(pooler.branching_layers[i](hidden).T, dim=1) @ h)
        pooled = torch.cat(means, dim=1)
        if len(means) > 1:
            pooled = pooler.condensing_layer(pooled)
        return self.classifier(layers["post_attention_layers"](pooled))[0]


class MultiheadTail(nn.Module):
    """nn.MultiheadAttention with a learned query, and several layers after it."""

    def __init__(self, head: Any, **options: Any) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)
        self.head = head

    def forward(self, x: Any) -> Any:
        pooled, _ = self.attention(self.query, x[None], x[None], need_weights=False)
        return self.head(pooled[0])[0]


class MultiheadToken(nn.Module):
    """nn.MultiheadAttention whose query is a class token in the bag, or is added to its output."""

    def __init__(self, in_bag: bool, added: bool) -> None:
        super().__init__()
        self.summary_token = nn.Parameter(torch.randn(WIDTH))
        self.attention = nn.MultiheadAttention(WIDTH, HEADS)
        self.classifier = nn.Linear(WIDTH, C)
        self.has = (in_bag, added)

    def forward(self, x: Any) -> Any:
        in_bag, added = self.has
        query = self.summary_token[None]
        bag = x
        if in_bag:
            bag = torch.cat([query, x])
        pooled, _ = self.attention(query, bag, bag)
        if added:
            pooled = pooled + query
        return self.classifier(pooled)[0]


class ReluList(nn.ModuleList):
    """Linear layers in a row in the file, with a ReLU between them in the code."""

    def forward(self, x: Any) -> Any:
        *inner, last = self
        for layer in inner:
            x = torch.relu(layer(x))
        return last(x)


class Mlp(nn.Module):
    def __init__(self, width: int, act: Any) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 2 * width)
        self.act = act
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        return self.fc2(self.act(self.fc1(x)))


class SiglipPool(nn.Module):
    """The pooling head of SigLIP in transformers, itself, under a classifier."""

    def __init__(self) -> None:
        super().__init__()
        siglip = pytest.importorskip("transformers.models.siglip.modeling_siglip")
        config = siglip.SiglipVisionConfig(
            hidden_size=WIDTH, intermediate_size=17, num_attention_heads=HEADS
        )
        self.pool = siglip.SiglipMultiheadAttentionPoolingHead(config)
        self.classifier = nn.Linear(WIDTH, C)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.pool(x[None]))[0]


class TimmMlp(nn.Module):
    """What timm's AttentionPoolLatent computes with its projection and its MLP, under a linear
    head.
    """

    def __init__(self, norm: bool, q_proj: bool = True) -> None:
        super().__init__()
        pool = nn.Module()
        pool.latent = nn.Parameter(torch.randn(1, 1, WIDTH))
        if q_proj:
            pool.q = nn.Linear(WIDTH, WIDTH)
        pool.kv = nn.Linear(WIDTH, 2 * WIDTH)
        pool.proj = nn.Linear(WIDTH, WIDTH)
        pool.mlp = Mlp(WIDTH, nn.GELU())
        if norm:
            pool.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn_pool = pool
        self.head = nn.Linear(WIDTH, C)
        self.has = (norm, q_proj)

    def forward(self, x: Any) -> Any:
        pool = self.attn_pool
        norm, q_proj = self.has
        query = pool.latent[0]
        if q_proj:
            query = pool.q(query)
        y = pool.proj(attend(query, *pool.kv(x).chunk(2, dim=-1)))
        inner = y
        if norm:
            inner = pool.norm(y)
        return self.head(y + pool.mlp(inner))[0]


class VJepaBlock(nn.Module):
    """V-JEPA's attentive probe with a complete block."""

    def __init__(self) -> None:
        super().__init__()
        block = nn.Module()
        block.norm1 = nn.LayerNorm(WIDTH)
        block.xattn = nn.Module()
        block.xattn.q = nn.Linear(WIDTH, WIDTH)
        block.xattn.kv = nn.Linear(WIDTH, 2 * WIDTH)
        block.norm2 = nn.LayerNorm(WIDTH)
        block.mlp = Mlp(WIDTH, nn.GELU())
        self.pooler = nn.Module()
        self.pooler.query_tokens = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.pooler.cross_attention_block = block
        self.linear = nn.Linear(WIDTH, C)

    def forward(self, x: Any) -> Any:
        block = self.pooler.cross_attention_block
        query = self.pooler.query_tokens[0]
        y = attend(block.xattn.q(query), *block.xattn.kv(block.norm1(x)).chunk(2, dim=-1))
        y = query + y
        return self.linear(y + block.mlp(block.norm2(y)))[0]


class AttentionProbe(nn.Module):
    """EleutherAI's attention probe: positions weigh in each head, and a ReLU layer may follow."""

    places = True

    def __init__(self, outputs: int, hidden: int = 0, tanh: bool = False) -> None:
        super().__init__()
        self.q = nn.Linear(D, HEADS, bias=False)
        self.v = nn.Linear(D, HEADS * (hidden or outputs))
        self.position_weight = nn.Parameter(torch.zeros(HEADS))
        self.hidden = hidden
        self.tanh = tanh
        if hidden:
            self.o = nn.Linear(hidden, outputs)

    def forward(self, x: Any, mask: Any = None) -> Any:
        position = torch.arange(len(x))
        k = self.q(x) + position[:, None] * self.position_weight
        if mask is not None:
            k = k - (1 - mask.double())[:, None] * 1e9
        if self.tanh:
            p = torch.tanh(k)
        else:
            p = torch.softmax(k, dim=0)
        v = self.v(x).unflatten(-1, (HEADS, -1))
        out = (p[..., None] * v).sum((0, 1))
        if self.hidden:
            out = self.o(out.relu())
        return out


class AttnLite(nn.Module):
    """AttnLite of models-under-pressure, or its first version, without biases and with a layer in a
    layer.
    """

    def __init__(self, first_version: bool = False) -> None:
        super().__init__()
        self.context_query = nn.Linear(D, 1)
        self.classifier = nn.Linear(D, 1)
        if first_version:
            for name in ("context_query", "classifier"):
                layer = nn.Module()
                layer.linear = nn.Linear(D, 1, bias=False)
                setattr(self, name, layer)
        self.first_version = first_version

    def forward(self, x: Any) -> Any:
        query = self.context_query
        classifier = self.classifier
        if self.first_version:
            query = query.linear
            classifier = classifier.linear
        return classifier(torch.softmax(query(x).T / D**0.5, dim=1) @ x)[0]


class SoftmaxProbe(nn.Module):
    """The softmax probe of models-under-pressure."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.linear = nn.Linear(D, 1)
        self.temperature = temperature

    def forward(self, x: Any) -> Any:
        z = self.linear(x)[:, 0]
        return (z * torch.softmax(z / self.temperature, dim=0)).sum()[None]


class EfficientProbing(nn.Module):
    """Efficient Probing: queries on raw tokens, a part of the values each, batch normalization, a
    linear layer.
    """

    def __init__(self, queries: int, d_out: int, bias: bool, scale: float | None) -> None:
        super().__init__()
        pool = nn.Module()
        pool.v = nn.Linear(WIDTH, WIDTH // d_out, bias=bias)
        pool.cls_token = nn.Parameter(torch.randn(1, queries, WIDTH))
        norm = nn.BatchNorm1d(WIDTH // d_out, affine=False, eps=1e-6)
        self.head = nn.Sequential(pool, norm, nn.Linear(WIDTH // d_out, C))
        self.scale = scale or WIDTH**-0.5

    def forward(self, x: Any) -> Any:
        pool = self.head[0]
        queries = pool.cls_token[0]
        weights = torch.softmax(queries @ x.T * self.scale, dim=1)
        parts = pool.v(x).reshape(len(x), len(queries), -1)
        pooled = torch.einsum("qn,nqk->qk", weights, parts).reshape(1, -1)
        return self.head[2](self.head[1](pooled))[0]


class Chemprop(nn.Module):
    """chemprop's aggregation, feed-forward network and scaled output on the vectors of atoms."""

    def __init__(self, attentive: bool, norm: bool, layers: int, act: Any, scaled: bool) -> None:
        super().__init__()
        self.message_passing = nn.Module()
        self.message_passing.W_i = nn.Linear(13, D, bias=False)
        self.message_passing.W_o = nn.Linear(13 + D, D)
        self.agg = nn.Module()
        if attentive:
            self.agg.W = nn.Linear(D, 1)
        self.bn = nn.BatchNorm1d(D) if norm else nn.Identity()
        widths = [D, *[K] * layers, C]
        blocks = [nn.Sequential(nn.Linear(widths[0], widths[1]))]
        drop = nn.Dropout(0.1)
        for inputs, outputs in pairwise(widths[1:]):
            blocks.append(nn.Sequential(act, drop, nn.Linear(inputs, outputs)))
        self.predictor = nn.Module()
        self.predictor.ffn = nn.Sequential(*blocks)
        if scaled:
            self.predictor.output_transform = nn.Module()
            self.predictor.output_transform.register_buffer(
                "mean", torch.tensor([[1.0, -2.0, 3.0]])
            )
            self.predictor.output_transform.register_buffer(
                "scale", torch.tensor([[2.0, 0.5, 3.0]])
            )
        self.has = (attentive, scaled)

    def forward(self, x: Any) -> Any:
        attentive, scaled = self.has
        weights = torch.ones(len(x), 1, dtype=x.dtype)
        if attentive:
            weights = self.agg.W(x).exp()
        pooled = (weights / weights.sum() * x).sum(dim=0, keepdim=True)
        out = self.predictor.ffn(self.bn(pooled))
        if scaled:
            transform = self.predictor.output_transform
            out = out * transform.scale + transform.mean
        return out[0]


class OfTransformers(nn.Module):
    """A classifier of transformers, whose own code computes the logits from the hidden states that
    are given.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        transformers = pytest.importorskip("transformers")
        transformers.logging.set_verbosity_error()
        self.model = getattr(self, f"_{kind}")(transformers)
        self.kind = kind

    @staticmethod
    def _audio(transformers: Any, name: str, weighted: bool = False) -> Any:
        config = getattr(transformers, f"{name}Config")(
            hidden_size=WIDTH,
            intermediate_size=13,
            num_hidden_layers=1,
            num_attention_heads=HEADS,
            conv_dim=(4,),
            conv_stride=(2,),
            conv_kernel=(3,),
            num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2,
            classifier_proj_size=K,
            num_labels=C,
            use_weighted_layer_sum=weighted,
        )
        return getattr(transformers, f"{name}ForSequenceClassification")(config)

    def _wav2vec2(self, transformers: Any) -> Any:
        return self._audio(transformers, "Wav2Vec2", weighted=True)

    def _hubert(self, transformers: Any) -> Any:
        return self._audio(transformers, "Hubert")

    def _siglip(self, transformers: Any) -> Any:
        sizes = {
            "hidden_size": WIDTH,
            "intermediate_size": 13,
            "num_hidden_layers": 1,
            "num_attention_heads": HEADS,
        }
        config = transformers.SiglipConfig(
            vision_config={**sizes, "image_size": 8, "patch_size": 4},
            text_config={**sizes, "vocab_size": 20, "bos_token_id": 1, "eos_token_id": 2},
            num_labels=C,
        )
        return transformers.SiglipForImageClassification(config)

    def forward(self, x: Any) -> Any:
        outputs = pytest.importorskip("transformers.modeling_outputs")
        states = (x[None],) * 2
        given = outputs.BaseModelOutputWithPooling(last_hidden_state=x[None], hidden_states=states)
        encoder = {"wav2vec2": "wav2vec2", "hubert": "hubert", "siglip": "vision_model"}[self.kind]
        getattr(self.model, encoder).forward = lambda *args, **options: given
        return self.model(torch.zeros(1, 3, 8, 8)).logits[0]
