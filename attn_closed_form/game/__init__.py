"""Softmax-pooled games and their values: Shapley, Banzhaf, interactions. Independent of every
model.
"""

from .by_size import expected_value_by_size
from .game_sum import GameSum
from .hidden_layer import HiddenLayer, hidden_layer_game
from .interactions import interactions
from .orders import ClassProbability
from .owen import owen
from .pooled_game import PooledGame, merge_tokens
from .sampled import ShapleySample, shapley_sample
from .scores import PooledScores
from .tails import TailGame
from .values import banzhaf, beta_shapley, leave_one_out, semivalue, shapley, weighted_banzhaf

__all__ = [
    "ClassProbability",
    "GameSum",
    "HiddenLayer",
    "PooledGame",
    "PooledScores",
    "ShapleySample",
    "TailGame",
    "banzhaf",
    "beta_shapley",
    "expected_value_by_size",
    "hidden_layer_game",
    "interactions",
    "leave_one_out",
    "merge_tokens",
    "owen",
    "semivalue",
    "shapley",
    "shapley_sample",
    "weighted_banzhaf",
]
