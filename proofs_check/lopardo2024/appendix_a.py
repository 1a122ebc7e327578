"""P1, appendix A: the proof of Theorem 4.1 (Eq. 20 to 22 and three unnumbered displays). t is never
[CLS] here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..registry import CORRECTED, MISPRINT, Outcome, statement
from ..tolerances import AUTODIFF
from . import small_model as m


def _linear_map(which: str, perturb: float) -> Outcome:
    """Jacobian of e -> W e, transposed as the paper writes it (d_e rows), against the transposed
    matrix.
    """
    w = m.random_weights(20)
    W = getattr(w, which)[0]
    derivative = m.jacobian(lambda e, xp: xp.asarray(W) @ e, w.e[1]).T
    return Outcome(m.relative_error((1 + perturb) * W.T, derivative), AUTODIFF)


@statement(
    paper="P1",
    ref="Eq. 20",
    claim="the gradient of k_t with respect to e_t is W_k'",
    method="autodiff",
)
def eq_20(perturb: float = 0.0) -> Outcome:
    """Keys."""
    return _linear_map("W_k", perturb)


@statement(
    paper="P1",
    ref="Eq. 21",
    claim="the gradient of q_t with respect to e_t is W_q'",
    method="autodiff",
)
def eq_21(perturb: float = 0.0) -> Outcome:
    """Queries; the appendix states it and then treats q as a constant, see Theorem 4.1."""
    return _linear_map("W_q", perturb)


@statement(
    paper="P1",
    ref="Eq. 22",
    claim="the gradient of v_t with respect to e_t is W_v'",
    method="autodiff",
)
def eq_22(perturb: float = 0.0) -> Outcome:
    """Values."""
    return _linear_map("W_v", perturb)


@statement(
    paper="P1",
    ref="Appendix A, gradient of alpha_t",
    claim="grad_{e_t} alpha_t = alpha_t/sqrt(d_att) (W_k'q - sum_s alpha_s W_k'q)",
    assumptions="t is not [CLS]",
    method="autodiff",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed=(
        "alpha_t/sqrt(d_att) (W_k'q - sum_s alpha_s W_k'q), which is 0, because the alpha_s sum to "
        "one."
    ),
    corrected=(
        "alpha_t (1 - alpha_t)/sqrt(d_att) W_k'q: only the term s = t of the sum depends on e_t."
    ),
    consequence=(
        "A typographical slip: the display for v~ below correctly uses alpha_t - alpha_t^2."
    ),
)
def gradient_alpha_t(perturb: float = 0.0) -> Outcome:
    """JAX on the attention of one head."""
    w = m.random_weights(21)
    J = m.jacobian(lambda e, xp: m.attention(w, e, 0, xp=xp), w.e)
    alpha = m.attention(w, w.e, 0)
    direction = w.W_k[0].T @ (w.W_q[0] @ w.e[0]) / np.sqrt(m.d_att)
    true = np.array([J[t, t] for t in range(1, m.T + 1)])
    formula = np.array(
        [(1 + perturb) * alpha[t] * (1 - alpha[t]) * direction for t in range(1, m.T + 1)]
    )
    printed = np.array(
        [alpha[t] * (direction - alpha.sum() * direction) for t in range(1, m.T + 1)]
    )
    return Outcome(
        m.relative_error(formula, true),
        AUTODIFF,
        m.relative_error(printed, true),
        counterexample=(
            "Two positions, all dimensions 1, q = W_k = 1, e = (0, 0): alpha_1 = "
            "exp(e_1)/(exp(e_1) + 1) has derivative 1/4 at e_1 = 0. Printed: 1/2 (1 - (1/2 + 1/2)) "
            "= 0."
        ),
    )


@statement(
    paper="P1",
    ref="Appendix A, gradient of alpha_s",
    claim="grad_{e_t} alpha_s = -alpha_u alpha_t/sqrt(d_att) W_k'q for s != t",
    assumptions="t is not [CLS]",
    method="autodiff",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="-alpha_u alpha_t/sqrt(d_att) W_k'q, where u is undefined.",
    corrected="-alpha_s alpha_t/sqrt(d_att) W_k'q.",
    consequence="A typographical slip that recurs in the display for v~.",
)
def gradient_alpha_s(perturb: float = 0.0) -> Outcome:
    """JAX on the attention of one head; the printed form with whichever fixed u fits best."""
    w = m.random_weights(22)
    J = m.jacobian(lambda e, xp: m.attention(w, e, 0, xp=xp), w.e)
    alpha = m.attention(w, w.e, 0)
    direction = w.W_k[0].T @ (w.W_q[0] @ w.e[0]) / np.sqrt(m.d_att)
    t = 1
    others = [s for s in range(m.T_max) if s != 1]
    true = J[others, t]
    formula = np.array([-(1 + perturb) * alpha[s] * alpha[t] * direction for s in others])
    best = min(
        m.relative_error(np.array([-alpha[u] * alpha[t] * direction for _ in others]), true)
        for u in range(m.T_max)
    )
    return Outcome(
        m.relative_error(formula, true),
        AUTODIFF,
        best,
        counterexample=(
            "Three positions, all dimensions 1, q = W_k = 1, e = (0, ln 2, ln 3): alpha = (1/6, "
            "1/3, 1/2). With respect to e_1, alpha_2 has derivative -1/18 and alpha_3 has -1/12: "
            "no single alpha_u gives both."
        ),
    )


def _value(w: m.Weights, e: Any, xp: Any) -> Any:
    """v~ of the first head."""
    return m.head_value(w, e, 0, xp)


@statement(
    paper="P1",
    ref="Appendix A, gradient of v~",
    claim="grad_{e_t} v~ = alpha_t/sqrt(d_att) (v_t - sum_s alpha_s v_s)(W_k'q) + alpha_t W_v'",
    assumptions="t is not [CLS]",
    method="autodiff",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed=(
        "Third line: ... + sum_{s != t} -alpha_u alpha_t/sqrt(d_att) (W_k'q), without v_s. Last "
        "line: the product (v_t - sum_s alpha_s v_s)(W_k'q) of a vector of R^{d_out} and one of "
        "R^{d_e}."
    ),
    corrected=(
        "Third line: v_s' belongs behind every term of the sum, with alpha_s for alpha_u. Last "
        "line: alpha_t/sqrt(d_att) (W_k'q)(v_t - sum_s alpha_s v_s)' + alpha_t W_v', a d_e x d_out "
        "matrix; times W_l' it gives Eq. 14."
    ),
    consequence="Slips of writing: Eq. 14 itself is right (but for [CLS]).",
)
def gradient_v(perturb: float = 0.0) -> Outcome:
    """JAX on v~: the corrected matrix in general, the printed third line where it has a meaning
    (d_out = 1).
    """
    t = 2
    error = 0.0
    printed = 0.0
    for out in (m.d_out, 1):
        w = m.random_weights(23, out=out)
        true = m.jacobian(partial(_value, w), w.e)[:, t].T
        alpha = m.attention(w, w.e, 0)
        v = w.e @ w.W_v[0].T
        direction = w.W_k[0].T @ (w.W_q[0] @ w.e[0]) / np.sqrt(m.d_att)
        formula = (1 + perturb) * alpha[t] * np.outer(direction, v[t] - alpha @ v) + alpha[
            t
        ] * w.W_v[0].T
        error = max(error, m.relative_error(formula, true))
        if out == 1:
            rest = alpha[t] * (1 - alpha[t])  # sum over s != t of alpha_s alpha_t, v_s forgotten
            line = (
                direction * (alpha[t] - alpha[t] ** 2) * v[t]
                + alpha[t] * w.W_v[0][0]
                - rest * direction
            )
            printed = m.relative_error(line[:, None], true)
    return Outcome(
        error,
        AUTODIFF,
        printed,
        counterexample=(
            "Two positions, all dimensions 1, q = W_k = W_v = 1, e = (0, 0), so v = (0, 0): v~ = "
            "e_1 exp(e_1)/(exp(e_1) + 1) has derivative 1/2 at e_1 = 0. Third line as printed: 0 + "
            "1/2 - 1/4 = 1/4."
        ),
    )
