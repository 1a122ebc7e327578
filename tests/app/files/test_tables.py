"""Tables row by row in every format, and texts with class names from them: what is put right and
what is refused.
"""

import gzip
import json
import warnings
import zipfile

import numpy as np
import pytest

from attn_closed_form.app.files.tables import (
    TableWarning,
    class_names,
    read_columns,
    read_labelled,
    read_rows,
    split_files,
    table_format,
)

ROWS = [
    {"text": 'A "fine", odd\nfilm', "label": "good"},
    {"text": "Schön; große Gefühle 👍", "label": "good"},
    {"text": "dull", "label": "bad"},
    {"text": "awful", "label": "bad"},
]


def as_csv(rows, delimiter=",", end="\n"):
    quoted = [[cell.replace('"', '""') for cell in (row["text"], row["label"])] for row in rows]
    return end.join([f"text{delimiter}label", *(f'"{a}"{delimiter}"{b}"' for a, b in quoted), ""])


def as_json(rows):
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def write_parquet(path, rows):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", as_csv(ROWS)),
        ("semicolons.csv", as_csv(ROWS, ";")),
        ("tabs.csv", as_csv(ROWS, "\t")),
        ("a.tsv", as_csv(ROWS, "\t")),
        ("a.jsonl", as_json(ROWS)),
        ("a.json", json.dumps(ROWS, indent=1)),
        ("blank_lines.ndjson", "\n\n" + as_json(ROWS).replace("\n", "\n\n")),
        ("no_suffix", as_json(ROWS)),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_every_format_gives_the_same_rows(tmp_path, name, content, encoding):
    if name == "no_suffix" and encoding == "utf-16":
        pytest.skip("without a name, only UTF-8 is recognized")
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    assert list(read_rows(path)) == ROWS
    assert [row["label"] for row in read_rows(path, ["label"])] == ["good", "good", "bad", "bad"]
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_rows(packed)) == ROWS


def test_parquet_gives_the_same_rows(tmp_path):
    write_parquet(tmp_path / "a.parquet", ROWS)
    (tmp_path / "unnamed").write_bytes((tmp_path / "a.parquet").read_bytes())
    for name in ("a.parquet", "unnamed"):
        assert list(read_rows(tmp_path / name)) == ROWS
        assert next(read_rows(tmp_path / name, ["label"])) == {"label": "good"}
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(ValueError, match=r"bad\.parquet: expected a readable parquet file"):
        list(read_rows(tmp_path / "bad.parquet"))


@pytest.mark.slow
def test_the_first_sheet_of_an_excel_file(tmp_path):
    """Numbers keep their type, empty rows and columns without a name are skipped, and a bomb is
    refused.
    """
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "reviews.xlsx"
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for row in (
        ["text", None, "label"],
        ["Schön", "x", 1],
        [None, None, None],
        ["Öde"],
        ["=1+1", 0, 2],
    ):
        sheet.append(row)
    workbook.create_sheet("second").append(["other"])
    workbook.save(path)
    rows = list(read_rows(path))
    # A formula has the result that Excel stored, and openpyxl stores none.
    assert rows == [
        {"text": "Schön", "label": 1},
        {"text": "Öde", "label": None},
        {"text": None, "label": 2},
    ]
    with pytest.raises(ValueError, match="stars"):
        list(read_rows(path, ["stars"]))
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b" " * 2**29)
    with pytest.raises(ValueError, match="more than"):
        list(read_rows(tmp_path / "bomb.xlsx"))
    (tmp_path / "no.xlsx").write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match="readable xlsx"):
        list(read_rows(tmp_path / "no.xlsx"))


def test_fasttext_lines(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(
        "__label__good a fine film\r\n\n__label__bad\tdull\n__label__bad\n", encoding="utf-8"
    )
    assert table_format(path) == "fasttext"
    assert list(read_rows(path)) == [
        {"text": "a fine film", "label": "good"},
        {"text": "dull", "label": "bad"},
        {"text": "", "label": "bad"},
    ]
    for line, message in (
        ("no label", "line 1: expected __label__NAME TEXT, got 'no'"),
        ("__label__ x", "line 1"),
    ):
        (tmp_path / "a.ft").write_text(line)
        with pytest.raises(ValueError, match=message):
            list(read_rows(tmp_path / "a.ft"))
    (tmp_path / "a.ft").write_text("__label__a __label__b text")
    with pytest.raises(ValueError, match="line 1: expected one label, got several"):
        list(read_rows(tmp_path / "a.ft"))


def test_crlf_byte_order_mark_and_long_lines(tmp_path):
    path = tmp_path / "a.csv"
    long = "word " * 2_200_000  # a cell of 11 MB; the csv module's own limit is 128 KB
    path.write_bytes(b"\xef\xbb\xbftext,label\r\n" + long.encode() + b",a\r\nshort,b\r\n")
    rows = list(read_rows(path))
    assert rows[0] == {"text": long, "label": "a"} and rows[1] == {"text": "short", "label": "b"}


def test_latin_1_is_read_and_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\ncaf\xe9 \x93quoted\x94,a\n".encode("latin-1"))
    with pytest.warns(TableWarning, match=r"a\.csv: not UTF-8 \(byte 0xe9\); read as Windows-1252"):
        assert list(read_rows(path)) == [{"text": "café “quoted”", "label": "a"}]


def test_utf8_cut_in_a_block_is_still_utf8(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\n" + b"x" * ((1 << 20) - 12) + "é,a\n".encode())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert next(read_rows(path))["text"].endswith("xé")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            b"body,stars\nx,1\n",
            r"a\.csv: expected a column 'text' and one 'label', got 'body', 'stars'",
        ),
        ("a.csv", b"", "got an empty file"),
        ("a.csv", b"n" * 41 + b",m\n1,2\n", f"got '{'n' * 39}…', 'm'$"),
        (
            "a.csv",
            b"text,label\na,b,c\n",
            "line 2: expected 2 cells, got 3; a text with delimiters",
        ),
        ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": ', "line 2: expected JSON, got"),
        ("a.jsonl", b"[1, 2]", "expected a JSON object, got int"),
        ("a.jsonl", b'{"text": "a"}', "expected a column 'label', got 'text'"),
        (
            "a.csv.gz",
            gzip.compress(b"text,label\n" * 999, mtime=0)[:-9],
            "expected a readable csv file: Comp",
        ),
        ("a.docx", b"PK..", "expected a CSV, TSV, Parquet, Excel or JSON Lines file"),
        ("a.jsonl", b"[" * 100_000, "expected JSON"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_rows(tmp_path / name, ("text", "label")))


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.csv: no such file; expected a CSV"):
        list(read_rows(tmp_path / "none.csv"))
    with pytest.raises(FileNotFoundError, match="is a folder"):
        list(read_rows(tmp_path))


def write_labels(path, labels):
    path.write_text(
        "text,label\n" + "".join(f"word{i},{label}\n" for i, label in enumerate(labels))
    )
    return path


def test_rows_without_text_or_label_are_left_out_and_counted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\n  ,x\nb,\nc,y\nshort\nd,x\ne,y\n")
    with pytest.warns(TableWarning, match=r"omitted 3 of 7 rows without a text or a label"):
        found = read_labelled(path)
    assert found.texts == ["a", "c", "d", "e"] and found.classes == ("x", "y")
    np.testing.assert_array_equal(found.labels, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "10", "9"], ("9", "10")),
        (["1.0", "2.0", "1.0", "2.0"], ("1", "2")),
        (["4.5", "0.5", "4.5", "0.5"], ("0.5", "4.5")),
        (["b", " a ", "b", "a"], ("a", "b")),
        (["été", "zug", "été", "zug"], ("zug", "été")),
        (["1e", "2.x", "1e", "2.x"], ("1e", "2.x")),
    ],
)
def test_names_and_order_of_classes(tmp_path, labels, classes):
    assert read_labelled(write_labels(tmp_path / "a.csv", labels)).classes == classes


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 3, "expected at least two classes, got only 'a' in 3 rows"),
        (
            [f"{i / 100}" for i in range(50)] * 2,
            "expected classes, got 50 different fractions such as '0.0",
        ),
        (
            [f"id{i}" for i in range(9)],
            "9 distinct ones in 9 rows; is this the column of the labels",
        ),
        ([""], "expected rows with a text and a label, got none"),
    ],
)
def test_labels_that_are_none(tmp_path, labels, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        with pytest.raises(ValueError, match=message):
            read_labelled(write_labels(tmp_path / "a.csv", labels))


def test_labels_of_parquet_keep_their_kind_apart(tmp_path):
    rows = [
        {"text": "a", "label": 1.0},
        {"text": "b", "label": None},
        {"text": None, "label": 2.0},
    ] * 2
    write_parquet(tmp_path / "a.parquet", [*rows, {"text": "c", "label": 2.0}])
    with pytest.warns(TableWarning, match="omitted 4 of 7"):
        assert read_labelled(tmp_path / "a.parquet").classes == ("1", "2")
    assert class_names([np.int64(3), True, "x"]) == ["3", "true", "x"]
    with pytest.raises(ValueError, match="one label per row, got "):
        class_names([["a", "b"]])


def test_a_part_to_score_on_has_no_new_classes(tmp_path):
    path = write_labels(tmp_path / "a.csv", ["b", "b", "c"])
    np.testing.assert_array_equal(read_labelled(path, classes=("a", "b", "c")).labels, [1, 1, 2])
    with pytest.raises(
        ValueError, match="expected only classes of the training part, got 'c' in 1 rows"
    ):
        read_labelled(path, classes=("a", "b"))


def test_a_folder_by_the_names_of_its_files(tmp_path):
    names = [
        "train-00000-of-00002.parquet",
        "train-00001-of-00002.parquet",
        "dev.tsv",
        "My_Test.csv.gz",
        "restrain.md",
    ]
    for name in names:
        (tmp_path / name).touch()
    found = {part: [file.name for file in files] for part, files in split_files(tmp_path).items()}
    assert found == {"train": names[:2], "valid": ["dev.tsv"], "test": ["My_Test.csv.gz"]}
    (tmp_path / "other").mkdir()
    with pytest.raises(FileNotFoundError, match=r"expected a file such as train\.csv"):
        split_files(tmp_path / "other")


def test_columns_at_once(tmp_path):
    (tmp_path / "a.csv").write_text("s;v\n1;2\n3\n")
    assert read_columns(tmp_path / "a.csv") == {"s": ["1", "3"], "v": ["2", None]}
    (tmp_path / "b.jsonl").write_text('{"s": 1.5}\n{"s": 2, "v": 1}\n')
    assert read_columns(tmp_path / "b.jsonl") == {"s": [1.5, 2]}
    (tmp_path / "c.csv").write_text("s,v\n")
    with pytest.raises(
        ValueError, match=r"c\.csv: expected a header and at least one row, got none"
    ):
        read_columns(tmp_path / "c.csv")


def test_a_file_belongs_to_one_part(tmp_path):
    for name in ("train.csv", "train_and_test.csv", "test.csv"):
        (tmp_path / name).touch()
    names = [file.name for files in split_files(tmp_path).values() for file in files]
    assert sorted(names) == ["test.csv", "train.csv", "train_and_test.csv"]


def test_a_warning_about_several_files_counts_the_others(tmp_path):
    files = []
    for name in ("a", "b", "c"):
        path = tmp_path / f"{name}.csv"
        path.write_text("text,label\nfine,x\ndull,y\nodd,\n", encoding="utf-8")
        files.append(path)
    for count in (2, 3):
        with pytest.warns(TableWarning, match=rf"a\.csv and {count - 1} more: omitted {count} of"):
            read_labelled(files[:count])
