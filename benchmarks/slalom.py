"""SLALOM fits against the authors' package, slalom-explanations 0.1.2: on a black box that is a
SLALOM, and on a model.

Both sides get the same black box and the same number of samples: 500, the package's default (it
asks for a few more, in batches of 16), and on the toy also 5000, the paper's number. The package is
called as its user calls it, on the CPU, in one thread. Two things need care:

- it hard-codes BERT's special tokens 101 and 102 around every sequence, so its black box ignores
  those ids, and the ids of the documents lie above them
- its SLALOM-fidel (`sampling_strategy="deletion", fit_sgd=False`) cannot run, because it passes an
  argument that its own function does not take; the table shows the error. Two rows stand in for it:
  the same samples with SGD, and a direct call of the function in question.

A toy's error is the largest one in v or s. `mse` is the mean squared error of the surrogate against
the black box when 1 to 10 random tokens of the document are removed (P2, Fig. 6).
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from slalom_explanations import SLALOMLocalExplanantions
from slalom_explanations.slalom_helpers import MyLittleSLALOM, SLALOMModelWrapper, fit_iter_rand

from attn_closed_form import Slalom, fit_slalom
from attn_closed_form.attention import predict_many
from attn_closed_form.slalom import slalom_from_weights

from .harness import Bar, report
from .models import benchmark_model, needed_p1_model

SEED = 0
SAMPLES = 500  # the package's default
SIZES = (8, 200)
# Ids of the package's documents start here, above its hard-coded 101 and 102.
FIRST_ID = 1000
REMOVALS = 10
REVIEW = """I went in with low hopes and came out smiling. The story is thin and the first half hour drags, but the two
leads are wonderful together, the music is lovely, and the last scene made the whole row laugh out loud. Not every joke
lands, and the villain is a bore. Still, it is the best comedy that I have seen this year, and I would happily watch it
again."""

Ids = NDArray[np.intp]
Box = Callable[[list[Ids]], NDArray[np.float64]]


class TorchBox(torch.nn.Module):
    """A black box on id arrays as the package wants it: padded ids and a mask to one log-odds
    each.
    """

    def __init__(self, f: Box) -> None:
        super().__init__()
        self.f = f
        self.calls = 0

    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        """(n, T) ids to (n,) outputs; special tokens and padding are dropped."""
        self.calls += len(input_ids)
        rows = input_ids.numpy()
        return torch.from_numpy(self.f([row[row >= FIRST_ID] - FIRST_ID for row in rows]))


def package_fit(
    f: Box, document: Ids, samples: int, strategy: str, sgd: bool
) -> tuple[Slalom, int]:
    """What a user of the package gets."""
    box = TorchBox(f)
    explainer = SLALOMLocalExplanantions(
        box,
        n_samples=samples,
        device="cpu",
        modes=["value", "imp"],
        sampling_strategy=strategy,
        fit_sgd=sgd,
    )
    v, s = explainer.get_signed_importance_for_tokens((document + FIRST_ID).tolist())
    ids, first = np.unique(document, return_index=True)
    return Slalom(ids, s[first].astype(float), v[first].astype(float)), box.calls


def package_alternation(f: Box, document: Ids, samples: int) -> tuple[Slalom, int]:
    """The package's function for SLALOM-fidel, called past its explainer."""
    box = TorchBox(f)
    ids = np.unique(document)
    unique = torch.tensor(ids + FIRST_ID)
    wrapped = SLALOMModelWrapper(
        box, wrap_in_dict=True, convert_to_tensor=False, extend_output=True
    )
    v, s, _ = fit_iter_rand(
        MyLittleSLALOM(unique),
        wrapped,
        unique,
        torch.tensor(document + FIRST_ID),
        offline_ds_size=samples,
    )
    return Slalom(ids, s.numpy().astype(float), v.numpy().astype(float)), box.calls


def our_fit(kind: str, f: Box, document: Ids, samples: int) -> tuple[Slalom, int]:
    """The same from here."""
    result = fit_slalom(f, document, kind, samples, progress=False)
    return result.slalom, result.model_calls


Run = Callable[[], tuple[Slalom, int]]


def methods(f: Box, document: Ids, samples: int, long: bool) -> dict[str, Run]:
    """The contestants, by name; with `long` those whose runs take minutes are left out."""
    package = "slalom-explanations"
    table: dict[str, Run] = {
        "eff, ours": lambda: our_fit("eff", f, document, samples),
        f"eff, {package}": lambda: package_fit(f, document, samples, "short", True),
        "fidel, ours": lambda: our_fit("fidel", f, document, samples),
    }
    if not long:
        table[f"fidel, {package}"] = lambda: package_fit(f, document, samples, "deletion", False)
        table[f"fidel by SGD, {package}"] = lambda: package_fit(
            f, document, samples, "deletion", True
        )
        table[f"fidel, {package}, direct call"] = lambda: package_alternation(f, document, samples)
    return table


def measure(run: Run, repeats: int) -> tuple[tuple[Slalom, int] | str, float]:
    """The result, or the error that came instead, and the best time."""
    best = np.inf
    for _ in range(repeats):
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            start = time.perf_counter()
            try:
                result: tuple[Slalom, int] | str = run()
            except TypeError as error:
                return f"TypeError: {error}", np.nan
            best = min(best, time.perf_counter() - start)
    return result, best


def removal_mse(f: Box, document: Ids, surrogate: Box, removals: int) -> float:
    """Mean squared error with 1 to `removals` random tokens removed, 100 draws each."""
    rng = np.random.default_rng(SEED + 1)
    left = [
        np.delete(document, rng.permutation(document.size)[:k])
        for k in range(1, removals + 1)
        for _ in range(100)
    ]
    return float(np.mean((f(left) - surrogate(left)) ** 2))


def rows_of(
    case: str, f: Box, document: Ids, samples: int, truth: Slalom | None, long: bool
) -> list[dict[str, Any]]:
    """A row a contestant."""
    rows = []
    removals = min(REMOVALS, document.size - 1)
    for name, run in methods(f, document, samples, long).items():
        torch.manual_seed(SEED)
        result, seconds = measure(run, 5 if "ours" in name else 1 if long else 2)
        row: dict[str, Any] = {"case": case, "samples": samples, "method": name}
        if isinstance(result, str):
            rows.append({**row, "note": result})
            continue
        slalom, calls = result
        row |= {"calls": calls, "seconds": seconds}
        if truth is not None:
            row["error v"] = float(np.abs(slalom.v - truth.v).max())
            row["error s"] = float(np.abs(slalom.s - truth.s).max())
        row["mse"] = removal_mse(f, document, slalom.predict_many, removals)
        rows.append(row)
    return rows


def toy_bars(V: int, rows: list[dict[str, Any]]) -> list[Bar]:
    """The promises for one toy at 500 samples."""
    at = {row["method"]: row for row in rows}
    bars = []
    for kind, rival in (
        ("eff", "eff, slalom-explanations"),
        ("fidel", "fidel by SGD, slalom-explanations"),
    ):
        ours = at[f"{kind}, ours"]
        error = max(ours["error v"], ours["error s"])
        bars.append(Bar(f"|V| = {V}, {kind}: largest error in v and s", error, "<=", 1e-6))
        bars.append(
            Bar(
                f"|V| = {V}, {kind}: model calls over the package's",
                ours["calls"] - at[rival]["calls"],
                "<=",
                0,
            )
        )
    ratio = at["eff, slalom-explanations"]["seconds"] / at["eff, ours"]["seconds"]
    return [*bars, Bar(f"|V| = {V}, eff: package's time / ours", ratio, ">=", 10.0)]


def model_rows() -> tuple[list[dict[str, Any]], str]:
    """P1's model on a short review."""
    weights, name = benchmark_model(SEED)
    document: Ids = needed_p1_model().vocabulary.encode(REVIEW)
    case = f"{name}, {document.size} tokens"

    def f(sequences: list[Ids]) -> NDArray[np.float64]:
        return predict_many(weights, sequences)[:, 0]

    rows = rows_of(case, f, document, SAMPLES, None, long=False)
    start = time.perf_counter()
    readoff = slalom_from_weights(weights, document)
    seconds = time.perf_counter() - start

    def read(sequences: list[Ids]) -> NDArray[np.float64]:
        return np.array([readoff.predict(sequence) for sequence in sequences])

    rows.append(
        {
            "case": case,
            "samples": 2000,
            "method": "slalom_from_weights",
            "seconds": seconds,
            "mse": removal_mse(f, document, read, REMOVALS),
            "note": f"R2 = {readoff.r2:.3f} on what it was fitted for: [UNK] in place, not removal",
        }
    )
    constant = float(f([document])[0])
    rows.append(
        {
            "case": case,
            "method": "a constant, f of the document",
            "mse": removal_mse(
                f, document, lambda sequences: np.full(len(sequences), constant), REMOVALS
            ),
        }
    )
    return rows, name


def main() -> int:
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    bars: list[Bar] = []
    for V in SIZES:
        rng = np.random.default_rng(V)
        truth = Slalom(np.arange(V), rng.normal(size=V), rng.normal(size=V))
        case = f"SLALOM, |V| = {V}"
        fast = rows_of(case, truth.predict_many, truth.ids, SAMPLES, truth, long=False)
        bars += toy_bars(V, fast)
        rows += fast + rows_of(case, truth.predict_many, truth.ids, 5000, truth, long=True)
    on_model, name = model_rows()
    rows += on_model
    settings = {"package": "slalom-explanations 0.1.2", "model": name, "threads of torch": 1}
    if report("slalom", rows, seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
