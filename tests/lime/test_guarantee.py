"""|error| <= tol * max|f| or ToleranceError, whatever the settings: against an oracle of many
digits.
"""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import PooledGame, ToleranceError, lime_limit
from tests.lime.oracle import lime
from tests.oracles import checks
from tests.profiles import at_least

G = PooledGame.from_scores


def ratio(game, tol=1e-10, **arguments):
    """Largest error over what is promised."""
    coef, intercept, largest = lime(game, **arguments)
    got = lime_limit(game, tol=tol, **arguments)
    error = max(np.abs(got.coef - coef).max(), abs(got.intercept - intercept))
    if largest:
        return error / (tol * largest)
    return error


NARROW = {
    "a narrow kernel": (
        G([0.0, 1.0], [1.0, -1.0], s_background=0.0, v_background=0.2),
        {"kernel_width": 3.0, "ridge": 0.0},
    ),
    "a constant model": (G([0.0, 0.3], [0.1, 0.1]), {"kernel_width": 10.0, "num_samples": None}),
    "weights below float64": (
        G(
            [0.0, 1.0, -1.0, 0.5, 2.0],
            [1.0, 2.0, -1.0, 0.0, 3.0],
            s_background=0.0,
            v_background=0.5,
        ),
        {"kernel_width": 1.0, "ridge": 0.0},
    ),
    "one player, narrow": (
        G([0.0], [2.0], s_background=1.0, v_background=0.5),
        {"kernel_width": 6.0, "ridge": 0.0},
    ),
    "one player": (G([0.0], [2.0], s_background=1.0, v_background=0.5), {}),
    "one player, a small share": (
        G([0.0], [1.0], s_background=12.0, v_background=0.0),
        {"tol": 1e-6},
    ),
    "offsets": (
        G([0.0, 0.3], [-1e8 + 0.25, -1e8 + 0.75], s_background=0.0, v_background=-1e8, bias=1e8),
        {"tol": 1e-7},
    ),
    "a head that is nearly constant": (
        G(
            np.linspace(-1.0, 1.0, 5),
            0.48 + 1e-10 * np.arange(5.0),
            s_background=0.3,
            v_background=0.48,
            bias=1 / 3,
        ),
        {"kernel_width": 3.0, "num_samples": None, "tol": 1e-6},
    ),
    "tiny values and tiny weights": (
        G([0.0, 0.7, -0.5], [1e-286, 3e-286, 5e-286], s_background=0.0, v_background=-2e-286),
        {"kernel_width": 3.0, "num_samples": None, "tol": 1e-8},
    ),
    "a weight among the smallest numbers": (
        G([0.0, 0.7, -0.5], [1.0, 3.0, 5.0], s_background=0.0, v_background=-2.0),
        {"kernel_width": 1.0, "num_samples": None},
    ),
    "a weight below the smallest number": (
        G([0.0, 0.7, -0.5], [1.0, 3.0, 5.0], s_background=0.0, v_background=-2.0),
        {"kernel_width": 0.7, "num_samples": None},
    ),
    "a tiny ridge beside weights below the smallest number": (
        G([0.0, 0.7], [1.0, 3.0], s_background=0.0, v_background=-2.0),
        {"kernel_width": 0.8, "ridge": 1e-270},
    ),
    "a ridge as large as the variance, in the same place": (
        G([0.0, 0.7], [1.0, 3.0], s_background=0.0, v_background=-2.0),
        {"kernel_width": 0.8, "ridge": 1e-288},
    ),
    "more samples than float64 can count": (
        G([0.0, 0.7, -0.5], [1.0, 3.0, 5.0], s_background=0.0, v_background=-2.0),
        {"kernel_width": 1.0, "num_samples": 10**330, "ridge": 0.1},
    ),
    "one player, a tiny ridge": (
        G([0.0], [2.0], empty_value=-2.0),
        {"kernel_width": 10.0, "ridge": float(np.exp(-50)), "num_samples": 2, "tol": 5e-15},
    ),
    "one player, a tinier ridge": (
        G([0.0], [2.0], s_background=0.1, v_background=-1.0),
        {"kernel_width": 2.0, "ridge": 1e-290},
    ),
    "a large value of nobody": (
        G([0.0, 0.4, 1.0], [1e-300, 2e-300, -1e-300], empty_value=1e300),
        {"kernel_width": 3.0, "num_samples": None, "tol": 1e-12},
    ),
    "large values": (
        G([0.0, 0.7, -0.5], [1e300, 3e300, 5e300], s_background=0.0, v_background=-2e300),
        {"kernel_width": 2.0, "num_samples": None, "tol": 1e-8},
    ),
}


@checks(lime_limit, by="more digits")
@pytest.mark.parametrize(("game", "arguments"), NARROW.values(), ids=NARROW.keys())
def test_cases_that_were_wrong_in_silence(game, arguments):
    assert ratio(game, **arguments) <= 1


def test_heads_that_cancel_where_only_the_row_of_the_document_counts():
    """The coefficients are next to nothing, but the intercept is f(everyone) with all of its
    rounding.
    """
    game = G(
        [[0.0, 1.0]] * 2,
        [[1e8, 3e8], [-1e8 + 1, -3e8]],
        s_background=[0.5] * 2,
        v_background=[1e8, -1e8],
    )
    arguments = {"kernel_width": 3.0, "ridge": 0.01, "num_samples": 100}
    with pytest.raises(ToleranceError, match=r"^tol: ") as caught:
        lime_limit(game, tol=1e-11, **arguments)
    assert ratio(game, float(str(caught.value).rsplit(maxsplit=1)[-1]), **arguments) <= 1


def test_a_narrow_kernel_is_leave_one_out():
    """Only the document and the samples with one word missing have a weight that counts."""
    game = G([0.0, 1.0, -1.0], [1.0, 2.0, -1.0], s_background=0.0, v_background=0.5)
    found = lime_limit(game, kernel_width=0.01, ridge=0.0)
    everyone = np.ones(3, dtype=bool)
    differences = [
        game.value(everyone) - game.value(everyone & (np.arange(3) != j)) for j in range(3)
    ]
    np.testing.assert_allclose(found.coef, differences, atol=1e-12)


def random_game(draw):
    d = draw(st.integers(1, 5))
    H = draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    spread = draw(st.sampled_from([0.0, 0.5, 3.0, 30.0]))
    size = 10.0 ** draw(st.sampled_from([-200, -3, 0, 5, 200]))
    offset = draw(st.sampled_from([0.0, 1.0, 1e3]))
    s = rng.normal(size=(H, d)) * spread
    v = (rng.normal(size=(H, d)) + offset) * size
    kind = draw(st.sampled_from(["deleted", "background", "replaced", "mixed"]))
    more = {}
    if kind != "deleted":
        more = {
            "s_background": rng.normal(size=H) * spread,
            "v_background": rng.normal(size=H) * size,
        }
    if kind in ("replaced", "mixed"):
        s_absent = rng.normal(size=(H, d)) * spread
        if kind == "mixed":
            s_absent = np.where(rng.random(d) < 0.5, -np.inf, s_absent)
        more |= {"s_absent": s_absent, "v_absent": rng.normal(size=(H, d)) * size}
    return G(s, v, bias=float(rng.normal() * size), empty_value=float(rng.normal() * size), **more)


@checks(lime_limit, by="more digits")
@given(st.data())
@at_least(60)
def test_any_game_any_setting(data):
    game = random_game(data.draw)
    arguments = {
        "kernel_width": data.draw(st.sampled_from([25.0, 25.0, 100.0, np.inf, 10.0, 6.0])),
        "ridge": data.draw(st.sampled_from([0.0, 1.0, 50.0])),
        "num_samples": data.draw(st.sampled_from([2, 50, 5000, 10**9, None])),
    }
    if game.d == 1 and arguments["num_samples"] is None:
        arguments["num_samples"] = 5000
    tol = 10.0 ** data.draw(st.integers(-13, -2))
    if data.draw(st.booleans()) and game.d > 1:
        arguments["features"] = list(range(0, game.d, 2))
    try:
        assert ratio(game, tol, **arguments) <= 1
    except ToleranceError as error:
        named = re.search(r"smallest possible tol is (\S+)", str(error)).group(1)
        if named != "inf":
            assert ratio(game, float(named), **arguments) <= 1, "the named tol works"


@pytest.mark.parametrize("kind", ["deleted", "replaced"])
@pytest.mark.parametrize(
    "arguments", [{}, {"kernel_width": 4.0}, {"num_samples": None, "kernel_width": np.inf}]
)
def test_the_named_tol_works(kind, arguments):
    rng = np.random.default_rng(0)
    s, v, s_absent, v_absent = rng.normal(size=(4, 2, 5))
    if kind == "deleted":
        absent = {}
    else:
        absent = {"s_absent": s_absent, "v_absent": v_absent}
    game = G(s, v, **absent)
    with pytest.raises(ToleranceError, match=r"^tol: ") as caught:
        lime_limit(game, tol=1e-16, **arguments)
    named = float(str(caught.value).rsplit(maxsplit=1)[-1])
    assert ratio(game, named, **arguments) <= 1


@pytest.mark.parametrize(("part", "number"), [(4, 801), (60, 555), (99, 487)])
def test_games_that_an_attack_found(part, number):
    """An eps below the smallest one of a rule, and moments that overflow on the way to a rule that
    is not needed.
    """
    pytest.importorskip("flint")
    from benchmarks.guarantee import judge, random_question

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict, _ = judge(*random_question(part, number))
    assert verdict == "within"
