"""From the body of a request to the body of its answer, in threads of this process.

A computer has `about` (what the page must know of the model), `start`, `stop`, `ask(kind, body, seconds)`, which
returns a status and a JSON body, and `state`, for /health and /metrics. `InThreads` is one; `workers.py` has the other,
`InProcesses`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import anyio.to_thread

from ..models.protocol import Model
from .answers import explain_answer, interactions_answer, why_answer
from .bag_answer import bag_answer
from .fields import Question, Refusal, question, read_json
from .models import Models

THREADS = 8
KINDS = ("explain", "why", "interactions", "bag")  # of answers; each has an address of its own


@dataclass(frozen=True)
class State:
    """Workers that there should be, that are ready, that were lost so far, and how many requests took too long."""

    workers: int
    ready: int
    lost: int = 0
    timeouts: int = 0


class Computer(Protocol):
    """What answers requests."""

    @property
    def about(self) -> dict[str, Any]: ...  # noqa: D102

    async def start(self) -> None:
        """Get ready; called once, when the server starts."""

    async def stop(self) -> None:
        """End; called once, when the server has ended its connections."""

    async def ask(self, kind: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Status and JSON body of the answer; 504 if it takes longer."""

    def state(self) -> State:
        """How the workers are."""


def answer_bytes(models: Models, kind: str, body: bytes) -> tuple[int, bytes]:
    """Status and JSON of the answer to one request; `kind` is one of KINDS.

    The body is a JSON object; of a bag, a line with a JSON object and then the bytes of its file.

    >>> from attn_closed_form import load_demo_model
    >>> answer_bytes(Models({"demo": load_demo_model()}), "explain", b'{"txt": 1}')[0]
    422
    """
    # Looked up here, so that a test can put something slow or broken in their place.
    answers: dict[str, Callable[[Model, Question], dict[str, Any]]]
    answers = {"explain": explain_answer, "why": why_answer, "interactions": interactions_answer}
    try:
        head, _, data = body.partition(b"\n") if kind == "bag" else (body, b"", b"")
        asked = read_json(head)
        model = models.pick(asked.pop("model", None))
        if kind == "bag":
            return 200, json_bytes(bag_answer(model, asked, data))
        return 200, json_bytes(answers[kind](model, question(asked, player=kind == "interactions")))
    except Refusal as refusal:
        return refusal.status, error_bytes(refusal)
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return 500, error_bytes(Refusal(500, "something went wrong here; the server's log says what"))


def json_bytes(data: Any) -> bytes:
    """ASCII JSON: a lone surrogate, which UTF-8 cannot say, passes as an escape."""
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def error_bytes(refusal: Refusal) -> bytes:
    """The body of a refusal."""
    field = {"field": refusal.field} if refusal.field else {}
    return json_bytes({"error": refusal.message, "status": refusal.status} | field)


def too_slow(seconds: float) -> Refusal:
    """What a request that takes too long is told."""
    return Refusal(504, f"expected an answer within {seconds:g} seconds; try a shorter text or fewer methods")


def warm_up(models: Models) -> None:
    """Pay now for collapsed tables and for imports that wait until needed."""
    for model in models.values():
        with contextlib.suppress(Refusal):  # a model that reads no text says so, and is warm all the same
            explain_answer(model, question({"text": "a"}))


class InThreads:
    """Answers in threads of this process, at most THREADS at once.

    Simple, and enough for one person; Python gives it about one core, whatever the number of threads.
    """

    def __init__(self, models: Models) -> None:
        self.models = models
        self.about = models.about()
        self.limiter: anyio.CapacityLimiter | None = None
        self.timeouts = 0

    async def start(self) -> None:
        """Warm up."""
        await anyio.to_thread.run_sync(warm_up, self.models)

    async def stop(self) -> None:
        """Nothing to end."""

    async def ask(self, kind: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Answer in a thread; one that takes too long goes on, unheard."""
        # Made here, since a limiter belongs to the event loop that it first ran in.
        self.limiter = self.limiter or anyio.CapacityLimiter(THREADS)
        try:
            with anyio.fail_after(seconds):
                return await anyio.to_thread.run_sync(
                    answer_bytes, self.models, kind, body, limiter=self.limiter, abandon_on_cancel=True
                )
        except TimeoutError:
            self.timeouts += 1
            raise too_slow(seconds) from None

    def state(self) -> State:
        """One worker, this process."""
        return State(1, 1, timeouts=self.timeouts)
