"""Damaged and hostile model files, at least 100 of them.

Every one that could run code would leave a file behind.
"""

from __future__ import annotations

import gzip
import io
import pickle
import pickletools
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C
FLOAT = "ctorch\nFloatStorage\n"


def build_files(folder: Path, trap: Path) -> list[Path]:
    """Write the files; each path's name says what is wrong with it."""
    paths = []
    for number, (name, suffix, data) in enumerate(_files(str(trap))):
        path = folder / f"{number:03d}-{name}{suffix}"
        path.write_bytes(data)
        paths.append(path)
    return paths


def good_pickle() -> bytes:
    """The pickle of a small CLAM state dict: one float storage of 4 numbers under each name."""
    return tensor_pickle()


def tensor_pickle(
    numel: str = "4",
    offset: str = "0",
    size: str = "(I2\nI2\nt",
    stride: str = "(I2\nI1\nt",
    storage: str = FLOAT,
    key: str = "0",
    rebuild: str = "ctorch._utils\n_rebuild_tensor_v2\n",
) -> bytes:
    """{"classifier.weight": tensor} in the text instructions of pickle protocol 0."""
    persistent = f"(S'storage'\n{storage}S'{key}'\nS'cpu'\nI{numel}\ntQ"
    tensor = f"{rebuild}({persistent}I{offset}\n{size}{stride}I00\n(dtR"
    return f"(dS'classifier.weight'\n{tensor}s.".encode()


def zipped(pickle_bytes: bytes, members: dict[str, bytes] | None = None, **options: Any) -> bytes:
    """A file in PyTorch's zip format."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        archive.writestr("archive/data.pkl", pickle_bytes)
        for name, data in (members or {"archive/data/0": np.ones(4, "<f4").tobytes()}).items():
            archive.writestr(name, data)
    return buffer.getvalue()


def legacy(
    pickle_bytes: bytes, keys: Any = ("0",), data: bytes | None = None, little_endian: bool = True
) -> bytes:
    """A file in the format before PyTorch 1.6."""
    head = b"".join(
        pickle.dumps(part, 2) for part in (MAGIC, 1001, {"little_endian": little_endian})
    )
    if data is None:
        tail = struct.pack("<q", 4) + np.ones(4, "<f4").tobytes()
    else:
        tail = data
    return head + pickle_bytes + pickle.dumps(list(keys), 2) + tail


def payloads(trap: str) -> dict[str, bytes]:
    """Pickles that would write a file if a name in them were called."""
    touch = f"touch '{trap}'"
    code = f"open({trap!r}, 'w').close()"

    def call(module: str, name: str, *args: str) -> bytes:
        # V, not S: the folder of the trap may have any name, and S holds ASCII alone.
        escaped = ("".join(c if c.isascii() else f"\\U{ord(c):08x}" for c in arg) for arg in args)
        strings = "".join(f"V{arg}\n" for arg in escaped)
        return f"c{module}\n{name}\n({strings}tR.".encode()

    inner = call("os", "system", touch)[:-1]
    command = touch.encode()
    stack_global = (
        b"\x80\x04\x8c\x02os\x8c\x06system\x93X"
        + len(command).to_bytes(4, "little")
        + command
        + b"\x85R."
    )
    return {
        "os.system": call("os", "system", touch),
        "posix.system": call("posix", "system", touch),
        "nt.system": call("nt", "system", touch),
        "subprocess.call": f"csubprocess\ncall\n((S'touch'\nS{trap!r}\nltR.".encode(),
        "subprocess.Popen": f"csubprocess\nPopen\n((S'touch'\nS{trap!r}\nltR.".encode(),
        "builtins.eval": call("builtins", "eval", code),
        "builtins.exec": call("builtins", "exec", code),
        "builtins.open": call("builtins", "open", trap, "w"),
        "builtins.getattr": b"cbuiltins\ngetattr\n(cos\nopen\nS'__call__'\ntR.",
        "builtins.__import__": call("builtins", "__import__", "antigravity"),
        "__builtin__.eval": call("__builtin__", "eval", code),
        "io.open": call("io", "open", trap, "w"),
        "pathlib.Path.touch": b"cpathlib\nPath.touch\n(cpathlib\nPath\n(S'"
        + trap.encode()
        + b"'\ntRtR.",
        "importlib": call("importlib", "import_module", "antigravity"),
        "runpy": call("runpy", "run_path", trap),
        "pty.spawn": call("pty", "spawn", touch),
        "shutil.rmtree": call("shutil", "rmtree", trap),
        "timeit": call("timeit", "timeit", code),
        "code.interact": call("code", "interact"),
        "webbrowser": call("webbrowser", "open", "file:///"),
        "pickle.loads": b"cpickle\nloads\n(S" + repr(inner.decode() + ".").encode() + b"\ntR.",
        "torch.load": call("torch", "load", trap),
        "torch.hub": call("torch.hub", "load", trap, "x"),
        "torch.storage": call("torch.storage", "_load_from_bytes", inner.decode() + "."),
        "torch.jit": call("torch.jit", "load", trap),
        "numpy.load": call("numpy", "load", trap),
        "numpy.frompickle": call("numpy", "loads", trap),
        "numpy.runstring": call("numpy.testing._private.utils", "runstring", code, "{}"),
        "operator.methodcaller": call("operator", "methodcaller", "system", touch),
        "functools.partial": b"cfunctools\npartial\n(cos\nsystem\nS"
        + repr(touch).encode()
        + b"\ntR(tR.",
        "asyncio": call("asyncio.unix_events", "_UnixSubprocessTransport", trap),
        "dotted name": call("collections", "OrderedDict.fromkeys.__self__", trap),
        "model class": call("models.model_clam", "CLAM_SB"),
        "STACK_GLOBAL": stack_global,
        "INST": f"(S{touch!r}\nios\nsystem\n.".encode(),
        "OBJ": f"(cos\nsystem\nS{touch!r}\no.".encode(),
        "EXT1": b"\x80\x02\x82\x01.",
        "NEWOBJ_EX": b"\x80\x04\x8c\x02os\x8c\x06system\x93)}\x92.",
        "BYTEARRAY8": b"\x80\x05\x96\x04\x00\x00\x00\x00\x00\x00\x00abcd.",
        "NEXT_BUFFER": b"\x80\x05\x97.",
        "PERSID": b"P" + trap.encode() + b"\n.",
        "in a value": b"(dS'classifier.weight'\n" + inner + b"s.",
        "in a key": b"(d" + inner + b"I1\ns.",
        "in a state": b"ccollections\nOrderedDict\n(tR" + inner + b"b.",
        "in a tensor": b"ctorch._utils\n_rebuild_tensor_v2\n(" + inner + b"I0\n(t(tI00\n(dtR.",
        "in a parameter": b"ctorch._utils\n_rebuild_parameter\n(" + inner + b"I00\n(dtR.",
        "by type": b"ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\ncos\nsystem\n(S"
        + touch.encode().join([b"'", b"'"])
        + b"\nt(dtR.",
        "called twice": b"ccollections\nOrderedDict\n(tR(S" + repr(touch).encode() + b"\ntR.",
        "state of a name": b"ctorch._utils\n_rebuild_tensor_v2\n(dS'__globals__'\nI1\nsb.",
    }


def _files(trap: str) -> Iterator[tuple[str, str, bytes]]:
    for name, data in payloads(trap).items():
        safe = name.replace(" ", "_")
        yield f"zip-{safe}", ".pt", zipped(data)
        yield f"legacy-{safe}", ".pt", legacy(data)
    yield from _damaged()
    yield from _impossible()
    yield from _zips()
    yield from _other_files(trap)
    yield from _bombs()


def _damaged() -> Iterator[tuple[str, str, bytes]]:
    for kind, data in (("zip", zipped(tensor_pickle())), ("legacy", legacy(tensor_pickle()))):
        for part in range(1, 10):
            yield f"{kind}-cut-at-{part}-tenths", ".pt", data[: len(data) * part // 10]
    good = bytearray(zipped(tensor_pickle()))
    at = good.index(b"classifier")
    good[at] ^= 0xFF
    yield "zip-flipped-byte-in-pickle", ".pt", bytes(good)
    yield "legacy-wrong-magic", ".pt", pickle.dumps(MAGIC + 1, 2) + legacy(tensor_pickle())[20:]
    yield "legacy-wrong-protocol", ".pt", pickle.dumps(MAGIC, 2) + pickle.dumps(1002, 2)
    yield "legacy-no-keys", ".pt", legacy(tensor_pickle(), keys=())
    yield "legacy-other-keys", ".pt", legacy(tensor_pickle(), keys=("1",))


def _impossible() -> Iterator[tuple[str, str, bytes]]:
    """Sizes that a file cannot hold."""
    variants: dict[str, dict[str, str]] = {
        "huge-size": {"size": "(L1099511627776L\nI2\nt"},
        "huge-size-without-stride": {"size": "(L1099511627776L\nI2\nt", "stride": "(I0\nI0\nt"},
        "negative-size": {"size": "(I-2\nI2\nt"},
        "float-size": {"size": "(F2.5\nI2\nt"},
        "many-axes": {"size": "(" + "I2\n" * 70 + "t", "stride": "(" + "I0\n" * 70 + "t"},
        "stride-outside": {"stride": "(I1000000\nI1\nt"},
        "negative-stride": {"stride": "(I-2\nI1\nt"},
        "offset-outside": {"offset": "4000000000"},
        "negative-offset": {"offset": "-1"},
        "huge-storage": {"numel": "4611686018427387904"},
        "negative-storage": {"numel": "-4"},
        "sizes-and-strides-differ": {"stride": "(I1\nt"},
        "missing-storage": {"key": "../../../../etc/passwd"},
        "unknown-storage-type": {"storage": "ctorch\nQInt8Storage\n"},
        "storage-of-a-function": {"storage": "ctorch._utils\n_rebuild_tensor_v2\n"},
        "sparse-tensor": {"rebuild": "ctorch._utils\n_rebuild_sparse_tensor\n"},
    }
    for name, options in variants.items():
        yield f"zip-{name}", ".pt", zipped(tensor_pickle(**options))
    yield "legacy-huge-storage", ".pt", legacy(tensor_pickle(), data=struct.pack("<q", 1 << 60))
    yield "legacy-negative-storage", ".pt", legacy(tensor_pickle(), data=struct.pack("<q", -1))
    yield "bytes-of-2-to-60", ".pt", zipped(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x.")
    yield "text-of-2-to-31", ".pt", zipped(b"\x80\x02X" + struct.pack("<I", (1 << 31) - 1) + b"x.")
    yield "deep-lists", ".pt", zipped(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".")
    laughs = (
        b"\x80\x02]q\x00"
        + b"".join(
            b"](" + b"h" + bytes([i]) * 1 + (b"h" + bytes([i])) * 99 + b"eq" + bytes([i + 1])
            for i in range(40)
        )
        + b"."
    )
    yield "billion-laughs", ".pt", zipped(laughs)
    yield "contains-itself", ".pt", zipped(b"\x80\x02}q\x00X\x05\x00\x00\x00modelh\x00s.")
    yield "far-memo", ".pt", zipped(b"\x80\x02]r\xff\xff\xff\xff.")
    yield "missing-memo", ".pt", zipped(b"\x80\x02h\x07.")
    yield "empty-stack", ".pt", zipped(b"\x80\x02.")
    yield "unhashable-key", ".pt", zipped(b"(d]I1\ns.")


def _zips() -> Iterator[tuple[str, str, bytes]]:
    bomb = zipped(
        tensor_pickle(), {"archive/data/0": bytes(8_000_000)}, compression=zipfile.ZIP_DEFLATED
    )
    yield "compressed-bomb", ".pt", bomb
    yield (
        "compressed-pickle",
        ".pt",
        zipped(b"\x80\x02" + b"N0" * 100_000 + b"N.", compression=zipfile.ZIP_LZMA),
    )
    yield (
        "path-traversal",
        ".pt",
        zipped(tensor_pickle(key="../../evil"), {"archive/../../evil": b"x" * 16}),
    )
    yield "no-pickle", ".pt", _zip({"archive/data/0": b"1234"})
    yield "two-pickles", ".pt", _zip({"a/data.pkl": tensor_pickle(), "b/data.pkl": tensor_pickle()})
    yield (
        "torchscript",
        ".pt",
        _zip({"a/data.pkl": b"N.", "a/constants.pkl": b"N.", "a/code/x.py": b"import os"}),
    )
    yield "short-storage", ".pt", zipped(tensor_pickle(), {"archive/data/0": b"1234"})
    lying = bytearray(zipped(tensor_pickle()))
    at = lying.rindex(b"PK\x01\x02")
    lying[at + 24 : at + 28] = struct.pack("<I", 1 << 30)  # the size that the directory claims
    yield "lying-directory", ".pt", bytes(lying)
    encrypted = bytearray(zipped(tensor_pickle()))
    for start in (encrypted.index(b"PK\x01\x02") + 8, 6):
        encrypted[start] |= 1
    yield "encrypted", ".pt", bytes(encrypted)


def _bombs() -> Iterator[tuple[str, str, bytes]]:
    """Small pickles whose values would take for ever to print, hash, multiply or repeat, or
    overflow the C stack.
    """

    def laughs(close: bytes) -> bytes:
        levels = (
            b"(" + (b"h" + bytes([i])) * 10 + close + b"q" + bytes([i + 1]) for i in range(40)
        )
        return b"Nq\x00" + b"".join(levels)

    lists = laughs(b"l")
    tuples = laughs(b"t")
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n("
    storage = b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x04tQ"
    big = b"\x8b" + struct.pack("<i", 1_000_000) + b"\x01" * 1_000_000
    text = b"X" + struct.pack("<I", 1_000_000) + b"a" * 1_000_000 + b"q\x00"
    pairs = b"(" + b"(U\x01aNl" * 30_000 + b"lq\x00"
    ordered = b"ccollections\nOrderedDict\n"
    many = b"(" + b"N" * 150_000 + b"tq\x00"
    record = b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x04" + b"N" * 150_000 + b"tq\x00"
    length = struct.pack("<i", 10**7)
    dtype = b"cnumpy\ndtype\nU\x02u1\x85R(K\x03U\x01|tb"
    array = b"(K\x01J" + length + b"\x85" + dtype + b"\x89T" + length + b"a" * 10**7 + b"tq\x00"
    bombs = {
        "str-pid": lists + b"Q.",
        "str-key": lists + b"0(U\x07storagectorch\nFloatStorage\nh\x28U\x03cpuK\x04tQ.",
        "str-numel": lists + b"0(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuh\x28tQ.",
        "hash-key": b"}" + tuples + b"Ns.",
        "hash-set": b"\x8f(" + tuples + b"\x90.",
        "hash-pairs": b"(" + tuples + b"Nd.",
        "deep-key": b"})" + b"\x85" * 100_000 + b"Ns.",
        "deep-pid": b")" + b"\x85" * 100_000 + b"Q.",
        "deep-tuple": b")" + b"\x85" * 100_000 + b".",
        "deep-dict": b"}" + b"U\x01a}" * 100_000 + b"s" * 100_000 + b".",
        "global-of-lists": lists + b"\x8c\x06system\x93.",
        "global-of-tuples": tuples + b"\x8c\x06system\x93.",
        "size-of-lists": lists + b"0" + rebuild + storage + b"K\x00h\x28h\x28\x89}tR.",
        "size-of-many": b"("
        + b"K\x01" * 200_000
        + b"tq\x000"
        + rebuild
        + storage
        + b"K\x00h\x00h\x00\x89}tR.",
        "size-of-large": rebuild
        + storage
        + b"K\x00("
        + big
        + b"q\x01"
        + b"h\x01" * 3000
        + b"t)\x89}tR.",
        "dtype-of-tuples": tuples + b"0cnumpy\ndtype\nh\x28\x85R.",
        "dtype-of-lists": lists + b"0cnumpy\ndtype\nh\x28\x85R.",
        "dtype-of-arrays": b"}U\x01acnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\nU\x0d(9999999999,)f8"[
            :-3
        ]
        + b"tR.",
        "ordered-keys": tuples + b"0" + ordered + b"((h\x28N\x86ltR.",
        "ordered-again": pairs + b"0" + (ordered + b"(h\x00tR0") * 15_000 + b"N.",
        "encode-again": text
        + b"0"
        + b"c_codecs\nencode\nq\x01"
        + b"(h\x00tq\x02"
        + b"h\x01h\x02R" * 100_000
        + b".",
        "arguments-again": many
        + b"0ctorch._utils\n_rebuild_parameter\nq\x01"
        + b"h\x01h\x00R0" * 80_000
        + b"N.",
        "parameter-again": b"ctorch._utils\n_rebuild_parameter\nq\x01"
        + many
        + b"\x85Rq\x02"
        + b"h\x01h\x02R0" * 80_000
        + b"N.",
        "plain-again": many + b"0cpathlib\nPath\nq\x01" + b"h\x01h\x00R0" * 80_000 + b"N.",
        "new-again": many + b"0cpathlib\nPath\nq\x01" + b"h\x01h\x00\x810" * 80_000 + b"N.",
        "record-again": record + b"0" + b"h\x00Q0" * 100_000 + b"N.",
        "state-again": array
        + b"0cnumpy.core.multiarray\n_reconstruct\nq\x01"
        + b"h\x01)Rh\x00b0" * 80_000
        + b"N.",
        "duplicates": b"]" + b"2" * 510_000 + b".",
        "extends-itself": b"]q\x00Na" + b"(h\x00h\x00e" * 1000 + b".",
        "no-numbers": tensor_pickle(size="(I0\nL1099511627776L\nt", stride="(I1\nI1\nt"),
        "nested-types": b"ctorch._tensor\n_rebuild_from_type_v2\nq\x00(h\x00N(h\x00N(h\x00NN}t}t}tR.",
        "empty-array": b"}U\x01acnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01K\x00"
        b"\x8a\x06\x00\x00\x00\x00\x00\x01\x86cnumpy\ndtype\nU\x02f8K\x00K\x01\x87R\x89U\x00tbs.",
        "state-of-a-type": b"ctorch\nFloatStorage\n}U\x04codeU\x02f8sb.",
        "state-of-a-class": b"cargparse\nNamespace\n}U\x0c__setstate__U\x02f8sb.",
        "slots-of-a-tuple": b")N}U\x01aNs\x86b.",
    }
    for name, data in bombs.items():
        yield f"bomb-{name}", ".pt", zipped(b"\x80\x04" + data.removeprefix(b"\x80\x04"))
    for name in ("str-pid", "hash-key", "deep-key"):
        yield f"bomb-legacy-{name}", ".pt", legacy(b"\x80\x04" + bombs[name])
    head = b"".join(pickle.dumps(part, 2) for part in (MAGIC, 1001, {"little_endian": True}))
    yield "bomb-legacy-keys", ".pt", head + tensor_pickle() + b"\x80\x02(" + lists + b"l."
    yield "bomb-legacy-magic", ".pt", b"\x80\x02" + lists + b"."


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


class Bomb:
    """An object whose unpickling writes the trap."""

    def __init__(self, trap: str) -> None:
        self.trap = trap

    def __reduce__(self) -> Any:
        return open, (self.trap, "w")


def _other_files(trap: str) -> Iterator[tuple[str, str, bytes]]:
    objects = _npy(np.array([Bomb(trap)], dtype=object))
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    header = b'{"classifier.weight":{"dtype":"F32","shape":[1000000,1000000],"data_offsets":[0,4000000000000]}}'
    yield "empty", ".pt", b""
    yield "text", ".pt", b"a model of great promise\n"
    yield "html", ".pt", b"<!DOCTYPE html><html><body>404</body></html>"
    yield "png", ".pt", b"\x89PNG\r\n\x1a\n" + bytes(64)
    yield "elf", ".pt", b"\x7fELF" + bytes(64)
    yield "gzip", ".pt", gzip.compress(tensor_pickle(), mtime=0)
    yield "tar", ".tar", tar.getvalue()
    yield (
        "git-lfs-pointer",
        ".pt",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
    )
    yield "plain-pickle", ".pkl", pickle.dumps({"classifier.weight": [1.0, 2.0]})
    yield "pickled-bomb", ".pkl", pickle.dumps(Bomb(trap))
    yield "zeros", ".pt", bytes(4096)
    yield "noise", ".pt", np.random.default_rng(0).bytes(4096)
    yield "pickle-of-noise", ".pt", b"\x80\x02" + np.random.default_rng(1).bytes(4096)
    yield "objects-in-npz", ".npz", _zip({"classifier.weight.npy": objects})
    yield "cut-npz", ".npz", _zip({"classifier.weight.npy": _npy(np.ones(9))})[:60]
    yield "text-in-npz", ".npz", b"PK\x03\x04 but no more"
    yield (
        "npz-of-huge-shape",
        ".npz",
        _zip({"w.npy": _npy(np.ones(2)).replace(b"(2,)", b"(9999999999,)"[:13])}),
    )
    yield "safetensors-of-huge-shape", ".safetensors", struct.pack("<Q", len(header)) + header
    yield "safetensors-of-huge-header", ".safetensors", struct.pack("<Q", 1 << 62) + b"{}"
    yield "safetensors-no-json", ".safetensors", struct.pack("<Q", 4) + b"abcd"
    yield "safetensors-cut", ".safetensors", b"\x01\x02"
    yield "unknown-suffix", ".exe", zipped(tensor_pickle())


def instructions(data: bytes) -> list[str]:
    """Names of a pickle's instructions, to show that a payload is well formed."""
    return [opcode.name for opcode, _, _ in pickletools.genops(data)]
