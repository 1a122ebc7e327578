"""The enumeration itself: against answers known by hand, and shown to fail on wrong ones."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from proofs_check import brute_force as bf
from proofs_check import long_documents


def glove(S):
    """Players 1 and 2 own a left glove, 3 a right one; S is who is absent."""
    return Fraction(1 if 3 not in S and not {1, 2} <= S else 0)


def test_laws_are_laws_and_the_size_is_uniform():
    for d in range(1, 7):
        law = bf.sampling_law(d)
        assert sum(law.values()) == 1
        for s in range(1, d + 1):
            assert bf.probability(law, lambda S, s=s: len(S) == s) == Fraction(1, d)
        assert bf.probability(law, lambda S: not S) == 0


def test_fixed_size_law_has_every_subset_once():
    law = bf.fixed_size_law(6, 2)
    assert len(law) == math.comb(6, 2)
    assert set(law.values()) == {Fraction(1, 15)}


def test_shapley_and_banzhaf_of_the_glove_game():
    assert bf.shapley(3, glove) == [Fraction(1, 6), Fraction(1, 6), Fraction(2, 3)]
    assert bf.banzhaf(3, glove) == [Fraction(1, 4), Fraction(1, 4), Fraction(3, 4)]


def test_shapley_agrees_with_the_mean_over_orders():
    value = {S: Fraction(7 * len(S) ** 2 + sum(S), 1 + 3 * (2 in S)) for S in bf.subsets(4)}
    phi = [Fraction(0)] * 4
    orders = list(itertools.permutations(range(1, 5)))
    for order in orders:
        absent = frozenset(range(1, 5))
        for player in order:
            phi[player - 1] += (value[absent - {player}] - value[absent]) / len(orders)
            absent -= {player}
    assert bf.shapley(4, value.__getitem__) == phi


def test_solve_finds_the_solution_and_refuses_a_singular_matrix():
    rows = [[Fraction(0), Fraction(2)], [Fraction(3), Fraction(1)]]
    assert bf.solve(rows, [Fraction(4), Fraction(5)]) == [Fraction(1), Fraction(2)]
    with pytest.raises(ZeroDivisionError, match="singular"):
        bf.solve(
            [[Fraction(1), Fraction(2)], [Fraction(2), Fraction(4)]], [Fraction(1), Fraction(1)]
        )


def test_least_squares_residual_is_orthogonal_to_the_columns():
    d = 4
    law = bf.sampling_law(4)
    value = {S: Fraction(3 * len(S) ** 3 - sum(S) ** 2, 5) for S in bf.subsets(d)}
    beta = bf.lime_limit(d, value.__getitem__)
    for column in range(d + 1):
        moment = Fraction(0)
        for S, p in law.items():
            fit = beta[0] + sum((beta[j] for j in range(1, d + 1) if j not in S), Fraction(0))
            moment += p * (value[S] - fit) * (1 if column == 0 or column not in S else 0)
        assert moment == 0


def test_attention_value_is_a_weighted_mean():
    xi = [1, 2, 2, None]
    g = [Fraction(x) for x in (1, 2, 3, 4)]
    v = [Fraction(x) for x in (5, 6, 7, 8)]
    g_h = [Fraction(x) for x in (2, 1, 1, 4)]
    v_h = [Fraction(x) for x in (0, 1, 2, 8)]
    assert bf.attention_value(frozenset(), xi, g, v, g_h, v_h) == Fraction(5 + 12 + 21 + 32, 10)
    assert bf.attention_value(frozenset({2}), xi, g, v, g_h, v_h) == Fraction(
        5 + 1 + 2 + 32, 1 + 1 + 1 + 4
    )


def test_few_kinds_of_words_agree_with_enumeration():
    document = long_documents.LongDocument(
        [2, 3], [2, 1], [3, -1], [1, 3], [1, 2], padding=3, g_pad=2, v_pad=1
    )
    xi = [1, 2, 3, 4, 5, None, None, None]

    def spread(a, b, pad):
        return [Fraction(x) for x in (a, a, b, b, b, pad, pad, pad)]

    scores = [spread(2, 1, 2), spread(3, -1, 1), spread(1, 3, 2), spread(1, 2, 1)]
    exact = [float(x) for x in bf.lime_limit(5, lambda S: bf.attention_value(S, xi, *scores))[1:]]
    np.testing.assert_allclose(
        long_documents.lime_limit(document), [exact[0], exact[2]], rtol=1e-12
    )
    # The witness can fail: another mass of [UNK] gives another answer.
    scores[2][0] += 1
    wrong = bf.lime_limit(5, lambda S: bf.attention_value(S, xi, *scores))
    assert abs(float(wrong[1]) - exact[0]) > 1e-3


def test_the_witness_imports_nothing_of_ours():
    source = Path(bf.__file__).read_text(encoding="utf-8")
    assert "attn_closed_form" not in source
    assert "numpy" not in source
    assert "from ." not in source
