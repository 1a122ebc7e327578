"""The command line of the trainer, `attn-closed-form train DATA --out model.npz`: from a table to a model file.

DATA is a table of texts and labels, a folder with a training part (and a held-out and a test part) of tables, or IMDB
as its authors publish it. What is printed at the end, and kept in the file, are scores on texts that the model was not
trained on; a test part is scored once.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from attn_closed_form.files.labelled import Labelled, read_labelled, split_files
from attn_closed_form.show.sanitize import elide, visible
from attn_closed_form.show.terminal import scores_table

from .config import AUTOMATIC, CHOICES, SETTLED_BY_TEXTS, Config, automatic
from .devices import CHOICES as DEVICES
from .devices import device_mesh, join_cluster
from .imdb import load_imdb, split_by_film
from .split import Split, split_stratified
from .train import Result, refit_checkpoint, train

DESCRIPTION = """\
Train a classifier on texts with labels and write it to one file, which explain, corpus, serve and model read.
Part of the texts is held out: training stops when it no longer gets better on them, the best weights are kept, and
the scores that are printed are those on them."""
EXAMPLES = """\
examples:
  attn-closed-form train reviews.csv --out model.npz
  attn-closed-form train tickets.parquet --text-column body --label-column team --class-weight balanced --out model.npz
  attn-closed-form train news/ --out model.npz          # a folder with train.csv and test.csv
  attn-closed-form train aclImdb_v1.tar.gz --out model.npz

An interrupted run goes on with --resume, to the same model to the bit.
"""


class Data(NamedTuple):
    """What DATA holds: the split, a test part or None, and the settings for it."""

    split: Split
    test: Labelled | None
    config: Config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the trainer's arguments to a parser; `run` takes what it parses."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "data",
        metavar="DATA",
        help="CSV, TSV, Parquet, JSON Lines or fastText lines, gzipped or not; a folder with a train file (and a valid "
        "and a test file) of these; or aclImdb_v1.tar.gz",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="model file to write, .npz or .safetensors")
    parser.add_argument("--text-column", default="text", metavar="NAME", help="column of the texts (default: text)")
    parser.add_argument("--label-column", default="label", metavar="NAME", help="column of the labels (default: label)")
    parser.add_argument("--valid", metavar="FILE", help="a table to hold out, instead of a share of DATA")
    parser.add_argument("--metrics", metavar="FILE", help="also write scores, settings and every epoch as JSON")
    run_group = parser.add_argument_group("the run")
    run_group.add_argument("--resume", action="store_true", help="go on from the checkpoint of an interrupted run")
    run_group.add_argument("--checkpoint", metavar="FILE", help="state of the run (default: beside --out, .checkpoint)")
    run_group.add_argument("--checkpoint-steps", type=int, metavar="N", help="also write it every N steps of an epoch")
    run_group.add_argument("--device", choices=DEVICES, default="auto", help="default: whatever JAX finds")
    run_group.add_argument("--coordinator", metavar="HOST:PORT", help="several hosts: where process 0 listens")
    run_group.add_argument("--processes", type=int, metavar="N", help="several hosts: how many processes")
    run_group.add_argument("--process-id", type=int, metavar="I", help="several hosts: which one this is, from 0")
    settings = parser.add_argument_group(
        "settings", "Defaults are for a table; for IMDB's archive they are those of the shipped model (MODEL_CARD.md)."
    )
    for field in fields(Config):
        default = SETTLED_BY_TEXTS.get(field.name, AUTOMATIC.get(field.name, field.default))
        settings.add_argument(
            "--" + field.name.replace("_", "-").lower(),
            dest=field.name,
            type=type(field.default),
            choices=CHOICES.get(field.name),
            metavar=None if field.name in CHOICES else "X",
            help=f"{field.metadata['help']} (default: {default})",
        )


def run(args: argparse.Namespace) -> int:
    """Train as the parsed arguments say, write the model and say how good it is; returns the exit status."""
    out = _check_out(args)
    checkpoint = Path(args.checkpoint) if args.checkpoint else out.with_suffix(".checkpoint")
    join_cluster(args.coordinator, args.processes, args.process_id)
    device_mesh(args.device)  # a missing GPU is better known before the data is read
    changes = {field.name: getattr(args, field.name) for field in fields(Config)}
    data = read_data(
        args.data,
        args.text_column,
        args.label_column,
        args.valid,
        {name: value for name, value in changes.items() if value is not None},
    )
    result = train(data.config, data.split, args.device, checkpoint, args.checkpoint_steps, args.resume, test=data.test)
    if jax.process_index() == 0:
        card = {"data": Path(os.path.abspath(args.data)).name, **(result.model.card or {})}
        replace(result.model, card=card).save(out, dtype=np.float32)
        if args.metrics:
            Path(args.metrics).write_text(json.dumps(result.metrics, indent=1) + "\n", encoding="utf-8")
        for file in (checkpoint, refit_checkpoint(checkpoint)):
            file.unlink(missing_ok=True)
        print(summary(result, data.split, out))
    return 0


def _check_out(args: argparse.Namespace) -> Path:
    out = Path(args.out)
    if out.suffix not in (".npz", ".safetensors"):
        raise ValueError(f"--out: expected a file name ending in .npz or .safetensors, got {args.out!r}")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out: expected a file in an existing folder, got {args.out!r}")
    return out


def read_data(path: str, text_column: str, label_column: str, valid: str | None, changes: Mapping[str, Any]) -> Data:
    """What a path holds, split, with the settings for it; `changes` are the settings that the user decided."""
    place = Path(path)
    if place.name.endswith((".tar.gz", ".tgz")) or any(
        (place / p / "train" / "pos").is_dir() for p in (".", "aclImdb")
    ):
        config = Config(**changes)
        return Data(split_by_film(load_imdb(place, "train"), config.validation), None, config)
    columns = text_column, label_column
    parts = split_files(place) if place.is_dir() else {"train": [place]}
    if valid is not None:
        parts["valid"] = [Path(valid)]
    data = read_labelled(parts["train"], *columns)
    if "valid" in parts:
        changes = {"refit": "none", **changes}  # texts that were given to validate with are not trained on unasked
        split = Split(data, read_labelled(parts["valid"], *columns, classes=data.classes))
    else:
        split = split_stratified(data, changes.get("validation", AUTOMATIC["validation"]), changes.get("seed", 0))
    test = read_labelled(parts["test"], *columns, classes=data.classes) if "test" in parts else None
    return Data(split, test, automatic(split.training.texts, **changes))


def summary(result: Result, split: Split, out: Path) -> str:
    """What the user reads at the end: scores on the held-out texts and, if there are any, on the test texts."""
    card = result.model.card or {}
    lines = []
    for part, name in (("held_out", "held-out"), ("test", "test")):
        if part in card:
            lines.append(f"On {card[part]['texts']:,} {name} texts, after training on {card['training_texts']:,}:\n")
            lines.append(scores_table(card[part]) + "\n")
    if "refit" in card:
        again = card["refit"]
        lines.append(f"Then trained once more, on all {again['texts']:,} texts, for {again['epochs']} epochs.")
    size = out.stat().st_size / 1e6
    lines.append(
        f"Wrote {visible(str(out))} ({size:.1f} MB). Probabilities: temperature {result.model.temperature:.2f}."
    )
    text = elide(visible(min(split.held_out.texts[:50], key=lambda text: abs(len(text) - 60))).strip(), 70)
    command = f"attn-closed-form explain {shlex.quote(text)} --model {shlex.quote(str(out))} --html report.html"
    return "\n".join([*lines, f"Next: {command}"])
