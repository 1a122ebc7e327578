"""`attn-closed-form methods`, `model` and `check`: the methods, the card of a model, the claims of
the papers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
from pathlib import Path

from ..explanations import methods
from ..files.open_model import load_demo_model, load_model
from ..show.sanitize import fitted_lines
from ..show.terminal import MODEL_SIZES, methods_table, model_card
from .options import Command


def list_methods(args: argparse.Namespace) -> int:
    """Print the table of methods."""
    if args.json:
        fields = ("label", "alias", "family", "kind", "accuracy", "needs", "forecasts", "summary")
        table = {
            m.name: {name: getattr(m, name) for name in fields} for m in methods.METHODS.values()
        }
        print(json.dumps(table, ensure_ascii=True))
    else:
        columns = shutil.get_terminal_size().columns
        print(methods_table(columns))
        others = [name for name in methods.METHODS if name not in methods.DEFAULT_METHODS]
        note = f"Not in the default set, because they sample or only rank: {', '.join(others)}."
        print(f"\n{fitted_lines(note, columns)}")
    return 0


def show_model(args: argparse.Namespace) -> int:
    """Print the card."""
    if args.file is None:
        model = load_demo_model()
    else:
        model = load_model(args.file)
    if args.json:
        sizes = {name: getattr(model.weights, name) for name in MODEL_SIZES}
        parameters = sum(array.size for array in model.weights.arrays().values())
        about = {
            "classes": list(model.outputs),
            "temperature": model.temperature,
            "card": model.card or {},
        }
        print(
            json.dumps({"model": args.file or "demo", **sizes, "parameters": parameters, **about})
        )
    else:
        source = args.file or "the shipped sentiment model (see MODEL_CARD.md)"
        print(model_card(model, source, shutil.get_terminal_size().columns))
    return 0


def check_papers(args: argparse.Namespace) -> int:
    """Run the checks."""
    try:
        checks = importlib.import_module("proofs_check.__main__")
    except ImportError as error:
        if Path("proofs_check", "__main__.py").exists():
            place = "here"
        else:
            place = "in a clone of the repository"
        raise ImportError(
            f"the checks are part of the repository, not of the package ({error}): run `python -m "
            f"proofs_check` {place}"
        ) from None
    return int(checks.main(args.passed_on) or 0)


# The option of commands that print data for other programs.
JSON = {"--json": "machine-readable"}
methods_command = Command(description="List the methods.", options=JSON, run=list_methods)
model_command = Command(
    description="Print a model card: classes, sizes, scores on held-out texts, temperature, "
    "settings, versions.",
    options={"[file] FILE": "a model file (default: the shipped sentiment model)", **JSON},
    run=show_model,
)
check_command = Command(
    description="Check every claim of the two papers by brute force.\n\nThis is `python -m "
    "proofs_check` in a clone of the repository, and accepts the same options:\n--paper P1, --only "
    "TEXT, --verbose, --json.",
    options=lambda parser: parser.set_defaults(passes_on=True),
    run=check_papers,
)
