"""The wrapper says what transformers says, batch by batch; tokens, words and bad input."""

import logging
import warnings

import numpy as np
import pytest

from attn_closed_form import TransformerClassifier, TruncationWarning, explain
from attn_closed_form.app.explanations.settings import Settings
from attn_closed_form.app.models.protocol import Model
from attn_closed_form.app.models.transformer import HIDDEN, PaddingWarning
from tests.tiny_transformers import (
    CLASSES,
    FAMILIES,
    REVIEW,
    WORDS,
    bert,
    byte_pairs,
    gpt2,
    need_torch,
    word_pieces,
)

need_torch()
import torch  # noqa: E402

# float32 networks; the bar of the benchmark on 200 texts of MiniLM is the same.
SAME_LOGITS = 1e-5
pytestmark = pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")


def texts(n=24, longest=30):
    rng = np.random.default_rng(0)
    words = [word for word in WORDS.split() if "#" not in word]
    return [" ".join(rng.choice(words, size=rng.integers(1, longest))) for _ in range(n)]


def own_logits(model, tokenizer, text):
    """What transformers itself says of one text, without padding."""
    with torch.inference_mode():
        return (
            model(**tokenizer(text, return_tensors="pt", truncation=True, max_length=40))
            .logits[0]
            .numpy()
        )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_logits_are_those_of_transformers_whatever_the_batch_size(family, batch_size):
    model, tokenizer = FAMILIES[family]()
    given = texts(longest=20 if family in ("bert", "distilbert") else 8)
    found = TransformerClassifier(model, tokenizer, batch_size=batch_size).predict_logits(given)
    expected = np.array([own_logits(model, tokenizer, text) for text in given])
    assert found.dtype == np.float64 and found.shape == (len(given), 3)
    assert np.abs(found - expected).max() < SAME_LOGITS
    assert np.abs(expected - expected[0]).max() > 100 * SAME_LOGITS  # the texts do differ


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_are_those_of_the_tokenizer(family):
    model = TransformerClassifier(*FAMILIES[family]())
    ids = model.encode(REVIEW)
    assert model.frame.around(ids).tolist() == model.tokenizer(REVIEW)["input_ids"]


def test_token_types_are_those_of_the_tokenizer():
    model, _ = bert()
    tokenizer = word_pieces(model_input_names=["input_ids", "token_type_ids", "attention_mask"])
    wrapped = TransformerClassifier(model, tokenizer)
    assert wrapped.frame.types == ((0,), 0, (0,))
    assert (
        np.abs(wrapped.predict_logits([REVIEW])[0] - own_logits(model, tokenizer, REVIEW)).max()
        < SAME_LOGITS
    )


def test_ids_go_in_as_they_are():
    """[won, der] decodes to "wonder", which would come back as other ids: the pieces must reach the
    model.
    """
    model = TransformerClassifier(*bert())
    seen = []
    handle = model.model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].tolist()), with_kwargs=True
    )
    model([np.array([19, 7, 18])])
    handle.remove()
    assert seen == [[[2, 19, 7, 18, 3]]]


def test_the_mode_of_every_module_is_restored_and_dropout_is_off():
    model, tokenizer = bert()
    wrapped = TransformerClassifier(model, tokenizer)
    model.train()
    model.bert.embeddings.eval()
    before = [module.training for module in model.modules()]
    first = wrapped.predict_logits([REVIEW])
    second = wrapped.predict_logits([REVIEW])
    assert np.array_equal(first, second)
    assert [module.training for module in model.modules()] == before
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hidden_token_is_passed_over(family):
    """Its own content makes no difference; only that something stands in its place."""
    model = TransformerClassifier(*FAMILIES[family]())
    ids = model.encode("the film was very good")
    hidden = ids.copy()
    hidden[2] = HIDDEN
    masked = {"input_ids": torch.tensor(model.frame.around(ids)[None]), "attention_mask": None}
    masked["attention_mask"] = torch.ones_like(masked["input_ids"])
    masked["attention_mask"][0, len(model.frame.prefix) + 2] = 0
    if family == "roberta":  # positions follow the pad token, so that it must be there
        masked["input_ids"][0, 3] = 1
    with torch.inference_mode():
        expected = model.model(**masked).logits[0].numpy()
    assert np.abs(model([hidden])[0] - expected).max() < SAME_LOGITS
    assert np.abs(model([ids])[0] - expected).max() > SAME_LOGITS


def test_words_are_the_tokenizers_and_spans_are_characters():
    units = TransformerClassifier(*bert()).read(REVIEW)
    assert units.group_labels["words"][-3:] == ("wonderful", "together", "!")
    assert units.labels[-5:] == ("won", "der", "ful", "together", "!")
    assert [REVIEW[a:b] for a, b in units.spans] == list(units.labels)
    found = TransformerClassifier(*bert(), samples=60).explain(REVIEW, "shapley")["shapley"]
    assert found.labels == units.group_labels["words"]
    assert [REVIEW[a:b] for spans in found.spans for a, b in spans] == list(found.labels)
    assert len(found.occurrences) == len(found.labels)


@pytest.mark.parametrize("family", ["roberta", "gpt2"])
def test_bytes_of_one_character_do_not_overlap(family):
    text = "a  😀 naïve\nfilm "
    units = TransformerClassifier(*FAMILIES[family]()).read(text)
    ends = [end for _, end in units.spans]
    assert all(start >= end for (start, _), end in zip(units.spans[1:], ends[:-1], strict=True))
    assert "".join(text[a:b] for a, b in units.spans) == "".join(text.split())
    assert "😀" in units.group_labels["words"] and "naïve" in units.group_labels["words"]


def test_unknown_words_are_marked():
    units = TransformerClassifier(*bert()).read("the zebra film")
    assert units.unknown.tolist() == [False, True, False]


def test_long_texts_are_cut_with_a_warning_that_counts():
    model = TransformerClassifier(*bert(positions=12), samples=40)
    with pytest.warns(
        TruncationWarning,
        match="text of 15 tokens: the model has room for 10; the last 5 are not read",
    ):
        found = explain(model, "the film was good . " * 3, "slalom-value")
    assert len(found["slalom-value"].scores) == 10 and len(found["slalom-value"].unseen) == 5
    with pytest.raises(ValueError, match=r"^sequences: "):
        model([np.arange(5, 16)])
    assert TransformerClassifier(*bert(), max_length=8).room == 6
    with pytest.raises(ValueError, match=r"^max_length: "):
        TransformerClassifier(*bert(), max_length=2)


def test_positions_of_roberta_start_behind_the_pad_token():
    assert TransformerClassifier(*FAMILIES["roberta"]()).room == 42 - 2 - 2


def test_a_decoder_without_a_pad_token():
    model, tokenizer = gpt2()
    wrapped = TransformerClassifier(model, tokenizer)
    assert tokenizer.pad_token_id is None and model.config.pad_token_id is None
    wrapped(list(map(np.array, ([5, 6, 7], [9], [0, 0]))))
    assert model.config.pad_token_id is None
    # The end of text in a sequence is no padding, whatever the others in the batch are.
    alone = wrapped([np.array([8, 0])])
    together = wrapped([np.array([8, 0]), np.array([5, 6, 7, 8])])
    assert np.abs(alone[0] - together[0]).max() < SAME_LOGITS


def test_a_decoder_that_pads_on_the_left_is_not_padded():
    model, tokenizer = gpt2(pad=0)
    expected = TransformerClassifier(model, tokenizer).predict_logits(texts(6, 8))
    tokenizer.padding_side = "left"
    assert (
        np.abs(TransformerClassifier(model, tokenizer).predict_logits(texts(6, 8)) - expected).max()
        < SAME_LOGITS
    )


def test_the_empty_text_of_a_decoder_is_its_first_token():
    wrapped = TransformerClassifier(*gpt2())
    assert np.array_equal(wrapped([np.array([], dtype=int)]), wrapped([np.array([0])]))
    encoder = TransformerClassifier(*bert())
    with torch.inference_mode():
        expected = encoder.model(torch.tensor([[2, 3]])).logits[0].numpy()
    assert np.abs(encoder([[]])[0] - expected).max() < SAME_LOGITS


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_text_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match=r"^text: "):
        TransformerClassifier(*bert()).explain(text)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    model, tokenizer = bert()
    expected = TransformerClassifier(model, tokenizer).predict_logits(texts(5))
    found = TransformerClassifier(model.to(dtype), tokenizer).predict_logits(texts(5))
    assert found.dtype == np.float64
    assert np.abs(found - expected).max() < 0.1


def test_half_precision_that_overflows_says_so():
    model, tokenizer = bert()
    model.classifier.weight.data.fill_(1e38)
    model.classifier.weight.data[:, 0] = float("inf")
    with pytest.raises(ValueError, match=r"^model: "):
        TransformerClassifier(model, tokenizer).predict_logits([REVIEW])


def test_one_output_is_a_score_without_probabilities():
    model = TransformerClassifier(*bert(names=("stars",)), samples=60)
    found = model.explain(REVIEW, ["shapley", "leave-one-out"])
    assert found.output == "stars" and found.probabilities is None
    assert "stars" in found.report()
    with pytest.raises(ValueError, match=r"^outputs: "):
        model.predict_proba([REVIEW])


def test_one_logit_with_two_names_is_a_log_odds():
    model, tokenizer = bert(names=("x",))
    wrapped = TransformerClassifier(model, tokenizer, outputs=("bad", "good"), samples=60)
    chance = wrapped.predict_proba([REVIEW])[0]
    assert chance[1] == pytest.approx(1 / (1 + np.exp(-wrapped.predict_logits([REVIEW])[0, 0])))
    assert wrapped.explain(REVIEW, "leave-one-out").output == ("bad", "good")[int(chance[1] > 0.5)]


def test_several_labels_at_once_have_probabilities_of_their_own():
    model = TransformerClassifier(*bert(problem_type="multi_label_classification"), samples=60)
    logits = model.predict_logits([REVIEW])
    assert np.allclose(model.predict_proba([REVIEW]), 1 / (1 + np.exp(-logits)))
    found = model.explain(REVIEW, "shapley", output="odds:neutral")
    assert found.prediction == pytest.approx(logits[0, 1])
    assert found.reasons().sides == ("not neutral", "neutral")


def test_log_odds_of_a_class_against_the_rest():
    model = TransformerClassifier(*bert(), samples=60)
    p = model.predict_proba([REVIEW])[0]
    found = model.explain(REVIEW, "leave-one-out", output="odds:neutral")
    assert found.output == "neutral against the rest"
    assert found.prediction == pytest.approx(np.log(p[1] / (1 - p[1])))
    without = model.predict_proba([REVIEW.replace("film ", "", 1)])[0]
    removed = np.log(without[1] / (1 - without[1]))
    assert found["leave-one-out"].scores[1] == pytest.approx(found.prediction - removed, abs=1e-6)


def test_a_margin_of_two_classes():
    model = TransformerClassifier(*bert(), samples=60)
    z = model.predict_logits([REVIEW])[0]
    margin = model.explain(REVIEW, "loo", output="margin:positive,neutral", scale="logit")
    assert margin.prediction == pytest.approx(z[2] - z[1])
    chance = model.explain(REVIEW, "loo", output="margin:positive,neutral").prediction
    assert chance == pytest.approx(1 / (1 + np.exp(z[1] - z[2])))


def test_odds_of_an_exact_model_are_refused_with_the_reason():
    class Exact(Model):
        outputs = CLASSES
        groupings = ("words",)
        absences = ("deleted",)

    with pytest.raises(ValueError, match=r"^output: "):
        Settings(output="odds:neutral").resolve(Exact(), np.zeros(3))


def test_a_slow_tokenizer_has_tokens_as_players():
    class Slow:
        """A tokenizer that does not say where its tokens stand."""

        is_fast = False
        padding_side = "right"
        model_max_length = 40
        unk_token_id = 1
        mask_token_id = 4

        def __init__(self, tokenizer):
            self.tokenizer = tokenizer

        def __call__(self, text, **options):
            assert "return_offsets_mapping" not in options
            found = self.tokenizer(text, **options)
            return {"input_ids": found["input_ids"], "attention_mask": found["attention_mask"]}

        def convert_ids_to_tokens(self, ids):
            return self.tokenizer.convert_ids_to_tokens(ids)

    model, tokenizer = bert()
    wrapped = TransformerClassifier(model, Slow(tokenizer), samples=60)
    assert wrapped.groupings == ("tokens",)
    found = wrapped.explain("the wonderful film", ["shapley", "leave-one-out"])
    assert found["shapley"].labels == ("the", "won", "##der", "##ful", "film")
    assert "##der" in found.report()


def masked_words(padding_side):
    """A model with logits for every token, and its tokenizer."""
    transformers = pytest.importorskip("transformers")
    tokenizer = bert()[1]
    tokenizer.padding_side = padding_side
    return transformers.BertForMaskedLM(bert()[0].config), tokenizer


WRONG = {
    "no tokenizer": (
        lambda: (bert()[0], None),
        TypeError,
        "tokenizer: expected the tokenizer of the model",
    ),
    "no model": (lambda: ("bert", bert()[1]), TypeError, "model: expected a sequence classifier"),
    "no head": (
        lambda: (bert()[0].bert, bert()[1]),
        TypeError,
        "model: expected .*ForSequenceClassification",
    ),
    "a model of masked words": (
        lambda: masked_words("right"),
        TypeError,
        "model: expected one row of logits per text",
    ),
    "a model of masked words that pads at the beginning": (
        lambda: masked_words("left"),
        TypeError,
        "model: expected one row of logits per text",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_explained_is_refused_in_one_line(name):
    make, error, message = WRONG[name]
    with pytest.raises(error, match=message) as caught:
        TransformerClassifier(*make())
    assert "\n" not in str(caught.value)


def test_ids_outside_the_vocabulary_are_refused():
    model = TransformerClassifier(*bert())
    with pytest.raises(ValueError, match=r"^sequences: "):
        model([np.array([5, 10_000])])
    with pytest.raises(ValueError, match=r"^sequences: "):
        model([np.array([0.5])])
    assert model([]).shape == (0, 3)


def test_names_of_classes():
    model, tokenizer = bert()
    assert TransformerClassifier(model, tokenizer).outputs == CLASSES
    assert TransformerClassifier(model, tokenizer).predict([REVIEW]).tolist()[0] in CLASSES
    with pytest.raises(ValueError, match=r"^outputs: "):
        TransformerClassifier(model, tokenizer, outputs=("a", "b"))


def test_nothing_is_printed(caplog, capsys):
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        TransformerClassifier(*bert(positions=12)).read("the film was good . " * 3)
    assert not caplog.records and not capsys.readouterr().err


def test_progress_is_reported():
    seen = []
    model = TransformerClassifier(*bert(), batch_size=2, progress=lambda *told: seen.append(told))
    model([np.array([5, 6])] * 3)
    assert seen == [("model", 2, 3), ("model", 3, 3)]


def test_byte_pairs_have_no_special_tokens():
    assert (
        byte_pairs()("a film")["input_ids"]
        == byte_pairs()("a film", add_special_tokens=False)["input_ids"]
    )


def small(family, **sizes):
    """A sequence classifier of the transformers package with random weights."""
    import torch
    import transformers

    tokenizer = word_pieces()
    make = getattr(transformers, f"{family}Config")
    config = make(vocab_size=len(tokenizer), num_labels=len(CLASSES), **sizes)
    torch.manual_seed(0)
    network = getattr(transformers, f"{family}ForSequenceClassification")(config)
    return network.double().eval(), tokenizer


ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}
READ_PADDING = {
    "FNet": ENCODER,
    "ConvBert": ENCODER | {"embedding_size": 32, "num_attention_heads": 4},
    "XLNet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64},
}


@pytest.mark.parametrize("family", READ_PADDING)
def test_a_model_that_reads_padding_does_not_share_batches(family):
    with pytest.warns(PaddingWarning, match=family):
        model = TransformerClassifier(*small(family, **READ_PADDING[family]))
    assert "pad" not in model.absences
    sequences = [np.arange(5, 5 + n) for n in (1, 3, 8, 3)]
    alone = np.concatenate([model([sequence]) for sequence in sequences])
    np.testing.assert_allclose(model(sequences), alone, rtol=1e-10, atol=1e-12)


def test_a_model_that_skips_padding_shares_batches(recwarn):
    network, tokenizer = bert()
    model = TransformerClassifier(network, tokenizer, batch_size=4)
    assert "pad" in model.absences and not [w for w in recwarn if w.category is PaddingWarning]
    calls = []
    network.register_forward_pre_hook(lambda *_: calls.append(1))
    model([np.arange(5, 5 + n) for n in (1, 3, 8, 2)])
    assert len(calls) == 1
