"""Make the table of poles for activation functions that `attn_closed_form.game.links` uses on [-R,
R].

SiLU, softplus and both forms of GELU are x / 2 plus an even function e of x:

    SiLU      x tanh(x / 2) / 2
    softplus  log(2 cosh(x / 2))
    GELU      x erf(x / sqrt(2)) / 2,  or  x tanh(sqrt(2 / pi) (x + 0.044715 x^3)) / 2

e is a function of u = x^2. The AAA algorithm (Nakatsukasa, Sete and Trefethen, 2018) finds poles p
of a rational approximation on [0, R^2], a fit by least squares their coefficients, and in x they
become

    a / (x^2 - p) = a / (2 q) [ 1 / (x - q) - 1 / (x + q) ],      q^2 = p.

How the poles are found does not matter: the stored bound of an entry is the one that
`proofs_check/links.py` proves in ball arithmetic for the float64 numbers that are stored. Run with
`python -m benchmarks.activation_poles` (needs SciPy and python-flint; some minutes). It writes
`attn_closed_form/game/engine/activations.npz`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form.game.links import EVEN_PARTS
from proofs_check.links import proved_even_bound

TABLE = Path(__file__).parent.parent / "attn_closed_form" / "game" / "engine" / "activations.npz"
RANGES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
# An entry is kept if its error, relative to the largest value, lies between these.
WORST = 0.02
BEST = 2e-14
MOST_TERMS = 22
# Points of the fit, dense at both ends of [0, R^2].
POINTS = 2001
# The proof chooses its degree from the bound, so that repeating it gives a slightly different one.
ROOM = 1.05
# A bound must halve at least, or the longer entry is not worth its poles.
GAIN = 0.5
# Poles nearer to the real line than this leave the proof no room, and share too little of the work.
LEAST_HEIGHT = 0.8


class Entry(NamedTuple):
    """A rational approximation of an even function on [-R, R]."""

    constant: float
    z: np.ndarray
    residue: np.ndarray


def fractions(function: Callable[[Any], Any], R: float, terms: int) -> Entry | None:
    """Fit the even function on [-R, R] with poles in x; None if AAA finds a pole on or near the
    range.
    """
    from scipy.interpolate import AAA

    u = R * R * (1 + np.cos(np.linspace(0, np.pi, POINTS))) / 2
    values = function(np.sqrt(u))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        poles = AAA(u, values, rtol=1e-15, max_terms=terms, clean_up=False).poles()
    is_real = np.abs(poles.imag) < 1e-9 * R * R
    upper = poles[is_real | (poles.imag > 0)]
    upper = np.where(np.abs(upper.imag) < 1e-9 * R * R, upper.real + 0j, upper)
    roots = np.sqrt(upper)
    roots = np.where(roots.imag < 0, -roots, roots)
    if not np.isfinite(roots).all() or (roots.imag < LEAST_HEIGHT).any():
        return None
    complex_pole = upper.imag > 0
    basis = 1 / (u[:, None] - upper)
    columns = np.concatenate(
        [np.ones((u.size, 1)), basis.real, -basis.imag[:, complex_pole]], axis=1
    )
    scale = np.abs(columns).max(axis=0)
    solution = np.linalg.lstsq(columns / scale, values, rcond=None)[0] / scale
    a = solution[1 : 1 + upper.size].astype(complex)
    a[complex_pole] += 1j * solution[1 + upper.size :]
    # A pole on the negative axis of u has its root on the imaginary axis, and an imaginary residue.
    roots = np.where(complex_pole, roots, 1j * roots.imag)
    # The real part of a / (x - q) / q is a / (x^2 - p) for p < 0; a complex p has the poles q and
    # -q.
    z = np.concatenate([roots, -roots[complex_pole].conj()])
    residue = np.concatenate(
        [
            np.where(complex_pole, a / (2 * roots), -1j * a.real / roots.imag),
            -(a / (2 * roots))[complex_pole].conj(),
        ]
    )
    return Entry(float(solution[0]), z, residue)


def largest_error(function: Callable[[Any], Any], entry: Entry, R: float) -> float:
    """The largest error on a grid."""
    x = np.linspace(0, R, 4001)
    approximation = entry.constant + (entry.residue / (x[:, None] - entry.z)).real.sum(axis=1)
    return float(np.abs(approximation - function(x)).max())


def main() -> int:
    rows: dict[str, list[Any]] = {name: [] for name in ("kind", "R", "size", "bound", "constant")}
    poles: list[np.ndarray] = []
    residues: list[np.ndarray] = []
    for kind, function in EVEN_PARTS.items():
        for R in RANGES:
            largest = float(function(np.array(R)))
            best = WORST * largest
            for terms in range(2, MOST_TERMS):
                entry = fractions(function, R, terms)
                if entry is None:
                    continue
                guess = largest_error(function, entry, R)
                if not BEST * largest < guess < GAIN * best:
                    continue
                poles_of_entry = entry.z.tolist()
                residues_of_entry = entry.residue.tolist()
                bound = ROOM * proved_even_bound(
                    kind, entry.constant, poles_of_entry, residues_of_entry, R, guess
                )
                if bound > GAIN * best:
                    continue
                best = bound
                for name, value in zip(
                    rows, (kind, R, entry.z.size, bound, entry.constant), strict=True
                ):
                    rows[name].append(value)
                poles.append(entry.z)
                residues.append(entry.residue)
            print(f"{kind}, R = {R:5.2f}: best bound {best:.1e}", flush=True)
    np.savez_compressed(
        TABLE,
        kind=np.array(rows["kind"]),
        R=np.array(rows["R"]),
        size=np.array(rows["size"], dtype=np.int16),
        bound=np.array(rows["bound"]),
        constant=np.array(rows["constant"]),
        z=np.concatenate(poles),
        residue=np.concatenate(residues),
    )
    print(f"wrote {TABLE.name}: {len(poles)} entries, {TABLE.stat().st_size / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
