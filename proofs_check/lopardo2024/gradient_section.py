"""P1, section 4 and the slides on it: gradient-based explanations (Eq. 13, Theorem 4.1 and the
comments).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..registry import CONDITION, CORRECTED, SLIP, WRONG, Outcome, statement
from ..tolerances import AUTODIFF
from . import small_model as m


@statement(
    paper="P1",
    ref="Section 4.1",
    claim="G-l1 and G-l2 are non-negative; G-avg and GxI carry signs",
    method="autodiff",
)
def section_4_1(perturb: float = 0.0) -> Outcome:
    """Norms are those of the differentiated model, GxI takes both signs on one document."""
    w = m.random_weights(6)
    gradient = m.jacobian(partial(m.output, w), w.e)[1 : m.T + 1]
    formula = m.gradient_eq_14(w)[1 : m.T + 1]
    l1 = np.abs(formula).sum(axis=1)
    l2 = np.sqrt((formula**2).sum(axis=1))
    error = m.relative_error((1 + perturb) * l1, np.abs(gradient).sum(axis=1))
    error = max(error, m.relative_error((1 + perturb) * l2, np.linalg.norm(gradient, axis=1)))
    times_input = (w.e[1 : m.T + 1] * gradient).sum(axis=1)
    both_signs = times_input.min() < 0 < times_input.max()
    return Outcome(
        max(error, 0.0 if both_signs else 1.0), AUTODIFF, detail=f"GxI = {np.round(times_input, 4)}"
    )


def _head(w: m.Weights, i: int, e: Any, xp: Any) -> Any:
    """f_i with the embeddings as the argument to differentiate in."""
    return m.head_output(w, e, i, xp)


@statement(
    paper="P1",
    ref="Eq. 13",
    claim="the gradient of f is the average of the heads' gradients",
    method="autodiff",
)
def eq_13(perturb: float = 0.0) -> Outcome:
    """JAX on f against the average of JAX on every head."""
    w = m.random_weights(7)
    whole = m.jacobian(partial(m.output, w), w.e)
    heads = [m.jacobian(partial(_head, w, i), w.e) for i in range(m.K)]
    return Outcome(m.relative_error((1 + perturb) * np.mean(heads, axis=0), whole), AUTODIFF)


@statement(
    paper="P1",
    ref="Theorem 4.1",
    claim=(
        "Eq. 14: the gradient with respect to e_t is (1/K) sum_i alpha_t [W_v'W_l' + W_l(v_t - v~) "
        "W_k'q/sqrt(d_att)]"
    ),
    assumptions="zero biases; any t",
    method="autodiff",
    verdict=CORRECTED,
    kind=CONDITION,
    changes="The gradient at [CLS] has a second term. Tokens of the document are not affected.",
    printed=(
        "Eq. 14 for every embedded token e_t, with one q. [CLS] is one of the positions of Eq. 8 "
        "(the first row and column of figure 3), and its query is W_q e_[CLS]."
    ),
    corrected=(
        "Eq. 14 with q^(i) holds for every position but [CLS]. There, add (1/K) sum_i (W_q^(i))' / "
        "sqrt(d_att) sum_s alpha_s^(i) W_l^(i)(v_s^(i) - sum_u alpha_u^(i) v_u^(i)) k_s^(i)."
    ),
    consequence=(
        "Explanations of the document's own tokens are unaffected. Saliency of [CLS], or a query "
        "that is not constant (a second layer, mean pooling), needs the extra term, which appendix "
        "A drops by never using its Eq. 21."
    ),
)
def theorem_4_1(perturb: float = 0.0) -> Outcome:
    """JAX on the whole model against Eq. 14, with and without the term of [CLS]; and a scalar model
    by hand.
    """
    error = 0.0
    printed = 0.0
    for seed in range(8, 11):
        w = m.random_weights(seed)
        true = m.jacobian(partial(m.output, w), w.e)
        formula = m.gradient_eq_14(w, 1 + perturb)
        error = max(error, m.relative_error(formula[1:], true[1:]))
        printed = max(printed, m.relative_error(formula[0], true[0]))
        formula[0] += m.cls_term(w)
        error = max(error, m.relative_error(formula, true))
    return Outcome(
        error,
        AUTODIFF,
        printed,
        counterexample=(
            "K = 1, all dimensions 1, all weights 1, two positions: [CLS] with e = 0, a token with "
            "e = 1. Then q = 0, alpha = (1/2, 1/2), f = 1/2. Eq. 14 at [CLS]: 1/2 (1 + (0 - 1/2) "
            "0) = 0.5. The difference quotient (f(e=0.001) - f(e=-0.001))/0.002, f(e) = (e exp(e "
            "e) + exp(e))/(exp(e e) + exp(e)), is 0.75; the extra term is 1/2 (0 - 1/2) 0 + 1/2 (1 "
            "- 1/2) 1 = 0.25."
        ),
    )


@statement(
    paper="P1",
    ref="Section 4.2, comment (i)",
    claim=(
        "the gradient is linear in alpha to first order, so alpha-avg correlates with G-avg and "
        "G-l1, not with G-l2"
    ),
    assumptions="K = 1 and typical values v_t = v~, where the comment is sharpest",
    method="autodiff",
    verdict=CORRECTED,
    kind=WRONG,
    printed=(
        "alpha-avg is correlated with G-avg and G-l1, while the same does not hold for alpha-max "
        "and G-l2."
    ),
    corrected=(
        "With K = 1 and typical values, alpha-avg = alpha-max is proportional to both G-l1 and "
        "G-l2, with factors |W_v'W_l'|_1 and |W_v'W_l'|_2, and to G-avg with the factor "
        "mean(W_v'W_l'), which may be negative: then the correlation with G-avg is -1. In general "
        "G-l1/sqrt(d_e) <= G-l2 <= G-l1."
    ),
    consequence=(
        "What correlates with attention is the norm of the gradient, for either norm; G-avg keeps "
        "the sign of the linear layers, as in comment (ii) of the paper. The differences between "
        "G-l1 and G-l2 in figure 1 are not explained by linearity in alpha."
    ),
)
def comment_4_2_i(perturb: float = 0.0) -> Outcome:
    """Equal values: correlations of attention with G-l2 (+1) and with G-avg (-1), by JAX."""
    w = _equal_values(seed=12)
    gradient = m.jacobian(partial(m.output, w), w.e)[1 : m.T + 1]
    alpha = m.attention(w, w.e, 0)[1 : m.T + 1]
    direction = w.W_l[0] @ w.W_v[0]
    l2 = np.linalg.norm(gradient, axis=1)
    l1 = np.abs(gradient).sum(axis=1)
    average = gradient.mean(axis=1)
    error = m.relative_error((1 + perturb) * alpha * np.linalg.norm(direction), l2)
    error = max(error, m.relative_error((1 + perturb) * alpha * np.abs(direction).sum(), l1))
    error = max(error, m.relative_error((1 + perturb) * alpha * direction.mean(), average))
    correlation_l2 = float(np.corrcoef(alpha, l2)[0, 1])
    correlation_average = float(np.corrcoef(alpha, average)[0, 1])
    return Outcome(
        error,
        AUTODIFF,
        printed_error=1 - correlation_average,
        counterexample=(
            "K = 1, all v_t equal, W_v'W_l' = (-1, 0): the gradient is alpha_t (-1, 0), so for "
            "alpha = (.2, .3, .5) G-avg = (-.1, -.15, -.25): correlation -1; G-l2 = (.2, .3, .5): "
            f"correlation +1. The run found {correlation_average:+.6f} and {correlation_l2:+.6f}."
        ),
    )


def _equal_values(seed: int) -> m.Weights:
    """One head whose values W_v e_t are all equal while the keys differ; mean(W_v'W_l') is
    negative.
    """
    w = m.random_weights(seed, heads=1)
    W_v = w.W_v[0].copy()
    # Values see only the last coordinate, and every token has the same one.
    W_v[:, :-1] = 0.0
    e = w.e.copy()
    e[:, -1] = 1.0
    W_l = w.W_l * -np.sign(w.W_l[0] @ W_v[:, -1])
    return w._replace(W_v=W_v[None], W_l=W_l, e=e)


@statement(
    paper="P1",
    ref="Section 4.2, comment (ii)",
    claim=(
        "for K = 1 and v_t = sum_s alpha_s v_s only alpha_t W_v'W_l' remains of Eq. 14, of either "
        "sign"
    ),
    assumptions="K = 1, typical value",
    method="autodiff",
)
def comment_4_2_ii(perturb: float = 0.0) -> Outcome:
    """All values equal: the gradient by JAX is attention times one direction."""
    w = _equal_values(seed=13)
    gradient = m.jacobian(partial(m.output, w), w.e)[1:]
    formula = m.attention(w, w.e, 0)[1:, None] * (w.W_l[0] @ w.W_v[0])
    return Outcome(m.relative_error((1 + perturb) * formula, gradient), AUTODIFF)


@statement(
    paper="P1",
    ref="Slides, gradient insight",
    claim="a token contributes to the gradient if alpha_t != 0 and v_t deviates from the average",
    assumptions="K = 1",
    method="autodiff",
    verdict=CORRECTED,
    kind=SLIP,
    printed="Main insight: token contributes if alpha_t is not 0 and v_t deviates from average.",
    corrected=(
        "A token contributes whenever alpha_t is not 0, unless W_v'W_l' + W_l(v_t - v~) "
        "W_k'q/sqrt(d_att) = 0: the first part does not require v_t to deviate (comment (ii) of "
        "section 4.2 of the paper agrees)."
    ),
    consequence=(
        "A reader of the slides would expect a zero gradient for typical tokens; it is alpha_t "
        "W_v'W_l'."
    ),
)
def slides_gradient(perturb: float = 0.0) -> Outcome:
    """Values without any deviation and a gradient that is not zero."""
    w = _equal_values(seed=14)
    gradient = m.jacobian(partial(m.output, w), w.e)[1:]
    direction = (1 + perturb) * (w.W_l[0] @ w.W_v[0])
    error = m.relative_error(m.attention(w, w.e, 0)[1:, None] * direction, gradient)
    return Outcome(
        error,
        AUTODIFF,
        printed_error=float(np.max(np.abs(gradient))),
        counterexample=(
            "K = 1, two positions with alpha = (1/2, 1/2), v = (1, 1), W_v = W_l = 1: no value "
            "deviates, and the gradient is alpha_t W_v W_l = 1/2, not 0."
        ),
    )
