"""From a table to an HTML report in three commands, and tables that cannot be trained on."""

import json
import re

import numpy as np
import pytest

from attn_closed_form import load_model
from attn_closed_form.app.cli.main import main
from attn_closed_form.app.files.arrays import read_arrays, write_arrays
from attn_closed_form.app.files.open_model import load_weights
from tests.pages import ROOT, commands, outputs, problem, run_page

pytest.importorskip("jax")

WORDS = {
    "Lob": ["schön", "großartig", "👍"],
    "Frage": ["wie", "wann", "warum"],
    "Ärger": ["kaputt", "müde", "🙁"],
}
SMALL = ["--embedding-size", "16", "--heads", "2", "--key-size", "8", "--value-size", "8"]


def tickets(n=90, seed=0):
    """Rows of a made-up German table with three classes."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        label = list(WORDS)[i % 3]
        words = [*rng.choice(["das", "Gerät", "und", "die", "Straße", "heute"], rng.integers(3, 9))]
        words.insert(int(rng.integers(3)), str(rng.choice(WORDS[label])))
        rows.append((" ".join(words), label))
    return rows


def write_csv(path, rows, header="text;label"):
    lines = [header, *(f'"{text}";{label}' for text, label in rows)]
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8-sig")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with tickets.csv, and model.npz, which `train` made of it; beside them, what it
    printed.
    """
    folder = tmp_path_factory.mktemp("tickets")
    data = write_csv(folder / "tickets.csv", tickets(), "Text;Art")
    import contextlib
    import io

    out = io.StringIO()
    columns = ["--text-column", "Text", "--label-column", "Art"]
    with contextlib.redirect_stdout(out):
        assert main(["train", str(data), *columns, "--out", str(folder / "model.npz")]) == 0
    return folder, out.getvalue()


def test_three_commands_from_a_table_to_a_report(trained, capsys):
    folder, printed = trained
    assert "On 90 held-out texts, in 5 folds:" in printed and "macro-F1" in printed
    assert (
        "Baseline: " in printed
        and "33.3%, if all words are absent; the class prior is 33.3%" in printed
    )
    assert all(name in printed for name in WORDS) and " explain " in printed.split("Next: ")[1]
    report = folder / "report.html"
    flags = ["--model", str(folder / "model.npz"), "--html", str(report)]
    assert main(["explain", "das Gerät ist kaputt 🙁", *flags]) == 0
    page = report.read_text(encoding="utf-8")
    assert "Ärger" in page and "kaputt" in page and "🙁" in page
    assert "Ärger" in capsys.readouterr().out
    assert main(["model", str(folder / "model.npz")]) == 0
    card = capsys.readouterr().out
    assert "Frage, Lob, Ärger" in card and "temperature" in card and "On 90 held-out texts" in card
    assert "tickets.csv" in card and "seed 0" in card and "scipy" in card
    assert "number of words" in card


def test_the_file_is_whole_and_without_pickle(trained):
    folder, _ = trained
    model = load_model(folder / "model.npz")
    assert model.outputs == ("Frage", "Lob", "Ärger") and model.temperature > 0
    assert "straße" in model.vocabulary and "👍" in model.vocabulary
    texts, labels = zip(*tickets(seed=1), strict=True)
    assert np.mean(model.predict(texts) == np.array(labels)) > 0.9
    assert model.card["held_out"]["texts"] == 90 and model.card["settings"]["model"] == "tables"
    with np.load(folder / "model.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "fiu" for name in archive.files)
    assert load_weights(folder / "model.npz").C == 3
    margin = model.explain("wann ist das kaputt", "shapley", output="margin:Ärger,Frage")["shapley"]
    assert margin.top(1)[0][0] in ("kaputt", "wann")


def test_one_column_is_not_both_text_and_label(tmp_path, capsys):
    source = write_csv(tmp_path / "tickets.csv", tickets(12))
    out = tmp_path / "model.npz"
    columns = ["--text-column", "text", "--label-column", "text"]
    with pytest.raises(SystemExit) as ended:
        main(["train", str(source), "--out", str(out), *columns])
    assert ended.value.code == 2
    assert "--label-column" in capsys.readouterr().err and not out.exists()


def test_the_card_of_a_hostile_file_is_clean(trained, tmp_path, capsys):
    arrays = dict(read_arrays(trained[0] / "model.npz"))
    about = json.loads(arrays["about"].tobytes())
    about["outputs"][0] = "\x1b[31mred"
    about["card"] = {
        "data": "\x1b]0;title\x07",
        "held_out": {"texts": "many", "accuracy": [], "classes": 3},
        "test": {
            "texts": 1,
            "accuracy": 1,
            "macro_f1": 1,
            "classes": {"\x1b[2J": {"precision": "x"}},
        },
        "settings": {"\x1b": {"deep": ["\x1b"] * 9999}},
        "versions": [1],
    }
    words = arrays["vocabulary"].tobytes().decode().split("\n")
    words[2] = "\x1b[2J"
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    arrays["vocabulary"] = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
    write_arrays(arrays, tmp_path / "hostile.npz")
    assert main(["model", str(tmp_path / "hostile.npz")]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\x07" not in shown and "red" in shown and len(shown) < 5000


@pytest.mark.slow
def test_a_folder_with_train_and_test_files(tmp_path, capsys):
    rows = tickets(120)
    lines = [f"__label__{label} {text}" for text, label in rows]
    (tmp_path / "train.txt").write_text("\n".join(lines[:60]), encoding="utf-8")
    (tmp_path / "dev.txt").write_text("\n".join(lines[60:90]), encoding="utf-8")
    (tmp_path / "test.txt").write_text("\n".join(lines[90:]), encoding="utf-8")
    out = tmp_path / "model.npz"
    assert main(["train", str(tmp_path), "--out", str(out), *SMALL, "--epochs", "20"]) == 0
    printed = capsys.readouterr().out
    assert "On 30 held-out texts, after training on 60" in printed and "On 30 test texts" in printed
    card = load_model(out).card
    assert card["test"]["texts"] == 30
    # dev.txt is for validation and is not trained on.
    assert card["training_texts"] == 60 and "refit" not in card


ROWS = tickets(12)


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (
            "body,stars\nx,1\n",
            [],
            "got 'body', 'stars'; use --text-column and --label-column to select others",
        ),
        (
            "text,label\n" + "a film,x\n" * 9,
            [],
            "expected at least two classes, got only 'x' in 9 rows",
        ),
        ("text,label\n,x\n,y\n", [], "expected rows with a text and a label, got none"),
        (
            "text,label\n" + "".join(f"w,{i}.5\n" for i in range(60)) * 2,
            [],
            "60 different fractions",
        ),
        ("text,label\na,b,c\n", [], "line 2: expected 2 cells, got 3"),
        ("", [], "got an empty file"),
        (
            "text,label\n" + "a,x\nb,y\n" * 9,
            ["--heads", "0"],
            "--heads: expected at least 1, got 0",
        ),
        (
            "text,label\n" + "a,x\nb,y\n" * 9,
            ["--batch-size", "64"],
            "at most the 16 training texts, got 64",
        ),
        ("text,label\n" + "a,x\nb,y\n" * 9, ["--valid", "none.csv"], "none.csv: no such file"),
        (
            "text,label\n" + "a,x\nb,y\n" * 9,
            ["--out", "model.bin"],
            "--out: expected a file name ending in .npz",
        ),
        (
            "text,label\n" + "a,x\nb,y\n" * 9,
            ["--out", "no/model.npz"],
            "--out: expected a file in an existing folder",
        ),
        (
            "text,label\na,x\nb,y\n",
            [],
            "expected a class with at least two texts, got 2 single ones",
        ),
    ],
)
def test_tables_that_cannot_be_trained_on_say_so_in_one_line(
    tmp_path, capsys, content, flags, message
):
    path = tmp_path / "a.csv"
    path.write_text(content)
    assert main(["train", str(path), "--out", str(tmp_path / "m.npz"), *flags]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert message in said[-1] and said[-1].startswith("attn-closed-form: error: ")
    assert all(line.startswith("attn-closed-form: warning: ") for line in said[:-1])
    assert not (tmp_path / "m.npz").exists()


def test_what_is_put_right_is_said(tmp_path, capsys):
    """Latin-1, an empty text, a class with one text, labels that a data frame made floats."""
    rows = [("caf\xe9 good", "1.0"), ("dull", "2.0")] * 8 + [("", "1.0"), ("alone", "3.0")]
    path = tmp_path / "a.csv"
    path.write_bytes(("text,label\n" + "".join(f"{t},{c}\n" for t, c in rows)).encode("latin-1"))
    out = tmp_path / "m.npz"
    assert main(["train", str(path), "--out", str(out), "--validation", "0.2"]) == 0
    said = capsys.readouterr().err
    for part in ("read as Windows-1252", "omitted 1 of 18 rows", "only one text"):
        assert part in said
    assert load_model(out).outputs == ("1", "2", "3") and "café" in load_model(out).vocabulary


def test_labels_that_are_written_in_two_ways_or_missing(tmp_path, capsys):
    labels = ["good", "GOOD", "bad", "nan"]
    rows = [(f"text {i // 4} {i % 4}", labels[i % 4]) for i in range(40)]
    path = write_csv(tmp_path / "a.csv", rows)
    assert main(["train", str(path), "--out", str(tmp_path / "m.npz")]) == 0
    said = capsys.readouterr().err
    assert "'GOOD' and 'good' are different classes" in said
    assert "'nan' is read as a class" in said


def test_an_empty_file(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("")
    assert main(["train", str(path), "--out", str(tmp_path / "m.npz")]) == 1
    assert "got an empty file" in capsys.readouterr().err


def test_help_lists_twelve_options(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out.split("examples:")[0]
    listed = set(re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE))
    assert len(listed) == 12 and {"--out", "--heads", "--dense", "--trials"} <= listed


def test_settings_from_a_file(trained, tmp_path, capsys):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"vocabulary_size": 9, "seed": 3}))
    command = ["train", str(trained[0] / "tickets.csv"), "--out", str(tmp_path / "m.npz")]
    command += ["--text-column", "Text", "--label-column", "Art", "--config", str(settings)]
    assert main([*command, "--seed", "4"]) == 0
    model = load_model(tmp_path / "m.npz")
    assert len(model.vocabulary) == 9 and model.card["settings"]["seed"] == 4
    settings.write_text(json.dumps({"words": 9}))
    assert main(command) == 1
    assert "--config" in capsys.readouterr().err


def test_heads_train_the_attention_model(trained, tmp_path):
    command = ["train", str(trained[0] / "tickets.csv"), "--out", str(tmp_path / "m.npz")]
    command += ["--text-column", "Text", "--label-column", "Art", *SMALL, "--epochs", "2"]
    assert main(command) == 0
    assert load_model(tmp_path / "m.npz").weights.K == 2


def test_integer_labels_stay_integers(tmp_path):
    rows = [(text, {"Lob": 3, "Frage": -1, "Ärger": 10}[label]) for text, label in tickets()]
    path = write_csv(tmp_path / "a.csv", rows)
    assert main(["train", str(path), "--out", str(tmp_path / "m.npz")]) == 0
    predicted = load_model(tmp_path / "m.npz").predict([text for text, _ in rows])
    assert np.mean(predicted == np.array([label for _, label in rows])) > 0.9


def test_classes_are_given_names(tmp_path, capsys):
    rows = [(text, {"Lob": 1, "Frage": 0, "Ärger": 2}[label]) for text, label in tickets()]
    path = write_csv(tmp_path / "a.csv", rows)
    out = tmp_path / "m.npz"
    names = ["--class-names", "2=complaint, 0=question"]
    assert main(["train", str(path), "--out", str(out), *names]) == 0
    assert "complaint" in capsys.readouterr().out
    model = load_model(out)
    assert model.outputs == ("question", "1", "complaint")
    expected = {0: "question", 1: "1", 2: "complaint"}
    predicted = model.predict([text for text, _ in rows])
    assert np.mean(predicted == np.array([expected[label] for _, label in rows])) > 0.9


@pytest.mark.parametrize("names", ["3=x", "0", "0=", "0=a,0=b", "0=1", ""])
def test_names_of_classes_are_checked(tmp_path, names, capsys):
    rows = [(text, {"Lob": 1, "Frage": 0, "Ärger": 2}[label]) for text, label in tickets()]
    path = write_csv(tmp_path / "a.csv", rows)
    command = ["train", str(path), "--out", str(tmp_path / "m.npz"), "--class-names", names]
    assert main(command) == 1
    assert "--class-names" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_about_it_runs(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "your-texts.md"
    _, shown = run_page(page.read_text(encoding="utf-8"), page)
    assert (
        any("kaputt" in output for output in outputs(shown)) and (tmp_path / "model.npz").exists()
    )
    assert [problem(words) for _, words in commands(page.read_text(encoding="utf-8"))] == [None] * 3


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupt_names_resume(tmp_path, monkeypatch, capsys, begun):
    def interrupted(args):
        if begun:
            (tmp_path / "m.checkpoint").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("jax_model.training.command.run", interrupted)
    assert main(["train", "reviews.csv", "--out", str(tmp_path / "m.npz")]) == 130
    shown = capsys.readouterr().err
    assert ("with --resume to continue" in shown) == begun and (
        "no checkpoint yet" in shown
    ) != begun
