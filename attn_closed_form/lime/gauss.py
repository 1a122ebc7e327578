"""Gauss rules for a linear functional that is known by its moments along orthogonal polynomials.

The modified Chebyshev algorithm (Sack and Donovan, 1972): from nu_k = Lambda[pi_k], k < 2m, with monic polynomials
pi_{k+1} = (x - centre_k) pi_k - product_k pi_{k-1}, it finds the recurrence of the polynomials that are orthogonal for
Lambda, whose eigenvalue problem has the nodes and weights. The rule exists while Lambda is positive on squares of
degree below m. Its accuracy is not relied on: whoever uses a rule compares it with the moments.
"""

from __future__ import annotations

import numpy as np

from .._types import Array


def gauss_rule(nu: Array, centre: Array, product: Array, m: int) -> tuple[Array, Array] | None:
    """Nodes and weights, (m,) each, from 2m moments of monic polynomials; None where Lambda is not positive.

    >>> x, w = gauss_rule(np.array([2.0, 0.0, 0.0, 0.0]), np.zeros(4), np.array([0, 1 / 3, 4 / 15, 9 / 35]), 2)
    >>> x.round(6), w.round(6)              # Legendre's own moments give Gauss-Legendre
    (array([-0.57735,  0.57735]), array([1., 1.]))
    """
    before, now = np.zeros(2 * m), nu[: 2 * m].astype(float)
    if not now[0] > 0:
        return None
    alpha, beta = [centre[0] + now[1] / now[0]], [now[0]]
    for i in range(1, m):
        k = np.arange(i, 2 * m - i)
        new = np.zeros(2 * m)
        new[k] = np.append(now, 0.0)[k + 1] - (alpha[-1] - centre[k]) * now[k] - beta[-1] * before[k]
        new[k] += product[k] * now[k - 1]
        if not new[i] > 0:
            return None
        alpha.append(centre[i] + new[i + 1] / new[i] - now[i] / now[i - 1])
        beta.append(new[i] / now[i - 1])
        before, now = now, new
    side = np.sqrt(beta[1:])
    x, V = np.linalg.eigh(np.diag(alpha) + np.diag(side, 1) + np.diag(side, -1))
    return x, nu[0] * V[0] ** 2
