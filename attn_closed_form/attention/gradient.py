"""Gradients of P1's classifier with respect to the embedded tokens, integrated gradients and LRP,
in closed form.

In terms of the score tables (`weights.py`) Theorem 4.1 of P1 reads, with f_i the output of head i,

    grad_t = (1/K) sum_i alpha_t^(i) [ w_v^(i) + (u_t^(i) - f_i) w_k^(i) ],

a matrix of rank 2K. So the mean over coordinates needs 2K numbers, gradient-times-input only s and
u, and the L2 norm only the (2K, 2K) Gram matrix of the w's; the L1 norm alone needs the full
matrix.

All functions take `weights`, the T ids `tokens` of a document, and `output`: the index of an
output, or C coefficients of a combination such as the margin of two classes. All but `gradient`
return one number per token of the document.

Departure from the paper: Theorem 4.1 treats the query as a constant, which is correct for every
position but that of [CLS], whose embedding also makes the query. Its row has one more term,

    (1/K) sum_i W_q^T / sqrt(d_att) sum_s alpha_s (u_s - f_i) k_s.

**Integrated gradients** (Sundararajan et al., 2017) from the document of [UNK] tokens: on the
straight line between the embeddings the logits s and the values u are linear in the path parameter
tau, so that with alpha = softmax(s0 + tau ds)

    df/dtau = (1/K) sum_i sum_t alpha_t [ du_t + (u_t - f_i) ds_t ],

and the part of token t is integrated; each node costs O(K T).

**Layer-wise relevance propagation** by the rules of Achtibat et al. (2024), "AttnLRP", which P2
uses for comparison: a product passes half of its relevance to each factor, a linear map passes it
on in proportion, a softmax by its Jacobian. Half of f goes to the values and half to the attention
weights; half of the latter goes to the keys, and the other half to the query and so to [CLS]:

    R_t = (1/K) sum_i alpha_t [ e_t.w_v / 2 + (u_t - f_i) e_t.w_k / 4 ].

The relevance of biases and [CLS] does not reach the tokens, so the sum is not f.
`benchmarks/papers/transformers/lrp.py` has the same rules by automatic differentiation, and a test
compares the two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._arrays import positive, softmax, usual_float_errors
from .._legendre import legendre_rule
from .._types import Array, Masks, Tokens
from .predict import Output, Seen, as_output, as_tokens, scores
from .weights import AttentionWeights

# Tuning: Gauss-Legendre order of the rule whose result counts on a panel of `integrated_gradients`.
# It is exact to degree 39, which is more than float64 sees on a panel where nothing takes over.
FINE = 20
# A token whose logit is this far below another's gets negligible attention: e^-50 is 2e-22, less
# than an ulp.
NEGLIGIBLE = 50.0
# Tuning: logits may move relative to each other by this much within a panel. A take-over, which is
# a few units of the difference wide, then covers a tenth of the panel and is noticed by one of the
# 30 nodes.
SWING = 40.0


def _gradient(
    weights: AttentionWeights, tokens: Tokens, output: Output
) -> tuple[Array, Array, Seen]:
    """Return coefficients (L, 2K) and directions (2K, d_e) whose product is the gradient by all L
    embedded tokens.

    The coefficients are alpha, then alpha (u - f), both over K; the directions w_v, then w_k.
    """
    seen = scores(weights, tokens, output)
    tables = weights.collapse
    alpha = softmax(seen.s)
    f = (alpha * seen.u).sum(axis=1, keepdims=True)
    alpha /= weights.K
    beta = alpha * (seen.u - f)
    w_v = np.einsum("kce,c->ke", tables.w_v, as_output(weights, output))
    coefficients = np.concatenate([alpha, beta]).T
    directions = np.concatenate([w_v, tables.w_k])
    return coefficients, directions, seen


@usual_float_errors
def gradient(weights: AttentionWeights, tokens: Tokens, output: Output = 0) -> Array:
    """Compute the (L, d_e) gradient of f[output] by the embedded tokens, P1 Theorem 4.1 with the
    [CLS] term.

    Row 0 is [CLS], rows 1..T are the document, and the rest, if the model has positions, is
    padding.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids
    output : index of an output, or C coefficients of a combination of outputs

    Returns
    -------
    (L, d_e) float64
        one row per token that the model reads: the derivatives by its embedding

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> weights = random_weights(seed=0, d_e=4)
    >>> gradient(weights, [2, 3, 5])[1:4].round(4)  # the three tokens of the document
    array([[-0.0613, -0.0385,  0.0271,  0.0103],
           [-0.0597, -0.0398,  0.0037,  0.0272],
           [-0.0193,  0.0116,  0.0209,  0.0147]])
    """
    coefficients, directions, seen = _gradient(weights, tokens, output)
    grad: Array = coefficients @ directions
    # beta sums to zero over positions, so the key bias drops out of the extra term.
    beta = coefficients[:, weights.K :].T
    mean_e = beta @ weights.embed(seen.ids)
    mean_k = np.matmul(weights.W_k, mean_e[:, :, None])[:, :, 0]
    mean_k = mean_k / np.sqrt(weights.d_att)
    through_query = np.matmul(mean_k[:, None, :], weights.W_q)[:, 0]
    grad[0] += through_query.sum(axis=0)
    return grad


@usual_float_errors
def gradient_mean(weights: AttentionWeights, tokens: Tokens, output: Output = 0) -> Array:
    """Compute G-avg of P1 section 4.1, the mean of the gradient's coordinates, (T,).

    Parameters are those of `gradient`.

    Returns
    -------
    (T,) float64
        mean of the gradient's coordinates for each token of the document; it may cancel

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> gradient_mean(random_weights(seed=0), [5, 7]).round(6)
    array([-0.002278, -0.013877])
    """
    coefficients, directions, _ = _gradient(weights, tokens, output)
    of_document = coefficients[1 : 1 + len(tokens)]
    return of_document @ directions.mean(axis=1)


@usual_float_errors
def gradient_l1(weights: AttentionWeights, tokens: Tokens, output: Output = 0) -> Array:
    """Compute G-l1 of P1 section 4.1, the L1 norm of the gradient, (T,).

    Parameters are those of `gradient`.

    Returns
    -------
    (T,) float64
        L1 norm of the gradient by each token of the document; without a sign

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> gradient_l1(random_weights(seed=0), [5, 7]).round(6)
    array([0.061823, 0.369228])
    """
    coefficients, directions, _ = _gradient(weights, tokens, output)
    of_document = coefficients[1 : 1 + len(tokens)]
    return np.abs(of_document @ directions).sum(axis=1)


@usual_float_errors
def gradient_l2(weights: AttentionWeights, tokens: Tokens, output: Output = 0) -> Array:
    """Compute G-l2 of P1 section 4.1, the L2 norm of the gradient, (T,).

    Parameters are those of `gradient`.

    Returns
    -------
    (T,) float64
        L2 norm of the gradient by each token of the document; without a sign

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> gradient_l2(random_weights(seed=0), [5, 7]).round(6)
    array([0.017031, 0.104041])
    """
    coefficients, directions, _ = _gradient(weights, tokens, output)
    # |c W|^2 = |c R^T|^2 with W^T = Q R: as cheap as the Gram matrix, but without squaring the
    # condition number.
    _, r = np.linalg.qr(directions.T)
    of_document = coefficients[1 : 1 + len(tokens)]
    rows = of_document @ r.T
    # Scaled by the largest entry, because the square of a gradient below 1e-154 is not a normal
    # number.
    smallest = np.finfo(np.float64).tiny
    largest: Array = np.abs(rows).max(axis=1, initial=smallest)
    scaled = rows / largest[:, None]
    return np.linalg.norm(scaled, axis=1) * largest


@usual_float_errors
def gradient_times_input(weights: AttentionWeights, tokens: Tokens, output: Output = 0) -> Array:
    """Compute G x I of P1 section 4.1, e_t . grad_t, (T,), from s and u alone.

    Parameters are those of `gradient`.

    Returns
    -------
    (T,) float64
        effect of scaling the embedding of each token of the document, to first order

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> gradient_times_input(random_weights(seed=0), [5, 7]).round(6)
    array([-0.017244, -0.216495])
    """
    return _relevance(weights, tokens, output, values=1, keys=1)


@usual_float_errors
def classifier_lrp(weights: AttentionWeights, tokens: Tokens, output: Output = 0) -> Array:
    """Compute the (T,) relevance of each token of a document by AttnLRP (Achtibat et al., 2024).

    Parameters are those of `gradient`.

    Returns
    -------
    (T,) float64
        relevance of each token of the document

    Examples
    --------
    >>> from attn_closed_form.attention import random_weights
    >>> classifier_lrp(random_weights(seed=0), [5, 7]).round(6)
    array([-0.004699, -0.055174])
    """
    return _relevance(weights, tokens, output, values=2, keys=4)


def _relevance(
    weights: AttentionWeights, tokens: Tokens, output: Output, values: int, keys: int
) -> Array:
    """Return e_t . grad_t, (T,), with the parts through the values and the keys divided by `values`
    and `keys`.
    """
    (coefficients, _, seen) = _gradient(weights, tokens, output)
    tables = weights.collapse
    u_const = tables.u_const @ as_output(weights, output)
    e_w_v = seen.u - u_const[:, None]
    e_w_k = seen.s - tables.s_const[:, None]
    inputs = np.concatenate([e_w_v / values, e_w_k / keys])
    products = coefficients.T * inputs
    return products.sum(axis=0)[1 : 1 + len(tokens)]


@usual_float_errors
def integrated_gradients(
    weights: AttentionWeights, tokens: Tokens, output: Output = 0, tol: float = 1e-10
) -> Array:
    """Compute the (T,) integrated gradients (Sundararajan et al., 2017) from the document of [UNK]
    tokens.

    Panels are bisected until no take-over of the attention can hide between the nodes and two
    Gauss-Legendre rules agree to `tol` (relative to the size of f on the path) in every token. This
    is an error estimate, not a bound. The exact scores add up to f(document) - f([UNK]s).

    Parameters
    ----------
    weights : AttentionWeights
    tokens : T token ids
    output : index of an output, or C coefficients of a combination of outputs
    tol : relative accuracy of the estimate

    Returns
    -------
    (T,) float64
        score of each token; together they are the change from the document of [UNK] tokens

    Examples
    --------
    >>> from attn_closed_form import predict
    >>> from attn_closed_form.attention import random_weights
    >>> weights, document = random_weights(seed=0), [2, 3, 5]
    >>> integrated_gradients(weights, document).round(6)
    array([-0.125531, -0.063506, -0.016435])
    >>> (predict(weights, document) - predict(weights, [weights.unk] * 3)).round(6)  # their sum
    array([-0.205471])
    """
    tol = positive("tol", tol)
    ids = as_tokens(weights, tokens)
    _, s1, u1 = scores(weights, ids, output)
    baseline = np.full_like(ids, weights.unk)
    _, s0, u0 = scores(weights, baseline, output)
    path = StraightPath(s0=s0, u0=u0, ds=s1 - s0, du=u1 - u0, document=slice(1, 1 + ids.size))
    # Never zero, because errors are relative to it.
    size = max(np.abs(u0).max(), np.abs(u1).max(), np.finfo(float).tiny)
    total = np.zeros(ids.size)
    waiting = [(np.zeros(1), np.ones(1))]
    # Tuning: numbers in one array of nodes, about 8 MB.
    node_elements = 1 << 20
    block = max(1, node_elements // (FINE * s0.size))
    used = 0
    # The integral over a panel narrower than this is below the rounding error.
    narrowest_panel = 2.0**-40
    # Tuning: the number of panels after which the requested accuracy counts as out of reach.
    max_panels = 4096
    while waiting:
        left, width = waiting.pop()
        used += left.size
        if used > max_panels:
            raise ValueError(
                f"tol: {tol} was not reached with {max_panels} panels; use a larger tol"
            )
        done = ~path.too_wide(left, width)
        some_left = left[done]
        some_width = width[done]
        fine, variation = path.integrals(some_left, some_width, FINE)
        # Tuning: half the order tells how far the result can be off.
        coarse, _ = path.integrals(some_left, some_width, FINE // 2)
        gap = np.abs(fine - coarse).max(axis=1, initial=0.0)
        # The error is relative to f and, if a token takes over within a narrow panel, to its
        # contribution.
        largest_part = variation.max(axis=1, initial=0.0)
        allowed = tol * (size * some_width * len(s0) + largest_part)
        # The gap is the error of the coarse rule. The fine rule, which counts, is far better, so
        # that ten times as much would do, too.
        good = (gap <= allowed) | (some_width < narrowest_panel)
        total += fine[good].sum(axis=0)
        done[done] = good
        # The halves of the other panels, in blocks that keep the arrays of nodes small.
        left = left[~done]
        half = width[~done] / 2
        left = np.concatenate([left, left + half])
        half = np.concatenate([half, half])
        for start in range(0, left.size, block):
            part = slice(start, start + block)
            waiting.append((left[part], half[part]))
    return total / weights.K


class StraightPath(NamedTuple):
    """The straight line from the document of [UNK] tokens to a document, logits s0 + tau ds and
    values u0 + tau du.
    """

    s0: Array  # (K, L)
    u0: Array
    ds: Array
    du: Array
    document: slice  # the tokens of the document among the L positions

    def integrals(self, left: Array, width: Array, order: int) -> tuple[Array, Array]:
        """Integrate the slope and its absolute value over each panel, both (panels, T)."""
        x, w = legendre_rule(order)
        nodes = left[:, None] + width[:, None] * x
        tau = nodes[:, :, None, None]
        alpha = softmax(self.s0 + tau * self.ds)
        u = self.u0 + tau * self.du
        f = (alpha * u).sum(axis=-1, keepdims=True)
        slope_of_heads = alpha * (self.du + (u - f) * self.ds)
        slope_of_all = slope_of_heads.sum(axis=2)
        slope = slope_of_all[:, :, self.document]
        rule = np.multiply.outer(width, w)
        integral = np.einsum("pnt,pn->pt", slope, rule)
        variation = np.einsum("pnt,pn->pt", np.abs(slope), rule)
        return integral, variation

    def too_wide(self, left: Array, width: Array) -> Masks:
        """Return the (panels,) mask of panels on which a take-over of the attention could hide
        between the nodes.

        Logits are straight lines on the path. A token that is far below the leader of the left end,
        or that of the right end, at both ends is far below it in between and cannot matter; only
        the movement of the others counts.
        """
        right = left + width
        s_left = self.s0 + left[:, None, None] * self.ds
        s_right = self.s0 + right[:, None, None] * self.ds
        negligible = np.zeros(s_left.shape, dtype=bool)
        for end in (s_left, s_right):
            leader = end.argmax(axis=-1, keepdims=True)
            lead_left = np.take_along_axis(s_left, leader, axis=-1) - s_left
            lead_right = np.take_along_axis(s_right, leader, axis=-1) - s_right
            negligible |= np.minimum(lead_left, lead_right) > NEGLIGIBLE
        slope = np.broadcast_to(self.ds, negligible.shape)
        fastest = slope.max(axis=-1, where=~negligible, initial=-np.inf)
        slowest = slope.min(axis=-1, where=~negligible, initial=np.inf)
        swing = (fastest - slowest) * width[:, None]
        return (swing > SWING).any(axis=1)
