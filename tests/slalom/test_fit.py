"""SLALOM-eff and SLALOM-fidel: samples, solvers, and what a user may ask for."""

import dataclasses
import io
import subprocess
import sys
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares

from attn_closed_form import Slalom, SlalomWarning, fit_slalom, load_demo_model
from attn_closed_form.attention import predict_many, random_weights
from attn_closed_form.slalom import Deletions, Optimum, ShortSequences, fit_slalom_classes
from attn_closed_form.slalom.design import any_size, counts, deletions, short_sequences
from attn_closed_form.slalom.least_squares import Problem, linear_start
from tests.oracles import checks
from tests.profiles import at_least, mostly_slow

EXACT = 1e-6  # the bar of a fit to a model that is a SLALOM
TEXT = (
    "I went in expecting very little and came out pleasantly surprised. The plot is thin, and the "
    "first twenty minutes drag, but the two leads are wonderful together."
)
eff, fidel = (partial(fit_slalom, kind=kind) for kind in ("eff", "fidel"))
FITS = [pytest.param(eff, id="eff"), pytest.param(fidel, id="fidel")]
LEAST_SQUARES = Optimum(penalty=0, background=False)  # P2's problem, nothing added


def toy(seed, V, C=None):
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(1000, size=V, replace=False))
    return Slalom(ids, rng.normal(size=V), rng.normal(size=V if C is None else (V, C)))


class Counted:
    def __init__(self, f):
        self.f = f
        self.sequences = []

    def __call__(self, sequences):
        self.sequences += [tuple(map(int, s)) for s in sequences]
        return self.f(sequences)


def attention_model(seed=0, C=1, K=3):
    """A black box that is no SLALOM: several heads, positions, padding."""
    weights = random_weights(seed=seed, D=60, T_max=24, K=K, C=C, score_scale=2.0)
    return lambda sequences: (
        predict_many(weights, sequences)[:, 0] if C == 1 else predict_many(weights, sequences)
    )


def errors(fit, truth):
    return np.abs(fit.slalom.s - truth.s).max(), np.abs(fit.slalom.v - truth.v).max()


# --- a model that is a SLALOM


@pytest.mark.parametrize("fit", FITS)
@at_least(30)
@given(
    seed=st.integers(0, 10**6),
    V=st.integers(1, 15),
    C=st.sampled_from([None, 2, 3]),
    repeats=st.integers(0, 6),
)
def test_a_slalom_is_found(fit, seed, V, C, repeats):
    truth = toy(seed, V, C)
    rng = np.random.default_rng(seed)
    document = rng.permutation(np.r_[truth.ids, rng.choice(truth.ids, size=repeats)])
    found = fit(truth.predict_many, document, num_samples=600, seed=seed)
    assert max(errors(found, truth)) < EXACT
    assert found.mse < 1e-20 and found.converged
    assert found.slalom.v.ndim == truth.v.ndim


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("V", mostly_slow([8, 200], 1))
def test_the_bar_of_the_benchmark_500_samples(fit, V):
    truth = toy(V, V)
    f = Counted(truth.predict_many)
    found = fit(f, truth.ids, num_samples=500)
    assert found.model_calls == len(f.sequences) == len(set(f.sequences)) <= 500
    assert found.num_samples <= 500
    assert max(errors(found, truth)) < EXACT


@pytest.mark.parametrize("fit", FITS)
def test_scores_of_very_different_sizes(fit):
    truth = Slalom(
        np.arange(6), [9.0, -6.0, 3.0, 0.0, -4.0, -2.0], [1.0, -30.0, 0.01, 5.0, 2.0, -1.0]
    )
    assert max(errors(fit(truth.predict_many, truth.ids), truth)) < EXACT


@pytest.mark.parametrize("fit", FITS)
def test_a_constant_model_has_equal_values_and_importances(fit):
    found = fit(lambda sequences: np.full(len(sequences), 2.5), [4, 7, 9, 11])
    np.testing.assert_allclose(found.slalom.v, 2.5, atol=1e-9)
    assert np.isfinite(found.slalom.s).all() and found.mse < 1e-20


@pytest.mark.parametrize("fit", FITS)
def test_one_token_and_one_repeated_word(fit):
    for document in ([5], [5, 5, 5]):
        found = fit(lambda sequences: np.full(len(sequences), -1.5), document)
        assert found.slalom.s.tolist() == [0.0] and found.slalom.v[0] == pytest.approx(
            -1.5, abs=1e-12
        )


# --- a model that is not


@checks(fit_slalom, by="another package")
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("C", [1, 3])
def test_nothing_better_is_near(fit, C):
    """At the end the gradient of the MSE vanishes, and scipy's least squares, started there, finds
    nothing better.
    """
    f = attention_model(C=C)
    box = Counted(f)
    document = np.array([5, 9, 14, 21, 30, 9])
    own = {} if fit is eff else {"kind": Deletions(any_size=0)}
    solver = Optimum(penalty=0, background=False, max_spread=60, tol=1e-10)
    found = fit(box, document, num_samples=400, seed=3, gamma=1.0, solver=solver, **own)
    assert found.slalom.s.sum() == pytest.approx(1.0)
    # The samples are weighted as they were drawn; eff draws no pair twice, fidel's weights are
    # found again here.
    if fit is eff:
        counts = np.ones(len(box.sequences))
    else:
        keep = deletions(6, 360, 5, "balanced", np.random.default_rng(3))
        drawn = [tuple(document[row].tolist()) for row in keep]
        counts = np.array([drawn.count(s) for s in box.sequences], dtype=float)
    ids = found.slalom.ids
    V = found.slalom.V
    target = np.asarray(f([np.array(s) for s in box.sequences])).reshape(len(counts), -1)
    weight = np.sqrt(counts / counts.sum())[:, None]

    def residuals(x):
        slalom = Slalom(ids, x[:V], x[V:].reshape(V, C))
        return (weight * (target - slalom.predict_many(box.sequences))).ravel()

    x = np.r_[found.slalom.s, found.slalom.v.ravel()]
    assert found.mse == pytest.approx((residuals(x) ** 2).sum(), rel=1e-9)
    assert found.mse > 1e-8  # the model is no SLALOM
    better = least_squares(residuals, x, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=200)
    assert found.mse <= 2 * better.cost * (1 + 1e-6)
    start = least_squares(residuals, np.zeros(V * (C + 1)), max_nfev=200)
    assert found.mse <= 2 * start.cost * (1 + 1e-6)


@pytest.mark.parametrize("fit", FITS)
def test_single_precision_does_not_hide_a_slalom_of_wide_spread(fit):
    truth = Slalom(
        np.arange(6), [8.0, -4.0, 3.0, 0.0, -4.5, -2.5], [1.0, -3.0, 0.5, 5.0, 2.0, -1.0]
    )
    found = fit(lambda sequences: truth.predict_many(sequences).astype(np.float32), truth.ids)
    assert np.ptp(truth.s) > 12 and max(errors(found, truth)) < 0.05


@pytest.mark.parametrize("max_spread", [1.0, 3.0])
def test_importances_stay_within_the_spread_at_a_bounded_optimum(max_spread):
    box = Counted(attention_model())
    document = np.array([5, 9, 14, 21, 30, 9])
    bounded = Optimum(penalty=0, background=False, max_spread=max_spread, tol=1e-10)
    found = fidel(box, document, kind=Deletions(any_size=0), num_samples=444, solver=bounded)
    assert np.ptp(found.slalom.s) <= max_spread * (1 + 1e-9)
    wider = fidel(
        box,
        document,
        num_samples=444,
        kind=Deletions(any_size=0),
        solver=dataclasses.replace(bounded, max_spread=2 * max_spread),
    )
    assert wider.mse <= found.mse * (1 + 1e-9)
    # No single importance can move within the spread and make it better, with the best values for
    # it.
    keep = deletions(6, 400, 5, "balanced", np.random.default_rng(0))
    table = (
        np.stack([(document[:, None] == found.slalom.ids)[row].sum(axis=0) for row in keep]) * 1.0
    )
    f = np.array(box([document[row] for row in keep]))[:, None]
    weight = np.full(400, 1 / 400)

    problem = Problem(table, f, weight)

    def mse(s):
        return problem.mse(problem.values(s)[1])

    assert mse(found.slalom.s) == pytest.approx(found.mse, rel=1e-6)
    for j in range(found.slalom.V):
        for move in (-0.05, 0.05):
            s = found.slalom.s + move * (np.arange(found.slalom.V) == j)
            if np.ptp(s) <= max_spread:
                assert mse(s) >= found.mse * (1 - 1e-7)


@pytest.mark.parametrize("fit", FITS)
def test_the_spread_bounds_a_fit_to_a_slalom_as_well(fit):
    truth = Slalom(
        np.arange(6), [5.0, -4.0, 3.0, 0.0, -2.0, -2.0], [1.0, -3.0, 0.5, 5.0, 2.0, -1.0]
    )
    assert np.ptp(fit(truth.predict_many, truth.ids).slalom.s) == pytest.approx(9.0, abs=EXACT)
    found = fit(truth.predict_many, truth.ids, solver=Optimum(max_spread=1))
    assert np.ptp(found.slalom.s) <= 1 + 1e-9
    assert found.mse > 1e-3


# --- background, penalty, fixed importances, classes


def with_background(seed, V, C=None):
    rng = np.random.default_rng(seed)
    plain = toy(seed, V, C)
    return dataclasses.replace(
        plain, s_background=1.5, v_background=rng.normal(size=() if C is None else C)
    )


@pytest.mark.parametrize("C", [None, 3])
def test_a_background_is_found_exactly(C):
    truth = with_background(3, 9, C)
    document = np.r_[truth.ids, truth.ids[:3]]
    found = fidel(truth.predict_many, document, num_samples=800)
    assert max(errors(found, truth)) < EXACT
    assert found.slalom.s_background == pytest.approx(truth.s_background, abs=EXACT)
    np.testing.assert_allclose(found.slalom.v_background, truth.v_background, atol=EXACT)
    assert found.penalty == 0 and found.undetermined == ()
    assert found.fresh_mse < 1e-15 and found.fresh_mse_any_size < 1e-15


def test_no_background_is_found_where_there_is_none():
    truth = toy(5, 9)
    assert fidel(truth.predict_many, truth.ids).slalom.s_background == -np.inf


@pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")
def test_a_background_that_helps_is_kept_and_one_that_is_refused_is_not():
    f = attention_model()
    document = np.arange(5, 17)
    free = fidel(f, document, num_samples=600)
    refused = fidel(f, document, num_samples=600, solver=Optimum(background=False))
    assert free.slalom.s_background > -np.inf and refused.slalom.s_background == -np.inf
    assert free.fresh_mse < refused.fresh_mse


@pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")
def test_values_are_believable_where_least_squares_are_not():
    """Few deletions hardly show the mass of a token, only mass times value."""
    model = load_demo_model()
    document = model.vocabulary.encode(TEXT)

    def f(sequences):
        return predict_many(model.weights, sequences)[:, 0]

    alone = fidel(f, document, kind=Deletions(any_size=0), num_samples=400, solver=LEAST_SQUARES)
    found = fidel(f, document, num_samples=800)
    spread = np.ptp(
        f([document[row] for row in any_size(document.size, 300, np.random.default_rng(1))])
    )
    assert np.abs(alone.slalom.v).max() > 100 * spread
    assert np.abs(found.slalom.v).max() < 10 * spread
    assert found.fresh_mse < 0.05 and found.fresh_mse_any_size < 2


def test_what_the_samples_do_not_determine_is_said():
    """Deleting one or two tokens shows their effect, not how it is made of importance and value."""
    f = attention_model()
    document = np.arange(5, 15)
    with pytest.warns(SlalomWarning, match=r"do not determine the importance of \d+ of 10 tokens"):
        found = fidel(
            f, document, kind=Deletions(2, any_size=0), num_samples=300, solver=Optimum(penalty=1.0)
        )
    assert found.undetermined and set(found.undetermined) <= set(document.tolist())


def test_the_error_on_fresh_samples_is_what_it_says():
    f = attention_model(seed=2)
    document = np.arange(5, 19)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)
        found = fidel(f, document, kind=Deletions(any_size=0.5), num_samples=3000)
    rng = np.random.default_rng(99)
    for reported, keep in (
        (found.fresh_mse, deletions(14, 4000, 5, "uniform", rng)),
        (found.fresh_mse_any_size, any_size(14, 4000, rng)),
    ):
        left = [document[row] for row in keep]
        squares = (f(left) - found.slalom.predict_many(left)) ** 2
        # 150 fresh samples: five standard errors of their mean.
        assert abs(reported - squares.mean()) < 5 * squares.std() / np.sqrt(150)
    assert np.isnan(eff(toy(0, 3).predict_many, toy(0, 3).ids, num_samples=9).fresh_mse)


def test_errors_of_several_classes_are_summed_as_in_the_fit():
    """Three classes that are copies of one: three times its squared error, whether fitted or
    fresh.
    """
    f = attention_model(seed=2)
    document = np.arange(5, 17)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)
        one = fidel(f, document, num_samples=600)
        three = fidel(
            lambda sequences: np.repeat(f(sequences)[:, None], 3, axis=1), document, num_samples=600
        )
    for name in ("mse", "fresh_mse", "fresh_mse_any_size"):
        assert getattr(three, name) == pytest.approx(3 * getattr(one, name), rel=0.05), name


@pytest.mark.parametrize("fit", FITS)
def test_fixed_importances_stay_and_values_are_the_best(fit):
    truth = toy(8, 6)
    fixed = dict(zip(truth.ids.tolist(), truth.s.tolist(), strict=True))
    found = fit(
        truth.predict_many,
        truth.ids,
        importances=fixed,
        solver=Optimum(penalty=0, background=False),
    )
    assert max(errors(found, truth)) < EXACT
    flat = fit(
        truth.predict_many,
        truth.ids,
        importances=dict.fromkeys(fixed, 0.0),
        solver=Optimum(penalty=0),
    )
    np.testing.assert_allclose(flat.slalom.s, 0, atol=1e-12)
    assert flat.mse > 1e-4


@pytest.mark.parametrize("kind", ["eff", "fidel"])
def test_classes_with_importances_of_their_own(kind):
    truths = [toy(20 + c, 5) for c in range(3)]
    truths = [dataclasses.replace(truth, ids=np.arange(5)) for truth in truths]
    box = Counted(
        lambda sequences: np.stack([truth.predict_many(sequences) for truth in truths], axis=1)
    )
    found = fit_slalom_classes(box, np.arange(5), kind=kind, num_samples=300)
    assert len(found) == 3 and len(box.sequences) == len(set(box.sequences))
    assert max(max(errors(one, truth)) for one, truth in zip(found, truths, strict=True)) < EXACT
    shared = fit_slalom(box, np.arange(5), kind, 300)
    assert shared.mse > 1e-3
    with pytest.raises(ValueError, match="f: expected outputs of several classes"):
        fit_slalom_classes(toy(0, 3).predict_many, toy(0, 3).ids, kind=kind)


def test_the_black_box_gets_no_more_sequences_at_a_time_than_it_wants():
    truth = toy(1, 6)
    sizes = []

    def f(sequences):
        sizes.append(len(sequences))
        return truth.predict_many(sequences)

    fidel(f, truth.ids, num_samples=100, batch_size=7)
    assert max(sizes) == 7


@pytest.mark.parametrize("fit", FITS)
def test_masks_of_the_black_box_are_not_dropped(fit):
    with pytest.raises(ValueError, match="f"):
        fit(lambda sequences: np.ma.masked_array(np.ones(len(sequences)), mask=True), [1, 2, 3])


# --- samples


def test_subsets_of_any_size_have_all_sizes_alike():
    sizes = any_size(12, 1100, np.random.default_rng(0)).sum(axis=1)
    assert np.bincount(sizes).tolist() == [0, *[100] * 11]
    assert any_size(1, 3, np.random.default_rng(0)).all()
    assert any_size(5, 0, np.random.default_rng(0)).shape == (0, 5)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_balanced_short_sequences_are_the_whole_population_without_repeats(length):
    V = 5
    everything = short_sequences(V, 10**6, length, "balanced", np.random.default_rng(0))
    assert len(everything) == len(np.unique(everything, axis=0)) == V**length
    some = short_sequences(V, 2 * V, length, "balanced", np.random.default_rng(0))[: V**length]
    assert (some[:V] == some[:V, :1]).all()  # each token alone first
    for place in some.T:
        assert np.ptp(np.bincount(place, minlength=V)) == 0


def test_balanced_short_sequences_of_a_huge_population():
    some = short_sequences(300, 1000, 4, "balanced", np.random.default_rng(0))
    assert some.shape == (1000, 4) and len(np.unique(some, axis=0)) == 1000


def test_uniform_short_sequences_are_uniform():
    drawn = short_sequences(4, 16000, 2, "uniform", np.random.default_rng(0))
    counts = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16)
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)  # five standard errors


@pytest.mark.parametrize("design", ["balanced", "uniform"])
def test_deletions_have_sizes_up_to_five_alike(design):
    keep = deletions(30, 6000, 5, design, np.random.default_rng(0))
    sizes = np.bincount((~keep).sum(axis=1), minlength=6)
    each = (~keep).sum(axis=0)
    if design == "uniform":
        assert sizes.size == 6 and np.abs(sizes - 1000).max() < 5 * np.sqrt(1000)
        assert np.abs(each - 500).max() < 5 * np.sqrt(500)
    else:  # the whole document once, all other sizes alike
        assert sizes.tolist() == [1, 1200, 1200, 1200, 1200, 1199]
        assert np.abs(each - 600).max() < 12


def test_balanced_deletions_treat_every_position_alike_from_the_start():
    keep = deletions(20, 1 + 20 + 10 + 7 + 5 + 4, 5, "balanced", np.random.default_rng(0))
    assert keep[0].all() and ((~keep[1:21]).sum(axis=0) == 1).all()
    assert (~keep).sum(axis=0).min() == 5


@pytest.mark.parametrize("design", ["balanced", "uniform"])
@pytest.mark.parametrize("T", [1, 2, 3])
def test_some_token_always_stays(design, T):
    keep = deletions(T, 50, 5, design, np.random.default_rng(0))
    assert keep.shape == (50, T) and keep.any(axis=1).all()


@pytest.mark.parametrize("options", [ShortSequences, Deletions])
@pytest.mark.parametrize("design", ["balanced", "uniform"])
@pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")
def test_the_seed_decides_and_a_generator_is_taken(options, design):
    f = attention_model()
    document = [5, 9, 14, 21, 30, 41]
    runs = [
        fit_slalom(f, document, options(design=design), num_samples=30, seed=s)
        for s in (1, 1, 2, np.random.default_rng(1))
    ]
    assert (runs[0].slalom.s == runs[1].slalom.s).all() and (
        runs[0].slalom.v == runs[3].slalom.v
    ).all()
    assert not np.allclose(runs[0].slalom.v, runs[2].slalom.v, rtol=1e-3)
    assert runs[0].num_samples == 30


def test_eff_asks_for_pairs_and_fidel_for_deletions_in_order():
    document = [9, 5, 14, 9, 30, 21, 7]
    box = Counted(attention_model())
    eff(box, document, num_samples=20)
    assert all(len(s) == 2 and set(s) <= set(document) for s in box.sequences)
    box = Counted(attention_model())
    fidel(box, document, kind=Deletions(any_size=0), num_samples=200)
    for s in box.sequences:
        rest = iter(document)
        assert 2 <= len(s) <= 7 and all(any(t == d for d in rest) for t in s)  # a subsequence


# --- solvers


def test_counts_of_sequences_of_different_lengths():
    table = counts(
        np.array([2, 5, 9]), [np.array([5, 5, 2]), np.array([9]), np.array([9, 2, 9, 9])]
    )
    assert table.tolist() == [[1.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 3.0]]


def test_the_start_alone_finds_an_exact_slalom():
    truth = toy(3, 9)
    index = short_sequences(9, 40, 2, "balanced", np.random.default_rng(0))
    f = truth.predict_many(list(truth.ids[index]))[:, None]
    problem = Problem(counts(np.arange(9), list(index)), f, np.full(40, 1 / 40))
    np.testing.assert_allclose(linear_start(problem), truth.s, atol=1e-9)


@pytest.mark.usual_errors
def test_samples_whose_masses_underflow():
    problem = Problem(
        np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]]), np.zeros((2, 1)), np.full(2, 0.5)
    )
    alpha = problem.alpha(np.array([0.0, -2000.0, -2000.0]))
    np.testing.assert_allclose(alpha, [[1, 0, 0], [0, 1 / 3, 2 / 3]], atol=1e-15)


# --- at the door


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"solver": "adam"}, ValueError, "^solver: "),
        ({"num_samples": 0}, ValueError, "^num_samples: "),
        (
            {"num_samples": 2.5},
            ValueError,
            "^num_samples: ",
        ),
        ({"solver": Optimum}, ValueError, "^solver: "),
        ({"epochs": 3}, TypeError, "unexpected keyword argument 'epochs'"),
        ({"batch_size": 0}, ValueError, "^batch_size: "),
        ({"importances": [0.0, 1.0, 2.0]}, TypeError, "^importances: "),
        (
            {"importances": {5: 0.0}},
            ValueError,
            "^importances: ",
        ),
        ({"gamma": np.nan}, ValueError, "^gamma: "),
    ],
)
def test_unknown_and_impossible_options_are_errors(fit, options, error, message):
    with pytest.raises(error, match=message):
        fit(attention_model(), [5, 9, 14], **options)


@pytest.mark.parametrize("fit", FITS)
def test_bad_documents_and_black_boxes_are_errors(fit):
    with pytest.raises(ValueError, match=r"^tokens: "):
        fit(attention_model(), [])
    with pytest.raises(ValueError, match="tokens"):
        fit(attention_model(), [1.5])
    with pytest.raises(ValueError, match=r"^tokens: "):
        fit(attention_model(), ["good", "film"])
    with pytest.raises(ValueError, match="f"):
        fit(lambda sequences: np.full(len(sequences), np.nan), [5, 9])
    with pytest.raises(ValueError, match="f"):
        fit(lambda sequences: 1.0, [5, 9])


def test_options_belong_to_one_kind():
    with pytest.raises(TypeError, match="length"):
        Deletions(length=3)
    with pytest.raises(TypeError, match="any_size"):
        ShortSequences(any_size=0.1)
    for kind in ("exact", None, 2):
        with pytest.raises(ValueError, match="kind"):
            fit_slalom(attention_model(), [5, 9, 14], kind=kind)


def test_the_names_of_the_kinds_are_their_defaults():
    f = attention_model()
    for name, samples in (("eff", ShortSequences()), ("fidel", Deletions())):
        by_name = fit_slalom(f, [5, 9, 14, 21], kind=name, num_samples=200)
        by_options = fit_slalom(f, [5, 9, 14, 21], kind=samples, num_samples=200)
        assert (by_name.slalom.v == by_options.slalom.v).all()


@pytest.mark.parametrize("samples", [{"length": 0}, {"length": 1.5}, {"design": "sobol"}])
def test_impossible_short_sequences_are_errors(samples):
    with pytest.raises(ValueError, match=next(iter(samples))):
        ShortSequences(**samples)


@pytest.mark.parametrize(
    "samples", [{"max_deletions": 0}, {"any_size": 1.5}, {"any_size": np.nan}, {"design": "sobol"}]
)
def test_impossible_deletions_are_errors(samples):
    with pytest.raises(ValueError, match=next(iter(samples))):
        Deletions(**samples)


def test_the_verdict_follows_the_held_out_variance():
    """An exact SLALOM, noise that no SLALOM can follow, and something between."""
    truth = toy(0, 6)
    noise = np.random.default_rng(0)

    def noisy(share):
        def f(sequences):
            outputs = truth.predict_many(sequences)
            return outputs + share * noise.normal(scale=0.3, size=len(sequences))

        return f

    exact = fidel(truth.predict_many, truth.ids, num_samples=500)
    assert exact.verdict == "good" and exact.explained == pytest.approx(1.0)
    assert exact.fresh_variance_any_size > exact.fresh_variance > 0
    hopeless = fidel(noisy(10.0), truth.ids, num_samples=500)
    assert hopeless.verdict == "poor" and hopeless.explained < 0.5
    assert hopeless.explained == max(0.0, 1 - hopeless.fresh_mse / hopeless.fresh_variance)
    assert exact._replace(fresh_mse=0.4 * exact.fresh_variance).verdict == "fair"
    assert exact._replace(fresh_mse=0.09 * exact.fresh_variance).verdict == "good"
    few = eff(toy(0, 3).predict_many, toy(0, 3).ids, num_samples=9)
    assert few.verdict == "unknown" and np.isnan(few.fresh_variance)


@pytest.mark.parametrize("fit", FITS)
def test_too_few_samples_are_announced(fit):
    truth = toy(0, 20)
    with pytest.warns(SlalomWarning, match="11 different outputs for 39 parameters"):
        fit(truth.predict_many, truth.ids, num_samples=12)


def test_an_unfinished_fit_says_so():
    fit = fidel(attention_model(), [5, 9, 14, 21, 30], solver=Optimum(max_iter=1))
    assert not fit.converged and fit.iterations == 1


# --- progress


@pytest.mark.parametrize("fit", FITS)
def test_progress_is_reported(fit):
    seen = []
    fit(attention_model(), [5, 9, 14, 21, 30, 41], progress=lambda *report: seen.append(report))
    assert {stage for stage, _, _ in seen} - {"penalty"} == {"model", "fit"}
    assert all(0 <= done <= total for _, done, total in seen)


def test_a_bar_on_a_terminal_and_none_elsewhere(monkeypatch):
    rich = pytest.importorskip("rich")
    assert rich

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("attn_closed_form._progress.PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    truth = toy(0, 6)
    for stream, progress, shown in (
        (Terminal(), None, True),
        (Terminal(), False, False),
        (io.StringIO(), None, False),
    ):
        monkeypatch.setattr("sys.stderr", stream)
        eff(truth.predict_many, truth.ids, progress=progress)
        assert ("SLALOM: model" in stream.getvalue()) == shown


def test_importing_the_package_does_not_import_rich():
    code = "import sys, attn_closed_form; sys.exit('rich' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Whole:
    """A black box that answers in exact fractions: a SLALOM with whole masses and values, one per
    class.
    """

    def __init__(self, seed, V, C):
        rng = np.random.default_rng(seed)
        self.g = rng.integers(1, 9, V).tolist()
        self.v = rng.integers(-9, 10, (V, C)).tolist()

    def answer(self, sequence, c):
        total = Fraction(sum(self.g[token] for token in sequence))
        return Fraction(sum(self.g[token] * self.v[token][c] for token in sequence)) / total

    def __call__(self, sequences):
        C = len(self.v[0])
        answers = [[float(self.answer(list(s), c)) for c in range(C)] for s in sequences]
        return np.array(answers)


@pytest.mark.parametrize(
    ("fit", "kind"),
    [
        pytest.param(fit, kind, marks=checks(fit, by="more digits"))
        for fit in (fit_slalom, fit_slalom_classes)
        for kind in ("eff", "fidel")
    ],
)
def test_a_slalom_in_exact_fractions_is_found(fit, kind):
    box = Whole(4, 6, 2)
    found = fit(box, np.arange(6), kind=kind, num_samples=300)
    importances = np.log(box.g)
    for c, each in enumerate(found if fit is fit_slalom_classes else [found] * 2):
        s = each.slalom.s - each.slalom.s.mean()
        np.testing.assert_allclose(s, importances - importances.mean(), atol=EXACT)
        values = each.slalom.v if each.slalom.v.ndim == 1 else each.slalom.v[:, c]
        np.testing.assert_allclose(values, [row[c] for row in box.v], atol=10 * EXACT)


@checks(fit_slalom_classes, by="another package")
def test_nothing_better_is_near_for_any_class():
    """SciPy's least squares, started at the fit of each class or at zero, finds nothing better."""
    box = Counted(attention_model(C=2))
    solver = Optimum(penalty=0, background=False, max_spread=60, tol=1e-10)
    document = np.array([5, 9, 14, 21, 30])
    fits = fit_slalom_classes(box, document, kind="eff", num_samples=300, solver=solver)
    target = np.asarray(box.f([np.array(s) for s in box.sequences]))
    for c, found in enumerate(fits):
        V = found.slalom.V

        def residuals(x, c=c, ids=found.slalom.ids, V=V):
            difference = target[:, c] - Slalom(ids, x[:V], x[V:]).predict_many(box.sequences)
            return difference / np.sqrt(len(target))

        assert found.mse > 1e-8
        for start in (np.r_[found.slalom.s, found.slalom.v], np.zeros(2 * V)):
            better = least_squares(residuals, start, max_nfev=200)
            assert found.mse <= 2 * better.cost * (1 + 1e-6)
