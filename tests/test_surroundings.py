"""The mathematics in odd surroundings: the same results to the last bit, whatever the host program
has set.
"""

import base64
import hashlib
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form import attention, lime, reasons, slalom
from attn_closed_form import game as games_module
from attn_closed_form.attention import random_weights
from attn_closed_form.lime import lime_cost, lime_sample
from attn_closed_form.reasons import bounds_by_size, removal_curves

ROOT = Path(__file__).parents[1]


def games(sizes=(1.0, 1e150), players=(1, 2, 9, 60)):
    """Plain and linked games: few and many players, heavy and masked ones, deleted and replaced;
    and such games with values of other sizes.
    """
    rng = np.random.default_rng(0)
    for d in players:
        s = rng.normal(size=d)
        v = rng.normal(size=d)
        yield acf.PooledGame.from_scores(s, v, empty_value=0.3)
        yield acf.PooledGame.from_scores(s, v, s_background=0.2, v_background=-1.0)
        yield acf.PooledGame.from_scores(30 * s, v, empty_value=0.0)
    masked = np.array([0.0, 1.0, -1e9, 700.0, -700.0])
    for size in sizes:
        yield acf.PooledGame.from_scores(masked, size * np.arange(5.0), empty_value=0.0)


def results(**options):
    """Results of every part of the mathematics, as one array of bytes per call."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, game in enumerate(games(**options)):
            variants = {f"{number}": game}
            if np.abs(game.v).max() < 10:
                variants[f"{number} sigmoid"] = game.through("sigmoid")
                variants[f"{number} exp"] = game.through("exp")
            for name, each in variants.items():
                found[f"value {name}"] = each.value(np.eye(game.d, dtype=bool))
                found[f"leave one out {name}"] = acf.leave_one_out(each)
                found[f"lime cost {name}"] = np.array([lime_cost(each, tol=1e-6).steps])
                found[f"lime sample {name}"] = lime_sample(each, num_samples=20, seed=0).coef
                found[f"shapley {name}"] = acf.shapley(each, tol=1e-8)
                found[f"banzhaf {name}"] = acf.banzhaf(each, tol=1e-8)
                found[f"lime {name}"] = acf.lime_limit(each, tol=1e-6)
            if game.d <= 9:
                found[f"semivalue {number}"] = acf.semivalue(game, np.ones(game.d), tol=1e-6)
                found[f"reason {number}"] = np.array(acf.sufficient_reason(game, 0.1).players)
                found[f"bounds {number}"] = np.array([acf.bounds(game).proved_min])
                found[f"bounds by size {number}"] = bounds_by_size(game).proved_min
                found[f"curves {number}"] = removal_curves(game, game.v[0]).deletion
                found[f"owen {number}"] = acf.owen(game, np.arange(game.d) // 2, tol=1e-8)
                found[f"by size {number}"] = acf.expected_value_by_size(game, tol=1e-8)
                found[f"interactions {number}"] = acf.interactions(game, tol=1e-8)
        sizes = {"D": 11, "d_e": 6, "T_max": 13, "K": 2, "d_att": 3, "d_out": 5, "C": 3}
        tokens = [3, 5, 8, 5, 2]
        for scale in (1.0, 3000.0):  # scores whose exponentials underflow
            weights = random_weights(seed=1, score_scale=scale, **sizes)
            for function in (acf.predict, acf.alpha, attention.alpha_max):
                found[f"{function.__name__} {scale}"] = function(weights, tokens)
            for function in (acf.gradient, attention.integrated_gradients):
                found[f"{function.__name__} {scale}"] = function(weights, tokens, output=1)
        model = acf.load_demo_model()
        for name, each in model.explain("a wonderful film, but long and dull").items():
            found[f"explain {name}"] = each.scores
    return {name: as_bytes(values) for name, values in found.items()}


def as_bytes(values):
    if isinstance(values, tuple):
        return b"".join(map(as_bytes, values))
    return np.asarray(values).tobytes()


def digest(of=None):
    """One number for all results, or for those that are given."""
    total = hashlib.sha256()
    for name, data in sorted((of or results()).items()):
        total.update(name.encode() + data)
    return total.hexdigest()


@pytest.fixture(scope="module")
def expected():
    return results()


def check_same(found, expected):
    assert [name for name in expected if found[name] != expected[name]] == []


def test_floating_point_errors_that_raise():
    sizes = (1.0, 1e-300, 1e-160, 1e150)
    expected = results(sizes=sizes)
    with np.errstate(all="raise"):
        found = results(sizes=sizes)
    check_same(found, expected)


# Functions that compute no masses.
WITHOUT_MASSES = {"random_weights", "sinusoidal_positions"}


@pytest.mark.parametrize("module", [games_module, lime, reasons, slalom, attention])
def test_every_public_function_handles_floating_point_errors_as_usual(module):
    functions = {
        name: getattr(module, name)
        for name in module.__all__
        if callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
    }
    unprotected = {name for name, each in functions.items() if not hasattr(each, "__wrapped__")}
    assert len(functions) > 2 and unprotected <= WITHOUT_MASSES


@pytest.mark.slow
def test_sixteen_threads_at_once():
    """With the small games, of which a thread is not done before the others begin."""
    expected = results(players=(1, 2, 9))
    with ThreadPoolExecutor(16) as threads:
        for found in [threads.submit(results, players=(1, 2, 9)) for _ in range(16)]:
            check_same(found.result(), expected)


def _put(queue):
    queue.put(digest())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_after_use(expected):
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_put, args=(queue,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns about threads
        child.start()
    assert queue.get() == digest(expected)
    child.join()


def in_a_new_process(*options, before=""):
    """Return the digest that a new interpreter computes after some statements."""
    program = f"{before}\nfrom tests.test_surroundings import digest\nprint(digest())"
    return output_of(*options, "-c", program).split()[-1]


def output_of(*arguments):
    """Return what a new interpreter prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("options", [("-O",), ("-OO",)])
def test_an_interpreter_that_drops_assertions(options, expected):
    assert in_a_new_process(*options) == digest(expected)


# The gradients of a model with scores of thousands have entries of about 1e-304, which are made of
# subnormal numbers. Where those are zero, such an entry has fewer digits.
MADE_OF_SUBNORMALS = 1e-300


@pytest.mark.slow
def test_subnormal_numbers_that_another_library_has_turned_into_zero(expected):
    pytest.importorskip("torch", reason="torch can set the processor's flag")
    program = (
        "import base64, pickle, torch; assert torch.set_flush_denormal(True)\n"
        "from tests.test_surroundings import results\n"
        "print(base64.b64encode(pickle.dumps(results())).decode())"
    )
    found = pickle.loads(base64.b64decode(output_of("-c", program).split()[-1]))
    different = [name for name in expected if found[name] != expected[name]]
    assert set(different) <= {"integrated_gradients 3000.0"}
    for name in different:
        change = np.frombuffer(found[name]) - np.frombuffer(expected[name])
        assert np.abs(change).max() < MADE_OF_SUBNORMALS


TINY_TOL = 1e-10


def tiny_values():
    """Shapley values of games whose values are near the smallest numbers, or None if they are
    refused.
    """
    rng = np.random.default_rng(0)
    found = []
    for exponent in (-280, -285, -290, -295, -300, -303):
        for background in ({}, {"s_background": 0.0, "v_background": 0.0}):
            s = 3 * rng.normal(size=6)
            with np.errstate(under="ignore"):
                v = rng.normal(size=6) * 10.0 ** (exponent - 12 * rng.random(6))
            v[0] = 10.0**exponent
            game = acf.PooledGame.from_scores(s, v, **background)
            try:
                phi = acf.shapley(game, tol=TINY_TOL).tolist()
            except acf.ToleranceError:
                phi = None
            found.append((float(np.abs(v).max()), phi))
    return found


def test_tiny_values_where_subnormal_numbers_are_zero():
    """The processor then loses what the guarantee needs: results keep it, or there is an error."""
    pytest.importorskip("torch", reason="torch can set the processor's flag")
    program = (
        "import json, torch; assert torch.set_flush_denormal(True)\n"
        "from tests.test_surroundings import tiny_values\n"
        "print(json.dumps(tiny_values()))"
    )
    flushed = json.loads(output_of("-c", program))
    usual = tiny_values()
    assert all(phi is not None for _, phi in usual)
    assert [phi is not None for _, phi in flushed].count(True) >= 4
    assert None in [phi for _, phi in flushed]
    for (largest, expected), (_, phi) in zip(usual, flushed, strict=True):
        if phi is not None:
            # Both are within the tolerance.
            error = np.abs(np.array(phi) - expected).max()
            assert error <= 2 * TINY_TOL * largest
