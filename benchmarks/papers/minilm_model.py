"""The fine-tuned transformer as the benchmarks `minilm_*` see it, the documents that they explain,
and a store.

The black box is `attn_closed_form`'s own `TransformerClassifier`: ids in, log-odds of class 1
against class 0 out, special tokens put around them by the tokenizer. Every sequence that it reads
is counted, and the seconds that it takes.

Documents are the first whole sentences of IMDB's test reviews, and Yelp-HAT's reviews, of at most
60 tokens. Model calls are what costs here, so each document's measurements are written as soon as
they are there, one JSON line each, and a run that was stopped goes on behind the last one.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form._types import Array, Ids, Masks, Span
from attn_closed_form.app.models.sentences import sentences
from attn_closed_form.app.models.transformer import TransformerClassifier
from jax_model.training.imdb import load_imdb

from ..harness import plain
from .yelp_hat import load_yelp_hat

SHORTEST = 16
LONGEST = 60
# Sentences are taken while they fit into so many tokens.
SENTENCES = 40


class Counted:
    """A black box that counts the sequences that it is asked for, and its seconds."""

    def __init__(self, f: Callable[[list[Ids]], Array]) -> None:
        self.inner = f
        self.calls = 0
        self.seconds = 0.0

    def __call__(self, sequences: list[Ids]) -> Array:
        """(n,) log-odds."""
        start = time.process_time()
        out = self.inner(sequences)
        self.seconds += time.process_time() - start
        self.calls += len(sequences)
        return out


class Transformer(NamedTuple):
    """A Hugging Face model with two classes, its tokenizer, and the two as a black box."""

    model: Any
    tokenizer: Any
    f: Counted


def load_transformer(folder: Path) -> Transformer:
    """The model of a folder in Hugging Face's layout, in float32."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    return as_transformer(model, AutoTokenizer.from_pretrained(folder))


def as_transformer(model: Any, tokenizer: Any) -> Transformer:
    """A model and its tokenizer with their log-odds."""
    classifier = TransformerClassifier(model, tokenizer, progress=False)

    def log_odds(sequences: list[Ids]) -> Array:
        logits = classifier(sequences)
        return logits[:, 1] - logits[:, 0]

    return Transformer(model, tokenizer, Counted(log_odds))


class Document(NamedTuple):
    """A text to explain: its ids without special ones, their spans in it, its label, and what
    people chose.
    """

    text: str
    ids: Ids
    spans: list[Span]
    label: int
    chosen: Masks = np.zeros(0, dtype=np.bool_)


def encode(tokenizer: Any, text: str) -> tuple[Ids, list[Span]]:
    """Ids without special tokens and their character spans."""
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return np.array(found["input_ids"], dtype=np.intp), [
        tuple(span) for span in found["offset_mapping"]
    ]


def first_sentences(text: str, tokenizer: Any, most: int) -> str:
    """The first sentences of a review that fit into `most` tokens; "" if the first one does not."""
    text = re.sub(r"(\s*<\s*br\s*/?>\s*)+", " ", text[:2000])
    best = ""
    for _, end in sentences(text):
        if len(encode(tokenizer, text[:end])[0]) > most:
            break
        best = text[:end].strip()
    return best


def imdb_documents(path: Path, tokenizer: Any, count: int, seed: int = 0) -> list[Document]:
    """The first sentences of `count` test reviews, 16 to 40 tokens; a seeded draw."""
    reviews = load_imdb(path, "test")
    out: list[Document] = []
    for i in np.random.default_rng(seed).permutation(len(reviews.texts)):
        text = first_sentences(reviews.texts[i], tokenizer, SENTENCES)
        ids, spans = encode(tokenizer, text)
        if len(ids) >= SHORTEST:
            out.append(Document(text, ids, spans, int(reviews.labels[i])))
        if len(out) == count:
            break
    return out


def yelp_documents(path: Path, tokenizer: Any, count: int, seed: int = 0) -> list[Document]:
    """Yelp-HAT reviews of 16 to 60 tokens, some of which all annotators chose; a seeded draw."""
    reviews = load_yelp_hat(path)
    out: list[Document] = []
    for i in np.random.default_rng(seed).permutation(len(reviews)):
        review = reviews[i]
        ids, spans = encode(tokenizer, review.text)
        chosen = review.at_spans(spans)
        if SHORTEST <= len(ids) <= LONGEST and 0 < chosen.sum() < len(ids):
            out.append(Document(review.text, ids, spans, review.label, chosen))
        if len(out) == count:
            break
    return out


def kept(file: Path | None, make: Callable[[], list[Document]]) -> list[Document]:
    """Documents from a file, else made and written there: reading the archives takes half a
    minute.
    """
    if file is None:
        return make()
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            json.dumps([document._asdict() for document in make()], default=plain), encoding="utf-8"
        )
    return [
        Document(
            row["text"],
            np.array(row["ids"], dtype=np.intp),
            [(start, end) for start, end in row["spans"]],
            row["label"],
            np.array(row["chosen"], dtype=np.bool_),
        )
        for row in json.loads(file.read_text(encoding="utf-8"))
    ]


class Store:
    """Measurements by name and document, one JSON line each, kept as they come.

    Parameters
    ----------
    path : the file; None keeps nothing between runs
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):  # the last line may be cut short
                    row = json.loads(line)
                    self.rows[row["stage"], row["document"]] = row["found"]

    def each(
        self, stage: str, documents: list[Document], measure: Callable[[int, Document], Any]
    ) -> Iterator[Any]:
        """What `measure` finds for every document: from the file, else measured and written."""
        start = time.perf_counter()
        fresh = 0
        for number, document in enumerate(documents):
            if (stage, number) not in self.rows:
                self.add(stage, number, measure(number, document))
                fresh += 1
                spent = time.perf_counter() - start
                print(
                    f"{stage}: {number + 1} of {len(documents)}, {spent / fresh:.1f} s each",
                    file=sys.stderr,
                    flush=True,
                )
            yield self.rows[stage, number]

    def done(self, stages: list[str]) -> int:
        """How many documents have been measured in all of these stages, from the first one on."""
        number = 0
        while all((stage, number) in self.rows for stage in stages):
            number += 1
        return number

    def add(self, stage: str, number: int, found: Any) -> None:
        """Write one measurement."""
        line = json.dumps({"stage": stage, "document": number, "found": found}, default=plain)
        self.rows[stage, number] = json.loads(line)["found"]
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
