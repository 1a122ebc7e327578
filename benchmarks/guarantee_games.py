"""Random and adversarial games for the attack on the guarantee: the families, and the questions
about each game.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attn_closed_form import PooledGame
from attn_closed_form.game.game_sum import GameSum
from attn_closed_form.game.hidden_layer import HiddenLayer, hidden_layer_game
from attn_closed_form.game.links import Link, LinkedGame
from attn_closed_form.game.scores import PooledScores
from attn_closed_form.game.tails import TailGame

from . import guarantee_types
from .guarantee_types import Layer

FAMILIES = (
    "plain",
    "spread",
    "ties",
    "dominating",
    "dominated",
    "mixed absence",
    "cancelling heads",
    "constants",
    "constant heads",
    "scales",
    "offset",
    "head scales",
    "empty huge",
    "masked",
)


class Trial(NamedTuple):
    """A game, its family, and the accuracy that is asked for."""

    family: str
    game: PooledGame | PooledScores  # scores if there is a hidden layer
    tol: float
    link: Link | Layer | None = None

    @property
    def asked(self) -> PooledGame | LinkedGame | GameSum:
        """The game that the functions are asked about."""
        if isinstance(self.game, PooledScores):
            assert isinstance(self.link, Layer)
            return hidden_layer_game(TailGame(self.game, _tail(self.link)))
        if self.link is None:
            return self.game
        assert isinstance(self.link, Link)
        return LinkedGame(self.game, self.link)

    @property
    def link_of_oracle(self) -> guarantee_types.Link | Layer | None:
        """The link or the layer as the oracle by types takes it."""
        if isinstance(self.link, Link):
            return guarantee_types.Link(self.link.name, self.link.scale)
        return self.link


def _tail(layer: Layer) -> HiddenLayer:
    """Return a layer with one output."""
    return HiddenLayer(
        weight=np.array(layer.weight),
        bias=np.array(layer.bias),
        activation=layer.activation,
        output=np.array([layer.output]),
        output_bias=np.array([layer.output_bias]),
    )


def random_trial(rng: np.random.Generator, most_players: int = 8) -> Trial:
    """One game of a random family with a random tolerance between 1e-13 and 1e-1."""
    family = str(rng.choice(FAMILIES))
    d = int(rng.integers(1, most_players + 1))
    H = int(rng.integers(1, 4))
    return Trial(family, _game(rng, family, d, H), float(10 ** rng.uniform(-13, -1)))


def random_linked_trial(rng: np.random.Generator, most_players: int = 8) -> Trial:
    """One game with one head through a random link: ranges of up to 30, and some beyond, tol from
    1e-10 to 1e-3.
    """
    family = str(
        rng.choice(
            [
                family
                for family in FAMILIES
                if family not in ("cancelling heads", "scales", "constants")
            ]
        )
    )
    game = _game(rng, family, int(rng.integers(1, most_players + 1)), 1)
    name = str(rng.choice(["sigmoid", "sigmoid", "exp"]))
    largest = float(
        max(np.abs(x).max() for x in (game.v, game.v_absent, game.v_background, game.bias))
    )
    scale = float(
        rng.choice([0.1, 1.0, 3.0, 10.0, 30.0, 60.0 if name == "sigmoid" else 3.0])
    ) / max(largest, 1e-6)
    if name == "exp":
        scale = min(scale, 3.0 / max(largest, 1e-6))
    return Trial(family, game, float(10 ** rng.uniform(-10, -3)), Link(name, scale))


def _game(rng: np.random.Generator, family: str, d: int, H: int) -> PooledGame:
    spread = float(rng.choice([0.1, 1.0, 3.0, 10.0]))
    if family in ("spread", "masked"):
        spread = float(rng.choice([30.0, 100.0, 300.0, 700.0]))
    kind = int(rng.integers(4))
    a = _arrays(rng, d, H, spread)
    if family == "ties":
        for name in ("s", "v", "s_absent", "v_absent"):
            a[name] = rng.integers(-2, 3, (H, d)).astype(float)
    if family in ("dominating", "dominated"):
        a["s"][:, rng.integers(d)] += float(rng.choice([20.0, 40.0, 80.0])) * (
            1 if family == "dominating" else -1
        )
    if family == "masked":
        a["s"][:, rng.integers(d)] = float(rng.choice([-1e9, -65504.0, -1e4, -3.4e38]))
    if family == "constant heads":
        a["v"][:] = a["v_absent"][:] = (
            a["v_background"][:, None] + float(rng.choice([0.0, 1e-9])) * a["v"]
        )
    if family == "head scales":
        scale = 10.0 ** rng.uniform(-6, 6, H)
        for name in ("v", "v_absent"):
            a[name] *= scale[:, None]
        a["v_background"] *= scale
    if family == "scales":
        scale = 10.0 ** rng.uniform(-300, 300)
        for name in ("v", "v_absent", "v_background", "bias", "empty_value"):
            a[name] = a[name] * scale
    if family == "offset":
        offset = rng.normal(size=H) * float(rng.choice([1e2, 1e4, 1e8, 1e12]))
        for name in ("s", "s_absent"):
            a[name] = a[name] + offset[:, None]
        a["s_background"] = a["s_background"] + offset
    if family == "cancelling heads" and H > 1:
        large = 10.0 ** rng.uniform(2, 12)
        for name in ("v", "v_absent"):
            a[name][0] *= large
            a[name][1] = -a[name][0] + rng.normal(size=d)
        a["s"][1], a["s_absent"][1], a["s_background"][1] = (
            a["s"][0],
            a["s_absent"][0],
            a["s_background"][0],
        )
        a["v_background"][1] = -a["v_background"][0]
    if family == "constants":
        large = 10.0 ** rng.uniform(2, 16)
        for name in ("v", "v_absent", "v_background"):
            a[name] = a[name] - large / H
        a["bias"] = large
    if family == "empty huge":
        a["empty_value"] = 10.0 ** rng.uniform(2, 12)
        kind = 0
    return _make(rng, a, kind, family == "mixed absence")


def _arrays(rng: np.random.Generator, d: int, H: int, spread: float) -> dict[str, Any]:
    s, s_absent = rng.normal(size=(2, H, d)) * spread
    v, v_absent = rng.normal(size=(2, H, d)) + float(rng.choice([0.0, 1.0]))
    s_background, v_background = rng.normal(size=(2, H))
    bias = float(rng.normal())
    empty_value = float(rng.normal())
    return {
        "s": s,
        "v": v,
        "s_absent": s_absent,
        "v_absent": v_absent,
        "s_background": s_background,
        "v_background": v_background,
        "bias": bias,
        "empty_value": empty_value,
    }


def _make(rng: np.random.Generator, a: dict[str, Any], kind: int, mixed: bool) -> PooledGame:
    more: dict[str, Any] = {}
    if kind in (1, 3):
        if mixed:
            s_absent = np.where(rng.random(a["s"].shape) < 0.5, -np.inf, a["s_absent"])
        else:
            s_absent = a["s_absent"]
        if mixed:
            s_absent[:, 0] = a["s_absent"][:, 0]  # all heads have mass when everybody is absent
        more |= {"s_absent": s_absent, "v_absent": a["v_absent"]}
    if kind in (2, 3):
        more |= {"s_background": a["s_background"], "v_background": a["v_background"]}
    return PooledGame.from_scores(
        a["s"], a["v"], **more, bias=a["bias"], empty_value=a["empty_value"]
    )
