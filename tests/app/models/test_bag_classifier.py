from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from attn_closed_form import Bag, BagClassifier, Settings, shapley
from attn_closed_form.app.files.arrays import read_state
from attn_closed_form.app.models.bag_network import Attention, BagNetwork
from attn_closed_form.app.models.layers import ACTIVATIONS, Layer
from attn_closed_form.app.models.layouts import proposals
from tests import enumeration
from tests.profiles import mostly_slow

D = 7
E = 5
K = 3
N = 6


def network(H: int = 1, C: int = 2, gated: bool = True, seed: int = 0) -> BagNetwork:
    rng = np.random.default_rng(seed)
    draw = rng.normal
    if gated:
        gate = Layer(draw(size=(K, E)), draw(size=K), "sigmoid")
    else:
        gate = None
    attention = Attention(
        draw(size=(H, K)), draw(size=H), Layer(draw(size=(K, E)), draw(size=K), "tanh"), gate
    )
    several = {"value_class": np.repeat(np.arange(C), H), "value_head": np.tile(np.arange(H), C)}
    return BagNetwork(
        attention,
        draw(size=(C * H, E)),
        draw(size=C),
        **several,
        embed=(Layer(draw(size=(E, D)), draw(size=E), "relu"),),
    )


def by_hand(net: BagNetwork, x: Any) -> Any:
    """The formula of the module docstring, instance by instance."""
    layer = net.embed[0]
    a = net.attention
    h = [np.maximum(layer.W @ row + layer.b, 0) for row in x]
    gate = [
        1.0 if a.gate is None else 1 / (1 + np.exp(-(a.gate.W @ each + a.gate.b))) for each in h
    ]
    s = [
        a.w @ (np.tanh(a.hidden.W @ each + a.hidden.b) * g) + a.c
        for each, g in zip(h, gate, strict=True)
    ]
    mass = np.exp(np.array(s) - np.max(s, axis=0))
    alpha = mass / mass.sum(axis=0)
    out = net.bias.copy()
    for r, (c, head) in enumerate(zip(net.value_class, net.value_head, strict=True)):
        out[c] += sum(alpha[i, head] * (net.readout[r] @ h[i]) for i in range(len(x)))
    return out


def bag(n: int = N, seed: int = 5, **options: Any) -> Bag:
    return Bag(np.random.default_rng(seed).normal(size=(n, D)), **options)


@pytest.mark.parametrize("H", [1, 3])
@pytest.mark.parametrize("gated", [True, False])
def test_logits_and_game_agree_with_the_formula(H: int, gated: bool) -> None:
    net = network(H, 2, gated)
    model = BagClassifier(net, outputs=("normal", "tumor"))
    x = bag().features
    assert np.abs(model.predict_logits([x])[0] - by_hand(net, x)).max() < 1e-12
    units = model.read(x)
    for output, pick in (("tumor", [0, 1]), ("margin:tumor,normal", [-1, 1])):
        settings = Settings(output=output).resolve(model, model.logits(units))
        game = model.game(units, settings)
        masks = enumeration.coalitions(N)
        masks = masks[masks.any(axis=1)]
        expected = [np.dot(pick, by_hand(net, x[mask])) for mask in masks]
        assert np.abs(game.value(masks) - expected).max() < 1e-12
        assert float(game.value(np.zeros(N, dtype=bool))) == pytest.approx(np.dot(pick, net.bias))


def test_shapley_values_are_those_of_the_network() -> None:
    model = BagClassifier(network())
    found = model.explain(bag(), "shapley", output=1, scale="logit")["shapley"]
    assert np.abs(found.scores - enumeration.shapley(found.evidence.game)).max() < 1e-9
    assert found.baseline == pytest.approx(model.network.bias[1])


def test_regions_are_groups_of_instances() -> None:
    model = BagClassifier(network())
    regions = np.array(["b", "a", "b", "c", "a", "b"])
    given = bag(regions=regions)
    found = model.explain(given, "shapley", output=1, players="regions", scale="logit")["shapley"]
    assert found.labels == ("b", "a", "c")
    game = found.evidence.game
    for mask in enumeration.coalitions(3)[1:]:
        kept = np.isin(regions, np.array(["b", "a", "c"])[mask])
        if kept.any():
            expected = model.predict_logits([given.subset(kept)])[0][1]
        else:
            expected = model.network.bias[1]
        assert float(game.value(mask)) == pytest.approx(expected, abs=1e-12)


def test_a_bag_without_regions_says_so() -> None:
    with pytest.raises(ValueError, match="players"):
        BagClassifier(network()).explain(bag(), "shapley", players="regions")


def test_outputs() -> None:
    one = BagClassifier(network(C=1))
    assert one.outputs == ("0", "1") and one.predict_proba([bag()])[0].shape == (2,)
    risk = BagClassifier(network(C=1), outputs=("risk",))
    with pytest.raises(ValueError, match="'risk' has no probability"):
        risk.predict_proba([bag()])[0]
    assert risk.explain(bag(), "shapley").output == "risk"
    assert BagClassifier(network(C=3), outputs=["a", "b", "c"]).predict([bag()])[0] in "abc"
    for names, message in ((("a",), "2 class names"), (("a", "a"), "different, non-empty names")):
        with pytest.raises(ValueError, match=message):
            BagClassifier(network(), outputs=names)
    assert np.allclose(
        BagClassifier(network(), temperature=2.0).predict_proba([bag()])[0][1],
        1
        / (
            1 + np.exp(-np.diff(BagClassifier(network()).predict_logits([bag()])[0])[0] * -0.5 * -1)
        ),
    )


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = BagClassifier(network())
    many = bag(101).features.astype(np.float32)
    whole = model.network.scores(many)
    monkeypatch.setattr("attn_closed_form.app.models.bag_network.CHUNK_NUMBERS", 70)
    parts = model.network.scores(many)
    assert len(model.network.chunks(101)) == 11
    assert np.abs(whole.s - parts.s).max() < 1e-14 and np.abs(whole.v - parts.v).max() < 1e-14


def test_gradients_of_one_output_are_not_those_of_another() -> None:
    model = BagClassifier(network(), ("a", "b"))
    units = model.read(bag())
    for output in ("a", "b"):
        target = Settings(output=output, scale="logit").resolve(model, model.logits(units))
        found = model.inside("gradient-x-input", units, target)
        alone = model.inside("gradient-x-input", model.read(bag()), target)
        np.testing.assert_array_equal(found, alone)


def test_the_empty_bag_has_the_bias_of_its_output() -> None:
    model = BagClassifier(network(), ("a", "b"))
    units = model.read(bag())
    target = Settings(output="b", scale="logit").resolve(model, model.logits(units))
    empty = np.zeros(len(bag()), dtype=bool)
    assert float(model.game(units, target).value(empty)) == float(
        model.network.bias @ np.array(target.coefficients)
    )


def test_bad_features_are_named() -> None:
    model = BagClassifier(network())
    x = bag().features.copy()
    with pytest.raises(ValueError, match=r"features: .*float64 \(6, 6\)"):
        model.predict_logits([x[:, 1:]])[0]
    x[3, 2] = np.nan
    with pytest.raises(ValueError, match="got nan in instance 3"):
        model.predict_logits([x])[0]
    x[3] = 1e308 * np.sign(model.network.embed[0].W[0])
    with (
        np.errstate(all="ignore"),
        pytest.raises(ValueError, match=r"features: .* instance 3"),
    ):
        model.predict_logits([x])[0]


def test_pickles_for_processes() -> None:
    model = BagClassifier(network(), outputs=("a", "b"))
    assert np.array_equal(
        pickle.loads(pickle.dumps(model)).predict_logits([bag()])[0],
        model.predict_logits([bag()])[0],
    )


def test_equal_masses_are_the_mean() -> None:
    net = BagNetwork(Attention(np.zeros((1, D))), np.eye(D)[:2], np.zeros(2))
    x = bag().features
    assert np.allclose(BagClassifier(net).predict_logits([x])[0], x.mean(axis=0)[:2])


def state(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {"attention_net.0": (E, D), "classifiers": (3, E)}
    for part in ("attention_a.0", "attention_b.0"):
        shapes[f"attention_net.2.{part}"] = (K, E)
    shapes["attention_net.2.attention_c"] = (1, K)
    return {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}


BAGS = [bag(6), bag(9, seed=6), bag(4, seed=7)]


class TestCheck:
    def test_agreement(self) -> None:
        model = BagClassifier.from_state_dict(state())
        assert (
            "assumed: tanh attention, sigmoid gate, ReLU embedding, temperature 1 (not checked)"
            in repr(model)
        )
        found = model.check(BAGS, model.predict_logits(BAGS) * (1 + 1e-6))
        assert found and found.agrees and found.cause == "" and 0 < found.difference < 1e-4
        assert found.model.doubts == "" and "assumed" not in repr(found.model)
        # The model that was asked about has not changed.
        assert found.model is not model and not model.checked and "assumed" in repr(model)

    @pytest.mark.parametrize(
        "options",
        mostly_slow(
            [
                {"activation": "relu"},
                {"attention_temperature": 0.5},
                {"normalize": "layer_norm"},
                {"activation": "gelu"},
                {"gate": "identity"},
                {"embed_activation": "gelu"},
                {"normalize": "unit"},
            ],
            3,
        ),
    )
    def test_finds_what_the_file_does_not_say(self, options: dict[str, Any]) -> None:
        yours = BagClassifier.from_state_dict(state(), **options).predict_logits(BAGS)
        model = BagClassifier.from_state_dict(state())
        found = model.check(BAGS, yours)
        assert not found.agrees and found.options == options and model.doubts
        assert all(f"{name}={value!r}" in found.cause for name, value in options.items())
        assert (
            np.allclose(found.model.predict_logits(BAGS), yours, atol=1e-12)
            and found.model.doubts == ""
        )

    def test_finds_the_last_activation_and_the_epsilon(self) -> None:
        rng = np.random.default_rng(1)
        torchmil = {
            "feat_ext.0": (E, D),
            "feat_ext.2": (E, E),
            "pool.fc1": (K, E),
            "pool.fc2": (1, K),
        }
        weights = {f"{name}.weight": rng.normal(size=shape) for name, shape in torchmil.items()}
        weights["classifier.weight"] = rng.normal(size=(1, E))
        for options in (
            {"last_activation": "identity"},
            {"embed_activation": "relu", "last_activation": "gelu"},
        ):
            yours = BagClassifier.from_state_dict(weights, **options).predict_logits(BAGS)
            mended = BagClassifier.from_state_dict(weights).check(BAGS, yours).model
            assert np.allclose(mended.predict_logits(BAGS), yours, atol=1e-12)
        marugoto = {
            "encoder.0": (E, D),
            "attention.0": (K, E),
            "attention.2": (1, K),
            "head.3": (2, E),
        }
        weights = {f"{name}.weight": rng.normal(size=shape) for name, shape in marugoto.items()}
        weights |= {
            "head.1.running_mean": rng.normal(size=E),
            "head.1.running_var": 0.01 + rng.random(E) / 50,
        }
        yours = BagClassifier.from_state_dict(weights, epsilon=1e-3).predict_logits(BAGS)
        assert BagClassifier.from_state_dict(weights).check(BAGS, yours).options == {
            "epsilon": 1e-3
        }

    def test_takes_the_best_fit_not_the_first(self) -> None:
        """Weak attention: several activations are within the tolerance, and one is right."""
        weak = {
            name: array * (1e-3 if "attention_c" in name else 1.0)
            for name, array in state().items()
        }
        yours = BagClassifier.from_state_dict(weak, activation="relu").predict_logits(BAGS)
        for tol in (1e-9, 1e-5):
            found = BagClassifier.from_state_dict(weak).check(BAGS, yours, tol=tol)
            assert found.agrees or found.options == {"activation": "relu"}

    def test_one_instance_and_one_size_are_refused(self) -> None:
        model = BagClassifier.from_state_dict(state())
        for bags in ([bag(1), bag(4)], [bag(4), bag(4, seed=6)], [bag(4)], bag(4)):
            if isinstance(bags, Bag):
                several = [bags]
            else:
                several = bags
            with pytest.raises(ValueError, match="two bags of different size"):
                model.check(bags, model.predict_logits(several))

    def test_a_temperature_that_depends_on_the_size_is_refused(self) -> None:
        """The root of n in the softmax is not a pooled game: one bag would agree with some
        temperature.
        """

        def yours(several: list[Any]) -> Any:
            models = (
                BagClassifier.from_state_dict(state(), attention_temperature=len(x) ** 0.5)
                for x in several
            )
            return [model.predict_logits([x])[0] for model, x in zip(models, several, strict=True)]

        # Asked for sub-bags.
        for found in (
            BagClassifier.from_state_dict(state()).check(
                BAGS, yours([each.features for each in BAGS])
            ),
            BagClassifier.from_state_dict(state()).check([bag(9)], yours),
        ):
            assert not found and "not a pooled game" in found.cause
            with pytest.raises(ValueError, match="the logits differ by"):
                _ = found.model

    def test_a_network_is_asked_for_sub_bags(self) -> None:
        sizes = []
        model = BagClassifier.from_state_dict(state())

        def yours(several: list[Any]) -> Any:
            sizes.extend(map(len, several))
            return model.predict_logits(several)

        for seed in range(5):
            assert model.check(bag(9), yours, seed=seed) and len(set(sizes)) > 1 and min(sizes) >= 2

    def test_finds_the_order_of_classes(self) -> None:
        model = BagClassifier.from_state_dict(state())
        found = model.check(BAGS, model.predict_logits(BAGS)[:, [2, 0, 1]])
        assert (
            found.cause == "the order of the classes: yours are the classes [2, 0, 1] of this model"
        )
        assert found.mended is None

    def test_finds_the_order_of_classes_whose_ranks_change_from_bag_to_bag(self) -> None:
        """The smallest bag is not the first one, and the classes have other ranks in it."""
        model = BagClassifier.from_state_dict(state())
        several = [bag(6, seed=seed) for seed in range(20)] + [
            bag(4, seed=seed) for seed in range(20)
        ]
        ranks = model.predict_logits(several).argsort(axis=1)
        i, j = next(
            (i, j) for i in range(20) for j in range(20, 40) if (ranks[i] != ranks[j]).any()
        )
        bags = [several[i], several[j]]
        found = model.check(bags, model.predict_logits(bags)[:, [2, 0, 1]])
        assert (
            found.cause == "the order of the classes: yours are the classes [2, 0, 1] of this model"
        )

    def test_finds_probabilities_sign_bias_and_count(self) -> None:
        model = BagClassifier.from_state_dict(
            {**state(), "classifiers.bias": np.array([1.0, 2.0, -1.0])}
        )
        logits = model.predict_logits(BAGS)
        assert "these are probabilities" in model.check(BAGS, model.predict_proba(BAGS)).cause
        assert "the sign" in model.check(BAGS, -logits).cause
        assert "without it" in model.check(BAGS, logits - [1, 2, -1]).cause
        assert "expected (3, 3)" in model.check(BAGS, logits[:, :2]).cause

    def test_finds_the_number_of_heads(self) -> None:
        rng = np.random.default_rng(0)
        probe = {
            "k.weight": (12, 12),
            "v.weight": (12, 12),
            "linear.weight": (3, 12),
            "cls_token": (1, 1, 12),
        }
        weights = {name: rng.normal(size=shape) for name, shape in probe.items()}
        x = [rng.normal(size=(n, 12)) for n in (6, 8)]
        yours = BagClassifier.from_state_dict(weights, num_heads=4).predict_logits(x)
        assert "12 heads" in BagClassifier.from_state_dict(weights).doubts
        assert BagClassifier.from_state_dict(weights).check(x, yours).options == {"num_heads": 4}

    def test_admits_that_it_does_not_know(self) -> None:
        found = BagClassifier.from_state_dict(state()).check(BAGS, np.arange(9.0).reshape(3, 3))
        assert "no activation" in found.cause and "differs by" in repr(found)


class TestRefusals:
    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (
                ["i_classifier.fc.0.weight", "b_classifier.q.0.weight"],
                "DSMIL.*highest-scoring instance",
            ),
            (
                ["pos_layer.proj.weight", "layer1.attn.to_qkv.weight", "_fc2.weight"],
                "TransMIL.*depend on each other",
            ),
            (
                ["encoder.layers.0.self_attn.in_proj_weight", "head.weight"],
                "a transformer.*depend on each other",
            ),
            (["gru.weight_ih_l0", "gru.weight_hh_l0"], "a recurrent network"),
            (["additive_function.0.weight"], "Additive MIL.*not linear in the attention"),
            (["gcn1.weight"], "a graph network"),
            (
                ["fc1.weight", "fc2.weight"],
                r"no layout of .* fits; it has fc1.weight \(2, 2\).*game_from_black_box",
            ),
        ],
    )
    def test_says_why(self, names: list[str], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            BagClassifier.from_state_dict({name: np.ones((2, 2)) for name in names})

    def test_weights_that_nobody_reads_are_named(self) -> None:
        with pytest.raises(
            ValueError, match=r"are not part of the layout 'clam': norm.weight \(5,\)"
        ):
            BagClassifier.from_state_dict({**state(), "norm.weight": np.ones(E)})

    def test_quantile_gate(self) -> None:
        with pytest.raises(ValueError, match=r"attention_gate: expected 0, got 0\.75"):
            BagClassifier.from_state_dict(
                {"x.weight": np.ones((1, 1))}, layout="marugoto", attention_gate=0.75
            )

    def test_options_and_layouts_are_checked(self) -> None:
        with pytest.raises(ValueError, match="num_heads: expected one of activation, gate"):
            BagClassifier.from_state_dict(state(), num_heads=3)
        with pytest.raises(ValueError, match="layout: expected 'auto' or one of clam"):
            BagClassifier.from_state_dict(state(), layout="clam_sb")
        with pytest.raises(ValueError, match="activation: "):
            BagClassifier.from_state_dict(state(), activation="Tanh")

    def test_masks_are_not_dropped(self) -> None:
        weights = state()
        name = next(name for name in weights if name.endswith("weight"))
        weights[name] = np.ma.masked_array(weights[name], mask=True)
        with pytest.raises(ValueError, match=f"{name}: expected numbers without a mask"):
            BagClassifier.from_state_dict(weights)

    def test_branches_and_last_layers_must_fit(self) -> None:
        weights = state()
        readout = weights.pop("classifiers.weight")
        several = {f"classifiers.{i}.weight": readout[i : i + 1] for i in range(3)}
        with pytest.raises(
            ValueError,
            match="one last layer of one output per branch, got 1 branches and 3 layers of 3",
        ):
            BagClassifier.from_state_dict({**weights, **several})

    def test_shapes_are_checked(self) -> None:
        wrong = {**state(), "classifiers.weight": np.ones((3, E + 1))}
        with pytest.raises(
            ValueError,
            match="state: layout 'clam': readout: ",
        ):
            BagClassifier.from_state_dict(wrong)


def test_prefixes_and_nesting() -> None:
    expected = BagClassifier.from_state_dict(state()).predict_logits([bag()])[0]
    prefixed = {f"module.model.{name}": value for name, value in state().items()}
    for saved in (
        prefixed,
        {"state_dict": prefixed, "epoch": 3},
        {"model_state_dict": state(), "optimizer": {}},
    ):
        assert np.array_equal(
            BagClassifier.from_state_dict(saved).predict_logits([bag()])[0], expected
        )
    lightning = {f"model.{name}": value for name, value in state().items()}
    lightning |= {"criterion.weight": np.ones(3), "val_auroc.confmat": np.ones((2, 2))}
    assert np.array_equal(
        BagClassifier.from_state_dict({"state_dict": lightning}).predict_logits([bag()])[0],
        expected,
    )
    with pytest.raises(ValueError, match="expected a state dict"):
        BagClassifier.from_state_dict({"epoch": 3})


def test_a_pooling_that_was_saved_alone_is_read() -> None:
    rng = np.random.default_rng(0)
    shapes = {"latent": (1, 1, 4), "kv.weight": (8, 4), "head.weight": (2, 4)}
    pool = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    x = rng.normal(size=(N, 4))
    keys, values = np.split(x @ pool["kv.weight"].T, 2, axis=1)
    mass = np.exp(keys @ pool["latent"][0, 0] / 2)
    expected = pool["head.weight"] @ (mass @ values / mass.sum())
    assert np.allclose(
        BagClassifier.from_state_dict(pool, num_heads=1).predict_logits([x])[0], expected
    )
    with pytest.raises(ValueError, match=r"are not part of the layout .*: norm\.weight \(4,\)"):
        BagClassifier.from_state_dict({**pool, "norm.weight": np.ones(4)}, num_heads=1)


def test_the_exponential_of_a_risk_has_exact_shapley_values() -> None:
    """A survival network: one output without a probability, whose hazard ratio is exp(risk)."""
    model = BagClassifier(network(C=1), outputs=("risk",))
    found = model.explain(bag(), "shapley")
    assert found.probabilities is None and found.output == "risk"
    f = np.exp(enumeration.values(found.game).astype(float))
    masks = enumeration.coalitions(N)
    weights = [1 / (N * math.comb(N - 1, k)) for k in range(N)]
    exact = [
        sum(weights[int(m.sum())] * (f[k | 1 << j] - f[k]) for k, m in enumerate(masks) if not m[j])
        for j in range(N)
    ]
    assert np.abs(shapley(found.game.through("exp")) - exact).max() < 1e-8


def phi(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


# The formulas of PyTorch's documentation, for one number.
FORMULAS: dict[str, Any] = {
    "identity": lambda x: x,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * phi(x),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (math.exp(x) - 1)),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "softplus": lambda x: math.log1p(math.exp(x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas_and_slopes_are_differences(name: str) -> None:
    value, slope = ACTIVATIONS[name]
    x = np.linspace(-3.01, 3.02, 41)
    step = 1e-5
    np.testing.assert_allclose(
        value(x), [FORMULAS[name](each) for each in x], rtol=1e-13, atol=1e-13
    )
    np.testing.assert_allclose(
        slope(x), (value(x + step) - value(x - step)) / (2 * step), rtol=0, atol=1e-8
    )


def test_roles_of_attention_without_a_hidden_layer() -> None:
    rng = np.random.default_rng(0)
    shapes = {"first": (E, D), "score": (1, E), "last": (2, E)}
    arrays = {f"{name}.weight": rng.normal(size=shape) for name, shape in shapes.items()}
    found = proposals(read_state(arrays))
    assert {"embed": ["first"], "w": "score", "classifier": "last"} in found


@pytest.mark.parametrize("width", [D - 1, D + 1])
def test_features_of_another_width_are_refused(width: int) -> None:
    with pytest.raises(
        ValueError, match=rf"features: expected real numbers of shape \(n, {D}\), n >= 1"
    ):
        BagClassifier.from_state_dict(state()).predict_logits([np.ones((3, width))])


def test_what_is_neither_a_file_nor_a_state_dict_is_named():
    with pytest.raises(
        TypeError, match="state: expected a file, a state dict or a module, got object"
    ):
        BagClassifier.from_state_dict(object())


def test_a_file_without_its_embedding_is_not_recognized() -> None:
    arrays = {"classifiers.weight": np.ones((2, E)), "classifiers.bias": np.ones(2)}
    for name, rows, columns in (("a.0", K, E), ("b.0", K, E), ("c", 1, K)):
        layer = f"attention_net.2.attention_{name}"
        arrays[f"{layer}.weight"] = np.ones((rows, columns))
        arrays[f"{layer}.bias"] = np.ones(rows)
    with pytest.raises(ValueError, match="no layout of"):
        BagClassifier.from_state_dict(arrays)
    embedding = {"attention_net.0.weight": np.ones((E, D)), "attention_net.0.bias": np.ones(E)}
    assert BagClassifier.from_state_dict({**embedding, **arrays}).network.D == D
