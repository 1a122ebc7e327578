"""LIME's exact limit for a batch of games: the core's rules in p, one for each game, evaluated on the device.

The rule depends on the number of players (`attn_closed_form/lime/kernel_rule.py`), so every game brings its own nodes,
padded with nodes of no weight to the longest of the batch. What remains after the sums are a few numbers per game, done
on the host by the core's own `Regression`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attn_closed_form import LimeCoefficients
from attn_closed_form._types import Array
from attn_closed_form.lime.kernel import check_settings
from attn_closed_form.lime.kernel_rule import NoRuleError, ladder
from attn_closed_form.lime.moments import finish, rule_amplification
from attn_closed_form.lime.regression import Regression, regression

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
    settings = check_settings(kernel_width, ridge, num_samples)
    regressions = [regression(int(d), settings, int(d)) if d > 1 else None for d in sizes]
    lam, w = lambda_nodes(batch, about.log_range.max(), _eps(about, regressions, kernel_width, tol))
    bounds = np.asarray(_map(log_bound, chunk, batch, lam, w), np.float64)
    rules = [
        _rule(found, kernel_width, bound, half_range, tol * scale) if found else None
        for found, bound, half_range, scale in zip(regressions, bounds, about.half_range, about.scale, strict=True)
    ]
    longest = max((rule[0].size for rule in rules if rule), default=1)
    m = -(-longest // NODES) * NODES
    p, w_E, w_D = np.full((sizes.size, m), 0.5), np.zeros((sizes.size, m, 2)), np.zeros((sizes.size, m))
    for i, (rule, found) in enumerate(zip(rules, regressions, strict=True)):
        if rule and found:
            nodes, weights = rule
            p[i, : nodes.size] = nodes
            w_E[i, : nodes.size] = np.stack([weights, weights * (1 - nodes - found.absent_share)], axis=1)
            w_D[i, : nodes.size] = weights * nodes * (1 - nodes)
    own = (jnp.asarray(x, batch.s.dtype) for x in (p, w_E, w_D))
    level, delta = (np.asarray(x, np.float64) for x in _map_own(chunk, batch, lam, w, *own))
    return [
        _finish(found, level[i], delta[i, : sizes[i]], about, i) if rule and found else None
        for i, (rule, found) in enumerate(zip(rules, regressions, strict=True))
    ]


def _eps(about: Summary, regressions: list[Regression | None], kernel_width: float, tol: float) -> float:
    """The lambda rule's error that keeps half of `tol` for every game."""
    spread = about.half_range.sum(axis=1)
    needed = [0.01]
    for found, scale, width in zip(regressions, about.scale, spread, strict=True):
        if found is not None and width > 0:
            needed.append(HALF * tol * scale / (2 * rule_amplification(found, kernel_width) * width))
    return min(needed)


def _rule(
    found: Regression, kernel_width: float, bound: Array, half_range: Array, error: float
) -> tuple[Array, Array] | None:
    """Nodes and weights in p that keep half of `error` for one game; None if there is no rule to vouch for."""
    spread, unit = float(half_range.sum()), found.d * np.exp(-found.log_unit)
    longest = 0
    try:
        rules = ladder(found.d, kernel_width)
        for own, B in zip(bound, half_range, strict=True):
            if B > 0:
                allowed = HALF * error / (unit * found.moment_factor()) * B / spread
                index, errors = rules.choose((own + np.log(B))[None], np.array([B]), allowed)
                if errors[0] > allowed:
                    return None
                longest = max(longest, int(index[0]))
    except NoRuleError:
        return None
    return rules.rules[longest].p, rules.rules[longest].weights


def _finish(found: Regression, level: Array, delta: Array, about: Summary, i: int) -> LimeCoefficients:
    unit = found.d * float(np.exp(-found.log_unit))
    rest = float(about.everyone[i]), float(about.base[i]), float(about.nobody[i])
    moments = finish(found, unit, unit * level, unit * delta, *rest)
    return LimeCoefficients(*found.solve(moments, np.arange(delta.size)))
