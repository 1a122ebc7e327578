"""The rules in p: their moments, their exactness, and whether their error bounds tell the truth."""

from fractions import Fraction
from math import comb, inf, log

import mpmath as mp
import numpy as np
import pytest

from attn_closed_form import PooledGame, lime_limit
from attn_closed_form.game.by_size import centered_moments
from attn_closed_form.game.engine.bounds import log_bound
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.laws import Batch
from attn_closed_form.game.engine.rounding import (
    LIME_MIXED_SIGNS,
    LIME_MOMENT,
    MOST_NODES,
)
from attn_closed_form.game.engine.terms import terms_of
from attn_closed_form.lime.kernel import LimeSettings, kernel, relative_kernel
from attn_closed_form.lime.law import KernelLaw, largest_on_reals
from attn_closed_form.lime.moments import (
    moments_by_recursion,
    moments_by_rule,
    plan_rules,
    rule_sums,
)
from attn_closed_form.lime.regression import regression
from attn_closed_form.lime.rules import LONGEST_RULE, ladder
from attn_closed_form.lime.size_moments import (
    HAHN_BITS,
    LEGENDRE_BITS,
    MOST_MOMENTS,
    REMAINDER_ROOM_BITS,
    THETA,
    UNITS_PER_STEP,
    WEIGHT_BITS,
    legendre_values,
    polynomials,
    size_moments,
    whole,
)
from tests.lime_games import score_game
from tests.profiles import mostly_slow

pytestmark = pytest.mark.usual_errors


def exact_moment(q, n):
    """nu_n from P_n(1 - 2p) = sum_k (-1)^k C(n,k) C(n+k,k) p^k and p^k -> (s)_k / (d)_k."""
    d = len(q) - 1
    return sum(
        (-1) ** k * comb(n, k) * comb(n + k, k) * q[s] * Fraction(comb(s, k), comb(d, k))
        for k in range(n + 1)
        for s in range(d + 1)
    )


@pytest.mark.parametrize("kernel_width", [25.0, 5.0, inf])
@pytest.mark.parametrize("d", [1, 2, 7, 26])
def test_moments_in_exact_arithmetic(d, kernel_width):
    q = [Fraction(x) for x in relative_kernel(d, kernel_width)[::-1]]
    moments = size_moments(d, kernel_width, LONGEST_RULE)
    unit = Fraction(1, 2 ** (WEIGHT_BITS + LEGENDRE_BITS))
    left = sum(x * x for x in q)
    for n in range(len(moments.nu)):
        exact = exact_moment(q, n)
        assert abs(moments.nu[n] * unit - exact) <= LIME_MOMENT * sum(q)
        norm = Fraction(d + 1, 2 * n + 1)
        for k in range(1, n + 1):
            norm *= Fraction(d + 1 + k, d + 1 - k)
        left -= exact**2 / norm
    assert moments.residual >= 0.999 * float(left) ** 0.5
    assert moments.residual <= 1.001 * float(left) ** 0.5 + 1e-25 * float(sum(q))


@pytest.mark.parametrize("kernel_width", [25.0, 5.0])
@pytest.mark.parametrize(("d", "longest"), mostly_slow([(12, 3), (20, 2), (60, 8), (700, 8)], 3))
def test_what_is_left_bounds_the_moments_beyond(d, longest, kernel_width):
    """|nu_n| <= |r| |Q_n| for all degrees that are not looked at, and the sums over them that the
    error is made of.
    """
    few = size_moments(d, kernel_width, longest)
    more = size_moments(d, kernel_width, 54)
    N = len(few.nu)
    n = np.arange(N, d + 1)
    norm = [Fraction(d + 1, 2 * i + 1) for i in range(d + 1)]
    for i in range(d + 1):
        for k in range(1, i + 1):
            norm[i] *= Fraction(d + 1 + k, d + 1 - k)
    log_norm = np.array([(log(x.numerator) - log(x.denominator)) / 2 for x in norm])
    assert (
        np.abs(more.rounded[N:]) <= few.residual * np.exp(log_norm[N : len(more.nu)]) * (1 + 1e-9)
    ).all()
    assert few.residual > 1e-20, "rounding alone"
    log_terms = np.log(2 * n + 1) / 2 - np.outer(THETA, n)
    for found, exact in zip(
        few.log_beyond, (log_terms, log_terms + log(few.residual) + log_norm[n]), strict=True
    ):
        np.testing.assert_allclose(found, np.logaddexp.reduce(exact, axis=1), rtol=1e-9)


@pytest.mark.parametrize("p", [0.0, 1e-30, 0.1, 0.5, 0.75, 1.0])
def test_legendre_polynomials_to_more_digits_than_a_float_has(p):
    values = legendre_values(np.array([p]), 110)[0]
    x = 1 - 2 * Fraction(p)
    before = Fraction(0)
    now = Fraction(1)
    for n, value in enumerate(values):
        assert abs(Fraction(int(value), 2**LEGENDRE_BITS) - now) <= LIME_MOMENT
        before, now = now, ((2 * n + 1) * x * now - n * before) / (n + 1)


@pytest.mark.parametrize(
    ("d", "kernel_width"), [(7, 25.0), (106, 5.0), (50, 1.0), (300, 0.3), (1, 0.01)]
)
def test_the_kernel_to_an_ulp(d, kernel_width):
    with mp.workprec(400):
        logs = [
            -((100 * (1 - mp.sqrt(1 - mp.mpf(s) / d)) / mp.mpf(kernel_width)) ** 2) / 2
            for s in range(d + 1)
        ]
        for weights, about in (
            (kernel(d, kernel_width), 0),
            (relative_kernel(d, kernel_width), logs[1]),
        ):
            exact = [mp.exp(min(log - about, 600)) for log in logs]
            errors = [
                abs(x / y - 1) for x, y in zip(weights.tolist(), exact, strict=True) if y > 1e-300
            ]
            assert max(errors) <= 0.75 * 2.0**-52
            assert all(
                x <= 1e-300 for x, y in zip(weights.tolist(), exact, strict=True) if y <= 1e-300
            )


@pytest.mark.parametrize("kernel_width", [25.0, 5.0, inf])
@pytest.mark.parametrize(("d", "m"), [(5, 2), (5, 6), (50, 7), (106, 12), (106, 30), (1000, 9)])
def test_polynomials_of_low_degree_are_exact(d, m, kernel_width):
    rule = ladder(d, kernel_width, (m,)).rules[0]
    q = relative_kernel(d, kernel_width)
    s = np.arange(d + 1)
    product = np.ones(d + 1)
    for k in range(m):
        # (d-s)_k / (d)_k is what p^k, p the probability of being present, stands for.
        np.testing.assert_allclose(
            rule.weights @ rule.p**k, q @ product, rtol=1e-13, atol=1e-15 * q.sum()
        )
        product = product * (d - s - k) / max(d - k, 1)
    assert ((rule.p >= 0) & (rule.p <= 1)).all()


@pytest.mark.parametrize("kind", ["unk", "deleted", "empty"])
@pytest.mark.parametrize("kernel_width", [25.0, 5.0])
def test_the_bound_holds_and_means_something(kind, kernel_width):
    d = 60
    game = score_game(d, H=1, kind=kind, spread=0.7)
    q = relative_kernel(d, kernel_width)
    goal = budget(game, 1e-11, plain=True)
    (mean,), present = centered_moments(game, q[None], goal)
    steps = ladder(d, kernel_width)
    (terms,) = terms_of(game, goal)
    chosen = [ladder(d, kernel_width, (rule.p.size,)) for rule in steps.rules]
    bounds = [
        one.choose(log_bound(terms.sums), largest_on_reals(terms), 0.0)[1].sum() for one in chosen
    ]
    errors = []
    for rule in steps.rules:
        p = rule.p[:, None]
        w = rule.weights[:, None]
        level, _, *delta = rule_sums(0.0, terms, Batch(slice(None), p, w), False)
        by_p = rule_sums(0.0, terms, Batch(slice(None), p, w * p), False)[0]
        errors.append(max(abs(level - mean), np.abs(by_p + np.array(delta) - present).max()))
    rounding = 1e-11 * float(game.half_range.sum())
    assert (np.array(errors) <= np.array(bounds) + rounding).all()
    assert errors[0] > 1e-10, "so easy that any bound holds"
    assert min(bounds) < 1e-9, "a bound that never gets small"


def test_no_rule_beyond_the_moments():
    assert [rule.p.size for rule in ladder(5, 25.0).rules] == [2, 4, 6]


@pytest.mark.slow  # a long recursion
def test_a_game_that_needs_longer_rules_than_there_are_takes_the_recursion():
    """200 players have 127 moments, fewer than the 130 nodes of the next rule."""
    rng = np.random.default_rng(70)
    game = PooledGame.from_scores(rng.normal(size=200), 12 * rng.normal(size=200)).through(
        "sigmoid"
    )
    tight = lime_limit(game, tol=1e-10)
    loose = lime_limit(game, tol=1e-7)
    assert np.abs(tight.coef - loose.coef).max() <= 1e-7


@pytest.mark.parametrize("kernel_width", mostly_slow([2.0, 3.0, 5.0, 25.0], 1))
def test_rules_whose_weights_cancel_are_never_chosen(kernel_width, monkeypatch):
    """The budget reckons with sums of moduli that are at most LIME_MIXED_SIGNS times those over
    sizes, for all w.
    """
    refused = 0
    for d in (9, 25, 30, 106, 300):
        q = relative_kernel(d, kernel_width)
        s = np.arange(d + 1)
        level = q.sum()
        moving = q @ (s * (d - s)) / (d * (d - 1))
        for rule in ladder(d, kernel_width).rules:
            if not np.isfinite(rule.log_error).all():
                refused += 1
                continue
            moduli = np.abs(rule.weights)
            room = LIME_MIXED_SIGNS * (1 + 1e-12)
            assert moduli.sum() <= room * level
            assert moduli @ (rule.p * (1 - rule.p)) <= room * moving
            for w in np.linspace(0, 1, 201):
                spread = np.sqrt(level * (q @ (s / d - w) ** 2))
                assert moduli @ np.abs(1 - rule.p - w) <= room * spread
    assert refused or kernel_width > 5
    monkeypatch.setattr("attn_closed_form.lime.rules.LIME_MIXED_SIGNS", 0.999)
    few = ladder.__wrapped__(30, kernel_width, (6,))
    assert few.choose(np.zeros((1, THETA.size)), np.ones(1), 1.0)[1] > 1.0


@pytest.mark.parametrize(("reach", "background"), [(3.0, None), (3.0, 1.0), (12.0, 0.0)])
def test_the_recursion_agrees_on_the_probability_of_many_deleted_players(reach, background):
    """Complex terms with wide sectors need the longest rules."""
    rng = np.random.default_rng(3)
    d = 170
    value = None if background is None else 0.3
    linked = PooledGame.from_scores(
        rng.normal(size=d),
        reach * rng.uniform(-1, 1, d),
        s_background=background,
        v_background=value,
    ).through("sigmoid")
    settings = LimeSettings(25.0, 1.0, 5000)
    fit = regression(d, settings, d)
    fast = fit.solve(moments_by_rule(plan_rules(linked, fit, settings, 1e-9), fit), np.arange(d))
    slow = fit.solve(moments_by_recursion(linked, fit, 1e-8), np.arange(d))
    assert np.abs(fast[0] - slow[0]).max() < 1e-8
    assert abs(fast[1] - slow[1]) < 1e-8
    assert np.abs(slow[0]).max() > 1e-3


def test_batches_are_small_enough_for_the_rounding_of_their_sums():
    """Step 7 of docs/what-tol-guarantees.md adds up at most MOST_NODES nodes one after the
    other.
    """
    rng = np.random.default_rng(3)
    game = (
        PooledGame.from_scores(rng.normal(size=300), 12 * rng.uniform(-1, 1, 300))
        .through("sigmoid")
        .engine_game(1e-8)
    )
    counts = [
        len(batch.p)
        for terms in terms_of(game, budget(game, 1e-8))
        for batch in KernelLaw(300, 25.0).batches(terms, 1e-8)
    ]
    assert max(counts) == MOST_NODES


@pytest.mark.parametrize("d", [5, 40, 106, 700])
def test_hahn_polynomials_stay_below_what_their_digits_suppose(d):
    """The last degree in use: |Q_n| < 2^63, and one that is not much higher would be beyond."""
    N = len(size_moments(d, 25.0, d).nu) - 1
    steps = [(n * (d + n + 1), (n + 1) * (d - n)) for n in range(N)]
    *_, last = polynomials(
        np.array([d - 2 * m for m in range(d + 1)], dtype=object), 0, steps, HAHN_BITS
    )
    assert max(abs(int(x)) for x in last) < 2 ** (HAHN_BITS + 63)
    assert d == N or max(abs(int(x)) for x in last) > 2 ** (HAHN_BITS + 40)


def test_the_longest_recurrences_have_digits_enough():
    """The fewest players for which MOST_MOMENTS is the limit, and Legendre polynomials of as many
    degrees.
    """
    d = 4000
    steps = [(n * (d + n + 1), (n + 1) * (d - n)) for n in range(MOST_MOMENTS)]
    *_, last = polynomials(np.array([d, 0, -d], dtype=object), 0, steps, HAHN_BITS)
    assert [abs(abs(int(x)) - (1 << HAHN_BITS)) <= 2 for x in last] == [True, False, True]
    values = legendre_values(np.array([0.0, 1.0]), MOST_MOMENTS + 1)
    assert (np.abs(values) == 1 << LEGENDRE_BITS).all()


def test_a_step_of_a_recurrence_rounds_by_less_than_its_units():
    """A shift that rounds down, times (2n + 1) / (n + 1) in Legendre's recurrence, and a division
    that rounds down.
    """
    worst = max((2 * n + 1) / (n + 1) for n in range(MOST_MOMENTS)) + 1
    assert 0.99 * UNITS_PER_STEP < worst <= UNITS_PER_STEP


@pytest.mark.parametrize(("d", "width"), [(7, 25.0), (20, 25.0), (60, 5.0)])
def test_the_room_of_the_remainder_is_generous(d, width):
    """The rounding of |q|^2 - sum nu_n^2 / |Q_n|^2, in fractions: at most 2^-15 of the room that
    its comment states.
    """
    q = whole(relative_kernel(d, width)[::-1], WEIGHT_BITS)
    slope = np.array([d - 2 * m for m in range(d + 1)], dtype=object)
    steps = [(n * (d + n + 1), (n + 1) * (d - n)) for n in range(d)]
    computed = [int(q @ Q) for Q in polynomials(slope, 0, steps, HAHN_BITS)]
    exact = Fraction(int(q @ q))
    before = [Fraction(0)] * (d + 1)
    now = [Fraction(1)] * (d + 1)
    norm = Fraction(d + 1)
    for n in range(d + 1):
        moment = sum(int(x) * y for x, y in zip(q, now, strict=True))
        exact -= moment**2 / norm
        if n < d:
            b, c = steps[n]
            following = [
                ((2 * n + 1) * s * y - b * z) / Fraction(c)
                for s, y, z in zip(slope.tolist(), now, before, strict=True)
            ]
            before = now
            now = following
            norm *= Fraction((2 * n + 1) * (d + n + 2), (2 * n + 3) * (d - n))
    # The sum as `_remainder` has it, without its room.
    square = int(q @ q) << 2 * HAHN_BITS
    inverse = (1 << 2 * HAHN_BITS) // (d + 1)
    for n, moment in enumerate(computed):
        if n:
            inverse = inverse * (2 * n + 1) * (d + 1 - n) // ((2 * n - 1) * (d + 1 + n))
        square -= moment * moment * inverse >> 2 * HAHN_BITS
    room = sum(q.tolist()) ** 2 << REMAINDER_ROOM_BITS
    error = abs(square - exact * 2 ** (2 * HAHN_BITS))
    assert room >> 24 < error <= room >> 15


@pytest.mark.parametrize(("d", "width", "longest"), [(12, 25.0, 1), (30, 5.0, 2)])
def test_the_remainder_of_the_kernel_is_at_least_the_sum_of_its_moduli(d, width, longest):
    """What the moments leave of the kernel, by least squares on all polynomials of their degree."""
    few = size_moments(d, width, longest)
    q = relative_kernel(d, width)[::-1]
    x = np.polynomial.legendre.legvander(np.linspace(-1, 1, d + 1), len(few.nu) - 1)
    rest = q - x @ np.linalg.lstsq(x, q, rcond=None)[0]
    total = float(np.abs(rest).sum())
    assert total <= few.remainder * (1 + 1e-9)
    assert total > few.remainder / 2
