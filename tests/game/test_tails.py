"""Games with a function after the pooling: values of coalitions and along orders, against loops
over the coalitions.
"""

from __future__ import annotations

import numpy as np
import pytest

from attn_closed_form.game.scores import PooledScores
from attn_closed_form.game.tails import TailGame
from tests.oracles import checks

D = 7
C = 3
H = 2


def random_scores(seed: int, replaced: bool, background: bool) -> PooledScores:
    """Scores of seven players under two heads, whose five value rows belong to three pooled
    numbers.
    """
    rng = np.random.default_rng(seed)
    rows = 5
    absent = {}
    if replaced:
        absent = {"s_absent": rng.normal(size=(H, D)), "v_absent": rng.normal(size=(rows, D))}
    if background:
        absent["s_background"] = rng.normal(size=H)
        absent["v_background"] = rng.normal(size=rows)
    return PooledScores(
        s=3 * rng.normal(size=(H, D)),
        v=rng.normal(size=(rows, D)),
        bias=rng.normal(size=C),
        head=np.array([0, 0, 0, 1, 1]),
        output=np.array([0, 1, 2, 0, 2]),
        **absent,
    )


def pooled_by_loops(scores: PooledScores, mask: np.ndarray) -> np.ndarray:
    """The pooled vector of one coalition from its definition."""
    vector = scores.bias.copy()
    for row, (head, output) in enumerate(zip(scores.head, scores.output, strict=True)):
        masses = [np.exp(scores.s_background[head])]
        values = [scores.v_background[row]]
        for j in range(D):
            if mask[j]:
                masses.append(np.exp(scores.s[head, j]))
                values.append(scores.v[row, j])
            elif scores.s_absent is not None:
                masses.append(np.exp(scores.s_absent[head, j]))
                values.append(scores.v_absent[row, j])
        if sum(masses) > 0:
            vector[output] += np.dot(masses, values) / sum(masses)
    return vector


def tail(vectors: np.ndarray) -> np.ndarray:
    """A tail with two outputs that mixes the pooled numbers."""
    return np.stack([np.tanh(vectors).sum(axis=1), np.linalg.norm(vectors, axis=1)], axis=1)


@checks(TailGame.value, by="enumeration", through=pooled_by_loops)
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("background", [False, True])
def test_values_of_coalitions_and_along_orders_follow_the_definition(
    replaced: bool, background: bool
) -> None:
    game = TailGame(random_scores(1, replaced, background), tail)
    orders = np.array([np.random.default_rng(seed).permutation(D) for seed in range(4)])
    along = game.along(orders)
    assert along.shape == (4, D + 1, 2)
    for order, values in zip(orders, along, strict=True):
        mask = np.zeros(D, dtype=bool)
        for k in range(D + 1):
            expected = tail(pooled_by_loops(game.scores, mask)[None])[0]
            np.testing.assert_allclose(values[k], expected, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(game.value(mask[None])[0], expected, rtol=1e-12, atol=1e-12)
            if k < D:
                mask[order[k]] = True


def test_a_direction_of_the_pooled_vector_is_a_pooled_game() -> None:
    game = TailGame(random_scores(2, True, True), tail)
    theta = np.array([0.5, -2.0, 1.0])
    masks = np.random.default_rng(0).random((9, D)) < 0.5
    np.testing.assert_allclose(
        game.direction(theta).value(masks), game.pooled(masks) @ theta, rtol=1e-12, atol=1e-12
    )


def test_a_heavy_player_leaves_the_digits_of_the_light_ones() -> None:
    """After a player that outweighs all others by e^60 is replaced, the light ones count in
    full.
    """
    s = np.array([[60.0, 0.0, 0.5]])
    scores = PooledScores(
        s=s,
        v=np.array([[1.0, 2.0, -3.0]]),
        bias=np.zeros(1),
        s_absent=np.array([[-1.0, -1.0, -1.0]]),
        v_absent=np.zeros((1, 3)),
    )
    game = TailGame(scores, lambda vectors: vectors[:, 0])
    masks = np.array([[False, True, False], [False, True, True]])
    along = game.along(np.array([[1, 2, 0]]))[0]
    np.testing.assert_allclose(along[1:3], game.value(masks), rtol=1e-13)
