"""Explainable models for the faults of a corpus run; they live in a module of their own, for workers import them."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from attn_closed_form import load_demo_model


@dataclass(frozen=True)
class Killer:
    """The shipped model, but a text with this word kills the process that reads it, `times` times at most."""

    word: str
    folder: str
    times: int = 10**9

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(load_demo_model(), name)

    def read_many(self, raws):
        return [None] * len(raws)

    def read(self, raw):
        if isinstance(raw, str) and self.word in raw.split():
            killed = len(list(Path(self.folder).iterdir()))
            if killed < self.times:
                (Path(self.folder) / str(killed)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return load_demo_model().read(raw)


@dataclass(frozen=True)
class Slow(Killer):
    """The shipped model, which takes a little longer for every text."""

    seconds: float = 0.02

    def read(self, raw):
        time.sleep(self.seconds)
        return load_demo_model().read(raw)
