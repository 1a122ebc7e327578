"""LIME's exact limit for a batch of games: the core's rules in p, one a game, evaluated on the device.

The rule depends on the number of players (`attn_closed_form/size_rule.py`), so every game brings its own nodes, padded
with nodes of no weight to the longest of the batch. What remains after the sums is a few numbers a game, done on the
host by the core's own `Regression`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import LimeCoefficients
from attn_closed_form._types import Array
from attn_closed_form.lime.kernel_rule import NoRuleError, size_count, size_rule
from attn_closed_form.lime.limit import Regression, lime_regression, mend_moments

from .exact import HALF, Summary, _chunk, _map, _sums, lambda_nodes, summary
from .game_batch import GameBatch, log_bound

# Node counts are padded to a multiple of this, so that batches alike share one compiled program.
NODES = 8


@partial(jax.jit, static_argnums=0)
def _map_own(chunk: int, batch: GameBatch, lam: Any, w: Any, p: Any, w_E: Any, w_D: Any) -> Any:
    """`_sums` of every game with its own nodes p."""
    return jax.lax.map(lambda own: _sums(own[0], lam, w, *own[1:]), (batch, p, w_E, w_D), batch_size=chunk)


def lime_limit(
    batch: GameBatch,
    kernel_width: float = 25.0,
    ridge: float = 1.0,
    num_samples: int | None = 5000,
    tol: float = 1e-10,
    chunk: int | None = None,
) -> list[LimeCoefficients | None]:
    """LIME's limit for every game, as `attn_closed_form.lime_limit`; None where only the core's recursion can serve.

    A game of one player, and one whose rule cannot be vouched for, is left to the core.
    """
    chunk = _chunk(batch, chunk)
    about = summary(batch, tol)
    sizes = np.asarray(batch.players)
    share = 1.0 if num_samples is None else (num_samples - 1) / num_samples
    regressions = [lime_regression(int(d), kernel_width, ridge, num_samples, int(d)) if d > 1 else None for d in sizes]
    lam, w = lambda_nodes(batch, about.log_range.max(), _eps(about, regressions, share, tol))
    bounds = np.asarray(_map(log_bound, chunk, batch, lam, w), np.float64)
    rules = [
        _rule(regression, kernel_width, bound, half_range, tol * scale) if regression else None
        for regression, bound, half_range, scale in zip(regressions, bounds, about.half_range, about.scale, strict=True)
    ]
    longest = max((rule[0].size for rule in rules if rule), default=1)
    m = -(-longest // NODES) * NODES
    p, w_E, w_D = np.full((sizes.size, m), 0.5), np.zeros((sizes.size, m, 2)), np.zeros((sizes.size, m))
    for i, (rule, regression) in enumerate(zip(rules, regressions, strict=True)):
        if rule and regression:
            nodes, weights = rule
            a = regression.alpha_1 / regression.alpha_0
            p[i, : nodes.size] = nodes
            w_E[i, : nodes.size] = np.stack([weights, weights * (nodes - a)], axis=1)
            w_D[i, : nodes.size] = weights * nodes * (1 - nodes)
    own = (jnp.asarray(x, batch.s.dtype) for x in (p, w_E, w_D))
    level, delta = (np.asarray(x, np.float64) for x in _map_own(chunk, batch, lam, w, *own))
    return [
        _finish(regression, share, level[i], delta[i, : sizes[i]], about, i) if rule and regression else None
        for i, (rule, regression) in enumerate(zip(rules, regressions, strict=True))
    ]


def _eps(about: Summary, regressions: list[Regression | None], share: float, tol: float) -> float:
    """The lambda rule's error that keeps half of `tol` for every game."""
    spread = about.half_range.sum(axis=1)
    needed = [0.01]
    for regression, scale, width in zip(regressions, about.scale, spread, strict=True):
        if regression is not None and width > 0:
            smooth = regression.q.copy()
            smooth[0] = max(share / (smooth.size - 1), smooth[0])
            needed.append(HALF * tol * scale / (regression.norm(smooth) * width))
    return min(needed)


def _rule(
    regression: Regression, kernel_width: float, bound: Array, half_range: Array, error: float
) -> tuple[Array, Array] | None:
    """Nodes and weights in p that keep half of `error` for one game; None if there is no rule to vouch for."""
    d, spread = regression.q.size - 1, float(half_range.sum())
    m = 1
    try:
        for own, B in zip(bound, half_range, strict=True):
            if B > 0:
                allowed = HALF * error / regression.amplification * B / spread
                m = max(m, size_count(d, kernel_width, own + np.log(B), B, allowed))
    except NoRuleError:
        return None
    found = size_rule(d, kernel_width, m)
    return None if found is None else (found.p, found.weights)


def _finish(
    regression: Regression, share: float, level: Array, delta: Array, about: Summary, i: int
) -> LimeCoefficients:
    base = float(about.base[i])
    moments = mend_moments(
        regression, share, level, delta[None], float(about.everyone[i]) - base, float(about.nobody[i])
    )
    coef, intercept = regression.solve(moments, np.arange(delta.size))
    return LimeCoefficients(coef, intercept + base)
