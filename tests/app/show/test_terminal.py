"""The table of the terminal reads in color and without, fits its width, and cannot be steered by a
text.
"""

import dataclasses
import io
import re

import numpy as np
import pytest

from attn_closed_form import METHODS, explain
from attn_closed_form.app.explanations.methods import FAMILIES
from attn_closed_form.app.show import terminal
from attn_closed_form.app.show.figures import full_headline, levels
from attn_closed_form.app.show.sanitize import escape, visible, width
from attn_closed_form.app.show.terminal import answer, mark, numbers, table, use_color
from tests.texts import HOSTILE, REVIEW, long_text, model_for

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def found_for(text, methods=None, **options):
    return explain(model_for("fine film bad", text), text, methods, **options)


def test_marks_say_sign_and_strength():
    found = found_for(REVIEW, "shapley")
    e = found["shapley"]
    lines = table(found, 10_000).splitlines()
    level = levels(e.strength)
    expected = [REVIEW[p.start : p.end] + mark(level[p.player], True) for p in e.occurrences]
    assert lines[0].split() == ["Shapley", *expected]
    strongest = int(np.argmax(np.abs(e.scores)))
    assert abs(level[strongest]) == 4 and np.sign(level[strongest]) == np.sign(e.scores[strongest])


def test_colors_paint_the_same_words_and_leave_no_marks():
    found = found_for(REVIEW, "shapley")
    e = found["shapley"]
    painted = table(found, 10_000, color=True).splitlines()[0]
    assert ANSI.sub("", painted).split() == [
        "Shapley",
        *(REVIEW[p.start : p.end] for p in e.occurrences),
    ]
    level = levels(e.strength)
    assert painted.count("38;5;") == sum(level[p.player] != 0 for p in e.occurrences)


@pytest.mark.parametrize("columns", [40, 80, 133])
@pytest.mark.parametrize("color", [False, True])
def test_lines_are_wrapped_and_lose_no_word(columns, color):
    text = long_text(40)
    found = found_for(text, ["shapley", "leave-one-out"])
    shown = ANSI.sub("", table(found, columns, color))
    assert max(map(width, shown.splitlines())) <= columns
    words = [re.sub(r"[-+*]+$", "", word) for word in shown.split("\n\n")[0].split()]
    assert words == ["Shapley", *text.split(), "Leave-one-out", *text.split()]


@pytest.mark.parametrize("color", [False, True])
def test_everything_fits_forty_columns(color):
    found = found_for(REVIEW)
    for shown in (table(found, 40, color), answer(found, 40, color), numbers(found, 5, 40)):
        assert max(map(width, ANSI.sub("", shown).splitlines())) <= 40


@pytest.mark.parametrize("columns", range(40, 200, 7))
def test_numbers_fit_the_terminal(columns):
    found = found_for(REVIEW)
    assert max(map(width, numbers(found, 5, columns).splitlines())) <= columns


def test_the_answer_says_what_adds_up_to_the_prediction():
    found = found_for(REVIEW, "shapley")
    top, words, bars, *reasons = answer(found, 100).split("\n\n")
    assert [" ".join(text.split()) for text in reasons] == found.reasons().sentences()
    assert top == f"{full_headline(found)}\n{found.explained}" and words.split()[0].startswith("A")
    numbers_shown = [
        float(line.split("  ")[1])
        for line in (re.sub("   +", "  ", line) for line in bars.splitlines())
    ]
    assert numbers_shown[-1] == pytest.approx(sum(numbers_shown[:-1]), abs=2e-3)
    assert numbers_shown[-1] == pytest.approx(found.prediction, abs=1e-4)


def test_methods_that_look_alike_share_a_row_and_families_explain_themselves():
    found = found_for(REVIEW, ["shapley", "lime", "alpha-mean"])
    shown = " ".join(table(found, 80).split())
    for family in ("attributions", "attention"):
        meaning = FAMILIES[family][1].replace("player", "word")
        assert meaning in shown and "player" in FAMILIES[family][1]
    same = np.array_equal(levels(found["shapley"].strength), levels(found["lime"].strength))
    assert ("Shapley, LIME" in shown) == same


def test_unknown_and_unseen_words_are_named():
    model = model_for("fine film", T_max=4)
    with pytest.warns(UserWarning, match="not read"):
        found = explain(model, "zyx film fine film film", "alpha-mean")
    shown = table(found, 100)
    assert "zyx[UNK]" in shown and "… 2 more not read" in shown
    assert "[UNK]: not in the vocabulary" in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_cannot_steer_the_terminal(name):
    shown = table(found_for(HOSTILE[name], ["shapley", "alpha-mean"]), 80)
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown
    )
    shown.encode("utf-8")


def test_the_guaranteed_error_is_the_largest_of_its_methods():
    found = found_for(REVIEW, ["shapley", "banzhaf"])
    for small, large in (("shapley", "banzhaf"), ("banzhaf", "shapley")):
        found[small], found[large] = (
            dataclasses.replace(found[n], error=e) for n, e in ((small, 2e-13), (large, 7e-9))
        )
        assert "guaranteed error: 7e-09 (Shapley, Banzhaf)" in " ".join(table(found).split())


def test_a_guaranteed_error_is_printed_with_its_methods():
    found = found_for(REVIEW, ["shapley", "alpha-mean"])
    assert f"guaranteed error: {found['shapley'].error:.0e} (Shapley)" in table(found)
    assert "guaranteed" not in table(found_for(REVIEW, "alpha-mean"))


def test_the_legend_has_the_marks_that_are_used():
    for methods, signed, unsigned in (
        ("shapley", 1, 0),
        ("alpha-mean", 0, 1),
        (["shapley", "alpha-mean"], 1, 1),
    ):
        legend = table(found_for(REVIEW, methods))
        assert (legend.count("raises "), legend.count("strong, without sign")) == (
            signed,
            unsigned,
        )


def test_numbers_are_those_of_the_strongest_words():
    found = found_for(REVIEW, ["shapley", "leave-one-out"])
    rows = list(found.values())
    lines = numbers(found, 2).splitlines()
    assert lines[0].split() == ["shapley", "leave-one-out"]
    for line, (word, score) in zip(lines[1:], rows[0].top(2), strict=True):
        name, first, second = line.split()
        assert name == word and float(first) == pytest.approx(score, rel=1e-5)
        assert float(second) == pytest.approx(rows[1].scores[rows[1].labels.index(word)], rel=1e-5)


def test_strength_and_levels():
    assert METHODS["slalom-importance"].strength(np.array([-3.0, 0.0, 1.0])).tolist() == [
        0.0,
        0.75,
        1.0,
    ]
    assert METHODS["shapley"].strength(np.zeros(2)).tolist() == [0.0, 0.0]
    assert METHODS["slalom-importance"].strength(np.ones(2)).tolist() == [0.0, 0.0]
    assert levels(np.array([0.0, 0.124, 0.125, -0.3, 0.5, -0.75, 1.0])).tolist() == [
        0,
        0,
        1,
        -2,
        3,
        -4,
        4,
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "choice", "expected"),
    [
        (Terminal(), {}, "auto", True),
        (io.StringIO(), {}, "auto", False),
        (Terminal(), {"NO_COLOR": "1"}, "auto", False),
        (Terminal(), {"TERM": "dumb"}, "auto", False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, "auto", True),
        (io.StringIO(), {"NO_COLOR": "1"}, "always", True),
        (Terminal(), {}, "never", False),
    ],
)
def test_when_to_color(monkeypatch, stream, environment, choice, expected):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert use_color(stream, choice) is expected


def test_visible_and_escape():
    assert visible("a\tb\r\nc") == "a b c"
    assert visible("\x1b\u202e\ud800") == "\ufffd" * 3
    assert escape("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"
    assert escape("a" * 100, 11) == "aaaaa…aaaaa"
    assert width("映画é") == 5


def luminance(color):
    """The relative luminance of one of the 256 colors of a terminal."""
    if color >= 232:  # a gray
        parts = [8 + 10 * (color - 232)] * 3
    else:
        steps = (0, 95, 135, 175, 215, 255)
        index = color - 16
        parts = [steps[index // 36], steps[index // 6 % 6], steps[index % 6]]
    linear = [
        p / 255 / 12.92 if p / 255 <= 0.03928 else ((p / 255 + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_words_are_painted_in_the_colors_of_their_side():
    styles = set()
    for level, signed, side in (
        (1, True, "for"),
        (2, True, "for"),
        (4, True, "for"),
        (-2, True, "against"),
        (3, False, "unsigned"),
    ):
        painted, columns = terminal.printed_word("film", level, signed, color=True)
        assert f"38;5;{terminal.TERMINAL[side]}m" in painted and columns == 4
        styles.add(painted)
    assert len(styles) == 5


def test_colors_read_on_dark_and_light_terminals():
    for color in terminal.TERMINAL.values():
        light = luminance(color)
        assert min((light + 0.05) / 0.05, 1.05 / (light + 0.05)) > 3.8


def test_a_table_of_very_many_classes_is_cut():
    line = {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "texts": 4}
    scores = {
        "accuracy": 0.75,
        "macro_f1": 2 / 3,
        "classes": {f"class {i}": line for i in range(100)},
    }
    shown = terminal.scores_table(scores)
    assert (
        shown.count("66.7%") == 1 + terminal.MOST_LISTED
        and "class 39" in shown
        and "class 40" not in shown
    )
