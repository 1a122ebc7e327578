"""Read PyTorch's `.pt` files, in both formats, as arrays: without PyTorch, and without running any
code in the file.

Since PyTorch 1.6, a file is an uncompressed zip archive of one pickle (`NAME/data.pkl`) and one
member per storage (`NAME/data/KEY`). Before, it was a magic number, a protocol number, machine
information, the pickle, the keys of the storages and then their numbers, in this order. A pickle is
a program. `pickle.Unpickler` runs it with two protections:

- **Names are restricted.** `find_class` maps the names that a saved state dict needs to records and
  functions of this module, and rejects every other name. Nothing is imported, and no attribute is
  set.
- **Instructions are scanned first**, on a stack of kinds instead of values. Their number, the size
  of integers, the memo indices and the length of function arguments are bounded, and keys of dicts
  and members of sets must be texts or numbers. Objects from a file are never hashed, compared or
  printed, because references to earlier parts can make them exponentially large.

Tensors are views of the storages, so a small file cannot become a large array, no matter which
sizes it claims.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import pickletools
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .atomic import reading, regular_file

# The first number of the format before PyTorch 1.6 (torch/serialization.py).
MAGIC = 0x1950A86A20F9469CFC6C
# Types of NumPy arrays that a file may have: plain numbers.
NUMPY_CODES = frozenset(("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"))
# A state dict of 1,000 tensors with its optimizer needs about 100,000 instructions; the scan takes
# about 2 us for each.
MAX_INSTRUCTIONS = 500_000
# Names of instructions, as in `pickletools`.
_OPCODES = (
    "BININT BININT1 BININT2 INT LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE BINUNICODE "
    "SHORT_BINUNICODE BINUNICODE8 STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES "
    "BINBYTES8 NONE NEWTRUE NEWFALSE EMPTY_DICT EMPTY_LIST EMPTY_SET EMPTY_TUPLE TUPLE TUPLE1 "
    "TUPLE2 TUPLE3 LIST DICT SETITEM SETITEMS APPEND APPENDS ADDITEMS PUT BINPUT LONG_BINPUT "
    "MEMOIZE GET BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE NEWOBJ BUILD BINPERSID PROTO FRAME "
    "STOP MARK POP_MARK POP DUP"
)
# Instructions of a pickle that are followed; any other one is an error.
OPCODES = frozenset(_OPCODES.split())
# Kinds of texts and numbers in `pickletools`, which may be keys.
KEYS = frozenset(("int", "int_or_bool", "float", "str", "bytes_or_str"))
# Instructions that pass the top value to a function.
CALLS = frozenset(("REDUCE", "NEWOBJ", "BUILD", "BINPERSID"))
# Instructions that add values to a container.
CHANGES = frozenset(("SETITEM", "SETITEMS", "APPEND", "APPENDS", "ADDITEMS"))
# Instructions that make a container.
COLLECTIONS = frozenset(("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "LIST", "DICT"))


def load_torch(path: str | os.PathLike[str]) -> Any:
    """Load a file written by `torch.save`, with read-only arrays instead of tensors (float32 for
    bfloat16).

    Dicts and lists are kept; objects that are neither numbers nor text (options, a device) become
    None. An error is one line with the file and the reason: it is not a PyTorch file, it is
    damaged, or it contains code.
    """
    path = regular_file(path)
    with reading(path, "PyTorch"):
        if zipfile.is_zipfile(path):
            return _load_zip(path)
        return _load_legacy(path.read_bytes())


def _load_zip(path: Path) -> Any:
    """Read a file in the zip format of PyTorch: one pickle, and one member per storage."""
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError(
                "it is a zip archive with compressed members, which PyTorch does not write"
            )
        # The members of a zip archive can overlap, which would make a small file large.
        if len(sizes) < len(archive.infolist()) or sum(sizes.values()) > path.stat().st_size:
            raise ValueError(
                "it is a zip archive whose members are larger than the file, or share a name"
            )
        # The slash in front also finds a data.pkl at the top of the archive.
        pickles = [name for name in sizes if f"/{name}".endswith("/data.pkl")]
        if len(pickles) != 1:
            if any(name.endswith(".npy") for name in sizes):
                hint = "; it looks like a NumPy .npz file"
            else:
                hint = ""
            raise ValueError(
                f"it is a zip archive with {len(pickles)} members data.pkl where PyTorch has "
                f"one{hint}"
            )
        root = pickles[0].removesuffix("data.pkl")
        if f"{root}constants.pkl" in sizes or any("/code/" in name for name in sizes):
            raise ValueError(
                "it is a TorchScript file, which contains code; save model.state_dict()"
            )
        if f"{root}byteorder" in sizes:
            order = archive.read(f"{root}byteorder").decode().strip()
        else:
            # Older versions of PyTorch did not store the order; nearly all machines are
            # little-endian.
            order = "little"
        content, storages = _read_pickle(io.BytesIO(archive.read(pickles[0])))
        # A storage without a member is an error only if a tensor needs it (`_resolve`).
        numbers = {
            key: _numbers(storage, archive.read(f"{root}data/{key}"), order)
            for key, storage in storages.items()
            if f"{root}data/{key}" in sizes
        }
    return _resolve(content, numbers)


def _load_legacy(data: bytes) -> Any:
    """Read a file in the format before PyTorch 1.6: pickles, followed by the storages."""
    file = io.BytesIO(data)
    # The byte 0x80 is the instruction PROTO, with which a pickle of protocol 2 or later begins.
    if data[:1] != b"\x80":
        raise ValueError("it is neither a zip archive nor in the format before PyTorch 1.6")
    # The protocol of these files follows the magic number.
    protocol = 1001
    # Maximum number of instructions of each pickle that precedes the tensors in the old format.
    max_instructions_before = 1000
    if (
        _read_pickle(file, max_instructions_before)[0] != MAGIC
        or _read_pickle(file, max_instructions_before)[0] != protocol
    ):
        raise ValueError("it is a pickle without PyTorch's magic number or protocol")
    facts, _ = _read_pickle(file, max_instructions_before)
    content, storages = _read_pickle(file)
    keys, _ = _read_pickle(file)
    if (
        type(facts) is not dict
        or type(keys) is not list
        or any(type(key) is not str for key in keys)
    ):
        raise ValueError("it is a PyTorch file without its list of storages")
    order: Literal["big", "little"] = "big" if facts.get("little_endian") is False else "little"
    numbers: dict[str, NDArray[Any]] = {}
    for key in keys:
        # Each storage begins with the number of its items, in 8 bytes.
        count = int.from_bytes(file.read(8), order)
        if key not in storages or key in numbers:
            raise ValueError(f"it has a storage {key[:40]!r} that no tensor needs")
        length = count * np.dtype(storages[key].kind).itemsize
        if length > len(data) - file.tell():
            raise ValueError(f"it ends early: storage {key[:40]!r} has {count} numbers")
        numbers[key] = _numbers(storages[key], file.read(length), order)
    return _resolve(content, numbers)


# The pickle: scanned, then run with closed names


def _read_pickle(file: io.BytesIO, most: int = MAX_INSTRUCTIONS) -> tuple[Any, dict[str, Storage]]:
    """Read one pickle, up to its end. Returns its value and the storages that its tensors need."""
    start = file.tell()
    _scan(file, most)
    # The scan has read up to the end of this pickle, where the next one begins.
    reader = _Reader(file.getvalue()[start : file.tell()])
    return reader.load(), reader.storages


class Value:
    """A value on the stack of the scan, with its kind in `pickletools` and the cost of reading it.

    The cost is the number of items, or of characters, of the value and of its items.
    """

    def __init__(self, kind: str, length: int = 0) -> None:
        self.kind = kind
        self.length = length
        self.cost = length

    def add(self, items: Sequence[Value]) -> None:
        """Put items into a tuple, list, dict or set."""
        self.length += len(items)
        self.cost += len(items) + sum(item.length for item in items)


def _scan(file: io.BytesIO, most: int) -> None:
    """Reject instructions that a state dict does not need, and calls that read more than a few
    times the pickle.
    """
    stack: list[Value] = []
    memo: dict[int, Value] = {}
    start = file.tell()
    spent = 0
    argument: Any
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        name = opcode.name
        if name not in OPCODES:
            raise ValueError(
                f"it uses the pickle instruction {name}, which a state dict does not need"
            )
        if count >= most:
            raise ValueError(f"it has a pickle of more than {most} instructions")
        # The magic number of the old format is the only longer integer that a file needs.
        if type(argument) is int and argument.bit_length() > 63 and argument != MAGIC:
            raise ValueError("it has an integer of more than 64 bits")
        if "GET" in name:
            stack.append(memo[int(argument)])
        elif "PUT" in name or name == "MEMOIZE":
            place = len(memo)
            if name != "MEMOIZE":
                place = int(argument)
            # The unpickler allocates all smaller indices.
            if place > count or stack[-1].kind == "mark":
                raise ValueError("it has a pickle with an impossible memo")
            memo[place] = stack[-1]
        else:
            spent += _execute(opcode, argument, stack)
    # A text in the memo may be used a million times.
    read = file.tell() - start
    if spent > 1000 + 4 * read:
        raise ValueError("it has a pickle that repeats its parts too often")


def _execute(opcode: pickletools.OpcodeInfo, argument: Any, stack: list[Value]) -> int:
    """Do to the stack what an instruction does, and return the cost of the call that it makes."""
    name = opcode.name
    before = [kind.name for kind in opcode.stack_before]
    items = []  # the values above a mark, the last one first
    below_mark = before
    if "mark" in before:
        below_mark = before[: before.index("mark")]
        while (item := stack.pop()).kind != "mark":
            items.append(item)
    values = [stack.pop() for _ in below_mark]
    # Values are popped from the top, so each key follows its value.
    keys = {
        "SETITEM": values[1:2],
        "SETITEMS": items[1::2],
        "DICT": items[1::2],
        "ADDITEMS": items,
    }
    kinds = {key.kind for key in keys.get(name, ())}
    if any(value.kind == "mark" for value in values) or not kinds <= KEYS:
        raise ValueError("it has a dict or a set with keys that are neither texts nor numbers")
    cost = 0
    if name in CALLS:
        cost = values[0].cost
    length = 0
    if type(argument) in (str, bytes):
        length = len(argument)
    results = [Value(kind.name, length) for kind in opcode.stack_after]
    if name in CHANGES:
        # The container is the deepest of the values, and it stays on the stack.
        results = [values.pop()]
    if name in CHANGES or name in COLLECTIONS:
        results[0].add([*items, *values])
    if name == "DUP":
        # A duplicate is the same value, so that items that are added to it count for both.
        results = values * 2
    stack += results
    return cost


class Kind(str):
    """The NumPy code of the numbers in a storage; "u2" is bfloat16, because PyTorch had no unsigned
    shorts.
    """

    __slots__ = ()


class Storage(NamedTuple):
    """A run of numbers in the file."""

    kind: Kind
    numel: int
    key: str


class Tensor(NamedTuple):
    """A view of a storage."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class Plain(dict[Any, Any]):
    """An OrderedDict, or an object such as options or a device, whose items alone are kept."""

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        pass


class Numbers:
    """A NumPy dtype or array while it is being unpickled. The state of a dtype, from
    `numpy.dtype`, differs from that of an array, from `_reconstruct`.
    """

    def __init__(self, code: Any = None, *_: Any) -> None:
        self.code = code
        self.array: NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        if len(state) != 5:  # a dtype: (version, byte order, ...)
            if (
                type(self.code) is not str
                or type(state[1]) is not str
                or state[1] not in ("<", ">", "|")
            ):
                raise ValueError("it has a NumPy array of something other than numbers")
            self.code = state[1] + self.code
        else:
            _, shape, dtype, fortran, data = state
            number_of_items(shape)
            self.array = _from_bytes(dtype, data).reshape(
                shape, order="F" if fortran is True else "C"
            )


class KnownFunction:
    """A function that the file may call, and whose state cannot be set."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.make(*args)

    def __setstate__(self, state: Any) -> None:
        raise ValueError("it sets the state of a function")


def number_of_items(shape: Any) -> int:
    """Return the product of the sizes, which are checked first."""
    # NumPy's maximum.
    max_axes = 64
    if type(shape) not in (tuple, list) or len(shape) > max_axes:
        raise ValueError(f"it has an array whose shape is not a tuple of at most {max_axes} sizes")
    if any(type(side) is not int or not 0 <= side < 2**63 for side in shape):
        raise ValueError("it has an array of impossible shape")
    return math.prod(shape)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
    """Stand in for `torch._utils._rebuild_tensor_v2`: a tensor is a view of a storage."""
    if type(storage) is not Storage:
        raise ValueError("it has a tensor without a storage of plain numbers")
    for sizes in (size, stride, (offset,)):
        number_of_items(sizes)
    return Tensor(storage=storage, offset=offset, size=tuple(size), stride=tuple(stride))


def _parameter(data: Any, *_: Any) -> Tensor:
    # No function may return its argument, because the scan would not know its length.
    if type(data) is not Tensor:
        raise ValueError("it has a parameter that is not a tensor")
    return data


def _from_type(function: Any, _type: Any, args: Any, _state: Any) -> Any:
    """Stand in for `torch._tensor._rebuild_from_type_v2`, which calls another function."""
    if (
        type(function) is not KnownFunction
        or function.make not in (_tensor, _parameter)
        or type(args) is not tuple
    ):
        raise ValueError("it rebuilds a tensor with something other than a function of PyTorch")
    return function(*args)


def _from_bytes(dtype: Any, data: Any = b"") -> NDArray[Any]:
    """Convert bytes, which Python 2 wrote as text, to numbers."""
    if type(data) is str:
        data = data.encode("latin1")
    if type(dtype) is not Numbers or type(dtype.code) is not str or type(data) is not bytes:
        raise ValueError("it has NumPy numbers without a type or without bytes")
    if dtype.code.lstrip("<>|") not in NUMPY_CODES:
        raise ValueError("it has a NumPy array of something other than numbers")
    return np.frombuffer(data, dtype.code)


def _encode(text: Any, encoding: Any = "latin1", *_: Any) -> bytes:
    """Stand in for `_codecs.encode`, with which old pickles store bytes as a text."""
    if type(text) is not str or type(encoding) is not str or encoding != "latin1":
        raise ValueError("it encodes something other than the bytes of a number")
    return text.encode("latin1")


def _ordered(items: Any = (), *_: Any) -> Plain:
    """Stand in for `collections.OrderedDict`, the type of a state dict."""
    if any(
        type(pair) not in (list, tuple) or len(pair) != 2 or type(pair[0]) not in (str, int)
        for pair in items
    ):
        raise ValueError("it has a dict with keys that are neither texts nor numbers")
    ordered = Plain()
    ordered.update(items)
    return ordered


# Types of storages by the name of their class in torch.
STORAGES = {
    "DoubleStorage": Kind("f8"),
    "FloatStorage": Kind("f4"),
    "HalfStorage": Kind("f2"),
    "LongStorage": Kind("i8"),
    "IntStorage": Kind("i4"),
    "ShortStorage": Kind("i2"),
    "CharStorage": Kind("i1"),
    "ByteStorage": Kind("u1"),
    "BoolStorage": Kind("b1"),
    "BFloat16Storage": Kind("u2"),
}
# Functions that a pickle may call, and what is called instead. Nothing of torch or of the file
# runs.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.nn.parameter.Parameter": _parameter,
    "_codecs.encode": _encode,
    "numpy.dtype": Numbers,
    **{
        f"numpy.{core}.multiarray.scalar": lambda *args: _from_bytes(*args).item()
        for core in ("core", "_core")
    },
    **{f"numpy.{core}.multiarray._reconstruct": lambda *_: Numbers() for core in ("core", "_core")},
}
# Classes whose instances are read as plain objects without behavior.
_PLAIN_TYPES = (
    "collections.defaultdict argparse.Namespace numpy.ndarray pathlib.Path pathlib.PosixPath "
    "pathlib.PurePosixPath pathlib.WindowsPath torch.device torch.Size torch.float16 torch.float32 "
    "torch.float64 torch.bfloat16 torch.int64 torch.int32 torch.bool "
    "pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint "
    "pytorch_lightning.utilities.parsing.AttributeDict "
    "lightning_fabric.utilities.data.AttributeDict lightning.fabric.utilities.data.AttributeDict"
)
# Their names.
PLAIN_NAMES = frozenset(_PLAIN_TYPES.split())


class _Reader(pickle.Unpickler):
    """Python's unpickler with restricted names."""

    def __init__(self, data: bytes) -> None:
        # Python 2 wrote bytes as texts, and latin1 maps each character to one byte.
        super().__init__(io.BytesIO(data), encoding="latin1")
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        label = f"{module}.{name}"
        if label in PLAIN_NAMES:
            return Plain
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if label not in FUNCTIONS:
            raise ValueError(
                f"it names {label[:80]!r}, which a state dict does not need; nothing of it was "
                "run. Save model.state_dict() instead of the model"
            )
        return KnownFunction(FUNCTIONS[label])

    def persistent_load(self, pid: Any) -> Storage:
        if type(pid) is not tuple or len(pid) < 5 or type(pid[0]) is not str or pid[0] != "storage":
            raise ValueError("it has an unknown persistent record")
        _, kind, key, _, numel, *view = pid
        if type(kind) is not Kind or type(key) is not str:
            raise ValueError("it has a storage of something other than plain numbers")
        if type(numel) is not int or numel < 0 or any(part is not None for part in view):
            raise ValueError(
                "it has a storage of impossible length, or one that is a view of another"
            )
        storage = Storage(kind, numel, key)
        # Tensors that share a storage repeat its record, and the records must agree.
        if self.storages.setdefault(key, storage) != storage:
            raise ValueError(f"it has two storages {key[:40]!r} that differ")
        return storage


# Arrays


def widened(numbers: NDArray[Any]) -> NDArray[Any]:
    """Convert bfloat16, given as 16-bit integers, to float32, whose upper halves they are."""
    return (numbers.astype(np.uint32) << 16).view(np.float32)


def _numbers(storage: Storage, data: bytes, order: str) -> NDArray[Any]:
    """Return the numbers of a storage, converted once, so that all tensors are views."""
    stored = np.dtype((">" if order == "big" else "<") + storage.kind)
    numbers = np.frombuffer(data, stored, len(data) // stored.itemsize)
    if numbers.size < storage.numel:
        raise ValueError(f"it has {numbers.size} numbers in a storage of {storage.numel}")
    if storage.kind == "u2":
        return widened(numbers)
    return numbers.astype(stored.newbyteorder("="), copy=False)


def _view(tensor: Tensor, numbers: NDArray[Any]) -> NDArray[Any]:
    """Return a tensor as a read-only view of the numbers of its storage."""
    count = number_of_items(tensor.size)
    axes = list(zip(tensor.size, tensor.stride, strict=True))
    # Strides are 0 or more (`_tensor`), so this is the largest place that the view reads.
    last = tensor.offset + sum((side - 1) * step for side, step in axes)
    # A stride of 0 can repeat one number without end, so the count is bounded as well.
    if count > numbers.size or (count and last >= numbers.size):
        raise ValueError(
            f"it has a tensor of shape {str(tensor.size)[:60]} in a storage of {numbers.size} "
            "numbers"
        )
    if count == 0:
        return np.zeros(tensor.size, numbers.dtype)
    # The stride of an axis with one entry is never used, and a file may claim any.
    strides = [step * numbers.itemsize if side > 1 else 0 for side, step in axes]
    return np.lib.stride_tricks.as_strided(
        numbers[tensor.offset :], tensor.size, strides, writeable=False
    )


def _resolve(content: Any, numbers: dict[str, NDArray[Any]]) -> Any:
    """Replace records by arrays, in dicts and lists down to `DEPTH`."""
    # Keyed by identity, because a pickle may refer to one list a million times.
    done: dict[tuple[int, int], Any] = {}

    def walk(item: Any, depth: int) -> Any:
        if type(item) is Tensor:
            if item.storage.key not in numbers:
                raise ValueError(
                    f"it has no storage {item.storage.key[:40]!r}, which a tensor needs"
                )
            return _view(item, numbers[item.storage.key])
        if type(item) is Numbers:
            return item.array
        if type(item) in (str, int, float, bool, bytes):
            return item
        # What is nested more deeply is no state dict and becomes None, and so does an object
        # without items.
        if (
            depth == 0
            or type(item) not in (dict, Plain, list, tuple)
            or (type(item) is Plain and not item)
        ):
            return None
        place = (id(item), depth)
        if place not in done:
            values = [
                walk(value, depth - 1)
                for value in (item.values() if isinstance(item, dict) else item)
            ]
            if isinstance(item, dict):
                done[place] = dict(zip(item, values, strict=True))
            else:
                done[place] = values
        return done[place]

    # Maximum nesting depth of dicts, lists and tuples; {"model_state_dict": {name: tensor}} needs
    # 2.
    deepest = 6
    return walk(content, deepest)
