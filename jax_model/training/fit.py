"""The optimiser of this project and a bare training loop, for models that need no checkpoints.

`train.py` has its own loop (validation, averages, resumption) around the same optimiser; the transformers and the
feed-forward networks of the benchmarks train with `fit`.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import optax

# Seconds between two lines of progress.
PATIENCE = 10.0


def adamw(learning_rate: float, warmup_steps: int, steps: int, weight_decay: float = 0.0) -> Any:
    """AdamW with a linear warm-up and a cosine descent to 2 % of the rate, over `steps` steps in all."""
    warmup = min(warmup_steps, steps // 2)
    rate = optax.warmup_cosine_decay_schedule(0.0, learning_rate, warmup, steps, end_value=0.02 * learning_rate)
    # b2 below the usual 0.999: with a few thousand steps in all, the second moment must forget the start.
    return optax.adamw(rate, b2=0.99, weight_decay=weight_decay)


def fit(
    loss: Callable[..., jax.Array],
    params: Any,
    batches: Iterable[tuple[Any, ...]],
    steps: int,
    learning_rate: float = 1e-3,
    warmup_steps: int = 100,
    weight_decay: float = 0.0,
    name: str = "",
) -> Any:
    """Parameters after `steps` steps of AdamW.

    Parameters
    ----------
    loss : takes the parameters and the arrays of a batch, returns a scalar; the same function is compiled once
    params : pytree of arrays
    batches : at least `steps` tuples of arrays of constant shapes
    name : what to call the run in lines on stderr, one every ten seconds; empty for silence

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> still = ((np.float32(3.0),) for _ in range(300))
    >>> x = fit(lambda x, target: (x - target) ** 2, jnp.float32(0.0), still, steps=300, learning_rate=0.1)
    >>> bool(abs(x - 3.0) < 0.01)
    True
    """
    optimizer, step = _optimizer_and_step(loss, learning_rate, warmup_steps, steps, weight_decay)
    params = jax.tree.map(jax.numpy.array, params)  # own copies, as the step reuses their memory
    state = optimizer.init(params)
    spoken, done = time.monotonic(), 0
    for done, batch in zip(range(1, steps + 1), batches, strict=False):
        params, state, value = step(params, state, *batch)
        if name and (done == steps or time.monotonic() - spoken > PATIENCE):
            spoken = time.monotonic()
            print(f"  {name}: step {done} of {steps}, loss {float(value):.4f}", file=sys.stderr, flush=True)
    if done < steps:
        raise ValueError(f"batches: expected {steps} of them, got {done}")
    return params


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
