"""Is the live page fast enough to follow someone who types? Latency of its API over HTTP on this machine.

    python -m benchmarks.web

Starts `attn-closed-form serve` on a free loopback port and asks `POST /api/explain` about random texts of 100 different
tokens, every text new: one client that waits for each answer, then eight at once. The load is bounded (REQUESTS each)
and never leaves 127.0.0.1. The error column compares one answer of each kind with the library; `processor` is the
server's own time a request, which, unlike the latency, does not depend on what else the machine does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import DEFAULT_METHODS, METHODS, load_demo_model
from benchmarks.harness import Bar, relative_error, report

SEED = 0
TOKENS = 100
REQUESTS = 100  # of one client
WARM_UP = 5
CLIENTS = 8
EACH = 20  # requests of each of the CLIENTS
LIMIT = 0.050  # seconds, 95th percentile, one client


def main() -> int:
    rng = np.random.default_rng(SEED)
    vocabulary = load_demo_model().vocabulary

    def text() -> str:
        return " ".join(vocabulary[i] for i in rng.choice(np.arange(2, 5000), size=TOKENS, replace=False))

    command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        try:
            rows = []
            for case, options in CASES.items():
                path = "interactions" if "player" in options else "explain"
                asked = [{"text": text(), **options} for _ in range(REQUESTS)]
                before = processor_seconds(server.pid)
                rows.append(one_client(port, path, asked, case))
                rows[-1]["processor seconds"] = (processor_seconds(server.pid) - before) / (REQUESTS + WARM_UP)
            many, lost = many_clients(port, [[{"text": text()} for _ in range(EACH)] for _ in range(CLIENTS)])
        finally:
            server.terminate()
    rows.append(many)
    bars = [
        Bar("95th percentile of all methods, one client, seconds", rows[0]["p95 seconds"], "<=", LIMIT),
        Bar(f"requests lost of {CLIENTS * EACH}, {CLIENTS} clients at once", float(lost), "<=", 0.0),
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


def processor_seconds(pid: int) -> float:
    """User and system time of a process so far; NaN where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def post(connection: HTTPConnection, path: str, data: dict[str, Any]) -> tuple[int, dict[str, Any], float]:
    """Status, answer, and the seconds from the first byte sent to the last one parsed."""
    body = json.dumps(data)
    start = time.perf_counter()
    connection.request("POST", f"/api/{path}", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    return response.status, answer, time.perf_counter() - start


def one_client(port: int, path: str, asked: list[dict[str, Any]], case: str) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    for data in asked[:WARM_UP]:
        post(connection, path, data)
    seconds = []
    for data in asked:
        status, answer, took = post(connection, path, data)
        assert status == 200, answer
        seconds.append(took)
    connection.close()
    return summary(case, 1, seconds, largest_error(asked[-1], answer) if path == "explain" else None)


def many_clients(port: int, asked: list[list[dict[str, Any]]]) -> tuple[dict[str, Any], int]:
    seconds: list[float] = []

    def client(own: list[dict[str, Any]]) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        for data in own:
            status, answer, took = post(connection, "explain", data)
            if status == 200 and answer["text"] == data["text"]:
                seconds.append(took)
        connection.close()

    threads = [threading.Thread(target=client, args=(own,)) for own in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return summary("all methods", len(asked), seconds), sum(map(len, asked)) - len(seconds)


def summary(case: str, clients: int, seconds: list[float], error: float | None = None) -> dict[str, Any]:
    middle, late = np.percentile(seconds, [50, 95])
    row = {"case": case, "clients": clients, "requests": len(seconds)}
    return row | {"median seconds": float(middle), "p95 seconds": float(late), "error": error}


def largest_error(asked: dict[str, Any], answer: dict[str, Any]) -> float:
    options = {name: value for name, value in asked.items() if name != "text"}
    own = load_demo_model().explain(asked["text"], **options)
    return max(relative_error(answer["methods"][name]["scores"], e.scores) for name, e in own.items())


if __name__ == "__main__":
    sys.exit(main())
