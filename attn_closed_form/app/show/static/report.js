// The word under the pointer, under the keyboard, or last touched, with its score in every method; the switch of methods;
// tables that are sorted and copied. Arrow keys move from word to word. Text goes in as textContent.
(function () {
  var texts = JSON.parse(document.getElementById("data").textContent);
  var tip = document.getElementById("tip"), last;
  function all(selector, within) { return Array.from((within || document).querySelectorAll(selector)); }
  function made(tag, text, kind) {
    var e = document.createElement(tag);
    e.textContent = text;
    if (kind) e.className = kind;
    return e;
  }
  // The words of a text in one block, and the data of that text. A row of another method has the data of the last text.
  function block(word) { return word.closest("[data-text]") || word.parentNode; }
  function dataOf(block) { return texts[block.dataset.text === undefined ? texts.length - 1 : block.dataset.text]; }
  function signed(score, sign) { return (score > 0 && sign ? "+" : "") + String(score).replace("-", "\u2212"); }
  function show(word) {
    if (!word || word.tagName !== "I" || !word.closest(".live") || word === last) return;
    last = word;
    var own = block(word), data = dataOf(own), j = data.player[all("i", own).indexOf(word)];
    if (j === undefined) return;
    tip.replaceChildren(made("b", data.players[j]));
    data.labels.forEach(function (label, m) { tip.append(made("span", label + " " + signed(data.scores[m][j], data.signed[m]))); });
    tip.style.display = "block";
  }
  // One text for all methods: its words take the colors of the chosen one, and the legend its numbers.
  function color(number, choice) {
    var own = document.querySelector('[data-text="' + number + '"]'), data = texts[number];
    var legend = document.querySelector('[data-legend="' + number + '"]');
    if (legend && !legend.original) legend.original = all(":scope > *", legend);
    own.classList.toggle("words", choice !== "sentences");
    all("i", own).forEach(function (word, i) {
      var level = choice === "sentences" ? 0 : data.levels[choice][data.player[i]];
      var side = choice !== "sentences" && data.signed[choice] ? (level > 0 ? "p" : "n") : "u";
      word.className = (level ? side + Math.abs(level) : "") + (word.classList.contains("k") ? " k" : "");
    });
    if (!legend) return;
    if (choice === "sentences") return legend.replaceChildren.apply(legend, legend.original);
    var cells = data.legends[choice].map(function (cell) { return made("span", cell[1].replace("-", "\u2212"), cell[0]); });
    legend.replaceChildren.apply(legend, cells.concat(" ", made("small", data.units[choice])));
  }
  all(".by").forEach(function (by) {
    by.hidden = false;
    by.querySelector("select").addEventListener("change", function (event) { color(by.dataset.by, event.target.value); });
  });
  all("[data-text]").forEach(function (text) {
    var words = all("i", text);
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
    var chip = target && target.closest && target.closest(".chip"), name = chip && chip.textContent;
    all("[data-text]").forEach(function (text) {
      var data = dataOf(text);
      all("i", text).forEach(function (word, i) { word.classList.toggle("lit", Boolean(chip) && data.players[data.player[i]] === name); });
    });
  }
  all(".chip").forEach(function (chip) { chip.tabIndex = 0; });
  document.addEventListener("mouseover", function (event) { show(event.target); light(event.target); });
  document.addEventListener("click", function (event) { show(event.target); });
  document.addEventListener("focusin", function (event) { show(event.target); light(event.target); });
  // A click on a heading sorts the rows, numbers from the largest; the button copies the table for a spreadsheet.
  function number(cell) { return parseFloat(cell.textContent.replace("\u2212", "-").replace(/,/g, "")); }
  function sort(table, column, button) {
    var body = table.tBodies[0], rows = Array.from(body.rows), sign = button.ariaSort === "descending" ? -1 : 1;
    rows.sort(function (a, b) {
      var x = a.cells[column], y = b.cells[column], by = number(y) - number(x);
      return sign * (isNaN(by) ? x.textContent.localeCompare(y.textContent) : by);
    });
    all("th[aria-sort]", table).forEach(function (head) { head.removeAttribute("aria-sort"); });
    button.ariaSort = sign > 0 ? "descending" : "ascending";
    body.append.apply(body, rows);
  }
  all("table.n thead").forEach(function (head) {
    var table = head.parentNode;
    all("th", head).forEach(function (title, column) {
      var button = made("button", title.textContent);
      button.type = "button";
      button.addEventListener("click", function () { sort(table, column, title); });
      title.replaceChildren(button);
    });
    var copy = made("button", "Copy table", "copy");
    copy.type = "button";
    copy.addEventListener("click", function () {
      var lines = Array.from(table.rows).map(function (row) {
        return Array.from(row.cells).map(function (cell) { return cell.textContent.replace("\u2212", "-"); }).join("\t");
      });
      navigator.clipboard.writeText(lines.join("\n")).then(function () { copy.textContent = "Copied"; });
    });
    if (navigator.clipboard) table.parentNode.after(copy);
  });
})();
