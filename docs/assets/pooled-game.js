/* The interactive figure of theory/two-integrals: a pooled game of three players, by enumeration. */
(function () {
  "use strict";
  var SVG = "http://www.w3.org/2000/svg";
  var settings = { a: 3, v: 1, p: 0.7 }; // at 0.5 all coalitions are equally probable
  var ranges = {
    a: { label: "mass of player 1", min: 0.1, max: 10, step: 0.1 },
    v: { label: "value of player 1", min: -2, max: 2, step: 0.05 },
    p: { label: "p", min: 0, max: 1, step: 0.01 },
  };

  function players() {
    return [[settings.a, settings.v], [1, -1], [2, 0.5]];
  }
  function value(mask) {
    var mass = 1, sum = 0; // the background has mass 1 and value 0
    players().forEach(function (player, j) {
      if (mask & (1 << j)) { mass += player[0]; sum += player[0] * player[1]; }
    });
    return sum / mass;
  }
  function size(mask) {
    return (mask & 1) + ((mask >> 1) & 1) + ((mask >> 2) & 1);
  }
  function probability(mask, p) {
    return Math.pow(p, size(mask)) * Math.pow(1 - p, 3 - size(mask));
  }
  function delta(p) {
    var total = 0;
    for (var others = 0; others < 8; others += 2) {
      var n = size(others);
      total += Math.pow(p, n) * Math.pow(1 - p, 2 - n) * (value(others | 1) - value(others));
    }
    return total;
  }
  function shapley() {
    // Two Gauss nodes are exact: delta has degree two.
    var r = 0.5 / Math.sqrt(3);
    return (delta(0.5 - r) + delta(0.5 + r)) / 2;
  }
  function name(mask) {
    var members = [0, 1, 2].filter(function (j) { return mask & (1 << j); });
    return "{" + members.map(function (j) { return j + 1; }).join(", ") + "}";
  }
  function signed(x) {
    return (x < 0 ? "\u2212" : "+") + Math.abs(x).toFixed(3);
  }
  function element(tag, attributes, text) {
    var made = document.createElementNS(SVG, tag);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    if (text !== undefined) { made.textContent = text; }
    return made;
  }

  function draw(picture, result) {
    while (picture.firstChild) { picture.removeChild(picture.firstChild); }
    var x = function (p) { return 315 + 245 * p; };
    var low = Math.min(0, delta(0), delta(0.5), delta(1)), high = Math.max(0, delta(0), delta(0.5), delta(1));
    var unit = 150 / Math.max(high - low, 1e-9);
    var y = function (d) { return 20 + (high - d) * unit; };
    var path = [];
    for (var i = 0; i <= 50; i++) { path.push(x(i / 50).toFixed(1) + " " + y(delta(i / 50)).toFixed(1)); }
    var area = "M" + x(0) + " " + y(0) + "L" + path.join("L") + "L" + x(1) + " " + y(0) + "Z";
    picture.appendChild(element("path", { d: area, "class": "area" }));
    picture.appendChild(element("path", { d: "M" + path.join("L"), "class": "curve" }));
    picture.appendChild(element("path", { d: "M" + x(0) + " " + y(0) + "H" + x(1), "class": "axis" }));
    picture.appendChild(element("circle", { cx: x(settings.p), cy: y(delta(settings.p)), r: 5, "class": "point" }));
    [low, 0, high].forEach(function (tick, k, ticks) {
      if (ticks.indexOf(tick) < k) { return; }
      var label = tick.toFixed(2).replace("-", "\u2212");
      picture.appendChild(element("text", { x: x(0) - 6, y: y(tick) + 4, "text-anchor": "end" }, label));
    });
    picture.appendChild(element("text", { x: x(0), y: 205 }, "p = 0"));
    picture.appendChild(element("text", { x: x(1), y: 205, "text-anchor": "end" }, "p = 1"));
    picture.appendChild(element("text", { x: x(0.5), y: 205, "text-anchor": "middle" }, "\u0394\u2081(p)"));
    for (var mask = 0; mask < 8; mask++) {
      var top = 12 + mask * 24, share = probability(mask, settings.p);
      picture.appendChild(element("rect", { x: 130, y: top, width: 130 * share, height: 14, "class": "share" }));
      picture.appendChild(element("text", { x: 0, y: top + 12 }, name(mask)));
      picture.appendChild(element("text", { x: 122, y: top + 12, "text-anchor": "end" }, signed(value(mask))));
    }
    picture.appendChild(element("text", { x: 130, y: 215 }, "probability at p"));
    result.textContent = "\u0394\u2081(" + settings.p.toFixed(2) + ") = " + signed(delta(settings.p)) +
      ",   \u03c6\u2081 = shaded area = " + signed(shapley());
  }

  function start() {
    var place = document.getElementById("pooled-game-figure");
    if (!place || place.firstChild) { return; }
    var picture = element("svg", { viewBox: "0 0 570 222", role: "img" });
    picture.setAttribute("aria-label", "Values and probabilities of eight coalitions, and the difference that player 1 makes");
    var result = document.createElement("p");
    result.setAttribute("aria-live", "polite");
    Object.keys(ranges).forEach(function (key) {
      var label = document.createElement("label"), input = document.createElement("input");
      var shown = document.createElement("output"), range = ranges[key];
      input.type = "range";
      input.min = range.min; input.max = range.max; input.step = range.step; input.value = settings[key];
      shown.textContent = String(settings[key]);
      input.addEventListener("input", function () {
        settings[key] = Number(input.value);
        shown.textContent = input.value;
        draw(picture, result);
      });
      label.appendChild(document.createTextNode(range.label + " "));
      label.appendChild(input);
      label.appendChild(shown);
      place.appendChild(label);
    });
    place.appendChild(picture);
    place.appendChild(result);
    draw(picture, result);
  }
  if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", start); } else { start(); }
})();
