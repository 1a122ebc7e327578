r"""Read the activations of a language model and their tokens.

Activations are an array (n, D) or (1, n, D) in a `.npy`, `.npz`, `.safetensors`, `.pt` or `.h5`
file. Tokens are a JSON file, with a list of strings or an object with "tokens" and perhaps "turns",
or a text file with one token per line, in which \\n and \\t are written with a backslash.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from ..._arrays import check
from ..models.probe import Activations
from .arrays import H5_SUFFIXES, read_arrays
from .atomic import regular_file
from .bags import ARRAY_SUFFIXES

# Names of activations in a file of several arrays; the first that is there is used.
NAMES = (
    "activations",
    "hidden_states",
    "hidden_state",
    "last_hidden_state",
    "features",
    "acts",
    "x",
)


def load_activations(
    path: str | os.PathLike[str],
    tokens: str | os.PathLike[str],
    name: str | None = None,
) -> Activations:
    """Read the activations and the tokens of one text.

    Parameters
    ----------
    path : a `.npy`, `.npz`, `.safetensors`, `.pt` or `.h5` file with an array (n, D) or (1, n, D)
    tokens : a JSON file with a list of strings or an object with "tokens" and perhaps "turns", or a
        text file with one token per line
    name : name of the array in a file of several

    Returns
    -------
    Activations
        the activations with their tokens, as `ProbeClassifier.explain` takes them

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pathlib.Path(folder)
    ...     np.save(place / "layer.npy", np.zeros((2, 5), dtype=np.float32))
    ...     _ = (place / "tokens.json").write_text('["Hello", " world"]')
    ...     load_activations(place / "layer.npy", place / "tokens.json")
    Activations(n=2, D=5, float32)
    """
    path = regular_file(path)
    suffixes = (*ARRAY_SUFFIXES, *H5_SUFFIXES)
    expected = f"activations in a file ending in {', '.join(suffixes)}"
    check(str(path), path.suffix.lower() in suffixes, expected, repr(path.suffix))
    content = read_arrays(path, suffixes)
    words, turns = load_tokens(tokens)
    try:
        return Activations(
            features=_activations(str(path), content, name), tokens=words, turns=turns
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _activations(source: str, content: Any, name: str | None) -> Any:
    """Return the array of activations among the arrays of a file."""
    if isinstance(content, np.ndarray):
        check("name", name is None, "none, because the file has one array", name)
        return content
    arrays = {key: array for key, array in content.items() if isinstance(array, np.ndarray)}
    if name is not None:
        check("name", name in arrays, f"one of {', '.join(sorted(arrays)[:12])}", name)
        return arrays[name]
    for key in NAMES:
        if key in arrays:
            return arrays[key]
    matrices = [array for array in arrays.values() if array.ndim in (2, 3)]
    check("activations", len(matrices) == 1, "one matrix, or `name`", sorted(arrays)[:12])
    return matrices[0]


def load_tokens(path: str | os.PathLike[str]) -> tuple[list[str], list[Any] | None]:
    """Read tokens, and the turn of each if the file has them."""
    path = regular_file(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected tokens in UTF-8") from None
    if path.suffix.lower() != ".json":
        # Only the line break at the end is not a separator; an empty line elsewhere is a token.
        return [_unescaped(line) for line in text.removesuffix("\n").split("\n")], None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: expected JSON, a list of tokens") from None
    turns = None
    if isinstance(content, dict):
        turns = content.get("turns")
        content = content.get("tokens")
    is_list = isinstance(content, list) and all(isinstance(token, str) for token in content)
    check(
        str(path), is_list, "a list of tokens, or an object with 'tokens'", type(content).__name__
    )
    check(str(path), turns is None or isinstance(turns, list), "a list of turns", repr(turns)[:60])
    return content, turns


def _unescaped(line: str) -> str:
    """Return a token as it was before a text file escaped its line breaks."""
    token = line.removesuffix("\r")
    parts = []
    place = 0
    # How a text file writes a line break, a tab and a backslash in a token.
    escapes = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
    while place < len(token):
        pair = token[place : place + 2]
        if pair in escapes:
            parts.append(escapes[pair])
            place += 2
        else:
            parts.append(token[place])
            place += 1
    return "".join(parts)
