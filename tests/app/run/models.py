"""Explainable models for the faults of a corpus run; they live in a module of their own, for
workers import them.
"""

import os
import signal
from dataclasses import fields
from pathlib import Path

from attn_closed_form import TextClassifier, load_demo_model


def as_shipped():
    """The fields of the shipped model."""
    model = load_demo_model()
    return {
        field.name: getattr(model, field.name) for field in fields(TextClassifier) if field.init
    }


class Killer(TextClassifier):
    """The shipped model, but a text with this word kills the process that reads it, `times` times
    at most.
    """

    def __init__(self, word, folder, times=10**9):
        super().__init__(**as_shipped())
        vars(self).update(word=word, folder=folder, times=times)

    def __reduce__(self):  # workers get the arguments instead of the weights
        return type(self), (self.word, self.folder, self.times)

    def read_many(self, raws):
        return [None] * len(raws)

    def read(self, raw):
        if self.word in raw.split():
            killed = len(list(Path(self.folder).iterdir()))
            if killed < self.times:
                (Path(self.folder) / str(killed)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return load_demo_model().read(raw)
