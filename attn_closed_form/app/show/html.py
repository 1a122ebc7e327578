"""Reports as one self-contained HTML file that is small, escaped, color-blind safe and readable on
a phone.

`report` puts the answer first: the prediction, the text colored by the exact Shapley values, how
the words add up, and the certified reasons (`text_report.py`). A bag gets its signed map next to
the attention, the strongest instances, and the differences between the two (`bag_report.py`).
`notebook` returns the HTML of a notebook cell.

Figures are inline SVG, drawn from `figures.py`, and maps are PNG data inside the page (`page.py`).
Words against the prediction are also underlined, so that a gray print shows the sign.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..explanations.explanation import Explanations
from ..models.protocol import BagModel
from . import figures, maps
from .bag_report import bag_notebook, bag_page
from .colored import is_long, script_data
from .method_parts import numbers_of, surrogate_of, text_methods
from .page import page_of, script, stylesheet
from .report_parts import facts
from .slalom_plane import slalom_plane_of
from .text_report import text_answer, texts_of_page


def notebook(explanations: Explanations) -> str:
    """Return the HTML of a notebook cell: the answer and the words colored by each method, or the
    maps of a bag.

    >>> from attn_closed_form import load_demo_model
    >>> page = notebook(load_demo_model().explain("<b>fine</b>", "shapley"))
    >>> "<b>fine" in page, "&lt;b&gt;" in page
    (False, True)
    """
    if _is_bag(explanations):
        body = bag_notebook(explanations)
    else:
        # A cell shows less than a report: a notebook has its own text around it.
        body = text_answer(explanations, in_notebook=True)
        if len(explanations) > 1 and not is_long(explanations):
            body += text_methods(explanations, in_notebook=True)
        body += surrogate_of(explanations)
    # Every rule is scoped to .acf, so that none affects the rest of the notebook.
    return f'<style>{stylesheet()}</style><div class="acf">{body}</div>'


def report(explanations: Explanations, others: Sequence[Explanations] = ()) -> str:
    """Return an HTML page about one input. The report of a bag also has the maps of `others`, which
    explain further outputs of it.
    """
    if _is_bag(explanations):
        title = figures.full_headline(explanations, maps.bag_name(explanations, "This bag"))
        body = bag_page(explanations, others) + script_data([]) + script()
        return page_of(title, body)
    parts = [text_answer(explanations)]
    if len(explanations) > 1 and not figures.notice(explanations):
        if not is_long(explanations):
            parts.append(text_methods(explanations))
        parts += [numbers_of(explanations), surrogate_of(explanations)]
        parts.append(slalom_plane_of(explanations))
    parts.append(facts(explanations))
    parts += [script_data(texts_of_page(explanations)), script()]
    return page_of(figures.headline(explanations), "".join(parts))


def _is_bag(explanations: Explanations) -> bool:
    return isinstance(explanations.evidence.model, BagModel)
