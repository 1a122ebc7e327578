"""The page's application: addresses, headers, foreign hosts, many clients at once, documentation."""

import asyncio
import threading
from html.parser import HTMLParser

import pytest

from attn_closed_form import METHODS, TextClassifier, explain
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.app.show.figures import AGAINST, FOR, UNSIGNED
from attn_closed_form.app.web import app as web_app
from attn_closed_form.app.web.app import COOKIE, FILES, Limits, make_app
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
    assert (
        "access-control-allow-origin" not in got.headers
    )  # so no other site's script may read or send JSON


PAGES = [*FILES, "/look.css", "/health", "/openapi.json", "/api/model", "/nowhere", "/api/explain"]


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


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9", "localhost:8000", "[::1]:8000", "LOCALHOST"]
)
def test_names_of_this_machine_are_answered(host):
    assert send("GET", "/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:8000",
        "localhost.evil.example",
        "",
        "10.0.0.1",
        "localhost:80@evil",
    ],
)
def test_other_names_are_not(host):
    got = send("GET", "/", headers={"host": host})
    assert got.status_code == 400 and got.json()["error"].startswith(
        "Host: expected one of localhost"
    )
    assert got.headers["content-security-policy"]
    for second in ("evil.example", host, "localhost"):  # one name, not the first of two
        assert (
            send("GET", "/", headers=[("host", "localhost"), ("host", second)]).status_code == 400
        )
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
    for path, (name, kind) in FILES.items():
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
        "/api/explain",
        "/api/interactions",
        "/api/model",
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
    }
    given |= {"methods": ["lime"], "removed": [0], "player": 0}
    for path in ("/api/explain", "/api/interactions", "/api/why"):
        operation = api["paths"][path]["post"]
        assert set(operation["responses"]) == {
            "200",
            "400",
            "401",
            "408",
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


def test_a_slow_request_blocks_nobody_and_too_many_are_told_so(monkeypatch):
    release = threading.Event()
    real = web_app.explain_answer

    def slow(model, question):
        if question.text == "dull":
            assert release.wait(PATIENCE)
        return real(model, question)

    monkeypatch.setattr(web_app, "explain_answer", slow)
    app = make_app(MODEL, "slow", limits=Limits(queue=3))

    async def scene():
        stuck = [
            asyncio.create_task(send_async(app, "POST", "/api/explain", json={"text": "dull"}))
            for _ in range(2)
        ]
        await asyncio.sleep(0.1)
        meanwhile = await send_async(app, "POST", "/api/explain", json={"text": "fine"})
        page = await send_async(app, "GET", "/")
        stuck.append(
            asyncio.create_task(send_async(app, "POST", "/api/explain", json={"text": "dull"}))
        )
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
    def broken(model, question):
        raise RuntimeError("secret path")

    monkeypatch.setattr(web_app, "explain_answer", broken)
    got = post({"text": "fine"}, app=make_app(MODEL, "broken"))
    assert got.status_code == 500
    assert "secret" not in got.text and got.json()["status"] == 500
    assert got.headers["content-security-policy"]


def test_half_sent_requests_block_nobody():
    app = make_app(MODEL, "busy", limits=Limits(queue=2, body_seconds=PATIENCE))

    async def scene():
        release = asyncio.Event()

        async def half():
            yield b'{"text"'
            await release.wait()
            yield b': "fine"}'

        json_type = {"content-type": "application/json"}
        stuck = [
            asyncio.create_task(
                send_async(app, "POST", "/api/explain", content=half(), headers=json_type)
            )
            for _ in range(5)
        ]
        await asyncio.sleep(0.1)
        meanwhile = await send_async(app, "POST", "/api/explain", json={"text": "fine"})
        release.set()
        return meanwhile, [await task for task in stuck]

    meanwhile, late = asyncio.run(scene())
    assert meanwhile.status_code == 200
    assert {got.status_code for got in late} <= {200, 503} and late[0].status_code == 200


def test_too_many_half_sent_bodies_cost_the_oldest():
    app = make_app(MODEL, "busy", limits=Limits(bodies=2, body_seconds=PATIENCE))

    async def scene():
        release = asyncio.Event()

        async def half():
            yield b'{"text"'
            await release.wait()
            yield b': "fine"}'

        async def begin():
            headers = {"content-type": "application/json"}
            task = asyncio.create_task(
                send_async(app, "POST", "/api/explain", content=half(), headers=headers)
            )
            await asyncio.sleep(0.05)
            return task

        stuck = [await begin() for _ in range(4)]
        early = [task.done() for task in stuck]
        release.set()
        return early, [(await task).status_code for task in stuck]

    assert asyncio.run(scene()) == ([True, True, False, False], [408, 408, 200, 200])


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


def test_a_client_that_does_not_take_its_answer_is_given_up():
    app = make_app(MODEL, "patient", limits=Limits(queue=1, body_seconds=0.05))
    body = b'{"text": "fine", "methods": ["shapley"]}'
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/explain",
        "query_string": b"",
        "headers": headers,
    }

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def never(message):
        await asyncio.Event().wait()

    async def scene():
        await asyncio.wait_for(app(scope, receive, never), PATIENCE)
        return await send_async(app, "POST", "/api/explain", json={"text": "fine"})

    assert asyncio.run(scene()).status_code == 200


TOKEN = "a-secret-of-24-characters"


@pytest.fixture(scope="module")
def guarded():
    return make_app(MODEL, "guarded", hosts=("*",), token=TOKEN)


WRONG_TOKENS = [
    {},
    {"authorization": "Bearer"},
    {"authorization": f"Bearer {TOKEN}x"},
    {"authorization": f"Basic {TOKEN}"},
]
WRONG_TOKENS += [
    {"authorization": "Bearer \xe9".encode("latin-1")},
    {"cookie": f"{COOKIE}={TOKEN[:-1]}"},
]


@pytest.mark.parametrize("headers", WRONG_TOKENS)
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/app.js",
        "/api/model",
        "/openapi.json",
        "/api/explain",
        "/nowhere",
        "/?token=",
        "/?token=wrong",
    ],
)
def test_nothing_is_answered_without_the_token(guarded, path, headers):
    if path == "/api/explain":
        method = "POST"
    else:
        method = "GET"
    got = send(method, path, app=guarded, headers=headers)
    assert got.status_code == 401 and got.headers["www-authenticate"] == "Bearer"
    assert got.headers["content-security-policy"] and TOKEN not in got.text
    assert got.json()["error"].startswith("token: expected")


def test_the_token_opens_as_a_header_and_as_a_cookie(guarded):
    for headers in ({"authorization": f"Bearer {TOKEN}"}, {"cookie": f"{COOKIE}={TOKEN}"}):
        got = send(
            "POST",
            "/api/explain",
            app=guarded,
            headers=headers,
            json={"text": "fine", "methods": ["shapley"]},
        )
        assert got.status_code == 200
    assert send("GET", "/health", app=guarded).json() == {"status": "ok"}
    assert (
        send("POST", f"/api/explain?token={TOKEN}", app=guarded, json={"text": "fine"}).status_code
        == 401
    )


def test_a_link_with_the_token_becomes_a_cookie(guarded):
    got = send("GET", f"/?token={TOKEN}", app=guarded, follow_redirects=False)
    assert (got.status_code, got.headers["location"]) == (303, "/")
    cookie = got.headers["set-cookie"]
    assert (
        cookie.startswith(f"{COOKIE}={TOKEN};")
        and "HttpOnly" in cookie
        and "SameSite=lax" in cookie
    )
    assert send("GET", f"/?token={TOKEN}", app=guarded, follow_redirects=True).status_code == 200
    assert send("GET", f"/api/model?token={TOKEN}", app=guarded).status_code == 401
    assert (
        send("GET", "/", app=guarded, headers={"host": "x/health?"}).status_code == 401
    )  # the path is not the Host's


def test_tokens_are_compared_in_constant_time(guarded, monkeypatch):
    compared = []
    monkeypatch.setattr(
        web_app.secrets, "compare_digest", lambda a, b: compared.append((a, b)) or a == b
    )
    send("GET", "/", app=guarded, headers={"authorization": "Bearer guess"})
    assert (b"guess", TOKEN.encode()) in compared


def test_a_request_that_takes_too_long_is_504(monkeypatch):
    release = threading.Event()
    real = web_app.explain_answer

    def slow(model, question):
        if question.text == "dull":
            release.wait(PATIENCE)
        return real(model, question)

    monkeypatch.setattr(web_app, "explain_answer", slow)
    app = make_app(MODEL, "slow", limits=Limits(seconds=0.05))

    async def scene():
        late = await send_async(app, "POST", "/api/explain", json={"text": "dull"})
        release.set()
        return late

    late = asyncio.run(scene())
    assert late.status_code == 504 and "within 0.05 seconds" in late.json()["error"]


def test_a_model_that_cannot_read_is_refused():
    with pytest.raises(ValueError, match="T_max"):
        TextClassifier(random_weights(seed=0, D=3, T_max=1), Vocabulary(WORDS[:3]))
