from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_closed_form import TruncationWarning, gradient, predict
from attn_closed_form._arrays import softmax
from attn_closed_form.attention import (
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
)
from attn_closed_form.attention.gradient import StraightPath
from attn_closed_form.attention.predict import scores
from attn_closed_form.attention.weights import WEIGHT_AXES
from tests import comparisons
from tests.comparisons import magnitudes
from tests.profiles import mostly_slow
from tests.strategies import PRIMES, SHAPES, long_documents, make_weights, problems, weights
from tests.tolerances import QUADRATURE, assert_algebraic, assert_difference, assert_quadrature

PER_TOKEN = {
    gradient_mean: comparisons.check_gradient_mean,
    gradient_l1: comparisons.check_gradient_l1,
    gradient_l2: comparisons.check_gradient_l2,
    gradient_times_input: comparisons.check_gradient_times_input,
}


def plain_output(model, e, output):
    """f from embeddings e (..., T_max, d_e), in the precision of e, written once more from Eq. 5 to
    9.
    """
    total = np.zeros(e.shape[:-2], e.dtype)
    for i in range(model.K):
        q = e[..., 0, :] @ model.W_q[i].T + model.b_q[i]
        k = e @ model.W_k[i].T + model.b_k[i]
        v = e @ model.W_v[i].T + model.b_v[i]
        s = (k * q[..., None, :]).sum(axis=-1) / np.sqrt(e.dtype.type(model.d_att))
        g = np.exp(s - s.max(axis=-1, keepdims=True))
        mean = (g[..., None] * v).sum(axis=-2) / g.sum(axis=-1)[..., None]
        total = total + mean @ model.W_l[i, output]
    return total / model.K + model.b_l[output]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_a_central_difference(shape, seed):
    """Fourth order, extended precision where the machine has it; all T_max rows, [CLS] and padding
    included.
    """
    model = make_weights(shape, seed)
    tokens = np.random.default_rng(seed).integers(0, model.D, size=shape.T_max - 1 - seed % 2)
    output = seed % model.C
    ids = np.full(model.T_max, model.unk)
    ids[0] = model.cls
    ids[1 : 1 + len(tokens)] = tokens
    e = (model.W_e[ids] + model.W_p).astype(np.longdouble)
    assert_algebraic(
        plain_output(model, e, output), predict(model, tokens)[output], magnitudes(model).value
    )

    h = np.longdouble(1e-3)
    directions = np.eye(e.size, dtype=np.longdouble).reshape(e.size, *e.shape)
    one, two = (
        plain_output(model, e + n * h * directions, output)
        - plain_output(model, e - n * h * directions, output)
        for n in (1, 2)
    )
    expected = ((8 * one - two) / (12 * h)).reshape(e.shape)
    assert_difference(gradient(model, tokens, output), expected, magnitudes(model).gradient)


def single_head(model, i):
    return replace(
        model,
        **{name: a[i : i + 1] for name, a in model.arrays().items() if WEIGHT_AXES[name][0] == "K"},
    )


@given(problems(scores=(1.0, 30.0)))
def test_gradients_are_linear_over_heads(problem):
    model, tokens, output = problem
    size = magnitudes(model)
    for function in (gradient, gradient_mean, gradient_times_input):
        per_head = [function(single_head(model, i), tokens, output) for i in range(model.K)]
        assert_algebraic(
            function(model, tokens, output),
            np.mean(per_head, axis=0),
            size.gradient * model.d_e * 10,
            1 + size.score,
        )
    per_head = [integrated_gradients(single_head(model, i), tokens, output) for i in range(model.K)]
    assert_quadrature(
        integrated_gradients(model, tokens, output), np.mean(per_head, axis=0), 2 * size.value
    )


@given(problems())
def test_one_padding_token_has_the_gradient_of_unk(problem):
    """Padding is [UNK] and not masked: writing the [UNK]s out changes nothing but which rows are
    the document's.
    """
    model, tokens, output = problem
    written_out = [*tokens, *[model.unk] * ((model.T_max or 0) - 1 - len(tokens))]
    assert np.array_equal(gradient(model, tokens, output), gradient(model, written_out, output))


def test_the_cls_row_needs_the_extra_term():
    """Theorem 4.1 as printed is wrong in row 0, by far more than rounding, and right elsewhere."""
    model = make_weights(PRIMES, seed=1)
    tokens = [3, 5, 8]
    tables = model.collapse
    full = gradient(model, tokens)
    parts = gradient_parts(model, tokens)
    printed = parts[0].T @ tables.w_v[:, 0] + parts[1].T @ tables.w_k
    assert_algebraic(full[1:], printed[1:], magnitudes(model).gradient)
    assert np.abs(full[0] - printed[0]).max() > 1e-3


def gradient_parts(model, tokens):
    """The coefficients of w_v and of w_k in Theorem 4.1, each (K, T_max)."""
    _, s, u = scores(model, tokens, 0)
    alpha = softmax(s)
    f = (alpha * u).sum(axis=1, keepdims=True)
    return alpha / model.K, alpha * (u - f) / model.K


@given(problems())
def test_integrated_gradients_are_complete(problem):
    model, tokens, output = problem
    change = predict(model, tokens)[output] - predict(model, [model.unk] * len(tokens))[output]
    bound = max(len(tokens), 1) * magnitudes(model).value
    assert_quadrature(integrated_gradients(model, tokens, output).sum(), change, bound)


@pytest.mark.parametrize("seed", mostly_slow([4, 7, 8, 34], 1))
def test_integrated_gradients_where_a_token_takes_over_in_a_ten_thousandth_of_the_path(seed):
    """Rules that only compare themselves with each other step over such a take-over and agree on a
    wrong answer.
    """
    model = make_weights(PRIMES, seed, top_score=1e4)
    rng = np.random.default_rng(seed)
    tokens = rng.integers(2, model.D, size=rng.integers(1, model.T_max)).tolist()
    got = integrated_gradients(model, tokens)
    comparisons.check_integrated_gradients(model, tokens, 0, got, panels=4096)


def test_integrated_gradients_of_unk_are_zero():
    model = make_weights(PRIMES, seed=1)
    assert not integrated_gradients(model, [model.unk] * 5).any()


def test_a_tighter_tolerance_is_not_worse():
    model = make_weights(PRIMES, seed=1, top_score=30.0)
    tokens = [3, 5, 8, 5]
    exact = integrated_gradients(model, tokens, tol=1e-13)
    for tol in (1e-3, 1e-6, QUADRATURE):
        assert_quadrature(
            integrated_gradients(model, tokens, tol=tol), exact, magnitudes(model).value, tol
        )


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan, np.inf, True])
def test_bad_tolerance(tol):
    with pytest.raises(ValueError, match="tol"):
        integrated_gradients(make_weights(PRIMES, seed=1), [3], tol=tol)


EVERY = [gradient, *PER_TOKEN, integrated_gradients]


@pytest.mark.parametrize("function", EVERY)
@pytest.mark.parametrize("output", [-1, 3, 1.0, "0", True, None])
def test_bad_output(function, output):
    with pytest.raises(ValueError, match="output"):
        function(make_weights(PRIMES._replace(C=3), seed=1), [3], output=output)


@pytest.mark.parametrize("function", EVERY)
def test_a_combination_of_outputs_is_the_combination_of_their_scores(function):
    model = make_weights(PRIMES._replace(C=3), seed=1)
    tokens = [3, 5, 8]
    norm = function in (gradient_l1, gradient_l2)  # of one output by one, they are not linear
    margin = [1.0, -2.0, 0.0]
    combination = [function(model, tokens, c) for c in range(3)]
    if norm:
        grad = gradient(model, tokens, margin)[1:4]
        expected = np.linalg.norm(grad, ord=1 if function is gradient_l1 else 2, axis=1)
    else:
        expected = combination[0] - 2 * combination[1]
    size = magnitudes(model)
    if function is integrated_gradients:
        scale = size.value
    else:
        scale = size.gradient * model.d_e
    assert np.abs(function(model, tokens, margin) - expected).max() <= 1e-9 * scale


@pytest.mark.parametrize("function", EVERY)
def test_numpy_integers_are_outputs(function):
    model = make_weights(PRIMES._replace(C=3), seed=1)
    assert np.array_equal(function(model, [3], output=np.int32(2)), function(model, [3], output=2))


@pytest.mark.parametrize("function", EVERY)
@given(data=st.data())
@settings(max_examples=10)
def test_long_documents_are_cut_with_one_warning(function, data):
    model = data.draw(weights(scores=(1.0,), padded=True))
    tokens = data.draw(long_documents(model))
    kept = tokens[: model.T_max - 1]
    with pytest.warns(
        TruncationWarning, match=f"the last {len(tokens) - len(kept)} are dropped"
    ) as caught:
        got = function(model, tokens)
    assert len(caught) == 1
    assert np.array_equal(got, function(model, kept))


@pytest.mark.parametrize("function", EVERY)
def test_empty_document(function):
    model = make_weights(PRIMES, seed=1)
    got = function(model, [])
    assert got.shape == ((model.T_max, model.d_e) if function is gradient else (0,))


def straight_path(slopes, start):
    """A path of one head and three tokens whose values are all zero."""
    s0 = np.array([start])
    ds = np.array([slopes])
    return StraightPath(s0, 0 * s0, ds, 0 * s0, slice(None))


@pytest.mark.parametrize(("lead", "wide"), [(20.0, True), (45.0, True), (55.0, False)])
def test_a_token_of_small_attention_counts_in_the_movement_of_logits(lead, wide):
    """Attention of e^-45 is above an ulp of a sum; e^-55 is not, and its movement splits no panel."""
    path = straight_path([0.0, 0.0, -1000.0], [0.0, 0.0, -lead])
    assert path.too_wide(np.zeros(1), np.ones(1)).tolist() == [wide]


@pytest.mark.parametrize(("movement", "wide"), [(39.0, False), (41.0, True), (390.0, True)])
def test_logits_move_by_at_most_forty_within_a_panel(movement, wide):
    path = straight_path([movement, 0.0, 0.0], [-movement / 2, 0.0, 0.0])
    assert path.too_wide(np.zeros(1), np.ones(1)).tolist() == [wide]
