"""The rules of axe-core that are called serious or critical, as far as they concern these pages:
each finds the elements that break it.
"""

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
# The elements that break a rule, by the name of the rule in axe-core.
BROKEN = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const visible = (e) => e.checkVisibility();
  const shown = (elements) => elements.map((e) => e.outerHTML.slice(0, 80));
  const focusable = "a[href], button, input, select, textarea, summary, [tabindex]";
  const labelledBy = (e) => (e.getAttribute("aria-labelledby") ?? "").split(" ")
    .map((id) => document.getElementById(id)?.textContent ?? "");
  const named = (e) => [
    ...[...(e.labels ?? [])].map((label) => label.textContent),
    ...labelledBy(e),
    e.textContent,
    e.getAttribute("aria-label") ?? "",
    e.getAttribute("alt") ?? "",
  ].join("").trim();
  const ids = all("[id]").map((e) => e.id);
  const levels = all("h1, h2, h3, h4").filter(visible).map((e) => Number(e.tagName[1]));
  const controls = `${focusable}, meter, [role=img], img`;
  const scrolls = (e) => e.scrollWidth > e.clientWidth + 1
    && ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const underlined = (e) => getComputedStyle(e).textDecorationLine.includes("underline");
  const found = {
    "document-title": document.title.trim() ? [] : ["title"],
    "html-has-lang": document.documentElement.lang ? [] : ["html"],
    "landmark-one-main": all("main").length === 1 ? [] : ["main"],
    "page-has-heading-one": all("h1").filter(visible).length === 1 ? [] : ["h1"],
    "heading-order": levels.filter((level, i) => i && level > levels[i - 1] + 1),
    "duplicate-id": ids.filter((id, i) => ids.indexOf(id) !== i),
    "a name for every control and picture":
      shown(all(controls).filter((e) => visible(e) && !named(e))),
    "list": shown(all("ul > :not(li), ol > :not(li)")),
    "listitem": shown(all("li").filter((e) => !e.closest("ul, ol"))),
    "tabindex": shown(all("[tabindex]").filter((e) => e.tabIndex > 0)),
    "scrollable-region-focusable": shown(all("*").filter(
      (e) => visible(e) && scrolls(e) && !e.matches(focusable) && !e.querySelector(focusable))),
    "th-has-data-cells": shown(all("table").filter((e) => !e.querySelector("td"))),
    "aria-hidden-focus": shown(all("[aria-hidden=true]").filter((e) => e.querySelector(focusable))),
    "nested-interactive": shown(
      all("button, a[href], summary, [role=img]").filter((e) => e.querySelector(focusable))),
    "link-in-text-block": shown(
      all("p a[href], li a[href]").filter((e) => visible(e) && !underlined(e))),
    "the page scrolls sideways":
      document.documentElement.scrollWidth > innerWidth + 1 ? ["html"] : [],
  };
  return Object.fromEntries(Object.entries(found).filter(([, elements]) => elements.length));
}"""


def findings(page):
    """What breaks a rule: elements by rule, and a text whose contrast is below 4.5."""
    broken = dict(page.evaluate(BROKEN))
    ratio, text = page.evaluate(CONTRAST)
    if ratio < 4.5:
        broken["color-contrast"] = f"{text!r} has a contrast of {ratio:.2f}"
    return broken
