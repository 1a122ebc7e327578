"""A sequence classifier of the transformers package as a function of token ids: sorted by length, padded, in batches.

Nothing of the model changes: it is put into evaluation mode, module by module, and back; no gradient is kept. What a
batch is padded with is hidden by the attention mask. Decoder-only models take the logits at the last token that is no
pad token, so that one without a pad token in its configuration gets, for as long as it is asked, an id that occurs in
no sequence. Where a tokenizer pads on the left, which shifts the positions of some models, only sequences of equal
length share a batch, and nothing is padded at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._progress import Report, stages
from .._types import Array, Ids, Tokens
from .transformer_inputs import HIDDEN, Frame, batches


def require_torch() -> Any:
    """The package torch, or a line that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"transformers need torch ({error}): pip install 'attn-closed-form[transformers]'") from None
    return torch


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every module is in the mode that it was in."""
    torch = require_torch()
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def _pad_token(model: Any, pad: int) -> Iterator[None]:
    """The configuration with a pad token, if it has none of its own."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    own = getattr(config, "pad_token_id", None)
    if own is None:
        config.pad_token_id = pad
    try:
        yield
    finally:
        config.pad_token_id = own


def pad_id(model: Any, tokenizer: Any, sequences: Sequence[Ids]) -> int:
    """What pads: the model's pad token, or the tokenizer's, or an id that occurs in no sequence."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    own = getattr(config, "pad_token_id", None)
    if own is not None:
        return int(own)
    used = set(np.unique(np.concatenate(sequences)).tolist()) if sequences else set()
    named = getattr(tokenizer, "pad_token_id", None)
    if named is not None and named not in used:
        return int(named)
    return next(i for i in range(len(used) + 1) if i not in used)


def check_sequences(sequences: Sequence[Tokens], vocabulary: int, room: int) -> list[Ids]:
    """Sequences of ids as integer arrays, each within the vocabulary and the room of the model."""
    checked = []
    for row, sequence in enumerate(sequences):
        ids = np.asarray(sequence)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ValueError(f"sequences: expected arrays of integer ids, got {ids.dtype} {ids.shape} at {row}")
        if ids.size > room:
            raise ValueError(f"sequences: expected at most {room} tokens, got {ids.size} at {row}")
        if ids.size and (ids.min() < HIDDEN or ids.max() >= vocabulary):
            wrong = ids.min() if ids.min() < HIDDEN else ids.max()
            raise ValueError(f"sequences: expected ids below {vocabulary}, got {wrong} at {row}")
        checked.append(ids.astype(np.intp))
    return checked


def run(
    model: Any,
    tokenizer: Any,
    frame: Frame,
    sequences: Sequence[Ids],
    batch_size: int,
    progress: Report | bool | None = None,
) -> Array:
    """(n, C) logits of n sequences of ids, to which the special tokens are added here."""
    torch = require_torch()
    whole = [frame.around(ids) for ids in sequences]
    lengths = np.array([ids.size for ids in whole], dtype=np.intp)
    if lengths.size and lengths.min() == 0:
        raise ValueError("sequences: expected at least one token, because this tokenizer adds no special ones")
    pad = pad_id(model, tokenizer, whole)
    pads = getattr(tokenizer, "padding_side", "right") == "right"
    found: Array | None = None
    done = 0
    with stages("transformer", progress) as report, evaluating(model), _pad_token(model, pad):
        for rows in batches(lengths, batch_size, pads):
            inputs = _inputs(torch, frame, [whole[i] for i in rows], pad, _device(model))
            logits = model(**inputs).logits.float().cpu().numpy().astype(np.float64)
            if logits.ndim != 2:
                raise ValueError(f"model: expected one row of logits per sequence, got shape {logits.shape}")
            if found is None:
                found = np.empty((lengths.size, logits.shape[1]))
            found[rows] = logits
            done += rows.size
            report("model", done, lengths.size)
    if found is None:
        return np.zeros((0, int(model.config.num_labels)))
    if not np.isfinite(found).all():
        raise ValueError(
            f"model: expected finite logits, got {found[~np.isfinite(found)][0]}; half precision may overflow "
            "(model.float() helps)"
        )
    return found


def _inputs(torch: Any, frame: Frame, rows: Sequence[Ids], pad: int, device: Any) -> dict[str, Any]:
    longest = max(row.size for row in rows)
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    types = np.zeros((len(rows), longest), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : row.size] = np.where(row == HIDDEN, pad, row)
        mask[i, : row.size] = row != HIDDEN
        own = frame.token_types(row.size - frame.size)
        if own is not None:
            types[i, : row.size] = own
    arrays = {"input_ids": ids, "attention_mask": mask}
    if frame.types is not None:
        arrays["token_type_ids"] = types
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def _device(model: Any) -> Any:
    return next(iter(model.parameters())).device
