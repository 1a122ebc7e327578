"""Heat maps: the pixels of a panel are the scores of its tiles; panels share a scale; errors say
what is missing.
"""

from dataclasses import replace

import numpy as np
import pytest

from attn_closed_form import Bag
from attn_closed_form.app.explanations.explain import explain_outputs
from attn_closed_form.app.show.maps import colors, heat_maps, scale_end, tile_scores
from tests.bags import bag_model, slide

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: plots)")
matplotlib.use("Agg")

from attn_closed_form.app.show.plots import heat_map  # noqa: E402


def panels(figure):
    return [ax for ax in figure.axes if ax.get_images()]


def test_pixels_are_scores_and_attention_stands_beside_them():
    bag = slide(name="slide $x$")
    found = bag_model().explain(bag, ["shapley"], output="tumor")
    figure = heat_map(found)
    signed, attention = panels(figure)
    scores = found["shapley"].scores.reshape(3, 4)
    pixels = signed.get_images()[0].get_array()
    np.testing.assert_array_equal(pixels[..., :3], colors(scores, scale_end(scores)))
    assert signed.get_images()[0].get_interpolation() == "nearest"
    assert signed.get_images()[0].get_extent() == [1000, 2024, 2768, 2000]
    assert "tumor" in signed.get_title() and attention.get_title() == "Attention"
    weight = found.evidence.inside("alpha-mean").reshape(3, 4)
    darkest = np.unravel_index(
        np.argmin(attention.get_images()[0].get_array().sum(axis=-1)), (3, 4)
    )
    assert darkest == np.unravel_index(np.argmax(weight), (3, 4))


def test_one_map_per_class_on_one_scale(tmp_path):
    model = bag_model(C=3, outputs=("a", "b", "c"))
    found = explain_outputs(model, slide(), "shapley")
    assert list(found) == ["a", "b", "c"]
    figure = heat_map(list(found.values()), tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 5000
    shown = panels(figure)
    assert len(shown) == 4
    everything = np.concatenate([e["shapley"].scores for e in found.values()])
    end = np.quantile(np.abs(everything), 0.995)
    for ax, each in zip(shown, found.values(), strict=False):
        expected = colors(each["shapley"].scores.reshape(3, 4), end)
        np.testing.assert_array_equal(ax.get_images()[0].get_array()[..., :3], expected)


def test_a_binary_logit_has_one_map_and_its_other_class_the_opposite_one():
    model = bag_model(C=1, outputs=("normal", "tumor"))
    assert list(explain_outputs(model, slide(), "shapley")) == ["tumor"]
    both = explain_outputs(model, slide(), "shapley", outputs=["normal", "tumor"])
    np.testing.assert_allclose(both["normal"]["shapley"].scores, -both["tumor"]["shapley"].scores)
    with pytest.raises(TypeError, match=r"^output: "):
        explain_outputs(model, slide(), "shapley", output="tumor")


def test_tiles_of_a_region_have_the_color_of_the_region():
    found = bag_model().explain(
        slide().in_regions(512), ["shapley"], players="regions", output="tumor"
    )
    pixels = panels(heat_map(found))[0].get_images()[0].get_array()[..., :3]
    shades = colors(found["shapley"].scores, scale_end(tile_scores(found["shapley"]))).tolist()
    assert len(shades) == 4 and {tuple(p) for p in pixels.reshape(-1, 3).tolist()} == set(
        map(tuple, shades)
    )
    assert (pixels[0, 0] == pixels[1, 1]).all() and (pixels[0, 2] == pixels[1, 3]).all()


def test_a_thumbnail_lies_underneath(tmp_path):
    found = bag_model().explain(slide(level0_width=3000, level0_height=4000), ["shapley"])
    ax = panels(heat_map(found, thumbnail=np.zeros((40, 30, 3))))[0]
    under, over = ax.get_images()
    assert under.get_extent() == [0, 3000, 4000, 0] and over.get_alpha() == 0.6
    found = bag_model().explain(slide(), ["shapley"])
    under = panels(heat_map(found, thumbnail=np.zeros((4, 3))))[0].get_images()[0]
    assert under.get_extent() == [0, 2024, 2768, 0]
    with pytest.raises(ValueError, match=r"^thumbnail: "):
        heat_map(found, thumbnail=np.zeros(3))


def test_what_is_missing_is_named():
    model = bag_model()
    bag = slide()
    with pytest.raises(ValueError, match=r"^coords: "):
        heat_map(model.explain(Bag(bag.features), ["shapley"]))
    found = model.explain(bag, ["shapley"])
    with pytest.raises(ValueError, match=r"^method: "):
        heat_map(found, method="lime")
    with pytest.raises(ValueError, match=r"^explanations: "):
        heat_map([])


def test_a_cut_scale_has_arrows_at_the_ends_that_were_cut():
    """A few extreme tiles are cut off: on both sides of signed scores, above of attention."""
    bag = slide(20, 20)
    features = bag.features.copy()
    features[0] *= 50
    found = bag_model().explain(replace(bag, features=features), ["shapley"], output="tumor")
    signed, attention = heat_maps([found])
    bars = [ax._colorbar for ax in heat_map(found).axes if hasattr(ax, "_colorbar")]
    expected = ["both" if signed.cut else "neither", "max" if attention.cut else "neither"]
    assert "neither" not in expected and [bar.extend for bar in bars] == expected
