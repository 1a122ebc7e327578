// Words, coloured and clickable, and the tables of numbers. Text becomes text nodes; nothing is ever parsed as markup.

// Characters that would turn the reading order around are shown as a mark, as in the report.
const STEERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const literal = (text) => text.replace(STEERING, "\ufffd");
export const elide = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const minus = (text) => text.replace("-", "−");
const plus = (x) => (x > 0 ? "+" : "");
// Four decimals for predictions and their changes; three digits for scores, which live on many scales.
// A difference that is rounding alone is shown as nought, without a sign.
export const fixed = (x) => (Math.abs(x) < 5e-5 ? "0.0000" : plus(x) + minus(x.toFixed(4)));
export function digits(x, signed = true) {
  const size = Math.abs(x);
  const shown = size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(1) : String(Number(x.toPrecision(3)));
  return (signed ? plus(x) : "") + minus(shown);
}

// Spans count code points, JavaScript's strings UTF-16 units; the split is made once per answer.
const split = new WeakMap();
function codePoints(answer) {
  if (!split.has(answer)) split.set(answer, Array.from(answer.text));
  return split.get(answer);
}

// The text as pieces in order: gaps {text} and tokens {text, player}.
export function pieces(answer) {
  const points = codePoints(answer);
  const places = answer.spans.flatMap((spans, player) => spans.map(([start, end]) => ({ start, end, player })));
  places.sort((a, b) => a.start - b.start);
  const found = [];
  let at = 0;
  for (const { start, end, player } of places) {
    if (start > at) found.push({ text: literal(points.slice(at, start).join("")) });
    found.push({ text: literal(points.slice(start, end).join("")), player });
    at = end;
  }
  return { found, rest: literal(points.slice(at).join("")) };
}

function colour(method, player) {
  const level = method.levels[player];
  if (!level) return "";
  return (method.kind !== "signed" ? "u" : level > 0 ? "p" : "n") + Math.abs(level);
}

function classes(answer, method, player, removed) {
  const names = [method && colour(method, player), answer.unknown[player] && "k", removed.has(player) && "gone"];
  return names.filter(Boolean).join(" ");
}

const leader = (answer) => answer.methods.shapley ?? Object.values(answer.methods)[0];

// The clickable words. Buttons are kept while text and players stay the same, so that focus stays where it is.
let shown = null;
export function drawStrip(strip, answer, removed) {
  const key = JSON.stringify([answer.text, answer.players]);
  if (shown !== key) {
    shown = key;
    const { found, rest } = pieces(answer);
    const nodes = found.map((piece) => {
      if (piece.player === undefined) return piece.text;
      const button = element("button", { type: "button", tabIndex: -1, textContent: piece.text });
      button.dataset.player = piece.player;
      return button;
    });
    strip.replaceChildren(...nodes, element("span", { className: answer.unseen.length ? "unseen" : "", textContent: rest }));
    const first = strip.querySelector("button");
    if (first) first.tabIndex = 0;
  }
  const method = leader(answer);
  for (const button of strip.querySelectorAll("button")) {
    const player = Number(button.dataset.player);
    button.className = classes(answer, method, player, removed);
    button.setAttribute("aria-pressed", String(removed.has(player)));
    button.title = `${method.label} ${digits(method.scores[player])}` + (answer.unknown[player] ? ", not in the vocabulary" : "");
  }
}

// One row per method, by family; methods whose colours are the same share a row.
export function drawFigure(body, answer, removed, summaries, families) {
  const { found, rest } = pieces(answer);
  const rows = [];
  for (const [family, [title, meaning]] of Object.entries(families)) {
    const alike = groupAlike(Object.entries(answer.methods).filter(([, method]) => method.family === family));
    if (!alike.length) continue;
    const note = element("td", { colSpan: 2, className: "family" }, element("strong", { textContent: title }), ` ${meaning}`);
    rows.push(element("tr", {}, note));
    for (const group of alike) rows.push(methodRow(group, answer, removed, summaries, found, rest));
  }
  body.replaceChildren(...rows);
}

function groupAlike(methods) {
  const groups = new Map();
  for (const [name, method] of methods) {
    const key = JSON.stringify([method.kind, method.levels]);
    groups.set(key, [...(groups.get(key) ?? []), [name, method]]);
  }
  return [...groups.values()];
}

function methodRow(group, answer, removed, summaries, found, rest) {
  const [, method] = group[0];
  const cell = element("td", { dir: "auto" });
  for (const piece of found) {
    if (piece.player === undefined) {
      cell.append(elide(piece.text, 24));
      continue;
    }
    const word = element("i", { textContent: elide(piece.text, 60) });
    const marks = classes(answer, method, piece.player, removed);
    if (marks) word.className = marks;
    word.title = group.map(([, m]) => digits(m.scores[piece.player], m.kind !== "unsigned")).join(", ");
    word.dataset.player = piece.player;
    cell.append(word);
  }
  const more = answer.unseen.length;
  cell.append(more ? element("small", { textContent: ` … ${more} more not seen` }) : elide(rest, 24));
  const label = group.map(([, m]) => m.label).join(", ");
  const title = group.map(([name]) => summaries.get(name) ?? "").join("\n");
  const row = element("tr", {}, element("th", { scope: "row", textContent: label, title }), cell);
  row.dataset.methods = group.map(([name]) => name).join(" ");
  return row;
}

export function strongest(answer, most) {
  const order = leader(answer).scores.map((score, player) => [Math.abs(score), player]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  return order.slice(0, most).map(([, player]) => player);
}

export function drawNumbers(place, answer, most = 12) {
  const methods = Object.entries(answer.methods);
  const head = element("tr", {}, element("th", { scope: "col", textContent: "Word" }));
  for (const [, method] of methods) head.append(element("th", { scope: "col", className: "r", textContent: method.label }));
  const rows = strongest(answer, most).map((player) => {
    const row = element("tr", {}, element("th", { scope: "row", textContent: name(answer, player) }));
    for (const [key, method] of methods) {
      const cell = element("td", { className: "r", textContent: digits(method.scores[player], method.kind !== "unsigned") });
      cell.dataset.method = key;
      row.append(cell);
    }
    row.dataset.player = player;
    return row;
  });
  const table = element("table", { className: "plain" }, element("thead", {}, head), element("tbody", {}, ...rows));
  place.replaceChildren(table);
}

// What to call a player: its word as typed where there is one, with its place if the same word is several players.
export function name(answer, player) {
  const [start, end] = answer.spans[player][0];
  let word = literal(codePoints(answer).slice(start, end).join(""));
  if (answer.players === "positions") word += ` (${player + 1})`;
  else if (answer.unknown[player] && answer.spans[player].length > 1) word += " and other unknown words";
  return elide(word, 40);
}
