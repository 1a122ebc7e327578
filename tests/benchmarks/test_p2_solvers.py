"""P2's own solvers: their steps against finite differences, their masses against scipy, and how
near they come.
"""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import nnls

from attn_closed_form import Slalom, fit_slalom
from attn_closed_form.attention import predict_many, random_weights
from attn_closed_form.slalom import Deletions, Optimum
from attn_closed_form.slalom.design import counts, deletions, short_sequences
from attn_closed_form.slalom.least_squares import Problem
from benchmarks.papers.p2_solvers import Alternation, Sgd, simplex_least_squares

eff, fidel = (partial(fit_slalom, kind=kind) for kind in ("eff", "fidel"))


def toy(seed, V):
    rng = np.random.default_rng(seed)
    return Slalom(np.arange(V), rng.normal(size=V), rng.normal(size=V))


def silent(*_):
    pass


@pytest.mark.parametrize(
    ("fit", "printed"), [(eff, Sgd()), (fidel, Alternation())], ids=["eff", "fidel"]
)
def test_the_paper_s_solvers_come_near_but_not_to_the_optimum(fit, printed):
    weights = random_weights(seed=1, D=60, T_max=24, K=3, score_scale=2.0)
    document = [5, 9, 14, 21, 30, 41, 9]

    def f(sequences):
        return predict_many(weights, sequences)[:, 0]

    own = {} if fit is eff else {"kind": Deletions(any_size=0)}
    best = fit(f, document, num_samples=300, solver=Optimum(penalty=0, background=False), **own)
    paper = fit(f, document, num_samples=300, solver=printed, **own)
    assert best.model_calls == paper.model_calls
    assert best.mse < paper.mse  # Eq. 77 is not the MSE, and SGD has no end
    variance = np.var(
        f(
            [
                np.array(document)[row]
                for row in deletions(7, 300, 5, "uniform", np.random.default_rng(0))
            ]
        )
    )
    assert paper.mse < 2 * variance


@pytest.mark.slow  # several fits
def test_the_paper_s_solvers_on_a_slalom():
    truth = toy(1, 5)
    rough = eff(truth.predict_many, truth.ids, solver=Sgd(steps=5000, learning_rate=1.0))
    assert max(np.abs(rough.slalom.s - truth.s).max(), np.abs(rough.slalom.v - truth.v).max()) < 0.1
    few = eff(truth.predict_many, truth.ids, solver=Sgd(steps=10))
    assert few.mse > rough.mse and not few.converged and few.iterations == 10
    alternated = fidel(truth.predict_many, truth.ids, solver=Alternation(rounds=200))
    level = fidel(truth.predict_many, truth.ids, solver=Alternation(rounds=1))
    assert alternated.mse <= level.mse


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
def test_a_solver_that_diverges_is_an_error():
    truth = toy(1, 5)
    with pytest.raises(ValueError, match="it diverged"):
        eff(truth.predict_many, truth.ids, solver=Sgd(learning_rate=1e9))


def test_two_steps_of_sgd_go_down_the_gradient_of_their_batches():
    """From s = v = 0 the first step moves v alone; the second moves both."""
    truth = toy(3, 9)
    index = short_sequences(9, 60, 2, "balanced", np.random.default_rng(3))
    samples = counts(np.arange(9), list(index))
    f = truth.predict_many(list(index))[:, None]
    weight = np.full(60, 1 / 60)
    rate = 0.5
    size = 16
    end = Sgd(rate, size, 2).solve(Problem(samples, f, weight), silent, np.random.default_rng(5))
    draws = np.random.default_rng(5).choice(len(f), size=(2, size), p=weight)
    V = samples.shape[1]
    x = np.zeros(2 * V)
    for rows in draws:
        batch = samples[rows]
        even = np.full(size, 1 / size)

        def loss(x, batch=batch, rows=rows, even=even):
            problem = Problem(batch, f[rows], even)
            return problem.mse(problem.residuals(x[:V], x[V:, None]))

        step = 1e-5 * np.eye(x.size)
        x = x - rate * np.array([(loss(x + e) - loss(x - e)) / 2e-5 for e in step])
    s = x[:V]
    v = x[V:]
    assert np.abs(s).max() > 1e-3
    np.testing.assert_allclose(end.s, s - s.mean(), atol=1e-8)
    np.testing.assert_allclose(end.v[:, 0], v, atol=1e-8)


@pytest.mark.parametrize("V", [2, 5, 12])
def test_the_masses_are_optimal(V):
    """At the minimum of x^T G x on the simplex the gradient is least, and equal, where x is
    positive.
    """
    for seed in range(40):
        rng = np.random.default_rng(seed)
        J = rng.normal(size=(V, V)) + rng.normal(size=V) * 2
        G = J.T @ J
        x = simplex_least_squares(G)
        gradient = G @ x
        assert x.sum() == pytest.approx(1)
        assert (x >= 0).all()
        assert gradient.min() >= x @ gradient - 1e-9 * np.abs(G).max()


def test_simplex_least_squares_against_scipy():
    rng = np.random.default_rng(0)
    for V in (1, 2, 5, 12):
        E = rng.normal(size=(V + 3, V)) + 0.5
        x = simplex_least_squares(E.T @ E)
        expected, _ = nnls(
            np.vstack([E / np.linalg.norm(E, axis=0).max(), np.ones(V)]),
            np.r_[np.zeros(V + 3), 1.0],
        )
        np.testing.assert_allclose(x, expected / expected.sum(), atol=1e-8)
        assert x.min() >= 0 and x.sum() == pytest.approx(1)


@pytest.mark.parametrize("solver", [Sgd(), Alternation()])
def test_they_cannot_hold_importances_fixed(solver):
    truth = toy(8, 6)
    fixed = dict(zip(truth.ids.tolist(), truth.s.tolist(), strict=True))
    with pytest.raises(ValueError, match=r"^importances: "):
        eff(truth.predict_many, truth.ids, importances=fixed, solver=solver)
