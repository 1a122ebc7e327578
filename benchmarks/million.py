"""A million rows: IMDB's 50,000 reviews repeated twenty times, two workers, three kills in the
middle.

    python -m benchmarks.million --data aclImdb_v1.tar.gz                # 1,000,000 rows; minutes with both cores
    python -m benchmarks.million --data aclImdb_v1.tar.gz --rows 20000   # a trial

`corpus run` explains logits by Shapley values of the shipped model, in a process of its own that
starts a Dask cluster of two workers. When a quarter, a half and three quarters of the rows are
done, the process is killed (`kill -9`), and the same command resumes. Measured: rows per second of
all runs together, resident memory of each process over time, bytes on disk, rows lost or doubled,
and whether a review has the same values in each of its rows. What a billion rows would cost follows
from these numbers alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form.app.run.plan import size_of_parts
from jax_model.training.imdb import load_imdb

from .corpus import BILLION, SEED, WORKERS, bytes_of, resident
from .harness import RESULTS, Bar, report
from .processes import children, processor_seconds

KILLS = (0.25, 0.5, 0.75)
MEMORY_BAR = 700.0
# Of the memory of a process in the last quarter of a run over that in its second quarter.
GROWTH_BAR = 1.1
# Looks at a process, two per second, before its growth is judged: it has read its model and
# compiled its code by then.
LEAST_LOOKS = 80


def write_reviews(path: Path, data: str, rows: int) -> int:
    """A table of `rows` reviews with their numbers, all 50,000 again and again; returns how many
    are different.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = load_imdb(data, "train").texts + load_imdb(data, "test").texts
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, len(texts)):
            some = texts[: rows - first]
            table = pa.table({"id": range(first, first + len(some)), "text": some}, schema=schema)
            writer.write_table(table, row_group_size=5_000)
    return len(texts)


class Run:
    """`corpus run` in a process of its own, with the memory of every process as it goes."""

    def __init__(self, source: Path, out: Path) -> None:
        self.out = out
        self.start = time.perf_counter()
        command = [sys.executable, "-m", "attn_closed_form", "corpus", "run", str(source), str(out)]
        options = ["--scale", "logit", "--workers", str(WORKERS), "--progress", "none"]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.memory: dict[int, list[float]] = {}
        self.busy = 0.0

    def until(self, parts: int | None) -> float:
        """Wait until so many parts are done, or for the end; then kill what is left.

        Returns the seconds of the run.
        """
        while self.process.poll() is None:
            pids = [self.process.pid, *children(self.process.pid)]
            for pid in pids:
                self.memory.setdefault(pid, []).append(resident(pid))
            self.busy = max(self.busy, sum(map(processor_seconds, pids)))
            if parts is not None and len(list(self.out.glob("part-*"))) >= parts:
                self.process.kill()
            time.sleep(0.5)
        if parts is None and self.process.returncode:
            raise RuntimeError(f"the run ended with status {self.process.returncode}")
        return time.perf_counter() - self.start

    def sizes(self, main: bool) -> list[list[float]]:
        """Memory over time of the main process, which has the scheduler, or of each worker."""
        return [sizes for pid, sizes in self.memory.items() if (pid == self.process.pid) == main]

    def growth(self, main: bool) -> float:
        """Memory in the last quarter of a process's time over that in the second quarter, the worst
        process.
        """
        found = []
        for sizes in self.sizes(main):
            quarter = len(sizes) // 4
            if len(sizes) >= LEAST_LOOKS:
                found.append(np.mean(sizes[-quarter:]) / np.mean(sizes[quarter : 2 * quarter]))
        return float(max(found, default=1.0))


def check(out: Path, rows: int, period: int) -> tuple[int, int, int]:
    """Rows that are lost, doubled, and different from the same review in the first round."""
    import pyarrow.parquet as pq

    seen = np.zeros(rows, dtype=np.int64)
    first: dict[int, Any] = {}
    different = 0
    for part in sorted(out.glob("part-*.parquet")):
        table = pq.read_table(part, columns=["row", "id", "shapley"], partitioning=None)
        numbers = table["row"].to_numpy()
        assert np.array_equal(numbers, table["id"].to_numpy())
        np.add.at(seen, numbers, 1)
        # Every 97th review is compared.
        for k in np.flatnonzero(numbers % period % 97 == 0).tolist():
            values = table["shapley"][k].values.to_numpy()
            different += not np.array_equal(
                first.setdefault(int(numbers[k] % period), values), values
            )
    return int((seen == 0).sum()), int((seen > 1).sum()), different


def measure(folder: Path, data: str, rows: int) -> bool:
    source = folder / "reviews.parquet"
    out = folder / "out"
    period = write_reviews(source, data, rows)
    parts = -(-rows // size_of_parts(rows, WORKERS))
    runs = []
    seconds = []
    for share in (*KILLS, None):
        runs.append(Run(source, out))
        seconds.append(runs[-1].until(None if share is None else int(share * parts)))
        print(
            f"  {seconds[-1]:.0f} s, {len(list(out.glob('part-*')))} of {parts} parts",
            file=sys.stderr,
        )
    lost, doubled, different = check(out, rows, period)
    largest = {
        main: max(max(sizes) for run in runs for sizes in run.sizes(main)) for main in (True, False)
    }
    growth = {main: max(run.growth(main) for run in runs) for main in (True, False)}
    busy = sum(run.busy for run in runs)
    size = bytes_of(out) / rows
    table: list[dict[str, Any]] = [
        {"what": "rows", "value": rows},
        {"what": "rows per second, kills and resumes included", "value": rows / sum(seconds)},
        {"what": "seconds of all runs", "value": sum(seconds)},
        {"what": "processor seconds per row, all processes", "value": busy / rows},
        {"what": "memory of the main process with its scheduler, MB", "value": largest[True]},
        {"what": "memory of the largest process, MB", "value": max(largest.values())},
        {
            "what": "memory in the last quarter over that in the second, main process",
            "value": growth[True],
        },
        {
            "what": "memory in the last quarter over that in the second, worst process",
            "value": max(growth.values()),
        },
        {"what": "bytes of input per row", "value": source.stat().st_size / rows},
        {"what": "bytes of output per row", "value": size},
        {"what": "a billion: core hours", "value": BILLION * busy / rows / 3600},
        {"what": "a billion: hours with 1,000 cores", "value": BILLION * busy / rows / 3600 / 1000},
        {"what": "a billion: GB of output", "value": BILLION * size / 1e9},
    ]
    bars = [
        Bar("rows lost", float(lost), "<=", 0.0),
        Bar("rows doubled", float(doubled), "<=", 0.0),
        Bar("reviews whose values differ between two of their rows", float(different), "<=", 0.0),
        Bar("memory of the largest process, MB", max(largest.values()), "<=", MEMORY_BAR),
        Bar(
            "memory in the last quarter over that in the second, worst process",
            max(growth.values()),
            "<=",
            GROWTH_BAR,
        ),
    ]
    settings = {
        "model": "shipped",
        "scale": "logit",
        "method": "shapley",
        "workers": WORKERS,
        "kills": len(KILLS),
    }
    where = RESULTS if rows >= 10**6 else folder  # a trial leaves no record
    return report("corpus_million", table, seed=SEED, settings=settings, bars=bars, folder=where)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.million",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", required=True, metavar="PATH", help="aclImdb_v1.tar.gz")
    parser.add_argument(
        "--rows", type=int, default=10**6, metavar="N", help="how many rows (default: 1,000,000)"
    )
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        if measure(Path(name), args.data, args.rows):
            return 0
        return 1


if __name__ == "__main__":
    sys.exit(main())
