"""Scores of units against the formula written out, and predictions that take sequences in every
class.
"""

from pathlib import Path

import numpy as np
import pytest

from attn_closed_form import Bag, BagClassifier, MeanPooledText, ScoreTable, load_demo_model
from attn_closed_form.app.models.bag_network import Attention, BagNetwork
from attn_closed_form.game.scores import PooledScores
from tests.tolerances import assert_algebraic

H = 2
R = 5
C = 3
N = 7
HEAD = np.array([1, 0, 1, 0, 1])
OUTPUT = np.array([0, 1, 2, 2, 1])


def scores(absent=True, background=True):
    rng = np.random.default_rng(0)
    arrays = {
        "s": rng.normal(size=(H, N)),
        "v": rng.normal(size=(R, N)),
        "bias": rng.normal(size=C),
    }
    both = {"s_absent": rng.normal(size=(H, N)), "v_absent": rng.normal(size=(R, N))}
    always = {"s_background": rng.normal(size=H), "v_background": rng.normal(size=R)}
    return PooledScores(
        **arrays,
        head=HEAD,
        output=OUTPUT,
        **(both if absent else {}),
        **(always if background else {}),
    )


def written_out(given, present, deleted):
    """(C,) logits of a coalition of units, row by row."""
    logits = given.bias.copy()
    for r in range(R):
        terms = [(given.s_background[HEAD[r]], given.v_background[r])]
        for i in range(N):
            if present[i]:
                terms.append((given.s[HEAD[r], i], given.v[r, i]))
            elif not deleted and given.s_absent is not None:
                terms.append((given.s_absent[HEAD[r], i], given.v_absent[r, i]))
        mass = np.exp([s for s, _ in terms])
        logits[OUTPUT[r]] += mass @ [v for _, v in terms] / mass.sum()
    return logits


@pytest.mark.parametrize(
    "coefficients", [(1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 1.0), (0.5, 2.0, -1.0)]
)
@pytest.mark.parametrize(("absent", "deleted"), [(True, False), (True, True), (False, False)])
def test_games_of_groups_are_the_formula(coefficients, absent, deleted):
    given = scores(absent)
    groups = np.array([0, 1, 0, 2, 3, 1, 2])
    game = given.game(coefficients, groups, list("abcd"), deleted)
    assert game.labels == tuple("abcd")
    for present in np.random.default_rng(1).random((20, 4)) < 0.5:
        expected = np.dot(coefficients, written_out(given, present[groups], deleted or not absent))
        assert_algebraic(game.value(present), expected, scale=4.0)


def test_logits_are_the_game_with_everyone_and_only_needed_heads_enter():
    given = scores()
    assert_algebraic(given.logits(), written_out(given, np.ones(N, dtype=bool), False), scale=4.0)
    assert given.game([1.0, 0.0, 0.0]).H == 1 and given.attention([1.0, 0.0, 0.0]).shape == (1, N)
    assert np.array_equal(given.attention([1.0, 0.0, 0.0])[0], given.attention()[1])


@pytest.mark.filterwarnings("error")
def test_a_background_heavier_than_all_units_does_not_overflow():
    heavy = PooledScores(
        s=np.zeros((1, 2)),
        v=np.array([[1.0, 2.0]]),
        bias=np.zeros(1),
        s_background=np.array([800.0]),
        v_background=np.array([5.0]),
    )
    assert heavy.logits().tolist() == [5.0]
    units, background = heavy.shares()
    assert background.tolist() == [1.0] and units.max() == 0.0


def test_without_any_mass_the_value_is_the_bias():
    given = scores(absent=False, background=False)
    assert given.game([0.0, 1.0, 0.0]).value(np.zeros(N, dtype=bool)) == given.bias[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"v": np.zeros((R, N + 1))}, "v: "),
        ({"head": np.array([0, 1, 2, 0, 0])}, "head: "),
        ({"output": np.array([0, 1, -1, 0, 0])}, "output: "),
        ({"v_absent": None}, "s_absent, v_absent: "),
    ],
)
def test_shapes_are_checked(change, message):
    given = scores()
    with pytest.raises(ValueError, match=message):
        PooledScores(**{**given.__dict__, **change})


WORDS = MeanPooledText(
    np.eye(2), np.array([[1.0, -1.0]]), np.zeros(1), lambda text: [], ("no", "yes")
)
BAGS = BagClassifier(BagNetwork(Attention(np.ones((1, 2))), np.eye(2), np.zeros(2)))
SINGLE = [
    (load_demo_model(), "a fine film", "text"),
    (WORDS, "a fine film", "text"),
    (BAGS, np.ones((4, 2)), "bag"),
    (BAGS, Bag(np.ones((4, 2))), "bag"),
    (BAGS, Path("slide.h5"), "bag"),
    (ScoreTable(("a", "b")), {"s": [0.0], "v": [[1.0], [2.0]]}, "table of scores"),
]


@pytest.mark.parametrize(("model", "raw", "what"), SINGLE)
@pytest.mark.parametrize("name", ["predict", "predict_proba", "predict_logits"])
def test_a_single_input_is_an_error_that_says_what_to_do(name, model, raw, what):
    with pytest.raises(TypeError, match=f"got one {what}; put it in a list"):
        getattr(model, name)(raw)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (load_demo_model(), ["a fine film", "a dull film"]),
        (BAGS, [np.ones((4, 2)), np.zeros((1, 2)), Bag(np.eye(2))]),
        (ScoreTable(("a", "b")), [{"s": [0.0, 1.0], "v": [[1.0, 3.0], [2.0, 0.0]]}]),
    ],
)
def test_predictions_have_one_row_per_input(model, inputs):
    logits = model.predict_logits(inputs)
    chances = model.predict_proba(inputs)
    assert len(logits) == len(chances) == len(model.predict(inputs)) == len(inputs)
    assert chances.shape == (len(inputs), len(model.outputs))
    for raw, row, name in zip(inputs, logits, model.predict(inputs), strict=True):
        assert_algebraic(model.logits(model.read(raw)), row, scale=4.0)
        assert model.explain(raw, "shapley").output == name
