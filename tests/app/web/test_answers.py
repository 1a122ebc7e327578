"""The page's API, without a browser: its numbers against the library's."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from attn_closed_form import (
    METHODS,
    MeanPooledText,
    ScoreTable,
    TextClassifier,
    explain,
    interactions,
    load_demo_model,
)
from attn_closed_form.app.explanations.methods import DEFAULT_METHODS
from attn_closed_form.app.models.mean_text import VocabularyReader
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.app.show.slalom_plane import SLALOM
from attn_closed_form.app.web import answers
from attn_closed_form.app.web.answers import Recent
from attn_closed_form.app.web.app import (
    example_text,
    explain_answer,
    interactions_answer,
    make_app,
    why_answer,
)
from attn_closed_form.app.web.schema import (
    CompareAnswer,
    ExplainAnswer,
    ExplainQuestion,
    InteractionsAnswer,
    InteractionsQuestion,
    Question,
    ReportAnswer,
    WhyAnswer,
)
from attn_closed_form.attention import pooled_game, random_weights
from tests.texts import model_for
from tests.tolerances import QUADRATURE, assert_algebraic
from tests.web_client import MODEL, TEXT, post, raw, send


@pytest.mark.parametrize("players", ["words", "positions"])
@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_the_api_says_what_the_library_says(players, absent):
    got = post(
        {"text": TEXT, "methods": "all", "players": players, "absent": absent, "output": 1}
    ).json()
    expected = explain(MODEL, TEXT, "all", players=players, absent=absent, output=1)
    assert list(got["methods"]) == list(METHODS)
    for name, e in expected.items():
        assert got["methods"][name]["scores"] == e.scores.tolist()
        assert got["methods"][name]["error"] == e.error
        assert got["prediction"] == e.prediction
        assert got["labels"] == list(e.labels)
    assert got["removal"] is None
    assert (got["players"], got["absent"], got["output"]) == (players, absent, "fine")
    # Spans count code points, whatever lies beyond the basic plane.
    assert ["".join(TEXT[slice(*span)] for span in spans).lower() for spans in got["spans"]][
        1
    ] == "fine"


def test_without_methods_all_that_do_not_sample():
    logit = {"text": TEXT, "scale": "logit"}
    assert list(post(logit).json()["methods"]) == list(DEFAULT_METHODS)
    assert list(post({**logit, "methods": None}).json()["methods"]) == list(DEFAULT_METHODS)
    # The probability of a model with several heads is the default, and is sampled.
    probability = post({"text": TEXT}).json()
    assert probability["scale"] == "probability"
    assert next(iter(probability["methods"])) == "shapley-sampled"
    assert list(post({"text": TEXT, "methods": ["lime", "shapley", "lime"]}).json()["methods"]) == [
        "lime",
        "shapley",
    ]


@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_removing_words_moves_the_prediction_exactly(absent):
    removed = [1, 4, 1]
    question = {"text": TEXT, "absent": absent, "removed": removed, "output": "dull"}
    got = post({**question, "scale": "logit"}).json()
    game = pooled_game(MODEL.weights, MODEL.vocabulary.encode(TEXT), "words", absent)
    present = np.ones(game.d, dtype=bool)
    present[removed] = False
    removal = got["removal"]
    assert removal["players"] == [1, 4]
    assert_algebraic(removal["prediction"], game.value(present))
    assert_algebraic(
        removal["change"], game.value(present) - got["prediction"], scale=abs(got["prediction"])
    )
    assert {f["method"] for f in removal["forecasts"]} == {
        name for name in DEFAULT_METHODS if METHODS[name].forecasts
    }
    for forecast in removal["forecasts"]:
        scores = got["methods"][forecast["method"]]["scores"]
        assert_algebraic(forecast["change"], -(scores[1] + scores[4]), scale=1.0)
        assert_algebraic(forecast["error"], forecast["change"] - removal["change"], scale=1.0)


def test_leave_one_out_is_never_wrong_about_one_word_and_shapley_is():
    removal = post({"text": TEXT, "removed": [1], "scale": "logit"}).json()["removal"]
    errors = {forecast["method"]: forecast["error"] for forecast in removal["forecasts"]}
    assert abs(errors["leave-one-out"]) < 1e-14
    assert abs(errors["shapley"]) > 1e-6


def test_a_player_can_be_named_by_any_of_its_spans():
    at = TEXT.index("film", TEXT.index("dull"))
    by_span = post({"text": TEXT, "removed": [[at, at + 4]]}).json()
    by_index = post({"text": TEXT, "removed": [2]}).json()
    assert by_span["removal"] == by_index["removal"]
    assert by_span["labels"][2] == "film" and [at, at + 4] in by_span["spans"][2]


@pytest.mark.parametrize("players", ["words", "positions"])
@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_interactions_of_one_word_are_a_row_of_the_matrix(players, absent):
    options = {"text": TEXT, "players": players, "absent": absent, "output": 0}
    game = pooled_game(MODEL.weights, MODEL.vocabulary.encode(TEXT), players, absent)
    matrix = interactions(game)
    for player in (0, 3):
        got = post({**options, "player": player}, "/api/interactions").json()
        assert got["player"] == player and got["interactions"][player] is None
        row = np.array([0.0 if value is None else value for value in got["interactions"]])
        expected = np.where(np.arange(game.d) == player, 0.0, matrix[player])
        np.testing.assert_allclose(row, expected, rtol=0, atol=got["error"] + 2 * QUADRATURE)
        assert 0 < got["error"] < 1e-9


def test_a_single_word_has_no_interactions():
    got = post({"text": "fine", "player": [0, 4]}, "/api/interactions").json()
    assert got["interactions"] == [None] and got["labels"] == ["fine"]


def test_a_model_that_takes_a_string_for_a_path_is_not_served():
    with pytest.raises(ValueError, match=r"^model: "):
        make_app(ScoreTable(), "files")


QUESTIONS = {"explain": (ExplainAnswer, {"removed": [1]}), "why": (WhyAnswer, {})}
QUESTIONS["interactions"] = (InteractionsAnswer, {"player": 1})
QUESTIONS["compare"] = (CompareAnswer, {"other": "A dull film"})
QUESTIONS["report"] = (ReportAnswer, {})


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_have_the_documented_fields_and_no_others(name):
    answer, fields = QUESTIONS[name]
    got = post({"text": TEXT, **fields}, f"/api/{name}").json()
    assert got == answer.model_validate(got).model_dump()
    assert set(got) == set(answer.model_fields)


GERMAN = ["[CLS]", "[UNK]", "die", "rechnung", "zahlung", "paket", "lieferung", "und"]


def test_words_that_the_tokenizer_does_not_make_are_no_examples():
    words = [*GERMAN, "...", "<br>"]
    model = TextClassifier(
        random_weights(seed=3, D=len(words), T_max=17, C=2), Vocabulary(words), ("a", "b")
    )
    assert set(example_text(model).split()) <= set(GERMAN[2:])


def test_the_page_greets_with_an_example_of_its_own_model():
    W_e = np.zeros((len(GERMAN), 2))
    W_e[GERMAN.index("rechnung"), 0] = W_e[GERMAN.index("paket"), 1] = 3.0
    weights = replace(
        random_weights(seed=3, D=len(GERMAN), T_max=17, C=2, d_e=2, d_out=2, K=1), W_e=W_e
    )
    model = TextClassifier(weights, Vocabulary(GERMAN), ("Zahlung", "Lieferung"))
    words = example_text(model).split()
    assert set(words) <= set(GERMAN[2:]) and {"rechnung", "paket"} <= set(words)
    assert send("GET", "/api/model", app=make_app(model, "tickets")).json()["example"] == " ".join(
        words
    )
    carded = replace(model, card={"example": "Die Rechnung \x1b[31mfehlt."})
    assert example_text(carded) == "Die Rechnung \ufffd[31mfehlt."
    mean = MeanPooledText(
        np.eye(3),
        np.array([[2.0, 0.0, -2.0]]),
        np.zeros(1),
        VocabularyReader({"gut": 0, "so": 1, "schlecht": 2}),
        ("nein", "ja"),
    )
    assert {"gut", "schlecht"} <= set(example_text(mean).split())


def test_what_the_model_does_not_see_is_said_without_a_warning():
    text = " ".join(["fine"] * 16 + ["dull", "film"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = post({"text": text})
    assert got.status_code == 200
    assert got.json()["unseen"] == [[80, 84], [85, 89]]
    assert got.json()["labels"] == ["fine"]


@pytest.mark.parametrize(
    "text", ["\ud83d fine \udc00", "\x00\x1b[31mfine\u202e", "</script><b>fine", "ﬁne ＦＩＮＥ"]
)
def test_any_text_comes_back_as_it_was(text):
    got = raw(json.dumps({"text": text}).encode())
    assert got.status_code == 200
    assert got.json()["text"] == text
    assert got.headers["content-type"] == "application/json"


@pytest.mark.slow  # every answer of the shipped model
def test_the_shipped_model_answers():
    got = post(
        {"text": "A wonderful film, but the ending is terrible.", "output": "positive"},
        app=make_app(load_demo_model(), "shipped"),
    )
    scores = dict(
        zip(got.json()["labels"], got.json()["methods"]["shapley"]["scores"], strict=True)
    )
    assert scores["terrible"] < 0 < scores["wonderful"]


def test_the_scale_is_a_field_of_questions_and_answers():
    model = model_for("a fine dull film", K=1)
    question = {"text": "a fine film"}
    answers = {
        scale: explain_answer(model, ExplainQuestion(**question, scale=scale))
        for scale in (None, "logit")
    }
    assert answers[None]["scale"] == "probability" and answers["logit"]["scale"] == "logit"
    assert answers[None]["logit"] == answers["logit"]["prediction"]
    assert answers[None]["prediction"] == pytest.approx(
        answers[None]["probabilities"][answers[None]["output"]]
    )
    assert set(answers[None]["figures"]["units"]) == {"logit", "probability"}
    assert {method["scale"] for method in answers[None]["methods"].values()} == {
        "logit",
        "probability",
    }
    why = {scale: why_answer(model, Question(**question, scale=scale)) for scale in (None, "logit")}
    assert (
        "%" in why[None]["reasons"]["sentences"][0]
        and "%" not in why["logit"]["reasons"]["sentences"][0]
    )
    assert (why[None]["sentences"]["scale"], why["logit"]["sentences"]["scale"]) == (
        "probability",
        "logit",
    )
    assert (
        why[None]["figures"] == why["logit"]["figures"]
        and len(why[None]["figures"]["slalom_plane"]["x"]) == 3
    )
    pairs = interactions_answer(model, InteractionsQuestion(**question, player=0))
    linked = model.explain("a fine film", "shapley")["shapley"].interactions()
    assert pairs["scale"] == "probability" and pairs["interactions"][1] == pytest.approx(
        linked[0, 1], abs=1e-9
    )
    refused = post({"text": TEXT, "scale": "odds"})
    assert refused.status_code == 422 and refused.json()["field"] == "scale"


# Of three classes and more, SLALOM's scores are those of the logit, and the other methods of the
# page explain the sampled probability.
@pytest.mark.parametrize(("scale", "new"), [("logit", []), (None, list(SLALOM))])
def test_the_next_question_about_a_text_computes_only_what_is_new(scale, new, monkeypatch):
    """Scores, reasons, interactions and removed words of one text read it once."""
    calls = []
    read = type(MODEL).read
    monkeypatch.setattr(type(MODEL), "read", lambda self, raw: calls.append(raw) or read(self, raw))
    recent = Recent()
    fine = ExplainQuestion(text=TEXT, scale=scale)
    first = explain_answer(MODEL, fine, recent=recent)
    scored = monkeypatch_methods(monkeypatch)
    assert explain_answer(MODEL, fine, recent=recent) == first
    explain_answer(MODEL, ExplainQuestion(text=TEXT, scale=scale, removed=[1]), recent=recent)
    why_answer(MODEL, Question(text=TEXT, scale=scale), recent=recent)
    pairs = InteractionsQuestion(text=TEXT, scale=scale, player=1)
    interactions_answer(MODEL, pairs, recent=recent)
    assert calls == [TEXT]
    assert scored == new
    explain_answer(MODEL, ExplainQuestion(text="A fine film"), recent=recent)
    explain_answer(MODEL, ExplainQuestion(text="fine"), recent=recent)
    assert explain_answer(MODEL, fine, recent=recent) == first
    assert calls == [TEXT, "A fine film", "fine", TEXT]  # only the last two are kept


def monkeypatch_methods(monkeypatch):
    """Record every method that is scored from now on."""
    scored = []
    real = answers.explain_evidence

    def recorded(evidence, methods, *options):
        scored.extend(method.name for method in methods)
        return real(evidence, methods, *options)

    monkeypatch.setattr(answers, "explain_evidence", recorded)
    return scored


def test_settings_are_part_of_what_is_remembered():
    recent = Recent()
    asked = [ExplainQuestion(text=TEXT, output=output) for output in (0, 1, 0)]
    for question in asked:
        assert explain_answer(MODEL, question, recent=recent) == explain_answer(MODEL, question)
