// The word under the pointer, under the keyboard, or last touched, with its score in every method. Arrow keys move from
// word to word. Text goes in as textContent.
(function () {
  var data = JSON.parse(document.getElementById("data").textContent);
  var tip = document.getElementById("tip"), last;
  function add(tag, text) { var e = document.createElement(tag); e.textContent = text; tip.appendChild(e); }
  function show(word) {
    if (!word || word.tagName !== "I" || !word.closest(".live") || word === last) return;
    last = word;
    var j = data.player[Array.prototype.indexOf.call(word.parentNode.querySelectorAll("i"), word)];
    if (j === undefined) return;
    tip.textContent = "";
    add("b", data.players[j]);
    data.labels.forEach(function (label, m) {
      var s = data.scores[m][j];
      add("span", label + " " + (s > 0 && data.signed[m] ? "+" : "") + s);
    });
    tip.style.display = "block";
  }
  // One text for all methods: the words of the first text take the colors of the chosen one.
  var by = document.getElementById("by"), first = document.querySelector(".text.live");
  function color(m) {
    first.querySelectorAll("i").forEach(function (word, i) {
      var level = data.levels[m][data.player[i]], side = data.signed[m] ? (level > 0 ? "p" : "n") : "u";
      word.classList.remove.apply(word.classList, Array.from(word.classList).filter(function (c) { return c !== "k"; }));
      if (level) word.classList.add(side + Math.abs(level));
    });
  }
  if (by) {
    by.hidden = false;
    by.querySelector("select").addEventListener("change", function (event) { color(+event.target.value); });
  }
  document.querySelectorAll(".text.live").forEach(function (text) {
    var words = Array.from(text.querySelectorAll("i"));
    words.forEach(function (word, i) { word.tabIndex = i ? -1 : 0; });
    text.addEventListener("keydown", function (event) {
      var here = words.indexOf(document.activeElement);
      var to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: words.length - 1 }[event.key];
      if (here < 0 || to === undefined || !words[to]) return;
      event.preventDefault();
      words[here].tabIndex = -1;
      words[to].tabIndex = 0;
      words[to].focus();
    });
  });
  // The name in a reason lights up in the text.
  function light(target) {
    var name = target && target.classList && target.classList.contains("chip") ? target.textContent : null;
    first.querySelectorAll("i").forEach(function (word, i) {
      word.classList.toggle("lit", name !== null && data.players[data.player[i]] === name);
    });
  }
  document.querySelectorAll(".chip").forEach(function (chip) { chip.tabIndex = 0; });
  document.addEventListener("mouseover", function (event) { show(event.target); light(event.target); });
  document.addEventListener("click", function (event) { show(event.target); });
  document.addEventListener("focusin", function (event) { show(event.target); light(event.target); });
})();
