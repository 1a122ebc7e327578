"""The table of shapes, with axes whose sizes are all different."""

import dataclasses
import pickle

import numpy as np
import pytest

from attn_closed_form import Slalom
from attn_closed_form._shapes import axis_sizes, checked_arrays, set_fields

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
