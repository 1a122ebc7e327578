"""What the reproductions of the papers' tables share: a row with both numbers, the command line,
where things go.

A reproduction is a benchmark whose rows say which published result they belong to, how many
documents (or trainings, or runs) a number is of, and how far chance may move it. `results_page.py`
makes `RESULTS.md` of all of them, so a number is written down once, by the run that measured it:

    mean_row("P2 Table 6", "encoder, L = 1, SLALOM", errors, paper=(7.34, 0.70), of="trainings")

`--quick` runs a smaller size into `results/quick/`, which is not kept. A full run can be killed:
`Run.part` keeps every part that is done in `results/work/`, and the next run begins with the first
part that is not there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attn_closed_form.app.files.atomic import replacing

from ..harness import RESULTS, Bar, module_of, plain, report
from .terms import of_claim

FIGURES = RESULTS.parent / "figures"
QUICK = RESULTS / "quick"
WORK = RESULTS / "work"
ARCHIVE = "aclImdb_v1.tar.gz"
# What a row's number is: each mean needs its standard error, and nothing else has one.
STATISTICS = ("mean", "count", "largest", "exact", "once")
QUANTILES = (0.05, 0.5, 0.95)


class Row(NamedTuple):
    """One line of RESULTS.md.

    result : where it is in the papers, such as "P2 Table 6"
    case : which number of that result
    ours, ours_pm : what this run measured, and its standard error
    paper, paper_pm : what is printed there; None where the paper has a picture or nothing
    differs : what is different in the set-up; where the outcome is different, that, and why
    n, of : how many of what were measured, such as 100 "test reviews"
    statistic : "mean" of a sample of n, "count" of those that have a property, "largest" of them;
        "exact" where nothing was drawn; "once" where chance plays a part and one draw was taken,
        which `differs` then explains
    quantiles : 5%, 50% and 95% of the n, where they were kept
    absent, measure, threshold : of a claim, how it was judged (`terms`)
    """

    result: str
    case: str
    ours: float | str
    paper: float | str | None = None
    differs: str = ""
    ours_pm: float | None = None
    paper_pm: float | None = None
    n: int | None = None
    of: str = "documents"
    statistic: str = "exact"
    quantiles: list[float] | None = None
    absent: str | None = None
    measure: str | None = None
    threshold: str | None = None


def mean_row(
    result: str,
    case: str,
    samples: ArrayLike,
    paper: tuple[float, float] | float | None = None,
    differs: str = "",
    of: str = "documents",
) -> Row:
    """Mean, standard error and quantiles of samples; `paper` is a number or (number, its standard
    error).
    """
    x = np.asarray(samples, dtype=float)
    x = x[np.isfinite(x)]
    pm = float(x.std(ddof=1) / np.sqrt(x.size)) if x.size > 1 else None
    value, value_pm = paper if isinstance(paper, tuple) else (paper, None)
    spread = [float(q) for q in np.quantile(x, QUANTILES)] if np.unique(x).size >= 20 else None
    kind = "mean" if x.size > 1 else "once"
    return Row(
        result, case, float(x.mean()), value, differs, pm, value_pm, x.size, of, kind, spread
    )


def claim(
    result: str,
    text: str,
    holds: Sequence[bool],
    differs: str,
    if_not: str = "",
    of: str = "documents",
) -> Row:
    """A sentence of the paper as a count of the cases in which it holds here; `if_not` says why
    where some fail.

    A text that starts with "(ours)" is not a claim of the paper. The standard error is that of the
    share. The table of `terms` says how such a claim is judged.
    """
    good = int(np.sum(holds))
    n = len(holds)
    verdict = differs if good == n else f"disagrees in {n - good} of {n}: {if_not or differs}"
    paper = None if text.startswith("(ours)") else "claimed"
    pm = float(np.sqrt(good / n * (1 - good / n) / n)) if n else None
    return Row(
        result,
        f"claim: {text}",
        f"holds in {good} of {n}",
        paper,
        verdict,
        pm,
        None,
        n,
        of,
        "count",
        None,
        *of_claim(result, text),
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
        parser = argparse.ArgumentParser(
            prog=f"python -m {module_of(name)}", description=doc.splitlines()[0]
        )
        parser.add_argument(
            "--data",
            required=data,
            metavar="PATH",
            type=Path,
            help="folder with aclImdb_v1.tar.gz and ham_part*.csv",
        )
        parser.add_argument("--quick", action="store_true", help="a small size, into results/quick")
        parser.add_argument(
            "--work",
            metavar="PATH",
            type=Path,
            default=WORK,
            help="folder of the parts that are done (results/work)",
        )
        parser.add_argument(
            "--at-most",
            metavar="N",
            type=int,
            help="take N documents, trainings or runs of each kind at most",
        )
        args = parser.parse_args(argv)
        if args.data is not None and not args.data.exists():
            parser.error(f"--data: expected an existing folder, got {args.data}")
        self.at_most: int | None = args.at_most
        self.name = name
        self.quick = bool(args.quick)
        self.start = time.perf_counter()
        self.data: Path = args.data
        self.has_data = args.data is not None
        self.work: Path = args.work
        self.rows: list[Row] = []
        self.earlier = {"seconds": 0.0, "processor seconds": 0.0}

    @property
    def imdb(self) -> Path:
        """The IMDB archive, or an unpacked folder."""
        archive = self.data / ARCHIVE
        return archive if archive.exists() else self.data

    def wanted(self, n: int) -> int:
        """How many of n planned documents, trainings or runs to take: n, or fewer if `--at-most`
        says so.
        """
        return n if self.at_most is None else min(n, self.at_most)

    def say(self, text: str) -> None:
        """Progress, on stderr."""
        print(
            f"[{time.perf_counter() - self.start:6.1f} s] {self.name}: {text}",
            file=sys.stderr,
            flush=True,
        )

    def part(self, name: str, settings: dict[str, Any], compute: Callable[[], Any]) -> Any:
        """What `compute()` returns (plain numbers, lists, dictionaries), from the work folder if it
        is there.

        A part with other `settings` is computed again. A quick run keeps nothing.
        """
        if self.quick:
            return compute()
        file = self.work / self.name / f"{name}.json"
        if file.exists():
            saved = json.loads(file.read_text(encoding="utf-8"))
            if saved["settings"] == settings:
                for key in self.earlier:
                    self.earlier[key] += saved[key]
                return saved["value"]
        began = time.perf_counter()
        spent = time.process_time()
        value = compute()
        record = {
            "settings": settings,
            "seconds": time.perf_counter() - began,
            "processor seconds": time.process_time() - spent,
            "value": value,
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            partial.write_text(json.dumps(record, default=plain), encoding="utf-8")
        self.say(f"part {name} is done")
        return json.loads(json.dumps(value, default=plain))

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
        spent = {
            "seconds": time.perf_counter() - self.start,
            "processor seconds": time.process_time(),
        }
        spent = {key: round(value + self.earlier[key], 1) for key, value in spent.items()}
        settings = {**settings, "quick": self.quick, **spent}
        if self.at_most is not None:
            settings["at most, for want of processor time"] = self.at_most
        rows = [
            {key: value for key, value in row._asdict().items() if value is not None}
            for row in self.rows
        ]
        folder = QUICK if self.quick else RESULTS
        met = report(self.name, rows, seed=seed, settings=settings, bars=bars, folder=folder)
        return 0 if met else 1
