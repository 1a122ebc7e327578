"""The library against the two oracles of `proofs_check`, which share no code with it.

Enumeration in exact fractions, for documents that are small enough; sums over the numbers of
removed words of each kind, for documents of hundreds of words. Both know P1's documents: [UNK]
takes the place of a removed word.
"""

from fractions import Fraction

import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form import PooledGame
from attn_closed_form.lime import lime_first_order, lime_mean_field, lime_theorem_5_1
from proofs_check import brute_force as bf
from proofs_check import long_documents
from tests.oracles import checks

#: One head: a repeated word (1), four words, two padded positions. Masses are integers, so that log
#: and exp are tame.
XI = (1, 2, 1, 3, 4, None, None)
G = (3, 1, 2, 5, 1, 1, 2)
V = (2, -1, 1, 3, -4, 1, 0)
G_H = (1, 2, 1, 1, 3, 1, 2)
V_H = (0, 1, -2, 1, 1, 1, 0)
#: A second head for the same words: the model is the sum of both.
G2 = (1, 4, 1, 2, 2, 3, 1)
V2 = (-1, 2, 5, 0, 1, 2, -2)
G2_H = (2, 1, 3, 1, 1, 3, 1)
V2_H = (1, 1, 0, -1, 2, 2, -2)
D = 4
HEADS = ((G, V, G_H, V_H), (G2, V2, G2_H, V2_H))
#: The library's default tolerance is 1e-10 of the range; the values are of order one.
GUARANTEED = 1e-9
#: Both sides are finite sums in float64.
ROUNDING = 1e-11


def value(S, heads=HEADS):
    """The sum of the heads in exact fractions; S is the set of removed words."""
    return sum(
        bf.attention_value(S, XI, *[[Fraction(x) for x in row] for row in head]) for head in heads
    )


def game(heads=HEADS):
    """The same for the library: each position is a player, merged by word; padding is the
    background.
    """
    words = [i for i, word in enumerate(XI) if word is not None]
    pads = [i for i, word in enumerate(XI) if word is None]
    g, v, g_h, v_h = (np.array(rows, float) for rows in zip(*heads, strict=True))
    mass = g[:, pads].sum(axis=1)
    by_position = PooledGame.from_scores(
        s=np.log(g[:, words]),
        v=v[:, words],
        s_absent=np.log(g_h[:, words]),
        v_absent=v_h[:, words],
        s_background=np.log(mass),
        v_background=(g[:, pads] * v[:, pads]).sum(axis=1) / mass,
    )
    return by_position.merge([[i for i in words if XI[i] == word] for word in range(1, D + 1)])


def as_floats(fractions):
    return np.array([float(x) for x in fractions])


@checks(PooledGame.value, by="more digits")
def test_both_play_the_same_game():
    for S in bf.subsets(D):
        present = [word not in S for word in range(1, D + 1)]
        assert game().value(present) == pytest.approx(float(value(S)), abs=ROUNDING)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=checks(getattr(acf, name), by="more digits"))
        for name in ("shapley", "banzhaf")
    ],
)
def test_values_of_the_players(name):
    exact = as_floats(getattr(bf, name)(D, value))
    np.testing.assert_allclose(getattr(acf, name)(game()), exact, rtol=0, atol=GUARANTEED)
    # The comparison can fail: one head alone has other values.
    assert np.abs(getattr(acf, name)(game(HEADS[:1])) - exact).max() > 1e-2


@checks(acf.interactions, by="more digits")
def test_interactions():
    found = acf.interactions(game())
    for i in range(1, D + 1):
        for j in range(i + 1, D + 1):
            exact = float(bf.shapley_interaction(D, value, i, j))
            assert found[i - 1, j - 1] == pytest.approx(exact, abs=GUARANTEED)
            assert found[j - 1, i - 1] == pytest.approx(exact, abs=GUARANTEED)


@checks(acf.leave_one_out, by="more digits")
def test_leave_one_out():
    exact = as_floats(value(frozenset()) - value(frozenset({j})) for j in range(1, D + 1))
    np.testing.assert_allclose(acf.leave_one_out(game()), exact, rtol=0, atol=ROUNDING)


@checks(acf.expected_value_by_size, by="more digits")
def test_means_by_size():
    exact = as_floats(
        bf.expectation(bf.fixed_size_law(D, absent), value) for absent in range(D + 1)
    )
    np.testing.assert_allclose(acf.expected_value_by_size(game()), exact, rtol=0, atol=GUARANTEED)


def test_lime_without_kernel_and_ridge():
    found = acf.lime_limit(game(), np.inf, num_samples=None)
    exact = as_floats(bf.lime_limit(D, value))
    np.testing.assert_allclose(np.r_[found.intercept, found.coef], exact, rtol=0, atol=GUARANTEED)


@checks(acf.lime_limit, by="more digits")
def test_lime_with_the_kernel_of_the_package_and_its_ridge():
    """With n samples lime draws n - 1 and adds the document itself, of weight 1."""
    n = 5000
    width = 25.0
    law = {S: p * Fraction(n - 1, n) for S, p in bf.sampling_law(D).items()} | {
        frozenset(): Fraction(1, n)
    }

    def kernel(removed):
        distance = 100 * (1 - np.sqrt(1 - removed / D))
        return Fraction(float(np.sqrt(np.exp(-(distance**2) / width**2))))

    exact = as_floats(bf.lime_limit(D, value, weight=kernel, ridge=Fraction(1, n), law=law))
    found = acf.lime_limit(game(), width, num_samples=n)
    np.testing.assert_allclose(np.r_[found.intercept, found.coef], exact, rtol=0, atol=GUARANTEED)


LONG = long_documents.LongDocument(
    n=[60, 40],
    g=[1.5, 0.7],
    v=[1.0, -2.0],
    g_h=[1.0, 1.2],
    v_h=[0.3, 0.5],
    padding=300,
    g_pad=1.0,
    v_pad=0.2,
)


def long_game():
    """`LONG` for the library, one player per word."""
    spread = {name: np.repeat(getattr(LONG, name), LONG.n) for name in ("g", "v", "g_h", "v_h")}
    return PooledGame.from_scores(
        np.log(spread["g"]),
        spread["v"],
        np.log(spread["g_h"]),
        spread["v_h"],
        s_background=np.log(LONG.padding * LONG.g_pad),
        v_background=LONG.v_pad,
    )


@pytest.mark.parametrize(
    ("library", "oracle", "tolerance"),
    [
        (
            lambda g: acf.lime_limit(g, np.inf, num_samples=None).coef,
            long_documents.lime_limit,
            GUARANTEED,
        ),
        pytest.param(
            lime_first_order,
            long_documents.first_order,
            ROUNDING,
            marks=checks(lime_first_order, by="enumeration"),
        ),
        pytest.param(
            lime_mean_field,
            long_documents.integral_form,
            ROUNDING,
            marks=checks(lime_mean_field, by="enumeration"),
        ),
        pytest.param(
            lime_theorem_5_1,
            long_documents.printed_theorem,
            ROUNDING,
            marks=checks(lime_theorem_5_1, by="enumeration"),
        ),
    ],
    ids=["exact limit", "first order", "mean field", "as printed"],
)
def test_long_documents(library, oracle, tolerance):
    exact = np.repeat(oracle(LONG), LONG.n)
    np.testing.assert_allclose(library(long_game()), exact, rtol=0, atol=tolerance)
    assert np.abs(exact).max() > 1e3 * tolerance  # or agreement would say nothing
