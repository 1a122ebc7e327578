"""Every explanation that P2 compares, for one document of one model, with the packages that people
use.

LIME is the lime package's own regression on its own draws (`lime_runs.py`); KernelSHAP is shap's.
Both see a document as masks, so that they explain any model; a removed token is deleted, or [UNK]
in P1's classifier (`text_models.py`).
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from attn_closed_form import Slalom, fit_slalom, lime_limit, shapley
from attn_closed_form._types import Array
from attn_closed_form.game.pooled_game import PooledGame
from attn_closed_form.slalom import Optimum, slalom_linearized
from attn_closed_form.slalom.design import deletions
from attn_closed_form.slalom.fit import fit_sequences

from ..faithfulness import Value, linear_surrogate, slalom_surrogate
from ..shapley import kernel_shap
from .lime_runs import lime_by_masks
from .text_models import Ids, Subject


class Explanation(NamedTuple):
    """Scores of the tokens, the output that they predict for a mask (None: none), and processor
    seconds.
    """

    scores: Array
    surrogate: Value | None
    seconds: float


# The id of a token that is always there: [CLS] and padding get attention too, and P2's SLALOM has
# nothing for them.
BACKGROUND = -1


def slalom_fidel(
    value: Value, tokens: Ids, samples: int, seed: int, background: bool = False
) -> Slalom:
    """SLALOM-fidel under any kind of removal: Algorithm 2's samples, outputs from a function of
    masks.
    """
    keep = deletions(len(tokens), samples, 5, "balanced", np.random.default_rng(seed))
    more = [BACKGROUND] if background else []
    sequences = [np.concatenate([tokens[row], more]).astype(np.intp) for row in keep]
    # The background, where one is wanted, is a token of its own here.
    plain = Optimum(background=False)
    return fit_sequences(np.asarray(value(keep)), sequences, np.ones(samples), solver=plain).slalom


def with_background(slalom: Slalom, tokens: Ids, seconds: float) -> Explanation:
    """Derivatives (Eq. 64) and predictions of a SLALOM that has a background token."""
    index = slalom.index(tokens)
    rest = slalom.index([BACKGROUND])
    game = PooledGame.from_scores(
        slalom.s[index], slalom.v[index], s_background=slalom.s[rest], v_background=slalom.v[rest]
    )
    return Explanation(slalom_linearized(slalom, [*tokens, BACKGROUND])[:-1], game.value, seconds)


def explanations(
    subject: Subject, tokens: Ids, samples: int, seed: int = 0
) -> dict[str, Explanation]:
    """All methods on one document, by name."""
    tokens = np.asarray(tokens)
    model = subject.remove(tokens)
    value: Value = model.value if isinstance(model, PooledGame) else model
    d = len(tokens)
    out: dict[str, Explanation] = {}
    for name in ("SLALOM-fidel", "SLALOM-eff"):
        start = time.process_time()
        if name == "SLALOM-eff":
            slalom = fit_slalom(subject.f, tokens, "eff", samples, seed=seed, progress=False).slalom
        else:
            slalom = slalom_fidel(value, tokens, samples, seed)
        seconds = time.process_time() - start
        index = slalom.index(tokens)
        surrogate = slalom_surrogate(slalom, tokens)
        out[f"{name}, v"] = Explanation(slalom.v[index], surrogate, seconds)
        out[f"{name}, s"] = Explanation(slalom.s[index], None, seconds)
        out[f"{name}, lin."] = Explanation(
            slalom_linearized(slalom, tokens, as_printed=True), None, seconds
        )
        out[f"{name}, derivative"] = Explanation(slalom_linearized(slalom, tokens), None, seconds)
    start = time.process_time()
    slalom = slalom_fidel(value, tokens, samples, seed, background=True)
    out["SLALOM-fidel + background"] = with_background(slalom, tokens, time.process_time() - start)
    closed = dict(subject.closed)
    closed["LIME"] = lambda _: lime_by_masks(value, d, samples, seed)
    closed["SHAP"] = lambda _: kernel_shap(lambda masks: np.asarray(value(masks > 0.5)), d, samples)
    if isinstance(model, PooledGame):
        closed["exact Shapley"] = lambda ids: shapley(model)
        closed["exact LIME"] = lambda ids: lime_limit(model).coef
    for name, method in closed.items():
        start = time.process_time()
        np.random.seed(seed)  # noqa: NPY002  # shap draws from the global state
        scores = np.asarray(method(tokens), dtype=float)
        out[name] = Explanation(scores, linear_surrogate(scores), time.process_time() - start)
    return out
