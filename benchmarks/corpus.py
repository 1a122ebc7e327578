"""A whole corpus: exact Shapley values of the IMDB test reviews by `attn-closed-form corpus`, against official lime.

Documents a second over two processes, the memory of the largest of them, and lime's rate at its default 5,000 samples
in the same run, with the model's own prediction as classifier. `python -m benchmarks.corpus --data aclImdb_v1.tar.gz`.
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_closed_form import TruncationWarning, load_demo_model, predict_many
from attn_closed_form.corpus.mappers import Processes
from attn_closed_form.corpus.plan import planned
from attn_closed_form.corpus.reporter import Meter, reported
from attn_closed_form.corpus.run import run
from attn_closed_form.corpus.task import Task
from attn_closed_form.evaluate.datasets import load_imdb

from .harness import Bar, report

WORKERS = 2
LIME_DOCUMENTS = 8


class Memory(threading.Thread):
    """Largest resident memory of this process and its children, each on its own, sampled ten times a second, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest = 0.0
        self.total = 0.0
        self.stop = threading.Event()

    def run(self) -> None:
        """Watch until told to stop."""
        while not self.stop.wait(0.1):
            sizes = [_resident(pid) for pid in (os.getpid(), *_children(os.getpid()))]
            self.largest, self.total = max(self.largest, *sizes), max(self.total, sum(sizes))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


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
        memory = Memory()
        memory.start()
        start = time.perf_counter()
        task = Task(methods=("shapley",))
        with planned(source, Path(folder) / "out", task, workers=WORKERS) as made, reported(Meter(made.rows)) as show:
            for last in run(task, made.missing, Processes(WORKERS)):
                show(last)
        failed = last.failed
        seconds = time.perf_counter() - start
        memory.stop.set()
        memory.join()
    rate, peer = len(texts) / seconds, lime_rate(few)
    rows_out: list[dict[str, Any]] = [
        {"method": "exact Shapley (ours)", "documents": len(texts), "seconds": seconds, "documents/s": rate},
        {"method": "lime, 5000 samples", "documents": len(few), "seconds": len(few) / peer, "documents/s": peer},
    ]
    bars = [
        Bar("documents per second", rate, ">=", 100.0),
        Bar("times lime's rate", rate / peer, ">=", 100.0),
        Bar("peak memory of all processes together, MB", memory.total, "<=", 1024.0),
        Bar("rows with an error", float(failed), "<=", 0.0),
    ]
    settings = {"workers": WORKERS, "players": "words", "largest process, MB": round(memory.largest)}
    return 0 if report("corpus", rows_out, seed=0, settings=settings, bars=bars) else 1


if __name__ == "__main__":
    sys.exit(main())
