"""What the comparison of head games rests on: labels of texts, and knock-outs that the network itself makes."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import head_games as benchmark


def test_labels_follow_the_rule():
    ids, labels = benchmark.texts(np.random.default_rng(0), 20)
    for row, label in zip(ids.tolist(), labels, strict=True):
        mood = 0
        for before, word in zip([0, *row], row, strict=False):
            sign = (word in benchmark.POSITIVE) - (word in benchmark.NEGATIVE)
            mood += -sign if before in benchmark.NOT else sign
        assert label == (mood > 0)


@pytest.mark.parametrize("family", benchmark.FAMILIES)
def test_the_network_masks_what_the_game_removes(family):
    import torch

    model = benchmark.make_model(family).eval()
    ids = benchmark.ids_of(family, benchmark.texts(np.random.default_rng(1), 1)[0])
    if family == "BERT":
        query = 0
    else:
        query = benchmark.LENGTH
    n = benchmark.LENGTH + 1
    sets = np.zeros((2, n), dtype=bool)
    sets[1, 5] = True
    last = benchmark.LAYERS - 1
    plain, without = benchmark.knocked_out(family, model, ids, last, query, sets)
    with torch.no_grad():
        assert plain == pytest.approx(
            float(benchmark.margin(family, model(input_ids=ids).logits)[0]), abs=1e-6
        )
    assert without != plain
    # Small models that are not trained are nearly linear, so the game is nearly exact.
    games = benchmark.head_games_of_layer(
        model,
        {"input_ids": ids},
        last,
        lambda out: benchmark.margin(family, out.logits)[0],
        [query],
    )
    assert games.knock_out(sets[1]).sum() == pytest.approx(without - plain, rel=0.2, abs=1e-6)
