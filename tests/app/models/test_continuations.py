"""A language model as a classifier of its next token: `output="token: good"`."""

import json
from itertools import product

import numpy as np
import pytest

from attn_closed_form import TransformerClassifier
from attn_closed_form.app.cli.main import main
from tests.tiny_transformers import LANGUAGE_MODELS, bert, llama_words, need_torch, trained_llama

need_torch()
import torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")
TEXT = "The film was slow, but the leads are"
#: Continuations of one token and of several, by family.
CONTINUATIONS = {
    "gpt2": (" film", " was", " a slow start"),
    "llama": ("good", "bad", "wonderful film"),
}


def chance(model, tokenizer, text, continuation):
    """The probability that the continuation follows, from one run of the model for each of its
    tokens.
    """
    ids = [i for i in tokenizer(text)["input_ids"] if tokenizer.convert_ids_to_tokens(i) != "[SEP]"]
    ids = ids or [tokenizer.bos_token_id]
    product_of_chances = 1.0
    for token in tokenizer(continuation, add_special_tokens=False)["input_ids"]:
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1].double()
        product_of_chances *= float(torch.softmax(logits, dim=0)[token])
        ids = [*ids, token]
    return product_of_chances


@pytest.mark.parametrize("family", LANGUAGE_MODELS)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_logit_is_the_log_odds_of_the_continuation(family, batch_size):
    model, tokenizer = LANGUAGE_MODELS[family]()
    texts = [TEXT, "a film", "a slow film", "the bad film was"]
    for continuation in CONTINUATIONS[family]:
        wrapped = TransformerClassifier(
            model, tokenizer, continuations=(continuation,), batch_size=batch_size
        )
        expected = np.array([chance(model, tokenizer, text, continuation) for text in texts])
        assert np.allclose(wrapped.predict_proba(texts)[:, 1], expected, atol=1e-6)
        assert wrapped.outputs == ("another token", f'"{continuation}"')


@pytest.mark.parametrize("family", LANGUAGE_MODELS)
def test_two_continuations_are_compared_with_each_other(family):
    model, tokenizer = LANGUAGE_MODELS[family]()
    for first, second in product(CONTINUATIONS[family], repeat=2):
        if first != second:
            logit = TransformerClassifier(
                model, tokenizer, continuations=(first, second)
            ).predict_logits([TEXT])
            expected = np.log(
                chance(model, tokenizer, TEXT, first) / chance(model, tokenizer, TEXT, second)
            )
            assert logit[0, 0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", LANGUAGE_MODELS)
def test_shapley_values_of_a_token_add_up_from_the_empty_text(family):
    model, tokenizer = LANGUAGE_MODELS[family]()
    token = CONTINUATIONS[family][0]
    found = TransformerClassifier(model, tokenizer, samples=300).explain(
        TEXT, output=f"token:{token}"
    )
    headline = found["shapley-sampled"]
    assert found.output == f'"{token}"' and found.scale.name == "probability"
    assert found.prediction == pytest.approx(chance(model, tokenizer, TEXT, token), abs=1e-6)
    assert headline.baseline == pytest.approx(chance(model, tokenizer, "", token), abs=1e-6)
    assert headline.scores.sum() == pytest.approx(found.prediction - headline.baseline, abs=1e-6)
    other = CONTINUATIONS[family][1]
    against = TransformerClassifier(model, tokenizer, samples=60).explain(
        TEXT, "leave-one-out", output=f"token:{token},{other}", scale="logit"
    )
    expected = np.log(chance(model, tokenizer, TEXT, token) / chance(model, tokenizer, TEXT, other))
    assert against.prediction == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("family", LANGUAGE_MODELS)
def test_without_an_output_the_most_probable_token_is_explained(family):
    model, tokenizer = LANGUAGE_MODELS[family]()
    found = TransformerClassifier(model, tokenizer, samples=60).explain(TEXT, "leave-one-out")
    frame = [
        i for i in tokenizer(TEXT)["input_ids"] if tokenizer.convert_ids_to_tokens(i) != "[SEP]"
    ]
    with torch.inference_mode():
        chances = torch.softmax(model(input_ids=torch.tensor([frame])).logits[0, -1], dim=0).numpy()
    best = int(chances.argmax())
    assert found.prediction == pytest.approx(float(chances[best]), abs=1e-6)
    assert found.output == f'"{tokenizer.decode([best])}"'


def test_a_comma_can_be_the_token():
    model = TransformerClassifier(*llama_words(), samples=60)
    assert model.explain(TEXT, "leave-one-out", output="token:,").output == '","'


@pytest.mark.parametrize(
    ("make", "output", "message"),
    [
        (bert, "token:good", "^output: "),
        (llama_words, "good", "^output: "),
        (llama_words, "token:", "^output: "),
        (llama_words, "token:good,good", "^output: "),
        (llama_words, "token:good,bad,slow", "^output: "),
        (llama_words, "token:good " + "film " * 50, "^max_length: "),
    ],
)
def test_what_cannot_be_explained_is_said(make, output, message):
    with pytest.raises(ValueError, match=message):
        TransformerClassifier(*make(), samples=60).explain(TEXT, "leave-one-out", output=output)


@pytest.fixture(scope="module")
def reviewer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "reviewer"
    for part in trained_llama():
        part.save_pretrained(folder)
    return folder


def test_a_trained_decoder_gets_its_verdict_from_the_right_word(reviewer, capsys):
    text = "the start was wonderful , the film is"
    options = ["--output", "token:good,bad", "--samples", "600", "--json"]
    assert main(["transformer", str(reviewer), text, *options]) == 0
    told = json.loads(capsys.readouterr().out)
    scores = dict(zip(told["labels"], told["methods"]["shapley-sampled"]["scores"], strict=True))
    assert max(scores, key=scores.get) == "wonderful" and told["prediction"] > 0.9
    assert (
        main(["transformer", str(reviewer), text, "--output", "token:good", "--samples", "300"])
        == 0
    )
    assert '"good"' in capsys.readouterr().out
