// The waterfall, the SLALOM plane, the classes, the forecasts and the interactions: SVG and tables from DOM methods
// alone. The server computes places, orders, sums and ticks; unit coordinates become dots here, y downwards.

import { change, digits, element, elide, minus, prose, table, titled, unitOf } from "./words.js";

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
export function drawBars(place, bars) {
  const rows = (bars ?? []).flatMap((bar) => {
    const className = bar.kind === "end" ? "end" : "";
    const label = element("span", { className, textContent: elide(bar.label, 40), title: bar.label, dir: "auto" });
    const tip = bar.kind === "for" ? bar.right : bar.left;
    const error = bar.error ? [{ kind: "error", left: tip - bar.error, right: tip + bar.error }] : [];
    return [label, element("span", { className, textContent: minus(bar.text) }), track(bars[0].left, bar, ...error)];
  });
  place.replaceChildren(...(rows.length ? [element("div", { className: "bars" }, ...rows)] : []));
}

// What each method forecast for the removal, what happened, and the difference.
export function drawForecasts(place, answer) {
  const { removal, figures } = answer;
  place.hidden = !removal;
  if (!removal) return place.replaceChildren();
  const rows = removal.forecasts.map(({ method, title, scale, change: forecast, did, error, bar, mark }) => {
    const row = element("tr", { className: method === figures.leader ? "main" : "" }, element("th", { scope: "row", textContent: title }));
    for (const [column, number] of [["forecast", forecast], ["change", did], ["error", error]]) {
      const cell = element("td", { textContent: change(number, unitOf(answer, scale)) });
      cell.dataset.column = column;
      row.append(cell);
    }
    row.append(element("td", { className: "bar" }, track(0.5, bar, { kind: "did", left: mark, right: mark })));
    row.dataset.method = method;
    return row;
  });
  place.replaceChildren(table(["Method", "minus the sum of scores", "actual change", "difference", "sum of scores, and the actual change (dashed)"], rows));
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

// Certified reasons in plain English, and what each sentence of the text contributes.
export function drawWhy(reasons, sentences, why, unit) {
  reasons.replaceChildren(...why.reasons.sentences.map((text) => element("li", { textContent: prose(text) })));
  const scores = why.sentences?.scores ?? [];
  const rows = scores.map((score, i) =>
    element("tr", {}, element("td", { textContent: change(score, unit) }), element("td", { className: "t", textContent: elide(why.sentences.labels[i], 160), dir: "auto" })),
  );
  const made = table([], rows);
  made.prepend(element("caption", { textContent: "Sentences (Owen values)" }));
  sentences.replaceChildren(...(rows.length > 1 ? [made] : []));
}
