"""Networks that pool a bag with attention, as arrays that map features of instances to log-masses
and values.

Each instance x is embedded alone, h = e(x), by layers h -> activation(W h + b). Attention head k
gives it the log-mass

    s_k = w_k . (activation(V h + a) * gate(U h + b)) / temperature        (gated; Ilse, Tomczak, Welling 2018, Eq. 9)

(without U: not gated, Eq. 8; without V as well: s_k = w_k . h, as in attentive probes; w = 0: mean
pooling). A linear layer after the pooling can be applied to the instances: row r of the readout
gives the value v_r = R_r . h, in head `value_head[r]`, for pooled number `value_class[r]` (see
`PooledScores`). Without a `tail`, the pooled numbers are the logits; a tail computes the logits
from them (`tail.py`). `layouts.py` folds everything that is constant in evaluation (batch
normalization, biases) into these arrays. Features keep their type (float32, float16); chunks of
rows are scored in float64.

**Gradients** with respect to the features need no automatic differentiation. With f = sum_h sum_i
alpha_hi v_hi,

    df/dh_i = sum_h alpha_hi [ dv_hi/dh_i + (v_hi - f_h) ds_hi/dh_i ],

because an instance enters its heads only through s and v (the two terms of Theorem 4.1 of Lopardo
et al. 2024). The heads are added up before the hidden layer of the attention, so the cost does not
grow with their number.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._arrays import check, choice, positive
from ..._shapes import checked_arrays, set_fields
from ..._types import Array, Ids
from ...game.scores import PooledScores
from ...game.tails import Tail
from .layers import ACTIVATIONS, NORMALIZATIONS, Layer, normalized, normalized_gradient
from .tail import LayeredTail

# Numbers per chunk of rows: 32 MB of float64 in the widest layer.
CHUNK_NUMBERS = 1 << 22


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention of H heads: log-masses of embedded instances, by the formula in the module
    docstring.

    The constant c of a head does not change predictions; it is kept for comparisons of raw
    attention.
    """

    w: Array  # (H, k)
    c: Array = None  # type: ignore[assignment]  # (H,), zeros by default
    hidden: Layer | None = None  # layer from the embedding (length E) to k; if None, w is (H, E)
    # Layer of the same shape, whose output multiplies that of the hidden layer.
    gate: Layer | None = None
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
        """Return the (n, E) sum over heads of `slope` (n, H) times ds/dh, at embedded instances h
        (n, E).
        """
        if self.score_activation != "identity":
            slope = slope * ACTIVATIONS[self.score_activation].derivative(self._scores(h)).T
        slope = slope @ self.w / self.temperature
        if self.hidden is None:
            return slope
        if self.gate is None:
            return self.hidden.gradient(h, slope)
        # The product rule: the slope of each factor is multiplied by the other factor.
        return self.hidden.gradient(h, slope * self.gate(h)) + self.gate.gradient(
            h, slope * self.hidden(h)
        )


# The axes of the arrays of a network: D features, E embedded features, R value rows, C classes, N
# places.
NETWORK_AXES: dict[str, tuple[str, ...]] = {
    "embedded": ("E",),
    "features": ("D",),
    "readout": ("R", "E"),
    "bias": ("C",),
    "positions": ("N", "D"),
    "background": ("D",),
    "position_weight": ("H",),
}


@dataclass(frozen=True, eq=False)
class BagNetwork:
    """Embedding, attention and readout of a bag model. The loaders build it; `scores` applies it.

    Attributes
    ----------
    attention : Attention of H heads on embedded instances of length E
    readout : (R, E) values of an embedded instance, or (N, R, E) with one for each place in the bag
    bias : (C,) of the logits
    value_class, value_head : (R,) class and head of each row of the readout; if None, row r is
        class r of head 0
    embed : layers from the features (length D) to E, in order; none if the features are the
        embedding
    positions : (N, D) added to the features (bags then have exactly N instances), or None
    background : (D,) features of an instance that is always present, such as a class token, or None
    normalize : "unit" or "layer_norm" to scale each feature vector first
    position_weight : (H,) times the number of an instance in its bag is added to its log-masses,
        or None
    tail : what follows the pooling, from pooled vectors (n, C) to logits (n, Q): a list of steps
        (`LayeredTail`) or any function; None if the pooled vectors are the logits

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
    tail: Tail | None = None
    position_weight: Array | None = None

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
            "position_weight": self.position_weight,
        }
        axes = dict(NETWORK_AXES)
        if np.ndim(self.readout) == 3:
            axes["readout"] = ("N", *NETWORK_AXES["readout"])
        arrays, _ = checked_arrays(
            given, axes, optional=["positions", "background", "position_weight"]
        )
        # The two vectors of zeros only stated sizes and are not fields.
        del arrays["embedded"], arrays["features"]
        if self.position_weight is not None:
            count = np.size(self.position_weight)
            check("position_weight", count == self.H, f"{self.H} numbers, one per head", count)
        fields: dict[str, Any] = arrays
        for name in ("value_class", "value_head"):
            if getattr(self, name) is not None:
                fields[name] = np.array(getattr(self, name), dtype=np.intp)
        set_fields(self, fields)
        if isinstance(self.tail, Sequence):
            object.__setattr__(self, "tail", LayeredTail(self.tail))
        if self.tail is not None:
            self._check_tail(self.tail)

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, state)

    def _check_tail(self, tail: Tail) -> None:
        """Raise an error unless the tail maps two pooled vectors to a matrix with two rows of
        numbers.
        """
        expected = f"a function from pooled vectors (n, {self.C}) to logits (n, Q)"
        try:
            # Two rows show that the function keeps the rows apart; one row could not.
            logits = np.asarray(tail(np.stack([self.bias, self.bias + 1.0])), dtype=np.float64)
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(f"tail: expected {expected}, got an error: {error}") from error
        is_matrix = logits.ndim == 2 and len(logits) == 2 and logits.size > 0
        check("tail", is_matrix, expected, f"shape {logits.shape} for n = 2")
        check("tail", np.isfinite(logits).all(), "finite logits", logits[0])

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
        """Length of the pooled vectors; without a tail, they are the logits."""
        return self.bias.size

    @property
    def Q(self) -> int:
        """Number of logits."""
        if self.tail is None:
            return self.C
        return int(np.shape(self.tail(self.bias[None]))[1])

    @property
    def size(self) -> int | None:
        """Number of instances of every bag if each instance has a fixed position, otherwise
        None.
        """
        if self.readout.ndim == 3:
            return len(self.readout)
        if self.positions is None:
            return None
        return len(self.positions)

    @property
    def has_places(self) -> bool:
        """Whether the scores of an instance depend on its place in the bag, which a sub-bag would
        change.
        """
        moved = self.position_weight is not None and bool(self.position_weight.any())
        return self.size is not None or moved

    def then(self, steps: Sequence[Any]) -> BagNetwork:
        """Return this network, which has no tail yet, with layers after its pooling (see
        `LayeredTail`).

        Linear layers at the start become part of the readout, unless more heads than one would make
        it longer; a tail of linear layers alone always does, so that the network stays a pooled
        game.
        """
        tail = LayeredTail(steps)
        if not tail.steps:
            return self
        first = tail.steps[0]
        heads = self._heads_of_rows()
        count = len(np.unique(heads))
        is_short = isinstance(first, Layer) and len(first.W) * count <= len(heads)
        if isinstance(first, Layer) and (is_short or len(tail.steps) == 1):
            network = self._projected(first)
            # The next step may be linear as well.
            return network.then(tail.steps[1:])
        return replace(self, tail=tail)

    def _heads_of_rows(self) -> Ids:
        """Return the head (R,) of each row of the readout."""
        if self.value_head is None:
            return np.zeros(self.readout.shape[-2], dtype=np.intp)
        return self.value_head

    def _projected(self, layer: Layer) -> BagNetwork:
        """Return the network whose pooled vectors are those of this one after a linear layer."""
        outputs = len(layer.W)
        width = layer.W.shape[1]
        check("tail", width == self.C, f"a layer for {self.C} pooled numbers", width)
        heads = self._heads_of_rows()
        classes = np.arange(len(heads)) if self.value_class is None else self.value_class
        used = np.unique(heads)
        # Several heads may contribute to one pooled number, each with weights of its own, so the
        # layer is applied to the rows of each head.
        parts = []
        for head in used.tolist():
            rows = heads == head
            parts.append(layer.W[:, classes[rows]] @ self.readout[..., rows, :])
        return replace(
            self,
            readout=np.concatenate(parts, axis=-2),
            bias=layer.W @ self.bias + layer.b,
            value_class=np.tile(np.arange(outputs), len(used)),
            value_head=np.repeat(used, outputs),
        )

    def values(self, h: Array, rows: slice) -> Array:
        """Return the (R, n) values of embedded instances (n, E), which are the `rows` of their
        bag.
        """
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
        """Return log-masses and values of n >= 1 instances (n, D), or raise an error if some number
        is not finite.
        """
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
            if self.position_weight is not None:
                # The number of an instance counts from the start of its bag, not of this chunk.
                s[:, rows] += self.position_weight[:, None] * np.arange(rows.start, rows.stop)
            v[:, rows] = self.values(h, rows)
        for name, numbers in (("log-mass", s), ("value", v)):
            fits_float = np.isfinite(numbers).all(axis=0)
            if not fits_float.all():
                received = f"a {name} that overflows, of instance {fits_float.argmin()}"
                check("features", False, "smaller features", received)
        background: dict[str, Array] = {}
        if self.background is not None:
            # A class token has no place in the bag, so it gets no position and no position weight.
            h = self.embedded(self.background[None])
            background = {
                "s_background": self.attention(h)[:, 0],
                "v_background": (self.readout @ h.T)[:, 0],
            }
        return PooledScores(
            s=s,
            v=v,
            bias=self.bias,
            head=self.value_head,  # type: ignore[arg-type]
            output=self.value_class,  # type: ignore[arg-type]
            **background,  # type: ignore[arg-type]
        )

    def inputs(self, features: NDArray[Any], rows: slice) -> Array:
        """Return rows of the features in float64, with their positions, after checking that they
        are finite.
        """
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
        sizes = f"D={self.D}, E={self.readout.shape[-1]}, H={self.H}, C={self.C}"
        if self.tail is None:
            return f"BagNetwork({sizes})"
        return f"BagNetwork({sizes}, tail={self.tail!r})"


# Scores (n,) from the features and the gradient of some instances, both (n, D).
GRADIENT_SCORES: dict[str, Callable[[Array, Array], Array]] = {
    "gradient-mean": lambda x, g: g.mean(axis=1),
    "gradient-l1": lambda x, g: np.abs(g).sum(axis=1),
    "gradient-l2": lambda x, g: np.sqrt((g**2).sum(axis=1)),
    "gradient-x-input": lambda x, g: (x * g).sum(axis=1),
}


def gradient_scores(
    network: BagNetwork,
    features: NDArray[Any],
    scores: PooledScores,
    coefficients: Sequence[float] | Array,
) -> dict[str, Array]:
    """Return (n,) scores by name, from the gradient of `coefficients @ logits` with respect to the
    features.
    """
    if network.tail is not None:
        # The tail is replaced by its tangent at the pooled vector, which has the same gradient.
        gradient_of = getattr(network.tail, "gradient", None)
        if gradient_of is None:
            raise ValueError(
                "methods: gradients need a tail of layers; the gradient of a function is unknown"
            )
        coefficients = gradient_of(scores.logits(), coefficients)
    heads, rows, mixture = scores.heads(coefficients)
    alpha, background = (share[heads] for share in scores.shares())
    v = mixture @ scores.v[rows]
    f = (alpha * v).sum(axis=1) + background * (mixture @ scores.v_background[rows])
    # The slope alpha (v - f) is zero in heads that the output does not need.
    slope = np.zeros((network.H, v.shape[1]))
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
        # The last inputs are those of the attention, so the last layer of the embedding has the
        # ones before.
        for layer, h in zip(network.embed[::-1], inputs[-2::-1], strict=True):
            g = layer.gradient(h, g)
        # Positions are added after the normalization and do not change its gradient.
        x = np.asarray(features[part], dtype=np.float64)
        if network.normalize:
            g = normalized_gradient(*normalized(x, network.normalize), g, network.normalize)
        for name, score in GRADIENT_SCORES.items():
            results[name][part] = score(x, g)
    return results
