"""The trapezoidal rule for 1/x keeps its error: proved in ball arithmetic for a sample of its
steps, and measured.
"""

import math

import pytest

from attn_closed_form.game.engine import exponential_sums

pytest.importorskip("flint")

from proofs_check import trapezoid
from tests.profiles import mostly_slow


@pytest.mark.parametrize("k", mostly_slow([33, 110, 8, 62, 87], 2))
def test_the_error_is_proved(k):
    """Nine tenths of eps; the rest is for the rounding of nodes.

    All k: python -m proofs_check.trapezoid.
    """
    assert trapezoid.step_bound(k) + sum(trapezoid.ends_bound(k)) <= 0.9


def test_the_ends_are_proved():
    for k in trapezoid.LEVELS:
        right, left = trapezoid.ends_bound(k)
        assert right <= 0.27 and left <= 0.09


def test_the_proof_speaks_of_the_rule_in_use():
    assert exponential_sums.STEP_CONSTANT == trapezoid.CONSTANT
    for eps in (exponential_sums.EPS_MIN, 1e-10, 0.1):
        _, rounded = exponential_sums.rounded_arguments(20.0, eps)
        k = round(-8 * math.log10(rounded))
        assert (
            k in trapezoid.LEVELS
            and rounded == pytest.approx(10 ** (-k / 8), rel=1e-13)
            and rounded <= eps * (1 + 1e-13)
        )
        *_, h = exponential_sums.trapezoid_of(20.0, rounded)
        assert h <= float(trapezoid.step(k)) < h * (1 + 1e-5)


def test_the_proof_can_fail(monkeypatch):
    monkeypatch.setattr(trapezoid, "CONSTANT", 260)
    assert trapezoid.step_bound(87) > 1
