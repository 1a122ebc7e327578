from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import TruncationWarning, alpha, predict
from attn_closed_form.attention import alpha_avg, alpha_max, attention_matrices
from tests.comparisons import magnitudes
from tests.strategies import PRIMES, long_documents, make_weights, problems, weights
from tests.tolerances import assert_algebraic


@given(problems())
def test_attention_is_a_distribution(problem):
    model, tokens, _ = problem
    for rows in (alpha(model, tokens), attention_matrices(model, tokens)):
        assert (rows >= 0).all()
        assert_algebraic(rows.sum(axis=-1), np.ones(rows.shape[:-1]))


@given(problems())
def test_pooled_over_heads(problem):
    """P1 Eq. 10 and 11."""
    model, tokens, _ = problem
    own = alpha(model, tokens)[:, 1 : 1 + len(tokens)]
    assert_algebraic(alpha_avg(model, tokens), own.mean(axis=0))
    assert np.array_equal(alpha_max(model, tokens), own.max(axis=0))
    assert alpha_avg(model, tokens).shape == (len(tokens),)


@given(problems(), st.sampled_from([-1e3, 1e-3, 1e3]))
def test_shift_of_the_scores_changes_nothing(problem, shift):
    """A key bias along the [CLS] query adds one constant to all logits of a head."""
    model, tokens, _ = problem
    q = model.collapse.q
    length = (q**2).sum(axis=1, keepdims=True)
    if (length == 0).any():
        return
    shifted = replace(model, b_k=model.b_k + shift * np.sqrt(model.d_att) * q / length)
    condition = 1 + magnitudes(shifted).score
    assert_algebraic(alpha(shifted, tokens), alpha(model, tokens), 1.0, condition)
    assert_algebraic(
        predict(shifted, tokens), predict(model, tokens), magnitudes(model).value, condition
    )


def test_zero_queries_attend_uniformly():
    model = make_weights(PRIMES, seed=1, top_score=0.0)
    assert_algebraic(alpha(model, [3, 5]), np.full((model.K, model.T_max), 1 / model.T_max))


@given(st.data())
def test_long_documents_are_cut_with_one_warning(data):
    model = data.draw(weights(scores=(1.0,), padded=True))
    tokens = data.draw(long_documents(model))
    kept = tokens[: model.T_max - 1]
    for function in (alpha, attention_matrices, alpha_avg, alpha_max):
        with pytest.warns(
            TruncationWarning, match=f"the last {len(tokens) - len(kept)} are dropped"
        ) as caught:
            got = function(model, tokens)
        assert len(caught) == 1
        assert np.array_equal(got, function(model, kept))
