"""Reasons: what they claim is true of all coalitions, and what they call minimal is, by
enumeration.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import PooledGame, contrastive_reason, sufficient_reason
from tests.oracles import checks
from tests.problems import games, random_game
from tests.reasons.brute_reasons import Truth

GAMES = {name: game for name, game in games().items() if game.d <= 11}
KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]


def no_enumeration(patch):
    patch.setattr("attn_closed_form.reasons.search.ENUMERATED", 0)


@pytest.fixture(params=[True, False], ids=["enumerated", "searched"])
def enumerated(request, monkeypatch):
    """Small games are enumerated inside; without that they go the way of the large ones."""
    if not request.param:
        no_enumeration(monkeypatch)
    return request.param


def check_sufficient(game, threshold, reason):
    truth = Truth(game, threshold)
    smallest = truth.smallest_sufficient()
    assert truth.suffices[truth.number(reason.players)]
    assert truth.sign * truth.worst(reason.players) >= truth.sign * reason.worst
    assert truth.sign * (reason.worst - threshold) > 0
    assert reason.lower_bound <= smallest <= reason.size
    if reason.minimal:
        assert reason.size == smallest


def check_contrastive(game, threshold, reason):
    truth = Truth(game, threshold)
    smallest = truth.smallest_flip()
    assert reason.lower_bound <= smallest <= reason.size
    if reason.players is not None:
        assert truth.flips[truth.number(reason.players)]
        assert reason.after == pytest.approx(
            float(truth.f[~truth.number(reason.players)]), abs=1e-9
        )
    if reason.minimal:
        assert reason.size == smallest


@checks(sufficient_reason, contrastive_reason, by="enumeration")
@pytest.mark.parametrize("name", list(GAMES))
@pytest.mark.subnormals  # a certified prediction may be the smallest number above the threshold
def test_table_of_games(name, enumerated):
    game = GAMES[name]
    for threshold in (0.0, 0.5):
        keep = sufficient_reason(game, threshold)
        flip = contrastive_reason(game, threshold)
        check_sufficient(game, threshold, keep)
        check_contrastive(game, threshold, flip)
        if enumerated or game.H == 1:
            assert keep.minimal and flip.minimal


@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 8),
    H=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
)
def test_random_games(seed, d, H, kind):
    rng = np.random.default_rng(seed)
    spread = float(rng.choice([0.5, 3.0, 40.0]))
    game = random_game(seed, d, H, kind, spread, bias=rng.normal(), empty_value=rng.normal())
    threshold = float(rng.normal(scale=0.5))
    for enumerated in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if not enumerated:
                no_enumeration(patch)
            keep = sufficient_reason(game, threshold)
            flip = contrastive_reason(game, threshold)
        check_sufficient(game, threshold, keep)
        check_contrastive(game, threshold, flip)
        if enumerated or H == 1:
            assert keep.minimal and flip.minimal


@pytest.mark.parametrize("change", ["too few", "too bold", "too proud"])
def test_the_checks_can_fail(change):
    game = random_game(2, 7, 1, "replaced+background", 3.0)
    reason = sufficient_reason(game)
    assert reason.size >= 1
    fields = dict(reason.__dict__)
    if change == "too few":
        fields["players"] = reason.players[1:]
    elif change == "too bold":
        fields["worst"] = reason.prediction
    else:
        fields["players"] = tuple(range(7))
        fields["lower_bound"] = 7
    with pytest.raises(AssertionError):
        check_sufficient(game, 0.0, type(reason)(**fields))


def test_large_game_holds_on_samples():
    game = random_game(0, 400, 1, "deleted+background", 4.0, offset=0.3)
    reason = sufficient_reason(game)
    flip = contrastive_reason(game)
    assert reason.minimal and flip.minimal
    masks = np.random.default_rng(0).random((400, 400)) < 0.5
    masks[:, list(reason.players)] = True
    assert (np.sign(reason.prediction) * game.value(masks) > 0).all()
    present = np.ones(400, dtype=bool)
    present[list(flip.players)] = False
    assert np.sign(flip.prediction) * game.value(present) < 0


def test_nobody_is_needed_and_nothing_flips():
    game = PooledGame.from_scores([0.0, 1.0], [2.0, 3.0], s_background=0.0, v_background=1.0)
    reason = sufficient_reason(game)
    flip = contrastive_reason(game)
    assert reason.players == () and reason.minimal and reason.worst == pytest.approx(1.0)
    assert flip.players is None and flip.minimal and flip.size == flip.lower_bound == 3


def test_the_empty_coalition_counts():
    """Without background nobody is a coalition too, with a value of its own."""
    game = PooledGame.from_scores([0.0, 1.0], [2.0, 3.0], empty_value=-1.0)
    assert sufficient_reason(game).size == 1
    flip = contrastive_reason(game)
    assert flip.players == (0, 1) and flip.after == -1.0


def test_json():
    game = random_game(1, 6, 2, "deleted", 2.0)
    for reason in (
        sufficient_reason(game),
        contrastive_reason(game),
        contrastive_reason(game, -50.0),
    ):
        assert json.loads(json.dumps(reason.to_dict(), allow_nan=False))["minimal"] in (True, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": np.nan}, "^threshold: "),
        ({"threshold": 2.0}, "^threshold: "),
    ],
)
def test_errors(arguments, message):
    game = PooledGame.from_scores([0.0, 0.0], [2.0, 2.0])
    with pytest.raises(ValueError, match=message):
        sufficient_reason(game, **arguments)


def test_of_equally_small_sets_the_one_furthest_on_its_side_is_named():
    game = PooledGame.from_scores(
        [[0.0, 0.0, 0.0]] * 2, [[0.1, 3.0, 0.5]] * 2, s_background=-5.0, v_background=0.1
    )
    reason = sufficient_reason(game)
    assert reason.size == 0 or reason.players == (1,)
    flipped = PooledGame.from_scores(
        [[0.0, 0.0, 0.0]] * 2, [[0.1, 3.0, 0.5]] * 2, s_background=-5.0, v_background=-0.1
    )
    assert sufficient_reason(flipped).players == (1,)
