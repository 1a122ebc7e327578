"""The pickle inside a PyTorch file, read by a machine that can run no code.

Python's own unpickler calls whatever a file names. This one is a small stack machine over the instructions that
`pickletools.genops` parses. It knows the dozen names that a saved state dict needs (`torch_names.py`), each standing
for a function that only makes a record; every other name, and every instruction that a state dict has no use for, is
refused. Nothing is imported, no attribute is set, no class of the file's choice is built.

Tensors become `Tensor` records (which storage, offset, sizes, strides), which `torch_files.py` turns into arrays.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any, BinaryIO

from .torch_names import STORAGES, Name, Other, Refused, Storage, build, find_name

# Instructions of a pickle; a state dict of 1,000 tensors with its optimizer needs some 50,000.
MAX_INSTRUCTIONS = 5_000_000


def read_pickle(file: BinaryIO) -> tuple[Any, dict[str, Storage]]:
    """Run one pickle from `file`, which must hold it in memory, and stop behind it: what it makes, and its storages."""
    machine = _Machine()
    return machine.run(file), machine.storages


class _Mark:
    pass


class _Machine:
    """Stack and memo of one pickle. `genops` names the instructions as the pickletools documentation does."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, Storage] = {}

    def run(self, file: BinaryIO) -> Any:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
            if count > MAX_INSTRUCTIONS:
                raise Refused(f"has a pickle of more than {MAX_INSTRUCTIONS} instructions")
            name = opcode.name
            if name == "STOP":
                return self.stack.pop()
            if name in CONSTANTS:
                self.stack.append(CONSTANTS[name])
            elif name in LITERALS:
                self.stack.append(argument)
            elif name in EMPTY:
                self.stack.append(EMPTY[name]())
            elif name in ACTIONS:
                ACTIONS[name](self, argument)
            elif name not in ("PROTO", "FRAME"):
                raise Refused(f"uses the pickle instruction {name}, which a state dict does not need")
        raise Refused("has a pickle without an end")

    def to_mark(self) -> list[Any]:
        items: list[Any] = []
        while not isinstance(item := self.stack.pop(), _Mark):
            items.append(item)
        return items[::-1]

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def tuple_of(self, count: int) -> None:
        items = tuple(self.stack[len(self.stack) - count :])
        if len(items) != count:
            raise Refused("has a pickle with an empty stack")
        del self.stack[len(self.stack) - count :]
        self.stack.append(items)

    def set_items(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Other):
            return
        if type(target) is not dict or len(pairs) % 2:
            raise Refused("sets items of something that is no dict")
        target.update(zip(pairs[::2], pairs[1::2], strict=True))

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is set:
            target.update(items)
        elif type(target) is list:
            target.extend(items)
        else:
            raise Refused("extends something that is no list")

    def reduce(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Name) or type(args) is not tuple:
            raise Refused("calls something that has no name")
        self.stack.append(function.make(*args))

    def persistent(self) -> None:
        pid = self.stack.pop()
        if type(pid) is not tuple or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[1], Name):
            raise Refused(f"has an unknown persistent record {str(pid)[:40]!r}")
        if type(pid[4]) is not int or pid[4] < 0:
            raise Refused(f"has a storage of impossible length {str(pid[4])[:40]}")
        if len(pid) > 5 and pid[5] is not None:
            raise Refused("has a storage that is a view of another, a format before PyTorch 0.4")
        kind = pid[1].label.removeprefix("torch.")
        if kind not in STORAGES:
            raise Refused(f"has a storage of type {kind[:40]!r}, not of plain numbers")
        storage = Storage(STORAGES[kind], str(pid[2]), pid[4], kind == "BFloat16Storage")
        if self.storages.setdefault(storage.key, storage) != storage:
            raise Refused(f"has two storages {storage.key[:40]!r} that differ")
        self.stack.append(storage)

    def global_name(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.stack.append(find_name(module, name))

    def stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(find_name(module, name))


CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
    "MARK": _Mark,
}
LITERALS = frozenset(
    {
        *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    }
)
ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PUT": lambda m, index: m.put(int(index)),
    "BINPUT": lambda m, index: m.put(index),
    "LONG_BINPUT": lambda m, index: m.put(index),
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
    "GET": lambda m, index: m.get(int(index)),
    "BINGET": lambda m, index: m.get(index),
    "LONG_BINGET": lambda m, index: m.get(index),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.to_mark())),
    "TUPLE1": lambda m, _: m.tuple_of(1),
    "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3),
    "LIST": lambda m, _: m.stack.append(m.to_mark()),
    "DICT": lambda m, _: (lambda pairs: m.stack.append(dict(zip(pairs[::2], pairs[1::2], strict=True))))(m.to_mark()),
    "SETITEM": lambda m, _: (lambda value, key: m.set_items([key, value]))(m.stack.pop(), m.stack.pop()),
    "SETITEMS": lambda m, _: m.set_items(m.to_mark()),
    "APPEND": lambda m, _: (lambda item: m.extend([item]))(m.stack.pop()),
    "APPENDS": lambda m, _: m.extend(m.to_mark()),
    "ADDITEMS": lambda m, _: m.extend(m.to_mark()),
    "POP": lambda m, _: (m.stack.pop(), None)[1],
    "POP_MARK": lambda m, _: (m.to_mark(), None)[1],
    "DUP": lambda m, _: m.stack.append(m.stack[-1]),
    "GLOBAL": lambda m, argument: m.global_name(argument),
    "STACK_GLOBAL": lambda m, _: m.stack_global(),
    "REDUCE": lambda m, _: m.reduce(),
    "NEWOBJ": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: (lambda state: m.stack.append(build(m.stack.pop(), state)))(m.stack.pop()),
    "BINPERSID": lambda m, _: m.persistent(),
}
