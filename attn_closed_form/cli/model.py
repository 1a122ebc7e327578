"""`attn-closed-form model FILE`: a model card."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..files.open_model import load_demo_model, load_model
from ..show.terminal import SIZES, model_card


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "model",
        help="what a model file holds: classes, sizes, scores",
        description="Print a model card: classes, sizes, scores on held-out texts, temperature, settings, versions.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="a model file (default: the shipped sentiment model)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the card."""
    model = load_demo_model() if args.file is None else load_model(args.file)
    if args.json:
        sizes = {name: getattr(model.weights, name) for name in SIZES}
        parameters = sum(array.size for array in model.weights.arrays().values())
        about = {"classes": list(model.outputs), "temperature": model.temperature, "card": model.card or {}}
        print(json.dumps({"model": args.file or "demo", **sizes, "parameters": parameters, **about}))
    else:
        print(model_card(model, args.file or "the shipped sentiment model (see MODEL_CARD.md)"))
    return 0
