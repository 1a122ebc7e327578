"""How the optimum is chosen: options, the search for a penalty, held-out samples, values that can
be believed.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from attn_closed_form import Slalom
from attn_closed_form.slalom import optimum as module
from attn_closed_form.slalom.design import any_size
from attn_closed_form.slalom.least_squares import Problem, Stop
from attn_closed_form.slalom.optimum import FIT_PENALTIES, ROUGH, Optimum, Trial


def silent(*_):
    pass


def rough(seed=0, n=200, V=6, noise=0.3):
    """A problem that is no SLALOM."""
    rng = np.random.default_rng(seed)
    problem = Problem(any_size(V, n, rng).astype(float), np.zeros((n, 1)), np.full(n, 1 / n))
    f = problem.alpha(rng.normal(size=V)) @ rng.normal(size=(V, 1)) + noise * rng.normal(
        size=(n, 1)
    )
    return replace(problem, f=f)


def scripted(monkeypatch, errors, plain=None):
    """The search with given held-out errors by penalty; returns the penalties in the order in which
    they were tried.
    """
    tried = []

    def fake(self, family, penalty, s, used, held):
        tried.append((penalty, family.background, float(s[0])))
        if not family.background and plain is not None:
            error = plain
        else:
            error = errors[penalty]
        # The start of the next fit is recognized by its first importance; squares differ by a
        # constant: no doubt.
        return Trial(
            penalty,
            np.full(family.counts.shape[1], penalty),
            np.full(held.size, error),
            np.full(held.size, 1.0),
        )

    monkeypatch.setattr(Optimum, "try_penalty", fake)
    return tried


def chosen(optimum, families, seed=0):
    best, s = optimum.choose(families, silent, np.random.default_rng(seed))
    return best.penalty, best.background, float(s[0])


def both_families(problem):
    return [problem, problem.with_background()]


def test_weaker_penalties_are_tried_while_they_help(monkeypatch):
    tried = scripted(monkeypatch, {1e-5: 4.0, 1e-6: 3.0, 1e-7: 2.0, 1e-8: 2.5, 1e-4: 1.0})
    assert chosen(Optimum(background=True), both_families(rough())[1:]) == (1e-7, True, 1e-7)
    # Each starts where the one before ended, and stronger ones are left alone.
    assert tried == [(1e-5, True, 0.0), (1e-6, True, 1e-5), (1e-7, True, 1e-6), (1e-8, True, 1e-7)]


def test_stronger_penalties_are_tried_if_weaker_ones_do_not_help(monkeypatch):
    tried = scripted(monkeypatch, {1e-5: 4.0, 1e-6: 4.0, 1e-4: 3.0, 1e-3: 2.0, 1e-2: 1.0})
    assert chosen(Optimum(background=True), both_families(rough())[1:])[0] == 1e-2
    assert [penalty for penalty, _, _ in tried] == [1e-5, 1e-6, 1e-4, 1e-3, 1e-2]
    assert tried[2][2] == 1e-5  # from the first, not from the weaker one


def test_the_first_penalty_stays_if_no_other_is_better(monkeypatch):
    tried = scripted(monkeypatch, {1e-5: 4.0, 1e-6: 5.0, 1e-4: 5.0})
    assert chosen(Optimum(background=True), both_families(rough())[1:]) == (1e-5, True, 1e-5)
    assert len(tried) == 3


def test_no_penalty_is_chosen_whose_values_cannot_be_believed(monkeypatch):
    problem = both_families(rough())[1]
    monkeypatch.setattr(module, "FARTHEST", 1e-3)
    trials = Optimum().search(problem, np.arange(150), np.arange(150, 200), silent)
    # Both sides were tried, and their values are too large.
    assert [trial.penalty for trial in trials] == [FIT_PENALTIES.first]
    assert (
        not Optimum()
        .try_penalty(problem, 1e-6, problem.start(), np.arange(150), np.arange(150, 200))
        .believable
    )
    monkeypatch.setattr(module, "FARTHEST", 1e6)
    assert len(Optimum().search(problem, np.arange(150), np.arange(150, 200), silent)) > 1


def test_the_background_must_earn_its_place(monkeypatch):
    errors = {1e-5: 4.0, 1e-6: 5.0, 1e-4: 5.0}
    for plain, background in ((4.0, False), (4.07, False), (4.09, True), (9.0, True)):
        tried = scripted(monkeypatch, errors, plain)
        assert chosen(Optimum(), both_families(rough()))[1] is background
        assert tried[-1][:2] == (1e-5, False)


def test_a_background_that_helps_only_where_the_weights_are_small_is_kept():
    first = np.r_[np.ones(50), np.full(50, 4.0)]
    weight = np.r_[np.full(50, 0.0199), np.full(50, 0.0001)]
    heavy, plain = (
        Trial(1e-5, np.zeros(1), first * k, weight)
        for k in (np.ones(100), np.r_[np.ones(50), [2.0] * 50])
    )
    np.testing.assert_allclose(heavy.errors, [weight @ first, 2.5])
    assert (plain.errors <= 1.02 * heavy.errors).tolist() == [True, False]


def test_better_by_more_than_two_standard_errors():
    rng = np.random.default_rng(0)
    weight = rng.random(400) / 200
    gain = rng.normal(size=400)
    gain -= (weight * gain).sum() / weight.sum()
    error = np.sqrt(400) * (weight * gain).std()
    base = Trial(1e-5, np.zeros(1), np.full(400, 5.0), weight)
    for factor, sure in ((1.9, False), (2.1, True), (-2.1, False)):
        shifted = gain + factor * error / weight.sum()
        # The shift changes the spread a little; the limit is computed from the gains themselves.
        own = weight * shifted
        expected = own.sum() > 2 * np.sqrt(400) * own.std()
        other = base._replace(squares=base.squares - shifted)
        assert other.surely_better_than(base) == expected == sure
    assert not base.surely_better_than(base)


def test_a_stretch_of_the_samples_is_held_out(monkeypatch):
    seen = []
    keep = Optimum.try_penalty

    def spy(self, family, penalty, s, used, held):
        seen.append((np.sort(used), held))
        return keep(self, family, penalty, s, used, held)

    monkeypatch.setattr(Optimum, "try_penalty", spy)
    for seed in range(3):
        Optimum(background=False).solve(rough(seed, n=55), silent, np.random.default_rng(seed))
    starts = {int(held[0]) for _, held in seen}
    assert len(starts) > 1  # the seed decides where
    for used, held in seen:
        assert held.tolist() == [(held[0] + i) % 55 for i in range(11)]
        assert np.sort(np.r_[used, held]).tolist() == list(range(55))
    seen.clear()
    monkeypatch.setattr(module, "COMPARED", 20)
    Optimum(background=False).solve(rough(n=55), silent, np.random.default_rng(0))
    assert all(used.size == np.unique(used).size == 20 for used, _ in seen)


def test_a_trial_is_measured_on_the_samples_that_it_has_not_seen():
    problem = rough(n=80)
    used = np.arange(60)
    held = np.arange(60, 80)
    trial = Optimum().try_penalty(problem, 1e-3, problem.start(), used, held)
    found = module.descend(
        replace(problem.take(used), penalty=1e-3),
        problem.start(),
        30.0,
        ROUGH,
        silent,
    )
    test = problem.take(held)
    np.testing.assert_allclose(trial.squares, test.residuals(found.s, found.v)[:, 0] ** 2)
    np.testing.assert_allclose(trial.weight, 1 / 20)
    assert trial.penalty == 1e-3 and (trial.s == found.s).all()


def test_the_penalty_is_raised_until_values_can_be_believed(monkeypatch):
    problem = rough(1, n=100, V=10, noise=1.0)
    limit = module.FARTHEST * np.ptp(problem.f)

    def furthest(found):
        return np.abs(found.v - problem.center).max()

    free = Optimum(penalty=1e-9, background=False).solve(problem, silent, np.random.default_rng(0))
    assert free.problem.penalty == 1e-9
    monkeypatch.setattr(
        Optimum, "choose", lambda self, families, *_: (replace(problem, penalty=1e-9), free.s)
    )
    tight = 0.6 * furthest(free) / np.ptp(problem.f)
    monkeypatch.setattr(module, "FARTHEST", tight)
    found = Optimum(background=False).solve(problem, silent, np.random.default_rng(0))
    assert furthest(found) <= tight * np.ptp(problem.f) < furthest(free)
    steps = np.log10(found.problem.penalty / 1e-9)
    # By factors of ten, and no further than needed.
    assert steps >= 1 and steps == pytest.approx(round(steps))
    before = module.descend(
        replace(problem, penalty=found.problem.penalty / 10), free.s, 30.0, Stop(200, 1e-6), silent
    )
    assert furthest(before) > tight * np.ptp(problem.f)
    monkeypatch.setattr(module, "FARTHEST", 0.0)  # which no penalty reaches: it ends all the same
    found = Optimum(background=False).solve(problem, silent, np.random.default_rng(0))
    assert found.problem.penalty == pytest.approx(1.0)
    assert limit > 0


def test_a_given_penalty_is_kept_and_one_sample_is_enough():
    problem = rough()
    for background in (False, True, None):
        found = Optimum(penalty=0.01, background=background).solve(
            problem, silent, np.random.default_rng(0)
        )
        assert found.problem.penalty == 0.01 and found.undetermined().shape == (6,)
        assert background is None or found.problem.background is background
    one = problem.take(np.array([3]))
    best, start = Optimum().choose([one], silent, np.random.default_rng(0))
    assert best.penalty == FIT_PENALTIES.first and (start == 0).all()
    best, _ = Optimum(penalty=0.5).choose([one], silent, np.random.default_rng(0))
    assert best.penalty == 0.5


def test_an_exact_slalom_wider_than_the_spread_is_not_returned_as_it_is():
    truth = Slalom(np.arange(5), [3.0, 0.0, -3.0, 1.0, -1.0], [1.0, -1.0, 2.0, 0.0, 0.5])
    masks = any_size(5, 60, np.random.default_rng(0))
    f = truth.predict_many([np.flatnonzero(row) for row in masks])[:, None]
    problem = Problem(masks.astype(float), f, np.full(60, 1 / 60))
    wide, narrow = (
        Optimum(max_spread=m).solve(problem, silent, np.random.default_rng(0)) for m in (6.1, 5.9)
    )
    assert wide.problem.penalty == 0 and np.ptp(wide.s[:5]) == pytest.approx(6.0)
    assert not wide.problem.background
    assert narrow.mse > 1e-10 and np.ptp(narrow.s[:5]) <= 5.9 + 1e-9


def test_progress_of_the_search():
    seen = []
    Optimum().solve(rough(), lambda *report: seen.append(report), np.random.default_rng(0))
    total = 1 + len(FIT_PENALTIES.weaker) + len(FIT_PENALTIES.stronger)
    penalties = [report for report in seen if report[0] == "penalty"]
    assert penalties[0][1] == 1 and all(
        0 <= b[1] - a[1] <= 1 for a, b in itertools.pairwise(penalties)
    )
    assert {most for _, _, most in penalties} == {total}


@pytest.mark.parametrize("penalty", [True, -1e-9, np.inf, np.nan])
def test_impossible_penalties(penalty):
    with pytest.raises(ValueError, match="penalty"):
        Optimum(penalty=penalty)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Optimum(background="yes"), "^background: "),
        (lambda: Optimum(max_spread=0), "^max_spread: "),
        (lambda: Optimum(max_iter=-1), "^max_iter: "),
        (lambda: Optimum(tol=0.0), "^tol: "),
        (lambda: Optimum(tol="1"), "^tol: "),
        (lambda: Optimum(max_spread=True), "^max_spread: "),
    ],
)
def test_impossible_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numbers_of_numpy_are_options_too():
    assert Optimum(penalty=0, max_spread=np.float32(2), max_iter=np.int64(3)).penalty == 0


def test_the_cost_is_that_of_the_module_head():
    """MSE + penalty / V (sum |v - mean f|^2 + Var(f) sum (s - mean s)^2), with the background in v
    alone.
    """
    problem = replace(rough(3, n=40, V=5), penalty=0.7).with_background()
    rng = np.random.default_rng(1)
    s = rng.normal(size=6)
    v = rng.normal(size=(6, 1))
    r = problem.residuals(s, v)
    mean = problem.weight @ problem.f
    variance = problem.weight @ (problem.f - mean) ** 2
    deviations = ((v - mean) ** 2).sum() + variance[0] * ((s[:5] - s[:5].mean()) ** 2).sum()
    expected = problem.weight @ (r[:, 0] ** 2) + 0.7 / 5 * deviations
    assert problem.cost(s, v, r) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("best", "penalty"), [(2.2, 1e-5), (1.8, 1e-6)])
def test_an_unsure_improvement_must_halve_the_error(monkeypatch, best, penalty):
    """The squares of the better fit vary so much that it is not surely better than the first one,
    with 4.
    """

    def fake(self, family, tried, s, used, held):
        error = {1e-5: 4.0, 1e-6: best}.get(tried, 5.0)
        squares = np.full(held.size, error)
        if tried == 1e-6:
            squares[0] = best * held.size - 1e-3 * (held.size - 1)
            squares[1:] = 1e-3
            squares[0] += 0.0
        else:
            squares[0] = error * held.size - 1e-3 * (held.size - 1)
            squares[1:] = 1e-3
        weight = np.full(held.size, 1 / held.size)
        return Trial(tried, np.full(family.counts.shape[1], tried), squares, weight)

    monkeypatch.setattr(Optimum, "try_penalty", fake)
    assert chosen(Optimum(background=True), both_families(rough())[1:])[0] == penalty
