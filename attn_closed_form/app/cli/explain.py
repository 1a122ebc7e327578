"""`attn-closed-form explain` and `transformer`: from a text to a table, JSON, a report or a
figure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from ..explanations.comparison import Comparison, compare
from ..explanations.explain import explain
from ..explanations.explanation import Explanations
from ..explanations.settings import Settings
from ..files.open_model import open_model
from ..models.protocol import Model
from ..models.transformer import SAMPLES, TransformerClassifier
from ..show.exports import write_csv
from ..show.figures import notice
from ..show.html import report
from ..show.plots import FIGURES, save_figure
from ..show.terminal import answer, comparison_text, numbers, reasons_text, table, use_color
from .options import (
    MODEL,
    TEXT,
    Command,
    at_least,
    check_targets,
    csv_file,
    is_file,
    method_names,
    read_settings,
    read_text,
    settings_options,
    text_or_file,
)

#: Options for methods and output.
VIEWS = {
    "--method NAME[,NAME]...": (
        method_names,
        None,
        "methods to use; repeatable; `all` adds the sampled ones (default: the exact ones; for a "
        "transformer, shapley-sampled, leave-one-out and slalom-*)",
    ),
    "--json": "print JSON, and nothing else, to standard output",
    "--compare": "also print the results of all other methods, by family",
    "--reasons": (
        "also print the minimum and maximum prediction over all subsets of words, and sentence "
        "scores"
    ),
    "--csv FILE": (csv_file, None, "write a table with one row per word (.csv, .tsv)"),
    "--compare-with TEXT": "compare with another text, or with the text in another file",
    "--html FILE": "write a self-contained report",
    "--plot FILE": "write a figure (.png, .svg, .pdf; needs matplotlib)",
    f"--figure {'|'.join(FIGURES)}": "which figure --plot draws (default: table)",
    "--top N": (
        at_least(1, "a number of words"),
        None,
        "also print the scores of the N strongest words",
    ),
    "--color auto|always|never": (None, "auto", "color"),
}


def explain_transformer(args: argparse.Namespace) -> int:
    """Explain a transformer in a folder."""
    return explain_and_show(
        args,
        lambda: TransformerClassifier.from_folder(
            args.folder, device=args.device, samples=args.samples
        ),
    )


def explain_and_show(args: argparse.Namespace, opened: Callable[[], Model]) -> int:
    """Explain one text and show the result; the model is opened after the arguments have been
    checked.
    """
    if args.figure and not args.plot:
        raise argparse.ArgumentTypeError("--figure: expected --plot FILE as well, for the figure")
    compared = args.compare_with is not None or getattr(args, "compare_model", None) is not None
    _check_comparison(args, compared)
    # Options that name a file or a folder that is read.
    given_files = ("file", "source", "model", "folder", "compare_with", "compare_model")
    sources = (getattr(args, name, None) for name in given_files)
    check_targets(sources, args, ("html", "plot", "csv"))
    settings = read_settings(args)
    text = read_text(args)
    methods = args.method
    figure = args.figure or "table"
    if methods is not None and args.plot:
        methods += [name for name in FIGURES[figure].methods if name not in methods]
    model = opened()
    explanations = explain(model, text, methods, **asdict(settings))
    if compared:
        _show_comparison(_comparison(explanations, model, text, settings, args), args)
        return 0
    return show(explanations, args)


def show(explanations: Explanations, args: argparse.Namespace) -> int:
    """Write the files and print the answer."""
    figure = args.figure or "table"
    # Files come first, so that nothing is printed if one cannot be written.
    if args.plot:
        _wrote(save_figure(explanations, figure, args.plot))
    if args.csv:
        write_csv(explanations, args.csv)
        _wrote(args.csv)
    if args.html == "-":
        sys.stdout.write(report(explanations))
    elif args.html:
        explanations.report(args.html)
        _wrote(args.html)
    if args.json:
        content = explanations.to_dict()
        if args.reasons and explanations.evidence.has_reasons:
            content["reasons"] = explanations.reasons().to_dict()
            content["sentences"] = explanations.sentences().to_dict()
        elif args.reasons:
            content["checked_reasons"] = explanations.checked_reasons()
        print(json.dumps(content, allow_nan=False))
    elif args.html != "-":
        _print_table(explanations, args)
    return 0


def _check_comparison(args: argparse.Namespace, compared: bool) -> None:
    """Raise an error for options that say nothing about a comparison."""
    unfit = [
        name
        for name in ("plot", "csv", "top", "reasons", "compare", "method")
        if getattr(args, name)
    ]
    if compared and unfit:
        raise argparse.ArgumentTypeError(
            f"--{unfit[0]}: expected no such option with --compare-with and --compare-model, "
            "which show Shapley values in the terminal, as --html FILE or as --json"
        )


def _comparison(
    first: Explanations, model: Model, text: str, settings: Settings, args: argparse.Namespace
) -> Comparison:
    """Explain another text or by another model, for the same output, and compare."""
    other_model = model
    other_text = text
    names = ("first text", "second text")
    sources = (args.source or args.file, args.compare_with)
    if args.compare_with is not None:
        other_text = text_or_file(args.compare_with)
    if getattr(args, "compare_model", None) is not None:
        other_model = open_model(args.compare_model)
        if args.compare_with is None:
            names = ("first model", "second model")
            sources = (args.model, args.compare_model)
    first_name, second_name = (
        _name_of(source, name) for source, name in zip(sources, names, strict=True)
    )
    same = replace(settings, output=first.output if settings.output is None else settings.output)
    second = explain(other_model, other_text, first.evidence.headline, **asdict(same))
    return compare(first, second, (first_name, second_name))


def _name_of(source: str | None, default: str) -> str:
    """Return the name of a file without its folder, or the default for a text."""
    if source is not None and is_file(source):
        return Path(source).name
    return default


def _show_comparison(comparison: Comparison, args: argparse.Namespace) -> None:
    """Write or print a comparison."""
    if args.html == "-":
        sys.stdout.write(comparison.report())
    elif args.html:
        comparison.report(args.html)
        _wrote(args.html)
    if args.json:
        print(json.dumps(comparison.to_dict(), allow_nan=False))
    elif args.html != "-":
        columns = shutil.get_terminal_size((100, 24)).columns
        print(comparison_text(comparison, columns, use_color(sys.stdout, args.color)))


def _wrote(path: object) -> None:
    print(f"wrote {path}", file=sys.stderr)


def _print_table(explanations: Explanations, args: argparse.Namespace) -> None:
    """Print the answer, and below it the table of methods or how accurate the values are."""
    columns = shutil.get_terminal_size((100, 24)).columns
    color = use_color(sys.stdout, args.color)
    print(answer(explanations, columns, color))
    if args.method or args.compare:
        print("\n" + table(explanations, columns, color))
    elif not notice(explanations):
        errors = [e.error for e in explanations.values() if e.error is not None]
        accuracy = ""
        if errors:
            accuracy = f"Exact to {max(errors):.0e}. "
        print(f"\n{accuracy}--compare shows {len(explanations) - 1} other methods.")
    evidence = explanations.evidence
    if args.reasons and evidence.has_reasons:
        print("\n" + reasons_text(explanations, columns))
    if args.top:
        print("\n" + numbers(explanations, args.top, columns))


explain_command = Command(
    description="Explain a model's prediction for a text by several methods at once.",
    options={
        **TEXT,
        **MODEL,
        **settings_options(),
        **VIEWS,
        "--compare-model FILE": "compare with the prediction of another model for the same text",
    },
    run=lambda args: explain_and_show(args, lambda: open_model(args.model)),
    examples="""\
examples:
  attn-closed-form explain "A slow start, but a wonderful film."
  attn-closed-form explain review.txt --compare
  cat review.txt | attn-closed-form explain - --json | jq .methods.shapley.scores
  attn-closed-form explain review.txt --html report.html --plot figure.png
  attn-closed-form explain review.txt --method shapley --top 10
  attn-closed-form explain review.txt --reasons --scale logit
  attn-closed-form explain before.txt --compare-with after.txt --html comparison.html
  attn-closed-form explain review.txt --compare-model other.npz

With color, orange words raise the prediction, blue words lower it, and gray words have no sign. Without color,
+ to ++++ raise it, - to ---- lower it, and * has no sign. `attn-closed-form methods` describes each method.
""",  # noqa: E501
)
transformer_command = Command(
    description="Explain a transformer's prediction for a text by sampled Shapley values with "
    "standard errors.",
    options={
        "folder FOLDER": "a local folder in the layout of Hugging Face",
        **TEXT,
        "--samples N": (
            at_least(10, "a number of calls"),
            SAMPLES,
            "model calls of the fit and of each sampled method",
        ),
        "--device NAME": "device of the model, such as cuda (default: cpu)",
        **settings_options(
            "words (default) or tokens",
            "deleted (default), mask or pad",
            ', token:" A" for the next token of a language model',
        ),
        **VIEWS,
    },
    run=explain_transformer,
    examples="""\
examples:
  attn-closed-form transformer my-model "A slow start, but a wonderful film." --html report.html
  attn-closed-form transformer my-model review.txt --output odds:positive --samples 1000
  attn-closed-form transformer my-model review.txt --method shapley-sampled,lime-sampled,leave-one-out
  attn-closed-form transformer my-language-model "The film was slow, but" --output token:" good"

FOLDER contains the files that `save_pretrained` writes for a model and its tokenizer: config.json, model.safetensors
and tokenizer.json. Nothing is downloaded, and no code in the folder is run. A transformer has no closed form, so its
Shapley values are sampled and have standard errors. shapley-sampled, lime-sampled and leave-one-out call the model.
shapley, lime, banzhaf and slalom-* are exact values of a SLALOM that is fitted near the text; its error is reported.

A language model (...ForCausalLM) is explained by the probability of its next token: --output token:" good" against any
other token, --output token:" good, bad" for one continuation against another; by default, the most probable token.
""",  # noqa: E501
)
