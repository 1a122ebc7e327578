"""`attn-closed-form train`: the options of the trainer, which can be listed without JAX;
`jax_model` trains.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from .options import Command, add_options, check_targets


def option(setting: str) -> str:
    """Return the option for a setting of the trainer.

    >>> option("K"), option("batch_size")
    ('--heads', '--batch-size')
    """
    config = importlib.import_module("jax_model.training.config")
    return "--" + config.named(setting).replace("_", "-")


def run(args: argparse.Namespace) -> int:
    """Train."""
    if args.text_column == args.label_column:
        raise argparse.ArgumentTypeError(
            "--label-column: expected another column than that of the texts, got "
            f"{args.label_column!r}"
        )
    check_targets((args.data, args.valid), args, ("out", "checkpoint", "metrics"))
    try:
        trainer = importlib.import_module("jax_model.training.command")
    except ImportError as error:
        raise ImportError(
            f"training needs more packages ({error}): pip install '.[train]'"
        ) from None
    try:
        return int(trainer.run(args))
    except ValueError as error:  # about a setting, which the user knows by its option
        config = importlib.import_module("jax_model.training.config")
        setting, colon, rest = str(error).partition(":")
        if setting in config.OPTION_NAMES.values():
            raise ValueError(f"{option(setting)}{colon}{rest}") from None
        raise
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


# Options for the data and the run; those of the model come from the trainer.
TRAIN_OPTIONS = {
    "data DATA": "CSV, TSV, Parquet, Excel, JSON Lines or fastText lines, gzipped or not; a folder "
    "with a train file (and a valid and a test file) of these; or aclImdb_v1.tar.gz",
    "--text-column NAME": (None, "text", "column of the texts"),
    "--label-column NAME": (None, "label", "column of the labels"),
    "--valid FILE": "a table of held-out texts, instead of a share of DATA",
    "--tokenizer words|spaces": (
        None,
        "words",
        "spaces: the texts are already split into words by spaces",
    ),
    "--dense": "every word keeps its mass; by default, frequent words without evidence lose it, "
    "and explanations give them exactly 0",
    "--trials N": (int, 0, "number of further settings to try"),
    "--config FILE": "JSON object with settings by name; options come first",
}
# Options that few users need and --help does not list: names of classes (see the examples), the
# kind of model, interrupted runs and several hosts.
UNLISTED: dict[str, dict[str, Any]] = {
    "--class-names": {"metavar": "LABEL=NAME,..."},
    "--model": {"choices": ("tables", "attention")},
    "--metrics": {},
    "--resume": {"action": "store_true"},
    "--checkpoint": {},
    "--checkpoint-steps": {"type": int},
    "--device": {"choices": ("auto", "cpu", "gpu"), "default": "auto"},
    "--coordinator": {},
    "--processes": {"type": int},
    "--process-id": {"type": int},
}


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options, and one for each field of the trainer's `Config`."""
    config = importlib.import_module("jax_model.training.config")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="model file to write, .npz or .safetensors"
    )
    add_options(parser, TRAIN_OPTIONS)
    for name, details in UNLISTED.items():
        parser.add_argument(name, help=argparse.SUPPRESS, **details)
    # The settings that are listed by --help, with their meaning for both kinds of models. All
    # others can be given as options, too, and are explained in `jax_model.training.config`.
    listed = {
        "class_weight": "balanced: weight classes inversely to their frequency (default: none)",
        "K": "train the attention model with this number of heads",
        "positions": "train the attention model with or without positions of words",
        "seed": "seed of everything random (default: 0)",
    }
    for name, field in config.Config.__dataclass_fields__.items():
        parser.add_argument(
            option(name),
            dest=name,
            type=type(field.default),
            choices=config.CHOICES.get(name),
            metavar=None if name in config.CHOICES else "X",
            help=listed.get(name, argparse.SUPPRESS),
        )


train_command = Command(
    description="""\
Train a classifier on labeled texts and write it to one file for the commands explain, corpus, serve and model.
The model is a table with one mass and one value per word and class, which takes seconds. From 10,000
texts on, the attention classifier of Lopardo et al. (2024) is trained from this table as well, and the
better one is kept. --heads or --positions train that classifier alone. The settings are chosen on texts
that are left out of the fit, and the printed scores are those on these texts.""",  # noqa: E501
    options=_add_settings,
    run=run,
    examples="""\
examples:
  attn-closed-form train reviews.csv --out model.npz
  attn-closed-form train tickets.parquet --text-column body --label-column team --class-weight balanced --out model.npz
  attn-closed-form train reviews.csv --class-names 0=negative,1=positive --out model.npz
  attn-closed-form train news/ --out model.npz          # a folder with train.csv and test.csv
  attn-closed-form train aclImdb_v1.tar.gz --out model.npz
  attn-closed-form train reviews.csv --heads 6 --positions sinusoidal --out model.npz

The same data and options give the same file, bit by bit. docs/your-texts.md lists the settings for --config.
""",  # noqa: E501
)
