"""The application: the page, its API and their protection.

A request passes through the security headers, the check of its Host, and the gate (token, type, size and time of the
body, number of computations) before FastAPI checks its fields. Answers are computed in threads, so that a long text
does not block other requests for the page. The files of the page are read at the start, so no path is built from a
request.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic_core import PydanticSerializationError, to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import __version__
from ..._arrays import plain
from ...game.interactions import interactions
from ..explanations.explain import explain_units
from ..explanations.explanation import Explanations, shared_dict
from ..explanations.methods import METHODS, Method, as_methods
from ..models.mean_text import MeanPooledText, VocabularyReader
from ..models.protocol import Model
from ..models.text_classifier import TextClassifier
from ..show import figures
from ..show.html import stylesheet
from ..show.sanitize import elide, visible
from . import schema
from .schema import (
    MAX_BYTES,
    MAX_CHARACTERS,
    ExplainQuestion,
    InteractionsQuestion,
    Question,
    Refusal,
)

THREADS = 8  # threads that compute at the same time
LARGE = 2_000  # characters; longer texts, and methods that sample, are computed one at a time to bound the memory
COOKIE = "attn_closed_form_token"
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")  # names that can only refer to this machine
FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/words.js": ("words.js", "text/javascript"),
    "/figures.js": ("figures.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
# No inline scripts or styles, no external resources, no embedding in frames; scripts cannot turn text into markup.
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


@dataclass(frozen=True)
class Limits:
    """The limits of a server, per worker process.

    Attributes
    ----------
    queue : maximum number of answers being computed or queued; further requests get a 503
    seconds : time limit for an answer, including waiting (504)
    body_seconds : time limit for the body of a request (408), and for a client to receive an answer
    bodies : maximum number of requests whose bodies are arriving; beyond it, the oldest gets a 408
    """

    queue: int = 64
    seconds: float = 30.0
    body_seconds: float = 10.0
    bodies: int = 128


def make_app(
    model: Model,
    name: str,
    hosts: tuple[str, ...] = LOOPBACK,
    token: str | None = None,
    limits: Limits | None = None,
    example: str | None = None,
) -> ASGIApp:
    """Build the page and its API for one model.

    Parameters
    ----------
    model : a model that reads texts
    name : the name that the page shows
    hosts : accepted Host headers, which protects against DNS rebinding; ("*",) accepts all
    token : secret that every request must carry, except for /health
    limits : limits on number and time
    example : text that the page shows first; `example_text(model)` by default

    Returns
    -------
    An ASGI application, for uvicorn or any other server
    """
    limits = limits or Limits()
    if model.reads != "a text":  # it would read a text as the name of a file
        raise ValueError(
            f"model: expected a model that reads texts, got {model!r}, which reads {model.reads}"
        )
    about = model_answer(model, name, example_text(model) if example is None else example)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        if about["example"]:  # computes tables and runs late imports before the first request
            explain_answer(model, ExplainQuestion.model_validate({"text": about["example"]}))
        yield

    one_at_a_time = anyio.CapacityLimiter(1)
    static = files(__package__) / "static"

    async def compute(
        answer: Callable[[Model, Any], dict[str, Any]], question: Question
    ) -> Response:
        if len(question.text) > LARGE or question.samples:
            limiter = one_at_a_time
        else:
            limiter = None
        try:
            with anyio.fail_after(limits.seconds):
                body = await anyio.to_thread.run_sync(
                    lambda: json_bytes(answer(model, question)),
                    abandon_on_cancel=True,
                    limiter=limiter,
                )
        except TimeoutError:
            raise Refusal(
                504, f"expected an answer within {limits.seconds:g} seconds; try a shorter text"
            ) from None
        except anyio.get_cancelled_exc_class():  # only a server that is shutting down cancels
            raise Refusal(503, "the server is shutting down") from None
        return Response(body, media_type="application/json")

    left_out: Any = {
        "docs_url": None,
        "redoc_url": None,
    }  # pages that load scripts from another site
    app = FastAPI(
        title="attn-closed-form",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,
        **left_out,
    )
    constant = {
        path: Response((static / name).read_bytes(), media_type=kind)
        for path, (name, kind) in FILES.items()
    }
    constant["/look.css"] = Response(stylesheet(), media_type="text/css")
    for (
        path,
        response,
    ) in constant.items():  # a response is an application, which can answer many requests
        app.router.routes.append(Route(path, response, methods=["GET"]))
    errors: Any = {
        status: {"model": schema.Error, "description": text}
        for status, text in schema.ERRORS.items()
    }

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Report that the server is running; no token is needed."""
        return {"status": "ok"}

    @app.get("/api/model")
    async def describe() -> Response:
        """Return the model, its example, the limits and the table of methods."""
        return Response(json_bytes(about), media_type="application/json")

    @app.post("/api/explain", response_model=schema.ExplainAnswer, responses=errors)
    async def explain(question: ExplainQuestion) -> Response:
        """Return the scores of every word by every method, and the effect of removing words."""
        return await compute(explain_answer, question)

    @app.post("/api/why", response_model=schema.WhyAnswer, responses=errors)
    async def why(question: Question) -> Response:
        """Return the certified reasons, scores of sentences, and the SLALOM plane."""
        return await compute(why_answer, question)

    @app.post("/api/interactions", response_model=schema.InteractionsAnswer, responses=errors)
    async def interactions(question: InteractionsQuestion) -> Response:
        """Return the Shapley interactions of one word with all others."""
        return await compute(interactions_answer, question)

    async def failed(request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            error = schema.refusal_of(error.errors())
        if isinstance(error, Refusal):
            return error_response(error)
        if isinstance(error, HTTPException):
            status = error.status_code
        else:
            status = 500
        messages = {
            400: "body: expected JSON in UTF-8",
            404: "no such address; /openapi.json lists them",
            405: f"this address does not accept {request.method}",
        }
        response = error_response(
            Refusal(status, messages.get(status, "the server failed; its log has the details"))
        )
        response.headers.update(getattr(error, "headers", None) or {})  # such as Allow
        return response

    for kind in (Refusal, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, failed)
    # The guard wraps the whole application, because Starlette answers failures (500) outside `add_middleware`.
    return Guard(app, hosts, token, limits)


def json_bytes(data: Any) -> bytes:
    """Encode data as JSON in UTF-8, or in ASCII with escapes if there is a lone surrogate."""
    try:
        return to_json(data, inf_nan_mode="null")  # several times faster than the standard library
    except PydanticSerializationError:
        return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode(
            "ascii"
        )


def error_response(refusal: Refusal) -> Response:
    """Return the answer to a rejected request."""
    # After 401 to 415 the body may still be arriving, and the server must not read it as the next request.
    if refusal.status in (401, 408, 413, 415):
        headers = {"connection": "close"}
    else:
        headers = {}
    headers |= {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}.get(
        refusal.status, {}
    )
    body = {"error": refusal.message, "status": refusal.status} | (
        {"field": refusal.field} if refusal.field else {}
    )
    return Response(json_bytes(body), refusal.status, headers, media_type="application/json")


class Guard:
    """ASGI middleware that adds HEADERS to every answer and rejects requests that are not allowed.

    Requests need a known Host (Starlette's TrustedHostMiddleware rejects IPv6 addresses before 1.7), the token, and a
    body that is JSON, small and complete in time. A request counts toward the limit only after its body has arrived, so
    that incomplete requests do not block others; if there are too many, the oldest is dropped. A client that does not
    receive its answer in time is disconnected, so that it does not count any longer.
    """

    def __init__(
        self, app: ASGIApp, hosts: tuple[str, ...], token: str | None, limits: Limits
    ) -> None:
        self.app = app
        self.hosts = hosts
        self.token = token
        self.limits = limits
        self.running = 0
        self.unread: dict[
            anyio.CancelScope, None
        ] = {}  # requests whose bodies are arriving, oldest first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *RAW_HEADERS]}
            with anyio.move_on_after(self.limits.body_seconds) as scope:
                return await send(message)
            if scope.cancelled_caught:
                raise ClientDisconnect

        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request = Request(scope, receive)
        counts = request.method == "POST"
        try:
            named = [
                re.fullmatch(r"(\[[^]]*\]|[^:]*)(:\d*)?", host)
                for host in request.headers.getlist("host")
            ]
            if "*" not in self.hosts and [
                match and match[1].lower() in self.hosts for match in named
            ] != [True]:
                raise Refusal(
                    400, f"Host: expected one of {', '.join(self.hosts)}, got another name"
                )
            # Not `request.url`, which is built from the Host header.
            if (
                self.token is not None
                and scope["path"] != "/health"
                and not self._carries_token(request)
            ):
                if scope["path"] == "/" and self._matches(request.query_params.get("token")):
                    return await self._with_cookie(request)(scope, receive, respond)
                raise Refusal(
                    401,
                    "token: expected `Authorization: Bearer TOKEN`, or the page opened as /?token=TOKEN",
                )
            if counts:
                arrived = [await self._body(request)]
            else:
                arrived = []
            if counts and self.running >= self.limits.queue:
                raise Refusal(
                    503,
                    f"expected at most {self.limits.queue} requests at a time; try again in a second",
                )
        except Refusal as refusal:
            return await error_response(refusal)(scope, receive, respond)

        async def replay() -> Message:
            if arrived:
                return arrived.pop()
            return await receive()

        self.running += counts
        try:
            await self.app(scope, replay, respond)
        except ClientDisconnect:  # there is no client to answer
            pass
        finally:
            self.running -= counts

    def _matches(self, value: str | None) -> bool:
        return value is not None and secrets.compare_digest(
            value.encode(), (self.token or "").encode()
        )

    def _carries_token(self, request: Request) -> bool:
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        return (scheme.lower() == "bearer" and self._matches(value)) or self._matches(
            request.cookies.get(COOKIE)
        )

    def _with_cookie(self, request: Request) -> Response:
        """Move the token from the address into a cookie; browsers keep the fragment after the #."""
        response = Response(status_code=303, headers={"location": "/"})
        secure = request.scope.get("scheme") == "https"
        response.set_cookie(COOKIE, self.token or "", httponly=True, samesite="lax", secure=secure)
        return response

    async def _body(self, request: Request) -> Message:
        """Return the body as one message, or reject it if it has another type, is too large or too slow."""
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            # This also blocks other sites: a browser sends a preflight request for this type across origins, which is
            # rejected.
            raise Refusal(
                415, f"Content-Type: expected application/json, got {media[:40] or 'none'}"
            )
        stated = request.headers.get("content-length", "")
        size = int(stated[:12]) if stated.isdigit() else 0
        body = bytearray()
        with anyio.move_on_after(self.limits.body_seconds) as scope:
            if len(self.unread) >= self.limits.bodies:
                oldest = next(iter(self.unread))
                del self.unread[oldest]
                oldest.cancel()
            self.unread[scope] = None
            try:
                while size <= MAX_BYTES:
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(
                            400, "body: expected the complete body, but the client disconnected"
                        )
                    body += message.get("body", b"")
                    if not message.get("more_body", False):
                        return {"type": "http.request", "body": bytes(body), "more_body": False}
                    size = max(size, len(body))
            finally:
                self.unread.pop(scope, None)
            raise Refusal(413, f"body: expected at most {MAX_BYTES:,} bytes, got at least {size:,}")
        raise Refusal(
            408,
            f"body: expected within {self.limits.body_seconds:g} seconds, or sooner on a busy server",
        )


# --- answers --------------------------------------------------------------------------------------------------------

CANDIDATES = (
    3_000  # number of words from which an example is chosen; training orders them by frequency
)
EXAMPLE_CLASSES = 4


def example_text(model: Model) -> str:
    """Return the example text of the model's card, or the words that support each class most.

    >>> from attn_closed_form import load_demo_model
    >>> model = load_demo_model()
    >>> set(model.predict(example_text(model).split())) == set(model.outputs)
    True
    """
    words: list[str] = []
    if isinstance(model, TextClassifier):
        example = (model.card or {}).get("example")
        if isinstance(example, str) and example.strip():
            return visible(example)[:1_000]
        words = [
            word
            for word in model.vocabulary
            if word not in (model.vocabulary.cls, model.vocabulary.unk)
        ]
    elif isinstance(model, MeanPooledText) and isinstance(model.reader, VocabularyReader):
        words = list(model.reader.rows)
    readable = []
    rows = []
    for word in words[:CANDIDATES]:
        try:
            units = model.read(word)
        except ValueError:  # the tokenizer does not produce this word
            continue
        readable.append(word)
        rows.append(model.logits(units))
    if not rows:
        return ""
    logits = np.array(rows)
    if logits.shape[1] == 1:
        logits = np.hstack([-logits, logits]) / 2
    lead = logits - logits.mean(axis=1, keepdims=True)
    best = np.argsort(-lead, axis=0, kind="stable")[:3, :EXAMPLE_CLASSES]
    return " ".join(dict.fromkeys(readable[i] for i in best.ravel()))


def model_answer(model: Model, name: str, example: str) -> dict[str, Any]:
    """Return the facts about the model that the page shows before the first question."""
    fields = ("name", "label", "family", "kind", "accuracy", "summary", "forecasts")
    return {
        "name": elide(visible(name), 60),
        "model": repr(model),
        "outputs": list(model.outputs),
        "players": list(model.groupings),
        "absent": list(model.absences),
        "example": example,
        "limits": {"bytes": MAX_BYTES, "characters": MAX_CHARACTERS},
        "methods": [
            {field: getattr(method, field) for field in fields} for method in METHODS.values()
        ],
    }


def explain_answer(model: Model, question: ExplainQuestion) -> dict[str, Any]:
    """Return the scores of every player by every method, and the effect of removing players.

    >>> from attn_closed_form import load_demo_model
    >>> question = ExplainQuestion(text="A fine film", methods=["leave-one-out"], removed=[1])
    >>> answer = explain_answer(load_demo_model(), question)
    >>> answer["labels"], answer["removal"]["players"]
    (['a', 'fine', 'film'], [1])
    >>> bool(np.isclose(answer["removal"]["change"], -answer["methods"]["leave-one-out"]["scores"][1]))
    True
    """
    explanations = _explanations(model, question, as_methods(question.methods))
    removed = [_player("removed", player, explanations) for player in question.removed]
    return {
        **shared_dict(explanations.evidence),
        "methods": {
            name: {**e.own_dict(), "kind": e.info.kind} for name, e in explanations.items()
        },
        "removal": figures.removal(explanations, removed) if removed else None,
        "figures": figures.figures_of(explanations),
    }


def _explanations(
    model: Model, question: Question, methods: tuple[Method, ...] = ()
) -> Explanations:
    try:
        units = model.read(question.text)
        limit = schema.MAX_TOKENS
        purpose = ""
        if question.samples:
            limit = schema.MAX_SAMPLED
            purpose = " for methods that sample"
        if (n := len(units.labels)) > limit:
            raise Refusal(
                413, f"text: expected at most {limit:,} tokens{purpose}, got {n:,}", "text"
            )
        return explain_units(model, units, methods, question.settings)
    except (ValueError, TypeError) as error:
        raise Refusal(422, str(error), str(error).partition(":")[0]) from None


def why_answer(model: Model, question: Question) -> dict[str, Any]:
    """Return certified reasons, sentence contributions and the SLALOM plane, which the page shows after a pause.

    >>> from attn_closed_form import load_demo_model
    >>> answer = why_answer(load_demo_model(), Question(text="A slow start. A wonderful film!"))
    >>> len(answer["reasons"]["sentences"]), len(answer["sentences"]["scores"])
    (2, 2)
    """
    explanations = _explanations(model, question, as_methods(figures.SLALOM))
    return {
        "reasons": explanations.reasons().to_dict(),
        "sentences": explanations.sentences().to_dict(),
        "figures": {"slalom_plane": plain(figures.slalom_plane(explanations))},
    }


def interactions_answer(model: Model, question: InteractionsQuestion) -> dict[str, Any]:
    """Return the Shapley interactions of one player with every other player, and None for the player itself."""
    explanations = _explanations(model, question)
    evidence = explanations.evidence
    player = _player("player", question.player, explanations)
    row, error = evidence.guaranteed(lambda game, tol: interactions(game, player=player, tol=tol))
    values = [None if j == player else value for j, value in enumerate(row.tolist())]
    answer = {
        "player": player,
        "labels": list(evidence.labels),
        "interactions": values,
        "error": error,
    }
    answer["scale"] = evidence.scale.name
    return answer | {"figures": {"partners": figures.partners(evidence, player, row)}}


def _player(field: str, named: int | list[int], explanations: Explanations) -> int:
    """Return the index of a player, given its index or the span of an occurrence."""
    spans = explanations.evidence.spans
    if isinstance(named, int):
        if named < len(spans):
            return named
        raise Refusal(
            422,
            f"{field}: expected a player in 0..{len(spans) - 1}, got {elide(str(named), 40)}",
            field,
        )
    for j, occurrences in enumerate(spans):
        if tuple(named) in occurrences:
            return j
    raise Refusal(
        422,
        f"{field}: expected the span of a token that the model reads, got {elide(str(named), 60)}",
        field,
    )
