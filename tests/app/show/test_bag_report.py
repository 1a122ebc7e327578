"""The report of a bag: its pictures are the tiles, its numbers the scores, and no name of a
stranger is live in it.
"""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from attn_closed_form import METHODS, Bag, BagClassifier
from attn_closed_form.app.explanations.explain import explain_outputs
from attn_closed_form.app.explanations.explanation import Explanations
from attn_closed_form.app.models.scale import percent
from attn_closed_form.app.show.bag_report import TOP, checked_removal
from attn_closed_form.app.show.colored import script_data
from attn_closed_form.app.show.figures import FOR
from attn_closed_form.app.show.html import report
from attn_closed_form.app.show.maps import heat_maps
from attn_closed_form.app.show.page import script
from tests.bags import bag_model, slide
from tests.texts import HOSTILE, typed


class Page(HTMLParser):
    """Tags of a page, and the text of its cells."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.open = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def found():
    return bag_model().explain(
        slide(name="slide 7"), ["shapley", "banzhaf", "alpha-mean"], output="tumor"
    )


def test_pictures_are_the_tiles(found):
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    pictures = re.findall(r"data:image/png;base64,([^\"]+)", report(found))
    assert len(pictures) == 4, (
        "scores and attention, on the probability scale and on that of logits"
    )
    pixels = np.rint(255 * image.imread(io.BytesIO(base64.b64decode(pictures[0])))).astype(int)
    assert pixels.shape == (3, 4, 4)
    strongest = np.unravel_index(np.argmax(found["shapley"].scores), (3, 4))
    if found["shapley"].scores.max() == np.abs(found["shapley"].scores).max():
        assert pixels[strongest][:3].tolist() == list(FOR)
    warm = pixels[..., 0] > pixels[..., 2]
    np.testing.assert_array_equal(warm, found["shapley"].scores.reshape(3, 4) > 0)


def test_the_ends_of_an_axis_are_written_beside_it(found):
    page = report(found)
    left, top, high = map(int, re.findall(r'd="M(\d+) (\d+)v(\d+)h', page)[0])
    labels = re.findall(rf'<text x="{left - 5}.0" y="([\d.]+)" text-anchor="end"', page)
    assert {round(float(y) - 4) for y in labels} == {top, top + high}


def test_one_instance_opposes_and_several_oppose():
    verbs = {}
    for seed in range(6):
        found = bag_model().explain(slide(2, 2, seed=seed), "shapley", output="tumor")
        page = typed(report(found))
        for count, verb in re.findall(r"most attention, (\d+) (opposes?) tumor", page):
            verbs[count] = verb
    assert verbs.pop("1") == "opposes"
    assert set(verbs.values()) == {"oppose"}


def test_the_numbers_are_the_scores(found):
    page = typed(report(found))
    scores = found["shapley"].scores
    weight = found["alpha-mean"].scores
    best = int(np.argmax(scores))
    assert f"{100 * scores[best]:+.1f}" in page and percent(weight[best], 2) in page
    against = sum(weight[scores < 0]) / sum(weight)
    assert f"{percent(against)} of the attention" in page
    attended = np.argsort(-weight, kind="stable")[:TOP]
    opposed = int((scores[attended] < 0).sum())
    verb = "opposes" if opposed == 1 else "oppose"
    most = f"Of the {len(attended)} with the most attention, {opposed} {verb} "
    assert opposed and most in page
    assert METHODS["flip-order"].label in page
    assert "Orange supports tumor, blue opposes it, and gray does neither." in page
    up = scores[scores > 0]
    down = scores[scores < 0]
    assert f"{100 * up.sum():+.1f} points from the {up.size} instances that support it" in page
    assert f"{100 * down.sum():+.1f} points from the" in page
    assert (
        "slide 7" in page and f"The probability of tumor is {100 * found.prediction:.1f}%:" in page
    )


def test_the_logit_is_one_switch_away(found):
    page = typed(report(found))
    logit = bag_model().explain(slide(), "shapley", output="tumor", scale="logit")
    probability, logits = page.split('<div class="logit">')
    assert "Show logits" in probability and "Explained: the logit of tumor" not in probability
    assert (
        "Explained: the logit of tumor" in logits and f"tumor is {logit.prediction:+.4f}:" in logits
    )
    assert f"<td>{logit['shapley'].scores.max():+.3f}</td>" in logits


def test_a_bag_without_coordinates_has_tables_but_no_map():
    found = bag_model().explain(np.random.default_rng(0).normal(size=(7, 5)), ["shapley"])
    page = report(found)
    assert (
        "<image" not in page
        and "The strongest instances" in page
        and "What attention does not show" in page
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_names_of_strangers_stay_text(text):
    bag = slide(name=text)
    ids = tuple(f"{text}{i}" for i in range(12))
    model = bag_model(outputs=("normal", text or "empty"))
    found = model.explain(Bag(bag.features, bag.coords, ids, bag.attrs), ["shapley"], output=1)
    html = report(found)
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "iframe", "object", "link"})
    # The script and its empty data are ours.
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert html.count(script()) == 1 and html.count(script_data([])) == 1
    assert {attrs["href"] for tag, attrs in page.tags if tag == "a"} == {"#how"}
    assert all(
        attrs["href"].startswith("data:image/png") for tag, attrs in page.tags if tag == "image"
    )
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]


def test_a_notebook_shows_the_maps_or_the_tables(found):
    page = Page(found._repr_html_())
    assert [tag for tag, _ in page.tags].count("image") == 2
    assert len(Page(found["shapley"]._repr_html_()).tags) > 5
    bare = bag_model().explain(np.random.default_rng(0).normal(size=(7, 5)), ["shapley"])
    assert "<table" in bare._repr_html_() and "<image" not in bare._repr_html_()


@pytest.mark.slow  # a large bag
def test_a_large_bag_makes_a_small_page():
    found = bag_model().explain(slide(60, 50), ["shapley"], output="tumor")
    assert len(report(found)) < 80_000


def test_deletion_curves_are_drawn_above_the_certified_limit(found):
    page = typed(report(found))
    shares = [found[name].removal_curves().deletion_share for name in found]
    assert all(percent(share) in page for share in shares) and "share of the best possible" in page
    picture = page[page.index('aria-label="The prediction as instances are removed"') :].partition(
        "</svg>"
    )[0]
    paths = [re.findall(r"[\d.]+ [\d.]+", path) for path in re.findall(r'd="M([^"]+)"', picture)]
    limit, *curves = [
        [float(point.split()[1]) for point in path] for path in paths if len(path) > 10
    ]
    # The flip order, Shapley values and attention; Banzhaf values are in the table only.
    assert len(curves) == 3
    for curve in curves:  # heights grow downwards; the limit begins with a corner
        assert all(y <= low + 0.11 for y, low in zip(curve, limit[-len(curve) :], strict=True))
    keys = re.findall(r'd="M([\d.]+) ([\d.]+)h30"/><text x="([\d.]+)" y="([\d.]+)"', picture)
    lines = [(float(x), float(y)) for x, y, *_ in keys]
    titles = [(float(x), float(y)) for *_, x, y in keys]
    # Each title is beside its line.
    assert len(set(lines)) == 3 and titles == [(x + 37, y + 4) for x, y in lines]


def test_maps_are_laid_over_a_light_or_a_dark_page(found):
    """Opacity is linear in the score: no tile is an opaque light gray, and the strongest is
    opaque.
    """
    (scores, _) = heat_maps([found])
    pixels = scores.over_page()
    cells = scores.raster.cells
    strength = np.clip(np.abs(cells) / scores.end, 0, 1)
    np.testing.assert_allclose(pixels[..., 3] / 255, 0.12 + 0.88 * strength, atol=1 / 255)
    assert pixels[..., 3].max() == 255 and "background:#fff" not in report(found)


def test_classes_without_names_are_asked_for(found):
    note = "The classes have no names"
    assert note not in report(found) and note in report(
        bag_model(outputs=()).explain(slide(), ["shapley"])
    )


def test_a_thumbnail_lies_under_the_maps(tmp_path):
    """It has the size of the slide, and the page shows the part of it that has tiles."""
    from attn_closed_form.app.show.maps import png

    picture = png(np.full((4, 6, 4), 200, dtype=np.uint8))
    (tmp_path / "slide.png").write_bytes(picture)
    attrs = {
        "patch_size": 10,
        "level0_width": 600,
        "level0_height": 400,
        "thumbnail": tmp_path / "slide.png",
    }
    bag = Bag(
        np.random.default_rng(0).normal(size=(4, 5)),
        [[100, 50], [110, 50], [100, 60], [110, 60]],
        attrs=attrs,
    )
    network = {
        "attention.0.weight": np.ones((3, 5)),
        "attention.2.weight": np.ones((1, 3)),
        "classifier.weight": np.eye(5)[:2],
    }
    found = BagClassifier.from_state_dict(network, layout="xmil").explain(bag, "shapley")
    page = found.report()
    under = (
        f'<image id="slide" href="data:image/png;base64,{base64.b64encode(picture).decode()}" width="600" '
        'height="400"'
    )
    # The page has the picture once, and every map and every tile of a table refers to it.
    assert page.count(under) == 1
    shown = page.count('<svg class=map viewBox="100 50 20 20"')
    assert shown == page.count("one cell per tile") > 1
    tiles = page.count("<svg class=tile viewBox=")
    assert tiles >= 4 and page.count('<use href="#slide"/>') == shown + tiles
    assert '<svg class=tile viewBox="110 60 10 10"' in page
    (tmp_path / "slide.png").write_bytes(b"<script>")
    with pytest.raises(ValueError, match=r"^thumbnail: "):
        found.report()


def test_a_report_of_several_outputs_has_a_map_of_each():
    model = bag_model(C=3, outputs=("a", "b", "c"))
    first, *others = explain_outputs(model, slide(), "shapley").values()
    page = typed(report(first, others))
    every = page[page.index("<h2>Every class") :]
    for name in ("a", "b", "c"):
        assert f"<figcaption>Shapley: evidence for {name} (" in every
    assert "<h2>Every class" not in report(first)


def test_the_certified_set_is_framed_on_the_map_of_the_predicted_class(found):
    (scores, attention) = heat_maps([found])
    members = found.reasons().contrastive.players
    assert members
    where = found.evidence.units.coords[list(members)]
    side = found.evidence.units.attrs["patch_size"]
    np.testing.assert_array_equal(scores.outlines[:, :2], where)
    np.testing.assert_array_equal(scores.outlines[:, 2:], where + side)
    assert not len(attention.outlines)
    page = report(found)
    frames = re.findall(r'<path class=frame d="([^"]+)"', page)
    assert len(frames) == 2 and frames[0].count("M") == len(members)  # on both scales
    # The class that is not predicted has no frames: its removal set would say something else.
    other = bag_model().explain(slide(name="slide 7"), ["shapley"], output="normal")
    assert "class=frame" not in report(other)


def test_sentences_about_a_network_with_a_tail_are_escaped_once(monkeypatch):
    found = bag_model().explain(slide(), ["shapley"], output="tumor")
    monkeypatch.setattr(Explanations, "checked_reasons", lambda _: ["Without “a & b” it flips."])
    page = checked_removal(found)
    assert "a &amp; b" in page and "&amp;amp;" not in page
