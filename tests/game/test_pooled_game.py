"""Values of the pooled game against predictions; what is computed from games has its own tests."""

import copy
import itertools
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import (
    PooledGame,
    ToleranceError,
    TruncationWarning,
    banzhaf,
    expected_value_by_size,
    interactions,
    leave_one_out,
    lime_limit,
    predict,
    semivalue,
    shapley,
)
from attn_closed_form.attention import pooled_game
from attn_closed_form.attention.predict import scores
from attn_closed_form.game import merge_tokens
from attn_closed_form.game import pooled_game as game
from attn_closed_form.game.owen import owen
from attn_closed_form.game.sampled import shapley_sample
from tests import enumeration
from tests.comparisons import magnitudes
from tests.oracles import checks
from tests.strategies import PRIMES, make_weights, problems
from tests.tolerances import assert_algebraic

MODEL = make_weights(PRIMES._replace(C=3), seed=11)


def all_masks(d):
    return np.array(list(itertools.product([False, True], repeat=d)))


def condition(model, players):
    """How much `value` amplifies rounding: the softmax, and the digits that leaving the log domain
    may cost.
    """
    top = np.maximum(np.maximum(players.s, players.s_absent).max(axis=1), players.s_background)
    a, b, c0 = (np.exp(s.T - top) for s in (players.s, players.s_absent, players.s_background))
    least, most = (c0 + choose(a, b).sum(axis=0) for choose in (np.minimum, np.maximum))
    kept = (least / most).min()
    return (1 + magnitudes(model).score) * (1 / kept if kept >= 1e-6 else 1.0)


@given(problems(min_size=1), st.data())
def test_absent_positions_are_unk(problem, data):
    model, tokens, output = problem
    masks = np.array(
        data.draw(st.lists(st.tuples(*[st.booleans()] * len(tokens)), min_size=1, max_size=5))
    )
    players = pooled_game(model, tokens, absent="unk", output=output)
    expected = [predict(model, np.where(mask, tokens, model.unk))[output] for mask in masks]
    assert_algebraic(
        players.value(masks), expected, magnitudes(model).value, condition(model, players)
    )


@given(problems(min_size=1))
def test_absent_words_are_unk_at_all_their_positions(problem):
    model, tokens, output = problem
    words = list(dict.fromkeys(tokens))
    players = pooled_game(model, tokens, players="words", absent="unk", output=output)
    assert players.labels == tuple(map(str, words))
    masks = ~np.eye(len(words), dtype=bool)
    expected = [
        predict(model, [model.unk if token == gone else token for token in tokens])[output]
        for gone in words
    ]
    assert_algebraic(
        players.value(masks), expected, magnitudes(model).value, condition(model, players)
    )


def deleted_value(model, tokens, mask, output):
    """Softmax over the positions that are left, the others gone, head by head."""
    _, s, u = scores(model, tokens, output)
    kept = np.concatenate([[True], mask, np.ones(model.T_max - 1 - len(tokens), dtype=bool)])
    g = np.exp(s[:, kept] - s[:, kept].max(axis=1, keepdims=True))
    return ((g * u[:, kept]).sum(axis=1) / g.sum(axis=1)).mean() + model.b_l[output]


@pytest.mark.parametrize("length", [1, 4, 12])
@pytest.mark.parametrize("output", range(3))
def test_deleted_positions_leave_the_softmax(length, output):
    tokens = (np.arange(length) * 5 + 3) % MODEL.D
    masks = all_masks(length)[:: max(1, 2**length // 64)]
    players = pooled_game(MODEL, tokens, absent="deleted", output=output)
    expected = [deleted_value(MODEL, tokens, mask, output) for mask in masks]
    assert_algebraic(
        players.value(masks), expected, magnitudes(MODEL).value, condition(MODEL, players)
    )


@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_the_two_ways_to_compute_a_value_agree(absent):
    players = pooled_game(MODEL, [3, 5, 8, 5], absent=absent)
    assert players.linear is not None
    masks = all_masks(4)
    plain = players.value(masks)
    in_logs = pickle.loads(pickle.dumps(players))
    in_logs.__dict__["linear"] = None
    assert_algebraic(
        in_logs.value(masks), plain, magnitudes(MODEL).value, condition(MODEL, players)
    )


def test_peaked_games_stay_in_the_log_domain():
    players = PooledGame.from_scores([1e4, 0.0, -1e4], [1.0, 2.0, 3.0])
    assert players.linear is None
    assert np.array_equal(players.value(np.eye(3, dtype=bool)), [1.0, 2.0, 3.0])
    assert players.value([False, True, True]) == 2.0


def test_values_of_blocks(monkeypatch):
    players = pooled_game(MODEL, [3, 5, 8, 5])
    masks = all_masks(4).reshape(2, 8, 4)
    expected = players.value(masks)
    assert expected.shape == (2, 8)
    monkeypatch.setattr(game, "BLOCK_ELEMENTS", 12)
    assert_algebraic(players.value(masks), expected)
    assert np.array_equal(players.value(masks.astype(int)), players.value(masks))


@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_merged_players_act_together(absent):
    players = pooled_game(MODEL, [3, 5, 8, 5, 2], absent=absent, output=1)
    groups = [[4, 0], [2], [1, 3]]
    merged = players.merge(groups)
    assert (merged.d, merged.labels) == (3, ("2", "8", "5"))
    for mask in all_masks(3):
        apart = np.zeros(5, dtype=bool)
        for group, present in zip(groups, mask, strict=True):
            apart[group] = present
        assert_algebraic(
            merged.value(mask),
            players.value(apart),
            magnitudes(MODEL).value,
            condition(MODEL, players),
        )
    assert players.merge(groups, labels=["a", "b", "c"]).labels == ("a", "b", "c")


@pytest.mark.parametrize("groups", [[[0], [1]], [[0, 1], [1, 2]], [[0, 1, 2], []], [[0, 1, 3]]])
def test_groups_that_are_no_partition(groups):
    with pytest.raises(ValueError, match=r"^groups: "):
        pooled_game(MODEL, [3, 5, 8]).merge(groups)


def test_a_merged_mean_of_equal_values_is_that_value():
    """Rounding makes a third of these means another number, and a constant model would seem to
    vary.
    """
    for seed in range(100):
        rng = np.random.default_rng(seed)
        s = np.round(rng.normal(size=int(rng.integers(2, 8))), 1)
        value = round(float(rng.normal()), 1)
        assert merge_tokens(s, np.full(s.size, value))[1] == value


@pytest.mark.parametrize("heads", [1, 3])
def test_the_baseline_of_deleted_players_has_bias_and_background(heads):
    rng = np.random.default_rng(heads)
    s, v = rng.normal(size=(2, heads, 4))
    game = PooledGame.from_scores(s, v, s_background=0.0, v_background=v[:, 0], bias=2.5)
    assert game.baseline == pytest.approx(float(enumeration.values(game)[0]), rel=1e-15)
    assert game.baseline == pytest.approx(2.5 + v[:, 0].sum(), rel=1e-15)


@checks(merge_tokens, by="more digits")
def test_merged_tokens_in_exact_fractions():
    """Whole masses and values: the mass of all, and the mean of the values."""
    rng = np.random.default_rng(4)
    g = rng.integers(1, 50, size=(3, 5))
    v = rng.integers(-20, 20, size=(3, 5))
    log_mass, mean = merge_tokens(np.log(g), v.astype(float))
    for h in range(3):
        total = Fraction(int(g[h].sum()))
        exact = Fraction(int((g[h] * v[h]).sum())) / total
        assert np.exp(log_mass[h]) == pytest.approx(float(total), rel=1e-14)
        assert mean[h] == pytest.approx(float(exact), rel=1e-13, abs=1e-14)


@checks(merge_tokens, by="enumeration")
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_merged_player_has_the_values_of_its_tokens_together(n):
    """Of all coalitions, those in which the tokens are present together or absent together."""
    rng = np.random.default_rng(n)
    s, v = rng.normal(size=(2, 2, 3 + n))
    apart = PooledGame.from_scores(s, v, s_background=0.2, v_background=1.0)
    of_last = merge_tokens(s[:, 3:], v[:, 3:])
    merged_s, merged_v = (
        np.concatenate([each[:, :3], last[:, None]], axis=1)
        for each, last in zip((s, v), of_last, strict=True)
    )
    together = PooledGame.from_scores(merged_s, merged_v, s_background=0.2, v_background=1.0)
    masks = enumeration.coalitions(4)
    expected = enumeration.values(apart, np.c_[masks, np.repeat(masks[:, 3:], n - 1, axis=1)])
    found = enumeration.values(together, masks)
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1e-13)


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_merge_tokens_keeps_mass_and_mass_times_value(seed, n):
    rng = np.random.default_rng(seed)
    s, v = rng.normal(size=(2, 3, n))
    log_mass, mean = merge_tokens(s, v)
    assert_algebraic(np.exp(log_mass), np.exp(s).sum(axis=1))
    assert_algebraic(
        np.exp(log_mass) * mean, (np.exp(s) * v).sum(axis=1), scale=np.exp(s).sum() * 4
    )


def test_merge_tokens_without_mass_and_with_equal_values():
    s, v = merge_tokens(np.array([-np.inf, -np.inf]), np.array([1.0, 2.0]))
    assert np.isneginf(s) and v == 0.0
    assert merge_tokens(np.array([1e4, -1e4, 9999.0]), np.full(3, 0.1))[1] == 0.1


def test_the_empty_coalition():
    players = PooledGame.from_scores([0.0, 1.0], [1.0, -1.0], empty_value=7.0, bias=100.0)
    assert players.can_be_empty
    assert np.array_equal(players.value([[False, False], [True, False]]), [7.0, 101.0])
    assert not PooledGame.from_scores([0.0], [1.0], s_background=0.0, v_background=0.0).can_be_empty
    assert not pooled_game(MODEL, [3], absent="deleted").can_be_empty


def test_a_word_repeated_through_a_full_document():
    players = pooled_game(MODEL, [3] * 12, players="words")
    assert (players.d, players.H) == (1, MODEL.K)
    assert_algebraic(
        players.value([True]),
        predict(MODEL, [3] * 12)[0],
        magnitudes(MODEL).value,
        condition(MODEL, players),
    )


def test_long_documents_warn_once():
    with pytest.warns(TruncationWarning, match="the last 8 are dropped") as caught:
        assert pooled_game(MODEL, [3] * 20).d == 12
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": []}, "tokens: expected at least one token, got an empty document"),
        ({"tokens": [99]}, "tokens: expected ids in"),
        ({"players": "sentences"}, "players: expected 'positions' or 'words', got 'sentences'"),
        ({"absent": "gone"}, "absent: expected 'unk' or 'deleted', got 'gone'"),
        ({"output": 3}, r"output: expected an integer in 0\.\.2, got 3"),
    ],
)
def test_bad_arguments_of_pooled_game(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        pooled_game(MODEL, **{"tokens": [3, 5], **arguments})


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"s": [np.nan, 0.0]}, "s"),
        ({"s": [-np.inf, 0.0]}, "s"),
        ({"v": [np.inf, 0.0]}, "v"),
        ({"v": [1.0]}, "v"),
        ({"s": [], "v": []}, "s"),
        ({"s": 1.0}, "s"),
        ({"s_absent": [np.inf, 0.0]}, "s_absent"),
        ({"s_absent": [0.0, 0.0, 0.0]}, "s_absent"),
        ({"v_absent": 0.0}, "v_absent"),
        ({"v_background": 0.0}, "v_background"),
        ({"bias": np.nan}, "bias"),
        ({"labels": ["a"]}, "labels"),
    ],
)
def test_bad_scores(arguments, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        PooledGame.from_scores(**{"s": [0.0, 1.0], "v": [1.0, 2.0], **arguments})


def test_heads_must_agree_on_emptiness():
    with pytest.raises(ValueError, match=r"^s_absent, s_background: "):
        PooledGame.from_scores(np.zeros((2, 1)), np.zeros((2, 1)), s_background=[-np.inf, 0.0])


@pytest.mark.parametrize(
    "present", [[True], [[True, False, True]], True, [2, 0], ["a", "b"], [0.5, 1.0]]
)
def test_bad_masks(present):
    with pytest.raises(ValueError, match=r"^present: "):
        PooledGame.from_scores([0.0, 1.0], [1.0, 2.0]).value(present)


def copies(players):
    """A game, and what comes out of a pickle and of `copy`."""
    return players, pickle.loads(pickle.dumps(players)), copy.deepcopy(players)


@pytest.mark.parametrize("i", range(3))
def test_games_are_read_only(i):
    players = pooled_game(MODEL, [3, 5])
    expected = shapley(players)
    found = copies(players)[i]
    for name in ("s", "v", "s_absent", "v_absent", "s_background", "v_background"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(found, name)[...] = 0.0
    with pytest.raises(AttributeError):
        found.bias = 1.0
    assert np.array_equal(shapley(found), expected)


@pytest.mark.parametrize("i", range(3))
def test_linked_games_are_read_only(i):
    linked = PooledGame.from_scores([0.0, 1.0], [3.0, -1.0]).through("sigmoid")
    expected = shapley(linked)
    found = copies(linked)[i]
    with pytest.raises(ValueError, match="read-only"):
        found.game.s[...] = 0.0
    with pytest.raises(AttributeError):
        found.link = None
    assert np.array_equal(shapley(found), expected)


@pytest.mark.parametrize("name", ["v", "v_absent", "v_background", "bias", "empty_value"])
def test_values_that_would_leave_float64_are_refused(name):
    """Their differences would be infinite."""
    numbers = {
        "s": [0.0],
        "v": [1.0],
        "s_absent": [0.0],
        "v_absent": [1.0],
        "s_background": 0.0,
        "v_background": 0.0,
    }
    with pytest.raises(ValueError, match=f"^{name}: "):
        PooledGame.from_scores(
            **numbers | {name: -1.7e308 if name in ("bias", "empty_value") else [-1.7e308]}
        )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ma.masked_array([0.0, 1.0], mask=[False, True]), "expected numbers without a mask"),
        (np.ma.masked_array([0.0, 1.0]), "expected numbers without a mask"),
        (np.array([0.0, 1j]), "got dtype complex128"),
        (["0", "1"], "got dtype <U1"),
        ([True, False], "got dtype bool"),
        ([0.0, None], "got dtype object"),
        ([[0.0], [1.0, 2.0]], "got nested lists"),
    ],
)
def test_what_is_no_number_is_an_error(value, message):
    for name in ("s", "v", "s_absent", "v_absent"):
        scores = {
            "s": [0.0, 1.0],
            "v": [1.0, 2.0],
            "s_absent": [0.0, 0.0],
            "v_absent": [0.0, 0.0],
            name: value,
        }
        with pytest.raises(ValueError, match=rf"^{name}: .*{message}"):
            PooledGame.from_scores(**scores)
    with pytest.raises(ValueError, match=r"^bias: "):
        PooledGame.from_scores([0.0], [1.0], bias=True)


OVERFLOWING = {
    "values": lambda game: game.value([[True]]),
    "shapley": shapley,
    "banzhaf": banzhaf,
    "leave-one-out": leave_one_out,
    "interactions": interactions,
    "by size": expected_value_by_size,
    "owen": lambda game: owen(game, [0]),
    "semivalue": lambda game: semivalue(game, [1.0]),
    "lime": lime_limit,
    "sampled": lambda game: shapley_sample(game, 10, seed=0),
}


@pytest.mark.parametrize("function", OVERFLOWING)
@pytest.mark.parametrize(("value", "background"), [(1e305, 0.0), (-1e305, 0.0), (1e305, -1e305)])
def test_results_that_leave_float64_are_errors_and_never_inf(function, value, background):
    s = np.full((10_000, 1), 3.0)
    v = np.full((10_000, 1), value)
    game = PooledGame.from_scores(s, v, s_background=0.0, v_background=background)
    with pytest.raises(ToleranceError, match="overflows float64"):
        OVERFLOWING[function](game)
    half = PooledGame.from_scores(s[:300], v[:300], s_background=0.0, v_background=background)
    result = OVERFLOWING[function](half)
    assert np.isfinite(getattr(result, "coef", getattr(result, "values", result))).all()


def test_the_arrays_of_the_caller_stay_writable_and_apart():
    game = PooledGame.from_scores([0.0, 1.0], [1.0, 3.0], s_background=0.0, v_background=0.0)
    names = ("s", "v", "s_absent", "v_absent", "s_background", "v_background")
    arrays = {name: getattr(game, name).copy() for name in names}
    built = replace(game, **arrays)
    before = built.value([True, True])
    for array in arrays.values():
        array[...] = 7.0
    assert built.value([True, True]) == before and not any(
        getattr(built, name).flags.writeable for name in names
    )
    with pytest.raises(ValueError, match="read-only"):
        built.v[0, 0] = 1.0
