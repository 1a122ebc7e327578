"""`attn-closed-form check`: hands its line to `python -m proofs_check`, which checks every claim of the two papers."""

from __future__ import annotations

import argparse
import importlib
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Register the command, whose options are those of `python -m proofs_check`."""
    parser = subparsers.add_parser("check", help="check the papers' claims by brute force", add_help=False)
    parser.set_defaults(run=run, takes_rest=True)


def run(args: argparse.Namespace) -> int:
    """Run the checks."""
    try:
        checks = importlib.import_module("proofs_check.__main__")
    except ImportError as error:
        raise ImportError(
            f"the checks of the papers' claims come with the repository, not with the package ({error})"
        ) from None
    return int(checks.main(args.rest) or 0)
