"""P1's classifier of one layer, six heads and positions: several seeds, and the d_e = 80 of P1's
Fig. 5.

What P1 shows of one model may be an accident of its training. The claims that depend on a model are
therefore counted over the first of these and the others, which differ from it in their seed alone,
or in the size of the embeddings too.

    python -m benchmarks.papers.retrained --data PATH     # the reproductions train them where they need to
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import load_model
from attn_closed_form.app.models.text_classifier import TextClassifier
from jax_model.training.config import P1, Config
from jax_model.training.imdb import load_imdb, split_by_film
from jax_model.training.train import train

from .reproduction import Run

FIRST = "seed 0"
# Name of a training, and what differs from the settings `P1`.
TRAININGS: dict[str, dict[str, Any]] = {
    FIRST: {},
    "seed 1": {"seed": 1},
    "seed 2": {"seed": 2},
    "seed 3": {"seed": 3},
    "d_e = 80, seed 1": {"d_e": 80, "seed": 1},
}


def trainings(run: Run) -> dict[str, TextClassifier]:
    """The models by name; what is trained once is kept in the work folder.

    A quick run has the first one and one of d_e = 80, and they have seen each review twice.
    """
    return {
        name: _model(run, name)
        for name in ((FIRST, "d_e = 80, seed 1") if run.quick else TRAININGS)
    }


def first_model(run: Run) -> TextClassifier:
    """P1's model: the first of the trainings."""
    return _model(run, FIRST)


def _model(run: Run, name: str) -> TextClassifier:
    file = run.work / "retrained" / f"{name.replace(' ', '').replace(',', '-')}.npz"
    if run.quick:
        return _train(run, name, {**TRAININGS[name], "epochs": 2}, None)
    if not file.exists():
        return _train(run, name, TRAININGS[name], file)
    model = load_model(file)
    for key in run.earlier:
        run.earlier[key] += float((model.card or {}).get(key, 0.0))
    return model


def _train(run: Run, name: str, changes: dict[str, Any], file: Path | None) -> TextClassifier:
    run.say(f"training: {name}")
    began = time.perf_counter()
    spent = time.process_time()
    config = Config(**P1, **changes)
    split = split_by_film(load_imdb(run.imdb, "train"), config.validation)
    if file is None:
        return train(config, split, log=run.say).model
    file.parent.mkdir(parents=True, exist_ok=True)
    checkpoint = file.with_suffix(".checkpoint")
    model = train(
        config, split, checkpoint=checkpoint, checkpoint_steps=100, resume=True, log=run.say
    ).model
    seconds = {
        "seconds": time.perf_counter() - began,
        "processor seconds": time.process_time() - spent,
    }
    replace(model, card={**(model.card or {}), **seconds}).save(file, dtype=np.float32)
    checkpoint.unlink(missing_ok=True)
    return load_model(file)


def main(argv: list[str] | None = None) -> int:
    trainings(Run("retrained", __doc__ or "", argv, data=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
