"""The fault table of docs/corpus.md with seconds: kills and signals at a run of 3,000 short texts, then a resume.

    python -m benchmarks.corpus_faults

For each fault: seconds from the signal until the main process is gone, seconds until its last worker is, and after the
same command was given again, the rows that are lost or doubled. The faults of a cluster kill a real scheduler and a
real worker on loopback.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .corpus_cluster import cluster, write_texts
from .harness import Bar, report
from .processes import children, command_line

TEXTS = 3_000
PART_ROWS = 25
WORKERS = 2


class Started:
    """`corpus run` as a process of its own."""

    def __init__(self, source: Path, out: Path, *options: str) -> None:
        self.out = out
        command = [sys.executable, "-m", "attn_closed_form", "corpus", "run", str(source), str(out)]
        command += ["--part-rows", str(PART_ROWS), "--workers", str(WORKERS), "--progress", "none", *options]
        nowhere = subprocess.DEVNULL
        self.process = subprocess.Popen(command, start_new_session=True, stdout=nowhere, stderr=nowhere)
        while len(list(out.glob("part-*"))) < 4 and self.process.poll() is None:
            time.sleep(0.01)
        self.workers = [pid for pid in children(self.process.pid) if "spawn_main" in command_line(pid)]

    def kill_worker(self) -> None:
        """End one of the workers."""
        os.kill(self.workers[0], signal.SIGKILL)

    def times(self, fault: Callable[[], Any]) -> tuple[float, float]:
        """Seconds until the main process and until the last worker is gone."""
        start = time.perf_counter()
        fault()
        self.process.wait()
        ended = time.perf_counter() - start
        while any(Path(f"/proc/{pid}").exists() and command_line(pid) for pid in self.workers):
            time.sleep(0.01)
        return ended, time.perf_counter() - start


def check(source: Path, out: Path) -> tuple[int, int]:
    """Rows lost and rows doubled, after the same command was given again."""
    import pyarrow.dataset as dataset

    command = [sys.executable, "-m", "attn_closed_form", "corpus", "run", str(source), str(out), "--progress", "none"]
    subprocess.run([*command, "--part-rows", str(PART_ROWS)], check=True, stdout=subprocess.DEVNULL)
    rows = dataset.dataset(out).to_table(columns=["row"])["row"].to_pylist()
    return TEXTS - len(set(rows)), len(rows) - len(set(rows))


def main() -> int:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "in.parquet"
        write_texts(source, TEXTS)

        def measure(case: str, fault: Callable[[Started], Any], *options: str) -> None:
            out = folder / f"out{len(rows)}"
            started = Started(source, out, *options)
            ended, last = started.times(lambda: fault(started))
            status = started.process.returncode
            lost, doubled = check(source, out)
            rows.append({"fault": case, "status": status, "main gone, seconds": ended, "all gone, seconds": last})
            rows[-1] |= {"rows lost": lost, "rows doubled": doubled}

        measure("kill -9 of main", lambda run: run.process.kill())
        measure("TERM", lambda run: run.process.terminate())
        measure("Ctrl-C", lambda run: os.killpg(run.process.pid, signal.SIGINT))
        measure("kill -9 of a worker (the run goes on)", lambda run: run.kill_worker())
        with cluster(folder) as (address, pids):
            measure("kill -9 of the scheduler", lambda _: os.kill(pids[0], signal.SIGKILL), "--scheduler", address)
    ends = [row["all gone, seconds"] for row in rows if "goes on" not in row["fault"]]
    bars = [
        Bar("rows lost or doubled", float(sum(row["rows lost"] + row["rows doubled"] for row in rows)), "<=", 0.0),
        Bar("seconds until a run that was stopped has gone with its workers", max(ends), "<=", 5.0),
        Bar("seconds after TERM or Ctrl-C", max(row["all gone, seconds"] for row in rows[1:3]), "<=", 2.0),
    ]
    settings = {"texts": TEXTS, "rows per part": PART_ROWS, "workers": WORKERS}
    return 0 if report("corpus_faults", rows, seed=0, settings=settings, bars=bars) else 1


if __name__ == "__main__":
    sys.exit(main())
