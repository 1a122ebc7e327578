"""Every closed form against the twin, by hypothesis: autodiff for derivatives, enumeration for
games.

The twin is `jax_model/witness`, written from the definitions in the papers' own words; it shares no
formula with the core. `KEPT` holds every edge case by name, and is where an example that once
failed belongs.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import (
    PooledGame,
    Slalom,
    ToleranceError,
    alpha,
    banzhaf,
    expected_value_by_size,
    gradient,
    interactions,
    leave_one_out,
    lime_limit,
    predict,
    shapley,
)
from attn_closed_form.attention import (
    alpha_avg,
    alpha_max,
    attention_matrices,
    classifier_lrp,
    gradient_l1,
    gradient_l2,
    gradient_mean,
    gradient_times_input,
    integrated_gradients,
    pooled_game,
    predict_many,
)
from attn_closed_form.slalom import slalom_linearized, slalom_recover
from attn_closed_form.slalom.readoff import slalom_from_weights, slalom_to_weights
from jax_model import params_from_weights
from jax_model.witness import coalitions, oracle
from jax_model.witness import slalom as witness
from tests import comparisons
from tests.comparisons import DEFINITIONS, Question, magnitudes, twin
from tests.oracles import checks
from tests.profiles import mostly_slow
from tests.strategies import PRIMES, SEEDS, SHAPES, make_weights, problems
from tests.tolerances import ALGEBRAIC, QUADRATURE, assert_algebraic

# Closed forms of the classifier: function, comparison, and whether it has an `output`.
FORMS = {
    "predict": (predict, comparisons.check_value, False),
    "attention": (alpha, comparisons.check_attention, False),
    "attention matrices": (attention_matrices, comparisons.check_attention_matrices, False),
    "gradient": (gradient, comparisons.check_gradient, True),
    "gradient mean": (gradient_mean, comparisons.check_gradient_mean, True),
    "gradient l1": (gradient_l1, comparisons.check_gradient_l1, True),
    "gradient l2": (gradient_l2, comparisons.check_gradient_l2, True),
    "gradient times input": (gradient_times_input, comparisons.check_gradient_times_input, True),
    "integrated gradients": (integrated_gradients, comparisons.check_integrated_gradients, True),
    "lrp": (classifier_lrp, comparisons.check_relevance, True),
}
# Four of them are sums over the same gradient, so `make test` draws examples for the gradient, and
# tries these on the kept ones.
REDUCTIONS = {
    name: [pytest.mark.slow]
    for name in ("gradient mean", "gradient l1", "gradient l2", "gradient times input")
}
# Closed forms of a game: function, and whether it has a tolerance.
GAMES = {
    "values": (lambda game: game.value(coalitions.coalitions(game.d)), False),
    "shapley": (shapley, True),
    "banzhaf": (banzhaf, True),
    "leave-one-out": (leave_one_out, False),
    "interactions": (interactions, True),
    "by size": (expected_value_by_size, True),
}
# The public functions that these comparisons are about.
PUBLIC = {
    "values": (PooledGame.value, pooled_game),
    "shapley": (shapley,),
    "banzhaf": (banzhaf,),
    "leave-one-out": (leave_one_out,),
    "interactions": (interactions,),
    "by size": (expected_value_by_size,),
}
# Logits that the brute integral of integrated gradients resolves.
RESOLVED = 30.0
# The drawn models are never so bad that the package has to ask for a looser tolerance than this.
LARGEST_TOL = 1e-6
ONE_HEAD = tuple(shape for shape in SHAPES if shape.K == 1)


def model(shape=PRIMES, seed=1, **options):
    return make_weights(shape, seed, **options)


NO_POSITIONS = np.zeros((PRIMES.T_max, PRIMES.d_e))
# (weights, tokens, output)
KEPT = {
    "ordinary": (model(), [3, 5, 8, 5], 0),
    "empty": (model(), [], 0),
    "one token": (model(), [4], 0),
    "full": (model(), [3, 5, 8, 5, 9, 2, 16, 7, 7, 3, 4, 6], 0),
    "one word repeated": (model(), [6] * 5, 0),
    "special ids": (model(cls=4, unk=2), [4, 2, 9, 4, 2], 0),
    "only [UNK]": (model(), [1, 1, 1], 0),
    "[CLS] is [UNK]": (model(cls=2, unk=2), [2, 3, 5], 0),
    "uniform attention": (model(top_score=0.0), [3, 5, 8], 0),
    "peaked attention": (model(top_score=30.0), [3, 5, 8, 9], 0),
    "scores of 1e4": (model(top_score=1e4), [3, 5, 8, 9], 0),
    "gradients of 1e-161": (model(seed=712, top_score=1e4, biases=False), [6, 7], 0),
    "no biases, no positions": (model(biases=False, positions=NO_POSITIONS), [3, 5, 8, 3], 0),
    "last output": (model(PRIMES._replace(C=3)), [3, 5, 8], 2),
    "one head": (model(PRIMES._replace(K=1)), [3, 5, 8], 0),
    "one dimension": (model(SHAPES[3]), [3, 4], 0),
    "room for one token": (model(SHAPES[4]), [3], 6),
}


def check_form(name, problem):
    weights, tokens, output = problem
    function, check, has_output = FORMS[name]
    outputs = (output,) if has_output else ()
    check(weights, tokens, *outputs, function(weights, tokens, *outputs))


def game_of(question):
    game = pooled_game(
        question.weights, question.tokens, question.players, question.absent, question.output
    )
    if question.link == "identity":
        return game
    return game.through(question.link)


def at_its_tol(function, game, **settings):
    """What a function says of a game, and with which tolerance: the default, or where float64
    cannot keep it (values that cancel in every coalition) the one that the error names, which has
    to work.
    """
    try:
        return function(game, tol=QUADRATURE, **settings), QUADRATURE
    except ToleranceError as error:
        tol = float(str(error).rsplit(" ", 1)[1])
    # A tolerance is relative to the largest value, and a probability can be next to nothing in
    # every coalition.
    if isinstance(game, PooledGame):
        size = 1.0
    else:
        size = float(np.abs(game.value(coalitions.coalitions(game.d))).max())
    assert QUADRATURE < tol < LARGEST_TOL / size
    return function(game, tol=tol, **settings), tol


def check_game(name, question):
    function, has_tol = GAMES[name]
    if has_tol:
        got, tol = at_its_tol(function, game_of(question))
    else:
        got = function(game_of(question))
        tol = None
    comparisons.check_game(name, question, got, tol)


def check_lime(question, **settings):
    got, tol = at_its_tol(lime_limit, game_of(question), **settings)
    comparisons.check_lime(question, np.r_[got.coef, got.intercept], tol, **settings)


@st.composite
def questions(draw, link="identity", **options):
    """Games of at most ten tokens, so that they can be enumerated."""
    weights, tokens, output = draw(problems(min_size=1, max_size=coalitions.MOST, **options))
    players, absent = draw(
        st.sampled_from([(p, a) for p in ("positions", "words") for a in ("unk", "deleted")])
    )
    return Question(weights, tokens, output, players, absent, link)


# Narrower kernels leave float64, see `coalitions.Ridge`; tests/lime/test_guarantee.py has them,
# with more digits.
LIME_SETTINGS = st.fixed_dictionaries(
    {
        "kernel_width": st.sampled_from([25.0, 40.0, np.inf]),
        "ridge": st.sampled_from([1.0, 0.0, 30.0]),
        "num_samples": st.sampled_from([5000, 100, None]),
    }
)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("case", KEPT)
def test_kept_examples(name, case):
    weights, _, _ = KEPT[case]
    if name == "integrated gradients" and magnitudes(weights).score > 1e3:
        return  # test_gradient.py has these, with as many panels as they take
    check_form(name, KEPT[case])


@pytest.mark.parametrize("name", [*GAMES, "lime"])
@pytest.mark.parametrize("case", [name for name, (_, tokens, _) in KEPT.items() if tokens])
@pytest.mark.parametrize(
    ("players", "absent"),
    mostly_slow(
        [
            ("words", "unk"),
            ("positions", "deleted"),
            ("positions", "unk"),
            ("words", "deleted"),
        ],
        2,
    ),
)
def test_kept_games(name, case, players, absent):
    weights, tokens, output = KEPT[case]
    question = Question(weights, tokens[: coalitions.MOST], output, players, absent)
    if name == "lime":
        check_lime(question)
    else:
        check_game(name, question)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[checks(function, by="the twin"), *REDUCTIONS.get(name, [])])
        for name, (function, _, _) in FORMS.items()
        if name != "integrated gradients"
    ],
)
@given(problem=problems())
def test_closed_forms_are_the_twin(name, problem):
    check_form(name, problem)


@checks(alpha_avg, alpha_max, by="the twin")
@given(problem=problems())
def test_attention_over_heads_is_the_twin(problem):
    weights, tokens, _ = problem
    every = np.asarray(oracle.attention(*twin(weights, tokens)))[:, 1 : 1 + len(tokens)]
    condition = 1 + magnitudes(weights).score
    assert_algebraic(alpha_avg(weights, tokens), every.mean(axis=0), 1.0, condition)
    assert_algebraic(alpha_max(weights, tokens), every.max(axis=0), 1.0, condition)


@checks(predict_many, by="the twin")
@given(problem=problems(), other=st.integers(0, 3))
def test_predictions_of_many_are_the_twin(problem, other):
    weights, tokens, _ = problem
    documents = [tokens, tokens[:other], tokens[::-1]]
    size = magnitudes(weights)
    for document, got in zip(documents, predict_many(weights, documents), strict=True):
        expected = oracle.predict(*twin(weights, document))
        assert_algebraic(got, expected, size.value, 1 + size.score)


@checks(integrated_gradients, by="the twin")
@given(problem=problems(scores=(1.0, 4.0, 0.0, RESOLVED)))
def test_integrated_gradients_are_the_twin(problem):
    check_form("integrated gradients", problem)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=checks(*PUBLIC[name], by="the twin")) for name in GAMES]
)
@given(question=questions())
def test_games_are_the_twin(name, question):
    check_game(name, question)


@checks(lime_limit, by="the twin")
@given(question=questions(), settings=LIME_SETTINGS)
def test_lime_is_the_twin(question, settings):
    check_lime(question, **settings)


@pytest.mark.parametrize("name", mostly_slow(["shapley", *sorted(GAMES.keys() - {"shapley"})], 1))
@given(question=questions(link="sigmoid", shapes=ONE_HEAD))
def test_games_of_probabilities_are_the_twin(name, question):
    check_game(name, question)


@given(question=questions(link="sigmoid", shapes=ONE_HEAD), settings=LIME_SETTINGS)
def test_lime_of_probabilities_is_the_twin(question, settings):
    check_lime(question, **settings)


# SLALOM

V = 11
LONGEST = 13
CLASSES = 3


@st.composite
def slaloms(draw, scores=(1.0, 4.0, 0.0, 30.0, 1e4), background=None):
    """(SLALOM of 11 tokens, a sequence of 1 to 13 of them, class)"""
    rng = np.random.default_rng(draw(SEEDS))
    s = rng.uniform(-1, 1, V) * draw(st.sampled_from(scores))
    classes = draw(st.sampled_from([None, CLASSES]))
    v = rng.normal(size=V if classes is None else (V, classes))
    options = {}
    if draw(st.booleans()) if background is None else background:
        options = {
            "s_background": float(rng.uniform(-1, 1)),
            "v_background": rng.normal(size=v.shape[1:]),
        }
    # One largest id: one compiled program does for all.
    ids = rng.permutation(np.r_[99, rng.permutation(99)[: V - 1]])
    tokens = rng.choice(ids, draw(st.integers(1, LONGEST))).tolist()
    return (
        Slalom(ids, s, v, **options),
        tokens,
        0 if classes is None else draw(st.integers(0, classes - 1)),
    )


def padded(slalom, tokens):
    """Arguments of the twin's functions."""
    index = [slalom.ids.tolist().index(token) for token in tokens]
    rest = LONGEST - len(tokens)
    v = slalom.v.reshape(slalom.V, -1)
    return (
        jnp.array(slalom.s),
        jnp.array(v),
        jnp.array([*index, *[0] * rest]),
        jnp.arange(LONGEST) < len(tokens),
        jnp.array(slalom.s_background),
        jnp.array(np.broadcast_to(slalom.v_background, v.shape[1:])),
    )


def rounding_of(slalom):
    """How much larger than an ulp the rounding of a softmax of these importances is."""
    if slalom.s_background > -np.inf:
        background = slalom.s_background
    else:
        background = 0.0
    return 1 + np.abs(slalom.s).max() + abs(background)


@checks(Slalom.predict, slalom_linearized, by="the twin", through=padded)
@given(slaloms())
def test_slalom_is_the_twin(drawn):
    slalom, tokens, output = drawn
    expected = np.asarray(witness.forward(*padded(slalom, tokens)))
    size = max(np.abs(slalom.v).max(), np.abs(slalom.v_background).max())
    assert_algebraic(np.atleast_1d(slalom.predict(tokens)), expected, size, rounding_of(slalom))
    expected = np.asarray(witness.derivative(*padded(slalom, tokens)))[output, : len(tokens)]
    assert_algebraic(
        slalom_linearized(slalom, tokens, output=output), expected, 2 * size, rounding_of(slalom)
    )


@checks(slalom_recover, by="the twin", through=padded)
@given(slaloms(scores=(1.0, 4.0, 0.0), background=False))
def test_recovered_slalom_is_the_twin(drawn):
    """Recovered from outputs of the twin, not of the core, and asked for a sequence that was not
    among them.
    """
    slalom, tokens, _ = drawn

    def black_box(sequences):
        f = np.array([witness.forward(*padded(slalom, list(sequence))) for sequence in sequences])
        return f[:, 0] if slalom.v.ndim == 1 else f

    recovered = slalom_recover(black_box, slalom.ids)
    # A pair shows importances that are at most 8 apart: e^8 times the rounding of its output, over
    # the distance of the two values, which is at least half of the largest one.
    apart = np.ptp(slalom.v, axis=0).max() / 2
    size = np.abs(slalom.v).max()
    expected = np.asarray(witness.forward(*padded(slalom, tokens)))
    assert_algebraic(
        np.atleast_1d(recovered.predict(tokens)), expected, size, np.e**8 * size / apart
    )


@checks(slalom_from_weights, by="the twin")
@given(problem=problems(shapes=ONE_HEAD, min_size=1))
def test_slalom_of_one_head_is_the_twin(problem):
    """One head without positions is a SLALOM: what is read off predicts what the naive model
    predicts.
    """
    weights, tokens, _ = problem
    weights = dataclasses.replace(
        weights, W_p=None if weights.W_p is None else np.zeros_like(weights.W_p)
    )
    readoff = slalom_from_weights(weights)
    assert readoff.exact
    size = magnitudes(weights)
    expected = oracle.predict(*twin(weights, tokens))
    # Shifting all importances to the sum `gamma` rounds each of them once more.
    assert_algebraic(
        np.atleast_1d(readoff.predict(tokens)), expected, size.value, 2 * (1 + size.score)
    )


@checks(slalom_to_weights, by="the twin")
@given(slaloms())
def test_weights_of_a_slalom_are_the_twin(drawn):
    """The weights that compute a SLALOM, run by the naive model."""
    slalom, tokens, _ = drawn
    weights = slalom_to_weights(slalom, T_max=LONGEST + 1, d_att=3)
    padded_ids = oracle.pad_ids(tokens, weights.T_max, weights.cls, weights.unk)
    got = np.asarray(oracle.predict(params_from_weights(weights), padded_ids))
    expected = np.asarray(witness.forward(*padded(slalom, tokens)))
    size = max(np.abs(slalom.v).max(), np.abs(slalom.v_background).max())
    assert_algebraic(got, expected, size, 4 * rounding_of(slalom))


@given(slaloms(scores=(1.0, 4.0, 0.0, 30.0)))
def test_shapley_values_of_a_slalom_are_the_twin(drawn):
    """Deleted tokens, enumerated with the twin."""
    slalom, tokens, output = drawn
    tokens = tokens[:6]
    s, v, ids, _, *background = padded(slalom, tokens)
    masks = np.zeros((2 ** len(tokens), LONGEST), dtype=bool)
    masks[:, : len(tokens)] = coalitions.coalitions(len(tokens))
    f = np.array(
        [
            np.asarray(witness.forward(s, v, ids, jnp.asarray(mask), *background))[output]
            for mask in masks
        ]
    )
    if slalom.s_background == -np.inf:
        f[0] = 0.25  # P2 leaves the empty sequence open
    got = shapley(slalom.game(tokens, output=output, empty_value=0.25))
    rounding = 2 * ALGEBRAIC * rounding_of(slalom) * max(np.abs(slalom.v).max(), np.abs(f).max())
    comparisons.assert_guaranteed(got, coalitions.shapley(f), np.abs(f).max(), rounding)


def test_every_definition_has_a_closed_form():
    assert GAMES.keys() == DEFINITIONS.keys()
