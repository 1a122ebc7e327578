"""A server and a real browser for the tests of the page: Debian's Chromium, without a window,
driven by Playwright.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def start(*options, port=0):
    """The process and the address of `serve`."""
    command = [
        sys.executable,
        "-m",
        "attn_closed_form",
        "serve",
        "--port",
        str(port),
        *map(str, options),
    ]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return server, next(
        part for part in server.stdout.readline().split() if part.startswith("http")
    )


@contextlib.contextmanager
def serving(*options):
    """The address of a server that ends with the block."""
    server, address = start(*options)
    yield address
    server.terminate()
    server.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def address():
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses its sandbox to root
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH (apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()
