"""A model that reads texts gets the texts of a table as they are; each row is explained as if it
were alone.
"""

import dataclasses
import pickle

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs the corpus extra")

from attn_closed_form import MeanPooledText, PooledGame, Settings, load_demo_model
from attn_closed_form.app.models.protocol import TextModel
from attn_closed_form.app.models.text import tokenize
from attn_closed_form.app.models.units import Units
from attn_closed_form.app.run.batch import BATCH_CHARS, Failure, explain_inputs
from attn_closed_form.app.run.task import Task
from tests.app.models.test_many_texts import texts as generated
from tests.app.run.corpora import read, run_all, write

STATE = {"embedding.weight": np.diag([2.0, -2.0, 0.0]), "fc.weight": np.ones((1, 3))}


class WholeTexts(TextModel):
    """Reads a text as a transformer does: by a tokenizer, without a `vocabulary`."""

    outputs = ("no", "yes")
    groupings = ("words",)
    absences = ("deleted",)

    def read(self, raw):
        return Units(labels=tuple(raw.split("/")), groups={"words": np.arange(len(raw.split("/")))})

    def logits(self, units):
        return np.ones(1)

    def game(self, units, settings):
        values = np.full(len(units.labels), settings.coefficients[0])
        return PooledGame.from_scores(np.zeros(len(values)), values, labels=units.labels)


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (
            MeanPooledText.from_state_dict(STATE, ["good", "bad", "film"], outputs=["no", "yes"]),
            ["good", "film"],
        ),
        (WholeTexts(), ["A good film"]),
    ],
    ids=["mean of vectors", "whole texts"],
)
def test_the_folder_of_a_table_is_not_part_of_its_texts(model, labels, tmp_path):
    folder = tmp_path / "good" / "bad"
    folder.mkdir(parents=True)
    source = write(folder / "reviews.parquet", ["A good film"])
    run_all(source, tmp_path / "out", Task(model=model))
    (row,) = read(tmp_path / "out").to_pylist()
    assert (row["labels"], row["prediction"], row["error"]) == (
        labels,
        pytest.approx(1 / (1 + np.exp(-1))),
        None,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "count"), [("logit", 200), ("probability", 30)])
def test_a_row_does_not_depend_on_the_rows_beside_it(scale, count):
    model = load_demo_model()
    task = Task(methods=("shapley", "leave-one-out"), settings=Settings(scale=scale))
    raws = [None, *generated(count)]
    # Probabilities of long texts take long.
    raws = [raw for raw in raws if scale == "logit" or len(raw or "") < 1000]
    together = explain_inputs(task, raws)
    assert sum(isinstance(outcome, Failure) for outcome in together) >= 5
    for raw, outcome in zip(raws, together, strict=True):
        assert pickle.dumps(outcome) == pickle.dumps(explain_inputs(task, [raw])[0])
        if not isinstance(outcome, Failure):
            explanations = model.explain(raw, task.methods, scale=scale)
            assert (
                outcome.labels == explanations.labels
                and outcome.cells["prediction"] == explanations.prediction
            )
            assert all(
                outcome.scores[name].tobytes() == each.scores.tobytes()
                for name, each in explanations.items()
            )


def fastidious(text):
    """A tokenizer that refuses some texts."""
    if "refused" in text:
        raise ValueError("refused by the tokenizer")
    return tokenize(text)


def test_a_text_that_a_tokenizer_refuses_is_an_error_of_its_row_alone():
    model = dataclasses.replace(load_demo_model(), tokenizer=fastidious)
    first, refused, last = explain_inputs(
        Task(model=model), ["A fine film", "refused", "A dull film"]
    )
    assert isinstance(refused, Failure) and refused == "refused by the tokenizer"
    assert (first.cells["output"], last.cells["output"]) == ("positive", "negative")


def test_a_row_without_an_input_may_follow_a_text_that_fills_a_batch():
    long = "slow " * (BATCH_CHARS // len("slow ") + 1)
    explained, missing, last = explain_inputs(Task(), [long, None, "A fine film"])
    assert explained.labels == ("slow",)
    assert isinstance(missing, Failure)
    assert last.cells["output"] == "positive"
