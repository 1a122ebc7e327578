"""PyTorch's `.pt` files without PyTorch, in both formats, as arrays; no code of a file can run (`torch_pickle.py`).

Since PyTorch 1.6 a file is a zip archive, without compression, of one pickle (`NAME/data.pkl`) and one member per
storage (`NAME/data/KEY`). Before, it was a magic number, a protocol number, facts about the machine, the pickle, the
keys of the storages and then their numbers, one after the other. Tensors are views of those bytes: a small file cannot
become a large array, whatever sizes it claims.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .torch_names import NumpyArray, Refused, Storage, Tensor
from .torch_pickle import read_pickle

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
# Nesting of dicts, lists and tuples that is followed: {"model_state_dict": {name: tensor}} needs 2.
DEPTH = 6


def load_torch(path: str | os.PathLike[str]) -> Any:
    """What `torch.save` wrote to a file, with arrays for tensors.

    Parameters
    ----------
    path : a `.pt`, `.pth`, `.ckpt` or `.bin` file in the zip format or the one before PyTorch 1.6

    Returns
    -------
    dict, list or array
        tensors as read-only arrays (bfloat16 as float32), dicts and lists as they are; objects that are neither numbers
        nor text (an optimizer's rest, options) are None

    Raises
    ------
    FileNotFoundError, ValueError
        one line that names the file and says why: no PyTorch file, damaged, or asking for code

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.pt"
    ...     _ = path.write_bytes(b"no model")
    ...     load_torch(path)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ValueError: .../model.pt: expected a PyTorch file ...
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start == b"PK\x03\x04":
            return _load_zip(path)
        return _load_legacy(path.read_bytes())
    except Refused as error:
        raise ValueError(f"{path}: {error}") from None
    except (Exception, RecursionError) as error:  # whatever a damaged file makes of the parsers: one line
        text = (str(error).strip().splitlines() or [""])[0][:160]
        detail = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise ValueError(f"{path}: expected a PyTorch file, and this one is damaged ({detail})") from None


def _load_zip(path: Path) -> Any:
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise Refused("is a zip archive with compressed members, which PyTorch does not write")
        if sum(member.file_size for member in members) > size:
            raise Refused("is a zip archive whose members are larger than the file")
        names = [member.filename for member in members]
        pickles = [name for name in names if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(pickles) != 1:
            hint = "; it looks like a NumPy .npz file" if any(name.endswith(".npy") for name in names) else ""
            hint = "; a TorchScript file: save model.state_dict()" if any("/code/" in name for name in names) else hint
            raise Refused(f"is a zip archive with {len(pickles)} members data.pkl where PyTorch has one{hint}")
        root = pickles[0].removesuffix("data.pkl")
        if f"{root}constants.pkl" in names:
            raise Refused("is a TorchScript file, which holds code; save model.state_dict()")
        order = archive.read(f"{root}byteorder") if f"{root}byteorder" in names else b"little"
        found, _ = read_pickle(io.BytesIO(archive.read(pickles[0])))

        def bytes_of(storage: Storage) -> bytes:
            name = f"{root}data/{storage.key}"
            if name not in names:
                raise Refused(f"has no member {name[:80]!r}, which a tensor needs")
            return archive.read(name)

        return _resolve(found, bytes_of, ">" if order.strip() == b"big" else "<")


def _load_legacy(data: bytes) -> Any:
    file = io.BytesIO(data)
    if data[:1] != b"\x80":
        raise Refused("expected a PyTorch file (a zip archive, or the format before PyTorch 1.6), got neither")
    if read_pickle(file)[0] != MAGIC:
        raise Refused("is a pickle, but not one of PyTorch: its magic number is missing")
    if read_pickle(file)[0] != PROTOCOL:
        raise Refused("is a PyTorch file of an unknown protocol")
    facts, _ = read_pickle(file)
    found, storages = read_pickle(file)
    keys, _ = read_pickle(file)
    if not isinstance(facts, dict) or not isinstance(keys, list):
        raise Refused("is a PyTorch file without its list of storages")
    order = "<" if facts.get("little_endian", True) else ">"
    runs: dict[str, bytes] = {}
    for key in map(str, keys):
        count = int.from_bytes(file.read(8), "little" if order == "<" else "big")
        if key not in storages:
            raise Refused(f"has a storage {key[:40]!r} that no tensor needs")
        length = count * np.dtype(storages[key].dtype).itemsize
        if length > len(data) - file.tell():
            raise Refused(f"ends early: storage {key[:40]!r} says {count} numbers")
        runs[key] = file.read(length)

    def bytes_of(storage: Storage) -> bytes:
        if storage.key not in runs:
            raise Refused(f"has no storage {storage.key[:40]!r}, which a tensor needs")
        return runs[storage.key]

    return _resolve(found, bytes_of, order)


def _resolve(found: Any, bytes_of: Callable[[Storage], bytes], order: str) -> Any:
    """Records to arrays; each storage is read once."""
    kept: dict[str, bytes] = {}

    def array(tensor: Tensor) -> NDArray[Any]:
        storage = tensor.storage
        if storage.key not in kept:
            kept[storage.key] = bytes_of(storage)
        return _view(tensor, kept[storage.key], order)

    done: dict[tuple[int, int], Any] = {}  # by identity: a pickle may name one list a million times

    def walk(item: Any, depth: int) -> Any:
        if isinstance(item, Tensor):
            return array(item)
        if isinstance(item, NumpyArray):
            return item.value
        if isinstance(item, str | int | float | bool | bytes):
            return item
        if depth == 0 or not isinstance(item, dict | list | tuple):
            return None
        key = (id(item), depth)
        if key not in done:
            if isinstance(item, dict):
                done[key] = {name: walk(value, depth - 1) for name, value in item.items()}
            else:
                done[key] = [walk(value, depth - 1) for value in item]
        return done[key]

    return walk(found, DEPTH)


def _view(tensor: Tensor, data: bytes, order: str) -> NDArray[Any]:
    dtype = np.dtype(tensor.storage.dtype).newbyteorder(order)  # type: ignore[arg-type]
    numbers = np.frombuffer(data, dtype=dtype, count=len(data) // dtype.itemsize)
    if numbers.size < tensor.storage.numel:
        raise Refused(f"has {numbers.size} numbers in a storage that says {tensor.storage.numel}")
    count = 1
    for side in tensor.size:
        count *= side
    last = tensor.offset + sum((side - 1) * step for side, step in zip(tensor.size, tensor.stride, strict=True))
    if count > numbers.size or (count and last >= numbers.size):
        raise Refused(f"has a tensor of shape {str(tensor.size)[:60]} in a storage of {numbers.size} numbers")
    if count == 0:
        return np.zeros(tensor.size, dtype=np.float32)
    strides = tuple(step * dtype.itemsize for step in tensor.stride)
    view = np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.size, strides, writeable=False)
    if tensor.storage.bfloat16:
        # bfloat16 is the upper half of a float32.
        return (view.astype(np.uint32) << 16).view(np.float32)
    return view if dtype.isnative else view.astype(dtype.newbyteorder("="))
