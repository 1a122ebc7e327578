"""The process in which an HDF5 file is read: a damaged one can hang or crash HDF5's library, and this process with it.

`files/bags.py` starts this file as a script. It takes one line of JSON, {path, wanted, attributes}, and answers with
lines of JSON: that it is ready; for each wanted array its name, dtype, shape and bytes of a chunk, followed by its
numbers, or by a line of texts; at last the names and the attributes of the file, or an error.

An HDF5 file can name other files as the place of its numbers (external links, external storage, virtual datasets) and
libraries that decode them (filters): only datasets that lie in the file itself, with HDF5's own filters, are read.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

MEMORY = 2**30  # bytes that this process may take, where the system can limit them
BLOCK = 2**24  # bytes that are read at once
MAX_NAMES = 10_000
MAX_ATTRIBUTE = 10_000  # bytes
FILTERS = {1, 2, 3, 4, 5, 6, 32000}  # deflate, shuffle, fletcher32, szip, nbit, scaleoffset, and h5py's LZF


def send(**facts: Any) -> None:
    """One line of JSON."""
    sys.stdout.buffer.write(json.dumps(facts, default=lambda _: None).encode() + b"\n")
    sys.stdout.buffer.flush()


def attributes(data: Any, names: list[str]) -> dict[str, Any]:
    """The attributes that are used, as plain values."""
    attrs = {}
    for name in names:
        if name in data.attrs:
            if data.attrs.get_id(name).get_storage_size() > MAX_ATTRIBUTE:
                raise ValueError(f"its attribute {name!r} has more than {MAX_ATTRIBUTE} bytes")
            value = data.attrs[name]
            value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
            attrs[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return attrs


def send_array(h5py: Any, name: str, data: Any) -> None:
    """One dataset, block by block."""
    if data.external is not None or data.is_virtual:
        raise ValueError(f"{name!r} lies in another file, which is not opened")
    stored = data.id.get_create_plist()
    if not FILTERS.issuperset(stored.get_filter(i)[0] for i in range(stored.get_nfilters())):
        raise ValueError(f"{name!r} has a filter that HDF5 itself does not have")
    chunk = int(np.prod(data.chunks or (0,), dtype=object)) * data.dtype.itemsize
    facts = {"name": name, "dtype": data.dtype.str, "shape": data.shape, "chunk": chunk}
    if data.dtype.hasobject and h5py.check_string_dtype(data.dtype) is None:
        raise ValueError(f"{name!r} holds references or lists, not numbers or names")
    send(**facts)
    if data.dtype.hasobject:
        send(texts=np.ravel(data.asstr(errors="replace")[()]).tolist())
        return
    axis = next((axis for axis, side in enumerate(data.shape) if side > 1), 0)
    rows = data.shape[axis] if data.shape else 1
    row_bytes = max(1, data.size * data.dtype.itemsize // max(1, rows))
    whole = data.chunks[axis] if data.chunks else 1  # a chunk is decoded whole, so that blocks end where chunks end
    step = max(whole, BLOCK // row_bytes // whole * whole)
    for start in range(0, rows, step) if data.size else ():
        part = data[(*[0] * axis, slice(start, start + step))] if data.shape else data[()]
        sys.stdout.buffer.write(np.ascontiguousarray(part).tobytes())


def main() -> None:
    """Answer one request."""
    import h5py

    request = json.loads(sys.stdin.readline())
    try:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, OSError, ValueError):
        pass
    send(ready=True)
    try:
        with h5py.File(request["path"], "r") as file:
            if len(file) > MAX_NAMES:
                raise ValueError(f"it has more than {MAX_NAMES} names")
            attrs = attributes(file, request["attributes"])
            names = list(file)
            for name in sorted(set(request["wanted"]).intersection(names)):
                if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{name!r} is a link to another place, which is not followed")
                if isinstance(file[name], h5py.Dataset):
                    send_array(h5py, name, file[name])
                    attrs |= attributes(file[name], request["attributes"])
            send(names=names, attrs=attrs)
    except Exception as error:  # of many kinds for damaged files
        send(error=(str(error).strip() or type(error).__name__).splitlines()[0][:400])


if __name__ == "__main__":
    main()
