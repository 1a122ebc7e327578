"""Games for the tests of LIME, of any size: [UNK], deletion over a background, deletion to
nothing.
"""

import numpy as np

from attn_closed_form import PooledGame


def score_game(d, H=2, kind="unk", seed=0, spread=1.0, offset=0.5):
    rng = np.random.default_rng([seed, d, H])
    s = rng.normal(size=(H, d)) * spread
    v = rng.normal(size=(H, d)) + offset
    if kind == "unk":
        s_absent = rng.normal(size=(H, d)) * spread
        v_absent = rng.normal(size=(H, d)) + offset
        return PooledGame.from_scores(
            s, v, s_absent, v_absent, rng.normal(size=H), rng.normal(size=H), bias=0.7
        )
    if kind == "deleted":
        return PooledGame.from_scores(
            s, v, s_background=rng.normal(size=H), v_background=0.1, bias=-0.4
        )
    return PooledGame.from_scores(s, v, bias=0.3, empty_value=-1.1)
