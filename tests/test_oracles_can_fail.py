"""Every comparison of the tests, handed a wrong value, must fail: an oracle that cannot fail proves
nothing.
"""

import numpy as np
import pytest

from attn_closed_form import AttentionWeights, alpha, gradient, lime_limit, predict
from attn_closed_form.attention import (
    attention_matrices,
    classifier_lrp,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
    pooled_game,
)
from tests import comparisons
from tests.jax_model.test_oracle import GAMES
from tests.strategies import PRIMES, make_weights
from tests.tolerances import (
    ALGEBRAIC,
    DIFFERENCE,
    GUARANTEED,
    QUADRATURE,
    STATISTICAL,
    assert_algebraic,
    assert_difference,
    assert_guaranteed,
    assert_quadrature,
    assert_statistical,
)

MODEL = make_weights(PRIMES._replace(C=3), seed=2)
TOKENS = [3, 5, 8, 5]
QUESTION = comparisons.Question(MODEL, TOKENS, 1)
GAME = pooled_game(MODEL, TOKENS, output=1)

# comparison, the right value for the model above, and how large an error it must notice, relative
# to the value
COMPARISONS = {
    "value": (
        lambda got: comparisons.check_value(MODEL, TOKENS, got),
        predict(MODEL, TOKENS),
        1e-10,
    ),
    "attention": (
        lambda got: comparisons.check_attention(MODEL, TOKENS, got),
        alpha(MODEL, TOKENS),
        1e-10,
    ),
    "attention matrices": (
        lambda got: comparisons.check_attention_matrices(MODEL, TOKENS, got),
        attention_matrices(MODEL, TOKENS),
        1e-10,
    ),
    "gradient": (
        lambda got: comparisons.check_gradient(MODEL, TOKENS, 1, got),
        gradient(MODEL, TOKENS, 1),
        1e-9,
    ),
    "mean": (
        lambda got: comparisons.check_gradient_mean(MODEL, TOKENS, 1, got),
        gradient_mean(MODEL, TOKENS, 1),
        1e-9,
    ),
    "l1": (
        lambda got: comparisons.check_gradient_l1(MODEL, TOKENS, 1, got),
        gradient_l1(MODEL, TOKENS, 1),
        1e-9,
    ),
    "l2": (
        lambda got: comparisons.check_gradient_l2(MODEL, TOKENS, 1, got),
        gradient_l2(MODEL, TOKENS, 1),
        1e-9,
    ),
    "gradient times input": (
        lambda got: comparisons.check_gradient_times_input(MODEL, TOKENS, 1, got),
        gradient_times_input(MODEL, TOKENS, 1),
        1e-9,
    ),
    "integrated gradients": (
        lambda got: comparisons.check_integrated_gradients(MODEL, TOKENS, 1, got),
        integrated_gradients(MODEL, TOKENS, 1),
        1e-6,
    ),
    "lrp": (
        lambda got: comparisons.check_relevance(MODEL, TOKENS, 1, got),
        classifier_lrp(MODEL, TOKENS, 1),
        1e-9,
    ),
    "lime": (
        lambda got: comparisons.check_lime(QUESTION, got, QUADRATURE),
        np.r_[lime_limit(GAME).coef, lime_limit(GAME).intercept],
        1e-8,
    ),
}
for name, (function, has_tol) in GAMES.items():
    if has_tol:
        tol = QUADRATURE
        relative = 1e-8
    else:
        tol = None
        relative = 1e-9
    COMPARISONS[name] = (
        lambda got, name=name, tol=tol: comparisons.check_game(name, QUESTION, got, tol),
        function(GAME),
        relative,
    )


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_accept_the_right_value_and_refuse_one_wrong_entry(name):
    check, right, relative = COMPARISONS[name]
    check(right)
    for where in {0, right.size // 2, right.size - 1}:
        wrong = right.copy()
        wrong.flat[where] += relative * np.abs(right).max()
        with pytest.raises(AssertionError, match="difference"):
            check(wrong)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_refuse_a_wrong_shape_and_nan(name):
    check, right, _ = COMPARISONS[name]
    with pytest.raises(AssertionError, match="shapes"):
        check(right[..., None])
    with pytest.raises(AssertionError, match="not finite"):
        check(np.full_like(right, np.nan))


@pytest.mark.parametrize("name", [name for name in MODEL.arrays() if name != "b_k"])
def test_no_array_is_ignored(name):
    """A change of any array is seen in the value; but that of the key bias, see below."""
    changed = AttentionWeights(**MODEL.arrays() | {name: MODEL.arrays()[name] * (1 + 1e-6)})
    with pytest.raises(AssertionError, match="difference"):
        comparisons.check_value(MODEL, TOKENS, predict(changed, TOKENS))


def test_a_key_bias_shifts_all_logits_alike():
    changed = AttentionWeights(**MODEL.arrays() | {"b_k": MODEL.b_k + 1.0})
    comparisons.check_value(MODEL, TOKENS, predict(changed, TOKENS))


def test_the_gradient_without_the_cls_term_is_refused():
    query_is_a_constant = gradient(MODEL, TOKENS, 1).copy()
    arrays = MODEL.arrays()
    e = MODEL.W_e[MODEL.cls] + MODEL.W_p[0]
    frozen = {"W_q": np.zeros_like(MODEL.W_q), "b_q": arrays["W_q"] @ e + arrays["b_q"]}
    query_is_a_constant[0] = gradient(AttentionWeights(**arrays | frozen), TOKENS, 1)[0]
    with pytest.raises(AssertionError, match=r"at \(0, \d\)"):
        comparisons.check_gradient(MODEL, TOKENS, 1, query_is_a_constant)


@pytest.mark.parametrize(
    ("check", "allowed"),
    [
        (lambda got: assert_algebraic(got, [2.0, -3.0]), 3 * ALGEBRAIC),
        (lambda got: assert_algebraic(got, [2.0, -3.0], scale=5.0, condition=7.0), 35 * ALGEBRAIC),
        (lambda got: assert_quadrature(got, [2.0, -3.0], scale=5.0), 10 * QUADRATURE),
        (
            lambda got: assert_guaranteed(got, [2.0, -3.0], 5.0, 1e-12),
            5 * QUADRATURE * GUARANTEED + 1e-12,
        ),
        (
            lambda got: assert_statistical(got, [2.0, -3.0], standard_error=[0.1, 0.1]),
            0.1 * STATISTICAL,
        ),
        (lambda got: assert_difference(got, [2.0, -3.0], scale=5.0), 5 * DIFFERENCE),
    ],
)
def test_assertions_hold_their_stated_bound(check, allowed):
    check([2.0, -3.0])
    check([2.0 + 0.9 * allowed, -3.0 - 0.9 * allowed])
    for wrong in (
        [2.0 + 1.1 * allowed, -3.0],
        [2.0, -3.0 - 1.1 * allowed],
        [2.0 - 1.1 * allowed, -3.0],
    ):
        with pytest.raises(AssertionError, match="difference"):
            check(wrong)
    for wrong in ([np.nan, -3.0], [np.inf, -3.0]):
        with pytest.raises(AssertionError, match="not finite"):
            check(wrong)
    for wrong in (2.0, [2.0], [[2.0, -3.0]]):
        with pytest.raises(AssertionError, match="shapes"):
            check(wrong)


def test_a_bound_that_is_not_finite_is_no_bound():
    with pytest.raises(AssertionError, match="the bound itself is not finite"):
        assert_algebraic([1.0], [2.0], scale=np.inf)


def test_the_tolerances_are_different_numbers():
    assert len({ALGEBRAIC, QUADRATURE, GUARANTEED, STATISTICAL, DIFFERENCE}) == 5
