"""Layouts of saved networks: which names a state dict has, and what network they are. One module per layout.

A layout module has `NAME`, `SUMMARY`, `recognise(state)` (by names and shapes alone) and `build(state, **options)`,
whose keyword arguments are what the file does not say. `network_from_state` picks the layout, builds the network and
refuses what is left over. A new layout is one module and one entry in `LAYOUTS`.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from ...files.arrays import Arrays
from ..bag_network import BagNetwork
from . import abmil, aim, clam, histobistro, marugoto, mean, mil_baseline, mil_lab, owkin, timm_pool, torchmil, xmil
from .refused import refusal
from .state import State

LAYOUTS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        clam,
        mil_lab,
        xmil,
        histobistro,
        marugoto,
        torchmil,
        owkin,
        mil_baseline,
        abmil,
        aim,
        timm_pool,
        mean,
    )
}


def network_from_state(arrays: Arrays, source: str, layout: str, options: dict[str, Any]) -> tuple[BagNetwork, str]:
    """Network of a state dict, and the name of its layout.

    Parameters
    ----------
    arrays : weights by name
    source : what to call them in errors
    layout : a name of `LAYOUTS`, or "auto"
    options : what the file does not say; an option that the layout does not have is an error
    """
    state = State(arrays, source)
    if layout == "auto":
        layout = _recognise(state)
    elif layout not in LAYOUTS:
        raise ValueError(f"layout: expected 'auto' or one of {', '.join(LAYOUTS)}, got {layout!r}")
    module = LAYOUTS[layout]
    known = list(inspect.signature(module.build).parameters)[1:]
    for name in options:
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "no options"
            raise ValueError(f"{name}: expected {expected} for layout {layout!r}")
    try:
        network: BagNetwork = module.build(state, **options)
    except ValueError as error:
        text = str(error)
        if text.startswith(source) or any(text.startswith(f"{name}:") for name in (*options, "num_heads")):
            raise
        raise ValueError(f"{source}: layout {layout!r}: {text}") from None
    state.finish(layout)
    return network, layout


def _recognise(state: State) -> str:
    why = refusal(state)
    found = [name for name, module in LAYOUTS.items() if module.recognise(state)]
    # An encoder in front of a known pooling is not part of it, so that a layout speaks before a transformer is refused.
    if why is not None and found != [timm_pool.NAME]:
        raise ValueError(f"{state.source}: {why}")
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"{state.source}: expected one layout, got {found}; name one with layout=")
    if any("embedding" in key for key in state.arrays):
        raise ValueError(
            f"{state.source}: looks like a text model, an embedding and a linear layer ({state.summary()}): use "
            "MeanPooledText.from_state_dict, which also takes the words"
        )
    raise ValueError(
        f"{state.source}: no layout of {', '.join(LAYOUTS)} fits; it has {state.summary()}. Any network that pools "
        "with one softmax can be given by BagClassifier.from_attention or game_from_black_box"
    )
