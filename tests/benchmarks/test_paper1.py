"""Helpers of the reproductions of P1, on small inputs; the numbers themselves need the papers' data."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_closed_form import gradient, lime_limit, pooled_game, predict_many, random_weights
from attn_closed_form.classifier.document_game import word_groups
from benchmarks import paper1_examples, paper1_gradients, paper1_layers, paper1_lime
from benchmarks.correlations import pearson, pool_words, spearman
from benchmarks.lime_runs import lime_package, to_ids, to_text
from jax_model import params_from_weights
from jax_model.transformers.transformer import PAD, Config, forward, from_embeddings, init_transformer, pad_documents
from jax_model.witness import oracle

IDS = np.array([5, 7, 5, 3, 11, 7, 2])


def test_correlations():
    x = np.array([[1.0, 2.0, 4.0], [1.0, 3.0, 100.0], [3.0, 2.0, 0.0], [0.1, 0.1, 0.1]])
    rho, tau = pearson(x), spearman(x)
    assert rho[:3, :3] == pytest.approx(np.corrcoef(x[:3]))
    assert tau[0, 1] == pytest.approx(1) and tau[0, 2] == pytest.approx(-1) and rho[0, 1] < 0.99
    assert np.isnan(rho[3]).all() and np.isnan(tau[:, 3]).all()


def test_words_are_pooled_in_the_games_order():
    values = np.arange(14.0).reshape(2, 7)
    expected = [[row[group].sum() for group in word_groups(IDS)] for row in values]
    assert pool_words(values, IDS) == pytest.approx(np.array(expected))


def test_documents_as_text():
    assert to_text(IDS) == "5 7 5 3 11 7 2"
    back = to_ids(["5 7", "", " 3  11 "])
    assert [row.tolist() for row in back] == [[5, 7], [], [3, 11]]


@pytest.mark.parametrize("bow", [False, True])
def test_the_package_converges_to_the_exact_limit(bow):
    """Without positions a deleted word and [UNK] in its place are the same, as padding fills the gap."""
    weights = random_weights(seed=3, D=17, d_e=7, T_max=13, K=2, d_att=3, d_out=5)
    weights = replace(weights, W_p=np.zeros_like(weights.W_p))
    lime = lime_package(partial(paper1_lime.output, weights), IDS, bow, weights.unk, samples=1500)
    game = paper1_lime.game_of(weights, IDS, bow)
    assert game.d == (5 if bow else 7)
    exact = lime_limit(game, num_samples=1500).coef
    assert paper1_lime.errors(lime, exact)[1] < 0.05
    assert paper1_lime.errors(lime, exact[::-1])[1] > 0.3


def test_errors_and_ranges():
    assert paper1_lime.errors(np.array([3.0, 4.0]), np.zeros(2)) == (5.0, 1.0)
    runs = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert paper1_lime.inside_share(runs, np.array([1.0, 3.5])) == 0.5
    documents = [np.arange(99) % 71, np.arange(99), np.arange(30)]
    assert paper1_lime.closest_to_figure_4(documents, [True, True, True]) == 0
    assert paper1_lime.closest_to_figure_4(documents, [False, True, True]) == 1


def test_the_forms_are_those_of_the_game():
    weights = random_weights(seed=0)
    game = pooled_game(weights, IDS)
    found = {name: form(game) for name, form in paper1_lime.forms(5000).items()}
    assert all(values.shape == (game.d,) for values in found.values())
    assert len({tuple(values.round(9)) for values in found.values()}) == len(found)


def test_printed_theorem_4_1_is_the_gradient_but_for_cls():
    weights = random_weights(seed=1, D=17, d_e=7, T_max=13, K=2, d_att=3, d_out=5, biases=True)
    padded = np.asarray(oracle.pad_ids(IDS, weights.T_max))
    theorem, truth = paper1_gradients.theorem_4_1(weights, padded), gradient(weights, IDS)
    assert theorem[1:] == pytest.approx(truth[1:], abs=1e-13)
    assert np.abs(theorem[0] - truth[0]).max() > 1e-3
    assert truth == pytest.approx(np.asarray(oracle.gradient(params_from_weights(weights), padded)), abs=1e-12)


def test_token_scores():
    alpha, slope = np.array([[0.2, 0.6], [0.4, 0.2]]), np.array([[3.0, -4.0], [0.0, 1.0]])
    expected = [[0.3, 0.4], [0.4, 0.6], [-0.5, 0.5], [0.5, 0.5], [7, 1], [5, 1]]
    assert paper1_gradients.token_scores(alpha, slope) == pytest.approx(np.array(expected))
    assert len(paper1_gradients.SCORES) == len(expected)


def test_how_heads_differ():
    alpha = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]])
    assert paper1_examples.total_variation(alpha) == pytest.approx(np.array([1.0, 1.0, 0.5]))
    assert paper1_examples.different_favourites(alpha) == 2
    assert [paper1_examples.rank(np.array([0.5, -2.0, 1.0]), j) for j in range(3)] == [3, 1, 2]


CONFIG = Config(D=17, d=12, L=2, H=3, d_ff=8, T_max=64)


@pytest.fixture(scope="module")
def params():
    return init_transformer(jax.random.key(0), CONFIG, jnp.float64)


def test_outputs_in_few_shapes(params):
    documents = [IDS, np.zeros(0, dtype=int), np.arange(40) % 17]
    expected = forward(params, CONFIG, pad_documents(documents, 41, first=(0,)))
    assert paper1_layers.outputs(params, CONFIG, documents) == pytest.approx(np.asarray(expected))


def test_attention_of_the_first_layer(params):
    """Against a transcription by loops."""
    ids = np.array([0, *IDS, PAD])
    alpha = np.asarray(paper1_layers.first_attention(params, CONFIG, ids))
    first = {name: np.asarray(x)[0] for name, x in params["layers"].items()}
    e = np.asarray(params["W_e"])[ids[:-1]] + np.asarray(params["W_p"])[:8]
    x = [(row - row.mean()) / np.sqrt(row.var() + 1e-5) for row in e]
    for head in range(3):
        own = slice(4 * head, 4 * head + 4)
        scores = [(x[0] @ first["W_q"])[own] @ (row @ first["W_k"])[own] / 2 for row in x]
        assert alpha[head, :-1] == pytest.approx(np.exp(scores) / np.exp(scores).sum())
    assert (alpha[:, -1] == 0).all()


def test_slopes_are_the_gradient(params):
    ids = jnp.array([0, *IDS])
    slope = np.asarray(paper1_layers.slopes(params, CONFIG, ids))
    e = np.array(params["W_e"][ids] + params["W_p"][: len(ids)])
    up, down = e.copy(), e.copy()
    up[3, 5] += 1e-5
    down[3, 5] -= 1e-5
    real = np.ones((1, len(ids)), dtype=bool)
    f = [float(from_embeddings(params, CONFIG, jnp.asarray(x[None]), real)[0]) for x in (up, down)]
    assert slope[3, 5] == pytest.approx((f[0] - f[1]) / 2e-5, rel=1e-5)


def test_windows_and_dropped_tokens():
    pieces = paper1_layers.windows(np.arange(100), size=30, most=3)
    assert [len(piece) for piece in pieces] == [30, 30, 30] and np.concatenate(pieces).tolist() == list(range(90))
    assert [piece.tolist() for piece in paper1_layers.windows(np.zeros(0, dtype=int))] == [[]]
    rng = np.random.default_rng(0)
    ids = np.tile(np.array([0, 1, 2, 3, 4, 5, PAD, PAD], dtype=np.int32), (50, 1))
    dropped = paper1_layers.drop_tokens(rng, ids)
    lengths = (dropped >= 0).sum(axis=1)
    assert (dropped[:, 0] == 0).all() and 1 <= lengths.min() < 6 and (lengths == 6).sum() >= 20
    for row, n in zip(dropped, lengths, strict=True):
        assert (np.diff(row[:n]) > 0).all() and (row[n:] == PAD).all()


def test_warm_start_keeps_the_leading_directions(params):
    rng = np.random.default_rng(0)
    W_e = rng.normal(size=(17, 3)) @ rng.normal(size=(3, 20)) + 5.0
    found = np.asarray(paper1_layers.warm_start(params, W_e)["W_e"])
    assert found.shape == (17, 12) and found.std() == pytest.approx(0.3)
    # Distances between words are those of the given embeddings, up to the common scale.
    ratio = np.linalg.norm(found[1:] - found[0], axis=1) / np.linalg.norm(W_e[1:] - W_e[0], axis=1)
    assert ratio == pytest.approx(np.full(16, ratio[0]))


def test_scores_of_words():
    slope = np.outer(np.arange(7.0), [1.0, -1.0])
    table = paper1_layers.table_of_scores(np.array([1.0, -2.0, 3.0, 0.0, 1.0]), np.ones(7), slope, IDS)
    assert table.shape == (len(paper1_layers.METHODS), 5)
    assert table[1].tolist() == [1, 2, 3, 0, 1] and table[2].tolist() == [2, 2, 1, 1, 1]
    assert table[3].tolist() == [0] * 5 and table[4].tolist() == [4, 12, 6, 8, 12]


def test_the_black_box_of_lime_reads_empty_documents():
    weights = random_weights(seed=0)
    empty = np.zeros(0, dtype=np.intp)
    assert paper1_lime.output(weights, [empty, IDS]) == pytest.approx(predict_many(weights, [empty, IDS])[:, 0])
