"""Single steps of the solvers against finite differences, and what they do with an answer that is
already there.
"""

import numpy as np
import pytest

from attn_closed_form import Slalom
from attn_closed_form.slalom.design import counts, short_sequences
from attn_closed_form.slalom.least_squares import (
    START_FLOOR,
    Problem,
    Stop,
    descend,
    linear_start,
)
from attn_closed_form.slalom.recover import ask


def silent(*_):
    pass


def slalom_samples(seed=3, V=9, n=60):
    rng = np.random.default_rng(seed)
    # Importances of few digits, to which a constant can be added exactly.
    truth = Slalom(np.arange(V), np.round(rng.normal(size=V) * 1024) / 1024, rng.normal(size=V))
    index = short_sequences(V, n, 2, "balanced", rng)
    samples = counts(np.arange(V), list(index))
    return (
        truth,
        samples,
        truth.predict_many(list(index))[:, None],
        np.full(len(index), 1 / len(index)),
    )


def test_an_exact_start_is_the_end_wherever_its_zero_is():
    truth, samples, f, weight = slalom_samples()
    end = descend(Problem(samples, f, weight), truth.s + 1000.0, 30.0, Stop(3, 1e-8), silent)
    assert end.converged
    np.testing.assert_allclose(end.s - end.s.mean(), truth.s - truth.s.mean(), atol=1e-9)
    far = descend(Problem(samples, f, weight), 0 * truth.s, 30.0, Stop(3, 1e-8), silent)
    assert np.abs(far.s - far.s.mean() - truth.s + truth.s.mean()).max() > 1e-6, (
        "so easy that any start will do"
    )


def test_nothing_to_fit_is_an_end():
    _, samples, f, weight = slalom_samples()
    end = descend(
        Problem(samples, 0 * f, weight), np.zeros(samples.shape[1]), 30.0, Stop(3, 1e-8), silent
    )
    assert (end.converged, end.iterations, end.mse) == (True, 0, 0.0)


def test_outputs_of_two_shapes_are_refused():
    def changes_its_mind(sequences):
        if len(sequences) == 3:
            return np.zeros(len(sequences))
        return np.zeros((len(sequences), 2))

    with pytest.raises(ValueError, match="f"):
        ask(changes_its_mind, [np.array([1])] * 5, batch_size=3)


def test_a_linear_start_is_finite_where_the_linear_problem_has_negative_masses():
    """Such masses have no logarithm; they become a small share of the largest."""
    _, samples, _, weight = slalom_samples()
    spreads = []
    for seed in range(20):
        s = linear_start(
            Problem(samples, np.random.default_rng(seed).normal(size=(len(weight), 1)), weight)
        )
        assert np.isfinite(s).all()
        spreads.append(np.ptp(s))
    assert max(spreads) == pytest.approx(-np.log(START_FLOOR))
