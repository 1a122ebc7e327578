"""What the reproductions of the papers' tables share: a row with both numbers, the command line, where things go.

A reproduction is a benchmark whose rows say which published result they belong to. `results_page.py` makes
`RESULTS.md` of all of them, so a number is written down once, by the run that measured it:

    Row(result="P2 Table 6", case="encoder, L = 1, SLALOM", ours=8.1, paper=7.34, differs="trained from scratch")

`--quick` runs a smaller size into `results/quick/`, which is not kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .harness import RESULTS, Bar, report

FIGURES = RESULTS.parent / "figures"
QUICK = RESULTS / "quick"
ARCHIVE = "aclImdb_v1.tar.gz"


class Row(NamedTuple):
    """One line of RESULTS.md.

    result : where it is in the papers, such as "P2 Table 6"
    case : which number of that result
    ours, ours_pm : what this run measured, and its standard error
    paper, paper_pm : what is printed there; None where the paper has a picture or nothing
    differs : what is different in the set-up; where the outcome is different, that, and why
    """

    result: str
    case: str
    ours: float | str
    paper: float | str | None = None
    differs: str = ""
    ours_pm: float | None = None
    paper_pm: float | None = None


def mean_row(
    result: str, case: str, samples: ArrayLike, paper: tuple[float, float] | float | None = None, differs: str = ""
) -> Row:
    """Mean and standard error of samples; `paper` is a number or (number, its standard error)."""
    x = np.asarray(samples, dtype=float)
    pm = float(x.std(ddof=1) / np.sqrt(x.size)) if x.size > 1 else None
    value, value_pm = paper if isinstance(paper, tuple) else (paper, None)
    return Row(result, case, float(x.mean()), value, differs, pm, value_pm)


def claim(result: str, text: str, holds: Sequence[bool], differs: str, if_not: str = "") -> Row:
    """A sentence of the paper as a count of the cases in which it holds here; `if_not` says why where some fail.

    A text that starts with "(ours)" is no claim of the paper.
    """
    good, n = int(np.sum(holds)), len(holds)
    verdict = differs if good == n else f"disagrees in {n - good} of {n}: {if_not or differs}"
    return Row(
        result, f"claim: {text}", f"holds in {good} of {n}", None if text.startswith("(ours)") else "claimed", verdict
    )


class Run:
    """Command line, clock and output of one reproduction.

    Parameters
    ----------
    name : of the module, and of its JSON file and figure
    doc : first line describes it in --help
    data : whether it needs the papers' data
    """

    def __init__(self, name: str, doc: str, argv: list[str] | None, data: bool) -> None:
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=doc.splitlines()[0])
        parser.add_argument(
            "--data", required=data, metavar="PATH", type=Path, help="folder with aclImdb_v1.tar.gz and ham_part*.csv"
        )
        parser.add_argument("--quick", action="store_true", help="a small size, into results/quick")
        args = parser.parse_args(argv)
        self.name, self.quick, self.start = name, bool(args.quick), time.perf_counter()
        self.data: Path = args.data
        self.rows: list[Row] = []

    @property
    def imdb(self) -> Path:
        """The IMDB archive, or an unpacked folder."""
        archive = self.data / ARCHIVE
        return archive if archive.exists() else self.data

    def say(self, text: str) -> None:
        """Progress, on stderr."""
        print(f"[{time.perf_counter() - self.start:6.1f} s] {self.name}: {text}", file=sys.stderr, flush=True)

    def figure(self, **size: Any) -> Any:
        """A matplotlib figure and its axes, to hand to `save`."""
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        return plt.subplots(layout="constrained", **size)

    def save(self, figure: Any, suffix: str = "") -> None:
        """Write the figure, small enough for a repository."""
        folder = QUICK if self.quick else FIGURES
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{self.name}{suffix}.png", dpi=70)

    def finish(self, settings: dict[str, Any], seed: int = 0, bars: Sequence[Bar] = ()) -> int:
        """Print, write the JSON file, and return the exit status."""
        settings = {**settings, "quick": self.quick, "seconds": round(time.perf_counter() - self.start, 1)}
        rows = [{key: value for key, value in row._asdict().items() if value is not None} for row in self.rows]
        folder = QUICK if self.quick else RESULTS
        met = report(self.name, rows, seed=seed, settings=settings, bars=bars, folder=folder)
        return 0 if met else 1
