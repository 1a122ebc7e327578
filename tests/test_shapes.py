"""The table of shapes, with axes whose sizes are all different."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form import Slalom
from attn_closed_form._shapes import axis_sizes, checked_arrays, set_fields
from attn_closed_form.attention import random_weights

AXES = {"W": ("C", "D"), "bias": ("C",), "coords": ("n", 2), "s_absent": ("n",)}
ARRAYS = {
    "W": np.ones((3, 5)),
    "bias": np.ones(3),
    "coords": np.ones((7, 2)),
    "s_absent": np.full(7, -np.inf),
}


def test_sizes_are_read_off_the_shapes():
    assert axis_sizes(ARRAYS, AXES) == {"C": 3, "D": 5, "n": 7}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("bias", (4,)),
        ("bias", (3, 1)),
        ("bias", ()),
        ("W", (0, 5)),
        ("coords", (7, 3)),
        ("s_absent", (6,)),
    ],
)
def test_a_shape_that_does_not_fit_is_an_error_about_its_argument(name, shape):
    with pytest.raises(ValueError, match=f"^{name}: ") as caught:
        axis_sizes({**ARRAYS, name: np.zeros(shape)}, AXES)
    assert str(shape) in str(caught.value)


def test_arrays_are_converted_and_their_numbers_checked():
    arrays, _ = checked_arrays(ARRAYS, AXES, deletable=["s_absent"])
    assert all(array.dtype == np.float64 for array in arrays.values())
    assert arrays["W"] is not ARRAYS["W"]
    with pytest.raises(ValueError, match=r"^s_absent: "):
        checked_arrays(ARRAYS, AXES)
    with pytest.raises(ValueError, match=r"^s_absent: "):
        checked_arrays({**ARRAYS, "s_absent": np.full(7, np.nan)}, AXES, deletable=["s_absent"])
    with pytest.raises(ValueError, match=r"^bias: "):
        checked_arrays({**ARRAYS, "bias": [1.0, np.inf, 0.0]}, AXES, deletable=["s_absent"])


def test_only_optional_arrays_may_be_left_out():
    without = {**ARRAYS, "s_absent": None}
    arrays, sizes = checked_arrays(without, AXES, optional=["s_absent"])
    assert "s_absent" not in arrays
    assert sizes["n"] == 7
    with pytest.raises(ValueError, match=r"^s_absent: "):
        checked_arrays(without, AXES)


def test_fields_of_a_frozen_class_are_read_only():
    @dataclasses.dataclass(frozen=True)
    class Layer:
        W: np.ndarray

    layer = Layer(np.ones(3))
    set_fields(layer, {"W": np.zeros(2)})
    assert layer.W.size == 2
    assert not layer.W.flags.writeable


def test_a_pickled_slalom_comes_back_read_only():
    slalom = pickle.loads(pickle.dumps(Slalom([3, 5], [0.0, 1.0], [1.0, -1.0])))
    assert not slalom.s.flags.writeable
    assert not slalom.v.flags.writeable


# Working arrays of the engine and caches of a model, which no user sees.
INSIDE = ("head_masses", ".arguments", ".computed", "._results", ".ids")


def arrays_in(value, path="", seen=None):
    """Yield the path and the array of every array that an object holds."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from arrays_in(each, f"{path}[{name!r}]", seen)
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from arrays_in(each, f"{path}[{number}]", seen)
    elif hasattr(value, "__dict__"):
        for name, each in vars(value).items():
            yield from arrays_in(each, f"{path}.{name}", seen)


def frozen_objects():
    game = acf.PooledGame.from_scores([0.0, 1.0], [1.0, 2.0])
    acf.shapley(game)
    linked = game.through("sigmoid")
    acf.shapley(linked)
    explanations = acf.load_demo_model().explain("a fine film")
    explanations["shapley"].evidence.shares
    weights = random_weights(seed=1, D=11, d_e=6, T_max=13, K=2, d_att=3, d_out=5, C=3)
    return {"game": game, "linked": linked, "explanations": explanations, "weights": weights}


@pytest.mark.parametrize("name", ["game", "linked", "explanations", "weights"])
@pytest.mark.parametrize(
    "copied", [lambda x: x, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_no_array_of_a_frozen_object_can_be_changed(name, copied):
    """Results that were computed from it would be stale."""
    instance = copied(frozen_objects()[name])
    if name in ("game", "linked"):
        acf.shapley(instance)
    found = dict(arrays_in(instance))
    writeable = [path for path, array in found.items() if array.flags.writeable]
    assert found
    assert [path for path in writeable if not any(name in path for name in INSIDE)] == []
