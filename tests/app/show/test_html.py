"""The report is well formed, self-contained and light, and shows any text literally."""

import dataclasses
import itertools
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from attn_closed_form import METHODS, explain, load_demo_model
from attn_closed_form.app.explanations.answers import Certified
from attn_closed_form.app.explanations.evidence import Evidence
from attn_closed_form.app.explanations.methods import DEFAULT_METHODS
from attn_closed_form.app.models.scale import percent
from attn_closed_form.app.show.colored import MANY_WORDS
from attn_closed_form.app.show.figures import LEVELS
from attn_closed_form.app.show.figures import levels as figures_levels
from attn_closed_form.app.show.html import report
from attn_closed_form.app.show.page import stylesheet
from attn_closed_form.app.show.sanitize import visible
from attn_closed_form.app.show.waterfall import waterfall
from tests.profiles import mostly_slow
from tests.texts import HOSTILE, REVIEW, long_text, model_for, typed

VOID = {"meta", "br", "input"}
# Our own elements; anything else came out of a text.
KNOWN = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3",
    "blockquote", "dl", "div", "dt", "dd", "section", "p",
    "table", "thead", "tbody", "tr", "th", "td", "i", "small", "svg", "path", "text", "circle", "g", "span", "b",
    "details", "summary", "ul", "li", "script", "label", "input", "main", "select", "option", "br", "a",
}  # fmt: skip


class Page(HTMLParser):
    """Checks nesting, elements and attributes while reading; collects the text of table cells and
    scripts.
    """

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.cells = []
        self.scripts = []
        self.words = []
        self.text = []
        self.divs = []
        self.answer = None
        self.feed(page)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        assert tag in KNOWN, tag
        for name, value in attributes:
            assert not name.startswith("on"), name
            assert name not in ("src", "action", "formaction"), name
            assert name != "href" or value == "#how", value  # the only link leads to this page
            assert "javascript:" not in (value or "")
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")
        if tag == "div":
            self.divs.append(dict(attributes).get("class", ""))
            if self.divs[-1] == "text live":
                self.answer = ""
        if tag == "script":
            self.scripts.append("")
        if tag == "i":
            self.words.append((dict(attributes).get("class", ""), ""))

    def handle_startendtag(self, tag, attributes):
        assert tag in KNOWN, tag

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        if self.open.pop() == "div":
            self.divs.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
            return
        self.text.append(data)
        if "text live" in self.divs:
            self.answer += data
        if "td" in self.open:
            self.cells[-1] += data
        if self.open and self.open[-1] == "i":
            mark, word = self.words[-1]
            self.words[-1] = (mark, word + data)


def page_for(text, known="fine film bad", **options):
    model = model_for(known, text)
    return report(explain(model, text, **options))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_shown_literally_and_break_nothing(name):
    text = HOSTILE[name]
    html = page_for(text)
    page = Page(html)
    html.encode("utf-8")
    assert len(page.scripts) == 2 and page.scripts[1].count("JSON.parse") == 1
    json.loads(page.scripts[0])
    if len(text) < 200:
        assert page.answer == visible(text)
        assert visible(text) in "".join(page.text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", html)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_break_no_notebook(name):
    model = model_for("fine film bad")
    found = explain(model, HOSTILE[name], ["shapley", "alpha-mean"])
    page = Page(found._repr_html_())
    assert page.scripts == [] and len(page.cells) == 2
    single = found["shapley"]._repr_html_()
    assert Page(single).cells == [] and single.count("title=") >= len(found["shapley"].occurrences)


def test_the_page_needs_no_network():
    html = page_for(REVIEW)
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<link|<img|fetch|XMLHttp", html)


@pytest.mark.parametrize("players", mostly_slow(["words", "positions"], 1))
def test_a_page_for_256_tokens_is_light(players):
    text = long_text(255)
    model = model_for(text, T_max=256, K=6)
    html = report(explain(model, text, players=players))
    Page(html)
    assert len(html.encode()) < 200_000


@pytest.mark.slow  # ten thousand words
def test_ten_thousand_words_stay_light_and_are_counted():
    text = long_text(10_000)
    model = model_for(text, T_max=256, K=6, d_e=8)
    with pytest.warns(UserWarning, match="last 9745 are not read"):
        html = report(explain(model, text))
    Page(html)
    assert len(html.encode()) < 200_000
    assert "9,745 more not read" in html and "255 of 10,000" in html


def test_words_carry_the_level_of_their_score():
    model = model_for(REVIEW)
    page = Page(report(explain(model, REVIEW, ["shapley", "alpha-mean"])))
    e = explain(model, REVIEW, "shapley")["shapley"]
    assert len(page.words) == 3 * len(e.occurrences)  # the answer, and one row per method
    for (mark, word), place in zip(page.words, e.occurrences, strict=False):
        assert word == REVIEW[place.start : place.end]
        strength = e.strength[place.player]
        assert mark[:1] == ("" if abs(strength) < 0.125 else "p" if strength > 0 else "n")
    assert {mark[:1] for mark, _ in page.words[2 * len(e.occurrences) :]} <= {"", "u"}


def test_the_script_knows_every_score():
    model = model_for(REVIEW)
    found = explain(model, REVIEW, scale="logit")
    (data,) = json.loads(Page(report(found)).scripts[0])
    assert data["labels"] == [METHODS[name].label for name in DEFAULT_METHODS]
    for row, e in zip(data["scores"], found.values(), strict=True):
        assert np.allclose(row, e.scores, rtol=1e-3, atol=0)
    first = found["shapley"]
    assert data["player"] == [place.player for place in first.occurrences]


def test_prediction_and_guarantee_stand_at_the_top():
    model = model_for(REVIEW)
    html = report(explain(model, REVIEW, scale="logit"))
    e = explain(model, REVIEW, "shapley")["shapley"]
    assert f"{e.prediction:+.4f}" in html and f"≤ {e.error:.1e}" in html


def test_unknown_words_are_marked():
    model = model_for("fine film")
    page = Page(report(explain(model, "zyx film", ["alpha-mean"])))
    (unknown, _), (known, _) = page.words[:2]
    assert "k" in unknown.split() and "k" not in known.split()


def test_the_predicted_class_is_compared_with_every_other_one():
    model = model_for(REVIEW, C=4, K=1)
    found = explain(model, REVIEW)
    html = typed(report(found))
    Page(html)
    # No view of a classifier opens with logits unless they were asked for.
    assert found.scale.in_percent and f"Probability of {found.output}" in html
    chances = found.probabilities
    best, runner_up, *others = sorted(chances, key=lambda name: -chances[name])
    titles = re.findall(r"<details name=class><summary>([^<]*)</summary>", html)
    assert len(titles) == len(others) == 2 and runner_up not in "".join(titles)
    for title, name in zip(titles, others, strict=True):
        share = chances[best] / (chances[best] + chances[name])
        assert title == f"{best} against {name}: {100 * share:.1f}%"
    # The logit of the class alone is folded, after everything in percent.
    logits = typed(report(explain(model, REVIEW, scale="logit")))
    assert logits.index(f"<summary>Logit of {best}") > logits.index("How it adds up")
    assert len(html.encode()) < 100_000


def test_reasons_and_sentences_are_said():
    found = explain(load_demo_model(), REVIEW)
    page = Page(typed(report(found)))
    text = "".join(page.text)
    for sentence in found.reasons().sentences():
        assert re.sub("[“”]", "", sentence) in text  # the names are chips instead
    assert "<b class=chip>" in report(found)
    for score in found.sentences().scores:
        assert f"{100 * score:+.1f}" in text


def test_a_single_sentence_costs_no_owen_values(monkeypatch):
    monkeypatch.setattr("attn_closed_form.app.explanations.answers.owen", None)
    report(explain(model_for(REVIEW), "A fine film", "shapley"))
    with pytest.raises(TypeError):
        report(explain(model_for(REVIEW), "A fine film. A dull end.", "shapley"))


@pytest.mark.slow  # the page for 256 tokens is the quick one
def test_a_report_of_a_hundred_words_is_light():
    text = long_text(100)
    assert len(report(explain(model_for(text, T_max=128, K=6), text)).encode()) < 100_000


def circles(html):
    """Centers of the circles of the SLALOM plane, by what their tip says."""
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="4"><title>([^<]*)</title>', html)
    return {tip: (float(x), float(y)) for x, y, tip in found}


def test_the_slalom_plane_has_importance_to_the_right_and_value_upwards():
    found = explain(model_for(REVIEW), REVIEW)
    value = found["slalom-value"].scores
    importance = found["slalom-importance"].scores
    places = circles(report(found))
    tips = [
        f"{w} s={s:.3g} v={v:.3g}"
        for w, s, v in zip(found["slalom-value"].labels, importance, value, strict=True)
    ]
    x, y = np.array([places[tip] for tip in tips]).T
    # SVG counts downwards.
    assert np.corrcoef(x, importance)[0, 1] > 0.99999 and np.corrcoef(y, value)[0, 1] < -0.99999


def test_bars_of_the_waterfall_lie_where_the_scores_put_them():
    found = explain(model_for(REVIEW), REVIEW, "shapley")
    html = report(found)
    e = found["shapley"]
    steps = waterfall(e).bars[1:-1]
    bars = re.findall(r'<b class=(for|against) style="left:([\d.]+)%;width:([\d.]+)%">', html)
    bars = bars[: sum(step.members == 1 for step in steps)]
    order = np.argsort(-np.abs(e.scores), kind="stable")[: len(bars)]
    widths = np.array([float(width) for _, _, width in bars])
    assert np.corrcoef(widths, np.abs(e.scores[order]))[0, 1] > 0.999
    assert [kind == "for" for kind, _, _ in bars] == (e.scores[order] > 0).tolist()
    edges = [(float(left), float(left) + float(width)) for _, left, width in bars]
    ways = [
        edge if kind == "for" else edge[::-1]
        for edge, (kind, _, _) in zip(edges, bars, strict=True)
    ]
    # Each begins where the one before ends.
    gaps = [start - end for (_, end), (start, _) in itertools.pairwise(ways)]
    assert np.abs(gaps).max() < 0.2  # per cent, of numbers with one digit


def test_a_constant_model_has_a_page():
    model = model_for(REVIEW)
    weights = model.weights
    flat = dataclasses.replace(
        weights, W_v=np.zeros_like(weights.W_v), b_v=np.zeros_like(weights.b_v)
    )
    page = Page(
        report(
            explain(dataclasses.replace(model, weights=flat), REVIEW, ["shapley", "lime", "loo"])
        )
    )
    assert {mark for mark, _ in page.words if mark} == set()


def test_the_guaranteed_error_is_the_largest_of_the_methods():
    found = explain(load_demo_model(), REVIEW, ["shapley", "banzhaf", "alpha-mean"])
    for small, large in (("shapley", "banzhaf"), ("banzhaf", "shapley")):
        errors = {small: 2e-13, large: 7e-9}
        found |= {
            name: dataclasses.replace(found[name], error=error) for name, error in errors.items()
        }
        assert "Guaranteed error of the exact attributions: ≤ 7.0e-09." in report(found)


def test_a_printed_report_keeps_its_colors_and_its_facts():
    css = stylesheet()
    assert "print-color-adjust:exact" in css
    printed = css[css.index("@media print") :]
    assert (
        "details:not([open],.facts){display:none" in printed
        and ".facts::details-content" in printed
    )
    assert '<details class="facts" id="how">' in page_for(REVIEW)


def test_the_headline_is_a_sentence_and_the_facts_follow():
    found = explain(load_demo_model(), REVIEW)
    html = report(found)
    chance = percent(max(found.probabilities.values()), 0)
    heading = re.search("<h1>(.*?)</h1>", html)[1]
    assert heading == f"This text is rated {found.output}: {chance}"
    facts = typed(re.search('<p class="note facts">(.*?)</p>', html)[1])
    assert f"{len(found.labels)} words" in facts and "Shapley: exact to" in facts
    numbered = dataclasses.replace(load_demo_model(), outputs=("0", "1"))
    found = explain(numbered, "A fine film", "shapley")
    page = report(found)
    for text in ("is rated class 1", "the probability of class 1", "raises class 1", "class 0"):
        assert text in page
    assert "stays class 1" in str(found) and "raises class 1" in str(found)


def test_the_legend_has_the_scores_at_which_colors_begin():
    found = explain(load_demo_model(), REVIEW, "shapley")
    legend = typed(re.search('<p class="legend".*?</p>', report(found))[0])
    largest = 100 * np.abs(found["shapley"].scores).max()
    for level, limit in enumerate(LEVELS, 1):
        assert f'class="p{level}">{limit * largest:+.2g}<' in legend
        assert f'class="n{level}">{-limit * largest:+.2g}<' in legend


def test_line_breaks_of_html_are_line_breaks():
    html = page_for("fine film.<br /><br />bad <BR>film <b>fine</b>")
    answer = html[html.index('<div class="text live"') :]
    answer = answer[: answer.index("</div>")]
    assert answer.count("<br>") == 2 and "br /" not in answer and "&lt;b" in answer


def test_long_texts_open_with_their_sentences_and_are_not_repeated():
    text = ". ".join(long_text(60, seed).capitalize() for seed in range(4))
    model = model_for(text, T_max=256, K=1)
    found = explain(model, text)
    assert len(found.labels) > MANY_WORDS
    html = report(found)
    assert html.index('class="sentences live"') < html.index("<h2>How it adds up")
    occurrences = len(found["shapley"].occurrences)
    assert html.count("<i") - html.count("<input") < 2 * occurrences and "Other methods" not in html
    short = report(explain(load_demo_model(), "A fine film. A bad end."))
    assert short.index("<h2>Sentences") > short.index("<h2>How it adds up")
    assert "Other methods" in short


def test_one_text_takes_the_colors_of_every_method():
    model = model_for(REVIEW)
    found = explain(model, REVIEW)
    html = report(found)
    (data,) = json.loads(Page(html).scripts[0])
    titles = re.findall("<option value=(\\d+)(?: selected)?>([^<]*)</option>", html)
    assert [title for _, title in titles] == [e.title for e in found.values()]
    for levels, e in zip(data["levels"], found.values(), strict=True):
        assert levels == figures_levels(e.strength).tolist()


def test_several_classes_open_with_the_predicted_one_against_the_runner_up():
    model = model_for(REVIEW, C=4, K=1)
    found = explain(model, REVIEW)
    html = typed(report(found))
    chances = found.probabilities
    best, second, *_ = sorted(chances, key=lambda name: -chances[name])
    assert html.index(f"<h2>Why {best} and not {second}, the runner-up") < html.index(
        "How it adds up"
    )
    share = chances[best] / (chances[best] + chances[second])
    assert f"{100 * share:.1f}%" in html


def test_the_names_of_a_long_reason_are_whole_chips():
    text = ". ".join(long_text(60, seed).capitalize() for seed in range(4))
    found = explain(model_for(text, T_max=256, K=1), text, "shapley")
    html = typed(report(found))
    chips = re.findall("<b class=chip>([^<]*)</b>", html)
    assert set(chips) <= set(found.labels) and "“" not in html and "”" not in html


def test_a_report_computes_every_quantity_once(monkeypatch):
    asked = []
    guaranteed = Evidence.guaranteed

    def counted(evidence, function, name=""):
        asked.append((name, evidence.scale.name, evidence.target.output))
        return guaranteed(evidence, function, name)

    certified = []
    reasons_of = Certified.of
    monkeypatch.setattr(Evidence, "guaranteed", counted)
    monkeypatch.setattr(Certified, "of", lambda *a: certified.append(1) or reasons_of(*a))
    report(explain(load_demo_model(), REVIEW))
    names = {name for name, *_ in asked}
    assert {"shapley", "lime", "banzhaf", "sentences"} <= names
    assert len(asked) == len(set(asked)) and len(certified) == 1
