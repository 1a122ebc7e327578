"""The fault table of docs/corpus-at-scale.md, row by row.

Nothing is lost, nothing doubled, no process left, and a clear line printed.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs the corpus extra")
pq = pytest.importorskip("pyarrow.parquet")
psutil = pytest.importorskip("psutil", reason="needs the corpus extra")

from attn_closed_form import Settings  # noqa: E402
from attn_closed_form.app.cli.main import main  # noqa: E402
from attn_closed_form.app.run.plan import MANIFEST, METADATA, planned  # noqa: E402
from attn_closed_form.app.run.runner import run  # noqa: E402
from attn_closed_form.app.run.task import RunError, Task  # noqa: E402
from tests.app.run.corpora import ROOT, part_bytes, parts_of, read, run_all, texts, wait_for, write  # noqa: E402
from tests.app.run.models import Killer  # noqa: E402
from tests.patience import PATIENCE  # noqa: E402

pytestmark = pytest.mark.cluster
ROWS = 240
PART_ROWS = 3
# The command with parts so small that a run has many of them.
SMALL_PARTS = f"""
import sys
from attn_closed_form.app.cli.main import main
from attn_closed_form.app.run import plan
plan.PART_ROWS = {PART_ROWS}
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A corpus, and the bytes of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    source = write(folder / "in.parquet", texts(ROWS), row_group_size=400)
    run_all(source, folder / "out", part_rows=PART_ROWS)
    return source, part_bytes(folder / "out")


class Run:
    """`corpus run` as a process of its own, with two workers."""

    def __init__(self, source, out, *options, prepare=lambda: None, **how):
        self.out = out

        def begin():  # nohup and scripts start the tests with interrupts ignored, which a child inherits
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            prepare()

        command = [sys.executable, "-c", SMALL_PARTS, "corpus", "run", str(source), str(out)]
        command += ["--workers", "2", "--progress", "plain", *options]
        temporary = out.parent / "temporary"
        temporary.mkdir()
        how["env"] = os.environ | {"TMPDIR": str(temporary)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, preexec_fn=begin, **pipes, **how)

    def under_way(self):
        """Wait until some parts are done; returns the processes of the run, itself first."""
        wait_for(lambda: len(list(self.out.glob("part-*"))) >= 4)
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def end(self):
        try:
            out, err = self.process.communicate(timeout=PATIENCE)
        finally:
            self.process.kill()
        return self.process.returncode, out, err


def workers_of(processes):
    """The workers; where setproctitle is installed, Dask gives them a title."""
    lines = [(process, " ".join(process.cmdline())) for process in processes[1:]]
    return [process for process, line in lines if "spawn_main" in line or "dask" in line]


def check_all_gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    assert not alive


def check_resumes(whole, out):
    """Parts that are there are whole, some are missing, and the next run makes the very bytes of an
    undisturbed one.
    """
    source, expected = whole
    there = part_bytes(out)
    assert there.items() <= expected.items()
    assert 0 < len(there) < len(expected)
    assert run_all(source, out, part_rows=PART_ROWS).rows == ROWS - PART_ROWS * len(there)
    assert part_bytes(out) == expected
    assert sorted(os.listdir(out)) == [MANIFEST, *expected]
    assert os.listdir(out.parent / "temporary") == []


def test_kill_of_main(whole, tmp_path):
    started = Run(whole[0], tmp_path / "out")
    processes = started.under_way()
    assert len(workers_of(processes)) == 2
    started.process.send_signal(signal.SIGKILL)
    assert started.end()[0] == -signal.SIGKILL
    check_all_gone(processes)
    check_resumes(whole, tmp_path / "out")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stop_of_main(whole, tmp_path, number, status):
    started = Run(whole[0], tmp_path / "out", start_new_session=True)
    processes = started.under_way()
    if number == signal.SIGINT:  # as a terminal does, to the whole group
        os.killpg(started.process.pid, number)
    else:
        started.process.send_signal(number)
    code, out, err = started.end()
    assert (code, out) == (status, "")
    assert "Traceback" not in err
    done = PART_ROWS * len(part_bytes(tmp_path / "out"))
    assert f"stopped: {done:,} of {ROWS:,} documents are in" in err.replace(
        f"{done} of", f"{done:,} of"
    )
    assert "repeat the command to resume" in err
    check_all_gone(processes)
    check_resumes(whole, tmp_path / "out")


def test_kill_of_a_worker(whole, tmp_path):
    started = Run(whole[0], tmp_path / "out")
    workers_of(started.under_way())[0].kill()
    code, out, err = started.end()
    assert code == 0
    assert f"{ROWS:,} documents, {ROWS:,} now" in out and "1 workers lost and replaced" in out
    assert "Traceback" not in err
    assert part_bytes(tmp_path / "out") == whole[1]


def test_a_row_that_kills_its_worker_twice_is_explained_in_the_end(tmp_path):
    (tmp_path / "killed").mkdir()
    source = write(tmp_path / "in.parquet", [*texts(6), "poison", *texts(3)])
    task = Task(model=Killer("poison", str(tmp_path / "killed"), times=2))
    last = run_all(source, tmp_path / "out", task, part_rows=5, workers=2)
    assert (last.rows, last.failed) == (10, 0) and last.lost >= 1
    assert sorted(read(tmp_path / "out")["row"].to_pylist()) == list(range(10))


def test_a_row_that_always_kills_its_worker_gets_an_error_and_its_neighbors_do_not(tmp_path):
    (tmp_path / "killed").mkdir()
    source = write(tmp_path / "in.parquet", [*texts(6), "poison", "fine", "poison"])
    task = Task(model=Killer("poison", str(tmp_path / "killed")))
    with parts_of(5), planned(source, tmp_path / "out", task) as plan:
        notes = [last.note for last in run(task, plan.missing, workers=2)]
    assert notes[-1] == "rows 6, 8 were skipped because their workers died"
    rows = read(tmp_path / "out").to_pylist()
    assert [row["row"] for row in rows] == list(range(9))
    assert [row["row"] for row in rows if row["error"]] == [6, 8]
    assert "the worker died at this row every time" in rows[6]["error"]
    assert rows[7]["shapley"]


def test_workers_that_cannot_start_end_the_run(tmp_path, monkeypatch):
    import distributed

    def failing(*_, **__):
        raise RuntimeError("Nanny failed to start.")

    source = write(tmp_path / "in.parquet", texts(3))
    monkeypatch.setattr(distributed, "LocalCluster", failing)
    with pytest.raises(RunError, match=r"the workers cannot start: Nanny failed to start\."):
        run_all(source, tmp_path / "out", workers=2)


def test_a_full_disk(whole, tmp_path):
    resource = pytest.importorskip("resource")
    room = max(map(len, whole[1].values())) - 1  # the largest part does not fit

    def little_room():  # no file of this process and its children may be larger
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    code, out, err = Run(whole[0], tmp_path / "out", prepare=little_room).end()
    assert (code, out) == (1, "")
    assert "Traceback" not in err and "File too large" in err
    assert part_bytes(tmp_path / "out").items() <= whole[1].items()
    run_all(whole[0], tmp_path / "out", part_rows=PART_ROWS)
    assert part_bytes(tmp_path / "out") == whole[1]


def test_two_runs_at_once(whole, tmp_path, capsys):
    started = Run(whole[0], tmp_path / "out")
    started.under_way()
    assert main(["corpus", "run", str(whole[0]), str(tmp_path / "out")]) == 1
    assert "another run is using this folder" in capsys.readouterr().err
    assert main(["corpus", "run", str(whole[0]), str(tmp_path / "out"), "--restart"]) == 1
    capsys.readouterr()
    assert started.end()[0] == 0
    assert part_bytes(tmp_path / "out") == whole[1]


def test_a_changed_input_is_refused_even_with_the_same_size(tmp_path):
    source = tmp_path / "in.csv"
    out = tmp_path / "out"
    source.write_text("text\n" + "fine film\n" * 8)
    run_all(source, out)
    before = part_bytes(out)
    stat = source.stat()
    source.write_text("text\n" + "dull film\n" * 8)
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert source.stat().st_size == stat.st_size
    with pytest.raises(RunError, match=r"in\.csv has changed\. Use --restart to remove them"):
        run_all(source, out)
    assert part_bytes(out) == before
    assert run_all(source, out, restart=True).rows == 8
    assert read(out)["labels"].to_pylist() == [["dull", "film"]] * 8


def test_other_options_are_refused_by_name(tmp_path):
    source = write(tmp_path / "in.parquet", texts(9))
    out = tmp_path / "out"
    run_all(source, out)
    changes = {
        r"--absent was the default and is deleted": {
            "task": Task(settings=Settings(absent="deleted"))
        },
        r"--method was shapley and is shapley,leave-one-out": {
            "task": Task(methods=("shapley", "leave-one-out"))
        },
        r"was made by version 0\.0; this is": {"task": Task(), "forge": True},
        r"the input files are different": {"source": write(tmp_path / "other.parquet", texts(9))},
        r"the model is a different one": {"task": Task(model=Killer("x", "y"))},
    }
    for message, change in changes.items():
        if change.pop("forge", False):
            change["task"] = Task()
            _forge_version(out / MANIFEST)
        with pytest.raises(RunError, match=message):
            run_all(change.pop("source", source), out, change.pop("task", None), **change)
        if "version" in message:
            run_all(source, out, restart=True)
    with pytest.raises(RunError, match="expected a new or empty folder"):
        run_all(source, tmp_path, restart=True)  # a folder that is not ours is never cleared
    assert source.exists()


def _forge_version(file):
    schema = pq.read_schema(file)
    forged = schema.metadata[METADATA].replace(b'"version": "', b'"version": "0.0", "was": "')
    pq.write_table(schema.with_metadata({METADATA: forged}).empty_table(), file)


def test_an_input_that_changes_while_the_run_is_at_work(tmp_path):
    source = write(tmp_path / "in.parquet", texts(12))
    out = tmp_path / "out"
    with parts_of(4), planned(source, out, Task()) as plan:
        steps = run(Task(), plan.missing)
        assert next(steps).rows == 4
        write(source, texts(12, seed=1))
        with pytest.raises(RunError, match="changed during the run"):
            next(steps)
    assert len(part_bytes(out)) == 1
    with pytest.raises(RunError, match="has changed"):
        run_all(source, out)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    source = write(tmp_path / "in.parquet", texts(9))
    out = tmp_path / "out"
    with parts_of(4), planned(source, out, Task()) as plan:
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            list(run(Task(), plan.missing))
        assert os.listdir(Path(plan.missing[0].work)) == []
    assert os.listdir(out) == [MANIFEST]
