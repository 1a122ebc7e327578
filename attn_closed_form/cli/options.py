"""Options that several commands share: the text, the model, the methods, the settings."""

from __future__ import annotations

import argparse
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..explanations.methods import METHODS, find_method
from ..explanations.settings import Settings

# A single word that ends like this was meant as a file.
FILE_LIKE = re.compile(r"\S+\.(?:txt|text|md|html?|csv|json|rst)", re.IGNORECASE)


def add_model_option(parser: Any) -> None:
    """`--model`, which every command shares."""
    parser.add_argument(
        "--model", metavar="FILE", help="a model file, as `train` writes it (default: the shipped sentiment model)"
    )


def method_names(value: str) -> list[str]:
    """Method names of an option, separated by commas, in either spelling; `all` for every one."""
    names = list(METHODS) if value == "all" else [name.strip() for name in value.split(",") if name.strip()]
    methods = {name: find_method(name) for name in names}
    for name, method in methods.items():
        if method is None:
            raise argparse.ArgumentTypeError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
    return [method.name for method in methods.values() if method is not None]


def at_least(least: int, what: str = "a number") -> Callable[[str], int]:
    """The type of an option that counts something.

    >>> at_least(1)("12")
    12
    """

    def count(value: str) -> int:
        if not (value.isascii() and value.isdigit()) or int(value) < least:
            raise argparse.ArgumentTypeError(f"expected {what}, at least {least}, got {value!r}")
        return int(value)

    return count


def add_settings_options(
    parser: Any, players: str = "words (default) or positions", absent: str = "unk (default) or deleted"
) -> None:
    """One option per field of `Settings`."""
    parser.add_argument("--players", metavar="NAME", help=f"what gets a score: {players}")
    parser.add_argument("--absent", metavar="NAME", help=f"what an absent player becomes: {absent}")
    parser.add_argument(
        "--output",
        metavar="NAME",
        help="class to explain, margin:A,B for two, odds:A against the rest (default: the predicted class)",
    )
    parser.add_argument("--tol", type=float, default=1e-10, help="relative accuracy to guarantee (default: 1e-10)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampled methods (default: 0)")


def read_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of the options of `add_settings_options`, checked, as keyword arguments."""
    options = {name: getattr(args, name) for name in ("players", "absent", "output", "tol", "seed")}
    try:
        Settings(**options)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"--{error}") from None
    return options


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """The text itself, or where to find it."""
    text = parser.add_mutually_exclusive_group()
    text.add_argument(
        "text",
        nargs="?",
        metavar="TEXT|FILE|-",
        help="a text; the name of an existing file is read as that file; - is standard input, as is nothing in a pipe",
    )
    text.add_argument("--file", metavar="FILE", help="read this file, no matter how it is called")
    text.add_argument("--text", dest="only_text", metavar="TEXT", help="explain this text, even if a file is called so")


def read_text(args: argparse.Namespace) -> str:
    """The text that the arguments mean."""
    if args.only_text is not None:
        return str(args.only_text)
    if args.file is not None:
        return _decode(Path(args.file).read_bytes(), args.file)
    if args.text is None and sys.stdin.isatty():
        raise argparse.ArgumentTypeError("expected a TEXT, a FILE or - for standard input")
    if args.text is None or args.text == "-":
        return _decode(sys.stdin.buffer.read(), "standard input")
    if is_file(args.text):
        return _decode(Path(args.text).read_bytes(), args.text)
    if os.path.isdir(args.text):
        raise ValueError(f"{args.text}: is a directory; --text explains it as a text")
    if FILE_LIKE.fullmatch(args.text):
        raise FileNotFoundError(f"{args.text}: no such file; --text explains it as a text")
    return str(args.text)


def is_file(name: str) -> bool:
    """Whether a text is the name of something to read: a file, a pipe such as <(...), a device."""
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):  # no such file, or a text that cannot be a name
        return False
    return not stat.S_ISDIR(mode)


def check_targets(sources: Iterable[str | None], args: argparse.Namespace, options: Iterable[str]) -> None:
    """No output file may replace an input, and no two may be one file."""
    taken = {os.path.realpath(source) for source in sources if source and is_file(source)}
    for option in options:
        path = getattr(args, option)
        if path and os.path.realpath(path) in taken:
            raise argparse.ArgumentTypeError(f"--{option}: expected a file of its own, got {path!r}")
        if path:
            taken.add(os.path.realpath(path))


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: expected UTF-8 text, got byte {data[error.start]:#04x} at {error.start}") from None
