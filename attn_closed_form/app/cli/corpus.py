"""`attn-closed-form corpus`: explanations of every row of a table, and the words that matter most
in them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..show.sanitize import visible
from .help import FittedHelp
from .options import (
    MODEL,
    Command,
    at_least,
    check_targets,
    files_in,
    method_names,
    read_settings,
    same_file,
    settings_options,
)

if TYPE_CHECKING:
    from ..explanations.word_effects import WordEffect
    from ..run.plan import Plan
    from ..run.summary import Summary
    from ..run.task import Task

# Shown after the options of `corpus` and of both of its commands.
CORPUS_EXAMPLES = """\
examples:
  attn-closed-form corpus run reviews.parquet out/ --column review
  attn-closed-form corpus run reviews.csv.gz out/ --columns id,label --method shapley,lime --workers 8
  attn-closed-form corpus run reviews.csv out --format xlsx                   # also writes out.xlsx, one row per word
  attn-closed-form corpus run folder/ out/ --cluster tcp://10.0.0.5:8786      # a Dask cluster with the same paths
  attn-closed-form corpus summary out/                                        # the words for and against each class
  attn-closed-form corpus summary out/ --by mean --least 50 --plot words.png --html words.html

An interrupted run resumes when you repeat the same command. Rows that cannot be explained have the reason in the
column `error`. OUT is a Parquet dataset: pandas.read_parquet("out") reads it.
"""  # noqa: E501


#: Options for runs over many inputs: where they run, and how progress is shown.
RUN = {
    "--workers N": (at_least(1), os.cpu_count() or 1, "processes (default: all cores)"),
    "--cluster ADDRESS": "use a Dask cluster instead, such as tcp://10.0.0.5:8786",
    "--restart": "remove the results of an earlier run and start again",
    "--progress bar|plain|none": "default: a bar on a terminal, otherwise lines of text",
}


def run(args: argparse.Namespace) -> int:
    """Explain every row. The status is 1 if no row could be explained, and 130 or 143 if the run
    was stopped.
    """
    from ..files.bags import SUFFIXES
    from ..run.inputs import input_files
    from ..run.task import Task
    from ..run.writers import write_results

    if len(args.separator) != 1:
        raise argparse.ArgumentTypeError(
            f"--separator: expected one character, got {args.separator!r}"
        )
    table = None
    if args.format is not None:
        table = Path(args.folder).absolute().with_suffix(f".{args.format}")
        if any(same_file(str(table), file) for file in files_in((args.source, args.model))):
            raise argparse.ArgumentTypeError(
                f"--format: {table} is an input file; choose another OUT"
            )
    bags = input_files(args.source)[0].suffix.lower() in SUFFIXES
    model = args.model
    if model and Path(model).exists():
        model = str(Path(model).resolve())  # workers may run in another folder
    columns = None
    if args.columns is not None:
        columns = tuple(name for name in args.columns.split(",") if name)
    task = Task(
        column=args.column or ("path" if bags else "text"),
        model=model,
        settings=read_settings(args),
        max_chars=args.max_chars,
        columns=columns,
    ).settled(args.method)
    status = explain_all(args, task, args.source, args.folder)
    # A run that was stopped has no complete table to write.
    if table is not None and status in (0, 1):
        write_results(args.folder, table, args.form, args.separator)
        print(f"{table}: written")
    return status


class Terminated(BaseException):
    """Raised on SIGTERM, which `timeout`, systemd and batch systems send."""


def explain_all(
    args: argparse.Namespace, task: Task, source: str, folder: str, unit: str = "documents"
) -> int:
    """Explain every input with the options RUN, and return the exit status."""
    from ..run.plan import planned
    from ..run.reporter import Meter, reported
    from ..run.runner import run as run_parts

    inputs = source
    if not os.path.isdir(source):
        inputs = os.path.dirname(source) or "."
    if same_file(folder, inputs):
        raise argparse.ArgumentTypeError(
            f"{folder}: expected a folder for the results other than that of the inputs"
        )
    begin = time.monotonic()
    workers = None if args.cluster else args.workers
    plan = meter = None
    try:
        with (
            _terminable(),
            planned(source, folder, task, workers=workers, restart=args.restart) as plan,
        ):
            if plan.done and args.progress != "none":
                print(
                    f"{plan.rows_done:,} of {plan.rows:,} {unit} are already done", file=sys.stderr
                )
            meter = Meter(plan.rows, plan.rows_done, unit)
            with (
                reported(meter, args.progress) as show,
                closing(run_parts(task, plan.missing, args.workers, args.cluster)) as steps,
            ):
                for progress in steps:
                    show(progress)
    except (KeyboardInterrupt, Terminated) as stopped:
        print(f"stopped: {_how_far(folder, plan, unit)}", file=sys.stderr)
        # Shells report a signal as 128 plus its number: 2 for SIGINT, 15 for SIGTERM.
        if isinstance(stopped, KeyboardInterrupt):
            return 130
        return 143
    except (ValueError, OSError):
        if meter is not None and meter.last.rows:
            print(_how_far(folder, plan, unit), file=sys.stderr)
        raise
    progress = meter.last
    seconds = time.monotonic() - begin
    facts = [f"{folder}: {plan.rows:,} {unit}", f"{progress.rows:,} now in {seconds:.1f} s"]
    if progress.rows:
        facts.append(f"{progress.rows / seconds:.0f} per second")
    if progress.failed:
        facts.append(f"{progress.failed:,} with an error (see the column `error`)")
    if progress.lost:
        facts.append(f"{progress.lost} workers lost and replaced")
    print(", ".join(facts))
    all_failed = progress.failed > 0 and progress.failed == plan.rows
    return 1 if all_failed else 0


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that it stops a run as cleanly as Ctrl-C does."""

    def stop(*_: object) -> NoReturn:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # only the main thread can handle signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _how_far(folder: str, plan: Plan | None, unit: str) -> str:
    if plan is None:
        return "the run had not started"
    done = plan.rows_done + sum(part.rows for part in plan.missing if Path(part.target).exists())
    return f"{done:,} of {plan.rows:,} {unit} are in {folder}; repeat the command to resume"


def summary(args: argparse.Namespace) -> int:
    """Print the words for and against each output that was explained."""
    from ..explanations.methods import find_method
    from ..run.summary import summarize
    from ..run.summary_page import plot_words, write_summary_page
    from ..run.task import Task

    if args.reports and not args.html:
        raise argparse.ArgumentTypeError("--reports: expected --html FILE as well")
    check_targets((args.folder, args.model), args, ("plot", "html"))
    name = args.method
    if name is not None and (method := find_method(name)) is not None:
        name = method.name  # the full name instead of an alias
    result = summarize(args.folder, name)
    options = {"n": args.top, "by": args.by, "least_documents": args.least}
    outputs = [args.output] if args.output else list(result.outputs)
    words = {output: result.sides(output, args.side, **options) for output in outputs}
    both = {
        output: [word for ranked in sides.values() for word in ranked]
        for output, sides in words.items()
    }
    if args.plot:
        plot_words(result, both, path=args.plot, by=args.by)
    if args.html:
        task = Task(model=args.model) if args.reports else None
        write_summary_page(result, words, args.folder, path=args.html, by=args.by, reports_of=task)
        print(f"wrote {args.html}", file=sys.stderr)
    if args.json:
        print(json.dumps(_summary_data(result, both)))
    else:
        _print_summary(result, words, args.by)
    return 0


def _summary_data(result: Summary, words: Mapping[str, list[WordEffect]]) -> dict[str, Any]:
    """Return a summary as JSON can hold it."""
    outputs = [
        {
            "output": output,
            "scale": result.scale(output).name,
            "documents": result.documents_of(output),
            "words": [word._asdict() for word in ranked],
        }
        for output, ranked in words.items()
    ]
    return {
        "method": result.method,
        "rows": result.rows,
        "of": result.of,
        "failed": result.failed,
        "outputs": outputs,
    }


def _print_summary(
    result: Summary, words: Mapping[str, Mapping[str, list[WordEffect]]], order: str
) -> None:
    """Print the words for and against each output."""
    from ..show.effects import mean_text
    from ..show.terminal import aligned

    unfinished = ""
    if result.of not in (None, result.rows):
        unfinished = f" of {result.of:,} (the run is not finished)"
    errors = f", {result.failed:,} with an error" if result.failed else ""
    print(
        f"{result.method}: {result.rows:,}{unfinished} documents{errors}, {len(result.words):,} "
        f"words, by {order}"
    )
    for output, sides in words.items():
        scale = result.scale(output)
        unit = ", in percentage points" if scale.in_percent else ""
        documents = result.documents_of(output)
        print(f"\n{visible(output)}: {scale.name} explained in {documents:,} documents{unit}")
        print("Mean effects with 95% intervals: over all of them, and in those with the word.")
        rows = []
        for side, ranked in sides.items():
            rows.append([f"{side}:", "documents", "over all", "with the word", "example row"])
            if not ranked:
                rows.append(["none", "", "", "", ""])
            for word in ranked:
                cells = [
                    visible(word.word),
                    f"{word.documents:,}",
                    mean_text(word.ordered_by("total"), scale),
                    mean_text(word.ordered_by("mean"), scale),
                    "" if word.example is None else f"{word.example:,}",
                ]
                rows.append(cells)
        print(aligned(rows))


# The commands of `corpus`.
SUBCOMMANDS = {
    "run": Command(
        description="Explain every row.",
        options={
            "source IN": "Parquet, CSV, TSV or JSON Lines (gzipped or not), a folder of them, or "
            "of bags",
            "folder OUT": "folder of the results",
            "--method NAME[,NAME]": (
                method_names,
                None,
                "methods (default: shapley, or shapley-sampled where no exact values exist)",
            ),
            "--column NAME": "column of inputs (default: text; path for bags)",
            "--columns NAME[,NAME]": (
                "columns to copy to the results (default: all but the inputs; '' for none)"
            ),
            **MODEL,
            **settings_options(),
            "--max-chars N": (
                at_least(1),
                1_000_000,
                "maximum length of a text; a longer one is an error",
            ),
            "--format parquet|csv|xlsx|jsonl": (
                "also write all results to one file next to OUT, such as OUT.csv"
            ),
            "--form long|wide": (
                "one row per word or per input in that file (default: long for csv and xlsx, "
                "otherwise wide)"
            ),
            "--separator CHARACTER": (None, ",", "separator of a CSV file"),
            **RUN,
        },
        run=run,
        examples=CORPUS_EXAMPLES,
    ),
    "summary": Command(
        description="Print the words for and against each class.",
        options={
            "folder OUT": "folder of the results",
            "--method NAME": "method whose scores are summarized (default: the first of the run)",
            "--output NAME": "only this class (default: every class that was explained)",
            "--top N": (at_least(1), 10, "number of words for each class, and against it"),
            "--by total|mean": (None, "total", "order of the words"),
            "--least N": (at_least(1), 1, "only words in at least N documents"),
            "--side supports|opposes": "only words that raise the output, or that lower it "
            "(default: both)",
            "--json": "machine-readable",
            "--html FILE": "write a page with bars, intervals and an example of each word",
            "--reports": "also write the report of each example, and link to it (needs --html)",
            **MODEL,
            "--plot FILE": "write the bars as a picture (.png, .svg, .pdf; needs matplotlib)",
        },
        run=summary,
        examples=CORPUS_EXAMPLES,
    ),
}


def _add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the two commands below `corpus`, each with its own help."""
    commands = parser.add_subparsers(dest="corpus_command", required=True, metavar="run|summary")
    for name, command in SUBCOMMANDS.items():
        subparser = commands.add_parser(name, help=command.description, formatter_class=FittedHelp)
        command.add_to(subparser)


# A subcommand replaces it.
corpus_command = Command(
    description="Explain every row of a table exactly and in parallel, or summarize the results.",
    options=_add_commands,
    run=lambda args: 0,
    examples=CORPUS_EXAMPLES,
)
