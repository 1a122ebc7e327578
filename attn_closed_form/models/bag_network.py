"""A network that pools a bag with attention, as arrays: features of instances -> log-masses and values.

Each instance x is embedded alone, h = e(x), by layers h -> activation(W h + b). Attention head k gives it the log-mass

    s_k = w_k . (activation(V h + a) * gate(U h + b)) / temperature        (gated; Ilse, Tomczak, Welling 2018, Eq. 9)

(without U: not gated, Eq. 8; without V as well: s_k = w_k . h, as in attentive probes; w = 0: mean pooling). What
comes after the pooling is linear, so that it acts on the instances: row r of the readout gives the value v_r = R_r . h,
in head `value_head[r]`, for class `value_class[r]` (see `PooledScores`). Everything that is constant in evaluation
(batch normalization, biases) is folded into these arrays by `layouts.py`. Features keep their type (float32, float16);
chunks of rows are scored in float64.

**Gradients** by the features are written out; no autodiff. With f = sum_h sum_i alpha_hi v_hi,

    df/dh_i = sum_h alpha_hi [ dv_hi/dh_i + (v_hi - f_h) ds_hi/dh_i ],

because an instance enters its heads through s and v alone (the two terms of Theorem 4.1 of Lopardo et al. 2024). The
heads join before the hidden layer of the attention, so that the cost does not grow with their number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import finite
from .._types import Array, Ids
from ..game.pooled_game import merge_tokens
from .scores import PooledScores

# Numbers per chunk of rows: 32 MB of float64 in the widest layer.
CHUNK_NUMBERS = 1 << 22
ERF_STEP = 1 / 16
ERF_END = 6.0
ERF_TERMS = 10


class Activation(NamedTuple):
    """A function of one number and its derivative, both on arrays."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]


def erf(x: Array) -> Array:
    """The error function on arrays, within 4e-16 of `math.erf`; GELU needs it, and NumPy has none.

    It sums the Taylor series around the nearest of a table of points,

        erf(x_k + t) = erf(x_k) + (2 / sqrt(pi)) e^{-x_k^2} sum_m (-1)^m H_m(x_k) t^{m+1} / (m+1)!,   |t| <= 1/32,

    with H_m the Hermite polynomials; ten terms are exact to the last digits of float64, and erf is 1 beyond x = 6.

    >>> bool(np.abs(erf(np.array([-0.3, 2.0])) - [math.erf(-0.3), math.erf(2.0)]).max() < 4e-16)
    True
    """
    size = np.minimum(np.abs(x), ERF_END)
    k = np.rint(size / ERF_STEP).astype(np.intp)
    t = size - k * ERF_STEP
    table = _erf_table()
    total = table[ERF_TERMS][k]
    for m in range(ERF_TERMS - 1, -1, -1):
        total = total * t + table[m][k]
    return np.copysign(total, x)


@functools.cache
def _erf_table() -> Array:
    """(ERF_TERMS + 1, points) Taylor coefficients of erf around each point."""
    points = np.arange(round(ERF_END / ERF_STEP) + 1) * ERF_STEP
    rows = [np.array([math.erf(x) for x in points])]
    slope = 2 / math.sqrt(math.pi) * np.exp(-(points**2))
    before, hermite = np.zeros_like(points), np.ones_like(points)
    for m in range(ERF_TERMS):
        rows.append((-1) ** m * hermite * slope / math.factorial(m + 1))
        before, hermite = hermite, 2 * points * hermite - 2 * m * before
    return np.array(rows)


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), without overflow."""
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def _gelu_slope(x: Array) -> Array:
    return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _gelu_tanh_inner(x: Array) -> Array:
    return np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _gelu_tanh_slope(x: Array) -> Array:
    y = _gelu_tanh_inner(x)
    return 0.5 * (1 + y) + 0.5 * x * (1 - y * y) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)


def _elu(scale: float, alpha: float) -> Activation:
    return Activation(
        lambda x: scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0))),
        lambda x: scale * np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0.0))),
    )


# By the names and with the constants of PyTorch.
ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(lambda x: x, np.ones_like),
    "tanh": Activation(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": Activation(sigmoid, lambda x: sigmoid(x) * (1 - sigmoid(x))),
    "relu": Activation(lambda x: np.maximum(x, 0.0), lambda x: (x > 0).astype(np.float64)),
    "gelu": Activation(lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), _gelu_slope),
    "gelu_tanh": Activation(lambda x: 0.5 * x * (1 + _gelu_tanh_inner(x)), _gelu_tanh_slope),
    "silu": Activation(lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    "elu": _elu(1.0, 1.0),
    "selu": _elu(1.0507009873554805, 1.6732632423543772),
    "leaky_relu": Activation(lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1.0, 0.01)),
}


def activation(name: str, argument: str = "activation") -> Activation:
    """The activation of a name; an unknown name is an error that lists the known ones."""
    if name not in ACTIVATIONS:
        raise ValueError(f"{argument}: expected one of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name]


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of the embedding: h -> activation(W h + b), with W (out, in), b (out,) and a name of `ACTIVATIONS`."""

    W: Array
    b: Array = None  # type: ignore[assignment]  # zeros, filled in __post_init__
    activation: str = "identity"

    def __post_init__(self) -> None:
        object.__setattr__(self, "W", _weights("W", self.W))
        object.__setattr__(self, "b", _weights("b", self.b, len(self.W)))
        activation(self.activation)

    def __call__(self, h: Array) -> Array:
        """(n, in) -> (n, out)."""
        return activation(self.activation).function(h @ self.W.T + self.b)


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of H heads: log-masses of embedded instances (see the module docstring).

    Attributes
    ----------
    w, c : (H, k) and (H,); c, a constant per head, changes no prediction and is kept for who compares raw attention
    V, a : (k, E) and (k,), or None: then w is (H, E)
    U, b : (k, E) and (k,) of the gate, or None
    activation, gate : names of `ACTIVATIONS`
    temperature : divides the log-masses
    """

    w: Array
    c: Array = None  # type: ignore[assignment]  # zeros, filled in __post_init__
    V: Array | None = None
    a: Array = None  # type: ignore[assignment]
    U: Array | None = None
    b: Array = None  # type: ignore[assignment]
    activation: str = "tanh"
    gate: str = "sigmoid"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        w = _weights("w", self.w)
        object.__setattr__(self, "w", w)
        object.__setattr__(self, "c", _weights("c", self.c, len(w)))
        for weight, shift in (("V", "a"), ("U", "b")):
            if getattr(self, weight) is None:
                continue
            W = _weights(weight, getattr(self, weight))
            if W.shape[0] != w.shape[1]:
                raise ValueError(f"{weight}: expected {w.shape[1]} rows, as many as columns of w, got {W.shape[0]}")
            object.__setattr__(self, weight, W)
            object.__setattr__(self, shift, _weights(shift, getattr(self, shift), len(W)))
        if self.U is not None and (self.V is None or self.U.shape != self.V.shape):
            raise ValueError("U: expected the shape of V, which a gate needs")
        activation(self.activation)
        activation(self.gate, "gate")
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature: expected a number above 0, got {self.temperature}")

    @property
    def E(self) -> int:
        """Length of the embedded instances."""
        return (self.w if self.V is None else self.V).shape[1]

    def __call__(self, h: Array) -> Array:
        """(n, E) -> (H, n) log-masses."""
        if self.V is not None:
            hidden = activation(self.activation).function(h @ self.V.T + self.a)
            if self.U is not None:
                hidden *= activation(self.gate).function(h @ self.U.T + self.b)
            h = hidden
        return (self.w @ h.T + self.c[:, None]) / self.temperature


def _weights(name: str, value: Any, size: int | None = None) -> Array:
    """A finite, read-only float64 copy: a matrix, or a vector of a given size, which is zero for None."""
    array = np.zeros(size or 0) if value is None else finite(name, value)
    if size is None and (array.ndim != 2 or 0 in array.shape):
        raise ValueError(f"{name}: expected a matrix, got shape {array.shape}")
    if size is not None and array.shape != (size,):
        raise ValueError(f"{name}: expected shape ({size},), got {array.shape}")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class BagNetwork:
    """Embedding, attention and readout of a bag model. The loaders build it; `scores` applies it.

    Attributes
    ----------
    attention : Attention of H heads on embedded instances of length E
    readout : (R, E) values of an embedded instance
    bias : (C,) of the logits
    value_class, value_head : (R,) class and head of each row of the readout; by default row r is class r of head 0
    embed : layers from the features (length D) to E, in order; none if the features are the embedding
    background : (B, D) rows that are always present (a class token), or None
    positions : (N, D) added to the features of instance 0 .. N - 1 (bags then have exactly N instances), or None

    Examples
    --------
    >>> mean = BagNetwork(Attention(w=np.zeros((1, 2))), readout=np.eye(2), bias=np.zeros(2))
    >>> mean
    BagNetwork(D=2, E=2, H=1, C=2)
    >>> mean.scores(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).v
    array([[1., 3., 5.],
           [2., 4., 6.]])
    """

    attention: Attention
    readout: Array
    bias: Array
    value_class: Ids = None  # type: ignore[assignment]  # filled in __post_init__
    value_head: Ids = None  # type: ignore[assignment]
    embed: tuple[Layer, ...] = ()
    background: Array | None = None
    positions: Array | None = None

    def __post_init__(self) -> None:
        readout = _weights("readout", self.readout)
        R = readout.shape[0]
        bias = np.array(self.bias, dtype=np.float64).reshape(-1)
        object.__setattr__(self, "readout", readout)
        object.__setattr__(self, "bias", _weights("bias", bias, bias.size))
        object.__setattr__(self, "embed", tuple(self.embed))
        for name, default, top in (
            ("value_class", np.arange(R), bias.size),
            ("value_head", np.zeros(R, dtype=np.intp), self.attention.w.shape[0]),
        ):
            given = getattr(self, name)
            rows = default if given is None else np.asarray(given, dtype=np.intp)
            if rows.shape != (R,) or rows.min() < 0 or rows.max() >= top:
                raise ValueError(f"{name}: expected {R} numbers in 0..{top - 1}, one per row of readout, got {rows}")
            object.__setattr__(self, name, rows)
        width = self.D
        for layer in self.embed:
            if layer.W.shape[1] != width:
                raise ValueError(f"embed: expected a layer for {width} inputs, got W of shape {layer.W.shape}")
            width = layer.W.shape[0]
        for name, given in (("attention", self.attention.E), ("readout", readout.shape[1])):
            if given != width:
                raise ValueError(f"{name}: expected weights for embedded instances of length {width}, got {given}")
        for name in ("background", "positions"):
            if getattr(self, name) is not None:
                table = _weights(name, getattr(self, name))
                if table.shape[1] != self.D:
                    raise ValueError(f"{name}: expected rows of length D={self.D}, got shape {table.shape}")
                object.__setattr__(self, name, table)

    @property
    def D(self) -> int:
        """Length of the features."""
        return self.embed[0].W.shape[1] if self.embed else self.attention.E

    @property
    def H(self) -> int:
        """Number of attention heads."""
        return self.attention.w.shape[0]

    @property
    def C(self) -> int:
        """Number of logits."""
        return self.bias.size

    def embedded(self, x: NDArray[Any]) -> Array:
        """(n, D) features -> (n, E) float64."""
        h = np.asarray(x, dtype=np.float64)
        for layer in self.embed:
            h = layer(h)
        return h

    def chunks(self, n: int) -> list[slice]:
        """Runs of rows whose widest layer stays near 32 MB."""
        widest = max([self.D, self.attention.w.shape[1], *(layer.W.shape[0] for layer in self.embed)])
        rows = max(1, CHUNK_NUMBERS // widest)
        return [slice(start, min(n, start + rows)) for start in range(0, n, rows)]

    def scores(self, features: NDArray[Any]) -> PooledScores:
        """Log-masses and values of n >= 1 instances (n, D); numbers that are not finite are an error."""
        n = features.shape[0] if features.ndim == 2 else 0
        if n < 1 or features.shape[1] != self.D or features.dtype.kind not in "fiu":
            raise ValueError(
                f"features: expected real numbers of shape (n, {self.D}), n >= 1, got {features.dtype} {features.shape}"
            )
        if self.positions is not None and n != len(self.positions):
            raise ValueError(f"features: expected {len(self.positions)} instances, one per position, got {n}")
        s, v = np.empty((self.H, n)), np.empty((self.readout.shape[0], n))
        for rows in self.chunks(n):
            h = self.embedded(self.inputs(features, rows))
            s[:, rows], v[:, rows] = self.attention(h), self.readout @ h.T
        for name, numbers in (("log-mass", s), ("value", v)):
            if not np.isfinite(numbers).all():
                where = int(np.flatnonzero(~np.isfinite(numbers).all(axis=0))[0])
                raise ValueError(
                    f"features: instance {where} has a {name} that is not finite; its features are too large"
                )
        scores = PooledScores(s, v, self.bias, self.value_head, self.value_class)
        if self.background is None:
            return scores
        h = self.embedded(self.background)
        mass = self.attention(h)
        s_background = merge_tokens(mass, mass)[0]
        v_background = merge_tokens(mass[self.value_head], self.readout @ h.T)[1]
        return replace(scores, s_background=s_background, v_background=v_background)

    def inputs(self, features: NDArray[Any], rows: slice) -> Array:
        """Rows of the features in float64, with their positions, checked to be finite."""
        x = np.asarray(features[rows], dtype=np.float64)
        if not np.isfinite(x).all():
            bad = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
            raise ValueError(
                f"features: expected finite numbers, got {x[bad][~np.isfinite(x[bad])][0]} in instance "
                f"{rows.start + bad}"
            )
        return x if self.positions is None else x + self.positions[rows]

    def __repr__(self) -> str:
        return f"BagNetwork(D={self.D}, E={self.readout.shape[1]}, H={self.H}, C={self.C})"


# (features, gradient) of some instances, both (n, D) -> (n,) scores.
GRADIENT_SCORES: dict[str, Callable[[Array, Array], Array]] = {
    "gradient-mean": lambda x, g: g.mean(axis=1),
    "gradient-l1": lambda x, g: np.abs(g).sum(axis=1),
    "gradient-l2": lambda x, g: np.sqrt((g**2).sum(axis=1)),
    "gradient-x-input": lambda x, g: (x * g).sum(axis=1),
}


def gradient_scores(
    network: BagNetwork, features: NDArray[Any], scores: PooledScores, coefficients: Sequence[float]
) -> dict[str, Array]:
    """(n,) scores by name, from the gradient of `coefficients @ logits` by the features, in one pass."""
    heads, rows, mixture = scores.heads(coefficients)
    alpha, background = (share[heads] for share in scores.shares())
    v = mixture @ scores.v[rows]
    f = (alpha * v).sum(axis=1) + background * (mixture @ scores.v_background[rows])
    slope = np.zeros((network.H, v.shape[1]))  # alpha (v - f), zero in heads that are not needed
    slope[heads] = alpha * (v - f[:, None])
    by_value = mixture @ network.readout[rows]
    found = {name: np.empty(len(features)) for name in GRADIENT_SCORES}
    for part in network.chunks(len(features)):
        below = [network.inputs(features, part)]
        for layer in network.embed:
            below.append(layer(below[-1]))
        g = alpha[:, part].T @ by_value + _attention_gradient(network.attention, below[-1], slope[:, part].T)
        for layer, entered in zip(network.embed[::-1], below[-2::-1], strict=True):
            g = (g * activation(layer.activation).derivative(entered @ layer.W.T + layer.b)) @ layer.W
        x = np.asarray(features[part], dtype=np.float64)
        for name, score in GRADIENT_SCORES.items():
            found[name][part] = score(x, g)
    return found


def _attention_gradient(attention: Attention, h: Array, slope: Array) -> Array:
    """Sum over heads of slope (n, H) times ds/dh, at embedded instances h (n, E)."""
    weight = slope @ attention.w / attention.temperature
    if attention.V is None:
        return weight
    act = activation(attention.activation)
    inner = h @ attention.V.T + attention.a
    if attention.U is None:
        return (weight * act.derivative(inner)) @ attention.V
    gate = activation(attention.gate)
    outer = h @ attention.U.T + attention.b
    by_inner = (weight * act.derivative(inner) * gate.function(outer)) @ attention.V
    return by_inner + (weight * act.function(inner) * gate.derivative(outer)) @ attention.U
