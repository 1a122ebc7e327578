"""`attn-closed-form methods`: what can be asked for."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..explanations.methods import DEFAULT_METHODS, METHODS
from ..show.terminal import methods_table


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "methods", help="list the explanation methods", description="The methods, one per line."
    )
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table of methods."""
    if args.json:
        fields = ("label", "family", "kind", "accuracy", "needs", "forecasts", "summary")
        listed = {m.name: {name: getattr(m, name) for name in fields} for m in METHODS.values()}
        print(json.dumps(listed, ensure_ascii=True))
    else:
        print(methods_table())
        left_out = [name for name in METHODS if name not in DEFAULT_METHODS]
        print(f"\nNot in the default set, since it samples: {', '.join(left_out)}.")
    return 0
