"""Make the pictures of the documentation: `python docs/pictures.py`.

Writes the report of the README's sentence (report.png), the live page (live-page.png) and the
gallery of figures (gallery/*.png). Needs Chromium, Playwright and the extras `web` and `plots`.
`docs/theory_figures.py` draws the figures of the theory, `docs/bag_map.py` the map of a bag.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from attn_closed_form import load_demo_model
from attn_closed_form.__main__ import SENTENCE
from attn_closed_form.app.show.plots import save_figure

HERE = Path(__file__).parent
#: The figures of the gallery. The others show less than the report does.
GALLERY = ("table", "interactions", "lime")


def shoot(
    browser: Any,
    address: str,
    path: Path,
    width: int,
    height: int,
    typed: str = "",
) -> None:
    """A picture of a page, after a text was typed into it."""
    page = browser.new_page(
        viewport={"width": width, "height": height}, device_scale_factor=1.5
    )
    page.goto(address)
    if typed:
        page.wait_for_selector("#reasons li")
        page.fill("textarea", typed)
        page.wait_for_timeout(2000)
        # The time depends on the machine.
        page.evaluate("document.getElementById('time').textContent = ''")
    page.wait_for_timeout(400)
    page.screenshot(path=path)
    page.close()


def main() -> int:
    """Make all pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print(
            "error: expected chromium on the PATH (apt-get install chromium)",
            file=sys.stderr,
        )
        return 1
    explanations = load_demo_model().explain(SENTENCE)
    for name in GALLERY:
        save_figure(explanations, name, HERE / "gallery" / f"{name}.png")
    command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True
        ) as server,
        sync_playwright() as playwright,
    ):
        assert server.stdout is not None
        address = next(
            part
            for part in server.stdout.readline().split()
            if part.startswith("http")
        )
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        report = Path(folder) / "report.html"
        explanations.report(report)
        shoot(browser, report.as_uri(), HERE / "report.png", 1000, 860)
        shoot(browser, address, HERE / "live-page.png", 1100, 1000, SENTENCE)
        browser.close()
        server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
