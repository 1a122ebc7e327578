"""Models and tokenizers of the transformers package, as this package uses them: loaded from a
folder without running code in it, evaluated without gradients, and in batches of similar length.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..._types import Ids
from ..files.atomic import first_line

# Suffixes of the class names of language models in the transformers package.
LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel")
# Files of weights that are read.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True)
class Frame:
    """Ids of the special tokens before and after a text, and the token types of prefix, text and
    suffix, if any.
    """

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    types: tuple[tuple[int, ...], int, tuple[int, ...]] | None = None

    @classmethod
    def of(cls, tokenizer: Any) -> Frame:
        """Return the frame that a tokenizer puts around a text."""
        # Short texts, at least one of which has a token under any tokenizer.
        probes = ("the", "a film", "0", ".")
        for probe in probes:
            body = list(tokenizer(probe, add_special_tokens=False)["input_ids"])
            encoding = tokenizer(probe)
            ids = list(encoding["input_ids"])
            types = encoding.get("token_type_ids")
            # Without a token, nothing tells where the text begins.
            for start in range(len(ids) - len(body) + 1 if body else 0):
                end = start + len(body)
                if ids[start:end] == body:
                    if types is None:
                        parts = None
                    else:
                        parts = (tuple(types[:start]), int(types[start]), tuple(types[end:]))
                    return cls(tuple(ids[:start]), tuple(ids[end:]), parts)
        raise ValueError(
            "tokenizer: expected one whose special tokens surround the text, got "
            f"{type(tokenizer).__name__}, whose encodings with and without them do not fit "
            "together"
        )

    @property
    def size(self) -> int:
        """Number of special tokens."""
        return len(self.prefix) + len(self.suffix)

    def around(self, ids: Ids) -> Ids:
        """Return the ids with the special tokens around them."""
        return np.concatenate([self.prefix, ids, self.suffix]).astype(np.intp)


def batches(lengths: Ids, batch_size: int, pads: bool) -> Iterator[Ids]:
    """Yield batches of rows of similar length, the longest first; of equal length if rows cannot be
    padded.

    >>> [rows.tolist() for rows in batches(np.array([3, 5, 3, 4]), 2, pads=True)]
    [[1, 3], [0, 2]]
    >>> [rows.tolist() for rows in batches(np.array([3, 5, 3, 4]), 2, pads=False)]
    [[1], [3], [0, 2]]
    """
    # If memory is too small, the first and longest batch shows it at once.
    order = np.argsort(-lengths, kind="stable")
    while order.size:
        batch = order[:batch_size]
        if not pads:
            batch = batch[lengths[batch] == lengths[batch[0]]]
        yield batch
        order = order[batch.size :]


def imported_package(name: str) -> Any:
    """Import torch or transformers, or raise an error that names the extra."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"a transformer needs {name} ({error}): pip install '.[transformers]'"
        ) from None


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Switch to evaluation mode without gradients, and restore the mode of every module
    afterwards.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with imported_package("torch").inference_mode():
            yield
    finally:
        for module in training:
            module.training = True


def load_folder(path: Path) -> tuple[Any, Any]:
    """Return the model and the tokenizer in a folder written by Hugging Face's `save_pretrained`.

    No code in the folder is run, and nothing is downloaded.
    """
    config = _checked_config(path)
    imported_package("torch")
    transformers = imported_package("transformers")
    predicts_tokens = str((config.get("architectures") or [""])[0]).endswith(LANGUAGE_MODELS)
    if predicts_tokens:
        kind = transformers.AutoModelForCausalLM
    else:
        kind = transformers.AutoModelForSequenceClassification
    source = {"local_files_only": True, "trust_remote_code": False}
    part = "tokenizer"
    with _quiet():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, **source)
            part = "model"
            model, info = kind.from_pretrained(
                path, use_safetensors=True, output_loading_info=True, **source
            )
        except Exception as error:
            raise ValueError(f"{path}: the {part} does not load: {first_line(error)}") from None
    # The package gives random numbers to weights that a file lacks, and goes on.
    if missing := sorted(info["missing_keys"]):
        keys = ", ".join(missing[:4])
        raise ValueError(
            f"{path}: expected a model with a trained classification head, but its file has no "
            f"{keys}"
        )
    model.eval()
    return model, tokenizer


def _checked_config(path: Path) -> dict[str, Any]:
    """Return the configuration of a folder after checking that it has safetensors, a tokenizer and
    no code to run.
    """

    def has(names: Sequence[str]) -> list[str]:
        return [name for name in names if (path / name).is_file()]

    if not has(["config.json"]):
        if path.is_dir():
            missing = "one without config.json"
        else:
            missing = "no such folder"
        raise ValueError(
            f"{path}: expected a folder in the layout of Hugging Face, with config.json; got "
            f"{missing}"
        )
    try:
        config = dict(json.loads((path / "config.json").read_text(encoding="utf-8")).items())
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path / 'config.json'}: expected a JSON object ({error})") from None
    if config.get("auto_map"):
        raise ValueError(
            f"{path}: contains Python code to run (auto_map in config.json), which is not supported"
        )
    if not has(WEIGHTS):
        # Files of weights that could run code when they are read.
        pickled = ("pytorch_model.bin", "pytorch_model.bin.index.json")
        pickles = [
            f", got {name}: a pickle can run any code; save it with save_pretrained"
            for name in has(pickled)
        ]
        raise ValueError(f"{path}: expected weights as model.safetensors{''.join(pickles[:1])}")
    # Files of which a tokenizer has at least one.
    tokenizer = (
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
        "vocab.json",
        "spiece.model",
        "tokenizer.model",
    )
    if not has(tokenizer):
        raise ValueError(
            f"{path}: expected the files of a tokenizer next to the model, such as tokenizer.json; "
            "got none"
        )
    return config


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress bars and load reports of the package."""
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
