"""Shapley values, Banzhaf values, interactions: enumeration, the axioms, and the peers' own exact
computers.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import (
    PooledGame,
    ToleranceError,
    banzhaf,
    interactions,
    leave_one_out,
    shapley,
)
from attn_closed_form._legendre import legendre_rule
from attn_closed_form.game.engine import laws
from attn_closed_form.game.engine.budget import guaranteed_error
from attn_closed_form.game.engine.evaluate import FIRST, evaluate
from attn_closed_form.game.engine.laws import Batch, Density
from tests import enumeration
from tests.oracles import checks
from tests.problems import games, random_game

GAMES = games()
KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]
# "Algebraically equal": no quadrature is involved.
ROUNDING = 1e-14


@pytest.fixture(params=list(GAMES), scope="module")
def game(request):
    return GAMES[request.param]


def error(game, ours, exact):
    """Largest error in units of max|f| over all coalitions, which is what tol promises."""
    return float(np.abs(ours - exact).max() / max(np.abs(enumeration.values(game)).max(), 1e-300))


@checks(shapley, by="enumeration")
@pytest.mark.parametrize("tol", [1e-4, 1e-10, 1e-11])
def test_shapley_by_enumeration(game, tol):
    assert error(game, shapley(game, tol), enumeration.shapley(game)) <= tol


@checks(banzhaf, by="enumeration")
@pytest.mark.parametrize("tol", [1e-4, 1e-10])
def test_banzhaf_by_enumeration(game, tol):
    assert error(game, banzhaf(game, tol), enumeration.banzhaf(game)) <= tol


@checks(interactions, by="enumeration")
def test_interactions_by_enumeration(game):
    assert error(game, interactions(game, tol=1e-10), enumeration.interactions(game)) <= 1e-10


@checks(leave_one_out, by="enumeration")
def test_leave_one_out_by_enumeration(game):
    assert error(game, leave_one_out(game), enumeration.leave_one_out(game)) <= ROUNDING


@checks(PooledGame.value, by="enumeration")
def test_value_by_enumeration(game):
    masks = enumeration.coalitions(game.d)
    assert error(game, game.value(masks), enumeration.values(game)) <= ROUNDING


def test_enumeration_can_fail(game):
    exact = enumeration.shapley(game)
    size = np.abs(enumeration.values(game)).max()
    assert error(game, exact + 2e-10 * size, exact) > 1e-10


def test_a_worse_rule_is_seen(monkeypatch):
    """The guarantee is not won by luck: with too few nodes in p the same test fails."""
    game = random_game(1, 13, 1, "deleted", 6.0)
    monkeypatch.setattr(laws, "legendre_rule", lambda m: legendre_rule(3))
    assert error(game, shapley(game), enumeration.shapley(game)) > 1e-10


class ExactNodes(Density):
    """A density with as many nodes on the whole of [0, 1] as are exact for polynomials of the
    game's degree.
    """

    def batches(self, terms, allowed, differences=True):
        p, w = legendre_rule((terms.factor.shape[2] + self.degree + 1) // 2)
        density = sum(c * p**a * (1 - p) ** b for c, a, b in self.powers)
        return [Batch(slice(None), p[:, None], (w * density)[:, None])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [40, 151, 400])
def test_node_count_is_enough_for_large_games(kind, d):
    """At sizes that cannot be enumerated: the bound's node count against the ceil(d/2) nodes that
    are exact.
    """
    game = random_game(d, d, 2, kind, 6.0, offset=1.0)
    exact = evaluate(game, ExactNodes(((1, 0, 0),)), FIRST, 1e-12)
    allowed = guaranteed_error(game, 1e-11) + guaranteed_error(game, 1e-12)
    assert np.abs(shapley(game, 1e-11) - exact).max() <= allowed


@pytest.mark.parametrize("kind", KINDS)
def test_efficiency_at_1000_players(kind):
    game = random_game(7, 1000, 2, kind, 5.0, offset=1.0)
    everyone = np.ones(1000, dtype=bool)
    change = game.value(everyone) - game.value(~everyone)
    assert abs(shapley(game, 1e-12).sum() - change) <= 1e-12 * np.abs(game.v).max() * game.H


@pytest.mark.parametrize("kind", KINDS)
def test_symmetric_players_get_the_same(kind):
    game = random_game(3, 30, 2, kind)
    twin = PooledGame(
        **{
            name: np.concatenate([getattr(game, name), getattr(game, name)[:, :1]], axis=1)
            for name in ("s", "v", "s_absent", "v_absent")
        },
        s_background=game.s_background,
        v_background=game.v_background,
        bias=game.bias,
        empty_value=game.empty_value,
        labels=(*game.labels, "twin"),
    )
    phi = shapley(twin)
    assert abs(phi[0] - phi[-1]) <= 1e-13 * np.abs(phi).max()


def test_null_player_gets_exactly_nothing():
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(2, 2, 20))
    s_absent, v_absent = rng.normal(size=(2, 2, 20))
    s_absent[:, 4] = s[:, 4]
    v_absent[:, 4] = v[:, 4]
    game = PooledGame.from_scores(s, v, s_absent, v_absent, 0.0, 1.0)
    assert shapley(game)[4] == banzhaf(game)[4] == 0.0
    assert not interactions(game)[4].any()


def test_tiny_attribution_keeps_its_digits():
    """A player of mass 1e-12: its Shapley value is about 1e-12 and right to five digits, not
    noise.
    """
    game = PooledGame.from_scores(
        [0.0, 0.3, -27.6, 0.1], [1.0, -2.0, 3.0, 0.5], s_background=0.0, v_background=0.0
    )
    exact = enumeration.shapley(game)
    assert abs(exact[2]) < 1e-11
    assert shapley(game, 1e-11)[2] == pytest.approx(float(exact[2]), rel=1e-4, abs=0)


def test_heads_add_up():
    game = random_game(5, 25, 3, "replaced+background")
    one_by_one = [
        PooledGame.from_scores(
            game.s[h],
            game.v[h],
            game.s_absent[h],
            game.v_absent[h],
            game.s_background[h],
            game.v_background[h],
        )
        for h in range(3)
    ]
    for function in (shapley, banzhaf, interactions):
        total = sum(function(head) for head in one_by_one)
        assert np.abs(function(game) - total).max() <= 1e-10 * np.abs(game.v).max() * 3


@pytest.mark.subnormals  # hypothesis draws floats as the standard has them
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    shift=st.floats(-1e3, 1e3),
    spread=st.sampled_from([0.0, 1.0, 10.0]),
)
def test_properties(seed, d, kind, shift, spread):
    """Shift of the scores, permutation of the players, efficiency, scaling of the values."""
    game = random_game(seed, d, 2, kind, spread)
    phi = shapley(game, 1e-9)
    scale = (
        np.abs(game.v).max() * 2
        + np.abs(game.v_absent).max() * 2
        + np.abs(game.v_background).max() * 2
    )
    order = np.random.default_rng(seed).permutation(d)
    moved = PooledGame(
        s=game.s[:, order] + shift,
        v=-3 * game.v[:, order],
        s_absent=game.s_absent[:, order] + shift,
        v_absent=-3 * game.v_absent[:, order],
        s_background=game.s_background + shift,
        v_background=-3 * game.v_background,
        bias=1.0,
        empty_value=1.0,
        labels=game.labels,
    )
    assert np.abs(shapley(moved, 1e-9) + 3 * phi[order]).max() <= 2e-8 * scale
    everyone = np.ones(d, dtype=bool)
    assert abs(phi.sum() - (game.value(everyone) - game.value(~everyone))) <= 1e-8 * scale


@pytest.mark.parametrize("kind", KINDS)
def test_interactions_symmetry_and_row_sums(kind):
    """sum_j I_ij = int d/dp Delta_i dp = (i's change to all others) - (i's change to nobody)."""
    game = random_game(2, 60, 2, kind, 4.0, offset=0.5)
    table = interactions(game)
    assert np.array_equal(table, table.T)
    rows = table.sum(axis=1) - np.diag(table)
    single = game.value(np.eye(game.d, dtype=bool)) - game.value(np.zeros(game.d, dtype=bool))
    assert np.abs(rows - (leave_one_out(game) - single)).max() <= 1e-9
    assert np.abs(np.diag(table) - shapley(game)).max() <= 1e-14


def test_runs_are_identical():
    game = random_game(9, 300, 3, "deleted")
    assert np.array_equal(shapley(game), shapley(game))


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan, np.inf, True])
def test_bad_tol(tol):
    with pytest.raises(ValueError, match="tol"):
        shapley(random_game(0, 3, 1, "deleted"), tol)


def test_what_cannot_be_met_is_an_error():
    game = random_game(0, 50, 1, "deleted")
    with pytest.raises(ToleranceError, match=r"^tol: ") as caught:
        shapley(game, 1e-16)
    assert 1e-16 < caught.value.smallest < 1
    cancelling = PooledGame.from_scores(
        [[0.0] * 3] * 2, [[1e9, 2e9, 3e9], [-1e9, -2e9, -3e9]], bias=1.0
    )
    with pytest.raises(ToleranceError, match=r"^tol: ") as caught:
        shapley(cancelling, 1e-10)
    assert 1e-10 < caught.value.smallest < np.inf


def test_the_smallest_possible_tol_is_possible():
    game = random_game(0, 50, 1, "deleted")
    with pytest.raises(ToleranceError) as caught:
        shapley(game, 1e-16)
    smallest = float(str(caught.value).rsplit(" ", 1)[1])
    assert shapley(game, 1.1 * smallest) == pytest.approx(shapley(game, 1e-10), abs=1e-9)


# --- peers ----------------------------------------------------------------------------------------


@pytest.mark.slow
@checks(banzhaf, interactions, by="another package")
@pytest.mark.parametrize("kind", ["deleted", "replaced+background"])
def test_agrees_with_shapiq(kind):
    shapiq = pytest.importorskip("shapiq")
    game = random_game(4, 9, 2, kind, 3.0)

    class Game(shapiq.Game):
        def value_function(self, present):
            return game.value(present)

    peer = Game(n_players=9, normalize=False)
    computer = shapiq.ExactComputer(peer, n_players=9)
    ours = interactions(game)
    single = computer("SV", order=1)
    pairs = computer("SII", order=2)
    lone = computer("BV", order=1)
    for j in range(9):
        assert single[(j,)] == pytest.approx(ours[j, j], abs=1e-9)
        assert lone[(j,)] == pytest.approx(banzhaf(game)[j], abs=1e-9)
        for i in range(j):
            assert pairs[(i, j)] == pytest.approx(ours[i, j], abs=1e-9)


@pytest.mark.slow
@checks(shapley, by="another package")
def test_agrees_with_shap_exact():
    shap = pytest.importorskip("shap")
    game = random_game(6, 8, 2, "replaced+background", 3.0)
    explainer = shap.explainers.ExactExplainer(
        lambda rows: game.value(rows > 0.5), np.zeros((1, 8))
    )
    theirs = explainer(np.ones((1, 8))).values[0]
    assert np.abs(theirs - shapley(game)).max() <= 1e-9


@pytest.mark.parametrize("score", [-3.4e38, -1e4, -740.0])
def test_leave_one_out_where_everyone_present_has_next_to_no_mass(score):
    game = PooledGame.from_scores(
        [score, score + 1], [1.0, 3.0], s_absent=[0.0, -1.0], v_absent=[7.0, 9.0]
    )
    share = 1 / (1 + np.e) if score > -1e30 else 0.5
    together = share + (1 - share) * 3
    np.testing.assert_allclose(leave_one_out(game), [together - 7.0, together - 9.0], rtol=1e-14)
