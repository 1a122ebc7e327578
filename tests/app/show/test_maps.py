"""Tiles land in the right cells, with the right colors, and the PNG says so."""

import io
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from attn_closed_form.app.show import maps
from attn_closed_form.app.show.figures import AGAINST, FOR, UNSIGNED
from attn_closed_form.app.show.maps import (
    MOST_CELLS,
    ZERO,
    HeatMap,
    colors,
    png,
    rasterize,
    scale_end,
)


def test_tiles_on_a_grid_get_one_cell_each():
    coords = [[100, 50], [100 + 3 * 7, 50 + 7], [100 + 7, 50 + 2 * 7]]
    raster = rasterize(coords, [1.0, 2.0, -3.0], 7)
    expected = np.full((3, 4), np.nan)
    expected[0, 0] = 1
    expected[1, 3] = 2
    expected[2, 1] = -3
    np.testing.assert_array_equal(raster.cells, expected)
    assert raster.box == (100, 50, 100 + 4 * 7, 50 + 3 * 7)


def test_tiles_off_the_grid_cover_their_own_area():
    raster = rasterize([[0, 0], [300, 100]], [1.0, -1.0], 200)
    side = raster.cells.shape[1] / 500
    seen = ~np.isnan(raster.cells)
    assert seen.sum() / side**2 == pytest.approx(2 * 200**2, rel=0.05)
    assert raster.cells[0, 0] == 1 and raster.cells[-1, -1] == -1 and np.isnan(raster.cells[0, -1])


def test_overlapping_tiles_share_cells_by_their_mean():
    raster = rasterize([[0, 0], [0.5, 0]], [2.0, 4.0], 1.0)
    assert raster.cells[0, 0] == 2 and raster.cells[0, -1] == 4
    middle = raster.cells[0, raster.cells.shape[1] // 2]
    assert middle == 3


@pytest.mark.slow
def test_the_picture_stays_small_for_a_huge_slide_and_every_tile_counts():
    rng = np.random.default_rng(0)
    coords = rng.permutation(10**6)[:20_000, None] * [1, 0] + rng.integers(
        0, 10**6, (20_000, 1)
    ) * [0, 1]
    raster = rasterize(coords, np.ones(20_000), 3.0)
    assert max(raster.cells.shape) <= 2 * MOST_CELLS + 1 and np.nansum(raster.cells) > 19_000
    assert rasterize([[5, 5]], [1.0], 2).cells.shape == (1, 1)
    with pytest.raises(ValueError, match=r"^patch_size: "):
        rasterize([[0, 0]], [1.0], 0)


def test_colors_are_linear_with_zero_in_the_middle():
    found = colors([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 9.0], end=2.0).astype(int)
    assert found[0].tolist() == found[1].tolist() == list(AGAINST)
    assert found[3].tolist() == list(ZERO) and found[5].tolist() == found[6].tolist() == list(FOR)
    np.testing.assert_allclose(found[4], (np.array(ZERO) + FOR) / 2, atol=1)
    np.testing.assert_allclose(found[2], (np.array(ZERO) + AGAINST) / 2, atol=1)
    assert colors([3.0], end=2.0, signed=False)[0].tolist() == list(UNSIGNED)


def test_the_scale_ends_before_the_most_extreme_tiles():
    scores = np.concatenate([np.zeros(500), np.linspace(-1, 1, 1000), [50.0]])
    assert 0.9 < scale_end(scores) <= 1.0
    assert scale_end(np.zeros(3)) == 1.0
    assert scale_end([-2.0]) == 2.0


def test_the_png_holds_the_pixels():
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    pixels = HeatMap("", rasterize([[0, 0], [2, 1]], [1.0, -1.0], 1), 1.0, True, False).pixels()
    size = struct.pack(">II", 3, 2)
    depth = 8
    rgba = 6
    methods = (0, 0, 0)
    assert png(pixels)[16:29] == size + bytes((depth, rgba, *methods))
    found = np.rint(255 * image.imread(io.BytesIO(png(pixels)))).astype(int)
    np.testing.assert_array_equal(found, pixels)
    assert (
        found[0, 0].tolist() == [*FOR, 255]
        and found[1, 2].tolist() == [*AGAINST, 255]
        and found[0, 1, 3] == 0
    )


def test_instances_without_a_score_are_not_against(monkeypatch):
    """Attention of 0.5, 0.3 and 0.2 on scores of both signs and zero."""
    attention = np.array([0.5, 0.3, 0.2])
    scores = SimpleNamespace(scores=np.array([1.0, 0.0, -2.0]))
    monkeypatch.setattr(maps, "player_attention", lambda explanations: attention)
    monkeypatch.setattr(maps, "leader", lambda explanations: scores)
    found = maps.disagreement(SimpleNamespace())
    assert found.attention_against == pytest.approx(0.2)
