"""The command `attn-closed-form serve`: what it prints, how it ends."""

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from attn_closed_form import explain, save_model
from attn_closed_form.cli.main import main
from tests.web_client import MODEL, TEXT

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
        got = httpx.post(f"{address}api/explain", json={"text": TEXT, "methods": ["loo"]}, trust_env=False)
        assert got.json()["methods"]["loo"]["scores"] == explain(MODEL, TEXT, "loo")["loo"].scores.tolist()
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
from attn_closed_form.web import app, serve
real = app.explain_answer
def slow(model, asked):
    if asked.raw != "a":  # what the server warms up with
        print("working", flush=True)
        time.sleep(1.5)
    return real(model, asked)
app.explain_answer, serve.GRACE = slow, 0.2
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
        server.kill()
        server.communicate()
    assert server.returncode == 0
    assert "Traceback" not in err and err.endswith("ended\n")
    assert answers[0].status_code == 503
    assert answers[0].json()["error"] == "the server is ending"
