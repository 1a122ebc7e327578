"""The application: addresses, and how requests are read and answered.

Numbers are computed elsewhere (`computing.py`, `workers.py`), so that a long text holds up nobody who asks for a page;
more than `Limits.queue` requests at a time are told to come back. The page's files are a fixed table that is read at
the start: no path is ever made from a request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..models.protocol import Model
from ..show.report_assets import words_css
from .bag_answer import MAX_BAG_BYTES
from .computing import KINDS, Computer, InThreads, error_bytes, json_bytes
from .fields import MAX_BYTES, Refusal
from .guard import Guard
from .metrics import TYPE, Metrics
from .models import open_models
from .reference import openapi, reference_page


@dataclass(frozen=True)
class Limits:
    """What a server puts up with.

    Attributes
    ----------
    queue : explanations asked for and not yet answered; more are told to come back (503)
    seconds : for an explanation, its time in the queue included (504)
    body_seconds : for the body of a request to arrive (408)
    """

    queue: int = 64
    seconds: float = 30.0
    body_seconds: float = 10.0


JAVASCRIPT, CSS, SVG, HTML = "text/javascript", "text/css", "image/svg+xml", "text/html"
FILES = {
    "/": ("index.html", HTML),
    "/app.js": ("app.js", JAVASCRIPT),
    "/words.js": ("words.js", JAVASCRIPT),
    "/figures.js": ("figures.js", JAVASCRIPT),
    "/style.css": ("style.css", CSS),
    "/icon.svg": ("icon.svg", SVG),
}


BAG_SECONDS = 60.0  # for the file of a bag to arrive


def make_app(model: Model | Computer, name: str, loopback_only: bool = True, limits: Limits | None = None) -> ASGIApp:
    """The page and its API for one model.

    Parameters
    ----------
    model : what it explains, here in threads; or a computer that has the model, such as `InProcesses`
    name : what the page calls it
    loopback_only : refuse requests whose Host is not this machine; for servers bound to a loopback address
    limits : on queue and time

    Returns
    -------
    An ASGI application, for uvicorn or any other server
    """
    computer: Computer = model if hasattr(model, "ask") else InThreads(open_models(model, name))  # type: ignore[assignment]
    desk = _Desk(computer, limits or Limits())

    async def about_model(request: Request) -> Response:
        return json_response(computer.about)

    async def specification(request: Request) -> Response:
        return json_response(openapi())

    async def reference(request: Request) -> Response:
        return HTMLResponse(reference_page())

    async def metrics_text(request: Request) -> Response:
        return Response(metrics.text(desk.waiting, desk.limits.queue, computer.state()), media_type=TYPE)

    routes = [_file_route(path, *entry) for path, entry in FILES.items()]
    routes += [
        Route("/words.css", _constant(words_css().encode(), CSS)),
        Route("/api", reference),
        Route("/openapi.json", specification),
        Route("/api/model", about_model),
        *(Route(f"/api/{kind}", desk.endpoint(kind), methods=["POST"]) for kind in KINDS),
        Route("/health", desk.health),
        Route("/metrics", metrics_text),
    ]
    handlers: Any = {Refusal: _refused, HTTPException: _http_error, Exception: _failed}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=desk.lifespan)
    app.router.redirect_slashes = False  # one address, one answer; a redirect would repeat the Host it was given
    metrics = Metrics(Guard(app, loopback_only), [route.path for route in routes])
    return metrics


class _Desk:
    """Takes requests for explanations, counts them, and has them answered."""

    def __init__(self, computer: Computer, limits: Limits) -> None:
        self.computer, self.limits = computer, limits
        self.waiting = 0

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        await self.computer.start()
        try:
            yield
        finally:
            await self.computer.stop()

    def endpoint(self, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            if self.waiting >= self.limits.queue:
                raise Refusal(503, f"expected at most {self.limits.queue} requests at a time; try again in a second")
            self.waiting += 1
            try:
                read = _bag_body if kind == "bag" else _body
                body = await read(request, self.limits.body_seconds)
                status, answer = await self.computer.ask(kind, body, self.limits.seconds)
            except anyio.get_cancelled_exc_class():
                # Only an ending server cancels; a sentence serves better than a broken connection and a traceback.
                raise Refusal(503, "the server is ending") from None
            finally:
                self.waiting -= 1
            return Response(answer, status, _retry(status), media_type="application/json")

        return respond

    async def health(self, request: Request) -> Response:
        """200 if some worker can answer, else 503."""
        state = self.computer.state()
        fields = {"status": "ok" if state.ready else "no worker is ready", "workers": state.workers}
        fields |= {"ready": state.ready, "lost": state.lost, "queue": self.waiting}
        return json_response(fields, 200 if state.ready else 503)


async def _bag_body(request: Request, seconds: float) -> bytes:
    """A line with what the address asks (name, model, output), then the bytes of the file."""
    head = json_bytes(dict(request.query_params)) + b"\n"
    return head + await _body(request, max(seconds, BAG_SECONDS), "application/octet-stream", MAX_BAG_BYTES)


async def _body(request: Request, seconds: float, expected: str = "application/json", most: int = MAX_BYTES) -> bytes:
    """The body, unless it is of another type, too large or too slow; one that says its size is refused unread."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != expected:
        # Also what keeps other sites out: a browser asks before it sends this type across origins, and gets a no.
        raise Refusal(415, f"Content-Type: expected {expected}, got {media[:40] or 'none'}")
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated[:12]) > most:
        raise Refusal(413, f"body: expected at most {most:,} bytes, got {int(stated[:12]):,}")
    body = bytearray()
    try:
        with anyio.fail_after(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise Refusal(413, f"body: expected at most {most:,} bytes, got more")
    except TimeoutError:
        raise Refusal(408, f"body: expected within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "body: the client went away") from None
    return bytes(body)


def json_response(data: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(json_bytes(data), status, media_type="application/json")


def _error(refusal: Refusal, headers: Any = None) -> Response:
    return Response(error_bytes(refusal), refusal.status, headers, media_type="application/json")


async def _refused(request: Request, refusal: Refusal) -> Response:
    # After an early no the rest of the body is still on its way: do not read it as the next request.
    close = {"connection": "close"} if refusal.status in (408, 413, 415) else {}
    return _error(refusal, close | _retry(refusal.status))


def _retry(status: int) -> dict[str, str]:
    return {"retry-after": "1"} if status == 503 else {}


async def _http_error(request: Request, error: HTTPException) -> Response:
    known = {404: "no such address; /api lists them", 405: f"this address does not take {request.method}"}
    return _error(Refusal(error.status_code, known.get(error.status_code, error.detail)), error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return _error(Refusal(500, "something went wrong here; the server's log says what"))


def _file_route(path: str, name: str, media_type: str) -> Route:
    return Route(path, _constant((files(__package__) / "static" / name).read_bytes(), media_type))


def _constant(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return respond
