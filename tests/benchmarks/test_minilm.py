"""The benchmarks on a real transformer, run on a tiny one with random weights: no download, a
second or two.
"""

import dataclasses
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
for package in ("captum", "slalom_explanations", "lime", "shap"):
    pytest.importorskip(package)

from attn_closed_form import Slalom  # noqa: E402
from benchmarks.faithfulness import removal  # noqa: E402
from benchmarks.papers import finetune_minilm as tuning  # noqa: E402
from benchmarks.papers import minilm, minilm_fit, minilm_model, minilm_rivals  # noqa: E402
from benchmarks.papers.minilm_inside import (  # noqa: E402
    HandedNorm,
    HandedThrough,
    Inside,
    half_product,
    relevance_model,
)
from benchmarks.papers.minilm_model import (  # noqa: E402
    Counted,
    Document,
    Store,
    as_transformer,
    encode,
    first_sentences,
)
from benchmarks.papers.minilm_rows import Measured, all_rows, for_model  # noqa: E402

WORDS = [
    "a",
    "the",
    "film",
    "was",
    "slow",
    "but",
    "wonderful",
    "dull",
    "good",
    "bad",
    "story",
    ".",
    ",",
    "very",
]
TEXT = "The film was slow, but a wonderful story."

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]), encoding="utf-8"
    )
    return transformers.BertTokenizerFast(str(file))


def tiny(seed=0, scale=6):
    torch.manual_seed(seed)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config = transformers.BertConfig(vocab_size=5 + len(WORDS), max_position_embeddings=48, **sizes)
    model = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():  # by default larger than the usual start, so that tokens matter
        for parameter in model.parameters():
            parameter.mul_(scale if parameter.ndim == 2 else 1)
    return model


@pytest.fixture(scope="module")
def transformer(tokenizer):
    return as_transformer(tiny(), tokenizer)


@pytest.fixture(scope="module")
def inside(transformer):
    return Inside(transformer.model, transformer.tokenizer)


@pytest.fixture(scope="module")
def found(transformer, inside, document):
    return minilm.explain(transformer, inside, minilm_rivals.FITS, 48, 0, document)


@pytest.fixture(scope="module")
def document(tokenizer):
    ids, spans = encode(tokenizer, TEXT)
    chosen = np.array([TEXT[start:end] == "wonderful" for start, end in spans])
    return Document(TEXT, ids, spans, 1, chosen)


def test_log_odds_are_those_of_the_model_and_every_sequence_is_counted(transformer, document):
    f = Counted(transformer.f.inner)
    inputs = transformer.tokenizer(TEXT, return_tensors="pt")
    with torch.inference_mode():
        logits = transformer.model(**inputs).logits[0]
    got = f([document.ids, document.ids[:3]])
    assert got[0] == pytest.approx(float(logits[1] - logits[0]), abs=1e-5)
    assert abs(got[1] - got[0]) > 1e-4
    assert f.calls == 2


def test_relevance_keeps_the_values_of_the_model_and_changes_its_gradient(
    transformer, inside, document
):
    e = inside.embedded(inside.row_of(document.ids))
    same = inside.log_odds(relevance_model(transformer.model), e)
    assert float(same) == pytest.approx(float(transformer.f([document.ids])[0]), abs=1e-4)
    assert np.abs(inside.relevance(document.ids) - inside.gradient(document.ids)).max() > 1e-3


def test_the_rules_of_relevance():
    x = torch.tensor([[0.5, -1.0, 2.0]], requires_grad=True)
    y = HandedThrough(torch.nn.functional.gelu)(x)
    assert torch.allclose(y, torch.nn.functional.gelu(x))
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(slope * x, y)  # handed through: relevance of a unit is its output
    norm = torch.nn.LayerNorm(3)
    assert torch.allclose(HandedNorm(norm)(x), norm(x), atol=1e-6)
    (slope,) = torch.autograd.grad(HandedNorm(norm)(x)[0, 0], x)
    assert float((slope * x).sum()) == pytest.approx(float(norm(x)[0, 0]), abs=1e-5)
    a = torch.rand(2, 3, requires_grad=True)
    b = torch.rand(3, 2, requires_grad=True)
    ga, gb = torch.autograd.grad(half_product(a, b).sum(), (a, b))
    assert float((ga * a).sum()) == pytest.approx(float((a @ b).sum()) / 2, rel=1e-5)
    assert float((gb * b).sum()) == pytest.approx(float((a @ b).sum()) / 2, rel=1e-5)


def test_integrated_gradients_add_up_and_attention_is_a_share(transformer, inside, document):
    pads = inside.embedded(inside.row_of(np.full(len(document.ids), inside.pad)))
    total = float(transformer.f([document.ids])[0] - inside.log_odds(inside.model, pads))
    assert inside.integrated_gradients(document.ids).sum() == pytest.approx(
        total, rel=0.1, abs=0.02
    )
    for method in (inside.attention, inside.rollout):
        share = method(document.ids)
        assert (share > 0).all() and share.sum() < 1


def test_every_method_gives_one_score_per_token_within_its_budget(found, document):
    d = len(document.ids)
    for name, one in found.items():
        assert one["calls"] <= 48 + 2 or name == "IG"
        for scores in minilm_rivals.scores_of(name, one, document.ids).values():
            assert scores.shape == (d,) and np.isfinite(scores).all()
    masks = np.random.default_rng(0).random((4, d)) < 0.7
    assert minilm_rivals.surrogate_of(found["SLALOM-fidel"], document.ids)(masks).shape == (4,)
    assert minilm_rivals.surrogate_of(found["LIME"], document.ids)(masks) == pytest.approx(
        masks @ np.asarray(found["LIME"]["scores"])
    )


def test_a_slalom_survives_its_json_line(tmp_path, document):
    slalom = Slalom([3, 5], [-1.0, 1.0], [0.5, 2.0], s_background=0.3, v_background=-1.0)
    store = Store(tmp_path / "measured.jsonl")
    store.add("fit", 0, minilm_rivals.as_record(slalom))
    with store.path.open("a") as file:
        file.write('{"stage": "fit", "docu')  # a kill in mid-line
    again = Store(store.path)
    asked = []
    found = list(
        again.each("fit", [document, document], lambda i, d: asked.append(i) or {"slalom": {}})
    )
    assert asked == [1]
    assert (again.done(["fit"]), again.done(["fit", "areas"])) == (2, 0)
    back = minilm_rivals.from_record(found[0])
    assert back.predict_many([[3, 5, 5], []]) == pytest.approx(slalom.predict_many([[3, 5, 5], []]))


def test_fits_are_compared_on_the_same_subsets(transformer, document):
    found = minilm_fit.measure(transformer, 0, document, samples=48, fresh=30)
    again = minilm_fit.measure(transformer, 0, document, samples=48, fresh=30)
    assert found[minilm_fit.CONSTANT] == again[minilm_fit.CONSTANT]
    rows, bars = minilm_fit.summary([found, found])
    smaller = found[minilm_fit.OURS][minilm_fit.NEAR] < found[minilm_fit.THEIRS][minilm_fit.NEAR]
    assert bars[0].measured == float(smaller)
    assert rows[0]["documents"] == 2


def test_areas_of_a_perfect_and_of_a_useless_order(document):
    weights = np.linspace(-1.0, 1.0, len(document.ids))
    value = {int(i): float(w) for i, w in zip(document.ids, weights, strict=True)}

    class Box:
        @staticmethod
        def f(sequences):
            return np.array([3.0 + sum(value[int(i)] for i in sequence) for sequence in sequences])

    true = [value[int(i)] for i in document.ids]
    good, bad = ({"scores": np.array(s), "calls": 0} for s in (true, [-w for w in true]))
    found = minilm.areas(Box, {"good": good, "bad": bad}, document)
    assert found["good"][0] > found["bad"][0]
    assert found["good"][1] < found["bad"][1]
    assert minilm.human({"good": good}, document).keys() == {"good"}
    assert minilm.agreement({"good": good}, document, np.array(true))["good"] == pytest.approx(1.0)


def test_rows_of_all_tables_from_two_documents(transformer, found, document):
    found = [found, found]
    measured = Measured(
        found=found,
        samples=48,
        areas=[minilm.areas(transformer, one, document) for one in found],
        fidelity=[
            minilm.fidelity(transformer, one, i, document, (1, 2)) for i, one in enumerate(found)
        ],
        bayes=[minilm.agreement(one, document, np.arange(len(document.ids)) / 5) for one in found],
        yelp=found,
        human=[minilm.human(one, document) for one in found],
        right=[minilm.right(transformer, [document, document])] * 2,
    )
    rows = all_rows(measured)
    assert not [row for row in rows if row.case.startswith("claim")]  # two documents decide nothing
    assert len([row for row in rows if "margin: " in row.case]) == 13
    assert {"P2 Table 11a", "P2 Fig. 6", "P2 Tables 2, 13", "P2 Tables 1b, 10"} <= {
        row.result for row in rows
    }
    assert json.dumps([row._asdict() for row in rows])


def test_a_claim_holds_by_its_mean_margin_over_enough_documents():
    assert for_model("P2 Fig. 6", "x", [1.0, 1.1, 0.9] * 20, "why").ours == "holds in 1 of 1"
    missed = for_model("P2 Fig. 6", "x", [-1.0, 0.99, 0.0] * 20, "why")
    assert missed.ours == "holds in 0 of 1" and "within two standard errors" in missed.differs
    few = for_model("P2 Fig. 6", "x", [1.0, 1.1, 0.9], "why")
    assert few.ours == pytest.approx(1.0) and few.n == 3 and not few.case.startswith("claim")


def test_first_sentences_are_whole_and_fit(tokenizer):
    text = "The film was good.<br /><br />The story was slow. It was very, very, very dull."
    assert first_sentences(text, tokenizer, 10) == "The film was good. The story was slow."
    assert first_sentences(text, tokenizer, 3) == ""


def test_a_memo_asks_once(document):
    asked = []

    def f(sequences):
        asked.extend(sequences)
        return [float(len(sequence)) for sequence in sequences]

    memo = minilm.Memo(removal(f, document.ids))
    masks = np.eye(len(document.ids), dtype=bool)[[0, 1, 0]]
    assert memo(masks).tolist() == [1.0, 1.0, 1.0] and memo(masks[:1]).tolist() == [1.0]
    assert len(asked) == 2


def test_thinned_curves_are_asked_at_every_tenth_and_end_where_the_whole_ones_do():
    asked = []

    def value(masks):
        asked.append(len(masks))
        return masks.sum(axis=1).astype(float) ** 2

    masks = np.tri(31, 30, -1, dtype=bool)
    curve = minilm.thinned(value)(masks)
    assert asked == [11] and curve[0] == 0 and curve[-1] == 900
    # Linear between points that are three apart.
    assert np.abs(curve - np.arange(31.0) ** 2).max() < 3


def test_documents_are_kept(tmp_path, document):
    file = tmp_path / "kept.json"
    (made,) = minilm_model.kept(file, lambda: [document])
    (read,) = minilm_model.kept(file, lambda: pytest.fail("read again"))
    for one in (made, read):
        assert (one.text, one.spans, one.label) == (document.text, document.spans, document.label)
        assert (one.ids == document.ids).all() and (one.chosen == document.chosen).all()


TEXTS = ["the film was good .", "a wonderful story", "the film was bad .", "a dull story"] * 6
LABELS = np.array([1, 1, 0, 0] * 6)


def test_training_goes_on_after_a_kill_as_if_nothing_had_happened(tokenizer, tmp_path, monkeypatch):
    recipe = tuning.Recipe(
        reviews=24, epochs=3, tokens=16, batch=8, checkpoint_every=2, precision="float32", rate=1e-3
    )
    whole = tiny()
    found = tuning.fine_tune(whole, tokenizer, TEXTS, LABELS, tmp_path / "whole", recipe)
    assert found["steps"] == 9

    class Killed(Exception):
        pass

    def kill(step, steps, warm_up, rate_at=tuning.rate_at):
        if step == 5:
            raise Killed
        return rate_at(step, steps, warm_up)

    with monkeypatch.context() as patch:
        patch.setattr(tuning, "rate_at", kill)
        with pytest.raises(Killed):
            tuning.fine_tune(tiny(), tokenizer, TEXTS, LABELS, tmp_path / "cut", recipe)
    second = tiny(seed=1)  # other weights: they must come from the checkpoint
    tuning.fine_tune(second, tokenizer, TEXTS, LABELS, tmp_path / "cut", recipe)
    for a, b in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    other = dataclasses.replace(recipe, seed=1)
    with pytest.raises(ValueError, match="expected a run with"):
        tuning.fine_tune(tiny(), tokenizer, TEXTS, LABELS, tmp_path / "cut", other)


def test_training_learns_and_the_answers_are_checked(tokenizer, tmp_path):
    rates = {"rate": 0.01, "head_rate": 0.02}
    recipe = tuning.Recipe(
        epochs=12, batch=8, tokens=16, precision="float32", checkpoint_every=100, **rates
    )
    model = tiny(scale=1)
    tuning.fine_tune(model, tokenizer, TEXTS, LABELS, tmp_path, recipe)
    right = tuning.right_answers(model, tokenizer, TEXTS, LABELS, recipe)
    assert right.mean() > 0.9
    assert (tuning.right_answers(model, tokenizer, TEXTS, 1 - LABELS, recipe) == ~right).all()


def test_batches_hold_every_review_once_and_rates_rise_and_fall():
    lengths = np.random.default_rng(0).integers(4, 128, size=101)
    first = tuning.batches(lengths, 8, seed=0, epoch=0)
    assert sorted(np.concatenate(first).tolist()) == list(range(101))
    assert [b.tolist() for b in first] != [
        b.tolist() for b in tuning.batches(lengths, 8, seed=0, epoch=1)
    ]
    spread = np.mean([np.ptp(lengths[batch]) for batch in first])
    assert spread < 0.3 * np.ptp(lengths)
    rates = [tuning.rate_at(step, 100, 0.1) for step in range(100)]
    assert rates[0] == 0.1 and max(rates) == rates[9] == 1.0 and rates[-1] < 0.02


def test_long_reviews_keep_both_ends(tokenizer):
    whole = tokenizer(TEXT)["input_ids"]
    assert tuning.both_ends(tokenizer, [TEXT], len(whole), 2) == [whole]
    (cut,) = tuning.both_ends(tokenizer, [TEXT], 6, 2)
    assert cut == [*whole[:2], *whole[-4:]]


def test_pre_training_predicts_the_hidden_tokens_only(tokenizer):
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(vocab_size=5 + len(WORDS), **sizes)
    ).eval()
    inputs = tokenizer([TEXT] * 200, return_tensors="pt")
    seen = []
    model.cls.register_forward_pre_hook(lambda _, states: seen.append(len(states[0])))
    loss = tuning.hidden_token_loss(model, tokenizer, inputs)
    words = 200 * (inputs["input_ids"].shape[1] - 2)
    assert abs(seen[0] / words - tuning.HIDDEN_SHARE) < 0.04
    # Nothing is learned yet.
    assert float(loss.detach()) == pytest.approx(np.log(5 + len(WORDS)), abs=0.3)
