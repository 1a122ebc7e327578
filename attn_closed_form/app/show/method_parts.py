"""The parts of a report about all methods: small texts, numbers, and what is known about a fitted
game.
"""

from __future__ import annotations

from ..explanations.explanation import Explanations
from . import figures
from .colored import colored
from .page import details, note, section, table_of
from .sanitize import escape


def text_methods(explanations: Explanations, in_notebook: bool = False) -> str:
    """Return one colored text per method, by family."""
    parts = []
    for family in figures.method_rows(explanations):
        rows = ""
        for row in family.rows:
            words = colored(explanations[row.methods[0]], in_notebook)
            title = f'<th scope=row title="{escape(row.summary)}">{escape(row.title)}</th>'
            rows += f'<tr>{title}<td dir="auto">{words}</td></tr>'
        table = f'<div class="live"><table class="words"><tbody>{rows}</tbody></table></div>'
        parts.append(section(family.title, family.meaning, table))
    return details("Other methods", "".join(parts))


def surrogate_of(explanations: Explanations) -> str:
    """Return what is known about the game that is fitted to a transformer, apart from the values of
    the model itself.
    """
    fit = explanations.fit
    if fit is None:
        return ""
    body = note(f"{fit.verdict()}.", strong=True)
    body += "".join(note(sentence) for sentence in fit.sentences())
    return section(f"The {fit.name}", "", body, "h2")


def numbers_of(explanations: Explanations) -> str:
    """Return a table of the strongest players in every method."""
    rows = list(explanations.values())
    # All players would be hundreds of rows; the JSON and the CSV have them.
    order = figures.strongest_players(explanations)
    names = figures.names(explanations.evidence)
    cells = []
    for j in order:
        numbers = []
        for e in rows:
            # A plus before a number without a sign would claim a direction.
            digits = ".3g" if e.info.kind == "unsigned" else "+.3g"
            numbers.append(e.scale.digits(e.scores[j], digits))
        cells.append((names[j], numbers))
    things = explanations.evidence.target.players
    titles = [e.scale.titled(e.title) for e in rows]
    table = table_of([things.removesuffix("s"), *titles], cells)
    title = figures.leader(explanations).title
    text = f"The {len(order)} strongest {things} by {title}; scroll sideways for more methods."
    return details("The numbers", note(text) + table)
