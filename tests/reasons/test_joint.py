"""Reasons for one class among several: they hold against all other classes, and are as small as
they say.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import PooledGame, sufficient_reason
from attn_closed_form.reasons import (
    UndecidedError,
    contrastive_reason_of_any,
    sufficient_reason_of_all,
)
from attn_closed_form.reasons.joint import Covering
from attn_closed_form.reasons.search import SufficientSearch
from tests import enumeration
from tests.oracles import checks
from tests.profiles import mostly_slow
from tests.reasons.brute_reasons import Truth


class Classes:
    """A random attention model of one text with d words, C classes and H heads."""

    def __init__(self, seed, d, C=8, H=1, scale=3.0):
        rng = np.random.default_rng(seed)
        self.s = rng.normal(scale=1.5, size=(H, d))
        self.v = rng.normal(scale=scale, size=(H, d, C))
        self.v[rng.random((H, d)) < 0.5] *= 0.1  # half of the words hardly matter
        self.v_background = rng.normal(size=(H, C))
        self.predicted = int(self.logits(np.ones((1, d)))[0].argmax())

    def logits(self, present):
        """The (n, C) logits of coalitions, from the definition of the softmax."""
        total = 0.0
        for s, v, v_background in zip(self.s, self.v, self.v_background, strict=True):
            mass = present * np.exp(s)
            total = total + (mass @ v + v_background) / (mass.sum(axis=1, keepdims=True) + 1)
        return total

    def margins(self):
        others = [c for c in range(self.v.shape[2]) if c != self.predicted]
        return [
            PooledGame.from_scores(
                self.s,
                self.v[:, :, self.predicted] - self.v[:, :, c],
                s_background=np.zeros(len(self.s)),
                v_background=self.v_background[:, self.predicted] - self.v_background[:, c],
            )
            for c in others
        ]


def deletions_that_keep(players, d, rng, n=200):
    """Random coalitions of all sizes that contain the players."""
    present = rng.random((n, d)) < rng.random((n, 1))
    present[:, list(players)] = True
    return present.astype(float)


@pytest.mark.parametrize("H", mostly_slow([3, 1], 1))
def test_no_deletion_that_keeps_the_set_changes_the_class(H):
    """The defect that this guards against: a set that is certified against the strongest other
    class alone.
    """
    changed = 0
    changed_with_one_rival = 0
    for seed in range(60 if H == 1 else 15):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(5, 60))
        model = Classes(seed, d, H=H)
        margins = model.margins()
        reason = sufficient_reason_of_all(margins)
        classes = model.logits(deletions_that_keep(reason.players, d, rng)).argmax(axis=1)
        changed += bool((classes != model.predicted).any())
        nearest = min(margins, key=lambda game: float(game.value([True] * d)))
        single = sufficient_reason(nearest)
        classes = model.logits(deletions_that_keep(single.players, d, rng)).argmax(axis=1)
        changed_with_one_rival += bool((classes != model.predicted).any())
        flip = contrastive_reason_of_any(margins)
        if flip.players is not None:
            present = np.ones((1, d))
            present[0, list(flip.players)] = 0
            others = [c for c in range(8) if c != model.predicted]
            assert model.logits(present)[0].argmax() == others[flip.rival]
    assert changed == 0
    assert changed_with_one_rival >= 3  # so the test can fail


def check(model, d, minimal):
    margins = model.margins()
    reason = sufficient_reason_of_all(margins)
    flip = contrastive_reason_of_any(margins)
    truths = [Truth(game, 0.0) for game in margins]
    suffices = np.logical_and.reduce([truth.suffices for truth in truths])
    flips = np.logical_or.reduce([truth.flips for truth in truths])
    sizes = truths[0].size
    number = truths[0].number(reason.players)
    assert suffices[number]
    assert reason.lower_bound <= sizes[suffices].min() <= reason.size
    worst = np.array([truth.worst(reason.players) for truth in truths])
    assert reason.worst <= worst.min() + 1e-12
    assert worst[reason.rival] == pytest.approx(worst.min(), abs=1e-9) or model.s.shape[0] > 1
    smallest_flip = sizes[flips].min() if flips.any() else d + 1
    assert flip.lower_bound <= smallest_flip <= flip.size
    if flip.players is not None:
        assert flips[truths[0].number(flip.players)]
        after = [truth.f[~truth.number(flip.players)] for truth in truths]
        assert flip.after == pytest.approx(float(min(after)), abs=1e-9)
        assert int(np.argmin(after)) == flip.rival
    if minimal:
        assert reason.size == reason.lower_bound == sizes[suffices].min()
        assert flip.minimal
    return reason


@checks(sufficient_reason_of_all, contrastive_reason_of_any, by="enumeration")
@given(seed=st.integers(0, 10**6), d=st.integers(1, 7), C=st.integers(3, 5), H=st.integers(1, 2))
def test_by_enumeration(seed, d, C, H):
    model = Classes(seed, d, C, H)
    check(model, d, minimal=True)
    with pytest.MonkeyPatch.context() as patch:  # small games go the way of large ones
        patch.setattr("attn_closed_form.reasons.search.ENUMERATED", 0)
        patch.setattr("attn_closed_form.reasons.joint.ENUMERATED", 0)
        check(model, d, minimal=False)


def test_most_sets_of_one_head_are_proved_to_be_smallest():
    reasons = [sufficient_reason_of_all(Classes(seed, 30).margins()) for seed in range(20)]
    assert np.mean([reason.minimal for reason in reasons]) >= 0.5
    assert max(reason.size - reason.lower_bound for reason in reasons) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_the_lower_bound_of_a_covering_problem_by_enumeration(seed):
    """Gains, needs and sizes of all sets: no set below the bound covers, and the set that is
    returned covers.
    """
    rng = np.random.default_rng(seed)
    gain = rng.random((3, 9)) * rng.integers(0, 2, (3, 9))
    need = 0.6 * gain.sum(axis=1)
    players, lower = Covering(gain, need, np.zeros(3)).solved()
    masks = enumeration.coalitions(9)
    covers = (masks @ gain.T > need).all(axis=1)
    assert (gain[:, players].sum(axis=1) > need).all()
    assert lower <= masks[covers].sum(axis=1).min() <= players.sum()
    # With an error that could hide every need, the bound says nothing.
    assert Covering(gain, need, need).solved()[1] == 1


def test_one_game_is_the_single_case():
    game = Classes(3, 20).margins()[0]
    joint = sufficient_reason_of_all([game])
    single = sufficient_reason(game)
    assert joint.size == single.size and joint.minimal and joint.rival == 0


@pytest.mark.usual_errors
def test_the_covering_problem_agrees_with_the_proofs():
    """The sum over R of the gains exceeds the need if and only if the head's minimum is above the
    threshold.
    """
    for seed in range(20):
        (game,) = Classes(seed, 9, C=2).margins()
        search = SufficientSearch.of(game, 0.0)
        covering = Covering.of([search])
        for mask in enumeration.coalitions(9)[::7]:
            surplus = covering.gain[0, mask].sum() - covering.need[0]
            assert (surplus > 0) == search.suffices(mask)


def test_arguments():
    over_first, over_second = Classes(0, 6, C=3).margins()
    with pytest.raises(ValueError, match="games"):
        sufficient_reason_of_all([])
    with pytest.raises(ValueError, match="games"):
        sufficient_reason_of_all([over_first, *Classes(0, 7, C=2).margins()])
    with pytest.raises(ValueError, match="games"):
        sufficient_reason_of_all([over_first, replace(over_second, v=-over_second.v, bias=-9.0)])
    with pytest.raises(UndecidedError, match="threshold"):
        sufficient_reason_of_all([over_first], float(over_first.value([True] * 6)))
