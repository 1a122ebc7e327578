"""Every closed form of the classifier in fifty digits: loops over the paper's sums, and derivatives
as differences.

Nothing of the library is used but the arrays of the weights. A derivative is a central difference
with a step of 1e-15, whose error of 1e-30 no float sees.
"""

import mpmath as mp
import numpy as np
import pytest

from attn_closed_form import PooledGame, Slalom
from attn_closed_form.attention import (
    alpha,
    alpha_avg,
    alpha_max,
    attention_matrices,
    classifier_lrp,
    gradient,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
    pooled_game,
    predict,
    predict_many,
)
from attn_closed_form.slalom import slalom_from_weights, slalom_linearized, slalom_to_weights
from tests.oracles import checks
from tests.profiles import mostly_slow
from tests.strategies import PRIMES, make_weights

TOKENS = [3, 5, 8, 5]
MODELS = {
    "two heads": make_weights(PRIMES._replace(C=3), seed=4, top_score=3.0),
    "no positions": make_weights(PRIMES._replace(C=3), seed=6, top_score=3.0, positions=None),
}
OUTPUT = 1
STEP = mp.mpf("1e-15")
# A few hundred roundings of numbers of order one, relative to the largest number of a result.
ROUNDING = 1e-13


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(50):
        yield


def row(x):
    return [mp.mpf(float(y)) for y in x]


def dot(a, b):
    return mp.fsum(x * y for x, y in zip(a, b, strict=True))


def embedded(weights, tokens):
    """The rows of [CLS], the document and the padding."""
    ids = [weights.cls, *tokens]
    if weights.T_max is None:
        return [row(weights.W_e[token]) for token in ids]
    ids += [weights.unk] * (weights.T_max - len(ids))
    return [
        [x + y for x, y in zip(row(weights.W_e[token]), row(weights.W_p[t]), strict=True)]
        for t, token in enumerate(ids)
    ]


def layer(W, b, e):
    return [dot(row(line), e) + x for line, x in zip(W, row(b), strict=True)]


def attention_of(weights, i, query, e):
    """The softmax of one row of the attention matrix of head i."""
    q = layer(weights.W_q[i], weights.b_q[i], query)
    scores = [dot(q, layer(weights.W_k[i], weights.b_k[i], x)) / mp.sqrt(weights.d_att) for x in e]
    masses = [mp.exp(s) for s in scores]
    return [g / mp.fsum(masses) for g in masses]


def values_of(weights, i, e, output):
    """What head i has to say about one output at every position."""
    head = [layer(weights.W_v[i], weights.b_v[i], x) for x in e]
    return [dot(row(weights.W_l[i, output]), v) for v in head]


def output_of(weights, e, output):
    """One output of the model, from the embedded tokens."""
    heads = [
        dot(attention_of(weights, i, e[0], e), values_of(weights, i, e, output))
        for i in range(weights.K)
    ]
    return mp.fsum(heads) / weights.K + mp.mpf(float(weights.b_l[output]))


def gradient_of(weights, e, places, output=OUTPUT):
    """Central differences by the coordinates of some rows."""
    rows = []
    for t in places:
        differences = []
        for j in range(weights.d_e):
            sides = []
            for step in (STEP, -STEP):
                moved = [list(x) for x in e]
                moved[t][j] += step
                sides.append(output_of(weights, moved, output))
            differences.append((sides[0] - sides[1]) / (2 * STEP))
        rows.append(differences)
    return rows


def assert_agrees(got, exact):
    exact = np.array(exact, dtype=object).astype(np.float64)
    np.testing.assert_allclose(got, exact, rtol=0, atol=ROUNDING * np.abs(exact).max())
    # The comparison can fail.
    assert np.abs(exact).max() > 1e-3


OF_DOCUMENT = range(1, 1 + len(TOKENS))


@checks(predict, predict_many, by="more digits")
@pytest.mark.parametrize("name", MODELS)
def test_predictions(name):
    weights = MODELS[name]
    e = embedded(weights, TOKENS)
    exact = [output_of(weights, e, c) for c in range(weights.C)]
    assert_agrees(predict(weights, TOKENS), exact)
    other = [output_of(weights, embedded(weights, [9, 2]), c) for c in range(weights.C)]
    assert_agrees(predict_many(weights, [TOKENS, [9, 2]]), [exact, other])


@checks(attention_matrices, alpha, alpha_avg, alpha_max, by="more digits")
@pytest.mark.parametrize("name", MODELS)
def test_attention(name):
    weights = MODELS[name]
    e = embedded(weights, TOKENS)
    matrices = [[attention_of(weights, i, x, e) for x in e] for i in range(weights.K)]
    assert_agrees(attention_matrices(weights, TOKENS), matrices)
    rows = [matrix[0] for matrix in matrices]
    assert_agrees(alpha(weights, TOKENS), rows)
    assert_agrees(
        alpha_avg(weights, TOKENS), [mp.fsum(r[t] for r in rows) / weights.K for t in OF_DOCUMENT]
    )
    assert_agrees(alpha_max(weights, TOKENS), [max(r[t] for r in rows) for t in OF_DOCUMENT])


@checks(gradient, by="more digits")
def test_gradients_by_every_embedded_token():
    weights = MODELS["no positions"]
    e = embedded(weights, TOKENS)
    assert_agrees(gradient(weights, TOKENS, OUTPUT), gradient_of(weights, e, range(len(e))))


@checks(gradient_mean, gradient_l1, gradient_l2, gradient_times_input, by="more digits")
@pytest.mark.parametrize("name", mostly_slow(["no positions", "two heads"], 0))
def test_scores_from_gradients(name):
    weights = MODELS[name]
    e = embedded(weights, TOKENS)
    rows = gradient_of(weights, e, OF_DOCUMENT)
    inputs = [e[t] for t in OF_DOCUMENT]
    means = [mp.fsum(r) / weights.d_e for r in rows]
    assert_agrees(gradient_mean(weights, TOKENS, OUTPUT), means)
    assert_agrees(gradient_l1(weights, TOKENS, OUTPUT), [mp.fsum(map(abs, r)) for r in rows])
    norms = [mp.sqrt(mp.fsum(x * x for x in r)) for r in rows]
    assert_agrees(gradient_l2(weights, TOKENS, OUTPUT), norms)
    products = [dot(r, x) for r, x in zip(rows, inputs, strict=True)]
    assert_agrees(gradient_times_input(weights, TOKENS, OUTPUT), products)


@checks(integrated_gradients, by="more digits")
def test_integrated_gradients():
    """Gauss-Legendre with 24 nodes on the path of a model whose logits hardly move along it."""
    small = PRIMES._replace(K=1, d_e=3, d_att=2, d_out=1)
    weights = make_weights(small, seed=8, top_score=1.0, positions=None)
    tokens = TOKENS[:2]
    here = embedded(weights, tokens)
    start = embedded(weights, [weights.unk] * len(tokens))
    nodes, rule = np.polynomial.legendre.leggauss(24)
    exact = [mp.mpf(0)] * len(tokens)
    for x, w in zip(nodes, rule, strict=True):
        tau = (1 + mp.mpf(float(x))) / 2
        e = [
            [a + tau * (b - a) for a, b in zip(*pair, strict=True)]
            for pair in zip(start, here, strict=True)
        ]
        for t, slopes in enumerate(gradient_of(weights, e, range(1, 1 + len(tokens)), 0)):
            change = [b - a for a, b in zip(start[1 + t], here[1 + t], strict=True)]
            exact[t] += mp.mpf(float(w)) / 2 * dot(slopes, change)
    got = integrated_gradients(weights, tokens, 0)
    np.testing.assert_allclose(got, [float(x) for x in exact], rtol=0, atol=1e-10)
    assert np.abs(got).min() > 1e-3


@checks(classifier_lrp, by="more digits")
@pytest.mark.parametrize("name", MODELS)
def test_relevance_rule_by_rule(name):
    """Products halve it, linear maps pass it on in proportion, the softmax by its Jacobian
    (AttnLRP).
    """
    weights = MODELS[name]
    e = embedded(weights, TOKENS)
    exact = [mp.mpf(0)] * len(TOKENS)
    for i in range(weights.K):
        a = attention_of(weights, i, e[0], e)
        u = values_of(weights, i, e, OUTPUT)
        q = layer(weights.W_q[i], weights.b_q[i], e[0])
        # The product of attention and value: half of every term to each of them.
        of_values = [x * y / 2 for x, y in zip(a, u, strict=True)]
        of_attention = of_values
        passed = mp.fsum(of_attention)
        for k, t in enumerate(OF_DOCUMENT):
            key = layer(weights.W_k[i], weights.b_k[i], e[t])
            score = dot(q, key) / mp.sqrt(weights.d_att)
            of_score = score * (of_attention[t] - a[t] * passed)
            # The product of query and key: half to the key, in proportion to its terms, then
            # through its layer.
            for j in range(weights.d_e):
                column = row(weights.W_k[i][:, j])
                share = dot(q, column) * e[t][j] / mp.sqrt(weights.d_att) / score
                exact[k] += of_score / 2 * share / weights.K
            # The value: through its layer, in proportion.
            through = [dot(row(weights.W_l[i, OUTPUT]), row(W)) for W in weights.W_v[i].T]
            exact[k] += of_values[t] * dot(through, e[t]) / u[t] / weights.K
    assert_agrees(classifier_lrp(weights, TOKENS, OUTPUT), exact)


def without_positions_of(weights, e, absent):
    """One output without some positions in the softmax of [CLS]."""
    left = [x for t, x in enumerate(e) if t not in absent]
    return output_of(weights, left, OUTPUT)


@checks(pooled_game, PooledGame.value, by="more digits")
@pytest.mark.parametrize("players", ["positions", "words"])
@pytest.mark.parametrize("name", MODELS)
def test_values_of_coalitions(name, players):
    """Absent words are [UNK], or leave the softmax, in every coalition."""
    weights = MODELS[name]
    e = embedded(weights, TOKENS)
    order = list(dict.fromkeys(TOKENS))
    number = [order.index(token) for token in TOKENS] if players == "words" else range(len(TOKENS))
    d = 1 + max(number)
    for mask in np.ndindex((2,) * d):
        missing = [t for t, player in enumerate(number) if not mask[player]]
        replaced = [weights.unk if t in missing else token for t, token in enumerate(TOKENS)]
        exact = {
            "unk": output_of(weights, embedded(weights, replaced), OUTPUT),
            "deleted": without_positions_of(weights, e, [1 + t for t in missing]),
        }
        for absent, value in exact.items():
            game = pooled_game(weights, TOKENS, players, absent, OUTPUT)
            assert_agrees(game.value(np.array(mask, dtype=bool)), value)


def spelt_out(slalom, tokens):
    """Equation 4 of the second paper: a softmax of importances weighs values."""
    ids = slalom.ids.tolist()
    masses = [mp.exp(mp.mpf(float(slalom.s[ids.index(token)]))) for token in tokens]
    values = [mp.mpf(float(slalom.v[ids.index(token)])) for token in tokens]
    if slalom.s_background > -np.inf:
        masses.append(mp.exp(mp.mpf(slalom.s_background)))
        values.append(mp.mpf(float(slalom.v_background)))
    return dot(masses, values) / mp.fsum(masses)


@checks(slalom_from_weights, by="more digits")
def test_a_slalom_that_is_read_off():
    """One head without positions, as the model itself in fifty digits."""
    weights = make_weights(PRIMES._replace(K=1), seed=5, top_score=3.0, positions=None)
    read = slalom_from_weights(weights)
    assert read.exact
    for tokens in (TOKENS, [9], [2, 2, 7]):
        exact = output_of(weights, embedded(weights, tokens), 0)
        assert_agrees(np.ravel(read.predict(tokens))[0], exact)


@checks(slalom_to_weights, by="more digits")
def test_weights_of_a_slalom():
    """Built weights, run as a model in fifty digits, compute the SLALOM."""
    rng = np.random.default_rng(3)
    slalom = Slalom([4, 7, 9], rng.normal(size=3), rng.normal(size=3))
    # With one dimension no weight is rounded: what is left is the mass of [CLS] and of the padding,
    # e^-60.
    weights = slalom_to_weights(slalom, T_max=6, d_att=1)
    for tokens in ([4], [9, 4, 9], [7, 7, 4, 9, 9]):
        exact = spelt_out(slalom, tokens)
        got = output_of(weights, embedded(weights, tokens), 0)
        assert 0 < abs(got - exact) <= mp.exp(-58)


@checks(Slalom.predict, slalom_linearized, by="more digits")
@pytest.mark.parametrize("background", [False, True])
def test_predictions_and_derivatives_of_a_slalom(background):
    """The derivative by the soft presence of one token, as a central difference."""
    rng = np.random.default_rng(7)
    more = {"s_background": 0.3, "v_background": -1.5} if background else {}
    slalom = Slalom([4, 7, 9], 2 * rng.normal(size=3), rng.normal(size=3), **more)
    tokens = [9, 4, 9, 7]
    assert_agrees(slalom.predict(tokens), spelt_out(slalom, tokens))
    ids = slalom.ids.tolist()
    exact = []
    for t in range(len(tokens)):
        sides = []
        for step in (STEP, -STEP):
            presence = [1 + step if k == t else mp.mpf(1) for k in range(len(tokens))]
            masses = [
                p * mp.exp(mp.mpf(float(slalom.s[ids.index(token)])))
                for p, token in zip(presence, tokens, strict=True)
            ]
            values = [mp.mpf(float(slalom.v[ids.index(token)])) for token in tokens]
            if background:
                masses.append(mp.exp(mp.mpf(slalom.s_background)))
                values.append(mp.mpf(float(slalom.v_background)))
            sides.append(dot(masses, values) / mp.fsum(masses))
        exact.append((sides[0] - sides[1]) / (2 * STEP))
    assert_agrees(slalom_linearized(slalom, tokens), exact)
