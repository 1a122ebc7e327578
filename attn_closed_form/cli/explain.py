"""`attn-closed-form explain`: a text to a table, JSON, a report or a figure."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..explanations.explanation import Explanations, explain
from ..explanations.methods import METHODS
from ..show.terminal import numbers, table, use_colour
from .figure import FIGURES, save_figure
from .source import add_model_option, add_text_options, read_model, read_text

EXAMPLES = """\
examples:
  attn-closed-form explain "A slow start, but a wonderful film."
  attn-closed-form explain review.txt --method shapley,lime
  cat review.txt | attn-closed-form explain - --json | jq .methods.shapley.scores
  attn-closed-form explain review.txt --html report.html --plot figure.png
  attn-closed-form explain review.txt --method shapley --top 10

With colour, blue words raise the prediction, orange words lower it, purple has no sign. Without (NO_COLOR, a pipe):
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
    parser.add_argument(
        "--method",
        action="append",
        type=method_names,
        metavar="NAME[,NAME]",
        help="methods to use, repeatable; `all` adds the sampled ones (default: all that need no sampling)",
    )
    parser.add_argument("--players", choices=("words", "positions"), default="words", help="what gets a score")
    parser.add_argument(
        "--absent", choices=("unk", "deleted"), default="unk", help="what an absent word becomes (default: unk)"
    )
    parser.add_argument("--output", type=int, default=0, metavar="C", help="which output to explain (default: 0)")
    parser.add_argument("--tol", type=float, default=1e-10, help="relative accuracy to guarantee (default: 1e-10)")
    parser.add_argument("--seed", type=int, default=0, help="of sampled methods (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else, to standard output")
    parser.add_argument("--html", metavar="FILE", help="write a self-contained report")
    parser.add_argument("--plot", metavar="FILE", help="write a figure (.png, .svg, .pdf; needs matplotlib)")
    parser.add_argument("--figure", choices=FIGURES, default="table", help="which figure --plot draws (default: table)")
    parser.add_argument("--top", type=_count, metavar="N", help="also print the scores of the N strongest words")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colour (default: auto)")
    parser.set_defaults(run=run)


def method_names(value: str) -> list[str]:
    """Method names of an option, separated by commas; `all` for every one."""
    names = list(METHODS) if value == "all" else [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in METHODS:
            raise argparse.ArgumentTypeError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
    return names


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of words, at least 1, got {value!r}")
    return int(value)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say."""
    text = read_text(args)
    weights, vocabulary = read_model(args.model)
    methods = [name for names in args.method for name in names] if args.method else None
    options: dict[str, Any] = {name: getattr(args, name) for name in ("players", "absent", "output", "tol", "seed")}
    found = explain(weights, vocabulary, text, methods, **options)
    # Files first: when one cannot be written, nothing half-done stands on the screen.
    if args.html:
        from ..show.report import report

        _write(args.html, report(weights, vocabulary, text, methods, **options))
    if args.plot:
        save_figure(args.plot, args.figure, weights, vocabulary, text, methods, **options)
        print(f"wrote {args.plot}", file=sys.stderr)
    if args.json:
        print(json.dumps(found.to_dict(), allow_nan=False))
    elif args.html != "-":
        _print_table(found, args, weights.C)
    return 0


def _write(path: str, page: str) -> None:
    if path == "-":
        sys.stdout.write(page)
        return
    Path(path).write_text(page, encoding="utf-8")
    print(f"wrote {path}", file=sys.stderr)


def _print_table(found: Explanations, args: argparse.Namespace, outputs: int) -> None:
    first = next(iter(found.values()))
    side = "" if outputs > 1 else " (positive)" if first.prediction > 0 else " (negative)"
    nobody = first.game.value(np.zeros(first.game.d, dtype=bool)) if first.game else np.nan
    print(f"prediction {first.prediction:+.4f}{side}, {nobody:+.4f} with every word absent\n")
    rows = list(found.values())
    columns = shutil.get_terminal_size((100, 24)).columns
    print(table(rows, columns, use_colour(sys.stdout, args.color)))
    if args.top:
        print("\n" + numbers(rows, args.top))
