"""A corpus: rows are `explain` itself, any format goes in, any reader reads what comes out."""

import asyncio
import dataclasses
import gzip
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs the corpus extra")
pq = pytest.importorskip("pyarrow.parquet")


from attn_closed_form import BagClassifier, ScoreTable, Settings, explain, load_demo_model  # noqa: E402
from attn_closed_form.app.models.bag_network import Attention, BagNetwork  # noqa: E402
from attn_closed_form.app.models.layers import Layer  # noqa: E402
from attn_closed_form.app.run import batch as batches  # noqa: E402
from attn_closed_form.app.run import (  # noqa: E402
    cluster,
    inputs,
)
from attn_closed_form.app.run.plan import MANIFEST, planned  # noqa: E402
from attn_closed_form.app.run.runner import explain_part, run  # noqa: E402
from attn_closed_form.app.run.task import RunError, Task  # noqa: E402
from tests.app.run.corpora import part_bytes, parts_of, read, run_all, texts, write  # noqa: E402
from tests.profiles import mostly_slow  # noqa: E402
from tests.texts import six_heads  # noqa: E402


@pytest.fixture
def source(tmp_path):
    # Three row groups that do not line up with parts of four rows.
    return write(tmp_path / "in.parquet", texts(23), row_group_size=9)


def test_rows_are_explain_itself(source, tmp_path):
    task = Task(
        methods=("shapley", "alpha-mean"), settings=Settings(players="positions", absent="deleted")
    )
    assert run_all(source, tmp_path / "out", task).rows == 23
    table = read(tmp_path / "out").to_pylist()
    model = load_demo_model()
    assert [row["row"] for row in table] == [row["id"] for row in table] == list(range(23))
    for row, text in zip(table, texts(23), strict=True):
        expected = explain(
            model, text, ["shapley", "alpha-mean"], players="positions", absent="deleted"
        )
        first = expected["shapley"]
        assert row["labels"] == list(first.labels)
        assert [[(s["start"], s["end"]) for s in spans] for spans in row["spans"]] == [
            list(s) for s in first.spans
        ]
        assert row["shapley"] == first.scores.tolist()
        assert row["alpha-mean"] == expected["alpha-mean"].scores.tolist()
        assert (row["shapley_baseline"], row["shapley_error"]) == (first.baseline, first.error)
        assert row["alpha-mean_error"] is None
        assert (row["prediction"], row["unseen"], row["error"]) == (first.prediction, 0, None)
        assert row["output"] == expected.output == model.predict([text])[0]
        assert row["probability"] == expected.probabilities[expected.output] >= 0.5
        assert row["probability_positive"] == expected.probabilities["positive"]
        assert row["probability_negative"] == expected.probabilities["negative"]


def test_rows_do_not_depend_on_the_batch(source, tmp_path, monkeypatch):
    run_all(source, tmp_path / "together", part_rows=23)
    monkeypatch.setattr(batches, "BATCH_CHARS", 1)
    run_all(source, tmp_path / "alone", part_rows=23)
    assert part_bytes(tmp_path / "together") == part_bytes(tmp_path / "alone")


def test_words_have_the_spans_of_all_their_places(tmp_path):
    text = "A fine, fine film; fine!"
    run_all(write(tmp_path / "in.parquet", [None, text]), tmp_path / "out")
    row = read(tmp_path / "out").to_pylist()[1]
    places = [[text[s["start"] : s["end"]] for s in spans] for spans in row["spans"]]
    assert dict(zip(row["labels"], places, strict=True)) == {
        "a": ["A"], "fine": ["fine"] * 3, "film": ["film"], "!": ["!"]
    }  # fmt: skip


def test_bad_rows_have_a_reason_and_the_run_goes_on(tmp_path):
    values = ["a fine film", None, "", "  \n", "x" * 101, "dull", "fine " * 20]
    source = write(tmp_path / "in.parquet", values)
    last = run_all(source, tmp_path / "out", Task(max_chars=100))
    assert (last.rows, last.failed) == (7, 4)
    table = read(tmp_path / "out").to_pylist()
    assert [row["error"] is None for row in table] == [True, False, False, False, False, True, True]
    assert "null" in table[1]["error"]
    assert "at least one word" in table[2]["error"]
    assert "at most 100 characters, got 101" in table[4]["error"]
    assert table[1]["shapley"] is None and table[1]["spans"] is None and table[1]["labels"] is None
    numbers = write(tmp_path / "numbers.parquet", [1, 2])
    run_all(numbers, tmp_path / "numbers")
    assert all("got int" in row["error"] for row in read(tmp_path / "numbers").to_pylist())


def test_a_text_longer_than_the_model_counts_what_is_unseen(tmp_path):
    model = six_heads()
    model.save(tmp_path / "six.npz")
    weights = model.weights
    source = write(tmp_path / "in.parquet", ["fine " * (weights.T_max + 6)])
    run_all(source, tmp_path / "out", Task(model=str(tmp_path / "six.npz"), methods=("shapley",)))
    row = read(tmp_path / "out").to_pylist()[0]
    assert (row["unseen"], row["error"]) == (7, None)
    assert len(row["spans"][0]) == weights.T_max - 1


def test_a_folder_of_files_of_several_formats(tmp_path):
    (tmp_path / "in").mkdir()
    for k in range(2):
        write(tmp_path / "in" / f"{k}.parquet", texts(5, seed=k))
    (tmp_path / "in" / "2.jsonl").write_text(
        "".join(json.dumps({"text": t}) + "\n" for t in texts(5))
    )
    (tmp_path / "in" / "_notes.csv").write_text("not,a,table\n")
    run_all(tmp_path / "in", tmp_path / "out")
    found = read(tmp_path / "out").to_pydict()
    assert found["row"] == list(range(15))
    assert found["id"] == [*range(5), *range(5), *[None] * 5]
    assert found["error"] == [None] * 15


def as_csv(rows):
    return "".join(
        f'{r["id"]},"{r["text"]}"\n' for r in [{"id": "id", "text": "text"}, *rows]
    ).encode()


def as_tsv(rows):
    return "".join(
        f"{r['id']}\t{r['text']}\n" for r in [{"id": "id", "text": "text"}, *rows]
    ).encode()


def as_json(rows):
    return "".join(json.dumps(r) + "\n" for r in rows).encode()


@pytest.mark.parametrize(
    ("name", "make", "compressed"),
    mostly_slow(
        [
            ("a.csv", as_csv, False),
            ("a.jsonl", as_json, True),
            ("a.tsv", as_tsv, True),
            ("a.csv", as_csv, True),
            ("a.tsv", as_tsv, False),
            ("a.jsonl", as_json, False),
        ],
        3,
    ),
)
def test_other_formats_give_the_rows_of_parquet(tmp_path, monkeypatch, name, make, compressed):
    # Several batches, so that parts begin in the middle of one.
    monkeypatch.setattr(inputs, "COPIED_ROWS", 8)
    rows = [{"id": f"no. {i}", "text": text} for i, text in enumerate(texts(23))]
    data = make(rows)
    file = tmp_path / (name + ".gz" * compressed)
    file.write_bytes(gzip.compress(data) if compressed else data)
    run_all(file, tmp_path / "out", part_rows=5)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    run_all(tmp_path / "in.parquet", tmp_path / "expected", part_rows=5)
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "expected")
    assert sorted(os.listdir(tmp_path / "out")) == [MANIFEST, *part_bytes(tmp_path / "out")]


def test_columns_of_json_become_text(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "COPIED_ROWS", 2)
    values = [1, 2, 2.5, None, "x", [1]]
    lines = [
        json.dumps({"text": "fine", "mixed": value} | ({"n": i} if i > 3 else {}))
        for i, value in enumerate(values)
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    run_all(tmp_path / "in.jsonl", tmp_path / "out")
    found = read(tmp_path / "out").to_pydict()
    assert found["n"] == [None] * 4 + ["4", "5"]
    assert found["mixed"] == ["1", "2", "2.5", None, "x", "[1]"]


def test_own_columns_travel_along(tmp_path):
    table = {"label": ["x", "y"], "text": texts(2), "number": [0.5, None], "tags": [["a"], []]}
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    run_all(tmp_path / "in.parquet", tmp_path / "all")
    found = read(tmp_path / "all")
    assert found.column_names[:5] == ["row", "label", "number", "tags", "labels"]
    assert found["number"].to_pylist() == [0.5, None]
    assert found["tags"].to_pylist() == [["a"], []]
    run_all(tmp_path / "in.parquet", tmp_path / "some", Task(columns=("text", "label")))
    assert read(tmp_path / "some").column_names[:4] == ["row", "text", "label", "labels"]
    run_all(tmp_path / "in.parquet", tmp_path / "none", Task(columns=()))
    assert read(tmp_path / "none").column_names[:2] == ["row", "labels"]
    with pytest.raises(
        RunError, match="--columns: expected names among label, text, number, tags, got 'no'"
    ):
        run_all(tmp_path / "in.parquet", tmp_path / "wrong", Task(columns=("no",)))


def test_the_folder_is_a_dataset_for_every_reader(source, tmp_path):
    run_all(source, tmp_path / "out")
    out = str(tmp_path / "out")
    import pyarrow.dataset as dataset

    assert dataset.dataset(out).count_rows() == 23
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(out)
    joined = frame.merge(pandas.read_parquet(source), on="id")
    assert len(frame) == len(joined) == 23 and {"labels", "text"} <= set(joined)
    polars = pytest.importorskip("polars")
    places = read(out)["spans"].to_pylist()
    assert polars.scan_parquet(out).sort("row").collect()["spans"].to_list() == places
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql(f"select count(*), min(id), max(row) from '{out}/*.parquet'").fetchall() == [
        (23, 0, 22)
    ]
    assert [
        row for (row,) in duckdb.sql(f"select spans from '{out}/*.parquet' order by row").fetchall()
    ] == places


def test_large_parts_are_written_in_groups(source, tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "ROW_GROUP", 7)
    run_all(source, tmp_path / "out", part_rows=100)
    file = pq.ParquetFile(tmp_path / "out" / "part-000000.parquet")
    assert file.metadata.num_row_groups > 2 and file.metadata.num_rows == 23
    run_all(source, tmp_path / "expected", part_rows=4)
    assert read(tmp_path / "out").equals(read(tmp_path / "expected"))


def test_a_parquet_file_with_long_row_groups_is_copied(source, tmp_path, monkeypatch):
    """A row group is read from its beginning, so parts at the end of a long one would cost as much
    as all before.
    """
    run_all(source, tmp_path / "expected")
    with planned(source, tmp_path / "in place", Task()) as plan:
        assert {Path(part.source) for part in plan.missing} == {source}
    monkeypatch.setattr(inputs, "LONGEST_GROUP", 8)
    with planned(source, tmp_path / "copied", Task()) as plan:
        (copy,) = {part.source for part in plan.missing}
        assert Path(copy) != source and pq.read_table(copy).equals(pq.read_table(source))
    run_all(source, tmp_path / "out")
    assert read(tmp_path / "out").equals(read(tmp_path / "expected"))


def test_bags_by_their_paths(tmp_path):
    rng = np.random.default_rng(0)
    attention = Attention(
        w=rng.normal(size=(1, 3)), hidden=Layer(rng.normal(size=(3, 5)), activation="tanh")
    )
    network = BagNetwork(attention, rng.normal(size=(2, 5)), bias=[0.5, -0.5])
    model = BagClassifier(network, ("normal", "tumor"))
    (tmp_path / "slides").mkdir()
    for k, n in enumerate((4, 6)):
        np.save(tmp_path / "slides" / f"{k}.npy", rng.normal(size=(n, 5)))
    (tmp_path / "slides" / "2.npy").write_bytes(b"damaged")
    task = Task(column="path", model=model)
    assert run_all(tmp_path / "slides", tmp_path / "out", task).failed == 1
    rows = read(tmp_path / "out").to_pylist()
    for k in range(2):
        expected = model.explain(tmp_path / "slides" / f"{k}.npy", "shapley")
        assert rows[k]["shapley"] == expected["shapley"].scores.tolist()
        assert (rows[k]["spans"], rows[k]["output"]) == (None, expected.output)
    assert "2.npy" in rows[2]["error"]
    table = tmp_path / "slides" / "list.csv"  # paths start from where the table lies
    table.write_text("slide,patient\n0.npy,p0\n1.npy,p1\n")
    run_all(table, tmp_path / "listed", Task(column="slide", model=task.model))
    listed = read(tmp_path / "listed").to_pylist()
    assert [row["patient"] for row in listed] == ["p0", "p1"]
    assert [row["shapley"] for row in listed] == [row["shapley"] for row in rows[:2]]


def test_scores_in_a_column_of_structs(tmp_path):
    values = [{"s": [0.0, 1.0], "v": [1.0, -1.0]}, {"s": [0.0], "v": [2.0]}]
    pq.write_table(pa.table({"game": values}), tmp_path / "in.parquet")
    run_all(tmp_path / "in.parquet", tmp_path / "out", Task(column="game", model="scores"))
    rows = read(tmp_path / "out").to_pylist()
    assert (
        rows[0]["shapley"] == ScoreTable().explain(values[0], "shapley")["shapley"].scores.tolist()
    )
    assert rows[1]["prediction"] == 2.0


@pytest.mark.slow
def test_one_worker_and_two_write_the_same_bytes(source, tmp_path):
    run_all(source, tmp_path / "one")
    run_all(source, tmp_path / "two", workers=2)
    assert part_bytes(tmp_path / "one") == part_bytes(tmp_path / "two")
    assert len(part_bytes(tmp_path / "one")) == 6


def test_the_bytes_do_not_depend_on_the_number_of_threads(tmp_path):
    """Products of large matrices round differently with one thread and with two."""
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="needs the corpus extra")
    rng = np.random.default_rng(0)
    attention = Attention(
        w=rng.normal(size=(1, 64)), hidden=Layer(rng.normal(size=(64, 512)) / 20, activation="tanh")
    )
    model = BagClassifier(
        BagNetwork(attention, rng.normal(size=(2, 512)), bias=[0.0, 0.0]), ("normal", "tumor")
    )
    (tmp_path / "slides").mkdir()
    np.save(tmp_path / "slides" / "a.npy", rng.normal(size=(3000, 512)).astype(np.float32))
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            run_all(tmp_path / "slides", tmp_path / str(threads), Task(column="path", model=model))
    assert part_bytes(tmp_path / "1") == part_bytes(tmp_path / "2")


def test_an_interrupted_run_goes_on(source, tmp_path):
    run_all(source, tmp_path / "whole")
    task = Task()
    with parts_of(4), planned(source, tmp_path / "out", task) as plan:
        for _ in zip(range(2), run(task, plan.missing), strict=False):
            pass
    before = {part: part.stat().st_mtime_ns for part in (tmp_path / "out").glob("part-*")}
    assert 2 <= len(before) < 6
    with planned(source, tmp_path / "out", task) as plan:  # the size of the parts is remembered
        assert (len(plan.missing) + len(plan.done), len(plan.done)) == (6, len(before))
        assert (plan.rows, plan.rows_done) == (23, 4 * len(before))
        list(run(task, plan.missing))
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "whole")
    assert all(part.stat().st_mtime_ns == then for part, then in before.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: {"source": folder / "none.parquet"}, "no such file"),
        (
            lambda folder: {"task": Task(column="review")},
            "expected a column 'review', got 'id', 'text'; use --column",
        ),
        (lambda folder: {"source": folder / "text.parquet"}, "not a readable Parquet file"),
        (lambda folder: {"source": folder / "empty.csv"}, "at least one row"),
        (lambda folder: {"source": folder / "nothing"}, "expected tables"),
        (lambda folder: {"folder": folder}, "expected a new or empty folder"),
        (
            lambda folder: {"folder": folder / "text.parquet"},
            "expected a folder for the results, got a file",
        ),
        (
            lambda folder: {"source": folder / "clash.csv"},
            "column 'error': the results have a column of this name",
        ),
    ],
)
def test_what_cannot_start_says_why_and_leaves_nothing(source, tmp_path, change, message):
    (tmp_path / "text.parquet").write_text("not parquet")
    (tmp_path / "empty.csv").write_text("id,text\n")
    (tmp_path / "clash.csv").write_text("error,text\n1,fine\n")
    (tmp_path / "nothing").mkdir()
    options = {"source": source, "folder": tmp_path / "out", "task": Task()} | change(tmp_path)
    with (
        pytest.raises((ValueError, FileNotFoundError), match=message),
        planned(options["source"], options["folder"], options["task"]),
    ):
        pass
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [{"methods": ("magic",)}, {"max_chars": 0}])
def test_bad_settings(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        Task(**option)


def test_a_worker_of_another_version_refuses(source, tmp_path):
    with (
        planned(source, tmp_path / "out", Task()) as plan,
        pytest.raises(RunError, match=r"was started by 9\.9"),
    ):
        explain_part(Task(version="9.9"), plan.missing[0])


@pytest.mark.parametrize("system", ["with locks of folders", "without"])
def test_a_folder_belongs_to_one_run_at_a_time(source, tmp_path, monkeypatch, system):
    if system == "without":
        # As on Windows, which also removes the file by itself.
        monkeypatch.setitem(sys.modules, "fcntl", None)
    with planned(source, tmp_path / "out", Task(), workers=1) as plan:
        assert len(plan.missing) >= 1
        with (
            pytest.raises(RunError, match="out: another run is using this folder"),
            planned(source, tmp_path / "out", Task()),
        ):
            pass
        assert list((tmp_path / "out").iterdir())
    for lock in tmp_path.glob(".out.lock"):
        lock.unlink()
    run_all(source, tmp_path / "out")


def test_a_manifest_with_a_damaged_footer_is_named(source, tmp_path):
    run_all(source, tmp_path / "out")
    manifest = tmp_path / "out" / MANIFEST
    content = manifest.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little")
    manifest.write_bytes(content[: -8 - footer] + b"\xff" * footer + content[-8:])
    with pytest.raises(
        RunError, match=f"{MANIFEST}: not the manifest of a run; use --restart to start again"
    ):
        run_all(source, tmp_path / "out")


def test_a_table_with_another_time_is_the_same_table(source, tmp_path):
    run_all(source, tmp_path / "out")
    before = part_bytes(tmp_path / "out")
    os.utime(source, (1e9, 1e9))
    run_all(source, tmp_path / "out")
    assert part_bytes(tmp_path / "out") == before


def test_errors_of_workers_are_one_line_with_the_file():
    assert (
        cluster.one_line(FileNotFoundError(2, "No such file or directory", "a.csv"))
        == "a.csv: No such file or directory"
    )
    assert cluster.one_line(OSError(28, "No space left on device")) == "No space left on device"
    assert (
        cluster.one_line(ValueError("first\nsecond")) == "first"
        and cluster.one_line(KeyError()) == "KeyError"
    )


def test_a_missing_package_is_named(source, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with pytest.raises(ImportError, match=r"needs threadpoolctl: pip install '\.\[corpus\]'"):
        run_all(source, tmp_path / "out")


def test_a_worker_that_does_not_close_keeps_no_other_from_closing():
    closed = []

    async def close(timeout):
        closed.append(timeout)
        if len(closed) == 1:
            raise TimeoutError

    nanny = SimpleNamespace(close=close)
    asyncio.run(cluster.end_workers(SimpleNamespace(workers={0: nanny, 1: nanny})))
    assert len(closed) == 2


def test_a_run_is_not_resumed_with_another_model_in_the_same_file(source, tmp_path):
    path = tmp_path / "model.npz"
    model = load_demo_model()
    model.save(path)
    task = Task(model=str(path))
    run_all(source, tmp_path / "out", task)
    before = part_bytes(tmp_path / "out")
    run_all(source, tmp_path / "out", task)
    dataclasses.replace(model, temperature=2 * model.temperature).save(path)
    with pytest.raises(RunError, match="the model"):
        run_all(source, tmp_path / "out", task)
    assert part_bytes(tmp_path / "out") == before
