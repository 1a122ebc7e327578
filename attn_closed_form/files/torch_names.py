"""The names that a saved state dict may use, and what stands for each: functions that make records and nothing else.

`torch_pickle.py` runs the pickle; whatever it finds under another name than these is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Refused(ValueError):
    """The file asks for something that a state dict does not need."""


class Name(NamedTuple):
    """A name in the pickle (`collections.OrderedDict`) and what stands for it here."""

    label: str
    make: Callable[..., Any]


class Storage(NamedTuple):
    """A run of numbers in the file: NumPy type, key, how many, and whether they are bfloat16."""

    dtype: str
    key: str
    numel: int
    bfloat16: bool = False


class Tensor(NamedTuple):
    """A view of a storage."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class Other:
    """An object that is carried along and never used: a device, options of a training run, an optimizer's rest."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        self.label = label


class DType:
    """A NumPy dtype while it is being unpickled; only plain numbers."""

    __slots__ = ("code", "order")

    def __init__(self, code: Any) -> None:
        if code not in {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}:
            raise Refused(f"has a NumPy array of type {str(code)[:20]!r}, not numbers")
        self.code, self.order = code, "="

    def dtype(self) -> np.dtype[Any]:
        """The dtype, with its byte order."""
        return np.dtype(self.code).newbyteorder(self.order)


class NumpyArray:
    """A NumPy array while it is being unpickled."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: np.ndarray[Any, Any] | None = None


STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": "u2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "b1",
}
# Names that are carried along as `Other`: they do nothing in a state dict.
INERT = {
    ("torch", "device"),
    ("torch", "Size"),
    ("argparse", "Namespace"),
    ("pathlib", "PosixPath"),
    ("pathlib", "WindowsPath"),
    ("pathlib", "PurePosixPath"),
    ("pathlib", "Path"),
    ("pytorch_lightning.utilities.parsing", "AttributeDict"),
    ("lightning_fabric.utilities.data", "AttributeDict"),
    ("lightning.fabric.utilities.data", "AttributeDict"),
    ("pytorch_lightning.callbacks.model_checkpoint", "ModelCheckpoint"),
    *(("torch", name) for name in ("float16", "float32", "float64", "bfloat16", "int64", "int32", "bool")),
}


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Tensor:
    if not isinstance(storage, Storage):
        raise Refused("has a tensor without a storage of plain numbers")
    numbers = (offset, *size, *stride)
    if any(type(number) is not int or number < 0 for number in numbers) or len(size) != len(stride):
        raise Refused(f"has a tensor with impossible sizes {str(size)[:40]} and strides {str(stride)[:40]}")
    return Tensor(storage, offset, tuple(size), tuple(stride))


def _rebuild_parameter(data: Any, *rest: Any) -> Any:
    return data


def _rebuild_from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    if not isinstance(function, Name):
        raise Refused("rebuilds a tensor with something that is no function of PyTorch")
    return function.make(*args)


def _scalar(dtype: Any, data: Any = b"") -> Any:
    raw = _bytes(data)
    kind = _dtype(dtype)
    if len(raw) != kind.itemsize:
        raise Refused(f"has a NumPy number of {len(raw)} bytes, not {kind.itemsize}")
    return np.frombuffer(raw, dtype=kind)[0].item()


def _encode(text: Any, encoding: Any = "latin1", *rest: Any) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise Refused("encodes something other than the bytes of a number")
    return text.encode("latin1")


def _dtype(value: Any) -> np.dtype[Any]:
    if not isinstance(value, DType):
        raise Refused("has a NumPy number without a type")
    return value.dtype()


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("latin1")
    if not isinstance(value, bytes):
        raise Refused("has a NumPy number without bytes")
    return value


def _ordered(items: Any = ()) -> dict[Any, Any]:
    return dict(items)


NAMES: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): _ordered,
    ("collections", "defaultdict"): lambda *factory: {},
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
    ("torch.nn.parameter", "Parameter"): _rebuild_parameter,
    ("_codecs", "encode"): _encode,
    ("numpy", "dtype"): lambda code, *rest: DType(code),
    ("numpy", "ndarray"): lambda *args: Other("numpy.ndarray"),
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "_reconstruct"): lambda *args: NumpyArray() for core in ("core", "_core")},
    **{("torch", name): _rebuild_parameter for name in STORAGES},
}


def find_name(module: Any, name: Any) -> Name:
    """What stands for a name of the file; any other is refused."""
    label = f"{module}.{name}"[:80]
    if (module, name) in INERT:
        return Name(label, lambda *args: Other(label))
    if (module, name) not in NAMES:
        raise Refused(
            f"names {label!r}, which a state dict does not need; nothing of it was run. "
            "Save model.state_dict() instead of the model"
        )
    return Name(label, NAMES[module, name])


def build(target: Any, state: Any) -> Any:
    """What BUILD does to the few things that may have a state; the rest of it is dropped."""
    if isinstance(target, DType) and isinstance(state, tuple) and len(state) >= 2 and state[1] in ("<", ">", "=", "|"):
        target.order = "=" if state[1] == "|" else state[1]
    elif isinstance(target, NumpyArray) and isinstance(state, tuple) and len(state) == 5:
        _, shape, dtype, fortran, data = state
        raw = _bytes(data)
        if any(type(side) is not int or side < 0 for side in shape):
            raise Refused(f"has a NumPy array of impossible shape {str(shape)[:40]}")
        array = np.frombuffer(raw, dtype=_dtype(dtype))
        target.value = array.reshape(shape, order="F" if fortran else "C")
    elif not isinstance(target, DType | dict | Other):
        raise Refused(f"sets the state of a {type(target).__name__}")
    return target
