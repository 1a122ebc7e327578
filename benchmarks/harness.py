"""Functions that all benchmarks share: a timer, an error measure, and a report that keeps error and
time together.

A benchmark makes a list of rows (plain dictionaries), a few bars, and calls `report`, which prints
the table, writes `results/NAME.json` with the machine, the versions and the seed, and returns
whether every bar was met:

    rows = [{"case": "one document", "method": "closed form", "error": 1e-15, "seconds": best_of(run).best}]
    report("gradient", rows, bars=[Bar("speed-up", 40.0, ">=", 10.0)], seed=0, settings={"K": 6})

Column names that mean something: `seconds` is printed in a unit that fits, `error` in scientific
notation.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

RESULTS = Path(__file__).parent / "results"
# Calls shorter than this are repeated inside one measurement, to rise above the clock's own cost.
SHORTEST = 2e-3

Row = Mapping[str, Any]


class Timing(NamedTuple):
    """Seconds per call: the best of the repeats (the least disturbed one), their median, and how
    many there were.
    """

    best: float
    median: float
    repeats: int


class Bar(NamedTuple):
    """A promise with a number: `Bar("speed-up", 43.0, ">=", 10.0)`."""

    name: str
    measured: float
    relation: str
    limit: float

    @property
    def met(self) -> bool:
        """Whether the measured number keeps the promise; NaN never does."""
        if self.relation not in ("<=", ">="):
            raise ValueError(f"relation: expected '<=' or '>=', got {self.relation!r}")
        if self.relation == "<=":
            return self.measured <= self.limit
        return self.measured >= self.limit


def module_of(name: str) -> str:
    """Return the module that writes `results/NAME.json`: an experiment of the papers, or a
    benchmark of ours.
    """
    if (Path(__file__).parent / "papers" / f"{name}.py").is_file():
        return f"benchmarks.papers.{name}"
    return f"benchmarks.{name}"


def best_of(function: Callable[[], Any], repeats: int = 7, warm_up: int = 1) -> Timing:
    """Time of `function()`: best of `repeats`, after `warm_up` calls that are not counted
    (compilation, caches).

    JAX returns before it has computed, so a JAX result is waited for inside the measured time.
    """
    if "jax" in sys.modules:
        run = _waiting(function)
    else:
        run = function
    for _ in range(warm_up):
        run()
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    calls = max(1, int(SHORTEST / max(first, 1e-9)))
    times = [first] if calls == 1 else []
    while len(times) < repeats:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        times.append((time.perf_counter() - start) / calls)
    return Timing(min(times), statistics.median(times), repeats)


def _waiting(function: Callable[[], Any]) -> Callable[[], Any]:
    """`function`, returning only when its JAX results are there; other results pass at the cost of
    one type test.
    """
    import jax

    def run() -> Any:
        result = function()
        if isinstance(result, np.ndarray):
            return result
        return jax.block_until_ready(result)

    return run


def relative_error(got: ArrayLike, expected: ArrayLike) -> float:
    """Largest absolute difference over the largest absolute expected entry."""
    got = np.asarray(got, dtype=float)
    expected = np.asarray(expected, dtype=float)
    if got.shape != expected.shape:
        raise ValueError(f"got: expected shape {expected.shape}, got {got.shape}")
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def report(
    name: str,
    rows: Sequence[Row],
    *,
    seed: int | None,
    settings: Row | None = None,
    bars: Sequence[Bar] = (),
    folder: Path = RESULTS,
) -> bool:
    """Print the rows and the bars, write `folder/NAME.json`, and say whether every bar was met."""
    print(f"\n{name}: " + ", ".join(f"{key} = {value}" for key, value in (settings or {}).items()))
    print(table(rows))
    for bar in bars:
        verdict = "met" if bar.met else "MISSED"
        print(f"{verdict}: {bar.name}: {bar.measured:.3g}, to be {bar.relation} {bar.limit:g}")
    record = {
        "name": name,
        "settings": dict(settings or {}),
        "seed": seed,
        "rows": [dict(row) for row in rows],
        "bars": [{**bar._asdict(), "met": bar.met} for bar in bars],
        "machine": machine(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(
        json.dumps(record, indent=1, default=plain) + "\n", encoding="utf-8"
    )
    return all(bar.met for bar in bars)


def machine() -> dict[str, Any]:
    """Where and with what the numbers were measured."""
    packages = (
        "numpy",
        "scipy",
        "jax",
        "jaxlib",
        "lime",
        "shap",
        "shapiq",
        "torch",
        "scikit-learn",
    )
    loaded = {p for p in packages if p.replace("scikit-learn", "sklearn") in sys.modules}
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        # Runnable processes in the last minute: well above the cores, and the times are those of a
        # busy machine.
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {
            package: metadata.version(package) for package in packages if package in loaded
        },
        "devices": [str(device) for device in sys.modules["jax"].devices()]
        if "jax" in loaded
        else [],
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        "unknown",
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text; the columns are the union of their keys, in order of appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns] + [[_cell(column, row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    numeric = [all(not isinstance(row.get(column), str) for row in rows) for column in columns]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | str) or not isinstance(value, float | np.floating):
        return str(value)
    if "seconds" in column:
        return show_seconds(float(value))
    if "error" in column:
        return f"{value:.1e}"
    return f"{value:.4g}"


def show_seconds(seconds: float) -> str:
    """Three digits in the unit that fits: `show_seconds(0.00123)` is '1.23 ms'."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError("unreachable")


def plain(value: Any) -> Any:
    """NumPy numbers and arrays for JSON."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} to JSON")
