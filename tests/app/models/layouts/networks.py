"""Networks of every layout, built in torch the way their own code names its parts, as witnesses of
the loaders.

They import nothing from the core. Widths are different primes, so that a transposed axis cannot
pass.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="the witnesses of the layouts need torch (extra bench)")
from . import tail_networks as tails  # noqa: E402

nn = torch.nn
torch.set_num_threads(1)  # these networks are tiny, and threads that wait for each other are slow

D = 11
E = 7
K = 5
C = 3
N = 13  # instances, where a network has a place for each


class Case(NamedTuple):
    """A network, the layout that must be recognized, and what its file does not say."""

    layout: str
    network: Any
    options: dict[str, Any] = {}  # noqa: RUF012
    columns: int = D


class Gated(nn.Module):
    def __init__(self, width: int, hidden: int, branches: int, dropout: bool = False) -> None:
        super().__init__()
        rest = [nn.Dropout(0.25)] if dropout else []
        self.attention_a = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), *rest)
        self.attention_b = nn.Sequential(nn.Linear(width, hidden), nn.Sigmoid(), *rest)
        self.attention_c = nn.Linear(hidden, branches)

    def forward(self, h: Any) -> Any:
        return self.attention_c(self.attention_a(h) * self.attention_b(h))


class Ungated(nn.Module):
    def __init__(self, width: int, hidden: int, branches: int, dropout: bool = False) -> None:
        super().__init__()
        rest = [nn.Dropout(0.25)] if dropout else []
        self.module = nn.Sequential(
            nn.Linear(width, hidden), nn.Tanh(), *rest, nn.Linear(hidden, branches)
        )

    def forward(self, h: Any) -> Any:
        return self.module(h)


class Clam(nn.Module):
    def __init__(self, gate: bool, dropout: bool, multiple: bool, parallel: bool = False) -> None:
        super().__init__()
        kind = Gated if gate else Ungated
        drop = [nn.Dropout(0.25)] if dropout else []
        parts = nn.Sequential(
            nn.Linear(D, E), nn.ReLU(), *drop, kind(E, K, C if multiple else 1, dropout)
        )
        if parallel:
            self.attention_net = nn.DataParallel(parts)
        else:
            self.attention_net = parts
        self.multiple = multiple
        heads = [nn.Linear(E, 1) for _ in range(C)]
        if multiple:
            self.classifiers = nn.ModuleList(heads)
        else:
            self.classifiers = nn.Linear(E, C)
        self.instance_classifiers = nn.ModuleList([nn.Linear(E, 2) for _ in range(C)])

    def forward(self, x: Any) -> Any:
        net = getattr(self.attention_net, "module", self.attention_net)
        h = net[:-1](x)
        pooled = torch.softmax(net[-1](h).T, dim=1) @ h
        if self.multiple:
            return torch.cat(
                [layer(row[None])[0] for layer, row in zip(self.classifiers, pooled, strict=True)]
            )
        return self.classifiers(pooled)[0]


class Abmil(nn.Module):
    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.feature_extractor_part1 = nn.Sequential(nn.Conv2d(1, 2, kernel_size=5), nn.ReLU())
        self.feature_extractor_part2 = nn.Sequential(nn.Linear(D, E), nn.ReLU())
        self.gated = gated
        if gated:
            self.attention_V = nn.Sequential(nn.Linear(E, K), nn.Tanh())
            self.attention_U = nn.Sequential(nn.Linear(E, K), nn.Sigmoid())
            self.attention_w = nn.Linear(K, 1)
        else:
            self.attention = nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Linear(K, 1))
        self.classifier = nn.Sequential(nn.Linear(E, 1), nn.Sigmoid())

    def forward(self, x: Any) -> Any:
        h = self.feature_extractor_part2(x)
        if self.gated:
            s = self.attention_w(self.attention_V(h) * self.attention_U(h))
        else:
            s = self.attention(h)
        return self.classifier[0](torch.softmax(s.T, dim=1) @ h)[0]


class MilBaseline(nn.Module):
    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.feature = nn.Sequential(nn.Linear(D, E), nn.ReLU())
        self.gated = gated
        if gated:
            self.attention_a = nn.Sequential(nn.Linear(E, K, bias=False), nn.ReLU())
            self.attention_b = nn.Sequential(nn.Linear(E, K, bias=False), nn.Sigmoid())
            self.attention_c = nn.Linear(K, 1, bias=False)
        else:
            self.attention = nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Linear(K, 1))
        self.classifier = nn.Sequential(nn.Linear(E, C))

    def forward(self, x: Any) -> Any:
        h = self.feature(x)
        if self.gated:
            s = self.attention_c(self.attention_a(h) * self.attention_b(h))
        else:
            s = self.attention(h)
        return self.classifier(torch.softmax(s.T, dim=1) @ h)[0]


class MilLab(nn.Module):
    def __init__(self, gated: bool) -> None:
        super().__init__()
        hidden = [nn.Linear(D, E), nn.ReLU(), nn.Dropout(0.25)]
        self.patch_embed = nn.Sequential(*hidden, nn.Linear(E, E), nn.ReLU())
        self.global_attn = (Gated if gated else Ungated)(E, K, 1, dropout=True)
        self.classifier = nn.Linear(E, C)

    def forward(self, x: Any) -> Any:
        h = self.patch_embed(x)
        return self.classifier(torch.softmax(self.global_attn(h).T, dim=1) @ h)[0]


class Wrapped(nn.Module):
    """A network under the name `model`, as Hugging Face and Lightning files have it."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.model = network

    def forward(self, x: Any) -> Any:
        return self.model(x)


class Lazy(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.module = nn.Linear(inputs, outputs)

    def forward(self, x: Any) -> Any:
        return self.module(x)


class TorchmilPool(nn.Module):
    def __init__(self, width: int, act: Any, gated: bool) -> None:
        super().__init__()
        self.fc1 = Lazy(width, K)
        self.fc2 = nn.Linear(K, 1, bias=False)
        self.act = act
        self.fc_gated = Lazy(width, K) if gated else None

    def forward(self, x: Any) -> Any:
        hidden = self.act(self.fc1(x))
        if self.fc_gated is not None:
            hidden = hidden * torch.sigmoid(self.fc_gated(x))
        return torch.softmax(self.fc2(hidden).T, dim=1) @ x


class Torchmil(nn.Module):
    def __init__(self, act: Any, gated: bool, extractor: bool) -> None:
        super().__init__()
        if extractor:
            parts = [nn.Linear(D, E), nn.ReLU(), nn.Linear(E, E)]
        else:
            parts = []
        self.feat_ext = nn.Sequential(*parts)
        width = E if extractor else D
        self.pool = TorchmilPool(width, act, gated)
        self.classifier = Lazy(width, 1)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.pool(self.feat_ext(x)))[0]


class Xmil(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        widths = [D] + [E] * layers
        blocks = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        self.linear_layers = nn.Sequential(*blocks)
        self.attention = nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Linear(K, 1))
        self.classifier = nn.Linear(E, C)

    def forward(self, x: Any) -> Any:
        h = self.linear_layers(x)
        return self.classifier(torch.softmax(self.attention(h).T, dim=1) @ h)[0]


class TwoLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear1 = nn.Linear(E, K)
        self.linear2 = nn.Linear(K, 1)

    def forward(self, h: Any) -> Any:
        return self.linear2(torch.tanh(self.linear1(h)))


class EncoderHead(nn.Module):
    """HistoBistro (two named layers, no normalization), marugoto and slideflow (batch normalization
    in the head).
    """

    def __init__(self, attention: Any, norm: bool, temperature: float = 1.0) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(D, E), nn.ReLU())
        self.attention = attention
        self.temperature = temperature
        self.head = nn.Sequential(
            nn.Flatten(), *([nn.BatchNorm1d(E)] if norm else []), nn.Dropout(), nn.Linear(E, C)
        )

    def forward(self, x: Any) -> Any:
        h = self.encoder(x)
        return self.head(torch.softmax(self.attention(h).T / self.temperature, dim=1) @ h)[0]


class OwkinAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.att = nn.Linear(E, E)
        self.gate = nn.Linear(E, E)
        self.w = nn.Linear(E, 1)


class OwkinTiles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden_layers = nn.ModuleList([nn.Linear(D, K), nn.Sigmoid(), nn.Linear(K, E)])


class OwkinAbmil(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.tiles_emb = OwkinTiles()
        self.attention_layer = OwkinAttention()
        self.mlp = nn.Sequential(nn.Linear(E, C))
        self.temperature = temperature

    def forward(self, x: Any) -> Any:
        h = x[:, 3:]
        for layer in self.tiles_emb.hidden_layers:
            h = layer(h)
        a = self.attention_layer
        s = a.w(torch.tanh(a.att(h)) * torch.sigmoid(a.gate(h))) / self.temperature
        return self.mlp(torch.softmax(s.T, dim=1) @ h)[0]


class OwkinMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(D, C))

    def forward(self, x: Any) -> Any:
        return self.mlp(x[:, 3:].mean(dim=0))


class Aim(nn.Module):
    """AIM's probe with 3 heads of width 4 and 2 queries."""

    def __init__(self, queries: int = 2, heads: int = 3, width: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.cls_token = nn.Parameter(torch.randn(1, queries, width))
        self.linear = nn.Linear(width, C, bias=False)
        self.bn = nn.BatchNorm1d(width, affine=False, eps=1e-6)

    def forward(self, x: Any) -> Any:
        x = self.bn(x)
        split = lambda t: t.reshape(len(t), self.heads, -1).transpose(0, 1)  # noqa: E731
        out = nn.functional.scaled_dot_product_attention(
            split(self.cls_token[0]), split(self.k(x)), split(self.v(x))
        )
        return self.linear(out.transpose(0, 1).reshape(self.cls_token.shape[1], -1).mean(dim=0))


class AttentionPoolLatent(nn.Module):
    """What timm's module of this name computes with `out_features=0`, under its names."""

    def __init__(
        self, width: int, heads: int, latents: int = 1, pool: str = "token", q_proj: bool = True
    ) -> None:
        super().__init__()
        self.heads = heads
        self.pool = pool
        self.latent = nn.Parameter(torch.randn(1, latents, width))
        if q_proj:
            self.q = nn.Linear(width, width)
        else:
            self.q = nn.Identity()
        self.kv = nn.Linear(width, 2 * width)
        self.pos_embed = None

    def forward(self, x: Any, mask: Any = None) -> Any:
        n, width = x.shape
        if self.pos_embed is not None:
            x = x + self.pos_embed
        split = lambda t: t.reshape(len(t), self.heads, width // self.heads).transpose(0, 1)  # noqa: E731
        key, value = self.kv(x).reshape(n, 2, width).unbind(1)
        logits = (
            split(self.q(self.latent[0]))
            @ split(key).transpose(1, 2)
            / (width // self.heads) ** 0.5
        )
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf)
        out = (torch.softmax(logits, dim=-1) @ split(value)).transpose(0, 1).reshape(-1, width)
        if self.pool == "token":
            return out[0]
        return out.mean(dim=0)


class TimmPool(nn.Module):
    """timm's pooling of 3 heads under a linear head."""

    def __init__(self, width: int = 12, heads: int = 3, **options: Any) -> None:
        super().__init__()
        self.attn_pool = AttentionPoolLatent(width, heads, **options)
        self.head = nn.Linear(width, C)

    def forward(self, x: Any, mask: Any = None) -> Any:
        return self.head(self.attn_pool(x, mask))


class Chief(Clam):
    """CHIEF: CLAM's single branch whose pooled vector gets the embedding of a text about the
    organ.
    """

    def __init__(self, organ: int) -> None:
        super().__init__(gate=True, dropout=True, multiple=False)
        self.organ = organ
        self.text_to_vision = nn.Sequential(nn.Linear(13, E), nn.ReLU(), nn.Dropout(0.25))
        self.att_head = nn.Linear(E, 1)
        self.register_buffer("organ_embedding", torch.randn(4, 13))

    def forward(self, x: Any) -> Any:
        h = self.attention_net[:-1](x)
        pooled = torch.softmax(self.attention_net[-1](h).T, dim=1) @ h
        return self.classifiers(pooled + self.text_to_vision(self.organ_embedding[self.organ]))[0]


class VJepa(nn.Module):
    """V-JEPA's attentive probe of 3 heads, without a complete block.

    In its first version, CrossAttention has a layer `proj` that its `forward` does not apply.
    """

    def __init__(self, first_version: bool, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.pooler = nn.Module()
        self.pooler.query_tokens = nn.Parameter(torch.randn(1, 1, width))
        self.pooler.cross_attention_block = nn.Module()
        self.pooler.cross_attention_block.q = nn.Linear(width, width)
        self.pooler.cross_attention_block.kv = nn.Linear(width, 2 * width)
        if first_version:
            self.pooler.cross_attention_block.proj = nn.Linear(width, width)
        self.linear = nn.Linear(width, C)

    def forward(self, x: Any) -> Any:
        block = self.pooler.cross_attention_block
        key, value = block.kv(x).chunk(2, dim=-1)
        split = lambda t: t.reshape(len(t), self.heads, -1).transpose(0, 1)  # noqa: E731
        query = split(block.q(self.pooler.query_tokens[0]))
        out = nn.functional.scaled_dot_product_attention(query, split(key), split(value))
        return self.linear(out.reshape(-1))


class MultiheadPool(nn.Module):
    """Attention pooling by PyTorch's own nn.MultiheadAttention with a learned query."""

    def __init__(self, bias: bool, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, width))
        self.attention = nn.MultiheadAttention(width, heads, bias=bias, batch_first=True)
        self.classifier = nn.Linear(width, C)

    def forward(self, x: Any) -> Any:
        pooled, _ = self.attention(self.query, x[None], x[None], need_weights=False)
        return self.classifier(pooled[0, 0])


class ClassToken(nn.Module):
    """What timm's AttentionPool2d computes with `class_token=True`, under its names, for N
    tokens.
    """

    places = True

    def __init__(self, separate: bool, head: bool, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.separate = separate
        self.cls_token = nn.Parameter(torch.randn(1, width))
        self.pos_embed = nn.Parameter(torch.randn(N + 1, width))
        if separate:
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        else:
            self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, K if head else C)
        if head:
            self.head = nn.Linear(K, C)
        else:
            self.head = nn.Identity()

    def forward(self, x: Any, mask: Any = None) -> Any:
        x = torch.cat([self.cls_token, x]) + self.pos_embed
        if self.separate:
            parts = (self.q(x), self.k(x), self.v(x))
        else:
            parts = self.qkv(x).chunk(3, dim=-1)
        query, key, value = (part.reshape(len(x), self.heads, -1).transpose(0, 1) for part in parts)
        if mask is None:
            seen = None
        else:
            seen = torch.cat([torch.ones(1, dtype=torch.bool), mask])[None]
        out = nn.functional.scaled_dot_product_attention(query[:, :1], key, value, attn_mask=seen)
        return self.head(self.proj(out.reshape(-1)))


class KerasVariables(nn.Module):
    def __init__(self, *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.vars = nn.ParameterList([nn.Parameter(torch.randn(shape)) for shape in shapes])


class KerasExample(nn.Module):
    """The model of keras.io's example for N instances: attended embeddings side by side, under
    Keras 3's names.
    """

    places = True

    def __init__(self, gated: bool) -> None:
        super().__init__()
        parts = {"dense": ((D, K), (K,)), "dense_1": ((K, E), (E,)), "dense_2": ((N * E, C), (C,))}
        attention = ((E, 3), (3, 1), (E, 3))[: 2 + gated]
        named = {**parts, "mil_attention_layer": attention}
        self.layers = nn.ModuleDict(
            {name: KerasVariables(*shapes) for name, shapes in named.items()}
        )

    def forward(self, x: Any, mask: Any = None) -> Any:
        first, second, last, attention = (list(part.vars) for part in self.layers.values())
        h = torch.relu(torch.relu(x @ first[0] + first[1]) @ second[0] + second[1])
        hidden = torch.tanh(h @ attention[0])
        if len(attention) > 2:
            hidden = hidden * torch.sigmoid(h @ attention[2])
        scores = (hidden @ attention[1])[:, 0]
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return (torch.softmax(scores, dim=0)[:, None] * h).reshape(-1) @ last[0] + last[1]


def of_sub_bag(network: Any, x: Any, mask: Any) -> Any:
    """The logits of some instances; a network that has a place for each masks the others."""
    if getattr(network, "places", False):
        return network(x, mask)
    return network(x[mask])


CASES: dict[str, Callable[[], Case]] = {
    "class-token": lambda: Case(
        "class_token", ClassToken(separate=False, head=False), {"num_heads": 3}, 12
    ),
    "class-token-separate": lambda: Case(
        "class_token", ClassToken(separate=True, head=True), {"num_heads": 3}, 12
    ),
    "keras": lambda: Case("keras", KerasExample(gated=True)),
    "keras-ungated": lambda: Case("keras", KerasExample(gated=False)),
    "chief": lambda: Case("chief", Chief(organ=2), {"organ": 2}),
    "vjepa": lambda: Case("vjepa", VJepa(first_version=True), {"num_heads": 3}, 12),
    "vjepa-2": lambda: Case("vjepa", VJepa(first_version=False), {"num_heads": 3}, 12),
    "multihead": lambda: Case("multihead", MultiheadPool(bias=True), {"num_heads": 3}, 12),
    "multihead-without-bias": lambda: Case(
        "multihead", MultiheadPool(bias=False), {"num_heads": 3}, 12
    ),
    "abmil": lambda: Case("abmil", Abmil(gated=False)),
    "abmil-gated": lambda: Case("abmil", Abmil(gated=True)),
    "mil-baseline": lambda: Case("mil_baseline", MilBaseline(gated=False)),
    "mil-baseline-gated": lambda: Case("mil_baseline", MilBaseline(gated=True)),
    "abmil-branches": lambda: Case("abmil", branched()),
    "add-mil": lambda: Case("mil_baseline", add_mil()),
    "aem-mil": lambda: Case("mil_baseline_aem", aem_mil()),
    "mean-mil": lambda: Case("mil_baseline_mean", mean_mil()),
    "torchmil-linear": lambda: Case(
        "torchmil", torchmil_with(nn.Linear(D, E)), {"embed_activation": "identity"}
    ),
    "torchmil-norm": lambda: Case(
        "torchmil",
        torchmil_with(nn.LayerNorm(D, elementwise_affine=False), nn.Linear(D, E), nn.ReLU()),
        {"normalize": "layer_norm"},
    ),
    "clam-sb": lambda: Case("clam", Clam(gate=True, dropout=False, multiple=False)),
    "clam-sb-dropout": lambda: Case("clam", Clam(gate=True, dropout=True, multiple=False)),
    "clam-sb-parallel": lambda: Case(
        "clam", Clam(gate=True, dropout=True, multiple=False, parallel=True)
    ),
    "clam-sb-ungated": lambda: Case("clam", Clam(gate=False, dropout=True, multiple=False)),
    "clam-sb-ungated-parallel": lambda: Case(
        "clam", Clam(gate=False, dropout=False, multiple=False, parallel=True)
    ),
    "clam-mb": lambda: Case("clam", Clam(gate=True, dropout=True, multiple=True)),
    "clam-mb-ungated": lambda: Case("clam", Clam(gate=False, dropout=False, multiple=True)),
    "mil-lab": lambda: Case("mil_lab", MilLab(gated=True)),
    "mil-lab-ungated": lambda: Case("mil_lab", MilLab(gated=False)),
    "feather": lambda: Case("mil_lab", Wrapped(MilLab(gated=True))),
    "torchmil": lambda: Case("torchmil", Torchmil(torch.tanh, gated=False, extractor=False)),
    "torchmil-gated-gelu": lambda: Case(
        "torchmil",
        Torchmil(nn.functional.gelu, gated=True, extractor=False),
        {"activation": "gelu"},
    ),
    "torchmil-extractor": lambda: Case(
        "torchmil",
        Torchmil(torch.relu, True, extractor=True),
        {"activation": "relu", "last_activation": "identity"},
    ),
    "torchmil-leaky": lambda: Case(
        "torchmil",
        Torchmil(nn.functional.leaky_relu, gated=False, extractor=False),
        {"activation": "leaky_relu"},
    ),
    "xmil": lambda: Case("xmil", Xmil(layers=1)),
    "xmil-deep": lambda: Case("xmil", Xmil(layers=3)),
    "histobistro": lambda: Case("histobistro", EncoderHead(TwoLinear(), norm=False)),
    "marugoto": lambda: Case(
        "marugoto",
        EncoderHead(nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Linear(K, 1)), norm=True),
    ),
    "slideflow": lambda: Case(
        "marugoto",
        EncoderHead(nn.Linear(E, 1), norm=True, temperature=0.5),
        {"attention_temperature": 0.5},
    ),
    "owkin": lambda: Case(
        "owkin", OwkinAbmil(temperature=2.0), {"attention_temperature": 2.0}, D + 3
    ),
    "owkin-mean": lambda: Case("owkin", OwkinMean(), {}, D + 3),
    "aim": lambda: Case("aim", Aim(), {"num_heads": 3}, 12),
    "timm": lambda: Case("timm", TimmPool(), {"num_heads": 3}, 12),
    "timm-mean-of-latents": lambda: Case(
        "timm", TimmPool(latents=2, pool="avg"), {"num_heads": 3, "pool_type": "avg"}, 12
    ),
    "timm-first-of-latents": lambda: Case(
        "timm", TimmPool(latents=2), {"num_heads": 3, "pool_type": "token"}, 12
    ),
    "timm-no-query-layer": lambda: Case("timm", TimmPool(q_proj=False), {"num_heads": 3}, 12),
    "abmil-mlp": lambda: Case(
        "abmil",
        tails.AbmilMlp(nn.Sequential(nn.Linear(E, K), nn.GELU(), nn.Dropout(0.5), nn.Linear(K, C))),
        {"head_activation": "gelu"},
    ),
    "abmil-norms": lambda: Case(
        "abmil",
        tails.AbmilMlp(
            nn.Sequential(
                nn.LayerNorm(E, eps=1e-3),
                nn.Linear(E, K),
                nn.BatchNorm1d(K, eps=1e-3),
                nn.SiLU(),
                nn.Linear(K, K),
                nn.PReLU(),
                nn.Linear(K, C),
            )
        ),
        {"head_activation": "silu", "epsilon": 1e-3},
    ),
    "abmil-branches-mlp": lambda: Case(
        "abmil",
        tails.AbmilMlp(
            nn.Sequential(nn.Linear(2 * E, K), nn.LeakyReLU(0.2), nn.Linear(K, C)), branches=2
        ),
        {"head_activation": "leaky_relu", "negative_slope": 0.2},
    ),
    "abmil-activated": lambda: Case(
        "abmil",
        tails.AbmilMlp(nn.Sequential(nn.ReLU(), nn.Linear(E, C))),
        {"pooled_activation": "relu"},
    ),
    "clam-mlp": lambda: Case("clam", tails.ClamMlp(), {"head_activation": "tanh"}),
    "abmil-adjacent": lambda: Case(
        "abmil",
        tails.AbmilMlp(tails.ReluList([nn.Linear(E, K), nn.Linear(K, K), nn.Linear(K, C)])),
        {"adjacent_activation": "relu"},
    ),
    "xmil-linear-head": lambda: Case("xmil", tails.XmilOut(1, last="linear_head")),
    "xmil-out-layers": lambda: Case("xmil", tails.XmilOut(2)),
    "owkin-hidden": lambda: Case("owkin", tails.OwkinHidden(), {}, D + 3),
    "trident": lambda: Case("trident", tails.Trident(heads=3, gated=True)),
    "trident-one-head": lambda: Case("trident", tails.Trident(heads=1, gated=False)),
    "multihead-mlp": lambda: Case(
        "multihead",
        tails.MultiheadTail(nn.Sequential(nn.Linear(12, K), nn.Tanh(), nn.Linear(K, C))),
        {"num_heads": 3, "head_activation": "tanh"},
        12,
    ),
    "multihead-class-token": lambda: Case(
        "multihead",
        tails.MultiheadToken(in_bag=True, added=False),
        {"num_heads": 3, "query_in_bag": True},
        12,
    ),
    "multihead-residual": lambda: Case(
        "multihead",
        tails.MultiheadToken(in_bag=False, added=True),
        {"num_heads": 3, "query_added": True},
        12,
    ),
    "multihead-widths": lambda: Case(
        "multihead", tails.MultiheadTail(nn.Linear(12, C), kdim=D, vdim=D), {"num_heads": 3}
    ),
    "siglip": lambda: Case("siglip", tails.SiglipPool(), {"num_heads": 3}, 12),
    "timm-mlp": lambda: Case("timm_mlp", tails.TimmMlp(norm=True), {"num_heads": 3}, 12),
    "timm-mlp-bare": lambda: Case(
        "timm_mlp", tails.TimmMlp(norm=False, q_proj=False), {"num_heads": 3}, 12
    ),
    "vjepa-block": lambda: Case("vjepa_block", tails.VJepaBlock(), {"num_heads": 3}, 12),
    "attention-probe": lambda: Case("attention_probe", tails.AttentionProbe(outputs=C)),
    "attention-probe-hidden": lambda: Case("attention_probe", tails.AttentionProbe(1, hidden=K)),
    "attn-lite": lambda: Case("attn_lite", tails.AttnLite()),
    "attn-lite-first": lambda: Case("attn_lite", tails.AttnLite(first_version=True)),
    "efficient-probing": lambda: Case(
        "efficient_probing", tails.EfficientProbing(4, 1, bias=False, scale=None), {}, 12
    ),
    "efficient-probing-narrow": lambda: Case(
        "efficient_probing",
        tails.EfficientProbing(3, 2, bias=True, scale=0.7),
        {"qk_scale": 0.7},
        12,
    ),
    "chemprop": lambda: Case(
        "chemprop",
        tails.Chemprop(True, norm=True, layers=1, act=nn.ReLU(), scaled=True),
        {"head": "regression"},
    ),
    "chemprop-mean": lambda: Case(
        "chemprop",
        tails.Chemprop(False, norm=False, layers=2, act=nn.LeakyReLU(0.1), scaled=False),
        {"aggregation": "mean", "head_activation": "leaky_relu"},
    ),
    "chemprop-prelu": lambda: Case(
        "chemprop", tails.Chemprop(True, norm=False, layers=2, act=nn.PReLU(), scaled=False)
    ),
    "wav2vec2": lambda: Case(
        "transformers_audio", tails.OfTransformers("wav2vec2"), {}, tails.WIDTH
    ),
    "hubert": lambda: Case("transformers_audio", tails.OfTransformers("hubert"), {}, tails.WIDTH),
    "siglip-mean": lambda: Case(
        "transformers_image", tails.OfTransformers("siglip"), {}, tails.WIDTH
    ),
}


class Parts(nn.Module):
    """A network of named layers: embedding, V, U (perhaps), w, and a linear last layer, in any
    order of pooling.
    """

    def __init__(self, embed: str, V: str, U: str, w: str, last: str, **layers: Any) -> None:
        super().__init__()
        self.names = embed, V, U, w, last
        for name, layer in layers.items():
            self.add_module(name, layer)

    def part(self, name: str) -> Any:
        return self.get_submodule(name)

    def forward(self, x: Any) -> Any:
        embed, V, U, w, last = self.names
        h = self.part(embed)(x) if embed else x
        if not w:
            return self.part(last)(h).mean(dim=0)
        hidden = self.part(V)(h) * (self.part(U)(h) if U else 1.0)
        pooled = torch.softmax(self.part(w)(hidden).T, dim=1) @ h
        return self.part(last)(pooled.reshape(-1))


def add_mil() -> Any:
    flat = nn.Sequential(nn.Linear(E, K), nn.Tanh(), nn.Linear(K, 1))
    network = Parts("feature", "hidden", "", "out", "instance_classifier",
                    feature=nn.Sequential(nn.Linear(D, E), nn.ReLU()), attention=flat,
                    instance_classifier=nn.Sequential(nn.Linear(E, C)))  # fmt: skip
    network.part = lambda name: (
        {"hidden": flat[:2], "out": flat[2]}.get(name) or network.get_submodule(name)
    )
    return network


def aem_mil() -> Any:
    attention = nn.Module()
    attention.attention_V = nn.Sequential(nn.Linear(E, K), nn.Tanh())
    attention.attention_U = nn.Sequential(nn.Linear(E, K), nn.Sigmoid())
    attention.attention_weights = nn.Linear(K, 1)
    start = "attention.attention_"
    return Parts("feature", f"{start}V", f"{start}U", f"{start}weights", "classifier",
                 feature=nn.Sequential(nn.Linear(D, E), nn.ReLU()), attention=attention,
                 classifier=nn.Sequential(nn.Linear(E, C)))  # fmt: skip


def mean_mil() -> Any:
    head = nn.Sequential(nn.Linear(D, E), nn.ReLU())
    return Parts("head", "", "", "", "classifier", head=head, classifier=nn.Linear(E, C))


def branched() -> Any:
    """AttentionDeepMIL with two attention branches."""
    return Parts("feature_extractor_part2", "attention_V", "attention_U", "attention_w", "classifier",
                 feature_extractor_part2=nn.Sequential(nn.Linear(D, E), nn.ReLU()),
                 attention_V=nn.Sequential(nn.Linear(E, K), nn.Tanh()),
                 attention_U=nn.Sequential(nn.Linear(E, K), nn.Sigmoid()),
                 attention_w=nn.Linear(K, 2), classifier=nn.Sequential(nn.Linear(2 * E, 1)))  # fmt: skip


def torchmil_with(*feat_ext: Any) -> Any:
    pool = nn.Module()
    pool.fc1 = nn.Linear(E, K)
    pool.fc2 = nn.Linear(K, 1)
    network = Parts("feat_ext", "V", "", "pool.fc2", "classifier", pool=pool, classifier=nn.Linear(E, 1),
                    feat_ext=nn.Sequential(*feat_ext) if len(feat_ext) > 1 else feat_ext[0])  # fmt: skip
    network.part = lambda name: (
        (lambda h: torch.tanh(pool.fc1(h))) if name == "V" else network.get_submodule(name)
    )
    return network


def randomized(network: Any) -> Any:
    """The network in float64 with random weights of size 1 and random running statistics, in
    evaluation.
    """
    network = network.double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.7 if parameter.ndim > 1 else 0.3))
        for key, buffer in network.named_buffers():
            if key.endswith("running_mean"):
                buffer.copy_(torch.randn_like(buffer))
            elif key.endswith("running_var"):
                buffer.copy_(torch.rand_like(buffer) + 0.5)
    return network


def case(name: str, seed: int = 0) -> Case:
    """A case of the table, randomized."""
    torch.manual_seed(seed)
    found = CASES[name]()
    randomized(found.network)
    return found
