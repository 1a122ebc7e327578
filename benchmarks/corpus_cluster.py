"""Past one machine: short texts by the million on a Dask cluster of this machine, and what the scheduler costs.

    python -m benchmarks.corpus_cluster                  # 1,000,000 texts
    python -m benchmarks.corpus_cluster --texts 20000

A scheduler and WORKERS worker processes on loopback explain random texts of 5 to 20 words of the shipped model's
vocabulary. Measured: texts per second; the largest memory of the scheduler and of the client; processor time of the
scheduler per part and of the workers per text. The overhead of a part is the time per part of as many parts that do
nothing. From the same numbers follows what a billion texts cost: processor hours, output, and the time that the
scheduler needs to hand out the parts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import load_demo_model
from attn_closed_form.run.cluster import Cluster
from attn_closed_form.run.mappers import Tick
from attn_closed_form.run.plan import planned, size_of_parts
from attn_closed_form.run.processes import THREADS
from attn_closed_form.run.reporter import Meter, reported
from attn_closed_form.run.run import run
from attn_closed_form.run.task import Task

from .corpus import Memory
from .harness import Bar, report
from .processes import processor_seconds

SEED = 0
WORKERS = 2
BILLION = 10**9


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Address of a scheduler with WORKERS workers, and the process ids of all, the scheduler's first."""
    info = folder / "scheduler.json"
    environment = os.environ | dict.fromkeys(THREADS, "1")
    log = (folder / "dask.log").open("wb")

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{name}", *arguments]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    here = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(info)]
    processes = [start("dask_scheduler", *here)]
    try:
        while not (info.exists() and info.read_text()):
            time.sleep(0.05)
        options = ["--scheduler-file", str(info), "--no-nanny", "--nthreads", "1", "--no-dashboard"]
        processes += [start("dask_worker", *options) for _ in range(WORKERS)]
        yield json.loads(info.read_text())["address"], [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
        log.close()


def write_texts(path: Path, count: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(SEED)
    words = np.array(load_demo_model().vocabulary[2:], dtype=object)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, count, 10_000):
            ids = range(first, min(first + 10_000, count))
            texts = [" ".join(words[rng.integers(len(words), size=rng.integers(5, 21))]) for _ in ids]
            writer.write_table(pa.table({"id": ids, "text": texts}, schema=schema))


def nothing(item: int, tick: Tick) -> int:
    return item


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus_cluster", description=__doc__)
    parser.add_argument("--texts", type=int, default=1_000_000, metavar="N", help="default: 1,000,000")
    args = parser.parse_args(argv)
    task = Task()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder / "in.parquet", args.texts)
        with cluster(folder) as (address, (scheduler, *workers)):
            mapper = Cluster(address)
            with planned(folder / "in.parquet", folder / "out", task) as plan:
                parts = len(plan.missing)
                before, start = [processor_seconds(pid) for pid in (scheduler, *workers)], time.perf_counter()
                with Memory(scheduler) as memory, Memory(alone=True) as client, reported(Meter(plan.rows)) as show:
                    for last in run(task, plan.missing, mapper):
                        show(last)
                seconds = time.perf_counter() - start
                after = [processor_seconds(pid) for pid in (scheduler, *workers)]
                busy, *works = np.subtract(after, before)
            start = time.perf_counter()
            done = sum(news.finished is not None for news in mapper(nothing, range(parts), lambda *_: None))
            overhead = (time.perf_counter() - start) / done
        size = sum(part.stat().st_size for part in (folder / "out").iterdir())
    core_hours = BILLION * float(sum(works)) / args.texts / 3600
    billion_parts = -(-BILLION // size_of_parts(BILLION, None))
    rows: list[dict[str, Any]] = [
        {"what": "texts per second", "value": args.texts / seconds},
        {"what": "parts", "value": parts},
        {"what": "seconds per part", "value": seconds / parts},
        {"what": "overhead per part, seconds", "value": overhead},
        {"what": "processor seconds of the scheduler per part", "value": busy / parts},
        {"what": "memory of the scheduler, MB", "value": memory.total},
        {"what": "memory of the client, MB", "value": client.total},
        {"what": "bytes of output per text", "value": size / args.texts},
        {"what": "processor seconds of the workers per text", "value": float(sum(works)) / args.texts},
        {"what": "a billion: core hours", "value": core_hours},
        {"what": "a billion: hours with 1,000 cores", "value": core_hours / 1000},
        {"what": "a billion: parts", "value": billion_parts},
        {"what": "a billion: minutes of the scheduler", "value": billion_parts * overhead / 60},
        {"what": "a billion: GB of output", "value": BILLION * size / args.texts / 1e9},
    ]
    bars = [
        Bar("rows with an error", float(last.failed), "<=", 0.0),
        Bar("rows that are missing", float(args.texts - last.rows), "<=", 0.0),
    ]
    settings = {"texts": args.texts, "workers": WORKERS, "words per text": "5 to 20"}
    return 0 if report("corpus_cluster", rows, seed=SEED, settings=settings, bars=bars) else 1


if __name__ == "__main__":
    sys.exit(main())
