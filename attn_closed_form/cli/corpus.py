"""`attn-closed-form corpus`: explanations of every row of a table, and the words that matter most in them."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..explanations.settings import Settings
from .explain import method_names
from .source import add_model_option, add_settings_options, read_settings

if TYPE_CHECKING:
    from ..run.plan import Plan
    from ..run.reporter import Meter
    from ..run.task import Task

EXAMPLES = """\
examples:
  attn-closed-form corpus run reviews.parquet out/ --column review
  attn-closed-form corpus run reviews.csv.gz out/ --columns id,label --method shapley,lime --workers 8
  attn-closed-form corpus run folder/ out/ --scheduler tcp://10.0.0.5:8786    # a Dask cluster that sees the same paths
  attn-closed-form corpus summary out/                                        # the words that matter most
  attn-closed-form corpus summary out/ --by mean --least 50 --plot words.png

A run that was interrupted goes on where it stopped: give the same command again. Rows that cannot be explained have
their reason in the column `error`. OUT is a Parquet dataset: pandas.read_parquet("out") reads it.
"""


def add_parser(subparsers: Any) -> None:
    """Register the command and its two subcommands."""
    parser = subparsers.add_parser(
        "corpus",
        help="explain every row of a table; summarise the result",
        description="Explain every row of a table, exactly, in parallel; or summarise what was found.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="corpus_command", required=True, metavar="run|summary")
    style: dict[str, Any] = {"epilog": EXAMPLES, "formatter_class": argparse.RawDescriptionHelpFormatter}
    _add_run(commands.add_parser("run", help="explain every row", description="Explain every row.", **style))
    _add_summary(commands.add_parser("summary", help="the words that matter most", description="Summarise.", **style))


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="IN", help="Parquet, CSV, TSV or JSON Lines (gzipped or not), a folder of them, or of bags"
    )
    parser.add_argument("folder", metavar="OUT", help="folder of the results")
    parser.add_argument("--method", type=method_names, metavar="NAME[,NAME]", help="methods (default: shapley)")
    parser.add_argument("--column", metavar="NAME", help="column of inputs (default: text; path for bags)")
    parser.add_argument(
        "--columns", metavar="NAME[,NAME]", help="columns of yours to keep (default: all but the inputs; '' for none)"
    )
    parser.add_argument("--workers", type=_count, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="use a Dask cluster instead of processes")
    add_model_option(parser)
    add_settings_options(parser)
    parser.add_argument(
        "--part-rows", type=_count, metavar="N", help="rows per file (default: several files per worker)"
    )
    parser.add_argument(
        "--max-chars", type=_count, default=1_000_000, metavar="N", help="longer is an error (default: 1,000,000)"
    )
    parser.add_argument("--restart", action="store_true", help="remove what an earlier run left in OUT, and begin anew")
    parser.add_argument(
        "--progress", choices=("bar", "plain", "json", "none"), help="default: bar on a terminal, else plain lines"
    )
    parser.set_defaults(run=run)


def _add_summary(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="OUT", help="folder of the results")
    parser.add_argument("--method", metavar="NAME", help="whose scores (default: the first there is)")
    parser.add_argument("--output", metavar="NAME", help="only this class (default: every class that was explained)")
    parser.add_argument("--top", type=_count, default=20, metavar="N", help="how many words (default: 20)")
    parser.add_argument("--by", choices=("total", "mean"), default="total", help="order by (default: total)")
    parser.add_argument("--least", type=_count, default=1, metavar="N", help="words in at least N documents")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.add_argument("--plot", metavar="FILE", help="write a bar chart of what the order is by (needs matplotlib)")
    parser.set_defaults(run=summary)


def _count(value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {value!r}")
    return int(value)


class Terminated(BaseException):
    """SIGTERM, which `timeout`, systemd and batch systems send."""


def run(args: argparse.Namespace) -> int:
    """Explain every row; status 1 if no row at all could be explained, 130 and 143 if it was stopped."""
    from ..run.plan import planned
    from ..run.reporter import Meter

    begin = time.monotonic()
    task = _task(args)
    plan = meter = None
    try:
        with (
            _terminable(),
            planned(
                args.source,
                args.folder,
                task,
                args.part_rows,
                workers=None if args.scheduler else args.workers,
                restart=args.restart,
            ) as plan,
        ):
            if plan.done and args.progress not in ("json", "none"):
                print(f"{plan.rows_done:,} of {plan.rows:,} documents are there already", file=sys.stderr)
            meter = Meter(plan.rows, plan.rows_done)
            _explain(args, task, plan, meter)
    except (KeyboardInterrupt, Terminated) as stopped:
        print(f"stopped: {_how_far(args.folder, plan)}", file=sys.stderr)
        return 130 if isinstance(stopped, KeyboardInterrupt) else 143
    except (ValueError, OSError):
        if meter is not None and meter.last.rows:
            print(_how_far(args.folder, plan), file=sys.stderr)
        raise
    return _finish(args, plan, meter, time.monotonic() - begin)


def _task(args: argparse.Namespace) -> Task:
    from ..run.inputs import input_files
    from ..run.task import Task

    bags = any(file.is_dir() for file in input_files(args.source))
    columns = None if args.columns is None else tuple(name for name in args.columns.split(",") if name)
    return Task(
        column=args.column or ("path" if bags else "text"),
        methods=tuple(args.method or ["shapley"]),
        model=_absolute(args.model),
        settings=Settings(**read_settings(args)),
        max_chars=args.max_chars,
        columns=columns,
    )


def _absolute(model: str | None) -> str | None:
    return str(Path(model).resolve()) if model and Path(model).exists() else model


def _explain(args: argparse.Namespace, task: Task, plan: Plan, meter: Meter) -> None:
    from ..run.cluster import Cluster
    from ..run.mappers import Mapper, Processes
    from ..run.reporter import reported
    from ..run.run import run as run_parts

    mapper: Mapper = Cluster(args.scheduler) if args.scheduler else Processes(args.workers)
    steps = run_parts(task, plan.missing, mapper) if plan.missing else iter(())
    with reported(meter, args.progress) as show:
        for progress in steps:
            show(progress)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM as an exception, so that it ends a run as cleanly as Ctrl-C does."""

    def stop(*_: object) -> NoReturn:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread, where signals are somebody else's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _how_far(folder: str, plan: Plan | None) -> str:
    if plan is None:
        return "nothing was begun"
    there = plan.rows_done + sum(part.rows for part in plan.missing if Path(part.target).exists())
    return f"{there:,} of {plan.rows:,} documents are in {folder}; the same command goes on from there"


def _finish(args: argparse.Namespace, plan: Plan, meter: Meter, seconds: float) -> int:
    rows, failed, lost = meter.last.rows, meter.last.failed, meter.last.lost
    rate = f", {rows / seconds:.0f} per second" if rows else ""
    bad = f", {failed:,} with an error (see the column `error`)" if failed else ""
    workers = f", {lost} workers lost and replaced" if lost else ""
    print(f"{args.folder}: {plan.rows:,} documents, {rows:,} now in {seconds:.1f} s{rate}{bad}{workers}")
    return 1 if rows and failed == rows else 0


def summary(args: argparse.Namespace) -> int:
    """Print the words that matter most, for each output that was explained."""
    from ..run.summary import summarize

    found = summarize(args.folder, args.method)
    outputs = [args.output] if args.output else list(found.outputs)
    words = {output: found.top(output, args.top, args.by, args.least) for output in outputs}
    if args.plot:
        _plot(args, found.method, words)
    documents = dict(zip(found.outputs, found.documents.tolist(), strict=True))
    if args.json:
        shared = {"method": found.method, "rows": found.rows, "of": found.of, "failed": found.failed}
        classes = [
            {"output": output, "documents": documents[output], "words": [word._asdict() for word in own]}
            for output, own in words.items()
        ]
        print(json.dumps({**shared, "outputs": classes}))
        return 0
    of = "" if found.of is None or found.of == found.rows else f" of {found.of:,} (the run is not finished)"
    bad = f", {found.failed:,} with an error" if found.failed else ""
    print(f"{found.method}: {found.rows:,}{of} documents{bad}, {len(found.words):,} words, by {args.by}")
    for output, own in words.items():
        _print_words(output, documents[output], own)
    return 0


def _print_words(output: str, documents: int, words: list[Any]) -> None:
    from ..show.sanitize import visible

    names = [visible(word.word) for word in words]
    width = max([4, *map(len, names)])
    print(f"\n{visible(output)}: explained in {documents:,} documents")
    print(f"{'word':<{width}} {'documents':>9} {'total':>11} {'mean':>9}")
    for name, word in zip(names, words, strict=True):
        print(f"{name:<{width}} {word.documents:>9,} {word.total:>+11.2f} {word.mean:>+9.4f}")


def _plot(args: argparse.Namespace, method: str, words: dict[str, list[Any]]) -> None:
    """One panel per output, below one another."""
    from ..run.summary import plot_summary

    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'attn-closed-form[plots]'") from None
    from ..files.atomic import replacing

    heights = [0.9 + 0.26 * len(own) for own in words.values()]
    figure, panels = plt.subplots(
        len(words), figsize=(7, sum(heights)), layout="constrained", squeeze=False, height_ratios=heights
    )
    for (output, own), ax in zip(words.items(), panels[:, 0], strict=True):
        plot_summary(own, f"{method}: words that speak for or against {output}", args.by, ax)
    with replacing(args.plot) as partial:
        figure.savefig(partial, dpi=120)
    plt.close(figure)
