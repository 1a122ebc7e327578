"""The command `attn-closed-form serve`: what it prints, how it ends."""

import logging
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest

from attn_closed_form import explain, save_model
from attn_closed_form.app.cli.main import main
from tests.patience import PATIENCE
from tests.web_client import MODEL, TEXT

ROOT = Path(__file__).parents[3]


def refused(capsys, *options):
    """The one line that says why the server does not start."""
    assert main(["serve", *options]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    return printed.err


def test_a_taken_port_is_one_line_and_status_1(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(capsys, "--port", str(port))
    assert f"port {port}" in line and "--port" in line


def test_a_strange_model_is_one_line_and_status_1(capsys, tmp_path):
    assert "none.npz" in refused(capsys, "--port", "0", "--model", str(tmp_path / "none.npz"))
    assert "reads texts" in refused(capsys, "--port", "0", "--model", "scores")
    rng = np.random.default_rng(0)
    shapes = {
        "0": (6, 5),
        "2.attention_a.0": (4, 6),
        "2.attention_b.0": (4, 6),
        "2.attention_c": (1, 4),
    }
    layers = {f"attention_net.{name}": shape for name, shape in shapes.items()} | {
        "classifiers": (2, 6)
    }
    state = {f"{name}.weight": rng.normal(size=shape) for name, shape in layers.items()}
    np.savez(
        tmp_path / "bags.npz",
        **state,
        **{f"{name}.bias": np.zeros(shape[0]) for name, shape in layers.items()},
    )
    assert "reads texts" in refused(capsys, "--port", "0", "--model", str(tmp_path / "bags.npz"))


WRONG = [
    ["--port", "65536"],
    ["--port", "-1"],
    ["--port", "http"],
    ["--port", "٣"],
    ["--timeout", "0"],
]


@pytest.mark.parametrize("option", WRONG)
def test_strange_numbers_are_wrong_usage(option, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", *option])
    assert ended.value.code == 2
    assert option[0] in capsys.readouterr().err


WITHOUT = """
import sys
sys.modules["{package}"] = None
from attn_closed_form.app.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_without_the_extra_there_is_help_and_advice(package):
    command = [sys.executable, "-c", WITHOUT.format(package=package), "serve"]
    helped = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert helped.returncode == 0 and "--timeout" in helped.stdout
    advised = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert advised.returncode == 1 and advised.stderr.count("\n") == 1
    assert re.search(rf"serve needs {package}: pip install '.*\[web\]'", advised.stderr)


def handling(action):
    """What a child does first: a shell that starts work in the background lets its children ignore
    Ctrl-C.
    """
    return lambda: signal.signal(signal.SIGINT, action)


class Server:
    """`serve` as a process; its first line has the address."""

    def __init__(
        self,
        *options,
        program=("-m", "attn_closed_form", "serve", "--port", "0"),
        inherited=signal.SIG_DFL,
    ):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, *program, *options]
        self.process = subprocess.Popen(command, cwd=ROOT, preexec_fn=handling(inherited), **pipes)
        # So that a server that fails to begin ends the reading.
        watch = threading.Timer(PATIENCE, self.process.kill)
        watch.start()
        self.line = self.process.stdout.readline()
        watch.cancel()
        self.address = re.search(r"http://\S+/", self.line)[0]
        self.client = httpx.Client(base_url=self.address, trust_env=False, timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.kill()
        self.process.communicate()

    def explain(self, text, **options):
        return self.client.post(
            "/api/explain", json={"text": text, "methods": ["shapley"]}, **options
        )


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.npz"
    save_model(MODEL, path)
    return str(path)


EXPECTED = explain(MODEL, TEXT, "shapley")["shapley"].scores.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("inherited", [signal.SIG_DFL, signal.SIG_IGN])
def test_serve_answers_and_ctrl_c_ends_it_cleanly(small, inherited):
    with Server("--model", small, inherited=inherited) as server:
        assert "small.npz" in server.line
        assert str(Path(small).parent) not in server.line
        assert server.address.startswith("http://127.0.0.1:")
        got = server.explain(TEXT)
        assert got.json()["methods"]["shapley"]["scores"] == EXPECTED
        assert "server" not in got.headers
        assert server.client.get("/", headers={"host": "evil.example"}).status_code == 400
        server.process.send_signal(signal.SIGINT)
        out, err = server.process.communicate(timeout=PATIENCE)
        assert (server.process.returncode, out, err) == (0, "", "ended\n")


SLOW = """
import time
from attn_closed_form.app.web import app, serve
answer = app.explain_answer
def slow(model, question, *more):
    if question.text == "slow":
        print("working", flush=True)
        while True:  # one step after the other, until one ends the work
            time.sleep(0.05)
            more[0]()
    return answer(model, question, *more)
app.explain_answer, serve.GRACE = slow, 0.2
raise SystemExit(serve.serve(port=0))
"""


@pytest.mark.slow
def test_ctrl_c_ends_slow_answers_at_their_next_step_without_noise():
    answers = []
    with Server(program=("-c", SLOW)) as server:
        client = threading.Thread(target=lambda: answers.append(server.explain("slow")))
        client.start()
        assert server.process.stdout.readline() == "working\n"
        server.process.send_signal(signal.SIGINT)
        _, err = server.process.communicate(timeout=PATIENCE)
        client.join(PATIENCE)
        assert server.process.returncode == 0
        assert "Traceback" not in err and err.endswith("ended\n")
        assert answers[0].status_code == 503
        assert answers[0].json()["error"] == "the server is shutting down"


@pytest.mark.slow
def test_the_log_has_neither_texts_nor_paths(small):
    """Not even in the warning that a tolerance cannot be kept."""
    with Server("--model", small) as server:
        asked = {"text": f"{TEXT} " * 20, "tol": 1e-13, "methods": ["shapley"]}
        assert server.client.post("/api/explain", json=asked).status_code == 200
        server.process.send_signal(signal.SIGINT)
        _, err = server.process.communicate(timeout=PATIENCE)
    assert "tol" in err and "is guaranteed" in err
    assert "film" not in err and "/" not in err and ".py" not in err


def test_handlers_of_other_libraries_stay_open(capsys):
    """A log handler that closes its stream must not be closed because the page starts."""
    closed = []

    class Handler(logging.StreamHandler):
        def close(self):
            closed.append(self)
            super().close()

    handler = Handler()
    try:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            refused(capsys, "--port", str(taken.getsockname()[1]))
        assert not closed
    finally:
        handler.close()
