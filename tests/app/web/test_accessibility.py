"""Page and report for everybody: names of controls, contrast by day and night, a phone's width, the
keyboard alone.
"""

import pytest

from attn_closed_form import load_demo_model
from tests.texts import REVIEW, long_text, model_for

# The least contrast of any text with what lies behind it, and the text that has it.
CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return c.startsWith("color(srgb") ?
    [255 * m[0], 255 * m[1], 255 * m[2], m[3] ?? 1] : [m[0], m[1], m[2], m[3] ?? 1]; };
  const over = (a, b) => [0, 1, 2].map((i) => a[3] * a[i] + (1 - a[3]) * b[i]).concat(1);
  const linear = (v) => (v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  const light = (c) => [.2126, .7152, .0722].reduce((sum, share, i) => sum + share * linear(c[i] / 255), 0);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const canvas = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
  let worst = [21, ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest("script, style, option, .hidden, meter")) continue;
    const chain = [];
    for (let e = element; e; e = e.parentElement) chain.unshift(e);
    let ground = canvas;
    for (const e of chain) ground = over(parse(getComputedStyle(e).backgroundColor), ground);
    const style = getComputedStyle(element);
    const ink = over(parse(element instanceof SVGElement ? style.fill : style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < worst[0]) worst = [ratio, node.textContent.trim().slice(0, 40)];
  }
  return worst;
}"""
# Controls without a name that a screen reader could say.
NAMELESS = """() => {
  const controls = document.querySelectorAll("button, input, select, textarea, a[href], summary, meter, [role=img]");
  return [...controls].filter((e) => {
    const labels = e.labels ? [...e.labels].map((l) => l.textContent).join("") : "";
    return !(labels + e.textContent + (e.getAttribute("aria-label") ?? "")).trim();
  }).map((e) => e.outerHTML.slice(0, 80));
}"""


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
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["short", "long", "sentences", "comparison"])
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
    page.evaluate(
        "document.querySelectorAll('details').forEach((d) => { d.removeAttribute('name'); d.open = "
        "true; })"
    )
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= 4.5, f"{text!r} has a contrast of {ratio:.2f}"
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), (
        "the page scrolls sideways"
    )
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


def test_the_checks_can_fail(browser):
    page = browser.new_page()
    page.set_content(
        '<p style="color:#999;background:#fff">faint</p><button></button><input id="x">'
    )
    ratio, text = page.evaluate(CONTRAST)
    assert ratio < 4.5 and text == "faint"
    assert len(page.evaluate(NAMELESS)) == 2
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_reads_by_day_and_night_and_on_a_phone(browser, address, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#reasons li")
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= 4.5, f"{text!r} has a contrast of {ratio:.2f}"
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), (
        "the page scrolls sideways"
    )
    context.close()
