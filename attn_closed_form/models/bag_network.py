"""A network that pools a bag with attention, as arrays: instance features -> log-masses and values.

Each instance x is embedded alone, h = e(x), by layers h -> activation(W h + b). Attention head k gives it the log-mass

    s_k = w_k . (activation(V h + a) * gate(U h + b)) / temperature        (gated; Ilse, Tomczak, Welling 2018, Eq. 9)

(without U: not gated, Eq. 8; without V as well: s_k = w_k . h, as in attentive probes; w = 0: mean pooling). What comes
after the pooling is linear, so that it acts on the instances: row r of the readout gives the value v_r = R_r . h, in
head `value_head[r]`, for class `value_class[r]`, and the logits are

    f_c = bias_c + sum over the rows r of class c of sum_i softmax_i(s of r's head)_i v_{r,i}.

One attention shared by C classes has C rows in one head; CLAM-MB has one head and one row per class; a probe with H
heads has one row for every head and class. Everything that is constant in evaluation (batch normalisation, the biases)
is folded into these arrays by the loaders in `layouts/`.

Features keep their type (float32, float16); chunks of rows are scored in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array, Ids
from ..game.pooled_game import merge_tokens
from .bag_layers import Attention, Layer, matrix, vector

# Numbers per chunk of rows: 32 MB of float64 in the widest layer.
CHUNK_NUMBERS = 1 << 22


class InstanceScores(NamedTuple):
    """Log-masses and values of a bag: s (H, n), v (R, n); the same of what is always present, (H,) and (R,)."""

    s: Array
    v: Array
    s_background: Array
    v_background: Array


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
    value_class: Ids | None = None
    value_head: Ids | None = None
    embed: tuple[Layer, ...] = ()
    background: Array | None = None
    positions: Array | None = None

    def __post_init__(self) -> None:
        readout = matrix("readout", self.readout)
        R = readout.shape[0]
        bias = np.array(self.bias, dtype=np.float64).reshape(-1)
        object.__setattr__(self, "readout", readout)
        object.__setattr__(self, "bias", vector("bias", bias, bias.size))
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
                table = matrix(name, getattr(self, name))
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

    def heads(self, coefficients: Sequence[float]) -> tuple[Ids, Array]:
        """Heads that a direction over the classes needs, (h,), and its mixture of the readout rows in each, (h, R)."""
        assert self.value_class is not None and self.value_head is not None
        weight = np.asarray(coefficients, dtype=np.float64)[self.value_class]
        used = np.unique(self.value_head[weight != 0])
        return used, np.where(self.value_head == used[:, None], weight, 0.0)

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

    def scores(self, features: NDArray[Any]) -> InstanceScores:
        """Log-masses and values of every instance.

        Parameters
        ----------
        features : (n, D) real numbers, n >= 1; NaN and infinite ones are an error that names the instance

        Returns
        -------
        InstanceScores
        """
        n = self._check(features)
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
        return InstanceScores(s, v, *self._background_scores())

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

    def _background_scores(self) -> tuple[Array, Array]:
        if self.background is None:
            return np.full(self.H, -np.inf), np.zeros(self.readout.shape[0])
        h = self.embedded(self.background)
        assert self.value_head is not None
        log_mass = self.attention(h)
        return merge_tokens(log_mass, np.zeros_like(log_mass))[0], merge_tokens(
            log_mass[self.value_head], self.readout @ h.T
        )[1]

    def _check(self, features: NDArray[Any]) -> int:
        shape, kind = features.shape, features.dtype.kind
        if len(shape) != 2 or shape[0] < 1 or shape[1] != self.D or kind not in "fiu":
            raise ValueError(
                f"features: expected real numbers of shape (n, {self.D}), n >= 1, got {features.dtype} {shape}"
            )
        if self.positions is not None and shape[0] != len(self.positions):
            raise ValueError(f"features: expected {len(self.positions)} instances, one per position, got {shape[0]}")
        return shape[0]

    def __repr__(self) -> str:
        return f"BagNetwork(D={self.D}, E={self.readout.shape[1]}, H={self.H}, C={self.C})"


def pooled_logits(network: BagNetwork, scores: InstanceScores) -> Array:
    """(C,) logits from the scores of the instances."""
    assert network.value_class is not None and network.value_head is not None
    alpha, rest = softmax_with(scores.s, scores.s_background)
    rows = (alpha[network.value_head] * scores.v).sum(axis=1) + rest[network.value_head] * scores.v_background
    logits: Array = network.bias + np.bincount(network.value_class, weights=rows, minlength=network.C)
    return logits


def softmax_with(s: Array, s_background: Array) -> tuple[Array, Array]:
    """Softmax over the instances and the background: (h, n) and (h,)."""
    top = np.maximum(s.max(axis=1), s_background)
    mass, rest = np.exp(s - top[:, None]), np.exp(s_background - top)
    total = mass.sum(axis=1) + rest
    return mass / total[:, None], rest / total
