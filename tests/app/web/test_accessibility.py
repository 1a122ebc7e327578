"""Page and report for everybody: names of controls, contrast by day and night, a phone's width, the
keyboard alone.
"""

import pytest

from attn_closed_form import load_demo_model
from attn_closed_form.app.explanations.explain import explain_outputs
from attn_closed_form.app.show.html import report
from tests.app.web.conftest import ROOT
from tests.app.web.rules import findings
from tests.bags import bag_model, slide
from tests.texts import REVIEW, long_text, model_for

# Opens everything that is folded.
OPEN = (
    "document.querySelectorAll('details').forEach((d) => { d.removeAttribute('name'); d.open = "
    "true; })"
)
SUBJECTS = ("short", "long", "sentences", "comparison", "classes", "bag")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    load_demo_model().explain(REVIEW).report(folder / "short.html")
    text = long_text(120)
    model_for(text, T_max=128, C=4).explain(text).report(folder / "long.html")
    sentences = ". ".join(long_text(40, seed).capitalize() for seed in range(6))
    model_for(sentences, T_max=256, K=1).explain(sentences).report(folder / "sentences.html")
    load_demo_model().explain(REVIEW).compare(load_demo_model().explain(sentences)).report(
        folder / "comparison.html"
    )
    classes = model_for(REVIEW, C=8, K=1, seed=5)
    classes.explain(f"{REVIEW} zyx").report(folder / "classes.html")
    first, *others = explain_outputs(bag_model(C=3, outputs=("a", "b", "c")), slide()).values()
    (folder / "bag.html").write_text(report(first, others), encoding="utf-8")
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_report_reads_by_day_and_night_and_on_a_phone(browser, reports, name, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 800})
    page = context.new_page()
    complaints = []
    page.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((reports / f"{name}.html").as_uri())
    assert findings(page) == {}
    page.evaluate(OPEN)
    assert findings(page) == {}
    assert complaints == []
    context.close()


def test_the_keyboard_reaches_every_word_of_a_report(browser, reports):
    page = browser.new_page()
    page.goto((reports / "short.html").as_uri())
    page.keyboard.press("Tab")  # how to read this
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#how"
    page.keyboard.press("Tab")  # the choice of the method
    assert page.evaluate("document.activeElement.tagName") == "SELECT"
    page.keyboard.press("Tab")
    words = page.locator(".text.live").first.locator("i")
    for i in range(words.count()):
        assert page.evaluate("document.activeElement.textContent") == words.nth(i).text_content()
        assert words.nth(i).text_content().lower() in page.inner_text("#tip").lower()
        page.keyboard.press("ArrowRight")
    page.close()


def test_one_text_takes_the_colors_of_a_method_and_shows_the_words_of_a_reason(browser, reports):
    page = browser.new_page()
    page.goto((reports / "short.html").as_uri())
    first = page.locator(".text.live").first
    before = first.inner_html()
    options = page.locator(".by option").all_text_contents()
    page.select_option(".by select", label="Alpha-mean")
    classes = page.evaluate(
        "Array.from(document.querySelector('.text.live').querySelectorAll('i'), (i) => "
        "i.className).join(' ')"
    )
    assert set(classes.split()) <= {"u1", "u2", "u3", "u4", "k"} and "u4" in classes
    page.select_option(".by select", label=options[0])
    assert first.inner_html().replace(' class=""', "").replace(' tabindex="0"', "").replace(
        ' tabindex="-1"', ""
    ) == before.replace(' class=""', "").replace(' tabindex="0"', "").replace(' tabindex="-1"', "")
    chip = page.locator(".chip").first
    chip.hover()
    lit = page.locator(".text.live .lit").all_text_contents()
    assert lit and {word.lower() for word in lit} == {chip.text_content().lower()}
    page.close()


def test_a_long_text_is_colored_by_sentence_and_by_word_on_demand(browser, reports):
    page = browser.new_page()
    page.goto((reports / "sentences.html").as_uri())
    rows = page.locator("ul.sentences li")
    assert rows.count() > 3 and page.locator(".text").count() == 0
    colored = (
        "document.querySelectorAll('ul.sentences i[class]:not([class=k], [class=\"\"])').length"
    )
    assert page.evaluate(colored) == 0
    assert page.locator("ul.sentences .t").evaluate_all(
        "spans => spans.some(s => getComputedStyle(s).backgroundColor !== 'rgba(0, 0, 0, 0)')"
    )
    before = page.locator(".legend").inner_text()
    page.select_option(".by select", label="word: Shapley")
    assert page.evaluate(colored) > 0 and page.locator(".legend").inner_text() != before
    assert page.locator("ul.sentences .t").evaluate_all(
        "spans => spans.every(s => getComputedStyle(s).backgroundColor === 'rgba(0, 0, 0, 0)')"
    )
    page.select_option(".by select", "sentences")
    assert page.evaluate(colored) == 0 and page.locator(".legend").inner_text() == before
    page.close()


def test_a_table_is_sorted_by_a_click_on_its_heading(browser, reports):
    page = browser.new_page()
    page.goto((reports / "short.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    table = page.locator("table.n").first
    for clicks, turn in ((1, 1), (2, -1)):
        table.locator("thead th").nth(1).locator("button").click()
        cells = table.locator("tbody td:nth-child(2)").all_text_contents()
        numbers = [turn * float(cell.replace("−", "-")) for cell in cells]
        assert len(numbers) > 3 and numbers == sorted(numbers, reverse=True), clicks
    table.locator("thead th").first.locator("button").click()
    words = table.locator("tbody th").all_text_contents()
    assert words == sorted(words)
    page.close()


def test_the_rules_can_fail(browser):
    page = browser.new_page()
    page.set_content(
        '<p style="color:#999;background:#fff">faint</p><button></button><input id="x"><h1>a</h1>'
        '<h3 id="x">b</h3><ul><b>no item</b></ul><span tabindex=3>late</span>'
        '<div style="overflow:auto;width:3rem;white-space:nowrap">very much wider than that</div>'
        '<p><a href="#x" style="text-decoration:none">link</a></p>'
        '<button>a<input aria-label="in"></button>'
        '<table><tr><th>alone</th></tr></table><p style="width:5000px">wide</p>'
    )
    assert {
        "color-contrast",
        "a name for every control and picture",
        "heading-order",
        "duplicate-id",
        "landmark-one-main",
        "document-title",
        "html-has-lang",
        "list",
        "tabindex",
        "scrollable-region-focusable",
        "link-in-text-block",
        "nested-interactive",
        "th-has-data-cells",
        "the page scrolls sideways",
    } <= set(findings(page))
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_reads_by_day_and_night_and_on_a_phone(browser, address, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#reasons li")
    assert findings(page) == {}
    page.evaluate(OPEN)
    page.fill("textarea", "A fine film. A dull, dull end.")
    page.wait_for_selector("#sentences li")
    page.click("#strip button:has-text('dull')")
    page.wait_for_selector("#removal:not([hidden])")
    assert findings(page) == {}
    page.fill("textarea", "")
    page.wait_for_selector("#examples button")
    assert findings(page) == {}
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_review_of_five_hundred_words_is_a_short_page(browser, tmp_path, width):
    text = (ROOT / "docs" / "gallery" / "review.txt").read_text(encoding="utf-8").strip()
    assert len(text.split()) == 500
    load_demo_model().explain(text).report(tmp_path / "review.html")
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto((tmp_path / "review.html").as_uri())
    assert page.evaluate("document.documentElement.scrollHeight") <= 4_000
    page.close()
