"""Probes on long texts: how long do the values of 128,000 tokens take, and how long the report?

    python -m benchmarks.probes

AttnLite with random weights reads random activations of random words, in sentences of 17. The times
of `explain` and `report` are those of a first call. The command line reads the activations from a
file in a separate process, which includes the start of Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import Activations, ProbeClassifier, ToleranceWarning
from attn_closed_form._types import Array

from .harness import Bar, report

SEED = 0
WIDTH = 64
# Tokens of the texts: a chat, a long one, and as much as a language model reads.
SIZES = (300, 5_000, 128_000)
LONGEST = max(SIZES)
# Seconds that the bars of issue 44 allow for the longest text.
LOGIT_SECONDS = 0.5
REPORT_SECONDS = 10.0


def random_probe(rng: np.random.Generator) -> dict[str, Array]:
    """The state dict of AttnLite."""
    return {
        "context_query.weight": 0.3 * rng.normal(size=(1, WIDTH)),
        "classifier.weight": rng.normal(size=(1, WIDTH)),
        "classifier.bias": np.zeros(1),
    }


def random_text(rng: np.random.Generator, tokens: int) -> Activations:
    """Random words in sentences of 17 tokens, with random activations."""
    words = rng.integers(1000, size=tokens)
    pieces = []
    for place, number in enumerate(words.tolist()):
        word = f"word{number}"
        if place % 17 == 0:
            word = word.capitalize()
        pieces.append(f" {word}." if place % 17 == 16 else f" {word}")
    return Activations(rng.normal(size=(tokens, WIDTH)).astype(np.float16), pieces)


def measured(state: dict[str, Array], given: Activations) -> dict[str, Any]:
    """Seconds for the logit's values of all tokens, for the default explanation, and for its
    report.
    """
    probe = ProbeClassifier.from_state_dict(state)
    start = time.perf_counter()
    probe.explain(given, "shapley", players="tokens", scale="logit", tol=1e-6)
    of_logit = time.perf_counter()
    # The text is read once more, as in a program that explains it on the default scale only.
    fresh = Activations(given.features, given.tokens)
    before = time.perf_counter()
    found = probe.explain(fresh, ["shapley", "alpha-mean"])
    explained = time.perf_counter()
    page = found.report()
    reported = time.perf_counter()
    return {
        "case": f"{len(given):,} tokens",
        "players": f"{len(found.labels):,} {found.evidence.target.players}",
        "logit values, seconds": of_logit - start,
        "explain, seconds": explained - before,
        "report, seconds": reported - explained,
        "both, seconds": reported - before,
        "megabytes of HTML": len(page) / 1e6,
    }


def command_seconds(state: dict[str, Array], given: Activations) -> float:
    """Seconds of the command `probe` with a report, from files."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        arrays: Any = state
        np.savez(place / "probe.npz", **arrays)
        np.save(place / "layer.npy", given.features)
        (place / "tokens.json").write_text(json.dumps(given.tokens), encoding="utf-8")
        command = [sys.executable, "-m", "attn_closed_form", "probe"]
        command += [str(place / "probe.npz"), str(place / "layer.npy")]
        command += ["--tokens", str(place / "tokens.json"), "--html", str(place / "report.html")]
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


def main() -> int:
    # Where the default accuracy cannot be guaranteed, the result says so.
    warnings.simplefilter("ignore", ToleranceWarning)
    rng = np.random.default_rng(SEED)
    state = random_probe(rng)
    # Modules that a report imports are loaded first.
    measured(state, random_text(rng, min(SIZES)))
    rows = []
    for tokens in SIZES:
        given = random_text(rng, tokens)
        row = measured(state, given)
        row["command, seconds"] = command_seconds(state, given)
        rows.append(row)
    longest = rows[-1]
    bars = [
        Bar(
            f"{LONGEST:,} tokens: seconds for exact values of the logit",
            longest["logit values, seconds"],
            "<=",
            LOGIT_SECONDS,
        ),
        Bar(
            f"{LONGEST:,} tokens: seconds for the probability and the report",
            longest["both, seconds"],
            "<=",
            REPORT_SECONDS,
        ),
        Bar(
            f"{LONGEST:,} tokens: seconds of the command, from files",
            longest["command, seconds"],
            "<=",
            REPORT_SECONDS,
        ),
    ]
    settings = {"probe": "AttnLite, random", "width": WIDTH}
    if report("probes", rows, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
