"""The twin by itself: lossless parameters, and functions that stay within one dtype."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from attn_closed_form import predict
from jax_model import (
    Params,
    embed,
    forward,
    forward_batch,
    from_embeddings,
    params_from_weights,
    weights_from_params,
)
from jax_model.witness import oracle
from tests.comparisons import magnitudes, twin
from tests.strategies import PRIMES, make_weights, weights
from tests.tolerances import assert_algebraic

MODEL = make_weights(PRIMES._replace(C=3), seed=7, cls=4, unk=2)


@given(weights())
def test_float64_round_trip_changes_no_bit(model):
    back = weights_from_params(params_from_weights(model), model.cls, model.unk)
    assert (back.cls, back.unk) == (model.cls, model.unk)
    for name, array in model.arrays().items():
        assert getattr(back, name).tobytes() == array.tobytes(), name


@given(weights())
def test_float32_parameters_survive_the_way_through_weights(model):
    params = params_from_weights(model, dtype=jnp.float32)
    again = params_from_weights(weights_from_params(params, model.cls, model.unk), dtype="float32")
    for name, one, two in zip(Params._fields, params, again, strict=True):
        if one is None or two is None:
            assert name == "W_p" and one is two is model.W_p
            continue
        assert one.dtype == two.dtype == jnp.float32
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes(), name


def test_float64_is_refused_where_jax_would_round_it():
    # The switch moved here from jax.experimental.
    if hasattr(jax, "enable_x64"):
        switch = jax.enable_x64
    else:
        switch = importlib.import_module("jax.experimental").enable_x64
    with switch(False):
        assert params_from_weights(MODEL).W_e.dtype == jnp.float32
        with pytest.raises(ValueError, match=r"^dtype: "):
            params_from_weights(MODEL, dtype="float64")


def test_parameters_are_checked_on_their_way_to_weights():
    params = params_from_weights(MODEL)
    with pytest.raises(ValueError, match=r"^W_v: "):
        weights_from_params(params._replace(W_v=params.W_v * jnp.nan))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_one_dtype_from_end_to_end(dtype):
    """Strict promotion: JAX refuses to mix dtypes instead of choosing one.

    Tracing is enough to see it.
    """
    params = params_from_weights(MODEL, dtype)
    ids = oracle.pad_ids([3, 5, 8], MODEL.T_max, MODEL.cls, MODEL.unk)
    with jax.numpy_dtype_promotion("strict"):
        results = [
            jax.eval_shape(forward, params, ids),
            jax.eval_shape(forward_batch, params, ids[None]),
            jax.eval_shape(oracle.attention, params, ids),
            jax.eval_shape(oracle.gradient, params, ids, 1),
            jax.eval_shape(oracle.gradient_batch, params, ids[None], 1),
            jax.eval_shape(oracle.integrated_gradients, params, ids, ids, 1),
        ]
    assert {result.dtype for result in results} == {jnp.dtype(dtype)}


def test_batches_are_single_documents():
    params, _ = twin(MODEL, [])
    documents = [[], [3], [5, 8, 3], [6] * 12]
    ids = jnp.stack([twin(MODEL, document)[1] for document in documents])
    size = magnitudes(MODEL)
    assert_algebraic(
        oracle.predict_batch(params, ids), [oracle.predict(params, row) for row in ids], size.value
    )
    assert_algebraic(
        oracle.gradient_batch(params, ids, 2),
        [oracle.gradient(params, row, 2) for row in ids],
        size.gradient,
    )


def test_forward_is_embed_then_the_rest():
    params, ids = twin(MODEL, [5, 8, 3])
    split = jax.jit(lambda params, ids: from_embeddings(params, embed(params, ids)))
    assert np.array_equal(oracle.predict(params, ids), split(params, ids))
    assert np.array_equal(embed(params, ids), MODEL.W_e[np.asarray(ids)] + MODEL.W_p)


def test_the_twin_in_plain_loops():
    """P1 section 2 with nothing but loops and sums: the witness has a witness."""
    tokens = [5, 8, 3]
    ids = [MODEL.cls, *tokens, *[MODEL.unk] * 9]
    f = np.array(MODEL.b_l)
    for i in range(MODEL.K):
        e = [MODEL.W_e[token] + MODEL.W_p[t] for t, token in enumerate(ids)]
        q = MODEL.W_q[i] @ e[0] + MODEL.b_q[i]
        g = [np.exp(q @ (MODEL.W_k[i] @ e_t + MODEL.b_k[i]) / np.sqrt(MODEL.d_att)) for e_t in e]
        v = sum(
            g_t / sum(g) * (MODEL.W_v[i] @ e_t + MODEL.b_v[i])
            for g_t, e_t in zip(g, e, strict=True)
        )
        f += MODEL.W_l[i] @ v / MODEL.K
    assert_algebraic(oracle.predict(*twin(MODEL, tokens)), f, magnitudes(MODEL).value)


def test_pad_ids():
    assert oracle.pad_ids([], 3, cls=7, unk=9).tolist() == [7, 9, 9]
    assert oracle.pad_ids([1, 2, 3, 4], 3).tolist() == [0, 1, 2]


@pytest.mark.slow
def test_parameters_can_be_trained():
    """One gradient step on every array lowers a loss; then the NumPy core agrees with the
    result.
    """
    params, ids = twin(MODEL, [5, 8, 3])

    def loss(p):
        return (forward(p, ids)[0] - 1.0) ** 2

    before, slope = jax.jit(jax.value_and_grad(loss))(params)
    # Shift invariance.
    assert {name for name, g in slope._asdict().items() if not g.any()} <= {"b_k"}
    stepped = jax.tree.map(lambda p, g: p - 1e-3 * g, params, slope)
    after = oracle.predict(stepped, ids)
    assert (after[0] - 1.0) ** 2 < before
    model = weights_from_params(stepped, MODEL.cls, MODEL.unk)
    assert_algebraic(predict(model, [5, 8, 3]), after, magnitudes(model).value)
