"""The choice between the table model and the attention model that starts from it."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("jax")
pytest.importorskip("scipy")

from attn_closed_form.app.files.tables import Labelled
from jax_model.training import best
from jax_model.training.best import train_best
from jax_model.training.train_tables import TableOptions


@pytest.mark.slow
def test_many_short_texts_in_several_folds(monkeypatch):
    """A table of many short texts is cross-validated; the attention model has the first fold."""
    monkeypatch.setattr(best, "MANY_TEXTS", 100)
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 2
    words = np.array([["dull", "awful", "slow"], ["fine", "lovely", "warm"]])
    texts = [" ".join([*rng.choice(["a", "film", "the"], 3), rng.choice(words[i])]) for i in labels]
    data = Labelled(texts, labels, ("bad", "good"))
    result = train_best(data, TableOptions(), progress=False)
    assert set(result.metrics["held_out_losses"]) == {"tables", "attention"}
    assert result.model.predict(["lovely", "dull"]).tolist() == ["good", "bad"]
    (baseline,) = result.model.predict_proba([""])
    np.testing.assert_allclose(baseline, [0.5, 0.5], atol=1e-3)


@pytest.mark.parametrize(
    ("named", "refit", "expected"),
    [(True, True, "all"), (True, False, "none"), (False, True, "all"), (False, False, "all")],
)
def test_only_held_out_texts_that_are_named_stay_out_of_the_fit(
    monkeypatch, named, refit, expected
):
    class Begun(Exception):
        """The attention model would be trained now."""

    def begin(config, *arguments, **options):
        raise Begun(config)

    rows = np.arange(4)
    tables = SimpleNamespace(folds=[SimpleNamespace(training=rows[:2], held_out=rows[2:])])
    monkeypatch.setattr(best, "MANY_TEXTS", 1)
    monkeypatch.setattr(best, "choose_tables", lambda *arguments: tables)
    monkeypatch.setattr(best, "table_start", lambda *arguments: None)
    monkeypatch.setattr(import_module("jax_model.training.train"), "train", begin)
    data = Labelled(["a film", "no film"] * 2, np.array([1, 0, 1, 0]), ("bad", "good"))
    with pytest.raises(Begun) as begun:
        train_best(data, TableOptions(), data if named else None, refit, progress=False)
    assert begun.value.args[0].refit == expected
