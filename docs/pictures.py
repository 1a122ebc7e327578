"""Make the pictures of the documentation: `python docs/pictures.py`, or with names of views for
some of them, such as `python docs/pictures.py sentence live-typed`.

Every view is drawn at 1280 and 390 pixels, light and dark, and as it is printed
(gallery/VIEW-1280-light.png, ..., gallery/VIEW-print.png). The picture of the report in the README
(report.png), the live page (live-page.png) and the figures (gallery/FIGURE.png) are made, too. Needs
Chromium, Playwright, Pillow and the extras `web`, `plots`, `train`, `bags`, `corpus` and
`transformers`. `theory_figures.py` draws the figures of the theory, `bag_map.py` the map of a bag.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gallery_subjects as subjects
from PIL import Image
from playwright.sync_api import sync_playwright

from attn_closed_form import load_demo_model
from attn_closed_form.__main__ import SENTENCE
from attn_closed_form.app.cli.main import main as command
from attn_closed_form.app.show.plots import FIGURES, save_figure

HERE = Path(__file__).parent
GALLERY = HERE / "gallery"
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
# A page of the size A4 has 794 x 1123 pixels of CSS, and Chromium shows it with a small margin.
PAPER = (794, 1123)
# Pages of the printed view that are shown; the facts at the end of a report take more.
PAGES = 2
# Colors of a picture, as many as a palette has. An octree keeps the tints of words, which other
# choices of a palette would merge with each other, and takes a third of the size of all colors.
COLORS = 255
# The states of the live page, and what happens on it.
LIVE = {"live-empty": "", "live-typed": SENTENCE, "live-removed": SENTENCE}
# Chromium shows PDF files by an extension, which Playwright leaves out.
LEFT_OUT = (
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
)


def pages(folder: Path) -> dict[str, Callable[[Path], object]]:
    """Return how to write each report to a file."""
    demo = load_demo_model()

    def comparison(path: Path) -> object:
        first = demo.explain(SENTENCE)
        return first.compare(demo.explain(subjects.EDITED)).report(path)

    def summary(path: Path) -> object:
        table = folder / "reviews.csv"
        run = folder / "run"
        subjects.table_of_reviews(table)
        options = ["--workers", "1", "--progress", "none"]
        command(["corpus", "run", str(table), str(run), *options])
        return command(
            ["corpus", "summary", str(run), "--html", str(path), "--reports"]
        )

    return {
        "sentence": lambda path: demo.explain(SENTENCE).report(path),
        "review": lambda path: subjects.review().report(path),
        "classes": lambda path: subjects.departments().report(path),
        "bag": lambda path: subjects.slide(folder).report(path),
        "transformer": lambda path: subjects.transformer().report(path),
        "comparison": comparison,
        "summary": summary,
    }


@contextmanager
def serving() -> Iterator[str]:
    """The address of the live page."""
    words = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0"]
    with subprocess.Popen(
        words, cwd=HERE.parent, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline().split()
        yield next(part for part in line if part.startswith("http"))
        server.terminate()


def prepared(page: Any, view: str) -> None:
    """Bring the live page into its state; reports need nothing."""
    if view not in LIVE:
        return
    page.wait_for_selector("#reasons li")
    page.fill("textarea", LIVE[view])
    if view == "live-empty":
        page.wait_for_selector("#examples button")
        return
    page.wait_for_timeout(1500)
    if view == "live-removed":
        page.click("#strip button:has-text('wonderful')")
        page.wait_for_selector("#removal:not([hidden])")
        page.wait_for_timeout(500)
    # The time depends on the machine.
    page.evaluate("document.getElementById('time').textContent = ''")


def shoot(browser: Any, address: str, view: str) -> None:
    """Draw a view in all widths and schemes."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            context = browser.new_context(
                viewport={"width": width, "height": 800}, color_scheme=scheme
            )
            page = context.new_page()
            page.goto(address)
            prepared(page, view)
            page.wait_for_timeout(200)
            path = GALLERY / f"{view}-{width}-{scheme}.png"
            page.screenshot(path=path, full_page=True)
            context.close()
            make_small(path)


def print_view(browser: Any, address: str, view: str, folder: Path) -> Path:
    """Print a view to a PDF file."""
    path = folder / f"{view}.pdf"
    page = browser.new_page()
    page.goto(address)
    prepared(page, view)
    page.pdf(path=path, format="A4", margin=dict.fromkeys(SIDES, "12mm"))
    page.close()
    return path


# The margins of a printed page.
SIDES = ("top", "right", "bottom", "left")


def shoot_print(browser: Any, printed: Path) -> None:
    """Draw the first pages of a PDF file, as Chromium shows them."""
    page = browser.new_page(
        viewport={"width": PAPER[0] + 20, "height": PAGES * (PAPER[1] + 15)}
    )
    page.goto(f"{printed.as_uri()}#toolbar=0&navpanes=0&zoom=100")
    page.wait_for_timeout(1500)
    path = GALLERY / f"{printed.stem}-print.png"
    page.screenshot(path=path)
    page.close()
    make_small(path)


def make_small(path: Path) -> None:
    """Reduce the colors of a picture."""
    with Image.open(path) as picture:
        reduced = picture.convert("RGB").quantize(
            COLORS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
    reduced.save(path, optimize=True)


def shoot_first_screen(
    browser: Any, address: str, view: str, path: Path, size: tuple[int, int]
) -> None:
    """Draw the first screen of a view, sharp enough for the README."""
    width, height = size
    page = browser.new_page(
        viewport={"width": width, "height": height}, device_scale_factor=1.5
    )
    page.goto(address)
    prepared(page, view)
    page.wait_for_timeout(400)
    page.screenshot(path=path)
    page.close()
    make_small(path)


def draw_figures() -> None:
    """Draw the figures of matplotlib: those of the sentence, and the sentences of the review."""
    explanations = load_demo_model().explain(SENTENCE)
    review = subjects.review()
    for name in FIGURES:
        source = review if name == "sentences" else explanations
        save_figure(source, name, GALLERY / f"{name}.png")
        make_small(GALLERY / f"{name}.png")
    texts = subjects.short_reviews()
    many = load_demo_model().explain_many(texts)
    many.plot_bar(GALLERY / "bar.png", n=8)
    many.plot_beeswarm(GALLERY / "beeswarm.png", n=8)
    for name in ("bar", "beeswarm"):
        make_small(GALLERY / f"{name}.png")


def main(names: list[str]) -> int:
    """Make all pictures, or those of the named views."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print(
            "error: expected chromium on the PATH (apt-get install chromium)",
            file=sys.stderr,
        )
        return 1
    warnings.simplefilter("ignore")
    GALLERY.mkdir(exist_ok=True)
    options = {"executable_path": chromium, "args": ["--no-sandbox"]}
    with (
        tempfile.TemporaryDirectory() as temporary,
        serving() as server,
        sync_playwright() as playwright,
    ):
        folder = Path(temporary)
        writers = pages(folder)
        views = names or [*writers, *LIVE, "figures"]
        browser = playwright.chromium.launch(**options)
        printed = []
        for view in views:
            print(view, flush=True)
            if view == "figures":
                draw_figures()
                continue
            address = server
            if view in writers:
                report = folder / f"{view}.html"
                writers[view](report)
                address = report.as_uri()
            shoot(browser, address, view)
            printed.append(print_view(browser, address, view, folder))
            if view == "sentence":
                path = HERE / "report.png"
                shoot_first_screen(browser, address, view, path, (1000, 900))
            if view == "live-typed":
                path = HERE / "live-page.png"
                shoot_first_screen(browser, address, view, path, (1100, 1000))
        browser.close()
        viewer = playwright.chromium.launch(
            **options, ignore_default_args=list(LEFT_OUT)
        )
        for path in printed:
            shoot_print(viewer, path)
        viewer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
