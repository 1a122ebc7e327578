"""The training loop: AdamW, a running average of the weights, validation, checkpoints and progress.

A run is `epochs` epochs of `steps` steps, and every batch is a function of the step. So a run is a
function of its start, its settings and its batches: the same ones give the same bits, even if the
run is interrupted and resumed. The running average of the weights (EMA) is validated and kept.

A checkpoint is the whole state of a run in one `.npz` file, which is replaced atomically. The
leaves of the state's pytree are stored in order, and the notes (the history and the settings) as
JSON. The structure comes from the run that resumes, so no pickle is needed, and a file that does
not match is an error.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from attn_closed_form._progress import rich_progress
from attn_closed_form.app.files.atomic import replacing

from .devices import on_every_device

PathLike = str | os.PathLike[str]
# b2 is below the usual 0.999, because with a few thousand steps the second moment must forget the
# start.
ADAM = optax.scale_by_adam(b2=0.99)
# Seconds without output on stderr after which a step writes a line.
SILENCE = 30.0


# Learning rate, weight decay and decay of the average, which are arguments of the compiled step.
Rates = tuple[np.float32, np.float32, np.float32]


@dataclass(frozen=True)
class Optimizer:
    """Settings of AdamW and of the average.

    learning_rate : the maximum, after a linear warm-up of `warmup_steps`; a cosine decays to 2 % of
        it
    weight_decay : decay of all arrays, or only of matrices if `decay_biases` is False
    ema : decay of the running average of the weights, which is kept; 0 keeps the last weights
    """

    learning_rate: float = 1e-3
    warmup_steps: int = 100
    weight_decay: float = 0.0
    ema: float = 0.0
    decay_biases: bool = True

    def rates(self, step: int, steps: int) -> Rates:
        """Return the rates of one of `steps` steps, counted from 0.

        >>> [round(float(Optimizer(1.0, 10).rates(i, 100)[0]), 2) for i in (0, 5, 10, 55, 100)]
        [0.0, 0.5, 1.0, 0.51, 0.02]
        """
        # A linear warmup, of at most half of the steps, ...
        warmup = min(self.warmup_steps, steps // 2)
        if step < warmup:
            share = step / warmup
        else:
            # ... then half of a cosine from 1 down to 0.02.
            angle = np.pi * (step - warmup) / (steps - warmup)
            share = 0.02 + 0.49 * (1 + np.cos(angle))
        rate = self.learning_rate * share
        # The average forgets faster at first; otherwise the random start would remain in it for
        # hundreds of steps.
        ema = min(self.ema, (1 + step) / (10 + step))
        return np.float32(rate), np.float32(self.weight_decay), np.float32(ema)


class TrainingState(NamedTuple):
    """Everything that a step changes, and therefore everything in a checkpoint."""

    params: Any
    moments: Any
    average: Any
    best: Any
    step: Any
    loss_sum: Any

    @classmethod
    def start(cls, params: Any) -> TrainingState:
        """Return the state before the first step."""
        return cls(
            params,
            ADAM.init(params),
            params,
            params,
            np.zeros((), np.int32),
            np.zeros((), np.float32),
        )


class Fit(NamedTuple):
    """The weights that are kept, one record per epoch, the record of the epoch that is kept, and
    the time spent.
    """

    params: Any
    history: list[dict[str, Any]]
    best: dict[str, Any]
    seconds: float
    processor_seconds: float


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
def take_step(
    loss: Callable[..., jax.Array],
    decay_biases: bool,
    state: TrainingState,
    rates: Rates,
    *batch: Any,
) -> TrainingState:
    """Take one step of AdamW on a batch. The input state is consumed."""
    value, slope = jax.value_and_grad(loss)(state.params, *batch)
    direction, moments = ADAM.update(slope, state.moments)
    # Rates are arguments, since constants of a compiled step would be compiled anew for every step.
    learning_rate, weight_decay, ema = rates

    def moved(old: jax.Array, step: jax.Array) -> jax.Array:
        if decay_biases or old.ndim > 1:
            decay = weight_decay * old
        else:
            decay = 0.0
        return old - learning_rate * (step + decay)

    def averaged(old: jax.Array, new: jax.Array) -> jax.Array:
        return ema * old + (1 - ema) * new

    params = jax.tree.map(moved, state.params, direction)
    average = jax.tree.map(averaged, state.average, params)
    loss_sum = state.loss_sum + value.astype(state.loss_sum.dtype)
    return TrainingState(params, moments, average, state.best, state.step + 1, loss_sum)


_copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))


def fit(
    loss: Callable[..., jax.Array],
    params: Any,
    batches: Callable[[int], tuple[Any, ...]],
    steps: int,
    optimizer: Optimizer,
    *,
    epochs: int = 1,
    validate: Callable[[Any], dict[str, float]] | None = None,
    patience: int | None = None,
    mesh: Mesh | None = None,
    checkpoint: PathLike | None = None,
    every: int | None = None,
    resume: bool = True,
    about: Mapping[str, Any] | None = None,
    progress: TrainingProgress | None = None,
) -> Fit:
    """Train a model, and return the weights that are kept.

    Parameters
    ----------
    loss : takes the parameters and the arrays of a batch and returns a scalar; compiled once per
        function
    params : pytree of arrays
    batches : the arrays of a step, which is counted from 0 over all epochs
    steps : number of steps per epoch
    validate : takes the average and returns entries of the epoch's record, including
        "validation_loss"; the epoch with the smallest one is kept. None keeps the last epoch.
    patience : stop after this many epochs in a row without a smaller validation loss
    mesh : devices that hold the state; `batches` places its arrays on them
    checkpoint : file of the state, written after every epoch and every `every` steps
    resume : whether to resume from an existing checkpoint, which is otherwise an error
    about : JSON data that a checkpoint must match

    >>> target = np.float32(3.0)
    >>> found = fit(
    ...     lambda x, y: (x - y) ** 2, np.float32(0.0), lambda step: (target,), 300, Optimizer(0.1)
    ... )
    >>> bool(abs(found.params - target) < 0.01)
    True
    """
    state = TrainingState.start(params)
    all_steps = epochs * steps
    settings = {**(about or {}), "steps": steps, "all_steps": all_steps, **vars(optimizer)}
    # As JSON writes them, so that they can be compared with those of a checkpoint.
    settings = json.loads(json.dumps(settings))
    notes: dict[str, Any] = {
        "about": settings,
        "history": [],
        "best": None,
        "seconds": 0.0,
        "processor_seconds": 0.0,
    }
    check_leftover(checkpoint, resume)
    if checkpoint is not None and Path(checkpoint).exists():
        state, saved = load_checkpoint(checkpoint, state)
        _check_same_run(checkpoint, saved.get("about", {}), settings)
        notes = saved
    # Copies, because a step reuses the memory of the state that it is given.
    state = on_every_device(mesh, state)
    history = notes["history"]
    # The time of an interrupted run counts.
    began = time.perf_counter() - notes["seconds"]
    processor_began = time.process_time() - notes["processor_seconds"]

    def save() -> None:
        notes["seconds"] = time.perf_counter() - began
        notes["processor_seconds"] = time.process_time() - processor_began
        # One host of a cluster writes.
        if checkpoint is not None and jax.process_index() == 0:
            save_checkpoint(checkpoint, state, notes)

    with progress or contextlib.nullcontext():
        for epoch in range(int(state.step) // steps, epochs):
            if patience is not None and history:
                since_best = history[-1]["epoch"] - notes["best"]["epoch"]
                if since_best >= patience:
                    break
            # A resumed run starts within an epoch.
            for i in range(int(state.step) % steps, steps):
                step = epoch * steps + i
                rates = optimizer.rates(step, all_steps)
                state = take_step(loss, optimizer.decay_biases, state, rates, *batches(step))
                if progress is not None:
                    progress.step(epoch, i + 1)
                if every and (i + 1) % every == 0 and i + 1 < steps:
                    save()
            record: dict[str, Any] = {
                "epoch": epoch + 1,
                "training_loss": float(state.loss_sum) / steps,
            }
            if validate is not None:
                record |= validate(state.average)
            before = sum(earlier["seconds"] for earlier in history)
            record["seconds"] = round(time.perf_counter() - began - before, 3)
            history.append(record)
            best = notes["best"]
            # Without validation, the last epoch is the best one.
            if validate is None or not best or record["validation_loss"] < best["validation_loss"]:
                notes["best"] = record
                # A copy, because the next step reuses the memory of the state.
                state = state._replace(best=_copy(state.average))
            no_loss = on_every_device(mesh, np.zeros((), np.float32))
            state = state._replace(loss_sum=no_loss)
            if progress is not None:
                progress.epoch(record)
            save()
    return Fit(state.best, history, notes["best"], notes["seconds"], notes["processor_seconds"])


def check_leftover(checkpoint: PathLike | None, resume: bool) -> None:
    """Raise if there is a checkpoint of an unfinished run that shall not be resumed."""
    if checkpoint is not None and Path(checkpoint).exists() and not resume:
        raise ValueError(
            f"{checkpoint}: a checkpoint of an unfinished run; resume it (--resume), or delete "
            "it to start again"
        )


def _check_same_run(path: PathLike, saved: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    for name, value in current.items():
        if saved.get(name) == value:
            continue
        kind = f"with {name}={saved.get(name)}, got {value}"
        if name == "data":  # checksums, which tell a user nothing
            kind = "on other data"
        raise ValueError(f"{path}: a checkpoint of a run {kind}")


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the (B,) cross-entropy of logits (B, C) and class numbers, or of log-odds (B,), (B, 1)
    and labels 0..1.

    >>> [round(float(x), 4) for x in cross_entropy(jnp.array([[0.0], [2.0]]), jnp.array([0, 1]))]
    [0.6931, 0.1269]
    """
    # Two classes share one logit, the log-odds of the second one.
    if logits.ndim == 1 or logits.shape[1] == 1:
        odds = logits.reshape(-1)
        return optax.sigmoid_binary_cross_entropy(odds, labels.astype(odds.dtype))
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def save_checkpoint(path: PathLike, state: Any, notes: dict[str, Any]) -> None:
    """Write a pytree of arrays and JSON-able notes; an interrupted write leaves the previous file
    intact.
    """
    leaves: dict[str, Any] = {}
    for i, leaf in enumerate(jax.tree.leaves(state)):
        leaves[f"leaf_{i}"] = np.asarray(leaf)
    # Text as an array of bytes: an array of strings could need pickle.
    encoded = np.frombuffer(json.dumps(notes).encode("utf-8"), dtype=np.uint8)
    with replacing(path) as partial, partial.open("wb") as stream:
        np.savez(stream, notes=encoded, **leaves)


def load_checkpoint(path: PathLike, like: Any) -> tuple[Any, dict[str, Any]]:
    """Load the state and the notes of a checkpoint; `like` is a state of the same structure.

    A file that is damaged or has the state of another model raises a ValueError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(f"{folder}/run.npz", {"a": np.ones(2)}, {"epoch": 3})
    ...     load_checkpoint(f"{folder}/run.npz", {"a": np.zeros(2)})
    ({'a': array([1., 1.])}, {'epoch': 3})
    """
    expected, structure = jax.tree.flatten(like)
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            notes = json.loads(archive["notes"].tobytes().decode("utf-8"))
            leaves = [archive[f"leaf_{i}"] for i in range(len(archive.files) - 1)]
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a readable checkpoint ({error})") from None
    # Leaves have no names, so a model with other shapes or types is recognized by them.
    shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in expected]
    saved = [(leaf.shape, leaf.dtype) for leaf in leaves]
    if shapes != saved:
        raise ValueError(
            f"{path}: a checkpoint of another model; expected arrays {shapes}, got {saved}"
        )
    return jax.tree.unflatten(structure, leaves), notes


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class TrainingProgress:
    """Progress of a run on stderr: a bar on a terminal if rich is installed, otherwise one line per
    epoch.

    `log` is called with one line per epoch; None means stderr, where steps also write a line after
    a long silence. `name` is the word for an epoch.

    >>> with TrainingProgress(epochs=1, steps=2, log=print) as progress:
    ...     progress.step(0, 1)
    ...     progress.epoch(
    ...         {
    ...             "epoch": 1,
    ...             "training_loss": 0.5,
    ...             "validation_loss": 0.25,
    ...             "validation_accuracy": 0.9,
    ...             "seconds": 2.0,
    ...         }
    ...     )
    epoch 1 of 1: training loss 0.5000, validation loss 0.2500, accuracy 90.00%, 2.0 s
    """

    def __init__(
        self, epochs: int, steps: int, log: Callable[[str], None] | None = None, name: str = "epoch"
    ) -> None:
        self.epochs = epochs
        self.steps = steps
        self.name = name
        self._log: Callable[[str], None] = _print_to_stderr
        if log is None:
            self._spoken = time.monotonic()
            self._bar = rich_progress()
        else:
            # A caller who reads the lines gets no bar, and none about a long silence.
            self._log = log
            self._spoken = np.inf
            self._bar = None
        if self._bar is not None:
            self._task = self._bar.add_task("training", total=epochs * steps)
            self._log = self._bar.console.print

    def step(self, epoch: int, step: int) -> None:
        """Report that `step` steps of `epoch` (from 0) are done."""
        name = f"{self.name} {epoch + 1} of {self.epochs}"
        if self._bar is not None:
            done = epoch * self.steps + step
            self._bar.update(self._task, completed=done, description=name)
        # A log file without a sign of life looks like a run that hangs.
        elif time.monotonic() - self._spoken > SILENCE:
            self._say(f"{name}: step {step} of {self.steps}")

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Report that an epoch is done."""
        line = f"{self.name} {record['epoch']} of {self.epochs}: "
        line += f"training loss {record['training_loss']:.4f}, "
        if "validation_loss" in record:
            line += f"validation loss {record['validation_loss']:.4f}, "
            line += f"accuracy {record['validation_accuracy']:.2%}, "
        self._say(f"{line}{record['seconds']:.1f} s")

    def _say(self, line: str) -> None:
        self._log(line)
        self._spoken = max(self._spoken, time.monotonic())

    def __enter__(self) -> TrainingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
