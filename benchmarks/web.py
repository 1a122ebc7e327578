"""Is the live page fast enough to follow someone who types?

    python -m benchmarks.web [--model r8.npz --data r8-test.csv]

Starts `attn-closed-form serve` on a free loopback port. One client asks about random texts of 100
different tokens, every text new, and waits for each answer. The same process explains the same
texts without the server in turns, so the ratio of both times depends little on what else the
machine does. The error column compares one answer of each kind with the library.

With a model of three or more classes and texts, only the answers about these are measured: a server
of that model answers the question that the page asks first, whose standard error is at most one
percentage point, and the one that refines it.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import METHODS, TextClassifier, interactions, load_demo_model
from attn_closed_form.app.explanations.methods import DEFAULT_METHODS
from benchmarks.harness import Bar, relative_error, report

SEED = 0
TOKENS = 100
REQUESTS = 100
WARM_UP = 5
LIMIT = 0.050  # seconds, 95th percentile
CLASS_TEXTS = 100
REFINED_TEXTS = 25
CLASS_LIMIT = 0.5  # seconds, the slowest text
ROUGH = 0.01  # as in app/web/static/app.js
CASES: dict[str, dict[str, Any]] = {
    "all methods": {},
    "all methods, positions": {"players": "positions"},
    "all methods, deletion": {"absent": "deleted"},
    "and LIME by 5000 samples": {"methods": "all"},
    "interactions of a word": {"player": 0},
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument("--model", help="a classifier of three or more classes")
    parser.add_argument("--data", help="a CSV with a column text")
    args = parser.parse_args(argv)
    if args.model and args.data:
        return report_of_classes(args.model, args.data)
    rng = np.random.default_rng(SEED)
    model = load_demo_model()

    def text() -> str:
        return " ".join(
            model.vocabulary[i] for i in rng.choice(np.arange(2, 5000), size=TOKENS, replace=False)
        )

    with server() as port:
        texts = [text() for _ in range(REQUESTS + WARM_UP)]
        rows = [measure(port, model, texts, case, options) for case, options in CASES.items()]
    bars = [
        Bar("95th percentile of all methods, seconds", rows[0]["p95 seconds"], "<=", LIMIT),
        Bar(
            "answer to all methods over the explanation alone, median",
            rows[0]["over explain"],
            "<=",
            3.0,
        ),
    ]
    settings = {
        "tokens": TOKENS,
        "model": "shipped",
        "methods": len(DEFAULT_METHODS),
        "with sampling": len(METHODS),
    }
    if report("web", rows, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


@contextmanager
def server(*options: str) -> Iterator[int]:
    """The port of a server that answers; `options` are those of `serve`."""
    command = [sys.executable, "-m", "attn_closed_form", "serve", "--port", "0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        finally:
            process.terminate()


def report_of_classes(model: str, data: str) -> int:
    """Measure and store the answers of a page about several classes."""
    rows = measure_classes(model, data)
    what = f"page, first answer about {Path(data).stem}, {CLASS_TEXTS} texts"
    first = rows[0]
    bars = [
        Bar(f"{what}: 95th percentile, seconds", first["p95 seconds"], "<=", CLASS_LIMIT),
        Bar(f"{what}: slowest, seconds", first["slowest seconds"], "<=", CLASS_LIMIT),
    ]
    settings = {"texts": CLASS_TEXTS, "standard error of the first answer": ROUGH}
    if report("web_classes", rows, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


def measure_classes(model: str, data: str) -> list[dict[str, Any]]:
    """Times of the first answer about texts of several classes, and of the one that refines it."""
    with open(data, encoding="utf-8", newline="") as stream:
        texts = [row["text"] for row in csv.DictReader(stream)]
    chosen = np.random.default_rng(SEED).permutation(len(texts))[:CLASS_TEXTS].tolist()
    rows = []
    with server("--model", model) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        post(connection, {"text": texts[chosen[0]]})
        refined = chosen[:REFINED_TEXTS]
        first = {"max_error": ROUGH}
        for case, options, some in (("first answer", first, chosen), ("refined", {}, refined)):
            seconds = []
            errors = []
            for i in some:
                start = time.perf_counter()
                status, answer = post(connection, {"text": texts[i], **options})
                seconds.append(time.perf_counter() - start)
                assert status == 200, answer
                errors.append(max(answer["methods"]["shapley-sampled"]["standard_error"]))
            middle, late = np.percentile(seconds, [50, 95])
            rows.append(
                {
                    "case": f"several classes, {case}",
                    "requests": len(some),
                    "median seconds": float(middle),
                    "p95 seconds": float(late),
                    "slowest seconds": max(seconds),
                    "standard error": max(errors),
                }
            )
        connection.close()
    return rows


def measure(
    port: int, model: TextClassifier, texts: list[str], case: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Times of answers and of explanations without the server, in turns."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    answered = []
    explained = []
    for text in texts:
        start = time.perf_counter()
        status, answer = post(connection, {"text": text, **options})
        between = time.perf_counter()
        scores = explain(model, text, options)
        end = time.perf_counter()
        assert status == 200, answer
        answered.append(between - start)
        explained.append(end - between)
    connection.close()
    middle, late = np.percentile(answered[WARM_UP:], [50, 95])
    return {
        "case": case,
        "requests": len(texts) - WARM_UP,
        "median seconds": float(middle),
        "p95 seconds": float(late),
        "over explain": float(middle / np.median(explained[WARM_UP:])),
        "error": max(
            relative_error(answer_scores(answer, name), values) for name, values in scores.items()
        ),
    }


def post(connection: HTTPConnection, data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    if "player" in data:
        path = "/api/interactions"
    else:
        path = "/api/explain"
    connection.request("POST", path, json.dumps(data), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def explain(model: TextClassifier, text: str, options: dict[str, Any]) -> dict[str, Any]:
    """Scores by method, or the interactions of a player."""
    if "player" in options:
        game = model.explain(text, "leave-one-out")["leave-one-out"].game
        row = interactions(game, player=options["player"])
        row[options["player"]] = 0.0  # the answer has null there
        return {"interactions": row}
    return {name: e.scores for name, e in model.explain(text, **options).items()}


def answer_scores(answer: dict[str, Any], name: str) -> list[float]:
    if name == "interactions":
        return [0.0 if value is None else value for value in answer["interactions"]]
    scores: list[float] = answer["methods"][name]["scores"]
    return scores


if __name__ == "__main__":
    sys.exit(main())
