from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import BagClassifier, load_bag
from attn_closed_form.files.open_model import open_model
from attn_closed_form.files.torch_files import load_torch

from .hostile_files import build_files, legacy, payloads, tensor_pickle, zipped


@pytest.mark.parametrize("door", [BagClassifier.from_state_dict, open_model, load_bag])
def test_at_least_100_hostile_or_damaged_files_are_refused_in_one_line(door: Any, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    folder = tmp_path / "files"
    folder.mkdir()
    paths = build_files(folder, trap)
    assert len(paths) >= 100
    wrong = []
    for path in paths:
        try:
            door(path)
            wrong.append(f"{path.name}: was loaded")
        except ValueError as error:
            text = str(error)
            if "\n" in text or path.name not in text or len(text) < len(str(path)) + 20 or error.__cause__ is not None:
                wrong.append(f"{path.name}: {text!r}")
        except BaseException as error:
            wrong.append(f"{path.name}: {type(error).__name__}: {error}")
        if trap.exists():
            wrong.append(f"{path.name}: EXECUTED")
            trap.unlink()
    assert not wrong, "\n".join(wrong)


def test_the_traps_work(tmp_path: Path) -> None:
    """Python's own unpickler falls into the trap, so that the test above could fail."""
    trap = tmp_path / "trap"
    pickle.loads(payloads(str(trap))["builtins.open"]).close()
    assert trap.exists()


@pytest.mark.parametrize("wrap", [zipped, legacy])
def test_the_undamaged_file_is_read(wrap: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(wrap(tensor_pickle()))
    found = load_torch(path)
    assert np.array_equal(found["classifier.weight"], np.ones((2, 2)))
    assert found["classifier.weight"].dtype == np.float32


def test_nothing_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(zipped(b"cantigravity\nfly\n(tR."))
    with pytest.raises(ValueError, match=r"names 'antigravity\.fly', which a state dict does not need"):
        load_torch(path)
    assert "antigravity" not in sys.modules


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nobody\.pt: no such file"):
        BagClassifier.from_state_dict(tmp_path / "nobody.pt")
