"""PyTorch's `.pt` files without PyTorch, in both formats, as arrays; no code in a file can run.

Since PyTorch 1.6 a file is a zip archive, without compression, of one pickle (`NAME/data.pkl`) and one member per
storage (`NAME/data/KEY`). Before, it was a magic number, a protocol number, facts about the machine, the pickle, the
keys of the storages and then their numbers, one after the other. A pickle is a program. `_run` executes the
instructions that a state dict needs, without Python's unpickler, and refuses every other one:

- **Names are closed.** A name stands for a record or a function of this module, or the file is refused. Nothing is
  imported, and no attribute is set.
- **Work is bounded.** The number of instructions, the size of integers, the places in the memo and the length of what
  functions are given are bounded, and keys of dicts and members of sets must be texts or numbers. What a file builds is
  never hashed, compared or printed: references to earlier parts make a small file an exponentially large value.

Tensors are views of the storages, so that a small file cannot become a large array, no matter which sizes it claims.
"""

from __future__ import annotations

import io
import math
import os
import pickletools
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .atomic import regular_file

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
# Nesting of dicts, lists and tuples that is followed: {"model_state_dict": {name: tensor}} needs 2.
DEPTH = 6
MAX_AXES = 64
NUMPY_CODES = frozenset(("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"))
# A state dict of 1,000 tensors with its optimizer needs some 100,000 instructions, which take about 2 us each.
MAX_INSTRUCTIONS = 500_000
_LITERALS = (  # instructions that push their argument
    "BININT BININT1 BININT2 INT LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 STRING "
    "BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8"
)
LITERALS = frozenset(_LITERALS.split())
NEW: dict[str, Callable[[], Any]] = {
    **{"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set},
    **{"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False},
}
# Instructions that take the values above a mark, and those that take a fixed number of values.
MARKED = frozenset(("TUPLE", "LIST", "DICT", "SETITEMS", "APPENDS", "ADDITEMS", "POP_MARK"))
TAKEN = {
    **{"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2},
    **{"STACK_GLOBAL": 2, "REDUCE": 2, "NEWOBJ": 2, "BUILD": 1, "BINPERSID": 1, "POP": 1},
}
KEYS = (str, int, float, bool)


class Refused(ValueError):
    """The file asks for something that a state dict does not need."""


def load_torch(path: str | os.PathLike[str]) -> Any:
    """What `torch.save` wrote to a file, with read-only arrays for tensors (float32 for bfloat16).

    Dicts and lists stay; objects that are neither numbers nor text (options, a device) are None.

    Raises
    ------
    FileNotFoundError, ValueError
        one line that names the file and the reason: not a PyTorch file, damaged, or asking for code
    """
    path = regular_file(path)
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"
        return _load_zip(path) if is_zip else _load_legacy(path.read_bytes())
    except Refused as error:
        raise ValueError(f"{path}: {error}") from None
    except Exception as error:  # zipfile, pickle and NumPy raise many kinds of errors for damaged files
        texts = [argument for argument in error.args if type(argument) is str]  # printing others might not end
        detail = ": ".join([type(error).__name__, *texts[:1]]).splitlines()[0][:160]
        raise ValueError(f"{path}: expected a PyTorch file, and this one is damaged ({detail})") from None


def _load_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise Refused("is a zip archive with compressed members, which PyTorch does not write")
        if len(sizes) < len(archive.infolist()) or sum(sizes.values()) > path.stat().st_size:
            raise Refused("is a zip archive whose members are larger than the file, or have one name")
        pickles = [name for name in sizes if f"/{name}".endswith("/data.pkl")]
        if len(pickles) != 1:
            hint = "; it looks like a NumPy .npz file" if any(name.endswith(".npy") for name in sizes) else ""
            raise Refused(f"is a zip archive with {len(pickles)} members data.pkl where PyTorch has one{hint}")
        root = pickles[0].removesuffix("data.pkl")
        if f"{root}constants.pkl" in sizes or any("/code/" in name for name in sizes):
            raise Refused("is a TorchScript file, which holds code; save model.state_dict()")
        big = f"{root}byteorder" in sizes and archive.read(f"{root}byteorder").strip() == b"big"
        content, storages = _run(io.BytesIO(archive.read(pickles[0])))
        numbers = {
            key: _numbers(storage, archive.read(f"{root}data/{key}"), ">" if big else "<")
            for key, storage in storages.items()
            if f"{root}data/{key}" in sizes
        }
    return _resolve(content, numbers)


def _load_legacy(data: bytes) -> Any:
    file = io.BytesIO(data)
    if data[:1] != b"\x80":
        raise Refused("expected a PyTorch file (a zip archive, or the format before PyTorch 1.6), got neither")
    if _run(file)[0] != MAGIC or _run(file)[0] != PROTOCOL:
        raise Refused("is a pickle, but not one of PyTorch: its magic number or its protocol is missing")
    facts, _ = _run(file)
    content, storages = _run(file)
    keys, _ = _run(file)
    if type(facts) is not dict or type(keys) is not list or any(type(key) is not str for key in keys):
        raise Refused("is a PyTorch file without its list of storages")
    little = facts.get("little_endian") is not False
    numbers: dict[str, NDArray[Any]] = {}
    for key in keys:
        count = int.from_bytes(file.read(8), "little" if little else "big")
        if key not in storages or key in numbers:
            raise Refused(f"has a storage {key[:40]!r} that no tensor needs")
        length = count * np.dtype(storages[key].kind.code).itemsize
        if length > len(data) - file.tell():
            raise Refused(f"ends early: storage {key[:40]!r} has {count} numbers")
        numbers[key] = _numbers(storages[key], file.read(length), "<" if little else ">")
    return _resolve(content, numbers)


# The pickle


def _run(file: io.BytesIO) -> tuple[Any, dict[str, Storage]]:
    """Run one pickle and stop behind it: what it makes, and the storages that its tensors need."""
    start, cost = file.tell(), 0
    stack: list[Any] = []
    below: list[list[Any]] = []  # the stack below each mark
    memo: dict[int, Any] = {}
    storages: dict[str, Storage] = {}
    argument: Any
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if count >= MAX_INSTRUCTIONS:
            raise Refused(f"has a pickle of more than {MAX_INSTRUCTIONS} instructions")
        if type(argument) is int and argument.bit_length() > 63 and argument != MAGIC:
            raise Refused("has an integer of more than 64 bits")
        name, items = opcode.name, []
        if name in MARKED:
            items, stack = stack, below.pop()
        elif name in TAKEN:
            items = [stack.pop() for _ in range(TAKEN[name])][::-1]
        match name:
            case _ if name in LITERALS:
                stack.append(argument)
            case _ if name in NEW:
                stack.append(NEW[name]())
            case "PROTO" | "FRAME" | "STOP" | "POP" | "POP_MARK":
                pass
            case "MARK":
                below.append(stack)
                stack = []
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[int(argument)])
            case "PUT" | "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                place = len(memo) if name == "MEMOIZE" else int(argument)
                if place > count:
                    raise Refused("has a pickle with an impossible memo")
                memo[place] = stack[-1]
            case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(items))
            case "LIST":
                stack.append(items)
            case "DICT":
                stack.append(_keyed(items[::2], items[1::2]))
            case "APPEND" | "APPENDS" if type(stack[-1]) is list:
                stack[-1].extend(items)
            case "SETITEM" | "SETITEMS" if type(stack[-1]) in (dict, Plain):
                stack[-1].update(_keyed(items[::2], items[1::2]))
            case "ADDITEMS" if type(stack[-1]) is set:
                stack[-1].update(_keyed(items, items))
            case "GLOBAL" | "STACK_GLOBAL":
                stack.append(_named(*(items or argument.split(" ", 1))))
            case "REDUCE" | "NEWOBJ" if type(items[0]) is Function and type(items[1]) is tuple:
                # All calls together cost at most what the pickle is long: a text in the memo may be used again.
                cost += sum(len(value) for value in items[1] if type(value) in (str, bytes, list, tuple))
                if cost > 1000 + 4 * (file.tell() - start):
                    raise Refused("has a pickle that repeats its parts too often")
                stack.append(items[0].make(*items[1]))
            case "BUILD" if type(stack[-1]) is Numbers:
                stack[-1].set_state(items[0])
            case "BUILD" if type(stack[-1]) is Plain:
                pass
            case "BINPERSID":
                storage = _storage(items[0])
                if storages.setdefault(storage.key, storage) != storage:
                    raise Refused(f"has two storages {storage.key[:40]!r} that differ")
                stack.append(storage)
            case _:
                raise Refused(f"uses the pickle instruction {name} as a state dict does not need it")
    return stack.pop(), storages


def _keyed(keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
    if any(type(key) not in KEYS for key in keys):
        raise Refused("has a dict or a set with keys that are neither texts nor numbers")
    return dict(zip(keys, values, strict=True))


def _named(module: Any, name: Any) -> Kind | Function:
    """What a name in a file stands for."""
    label = f"{module}.{name}" if type(module) is type(name) is str else "something without a name"
    if label not in NAMES:
        raise Refused(
            f"names {label[:80]!r}, which a state dict does not need; nothing of it was run. "
            "Save model.state_dict() instead of the model"
        )
    return NAMES[label]


def _storage(pid: Any) -> Storage:
    if type(pid) is not tuple or len(pid) < 5 or type(pid[0]) is not str or pid[0] != "storage":
        raise Refused("has an unknown persistent record")
    _, kind, key, _, numel, *view = pid
    if type(kind) is not Kind or type(key) is not str:
        raise Refused("has a storage of something other than plain numbers")
    if type(numel) is not int or numel < 0 or any(part is not None for part in view):
        raise Refused("has a storage of impossible length, or one that is a view of another")
    return Storage(kind, numel, key)


class Kind(NamedTuple):
    """The type of the numbers in a storage."""

    code: str
    bfloat16: bool = False


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
    """An OrderedDict, or an object of which only the items are kept: options, a device; state is dropped."""


class Function(NamedTuple):
    """A function that the file may call."""

    make: Callable[..., Any]


class Numbers:
    """A NumPy dtype or array while it is being unpickled; `numpy.dtype` and `_reconstruct` differ in their state."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        self.code = code
        self.array: NDArray[Any] | None = None

    def set_state(self, state: Any) -> None:
        """Complete a dtype or an array."""
        if len(state) != 5:  # a dtype: (version, byte order, ...)
            if type(self.code) is not str or type(state[1]) is not str or state[1] not in ("<", ">", "|"):
                raise Refused("has a NumPy array of something other than numbers")
            self.code = state[1] + self.code
        else:
            _, shape, dtype, fortran, data = state
            number_of_items(shape)
            self.array = _from_bytes(dtype, data).reshape(shape, order="F" if fortran is True else "C")


def number_of_items(shape: Any) -> int:
    """Product of sizes, which are checked before they are multiplied."""
    if type(shape) not in (tuple, list) or len(shape) > MAX_AXES:
        raise Refused(f"has an array whose shape is not a tuple of at most {MAX_AXES} sizes")
    if any(type(side) is not int or not 0 <= side < 2**63 for side in shape):
        raise Refused("has an array of impossible shape")
    return math.prod(shape)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
    if type(storage) is not Storage:
        raise Refused("has a tensor without a storage of plain numbers")
    for sizes in (size, stride, (offset,)):
        number_of_items(sizes)
    return Tensor(storage, offset, tuple(size), tuple(stride))


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _from_type(function: Any, _type: Any, args: Any, _state: Any) -> Any:
    if type(function) is not Function or function.make not in (_tensor, _parameter) or type(args) is not tuple:
        raise Refused("rebuilds a tensor with something other than a function of PyTorch")
    return function.make(*args)


def _from_bytes(dtype: Any, data: Any = b"") -> NDArray[Any]:
    """The numbers in some bytes, which Python 2 wrote as text."""
    data = data.encode("latin1") if type(data) is str else data
    if type(dtype) is not Numbers or type(dtype.code) is not str or type(data) is not bytes:
        raise Refused("has NumPy numbers without a type or without bytes")
    if dtype.code.lstrip("<>|") not in NUMPY_CODES:
        raise Refused("has a NumPy array of something other than numbers")
    return np.frombuffer(data, dtype.code)


def _encode(text: Any, encoding: Any = "latin1", *_: Any) -> bytes:
    if type(text) is not str or type(encoding) is not str or encoding != "latin1":
        raise Refused("encodes something other than the bytes of a number")
    return text.encode("latin1")


def _ordered(items: Any = (), *_: Any) -> Plain:
    if any(type(pair) not in (list, tuple) or len(pair) != 2 for pair in items):
        raise Refused("has a dict that is not made of pairs")
    return Plain(_keyed([key for key, _ in items], [value for _, value in items]))


_PLAIN = (
    "collections.defaultdict argparse.Namespace numpy.ndarray pathlib.Path pathlib.PosixPath pathlib.PurePosixPath "
    "pathlib.WindowsPath torch.device torch.Size torch.float16 torch.float32 torch.float64 torch.bfloat16 torch.int64 "
    "torch.int32 torch.bool pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint "
    "pytorch_lightning.utilities.parsing.AttributeDict lightning_fabric.utilities.data.AttributeDict "
    "lightning.fabric.utilities.data.AttributeDict"
)
_STORAGES = {"Double": "f8", "Float": "f4", "Half": "f2", "Long": "i8", "Int": "i4", "Short": "i2", "Char": "i1"}
NAMES: dict[str, Kind | Function] = {
    **{name: Function(lambda *_: Plain()) for name in _PLAIN.split()},
    **{f"torch.{name}Storage": Kind(code) for name, code in (_STORAGES | {"Byte": "u1", "Bool": "b1"}).items()},
    "torch.BFloat16Storage": Kind("u2", bfloat16=True),
    "torch._utils._rebuild_tensor": Function(_tensor),
    "torch._utils._rebuild_tensor_v2": Function(_tensor),
    "torch._utils._rebuild_parameter": Function(_parameter),
    "torch._utils._rebuild_parameter_with_state": Function(_parameter),
    "torch._tensor._rebuild_from_type_v2": Function(_from_type),
    "torch.nn.parameter.Parameter": Function(_parameter),
    "collections.OrderedDict": Function(_ordered),
    "_codecs.encode": Function(_encode),
    "numpy.dtype": Function(Numbers),
}
for _core in ("numpy.core.multiarray", "numpy._core.multiarray"):
    NAMES[f"{_core}.scalar"] = Function(lambda *args: _from_bytes(*args).item())
    NAMES[f"{_core}._reconstruct"] = Function(lambda *_: Numbers())


# Arrays


def widened(numbers: NDArray[Any]) -> NDArray[Any]:
    """bfloat16, given as 16-bit integers, as float32: it is the upper half of one."""
    return (numbers.astype(np.uint32) << 16).view(np.float32)


def _numbers(storage: Storage, data: bytes, order: str) -> NDArray[Any]:
    """The numbers of a storage, converted once, so that all tensors are views."""
    stored = np.dtype(order + storage.kind.code)
    numbers = np.frombuffer(data, stored, len(data) // stored.itemsize)
    if numbers.size < storage.numel:
        raise Refused(f"has {numbers.size} numbers in a storage of {storage.numel}")
    return widened(numbers) if storage.kind.bfloat16 else numbers.astype(stored.newbyteorder("="), copy=False)


def _view(tensor: Tensor, numbers: NDArray[Any]) -> NDArray[Any]:
    count, axes = number_of_items(tensor.size), list(zip(tensor.size, tensor.stride, strict=True))
    last = tensor.offset + sum((side - 1) * step for side, step in axes)
    if count > numbers.size or (count and last >= numbers.size):
        raise Refused(f"has a tensor of shape {str(tensor.size)[:60]} in a storage of {numbers.size} numbers")
    if count == 0:
        return np.zeros(tensor.size, numbers.dtype)
    strides = [step * numbers.itemsize if side > 1 else 0 for side, step in axes]
    return np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.size, strides, writeable=False)


def _resolve(content: Any, numbers: dict[str, NDArray[Any]]) -> Any:
    """Records to arrays, in dicts and lists down to `DEPTH`."""
    done: dict[tuple[int, int], Any] = {}  # by identity: a pickle may name one list a million times

    def walk(item: Any, depth: int) -> Any:
        if type(item) is Tensor:
            if item.storage.key not in numbers:
                raise Refused(f"has no storage {item.storage.key[:40]!r}, which a tensor needs")
            return _view(item, numbers[item.storage.key])
        if type(item) is Numbers:
            return item.array
        if type(item) in (str, int, float, bool, bytes):
            return item
        if depth == 0 or type(item) not in (dict, Plain, list, tuple) or (type(item) is Plain and not item):
            return None
        place = (id(item), depth)
        if place not in done:
            if isinstance(item, dict):
                done[place] = {name: walk(value, depth - 1) for name, value in item.items()}
            else:
                done[place] = [walk(value, depth - 1) for value in item]
        return done[place]

    return walk(content, DEPTH)
