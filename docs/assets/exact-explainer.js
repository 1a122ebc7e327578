/* The shipped sentiment model and its exact Shapley values, in the page: no server, no library.
 *
 * A prediction is x = N / D: the sum of mass times value of the words that are present, over the sum of their masses.
 * A background that is never removed counts in both sums. The values here contain the bias and the temperature, so x is
 * the log-odds of the probability. The Shapley value of a word is the integral, over p from 0 to 1, of the change that
 * it makes when every other word is present with probability p (docs/theory/two-integrals.md). With
 *
 *     1 / Z = integral over lambda > 0 of exp(-lambda Z)
 *
 * the mean over all 2^d sets of words is a product, one factor per word. The log-odds need one integral with Z = D. The
 * probability is a sum of simple fractions (docs/theory/probabilities.md), 1/2 + Re sum_m r_m / (x - i y_m), and each
 * needs one integral with Z = y_m D + i N. Loaded with demo-model.js, which the build writes.
 */
(function () {
  "use strict";

  // Relative accuracy of each integral over lambda; the tests ask for 1e-6 of the result.
  var EPSILON = 1e-11;
  // More different words would make a page wait for seconds.
  var MOST_WORDS = 120;

  // --- Words ------------------------------------------------------------------------------------------------------

  // A tag, which is no word; a rating; a word with inner apostrophes; one of ! and ?.
  var TOKEN = /<[a-zA-Z\/!][^<>]*>|\d{1,3}(?:\.\d)?\/\d{1,3}(?![\p{L}\p{N}_\/])|[\p{L}\p{N}\p{M}]+(?:['’ʼ][\p{L}\p{N}\p{M}]+)*|[!?！？]/gu;

  function tokens(text) {
    var found = [];
    var match;
    TOKEN.lastIndex = 0;
    while ((match = TOKEN.exec(text)) !== null) {
      if (match[0][0] === "<") { continue; }
      var word = match[0].normalize("NFKC").toLowerCase().replace(/[’ʼ]/g, "'");
      found.push({ word: word, start: match.index, end: match.index + match[0].length });
    }
    return found;
  }

  /* The players of a text: its different words, each with the mass of all its places. */
  function read(model, text) {
    var places = tokens(text);
    var players = [];
    var number = new Map();
    places.forEach(function (token) {
      var id = model.ids.get(token.word);
      token.known = id !== undefined;
      // All unknown words are one player, as they are one word to the model.
      var key = token.known ? id : model.unknown;
      if (!number.has(key)) {
        number.set(key, players.length);
        players.push({ word: token.known ? token.word : "[UNK]", mass: 0, value: model.values[key] });
      }
      token.player = number.get(key);
      var player = players[token.player];
      if (player.mass === 0 || !model.distinct) { player.mass += model.masses[key]; }
    });
    return { tokens: places, players: players };
  }

  // --- Shapley values ---------------------------------------------------------------------------------------------

  /* Nodes and weights of the Gauss rule with m nodes on [0, 1], by Newton's method on the Legendre polynomial. */
  function gauss(m) {
    var rule = [];
    for (var k = 0; k < m; k++) {
      var x = Math.cos(Math.PI * (k + 0.75) / (m + 0.5));
      var slope = 1;
      for (var step = 0; step < 50; step++) {
        var before = 1;
        var here = x;
        for (var n = 2; n <= m; n++) {
          var next = ((2 * n - 1) * x * here - (n - 1) * before) / n;
          before = here;
          here = next;
        }
        slope = m * (x * here - before) / (x * x - 1);
        var change = here / slope;
        x -= change;
        if (Math.abs(change) < 1e-15) { break; }
      }
      rule.push({ p: (1 + x) / 2, weight: 1 / ((1 - x * x) * slope * slope) });
    }
    return rule;
  }

  /* Shapley values of A / Z, where A and Z are sums over the words: a[j] is real, z[j] = re[j] + i im[j] has a positive
   * real part, and the last entry of each is the background's. Returns real and imaginary parts. */
  function ratioValues(a, re, im, rule) {
    var d = a.length - 1;
    var real = new Float64Array(d);
    var imaginary = new Float64Array(d);
    var largest = 0;
    var angle = 0;
    for (var j = 0; j <= d; j++) {
      largest += Math.hypot(re[j], im[j]);
      angle = Math.max(angle, Math.atan2(Math.abs(im[j]), re[j]));
    }
    // The trapezoidal rule in log(lambda): the integrand is analytic in a strip whose half width is `strip`.
    var digits = Math.log(1 / EPSILON);
    var strip = Math.PI / 2 - angle;
    var h = 2 * Math.PI * strip / digits;
    var end = Math.log(digits / re[d]);
    var er = new Float64Array(d);
    var ei = new Float64Array(d);
    var qr = new Float64Array(d);
    var qi = new Float64Array(d);
    var rr = new Float64Array(d);
    var ri = new Float64Array(d);
    for (var t = Math.log(EPSILON / largest); t < end; t += h) {
      var lambda = Math.exp(t);
      var j1;
      for (j1 = 0; j1 < d; j1++) {
        var size = Math.exp(-lambda * re[j1]);
        er[j1] = size * Math.cos(lambda * im[j1]);
        ei[j1] = -size * Math.sin(lambda * im[j1]);
      }
      for (var node = 0; node < rule.length; node++) {
        var p = rule[node].p;
        // The product of all factors q_j = 1 - p + p e_j, and the sum of r_j = p a_j e_j / q_j with the background.
        var productSize = Math.exp(-lambda * re[d]);
        var pr = productSize * Math.cos(lambda * im[d]);
        var pi = -productSize * Math.sin(lambda * im[d]);
        var sr = a[d];
        var si = 0;
        for (j1 = 0; j1 < d; j1++) {
          qr[j1] = 1 - p + p * er[j1];
          qi[j1] = p * ei[j1];
          var norm = qr[j1] * qr[j1] + qi[j1] * qi[j1];
          var scale = p * a[j1] / norm;
          rr[j1] = scale * (er[j1] * qr[j1] + ei[j1] * qi[j1]);
          ri[j1] = scale * (ei[j1] * qr[j1] - er[j1] * qi[j1]);
          sr += rr[j1];
          si += ri[j1];
          var kept = pr * qr[j1] - pi * qi[j1];
          pi = pr * qi[j1] + pi * qr[j1];
          pr = kept;
        }
        var weight = h * lambda * rule[node].weight;
        for (j1 = 0; j1 < d; j1++) {
          // With the word minus without it: e_j (others + a_j) - others.
          var or = sr - rr[j1];
          var oi = si - ri[j1];
          var wr = or + a[j1];
          var cr = er[j1] * wr - ei[j1] * oi - or;
          var ci = er[j1] * oi + ei[j1] * wr - oi;
          // Times the product without q_j.
          var square = qr[j1] * qr[j1] + qi[j1] * qi[j1];
          var lr = (pr * qr[j1] + pi * qi[j1]) / square;
          var li = (pi * qr[j1] - pr * qi[j1]) / square;
          real[j1] += weight * (lr * cr - li * ci);
          imaginary[j1] += weight * (lr * ci + li * cr);
        }
      }
    }
    return { real: real, imaginary: imaginary };
  }

  function logOddsValues(players, background, rule) {
    var all = players.concat([background]);
    var masses = all.map(function (one) { return one.mass; });
    // A constant that is taken from every value changes no difference, and keeps the sums small.
    var middle = logOdds(players, background);
    var a = all.map(function (one) { return one.mass * (one.value - middle); });
    return ratioValues(a, masses, masses.map(function () { return 0; }), rule).real;
  }

  function probabilityValues(players, background, poles, rule) {
    var all = players.concat([background]);
    var masses = all.map(function (one) { return one.mass; });
    var im = all.map(function (one) { return one.mass * one.value; });
    var total = new Float64Array(players.length);
    poles.forEach(function (pole) {
      var re = masses.map(function (mass) { return pole.y * mass; });
      // r / (x - i y) = r i D / (y D + i N), whose real part is -r Im(D / Z).
      var found = ratioValues(masses, re, im, rule).imaginary;
      found.forEach(function (value, j) { total[j] -= pole.r * value; });
    });
    return total;
  }

  function logOdds(players, background) {
    var N = background.mass * background.value;
    var D = background.mass;
    players.forEach(function (player) {
      N += player.mass * player.value;
      D += player.mass;
    });
    return N / D;
  }

  /* The largest modulus of the log-odds when words are removed. The mean is largest for the words with the largest
   * values, as many as raise it. */
  function largestLogOdds(players, background) {
    var largest = 0;
    [1, -1].forEach(function (sign) {
      var N = background.mass * background.value;
      var D = background.mass;
      largest = Math.max(largest, sign * N / D);
      players.slice().sort(function (one, other) { return sign * (other.value - one.value); }).forEach(function (player) {
        N += player.mass * player.value;
        D += player.mass;
        largest = Math.max(largest, sign * N / D);
      });
    });
    return largest;
  }

  /* The prediction of a text, its words, and their exact Shapley values on both scales. */
  function explain(model, text) {
    var found = read(model, text);
    var players = found.players;
    if (players.length > MOST_WORDS) {
      throw new Error("This page explains at most " + MOST_WORDS + " different words; the library has no such limit.");
    }
    var largest = largestLogOdds(players, model.background);
    if (largest > model.largest) {
      throw new Error("The log-odds of this text reach " + largest.toFixed(1) + " when words are removed. This page " +
        "explains probabilities up to log-odds of " + model.largest.toFixed(1) + "; the library explains the log-odds instead.");
    }
    // The integrand is a polynomial in p of degree d - 1: this rule has no error.
    var rule = gauss(Math.ceil((players.length + 1) / 2));
    var x = logOdds(players, model.background);
    return {
      tokens: found.tokens,
      words: players.map(function (player) { return player.word; }),
      logOdds: x,
      probability: 1 / (1 + Math.exp(-x)),
      empty: 1 / (1 + Math.exp(-model.background.value)),
      logOddsValues: Array.from(logOddsValues(players, model.background, rule)),
      probabilityValues: Array.from(probabilityValues(players, model.background, model.poles, rule)),
    };
  }

  function load(stored) {
    var model = Object.assign({ ids: new Map() }, stored);
    stored.words.forEach(function (word, id) { model.ids.set(word, id); });
    // The special words are names and not words of a text.
    stored.special.forEach(function (word) { model.ids.delete(word); });
    return model;
  }

  // --- The page ---------------------------------------------------------------------------------------------------

  function element(parent, tag, name, text) {
    var made = document.createElement(tag);
    if (name) { made.className = name; }
    if (text !== undefined) { made.textContent = text; }
    parent.appendChild(made);
    return made;
  }

  function points(value) {
    return (value < 0 ? "\u2212" : "+") + Math.abs(100 * value).toFixed(1);
  }

  function show(place, model, text) {
    place.textContent = "";
    var start = performance.now();
    var result;
    try {
      result = explain(model, text);
    } catch (error) {
      element(place, "p", "", error.message);
      return;
    }
    var milliseconds = Math.max(1, Math.round(performance.now() - start));
    var side = result.probability < 0.5 ? 0 : 1;
    var shown = side ? result.probability : 1 - result.probability;
    var values = result.probabilityValues.map(function (value) { return side ? value : -value; });
    var named = model.outputs[side];
    element(place, "p", "headline", "This text is rated " + named + ": " + (100 * shown).toFixed(1) + "%");
    var colored = element(place, "p", "colored");
    var largest = Math.max.apply(null, values.map(Math.abs).concat([1e-12]));
    var at = 0;
    result.tokens.forEach(function (token) {
      colored.appendChild(document.createTextNode(text.slice(at, token.start)));
      var value = values[token.player];
      var mark = element(colored, "span", value < 0 ? "lowers" : "raises", text.slice(token.start, token.end));
      mark.style.setProperty("--strength", Math.abs(value) / largest);
      mark.title = (token.known ? "" : "unknown word, ") + points(value) + " points";
      at = token.end;
    });
    colored.appendChild(document.createTextNode(text.slice(at)));
    var table = element(place, "table", "values");
    values.map(function (value, j) { return [value, result.words[j]]; })
      .sort(function (one, other) { return Math.abs(other[0]) - Math.abs(one[0]); })
      .slice(0, 6)
      .forEach(function (row) {
        var line = element(table, "tr");
        element(line, "th", "", row[1]);
        element(line, "td", "number", points(row[0]));
        var bar = element(element(line, "td", "track"), "span", row[0] < 0 ? "lowers" : "raises");
        bar.style.width = 100 * Math.abs(row[0]) / largest + "%";
      });
    var empty = side ? result.empty : 1 - result.empty;
    element(place, "p", "facts", "Exact Shapley values in percentage points of \u201c" + named + "\u201d, computed in this page in " +
      milliseconds + " ms. Orange words raise the probability, blue words lower it. Together they lead from " +
      (100 * empty).toFixed(1) + "% without any word to " + (100 * shown).toFixed(1) + "%.");
  }

  function start() {
    var place = document.getElementById("exact-explainer");
    if (!place || place.firstChild || !window.demoModel) { return; }
    var model = load(window.demoModel);
    var label = element(place, "label", "", "Type a review of a film");
    var input = element(label, "textarea");
    input.rows = 2;
    input.value = model.example;
    var answer = element(place, "div", "answer");
    answer.setAttribute("aria-live", "polite");
    input.addEventListener("input", function () { show(answer, model, input.value); });
    show(answer, model, input.value);
  }

  window.exactExplainer = { load: load, explain: explain };
  if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", start); } else { start(); }
})();
