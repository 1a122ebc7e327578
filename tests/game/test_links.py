"""Values of a function of the prediction: poles, the rule for a sector, the bound in p, and games
by enumeration.
"""

import math
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import (
    PooledGame,
    ToleranceError,
    banzhaf,
    expected_value_by_size,
    interactions,
    leave_one_out,
    lime_limit,
    owen,
    semivalue,
    shapley,
)
from attn_closed_form.game import beta_shapley
from attn_closed_form.game.engine import poles
from attn_closed_form.game.engine.bounds import THETA, Interval, log_bound
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.exponential_sums import EPS_MIN, read_table, sector_segments
from attn_closed_form.game.engine.laws import UNIFORM
from attn_closed_form.game.engine.poles import sectors
from attn_closed_form.game.engine.terms import terms_of
from attn_closed_form.game.links import LINKS, Link, LinkedGame
from tests import enumeration
from tests.profiles import at_least

pytest.importorskip("flint")

from benchmarks.guarantee import judge, random_question
from proofs_check.links import proved_sigmoid_bound

(RANGES,), TABLE = read_table("links.npz", "R", columns=("y", "r"))
ENTRIES = [TABLE[R,] for R in RANGES]
KINDS = ("deleted", "replaced", "deleted+background", "replaced+background")


def random_game(seed, d, kind, reach=3.0, spread=1.0):
    """One head; values within `reach`."""
    rng = np.random.default_rng(seed)
    s = spread * rng.normal(size=d)
    v = reach * rng.uniform(-1, 1, d)
    more = {}
    if "replaced" in kind:
        more |= {"s_absent": rng.normal(size=d), "v_absent": reach * rng.uniform(-1, 1, d)}
    if "background" in kind:
        more |= {"s_background": rng.normal(), "v_background": reach * rng.uniform(-1, 1)}
    return PooledGame.from_scores(s, v, bias=0.1, **more)


# --- poles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("i", range(len(RANGES)))
def test_every_entry_of_the_table_is_proved(i):
    for bound, y, r in ENTRIES[i]:
        assert (y > 0).all() and (r > 0).all()
        assert proved_sigmoid_bound(y.tolist(), r.tolist(), RANGES[i], bound) <= bound
    assert [entry[0] for entry in ENTRIES[i]] == sorted(
        (entry[0] for entry in ENTRIES[i]), reverse=True
    )


def test_the_proof_of_the_table_can_fail():
    bound, y, r = ENTRIES[6][2]
    R = RANGES[6]
    assert proved_sigmoid_bound(y, r * (1 + 4 * bound), R) > bound
    assert proved_sigmoid_bound(y, r, 1.5 * R) > 1.5 * bound
    assert proved_sigmoid_bound(y[:-1], r[:-1], R) > bound


@pytest.mark.parametrize("error", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize(
    ("name", "lo", "hi"),
    [("sigmoid", -3.0, 7.0), ("sigmoid", -29.0, 29.0), ("sigmoid", 5.0, 9.0),
     ("exp", -4.0, 3.0), ("exp", 2.0, 2.1)],
)  # fmt: skip
@pytest.mark.usual_errors
def test_poles_keep_their_error(name, lo, hi, error):
    """On a fine grid, and the stated error is that of the poles, not less."""
    poles = LINKS[name].poles(lo, hi, error)
    f = np.linspace(lo, hi, 3001)
    sum_of_poles = poles.constant + (poles.residue / (f[:, None] - poles.z)).sum(axis=1).real
    size = float(np.abs(poles.residue / sectors(poles.z, lo, hi).nearest).sum())
    assert np.abs(sum_of_poles - LINKS[name].function(f)).max() <= poles.error + 1e-15 * (
        size + abs(poles.constant)
    )
    assert poles.error <= error


@pytest.mark.usual_errors
def test_the_error_of_a_ring_is_used_up():
    """In fifty digits at 101 points: between a half and all of the stated error of eight pairs of
    poles.
    """
    poles = LINKS["exp"].poles(-0.1, 0.2, 1e-11)
    worst = mpmath.mpf(0)
    with mpmath.workdps(50):
        for f in np.linspace(-0.1, 0.2, 101).tolist():
            terms = [
                mpmath.mpc(complex(r)) / (f - mpmath.mpc(complex(z)))
                for z, r in zip(poles.z, poles.residue, strict=True)
            ]
            total = mpmath.mpf(poles.constant) + mpmath.fsum(term.real for term in terms)
            worst = max(worst, abs(total - mpmath.exp(mpmath.mpf(f))))
    assert poles.error / 2 < worst <= poles.error


@pytest.mark.parametrize("error", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize(("lo", "hi"), [(-0.1, 0.2), (-1.0, 1.0), (-3.0, 2.0)])
@pytest.mark.usual_errors
def test_both_parts_of_the_error_of_a_ring_are_counted(lo, hi, error):
    """The derivation in fifty digits, because a ring is chosen whose bound is small, so that a part
    that is missing only leads to another ring, whose error is below the wrong bound as well.

    With g(z) = e^z - e^m = sum_k a_k (z - m)^k and |a_k| <= G / r^k, the poles give every power
    k < n with a relative error of x^n / (1 - x^n), together at most G x^n / ((1 - x) (1 - x^n)),
    and miss the powers from n on.
    """
    poles = LINKS["exp"].poles(lo, hi, error)
    n = 2 * len(poles.z)
    with mpmath.workdps(50):
        middle = (mpmath.mpf(lo) + mpmath.mpf(hi)) / 2
        half = (mpmath.mpf(hi) - mpmath.mpf(lo)) / 2
        radius = abs(mpmath.mpc(complex(poles.z[0])) - middle)
        x = half / radius
        G = mpmath.exp(middle + radius) + mpmath.exp(middle)
        aliased = G * x**n / ((1 - x) * (1 - x**n))
        powers = mpmath.fsum(
            mpmath.exp(middle) * radius**k / mpmath.factorial(k) for k in range(n, n + 400)
        )
        stated = mpmath.mpf(float(poles.error))
        assert stated >= (aliased + powers / (1 - x)) * (1 - mpmath.mpf(1e-9))
        assert stated <= (aliased + 2 * powers / (1 - x)) * (1 + mpmath.mpf(1e-9))


def test_a_range_beyond_the_table_is_refused_and_named():
    game = PooledGame.from_scores([0.0, 1.0], [-90.0, 80.0])
    with pytest.raises(ToleranceError, match=r"\[-90, 80\].*up to a modulus of 64"):
        shapley(game.through("sigmoid"))


# --- the rule for a sector, and the bound in p ----------------------------------------------------


@pytest.mark.parametrize("eps", [1e-3, 1e-8, 1e-12, EPS_MIN])
@pytest.mark.parametrize("log_range", [0.3, 4.0, 40.0, 300.0])
@pytest.mark.parametrize("angle", [0.0, 0.4, 1.0, 1.4, 1.53])
@pytest.mark.usual_errors
def test_the_rule_for_a_sector_keeps_its_word(angle, log_range, eps):
    """On its boundary, where |w sum - 1| is largest by the maximum principle, and within the
    rounding of this sum.
    """
    segments = sector_segments(log_range, eps, angle)
    ray = np.linspace(0.0, log_range, 60)
    side = np.log(1 + 1j * np.tan(angle) * np.linspace(0, 1, 20))
    w_log = np.concatenate([ray + side[-1], side, log_range + side])
    total = np.zeros(w_log.size, dtype=complex)
    for shift, lam, w in segments:
        near = w_log.real - shift < 690  # beyond, e^(-lam w) is 0
        z = np.exp(w_log[near] - shift)[:, None]
        total[near] += (z * w * np.exp(-np.minimum(lam * np.abs(z), 1e6) * z / np.abs(z))).sum(
            axis=1
        )
    assert np.abs(total - 1).max() <= eps + 1e-15 / np.cos(angle) ** 2


def test_a_worse_rule_for_a_sector_is_seen(monkeypatch):
    lam, w = sector_segments(3.0, 1e-8, 1.2)[0][1:]
    z = np.exp(np.linspace(0, 3, 50)) * (1 + 1j * np.tan(1.2))

    def error(lam, w):
        return np.abs(z * (w * np.exp(-lam * z[:, None])).sum(axis=1) - 1).max()

    assert error(lam, w) < 1e-8 < error(lam[::2], 2 * w[::2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usual_errors
def test_complex_terms_stay_below_their_bound(kind):
    """|E_p| and |Delta_j| of every term on ellipses around two intervals."""
    game = random_game(5, 9, kind, reach=6.0, spread=2.0).through("sigmoid").engine_game(1e-8)
    for terms in terms_of(game, budget(game, 1e-8)):
        x = terms.factor[:, 0]
        y = terms.factor[:, 1]
        V = terms.masses.V[terms.piece_of]
        for first, last in ((0.0, 1.0), (0.2, 0.5)):
            interval = Interval(np.full(len(x), first), np.full(len(x), last))
            bounds = [log_bound(terms.sums, interval, differences) for differences in (False, True)]
            for i, theta in enumerate(THETA):
                for angle in np.linspace(0, 2 * np.pi, 16, endpoint=False):
                    p = (first + last) / 2 + (last - first) / 2 * np.cosh(theta + 1j * angle)
                    Y = p * x + (1 - p) * y
                    T = p * x * V[:, 0] + (1 - p) * y * V[:, 1]
                    P = terms.weight * np.prod(Y, axis=1)
                    num = terms.n_0 + (T / Y).sum(axis=1)
                    mean = P * num
                    delta = P[:, None] * (
                        (x - y) / Y * num[:, None] + x * y * (V[:, 0] - V[:, 1]) / Y**2
                    )
                    assert (np.log(np.abs(mean) + 1e-300) <= bounds[0][:, i] + 1e-9).all()
                    assert (
                        np.log(np.abs(delta).max(axis=1) + 1e-300) <= bounds[1][:, i] + 1e-9
                    ).all()


def test_players_whose_factors_cancel_are_not_divided_by(monkeypatch):
    """One player that dominates, at nodes where p x + (1 - p) y is nearly 0: the values are right
    all the same.
    """
    game = PooledGame.from_scores(
        [3.0, 0.0, 0.1], [9.0, -2.0, 1.0], [3.0, 0.0, 0.0], [-9.0, 1.0, 0.0]
    ).through("sigmoid")
    exact = enumeration.shapley(game)
    seen = []
    products = poles.Vanishing.products
    monkeypatch.setattr(
        poles.Vanishing, "products", lambda self: seen.append(len(self.p)) or products(self)
    )
    monkeypatch.setattr(poles, "LEAST_FACTOR", 0.3)
    np.testing.assert_allclose(banzhaf(game, 1e-9), enumeration.banzhaf(game), rtol=0, atol=1e-9)
    assert sum(seen) > 0  # at p = 1/2
    # All nodes this way.
    monkeypatch.setattr(poles, "LEAST_FACTOR", 2.0)
    np.testing.assert_allclose(shapley(game, 1e-9), exact, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        interactions(game, player=2, tol=1e-9)[0], enumeration.interactions(game)[0, 2], atol=1e-9
    )


# --- games by enumeration -------------------------------------------------------------------------


@at_least(60)
@given(seed=st.integers(0, 2**20), k=st.integers(0, 2**20), what=st.sampled_from(
    ["shapley", "banzhaf", "by size", "interactions", "lime", "owen", "semivalue", "index", "beta shapley"]
))  # fmt: skip
@pytest.mark.usual_errors
def test_random_linked_games(seed, k, what):
    """Families of the attack, ranges up to 60, against balls: within, or refused with a tol that
    works.
    """
    question, trial, arguments = random_question(seed, k, what, "links")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict, ratio = judge(question, trial, arguments)
    assert verdict in ("within", "refused", "refused, no tol named"), (verdict, ratio)


@pytest.mark.parametrize("link", ["sigmoid", "exp"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_function_takes_a_linked_game(kind, link):
    game = random_game(3, 6, kind).through(link)
    size = np.abs(game.value(enumeration.coalitions(6))).max()
    exact = enumeration.shapley(game)
    close = {"rtol": 0, "atol": 1e-9 * size}
    np.testing.assert_allclose(shapley(game, 1e-9), exact, **close)
    np.testing.assert_allclose(beta_shapley(game, 1, 1, 1e-9), exact, **close)
    np.testing.assert_allclose(semivalue(game, np.full(6, 1 / 6), 1e-9), exact, **close)
    np.testing.assert_allclose(owen(game, [[j] for j in range(6)], 1e-9), exact, **close)
    np.testing.assert_allclose(np.diagonal(interactions(game, tol=1e-9)), exact, **close)
    np.testing.assert_allclose(banzhaf(game, 1e-9), enumeration.banzhaf(game), **close)
    everybody = np.ones(6, dtype=bool)
    without = game.value(everybody) - game.value(~np.eye(6, dtype=bool))
    np.testing.assert_allclose(leave_one_out(game), without, **close)
    by_size = expected_value_by_size(game, 1e-9)
    np.testing.assert_allclose(
        [by_size[0], by_size[-1]], game.value([everybody, ~everybody]), **close
    )
    merged = game.merge([[0, 2], [1], [3, 4, 5]])
    np.testing.assert_allclose(shapley(merged, 1e-9), enumeration.shapley(merged), **close)
    assert np.isfinite(lime_limit(game, tol=1e-8).coef).all()


def test_a_constant_game_and_a_single_player():
    game = PooledGame.from_scores(
        [0.0, 1.0], [2.0, 2.0], s_background=0.0, v_background=2.0
    ).through("sigmoid")
    assert shapley(game).tolist() == [0.0, 0.0]
    assert expected_value_by_size(game) == pytest.approx([1 / (1 + math.exp(-2.0))] * 3)
    alone = PooledGame.from_scores([0.0], [1.5]).through("sigmoid")
    assert shapley(alone) == pytest.approx([1 / (1 + math.exp(-1.5)) - 0.5])


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-300, 1e-160, 1e-12, 1e-9, 1e-8])
@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.usual_errors
@pytest.mark.subnormals
def test_exponentials_of_tiny_values(size, d):
    """Rings of poles around such values were so small that the distances to them underflowed."""
    rng = np.random.default_rng(d)
    for more in ({}, {"s_background": 0.3, "v_background": size}):
        game = PooledGame.from_scores(rng.normal(size=d), size * rng.integers(-3, 4, d), **more)
        found = shapley(game.through("exp"), tol=1e-12)
        # e^f is 1 + f, up to the square of f, and 1 next to the smallest numbers.
        expected = shapley(game) if size > 1e-305 else 0.0
        np.testing.assert_allclose(found, expected, atol=2e-12 + 50 * size**2)


def test_the_scale_is_that_of_the_function():
    game = random_game(1, 4, "replaced")
    f = game.value([True] * 4)
    assert game.through("sigmoid", scale=0.5).value([True] * 4) == pytest.approx(
        1 / (1 + math.exp(-0.5 * f))
    )
    assert game.through("exp", scale=2.0).value([True] * 4) == pytest.approx(math.exp(2 * f))
    linked = game.through("exp", scale=2.0)
    size = np.abs(linked.value(enumeration.coalitions(4))).max()
    np.testing.assert_allclose(shapley(linked, 1e-9), enumeration.shapley(linked), atol=1e-9 * size)


def test_large_linked_games_add_up():
    """500 deleted players: the values add up to the change of the probability."""
    game = random_game(2, 500, "deleted+background", reach=6.0, spread=2.0).through("sigmoid")
    change = float(game.value(np.ones(500, dtype=bool)) - game.value(np.zeros(500, dtype=bool)))
    assert shapley(game, 1e-8).sum() == pytest.approx(change, abs=500 * 1e-9)


@pytest.mark.usual_errors
def test_a_looser_tol_takes_fewer_nodes():
    linked = random_game(4, 30, "deleted").through("sigmoid")

    def nodes(tol):
        game = linked.engine_game(tol)
        goal = budget(game, tol)
        batches = (
            batch
            for terms in terms_of(game, goal)
            for batch in UNIFORM.batches(terms, goal.p_error)
        )
        return sum(batch.p.size for batch in batches)

    assert nodes(1e-3) < nodes(1e-6) < nodes(1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("probit",), "link: "),
        (("sigmoid", math.inf), "scale: "),
    ],
)
def test_wrong_links_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Link(*arguments)


def test_several_heads_are_sent_to_the_sampled_way():
    game = PooledGame.from_scores([[0.0, 1.0], [1.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ValueError, match=r"^game: "):
        game.through("sigmoid")
    assert isinstance(random_game(0, 3, "deleted").through("sigmoid"), LinkedGame)


@pytest.mark.parametrize(
    "function", [shapley, leave_one_out, lambda game: game.value([[True, True]])]
)
def test_values_that_leave_float64_are_errors(function):
    game = PooledGame.from_scores([0.0, 1.0], [1000.0, 800.0], s_background=0.0, v_background=1.0)
    with pytest.raises(ToleranceError), np.errstate(all="ignore"):
        function(game.through("exp", scale=1e200))
