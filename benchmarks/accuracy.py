"""How good is the shipped model? Its accuracy on all 25,000 IMDB test reviews, with the NumPy core
alone.

    python -m benchmarks.accuracy --data aclImdb_v1.tar.gz

The data is IMDB's own archive or its unpacked folder. `--model FILE` scores another model. Besides
the accuracy on whole reviews it prints what is left of it when tokens are deleted at random (with
positions: become [UNK]), since such reviews are what LIME and Shapley values ask the model about,
and the accuracy on short and on long reviews.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from attn_closed_form import load_demo_model, load_model
from attn_closed_form._types import Ids
from attn_closed_form.attention import predict_many
from jax_model.training.imdb import load_imdb

from .harness import Bar, report

SEED = 0
BAR = 0.892  # P1's model: 0.802, its six-layer model: 0.822
LONG = 255
MASKED = (0.25, 0.5, 0.75)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--data", required=True, help="aclImdb_v1.tar.gz or its unpacked folder")
    parser.add_argument("--model", help="model file (default: the shipped one)")
    args = parser.parse_args(argv)
    try:
        if args.model:
            model = load_model(args.model)
        else:
            model = load_demo_model()
        weights = model.weights
        vocabulary = model.vocabulary
        reviews = load_imdb(args.data, "test")
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    encoded = [vocabulary.encode(text) for text in reviews.texts]
    lengths = np.array([len(document) for document in encoded])
    if model.distinct_words:
        encoded = [np.array(list(dict.fromkeys(ids.tolist())), dtype=np.intp) for ids in encoded]
    # Cut here, so that 7,000 warnings need not be silenced.
    documents: list[Ids] = [
        document[: int(min(len(document), weights.room))] for document in encoded
    ]
    positive = reviews.labels == 1

    start = time.perf_counter()
    right = (predict_many(weights, documents)[:, 0] > 0) == positive
    seconds = time.perf_counter() - start
    accuracy = float(right.mean())
    short = lengths <= LONG
    rows = [{"reviews": "all", "number": len(right), "accuracy": accuracy, "seconds": seconds}]
    for name, part in ((f"up to {LONG} tokens", short), ("longer", ~short)):
        if part.any():
            rows.append(
                {"reviews": name, "number": int(part.sum()), "accuracy": float(right[part].mean())}
            )
    rng = np.random.default_rng(SEED)
    for rate in MASKED:
        kept = [rng.random(len(d)) >= rate for d in documents]
        if weights.T_max is None:
            masked = [d[keep] for d, keep in zip(documents, kept, strict=True)]
            gone = "deleted"
        else:
            masked = [
                np.where(keep, d, weights.unk) for d, keep in zip(documents, kept, strict=True)
            ]
            gone = "[UNK]"
        hit = (predict_many(weights, masked)[:, 0] > 0) == positive
        rows.append(
            {
                "reviews": f"{rate:.0%} of tokens {gone}",
                "number": len(hit),
                "accuracy": float(hit.mean()),
            }
        )
    settings = {
        "model": Path(args.model).name if args.model else "shipped",
        "K": weights.K,
        "T_max": weights.T_max,
        "d_e": weights.d_e,
        "D": weights.D,
    }
    bars = [Bar("test accuracy", accuracy, ">=", BAR)]
    met = report("accuracy", rows, seed=SEED, settings=settings, bars=bars)
    print(f"test accuracy {accuracy:.2%} ({int(right.sum())} of {len(right)})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
