"""SLALOM, the softmax-linked additive log-odds model of P2 (Leemann et al.), section 5.

Every token has an importance s and a value v (one per class), and a sequence t of tokens has the
output

    F(t) = sum_i alpha_i(t) v(t_i),   alpha(t) = softmax(s(t_1), ..., s(t_T))          (P2, Eq. 4),

with sum s = gamma, because adding a constant to s changes nothing. A token that occurs twice counts
twice. A SLALOM is a softmax-pooled game (`Slalom.game`; docs/theory/slalom.md).

Where this departs from P2:

- A *background* of importance s_0 and value v_0 may be present in every sequence, as special tokens
  or padding are:

      F(t) = (e^{s_0} v_0 + sum_i e^{s(t_i)} v(t_i)) / (e^{s_0} + sum_i e^{s(t_i)}).

  P2's SLALOM is the case s_0 = -infinity, the default. With a background the empty sequence has
  the output v_0.
- Eq. 65: the derivative (Eq. 64) is alpha_i (v_i - F), proportional to v_i e^{s_i} only if F = 0.
  `slalom_linearized` gives the derivative, and the printed score on request.
- Eq. 71 (values of the classes sum to zero) is a choice of representative, because Eq. 73 does not
  depend on what all classes share. The scores are not changed, so that F is the model's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import check, choice, members, numbered, softmax, usual_float_errors, whole
from .._shapes import checked_arrays, set_fields
from .._types import Array, Ids, Tokens
from ..game.pooled_game import PooledGame


@dataclass(frozen=True, eq=False)
class Slalom:
    """A SLALOM on a set of tokens (P2, Eq. 4; several classes: Eq. 70 to 73).

    Parameters
    ----------
    ids : (V,) distinct token ids, any integers
    s : (V,) importances, shared by the classes; they are shifted to sum to `gamma`
    v : (V,) values, or (V, C) values of C classes
    gamma : sum of the importances of the tokens
    s_background : importance of a background in every sequence, shifted with `s`; -infinity for
        none
    v_background : its value, or (C,) values

    Examples
    --------
    >>> slalom = Slalom(ids=[10, 20, 30], s=[0.0, 1.0, 2.0], v=[1.0, -1.0, 0.5])
    >>> slalom
    Slalom(V=3, C=1, gamma=0.0)
    >>> slalom.s
    array([-1.,  0.,  1.])
    >>> float(slalom.predict([10]))
    1.0
    >>> slalom.predict_many([[10, 20], [10, 10, 20]]).round(3)
    array([-0.462, -0.152])
    """

    ids: Ids
    s: Array
    v: Array
    gamma: float = 0.0
    s_background: float = -np.inf
    v_background: ArrayLike = 0.0

    def __post_init__(self) -> None:
        ids = as_ids("ids", self.ids)
        distinct, counts = np.unique(ids, return_counts=True)
        check("ids", ids.size > 0, "at least one token id", "none")
        repeated = f"{distinct[counts.argmax()]} {counts.max()} times"
        check("ids", distinct.size == ids.size, "distinct token ids", repeated)
        axes: dict[str, tuple[str | int, ...]] = {"s": (ids.size,), "v": (ids.size,), "gamma": ()}
        if np.ndim(self.v) == 2:
            axes["v"] = (ids.size, "C")
        # The background has one value for every class, or one that all classes share.
        axes["v_background"] = axes["v"][1:]
        if np.ndim(self.v_background) == 0:
            axes["v_background"] = ()
        given = {name: getattr(self, name) for name in axes}
        arrays, _ = checked_arrays(given, axes)
        background_fits = float(self.s_background) < np.inf
        check("s_background", background_fits, "a number or -inf", repr(self.s_background))
        # Adding a constant to all importances changes nothing, so their sum can be chosen.
        gamma = float(arrays["gamma"])
        shift = gamma / ids.size - arrays["s"].mean()
        v = arrays["v"]
        fields = {
            "ids": ids,
            "s": arrays["s"] + shift,
            "v": v,
            "gamma": gamma,
            "s_background": float(self.s_background) + shift,
            "v_background": np.broadcast_to(arrays["v_background"], v.shape[1:]),
        }
        set_fields(self, fields)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle does not say that an array is read-only.
        set_fields(self, state)

    @property
    def V(self) -> int:
        """Number of tokens."""
        return self.ids.size

    @property
    def C(self) -> int:
        """Number of classes; 1 for v of shape (V,)."""
        return 1 if self.v.ndim == 1 else self.v.shape[1]

    def index(self, tokens: Tokens) -> Ids:
        """Return the rows of `s` and `v` for a sequence of ids, or raise an error for an unknown
        id.
        """
        raw = as_ids("tokens", tokens)
        order = np.argsort(self.ids)
        place = np.searchsorted(self.ids, raw, sorter=order)
        index = order[np.minimum(place, self.V - 1)]
        unknown = np.flatnonzero(self.ids[index] != raw)
        if unknown.size:
            raise ValueError(
                f"tokens: expected ids of this SLALOM ({self.V} of them, "
                f"{self.ids.min()}..{self.ids.max()}), got {raw[unknown[0]]} at position "
                f"{unknown[0]}"
            )
        return index

    @usual_float_errors
    def predict(self, tokens: Tokens) -> Array:
        """Compute F(t), Eq. 4 and 72: a scalar array () for v of shape (V,), otherwise (C,).

        Without a background, an empty sequence has no output and is an error.

        Examples
        --------
        >>> slalom = Slalom(ids=[10, 20, 30], s=[0.0, 1.0, 2.0], v=[1.0, -1.0, 0.5])
        >>> float(slalom.predict([10, 20]).round(4))
        -0.4621
        """
        return self.predict_many([tokens])[0]

    @usual_float_errors
    def predict_many(self, documents: Sequence[Tokens]) -> Array:
        """Compute the outputs of B sequences of any lengths: (B,) for v of shape (V,), otherwise
        (B, C).
        """
        rows = [as_ids("documents", document) for document in documents]
        lengths = np.array([row.size for row in rows], dtype=np.intp)
        background = self.s_background > -np.inf
        if not rows:
            return np.zeros((0, *self.v.shape[1:]))
        empty = np.flatnonzero(lengths == 0)
        if empty.size and not background:
            check("tokens", False, "at least one token", f"an empty document (number {empty[0]})")
        index = self.index(np.concatenate(rows))
        s = self.s[index]
        v = self.v[index]
        starts = np.cumsum(lengths) - lengths
        if background:
            # One more token in front of every sequence.
            s = np.insert(s, starts, self.s_background)
            v = np.insert(v, starts, self.v_background, axis=0)
            lengths = lengths + 1
            starts = np.cumsum(lengths) - lengths
        largest = np.maximum.reduceat(s, starts)
        mass = np.exp(s - np.repeat(largest, lengths))
        total = np.add.reduceat(mass, starts)
        if v.ndim == 1:
            return np.add.reduceat(mass * v, starts) / total
        products = mass[:, None] * v
        return np.add.reduceat(products, starts) / total[:, None]

    @usual_float_errors
    def game(
        self,
        tokens: Tokens,
        players: str = "positions",
        output: int = 0,
        empty_value: float = 0.0,
        absent: int | None = None,
    ) -> PooledGame:
        """Return the game of a document, whose absent players are deleted or replaced by the token
        `absent`.

        Parameters
        ----------
        tokens : T ids, at least one
        players : "positions" makes every token a player; "words" makes every distinct id a player
        output : the class that is explained
        empty_value : the value of the empty document, which Eq. 4 leaves open; not used with a
            background
        absent : id of the token that replaces absent players, or None to delete them

        Examples
        --------
        >>> slalom = Slalom(ids=[10, 20, 30], s=[0.0, 1.0, 2.0], v=[1.0, -1.0, 0.5])
        >>> game = slalom.game([30, 10, 10], players="words")
        >>> game.labels
        ('30', '10')
        >>> game.value([[True, True], [False, True]]).round(4)
        array([0.6065, 1.    ])
        """
        choice("players", players, ("positions", "words"))
        index = self.index(tokens)
        check("tokens", index.size > 0, "at least one token", "an empty document")
        v, v_background = self._class_values(output)
        others = {}
        if self.s_background > -np.inf:
            others["s_background"] = self.s_background
            others["v_background"] = v_background
        if absent is not None:
            (row,) = self.index([absent])
            others["s_absent"] = self.s[row]
            others["v_absent"] = v[row]
        game = PooledGame.from_scores(
            self.s[index],
            v[index],
            **others,
            empty_value=empty_value,
            labels=[str(i) for i in self.ids[index]],
        )
        if players == "positions":
            return game
        return game.merge(members(numbered(index)[0]))

    def _class_values(self, output: int) -> tuple[Array, float]:
        """Return the values of the tokens, (V,), and of the background, for one class."""
        whole("output", output, least=0, most=self.C - 1)
        if self.v.ndim == 1:
            return self.v, float(self.v_background)  # type: ignore[arg-type]  # an array () by now
        return self.v[:, output], float(np.asarray(self.v_background)[output])

    def __repr__(self) -> str:
        background = ""
        if self.s_background > -np.inf:
            background = f", s_background={self.s_background:.4g}"
        return f"Slalom(V={self.V}, C={self.C}, gamma={self.gamma}{background})"


@usual_float_errors
def slalom_linearized(
    slalom: Slalom, tokens: Tokens, as_printed: bool = False, output: int = 0
) -> Array:
    """Compute one score per token, (T,), from importance and value (P2, section 5.4 and B.7).

    Parameters
    ----------
    slalom : Slalom
    tokens : T ids, at least one
    as_printed : False gives the derivative of F by the soft presence of each token at full
        presence, alpha_i (v_i - F) (Eq. 64), which sums to zero without a background; True gives
        v_i e^{s_i} (Eq. 65)
    output : class

    Returns
    -------
    (T,) float64
        first-order effect of each token of the sequence

    Examples
    --------
    >>> slalom = Slalom(ids=[10, 20, 30], s=[0.0, 1.0, 2.0], v=[1.0, 1.0, 1.0])
    >>> bool(np.abs(slalom_linearized(slalom, [10, 20, 30])).max() < 1e-15)
    True
    >>> slalom_linearized(slalom, [10, 20, 30], as_printed=True).round(3)
    array([0.368, 1.   , 2.718])
    """
    index = slalom.index(tokens)
    if index.size == 0:
        raise ValueError("tokens: expected at least one token, got an empty document")
    values, v_background = slalom._class_values(output)
    s = slalom.s[index]
    v = values[index]
    if as_printed:
        # log|v| inside, so that a value of zero stays zero where e^s is infinite.
        log_v = np.full(v.shape, -np.inf)
        np.log(np.abs(v), where=v != 0, out=log_v)
        with np.errstate(over="ignore"):
            return np.sign(v) * np.exp(s + log_v)
    alpha = softmax(np.r_[s, slalom.s_background])
    F = alpha @ np.r_[v, v_background]
    return alpha[:-1] * (v - F)


def as_ids(name: str, value: ArrayLike | Tokens) -> Ids:
    """Return a copy of ids as a one-dimensional integer array."""
    raw: NDArray[Any] = np.asarray(value)
    if raw.ndim != 1:
        raise ValueError(
            f"{name}: expected a one-dimensional sequence of ids, got shape {raw.shape}"
        )
    if raw.size and raw.dtype.kind not in "iu":
        hint = ""
        if raw.dtype.kind in "UO":
            hint = (
                "; number the tokens first, e.g. number = {token: i for i, token in "
                "enumerate(dict.fromkeys(tokens))}"
            )
        raise ValueError(f"{name}: expected integer ids, got dtype {raw.dtype}{hint}")
    return raw.astype(np.intp)
