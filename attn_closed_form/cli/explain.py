"""`attn-closed-form explain`: a text to a table, JSON, a report or a figure."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from typing import Any

from ..explanations.explain import explain
from ..explanations.explanation import Explanations
from ..explanations.methods import METHODS, find_method
from ..models.protocol import Model
from ..show.exports import write_csv
from ..show.html import report, write_page
from ..show.plots import FIGURES, save_figure
from ..show.terminal import answer, numbers, reasons_text, table, use_color
from .source import (
    add_model_option,
    add_settings_options,
    add_text_options,
    check_target,
    read_model,
    read_settings,
    read_text,
)

EXAMPLES = """\
examples:
  attn-closed-form explain "A slow start, but a wonderful film."
  attn-closed-form explain review.txt --compare
  cat review.txt | attn-closed-form explain - --json | jq .methods.shapley.scores
  attn-closed-form explain review.txt --html report.html --plot figure.png
  attn-closed-form explain review.txt --method shapley --top 10
  attn-closed-form explain review.txt --reasons

With colour, orange words raise the prediction, blue words lower it, grey has no sign. Without (NO_COLOR, a pipe):
++++ to + raise it, - to ---- lower it, * has no sign. Run `attn-closed-form methods` for what each method means.
"""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "explain",
        help="explain the prediction for a text",
        description="Explain a model's prediction for a text by several methods at once.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_text_options(parser)
    add_model_option(parser)
    add_settings_options(parser)
    add_view_options(parser)
    parser.set_defaults(run=run)


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """Which methods to run, and what to write and print of what they say."""
    parser.add_argument(
        "--method",
        action="append",
        type=method_names,
        metavar="NAME[,NAME]",
        help="methods to use, repeatable; `all` adds the sampled ones (default: all that need no sampling)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else, to standard output")
    parser.add_argument("--compare", action="store_true", help="also print what every other method says, by family")
    parser.add_argument(
        "--reasons",
        action="store_true",
        help="also print the minimum and maximum prediction over all choices of words, and the scores of the sentences",
    )
    parser.add_argument("--csv", metavar="FILE", help="write one row per player with its scores (.csv, .tsv)")
    parser.add_argument("--html", metavar="FILE", help="write a self-contained report")
    parser.add_argument("--plot", metavar="FILE", help="write a figure (.png, .svg, .pdf; needs matplotlib)")
    parser.add_argument("--figure", choices=tuple(FIGURES), help="which figure --plot draws (default: table)")
    parser.add_argument("--top", type=_count, metavar="N", help="also print the scores of the N strongest words")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colour (default: auto)")


def method_names(value: str) -> list[str]:
    """Method names of an option, separated by commas; `all` for every one."""
    names = list(METHODS) if value == "all" else [name.strip() for name in value.split(",") if name.strip()]
    methods = [find_method(name) for name in names]
    for name, method in zip(names, methods, strict=True):
        if method is None:
            raise argparse.ArgumentTypeError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
    return [method.name for method in methods if method is not None]


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of words, at least 1, got {value!r}")
    return int(value)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say: read once, explain once, and show what was found."""
    return explain_and_show(args, lambda: read_model(args.model))


def explain_and_show(args: argparse.Namespace, open_model: Callable[[], Model]) -> int:
    """The work of a command that explains one text; the model is opened when the arguments are known to be good."""
    if args.figure and not args.plot:
        raise argparse.ArgumentTypeError("--figure: expected --plot FILE beside it, which says where the figure goes")
    check_target(args, args.html, args.plot, args.csv)
    settings = read_settings(args)
    text = read_text(args)
    asked = [name for names in args.method for name in names] if args.method else None
    figure = args.figure or "table"
    if asked is not None and args.plot:
        asked += [name for name in FIGURES[figure][1] if name not in asked]
    found = explain(open_model(), text, asked, **settings)
    # Files first: when one cannot be written, nothing half-done stands on the screen.
    if args.plot:
        path = save_figure(found, figure, args.plot)
        print(f"wrote {path}", file=sys.stderr)
    if args.csv:
        write_csv(found, args.csv)
        print(f"wrote {args.csv}", file=sys.stderr)
    if args.html:
        _write(args.html, report(found))
    if args.json:
        more = {"reasons": found.reasons().to_dict(), "sentences": found.sentences().to_dict()} if args.reasons else {}
        print(json.dumps({**found.to_dict(), **more}, allow_nan=False))
    elif args.html != "-":
        _print_table(found, args)
    return 0


def _write(path: str, page: str) -> None:
    if path == "-":
        sys.stdout.write(page)
        return
    write_page(path, page)
    print(f"wrote {path}", file=sys.stderr)


def _print_table(found: Explanations, args: argparse.Namespace) -> None:
    columns, colour = shutil.get_terminal_size((100, 24)).columns, use_color(sys.stdout, args.color)
    print(answer(found, columns, colour))
    if args.method or args.compare:
        print("\n" + table(found, columns, colour))
    else:
        errors = [e.error for e in found.values() if e.error is not None]
        fit = found.evidence.fit
        of = "" if fit is None else f" of the {fit.name}"
        print(f"\nexact to {max(errors):.0e}{of}; --compare shows {len(found) - 1} other methods")
    if args.reasons:
        print("\n" + reasons_text(found, columns))
    if args.top:
        print("\n" + numbers(found, args.top, columns))
