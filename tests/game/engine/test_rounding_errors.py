"""The errors that `rounding.py` bounds, in ball arithmetic on constructed worst cases.

Rounding seldom adds up, so most cases reach a part of their bound. Each test states the part that
its case reaches at least, so that a constant that is ten times too small, and often one that is
half as large, is noticed.
"""

from fractions import Fraction

import numpy as np
import pytest

from attn_closed_form import PooledGame, banzhaf
from attn_closed_form.game.engine.kernels import complex_exponential, mix, product
from attn_closed_form.game.engine.pieces import exp_difference
from attn_closed_form.game.engine.rounding import (
    FACTOR,
    LINK_ARGUMENT,
    LINK_VALUE,
    MASSES,
    OUTPUT,
    PLAIN_DIFFERENCE,
    POLE_EXPONENT,
    SERIES_REMAINDER,
    SERIES_ROOM,
    ULP,
)
from attn_closed_form.game.engine.series import count_powers
from attn_closed_form.game.links import LINKS, Link, LinkedGame

flint = pytest.importorskip("flint")
arb = flint.arb


@pytest.fixture(autouse=True)
def _digits():
    before = flint.ctx.prec
    flint.ctx.prec = 200
    yield
    flint.ctx.prec = before


def relative_ulps(computed, exact):
    """The errors of floats (n,), relative to exact balls, in ulps."""
    return np.array(
        [abs(float((arb(float(c)) - e) / e)) / ULP for c, e in zip(computed, exact, strict=True)]
    )


# Differences of scores just below and above PLAIN_DIFFERENCE, of which the largest part is rounded.
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("middle", [15.5, 16.5, 200.0])
def test_a_mass_of_a_large_difference(middle):
    """Below PLAIN_DIFFERENCE half a unit in the last place is 8 ulps of 1; above, the rounding is
    taken back.
    """
    unit = RNG.uniform(0.0, 1.0, 300)
    s = unit - middle + RNG.uniform(-0.49, 0.49, 300)
    exact = [(arb(float(x)) - arb(float(y))).exp() for x, y in zip(s, unit, strict=True)]
    worst = relative_ulps(exp_difference(s, unit), exact).max()
    # MASSES has the error of each mass and that of the gap, twice.
    assert worst <= MASSES / 2 - 1
    if middle < 16:
        assert middle < PLAIN_DIFFERENCE
        assert worst > MASSES / 6
    else:
        assert worst <= 4


def test_equal_factors_round_alike():
    """The product of 200 equal factors loses 200 times the error of one, an eighth of FACTOR."""
    d = 200
    r = 500
    p = 0.7
    exponent = RNG.uniform(1.0, 1.2, r)
    factor = np.ones((r, 2, d))
    factor[:, 0] = np.exp(-exponent)[:, None]
    points = np.broadcast_to(np.array([p, 1 - p]), (r, 1, 2)).copy()
    Y, spare = np.empty((2, r, 1, d))
    mix(points, factor, True, Y, spare)
    exact = [(arb(p) * (-arb(float(t))).exp() + 1 - arb(p)) ** d for t in exponent]
    worst = relative_ulps(product(Y, spare)[:, 0], exact).max() / d
    assert FACTOR / 9 < worst <= FACTOR


def test_powers_that_a_series_leaves_out():
    """On a fine grid of q, the part that is cut off comes near to SERIES_REMAINDER and never
    exceeds it.
    """
    worst = 0.0
    for q in np.geomspace(1e-4, 0.2, 150):
        J = count_powers(float(q))
        x = arb(float(q))
        kept_square = sum(((i + 1) * x**i for i in range(J)), arb(0))
        kept_log = sum((x**i / i for i in range(1, J)), arb(0))
        square = float(1 - kept_square * (1 - x) ** 2)
        logarithm = float(1 - kept_log / -(1 - x).log())
        worst = max(worst, square, logarithm)
    # An eighth of an ulp: twice that would be felt.
    assert 0.9 * ULP / 8 < worst <= ULP / 8
    assert SERIES_REMAINDER == ULP / 8


def test_q_of_a_series_is_rounded_up():
    """Two roundings of a product may go down; the factor makes up for them, and for thousands
    more.
    """
    p = RNG.uniform(0.01, 0.1, 2000)
    change = RNG.uniform(0.01, 1.0, 2000)
    computed = p * change
    exact = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(p, change, strict=True)]
    pairs = list(zip(computed, exact, strict=True))
    assert any(Fraction(float(q)) < e for q, e in pairs)
    assert all(Fraction(float(q * SERIES_ROOM)) >= e for q, e in pairs)


LINKS_OF_BALLS = {
    "sigmoid": lambda t: 1 / (1 + (-t).exp()),
    "exp": lambda t: t.exp(),
    "x tanh": lambda t: t * (t / 2).tanh() / 2,
    "log cosh": lambda t: abs(t) / 2 + (1 + (-abs(t)).exp()).log(),
    "x erf": lambda t: t * (t / arb(2).sqrt()).erf() / 2,
}


def link_values(x):
    """Every link at floats x, as balls."""
    return {name: [g(arb(float(t))) for t in x] for name, g in LINKS_OF_BALLS.items()}


def test_a_value_of_a_link():
    """Within LINK_VALUE ulps of g(x), a quarter of which is reached."""
    x = RNG.uniform(-3, 3, 400)
    reached = [relative_ulps(Link(name)(x), exact).max() for name, exact in link_values(x).items()]
    assert LINK_VALUE / 5 < max(reached) <= LINK_VALUE


def test_a_small_probability_has_the_rounding_of_its_logarithm():
    """log(1 + e^-x) = -x is rounded to an ulp of x, which the rounding of the argument covers at
    the slope 1/4.
    """
    x = RNG.uniform(-40, -3, 400)
    computed = Link("sigmoid")(x)
    ulps = relative_ulps(computed, link_values(x)["sigmoid"])
    assert ulps.max() > LINK_VALUE
    argument = LINK_ARGUMENT * np.abs(x) * LINKS["sigmoid"].slope(-40.0, -3.0)
    assert (ulps * computed <= LINK_VALUE * computed + argument).all()


@pytest.mark.parametrize("name", LINKS_OF_BALLS)
def test_known_values_of_a_link(name):
    """The value of a constant game and that of the empty coalition, whose arguments are rounded; a
    sixtieth of the bound is reached.
    """
    g = LINKS_OF_BALLS[name]
    worst = 0.0
    for _ in range(60):
        scale, v, bias, empty = RNG.uniform(-4, 4, 4).tolist()
        game = PooledGame.from_scores([0.5], [v], bias=bias, empty_value=empty)
        engine = LinkedGame(game, Link(name, scale)).engine_game(1e-10)
        of_all = g(arb(scale) * (arb(v) + arb(bias)))
        of_nobody = g(arb(scale) * arb(empty))
        error = abs(float(of_all - arb(engine.base)))
        error_of_excess = abs(float(of_nobody - of_all - arb(engine.empty_excess)))
        # The difference is rounded, which is among the last additions of the budget.
        allowed = engine.known_error + ULP * abs(engine.empty_excess)
        assert error <= engine.known_error
        assert error_of_excess <= allowed
        worst = max(worst, error / engine.known_error, error_of_excess / allowed)
    assert worst > 1 / 60


def test_the_argument_of_a_link():
    """scale (base + value) is rounded four times, each time by an ulp of a part; a quarter of it is
    reached.
    """
    worst = 0.0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scale = rng.uniform(1, 2)
        v = rng.uniform(-1, 1, 20)
        bias = rng.uniform(0.5, 4)
        linked = PooledGame.from_scores(np.zeros(20), v, bias=bias).through("exp", scale)
        values, rounding = linked.arguments
        exact = [Fraction(scale) * (Fraction(float(x)) + Fraction(bias)) for x in v]
        errors = [abs(Fraction(float(a)) - e) for a, e in zip(values[:20], exact, strict=True)]
        worst = max(worst, float(max(errors)) / rounding)
    assert 0.2 < worst <= 1


def test_the_exponent_of_a_pole():
    """The numbers Q_j of a pole, masses of 1, relative to the moduli of both states.

    The turn is the number that the weights have, so its rounding does no harm, and a tenth of
    POLE_EXPONENT is enough.
    """
    rng = np.random.default_rng(3)
    d = 40
    v = rng.normal(size=(2, d))
    game = PooledGame.from_scores(np.zeros(d), v[0], np.zeros(d), v[1])
    poles = game.through("sigmoid").engine_game(1e-8)
    values = poles.linked.arguments.values.tolist()
    worst = 0.0
    for pieces in poles.pieces(1e-9):
        for m, row in enumerate(pieces.masses.gap):
            z = flint.acb(poles.poles.z[m].real, poles.poles.z[m].imag)
            turn = flint.acb(poles.sectors.turn[m].real, poles.sectors.turn[m].imag)
            for j in range(d):
                present = turn * (values[j] - z)
                absent = turn * (values[d + j] - z)
                gap = present - absent
                if float(gap.real) < 0:
                    gap = -gap
                error = abs(flint.acb(row[j].real, row[j].imag) - gap)
                worst = max(worst, float(error / (abs(present) + abs(absent))) / ULP)
    assert POLE_EXPONENT / 25 < worst <= POLE_EXPONENT


def test_the_last_additions():
    """Two constants of opposite signs, whose difference is rounded: a fifth of OUTPUT is
    reached.
    """
    worst = 0.0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        value = rng.uniform(0.5, 1)
        empty = -rng.uniform(0.5, 1)
        game = PooledGame.from_scores([0.0], [value], empty_value=empty)
        largest = max(abs(value), abs(empty))
        exact = Fraction(value) - Fraction(empty)
        error = abs(Fraction(float(banzhaf(game)[0])) - exact)
        worst = max(worst, float(error) / largest / ULP)
    assert OUTPUT / 6 < worst <= OUTPUT


def test_a_complex_exponential():
    """Relative to its modulus, also next to multiples of pi and for angles of thousands."""
    rng = np.random.default_rng(0)
    angles = np.concatenate(
        [
            rng.uniform(-4, 4, size=400),
            np.pi * np.arange(-40, 41),
            np.pi * np.arange(-40, 41) / 2 + 1e-9,
            rng.uniform(-3000, 3000, size=200),
            [0.0, 1e-300, -1e-12],
        ]
    )
    x = rng.uniform(-30, 0, size=angles.size) + 1j * angles
    found = complex_exponential(x)
    worst = 0.0
    for point, value in zip(x.tolist(), found.tolist(), strict=True):
        exact = flint.acb(point.real, point.imag).exp()
        error = abs(flint.acb(value.real, value.imag) - exact) / abs(exact)
        worst = max(worst, float(error.mid()))
    assert 1.0 * ULP < worst <= 11.1 * ULP


def test_a_complex_exponential_that_underflows_is_zero():
    assert complex_exponential(np.array([-1e300 + 1e299j, -800 - 3j])).tolist() == [0, 0]
