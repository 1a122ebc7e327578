"""Attention heads as games of source positions, with frozen context.

At one query position a head returns a weighted mean of value vectors. Its share of a logit, to first order, is the
projection of that mean on a direction, such as the logit's gradient at the output of the attention:

    f(S) = sum over sources j in S of e^(s_j) u_j / sum over S of e^(s_j),        u_j = value_j . direction,

where s are the attention scores. Removing a source renormalizes the attention of the others, as a knock-out in the
network does, so every head and query is a pooled game. **Frozen context**: scores, values and direction are those of
the whole prompt. The game describes the effect of removing sources from this head alone; it does not follow the effect
on later layers beyond first order, and it does not explain the prompt's tokens.

For removing one source from the whole prompt, the first-order score a (u - mean), with its attention a and mean =
f(all), is nearly as good as the game and costs nothing; the direct contribution a u ignores the renormalization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._arrays import as_array, real, softmax
from ..._types import Array, Masks
from ...game.pooled_game import PooledGame, merge_tokens
from ...game.values import shapley

# Rows of attention weights add up to 1 within this tolerance, even in half precision.
SUM_TO_ONE = 1e-2
# The rounding error of a sum of effects is smaller than this, relative to the sum of their absolute values.
ROUNDING = 1e-12
# Attribute names of the layers, the attention, its values and its output projection in Hugging Face models.
FAMILIES = {
    "BERT": ("encoder.layer", "attention.self", "attention.self.value", "attention.output.dense"),
    "GPT-2": ("h", "attn", "attn.c_attn", "attn.c_proj"),
    "Llama": ("layers", "self_attn", "self_attn.v_proj", "self_attn.o_proj"),
}


@dataclass(frozen=True, eq=False)
class HeadGames:
    """Games of n source positions, one per head and query, with frozen context. Build them with `head_games`."""

    s: Array  # (..., n) attention scores; -inf where a query does not see a source
    u: Array  # (..., n) values of the sources along the direction
    always: Masks  # (n,) sources that are never removed

    def game(self, *index: int) -> tuple[PooledGame, Any]:
        """Return the game of one head and query, with frozen context, and the (d,) source positions of its players."""
        s = self.s[index]
        u = self.u[index]
        seen = s > -np.inf
        players = np.flatnonzero(seen & ~self.always)
        kept = np.flatnonzero(seen & self.always)
        if not players.size:
            raise ValueError(f"games: no source can be removed at {index}")
        if kept.size:
            s_0, v_0 = map(float, merge_tokens(s[kept], u[kept]))
        else:
            s_0, v_0 = (None, None)
        names = list(map(str, players))
        return PooledGame.from_scores(
            s[players], u[players], None, None, s_0, v_0, labels=names
        ), players

    @property
    def attention(self) -> Array:
        """The (..., n) attention weights."""
        return softmax(self.s)

    def values(self) -> Array:
        """Return the (...) outputs f of the heads along the direction, with every source present."""
        return np.asarray((self.attention * self.u).sum(axis=-1))

    def shapley(self, tol: float = 1e-8) -> Array:
        """Compute the (..., n) Shapley values of the sources, with frozen context; 0 for hidden and background sources.

        A head without sources and background returns 0.
        """
        out = np.zeros(self.s.shape)
        for index in np.ndindex(*self.s.shape[:-1]):
            if ((self.s[index] > -np.inf) & ~self.always).any():
                game, players = self.game(*index)
                out[(*index, players)] = shapley(game, tol)
        return out

    def first_order(self) -> Array:
        """Return (..., n) a (u - mean), the first-order change of f due to a source, with frozen context."""
        return self.attention * (self.u - self.values()[..., None])

    def knock_out(self, removed: ArrayLike) -> Array:
        """Return the (...) exact change of f if sources are removed, with frozen context; f is 0 without sources.

        `removed` is a mask that broadcasts to (..., n).
        """
        mask = np.asarray(removed, dtype=bool) & ~self.always
        return merge_tokens(np.where(mask, -np.inf, self.s), self.u)[1] - self.values()

    def smallest_knock_outs(self, threshold: float | Array = 0.0) -> tuple[Any, Masks]:
        """Find the smallest sets of sources whose removal moves f across the threshold, with frozen context.

        Returns their sizes (...), with -1 if there is no such set, and their masks (..., n).

        f > threshold is linear in the sources, so removing the largest a (u - threshold) first is optimal. If a
        logit is this head's f plus the rest, `threshold = -rest` flips its sign. A value within rounding of the
        threshold does not count; `contrastive_reason(games.game(head, query)[0], threshold)` certifies one game.
        """
        level = np.broadcast_to(threshold, self.s.shape[:-1])[..., None]
        effect = self.attention * (self.u - level)
        effect = effect * np.where(effect.sum(axis=-1, keepdims=True) < 0, -1.0, 1.0)
        free = np.where((self.s > -np.inf) & ~self.always, effect, -np.inf)
        order = np.argsort(-free, axis=-1, kind="stable")
        ranked = np.take_along_axis(free, order, axis=-1)
        left = effect.sum(axis=-1, keepdims=True) - np.cumsum(np.maximum(ranked, 0.0), axis=-1)
        rounding = ROUNDING * np.abs(effect).sum(axis=-1, keepdims=True)
        flips = (left < -rounding) & (ranked > 0)
        size = np.where(flips.any(axis=-1), flips.argmax(axis=-1) + 1, -1)
        removed = np.zeros(self.s.shape, dtype=bool)
        np.put_along_axis(removed, order, np.arange(self.s.shape[-1]) < size[..., None], axis=-1)
        return size, removed


def head_games(
    scores_or_weights: ArrayLike,
    values: ArrayLike,
    direction: ArrayLike | None = None,
    background: Sequence[int] | None = None,
    weights: bool | None = None,
) -> HeadGames:
    """Build the games of attention heads with frozen context, whose players are the source positions.

    Parameters
    ----------
    scores_or_weights : (heads, queries, n) attention scores before the softmax (-inf where masked), or weights
    values : (heads, n, e) value vectors of the sources
    direction : (e,), (heads, e) or (heads, queries, e), on which values are projected; None if the values, (heads, n)
        or (heads, queries, n), are already projected
    background : positions that are never removed, such as an attention sink
    weights : whether the first argument contains weights; None recognizes them by rows that add up to 1

    Returns
    -------
    HeadGames

    Examples
    --------
    >>> games = head_games(np.zeros((1, 1, 3)), [[[1.0], [2.0], [6.0]]], [1.0])
    >>> games.values(), games.knock_out([False, False, True])
    (array([[3.]]), array([[-1.5]]))
    >>> games.shapley().round(4).tolist(), games.first_order().round(4).tolist()
    ([[[-0.5, 0.25, 3.25]]], [[[-0.6667, -0.3333, 1.0]]])
    """
    s = real("scores_or_weights", scores_or_weights).astype(float)
    v = real("values", values).astype(float)
    if s.ndim != 3 or len(v) != len(s):
        raise ValueError(
            f"scores_or_weights: expected (heads, queries, n) with {len(v)} heads, got {s.shape}"
        )
    if weights is None:
        weights = bool((s >= 0).all() and (np.abs(s.sum(axis=-1) - 1) < SUM_TO_ONE).all())
    if weights:
        with np.errstate(divide="ignore"):
            s = np.log(s)
    if direction is not None:
        along = real("direction", direction).astype(float)
        along = {1: along[None, None], 2: along[:, None]}.get(along.ndim, along)
        v = np.einsum("hne,hqe->hqn", v, np.broadcast_to(along, (len(s), *along.shape[-2:])))
    elif v.ndim == 2:
        v = v[:, None]
    always = np.zeros(s.shape[-1], dtype=bool)
    always[list(background or ())] = True
    return HeadGames(s, np.array(np.broadcast_to(v, s.shape)), always)


def head_games_of_cache(
    cache: Mapping[str, Any],
    W_O: Any,
    layer: int,
    direction: ArrayLike,
    batch: int = 0,
    background: Sequence[int] | None = None,
) -> HeadGames:
    """Build the head games of a layer from TransformerLens' `run_with_cache`, with frozen context.

    Parameters
    ----------
    cache : has "blocks.LAYER.attn.hook_attn_scores" (batch, heads, queries, n) and "blocks.LAYER.attn.hook_v"
    W_O : (heads, d_head, d_model), such as `model.W_O[layer]`
    direction : (d_model,) or (queries, d_model), in the residual stream
    """
    name = f"blocks.{layer}.attn."
    scores = _array(cache[name + "hook_attn_scores"])[batch]
    v = _array(cache[name + "hook_v"])[batch]
    along = np.einsum("hed,qd->hqe", _array(W_O), np.atleast_2d(real("direction", direction)))
    return head_games(
        scores,
        np.repeat(v.swapaxes(0, 1), len(scores) // v.shape[1], axis=0),
        along,
        background,
        False,
    )


def head_games_of_layer(
    model: Any,
    inputs: Mapping[str, Any],
    layer: int,
    target: Callable[[Any], Any],
    queries: Sequence[int] = (-1,),
    background: Sequence[int] | None = None,
) -> HeadGames:
    """Build the head games of one layer of a Hugging Face model (BERT, GPT-2, Llama or similar), with frozen context.

    The direction is the gradient of the target at the output of the layer's attention, by forward hooks and one
    backward pass. The sum over heads of `knock_out` is the first-order change of the target.

    Parameters
    ----------
    model : a model with eager attention (`attn_implementation="eager"`), in evaluation mode
    inputs : keyword arguments of the model for one input, such as what a tokenizer returns
    layer : number of the layer
    target : function of the model's outputs that returns a number, such as `lambda out: out.logits[0, -1, 7]`
    queries : the positions whose attention is explained
    """
    base = model.base_model
    W_O = None
    for layers, attention, value, output in FAMILIES.values():
        try:
            block = base.get_submodule(f"{layers}.{layer}")
            modules = [block.get_submodule(path) for path in (attention, value, output)]
        except AttributeError:
            continue
        W_O = _array(modules[2].weight)  # Linear has (out, in), GPT-2's Conv1D (in, out)
        W_O = W_O if value.endswith("c_attn") else W_O.T
    if W_O is None:
        raise ValueError(
            f"model: expected a layer {layer} as in {', '.join(FAMILIES)}, got {type(base).__name__}"
        )
    kept: dict[int, Any] = {}
    hooks = [
        module.register_forward_hook(lambda _module, _args, out, i=i: kept.__setitem__(i, out))
        for i, module in enumerate(modules)
    ]
    try:
        result = target(model(**inputs))
    finally:
        for hook in hooks:
            hook.remove()
    if kept[0][1] is None:
        raise ValueError(
            "model: expected eager attention; load it with attn_implementation='eager'"
        )
    import torch

    (gradient,) = torch.autograd.grad(result, kept[2])
    a = _array(kept[0][1])[0]
    v = _array(kept[1])[0]
    g = _array(gradient)[0]
    heads = len(a)
    inner = len(W_O)
    v = (
        v[:, -inner:] if v.shape[1] > inner else v
    )  # GPT-2 projects queries, keys and values at once
    v = v.reshape(len(v), -1, inner // heads).swapaxes(0, 1)
    chosen = list(queries)
    along = np.einsum("hed,qd->hqe", W_O.reshape(heads, -1, W_O.shape[1]), g[chosen])
    return head_games(a[:, chosen], np.repeat(v, heads // len(v), axis=0), along, background, True)


def _array(tensor: Any) -> Array:
    return np.asarray(as_array(tensor), dtype=np.float64)
