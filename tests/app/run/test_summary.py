"""The commands `corpus run` and `corpus summary`: what they print, and that the summary adds up."""

import json
import re

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs the corpus extra")

from attn_closed_form import Settings, TextClassifier  # noqa: E402
from attn_closed_form.app.cli.main import main  # noqa: E402
from attn_closed_form.app.models.text import Vocabulary  # noqa: E402
from attn_closed_form.app.run.examples import ExampleRow, example_rows  # noqa: E402
from attn_closed_form.app.run.plan import planned  # noqa: E402
from attn_closed_form.app.run.reporter import Meter, reported  # noqa: E402
from attn_closed_form.app.run.runner import Progress, run  # noqa: E402
from attn_closed_form.app.run.summary import summarize  # noqa: E402
from attn_closed_form.app.run.summary_page import plot_words, summary_page  # noqa: E402
from attn_closed_form.app.run.task import RunError, Task  # noqa: E402
from attn_closed_form.app.show.effects import mean_text  # noqa: E402
from attn_closed_form.attention import random_weights  # noqa: E402
from tests.app.run.corpora import WORDS, parts_of, read, run_all, texts, write  # noqa: E402
from tests.texts import model_for  # noqa: E402


def test_the_commands(tmp_path, capsys):
    source = write(tmp_path / "in.parquet", [*texts(20), None], column="review")
    out = str(tmp_path / "out")
    command = ["corpus", "run", str(source), out, "--column", "review", "--workers", "1"]
    assert main([*command, "--progress", "none"]) == 0
    printed = capsys.readouterr()
    assert (
        "21 documents, 21 now" in printed.out
        and "1 with an error" in printed.out
        and printed.err == ""
    )
    assert "workers lost" not in printed.out
    assert main(command) == 0
    printed = capsys.readouterr()
    assert (
        "21 documents, 0 now" in printed.out
        and "21 of 21 documents are already done" in printed.err
    )
    assert main([*command, "--tol", "1e-6"]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and "--tol was 1e-10 and is 1e-06" in printed.err
    assert (
        main([*command, "--tol", "1e-6", "--restart", "--columns", "", "--progress", "none"]) == 0
    )
    assert capsys.readouterr().err == ""
    assert read(out).column_names[:2] == ["row", "labels"]
    assert main(["corpus", "summary", out, "--json", "--top", "5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["of"], found["failed"]) == (21, 21, 1)
    assert {each["output"] for each in found["outputs"]} == {"negative", "positive"}
    assert sum(each["documents"] for each in found["outputs"]) == 20
    only = found["outputs"][0]
    assert (
        5 < len(only["words"]) <= 10
        and [word["total"] > 0 for word in only["words"]][:5] == [True] * 5
    )
    assert all(word["total"] < 0 for word in only["words"][5:])
    assert main(["corpus", "summary", out]) == 0
    printed = capsys.readouterr().out
    assert only["words"][0]["word"] in printed and "21 documents, 1 with an error" in printed
    assert "against:" in printed and " ± " in printed
    assert main(["corpus", "summary", out, "--html", str(tmp_path / "words.html")]) == 0
    page = (tmp_path / "words.html").read_text(encoding="utf-8")
    shown = {word["word"] for each in found["outputs"] for word in each["words"]}
    assert all(f">{word}</span>" in page for word in shown) and "<script" not in page
    assert "Words that raise or lower the probability of negative" in page
    capsys.readouterr()
    assert main(["corpus", "summary", str(tmp_path / "nothing")]) == 1
    assert "expected the parts" in capsys.readouterr().err
    assert main(["corpus", "run", str(tmp_path / "nothing"), out]) == 1
    assert main(["corpus", "summary", out, "--output", "purple"]) == 1
    assert "got 'purple'" in capsys.readouterr().err


def test_all_rows_bad_is_status_1(tmp_path, capsys):
    source = write(tmp_path / "in.parquet", [None, ""])
    assert main(["corpus", "run", str(source), str(tmp_path / "out"), "--workers", "1"]) == 1
    assert "2 with an error" in capsys.readouterr().out


def three_classes():
    words = ["[CLS]", "[UNK]", *WORDS]
    weights = random_weights(seed=5, D=len(words), T_max=40, C=3, score_scale=2.0)
    return TextClassifier(weights, Vocabulary(words), ("sports", "trade", "crops"))


@pytest.mark.parametrize("players", ["words", "positions"])
def test_a_summary_adds_up_class_by_class(tmp_path, players):
    source = write(tmp_path / "in.parquet", [*texts(30), None])
    run_all(
        source, tmp_path / "out", Task(model=three_classes(), settings=Settings(players=players))
    )
    summary = summarize(tmp_path / "out")
    table = [row for row in read(tmp_path / "out").to_pylist() if row["error"] is None]
    total = {}
    documents = {}
    for row in table:
        for word in set(row["labels"]):
            documents[row["output"], word] = documents.get((row["output"], word), 0) + 1
        for word, score in zip(row["labels"], row["shapley"], strict=True):
            total[row["output"], word] = total.get((row["output"], word), 0.0) + score
    assert len(summary.outputs) > 1 and (summary.rows, summary.of, summary.failed) == (31, 31, 1)
    for o, output in enumerate(summary.outputs):
        assert summary.documents[o] == sum(row["output"] == output for row in table)
        for w, word in enumerate(summary.words):
            assert np.isclose(
                summary.sums[w, o], total.get((output, word), 0.0), rtol=1e-12, atol=1e-12
            )
            assert summary.counts[w, o] == documents.get((output, word), 0)
        by_mean = summary.top(output, 3, by="mean", least_documents=2)
        assert all(word.documents >= 2 for word in by_mean)
        most = int(summary.counts[:, o].max())
        often = {summary.words[w] for w in np.flatnonzero(summary.counts[:, o] == most)}
        assert {word.word for word in summary.top(output, 100, least_documents=most)} == often
        assert [abs(w.mean) for w in by_mean] == sorted(
            (abs(w.mean) for w in by_mean), reverse=True
        )
    with pytest.raises(ValueError, match="by"):
        summary.top(output, by="x")
    with pytest.raises(ValueError, match="side"):
        summary.top(output, side="x")
    sides = {side: summary.top(output, 10**6, side=side) for side in ("supports", "opposes")}
    assert sides["supports"] and sides["opposes"]
    assert all(word.total > 0 for word in sides["supports"]) and all(
        word.total < 0 for word in sides["opposes"]
    )
    assert list(summary.sides(output, n=3).items()) == [
        ("for", sides["supports"][:3]),
        ("against", sides["opposes"][:3]),
    ]
    assert list(summary.sides(output, "opposes")) == ["against"]
    for word in sides["supports"]:
        scores = [
            (abs(score), row["row"], score)
            for row in table
            if row["output"] == output and word.word in row["labels"]
            for score in [
                sum(s for w, s in zip(row["labels"], row["shapley"], strict=True) if w == word.word)
            ]
        ]
        largest, number, score = max(scores, key=lambda entry: (entry[0], entry[1]))
        assert abs(word.example_score) == pytest.approx(largest) and (
            word.example == number or len(scores) > 1
        )
        values = [entry[2] for entry in scores]
        if len(values) > 1:
            expected = 1.96 * np.std(values, ddof=1) / np.sqrt(len(values))
            assert word.half_width == pytest.approx(expected, rel=1e-6, abs=1e-9)
        else:
            assert word.half_width is None
    both = [word for word in summary.top(output, 10**6) if word.total]
    assert sorted(sides["supports"] + sides["opposes"]) == sorted(both)
    with pytest.raises(RunError, match="expected a method among shapley"):
        summarize(tmp_path / "out", "lime")


@pytest.mark.parametrize("by", ["total", "mean"])
def test_the_chart_and_the_page_draw_what_they_are_ordered_by(tmp_path, by):
    pytest.importorskip("matplotlib").use("Agg")
    run_all(write(tmp_path / "in.parquet", texts(30)), tmp_path / "out")
    summary = summarize(tmp_path / "out")
    words = summary.top("positive", 8, by=by)
    figure = plot_words(summary, {"positive": words}, tmp_path / "words.png", by)
    (ax,) = figure.axes
    bars = sorted(ax.patches, key=lambda bar: -bar.get_y())
    zero = ax.lines[-1].get_xdata()[0]
    # Bars are in unit coordinates, with their ends at zero and at the mean.
    means = np.array([word.ordered_by(by).value for word in words])
    lengths = np.array([bar.get_width() for bar in bars])
    np.testing.assert_allclose(lengths / lengths[0], np.abs(means) / abs(means[0]))
    for bar, mean in zip(bars, means, strict=True):
        inner = bar.get_x() if mean > 0 else bar.get_x() + bar.get_width()
        assert inner == pytest.approx(zero)
    assert np.all(np.diff(np.abs(lengths)) <= 1e-12)
    names = [f"{word.word}  (n = {word.documents:,})" for word in words]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    assert "the probability of positive" in ax.get_title(loc="left")
    page = summary_page(summary, {"positive": {"for": words}}, by)
    drawn = [float(text) for text in re.findall(r"class=(?:for|against) .*?width:([\d.]+)%", page)]
    np.testing.assert_allclose(drawn, 100 * lengths, atol=0.06)


def test_the_mean_over_all_texts_counts_texts_without_the_word(tmp_path):
    source = write(tmp_path / "in.parquet", ["film", "film wonderful", "dull film", "slow film"])
    run_all(source, tmp_path / "out", Task(settings=Settings(output="positive")))
    (word,) = [word for word in summarize(tmp_path / "out").top("positive") if word.word == "dull"]
    scores = [
        dict(zip(row["labels"], row["shapley"], strict=True)).get("dull", 0.0)
        for row in read(tmp_path / "out").to_pylist()
    ]
    assert word.overall == pytest.approx(np.mean(scores)) and word.mean == min(scores)
    assert word.overall_half_width == pytest.approx(1.96 * np.std(scores, ddof=1) / np.sqrt(4))
    assert word.half_width is None and word.ordered_by("mean").value == word.mean


def test_a_snippet_marks_the_word_and_ends_at_spaces():
    text = "word " * 40 + "<br /><br />A superb film! " + "rest " * 40
    start = text.index("superb")
    row = ExampleRow(3, text, True, ("superb",), (((start, start + 6),),), "positive", 0.9, 0.9)
    pieces = row.snippet("superb")
    assert [piece.text for piece in pieces if piece.marked] == ["superb"]
    shown = "".join(piece.text for piece in pieces)
    assert shown.startswith("… word word") and shown.endswith("rest rest …") and "<" not in shown
    assert len(shown) < 200 and "A superb film!" in shown
    assert row.snippet("dull") == []


def test_examples_have_the_text_or_the_words_that_were_read(tmp_path):
    source = write(tmp_path / "in.parquet", ["A <b>Wonderful</b> film.", None, "Dull, dull film"])
    run_all(source, tmp_path / "out")
    rows = example_rows(tmp_path / "out", [0, 1, 2])
    assert set(rows) == {0, 2} and rows[2].text == "Dull, dull film" and rows[2].is_complete
    marked = [piece.text for piece in rows[2].snippet("dull") if piece.marked]
    assert marked == ["Dull", "dull"]
    page = summary_page(summarize(tmp_path / "out"), page_words(tmp_path / "out"), examples=rows)
    assert "<b>W" not in page and "&lt;b&gt;" in page and ">Wonderful</i>" in page
    source.unlink()
    moved = example_rows(tmp_path / "out", [0, 2])
    assert moved[2].text == "dull dull film" and not moved[2].is_complete
    assert [piece.text for piece in moved[2].snippet("dull") if piece.marked] == ["dull", "dull"]


def page_words(folder):
    summary = summarize(folder)
    return {output: summary.sides(output) for output in summary.outputs}


def test_the_page_links_to_reports_of_the_model_that_was_used(tmp_path, capsys):
    source = write(tmp_path / "in.parquet", ["A wonderful film", "dull, dull"])
    run_all(source, tmp_path / "out")
    page = tmp_path / "words.html"
    command = ["corpus", "summary", str(tmp_path / "out")]
    assert main([*command, "--html", str(page), "--reports"]) == 0
    links = set(re.findall(r'href="([^"]+)"', page.read_text(encoding="utf-8")))
    assert links == {"words-rows/row-0.html", "words-rows/row-1.html"}
    for link in links:
        assert "This text is rated" in (tmp_path / link).read_text(encoding="utf-8")
    other = tmp_path / "model.npz"
    model_for("a film").save(other)
    assert main([*command, "--html", str(page), "--reports", "--model", str(other)]) == 1
    assert "another model" in capsys.readouterr().err
    source.unlink()
    assert main([*command, "--html", str(page), "--reports"]) == 1
    assert "moved or changed" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--reports"])


def test_a_summary_of_an_unfinished_run_says_so(tmp_path, capsys):
    source = write(tmp_path / "in.parquet", texts(12))
    with parts_of(4), planned(source, tmp_path / "out", Task()) as plan:
        next(run(Task(), plan.missing))
    assert main(["corpus", "summary", str(tmp_path / "out")]) == 0
    assert "4 of 12 (the run is not finished) documents" in capsys.readouterr().out


def test_progress_tells_rows_rate_time_and_errors(capsys):
    now = [0.0]
    meter = Meter(1000, before=100, clock=lambda: now[0])
    with reported(meter, "plain") as show:
        for second in range(1, 61):
            now[0] = float(second)
            rate = 2 if second <= 30 else 10
            done = 2 * min(second, 30) + 10 * max(0, second - 30)
            show(Progress(done, failed=3, note="a worker was lost" if second == 5 else ""))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "a worker was lost"
    assert (
        lines[1] == "120 of 1,000 documents (12%), 2 per second, 7 min 20 s left, 3 with an error"
    )
    assert rate == 10 and lines[-1].startswith(
        "460 of 1,000 documents (46%), 10 per second, 55 s left"
    )
    assert len(lines) == 7


def test_columns_and_summary_say_the_scale(tmp_path, capsys):
    model = model_for(" ".join(WORDS), K=1)
    model.save(tmp_path / "model.npz")
    source = write(tmp_path / "in.parquet", texts(12))
    for scale in ("probability", "logit"):
        out = tmp_path / scale
        task = Task(
            model=str(tmp_path / "model.npz"),
            methods=("shapley", "slalom-value"),
            settings=Settings(scale=scale),
        )
        run_all(source, out, task)
        rows = read(out).to_pylist()
        assert {row["scale"] for row in rows} == {scale}
        for row in rows:
            assert row["shapley_baseline"] + sum(row["shapley"]) == pytest.approx(
                row["prediction"], abs=1e-9
            )
            chance = row["probability"]
            assert row["prediction"] == pytest.approx(
                chance if scale == "probability" else np.log(chance / (1 - chance))
            )
        summary = summarize(out)
        assert {each.name for each in summary.scales} == {scale}
        assert {each.name for each in summarize(out, "slalom-value").scales} == {"logit"}
        word = summary.top(summary.outputs[0], 1)[0]
        assert main(["corpus", "summary", str(out)]) == 0
        printed = capsys.readouterr().out
        assert f"{scale} explained in" in printed and ("in percentage points" in printed) == (
            scale == "probability"
        )
        assert mean_text(word.ordered_by("total"), summary.scales[0]) in printed
        assert main(["corpus", "summary", str(out), "--json"]) == 0
        assert {each["scale"] for each in json.loads(capsys.readouterr().out)["outputs"]} == {scale}


def test_rows_on_another_scale_are_apart(tmp_path):
    for scale, name in (("probability", "part-000000.parquet"), ("logit", "part-000001.parquet")):
        outputs = pa.array(["yes", "no"])
        labels = pa.array([["a"], ["b"]])
        columns = {
            "labels": labels,
            "shapley": pa.array([[0.5], [0.25]]),
            "shapley_baseline": [0.0, 0.0],
        }
        columns |= {"shapley_error": [0.0, 0.0], "output": outputs, "scale": [scale, scale]}
        pa.parquet.write_table(
            pa.table({**columns, "error": pa.array([None, None], pa.string())}), tmp_path / name
        )
    summary = summarize(tmp_path)
    assert summary.outputs == ("yes", "no", "yes (logit)", "no (logit)")
    assert [scale.name for scale in summary.scales] == [
        "probability",
        "probability",
        "logit",
        "logit",
    ]
    assert summary.top("yes")[0].total == summary.top("yes (logit)")[0].total == 0.5


def test_the_interval_of_a_word_in_many_documents(tmp_path):
    source = write(tmp_path / "in.parquet", [f"film {word}" for word in WORDS[:7]])
    run_all(source, tmp_path / "out", Task(settings=Settings(output="positive")))
    values = [
        row["shapley"][row["labels"].index("film")] for row in read(tmp_path / "out").to_pylist()
    ]
    (film,) = [
        word for word in summarize(tmp_path / "out").top("positive", 100) if word.word == "film"
    ]
    assert film.documents == 7
    assert film.half_width == pytest.approx(1.96 * np.std(values, ddof=1) / np.sqrt(7), rel=1e-6)
