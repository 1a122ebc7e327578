"""`attn-closed-form model info`: the sizes of a model."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..explainable.model_file import load_demo_model, load_model
from ..show.sanitize import visible
from .source import add_model_option

SIZES = {
    "D": "words in the vocabulary",
    "T_max": "positions, [CLS] and padding included",
    "K": "heads",
    "C": "outputs",
    "d_e": "dimension of embeddings",
    "d_att": "dimension of keys and queries",
    "d_out": "dimension of values",
}


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser("model", help="about a model", description="About a model.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    info = actions.add_parser("info", help="sizes and vocabulary", description="Sizes and vocabulary of a model.")
    add_model_option(info)
    info.add_argument("--json", action="store_true", help="machine-readable")
    info.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the sizes."""
    model = load_demo_model() if args.model is None else load_model(args.model)
    weights, vocabulary = model.weights, model.vocabulary
    sizes = {name: getattr(weights, name) for name in SIZES}
    parameters = sum(array.size for array in weights.arrays().values())
    words = [vocabulary[i] for i in range(len(vocabulary)) if i not in (weights.cls, weights.unk)]
    if args.json:
        print(json.dumps({"model": args.model or "demo", **sizes, "parameters": parameters}))
        return 0
    print(f"model       {args.model or 'the shipped sentiment model (see MODEL_CARD.md)'}")
    for name, meaning in SIZES.items():
        print(f"{name:<12}{sizes[name]:<9,}{meaning}")
    print(f"{'parameters':<12}{parameters:<9,}")
    print(f"{'classes':<12}{visible(', '.join(model.outputs))}")
    print(f"first words {visible(' '.join(words[:12]))} …")
    return 0
