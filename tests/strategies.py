"""Hypothesis strategies for models and documents, with the edge cases of DESIGN.

Shapes come from a short list, since the twin is compiled once per shape; numbers come from a seed. The list has sizes
that are all different primes (a transposed axis cannot pass), one head, one dimension, several outputs, and room
for a single token.
"""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from attn_closed_form import AttentionWeights
from attn_closed_form.models.classifier import sinusoidal_positions


class Shape(NamedTuple):
    D: int
    d_e: int
    T_max: int
    K: int
    d_att: int
    d_out: int
    C: int


PRIMES = Shape(D=17, d_e=7, T_max=13, K=2, d_att=3, d_out=5, C=1)
SHAPES = [
    PRIMES,
    PRIMES._replace(C=3),
    PRIMES._replace(K=1),
    Shape(D=5, d_e=1, T_max=3, K=1, d_att=1, d_out=1, C=1),
    Shape(D=11, d_e=2, T_max=2, K=3, d_att=5, d_out=1, C=7),
]
# Largest attention logit of the model: none at all, ordinary, peaked, absurd.
SCORES = [0.0, 1.0, 30.0, 1e4]


def make_weights(shape, seed, top_score=1.0, biases=True, positions=None, cls=0, unk=1):
    """Seeded weights whose largest possible attention logit is `top_score`."""
    rng = np.random.default_rng(seed)
    D, d_e, T_max, K, d_att, d_out, C = shape
    arrays = {
        "W_e": rng.normal(size=(D, d_e)),
        "W_p": sinusoidal_positions(T_max, d_e) if positions is None else np.asarray(positions),
        "W_q": rng.normal(size=(K, d_att, d_e)),
        "W_k": rng.normal(size=(K, d_att, d_e)),
        "W_v": rng.normal(size=(K, d_out, d_e)),
        "W_l": rng.normal(size=(K, C, d_out)),
    }
    if biases:
        arrays["b_q"] = rng.normal(size=(K, d_att))
        arrays["b_k"] = rng.normal(size=(K, d_att))
        arrays["b_v"] = rng.normal(size=(K, d_out))
        arrays["b_l"] = rng.normal(size=C)
    # Logits are linear in the query, so scaling the query sets the largest one.
    e = arrays["W_e"][:, None] + arrays["W_p"]
    q = np.einsum("kae,e->ka", arrays["W_q"], e[cls, 0]) + arrays.get("b_q", 0.0)
    k = np.einsum("kae,dte->kdta", arrays["W_k"], e) + (arrays["b_k"][:, None, None] if biases else 0.0)
    largest = np.abs(np.einsum("ka,kdta->kdt", q, k)).max() / np.sqrt(d_att)
    arrays["W_q"] *= top_score / largest
    if biases:
        arrays["b_q"] *= top_score / largest
    return AttentionWeights(**arrays, cls=cls, unk=unk)


@st.composite
def weights(draw, shapes=tuple(SHAPES), scores=tuple(SCORES)):
    """Models of every shape, score size, with and without biases, positions and the usual ids."""
    shape = draw(st.sampled_from(shapes))
    last = shape.D - 1
    cls, unk = draw(st.sampled_from([(0, 1), (last, 0), (2, 2)]))
    return make_weights(
        shape,
        seed=draw(st.integers(0, 2**32 - 1)),
        top_score=draw(st.sampled_from(scores)),
        biases=draw(st.booleans()),
        positions=draw(st.sampled_from([None, np.zeros((shape.T_max, shape.d_e))])),
        cls=cls,
        unk=unk,
    )


@st.composite
def documents(draw, weights, min_size=0):
    """Documents of a model: empty, one token, full, one word repeated, anything between; special ids may occur."""
    room = weights.T_max - 1
    length = draw(st.one_of(st.sampled_from([min_size, 1, room]), st.integers(min_size, room)))
    token = st.integers(0, weights.D - 1)
    if draw(st.booleans()):
        return draw(st.lists(token, min_size=length, max_size=length))
    return [draw(token)] * length


@st.composite
def long_documents(draw, weights):
    """Documents with at least one token too many."""
    room = weights.T_max - 1
    return draw(st.lists(st.integers(0, weights.D - 1), min_size=room + 1, max_size=2 * room + 5))


@st.composite
def problems(draw, shapes=tuple(SHAPES), scores=tuple(SCORES), min_size=0):
    """(weights, tokens, output)"""
    model = draw(weights(shapes=shapes, scores=scores))
    return model, draw(documents(model, min_size=min_size)), draw(st.integers(0, model.C - 1))
