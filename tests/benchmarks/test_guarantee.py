"""The attack by types and its search: they see errors that are planted, and a search repeats
itself.
"""

import json

import numpy as np
import pytest

pytest.importorskip("flint")

from benchmarks import guarantee, guarantee_search
from benchmarks.guarantee_functions import answer
from benchmarks.guarantee_type_games import random_recipe
from benchmarks.guarantee_types import ACTIVATIONS, Layer, question_of, values_by_counts


@pytest.fixture(autouse=True)
def short_games(monkeypatch):
    monkeypatch.setattr(guarantee_search, "MOST_PLAYERS", 50)
    monkeypatch.setattr(guarantee_search, "DEEP", 0)


def test_a_climb_repeats_itself_and_does_not_fall():
    first, again = (
        guarantee_search.climb(np.random.default_rng(3), "shapley", 18) for _ in range(2)
    )
    assert first.ratio == again.ratio
    assert not first.defects
    starts = guarantee_search.climb(np.random.default_rng(3), "shapley", guarantee_search.STARTS)
    assert first.ratio >= starts.ratio > 0


@pytest.mark.parametrize("what", ["lime", "shapley", "owen", "shapley, hidden layer"])
def test_an_error_of_twice_the_tolerance_is_found(what, monkeypatch):
    """It is planted in some games only: those whose first number has an odd last bit."""

    def wrong(what, game, tol, settings):
        ours = answer(what, game, tol, settings)
        numbers = np.ascontiguousarray(ours)
        if numbers.view(np.int64)[0] % 2:
            ours = ours + 2 * tol * np.abs(game.value(np.ones((1, game.d), dtype=bool))).max()
        return ours

    monkeypatch.setattr(guarantee_search, "answer", wrong)
    found = guarantee_search.climb(np.random.default_rng(0), what, 14)
    assert found.ratio > 0.5
    assert guarantee_search.first_outside(what, 0, seconds=60).ratio > 1


def test_a_search_without_errors_ends_in_time(capsys):
    options = ["--search", "--only", "shapley", "--seconds", "0.2"]
    assert guarantee.main(options) == 0
    assert "nothing outside" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        guarantee.main(["--types", "--seconds", "1"])


def test_a_crash_is_reported_with_its_game(monkeypatch):
    def crash(*arguments):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(guarantee_search, "answer", crash)
    found = guarantee_search.climb(np.random.default_rng(0), "lime", 2)
    assert len(found.defects) == 2
    assert "planted" in found.defects[0]
    assert "Recipe(what='lime'" in found.defects[0]


@pytest.mark.parametrize("what", ["lime, odd settings", "shapley, hidden layer"])
def test_the_text_of_a_recipe_asks_the_same_question(what):
    recipe = random_recipe(np.random.default_rng(8), what, 40)
    names = {"Recipe": type(recipe), "Layer": Layer, "array": np.array, "inf": np.inf}
    again = eval(guarantee_search.call_of(recipe), names)
    assert again.layer == recipe.layer
    what, trial, settings = recipe.question()
    what_again, trial_again, settings_again = again.question()
    assert (what_again, settings_again, trial_again.tol) == (what, settings, trial.tol)
    for name in ("s", "v", "s_absent", "v_absent", "s_background", "v_background"):
        np.testing.assert_array_equal(getattr(trial_again.game, name), getattr(trial.game, name))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_long_doubles_and_balls_agree_behind_a_hidden_layer(activation):
    recipe = random_recipe(np.random.default_rng(2), "banzhaf, hidden layer", 40)
    layer = recipe.layer._replace(activation=activation)
    what, trial, _ = recipe._replace(layer=layer).question()
    types = question_of(what, trial.game, ()).types
    plain = values_by_counts(trial.game, types, layer)
    balls = values_by_counts(trial.game, types, layer, 200)
    masks = np.zeros((2, trial.game.s.shape[1]), dtype=bool)
    masks[1] = True
    ours = trial.asked.value(masks)
    for k, value in ((0, ours[0]), (-1, ours[1])):
        assert value == pytest.approx(float(balls.f.reshape(-1)[k]), rel=1e-12)
    if activation != "gelu":  # long doubles have no error function
        errors = [abs(float(y - float(x))) for x, y in zip(plain.f.flat, balls.f.flat, strict=True)]
        assert max(errors) <= plain.error + 2.0**-53 * plain.largest


def test_an_interrupted_search_goes_on(tmp_path):
    keep = tmp_path / "climbs.jsonl"
    tasks = ["banzhaf", "shapley"]
    assert guarantee_search.kept_climbs(keep, tasks) == []
    rows = []
    for k, what in enumerate(tasks):
        rows.append(guarantee_search.climb_row(k, what, guarantee_search.climb_part(0, k, what, 3)))
    keep.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert guarantee_search.kept_climbs(keep, tasks) == rows
    with pytest.raises(ValueError, match="another one"):
        guarantee_search.kept_climbs(keep, tasks[::-1])
    worst = {**rows[0], "ratio": 2.0, "defects": ["a crash"], "game": "this one"}
    summary = guarantee_search.climbs_summary([rows[0], worst])
    assert (summary["games"], summary["defects"]) == (6, 1)
    assert (summary["largest ratio"], summary["game"]) == (2.0, "this one")


@pytest.mark.parametrize("attack", list(guarantee.ATTACKS))
def test_a_part_of_an_attack_repeats_itself(attack):
    first, again = (guarantee.run_part(5, 4, attack=attack) for _ in range(2))
    assert first == again
    assert all(finding.verdict in guarantee.GOOD for finding in first)
