"""Safetensors files, read by their own format: no package is needed, and bfloat16 becomes float32.

A file is 8 bytes with the length of a header (little endian), the header in JSON, `{name: {dtype, shape,
data_offsets}}` and perhaps `__metadata__`, and the numbers. Offsets are checked against shapes and the end of the
file, so that a file cannot ask for more memory than it has bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
MAX_HEADER = 100_000_000  # the format's own limit


class Safetensors(NamedTuple):
    """Arrays by name, and the metadata, text by name."""

    arrays: dict[str, NDArray[Any]]
    metadata: dict[str, str]


def load_safetensors(path: Path) -> Safetensors:
    """Arrays and metadata of a file; a ValueError says what is wrong with it."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, MAX_HEADER):
        raise ValueError(f"its header says {length} bytes, and the file has {len(data)}")
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        raise ValueError("its header is no JSON") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    metadata = header.pop("__metadata__", {})
    body = data[8 + length :]
    arrays = {name: _array(name, entry, body) for name, entry in header.items()}
    return Safetensors(arrays, metadata if isinstance(metadata, dict) else {})


def _array(name: str, entry: Any, body: bytes) -> NDArray[Any]:
    """One array: a read-only view of the bytes."""
    try:
        kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, start, end))
    except (TypeError, KeyError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"its entry {name[:60]!r} has no dtype, shape and data_offsets")
    if kind not in DTYPES:
        raise ValueError(f"its entry {name[:60]!r} has the unknown type {str(kind)[:20]!r}")
    dtype = np.dtype(DTYPES[kind])
    count = 1
    for side in shape:
        count *= side
    if end > len(body) or end - start != count * dtype.itemsize:
        raise ValueError(f"its entry {name[:60]!r} of shape {str(shape)[:60]} does not fit into the file")
    array = np.frombuffer(body, dtype=dtype, count=count, offset=start).reshape(shape) if count else np.zeros(shape)
    # bfloat16 is the upper half of a float32.
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" and count else array
