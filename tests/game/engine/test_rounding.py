"""Every constant of `rounding.py`: the count of operations that it is derived from, and the test
that it names.

A constant is at least its count and less than twice as large, so that half of it is noticed. A
constant that is generous by design states the factor at its line, and the factor is checked. The
errors themselves are evaluated in ball arithmetic in
`test_rounding_errors.py`.
"""

import ast
import math
import re
from pathlib import Path

import pytest

from attn_closed_form.game.engine import rounding
from attn_closed_form.game.engine.laws import Density
from attn_closed_form.game.engine.pieces import LOG_ROOM
from attn_closed_form.game.engine.rounding import ULP
from attn_closed_form.lime.size_moments import LEGENDRE_BITS, MOST_MOMENTS

ROOT = Path(__file__).parents[3]


def comments():
    """The comment above each constant, as one line."""
    path = Path(rounding.__file__)
    lines = path.read_text(encoding="utf-8").splitlines()
    tree = ast.parse("\n".join(lines))
    found = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        (target,) = node.targets
        line = node.lineno - 2
        block = []
        while lines[line].startswith("#"):
            block.insert(0, lines[line].removeprefix("#").strip())
            line -= 1
        found[target.id] = " ".join(block)
    return found


COMMENTS = comments()

# What one function (exp, log, ...) and one addition or product may cost, by the assumptions of the
# proof.
FUNCTION = 4
OPERATION = 1
# A complex product costs sqrt(5) ulps.
COMPLEX_PRODUCT = math.sqrt(5)
# Sums in pairs of at most 2^40 players.
PAIRS_OF_PLAYERS = 40
# A mass with the rounding of a difference of scores, and the gap between the masses of a player.
MASS = 16 + FUNCTION
GAP = MASS + OPERATION
# Step 7: a factor Y, with one exponential, the two products and the sum of a mixture, and a rounded
# 1 - p (its exponent is counted apart).
MIXTURE = 2 * OPERATION
FACTOR_Y = FUNCTION + MIXTURE + OPERATION
# A batch has at most three times MOST_NODES successive additions, and batches are added in pairs.
SUMS = rounding.MOST_NODES + rounding.MOST_TERMS + 1 + 42
# The rows of the right column of the table of step 7, in its order.
STEP_7 = (2 * GAP, PAIRS_OF_PLAYERS, 8, 2, 30, 20, 15, 5, SUMS)

COUNTS = {
    "MASSES": 2 * GAP,
    "FACTOR": FACTOR_Y + 2 * OPERATION,
    "PRECISE": sum(STEP_7),
    "OWEN_PER_GROUP": FACTOR_Y + OPERATION,
    # v - z, times a mass, times the turn (which has the 4 ulps of an exponential), the gap, and
    # times lam.
    "POLE_EXPONENT": 2 * OPERATION + COMPLEX_PRODUCT + FUNCTION + 2 * OPERATION,
    # All but the term of the player itself, and this term without the digits that LEAST_FACTOR
    # allows to cancel.
    "POLE_REST": sum(STEP_7) - 15 + 15 / rounding.LEAST_FACTOR,
    # The base, times scale; the centered value times scale; their sum.
    "LINK_ARGUMENT": 4 * OPERATION,
    # An exponential and a logarithm, and the argument of each.
    "LINK_VALUE": 4 * FUNCTION,
    # Three values of the function.
    "LINK_POINT": 3 * 4 * FUNCTION,
    # The function, c_k times it, and its share of the constant.
    "GAME_SUM_FIXED_ULPS": 4 * FUNCTION + 2 * OPERATION,
    # Masses, sums in pairs, products, additions of the background and the division.
    "LIME_GRAND": 2 * GAP + PAIRS_OF_PLAYERS + 4 * OPERATION,
    # Weights; V, B and their combination; the solution.
    "LIME_SUMS": 8 * 0.7 + 7 + 4 + 5 + 10,
    # A product, two sums and a quotient, twice.
    "LIME_MEAN_SIZE": 2 * 4 * OPERATION,
    # 64 ulps of the value of the empty coalition, in units of CONSTANTS.
    "LIME_EMPTY": 64 / rounding.CONSTANTS,
    # The base, rounded once, and the sum over heads that it is added to.
    "VALUE_BASE": 2 * OPERATION,
    # One minus the error, its product with the value, and the conversion.
    "VALUE_ITSELF": 3 * OPERATION,
    # A rounded difference of 745, its exponential, and a product.
    "EXTREMUM_EXPONENTIAL": 745 + FUNCTION + OPERATION,
}


# Constants that are larger than their count by design, and what they would have to be. The factor
# between both is stated at the line.
PLAYERS = 10**6
HEADS = 10**3
SMALLEST_NORMAL = 2.0**-1022
GENEROUS = {
    # Masses and their sum in pairs, at both ends.
    "RANGE_ROOM": (GAP + PAIRS_OF_PLAYERS) * 2 * ULP,
    # 2^20 successive logarithms of at most 700.
    "LOG_RANGE_ROOM": FUNCTION * ULP * 2**20 * 700,
    "LOG_RANGE_RELATIVE": FUNCTION * ULP,
    # Two rounded products.
    "SERIES_ROOM": 1 + 2 * OPERATION * ULP,
    # A sum over the players of at most 10^3 in one pass.
    "LOG_DECAY_ROOM": PLAYERS * ULP * 10**3,
    # H^2 losses, of which SUBNORMAL has 8 (a power of two, given as a number).
    "FLUSHED_EXPONENT": math.log2(HEADS**2 * SMALLEST_NORMAL / rounding.SUBNORMAL),
    "SPREAD_ROOM": 1 + HEADS * ULP,
    # A value of a game.
    "LINK_RANGE_ROOM": rounding.VALUE_PER_PLAYER * (PLAYERS + rounding.VALUE_FIXED_PLAYERS) * ULP,
    # The values that are added up have the ulps of a value of one game.
    "GAME_SUM_PER_PLAYER": rounding.VALUE_PER_PLAYER,
    # Truncated nodes and polynomials.
    "LIME_MOMENT": 2.0**-LEGENDRE_BITS * (MOST_MOMENTS * (MOST_MOMENTS + 1) + 2),
    # The sum of the moduli and the product with it are rounded, too.
    "EXTREMUM_SUM": OPERATION,
    # A mass and a product of 10^9 players.
    "EXTREMUM_LOST": 2 * 10**9 * SMALLEST_NORMAL,
    # The bias is added, and the result is rounded.
    "VALUE_BIAS": 2 * OPERATION,
    # One ulp per addition.
    "HEADS_SUM": OPERATION,
    "JOINT_GOAL": OPERATION,
    # Fewer than 16 operations.
    "JOINT_RATIOS": 16 * OPERATION,
    # Exponentials of e^300, `exp` itself and eight roundings, of which `relative_error` counts
    # EXTREMUM_SUM times EXTREMUM_EXPONENTIAL for each unit.
    "DUAL_SUM": (256 + FUNCTION + 8) / (rounding.EXTREMUM_SUM * rounding.EXTREMUM_EXPONENTIAL),
}


@pytest.mark.parametrize("name", GENEROUS)
def test_a_generous_constant_has_the_factor_that_it_states(name):
    """The comment says "Generous by a factor of ..."; half of the constant has half the factor."""
    stated = re.search(r"Generous by a factor of ([\d,.]*\d)", COMMENTS[name])
    assert stated is not None, COMMENTS[name]
    given = getattr(rounding, name)
    needed = GENEROUS[name]
    if name.endswith("_EXPONENT"):
        factor = 2.0 ** (given - needed)
    elif needed > 1 and given < 2:
        factor = (given - 1) / (needed - 1)
    else:
        factor = given / needed
    assert factor == pytest.approx(float(stated[1].replace(",", "")), rel=0.1)


def test_every_stated_factor_is_checked():
    stated = {name for name, comment in COMMENTS.items() if "Generous by a factor" in comment}
    assert stated == set(GENEROUS)
    assert not stated & set(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_a_constant_is_its_count_of_operations(name):
    """At least the count, and half of the constant would be less."""
    assert COUNTS[name] <= getattr(rounding, name) < 2 * COUNTS[name]


def test_the_unit_roundoff():
    """The largest relative error of a rounded number, next to 1, and the smallest number."""
    assert 1 + ULP == 1
    assert 1 + ULP * (1 + 1e-9) > 1
    assert math.ulp(0.0) == math.ldexp(1.0, rounding.LEAST_EXPONENT)


def test_a_complex_factor_is_a_real_one_and_more():
    """An exponential, 3 ulps of a mixture, a product, and 2.9 of the sum in the numerator.

    The modulus of the exponential has 4 ulps of e^x, and 3 of 1 + t^2 and the quotient by it; its
    angle has the 4 of the tangent; and 1 - t^2 with two products has 3.
    """
    exponential = math.hypot(4 + 3, 4) + 3
    count = exponential + 3 + COMPLEX_PRODUCT + 2.9
    assert count <= rounding.FACTOR + rounding.POLE_FACTOR
    assert count > rounding.FACTOR + rounding.POLE_FACTOR / 2


def test_a_value_is_the_quotient_of_two_sums():
    """Two sums of d + 1 products each for the numerator and for the denominator; masses, products
    and the division.
    """
    for d in (1, 10, 1000):
        count = 4 * (d + 1) + 2 * (8 + FUNCTION) + 3
        bound = rounding.VALUE_PER_PLAYER * (d + rounding.VALUE_FIXED_PLAYERS)
        assert count <= bound
        assert bound / 2 < count


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_a_density_of_one_power(n):
    """c p^a (1-p)^b at a node with 2 ulps: 2 a and, in the mean over p, 2 (a + 1); b of 1 - p; two
    powers, products.
    """
    for a in range(n + 1):
        b = n - a
        coefficient = (n + 1) * math.comb(n, a)
        reported = Density(((coefficient, a, b),)).extra_ulps
        count = 2 * a + 2 * (a + 1) + b + 2 * FUNCTION + 3 * OPERATION
        assert count <= reported * (1 + 1e-12)
    # The last one has a = n.
    assert reported / 2 < count


def test_the_room_of_both_ends_of_a_range():
    ends = math.log1p(rounding.RANGE_ROOM) - math.log1p(-rounding.RANGE_ROOM)
    assert ends <= LOG_ROOM - 1000 * ULP
    assert ends > LOG_ROOM / 2


def test_a_small_factor_has_a_square_in_float64():
    """Its inverse square, times a mass times value and a weight, and the square that is
    compared.
    """
    assert math.isfinite((1 / rounding.LEAST_MODULUS) ** 2 * 1e100)
    assert rounding.LEAST_MODULUS**2 * 2.0**53 > 2.0**-1022


# --- every constant names its test ----------------------------------------------------------------


@pytest.mark.parametrize("name", COMMENTS)
def test_every_constant_names_a_test(name):
    """`Test: tests/...py::test_name`, one or several, and each of them exists."""
    _, _, named = COMMENTS[name].partition("Test: ")
    tests = re.findall(r"(tests/[\w/]+\.py)::\s*(test_\w+)", named)
    assert tests, COMMENTS[name]
    for file, test in tests:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {test}(" in source
