"""What each device program costs, by XLA, and what a card could therefore do: `python -m benchmarks.device_costs`.

Operations, bytes and memory per document come from XLA's cost and memory analysis of the compiled programs
(`jax_model/device/programs.py`), for the shipped model and documents of one size; loops are counted as often as they
run. From them follows a **prediction** for a named card: the time that its published peak rates allow,

    seconds = max(operations / peak operations per second, bytes / memory bandwidth),

summed over the programs of a task. It is made without the card: the counts are those of the programs as compiled for
the machine at hand, and it knows nothing of launches, of caches, or of the host, which chooses the nodes between two
programs. `make bench-device` measures.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NamedTuple

import jax

from jax_model.device.loops import CHUNK_OTHER
from jax_model.device.programs import TASKS, Program, programs

from .device import DOCUMENTS, FLOAT32_TOL, SEED, load_documents
from .harness import report
from .models import benchmark_model

# An exponential or a logarithm is a polynomial of some ten terms and a scaling: this many operations.
TRANSCENDENTAL = 20


class Card(NamedTuple):
    """Published peak rates, without matrix units: operations per second by floating type, bytes per second."""

    float32: float
    float64: float
    bandwidth: float
    source: str


CARDS = {
    "NVIDIA A100 SXM 80 GB": Card(19.5e12, 9.7e12, 2.039e12, "NVIDIA A100 Tensor Core GPU, data sheet of June 2021"),
    "NVIDIA H100 SXM 80 GB": Card(67e12, 34e12, 3.35e12, "NVIDIA H100 Tensor Core GPU, data sheet of 2023"),
}


class Cost(NamedTuple):
    """Per document: operations, bytes read or written, and bytes of working memory beside arguments and results."""

    operations: float
    bytes: float
    memory: float

    def seconds(self, card: Card, dtype: str) -> float:
        """What the card's peak rates allow."""
        return max(self.operations / float(getattr(card, dtype)), self.bytes / card.bandwidth)


def cost_of(program: Program) -> Cost:
    """XLA's analysis of a program, with the rounds of its loops that XLA does not count."""
    compiled = program.function.lower(*program.arguments).compile()
    operations, moved = _counted(compiled)
    for loop in program.loops:
        more = _counted(loop.function.lower(*loop.arguments).compile())
        operations += loop.more * more[0]
        moved += loop.more * more[1]
    memory = float(compiled.memory_analysis().temp_size_in_bytes)
    return Cost(*(x / program.documents for x in (operations, moved, memory)))


def _counted(compiled: Any) -> tuple[float, float]:
    found = compiled.cost_analysis()
    if isinstance(found, list):  # one entry per program, before JAX 0.4.36
        (found,) = found
    operations = found.get("flops", 0.0) + TRANSCENDENTAL * found.get("transcendentals", 0.0)
    return float(operations), float(found.get("bytes accessed", 0.0))


def rows_of(costs: dict[str, Cost], dtype: str) -> list[dict[str, Any]]:
    """One row per task: what its programs cost together, and what each card could do."""
    rows = []
    for task, names in TASKS.items():
        if task == "training step" and dtype != "float32":
            continue
        own = [costs[name] for name in names]
        row: dict[str, Any] = {
            "task": task,
            "type": dtype,
            "operations per document": sum(cost.operations for cost in own),
            "bytes per document": sum(cost.bytes for cost in own),
            "working bytes per document": max(cost.memory for cost in own),
        }
        for name, card in CARDS.items():
            row[f"predicted documents/s, {name}"] = 1 / sum(cost.seconds(card, dtype) for cost in own)
        rows.append(row)
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device_costs", description=__doc__)
    parser.add_argument("--data", metavar="PATH", help="aclImdb_v1.tar.gz, for real reviews")
    args = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)
    weights, name = benchmark_model(SEED)
    documents = load_documents(args.data, DOCUMENTS)
    rows: list[dict[str, Any]] = []
    for dtype in ("float64", "float32"):
        tol = 1e-10 if dtype == "float64" else FLOAT32_TOL
        made = programs(weights, documents, dtype, tol, CHUNK_OTHER)
        needed = {name for names in TASKS.values() for name in names}
        rows += rows_of({name: cost_of(made[name]) for name in needed}, dtype)
    settings = {
        "model": name,
        "documents": DOCUMENTS,
        "players, filled up": made["value"].arguments[1].shape[1],
        "games at once": CHUNK_OTHER,
        "kind": "prediction from XLA's cost analysis; nothing was measured on a card",
        "cards": "; ".join(f"{name}: {card.source}" for name, card in CARDS.items()),
    }
    return 0 if report("device_costs", rows, seed=SEED, settings=settings) else 1


if __name__ == "__main__":
    sys.exit(main())
