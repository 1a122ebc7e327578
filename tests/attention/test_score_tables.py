import numpy as np
import pytest
from hypothesis import given

from attn_closed_form._arrays import softmax
from attn_closed_form.attention.predict import scores
from tests.comparisons import magnitudes
from tests.strategies import PRIMES, make_weights, problems
from tests.tolerances import assert_algebraic


@given(problems())
def test_scores_are_query_times_key_and_last_layer_times_value(problem):
    """One token at a time, straight from P1 Eq. 5 to 8."""
    model, tokens, output = problem
    ids = [model.cls, *tokens, *[model.unk] * ((model.T_max or 0) - 1 - len(tokens))]
    if model.W_p is None:
        W_p = np.zeros((len(ids), model.d_e))
    else:
        W_p = model.W_p
    expected_s, expected_u = np.empty((2, model.K, len(ids)))
    for i in range(model.K):
        q = model.W_q[i] @ (model.W_e[model.cls] + W_p[0]) + model.b_q[i]
        for t, token in enumerate(ids):
            e = model.W_e[token] + W_p[t]
            expected_s[i, t] = q @ (model.W_k[i] @ e + model.b_k[i]) / np.sqrt(model.d_att)
            expected_u[i, t] = model.W_l[i, output] @ (model.W_v[i] @ e + model.b_v[i])
    seen, s, u = scores(model, tokens, output)
    assert seen.tolist() == ids
    assert s.flags.c_contiguous and u.flags.c_contiguous
    assert_algebraic(s, expected_s, magnitudes(model).score)
    assert_algebraic(u, expected_u, magnitudes(model).value)


def test_tables_are_built_once():
    model = make_weights(PRIMES, seed=0)
    assert model.collapse is model.collapse


def test_tables_have_the_stated_shapes():
    model = make_weights(PRIMES._replace(C=19), seed=0)
    shapes = {name: table.shape for name, table in model.collapse._asdict().items()}
    assert shapes == {
        "q": (2, 3),
        "w_k": (2, 7),
        "w_v": (2, 19, 7),
        "s_const": (2,),
        "u_const": (2, 19),
        "s_tok": (17, 2),
        "s_pos": (13, 2),
        "u_tok": (17, 2, 19),
        "u_pos": (13, 2, 19),
    }


@pytest.mark.usual_errors
def test_softmax_of_huge_logits():
    assert np.array_equal(softmax(np.array([1e4, 0.0, -1e300])), [1.0, 0.0, 0.0])
    assert np.array_equal(softmax(np.array([-1e4, -1e4])), [0.5, 0.5])
