"""Training on bags: the forward pass against loops, padding, masks, early stopping, and
scikit-learn's habits.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_closed_form import BagClassifier
from jax_model import AttentionBagClassifier
from jax_model.training.bags import (
    BagConfig,
    bag_logits,
    dropped,
    kept_instances,
    pack,
    standardization,
    start_params,
    state_dict,
)
from tests.profiles import mostly_slow

# One shape for all networks, so that JAX compiles once.
SHAPE = {"hidden": 11, "attention": 5}
SMALL = {**SHAPE, "epochs": 4}


def some_bags(count=17, D=3, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(2.0, 3.0, size=(rng.integers(1, 8), D)) for _ in range(count)]


def is_large(bags):
    return np.array([int(bag[:, 0].max() > 4.0) for bag in bags])


def forward_by_loops(state, bag):
    """The network of the module docstring, one instance at a time."""
    masses = []
    embedded = []
    for x in bag:
        h = np.maximum(state["attention_net.0.weight"] @ x + state["attention_net.0.bias"], 0)
        gate = "attention_net.2.attention_"
        a = np.tanh(state[gate + "a.0.weight"] @ h + state[gate + "a.0.bias"])
        b = 1 / (1 + np.exp(-(state[gate + "b.0.weight"] @ h + state[gate + "b.0.bias"])))
        masses.append(np.exp(state[gate + "c.weight"] @ (a * b)))
        embedded.append(h)
    pooled = sum(m * h for m, h in zip(masses, embedded, strict=True)) / sum(masses)
    return state["classifiers.weight"] @ pooled + state["classifiers.bias"]


def test_what_dropout_keeps_has_the_same_mean():
    x = np.arange(1.0, 4001.0)
    found = np.asarray(dropped(jax.random.key(0), x, 0.25))
    kept = found > 0
    assert abs(kept.mean() - 0.75) < 0.03  # four standard errors
    np.testing.assert_allclose(found[kept], x[kept] / 0.75, rtol=1e-6)


@pytest.mark.parametrize("classes", mostly_slow([3, 2], 1))
def test_predictions_are_those_of_the_saved_arrays(classes):
    bags = some_bags()
    labels = np.arange(len(bags)) % classes
    model = AttentionBagClassifier(**SMALL).fit(bags, labels)
    logits = model.decision_function(bags).reshape(len(bags), -1)
    assert logits.shape[1] == (1 if classes == 2 else classes)
    expected = np.array([forward_by_loops(model.state_dict(), bag) for bag in bags])
    np.testing.assert_allclose(logits, expected, atol=2e-5)
    probabilities = model.predict_proba(bags)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    if classes == 2:
        np.testing.assert_allclose(
            probabilities[:, 1], 1 / (1 + np.exp(-expected[:, 0])), atol=1e-5
        )


@pytest.mark.parametrize("names", mostly_slow([["1", "0"], [5, 2], ["tumor", "normal"]], 1))
def test_labels_keep_their_type_in_a_file(names, tmp_path):
    bags = some_bags()
    labels = np.array(names)[np.arange(len(bags)) % 2]
    model = AttentionBagClassifier(**SMALL).fit(bags, labels)
    model.save(tmp_path / "model.npz")
    model.save(tmp_path / "model.safetensors")
    loaded = BagClassifier.from_state_dict(tmp_path / "model.npz")
    other = BagClassifier.from_state_dict(tmp_path / "model.safetensors")
    for opened in (loaded, other, model.to_model()):
        predicted = opened.predict(bags)
        assert predicted.dtype.kind == labels.dtype.kind
        np.testing.assert_array_equal(predicted, model.predict(bags))
    assert loaded.outputs == tuple(sorted(map(str, names)))
    renamed = BagClassifier.from_state_dict(tmp_path / "model.npz", outputs=["a", "b"])
    assert set(renamed.predict(bags)) <= {"a", "b"}


def test_a_bag_does_not_see_its_neighbors_or_the_padding():
    config = BagConfig(hidden=11, attention=5)
    params = start_params(3, 2, config)
    bags = some_bags()
    together = pack(bags, 23)
    logits = jax.jit(bag_logits, static_argnums=3)
    found = logits(params, together.x, together.bag, 23)[: len(bags)]
    for i, bag in enumerate(bags):
        alone = pack([bag], 23)
        np.testing.assert_allclose(
            found[i], logits(params, alone.x, alone.bag, 23)[0], rtol=1e-4, atol=1e-4
        )


def test_dropped_instances_leave_at_least_one():
    bag = jnp.array([0, 0, 0, 1, 2, 2])
    seen = np.zeros(6)
    for seed in range(40):
        kept = np.asarray(kept_instances(jax.random.split(jax.random.key(seed), 2), bag, 3, 0.999))
        assert kept[:3].any() and kept[3] and kept[4:].any()
        seen += kept
    assert 0 < seen[0] < 40


def test_standardization_of_constant_features_does_nothing():
    bags = [np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[5.0, 5.0]])]
    mean, scale = standardization(bags)
    np.testing.assert_allclose(mean, [3, 5])
    np.testing.assert_allclose(scale, [np.sqrt(8 / 3), 1])


def test_the_same_seed_gives_the_same_bits_and_another_another_model():
    bags = some_bags()
    labels = is_large(some_bags())
    first, again, other = (
        AttentionBagClassifier(**SMALL, random_state=seed).fit(bags, labels) for seed in (5, 5, 6)
    )
    assert all(
        np.array_equal(first.state_dict()[k], again.state_dict()[k]) for k in first.state_dict()
    )
    assert not np.array_equal(first.decision_function(bags), other.decision_function(bags))


def test_it_learns_what_bags_have_in_common():
    training = some_bags(160)
    testing = some_bags(100, seed=1)
    names = np.array(["zero", "a large one"])
    model = AttentionBagClassifier(**SHAPE, epochs=40, learning_rate=2e-2)
    model.fit(training, names[is_large(training)])
    assert model.classes_.tolist() == ["a large one", "zero"]
    assert model.score(testing, names[is_large(testing)]) > 0.85
    rows = model.predict_proba(testing)
    assert (model.classes_[rows.argmax(axis=1)] == model.predict(testing)).all()


def test_early_stopping_holds_out_every_class_and_keeps_the_best_epoch():
    bags = some_bags(60)
    # Nothing to learn, so the validation loss soon rises.
    labels = np.random.default_rng(0).integers(0, 2, 60)
    settings = {**SHAPE, "early_stopping": True, "validation_fraction": 0.2, "learning_rate": 1e-2}
    model = AttentionBagClassifier(**settings, epochs=60, patience=3).fit(bags, labels)
    held_out = labels[model.held_out_]
    assert len(model.held_out_) == 12 and 0 < held_out.sum() < 12
    losses = [record["validation_loss"] for record in model.history_]
    best = int(np.argmin(losses))
    assert len(losses) < 60 and len(losses) - 1 - best == 3
    f = model.decision_function([bags[i] for i in model.held_out_])
    kept = np.mean(np.log1p(np.exp(np.where(held_out == 1, -f, f))))
    assert kept == pytest.approx(losses[best], abs=1e-5)
    training = [bag for i, bag in enumerate(bags) if i not in set(model.held_out_)]
    np.testing.assert_allclose(model.training_.mean, np.concatenate(training).mean(axis=0))


@pytest.mark.slow  # two trainings
def test_balanced_weights_undo_an_imbalance():
    bags = some_bags(80)
    labels = (np.arange(80) % 8 == 0).astype(int)  # an eighth is positive, at random
    options = {**SHAPE, "epochs": 30, "weight_decay": 10.0, "learning_rate": 1e-2}
    plain = AttentionBagClassifier(**options).fit(bags, labels)
    balanced = AttentionBagClassifier(**options, class_weight="balanced").fit(bags, labels)
    assert plain.predict_proba(bags)[:, 1].mean() < 0.3 < balanced.predict_proba(bags)[:, 1].mean()


def test_scikit_learn_can_clone_and_cross_validate():
    base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed")
    from sklearn.model_selection import cross_val_score

    bags = some_bags(24)
    labels = np.arange(24) % 2
    model = AttentionBagClassifier(**SMALL, dropout=0.5)
    twin = base.clone(model)
    assert (
        twin is not model and twin.get_params() == model.get_params() and base.is_classifier(model)
    )
    assert cross_val_score(model, bags, labels, cv=2).shape == (2,)


@pytest.mark.parametrize(
    ("bags", "labels", "message"),
    [
        ([], [], "^X: "),
        ([np.ones((2, 3)), np.ones((2, 4))], [0, 1], r"^X\[1\]: "),
        (
            [np.ones((2, 3)), np.ones((0, 3))],
            [0, 1],
            r"^X\[1\]: ",
        ),
        ([np.ones((2, 3)), np.full((1, 3), np.nan)], [0, 1], r"^X\[1\]: "),
        ([np.ones((2, 3)), np.array([["a"]])], [0, 1], r"^X\[1\]: "),
        (
            [np.ones((2, 3))] * 2,
            [1, 1],
            "^y: ",
        ),
        ([np.ones((2, 3))] * 2, [1], "^y: "),
    ],
)
def test_wrong_data_are_named(bags, labels, message):
    with pytest.raises(ValueError, match=message):
        AttentionBagClassifier(**SMALL).fit(bags, labels)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 0}, "^hidden: "),
        ({"dropout": 1.0}, "^dropout: "),
        ({"learning_rate": float("nan")}, "^learning_rate: "),
        ({"weight_decay": -1.0}, "^weight_decay: "),
        ({"class_weight": "even"}, "^class_weight: "),
        (
            {"early_stopping": True, "validation_fraction": 1.5},
            "^validation_fraction: ",
        ),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        AttentionBagClassifier(**settings).fit(some_bags(4), [0, 1, 0, 1])


def test_an_unfitted_model_says_so():
    with pytest.raises(ValueError, match="not fitted yet"):
        AttentionBagClassifier().predict(some_bags(2))
    with pytest.raises(ValueError, match="Invalid parameter 'hiden'"):
        AttentionBagClassifier().set_params(hiden=3)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_files_hold_the_arrays_and_the_names(tmp_path, suffix):
    bags = some_bags()
    model = AttentionBagClassifier(**SMALL).fit(bags, np.where(is_large(bags), "tumor", "normal"))
    path = tmp_path / f"model{suffix}"
    model.save(path)
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
        assert found.pop("outputs").tolist() == ["normal", "tumor"]
        assert found.pop("labels").tolist() == ['["normal", "tumor"]']
        assert found.pop("options").size == 1
    else:
        from safetensors.numpy import load_file

        found = load_file(path)
    assert found.keys() == model.state_dict().keys()
    for name, array in state_dict(model.training_).items():
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(ValueError, match=r"expected a file name ending in \.npz or \.safetensors"):
        model.save(tmp_path / "model.pkl")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_the_exact_model_predicts_and_explains_the_same(tmp_path, classes, suffix):
    bags = some_bags()
    names = np.array(["normal", "tumor", "artefact"])[np.arange(len(bags)) % classes]
    model = AttentionBagClassifier(**SMALL).fit(bags, names)
    model.save(tmp_path / f"model{suffix}")
    for exact in (model.to_model(), BagClassifier.from_state_dict(tmp_path / f"model{suffix}")):
        assert exact.outputs == tuple(model.classes_)
        assert exact.doubts == ""  # the trainer knows its activations, and writes them to the file
        for bag, row in zip(bags, model.predict_proba(bags), strict=True):
            np.testing.assert_allclose(exact.predict_proba([bag])[0], row, atol=1e-5)
            np.testing.assert_allclose(
                exact.predict_logits([bag])[0],
                forward_by_loops(model.state_dict(), bag),
                atol=1e-12,
            )
    found = model.explain(bags[0], "shapley", output="normal")
    assert found.output == "normal"
    e = found["shapley"]
    assert e.baseline + e.scores.sum() == pytest.approx(found.prediction, abs=1e-9)
