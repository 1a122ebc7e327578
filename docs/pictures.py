"""Make the pictures of the documentation: `python docs/pictures.py`.

Writes the report (report.png), the live page (live-page.png), the same sentence in lime and shap beside our report
(beside-peers.png) and the gallery of plots (gallery/*.png and gallery.md). Needs Debian's Chromium, Playwright and the
extras `web`, `plots` and `interop`.
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
from attn_closed_form.show.plots import FIGURES, save_figure

HERE = Path(__file__).parent
TEXT = (
    "I went in expecting very little and came out pleasantly surprised. The plot is thin, and the first twenty minutes "
    "drag, but the two leads are wonderful together."
)


def shoot(browser: Any, address: str, path: Path, width: int, height: int, ready: str | None = None) -> None:
    """A picture of a page, once `ready` is there."""
    page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=1.5)
    page.goto(address)
    if ready:
        page.wait_for_selector(ready)
    page.wait_for_timeout(400)
    page.screenshot(path=path)
    page.close()


def peers(folder: Path) -> dict[str, Path]:
    """The same sentence explained by lime and by shap, each with its own page."""
    import shap
    from lime.lime_text import LimeTextExplainer

    model = load_demo_model()
    explained = LimeTextExplainer(class_names=list(model.outputs), bow=False, mask_string="zzunk", random_state=0)
    found = explained.explain_instance(TEXT, model.predict_proba, num_features=10, num_samples=1000)
    (folder / "lime.html").write_text(found.as_html(), encoding="utf-8")
    values = shap.Explainer(lambda texts: model.predict_logits(list(texts))[:, 0], shap.maskers.Text(r"\W+"))([TEXT])
    page = f"<meta charset=utf-8>{shap.getjs()}{shap.plots.text(values, display=False)}"
    (folder / "shap.html").write_text(page, encoding="utf-8")
    model.explain(TEXT).report(folder / "ours.html")
    return {name: folder / f"{name}.html" for name in ("ours", "lime", "shap")}


def beside(browser: Any, folder: Path) -> None:
    """Our report, lime's and shap's pages side by side."""
    frames = "".join(
        f'<figure style="margin:0;flex:1"><figcaption style="font:600 20px sans-serif;padding:8px">{name}</figcaption>'
        f'<iframe src="file://{path}" style="width:100%;height:820px;border:1px solid #aaa"></iframe></figure>'
        for name, path in peers(folder).items()
    )
    page = folder / "beside.html"
    page.write_text(f'<body style="display:flex;gap:12px;margin:12px">{frames}</body>', encoding="utf-8")
    shoot(browser, page.as_uri(), HERE / "beside-peers.png", 2100, 900)


def gallery() -> None:
    """Every figure of one sentence, and the page that shows them."""
    (HERE / "gallery").mkdir(exist_ok=True)
    found = load_demo_model().explain(TEXT)
    note = "Made by `python docs/pictures.py`. Each is `found.plot(path, figure=NAME)`, as PNG, SVG or PDF."
    lines = ["# Gallery", "", note]
    for name, figure in FIGURES.items():
        save_figure(found, name, HERE / "gallery" / f"{name}.png")
        summary = (figure.draw.__doc__ or "").splitlines()[0]
        lines += ["", f"## {name}", "", summary, "", f"![{name}](gallery/{name}.png)"]
    (HERE / "gallery.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Make all pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("error: expected chromium on the PATH (apt-get install chromium)", file=sys.stderr)
        return 1
    gallery()
    command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as playwright,
    ):
        assert server.stdout is not None
        address = next(part for part in server.stdout.readline().split() if part.startswith("http"))
        flags = ["--no-sandbox", "--allow-file-access-from-files"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        beside(browser, Path(folder))
        shoot(browser, (Path(folder) / "ours.html").as_uri(), HERE / "report.png", 1000, 835)
        shoot(browser, address, HERE / "live-page.png", 1100, 1000, "#reasons li")
        browser.close()
        server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
