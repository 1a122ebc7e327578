"""The page's API, without a browser: numbers, refusals, headers, many clients at once, and the command itself."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import warnings
from html.parser import HTMLParser
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import (
    DEFAULT_METHODS,
    METHODS,
    PooledGame,
    Vocabulary,
    explain,
    load_demo_model,
    pooled_game,
    random_weights,
    save_model,
    shapley_interactions,
)
from attn_closed_form.cli import main
from attn_closed_form.palette import AGAINST, FOR, UNSIGNED
from attn_closed_form.web import app as web_app
from attn_closed_form.web.answers import FORECASTS, interactions_of
from attn_closed_form.web.app import FILES, make_app
from attn_closed_form.web.fields import MAX_BYTES, MAX_CHARACTERS, Refusal, question, read_json
from attn_closed_form.web.reference import REQUESTS, openapi, reference_page
from tests.tolerances import QUADRATURE, assert_algebraic

ROOT = Path(__file__).parent.parent
WORDS = ["[CLS]", "[UNK]", "a", "fine", "dull", "film", "with", "songs", "and", "tears", "👍"]
TEXT = "A fine film with 😀 songs, and a dull, dull film!"
WEIGHTS, VOCABULARY = random_weights(seed=3, D=len(WORDS), T_max=17, C=2), Vocabulary(WORDS)
APP = make_app(WEIGHTS, VOCABULARY, "a small model")


async def _send(app, method, path, host="127.0.0.1:8000", **options):
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        return await client.request(method, path, **options)


def send(method, path, app=APP, **options):
    return asyncio.run(_send(app, method, path, **options))


def post(data, path="/api/explain", **options):
    return send("POST", path, json=data, **options)


def raw(content, media_type="application/json", path="/api/explain", **options):
    return send("POST", path, content=content, headers={"content-type": media_type}, **options)


@pytest.mark.parametrize("players", ["words", "positions"])
@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_the_api_says_what_the_library_says(players, absent):
    got = post({"text": TEXT, "methods": "all", "players": players, "absent": absent, "output": 1}).json()
    expected = explain(WEIGHTS, VOCABULARY, TEXT, "all", players, absent, output=1)
    assert list(got["methods"]) == list(METHODS)
    for name, e in expected.items():
        assert got["methods"][name]["scores"] == e.scores.tolist()
        assert got["methods"][name]["error"] == e.error
        assert got["prediction"] == e.prediction
        assert got["tokens"] == list(e.tokens)
    assert got["removal"] is None
    assert (got["players"], got["absent"], got["output"]) == (players, absent, 1)
    # Spans count code points, whatever lies beyond the basic plane.
    assert ["".join(TEXT[slice(*span)] for span in spans).lower() for spans in got["spans"]][1] == "fine"


def test_without_methods_all_that_do_not_sample():
    assert list(post({"text": TEXT}).json()["methods"]) == list(DEFAULT_METHODS)
    assert list(post({"text": TEXT, "methods": None}).json()["methods"]) == list(DEFAULT_METHODS)
    assert list(post({"text": TEXT, "methods": ["lime", "shapley", "lime"]}).json()["methods"]) == ["lime", "shapley"]


@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_removing_words_moves_the_prediction_exactly(absent):
    removed = [1, 4, 1]
    got = post({"text": TEXT, "absent": absent, "removed": removed}).json()
    game = pooled_game(WEIGHTS, VOCABULARY.encode(TEXT), "words", absent)
    present = np.ones(game.d, dtype=bool)
    present[removed] = False
    removal = got["removal"]
    assert removal["players"] == [1, 4]
    assert_algebraic(removal["prediction"], game.value(present))
    assert_algebraic(removal["change"], game.value(present) - got["prediction"], scale=abs(got["prediction"]))
    assert set(removal["forecasts"]) == set(FORECASTS) & set(DEFAULT_METHODS)
    for name, forecast in removal["forecasts"].items():
        scores = got["methods"][name]["scores"]
        assert_algebraic(forecast["change"], -(scores[1] + scores[4]), scale=1.0)
        assert_algebraic(forecast["error"], forecast["change"] - removal["change"], scale=1.0)


def test_leave_one_out_is_never_wrong_about_one_word_and_shapley_is():
    removal = post({"text": TEXT, "removed": [1]}).json()["removal"]
    assert abs(removal["forecasts"]["loo"]["error"]) < 1e-14
    assert abs(removal["forecasts"]["shapley"]["error"]) > 1e-6


def test_a_player_can_be_named_by_any_of_its_spans():
    at = TEXT.index("film", TEXT.index("dull"))
    by_span = post({"text": TEXT, "removed": [[at, at + 4]]}).json()
    by_index = post({"text": TEXT, "removed": [2]}).json()
    assert by_span["removal"] == by_index["removal"]
    assert by_span["tokens"][2] == "film" and [at, at + 4] in by_span["spans"][2]


@pytest.mark.parametrize("players", ["words", "positions"])
@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_interactions_of_one_word_are_a_row_of_the_matrix(players, absent):
    options = {"text": TEXT, "players": players, "absent": absent}
    game = pooled_game(WEIGHTS, VOCABULARY.encode(TEXT), players, absent)
    matrix = shapley_interactions(game)
    for player in (0, 3):
        got = post({**options, "player": player}, "/api/interactions").json()
        assert got["player"] == player and got["interactions"][player] is None
        row = np.array([0.0 if value is None else value for value in got["interactions"]])
        expected = np.where(np.arange(game.d) == player, 0.0, matrix[player])
        np.testing.assert_allclose(row, expected, rtol=0, atol=got["error"] + 2 * QUADRATURE)
        assert 0 < got["error"] < 1e-9


def test_interactions_where_nobody_means_nothing():
    rng = np.random.default_rng(0)
    game = PooledGame.from_scores(rng.normal(size=(2, 5)), rng.normal(size=(2, 5)), empty_value=0.7)
    row, error = interactions_of(game, 2)
    expected = shapley_interactions(game)[2]
    np.testing.assert_allclose(np.delete(row, 2), np.delete(expected, 2), rtol=0, atol=error + 2 * QUADRATURE)


def test_a_single_word_has_no_interactions():
    got = post({"text": "fine", "player": [0, 4]}, "/api/interactions").json()
    assert got["interactions"] == [None] and got["tokens"] == ["fine"]


def test_interactions_of_huge_scores_loosen_their_tolerance():
    game = PooledGame.from_scores([0.0, 1e4, -1e4], [1.0, -1.0, 1.0], s_background=0.0, v_background=1e-9)
    row, error = interactions_of(game, 0)
    assert np.isfinite(row).all() and error > 0


def test_what_the_model_does_not_see_is_said_without_a_warning():
    text = " ".join(["fine"] * 16 + ["dull", "film"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = post({"text": text})
    assert got.status_code == 200
    assert got.json()["unseen"] == [[80, 84], [85, 89]]
    assert got.json()["tokens"] == ["fine"]


@pytest.mark.parametrize("text", ["\ud83d fine \udc00", "\x00\x1b[31mfine\u202e", "</script><b>fine", "ﬁne ＦＩＮＥ"])
def test_any_text_comes_back_as_it_was(text):
    got = raw(json.dumps({"text": text}).encode())
    assert got.status_code == 200
    assert got.json()["text"] == text
    assert got.headers["content-type"] == "application/json"


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
    ({"text": "fine", "absent": None}, 422, "absent"),
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
    ({"text": "fine", "tol": 1e-3}, 422, "tol"),
    ({"text": "fine", "player": 0}, 422, "player"),
]


@pytest.mark.parametrize(("data", "status", "field"), REFUSED)
def test_a_wrong_field_is_named(data, status, field):
    got = post(data)
    answer = got.json()
    assert (got.status_code, answer["status"], answer["field"]) == (status, status, field)
    assert "expected" in answer["error"] and len(answer["error"]) < 400


@pytest.mark.parametrize("data", [{"text": "fine"}, {"text": "fine", "player": 1}, {"text": "fine", "player": "fine"}])
def test_interactions_need_a_player(data):
    got = post(data, "/api/interactions")
    assert (got.status_code, got.json()["field"]) == (422, "player")


BODIES = [b"", b"{", b"[]", b'"text"', b"null", b'{"text": NaN}', b'\xff{"text": "fine"}', b"[" * 100_000, b"9" * 5000]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:12].decode("latin-1"))
def test_a_body_that_is_no_object_is_400(body):
    got = raw(body)
    assert got.status_code == 400
    assert got.json()["error"].startswith("body: expected")


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
def test_only_json_is_taken(media_type):
    assert raw(b'{"text": "fine"}', media_type).status_code == 415


def test_json_may_say_its_encoding():
    assert raw(b'{"text": "fine"}', "Application/JSON; charset=utf-8").status_code == 200


def test_a_large_body_is_413_whether_or_not_it_says_its_size():
    body = b'{"text": "' + b"x" * MAX_BYTES + b'"}'
    stated = raw(body)
    assert stated.status_code == 413 and f"{MAX_BYTES:,} bytes" in stated.json()["error"]
    assert stated.headers["connection"] == "close"
    sent = []

    async def chunks():
        for start in range(0, 50 * MAX_BYTES, 1000):
            sent.append(start)
            yield b"x" * 1000

    # The transport of these tests hands the chunks over one by one, so an endless body would show.
    assert raw(chunks()).status_code == 413
    assert len(sent) <= MAX_BYTES // 1000 + 2


def test_a_body_that_does_not_come_is_408(monkeypatch):
    monkeypatch.setattr(web_app, "BODY_SECONDS", 0.02)

    async def slow():
        yield b'{"text"'
        await asyncio.sleep(5)

    assert raw(slow()).status_code == 408


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["words", "all"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=2),
    max_leaves=5,
)
names = st.sampled_from(["text", "methods", "players", "absent", "output", "removed", "player"]) | st.text(max_size=5)


def _attempt(function):
    try:
        return function()
    except Refusal as refusal:
        return refusal


@given(data=st.dictionaries(names, json_values, max_size=5), player=st.booleans())
def test_no_object_gets_past_the_door_by_accident(data, player):
    outcome = _attempt(lambda: question(data, 2, player))
    if isinstance(outcome, Refusal):
        assert outcome.status in (413, 422)
    else:
        assert isinstance(outcome.text, str) and 0 <= outcome.output < 2


@given(st.binary(max_size=40))
def test_no_bytes_get_past_the_door_by_accident(body):
    outcome = _attempt(lambda: read_json(body))
    assert isinstance(outcome, dict) or outcome.status == 400


WRONG = ["/static/app.js", "/..%2fapp.py", "/%2e%2e/app.py", "/app.py", "/api/", "/favicon.ico", "/etc/passwd"]


@pytest.mark.parametrize("path", WRONG)
def test_only_the_table_of_addresses_is_served(path):
    got = send("GET", path, follow_redirects=False)
    assert got.status_code == 404
    assert got.json() == {"error": "no such address; /api lists them", "status": 404}


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/explain"), ("OPTIONS", "/api/explain"), ("POST", "/")])
def test_a_wrong_method_is_405(method, path):
    got = send(method, path)
    assert got.status_code == 405
    assert got.json()["error"] == f"this address does not take {method}"
    assert got.headers["allow"]
    assert "access-control-allow-origin" not in got.headers  # so no other site's script may read or send JSON


PAGES = [*FILES, "/words.css", "/api", "/openapi.json", "/api/model", "/nowhere", "/api/explain"]


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_has_the_security_headers(path):
    got = send("GET", path)
    policy = got.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["referrer-policy"] == "no-referrer"
    assert got.headers["cache-control"] == "no-store"
    assert "server" not in got.headers


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9", "localhost:8000", "[::1]:8000", "LOCALHOST"])
def test_names_of_this_machine_are_answered(host):
    assert send("GET", "/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8000", "localhost.evil.example", "", "10.0.0.1"]
)
def test_other_names_are_not(host):
    got = send("GET", "/", headers={"host": host})
    assert got.status_code == 421
    assert got.json()["status"] == 421
    assert got.headers["content-security-policy"]
    open_app = make_app(WEIGHTS, VOCABULARY, "open", loopback_only=False)
    assert send("GET", "/", app=open_app, headers={"host": host}).status_code == 200


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.mark.parametrize("path", ["/", "/api"])
def test_pages_have_nothing_inline_and_nothing_from_elsewhere(path):
    tags = Tags(send("GET", path).text).found
    assert len(tags) > 20
    for tag, attributes in tags:
        assert tag != "style" and "style" not in attributes
        assert tag != "script" or attributes["src"]
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href"):
            assert attributes.get(name, "/").startswith(("/", "#"))


MARKUP = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "DOMParser")


def test_scripts_never_turn_text_into_markup_and_styles_load_nothing():
    for path, (name, kind) in FILES.items():
        content = send("GET", path).text
        if kind == "text/javascript":
            for word in (
                "innerHTML",
                "outerHTML",
                "insertAdjacent",
                "document.write",
                "eval(",
                "Function(",
                "DOMParser",
            ):
                assert word not in content, (name, word)
        if kind == "text/css":
            assert "url(" not in content and "@import" not in content


def test_the_page_has_the_colours_of_the_palette():
    css = send("GET", "/words.css").text
    for name, (red, green, blue) in {"for": FOR, "against": AGAINST, "unsigned": UNSIGNED}.items():
        assert f"--{name}:rgb({red},{green},{blue})" in css


def test_the_model_is_described():
    got = send("GET", "/api/model").json()
    assert (got["name"], got["tokens"], got["outputs"], got["words"]) == ("a small model", 16, 2, len(WORDS))
    assert [method["name"] for method in got["methods"]] == list(METHODS)
    assert got["limits"] == {"bytes": MAX_BYTES, "characters": MAX_CHARACTERS}


def test_the_documentation_lists_every_address_and_field():
    assert send("GET", "/openapi.json").json() == openapi()
    assert send("GET", "/api").text == reference_page()
    for path, fields in REQUESTS.items():
        schema = openapi()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema["additionalProperties"] is False
        defaults = {name: kind["default"] for name, kind in schema["properties"].items() if "default" in kind}
        required = {"text": "fine", "player": 0}
        data = defaults | {name: required[name] for name in schema["required"]}
        assert set(data) == set(fields)
        assert post(data, path).status_code == 200
        answers = openapi()["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert set(answers["properties"]) <= set(post(data, path).json())


def test_eight_clients_at_once_all_get_their_own_answer():
    texts = [f"a {word} film {'and tears ' * n}" for n, word in enumerate(WORDS[3:7])] * 10
    expected = {text: explain(WEIGHTS, VOCABULARY, text, "shapley")["shapley"].scores.tolist() for text in set(texts)}

    async def client(own):
        return [
            (text, await _send(APP, "POST", "/api/explain", json={"text": text, "methods": ["shapley"]}))
            for text in own
        ]

    async def everyone():
        return await asyncio.gather(*(client(texts[k::8]) for k in range(8)))

    answers = [pair for own in asyncio.run(everyone()) for pair in own]
    assert len(answers) == len(texts)
    for text, got in answers:
        assert got.status_code == 200
        assert got.json()["methods"]["shapley"]["scores"] == expected[text]


def test_a_slow_request_blocks_nobody_and_too_many_are_told_so(monkeypatch):
    release, real = threading.Event(), web_app.explain_answer

    def slow(weights, vocabulary, asked):
        if asked.text == "dull":
            assert release.wait(20)
        return real(weights, vocabulary, asked)

    monkeypatch.setattr(web_app, "explain_answer", slow)
    monkeypatch.setattr(web_app, "WAITING", 3)
    app = make_app(WEIGHTS, VOCABULARY, "slow")

    async def scene():
        stuck = [asyncio.create_task(_send(app, "POST", "/api/explain", json={"text": "dull"})) for _ in range(2)]
        await asyncio.sleep(0.1)
        meanwhile = await _send(app, "POST", "/api/explain", json={"text": "fine"})
        page = await _send(app, "GET", "/")
        stuck.append(asyncio.create_task(_send(app, "POST", "/api/explain", json={"text": "dull"})))
        await asyncio.sleep(0.1)
        refused = await _send(app, "POST", "/api/explain", json={"text": "fine"})
        open_until_here = [task.done() for task in stuck]
        release.set()
        late = [await task for task in stuck]
        after = await _send(app, "POST", "/api/explain", json={"text": "fine"})
        return meanwhile, page, refused, open_until_here, late, after

    meanwhile, page, refused, open_until_here, late, after = asyncio.run(scene())
    assert (meanwhile.status_code, page.status_code, after.status_code) == (200, 200, 200)
    assert open_until_here == [False] * 3
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert [got.status_code for got in late] == [200] * 3


def test_a_fault_of_ours_says_nothing_of_the_inside(monkeypatch):
    def broken(weights, vocabulary, asked):
        raise RuntimeError("secret path")

    monkeypatch.setattr(web_app, "explain_answer", broken)
    got = post({"text": "fine"}, app=make_app(WEIGHTS, VOCABULARY, "broken"))
    assert got.status_code == 500
    assert "secret" not in got.text and got.json()["status"] == 500
    assert got.headers["content-security-policy"]


def test_a_model_that_cannot_read_is_refused():
    with pytest.raises(ValueError, match="T_max"):
        make_app(random_weights(seed=0, D=3, T_max=1), Vocabulary(WORDS[:3]), "")
    with pytest.raises(ValueError, match="vocabulary"):
        make_app(WEIGHTS, Vocabulary(WORDS[:3]), "")


def test_the_shipped_model_answers():
    got = post({"text": "A wonderful film, but the ending is terrible."}, app=make_app(*load_demo_model(), "shipped"))
    scores = dict(zip(got.json()["tokens"], got.json()["methods"]["shapley"]["scores"], strict=True))
    assert scores["terrible"] < 0 < scores["wonderful"]


# The command itself.


def test_a_taken_port_is_one_line_and_status_1(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert f"port {port}" in printed.err and "--port" in printed.err


def test_a_strange_host_or_model_is_one_line_and_status_1(capsys, tmp_path):
    assert main(["serve", "--host", "no such host", "--port", "0"]) == 1
    assert "--host" in capsys.readouterr().err
    assert main(["serve", "--model", str(tmp_path / "none.npz")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("port", ["65536", "-1", "http", "٣"])
def test_a_strange_port_is_wrong_usage(port, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--port", port])
    assert ended.value.code == 2
    capsys.readouterr()


def test_serve_answers_and_ctrl_c_ends_it_cleanly(tmp_path):
    save_model(WEIGHTS, VOCABULARY, tmp_path / "small.npz")
    command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0", "--model", str(tmp_path / "small.npz")]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        assert "small.npz" in line and str(tmp_path) not in line
        address = next(part for part in line.split() if part.startswith("http"))
        assert address.startswith("http://127.0.0.1:")
        got = httpx.post(f"{address}api/explain", json={"text": TEXT, "methods": ["loo"]}, trust_env=False)
        assert (
            got.json()["methods"]["loo"]["scores"] == explain(WEIGHTS, VOCABULARY, TEXT, "loo")["loo"].scores.tolist()
        )
        assert "server" not in got.headers
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=20)
    finally:
        server.kill()
        server.communicate()
    assert (server.returncode, out, err) == (0, "", "ended\n")
