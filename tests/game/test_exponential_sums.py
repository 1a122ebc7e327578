"""Every short sum of exponentials that the package ships keeps its stated bound: proved in ball arithmetic."""

import numpy as np
import pytest

from attn_closed_form.game.quadrature import short_sums

pytest.importorskip("flint")

from proofs_check.exponential_sums import proved_bound

LOG_RANGES, TABLE = short_sums()


@pytest.mark.parametrize("log_range", LOG_RANGES.tolist())
def test_every_bound_is_proved(log_range):
    for bound, lam, w in TABLE[log_range]:
        assert (lam > 0).all() and (w > 0).all()
        assert proved_bound(lam.tolist(), w.tolist(), log_range, bound) <= bound
    assert [lam.size for _, lam, _ in TABLE[log_range]] == sorted(lam.size for _, lam, _ in TABLE[log_range])


def test_the_proof_can_fail():
    """A sum that is off by 1e-12, or used beyond its range, does not get the bound."""
    bound, lam, w = TABLE[2.0][8]
    assert proved_bound(lam, w * (1 + bound), 2.0) > 1.5 * bound
    assert proved_bound(lam, w, 2.5) > 1.5 * bound
    assert proved_bound(lam[:-1], w[:-1], 2.0) > bound


def test_the_proof_is_not_below_the_error():
    """At a fine grid of points, in extended precision, the error reaches most of the bound and never passes it."""
    for log_range in (0.25, 3.0, 12.0):
        for bound, lam, w in TABLE[log_range]:
            x = np.exp(np.linspace(0, log_range, 4000).astype(np.longdouble))[:, None]
            error = np.abs(x * (w * np.exp(-lam.astype(np.longdouble) * x)).sum(axis=1, keepdims=True) - 1).max()
            assert 0.5 * bound < error <= bound
