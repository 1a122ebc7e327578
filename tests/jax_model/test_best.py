"""The choice between the table model and the attention model that starts from it."""

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
