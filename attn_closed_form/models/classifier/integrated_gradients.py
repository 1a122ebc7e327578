"""Integrated gradients (Sundararajan et al., 2017) from the document of [UNK] tokens.

The path is the straight line between the embeddings. On it the logits s and the values u are linear in the path
parameter tau, so that with alpha = softmax(s0 + tau ds) the slope of f is

    df/dtau = (1/K) sum_i sum_t alpha_t [ du_t + (u_t - f_i) ds_t ],

and the part of token t in it is integrated; each node costs O(K T).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._arrays import softmax
from ..._types import Array, Tokens
from ...game.laws import legendre_rule
from .score_tables import as_output, as_tokens, scores
from .weights import AttentionWeights

# Gauss-Legendre orders of the two rules that are compared on each panel of `integrated_gradients`.
COARSE, FINE = 10, 20
MAX_PANELS = 4096
# Numbers in one array of nodes: about 8 MB.
BLOCK_ELEMENTS = 1 << 20
# A token whose logit is this far below another's holds no attention (e^-50 is 2e-22); and within a panel the logits
# may move against each other by this much, so that a take-over fills a good part of it and no rule can miss it.
NEGLIGIBLE = 50.0
SWING = 40.0


class IntegratedGradients(NamedTuple):
    """Scores (T,), and |sum of scores - (f(document) - f(all [UNK]))|, which is zero for the exact integral."""

    scores: Array
    completeness_error: float


def integrated_gradients(weights: AttentionWeights, tokens: Tokens, output: int = 0, tol: float = 1e-10) -> Array:
    """Integrated gradients (Sundararajan et al., 2017) from the document of [UNK] tokens, (T,).

    The integral is done by bisection of panels until no take-over of the attention can hide between the nodes and
    two Gauss-Legendre rules agree to `tol` (relative to the size of f on the path) in every token: an error estimate,
    not a bound. `integrated_gradients_report` also returns the completeness error.

    >>> from attn_closed_form import predict, random_weights
    >>> weights, document = random_weights(seed=0), [2, 3, 5]
    >>> change = predict(weights, document) - predict(weights, [weights.unk] * 3)
    >>> bool(np.isclose(integrated_gradients(weights, document).sum(), change[0]))
    True
    """
    return integrated_gradients_report(weights, tokens, output, tol).scores


def integrated_gradients_report(
    weights: AttentionWeights, tokens: Tokens, output: int = 0, tol: float = 1e-10
) -> IntegratedGradients:
    """`integrated_gradients` with its completeness error: the scores should add up to f(document) - f([UNK]s).

    >>> from attn_closed_form import random_weights
    >>> integrated_gradients_report(random_weights(seed=0), [2, 3]).completeness_error < 1e-12
    True
    """
    if not (np.isfinite(tol) and tol > 0):
        raise ValueError(f"tol: expected a positive number, got {tol}")
    ids = as_tokens(weights, tokens)
    output = as_output(weights, output)
    s1, u1 = scores(weights, ids, output)
    s0, u0 = scores(weights, np.full_like(ids, weights.unk), output)
    path = _Path(s0, s1 - s0, u0, u1 - u0, ids.size)
    total = _bisect(path, max(np.abs(u0).max(), np.abs(u1).max(), np.finfo(float).tiny), tol) / weights.K
    change = (softmax(s1) * u1).sum() - (softmax(s0) * u0).sum()
    return IntegratedGradients(total, float(abs(total.sum() - change / weights.K)))


class _Path(NamedTuple):
    """Logits and values (K, T_max) at the start of the path and their change along it, and T."""

    s0: Array
    ds: Array
    u0: Array
    du: Array
    T: int


def _bisect(path: _Path, size: float, tol: float) -> Array:
    """Integral of the slope of the sum over heads, (T,), by bisection of panels."""
    total = np.zeros(path.T)
    waiting = [(np.zeros(1), np.ones(1))]
    block = max(1, BLOCK_ELEMENTS // (FINE * path.s0.size))
    used = 0
    while waiting:
        left, width = waiting.pop()
        used += left.size
        if used > MAX_PANELS:
            raise ValueError(f"tol: {tol} was not reached with {MAX_PANELS} panels; ask for a larger tol")
        done = ~_too_wide(path.s0, path.ds, left, width)
        fine, variation = _integrals(path, left[done], width[done], FINE)
        gap = np.abs(fine - _integrals(path, left[done], width[done], COARSE)[0]).max(axis=1, initial=0.0)
        # Relative to f, and where a token takes over within a narrow panel, to what it brings.
        allowed = tol * (size * width[done] * len(path.s0) + variation.max(axis=1, initial=0.0))
        # A panel narrower than 2^-40 holds less than rounding can show.
        good = (gap <= allowed) | (width[done] < 2.0**-40)
        total += fine[good].sum(axis=0)
        done[done] = good
        left, half = left[~done], width[~done] / 2
        left, half = np.concatenate([left, left + half]), np.concatenate([half, half])
        waiting += [(left[i : i + block], half[i : i + block]) for i in range(0, left.size, block)]
    return total


def _integrals(path: _Path, left: Array, width: Array, order: int) -> tuple[Array, Array]:
    """Integral over each panel, of the slope and of its absolute value: (panels, T) both."""
    x, w = legendre_rule(order)
    tau = (left[:, None] + width[:, None] * x)[:, :, None, None]
    alpha = softmax(path.s0 + tau * path.ds)
    u = path.u0 + tau * path.du
    f = (alpha * u).sum(axis=-1, keepdims=True)
    slope = (alpha * (path.du + (u - f) * path.ds)).sum(axis=2)[:, :, 1 : 1 + path.T]
    rule = np.multiply.outer(width, w)
    return np.einsum("pnt,pn->pt", slope, rule), np.einsum("pnt,pn->pt", np.abs(slope), rule)


def _too_wide(s0: Array, ds: Array, left: Array, width: Array) -> NDArray[np.bool_]:
    """Panels on which a take-over of the attention could hide between the nodes, (panels,).

    Logits are straight lines on the path. A token that is far below the leader of the left end, or that of the right
    end, at both ends is far below it in between, and cannot matter; what counts is how the others move.
    """
    ends = s0 + left[:, None, None] * ds, s0 + (left + width)[:, None, None] * ds
    negligible = np.zeros(ends[0].shape, dtype=bool)
    for end in ends:
        leader = end.argmax(axis=-1, keepdims=True)
        lead = [np.take_along_axis(s, leader, axis=-1) - s for s in ends]
        negligible |= np.minimum(*lead) > NEGLIGIBLE
    slope = np.broadcast_to(ds, negligible.shape)
    fastest = slope.max(axis=-1, where=~negligible, initial=-np.inf)
    slowest = slope.min(axis=-1, where=~negligible, initial=np.inf)
    return ((fastest - slowest) * width[:, None] > SWING).any(axis=1)
