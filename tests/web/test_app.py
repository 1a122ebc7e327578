"""The page's application: addresses, headers, foreign hosts, many clients at once, documentation."""

import asyncio
import threading
from html.parser import HTMLParser

import pytest

from attn_closed_form import METHODS, TextClassifier, Vocabulary, explain, random_weights
from attn_closed_form.show.palette import AGAINST, FOR, UNSIGNED
from attn_closed_form.web import computing
from attn_closed_form.web.app import FILES, Limits, make_app
from attn_closed_form.web.fields import MAX_BYTES, MAX_CHARACTERS
from attn_closed_form.web.reference import REQUESTS, openapi, reference_page
from tests.web_client import APP, MODEL, WORDS, post, send, send_async

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
    open_app = make_app(MODEL, "open", loopback_only=False)
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
    assert (got["name"], got["outputs"]) == ("a small model", ["dull", "fine"])
    assert (got["players"], got["absent"]) == (["words", "positions"], ["unk", "deleted"])
    assert [method["name"] for method in got["methods"]] == list(METHODS)
    assert got["limits"] == {"bytes": MAX_BYTES, "characters": MAX_CHARACTERS}


def test_the_documentation_lists_every_address_and_field():
    assert send("GET", "/openapi.json").json() == openapi()
    assert send("GET", "/api").text == reference_page()
    for path, fields in REQUESTS.items():
        schema = openapi()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema["additionalProperties"] is False
        defaults = {name: kind["default"] for name, kind in schema["properties"].items() if "default" in kind}
        given = {"text": "fine", "player": 0, "players": "words", "absent": "unk", "output": 1, "tol": 1e-6, "seed": 1}
        data = defaults | {name: value for name, value in given.items() if name in fields}
        assert set(data) == set(fields) and set(schema["required"]) <= set(data)
        assert post(data, path).status_code == 200
        answers = openapi()["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert set(answers["properties"]) <= set(post(data, path).json())


def test_eight_clients_at_once_all_get_their_own_answer():
    texts = [f"a {word} film {'and tears ' * n}" for n, word in enumerate(WORDS[3:7])] * 10
    expected = {text: explain(MODEL, text, "shapley")["shapley"].scores.tolist() for text in set(texts)}

    async def client(own):
        return [
            (text, await send_async(APP, "POST", "/api/explain", json={"text": text, "methods": ["shapley"]}))
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
    release, real = threading.Event(), computing.explain_answer

    def slow(model, asked):
        if asked.raw == "dull":
            assert release.wait(20)
        return real(model, asked)

    monkeypatch.setattr(computing, "explain_answer", slow)
    app = make_app(MODEL, "slow", limits=Limits(queue=3))

    async def scene():
        stuck = [asyncio.create_task(send_async(app, "POST", "/api/explain", json={"text": "dull"})) for _ in range(2)]
        await asyncio.sleep(0.1)
        meanwhile = await send_async(app, "POST", "/api/explain", json={"text": "fine"})
        page = await send_async(app, "GET", "/")
        stuck.append(asyncio.create_task(send_async(app, "POST", "/api/explain", json={"text": "dull"})))
        await asyncio.sleep(0.1)
        refused = await send_async(app, "POST", "/api/explain", json={"text": "fine"})
        open_until_here = [task.done() for task in stuck]
        release.set()
        late = [await task for task in stuck]
        after = await send_async(app, "POST", "/api/explain", json={"text": "fine"})
        return meanwhile, page, refused, open_until_here, late, after

    meanwhile, page, refused, open_until_here, late, after = asyncio.run(scene())
    assert (meanwhile.status_code, page.status_code, after.status_code) == (200, 200, 200)
    assert open_until_here == [False] * 3
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert [got.status_code for got in late] == [200] * 3


def test_a_fault_of_ours_says_nothing_of_the_inside(monkeypatch):
    def broken(weights, vocabulary, asked):
        raise RuntimeError("secret path")

    monkeypatch.setattr(computing, "explain_answer", broken)
    got = post({"text": "fine"}, app=make_app(MODEL, "broken"))
    assert got.status_code == 500
    assert "secret" not in got.text and got.json()["status"] == 500
    assert got.headers["content-security-policy"]


def test_health_and_metrics():
    app = make_app(MODEL, "counted")

    async def scene():
        for text in ("fine", "dull"):
            await send_async(app, "POST", "/api/explain", json={"text": text, "methods": ["leave-one-out"]})
        await send_async(app, "POST", "/api/explain", json={"txt": 1})
        await send_async(app, "GET", "/no/such/<attic>")
        health = await send_async(app, "GET", "/health")
        return health, await send_async(app, "GET", "/metrics")

    health, metrics = asyncio.run(scene())
    assert (health.status_code, health.json()["status"], health.json()["ready"]) == (200, "ok", 1)
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert metrics.headers["content-security-policy"]
    lines = metrics.text.splitlines()
    assert 'acf_requests_total{path="/api/explain",status="200"} 2' in lines
    assert 'acf_requests_total{path="/api/explain",status="422"} 1' in lines
    assert 'acf_requests_total{path="other",status="404"} 1' in lines
    assert 'acf_request_seconds_count{path="/api/explain"} 3' in lines
    assert 'acf_request_seconds_bucket{path="/api/explain",le="+Inf"} 3' in lines
    assert "acf_queue 0" in lines and "acf_errors_total 0" in lines and "acf_workers_ready 1" in lines
    assert "attic" not in metrics.text and "fine" not in metrics.text
    for name in {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")}:
        family = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        assert f"# TYPE {family} " in metrics.text


def test_a_request_that_takes_too_long_is_504(monkeypatch):
    release, real = threading.Event(), computing.explain_answer

    def slow(model, asked):
        if asked.raw == "dull":
            release.wait(20)
        return real(model, asked)

    monkeypatch.setattr(computing, "explain_answer", slow)
    app = make_app(MODEL, "slow", limits=Limits(seconds=0.05))

    async def scene():
        late = await send_async(app, "POST", "/api/explain", json={"text": "dull"})
        metrics = await send_async(app, "GET", "/metrics")
        release.set()
        return late, metrics.text

    late, metrics = asyncio.run(scene())
    assert late.status_code == 504 and "within 0.05 seconds" in late.json()["error"]
    assert "acf_timeouts_total 1" in metrics and "acf_errors_total 1" in metrics


def test_a_model_that_cannot_read_is_refused():
    with pytest.raises(ValueError, match="T_max"):
        TextClassifier(random_weights(seed=0, D=3, T_max=1), Vocabulary(WORDS[:3]))
