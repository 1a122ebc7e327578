"""A model and its tokenizer from a local folder in Hugging Face's layout: no download, no code of the folder is run."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .transformer_network import require_torch

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model")


def load_folder(folder: str | os.PathLike[str]) -> tuple[Any, Any]:
    """The sequence classifier and the tokenizer of a folder, as `save_pretrained` writes them.

    Nothing is downloaded, no Python file of the folder is run, and only weights in safetensors are read, because a
    pickle can run anything.

    Parameters
    ----------
    folder : with config.json, model.safetensors and the files of the tokenizer

    Returns
    -------
    model, in evaluation mode, and tokenizer
    """
    path = Path(folder)
    _check_folder(path)
    require_torch()
    try:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer
    except ImportError as error:
        raise ImportError(
            f"a folder of a transformer needs the package transformers ({error}): "
            "pip install 'attn-closed-form[transformers]'"
        ) from None
    options = {"local_files_only": True, "trust_remote_code": False}
    with _quiet():
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, **options)
        except Exception as error:
            raise ValueError(f"{path}: the tokenizer does not load: {_first_line(error)}") from None
        try:
            model, info = AutoModelForSequenceClassification.from_pretrained(
                path, use_safetensors=True, output_loading_info=True, **options
            )
        except Exception as error:
            raise ValueError(f"{path}: the model does not load: {_first_line(error)}") from None
    missing = sorted(info["missing_keys"])
    if missing:
        raise ValueError(
            f"{path}: expected a model with a trained classification head, but its file has no {', '.join(missing[:4])}"
        )
    return model.eval(), tokenizer


def _check_folder(path: Path) -> None:
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


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


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
