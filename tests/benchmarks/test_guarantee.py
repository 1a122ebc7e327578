"""The attack by types and its search: they see errors that are planted, and a search repeats
itself.
"""

import numpy as np
import pytest

pytest.importorskip("flint")

from benchmarks import guarantee, guarantee_search
from benchmarks.guarantee_functions import answer
from benchmarks.guarantee_type_games import random_recipe


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


@pytest.mark.parametrize("what", ["lime", "shapley", "owen"])
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
        guarantee.main(["--search", "--seconds", "1"])


def test_a_crash_is_reported_with_its_game(monkeypatch):
    def crash(*arguments):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(guarantee_search, "answer", crash)
    found = guarantee_search.climb(np.random.default_rng(0), "lime", 2)
    assert len(found.defects) == 2
    assert "planted" in found.defects[0]
    assert "Recipe(what='lime'" in found.defects[0]


def test_the_text_of_a_recipe_asks_the_same_question():
    recipe = random_recipe(np.random.default_rng(8), "lime, odd settings", 40)
    names = {"Recipe": type(recipe), "array": np.array, "inf": np.inf}
    again = eval(guarantee_search.call_of(recipe), names)
    what, trial, settings = recipe.question()
    what_again, trial_again, settings_again = again.question()
    assert (what_again, settings_again, trial_again.tol) == (what, settings, trial.tol)
    for name in ("s", "v", "s_absent", "v_absent", "s_background", "v_background"):
        np.testing.assert_array_equal(getattr(trial_again.game, name), getattr(trial.game, name))


@pytest.mark.parametrize("attack", list(guarantee.ATTACKS))
def test_a_part_of_an_attack_repeats_itself(attack):
    first, again = (guarantee.run_part(5, 4, attack=attack) for _ in range(2))
    assert first == again
    assert all(finding.verdict in guarantee.GOOD for finding in first)
