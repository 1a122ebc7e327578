"""The explainer of the home page, in a browser, against the library: 50 texts, both scales."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from attn_closed_form import load_demo_model, shapley
from tests.app.web.conftest import browser  # noqa: F401  # a fixture

DOCS = Path(__file__).parents[1] / "docs"
CALL = """text => {
    const found = window.exactExplainer.explain(window.loaded, text);
    return {
        words: found.words, probability: found.probability, empty: found.empty,
        logOddsValues: found.logOddsValues, probabilityValues: found.probabilityValues,
    };
}"""


@pytest.fixture(scope="module")
def stored():
    """The model as the build of the site writes it."""
    pytest.importorskip("mkdocs", reason="the packages of the site are not installed")
    file = DOCS / "build_site" / "explainer.py"
    spec = importlib.util.spec_from_file_location("explainer", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.demo_model()


@pytest.fixture(scope="module")
def page(browser, stored):  # noqa: F811
    page = browser.new_page()
    page.set_content("<div id='exact-explainer' class='interactive'></div>")
    page.evaluate(f"window.demoModel = {json.dumps(stored)}")
    page.add_script_tag(content=(DOCS / "assets" / "exact-explainer.js").read_text("utf-8"))
    page.evaluate("window.loaded = window.exactExplainer.load(window.demoModel)")
    yield page
    page.close()


def texts():
    """Fifty texts: one word to 100 different ones, repeated and unknown words, tags, ratings, marks
    and capitals.
    """
    model = load_demo_model()
    rng = np.random.default_rng(0)
    words = [word for word in model.vocabulary if word.isalpha()]
    found = [
        "Good",
        "zyxw",
        "A slow start and a silly plot, but the actors are wonderful and the ending is moving.",
        "Don’t miss it!<br />10/10, don't",
        "Cafe\u0301 CAFÉ Ｇｒｅａｔ film film FILM zyx wvu",
        "Awful? Awful! 3/10. I've seen 1,000 better ones; it's 'bad'.",
    ]
    while len(found) < 50:
        length = int(np.exp(rng.uniform(0, np.log(110))))
        chosen = rng.choice(words, length)
        chosen[rng.random(length) < 0.1] = "the"
        chosen[rng.random(length) < 0.05] = "qqqq"
        found.append(" ".join(chosen))
    return found


def test_the_page_agrees_with_the_library(page):
    model = load_demo_model()
    largest = 0
    for text in texts():
        answer = page.evaluate(CALL, text)
        explained = model.explain(text, "shapley", output="positive", absent="deleted")
        evidence = explained.evidence
        assert [label.lower() for label in answer["words"]] == [
            label.lower() for label in evidence.labels
        ]
        assert answer["probability"] == pytest.approx(explained.probabilities["positive"], abs=1e-6)
        scores = explained["shapley"].scores
        np.testing.assert_allclose(answer["probabilityValues"], scores, rtol=0, atol=1e-6)
        expected = shapley(evidence.pooled) / model.temperature
        np.testing.assert_allclose(answer["logOddsValues"], expected, rtol=0, atol=1e-6)
        total = answer["probability"] - answer["empty"]
        assert sum(answer["probabilityValues"]) == pytest.approx(total, abs=1e-6)
        largest = max(largest, len(answer["words"]))
    assert largest > 60


def test_the_page_shows_a_headline_and_colored_words(page):
    box = page.locator("#exact-explainer")
    box.locator("textarea").fill("A wonderful film")
    assert box.locator(".headline").inner_text().startswith("This text is rated positive: ")
    strengths = box.locator(".colored span").evaluate_all(
        "spans => spans.map(span => Number(span.style.getPropertyValue('--strength')))"
    )
    assert len(strengths) == 3 and max(strengths) == 1.0
    box.locator("textarea").fill(" ".join(load_demo_model().vocabulary[100:300]))
    assert "at most 120 different words" in box.locator(".answer").inner_text()


def test_a_text_whose_log_odds_reach_too_far_is_refused(page, stored):
    """One word that is repeated outweighs the background, up to its value of more than 64."""
    word = stored["words"][int(np.argmax(np.abs(stored["values"])))]
    assert max(map(abs, stored["values"])) > stored["largest"]
    box = page.locator("#exact-explainer")
    box.locator("textarea").fill(f"{word} " * 3)
    assert box.locator(".headline").count() == 1
    box.locator("textarea").fill(f"{word} " * 500)
    assert "explains probabilities up to log-odds of 64.0" in box.locator(".answer").inner_text()
