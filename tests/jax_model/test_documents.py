"""Batches of documents on the device against the core, document by document."""

import jax.numpy as jnp
import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form.attention import pooled_game, predict_many, random_weights
from jax_model.device import documents as batched

SIZES = {
    "D": 31,
    "d_e": 7,
    "K": 3,
    "d_att": 5,
    "d_out": 2,
    "C": 2,
    "score_scale": 2.0,
    "biases": True,
}
MODEL = random_weights(3, T_max=41, **SIZES)
MODELS = {"positions": MODEL, "no positions": random_weights(3, T_max=None, **SIZES)}
RNG = np.random.default_rng(0)
DOCUMENTS = [RNG.integers(0, MODEL.D, size=n).tolist() for n in (1, 7, 40, 35, 12, 33, 2)]
FLOAT64 = 1e-10
FLOAT32 = 2e-5


def worst(ours, core):
    return max(np.abs(np.subtract(a, b)).max() for a, b in zip(ours, core, strict=True))


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float64, FLOAT64), (jnp.float32, FLOAT32)])
@pytest.mark.parametrize("name", MODELS)
def test_predictions_and_gradients(name, dtype, tolerance):
    model = MODELS[name]
    options = {"dtype": dtype, "batch": 3}
    texts = [*DOCUMENTS, []]
    assert worst(batched.predict(model, texts, **options), predict_many(model, texts)) <= tolerance
    ours = batched.gradient(model, texts, output=1, **options)
    for row, text in zip(ours, texts, strict=True):
        core = acf.gradient(model, text, output=1)
        assert np.abs(row[: len(core)] - core).max() <= tolerance and not row[len(core) :].any()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("players", ["words", "positions"])
@pytest.mark.parametrize("absent", ["unk", "deleted", None])
def test_games(name, players, absent):
    model = MODELS[name]
    seen = set()
    for bucket in batched.game_buckets(model, DOCUMENTS, players, absent, output=1, batch=2):
        assert bucket.games.s.shape[-1] % batched.BUCKET == 0
        unit = bucket.games.exponent
        for row, (place, count) in enumerate(zip(bucket.places, bucket.players, strict=True)):
            core = pooled_game(model, DOCUMENTS[place], players, absent, output=1)
            assert core.d == count == bucket.games.players[row]
            # Log-masses are relative to the largest of their head, and values in units of a power of two.
            shift = np.asarray(bucket.games.s_background[row]) - core.s_background
            for name in ("s", "v", "s_absent", "v_absent"):
                ours = np.asarray(getattr(bucket.games, name)[row])[:, :count]
                if "s" in name[:1]:
                    ours = ours - shift[:, None]
                else:
                    ours = np.ldexp(ours, unit[row])
                if name == "v_absent":
                    ours = np.where(np.isneginf(core.s_absent), core.v_absent, ours)
                assert np.array_equal(np.isneginf(ours), np.isneginf(getattr(core, name)))
                finite = np.isfinite(ours)
                assert np.abs(ours[finite] - getattr(core, name)[finite]).max(initial=0) <= FLOAT64
            assert np.isneginf(bucket.games.s[row, :, count:]).all()
            assert (
                np.abs(
                    np.ldexp(bucket.games.v_background[row], unit[row]) - core.v_background
                ).max()
                <= FLOAT64
            )
            seen.add(int(place))
    assert seen == set(range(len(DOCUMENTS)))


@pytest.mark.parametrize(
    ("name", "players", "absent"),
    [
        ("positions", "words", "unk"),
        ("positions", "positions", "deleted"),
        ("no positions", "words", None),
    ],
)
def test_shapley(name, players, absent):
    model = MODELS[name]
    ours, problems, *_ = batched.shapley(model, DOCUMENTS, players, absent, batch=4)
    assert not problems
    core = [acf.shapley(pooled_game(model, d, players, absent)) for d in DOCUMENTS]
    assert worst(ours, core) <= 3e-10 * np.abs(model.collapse.u_tok).max()


@pytest.mark.parametrize(
    ("players", "absent", "options"),
    [("words", "unk", {}), ("positions", "deleted", {"kernel_width": np.inf, "num_samples": None})],
)
def test_lime(players, absent, options):
    ours, problems, *_ = batched.lime(MODEL, DOCUMENTS, players, absent, batch=4, **options)
    assert not problems
    core = [acf.lime_limit(pooled_game(MODEL, d, players, absent), **options) for d in DOCUMENTS]
    size = np.abs(MODEL.collapse.u_tok).max()
    assert worst([found.coef for found in ours], [found.coef for found in core]) <= 3e-10 * size
    assert (
        worst([[found.intercept] for found in ours], [[found.intercept] for found in core])
        <= 3e-10 * size
    )


def test_shapley_float32():
    tol = 5e-3
    ours, problems, *_ = batched.shapley(MODEL, DOCUMENTS, tol=tol, dtype=jnp.float32)
    assert not problems
    games = [pooled_game(MODEL, d, "words") for d in DOCUMENTS]
    for row, game in zip(ours, games, strict=True):
        largest = np.abs(game.value(np.random.default_rng(0).random((500, game.d)) < 0.5)).max()
        assert np.abs(row - acf.shapley(game)).max() <= tol * largest
    assert any(row.dtype == np.float32 for row in ours), "all of them came from the core"


def test_a_document_that_nobody_can_do():
    ours, problems, *_ = batched.shapley(MODEL, DOCUMENTS, tol=1e-15)
    assert set(problems) == set(range(len(DOCUMENTS)))
    assert all(np.isnan(row).all() for row in ours) and "smallest possible tol" in problems[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"documents": [[2], []]}, "empty document at 1"),
        ({"players": "letters"}, "players"),
        ({"absent": "gone"}, "absent"),
        ({"output": 2}, "output"),
        ({"documents": [[31]]}, "tokens"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        batched.shapley(**({"weights": MODEL, "documents": [[2]]} | options))
    with pytest.raises(ValueError, match="at least one document"):
        batched.predict(MODEL, [])
    with pytest.raises(ValueError, match="batch"):
        batched.predict(MODEL, [[2]], batch=0)
