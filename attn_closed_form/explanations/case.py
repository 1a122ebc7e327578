"""A document under a model, ready for every method: its game, its players, and what several methods share.

Everything is computed on first use and kept, so that fifteen methods cost one game.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from .._types import Array, Ids
from ..classifier.document_game import pooled_game, word_numbers
from ..classifier.predict import predict
from ..classifier.weights import AttentionWeights
from ..game.engine import accuracy
from ..game.pooled_game import PooledGame
from ..game.quadrature import ToleranceError

Result = TypeVar("Result")


class Scored(NamedTuple):
    """Scores (d,), the base value that they are relative to, and a guaranteed error if there is one."""

    scores: Array
    base_value: float
    error: float | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """One document under one model, and the game that all methods share; built once.

    Attributes
    ----------
    ids : (T,) token ids, at least one, at most T_max - 1
    players, absent, output : as in `pooled_game`
    tol : relative accuracy asked of the guaranteed methods
    seed : of the sampled ones
    """

    weights: AttentionWeights
    ids: Ids
    players: str = "words"
    absent: str = "unk"
    output: int = 0
    tol: float = 1e-10
    seed: int = 0

    @cached_property
    def game(self) -> PooledGame:
        """The document as a game of its players."""
        return pooled_game(self.weights, self.ids, self.players, self.absent, self.output)

    @cached_property
    def player_of(self) -> Ids:
        """(T,) the player that each position belongs to; words are numbered by first appearance, as in the game."""
        if self.players == "positions":
            return np.arange(self.ids.size)
        return word_numbers(self.ids)

    @cached_property
    def prediction(self) -> float:
        """The prediction for the whole document."""
        return float(predict(self.weights, self.ids)[self.output])

    @cached_property
    def nobody(self) -> float:
        """The prediction with every player absent."""
        return float(self.game.value(np.zeros(self.game.d, dtype=bool)))

    def loosened(self, function: Callable[[PooledGame, float], Result]) -> tuple[Result, float]:
        """`function(game, tol)` for the least tol * 10^k that float64 can guarantee, and the error that it allows."""
        tol = self.tol
        while True:
            try:
                return function(self.game, tol), tol * accuracy(self.game, tol).scale
            except ToleranceError:
                if tol >= 1:
                    raise
                tol *= 10

    @cached_property
    def shares(self) -> tuple[Array, Array]:
        """Attention of each player and its value, a head, both (H, d); values carry the 1/K."""
        game = self.game
        top = np.maximum(game.s.max(axis=1), game.s_background)[:, None]
        mass = np.exp(game.s - top)
        total = mass.sum(axis=1, keepdims=True) + np.exp(game.s_background[:, None] - top)
        return mass / total, game.v

    def pool(self, positions: Array) -> Array:
        """Scores of positions (T,) to scores of players (d,), by sum."""
        pooled: Array = np.bincount(self.player_of, weights=positions, minlength=self.game.d).astype(np.float64)
        return pooled
