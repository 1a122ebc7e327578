"""Hypothesis strategies for models and documents: mostly ordinary documents, and every edge case by
name.

A drawn problem is *ordinary* unless a named edge case is drawn: two or more different words with
room for them, under an attention that is neither uniform nor one-hot. Edge cases of the model
(`SHAPES`, `SCORES`) and of the document (`DOCUMENTS`) are drawn independently, so that they also
meet. `cases` names what a problem shows, and `tests/test_strategies.py` counts the names and fails
when ordinary problems become rare.

Hypothesis prefers the first and the smallest of what it may draw, and copies parts of earlier
draws. Therefore lists that are drawn from begin with the ordinary, and numbers and words come from
one drawn seed, which cannot be "small". Shapes come from a short list, since the twin is compiled
once per shape. The list has sizes that are all different primes (a transposed axis cannot pass),
one head, one dimension, several outputs, and room for a single token.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from attn_closed_form import AttentionWeights
from attn_closed_form.attention import sinusoidal_positions


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
    PRIMES._replace(C=3, K=6),
    PRIMES._replace(K=1),
    Shape(D=5, d_e=1, T_max=3, K=1, d_att=1, d_out=1, C=1),
    Shape(D=11, d_e=2, T_max=2, K=3, d_att=5, d_out=1, C=7),
]
# Largest attention logit of the model: ordinary, sharper, none at all, peaked, at the end of exp in
# float64, absurd.
SCORES = [1.0, 4.0, 0.0, 30.0, 700.0, 1e4]
ORDINARY_SCORES = (1.0, 4.0)
# The ordinary ones are drawn this many times as often as each edge case.
ORDINARY = 11
# Kind of a document and how often it is drawn. "full", "words repeated" and "special ids" have
# several words, too.
DOCUMENTS = {
    "several words": 10,
    "words repeated": 4,
    "full": 3,
    "special ids": 2,
    "empty": 1,
    "one token": 1,
    "one word repeated": 1,
}
SEEDS = st.integers(0, 2**24 - 1)  # wider ranges are not drawn uniformly
# No attention of an ordinary document is closer to one-hot, or to uniform, than this.
LARGEST_ATTENTION = 0.99
LEAST_RATIO = 1.05


def make_weights(shape, seed, top_score=1.0, biases=True, positions="sinusoidal", cls=0, unk=1):
    """Seeded weights whose largest possible attention logit is `top_score`; `positions` may be an
    array or None.
    """
    rng = np.random.default_rng(seed)
    D, d_e, T_max, K, d_att, d_out, C = shape
    arrays = {
        "W_e": rng.normal(size=(D, d_e)),
        "W_p": sinusoidal_positions(T_max, d_e) if isinstance(positions, str) else positions,
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
    e = arrays["W_e"][:, None] + (0 if positions is None else arrays["W_p"])
    q = np.einsum("kae,e->ka", arrays["W_q"], e[cls, 0]) + arrays.get("b_q", 0.0)
    k = np.einsum("kae,dte->kdta", arrays["W_k"], e) + (
        arrays["b_k"][:, None, None] if biases else 0.0
    )
    largest = np.abs(np.einsum("ka,kdta->kdt", q, k)).max() / np.sqrt(d_att)
    arrays["W_q"] *= top_score / largest
    if biases:
        arrays["b_q"] *= top_score / largest
    return AttentionWeights(**arrays, cls=cls, unk=unk)


def _ordinary_first(choices, ordinary):
    """Draws from `choices`, mostly from those that are `ordinary`."""
    often = [choice for choice in choices if ordinary(choice)]
    seldom = [choice for choice in choices if not ordinary(choice)]
    return st.sampled_from(often * (ORDINARY if seldom else 1) + seldom)


@st.composite
def weights(draw, shapes=tuple(SHAPES), scores=tuple(SCORES), padded=False):
    """Models of every shape, score size, with and without biases, positions and the usual ids.

    A model may have positions, positions that are all alike, or none at all, unless `padded` asks
    for a limited length.
    """
    shape = draw(_ordinary_first(shapes, lambda shape: shape.T_max > 3))
    last = shape.D - 1
    cls, unk = draw(st.sampled_from([(0, 1), (last, 0), (2, 2)]))
    return make_weights(
        shape,
        seed=draw(SEEDS),
        top_score=draw(_ordinary_first(scores, lambda score: score in ORDINARY_SCORES)),
        biases=draw(st.booleans()),
        positions=draw(
            st.sampled_from(["sinusoidal", np.zeros((shape.T_max, shape.d_e)), None][: 3 - padded])
        ),
        cls=cls,
        unk=unk,
    )


@st.composite
def documents(draw, weights, min_size=0, max_size=None):
    """Documents of a model, of a kind in `DOCUMENTS`; a kind that does not fit becomes the nearest
    that does.
    """
    room = (PRIMES.T_max if weights.T_max is None else weights.T_max) - 1
    if max_size is not None:
        room = min(max_size, room)
    kind = draw(st.sampled_from([kind for kind, times in DOCUMENTS.items() for _ in range(times)]))
    rng = np.random.default_rng(draw(SEEDS))
    length = draw(st.integers(min(2, room), room))
    if kind == "empty":
        length = min_size
    elif kind == "one token":
        length = 1
    elif kind == "full":
        length = room
    elif kind != "several words" and room >= 3:
        length = max(length, 3)
    length = max(length, min_size)
    others = np.setdiff1d(np.arange(weights.D), [weights.cls, weights.unk])
    if kind == "one word repeated":
        return [int(rng.choice(others))] * length
    if kind == "words repeated":  # fewer words than tokens, each at least once
        distinct = rng.permutation(others)[: max(2, length // 2)]
        ids = np.r_[distinct, rng.choice(distinct, length)][:length]
    elif kind == "special ids":
        distinct = rng.permutation(others)[: max(length - 2, 0)]
        specials = [weights.cls, weights.unk][: max(length - 2, 1)]
        ids = np.r_[distinct, specials, rng.choice(others, length)][:length]
    else:
        ids = np.r_[rng.permutation(others), rng.integers(0, weights.D, length)][:length]
    return rng.permutation(ids).tolist()


@st.composite
def long_documents(draw, weights):
    """Documents with at least one token too many."""
    room = weights.T_max - 1
    return draw(st.lists(st.integers(0, weights.D - 1), min_size=room + 1, max_size=2 * room + 5))


@st.composite
def problems(draw, shapes=tuple(SHAPES), scores=tuple(SCORES), min_size=0, max_size=None):
    """(weights, tokens, output)"""
    model = draw(weights(shapes=shapes, scores=scores))
    return model, draw(documents(model, min_size, max_size)), draw(st.integers(0, model.C - 1))


def is_ordinary(problem):
    """Two or more different words other than [UNK], under heads that are neither uniform nor
    one-hot.
    """
    model, tokens, _ = problem
    alpha = _attention(model, tokens)
    largest = alpha.max(axis=1)
    least = alpha.min(axis=1)
    varied = (largest <= LARGEST_ATTENTION) & (largest >= LEAST_RATIO * least)
    return len(set(tokens) - {model.unk}) >= 2 and bool(varied.all())


def cases(problem):
    """Names of what a problem shows, "ordinary" or edges: what `tests/test_strategies.py`
    counts.
    """
    model, tokens, output = problem
    alpha = _attention(model, tokens)
    counts = Counter(tokens)
    shows = {
        "ordinary": is_ordinary(problem),
        "empty": not tokens,
        "one token": len(tokens) == 1,
        "full": model.T_max is not None and len(tokens) == model.T_max - 1,
        "room for one token": model.T_max == 2,
        "one word repeated": len(tokens) > 1 and len(counts) == 1,
        "some word repeated": len(counts) > 1 and max(counts.values()) > 1,
        "special ids": bool(counts.keys() & {model.cls, model.unk}),
        "[CLS] is [UNK]": model.cls == model.unk,
        "uniform attention": bool((alpha.max(axis=1) < LEAST_RATIO * alpha.min(axis=1)).all()),
        "one-hot attention": bool((alpha.max(axis=1) > LARGEST_ATTENTION).any()),
        "scores of 700": 600 < np.abs(_logits(model)).max() < 800,
        "scores of 1e4": np.abs(_logits(model)).max() > 9e3,
        "biases": bool(model.b_q.any()),
        "no biases": not model.b_q.any(),
        "positions": model.W_p is not None and bool(model.W_p.any()),
        "positions all alike": model.W_p is not None and not model.W_p.any(),
        "no positions": model.W_p is None,
        "one head": model.K == 1,
        "six heads": model.K == 6,
        "one dimension": model.d_e == 1,
        "another output": output > 0,
    }
    return [name for name, shown in shows.items() if shown]


def _logits(model):
    """Attention logits of every token at every position, (K, D, T_max), from P1 Eq. 5, 6 and 8."""
    e = model.W_e[:, None] + (0.0 if model.W_p is None else model.W_p)
    q = np.einsum("kae,e->ka", model.W_q, e[model.cls, 0]) + model.b_q
    k = np.einsum("kae,dte->kdta", model.W_k, e) + model.b_k[:, None, None]
    return np.einsum("ka,kdta->kdt", q, k) / np.sqrt(model.d_att)


def _attention(model, tokens):
    """Attention of the padded document, (K, T_max)."""
    if model.T_max is None:
        padding = 0
    else:
        padding = model.T_max - 1 - len(tokens)
    ids = [model.cls, *tokens, *[model.unk] * padding]
    s = _logits(model)[:, ids, 0 if model.T_max is None else np.arange(model.T_max)]
    g = np.exp(s - s.max(axis=1, keepdims=True))
    return g / g.sum(axis=1, keepdims=True)
