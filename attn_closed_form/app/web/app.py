"""The application: the page, its API, and the rules for requests.

It is made for one person on one machine: it accepts only requests that name this machine, and it
has no accounts and no encryption. `make_app` also returns it to those who run it behind a proxy
(docs/service.md).

Answers are computed in threads, so that a long text does not block other requests. A thread cannot
be ended from outside, so an answer that nobody waits for any longer ends at its next checkpoint
(`answers.py`). Its place among the threads is free only then: work never piles up.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from threading import Event
from typing import Any

import anyio
import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic_core import PydanticSerializationError, to_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import __version__
from ..._arrays import check
from ..models.protocol import Model, TextModel
from ..show.page import stylesheet
from . import schema
from .answers import (
    Checkpoint,
    Recent,
    compare_answer,
    example_text,
    explain_answer,
    interactions_answer,
    model_answer,
    report_answer,
    why_answer,
)
from .schema import (
    MAX_BYTES,
    CompareQuestion,
    ExplainQuestion,
    InteractionsQuestion,
    Question,
    Refusal,
)

# Tuning: answers that are computed at the same time. A short text takes 10 milliseconds, most of
# them in the interpreter, which runs one thread at a time; more threads only need more memory.
THREADS = 8
# Tuning, in characters: longer texts, and methods that sample, are computed one at a time, because
# each of them may take 100 MB.
LONG_TEXT = 2_000
# Default time limit of an answer, in seconds: long after a person has stopped waiting.
TIME_LIMIT = 30.0
# The names that only refer to this machine, whose check protects against DNS rebinding.
LOOPBACK = ("localhost", "127.0.0.1")
# The files of the page by address, which are read at the start: no path is built from a request.
PAGE_FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/words.js": ("words.js", "text/javascript"),
    "/figures.js": ("figures.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
# No inline scripts or styles, no external resources, no embedding in frames; scripts cannot turn
# text into markup.
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

Answer = Callable[[Model, Any, Checkpoint, Recent | None], dict[str, Any]]


def make_app(
    model: Model,
    name: str,
    hosts: tuple[str, ...] = LOOPBACK,
    seconds: float = TIME_LIMIT,
    example: str | None = None,
) -> ASGIApp:
    """Build the page and its API for one model.

    Parameters
    ----------
    model : a model that reads texts
    name : the name that the page shows
    hosts : accepted names in the Host header; ("*",) accepts all, for a proxy that checks the name
    seconds : time limit of an answer, after which its work ends and the status is 504
    example : text that the page shows first; `example_text(model)` by default

    Returns
    -------
    An ASGI application, for uvicorn or any other server

    Raises
    ------
    ValueError : if the model does not read texts

    Examples
    --------
    >>> from attn_closed_form import load_demo_model
    >>> type(make_app(load_demo_model(), "films", hosts=("films.example",))).__name__
    'Door'
    """
    # Another model would read a text as the name of a file.
    check("model", isinstance(model, TextModel), "a model that reads texts", repr(model))
    if example is None:
        example = example_text(model)
    about = model_answer(model, name, example)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if example:  # computes tables and runs late imports before the first request
            explain_answer(model, ExplainQuestion.model_validate({"text": example}))
        yield

    # pages of documentation would load scripts from another site
    app = FastAPI(
        title="attn-closed-form",
        version=__version__,
        lifespan=lifespan,
        # An address with a slash too many is an error and not a redirect.
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    _add_files(app)
    _add_errors(app)
    desk = Desk(model, seconds)
    errors: Any = {
        status: {"model": schema.Error, "description": text}
        for status, text in schema.STATUSES.items()
    }

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Report that the server is running."""
        return {"status": "ok"}

    @app.get("/api/model")
    async def describe() -> Response:
        """Return the model, its example, the limits and the table of methods."""
        return Response(json_bytes(about), media_type="application/json")

    @app.post("/api/explain", response_model=schema.ExplainAnswer, responses=errors)
    async def explain(question: ExplainQuestion, request: Request) -> Response:
        """Return the scores of every word by every method, and the effect of removing words."""
        return await desk.compute(explain_answer, question, request)

    @app.post("/api/why", response_model=schema.WhyAnswer, responses=errors)
    async def why(question: Question, request: Request) -> Response:
        """Return the certified reasons, scores of sentences, and the SLALOM plane."""
        return await desk.compute(why_answer, question, request)

    @app.post("/api/compare", response_model=schema.CompareAnswer, responses=errors)
    async def compare(question: CompareQuestion, request: Request) -> Response:
        """Return two texts side by side, and how one prediction becomes the other."""
        return await desk.compute(compare_answer, question, request)

    @app.post("/api/report", response_model=schema.ReportAnswer, responses=errors)
    async def report(question: Question, request: Request) -> Response:
        """Return the report of a text as an HTML page."""
        return await desk.compute(report_answer, question, request)

    @app.post("/api/interactions", response_model=schema.InteractionsAnswer, responses=errors)
    async def interactions(question: InteractionsQuestion, request: Request) -> Response:
        """Return the Shapley interactions of one word with all others."""
        return await desk.compute(interactions_answer, question, request)

    # Around the whole application, because Starlette answers failures (500) outside of the
    # middleware that an application adds.
    return Door(TrustedHostMiddleware(app, hosts, www_redirect=False))


def _add_files(app: FastAPI) -> None:
    """Add the files of the page; a response is an application, which can answer many requests."""
    static = files(__package__) / "static"
    for path, (name, kind) in PAGE_FILES.items():
        response = Response((static / name).read_bytes(), media_type=kind)
        app.router.routes.append(Route(path, response, methods=["GET"]))
    look = Response(stylesheet(), media_type="text/css")
    app.router.routes.append(Route("/look.css", look, methods=["GET"]))


def _add_errors(app: FastAPI) -> None:
    """Answer every error with its status and a message as JSON."""

    async def failed(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            return error_response(schema.refusal_of(error.errors()))
        if isinstance(error, Refusal):
            return error_response(error)
        messages = {
            400: "body: expected JSON in UTF-8",
            404: "no such address; /openapi.json lists them",
            405: f"this address does not accept {request.method}",
        }
        # What is not an answer of the framework is a failure of ours.
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = messages.get(status, "the server failed; its log has the details")
        response = error_response(Refusal(status, message))
        if isinstance(error, HTTPException):
            response.headers.update(error.headers or {})  # such as Allow
        return response

    for kind in (Refusal, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, failed)


class Abandoned(Exception):
    """The end of work in its thread, because nobody waits for the answer any longer."""


class Desk:
    """Computes answers of one model in threads, each for at most some seconds.

    Parameters
    ----------
    model : the model
    seconds : time limit of an answer, including the time in which it waits for a thread
    """

    def __init__(self, model: Model, seconds: float) -> None:
        self.model = model
        self.seconds = seconds
        # Long texts have a thread of their own, so they never take those of short ones.
        self.short = anyio.CapacityLimiter(THREADS)
        self.long = anyio.CapacityLimiter(1)
        self.recent = Recent()

    async def compute(self, answer: Answer, question: Question, request: Request) -> Response:
        """Return the answer to a question, or raise a `Refusal` if it takes too long."""
        stopped = Event()
        limiter = self.short
        if len(question.text) > LONG_TEXT or question.samples:
            limiter = self.long

        def checkpoint() -> None:
            if stopped.is_set():
                raise Abandoned

        def work() -> None:
            try:
                # The client may have left while this work waited for a thread.
                checkpoint()
                outcome.append(json_bytes(answer(self.model, question, checkpoint, self.recent)))
            except Abandoned:
                pass
            except Refusal as refusal:  # a task group would wrap it
                outcome.append(refusal)

        async def watch() -> None:
            """Stop the work after the time limit, when the client is gone, or when the server
            ends.
            """
            try:
                with anyio.move_on_after(self.seconds):
                    # The body has been read already, so the next message is the end of the
                    # connection.
                    while (await request.receive())["type"] != "http.disconnect":
                        pass
            finally:
                stopped.set()
                group.cancel_scope.cancel()  # ends the wait for a thread

        outcome: list[bytes | Refusal] = []
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                await anyio.to_thread.run_sync(work, limiter=limiter)
                # The answer is there, so nobody has to watch any longer.
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():  # only a server that is shutting down cancels
            raise Refusal(503, "the server is shutting down") from None
        if not outcome:
            raise Refusal(
                504, f"expected an answer within {self.seconds:g} seconds; try a shorter text"
            )
        if isinstance(outcome[0], Refusal):
            raise outcome[0]
        return Response(outcome[0], media_type="application/json")


def json_bytes(data: Any) -> bytes:
    """Encode data as JSON in UTF-8, or in ASCII with escapes if there is a lone surrogate."""
    try:
        return to_json(data, inf_nan_mode="null")  # several times faster than the standard library
    except PydanticSerializationError:
        text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        return text.encode("ascii")


def error_response(refusal: Refusal) -> Response:
    """Return the answer to a rejected request."""
    body: dict[str, Any] = {"error": refusal.message, "status": refusal.status}
    if refusal.field:
        body["field"] = refusal.field
    return Response(json_bytes(body), refusal.status, media_type="application/json")


class Door:
    """ASGI middleware that adds HEADERS to every answer and refuses bodies by their headers.

    A body must be JSON, which a page of another site cannot send without a preflight request, and
    must state a size of at most MAX_BYTES. The server reads no more than the stated size.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = _refused_body(Headers(scope=scope)) if scope["method"] == "POST" else None
        if refusal is None:
            return await self.app(scope, receive, respond)
        response = error_response(refusal)
        # The body may still be arriving, and the server must not read it as the next request.
        response.headers["connection"] = "close"
        await response(scope, receive, respond)


def _refused_body(headers: Headers) -> Refusal | None:
    """Return the reason to refuse a body, or None."""
    # The type may be followed by a character set.
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        received = media[:40] or "none"
        return Refusal(415, f"Content-Type: expected application/json, got {received}")
    size = headers.get("content-length", "")
    if not size.isdecimal():
        return Refusal(411, "Content-Length: expected the size of the body, got none")
    # The length comes first: Python refuses to convert texts of thousands of digits.
    if len(size) > len(str(MAX_BYTES)) or int(size) > MAX_BYTES:
        return Refusal(413, f"body: expected at most {MAX_BYTES:,} bytes, got {size[:12]}")
    return None
