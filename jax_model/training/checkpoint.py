"""Checkpoints: the whole state of a run in one `.npz`, replaced whole or not at all.

The leaves of the state's pytree are stored in order, the rest (where the run is, its history, its settings) as JSON.
The structure comes from the run that resumes, so no pickle is needed, and a file that does not fit it is refused.
"""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any

import jax
import numpy as np

from attn_closed_form.files.atomic import replacing


def save_checkpoint(path: str | os.PathLike[str], state: Any, notes: dict[str, Any]) -> None:
    """Write a pytree of arrays and JSON-able notes; a run killed in the middle leaves the previous file intact."""
    leaves: dict[str, Any] = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    encoded = np.frombuffer(json.dumps(notes).encode("utf-8"), dtype=np.uint8)
    with replacing(path) as partial, partial.open("wb") as stream:
        np.savez(stream, notes=encoded, **leaves)


def load_checkpoint(path: str | os.PathLike[str], like: Any) -> tuple[Any, dict[str, Any]]:
    """The state and the notes of a file that `save_checkpoint` wrote; `like` is a state of the same structure.

    Raises
    ------
    ValueError
        the file is damaged, or holds the state of another model

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(f"{folder}/run.npz", {"a": np.ones(2)}, {"epoch": 3})
    ...     load_checkpoint(f"{folder}/run.npz", {"a": np.zeros(2)})
    ({'a': array([1., 1.])}, {'epoch': 3})
    """
    expected, structure = jax.tree.flatten(like)
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            notes = json.loads(archive["notes"].tobytes().decode("utf-8"))
            leaves = [archive[f"leaf_{i}"] for i in range(len(archive.files) - 1)]
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a readable checkpoint ({error})") from None
    shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in expected]
    found = [(leaf.shape, leaf.dtype) for leaf in leaves]
    if shapes != found:
        raise ValueError(f"{path}: a checkpoint of another model; expected arrays {shapes}, got {found}")
    return jax.tree.unflatten(structure, leaves), notes
