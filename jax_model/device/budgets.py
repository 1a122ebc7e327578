"""What `tol` asks of a batch of games: the core's budget, bound and rules, on the host; the device only sums.

|error| <= tol * max|f| for every game, or a reason why not, game by game: a game that cannot keep `tol` in the batch's
floating type, or whose masses leave it, has NaN in its row and its reason in `Batched.problems`. It does not spoil the
others. Shapes are static on a device, so the games that can be kept share one rule for 1/D, for the largest of their
ranges and the smallest of their errors, and products are plain ones (`budget_of(..., plain=True)`).

**float32.** The budget is the core's with the spacing of float32: the rounding of d factors and of everything else, of
scores that were rounded when they became float32 (`Facts.doubt`), and of constants that were added up in it. It takes
some 1e-4 to 1e-3 of max|f|, and a `tol` below is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import ToleranceError
from attn_closed_form._types import Array
from attn_closed_form.game.budget import FLOAT32, FLOAT64, Budget, Facts, budget_of
from attn_closed_form.game.exponential_sums import lambda_rule
from attn_closed_form.game.terms import TermSums

from .game_batch import GameBatch, everyone_of, heads_of, row_sums, value_of
from .loops import each_game

ARITHMETIC = {np.dtype(np.float32): FLOAT32, np.dtype(np.float64): FLOAT64}
# ln(D_max / D_min) that masses may span before they leave the floating type.
LOG_RANGE = {np.dtype(np.float32): 60.0, np.dtype(np.float64): 256.0}
# Room for rounding at the ends of the range of D, relative, and in the logarithm of a bound that is summed on a device.
ROOM = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-12}
SLACK = {np.dtype(np.float32): 0.05, np.dtype(np.float64): 1e-9}
# A score this far below the largest of its head has a mass of zero beside it.
NO_MASS = 110.0


class Batched(NamedTuple):
    """Results of a batch. `problems` has a reason for every game that has none; its row of `values` is NaN."""

    values: NDArray[Any]
    problems: dict[int, str]


class Summary(NamedTuple):
    """About every game, on the host: ranges (B,), half the range of each head's values (B, H), the largest |f| that is
    known, the base of the engine's means, f of everyone less that base, f of nobody less what the engine takes it for,
    the largest |score| that counts, and the sum of the moduli of all constants.
    """

    log_range: Any
    half_range: Any
    known: Any
    base: Any
    above: Any
    nobody: Any
    score: Any
    constants: Any


@jax.jit
def _summary(batch: GameBatch) -> Summary:
    heads = jax.vmap(heads_of)(batch)
    players, top = jnp.arange(batch.s.shape[-1]), jnp.maximum(batch.s, batch.s_absent).max(axis=-1, keepdims=True)
    present, absent = (
        jnp.where(jnp.isneginf(s), 0.0, v - heads.centre[:, :, None])
        for s, v in ((batch.s, batch.v), (batch.s_absent, batch.v_absent))
    )
    rise = (jnp.exp(batch.s - top) * present - jnp.exp(batch.s_absent - top) * absent).sum(axis=1)
    alone = present.sum(axis=1)
    first, last = (players == best(alone, axis=-1, keepdims=True) for best in (jnp.argmax, jnp.argmin))
    probes = [jnp.ones_like(first), jnp.zeros_like(first), rise > 0, rise < 0, first, last]
    values = jnp.stack([jax.vmap(value_of)(batch, probe) for probe in probes])
    base = batch.bias + heads.centre.sum(axis=1)
    scores = jnp.concatenate([batch.s, batch.s_absent, batch.s_background[:, :, None]], axis=-1)
    counts = scores > scores.max(axis=-1, keepdims=True) - NO_MASS
    return Summary(
        heads.log_range.max(axis=1),
        heads.half_range,
        jnp.abs(values).max(axis=0),
        base,
        jax.vmap(everyone_of)(batch),
        jnp.where(heads.empty, batch.empty_value - base, 0.0),
        jnp.where(counts, jnp.abs(scores), 0.0).max(axis=(1, 2)),
        jnp.abs(batch.bias)
        + jnp.abs(heads.centre).sum(axis=1)
        + jnp.where(heads.empty, jnp.abs(batch.empty_value), 0.0),
    )


class Goals(NamedTuple):
    """The budget of every game (None: no players, or see `problems`), the nodes for 1/D, and the summary."""

    budgets: list[Budget | None]
    problems: dict[int, str]
    lam: jax.Array
    w: jax.Array
    about: Summary

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
    """Budgets for every game that has players, and nodes for 1/D.

    Parameters
    ----------
    amplification, doubt : as of `attn_closed_form.game.budget.budget` in float64, one for all games or one per game
    constants : how often the rounding of constants counts, likewise
    in_type : whether results are given in the batch's floating type, which very small or large values leave
    """
    dtype = np.dtype(batch.s.dtype)
    arithmetic = ARITHMETIC[dtype]
    about = Summary(*(np.asarray(x, np.float64) for x in _summary(batch)))
    sizes = np.asarray(batch.players)
    factors, doubts, times = (
        np.broadcast_to(np.asarray(x, np.float64), sizes.shape).tolist() for x in (amplification, doubt, constants)
    )
    budgets: list[Budget | None] = []
    problems: dict[int, str] = {}
    exponents = np.asarray(batch.exponent).tolist()
    for i, d in enumerate(sizes.tolist()):
        if d == 0:  # fills the batch up
            budgets.append(None)
            continue
        size = float(about.constants[i])
        # Values were rounded when they became float32; in float64 they are what they were.
        rounding = 4 * arithmetic.ulp * size if arithmetic is FLOAT32 else 0.0
        spread = float(about.half_range[i].sum()) * (1 + 4 * arithmetic.ulp) + rounding
        known = arithmetic.ulp * (4 * (d + 8) * spread + 4 * size)
        facts = Facts(
            scale=max(0.0, float(about.known[i]) * (1 - 4 * arithmetic.ulp) - known),
            spread=spread,
            d=d,
            exponent=exponents[i] if in_type else 0,
            doubt=arithmetic.ulp * (4 * float(about.score[i]) + doubts[i] / FLOAT64.ulp) + rounding / (spread or 1.0),
            constants=size * times[i],
        )
        try:
            if not about.log_range[i] <= LOG_RANGE[dtype]:
                raise ToleranceError(
                    f"games: masses span e^{about.log_range[i]:.0f}, {dtype} holds e^{LOG_RANGE[dtype]:.0f} here; "
                    "use attn_closed_form"
                )
            if in_type and exponents[i] > np.finfo(dtype).maxexp - 8:
                raise ToleranceError(f"games: values of 2^{exponents[i]} leave {dtype}; use attn_closed_form")
            budgets.append(budget_of(facts, tol, factors[i], plain=True, arithmetic=arithmetic))
        except ToleranceError as error:
            budgets.append(None)
            problems[i] = str(error)
    kept = [i for i, goal in enumerate(budgets) if goal is not None]
    eps = min((goal.eps for goal in budgets if goal is not None), default=0.01)
    lam, w = _lambda_nodes(batch, max((float(about.log_range[i]) for i in kept), default=0.0), eps)
    return Goals(budgets, problems, lam, w, about)


def _lambda_nodes(batch: GameBatch, log_range: float, eps: float) -> tuple[jax.Array, jax.Array]:
    """Nodes for 1/D; ranges in steps of ln 16, so that batches alike share one compiled program."""
    dtype = np.dtype(batch.s.dtype)
    step, room = np.log(16.0), ROOM[dtype]
    lam, w = lambda_rule(float(np.ceil((log_range + 3 * room) / step) * step), eps)
    return jnp.asarray(lam / (1 - room), dtype), jnp.asarray(w / (1 - room), dtype)


def sums_of(batch: GameBatch, goals: Goals, chunk: int | None) -> TermSums:
    """What the core's bound needs of all rows of the n games that have a budget, one game after the other."""
    table = np.asarray(each_game(row_sums, batch, (goals.lam, goals.w), chunk=chunk))[goals.kept].astype(np.float64)
    names = [name for name in TermSums._fields if name != "share"]
    return TermSums(**dict(zip(names, table.transpose(1, 0, 2, 3).reshape(len(names), -1), strict=True)), share=1.0)


def slack(batch: GameBatch) -> float:
    """To be added to the logarithm of a bound made of `sums_of`."""
    return SLACK[np.dtype(batch.s.dtype)]


def finished(batch: GameBatch, values: Array, problems: dict[int, str]) -> Batched:
    """Values in natural units, NaN where there is a problem."""
    exponent = np.asarray(batch.exponent).reshape(-1, *([1] * (values.ndim - 1)))
    out = np.array(values)
    out[list(problems)] = np.nan
    return Batched(np.ldexp(out, exponent), problems)
