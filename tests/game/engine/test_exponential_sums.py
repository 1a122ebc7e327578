"""Every short sum of exponentials that the package ships keeps its stated bound: proved in ball
arithmetic.
"""

import os

import numpy as np
import pytest

from attn_closed_form.game.engine.exponential_sums import (
    EPS_MIN,
    lambda_rule,
    lambda_segments,
    read_table,
    short_sector_sums,
)
from attn_closed_form.game.engine.rounding import POLE_MODULI
from tests.profiles import mostly_slow

pytest.importorskip("flint")

from proofs_check.exponential_sums import proved_bound, proved_moduli, proved_sector_bound

(LOG_RANGES,), TABLE = read_table("exponential_sums.npz", "log_range")
# Every fifth range first.
SPREAD_OUT = [log_range for start in range(5) for log_range in LOG_RANGES[start::5]]


@pytest.mark.parametrize("log_range", mostly_slow(SPREAD_OUT, 6))
def test_every_bound_is_proved(log_range):
    for bound, lam, w in TABLE[log_range,]:
        assert (lam > 0).all() and (w > 0).all()
        assert proved_bound(lam.tolist(), w.tolist(), log_range, bound) <= bound
    assert [lam.size for _, lam, _ in TABLE[log_range,]] == sorted(
        lam.size for _, lam, _ in TABLE[log_range,]
    )


def test_the_proof_can_fail():
    """A sum that is off by 1e-12, or used beyond its range, does not get the bound."""
    bound, lam, w = TABLE[2.0,][8]
    assert proved_bound(lam, w * (1 + bound), 2.0) > 1.5 * bound
    assert proved_bound(lam, w, 2.5) > 1.5 * bound
    assert proved_bound(lam[:-1], w[:-1], 2.0) > bound


def test_the_proof_is_not_below_the_error():
    """At a fine grid of points, in extended precision, the error reaches most of the bound and
    never passes it.
    """
    for log_range in (0.25, 3.0, 12.0):
        for bound, lam, w in TABLE[log_range,]:
            x = np.exp(np.linspace(0, log_range, 4000).astype(np.longdouble))[:, None]
            error = np.abs(
                x * (w * np.exp(-lam.astype(np.longdouble) * x)).sum(axis=1, keepdims=True) - 1
            ).max()
            assert 0.5 * bound < error <= bound


def largest_error(lam, w, log_range):
    """max |D sum w e^(-lam D) - 1| for ln D on a fine grid, in extended precision.

    In blocks of the grid, with the nodes that matter there; what the others could add is added to
    the error.
    """
    grid = np.linspace(0, log_range, max(200, int(40 * log_range))).astype(np.longdouble)
    worst = 0.0
    for D in np.array_split(np.exp(grid), max(1, grid.size // 50)):
        # No term exceeds w times the largest D of the block times e^(-lam times its smallest).
        with np.errstate(over="ignore"):
            most = (w * float(D[-1]) * np.exp(-lam * float(D[0]))).astype(float)
        matters = most > 1e-19 / lam.size
        near = lam[matters].astype(np.longdouble)
        weights = w[matters].astype(np.longdouble)
        total = (weights * D[:, None] * np.exp(-near * D[:, None])).sum(axis=1)
        worst = max(worst, float(np.abs(total - 1).max()) + float(most[~matters].sum()))
    return worst


RANGES = [0.0, 1e-3, 0.1, 0.7, 2.3, 7.0, 13.8, 14.1, 30.0, np.log(1e30), 400.0]


@pytest.mark.parametrize("eps", [1e-3, 1e-5, 1e-8, 1e-10, 1e-12, 1e-13, EPS_MIN])
@pytest.mark.parametrize("log_range", RANGES)
def test_lambda_rule_keeps_its_word(log_range, eps):
    assert largest_error(*lambda_rule(log_range, eps), log_range) <= eps


def test_lambda_rule_error_is_seen():
    for log_range in (2.3, 40.0):
        lam, w = lambda_rule(log_range, 1e-10)
        assert largest_error(lam, w * (1 + 1e-9), log_range) > 1e-10
        assert largest_error(lam[1:], w[1:], log_range) > 1e-13
        assert largest_error(lam[:-1], w[:-1], log_range) > 1e-13


def test_lambda_rule_is_not_wasteful():
    """Half of what a trapezoidal rule takes where the table reaches, 24 + 5 ln R beyond; fewer the
    looser eps is.
    """
    counts = [lambda_rule(np.log(1e6), eps)[0].size for eps in (1e-4, 1e-8, 1e-12, EPS_MIN)]
    assert counts == sorted(counts)
    assert counts[-1] <= 24 + 5 * np.log(1e6)
    assert lambda_rule(0.0, EPS_MIN)[0].size <= 26
    assert lambda_rule(np.log(6), 1.5e-10)[0].size <= 11
    assert lambda_rule(400.0, EPS_MIN)[0].size <= 24 + 5 * 400


@pytest.mark.parametrize("eps", [1e-4, 1e-12, EPS_MIN])
def test_segments_are_the_rule(eps):
    log_range = 500.0
    lam, w = lambda_rule(log_range, eps)
    pieces = lambda_segments(log_range, eps)
    assert len(pieces) > 1
    assert np.allclose(
        np.sort(np.concatenate([x * np.exp(-shift) for shift, x, _ in pieces])), lam, rtol=1e-13
    )
    assert np.isclose(
        sum((x * np.exp(-shift)).sum() for shift, _, x in pieces), w.sum(), rtol=1e-13
    )


@pytest.mark.parametrize("eps", [EPS_MIN / 2, 0.2, 0.0, -1.0, np.nan])
def test_lambda_rule_refuses_impossible_eps(eps):
    with pytest.raises(ValueError, match="eps"):
        lambda_rule(1.0, eps)


@pytest.mark.parametrize("log_range", [-1.0, np.inf, np.nan, 1e4])
def test_lambda_rule_refuses_bad_range(log_range):
    with pytest.raises(ValueError, match="log_range"):
        lambda_rule(log_range, 1e-10)


# --- sums for sectors -----------------------------------------------------------------------------

ANGLES, SECTOR_RANGES, SECTORS = short_sector_sums()
# The profile of hypothesis (tests/conftest.py) of the nightly job also proves every bound.
EVERY = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 96


def slow(*arguments):
    """A case that `-m "not slow"` leaves out."""
    return pytest.param(*arguments, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("angle", "every"), [*((a, EVERY) for a in ANGLES), *(slow(a, 48) for a in ANGLES)]
)
def test_every_bound_of_a_sector_is_proved(angle, every):
    """And the sums of moduli, which rounding is relative to, are at most a tenth above those of the
    integral.

    All bounds take minutes, every night; every ninety-sixth one, another one for each angle,
    takes a second.
    """
    entries = [(L, *entry) for L in SECTOR_RANGES for entry in SECTORS.get((angle, L), ())]
    for log_range, bound, lam, w in entries[ANGLES.index(angle) % every :: every]:
        assert (lam > 0).all() and (w > 0).all() and w.sum() < 100
        # Nothing is left of a lighter tier's nodes at a heavier one.
        assert lam.min() * np.exp(log_range) > 1e-3
        assert proved_sector_bound(lam.tolist(), w.tolist(), log_range, angle, bound) <= bound
        assert proved_moduli(lam.tolist(), w.tolist(), log_range) <= POLE_MODULI


def test_the_proof_of_a_sector_can_fail():
    angle = ANGLES[4]
    log_range = SECTOR_RANGES[3]
    bound, lam, w = SECTORS[angle, log_range][4]
    assert proved_sector_bound(lam, w * (1 + 2 * bound), log_range, angle, bound) > bound
    assert proved_sector_bound(lam, w, log_range, angle + 0.1, bound) > bound
    assert proved_sector_bound(lam[:-1], w[:-1], log_range, angle, bound) > bound
    assert proved_moduli(lam, 1.2 * w, log_range) > 1.1
