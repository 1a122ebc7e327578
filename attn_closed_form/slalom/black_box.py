"""A black box: any function from a list of id arrays to one output per sequence, or one per sequence and class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._progress import Report
from .._types import Array, Ids
from .slalom import finite

BlackBox = Callable[[list[Ids]], Any]

# Sequences in one call of the black box: so many that a call's own cost vanishes, so few that progress is seen.
BATCH = 1024


def ask(f: BlackBox, sequences: list[Ids]) -> Array:
    """Outputs of a black box, (n,) or (n, C), checked."""
    raw = np.asarray(f(sequences))
    if raw.ndim not in (1, 2) or len(raw) != len(sequences) or raw.size == 0:
        raise ValueError(f"f: expected ({len(sequences)},) or ({len(sequences)}, C) outputs, got shape {raw.shape}")
    return finite("f", raw)


def ask_in_batches(f: BlackBox, sequences: Sequence[Ids], report: Report, batch_size: int = BATCH) -> Array:
    """Outputs for many sequences, (n,) or (n, C), at most `batch_size` of them per call."""
    parts = []
    for start in range(0, len(sequences), batch_size):
        report("model", start, len(sequences))
        parts.append(ask(f, list(sequences[start : start + batch_size])))
    if len({part.shape[1:] for part in parts}) > 1:
        raise ValueError(f"f: expected outputs of one shape, got {[part.shape for part in parts]}")
    return np.concatenate(parts)
