"""The models that a server explains with: one, or all of a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..files.open_model import open_model
from ..models.protocol import Model
from ..show.sanitize import elide, visible
from .answers import model_answer
from .fields import Refusal

SHIPPED = "the shipped sentiment model"
SUFFIXES = (".npz", ".safetensors", ".pt", ".pth", ".ckpt")

Source = str | os.PathLike[str] | Model | None


class Models(dict[str, Model]):
    """Models by the names that the page calls them by; the first is the one that is asked if none is named.

    >>> from attn_closed_form import load_demo_model
    >>> Models({"demo": load_demo_model()}).pick(None).outputs
    ('negative', 'positive')
    """

    def pick(self, name: Any) -> Model:
        """The model of a name, or the first."""
        if name is None:
            return next(iter(self.values()))
        if not isinstance(name, str) or name not in self:
            raise Refusal(422, f"model: expected one of {', '.join(self)}, got {elide(str(name), 60)!r}", "model")
        return self[name]

    def about(self) -> dict[str, Any]:
        """What the page must know: the first model, and all of them by name."""
        each = [model_answer(model, name) for name, model in self.items()]
        return {**each[0], "models": each}


def open_models(source: Source, name: str | None = None) -> Models:
    """The models of a source: a model, a file, a folder of files, or None for the shipped one.

    A file of a folder that holds no model is left out, with a line on standard error that says why.
    """
    if source is None or not isinstance(source, str | os.PathLike):
        return Models({name or SHIPPED: open_model() if source is None else source})
    path = Path(source)
    if not path.is_dir():
        return Models({name or elide(visible(path.name), 60): open_model(path)})
    found: Mapping[str, Model] = {}
    for file in sorted(path.iterdir()):
        if file.suffix.lower() in SUFFIXES:
            try:
                found = {**found, elide(visible(file.name), 60): open_model(file)}
            except (OSError, ValueError, TypeError, ImportError) as error:
                print(f"left out: {visible(str(error))}", file=sys.stderr)
    if not found:
        raise ValueError(f"{path}: expected a folder with model files ({', '.join(SUFFIXES)}), found none that opens")
    return Models(found)
