"""One small, sound file of every format that is read, and the door through which it is read.

Cuts and flips are made of the sound files; `hostile` has what was made to do harm.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .hostile_files import legacy, tensor_pickle, zipped

FEATURES = np.arange(35, dtype=np.float32).reshape(7, 5) / 10
FOUND = Path(__file__).parent / "found"  # files that once hung or crashed a reader, by format
COORDS = np.arange(14).reshape(7, 2) * 256
ROWS = [
    {"text": f"a {word} film", "label": ("bad", "good")[i % 2]}
    for i, word in enumerate(["fine", "poor", "odd", "dull"])
]


def clam() -> dict[str, Any]:
    """The state dict of a CLAM network."""
    shapes = {
        "attention_net.0": (4, 5),
        "attention_net.2.attention_a.0": (3, 4),
        "attention_net.2.attention_b.0": (3, 4),
    }
    shapes |= {"attention_net.2.attention_c": (1, 3), "classifiers": (2, 4)}
    rng = np.random.default_rng(0)
    return {
        f"{name}.weight": rng.normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def npz(arrays: dict[str, Any], compressed: bool = True) -> bytes:
    """A `.npz` file."""
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def npy(array: Any) -> bytes:
    """A `.npy` file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def written(arrays: dict[str, Any], suffix: str, folder: Path) -> bytes:
    """A file of arrays in our own formats."""
    from attn_closed_form.app.files.arrays import write_arrays

    write_arrays(arrays, folder / f"sample{suffix}")
    return (folder / f"sample{suffix}").read_bytes()


def text_model(suffix: str, folder: Path) -> bytes:
    """A classifier of texts with its vocabulary."""
    from attn_closed_form import TextClassifier
    from attn_closed_form.app.models.text import Vocabulary
    from attn_closed_form.attention import random_weights

    words = ["[CLS]", "[UNK]", "fine", "poor", "film"]
    model = TextClassifier(random_weights(seed=0, D=5, C=2), Vocabulary(words), ("bad", "good"))
    model.save(folder / f"sample{suffix}")
    return (folder / f"sample{suffix}").read_bytes()


def fasttext(folder: Path, **claims: int) -> bytes:
    """A fastText classifier of four words and two labels; `claims` replace the sizes that the file
    gives.
    """
    words = 4
    dim = 3
    bucket = 6
    options = (dim, 5, 5, 1, 5, 1, 3, 3, bucket, 2, claims.get("maxn", 3), 100)
    names = ["</s>", "fine", "poor", "film", "__label__bad", "__label__good"]
    data = struct.pack("<14id", 793712314, 12, *options, 1e-4)
    data += struct.pack(
        "<3i2q",
        claims.get("size", words + 2),
        claims.get("words", words),
        claims.get("labels", 2),
        9,
        -1,
    )
    for row, name in enumerate(names):
        data += name.encode() + b"\0" + struct.pack("<qb", 1, row >= words)
    for rows in (words + bucket, 2):
        numbers = np.random.default_rng(rows).normal(size=(rows, dim)).astype("<f4")
        data += (
            struct.pack("<b2q", 0, claims.get("rows", rows), claims.get("columns", dim))
            + numbers.tobytes()
        )
    return data


def parquet(folder: Path, table: Any = None, **options: Any) -> bytes:
    """A Parquet table."""
    import pyarrow as pa
    import pyarrow.parquet

    pa.parquet.write_table(
        pa.Table.from_pylist(ROWS) if table is None else table, folder / "sample.parquet", **options
    )
    return (folder / "sample.parquet").read_bytes()


def hdf5(folder: Path, fill: Callable[[Any, Any], None] | None = None) -> bytes:
    """A slide, with attributes and chunks; or what `fill(h5py, file)` makes."""
    import h5py

    path = folder / "sample.h5"
    with h5py.File(path, "w") as file:
        if fill is not None:
            fill(h5py, file)
        else:
            data = file.create_dataset(
                "features", data=FEATURES, chunks=(2, 5), compression="gzip", shuffle=True
            )
            data.attrs["patch_size"] = 256
            file["coords"] = COORDS
            file["ids"] = np.array([f"tile {i}" for i in range(7)], dtype=object)
            file.attrs["name"] = "slide"
    return path.read_bytes()


def keras(h5py: Any, file: Any) -> None:
    """The weights of keras.io's example for bags of three instances."""
    shapes = {
        "dense": ((5, 4), (4,)),
        "mil_attention_layer": ((4, 3), (3, 1), (4, 3)),
        "dense_1": ((12, 2), (2,)),
    }
    for name, parts in shapes.items():
        for i, shape in enumerate(parts):
            file[f"layers/{name}/vars/{i}"] = (
                np.random.default_rng(i).normal(size=shape).astype(np.float32)
            )


CSV = "\n".join(["text,label", *(f'"{row["text"]}",{row["label"]}' for row in ROWS)]).encode()
SCORES = b"label,group,s,v\na,x,0.5,1\nb,x,-1,2\nc,y,0,3\n"
#: name -> (suffix, door, contents)
SAMPLES: dict[str, tuple[str, str, Callable[[Path], bytes]]] = {
    "npz text model": (".npz", "model", functools.partial(text_model, ".npz")),
    "safetensors text model": (
        ".safetensors",
        "model",
        functools.partial(text_model, ".safetensors"),
    ),
    "npz bag model": (".npz", "model", lambda folder: npz(clam())),
    "safetensors bag model": (
        ".safetensors",
        "model",
        lambda folder: written(clam(), ".safetensors", folder),
    ),
    "torch zip": (
        ".pt",
        "state",
        lambda folder: zipped(tensor_pickle(), compression=zipfile.ZIP_STORED),
    ),
    "torch legacy": (".pt", "state", lambda folder: legacy(tensor_pickle())),
    "fastText": (".bin", "model", fasttext),
    "npy bag": (".npy", "bag", lambda folder: npy(FEATURES)),
    "npz bag": (
        ".npz",
        "bag",
        lambda folder: npz({"features": FEATURES, "coords": COORDS}, compressed=False),
    ),
    "HDF5": (".h5", "bag", hdf5),
    "Keras": (".h5", "model", lambda folder: hdf5(folder, keras)),
    "csv": (".csv", "table", lambda folder: CSV),
    "csv gzip": (".csv.gz", "table", lambda folder: gzip.compress(CSV, mtime=0)),
    "json lines": (".jsonl", "table", lambda folder: "\n".join(map(json.dumps, ROWS)).encode()),
    "json": (".json", "table", lambda folder: json.dumps(ROWS).encode()),
    "fastText lines": (
        ".ft",
        "table",
        lambda folder: b"__label__bad a poor film\n__label__good a fine film\n",
    ),
    "parquet": (".parquet", "table", parquet),
    "csv corpus": (".csv", "corpus", lambda folder: CSV),
    "parquet corpus": (".parquet", "corpus", parquet),
    "csv scores": (".csv", "scores", lambda folder: SCORES),
    "json scores": (
        ".json",
        "scores",
        lambda folder: json.dumps([{"s": 0.5, "v": 1}, {"s": -1, "v": 2.5}]).encode(),
    ),
}


def cuts(data: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    """The file cut at `count` places, evenly."""
    for part in range(count):
        yield f"cut at {part / count:.0%}", data[: len(data) * part // count]


def flips(data: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    """The file with one to four bytes changed, `count` times, always the same."""
    rng = np.random.default_rng(17)
    for number in range(count):
        changed = bytearray(data)
        for place in rng.integers(len(data), size=rng.integers(1, 5)):
            changed[place] = rng.integers(256)
        yield f"flip {number}", bytes(changed)


def hostile(name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Files of a format that did harm, or were made to do it: bombs, claims, deep nests, and what
    lies outside.
    """
    found = FOUND / name.removesuffix(" corpus")
    yield from ((path.name, path.read_bytes()) for path in sorted(found.glob("*")))
    if name == "HDF5":
        yield from _hostile_hdf5(folder)
    elif name in ("npz bag", "npz bag model", "npz text model"):
        yield "a bomb", npz({"features": np.zeros((1 << 12, 1 << 14))})
        yield "many arrays", npz({f"a{i}": np.zeros(1) for i in range(20_000)}, compressed=False)
        yield "long names", npz({f"{i}" * 9000: np.zeros(1) for i in range(9)}, compressed=False)
    elif name == "npy bag":
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 5)}
        )
        yield "a claim", header.getvalue() + bytes(80)
        yield "a long header", npy(np.zeros(3, dtype=[(f"f{i}", "f4") for i in range(1000)]))
    elif name.startswith("safetensors"):
        entry = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
        empty = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
        for title, header in {
            "many entries": ",".join(f'"{i}":{entry}' for i in range(100_000)).join("{}"),
            "many long names": ",".join(f'"{"." * 490}{i}":{empty}' for i in range(9_000)).join(
                "{}"
            ),
            "deep": "[" * 1_000_000,
            "a long name": f'{{"{"." * 1_000_000}":{entry}}}',
            "long numbers": '{"w":{"dtype":"F32","shape":['
            + "9" * 1_000_000
            + '],"data_offsets":[0,4]}}',
            "large metadata": '{"__metadata__":{"outputs":"['
            + ",".join(["[]"] * 2_000_000)
            + ']"}}',
            "too large": " " * (2**24 + 1),
        }.items():
            yield title, struct.pack("<Q", len(header)) + header.encode() + bytes(4)
    elif name.startswith("torch"):
        wrap = zipped if name == "torch zip" else legacy
        keys = b"\x80\x02(" + b"".join(
            b"X" + struct.pack("<I", len(str(i))) + str(i).encode() + b"N" for i in range(160_000)
        )
        yield "many keys", wrap(keys + b"d.")
        yield (
            "a long key",
            wrap(b"}U\x00X" + struct.pack("<I", 1 << 24) + b"." * (1 << 24) + b"Ns."),
        )
        yield "many instructions", wrap(b"\x80\x02]" + b"(NNe" * 120_000 + b".")
        yield "deep tuples", wrap(b"\x80\x02)" + b"\x85" * 490_000 + b".")
        yield (
            "a pickle before the pickle",
            b"\x80\x02]" + b"(NNe" * 120_000 + b"." + legacy(tensor_pickle()),
        )
    elif name == "fastText":
        for claim in ("size", "words", "labels", "rows", "columns", "maxn"):
            for number in (-1, 0, 1 << 20, (1 << 31) - 1):
                yield f"{claim} {number}", fasttext(folder, **{claim: number})
        yield "no zero byte", fasttext(folder)[:92] + b"x" * 5_000_000
    elif name in ("csv gzip", "csv", "csv corpus"):
        yield (
            "one long line",
            gzip.compress(b"text,label\n") + gzip.compress(b"a" * (1 << 20)) * 1024,
        )
        yield "a long quote", b'text,label\n"' + b"a,b\n" * 5_000_000
        yield "many columns", b",".join(b"%d" % i for i in range(300_000)) + b"\n" + b"," * 299_999
    elif name.startswith("json"):
        yield "deep", b"[" * 5_000_000
        yield "deep objects", b'{"text":' * 500_000
        yield "a long number", b'{"text": "a", "label": ' + b"9" * 5_000_000 + b"}"
        # One after the other, which gzip reads as one file.
        lists = gzip.compress(b"[]," * (1 << 20)) * 64
        yield "many lists", gzip.compress(b"[") + lists + gzip.compress(b"[]]")
        yield "a long line", gzip.compress(b'{"text": [') + lists + gzip.compress(b"[]]}")
    elif name in ("parquet", "parquet corpus"):
        import pyarrow as pa

        yield (
            "nested lists",
            parquet(folder, pa.table({"text": [[["a"]]], "label": [{"b": {"c": 1}}]})),
        )
        long = pa.DictionaryArray.from_arrays(np.zeros(2000, dtype=np.int32), ["a" * 20_000_000])
        yield (
            "one long text for all",
            parquet(folder, pa.table({"text": long, "label": long}), compression="zstd"),
        )


def _hostile_hdf5(folder: Path) -> Iterator[tuple[str, bytes]]:
    secret = folder / "secret.txt"
    secret.write_text("TOP-SECRET-TOKEN\n" * 9)
    hdf5(folder)
    private = str((folder / "sample.h5").rename(folder / "private.h5"))

    def fills() -> dict[str, Callable[[Any, Any], Any]]:
        external = {"shape": (3, 8), "dtype": "u1"}
        virtual = {"shape": (7, 5), "dtype": "f4"}
        chunk = {"shape": (1, 8), "dtype": "f4", "chunks": (1 << 25, 8), "maxshape": (None, 8)}
        huge = {
            "shape": (1_000_000, 4000),
            "dtype": "f4",
            "chunks": (1000, 4000),
            "compression": "gzip",
        }
        return {
            "external link": lambda h, f: f.__setitem__(
                "features", h.ExternalLink(private, "/features")
            ),
            "soft link": lambda h, f: f.__setitem__("features", h.SoftLink("/features")),
            "external storage": lambda h, f: f.create_dataset(
                "features", **external, external=[(str(secret), 0, 24)]
            ),
            "a device": lambda h, f: f.create_dataset(
                "features", **external, external=[("/dev/zero", 0, 24)]
            ),
            "virtual": lambda h, f: f.create_virtual_dataset(
                "features", h.VirtualLayout(**virtual)
            ),
            "never written": lambda h, f: f.create_dataset("features", **huge),
            "a large chunk": lambda h, f: f.create_dataset("features", **chunk),
            "references": lambda h, f: f.create_dataset("features", (2, 3), dtype=h.ref_dtype),
            "lists": lambda h, f: f.create_dataset(
                "features", (2, 3), dtype=h.vlen_dtype(np.float64)
            ),
            "many names": lambda h, f: [f.create_group(str(i)) for i in range(20_000)],
            "a large attribute": lambda h, f: f.attrs.__setitem__("name", "x" * 60_000),
        }

    for title, fill in fills().items():
        yield title, hdf5(folder, fill)
