"""`attn-closed-form train`: the options of the trainer, which can be listed without JAX; `jax_model` trains."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from .options import Command, add_options, check_targets

DESCRIPTION = """\
Train a classifier on labeled texts and write it to one file for the commands explain, corpus, serve and model.
Part of the texts is held out. Training stops when the model no longer improves on them, the best weights are kept, and
the printed scores are those on the held-out texts."""
EXAMPLES = """\
examples:
  attn-closed-form train reviews.csv --out model.npz
  attn-closed-form train tickets.parquet --text-column body --label-column team --class-weight balanced --out model.npz
  attn-closed-form train news/ --out model.npz          # a folder with train.csv and test.csv
  attn-closed-form train aclImdb_v1.tar.gz --out model.npz

An interrupted run resumes with --resume and gives exactly the same model, bit by bit.
"""
#: Options for settings that are named by the letters of the papers.
WORDS = {
    "T_max": "max-length",
    "D": "vocabulary-size",
    "d_e": "embedding-size",
    "K": "heads",
    "d_att": "key-size",
    "d_out": "value-size",
    "scale": "embedding-scale",
    "ema": "average-decay",
}


def option(setting: str) -> str:
    """Return the option for a setting of the trainer.

    >>> option("K"), option("batch_size")
    ('--heads', '--batch-size')
    """
    return "--" + WORDS.get(setting, setting.replace("_", "-"))


def run(args: argparse.Namespace) -> int:
    """Train."""
    if args.text_column == args.label_column:
        raise argparse.ArgumentTypeError(
            f"--label-column: expected another column than that of the texts, got {args.label_column!r}"
        )
    check_targets((args.data, args.valid), args, ("out", "checkpoint", "metrics"))
    try:
        trainer = importlib.import_module("jax_model.training.command")
    except ImportError as error:
        raise ImportError(
            f"training needs JAX and optax ({error}): pip install '.[train]'"
        ) from None
    try:
        return int(trainer.run(args))
    except ValueError as error:  # about a setting, which the user knows by its option
        setting, colon, rest = str(error).partition(":")
        raise ValueError(
            f"{option(setting)}{colon}{rest}" if setting in WORDS else str(error)
        ) from None
    except KeyboardInterrupt:
        if args.checkpoint:
            checkpoint = Path(args.checkpoint)
        else:
            checkpoint = Path(args.out).with_suffix(".checkpoint")
        if checkpoint.exists():
            advice = "run the same command with --resume to continue"
        else:
            advice = "there is no checkpoint yet"
        print(f"stopped: {advice}", file=sys.stderr)
        return 130


OPTIONS = {
    "data DATA": "CSV, TSV, Parquet, JSON Lines or fastText lines, gzipped or not; a folder with a train file (and a "
    "valid and a test file) of these; or aclImdb_v1.tar.gz",
    "--text-column NAME": (None, "text", "column of the texts"),
    "--label-column NAME": (None, "label", "column of the labels"),
    "--valid FILE": "a table of held-out texts, instead of a share of DATA",
    "--metrics FILE": "also write scores, settings and every epoch as JSON",
    "the run": {
        "--resume": "resume from the checkpoint of an interrupted run",
        "--checkpoint FILE": "file for the state of the run (default: next to --out, .checkpoint)",
        "--checkpoint-steps N": (int, None, "also write the checkpoint every N steps of an epoch"),
        "--device auto|cpu|gpu": (None, "auto", "device for training (default: chosen by JAX)"),
        "--coordinator HOST:PORT": "several hosts: address of process 0",
        "--processes N": (int, None, "several hosts: number of processes"),
        "--process-id I": (int, None, "several hosts: number of this process, from 0"),
    },
}


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options, and one for each field of the trainer's `Config`."""
    config = importlib.import_module("jax_model.training.config")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="model file to write, .npz or .safetensors"
    )
    add_options(parser, OPTIONS)
    settings = parser.add_argument_group(
        "settings",
        "Defaults are for a table; for IMDB's archive they are those of the shipped model (MODEL_CARD.md).",
    )
    for name, field in config.Config.__dataclass_fields__.items():
        default = config.SETTLED_BY_TEXTS.get(name, config.AUTOMATIC.get(name, field.default))
        settings.add_argument(
            option(name),
            dest=name,
            type=type(field.default),
            choices=config.CHOICES.get(name),
            metavar=None if name in config.CHOICES else "X",
            help=f"{field.metadata['help']} (default: {default})",
        )


TRAIN = Command(DESCRIPTION, _add_settings, run, EXAMPLES)
