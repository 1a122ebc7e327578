"""The door of transformers without torch: a tiny BERT whose answers were recorded
(tests/recorded/make.py).

The wrapper, the fit and the views are the library's own; only the network is replaced, by a table
from what it sees (ids without padding, and which of them attention passes over) to the logits that
transformers gave.
"""

import json
from contextlib import nullcontext
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from attn_closed_form import TransformerClassifier
from attn_closed_form.app.explanations.settings import Settings
from attn_closed_form.app.models import hugging_face, transformer
from tests.recorded import make

pytestmark = pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")
# float32 logits
SAME = 1e-6


@cache
def record():
    with np.load(make.TRANSFORMER) as file:
        sequences = [tuple(int(i) for i in row if i >= make.HIDDEN) for row in file["sequences"]]
        return json.loads(str(file["about"])), dict(zip(sequences, file["logits"], strict=True))


class Tensor:
    """As much of a tensor as the wrapper touches."""

    def __init__(self, array):
        self.array = array
        self.ndim = array.ndim

    def to(self, device):
        return self

    def float(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.array

    def __getitem__(self, rows):
        return Tensor(self.array[rows])


class RecordedForSequenceClassification:
    """Answers from the record; an input that it does not have is a KeyError."""

    def __init__(self):
        about, self.answers = record()
        self.about = about
        self.batches = []
        names = dict(enumerate(about["names"]))
        self.config = SimpleNamespace(
            num_labels=len(names),
            id2label=names,
            max_position_embeddings=about["positions"],
            pad_token_id=about["pad_token_id"],
        )

    def parameters(self):
        return iter([SimpleNamespace(device="cpu")])

    def modules(self):
        return iter(())

    def named_modules(self):
        return iter(())

    def get_input_embeddings(self):
        return SimpleNamespace(weight=np.zeros((self.about["vocabulary"], 1)))

    def eval(self):
        return self

    def __call__(self, input_ids, attention_mask):
        before = len(self.about["before"])
        after = len(self.about["after"])
        rows = []
        for ids, seen in zip(input_ids.array, attention_mask.array, strict=True):
            end = np.flatnonzero(seen)[-1] + 1  # [SEP] is always seen; what follows is padding
            assert (ids[end:] == self.about["pad_token_id"]).all() and not seen[end:].any()
            assert (
                ids[:before].tolist() == self.about["before"]
                and ids[end - after : end].tolist() == self.about["after"]
            )
            inner = np.where(seen, ids, make.HIDDEN)[before : end - after]
            rows.append(self.answers[tuple(inner.tolist())])
        self.batches.append(len(rows))
        return SimpleNamespace(logits=Tensor(np.array(rows)))


class Encoding(dict):
    def __init__(self, words, **fields):
        super().__init__(**fields)
        self.words = words

    def word_ids(self):
        return self.words


class RecordedTokenizer:
    is_fast = True
    padding_side = "right"
    model_max_length = 10**30

    def __init__(self):
        self.about = record()[0]
        for name in ("mask_token_id", "pad_token_id", "unk_token_id"):
            setattr(self, name, self.about[name])

    def __call__(self, text, add_special_tokens=True, **options):
        texts = {make.TEXT: (self.about["ids"], self.about["offsets"], self.about["words"])}
        ids, offsets, words = texts.get(text) or (self.about["the"], [(0, 3)], [0])
        if add_special_tokens:
            ids = [*self.about["before"], *ids, *self.about["after"]]
        return Encoding(words, input_ids=ids, offset_mapping=offsets)

    def convert_ids_to_tokens(self, ids):
        return [self.about["tokens"][self.about["ids"].index(i)] for i in ids]


@pytest.fixture
def model(monkeypatch):
    torch = SimpleNamespace(inference_mode=nullcontext, from_numpy=Tensor, float64=np.float64)
    for module in (transformer, hugging_face):
        monkeypatch.setattr(module, "imported_package", lambda name: torch)
    # The record has no answers to the short text that shows whether a network reads padding; BERT
    # does not.
    monkeypatch.setattr(TransformerClassifier, "reads_padding", False)
    return TransformerClassifier(
        RecordedForSequenceClassification(), RecordedTokenizer(), samples=200
    )


def value(present, absent, output):
    """The recorded logit of the text with tokens absent."""
    about, answers = record()
    ids = about["ids"]
    if absent == "deleted":
        return answers[tuple(token for token, here in zip(ids, present, strict=True) if here)][
            output
        ]
    if absent == "pad":
        stand_in = make.HIDDEN
    else:
        stand_in = about["mask_token_id"]
    return answers[
        tuple(token if here else stand_in for token, here in zip(ids, present, strict=True))
    ][output]


def test_logits_and_units_are_those_of_the_record(model):
    about, answers = record()
    assert np.abs(model.predict_logits([make.TEXT])[0] - answers[tuple(about["ids"])]).max() < SAME
    assert model.outputs == tuple(about["names"])
    assert model.read(make.TEXT).group_labels["words"] == tuple(make.TEXT.split())


@pytest.mark.parametrize("absent", ["deleted", "mask", "pad"])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_every_coalition_reaches_the_network_as_it_should(model, absent, batch_size):
    """Frame, padding, batches of similar length, masks: all 32 coalitions, in every class."""
    object.__setattr__(model, "batch_size", batch_size)
    units = model.read(make.TEXT)
    masks = list(product([False, True], repeat=5))
    for output in range(3):
        settings = Settings(output=output, absent=absent).resolve(model, model.logits(units))
        expected = [value(mask, absent, output) for mask in masks]
        assert np.abs(model.value(units, settings, np.array(masks)) - expected).max() < SAME
    assert max(model.model.batches) <= batch_size
    assert sum(model.model.batches) <= 33  # nothing is asked twice


@pytest.mark.parametrize("absent", ["deleted", "mask", "pad"])
def test_explanations_of_the_transformer_itself(model, absent):
    methods = ["leave-one-out", "shapley", "slalom-value"]
    found = model.explain(make.TEXT, methods, output=1, absent=absent, scale="logit")
    everyone = np.ones(5, dtype=bool)
    expected = [value(everyone, absent, 1) - value(np.arange(5) != j, absent, 1) for j in range(5)]
    assert np.abs(found["leave-one-out"].scores - expected).max() < SAME
    assert found["leave-one-out"].labels == tuple(make.TEXT.split())
    assert found["shapley"].scores.shape == found["slalom-value"].scores.shape == (5,)
    assert "film" in found.report()


def test_the_fit_reports_its_error_on_the_record(model):
    """Where few tokens are absent, the surrogate is about as far from the transformer as the
    reported error says.
    """
    units = model.read(make.TEXT)
    settings = Settings(output=1).resolve(model, model.logits(units))
    game = model.game(units, settings)
    fit = model.fit(units, settings)
    masks = np.array(list(product([False, True], repeat=5)))
    errors = game.value(masks) - [value(mask, "deleted", 1) for mask in masks]
    few = masks.sum(axis=1) >= 3
    assert 0 < fit.error < fit.spread
    assert np.sqrt((errors[few] ** 2).mean()) < 3 * fit.error
    assert abs(errors[-1]) == pytest.approx(abs(fit.at_text), abs=SAME)


def test_the_record_is_what_transformers_says():
    from tests.tiny_transformers import bert, need_torch

    need_torch()
    about, answers = record()
    network, tokenizer = bert()
    wrapped = TransformerClassifier(network, tokenizer)
    sequences = list(answers)
    got = wrapped([np.array(sequence, dtype=int) for sequence in sequences])
    # Another version of torch may draw other weights from the same seed; then there is nothing to
    # compare.
    if np.abs(got[0] - answers[sequences[0]]).max() > 1e-2:
        pytest.skip("this torch makes other weights; python -m tests.recorded.make records them")
    assert np.abs(got - np.array([answers[sequence] for sequence in sequences])).max() < 1e-5
    assert tokenizer(make.TEXT, add_special_tokens=False)["input_ids"] == about["ids"]
