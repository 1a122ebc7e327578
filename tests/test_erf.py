"""The error function of arrays against ball arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from attn_closed_form._erf import ENDS, erf

flint = pytest.importorskip("flint")


@pytest.mark.usual_errors
def test_within_four_ulps_of_the_exact_value() -> None:
    rng = np.random.default_rng(0)
    ends = np.array(ENDS)
    x = np.concatenate(
        [
            rng.uniform(-7, 7, 3000),
            np.geomspace(1e-300, 8, 500),
            ends,
            np.nextafter(ends, 0),
            np.nextafter(ends, 9),
            [0.0, 30.0, -30.0],
        ]
    )
    values = erf(x)
    for point, value in zip(x.tolist(), values.tolist(), strict=True):
        exact = flint.arb(point).erf()
        error = float(abs(exact - flint.arb(value)).upper())
        assert error <= 4.5 * np.spacing(abs(value)), point


def test_shapes_and_values_that_are_not_finite() -> None:
    assert erf(np.array(0.3)).shape == ()
    assert erf(np.zeros((2, 3))).tolist() == [[0.0] * 3] * 2
    assert np.isnan(erf(np.array([np.nan]))).all()
    assert erf(np.array([np.inf, -np.inf])).tolist() == [1.0, -1.0]
