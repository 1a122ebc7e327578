"""The small transformer: what it may see, a plain transcription, relevance, and that it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from attn_closed_form.attention import random_weights
from attn_closed_form.attention.gradient import classifier_lrp, gradient_times_input
from benchmarks.papers.transformers.lrp import (
    transformer_gradient,
    transformer_gradient_times_input,
    transformer_integrated_gradients,
    transformer_lrp,
)
from benchmarks.papers.transformers.transformer import (
    PAD,
    Config,
    embed,
    forward,
    from_embeddings,
    init_transformer,
    pad_documents,
    predict_documents,
)
from jax_model.training.loop import Optimizer, cross_entropy, fit
from tests.tolerances import assert_algebraic

# Programs of a transformer are compiled for most of a minute.
pytestmark = pytest.mark.slow

D = 13
T = 7
IDS = np.array([[3, 5, 7, 11, 2, 5, 1], [4, 4, 6, 12, PAD, PAD, PAD]])


def model(**settings):
    config = Config(**{"D": D, "d": 6, "L": 2, "H": 3, "d_ff": 10, "T_max": 8} | settings)
    params = init_transformer(jax.random.key(1), config, jnp.float64)
    # Gains, shifts and biases leave their resting values, or a test could not see them.
    leaves, tree = jax.tree.flatten(params)
    rng = np.random.default_rng(2)
    return jax.tree.unflatten(
        tree, [leaf + 0.3 * rng.normal(size=leaf.shape) for leaf in leaves]
    ), config


def transcribed(params, config, ids):
    """One document, token by token, in NumPy: the formulas at the top of transformer.py."""
    p = jax.tree.map(np.asarray, params)

    def norm(x, gain, shift):
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * gain + shift

    h = [p["W_e"][i] + (p["W_p"][t] if config.positions else 0) for t, i in enumerate(ids)]
    width = len(p["layers"]["W_o"][0]) // config.H
    for n in range(config.L):
        q = {name: array[n] for name, array in p["layers"].items()}
        x = [norm(row, q["gain_1"], q["shift_1"]) for row in h]
        out = []
        for t in range(len(h)):
            if config.causal:
                seen = range(t + 1)
            else:
                seen = range(len(h))
            parts = []
            for i in range(config.H):
                own = slice(i * width, (i + 1) * width)
                query = (x[t] @ q["W_q"] + q["b_q"])[own]
                score = np.array(
                    [query @ (x[u] @ q["W_k"] + q["b_k"])[own] for u in seen]
                ) / np.sqrt(width)
                alpha = np.exp(score) / np.exp(score).sum()
                parts.append(
                    sum(
                        a * (x[u] @ q["W_v"] + q["b_v"])[own]
                        for a, u in zip(alpha, seen, strict=True)
                    )
                )
            out.append(h[t] + np.concatenate(parts) @ q["W_o"] + q["b_o"])
        h = []
        for row in out:
            hidden = norm(row, q["gain_2"], q["shift_2"]) @ q["W_1"] + q["b_1"]
            gelu = hidden * (1 + erf(hidden / np.sqrt(2))) / 2
            h.append(row + gelu @ q["W_2"] + q["b_2"])
    return norm(h[-1 if config.causal else 0], p["gain"], p["shift"]) @ p["w"] + p["b"]


@pytest.mark.parametrize(
    ("causal", "L", "positions", "d_h"),
    [(False, 1, False, None), (True, 1, True, None), (False, 2, True, None), (False, 2, True, 5)],
)
def test_agrees_with_a_plain_transcription(causal, L, positions, d_h):
    params, config = model(causal=causal, L=L, positions=positions, d_h=d_h)
    expected = [transcribed(params, config, row[row >= 0]) for row in IDS]
    assert_algebraic(forward(params, config, IDS), expected, scale=10.0, condition=10.0)


def test_a_decoder_does_not_look_ahead():
    """Positions behind the one that is classified have no influence; an encoder's have it, says the
    transcription.
    """
    params, config = model(causal=True)
    shown = jnp.array([[True, True, True, True, False]])  # classified at the fourth
    slope = jax.jit(jax.grad(lambda e: from_embeddings(params, config, e, shown).sum()))(
        embed(params, IDS[:1, :5])
    )
    size = np.abs(slope).sum(axis=-1)[0]
    assert (size[:4] > 0).all()
    assert size[4] == 0


def test_without_positions_order_is_nothing_and_with_them_it_is_something():
    shuffled = IDS[:1, [0, 3, 2, 1, 6, 5, 4]]
    for positions in (False, True):
        params, config = model(positions=positions)
        a = forward(params, config, IDS[:1])
        b = forward(params, config, shuffled)
        assert (abs(a - b)[0] < 1e-12) != positions


def test_repetitions_do_nothing_without_cls_and_positions():
    """P2 Prop. 4.1 and Cor. 4.3; with a [CLS] token in front they fail."""
    documents = [[4] * k for k in (1, 2, 3, 7)]
    for causal in (True, False):
        params, config = model(positions=False, causal=causal, L=3)
        assert np.ptp(predict_documents(params, config, documents)) < 1e-12
    assert np.ptp(predict_documents(params, config, documents, first=(0,))) > 1e-3


def test_padding_and_batching_change_nothing():
    params, config = model(causal=True, positions=False)
    rng = np.random.default_rng(0)
    documents = [rng.integers(1, D, size=n) for n in [1, 2, 9, 17, 3] * 8]
    got = predict_documents(params, config, documents, first=(0,))
    one = [transcribed(params, config, [0, *document]) for document in documents[:5]]
    assert_algebraic(got[:5], one, scale=10.0, condition=10.0)
    assert got.shape == (40,)


def test_every_parameter_has_a_gradient():
    params, config = model()
    slope = jax.grad(lambda p: (forward(p, config, IDS) ** 2).sum())(params)
    for path, leaf in jax.tree_util.tree_leaves_with_path(slope):
        # A constant added to all keys cancels in the softmax.
        name = jax.tree_util.keystr(path)
        assert (np.abs(leaf).max() > 1e-8) != ("b_k" in name), name


def test_learns_whether_a_token_comes_before_another():
    config = Config(D=6, d=16, L=1, H=2, d_ff=16, T_max=8, causal=True)
    rng = np.random.default_rng(0)

    def draw(n):
        ids = rng.integers(2, 6, size=(n, 6))
        at = rng.random((n, 6)).argsort(axis=1)[:, :2]
        np.put_along_axis(ids, at, np.array([[0, 1]]), axis=1)
        return ids, (at[:, 0] < at[:, 1]).astype(np.float64)

    def loss(params, ids, labels):
        return cross_entropy(forward(params, config, ids), labels).mean()

    start = init_transformer(jax.random.key(0), config, jnp.float64)
    params = fit(loss, start, lambda step: draw(64), 250, Optimizer(1e-2, warmup_steps=20)).params
    ids, labels = draw(500)
    right = (np.asarray(forward(params, config, ids)) > 0) == (labels > 0)
    assert right.mean() > 0.95
    assert abs(((np.asarray(forward(start, config, ids)) > 0) == (labels > 0)).mean() - 0.5) < 0.2


def test_integrated_gradients_are_complete():
    params, config = model()
    baseline = np.where(IDS >= 0, 1, IDS)
    scores = transformer_integrated_gradients(params, config, IDS, baseline, steps=400)
    change = forward(params, config, IDS) - forward(params, config, baseline)
    assert np.abs(scores.sum(axis=1) - change).max() < 1e-4 * np.abs(change).max()


def test_gradients_are_differences():
    params, config = model()
    e = embed(params, IDS[:1])
    step = 1e-6
    real = jnp.ones((1, T), bool)

    output = jax.jit(lambda e: from_embeddings(params, config, e, real)[0])

    def f(e):
        return float(output(e))

    got = transformer_gradient(params, config, IDS[:1])
    times_input = transformer_gradient_times_input(params, config, IDS[:1])
    for t in (0, 4):
        for direction, expected in (
            (np.ones(6) / 6, got[0, t]),
            (np.asarray(e[0, t]), times_input[0, t]),
        ):
            delta = jnp.zeros_like(e).at[0, t].set(step * direction)
            assert (f(e + delta) - f(e - delta)) / (2 * step) == pytest.approx(
                expected, rel=1e-5, abs=1e-8
            )


def test_lrp_keeps_values_and_conserves_without_biases_and_attention_scores():
    """With uniform attention (zero keys) and no biases only linear and passed-through steps are
    left, each conserving.

    Half of a product's relevance goes to the attention weights, and dies there.
    """
    params, config = model(L=1)
    zero = {
        name: jnp.zeros_like(x) if name[:2] in ("b_", "sh") else x
        for name, x in params["layers"].items()
    }
    zero["W_k"] = jnp.zeros_like(zero["W_k"])
    params = params | {"layers": zero, "shift": jnp.zeros(6), "b": jnp.zeros(())}
    # Without the attention block all of f reaches the first token; with it alone half of its part
    # is lost.
    off = params | {"layers": zero | {"W_o": jnp.zeros_like(zero["W_o"])}}
    relevance = transformer_lrp(off, config, IDS[:1])[0]
    assert relevance[0] == pytest.approx(float(forward(off, config, IDS[:1])[0]), rel=1e-3)
    assert np.abs(relevance[1:]).max() < 1e-12
    relevance = transformer_lrp(params, config, IDS[:1])[0]
    assert np.abs(relevance[1:]).min() > 1e-6


def test_lrp_of_the_classifier_is_half_the_value_part_and_a_quarter_of_the_key_part():
    """The same steps in autodiff, by stopped gradients, on the model of P1."""
    from attn_closed_form._arrays import softmax
    from attn_closed_form.attention.predict import as_tokens, scores

    weights = random_weights(seed=5)
    tokens = [4, 9, 2]
    _, s, u = scores(weights, as_tokens(weights, tokens), 0)
    alpha = softmax(s)
    f = (alpha * u).sum(axis=1, keepdims=True)
    tables = weights.collapse
    value = (alpha * (u - tables.u_const[:, 0, None])).sum(axis=0)[1:4] / weights.K
    full = gradient_times_input(weights, tokens)
    got = classifier_lrp(weights, tokens)
    assert_algebraic(got, value / 2 + (full - value) / 4, scale=np.abs(full).max())
    assert f.shape == (weights.K, 1)


def test_pad_documents_refuses_what_does_not_fit():
    for document in ([], [1, 2, 3]):
        with pytest.raises(ValueError, match=r"^documents:"):
            pad_documents([document], length=2)
    with pytest.raises(ValueError, match=r"^d:"):
        init_transformer(jax.random.key(0), Config(D=3, d=5, H=2))
