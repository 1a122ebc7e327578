"""Sinusoidal position embeddings: P1, Eq. 3, and the variant that the authors' code uses.

Eq. 3 takes base T_max, one-based coordinates, cosine on the even ones and the same frequency T_max^(-2i/d_e) for
the pair (2i-1, 2i). The authors' PyTorch code is the familiar one of Vaswani et al. (2017): base 10000, zero-based
coordinates, sine on the even ones, frequency 10000^(-2i/d_e) for the pair (2i, 2i+1). The two differ in the
frequencies (by one step) even with equal bases.
"""

from __future__ import annotations

import numpy as np

from ..._types import Array


def sinusoidal_positions(T_max: int, d_e: int, base: float | None = None) -> Array:
    """Position embeddings for positions 0 .. T_max - 1.

    Parameters
    ----------
    T_max, d_e : number of positions and embedding dimension
    base : None for P1's Eq. 3 (base T_max, one-based coordinates); a number, such as 10000.0, for the convention of
        the authors' code and of Vaswani et al. (zero-based coordinates)

    Returns
    -------
    (T_max, d_e) float64

    Examples
    --------
    >>> sinusoidal_positions(4, 2).round(3)          # P1 Eq. 3: sin(t / 4), cos(t / 4)
    array([[0.   , 1.   ],
           [0.247, 0.969],
           [0.479, 0.878],
           [0.682, 0.732]])
    >>> sinusoidal_positions(2, 2, base=10000.0).round(3)   # the authors' code: sin(t), cos(t)
    array([[0.   , 1.   ],
           [0.841, 0.54 ]])
    """
    for name, value in (("T_max", T_max), ("d_e", d_e)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name}: expected a positive integer, got {value!r}")
    if base is not None and not (np.isfinite(base) and base > 0):
        raise ValueError(f"base: expected a positive number or None, got {base}")
    coordinate = np.arange(d_e)
    pair = coordinate // 2 if base is not None else coordinate // 2 + 1
    frequency = float(base if base is not None else T_max) ** (-2.0 * pair / d_e)
    angle = np.arange(T_max)[:, None] * frequency
    return np.where(coordinate % 2 == 0, np.sin(angle), np.cos(angle))
