"""The live page in a real browser: Debian's Chromium, without a window, driven by Playwright."""

import re
import signal
from urllib.parse import quote, urlsplit

import httpx
import pytest

from attn_closed_form import TextClassifier, load_demo_model
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.attention import random_weights
from tests.app.web.conftest import ROOT, serving, start
from tests.patience import PATIENCE
from tests.texts import model_for

TEXT = "The plot is a mess and the ending is terrible, but the acting is wonderful. A mess!"


@pytest.fixture
def page(browser, address):
    """A fresh page that fails its test if it complains (a broken security policy does) or talks to
    anyone else.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.complaints = []
    page.asked = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on(
        "console",
        lambda message: page.complaints.append(message.text) if message.type == "error" else None,
    )
    page.on("request", lambda request: page.asked.append(request.url))
    visit(page, address)
    yield page
    assert [url for url in page.asked if not url.startswith((address, "blob:"))] == []
    assert page.complaints == []
    context.close()


def visit(page, address):
    """Open the page and wait until it listens: until then, it may still fill in its example."""
    page.goto(address)
    page.wait_for_function("() => document.getElementById('model').textContent !== ''")


def wait(page, text, players="words", absent=None, removed=()):
    """Until the page shows the answer for this; without `absent`, for whatever the model's own
    absence is.
    """
    page.wait_for_function(
        """([text, players, absent, removed]) => {
            for (const folded of document.querySelectorAll("details")) folded.open = true;
            const ready = JSON.parse(document.body.dataset.ready || "null");
            return ready && JSON.stringify(ready) === JSON.stringify([text, players, absent || ready[2], removed]);
        }""",
        arg=[text, players, absent, list(removed)],
    )


def write(page, text, **shown):
    page.fill("#text", text)
    wait(page, text, **shown)


def api(address, path="explain", **data):
    return httpx.post(f"{address}api/{path}", json=data, trust_env=False, timeout=PATIENCE).json()


def number(shown):
    return float(shown.replace("−", "-").split()[0].rstrip("%"))


def factor(answer, scale=None):
    """What a number is multiplied by on a page that shows this scale: 100 for a probability, in per
    cent.
    """
    return answer["figures"]["units"][scale or answer["scale"]]["factor"]


def word(page, text):
    return page.locator("#strip button").get_by_text(text, exact=True).first


def check_table(page, answer):
    """Words, colors and scores of the Figure 1 table against the API's numbers."""
    rows = page.eval_on_selector_all(
        "#figure tr[data-methods]",
        """rows => rows.map(row => [
            row.dataset.methods,
            row.querySelector("th").textContent,
            [...row.querySelectorAll("i")].map(i => [i.textContent, Number(i.dataset.player), i.title, i.className]),
        ])""",
    )
    assert sorted(name for names, _, _ in rows for name in names.split()) == sorted(
        answer["methods"]
    )
    occurrences = sorted(
        (*span, player) for player, spans in enumerate(answer["spans"]) for span in spans
    )
    drawn = {
        " ".join(row["methods"]): row for f in answer["figures"]["methods"] for row in f["rows"]
    }
    for names, label, words in rows:
        assert label == ", ".join(answer["methods"][name]["label"] for name in names.split())
        method = answer["methods"][names.split()[0]]
        assert [(text, player) for text, player, _, _ in words] == [
            (answer["text"][start:end], player) for start, end, player in occurrences
        ]
        for _, player, title, marks in words:
            score = factor(answer, method["scale"]) * method["scores"][player]
            level = drawn[names]["levels"][player]
            assert number(title.split(",")[0]) == pytest.approx(
                score, rel=0.05 if abs(score) < 1e-3 else 0.006
            )
            if method["kind"] != "signed":
                sign = "u"
            elif level > 0:
                sign = "p"
            else:
                sign = "n"
            assert (f"{sign}{abs(level)}" in marks.split()) == (level != 0)


def test_typing_changes_the_table_to_what_the_api_says(page, address):
    page.fill("#text", "")
    page.wait_for_selector("#results", state="hidden")
    for typed in ("A fine", " film, but dull"):
        page.locator("#text").press_sequentially(typed)
        text = page.input_value("#text")
        wait(page, text)
        answer = api(address, text=text)
        assert number(page.get_attribute("#prediction", "data-value")) == pytest.approx(
            answer["prediction"], abs=5.1e-5
        )
        check_table(page, answer)
    cells = page.eval_on_selector_all(
        "#numbers tbody td",
        "cells => cells.map(c => [c.parentNode.dataset.player, c.dataset.method, c.textContent])",
    )
    assert len(cells) == 5 * len(answer["methods"])
    for player, name, shown in cells:
        method = answer["methods"][name]
        assert number(shown) == pytest.approx(
            factor(answer, method["scale"]) * method["scores"][int(player)], rel=0.05
        )
    wait_for_plane(page, 5)


def wait_for_plane(page, words):
    """The plane follows after a pause, with the reasons; a timeout of the wait fails the test."""
    page.wait_for_function(
        "n => document.querySelectorAll('#plane circle').length === n", arg=words
    )


def check_removal(page, answer):
    """The prediction without the words, its change, and the sum of their Shapley values."""
    removal = answer["removal"]
    times = factor(answer)
    digits = 5.1e-5 if times == 1 else 0.051
    (forecast,) = (f for f in removal["forecasts"] if f["method"] == answer["figures"]["leader"])
    shown = page.inner_text("#removal").replace("−", "-")
    number_pattern = r"[-+]?\d+(?:\.\d+)?"
    told = re.search(
        rf": ({number_pattern})%?, a change of ({number_pattern}).*: ({number_pattern})", shown
    )
    expected = (removal["prediction"], removal["change"], -forecast["change"])
    for text, value in zip(told.groups(), expected, strict=True):
        assert float(text) == pytest.approx(times * value, abs=digits)


def test_clicking_a_word_removes_it_and_clicking_again_restores_it(page, address):
    write(page, TEXT)
    assert page.locator("#removal").is_hidden()
    mess = word(page, "mess")
    mess.click()
    answer = api(address, text=TEXT, removed=[4])
    assert answer["labels"][4] == "mess" and abs(answer["removal"]["change"]) > 0.1
    wait(page, TEXT, removed=[4])
    check_removal(page, answer)
    assert mess.get_attribute("aria-pressed") == "true"
    assert page.locator("#strip .gone").count() == 2  # both occurrences of the word
    word(page, "terrible").click()
    wait(page, TEXT, removed=[4, 7])
    check_removal(page, api(address, text=TEXT, removed=[4, 7]))
    page.locator("#figure tr[data-methods~=lime] i").get_by_text("terrible").click()
    wait(page, TEXT, removed=[4])
    mess.click()
    wait(page, TEXT)
    assert page.locator("#removal").is_hidden()


def wait_to_hear(page, words):
    page.wait_for_function(
        "words => document.getElementById('live').textContent.startsWith(words)", arg=words
    )


def test_everything_works_from_the_keyboard(page):
    write(page, TEXT)
    page.focus("#save")
    page.keyboard.press("Tab")  # compare with this text
    page.keyboard.press("Tab")  # the link to the API
    page.keyboard.press("Tab")  # the words, one stop for all
    focused = "document.activeElement.textContent"
    assert page.evaluate(focused) == "The"
    for key, expected in (
        ("ArrowRight", "plot"),
        ("End", "!"),
        ("ArrowLeft", "mess"),
        ("Home", "The"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused) == expected
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    wait(page, TEXT, removed=[1])
    assert page.evaluate(focused) == "plot"  # the focus stays
    wait_to_hear(page, "Without “plot”")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    wait(page, TEXT, removed=[0, 1])
    page.keyboard.press("Escape")
    wait(page, TEXT)
    wait_to_hear(page, "Prediction")


def test_everything_that_can_be_used_has_a_name(page):
    write(page, TEXT)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, a, svg[role=img], [role=region]")]
        .filter(e => !(e.textContent.trim() || e.labels?.length || e.getAttribute("aria-label")
            || e.getAttribute("aria-labelledby"))).map(e => e.outerHTML)"""
    )
    assert nameless == []
    assert page.get_attribute("html", "lang") == "en"
    assert page.get_attribute("#live", "aria-live") == "polite"


def test_the_switches(page, address):
    write(page, TEXT)
    for switch, players, absent in (
        ("positions", "positions", "deleted"),
        ("unk", "positions", "unk"),
        ("words", "words", "unk"),
    ):
        page.check(f"input[value={switch}]")
        wait(page, TEXT, players, absent)
        answer = api(address, text=TEXT, players=players, absent=absent)
        check_table(page, answer)
        wait_for_plane(page, len(answer["labels"]))


def test_interactions_of_a_chosen_word(page, address):
    write(page, TEXT)
    for label in ("wonderful", "terrible"):
        with page.expect_response("**/api/interactions") as response:
            page.select_option("#chosen", label=label)
        assert response.value.ok
        player = int(page.input_value("#chosen"))
        answer = api(address, "interactions", text=TEXT, player=player)
        assert answer["labels"][player] == label
        strongest = max(
            (value, j) for j, value in enumerate(map(abs, filled(answer["interactions"])))
        )[1]
        page.wait_for_function(
            "player => document.querySelector('#pairs tbody tr')?.dataset.player === player",
            arg=str(strongest),
        )
        for row in page.locator("#pairs tbody tr").all():
            expected = answer["interactions"][int(row.get_attribute("data-player"))]
            expected *= 100 if answer["scale"] == "probability" else 1
            assert number(row.locator("td").first.inner_text()) == pytest.approx(expected, rel=0.05)


def filled(values):
    return [0.0 if value is None else value for value in values]


HOSTILE = (
    "<script>window.hacked=1</script> fine <img src=x onerror='window.hacked=2'> &amp; \"film\" "
    "\u202eevil"
)


def test_markup_stays_text(page, address):
    write(page, HOSTILE)
    check_that_it_is_text(page)
    page.goto("about:blank")
    visit(page, f"{address}#text={quote(HOSTILE)}")
    wait(page, HOSTILE)
    check_that_it_is_text(page)


def check_that_it_is_text(page):
    word(page, "hacked").click()
    page.wait_for_selector("#removal")
    page.wait_for_selector("#pairs table")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img, main b:not(.track b, .chip)").count() == 0
    shown = page.evaluate("document.getElementById('strip').textContent")
    assert shown == HOSTILE.replace("\u202e", "\ufffd")
    assert not any("hacked" in url.partition("#")[0] for url in page.asked)


def test_the_policy_would_stop_a_script_that_got_in(page):
    blocked = page.evaluate(
        """() => { try { document.body.innerHTML = "<b>x</b>"; return false } catch (error) { return true } }"""
    )
    assert blocked
    page.complaints.clear()


def test_the_link_carries_sentence_and_switches_and_the_server_never_sees_it(
    page, address, browser
):
    write(page, "Ein schöner Film & 100 % fun? #1 👍")
    page.check("input[value=positions]")
    wait(page, "Ein schöner Film & 100 % fun? #1 👍", "positions")
    link = page.evaluate("document.getElementById('link').href")
    assert page.url == link
    second = browser.new_page()
    asked = []
    second.on("request", lambda request: asked.append(request.url))
    second.goto(link)
    wait(second, "Ein schöner Film & 100 % fun? #1 👍", "positions")
    assert second.is_checked("input[value=positions]")
    second.close()
    # A browser never sends what follows #; what is sent is the text in the body of a POST.
    assert all("Film" not in url.partition("#")[0] for url in asked)
    # A strange link is harmless.
    page.goto("about:blank")
    visit(
        page, f"{address}#text=fine+film%ZZ&players=letters&absent=__proto__&output=99&text=again"
    )
    wait(page, "fine film%ZZ")


def test_characters_beyond_the_basic_plane_do_not_shift_the_words(page, address):
    text = "👍👍🏽 a wonderful 🎬 film"
    write(page, text)
    answer = api(address, text=text)
    check_table(page, answer)
    word(page, "wonderful").click()
    wait(page, text, removed=[answer["labels"].index("wonderful")])


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """The address of a server with a German model of three classes, whose names are markup."""
    path = tmp_path_factory.mktemp("models") / "tickets.npz"
    vocabulary = Vocabulary(["[CLS]", "[UNK]", "rechnung", "paket", "störung", "und"])
    model = TextClassifier(
        random_weights(seed=1, D=6, C=3), vocabulary, ("Zahlung", "<img src=x>", "Technik")
    )
    model.save(path)
    with serving("--model", path) as address:
        yield address


def test_the_page_greets_in_the_words_of_its_own_model(browser, tickets):
    page = browser.new_page()
    visit(page, tickets)
    page.wait_for_selector("#reasons li")
    words = page.input_value("#text").split()
    assert len(words) > 1 and set(words) <= {"rechnung", "paket", "störung", "und"}
    assert page.locator("#strip .k").count() == 0  # no word is unknown
    assert page.locator("#output option").all_inner_texts() == [
        "the predicted class",
        "Zahlung",
        "<img src=x>",
        "Technik",
    ]
    page.select_option("#output", "<img src=x>")
    page.wait_for_function(
        "() => document.getElementById('explained-value').textContent.includes('<img')"
    )
    assert page.locator("main img").count() == 0
    visit(page, f"{tickets}#text=paket&output=Technik")
    page.reload()
    page.wait_for_function(
        "() => document.getElementById('explained-value').textContent.includes('Technik')"
    )
    assert page.input_value("#output") == "Technik"
    page.close()


def test_the_page_reports_a_server_that_hangs_or_ends_and_notices_its_return(browser):
    server, address = start()
    page = browser.new_page()
    visit(page, address)
    write(page, "fine")
    server.send_signal(signal.SIGSTOP)
    page.fill("#text", "fine film")
    page.get_by_role("alert").get_by_text("Waiting for the server").wait_for()
    assert page.inner_text("#time") == ""
    server.send_signal(signal.SIGCONT)
    wait(page, "fine film")
    server.kill()
    server.communicate()
    page.fill("#text", "a fine film")
    page.get_by_role("alert").get_by_text("asks again until it is back").wait_for()
    server, _ = start(port=urlsplit(address).port)
    wait(page, "a fine film")  # without a key pressed
    assert page.inner_text("#message") == ""
    page.close()
    server.kill()
    server.communicate()


def test_a_replacement_says_its_exact_change(page, address):
    write(page, TEXT)
    page.select_option("#replaced", label="wonderful")
    page.fill("#replacement", "dull")
    page.wait_for_function(
        "() => document.getElementById('replaced-change').textContent.includes('a change of')"
    )
    other = api(address, text=TEXT.replace("wonderful", "dull"))["prediction"]
    assert number(page.get_attribute("#replaced-change", "data-value")) == pytest.approx(
        other, abs=1e-6
    )


@pytest.fixture
def one_head(tmp_path):
    """The address of a server with a model of one head, whose probabilities are explained."""
    path = tmp_path / "one-head.npz"
    model_for(TEXT, K=1, score_scale=3.0).save(path)
    with serving("--model", path) as address:
        yield address


def test_the_logit_is_one_switch_away(browser, one_head):
    page = browser.new_page()
    address = one_head
    visit(page, address)
    write(page, TEXT)
    assert "Explained: the probability of" in page.inner_text("#explained")
    answer = api(address, text=TEXT)
    check_table(page, answer)
    steps = page.locator("#waterfall span").all_text_contents()
    assert (
        steps[1] == answer["figures"]["waterfall"][0]["text"]
        and steps[1].endswith("%")
        and steps[3] == answer["figures"]["waterfall"][1]["text"].replace("-", "−").split()[0]
        and page.inner_text("#waterfall .unit") == "points"
    )
    word(page, "mess").click()
    wait(page, TEXT, removed=[4])
    check_removal(page, api(address, text=TEXT, removed=[4]))
    assert "%" in page.inner_text("#removal")
    page.wait_for_selector("#reasons li >> text=%")
    page.check("input[value=logit]")
    page.wait_for_function(
        "() => document.getElementById('explained').textContent.includes('the logit of')"
    )
    check_removal(page, api(address, text=TEXT, removed=[4], scale="logit"))
    assert "scale=logit" in page.url and "points" not in page.text_content("#waterfall")
    page.check("input[value=probability]")
    page.wait_for_function(
        "() => document.getElementById('explained').textContent.includes('the probability of')"
    )
    page.close()


def test_hebrew_runs_from_right_to_left(page):
    write(page, "סרט נפלא מאוד 10/10")  # a text without a word that the model knows has no table
    boxes = [page.locator("#strip button").nth(i).bounding_box()["x"] for i in range(3)]
    assert boxes == sorted(boxes, reverse=True)
    row = [page.locator("#figure tr[data-methods] i").nth(i).bounding_box()["x"] for i in range(3)]
    assert row == sorted(row, reverse=True)


def test_messages(page):
    page.fill("#text", "... ,,,")
    page.get_by_role("alert").get_by_text("expected at least one word").wait_for()
    assert page.locator("#results").is_hidden()
    page.fill("#text", "fine " * 5_000)
    page.get_by_role("alert").get_by_text("expected at most 2,000 tokens").wait_for()
    page.route("**/api/explain", lambda route: route.abort())
    page.fill("#text", "fine")
    page.get_by_role("alert").get_by_text("No answer from the server").wait_for()
    page.unroute("**/api/explain")
    write(page, "fine film")
    assert page.inner_text("#message") == ""
    page.complaints.clear()  # Chromium logs every 4xx


def test_the_page_says_how_many_words_the_model_does_not_see(browser, one_head):
    page = browser.new_page()
    visit(page, one_head)
    write(page, "mess " * 100)  # the model has 64 positions, the first for [CLS]
    assert "The model reads the first 63 words" in page.inner_text("#message")
    assert "37 more not read" in page.inner_text("#figure")
    page.close()


def test_a_late_answer_does_not_overwrite_a_newer_one(page):
    write(page, "first")
    held = []
    page.evaluate(
        """() => {
            const strip = document.getElementById("strip");
            window.shown = [];
            new MutationObserver(() => window.shown.push(strip.textContent)).observe(strip, {childList: true});
        }"""
    )
    page.route(
        "**/api/explain", lambda route: held.append(route) if not held else route.continue_()
    )
    page.fill("#text", "second text")
    while not held:
        page.wait_for_timeout(10)
    page.fill("#text", "third and last text")
    held[0].continue_()
    wait(page, "third and last text")
    assert set(page.evaluate("window.shown")) == {"third and last text"}
    assert page.inner_text("#message") == ""


def test_a_phone_needs_no_sideways_scrolling(page):
    page.set_viewport_size({"width": 390, "height": 800})
    write(page, TEXT + " " + "Donaudampfschifffahrtsgesellschaftskapitän" * 5)
    word(page, "terrible").click()
    page.wait_for_selector("#removal")
    page.wait_for_selector("#pairs table")
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_numbers_can_be_saved(page, address, tmp_path):
    write(page, TEXT)
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "explanation.json")
    assert httpx.Response(200, content=(tmp_path / "explanation.json").read_bytes()).json() == api(
        address, text=TEXT, removed=[]
    )


def test_an_empty_page_offers_examples_of_its_model(page, address):
    page.fill("#text", "")
    page.wait_for_selector("#empty")
    assert page.locator("#results").is_hidden() and page.locator("#actions").is_hidden()
    model = httpx.get(f"{address}api/model", trust_env=False, timeout=PATIENCE).json()
    assert page.locator("#examples button").all_inner_texts() == model["examples"]
    assert "a text classifier for negative and positive" in page.inner_text("#model")
    page.locator("#examples button").nth(1).click()
    wait(page, model["examples"][1])
    assert page.locator("#empty").is_hidden()
    page.fill("#text", "... ,,,")  # a message is not a reason for examples
    page.get_by_role("alert").get_by_text("expected at least one word").wait_for()
    assert page.locator("#empty").is_hidden()
    page.complaints.clear()


def test_the_next_text_is_compared_with_the_one_that_was_kept(page, address):
    write(page, "a fine film")
    page.click("#keep")
    assert page.locator("#comparison").is_hidden()
    write(page, "a dull film")
    page.wait_for_selector("#comparison")
    compared = api(address, "compare", text="a dull film", other="a fine film")
    assert page.inner_text("#comparison-headline") == compared["figures"]["headline"].replace(
        "-", "−"
    ).replace(" points", "\u00a0points")
    texts = page.locator("#comparison-texts .text")
    assert texts.all_inner_texts() == ["a fine film", "a dull film"]
    assert texts.locator(".only").all_inner_texts() == ["fine", "dull"]
    bars = page.locator("#comparison-steps .label").all_inner_texts()
    assert bars == [bar["label"] for bar in compared["figures"]["waterfall"]]
    assert "orange raises positive" in page.inner_text("#comparison-meaning")
    page.click("#forget")
    assert page.locator("#comparison").is_hidden()


def test_a_long_text_is_read_by_sentence_first_and_keeps_its_line_breaks(page):
    write(page, (ROOT / "docs" / "gallery" / "review.txt").read_text(encoding="utf-8").strip())
    page.wait_for_selector("#sentences li")
    places = "(ids) => ids.map((id) => document.getElementById(id).getBoundingClientRect().top)"
    sentences_at, words_at = page.evaluate(places, ["by-sentence", "sum-and-why"])
    assert sentences_at < words_at
    assert "<br" not in page.inner_text("#strip") and "↵\n" in page.inner_text("#strip")
    assert "<br" not in page.inner_text("#sentences")
    colored = page.locator("#sentences .t:is(.p4, .n4)")
    assert colored.count() >= 1
    write(page, "A fine film. A dull end.")
    page.wait_for_selector("#sentences li")
    page.wait_for_function("() => document.querySelectorAll('#sentences li').length === 2")
    sentences_at, words_at = page.evaluate(places, ["by-sentence", "sum-and-why"])
    assert words_at < sentences_at


def test_the_report_can_be_saved(page, tmp_path):
    write(page, TEXT)
    with page.expect_download() as download:
        page.click("#report")
    download.value.save_as(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html == load_demo_model().explain(TEXT).report()


def test_the_waterfall_has_an_axis_and_the_colors_a_legend(page, address):
    write(page, TEXT)
    answer = api(address, text=TEXT)
    ticks = page.locator("#waterfall .axis span").all_text_contents()
    assert ticks == [text for _, text in answer["figures"]["ticks"]]
    assert ticks[0] == "0%" and ticks[-1] == "100%"
    cells = page.locator("#legend span").all_text_contents()
    assert cells == [text.replace("-", "−") for _, text in answer["figures"]["legend"]]


def test_a_chip_lights_up_its_word(page):
    write(page, TEXT)
    page.wait_for_selector("#reasons .chip")
    chip = page.locator("#reasons .chip").first
    chip.hover()
    lit = page.locator("#strip .lit").all_text_contents()
    assert lit and {word.lower() for word in lit} == {chip.text_content().lower()}
    page.hover("#text")
    assert page.locator("#strip .lit").count() == 0
