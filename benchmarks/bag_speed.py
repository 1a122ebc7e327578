"""From a slide's features to its map and table: `python -m benchmarks.bag_speed`.

Time and memory of the whole command.

A bag in h5 (n tiles of 1,024 float32 features, random) and a network of CLAM's size (512, 256, two
classes, random) go through `attn-closed-form bag MODEL SLIDE --map --csv` in a separate process:
start of Python, reading, scoring the instances in float64, exact Shapley values, map and table.
Memory is the largest resident set of that process.

`bag_bounds.json` has the time of `bounds_by_size` with 100,000 players at 200 shares; `--sizes ''`
measures it alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from attn_closed_form import PooledGame, bounds_by_size

from .harness import Bar, Row, report

FEATURES = 1024
# Instances: seconds and gigabytes that we promise.
LIMITS = {10_000: (3.0, None), 80_000: (15.0, 1.5)}
PLAYERS = 100_000
SEED = 0


def write_model(path: Path, rng: np.random.Generator) -> None:
    """A gated CLAM network of the published size with random weights, float32."""
    shapes = {
        "attention_net.0": (512, FEATURES),
        "attention_net.2.attention_a.0": (256, 512),
        "attention_net.2.attention_b.0": (256, 512),
        "attention_net.2.attention_c": (1, 256),
        "classifiers": (2, 512),
    }
    arrays = {}
    for name, (rows, columns) in shapes.items():
        arrays[f"{name}.weight"] = (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(
            np.float32
        )
        arrays[f"{name}.bias"] = np.zeros(rows, dtype=np.float32)
    # Attention that is as uneven as a trained one.
    arrays["attention_net.2.attention_c.weight"] *= 8
    with path.open("wb") as stream:
        np.savez(stream, **arrays)


def write_bag(path: Path, n: int, rng: np.random.Generator) -> None:
    """Random features of tiles on a grid, as TRIDENT writes them."""
    import h5py

    side = int(np.ceil(np.sqrt(n)))
    cells = rng.permutation(side * side)[:n]
    with h5py.File(path, "w") as file:
        file["features"] = rng.standard_normal((n, FEATURES), dtype=np.float32)
        coords = file.create_dataset(
            "coords", data=256 * np.stack([cells % side, cells // side], axis=1)
        )
        coords.attrs["patch_size_level0"] = 256


def command(folder: Path, n: int) -> tuple[float, float, float]:
    """Seconds on the clock and of the processor, and gigabytes, of one run of the command."""
    files = ["--map", str(folder / "map.png"), "--csv", str(folder / "scores.csv")]
    line = [
        sys.executable,
        "-m",
        "attn_closed_form",
        "bag",
        str(folder / "model.npz"),
        str(folder / f"{n}.h5"),
        *files,
    ]
    start = time.perf_counter()
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"the command ended with status {status}: {' '.join(line)}")
    seconds = time.perf_counter() - start
    if sum(1 for _ in (folder / "scores.csv").open(encoding="utf-8")) != n + 1:
        raise RuntimeError(f"expected {n} rows in scores.csv")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def bounds(repeats: int) -> None:
    """Time of the certified minimum and maximum by size of random games, the least of some runs,
    and their gap.
    """
    rng = np.random.default_rng(SEED)
    rows: list[Row] = []
    for heads in (1, 3):
        game = PooledGame.from_scores(
            rng.normal(size=(heads, PLAYERS)), rng.normal(size=(heads, PLAYERS))
        )
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            found = bounds_by_size(game)
            times.append(time.perf_counter() - start)
        gap = max(
            (found.attained_min - found.proved_min).max(),
            (found.proved_max - found.attained_max).max(),
        )
        rows.append(
            {"players": PLAYERS, "heads": heads, "seconds": min(times), "largest gap": float(gap)}
        )
    bar = Bar("seconds, one head", float(rows[0]["seconds"]), "<=", 5.0)
    report("bag_bounds", rows, seed=SEED, settings={"repeats": repeats, "shares": 200}, bars=[bar])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", default="1000,10000,80000", help="instances (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    bounds(args.repeats)
    if not args.sizes:
        return
    rng = np.random.default_rng(SEED)
    rows: list[Row] = []
    bars = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model.npz", rng)
        for n in map(int, args.sizes.split(",")):
            write_bag(folder / f"{n}.h5", n, rng)
            runs = [command(folder, n) for _ in range(args.repeats)]
            seconds = min(run[0] for run in runs)
            processor = min(run[1] for run in runs)
            gigabytes = max(run[2] for run in runs)
            row = {
                "instances": n,
                "features": FEATURES,
                "seconds": seconds,
                "processor seconds": processor,
            }
            rows.append({**row, "gigabytes": gigabytes})
            limit, memory = LIMITS.get(n, (None, None))
            if limit is not None:
                bars.append(Bar(f"seconds, {n} instances", seconds, "<=", limit))
            if memory is not None:
                bars.append(Bar(f"gigabytes, {n} instances", gigabytes, "<=", memory))
            (folder / f"{n}.h5").unlink()
    report("bag_speed", rows, seed=SEED, settings={"repeats": args.repeats}, bars=bars)


if __name__ == "__main__":
    main()
