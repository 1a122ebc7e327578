"""`attn-closed-form transformer`: a text under a transformer of a local folder, explained by a fitted SLALOM."""

from __future__ import annotations

import argparse
from typing import Any

from ..models.transformer_classifier import SAMPLES, TransformerClassifier
from .explain import add_view_options, explain_and_show
from .source import add_settings_options, add_text_options

EXAMPLES = """\
examples:
  attn-closed-form transformer my-model "A slow start, but a wonderful film." --html report.html
  attn-closed-form transformer my-model review.txt --output odds:positive --samples 1000
  attn-closed-form transformer my-model review.txt --method shapley,shapley-sampled,lime-sampled,leave-one-out

FOLDER is what `save_pretrained` of a model and of its tokenizer wrote: config.json, model.safetensors, tokenizer.json.
Nothing is downloaded, and no code of the folder is run. A transformer is no pooled game: shapley, lime, banzhaf and
slalom-* are exact *of the SLALOM that is fitted to it*, whose error is printed with them. leave-one-out,
lime-sampled and shapley-sampled ask the transformer itself.
"""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "transformer",
        help="explain a transformer of a local folder",
        description="Explain a transformer's prediction for a text by the SLALOM that is fitted to it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="FOLDER", help="a local folder in the layout of Hugging Face")
    add_text_options(parser)
    parser.add_argument(
        "--samples",
        type=_count,
        default=SAMPLES,
        metavar="N",
        help=f"model calls of the fit, and of each method that samples (default: {SAMPLES})",
    )
    parser.add_argument("--device", metavar="NAME", help="where the model runs, such as cuda (default: cpu)")
    add_settings_options(parser, players="words (default) or tokens", absent="deleted (default), mask or pad")
    add_view_options(parser)
    parser.set_defaults(run=run)


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 10:
        raise argparse.ArgumentTypeError(f"expected a number of model calls, at least 10, got {value!r}")
    return int(value)


def run(args: argparse.Namespace) -> int:
    """Do what the arguments say."""
    return explain_and_show(
        args, lambda: TransformerClassifier.from_folder(args.folder, device=args.device, samples=args.samples)
    )
