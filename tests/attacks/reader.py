"""The process that reads hostile files: one door, one path per line, one answer per line, with a
limit on its memory.

The answer is JSON: what became of the file ("read", "refused", or what is wrong), and the largest
memory of the process and its children so far.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attn_closed_form import load_bag
from attn_closed_form.app.files.arrays import read_state
from attn_closed_form.app.files.open_model import open_model
from attn_closed_form.app.files.tables import read_labelled
from attn_closed_form.app.models.score_table import ScoreTable
from attn_closed_form.app.run.plan import planned
from attn_closed_form.app.run.task import Task

if sys.platform == "linux":
    import resource

MEMORY = 2**30
SECRET = "SECRET"


def read_corpus(path: str) -> None:
    """Every text of a table, as the workers of a run read it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        planned(path, f"{folder}/out", Task(), workers=1) as plan,
    ):
        for part in plan.missing:
            for table in part.read("text"):
                table["text"].to_pylist()


# Tests of the attack itself.
DOORS: dict[str, Callable[[str], Any]] = {
    "model": open_model,
    "state": read_state,
    "bag": load_bag,
    "table": read_labelled,
    "corpus": read_corpus,
    "scores": lambda path: ScoreTable().read(path),
    "python": lambda path: exec(path, {"os": os, "path": path}),
}


def outcome(door: Callable[[str], Any], path: str) -> str:
    """What became of a file."""
    try:
        result = door(path)
    except (ValueError, FileNotFoundError) as error:
        text = str(error)
        if SECRET in text:
            return f"a file of the machine was read: {text}"
        if "\n" in text or Path(path).name not in text or len(text) > 2000:
            return f"not one line that names the file: {text[:300]!r}"
        return "refused"
    except MemoryError:
        return "out of memory"
    except Exception as error:
        return f"traceback of {type(error).__name__}: {error}"[:300]
    if hasattr(result, "features") and SECRET.encode() in result.features.tobytes():
        return "a file of the machine was read"
    return "read"


def memory() -> int:
    """Largest number of bytes that this process or one of its children had."""
    if sys.platform != "linux":
        return 0
    own = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return 1024 * max(int(own.split()[1]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def main() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for line in sys.stdin:
        path, door = json.loads(line)
        print(json.dumps([outcome(DOORS[door], path), memory()]), flush=True)


if __name__ == "__main__":
    main()
