"""How good is an explanation? The measures of P2, section 6 and appendices E.3, F.3 and F.4.

NumPy alone.

*Removal.* Tokens are taken away in the order of their scores (`deletion_curve`) or put back into
nothing (`insertion_curve`); the area over the curve, `aopc`, is the mean fall of the output.
*Strict fidelity.* An explanation that claims to predict the model must predict what happens when a
few tokens go (`strict_fidelity`). *Agreement* with Naive Bayes scores (`naive_bayes_scores`,
`ranks.spearman`) and with the words that people chose (`ranks.auroc`).

Whatever is removed from is either a `PooledGame`, whose curves come from running sums in O(d log d)
without one call of a model, or a function of masks, (n, d) bool -> (n,), such as `removal(f,
tokens)` for any black box f.

Where this departs from P2:

- Eq. 82's w(tau) is printed as a ratio of counts; the score that adds up to log-odds is its
  logarithm. Ranks of signed scores do not see the difference, ranks of |w| (P2's comparison with
  importances) do: the ratio is never negative.
- The caption of Table 1c says deletion; its text and its numbers are those of insertion.
- P2's text defines AOPC "as in DeYoung et al.", the mean of f(document) - f(what is left). The
  authors' code computes another quantity under that name, 1 - the mean probability of the true
  class at every fifth token. `aopc` is the first, `missing_probability` the second, and only the
  second can be put next to Tables 1c, 11 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_closed_form._types import Array, Ids, Tokens
from attn_closed_form.game.pooled_game import PooledGame
from attn_closed_form.reasons.curves import descending, values_along
from attn_closed_form.slalom.recover import BlackBox
from attn_closed_form.slalom.slalom import Slalom, as_ids

Masks = NDArray[np.bool_]
Value = Callable[[Masks], Array]


def removal(f: BlackBox, tokens: Tokens) -> Value:
    """A black box as a function of masks: absent tokens are deleted from the document.

    Parameters
    ----------
    f : takes a list of id arrays, returns one output each
    tokens : T ids

    Returns
    -------
    function of (n, T) bool masks, True where a token stays, to (n,) outputs

    Examples
    --------
    >>> value = removal(lambda documents: [float(sum(d)) for d in documents], [1, 2, 4])
    >>> value(np.array([[True, True, True], [True, False, True]]))
    array([7., 5.])
    """
    ids = as_ids("tokens", tokens)

    def value(masks: Masks) -> Array:
        return np.asarray(f([ids[mask] for mask in masks]), dtype=np.float64).reshape(len(masks))

    return value


def deletion_curve(model: PooledGame | Value, scores: ArrayLike) -> Array:
    """Outputs as tokens go, the highest score first (P2, F.4).

    Parameters
    ----------
    model : PooledGame of d players, or a function of (n, d) masks
    scores : (d,) the explanation; equal scores go from left to right

    Returns
    -------
    (d+1,) float64: entry k is the output without the k highest

    Examples
    --------
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> deletion_curve(game, [0.1, 0.7]).round(3)
    array([1.333, 0.5  , 0.   ])
    """
    order = descending(scores, model.d if isinstance(model, PooledGame) else np.size(scores))
    if isinstance(model, PooledGame):
        return values_along(model, order)
    return _ask(model, ~np.tri(order.size + 1, order.size, -1, dtype=bool), order)


def insertion_curve(model: PooledGame | Value, scores: ArrayLike) -> Array:
    """Outputs as tokens come, the highest score first, from the empty document (P2, F.4).

    Returns
    -------
    (d+1,) float64: entry k is the output with the k highest alone

    Examples
    --------
    >>> game = PooledGame.from_scores(
    ...     s=[0.0, 0.0], v=[1.0, 3.0], s_background=0.0, v_background=0.0
    ... )
    >>> insertion_curve(game, [0.1, 0.7]).round(3)
    array([0.   , 1.5  , 1.333])
    """
    order = descending(scores, model.d if isinstance(model, PooledGame) else np.size(scores))
    if isinstance(model, PooledGame):
        return values_along(model, order[::-1])[::-1]
    return _ask(model, np.tri(order.size + 1, order.size, -1, dtype=bool), order)


def _ask(value: Value, steps: Masks, order: Ids) -> Array:
    masks = np.empty_like(steps)
    masks[:, order] = steps
    return np.asarray(value(masks), dtype=np.float64)


def aopc(curve: ArrayLike, full: float | None = None, at: Sequence[float] | None = None) -> float:
    """Area over a perturbation curve: mean of f(document) - curve[k], k = 1..d (DeYoung et al.,
    2020; P2, F.4).

    High is good for a deletion curve and low is good for an insertion curve. P2's curves are
    probabilities of the predicted class: see `class_probability`.

    Parameters
    ----------
    curve : (d+1,) of `deletion_curve` or `insertion_curve`
    full : output of the whole document; by default curve[0], right for deletion. For insertion give
        curve[-1]
    at : only these shares of the tokens, such as ERASER's (0.01, 0.05, 0.1, 0.2, 0.5), at least one
        token each

    Examples
    --------
    >>> aopc([1.0, 0.5, 0.0])
    0.75
    >>> aopc([0.0, 1.0, 1.0], full=1.0)
    0.0
    """
    y = np.asarray(curve, dtype=np.float64)
    if y.ndim != 1 or y.size < 2:
        raise ValueError(f"curve: expected shape (d+1,) with d >= 1, got {y.shape}")
    d = y.size - 1
    if at is None:
        picked = y[1:]
    else:
        if not all(0 <= share <= 1 for share in at) or len(at) == 0:
            raise ValueError(f"at: expected shares in 0..1, got {list(at)}")
        picked = y[[max(1, round(share * d)) for share in at]]
    return float(np.mean((y[0] if full is None else full) - picked))


def missing_probability(kept: ArrayLike, step: int = 5) -> float:
    """1 - mean of kept[i] at i = step, 2 step, ..., d: what P2's code reports as AOPC (Tables 1c,
    11, 12).

    It is always in 0..1, and f(document) does not occur in it. For insertion, `kept` is
    `insertion_curve`; for deletion it is `deletion_curve` from its end, so that i tokens of the
    lowest scores are left.

    Parameters
    ----------
    kept : (d+1,) probability of the true class when i tokens are left
    step : 5 in the authors' code, which leaves out texts of fewer tokens

    Examples
    --------
    >>> missing_probability([0.5, 0.6, 0.75, 0.8, 1.0], step=2)
    0.125
    """
    p = np.asarray(kept, dtype=np.float64)
    if p.ndim != 1 or p.size <= step:
        raise ValueError(f"kept: expected shape (d+1,) with d >= {step}, got {p.shape}")
    return float(1 - p[step::step].mean())


def class_probability(log_odds: ArrayLike, positive: bool) -> Array:
    """Probability of a class from the log-odds of the positive one, without overflow.

    >>> class_probability([0.0, 1000.0], positive=False)
    array([0.5, 0. ])
    """
    z = np.asarray(log_odds, dtype=np.float64) * (1.0 if positive else -1.0)
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1.0, e) / (1.0 + e)


def strict_fidelity(
    model: PooledGame | Value,
    d: int,
    predictions: Iterable[Value],
    removals: Sequence[int] = tuple(range(1, 11)),
    samples: int = 100,
    seed: int | np.random.Generator = 0,
) -> Array:
    """MSE of predicted against true changes of the output when 1 to 10 random tokens go (P2,
    section 6.3, Fig. 6).

    Parameters
    ----------
    model : PooledGame, or a function of (n, d) masks
    d : number of tokens
    predictions : surrogates, each a function of (n, d) masks to (n,) outputs; only differences from
        its output for the whole document count. `linear_surrogate` and `slalom_surrogate` make them
        of scores
    removals : how many tokens go; each at most d
    samples : random sets of tokens for each number; all surrogates see the same ones
    seed : a number or a Generator

    Returns
    -------
    (number of surrogates, len(removals)) float64

    Examples
    --------
    >>> game = PooledGame.from_scores(s=[0.0, 0.0, 0.0], v=[1.0, 3.0, 2.0])
    >>> strict_fidelity(
    ...     game, 3, [game.value, linear_surrogate([0.0, 0.0, 0.0])], removals=(1, 2)
    ... ).round(3)[0]
    array([0., 0.])
    """
    sizes = np.asarray(removals)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.min() < 1 or sizes.max() > d:
        raise ValueError(f"removals: expected numbers of tokens in 1..{d}, got {list(removals)}")
    rng = np.random.default_rng(seed)
    drawn = rng.random((sizes.size, samples, d)).argsort(axis=-1)
    keep = (drawn >= sizes[:, None, None]).reshape(-1, d)
    masks = np.concatenate([np.ones((1, d), dtype=bool), keep])

    def changes(function: Any) -> Array:
        y = np.asarray(function(masks), dtype=np.float64)
        return y[1:] - y[0]

    true = changes(model.value if isinstance(model, PooledGame) else model)
    return np.stack(
        [
            ((changes(guess) - true) ** 2).reshape(sizes.size, samples).mean(axis=1)
            for guess in predictions
        ]
    )


def linear_surrogate(scores: ArrayLike) -> Value:
    """An attribution read as a linear model: the output is the sum of the scores of those present.

    >>> linear_surrogate([1.0, 2.0])(np.array([[True, False], [True, True]]))
    array([1., 3.])
    """
    w = np.asarray(scores, dtype=np.float64)
    return lambda masks: masks @ w


def slalom_surrogate(slalom: Slalom, tokens: Tokens) -> Value:
    """A SLALOM on what is left of a document; if nothing is left, the mean of its values.

    >>> slalom = Slalom(ids=[7, 9], s=[0.0, 0.0], v=[1.0, 2.0])
    >>> slalom_surrogate(slalom, [7, 9])(np.array([[True, False], [True, True]]))
    array([1. , 1.5])
    """
    game = slalom.game(tokens, empty_value=float(slalom.v.mean()))
    return game.value


def naive_bayes_scores(
    documents: Sequence[Tokens], labels: ArrayLike, D: int, alpha: float = 40.0
) -> Array:
    """Linear score of each token, w = log((n_1 + alpha)/(n_0 + alpha)) (P2 below Eq. 82, with the
    logarithm).

    Parameters
    ----------
    documents : n sequences of ids in 0..D-1
    labels : (n,) 0 or 1
    D : vocabulary size
    alpha : Laplace smoothing, 40 in the paper

    Returns
    -------
    (D,) float64; n_y counts the token's occurrences in class y

    Examples
    --------
    >>> naive_bayes_scores([[0, 1, 1], [0]], labels=[1, 0], D=3, alpha=1.0).round(3)
    array([0.   , 1.099, 0.   ])
    """
    y = np.asarray(labels)
    if y.shape != (len(documents),) or not np.isin(y, (0, 1)).all():
        raise ValueError(f"labels: expected {len(documents)} labels 0 or 1, got shape {y.shape}")
    if not alpha > 0:
        raise ValueError(f"alpha: expected a positive number, got {alpha}")
    n = []
    for label in (0, 1):
        ids = np.concatenate(
            [np.zeros(0, np.intp)]
            + [as_ids("documents", documents[i]) for i in np.flatnonzero(y == label).tolist()]
        )
        if ids.size and (ids.min() < 0 or ids.max() >= D):
            raise ValueError(f"documents: expected ids in 0..{D - 1}, got {ids.min()}..{ids.max()}")
        n.append(np.bincount(ids, minlength=D))
    return np.log(n[1] + alpha) - np.log(n[0] + alpha)
