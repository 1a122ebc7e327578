"""Do long and hostile texts take the time and the memory that they may take?

    python -m benchmarks.long_texts

Explains texts of 10 to 20,000 different words with every default, each in a process of its own,
whose memory is measured. A page explains texts of up to 1,900 words, the most that it accepts,
while a second client asks about a short one again and again: how long does the second client wait
at most? For longer texts, a second thread does the same. Then 300 random texts of hostile
shape are explained: long runs of one character, punctuation, combining characters, right-to-left
marks, and lines of a megabyte. Explanations are measured in processor seconds, so that other work
on the machine does not count, and the wait in seconds of a clock.

The model has one head and no positions, as the table model of `train` has, and 20,000 words with
random numbers.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import TextClassifier, ToleranceWarning, load_model
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.attention import random_weights

from .harness import Bar, report
from .web import post, server

SEED = 0
#: Different words of a text, and the seconds that its default explanation may take (the bars of
#: issue 41).
LIMITS = {10: 0.05, 100: 0.1, 1_000: 1.0, 5_000: 5.0, 20_000: 20.0}
MEGABYTES = 500
WAIT = 0.2  # seconds that another client of the page may wait
# Different words of a text that a page is asked to explain; it refuses more than 2,000 tokens.
PAGE_WORDS = (10, 100, 1_000, 1_900)
SHORT_TEXT = "word1 word2 word3"
HOSTILE_TEXTS = 300
HOSTILE_SECONDS = 2.0  # per 100,000 characters
SHAPES = (
    "a", "A. ", ".", "!?", "-", "\u0301", "e\u0301", "\u202e", "\u0627\u0644", "1,000.", "'", "\n", " ", "<br />",
    "\U0001f469\u200d", "\u4e2d", "a.b.", "http://", "\ufeff", "\x00", "\ud800", "Dr. ", "...", "\u2019s ", "_",
)  # fmt: skip


def main() -> int:
    # Thousands of random words have values that cancel: 1e-9 is guaranteed there, and the result
    # says so.
    warnings.simplefilter("ignore", ToleranceWarning)
    if sys.argv[1:2] == ["--one"]:
        return explain_one(sys.argv[2], int(sys.argv[3]))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.npz")
        random_model().save(path)
        rows = [measured(path, words) for words in LIMITS]
        rows += [waiting(path, words) for words in PAGE_WORDS]
        model = load_model(path)
        rows += [beside(model, words) for words in LIMITS if words > max(PAGE_WORDS)]
        rows.append(hostile(model))
    bars = []
    for row in rows:
        if "default explanation" in row["case"]:
            words = row["words"]
            name = f"{words:,} words, processor seconds"
            bars.append(Bar(name, row["processor seconds"], "<=", LIMITS[words]))
            bars.append(Bar(f"{words:,} words, megabytes", row["megabytes"], "<=", MEGABYTES))
        elif "second client" in row["case"]:
            name = f"page explains {row['words']:,} words: another client waits, seconds"
            bars.append(Bar(name, row["seconds"], "<=", WAIT))
        elif "second thread" in row["case"]:
            name = f"thread explains {row['words']:,} words: another one waits, seconds"
            bars.append(Bar(name, row["seconds"], "<=", WAIT))
        else:
            name = (
                f"{HOSTILE_TEXTS} hostile texts: processor seconds per 100,000 characters, largest"
            )
            bars.append(Bar(name, row["processor seconds"], "<=", HOSTILE_SECONDS))
    settings = {"model": "one head, 20,000 words, random"}
    if report("long_texts", rows, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


def random_model() -> TextClassifier:
    """A model like that of `train`: one head without positions, whose log-masses range over some
    ten e-folds.
    """
    names = ["[CLS]", "[UNK]", *(f"word{i}" for i in range(max(LIMITS)))]
    weights = random_weights(
        seed=SEED, D=len(names), T_max=None, K=1, d_e=16, d_att=8, d_out=8, score_scale=2.0
    )
    return TextClassifier(weights, Vocabulary(names))


def text_of(words: int) -> str:
    """Different words in a random order, in sentences of twenty."""
    order = np.random.default_rng(SEED).permutation(max(LIMITS))[:words]
    names = [f"word{i}" for i in order]
    return " ".join(name + "." * (place % 20 == 19) for place, name in enumerate(names))


def explain_one(path: str, words: int) -> int:
    """Explain one text with every default, the second time with a clock; print seconds and
    megabytes.
    """
    model = load_model(path)
    text = text_of(words)
    model.explain(SHORT_TEXT)
    start = time.perf_counter()
    processor_start = time.process_time()
    found = model.explain(text)
    processor_seconds = time.process_time() - processor_start
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = {
        "seconds": seconds,
        "processor seconds": processor_seconds,
        "megabytes": peak,
        "methods": len(found),
        "with LIME": "lime" in found,
    }
    print(json.dumps(row))
    return 0


def measured(path: str, words: int) -> dict[str, Any]:
    """The default explanation of a text, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.long_texts", "--one", path, str(words)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {"case": "default explanation", "words": words, **json.loads(answer)}


def waiting(path: str, words: int) -> dict[str, Any]:
    """How long a client of the page waits at most for a short text, while another one has asked for
    a long one.
    """
    ended = threading.Event()
    status: list[int] = []

    def ask(port: int) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        status.append(post(connection, {"text": text_of(words)})[0])
        connection.close()
        ended.set()

    waited: list[float] = []
    with server("--model", path) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        short = {"text": SHORT_TEXT}
        post(connection, short)
        thread = threading.Thread(target=ask, args=(port,))
        thread.start()
        while not ended.is_set() or not waited:
            start = time.perf_counter()
            assert post(connection, short)[0] == 200
            waited.append(time.perf_counter() - start)
            time.sleep(0.01)
        thread.join()
        connection.close()
    if status != [200]:
        raise RuntimeError(f"the page answered {words:,} words with the status {status[0]}")
    return {
        "case": "second client of a page",
        "words": words,
        "seconds": max(waited),
    }


def beside(model: TextClassifier, words: int) -> dict[str, Any]:
    """How long a short explanation takes at most in a thread beside one that explains a long text.

    It stands for the page, which refuses such texts.
    """
    thread = threading.Thread(target=model.explain, args=(text_of(words),))
    waited: list[float] = []
    model.explain(SHORT_TEXT)
    thread.start()
    while thread.is_alive():
        start = time.perf_counter()
        model.explain(SHORT_TEXT)
        waited.append(time.perf_counter() - start)
        time.sleep(0.01)
    return {"case": "second thread", "words": words, "seconds": max(waited)}


def hostile(model: TextClassifier) -> dict[str, Any]:
    """The slowest of random texts of hostile shape, in seconds per 100,000 characters."""
    rng = np.random.default_rng(SEED)
    slowest = 0.0
    longest = 0
    for _ in range(HOSTILE_TEXTS):
        text = hostile_text(rng)
        start = time.process_time()
        model.explain(text)
        seconds = time.process_time() - start
        longest = max(longest, len(text))
        # A short text may take the time of 100,000 characters.
        slowest = max(slowest, seconds / max(1.0, len(text) / 100_000))
    return {"case": "hostile texts", "longest text": longest, "processor seconds": slowest}


def hostile_text(rng: np.random.Generator) -> str:
    """Between one and five runs of random patterns; one text in ten has up to a megabyte."""
    most = 100_000
    if rng.random() < 0.1:
        most = 1_000_000
    runs = ["word1"]  # a text without any word is refused
    for _ in range(int(rng.integers(1, 6))):
        pattern = "".join(rng.choice(np.array(SHAPES, dtype=object), int(rng.integers(1, 4))))
        length = int(np.exp(rng.uniform(0, np.log(most))))
        runs.append(pattern * (length // len(pattern) + 1))
    return " ".join(runs)[:most]


if __name__ == "__main__":
    sys.exit(main())
