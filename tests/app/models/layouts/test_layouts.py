"""Every layout against its network in torch: logits of the bag, and of 40 random sub-bags through
the game.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import BagClassifier, Settings
from attn_closed_form.app.files.torch_files import load_torch
from attn_closed_form.app.models.layouts import LAYOUTS

torch = pytest.importorskip("torch", reason="the witnesses of the layouts need torch (extra bench)")

from . import networks  # noqa: E402

TOLERANCE = 1e-10  # float64 on both sides; the bar
SUB_BAGS = 40
REAL = Path(__file__).parents[5] / "shared" / "data" / "mil"


def features(columns: int, n: int = networks.N, seed: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(n, columns))


def forward(network: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        return np.asarray(network(torch.from_numpy(x)))


def as_classes(model: BagClassifier) -> BagClassifier:
    """The model with the same outputs as logits of classes, which have margins."""
    return replace(model, loss="softmax")


def assert_agrees(model: BagClassifier, network: Any, x: np.ndarray[Any, Any]) -> None:
    """Logits and the games of each output and of one margin, on random sub-bags."""
    whole = forward(network, x)
    assert np.abs(model.predict_logits([x])[0] - whole).max() < TOLERANCE
    units = model.read(x)
    if len(whole) > 1:
        outputs = [str(c) for c in range(len(whole))]
    else:
        outputs = ["1"]
    if len(whole) > 1:
        outputs.append("margin:0,1")
    rng = np.random.default_rng(0)
    masks = rng.random((SUB_BAGS, len(x))) < rng.random((SUB_BAGS, 1))
    masks[~masks.any(axis=1), 0] = True
    with torch.no_grad():
        tensors = torch.from_numpy(x), torch.from_numpy(masks)
        expected = np.array([networks.of_sub_bag(network, tensors[0], mask) for mask in tensors[1]])
    for output in outputs:
        settings = Settings(output=output).resolve(model, model.logits(units))
        values = model.value(units, settings, masks)
        assert np.abs(values - expected @ settings.coefficients).max() < TOLERANCE
        if model.tail is None:
            assert np.array_equal(values, model.game(units, settings).value(masks))


@pytest.mark.parametrize("name", networks.CASES)
def test_layout_agrees_with_its_network(name: str, tmp_path: Path) -> None:
    case = networks.case(name)
    path = tmp_path / "model.pt"
    torch.save(case.network.state_dict(), path)
    model = as_classes(BagClassifier.from_state_dict(path, **case.options))
    assert model.layout == case.layout
    assert_agrees(model, case.network, features(case.columns))
    again = BagClassifier.from_state_dict(
        case.network.state_dict(), layout=case.layout, **case.options
    )
    assert np.array_equal(
        again.predict_logits([features(case.columns)])[0],
        model.predict_logits([features(case.columns)])[0],
    )


@pytest.mark.parametrize("name", networks.CASES)
def test_gradients_agree_with_autodiff(name: str) -> None:
    case = networks.case(name)
    model = as_classes(BagClassifier.from_state_dict(case.network.state_dict(), **case.options))
    x = features(case.columns)
    units = model.read(x)
    logits = model.logits(units)
    settings = Settings(output="margin:0,1" if logits.size > 1 else "1").resolve(model, logits)
    leaf = torch.from_numpy(x.copy()).requires_grad_()
    (case.network(leaf) @ torch.tensor(settings.coefficients).double()).backward()
    g = leaf.grad.numpy()
    expected = {
        "gradient-mean": g.mean(axis=1),
        "gradient-l1": np.abs(g).sum(axis=1),
        "gradient-l2": np.linalg.norm(g, axis=1),
        "gradient-x-input": (x * g).sum(axis=1),
    }
    for method, scores in expected.items():
        assert np.abs(model.inside(method, units, settings) - scores).max() < TOLERANCE, method


def test_every_layout_has_a_witness() -> None:
    witnessed = {networks.CASES[name]().layout for name in networks.CASES}
    assert witnessed == set(LAYOUTS) - {
        "mean",
        "roles",
        "softmax_probe",
    }  # which have tests of their own


def test_mean_layout_is_the_mean() -> None:
    layer = torch.nn.Linear(11, 3).double()
    named = {f"head.{k}": v for k, v in layer.state_dict().items()}
    for state in (named, layer.state_dict()):
        model = BagClassifier.from_state_dict(state, layout="mean")
        assert_agrees(model, lambda x: layer(x.mean(dim=0)), features(11))


def test_timm_positions_belong_to_their_tokens() -> None:
    network = networks.case("timm").network
    network.attn_pool.pos_embed = torch.nn.Parameter(torch.randn(13, 12).double())
    model = BagClassifier.from_state_dict(network.state_dict(), num_heads=3)
    x = features(12)
    assert np.abs(model.predict_logits([x])[0] - forward(network, x)).max() < TOLERANCE
    units = model.read(x)
    mask = np.arange(13) % 3 == 0
    with torch.no_grad():
        expected = np.asarray(network(torch.from_numpy(x), torch.from_numpy(mask)))
    for c in range(3):
        settings = Settings(output=c).resolve(model, expected)
        assert abs(float(model.game(units, settings).value(mask)) - expected[c]) < TOLERANCE
    with pytest.raises(ValueError, match="expected 13 instances, one per position"):
        model.predict_logits([x[:5]])[0]


@pytest.mark.parametrize("name", ["clam-sb", "clam-mb", "aim", "marugoto"])
def test_agreement_can_fail(name: str) -> None:
    """A weight that differs in the third digit is noticed."""
    case = networks.case(name)
    state = dict(case.network.state_dict())
    key = next(key for key in state if key.endswith("weight"))
    state[key] = state[key] * 1.001
    model = BagClassifier.from_state_dict(state, **case.options)
    with pytest.raises(AssertionError):
        assert_agrees(model, case.network, features(case.columns))


class RealClam(torch.nn.Module):  # type: ignore[misc]
    """CLAM-SB's formula on the numbers of the demo checkpoint."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self.state = {key: value.double() for key, value in state.items()}

    def linear(self, name: str, x: Any) -> Any:
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def forward(self, x: Any) -> Any:
        h = torch.relu(self.linear("attention_net.module.0", x))
        start = "attention_net.module.3.attention"
        hidden = torch.tanh(self.linear(f"{start}_a.0", h)) * torch.sigmoid(
            self.linear(f"{start}_b.0", h)
        )
        return self.linear(
            "classifiers", torch.softmax(self.linear(f"{start}_c", hidden).T, dim=1) @ h
        )[0]


class RealXmil(RealClam):
    def forward(self, x: Any) -> Any:
        h = torch.relu(self.linear("linear_layers.0.0", x))
        s = self.linear("attention.2", torch.tanh(self.linear("attention.0", h)))
        return self.linear("classifier", torch.softmax(s.T, dim=1) @ h)[0]


@pytest.mark.parametrize(
    ("name", "layout", "witness"),
    [("clam_sb_luad_lusc", "clam", RealClam), ("xmil_camelyon16", "xmil", RealXmil)],
)
def test_real_checkpoints(name: str, layout: str, witness: Any) -> None:
    path = REAL / f"{name}.pt"
    if not path.is_file():
        pytest.skip("the trained checkpoints are not beside the checkout (../shared/data/mil)")
    model = BagClassifier.from_state_dict(path)
    assert model.layout == layout
    # Read by torch itself, so that the restricted reader has a witness too.
    saved = torch.load(path, map_location="cpu", weights_only=False)
    state = saved.get("model_state_dict", saved)
    assert all(
        np.array_equal(load_torch(path).get("model_state_dict", load_torch(path))[k], v)
        for k, v in state.items()
    )
    assert_agrees(model, witness(state), features(model.network.D, n=14))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        (
            [
                "pooler.query_tokens",
                "pooler.cross_attention_block.xattn.kv.weight",
                "pooler.cross_attention_block.norm1.weight",
                "pooler.blocks.0.attn.qkv.weight",
                "linear.weight",
            ],
            "depend on each other",
        ),
        (
            ["visual.attnpool.q_proj.weight", "visual.attnpool.positional_embedding"],
            "mean of the instances",
        ),
        (
            ["attn_pool.pos_embed", "attn_pool.qkv.weight", "attn_pool.proj.weight"],
            "mean of the instances",
        ),
    ],
)
def test_probes_that_are_not_pooled_games_are_refused_with_the_reason(
    keys: list[str], why: str
) -> None:
    with pytest.raises(ValueError, match=f"not a pooled game.*{why}"):
        BagClassifier.from_state_dict({key: np.ones((3, 3)) for key in keys})


def test_the_organ_of_chief_shifts_the_bias_and_is_said() -> None:
    state = networks.case("chief").network.state_dict()
    models = [BagClassifier.from_state_dict(state, **options) for options in ({}, {"organ": 2})]
    assert "the text of organ 0" in models[0].doubts and "organ" not in models[1].doubts
    assert np.abs(models[0].network.bias - models[1].network.bias).max() > 1e-3
    with pytest.raises(ValueError, match="organ"):
        BagClassifier.from_state_dict(state, organ=4)


@pytest.mark.parametrize("older", [False, True])
def test_the_keras_example_opens_by_the_hdf5_file_of_its_weights(
    older: bool, tmp_path: Path
) -> None:
    """Keras 3 writes numbered variables; `model.save("x.h5")` and Keras 2 write names below
    `model_weights`.
    """
    h5py = pytest.importorskip("h5py", reason="HDF5 files need h5py (extra bags)")
    network = networks.case("keras").network
    names = {"mil_attention_layer": ("v:0", "w:0", "u:0")}
    with h5py.File(tmp_path / "model.h5", "w") as file:
        for name, layer in network.layers.items():
            for i, part in enumerate(layer.vars):
                kind = names.get(name, ("kernel:0", "bias:0"))[i]
                label = "alpha" if name in names else name
                if older:
                    path = f"model_weights/{label}/{label}/{kind}"
                else:
                    path = f"layers/{name}/vars/{i}"
                file[path] = part.detach().numpy()
        if not older:
            file["optimizer/vars/0"] = np.ones(3)
    model = BagClassifier.from_state_dict(tmp_path / "model.h5")
    assert model.layout == "keras"
    assert_agrees(model, network, features(networks.D))
    with pytest.raises(ValueError, match="expected 13 instances, one per position, got 5"):
        model.predict_logits([features(networks.D, n=5)])


def test_an_hdf5_file_of_weights_has_no_links_and_no_endless_groups(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 files need h5py (extra bags)")
    for name, link in (
        ("outside", h5py.ExternalLink("other.h5", "/x")),
        ("soft", h5py.SoftLink("/layers")),
    ):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_group("layers")["dense"] = link
        with pytest.raises(ValueError, match="'dense' is a link to another place"):
            BagClassifier.from_state_dict(tmp_path / f"{name}.h5")
    with h5py.File(tmp_path / "loop.h5", "w") as file:
        group = file.create_group("layers")
        group["again"] = group  # a hard link to itself
    with pytest.raises(ValueError, match="groups more than 10 deep"):
        BagClassifier.from_state_dict(tmp_path / "loop.h5")


def test_a_network_with_places_is_checked_on_bags_of_one_size() -> None:
    case = networks.case("class-token")
    bags = [features(case.columns, seed=seed) for seed in (4, 5)]
    model = BagClassifier.from_state_dict(case.network.state_dict(), num_heads=2)
    result = model.check(bags, lambda several: [forward(case.network, x) for x in several])
    assert result.options == {"num_heads": 3} and "the class token" in repr(result.model)
    with pytest.raises(ValueError, match="two bags"):
        model.check(bags[:1], [forward(case.network, bags[0])])


class Gate(networks.EncoderHead):  # type: ignore[misc]
    """slideflow's attention_gate: instances below a quantile of the bag's scores do not count."""

    def forward(self, x: Any) -> Any:
        h = self.encoder(x)
        s = self.attention(h).T
        s = s.masked_fill(s < torch.quantile(s, 0.75), -torch.inf)
        return self.head(torch.softmax(s, dim=1) @ h)[0]


class ScoreSigmoid(networks.Xmil):  # type: ignore[misc]
    """A sigmoid on the score before the softmax."""

    def forward(self, x: Any) -> Any:
        h = self.linear_layers(x)
        s = torch.sigmoid(self.attention(h).T)
        return self.classifier(torch.softmax(s, dim=1) @ h)[0]


class OwkinMaximum(networks.OwkinMean):  # type: ignore[misc]
    """A linear layer on the maximum of the instances, whose file looks like that of a mean."""

    def forward(self, x: Any) -> Any:
        return self.mlp(x[:, 3:].max(dim=0).values)


class SizeTemperature(networks.Xmil):  # type: ignore[misc]
    """A temperature of sqrt(n)."""

    def forward(self, x: Any) -> Any:
        h = self.linear_layers(x)
        return self.classifier(torch.softmax(self.attention(h).T / len(x) ** 0.5, dim=1) @ h)[0]


def _marugoto(hidden: Any, **changes: Any) -> Any:
    nn = torch.nn
    network = networks.EncoderHead(
        nn.Sequential(nn.Linear(networks.E, networks.K), hidden, nn.Linear(5, 1)), norm=True
    )
    if "after" in changes:
        network.head[2] = changes["after"]
    network.head[1].eps = changes.get("eps", 1e-5)
    return network


def _linear(inputs: int = 11) -> Any:
    return torch.nn.Linear(inputs, networks.E)


_F = torch.nn.functional
_nn = torch.nn
# Options of other people's networks that a file does not hold, and whether the check can find the
# network.
UNSAID: dict[str, tuple[Any, bool]] = {
    "torchmil, ReLU attention": (lambda: networks.Torchmil(torch.relu, False, False), True),
    "torchmil, GELU attention": (lambda: networks.Torchmil(_F.gelu, False, False), True),
    "torchmil, gated, ReLU attention": (lambda: networks.Torchmil(torch.relu, True, False), True),
    "torchmil, gated, GELU attention": (lambda: networks.Torchmil(_F.gelu, True, False), True),
    "torchmil, Linear-ReLU-Linear": (
        lambda: networks.torchmil_with(_linear(), _nn.ReLU(), _linear(7)),
        True,
    ),
    "torchmil, Linear": (lambda: networks.torchmil_with(_linear()), True),
    "torchmil, Linear-Linear": (lambda: networks.torchmil_with(_linear(), _linear(7)), True),
    "torchmil, Linear-GELU": (lambda: networks.torchmil_with(_linear(), _nn.GELU()), True),
    "torchmil, LayerNorm-Linear-ReLU": (
        lambda: networks.torchmil_with(
            _nn.LayerNorm(11, elementwise_affine=False), _linear(), _nn.ReLU()
        ),
        True,
    ),
    "torchmil, Linear-ReLU-Linear-GELU": (
        lambda: networks.torchmil_with(_linear(), _nn.ReLU(), _linear(7), _nn.GELU()),
        True,
    ),
    "slideflow, temperature 2": (
        lambda: networks.EncoderHead(_nn.Linear(7, 1), norm=True, temperature=2.0),
        True,
    ),
    "slideflow, quantile gate": (lambda: Gate(_nn.Linear(7, 1), norm=True), False),
    "owkin, temperature 0.5": (lambda: networks.OwkinAbmil(0.5), True),
    "marugoto, ReLU in the head": (lambda: _marugoto(_nn.Tanh(), after=_nn.ReLU()), False),
    "marugoto, ReLU attention": (lambda: _marugoto(_nn.ReLU()), True),
    "marugoto, epsilon 1e-3": (lambda: _marugoto(_nn.Tanh(), eps=1e-3), True),
    "xMIL, temperature sqrt(n)": (lambda: SizeTemperature(1), False),
    "xMIL, sigmoid on the score": (lambda: ScoreSigmoid(1), True),
    "owkin, maximum": (lambda: OwkinMaximum(), False),
    "ABMIL, GELU in the head": (
        lambda: networks.tails.AbmilMlp(
            _nn.Sequential(_nn.Linear(7, 5), _nn.GELU(), _nn.Linear(5, 3))
        ),
        True,
    ),
    "ABMIL, dropout in the head": (
        lambda: networks.tails.AbmilMlp(
            _nn.Sequential(_nn.Linear(7, 5), _nn.Dropout(), _nn.Linear(5, 3))
        ),
        True,
    ),
    "ABMIL, activation before the head": (
        lambda: networks.tails.AbmilMlp(_nn.Sequential(_nn.Tanh(), _nn.Linear(7, 3))),
        True,
    ),
    "ABMIL, LeakyReLU 0.2 in the head": (
        lambda: networks.tails.AbmilMlp(
            _nn.Sequential(_nn.Linear(7, 5), _nn.LeakyReLU(0.2), _nn.Linear(5, 3))
        ),
        True,
    ),
    "multihead, 3 heads and a GELU head": (
        lambda: networks.tails.MultiheadTail(
            _nn.Sequential(_nn.Linear(12, 5), _nn.GELU(), _nn.Linear(5, 3))
        ),
        True,
    ),
    "multihead, add_zero_attn": (
        lambda: networks.tails.MultiheadTail(_nn.Linear(12, 3), add_zero_attn=True),
        False,
    ),
    "SigLIP, 3 heads": (lambda: networks.tails.SiglipPool(), True),
    "timm, 3 heads with an MLP": (lambda: networks.tails.TimmMlp(norm=True), True),
    "Efficient Probing, another scale": (
        lambda: networks.tails.EfficientProbing(3, 1, bias=False, scale=0.5),
        True,
    ),
    "multihead, other number of heads": (lambda: networks.MultiheadPool(bias=True), True),
    "multihead, heads on features of another width": (
        lambda: networks.tails.MultiheadTail(_nn.Linear(12, 3), kdim=11, vdim=11),
        True,
    ),
    "multihead, a class token in the bag": (
        lambda: networks.tails.MultiheadToken(in_bag=True, added=False),
        True,
    ),
    "multihead, a residual connection": (
        lambda: networks.tails.MultiheadToken(in_bag=False, added=True),
        True,
    ),
    "ABMIL, ReLU in the code of a list": (
        lambda: networks.tails.AbmilMlp(
            networks.tails.ReluList([_nn.Linear(7, 5), _nn.Linear(5, 3)])
        ),
        True,
    ),
    "ABMIL, GroupNorm, which looks like LayerNorm": (
        lambda: networks.tails.AbmilMlp(
            _nn.Sequential(_nn.Linear(7, 6), _nn.GroupNorm(3, 6), _nn.Linear(6, 3))
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", UNSAID)
def test_what_a_file_does_not_hold_is_said_and_then_found_or_refused(name: str) -> None:
    make, found = UNSAID[name]
    torch.manual_seed(0)
    network = networks.randomized(make())
    options: dict[str, Any] = {}
    if name.startswith("timm"):
        options = {"num_heads": 2}  # 12 features do not have the default of 8 heads
    model = BagClassifier.from_state_dict(network.state_dict(), **options)
    assert model.doubts.endswith("(not checked)") and model.doubts in repr(model)
    columns = model.network.D
    bags = [features(columns, n, seed=n) for n in (9, 12)]
    assert (
        max(np.abs(model.predict_logits([x])[0] - forward(network, x)).max() for x in bags) > 1e-4
    )
    result = model.check(bags, lambda several: [forward(network, x) for x in several])
    assert not result.agrees and model.doubts
    if found:
        assert_agrees(result.model, network, features(columns))
        assert result.model.doubts == ""
    else:
        with pytest.raises(ValueError, match="check: the logits differ"):
            _ = result.model


@pytest.mark.parametrize("name", ["pool_query", "latents", "agg", "q", "query.weight"])
def test_a_learned_query_may_have_any_name(name: str) -> None:
    network = networks.case("multihead").network
    state = dict(network.state_dict())
    state[name] = state.pop("query")[0]
    model = BagClassifier.from_state_dict(state, num_heads=3)
    assert_agrees(model, network, features(12))


def test_attention_before_the_pooling_is_refused_with_the_reason() -> None:
    state = networks.MultiheadPool(bias=True).state_dict()
    first = {f"mixing.{key}": value for key, value in state.items() if "attention" in key}
    with pytest.raises(ValueError, match="attention before the pooling makes instances depend"):
        BagClassifier.from_state_dict({**first, **state})
    del state["query"]
    with pytest.raises(ValueError, match=r"without a learned query.*depend on each other"):
        BagClassifier.from_state_dict(state)
    state["scale"] = torch.ones(1)
    with pytest.raises(ValueError, match=r"without a learned query.*depend on each other"):
        BagClassifier.from_state_dict(state)


def test_the_outputs_of_chemprop_are_not_taken_for_classes() -> None:
    """Values of a regression have no log-odds, and several tasks do not exclude each other."""
    scaled = networks.case("chemprop").network.state_dict()
    with pytest.raises(ValueError, match="head: expected 'regression'"):
        BagClassifier.from_state_dict(scaled)
    assert BagClassifier.from_state_dict(scaled, head="regression").loss == "identity"
    state = networks.case("chemprop-prelu").network.state_dict()
    assert "logits of classes" in BagClassifier.from_state_dict(state).doubts
    state["predictor.criterion.task_weights"] = torch.ones(1, 3)
    with pytest.raises(ValueError, match="head: expected 'labels' or 'regression'"):
        BagClassifier.from_state_dict(state)
    model = BagClassifier.from_state_dict(state, head="labels")
    assert model.loss == "sigmoid" and "classes" not in model.doubts
    state["predictor.criterion.task_weights"] = torch.ones(1, 1)
    assert BagClassifier.from_state_dict(state).loss == "softmax"


def test_the_pooling_head_in_the_file_of_an_image_classifier_is_named() -> None:
    """transformers saves it in image classifiers, which use the mean of the patches."""
    model = BagClassifier.from_state_dict(networks.case("siglip-mean").network.state_dict())
    assert "the mean of the patches and not the attention pooling" in model.doubts


def test_a_softmax_probe_is_opened_by_its_name_and_temperature() -> None:
    torch.manual_seed(0)
    network = networks.randomized(networks.tails.SoftmaxProbe(temperature=0.3))
    state = network.state_dict()
    with pytest.raises(ValueError, match=r"one linear layer.*'softmax_probe'.*rolling mean"):
        BagClassifier.from_state_dict(state)
    with pytest.raises(ValueError, match="attention_temperature: expected the temperature"):
        BagClassifier.from_state_dict(state, "softmax_probe")
    model = BagClassifier.from_state_dict(state, "softmax_probe", attention_temperature=0.3)
    assert_agrees(model, network, features(networks.D))
    other = BagClassifier.from_state_dict(state, "softmax_probe", attention_temperature=1.0)
    bags = [features(networks.D, n, seed=n) for n in (9, 12)]
    assert other.check(bags, lambda several: [forward(network, x) for x in several]).options == {}
    assert not other.doubts  # the user said so


def test_a_probe_with_tanh_weights_is_found_out() -> None:
    """Its file looks like that of a softmax probe, whose weights are assumed in every output."""
    torch.manual_seed(0)
    network = networks.randomized(networks.tails.AttentionProbe(2, tanh=True))
    model = BagClassifier.from_state_dict(network.state_dict())
    assert "softmax attention" in model.doubts and "positions 0, 1, 2" in model.doubts
    bags = [features(networks.D, n, seed=n) for n in (9, 12)]
    result = model.check(bags, lambda several: [forward(network, x) for x in several])
    with pytest.raises(ValueError, match="check: the logits differ"):
        _ = result.model
    with pytest.raises(ValueError, match="do not add up to 1"):
        BagClassifier.from_state_dict(network.state_dict(), use_tanh=True)


def test_an_aggregation_without_weights_is_asked_for() -> None:
    state = networks.case("chemprop-mean").network.state_dict()
    with pytest.raises(ValueError, match="aggregation: expected 'mean', 'sum' or 'norm'"):
        BagClassifier.from_state_dict(state)
    for name in ("sum", "norm"):
        with pytest.raises(ValueError, match="a sum over atoms is not a weighted mean"):
            BagClassifier.from_state_dict(state, aggregation=name)
    attentive = networks.case("chemprop").network.state_dict()
    with pytest.raises(ValueError, match="aggregation: expected 'attentive'"):
        BagClassifier.from_state_dict(attentive, aggregation="mean")
    attentive["predictor.ffn.0.0.weight"] = torch.ones(5, 11 + 2)
    with pytest.raises(ValueError, match="without descriptors of the molecule"):
        BagClassifier.from_state_dict(attentive)


def test_an_activation_with_an_unknown_place_is_refused() -> None:
    nn = torch.nn
    layers = [nn.Linear(7, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Dropout(), nn.Linear(5, 3)]
    network = networks.randomized(networks.tails.AbmilMlp(nn.Sequential(*layers)))
    with pytest.raises(
        ValueError, match=r"place of the activation before classifier\.4 is unknown"
    ):
        BagClassifier.from_state_dict(network.state_dict())


def test_roles_name_layers_after_the_pooling() -> None:
    network = networks.case("clam-mlp").network
    names = {
        "attention_net.0": "first",
        "attention_net.3.attention_a.0": "tan",
        "attention_net.3.attention_b.0": "gate",
        "attention_net.3.attention_c": "score",
        "classifiers.0": "fc1",
        "classifiers.2": "fc2",
        "instance_classifiers": "unused",
    }
    state = {}
    for key, tensor in network.state_dict().items():
        start = next(name for name in names if key.startswith(f"{name}."))
        state[names[start] + key.removeprefix(start)] = tensor
    roles = {"embed": ["first"], "V": "tan", "U": "gate", "w": "score"}
    roles |= {"head": ["fc1"], "classifier": "fc2", "leave": ["unused."]}
    options = {"head_activation": "tanh"}
    model = BagClassifier.from_state_dict(state, roles={**roles, "options": options})
    assert_agrees(model, network, features(networks.D))
    assert "ReLU in the head" in BagClassifier.from_state_dict(state, roles=roles).doubts


def test_a_file_without_an_attention_is_said_to_be_a_mean() -> None:
    network = networks.case("owkin-mean").network
    assert "mean pooling" in BagClassifier.from_state_dict(network.state_dict()).doubts
    layer = {"weight": np.ones((2, 3))}
    assert not BagClassifier.from_state_dict(layer, layout="mean").doubts  # the user said so


def test_several_learned_queries_have_no_reading() -> None:
    state = networks.MultiheadPool(bias=True).state_dict()
    state["query"] = torch.ones(1, 2, 12)
    with pytest.raises(ValueError, match="one query"):
        BagClassifier.from_state_dict(state)


@pytest.mark.parametrize("name", ["keras", "class-token", "timm", "aim", "vjepa", "multihead"])
def test_weights_of_wrong_shapes_are_refused_in_one_line(name: str) -> None:
    """Some shapes fit by chance; the others are a ValueError of one line."""
    case = networks.case(name)
    errors = []
    state = {key: tensor.numpy() for key, tensor in case.network.state_dict().items()}
    for key in state:
        for shape in ((), (0,), (3,), (0, 0), (7, 7), (2, 3, 4), (18, 0), (0, 6)):
            try:
                BagClassifier.from_state_dict(
                    {**state, key: np.ones(shape)}, layout=case.layout, **case.options
                )
            except ValueError as error:
                errors.append(str(error))
    assert len(errors) > 4 * len(state) and "\n" not in "".join(errors)
