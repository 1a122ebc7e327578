"""Laws: what they make of (1 - p)^n, and nodes that keep the allowed error."""

import math
from fractions import Fraction

import numpy as np
import pytest

from attn_closed_form import PooledGame, shapley
from attn_closed_form._legendre import legendre_rule
from attn_closed_form.game.engine import laws
from attn_closed_form.game.engine.bounds import THETA, log_bound
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.laws import (
    LOG_OMITTED,
    OUTSIDE,
    UNIFORM,
    Density,
    Point,
    legendre_count,
    log_legendre_factor,
    relevant_interval,
)
from attn_closed_form.game.engine.rounding import MOST_NODES, MOST_TERMS
from attn_closed_form.game.engine.terms import terms_of
from attn_closed_form.game.interactions import PAIR_LAWS, SINGLE_LAWS
from tests.game.engine.test_bounds import KINDS, on_ellipse
from tests.problems import random_game


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_cannot_matter(kind):
    """First and second differences, straight from the formulas and by the bound that the interval
    is cut with.
    """
    game = random_game(5, 600, 1, kind, 8.0)
    log_allowed = np.log(1e-12)
    cut = 0
    for terms in terms_of(game, budget(game, 1e-10)):
        sums = terms.sums
        first, last = relevant_interval(sums, log_allowed)
        for p in np.linspace(1e-6, 1 - 1e-6, 41):
            outside = (p < first) | (p > last)
            _, delta, pair = on_ellipse(terms, np.full(terms.weight.size, p + 0j))
            assert (np.maximum(delta, pair)[outside] <= 1e-12).all()
            # A second difference leaves three players out of the product: i, j and that of the
            # numerator.
            decay = p * sums.heavy + (1 - p) * sums.light
            bound = (
                3
                - decay
                + np.log(np.maximum(sums.weight * (sums.background + sums.players), 1e-300))
            )
            assert (bound[outside] <= log_allowed + 1e-9).all()
            cut += int(outside.sum())
    assert cut > 0 or kind == "replaced+background"
    assert LOG_OMITTED > 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_nodes_of_all_terms_make_no_more_than_the_allowed_error(kind):
    """The bounds of all terms at their number of nodes, and what is outside of the intervals, add
    up to `allowed`.

    In some game they come near to it: the last node is taken only where it is needed.
    """
    share_used = []
    for d, spread in [(6, 1.0), (15, 6.0), (40, 2.0), (40, 12.0)]:
        game = random_game(d, d, 2, kind, spread)
        for terms in terms_of(game, budget(game, 1e-8)):
            sums = terms.sums
            for allowed in np.geomspace(1e-10, 1e-3, 15):
                interval, m = legendre_count(sums, d - 1, allowed, True)
                length = interval.last - interval.first
                with np.errstate(divide="ignore"):
                    log_error = log_bound(sums, interval, True) + np.log(length)[:, None]
                made = (
                    np.exp(log_error + log_legendre_factor(THETA) - 2 * THETA * m[:, None])
                    .min(axis=1)
                    .sum()
                )
                made = 0.0 if (m == (d + 1) // 2).all() else made
                total = made + (OUTSIDE * allowed * sums.share if (length < 1).any() else 0.0)
                assert total <= allowed * sums.share * (1 + 1e-9)
                share_used.append(total / (allowed * sums.share))
    assert max(share_used) > 0.7


def test_a_mean_has_one_degree_more_than_a_difference():
    game = random_game(3, 8, 1, "replaced+background", 12.0)
    for terms in terms_of(game, budget(game, 1e-8)):
        assert (legendre_count(terms.sums, 7, 1e-300, True)[1] == 4).all()
        assert (legendre_count(terms.sums, 8, 1e-300, False)[1] == 5).all()
        assert len(UNIFORM.batches(terms, 1e-300, differences=False)[0].p) == 5


def test_batches_are_small_enough_for_the_rounding_of_their_sums():
    """At most MOST_NODES nodes and MOST_TERMS terms are added one after the other (step 7 of the
    proof).
    """
    law = Density(((401 * math.comb(400, 200), 200, 200),))
    game = random_game(2, 30, 20, "deleted", 3.0)
    nodes = 0
    for terms in terms_of(game, budget(game, 1e-8)):
        assert terms.weight.size <= MOST_TERMS
        batches = law.batches(terms, 1e-9)
        assert max(len(batch.p) for batch in batches) <= MOST_NODES
        nodes = sum(len(batch.p) for batch in batches)
        assert np.allclose(sum(batch.weights.sum(axis=0) for batch in batches), 1.0)
    assert nodes > MOST_NODES


@pytest.mark.parametrize(
    "law", [*PAIR_LAWS.values(), *SINGLE_LAWS.values(), Density(((12, 1, 2),)), Point(0.3)], ids=str
)
def test_what_a_law_makes_of_the_probability_of_being_alone(law):
    if isinstance(law, Point):
        p = [law.p]
        w = [1.0]
    else:
        p, w = legendre_rule(40)
    for n in (0, 1, 5, 30):
        if isinstance(law, Point):
            density = 1.0
        else:
            density = sum(c * p**a * (1 - p) ** b for c, a, b in law.powers)
        assert law.empty_mass(n) == pytest.approx(
            float(np.dot(w, density * (1 - np.asarray(p)) ** n)), rel=1e-12
        )


def test_being_alone_among_very_many_keeps_its_digits():
    a = 3
    b = 15
    n = 100_000
    exact = Fraction(math.factorial(a)) / math.prod(range(b + n + 1, a + b + n + 2))
    assert Density(((1, a, b),)).empty_mass(n) == pytest.approx(float(exact), rel=1e-15)


@pytest.mark.parametrize("law", [*PAIR_LAWS.values(), *SINGLE_LAWS.values()], ids=str)
def test_the_total_of_a_law_is_the_integral_of_its_modulus(law):
    if isinstance(law, Point):
        assert law.total == 1
        return
    p = (np.arange(200_000) + 0.5) / 200_000
    assert law.total == pytest.approx(
        np.abs(sum(c * p**a * (1 - p) ** b for c, a, b in law.powers)).mean(), rel=1e-6
    )


def test_the_rounding_of_a_density_is_what_the_law_reports():
    """Densities at rounded nodes against exact arithmetic, in the mean over the nodes."""
    for a, b in ((15, 0), (3, 9), (0, 40)):
        law = Density((((a + b + 1) * math.comb(a + b, a), a, b),))
        x, w = legendre_rule(60)
        (c, _, _) = law.powers[0]
        values = float(c) * x**a * (1 - x) ** b
        exact = [c * Fraction(float(p)) ** a * (1 - Fraction(float(p))) ** b for p in x]
        error = sum(
            abs(Fraction(float(v)) - e) * Fraction(float(u))
            for v, e, u in zip(values, exact, w, strict=True)
        )
        assert float(error) <= law.extra_ulps * 2.0**-53


def test_too_short_an_interval_is_seen(monkeypatch):
    """The tests above can fail: with a third of what is needed for leaving players out, Shapley
    values are wrong.
    """
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(rng.normal(size=2000), rng.normal(size=2000))
    exact = shapley(game, 1e-11)
    monkeypatch.setattr(laws, "LOG_OMITTED", -12.0)
    assert np.abs(shapley(game, 1e-11) - exact).max() > 1e-11 * np.abs(
        game.value(np.ones(2000, dtype=bool))
    )


@pytest.mark.parametrize("pole", [-0.01, -0.3, 1.2, 4.0])
@pytest.mark.parametrize("m", [4, 10, 25])
def test_legendre_error_is_a_bound(pole, m):
    """1/(p - pole): the largest modulus on an ellipse is known, the error must stay below the
    bound.
    """
    edge = np.arccosh(abs(2 * pole - 1))  # the ellipse through the pole
    theta = edge * np.array([0.5, 0.8, 0.9, 0.95])
    distance = abs(pole - 0.5) - np.cosh(theta) / 2
    bound = np.exp(np.min(log_legendre_factor(theta) - np.log(distance) - 2 * m * theta))
    p, w = legendre_rule(m)
    exact = np.log(abs(1 - pole)) - np.log(abs(pole))
    error = abs(w @ (1 / (p - pole)) - exact)
    assert error <= bound + 1e-14
    assert bound <= 1e4 * error + 1e-12  # and not absurdly large
