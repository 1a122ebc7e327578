"""P1, sections 2 and 3: the model and the attention-based explanations (Eq. 1 to 11)."""

from __future__ import annotations

import numpy as np

from ..registry import CORRECTED, MISPRINT, NOT_CHECKABLE, Outcome, statement
from ..tolerances import ALGEBRA, INEQUALITY
from . import small_model as m


@statement(
    paper="P1",
    ref="Eq. 1",
    claim="f is the average over the heads of f_i = W_l v~, and f_i lies in R^{d_out}",
    assumptions="W_l is 1 x d_out",
    method="algebra",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="f_i := W_l^(i) v~^(i) lies in R^{d_out}.",
    corrected=(
        "f_i lies in R: W_l^(i) is 1 x d_out, so W_l^(i) v~^(i) is a number (as the rest of the "
        "paper uses it)."
    ),
    consequence="Only the dimension is off; nothing later depends on it.",
)
def eq_1(perturb: float = 0.0) -> Outcome:
    """Average of head outputs, and the number of components of a head's output."""
    w = m.random_weights(1)
    f_i = np.array([w.W_l[i].reshape(1, -1) @ m.head_value(w, w.e, i) for i in range(m.K)])
    error = m.relative_error((1 + perturb) * f_i.mean(axis=0)[0], m.output(w, w.e))
    components = f_i.shape[1]
    return Outcome(
        error=error + abs(components - 1),
        tolerance=ALGEBRA,
        printed_error=abs(components - m.d_out),
        counterexample=(
            "d_out = 2, W_l = (1, 1), v~ = (3, 4): W_l v~ = 7, one number, not a vector of R^2."
        ),
    )


@statement(
    paper="P1",
    ref="Eqs. 2, 3, 5-7, 12, 15",
    claim="embeddings, positions, keys, queries, values, the gradient's name, the kernel",
    method="none",
    verdict=NOT_CHECKABLE,
    reason=(
        "Definitions without a claim. They are used, as printed, by the checks of Eq. 4, 8, 14, 16 "
        "and 20 to 28."
    ),
)
def definitions(perturb: float = 0.0) -> Outcome:
    """Nothing to run."""
    raise NotImplementedError


@statement(
    paper="P1",
    ref="Eq. 4",
    claim=(
        "padding embeds as h + W_p(t) and is not masked: every padded position receives attention"
    ),
    assumptions="T < T_max",
    method="algebra",
)
def eq_4(perturb: float = 0.0) -> Outcome:
    """The attention of document and [CLS] falls short of 1 by exactly that of the padding, which is
    positive.
    """
    w = m.random_weights(2)
    error = 0.0
    for i in range(m.K):
        alpha = m.attention(w, w.e, i)
        q = w.W_q[i] @ w.e[0]
        logits = w.e @ w.W_k[i].T @ q / np.sqrt(m.d_att)
        pad = np.exp(logits[m.T + 1 :]).sum() / np.exp(logits).sum()
        error = max(
            error, abs(1 - alpha[: m.T + 1].sum() - (1 + perturb) * pad), float(np.max(-alpha))
        )
    return Outcome(error, ALGEBRA, detail="six padded positions of eleven")


@statement(
    paper="P1",
    ref="Eq. 8",
    claim=(
        "alpha is a distribution over T_max positions; the factor 1/sqrt(d_att) is absorbed by W_q "
        "or W_k"
    ),
    method="algebra",
)
def eq_8(perturb: float = 0.0) -> Outcome:
    """Positive, sums to one, and W_q / sqrt(d_att) without the factor gives the same attention."""
    w = m.random_weights(3)
    error = 0.0
    for i in range(m.K):
        alpha = m.attention(w, w.e, i)
        absorbed = (1 + perturb) * w.W_q[i] / np.sqrt(m.d_att)
        g = np.exp((w.e @ w.W_k[i].T) @ (absorbed @ w.e[0]))
        error = max(
            error, abs(alpha.sum() - 1), m.relative_error(g / g.sum(), alpha), float(np.max(-alpha))
        )
    return Outcome(error, ALGEBRA)


@statement(
    paper="P1",
    ref="Eq. 9",
    claim=(
        "only the query of [CLS] matters: v~ is the first row of the attention matrix A^(i) times "
        "the values"
    ),
    assumptions="A_{s,t} = alpha_t(q_s), section 3",
    method="algebra",
)
def eq_9(perturb: float = 0.0) -> Outcome:
    """First row of A V against the head's value; rows of A sum to one over T_max positions."""
    w = m.random_weights(4)
    error = 0.0
    for i in range(m.K):
        A = np.array([m.attention(w, w.e, i, query_row=s) for s in range(m.T_max)])
        error = max(error, float(np.max(np.abs(A.sum(axis=1) - 1))))
        error = max(
            error,
            m.relative_error((1 + perturb) * (A @ (w.e @ w.W_v[i].T))[0], m.head_value(w, w.e, i)),
        )
    return Outcome(
        error,
        ALGEBRA,
        detail=(
            "The paper calls A a T x T matrix; its rows are distributions only over all T_max "
            "positions."
        ),
    )


@statement(
    paper="P1",
    ref="Eq. 10",
    claim=(
        "alpha-avg is non-negative and sums over the document to 1 minus the attention on [CLS] "
        "and padding"
    ),
    method="algebra",
)
def eq_10(perturb: float = 0.0) -> Outcome:
    """The sum over the document's tokens plus the average attention elsewhere is one."""
    w = m.random_weights(5)
    alpha = np.array([m.attention(w, w.e, i) for i in range(m.K)])
    average = alpha.mean(axis=0)
    elsewhere = average[0] + average[m.T + 1 :].sum()
    document = (1 + perturb) * average[1 : m.T + 1]
    return Outcome(max(abs(document.sum() + elsewhere - 1), float(np.max(-document))), ALGEBRA)


@statement(
    paper="P1",
    ref="Eq. 11",
    claim="alpha-max is non-negative, and alpha-avg and alpha-max can rank tokens differently",
    method="algebra",
)
def eq_11(perturb: float = 0.0) -> Outcome:
    """alpha-avg <= alpha-max <= K alpha-avg, sharp on both sides; a pair of heads with reversed
    ranks.
    """
    alpha = np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6], [0.3, 0.35, 0.35]])
    average = alpha.mean(axis=0)
    largest = alpha.max(axis=0)
    reversed_ranks = average[1] > average[0] and largest[1] < largest[0]
    one_hot = np.eye(3)
    lower = np.max((1 + perturb) * average - largest)
    sharp = np.max(np.abs((1 + perturb) * 3 * one_hot.mean(axis=0) - one_hot.max(axis=0)))
    error = max(float(lower), float(sharp), float(np.max(-largest)), 0.0 if reversed_ranks else 1.0)
    return Outcome(
        error,
        INEQUALITY,
        detail=(
            "Heads (.5, .4, .1), (.1, .3, .6), (.3, .35, .35): alpha-avg = (.3, .35, .35), "
            "alpha-max = (.5, .4, .6)."
        ),
    )
