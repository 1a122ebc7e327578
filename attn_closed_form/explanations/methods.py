"""The table of explanation methods, one entry per method.

`explain`, the command line, the report, the plots, the page and the corpus read this one table; a new method is one
more entry. A method scores the *players* of an `Evidence`. Game methods (LIME, Shapley values, ...) need nothing but
the game, so every explainable model has them; of a model whose game is only fitted to it, such as a transformer, those
that need values of coalitions and no more ask the model itself. The others need the inside of the model (attention,
gradients), which scores units, and a player's score is the sum over its units.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..game.shapley import banzhaf, shapley
from .method import FAMILIES, Family, Method
from .scoring import (
    guaranteed,
    inside,
    leave_one_out_scores,
    lime,
    sampled_lime,
    sampled_shapley,
    slalom_importance,
    slalom_linear,
    slalom_value,
)

__all__ = ["ALIASES", "DEFAULT_METHODS", "FAMILIES", "METHODS", "Family", "Method", "as_methods"]

_P1 = "Lopardo et al. 2024"
_P2 = "Leemann et al. 2025"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "alpha-avg",
            "α-avg",
            "attention",
            "unsigned",
            "closed form",
            "inside",
            f"attention, mean over heads ({_P1}, Eq. 10); it has no sign and knows no class",
            inside("alpha-avg"),
        ),
        Method(
            "alpha-max",
            "α-max",
            "attention",
            "unsigned",
            "closed form",
            "inside",
            f"attention, largest over heads ({_P1}, Eq. 11); it has no sign and knows no class",
            inside("alpha-max"),
        ),
        Method(
            "g-avg",
            "G-avg",
            "derivatives",
            "signed",
            "closed form",
            "inside",
            f"mean coordinate of the gradient by the embedding ({_P1}, Theorem 4.1)",
            inside("g-avg"),
        ),
        Method(
            "g-l1",
            "G-l1",
            "derivatives",
            "unsigned",
            "closed form",
            "inside",
            f"L1 norm of the gradient ({_P1}, section 4.1); it has no sign",
            inside("g-l1"),
        ),
        Method(
            "g-l2",
            "G-l2",
            "derivatives",
            "unsigned",
            "closed form",
            "inside",
            f"L2 norm of the gradient ({_P1}, section 4.1); it has no sign",
            inside("g-l2"),
        ),
        Method(
            "gxi",
            "G×I",
            "derivatives",
            "signed",
            "closed form",
            "inside",
            f"gradient times input ({_P1}, section 4.1); says what a small change does, not a removal",
            inside("gxi"),
        ),
        Method(
            "ig",
            "IG",
            "derivatives",
            "signed",
            "estimate",
            "inside",
            "integrated gradients from the document of [UNK] (Sundararajan et al. 2017)",
            inside("ig"),
            forecasts=True,
        ),
        Method(
            "lrp",
            "LRP",
            "derivatives",
            "signed",
            "closed form",
            "inside",
            "layer-wise relevance propagation (Achtibat et al. 2024); what reaches [CLS] is lost, so the sum is less",
            inside("lrp"),
        ),
        Method(
            "lime",
            "LIME",
            "attributions",
            "signed",
            "guaranteed",
            "game",
            "what LIME with 5000 samples converges to when absent words become [UNK] in place (lime's bow=False)",
            lime,
            forecasts=True,
        ),
        Method(
            "lime-sampled",
            "LIME (sampled)",
            "attributions",
            "signed",
            "sampled",
            "model",
            "LIME with random samples as the lime package draws them (bow=False), 5000 unless the model has a budget",
            sampled_lime,
            forecasts=True,
        ),
        Method(
            "shapley",
            "Shapley",
            "attributions",
            "signed",
            "guaranteed",
            "game",
            "exact Shapley value: mean change over all orders of adding the players",
            guaranteed("shapley", shapley),
            forecasts=True,
        ),
        Method(
            "shapley-sampled",
            "Shapley (sampled)",
            "attributions",
            "signed",
            "sampled",
            "model",
            "Shapley values from sampled orders of the players, each walked in both directions (Castro et al. 2009)",
            sampled_shapley,
            forecasts=True,
        ),
        Method(
            "banzhaf",
            "Banzhaf",
            "attributions",
            "signed",
            "guaranteed",
            "game",
            "exact Banzhaf value: mean change over all subsets of the other players",
            guaranteed("banzhaf", banzhaf),
            forecasts=True,
        ),
        Method(
            "loo",
            "Leave-one-out",
            "attributions",
            "signed",
            "closed form",
            "model",
            "change of the prediction when this player alone goes",
            leave_one_out_scores,
            forecasts=True,
        ),
        Method(
            "slalom-value",
            "SLALOM value",
            "slalom",
            "signed",
            "closed form",
            "game",
            f"what the player says on its own ({_P2}, Eq. 6, v)",
            slalom_value,
        ),
        Method(
            "slalom-importance",
            "SLALOM import.",
            "slalom",
            "log",
            "closed form",
            "game",
            f"how loudly it says it: log of its weight in the softmax ({_P2}, Eq. 6, s)",
            slalom_importance,
        ),
        Method(
            "slalom-linear",
            "SLALOM linear",
            "slalom",
            "signed",
            "closed form",
            "game",
            f"derivative of the prediction by the player's weight ({_P2}, section 5.4, corrected)",
            slalom_linear,
            forecasts=True,
        ),
    )
}

# All but what samples: fast enough to follow someone who types.
DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if method.accuracy != "sampled")
# Other names that people know a method by.
ALIASES = {"leave-one-out": "loo"}


def as_methods(methods: str | Iterable[str] | None) -> tuple[Method, ...]:
    """Checked methods: None for the default set, "all", one name, or several in the wanted order.

    >>> [method.label for method in as_methods(["shapley", "alpha-avg"])]
    ['Shapley', 'α-avg']
    """
    if methods is None:
        methods = DEFAULT_METHODS
    names = (list(METHODS) if methods == "all" else [methods]) if isinstance(methods, str) else list(methods)
    names = [ALIASES.get(name, name) for name in names]
    for name in names:
        if name not in METHODS:
            raise ValueError(f"methods: expected names among {', '.join(METHODS)}; got {name!r}")
    if not names:
        raise ValueError("methods: expected at least one name, got none")
    return tuple(METHODS[name] for name in dict.fromkeys(names))
