"""Many inputs: the rate of `corpus run` against official lime, its faults in seconds, and a Dask
cluster.

    python -m benchmarks.corpus --data aclImdb_v1.tar.gz   # IMDB's test reviews, against lime
    python -m benchmarks.corpus --faults                   # kills and signals at a run of 3,000 short texts
    python -m benchmarks.corpus --cluster 1000000          # as many short texts on a scheduler with two workers

**Rate.** Documents per second of Shapley values: of logits with one and with two workers, and of
probabilities, the default scale, for a tenth of the reviews; the memory of all processes together;
and in the same run the rate of lime at its default 5,000 samples, in one process, with the model's
own prediction as classifier, for every 625th review. Times include the start of the workers and the
writing of the files; the rate of the last three quarters of the rows, which excludes the start, is
a separate column. On two quiet cores the whole takes two minutes; `python -m
benchmarks.corpus_page` then puts the numbers into docs/corpus-at-scale.md. **Faults** (the table of
docs/corpus-at-scale.md). Seconds from the signal until the main process is gone and until its last
worker is; after the same command was given again, rows that are lost or doubled. **Cluster.** Texts
per second, memory of scheduler and client, processor time of the workers per text, the overhead of
a part, and what a billion texts would cost by these numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form import Settings, TruncationWarning, load_demo_model
from attn_closed_form.app.run.plan import planned, size_of_parts
from attn_closed_form.app.run.reporter import Meter, reported
from attn_closed_form.app.run.runner import Progress, run
from attn_closed_form.app.run.task import Task
from attn_closed_form.attention import predict_many
from jax_model.training.imdb import load_imdb

from .harness import RESULTS, Bar, report
from .processes import children, command_line, processor_seconds

SEED = 0
WORKERS = 2
LIME_DOCUMENTS = 40
FAULT_TEXTS = 3_000
FAULT_PART_ROWS = 25
BILLION = 10**9


class Memory(threading.Thread):
    """Largest resident memory of a process, with its children or alone, sampled ten times a second,
    in MB.
    """

    def __init__(self, pid: int | None = None, alone: bool = False) -> None:
        super().__init__(daemon=True)
        self.pid = pid or os.getpid()
        self.alone = alone
        self.largest = self.total = 0.0
        self.done = threading.Event()

    def __enter__(self) -> Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.join()

    def run(self) -> None:
        """Watch until told to stop."""
        while not self.done.wait(0.1):
            sizes = [
                resident(pid) for pid in (self.pid, *([] if self.alone else children(self.pid)))
            ]
            self.largest = max(self.largest, *sizes)
            self.total = max(self.total, sum(sizes))


def resident(pid: int) -> float:
    """Resident memory of a process, in MB."""
    try:
        return (
            int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            * os.sysconf("SC_PAGE_SIZE")
            / 2**20
        )
    except OSError:
        return 0.0


class Measured(NamedTuple):
    """One run: seconds, rows per second after the first quarter, parts, the last progress, memory
    of all processes and of the largest, in MB.
    """

    seconds: float
    later: float
    parts: int
    progress: Progress
    total: float
    largest: float


def explain_all(
    source: Path,
    folder: Path,
    workers: int | None = None,
    cluster: str | None = None,
    task: Task | None = None,
) -> Measured:
    task = task or Task()
    start = time.perf_counter()
    times: list[tuple[float, int]] = []
    with (
        Memory(alone=cluster is not None) as memory,
        planned(source, folder, task, workers=workers) as plan,
        reported(Meter(plan.rows)) as show,
    ):
        for last in run(task, plan.missing, workers or 1, cluster):
            show(last)
            times.append((time.perf_counter(), last.rows))
    seconds = time.perf_counter() - start
    then, before = next(entry for entry in times if entry[1] >= plan.rows / 4)
    if last.rows > before:
        later = (last.rows - before) / (times[-1][0] - then)
    else:
        later = float("nan")
    return Measured(seconds, later, len(plan.missing), last, memory.total, memory.largest)


def bytes_of(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.iterdir())


# Rate


def lime_rate(texts: list[str]) -> float:
    """Documents per second of the official package, as its user would call it."""
    from lime.lime_text import LimeTextExplainer

    model = load_demo_model()
    weights = model.weights
    vocabulary = model.vocabulary

    def classify(rows: list[str]) -> NDArray[np.float64]:
        positive = 1 / (
            1 + np.exp(-predict_many(weights, [vocabulary.encode(row) for row in rows]))
        )
        return np.concatenate([1 - positive, positive], axis=1)

    explainer = LimeTextExplainer(random_state=0)
    explainer.explain_instance(texts[0], classify, num_features=10, num_samples=100)
    start = time.perf_counter()
    for text in texts:
        explainer.explain_instance(text, classify, num_features=len(text.split()), num_samples=5000)
    return len(texts) / (time.perf_counter() - start)


def measure_rate(folder: Path, data: str, quick: bool) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    warnings.simplefilter("ignore", TruncationWarning)
    texts = load_imdb(data, "test").texts[:: 25 if quick else 1]
    few = texts[:: len(texts) // LIME_DOCUMENTS][:LIME_DOCUMENTS]
    source = folder / "reviews.parquet"
    tenth = folder / "tenth.parquet"
    pq.write_table(pa.table({"text": texts}), source, row_group_size=2000)
    pq.write_table(pa.table({"text": texts[::10]}), tenth, row_group_size=2000)
    logits = Task(settings=Settings(scale="logit"))
    probabilities = Task(settings=Settings(scale="probability"))
    cases = {
        "logits, workers: 1": (source, 1, logits),
        "logits, workers: 2": (source, WORKERS, logits),
        "probabilities, workers: 2": (tenth, WORKERS, probabilities),
    }
    runs = {
        name: explain_all(table, folder / f"out{k}", workers, task=task)
        for k, (name, (table, workers, task)) in enumerate(cases.items())
    }
    peer = lime_rate(few)
    rows: list[dict[str, Any]] = [
        {
            "method": f"exact Shapley values, {name}",
            "documents": measured.progress.rows,
            "seconds": measured.seconds,
            "documents/s": measured.progress.rows / measured.seconds,
            "after a quarter": measured.later,
            "MB in all": measured.total,
        }
        for name, measured in runs.items()
    ]
    rows.append(
        {
            "method": "lime, 5000 samples",
            "documents": len(few),
            "seconds": len(few) / peer,
            "documents/s": peer,
        }
    )
    one, two, _ = runs.values()
    rates = [row["documents/s"] for row in rows]
    bars = [
        Bar("documents per second, logits, two workers", rates[1], ">=", 2000.0),
        Bar("time with one worker over time with two", one.seconds / two.seconds, ">=", 1.7),
        Bar("times lime's rate, logits", rates[1] / peer, ">=", 800.0),
        Bar("peak memory of all processes together, MB", two.total, "<=", 1024.0),
        Bar(
            "rows with an error",
            float(sum(measured.progress.failed for measured in runs.values())),
            "<=",
            0.0,
        ),
    ]
    settings = {
        "players": "words",
        "largest process, MB": round(two.largest),
        "output, bytes per document": round(bytes_of(folder / "out1") / len(texts)),
        "logits with one worker, times lime's rate": round(rates[0] / peer),
        "probabilities, times lime's rate": round(rates[2] / peer),
    }
    where = folder if quick else RESULTS  # a trial leaves no record
    return report("corpus", rows, seed=SEED, settings=settings, bars=bars, folder=where)


# Short texts, and a cluster of this machine


def write_texts(path: Path, count: int) -> Path:
    """Random texts of 5 to 20 words of the shipped model's vocabulary."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(SEED)
    words = np.array(load_demo_model().vocabulary[2:], dtype=object)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, count, 10_000):
            ids = range(first, min(first + 10_000, count))
            texts = [
                " ".join(words[rng.integers(len(words), size=rng.integers(5, 21))]) for _ in ids
            ]
            writer.write_table(pa.table({"id": ids, "text": texts}, schema=schema))
    return path


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Address of a scheduler with WORKERS workers, and the process ids of all, the scheduler's
    first.
    """
    info = folder / "scheduler.json"
    log = (folder / "dask.log").open("wb")

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{name}", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log)

    loopback = [
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        str(info),
    ]
    processes = [start("dask_scheduler", *loopback)]
    try:
        while not (info.exists() and info.read_text()):
            time.sleep(0.05)
        options = ["--scheduler-file", str(info), "--no-nanny", "--nthreads", "1", "--no-dashboard"]
        options += ["--local-directory", str(folder)]
        processes += [start("dask_worker", *options) for _ in range(WORKERS)]
        yield json.loads(info.read_text())["address"], [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
        log.close()


def measure_cluster(folder: Path, texts: int) -> bool:
    from distributed import Client, wait

    source = write_texts(folder / "in.parquet", texts)
    with cluster(folder) as (address, (scheduler, *workers)):
        before = [processor_seconds(pid) for pid in (scheduler, *workers)]
        with Memory(scheduler) as memory:
            measured = explain_all(source, folder / "out", cluster=address)
        busy, *works = np.subtract(
            [processor_seconds(pid) for pid in (scheduler, *workers)], before
        )
        with Client(address, set_as_default=False) as client:
            start = time.perf_counter()
            wait(client.map(abs, range(measured.parts), pure=False))
            overhead = (time.perf_counter() - start) / measured.parts
    size = bytes_of(folder / "out") / texts
    core_hours = BILLION * float(sum(works)) / texts / 3600
    billion_parts = -(-BILLION // size_of_parts(BILLION, None))
    rows: list[dict[str, Any]] = [
        {"what": "texts per second", "value": texts / measured.seconds},
        {"what": "parts", "value": measured.parts},
        {"what": "seconds per part", "value": measured.seconds / measured.parts},
        {"what": "overhead per part, seconds", "value": overhead},
        {"what": "processor seconds of the scheduler per part", "value": busy / measured.parts},
        {"what": "memory of the scheduler, MB", "value": memory.total},
        {"what": "memory of the client, MB", "value": measured.total},
        {"what": "bytes of output per text", "value": size},
        {"what": "processor seconds of the workers per text", "value": float(sum(works)) / texts},
        {"what": "a billion: core hours", "value": core_hours},
        {"what": "a billion: hours with 1,000 cores", "value": core_hours / 1000},
        {"what": "a billion: parts", "value": billion_parts},
        {"what": "a billion: minutes of the scheduler", "value": billion_parts * overhead / 60},
        {"what": "a billion: GB of output", "value": BILLION * size / 1e9},
    ]
    bars = [
        Bar("rows with an error", float(measured.progress.failed), "<=", 0.0),
        Bar("rows that are missing", float(texts - measured.progress.rows), "<=", 0.0),
    ]
    settings = {"texts": texts, "workers": WORKERS, "words per text": "5 to 20"}
    return report("corpus_cluster", rows, seed=SEED, settings=settings, bars=bars)


# Faults


class Started:
    """`corpus run` in a process of its own."""

    def __init__(self, source: Path, out: Path, *options: str) -> None:
        small = (
            "import sys; from attn_closed_form.app.run import plan; plan.PART_ROWS = "
            f"{FAULT_PART_ROWS}; "
        )
        small += "from attn_closed_form.app.cli.main import main; sys.exit(main(sys.argv[1:]))"
        self.command = [sys.executable, "-c", small, "corpus", "run", str(source), str(out)]
        self.command += ["--workers", str(WORKERS), "--progress", "none"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*self.command, *options], start_new_session=True, **quiet)
        while len(list(out.glob("part-*"))) < 4 and self.process.poll() is None:
            time.sleep(0.01)
        titles = ("spawn_main", "dask")  # the second where setproctitle is installed
        self.workers = [
            pid for pid in children(self.process.pid) if any(t in command_line(pid) for t in titles)
        ]

    def times(self, fault: Callable[[], Any]) -> tuple[float, float]:
        """Seconds until the main process and until the last worker is gone."""
        start = time.perf_counter()
        fault()
        self.process.wait()
        ended = time.perf_counter() - start
        while any(command_line(pid) for pid in self.workers):
            time.sleep(0.01)
        return ended, time.perf_counter() - start


def measure_faults(folder: Path) -> bool:
    import pyarrow.dataset as dataset

    source = write_texts(folder / "in.parquet", FAULT_TEXTS)
    rows: list[dict[str, Any]] = []

    def measure(case: str, fault: Callable[[Started], Any], *options: str) -> None:
        out = folder / f"out{len(rows)}"
        started = Started(source, out, *options)
        ended, last = started.times(lambda: fault(started))
        subprocess.run(started.command, check=True, stdout=subprocess.DEVNULL)
        numbers = dataset.dataset(out).to_table(columns=["row"])["row"].to_pylist()
        rows.append(
            {
                "fault": case,
                "status": started.process.returncode,
                "main gone, seconds": ended,
                "all gone, seconds": last,
                "rows lost": FAULT_TEXTS - len(set(numbers)),
                "rows doubled": len(numbers) - len(set(numbers)),
            }
        )

    def kill_worker(run: Started) -> None:
        with suppress(ProcessLookupError):
            os.kill(run.workers[0], signal.SIGKILL)

    measure("kill -9 of main", lambda run: run.process.kill())
    measure("TERM", lambda run: run.process.terminate())
    measure("Ctrl-C", lambda run: os.killpg(run.process.pid, signal.SIGINT))
    measure("kill -9 of a worker (the run goes on)", kill_worker)
    with cluster(folder) as (address, pids):
        measure(
            "kill -9 of the scheduler",
            lambda _: os.kill(pids[0], signal.SIGKILL),
            "--cluster",
            address,
        )
    ends = [row["all gone, seconds"] for row in rows if "goes on" not in row["fault"]]
    bars = [
        Bar(
            "rows lost or doubled",
            float(sum(row["rows lost"] + row["rows doubled"] for row in rows)),
            "<=",
            0.0,
        ),
        Bar("seconds until a run that was stopped has gone with its workers", max(ends), "<=", 5.0),
        Bar(
            "seconds after TERM or Ctrl-C",
            max(row["all gone, seconds"] for row in rows[1:3]),
            "<=",
            2.0,
        ),
    ]
    settings = {"texts": FAULT_TEXTS, "rows per part": FAULT_PART_ROWS, "workers": WORKERS}
    return report("corpus_faults", rows, seed=SEED, settings=settings, bars=bars)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.corpus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    question = parser.add_mutually_exclusive_group(required=True)
    question.add_argument(
        "--data", metavar="PATH", help="the rate on the reviews of aclImdb_v1.tar.gz"
    )
    question.add_argument("--faults", action="store_true", help="kills and signals")
    question.add_argument("--cluster", type=int, metavar="N", help="N short texts on a cluster")
    parser.add_argument(
        "--quick", action="store_true", help="with --data: 1,000 reviews, without a record"
    )
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        if args.data:
            met = measure_rate(Path(name), args.data, args.quick)
        else:
            if args.faults:
                met = measure_faults(Path(name))
            else:
                met = measure_cluster(Path(name), args.cluster)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
