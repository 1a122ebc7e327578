"""Make the table of short sums of exponentials that `attn_closed_form.game.engine.exponential_sums`
uses for 1/w in sectors.

For |arg w| <= angle and 1 <= Re w <= R, find nodes lam_i and weights c_i, all positive, that make
the largest of

    |w sum_i c_i e^(-lam_i w) - 1|

small. By the maximum principle the boundary of this region is enough, and by symmetry half of it. A
sum starts from the two sums before it, as far beyond the last as that is beyond the one before; or
else from the last sum, stretched; or from a long trapezoidal rule, reduced by projecting diag(lam)
on the leading directions of its impulse response over the boundary. Steps of the
Levenberg-Marquardt method then lower the squared error, and weights on the points of the boundary
(Lawson's) even it out. How a sum was found does not matter: its stored bound is the one that
`proofs_check.exponential_sums` proves in ball arithmetic for the float64 numbers that are stored. A
sum is stored once, for the largest angle and range that it was proved for. The shipped table was
filled by this search, by a second pass over projections of its longer sums, and by an earlier
search over 1 <= |w| <= R, a larger region, so a run of this module does not reproduce it entry by
entry.

Run with `python -m benchmarks.sector_sums [--processes 2]`, which needs python-flint. It writes
`attn_closed_form/game/engine/sector_sums.npz`.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from attn_closed_form.game.engine.exponential_sums import computed_sector_segments
from proofs_check.exponential_sums import proved_moduli, proved_sector_bound

TABLE = Path(__file__).parent.parent / "attn_closed_form" / "game" / "engine" / "sector_sums.npz"
DEGREES = (8, 16, 24, 31, 38, 44, 50, 55, 60, 64, 67, 70, 72, 74, 76, 78, 81)
LOG_RANGES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.25, 5.0, 6.0, 7.5, 9.0, 11.0)
# An entry is kept if its error lies between these, and if it is this much better than the one
# before.
WORST = 2e-4
BEST = 5e-14
STEP = 5.0
# Nodes at most, and how many longer sums may be no better before the search ends.
MOST_NODES = 110
PATIENCE = 6
ROOM = 1.02
# Largest modulus of a term's sum over what the integral has; see `PoleGame.extra_ulps`.
MODULI = 1.1
# Largest sum of weights: nodes of a heavier tier count for nothing at a lighter one
# (`game/engine/pieces.py`).
LARGEST_SUM = 100.0
LEAST_SQUARES_STEPS = 25
LAWSON_STEPS = 15
# A sum that is not this much better than the last one gets another start.
LITTLE_BETTER = 0.6


def boundary(angle: float, log_range: float, n: int) -> np.ndarray:
    """Chebyshev points on the ray and on both vertical sides of the region, (3n,)."""
    x = (1 + np.cos(np.pi * (np.arange(n) + 0.5) / n)) / 2
    side = 1 + 1j * np.tan(angle) * x
    return np.concatenate(
        [np.exp(log_range * x) * (1 + 1j * np.tan(angle)), side, np.exp(log_range) * side]
    )


def reduced(
    angle: float, log_range: float, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The long rule's nodes, square roots of its weights at Re w = 1, and the directions, in
    order.
    """
    ((_, lam, c),) = computed_sector_segments(log_range, 2e-14, angle)
    b = np.sqrt(c * np.exp(-lam))
    X = np.exp(-np.outer(w - 1, lam)) * b * np.sqrt(np.abs(w))[:, None]
    return lam, b, np.linalg.svd(np.concatenate([X.real, X.imag]), full_matrices=False)[2]


def project(
    long_sum: tuple[np.ndarray, np.ndarray, np.ndarray], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """A sum of k exponentials from the k leading directions."""
    lam, b, V = long_sum
    nodes, Q = np.linalg.eigh((V[:k] * lam) @ V[:k].T)
    return nodes, (Q.T @ (V[:k] @ b)) ** 2 * np.exp(nodes)


def stretch(lam: np.ndarray, c: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A sum with other nodes, k of them, spread as these are."""
    n = lam.size
    at = (np.arange(k) + 0.5) / k * n - 0.5
    i = np.clip(np.floor(at).astype(int), 0, n - 2)

    def interpolated(x: np.ndarray) -> np.ndarray:
        return np.exp(x[i] + (at - i) * (x[i + 1] - x[i]))

    return interpolated(np.log(lam)), interpolated(np.log(c)) * n / k


def polish(lam: np.ndarray, c: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The best sum with positive weights on the way: its largest error on the points w, nodes and
    weights.
    """
    x = np.concatenate([np.log(lam), np.log(c)])
    k = lam.size
    weight = np.ones(w.size)
    damping = 1e-6
    best = (np.inf, lam, c)
    stuck = 0
    with np.errstate(all="ignore"):
        for step in range(LEAST_SQUARES_STEPS + LAWSON_STEPS):
            E = w[:, None] * np.exp(x[k:] - np.outer(w, np.exp(x[:k])))
            error = E.sum(axis=1) - 1
            largest = float(np.abs(error).max())
            if largest < best[0]:
                best = (largest, np.exp(x[:k]), np.exp(x[k:]))
            if step >= LEAST_SQUARES_STEPS:
                weight *= np.abs(error) / largest
                weight = np.maximum(weight / weight.mean(), 1e-5)
            if not np.isfinite(largest):
                break
            root = np.sqrt(weight)[:, None]
            J = np.concatenate([-E * w[:, None] * np.exp(x[:k]), E], axis=1) * root
            A = np.concatenate([J.real, J.imag])
            b = -np.concatenate([(error * root[:, 0]).real, (error * root[:, 0]).imag])
            size = np.sqrt((A**2).sum(axis=0)) + 1e-300
            Q, R = np.linalg.qr(A / size)
            U, s, V = np.linalg.svd(R)
            b = U.T @ (Q.T @ b)
            cost = float((weight * np.abs(error) ** 2).sum())
            for _ in range(12):
                change = V.T @ (s / (s * s + (damping * s[0]) ** 2) * b) / size
                new = x + np.clip(change, -0.5, 0.5)
                off = (w[:, None] * np.exp(new[k:] - np.outer(w, np.exp(new[:k])))).sum(axis=1) - 1
                if float((weight * np.abs(off) ** 2).sum()) < cost:
                    x = new
                    damping = max(damping / 5, 1e-15)
                    stuck = 0
                    break
                damping = max(6 * damping, 1e-14)
            else:
                damping = 1e-8
                stuck = stuck + 1
                if stuck > 3 and step >= LEAST_SQUARES_STEPS:
                    break
    return best


def sums_for(degrees: float, log_range: float) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Sums (error, lam, c) by rising length, each at least STEP times better than the one
    before.
    """
    angle = float(np.radians(degrees))
    kept = []
    last = WORST * STEP
    long_sum = reduced(angle, log_range, boundary(angle, log_range, 100))
    before: list[tuple[np.ndarray, np.ndarray]] = []
    k = 3
    largest = 10.0
    waited = 0
    while k <= MOST_NODES and last > BEST * STEP and waited < PATIENCE:
        w = boundary(angle, log_range, max(40, 3 * k // 2))
        starts = [stretch(*sum_, k) for sum_ in before[-1:]]
        if len(before) > 1:
            # As far beyond the last sum as that is beyond the one before.
            lam, c = (
                now**2 / then for now, then in zip(starts[0], stretch(*before[-2], k), strict=True)
            )
            starts.insert(0, (lam, c))
        if k < long_sum[0].size:
            starts.append(project(long_sum, k))
        best = (np.inf, *starts[-1])
        for start in starts:
            if best[0] > LITTLE_BETTER * largest and all((part > 1e-250).all() for part in start):
                best = min(best, polish(*start, w), key=lambda sum_: sum_[0])
        error, lam, c = best
        if not before or error < largest:
            largest = error
            before.append((lam, c))
            if BEST < error < last / STEP:
                kept.append((error, lam, c))
                last = error
                waited = -1
        waited += bool(kept)
        k += 1 if k < 24 else 2 if k < 48 else 3
    return kept


def proved_sums(cell: tuple[float, float]) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """The sums (bound, lam, c) of an angle in degrees and a ln R whose bounds are proved."""
    degrees, log_range = cell
    start = time.perf_counter()
    angle = float(np.radians(degrees))
    proved = []
    for error, lam, c in sums_for(degrees, log_range):
        bound = ROOM * proved_sector_bound(lam.tolist(), c.tolist(), log_range, angle, error)
        moduli = proved_moduli(lam.tolist(), c.tolist(), log_range)
        if bound < 2 * error and moduli < MODULI and c.sum() < LARGEST_SUM:
            proved.append((bound, lam, c))
    lengths = [f"{lam.size}: {bound:.0e}" for bound, lam, _ in proved]
    print(f"{degrees} {log_range} {time.perf_counter() - start:.0f} s {lengths}", flush=True)
    return proved


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sector_sums", description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    cells = [(degrees, log_range) for degrees in DEGREES for log_range in LOG_RANGES]
    with ProcessPoolExecutor(parser.parse_args().processes) as pool:
        sums = list(pool.map(proved_sums, cells))
    save(dict(zip(cells, sums, strict=True)))
    return 0


def save(table: dict[tuple[float, float], list[tuple[float, np.ndarray, np.ndarray]]]) -> None:
    """Write the table of the package."""
    entries = [
        (np.radians(degrees), log_range, lam.size, bound, lam, c)
        for (degrees, log_range), sums in table.items()
        for bound, lam, c in sums
    ]
    angle, log_ranges, size, bounds, nodes, weights = zip(*entries, strict=True)
    np.savez_compressed(
        TABLE, angle=np.array(angle), log_range=np.array(log_ranges), size=np.array(size, dtype=np.int16),
        bound=np.array(bounds), lam=np.concatenate(nodes), w=np.concatenate(weights),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
