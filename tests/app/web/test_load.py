"""The service under load and abuse: a server on a loopback port, many clients, workers that are killed.

What is measured is printed at the end of the run. Every scene is bounded in count and time.
"""

import contextlib
import itertools
import json
import os
import select
import socket
import threading
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import numpy as np
import pytest

from attn_closed_form import load_demo_model
from tests.app.run.corpora import wait_for
from tests.app.web.test_serve import EXPECTED, Server, psutil, small  # noqa: F401
from tests.patience import PATIENCE
from tests.web_client import TEXT

pytestmark = pytest.mark.slow

# At a desk a tenth of the requests; continuous integration sends all of them.
DESK = os.environ.get("HYPOTHESIS_PROFILE", "dev") == "dev"
REQUESTS = 1_000 if DESK else 10_000
CLIENTS = 50
MEMORY = 300e6  # bytes of one worker
JSON = "Content-Type: application/json\r\n"


def rss(process):
    return psutil.Process(process.pid).memory_info().rss


def head(path="/api/explain", length=1000):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{JSON}Content-Length: {length}\r\n\r\n".encode()


@contextlib.contextmanager
def sockets(server, parts):
    """One open connection for each of `parts`, which is sent on it as far as the server takes it."""
    address = (urlsplit(server.address).hostname, urlsplit(server.address).port)
    with contextlib.ExitStack() as stack:
        opened = []
        for part in parts:
            opened.append(stack.enter_context(socket.create_connection(address, timeout=1)))
            with contextlib.suppress(OSError):  # the server may refuse before it has everything
                opened[-1].sendall(part)
        yield opened


HALF = {
    "bodies": head() + b'{"text": "',
    "bodies of 128 KB less one byte": head(length=128 * 1024) + b" " * (128 * 1024 - 1),
    "headers": b"POST /api/explain HTTP/1.1\r\nHost: localhost\r\n",
    "nothing": b"",
}


@pytest.fixture(scope="module")
def server(small):  # noqa: F811
    with Server("--model", small) as server:
        server.explain(TEXT)
        yield server


@pytest.mark.parametrize("kind", HALF)
def test_64_half_sent_requests_delay_nobody(server, kind, record_property):
    before = rss(server.process)
    with sockets(server, [HALF[kind]] * 64):
        start = time.perf_counter()
        got = server.explain(TEXT)
        seconds = time.perf_counter() - start
        after = rss(server.process)
    record_property(
        "shown",
        f"64 half-sent ({kind}): {seconds:.3f} s, RSS {before / 1e6:.0f} -> {after / 1e6:.0f} MB",
    )
    assert got.json()["methods"]["shapley"]["scores"] == EXPECTED
    assert after < MEMORY


def test_memory_is_bounded_for_the_largest_questions(record_property):
    """64 clients ask, without reading the answers, what takes most memory; others send endless headers and bodies."""
    words = [word for word in load_demo_model().vocabulary if word.isalpha()]
    rng = np.random.default_rng(0)
    texts = {
        "positions": " ".join(rng.choice([word for word in words if len(word) <= 8], 2000))[
            :20_000
        ],
        "words": " ".join(rng.choice(words, 180, replace=False)),
        "samples": " ".join(rng.choice(words, 400, replace=False)),
        "short words": "a " * 990,
    }
    options = {"samples": {"methods": "all"}, "words": {}, "positions": {"players": "positions"}}
    options["short words"] = {"players": "positions"}
    bodies = [json.dumps({"text": text, **options[kind]}).encode() for kind, text in texts.items()]
    complete = [head(length=len(body)) + body for body in bodies]
    endless = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Filler: 0123456789\r\n" * 100_000,
        head(length=10**9) + b" " * 2_000_000,
        f"POST /api/explain HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n".encode()
        + b"10000\r\n"
        + b" " * 65536
        + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5_000,
    ]
    with Server() as server:
        before = rss(server.process)
        peak = 0
        end = time.monotonic() + PATIENCE
        pairs = [
            2 * part for part in complete
        ]  # two requests on each connection: the second waits for the reader
        with sockets(server, itertools.islice(itertools.cycle([*pairs, *endless]), 64)) as opened:
            waited_for = (
                opened[:4] if DESK else opened[:12]
            )  # answers of every kind have been computed when these come
            while (
                len(select.select(waited_for, [], [], 0.05)[0]) < len(waited_for)
                and time.monotonic() < end
            ):
                peak = max(peak, rss(server.process))
            assert server.client.get("/health").status_code == 200
        record_property(
            "shown", f"64 greedy clients: RSS {before / 1e6:.0f} -> at most {peak / 1e6:.0f} MB"
        )
        assert peak < MEMORY


def test_many_requests_with_a_worker_killed_twice(small, record_property):  # noqa: F811
    """A killed worker loses at most the request of each client that it was answering; nothing else is lost."""
    body = json.dumps({"text": TEXT, "methods": ["shapley"]})
    numbers = iter(range(REQUESTS))
    answers = []
    lost = []
    wrong = []
    lock = threading.Lock()

    def client(address):
        connection = HTTPConnection(address, timeout=60)
        while True:
            with lock:
                if next(numbers, None) is None:
                    return connection.close()
            try:
                connection.request(
                    "POST", "/api/explain", body, {"Content-Type": "application/json"}
                )
                response = connection.getresponse()
                status = response.status
                content = response.read()
            except (OSError, HTTPException) as error:
                lost.append((time.monotonic(), type(error).__name__))
                connection.close()
                continue
            if status >= 500:
                lost.append((time.monotonic(), status))
            elif status != 200 or json.loads(content)["methods"]["shapley"]["scores"] != EXPECTED:
                wrong.append((status, content))
            else:
                answers.append(status)

    with Server("--model", small, "--workers", "2") as server:
        first = wait_for(lambda: len(workers := server.workers()) == 2 and workers)
        address = urlsplit(server.address).netloc
        threads = [threading.Thread(target=client, args=(address,)) for _ in range(CLIENTS)]
        start = time.monotonic()
        kills = []
        memory = []
        for thread in threads:
            thread.start()
        for share in (0.3, 0.6):
            wait_for(lambda share=share: len(answers) > share * REQUESTS)
            if not memory:
                memory.append({worker.pid: rss(worker) for worker in server.workers()})
            victim = first.pop()
            victim.suspend()  # what it holds now is what it can lose: a connection has one request at a time
            held = sum(
                link.status == psutil.CONN_ESTABLISHED for link in victim.net_connections("tcp")
            )
            kills.append((time.monotonic(), held))
            victim.kill()
            wait_for(lambda victim=victim: len(ws := server.workers()) == 2 and victim not in ws)
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - start
        memory.append({worker.pid: rss(worker) for worker in server.workers()})
    (_, _), (second, _) = kills
    losses = [sum(when < second for when, _ in lost), sum(when >= second for when, _ in lost)]
    shown = [sorted(f"{size / 1e6:.0f}" for size in sizes.values()) for sizes in memory]
    seen = dict(
        Counter(what for _, what in lost)
    )  # a dead process sends no status: connections that end
    record_property(
        "shown",
        f"{REQUESTS:,} requests of {CLIENTS} clients in {seconds:.0f} s, two workers killed: {len(answers):,} answers, "
        f"{len(wrong)} wrong, {losses} lost with {[held for _, held in kills]} connections of the killed, "
        f"whose clients saw {seen}; "
        f"RSS of the workers in MB {shown[0]} -> {shown[1]}",
    )
    assert not wrong and len(answers) + len(lost) == REQUESTS
    assert all(count <= held for count, (_, held) in zip(losses, kills, strict=True)), lost
    assert all(when >= kills[0][0] for when, _ in lost), lost
    assert (
        max(memory[1].values()) < max(memory[0].values()) + 30e6
        and max(memory[1].values()) < MEMORY
    )
