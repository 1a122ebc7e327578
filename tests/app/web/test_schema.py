"""What the page's API refuses, and how it says so."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from attn_closed_form import Settings
from attn_closed_form.app.web.app import make_app
from attn_closed_form.app.web.schema import (
    MAX_BYTES,
    MAX_CHARACTERS,
    ExplainQuestion,
    InteractionsQuestion,
    refusal_of,
)
from tests.texts import model_for
from tests.web_client import post, raw

REFUSED = [
    ({}, 422, "text"),
    ({"text": 5}, 422, "text"),
    ({"text": None}, 422, "text"),
    ({"text": ""}, 422, "text"),
    ({"text": "... <br />"}, 422, "text"),
    ({"text": "x" * (MAX_CHARACTERS + 1)}, 413, "text"),
    ({"text": "fine", "methods": []}, 422, "methods"),
    ({"text": "fine", "methods": ["shapely"]}, 422, "methods"),
    ({"text": "fine", "methods": "shapely"}, 422, "methods"),
    ({"text": "fine", "methods": [1]}, 422, "methods"),
    ({"text": "fine", "methods": {"shapley": 1}}, 422, "methods"),
    ({"text": "fine", "players": "letters"}, 422, "players"),
    ({"text": "fine", "players": ["words"]}, 422, "players"),
    ({"text": "fine", "absent": 1}, 422, "absent"),
    ({"text": "fine", "output": 2}, 422, "output"),
    ({"text": "fine", "output": -1}, 422, "output"),
    ({"text": "fine", "output": True}, 422, "output"),
    ({"text": "fine", "output": 0.0}, 422, "output"),
    ({"text": "fine", "removed": 0}, 422, "removed"),
    ({"text": "fine", "removed": [1]}, 422, "removed"),
    ({"text": "fine", "removed": [-1]}, 422, "removed"),
    ({"text": "fine", "removed": [False]}, 422, "removed"),
    ({"text": "fine", "removed": [[0, 3]]}, 422, "removed"),
    ({"text": "fine", "removed": [[0, 1, 2]]}, 422, "removed"),
    ({"text": "fine", "removed": [10**400]}, 422, "removed"),
    ({"text": "fine", "tol": 0}, 422, "tol"),
    ({"text": "fine", "tol": float("nan")}, 422, "tol"),
    ({"text": "fine", "seed": -1}, 422, "seed"),
    ({"text": "fine", "max_error": 0.0}, 422, "max_error"),
    ({"text": "fine", "seed": "1"}, 422, "seed"),
    ({"text": "fine", "x" * 500: 1}, 422, "x" * 19 + "…" + "x" * 19),
    ({"text": "fine", "player": 0}, 422, "player"),
]


def test_the_smaller_limit_is_for_methods_that_sample():
    words = "fine film " * 250
    app = make_app(model_for("fine film", T_max=None), "a model without positions")
    assert post({"text": words, "player": 0}, "/api/interactions", app=app).status_code == 200
    assert post({"text": words, "methods": ["shapley"]}, app=app).status_code == 200
    refused = post({"text": words, "methods": ["shapley-sampled"]}, app=app)
    assert refused.status_code == 413 and "400 tokens" in refused.json()["error"]


@pytest.mark.parametrize(("data", "status", "field"), REFUSED)
def test_a_wrong_field_is_named(data, status, field):
    got = raw(json.dumps(data).encode())
    answer = got.json()
    assert (got.status_code, answer["status"], answer["field"]) == (status, status, field)
    assert "expected" in answer["error"] and len(answer["error"]) < 400


@pytest.mark.parametrize(
    "data", [{"text": "fine"}, {"text": "fine", "player": 1}, {"text": "fine", "player": "fine"}]
)
def test_interactions_need_a_player(data):
    got = post(data, "/api/interactions")
    assert (got.status_code, got.json()["field"]) == (422, "player")


BODIES = [
    b"",
    b"{",
    b"[]",
    b'"text"',
    b"null",
    b'\xff{"text": "fine"}',
    b"[" * 100_000,
    b"9" * 5000,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:12].decode("latin-1"))
def test_a_body_that_is_no_object_is_400(body):
    got = raw(body)
    assert got.status_code == 400
    assert got.json()["error"].startswith("body: expected")


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"]
)
def test_only_json_is_taken(media_type):
    assert raw(b'{"text": "fine"}', media_type).status_code == 415


def test_json_may_say_its_encoding():
    assert raw(b'{"text": "fine"}', "Application/JSON; charset=utf-8").status_code == 200


def test_a_body_is_refused_by_its_stated_size_before_it_is_read():
    body = b'{"text": "' + b"x" * MAX_BYTES + b'"}'
    stated = raw(body)
    assert stated.status_code == 413 and f"{MAX_BYTES:,} bytes" in stated.json()["error"]
    assert stated.headers["connection"] == "close"
    sent = []

    async def chunks():
        for start in range(0, 50 * MAX_BYTES, 1000):
            sent.append(start)
            yield b"x" * 1000

    assert raw(chunks()).status_code == 411
    assert not sent


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["words", "all"]),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=2)
    ),
    max_leaves=5,
)
names = st.sampled_from(
    ["text", "methods", "players", "absent", "output", "removed", "player"]
) | st.text(max_size=5)


@given(
    data=st.dictionaries(names, json_values, max_size=5),
    kind=st.sampled_from([ExplainQuestion, InteractionsQuestion]),
)
def test_no_object_gets_past_the_door_by_accident(data, kind):
    try:
        question = kind.model_validate(data)
    except ValidationError as error:
        refusal = refusal_of([{**e, "loc": ("body", *e["loc"])} for e in error.errors()])
        assert refusal.status in (413, 422) and refusal.field and len(refusal.message) < 400
    else:
        assert isinstance(question.text, str) and isinstance(question.settings, Settings)
