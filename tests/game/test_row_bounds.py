"""The bound of a row on ellipses around an interval of p is a bound, and not an absurd one."""

import numpy as np
import pytest

from attn_closed_form.game import row_bounds
from attn_closed_form.game.budget import budget
from attn_closed_form.game.engine import rows_of
from attn_closed_form.game.node_counts import (
    OUTSIDE,
    ROW_FACTOR,
    ROW_THETA,
    Interval,
    legendre_counts,
    log_bound,
    relevant_interval,
)
from tests.problems import random_game

KINDS = ["deleted", "deleted+background", "replaced", "replaced+background"]


def on_ellipse(rows, p):
    """|E_p[f]|, largest |Delta_j| and |I_ij| of every row at complex p (r,), straight from the formulas."""
    light = np.zeros(rows.E.shape, dtype=bool) if rows.light is None else rows.light
    S = rows.S_heavy + (0 if rows.S_light is None else rows.S_light)
    q = np.where(light, 1 - p[:, None], p[:, None])
    Y = 1 - q * rows.G
    sigma = 1 / Y
    P = rows.weight * np.prod(Y, axis=1)
    num = rows.N_0 - (q * S * sigma).sum(axis=1)
    X, Z = rows.G * sigma, S * sigma**2
    delta = np.abs(P[:, None] * (X * num[:, None] + Z)).max(axis=1)
    i, j = 0, rows.E.shape[1] - 1
    pair = np.abs(P * (num * X[:, i] * X[:, j] + X[:, i] * Z[:, j] + Z[:, i] * X[:, j])) if i < j else 0 * delta
    return np.abs(P * num), delta, pair


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("d", "spread", "end"), [(1, 2.0, 1.0), (2, 4.0, 0.5), (7, 10.0, 1.0), (40, 1.0, 1.0), (60, 6.0, 0.2)]
)
def test_rows_stay_below_their_bound(kind, d, spread, end):
    game = random_game(d, d, 2, kind, spread)
    for rows in rows_of(game, budget(game, 1e-8)):
        interval = Interval(np.zeros(rows.weight.size), np.full(rows.weight.size, end))
        bounds = [log_bound(rows.sums, interval, ROW_THETA, differences) for differences in (False, True)]
        largest = np.full((2, rows.weight.size, ROW_THETA.size), -np.inf)
        for k, theta in enumerate(ROW_THETA):
            for phi in np.linspace(0, np.pi, 25):
                z = np.cosh(theta) * np.cos(phi) + 1j * np.sinh(theta) * np.sin(phi)
                mean, delta, pair = on_ellipse(rows, np.full(rows.weight.size, end / 2 * (1 + z)))
                with np.errstate(divide="ignore"):
                    largest[0, :, k] = np.maximum(largest[0, :, k], np.log(np.maximum(mean, np.maximum(delta, pair))))
                    largest[1, :, k] = np.maximum(largest[1, :, k], np.log(np.maximum(delta, pair)))
        for bound, found in zip(bounds, largest, strict=True):
            assert (found <= bound).all()
        assert (bounds[1] <= bounds[0] + np.log(3)).all()


def test_the_bound_is_within_a_few_powers_of_e():
    game = random_game(3, 40, 1, "deleted+background", 2.0)
    (rows,) = rows_of(game, budget(game, 1e-8))
    interval = Interval(np.zeros(rows.weight.size), np.ones(rows.weight.size))
    theta = ROW_THETA[5:6]
    bound = log_bound(rows.sums, interval, theta, True)[:, 0]
    _, delta, _ = on_ellipse(rows, np.full(rows.weight.size, (1 - np.cosh(theta[0])) / 2 + 0j))
    assert (bound - np.log(delta) < 9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_cannot_matter(kind):
    game = random_game(5, 300, 1, kind, 8.0)
    log_allowed = np.log(1e-12)
    cut = 0
    for rows in rows_of(game, budget(game, 1e-8)):
        first, last = relevant_interval(rows.sums, log_allowed)
        for p in np.linspace(1e-6, 1 - 1e-6, 41):
            outside = (p < first) | (p > last)
            _, delta, _ = on_ellipse(rows, np.full(rows.weight.size, p + 0j))
            assert (delta[outside] <= 1e-12).all()
            cut += int(outside.sum())
    assert cut > 0 or kind == "replaced+background"


def test_a_second_difference_leaves_out_three_players():
    """Players i and j of I_ij, and k of the sum over players in the numerator."""
    assert row_bounds.LEFT_OUT == 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_nodes_of_all_rows_make_no_more_than_the_allowed_error(kind):
    """The bounds of all rows at their numbers of nodes, and what is outside of the intervals, add up to `allowed`.

    In some game they come near to it: the last node is taken only where it is needed.
    """
    share_used = []
    for d, spread in [(6, 1.0), (15, 6.0), (40, 2.0), (40, 12.0)]:
        game = random_game(d, d, 2, kind, spread)
        for rows in rows_of(game, budget(game, 1e-8)):
            sums, r = rows.sums, rows.weight.size
            for allowed in np.geomspace(1e-10, 1e-3, 15):
                interval, counts = legendre_counts(sums, d, allowed)
                with np.errstate(divide="ignore"):
                    log_length = np.log(interval.last - interval.first)[:, None]
                log_error = log_bound(sums, interval, ROW_THETA, True) + log_length
                made = np.exp(log_error + ROW_FACTOR - 2 * ROW_THETA * counts[:, None]).min(axis=1)
                made[(counts >= (d + 1) // 2) | (counts == 0)] = 0.0
                total = made.sum() + OUTSIDE * allowed * sums.share
                assert total <= allowed * sums.share * (1 + 1e-9)
                share_used.append(total / (allowed * sums.share) if (made > 0).sum() > r / 2 else 0.0)
    assert max(share_used) > 0.7
