"""`attn-closed-form train`: hands its line to the trainer (`jax_model/training/command.py`), which needs JAX."""

from __future__ import annotations

import argparse
import importlib
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Register the command. Its options are the trainer's own, so JAX is imported only when they are needed."""
    parser = subparsers.add_parser(
        "train", help="train a model on your own texts (needs the `train` extra)", add_help=False
    )
    parser.set_defaults(run=run, takes_rest=True)


def run(args: argparse.Namespace) -> int:
    """Parse the rest of the line as the trainer does, and train."""
    from .main import Parser

    try:
        trainer = importlib.import_module("jax_model.training.command")
    except ImportError as error:
        raise ImportError(f"training needs JAX ({error}): pip install 'attn-closed-form[train]'") from None
    parser = Parser(prog="attn-closed-form train")
    trainer.add_arguments(parser)
    return int(trainer.run(parser.parse_args(args.rest)))
