"""Every tolerance of the tests: one name, one reason, one assertion each.

The numbers are never shared.

- ALGEBRAIC: two ways to write the same real number. The difference is rounding alone, so it is a
  few ulps of the *largest term that entered*, times how much the formula amplifies rounding
  (`condition`). Softmax of scores of size S has condition 1 + S: rounding a score by S ulps changes
  its exponential by S ulps.
- QUADRATURE: the default `tol` of the package. A rule that is right to `tol` is off by at most 2
  tol times the size of the function (see `quadrature.py` and DESIGN).
- GUARANTEED: the package promises |error| <= tol max|f|, and nothing more is allowed but the
  rounding of the side that it is compared with.
- STATISTICAL: how many standard errors an average of samples, drawn with a fixed seed, may be off.
- DIFFERENCE: fourth-order central differences in extended precision: step^4 = 1e-12 of truncation
  times the derivatives of a softmax of order one, and 1e-19/step of rounding.
"""

import numpy as np

ALGEBRAIC = 2.0**-46  # 64 ulps, the longest sum in the tests has about as many terms
QUADRATURE = 1e-10
GUARANTEED = 1.0  # in units of tol max|f|
STATISTICAL = 5.0
DIFFERENCE = 1e-9


def _assert_within(got, expected, bound, name):
    got = np.asarray(got, dtype=float)
    expected = np.asarray(expected, dtype=float)
    assert got.shape == expected.shape, f"{name}: shapes {got.shape} and {expected.shape} differ"
    assert np.isfinite(got).all() and np.isfinite(expected).all(), f"{name}: not finite"
    bound = np.broadcast_to(bound, got.shape)
    assert np.isfinite(bound).all(), f"{name}: the bound itself is not finite"
    error = np.abs(got - expected)
    if (error > bound).any():
        worst = np.unravel_index(np.argmax(error - bound), got.shape)
        raise AssertionError(
            f"{name}: at {tuple(map(int, worst))} got {got[worst]!r}, expected "
            f"{expected[worst]!r}, difference {error[worst]:.3e}, allowed {bound[worst]:.3e}"
        )


def assert_algebraic(got, expected, scale=None, condition=1.0):
    """Equal but for rounding.

    `scale` is the size of the largest term; by default that of the expected entries.
    """
    if scale is None:
        scale = np.max(np.abs(expected), initial=0.0)
    _assert_within(got, expected, ALGEBRAIC * condition * scale, "algebraic")


def assert_quadrature(got, expected, scale, tol=QUADRATURE):
    """Equal up to twice `tol` times the size of the integrated function."""
    _assert_within(got, expected, 2 * tol * scale, "quadrature")


def assert_guaranteed(got, expected, largest, rounding, tol=QUADRATURE):
    """Within the promised `tol` times the largest |f|, and the `rounding` of `expected`."""
    _assert_within(got, expected, GUARANTEED * tol * largest + rounding, "guaranteed")


def assert_statistical(got, expected, standard_error):
    """Equal up to `STATISTICAL` standard errors."""
    _assert_within(got, expected, STATISTICAL * np.asarray(standard_error), "statistical")


def assert_difference(got, expected, scale):
    """Equal up to the error of a fourth-order central difference."""
    _assert_within(got, expected, DIFFERENCE * scale, "difference")
