"""Faithfulness measures against brute force (masks), SciPy and pairwise counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attn_closed_form import PooledGame, Slalom, predict, shapley
from attn_closed_form._arrays import ranks, spearman
from attn_closed_form.attention import pooled_game, random_weights
from benchmarks.faithfulness import (
    aopc,
    class_probability,
    deletion_curve,
    insertion_curve,
    linear_surrogate,
    missing_probability,
    naive_bayes_scores,
    removal,
    slalom_surrogate,
    strict_fidelity,
)
from benchmarks.papers.correlations import auroc
from tests.tolerances import assert_algebraic

TOKENS = [5, 7, 5, 11, 13, 2, 3]

small = st.lists(st.integers(-3, 3), min_size=2, max_size=9)


def games():
    weights = random_weights(seed=3, score_scale=3.0)
    rng = np.random.default_rng(0)
    yield pooled_game(weights, TOKENS)
    yield pooled_game(weights, TOKENS, absent="deleted")
    yield PooledGame.from_scores(
        rng.normal(size=(3, 7)), rng.normal(size=(3, 7)), bias=0.5, empty_value=-2.0
    )
    # One player holds all the mass but for 1e-20 of it; and one beyond what plain numbers can hold.
    yield PooledGame.from_scores([46.0, 0, 0, 1, 0, 0, 0], rng.normal(size=7))
    yield PooledGame.from_scores([5000.0, 0, 0, 1, 0, 0, 0], rng.normal(size=7))


@pytest.mark.parametrize("number", range(5))
def test_curves_of_games_are_those_of_masks_one_by_one(number):
    game = list(games())[number]
    scores = np.array([0.3, -1.0, 0.3, 2.0, 0.0, -5.0, 1.0])
    order = sorted(range(7), key=lambda j: -scores[j])  # stable: ties from left to right
    present = np.ones(7, dtype=bool)
    down = [game.value(present)]
    up = [game.value(~present)]
    for k, j in enumerate(order):
        present[j] = False
        down.append(game.value(present))
        only = np.zeros(7, dtype=bool)
        only[order[: k + 1]] = True
        up.append(game.value(only))
    assert_algebraic(deletion_curve(game, scores), down)
    assert_algebraic(deletion_curve(game.value, scores), down)
    assert_algebraic(insertion_curve(game.value, scores), up)
    # Ties leave in one order in both curves of a game too.
    assert_algebraic(insertion_curve(game, scores), up)


@pytest.mark.parametrize("top", [310.0, 800.0, 1600.0, 1e4])
def test_curves_of_masses_beyond_the_range_of_float64(top):
    """Each player holds all of the attention until it leaves, also where e^-top is no number any
    more.
    """
    game = PooledGame.from_scores([0.0, -top, -2 * top], [1.0, 2.0, 3.0])
    assert deletion_curve(game, [2.0, 1.0, 0.0]).tolist() == [1.0, 2.0, 3.0, 0.0]


def test_curves_need_no_call_of_a_model(monkeypatch):
    game = next(games())
    monkeypatch.setattr(PooledGame, "value", lambda *_: pytest.fail("the model was asked"))
    assert (
        deletion_curve(game, np.arange(7.0)).shape
        == insertion_curve(game, np.arange(7.0)).shape
        == (8,)
    )


def test_removal_deletes_tokens_from_the_document():
    seen = []

    def f(documents):
        seen.extend(document.tolist() for document in documents)
        return np.zeros(len(documents))

    assert deletion_curve(removal(f, [4, 5, 6]), [0.0, 2.0, 1.0]).shape == (4,)
    assert seen == [[4, 5, 6], [4, 6], [4], []]


def test_aopc_by_hand():
    assert aopc([1.0, 0.6, 0.2]) == pytest.approx(0.6)
    assert aopc([0.0, 0.6, 1.0], full=1.0) == pytest.approx(0.2)
    curve = np.linspace(1, 0, 101)
    assert aopc(curve, at=(0.01, 0.05, 0.1, 0.2, 0.5)) == pytest.approx(0.172)
    assert aopc([1.0, 0.4, 0.0], at=(0.0,)) == pytest.approx(0.6)  # at least one token
    # The nearest number of tokens: 2.8 of 14 are 3, not 2; 0.7 are 1, 7.0 are 7.
    curve = np.arange(15.0)
    assert [-aopc(curve, at=(share,)) for share in (0.05, 0.2, 0.5)] == [1.0, 3.0, 7.0]


def test_the_best_order_has_the_largest_area():
    game = next(games())
    best = aopc(deletion_curve(game, shapley(game)))
    assert best > aopc(deletion_curve(game, -shapley(game)))


def test_class_probability():
    z = np.array([-800.0, -2.0, 0.0, 3.0, 800.0])
    with np.errstate(over="ignore"):
        assert_algebraic(class_probability(z, True), 1 / (1 + np.exp(-z)))
    assert_algebraic(class_probability(z, True) + class_probability(z, False), np.ones(5))


def test_strict_fidelity_is_the_mean_over_all_sets_of_one():
    game = next(games())
    w = np.linspace(-1, 1, 7)
    got = strict_fidelity(game, 7, [linear_surrogate(w)], removals=(1, 7), samples=4000, seed=1)[0]
    alone = ~np.eye(7, dtype=bool)
    true = game.value(alone) - game.value(np.ones(7, dtype=bool))
    squares = (-w - true) ** 2
    assert abs(got[0] - squares.mean()) < 5 * squares.std() / np.sqrt(4000)
    empty = game.value(np.zeros(7, dtype=bool)) - game.value(np.ones(7, dtype=bool))
    assert_algebraic(got[1], (-w.sum() - empty) ** 2)


def test_strict_fidelity_of_the_truth_is_zero_and_not_of_another():
    slalom = Slalom(ids=[2, 3, 5, 7], s=[0.0, 1.0, -1.0, 2.0], v=[1.0, -1.0, 0.5, 2.0])
    document = [2, 3, 5, 7, 2, 3]
    value = removal(lambda many: slalom.predict_many(many), document)
    other = Slalom(slalom.ids, slalom.s[::-1], slalom.v)
    errors = strict_fidelity(
        value,
        6,
        [slalom_surrogate(slalom, document), slalom_surrogate(other, document)],
        removals=(1, 2, 5),
    )
    assert errors.shape == (2, 3)
    assert errors[0].max() < 1e-28
    assert errors[1].min() > 1e-4


def test_strict_fidelity_does_not_see_a_constant():
    game = next(games())
    one, two = strict_fidelity(
        game, 7, [game.value, lambda masks: game.value(masks) + 3.0], removals=(2,)
    )
    assert max(one.max(), two.max()) < 1e-28


@given(small, st.randoms(use_true_random=False))
def test_spearman_and_ranks_are_scipys(x, random):
    y = [random.randint(-3, 3) for _ in x]
    assert ranks(x).tolist() == stats.rankdata(x).tolist()
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    else:
        assert np.isnan(spearman(x, y))


@given(small, st.randoms(use_true_random=False))
def test_auroc_counts_pairs(x, random):
    chosen = [random.random() < 0.5 for _ in x]
    chosen[0] = True
    chosen[1] = False
    yes = [a for a, c in zip(x, chosen, strict=True) if c]
    no = [a for a, c in zip(x, chosen, strict=True) if not c]
    expected = np.mean([(a > b) + (a == b) / 2 for a in yes for b in no])
    assert auroc(chosen, x) == pytest.approx(expected, abs=1e-12)


def test_auroc_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    chosen = rng.random(60) < 0.2
    scores = rng.integers(6, size=60)
    assert auroc(chosen, scores) == pytest.approx(metrics.roc_auc_score(chosen, scores), abs=1e-12)


def test_naive_bayes_scores_count_occurrences():
    documents = [[0, 1, 1], [1], [2, 2, 2, 0], [3]]
    labels = [1, 0, 0, 1]
    got = naive_bayes_scores(documents, labels, D=5, alpha=0.5)
    expected = [np.log(1.5 / 1.5), np.log(2.5 / 1.5), np.log(0.5 / 3.5), np.log(1.5 / 0.5), 0.0]
    assert_algebraic(got, expected)


def test_a_black_box_and_a_game_agree_where_positions_do_not_matter():
    weights = random_weights(seed=1)
    weights = type(weights)(
        weights.W_e,
        np.zeros_like(weights.W_p),
        weights.W_q,
        weights.W_k,
        weights.W_v,
        weights.W_l,
        cls=0,
        unk=1,
    )
    value = removal(lambda many: [predict(weights, d)[0] for d in many], TOKENS)
    scores = np.arange(7.0)
    assert_algebraic(
        deletion_curve(value, scores),
        deletion_curve(pooled_game(weights, TOKENS), scores),
        condition=4,
    )


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda g: deletion_curve(g, [1.0, 2.0]), "scores"),
        (lambda g: deletion_curve(g, [np.nan] * 7), "scores"),
        (lambda g: aopc([1.0]), "curve"),
        (lambda g: aopc([1.0, 0.0], at=[1.5]), "at"),
        (lambda g: strict_fidelity(g, 7, [], removals=(8,)), "removals"),
        (lambda g: auroc([True, True], [1.0, 2.0]), "chosen"),
        (lambda g: auroc([True], [1.0, 2.0]), "chosen"),
        (lambda g: spearman([1.0, 2.0], [1.0]), "y"),
        (lambda g: naive_bayes_scores([[0]], [2], 3), "labels"),
        (lambda g: naive_bayes_scores([[5]], [1], 3), "documents"),
        (lambda g: naive_bayes_scores([[1]], [1], 3, alpha=0.0), "alpha"),
    ],
)
def test_errors_name_the_argument(call, word):
    with pytest.raises(ValueError, match=f"^{word}:"):
        call(next(games()))


def test_the_authors_measure_is_not_the_aopc():
    """1 - mean of every fifth value: always in 0..1, and without f(document)."""
    curve = np.array([0.5, 0.4, 0.6, 0.7, 0.8, 0.9, 0.5, 0.6, 0.7, 0.8, 0.95])
    assert missing_probability(curve) == pytest.approx(1 - (0.9 + 0.95) / 2)
    assert missing_probability(curve, step=2) == pytest.approx(
        1 - (0.6 + 0.8 + 0.5 + 0.7 + 0.95) / 5
    )
    # A curve above the document's own value has a negative AOPC, and never a negative one of this.
    high = np.array([0.2, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5])
    assert aopc(high, full=0.5) < 0 < missing_probability(high)
    with pytest.raises(ValueError, match="kept: expected shape"):
        missing_probability([0.1, 0.2, 0.3])


@pytest.mark.parametrize("label", [0, 1])
def test_both_measures_of_one_explanation(label):
    """The authors' order and class are those of the label, ours those of the prediction."""
    pytest.importorskip("jax")
    from benchmarks.papers.reviews import removal_scores
    from benchmarks.papers.text_models import Subject

    rng = np.random.default_rng(0)
    slalom = Slalom(np.arange(8), rng.normal(size=8), np.linspace(-1, 2, 8))
    tokens = np.arange(8)

    def f(documents):
        return np.array([slalom.predict(d) if len(d) else 0.0 for d in documents])

    subject = Subject("SLALOM", None, f, lambda ids: removal(f, ids), {})
    found = removal_scores(subject, tokens, slalom.v, label)
    positive = bool(f([tokens])[0] > 0)
    for name, towards in (("", positive), (", authors' measure", label > 0)):
        scores = slalom.v if towards else -slalom.v
        down = class_probability(deletion_curve(removal(f, tokens), scores), towards)
        up = class_probability(insertion_curve(removal(f, tokens), scores), towards)
        if name:
            expected = (missing_probability(down[::-1]), missing_probability(up))
            assert found[f"deletion{name}"] == pytest.approx(1 - down[3])
        else:
            expected = (aopc(down), aopc(up, full=up[-1]))
        assert (found[f"deletion{name}"], found[f"insertion{name}"]) == pytest.approx(expected)
