"""Where a command's text and model come from."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from ..classifier.weights import AttentionWeights
from ..explainable.model_file import load_demo_model, load_model
from ..explainable.text import Vocabulary

# A single word that ends like this was meant as a file.
FILE_LIKE = re.compile(r"\S+\.(?:txt|text|md|html?|csv|json|rst)", re.IGNORECASE)


def add_model_option(parser: argparse.ArgumentParser) -> None:
    """`--model`, which every command shares."""
    parser.add_argument(
        "--model", metavar="FILE", help=".npz or .safetensors with a vocabulary (default: the shipped sentiment model)"
    )


def read_model(path: str | None) -> tuple[AttentionWeights, Vocabulary]:
    """The model of `--model`."""
    return load_demo_model() if path is None else load_model(path)


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """The text itself, or where to find it."""
    text = parser.add_mutually_exclusive_group()
    text.add_argument(
        "text",
        nargs="?",
        metavar="TEXT|FILE|-",
        help="a text; the name of an existing file is read as that file; - is standard input, as is nothing in a pipe",
    )
    text.add_argument("--file", metavar="FILE", help="read this file, whatever its name")
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
    if os.path.isfile(args.text):  # not Path.is_file, which fails on texts too long for a name
        return _decode(Path(args.text).read_bytes(), args.text)
    if os.path.isdir(args.text):
        raise ValueError(f"{args.text}: is a directory; --text explains it as a text")
    if FILE_LIKE.fullmatch(args.text):
        raise FileNotFoundError(f"{args.text}: no such file; --text explains it as a text")
    return str(args.text)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: expected UTF-8 text, got byte {data[error.start]:#04x} at {error.start}") from None
