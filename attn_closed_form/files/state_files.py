"""The weights of a network from a file or a mapping, as arrays by name.

Files are `.pt`, `.pth`, `.ckpt`, `.bin` (PyTorch, read without PyTorch and without running code), `.safetensors` and
`.npz`. Training scripts put a state dict under a name beside optimizer state, and wrap a network, which adds a prefix
to all its names: `find_state` looks inside, `strip_prefix` takes prefixes off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models.bag import as_array
from .bags import read_numpy
from .safetensors_files import load_safetensors
from .torch_files import load_torch

Arrays = dict[str, NDArray[Any]]

TORCH_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".tar")
SUFFIXES = (*TORCH_SUFFIXES, ".safetensors", ".npz")
# Where training scripts put the state dict, in the order in which they are tried.
NESTED = ("model_state_dict", "state_dict", "model_state", "model", "net", "network", "weights")
# What wrappers put before every name: DataParallel, Lightning, torch.compile, Hugging Face.
PREFIXES = ("module.", "model.", "_orig_mod.", "net.", "network.", "backbone.", "aggregator.", "mil.")

# What Lightning keeps beside a network called `model`: weights of the loss and counters of the metrics.
TRAINING = ("criterion.", "loss", "metric", "auroc", "accuracy", "train_", "val_", "valid_", "test_")


def read_state(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Arrays, str]:
    """Weights by name, and what to call their source in errors.

    Raises
    ------
    FileNotFoundError, ImportError, ValueError
        one line that names the file and says why
    """
    if isinstance(source, Mapping):
        return find_state(source, "state"), "state"
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: expected weights in a file ending in {', '.join(SUFFIXES)}, got {path.suffix!r}")
    found = load_torch(path) if suffix in TORCH_SUFFIXES else read_numpy(path, suffix)
    if not isinstance(found, Mapping):
        raise ValueError(f"{path}: expected a state dict, names with weights, got one {kind(found)}")
    return find_state(found, str(path)), str(path)


def stored_outputs(source: Any) -> tuple[str, ...]:
    """Names of the classes, where a file has them: `outputs` of an `.npz`, or of the metadata of a `.safetensors`.

    This is what `AttentionBagClassifier.save` writes; other programs' files have none, and get ().
    """
    if isinstance(source, Mapping):
        return ()
    path = Path(source)
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                names = archive["outputs"].tolist() if "outputs" in archive.files else []
        elif path.suffix.lower() == ".safetensors":
            names = json.loads(load_safetensors(path).metadata.get("outputs", "[]"))
        else:
            names = []
    except (ValueError, OSError, KeyError, AttributeError):
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def find_state(found: Mapping[Any, Any], name: str) -> Arrays:
    """The state dict in what was saved: itself, or under one of the usual names; as arrays, without common prefixes."""
    for _ in range(3):
        arrays = {str(key): as_array(value) for key, value in found.items() if is_array(value)}
        if arrays and not any(isinstance(found.get(key), Mapping) for key in NESTED):
            return strip_prefix(arrays)
        inner = next((found[key] for key in NESTED if isinstance(found.get(key), Mapping)), None)
        if inner is None:
            break
        found = inner
    raise ValueError(f"{name}: expected a state dict, names with weights, got {sorted(map(str, found))[:12]}")


def strip_prefix(arrays: Arrays) -> Arrays:
    """Names without what a wrapper put before all of them.

    >>> sorted(strip_prefix({"module.model.fc.weight": np.ones((1, 1)), "module.model.fc.bias": np.ones(1)}))
    ['fc.bias', 'fc.weight']
    """
    kept = {key: value for key, value in arrays.items() if not key.startswith(TRAINING)}
    if kept and any(all(key.startswith(prefix) for key in kept) for prefix in PREFIXES):
        arrays = kept
    while prefix := next((p for p in PREFIXES if all(key.startswith(p) for key in arrays)), None):
        arrays = {key.removeprefix(prefix): value for key, value in arrays.items()}
    return arrays


def is_array(value: Any) -> bool:
    """Whether a value is an array of numbers or a tensor."""
    return hasattr(value, "detach") or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub")


def kind(value: Any) -> str:
    """What a value is, for an error: "array of shape (3, 5)" or the name of its type."""
    return f"array of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
