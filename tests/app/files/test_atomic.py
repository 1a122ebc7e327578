from __future__ import annotations

import os
from pathlib import Path

import pytest

from attn_closed_form import load_bag
from attn_closed_form.app.files.atomic import first_line, regular_file, replacing
from attn_closed_form.app.files.open_model import open_model
from attn_closed_form.app.files.tables import read_rows


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    target = tmp_path / "store" / "a.html"
    link = tmp_path / "link.html"
    target.write_text("old")
    link.symlink_to(target)
    with replacing(link) as partial:
        assert partial.parent == target.parent and partial.suffix == ".html"
        partial.write_text("new")
    assert link.is_symlink() and target.read_text() == "new"
    assert [file.name for file in target.parent.iterdir()] == ["a.html"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with replacing(path) as partial:
            partial.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="Windows limits the length of whole paths")
def test_names_as_long_as_the_system_allows(tmp_path: Path) -> None:
    for stem in ("a" * 250, "ä" * 125):
        for folder in (None, tmp_path):
            with replacing(path := tmp_path / f"{stem}.html", folder) as partial:
                partial.write_bytes(b"new")
            assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]
        path.unlink()


def test_folders_and_devices_are_not_replaced(tmp_path: Path) -> None:
    for path in (tmp_path, Path(os.devnull)):
        with (
            pytest.raises(ValueError, match="expected the name of a file to write"),
            replacing(path),
        ):
            pass
    assert not Path(os.devnull).is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_pipes_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    for suffix in (".pt", ".npz", ".npy", ".safetensors", ".h5", ".csv", ".parquet", ".bin"):
        os.mkfifo(path := tmp_path / f"pipe{suffix}")
        for door in (regular_file, load_bag, open_model, lambda path: list(read_rows(path))):
            with pytest.raises((FileNotFoundError, ValueError), match=rf"pipe\{suffix}: "):
                door(path)


def test_the_reason_of_an_error_is_its_last_text() -> None:
    """An error of decoding begins with the name of the codec."""
    assert (
        first_line(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"))
        == "invalid start byte"
    )
    assert (
        first_line(OSError(2, "No such file")) == "No such file"
        and first_line(KeyError(3)) == "KeyError"
    )
