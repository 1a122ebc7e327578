"""The parts of a report about any input: its answer, its classes, both scales, and what was
explained and how.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from ... import __version__
from ..explanations.explain import explain_logit
from ..explanations.explanation import Explanation, Explanations
from . import figures
from .described import kind_of
from .page import bars_of, bullets, details, facts_paragraph, note
from .sanitize import escape, prose

# What a reader of a report needs to know before its numbers.
HOW_TO_READ = (
    "Orange raises the named output and blue lowers it. A score is the mean change of the "
    "prediction over all orders in which the parts of the input can be added, so the scores add up "
    "from the baseline to the prediction.",
    "A score is not the change when that part alone is removed, and it does not say how the world "
    "works: it explains this model on this input.",
)


def headline_of(
    explanations: Explanations, thing: str = "This text", in_notebook: bool = False
) -> str:
    """Return the answer as a heading, and one line of facts with a link to what they mean."""
    heading = f"<h1>{prose(figures.headline(explanations, thing))}</h1>"
    link = "" if in_notebook else '<a href="#how">How to read this</a>'
    return heading + facts_paragraph(facts_of(explanations), link)


def facts_of(explanations: Explanations) -> list[str]:
    """State the model, the number of players, the method, its accuracy, the version and the
    date.
    """
    evidence = explanations.evidence
    e = figures.leader(explanations)
    things = evidence.target.players
    count = f"{evidence.d:,} {things if evidence.d > 1 else things.removesuffix('s')}"
    return [kind_of(evidence.model).partition(" ")[2], count, *method_facts(e)]


def method_facts(e: Explanation) -> list[str]:
    """State the method with its accuracy, the version and the date."""
    accuracy = e.title
    if e.error is not None:
        accuracy += f": exact to {e.error:.0e}"
    elif e.standard_error is not None and e.standard_error.any():
        accuracy += f": ± {e.scale.end(float(e.standard_error.max()))}"
    # The date tells a reader of paper when the model was asked.
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return [accuracy, f"attn-closed-form {__version__}", today]


def classes_of(explanations: Explanations, in_order_of: Explanations | None = None) -> str:
    """Return the probabilities of the classes as bars, in the order of another text if it is given;
    nothing for a single output.
    """
    bars = figures.class_bars(explanations, in_order_of)
    if not bars:
        return ""
    return f'<div class="classes">{bars_of(bars)}</div>'


def both_scales(explanations: Explanations, body: Callable[[Explanations], str]) -> str:
    """Return a part of the report, with a switch to the logit if it is about the probability."""
    e = figures.leader(explanations)
    logit = None
    # Where the logit is explained already there is no other scale to switch to.
    if e.scale.link is not None:
        # Cached with the input: the switch costs no second reading of it.
        logit = explain_logit(explanations, e.method)
    if logit is None:
        return body(explanations)
    switch = f'<label class="switch"><input type="checkbox"> Show {logit.scale.name}s</label>'
    main = f'<div class="main">{body(explanations)}</div>'
    other = f'<div class="logit">{note(logit.explained)}{body(logit)}</div>'
    return f'<div class="scales">{switch}{main}{other}</div>'


def facts(explanations: Explanations) -> str:
    """Return what was explained, a description of each method, and the papers."""
    # Where the methods come from.
    references = (
        "Lopardo, Precioso, Garreau: Attention Meets Post-hoc Interpretability: A Mathematical "
        "Perspective, ICML 2024 (arXiv 2402.03485)",
        "Leemann, Fastowski, Pfeiffer, Kasneci: Attention Mechanisms Don't Learn Additive Models, "
        "2025 (arXiv 2405.13536)",
        "Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017 (arXiv "
        "1703.01365)",
    )
    evidence = explanations.evidence
    units = evidence.units
    target = evidence.target
    level = explanations.scale.level
    logits = ""
    if target.logit is not None:
        name = target.logit.scale.name
        logits = f" Their {name}s: {evidence.logit:+.4f} and {evidence.absent_logit:+.4f}."
    absent = target.absent
    # The name of the option says nothing to a reader of a report.
    if absent == "unk":
        absent = "replaced by [UNK]"
    things = target.players
    read = len(units.labels)
    lines = [
        f"{explanations.explained} It is {level(evidence.prediction)}, and with all {things} "
        f"absent {level(evidence.baseline)}.{logits}",
        f"The model read {read:,} of {read + len(units.unseen):,} parts of the input, as "
        f"{evidence.d:,} {things}. Absent {things} are {absent}.",
    ]
    # Every sampled method has its own errors and model calls.
    lines += filter(None, map(figures.sampling, explanations.values()))
    errors = [e.error for e in explanations.values() if e.error is not None]
    if errors:
        lines.append(f"Guaranteed error of the exact attributions: ≤ {max(errors):.1e}.")
    methods = bullets(
        f"{e.title} ({e.info.accuracy}): {figures.named(e.info.summary, explanations)}"
        for e in explanations.values()
    )
    body = "".join(f"<p>{prose(line)}</p>" for line in lines)
    body += f"<h3>How to read this</h3>{bullets(HOW_TO_READ)}"
    body += f"<h3>Methods</h3>{methods}<h3>References</h3>{bullets(references)}"
    return details("What was explained, and how", body, kind="facts", name="how")


def unnamed_classes(explanations: Explanations) -> str:
    """Return a hint if the classes have numbers instead of names."""
    outputs = explanations.evidence.model.outputs
    if outputs != tuple(map(str, range(len(outputs)))):
        return ""
    return (
        '<p class="note">The classes have no names. Name them with <code>--classes A,B</code> or '
        f"<code>{escape('outputs')}</code>.</p>"
    )
