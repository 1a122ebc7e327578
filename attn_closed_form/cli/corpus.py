"""`attn-closed-form corpus`: explanations for a whole Parquet corpus, and a summary of them."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from ..explainable.settings import Settings
from .explain import method_names
from .source import add_model_option, add_settings_options, read_settings

EXAMPLES = """\
examples:
  attn-closed-form corpus reviews.parquet out/ --text-column review
  attn-closed-form corpus reviews.parquet out/ --method shapley,lime --workers 8
  attn-closed-form corpus folder/ out/ --scheduler tcp://10.0.0.5:8786    # a Dask cluster that sees the same paths
  attn-closed-form corpus summary out/                                    # the words that matter most
  attn-closed-form corpus summary out/ --by mean --least 50 --plot words.png

A run that was interrupted goes on where it stopped: give the same command again. Rows that cannot be explained have
their reason in the column `error`. The output is one Parquet file per part: tokens, spans, prediction, and for each
method the scores, their base value and their guaranteed error.
"""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "corpus",
        help="explain every text of a Parquet corpus; summarise the result",
        usage="%(prog)s IN OUT [options]\n       %(prog)s summary OUT [options]",
        description="Explain every text of a Parquet corpus, exactly, in parallel; or summarise what was found.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="IN", help="a Parquet file or a folder of them; or the word `summary`")
    parser.add_argument("folder", metavar="OUT", help="folder of the results")
    parser.add_argument(
        "--method",
        type=method_names,
        default=None,
        metavar="NAME[,NAME]",
        help="methods to use (default: shapley); for a summary: whose scores (default: the first there is)",
    )
    run_options = parser.add_argument_group("explaining")
    run_options.add_argument("--text-column", default="text", metavar="NAME", help="column of texts (default: text)")
    run_options.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    run_options.add_argument("--scheduler", metavar="ADDRESS", help="use a Dask cluster instead of local processes")
    add_model_option(run_options)
    add_settings_options(run_options)
    run_options.add_argument("--part-rows", type=int, default=500, metavar="N", help="rows per file (default: 500)")
    run_options.add_argument(
        "--max-chars", type=int, default=1_000_000, metavar="N", help="longer texts are an error (default: 1,000,000)"
    )
    summary_options = parser.add_argument_group("summary")
    summary_options.add_argument("--top", type=int, default=20, metavar="N", help="how many words (default: 20)")
    summary_options.add_argument("--by", choices=("total", "mean"), default="total", help="rank by (default: total)")
    summary_options.add_argument(
        "--least", type=int, default=1, metavar="N", help="only words in at least N documents (default: 1)"
    )
    summary_options.add_argument("--json", action="store_true", help="machine-readable")
    summary_options.add_argument("--plot", metavar="FILE", help="write a bar chart (needs matplotlib)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Explain, or summarise."""
    return summary(args) if args.source == "summary" else explain_corpus(args)


def explain_corpus(args: argparse.Namespace) -> int:
    """Explain every row; status 1 if no row at all could be explained."""
    from .._progress import bar
    from ..corpus.run import Task, dask_executor, local_executor, plan
    from ..corpus.run import run as run_parts

    task = Task(
        text_column=args.text_column,
        methods=tuple(args.method or ["shapley"]),
        model=str(Path(args.model).resolve()) if args.model else None,
        settings=Settings(**read_settings(args)),
        max_chars=args.max_chars,
    )
    missing, done = plan(args.source, args.folder, task, args.part_rows)
    if done:
        print(f"{len(done)} of {len(done) + len(missing)} parts are there already", file=sys.stderr)
    before = sum(part.rows for part in done)
    workers = dask_executor(args.scheduler) if args.scheduler else local_executor(min(args.workers, len(missing) or 1))
    rows = failed = 0
    start = time.perf_counter()
    with workers as executor, bar("explaining", before + sum(p.rows for p in missing), "documents", before) as advance:
        for part_rows, part_failed in run_parts(missing, executor):
            rows, failed = rows + part_rows, failed + part_failed
            advance(part_rows)
    seconds = time.perf_counter() - start
    rate = f", {rows / seconds:.0f} a second" if rows else ""
    bad = f", {failed} with an error (see the column `error`)" if failed else ""
    print(f"{args.folder}: {before + rows} documents, {rows} now in {seconds:.1f} s{rate}{bad}")
    return 1 if rows and failed == rows else 0


def summary(args: argparse.Namespace) -> int:
    """Print the words that matter most."""
    from ..corpus.summary import plot_summary, summarize
    from ..show.sanitize import visible

    if args.method and len(args.method) > 1:
        raise argparse.ArgumentTypeError(f"--method: expected one method for a summary, got {', '.join(args.method)}")
    found = summarize(args.folder, args.method[0] if args.method else None)
    words = found.top(args.top, args.by, args.least)
    if args.plot:
        figure = plot_summary(words, found.method).figure
        figure.savefig(args.plot, dpi=120)
    if args.json:
        shared = {key: getattr(found, key) for key in ("method", "documents", "failed", "positive")}
        print(json.dumps({**shared, "words": [word._asdict() for word in words]}))
        return 0
    print(
        f"{found.method}: {found.documents:,} documents, {found.positive:,} with a prediction above zero, "
        f"{len(found.words):,} words" + (f", {found.failed:,} rows with an error" if found.failed else "")
    )
    width = max([4, *(len(visible(word.word)) for word in words)])
    print(f"{'word':<{width}} {'documents':>9} {'total':>11} {'mean':>9} {'mean, f > 0':>12} {'mean, f <= 0':>12}")
    for word in words:
        print(
            f"{visible(word.word):<{width}} {word.documents:>9,} {word.total:>+11.2f} {word.mean:>+9.4f} "
            f"{word.positive_mean:>+12.4f} {word.negative_mean:>+12.4f}"
        )
    return 0
