"""SLALOM-fidel on a real transformer: our fit against slalom-explanations 0.1.2, with the same
budget of model calls.

Both fit the same document of MiniLM, fine-tuned on IMDB (`finetune_minilm.py`), and are asked for
the same fresh subsets of it: 1 to 5 random tokens deleted, which is what the package's samples
have, and any number deleted. The package runs as its user runs it, on deletions with Adam
(`slalom.py` says why not with its alternation). Both are at their defaults. A constant, the output
for the whole document, stands beside them.

The time of a fit is what it takes without the model, in processor seconds of one thread, so that
other work on the machine disturbs it little.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.papers.minilm_fit --model FOLDER --data FOLDER
    --work FOLDER
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form._types import Array, Ids

from ..harness import RESULTS, Bar, report
from .minilm_model import Document, Store, Transformer, imdb_documents, kept, load_transformer
from .minilm_rivals import FITS, Found, fit, from_record
from .reproduction import ARCHIVE

OURS = FITS[0]
THEIRS = FITS[2]
CONSTANT = "a constant, f of the document"
FEW = 5
NEAR = "mse, 1 to 5 deletions"
FAR = "mse, any size"


def subsets(tokens: Ids, count: int, most: int, rng: np.random.Generator) -> list[Ids]:
    """The document without 1 to `most` random tokens, their number uniform."""
    gone = rng.integers(1, most + 1, size=count)
    return [np.delete(tokens, rng.permutation(tokens.size)[:k]) for k in gone]


def measure(
    transformer: Transformer, number: int, document: Document, samples: int, fresh: int
) -> dict[str, Found]:
    """Both fits of one document and their errors on `fresh` small subsets and half as many of any
    size.
    """
    tokens = document.ids
    rng = np.random.default_rng([1, number])
    near = subsets(tokens, fresh, min(FEW, tokens.size - 1), rng)
    far = subsets(tokens, fresh // 2, tokens.size - 1, rng)
    f_near = transformer.f(near)
    f_far = transformer.f(far)
    f_all = transformer.f([tokens])
    out: dict[str, Found] = {CONSTANT: {NEAR: _mse(f_near, f_all), FAR: _mse(f_far, f_all)}}
    for name in (OURS, THEIRS):
        found = fit(name, transformer.f, tokens, samples, seed=number)
        slalom = from_record(found)
        errors = {
            NEAR: _mse(f_near, slalom.predict_many(near)),
            FAR: _mse(f_far, slalom.predict_many(far)),
        }
        out[name] = found | errors | {"largest value": float(np.abs(slalom.v).max())}
    return out


def _mse(f: Array, guess: Array) -> float:
    return float(np.mean((f - guess) ** 2))


def summary(measured: list[dict[str, Found]]) -> tuple[list[dict[str, Any]], list[Bar]]:
    """One row per method, and the bars."""
    rows = []
    for name in (OURS, THEIRS, CONSTANT):
        row: dict[str, Any] = {"method": name, "documents": len(measured)}
        for key in ("calls", "seconds without the model", NEAR, FAR):
            many = np.array([found[name].get(key, np.nan) for found in measured])
            if np.isfinite(many).all():
                row[f"median {key}"] = float(np.median(many))
                if key in (NEAR, FAR):
                    row |= {
                        f"mean {key}": float(many.mean()),
                        f"{key}, standard error": _error(many),
                    }
        rows.append(row)
    ratio = {
        key: _ratios(measured, key) for key in (NEAR, FAR, "seconds without the model", "calls")
    }
    rows.append(
        {"method": f"{OURS} is smaller, share of documents"}
        | {key: _share(ratio[key]) for key in (NEAR, FAR)}
    )
    n = len(measured)
    bars = [
        Bar(
            f"share of {n} documents where ours is smaller: {NEAR}", _share(ratio[NEAR]), ">=", 0.95
        ),
        Bar(
            "time of our fit / the package's, without the model, median",
            _median(ratio, "seconds"),
            "<=",
            0.2,
        ),
        Bar("our model calls / the package's, largest", float(ratio["calls"].max()), "<=", 1.0),
    ]
    return rows, bars


def _ratios(measured: list[dict[str, Found]], key: str) -> Array:
    return np.array([found[OURS][key] / found[THEIRS][key] for found in measured])


def _share(ratio: Array) -> float:
    return float((ratio < 1).mean())


def _median(ratio: dict[str, Array], start: str) -> float:
    return float(np.median(next(many for key, many in ratio.items() if key.startswith(start))))


def _error(many: Array) -> float:
    if many.size > 1:
        return float(many.std(ddof=1) / np.sqrt(many.size))
    return float("nan")


def parser(name: str, doc: str) -> argparse.ArgumentParser:
    """The command line that the two benchmarks on MiniLM share."""
    command = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=doc.splitlines()[0]
    )
    command.add_argument("--model", required=True, type=Path, help="folder of the fine-tuned model")
    command.add_argument(
        "--data",
        required=True,
        type=Path,
        help=f"folder with {ARCHIVE} and Yelp-HAT's ham_part*.csv",
    )
    command.add_argument(
        "--work", type=Path, help="folder for what has been measured, so that a run can go on"
    )
    command.add_argument("--documents", type=int, default=100)
    command.add_argument(
        "--samples", type=int, default=304, help="budget of model calls (default: %(default)s)"
    )
    command.add_argument(
        "--fresh",
        type=int,
        default=150,
        help="fresh subsets of 1 to 5 deletions, half as many others",
    )
    command.add_argument("--out", type=Path, default=RESULTS, help=f"folder for {name}.json")
    return command


def open_store(args: argparse.Namespace) -> Store:
    """What has been measured, shared by the two benchmarks on MiniLM."""
    return Store(args.work and args.work / "minilm.jsonl")


def reviews(transformer: Transformer, args: argparse.Namespace) -> list[Document]:
    """The documents of IMDB, kept in the work folder."""
    return kept(
        args.work and args.work / f"imdb_{args.documents}.json",
        lambda: imdb_documents(args.data / ARCHIVE, transformer.tokenizer, args.documents),
    )


def all_fits(
    store: Store, transformer: Transformer, documents: list[Document], args: Any
) -> list[dict[str, Found]]:
    """Both fits of every document, with their errors."""

    def one(number: int, document: Document) -> dict[str, Found]:
        return measure(transformer, number, document, args.samples, args.fresh)

    return list(store.each(fit_stage(args), documents, one))


def fit_stage(args: argparse.Namespace) -> str:
    """The name of these measurements in the store."""
    return f"fit {args.samples} {args.fresh}"


def main(argv: list[str] | None = None) -> int:
    args = parser("minilm_fit", __doc__ or "").parse_args(argv)
    import torch

    torch.set_num_threads(1)
    transformer = load_transformer(args.model)
    documents = reviews(transformer, args)
    rows, bars = summary(all_fits(open_store(args), transformer, documents, args))
    settings = {
        "package": "slalom-explanations 0.1.2",
        "samples": args.samples,
        "fresh subsets": args.fresh,
    }
    lengths = {
        "tokens, mean": float(np.mean([len(document.ids) for document in documents])),
        "threads": 1,
    }
    if report("minilm_fit", rows, seed=0, settings=settings | lengths, bars=bars, folder=args.out):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
