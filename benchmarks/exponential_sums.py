"""Make the table of short sums of exponentials that `attn_closed_form.game.engine.exponential_sums`
uses for 1/x on [1, R].

The best sums of k exponentials reach an error of about 16 exp(-pi^2 k / ln(8 R)) (Braess and
Hackbusch, 2005). A sum that is nearly as good comes without an exchange algorithm. Take a long and
very accurate sum, the trapezoidal rule of `game/engine/exponential_sums.py` in 50 digits, as the
impulse response sum_i b_i^2 e^(-lam_i (x - 1)), b_i^2 = w_i e^(-lam_i), of a symmetric linear
system. Its Gramian over [1, R],

    P_ij = b_i b_j int_1^R e^(-(lam_i + lam_j)(x - 1)) dx,

says which directions of the state carry energy. Project diag(lam) on the k leading eigenvectors of
P: the eigenvalues of the projected matrix are the new nodes, the squared projections of b, times
e^lam, the new weights. All are positive.

The stored bound of an entry is the one that `proofs_check.exponential_sums.py` proves in ball
arithmetic for the very float64 numbers that are stored. Run with `python -m
benchmarks.exponential_sums` (needs mpmath and python-flint; about twenty minutes). It writes
`attn_closed_form/game/engine/exponential_sums.npz`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from proofs_check.exponential_sums import proved_bound

TABLE = (
    Path(__file__).parent.parent / "attn_closed_form" / "game" / "engine" / "exponential_sums.npz"
)
# ln R of the table: fine where most games live, coarser beyond.
LOG_RANGES = (*np.arange(0.25, 5.01, 0.25), *np.arange(5.5, 8.01, 0.5), 9.0, 10.0, 11.0, 12.0)
# An entry is kept if its error lies between these.
WORST = 2e-2
BEST = 3e-15
# and if it is this much better than the one before.
STEP = 2.2
# The proof chooses its degree from the bound, so that repeating it gives a slightly different one.
ROOM = 1.02
DIGITS = 50


def long_sum(log_range: Any, eps: Any) -> tuple[list[Any], list[Any]]:
    """Nodes and weights of the trapezoidal rule of `game/engine/exponential_sums.py`, in many
    digits.
    """
    import mpmath as mp

    h = mp.pi**2 / mp.log(520 / eps)
    t0 = mp.mpf(1) / 2 - log_range
    cut = mp.log(8 / eps) + 5
    low = t0 - mp.log(80 + mp.log(1 / eps))
    high = mp.log(cut) + mp.mpf(3) / 2
    t = [h * i for i in range(int(mp.floor(low / h)), int(mp.ceil(high / h)) + 1)]
    lam = [mp.exp(x - mp.exp(t0 - x)) for x in t]
    w = [h * y * (1 + mp.exp(t0 - x)) for y, x in zip(lam, t, strict=True)]
    kept = [
        (y, u) for y, u in zip(lam, w, strict=True) if y < cut and u * mp.exp(log_range) > eps / 100
    ]
    return [y for y, _ in kept], [u for _, u in kept]


def leading_directions(log_range: Any, lam: list[Any], b: list[Any]) -> Any:
    """Eigenvectors of the Gramian over [1, R], by falling eigenvalue: (n, n)."""
    import mpmath as mp

    n = len(lam)
    length = mp.exp(log_range) - 1
    P = mp.matrix(n, n)
    for i in range(n):
        for j in range(i, n):
            rate = lam[i] + lam[j]
            P[i, j] = P[j, i] = -b[i] * b[j] * mp.expm1(-rate * length) / rate
    values, vectors = mp.eigsy(P)
    order = sorted(range(n), key=lambda i: -values[i])
    return [[vectors[i, a] for i in range(n)] for a in order]


def short_sums(log_range: float, most: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sums of k = 1..most exponentials, rounded to float64, lam ascending."""
    import mpmath as mp

    mp.mp.dps = DIGITS
    lam, w = long_sum(mp.mpf(log_range), mp.mpf(10) ** -18)
    b = [mp.sqrt(u * mp.exp(-y)) for y, u in zip(lam, w, strict=True)]
    vectors = leading_directions(mp.mpf(log_range), lam, b)[:most]
    scaled = [[x * y for x, y in zip(row, lam, strict=True)] for row in vectors]
    A = [[mp.fdot(zip(one, other, strict=True)) for other in vectors] for one in scaled]
    c = [mp.fdot(zip(row, b, strict=True)) for row in vectors]
    found = []
    for k in range(1, most + 1):
        nodes, U = mp.eigsy(mp.matrix([row[:k] for row in A[:k]]))
        weights = [
            mp.fdot((U[a, i], c[a]) for a in range(k)) ** 2 * mp.exp(nodes[i]) for i in range(k)
        ]
        found.append((np.array([float(x) for x in nodes]), np.array([float(x) for x in weights])))
    return found


def main() -> int:
    entries: list[tuple[float, int, float]] = []
    all_nodes: list[np.ndarray] = []
    all_weights: list[np.ndarray] = []
    for log_range in LOG_RANGES:
        start = time.perf_counter()
        count = 0
        most = int(np.ceil(np.log(16 / BEST) * (np.log(8) + log_range) / np.pi**2)) + 2
        last = WORST
        for lam, w in short_sums(log_range, most):
            guess = proved_bound(lam.tolist(), w.tolist(), log_range)
            bound = ROOM * proved_bound(lam.tolist(), w.tolist(), log_range, guess)
            if BEST < bound < last / STEP:
                entries.append((log_range, lam.size, bound))
                all_nodes.append(lam)
                all_weights.append(w)
                last = bound
                count = count + 1
        seconds = time.perf_counter() - start
        print(
            f"ln R = {log_range:5.2f}: {count} sums, best bound {entries[-1][2]:.1e}, "
            f"{seconds:.0f} s",
            flush=True,
        )
    log_ranges, sizes, bounds = (np.array(column) for column in zip(*entries, strict=True))
    np.savez_compressed(
        TABLE,
        log_range=log_ranges,
        size=sizes.astype(np.int16),
        bound=bounds,
        lam=np.concatenate(all_nodes),
        w=np.concatenate(all_weights),
    )
    print(f"wrote {TABLE.name}: {len(entries)} sums, {TABLE.stat().st_size / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
