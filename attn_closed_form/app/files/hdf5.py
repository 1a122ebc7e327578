"""Read HDF5 files in a separate process, because a damaged file can hang or crash the HDF5 library.

`read_hdf5` starts this file as a script. It reads one line of JSON, {path, wanted, attributes}, and
answers with lines of JSON: a ready signal; for each array its name, dtype, shape and bytes of a
chunk, followed by its numbers or by a line of texts; finally the names and the attributes of the
file, or an error. A script is not part of a package, so this module imports the rest of the library
inside functions.

An HDF5 file can refer to other files for its numbers (external links, external storage, virtual
datasets) and to libraries that decode them (filters). Only datasets in the file itself, with HDF5's
own filters, are read.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

MAX_LINE = 2**27  # maximum size in bytes of an answer other than numbers

# HDF5's own filters, which decode without a plug-in: deflate, shuffle, fletcher32, szip, nbit,
# scaleoffset, and h5py's LZF.
FILTERS = {1, 2, 3, 4, 5, 6, 32000}


def read_hdf5(
    path: Path, wanted: Collection[str] | None = None, attributes: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read all arrays of a file, or the wanted ones at its top level (None for other names), and
    its attributes.

    Names of arrays in groups have dots, as in "layers.dense.vars.0".
    """
    from .atomic import reading

    if importlib.util.find_spec("h5py") is None:
        raise ImportError(f"{path}: HDF5 files need the h5py package: pip install '.[bags]'")
    request = {
        "path": str(path.resolve()),
        "wanted": wanted and list(wanted),
        "attributes": list(attributes),
    }
    # Each thread of OpenBLAS reserves address space, which `main` limits.
    # The path "::" disables plug-ins, which would run code.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "HDF5_PLUGIN_PRELOAD": "::"}
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    arrays: dict[str, Any] = {}
    with (
        reading(path, "HDF5"),
        subprocess.Popen([sys.executable, "-P", __file__], env=environment, **pipes) as child,
    ):
        assert child.stdin is not None and child.stdout is not None
        # The start of Python and of h5py on a busy machine.
        startup_seconds = 60.0
        timer = threading.Timer(startup_seconds, child.kill)
        try:
            timer.start()
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.close()
            # The time for the file begins with the ready signal, so a slow start of Python is not
            # taken for a damaged file.
            child.stdout.readline()
            timer.cancel()
            # Time limit in seconds for reading a file, to which its size divided by the speed and
            # the start are added.
            seconds = 3.0
            # Bytes per second of a slow disk.
            speed = 10_000_000
            timer = threading.Timer(seconds + path.stat().st_size / speed, child.kill)
            timer.start()
            while line := child.stdout.readline(MAX_LINE):
                facts = json.loads(line)
                if "error" in facts:
                    raise ValueError(facts["error"])
                if "names" in facts:
                    return dict.fromkeys(facts["names"]) | arrays, facts["attrs"]
                arrays[facts["name"]] = _receive(facts, child.stdout, path)
            # The answers end before the names: the process died, or a timer killed it.
            raise ValueError("HDF5's library crashed on it, or took too long")
        finally:
            timer.cancel()
            child.kill()


def _receive(facts: dict[str, Any], stream: IO[bytes], path: Path) -> NDArray[Any]:
    """Receive one array from the child process, after checking its size."""
    from .atomic import check_size
    from .torch_files import number_of_items

    dtype = np.dtype(facts["dtype"])
    items = number_of_items(facts["shape"])
    # A chunk is decoded as a whole, so a huge chunk counts even if the array is small.
    check_size(max(items * dtype.itemsize, facts["chunk"]), path)
    if dtype.hasobject:
        return np.array(json.loads(stream.readline(MAX_LINE))["texts"], dtype=np.str_)
    array = np.empty(facts["shape"], dtype)
    stream.readinto(array.reshape(-1).view(np.uint8))  # type: ignore[attr-defined]  # no line follows if it is cut off
    return array


# The process that reads


def send(**facts: Any) -> None:
    """Write one line of JSON."""
    # An attribute of a type that JSON lacks is sent as null.
    sys.stdout.buffer.write(json.dumps(facts, default=lambda _: None).encode() + b"\n")
    sys.stdout.buffer.flush()


def attributes(data: Any, names: list[str]) -> dict[str, Any]:
    """Return the named attributes as plain values."""
    attrs = {}
    max_attribute = 10_000  # bytes
    for name in names:
        if name in data.attrs:
            if data.attrs.get_id(name).get_storage_size() > max_attribute:
                raise ValueError(f"its attribute {name!r} has more than {max_attribute} bytes")
            value = data.attrs[name]
            if isinstance(value, np.generic | np.ndarray):
                value = value.tolist()
            if isinstance(value, bytes):
                attrs[name] = value.decode("utf-8", "replace")
            else:
                attrs[name] = value
    return attrs


def send_array(h5py: Any, name: str, data: Any) -> None:
    """Write one dataset, block by block."""
    if data.external is not None or data.is_virtual:
        raise ValueError(f"{name!r} is stored in another file, which is not opened")
    stored = data.id.get_create_plist()
    if not FILTERS.issuperset(stored.get_filter(i)[0] for i in range(stored.get_nfilters())):
        raise ValueError(f"{name!r} has a filter that HDF5 itself does not have")
    # Python's integers do not overflow, whatever chunks a file claims.
    chunk = int(np.prod(data.chunks or (0,), dtype=object)) * data.dtype.itemsize
    facts = {"name": name, "dtype": data.dtype.str, "shape": data.shape, "chunk": chunk}
    if data.dtype.hasobject and h5py.check_string_dtype(data.dtype) is None:
        raise ValueError(f"{name!r} contains references or lists instead of numbers or names")
    send(**facts)
    if data.dtype.hasobject:
        send(texts=np.ravel(data.asstr(errors="replace")[()]).tolist())
        return
    axis = next((axis for axis, side in enumerate(data.shape) if side > 1), 0)
    rows = data.shape[axis] if data.shape else 1
    row_bytes = max(1, data.size * data.dtype.itemsize // max(1, rows))
    # A chunk is decoded as a whole, so blocks end where chunks end.
    whole = data.chunks[axis] if data.chunks else 1
    read_bytes = 2**24  # bytes per read
    step = max(whole, read_bytes // row_bytes // whole * whole)
    if not data.size:
        return
    for start in range(0, rows, step):
        # The axes before this one have one entry. A number has no axis.
        part = data[()]
        if data.shape:
            part = data[(*[0] * axis, slice(start, start + step))]
        sys.stdout.buffer.write(np.ascontiguousarray(part).tobytes())


def main() -> None:
    """Answer one request."""
    import h5py

    request = json.loads(sys.stdin.readline())
    memory = 2**30  # maximum memory of this process in bytes, if the system can limit it
    try:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    except (ImportError, OSError, ValueError):
        pass
    # Everything before was the start of this process; the time for the file begins here.
    send(ready=True)
    max_datasets = 10_000  # names in a group
    max_depth = 10  # groups inside each other
    try:
        with h5py.File(request["path"], "r") as file:
            attrs = attributes(file, request["attributes"])
            names = list(file)
            if request["wanted"] is None:
                wanted = names
            else:
                wanted = sorted(set(request["wanted"]).intersection(names))
            if max(len(names), len(wanted)) > max_datasets:
                raise ValueError(f"it has more than {max_datasets} names")
            places = [(file, name, name) for name in wanted]
            while places:
                group, name, label = places.pop(0)
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{name!r} is a link to another place, which is not followed")
                if isinstance(group[name], h5py.Dataset):
                    send_array(h5py, label, group[name])
                    attrs |= attributes(group[name], request["attributes"])
                elif request["wanted"] is None and isinstance(group[name], h5py.Group):
                    places += [(group[name], inner, f"{label}.{inner}") for inner in group[name]]
                    if len(places) > max_datasets or label.count(".") > max_depth:
                        raise ValueError(
                            f"it has more than {max_datasets} names, or groups more than "
                            f"{max_depth} deep"
                        )
            send(names=names, attrs=attrs)
    except Exception as error:  # damaged files raise errors of many types
        send(error=(str(error).strip() or type(error).__name__).splitlines()[0][:400])


if __name__ == "__main__":
    main()
