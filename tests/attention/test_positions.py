import math

import numpy as np
import pytest

from attn_closed_form.attention import sinusoidal_positions
from tests.tolerances import assert_algebraic


@pytest.mark.parametrize(("T_max", "d_e"), [(13, 7), (1, 1), (5, 2), (11, 6)])
def test_equation_3_in_the_papers_indexing(T_max, d_e):
    expected = np.empty((T_max, d_e))
    for t in range(T_max):
        for i in range(1, d_e // 2 + 2):
            angle = t / T_max ** (2 * i / d_e)
            if 2 * i <= d_e:
                expected[t, 2 * i - 1] = math.cos(angle)  # coordinate 2i, counted from 1
            if 2 * i - 1 <= d_e:
                expected[t, 2 * i - 2] = math.sin(angle)  # coordinate 2i - 1
    assert_algebraic(sinusoidal_positions(T_max, d_e), expected, scale=T_max)


@pytest.mark.parametrize("base", [10000.0, 10000, 7.0])
def test_the_authors_convention(base):
    T_max = 13
    d_e = 7
    expected = np.empty((T_max, d_e))
    for t in range(T_max):
        for j in range(d_e):
            angle = t * math.exp(-math.log(base) * (j - j % 2) / d_e)
            if j % 2:
                expected[t, j] = math.cos(angle)
            else:
                expected[t, j] = math.sin(angle)
    assert_algebraic(sinusoidal_positions(T_max, d_e, base=base), expected, scale=T_max)


def test_the_two_conventions_differ_even_with_equal_bases():
    assert not np.allclose(sinusoidal_positions(13, 7), sinusoidal_positions(13, 7, base=13.0))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"T_max": 0, "d_e": 4}, "T_max"),
        ({"T_max": 4, "d_e": -1}, "d_e"),
        ({"T_max": 4, "d_e": 4, "base": 0.0}, "base"),
        ({"T_max": 4, "d_e": 4, "base": math.nan}, "base"),
        ({"T_max": 4, "d_e": 4, "base": math.inf}, "base"),
    ],
)
def test_bad_arguments(arguments, name):
    with pytest.raises(
        ValueError, match=rf"^{name}: expected (a positive number|an integer of at least 1), got"
    ):
        sinusoidal_positions(**arguments)
