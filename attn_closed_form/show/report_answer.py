"""The answer at the top of a report: the verdict, the coloured text, the waterfall, reasons and sentences."""

from __future__ import annotations

from ..explanations.explain import for_output
from ..explanations.explanation import Explanation, Explanations
from .answer import leader, sampling, verdict, waterfall
from .palette import AGAINST, FOR, css, levels
from .sanitize import escape

# Longer pieces of text are shown with their middle cut out, so that no text can blow up the page.
LONGEST_WORD = 60
LONGEST_GAP = 48
MOST_CLASSES = 6
WIDTH = 600
LONGEST_REASON = 400
MOST_SENTENCES = 40


def players_of(found: Explanations) -> str:
    """What the players are called: words, positions, instances, ..."""
    return found.evidence.settings.players


def coloured(e: Explanation, hover: bool) -> str:
    """The text with one <i> per seen unit; what is not seen is counted at the end, not shown again and again."""
    level = levels(e.strength)
    signed = e.info.kind == "signed"
    parts, end = [], 0
    for place in e.occurrences:
        j = place.player
        parts.append(escape(e.text[end : place.start], LONGEST_GAP))
        names = []
        if level[j]:
            names.append(f"{'u' if not signed else 'p' if level[j] > 0 else 'n'}{abs(level[j])}")
        if e.unknown[j]:
            names.append("k")
        mark = f' class="{" ".join(names)}"' if len(names) > 1 else f" class={names[0]}" if names else ""
        if hover:
            unknown = ", not in the vocabulary" if e.unknown[j] else ""
            mark += f' title="{e.scores[j]:.4g}{unknown}"'
        parts.append(f"<i{mark}>{escape(e.text[place.start : place.end], LONGEST_WORD)}</i>")
        end = place.end
    if e.unseen:
        parts.append(f" <small>… {len(e.unseen):,} more not seen</small>")
    else:
        parts.append(escape(e.text[end:], LONGEST_GAP))
    return "".join(parts)


def answer_section(found: Explanations) -> str:
    """Everything that comes before the other methods."""
    e = leader(found)
    parts = [_verdict(found), _classes(found)]
    note = f"Coloured by {escape(e.title)}: orange raises {escape(found.output)}, blue (underlined) lowers it"
    if e.info.kind != "signed":
        note = f"Coloured by {escape(e.title)}, which has no sign"
    note += "; stronger is darker. Hover, tap or use the arrow keys on a word for its numbers."
    if any(e.unknown):
        note += " Dotted words are not in the vocabulary: the model cannot tell them apart."
    parts.append(f'<div class="text live" dir="auto">{coloured(e, hover=False)}</div><p class="note">{note}</p>')
    fit = found.evidence.fit
    if fit is not None:
        parts += [f'<p class="note"><b>{escape(text)}</b></p>' for text in fit.sentences()]
    if e.method == "shapley":
        parts.append(f"<h2>How it adds up</h2>{_error(e)}{waterfall_figure(e)}")
        parts += [_why(found), _other_classes(found)]
    return "".join(parts)


def _other_classes(found: Explanations) -> str:
    """A switch to the other classes: one can be open at a time, each with its words and its waterfall."""
    chances = found.probabilities or {}
    if len(found.evidence.logits) < 2 or found.output not in chances:
        return ""
    ranked = sorted(chances, key=lambda name: -chances[name])[:MOST_CLASSES]
    parts = []
    for name in (name for name in ranked if name != found.output):
        e = for_output(found, name)["shapley"]
        title = f"{escape(name, 30)}, {100 * chances[name]:.1f} % (logit {e.prediction:+.4f})"
        body = f'<div class="text live" dir="auto">{coloured(e, hover=True)}</div>{waterfall_figure(e)}'
        parts.append(f"<details name=class><summary>{title}</summary>{body}</details>")
    return f"<h2>The other classes</h2>{''.join(parts)}"


def _why(found: Explanations) -> str:
    """Reasons that are proved, and what each sentence contributes."""
    said = "".join(f"<li>{escape(text, LONGEST_REASON)}</li>" for text in found.reasons().sentences())
    fit = found.evidence.fit
    proved = "that are proved" if fit is None else f"that are proved of the {fit.name}, not of the model"
    parts = [f'<h2>Reasons {proved}</h2><ul class="reasons">{said}</ul>']
    if found.evidence.units.text is not None:
        scores = found.sentences()
        if 1 < len(scores.labels) <= MOST_SENTENCES:
            rows = "".join(
                f"<tr><td>{score:+.4f}</td><td dir=auto>{escape(label, LONGEST_REASON)}</td></tr>"
                for label, score in zip(scores.labels, scores.scores, strict=True)
            )
            note = "Owen values: the words of a sentence come and go together, and add up to its score."
            parts.append(f'<h2>Sentences</h2><p class="note">{note}</p><table class="s"><tbody>{rows}</tbody></table>')
    return "".join(parts)


def _verdict(found: Explanations) -> str:
    said = verdict(found)
    if said.probability is None:
        return f"<h1>{escape(said.name)} {said.logit:+.4f}</h1>"
    explained = (
        f"logit {said.logit:+.4f}" if said.output == said.name else f"explained: {said.output} {said.logit:+.4f}"
    )
    return f"<h1>{escape(said.name)}, {100 * said.probability:.0f} % <small>{escape(explained)}</small></h1>"


def _classes(found: Explanations) -> str:
    """A bar per class, the most probable first."""
    if not found.probabilities:
        return ""
    ranked = sorted(found.probabilities.items(), key=lambda item: -item[1])
    rows = [
        f'<b>{escape(name, 30)}</b><div><span style="width:{100 * chance:.1f}%"></span></div>'
        f'<span class="v">{100 * chance:.1f} %</span>'
        for name, chance in ranked[:MOST_CLASSES]
    ]
    if len(ranked) > MOST_CLASSES:
        rest = sum(chance for _, chance in ranked[MOST_CLASSES:])
        rows.append(
            f'<span>{len(ranked) - MOST_CLASSES} others</span><div><span style="width:{100 * rest:.1f}%"></span></div>'
            f'<span class="v">{100 * rest:.1f} %</span>'
        )
    return f'<div class="classes">{"".join(rows)}</div>'


def _error(e: Explanation) -> str:
    fit = e.evidence.fit
    what = "the logit" if fit is None else f"the {fit.name}"
    missed = "" if fit is None else " The last bar is what the fit misses of the model's output."
    return (
        f'<p class="note">Exact Shapley values of {what}, each guaranteed to {e.error:.0e}: they add up from the '
        f"prediction with every player absent to the whole one.{missed}</p>"
    )


def waterfall_figure(e: Explanation) -> str:
    """The waterfall as SVG: one bar per player by name, the rest as one bar."""
    steps = waterfall(e)
    left, right, row = 150, 70, 20
    low = min(min(step.start, step.end) for step in steps)
    high = max(max(step.start, step.end) for step in steps)
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return left + (value - low) / span * (WIDTH - left - right)

    height = row * len(steps) + 6
    body = [f'<path class="a" d="M{at(steps[0].start):.1f} 0V{height}"/>']
    for i, step in enumerate(steps):
        y = row * i + 3
        x0, x1 = sorted((at(step.start), at(step.end)))
        shown = step.change if step.players else step.end
        if step.players:
            colour = css(FOR if step.change > 0 else AGAINST)
            body.append(f'<path fill="{colour}" d="M{x0:.1f} {y}H{max(x1, x0 + 1):.1f}v{row - 6}H{x0:.1f}z"/>')
        else:
            body.append(f'<path stroke="currentColor" stroke-width="2" d="M{x0:.1f} {y - 1}v{row - 4}"/>')
        weight = "" if step.players else ' font-weight="600"'
        body.append(
            f'<text x="{left - 8}" y="{y + 11}" text-anchor="end"{weight}>{escape(step.label, 22)}</text>'
            f'<text x="{x1 + 6:.1f}" y="{y + 11}"{weight}>{shown:+.3f}</text>'
        )
    label = f"How {len(e.labels)} players add up from {e.base_value:+.3f} to {e.prediction:+.3f}"
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'


def facts(found: Explanations) -> str:
    """What was explained, in a few plain lines."""
    evidence = found.evidence
    units, settings = evidence.units, evidence.settings
    errors = [e.error for e in found.values() if e.error is not None]
    read = f"{len(units.labels):,} of {len(units.labels) + len(units.unseen):,}"
    lines = [
        f"Explained: the logit of {settings.output}, {evidence.prediction:+.4f}; with every player absent "
        f"{evidence.absent_value:+.4f}.",
        f"Units read: {read}; players: {len(evidence.labels):,} {settings.players}; an absent player is "
        + ("replaced by [UNK]." if settings.absent == "unk" else f"{settings.absent}."),
    ]
    if evidence.fit is not None:
        lines += evidence.fit.sentences()
        lines += [text for text in map(sampling, found.values()) if text]
    if errors:
        lines.append(f"Guaranteed error of the exact attributions: ≤ {max(errors):.1e}.")
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
