"""Make the table of short sums of exponentials that `attn_closed_form.game.exponential_sums` uses for 1/w in a sector.

For |arg w| <= angle and 1 <= |w| <= R, find nodes lam_i and weights c_i, all positive, that make the largest of

    |w sum_i c_i e^(-lam_i w) - 1|

small. By the maximum principle the boundary of the sector is enough, and by symmetry half of it. A long trapezoidal
rule is reduced to k nodes by projecting diag(lam) on the k leading directions of its impulse response over the
boundary; a sum with one node less, stretched, is a second start. Steps of the Levenberg-Marquardt method then lower the
squared error, and weights on the points of the boundary (Lawson's) even it out. How a sum was found does not matter:
its stored bound is the one that `proofs_check.exponential_sums` proves in ball arithmetic for the float64 numbers that
are stored.

Run with `python -m benchmarks.sector_sums` (needs python-flint; about an hour and a half on one core). It writes
`attn_closed_form/game/sector_sums.npz`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from attn_closed_form.game.exponential_sums import _sector_segments
from proofs_check.exponential_sums import proved_moduli, proved_sector_bound

TABLE = Path(__file__).parent.parent / "attn_closed_form" / "game" / "sector_sums.npz"
DEGREES = (9, 17, 25, 32, 39, 45, 50, 55, 60, 65, 69, 73, 77)
LOG_RANGES = (0.75, 1.25, 1.75, 2.5, 3.25, 4.0, 5.0, 6.0, 7.5, 9.0, 11.0)
# An entry is kept if its error lies between these, and if it is this much better than the one before.
WORST, BEST, STEP = 2e-4, 5e-14, 5.0
# Nodes at most, and how many longer sums may be no better before the search ends.
MOST_NODES, PATIENCE = 96, 8
ROOM = 1.02
# Largest modulus of a term's sum over what the integral has; see `PoleGame.doubt`.
MODULI = 1.1
# Largest sum of weights: nodes of a heavier tier count for nothing at a lighter one (`game/canonical.py`).
LARGEST_SUM = 100.0
LEAST_SQUARES_STEPS, LAWSON_STEPS = 25, 30


def boundary(angle: float, log_range: float, n: int) -> np.ndarray:
    """Chebyshev points on the ray and on both arcs, (3n,)."""
    x = (1 + np.cos(np.pi * (np.arange(n) + 0.5) / n)) / 2
    return np.exp(np.concatenate([log_range * x + 1j * angle, 1j * angle * x, log_range + 1j * angle * x]))


def reduced(angle: float, log_range: float, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """The long rule's nodes, square roots of its weights at the sector's tip, and the directions, in order."""
    ((_, lam, c),) = _sector_segments(log_range, 2e-14, angle)
    tip = float(np.cos(angle))
    b = np.sqrt(c * np.exp(-lam * tip))
    X = np.exp(-np.outer(w - tip, lam)) * b * np.sqrt(np.abs(w))[:, None]
    return lam, b, np.linalg.svd(np.concatenate([X.real, X.imag]), full_matrices=False)[2], tip


def project(long_sum: tuple[np.ndarray, np.ndarray, np.ndarray, float], k: int) -> tuple[np.ndarray, np.ndarray]:
    """A sum of k exponentials from the k leading directions."""
    lam, b, V, tip = long_sum
    nodes, Q = np.linalg.eigh((V[:k] * lam) @ V[:k].T)
    return nodes, (Q.T @ (V[:k] @ b)) ** 2 * np.exp(nodes * tip)


def stretch(lam: np.ndarray, c: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A sum with other nodes, k of them, spread as these are."""
    n = lam.size
    at = (np.arange(k) + 0.5) / k * n - 0.5
    i = np.clip(np.floor(at).astype(int), 0, n - 2)

    def interpolated(x: np.ndarray) -> np.ndarray:
        return np.exp(x[i] + (at - i) * (x[i + 1] - x[i]))

    return interpolated(np.log(lam)), interpolated(np.log(c)) * n / k


def polish(lam: np.ndarray, c: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The best sum with positive weights on the way: its largest error on the points w, nodes and weights."""
    x = np.concatenate([np.log(lam), np.log(c)])
    k, weight, damping = lam.size, np.ones(w.size), 1e-6
    best, stuck = (np.inf, lam, c), 0
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
                    x, damping, stuck = new, max(damping / 5, 1e-15), 0
                    break
                damping = max(6 * damping, 1e-14)
            else:
                damping, stuck = 1e-8, stuck + 1
                if stuck > 3 and step >= LEAST_SQUARES_STEPS:
                    break
    return best


def sums_for(degrees: float, log_range: float) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Sums (error, lam, c) by rising length, each at least STEP times better than the one before."""
    angle, kept, last = float(np.radians(degrees)), [], WORST * STEP
    long_sum = reduced(angle, log_range, boundary(angle, log_range, 100))
    before: list[tuple[np.ndarray, np.ndarray]] = []
    k, largest, waited = 3, np.inf, 0
    while k <= MOST_NODES and last > BEST * STEP and waited < PATIENCE:
        w = boundary(angle, log_range, max(40, 2 * k))
        starts = [stretch(*sum_, k) for sum_ in before[-1:]]
        if len(before) > 1:
            # As far beyond the last sum as that is beyond the one before.
            lam, c = (now**2 / then for now, then in zip(starts[0], stretch(*before[-2], k), strict=True))
            starts = [(lam, c)]
        if k < long_sum[0].size:
            starts.append(project(long_sum, k))
        usable = [start for start in starts if all((part > 1e-250).all() and np.isfinite(part).all() for part in start)]
        error, lam, c = min((polish(*start, w) for start in usable), key=lambda sum_: sum_[0])
        if not before or error < largest:
            largest = error
            before.append((lam, c))
            if BEST < error < last / STEP:
                kept.append((error, lam, c))
                last, waited = error, -1
        waited += bool(kept)
        k += 1 if k < 24 else 2 if k < 48 else 4
    return kept


def main() -> int:
    entries: list[tuple[float, float, int, float]] = []
    nodes: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for degrees in DEGREES:
        for log_range in LOG_RANGES:
            start = time.perf_counter()
            lengths = []
            for error, lam, c in sums_for(degrees, log_range):
                angle = float(np.radians(degrees))
                bound = ROOM * proved_sector_bound(lam.tolist(), c.tolist(), log_range, angle, error)
                moduli = proved_moduli(lam.tolist(), c.tolist(), log_range, angle)
                if bound < 2 * error and moduli < MODULI and c.sum() < LARGEST_SUM:
                    entries.append((angle, log_range, lam.size, bound))
                    nodes.append(lam)
                    weights.append(c)
                    lengths.append(f"{lam.size}: {bound:.0e}")
            print(f"{degrees} {log_range} {time.perf_counter() - start:.0f} s {lengths}", flush=True)
    angles, log_ranges, size, bounds = (np.array(column) for column in zip(*entries, strict=True))
    np.savez_compressed(
        TABLE, angle=angles, log_range=log_ranges, size=size.astype(np.int16), bound=bounds,
        lam=np.concatenate(nodes), w=np.concatenate(weights),
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
