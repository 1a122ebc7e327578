"""The command `attn-closed-form serve`: what it prints, how it ends."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

psutil = pytest.importorskip("psutil")

from attn_closed_form import TextClassifier, explain, save_model  # noqa: E402
from attn_closed_form.cli.main import main  # noqa: E402
from attn_closed_form.web.workers import InProcesses  # noqa: E402
from tests.run.corpora import wait_for  # noqa: E402
from tests.web_client import MODEL, TEXT  # noqa: E402

ROOT = Path(__file__).parents[2]


def test_a_taken_port_is_one_line_and_status_1(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert f"port {port}" in printed.err and "--port" in printed.err


def test_a_strange_host_or_model_is_one_line_and_status_1(capsys, tmp_path):
    assert main(["serve", "--host", "no such host", "--port", "0"]) == 1
    assert "--host" in capsys.readouterr().err
    assert main(["serve", "--model", str(tmp_path / "none.npz")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("port", ["65536", "-1", "http", "٣"])
def test_a_strange_port_is_wrong_usage(port, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--port", port])
    assert ended.value.code == 2
    capsys.readouterr()


def handling(action):
    """What a child does first: a shell that starts work in the background lets its children ignore Ctrl-C."""
    return lambda: signal.signal(signal.SIGINT, action)


@pytest.mark.parametrize("inherited", [signal.SIG_DFL, signal.SIG_IGN])
def test_serve_answers_and_ctrl_c_ends_it_cleanly(tmp_path, inherited):
    save_model(MODEL, tmp_path / "small.npz")
    command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0", "--model", str(tmp_path / "small.npz")]
    server = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=handling(inherited),
    )
    try:
        line = server.stdout.readline()
        assert "small.npz" in line and str(tmp_path) not in line
        address = next(part for part in line.split() if part.startswith("http"))
        assert address.startswith("http://127.0.0.1:")
        got = httpx.post(f"{address}api/explain", json={"text": TEXT, "methods": ["leave-one-out"]}, trust_env=False)
        assert got.json()["methods"]["leave-one-out"]["scores"] == explain(MODEL, TEXT, "loo")["loo"].scores.tolist()
        assert "server" not in got.headers
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=20)
    finally:
        server.kill()
        server.communicate()
    assert (server.returncode, out, err) == (0, "", "ended\n")


SLOW = """
import time
from attn_closed_form import load_demo_model
from attn_closed_form.web import computing, serve
real = computing.explain_answer
def slow(model, asked):
    if asked.raw != "a":  # what the server warms up with
        print("working", flush=True)
        time.sleep(1.5)
    return real(model, asked)
computing.explain_answer, serve.GRACE = slow, 0.2
raise SystemExit(serve.serve(load_demo_model(), port=0))
"""


def test_ctrl_c_does_not_wait_for_slow_answers_nor_break_them_noisily():
    server = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=handling(signal.SIG_DFL),
    )
    answers = []
    watch = threading.Timer(60, server.kill)  # so that a server that fails to begin ends the reading below
    watch.start()
    try:
        address = next(part for part in server.stdout.readline().split() if part.startswith("http"))
        client = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{address}api/explain", json={"text": "slow"}, trust_env=False, timeout=20)
            )
        )
        client.start()
        assert server.stdout.readline() == "working\n"
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=20)
        client.join(20)
    finally:
        watch.cancel()
        server.kill()
        server.communicate()
    assert server.returncode == 0
    assert "Traceback" not in err and err.endswith("ended\n")
    assert answers[0].status_code == 503
    assert answers[0].json()["error"] == "the server is ending"


# --- worker processes ----------------------------------------------------------------------------------------------


class Server:
    """`serve` with two workers, as a process of its own."""

    def __init__(self, *options):
        command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0", "--workers", "2", *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, **pipes)
        self.address = next(part for part in self.process.stdout.readline().split() if part.startswith("http"))
        self.client = httpx.Client(base_url=self.address, trust_env=False, timeout=60)
        wait_for(lambda: self.client.get("/health").json()["ready"] == 2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.client.close()

    def workers(self):
        found = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has just ended
                if "spawn_main" in " ".join(child.cmdline()):
                    found[child.pid] = child
        return found

    def explain(self, text):
        return self.client.post("/api/explain", json={"text": text, "methods": ["shapley"]})

    def metric(self, name):
        return float(
            next(line for line in self.client.get("/metrics").text.splitlines() if line.startswith(name + " ")).split()[
                1
            ]
        )


def test_workers_are_replaced_restarted_and_ended(tmp_path):
    save_model(MODEL, tmp_path / "small.npz")
    with Server("--model", str(tmp_path / "small.npz")) as server:
        expected = explain(MODEL, TEXT, "shapley")["shapley"].scores.tolist()
        assert server.explain(TEXT).json()["methods"]["shapley"]["scores"] == expected
        assert server.explain("").status_code == 422

        # Workers are killed again and again while clients ask: every request gets its answer.
        first, answers = server.workers(), []
        assert len(first) == 2
        clients = [
            threading.Thread(target=lambda: answers.extend(server.explain(TEXT) for _ in range(25))) for _ in range(4)
        ]
        for client in clients:
            client.start()
        for worker in first.values():
            wait_for(lambda: len(answers) > 4 or not any(client.is_alive() for client in clients))
            worker.kill()
        for client in clients:
            client.join()
        assert [got.status_code for got in answers] == [200] * 100
        assert all(got.json()["methods"]["shapley"]["scores"] == expected for got in answers)
        wait_for(lambda: server.client.get("/health").json()["ready"] == 2)
        assert server.metric("acf_workers_lost_total") == 2

        # A restart opens the model file as it is now, without a moment of silence.
        other = TextClassifier(MODEL.weights, MODEL.vocabulary, ("bad", "good"))
        save_model(other, tmp_path / "small.npz")
        second = server.workers()
        server.process.send_signal(signal.SIGHUP)
        wait_for(
            lambda: server.explain(TEXT).json()["output"] in ("bad", "good") and not second.keys() & server.workers()
        )
        assert server.client.get("/api/model").json()["outputs"] == ["bad", "good"]
        assert server.metric("acf_workers_lost_total") == 2  # the old ones were replaced, and nobody else was lost
        (tmp_path / "small.npz").write_bytes(b"damaged")
        third = server.workers()
        server.process.send_signal(signal.SIGHUP)
        assert "small.npz" in next(line for line in server.process.stderr if "not restarted" in line)
        assert server.explain(TEXT).status_code == 200 and third.keys() <= server.workers().keys()

        server.process.send_signal(signal.SIGTERM)
        server.process.wait(20)
        assert not psutil.wait_procs([*third.values()], timeout=20)[1]


def test_workers_end_with_a_server_that_is_killed():
    with Server() as server:
        workers = list(server.workers().values())
        server.process.kill()
        assert not psutil.wait_procs(workers, timeout=20)[1]


class Stubborn:
    """Like the small model, but one text takes for ever, and another one kills."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(MODEL, name)

    def read(self, raw):
        if raw == "wait":
            time.sleep(60)
        if raw == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return MODEL.read(raw)


def test_time_limits_hold_and_a_request_that_kills_is_given_up(capfd):
    computer = InProcesses(Stubborn(), "stubborn", 1)

    async def scene():
        await computer.start()
        try:
            late = await computer.ask("explain", b'{"text": "wait"}', 0.2)
            deadly = await computer.ask("explain", b'{"text": "kill"}', 60.0)
            after = await computer.ask("explain", b'{"text": "fine"}', 60.0)
            return late, deadly, after, computer.state()
        finally:
            await computer.stop()

    late, deadly, after, state = asyncio.run(scene())
    assert late[0] == 504 and b"within 0.2 seconds" in late[1]
    assert deadly[0] == 500 and b"3 workers ended at this request" in deadly[1]
    assert after[0] == 200
    assert (state.timeouts, state.lost) == (1, 3)
    assert capfd.readouterr().err.count("a worker was lost (killed by SIGKILL") == 3


@pytest.mark.parametrize("option", [["--workers", "x"], ["--timeout", "0"], ["--queue", "-1"]])
def test_strange_limits_are_wrong_usage(option, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", *option])
    assert ended.value.code == 2
    assert option[0] in capsys.readouterr().err
