"""Train the attention classifier on texts with classes: split, vocabulary, steps, the best weights, a temperature.

P1, appendix F: 20,000 reviews to train on, 5,000 to validate with, AdamW, cross-entropy; T_max = 256, d_e = 128,
d_att = d_out = 64 and K = 6 heads are the paper's. Ours: any number of classes (two are one logit, as in the paper; C
are C outputs under a softmax), the collapsed forward pass (`collapsed.py`), random windows and random [UNK]s
(`batches.py`), a cosine schedule, an average of the weights along the way (EMA), which is what is validated and kept,
a stop when the validation loss no longer falls, and a temperature fitted on the held-out texts (`scores.py`). As in
the paper, the inner biases stay zero and the positions stay those of Eq. 3, here times `scale`, to be of the
embeddings' size.

With `refit` "all", a second model is trained on all texts, for as many epochs as were best. It is the one that is kept,
with the temperature of the first; the scores on the held-out texts are those of the first.

A run is a function of its settings, its data and the number of devices: the same ones give the same bits, with or
without a kill and a resumption in between. `command.py` is its command line, `estimator.py` its scikit-learn face.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from numpy.typing import NDArray

from attn_closed_form import __version__
from attn_closed_form.files.labelled import Labelled
from attn_closed_form.models.text import Vocabulary
from attn_closed_form.models.text_classifier import TextClassifier

from ..witness.params import Params, weights_from_params
from .batches import Batches, Documents, encode_documents
from .checkpoint import load_checkpoint, save_checkpoint
from .config import Config
from .devices import cut_by_document, device_mesh, on_every_device
from .fit import adamw
from .progress import Progress
from .scores import fit_temperature, report, validation_scores
from .split import Split, together
from .steps import State, Trained, all_logits, predict_function, start_arrays, step_function

_PathLike = str | os.PathLike[str]


class Result(NamedTuple):
    """A trained model, with its card, and how it came about, epoch by epoch."""

    model: TextClassifier
    metrics: dict[str, Any]


class Run(NamedTuple):
    """What stays the same during a run."""

    config: Config
    mesh: Mesh
    vocabulary: Vocabulary
    held_out: Documents
    batches: Batches
    classes: tuple[str, ...]
    fixed: dict[str, NDArray[Any]]
    take_step: Callable[..., State]
    predict: Callable[..., jax.Array]

    def logits(self, trained: Trained, documents: Documents) -> NDArray[np.float32]:
        """Outputs (n, C) of documents."""
        cls, unk = self.vocabulary.cls_id, self.vocabulary.unk_id
        return all_logits(self.mesh, self.predict, trained, documents, self.config.T_max, cls, unk)


def train(
    config: Config,
    split: Split,
    device: str = "auto",
    checkpoint: _PathLike | None = None,
    checkpoint_steps: int | None = None,
    resume: bool = False,
    log: Callable[[str], None] | None = None,
    test: Labelled | None = None,
) -> Result:
    """Train on texts with classes.

    Parameters
    ----------
    config : Config
    split : the texts to train on and those held out (`split.py`)
    device : "auto", "cpu" or "gpu"; all devices of the kind share the work
    checkpoint : a file to write the state to after every epoch (and every `checkpoint_steps` steps); None writes none
    checkpoint_steps : steps between checkpoints within an epoch
    resume : go on from `checkpoint` if it is there
    log : called with one line per epoch; None draws a progress bar on a terminal and prints lines otherwise
    test : texts that are scored once, with the final model; nothing depends on them

    Returns
    -------
    Result, with the averaged weights of the epoch of the smallest validation loss, or trained once more on all texts
    """
    mesh = device_mesh(device)
    options = (checkpoint_steps, resume, log)
    run, state, notes = _fit(config, split, mesh, checkpoint, *options)
    temperature, card = _scored(run, state)
    metrics: dict[str, Any] = {"history": notes["history"], "best": notes["best"]}
    if config.refit == "all":
        again = None if checkpoint is None else refit_checkpoint(checkpoint)
        run, state, second = _fit(config, together(split), mesh, again, *options, epochs=notes["best"]["epoch"])
        card["refit"] = {"texts": run.batches.documents.size, "epochs": notes["best"]["epoch"]}
        metrics["refit_history"] = second["history"]
    return _result(run, state, temperature, card, metrics, test)


def refit_checkpoint(checkpoint: _PathLike) -> Path:
    """Where the state of the training on all texts goes, beside that of the first."""
    return Path(f"{checkpoint}.all")


def _fit(
    config: Config,
    split: Split,
    mesh: Mesh,
    checkpoint: _PathLike | None,
    checkpoint_steps: int | None,
    resume: bool,
    log: Callable[[str], None] | None,
    epochs: int | None = None,
) -> tuple[Run, State, dict[str, Any]]:
    """The run, its last state with the best weights, and its notes; with `epochs` so many, and the last weights."""
    run, state, notes = _prepare(config, split, mesh)
    if checkpoint is not None and Path(checkpoint).exists():
        if not resume:
            raise ValueError(
                f"{checkpoint}: a checkpoint of an unfinished run; resume it (--resume), or delete it to start anew"
            )
        state, saved = load_checkpoint(checkpoint, state)
        _check_same_run(checkpoint, saved, notes)
        notes = saved
    state = on_every_device(run.mesh, state)

    def save(now: State) -> None:
        if checkpoint is not None and jax.process_index() == 0:
            save_checkpoint(checkpoint, now, notes)

    steps = run.batches.steps
    name = "epoch" if epochs is None else "on all texts: epoch"
    with Progress(epochs or config.epochs, steps, log, name) as progress:
        for epoch in range(int(state.step) // steps, epochs or config.epochs):
            if epochs is None and _stop(config, notes):
                break
            began, first = time.perf_counter(), int(state.step) % steps
            state = _epoch(run, state, epoch, progress, save, checkpoint_steps)
            seconds = time.perf_counter() - began
            state, record = _validate(run, state, notes, epoch, seconds, steps - first, epochs is None)
            progress.epoch(record)
            save(state)
    return run, state, notes


def _prepare(config: Config, split: Split, mesh: Mesh) -> tuple[Run, State, dict[str, Any]]:
    """The run, its state before the first step, and the notes that go into a checkpoint."""
    if config.batch_size % mesh.size:
        raise ValueError(f"batch_size: expected a multiple of the {mesh.size} devices, got {config.batch_size}")
    training, classes = split.training, split.training.classes
    vocabulary = Vocabulary.build(training.texts, size=config.D, groups=split.groups)
    cls, unk = vocabulary.cls_id, vocabulary.unk_id
    documents = encode_documents(vocabulary, training.texts, training.labels)
    held_out = encode_documents(vocabulary, split.held_out.texts, split.held_out.labels)
    if documents.size < config.batch_size:
        raise ValueError(f"batch_size: expected at most the {documents.size} training texts, got {config.batch_size}")
    c = config
    batches = Batches(documents, c.T_max, c.batch_size, c.max_unk, c.crop, c.seed, cls, unk, c.unk_by)
    outputs = 1 if len(classes) == 2 else len(classes)
    fixed, trained = start_arrays(config, len(vocabulary), outputs, cls, unk)
    optimizer = adamw(config.learning_rate, config.warmup_steps, config.epochs * batches.steps, config.weight_decay)
    weights = _class_weights(config, documents.labels, len(classes))
    take_step = step_function(optimizer, fixed, cls, config.ema, weights)
    predict = predict_function(mesh, fixed, cls)
    zero = np.zeros((), np.float32)
    state = State(trained, jax.jit(optimizer.init)(trained), trained, trained, np.zeros((), np.int32), zero)
    notes: dict[str, Any] = {
        "config": asdict(config),
        "classes": list(classes),
        "data": [documents.checksum(), held_out.checksum()],
        "devices": mesh.size,
        "history": [],
        "best": None,
    }
    return Run(config, mesh, vocabulary, held_out, batches, classes, fixed, take_step, predict), state, notes


def _class_weights(config: Config, labels: NDArray[Any], classes: int) -> NDArray[np.float32]:
    """(C,) 1 each, or inversely proportional to a class's number of texts with mean 1 over the texts."""
    if config.class_weight == "none":
        return np.ones(classes, np.float32)
    counts = np.bincount(labels, minlength=classes)
    weights: NDArray[np.float32] = (len(labels) / ((counts > 0).sum() * np.maximum(counts, 1))).astype(np.float32)
    return weights


def _epoch(
    run: Run, state: State, epoch: int, progress: Progress, save: Callable[[State], None], every: int | None
) -> State:
    """The steps of an epoch, from where the state stands; `save` is called after every `every` of them."""
    batches = run.batches
    order = batches.order(epoch)
    for i in range(int(state.step) % batches.steps, batches.steps):
        ids, labels = batches.step_batch(epoch, i, order)
        state = run.take_step(state, cut_by_document(run.mesh, ids), cut_by_document(run.mesh, labels))
        progress.step(epoch, i + 1)
        if every and (i + 1) % every == 0 and i + 1 < batches.steps:
            save(state)
    state.loss_sum.block_until_ready()
    return state


_copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))


def _validate(
    run: Run, state: State, notes: dict[str, Any], epoch: int, seconds: float, covered: int, held_out: bool
) -> tuple[State, dict[str, Any]]:
    """The record of an epoch, also noted, and the state with the best weights so far; the last if none are held out."""
    record = {"epoch": epoch + 1, "training_loss": float(state.loss_sum) / run.batches.steps}
    if held_out:
        labels = run.held_out.labels
        weights = _class_weights(run.config, labels, len(run.classes))[labels]
        record |= validation_scores(run.logits(state.average, run.held_out), labels, weights)
    record |= {"seconds": round(seconds, 3), "seconds_cover_steps": covered}
    notes["history"].append(record)
    best = notes["best"]
    if not held_out or best is None or record["validation_loss"] < best["validation_loss"]:
        notes["best"] = record
        state = state._replace(best=_copy(state.average))
    return state._replace(loss_sum=on_every_device(run.mesh, np.zeros((), np.float32))), record


def _stop(config: Config, notes: dict[str, Any]) -> bool:
    history = notes["history"]
    return bool(history) and history[-1]["epoch"] - notes["best"]["epoch"] > config.patience


def _check_same_run(path: _PathLike, saved: dict[str, Any], current: dict[str, Any]) -> None:
    for name, value in current["config"].items():
        if saved["config"].get(name) != value:
            raise ValueError(f"{path}: a checkpoint of a run with {name}={saved['config'].get(name)}, got {value}")
    if saved["data"] != current["data"] or saved["classes"] != current["classes"]:
        raise ValueError(f"{path}: a checkpoint of a run on other data")


def _scored(run: Run, state: State) -> tuple[float, dict[str, Any]]:
    """The temperature, and the card with the scores on the held-out texts."""
    logits = run.logits(state.best, run.held_out)
    temperature = fit_temperature(logits, run.held_out.labels)
    scores = report(logits, run.held_out.labels, run.classes, temperature)
    return temperature, {"training_texts": run.batches.documents.size, "held_out": scores}


def _result(
    run: Run,
    state: State,
    temperature: float,
    card: dict[str, Any],
    metrics: dict[str, Any],
    test: Labelled | None,
) -> Result:
    """The model of the best epoch, scored on a test part; its card holds nothing that differs between runs."""
    cls, unk = run.vocabulary.cls_id, run.vocabulary.unk_id
    if test is not None:
        documents = encode_documents(run.vocabulary, test.texts, test.labels)
        card["test"] = report(run.logits(state.best, documents), documents.labels, run.classes, temperature)
    card["settings"] = asdict(run.config)
    card["versions"] = {
        "attn_closed_form": __version__,
        "jax": jax.__version__,
        "optax": optax.__version__,
        "numpy": np.__version__,
    }
    params = Params(**run.fixed, **jax.tree.map(np.asarray, state.best))
    weights = weights_from_params(params, cls, unk)
    model = TextClassifier(weights, run.vocabulary, run.classes, temperature, card=card)
    about = {
        **card,
        "classes": list(run.classes),
        "temperature": temperature,
        "vocabulary_size": len(run.vocabulary),
        "devices": [str(device) for device in run.mesh.devices.flat],
        "processes": jax.process_count(),
    }
    return Result(model, about | metrics)
