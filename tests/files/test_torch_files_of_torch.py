"""The restricted reader on files that torch itself writes."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import numpy as np
import pytest

from attn_closed_form.files.torch_files import load_torch

from .hostile_files import tensor_pickle, zipped

torch = pytest.importorskip("torch", reason="torch writes these files (extra bench)")


@pytest.mark.parametrize("new", [True, False])
def test_every_type_and_stride(new: bool, tmp_path: Path) -> None:
    base = torch.arange(24).reshape(4, 6)
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16)
    saved = {str(kind): base.to(kind) for kind in (*kinds, torch.int8, torch.uint8)}
    saved["bool"] = base > 5
    saved["transposed"] = base.double().T
    saved["part"] = base.double()[1:3, ::2]
    saved["scalar"] = torch.tensor(2.5)
    saved["empty"] = torch.zeros(0, 3)
    saved["parameter"] = torch.nn.Parameter(torch.randn(3, 2))
    path = tmp_path / "all.pt"
    torch.save(saved, path, _use_new_zipfile_serialization=new)
    found = load_torch(path)
    assert set(found) == set(saved)
    for name, value in saved.items():
        expected = value.detach().double().numpy()
        assert found[name].shape == expected.shape
        assert np.array_equal(found[name].astype(np.float64), expected), name


@pytest.mark.parametrize("new", [True, False])
def test_a_training_checkpoint(new: bool, tmp_path: Path) -> None:
    """Optimizer state, numbers, NumPy scalars and arrays, text, None, tuples and options beside the weights."""
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    saved = {
        "epoch": 3,
        "auc": np.float64(0.9),
        "history": np.arange(6.0).reshape(2, 3),
        "note": ("text", None, True),
        "args": argparse.Namespace(lr=0.1),
        "optimizer": optimizer.state_dict(),
        "model_state_dict": network.state_dict(),
    }
    path = tmp_path / "checkpoint.pt"
    torch.save(saved, path, _use_new_zipfile_serialization=new)
    found = load_torch(path)
    assert found["epoch"] == 3 and found["auc"] == 0.9 and found["note"] == ["text", None, True]
    assert np.array_equal(found["history"], saved["history"])
    assert np.array_equal(found["model_state_dict"]["weight"], network.weight.detach())


def test_a_whole_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(ValueError, match=r"torch.nn.modules.linear.Linear.*Save model.state_dict\(\)"):
        load_torch(path)


def test_a_tensor_alone(tmp_path: Path) -> None:
    path = tmp_path / "bag.pt"
    torch.save(torch.ones(3, 2), path)
    assert load_torch(path).shape == (3, 2)


def test_the_files_are_in_the_format_of_torch() -> None:
    data = zipped(tensor_pickle(), {"archive/data/0": b"\0" * 16, "archive/version": b"3"})
    found = torch.load(io.BytesIO(data), weights_only=False)
    assert found["classifier.weight"].shape == (2, 2)
