"""The trainer's forward pass against the twin's naive one, and against the core's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_closed_form import load_demo_model
from attn_closed_form.attention import predict_many, random_weights
from attn_closed_form.attention.predict import document_scores
from jax_model import Params, forward, forward_batch, params_from_weights, weights_from_params
from jax_model.training.batches import encode_documents, pad_rows
from jax_model.training.config import Config
from jax_model.training.text_model import (
    collapsed_forward,
    start_arrays,
    start_from_tables,
    take_masses,
)
from jax_model.witness.oracle import pad_ids
from tests.profiles import mostly_slow
from tests.texts import six_heads


# With K = 2 heads of width 7: tables for one, embeddings for five.
@pytest.mark.parametrize("C", mostly_slow([2, 1, 5], 1))
@pytest.mark.parametrize("T_max", mostly_slow([11, None], 1))
def test_the_collapsed_forward_is_the_naive_one(C, T_max):
    rng = np.random.default_rng(0)
    params = params_from_weights(
        random_weights(0, D=17, d_e=7, T_max=T_max, K=2, d_att=3, d_out=5, C=C, biases=True)
    )
    ids = jnp.array(rng.integers(17, size=(4, 11))).at[:, 0].set(3)

    def fast(p):
        return collapsed_forward(p, ids, cls=3)

    def naive(p):
        return forward_batch(p, ids)

    np.testing.assert_allclose(
        jax.jit(fast)(params), jax.jit(naive)(params), rtol=1e-12, atol=1e-12
    )
    weight = jnp.array(rng.normal(size=(4, C)))
    slopes = [
        jax.jit(jax.grad(lambda p, f=f: (f(p) * weight).sum()))(params) for f in (fast, naive)
    ]
    for name in Params._fields:
        a, b = (getattr(slope, name) for slope in slopes)
        if name == "W_p" and T_max is None:
            assert a is b is None
        else:
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("C", mostly_slow([5, 1], 1))
def test_what_is_no_token_changes_nothing(C):
    """Documents of several lengths in one batch, against the witness on each alone; gradients as
    well.
    """
    rng = np.random.default_rng(0)
    params = params_from_weights(
        random_weights(0, D=17, d_e=7, T_max=None, K=2, d_att=3, d_out=5, C=C, biases=True)
    )
    rows = [[3, *rng.integers(17, size=n)] for n in (4, 0, 9)]
    ids = jnp.array([[*row, *[-1] * (10 - len(row))] for row in rows])
    weight = jnp.array(rng.normal(size=(3, C)))

    def batch(p):
        return (collapsed_forward(p, ids, cls=3) * weight).sum()

    def alone(p):
        return sum(forward(p, jnp.array(row)) @ w for row, w in zip(rows, weight, strict=True))

    (one, slopes), (other, expected) = (
        jax.jit(jax.value_and_grad(f))(params) for f in (batch, alone)
    )
    np.testing.assert_allclose(one, other, rtol=1e-12)
    for a, b in zip(jax.tree.leaves(slopes), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def some_texts():
    return [
        "",
        "A wonderful film.",
        "Dull. Dull! DULL!<br />I left after an hour; 2/10.",
        "The plot is thin, but the actors are a delight and the music stays with you for days. "
        * 3,
        " ".join(["never", "again", "please", "unknownword"] * 60),
    ]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), mostly_slow([("float64", 1e-10), ("float32", 1e-5)], 1)
)
@pytest.mark.parametrize("make", mostly_slow([load_demo_model, six_heads], 1))
def test_numpy_and_twin_agree_on_the_shipped_model_and_on_one_with_six_heads(
    make, dtype, tolerance
):
    model = make()
    weights = model.weights
    vocabulary = model.vocabulary
    documents = [vocabulary.encode(text) for text in some_texts()]
    encoded = encode_documents(vocabulary, some_texts(), [0] * 5)
    expected = predict_many(weights, documents)
    params = params_from_weights(weights, dtype)
    if weights.T_max is None:
        length = 241
        filler = -1
    else:
        length = weights.T_max
        filler = weights.unk
    ids = jnp.array(pad_rows(encoded, np.arange(5), length, weights.cls, filler))
    # The witness knows nothing of rows that are filled up: it gets each document alone.
    witness = [jax.jit(forward)(params, pad_ids(d, weights.T_max)) for d in documents]
    # Rounding is relative to the largest logit, which is 18 since the model starts from tables.
    allowed = tolerance * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(witness, expected, rtol=0, atol=allowed)
    collapsed = jax.jit(collapsed_forward)(params, ids)
    np.testing.assert_allclose(collapsed, expected, rtol=0, atol=allowed)
    if make is load_demo_model:
        assert expected[1] > 0 > expected[2]


@pytest.mark.parametrize("heads", mostly_slow([2, 1], 1))
def test_a_start_from_tables_computes_the_tables(heads):
    """A text's outputs are those of the tables with the masses and values relative to [CLS]."""
    config = Config(K=heads, d_e=11, d_att=3, d_out=5)
    rng = np.random.default_rng(0)
    fixed, trained = start_arrays(config, D=17, C=3, cls=0, unk=1)
    masses = rng.normal(size=17)
    values = rng.normal(size=(17, 3))
    start_from_tables(trained, fixed, 0, 1, masses, values)
    ids = np.array([[0, 4, 9, 4, 16]])
    empty = np.array([[0]])
    params = Params(**fixed, **trained)
    compiled = jax.jit(collapsed_forward)
    found = compiled(params, jnp.array(ids)) - compiled(params, jnp.array(empty))
    mass = np.exp(masses[ids[0, 1:]])
    expected = mass @ values[ids[0, 1:]] / (1 + mass.sum())
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("d_e", [5, 11])
def test_words_without_mass_change_no_output(d_e):
    """Two heads and three classes read eight numbers, which five columns cannot all have."""
    config = Config(K=2, d_e=d_e, d_att=3, d_out=7)
    fixed, trained = start_arrays(config, D=17, C=3, cls=0, unk=1)
    massless = np.isin(np.arange(17), [4, 16])
    changed = take_masses(trained, fixed, 0, massless)
    weights = weights_from_params(Params(**fixed, **changed), 0, 1)
    assert (np.exp(document_scores(weights, np.array([4, 16])).s) == 0).all()
    with_them, without_them = predict_many(weights, [np.array([4, 9, 4, 16, 3]), np.array([9, 3])])
    np.testing.assert_allclose(with_them, without_them, rtol=1e-13)
    np.testing.assert_array_equal(changed["W_e"][~massless], trained["W_e"][~massless])
