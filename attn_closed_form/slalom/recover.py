"""A SLALOM, or any bag pooled with one softmax, from the outputs of single tokens and pairs (P2,
Prop. 5.2 and B.6).

A token alone shows its value (Eq. 44). A pair (i, j) of different values shows a difference of
importances:

    s_i - s_j = log((F({i, j}) - v_j) / (v_i - F({i, j}))).

All pairs contain one of two references of very different values: each token is paired with the
reference that is further from its value, and the references with each other. V single tokens and V
- 1 pairs therefore determine everything. A token that is so much lighter or heavier than its
reference that the pair hardly shows it can be measured once more next to a token of similar weight
(`refine`).

Where this departs from P2: Eq. 55 has the wrong sign (log(1/g - 1) is s(ref) - s(tau)), Eq. 56
needs plus d(theta^, theta), and Eq. 58 must read (gamma - sum eta)/|V|. References are picked for
accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._arrays import as_array, finite, usual_float_errors
from .._progress import Report
from .._types import Array, Ids, Masks, Tokens
from .slalom import Slalom, as_ids

# A black box is any function from a list of id arrays to one output per sequence, or one per
# sequence and class.
BlackBox = Callable[[list[Ids]], Any]

# Tuning: sequences in one call. Enough to make the overhead of a call negligible, few enough to
# show progress.
BATCH_SIZE = 1024
# Tuning: a pair shows its lighter token too coarsely if the token's share of the mass is below
# this: two digits less.
CLEAR_SHARE = 1e-2


@usual_float_errors
def slalom_recover(f: BlackBox, ids: Tokens, gamma: float = 0.0) -> Slalom:
    """Recover the SLALOM that a black box computes from 2|V| - 1 sequences (P2, Prop. 5.2,
    corrected).

    Parameters
    ----------
    f : takes a list of n id arrays and returns (n,) outputs, or (n, C) for several classes; it is
        called for |V| single tokens and |V| - 1 pairs
    ids : (V,) distinct ids
    gamma : sum of the importances

    Returns
    -------
    Slalom on the ids
        the SLALOM that gives the same outputs as `f`, up to a shift of all importances

    Raises
    ------
    ValueError
        if all values are equal (importances have no effect then), or if a pair's output is not
        strictly between its tokens' values

    Examples
    --------
    >>> truth = Slalom(ids=[10, 20, 30], s=[-1.0, 0.0, 1.0], v=[1.0, 1.0, 0.5])
    >>> slalom = slalom_recover(truth.predict_many, [10, 20, 30])
    >>> slalom.s.round(6), slalom.v.round(6)
    (array([-1.,  0.,  1.]), array([1. , 1. , 0.5]))
    """
    tokens = as_ids("ids", ids)
    if tokens.size == 0 or np.unique(tokens).size != tokens.size:
        raise ValueError(f"ids: expected at least one id, all distinct, got {tokens.tolist()}")
    s, v, queries = recover(f, tokens, refine=False, strict=True)
    if queries == tokens.size > 1:
        raise ValueError(
            "f: expected a SLALOM that is not constant, got the same output for all "
            f"{tokens.size} single tokens; its importances have no effect and cannot be recovered"
        )
    return Slalom(ids=tokens, s=s, v=v, gamma=gamma)


def recover(
    f: BlackBox, ids: Ids, batch_size: int = BATCH_SIZE, refine: bool = True, strict: bool = False
) -> tuple[Array, Array, int]:
    """Recover importances (n,), values (n,) or (n, C) of distinct ids, and count the queries.

    With `refine`, tokens that 2 n - 1 sequences show too coarsely are queried again. With `strict`,
    an output of a pair that is not between those of its tokens is an error. If all values are
    equal, importances are zero.
    """
    n = ids.size
    singles = [ids[i : i + 1] for i in range(n)]
    values = ask(f, singles, batch_size)
    v = values.reshape(n, -1)
    # The two references: the value furthest from the mean, and the one furthest from that.
    first = int(_squared_distances(v, v.mean(axis=0)).argmax())
    from_first = _squared_distances(v, v[first])
    second = int(from_first.argmax())
    from_second = _squared_distances(v, v[second])
    s = np.zeros(n)
    if from_first[second] == 0:
        return s, values, n
    partner = np.where(from_first >= from_second, first, second)
    partner[second] = first

    pairs = Pairs(f, ids, v, batch_size, strict)
    others = np.flatnonzero(np.arange(n) != first)
    s[others], clear_pair = pairs.log_odds(others, partner[others])
    clear = np.ones(n, dtype=bool)
    clear[others] = clear_pair
    by_second = others[partner[others] == second]
    s[by_second] += s[second]
    # What was measured next to an unclear reference is unclear.
    clear[by_second] &= clear[second]
    queries = 2 * n - 1
    # Tuning: how often unclear tokens are measured again. Each round reaches tokens e^4.6 lighter
    # than the last one, so that eight of them cover everything between e^-37 and e^37.
    refinements = 8
    for _ in range(refinements if refine else 0):
        unclear = np.flatnonzero(~clear)
        if not unclear.size:
            break
        candidates = np.flatnonzero(clear)
        best = [pairs.best_partner(i, candidates, s) for i in unclear.tolist()]
        partners = np.array(best, dtype=np.intp)
        log_odds, clear[unclear] = pairs.log_odds(unclear, partners)
        s[unclear] = log_odds + s[partners]
        queries += unclear.size
    return s, values, queries


def _squared_distances(v: Array, center: Array) -> Array:
    """Return the (n,) squared distances of values (n, C) from one of them."""
    return ((v - center) ** 2).sum(axis=1)


class Pairs(NamedTuple):
    """A black box that is asked for pairs of tokens, whose values v (n, C) are known."""

    f: BlackBox
    ids: Ids
    v: Array
    batch_size: int
    strict: bool  # whether an output that is not between those of its tokens is an error

    def log_odds(self, rows: Ids, partners: Ids) -> tuple[Array, Masks]:
        """Return the (m,) log-odds of each row's mass in the pair with its partner, and whether
        they are clear.
        """
        v = self.v
        sequences = [self.ids[[i, j]] for i, j in zip(rows, partners, strict=True)]
        answers = ask(self.f, sequences, self.batch_size)
        outputs = answers.reshape(rows.size, -1)
        own = v[rows]
        of_partner = v[partners]
        apart = own - of_partner
        size = np.maximum((apart**2).sum(axis=1), 1e-300)
        # Least squares over the classes. Both shares are computed from differences of outputs,
        # which keep their digits.
        share = ((outputs - of_partner) * apart).sum(axis=1) / size
        partner_share = ((own - outputs) * apart).sum(axis=1) / size
        outside = np.flatnonzero(~((share > 0) & (partner_share > 0)))
        if self.strict and outside.size:
            i = rows[outside[0]]
            j = partners[outside[0]]
            raise ValueError(
                f"f: expected the output of the pair [{self.ids[i]}, {self.ids[j]}] strictly "
                f"between those of its tokens, {v[i]} and {v[j]}, got {outputs[outside[0]]}: not a "
                f"SLALOM, or importances too far apart"
            )
        # The smallest share that float64 can show next to 1.
        least_share = 1e-16
        # A share that rounding made zero or negative counts as the smallest one.
        log_share = np.log(np.maximum(share, least_share))
        log_partner_share = np.log(np.maximum(partner_share, least_share))
        clear = np.minimum(share, partner_share) > CLEAR_SHARE
        return log_share - log_partner_share, clear

    def best_partner(self, i: int, candidates: Ids, s: Array) -> int:
        """Return the candidate whose pair with token i shows the importance best.

        The output changes with the importance by |v_i - v_j| share (1 - share).
        """
        log_odds = np.clip(s[candidates] - s[i], -700, 700)
        share = 1 / (1 + np.exp(log_odds))
        squared = _squared_distances(self.v[candidates], self.v[i])
        distance = np.sqrt(squared)
        signal = distance * share * (1 - share)
        return int(candidates[int(signal.argmax())])


def remembered(known: dict[bytes, Array], f: BlackBox, sequences: Sequence[Ids]) -> Array:
    """Return outputs (n,) or (n, C) of sequences, each evaluated once; `known` caches them by their
    bytes.
    """
    keys = [np.asarray(sequence, dtype=np.intp).tobytes() for sequence in sequences]
    new = {}
    for key, sequence in zip(keys, sequences, strict=True):
        if key not in known:
            new[key] = sequence
    if new:
        outputs = f(list(new.values()))
        known.update(zip(new, outputs, strict=True))
    return np.array([known[key] for key in keys])


def ask(
    f: BlackBox,
    sequences: Sequence[Ids],
    batch_size: int = BATCH_SIZE,
    report: Report | None = None,
) -> Array:
    """Evaluate a black box on at most `batch_size` sequences per call, and check its (n,) or (n, C)
    outputs.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
    parts = []
    for start in range(0, len(sequences), batch_size):
        if report is not None:
            report("model", start, len(sequences))
        batch = list(sequences[start : start + batch_size])
        outputs = as_array(f(batch))
        if outputs.ndim not in (1, 2) or len(outputs) != len(batch) or outputs.size == 0:
            raise ValueError(
                f"f: expected ({len(batch)},) or ({len(batch)}, C) outputs, got shape "
                f"{outputs.shape}"
            )
        parts.append(finite("f", outputs))
    if len({part.shape[1:] for part in parts}) > 1:
        raise ValueError(f"f: expected outputs of one shape, got {[part.shape for part in parts]}")
    return np.concatenate(parts)
