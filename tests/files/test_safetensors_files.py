from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from attn_closed_form.files.safetensors_files import load_safetensors


def test_agrees_with_the_package(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy", reason="the witness is the safetensors package (extra io)")
    kinds = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
    arrays = {kind: np.arange(6).reshape(2, 3).astype(kind) for kind in kinds}
    arrays |= {"scalar": np.array(2.5), "empty": np.zeros((0, 3))}
    package.save_file(arrays, tmp_path / "a.safetensors", metadata={"outputs": "[]"})
    found = load_safetensors(tmp_path / "a.safetensors")
    assert found.metadata == {"outputs": "[]"} and set(found.arrays) == set(arrays)
    for name, array in arrays.items():
        assert found.arrays[name].shape == array.shape and np.array_equal(found.arrays[name], array), name
        assert array.size == 0 or found.arrays[name].dtype == array.dtype


def test_bfloat16(tmp_path: Path) -> None:
    numbers = np.array([1.0, -2.5, 3.140625], dtype=np.float32)  # three numbers that bfloat16 holds exactly
    body = (numbers.view(np.uint32) >> 16).astype("<u2").tobytes()
    header = b'{"w":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
    (tmp_path / "b.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + body)
    assert np.array_equal(load_safetensors(tmp_path / "b.safetensors").arrays["w"], numbers)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"[]", "no JSON object"),
        (b"{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"w":3}', "has no dtype, shape and data_offsets"),
        (b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,99]}}', "does not fit"),
        (b'{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,8]}}', "does not fit"),
        (b'{"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', "has no dtype, shape"),
        (b'{"w":{"dtype":"F8","shape":[2],"data_offsets":[0,2]}}', "unknown type 'F8'"),
    ],
)
def test_damaged(header: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(ValueError, match=message):
        load_safetensors(path)
