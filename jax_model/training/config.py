"""Settings of a training run, what each one means, and values for them that suit the data.

`Config()` is P1's model and the settings that were chosen for IMDB (MODEL_CARD.md). `automatic` takes what it can from
the texts themselves: how many words the model reads, the size of a batch, and how long to train. Its other values were
chosen on held-out texts of Reuters R8 and 20 newsgroups (`benchmarks/texts.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attn_closed_form.models.text import tokenize

LEAST = {"T_max": 2, "D": 2} | dict.fromkeys(("d_e", "K", "d_att", "d_out", "epochs", "batch_size"), 1)
LEAST |= dict.fromkeys(("patience", "warmup_steps", "seed", "weight_decay"), 0)
CHOICES = {"class_weight": ("none", "balanced"), "unk_by": ("tokens", "words"), "refit": ("none", "all")}
# How `automatic` settles what depends on the texts; see its docstring.
SAMPLE = 1000
LONG = 150
LONGEST, SHORTEST = 512, 32
STEPS = 500
SHORT_TEXTS: dict[str, Any] = {"max_unk": 0.8, "unk_start": -5.0, "query_scale": 0.3}
LONG_TEXTS: dict[str, Any] = {"max_unk": 1.0, "unk_start": -1.0, "query_scale": 1.0}
FEWEST_EPOCHS = {"short": 8, "long": 10}
# What it takes for all texts alike, and what the command line says of the rest.
AUTOMATIC: dict[str, Any] = {
    "D": 30_000,
    "d_e": 64,
    "K": 1,
    "learning_rate": 5e-3,
    "weight_decay": 0.1,
    "unk_by": "words",
    "validation": 0.1,
    "refit": "all",
}
SETTLED_BY_TEXTS = {
    **{
        name: f"{LONG_TEXTS[name]} for texts of {LONG} words or more on average, else {value}"
        for name, value in SHORT_TEXTS.items()
    },
    "T_max": f"enough to read 19 of 20 texts to their end, at most {LONGEST}",
    "batch_size": "64, fewer for less than 1,280 texts",
    "epochs": f"8, for long texts 10; more if that is less than {STEPS} steps, at most 60",
    "patience": "a fifth of the epochs, at least 2",
    "warmup_steps": "an eighth of all steps, at most 200",
    "refit": "all, but none with --valid or IMDB's archive",
}


def _setting(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Config:
    """Settings of a run; every one is a flag of the command line. NOTATION.md has the letters."""

    T_max: int = _setting(256, "positions of the model: [CLS] and the first words of a text; later words are not read")
    D: int = _setting(6000, "largest number of words in the vocabulary; the most frequent ones are kept")
    d_e: int = _setting(128, "size of a word's embedding")
    K: int = _setting(6, "number of attention heads")
    d_att: int = _setting(64, "size of keys and queries, per head")
    d_out: int = _setting(64, "size of values, per head")
    scale: float = _setting(0.1, "size of embeddings and positions at the start; small ones learn rare words later")
    query_scale: float = _setting(1.0, "size of the queries at the start; with small ones all words begin alike")
    unk_start: float = _setting(0.0, "attention logit of [UNK] and padding at the start; 0 leaves it to chance")
    epochs: int = _setting(8, "largest number of passes over the texts")
    patience: int = _setting(
        2, "stop when more than this many epochs in a row bring no smaller loss on the held-out texts"
    )
    batch_size: int = _setting(64, "texts per step")
    learning_rate: float = _setting(1e-3, "largest step size of AdamW; it rises during the warm-up, then falls")
    warmup_steps: int = _setting(200, "steps until the learning rate is at its largest")
    weight_decay: float = _setting(0.3, "how strongly AdamW pulls the weights to zero")
    ema: float = _setting(0.998, "decay of the running average of the weights, which is what is kept")
    max_unk: float = _setting(1.0, "each text loses a random share, up to this one, of its words to [UNK]")
    unk_by: str = _setting("tokens", "what is lost: single tokens, or words with all their occurrences in the text")
    crop: float = _setting(0.5, "chance that a text that is too long is read from a random place, not from its start")
    validation: float = _setting(0.2, "share of the texts that is held out, unless --valid names a file of them")
    refit: str = _setting(
        "none", "all: train once more on all texts, held-out ones too, for as many epochs as were best"
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

    T_max is enough to read 19 of 20 texts to their end (of a sample of a thousand), in steps of 32 and at most 512. A
    batch is 64 texts, fewer below 1,280 texts, so that an epoch has some 20 steps. Training takes 8 epochs, for long
    texts 10, more (up to 60) where that is less than 500 steps.

    Long texts (150 words or more on average) say things more than once and may lose all but a few of their words; what
    is lost counts from the start, so that little evidence is a weak prediction. Short ones keep a fifth. They are
    mostly padding in a batch, which is out of sight at the start (`unk_start`), and all their words begin alike
    (`query_scale`): otherwise a run waits, one to four epochs, until attention has found the words.

    >>> config = automatic(["a fine film"] * 100, K=2)
    >>> config.T_max, config.batch_size, config.epochs, config.K
    (32, 4, 20, 2)
    """
    n = len(texts)
    lengths = [len(tokenize(text)) for text in texts[:: -(-n // SAMPLE)]]
    T_max = int(np.clip(-(-(np.quantile(lengths, 0.95) + 1) // 32) * 32, SHORTEST, LONGEST))
    kind = "long" if np.mean(lengths) >= LONG else "short"
    batch_size = changes.get("batch_size", min(n, int(2 ** np.clip(np.log2(max(n, 1) / 20) + 0.5, 2, 6).astype(int))))
    steps = max(n // max(batch_size, 1), 1)
    epochs = changes.get("epochs", int(np.clip(round(STEPS / steps), FEWEST_EPOCHS[kind], 60)))
    chosen = {
        **AUTOMATIC,
        **(LONG_TEXTS if kind == "long" else SHORT_TEXTS),
        "T_max": T_max,
        "batch_size": batch_size,
        "epochs": epochs,
        "patience": max(2, epochs // 5),
        "warmup_steps": min(200, epochs * steps // 8),
    }
    return Config(**{**chosen, **changes})
