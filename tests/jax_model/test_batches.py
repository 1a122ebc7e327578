"""From texts to batches: padding, windows, random [UNK]s, and rows of any length without
positions.
"""

from dataclasses import replace

import numpy as np

from attn_closed_form.app.models.text import Vocabulary
from jax_model.training.batches import SHORTEST_ROW, Batches, encode_documents, pad_rows
from jax_model.training.config import Config


def batches_of(texts, **changes):
    vocabulary = Vocabulary(["[CLS]", "[UNK]", *(f"w{i}" for i in range(400))])
    documents = encode_documents(vocabulary, texts, [i % 2 for i in range(len(texts))])
    settings = {
        "T_max": 11,
        "batch_size": 4,
        "max_unk": 0.0,
        "crop": 0.0,
        "seed": 5,
        "positions": "sinusoidal",
    }
    return Batches(documents, Config(**settings | changes), cls=0, unk=1)


def with_settings(batches, **changes):
    return batches._replace(config=replace(batches.config, **changes))


def test_padding_is_that_of_the_core():
    batches = batches_of(["w0 w1", "", " ".join(f"w{i}" for i in range(20))])
    ids = pad_rows(batches.documents, np.arange(3), 6, cls=0, filler=1)
    np.testing.assert_array_equal(ids, [[0, 2, 3, 1, 1, 1], [0, 1, 1, 1, 1, 1], [0, 2, 3, 4, 5, 6]])


def test_a_batch_depends_on_seed_epoch_and_step_alone():
    texts = [" ".join(f"w{j}" for j in range(i, i + 7)) for i in range(13)]
    batches = batches_of(texts, max_unk=1.0, crop=0.5)
    assert batches.steps == 3
    first = batches.step_batch(2, 1, batches.order(2))
    batches.step_batch(0, 0, batches.order(0))
    again = batches.step_batch(2, 1, batches.order(2))
    np.testing.assert_array_equal(first[0], again[0])
    for other in (
        batches.step_batch(3, 1, batches.order(3)),
        batches.step_batch(2, 0, batches.order(2)),
    ):
        assert not np.array_equal(first[0], other[0])
    different = with_settings(batches, seed=6)
    assert not np.array_equal(first[0], different.step_batch(2, 1, different.order(2))[0])


def test_unk_rates_differ_by_document_and_cover_their_range():
    texts = [" ".join(f"w{i}" for i in range(400))] * 64
    batches = batches_of(texts, T_max=401, batch_size=64, max_unk=0.8)
    ids, _ = batches.step_batch(0, 0, batches.order(0))
    rates = (ids[:, 1:] == 1).mean(axis=1)
    assert np.all(ids[:, 0] == 0)
    assert rates.min() < 0.1 and 0.7 < rates.max() < 0.9
    assert abs(rates.mean() - 0.4) < 4 * 0.8 / np.sqrt(12 * 64)
    clean, labels = with_settings(batches, max_unk=0.0).step_batch(0, 0, batches.order(0))
    assert not np.any(clean == 1)
    np.testing.assert_array_equal(labels, batches.order(0) % 2)


def test_a_window_is_a_run_of_the_document():
    batches = batches_of([" ".join(f"w{i}" for i in range(40))] * 64, batch_size=64, crop=1.0)
    ids, _ = batches.step_batch(0, 0, batches.order(0))
    starts = ids[:, 1] - 2
    np.testing.assert_array_equal(ids[:, 1:], 2 + starts[:, None] + np.arange(10))
    assert starts.min() <= 3 and starts.max() >= 27 and starts.max() <= 30
    # Some batch has the window that ends with the document's last word, w39.
    last = max(batches.step_batch(epoch, 0, batches.order(epoch))[0].max() for epoch in range(10))
    assert last == 2 + 39


def test_unknown_words_take_all_their_occurrences_with_them():
    texts = [" ".join(f"w{j % 30}" for j in range(i, i + 90)) for i in range(64)]
    batches = batches_of(texts, T_max=91, batch_size=64, max_unk=1.0, unk_by="words")
    ids, _ = batches.step_batch(0, 0, batches.order(0))
    whole = pad_rows(batches.documents, batches.order(0), 91, cls=0, filler=1)
    lost = (ids != whole)[:, 1:]
    for row, words in zip(lost, whole[:, 1:], strict=True):
        for word in set(words.tolist()):
            assert len(set(row[words == word].tolist())) == 1
    # Rates are uniform in [0, 1]: half of the words on average, and no word is lost more often than
    # others.
    assert 0.4 < lost.mean() < 0.6
    by_word = [lost[whole[:, 1:] == word].mean() for word in range(2, 32)]
    assert max(by_word) - min(by_word) < 0.35
    other, _ = batches.step_batch(1, 0, batches.order(0))
    assert not np.array_equal(ids, other)


def test_without_positions_rows_have_the_lengths_of_their_documents():
    lengths = np.random.default_rng(0).integers(0, 300, size=130)
    batches = batches_of(
        [" ".join(["w7"] * n) for n in lengths], T_max=201, positions="none", crop=1.0
    )
    order = batches.order(3)
    for step in range(batches.steps):
        ids, labels = batches.step_batch(3, step, order)
        rows = order[4 * step : 4 * step + 4]
        np.testing.assert_array_equal(labels, rows % 2)
        np.testing.assert_array_equal((ids == 9).sum(axis=1), np.minimum(lengths[rows], 200))
        assert (ids[:, 0] == 0).all() and set(np.unique(ids[:, 1:])) <= {-1, 9}
        assert ids.shape[1] in (SHORTEST_ROW, 64, 128, 201) and ids.shape[1] > min(
            200, lengths[rows].max()
        )


def test_without_positions_lost_words_are_gone():
    batches = batches_of(
        [" ".join(f"w{i}" for i in range(400))] * 8, T_max=401, positions="none", max_unk=1.0
    )
    ids, _ = batches.step_batch(0, 0, batches.order(0))
    assert (ids != 1).all() and 0.05 < (ids == -1).mean() < 0.95


def test_words_are_left_out_of_documents():
    vocabulary = Vocabulary(["[CLS]", "[UNK]", "a", "dull", "film"])
    documents = encode_documents(vocabulary, ["a dull film", "a", "", "film a"], [0, 1, 0, 1])
    without = documents.without(np.array([False, False, True, False, False]))
    assert without.ids.tolist() == [3, 4, 4]
    assert without.starts.tolist() == [0, 2, 2, 2, 3]
    assert without.labels.tolist() == documents.labels.tolist()
