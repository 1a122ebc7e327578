"""Masses are right to a few ulps, and a rule for 1/D holds on every tier."""

import numpy as np
import pytest

from attn_closed_form import PooledGame
from attn_closed_form.game.engine.pieces import exp_difference


@pytest.mark.parametrize("unit", [0.1, -17.3, 1e4 + 0.7, -1e6 + 0.3])
def test_masses_are_right_however_large_the_scores(unit):
    """The difference of two scores is rounded; its exponential must not show it."""
    mpmath = pytest.importorskip("mpmath", reason="pip install mpmath")
    s = unit + np.array([-200.0, -30.0, -1.0, 0.0, 0.7, 20.0, 150.0]) / 3 + 0.01
    found = exp_difference(np.append(s, -unit), np.full(8, unit))[:7]
    with mpmath.workdps(50):
        exact = [float(mpmath.exp(mpmath.mpf(float(a)) - mpmath.mpf(unit))) for a in s]
    np.testing.assert_allclose(found, exact, rtol=1e-15)


@pytest.mark.parametrize("eps", [1e-3, 1e-9, 1e-13])
@pytest.mark.parametrize(
    "s", [[0.0, 1.0, 2.0], [0.0, -1e9, 3.0], [0.0, -60.0, -150.0], np.linspace(0.0, -300.0, 8)]
)
def test_the_rules_of_all_tiers_add_up_to_one_over_the_mass(s, eps):
    """For every coalition, in units of the piece; masses beyond float64 count as none or make a
    term vanish.
    """
    s = np.asarray(s, dtype=float)
    game = PooledGame.from_scores(s, np.arange(s.size))
    masks = (np.arange(1, 2**s.size)[:, None] >> np.arange(s.size) & 1).astype(bool)
    log_D = np.array([np.logaddexp.reduce(s[mask]) for mask in masks])
    total = np.zeros(len(masks))
    for pieces in game.pieces(eps):
        for lam, w, piece in zip(pieces.lam, pieces.w, pieces.piece_of, strict=True):
            gap = pieces.masses.gap[piece]
            # The unit of a piece, from a player whose mass it can show.
            known = np.flatnonzero((gap > 0) & (gap < 1e200))
            unit = s[known[-1]] - np.log(gap[known[-1]])
            D = masks @ gap
            with np.errstate(over="ignore", under="ignore"):
                total += w * np.exp(-lam * D) * np.exp(np.minimum(log_D - unit, 700.0))
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=eps + 1e-11)
