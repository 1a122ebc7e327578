"""Settings of a training run, what each one means, and values for them that suit the data.

`Config()` has the settings of the shipped model (MODEL_CARD.md), and `P1` those of the paper's, which has six heads and
positions. `automatic` takes what it can from the texts themselves: the size of a batch, how long to train and, with
positions, how many words the model reads. Its other values were chosen on held-out texts of Reuters R8, R52 and 20
newsgroups (`benchmarks/texts.py`).

One head without positions is the default: it reads a text to its end, everything about it is exact, and on held-out
texts it was no worse than with positions (numbers in MODEL_CARD.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attn_closed_form.models.text import tokenize

LEAST = {"T_max": 2, "D": 2} | dict.fromkeys(("d_e", "K", "d_att", "d_out", "epochs", "batch_size"), 1)
LEAST |= dict.fromkeys(("patience", "warmup_steps", "seed", "weight_decay"), 0)
CHOICES = {
    "positions": ("none", "sinusoidal"),
    "class_weight": ("none", "balanced"),
    "unk_by": ("tokens", "words"),
    "refit": ("none", "all"),
}
# What P1 (appendix F) has and `Config()` has not.
P1: dict[str, Any] = {"positions": "sinusoidal", "T_max": 256, "K": 6, "refit": "none"}
# How `automatic` settles what depends on the texts; see its docstring.
SAMPLE = 1000
LONGEST, SHORTEST = 512, 32
STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 2000, 8, 60
# What it takes for all texts alike, and what the command line says of the rest.
AUTOMATIC: dict[str, Any] = {
    "T_max": 4096,
    "D": 30_000,
    "d_e": 64,
    "learning_rate": 5e-3,
    "weight_decay": 0.1,
    "max_unk": 0.8,
    "unk_by": "words",
    "unk_start": -5.0,
    "query_scale": 0.3,
    "validation": 0.1,
    "refit": "all",
}
SETTLED_BY_TEXTS = {
    "T_max": f"{AUTOMATIC['T_max']}; with positions, enough to read 19 of 20 texts to their end, at most {LONGEST}",
    "batch_size": "64, fewer for less than 1,280 texts",
    "epochs": f"as many as make {STEPS:,} steps, from {FEWEST_EPOCHS} to {MOST_EPOCHS}",
    "patience": "a fifth of the epochs, at least 2",
    "warmup_steps": "an eighth of all steps, at most 200",
    "refit": "all, but none with --valid",
}


def _setting(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Config:
    """Settings of a run; every one is a flag of the command line. NOTATION.md has the letters."""

    positions: str = _setting("none", "sinusoidal: the model knows where a word stands, and reads a limited length")
    T_max: int = _setting(
        1024,
        "with positions, how many the model has, for [CLS] and the first words of a text: later words are not read; "
        "without, how many words of a text a step trains on at most",
    )
    D: int = _setting(6000, "largest number of words in the vocabulary; the most frequent ones are kept")
    d_e: int = _setting(128, "size of a word's embedding")
    K: int = _setting(1, "number of attention heads")
    d_att: int = _setting(64, "size of keys and queries, per head")
    d_out: int = _setting(64, "size of values, per head")
    scale: float = _setting(0.1, "size of embeddings and positions at the start; small ones learn rare words later")
    query_scale: float = _setting(1.0, "size of the queries at the start; with small ones all words begin alike")
    unk_start: float = _setting(
        0.0, "with positions, attention logit of [UNK] and padding at the start; 0 leaves it to chance"
    )
    epochs: int = _setting(8, "largest number of passes over the texts")
    patience: int = _setting(
        2, "stop when more than this many epochs in a row bring no smaller loss on the held-out texts"
    )
    batch_size: int = _setting(64, "texts per step")
    learning_rate: float = _setting(1e-3, "largest step size of AdamW; it rises during the warm-up, then falls")
    warmup_steps: int = _setting(200, "steps until the learning rate is at its largest")
    weight_decay: float = _setting(0.3, "how strongly AdamW pulls the weights to zero")
    ema: float = _setting(0.998, "decay of the running average of the weights, which is what is kept")
    max_unk: float = _setting(
        1.0, "each text loses a random share of its words, up to this one; with positions, to [UNK]"
    )
    unk_by: str = _setting("tokens", "what is lost: single tokens, or words with all their occurrences in the text")
    crop: float = _setting(0.5, "chance that a text that is too long is read from a random place, not from its start")
    validation: float = _setting(0.2, "share of the texts that is held out, unless --valid names a file of them")
    refit: str = _setting(
        "all", "all: train once more on all texts, held-out ones too, for as many epochs as were best"
    )
    class_weight: str = _setting("none", "balanced: classes count alike, however many texts each has; or none")
    seed: int = _setting(0, "seed of everything random; the same seed gives the same model")

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if not getattr(self, name) >= least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
        for name in ("ema", "max_unk", "crop"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: expected a number in 0..1, got {getattr(self, name)}")
        for name in ("learning_rate", "scale", "query_scale"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name}: expected a positive number, got {getattr(self, name)}")
        if not 0 < self.validation < 1:
            raise ValueError(f"validation: expected a fraction between 0 and 1, got {self.validation}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {getattr(self, name)!r}")


def automatic(texts: Sequence[str], **changes: Any) -> Config:
    """Settings for texts to train on; `changes` are settings that the caller has decided.

    A batch is 64 texts, fewer below 1,280 texts, so that an epoch has some 20 steps. Training takes 2,000 steps: with a
    quarter of them, rare classes are not learned (R52). With positions, T_max is enough to read 19 of 20 texts to their
    end (of a sample of a thousand), in steps of 32 and at most 512.

    All words begin alike (`query_scale`), and padding is out of sight at the start (`unk_start`): otherwise a run
    waits, one to four epochs, until attention has found the words.

    >>> config = automatic(["a fine film"] * 100, K=2)
    >>> config.positions, config.batch_size, config.epochs, config.K
    ('none', 4, 60, 2)
    """
    n = len(texts)
    batch_size = changes.get("batch_size", min(n, int(2 ** np.clip(np.log2(max(n, 1) / 20) + 0.5, 2, 6).astype(int))))
    steps = max(n // max(batch_size, 1), 1)
    epochs = changes.get("epochs", int(np.clip(round(STEPS / steps), FEWEST_EPOCHS, MOST_EPOCHS)))
    chosen = {
        **AUTOMATIC,
        "batch_size": batch_size,
        "epochs": epochs,
        "patience": max(2, epochs // 5),
        "warmup_steps": min(200, epochs * steps // 8),
    }
    if changes.get("positions", "none") != "none":
        lengths = [len(tokenize(text)) for text in texts[:: -(-n // SAMPLE)]]
        chosen["T_max"] = int(np.clip(-(-(np.quantile(lengths, 0.95) + 1) // 32) * 32, SHORTEST, LONGEST))
    return Config(**{**chosen, **changes})
