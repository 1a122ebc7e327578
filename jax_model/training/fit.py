"""The optimiser of this project and a bare training loop, with a checkpoint where a run is long.

`train.py` has its own loop (validation, averages, resumption) around the same optimiser; the transformers and the
feed-forward networks of the benchmarks train with `fit`.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import optax

from .checkpoint import load_checkpoint, save_checkpoint

# Seconds between two lines of progress.
PATIENCE = 10.0

Batch = tuple[Any, ...]


def adamw(learning_rate: float, warmup_steps: int, steps: int, weight_decay: float = 0.0) -> Any:
    """AdamW with a linear warm-up and a cosine descent to 2 % of the rate, over `steps` steps in all."""
    warmup = min(warmup_steps, steps // 2)
    rate = optax.warmup_cosine_decay_schedule(0.0, learning_rate, warmup, steps, end_value=0.02 * learning_rate)
    # b2 below the usual 0.999: with a few thousand steps in all, the second moment must forget the start.
    return optax.adamw(rate, b2=0.99, weight_decay=weight_decay)


def fit(
    loss: Callable[..., jax.Array],
    params: Any,
    batches: Iterable[Batch] | Callable[[int], Batch],
    steps: int,
    learning_rate: float = 1e-3,
    warmup_steps: int = 100,
    weight_decay: float = 0.0,
    name: str = "",
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 50,
) -> Any:
    """Parameters after `steps` steps of AdamW.

    Parameters
    ----------
    loss : takes the parameters and the arrays of a batch, returns a scalar; the same function is compiled once
    params : pytree of arrays
    batches : at least `steps` tuples of arrays, or a function of the step (from 0) that makes one
    name : what to call the run in lines on stderr, one every ten seconds; empty for silence
    checkpoint : a file that keeps the state, written every `every` steps and at the end; a run that finds it goes on
        from there to the same parameters, so `batches` must be a function. Its notes hold the seconds that were spent

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> still = ((np.float32(3.0),) for _ in range(300))
    >>> x = fit(lambda x, target: (x - target) ** 2, jnp.float32(0.0), still, steps=300, learning_rate=0.1)
    >>> bool(abs(x - 3.0) < 0.01)
    True
    """
    settings = (learning_rate, warmup_steps, steps, weight_decay)
    optimizer, step = _optimizer_and_step(loss, *settings)
    params = jax.tree.map(jax.numpy.array, params)  # own copies, as the step reuses their memory
    notes: dict[str, Any] = {"settings": list(settings), "step": 0, "seconds": 0.0, "processor_seconds": 0.0}
    state = params, optimizer.init(params)
    if checkpoint is not None and Path(checkpoint).exists():
        state, saved = load_checkpoint(checkpoint, state)
        if saved["settings"] != notes["settings"]:
            raise ValueError(
                f"{checkpoint}: a checkpoint of a run with settings {saved['settings']}, got {notes['settings']}"
            )
        state, notes = jax.tree.map(jax.numpy.array, state), saved
    first = int(notes["step"])
    spoken, began, spent = time.monotonic(), time.monotonic(), time.process_time()
    before, done = dict(notes), first
    for done, batch in zip(range(first + 1, steps + 1), _from(batches, first, checkpoint), strict=False):
        *state, value = step(*state, *batch)
        if checkpoint is not None and (done % every == 0 or done == steps):
            value.block_until_ready()
            notes["step"] = done
            notes["seconds"] = before["seconds"] + time.monotonic() - began
            notes["processor_seconds"] = before["processor_seconds"] + time.process_time() - spent
            save_checkpoint(checkpoint, tuple(state), notes)
        if name and (done == steps or time.monotonic() - spoken > PATIENCE):
            spoken = time.monotonic()
            print(f"  {name}: step {done} of {steps}, loss {float(value):.4f}", file=sys.stderr, flush=True)
    if done < steps:
        raise ValueError(f"batches: expected {steps} of them, got {done}")
    return state[0]


def _from(batches: Iterable[Batch] | Callable[[int], Batch], first: int, checkpoint: Any) -> Iterator[Batch]:
    """The batches from step `first` on."""
    if callable(batches):
        return map(batches, itertools.count(first))
    if checkpoint is not None:
        raise ValueError("batches: expected a function of the step, as there is a checkpoint, got an iterable")
    return iter(batches)


@functools.lru_cache(maxsize=8)
def _optimizer_and_step(loss: Callable[..., jax.Array], *settings: Any) -> tuple[Any, Callable[..., Any]]:
    """One compilation for all runs that differ in start and data alone, such as seeds."""
    optimizer = adamw(*settings)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, state: Any, *batch: Any) -> tuple[Any, Any, jax.Array]:
        value, slope = jax.value_and_grad(loss)(params, *batch)
        updates, state = optimizer.update(slope, state, params)
        return optax.apply_updates(params, updates), state, value

    return optimizer, step


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean binary cross-entropy of log-odds."""
    return optax.sigmoid_binary_cross_entropy(logits, labels).mean()
