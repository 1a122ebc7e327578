"""Importances from pairs: tokens that their reference hardly shows are measured again next to a
similar one.
"""

from fractions import Fraction

import numpy as np
import pytest

from attn_closed_form import Slalom
from attn_closed_form.slalom import slalom_recover
from attn_closed_form.slalom.recover import CLEAR_SHARE, recover
from tests.oracles import checks


class Pairs:
    """A black box that keeps the pairs it was asked for."""

    def __init__(self, truth):
        self.truth = truth
        self.pairs = []

    def __call__(self, sequences):
        self.pairs += [tuple(map(int, ids)) for ids in sequences if len(ids) == 2]
        return self.truth.predict_many(sequences)


def test_importances_are_right_after_a_chain_of_references():
    """Each token is e^4 times as heavy as the one before, so most are unclear next to the first
    reference.
    """
    s = np.arange(0.0, 24.0, 4.0)
    truth = Slalom(np.arange(6), s, [3.0, -1.0, 2.0, -2.0, 1.0, 0.5])
    box = Pairs(truth)
    found, values, queries = recover(box, truth.ids)
    np.testing.assert_allclose(found - found.mean(), s - s.mean(), atol=1e-9)
    np.testing.assert_allclose(values, truth.v)
    # Some partner of a second measurement has an importance far from zero, so its sign matters.
    again = box.pairs[5:]
    assert queries == 11 + len(again)
    assert any(abs(found[j]) > 3 for _, j in again)


# Token 0 is the first reference and token 1, which is far too light for it, the second. Token 2 is
# as light, and its value is nearer to the first, so that it is paired with the second. The others
# are as heavy as the first.
LIGHT = Slalom(np.arange(5), [0.0, -9.0, -9.5, -0.5, 0.3], [-5.0, 3.0, -1.5, 2.5, 2.8])


def test_what_is_measured_next_to_an_unclear_reference_is_unclear():
    box = Pairs(LIGHT)
    found, _, queries = recover(box, LIGHT.ids)
    np.testing.assert_allclose(found - found.mean(), LIGHT.s - LIGHT.s.mean(), atol=1e-9)
    assert (2, 1) in box.pairs[:4]
    # The pair of tokens 2 and 1 is clear, but token 1 is not. So both are measured again.
    share = 1 / (1 + np.exp(-0.5))
    assert min(share, 1 - share) > CLEAR_SHARE
    assert {pair[0] for pair in box.pairs[4:]} == {1, 2}
    assert queries == 9 + len(box.pairs[4:])


def test_without_refinement_every_token_is_asked_for_once():
    box = Pairs(LIGHT)
    _, _, queries = recover(box, LIGHT.ids, refine=False)
    assert queries == 9 and len(box.pairs) == 4


@pytest.mark.parametrize("refine", [True, False])
def test_equal_values_have_no_importances(refine):
    truth = Slalom(np.arange(3), [0.0, 1.0, 2.0], [1.0, 1.0, 1.0])
    found, _, queries = recover(Pairs(truth), truth.ids, refine=refine)
    assert (found == 0).all() and queries == 3


@checks(slalom_recover, by="more digits")
@pytest.mark.parametrize("seed", range(4))
def test_a_slalom_in_exact_fractions_is_recovered(seed):
    """Whole masses and values: the black box answers with fractions, rounded once."""
    rng = np.random.default_rng(seed)
    g = rng.integers(1, 9, 6).tolist()
    v = rng.permutation(19)[:6].tolist()

    def black_box(sequences):
        answers = []
        for sequence in sequences:
            tokens = np.asarray(sequence).tolist()
            total = sum(Fraction(g[t]) for t in tokens)
            answers.append(float(sum(Fraction(g[t] * v[t]) for t in tokens) / total))
        return np.array(answers)

    found = slalom_recover(black_box, np.arange(6))
    importances = np.log(g)
    np.testing.assert_allclose(found.s, importances - importances.mean(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.v, v, rtol=0, atol=1e-12)
