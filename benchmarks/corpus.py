"""A whole corpus: exact Shapley values of the IMDB test reviews by `corpus run`, against official lime.

Documents per second with one and with two worker processes, the memory of all processes together, and lime's rate at
its default 5,000 samples in the same run, with the model's own prediction as classifier. Times include the start of
the workers and the writing of the files. `python -m benchmarks.corpus --data aclImdb_v1.tar.gz`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attn_closed_form import TruncationWarning, load_demo_model, predict_many
from attn_closed_form.run.mappers import Processes
from attn_closed_form.run.plan import planned
from attn_closed_form.run.reporter import Meter, reported
from attn_closed_form.run.run import run
from attn_closed_form.run.task import Task
from jax_model.training.imdb import load_imdb

from .harness import Bar, report
from .processes import children

WORKERS = (1, 2)
LIME_DOCUMENTS = 8


class Memory(threading.Thread):
    """Largest resident memory of a process, with its children or alone, sampled ten times a second, in MB."""

    def __init__(self, pid: int | None = None, alone: bool = False) -> None:
        super().__init__(daemon=True)
        self.pid, self.alone = pid or os.getpid(), alone
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
            sizes = [_resident(pid) for pid in (self.pid, *([] if self.alone else children(self.pid)))]
            self.largest, self.total = max(self.largest, *sizes), max(self.total, sum(sizes))


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


class Run(NamedTuple):
    """One run over the corpus: seconds, rows with an error, memory of all processes and of the largest, in MB."""

    seconds: float
    failed: int
    total: float
    largest: float


def explain_all(source: Path, folder: Path, workers: int) -> Run:
    task = Task(methods=("shapley",))
    start = time.perf_counter()
    with Memory() as memory, planned(source, folder, task, workers=workers) as made, reported(Meter(made.rows)) as show:
        for last in run(task, made.missing, Processes(workers)):
            show(last)
    return Run(time.perf_counter() - start, last.failed, memory.total, memory.largest)


def lime_rate(texts: list[str]) -> float:
    """Documents per second of the official package, as its user would call it."""
    from lime.lime_text import LimeTextExplainer

    model = load_demo_model()
    weights, vocabulary = model.weights, model.vocabulary

    def classify(rows: list[str]) -> NDArray[np.float64]:
        positive = 1 / (1 + np.exp(-predict_many(weights, [vocabulary.encode(row) for row in rows])))
        return np.concatenate([1 - positive, positive], axis=1)

    explainer = LimeTextExplainer(random_state=0)
    explainer.explain_instance(texts[0], classify, num_features=10, num_samples=100)
    start = time.perf_counter()
    for text in texts:
        explainer.explain_instance(text, classify, num_features=len(text.split()), num_samples=5000)
    return len(texts) / (time.perf_counter() - start)


def main(argv: list[str] | None = None) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus", description=__doc__)
    parser.add_argument("--data", required=True, metavar="PATH", help="aclImdb_v1.tar.gz")
    parser.add_argument("--quick", action="store_true", help="1,000 reviews instead of 25,000")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore", TruncationWarning)
    texts = load_imdb(args.data, "test").texts
    texts = texts[::25] if args.quick else texts
    few = texts[:: len(texts) // LIME_DOCUMENTS][:LIME_DOCUMENTS]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "reviews.parquet"
        pq.write_table(pa.table({"text": texts}), source, row_group_size=2000)
        runs = {workers: explain_all(source, Path(folder) / f"out{workers}", workers) for workers in WORKERS}
        size = sum(part.stat().st_size for part in (Path(folder) / "out2").iterdir())
    rates = {workers: len(texts) / found.seconds for workers, found in runs.items()}
    peer = lime_rate(few)
    rows: list[dict[str, Any]] = [
        {
            "method": f"exact Shapley (ours), workers: {workers}",
            "documents": len(texts),
            "seconds": found.seconds,
            "documents/s": rates[workers],
            "MB in all": found.total,
        }
        for workers, found in runs.items()
    ]
    rows.append(
        {"method": "lime, 5000 samples", "documents": len(few), "seconds": len(few) / peer, "documents/s": peer}
    )
    bars = [
        Bar("documents per second, two workers", rates[2], ">=", 500.0),
        Bar("time with one worker over time with two", runs[1].seconds / runs[2].seconds, ">=", 1.7),
        Bar("times lime's rate", rates[2] / peer, ">=", 100.0),
        Bar("peak memory of all processes together, MB", runs[2].total, "<=", 1024.0),
        Bar("rows with an error", float(runs[1].failed + runs[2].failed), "<=", 0.0),
    ]
    settings = {
        "players": "words",
        "largest process, MB": round(runs[2].largest),
        "output, bytes per document": round(size / len(texts)),
    }
    return 0 if report("corpus", rows, seed=0, settings=settings, bars=bars) else 1


if __name__ == "__main__":
    sys.exit(main())
