// The waterfall, the SLALOM plane, the classes, the forecasts and the interactions: SVG and tables from DOM methods
// alone. The server computes places, orders, sums and ticks; unit coordinates become dots here, y downwards.

import { change, colorOf, digits, element, elide, literal, minus, oneLine, plainWords, prose, table, titled } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Leemann et al. 2025, Figure 5: each word at (importance, value); the words that matter most are labeled.
export function drawPlane(place, plane, answer, removed) {
  if (!plane) return place.replaceChildren();
  const left = 44, top = 8, width = 428, height = 298; // the plane for which the labels were placed
  const x = (unit) => left + unit * width, y = (unit) => top + (1 - unit) * height;
  const text = (content, x, y, anchor) => svg("text", { x, y, "text-anchor": anchor }, content);
  const label = "Value of each word against its importance; the same numbers are in the table of the strongest words";
  const picture = svg("svg", { viewBox: "0 0 480 340", role: "img", "aria-label": label });
  picture.append(svg("path", { class: "a", d: `M${left} ${y(plane.zero)}h${width}M${left} ${top}v${height}h${width}` }));
  for (const [at, number] of plane.across.ticks) picture.append(text(digits(number, false), x(at), y(0) + 14, "middle"));
  for (const [at, number] of plane.up.ticks) picture.append(text(digits(number, false), left - 5, y(at) + 4, "end"));
  picture.append(text("importance (log weight)", x(0.5), 336, "middle"));
  picture.append(svg("text", { transform: `translate(10 ${y(0.5)}) rotate(-90)`, "text-anchor": "middle" }, "value"));
  answer.figures.names.forEach((name, player) => {
    const [importance, value] = ["importance", "value"].map((name) => answer.methods[`slalom-${name}`].scores[player]);
    const side = (value >= 0 ? "for" : "against") + (removed.has(player) ? " gone" : "");
    const title = `${elide(name, 40)}: importance ${digits(importance)}, value ${digits(value)}`;
    picture.append(svg("circle", { cx: x(plane.x[player]), cy: y(plane.y[player]), r: 4, class: side }, svg("title", {}, title)));
  });
  for (const label of plane.labels) picture.append(text(label.text, x(label.x), y(label.y), label.anchor));
  place.replaceChildren(picture);
}

// Bars on a track, in unit coordinates from 0 to 1.
function track(zero, ...bars) {
  const made = element("div", { className: "track" });
  made.style.setProperty("--zero", `${100 * zero}%`);
  for (const { kind, left, right } of bars) {
    const bar = element("b", { className: kind });
    Object.assign(bar.style, { left: `${100 * left}%`, width: `${100 * (right - left)}%` });
    made.append(bar);
  }
  return made;
}

// Bars with their labels and numbers: the probabilities of the classes, or the steps of the waterfall.
// The unit of the steps is written once, below their numbers.
export function drawBars(place, bars, ticks, unit = "") {
  const rows = (bars ?? []).flatMap((bar) => {
    const end = bar.kind === "end" ? " end" : "";
    const label = element("span", { className: "label" + end, textContent: elide(bar.label, 40), title: bar.label, dir: "auto" });
    const tip = bar.kind === "for" ? bar.right : bar.left;
    const error = bar.error ? [{ kind: "error", left: tip - bar.error, right: tip + bar.error }] : [];
    const made = [label, element("span", { className: "number" + end, textContent: minus(bar.text.replace(` ${unit}`, "")) }), track(bars[0].left, bar, ...error)];
    if (bar.note) made.push(element("span", { className: "remark", textContent: bar.note }));
    return made;
  });
  if (ticks?.length) rows.push(element("span"), element("span", { className: "unit", textContent: unit }), axis(ticks));
  place.replaceChildren(...(rows.length ? [element("div", { className: "bars" }, ...rows)] : []));
}

function axis(ticks) {
  const made = element("div", { className: "track axis" });
  for (const [at, text] of ticks) {
    const tick = element("span", { textContent: minus(text) });
    tick.style.left = `${100 * at}%`;
    made.append(tick);
  }
  return made;
}

// The colors with the scores at which they begin.
export function drawLegend(place, cells, unit) {
  place.hidden = !cells.length;
  const spans = cells.map(([className, text]) => element("span", { className, textContent: minus(text) }));
  place.replaceChildren(...spans, element("small", { textContent: unit.change.trim() }));
}

// Two texts side by side on one color scale, and how the first prediction becomes the second one.
export function drawComparison(texts, legend, meaning, steps, figures) {
  const columns = ["The text that you kept", "This text"].map((title, i) => {
    const text = figures.texts[i];
    const words = element("div", { className: "text", dir: "auto" }, ...plainWords(text));
    return element("section", {}, element("h3", { textContent: `${title}: ${minus(text.level)}` }), words);
  });
  texts.replaceChildren(...columns);
  drawLegend(legend, figures.legend, { change: figures.unit });
  meaning.textContent = figures.meaning;
  drawBars(steps, figures.waterfall, figures.ticks, figures.unit);
}

// The strongest interactions of one word.
export function drawPairs(place, partners, unit) {
  if (!partners.length) return place.replaceChildren(element("p", { className: "note", textContent: "There is no other word." }));
  const rows = partners.map(({ player, name, value, bar }) => {
    const row = element("tr", {}, element("th", { scope: "row", textContent: elide(name, 40) }), element("td", { textContent: digits(value, true, unit) }), element("td", { className: "bar" }, track(0.5, bar)));
    row.dataset.player = player;
    return row;
  });
  place.replaceChildren(table(["with", titled("interaction", unit), ""], rows));
}

// Certified reasons in plain English, with the words as chips.
export function drawReasons(place, why) {
  place.replaceChildren(...why.reasons.sentences.map((text) => element("li", {}, ...withChips(prose(text)))));
}

// What each sentence of the text contributes, with the sentence in its color.
export function drawSentences(place, why, unit) {
  const scores = why.sentences?.scores ?? [];
  const largest = Math.max(...scores.map(Math.abs)) || 1;
  const rows = scores.map((score, i) => {
    const [left, right] = [0.5, 0.5 + (0.5 * score) / largest].sort((a, b) => a - b);
    const bar = track(0.5, { kind: score >= 0 ? "for" : "against", left, right });
    const color = colorOf(why.figures.sentence_levels[i]);
    const text = element("span", { className: `t ${color}`, textContent: elide(oneLine(why.sentences.labels[i]), 400), dir: "auto" });
    return element("li", {}, element("span", { className: "score", textContent: change(score, unit).replace(/\spoints$/, "") }), bar, text);
  });
  place.replaceChildren(...rows);
  return rows.length > 1;
}

// A sentence with the quoted names as chips, which light up in the text.
function withChips(text) {
  return text.split(/“([^“”]*)”/).map((part, i) => (i % 2 ? element("b", { className: "chip", tabIndex: 0, textContent: literal(part) }) : part));
}
