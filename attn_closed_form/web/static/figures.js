// The waterfall, the SLALOM plane, the classes, the forecasts and the interactions: SVG and tables from DOM methods
// alone. The server computes places, orders, sums and ticks; unit coordinates become dots here, y downwards.

import { change, digits, element, elide, titled, unitOf } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Leemann et al. 2025, Figure 5: each word at (importance, value); the words that matter most are labeled.
export function drawPlane(place, answer, removed) {
  const plane = answer.figures.slalom_plane;
  if (!plane) return place.replaceChildren();
  const left = 44, top = 8, width = 428, height = 298; // the plane for which the labels were placed
  const x = (unit) => left + unit * width, y = (unit) => top + (1 - unit) * height;
  const text = (content, x, y, anchor) => svg("text", { x, y, "text-anchor": anchor }, content);
  const label = "Value of each word against its importance; the same numbers are in the table of the strongest words";
  const picture = svg("svg", { viewBox: "0 0 480 340", role: "img", "aria-label": label });
  picture.append(svg("path", { class: "axis", d: `M${left} ${y(plane.zero)}h${width}M${left} ${top}v${height}h${width}` }));
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

// A bar from zero on a scale that all rows share; `did` adds a line where the truth is.
function bar(value, most, did) {
  const at = (v) => 100 + (most > 0 ? (v / most) * 92 : 0);
  const picture = svg("svg", { viewBox: "0 0 200 20", preserveAspectRatio: "none", "aria-hidden": "true" });
  const [from, to] = [at(0), at(value)];
  picture.append(svg("rect", { x: Math.min(from, to), y: 4, width: Math.max(Math.abs(to - from), 0.5), height: 12, class: value >= 0 ? "for" : "against" }));
  picture.append(svg("path", { class: "axis", d: "M100 0V20" }));
  if (did !== undefined) picture.append(svg("path", { class: "did", d: `M${at(did)} 0V20` }));
  return picture;
}

// What each method forecast for the removal, what happened, and the difference.
export function drawForecasts(place, answer) {
  const { removal, figures } = answer;
  place.hidden = !removal;
  if (!removal) return place.replaceChildren();
  const head = element("tr", {}, element("th", { scope: "col", textContent: "Method" }));
  for (const title of ["said", "did", "off by"]) head.append(element("th", { scope: "col", className: "r", textContent: title }));
  head.append(element("th", { scope: "col", className: "bar", textContent: "said, and what happened (dashed)" }));
  const rows = removal.forecasts.map(({ method, title, scale, change: said, did, error, largest }) => {
    const row = element("tr", { className: method === figures.leader ? "main" : "" }, element("th", { scope: "row", textContent: title }));
    for (const [column, number] of [["said", said], ["did", did], ["off", error]]) {
      const cell = element("td", { className: "r", textContent: change(number, unitOf(answer, scale)) });
      cell.dataset.column = column;
      row.append(cell);
    }
    row.append(element("td", { className: "bar" }, bar(said, largest, did)));
    row.dataset.method = method;
    return row;
  });
  place.replaceChildren(element("table", { className: "plain" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

// The strongest interactions of one word.
export function drawPairs(place, partners, unit) {
  if (!partners.length) return place.replaceChildren(element("p", { className: "note", textContent: "There is no other word." }));
  const head = element("tr", {}, element("th", { scope: "col", textContent: "with" }), element("th", { scope: "col", className: "r", textContent: titled("interaction", unit) }), element("th", { scope: "col" }));
  const largest = Math.abs(partners[0].value);
  const rows = partners.map(({ player, name, value }) => {
    const row = element("tr", {}, element("th", { scope: "row", textContent: elide(name, 40) }), element("td", { className: "r", textContent: digits(value, true, unit) }), element("td", {}, bar(value, largest)));
    row.dataset.player = player;
    return row;
  });
  place.replaceChildren(element("table", { className: "plain" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

// The probability of each class, the most probable first.
export function drawClasses(place, answer) {
  const rows = answer.figures.classes.flatMap(({ name, probability }) => {
    const meter = element("meter", { min: 0, max: 1, value: probability });
    meter.setAttribute("aria-label", `probability of ${name}`);
    return [element("strong", { textContent: elide(name, 30) }), meter, element("span", { textContent: `${(100 * probability).toFixed(1)} %` })];
  });
  place.replaceChildren(...rows);
}

// From no word known to the prediction: the strongest words by name, the others as one bar.
export function drawWaterfall(place, answer) {
  const steps = answer.figures.waterfall;
  if (!steps) return place.replaceChildren();
  const left = 130, width = 340, row = 21, height = row * steps.length + 4;
  const x = (unit) => left + unit * width;
  const label = `How the words add up from ${steps[0].text} to ${steps.at(-1).text}`;
  const picture = svg("svg", { viewBox: `0 0 560 ${height}`, role: "img", "aria-label": label });
  picture.append(svg("path", { class: "axis", d: `M${x(steps[0].left)} 0V${height}` }));
  steps.forEach((step, i) => {
    const y = row * i + 3, a = x(step.left), b = x(step.right);
    if (!step.players) picture.append(svg("path", { class: "end", d: `M${a} ${y - 1}v${row - 4}` }));
    else picture.append(svg("rect", { x: a, y, width: Math.max(b - a, 1), height: row - 6, class: step.shown >= 0 ? "for" : "against" }));
    picture.append(svg("text", { x: left - 8, y: y + 12, "text-anchor": "end" }, elide(step.label, 20)));
    picture.append(svg("text", { x: b + 6, y: y + 12 }, step.text.replace("-", "−")));
  });
  place.replaceChildren(picture);
}

// Certified reasons in plain English, and what each sentence of the text contributes.
export function drawWhy(reasons, sentences, why, unit) {
  reasons.replaceChildren(...why.reasons.sentences.map((text) => element("li", { textContent: text })));
  const scores = why.sentences?.scores ?? [];
  const rows = scores.map((score, i) =>
    element("tr", {}, element("td", { className: "r", textContent: change(score, unit) }), element("td", { textContent: elide(why.sentences.labels[i], 160), dir: "auto" })),
  );
  const caption = element("caption", { textContent: "What each sentence contributes (Owen values)" });
  sentences.replaceChildren(...(rows.length > 1 ? [element("table", { className: "plain" }, caption, element("tbody", {}, ...rows))] : []));
}
