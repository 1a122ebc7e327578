"""Is the live page fast enough to follow someone who types, and does the service grow with its workers?

    python -m benchmarks.web

Starts `attn-closed-form serve` on a free loopback port and asks `POST /api/explain` about random texts of 100 different
tokens, every text new. First one client that waits for each answer, for each kind of question; the error column
compares one answer of each kind with the library, and `processor` is the time of the server and its workers per
request, which, unlike the latency, does not depend on what else the machine does. Then 1, 16 and 80 clients at once
against one and against two workers. Last, 2,000 requests while workers are killed again and again: none may be lost.
The load is bounded and never leaves 127.0.0.1.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import DEFAULT_METHODS, METHODS, load_demo_model

from .harness import Bar, relative_error, report

SEED = 0
TOKENS = 100
REQUESTS = 100  # of one client
WARM_UP = 5
CLIENTS = (1, 16, 80)
LOAD = 480  # requests of all clients together
KILLED = 2_000  # requests while workers are killed
PAUSE = 1.0  # seconds between two kills
LIMIT = 0.050  # seconds, 95th percentile, one client


def main() -> int:
    rng = np.random.default_rng(SEED)
    vocabulary = load_demo_model().vocabulary

    def text() -> str:
        return " ".join(vocabulary[i] for i in rng.choice(np.arange(2, 5000), size=TOKENS, replace=False))

    rows = []
    with server(1) as (port, pid):
        for case, options in CASES.items():
            path = "interactions" if "player" in options else "explain"
            asked = [{"text": text(), **options} for _ in range(REQUESTS)]
            before = processor_seconds_of_all(pid)
            rows.append(one_client(port, path, asked, case))
            rows[-1]["processor seconds"] = (processor_seconds_of_all(pid) - before) / (REQUESTS + WARM_UP)
    rates: dict[int, float] = {}
    lost = 0
    for workers in (1, 2):
        with server(workers) as (port, _):
            for clients in CLIENTS:
                row, missing = many_clients(port, [text() for _ in range(LOAD)], clients, f"workers: {workers}")
                rows.append(row)
                lost += missing
            rates[workers] = max(row["requests/s"] for row in rows[-len(CLIENTS) :])
    with server(2) as (port, pid):
        killed = Killer(pid)
        killed.start()
        row, lost_in_kills = many_clients(port, [text() for _ in range(KILLED)], 16, "workers: 2, killed one by one")
        killed.done.set()
        killed.join()
        rows.append(row | {"killed": killed.count})
    bars = [
        Bar("95th percentile of all methods, one client, seconds", rows[0]["p95 seconds"], "<=", LIMIT),
        Bar("requests per second of two workers over those of one", rates[2] / rates[1], ">=", 1.7),
        Bar(f"requests lost of {2 * len(CLIENTS) * LOAD}, up to 80 clients at once", float(lost), "<=", 0.0),
        Bar(f"requests lost of {KILLED} while workers are killed", float(lost_in_kills), "<=", 0.0),
    ]
    settings = {"tokens": TOKENS, "model": "shipped", "methods": len(DEFAULT_METHODS), "with sampling": len(METHODS)}
    return 0 if report("web", rows, seed=SEED, settings=settings, bars=bars) else 1


CASES: dict[str, dict[str, Any]] = {
    "all methods": {},
    "all methods, positions": {"players": "positions"},
    "all methods, deletion": {"absent": "deleted"},
    "and LIME by 5000 samples": {"methods": "all"},
    "interactions of a word": {"player": 0},
}


@contextmanager
def server(workers: int) -> Iterator[tuple[int, int]]:
    """Port and process id of a server whose workers are all ready."""
    command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0"]
    command += ["--workers", str(workers), "--queue", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        try:
            while health(port)["ready"] < workers:
                time.sleep(0.05)
            yield port, process.pid
        finally:
            process.terminate()


def health(port: int) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/health")
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


class Killer(threading.Thread):
    """Kills a worker of a server, one after the other, at most one every PAUSE seconds."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.count = pid, 0
        self.done = threading.Event()

    def run(self) -> None:
        """Until told to stop."""
        while not self.done.wait(PAUSE):
            workers = [pid for pid in children(self.pid) if "spawn_main" in command_line(pid)]
            if len(workers) == 2:
                os.kill(workers[self.count % 2], signal.SIGKILL)
                self.count += 1


def children(pid: int) -> list[int]:
    """Processes that a process has started, in any of its threads; none where there is no /proc."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in file.read_text().split()]
    return sorted(found)


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def processor_seconds(pid: int) -> float:
    """User and system time of a process so far; NaN where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processor_seconds_of_all(pid: int) -> float:
    """The same of a process and its children together."""
    return processor_seconds(pid) + sum(processor_seconds(child) for child in children(pid))


def post(connection: HTTPConnection, path: str, data: dict[str, Any]) -> tuple[int, bytes, float]:
    """Status, answer, and the seconds from the first byte sent to the last one read."""
    body = json.dumps(data)
    start = time.perf_counter()
    connection.request("POST", f"/api/{path}", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    return response.status, answer, time.perf_counter() - start


def one_client(port: int, path: str, asked: list[dict[str, Any]], case: str) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    for data in asked[:WARM_UP]:
        post(connection, path, data)
    seconds = []
    start = time.perf_counter()
    for data in asked:
        status, answer, took = post(connection, path, data)
        assert status == 200, answer
        seconds.append(took)
    total = time.perf_counter() - start
    connection.close()
    error = largest_error(asked[-1], json.loads(answer)) if path == "explain" else None
    return summary(case, 1, seconds, total) | {"error": error}


def many_clients(port: int, texts: list[str], clients: int, case: str) -> tuple[dict[str, Any], int]:
    """Clients that each ask one text after the other; returns a row and how many got no answer."""
    seconds: list[float] = []

    def client(own: list[str]) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        for text in own:
            try:
                status, answer, took = post(connection, "explain", {"text": text})
            except OSError:  # the connection broke: the request is lost, and the next one has a new connection
                connection.close()
                continue
            if status == 200 and json.dumps(text).encode() in answer:
                seconds.append(took)
        connection.close()

    threads = [threading.Thread(target=client, args=(texts[k::clients],)) for k in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return summary(case, clients, seconds, time.perf_counter() - start), len(texts) - len(seconds)


def summary(case: str, clients: int, seconds: list[float], total: float) -> dict[str, Any]:
    middle, late, latest = np.percentile(seconds, [50, 95, 99])
    row = {"case": case, "clients": clients, "requests": len(seconds), "requests/s": len(seconds) / total}
    return row | {"median seconds": float(middle), "p95 seconds": float(late), "p99 seconds": float(latest)}


def largest_error(asked: dict[str, Any], answer: dict[str, Any]) -> float:
    options = {name: value for name, value in asked.items() if name != "text"}
    own = load_demo_model().explain(asked["text"], **options)
    return max(relative_error(answer["methods"][name]["scores"], e.scores) for name, e in own.items())


if __name__ == "__main__":
    sys.exit(main())
