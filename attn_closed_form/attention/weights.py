"""The weights of an attention classifier: one frozen, validated value.

The model is that of Lopardo, Precioso, Garreau (2024), section 2 ("P1"): token and position
embeddings, K heads of scaled dot-product attention with one query each (that of [CLS]), one linear
layer per head, the mean over heads:

    e_t = W_e[token_t] + W_p[t],   k, q, v = W e + b,   alpha = softmax(q . k_t / sqrt(d_att)),
    f   = (1/K) sum_i W_l^(i) sum_t alpha_t^(i) v_t^(i) + b_l.

The heads are averaged (the factor 1/K), and a document is padded with [UNK] to T_max - 1 tokens;
padding is not masked, so that it receives attention (Eq. 4, 8).

Departures from the paper: arrays are row-major (one row per token, so `W_e` is (D, d_e), the
paper's transposed); `W_l` may have C rows, one per output; there may be biases. A model may have no
positions (`W_p` None). Padding would only dilute its attention, so it has no padding either, and no
maximum length: deleting a word changes nothing else.

Position embeddings are an array of the weights. Eq. 3 takes base T_max, one-based coordinates,
cosine on the even ones and the same frequency T_max^(-2i/d_e) for the pair (2i-1, 2i). The authors'
PyTorch code is the familiar one of Vaswani et al. (2017): base 10000, zero-based coordinates, sine
on the even ones, frequency 10000^(-2i/d_e) for the pair (2i, 2i+1). The two differ in the
frequencies (by one step) even with equal bases.

**Score tables.** [CLS] is fixed, so its query q^(i) is a constant of the model, and so are

    w_k^(i) = W_k^T q^(i) / sqrt(d_att)      w_v^(i,c) = W_v^T W_l[c]        (both in R^{d_e}).

The attention logit of a token is `s_t = e_t . w_k + const`, its value `u_t = e_t . w_v + const`,
and because e_t = W_e[token] + W_p[t] both split into a token part and a position part, with a table
for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._arrays import positive, whole
from .._shapes import checked_arrays, set_fields
from .._types import Array, Ids

# The axes of every array, by name: equal names must have equal lengths.
WEIGHT_AXES: dict[str, tuple[str, ...]] = {
    "W_e": ("D", "d_e"),
    "W_p": ("T_max", "d_e"),
    "W_q": ("K", "d_att", "d_e"),
    "W_k": ("K", "d_att", "d_e"),
    "W_v": ("K", "d_out", "d_e"),
    "W_l": ("K", "C", "d_out"),
    "b_q": ("K", "d_att"),
    "b_k": ("K", "d_att"),
    "b_v": ("K", "d_out"),
    "b_l": ("C",),
}
# The arrays that are zero by default.
BIASES = ("b_q", "b_k", "b_v", "b_l")


class Collapse(NamedTuple):
    """Score tables of a model; the constants are inside the position tables, which have one row
    without positions.
    """

    q: Array  # (K, d_att)
    w_k: Array  # (K, d_e)
    w_v: Array  # (K, C, d_e)
    s_const: Array  # (K,)
    u_const: Array  # (K, C)
    s_tok: Array  # (D, K)
    s_pos: Array  # (T_max, K)
    u_tok: Array  # (D, K, C)
    u_pos: Array  # (T_max, K, C)


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """Weights of P1's attention classifier (section 2). They are checked once, and stored as
    read-only float64 arrays.

    The output is the mean over the K heads, not the sum. With positions, documents are padded with
    [UNK], which is not masked. A model that was trained with another convention gives other
    numbers.

    The lengths D, d_e, T_max, K, d_att, d_out and C are attributes; T_max is None without
    positions.

    Parameters
    ----------
    W_e : (D, d_e) token embeddings, Eq. 2. All arrays may be torch tensors
    W_p : (T_max, d_e) position embeddings; row 0 belongs to [CLS]. See `sinusoidal_positions` for
        Eq. 3. A model without positions (None) reads [CLS] and a document of any length, without
        padding
    W_q, W_k : (K, d_att, d_e) queries and keys, Eq. 5 and 6
    W_v : (K, d_out, d_e) values, Eq. 7
    W_l : (K, C, d_out) last layer, Eq. 1; C = 1 is the paper's scalar model
    b_q, b_k, b_v, b_l : (K, d_att), (K, d_att), (K, d_out) and (C,) biases, zero by default
    cls, unk : ids of [CLS] and [UNK] in the vocabulary

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> weights = AttentionWeights(
    ...     W_e=rng.normal(size=(9, 4)),
    ...     W_p=None,
    ...     W_q=rng.normal(size=(2, 3, 4)),
    ...     W_k=rng.normal(size=(2, 3, 4)),
    ...     W_v=rng.normal(size=(2, 5, 4)),
    ...     W_l=rng.normal(size=(2, 1, 5)),
    ... )
    >>> weights
    AttentionWeights(D=9, d_e=4, T_max=None, K=2, d_att=3, d_out=5, C=1, cls=0, unk=1)
    """

    W_e: Array
    W_p: Array | None
    W_q: Array
    W_k: Array
    W_v: Array
    W_l: Array
    b_q: Array = None  # type: ignore[assignment]  # filled with zeros in __post_init__
    b_k: Array = None  # type: ignore[assignment]
    b_v: Array = None  # type: ignore[assignment]
    b_l: Array = None  # type: ignore[assignment]
    cls: int = 0
    unk: int = 1
    D: int = field(init=False)
    d_e: int = field(init=False)
    T_max: int | None = field(init=False)
    K: int = field(init=False)
    d_att: int = field(init=False)
    d_out: int = field(init=False)
    C: int = field(init=False)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in WEIGHT_AXES}
        arrays, sizes = checked_arrays(given, WEIGHT_AXES, optional=("W_p", *BIASES))
        for name in BIASES:
            if name not in arrays:
                arrays[name] = np.zeros([sizes[axis] for axis in WEIGHT_AXES[name]])
        last_id = sizes["D"] - 1
        ids = {
            "cls": whole("cls", self.cls, least=0, most=last_id),
            "unk": whole("unk", self.unk, least=0, most=last_id),
        }
        set_fields(self, {"T_max": None, **sizes, **arrays, **ids})

    @property
    def room(self) -> float:
        """The maximum number of tokens of a document, without [CLS]: T_max - 1, or infinity without
        positions.
        """
        if self.T_max is None:
            return np.inf
        return self.T_max - 1

    @cached_property
    def collapse(self) -> Collapse:
        """The score tables, computed on first use; their entries must be finite."""
        if self.W_p is None:
            W_p = np.zeros((1, self.d_e))
        else:
            W_p = self.W_p
        with np.errstate(over="ignore", invalid="ignore"):
            e_cls = self.W_e[self.cls] + W_p[0]
            q = np.einsum("kae,e->ka", self.W_q, e_cls) + self.b_q
            scale = 1.0 / np.sqrt(self.d_att)
            w_k = np.einsum("kae,ka->ke", self.W_k, q) * scale
            w_v = np.einsum("koe,kco->kce", self.W_v, self.W_l)
            s_const = np.einsum("ka,ka->k", self.b_k, q) * scale
            u_const = np.einsum("ko,kco->kc", self.b_v, self.W_l)
            s_tok = self.W_e @ w_k.T
            s_pos = W_p @ w_k.T + s_const
            w_v_columns = w_v.reshape(-1, self.d_e).T
            u_tok = (self.W_e @ w_v_columns).reshape(-1, self.K, self.C)
            u_pos = (W_p @ w_v_columns).reshape(-1, self.K, self.C) + u_const
        tables = Collapse(
            q=q,
            w_k=w_k,
            w_v=w_v,
            s_const=s_const,
            u_const=u_const,
            s_tok=s_tok,
            s_pos=s_pos,
            u_tok=u_tok,
            u_pos=u_pos,
        )
        # Two tables are added, so each may use half of the range of float64.
        largest = np.finfo(np.float64).max / 2
        for name, table in zip(Collapse._fields, tables, strict=True):
            if not (np.abs(table) < largest).all():
                raise ValueError(
                    f"weights: expected products within the range of float64, but {name} overflows"
                )
            table.flags.writeable = False
        return tables

    def embed(self, ids: Ids) -> Array:
        """Return the (L, d_e) embeddings of the ids (L,) that the model reads, [CLS] first (Eq. 2
        and 4).
        """
        if self.W_p is None:
            return self.W_e[ids]
        return self.W_e[ids] + self.W_p

    def arrays(self) -> dict[str, Array]:
        """Return the arrays by name, in the order of the constructor; W_p only if the model has
        positions.
        """
        return {
            name: getattr(self, name) for name in WEIGHT_AXES if getattr(self, name) is not None
        }

    def __repr__(self) -> str:
        names = ("D", "d_e", "T_max", "K", "d_att", "d_out", "C")
        sizes = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"AttentionWeights({sizes}, cls={self.cls}, unk={self.unk})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "collapse"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle does not say that an array is read-only.
        set_fields(self, state)


def sinusoidal_positions(T_max: int, d_e: int, base: float | None = None) -> Array:
    """Return the (T_max, d_e) sinusoidal embeddings of positions 0 .. T_max - 1.

    Parameters
    ----------
    T_max, d_e : number of positions, and size of an embedding
    base : None for P1's Eq. 3 (base T_max, one-based coordinates), or a number, such as 10000.0,
        for the convention of the authors' code and of Vaswani et al. (zero-based coordinates)

    Returns
    -------
    (T_max, d_e) float64
        one row per position, to pass as the weights' positional embedding

    Examples
    --------
    >>> sinusoidal_positions(4, 2).round(3)  # P1 Eq. 3: sin(t / 4), cos(t / 4)
    array([[0.   , 1.   ],
           [0.247, 0.969],
           [0.479, 0.878],
           [0.682, 0.732]])
    >>> sinusoidal_positions(2, 2, base=10000.0).round(3)  # the authors' code: sin(t), cos(t)
    array([[0.   , 1.   ],
           [0.841, 0.54 ]])
    """
    places = np.arange(whole("T_max", T_max))
    coordinate = np.arange(whole("d_e", d_e))
    pair = coordinate // 2
    if base is None:
        # Eq. 3 counts coordinates, and so pairs, from one.
        pair = pair + 1
        base = T_max
    frequency = positive("base", base) ** (-2.0 * pair / d_e)
    angle = places[:, None] * frequency
    return np.where(coordinate % 2 == 0, np.sin(angle), np.cos(angle))
