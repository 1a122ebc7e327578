"""Every explanation of P2's comparison for one document of a real transformer, with what each
costs.

All methods that ask the black box get the same budget of model calls. SLALOM is fitted by this
library and by the authors' package, slalom-explanations 0.1.2, whose deletions are fitted by Adam,
because its own alternation cannot be reached through its explainer (`slalom.py`). LIME is the lime
package's regression on token masks, SHAP is shap's partition explainer with its own masker (a token
becomes [MASK]); everywhere else a removed token is deleted. The rest comes from the inside
(`minilm_inside.py`).
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from attn_closed_form._types import Array, Ids
from attn_closed_form.slalom import Slalom, SlalomWarning, fit_slalom, slalom_linearized

from ..faithfulness import Value, linear_surrogate, removal, slalom_surrogate
from ..slalom import package_fit
from .lime_runs import lime_by_masks
from .minilm_inside import IG_STEPS, Inside
from .minilm_model import Counted, Document, Transformer

# What a method costs in model calls if it does not ask the black box; a backward pass counts as two
# calls.
INSIDE_CALLS = {"attention": 1, "rollout": 1, "Grad": 3, "IG": 3 * IG_STEPS, "LRP": 3}
PACKAGE = "slalom-explanations"
FITS = ("SLALOM-fidel", "SLALOM-eff", f"{PACKAGE} fidel", f"{PACKAGE} eff")
UNSIGNED = ("attention", "rollout")

Found = dict[str, Any]


def timed(f: Counted, run: Callable[[], Found]) -> Found:
    """What `run` finds, with its model calls, its processor seconds, and those of them that were
    not the model's.
    """
    calls = f.calls
    asked = f.seconds
    quiet = io.StringIO()
    start = time.process_time()
    with (
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
        warnings.catch_warnings(),
    ):
        # Which importances are undetermined is not the question.
        warnings.simplefilter("ignore", SlalomWarning)
        found = run()
    seconds = time.process_time() - start
    own = seconds - (f.seconds - asked)
    return {"calls": f.calls - calls, "seconds": seconds, "seconds without the model": own, **found}


def as_record(slalom: Slalom) -> Found:
    """A SLALOM for a JSON line."""
    found: Found = {"ids": slalom.ids, "s": slalom.s, "v": slalom.v}
    if np.isfinite(slalom.s_background):
        found |= {"s_background": slalom.s_background, "v_background": slalom.v_background}
    return {"slalom": found}


def from_record(found: Found) -> Slalom:
    """The SLALOM of a JSON line."""
    return Slalom(**found["slalom"])


def our_fit(name: str, f: Counted, tokens: Ids, samples: int, seed: int) -> Found:
    """The fit of this library, at its defaults."""
    if name == "SLALOM-fidel":
        kind = "fidel"
    else:
        kind = "eff"
    return timed(
        f, lambda: as_record(fit_slalom(f, tokens, kind, samples, seed=seed, progress=False).slalom)
    )


def their_fit(name: str, f: Counted, tokens: Ids, samples: int, seed: int) -> Found:
    """The fit of the package, at its defaults."""
    torch.manual_seed(seed)
    if name.endswith("fidel"):
        strategy = "deletion"
    else:
        strategy = "short"
    return timed(f, lambda: as_record(package_fit(f, tokens, samples, strategy, True)[0]))


def fit(name: str, f: Counted, tokens: Ids, samples: int, seed: int) -> Found:
    """One of `FITS`."""
    return (their_fit if name.startswith(PACKAGE) else our_fit)(name, f, tokens, samples, seed)


def partition_shap(transformer: Transformer, text: str, samples: int) -> Array:
    """Values of shap's partition explainer on strings, one per token."""
    import shap

    def f(texts: Any) -> Array:
        encoded = transformer.tokenizer([str(text) for text in texts], add_special_tokens=False)[
            "input_ids"
        ]
        return transformer.f([np.array(ids, dtype=np.intp) for ids in encoded])

    explainer = shap.explainers.Partition(f, shap.maskers.Text(transformer.tokenizer))
    return np.asarray(
        explainer([text], max_evals=samples, batch_size=32, silent=True).values[0, 1:-1],
        dtype=float,
    )


def rivals(
    transformer: Transformer,
    inside: Inside,
    document: Document,
    samples: int,
    seed: int,
    without: Sequence[str] = (),
) -> dict[str, Found]:
    """Scores of every method that is no SLALOM, by name."""
    f = transformer.f
    value = removal(f, document.ids)
    out = {
        "LIME": timed(
            f, lambda: {"scores": lime_by_masks(value, len(document.ids), samples, seed)}
        ),
        "SHAP": timed(f, lambda: {"scores": partition_shap(transformer, document.text, samples)}),
    }
    for name, method in inside.methods().items():
        if name in without:
            continue

        def scores(method: Callable[[Ids], Array] = method) -> Found:
            return {"scores": method(document.ids)}

        out[name] = timed(f, scores) | {"calls": INSIDE_CALLS[name]}
    return out


def scores_of(name: str, found: Found, tokens: Ids) -> dict[str, Array]:
    """Token scores of what a method found: of a SLALOM its values, importances, P2's linearization
    and the true one.
    """
    if "slalom" not in found:
        return {name: np.asarray(found["scores"], dtype=float)}
    slalom = from_record(found)
    at = slalom.index(tokens)
    return {
        f"{name}, v": slalom.v[at],
        f"{name}, s": slalom.s[at],
        f"{name}, lin.": slalom_linearized(slalom, tokens, as_printed=True),
        f"{name}, derivative": slalom_linearized(slalom, tokens),
    }


def surrogate_of(found: Found, tokens: Ids) -> Value:
    """What a method predicts for masks: of a SLALOM its output, of scores their sum."""
    if "slalom" not in found:
        return linear_surrogate(found["scores"])
    return slalom_surrogate(from_record(found), tokens)
