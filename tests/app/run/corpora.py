"""Small corpora, and ways to run and read them."""

import time
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attn_closed_form.app.run import plan as planning
from attn_closed_form.app.run.plan import planned
from attn_closed_form.app.run.runner import run
from attn_closed_form.app.run.task import Task
from tests.patience import PATIENCE

WORDS = [
    "the",
    "film",
    "was",
    "a",
    "slow",
    "but",
    "wonderful",
    "story",
    "with",
    "bad",
    "acting",
    "so",
    "dull",
    "fine",
]
ROOT = Path(__file__).parents[3]


def texts(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(3, 30))) for _ in range(n)]


def write(path, values, column="text", **options):
    pq.write_table(
        pa.table({"id": pa.array(range(len(values))), column: pa.array(values)}), path, **options
    )
    return path


def read(folder):
    return pa.concat_tables(
        [pq.read_table(part) for part in sorted(Path(folder).glob("part-*.parquet"))]
    )


def parts_of(rows):
    """Parts of this many rows, for the tests that want several of them from a few rows."""
    return mock.patch.multiple(planning, PART_ROWS=rows, CLUSTER_ROWS=rows, LEAST_ROWS=rows)


def run_all(source, folder, task=None, part_rows=4, workers=1, cluster=None, **options):
    """Explain everything; returns the last progress, or None if nothing was to do."""
    task = task or Task()
    with parts_of(part_rows), planned(source, folder, task, **options) as plan:
        return [None, *run(task, plan.missing, workers, cluster)][-1]


def part_bytes(folder):
    return {part.name: part.read_bytes() for part in sorted(Path(folder).glob("part-*.parquet"))}


def wait_for(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
    return found
