"""Recovering a SLALOM from a black box that is one, with as few questions as possible (P2, Prop. 5.2 and B.6).

A token alone shows its value (Eq. 44). A pair (tau, ref) of different values shows a difference of importances:

    s(tau) - s(ref) = log((F - v(ref)) / (v(tau) - F)).

Where this departs from P2: Eq. 55 has the wrong sign (log(1/g - 1) is s(ref) - s(tau)), Eq. 56 needs plus
d(theta^, theta), and Eq. 58 must read (gamma - sum eta)/|V|. References are picked for accuracy.
"""

from __future__ import annotations

import numpy as np

from .._types import Tokens
from .black_box import BlackBox, ask
from .slalom import Slalom, as_ids


def slalom_recover(f: BlackBox, ids: Tokens, gamma: float = 0.0) -> Slalom:
    """SLALOM of a black box that is one, from 2|V| - 1 sequences (P2, Prop. 5.2, corrected).

    A token alone shows its value (Eq. 44). A pair (tau, ref) of different values shows a difference of importances:
    s(tau) - s(ref) = log((F - v(ref))/(v(tau) - F)). Two references of very different values are enough: each token
    is paired with the one further from its own value, and the two with each other.

    Parameters
    ----------
    f : takes a list of id arrays, returns (n,) outputs, or (n, C) of several classes; asked twice, for |V| single
        tokens and for |V| - 1 pairs
    ids : (V,) distinct ids
    gamma : sum of the importances

    Returns
    -------
    Slalom

    Raises
    ------
    ValueError
        if all values are equal (importances have no effect then), or if a pair's output does not lie strictly between
        its tokens' values: then f is no SLALOM, or one importance is lost in the rounding of the other (a difference
        above about 36).

    Examples
    --------
    >>> truth = Slalom(ids=[10, 20, 30], s=[-1.0, 0.0, 1.0], v=[1.0, 1.0, 0.5])
    >>> found = slalom_recover(truth.predict_many, [10, 20, 30])
    >>> bool(np.allclose(found.s, truth.s) and np.allclose(found.v, truth.v))
    True
    """
    tokens = as_ids("ids", ids)
    if tokens.size == 0 or np.unique(tokens).size != tokens.size:
        raise ValueError(f"ids: expected at least one id, all distinct, got {tokens.tolist()}")
    v = ask(f, [tokens[i : i + 1] for i in range(tokens.size)])
    flat = v.reshape(tokens.size, -1)
    if tokens.size == 1:
        return Slalom(tokens, np.array([gamma]), v, gamma)
    first = int(((flat - flat.mean(axis=0)) ** 2).sum(axis=1).argmax())
    from_first = ((flat - flat[first]) ** 2).sum(axis=1)
    second = int(from_first.argmax())
    if from_first[second] == 0:
        raise ValueError(
            f"f: expected a SLALOM that is not constant, got the same output for all {tokens.size} single tokens; "
            "its importances have no effect and cannot be recovered"
        )
    from_second = ((flat - flat[second]) ** 2).sum(axis=1)
    partner = np.where(from_first >= from_second, first, second)
    partner[second] = first
    others = np.flatnonzero(np.arange(tokens.size) != first)
    pairs = ask(f, [tokens[[i, partner[i]]] for i in others]).reshape(others.size, -1)
    apart = flat[others] - flat[partner[others]]
    share = ((pairs - flat[partner[others]]) * apart).sum(axis=1)
    rest = ((flat[others] - pairs) * apart).sum(axis=1)
    if (bad := np.flatnonzero(~((share > 0) & (rest > 0)))).size:
        i = others[bad[0]]
        raise ValueError(
            f"f: expected the output of the pair [{tokens[i]}, {tokens[partner[i]]}] strictly between those of its "
            f"tokens, {flat[i]} and {flat[partner[i]]}, got {pairs[bad[0]]}: no SLALOM, or importances too far apart"
        )
    s = np.zeros(tokens.size)
    s[others] = np.log(share) - np.log(rest)  # relative to the partner
    s[others] += np.where(partner[others] == second, s[second], 0.0)
    return Slalom(tokens, s, v, gamma)
