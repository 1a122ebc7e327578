"""A sequence classifier of the transformers package as a function of token ids, and where it is loaded from.

Ids go in as they are and are never decoded and tokenized again, which may change them. The special tokens are those
that the tokenizer itself puts around a text: they are read off one encoding with and one without them, because
tokenizers of different versions of transformers share no function for it.

Nothing of the model changes: it is put into evaluation mode, module by module, and back; no gradient is kept. Padding
is hidden by the attention mask. Decoder-only models take the logits at the last token that is not a pad token, so that
a model without a pad token in its configuration temporarily gets an id that occurs in no sequence. Where a tokenizer
pads on the left, which shifts the positions of some models, only sequences of equal length share a batch.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._arrays import numbered
from .._progress import Report, stages
from .._types import Array, Ids, Span, Tokens
from ..files.arrays import first_line
from .sentences import trimmed

#: An id for a token that is hidden: the pad token stands in its place, and attention passes it over.
HIDDEN = -1
# Texts of which a tokenizer makes at least one token.
PROBES = ("the", "a film", "0", ".")
# Tokenizers without a limit of their own say 10^30.
NO_LIMIT = 10**9
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model")


class Reading(NamedTuple):
    """A text as tokens: ids (n,), character spans, and the number of each token's word; None where unknown."""

    ids: Ids
    spans: tuple[Span, ...] | None
    words: Ids | None


@dataclass(frozen=True)
class Frame:
    """Ids of the special tokens before and after a text, and the token types of prefix, text and suffix, if any.

    >>> Frame((101,), (102,)).around(np.array([7, 8]))
    array([101,   7,   8, 102])
    """

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    types: tuple[tuple[int, ...], int, tuple[int, ...]] | None = None

    @property
    def size(self) -> int:
        """Number of special tokens."""
        return len(self.prefix) + len(self.suffix)

    def around(self, ids: Ids) -> Ids:
        """The ids with the special tokens around them."""
        return np.concatenate([self.prefix, ids, self.suffix]).astype(np.intp)


def frame_of(tokenizer: Any) -> Frame:
    """The frame that a tokenizer puts around a text."""
    for probe in PROBES:
        body = list(tokenizer(probe, add_special_tokens=False)["input_ids"])
        whole = tokenizer(probe)
        ids, types = list(whole["input_ids"]), whole.get("token_type_ids")
        for start in range(len(ids) - len(body) + 1 if body else 0):
            end = start + len(body)
            if ids[start:end] == body:
                parts = None if types is None else (tuple(types[:start]), int(types[start]), tuple(types[end:]))
                return Frame(tuple(ids[:start]), tuple(ids[end:]), parts)
    raise ValueError(
        f"tokenizer: expected one whose special tokens stand around the text, got {type(tokenizer).__name__}, whose "
        "encodings with and without them do not fit together"
    )


def read_tokens(tokenizer: Any, text: str) -> Reading:
    """The tokens of a text without special tokens; spans and words where the tokenizer knows them."""
    fast = bool(getattr(tokenizer, "is_fast", False))
    options = {"return_offsets_mapping": True} if fast else {}
    found = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False, **options)
    ids = np.asarray(found["input_ids"], dtype=np.intp).reshape(-1)
    if not fast:
        return Reading(ids, None, None)
    # A token of no word (a special one in the text) is a word of its own.
    words = [-1 - i if word is None else word for i, word in enumerate(found.word_ids())]
    return Reading(ids, _spans(text, found["offset_mapping"]), numbered(words)[0])


def _spans(text: str, offsets: Sequence[Span]) -> tuple[Span, ...]:
    """Spans without white space at their ends; tokens that share a character (bytes of an emoji) never overlap."""
    spans, last = [], 0
    for start, end in offsets:
        start = max(int(start), last)
        start, end = trimmed(text, start, max(int(end), start))
        last = max(start, end)
        spans.append((start, last))
    return tuple(spans)


def room(model: Any, tokenizer: Any, frame: Frame, max_length: int | None = None) -> int:
    """Tokens of a text that the model reads, without special tokens."""
    limits = [limit for limit in (max_length, getattr(tokenizer, "model_max_length", None)) if limit]
    tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
    padding = getattr(next(tables, None), "padding_idx", None)
    first = 0 if padding is None else int(padding) + 1  # RoBERTa and its kin count from behind the pad token's id
    for name in ("max_position_embeddings", "n_positions"):
        positions = getattr(model.config, name, None)
        if isinstance(positions, int) and positions > 0:
            limits.append(positions - first)
    most = min((limit for limit in limits if limit < NO_LIMIT), default=NO_LIMIT)
    if most - frame.size < 1:
        raise ValueError(f"max_length: expected more than the {frame.size} special tokens, got {most}")
    return int(most) - frame.size


def batches(lengths: Ids, batch_size: int, pads: bool) -> Iterator[Ids]:
    """Rows in batches of similar length, the longest first; of equal length where the model cannot be padded.

    >>> [rows.tolist() for rows in batches(np.array([3, 5, 3, 4]), 2, pads=True)]
    [[1, 3], [0, 2]]
    >>> [rows.tolist() for rows in batches(np.array([3, 5, 3, 4]), 2, pads=False)]
    [[1], [3], [0, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < order.size:
        stop = min(start + batch_size, order.size)
        if not pads:
            same = lengths[order[start:stop]] == lengths[order[start]]
            stop = start + int(same.sum())
        yield order[start:stop]
        start = stop


def require_torch() -> Any:
    """The package torch, or a line that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"transformers need torch ({error}): pip install '.[transformers]'") from None
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
def _padding(model: Any, tokenizer: Any, sequences: Sequence[Ids]) -> Iterator[int]:
    """The pad token of the model; if it has none, that of the tokenizer or an id of no sequence, for the time being."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    configured = getattr(config, "pad_token_id", None)
    pad = configured
    if pad is None:
        used = set(np.unique(np.concatenate(sequences)).tolist()) if sequences else set()
        candidates = (getattr(tokenizer, "pad_token_id", None), *range(len(used) + 1))
        pad = next(i for i in candidates if i is not None and i not in used)
        config.pad_token_id = pad
    try:
        yield int(pad)
    finally:
        config.pad_token_id = configured


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
    whole = [frame.around(ids) for ids in sequences]
    lengths = np.array([ids.size for ids in whole], dtype=np.intp)
    if lengths.size and lengths.min() == 0:
        raise ValueError("sequences: expected at least one token, because this tokenizer adds no special ones")
    pads = getattr(tokenizer, "padding_side", "right") == "right"
    found: Array | None = None
    done = 0
    with stages("transformer", progress) as report, evaluating(model), _padding(model, tokenizer, whole) as pad:
        for rows in batches(lengths, batch_size, pads):
            inputs = _inputs(model, frame, [whole[i] for i in rows], pad)
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


def _inputs(model: Any, frame: Frame, rows: Sequence[Ids], pad: int) -> dict[str, Any]:
    """What the model gets for a batch of sequences with their special tokens."""
    shape = (len(rows), max(row.size for row in rows))
    arrays = {"input_ids": np.full(shape, pad), "attention_mask": np.zeros(shape, dtype=np.int64)}
    if frame.types is not None:
        arrays["token_type_ids"] = np.zeros(shape, dtype=np.int64)
    for i, row in enumerate(rows):
        arrays["input_ids"][i, : row.size] = np.where(row == HIDDEN, pad, row)
        arrays["attention_mask"][i, : row.size] = row != HIDDEN
        if frame.types is not None:
            before, inside, after = frame.types
            text = [inside] * (row.size - frame.size)
            arrays["token_type_ids"][i, : row.size] = [*before, *text, *after]
    torch, device = require_torch(), next(iter(model.parameters())).device
    return {name: torch.from_numpy(array.astype(np.int64)).to(device) for name, array in arrays.items()}


def load_folder(folder: str | os.PathLike[str]) -> tuple[Any, Any]:
    """The sequence classifier and the tokenizer of a folder, as `save_pretrained` writes them.

    Nothing is downloaded, no Python file of the folder is run, and only weights in safetensors are read, because a
    pickle can run anything.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(
            f"{path}: expected a folder with config.json, model.safetensors and a tokenizer; no such folder"
        )
    if not (path / "config.json").is_file():
        raise ValueError(f"{path}: expected a folder in the layout of Hugging Face, got one without config.json")
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path / 'config.json'}: expected JSON ({error})") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path / 'config.json'}: expected a JSON object, got {type(config).__name__}")
    if config.get("auto_map"):
        raise ValueError(f"{path}: asks to run Python code of its own (auto_map in config.json), which is refused")
    if not any((path / name).is_file() for name in WEIGHTS):
        pickled = [name for name in PICKLES if (path / name).is_file()]
        hint = f", got {pickled[0]}: a pickle can run anything; save it with save_pretrained" if pickled else ""
        raise ValueError(f"{path}: expected weights as model.safetensors{hint}")
    if not any((path / name).is_file() for name in TOKENIZER):
        raise ValueError(
            f"{path}: expected the files of a tokenizer beside the model, such as tokenizer.json; got none"
        )
    require_torch()
    try:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise ImportError(
            f"a folder of a transformer needs the package transformers ({error}): pip install '.[transformers]'"
        ) from None
    options = {"local_files_only": True, "trust_remote_code": False}
    with _quiet():
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, **options)
        except Exception as error:
            raise ValueError(f"{path}: the tokenizer does not load: {first_line(error)}") from None
        try:
            model, info = AutoModelForSequenceClassification.from_pretrained(
                path, use_safetensors=True, output_loading_info=True, **options
            )
        except Exception as error:
            raise ValueError(f"{path}: the model does not load: {first_line(error)}") from None
    missing = sorted(info["missing_keys"])
    if missing:
        raise ValueError(
            f"{path}: expected a model with a trained classification head, but its file has no {', '.join(missing[:4])}"
        )
    return model.eval(), tokenizer


@contextmanager
def _quiet() -> Iterator[None]:
    """No bars and no load reports of the package: what matters is checked and said by us."""
    from transformers.utils import logging as theirs

    level = theirs.get_verbosity()
    bars = theirs.is_progress_bar_enabled()
    theirs.set_verbosity(logging.CRITICAL)
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        theirs.set_verbosity(level)
        if bars:
            theirs.enable_progress_bar()
