"""Conversions between attention weights and SLALOMs: read off a SLALOM, or build weights that
compute it.

**Reading off.** In terms of its score tables (`weights.py`), a head without positions *is* a SLALOM
with s(token) = s_tok and v(token) = u_tok, on the sequence that the model sees: [CLS], the document
and, with positions, [UNK] up to T_max. `SlalomReadoff.sequence` makes this sequence. A model with
one head and no positions is exactly a SLALOM, and one with K heads exactly the mean of K SLALOMs.
If positions matter, there is one exact SLALOM per document, whose tokens are the T_max positions.
In the last two cases a *single* SLALOM on token ids can only be fitted. It is fitted without [CLS]:
all samples have the same number of other tokens, so no sample can distinguish the mass of [CLS]
from an equal share of it in each of them.

**Building.** The printed construction of P2, Prop. 5.1, does not compute what it claims: with W_k =
0 and W_q = I the logit is the importance of the *query*, the same for every key; the value is in
the second coordinate while W_class reads the third; and the division by sqrt(d) is not undone.
`slalom_to_weights` describes the corrected one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._arrays import usual_float_errors, whole
from .._types import Array, Ids, Tokens
from ..attention.predict import as_tokens, pad, predict_many
from ..attention.weights import AttentionWeights
from .design import deletions, distinct
from .fit import fit_sequences
from .optimum import Optimum
from .slalom import Slalom, as_ids

# How much lighter than every token [CLS] and padding are made: e^-60 is 1e-26, and float64 has
# 1e-16. So even when 10^9 of them share it, they are below half a unit in the last place of 1.
UNHEARD = 60.0


class SlalomReadoff(NamedTuple):
    """SLALOMs of a model. `slalom` is None if there are several heads and no document was given.

    `mse` and `r2` are those of `slalom` on held-out samples of the document with up to 10 tokens
    replaced by [UNK]: 0 and 1 if exact, NaN without a SLALOM.
    """

    # On token ids: that of the model if `exact`, otherwise the best fit for a document.
    slalom: Slalom | None
    # K, whose mean is exactly the model: on token ids, or on positions if those matter.
    heads: tuple[Slalom, ...]
    # Whether `slalom` is the model itself.
    exact: bool
    # Whether `heads` are on positions.
    by_position: bool
    mse: float
    r2: float
    weights: AttentionWeights

    def sequence(self, tokens: Tokens, cls: bool = True) -> Ids:
        """Return the ids that the model reads: [CLS] (unless `cls` is False), the document, and the
        padding.
        """
        ids = as_ids("tokens", tokens)
        if ids.size > self.weights.room:
            raise ValueError(f"tokens: expected at most {self.weights.room}, got {ids.size}")
        return pad(self.weights, [ids])[0][0 if cls else 1 :]

    def predict(self, tokens: Tokens) -> Array:
        """Return the output of `slalom` for a document, () or (C,)."""
        if self.slalom is None:
            raise ValueError(
                "slalom: expected one SLALOM, got only heads; pass a document to "
                "slalom_from_weights"
            )
        return self.slalom.predict(self.sequence(tokens, cls=self.exact))


@usual_float_errors
def slalom_from_weights(
    weights: AttentionWeights,
    tokens: Tokens | None = None,
    gamma: float = 0.0,
    num_samples: int = 2000,
    seed: int = 0,
) -> SlalomReadoff:
    """Return the SLALOMs of an attention classifier: exact ones if they exist, otherwise the best
    fit for a document.

    The biases of the output are part of the values.

    Parameters
    ----------
    weights : AttentionWeights
    tokens : a document, needed if positions matter. With several heads, the best single SLALOM of
        the document is added, fitted as in Algorithm 2 to the model with up to 5 tokens
        replaced by [UNK]
    gamma : sum to which the importances of each SLALOM are shifted; importances are defined only up
        to a shift
    num_samples, seed : number of samples and seed of that fit, see `fit_slalom`

    Returns
    -------
    SlalomReadoff
        the SLALOM of the classifier, and whether it equals the classifier exactly

    Examples
    --------
    >>> from attn_closed_form import predict
    >>> from attn_closed_form.attention import random_weights
    >>> weights = random_weights(seed=0, K=1, T_max=None)
    >>> readoff = slalom_from_weights(weights)
    >>> (
    ...     readoff.exact,
    ...     bool(np.isclose(readoff.predict([7, 3, 7]), predict(weights, [7, 3, 7])).all()),
    ... )
    (True, True)
    """
    if weights.room < 1:
        raise ValueError(
            f"weights: expected T_max >= 2, with room for a document, got {weights.T_max}"
        )
    tables = weights.collapse
    no_s_positions = _constant(tables.s_pos[1:])
    no_u_positions = _constant(tables.u_pos[1:])
    by_position = not (no_s_positions and no_u_positions)
    ids = None
    if tokens is not None:
        ids = as_tokens(weights, tokens)
        if ids.size == 0:
            raise ValueError("tokens: expected at least one token, got an empty document")
    if by_position:
        if ids is None:
            raise ValueError(
                "tokens: expected a document, got None: positions matter in these weights"
            )
        seen = pad(weights, [ids])[0]
        s = tables.s_tok[seen] + tables.s_pos
        u = tables.u_tok[seen] + tables.u_pos
    else:
        # Any position but that of [CLS], if the model has positions.
        other = min(1, len(tables.s_pos) - 1)
        s = tables.s_tok + tables.s_pos[other]
        u = tables.u_tok + tables.u_pos[other]
        # [CLS] is always at position 0.
        s[weights.cls] += tables.s_pos[0] - tables.s_pos[other]
        u[weights.cls] += tables.u_pos[0] - tables.u_pos[other]
    heads = []
    for i in range(weights.K):
        values = _squeeze(u[:, i] + weights.b_l)
        heads.append(Slalom(ids=np.arange(len(s)), s=s[:, i], v=values, gamma=gamma))
    exact = weights.K == 1 and not by_position
    slalom = None
    mse = np.nan
    r2 = np.nan
    if exact:
        slalom = heads[0]
        mse = 0.0
        r2 = 1.0
    elif ids is not None:
        slalom, mse, r2 = _best(weights, ids, gamma, samples=num_samples, seed=seed)
    return SlalomReadoff(
        slalom=slalom,
        heads=tuple(heads),
        exact=exact,
        by_position=by_position,
        mse=mse,
        r2=r2,
        weights=weights,
    )


def _constant(table: Array) -> bool:
    """Return whether all rows of a table are equal up to rounding."""
    size = max(1.0, float(np.abs(table).max(initial=0)))
    difference = np.abs(table - table[:1]).max(initial=0)
    # Position tables whose rows differ by less than this share of their size are the same up to the
    # rounding of a few thousand additions, with which tables are computed from weights.
    equal_rows = 1e-12
    return bool(difference <= equal_rows * size)


def _best(
    weights: AttentionWeights, ids: Ids, gamma: float, samples: int, seed: int
) -> tuple[Slalom, float, float]:
    """Fit the best single SLALOM for a document; also return its MSE and R^2 on held-out
    samples.
    """
    rng = np.random.default_rng(seed)
    # Maximum number of tokens replaced in the samples of a fit (P2, Algorithm 2).
    fit_deletions = 5
    keep = deletions(ids.size, samples, max_deletions=fit_deletions, design="balanced", rng=rng)
    samples_of_ids = np.where(keep, ids, weights.unk)
    masked, which = distinct(list(samples_of_ids))
    f = _squeeze(predict_many(weights, masked))
    seen = list(pad(weights, masked)[:, 1:])
    solver = Optimum(background=False)
    fit = fit_sequences(f, seen, np.bincount(which), gamma=gamma, solver=solver, seed=seed)
    # P2, Fig. 6: fidelity is measured on samples with up to ten tokens replaced.
    fidelity_samples = 1000
    held_out = deletions(ids.size, fidelity_samples, max_deletions=10, design="uniform", rng=rng)
    fresh = list(np.where(held_out, ids, weights.unk))
    f = predict_many(weights, fresh)
    fresh_seen = list(pad(weights, fresh)[:, 1:])
    fitted = fit.slalom.predict_many(fresh_seen).reshape(f.shape)
    mse = _mean_square(f - fitted)
    variance = _mean_square(f - f.mean(axis=0))
    if variance == 0:
        return fit.slalom, mse, float(mse == 0)
    return fit.slalom, mse, 1.0 - mse / variance


def _mean_square(residuals: Array) -> float:
    """Return the mean square of residuals (n, C), summed over classes."""
    return float((residuals**2).sum(axis=1).mean())


def _squeeze(f: Array) -> Array:
    """Return outputs (n, 1) as (n,), and outputs of several classes as they are."""
    if f.shape[1] == 1:
        return f[:, 0]
    return f


@usual_float_errors
def slalom_to_weights(slalom: Slalom, T_max: int | None = None, d_att: int = 4) -> AttentionWeights:
    """Build attention weights that compute a SLALOM (P2, Prop. 5.1, corrected).

    The weights have one head and no positions. The embedding of a token is [s, v_1, ..., v_C]; the
    bias makes every query [sqrt(d_att), 0, ...]; a key is [s, 0, ...], so that the logit is
    sqrt(d_att) s / sqrt(d_att) = s; W_v and W_l copy the values.

    [CLS] and padding cannot be masked in P1's model, so they are made negligible: their importance
    is 60 + ln T_max below the smallest, and their value is the middle of the values. (If the SLALOM
    has a background, it is [CLS].) Together they get less than e^-60 < 1e-26 of the attention.
    Their ids follow the largest id of the SLALOM. Smaller ids that the SLALOM does not contain are
    embedded like [UNK], so they are negligible as well.

    Parameters
    ----------
    slalom : Slalom, with ids >= 0
    T_max : number of positions, as in P1's model: documents are padded, and longer ones are
        truncated. None for documents of any length, without padding. In both cases an empty
        document gives the middle of the values
    d_att : dimension of keys and queries; it does not affect the result

    Returns
    -------
    AttentionWeights
        a classifier with one head whose predictions are those of the SLALOM

    Examples
    --------
    >>> from attn_closed_form import predict
    >>> slalom = Slalom(ids=[1, 2, 4], s=[0.0, 1.0, 2.0], v=[1.0, -1.0, 0.5])
    >>> weights = slalom_to_weights(slalom)
    >>> weights.cls, weights.unk
    (5, 6)
    >>> predict(weights, [1, 2, 2])[0].round(6).item(), slalom.predict([1, 2, 2]).round(6).item()
    (-0.689275, -0.689275)
    """
    if slalom.ids.min() < 0:
        raise ValueError(f"slalom: expected ids >= 0, got {slalom.ids.min()}")
    whole("T_max", 2 if T_max is None else T_max, 2)
    whole("d_att", d_att)
    v = slalom.v.reshape(slalom.V, -1)
    C = v.shape[1]
    cls = int(slalom.ids.max()) + 1
    W_e = np.empty((cls + 2, 1 + C))
    W_e[:, 0] = slalom.s.min() - UNHEARD - np.log(T_max or 2)
    W_e[:, 1:] = (v.max(axis=0) + v.min(axis=0)) / 2
    W_e[slalom.ids] = np.column_stack([slalom.s, v])
    if slalom.s_background > -np.inf:
        W_e[cls] = np.r_[slalom.s_background, np.atleast_1d(slalom.v_background)]
    d_e = 1 + C
    W_p = None
    if T_max is not None:
        W_p = np.zeros((T_max, d_e))
    first = np.eye(d_att)[:1]
    first_coordinate = np.eye(d_e)[0]
    return AttentionWeights(
        W_e=W_e,
        W_p=W_p,
        W_q=np.zeros((1, d_att, d_e)),
        W_k=first[:, :, None] * first_coordinate,
        W_v=np.eye(C, d_e, k=1)[None],
        W_l=np.eye(C)[None],
        b_q=np.sqrt(d_att) * first,
        cls=cls,
        unk=cls + 1,
    )
