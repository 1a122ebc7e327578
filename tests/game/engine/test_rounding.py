"""Every constant of `rounding.py`: the count of operations that it is derived from, and the test
that it names.

A constant is at least its count and less than twice as large, so that half of it is noticed, or the
reason is at the line. The errors themselves are evaluated in ball arithmetic in
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
}


# Constants that are larger than their count by design: what is needed, and the factor that their
# comments state.
GENEROUS = {
    # One ulp per addition.
    "HEADS_SUM": (OPERATION, 2),
    "JOINT_GOAL": (OPERATION, 2),
    # The sum of the moduli and the product with it are rounded, too.
    "EXTREMUM_SUM": (OPERATION, 2),
    # Fewer than 16 operations.
    "JOINT_RATIOS": (16 * OPERATION, 2),
    # The bias is added, and the result is rounded.
    "VALUE_BIAS": (2 * OPERATION, 2),
}


@pytest.mark.parametrize("name", GENEROUS)
def test_a_generous_constant_has_the_factor_that_it_states(name):
    needed, factor = GENEROUS[name]
    assert getattr(rounding, name) == needed * factor


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
    """9 ulps of an exponential, 3 of a mixture, a product, and 2.9 of the sum in the numerator."""
    count = 9 + 3 + COMPLEX_PRODUCT + 2.9
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


def test_a_value_of_a_part_has_a_margin():
    """A second difference of values has four of them, and `combine` asks for that: 3 here is a
    margin.
    """
    assert rounding.GAME_SUM_PER_PLAYER >= 3 * rounding.VALUE_PER_PLAYER


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


def test_the_room_of_a_range():
    """Masses and their sum in pairs at both ends: generous by a factor of 70, and LOG_ROOM has both
    ends.
    """
    assert (GAP + PAIRS_OF_PLAYERS) * 2 * ULP <= rounding.RANGE_ROOM
    ends = math.log1p(rounding.RANGE_ROOM) - math.log1p(-rounding.RANGE_ROOM)
    assert ends <= LOG_ROOM - 1000 * ULP
    assert ends > LOG_ROOM / 2


def test_the_room_of_a_range_from_logarithms():
    """2^20 successive logarithms of at most 700, a third of the room; four of the larger numbers,
    an eighth.
    """
    successive = FUNCTION * ULP * 2**20 * 700
    assert rounding.LOG_RANGE_ROOM / 10 < successive <= rounding.LOG_RANGE_ROOM
    unit_and_sum = FUNCTION * ULP
    assert rounding.LOG_RANGE_RELATIVE / 10 < unit_and_sum <= rounding.LOG_RANGE_RELATIVE


def test_the_room_of_a_decay():
    """A sum over 10^6 players of at most 10^3 in one pass, a ninth of the room."""
    rounded = 10**6 * ULP * 10**3
    assert rounding.LOG_DECAY_ROOM / 10 < rounded <= rounding.LOG_DECAY_ROOM


def test_the_room_of_a_sum_over_heads():
    """10^3 heads in one pass, a ninth of the room."""
    rounded = 10**3 * ULP
    assert (rounding.SPREAD_ROOM - 1) / 10 < rounded <= rounding.SPREAD_ROOM - 1


def test_the_room_of_the_range_of_a_linked_game():
    """The rounding of f for 10^6 players, less than half of the room."""
    d = 10**6
    rounded = rounding.VALUE_PER_PLAYER * (d + rounding.VALUE_FIXED_PLAYERS) * ULP
    assert rounding.LINK_RANGE_ROOM / 3 < rounded <= rounding.LINK_RANGE_ROOM


def test_a_small_factor_has_a_square_in_float64():
    """Its inverse square, times a mass times value and a weight, and the square that is
    compared.
    """
    assert math.isfinite((1 / rounding.LEAST_MODULUS) ** 2 * 1e100)
    assert rounding.LEAST_MODULUS**2 * 2.0**53 > 2.0**-1022


def test_a_moment_of_a_rule_in_integers():
    """2^-90 (n (n+1) + 2) for 600 nodes, a third of the constant."""
    n = MOST_MOMENTS
    rounded = 2.0**-LEGENDRE_BITS * (n * (n + 1) + 2)
    assert rounding.LIME_MOMENT / 10 < rounded <= rounding.LIME_MOMENT


def test_the_sum_of_the_dual_is_generous():
    """The factor that its comment states: exponentials of e^300, `exp` itself, and eight
    roundings.
    """
    needed = 256 + FUNCTION + 8
    given = rounding.DUAL_SUM * rounding.EXTREMUM_SUM * rounding.EXTREMUM_EXPONENTIAL
    assert 22 <= given / needed < 23


# --- every constant names its test ----------------------------------------------------------------


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


@pytest.mark.parametrize("name", COMMENTS)
def test_every_constant_names_a_test(name):
    """`Test: tests/...py::test_name`, one or several, and each of them exists."""
    _, _, named = COMMENTS[name].partition("Test: ")
    tests = re.findall(r"(tests/[\w/]+\.py)::\s*(test_\w+)", named)
    assert tests, COMMENTS[name]
    for file, test in tests:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {test}(" in source
