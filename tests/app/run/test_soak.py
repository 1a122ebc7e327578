"""Runs that are killed, stopped and starved of disk space for a while: no row is lost, doubled or
changed.

SOAK_SECONDS sets the length of each test: about half a minute by default, twenty seconds in `make
test-all`, an hour in the nightly job.
"""

import gc
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyarrow", reason="needs the corpus extra")
psutil = pytest.importorskip("psutil", reason="needs the corpus extra")

from attn_closed_form.app.run.plan import MANIFEST  # noqa: E402
from tests.app.run.corpora import ROOT, part_bytes, read, run_all, texts, write  # noqa: E402
from tests.app.run.test_faults import SMALL_PARTS  # noqa: E402
from tests.memory import FLAT_MB, growth  # noqa: E402
from tests.patience import PATIENCE  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

SECONDS = float(os.environ.get("SOAK_SECONDS", "25"))
ROWS = 150
PART_ROWS = 3  # as in SMALL_PARTS
# Growth that is not a leak: caches of the model, and memory that the allocator keeps.
ROOM_MB = 60


def full_disk(room):
    """Return what lets no file grow beyond a size, as on a full disk."""

    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    return prepare


def start(source, out, prepare=None):
    command = [sys.executable, "-c", SMALL_PARTS, "corpus", "run", str(source), str(out)]
    command += ["--workers", "2", "--progress", "none"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=ROOT, preexec_fn=prepare, start_new_session=True, **quiet)


def disturb(rng, source, out, room):
    """Start the run, disturb it in some way after some time, and wait until nothing of it is
    left.
    """
    kind = rng.choice(["kill", "stop", "worker", "disk", "none"])
    process = start(source, out, full_disk(room) if kind == "disk" else None)
    own = psutil.Process(process.pid)
    try:
        process.wait(timeout=rng.uniform(0.5, 8.0))
    except subprocess.TimeoutExpired:
        family = [own, *own.children(recursive=True)]
        if kind == "kill":
            process.kill()
        elif kind == "stop":
            process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
        elif kind == "worker" and len(family) > 1:
            rng.choice(family[1:]).kill()
        process.wait(timeout=PATIENCE)
        _, alive = psutil.wait_procs(family, timeout=PATIENCE)
        assert not alive
    return kind


def test_rows_survive_everything(tmp_path, record_property):
    rng = random.Random(0)
    end = time.monotonic() + SECONDS
    rounds = disturbances = 0
    while rounds == 0 or time.monotonic() < end:
        folder = tmp_path / str(rounds)
        folder.mkdir()
        source = write(folder / "in.parquet", texts(ROWS, seed=rounds))
        run_all(source, folder / "whole", part_rows=PART_ROWS)
        expected = part_bytes(folder / "whole")
        room = max(map(len, expected.values())) - 1  # the largest part does not fit
        for _ in range(3):
            disturb(rng, source, folder / "out", room)
            disturbances += 1
            # What is there is complete and right at any time.
            assert part_bytes(folder / "out").items() <= expected.items()
        run_all(source, folder / "out", part_rows=PART_ROWS)
        assert part_bytes(folder / "out") == expected
        assert sorted(os.listdir(folder / "out")) == [MANIFEST, *expected]
        assert read(folder / "out")["row"].to_pylist() == list(range(ROWS))
        rounds += 1
    record_property("shown", f"{rounds} runs, disturbed {disturbances} times: every row once")


def test_runs_in_one_process_leave_nothing_behind(tmp_path, record_property):
    process = psutil.Process()
    source = write(tmp_path / "in.parquet", texts(ROWS))

    def state():
        gc.collect()
        return process.memory_info().rss / 2**20, process.num_threads(), process.num_fds()

    def explain_again(number):
        run_all(source, tmp_path / "out", part_rows=50, restart=True)

    for number in range(3):  # caches fill
        explain_again(number)
    megabytes, threads, files = state()
    end = time.monotonic() + SECONDS
    rounds = 0
    over_time = []
    while rounds == 0 or time.monotonic() < end:
        explain_again(rounds)
        rounds += 1
        over_time.append(state()[0])
    after = state()
    record_property("shown", f"{rounds} runs: {megabytes:.0f} -> {after[0]:.0f} MB")
    assert after[0] < megabytes + ROOM_MB
    assert growth(over_time) < FLAT_MB
    assert after[1] <= threads
    assert after[2] <= files
