"""Make the table of simple fractions that `attn_closed_form.game.links` uses for the logistic
function on [-R, R].

h(x) = tanh(sqrt(x)/2) / (2 sqrt(x)) is a Stieltjes function, so a rational function of type [M-1/M]
that equals it at 2M positive points has negative poles -y_m^2 and positive residues r_m, whatever
the points are. Multiplied by f, with x = f^2, it is an odd approximation of the logistic function
less 1/2:

    1/(1 + e^-f) = 1/2 + sum_m r_m f / (f^2 + y_m^2) + error.

The points are moved until the errors between them are about equal, which is what the best
approximation has. The stored bound of an entry is the one that `proofs_check/links.py` proves in
ball arithmetic for the very float64 numbers that are stored. Run with `python -m
benchmarks.link_poles` (needs mpmath and python-flint; about a minute). It writes
`attn_closed_form/game/engine/links.npz`.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from proofs_check.links import proved_sigmoid_bound

TABLE = Path(__file__).parent.parent / "attn_closed_form" / "game" / "engine" / "links.npz"
RANGES = (
    0.25,
    0.5,
    1.0,
    1.5,
    2.0,
    3.0,
    4.0,
    5.0,
    6.0,
    8.0,
    10.0,
    12.0,
    15.0,
    18.0,
    22.0,
    26.0,
    30.0,
    40.0,
    50.0,
    64.0,
)
# An entry is kept if its error lies between these; smaller ones would be lost in the rounding of
# the float64 numbers.
WORST = 0.05
BEST = 5e-15
# The proof chooses its degree from the bound, so that repeating it gives a slightly different one.
ROOM = 1.02
DIGITS = 120
ROUNDS = 25


def interpolate(points: list[Any]) -> tuple[list[Any], list[Any]]:
    """The y and r of the fraction in x = f^2 that equals h at the squares of 2M points, by rising
    y.
    """
    import mpmath as mp

    n = len(points)
    M = len(points) // 2
    unit = points[-1] ** 2
    A = mp.matrix(n, n)
    b = mp.matrix(n, 1)
    for i, f in enumerate(points):
        x = f * f / unit
        h = mp.tanh(f / 2) / (2 * f)
        for j in range(M):
            A[i, j] = x**j
            A[i, M + j] = -h * x ** (j + 1)
        b[i] = h
    c = mp.lu_solve(A, b)
    top = [c[j] for j in range(M)]
    bottom = [mp.mpf(1), *(c[M + j] for j in range(M))]
    fractions = []
    for root in mp.polyroots(bottom[::-1], maxsteps=200, extraprec=2 * mp.mp.prec):
        x = mp.re(root)
        slope = sum(j * bottom[j] * x ** (j - 1) for j in range(1, M + 1))
        fractions.append((mp.sqrt(-x * unit), mp.polyval(top[::-1], x) / slope * unit))
    fractions.sort()
    return [y for y, _ in fractions], [r for _, r in fractions]


def best_fractions(R: float, M: int) -> tuple[np.ndarray, np.ndarray]:
    """The y and r (M,) of nearly the best approximation with M fractions, rounded to float64."""
    import mpmath as mp

    mp.mp.dps = DIGITS
    end = mp.mpf(R)
    n = 2 * M
    reach = mp.asinh(end / mp.pi)
    points = [
        mp.pi * mp.sinh(reach * mp.cos(mp.pi * (2 * k + 1) / (4 * n + 2)))
        for k in reversed(range(n))
    ]
    least: Any = mp.inf
    best: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(ROUNDS):
        y, r = interpolate(points)
        edges = [mp.mpf(0), *points, end]
        errors = []
        for a, b in pairwise(edges):
            inside = [a + (b - a) * k / 5 for k in (1, 2, 2.5, 3, 4)] + [b] * (b == end)
            errors.append(
                max(
                    abs(
                        f * sum(q / (f * f + z * z) for z, q in zip(y, r, strict=True))
                        - mp.tanh(f / 2) / 2
                    )
                    for f in inside
                )
            )
        if max(errors) < least:
            least = max(errors)
            best = (y, r)
        if max(errors) < 1.15 * min(errors):
            break
        middle = mp.exp(sum(map(mp.log, errors)) / len(errors))
        lengths = [
            (b - a) * min(max((middle / error) ** (mp.mpf(1) / 6), mp.mpf("0.6")), mp.mpf("1.6"))
            for (a, b), error in zip(pairwise(edges), errors, strict=True)
        ]
        points = [end * sum(lengths[: k + 1]) / sum(lengths) for k in range(n)]
    return np.array([float(x) for x in best[0]]), np.array([float(x) for x in best[1]])


def main() -> int:
    entries: list[tuple[float, int, float]] = []
    poles: list[np.ndarray] = []
    residues: list[np.ndarray] = []
    for R in RANGES:
        bound = WORST
        M = 0
        while bound > BEST and M < 16:
            M += 1
            y, r = best_fractions(R, M)
            guess = proved_sigmoid_bound(y.tolist(), r.tolist(), R)
            bound = ROOM * proved_sigmoid_bound(y.tolist(), r.tolist(), R, guess)
            if (y <= 0).any() or (r <= 0).any():
                raise ArithmeticError(f"R = {R}, M = {M}: a pole or a residue is not positive")
            if bound < WORST and (not entries or entries[-1][0] < R or bound < entries[-1][2] / 2):
                entries.append((R, M, bound))
                poles.append(y)
                residues.append(r)
        print(
            f"R = {R:5.2f}: up to {entries[-1][1]} fractions, best bound {entries[-1][2]:.1e}",
            flush=True,
        )
    ranges, sizes, bounds = (np.array(column) for column in zip(*entries, strict=True))
    np.savez_compressed(
        TABLE,
        R=ranges,
        size=sizes.astype(np.int16),
        bound=bounds,
        y=np.concatenate(poles),
        r=np.concatenate(residues),
    )
    print(f"wrote {TABLE.name}: {len(entries)} entries, {TABLE.stat().st_size / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
