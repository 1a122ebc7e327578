"""`attn-closed-form explain` and `transformer`: a text to a table, JSON, a report or a figure."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable

from ..explanations.explain import explain
from ..explanations.explanation import Explanations
from ..files.open_model import open_model
from ..models.protocol import Model
from ..models.transformer import SAMPLES, TransformerClassifier
from ..show.exports import write_csv
from ..show.html import report, write_page
from ..show.plots import FIGURES, save_figure
from ..show.terminal import answer, numbers, reasons_text, table, use_color
from .options import (
    add_model_option,
    add_settings_options,
    add_text_options,
    at_least,
    check_targets,
    method_names,
    read_settings,
    read_text,
)

EXPLAIN_EXAMPLES = """\
examples:
  attn-closed-form explain "A slow start, but a wonderful film."
  attn-closed-form explain review.txt --compare
  cat review.txt | attn-closed-form explain - --json | jq .methods.shapley.scores
  attn-closed-form explain review.txt --html report.html --plot figure.png
  attn-closed-form explain review.txt --method shapley --top 10
  attn-closed-form explain review.txt --reasons

With color, orange words raise the prediction, blue words lower it, gray has no sign. Without (NO_COLOR, a pipe):
++++ to + raise it, - to ---- lower it, * has no sign. Run `attn-closed-form methods` for what each method means.
"""
TRANSFORMER_EXAMPLES = """\
examples:
  attn-closed-form transformer my-model "A slow start, but a wonderful film." --html report.html
  attn-closed-form transformer my-model review.txt --output odds:positive --samples 1000
  attn-closed-form transformer my-model review.txt --method shapley,shapley-sampled,lime-sampled,leave-one-out

FOLDER is what `save_pretrained` of a model and of its tokenizer wrote: config.json, model.safetensors, tokenizer.json.
Nothing is downloaded, and no code of the folder is run. A transformer is not a pooled game: shapley, lime, banzhaf and
slalom-* are exact *of the SLALOM that is fitted to it*, whose error is printed with them. leave-one-out,
lime-sampled and shapley-sampled ask the transformer itself.
"""


def add_explain(parser: argparse.ArgumentParser) -> None:
    """Add the options of `explain`."""
    parser.description = "Explain a model's prediction for a text by several methods at once."
    parser.epilog = EXPLAIN_EXAMPLES
    add_text_options(parser)
    add_model_option(parser)
    add_settings_options(parser)
    add_view_options(parser)
    parser.set_defaults(run=lambda args: explain_and_show(args, lambda: open_model(args.model)))


def add_transformer(parser: argparse.ArgumentParser) -> None:
    """Add the options of `transformer`."""
    parser.description = "Explain a transformer's prediction for a text by the SLALOM that is fitted to it."
    parser.epilog = TRANSFORMER_EXAMPLES
    parser.add_argument("folder", metavar="FOLDER", help="a local folder in the layout of Hugging Face")
    add_text_options(parser)
    parser.add_argument(
        "--samples",
        type=at_least(10, "a number of model calls"),
        default=SAMPLES,
        metavar="N",
        help=f"model calls of the fit, and of each method that samples (default: {SAMPLES})",
    )
    parser.add_argument("--device", metavar="NAME", help="where the model runs, such as cuda (default: cpu)")
    add_settings_options(parser, players="words (default) or tokens", absent="deleted (default), mask or pad")
    add_view_options(parser)

    def opened(args: argparse.Namespace) -> Model:
        return TransformerClassifier.from_folder(args.folder, device=args.device, samples=args.samples)

    parser.set_defaults(run=lambda args: explain_and_show(args, lambda: opened(args)))


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """Which methods to run, and what to write and print."""
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
    parser.add_argument(
        "--top",
        type=at_least(1, "a number of words"),
        metavar="N",
        help="also print the scores of the N strongest words",
    )
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="color (default: auto)")


def explain_and_show(args: argparse.Namespace, opened: Callable[[], Model]) -> int:
    """The work of a command that explains one text; the model is opened when the arguments are known to be good."""
    if args.figure and not args.plot:
        raise argparse.ArgumentTypeError("--figure: expected --plot FILE beside it, which says where the figure goes")
    check_targets((args.file, args.text), args, ("html", "plot", "csv"))
    settings = read_settings(args)
    text = read_text(args)
    methods = [name for names in args.method for name in names] if args.method else None
    figure = args.figure or "table"
    if methods is not None and args.plot:
        methods += [name for name in FIGURES[figure][1] if name not in methods]
    explanations = explain(opened(), text, methods, **settings)
    # Files first: when one cannot be written, nothing half-done stands on the screen.
    if args.plot:
        path = save_figure(explanations, figure, args.plot)
        print(f"wrote {path}", file=sys.stderr)
    if args.csv:
        write_csv(explanations, args.csv)
        print(f"wrote {args.csv}", file=sys.stderr)
    if args.html:
        _write(args.html, report(explanations))
    if args.json:
        more = (
            {"reasons": explanations.reasons().to_dict(), "sentences": explanations.sentences().to_dict()}
            if args.reasons
            else {}
        )
        print(json.dumps({**explanations.to_dict(), **more}, allow_nan=False))
    elif args.html != "-":
        _print_table(explanations, args)
    return 0


def _write(path: str, page: str) -> None:
    if path == "-":
        sys.stdout.write(page)
        return
    write_page(path, page)
    print(f"wrote {path}", file=sys.stderr)


def _print_table(explanations: Explanations, args: argparse.Namespace) -> None:
    columns, color = shutil.get_terminal_size((100, 24)).columns, use_color(sys.stdout, args.color)
    print(answer(explanations, columns, color))
    if args.method or args.compare:
        print("\n" + table(explanations, columns, color))
    else:
        errors = [e.error for e in explanations.values() if e.error is not None]
        fit = explanations.evidence.fit
        of = "" if fit is None else f" of the {fit.name}"
        print(f"\nexact to {max(errors):.0e}{of}; --compare shows {len(explanations) - 1} other methods")
    if args.reasons:
        print("\n" + reasons_text(explanations, columns))
    if args.top:
        print("\n" + numbers(explanations, args.top, columns))
