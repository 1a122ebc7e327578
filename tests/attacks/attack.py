"""Hostile files of every format against the readers: `python -m tests.attacks.attack --flips 2000`
prints a table.

Every file is read by a process with a limit of 5 s and 1 GB (`reader.py`); one process reads many
files, and a new one takes the place of one that was ended or crashed. The 5 s are those of the
processor where the system counts them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..patience import PATIENCE
from .hostile_files import build_files
from .samples import SAMPLES, cuts, flips, hostile

SECONDS = 5.0
STARTUP = 120.0
MEMORY = 2**30
FINE = ("read", "refused")
ROOT = Path(__file__).parents[2]


def processor_seconds(pid: int) -> float:
    """Processor time of a process and of its ended children, or the time of day on systems without
    /proc.
    """
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return time.monotonic()
    return sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15])) / os.sysconf(
        "SC_CLK_TCK"
    )


class Reader:
    """A process that reads files, replaced when it is too slow or dead."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start a new process, and wait until it is ready."""
        self.stop()
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": ""}
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.DEVNULL,
        }
        command = [sys.executable, "-m", "tests.attacks.reader"]
        self.child = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(
            target=self._forward, args=(self.child.stdout, self.lines), daemon=True
        ).start()
        assert self.ask("no such file", "bag", STARTUP)[0] == "refused"

    @staticmethod
    def _forward(stream: Any, lines: queue.Queue[str]) -> None:
        for line in stream:
            lines.put(line)
        lines.put("")

    def ask(self, path: str, door: str, seconds: float = SECONDS) -> tuple[str, int]:
        """What becomes of a file, and the memory that the process had."""
        if self.child is None:
            self.start()
        assert self.child is not None and self.child.stdin is not None
        self.child.stdin.write(json.dumps([path, door]) + "\n")
        self.child.stdin.flush()
        busy = processor_seconds(self.child.pid) + seconds
        end = time.monotonic() + PATIENCE
        line = None
        while line is None:
            try:
                line = self.lines.get(timeout=0.2)
            except queue.Empty:
                if processor_seconds(self.child.pid) > busy or time.monotonic() > end:
                    self.stop()
                    return f"hang of more than {seconds:g} s", 0
        if not line:
            status = self.stop()
            return f"crash with status {status}", 0
        result, memory = json.loads(line)
        return result, memory

    def stop(self) -> int:
        """End the process."""
        if self.child is None:
            return 0
        child = self.child
        self.child = None
        child.kill()
        with contextlib.suppress(BrokenPipeError):
            child.communicate()
        return child.returncode


@dataclass
class Result:
    """What became of the files of one format."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0
    memory: int = 0


def attack(
    files: Iterator[tuple[str, bytes]], suffix: str, door: str, reader: Reader, folder: Path
) -> Result:
    """Read every file, and say what is wrong with each that was not read or refused in one line."""
    result = Result()
    path = folder / f"attacked{suffix}"
    for name, data in files:
        path.write_bytes(data)
        begin = time.monotonic()
        outcome, memory = reader.ask(str(path), door)
        result.slowest = max(result.slowest, time.monotonic() - begin)
        result.memory = max(result.memory, memory)
        result.outcomes[outcome if outcome in FINE else "wrong"] += 1
        if outcome not in FINE:
            result.wrong.append(f"{name}: {outcome}")
    if result.memory > MEMORY:
        result.wrong.append(f"took {result.memory:,} bytes")
    return result


def files_of(name: str, folder: Path, cut: int, flip: int) -> Iterator[tuple[str, bytes]]:
    """The sound file of a format, cuts and flips of it, and what was made to do harm."""
    contents = SAMPLES[name][2]
    data = contents(folder)
    yield "sound", data
    yield from cuts(data, cut)
    yield from flips(data, flip)
    yield from hostile(name, folder)
    if name == "torch zip":
        (folder / "pickles").mkdir()
        for path in build_files(folder / "pickles", folder / "trap"):
            yield path.name, path.read_bytes()
            if (folder / "trap").exists():
                raise AssertionError(f"{path.name}: its code was run")


def main() -> None:
    """The long attack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--format", choices=tuple(SAMPLES), action="append")
    args = parser.parse_args()
    print(
        f"{'format':24} {'files':>6} {'read':>6} {'refused':>8} {'wrong':>6} {'slowest':>8} "
        f"{'memory':>8}"
    )
    wrong = []
    reader = Reader()
    for name in args.format or SAMPLES:
        suffix, door, _ = SAMPLES[name]
        with tempfile.TemporaryDirectory() as folder:
            found = attack(
                files_of(name, Path(folder), args.cuts, args.flips),
                suffix,
                door,
                reader,
                Path(folder),
            )
        reader.stop()
        n = found.outcomes
        counts = f"{n.total():6} {n['read']:6} {n['refused']:8} {n['wrong']:6}"
        print(
            f"{name:24} {counts} {found.slowest:6.1f} s {found.memory / 2**20:5.0f} MB", flush=True
        )
        wrong += [f"{name}: {line}" for line in found.wrong]
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
