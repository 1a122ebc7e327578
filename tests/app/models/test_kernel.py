"""Kernel predictors: predictions, explanations and data values against enumeration over training examples."""

import math

import numpy as np
import pytest

from attn_closed_form import KernelPredictor, PooledGame, explain, shapley
from tests.enumeration import coalitions

N = 12
D = 3


def data(seed=0, classes=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    y = rng.permutation(np.arange(N) % classes)
    return X, np.array(["a", "b", "c"])[y], rng.normal(size=N), rng.normal(size=(2, D))


def weights_by_hand(predictor, x, X):
    if predictor.kernel == "gaussian":
        return np.array(
            [math.exp(-sum((x - row) ** 2) / (2 * predictor.bandwidth**2)) for row in X]
        )
    cos = np.array([x @ row / math.sqrt(x @ x) / math.sqrt(row @ row) for row in X])
    return np.exp(cos / predictor.bandwidth)


def enumerated(utility, n=N):
    """Shapley values of any function of masks, from all coalitions."""
    masks = coalitions(n)
    worth = np.array([utility(mask) for mask in masks])
    at = {tuple(mask): value for mask, value in zip(masks.tolist(), worth, strict=True)}
    phi = np.zeros(n)
    for mask, value in zip(masks.tolist(), worth, strict=True):
        size = sum(mask)
        for j in range(n):
            if mask[j]:
                without = tuple(m and i != j for i, m in enumerate(mask))
                phi[j] += (value - at[without]) / (n * math.comb(n - 1, size - 1))
    return phi


def probability(w, hit, prior, empty):
    def value(mask):
        mass = w[mask].sum() + prior
        if mass:
            return (w[mask] @ hit[mask] + prior * empty) / mass
        return empty

    return value


@pytest.mark.parametrize("kernel", ["gaussian", "cosine"])
@pytest.mark.parametrize("prior", [0.0, 0.3])
def test_predictions_are_weighted_means(kernel, prior):
    X, y, numbers, queries = data()
    classes = KernelPredictor(kernel, 0.7, prior=prior).fit(X, y)
    regression = KernelPredictor(kernel, 0.7, prior=prior).fit(X, numbers)
    for x, row, number in zip(
        queries, classes.predict_proba(queries), regression.predict(queries), strict=True
    ):
        w = weights_by_hand(classes, x, X)
        expected = [(w[y == c].sum() + prior / 3) / (w.sum() + prior) for c in "abc"]
        np.testing.assert_allclose(row, expected, rtol=1e-12)
        np.testing.assert_allclose(
            number, (w @ numbers + prior * numbers.mean()) / (w.sum() + prior), rtol=1e-12
        )
    best = classes.predict_proba(queries).argmax(axis=1)
    assert classes.predict(queries).tolist() == ["abc"[i] for i in best]


@pytest.mark.parametrize(
    ("utility", "prior"),
    [
        ("probability", 0.0),
        ("probability", 0.2),
        ("log_loss", 0.2),
        ("squared_error", 0.0),
        ("squared_error", 0.2),
    ],
)
def test_data_values_of_classes_are_those_of_enumeration(utility, prior):
    X, y, _, queries = data()
    predictor = KernelPredictor(bandwidth=0.8, prior=prior).fit(X, y)
    labels = ["a", "c"]
    link = {
        "probability": lambda p: p,
        "log_loss": math.log,
        "squared_error": lambda p: -((p - 1) ** 2),
    }[utility]
    expected = np.zeros(N)
    for x, label in zip(queries, labels, strict=True):
        f = probability(weights_by_hand(predictor, x, X), (y == label).astype(float), prior, 1 / 3)
        expected += enumerated(lambda mask, f=f: link(f(mask)))
    values = predictor.data_values(queries, labels, utility, tol=1e-10)
    assert np.abs(values - expected).max() <= 1e-10 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("prior", [0.0, 0.2])
def test_data_values_of_a_regression_are_those_of_enumeration(prior):
    X, _, numbers, queries = data()
    predictor = KernelPredictor("cosine", 0.5, prior=prior).fit(X, numbers)
    targets = [0.3, -1.0]
    expected = np.zeros(N)
    for x, target in zip(queries, targets, strict=True):
        f = probability(weights_by_hand(predictor, x, X), numbers, prior, numbers.mean())
        expected += enumerated(lambda mask, f=f, target=target: -((f(mask) - target) ** 2))
    assert np.abs(predictor.data_values(queries, targets, tol=1e-10) - expected).max() < 1e-10


@pytest.mark.parametrize("utility", ["probability", "log_loss", "squared_error"])
def test_efficiency_with_neighbors_and_in_parallel(utility):
    pytest.importorskip("joblib")
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 4))
    y = rng.integers(0, 3, size=60)
    predictor = KernelPredictor(bandwidth=0.5, k=17, prior=0.1).fit(X, y)
    queries = rng.normal(size=(5, 4))
    labels = rng.integers(0, 3, size=5)
    seen = []
    values = predictor.data_values(
        queries, labels, utility, progress=lambda *stage: seen.append(stage)
    )
    chance = predictor.predict_proba(queries)[np.arange(5), labels]
    link = {
        "probability": lambda p: p,
        "log_loss": np.log,
        "squared_error": lambda p: -((p - 1) ** 2),
    }[utility]
    np.testing.assert_allclose(
        values.sum(), (link(chance) - link(1 / 3)).sum(), atol=5 * 60 * 1e-8 * 5
    )
    assert seen[-1] == ("test points", 5, 5)
    assert np.array_equal(values, predictor.data_values(queries, labels, utility, n_jobs=2))


def test_far_examples_and_wide_spreads():
    """Log-weights over thousands: the nearest example decides, and nothing underflows."""
    X = np.arange(40.0)[:, None]
    predictor = KernelPredictor(bandwidth=0.3).fit(X, np.arange(40) % 2)
    values = predictor.data_values([[100.0]], [1])
    np.testing.assert_allclose(values.sum(), 0.5, atol=1e-8)
    assert predictor.predict([[100.0]]).tolist() == [1]


def test_explanations_are_of_the_probability():
    X, y, numbers, queries = data()
    predictor = KernelPredictor(bandwidth=0.8).fit(X, y)
    e = predictor.explain(queries[0], "shapley", output="b")
    f = probability(weights_by_hand(predictor, queries[0], X), (y == "b").astype(float), 0.0, 1 / 3)
    np.testing.assert_allclose(e["shapley"].scores, enumerated(f), atol=1e-9)
    assert e.output == "b" and e["shapley"].labels == tuple(
        f"{i}: {label}" for i, label in enumerate(y)
    )
    assert e.prediction == pytest.approx(predictor.predict_proba(queries[:1])[0, 1])
    assert e.probabilities is None  # so no view calls the probability a logit
    regression = KernelPredictor(bandwidth=0.8).fit(X, numbers)
    assert explain(regression.model_, queries[0], "shapley").prediction == pytest.approx(
        regression.predict(queries[:1])[0]
    )


def test_a_function_as_kernel_and_neighbors():
    X, y, _, queries = data()
    own = KernelPredictor(lambda a, b: a @ b.T, 2.0, k=4).fit(X, y)
    s = X @ queries[0] / 2
    nearest = np.sort(np.argsort(-s)[:4])
    w = np.exp(s[nearest])
    np.testing.assert_allclose(
        own.predict_proba(queries[:1])[0],
        [w[y[nearest] == c].sum() / w.sum() for c in "abc"],
        rtol=1e-12,
    )
    assert (own.data_values(queries[:1], ["a"]) != 0).sum() <= 4


def test_scikit_learn_takes_it():
    model_selection = pytest.importorskip("sklearn.model_selection")
    from sklearn.base import clone
    from sklearn.datasets import load_iris
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(
        StandardScaler(), KernelPredictor(bandwidth=0.4, task="classification")
    )
    assert model_selection.cross_val_score(pipeline, X, y).mean() > 0.9
    search = model_selection.GridSearchCV(
        KernelPredictor(task="classification"), {"bandwidth": [0.2, 20.0]}, cv=3
    )
    assert search.fit(X, y).best_params_ == {"bandwidth": 0.2}
    again = clone(KernelPredictor("cosine", k=3))
    assert again.get_params() == {
        "kernel": "cosine",
        "bandwidth": 1.0,
        "k": 3,
        "prior": 0.0,
        "task": "auto",
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kernel": "rbf"}, "kernel: expected 'gaussian', 'cosine' or a function, got 'rbf'"),
        ({"bandwidth": 0.0}, "bandwidth: expected a positive number"),
        ({"k": 0}, "k: expected an integer of at least 1"),
        ({"prior": -1.0}, "prior: expected a number of at least 0"),
        ({"task": "rank"}, "task: expected one of auto"),
    ],
)
def test_wrong_parameters(wrong, message):
    X, y, _, _ = data()
    with pytest.raises(ValueError, match=message):
        KernelPredictor(**wrong).fit(X, y)


def test_wrong_questions():
    X, y, numbers, queries = data()
    fitted = KernelPredictor().fit(X, y)
    regression = KernelPredictor().fit(X, numbers)
    for call, message in [
        (lambda: KernelPredictor().predict(X), "call fit first"),
        (lambda: fitted.data_values(queries, ["a", "d"]), "labels seen in fit, got .*d"),
        (lambda: fitted.data_values(queries, ["a"]), "y_test: expected 2 labels"),
        (lambda: fitted.data_values(queries, ["a", "b"], "log_loss"), "needs a prior above 0"),
        (lambda: fitted.data_values(queries, ["a", "b"], "accuracy"), "utility: expected one of"),
        (
            lambda: regression.data_values(queries, [0.0, 1.0], "probability"),
            "fitted for regression",
        ),
        (lambda: regression.predict_proba(queries), "fitted for regression"),
        (lambda: fitted.predict(queries[:, :2]), "expected 3 numbers"),
        (lambda: fitted.set_params(width=1.0), "width: expected parameters among"),
        (lambda: fitted.fit(X, y[:3]), "X, y: expected shapes"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_the_score_of_a_regression_is_the_share_of_variance():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    X, _, numbers, _ = data()
    fitted = KernelPredictor(bandwidth=2.0).fit(X, numbers)
    labels = numbers + np.linspace(-1, 1, len(numbers))
    assert fitted.score(X, labels) == pytest.approx(metrics.r2_score(labels, fitted.predict(X)))


def test_masked_labels_are_refused():
    X, y, numbers, queries = data()
    for labels in (y, numbers):
        fitted = KernelPredictor().fit(X, labels)
        masked = np.ma.masked_array(labels, mask=True)
        for call in (fitted.fit, fitted.score):
            with pytest.raises(ValueError, match=r"^y: expected numbers without a mask"):
                call(X, masked)
        with pytest.raises(ValueError, match=r"^y_test: expected numbers without a mask"):
            fitted.data_values(queries, masked[: len(queries)])


def test_plain_weights_are_log_masses():
    w = np.array([0.5, 2.0, 3.0])
    v = np.array([1.0, -1.0, 4.0])
    ours = PooledGame.from_weights(w, v, background_weight=0.7, background_value=2.0)
    theirs = PooledGame.from_scores(np.log(w), v, s_background=math.log(0.7), v_background=2.0)
    np.testing.assert_array_equal(shapley(ours), shapley(theirs))
    assert float(ours.value([True, False, True])) == pytest.approx((0.5 + 12 + 1.4) / 4.2)
    for weights in ([1.0, 0.0], [1.0, np.nan], [1.0, -1.0], [[1.0, 1.0]]):
        with pytest.raises(ValueError, match="weights"):
            PooledGame.from_weights(weights, [1.0, 2.0])
    with pytest.raises(ValueError, match="background_weight"):
        PooledGame.from_weights([1.0], [1.0], background_weight=-1.0)


def test_squared_error_where_the_prior_has_nearly_all_of_the_weight():
    """The prediction hardly moves while labels are far apart: a narrow range beside wide values."""
    X, y, _, _ = data()
    predictor = KernelPredictor(bandwidth=0.8, prior=0.2).fit(X, y)
    query = np.full((1, D), 4.0)
    w = weights_by_hand(predictor, query[0], X)
    assert w.sum() < 1e-4
    f = probability(w, (y == "a").astype(float), 0.2, 1 / 3)
    values = predictor.data_values(query, ["a"], "squared_error")
    assert np.abs(values - enumerated(lambda mask: -((f(mask) - 1) ** 2))).max() <= 1e-8
