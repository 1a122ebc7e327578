"""The pooled game of a black box: log-masses and values of n instances from the outputs of small
sub-bags.

If f pools with one softmax, n single instances and n - 1 pairs determine everything
(`slalom/recover.py`, after Leemann et al., Prop. 5.2). This does not prove that f is a pooled game,
so the largest difference on held-out random sub-bags is reported, and a difference above `tol` is
an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from ..._arrays import softmax, usual_float_errors, whole
from ..._types import Array, Ids
from ...game.pooled_game import PooledGame
from ...slalom.recover import BlackBox, ask, recover

# Outputs of float32 networks agree to about 1e-6 of their size; other kinds of pooling differ by
# more than a hundredth.
DEVIATION = 1e-4
# Tuning: random sub-bags on which a deviation is measured. One layer after the pooling shows on
# nearly every one.
CHECKS = 40
# Tuning: sub-bags per call of the function, which for a network means one batch.
COALITIONS_AT_ONCE = 256


# What is offered for a function that is not a pooled game.
SAMPLER = (
    "Shapley values of any function of sub-bags, with standard errors, are estimated by "
    "shapley_sample, and those of a pooled network with layers after its pooling by TailGame, or "
    "exactly by hidden_layer_game"
)


@dataclass(frozen=True, eq=False)
class MeasuredGame(PooledGame):
    """A pooled game recovered from a black box."""

    deviation: float = float("nan")  # largest difference from the black box on random sub-bags
    # Sub-bags evaluated to recover the game, not counting those that measured the deviation.
    queries: int = 0

    def __repr__(self) -> str:
        return (
            f"MeasuredGame(d={self.d}, absent='deleted', deviation={self.deviation:.1e}, "
            f"queries={self.queries})"
        )


@usual_float_errors
def game_from_black_box(
    f: BlackBox,
    n: int,
    output: int = 0,
    *,
    empty_value: float = 0.0,
    batch_size: int = COALITIONS_AT_ONCE,
    checks: int = CHECKS,
    tol: float = DEVIATION,
    seed: int = 0,
    labels: Sequence[str] | None = None,
) -> MeasuredGame:
    """Recover the game of n instances under any function that pools with one softmax, or raise an
    error.

    Parameters
    ----------
    f : takes a list of m index arrays (sub-bags of 0 .. n - 1) and returns (m,) or (m, C) outputs
    output : the class that is explained; the other classes help to find the log-masses
    empty_value : the value of the empty bag, which is never passed to f
    batch_size : sub-bags per call of f
    checks : number of random sub-bags, including the whole bag, on which the deviation is measured
    tol : largest deviation that is allowed, relative to the largest |output|
    labels : names of the instances

    Returns
    -------
    MeasuredGame, a PooledGame with `deviation` and `queries`

    Examples
    --------
    >>> s, v = np.array([0.0, 1.0, -2.0]), np.array([1.0, -1.0, 3.0])
    >>> pooled = lambda bags: [np.exp(s[b]) @ v[b] / np.exp(s[b]).sum() for b in bags]
    >>> game = game_from_black_box(pooled, 3)
    >>> game.queries, bool(game.deviation < 1e-12), game.v.round(12)
    (5, True, array([[ 1., -1.,  3.]]))
    >>> game_from_black_box(
    ...     lambda bags: [v[b].max() for b in bags], 3
    ... )  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ValueError: f: expected a model that pools with one softmax ...
    """
    s, values, queries = recover(f, np.arange(whole("n", n)), batch_size)
    v = values.reshape(n, -1)
    whole("output", output, 0, v.shape[1] - 1)
    heads = np.zeros(v.shape[1], dtype=np.intp)
    try:
        deviation = measure_deviation(f, s[None], v, heads, batch_size, checks, tol, seed)
    except ValueError as error:
        link = _link_behind(f, n, batch_size, checks, tol, seed)
        if link is None:
            raise ValueError(f"{error}. {SAMPLER}") from None
        raise ValueError(
            "f: expected the logits of a model that pools with one softmax, got one that is "
            f"pooled, with a nonlinear tail: {link} of pooled logits. Return the logits before it; "
            f"the game of the probability is then game.through('sigmoid'). {SAMPLER}"
        ) from None
    plain = PooledGame.from_scores(s, v[:, output], empty_value=empty_value, labels=labels)
    parts = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return MeasuredGame(**parts, deviation=deviation, queries=queries)


def _link_behind(
    f: BlackBox, n: int, batch_size: int, checks: int, tol: float, seed: int
) -> str | None:
    """Return the name of a function whose inverse makes the outputs those of a pooled game, or
    None.
    """
    for name, inverse in LINKS_BEHIND.items():
        # The default value keeps the inverse of this round of the loop.
        def logits(bags: list[Ids], inverse: Callable[[Array], Array] = inverse) -> Array:
            with np.errstate(all="ignore"):
                return inverse(ask(f, bags, batch_size).reshape(len(bags), -1))

        try:
            s, values, _ = recover(logits, np.arange(n), batch_size)
            v = values.reshape(n, -1)
            heads = np.zeros(v.shape[1], dtype=np.intp)
            measure_deviation(logits, s[None], v, heads, batch_size, checks, tol, seed)
        except ValueError:  # not finite, or not pooled
            continue
        return name
    return None


def _log_odds(p: Array) -> Array:
    """Return the logits of probabilities."""
    return np.log(p) - np.log1p(-p)


def _log_ratios(p: Array) -> Array:
    """Return the logits of classes relative to the last class, from their probabilities."""
    # The outputs of a softmax add up to 1; no others have this inverse.
    if p.shape[1] < 2 or np.abs(p.sum(axis=1) - 1).max() > DEVIATION:
        return np.full(p.shape, np.nan)
    return np.log(p[:, :-1] / p[:, -1:])


# Functions that may follow pooled logits, with their inverses.
LINKS_BEHIND: dict[str, Callable[[Array], Array]] = {
    "the softmax": _log_ratios,
    "the logistic function": _log_odds,
    "the exponential": np.log,
    "the hyperbolic tangent": np.arctanh,
}


def measure_deviation(
    f: BlackBox, s: Array, v: Array, heads: Ids, batch_size: int, checks: int, tol: float, seed: int
) -> float:
    """Return the largest |f - pooled| on random sub-bags, or raise an error above `tol` times the
    largest |output|.

    Log-masses s are (H, n), values v (n, C) with the bias in them, and heads (C,) the head of each
    class.
    """
    n = len(v)
    rng = np.random.default_rng(seed)
    sizes = np.sort(np.append(rng.integers(1, n + 1, size=whole("checks", checks) - 1), n))
    bags = [np.sort(rng.permutation(n)[:size]) for size in sizes]
    outputs = ask(f, bags, batch_size).reshape(len(bags), -1)
    pooled = np.array([(softmax(s[:, bag])[heads] * v[bag].T).sum(axis=1) for bag in bags])
    differences = np.abs(pooled - outputs).max(axis=1)
    deviation = float(differences.max())
    worst = int(differences.argmax())
    # Outputs may cancel, so the values of single instances count for the scale as well.
    scale = float(max(np.abs(outputs).max(), np.abs(v).max()))
    if deviation > tol * scale:
        raise ValueError(
            f"f: expected a model that pools with one softmax; on {len(bags)} random sub-bags it "
            f"differs from one by up to {deviation:.2g} (a bag of {bags[worst].size}: "
            f"{outputs[worst][:4].round(4)} where pooling gives {pooled[worst][:4].round(4)}), "
            f"more than {tol:g} * {scale:.3g}. Possible reasons: several heads, a layer after the "
            "pooling that is not linear, dropout left on, or attention given after its softmax"
        )
    return deviation
