"""A corpus in Parquet: the same answers from any executor, bad rows, interruptions, a cluster that loses a worker."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs the corpus extra")
pq = pytest.importorskip("pyarrow.parquet")

from attn_closed_form import Settings, explain, load_demo_model  # noqa: E402
from attn_closed_form.cli.main import main  # noqa: E402
from attn_closed_form.corpus import run as corpus  # noqa: E402
from attn_closed_form.corpus.run import CorpusError, Task  # noqa: E402
from attn_closed_form.corpus.summary import summarize  # noqa: E402

WORDS = ["the", "film", "was", "a", "slow", "but", "wonderful", "story", "with", "bad", "acting", "so", "dull", "fine"]


def texts(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(3, 30))) for _ in range(n)]


def write(path, values, column="text", **options):
    pq.write_table(pa.table({"id": pa.array(range(len(values))), column: pa.array(values)}), path, **options)
    return path


def read(folder):
    return pa.concat_tables([pq.read_table(part) for part in sorted(Path(folder).glob("part-*.parquet"))])


def run_all(source, folder, settings=None, part_rows=4, executor=None):
    missing, _ = corpus.plan(source, folder, settings or Task(), part_rows)
    return list(corpus.run(missing, executor))


def part_bytes(folder):
    return {part.name: part.read_bytes() for part in sorted(Path(folder).glob("part-*.parquet"))}


@pytest.fixture
def source(tmp_path):
    # Three row groups that do not line up with parts of four rows.
    return write(tmp_path / "in.parquet", texts(23), row_group_size=9)


def test_rows_are_explain_itself(source, tmp_path):
    settings = Task(methods=("shapley", "alpha-avg"), settings=Settings(players="positions", absent="deleted"))
    assert sum(rows for rows, _ in run_all(source, tmp_path / "out", settings)) == 23
    table = read(tmp_path / "out").to_pylist()
    model = load_demo_model()
    assert [row["row"] for row in table] == list(range(23))
    for row, text in zip(table, texts(23), strict=True):
        expected = explain(model, text, ["shapley", "alpha-avg"], players="positions", absent="deleted")
        first = expected["shapley"]
        assert row["labels"] == list(first.labels)
        assert [[(s["start"], s["end"]) for s in spans] for spans in row["spans"]] == [list(s) for s in first.spans]
        assert row["shapley"] == first.scores.tolist()
        assert row["alpha-avg"] == expected["alpha-avg"].scores.tolist()
        assert (row["shapley_base"], row["shapley_error"]) == (first.base_value, first.error)
        assert row["alpha-avg_error"] is None
        assert (row["prediction"], row["unseen"], row["error"]) == (first.prediction, 0, None)


def test_bad_rows_have_a_reason_and_the_run_goes_on(tmp_path):
    values = ["a fine film", None, "", "  \n", "x" * 101, "dull", "fine " * 20]
    source = write(tmp_path / "in.parquet", values)
    counts = run_all(source, tmp_path / "out", Task(max_chars=100))
    assert [sum(c) for c in zip(*counts, strict=True)] == [7, 4]
    table = read(tmp_path / "out").to_pylist()
    assert [row["error"] is None for row in table] == [True, False, False, False, False, True, True]
    assert "null" in table[1]["error"]
    assert "at least one word" in table[2]["error"]
    assert "at most 100 characters, got 101" in table[4]["error"]
    assert table[1]["shapley"] is None
    numbers = write(tmp_path / "numbers.parquet", [1, 2])
    run_all(numbers, tmp_path / "numbers")
    assert all("got int" in row["error"] for row in read(tmp_path / "numbers").to_pylist())


def test_a_text_longer_than_the_model_counts_what_is_unseen(tmp_path):
    weights = load_demo_model().weights
    source = write(tmp_path / "in.parquet", ["fine " * (weights.T_max + 6)])
    run_all(source, tmp_path / "out")
    row = read(tmp_path / "out").to_pylist()[0]
    assert (row["unseen"], row["error"]) == (7, None)
    assert len(row["spans"][0]) == weights.T_max - 1


def test_a_folder_of_files(tmp_path):
    (tmp_path / "in").mkdir()
    for k in range(3):
        write(tmp_path / "in" / f"{k}.parquet", texts(5, seed=k))
    run_all(tmp_path / "in", tmp_path / "out")
    assert read(tmp_path / "out")["row"].to_pylist() == list(range(15))


def test_processes_give_the_same_bits(source, tmp_path):
    run_all(source, tmp_path / "one")
    with corpus.local_executor(4) as executor:
        run_all(source, tmp_path / "four", executor=executor)
    assert part_bytes(tmp_path / "one") == part_bytes(tmp_path / "four")
    assert len(part_bytes(tmp_path / "one")) == 6


def test_an_interrupted_run_goes_on(source, tmp_path, monkeypatch):
    run_all(source, tmp_path / "whole")
    missing, _ = corpus.plan(source, tmp_path / "out", Task(), 4)
    for _ in zip(range(2), corpus.run(missing), strict=False):
        pass
    before = {part: part.stat().st_mtime_ns for part in (tmp_path / "out").glob("part-*")}
    assert 2 <= len(before) < 6
    missing, done = corpus.plan(source, tmp_path / "out", Task(), 4)
    assert len(missing) + len(done) == 6
    assert len(done) == len(before)
    list(corpus.run(missing))
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "whole")
    assert all(part.stat().st_mtime_ns == then for part, then in before.items())


def test_a_failed_write_leaves_nothing(source, tmp_path, monkeypatch):
    missing, _ = corpus.plan(source, tmp_path / "out", Task(), 4)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        corpus.explain_part(missing[0])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [corpus.MANIFEST]


def test_a_killed_run_leaves_no_half_part(tmp_path):
    source = write(tmp_path / "in.parquet", texts(400), row_group_size=100)
    command = [sys.executable, "-m", "attn_closed_form", "corpus", str(source), str(tmp_path / "out")]
    process = subprocess.Popen([*command, "--workers", "1", "--part-rows", "5"], cwd=Path(__file__).parents[2])
    wait_for(lambda: len(list((tmp_path / "out").glob("part-*"))) >= 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for part in (tmp_path / "out").glob("part-*"):
        assert pq.read_table(part).num_rows == 5
    missing, done = corpus.plan(source, tmp_path / "out", Task(), 5)
    assert done
    assert missing
    list(corpus.run(missing))
    assert read(tmp_path / "out")["row"].to_pylist() == list(range(400))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: {"source": folder / "none.parquet"}, "no such file"),
        (lambda folder: {"task": Task(text_column="review")}, "expected a column 'review', got id, text"),
        (lambda folder: {"source": folder / "text.parquet"}, "not a readable Parquet file"),
        (lambda folder: {"folder": folder}, "expected a new or empty folder"),
        (lambda folder: {"part_rows": 0}, "part_rows"),
    ],
)
def test_what_cannot_start_says_why(source, tmp_path, change, message):
    (tmp_path / "text.parquet").write_text("not parquet")
    options = {"source": source, "folder": tmp_path / "out", "task": Task(), "part_rows": 4}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        corpus.plan(**(options | change(tmp_path)))


def test_results_of_another_run_are_not_mixed(source, tmp_path):
    run_all(source, tmp_path / "out")
    with pytest.raises(CorpusError, match="different task"):
        corpus.plan(source, tmp_path / "out", Task(settings=Settings(absent="deleted")), 4)
    with pytest.raises(CorpusError, match="different part_rows"):
        corpus.plan(source, tmp_path / "out", Task(), 5)
    write(source, texts(22))
    with pytest.raises(CorpusError, match="different files"):
        corpus.plan(source, tmp_path / "out", Task(), 4)


@pytest.mark.parametrize("option", [{"methods": ("magic",)}, {"max_chars": 0}])
def test_bad_settings(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        Task(**option)


def test_command_line_and_summary(tmp_path, capsys):
    source = write(tmp_path / "in.parquet", [*texts(20), None], column="review")
    out = str(tmp_path / "out")
    assert main(["corpus", str(source), out, "--text-column", "review", "--workers", "1", "--part-rows", "7"]) == 0
    assert "21 documents, 21 now" in (printed := capsys.readouterr().out)
    assert "1 with an error" in printed
    assert main(["corpus", str(source), out, "--text-column", "review", "--workers", "1", "--part-rows", "7"]) == 0
    assert "21 documents, 0 now" in capsys.readouterr().out
    figure = tmp_path / "words.png"
    assert main(["corpus", "summary", out, "--json", "--top", "5", "--plot", str(figure)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["documents"], found["failed"], len(found["words"])) == (20, 1, 5)
    assert figure.stat().st_size > 1000
    assert main(["corpus", "summary", out]) == 0
    assert found["words"][0]["word"] in capsys.readouterr().out
    assert main(["corpus", "summary", str(tmp_path / "nothing")]) == 1
    assert "expected the parts" in capsys.readouterr().err
    assert main(["corpus", str(tmp_path / "nothing"), out]) == 1


@pytest.mark.parametrize("players", ["words", "positions"])
def test_summary_adds_up(tmp_path, players):
    source = write(tmp_path / "in.parquet", texts(30))
    run_all(source, tmp_path / "out", Task(settings=Settings(players=players)))
    summary = summarize(tmp_path / "out")
    table = read(tmp_path / "out").to_pylist()
    total, documents = {}, {}
    for row in table:
        side = 0 if row["prediction"] > 0 else 1
        for word in set(row["labels"]):
            documents.setdefault(word, [0, 0])[side] += 1
        for word, score in zip(row["labels"], row["shapley"], strict=True):
            total.setdefault(word, [0.0, 0.0])[side] += score
    assert summary.words == tuple(total)
    assert np.allclose(summary.sums, list(total.values()), rtol=1e-12, atol=1e-12)
    assert summary.counts.tolist() == [documents[word] for word in total]
    by_mean = summary.top(3, by="mean", least_documents=5)
    assert all(word.documents >= 5 for word in by_mean)
    assert [abs(w.mean) for w in by_mean] == sorted((abs(w.mean) for w in by_mean), reverse=True)
    with pytest.raises(ValueError, match="by"):
        summary.top(by="x")
    with pytest.raises(CorpusError, match="expected a method among shapley"):
        summarize(tmp_path / "out", "lime")


# --- a cluster -----------------------------------------------------------------------------------------------------


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path):
    """A real scheduler and two real workers, as processes on loopback."""
    pytest.importorskip("distributed", reason="needs the corpus extra")
    info = tmp_path / "scheduler.json"
    environment = os.environ | dict.fromkeys(corpus.THREADS, "1")
    root = Path(__file__).parents[2]
    logs = (tmp_path / "dask.log").open("wb")

    def start(*arguments):
        command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
        return subprocess.Popen(command, cwd=root, env=environment, stdout=logs, stderr=logs)

    scheduler = start(
        "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(info)
    )
    processes = [scheduler]
    try:
        wait_for(info.exists)
        workers = [
            start("dask_worker", "--scheduler-file", str(info), "--no-nanny", "--nthreads", "1", "--no-dashboard")
            for _ in range(2)
        ]
        processes += workers
        yield json.loads(info.read_text())["address"], workers
    finally:
        for process in processes:
            process.kill()
            process.wait()
        logs.close()


def test_a_cluster_gives_the_same_bits_and_survives_a_lost_worker(cluster, tmp_path):
    address, workers = cluster
    source = write(tmp_path / "in.parquet", texts(240), row_group_size=100)
    run_all(source, tmp_path / "one", part_rows=3)
    missing, _ = corpus.plan(source, tmp_path / "out", Task(), 3)

    def kill_one_when_busy():
        wait_for(lambda: len(list((tmp_path / "out").glob("part-*"))) >= 8)
        workers[0].kill()

    killer = threading.Thread(target=kill_one_when_busy)
    killer.start()
    with corpus.dask_executor(address) as executor:
        finished = sum(rows for rows, _ in corpus.run(missing, executor))
    killer.join()
    assert workers[0].wait(timeout=10) != 0
    assert finished == 240
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "one")
    assert read(tmp_path / "out")["row"].to_pylist() == list(range(240))


def test_no_scheduler_is_a_clear_error(source, tmp_path, capsys):
    pytest.importorskip("distributed")
    with (
        pytest.raises(CorpusError, match=r"scheduler tcp://127.0.0.1:9: no answer"),
        corpus.dask_executor("tcp://127.0.0.1:9", timeout=1.0),
    ):
        pass
