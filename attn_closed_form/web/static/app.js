// The page: what the person does, what is asked of the server, and when. The text travels to this server alone; the
// link keeps it after the #, which browsers send to nobody.

import { drawFigure, drawNumbers, drawStrip, fixed, name, strongest } from "./words.js";
import { drawForecasts, drawPairs, drawPlane } from "./figures.js";

const at = (id) => document.getElementById(id);
const DEBOUNCE = 60; // ms after the last key
const QUIET = 700; // ms until a screen reader hears the result
const START = "The plot is a mess and the ending is terrible, but the acting is wonderful and I never once felt bored!";

const state = { players: "words", absent: "unk", output: null, wanted: null, removed: new Set(), chosen: null, answer: null };
let summaries = new Map();
let outputs = [];

// One question at a time to each address: a new one ends the one before it.
const running = {};
async function ask(path, question) {
  running[path]?.abort();
  const control = (running[path] = new AbortController());
  const body = JSON.stringify(question);
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body, signal: control.signal });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

const timers = {};
function later(what, delay, action) {
  clearTimeout(timers[what]);
  timers[what] = setTimeout(action, delay);
}

function question() {
  const { players, absent, output } = state;
  return { text: at("text").value, players, absent, output };
}

async function update() {
  const text = at("text").value;
  rememberInLink();
  if (!text.trim()) {
    Object.values(running).forEach((control) => control.abort());
    return showNothing("");
  }
  const start = performance.now();
  try {
    state.answer = await ask("/api/explain", { ...question(), removed: [...state.removed] });
  } catch (error) {
    if (error.name === "AbortError") return;
    return showNothing(error instanceof TypeError ? "No answer from the server. Is it still running?" : error.message);
  }
  at("time").textContent = `explained in ${Math.round(performance.now() - start)} ms`;
  show();
  later("pairs", 150, updatePairs);
}

function showNothing(message) {
  state.answer = null;
  clearTimeout(timers.live);
  at("message").textContent = message;
  at("results").hidden = true;
  document.body.dataset.ready = "none";
}

function show() {
  const { answer, removed } = state;
  const unseen = answer.unseen.length;
  at("message").textContent = unseen ? `The model reads the first ${seen(answer)} words; the last ${unseen} are not seen.` : "";
  at("results").hidden = false;
  at("prediction").textContent = verdict(answer);
  at("prediction").dataset.value = answer.prediction;
  at("moved").textContent = answer.removal ? `→ ${fixed(answer.removal.prediction)} without ${without(answer)}` : "";
  at("restore").hidden = !removed.size;
  drawStrip(at("strip"), answer, removed);
  drawForecasts(at("forecasts"), answer);
  drawFigure(at("figure").tBodies[0], answer, removed, summaries);
  drawPlane(at("plane"), answer, removed);
  drawNumbers(at("numbers"), answer);
  fillChoice();
  later("live", QUIET, () => (at("live").textContent = spoken(answer)));
  document.body.dataset.ready = JSON.stringify([answer.text, answer.players, answer.absent, answer.removal?.players ?? []]);
}

// What the model says: the most probable class, and the logit that is explained.
function verdict(answer) {
  const chances = Object.entries(answer.probabilities ?? {});
  if (!chances.length) return `${answer.output} ${fixed(answer.prediction)}`;
  const [best, chance] = chances.reduce((a, b) => (b[1] > a[1] ? b : a));
  const explained = answer.output === best ? "logit" : `explained: ${answer.output}, logit`;
  return `${best}, ${Math.round(100 * chance)} % (${explained} ${fixed(answer.prediction)})`;
}

const seen = (answer) => answer.spans.reduce((sum, spans) => sum + spans.length, 0);

function without(answer) {
  const names = answer.removal.players.map((player) => `“${name(answer, player)}”`);
  return names.length > 3 ? `${names.length} words` : names.join(", ");
}

function spoken(answer) {
  if (!answer.removal) return `Prediction ${fixed(answer.prediction)}.`;
  const { change, prediction, forecasts } = answer.removal;
  const said = ["shapley", "lime", "slalom-linear"].filter((key) => key in forecasts);
  const words = said.map((key) => `${answer.methods[key].label} said ${fixed(forecasts[key].change)}`).join(", ");
  return `Without ${without(answer)} the prediction is ${fixed(prediction)}, a change of ${fixed(change)}. ${words}.`;
}

function fillChoice() {
  const { answer } = state;
  const select = at("chosen");
  select.replaceChildren(...answer.labels.map((_, player) => new Option(name(answer, player), player)));
  select.value = String(state.chosen ?? strongest(answer, 1)[0]);
}

async function updatePairs() {
  const { answer } = state;
  if (!answer) return;
  const { text, players, absent, output } = answer; // not the text box, which may be further already
  try {
    const pairs = await ask("/api/interactions", { text, players, absent, output, player: Number(at("chosen").value) });
    if (state.answer === answer) drawPairs(at("pairs"), answer, pairs);
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
  const { text, players, absent, output } = question();
  const parts = new URLSearchParams({ text });
  if (players !== "words") parts.set("players", players);
  if (absent !== "unk") parts.set("absent", absent);
  if (output !== null) parts.set("output", output);
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
  at("text").value = parts.get("text") ?? (at("text").value || START); // a fast person may have begun
  state.players = among(parts.get("players"), ["words", "positions"]);
  state.absent = among(parts.get("absent"), ["unk", "deleted"]);
  state.wanted = parts.get("output");
  chooseOutput();
  for (const radio of document.querySelectorAll("input[type=radio]")) radio.checked = state[radio.name] === radio.value;
  forgetPlayers();
  update();
}

// The class that the link wants, once the model has said which there are; the predicted one otherwise.
function chooseOutput() {
  state.output = outputs.includes(state.wanted) ? state.wanted : null;
  at("output").value = state.output ?? "";
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

function save() {
  if (!state.answer) return;
  const url = URL.createObjectURL(new Blob([JSON.stringify(state.answer, null, 1)], { type: "application/json" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: "explanation.json" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function copy() {
  await navigator.clipboard.writeText(location.href);
  at("copy").textContent = "Copied";
  setTimeout(() => (at("copy").textContent = "Copy link"), 1500);
}

async function begin() {
  at("text").addEventListener("input", () => {
    forgetPlayers();
    later("update", DEBOUNCE, update);
  });
  for (const radio of document.querySelectorAll("input[type=radio]")) {
    radio.addEventListener("change", () => {
      state[radio.name] = radio.value;
      if (radio.name === "players") forgetPlayers();
      update();
    });
  }
  at("output").addEventListener("change", () => {
    state.wanted = state.output = at("output").value || null;
    update();
  });
  at("strip").addEventListener("click", clickWord);
  at("strip").addEventListener("keydown", moveInStrip);
  at("figure").addEventListener("click", clickWord);
  at("restore").addEventListener("click", () => (restore(), at("strip").querySelector("[tabindex='0']")?.focus()));
  at("chosen").addEventListener("change", () => ((state.chosen = Number(at("chosen").value)), updatePairs()));
  at("save").addEventListener("click", save);
  at("copy").hidden = !navigator.clipboard;
  at("copy").addEventListener("click", copy);
  window.addEventListener("hashchange", readLink);
  window.addEventListener("resize", () => later("resize", 100, () => state.answer && drawPlane(at("plane"), state.answer, state.removed)));
  readLink();
  try {
    const model = await (await fetch("/api/model")).json();
    summaries = new Map(model.methods.map((method) => [method.name, `${method.summary}; ${method.accuracy}`]));
    outputs = model.outputs;
    at("model").append(` Model: ${model.name}, ${model.model}.`);
    at("output").replaceChildren(new Option("the predicted class", ""), ...outputs.map((name) => new Option(name, name)));
    at("output-label").hidden = outputs.length < 2;
    chooseOutput();
    if (state.output !== null) update();
    else if (state.answer) show(); // now with what each method means
  } catch {
    // The first question says so.
  }
}

begin();
