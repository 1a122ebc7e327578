from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import load_bag
from attn_closed_form.app.files import atomic
from attn_closed_form.app.files.arrays import check_names, read_arrays, write_arrays

KINDS = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
ARRAYS = {
    **{kind: np.arange(6).reshape(2, 3).astype(kind) for kind in KINDS},
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 3)),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "big endian": np.arange(3, dtype=">i4"),
    "outputs": np.array(["nein", "schön"]),
}


def assert_same(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert set(got) == set(expected)
    for name, array in expected.items():
        assert got[name].shape == array.shape and np.array_equal(got[name], array), name
        assert got[name].dtype.newbyteorder("=") == array.dtype.newbyteorder("="), name


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_round_trip(suffix: str, tmp_path: Path) -> None:
    write_arrays(ARRAYS, tmp_path / f"a{suffix}")
    assert_same(read_arrays(tmp_path / f"a{suffix}"), ARRAYS)
    write_arrays(ARRAYS, tmp_path / f"B{suffix.upper()}")
    assert_same(read_arrays(tmp_path / f"B{suffix.upper()}"), ARRAYS)


def test_safetensors_are_those_of_the_package(tmp_path: Path) -> None:
    """The witness is the safetensors package, which reads what we write and writes what we read."""
    package = pytest.importorskip(
        "safetensors.numpy", reason="the witness is the safetensors package"
    )
    numbers = {name: array for name, array in ARRAYS.items() if array.dtype.kind != "U"}
    write_arrays(ARRAYS, tmp_path / "ours.safetensors")
    assert_same(package.load_file(tmp_path / "ours.safetensors"), numbers)
    plain = {
        name: np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        for name, array in numbers.items()
    }
    package.save_file(
        plain, tmp_path / "theirs.safetensors", metadata={"outputs": '["a", "b"]', "format": "[pt"}
    )
    assert_same(
        read_arrays(tmp_path / "theirs.safetensors"), {**plain, "outputs": np.array(["a", "b"])}
    )


def test_numpy_reads_what_we_read(tmp_path: Path) -> None:
    stored = {**ARRAYS, "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3))}
    np.savez(tmp_path / "plain.npz", **stored)
    np.savez_compressed(tmp_path / "small.npz", **stored)
    for name in ("plain.npz", "small.npz"):
        assert_same(read_arrays(tmp_path / name), stored)
    np.save(tmp_path / "one.npy", stored["fortran"])
    assert np.array_equal(read_arrays(tmp_path / "one.npy", [".npy"]), stored["fortran"])


def npy_header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


def test_a_small_file_does_not_become_a_large_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traced memory shows that claims are refused before anything is allocated."""
    monkeypatch.setattr(atomic, "ALWAYS_ALLOWED", 1 << 20)
    np.savez_compressed(tmp_path / "bomb.npz", features=np.zeros((4, 1 << 20)))
    (tmp_path / "claim.npy").write_bytes(npy_header((1 << 40,)) + bytes(80))
    (tmp_path / "many.npy").write_bytes(npy_header((2,) * 900) + bytes(80))
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive:
        archive.writestr("features.npy", npy_header((1 << 40,)) + bytes(80))
    with zipfile.ZipFile(tmp_path / "lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("features.npy", npy_header((10,)) + bytes(80))
    tracemalloc.start()
    for name, message in {
        "bomb.npz": "more than 100 times the file",
        "claim.npy": "which do not match its data",
        "claim.npz": "which do not match its data",
        "many.npy": "at most 64 sizes",
        "lzma.npz": "a compression that NumPy does not write",
    }.items():
        with pytest.raises(ValueError, match=rf"{name}: expected a readable .*{message}"):
            load_bag(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_bfloat16(tmp_path: Path) -> None:
    # Three numbers that bfloat16 holds exactly.
    numbers = np.array([1.0, -2.5, 3.140625], dtype=np.float32)
    body = (numbers.view(np.uint32) >> 16).astype("<u2").tobytes()
    header = b'{"w":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
    (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + body)
    assert np.array_equal(read_arrays(tmp_path / "b.safetensors")["w"], numbers)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b'{"w":3}', "has no dtype, shape and data_offsets"),
        (b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,99]}}', "does not fit"),
        (b'{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,8]}}', "does not fit"),
        (b'{"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', "has no dtype, shape"),
        (
            b'{"v":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
            "overlap",
        ),
        (
            b'{"w":{"dtype":[],"shape":[2],"data_offsets":[0,2]}}',
            "has no dtype, shape and data_offsets",
        ),
        (
            b'{"w":{"dtype":"F8","shape":[2],"data_offsets":[0,2]}}',
            "has no dtype, shape and data_offsets",
        ),
    ],
)
def test_damaged(header: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(ValueError, match=message):
        read_arrays(path)


def test_names_that_are_long_or_not_printable_are_refused() -> None:
    check_names(["a" * 500, "a b"])
    for name in ("a" * 501, "a\n", "\x1b[31m"):
        with pytest.raises(ValueError, match="too long or not printable"):
            check_names(["weight", name])


def test_every_array_of_a_safetensors_file_is_aligned(tmp_path: Path) -> None:
    arrays = {
        "a": np.zeros(3, np.int8),
        "b": np.zeros(2),
        "c": np.zeros(5, np.int16),
        "d": np.zeros(3, np.float32),
    }
    write_arrays(arrays, tmp_path / "a.safetensors")
    data = (tmp_path / "a.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    assert all(
        header[name]["data_offsets"][0] % array.itemsize == 0 for name, array in arrays.items()
    )
