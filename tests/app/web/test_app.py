"""The page's application: addresses, headers, foreign hosts, many clients at once,
documentation.
"""

import asyncio
import threading
from html.parser import HTMLParser

import pytest

from attn_closed_form import METHODS, TextClassifier, explain
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.app.show.figures import AGAINST, FOR, UNSIGNED
from attn_closed_form.app.web import app as web_app
from attn_closed_form.app.web.app import PAGE_FILES, make_app
from attn_closed_form.app.web.schema import MAX_BYTES, MAX_CHARACTERS, MAX_SAMPLED, MAX_TOKENS
from attn_closed_form.attention import random_weights
from tests.patience import PATIENCE
from tests.web_client import APP, MODEL, WORDS, post, send, send_async

WRONG = [
    "/static/app.js",
    "/..%2fapp.py",
    "/%2e%2e/app.py",
    "/app.py",
    "/api/",
    "/favicon.ico",
    "/etc/passwd",
    "/docs",
    "/redoc",
]


@pytest.mark.parametrize("path", WRONG)
def test_only_the_table_of_addresses_is_served(path):
    got = send("GET", path, follow_redirects=False)
    assert got.status_code == 404
    assert got.json() == {"error": "no such address; /openapi.json lists them", "status": 404}


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/explain"), ("OPTIONS", "/api/explain"), ("DELETE", "/")]
)
def test_a_wrong_method_is_405(method, path):
    got = send(method, path)
    assert got.status_code == 405
    assert got.json()["error"] == f"this address does not accept {method}"
    assert got.headers["allow"]
    # So no other site's script may read or send JSON.
    assert "access-control-allow-origin" not in got.headers


PAGES = [
    *PAGE_FILES,
    "/look.css",
    "/health",
    "/openapi.json",
    "/api/model",
    "/nowhere",
    "/api/explain",
]


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_has_the_security_headers(path):
    got = send("GET", path)
    policy = got.headers["content-security-policy"]
    assert (
        "default-src 'self'" in policy
        and "unsafe" not in policy
        and "frame-ancestors 'none'" in policy
    )
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["referrer-policy"] == "no-referrer"
    assert got.headers["cache-control"] == "no-store"
    assert got.headers["x-frame-options"] == "DENY"  # for browsers that do not know frame-ancestors
    assert (
        got.headers["cross-origin-opener-policy"]
        == got.headers["cross-origin-resource-policy"]
        == "same-origin"
    )
    assert "server" not in got.headers


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9", "localhost:8000"])
def test_names_of_this_machine_are_answered(host):
    assert send("GET", "/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8000", "localhost.evil.example", "10.0.0.1"]
)
def test_other_names_are_not(host):
    got = send("GET", "/", headers={"host": host})
    assert got.status_code == 400
    assert got.headers["content-security-policy"]
    assert post({"text": "fine"}, headers={"host": host}).status_code == 400
    open_app = make_app(MODEL, "open", hosts=("*",))
    assert send("GET", "/", app=open_app, headers={"host": host}).status_code == 200


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere():
    tags = Tags(send("GET", "/").text).found
    assert len(tags) > 20
    for tag, attributes in tags:
        assert tag != "style" and "style" not in attributes
        assert tag != "script" or attributes["src"]
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href"):
            assert attributes.get(name, "/").startswith(("/", "#"))


MARKUP = (
    "innerHTML",
    "outerHTML",
    "insertAdjacent",
    "document.write",
    "eval(",
    "Function(",
    "DOMParser",
)


def test_scripts_never_turn_text_into_markup_and_styles_load_nothing():
    for path, (name, kind) in PAGE_FILES.items():
        content = send("GET", path).text
        if kind == "text/javascript":
            for word in MARKUP:
                assert word not in content, (name, word)
        if kind == "text/css":
            assert "url(" not in content and "@import" not in content


def test_the_page_has_the_colors_of_the_palette():
    css = send("GET", "/look.css").text
    for name, (red, green, blue) in {"for": FOR, "against": AGAINST, "unsigned": UNSIGNED}.items():
        assert f"--{name}:rgb({red},{green},{blue})" in css


def test_the_model_is_described():
    got = send("GET", "/api/model").json()
    assert (got["name"], got["outputs"]) == ("a small model", ["dull", "fine"])
    assert (got["players"], got["absent"]) == (["words", "positions"], ["unk", "deleted"])
    assert [method["name"] for method in got["methods"]] == list(METHODS)
    assert got["limits"] == {"bytes": MAX_BYTES, "characters": MAX_CHARACTERS}


def test_the_documentation_lists_every_address_and_field():
    api = send("GET", "/openapi.json").json()
    assert sorted(api["paths"]) == [
        "/api/compare",
        "/api/explain",
        "/api/interactions",
        "/api/model",
        "/api/report",
        "/api/why",
        "/health",
    ]
    given = {
        "text": "fine",
        "players": "words",
        "absent": "unk",
        "output": 1,
        "tol": 1e-6,
        "seed": 1,
        "scale": "logit",
        "max_error": 1e-3,
    }
    given |= {"methods": ["lime"], "removed": [0], "player": 0, "other": "dull"}
    for path in ("/api/compare", "/api/explain", "/api/interactions", "/api/report", "/api/why"):
        operation = api["paths"][path]["post"]
        assert set(operation["responses"]) == {
            "200",
            "400",
            "411",
            "413",
            "415",
            "422",
            "503",
            "504",
        }
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition(
            "/"
        )[2]
        request = api["components"]["schemas"][name]
        assert request["additionalProperties"] is False and "text" in request["required"]
        assert request["properties"]["text"]["maxLength"] == MAX_CHARACTERS
        assert (
            post({field: given[field] for field in request["properties"]}, path).status_code == 200
        )


def test_eight_clients_at_once_all_get_their_own_answer():
    texts = [f"a {word} film {'and tears ' * n}" for n, word in enumerate(WORDS[3:7])] * 10
    expected = {
        text: explain(MODEL, text, "shapley")["shapley"].scores.tolist() for text in set(texts)
    }

    async def client(own):
        return [
            (
                text,
                await send_async(
                    APP, "POST", "/api/explain", json={"text": text, "methods": ["shapley"]}
                ),
            )
            for text in own
        ]

    async def everyone():
        return await asyncio.gather(*(client(texts[k::8]) for k in range(8)))

    answers = [pair for own in asyncio.run(everyone()) for pair in own]
    assert len(answers) == len(texts)
    for text, got in answers:
        assert got.status_code == 200
        assert got.json()["methods"]["shapley"]["scores"] == expected[text]


def raised(model, question, checkpoint, recent):
    raise RuntimeError("secret path")


def test_a_fault_of_ours_says_nothing_of_the_inside(monkeypatch):
    monkeypatch.setattr(web_app, "explain_answer", raised)
    got = post({"text": "fine"}, app=make_app(MODEL, "broken"))
    assert got.status_code == 500
    assert "secret" not in got.text and got.json()["status"] == 500
    assert got.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("tokens", "options", "limit"),
    [
        (MAX_TOKENS + 1, {}, "2,000 tokens,"),
        (MAX_SAMPLED + 1, {"methods": "all"}, "400 tokens for methods that sample,"),
    ],
)
def test_texts_with_too_many_tokens_are_refused(tokens, options, limit):
    model = TextClassifier(
        random_weights(seed=3, D=len(WORDS), T_max=MAX_TOKENS + 9, C=2), Vocabulary(WORDS)
    )
    app = make_app(model, "long")
    got = post({"text": "fine " * tokens, **options}, app=app)
    assert got.status_code == 413 and got.json()["field"] == "text"
    assert got.json()["error"] == f"text: expected at most {limit} got {tokens:,}"
    assert post({"text": "fine " * (tokens - 1), **options}, app=app).status_code == 200


def test_a_model_that_cannot_read_is_refused():
    with pytest.raises(ValueError, match="T_max"):
        TextClassifier(random_weights(seed=0, D=3, T_max=1), Vocabulary(WORDS[:3]))


class Steps:
    """An answer of steps, which the test lets go on one by one."""

    def __init__(self):
        self.running = self.most = self.taken = 0
        self.begun = threading.Event()
        self.release = threading.Event()

    def __call__(self, model, question, checkpoint, recent):
        if question.text == "fine":
            return {"text": question.text}
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            self.begun.set()
            assert self.release.wait(PATIENCE)
            self.taken += 1
            checkpoint()
            self.taken += 1
        finally:
            self.running -= 1
        return {"text": question.text}


@pytest.fixture
def steps(monkeypatch):
    steps = Steps()
    monkeypatch.setattr(web_app, "explain_answer", steps)
    yield steps
    steps.release.set()


def ask(app, text):
    return send_async(app, "POST", "/api/explain", json={"text": text})


def test_a_slow_request_blocks_nobody(steps):
    app = make_app(MODEL, "slow")

    async def scene():
        slow = asyncio.create_task(ask(app, "dull"))
        await asyncio.to_thread(steps.begun.wait, PATIENCE)
        meanwhile = await ask(app, "fine")
        page = await send_async(app, "GET", "/")
        waiting = not slow.done()
        steps.release.set()
        return meanwhile, page, waiting, await slow

    meanwhile, page, waiting, slow = asyncio.run(scene())
    assert waiting
    assert [got.status_code for got in (meanwhile, page, slow)] == [200] * 3


def test_an_answer_that_takes_too_long_is_504_and_its_work_ends_at_the_next_step(steps):
    app = make_app(MODEL, "slow", seconds=0.05)

    async def scene():
        late = asyncio.create_task(ask(app, "dull"))
        await asyncio.to_thread(steps.begun.wait, PATIENCE)
        await asyncio.sleep(0.2)
        steps.release.set()
        return await late

    late = asyncio.run(scene())
    assert late.status_code == 504 and "0.05 seconds" in late.json()["error"]
    assert (steps.taken, steps.running) == (1, 0)


def test_work_for_a_client_that_is_gone_ends_at_the_next_step(steps):
    app = make_app(MODEL, "left")
    body = b'{"text": "dull"}'
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [(b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": "/api/explain", "headers": headers}
    scope |= {"query_string": b"", "client": None, "server": None, "scheme": "http"}

    async def scene():
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        gone = asyncio.Event()

        async def receive():
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def nowhere(message):
            pass

        request = asyncio.create_task(app(scope, receive, nowhere))
        await asyncio.to_thread(steps.begun.wait, PATIENCE)
        gone.set()
        await asyncio.sleep(0.05)
        steps.release.set()
        await asyncio.wait_for(request, PATIENCE)

    asyncio.run(scene())
    assert (steps.taken, steps.running) == (1, 0)


def test_long_texts_are_computed_one_at_a_time_even_after_their_time(steps):
    """An answer keeps its place until its thread has ended, so that work never piles up."""
    app = make_app(MODEL, "slow", seconds=0.05)
    text = "dull " * web_app.LONG_TEXT

    async def scene():
        late = [asyncio.create_task(ask(app, text)) for _ in range(5)]
        await asyncio.to_thread(steps.begun.wait, PATIENCE)
        await asyncio.sleep(0.2)
        steps.release.set()
        return [await task for task in late]

    assert [got.status_code for got in asyncio.run(scene())] == [504] * 5
    assert (steps.most, steps.running) == (1, 0)
