"""What is special to P2's entries; that every check holds and can fail is tested for both papers in
test_proofs.py.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from proofs_check.leemann2025 import scope as scope
from proofs_check.leemann2025.forms import (
    MASSES,
    VALUES,
    Head,
    Layer,
    log_odds,
    sequences,
    shapley_by_orders,
    slalom,
    slalom_game,
)
from proofs_check.leemann2025.recovery import recover
from proofs_check.leemann2025.shapley import shapley_by_counting
from proofs_check.registry import CORRECTED, NOT_CHECKABLE, run, statements

#: The slips that the project set out from, by the place that the entry names.
KNOWN_SLIPS = (
    "App. C.2 ([CLS])",
    "Eq. 30-36",
    "Eq. 37-43",
    "Eq. 36 with Eq. 10",
    "Eq. 55",
    "Eq. 56",
    "Eq. 57-58",
    "Eq. 65",
    "Eq. 66",
    "Eq. 69",
    "Below Eq. 73",
    "Eq. 77",
    "Eq. 81",
    "Below Eq. 82",
)


def test_every_known_slip_is_registered_as_corrected():
    verdicts = {entry.ref: entry.verdict for entry in statements("P2")}
    assert len(verdicts) >= 25
    assert {ref: verdicts.get(ref) for ref in KNOWN_SLIPS} == dict.fromkeys(KNOWN_SLIPS, CORRECTED)


@pytest.mark.slow
@pytest.mark.parametrize("perturb", [-0.01, 1e-6])
def test_checks_notice_other_perturbations_as_well(perturb):
    unnoticed = []
    for entry in statements("P2"):
        if entry.verdict != NOT_CHECKABLE:
            outcome = run(entry, perturb).outcome
            if outcome is None or outcome.error <= outcome.tolerance:
                unnoticed.append(entry.key)
    assert not unnoticed


def test_printed_recovery_mirrors_importances_at_the_reference():
    g = (Fraction(2), Fraction(5), Fraction(1, 3))
    v = (Fraction(0), Fraction(1), Fraction(2))
    eta, _ = recover(lambda tokens: slalom(tokens, g, v), 3)
    mirrored, _ = recover(lambda tokens: slalom(tokens, g, v), 3, printed=True)
    assert eta == pytest.approx([math.log(x / g[0]) for x in g], abs=1e-14)
    assert mirrored == pytest.approx([-x for x in eta], abs=1e-14)


def test_relu_division_is_exact_up_to_its_length_and_not_beyond():
    bound = Fraction(2)
    for n in range(1, 9):
        for x in (Fraction(-2), Fraction(-1, 7), Fraction(0), Fraction(2)):
            assert scope.divide_by_relus(x, Fraction(1, n), 8, bound) == x * n
    assert scope.divide_by_relus(Fraction(1), Fraction(1, 9), 8, bound) == 8


@pytest.mark.parametrize("causal", [False, True])
def test_a_whole_transformer_with_cls_is_a_linear_model(causal):
    """The claim of P2 App. C.2 ([CLS]) once more, through Eq. 7 to 13 and with the ReLU network as
    ffn.
    """
    longest = 4
    bound = Fraction(3, 2)
    cls = len(scope.WEIGHTS)
    E = np.zeros((cls + 1, 4), dtype=np.longdouble)
    E[:cls, 0] = [float(w) for w in scope.WEIGHTS]
    E[cls, 1] = 1
    zeros = np.zeros((4, 2), dtype=np.longdouble)
    values = zeros.copy()
    P = np.zeros((2, 4), dtype=np.longdouble)
    values[0, 0] = values[1, 1] = 1
    P[0, 2] = P[1, 3] = 1  # beside the skip connection's coordinates

    def ffn(z):
        x = Fraction(float(z[2]))
        n = round(1 / float(z[3]))
        return np.array(
            [0, 0, float(scope.divide_by_relus(x, Fraction(1, n), longest + 1, bound)), 0],
            np.longdouble,
        )

    layer = Layer((Head(zeros, zeros[0], zeros, zeros[0], values, zeros[0], P),), ffn)
    W_class = np.zeros((2, 4), dtype=np.longdouble)
    W_class[1, 2] = 1
    for tokens in sequences(cls, longest):
        linear = float(sum(scope.WEIGHTS[t] for t in tokens))
        assert log_odds(E[[cls, *tokens]], [layer], W_class, causal) == pytest.approx(
            linear, abs=1e-14
        )


def test_counting_needs_integers_but_no_enumeration():
    g = (3, 1, 2, 2)
    v = (1, -1, 4, 0)
    by_orders = shapley_by_orders(
        slalom_game([Fraction(x) for x in g], [Fraction(x) for x in v]), 4
    )
    assert shapley_by_counting(g, v)[0] == by_orders


def test_example_vocabulary_exercises_both_cases_of_the_recovery():
    assert len(set(VALUES)) < len(VALUES) == len(MASSES)
    assert min(VALUES) < 0 < min(MASSES)
