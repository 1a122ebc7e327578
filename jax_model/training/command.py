"""The command `attn-closed-form train DATA --out model.npz`: from a table to a model file.

The options are in `attn_closed_form/app/cli/train.py`, which lists them without JAX. The table
model (`train_tables.py`) needs no JAX. For many texts, the attention model is trained as well
(`best.py`). `--model attention`, or an option that only the attention model has, trains the
classifier of Lopardo et al. with heads and positions (`train.py`).

DATA is a table of texts and labels, a folder with a training part (and a held-out and a test part)
of tables, or IMDB as its authors publish it. The scores that are printed and stored in the file are
those on held-out texts; a test part is scored once.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form._arrays import whole
from attn_closed_form.app.cli.main import program
from attn_closed_form.app.files.tables import Labelled, TableWarning, read_labelled, split_files
from attn_closed_form.app.models.scale import percent
from attn_closed_form.app.show.sanitize import elide, visible
from attn_closed_form.app.show.terminal import baseline_line, scores_table

from .best import train_best
from .config import AUTOMATIC, Config, automatic, by_letter, named
from .imdb import load_imdb, split_by_film
from .split import Split, split_stratified
from .train_tables import Result, TableOptions, named_tokenizer, train_tables

# Settings that the table model has, too. Any other setting asks for the attention model.
SHARED = ("D", "validation", "class_weight", "seed", "refit")
# How programs write a missing cell.
MISSING = ("nan", "null", "n/a", "#n/a")


class Data(NamedTuple):
    """The contents of DATA: training texts, those that the user holds out, test texts, and a split
    of IMDB by film.
    """

    training: Labelled
    held_out: Labelled | None
    test: Labelled | None
    by_film: Split | None = None


def run(args: argparse.Namespace) -> int:
    """Train with the parsed arguments, write the model, print its scores and return the exit
    status.
    """
    # What is wrong with the options is said before the table is read.
    out = Path(args.out)
    if out.suffix not in (".npz", ".safetensors"):
        raise ValueError(
            f"--out: expected a file name ending in .npz or .safetensors, got {args.out!r}"
        )
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out: expected a file in an existing folder, got {args.out!r}")
    checkpoint = out.with_suffix(".checkpoint")
    if args.checkpoint:
        checkpoint = Path(args.checkpoint)
    changes = chosen_settings(args)
    share = changes.get("validation", Config().validation)
    names = parse_class_names(args.class_names)
    # IMDB is divided by film while it is read, which needs the share.
    data = read_data(args.data, args.text_column, args.label_column, args.valid, share)
    data = with_class_names(data, names)
    warn_about_copies(data.training)
    warn_about_classes(data.training)
    if wants_attention(args.model, changes):
        if args.dense:
            changes["zeros"] = "none"
        for name, unused in (("tokenizer", "words"), ("trials", 0)):
            if getattr(args, name) != unused:
                raise ValueError(f"--{name}: only the table model has this option")
        result = train_attention(args, data, changes, checkpoint)
    else:
        result = train_words(args, data, changes)
    if result is None:  # this process helps another one, which writes the model
        return 0
    # The name of the file and not its path: a model file is passed on to others.
    card = {"data": Path(os.path.abspath(args.data)).name, **(result.model.card or {})}
    replace(result.model, card=card).save(out, dtype=np.float32)
    if args.metrics:
        text = json.dumps(result.metrics, indent=1) + "\n"
        Path(args.metrics).write_text(text, encoding="utf-8")
    # The model is written, so nothing is left to resume.
    for file in (checkpoint, Path(f"{checkpoint}.all")):
        file.unlink(missing_ok=True)
    print(summary(result, data.training.texts, out))
    return 0


def warn_about_copies(data: Labelled) -> None:
    """Warn about texts that occur several times, which makes scores on held-out texts too good."""
    # Copies may have different labels, which no model can predict.
    labels_of: dict[str, set[int]] = {}
    for text, label in zip(data.texts, data.labels.tolist(), strict=True):
        labels_of.setdefault(text, set()).add(label)
    copies = len(data.texts) - len(labels_of)
    if not copies:
        return
    conflicts = sum(len(labels) > 1 for labels in labels_of.values())
    note = ""
    if conflicts == 1:
        note = "; one of them has several labels"
    elif conflicts:
        note = f"; {conflicts:,} of them have several labels"
    warnings.warn(
        f"{copies:,} of {len(data.texts):,} texts are copies of others, which makes the held-out "
        f"scores too good{note}",
        TableWarning,
        stacklevel=2,
    )


def warn_about_classes(data: Labelled) -> None:
    """Warn about names that differ only in case or spaces, and about missing labels that are read
    as a class.
    """
    # "neg", "NEG" and " neg " are hardly meant as three classes.
    spellings: dict[str, list[str]] = {}
    for name in data.classes:
        spellings.setdefault("".join(name.casefold().split()), []).append(name)
    for names in spellings.values():
        if len(names) > 1:
            shown = " and ".join(repr(name[:40]) for name in names[:3])
            warnings.warn(
                f"{shown} are different classes; write one of them in the table if they are the "
                "same",
                TableWarning,
                stacklevel=2,
            )
    for name in data.classes:
        if name.casefold() in MISSING:
            warnings.warn(
                f"{name!r} is read as a class; remove these rows if they have no label",
                TableWarning,
                stacklevel=2,
            )


def chosen_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the user chose: those of the file `--config`, and the options, which
    come first.
    """
    names = {field.name for field in fields(Config)}
    chosen: dict[str, Any] = {}
    if args.config:
        chosen = read_settings(Path(args.config), names)
    # Options that are not given are None, and leave the setting to the file or the library.
    options = {name: getattr(args, name) for name in names}
    return chosen | {name: value for name, value in options.items() if value is not None}


def read_settings(path: Path, names: set[str]) -> dict[str, Any]:
    """Read a JSON object of settings, which may have the names of options or those of `Config`."""
    known = ", ".join(sorted(map(named, names)))
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"--config: expected a JSON object with settings among {known}")
    chosen = by_letter(content)
    unknown = sorted(set(chosen) - names)
    if unknown:
        raise ValueError(f"--config: expected settings among {known}, got {', '.join(unknown)}")
    return chosen


def wants_attention(model: str, changes: Mapping[str, Any]) -> bool:
    """Return whether the attention model is asked for, by name or by a setting that only it has."""
    others = sorted(set(changes) - set(SHARED))
    if model == "tables" and others:
        raise ValueError(f"{named(others[0])}: only the attention model has this setting")
    return model == "attention" or bool(others)


def train_words(args: argparse.Namespace, data: Data, changes: Mapping[str, Any]) -> Result:
    """Train the table model or, if there are many texts, the better one of both models."""
    default = TableOptions()
    options = TableOptions(
        changes.get("D", default.vocabulary_size),
        changes.get("validation", default.validation),
        changes.get("class_weight", default.class_weight),
        changes.get("seed", default.seed),
        named_tokenizer(args.tokenizer),
        not args.dense,
        whole("trials", args.trials, 0),
    )
    # The settings are checked where the attention model checks them.
    Config(D=options.vocabulary_size, validation=options.validation, seed=options.seed)
    training = data.training
    held_out = data.held_out
    # Held-out texts that the user names are not used in the fit, unless asked for.
    refit = changes.get("refit", "none") == "all"
    if data.by_film is not None:
        # Reviews of one film share its names, so IMDB is not divided at random (`imdb.py`).
        training = data.by_film.training
        held_out = data.by_film.held_out
        refit = changes.get("refit", "all") == "all"
    if args.model == "tables":
        return train_tables(training, options, held_out, refit, data.test)
    return train_best(
        training, options, held_out, refit, data.test, by_film=data.by_film, device=args.device
    )


def train_attention(
    args: argparse.Namespace, data: Data, changes: dict[str, Any], checkpoint: Path
) -> Result | None:
    """Train the attention model with JAX; None on the hosts of a cluster that do not write the
    model.
    """
    import jax

    from .devices import device_mesh, join_cluster
    from .train import train

    join_cluster(args.coordinator, args.processes, args.process_id)
    # A missing GPU is reported before the training.
    device_mesh(args.device)
    if data.by_film is not None:
        split = data.by_film
        from_tables = {"start": "tables", "baseline": "prior", "zeros": "tables"}
        config = Config(**{**from_tables, **changes})
    elif data.held_out is not None:
        split = Split(data.training, data.held_out)
        # Given held-out texts are not trained on unless requested.
        config = automatic(split.training.texts, **{"refit": "none", **changes})
    else:
        share = changes.get("validation", AUTOMATIC["validation"])
        split = split_stratified(data.training, share, changes.get("seed", 0))
        config = automatic(split.training.texts, **changes)
    result = train(
        config,
        split,
        args.device,
        checkpoint,
        args.checkpoint_steps,
        args.resume,
        test=data.test,
    )
    # Every host of a cluster has the same model; one writes it.
    if jax.process_index() == 0:
        return result
    return None


def read_data(
    path: str, text_column: str, label_column: str, valid: str | None, share: float
) -> Data:
    """Read the data at a path; `share` of IMDB's reviews is held out by film."""
    place = Path(path)
    is_archive = place.name.endswith((".tar.gz", ".tgz"))
    is_imdb = any((place / part / "train" / "pos").is_dir() for part in (".", "aclImdb"))
    if is_archive or is_imdb:
        split = split_by_film(load_imdb(place, "train"), share)
        return Data(split.training, split.held_out, None, split)
    # A folder has parts of a table, and a file is the training part.
    columns = text_column, label_column
    if place.is_dir():
        parts = split_files(place)
    else:
        parts = {"train": [place]}
    if valid is not None:
        parts["valid"] = [Path(valid)]
    training = read_labelled(parts["train"], *columns)
    held_out = None
    if "valid" in parts:
        held_out = read_labelled(parts["valid"], *columns, classes=training.classes)
    test = None
    if "test" in parts:
        test = read_labelled(parts["test"], *columns, classes=training.classes)
    return Data(training, held_out, test)


def parse_class_names(text: str | None) -> dict[str, str]:
    """Return the new name of each class in `--class-names`.

    >>> parse_class_names("0=bad, 1=good")
    {'0': 'bad', '1': 'good'}
    """
    # Without names, the labels of the table are the names.
    names: dict[str, str] = {}
    if text is None:
        return names
    for part in text.split(","):
        label, sign, name = (piece.strip() for piece in part.partition("="))
        if not (label and sign and name) or label in names:
            raise ValueError(
                f"--class-names: expected LABEL=NAME,LABEL=NAME with distinct labels, got {text!r}"
            )
        names[label] = name
    return names


def with_class_names(data: Data, names: Mapping[str, str]) -> Data:
    """Return the data with other names for some classes."""
    if not names:
        return data
    before = data.training.classes
    # A misspelled label would silently keep its name.
    unknown = sorted(set(names) - set(before))
    if unknown:
        raise ValueError(
            f"--class-names: expected labels among {', '.join(before)}, got {', '.join(unknown)}"
        )
    classes = tuple(names.get(name, name) for name in before)
    if len(set(classes)) < len(classes):
        raise ValueError(f"--class-names: expected different names, got {', '.join(classes)}")

    def renamed(part: Labelled | None) -> Labelled | None:
        return None if part is None else part._replace(classes=classes)

    # The split of IMDB has the same classes, once more.
    by_film = data.by_film
    if by_film is not None:
        by_film = by_film._replace(
            training=by_film.training._replace(classes=classes),
            held_out=by_film.held_out._replace(classes=classes),
        )
    training = data.training._replace(classes=classes)
    return Data(training, renamed(data.held_out), renamed(data.test), by_film)


def summary(result: Result, texts: Sequence[str], out: Path) -> str:
    """Format the final output: scores, how the model was made, its baseline beside the prior, and
    the next command.
    """
    model = result.model
    card = model.card or {}
    lines = []
    for part, name in (("held_out", "held-out"), ("test", "test")):
        if part in card:
            after = f"after training on {card['training_texts']:,}"
            if part == "held_out" and card.get("folds", 1) > 1:
                after = f"in {card['folds']} folds"
            if part == "test":
                after = f"after training on {card.get('final_texts', card['training_texts']):,}"
            lines.append(f"On {card[part]['texts']:,} {name} texts, {after}:\n")
            lines.append(scores_table(card[part]) + "\n")
    # The attention model is trained twice, and the table model once with each setting.
    if "refit" in card:
        again = card["refit"]
        lines.append(
            f"Then trained once more, on all {again['texts']:,} texts, for {again['epochs']} "
            "epochs."
        )
    if "final_texts" in card:
        lines.append(f"Then trained with the chosen settings on {card['final_texts']:,} texts.")
    if card.get("tokens_without_mass"):
        without = card["words"] - card["words_with_mass"]
        share = percent(card["tokens_without_mass"])
        lines.append(
            f"{without:,} of {card['words']:,} words have no mass: explanations give exactly 0 to "
            f"{share} of the words of the texts."
        )
    lines.append(f"Baseline: {baseline_line(model)}.")
    size = out.stat().st_size / 1e6
    if size >= 0.1:
        shown = f"{size:.1f} MB"
    else:
        shown = f"{1000 * size:.0f} kB"
    lines.append(f"Wrote {visible(str(out))} ({shown}).")
    # One of the user's own texts, short enough for a line and long enough to be worth explaining.
    text = min(texts[:50], key=lambda text: abs(len(text) - 60))
    text = elide(visible(text).strip(), 70)
    command = f"{program()} explain {shlex.quote(text)} --model {shlex.quote(str(out))}"
    command += " --html report.html"
    return "\n".join([*lines, f"Next: {command}"])
