"""What a row of RESULTS.md must have, the parts of a run, and the order of a whole reproduction."""

import json
import math

import numpy as np
import pytest

from benchmarks.harness import RESULTS
from benchmarks.papers import reproduce
from benchmarks.papers.reproduction import STATISTICS, Row, Run, claim, mean_row
from benchmarks.papers.reviews_rows import ratio_row
from benchmarks.results_page import load_records

REPRODUCED = [
    record for record in load_records(RESULTS) if any("result" in row for row in record["rows"])
]


def faults(row):
    """What a row of a result file lacks; [] if nothing."""
    found = []
    n = row.get("n")
    kind = row.get("statistic")
    pm = row.get("ours_pm")
    if not isinstance(n, int) or n < 1 or not row.get("of"):
        found.append("the number of documents, and of what")
    if kind not in STATISTICS:
        found.append(f"a statistic, one of {STATISTICS}")
    if kind in ("mean", "count") and not (isinstance(pm, float) and math.isfinite(pm)):
        found.append("a standard error")
    if kind == "mean" and n == 1:
        found.append("more than one of them, as it calls itself a mean")
    if kind == "once" and not row.get("differs"):
        found.append("why it was drawn once")
    return found


@pytest.mark.parametrize("record", REPRODUCED, ids=lambda record: record["name"])
def test_every_row_says_of_how_many_and_how_sure(record):
    if not any("n" in row for row in record["rows"]):
        pytest.skip("written before rows had a number of documents; to be run again")
    lacking = {
        row["case"]: faults(row) for row in record["rows"] if "result" in row and faults(row)
    }
    assert not lacking


def as_json(row):
    return json.loads(
        json.dumps({key: value for key, value in row._asdict().items() if value is not None})
    )


def test_the_rule_itself():
    assert not faults(as_json(mean_row("P2 Table 1", "x", [1.0, 3.0])))
    assert not faults(as_json(claim("P2 Table 14", "500 samples", [True, False], "same")))
    assert not faults(as_json(Row("P2 Table 1", "x", 2.0, n=3, of="reviews", statistic="largest")))
    assert faults(as_json(Row("P2 Table 1", "x", 2.0)))
    assert faults(as_json(mean_row("P2 Table 1", "x", [1.0, 3.0])._replace(ours_pm=None)))
    assert faults(as_json(mean_row("P2 Table 1", "x", [1.0])))


def test_rows():
    row = mean_row("P2 Table 1", "x", [1.0, 3.0, math.nan], paper=(2.5, 0.1))
    assert (row.ours, row.ours_pm, row.paper, row.paper_pm) == (2.0, 1.0, 2.5, 0.1)
    assert (row.n, row.of, row.statistic, row.quantiles) == (2, "documents", "mean", None)
    assert (mean_row("r", "x", [1.0]).ours_pm, mean_row("r", "x", [1.0]).statistic) == (
        None,
        "once",
    )
    assert mean_row("r", "x", range(101)).quantiles == [5, 50, 95]
    assert claim("P2 Table 14", "500 samples", [True, True], "same").differs == "same"
    missed = claim("P2 Table 14", "500 samples", [True, False], "same", "because")
    assert (missed.ours, missed.differs) == ("holds in 1 of 2", "disagrees in 1 of 2: because")
    assert (missed.n, missed.statistic, missed.ours_pm) == (2, "count", pytest.approx(8**-0.5))


def test_the_standard_error_of_a_ratio():
    """Against draws of whole samples."""
    rng = np.random.default_rng(0)

    def draw():
        b = rng.uniform(1, 2, size=200)
        return 3 * b + rng.normal(size=200), b

    ratios = [ratio_row("r", "x", *draw()).ours for _ in range(400)]
    row = ratio_row("r", "x", *draw())
    assert row.ours == pytest.approx(3, abs=5 * row.ours_pm)
    assert row.ours_pm == pytest.approx(np.std(ratios), rel=0.2)


def test_a_part_that_is_done_is_not_computed_again(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"x": np.float64(len(calls))}

    arguments = ["--work", str(tmp_path)]
    for expected, settings in ((1, {"n": 3}), (1, {"n": 3}), (2, {"n": 4})):
        run = Run("some", "A run.", arguments, data=False)
        assert run.part("first", settings, compute) == {"x": expected}
    assert (
        Run("some", "A run.", [*arguments, "--quick"], data=False).part("first", {"n": 4}, compute)[
            "x"
        ]
        == 3
    )


def test_a_whole_reproduction_leaves_out_what_is_done(tmp_path, monkeypatch):
    ran = []
    results = tmp_path / "results"
    results.mkdir()
    monkeypatch.setattr(reproduce, "MODULES", ("one", "two", "three"))
    monkeypatch.setattr(reproduce, "RESULTS", results)
    monkeypatch.setattr(reproduce, "report", lambda name, rows, **_: ran.append((name, rows)))
    monkeypatch.setattr(reproduce, "write_results", lambda arguments: 0)
    monkeypatch.setattr(reproduce, "write_pages", lambda arguments: 0)

    class Ended:
        returncode = 0

    def module(command, check):
        name = command[2].removeprefix("benchmarks.")
        ran.append(name)
        if name == "three" and ran.count("three") == 1:
            Ended.returncode = -9
        else:
            Ended.returncode = 0
            content = {"settings": {"seconds": 2.0, "processor seconds": 1.0}}
            (results / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return Ended

    monkeypatch.setattr(reproduce.subprocess, "run", module)
    arguments = ["--data", str(tmp_path), "--work", str(tmp_path / "work")]
    with pytest.raises(SystemExit, match="three ended with status -9"):
        reproduce.main(arguments)
    assert reproduce.main(arguments) == 0
    assert ran[:4] == ["one", "two", "three", "three"]
    name, rows = ran[4]
    assert name == "reproduce" and rows[-1] == {
        "module": "all",
        "seconds": 6.0,
        "processor seconds": 3.0,
    }


def test_tables_7_and_8_need_no_data():
    """Scores are drawn, with the spread and the tails of IMDB's."""
    pytest.importorskip("jax")
    from benchmarks.papers.recovery import SCORE_SPREAD, true_slalom, word_scores

    scores = word_scores(Run("recovery", "doc", ["--quick"], data=False))
    assert (
        scores.std() == pytest.approx(SCORE_SPREAD, rel=0.05)
        and (np.abs(scores) > 2 * SCORE_SPREAD).mean() > 0.03
    )
    assert (
        np.isfinite(true_slalom(scores, 10, seed=0).s).all()
        and (scores > 0).any()
        and (scores < 0).any()
    )


def test_both_expressions_of_tables_7_and_8():
    pytest.importorskip("jax")
    from benchmarks.papers import recovery

    rng = np.random.default_rng(0)
    noise = rng.normal(size=1000)
    assert recovery.mean_square(noise) == pytest.approx(100, rel=0.1)
    assert recovery.squared_mean(noise) < 1
    # A bias is all that the second one sees.
    assert recovery.squared_mean(noise - noise.mean() + 0.3) == pytest.approx(9)
    cells = recovery.printed_by_cell("logits") + recovery.printed_by_cell("parameters")
    assert len(cells) == 24
    assert {(name, L) for _, L, name, _ in cells} == {
        (name, L) for name in ("BERT", "GPT-2", "DistilBERT") for L in (1, 2, 6, 12)
    }
    assert sum(printed for *_, printed in cells) == pytest.approx(0.054 + 6.275, abs=1e-9)


def test_numbers_are_attributed_to_the_expression_that_made_them():
    """Runs of a known kind: tables of either expression are recognized from other runs."""
    pytest.importorskip("jax")
    from benchmarks.papers import recovery

    rng = np.random.default_rng(1)

    def run(kind):
        differences = rng.normal(scale=0.1, size=200) + rng.normal(scale=0.01)
        return kind(differences)

    for kind, is_square in ((recovery.mean_square, True), (recovery.squared_mean, False)):
        right = [
            recovery.nearer(
                np.mean([run(kind) for _ in range(5)]),
                [run(recovery.mean_square) for _ in range(5)],
                [run(recovery.squared_mean) for _ in range(5)],
            )
            == is_square
            for _ in range(20)
        ]
        assert np.mean(right) > 0.9


def test_a_small_run_says_what_it_left_out(tmp_path):
    quick = {"name": "paper1_lime", "rows": [], "settings": {"reviews": 3, "samples": 5000}}
    (tmp_path / "paper1_lime.json").write_text(json.dumps(quick), encoding="utf-8")
    lines = reproduce.left_out(tmp_path)
    full = json.loads((RESULTS / "paper1_lime.json").read_text(encoding="utf-8"))["settings"]
    smaller = f"paper1_lime was smaller: reviews 3 instead of {full['reviews']}."
    assert any(line.endswith(smaller) for line in lines)
    assert any("minilm was not run" in line for line in lines)
    assert any("BLOOM" in line or "13b" in line for line in lines)
    for name in reproduce.MODULES:
        assert not any(f"papers.{name} was not run" in line for line in lines)
    assert len(reproduce.left_out(None)) < len(lines)
