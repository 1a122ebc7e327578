"""Comparisons of a NumPy result with the twin, each with a bound from the sizes of the terms that
enter.

Every `check_*` takes the value to be judged, so that `test_oracles_can_fail.py` can hand it a wrong
one.
"""

from typing import NamedTuple

import numpy as np

from jax_model import params_from_weights
from jax_model.witness import coalitions, oracle
from tests.tolerances import ALGEBRAIC, assert_algebraic, assert_guaranteed, assert_quadrature


class Magnitudes(NamedTuple):
    """Sums of absolute terms: what rounding is relative to."""

    score: float
    value: float
    gradient: float


def places(weights):
    """Position embeddings, a row of zeros where there are none."""
    if weights.W_p is None:
        return np.zeros((1, weights.d_e))
    return weights.W_p


def magnitudes(weights):
    """Bounds over all documents: of a logit of any query, of a head's output, of an entry of the
    gradient.
    """
    w = weights
    e = np.abs(w.W_e).max(axis=0) + np.abs(places(w)).max(axis=0)
    # (K, d_att), (K, d_att), (K, d_out).
    q, k, v = (
        np.abs(W) @ e + np.abs(b) for W, b in ((w.W_q, w.b_q), (w.W_k, w.b_k), (w.W_v, w.b_v))
    )
    root = np.sqrt(w.d_att)
    value = np.einsum("kco,ko->kc", np.abs(w.W_l), v).max()
    through_value = np.einsum("koe,kco->kce", np.abs(w.W_v), np.abs(w.W_l)).max()
    through_key = np.einsum("kae,ka->ke", np.abs(w.W_k), q).max() / root
    through_query = np.einsum("kae,ka->ke", np.abs(w.W_q), k).max() / root
    return Magnitudes(
        score=float((q * k).sum(axis=1).max() / root),
        value=float(value + np.abs(w.b_l).max()),
        gradient=float(through_value + 2 * value * (through_key + through_query)),
    )


def twin(weights, tokens):
    """Parameters and padded ids for the oracles."""
    return params_from_weights(weights), oracle.pad_ids(
        tokens, weights.T_max, weights.cls, weights.unk
    )


def check_value(weights, tokens, got):
    size = magnitudes(weights)
    assert_algebraic(got, oracle.predict(*twin(weights, tokens)), size.value, 1 + size.score)


def check_attention(weights, tokens, got):
    assert_algebraic(
        got, oracle.attention(*twin(weights, tokens)), 1.0, 1 + magnitudes(weights).score
    )


def check_attention_matrices(weights, tokens, got):
    assert_algebraic(
        got, oracle.attention_matrices(*twin(weights, tokens)), 1.0, 1 + magnitudes(weights).score
    )


def gradient_terms(weights, tokens, output):
    """Theorem 4.1 and the [CLS] term with every term replaced by its absolute value, (T_max, d_e).

    A token without attention has no gradient, so that there is one bound per position: the
    attention is a factor of it.
    """
    w = weights
    params, ids = twin(weights, tokens)
    # below, attention is not a normal number any more.
    alpha = np.asarray(oracle.attention(params, ids)) + 1e-290
    e = np.abs(w.W_e)[np.asarray(ids)] + np.abs(places(w))
    W_q, W_k, W_v, W_l = (np.abs(W) for W in (w.W_q, w.W_k, w.W_v, w.W_l[:, output]))
    q = W_q @ e[0] + np.abs(w.b_q)
    k = np.einsum("kae,te->kta", W_k, e) + np.abs(w.b_k)[:, None]
    u = np.einsum("ko,kto->kt", W_l, np.einsum("koe,te->kto", W_v, e) + np.abs(w.b_v)[:, None])
    u_and_mean = u + (alpha * u).sum(axis=1, keepdims=True)
    root = np.sqrt(w.d_att)
    terms = np.einsum("kt,koe,ko->te", alpha, W_v, W_l)
    terms += np.einsum("kt,kae,ka->te", alpha * u_and_mean, W_k, q) / root
    terms[0] += np.einsum("kt,kta,kae->e", alpha * u_and_mean, k, W_q) / root
    return terms / w.K


def check_gradient(weights, tokens, output, got):
    expected = oracle.gradient(*twin(weights, tokens), output)
    assert_algebraic(
        got, expected, gradient_terms(weights, tokens, output), 1 + magnitudes(weights).score
    )


def _check_token_scores(weights, tokens, output, got, reduce):
    """`reduce` makes scores of a gradient and, monotone on non-negative terms, a bound of the
    bound.
    """
    own = slice(1, 1 + len(tokens))
    expected = np.asarray(oracle.gradient(*twin(weights, tokens), output))[own]
    terms = gradient_terms(weights, tokens, output)[own]
    assert_algebraic(got, reduce(expected), reduce(terms), 1 + magnitudes(weights).score)


def check_gradient_mean(weights, tokens, output, got):
    _check_token_scores(weights, tokens, output, got, lambda g: g.mean(axis=1))


def check_gradient_l1(weights, tokens, output, got):
    _check_token_scores(weights, tokens, output, got, lambda g: np.abs(g).sum(axis=1))


def check_gradient_l2(weights, tokens, output, got):
    # hypot, because the square of a small gradient is not a normal number.
    _check_token_scores(weights, tokens, output, got, lambda g: np.hypot.reduce(g, axis=1))


def check_gradient_times_input(weights, tokens, output, got):
    own = slice(1, 1 + len(tokens))
    ids = np.asarray(twin(weights, tokens)[1])
    e = weights.W_e[ids] + places(weights)
    e_terms = np.abs(weights.W_e[ids]) + np.abs(places(weights))
    expected = (e * np.asarray(oracle.gradient(*twin(weights, tokens), output))).sum(axis=1)[own]
    terms = (e_terms * gradient_terms(weights, tokens, output)).sum(axis=1)[own]
    assert_algebraic(got, expected, terms, 1 + magnitudes(weights).score)


def check_integrated_gradients(weights, tokens, output, got, panels=64):
    """Only where `panels` panels resolve the path: logits up to about the number of panels."""
    params, ids = twin(weights, tokens)
    blank = twin(weights, [weights.unk] * len(tokens))[1]
    expected = oracle.integrated_gradients(params, ids, blank, output, panels=panels)
    assert_quadrature(got, np.asarray(expected)[1 : 1 + len(tokens)], magnitudes(weights).value)


def check_relevance(weights, tokens, output, got):
    """The rules of AttnLRP; halved terms, so that those of gradient times input bound them."""
    own = slice(1, 1 + len(tokens))
    params, ids = twin(weights, tokens)
    e_terms = np.abs(weights.W_e[np.asarray(ids)]) + np.abs(places(weights))
    terms = (e_terms * gradient_terms(weights, tokens, output)).sum(axis=1)[own]
    assert_algebraic(
        got,
        np.asarray(oracle.relevance(params, ids, output))[own],
        terms,
        1 + magnitudes(weights).score,
    )


class Question(NamedTuple):
    """A game of a document: what `pooled_game` is asked for, and the function of the prediction
    that is explained.
    """

    weights: object
    tokens: list
    output: int = 0
    players: str = "positions"
    absent: str = "unk"
    link: str = "identity"


def enumerated(question):
    """Predictions of all coalitions by the twin, (2^d,), and what their rounding may amount to."""
    w = question.weights
    # No link is steeper than the identity.
    f = coalitions.values(
        *twin(w, question.tokens),
        coalitions.players_of(question.tokens, w.T_max, words=question.players == "words"),
        unk=w.unk,
        deleted=question.absent == "deleted",
        output=question.output,
        link=question.link,
    )
    size = magnitudes(w)
    return f, ALGEBRAIC * (1 + size.score) * size.value


# Definition, and what an error of every f is multiplied by at most.
DEFINITIONS = {
    "values": (lambda f: f, 1),
    "shapley": (coalitions.shapley, 2),
    "banzhaf": (coalitions.banzhaf, 2),
    "leave-one-out": (coalitions.leave_one_out, 2),
    "interactions": (coalitions.interactions, 4),
    "by size": (coalitions.by_size, 1),
}


def check_game(name, question, got, tol=None):
    """A function of the game, to `tol` times the largest prediction; algebraically equal if `tol`
    is None.
    """
    f, rounding = enumerated(question)
    define, factor = DEFINITIONS[name]
    assert_guaranteed(
        got, define(f), np.abs(f).max(), factor * rounding, 0.0 if tol is None else tol
    )


def check_lime(question, got, tol, **settings):
    """LIME's coefficients and intercept, (d + 1,)."""
    f, rounding = enumerated(question)
    ridge = coalitions.lime(len(f).bit_length() - 1, **settings)
    maps = np.vstack([ridge.coef, ridge.intercept])
    factor = np.abs(maps).sum(axis=1).max()
    largest = np.abs(f).max()
    rounding = factor * (rounding + ALGEBRAIC * ridge.condition * largest)
    assert_guaranteed(got, maps @ f, largest, rounding, tol)
