"""Take the README's picture of the live page: `python docs/live_page.py` writes docs/live-page.png.

Starts `attn-closed-form serve` on a free port and looks at it with Debian's Chromium through Playwright. `--width 390`
shows the page as a phone does, `--dark` at night, `--full` from top to bottom.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TEXT = "The plot is a mess and the ending is terrible, but the acting is wonderful!"
HERE = Path(__file__).parent


def main() -> int:
    """Write one picture."""
    parser = argparse.ArgumentParser(prog="python docs/live_page.py", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "live-page.png")
    parser.add_argument("--width", type=int, default=1060)
    parser.add_argument("--height", type=int, default=1190)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--text", default=TEXT)
    parser.add_argument("--remove", default="terrible", help="the word to click")
    args = parser.parse_args()
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser_path is None:
        print("error: expected chromium on the PATH (apt-get install chromium)", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0"]
    root = str(HERE.parent)
    with (
        subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as playwright,
    ):
        assert server.stdout is not None
        address = server.stdout.readline().split("http://")[1].split()[0]
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses its sandbox to root
        browser = playwright.chromium.launch(executable_path=browser_path, args=flags)
        page = browser.new_page(
            viewport={"width": args.width, "height": args.height},
            color_scheme="dark" if args.dark else "light",
        )
        page.on("console", lambda message: print("console:", message.text))
        page.goto(f"http://{address}")
        page.fill("#text", args.text)
        if args.remove:
            page.click(f"#strip button:text-is('{args.remove}')")
            page.wait_for_selector("#forecasts table")
        page.wait_for_selector("#pairs table")
        page.wait_for_timeout(500)
        # How long it took says more about the machine of the day than about the page.
        page.evaluate("() => { document.getElementById('time').hidden = true }")
        page.screenshot(path=args.out, full_page=args.full)
        browser.close()
        server.terminate()
    print(f"wrote {args.out.name}, {args.out.stat().st_size / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
