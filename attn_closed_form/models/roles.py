"""Networks with other names: which layer of a state dict has which role.

A mapping names the layers: `embed` (one or several, in order), `V` and `U` (the hidden layer and the gate of the
attention), `w` (its last layer) and `classifier`; `leave` has the starts of names that play no part. `proposals` finds
the assignments that use every layer and whose shapes fit together, the likeliest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any

import numpy as np

from ..files.arrays import State

ROLES = ("embed", "V", "U", "w", "classifier", "leave")
# What the name of a layer suggests about its role.
HINTS = {
    "embed": r"emb|enc|feat|proj|backbone|fc1",
    "V": r"v\b|_a\b|tanh|hidden|att",
    "U": r"u\b|_b\b|gate|sigm",
    "w": r"w\b|_c\b|att|score|weight",
    "classifier": r"class|head|out|logit|pred|fc",
}
# Layers of the embedding that are put in order by trying.
MOST_LAYERS = 4


def renamed(state: State, roles: Mapping[str, Any]) -> State:
    """The state dict with the names of layout "roles"; other names stay, and are an error later."""
    if unknown := [role for role in roles if role not in ROLES]:
        raise ValueError(f"roles: expected roles among {', '.join(ROLES)}, got {unknown[0]!r}")
    arrays = dict(state.arrays)
    for start in _names(roles.get("leave", ())):
        arrays = {key: array for key, array in arrays.items() if not key.startswith(start)}
    for role in ROLES[:-1]:
        for i, name in enumerate(_names(roles.get(role, ()))):
            new = f"roles.{role}.{i}" if role == "embed" or not isinstance(roles[role], str) else f"roles.{role}"
            if name in arrays:  # a separate parameter, which may be a vector
                arrays[f"{new}.weight"] = np.atleast_2d(arrays.pop(name))
            elif f"{name}.weight" not in arrays:
                raise ValueError(f"roles: {role}: {state.source} has no layer {name!r}, only {state.summary()}")
            for part in ("weight", "bias"):
                if f"{name}.{part}" in arrays:
                    arrays[f"{new}.{part}"] = arrays.pop(f"{name}.{part}")
    return State(arrays, state.source, state.outputs)


def _names(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def proposals(state: State) -> list[dict[str, Any]]:
    """Roles that use every layer with a matrix and whose shapes fit together, the likeliest first.

    >>> shapes = {"enc": (5, 7), "gate": (3, 5), "tan": (3, 5), "score": (1, 3), "out": (2, 5)}
    >>> state = State({f"{name}.weight": np.ones(shape) for name, shape in shapes.items()}, "file")
    >>> proposals(state)[0]
    {'embed': ['enc'], 'V': 'tan', 'U': 'gate', 'w': 'score', 'classifier': 'out'}
    """
    shapes = {key.removesuffix(".weight"): array.shape for key, array in state.arrays.items() if array.ndim == 2}
    order = list(shapes)

    def score(roles: dict[str, Any]) -> int:
        hits = sum(bool(re.search(HINTS[role], n.lower())) for role, names in roles.items() for n in _names(names))
        # Layers are mostly stored in the order in which they are used.
        places = [order.index(name) for names in roles.values() for name in _names(names)]
        return 2 * hits + sum(a < b for a, b in pairwise(places))

    return sorted(_assignments(shapes), key=score, reverse=True)


def _assignments(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, Any]]:
    for classifier, w in permutations(shapes, 2):
        (C, E), (H, k) = shapes[classifier], shapes[w]
        if H not in (1, C):
            continue
        others = [name for name in shapes if name not in (classifier, w)]
        hidden = [name for name in others if shapes[name] == (k, E)]
        for parts in [*([()] if k == E else []), *permutations(hidden, 1), *permutations(hidden, 2)]:
            rest = [name for name in others if name not in parts]
            for chain in permutations(rest) if len(rest) <= MOST_LAYERS else ():
                widths = [*(shapes[name][1] for name in chain), E]
                if all(shapes[name][0] == width for name, width in zip(chain, widths[1:], strict=True)):
                    found = {"embed": list(chain), **dict(zip("VU", parts, strict=False)), "w": w}
                    yield {role: name for role, name in {**found, "classifier": classifier}.items() if name}
