"""A real Dask scheduler and real workers on loopback, which get killed."""

import json
import os
import subprocess
import sys
import threading

import pytest

pytest.importorskip("pyarrow", reason="needs the corpus extra")
pytest.importorskip("distributed", reason="needs the corpus extra")

from attn_closed_form.app.cli.main import main
from attn_closed_form.app.run.cluster import DaskClient
from attn_closed_form.app.run.plan import planned
from attn_closed_form.app.run.runner import Progress, run
from attn_closed_form.app.run.task import RunError, Task
from tests.app.run.corpora import ROOT, part_bytes, parts_of, read, run_all, texts, wait_for, write
from tests.app.run.models import Killer
from tests.patience import PATIENCE

pytestmark = pytest.mark.cluster


class Processes:
    """A scheduler, and as many workers as one likes."""

    def __init__(self, folder):
        self.info = folder / "scheduler.json"
        self.log = (folder / "dask.log").open("wb")
        # A part is blamed for the first death, so that the tests need few workers.
        settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
        self.environment = os.environ | settings
        self.scheduler = self.start(
            "dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            str(self.info),
        )
        self.workers = []
        wait_for(self.info.exists)
        self.address = json.loads(wait_for(lambda: self.info.read_text()))["address"]

    def start(self, name, *arguments):
        command = [sys.executable, "-m", "distributed.cli." + name, *arguments]
        return subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdout=self.log, stderr=self.log
        )

    def add_worker(self, nanny=False):
        options = [
            "--nanny" if nanny else "--no-nanny",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--death-timeout",
            str(PATIENCE),
        ]
        options += ["--local-directory", str(self.info.parent)]
        self.workers.append(self.start("dask_worker", "--scheduler-file", str(self.info), *options))

    def end(self):
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()
        self.log.close()


@pytest.fixture
def cluster(tmp_path):
    found = Processes(tmp_path)
    try:
        yield found
    finally:
        found.end()


def when(condition, action):
    thread = threading.Thread(target=lambda: (wait_for(condition), action()))
    thread.start()
    return thread


def parts_in(folder, n):
    return lambda: len(list(folder.glob("part-*"))) >= n


def test_a_cluster_grows_loses_a_worker_and_gives_the_same_bits(cluster, tmp_path):
    out = tmp_path / "out"
    source = write(tmp_path / "in.parquet", texts(150), row_group_size=100)
    run_all(source, tmp_path / "one", part_rows=3)
    notes = []

    def grow():  # workers come later, as in an adaptive cluster
        cluster.add_worker()
        cluster.add_worker()

    threads = [when(lambda: notes, grow), when(parts_in(out, 6), lambda: cluster.workers[0].kill())]
    with parts_of(3), planned(source, out, Task()) as plan:
        for last in run(Task(), plan.missing, cluster=cluster.address):
            notes.append(last.note)
    for thread in threads:
        thread.join()
    assert "no workers yet; waiting for them" in notes[0]
    assert cluster.workers[0].wait(timeout=PATIENCE) != 0
    assert (last.rows, last.failed) == (150, 0)
    assert part_bytes(out) == part_bytes(tmp_path / "one")
    assert read(out)["row"].to_pylist() == list(range(150))


def test_a_lost_scheduler_is_one_line_and_the_run_resumes(cluster, tmp_path, capsys):
    out = tmp_path / "out"
    source = write(tmp_path / "in.parquet", texts(150))
    cluster.add_worker()
    killer = when(parts_in(out, 3), cluster.scheduler.kill)
    with parts_of(3):
        assert main(["corpus", "run", str(source), str(out), "--cluster", cluster.address]) == 1
    killer.join()
    err = capsys.readouterr().err
    assert (
        f"scheduler {cluster.address}: lost during the run" in err
        and "repeat the command to resume" in err
    )
    assert "Traceback" not in err
    done = len(part_bytes(out))
    assert 3 <= done < 50
    cluster.workers[0].kill()
    run_all(source, out, part_rows=3)
    assert read(out)["row"].to_pylist() == list(range(150))


def test_of_a_part_that_kills_every_worker_only_the_deadly_row_has_an_error(cluster, tmp_path):
    (tmp_path / "killed").mkdir()
    source = write(tmp_path / "in.parquet", ["fine", "poison", "dull", "film"])
    task = Task(model=Killer("poison", str(tmp_path / "killed")))
    for _ in range(2):
        cluster.add_worker(nanny=True)
    last = run_all(source, tmp_path / "out", task, part_rows=2, cluster=cluster.address)
    assert (last.rows, last.failed) == (4, 1)
    rows = read(tmp_path / "out").to_pylist()
    assert [row["error"] is None for row in rows] == [True, False, True, True]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:9", "--cluster tcp://127.0.0.1:9: expected the address"),
        ("nonsense", "such as tcp://10.0.0.5:8786"),
    ],
)
def test_no_scheduler_is_one_line(tmp_path, capsys, address, message):
    source = write(tmp_path / "in.parquet", texts(3))
    assert main(["corpus", "run", str(source), str(tmp_path / "out"), "--cluster", address]) == 1
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


class Future:
    """A future with a status, whose result is a value or an error, and that knows no time limit."""

    def __init__(self, status, outcome):
        self.status = status
        self.outcome = outcome

    def result(self):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_results_are_awaited_without_a_time_limit_and_failures_are_told_apart():
    dask = DaskClient(None, "tcp://10.0.0.5:8786")
    broken = ConnectionResetError("reset by peer")
    assert dask.result(Future("finished", Progress(3, 0))) == Progress(3, 0)
    with pytest.raises(RunError, match=r"scheduler tcp://10\.0\.0\.5:8786: lost during the run"):
        dask.result(Future("finished", broken))
    with pytest.raises(RunError, match="a worker failed: reset by peer"):
        dask.result(Future("error", broken))
