"""Runs of models whose probabilities have no exact values: sampled by default, with their errors in
every table.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from attn_closed_form import BagClassifier, explain
from attn_closed_form.app.run.table import explain_table
from attn_closed_form.app.run.task import RunError
from tests.texts import REVIEW, model_for

pytest.importorskip("pyarrow", reason="runs need pyarrow (extra corpus)")

TEXTS = [REVIEW, " ".join(REVIEW.split()[:3])]
ERRORS = "shapley-sampled_standard_error"


def test_the_default_of_three_classes_is_the_sampled_probability() -> None:
    model = model_for(REVIEW, C=3)
    rows = explain_table(model, TEXTS, form="wide").to_pylist()
    assert [row["error"] for row in rows] == [None, None]
    for text, row in zip(TEXTS, rows, strict=True):
        e = explain(model, text)["shapley-sampled"]
        assert row["scale"] == "probability" and row["prediction"] == e.prediction
        assert row["shapley-sampled"] == e.scores.tolist()
        assert e.standard_error is not None and row[ERRORS] == e.standard_error.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_every_file_has_the_standard_errors(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    explain_table(model_for(REVIEW, C=3), TEXTS, path, form="long")
    if suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
    else:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) > len(TEXTS)
    errors = np.array([float(row[ERRORS]) for row in rows])
    assert (errors >= 0).all() and (errors <= 5e-4).all()


def test_a_method_that_cannot_work_is_an_error_before_the_first_row() -> None:
    model = model_for(REVIEW, C=3)
    with pytest.raises(RunError, match="no exact values, which 'shapley' needs"):
        explain_table(model, TEXTS, methods="shapley", scale="probability")
    exact = explain_table(model, TEXTS, methods="shapley", form="wide").to_pylist()
    assert {row["scale"] for row in exact} == {"logit"}
    assert all(row["shapley_error"] is not None for row in exact)


@pytest.mark.slow  # samples until the error is small
def test_the_wanted_error_is_kept() -> None:
    rng = np.random.default_rng(0)
    model = BagClassifier.from_attention(2 * rng.normal(size=30), 3 * rng.normal(size=(30, 3)))
    found = {
        wanted: explain(model, model.bag, max_error=wanted)["shapley-sampled"]
        for wanted in (5e-3, 5e-4)
    }
    for wanted, e in found.items():
        assert e.standard_error is not None and e.standard_error.max() <= wanted
    calls = {wanted: e.model_calls or 0 for wanted, e in found.items()}
    assert calls[5e-4] > calls[5e-3]
    again = explain(model, model.bag, max_error=5e-4)["shapley-sampled"]
    assert np.array_equal(again.scores, found[5e-4].scores)
