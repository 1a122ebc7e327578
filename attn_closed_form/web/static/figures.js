// The SLALOM plane, the forecasts beside what happened, and the interactions: SVG and tables from DOM methods alone.

import { digits, element, elide, fixed, name } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Round numbers between low and high.
export function ticks(low, high, about = 6) {
  const raw = (high - low) / about;
  if (!(raw > 0) || !Number.isFinite(raw)) return [low];
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k <= Math.floor(high / step + 1e-9); k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

function padded(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = (high - low) * 0.08 || Math.max(Math.abs(high), 1) * 0.5;
  return [low - room, high + room];
}

// Leemann et al. 2025, Figure 5: each word at (importance, value); the words that matter most are named.
export function drawPlane(place, answer, removed) {
  const { "slalom-value": value, "slalom-importance": importance, "slalom-linear": linear } = answer.methods;
  if (!value || !importance || !linear) return place.replaceChildren();
  const width = Math.max(320, Math.min(place.clientWidth || 560, 640)), height = 340;
  const left = 46, right = 10, top = 10, bottom = 40;
  const [xLow, xHigh] = padded(importance.scores), [yLow, yHigh] = padded([...value.scores, 0]);
  const x = (s) => left + ((s - xLow) / (xHigh - xLow)) * (width - left - right);
  const y = (v) => top + ((yHigh - v) / (yHigh - yLow)) * (height - top - bottom);
  const axes = `M${left} ${y(0).toFixed(1)}H${width - right}M${left} ${top}V${height - bottom}H${width - right}`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Value of each word against its importance; the same numbers are in the table of the strongest words" });
  picture.append(svg("path", { class: "axis", d: axes }));
  const text = (content, attributes) => svg("text", attributes, content);
  for (const tick of ticks(xLow, xHigh)) picture.append(text(digits(tick, false), { x: x(tick), y: height - bottom + 16, "text-anchor": "middle" }));
  for (const tick of ticks(yLow, yHigh)) picture.append(text(digits(tick, false), { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }));
  picture.append(text("importance (log weight)", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }));
  picture.append(text("value", { transform: `translate(11 ${height / 2}) rotate(-90)`, "text-anchor": "middle" }));
  const points = value.scores.map((v, j) => [x(importance.scores[j]), y(v)]);
  points.forEach(([cx, cy], j) => {
    const side = (value.scores[j] >= 0 ? "for" : "against") + (removed.has(j) ? " gone" : "");
    const title = `${name(answer, j)}: importance ${digits(importance.scores[j])}, value ${digits(value.scores[j])}`;
    picture.append(svg("circle", { cx, cy, r: 4.5, class: side }, svg("title", {}, title)));
  });
  const order = linear.scores.map((score, j) => [Math.abs(score), j]).sort((a, b) => b[0] - a[0]);
  nameThem(picture, order.map(([, j]) => j), points, answer, width - right);
  place.replaceChildren(picture);
}

// Labels beside their points, where they hide no point and no other label.
function nameThem(picture, order, points, answer, rightEdge, most = 16) {
  const taken = points.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
  let named = 0;
  for (const j of order) {
    if (named === most) return;
    const [x, y] = points[j], shown = elide(name(answer, j), 18), size = 7 * shown.length;
    for (const [dx, dy, anchor] of [[8, 4, "start"], [-8, 4, "end"], [8, -7, "start"], [8, 15, "start"], [-8, -7, "end"]]) {
      const from = anchor === "start" ? x + dx : x + dx - size;
      const box = [from, y + dy - 11, from + size, y + dy + 3];
      const free = taken.every((t) => box[2] < t[0] || t[2] < box[0] || box[3] < t[1] || t[3] < box[1]);
      if (free && box[2] < rightEdge && box[0] > 46 && box[1] > 0) {
        taken.push(box);
        picture.append(svg("text", { x: x + dx, y: y + dy, "text-anchor": anchor }, shown));
        named += 1;
        break;
      }
    }
  }
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
export function drawForecasts(place, { removal, figures }) {
  place.hidden = !removal;
  if (!removal) return place.replaceChildren();
  const head = element("tr", {}, element("th", { scope: "col", textContent: "Method" }));
  for (const title of ["said", "did", "off by"]) head.append(element("th", { scope: "col", className: "r", textContent: title }));
  head.append(element("th", { scope: "col", className: "bar", textContent: "said, and what happened (dashed)" }));
  const rows = removal.forecasts.map(({ method, title, change, error }) => {
    const row = element("tr", { className: method === figures.leader ? "main" : "" }, element("th", { scope: "row", textContent: title }));
    for (const [column, number] of [["said", change], ["did", removal.change], ["off", error]]) {
      const cell = element("td", { className: "r", textContent: fixed(number) });
      cell.dataset.column = column;
      row.append(cell);
    }
    row.append(element("td", { className: "bar" }, bar(change, removal.largest, removal.change)));
    row.dataset.method = method;
    return row;
  });
  place.replaceChildren(element("table", { className: "plain" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

// The strongest interactions of one word.
export function drawPairs(place, { partners, largest }) {
  if (!partners.length) return place.replaceChildren(element("p", { className: "note", textContent: "There is no other word." }));
  const head = element("tr", {}, element("th", { scope: "col", textContent: "with" }), element("th", { scope: "col", className: "r", textContent: "interaction" }), element("th", { scope: "col" }));
  const rows = partners.map(({ player, name, value }) => {
    const row = element("tr", {}, element("th", { scope: "row", textContent: elide(name, 40) }), element("td", { className: "r", textContent: digits(value) }), element("td", {}, bar(value, largest)));
    row.dataset.player = player;
    return row;
  });
  place.replaceChildren(element("table", { className: "plain" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

// The probability of each class, the most probable first.
export function drawClasses(place, answer, most = 6) {
  const chances = Object.entries(answer.probabilities ?? {}).sort((a, b) => b[1] - a[1]);
  const rows = chances.slice(0, most);
  if (chances.length > most) rows.push([`${chances.length - most} others`, chances.slice(most).reduce((sum, [, p]) => sum + p, 0)]);
  place.replaceChildren(
    ...rows.flatMap(([label, chance]) => {
      const meter = element("meter", { min: 0, max: 1, value: chance });
      meter.setAttribute("aria-label", `probability of ${label}`);
      return [element("strong", { textContent: elide(label, 30) }), meter, element("span", { textContent: `${(100 * chance).toFixed(1)} %` })];
    }),
  );
}

// From no word known to the prediction: the strongest words by name, the rest as one bar.
export function drawWaterfall(place, answer, most = 10) {
  const method = answer.methods.shapley;
  if (!method) return place.replaceChildren();
  const order = method.scores.map((score, j) => [score, j]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
  const named = order.length > most + 1 ? order.slice(0, most) : order;
  let at = answer.absent_value;
  const steps = [[answer.absent === "unk" ? "no word known" : "nothing present", at, at, true]];
  for (const [score, j] of named) steps.push([elide(name(answer, j), 20), at, (at += score), false]);
  if (named.length < order.length) steps.push([`${order.length - named.length} others`, at, answer.prediction, false]);
  steps.push([elide(answer.output, 20), answer.prediction, answer.prediction, true]);
  const width = Math.max(320, Math.min(place.clientWidth || 560, 640)), left = 130, right = 64, row = 21;
  const ends = steps.flatMap(([, from, to]) => [from, to]);
  const low = Math.min(...ends), span = Math.max(...ends) - low || 1;
  const x = (value) => left + ((value - low) / span) * (width - left - right);
  const height = row * steps.length + 4;
  const label = `How the words add up from ${fixed(answer.absent_value)} to ${fixed(answer.prediction)}`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  picture.append(svg("path", { class: "axis", d: `M${x(answer.absent_value)} 0V${height}` }));
  steps.forEach(([words, from, to, end], i) => {
    const y = row * i + 3, [a, b] = [x(from), x(to)].sort((p, q) => p - q);
    if (end) picture.append(svg("path", { class: "end", d: `M${a} ${y - 1}v${row - 4}` }));
    else picture.append(svg("rect", { x: a, y, width: Math.max(b - a, 1), height: row - 6, class: to >= from ? "for" : "against" }));
    picture.append(svg("text", { x: left - 8, y: y + 12, "text-anchor": "end" }, words));
    picture.append(svg("text", { x: b + 6, y: y + 12 }, fixed(end ? to : to - from)));
  });
  place.replaceChildren(picture);
}

// Proved reasons in plain English, and what each sentence of the text contributes.
export function drawWhy(reasons, sentences, why) {
  reasons.replaceChildren(...why.reasons.sentences.map((text) => element("li", { textContent: text })));
  const scores = why.sentences?.scores ?? [];
  const rows = scores.map((score, i) =>
    element("tr", {}, element("td", { className: "r", textContent: fixed(score) }), element("td", { textContent: elide(why.sentences.labels[i], 160), dir: "auto" })),
  );
  const caption = element("caption", { textContent: "What each sentence contributes (Owen values)" });
  sentences.replaceChildren(...(rows.length > 1 ? [element("table", { className: "plain" }, caption, element("tbody", {}, ...rows))] : []));
}
