"""Weights from the PyTorch state dict of P1's authors (class `MultiHead` of attention_meets_xai). Needs no torch.

The state dict holds the embedding and four matrices per head. What it does not hold are arguments here: the position
embeddings (sinusoids of 256 positions), whether logits are divided by sqrt(d_att), and which ids [CLS] and [UNK] have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .weights import AttentionWeights, as_numpy, sinusoidal_positions

HEAD = re.compile(r"heads\.(\d+)\.(query|key|value|classifier)\.(weight|bias)")
LETTERS = {"query": "q", "key": "k", "value": "v", "classifier": "l"}
T_MAX = 256


def from_torch_state_dict(
    state: Mapping[str, Any],
    W_p: Any = None,
    T_max: int | None = None,
    base: float | None = 10000.0,
    cls: int = 0,
    unk: int = 1,
    scale: bool = True,
    pos: bool = True,
    cls_position: int = 0,
) -> AttentionWeights:
    """Weights from the state dict of P1's PyTorch code, `model.state_dict()`.

    The authors' models have two outputs; the second, `output=1`, is the positive class. Documents are given without
    [CLS], which is put in front, and are filled with [UNK] up to `T_max`, as the authors' preprocessing does. For a
    model that was run on documents without padding, make weights with T_max = number of tokens + 1.

    Parameters
    ----------
    state : `embedding.weight` (D, d_e) and, for heads i = 0 .. K-1, `heads.{i}.query.weight`, `.key.weight`
        (d_att, d_e), `.value.weight` (d_out, d_e), `.classifier.weight` (C, d_out), each with an optional `.bias`.
        Values may be torch tensors or arrays.
    W_p : (T_max, d_e) position embeddings, which the state dict does not hold. None makes sinusoidal ones from `T_max`
        and `base`; they agree with the authors' to single precision, and `W_p=model.pe.pe[0]` exactly.
    T_max : number of positions, 256 (the authors' MAX_LEN) if None and without `W_p`; must be that of `W_p`
    base : 10000 is the convention of the authors' code; None is P1's Eq. 3
    cls, unk : ids of [CLS] and [UNK]
    scale : False for a model made with scale=False, whose logits are not divided by sqrt(d_att)
    pos : False for a model made with pos=False, which has no position embeddings
    cls_position : the position at which [CLS] stands in the model's input, 0 in the authors' preprocessing. (A model
        whose `cls_pos` is that of another token asks with that token's query, and is not a model of this kind.)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shapes = {"query": (3, 4), "key": (3, 4), "value": (5, 4), "classifier": (1, 5)}
    >>> state = {f"heads.{i}.{n}.weight": rng.normal(size=s) for i in range(2) for n, s in shapes.items()}
    >>> state["embedding.weight"] = rng.normal(size=(9, 4))
    >>> from_torch_state_dict(state, T_max=6)
    AttentionWeights(D=9, d_e=4, T_max=6, K=2, d_att=3, d_out=5, C=1, cls=0, unk=1)
    """
    fields = _fields(_arrays(state))
    if not scale:
        for name in ("W_q", "b_q"):
            if name in fields:
                fields[name] = fields[name] * np.sqrt(fields["W_q"].shape[1])
    d_e = fields["W_e"].shape[-1]
    W_p = _positions(W_p, T_max, d_e, base)
    if not pos:
        W_p = np.zeros_like(W_p)
    if isinstance(cls_position, bool) or not isinstance(cls_position, int | np.integer):
        raise ValueError(f"cls_position: expected an integer, got {cls_position!r}")
    if not 0 <= cls_position < len(W_p):
        raise ValueError(f"cls_position: expected a position in 0..{len(W_p) - 1}, got {cls_position}")
    # A position is known by its embedding alone, so that moving [CLS] to the front is a change of rows.
    order = [cls_position, *(t for t in range(len(W_p)) if t != cls_position)]
    return AttentionWeights(W_p=W_p[order], **fields, cls=cls, unk=unk)


def _arrays(state: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The entries as arrays; what is no state dict is refused with a hint."""
    if not isinstance(state, Mapping):
        hint = ""
        if hasattr(state, "state_dict"):
            hint = "; pass model.state_dict()"
        elif isinstance(state, str | bytes) or hasattr(state, "__fspath__"):
            hint = "; read the file first, with torch.load(path, weights_only=True)"
        raise TypeError(f"state: expected a mapping from names to tensors, got {type(state).__name__}{hint}")
    arrays = {}
    for name, value in state.items():
        arrays[name] = np.asarray(as_numpy(value))
        if arrays[name].dtype.kind not in "fiu":
            raise ValueError(f"state: {name}: expected an array of numbers, got {type(value).__name__}")
    return arrays


def _fields(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Arguments of `AttentionWeights`, heads stacked."""
    if "embedding.weight" not in arrays:
        raise ValueError(f"state: expected a key 'embedding.weight', got only {sorted(arrays)}")
    matches = {name: match for name in arrays if name != "embedding.weight" and (match := HEAD.fullmatch(name))}
    for name in arrays:
        if name != "embedding.weight" and name not in matches:
            raise ValueError(
                f"state: unexpected key {name!r}; expected 'embedding.weight' and "
                "'heads.I.{query,key,value,classifier}.{weight,bias}'"
            )
    K = 1 + max((int(match[1]) for match in matches.values()), default=-1)
    if K == 0:
        raise ValueError("state: expected keys 'heads.0.query.weight' and so on, got no head at all")
    fields: dict[str, Any] = {"W_e": arrays["embedding.weight"]}
    for name, letter in LETTERS.items():
        fields[f"W_{letter}"] = _stack(arrays, [f"heads.{i}.{name}.weight" for i in range(K)])
        biases = [f"heads.{i}.{name}.bias" for i in range(K)]
        if any(key in arrays for key in biases):
            fields[f"b_{letter}"] = _stack(arrays, biases)
    if "b_l" in fields:
        fields["b_l"] = fields["b_l"].mean(axis=0)  # the output is the mean over heads, biases included
    return fields


def _positions(W_p: Any, T_max: int | None, d_e: int, base: float | None) -> NDArray[Any]:
    """Position embeddings, given or made."""
    if W_p is None:
        return sinusoidal_positions(T_MAX if T_max is None else T_max, d_e, base)
    given = np.asarray(as_numpy(W_p))
    if given.ndim != 2:
        raise ValueError(f"W_p: expected shape (T_max, {d_e}), got {given.shape}")
    if T_max is not None and T_max != len(given):
        raise ValueError(f"T_max: expected {len(given)}, the rows of W_p, got {T_max!r}; cut W_p for a shorter model")
    return given


def _stack(arrays: Mapping[str, NDArray[Any]], names: list[str]) -> NDArray[Any]:
    for name in names:
        if name not in arrays:
            raise ValueError(f"state: expected a key {name!r}, got only {sorted(arrays)}")
        if arrays[name].shape != arrays[names[0]].shape:
            raise ValueError(
                f"state: {name}: expected shape {arrays[names[0]].shape} as in {names[0]}, got {arrays[name].shape}"
            )
    return np.stack([arrays[name] for name in names])
