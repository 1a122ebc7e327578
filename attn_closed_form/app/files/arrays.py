"""Read and write arrays, with one reader per format: `.npz`, `.npy`, `.safetensors`, PyTorch and
HDF5.

Files are untrusted. No pickle is executed, and a file cannot claim more memory than it has bytes:
the sizes that a zip archive, a header or an HDF5 dataset claims are checked before anything is
allocated.

A safetensors file has 8 bytes with the length of a header (little endian), the header in JSON,
`{name: {dtype, shape, data_offsets}}` and optionally `__metadata__`, and the numbers. The format
has no text, so arrays of names are stored as lists in the metadata.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._arrays import as_array, check, real
from ..._types import Label
from .atomic import check_size, reading, regular_file, replacing
from .hdf5 import read_hdf5
from .torch_files import load_torch, number_of_items, widened

Arrays = dict[str, NDArray[Any]]

# Formats that this package writes.
OWN_SUFFIXES = (".npz", ".safetensors")
# Names of HDF5 files.
H5_SUFFIXES = (".h5", ".hdf5", ".he5")
# Formats from which a state dict is read.
STATE_SUFFIXES = (
    ".pt",
    ".pth",
    ".ckpt",
    ".bin",
    ".pkl",
    ".tar",
    ".safetensors",
    ".npz",
    *H5_SUFFIXES,
)
# Types of safetensors and their NumPy codes; bfloat16 is read as integers and widened.
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
# The types of safetensors by NumPy code, for writing.
CODES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


def read_arrays(path: str | os.PathLike[str], suffixes: Sequence[str] = OWN_SUFFIXES) -> Any:
    """Read the arrays of a file by name, or its only array (`.npy`, and PyTorch files of one
    tensor).

    The dicts of a PyTorch file may be nested. A file that is missing, damaged, pickled, too large
    or has another suffix raises a one-line error that names the file.
    """
    path = regular_file(_with_suffix(path, suffixes))
    suffix = path.suffix.lower()
    # The readers of HDF5 and PyTorch files turn errors into one line themselves.
    if suffix in H5_SUFFIXES:
        return read_hdf5(path)[0]
    if suffix not in (".npz", ".npy", ".safetensors"):
        return load_torch(path)
    with reading(path, suffix):
        if suffix == ".npy":
            with path.open("rb") as stream:
                return _npy(stream, path.stat().st_size)
        if suffix == ".npz":
            return _read_npz(path)
        return _read_safetensors(path)


def write_arrays(arrays: Mapping[str, NDArray[Any]], path: str | os.PathLike[str]) -> None:
    """Write named arrays of numbers or names to a `.npz` or `.safetensors` file, which is replaced
    atomically.
    """
    path = _with_suffix(path, OWN_SUFFIXES)
    for name, array in arrays.items():
        # NumPy would pickle objects, and `read_arrays` accepts no pickle.
        if array.dtype.hasobject:
            raise ValueError(
                f"{name}: expected an array of plain data, got dtype {array.dtype}, which needs "
                "pickle"
            )
    with replacing(path) as partial, partial.open("wb") as stream:
        if path.suffix.lower() == ".npz":
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # takes any name as an array
        else:
            _write_safetensors(arrays, stream)


def check_names(names: Collection[str]) -> None:
    """Reject unusual names, because patterns are matched against each name and error messages show
    them.
    """
    max_name = 500  # characters in a name
    max_names = 10_000
    if len(names) > max_names or any(
        len(name) > max_name or not name.isprintable() for name in names
    ):
        raise ValueError(
            f"it has more than {max_names} arrays, or names that are too long or not printable"
        )


def _with_suffix(path: str | os.PathLike[str], suffixes: Sequence[str]) -> Path:
    """Return a path that ends in one of the suffixes, or raise an error."""
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        shown = " or ".join([", ".join(suffixes[:-1]), suffixes[-1]])
        raise ValueError(f"{path}: expected a file name ending in {shown}, got {path.suffix!r}")
    return path


def _read_npz(path: Path) -> Arrays:
    """Read the arrays of an .npz file, none of which may be a pickle."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        # zipfile hands out no more than the size in the directory of the archive, so this sum
        # bounds the memory.
        check_size(sum(member.file_size for member in archive.infolist()), path)
        check_names(archive.namelist())
        for member in archive.infolist():
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it has a compression that NumPy does not write")
            with archive.open(member) as stream:
                try:
                    arrays[member.filename.removesuffix(".npy")] = _npy(stream, member.file_size)
                except ValueError as error:
                    raise ValueError(
                        f"{member.filename[:60]!r} is not an array of plain data: {error}"
                    ) from None
    return arrays


def _npy(stream: Any, size: int) -> NDArray[Any]:
    """Read one array in NumPy's format as a read-only view of its bytes."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its version {version} is unknown")
    # The versions differ in the size of the header's length. NumPy limits the header, which is
    # parsed as a literal and never run.
    read_header = np.lib.format.read_array_header_1_0
    if version == (2, 0):
        read_header = np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    needed = number_of_items(shape) * dtype.itemsize
    if dtype.hasobject or needed > size - stream.tell():
        raise ValueError(
            f"it has dtype {dtype} and shape {str(shape)[:60]}, which do not match its data"
        )
    return np.ndarray(shape, dtype, stream.read(needed), order="F" if fortran else "C")


def _read_safetensors(path: Path) -> Arrays:
    """Read a .safetensors file, whose header gives the place of every array."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    max_header = 2**24  # bytes in a safetensors file; JSON takes up to thirty times as much memory
    if length > min(len(data) - 8, max_header):
        raise ValueError(f"its header has {length} bytes, and the file has {len(data)}")
    try:
        header = dict(json.loads(data[8 : 8 + length]).items())
    except (ValueError, AttributeError, RecursionError):
        # A list has no `items`, and JSON that is nested thousands of levels deep exhausts the
        # stack.
        raise ValueError("its header is not a JSON object") from None
    metadata = header.pop("__metadata__", {})
    check_names(header)
    body = memoryview(data)[8 + length :]
    arrays: Arrays = {}
    used = 0
    for name, entry in header.items():
        try:
            dtype = np.dtype(DTYPES[entry["dtype"]])
            shape = entry["shape"]
            (start, end) = entry["data_offsets"]
            size = number_of_items(shape) * dtype.itemsize
            # Only its checks are needed here: offsets are whole numbers of 0 or more.
            number_of_items((start, end))
        except (TypeError, KeyError, ValueError):
            raise ValueError(
                f"its entry {name[:60]!r} has no dtype, shape and data_offsets"
            ) from None
        # The sum of the sizes is bounded as well, so that overlapping entries cannot multiply the
        # file.
        used += size
        if end > len(body) or end - start != size or used > len(body):
            raise ValueError(
                f"its entry {name[:60]!r} of shape {str(shape)[:60]} does not fit, or overlaps "
                "another"
            )
        array: NDArray[Any] = np.ndarray(shape, dtype, body[start:end])  # a read-only view
        if entry["dtype"] == "BF16":
            array = widened(array)
        arrays[name] = array
    if isinstance(metadata, dict):
        for name, names in _lists_of_names(metadata):
            # An array in the file has precedence over a list of the same name.
            arrays.setdefault(name, names)
    return arrays


def _lists_of_names(metadata: dict[str, Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the entries of the metadata that are lists of texts in JSON; others are ignored."""
    for name, text in metadata.items():
        try:
            names = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            continue
        if isinstance(names, list) and all(isinstance(word, str) for word in names):
            yield name, np.array(names, dtype=np.str_)


def _write_safetensors(arrays: Mapping[str, NDArray[Any]], stream: BinaryIO) -> None:
    """Write arrays of numbers, and lists of names as metadata."""
    header: dict[str, Any] = {}
    metadata = {
        name: json.dumps(array.tolist())
        for name, array in arrays.items()
        if array.dtype.kind == "U"
    }
    # The format is little-endian on every machine.
    numbers = [
        (name, array.astype(array.dtype.newbyteorder("<"))) for name, array in arrays.items()
    ]
    # Arrays with large items come first, so that each starts at a multiple of its item size.
    numbers = sorted(
        (pair for pair in numbers if pair[0] not in metadata), key=lambda pair: -pair[1].itemsize
    )
    start = 0
    for name, array in numbers:
        check(name, array.dtype.str in CODES, "real numbers or names", f"dtype {array.dtype}")
        end = start + array.nbytes
        header[name] = {
            "dtype": CODES[array.dtype.str],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
        start = end
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    # Blanks fill the header, so that the numbers begin at a multiple of 8 bytes.
    text += b" " * (-len(text) % 8)
    stream.write(len(text).to_bytes(8, "little") + text)
    for _, array in numbers:
        stream.write(array.tobytes())


# State dicts


class Linear(NamedTuple):
    """Weight (out, in) and bias (out,) of a linear layer; the bias is zero if the layer has
    none.
    """

    W: NDArray[np.float64]
    b: NDArray[np.float64]


class StateDict:
    """The weights of a network by name, with a record of those that were read.

    `outputs` are the class names, `options` those of a layout, and `labels` those of the training
    data, if the file has them; `source` names the file in error messages.
    """

    def __init__(
        self,
        arrays: Arrays,
        source: str,
        outputs: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        labels: Sequence[Label] = (),
    ) -> None:
        self.arrays = dict(arrays)
        self.source = source
        self.outputs = tuple(outputs)
        self.options = dict(options or {})
        self.labels = tuple(labels)
        self.read: set[str] = set()
        # What a layout assumed about the network because the file does not contain it, in words, by
        # option.
        self.unsaid: dict[str, str] = {}
        # The meanings that the outputs can have, if the file says so.
        self.heads: tuple[str, ...] = ()

    def keys(self, pattern: str) -> list[str]:
        """Return the names that match a regular expression, sorted by the last number in each."""
        matches = (key for key in self.arrays if re.fullmatch(pattern, key))
        # As texts, layer 10 would come before layer 2. Names without a number keep the order of the
        # file.
        return sorted(matches, key=lambda key: int((re.findall(r"\d+", key) or ["0"])[-1]))

    def layers(self, pattern: str) -> list[str]:
        """Return the names of matching layers with a weight, sorted by the last number in each."""
        return [key.removesuffix(".weight") for key in self.keys(rf"(?:{pattern})\.weight")]

    def layer(self, pattern: str) -> Linear:
        """Return the only linear layer whose name matches."""
        names = self.layers(pattern)
        if len(names) != 1:
            plain = pattern.replace("\\", "")
            raise ValueError(
                f"{self.source}: expected one layer {plain!r}, got "
                f"{names or 'only ' + self.summary()}"
            )
        return self.linear(names[0])

    def linear(self, name: str) -> Linear:
        """Return a linear layer by its full name."""
        W = self.array(f"{name}.weight", ndim=2)
        b = np.zeros(len(W))
        if f"{name}.bias" in self.arrays:
            b = self.array(f"{name}.bias", ndim=1)
        check(f"{self.source}: {name}.bias", b.shape == (len(W),), f"shape ({len(W)},)", b.shape)
        return Linear(W, b)

    def array(self, name: str, ndim: int | None = None) -> NDArray[np.float64]:
        """Return one array in float64."""
        if name not in self.arrays:
            raise ValueError(f"{self.source}: expected weights {name!r}, got only {self.summary()}")
        # `check_all_read` reports every weight that no builder has asked for.
        self.read.add(name)
        array = real(f"{self.source}: {name}", self.arrays[name]).astype(np.float64)
        if ndim is not None and array.ndim != ndim:
            raise ValueError(
                f"{self.source}: {name}: expected {ndim} axes, got shape {array.shape}"
            )
        return array

    def batch_norm(self, name: str, eps: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scale and the shift, both (E,), of a batch normalization in evaluation
        mode.
        """
        scale = 1 / np.sqrt(self.array(f"{name}.running_var", 1) + eps)
        shift = -self.array(f"{name}.running_mean", 1) * scale
        if f"{name}.weight" in self.arrays:
            gamma = self.array(f"{name}.weight", 1)
            beta = self.array(f"{name}.bias", 1)
            scale = scale * gamma
            shift = shift * gamma + beta
        # The counter of batches matters in training only.
        self.leave(f"{name}.num_batches_tracked")
        return scale, shift

    def leave(self, *starts: str) -> None:
        """Ignore weights that do not affect the prediction, by the prefixes of their names."""
        self.read.update(key for key in self.arrays if key.startswith(starts))

    def check_all_read(self, expected: str, hint: str = "") -> None:
        """Raise an error if some weights were neither read nor ignored, because they belong to
        another network.
        """
        if unread := [key for key in self.arrays if key not in self.read]:
            raise ValueError(
                f"{self.source}: has weights that {expected}: {self.summary(unread)}{hint}"
            )

    def summary(self, names: Iterable[str] | None = None, most: int = 8) -> str:
        """List names with shapes, for error messages."""
        chosen = sorted(self.arrays if names is None else names)
        shown = ", ".join(f"{key[:80]} {tuple(self.arrays[key].shape)}" for key in chosen[:most])
        if len(chosen) > most:
            shown += f" and {len(chosen) - most} more"
        return shown


def read_state(source: str | os.PathLike[str] | Mapping[str, Any]) -> StateDict:
    """Read the state dict in a file or in a mapping of names to arrays or torch tensors.

    Training scripts store it under a name next to optimizer state, and wrappers add a prefix to
    all its names; both are removed.
    """
    if not isinstance(source, str | os.PathLike | Mapping):
        raise TypeError(
            f"state: expected a file, a state dict or a module, got {type(source).__name__}"
        )
    name = "state"
    content: Any = source
    if not isinstance(source, Mapping):
        name = str(source)
        content = read_arrays(source, STATE_SUFFIXES)
    if not isinstance(content, Mapping):
        raise ValueError(
            f"{name}: expected a state dict (names with weights), got one {type(content).__name__}"
        )
    # `AttentionBagClassifier.save` writes names of classes and options; other programs do not.
    outputs = _texts(content.get("outputs"))
    options = _json_object(name, _texts(content.get("options")))
    with reading(name, "state dict"):
        labels = checked_labels(json.loads("".join(_texts(content.get("labels"))) or "[]"))
    innermost = _state_in(content)
    weights = _weights(innermost)
    if not weights:
        raise ValueError(
            f"{name}: expected a state dict (names with weights), got "
            f"{sorted(map(str, innermost))[:12]}"
        )
    with reading(name, "state dict"):
        check_names(weights)
    arrays = _without_prefixes(_of_the_network(weights))
    return StateDict(arrays=arrays, source=name, outputs=outputs, options=options, labels=labels)


def _state_in(content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the state dict that a training script has stored inside other dicts."""
    # Keys under which training scripts store the state dict, in the order in which they are tried.
    keys = ("model_state_dict", "state_dict", "model_state", "model", "net", "network", "weights")
    # Training scripts nest dicts, such as {"model": {"state_dict": {...}}}, at most this deep.
    most_levels = 3
    for _ in range(most_levels):
        inner = (content[key] for key in keys if isinstance(content.get(key), Mapping))
        content = next(inner, content)
    return content


def _weights(content: Mapping[Any, Any]) -> Arrays:
    """Return the arrays and tensors of a state dict. Epochs and optimizer states are left out."""
    weights = {}
    for key, value in content.items():
        # Tensors are recognized by `detach`, so that PyTorch is not imported.
        is_tensor = hasattr(value, "detach")
        is_numbers = isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
        if is_tensor or is_numbers:
            weights[str(key)] = as_array(value)
    return weights


def _of_the_network(weights: Arrays) -> Arrays:
    """Leave out what only training needs, such as the metrics that Lightning stores next to a
    network called `model`.
    """
    training = (
        "criterion.",
        "loss",
        "metric",
        "auroc",
        "accuracy",
        "train_",
        "val_",
        "valid_",
        "test_",
    )
    rest = {key: value for key, value in weights.items() if not key.startswith(training)}
    # Only a common prefix of a wrapper shows that the other entries are those of the training.
    # Without one, a layer called `metric...` may be part of the network.
    if rest and _common_prefix(rest) is not None:
        return rest
    return weights


def _without_prefixes(arrays: Arrays) -> Arrays:
    """Remove the prefixes of wrappers, which can be nested, as in `module.model.`."""
    while (prefix := _common_prefix(arrays)) is not None:
        arrays = {key.removeprefix(prefix): value for key, value in arrays.items()}
    return arrays


def _common_prefix(arrays: Arrays) -> str | None:
    """Return the prefix that a wrapper has added to all names, if there is one."""
    # DataParallel, Lightning, torch.compile, Hugging Face, and training scripts.
    prefixes = (
        "module.",
        "model.",
        "_orig_mod.",
        "net.",
        "network.",
        "backbone.",
        "aggregator.",
        "mil.",
        "mil_model.",
    )
    for prefix in prefixes:
        if all(key.startswith(prefix) for key in arrays):
            return prefix
    return None


def checked_labels(labels: Any) -> tuple[Label, ...]:
    """Return the labels of classes that a file has, or raise an error.

    >>> checked_labels([0, 1])
    (0, 1)
    """
    are_labels = isinstance(labels, list) and all(isinstance(label, Label) for label in labels)
    check("labels", are_labels, "a list of numbers or texts", labels)
    return tuple(labels)


def _texts(array: Any) -> tuple[str, ...]:
    """Return the texts of an array, or none if it is anything else."""
    if isinstance(array, np.ndarray) and array.dtype.kind == "U":
        return tuple(array.ravel().tolist())
    return ()


def _json_object(source: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the JSON object in a text that a file may have."""
    if not texts:
        return {}
    try:
        return dict(json.loads(texts[0]).items())
    except (ValueError, AttributeError, RecursionError):
        raise ValueError(f"{source}: options: expected a JSON object") from None
