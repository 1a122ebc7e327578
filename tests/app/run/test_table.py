"""Results as tables that people open: every format, both forms, and `explain_table`."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs the corpus extra")

import pyarrow.parquet as pq

from attn_closed_form import explain, explain_table, load_demo_model
from attn_closed_form.app.cli.main import main
from attn_closed_form.app.run import workbook
from attn_closed_form.app.run.task import RunError
from tests.app.run.corpora import ROOT, write

TEXTS = ["A wonderful film, wonderful.", None, "=Dull; dull\x07 «été»"]


def test_the_long_form_has_a_row_per_word_and_one_per_error():
    rows = explain_table(load_demo_model(), {"id": [7, 8, 9], "text": TEXTS}).to_pylist()
    expected = [
        explain(load_demo_model(), text, "shapley")["shapley"] for text in (TEXTS[0], TEXTS[2])
    ]
    first = [row for row in rows if row["id"] == 7]
    assert [row["word"] for row in first] == list(expected[0].labels) == ["a", "wonderful", "film"]
    assert [row["shapley"] for row in first] == expected[0].scores.tolist()
    assert [row["position"] for row in first] == [0, 1, 2]
    assert [(row["start"], row["end"], row["occurrences"]) for row in first] == [
        (0, 1, 1),
        (2, 11, 2),
        (12, 16, 1),
    ]
    assert {(row["output"], row["prediction"]) for row in first} == {
        ("positive", expected[0].prediction)
    }
    (failed,) = [row for row in rows if row["id"] == 8]
    assert failed["word"] is None and failed["shapley"] is None and "null" in failed["error"]
    last = [row for row in rows if row["id"] == 9]
    assert [row["shapley"] for row in last] == expected[1].scores.tolist()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_has_a_mark_the_separator_and_no_formula(tmp_path, separator):
    data = {"note": ["=1+1", "x", None], "text": TEXTS}
    explain_table(None, data, tmp_path / "a.csv", separator=separator)
    raw = (tmp_path / "a.csv").read_bytes()
    assert raw.startswith(b"\xef\xbb\xbfrow" + separator.encode())
    with (tmp_path / "a.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter=separator))
    back = explain_table(None, data)
    assert [row["note"] for row in rows[:3]] == ["'=1+1"] * 3
    scores = [float(row["shapley"]) for row in rows if row["shapley"]]
    assert scores == [score for score in back["shapley"].to_pylist() if score is not None]


def test_xlsx_is_read_back_and_holds_no_formula(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    monkeypatch.setattr(workbook, "SHEET_ROWS", 3)
    explain_table(None, {"note": ["=1+1", "b\x07", None], "text": TEXTS}, tmp_path / "a.xlsx")
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    assert all(cell.data_type != "f" for sheet in book for row in sheet.iter_rows() for cell in row)
    scores = [sheet for sheet in book if sheet.title.startswith("explanations")]
    cells = [[[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in scores]
    assert all(sheet[0] == cells[0][0] and len(sheet) <= 3 for sheet in cells)
    numbered = [f"explanations {number}" for number in range(1, len(cells) + 1)]
    assert book.sheetnames == ["summary", "texts", "texts 2", *numbered]
    rows = [dict(zip(sheet[0], row, strict=True)) for sheet in cells for row in sheet[1:]]
    expected = explain_table(None, {"note": ["=1+1", "b\ufffd", None], "text": TEXTS}).to_pylist()
    assert [row["note"] for row in rows] == [row["note"] for row in expected]
    ours, theirs = ([row["shapley"] or 0.0 for row in table] for table in (rows, expected))
    assert np.allclose(ours, theirs, rtol=1e-14, atol=0)


def test_a_workbook_is_made_to_be_read(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    explain_table(None, TEXTS, tmp_path / "a.xlsx", methods=["shapley", "alpha-mean"])
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    for sheet in book:
        assert sheet.freeze_panes == "A2" and all(cell.font.bold for cell in sheet[1])
        assert sheet.auto_filter.ref == sheet.dimensions
    inputs = list(book["texts"].iter_rows(values_only=True))
    assert [row[inputs[0].index("text")] for row in inputs[1:]] == [
        text and text.replace("\x07", "\ufffd") for text in TEXTS
    ]
    formats = {
        name.value: cell.number_format
        for name, cell in zip(book["explanations 1"][1], book["explanations 1"][2], strict=True)
    }
    assert formats["shapley"] == "+0.0%;-0.0%;0.0%" and formats["probability_positive"] == "0.0%"
    assert formats["alpha-mean"] == "+0.0000;-0.0000;0"  # it is on the logit scale
    words = book["summary"]
    written = {row[1].value: row[4].value for row in words.iter_rows(min_row=2)}
    results = explain_table(None, TEXTS, form="wide").to_pylist()
    outputs = [row["output"] for row in results if row["output"]]
    for row in results:
        for word, score in zip(row["labels"] or (), row["shapley"] or (), strict=True):
            if outputs.count(row["output"]) != 1:
                continue
            if score:
                assert written[word] == pytest.approx(score)
            else:  # a word of mass zero is neither for nor against an output
                assert word not in written
    assert len(words._charts) == len(set(outputs))


def test_a_cell_that_excel_cannot_hold_is_an_error(tmp_path):
    pytest.importorskip("openpyxl")
    many = " ".join(map(str, range(5000)))
    with pytest.raises(RunError, match="characters per cell"):
        explain_table(None, [many], tmp_path / "a.xlsx", form="wide", scale="logit")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["long", "wide"])
def test_json_lines_and_parquet_are_the_table_itself(tmp_path, form):
    expected = explain_table(None, TEXTS, form=form)
    for name in ("a.jsonl", "a.parquet"):
        explain_table(None, TEXTS, tmp_path / name, form=form)
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == expected.to_pylist()
    assert pq.read_table(tmp_path / "a.parquet").equals(expected)


DANGEROUS = ["=1+1", "+1+x", "-1+x", "@x", " =1+1", "\t=1+1", "\n@x", "＝1+1"]


def starts_a_formula(cell):
    number = cell.replace(".", "").replace("e-", "").removeprefix("-").isdecimal()
    return cell.strip()[:1] in tuple("=+-@＝＋－＠") and not number


@pytest.mark.parametrize("form", ["long", "wide"])
def test_no_cell_of_a_table_can_become_a_formula(tmp_path, form):
    """Cells come from column names, from the user's columns, from words, and from errors."""
    openpyxl = pytest.importorskip("openpyxl")
    data = {f"{sign}name": DANGEROUS for sign in "=+-@"} | {"text": DANGEROUS}
    explain_table(None, data, tmp_path / "a.csv", form=form)
    with (tmp_path / "a.csv").open(encoding="utf-8-sig", newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    assert sum(cell.startswith("'") for cell in cells) >= 4 + 4 * len(DANGEROUS)
    assert not [cell for cell in cells if starts_a_formula(cell)]
    explain_table(None, data, tmp_path / "a.xlsx", form=form)
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    assert all(cell.data_type != "f" for sheet in book for row in sheet.iter_rows() for cell in row)


def test_a_series_is_a_column_of_inputs():
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(["A fine film", "Dull"], name="review")
    results = explain_table(None, series)
    assert isinstance(results, pandas.DataFrame)
    assert results["word"].tolist() == ["a", "fine", "film", "dull"]


def test_a_missing_column_is_named_with_those_of_the_table():
    with pytest.raises(ValueError, match="column") as raised:
        explain_table(None, {"review": ["fine"]})
    assert "'review'" in str(raised.value) and "parquet" not in str(raised.value)


def test_what_is_not_a_table_is_named():
    model = load_demo_model()
    for wrong in (3, None):
        with pytest.raises(TypeError, match=f"^table: .*, got {type(wrong).__name__}$"):
            explain_table(model, wrong)
    with pytest.raises(ValueError, match=r"^table: .*no columns"):
        explain_table(model, {})


def test_a_frame_comes_back_as_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1], "review": ["A fine film"]}, index=[5])
    results = explain_table(None, frame, column="review", methods=["shapley", "loo"])
    assert isinstance(results, pandas.DataFrame)
    assert results["word"].tolist() == ["a", "fine", "film"] and "leave-one-out" in results


@pytest.mark.slow
def test_a_script_without_a_main_guard_may_use_several_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from attn_closed_form import explain_table\n"
        "print('started')\n"
        "table = explain_table(None, ['A fine film'] * 50, workers=2, scale='logit')\n"
        "print(len(table))\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "started\n150\n"), done.stderr


def test_the_command_writes_the_table_beside_the_folder(tmp_path, capsys):
    source = write(tmp_path / "in.parquet", ["A fine film", "Dull"])
    command = [
        "corpus",
        "run",
        str(source),
        str(tmp_path / "out"),
        "--workers",
        "1",
        "--progress",
        "none",
    ]
    assert main([*command, "--format", "csv", "--separator", ";"]) == 0
    assert (
        (tmp_path / "out.csv").read_text(encoding="utf-8-sig").startswith("row;id;position;word;")
    )
    assert main([*command, "--format", "jsonl"]) == 0  # nothing is explained again
    assert "0 now" in capsys.readouterr().out
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
    with pytest.raises(SystemExit):
        main([*command, "--format", "csv", "--separator", "::"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"out": "a.txt"}, "expected a file that ends in"),
        ({"form": "tall"}, "form"),
        ({"separator": "", "out": "a.csv"}, "^separator: "),
    ],
)
def test_bad_options(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        explain_table(None, ["fine"], **options)


def test_a_column_of_the_users_that_the_long_form_needs_is_refused():
    with pytest.raises(RunError, match="rename it or use --form wide"):
        explain_table(None, {"word": ["x"], "text": ["fine"]})


def test_the_results_do_not_replace_the_input(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text\na fine film\n", encoding="utf-8")
    (tmp_path / "link.csv").hardlink_to(path)
    for out in (path, tmp_path / "link.csv"):
        with pytest.raises(ValueError, match=r"^out: "):
            explain_table(None, path, out)
    assert path.read_text(encoding="utf-8") == "text\na fine film\n"
