"""Shapley values, Banzhaf values, interactions and LIME's limit from their definitions, by
enumeration.

A document has d players, positions or words, and 2^d coalitions. The naive model of `model.py`
predicts every one of them (`values`), and the rest follows the textbook definition, a sum over all
coalitions. Nothing is shared with `attn_closed_form`: no score tables, no game, no quadrature, no
closed form of LIME's regression. The limit is `MOST` players.

Coalition k is row k of `coalitions(d)`: player j is present if bit j of k is 1. An absent player is
replaced by [UNK] (P1 section 5.1), or removed from the softmax while the others keep their
positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import model
from .params import Params

# Maximum number of players, for 1,024 coalitions.
MOST = 10
# The explained output: the prediction itself, or a function of it.
LINK_FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "identity": lambda f: f,
    "sigmoid": jax.nn.sigmoid,
}

Array = NDArray[np.float64]


def coalitions(d: int) -> NDArray[np.bool_]:
    """Return every coalition of d players, (2^d, d).

    >>> coalitions(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    numbers = np.arange(2**d)[:, None]
    bits = (numbers >> np.arange(d)) & 1
    return bits == 1


def players_of(tokens: ArrayLike, T_max: int | None, words: bool = False) -> NDArray[np.intp]:
    """Return the (T_max,) player at each padded position, or -1 for [CLS] and padding, which are
    always present.

    Parameters
    ----------
    tokens : (T,) ids of the document
    T_max : number of positions; None without padding
    words : whether every distinct id is one player, numbered by first appearance, instead of every
        position

    >>> players_of([7, 4, 7], T_max=6, words=True).tolist()
    [-1, 0, 1, 0, -1, -1]
    """
    ids = np.asarray(tokens).tolist()
    order = list(dict.fromkeys(ids))
    if words:
        numbers = [order.index(token) for token in ids]
    else:
        numbers = list(range(len(ids)))
    if T_max is None:
        padding = 0
    else:
        padding = T_max - 1 - len(ids)
    return np.array([-1, *numbers, *[-1] * padding])


def _replaced(params: Params, ids: jax.Array, present: jax.Array, unk: jax.Array) -> jax.Array:
    """Return the model output (C,) with [UNK] at the absent positions."""
    return model.forward(params, jnp.where(present, ids, unk))


def _deleted(params: Params, ids: jax.Array, present: jax.Array, unk: jax.Array) -> jax.Array:
    """Return the model output (C,) without the absent positions in the softmax (P1 Eq. 5 to 9,
    [CLS] query only).
    """
    p = params
    e = model.embed(params, ids)
    f = p.b_l
    K = len(p.W_q)
    for i in range(K):
        q = p.W_q[i] @ e[0] + p.b_q[i]
        k = e @ p.W_k[i].T + p.b_k[i]
        v = e @ p.W_v[i].T + p.b_v[i]
        logits = k @ q / len(q) ** 0.5
        seen = jnp.where(present, logits, -jnp.inf)
        alpha = jax.nn.softmax(seen)
        v_tilde = alpha @ v
        f = f + p.W_l[i] @ v_tilde / K
    return f


@partial(jax.jit, static_argnames=("deleted", "link"))
def _values(
    params: Params,
    ids: jax.Array,
    present: jax.Array,
    unk: int,
    output: int,
    scale: float,
    deleted: bool,
    link: str,
) -> jax.Array:
    one = _deleted if deleted else _replaced
    f = jax.vmap(one, in_axes=(None, None, 0, None))(params, ids, present, unk)[:, output]
    return LINK_FUNCTIONS[link](scale * f)


def values(
    params: Params,
    ids: jax.Array,
    players: ArrayLike,
    unk: int = 1,
    deleted: bool = False,
    output: int = 0,
    link: str = "identity",
    scale: float = 1.0,
) -> Array:
    """Compute the (2^d,) predictions of all coalitions, by one forward pass each.

    Parameters
    ----------
    ids : (T_max,) padded ids
    players : (T_max,) player at each position, see `players_of`
    deleted : whether absent players are removed from the softmax instead of replaced by [UNK]
    link, scale : a name in `LINK_FUNCTIONS`, and a factor: values are link(scale * f)

    >>> from attn_closed_form import predict
    >>> from attn_closed_form.attention import random_weights
    >>> from jax_model import params_from_weights
    >>> weights = random_weights(seed=0, T_max=6)
    >>> f = values(
    ...     params_from_weights(weights),
    ...     jnp.array([0, 7, 4, 7, 1, 1]),
    ...     players_of([7, 4, 7], 6, words=True),
    ... )
    >>> bool(np.allclose(f[0b01], predict(weights, [7, 1, 7])[0], rtol=1e-5))
    True
    """
    who = np.asarray(players)
    d = int(who.max()) + 1
    if not 1 <= d <= MOST:
        raise ValueError(f"players: expected 1 to {MOST}, got {d}")
    # The number of rows is the same for any d, so that one program per model is enough.
    present = np.ones((2**MOST, who.size), dtype=bool)
    # A token of nobody (who < 0) is present in every coalition.
    of_players = coalitions(d)[:, who]
    present[: 2**d] = (who < 0) | of_players
    f = _values(
        params,
        jnp.asarray(ids),
        present=jnp.asarray(present),
        unk=unk,
        output=output,
        scale=scale,
        deleted=deleted,
        link=link,
    )
    return np.asarray(f, dtype=np.float64)[: 2**d]


def _players(f: Array) -> int:
    return len(f).bit_length() - 1


def _without(f: Array, *players: int) -> NDArray[np.intp]:
    """Return the coalitions in which none of `players` is present."""
    k = np.arange(len(f))
    for j in players:
        k = k[k >> j & 1 == 0]
    return k


def shapley(f: Array) -> Array:
    """Compute the sum over S without j of |S|! (d - 1 - |S|)! / d! (f(S + j) - f(S)), (d,)
    (Shapley, 1953).

    >>> shapley(np.array([0.0, 1.0, 2.0, 5.0]))
    array([2., 3.])
    """
    d = _players(f)
    sizes = coalitions(d).sum(axis=1)
    weight = _size_weights(d)
    phi = np.empty(d)
    for j in range(d):
        S = _without(f, j)
        gain = f[S | 1 << j] - f[S]
        phi[j] = weight[sizes[S]] @ gain
    return phi


def _size_weights(d: int) -> Array:
    """Return s! (d - 1 - s)! / d! for s = 0..d-1."""
    weights = []
    for s in range(d):
        orders = math.factorial(s) * math.factorial(d - 1 - s)
        weights.append(orders / math.factorial(d))
    return np.array(weights)


def banzhaf(f: Array) -> Array:
    """Compute the mean of f(S + j) - f(S) over all S without j, (d,) (Banzhaf, 1965)."""
    values = []
    for j in range(_players(f)):
        S = _without(f, j)
        gain = f[S | 1 << j] - f[S]
        values.append(gain.mean())
    return np.array(values)


def leave_one_out(f: Array) -> Array:
    """Compute f(all) - f(all but j), (d,)."""
    everyone = len(f) - 1
    removed = [everyone ^ 1 << j for j in range(_players(f))]
    return np.array([f[everyone] - f[S] for S in removed])


def by_size(f: Array) -> Array:
    """Compute the mean of f over the coalitions with s = 0..d players absent, (d + 1,)."""
    d = _players(f)
    sizes = coalitions(d).sum(axis=1)
    # s players are absent from the coalitions of size d - s.
    means = [f[sizes == d - s].mean() for s in range(d + 1)]
    return np.array(means)


def interactions(f: Array) -> Array:
    """Compute the (d, d) Shapley interaction indices (Grabisch and Roubens, 1999), with Shapley
    values on the diagonal.

    An index is the sum over S without i and j of |S|! (d - 2 - |S|)! / (d - 1)! (f(S + i + j) - f(S
    + i) - f(S + j) + f(S)).
    """
    d = _players(f)
    sizes = coalitions(d).sum(axis=1)
    # Those of Shapley values of one player fewer.
    weight = _size_weights(d - 1)
    out = np.diag(shapley(f))
    for j in range(d):
        for i in range(j):
            S = _without(f, i, j)
            with_i = S | 1 << i
            with_j = S | 1 << j
            # The effect of j where i is present, minus that where i is absent.
            second = f[with_i | with_j] - f[with_i] - f[with_j] + f[S]
            out[i, j] = weight[sizes[S]] @ second
            out[j, i] = out[i, j]
    return out


class Ridge(NamedTuple):
    """The linear map from values of coalitions to LIME's coefficients (d, 2^d) and intercept
    (2^d,).

    `condition` is the condition number of the least squares problem, whose solution is correct to
    that many ulps. A kernel so narrow that some weights vanish next to others is beyond float64.
    """

    coef: Array
    intercept: Array
    condition: float


def lime(
    d: int, kernel_width: float = 25.0, ridge: float = 1.0, num_samples: int | None = 5000
) -> Ridge:
    """Return the limit of the lime package's regression (P1 section 5.1) as a linear map of the
    values of all coalitions.

    One sample of n is the document; the others remove s = 1..d players, s uniform and then the set
    uniform. A sample weighs exp(-(100 (1 - sqrt(1 - s/d)))^2 / (2 kernel_width^2)). Then follows a
    weighted ridge regression on presence, whose intercept is free: minimize sum_S w_S (f(S) -
    intercept - coef . S)^2 + ridge/n |coef|^2. It is solved as the least squares problem.
    `num_samples=None` takes the limit of infinite n. For d = 1 the document is the only sample with
    the player present: both its weight and the ridge are 1/n of the rest, so that the limit keeps
    their ratio.
    """
    if d == 1 and num_samples is None:
        return Ridge(
            coef=np.array([[-1.0, 1.0]]) / (1 + ridge),
            intercept=np.array([1.0, 0.0]),
            condition=1.0,
        )
    present = coalitions(d)
    absent = d - present.sum(axis=1)
    document = 0.0
    penalty = 0.0
    if num_samples is not None:
        document = 1 / num_samples
        penalty = math.sqrt(ridge / num_samples)
    # The probability of a coalition by its number of absent players, and the weight of a sample.
    drawn = np.empty(d + 1)
    drawn[0] = document
    drawn[1:] = [(1 - document) / (d * math.comb(d, s)) for s in range(1, d + 1)]
    share = np.arange(d + 1) / d
    distance = 100 * (1 - np.sqrt(1 - share))
    kernel = np.exp(-((distance / kernel_width) ** 2) / 2)
    root = np.sqrt((drawn * kernel)[absent])

    # One row per coalition, then one per coefficient, which the ridge pulls to zero.
    column = root[:, None]
    samples = np.hstack([column, column * present])
    pulls = np.hstack([np.zeros((d, 1)), penalty * np.eye(d)])
    left = np.concatenate([samples, pulls])
    right = np.concatenate([np.diag(root), np.zeros((d, 2**d))])
    solution, _, _, singular = np.linalg.lstsq(left, right, rcond=None)
    condition = float(singular[0] / singular[-1])
    return Ridge(coef=solution[1:], intercept=solution[0], condition=condition)
