"""Is the closed-form gradient (P1 Theorem 4.1, with the [CLS] term) faster than autodiff, and equal
to it?

Opponents, jitted, float64, warmed up: the twin as the paper writes it, with full T_max x T_max
attention; and a leaner model that computes the [CLS] row alone, which is the best that autodiff
gets without knowing the collapse. The closed form starts from the token ids and pays for checking
and padding them; the opponents get padded ids.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import AttentionWeights, gradient, predict
from attn_closed_form.attention import random_weights
from jax_model import Params, embed, params_from_weights
from jax_model.witness import oracle

from .harness import Bar, best_of, relative_error, report

SEED = 0
SIZES = {"D": 20_000, "K": 6, "T_max": 256, "d_e": 128, "d_att": 64, "d_out": 64}
DOCUMENTS = 1000
# Documents per call of the batched autodiff, which returns every gradient of the batch: keeps it
# near 10 MB.
BATCH = 40


def lean_output(params: Params, e: jax.Array) -> jax.Array:
    """f[0] from embedded tokens, with the attention of the [CLS] query alone."""
    p = params
    q = p.W_q @ e[0] + p.b_q
    k = jnp.einsum("te,kae->kta", e, p.W_k) + p.b_k[:, None]
    v = jnp.einsum("te,koe->kto", e, p.W_v) + p.b_v[:, None]
    alpha = jax.nn.softmax(jnp.einsum("ka,kta->kt", q, k) / p.W_k.shape[1] ** 0.5, axis=-1)
    heads = jnp.einsum("kco,kt,kto->kc", p.W_l, alpha, v)
    return (heads.mean(axis=0) + p.b_l)[0]


@jax.jit
def lean_gradient(params: Params, ids: jax.Array) -> jax.Array:
    """Autodiff of `lean_output`: (T_max,) padded ids -> (T_max, d_e)."""
    return jax.grad(lean_output, argnums=1)(params, embed(params, ids))


@jax.jit
def lean_gradient_batch(params: Params, ids: jax.Array) -> jax.Array:
    """The same for (B, T_max) padded ids."""
    return jax.lax.map(lambda row: lean_gradient(params, row), ids, batch_size=oracle.AT_ONCE)


def main() -> int:
    jax.config.update("jax_enable_x64", True)
    weights = random_weights(SEED, **SIZES)  # type: ignore[arg-type]
    params = params_from_weights(weights)
    rng = np.random.default_rng(SEED)
    room = int(weights.room)
    documents = [
        rng.integers(2, weights.D, size=n)
        for n in [room, *rng.integers(20, room + 1, DOCUMENTS - 1)]
    ]
    ids = jnp.stack([oracle.pad_ids(document, weights.T_max) for document in documents])
    batches = [ids[i : i + BATCH] for i in range(0, DOCUMENTS, BATCH)]
    weights.collapse  # noqa: B018  # tables are built once per model, before any clock starts

    def run_all(batched: Callable[[Params, jax.Array], jax.Array]) -> None:
        for batch in batches:
            jax.block_until_ready(batched(params, batch))

    one = documents[0]
    one_ids = ids[0]
    error, lean_error = largest_errors(weights, params, documents, batches)
    rows: list[dict[str, Any]] = [
        row("one, 255 tokens", "closed form", error[0], lambda: gradient(weights, one)),
        row("one, 255 tokens", "autodiff", None, lambda: oracle.gradient(params, one_ids)),
        row(
            "one, 255 tokens",
            "autodiff, [CLS] row",
            lean_error[0],
            lambda: lean_gradient(params, one_ids),
        ),
        row(
            "1,000",
            "closed form",
            max(error),
            lambda: [gradient(weights, d)[0, 0] for d in documents],
            3,
        ),
        row("1,000", "autodiff", None, lambda: run_all(oracle.gradient_batch), 1),
        row(
            "1,000", "autodiff, [CLS] row", max(lean_error), lambda: run_all(lean_gradient_batch), 1
        ),
    ]
    for case in (rows[:3], rows[3:]):
        for r in case:
            r["times closed form"] = r["seconds"] / case[0]["seconds"]
    value_error = relative_error(predict(weights, one), oracle.predict(params, one_ids))
    rows.append(row("one, 255 tokens", "predict", value_error, lambda: predict(weights, one)))

    bars = [
        Bar(
            "one document, autodiff time / closed form time",
            rows[1]["seconds"] / rows[0]["seconds"],
            ">=",
            10.0,
        ),
        Bar("largest relative difference of a document", max(error), "<=", 1e-10),
        Bar("predict, seconds", rows[-1]["seconds"], "<=", 1e-3),
    ]
    if report("gradient", rows, seed=SEED, settings=SIZES, bars=bars):
        return 0
    return 1


def largest_errors(
    weights: AttentionWeights, params: Params, documents: list[Any], batches: list[jax.Array]
) -> tuple[list[float], list[float]]:
    """Relative error of each document's gradient against the twin: the closed form's, the lean
    model's.
    """
    closed = []
    lean = []
    rest = iter(documents)
    for batch in batches:
        for witness, other in zip(
            np.asarray(oracle.gradient_batch(params, batch)),
            np.asarray(lean_gradient_batch(params, batch)),
            strict=True,
        ):
            closed.append(relative_error(gradient(weights, next(rest)), witness))
            lean.append(relative_error(other, witness))
    return closed, lean


def row(
    case: str, method: str, error: float | None, run: Callable[[], Any], repeats: int = 7
) -> dict[str, Any]:
    """One line of the table: the error against the twin beside the best time."""
    warm_up = 1 if repeats > 1 else 0  # long runs were compiled when the errors were measured
    return {
        "case": case,
        "method": method,
        "error": error,
        "seconds": best_of(run, repeats, warm_up).best,
    }


if __name__ == "__main__":
    sys.exit(main())
