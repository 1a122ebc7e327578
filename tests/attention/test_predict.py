import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import AttentionWeights, TruncationWarning, predict
from attn_closed_form.attention import pooled_game, predict_many, random_weights
from attn_closed_form.attention.predict import document_scores, scores
from attn_closed_form.attention.weights import WEIGHT_AXES
from tests.comparisons import magnitudes
from tests.strategies import PRIMES, documents, long_documents, make_weights, weights
from tests.tolerances import assert_algebraic


@given(st.data())
def test_predict_many_is_predict(data):
    model = data.draw(weights())
    batch = data.draw(st.lists(documents(model), max_size=5))
    got = predict_many(model, batch)
    assert got.shape == (len(batch), model.C)
    size = magnitudes(model)
    for row, tokens in zip(got, batch, strict=True):
        assert_algebraic(row, predict(model, tokens), size.value, 1 + size.score)


def test_predict_many_takes_a_matrix_and_works_in_blocks(monkeypatch):
    # By its full name: `classifier.predict` is the function.
    monkeypatch.setattr(sys.modules["attn_closed_form.attention.predict"], "DOCUMENT_ELEMENTS", 60)
    model = make_weights(PRIMES, seed=1)
    ids = np.random.default_rng(0).integers(0, model.D, size=(11, 5))
    got = predict_many(model, ids)
    assert_algebraic(got, [predict(model, row) for row in ids], magnitudes(model).value)
    assert_algebraic(predict_many(model, ids.tolist()), got, magnitudes(model).value)
    assert predict_many(model, ids[:0]).shape == (0, 1)


def test_heads_are_averaged():
    model = make_weights(PRIMES, seed=2)
    tokens = [3, 5, 8, 5]
    per_head = [predict(single_head(model, i), tokens) for i in range(model.K)]
    assert_algebraic(predict(model, tokens), np.mean(per_head, axis=0), magnitudes(model).value)


def single_head(model, i):
    return replace(
        model,
        **{name: a[i : i + 1] for name, a in model.arrays().items() if WEIGHT_AXES[name][0] == "K"},
    )


def test_padding_is_unk():
    model = make_weights(PRIMES, seed=2)
    assert np.array_equal(predict(model, [3, 5]), predict(model, [3, 5, *[model.unk] * 10]))
    assert np.array_equal(predict(model, []), predict(model, [model.unk]))


@given(st.data())
def test_without_positions_order_and_length_do_not_matter(data):
    shape = data.draw(st.sampled_from([PRIMES, PRIMES._replace(K=1, C=3)]))
    model = make_weights(shape, seed=data.draw(st.integers(0, 99)), positions=None)
    assert model.T_max is None and "W_p" not in model.arrays()
    tokens = data.draw(st.lists(st.integers(0, model.D - 1), min_size=1, max_size=40))
    size = magnitudes(model).value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = predict(model, tokens)
        assert_algebraic(predict(model, data.draw(st.permutations(tokens))), expected, size)
        # Every token twice is every token once, but for the weight of [CLS].
        whole = document_scores(model, np.array(tokens * 1000)).logits()
    alone = document_scores(model, np.array(tokens))
    without_cls = replace(alone, s_background=np.full(model.K, -np.inf)).logits()
    assert np.abs(whole - without_cls).max() <= 0.01 * size
    present = data.draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    game = pooled_game(model, tokens)
    left = [token for token, kept in zip(tokens, present, strict=True) if kept]
    assert_algebraic(game.value(present), predict(model, left)[0], size)
    masked = [token if kept else model.unk for token, kept in zip(tokens, present, strict=True)]
    assert_algebraic(
        pooled_game(model, tokens, absent="unk").value(present), predict(model, masked)[0], size
    )


def test_an_empty_document_without_positions_is_the_value_of_cls():
    model = make_weights(PRIMES, seed=2, positions=None)
    e = model.W_e[model.cls]
    expected = (
        np.mean([model.W_l[i] @ (model.W_v[i] @ e + model.b_v[i]) for i in range(model.K)], axis=0)
        + model.b_l
    )
    assert_algebraic(predict(model, []), expected, magnitudes(model).value)
    assert_algebraic(predict_many(model, [[], [3, 5]])[0], expected, magnitudes(model).value)


def test_constant_values_give_the_constant():
    model = make_weights(PRIMES, seed=2, top_score=1e4)
    arrays = model.arrays() | {"W_v": np.zeros_like(model.W_v)}
    constant = np.einsum("kco,ko->c", model.W_l, model.b_v) / model.K + model.b_l
    assert_algebraic(
        predict(AttentionWeights(**arrays), [3, 5, 8]), constant, magnitudes(model).value
    )


def test_hard_attention_picks_one_token():
    """With a logit 1e4 above the rest the prediction is the value of one token, without
    overflow.
    """
    model = AttentionWeights(
        W_e=np.diag([0.0, 0.0, 1e4, 1.0]),
        W_p=np.ones((5, 4)) * [1.0, 0.0, 0.0, 0.0],
        W_q=[[[1.0, 0.0, 0.0, 0.0]]],
        W_k=[[[0.0, 0.0, 1.0, 0.0]]],
        W_v=[[[0.0, 0.0, 3.0, 5.0]]],
        W_l=[[[1.0]]],
    )
    assert predict(model, [3, 2, 3])[0] == 3e4
    assert predict(model, [3, 3, 1])[0] == 2.0  # no logit stands out: two tokens of five, 5 each


@given(st.data())
def test_long_documents_are_cut_with_a_warning_that_counts(data):
    model = data.draw(weights(scores=(1.0,), padded=True))
    tokens = data.draw(long_documents(model))
    room = model.T_max - 1
    dropped = len(tokens) - room
    message = (
        f"document of {len(tokens)} tokens: the model has room for {room}; the last {dropped} are "
        "dropped"
    )
    for call in (
        lambda: predict(model, tokens),
        lambda: predict_many(model, np.array([tokens]))[0],
    ):
        with pytest.warns(TruncationWarning, match=message) as caught:
            got = call()
        assert len(caught) == 1
        assert np.array_equal(got, predict(model, tokens[:room]))


def test_a_full_document_does_not_warn():
    model = make_weights(PRIMES, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict(model, [3] * (model.T_max - 1))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([3, 17], r"expected ids in 0\.\.16, got 17 at position 1"),
        ([-1], r"expected ids in 0\.\.16, got -1 at position 0"),
        ([1.0, 2.0], r"expected integer ids, got dtype float64"),
        (["word"], r"expected integer ids, got dtype <U4"),
        ([True], r"expected integer ids, got dtype bool"),
        ([[1, 2]], r"expected a one-dimensional sequence of ids, got shape \(1, 2\)"),
        (3, r"expected a one-dimensional sequence of ids, got shape \(\)"),
        ([[]], r"expected a one-dimensional sequence of ids, got shape \(1, 0\)"),
    ],
)
def test_bad_tokens(tokens, message):
    with pytest.raises(ValueError, match=rf"^tokens: {message}"):
        predict(make_weights(PRIMES, seed=2), tokens)


def test_ids_beyond_the_cut_are_checked_too():
    model = make_weights(PRIMES, seed=2)
    with pytest.raises(ValueError, match=r"^tokens: "):
        predict(model, [3] * 20 + [99])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64])
def test_any_integer_type(dtype):
    model = make_weights(PRIMES, seed=2)
    assert np.array_equal(predict(model, np.array([3, 5], dtype)), predict(model, [3, 5]))


def test_random_weights_are_seeded():
    assert np.array_equal(random_weights(4).W_q, random_weights(4).W_q)
    assert not np.array_equal(random_weights(4).W_q, random_weights(5).W_q)
    assert random_weights(4, biases=True, C=3).b_l.shape == (3,)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1, 2, 3], r"^documents\[0\]: "),
        ([[1, 2], [1, 10**6]], r"^documents\[1\]: "),
        (np.array([[1, 2], [-1, 2]]), r"^documents\[1\]: "),
        ([[1], ["a"]], r"^documents\[1\]: "),
        (
            [[1], [[1], [2, 3]]],
            r"^documents\[1\]: ",
        ),
    ],
)
def test_predict_many_names_the_document(batch, message):
    with pytest.raises(ValueError, match=message):
        predict_many(make_weights(PRIMES, seed=1), batch)


def test_the_scale_of_random_weights_multiplies_the_scores():
    plain = random_weights(3)
    steep = random_weights(3, score_scale=5.0)
    np.testing.assert_allclose(
        scores(steep, [4, 7], 0).s, 5 * scores(plain, [4, 7], 0).s, rtol=1e-12
    )
