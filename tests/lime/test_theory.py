"""P1's theorem as printed and corrected, against the exact limit."""

import numpy as np
import pytest

from attn_closed_form import AttentionWeights, PooledGame, lime_limit, predict
from attn_closed_form.attention import alpha_avg, alpha_max, pooled_game, random_weights
from attn_closed_form.lime import lime_first_order, lime_mean_field, lime_theorem_5_1
from attn_closed_form.lime.theory import integrals_of


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
