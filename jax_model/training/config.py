"""Settings of a training run, their meaning, and values that suit the data.

`Config()` has the settings of the shipped model (MODEL_CARD.md), and `P1` has those of the paper's
model, which has six heads and positions. `automatic` derives settings from the texts: the batch
size, the length of the training and, with positions, the number of words that the model reads. Its
other values were chosen on held-out texts of Reuters R8, R52 and 20 newsgroups
(`benchmarks/texts.py`).

Every default has one head. Without positions a model reads a text to its end, and deleting a word
has no other effect; that is the default for long texts, where it costs no accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attn_closed_form.app.models.text import tokenize

# The smallest value of a setting: a text has [CLS] and a word, and a vocabulary [CLS] and [UNK].
LEAST = {
    "T_max": 2,
    "D": 2,
    "d_e": 1,
    "K": 1,
    "d_att": 1,
    "d_out": 1,
    "epochs": 1,
    "batch_size": 1,
    "patience": 0,
    "warmup_steps": 0,
    "seed": 0,
    "weight_decay": 0,
}
# The names of settings for users of the command line (with hyphens) and of the estimators. The
# letters are those of the papers (NOTATION.md).
OPTION_NAMES = {
    "T_max": "max_length",
    "D": "vocabulary_size",
    "d_e": "embedding_size",
    "K": "heads",
    "d_att": "key_size",
    "d_out": "value_size",
    "scale": "embedding_scale",
    "ema": "average_decay",
}
# The values of a setting that is a word.
CHOICES = {
    "positions": ("none", "sinusoidal"),
    "class_weight": ("none", "balanced"),
    "unk_by": ("tokens", "words"),
    "refit": ("none", "all"),
    "start": ("random", "tables"),
    "baseline": ("free", "prior"),
    "zeros": ("none", "tables"),
}
# Sizes of P1's model (appendix F) and settings of its training that differ from `Config()`. The
# paper trains with a learning rate of 1e-4, batches of 16 and 10 epochs; these settings are ours.
P1: dict[str, Any] = {
    "positions": "sinusoidal",
    "T_max": 256,
    "d_e": 128,
    "K": 6,
    "d_att": 64,
    "d_out": 64,
    "learning_rate": 1e-3,
    "refit": "none",
}
# Tuning: limits of T_max with positions. Longer texts are read to the upper one, and rows below the
# lower one save no time.
LENGTHS = (32, 512)
# Tuning: steps of a training. Half of them do not learn the rare classes of R52, and twice as many
# make R8 worse.
STEPS = 1000
# Tuning: limits of the epochs that make so many steps.
EPOCHS = (8, 60)
# Tuning: values of `automatic` for all texts, chosen on held-out texts of R8, R52 and 20
# newsgroups.
AUTOMATIC: dict[str, Any] = {
    "D": 30_000,
    "d_e": 64,
    "d_att": 64,
    "d_out": 64,
    "learning_rate": 5e-3,
    "weight_decay": 0.1,
    "max_unk": 0.8,
    "unk_by": "words",
    "unk_start": -5.0,
    "query_scale": 0.3,
    "validation": 0.1,
    "refit": "all",
    "start": "tables",
    "baseline": "prior",
    "zeros": "tables",
}


def check_settings(
    config: Any, least: Mapping[str, int], shares: Sequence[str], positive: Sequence[str]
) -> None:
    """Raise unless the settings named in `least` are at least that, `shares` in 0..1, and
    `positive` above zero.
    """
    for name, smallest in least.items():
        value = getattr(config, name)
        if not value >= smallest:
            raise ValueError(f"{named(name)}: expected at least {smallest}, got {value}")
    for name in shares:
        value = getattr(config, name)
        if not 0 <= value <= 1:
            raise ValueError(f"{named(name)}: expected a number in 0..1, got {value}")
    for name in positive:
        value = getattr(config, name)
        if not 0 < value < np.inf:
            raise ValueError(f"{named(name)}: expected a positive number, got {value}")


def named(setting: str) -> str:
    """Return the name of a setting for users.

    >>> named("K"), named("epochs")
    ('heads', 'epochs')
    """
    return OPTION_NAMES.get(setting, setting)


def by_letter(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by the names of the fields of `Config`; they may have either name.

    >>> by_letter({"heads": 2, "D": 9, "epochs": 3})
    {'K': 2, 'D': 9, 'epochs': 3}
    """
    letters = {name: letter for letter, name in OPTION_NAMES.items()}
    return {letters.get(name, name): value for name, value in settings.items()}


def _setting(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Config:
    """Settings of a run; every one is a flag of the command line. NOTATION.md has the letters."""

    positions: str = _setting(
        "none", "sinusoidal: the model reads the positions of words, and texts of limited length"
    )
    T_max: int = _setting(
        1024,
        "maximum number of words in a training step; with positions, later words are never read",
    )
    D: int = _setting(
        6000, "maximum number of words in the vocabulary; the most frequent ones are kept"
    )
    d_e: int = _setting(32, "size of a word's embedding")
    K: int = _setting(1, "number of attention heads")
    d_att: int = _setting(32, "size of keys and queries, per head")
    d_out: int = _setting(32, "size of values, per head")
    scale: float = _setting(
        0.1, "size of embeddings and positions at the start; small ones learn rare words later"
    )
    query_scale: float = _setting(
        1.0, "size of the queries at the start; if small, all words start with equal weights"
    )
    unk_start: float = _setting(
        0.0, "with positions, attention logit of [UNK] and padding at the start; 0 is any"
    )
    epochs: int = _setting(8, "maximum number of passes over the texts")
    patience: int = _setting(
        2, "stop after more than this many epochs without a smaller held-out loss"
    )
    batch_size: int = _setting(64, "texts per step")
    learning_rate: float = _setting(
        2e-3, "maximum step size of AdamW; it rises during the warm-up, then falls"
    )
    warmup_steps: int = _setting(200, "steps until the learning rate reaches its maximum")
    weight_decay: float = _setting(0.3, "weight decay of AdamW")
    ema: float = _setting(
        0.998, "decay of the running average of the weights, which is the saved model"
    )
    max_unk: float = _setting(
        1.0, "each text loses a random share of its words, up to this share (to [UNK] if padded)"
    )
    unk_by: str = _setting(
        "tokens", "what is lost: single tokens, or words with all their occurrences in the text"
    )
    crop: float = _setting(
        0.5, "probability that an overlong text is read from a random position instead of its start"
    )
    validation: float = _setting(
        0.2, "share of held-out texts, unless --valid names a file of them"
    )
    refit: str = _setting(
        "all", "all: train again on all texts for the best number of epochs; or none"
    )
    class_weight: str = _setting(
        "none", "balanced: weight classes inversely to their frequency; or none"
    )
    start: str = _setting(
        "random", "tables: the embeddings start from the fitted table model; or random"
    )
    baseline: str = _setting(
        "free", "prior: a text without words is predicted with the shares of the classes; or free"
    )
    zeros: str = _setting(
        "none",
        "tables: words that lose their mass in the fitted tables have none, without positions; or "
        "none",
    )
    seed: int = _setting(0, "seed of everything random; the same seed gives the same model")

    @property
    def takes_masses(self) -> bool:
        """Whether words may lose their mass: if fitted tables tell which, and no word has a
        position that would shift.
        """
        from_tables = self.start == "tables" and self.zeros == "tables"
        return from_tables and self.positions == "none"

    def __post_init__(self) -> None:
        check_settings(
            self,
            LEAST,
            shares=("ema", "max_unk", "crop"),
            positive=("learning_rate", "scale", "query_scale"),
        )
        if not 0 < self.validation < 1:
            raise ValueError(
                f"validation: expected a fraction between 0 and 1, got {self.validation}"
            )
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name}: expected one of {', '.join(choices)}, got {getattr(self, name)!r}"
                )


def automatic(texts: Sequence[str], **changes: Any) -> Config:
    """Return settings for training texts; `changes` are settings chosen by the caller.

    Long texts (150 words or more on average) need no positions: on IMDB and 20 newsgroups, the
    held-out accuracy without them is as good or better. Short texts need them: R8 and R52 lose 0.3
    and 0.8 points without. With positions, T_max is such that 19 of 20 texts (of a sample of a
    thousand) are read to their end, in steps of 32 and at most 512.

    A batch has 64 texts, or fewer below 1,280 texts, so that an epoch has about 20 steps. Training
    takes 1,000 steps: with half of them, rare classes are not learned (R52); with twice as many, R8
    gets worse.

    All words start with equal weights (`query_scale`), and padding starts with little
    (`unk_start`). Otherwise it takes one to four epochs until attention has found the words.

    >>> config = automatic(["a fine film"] * 100, K=2)
    >>> config.positions, config.T_max, config.batch_size, config.epochs, config.K
    ('sinusoidal', 32, 4, 40, 2)
    >>> automatic(["a fine film " * 100]).positions
    'none'
    """
    n = len(texts)
    # A thousand texts, spread over the table, tell its mean length.
    sample = texts[:: -(-n // 1000)]
    lengths = [len(tokenize(text)) for text in sample]
    # The power of two that makes about 20 steps, between 4 and 64.
    power = np.clip(np.log2(max(n, 1) / 20) + 0.5, 2, 6).astype(int)
    batch_size = changes.get("batch_size", min(n, int(2**power)))
    steps = max(n // max(batch_size, 1), 1)
    epochs = changes.get("epochs", int(np.clip(round(STEPS / steps), *EPOCHS)))
    positions = "sinusoidal"
    # Tuning: mean number of words from which positions do not help (IMDB and 20 newsgroups, against
    # R8 and R52).
    long = 150
    if np.mean(lengths) >= long:
        positions = "none"
    chosen = {
        **AUTOMATIC,
        "positions": positions,
        "batch_size": batch_size,
        "epochs": epochs,
        "patience": max(2, epochs // 5),
        "warmup_steps": min(200, epochs * steps // 8),
    }
    if changes.get("positions", chosen["positions"]) != "none":
        # With [CLS], rounded up to a multiple of 32.
        most = np.quantile(lengths, 0.95) + 1
        chosen["T_max"] = int(np.clip(-(-most // 32) * 32, *LENGTHS))
    return Config(**{**chosen, **changes})
