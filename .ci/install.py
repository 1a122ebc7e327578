"""Build the sdist, the wheel from it, and use the wheel in an empty environment as a newcomer
would.

`python .ci/install.py` builds both, installs the wheel with NumPy alone, explains a text, asks for
the help of `train` and sees that training names its extra. Then it adds the extras `train` and
`web`, starts the page, asks it once and stops it. Everything happens in a temporary folder, from
which the repository cannot be imported.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = "Slow and silly, but the actors are wonderful."


class Newcomer:
    """An empty environment in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        self.bin = folder / "env" / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: str | Path) -> str:
        """What a command of the environment prints; it must succeed."""
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True, timeout=600, env=self.environment(),
        ).stdout  # fmt: skip

    def refused(self, *command: str | Path) -> str:
        """The one line with which a command says why it cannot be done."""
        found = subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.folder, stderr=subprocess.PIPE, text=True, timeout=600, env=self.environment(),
        )  # fmt: skip
        assert found.returncode == 1 and found.stderr.count("\n") == 1, found
        return found.stderr

    def install(self, what: str) -> None:
        """Install from the package index, and a wheel of ours."""
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what)

    @staticmethod
    def environment() -> dict[str, str]:
        """The caller's, without what would let the repository in."""
        return {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "PYTHONHOME")
        }

    def serve_once(self) -> dict[str, object]:
        """Start the page, ask it for one explanation, stop it; the answer."""
        command = [self.bin / "attn-closed-form", "serve", "--port", "0"]
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, text=True, env=self.environment()
        ) as server:
            try:
                assert server.stdout is not None
                address = re.search(r"http://\S+", server.stdout.readline())
                assert address, "serve: expected its address on the first line"
                question = urllib.request.Request(
                    f"{address[0].rstrip('/')}/api/explain",
                    json.dumps({"text": TEXT}).encode(),
                    {"Content-Type": "application/json"},
                )
                with urllib.request.urlopen(question, timeout=60) as answer:
                    return json.load(answer)
            finally:
                server.send_signal(signal.SIGTERM)
                status = server.wait(timeout=30)
                assert status in (0, 143, -signal.SIGTERM), (
                    f"serve: expected to end when told, got status {status}"
                )


def main() -> None:
    """Run it all; an exception is a failure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "builder").mkdir()
        builder = Newcomer(folder / "builder")
        newcomer = Newcomer(folder)
        builder.install("build")
        builder.run(
            "python", "-m", "build", "--outdir", folder / "dist", ROOT
        )  # the wheel is built from the sdist
        (wheel,) = (folder / "dist").glob("*.whl")
        (sdist,) = (folder / "dist").glob("*.tar.gz")
        newcomer.install(str(wheel))
        packages = json.loads(newcomer.run("python", "-m", "pip", "list", "--format", "json"))
        names = {package["name"].lower().replace("_", "-") for package in packages} - {
            "pip",
            "setuptools",
            "wheel",
        }
        assert names == {"attn-closed-form", "numpy"}, f"expected NumPy alone, got {sorted(names)}"
        said = newcomer.run("attn-closed-form", "explain", TEXT)
        assert "negative" in said and "wonderful" in said and "Exact to" in said, said
        newcomer.run("attn-closed-form", "explain", TEXT, "--html", "report.html")
        assert "wonderful" in (folder / "report.html").read_text(encoding="utf-8")
        assert "--out" in newcomer.run("attn-closed-form", "train", "--help")
        (folder / "texts.csv").write_text("text,label\ngood,1\nbad,0\n", encoding="utf-8")
        assert ".[train]" in newcomer.refused(
            "attn-closed-form", "train", "texts.csv", "--out", "model.npz"
        )
        newcomer.install(f"{wheel}[train,web]")
        answer = newcomer.serve_once()
        assert "wonderful" in json.dumps(answer), answer
        print(
            f"{sdist.name}, {wheel.name}: explain, report, train --help and serve work in an empty "
            "environment"
        )


if __name__ == "__main__":
    main()
