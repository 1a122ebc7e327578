"""A real Dask scheduler and real workers on loopback, which get killed."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

pytest.importorskip("pyarrow", reason="needs the corpus extra")
pytest.importorskip("distributed", reason="needs the corpus extra")

from attn_closed_form.cli.main import main
from attn_closed_form.run import cluster as dask_cluster
from attn_closed_form.run.cluster import Cluster
from attn_closed_form.run.plan import planned
from attn_closed_form.run.processes import THREADS
from attn_closed_form.run.run import run
from attn_closed_form.run.task import CorpusError, Task
from tests.run.corpora import ROOT, part_bytes, read, run_all, texts, wait_for, write
from tests.run.models import Killer


class Processes:
    """A scheduler, and as many workers as one likes."""

    def __init__(self, folder):
        self.info = folder / "scheduler.json"
        self.log = (folder / "dask.log").open("wb")
        self.environment = os.environ | dict.fromkeys(THREADS, "1")
        self.scheduler = self.start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.info)
        )
        self.workers = []
        wait_for(self.info.exists)
        self.address = json.loads(wait_for(lambda: self.info.read_text()))["address"]

    def start(self, name, *arguments):
        command = [sys.executable, "-m", "distributed.cli." + name, *arguments]
        return subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=self.log, stderr=self.log)

    def add_worker(self):
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--death-timeout", "20"]
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
    cluster_of_none = Cluster(cluster.address)  # workers come later, as in an adaptive cluster

    def grow():
        cluster.add_worker()
        cluster.add_worker()

    threads = [when(lambda: notes, grow), when(parts_in(out, 6), lambda: cluster.workers[0].kill())]
    with planned(source, out, Task(), 3) as plan:
        for last in run(Task(), plan.missing, cluster_of_none):
            notes.append(last.note)
    for thread in threads:
        thread.join()
    assert "no workers yet; waiting for them" in notes[0]
    assert cluster.workers[0].wait(timeout=10) != 0
    assert (last.rows, last.failed) == (150, 0)
    assert part_bytes(out) == part_bytes(tmp_path / "one")
    assert read(out)["row"].to_pylist() == list(range(150))


def test_a_lost_scheduler_is_one_line_and_the_run_resumes(cluster, tmp_path, capsys):
    out = tmp_path / "out"
    source = write(tmp_path / "in.parquet", texts(150))
    cluster.add_worker()
    killer = when(parts_in(out, 3), cluster.scheduler.kill)
    assert main(["corpus", "run", str(source), str(out), "--scheduler", cluster.address, "--part-rows", "3"]) == 1
    killer.join()
    err = capsys.readouterr().err
    assert f"scheduler {cluster.address}: lost on the way" in err and "the same command goes on" in err
    assert "Traceback" not in err
    done = len(part_bytes(out))
    assert 3 <= done < 50
    cluster.workers[0].kill()
    run_all(source, out, part_rows=3)
    assert read(out)["row"].to_pylist() == list(range(150))


def test_a_part_that_kills_every_worker_becomes_rows_with_an_error(cluster, tmp_path):
    (tmp_path / "killed").mkdir()
    source = write(tmp_path / "in.parquet", ["fine", "poison", "dull", "film"])
    task = Task(model=Killer("poison", str(tmp_path / "killed")))
    for _ in range(5):
        cluster.add_worker()
    last = run_all(source, tmp_path / "out", task, part_rows=2, mapper=Cluster(cluster.address))
    assert (last.rows, last.failed) == (4, 2)
    rows = read(tmp_path / "out").to_pylist()
    assert [row["error"] is None for row in rows] == [False, False, True, True]
    assert "workers of the cluster were lost" in rows[1]["error"]


def test_versions_are_compared_before_anything_starts(cluster, monkeypatch):
    cluster.add_worker()
    monkeypatch.setattr(dask_cluster, "__version__", "9.9")
    with dask_cluster._client(cluster.address, 10.0) as client:
        client.wait_for_workers(1, timeout=60)
        with pytest.raises(CorpusError, match=r"has attn-closed-form .*, this client 9\.9"):
            dask_cluster._check_versions(client, cluster.address)
        monkeypatch.undo()
        assert dask_cluster._check_versions(client, cluster.address) == ""
        monkeypatch.setattr(dask_cluster.platform, "python_version", lambda: "2.7")
        assert "(here 2.7)" in dask_cluster._check_versions(client, cluster.address)


@pytest.mark.parametrize(
    ("address", "message"),
    [("tcp://127.0.0.1:9", "scheduler tcp://127.0.0.1:9: no answer"), ("nonsense", "expected an address such as")],
)
def test_no_scheduler_is_one_line(tmp_path, capsys, address, message):
    source = write(tmp_path / "in.parquet", texts(3))
    assert main(["corpus", "run", str(source), str(tmp_path / "out"), "--scheduler", address]) == 1
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


class BrokenFuture:
    """A future whose result cannot be fetched, for a client that has not noticed anything yet."""

    def __init__(self, status):
        self.status = status

    def cancelled(self):
        return False

    def result(self, timeout):
        raise ConnectionResetError("reset by peer")


class CalmClient:
    status = "running"


def test_a_connection_that_breaks_before_the_client_notices_is_a_lost_scheduler():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"tcp://127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(CorpusError, match="lost on the way"):
        dask_cluster._result(CalmClient(), address, BrokenFuture("finished"))
    with pytest.raises(CorpusError, match=r"a worker of .* failed: ConnectionResetError: reset by peer"):
        dask_cluster._result(CalmClient(), address, BrokenFuture("error"))


def test_a_broken_connection_to_a_scheduler_that_answers_is_the_worker_s(monkeypatch):
    monkeypatch.setattr(dask_cluster, "GROWTH_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"tcp://127.0.0.1:{there.getsockname()[1]}"
        with pytest.raises(CorpusError, match=r"a worker of .* failed"):
            dask_cluster._result(CalmClient(), address, BrokenFuture("finished"))
