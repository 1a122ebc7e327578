"""LIME's limit and a game's values in as many digits as they need: mpmath, all coalitions, normal
equations.
"""

from itertools import product
from math import comb, isinf, log10

import mpmath as mp
import numpy as np


def value(game, present):
    """f of a coalition, straight from the definition, in the current precision."""
    total = mp.mpf(float(game.bias))
    for h in range(game.H):
        log_masses = [game.s_background[h]]
        values = [game.v_background[h]]
        for j, here in enumerate(present):
            log_masses.append(game.s[h, j] if here else game.s_absent[h, j])
            values.append(game.v[h, j] if here else game.v_absent[h, j])
        top = max(log_masses)
        if isinf(top):
            return mp.mpf(float(game.empty_value))
        masses = [
            mp.exp(mp.mpf(float(m)) - mp.mpf(float(top))) if not isinf(m) else mp.mpf(0)
            for m in log_masses
        ]
        total += sum(m * mp.mpf(float(v)) for m, v in zip(masses, values, strict=True)) / sum(
            masses
        )
    return total


def kernel(s, d, kernel_width):
    if isinf(kernel_width):
        return mp.mpf(1)
    distance = 100 * (1 - mp.sqrt(1 - mp.mpf(s) / d))
    return mp.exp(-((distance / mp.mpf(kernel_width)) ** 2) / 2)


def lime(game, kernel_width=25.0, ridge=1.0, num_samples=5000, features=None):
    """(coef (d,), intercept, max|f|) as floats, from a weighted ridge regression over all 2^d
    coalitions.
    """
    d = game.d
    # The weights that count are the three largest: digits for their ratios, in a determinant.
    sizes = np.arange(min(3, d + 1)) / d
    logs = np.sum((100 * (1 - np.sqrt(1 - sizes)) / kernel_width) ** 2 / 2)
    digits = (
        60 + int(3 * log10(np.e) * logs) + (0 if num_samples is None else 3 * len(str(num_samples)))
    )
    digits += 2 * int(
        sum(np.ptp(x[np.isfinite(x)]) for x in (np.r_[game.s.ravel(), game.s_absent.ravel()],))
    )
    with mp.workdps(digits):
        if features is None:
            chosen = list(range(d))
        else:
            chosen = list(features)
        size = len(chosen) + 1
        gram = mp.zeros(size)
        right = mp.zeros(size, 1)
        largest = mp.mpf(0)
        for present in product([False, True], repeat=d):
            s = d - sum(present)
            f = value(game, present)
            largest = max(largest, abs(f))
            if num_samples is None:
                document = mp.mpf(0)
            else:
                document = mp.mpf(1) / num_samples
            share = document if s == 0 else (1 - document) / d
            weight = share * kernel(s, d, kernel_width) / comb(d, s)
            ones = [0, *(i + 1 for i, j in enumerate(chosen) if present[j])]
            for a in ones:
                right[a] += weight * f
                for b in ones:
                    gram[a, b] += weight
        for i in range(1, size):
            gram[i, i] += 0 if num_samples is None else mp.mpf(ridge) / num_samples
        solution = mp.lu_solve(gram, right)
        coef = np.zeros(d)
        coef[chosen] = [float(x) for x in solution[1:]]
        return coef, float(solution[0]), float(largest)
