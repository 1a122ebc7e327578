"""The application: addresses, and how requests are read and answered.

Numbers are computed in threads, at most THREADS at once, so that a long text holds up nobody who asks for a page; more
than WAITING requests at a time are told to come back. The page's files are a fixed table that is read at the start: no
path is ever made from a request.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..explainable.protocol import Explainable
from ..show.report_assets import words_css
from .answers import explain_answer, interactions_answer, model_answer, why_answer
from .fields import MAX_BYTES, Question, Refusal, question, read_json
from .guard import Guard
from .reference import openapi, reference_page

THREADS = 8
WAITING = 64
BODY_SECONDS = 10.0

JAVASCRIPT, CSS, SVG, HTML = "text/javascript", "text/css", "image/svg+xml", "text/html"
FILES = {
    "/": ("index.html", HTML),
    "/app.js": ("app.js", JAVASCRIPT),
    "/words.js": ("words.js", JAVASCRIPT),
    "/figures.js": ("figures.js", JAVASCRIPT),
    "/style.css": ("style.css", CSS),
    "/icon.svg": ("icon.svg", SVG),
}

Answer = Callable[[Explainable, Question], dict[str, Any]]


def make_app(model: Explainable, name: str, loopback_only: bool = True) -> ASGIApp:
    """The page and its API for one model.

    Parameters
    ----------
    model : what it explains
    name : what the page calls it
    loopback_only : refuse requests whose Host is not this machine; for servers bound to a loopback address

    Returns
    -------
    An ASGI application, for uvicorn or any other server
    """
    about = model_answer(model, name)

    async def about_model(request: Request) -> Response:
        return json_response(about)

    async def specification(request: Request) -> Response:
        return json_response(openapi())

    async def reference(request: Request) -> Response:
        return HTMLResponse(reference_page())

    compute = _Computer(model)
    routes = [_file_route(path, *entry) for path, entry in FILES.items()]
    routes += [
        Route("/words.css", _constant(words_css().encode(), CSS)),
        Route("/api", reference),
        Route("/openapi.json", specification),
        Route("/api/model", about_model),
        Route("/api/explain", compute.endpoint(explain_answer), methods=["POST"]),
        Route("/api/why", compute.endpoint(why_answer), methods=["POST"]),
        Route("/api/interactions", compute.endpoint(interactions_answer, player=True), methods=["POST"]),
    ]
    handlers: Any = {Refusal: _refused, HTTPException: _http_error, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=compute.lifespan)
    app.router.redirect_slashes = False  # one address, one answer; a redirect would repeat the Host it was given
    return Guard(app, loopback_only)


class _Computer:
    """Runs answers in threads, and counts them."""

    def __init__(self, model: Explainable) -> None:
        self.model = model
        self.in_flight = 0
        self.limiter: anyio.CapacityLimiter | None = None

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        # The first request should not pay for the collapsed tables or for imports that wait until needed.
        await anyio.to_thread.run_sync(self._warm_up)
        yield

    def _warm_up(self) -> None:
        with contextlib.suppress(Refusal):  # a model that reads no text says so, and is warm all the same
            explain_answer(self.model, question({"text": "a"}))

    def endpoint(self, answer: Answer, player: bool = False) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            if self.in_flight >= WAITING:
                raise Refusal(503, f"expected at most {WAITING} requests at a time; try again in a second")
            self.in_flight += 1
            try:
                asked = question(read_json(await _body(request)), player)
                # Made here, since a limiter belongs to the event loop that it first ran in.
                self.limiter = self.limiter or anyio.CapacityLimiter(THREADS)
                return await anyio.to_thread.run_sync(self._answer, answer, asked, limiter=self.limiter)
            except anyio.get_cancelled_exc_class():
                # Only an ending server cancels; a sentence serves better than a broken connection and a traceback.
                raise Refusal(503, "the server is ending") from None
            finally:
                self.in_flight -= 1

        return respond

    def _answer(self, answer: Answer, asked: Question) -> Response:
        return json_response(answer(self.model, asked))


async def _body(request: Request) -> bytes:
    """The body, unless it is not JSON, too large or too slow; a body that says its size is refused unread."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        # Also what keeps other sites out: a browser asks before it sends this type across origins, and gets a no.
        raise Refusal(415, f"Content-Type: expected application/json, got {media[:40] or 'none'}")
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated[:12]) > MAX_BYTES:
        raise Refusal(413, f"body: expected at most {MAX_BYTES:,} bytes, got {int(stated[:12]):,}")
    body = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise Refusal(413, f"body: expected at most {MAX_BYTES:,} bytes, got more")
    except TimeoutError:
        raise Refusal(408, f"body: expected within {BODY_SECONDS:g} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "body: the client went away") from None
    return bytes(body)


def json_response(data: Any, status: int = 200) -> Response:
    """ASCII JSON: a lone surrogate, which UTF-8 cannot say, passes as an escape."""
    body = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(body.encode("ascii"), status, media_type="application/json")


def _error(status: int, message: str, field: str | None = None, headers: Any = None) -> Response:
    fields = {"error": message, "status": status} | ({"field": field} if field else {})
    response = json_response(fields, status)
    response.headers.update(headers or {})
    return response


async def _refused(request: Request, refusal: Refusal) -> Response:
    # After an early no the rest of the body is still on its way: do not read it as the next request.
    close = {"connection": "close"} if refusal.status in (408, 413, 415) else {}
    return _error(refusal.status, refusal.message, refusal.field, close | _retry(refusal.status))


def _retry(status: int) -> dict[str, str]:
    return {"retry-after": "1"} if status == 503 else {}


async def _http_error(request: Request, error: HTTPException) -> Response:
    known = {404: "no such address; /api lists them", 405: f"this address does not take {request.method}"}
    return _error(error.status_code, known.get(error.status_code, error.detail), headers=error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return _error(500, "something went wrong here; the server's log says what")


def _file_route(path: str, name: str, media_type: str) -> Route:
    return Route(path, _constant((files(__package__) / "static" / name).read_bytes(), media_type))


def _constant(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return respond
