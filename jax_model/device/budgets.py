"""The error budget of a batch of games: the core's budgets, bounds and rules on the host, and only sums on the device.

This is the one module of `device` that reads the core's internals.

Every game has |error| <= tol * max|f| or a reason why not. A game that cannot keep `tol` in the batch's floating type,
or whose masses overflow it, has NaN in its row and its reason in `Batched.problems`; the other games are not affected.
Shapes are static on a device, so all games of a batch share one rule for 1/D, for the largest of their ranges and the
smallest of their errors, and products are plain ones (`budget_of(..., plain=True)`).

**float32.** The budget is the core's with the spacing of float32: the rounding of d factors and of everything else, of
the scores when they are converted to float32 (`Facts.doubt`), and of constants that are added in it. This uses about
1e-4 to 1e-3 of max|f|, and a smaller `tol` is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import ToleranceError
from attn_closed_form._arrays import positive
from attn_closed_form._types import Array
from attn_closed_form.game.budget import FLOAT32, FLOAT64, Budget, Facts, budget_of
from attn_closed_form.game.exponential_sums import lambda_rule
from attn_closed_form.game.laws import legendre_rule, log_legendre_factor
from attn_closed_form.game.terms import THETA, TermSums, log_bound
from attn_closed_form.lime import LimeCoefficients
from attn_closed_form.lime.kernel import Settings, check_settings
from attn_closed_form.lime.moments import NARROWEST, moments_of_sums, rule_factor
from attn_closed_form.lime.regression import Known, Regression, regression
from attn_closed_form.lime.rules import SizeRule, ladder

from .games import GameBatch, each_game, everyone_of, heads_of, row_sums, value_of

ARITHMETIC = {np.dtype(np.float32): FLOAT32, np.dtype(np.float64): FLOAT64}
# Largest ln(D_max / D_min) of masses that fit into the floating type.
LOG_RANGE = {np.dtype(np.float32): 60.0, np.dtype(np.float64): 256.0}
# Relative margin for rounding at the ends of the range of D, and margin of the logarithm of a bound from the device.
ROOM = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-12}
SLACK = {np.dtype(np.float32): 0.05, np.dtype(np.float64): 1e-9}
# A score this far below the largest of its head has no mass in comparison.
NO_MASS = 110.0


# Shortest list of nodes in p; longer ones are powers of two, so that similar batches share one compiled program.
NODES = 64
# Groups of nodes for 1/D that have their own numbers of nodes in p.
GROUPS = 4
# The number of nodes for 1/D is a multiple of this, for the same reason.
RULE = 8
NO_RULE = "no rule in p has a proven error with these settings; use attn_closed_form.lime_limit"


class Batched(NamedTuple):
    """Results of a batch, one per game: values, base values, guaranteed errors.

    `problems` has a reason for every game whose result is NaN.
    """

    values: Any
    problems: dict[int, str]
    bases: Any
    errors: Any


class Summary(NamedTuple):
    """About every game, on the host: ranges (B,), half the range of each head's values (B, H), the largest |f| that is
    known, the base of the engine's means, f of the grand coalition minus that base, f of the empty coalition minus what
    the engine assumes for it, f of the empty coalition, the largest relevant |score|, and the sum of the moduli of all
    constants.
    """

    log_range: Any
    half_range: Any
    known: Any
    base: Any
    above: Any
    nobody: Any
    absent: Any
    score: Any
    constants: Any


@jax.jit  # type: ignore[untyped-decorator]
def _summary(batch: GameBatch) -> Summary:
    heads = jax.vmap(heads_of)(batch)
    players = jnp.arange(batch.s.shape[-1])
    top = jnp.maximum(batch.s, batch.s_absent).max(axis=-1, keepdims=True)
    present, absent = (
        jnp.where(jnp.isneginf(s), 0.0, v - heads.center[:, :, None])
        for s, v in ((batch.s, batch.v), (batch.s_absent, batch.v_absent))
    )
    rise = (jnp.exp(batch.s - top) * present - jnp.exp(batch.s_absent - top) * absent).sum(axis=1)
    alone = present.sum(axis=1)
    first, last = (
        players == best(alone, axis=-1, keepdims=True) for best in (jnp.argmax, jnp.argmin)
    )
    probes = [jnp.ones_like(first), jnp.zeros_like(first), rise > 0, rise < 0, first, last]
    values = jax.vmap(jax.vmap(value_of), (None, 0))(batch, jnp.stack(probes))
    base = batch.bias + heads.center.sum(axis=1)
    scores = jnp.concatenate([batch.s, batch.s_absent, batch.s_background[:, :, None]], axis=-1)
    counts = scores > scores.max(axis=-1, keepdims=True) - NO_MASS
    return Summary(
        heads.log_range.max(axis=1),
        heads.half_range,
        jnp.abs(values).max(axis=0),
        base,
        jax.vmap(everyone_of)(batch),
        jnp.where(heads.empty, batch.empty_value - base, 0.0),
        values[1],
        jnp.where(counts, jnp.abs(scores), 0.0).max(axis=(1, 2)),
        jnp.abs(batch.bias)
        + jnp.abs(heads.center).sum(axis=1)
        + jnp.where(heads.empty, jnp.abs(batch.empty_value), 0.0),
    )


class Goals(NamedTuple):
    """The budget of every game (None: no players, or see `problems`), the nodes for 1/D, and the summary."""

    budgets: list[Budget | None]
    problems: dict[int, str]
    lam: jax.Array
    w: jax.Array
    about: Summary

    def errors(self, tol: float, exponent: NDArray[np.intp]) -> Array:
        """Return the (B,) errors that `tol` allows, with NaN for games without a budget."""
        return np.ldexp(
            [np.nan if goal is None else tol * goal.scale for goal in self.budgets], exponent
        )

    @property
    def kept(self) -> list[int]:
        """Games that have a budget."""
        return [i for i, goal in enumerate(self.budgets) if goal is not None]


def plan_batch(
    batch: GameBatch,
    tol: float,
    amplification: float | Sequence[float] = 1.0,
    doubt: float | Sequence[float] = 0.0,
    constants: float | Sequence[float] = 1.0,
    in_type: bool = True,
) -> Goals:
    """Return budgets for every game that has players, and nodes for 1/D.

    Parameters
    ----------
    amplification, doubt : as in `attn_closed_form.game.budget.budget` in float64, one for all games or one per game
    constants : number of times that the rounding of constants counts, one for all games or one per game
    in_type : whether results are given in the batch's floating type, which very small or large values leave
    """
    dtype = np.dtype(batch.s.dtype)
    arithmetic = ARITHMETIC[dtype]
    about = Summary(*(np.asarray(x, np.float64) for x in _summary(batch)))
    sizes = np.asarray(batch.players)
    factors, doubts, times = (
        np.broadcast_to(np.asarray(x, np.float64), sizes.shape).tolist()
        for x in (amplification, doubt, constants)
    )
    budgets: list[Budget | None] = []
    problems: dict[int, str] = {}
    exponents = np.asarray(batch.exponent).tolist()
    for i, d in enumerate(sizes.tolist()):
        if d == 0:  # fills the batch up
            budgets.append(None)
            continue
        size = float(about.constants[i])
        # Values were rounded when they were converted to float32; in float64 they are unchanged.
        if arithmetic is FLOAT32:
            rounding = 4 * arithmetic.ulp * size
        else:
            rounding = 0.0
        spread = float(about.half_range[i].sum()) * (1 + 4 * arithmetic.ulp) + rounding
        known = arithmetic.ulp * (4 * (d + 8) * spread + 4 * size)
        facts = Facts(
            scale=max(0.0, float(about.known[i]) * (1 - 4 * arithmetic.ulp) - known),
            spread=spread,
            d=d,
            exponent=exponents[i] if in_type else 0,
            doubt=arithmetic.ulp * (4 * float(about.score[i]) + doubts[i] / FLOAT64.ulp)
            + rounding / (spread or 1.0),
            constants=size * times[i],
        )
        try:
            if not about.log_range[i] <= LOG_RANGE[dtype]:
                raise ToleranceError(
                    f"games: masses span e^{about.log_range[i]:.0f}, {dtype} holds e^{LOG_RANGE[dtype]:.0f} here; "
                    "use attn_closed_form"
                )
            if in_type and exponents[i] > np.finfo(dtype).maxexp - 8:
                raise ToleranceError(
                    f"games: values of 2^{exponents[i]} leave {dtype}; use attn_closed_form"
                )
            budgets.append(budget_of(facts, tol, factors[i], plain=True, arithmetic=arithmetic))
        except ToleranceError as error:
            budgets.append(None)
            problems[i] = str(error)
    kept = [
        (float(about.log_range[i]), goal.eps) for i, goal in enumerate(budgets) if goal is not None
    ]
    log_range = max((r for r, _ in kept), default=0.0)
    eps = min((eps for _, eps in kept), default=0.01)
    room = ROOM[dtype]
    lam, w = lambda_rule(log_range + 3 * room, eps)
    more = (0, -lam.size % RULE)
    lam = np.pad(lam, more, mode="edge") / (1 - room)
    w = np.pad(w, more) / (1 - room)
    return Goals(budgets, problems, jnp.asarray(lam, dtype), jnp.asarray(w, dtype), about)


def sums_of(batch: GameBatch, goals: Goals, chunk: int | None) -> TermSums:
    """Return the sums for the core's bound over all rows of the n games that have a budget, game by game."""
    table = np.asarray(each_game(row_sums, batch, (goals.lam, goals.w), chunk=chunk))[
        goals.kept
    ].astype(np.float64)
    names = [name for name in TermSums._fields if name not in ("share", "turn")]
    columns = table.transpose(1, 0, 2, 3).reshape(len(names), -1)
    return TermSums._make([*columns, 1.0, None])


class Groups(NamedTuple):
    """Nodes lam, w (G, L) for 1/D in groups; each group uses the first `count` (G,) of its nodes p, w_p (G, m)."""

    lam: jax.Array
    w: jax.Array
    p: Any
    w_p: Any
    count: Any


def shapley_groups(batch: GameBatch, goals: Goals, chunk: int | None) -> Groups:
    """Return the nodes for 1/D in groups, with enough nodes in p for every game, at most those of an exact rule."""
    dtype = batch.s.dtype
    exact = max(1, (batch.s.shape[-1] + 1) // 2)
    needed = np.minimum(exact, _nodes_needed(batch, goals, chunk)).reshape(GROUPS, -1).max(axis=1)
    p = np.full((GROUPS, power_of_two(needed.max())), 0.5)
    w = np.zeros((GROUPS, power_of_two(needed.max())))
    for g, m in enumerate(needed.tolist()):
        p[g, :m], w[g, :m] = legendre_rule(m)
    lam, weights = (x.reshape(GROUPS, -1) for x in (goals.lam, goals.w))
    return Groups(lam, weights, p.astype(dtype), w.astype(dtype), needed)


def power_of_two(count: Any, least: int = NODES) -> int:
    """Return the smallest power of two that is at least both, so that many batches share sizes and few programs are
    compiled.

    >>> power_of_two(65), power_of_two(3)
    (128, 64)
    """
    return max(least, 1 << (int(count) - 1).bit_length())


def _nodes_needed(batch: GameBatch, goals: Goals, chunk: int | None) -> NDArray[np.intp]:
    """Return the (L,) numbers of nodes in p that a node lam needs, with equal shares of the error for all rows."""
    L = goals.lam.size
    budgets = [goals.budgets[i] for i in goals.kept]
    allowed = np.array([goal.p_error if goal and goal.spread > 0 else np.inf for goal in budgets])
    if not np.isfinite(allowed).any():
        return np.ones(L, dtype=np.intp)
    bounds = (
        log_bound(sums_of(batch, goals, chunk), differences=True) + SLACK[np.dtype(batch.s.dtype)]
    )
    rows = len(bounds) // len(allowed)
    with np.errstate(divide="ignore"):
        log_allowed = np.repeat(np.log(allowed / rows), rows)[:, None]
    needed = ((bounds + log_legendre_factor(THETA) - log_allowed) / (2 * THETA)).min(axis=1)
    return np.maximum(np.ceil(needed.reshape(-1, L).max(axis=0)), 1).astype(np.intp)


class LimePlan(NamedTuple):
    """The core's rule in p and its regression for every game of a batch (None: left to the core), and the budgets.

    The rule depends on the number of players (`attn_closed_form/lime/rules.py`), so every game has separate
    nodes, padded with nodes of no weight to the longest of the batch. After the sums, a few numbers per
    game remain for the core's `Regression` on the host. The variant is that of the lime package with `bow=False`.
    """

    goals: Goals
    regressions: list[Regression | None]
    rules: list[SizeRule | None]
    sizes: list[int]

    @classmethod
    def of(
        cls,
        batch: GameBatch,
        kernel_width: float,
        ridge: float,
        num_samples: int | None,
        tol: float,
        chunk: int | None,
    ) -> LimePlan:
        """Choose the shortest rule that keeps each game's share of the error."""
        settings = check_settings(kernel_width, ridge, num_samples)
        tol = positive("tol", tol)
        sizes = np.asarray(batch.players).tolist()
        regressions = [_regression(d, settings) for d in sizes]
        goals = _lime_budgets(batch, regressions, settings, tol)
        rules: list[SizeRule | None] = [None] * len(sizes)
        for i, log_bounds, largest in zip(
            goals.kept, *_lime_bounds(batch, goals, chunk), strict=True
        ):
            fitted = regressions[i]
            goal = goals.budgets[i]
            if fitted is not None and goal is not None:
                rules[i] = _rule(fitted, kernel_width, goal, log_bounds, largest)
        problems = {
            i: NO_RULE for i, rule in enumerate(rules) if rule is None and sizes[i]
        } | goals.problems
        return cls(goals._replace(problems=problems), regressions, rules, sizes)

    @property
    def longest(self) -> int:
        """Number of nodes of the longest rule."""
        return max((rule.p.size for rule in self.rules if rule), default=1)

    def nodes(self) -> tuple[Array, Array, Array]:
        """Return nodes p (B, 1, m), weights of E_p[f] and its moment (B, 1, m, 2), and of Delta_j(p) (B, 1, m)."""
        B = len(self.sizes)
        m = power_of_two(self.longest)
        p = np.full((B, m), 0.5)
        w_E = np.zeros((B, m, 2))
        w_D = np.zeros((B, m))
        for i, (rule, fitted) in enumerate(zip(self.rules, self.regressions, strict=True)):
            if rule and fitted:
                nodes = rule.p
                weights = rule.weights
                p[i, : nodes.size] = nodes
                w_E[i, : nodes.size] = np.stack(
                    [weights, weights * (1 - nodes - fitted.absent_share)], axis=1
                )
                w_D[i, : nodes.size] = weights * nodes * (1 - nodes)
        return p[:, None], w_E[:, None], w_D[:, None]

    def finish(
        self, level: Array, delta: Array, exponent: NDArray[np.intp]
    ) -> list[LimeCoefficients]:
        """Compute coefficients from the sums over nodes: level (B, 2), delta (B, d)."""
        limits = []
        about = self.goals.about
        for i, (d, rule, fitted) in enumerate(
            zip(self.sizes, self.rules, self.regressions, strict=True)
        ):
            if not (rule and fitted):
                limits.append(LimeCoefficients(np.full(d, np.nan), np.nan))
                continue
            known = Known(float(about.above[i]), float(about.nobody[i]), float(about.base[i]), 0)
            moments = moments_of_sums(fitted, level[i], delta[i, :d], known)
            coef, intercept = fitted.solve(moments, np.arange(d))
            limits.append(
                LimeCoefficients(
                    np.ldexp(coef, exponent[i]), math.ldexp(intercept, int(exponent[i]))
                )
            )
        return limits


def _regression(d: int, settings: Settings) -> Regression | None:
    """Return the regression of d players, or None if no rule in p can be accurate enough."""
    if d > 1:
        fitted = regression(d, settings, d)
    else:
        fitted = None
    if fitted and fitted.at_all <= NARROWEST:
        return fitted
    return None


def _lime_budgets(
    batch: GameBatch, regressions: list[Regression | None], settings: Settings, tol: float
) -> Goals:
    """Return the budgets of the games, as in `attn_closed_form/lime/moments.py`."""
    amplification = []
    doubt = []
    constants = []
    for fitted in regressions:
        if fitted:
            factor = rule_factor(fitted, settings)
        else:
            factor = 2.0
        amplification.append(factor / 2)
        doubt.append(fitted.doubt(factor, fitted.at_all) if fitted else 0.0)
        constants.append(1 + 8 * fitted.nobody_factor() if fitted else 1.0)
    return plan_batch(batch, tol, amplification, doubt, constants, in_type=False)


def _lime_bounds(batch: GameBatch, goals: Goals, chunk: int | None) -> tuple[Array, Array]:
    """Return logs of bounds on ellipses (n, thetas), and bounds on reals (n,), of the games with a budget."""
    n = len(goals.kept)
    more = SLACK[np.dtype(batch.s.dtype)]
    if not n:
        return np.zeros((0, 1)), np.zeros(0)
    sums = sums_of(batch, goals, chunk)
    rows = log_bound(sums)
    largest = math.exp(2 + more) * (sums.weight * (sums.background + sums.players)).reshape(
        n, -1
    ).sum(axis=1)
    return np.logaddexp.reduce(rows.reshape(n, -1, rows.shape[1]), axis=1) + more, largest


def _rule(
    fitted: Regression, kernel_width: float, goal: Budget, log_bounds: Array, largest: float
) -> SizeRule | None:
    """Return the shortest rule that keeps the game's share of the error, or None."""
    allowed = goal.p_error * goal.amplification / fitted.moment_factor()
    rules = ladder(fitted.d, kernel_width)
    index, errors = rules.choose(log_bounds[None], np.array([largest]), allowed)
    if errors[0] <= allowed:
        return rules.rules[int(index[0])]
    return None
