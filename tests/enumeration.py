"""Brute force over all 2^d coalitions, in extended precision: the oracle of the game's closed
forms.

Reads a game's raw arrays and nothing else of the library. Each coalition is shifted by its own
largest log-mass, so scores of 1e4 are no trouble.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

LD = np.longdouble


def coalitions(d):
    return ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)


def values(game, masks=None):
    """f of every coalition (row k of `coalitions` has the bits of k)."""
    if masks is None:
        masks = coalitions(game.d)
    if hasattr(game, "link"):
        x = LD(game.link.scale) * values(game.game, masks)
        links = {
            "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
            "exp": np.exp,
        }
        return links[game.link.name](x)
    if not hasattr(game, "s"):  # any function of coalitions
        return game.value(masks)
    f = np.full(len(masks), LD(game.bias))
    for h in range(game.H):
        s = np.where(masks, game.s[h], game.s_absent[h]).astype(LD)
        v = np.where(masks, game.v[h], game.v_absent[h]).astype(LD)
        s = np.concatenate([s, np.full((len(s), 1), LD(game.s_background[h]))], axis=1)
        v = np.concatenate([v, np.full((len(v), 1), LD(game.v_background[h]))], axis=1)
        top = s.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", under="ignore"):
            mass = np.exp(s - np.where(np.isneginf(top), 0, top))
            f += (mass * v).sum(axis=1) / mass.sum(axis=1)
    nothing = np.isneginf(game.s_background).all() and np.isneginf(game.s_absent).all()
    if nothing:
        f[~masks.any(axis=1)] = game.empty_value
    return f


def shapley(game):
    d = game.d
    f = values(game)
    masks = coalitions(game.d)
    size = masks.sum(axis=1)
    weight = np.array([1 / (LD(d) * math.comb(d - 1, k)) for k in range(d)])
    return np.array(
        [(weight[size[w]] * (f[w | (1 << j)] - f[w])).sum() for j, w in _without(masks)]
    )


def banzhaf(game):
    f = values(game)
    masks = coalitions(game.d)
    return np.array([(f[w | (1 << j)] - f[w]).mean() for j, w in _without(masks)])


def leave_one_out(game):
    f = values(game)
    full = 2**game.d - 1
    return np.array([f[full] - f[full ^ (1 << j)] for j in range(game.d)])


def interactions(game):
    d = game.d
    f = values(game)
    masks = coalitions(game.d)
    size = masks.sum(axis=1)
    out = np.diag(shapley(game))
    weight = np.array([1 / (LD(d - 1) * math.comb(d - 2, k)) for k in range(d - 1)])
    for j, without_j in _without(masks):
        for i in range(j):
            w = without_j[~masks[without_j, i]]
            second = f[w | (1 << i) | (1 << j)] - f[w | (1 << i)] - f[w | (1 << j)] + f[w]
            out[i, j] = out[j, i] = (weight[size[w]] * second).sum()
    return out


def by_size(game):
    """E[f | s players absent], s = 0..d."""
    f = values(game)
    absent = game.d - coalitions(game.d).sum(axis=1)
    return np.array([f[absent == s].mean() for s in range(game.d + 1)])


def semivalue(game, q):
    """Weight q_s on the coalitions of s others, alike within a size."""
    d = game.d
    f = values(game)
    masks = coalitions(game.d)
    size = masks.sum(axis=1)
    weight = np.array([LD(q[s]) / math.comb(d - 1, s) for s in range(d)])
    return np.array(
        [(weight[size[w]] * (f[w | (1 << j)] - f[w])).sum() for j, w in _without(masks)]
    )


def owen_by_orders(game, groups):
    """Mean change over all orders of the groups and of the members within them: what Owen's value
    is defined as.
    """
    f = values(game)
    total = np.zeros(game.d, dtype=LD)
    orders = 0
    for arrival in itertools.permutations(groups):
        for within in itertools.product(*(itertools.permutations(group) for group in arrival)):
            here = 0
            for j in itertools.chain(*within):
                total[j] += f[here | (1 << j)] - f[here]
                here |= 1 << j
            orders += 1
    return total / orders


def owen(game, groups):
    """The same as a sum over sets of other groups and sets of other members."""
    f = values(game)
    M = len(groups)
    out = np.zeros(game.d, dtype=LD)
    for g, group in enumerate(groups):
        others = [sum(1 << int(j) for j in other) for k, other in enumerate(groups) if k != g]
        for j in group:
            rest = [1 << int(k) for k in group if k != j]
            for wholes in _subsets(others):
                for members in _subsets(rest):
                    S = sum(wholes) + sum(members)
                    weight = (
                        LD(M)
                        * math.comb(M - 1, len(wholes))
                        * len(group)
                        * math.comb(len(rest), len(members))
                    )
                    out[j] += (f[S | (1 << int(j))] - f[S]) / weight
    return out


def _subsets(items):
    return itertools.chain.from_iterable(
        itertools.combinations(items, k) for k in range(len(items) + 1)
    )


def _without(masks):
    index = np.arange(len(masks))
    return [(j, index[~masks[:, j]]) for j in range(masks.shape[1])]
