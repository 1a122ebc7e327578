"""Counts and latencies of requests, as the text that Prometheus reads (exposition format 0.0.4).

Paths are those of the application; whatever else is asked for counts as "other", so that nobody can make the list of
series grow. Nothing here knows what a text said.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .computing import State

TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """ASGI application around another one, which counts.

    Parameters
    ----------
    app : what to count
    paths : the addresses that are counted by name
    """

    def __init__(self, app: ASGIApp, paths: Collection[str]) -> None:
        self.app, self.paths = app, frozenset(paths)
        self.requests: Counter[tuple[str, int]] = Counter()
        self.buckets: Counter[tuple[str, float]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request and note status and time."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self.paths else "other"
        status = 500
        begin = time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.open += 1
        try:
            await self.app(scope, receive, noting)
        finally:
            self.open -= 1
            self.note(path, status, time.perf_counter() - begin)

    def note(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[path, status] += 1
        self.seconds[path] += seconds  # type: ignore[assignment]
        for bucket in BUCKETS:
            if seconds <= bucket:
                self.buckets[path, bucket] += 1

    def text(self, waiting: int, limit: int, state: State) -> str:
        """Everything, in the format of Prometheus.

        Parameters
        ----------
        waiting, limit : explanations asked for and not yet answered, and how many there may be
        state : of the workers
        """
        lines = ["# HELP acf_requests_total Requests by address and status.", "# TYPE acf_requests_total counter"]
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'acf_requests_total{{path="{path}",status="{status}"}} {count}')
        lines += ["# HELP acf_request_seconds Time to answer.", "# TYPE acf_request_seconds histogram"]
        for path in sorted(self.seconds):
            total = sum(count for (own, _), count in self.requests.items() if own == path)
            for bucket in BUCKETS:
                lines.append(f'acf_request_seconds_bucket{{path="{path}",le="{bucket}"}} {self.buckets[path, bucket]}')
            lines.append(f'acf_request_seconds_bucket{{path="{path}",le="+Inf"}} {total}')
            lines.append(f'acf_request_seconds_sum{{path="{path}"}} {self.seconds[path]:.6f}')
            lines.append(f'acf_request_seconds_count{{path="{path}"}} {total}')
        errors = sum(count for (_, status), count in self.requests.items() if status >= 500)
        for name, kind, text, value in (
            ("errors_total", "counter", "Answers with a status of 500 or more.", errors),
            ("timeouts_total", "counter", "Requests that took too long.", state.timeouts),
            ("connections_open", "gauge", "Requests being read or answered, of any address.", self.open),
            ("queue", "gauge", "Explanations asked for and not yet answered.", waiting),
            ("queue_limit", "gauge", "How many there may be before 503.", limit),
            ("workers", "gauge", "Workers that there should be.", state.workers),
            ("workers_ready", "gauge", "Workers that can answer.", state.ready),
            ("workers_lost_total", "counter", "Workers that died and were replaced.", state.lost),
        ):
            lines += [f"# HELP acf_{name} {text}", f"# TYPE acf_{name} {kind}", f"acf_{name} {value}"]
        return "\n".join(lines) + "\n"
