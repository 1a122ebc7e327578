"""Semivalues: enumeration by their definition, Kwon and Zou's weights, and the special cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import PooledGame, ToleranceError, banzhaf, leave_one_out, semivalue, shapley
from attn_closed_form._legendre import legendre_rule
from attn_closed_form.game import beta_shapley, values, weighted_banzhaf
from attn_closed_form.game.engine import laws
from attn_closed_form.game.engine.evaluate import FIRST, evaluate
from attn_closed_form.game.values import single_changes
from tests import enumeration
from tests.game.test_shapley import ExactNodes
from tests.oracles import checks
from tests.problems import games, random_game
from tests.profiles import mostly_slow

GAMES = games()
BETAS = [(1, 1), (16, 1), (1, 4), (2, 3), (7, 5), (40, 40), (200, 200)]


@pytest.fixture(params=list(GAMES), scope="module")
def game(request):
    return GAMES[request.param]


def error(game, ours, exact):
    return float(np.abs(ours - exact).max() / max(np.abs(enumeration.values(game)).max(), 1e-300))


def beta_sizes(d, alpha, beta):
    """Kwon and Zou (2022): n w(j) / C(n-1, j-1)-weights as probabilities of |S| = s = j - 1, for
    Beta(alpha, beta).
    """

    def log_beta(a, b):
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    logs = [log_beta(s + beta, d - 1 - s + alpha) - log_beta(alpha, beta) for s in range(d)]
    return np.array([math.comb(d - 1, s) * math.exp(log) for s, log in enumerate(logs)])


@checks(beta_shapley, by="enumeration")
@pytest.mark.parametrize("tol", mostly_slow([1e-10, 1e-5], 1))
def test_beta_shapley_by_enumeration(game, tol):
    for alpha, beta in BETAS:
        exact = enumeration.semivalue(game, beta_sizes(game.d, alpha, beta))
        assert error(game, beta_shapley(game, alpha, beta, tol), exact) <= tol, (alpha, beta)


@checks(weighted_banzhaf, by="enumeration")
@pytest.mark.parametrize("p", mostly_slow([0.0, 0.3, 0.98, 1e-3, 0.5, 1.0], 3))
def test_weighted_banzhaf_by_enumeration(game, p):
    q = [math.comb(game.d - 1, s) * p**s * (1 - p) ** (game.d - 1 - s) for s in range(game.d)]
    assert error(game, weighted_banzhaf(game, p), enumeration.semivalue(game, q)) <= 1e-10


@checks(semivalue, by="enumeration")
def test_any_sizes_by_enumeration(game):
    rng = np.random.default_rng(game.d)
    d = game.d
    for q in (np.ones(d) / d, rng.normal(size=d), np.eye(d)[0], np.eye(d)[-1], np.zeros(d)):
        exact = enumeration.semivalue(game, q)
        assert error(game, semivalue(game, q), exact) <= 1e-10 * max(np.abs(q).sum(), 1e-300)


def test_special_cases(game):
    for ours, known in (
        (beta_shapley(game), shapley(game)),
        (weighted_banzhaf(game), banzhaf(game)),
        (weighted_banzhaf(game, 1), leave_one_out(game)),
        (semivalue(game, np.eye(game.d)[-1]), leave_one_out(game)),
        (semivalue(game, beta_sizes(game.d, 3, 2)), beta_shapley(game, 3, 2)),
    ):
        assert error(game, ours, known) <= 2.1e-10


@given(
    alpha=st.integers(1, 60), beta=st.integers(1, 60), d=st.integers(1, 30), seed=st.integers(0, 99)
)
def test_two_ways_agree(alpha, beta, d, seed):
    """Gauss-Legendre in p against the recursion over sizes."""
    game = random_game(seed, d, 2, ["deleted", "replaced+background"][seed % 2], 4.0, offset=1.0)
    ours = beta_shapley(game, alpha, beta)
    other = semivalue(game, beta_sizes(d, alpha, beta), 1e-9)
    assert np.abs(ours - other).max() <= 1.1e-9 * max(
        np.abs(game.v).max() * 2, np.abs(game.v_absent).max() * 2
    )


@pytest.mark.parametrize(("alpha", "beta"), [(16, 1), (1, 16), (4, 3), (30, 30)])
@pytest.mark.parametrize("kind", ["deleted", "replaced+background"])
def test_node_counts_are_enough_for_large_games(alpha, beta, kind):
    """At sizes that cannot be enumerated: the chosen nodes against as many as are exact."""
    d = 301
    a = beta - 1
    b = alpha - 1
    game = random_game(d, d, 2, kind, 6.0, offset=1.0)
    exact = evaluate(game, ExactNodes((((a + b + 1) * math.comb(a + b, a), a, b),)), FIRST, 1e-12)
    assert np.abs(beta_shapley(game, alpha, beta, 1e-11) - exact).max() <= 1.2e-11 * 3


def test_too_few_nodes_are_seen(monkeypatch):
    game = random_game(1, 13, 1, "deleted", 6.0)
    monkeypatch.setattr(laws, "legendre_rule", lambda m: legendre_rule(3))
    exact = enumeration.semivalue(game, beta_sizes(13, 4, 3))
    assert error(game, beta_shapley(game, 4, 3), exact) > 1e-10


def test_values_alone_in_blocks(monkeypatch):
    game = random_game(0, 7, 2, "deleted", 2.0)
    monkeypatch.setattr(values, "SINGLES", 3)
    nobody = game.value(np.zeros(7, dtype=bool))
    assert np.allclose(
        single_changes(game), [game.value(np.arange(7) == j) - nobody for j in range(7)]
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda game: beta_shapley(game, 0, 1), "^alpha: "),
        (lambda game: beta_shapley(game, 0.5, 1), "^alpha: "),
        (lambda game: beta_shapley(game, 1, np.nan), "^beta: "),
        (lambda game: beta_shapley(game, 500, 500), "^alpha, beta: "),
        (lambda game: beta_shapley(game, 257, 256), "^alpha, beta: .* at most 512"),
        (lambda game: weighted_banzhaf(game, 1.5), "^p: "),
        (lambda game: semivalue(game, [1.0]), "^weights: "),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(PooledGame.from_scores([0.0, 1.0], [1.0, 2.0]))


def test_what_cannot_be_kept_is_refused():
    game = PooledGame.from_scores([0.0, 1.0], [1.0, 2.0])
    for call in (beta_shapley, weighted_banzhaf):
        with pytest.raises(ToleranceError, match=r"^tol: "):
            call(game, tol=1e-17)
    with pytest.raises(ToleranceError, match=r"^tol: "):
        semivalue(game, [0.5, 0.5], tol=1e-17)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_the_ends_of_weighted_banzhaf_values_keep_tol_or_say_so(p):
    """Plain differences of two values of f, which heads that cancel leave few digits of."""
    v = np.array([1e12 / 3, -2e12 / 7, 4e12 / 9])
    game = PooledGame.from_scores([[0.0, 0.3, 1.0]] * 2, [v, -v + 1])
    with pytest.raises(ToleranceError, match=r"^tol: ") as caught:
        weighted_banzhaf(game, p, 1e-8)
    assert 1e-8 < caught.value.smallest < 1
    weighted_banzhaf(game, p, 1.0)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_the_ends_of_weighted_banzhaf_values_count_two_values_of_a_link(p):
    """Values of an almost constant game are known up to the rounding of the link, 16 ulps each."""
    game = PooledGame.from_scores(
        [0.0, 0.3], [1.0, 1.0 + 1e-15], s_background=0.0, v_background=1.0
    ).through("sigmoid")
    with pytest.raises(ToleranceError, match=r"^tol: ") as caught:
        weighted_banzhaf(game, p, 1e-16)
    assert caught.value.smallest >= 32 * 2.0**-53
    weighted_banzhaf(game, p, caught.value.smallest)


def test_any_weights_by_size_reckon_with_plain_products():
    """The recursion has plain products, whose rounding grows with the number of players."""
    game = PooledGame.from_scores(np.zeros(300), np.eye(300)[0], s_background=0.0, v_background=0.0)
    with pytest.raises(ToleranceError):
        semivalue(game, np.full(300, 1 / 300), 5e-12)
