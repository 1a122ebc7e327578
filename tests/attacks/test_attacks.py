"""Hostile files of every format are read or refused in one line, within 5 s and 1 GB, without hang,
crash or traceback.

`ATTACKS=long` makes 100 cuts and 2,000 flips of each file, as `make attack` does every night;
otherwise the test is a sample of a second.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.profiles import mostly_slow

from .attack import Reader, attack, files_of
from .reader import DOORS
from .samples import SAMPLES

LONG = os.environ.get("ATTACKS") == "long"
PACKAGES = {
    "HDF5": "h5py",
    "parquet": "pyarrow",
    "parquet corpus": "pyarrow",
    "csv corpus": "pyarrow",
}
# Formats of `make test`; it leaves out the others.
QUICK = ("npz text model", "csv")
SLOW = [name for name in SAMPLES if name not in QUICK]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.stop()


@pytest.mark.parametrize("name", mostly_slow([*QUICK, *SLOW], len(QUICK)))
def test_hostile_files_are_read_or_refused_in_one_line(
    name: str, reader: Reader, tmp_path: Path
) -> None:
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name], reason=f"{name} files need it")
    suffix, door, _ = SAMPLES[name]
    if LONG:
        cuts = 100
        flips = 2000
    else:
        cuts = 5
        flips = 10
    result = attack(files_of(name, tmp_path, cuts, flips), suffix, door, reader, tmp_path)
    assert not result.wrong, "\n".join(result.wrong[:20])
    assert result.outcomes["read"] >= 1 and result.outcomes["refused"] >= 5


@pytest.mark.slow
def test_the_attack_notices_hangs_crashes_tracebacks_and_files_of_the_machine(
    tmp_path: Path,
) -> None:
    reader = Reader()
    (tmp_path / "attacked.py").write_text("")
    for call, message in {
        "while True: pass": "hang of more than 1 s",
        "os.abort()": "crash with status",
        "raise KeyError(3)": "traceback of KeyError",
        "raise ValueError(f'{path}: two\\nlines')": "not one line",
        "raise ValueError('no name')": "not one line",
        "raise ValueError(f'{path}: SECRET')": "a file of the machine was read",
    }.items():
        outcome = reader.ask(call, "python", seconds=1 if "while" in call else 20)[0]
        assert message in outcome, (call, outcome)
    reader.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", SAMPLES)
def test_pipes_and_devices_are_not_opened(name: str, tmp_path: Path) -> None:
    """Opening a pipe would wait for ever, and a device has no end."""
    suffix, door, _ = SAMPLES[name]
    pipe = tmp_path / f"pipe{suffix}"
    device = tmp_path / f"device{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    for path in (pipe, device):
        with pytest.raises(FileNotFoundError, match="is not a regular file"):
            DOORS[door](str(path))
