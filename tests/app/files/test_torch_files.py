from __future__ import annotations

import argparse
import io
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import BagClassifier, load_bag
from attn_closed_form.app.files.open_model import open_model
from attn_closed_form.app.files.torch_files import MAX_INSTRUCTIONS, load_torch
from tests.attacks.hostile_files import build_files, legacy, payloads, tensor_pickle, zipped
from tests.patience import PATIENCE

DOORS = {
    "from_state_dict": BagClassifier.from_state_dict,
    "open_model": open_model,
    "load_bag": load_bag,
}


def outcomes(paths: list[Path], door: Any, trap: Path) -> list[str]:
    """What is wrong with the way in which each file is refused; nothing, if all is well."""
    wrong = []
    for path in paths:
        start = time.process_time()
        try:
            door(path)
            wrong.append(f"{path.name}: was loaded")
        except ValueError as error:
            text = str(error)
            if (
                "\n" in text
                or path.name not in text
                or len(text) < len(str(path)) + 20
                or error.__cause__ is not None
            ):
                wrong.append(f"{path.name}: {text!r}")
        except BaseException as error:
            wrong.append(f"{path.name}: {type(error).__name__}: {error}")
        if trap.exists():
            wrong.append(f"{path.name}: EXECUTED")
            trap.unlink()
        if time.process_time() - start > 5:
            wrong.append(f"{path.name}: took more than 5 s")
    return wrong


# All doors read PyTorch files by the same reader, so one of them gets every file, and the others get
# every tenth one.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("door", "every"), [("open_model", 1), ("from_state_dict", 10), ("load_bag", 10)]
)
def test_at_least_200_hostile_or_damaged_files_are_refused_in_one_line(
    door: str, every: int, tmp_path: Path
) -> None:
    """In a process of its own, because a file that hangs or crashes the reader would take the tests
    with it.
    """
    (tmp_path / "files").mkdir()
    paths = build_files(tmp_path / "files", tmp_path / "trap")
    assert len(paths) >= 200
    code = (
        "import sys; from pathlib import Path; from tests.app.files.test_torch_files import DOORS, "
        "outcomes\n"
        "folder, door, every = Path(sys.argv[1]), DOORS[sys.argv[2]], int(sys.argv[3])\n"
        "paths = sorted((folder / 'files').iterdir())[::every]\n"
        "wrong = outcomes(paths, door, folder / 'trap')\n"
        "print('\\n'.join(wrong) or 'all refused')"
    )
    command = [sys.executable, "-c", code, str(tmp_path), door, str(every)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, cwd=Path(__file__).parents[3]
    )
    assert done.stdout == "all refused\n", done.stdout + done.stderr[-2000:]


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


@pytest.mark.slow
def test_a_pickle_of_endless_instructions_is_refused(tmp_path: Path) -> None:
    """Half a million instructions are more than any state dict has; those of this file would go on
    for longer.
    """
    path = tmp_path / "model.pt"
    path.write_bytes(zipped(b"N0" * (MAX_INSTRUCTIONS // 2 + 1) + b"}."))
    with pytest.raises(
        ValueError, match=f"has a pickle of more than {MAX_INSTRUCTIONS} instructions"
    ):
        load_torch(path)
    path.write_bytes(zipped(b"N0" * (MAX_INSTRUCTIONS // 2 - 1) + b"}."))
    assert load_torch(path) == {}


def test_records_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(legacy(tensor_pickle(), keys=(0,)))
    with pytest.raises(ValueError, match="without its list of storages"):
        load_torch(path)
    for record in (b"(S'storage'\nt", b"S'storage'\n"):
        path.write_bytes(zipped(record + b"Q."))
        with pytest.raises(ValueError, match="unknown persistent record"):
            load_torch(path)


def test_an_ordered_dict_that_was_stored_with_its_pairs(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    pairs = b"((lp0\n(S'a'\nI1\nlp1\na(S'b'\nI2\ntp2\natR."
    path.write_bytes(zipped(b"ccollections\nOrderedDict\n" + pairs))
    assert load_torch(path) == {"a": 1, "b": 2}
    for not_a_pair in (b"(S'a'\nI1\nI2\ntp1\n", b"(S'a'\ntp1\n", b"(NI1\ntp1\n"):
        path.write_bytes(zipped(b"ccollections\nOrderedDict\n((lp0\n" + not_a_pair + b"atR."))
        with pytest.raises(ValueError, match="keys that are neither texts nor numbers"):
            load_torch(path)


def test_nothing_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(zipped(b"cantigravity\nfly\n(tR."))
    with pytest.raises(
        ValueError, match=r"names 'antigravity\.fly', which a state dict does not need"
    ):
        load_torch(path)
    assert "antigravity" not in sys.modules


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nobody\.pt: no such file"):
        BagClassifier.from_state_dict(tmp_path / "nobody.pt")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch writes these files (extra bench)")


@pytest.mark.parametrize("new", [True, False])
def test_every_type_and_stride(new: bool, torch: Any, tmp_path: Path) -> None:
    base = torch.arange(24).reshape(4, 6)
    kinds = (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
    )
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
def test_a_training_checkpoint(new: bool, torch: Any, tmp_path: Path) -> None:
    """Optimizer state, numbers, NumPy scalars and arrays, text, None, tuples and options beside the
    weights.
    """
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


def test_a_whole_model_is_refused(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(
        ValueError, match=r"torch.nn.modules.linear.Linear.*Save model.state_dict\(\)"
    ):
        load_torch(path)


def test_a_tensor_alone(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "bag.pt"
    torch.save(torch.ones(3, 2), path)
    assert load_torch(path).shape == (3, 2)


def test_the_files_are_in_the_format_of_torch(torch: Any) -> None:
    data = zipped(tensor_pickle(), {"archive/data/0": b"\0" * 16, "archive/version": b"3"})
    found = torch.load(io.BytesIO(data), weights_only=False)
    assert found["classifier.weight"].shape == (2, 2)


@pytest.mark.parametrize("name", ["clam_sb_luad_lusc", "xmil_camelyon16"])
def test_real_checkpoints_have_the_arrays_that_torch_reads(name: str, torch: Any) -> None:
    path = Path(__file__).parents[4] / "shared" / "data" / "mil" / f"{name}.pt"
    if not path.is_file():
        pytest.skip("needs the checkpoints beside the checkout")
    arrays = load_torch(path)
    tensors = torch.load(path, weights_only=False, map_location="cpu")
    arrays, tensors = (found.get("model_state_dict", found) for found in (arrays, tensors))
    assert list(arrays) == list(tensors)
    for key, tensor in tensors.items():
        assert (
            np.array_equal(arrays[key], tensor.numpy())
            and arrays[key].dtype == tensor.numpy().dtype
        ), key


@pytest.mark.parametrize("wrap", [zipped, legacy])
def test_big_endian_files(wrap: Any, tmp_path: Path) -> None:
    numbers = np.arange(4, dtype=">f4").tobytes()
    if wrap is zipped:
        data = zipped(tensor_pickle(), {"archive/data/0": numbers, "archive/byteorder": b"big"})
    else:
        data = legacy(tensor_pickle(), data=(4).to_bytes(8, "big") + numbers, little_endian=False)
    (tmp_path / "big.pt").write_bytes(data)
    assert np.array_equal(load_torch(tmp_path / "big.pt")["classifier.weight"], [[0, 1], [2, 3]])
