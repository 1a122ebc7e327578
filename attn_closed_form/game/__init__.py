"""Softmax-pooled games and their exact values: Shapley, Banzhaf, interactions. Independent of every model."""

from .by_size import expected_value_by_size
from .interactions import interactions
from .owen import owen
from .pooled_game import PooledGame, merge_tokens
from .values import banzhaf, beta_shapley, leave_one_out, semivalue, shapley, weighted_banzhaf

__all__ = [
    "PooledGame",
    "banzhaf",
    "beta_shapley",
    "expected_value_by_size",
    "interactions",
    "leave_one_out",
    "merge_tokens",
    "owen",
    "semivalue",
    "shapley",
    "weighted_banzhaf",
]
