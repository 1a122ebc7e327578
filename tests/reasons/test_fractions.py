"""Bounds, reasons and curves against an enumeration in exact fractions, with masses that are whole
numbers.

The enumeration knows whole masses and values and the definition, and nothing of the library.
"""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from attn_closed_form import PooledGame
from attn_closed_form.game.scores import PooledScores
from attn_closed_form.game.tails import TailGame
from attn_closed_form.reasons import (
    bounds,
    bounds_by_size,
    contrastive_reason,
    contrastive_reason_of_any,
    removal_curves,
    sufficient_reason,
    sufficient_reason_of_all,
)
from tests.oracles import checks

D = 7
EVERYBODY = frozenset(range(D))
# Results are floats: a few hundred roundings of values below ten.
ROUNDING = 1e-12


class Whole:
    """A game of H heads with whole masses and values, deleted players and a background of mass 1
    and value 0.
    """

    def __init__(self, seed, heads):
        rng = np.random.default_rng(seed)
        self.g = rng.integers(1, 9, size=(heads, D))
        self.v = rng.integers(-9, 10, size=(heads, D))

    def game(self):
        return PooledGame.from_scores(
            np.log(self.g), self.v, s_background=0.0, v_background=0.0, bias=0.25
        )

    def value(self, present):
        total = Fraction(1, 4)
        for g, v in zip(self.g.tolist(), self.v.tolist(), strict=True):
            total += Fraction(sum(g[j] * v[j] for j in present), 1 + sum(g[j] for j in present))
        return total


def coalitions():
    return [frozenset(S) for n in range(D + 1) for S in combinations(range(D), n)]


GAMES = [Whole(seed, heads) for seed in range(6) for heads in (1, 2)]


@checks(bounds, by="more digits")
@pytest.mark.parametrize("whole", GAMES)
def test_bounds(whole):
    values = [whole.value(S) for S in coalitions()]
    found = bounds(whole.game())
    assert found.attained_min == pytest.approx(float(min(values)), abs=ROUNDING)
    assert found.attained_max == pytest.approx(float(max(values)), abs=ROUNDING)
    # Proved in exact arithmetic, and nearly attained where the library enumerates, too.
    assert min(values) - Fraction(1e-9) <= Fraction(found.proved_min) <= min(values)
    assert max(values) <= Fraction(found.proved_max) <= max(values) + Fraction(1e-9)


@checks(bounds_by_size, by="more digits")
@pytest.mark.parametrize("whole", GAMES)
def test_bounds_of_every_size(whole):
    found = bounds_by_size(whole.game())
    for i, absent in enumerate(found.absent.tolist()):
        values = [whole.value(S) for S in coalitions() if len(S) == D - absent]
        assert Fraction(found.proved_min[i]) <= min(values)
        assert Fraction(found.proved_max[i]) >= max(values)
        if len(whole.g) == 1:
            assert found.attained_min[i] == pytest.approx(float(min(values)), abs=ROUNDING)
            assert found.attained_max[i] == pytest.approx(float(max(values)), abs=ROUNDING)


def smallest(sets):
    """The size of the smallest of some sets; one more than everybody if there are none."""
    return min(map(len, sets), default=D + 1)


def suffices(wholes, chosen):
    return all(whole.value(S) > 0 for whole in wholes for S in coalitions() if chosen <= S)


def positive(count):
    """Games whose prediction with all players is above zero."""
    return [whole for whole in GAMES if whole.value(EVERYBODY) > 0][:count]


@checks(sufficient_reason, contrastive_reason, by="more digits")
@pytest.mark.parametrize("whole", positive(6))
def test_reasons_of_one_game(whole):
    enough = [S for S in coalitions() if suffices([whole], S)]
    found = sufficient_reason(whole.game())
    assert found.size == smallest(enough)
    assert frozenset(found.players) in enough
    flipping = [S for S in coalitions() if whole.value(EVERYBODY - S) < 0]
    found = contrastive_reason(whole.game())
    assert found.size == smallest(flipping)
    assert found.players is None or frozenset(found.players) in flipping


@checks(sufficient_reason_of_all, contrastive_reason_of_any, by="more digits")
def test_reasons_of_several_games():
    wholes = positive(3)
    games = [whole.game() for whole in wholes]
    enough = [S for S in coalitions() if suffices(wholes, S)]
    found = sufficient_reason_of_all(games)
    assert found.size == smallest(enough)
    assert frozenset(found.players) in enough
    flipping = [S for S in coalitions() if any(whole.value(EVERYBODY - S) < 0 for whole in wholes)]
    found = contrastive_reason_of_any(games)
    assert found.size == smallest(flipping)
    assert frozenset(found.players) in flipping


@checks(removal_curves, by="more digits")
@pytest.mark.parametrize("whole", GAMES[:4])
def test_removal_curves(whole):
    scores = np.random.default_rng(5).permutation(D).astype(float)
    order = np.argsort(-scores).tolist()
    found = removal_curves(whole.game(), scores)
    for i, absent in enumerate(found.absent.tolist()):
        deleted = whole.value(EVERYBODY - frozenset(order[:absent]))
        inserted = whole.value(EVERYBODY - frozenset(order[D - absent :]))
        assert found.deletion[i] == pytest.approx(float(deleted), abs=ROUNDING)
        assert found.insertion[i] == pytest.approx(float(inserted), abs=ROUNDING)


@checks(TailGame.value, by="more digits")
@pytest.mark.parametrize("whole", GAMES[:2])
def test_a_function_of_the_pooled_vector(whole):
    """The square of a mean, and coalitions as they grow along an order."""
    scores = PooledScores(
        s=np.log(whole.g[:1]),
        v=whole.v[:1].astype(float),
        bias=np.zeros(1),
        s_background=np.zeros(1),
        v_background=np.zeros(1),
    )
    game = TailGame(scores, lambda h: h[:, 0] ** 2)
    first_head = Whole.__new__(Whole)
    first_head.g = whole.g[:1]
    first_head.v = whole.v[:1]
    order = np.random.default_rng(1).permutation(D)
    exact = []
    masks = []
    for n in range(D + 1):
        present = frozenset(order[:n].tolist())
        exact.append(float((first_head.value(present) - Fraction(1, 4)) ** 2))
        masks.append([j in present for j in range(D)])
    np.testing.assert_allclose(game.value(masks), exact, rtol=0, atol=100 * ROUNDING)
    np.testing.assert_allclose(game.along(order[None])[0], exact, rtol=0, atol=100 * ROUNDING)
