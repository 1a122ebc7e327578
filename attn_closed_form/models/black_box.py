"""The pooled game of a black box: log-masses and values of n instances from the outputs of small sub-bags.

If f pools with one softmax, f({i}) = v_i (plus the bias), and the output of a pair lies between those of its
instances:

    s_i - s_j = log((f({i,j}) - v_j) / (v_i - f({i,j}))),

so that n single instances and n - 1 pairs say everything (Leemann et al., Prop. 5.2, corrected; `slalom_recover`). All
pairs have one of two references. Where an instance is so much lighter or heavier than its reference that the pair
hardly shows it, it is asked once more beside an instance of its own weight (`refine`).

Nothing of this proves that f is a pooled game. That is measured, on random sub-bags that were not used: the largest
difference is reported, and one above `tol` is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from .._types import Array, Ids
from ..game.pooled_game import PooledGame

SubBags = Callable[[list[Ids]], Any]

# Outputs of float32 networks agree to about 1e-6 of their size; other kinds of pooling differ by more than a hundredth.
DEVIATION = 1e-4
CHECKS = 40
BATCH = 256
# A pair shows a share of its lighter instance below this too coarsely.
CLEAR_SHARE = 1e-2
ROUNDS = 8


@dataclass(frozen=True, eq=False)
class MeasuredGame(PooledGame):
    """A pooled game that was found from a black box.

    Attributes
    ----------
    deviation : largest difference from the black box on random sub-bags
    queries : how many sub-bags were asked to find it, without those that measured the deviation
    """

    deviation: float = float("nan")
    queries: int = 0

    def __repr__(self) -> str:
        found = f"deviation={self.deviation:.1e}, queries={self.queries}"
        return f"MeasuredGame(d={self.d}, absent='deleted', {found})"


class Recovered(NamedTuple):
    """Log-masses (n,), values (n, C) with the bias in them, and the number of queries."""

    s: Array
    v: Array
    queries: int


def game_from_black_box(
    f: SubBags,
    n: int,
    output: int = 0,
    *,
    empty_value: float = 0.0,
    batch_size: int = BATCH,
    checks: int = CHECKS,
    tol: float = DEVIATION,
    seed: int = 0,
    refine: bool = True,
    labels: Sequence[str] | None = None,
) -> MeasuredGame:
    """Game of a bag of n instances under any function that pools with one softmax.

    Parameters
    ----------
    f : takes a list of index arrays (sub-bags of 0 .. n - 1), returns (m,) outputs or (m, C) of several classes
    n : number of instances
    output : which class is explained; the others help to find the log-masses
    empty_value : the value of the empty bag, which f is not asked for
    batch_size : sub-bags per call of f
    checks : random sub-bags on which the deviation is measured, the whole bag among them
    tol : largest deviation that is allowed, relative to the largest |output|
    refine : ask again for instances that 2 n - 1 queries show too coarsely
    labels : names of the instances

    Returns
    -------
    MeasuredGame, with `deviation` and `queries`

    Raises
    ------
    ValueError
        if f is no pooled game: the message has the deviation

    Examples
    --------
    >>> s, v = np.array([0.0, 1.0, -2.0]), np.array([1.0, -1.0, 3.0])
    >>> pooled = lambda bags: [np.exp(s[b]) @ v[b] / np.exp(s[b]).sum() for b in bags]
    >>> game = game_from_black_box(pooled, 3)
    >>> game.queries, bool(game.deviation < 1e-12), game.v.round(12)
    (5, True, array([[ 1., -1.,  3.]]))
    >>> game_from_black_box(lambda bags: [v[b].max() for b in bags], 3)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ValueError: f: expected a model that pools with one softmax ...
    """
    found = recover(f, n, batch_size=batch_size, refine=refine)
    if not 0 <= output < found.v.shape[1]:
        raise ValueError(f"output: expected an index in 0..{found.v.shape[1] - 1}, got {output!r}")
    deviation = measure_deviation(f, found.s[None], found.v, None, batch_size, checks, tol, seed)
    plain = PooledGame.from_scores(found.s, found.v[:, output], empty_value=empty_value, labels=labels)
    parts = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return MeasuredGame(**parts, deviation=deviation, queries=found.queries)


def recover(f: SubBags, n: int, batch_size: int = BATCH, refine: bool = True) -> Recovered:
    """Log-masses and values of n instances (see the module docstring); nothing is checked yet."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n: expected a number of instances above 0, got {n!r}")
    v = ask(f, [np.array([i]) for i in range(n)], batch_size)
    first = int(((v - v.mean(axis=0)) ** 2).sum(axis=1).argmax())
    from_first = ((v - v[first]) ** 2).sum(axis=1)
    second = int(from_first.argmax())
    s = np.zeros(n)
    if from_first[second] == 0:  # one instance, or all alike: log-masses have no effect
        return Recovered(s, v, n)
    partner = np.where(from_first >= ((v - v[second]) ** 2).sum(axis=1), first, second)
    partner[second] = first
    others = np.flatnonzero(np.arange(n) != first)
    share = _shares(f, v, others, partner[others], batch_size)
    clear = np.zeros(n, dtype=bool)
    clear[first] = True
    known = np.full(n, 0.5)
    known[others] = share
    # The second reference stands beside the first; everybody else beside one of the two.
    s[second] = _logit(known[second])
    s[others] = _logit(share) + s[partner[others]] * (partner[others] == second)
    clear[others] = _is_clear(share)
    if not clear[second]:  # then nobody beside it is known relative to the first
        clear[others[partner[others] == second]] = False
    queries = 2 * n - 1
    for _ in range(ROUNDS if refine else 0):
        unclear = np.flatnonzero(~clear)
        if not unclear.size:
            break
        beside = _best_partners(s, v, unclear, np.flatnonzero(clear))
        share = _shares(f, v, unclear, beside, batch_size)
        queries += unclear.size
        s[unclear] = _logit(share) + s[beside]
        clear[unclear] = _is_clear(share)
    return Recovered(s, v, queries)


def measure_deviation(
    f: SubBags,
    s: Array,
    v: Array,
    head_of: Ids | None,
    batch_size: int = BATCH,
    checks: int = CHECKS,
    tol: float = DEVIATION,
    seed: int = 0,
) -> float:
    """Largest |f - pooled| over random sub-bags; above `tol` times the largest |output| it is an error.

    Parameters
    ----------
    s, v : (H, n) log-masses and (n, C) values, with the bias in them
    head_of : (C,) the head of each class; None means head 0 for all
    """
    if checks < 1:
        raise ValueError(f"checks: expected at least one sub-bag, got {checks}")
    n = len(v)
    rng = np.random.default_rng(seed)
    sizes = np.unique(np.concatenate([[n], rng.integers(1, n + 1, size=checks - 1)]), return_counts=True)
    bags = [np.sort(rng.permutation(n)[:size]) for size, count in zip(*sizes, strict=True) for _ in range(count)]
    given = ask(f, bags, batch_size)
    heads = np.zeros(v.shape[1], dtype=np.intp) if head_of is None else head_of
    found = np.empty_like(given)
    for row, bag in enumerate(bags):
        mass = np.exp(s[:, bag] - s[:, bag].max(axis=1, keepdims=True))
        share = mass / mass.sum(axis=1, keepdims=True)
        found[row] = (share[heads] * v[bag].T).sum(axis=1)
    deviation = float(np.abs(found - given).max())
    scale = float(max(np.abs(given).max(), np.abs(v).max()))
    if deviation > tol * scale:
        worst = int(np.abs(found - given).max(axis=1).argmax())
        raise ValueError(
            f"f: expected a model that pools with one softmax; on {len(bags)} random sub-bags it differs from one by "
            f"up to {deviation:.2g} (a bag of {bags[worst].size}: {given[worst][:4].round(4)} where pooling gives "
            f"{found[worst][:4].round(4)}), more than {tol:g} * {scale:.3g}. Several heads, a layer that is not linear "
            "after the pooling, dropout left on, or attention given after its softmax look like this"
        )
    return deviation


def ask(f: SubBags, bags: list[Ids], batch_size: int) -> Array:
    """(m, C) outputs of sub-bags, asked in batches and checked."""
    if batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
    parts = []
    for start in range(0, len(bags), batch_size):
        batch = bags[start : start + batch_size]
        raw = f(batch)
        if hasattr(raw, "detach"):
            raw = raw.detach().cpu().double().numpy()
        out = np.asarray(raw, dtype=np.float64)
        if out.ndim not in (1, 2) or len(out) != len(batch) or out.size == 0:
            raise ValueError(f"f: expected ({len(batch)},) or ({len(batch)}, C) outputs, got shape {out.shape}")
        if not np.isfinite(out).all():
            raise ValueError(f"f: expected finite outputs, got {out[~np.isfinite(out)].flat[0]}")
        parts.append(out.reshape(len(batch), -1))
    if len({part.shape[1] for part in parts}) != 1:
        raise ValueError(f"f: expected as many outputs in every call, got {sorted({p.shape[1] for p in parts})}")
    return np.concatenate(parts)


def _shares(f: SubBags, v: Array, rows: Ids, partners: Ids, batch_size: int) -> Array:
    """Share of each row's instance in the pair with its partner: least squares over the classes, in [0, 1]."""
    pairs = ask(f, [np.array([i, j]) for i, j in zip(rows, partners, strict=True)], batch_size)
    apart = v[rows] - v[partners]
    size = (apart**2).sum(axis=1)
    share = ((pairs - v[partners]) * apart).sum(axis=1) / np.where(size == 0, 1.0, size)
    return np.where(size == 0, 0.5, share)


def _is_clear(share: Array) -> Any:
    return (share > CLEAR_SHARE) & (share < 1 - CLEAR_SHARE)


def _logit(share: Array) -> Array:
    """log(share / (1 - share)), within the range that rounding leaves."""
    kept = np.clip(share, 1e-16, 1 - 1e-16)
    return np.log(kept) - np.log1p(-kept)


def _best_partners(s: Array, v: Array, rows: Ids, candidates: Ids) -> Ids:
    """For each row the candidate whose pair shows its log-mass best: |v_i - v_j| share (1 - share) is largest."""
    found = np.empty(rows.size, dtype=np.intp)
    for at, i in enumerate(rows):
        share = 1 / (1 + np.exp(np.clip(s[candidates] - s[i], -700, 700)))
        shown = np.sqrt(((v[candidates] - v[i]) ** 2).sum(axis=1)) * share * (1 - share)
        found[at] = candidates[int(shown.argmax())]
    return found
