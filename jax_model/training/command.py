"""The command `attn-closed-form train DATA --out model.npz`: from a table to a model file.

The options are in `attn_closed_form/app/cli/train.py`, which lists them without JAX.

DATA is a table of texts and labels, a folder with a training part (and a held-out and a test part) of tables, or IMDB
as its authors publish it. The scores that are printed and stored in the file are those on
held-out texts; a test part is scored once.
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

from attn_closed_form.app.cli.main import program
from attn_closed_form.app.files.tables import Labelled, read_labelled, split_files
from attn_closed_form.app.show.sanitize import elide, visible
from attn_closed_form.app.show.terminal import scores_table

from .config import AUTOMATIC, Config, automatic
from .devices import device_mesh, join_cluster
from .imdb import load_imdb, split_by_film
from .split import Split, split_stratified
from .train import Result, refit_checkpoint, train


class Data(NamedTuple):
    """The contents of DATA: the split, the test part or None, and the settings."""

    split: Split
    test: Labelled | None
    config: Config


def run(args: argparse.Namespace) -> int:
    """Train with the parsed arguments, write the model, print its scores and return the exit status."""
    out = Path(args.out)
    if out.suffix not in (".npz", ".safetensors"):
        raise ValueError(
            f"--out: expected a file name ending in .npz or .safetensors, got {args.out!r}"
        )
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out: expected a file in an existing folder, got {args.out!r}")
    if args.checkpoint:
        checkpoint = Path(args.checkpoint)
    else:
        checkpoint = out.with_suffix(".checkpoint")
    join_cluster(args.coordinator, args.processes, args.process_id)
    device_mesh(args.device)  # report a missing GPU before the data is read
    changes = {field.name: getattr(args, field.name) for field in fields(Config)}
    data = read_data(
        args.data,
        args.text_column,
        args.label_column,
        args.valid,
        {name: value for name, value in changes.items() if value is not None},
    )
    result = train(
        data.config,
        data.split,
        args.device,
        checkpoint,
        args.checkpoint_steps,
        args.resume,
        test=data.test,
    )
    if jax.process_index() == 0:
        card = {"data": Path(os.path.abspath(args.data)).name, **(result.model.card or {})}
        replace(result.model, card=card).save(out, dtype=np.float32)
        if args.metrics:
            Path(args.metrics).write_text(
                json.dumps(result.metrics, indent=1) + "\n", encoding="utf-8"
            )
        for file in (checkpoint, refit_checkpoint(checkpoint)):
            file.unlink(missing_ok=True)
        print(summary(result, data.split, out))
    return 0


def read_data(
    path: str, text_column: str, label_column: str, valid: str | None, changes: Mapping[str, Any]
) -> Data:
    """Read and split the data at a path, and choose the settings; `changes` are those of the user."""
    place = Path(path)
    if place.name.endswith((".tar.gz", ".tgz")) or any(
        (place / p / "train" / "pos").is_dir() for p in (".", "aclImdb")
    ):
        config = Config(**changes)
        return Data(split_by_film(load_imdb(place, "train"), config.validation), None, config)
    columns = text_column, label_column
    if place.is_dir():
        parts = split_files(place)
    else:
        parts = {"train": [place]}
    if valid is not None:
        parts["valid"] = [Path(valid)]
    data = read_labelled(parts["train"], *columns)
    if "valid" in parts:
        changes = {
            "refit": "none",
            **changes,
        }  # do not train on given validation texts unless requested
        split = Split(data, read_labelled(parts["valid"], *columns, classes=data.classes))
    else:
        split = split_stratified(
            data, changes.get("validation", AUTOMATIC["validation"]), changes.get("seed", 0)
        )
    if "test" in parts:
        test = read_labelled(parts["test"], *columns, classes=data.classes)
    else:
        test = None
    return Data(split, test, automatic(split.training.texts, **changes))


def summary(result: Result, split: Split, out: Path) -> str:
    """Format the final output: scores on the held-out texts and, if there are any, on the test texts."""
    card = result.model.card or {}
    lines = []
    for part, name in (("held_out", "held-out"), ("test", "test")):
        if part in card:
            lines.append(
                f"On {card[part]['texts']:,} {name} texts, after training on {card['training_texts']:,}:\n"
            )
            lines.append(scores_table(card[part]) + "\n")
    if "refit" in card:
        again = card["refit"]
        lines.append(
            f"Then trained once more, on all {again['texts']:,} texts, for {again['epochs']} epochs."
        )
    size = out.stat().st_size / 1e6
    lines.append(
        f"Wrote {visible(str(out))} ({size:.1f} MB). Probabilities: temperature {result.model.temperature:.2f}."
    )
    text = elide(
        visible(min(split.held_out.texts[:50], key=lambda text: abs(len(text) - 60))).strip(), 70
    )
    command = f"{program()} explain {shlex.quote(text)} --model {shlex.quote(str(out))} --html report.html"
    return "\n".join([*lines, f"Next: {command}"])
