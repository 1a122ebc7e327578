"""Tables of options, and the options that several commands share: the text, the model, the methods,
the settings.
"""

from __future__ import annotations

import argparse
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from ..._arrays import did_you_mean
from ..explanations.methods import METHODS, find_method
from ..explanations.settings import Settings
from ..files.tables import FORMATS
from ..models.scale import SCALES

# A single word with one of these endings was meant as a file.
FILE_LIKE = re.compile(r"\S+\.(?:txt|text|md|html?|csv|json|rst)", re.IGNORECASE)


#: The option of every command that accepts any model.
MODEL = {"--model FILE": "a model file written by `train` (default: the shipped sentiment model)"}


class Command(NamedTuple):
    """A command: its description, its options (a table for `add_options`, or a function), and its
    function.
    """

    description: str
    options: Mapping[str, Any] | Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: str = ""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the command to a parser."""
        parser.description = self.description
        parser.epilog = self.examples
        parser.set_defaults(run=self.run)
        if callable(self.options):
            self.options(parser)
        else:
            add_options(parser, self.options)


def add_options(parser: Any, options: Mapping[str, Any]) -> None:
    """Add the options of a table, each with its help or with (type, default, help).

    "--name FILE" takes a value, "--name FILE..." may be repeated, and its values are lists, which
    are joined. "--name a|b" takes one of several values, "--name" is a flag, "name FILE" is an
    argument, and "[name] FILE" is an optional one. A nested table is a group of options.

    >>> parser = argparse.ArgumentParser()
    >>> add_options(
    ...     parser,
    ...     {"file FILE": "to read", "--by total|mean": "order", "--top N": (int, 5, "how many")},
    ... )
    >>> parser.parse_args(["x", "--by", "mean"])
    Namespace(file='x', by='mean', top=5)
    """
    # Tuning: longer lists of choices are in the text of an option instead of its first line, which
    # would be wider than a terminal of 80 columns.
    longest_choices = 30
    for declared, about in options.items():
        if isinstance(about, Mapping):
            add_options(parser.add_argument_group(declared), about)
            continue
        name, _, value = declared.partition(" ")
        if isinstance(about, tuple):
            convert, default, text = about
        else:
            convert = None
            default = None
            text = about
        if default is not None and "(default" not in text:
            text += f" (default: {default})"
        details: dict[str, Any] = {
            "metavar": value.removesuffix("..."),
            "type": convert,
            "default": default,
        }
        if not value:
            details = {"action": "store_true"}
        elif "|" in value:
            details = {"choices": value.split("|"), "default": default}
            if len(value) > longest_choices:
                details["metavar"] = "NAME"
                text += f": {', '.join(details['choices'])}"
        elif value.endswith("..."):
            details["action"] = "extend"
        elif name.startswith("["):
            details["nargs"] = "?"
        parser.add_argument(name.strip("[]"), help=text, **details)


def method_names(value: str) -> list[str]:
    """Parse method names, separated by commas, in either spelling; `all` selects every method."""
    if value == "all":
        names = list(METHODS)
    else:
        names = [name.strip() for name in value.split(",") if name.strip()]
    # The names are checked here and not by `as_methods`, because this error names the option.
    methods = {name: find_method(name) for name in names}
    for name, method in methods.items():
        if method is None:
            raise argparse.ArgumentTypeError(
                f"unknown method {name!r}; choose from "
                f"{', '.join(METHODS)}{did_you_mean(name, METHODS)}"
            )
    return [method.name for method in methods.values() if method is not None]


def at_least(least: int, what: str = "a number", most: int = 10**9) -> Callable[[str], int]:
    """Return the type of an option that is a count.

    >>> at_least(1)("12")
    12
    """

    def count(value: str) -> int:
        # int() alone would take signs, spaces, underscores and the digits of other scripts.
        if not (value.isascii() and value.isdigit()) or not least <= int(value) <= most:
            raise argparse.ArgumentTypeError(f"expected {what}, at least {least}, got {value!r}")
        return int(value)

    return count


def csv_file(value: str) -> str:
    """Return the name of a file for CSV, or raise an error if its suffix belongs to another format.

    >>> csv_file("scores.csv"), csv_file("/dev/stdout")
    ('scores.csv', '/dev/stdout')
    """
    # The endings of a file for CSV; a device such as /dev/stdout has none.
    csv_suffixes = (".csv", ".tsv", ".txt", "")
    if Path(value).suffix.lower() not in csv_suffixes:
        raise argparse.ArgumentTypeError(
            f"expected a file that ends in .csv or .tsv, got {value!r}; `corpus run --format` "
            "writes other formats"
        )
    return value


# The options for the scale and for the accuracy.
SCALE = {
    f"--scale {'|'.join(SCALES)}": "the scale to explain (default: the probability of a classifier)"
}
# The option of the accuracy of sampled values.
MAX_ERROR = {
    "--max-error X": (
        float,
        None,
        "largest standard error of sampled Shapley values (default: 0.0005, which is 0.05 "
        "percentage points; for logits half a percent of the largest value)",
    )
}
# The option of the accuracy of exact values.
TOL = {"--tol X": (float, Settings.tol, "relative accuracy to guarantee")}


def settings_options(
    players: str = "words (default) or positions",
    absent: str = "unk or deleted (default: unk for a model with positions, otherwise deleted)",
    outputs: str = "",
) -> dict[str, Any]:
    """Return one option per field of `Settings`."""
    return {
        "--players NAME": f"what gets a score: {players}",
        "--absent NAME": f"treatment of absent words: {absent}",
        "--output NAME": f"class to explain, margin:A,B of two, odds:A against the rest{outputs} "
        "(default: the predicted class)",
        **TOL,
        **SCALE,
        "--seed N": (int, Settings.seed, "seed of the sampled methods"),
        **MAX_ERROR,
    }


def read_settings(args: argparse.Namespace) -> Settings:
    """Return the checked settings among the options."""
    # A command has options for only some of the settings.
    options = {
        field.name: getattr(args, field.name)
        for field in fields(Settings)
        if hasattr(args, field.name)
    }
    try:
        return Settings(**options)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"--{error}") from None


#: Options for the text itself, or its file.
TEXT = {
    "[source] TEXT": (
        "a text, or the name of a file to read; - (or a pipe without TEXT) reads standard input"
    ),
    "--file FILE": "read the text from this file",
    "--text TEXT": "explain this text, even if a file has this name",
}


def read_text(args: argparse.Namespace) -> str:
    """Return the text that the arguments specify."""
    if sum(value is not None for value in (args.source, args.file, args.text)) > 1:
        raise argparse.ArgumentTypeError("expected one of TEXT, --file and --text, got several")
    source = args.source
    if args.text is not None:
        return str(args.text)
    if is_file(source) and Path(source).suffix.lower() in FORMATS:
        raise argparse.ArgumentTypeError(
            f"{source} is a table: `corpus run` explains its rows, and --file its contents as one "
            "text"
        )
    if args.file is not None or is_file(source):
        path = source
        if args.file is not None:
            path = args.file
        return _decode(Path(path).read_bytes(), path)
    # On a terminal the command would wait for a text that nobody knows to type.
    if source is None and sys.stdin.isatty():
        raise argparse.ArgumentTypeError("expected a TEXT, a FILE or - for standard input")
    if source is None or source == "-":
        return _decode(sys.stdin.buffer.read(), "standard input")
    return text_or_file(source)


def text_or_file(source: str) -> str:
    """Return a text, or the text in the file of that name."""
    if is_file(source):
        return _decode(Path(source).read_bytes(), source)
    if os.path.isdir(source):
        raise ValueError(f"{source}: is a directory; use --text to explain it as a text")
    if FILE_LIKE.fullmatch(source):
        raise FileNotFoundError(f"{source}: no such file; use --text to explain it as a text")
    return source


def is_file(name: str | None) -> bool:
    """Return whether a text is the name of something to read: a file, a pipe such as <(...), or a
    device.
    """
    try:
        # os.path.isfile would leave out pipes and devices.
        mode = os.stat(name or "").st_mode
    except (OSError, ValueError):  # no such file, or a text that cannot be a name
        return False
    return not stat.S_ISDIR(mode)


def check_targets(
    sources: Iterable[str | None], args: argparse.Namespace, options: Iterable[str]
) -> None:
    """Raise an error if an output would replace an input (or a file in a folder), or if two outputs
    share a file.
    """
    taken = files_in(sources)
    for option in options:
        if path := getattr(args, option):
            if any(same_file(path, other) for other in taken):
                raise argparse.ArgumentTypeError(
                    f"--{option}: expected a separate file, got {path!r}"
                )
            taken.append(path)


def files_in(sources: Iterable[str | None]) -> list[str]:
    """Return the files among the sources, and those in folders among them."""
    files: list[str] = []
    for source in filter(None, sources):
        if os.path.isdir(source):
            files += [entry.path for entry in os.scandir(source)]
        else:
            files.append(source)
    return files


def same_file(path: str, other: str) -> bool:
    """Return whether two names refer to the same file, or will do so."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them does not exist, or cannot be a name
        # A dash stands for a stream, which two options may share.
        return path != "-" and os.path.realpath(path) == os.path.realpath(other)


def _decode(data: bytes, name: str) -> str:
    """Return the text of a file in UTF-8, with or without a byte-order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: expected UTF-8 text, got byte {data[error.start]:#04x} at {error.start}"
        ) from None
