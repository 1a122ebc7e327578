"""The page under a mix of requests for a while: right answers, and no growth of memory, threads or
files.

SOAK_SECONDS sets the length: about half a minute by default, twenty seconds in `make test-all`, an
hour in the nightly job, which alone judges the growth of memory.
"""

import contextlib
import json
import os
import random
import socket
import threading
import time
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

psutil = pytest.importorskip("psutil")

from attn_closed_form import load_demo_model  # noqa: E402
from attn_closed_form.app.web.app import LONG_TEXT, THREADS  # noqa: E402
from tests.app.run.corpora import wait_for  # noqa: E402
from tests.app.web.test_serve import Server  # noqa: E402
from tests.memory import FLAT_MB, growth  # noqa: E402

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("SOAK_SECONDS", "25"))
CLIENTS = 4
TEXT = "A slow start, but a wonderful film with 😀 songs."
# Growth that is not a leak: caches of the model, and what the allocator keeps for each thread after
# its largest answer: with one arena of the allocator (MALLOC_ARENA_MAX=1) the page stays below 160
# MB, otherwise it has some 110 MB at first, and 210 MB after one minute and after two.
ROOM_MB = 200
# A shorter soak ends before the largest answers have met.
LONG_ENOUGH = 60


class State:
    """Threads, open files and memory of a server that has nothing to do."""

    def __init__(self, process):
        self.threads = process.num_threads()
        self.files = process.num_fds()
        self.megabytes = process.memory_info().rss / 2**20


def questions(rng, words):
    """One question of each kind, with the statuses that are right for it."""
    short = " ".join(rng.sample(words, rng.randint(1, 30)))
    long = " ".join(rng.choices(words[:300], k=LONG_TEXT // 4))
    yield "/api/explain", {"text": short, "removed": [0]}, {200}
    yield "/api/why", {"text": f"{short}. {short}!"}, {200}
    yield "/api/interactions", {"text": f"fine {short}", "player": 0}, {200, 422}
    yield "/api/explain", {"text": long, "methods": ["shapley"]}, {200}
    yield "/api/explain", {"text": short, "methods": "all"}, {200}
    yield "/api/explain", {"text": short, "tol": 0}, {422}
    yield "/api/explain", {"text": "x" * 30_000}, {413}
    yield "/api/nowhere", {}, {404}


class Client(threading.Thread):
    """Asks, checks the answers, and breaks off some requests, until the time is up."""

    def __init__(self, address, seed, expected, end):
        super().__init__(daemon=True)
        self.address = address
        self.rng = random.Random(seed)
        self.expected = expected
        self.end = end
        self.answers = 0
        self.wrong = []

    def run(self):
        words = [word for word in load_demo_model().vocabulary if word.isalpha()][:3000]
        connection = HTTPConnection(self.address, timeout=60)
        while time.monotonic() < self.end:
            for path, data, statuses in questions(self.rng, words):
                status, _ = self.ask(connection, path, data)
                if status not in statuses:
                    self.wrong.append((path, data, status))
            status, answer = self.ask(connection, "/api/explain", {"text": TEXT})
            if status != 200 or answer["methods"]["shapley"]["scores"] != self.expected:
                self.wrong.append((TEXT, status))
            self.break_off(words)
        connection.close()

    def ask(self, connection, path, data):
        connection.request("POST", path, json.dumps(data), {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        self.answers += 1
        if response.headers.get("connection") == "close":
            connection.close()
        return response.status, json.loads(content)

    def break_off(self, words):
        """Close a connection in the middle of a body, or before a long answer arrives."""
        body = json.dumps({"text": " ".join(self.rng.choices(words, k=300))}).encode()
        head = "POST /api/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        host, _, port = self.address.partition(":")
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, int(port)), timeout=5) as link,
        ):
            link.sendall(request[: self.rng.choice([20, len(request) // 2, len(request)])])
            time.sleep(0.02)


def test_a_page_under_load_stays_as_it_was(record_property):
    expected = load_demo_model().explain(TEXT, "shapley")["shapley"].scores.tolist()
    with Server() as server:
        process = psutil.Process(server.process.pid)
        address = urlsplit(server.address).netloc

        def soaked(seconds, seed):
            end = time.monotonic() + seconds
            clients = [Client(address, seed + k, expected, end) for k in range(CLIENTS)]
            over_time = []
            for client in clients:
                client.start()
            while any(client.is_alive() for client in clients):
                over_time.append(process.memory_info().rss / 2**20)
                time.sleep(0.2)
            assert not [wrong for client in clients for wrong in client.wrong]
            return sum(client.answers for client in clients), growth(over_time)

        soaked(max(5.0, SECONDS / 5), 1000)  # caches fill, threads start
        idle = process.num_fds()
        before = State(process)
        answers, grown = soaked(SECONDS, 0)
        wait_for(lambda: process.num_fds() <= idle)
        wait_for(lambda: process.cpu_percent(interval=0.5) < 20)  # abandoned work has ended
        after = State(process)
        record_property(
            "shown",
            f"{answers:,} answers in {SECONDS:.0f} s: {before.megabytes:.0f} -> "
            f"{after.megabytes:.0f} MB, {before.threads} -> {after.threads} threads, "
            f"{before.files} -> {after.files} files",
        )
        assert answers
        assert after.megabytes < before.megabytes + ROOM_MB
        if SECONDS >= LONG_ENOUGH:
            assert grown < FLAT_MB
        assert after.threads <= before.threads + THREADS
        assert after.files <= before.files
