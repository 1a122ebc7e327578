"""The data of every figure, computed once from the result of `explain`; the views only draw them.

A figure is a named tuple; `plain` turns it into lists and dicts for JSON. Places are unit
coordinates: x from 0 at the left to 1 at the right, y from 0 at the bottom to 1 at the top. Names
of players are safe to show on one line (`sanitize.visible`); the pieces of a text are unescaped,
and each view escapes them. Maps of bags are in `maps.py`.

All views share one color scale. Vermilion raises the prediction and blue lowers it, as in shap and
lime; gray has no sign. The two are from Okabe and Ito's palette and differ for every common kind of
color blindness. Strengths are divided into five levels, so that players can also be marked without
any color: +, ++, +++, ++++.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._types import Array
from ..explanations.evidence import Evidence
from ..explanations.explanation import Explanation, Explanations
from ..explanations.methods import FAMILIES, Family
from ..models.scale import percent
from .bars import Bar
from .sanitize import output_name, visible

# Red, green and blue at full strength: vermilion and blue of Okabe and Ito's palette (2008), and a
# gray.
FOR = (213, 94, 0)
AGAINST = (0, 114, 178)  # blue
UNSIGNED = (110, 110, 110)  # gray
# Tuning: a strength at or above LEVELS[i] has level i + 1. A word below 1/8 of the strongest word
# is not colored.
LEVELS = (0.125, 0.3, 0.5, 0.75)
# Tuning: the number of classes with a bar.
MOST_CLASSES = 6
# Tuning: the number of rows in a table of numbers.
MOST_ROWS = 12


def levels(strength: Array) -> NDArray[np.int_]:
    """Return the level -4..4 of each strength in [-1, 1]."""
    # The limits belong to the upper level, so the strongest word, with strength 1, has level 4.
    return np.sign(strength).astype(int) * np.searchsorted(LEVELS, np.abs(strength), side="right")


def leader(explanations: Explanations, method: str | None = None) -> Explanation:
    """Return the explanation that colors a text or a map: the given method, the headline, or the
    first signed one.
    """
    if method is not None:
        if method not in explanations:
            raise ValueError(f"method: expected one of {', '.join(explanations)}, got {method!r}")
        return explanations[method]
    if not explanations:
        raise ValueError("explanations: expected at least one, got none")
    headline = explanations.evidence.headline
    # `min` keeps the first of equals, so the order in which methods were asked for decides among
    # the others.
    return min(explanations.values(), key=lambda e: (e.method != headline, e.info.kind != "signed"))


def names(evidence: Evidence) -> tuple[str, ...]:
    """Return the names of the players, safe to show on one line."""
    return evidence.of_input("visible names", lambda: tuple(map(visible, evidence.names)))


def notice(explained: Explanation | Explanations) -> str:
    """Return a sentence to show instead of the explanation if no word is in the vocabulary,
    otherwise "".
    """
    units = explained.evidence.units
    if units.unknown is None:
        return ""
    unknown = units.unknown.tolist()
    # Marks such as "!" may be in the vocabulary of a model that knows no word of the text.
    known = (label for label, missing in zip(units.labels, unknown, strict=True) if not missing)
    if not any(unknown) or any(character.isalnum() for label in known for character in label):
        return ""
    several = sum(unknown) > 1
    if several:
        none = f"None of the {sum(unknown)} words of this text is"
    else:
        none = "The only word of this text is not"
    if several:
        means = "what they mean"
    else:
        means = "what it means"
    return (
        f"{none} in the vocabulary of the model. The prediction does not depend on {means}, so "
        "there is nothing to explain."
    )


def sampling(e: Explanation) -> str:
    """State the number of model calls and the largest standard error; empty for exact methods."""
    if e.info.needs != "model" or e.model_calls is None:
        return ""
    if e.standard_error is None:
        largest = 0.0
    else:
        largest = float(e.standard_error.max())
    if largest:
        error = f"sampled, ± standard error (at most {e.scale.end(largest)})"
    else:
        error = "nothing sampled"
    # Sampling may have stopped at its limit of model calls before the error was as small as wanted.
    # A reader must not take the wanted error for the one that was reached.
    wanted = e.evidence.model_game.max_error
    limit = ""
    if wanted is not None and largest > wanted:
        limit = f", the limit; the wanted error is {e.scale.end(wanted)}"
    return f"{e.title}: {error}, {e.model_calls:,} model calls{limit}"


def saturation(explanations: Explanations) -> str:
    """State that a probability is so close to 0 or 1 that many removals hardly change it; ""
    if it is not.
    """
    # Tuning: a probability this close to 0 or 1 hardly changes when a single player is removed.
    saturated = 1e-3
    chance = explanations.prediction
    if not explanations.scale.in_percent or saturated <= chance <= 1 - saturated:
        return ""
    things = explanations.evidence.target.players
    return (
        f"The probability is saturated ({percent(chance)}): many removals hardly change it, so "
        "that similar values do not mean equal evidence. The logit (scale='logit') tells the "
        f"{things} apart."
    )


def explained_number(explanations: Explanations) -> str:
    """State the explained output and its value if that is not the probability of the most probable
    class.
    """
    chances = explanations.probabilities or {}
    output = explanations.output
    scale = explanations.scale
    is_best = bool(chances) and output == max(chances, key=lambda name: chances[name])
    level = scale.level(explanations.prediction)
    if scale.link is None and is_best:
        return f"{scale.name} {level}"
    if scale.link is None:
        return f"{scale.name} of {output_name(output)} {level}"
    if is_best:
        return ""
    return f"{visible(output)} {level}"


def headline(explanations: Explanations, thing: str = "This text") -> str:
    """State the answer in a sentence, such as "This text is rated positive: 76%".

    >>> from attn_closed_form import load_demo_model
    >>> headline(load_demo_model().explain("A fine film", "loo"))
    'This text is rated positive: 61%'
    """
    chances = explanations.probabilities
    if chances is None:
        what = explanations.scale.of_output(visible(explanations.output))
        return f"{what[0].upper()}{what[1:]} is {explanations.scale.level(explanations.prediction)}"
    best = max(chances, key=lambda name: chances[name])
    # No decimals: the bars below have them.
    return f"{thing} is rated {output_name(best)}: {percent(chances[best], decimals=0)}"


def full_headline(explanations: Explanations, thing: str = "This text") -> str:
    """State the answer in a sentence, and the explained number if it is another one.

    >>> from attn_closed_form import load_demo_model
    >>> full_headline(load_demo_model().explain("A fine film", "loo", scale="logit"))
    'This text is rated positive: 61% (logit +0.4581)'
    """
    text = headline(explanations, thing)
    explained = explained_number(explanations)
    if explained and explanations.probabilities is not None:
        return f"{text} ({explained})"
    return text


def class_bars(
    explanations: Explanations, in_order_of: Explanations | None = None
) -> tuple[Bar, ...]:
    """Return the classes, most probable first; those beyond `MOST_CLASSES` share a bar.

    The probabilities of another text can rank them, so that two texts show the same classes in the
    same order. A single output has no bars.
    """
    chances = explanations.probabilities or {}
    # Both texts of a comparison are read side by side, so a class must not change its row.
    ranking = (in_order_of or explanations).probabilities or {}
    ranked = sorted(chances, key=lambda name: -ranking.get(name, 0.0))
    shown = [(visible(name), chances[name], 1) for name in ranked[:MOST_CLASSES]]
    others = [chances[name] for name in ranked[MOST_CLASSES:]]
    if others:
        shown.append((f"{len(others)} others", sum(others), len(others)))
    return tuple(
        Bar(name, _share(chance), "share", 0.0, chance, 0.0, chance, n) for name, chance, n in shown
    )


def _share(chance: float) -> str:
    """Write a share among others, all with one decimal."""
    # One decimal of a percentage: a smaller share in a list of classes is written as below it.
    smallest_share = 1e-3
    if 0 < chance < smallest_share:
        return f"<{smallest_share:.1%}"
    return f"{chance:.1%}"


class TextPiece(NamedTuple):
    """A piece of the text and its player, which is None between words."""

    text: str
    player: int | None


class ColoredText(NamedTuple):
    """A text with its words colored by one method: the pieces up to the last word that the model
    reads, and the rest.

    `unseen` counts the words that the model does not read. Each player has a level from -4
    (strongly against) to 4 (strongly for), or from 0 to 4 without a sign; a text without a known
    word has no colors. An `unknown` player is outside the vocabulary.
    """

    pieces: tuple[TextPiece, ...]
    tail: str
    unseen: int
    levels: tuple[int, ...]
    signed: bool
    unknown: tuple[bool, ...]


def colored_text(e: Explanation, largest: float | None = None) -> ColoredText:
    """Return the text of an explanation, colored by its scores.

    The strongest color belongs to the largest score, or to `largest`, so that several texts can
    share a scale.
    """

    def compute() -> tuple[tuple[TextPiece, ...], str]:
        pieces = []
        end = 0
        for place in e.occurrences:
            if place.start > end:
                pieces.append(TextPiece(e.text[end : place.start], None))
            pieces.append(TextPiece(e.text[place.start : place.end], place.player))
            end = place.end
        return tuple(pieces), e.text[end:]

    # All methods color the same pieces, so the text is divided once.
    pieces, tail = e.evidence.of_input("pieces of the text", compute)
    strength = e.strength
    if largest is not None:
        strength = e.scores / (largest or 1.0)
    # Colors would suggest that the unknown words made the prediction.
    if notice(e):
        strength = np.zeros(len(e.labels))
    return ColoredText(
        pieces=pieces,
        tail=tail,
        unseen=len(e.unseen),
        levels=tuple(levels(strength).tolist()),
        signed=e.info.kind == "signed" and e.trusted,
        unknown=e.unknown,
    )


class MethodRow(NamedTuple):
    """Methods that give every player the same color: their names, titles, summaries, and levels as
    in `ColoredText`.
    """

    methods: tuple[str, ...]
    title: str
    summary: str
    signed: bool
    levels: tuple[int, ...]


class MethodFamily(NamedTuple):
    """A family of methods with its title, the meaning of its numbers, and its rows."""

    title: str
    meaning: str
    rows: tuple[MethodRow, ...]


def method_rows(explanations: Explanations) -> tuple[MethodFamily, ...]:
    """Return the explanations by family; methods with the same level for every player share a
    row.
    """
    families = []
    surrogate = explanations.evidence.model.surrogate
    strengths = np.array([e.strength for e in explanations.values()])
    level = dict(zip(explanations, map(tuple, levels(strengths).tolist()), strict=True))
    by_family: dict[Family, list[Explanation]] = {family: [] for family in FAMILIES}
    for e in explanations.values():
        by_family[e.family].append(e)
    for family, members in by_family.items():
        if not members:
            continue
        title, meaning = FAMILIES[family]
        # The usual title says "exact", which these values are not.
        if family == "attributions" and not explanations.evidence.exact:
            title = "Attributions, sampled or from single removals"
        if family == "slalom" and surrogate is not None:
            if all(e.trusted for e in members):
                poor = ""
            else:
                poor = " (poor fit, shown in gray: do not trust these scores)"
            title = f"Of the {surrogate}, not of the model{poor}"
        if all(e.scale != explanations.scale for e in members):
            meaning += " These scores are computed from the logit, not from the probability."
        # A dozen copies of the same text hide the few methods that differ, so equal looks share a
        # row.
        shared: dict[tuple[bool, tuple[int, ...]], list[Explanation]] = {}
        for e in members:
            shared.setdefault((e.info.kind == "signed", level[e.method]), []).append(e)
        rows = (
            MethodRow(
                tuple(e.method for e in same),
                ", ".join(e.title for e in same),
                "\n".join(
                    f"{named(e.info.summary, explanations)}; {e.info.accuracy}" for e in same
                ),
                *look,
            )
            for look, same in shared.items()
        )
        families.append(MethodFamily(title, named(meaning, explanations), tuple(rows)))
    return tuple(families)


def named(text: str, explanations: Explanations) -> str:
    """Call the players what they are: words, instances, regions.

    >>> from attn_closed_form import load_demo_model
    >>> named("what a player adds", load_demo_model().explain("A fine film", "shapley"))
    'what a word adds'
    """
    players = explanations.evidence.target.players
    return text.replace("players", players).replace("player", players.removesuffix("s"))


def strongest_players(explanations: Explanations, top: int = MOST_ROWS) -> tuple[int, ...]:
    """Return the `top` strongest players of the leading explanation, strongest first."""
    return tuple(np.argsort(-np.abs(leader(explanations).strength), kind="stable")[:top].tolist())
