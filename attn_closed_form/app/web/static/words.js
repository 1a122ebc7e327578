// Words, colored and clickable, and the table of numbers. Everything is drawn from `answer.figures`, which the server
// computes; only numbers are formatted here. Text becomes text nodes; nothing is ever parsed as markup.

// Characters that would turn the reading order around are shown as a mark, as in the report.
const STEERING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const literal = (text) => text.replace(STEERING, "\ufffd");
export const elide = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

// What is between words; line breaks of HTML, which reviews contain, are shown as line breaks.
const LINE_BREAKS = /(?:<br\s*\/?>\s*)+/gi;
const gap = (text) => literal(text).replace(LINE_BREAKS, " ↵\n");
export const oneLine = (text) => literal(text).replace(LINE_BREAKS, " ");

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// A table of numbers, whose first column names the rows.
export function table(titles, rows) {
  const head = element("tr", {}, ...titles.map((textContent) => element("th", { scope: "col", textContent })));
  const parts = [titles.length ? element("thead", {}, head) : "", element("tbody", {}, ...rows)];
  return element("table", { className: "n" }, ...parts);
}

export const minus = (text) => text.replace("-", "−");
// A sentence in which a number and its unit stay on one line.
export const prose = (text) => text.replace(/(\d) (points)/g, "$1\u00a0$2");
const plus = (x) => (x > 0 ? "+" : "");
// How numbers are written on a scale, as the server defines it: what they are multiplied by, what follows a value and a
// change, and the decimals of both. Scores in tables have three digits, because they live on many scales.
export const unitOf = (answer, scale = answer.scale) => answer.figures.units[scale];
function fixed(x, unit, follows, signed) {
  const number = unit.factor * x, zero = Math.abs(number) < 0.5 * 10 ** -unit.decimals;
  // A difference that is only rounding is shown as zero, without a sign.
  return prose((zero ? (0).toFixed(unit.decimals) : (signed ? plus(x) : "") + minus(number.toFixed(unit.decimals))) + follows);
}
export const level = (x, unit) => fixed(x, unit, unit.level, !unit.level);
export const change = (x, unit) => fixed(x, unit, unit.change, true);
export const titled = (title, unit) => (unit.change ? `${title} (${unit.change.trim()})` : title);
const PLAIN = { factor: 1 };
export function digits(score, signed = true, unit = PLAIN) {
  const x = unit.factor * score, size = Math.abs(x);
  const shown = size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(1) : String(Number(x.toPrecision(3)));
  return (signed ? plus(x) : "") + minus(shown);
}

// The class of a color: p for, n against, u without a sign, and its level.
export function colorOf(level, signed = true) {
  if (!level) return "";
  if (!signed) return `u${level}`;
  return (level > 0 ? "p" : "n") + Math.abs(level);
}

function classes(text, { levels, signed }, player, removed) {
  const color = colorOf(levels[player], signed);
  return [color, text.unknown[player] && "k", removed.has(player) && "gone"].filter(Boolean).join(" ");
}

// The clickable words. Buttons are kept while text and players stay the same, so that focus stays where it is.
let shown = null;
export function drawStrip(strip, answer, removed) {
  const { text, leader } = answer.figures, method = answer.methods[leader];
  const key = JSON.stringify([answer.text, answer.players]);
  if (shown !== key) {
    shown = key;
    const nodes = text.pieces.map(([words, player]) => {
      if (player === null) return gap(words);
      const button = element("button", { type: "button", tabIndex: -1, textContent: literal(words) });
      button.dataset.player = player;
      return button;
    });
    strip.replaceChildren(...nodes, element("span", { className: text.unseen ? "unseen" : "", textContent: gap(text.tail) }));
    const first = strip.querySelector("button");
    if (first) first.tabIndex = 0;
  }
  for (const button of strip.querySelectorAll("button")) {
    const player = Number(button.dataset.player);
    button.className = classes(text, text, player, removed);
    button.setAttribute("aria-pressed", String(removed.has(player)));
    const unit = unitOf(answer, method.scale);
    button.title = `${method.label} ${digits(method.scores[player], true, unit)}${unit.change}` + (text.unknown[player] ? ", not in the vocabulary" : "");
  }
}

// The words of a text that is only shown; `only` are the players that the other text does not have.
export function plainWords(text) {
  const nodes = text.pieces.map(([words, player]) => {
    if (player === null) return elide(oneLine(words), 24);
    const outlined = text.only?.includes(player) ? " only" : "";
    return element("i", { textContent: elide(literal(words), 60), className: classes(text, text, player, new Set()) + outlined });
  });
  return [...nodes, elide(literal(text.tail), 24)];
}

// One row per method, by family; methods whose colors are the same share a row.
export function drawFigure(body, answer, removed) {
  const rows = [];
  for (const family of answer.figures.methods) {
    const note = element("td", { colSpan: 2, className: "family" }, element("strong", { textContent: family.title }), ` ${family.meaning}`);
    rows.push(element("tr", {}, note), ...family.rows.map((row) => methodRow(row, answer, removed)));
  }
  body.replaceChildren(...rows);
}

const written = (method, player, answer) => digits(method.scores[player], method.kind !== "unsigned", unitOf(answer, method.scale));

function methodRow(row, answer, removed) {
  const { text } = answer.figures, cell = element("td", { dir: "auto" });
  const methods = row.methods.map((name) => answer.methods[name]);
  for (const [words, player] of text.pieces) {
    if (player === null) {
      cell.append(elide(oneLine(words), 24));
      continue;
    }
    const word = element("i", { textContent: elide(literal(words), 60), className: classes(text, row, player, removed) });
    word.title = methods.map((method) => written(method, player, answer)).join(", ");
    word.dataset.player = player;
    cell.append(word);
  }
  cell.append(text.unseen ? element("small", { textContent: ` … ${text.unseen} more not read` }) : elide(literal(text.tail), 24));
  const line = element("tr", {}, element("th", { scope: "row", textContent: row.title, title: row.summary }), cell);
  line.dataset.methods = row.methods.join(" ");
  return line;
}

export function drawNumbers(place, answer) {
  const methods = Object.entries(answer.methods);
  const rows = answer.figures.strongest.map((player) => {
    const row = element("tr", {}, element("th", { scope: "row", textContent: elide(answer.figures.names[player], 40) }));
    for (const [key, method] of methods) {
      const cell = element("td", { textContent: written(method, player, answer) });
      cell.dataset.method = key;
      row.append(cell);
    }
    row.dataset.player = player;
    return row;
  });
  place.replaceChildren(table(["Word", ...methods.map(([, method]) => titled(method.label, unitOf(answer, method.scale)))], rows));
}
