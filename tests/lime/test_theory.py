"""P1's theorem as printed and corrected, against the exact limit."""

import mpmath as mp
import numpy as np
import pytest

from attn_closed_form import AttentionWeights, PooledGame, lime_limit, predict
from attn_closed_form.attention import alpha_avg, alpha_max, pooled_game, random_weights
from attn_closed_form.lime import lime_first_order, lime_mean_field, lime_theorem_5_1
from attn_closed_form.lime.theory import integrals_of
from tests.oracles import checks


def relative(got, expected):
    return np.abs(got - expected).max() / np.abs(expected).max()


def spread_model(seed, offset=4.0):
    """Random model with spread attention and values W_l v of mean `offset`, T = 99 of T_max = 256,
    distinct tokens.
    """
    weights = random_weights(
        seed, D=400, d_e=64, T_max=256, K=6, d_att=16, d_out=16, score_scale=0.3
    )
    arrays = weights.arrays()
    arrays["b_v"] = np.stack([row[0] * offset / (row[0] @ row[0]) for row in weights.W_l])
    weights = AttentionWeights(**arrays)
    return weights, np.random.default_rng(seed).choice(np.arange(2, 400), 99, replace=False)


@pytest.mark.parametrize("seed", range(5))
def test_on_random_models_with_spread_attention(seed):
    weights, tokens = spread_model(seed)
    assert alpha_max(weights, tokens).max() < 0.05
    game = pooled_game(weights, tokens)
    limit = lime_limit(game, np.inf, num_samples=None).coef
    assert relative(lime_mean_field(game), limit) < 0.003
    assert relative(lime_first_order(game), limit) < 0.3
    assert relative(lime_theorem_5_1(game), limit) > 1.0
    kernel_limit = lime_limit(game, 25.0, num_samples=None).coef
    assert relative(lime_mean_field(game, 25.0), kernel_limit) < 0.005
    assert relative(lime_mean_field(game), kernel_limit) > 0.005  # the kernel matters


def test_as_printed_in_the_papers_own_terms():
    """Eq. 19 from attention and values, head by head: the transcription, up to [UNK] at [CLS]'s
    place.
    """
    weights, tokens = spread_model(0)
    game = pooled_game(weights, tokens)
    tables = weights.collapse
    ids = np.full(256, weights.unk)
    ids[0] = weights.cls
    ids[1:100] = tokens
    g = np.exp(tables.s_tok[ids] + tables.s_pos)
    g_h = np.exp(tables.s_tok[weights.unk] + tables.s_pos)
    v = (tables.u_tok[ids] + tables.u_pos)[..., 0]
    v_h = (tables.u_tok[weights.unk] + tables.u_pos)[..., 0]
    printed = 3 / (2 * 6) * (g / g.sum(axis=0) * v - g_h / g_h.sum(axis=0) * v_h).sum(axis=1)[1:100]
    assert relative(lime_theorem_5_1(game), printed) < 0.03
    np.testing.assert_allclose((g / g.sum(axis=0))[1:100].mean(axis=1), alpha_avg(weights, tokens))
    g_h[0] = g[0]
    printed = 3 / (2 * 6) * (g / g.sum(axis=0) * v - g_h / g_h.sum(axis=0) * v_h).sum(axis=1)[1:100]
    np.testing.assert_allclose(lime_theorem_5_1(game), printed, rtol=1e-9, atol=1e-12)


def test_a_constant_model():
    """The printed theorem gives a constant model LIME coefficients; the corrected forms do not."""
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(
        rng.normal(size=9), np.full(9, 3.0), rng.normal(size=9), np.full(9, 3.0), 1.0, 3.0
    )
    assert np.abs(lime_theorem_5_1(game)).max() > 0.1
    for theory in (lime_first_order, lime_mean_field, lambda game: lime_mean_field(game, 25.0)):
        np.testing.assert_allclose(theory(game), 0.0, atol=1e-14)


def test_first_order_is_a_derivative():
    """The first order is d f / d(presence of j) at the document, where presence mixes the two
    masses.
    """
    game = PooledGame.from_scores(
        [0.3, -1.0], [1.0, 2.0], [0.1, 0.2], [-1.0, 0.5], s_background=0.7, v_background=0.4
    )
    step = 1e-6
    for j in range(2):
        g = np.exp(game.s[0])
        g_h = np.exp(game.s_absent[0])
        values = []
        for t in (1 + step, 1 - step):
            z = np.where(np.arange(2) == j, t, 1.0)
            mass = z * g + (1 - z) * g_h
            num = z * g * game.v[0] + (1 - z) * g_h * game.v_absent[0]
            c = np.exp(0.7)
            values.append((num.sum() + 0.4 * c) / (mass.sum() + c))
        assert lime_first_order(game)[j] == pytest.approx(
            (values[0] - values[1]) / (2 * step), rel=1e-7
        )


@pytest.mark.usual_errors
def test_integrals_are_those_of_a_quadrature():
    x, w = np.polynomial.legendre.leggauss(60)
    p = (x + 1) / 2
    w = w / 2
    r = np.array([-0.9, -0.3, 1e-9, 0.49, 3.0])
    D = 1 + r[:, None] * p
    direct = [(p * (1 - p) / D) @ w, (p * (1 - p) / D**2) @ w, (p**2 * (1 - p) / D**2) @ w]
    np.testing.assert_allclose(integrals_of(r), direct, rtol=1e-12)


def test_errors_fall_with_the_window():
    """As T / T_max goes to 0 the first order becomes exact; the printed theorem does not."""
    errors = {"first": [], "printed": []}
    for background in (3.0, 6.0, 9.0):
        rng = np.random.default_rng(1)
        d = 20
        game = PooledGame.from_scores(
            rng.normal(size=d),
            rng.normal(size=d) + 2,
            rng.normal(size=d),
            rng.normal(size=d) + 2,
            background,
            2.0,
        )
        limit = lime_limit(game, np.inf, num_samples=None).coef
        errors["first"].append(relative(lime_first_order(game), limit))
        errors["printed"].append(relative(lime_theorem_5_1(game), limit))
    assert errors["first"][2] < 0.1 * errors["first"][1] < 0.01 * errors["first"][0] * 10
    assert min(errors["printed"]) > 0.5


def test_words_and_positions():
    """No distinctness is needed: a word's first-order coefficient is the sum over its positions."""
    weights = random_weights(3, score_scale=0.3)
    tokens = [5, 7, 5, 9, 7, 5]
    words, positions = (
        pooled_game(weights, tokens, players=kind) for kind in ("words", "positions")
    )
    for theory in (lime_theorem_5_1, lime_first_order, lime_mean_field):
        single = theory(positions)
        np.testing.assert_allclose(
            theory(words), [single[[0, 2, 5]].sum(), single[[1, 4]].sum(), single[3]], atol=1e-14
        )
    assert predict(weights, tokens).shape == (1,)


def test_series_meets_closed_form():
    """Both sides of |r| = 0.5, and the limit r = 0: 1/6, 1/6, 1/12."""
    below = integrals_of(np.array([0.5, -0.5]))
    above = integrals_of(np.array([0.5 + 1e-12, -0.5 - 1e-12]))
    np.testing.assert_allclose(below, above, rtol=1e-11)
    np.testing.assert_allclose(
        np.ravel(integrals_of(np.zeros(1))), [1 / 6, 1 / 6, 1 / 12], rtol=1e-15
    )


def test_a_game_that_can_be_empty():
    game = PooledGame.from_scores([0.0, 1.0], [1.0, 2.0])
    for theory in (lime_theorem_5_1, lime_first_order, lime_mean_field):
        with pytest.raises(ValueError, match=r"^game: "):
            theory(game)
    with pytest.raises(ValueError, match="kernel_width"):
        lime_mean_field(game, 0.0)


@checks(lime_mean_field, by="more digits")
@pytest.mark.parametrize("width", [40.0])
@pytest.mark.slow  # twenty digits
def test_the_mean_field_with_a_kernel_in_twenty_digits(width):
    """Differences between players are weighed by k p (1 - p); their mean is the slope of f in the
    share present.
    """
    rng = np.random.default_rng(3)
    d = 3
    s, v, s_absent, v_absent = rng.normal(size=(4, d))
    game = PooledGame.from_scores(s, v, s_absent, v_absent, 0.3, -1.0)
    with mp.workdps(20):
        (s, v, s_absent, v_absent) = digits([s, v, s_absent, v_absent])
        g = [mp.exp(x) for x in s]
        g_h = [mp.exp(x) for x in s_absent]
        c = mp.exp(mp.mpf(0.3))

        def numerator(p):
            terms = [
                (1 - p) * a * x + p * b * y for a, x, b, y in zip(g, v, g_h, v_absent, strict=True)
            ]
            return mp.fsum(terms) - c

        def denominator(p):
            return mp.fsum((1 - p) * a + p * b for a, b in zip(g, g_h, strict=True)) + c

        def kernel(p):
            return mp.exp(-((100 * (1 - mp.sqrt(1 - p)) / width) ** 2) / 2)

        def mean(function):
            """The integral over y = sqrt(1 - p), weighed by the kernel."""
            return mp.quad(
                lambda y: 2 * y * kernel(1 - y * y) * function(1 - y * y), [0, 0.5, 1], maxdegree=4
            )

        def change(j, p):
            of_value = g[j] * v[j] - g_h[j] * v_absent[j]
            return of_value / denominator(p) - (g[j] - g_h[j]) * numerator(p) / denominator(p) ** 2

        apart = mean(lambda p: p * (1 - p))
        single = [mean(lambda p, j=j: p * (1 - p) * change(j, p)) / apart for j in range(d)]
        middle = mean(lambda p: p) / mean(lambda p: mp.mpf(1))
        variance = mean(lambda p: (p - middle) ** 2)
        slope = mean(lambda p: (middle - p) * numerator(p) / denominator(p)) / variance / d
        exact = [float(x - mp.fsum(single) / d + slope) for x in single]
    np.testing.assert_allclose(lime_mean_field(game, width), exact, rtol=1e-10)


def digits(x):
    return [[mp.mpf(float(y)) for y in row] for row in x]


@checks(lime_theorem_5_1, lime_first_order, lime_mean_field, by="more digits")
def test_the_three_forms_in_twenty_digits():
    """The first order as a difference quotient, the mean field as an integral, the theorem as it is
    printed.
    """
    rng = np.random.default_rng(2)
    d = 3
    s, v, s_absent, v_absent = rng.normal(size=(4, 2, d))
    game = PooledGame.from_scores(s, v, s_absent, v_absent, rng.normal(size=2), rng.normal(size=2))
    with mp.workdps(22):
        g, g_h = ([[mp.exp(x) for x in row] for row in digits(x)] for x in (s, s_absent))
        values, values_h = digits(v), digits(v_absent)
        first = [mp.mpf(0)] * d
        field = [mp.mpf(0)] * d
        printed = [mp.mpf(0)] * d
        for h in range(2):
            c = mp.exp(mp.mpf(float(game.s_background[h])))
            c_v = c * mp.mpf(float(game.v_background[h]))

            def at(presence, h=h, c=c, c_v=c_v):
                """Numerator and denominator where players are present in part."""
                num = c_v
                den = c
                for j, z in enumerate(presence):
                    num += z * g[h][j] * values[h][j] + (1 - z) * g_h[h][j] * values_h[h][j]
                    den += z * g[h][j] + (1 - z) * g_h[h][j]
                return num, den

            def change(p, j, h=h, at=at):
                """What player j adds where all are absent with probability p."""
                num, den = at([1 - p] * d)
                of_value = g[h][j] * values[h][j] - g_h[h][j] * values_h[h][j]
                return of_value / den - (g[h][j] - g_h[h][j]) * num / den**2

            A = at([1] * d)[1]
            B = at([0] * d)[1]
            for j in range(d):
                sides = []
                for step in (mp.mpf("1e-8"), -mp.mpf("1e-8")):
                    num, den = at([1 + step if k == j else 1 for k in range(d)])
                    sides.append(num / den)
                first[j] += (sides[0] - sides[1]) / mp.mpf("2e-8")
                field[j] += 6 * mp.quad(
                    lambda p, j=j: p * (1 - p) * change(p, j), [0, 1], maxdegree=4
                )
                alpha = g[h][j] / A * values[h][j]
                printed[j] += mp.mpf(3) / 2 * (alpha - g_h[h][j] / B * values_h[h][j])
    pairs = {lime_first_order: first, lime_mean_field: field, lime_theorem_5_1: printed}
    for theory, exact in pairs.items():
        np.testing.assert_allclose(theory(game), [float(x) for x in exact], rtol=1e-12, atol=1e-14)
