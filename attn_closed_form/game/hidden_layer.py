"""One hidden layer after the pooling, exactly: f(S) = sum_k c_k activation(w_k . h(S) + b_k).

With one head, the argument of every hidden unit is a pooled game of its own, because w_k . h is a
softmax-weighted mean of the numbers w_k . v_j. The activation of one pooled game is a linked game
(`links.py`), and explanations are linear in the game, so those of f are sums over the units.

tanh and the logistic function need one link each: tanh(x) = 2 / (1 + e^(-2x)) - 1. SiLU, softplus
and both forms of GELU are x / 2 plus an even function; all the halves x / 2 together are one
direction of the pooled vector, a plain game.

The sum keeps `tol` as every game does (`game_sum.py`).

ReLU is not analytic, so it has no such form; `shapley_sample` estimates it along orders
(`orders.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .._arrays import usual_float_errors
from .._erf import erf
from .._shapes import checked_arrays
from .._types import Array
from .game_sum import GameSum
from .links import Link, LinkedGame
from .pooled_game import PooledGame
from .tails import TailGame


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _logistic(x: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _silu(x: Array) -> Array:
    return x * _logistic(x)


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _gelu_tanh(x: Array) -> Array:
    # Hendrycks and Gimpel 2016, section 2: the constant of the cubic term is theirs.
    cubic = x + 0.044715 * x**3
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * cubic))


@dataclass(frozen=True)
class LinkedActivation:
    """An activation function, and how it consists of a link and a line: slope x + factor link(x) +
    constant.
    """

    function: Callable[[Array], Array]
    link: Link | None = None
    factor: float = 1.0
    slope: float = 0.0
    constant: float = 0.0


# The activations by the names that PyTorch uses.
LINKED_ACTIVATIONS: dict[str, LinkedActivation] = {
    "tanh": LinkedActivation(np.tanh, Link("sigmoid", 2.0), factor=2.0, constant=-1.0),
    "sigmoid": LinkedActivation(_logistic, Link("sigmoid")),
    "silu": LinkedActivation(_silu, Link("x tanh"), slope=0.5),
    "softplus": LinkedActivation(_softplus, Link("log cosh"), slope=0.5),
    "gelu": LinkedActivation(_gelu, Link("x erf"), slope=0.5),
    "gelu-tanh": LinkedActivation(_gelu_tanh, Link("x tanh cubic"), slope=0.5),
    "relu": LinkedActivation(_relu),
    "identity": LinkedActivation(np.asarray, slope=1.0),
}


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """A tail with one hidden layer of K units: output @ activation(weight @ h + bias) +
    output_bias.

    Attributes
    ----------
    weight, bias : (K, C) and (K,)
    activation : a name among `LINKED_ACTIVATIONS`
    output, output_bias : (Q, K) and (Q,)

    Examples
    --------
    >>> layer = HiddenLayer(np.eye(2), np.zeros(2), "tanh", np.ones((1, 2)), np.zeros(1))
    >>> layer(np.array([[0.0, 0.0], [1.0, -1.0], [9.0, 9.0]])).round(3)
    array([[0.],
           [0.],
           [2.]])
    """

    weight: Array
    bias: Array
    activation: str
    output: Array
    output_bias: Array

    def __post_init__(self) -> None:
        if self.activation not in LINKED_ACTIVATIONS:
            raise ValueError(
                f"activation: expected one of {', '.join(LINKED_ACTIVATIONS)}, got "
                f"{self.activation!r}"
            )
        axes = {
            "weight": ("K", "C"),
            "bias": ("K",),
            "output": ("Q", "K"),
            "output_bias": ("Q",),
        }
        given = {name: getattr(self, name) for name in axes}
        arrays, _ = checked_arrays(given, axes)
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    def __call__(self, vectors: Array) -> Array:
        """Compute the outputs (n, Q) from pooled vectors (n, C)."""
        arguments = vectors @ self.weight.T + self.bias
        units = LINKED_ACTIVATIONS[self.activation].function(arguments)
        return units @ self.output.T + self.output_bias

    @property
    def is_exact(self) -> bool:
        """Whether the activation is a line plus a link, so that a game with one head has exact
        values.
        """
        activation = LINKED_ACTIVATIONS[self.activation]
        return activation.link is not None or activation.slope != 0


@usual_float_errors
def hidden_layer_game(game: TailGame, output: int = 0) -> GameSum:
    """Return one output of a game whose tail is a `HiddenLayer` as a sum of games with exact
    values.

    Use it for networks with one attention head and one hidden layer after the pooling; every
    function of games that is linear, such as `shapley`, takes the result.

    Parameters
    ----------
    game : a TailGame with one head and a HiddenLayer with an analytic activation
    output : which output of the layer

    Returns
    -------
    GameSum
        the network as a sum of linked games, which `shapley`, `banzhaf` and `owen` take

    Examples
    --------
    >>> from attn_closed_form import shapley
    >>> from attn_closed_form.game.scores import PooledScores
    >>> scores = PooledScores(s=np.zeros((1, 3)), v=np.array([[1.0, 0.0, 2.0]]), bias=np.zeros(1))
    >>> layer = HiddenLayer([[1.0], [-2.0]], [0.0, 1.0], "gelu", [[1.0, 1.0]], [0.0])
    >>> shapley(hidden_layer_game(TailGame(scores, layer)), tol=1e-8).round(4)
    array([-0.2348, -0.4913,  0.5675])
    """
    layer = game.tail
    if not isinstance(layer, HiddenLayer):
        raise TypeError(f"game: expected a tail with one hidden layer, got {layer!r}")
    if len(game.scores.s) != 1:
        raise ValueError(
            "game: exact values behind a hidden layer need one head, and this game has "
            f"{len(game.scores.s)}; `shapley_sample` estimates them, with standard errors"
        )
    activation = LINKED_ACTIVATIONS[layer.activation]
    if not layer.is_exact:
        raise ValueError(
            f"game: {layer.activation} is not analytic, so there are no exact values; "
            "`shapley_sample` estimates them, with standard errors"
        )
    weights = layer.output[output]
    constant_of_units = activation.constant * float(weights.sum())
    constant = float(layer.output_bias[output]) + constant_of_units
    parts: list[tuple[float, PooledGame | LinkedGame]] = []
    if activation.slope:
        pooled_line = game.direction(weights @ layer.weight)
        line = _shifted(pooled_line, float(weights @ layer.bias))
        parts.append((activation.slope, line))
    if activation.link is not None:
        for k in np.flatnonzero(weights).tolist():
            argument = _shifted(game.direction(layer.weight[k]), float(layer.bias[k]))
            unit = LinkedGame(argument, activation.link)
            factor = activation.factor * float(weights[k])
            if activation.link.name == "sigmoid" and unit.range[0] > 0:
                # g(x) = 1 - g(-x), and g(-x) is so small for a saturated unit that it may be left
                # out of the sum.
                unit = LinkedGame(argument, replace(activation.link, scale=-activation.link.scale))
                constant += factor
                factor = -factor
            parts.append((factor, unit))
    if not parts:  # an output that reads no unit is constant
        parts.append((0.0, game.direction(layer.weight[0])))
    return GameSum(parts, constant)


def _shifted(game: PooledGame, shift: float) -> PooledGame:
    """Return the game plus a constant."""
    return replace(game, bias=game.bias + shift, empty_value=game.empty_value + shift)
