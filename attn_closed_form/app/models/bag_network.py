"""Networks that pool a bag with attention, as arrays that map features of instances to log-masses and values.

Each instance x is embedded alone, h = e(x), by layers h -> activation(W h + b). Attention head k gives it the log-mass

    s_k = w_k . (activation(V h + a) * gate(U h + b)) / temperature        (gated; Ilse, Tomczak, Welling 2018, Eq. 9)

(without U: not gated, Eq. 8; without V as well: s_k = w_k . h, as in attentive probes; w = 0: mean pooling). Everything
after the pooling is linear, so it can be applied to the instances: row r of the readout gives the value v_r = R_r . h,
in head `value_head[r]`, for class `value_class[r]` (see `PooledScores`). `layouts.py` folds everything that is constant
in evaluation (batch normalization, biases) into these arrays. Features keep their type (float32, float16); chunks of
rows are scored in float64.

**Gradients** with respect to the features need no automatic differentiation. With f = sum_h sum_i alpha_hi v_hi,

    df/dh_i = sum_h alpha_hi [ dv_hi/dh_i + (v_hi - f_h) ds_hi/dh_i ],

because an instance enters its heads only through s and v (the two terms of Theorem 4.1 of Lopardo et al. 2024). The
heads are added up before the hidden layer of the attention, so the cost does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._arrays import check, choice, positive
from ..._erf import erf
from ..._shapes import checked_arrays, set_fields
from ..._types import Array, Ids
from ...game.scores import PooledScores

# Numbers per chunk of rows: 32 MB of float64 in the widest layer.
CHUNK_NUMBERS = 1 << 22


class Activation(NamedTuple):
    """A function of one number and its derivative, both on arrays."""

    function: Callable[[Array], Array]
    derivative: Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + e^-x) without overflow."""
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def _gelu_slope(x: Array) -> Array:
    return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _gelu_tanh_inner(x: Array) -> Array:
    return np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _gelu_tanh_slope(x: Array) -> Array:
    y = _gelu_tanh_inner(x)
    return 0.5 * (1 + y) + 0.5 * x * (1 - y * y) * math.sqrt(2 / math.pi) * (
        1 + 3 * 0.044715 * x * x
    )


def _elu(scale: float, alpha: float) -> Activation:
    return Activation(
        lambda x: scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0))),
        lambda x: scale * np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0.0))),
    )


# Names and constants are those of PyTorch.
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
    "leaky_relu": Activation(
        lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1.0, 0.01)
    ),
}


# Weightless normalizations of the feature vectors; the epsilon is that of PyTorch's LayerNorm.
NORMALIZATIONS = ("", "unit", "layer_norm")
# The default of PyTorch's LayerNorm, which normalization without weights uses, too.
LAYER_NORM_EPS = 1e-5


def normalized(x: Array, how: str) -> tuple[Array, Array]:
    """Scale rows to length 1 ("unit") or to mean 0 and variance 1 ("layer_norm"); also return the divisors (n, 1)."""
    if how == "layer_norm":
        x = x - x.mean(axis=1, keepdims=True)
        size = np.sqrt((x * x).mean(axis=1, keepdims=True) + LAYER_NORM_EPS)
    else:
        size = np.sqrt((x * x).sum(axis=1, keepdims=True))
        size = np.where(size == 0, 1.0, size)
    return x / size, size


def normalized_gradient(y: Array, size: Array, g: Array, how: str) -> Array:
    """Return the gradient at the inputs of `normalized`, given the gradient g at its outputs y."""
    if how == "unit":
        return (g - y * (y * g).sum(axis=1, keepdims=True)) / size
    g = (g - y * (y * g).mean(axis=1, keepdims=True)) / size
    return np.asarray(g - g.mean(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer: h -> activation(W h + b), with W (out, in), b (out,) and a name of `ACTIVATIONS`."""

    W: Array
    b: Array = None  # type: ignore[assignment]  # zeros, filled in __post_init__
    activation: str = "identity"

    def __post_init__(self) -> None:
        axes = {"W": ("out", "in"), "b": ("out",)}
        arrays, sizes = checked_arrays({"W": self.W, "b": self.b}, axes, optional=["b"])
        set_fields(self, {"b": np.zeros(sizes["out"]), **arrays})
        choice("activation", self.activation, ACTIVATIONS)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle does not say that an array is read-only.
        set_fields(self, state)

    def __call__(self, h: Array) -> Array:
        """Apply the layer: (n, in) -> (n, out)."""
        return ACTIVATIONS[self.activation].function(h @ self.W.T + self.b)

    def gradient(self, h: Array, slope: Array) -> Array:
        """Return the (n, in) gradient at the inputs h, given the gradient at the outputs, `slope` (n, out)."""
        return (slope * ACTIVATIONS[self.activation].derivative(h @ self.W.T + self.b)) @ self.W


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of H heads: log-masses of embedded instances, by the formula in the module docstring.

    The constant c of a head does not change predictions; it is kept for comparisons of raw attention.
    """

    w: Array  # (H, k)
    c: Array = None  # type: ignore[assignment]  # (H,), zeros by default
    hidden: Layer | None = None  # layer from the embedding (length E) to k; if None, w is (H, E)
    gate: Layer | None = (
        None  # layer of the same shape, whose output multiplies that of the hidden layer
    )
    temperature: float = 1.0  # divides the log-masses
    score_activation: str = "identity"  # a name of `ACTIVATIONS`, applied before the temperature

    def __post_init__(self) -> None:
        axes = {"w": ("H", "k"), "c": ("H",)}
        arrays, sizes = checked_arrays({"w": self.w, "c": self.c}, axes, optional=["c"])
        set_fields(self, {"c": np.zeros(sizes["H"]), **arrays})
        if self.hidden is not None:
            rows = len(self.hidden.W)
            check("w", rows == sizes["k"], f"{rows} columns, one per hidden unit", sizes["k"])
        if self.gate is not None:
            same = self.hidden is not None and self.gate.W.shape == self.hidden.W.shape
            check("gate", same, "a layer of the shape of the hidden layer", self.gate.W.shape)
        positive("temperature", self.temperature)
        choice("score_activation", self.score_activation, ACTIVATIONS)

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, state)

    @property
    def E(self) -> int:
        """Length of the embedded instances."""
        if self.hidden is None:
            return self.w.shape[1]
        return self.hidden.W.shape[1]

    def __call__(self, h: Array) -> Array:
        """Compute the log-masses: (n, E) -> (H, n)."""
        scores = self._scores(h)
        if self.score_activation != "identity":
            scores = ACTIVATIONS[self.score_activation].function(scores)
        return scores / self.temperature

    def _scores(self, h: Array) -> Array:
        """Compute the scores before their activation and temperature: (n, E) -> (H, n)."""
        if self.hidden is not None:
            gate = 1.0 if self.gate is None else self.gate(h)
            h = self.hidden(h) * gate
        return self.w @ h.T + self.c[:, None]

    def gradient(self, h: Array, slope: Array) -> Array:
        """Return the (n, E) sum over heads of `slope` (n, H) times ds/dh, at embedded instances h (n, E)."""
        if self.score_activation != "identity":
            slope = slope * ACTIVATIONS[self.score_activation].derivative(self._scores(h)).T
        slope = slope @ self.w / self.temperature
        if self.hidden is None:
            return slope
        if self.gate is None:
            return self.hidden.gradient(h, slope)
        return self.hidden.gradient(h, slope * self.gate(h)) + self.gate.gradient(
            h, slope * self.hidden(h)
        )


# The axes of the arrays of a network: D features, E embedded features, R value rows, C classes, N places.
AXES: dict[str, tuple[str, ...]] = {
    "embedded": ("E",),
    "features": ("D",),
    "readout": ("R", "E"),
    "bias": ("C",),
    "positions": ("N", "D"),
    "background": ("D",),
}


@dataclass(frozen=True, eq=False)
class BagNetwork:
    """Embedding, attention and readout of a bag model. The loaders build it; `scores` applies it.

    Attributes
    ----------
    attention : Attention of H heads on embedded instances of length E
    readout : (R, E) values of an embedded instance, or (N, R, E) with one for each place in the bag
    bias : (C,) of the logits
    value_class, value_head : (R,) class and head of each row of the readout; if None, row r is class r of head 0
    embed : layers from the features (length D) to E, in order; none if the features are the embedding
    positions : (N, D) added to the features (bags then have exactly N instances), or None
    background : (D,) features of an instance that is always present, such as a class token, or None
    normalize : "unit" or "layer_norm" to scale each feature vector first

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
    value_class: Ids | None = None
    value_head: Ids | None = None
    embed: tuple[Layer, ...] = ()
    positions: Array | None = None
    background: Array | None = None
    normalize: str = ""

    def __post_init__(self) -> None:
        choice("normalize", self.normalize, NORMALIZATIONS)
        object.__setattr__(self, "embed", tuple(self.embed))
        width = self.D
        for layer in self.embed:
            inputs = layer.W.shape[1]
            check("embed", inputs == width, f"a layer for {width} inputs", f"one for {inputs}")
            width = len(layer.W)
        E = self.attention.E
        check("attention", width == E, f"weights for {width} embedded features", E)
        given = {
            # The embedding sets the axis E for the readout.
            "embedded": np.zeros(width),
            "features": np.zeros(self.D),
            "readout": self.readout,
            "bias": np.reshape(self.bias, -1),
            "positions": self.positions,
            "background": self.background,
        }
        axes = dict(AXES)
        if np.ndim(self.readout) == 3:
            axes["readout"] = ("N", *AXES["readout"])
        arrays, _ = checked_arrays(given, axes, optional=["positions", "background"])
        del arrays["embedded"], arrays["features"]
        fields: dict[str, Any] = arrays
        for name in ("value_class", "value_head"):
            if getattr(self, name) is not None:
                fields[name] = np.array(getattr(self, name), dtype=np.intp)
        set_fields(self, fields)

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, state)

    @property
    def D(self) -> int:
        """Length of the features."""
        if self.embed:
            return self.embed[0].W.shape[1]
        return self.attention.E

    @property
    def H(self) -> int:
        """Number of attention heads."""
        return self.attention.w.shape[0]

    @property
    def C(self) -> int:
        """Number of logits."""
        return self.bias.size

    @property
    def size(self) -> int | None:
        """Number of instances of every bag if each instance has a fixed position, otherwise None."""
        if self.readout.ndim == 3:
            return len(self.readout)
        if self.positions is None:
            return None
        return len(self.positions)

    def values(self, h: Array, rows: slice) -> Array:
        """Return the (R, n) values of embedded instances (n, E), which are the `rows` of their bag."""
        if self.readout.ndim == 2:
            return self.readout @ h.T
        return np.einsum("nre,ne->rn", self.readout[rows], h)

    def embedded(self, x: NDArray[Any]) -> Array:
        """Embed features: (n, D) -> (n, E) float64."""
        h = np.asarray(x, dtype=np.float64)
        for layer in self.embed:
            h = layer(h)
        return h

    def chunks(self, n: int) -> list[slice]:
        """Split n rows into runs whose widest layer takes about 32 MB."""
        widest = max([self.D, self.attention.w.shape[1], *(len(layer.W) for layer in self.embed)])
        rows = max(1, CHUNK_NUMBERS // widest)
        return [slice(start, min(n, start + rows)) for start in range(0, n, rows)]

    def scores(self, features: NDArray[Any]) -> PooledScores:
        """Return log-masses and values of n >= 1 instances (n, D), or raise an error if some number is not finite."""
        is_matrix = features.ndim == 2 and features.dtype.kind in "fiu"
        fits = is_matrix and len(features) > 0 and features.shape[1] == self.D
        received = f"{features.dtype} {features.shape}"
        check("features", fits, f"real numbers of shape (n, {self.D}), n >= 1", received)
        n = len(features)
        sizes = (None, n)
        check("features", self.size in sizes, f"{self.size} instances, one per position", n)
        s = np.empty((self.H, n))
        v = np.empty((self.readout.shape[-2], n))
        for rows in self.chunks(n):
            h = self.embedded(self.inputs(features, rows))
            s[:, rows] = self.attention(h)
            v[:, rows] = self.values(h, rows)
        for name, numbers in (("log-mass", s), ("value", v)):
            fits_float = np.isfinite(numbers).all(axis=0)
            if not fits_float.all():
                received = f"a {name} that overflows, of instance {fits_float.argmin()}"
                check("features", False, "smaller features", received)
        background: dict[str, Array] = {}
        if self.background is not None:
            h = self.embedded(self.background[None])
            background = {
                "s_background": self.attention(h)[:, 0],
                "v_background": (self.readout @ h.T)[:, 0],
            }
        return PooledScores(s, v, self.bias, self.value_head, self.value_class, **background)  # type: ignore[arg-type]

    def inputs(self, features: NDArray[Any], rows: slice) -> Array:
        """Return rows of the features in float64, with their positions, after checking that they are finite."""
        x = np.asarray(features[rows], dtype=np.float64)
        if not np.isfinite(x).all():
            row, column = np.argwhere(~np.isfinite(x))[0]
            received = f"{x[row, column]} in instance {rows.start + row}"
            check("features", False, "finite numbers", received)
        if self.normalize:
            x = normalized(x, self.normalize)[0]
        if self.positions is None:
            return x
        return x + self.positions[rows]

    def __repr__(self) -> str:
        return f"BagNetwork(D={self.D}, E={self.readout.shape[-1]}, H={self.H}, C={self.C})"


# Scores (n,) from the features and the gradient of some instances, both (n, D).
GRADIENT_SCORES: dict[str, Callable[[Array, Array], Array]] = {
    "gradient-mean": lambda x, g: g.mean(axis=1),
    "gradient-l1": lambda x, g: np.abs(g).sum(axis=1),
    "gradient-l2": lambda x, g: np.sqrt((g**2).sum(axis=1)),
    "gradient-x-input": lambda x, g: (x * g).sum(axis=1),
}


def gradient_scores(
    network: BagNetwork, features: NDArray[Any], scores: PooledScores, coefficients: Sequence[float]
) -> dict[str, Array]:
    """Return (n,) scores by name, from the gradient of `coefficients @ logits` with respect to the features."""
    heads, rows, mixture = scores.heads(coefficients)
    alpha, background = (share[heads] for share in scores.shares())
    v = mixture @ scores.v[rows]
    f = (alpha * v).sum(axis=1) + background * (mixture @ scores.v_background[rows])
    slope = np.zeros(
        (network.H, v.shape[1])
    )  # alpha (v - f); zero in heads that the output does not need
    slope[heads] = alpha * (v - f[:, None])
    by_value = mixture @ network.readout[..., rows, :]  # (h, E), or (N, h, E)
    results = {name: np.empty(len(features)) for name in GRADIENT_SCORES}
    for part in network.chunks(len(features)):
        inputs = [network.inputs(features, part)]  # the inputs of each layer, then of the attention
        for layer in network.embed:
            inputs.append(layer(inputs[-1]))
        if by_value.ndim == 2:
            g = np.einsum("hn,he->ne", alpha[:, part], by_value)
        else:
            g = np.einsum("hn,nhe->ne", alpha[:, part], by_value[part])
        g += network.attention.gradient(inputs[-1], slope[:, part].T)
        for layer, h in zip(network.embed[::-1], inputs[-2::-1], strict=True):
            g = layer.gradient(h, g)
        x = np.asarray(features[part], dtype=np.float64)
        if network.normalize:
            g = normalized_gradient(*normalized(x, network.normalize), g, network.normalize)
        for name, score in GRADIENT_SCORES.items():
            results[name][part] = score(x, g)
    return results
