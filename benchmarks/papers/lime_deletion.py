"""LIME of P1's model when words are deleted and the rest moves up: a mean field that follows the
positions.

Theorem 5.1 puts [UNK] in the place of a word. The lime package, and so P1's experiments, delete the
word: those behind it move up by one position and one more [UNK] pads the end. In a model with
positions that is another function.

With a share p of the words absent, token u of a document has u - 1 - B tokens left before it, B ~
Bin(u - 1, p), so that its expected mass and mass times value are those of the position 1 + Bin(u -
1, 1 - p). A head's log-mass is a sum of a token's part and a position's part
(`AttentionWeights.collapse`), so that these expectations are a table by position, the same for
every document (`Places`). The sums over a document give numerator N(p) and denominator D(p). A word
that is kept adds its own mass, moves every later token by one position, and takes one [UNK] from
the end:

    dN_j(p) = sum over t with xi_t = j of
              [own part of t + (1 - p) sum_{u > t} (moved part of u) + moved padding]

and dD_j alike. LIME weighs the exact change of the ratio between "kept" and "absent",

    (N + p dN)/(D + p dD) - (N - (1-p) dN)/(D - (1-p) dD),

with its kernel, as `lime_mean_field` does. What remains is the mean field's assumption: the ratio
of the means stands for the mean of the ratio.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attn_closed_form import AttentionWeights
from attn_closed_form._arrays import numbered
from attn_closed_form._legendre import legendre_rule
from attn_closed_form._types import Array

from .lime_runs import Ids

# Nodes in sqrt(1 - p). Tuning: 24 and 48 give the same coefficients to six digits for 256
# positions.
NODES = 32
# LIME's default kernel, as in `attn_closed_form.lime`.
KERNEL_WIDTH = 25.0


class Shares(NamedTuple):
    """Nodes p of the rule and LIME's kernel there, as weights that add up to one, both (P,)."""

    p: Array
    kernel: Array


class Places(NamedTuple):
    """Expectations over positions, by the number of tokens before, (T_max, P, K) each.

    `mass` and `value` are e^s and e^s u of a token's position part after n tokens of which each is
    kept with probability 1 - p; `pad` and `pad_value` are the sums over all later positions. The
    `next` ones are one position further on.
    """

    mass: Array
    value: Array
    pad: Array
    pad_value: Array
    mass_next: Array
    value_next: Array
    pad_next: Array
    pad_value_next: Array


def shares(kernel_width: float = KERNEL_WIDTH) -> Shares:
    """The rule in p for LIME's kernel."""
    y, w = legendre_rule(NODES)
    kernel = 2 * y * w * np.exp(-((100 * (1 - y) / kernel_width) ** 2) / 2)
    return Shares(1 - y**2, kernel / kernel.sum())


def places(weights: AttentionWeights, rule: Shares, output: int = 0) -> Places:
    """The tables of a model with positions."""
    tables = weights.collapse
    if weights.T_max is None:
        raise ValueError("weights: expected a model with positions, got one without")
    mass = np.exp(tables.s_pos)
    value = mass * tables.u_pos[:, :, output]
    own = np.stack([mass, value])
    # [UNK] at every later position: sums from the end.
    unk_mass = mass * np.exp(tables.s_tok[weights.unk])
    unk_value = unk_mass * (tables.u_tok[weights.unk, :, output] + tables.u_pos[:, :, output])
    tail = np.cumsum(np.stack([unk_mass, unk_value])[:, ::-1], axis=1)[:, ::-1]
    start = np.concatenate([own, tail])
    # Behind the last position there is nothing.
    empty = np.zeros_like(start[:, :1])
    at = np.broadcast_to(
        np.concatenate([start, empty], axis=1)[:, :, None],
        (len(start), weights.T_max + 1, rule.p.size, weights.K),
    ).copy()
    first = []
    later = []
    p = rule.p[:, None]
    for _ in range(weights.T_max):
        # E[h(x + B_{n+1})] = p E[h(x + B_n)] + (1 - p) E[h(x + 1 + B_n)], with x = 1 and 2.
        first.append(at[:, 1].copy())
        later.append(at[:, min(2, weights.T_max)].copy())
        at[:, :-1] = p * at[:, :-1] + (1 - p) * at[:, 1:]
    return Places(*np.stack(first, axis=1), *np.stack(later, axis=1))


def mean_field_deleted(
    weights: AttentionWeights, ids: Ids, rule: Shares, table: Places, output: int = 0
) -> Array:
    """LIME's coefficients of the distinct words of a document when words are deleted, (d,)."""
    tables = weights.collapse
    T = len(ids)
    p = rule.p[:, None]
    kept = 1 - p
    s = np.exp(tables.s_tok[ids])[:, None]
    u = tables.u_tok[ids, :, output][:, None]
    mass = s * table.mass[:T]
    value = s * (u * table.mass[:T] + table.value[:T])
    # How a token's part changes if one more token stands before it.
    before = np.maximum(np.arange(T) - 1, 0)
    moved_mass = s * (table.mass_next[before] - table.mass[before])
    moved_value = s * (
        u * (table.mass_next[before] - table.mass[before])
        + (table.value_next[before] - table.value[before])
    )
    moved_mass[0] = 0.0
    moved_value[0] = 0.0
    first = np.exp(tables.s_tok[weights.cls] + tables.s_pos[0])
    first_value = first * (tables.u_tok[weights.cls, :, output] + tables.u_pos[0, :, output])
    D = first + (kept * mass).sum(axis=0) + table.pad[T]
    N = first_value + (kept * value).sum(axis=0) + table.pad_value[T]
    # What one token adds, (T, P, K): its own part, what it moves behind it, and one [UNK] less at
    # the end.
    d_mass = mass + kept * _behind(moved_mass) + table.pad_next[T - 1] - table.pad[T - 1]
    d_value = (
        value + kept * _behind(moved_value) + table.pad_value_next[T - 1] - table.pad_value[T - 1]
    )
    word = numbered(ids)[0]
    d = int(word.max()) + 1
    dD = np.zeros((d, *d_mass.shape[1:]))
    dN = np.zeros_like(dD)
    np.add.at(dD, word, d_mass)
    np.add.at(dN, word, d_value)
    change = (N + p * dN) / (D + p * dD) - (N - kept * dN) / (D - kept * dD)
    spread = rule.kernel * rule.p * (1 - rule.p)
    single = change.sum(axis=2) @ (spread / spread.sum()) / weights.K
    # What all words have in common: the slope of f in the share that is kept.
    f = (N / D).sum(axis=1) / weights.K
    centered = rule.kernel @ rule.p - rule.p
    common = (rule.kernel * centered) @ f / (d * (rule.kernel @ centered**2))
    return single - single.mean() + common


def _behind(moved: Array) -> Array:
    """Sums over all later tokens."""
    return np.cumsum(moved[::-1], axis=0)[::-1] - moved
