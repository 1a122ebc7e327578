"""Why a change to the mathematics that no test notices does no harm: one reason per (file, function, change).

The keys are those that `python -m benchmarks.mutants` prints; a key may leave out what stands after the arrow, where
every such change is harmless. A survivor without a reason here is a missing test.
"""

from __future__ import annotations

from collections.abc import Mapping

from .mutations import Change

#: (file below attn_closed_form, function, change) -> why no answer becomes wrong.
HARMLESS: Mapping[tuple[str, str, str], str] = {}


def reason(change: Change) -> str:
    """The reason why a change is harmless; empty when there is none."""
    file = change.path.as_posix().rpartition("attn_closed_form/")[2]
    for text in (change.text, change.text.split(" -> ")[0]):
        if (file, change.function, text) in HARMLESS:
            return HARMLESS[file, change.function, text]
    return ""
