"""The printed report: it shows the colors and the bars of the screen, pixel by pixel, and all
facts.
"""

import io
import os

import pytest

from attn_closed_form import load_demo_model
from attn_closed_form.__main__ import SENTENCE
from attn_closed_form.app.show.figures import AGAINST, FOR, UNSIGNED
from tests.app.web.conftest import CHROMIUM

# The tints of words on white paper: the shares of the color in `look.css`.
TINTS = (0.16, 0.30, 0.45, 0.62)
# Chromium shows PDF files by an extension, which Playwright leaves out.
LEFT_OUT = ["--disable-extensions", "--disable-component-extensions-with-background-pages"]
# A page of A4 in pixels of CSS.
WIDTH = 794
HEIGHT = 1123


@pytest.fixture(scope="module")
def viewer(browser):
    """A browser that shows PDF files."""
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    viewer = browser.browser_type.launch(
        executable_path=CHROMIUM, args=flags, ignore_default_args=LEFT_OUT
    )
    yield viewer
    viewer.close()


def pixels(png):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    numpy = pytest.importorskip("numpy")
    return numpy.asarray(image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def area(picture, color):
    """The number of pixels with a color, up to the rounding of two renderers."""
    return int((abs(picture - color).max(axis=-1) <= 2).sum())


def palette():
    """The colors of bars and of words, by name."""
    colors = {"bar for": FOR, "bar against": AGAINST, "share": UNSIGNED}
    for name, color in (("p", FOR), ("n", AGAINST)):
        for level, tint in enumerate(TINTS, 1):
            mixed = tuple(round(tint * part + (1 - tint) * 255) for part in color)
            colors[f"{name}{level}"] = mixed
    return colors


def printed(browser, viewer, path, folder, edit=""):
    page = browser.new_page()
    page.goto(path.as_uri())
    if edit:
        page.add_style_tag(content=edit)
    page.pdf(path=folder / "report.pdf", width=f"{WIDTH}px", height=f"{HEIGHT}px")
    page.close()
    page = viewer.new_page(viewport={"width": WIDTH + 20, "height": HEIGHT + 20})
    page.goto(f"{(folder / 'report.pdf').as_uri()}#toolbar=0&navpanes=0&zoom=100")
    picture = None
    for _ in range(40):  # the viewer has no event that says when a page is drawn
        page.wait_for_timeout(250)
        picture = pixels(page.screenshot())
        if area(picture, (255, 255, 255)) > WIDTH * HEIGHT / 2:
            page.wait_for_timeout(250)
            picture = pixels(page.screenshot())
            break
    page.close()
    return picture


def test_a_printed_report_has_the_colors_and_bars_of_the_screen(browser, viewer, tmp_path):
    path = tmp_path / "report.html"
    load_demo_model().explain(SENTENCE).report(path)
    # The screen is as wide as the paper, so bars and words have the same sizes.
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(path.as_uri())
    page.add_style_tag(content="body.acf{padding:0!important}")
    screen = pixels(page.screenshot())
    page.close()
    paper = printed(browser, viewer, path, tmp_path)
    for name, color in palette().items():
        seen = area(screen, color)
        if name[0] in "pn" and name[1:].isdigit() and seen < 100:
            continue  # a level that no word has is only in the legend
        assert seen > 100, name
        # The edges of bars and letters fall between two pixels of the paper.
        assert area(paper, color) == pytest.approx(seen, rel=0.25), name
    # The check can fail: without the rule of the stylesheet, paper has no color.
    plain = ".acf,.acf *{print-color-adjust:economy!important}"
    without = printed(browser, viewer, path, tmp_path, plain)
    for color in (FOR, AGAINST):  # thin lines below words are not backgrounds, and stay
        assert area(without, color) < 0.1 * area(paper, color)


def test_a_printed_report_has_its_facts(browser, tmp_path):
    path = tmp_path / "report.html"
    load_demo_model().explain(SENTENCE).report(path)
    page = browser.new_page()
    page.goto(path.as_uri())
    page.emulate_media(media="print")
    shown = page.inner_text("body")
    assert "Guaranteed error of the exact attributions" in shown and "References" in shown
    assert "Hover" not in shown and "Copy table" not in shown
    page.close()
