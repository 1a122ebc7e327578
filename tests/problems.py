"""The table of games that every closed form is tried on: the ordinary ones and the edges, by
name.
"""

from __future__ import annotations

import numpy as np

from attn_closed_form import PooledGame
from attn_closed_form.attention import pooled_game, random_weights

INF = np.inf


def random_game(seed, d, H, kind, spread=2.0, offset=0.0, **more):
    """kind: 'deleted', 'deleted+background', 'replaced', 'replaced+background'."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(-spread / 2, spread / 2, (H, d))
    v = rng.normal(offset, 1, (H, d))
    if "replaced" in kind:
        more |= {
            "s_absent": rng.uniform(-spread / 2, spread / 2, (H, d)),
            "v_absent": rng.normal(offset, 1, (H, d)),
        }
    if "background" in kind:
        more |= {
            "s_background": rng.uniform(-spread / 2, spread / 2, H),
            "v_background": rng.normal(offset, 1, H),
        }
    return PooledGame.from_scores(s, v, **more)


def model_game(players, absent, output=0, seed=5):
    weights = random_weights(
        seed, D=11, d_e=7, T_max=17, K=3, d_att=2, d_out=5, C=2, score_scale=3.0, biases=True
    )
    return pooled_game(weights, [5, 7, 5, 3, 8, 8, 5, 2, 10, 4, 9], players, absent, output)


def games():
    """name -> game, all with at most 13 players."""
    rng = np.random.default_rng(0)
    table = {
        f"{kind}, {H} heads, spread {spread:g}": random_game(
            H, d, H, kind, spread, bias=0.3, empty_value=0.7
        )
        for d, H, spread in [(13, 1, 2.0), (11, 2, 20.0), (7, 5, 0.1), (9, 3, 69.0)]
        for kind in ("deleted", "deleted+background", "replaced", "replaced+background")
    }
    table |= {
        f"model, {players}, {absent}, output {output}": model_game(players, absent, output)
        for players in ("positions", "words")
        for absent in ("unk", "deleted")
        for output in (0, 1)
    }
    table |= {
        "range 1e30": PooledGame.from_scores(np.linspace(-34.5, 34.5, 11), rng.normal(size=11)),
        "scores 1e4, deleted": random_game(3, 7, 2, "deleted", 1e4),
        "scores 1e4, replaced": random_game(4, 7, 2, "replaced+background", 1e4),
        "one player holds all": PooledGame.from_scores([1e4, 0.0, 0.0, -1e4], [1.0, 2.0, 3.0, 4.0]),
        "masses 1e-300": PooledGame.from_scores([0.0, -690.0, 0.0, -690.0], [1.0, 2.0, 3.0, 1e6]),
        "values 1e6": PooledGame.from_scores([0.0, 1.0, 2.0], [1e6, 2.0, 3.0]),
        "all alike": PooledGame.from_scores([1.0] * 9, [2.0] * 9),
        "all alike, background": PooledGame.from_scores(
            [1.0] * 9, [2.0] * 9, s_background=0.0, v_background=-1.0
        ),
        "one player": PooledGame.from_scores([1.0], [2.0], empty_value=-4.0),
        "one player, background": PooledGame.from_scores(
            [1.0], [2.0], s_background=0.0, v_background=1.0
        ),
        "some deleted, some replaced": PooledGame.from_scores(
            [1.0, 2.0, 3.0], [2.0, 1.0, -1.0], [-INF, 0.0, 1.0], [0.0, 2.0, 3.0]
        ),
        "constant": PooledGame.from_scores(
            rng.normal(size=5), [2.0] * 5, s_background=0.0, v_background=2.0
        ),
        "nothing changes": PooledGame.from_scores(
            [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], 0.0, 0.0
        ),
        "large empty value": random_game(8, 6, 2, "deleted", empty_value=100.0),
    }
    return table
