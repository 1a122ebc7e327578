"""Comparisons of a NumPy result with the twin, each with a bound from the sizes of the terms that enter.

Every `check_*` takes the value to be judged, so that `test_oracles_can_fail.py` can hand it a wrong one.
"""

from typing import NamedTuple

import numpy as np

from jax_model import oracle, params_from_weights
from tests.tolerances import assert_algebraic, assert_quadrature


class Magnitudes(NamedTuple):
    """Sums of absolute terms: what rounding is relative to."""

    score: float
    value: float
    gradient: float


def magnitudes(weights):
    """Bounds over all documents: of a logit of any query, of a head's output, of an entry of the gradient."""
    w = weights
    e = np.abs(w.W_e).max(axis=0) + np.abs(w.W_p).max(axis=0)
    q, k, v = (
        np.abs(W) @ e + np.abs(b) for W, b in ((w.W_q, w.b_q), (w.W_k, w.b_k), (w.W_v, w.b_v))
    )  # (K, d_att), (K, d_att), (K, d_out)
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
    return params_from_weights(weights), oracle.pad_ids(tokens, weights.T_max, weights.cls, weights.unk)


def check_value(weights, tokens, got):
    size = magnitudes(weights)
    assert_algebraic(got, oracle.predict(*twin(weights, tokens)), size.value, 1 + size.score)


def check_attention(weights, tokens, got):
    assert_algebraic(got, oracle.attention(*twin(weights, tokens)), 1.0, 1 + magnitudes(weights).score)


def check_attention_matrices(weights, tokens, got):
    assert_algebraic(got, oracle.attention_matrices(*twin(weights, tokens)), 1.0, 1 + magnitudes(weights).score)


def _check_gradient(weights, got, expected, factor=1.0):
    size = magnitudes(weights)
    assert_algebraic(got, expected, size.gradient * factor, 1 + size.score)


def check_gradient(weights, tokens, output, got):
    _check_gradient(weights, got, oracle.gradient(*twin(weights, tokens), output))


def _document_gradient(weights, tokens, output):
    return np.asarray(oracle.gradient(*twin(weights, tokens), output))[1 : 1 + len(tokens)]


def check_gradient_mean(weights, tokens, output, got):
    _check_gradient(weights, got, _document_gradient(weights, tokens, output).mean(axis=1))


def check_gradient_l1(weights, tokens, output, got):
    _check_gradient(weights, got, np.abs(_document_gradient(weights, tokens, output)).sum(axis=1), weights.d_e)


def check_gradient_l2(weights, tokens, output, got):
    _check_gradient(weights, got, np.linalg.norm(_document_gradient(weights, tokens, output), axis=1), weights.d_e)


def check_gradient_times_input(weights, tokens, output, got):
    own = slice(1, 1 + len(tokens))
    e = (weights.W_e[np.asarray(twin(weights, tokens)[1])] + weights.W_p)[own]
    expected = (e * _document_gradient(weights, tokens, output)).sum(axis=1)
    _check_gradient(weights, got, expected, weights.d_e * max(1.0, np.abs(e).max(initial=0.0)))


def check_integrated_gradients(weights, tokens, output, got, panels=64):
    """Only where `panels` panels resolve the path: logits up to about the number of panels."""
    params, ids = twin(weights, tokens)
    expected = oracle.integrated_gradients(params, ids, twin(weights, [])[1], output, panels=panels)
    assert_quadrature(got, np.asarray(expected)[1 : 1 + len(tokens)], magnitudes(weights).value)
