"""Integrals over p with a polynomial density, for Beta Shapley values and interaction indices.

Gauss-Legendre as in `node_counts.py`, on the interval of p where a row counts, with a few more nodes for the degree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from .._types import Array
from .engine import Batch, Plan, RowSums
from .node_counts import batches, legendre_counts


class Density(NamedTuple):
    """A polynomial in p that an integrand is multiplied by.

    of : from nodes p to its values
    log_constant : log of a C with |density| <= C on [0, 1] and <= C e^(degree theta) on the ellipses e^theta around it
    degree : of the polynomial
    """

    of: Callable[[Array], Array]
    log_constant: float
    degree: int


def density_plan(d: int, allowed: float, density: Density) -> Plan:
    """`uniform_plan` with a polynomial density: degree / 2 more nodes, and a smaller error by its constant.

    Both |p| and |1 - p| are at most (1 + cosh theta)/2 <= e^theta on an ellipse around a part of [0, 1], so a product
    of `degree` such factors grows by e^(degree theta) at the most, which is what that many more nodes shrink it by.
    """

    def plan(sums: RowSums) -> list[Batch]:
        interval, counts = legendre_counts(sums, d, allowed * math.exp(-density.log_constant))
        counts[counts > 0] += (density.degree + 1) // 2
        return [batch._replace(w_delta=batch.w_delta * density.of(batch.p)) for batch in batches(interval, counts, d)]

    return plan
