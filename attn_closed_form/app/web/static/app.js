// The page: input from the user, and requests to the server. The text is sent only to this server. The link keeps it
// after the #, which browsers never send.

import { change, drawFigure, drawNumbers, drawStrip, level, literal, minus, prose, unitOf } from "./words.js";
import { drawBars, drawComparison, drawLegend, drawPairs, drawPlane, drawReasons, drawSentences } from "./figures.js";

const at = (id) => document.getElementById(id);
const PATIENCE = 400; // ms until the page reports that it is waiting
const GIVE_UP = 8000; // ms until a request is sent again
const RETRY = 1500; // ms between tries when the server does not answer
const ROUGH = 0.01; // standard error of a first answer that is sampled, one percentage point
const PAUSE = 700; // ms after which such an answer is refined
const QUIET = 700; // ms until a screen reader hears the result
const MANY_WORDS = 60; // as in the report, where a longer text opens with its sentences
const NO_ANSWER = "No answer from the server. This page asks again until it is back.";

const state = { players: null, absent: null, output: null, scale: null, removed: new Set(), chosen: null, answer: null, kept: null };
let about = null; // the model, its example, the limits and the table of methods

// One question at a time to each address: a new one ends the one before it, and none waits for ever.
const running = {};
async function ask(path, question) {
  running[path]?.abort();
  const control = (running[path] = new AbortController());
  const clock = setTimeout(() => control.abort(new TypeError("no answer in time")), GIVE_UP);
  try {
    const body = JSON.stringify(question);
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(path, { method: "POST", headers, body, signal: control.signal });
    if (response.status === 503) throw new TypeError("the server is busy");
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    return answer;
  } finally {
    clearTimeout(clock);
  }
}

const timers = {};
function later(what, delay, action) {
  clearTimeout(timers[what]);
  timers[what] = setTimeout(action, delay);
}

// A request holds as much of the text as the server accepts, which is far more than a model reads.
function question() {
  const { players, absent, output, scale } = state;
  const most = about.limits.characters;
  const text = Array.from(at("text").value.slice(0, 2 * most)).slice(0, most).join("");
  return { text, players, absent, output, scale };
}

// The same question about what is shown, which may be behind the text box.
function shown({ text, players, absent, output, scale }) {
  return { text, players, absent, output, scale: scale === "logit" ? scale : null };
}

// While a question is under way the newest text waits, so that fast typing neither floods the server nor starves.
let asking = false, again = false;
async function update() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    do {
      again = false;
      await updateOnce();
    } while (again);
  } finally {
    asking = false;
  }
}

async function updateOnce() {
  rememberInLink();
  if (!at("text").value.trim()) return showNothing("");
  const start = performance.now();
  later("busy", PATIENCE, () => waiting("Waiting for the server …"));
  try {
    const removed = [...state.removed];
    clearTimeout(timers.refine);
    // One class among three or more has sampled values: a rough answer at once, and a better one after a pause.
    const rough = about.outputs.length > 2 ? { max_error: ROUGH } : {};
    const answer = await ask("/api/explain", { ...question(), removed, ...rough });
    clearTimeout(timers.busy);
    clearTimeout(timers.retry);
    delete document.body.dataset.busy;
    if (again) return;
    state.answer = answer;
  } catch (error) {
    clearTimeout(timers.busy);
    if (error.name === "AbortError") return;
    if (!(error instanceof TypeError)) return showNothing(error.message);
    waiting(NO_ANSWER);
    return later("retry", RETRY, update);
  }
  at("time").textContent = `explained in ${Math.round(performance.now() - start)} ms`;
  show();
  later("pairs", 150, () => (updatePairs(), updateWhy(), updateComparison()));
  if (isRough(state.answer)) later("refine", PAUSE, refine);
}

// Whether the values that the page shows first have a standard error that a longer run makes smaller.
function isRough(answer) {
  return about.outputs.length > 2 && answer.methods[answer.figures.leader].accuracy === "sampled";
}

// Asks once more for what is shown, with the default standard error. A new text ends it, because it asks at the same
// address.
async function refine() {
  const asked = state.answer;
  try {
    const answer = await ask("/api/explain", { ...question(), removed: [...state.removed] });
    if (asking || state.answer !== asked || answer.text !== asked.text) return;
    state.answer = answer;
    show();
  } catch {
    // The rough answer stays.
  }
}

// Reports that the page still shows an older text.
function waiting(message) {
  document.body.dataset.busy = "true";
  at("time").textContent = "";
  at("message").textContent = message;
}

function showNothing(message) {
  state.answer = null;
  delete document.body.dataset.busy;
  clearTimeout(timers.live);
  at("message").textContent = message;
  at("results").hidden = true;
  at("actions").hidden = true;
  at("empty").hidden = Boolean(message);
  delete document.body.dataset.ready;
}

function show() {
  const { answer, removed } = state;
  const unseen = answer.unseen.length > 0;
  at("message").textContent = unseen ? `The model reads the first ${seen(answer)} words; the others are not read.` : "";
  at("results").hidden = false;
  at("actions").hidden = false;
  at("empty").hidden = true;
  at("prediction").textContent = prose(answer.figures.headline);
  at("explained-value").textContent = prose(answer.figures.explained);
  at("prediction").dataset.value = answer.prediction;
  at("explained").textContent = answer.figures.scale;
  at("notice").textContent = answer.figures.notice;
  at("results").toggleAttribute("data-notice", Boolean(answer.figures.notice));
  // The logit is always there to choose; the probability was there if it is shown, or was left for the logit.
  at("scale").hidden = answer.scale === "logit" && state.scale !== "logit";
  for (const radio of at("scale").querySelectorAll("input")) radio.checked = radio.value === answer.scale;
  at("restore").hidden = !removed.size;
  drawStrip(at("strip"), answer, removed);
  drawLegend(at("legend"), answer.figures.legend, unitOf(answer, answer.methods[answer.figures.leader].scale));
  for (const name of document.querySelectorAll(".output")) name.textContent = answer.output;
  showRemoval();
  drawBars(at("classes"), answer.figures.classes);
  drawBars(at("waterfall"), answer.figures.waterfall, answer.figures.ticks, answer.figures.unit);
  drawFigure(at("figure").tBodies[0], answer, removed);
  drawNumbers(at("numbers"), answer);
  fillChoice();
  later("live", QUIET, () => (at("live").textContent = spoken(answer)));
  document.body.dataset.ready = JSON.stringify([answer.text, answer.players, answer.absent, answer.removal?.players ?? []]);
}

// The prediction without the removed words, next to the sum of their scores, which is another number.
function showRemoval() {
  const { answer } = state, { removal } = answer;
  at("removal").hidden = !removal;
  if (!removal) return (at("removal").textContent = "");
  const unit = unitOf(answer), leading = removal.forecasts.find(({ method }) => method === answer.figures.leader);
  const what = removal.names.length > 1 ? "the sum of their Shapley values" : "its Shapley value";
  const value = leading ? ` (${what}: ${change(-leading.change, unitOf(answer, leading.scale))})` : "";
  at("removal").textContent = `Prediction without ${without(answer)}: ${level(removal.prediction, unit)}, a change of ${change(removal.change, unit)}${value}.`;
}

// The text that was kept, against the one in the box.
async function updateComparison() {
  const { answer, kept } = state;
  at("comparison").hidden = true;
  if (!answer || kept === null || kept === answer.text) return;
  try {
    const { output, ...asked } = shown(answer);
    const compared = await ask("/api/compare", { ...asked, output: state.output, other: kept });
    if (state.answer !== answer) return;
    at("comparison-headline").textContent = minus(prose(compared.figures.headline));
    const [texts, legend, meaning, steps] = ["texts", "legend", "meaning", "steps"].map((part) => at(`comparison-${part}`));
    drawComparison(texts, legend, meaning, steps, compared.figures);
    at("comparison").hidden = false;
  } catch (error) {
    if (error.name !== "AbortError") at("comparison").hidden = true;
  }
}

const seen = (answer) => answer.spans.reduce((sum, spans) => sum + spans.length, 0);

function without(answer) {
  const names = answer.removal.names.map((name) => `“${name}”`);
  return names.length > 3 ? `${names.length} words` : names.join(", ");
}

function spoken(answer) {
  const unit = unitOf(answer);
  if (!answer.removal) return `Prediction ${level(answer.prediction, unit)}.`;
  const { change: moved, prediction } = answer.removal;
  return `Without ${without(answer)} the prediction is ${level(prediction, unit)}, a change of ${change(moved, unit)}.`;
}

function fillChoice() {
  const { answer } = state;
  const select = at("chosen");
  select.replaceChildren(...answer.figures.names.map((name, player) => new Option(name, player)));
  select.value = String(state.chosen ?? answer.figures.strongest[0]);
  at("replaced").replaceChildren(...[...select.options].map((option) => option.cloneNode(true)));
  at("replaced").value = select.value;
  updateReplacement();
}

// Replaces every occurrence of one player, and shows the prediction for the new text.
async function updateReplacement() {
  const { answer } = state;
  const replacement = at("replacement").value.trim();
  if (!answer || !replacement) return (at("replaced-change").textContent = "");
  const points = Array.from(answer.text);
  const spans = [...answer.spans[Number(at("replaced").value)]].sort((a, b) => b[0] - a[0]);
  for (const [from, to] of spans) points.splice(from, to - from, replacement);
  try {
    const other = await ask("/api/explain?what-if", { ...shown(answer), text: points.join(""), methods: ["leave-one-out"] });
    const moved = change(other.prediction - answer.prediction, unitOf(answer));
    at("replaced-change").textContent = `${prose(other.figures.headline)}, a change of ${moved}`;
    at("replaced-change").dataset.value = other.prediction;
  } catch (error) {
    if (error.name !== "AbortError") at("replaced-change").textContent = error.message;
  }
}

async function updateWhy() {
  const { answer } = state;
  if (!answer) return;
  try {
    const why = await ask("/api/why", shown(answer));
    if (state.answer !== answer) return;
    drawReasons(at("reasons"), why);
    at("by-sentence").hidden = !drawSentences(at("sentences"), why, unitOf(answer));
    // A long text is read by sentence first, a short one by word.
    const [first, second] = answer.labels.length > MANY_WORDS ? ["by-sentence", "sum-and-why"] : ["sum-and-why", "by-sentence"];
    at(first).after(at(second));
    drawPlane(at("plane"), why.figures.slalom_plane, answer, state.removed);
    at("why").hidden = false;
  } catch (error) {
    if (error.name !== "AbortError") at("why").hidden = at("by-sentence").hidden = true;
  }
}

async function updatePairs() {
  const { answer } = state;
  if (!answer) return;
  try {
    const pairs = await ask("/api/interactions", { ...shown(answer), player: Number(at("chosen").value) });
    if (state.answer === answer) drawPairs(at("pairs"), pairs.figures.partners, unitOf(answer));
  } catch (error) {
    if (error.name !== "AbortError") at("pairs").replaceChildren();
  }
}

function toggle(player) {
  if (!state.removed.delete(player)) state.removed.add(player);
  state.chosen = player;
  if (state.answer) drawStrip(at("strip"), state.answer, state.removed); // at once; the numbers follow
  update();
}

function restore() {
  state.removed.clear();
  update();
}

// Players are numbered by the text, so another text means other players.
function forgetPlayers() {
  state.removed.clear();
  state.chosen = null;
}

function rememberInLink() {
  const { text, players, absent, output, scale } = question();
  const parts = new URLSearchParams({ text });
  if (players !== about.players[0]) parts.set("players", players);
  if (absent !== about.absent[0]) parts.set("absent", absent);
  if (output !== null) parts.set("output", output);
  if (scale !== null) parts.set("scale", scale);
  at("link").href = `#${parts}`;
  try {
    history.replaceState(null, "", `#${parts}`);
  } catch {
    // Some browsers limit how often; the link itself is right all the same.
  }
}

function readLink() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const among = (value, allowed) => (allowed.includes(value) ? value : allowed[0]);
  at("text").value = parts.get("text") ?? (at("text").value || about.example); // a fast person may have begun
  state.players = among(parts.get("players"), about.players);
  state.absent = among(parts.get("absent"), about.absent);
  state.output = about.outputs.includes(parts.get("output")) ? parts.get("output") : null;
  state.scale = parts.get("scale") === "logit" ? "logit" : null;
  at("output").value = state.output ?? "";
  for (const radio of document.querySelectorAll("#players input, #absent input")) radio.checked = state[radio.name] === radio.value;
  forgetPlayers();
  update();
}

function moveInStrip(event) {
  const buttons = [...at("strip").querySelectorAll("button")];
  const here = buttons.indexOf(document.activeElement);
  if (event.key === "Escape" && state.removed.size) restore();
  const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (here < 0 || to === undefined || !buttons[to]) return;
  event.preventDefault();
  focusOn(buttons, to);
  buttons[to].focus();
}

// One tab stop for the whole text: the word that was last used.
function focusOn(buttons, index) {
  buttons.forEach((button, i) => (button.tabIndex = i === index ? 0 : -1));
}

function clickWord(event) {
  const word = event.target.closest("[data-player]");
  if (!word) return;
  if (word.parentNode === at("strip")) {
    const buttons = [...at("strip").querySelectorAll("button")];
    focusOn(buttons, buttons.indexOf(word));
  }
  toggle(Number(word.dataset.player));
}

function download(content, type, name) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function save() {
  if (state.answer) download(JSON.stringify(state.answer, null, 1), "application/json", "explanation.json");
}

async function saveReport() {
  const { answer } = state;
  if (!answer) return;
  try {
    const { page } = await ask("/api/report", shown(answer));
    download(page, "text/html", "report.html");
  } catch (error) {
    if (error.name !== "AbortError") at("message").textContent = error.message;
  }
}

// Keeps the text, so that the next one is compared with it.
function keep() {
  state.kept = state.answer?.text ?? null;
  at("keep").textContent = "Kept: now change the text";
  setTimeout(() => (at("keep").textContent = "Compare with this text"), 2500);
  at("text").focus();
}

function forget() {
  state.kept = null;
  at("comparison").hidden = true;
  at("keep").focus();
}

// Where the text box is empty, a click on an example fills it.
function fillExamples() {
  const items = about.examples.map((text) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: literal(text) });
    button.addEventListener("click", () => {
      at("text").value = text;
      forgetPlayers();
      update();
      at("text").focus();
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  });
  at("examples").replaceChildren(...items);
}

// The name in a reason lights up in the text.
function light(event) {
  const chip = event.type.endsWith("out") ? null : event.target.closest(".chip"), { answer } = state;
  for (const word of at("strip").querySelectorAll("button")) {
    word.classList.toggle("lit", Boolean(chip && answer) && literal(answer.figures.names[word.dataset.player]) === chip.textContent);
  }
}

async function copy() {
  await navigator.clipboard.writeText(location.href);
  at("copy").textContent = "Copied";
  setTimeout(() => (at("copy").textContent = "Copy link"), 1500);
}

// Loads the name and the classes of the model, and tries again until the server answers.
async function begin() {
  try {
    about = await (await fetch("/api/model")).json();
  } catch {
    at("message").textContent = NO_ANSWER;
    return later("begin", RETRY, begin);
  }
  at("model").textContent = `Model: ${about.name}, ${about.model}. Your text goes to this server only.`;
  fillExamples();
  at("settings").open = innerWidth > 640;
  at("output").replaceChildren(new Option("the predicted class", ""), ...about.outputs.map((name) => new Option(name, name)));
  at("output-label").hidden = about.outputs.length < 2;
  radios(at("players"), "players", about.players);
  radios(at("scale"), "scale", ["probability", "logit"]);
  radios(at("absent"), "absent", about.absent, { unk: "becomes [UNK]", deleted: "is deleted" });
  listen();
  readLink();
}

function radios(field, name, values, labels = {}) {
  const made = values.map((value) => {
    const label = document.createElement("label");
    label.append(Object.assign(document.createElement("input"), { type: "radio", name, value }), ` ${labels[value] ?? value}`);
    return label;
  });
  field.append(...made);
  field.hidden = values.length < 2;
}

function listen() {
  at("text").addEventListener("input", () => {
    forgetPlayers();
    update();
  });
  for (const field of [at("players"), at("absent")]) {
    field.addEventListener("change", (event) => {
      state[event.target.name] = event.target.value;
      if (event.target.name === "players") forgetPlayers();
      update();
    });
  }
  // The probability is what is explained without a wish, where its values are exact.
  at("scale").addEventListener("change", (event) => {
    state.scale = event.target.value === "logit" ? "logit" : null;
    update();
  });
  at("output").addEventListener("change", () => {
    state.output = at("output").value || null;
    update();
  });
  at("strip").addEventListener("click", clickWord);
  at("strip").addEventListener("keydown", moveInStrip);
  at("figure").addEventListener("click", clickWord);
  at("restore").addEventListener("click", () => (restore(), at("strip").querySelector("[tabindex='0']")?.focus()));
  at("chosen").addEventListener("change", () => ((state.chosen = Number(at("chosen").value)), updatePairs()));
  at("replaced").addEventListener("change", updateReplacement);
  at("replacement").addEventListener("input", () => later("replacement", 120, updateReplacement));
  at("replace").addEventListener("submit", (event) => (event.preventDefault(), updateReplacement()));
  at("save").addEventListener("click", save);
  at("report").addEventListener("click", saveReport);
  at("keep").addEventListener("click", keep);
  at("forget").addEventListener("click", forget);
  for (const event of ["mouseover", "mouseout", "focusin", "focusout"]) at("reasons").addEventListener(event, light);
  at("copy").hidden = !navigator.clipboard;
  at("copy").addEventListener("click", copy);
  window.addEventListener("hashchange", readLink);
  window.addEventListener("resize", () => later("resize", 100, () => state.answer && show()));
}

begin();
