"""The surrogate of a transformer: its game, its error, whose scores are whose, and what every view says of it."""

import csv
import itertools
import json

import numpy as np
import pytest

from attn_closed_form import PooledGame, TransformerClassifier, shapley
from attn_closed_form.show.exports import write_csv
from attn_closed_form.show.figures import waterfall
from attn_closed_form.show.terminal import answer, table
from tests.tiny_transformers import FAMILIES, REVIEW, bert, explained, gpt2, need_torch

need_torch()
pytestmark = pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")


def black_box(model, settings, players, kept):
    """What the model says of a coalition of players, sequence by sequence, from the definition."""
    units = model.read(REVIEW)
    there = np.asarray(kept)[units.groups[players]]
    stand_in = {"mask": model.tokenizer.mask_token_id, "pad": -1}.get(settings.absent)
    ids = [i if keep else stand_in for i, keep in zip(units.data.ids.tolist(), there, strict=True)]
    logits = model([np.array([i for i in ids if i is not None], dtype=int)])[0]
    return float(np.dot(settings.coefficients, logits))


@pytest.mark.parametrize("players", ["words", "tokens"])
@pytest.mark.parametrize("absent", ["deleted", "mask", "pad"])
def test_methods_of_the_model_ask_the_model(players, absent):
    model = TransformerClassifier(*bert(), samples=120)
    found = model.explain(REVIEW, ["leave-one-out", "shapley-sampled", "lime-sampled"], players=players, absent=absent)
    settings, d = found.evidence.settings, found.evidence.game.d
    everyone = black_box(model, settings, players, np.ones(d, dtype=bool))
    assert found.prediction == pytest.approx(everyone, abs=1e-5)
    without = [black_box(model, settings, players, row) for row in ~np.eye(d, dtype=bool)]
    assert np.allclose(found["leave-one-out"].scores, everyone - np.array(without), atol=1e-5)
    nobody = black_box(model, settings, players, np.zeros(d, dtype=bool))
    assert found["shapley-sampled"].scores.sum() == pytest.approx(everyone - nobody, abs=1e-5)
    assert found["shapley-sampled"].base_value == pytest.approx(nobody, abs=1e-5)
    assert found["leave-one-out"].model_calls == d + 1 and not found["leave-one-out"].standard_error.any()
    assert found["lime-sampled"].model_calls == 120 and (found["lime-sampled"].standard_error > 0).all()


@pytest.mark.parametrize("absent", ["deleted", "mask", "pad"])
def test_methods_of_the_game_are_exact_of_the_fit_and_the_error_is_what_it_says(absent):
    model = TransformerClassifier(*bert(), samples=400)
    found = model.explain(REVIEW, ["shapley", "slalom-value"], players="tokens", absent=absent)
    game, fit = found.evidence.game, found.evidence.fit
    assert isinstance(game, PooledGame) and np.array_equal(found["shapley"].scores, shapley(game))
    everyone = np.ones(game.d, dtype=bool)
    assert fit.at_text == pytest.approx(found.prediction - float(game.value(everyone)), abs=1e-9)
    # Samples of our own, with up to five tokens absent: the error that the fit claims is the error that it has.
    rng = np.random.default_rng(7)
    kept = np.array([rng.permutation(game.d) >= rng.integers(1, 6) for _ in range(300)])
    off = found.evidence.value(kept) - game.value(kept)
    assert fit.error == pytest.approx(np.sqrt((off**2).mean()), rel=0.5)
    assert fit.model_calls <= 400 and fit.error < 1.5 * fit.spread


def test_a_transformer_that_is_a_slalom_is_found_exactly():
    """Logits that a SLALOM with a background makes: the fit has no error, and its Shapley values are the truth."""
    from attn_closed_form import Slalom

    model = TransformerClassifier(*bert(), samples=400)
    ids = model.encode(REVIEW)
    rng = np.random.default_rng(0)
    distinct = np.unique(ids)
    truth = Slalom(distinct, rng.normal(size=distinct.size), rng.normal(size=distinct.size), 0.0, 1.0, 0.5)
    units = model.read(REVIEW)

    class Fake(type(units.data)):
        def ask(self, f, sequences):
            for sequence in sequences:
                v = truth.predict(sequence) if len(sequence) else 0.5
                self.known[np.asarray(sequence, dtype=np.intp).tobytes()] = np.array([0.0, 0.0, v])
            return super().ask(f, sequences)

    object.__setattr__(units, "data", Fake(units.data.ids))
    from attn_closed_form.explanations.explain import explain_units
    from attn_closed_form.explanations.methods import as_methods
    from attn_closed_form.explanations.settings import Settings

    found = explain_units(model, units, as_methods(["shapley"]), Settings(output="positive", players="tokens"))
    assert found.evidence.fit.error < 1e-6
    assert np.allclose(found["shapley"].scores, shapley(truth.game(ids)), atol=1e-5)


def test_every_sequence_is_asked_once():
    model, tokenizer = bert()
    asked = []
    wrapped = TransformerClassifier(model, tokenizer, samples=150, batch_size=1000)
    handle = model.register_forward_pre_hook(
        lambda module, args, kwargs: asked.extend(
            tuple(row[mask.bool()].tolist())
            for row, mask in zip(kwargs["input_ids"], kwargs["attention_mask"], strict=True)
        ),
        with_kwargs=True,
    )
    found = wrapped.explain(REVIEW, ["shapley", "lime", "slalom-value", "leave-one-out"])
    before = len(asked)
    found.report()
    found.sentences()
    handle.remove()
    assert len(asked) == len(set(asked)) == before
    assert before <= 150 + len(found.evidence.labels) + 2


def test_every_view_says_whose_scores_they_are():
    found = explained()
    said = found.evidence.fit.sentences()[0]
    assert "fitted SLALOM, not of the model itself" in said and f"{found.evidence.fit.error:.2g}" in said
    page, text = found.report(), " ".join(answer(found).split())
    assert said in page.replace("&#x27;", "'") and said in text
    assert "Of the fitted SLALOM:" in text and "of the fitted SLALOM and not of the model" in page
    rows = " ".join(table(found, 200).split())
    assert "Shapley of the fitted SLALOM" in rows and "Shapley (sampled) of the model:" in rows
    assert "model calls, standard errors up to" in rows and "nothing sampled" in rows
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["surrogate"]["error"] == found.evidence.fit.error
    assert plain["methods"]["shapley"]["label"] == "Shapley of the fitted SLALOM"
    assert len(plain["methods"]["lime-sampled"]["standard_error"]) == len(plain["labels"])
    assert plain["methods"]["shapley"]["model_calls"] == plain["surrogate"]["model_calls"]
    assert "fitted SLALOM" in repr(found["shapley"])


def test_the_waterfall_ends_at_the_model_with_what_the_fit_misses():
    e = explained()["shapley"]
    steps = waterfall(e, top=4)
    assert [step.label for step in steps[-2:]] == ["what the fit misses", e.output]
    assert all(a.end == pytest.approx(b.start) for a, b in itertools.pairwise(steps))
    assert steps[-1].end == e.prediction
    assert steps[-2].start == pytest.approx(e.base_value + e.scores.sum(), abs=1e-9)


def test_tables_and_figures(tmp_path):
    found = explained()
    write_csv(found, tmp_path / "scores.csv")
    rows = list(csv.DictReader((tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["player"] for row in rows] == list(found.evidence.labels)
    assert float(rows[0]["lime-sampled_standard_error"]) == found["lime-sampled"].standard_error[0]
    pytest.importorskip("matplotlib", reason="the figures need matplotlib")
    for figure in ("table", "interactions"):
        found.plot(tmp_path / f"{figure}.png", figure)
    with pytest.raises(ValueError, match="attention"):
        found.plot(tmp_path / "attention.png", "attention")


def test_methods_of_the_inside_are_not_offered():
    assert "alpha-mean" not in explained()
    with pytest.raises(ValueError, match="'gradient-x-input' needs the inside of the model"):
        TransformerClassifier(*bert(), samples=40).explain(REVIEW, "gradient-x-input")


@pytest.mark.parametrize("family", ["roberta", "gpt2"])
def test_other_families_have_reports_too(family):
    found = TransformerClassifier(*FAMILIES[family](), samples=60).explain(
        "a 😀 good film", ["shapley", "leave-one-out"]
    )
    assert "😀" in found.report() and found["shapley"].labels == ("a", "😀", "good", "film")


def test_a_decoder_without_special_tokens_has_an_empty_text():
    model = TransformerClassifier(*gpt2(), samples=60)
    found = model.explain("a good film", "shapley-sampled", output="positive")
    assert found["shapley-sampled"].base_value == pytest.approx(model([np.array([0])])[0, 2])


def test_a_text_of_one_word():
    found = TransformerClassifier(*bert(), samples=60).explain("film", ["shapley", "leave-one-out", "slalom-value"])
    assert found["shapley"].scores.shape == (1,) and "film" in found.report()


def test_the_same_seed_gives_the_same_scores():
    first, second = (
        TransformerClassifier(*bert(), samples=80).explain("the film was not good", "all", seed=seed) for seed in (3, 3)
    )
    assert all(np.array_equal(first[name].scores, second[name].scores) for name in first)
    other = TransformerClassifier(*bert(), samples=80).explain("the film was not good", "lime-sampled", seed=4)
    assert not np.array_equal(other["lime-sampled"].scores, first["lime-sampled"].scores)
