"""LIME's limit against enumeration over all subsets, in exact arithmetic, and its two routes
against each other.
"""

from fractions import Fraction
from itertools import combinations
from math import comb, exp, fsum, inf, isinf, lcm, sqrt

import numpy as np
import pytest

from attn_closed_form import PooledGame, ToleranceError, lime_limit
from attn_closed_form.attention import pooled_game, random_weights
from attn_closed_form.lime import moments
from attn_closed_form.lime.kernel import LimeSettings
from attn_closed_form.lime.moments import moments_by_recursion, moments_by_rule, plan_rules
from attn_closed_form.lime.regression import regression
from tests.lime_games import score_game
from tests.oracles import checks

# The guarantee at the default tol, relative to the largest |f|.
TOL = 1e-10
TEXT = [5, 7, 5, 3, 8, 8, 5, 2, 10, 4, 9, 6]


def value(game: PooledGame, present: tuple[bool, ...]) -> float:
    """f of a coalition, straight from the definition."""
    total = game.bias
    for h in range(game.H):
        log_masses = [game.s_background[h]]
        values = [game.v_background[h]]
        for j, here in enumerate(present):
            log_masses.append(game.s[h, j] if here else game.s_absent[h, j])
            values.append(game.v[h, j] if here else game.v_absent[h, j])
        top = max(log_masses)
        if isinf(top):
            return game.empty_value
        masses = [exp(m - top) for m in log_masses]
        total += fsum(m * v for m, v in zip(masses, values, strict=True)) / fsum(masses)
    return total


def brute_force(game, kernel_width=25.0, ridge=1.0, num_samples=5000, features=None):
    """Weighted ridge regression over all 2^d subsets: integers for sums, fractions for the
    solution.

    The only floats are f and the kernel, each taken as the rational number that it is.
    """
    d = game.d
    if features is None:
        chosen = list(range(d))
    else:
        chosen = list(features)
    # Probability of a subset: exact. Every weight and value is scaled to an integer.
    if num_samples is None:
        n = None
    else:
        n = Fraction(num_samples)
    denominator = (
        lcm(*(comb(d, s) for s in range(d + 1))) * d * (1 if num_samples is None else num_samples)
    )
    scale = denominator << 1100
    scale_f = 1 << 1100
    gram = [[0] * (len(chosen) + 1) for _ in range(len(chosen) + 1)]
    right = [0] * (len(chosen) + 1)
    for s in range(d + 1):
        document = Fraction(0) if n is None else 1 / n
        share = document if s == 0 else (1 - document) / d
        distance = 100 * (1 - sqrt(1 - s / d))
        pi = Fraction(exp(-(distance**2) / (2 * kernel_width**2)))
        weight = share * pi / comb(d, s) * scale
        assert weight.denominator == 1
        for absent in combinations(range(d), s):
            present = tuple(j not in absent for j in range(d))
            f = Fraction(value(game, present)) * scale_f
            assert f.denominator == 1
            ones = [0, *(i + 1 for i, j in enumerate(chosen) if present[j])]
            for a in ones:
                right[a] += weight.numerator * f.numerator
                for b in ones:
                    gram[a][b] += weight.numerator
    if n is None:
        rho = Fraction(0)
    else:
        rho = Fraction(ridge) / n * scale
    rows = [
        [Fraction(x) + (rho if i == j and i > 0 else 0) for j, x in enumerate(row)]
        + [Fraction(right[i], scale_f)]
        for i, row in enumerate(gram)
    ]
    for i in range(len(rows)):
        for k in range(i + 1, len(rows)):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i], strict=True)]
    solution = [Fraction(0)] * len(rows)
    for i in reversed(range(len(rows))):
        known = sum(rows[i][k] * solution[k] for k in range(i + 1, len(rows)))
        solution[i] = (rows[i][-1] - known) / rows[i][i]
    coef = np.zeros(d)
    coef[chosen] = [float(x) for x in solution[1:]]
    return coef, float(solution[0])


def model_game(players, absent, T):
    weights = random_weights(
        5, D=11, d_e=7, T_max=17, K=3, d_att=2, d_out=5, C=2, score_scale=3.0, biases=True
    )
    return pooled_game(weights, TEXT[:T], players, absent, output=1)


def assert_limit(game, **arguments):
    coef, intercept = brute_force(game, **arguments)
    got = lime_limit(game, **arguments)
    scale = np.abs(game.value(np.r_[np.eye(game.d), np.ones((1, game.d))].astype(bool))).max()
    assert np.abs(got.coef - coef).max() < TOL * scale
    assert abs(got.intercept - intercept) < TOL * scale


@checks(lime_limit, by="enumeration", through=brute_force)
@pytest.mark.parametrize("kernel_width", [25.0, inf])
@pytest.mark.parametrize("absent", ["unk", "deleted"])
@pytest.mark.parametrize("players", ["positions", "words"])
def test_enumeration_on_a_model(players, absent, kernel_width):
    assert_limit(model_game(players, absent, 7), kernel_width=kernel_width)


def test_enumeration_with_twelve_players():
    assert_limit(model_game("positions", "unk", 12))


@checks(lime_limit, by="enumeration", through=brute_force)
@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_enumeration_of_every_kind(d, kind):
    game = score_game(d, kind=kind, spread=2.0)
    for kernel_width in (25.0, 8.0, inf):
        assert_limit(game, kernel_width=kernel_width, num_samples=40, ridge=2.5)
        if d > 1:
            assert_limit(game, kernel_width=kernel_width, num_samples=None)


@pytest.mark.parametrize("ridge", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("num_samples", [50, 5000])
def test_ridge_and_number_of_samples(ridge, num_samples):
    assert_limit(score_game(5), ridge=ridge, num_samples=num_samples)


@pytest.mark.parametrize("features", [[3], [4, 1], [0, 2, 5], [5, 4, 3, 2, 1, 0]])
def test_refit_on_some_features(features):
    for kind in ("unk", "empty"):
        assert_limit(score_game(6, kind=kind), features=features)
        assert_limit(
            score_game(6, kind=kind), features=features, num_samples=None, kernel_width=inf
        )


def test_one_player_without_samples():
    """For n to infinity the first row and the ridge both have weight 1/n: their ratio stays."""
    game = score_game(1)
    limit = lime_limit(game, num_samples=None, ridge=3.0)
    finite = lime_limit(game, num_samples=10**9, ridge=3.0)
    everyone, nobody = game.value([[True], [False]])
    np.testing.assert_allclose(limit.coef, (everyone - nobody) / 4, rtol=1e-14)
    np.testing.assert_allclose(
        [*finite.coef, finite.intercept], [*limit.coef, limit.intercept], atol=1e-5
    )


@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.parametrize("kernel_width", [25.0, 10.0, inf])
@pytest.mark.usual_errors
def test_two_routes_agree_with_three_hundred_players(kind, kernel_width):
    game = score_game(300, H=1, kind=kind, offset=2.0)
    settings = LimeSettings(kernel_width, 1.0, 5000)
    found = regression(300, settings, 300)
    everyone = np.arange(300)
    fast = found.solve(moments_by_rule(plan_rules(game, found, settings, 1e-10), found), everyone)
    slow = found.solve(moments_by_recursion(game, found, 1e-10), everyone)
    scale = abs(game.value(np.ones(300, dtype=bool)))
    assert np.abs(fast[0] - slow[0]).max() < 1e-11 * scale
    assert abs(fast[1] - slow[1]) < 1e-11 * scale
    assert np.abs(slow[0]).max() > 1e-4 * scale  # they agree on something


def test_infinite_bandwidth_in_terms_of_conditional_means():
    """beta_j = 3(d-1)/(d+1) (E_j - mean E) + 6/(d+1) (mean E - E f), E_j the mean of f with j
    present, s in 1..d.
    """
    game = score_game(6)
    d = 6
    total = 0.0
    count = 0.0
    E = np.zeros(6)
    for s in range(1, d + 1):
        for absent in combinations(range(d), s):
            present = np.array([j not in absent for j in range(d)])
            f = value(game, tuple(present)) / comb(d, s) / d
            total += f
            E += f * present
            count += present.sum() / comb(d, s) / d**2
    E /= count
    expected = 3 * (d - 1) / (d + 1) * (E - E.mean()) + 6 / (d + 1) * (E.mean() - total)
    np.testing.assert_allclose(
        lime_limit(game, inf, num_samples=None).coef, expected, rtol=0, atol=1e-10
    )


def test_equation_17_of_the_paper_is_not_exact():
    """P1 Eq. 17, for f = mean of Z over d = 5: 0 where least squares gives 1/5."""
    game = PooledGame.from_scores([0.0] * 5, [1.0] * 5, [0.0] * 5, [0.0] * 5)
    np.testing.assert_allclose(lime_limit(game, inf, num_samples=None).coef, 0.2, atol=1e-11)


def test_linear_over_heads_and_equivariant():
    game = score_game(7, H=3)
    limit = lime_limit(game).coef
    order = np.random.default_rng(0).permutation(7)
    parts = ("s", "v", "s_absent", "v_absent")
    shuffled = PooledGame.from_scores(
        *(getattr(game, name)[:, order] for name in parts),
        game.s_background,
        game.v_background,
        bias=9.0,
    )
    np.testing.assert_allclose(lime_limit(shuffled).coef, limit[order], rtol=0, atol=1e-9)
    heads = [
        PooledGame.from_scores(
            *(getattr(game, name)[h] for name in parts), game.s_background[h], game.v_background[h]
        )
        for h in range(3)
    ]
    np.testing.assert_allclose(
        sum(lime_limit(head).coef for head in heads), limit, rtol=0, atol=1e-9
    )


def test_constant_game_has_no_coefficients():
    game = PooledGame.from_scores(
        [0.0, 4.0, 1.0], [2.0] * 3, [1.0, 2.0, 3.0], [2.0] * 3, 0.0, 2.0, bias=1.0
    )
    limit = lime_limit(game)
    np.testing.assert_array_equal(limit.coef, 0.0)
    assert limit.intercept == pytest.approx(3.0, rel=1e-15)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel_width": 0.0}, "^kernel_width: "),
        ({"kernel_width": -1}, "^kernel_width: "),
        ({"kernel_width": float("nan")}, "^kernel_width: "),
        ({"kernel_width": "wide"}, "^kernel_width: "),
        ({"kernel_width": None}, "^kernel_width: "),
        ({"ridge": -1.0}, "^ridge: "),
        ({"ridge": inf}, "^ridge: "),
        ({"ridge": float("nan"), "num_samples": None}, "^ridge: "),
        ({"ridge": "1"}, "^ridge: "),
        ({"num_samples": 1}, "^num_samples: "),
        ({"num_samples": 2.5}, "^num_samples: "),
        ({"num_samples": 5000.0}, "^num_samples: "),
        ({"num_samples": float("nan")}, "^num_samples: "),
        ({"num_samples": inf}, "^num_samples: "),
        ({"num_samples": True}, "^num_samples: "),
        ({"num_samples": "5000"}, "^num_samples: "),
        ({"tol": float("nan")}, "^tol: "),
        ({"tol": 0}, "^tol: "),
        ({"tol": -1.0}, "^tol: "),
        ({"tol": inf}, "^tol: "),
        ({"tol": "x"}, "^tol: "),
        ({"features": [0, 0]}, "^features: "),
        ({"features": [3]}, "^features: "),
        ({"features": []}, "^features: "),
    ],
)
def test_errors(arguments, message, d):
    with pytest.raises(ValueError, match=message):
        lime_limit(score_game(d), **arguments)


@pytest.mark.parametrize("kernel_width", [1e-3, 1e-300])
def test_a_kernel_that_leaves_one_size(kernel_width):
    """The ratio of two weights that are next to nothing decides, which the smallest width that a
    float holds shows.
    """
    game = score_game(3)
    narrow, narrower = (
        lime_limit(game, kernel_width=width, num_samples=None) for width in (0.9, kernel_width)
    )
    np.testing.assert_allclose(narrower.coef, narrow.coef, rtol=1e-11)
    assert narrower.intercept == pytest.approx(narrow.intercept, rel=1e-11)


def test_impossible_tolerance():
    with pytest.raises(ToleranceError, match="tol"):
        lime_limit(score_game(3), tol=1e-18)


def test_narrow_kernel_with_a_ridge():
    """Every sample but the document has a weight of next to nothing: the ridge decides, and all
    coefficients vanish.
    """
    limit = lime_limit(score_game(4), kernel_width=1e-3, num_samples=100)
    np.testing.assert_allclose(limit.coef, 0.0, atol=1e-12)


def test_the_recursion_reckons_with_the_rounding_of_every_sum():
    """What is individual is a difference of two sums, each wrong by the rounding of all weights."""
    fit = regression(6, LimeSettings(25.0, 1.0, 5000), 6)
    assert moments.recursion_factor(fit) >= 2 * fit.level / fit.individual_denominator
