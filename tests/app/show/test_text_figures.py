"""Figures of one text for papers: colors, lines, places and titles."""

import numpy as np
import pytest

from attn_closed_form import load_demo_model
from attn_closed_form.__main__ import SENTENCE
from attn_closed_form.app.show import figures
from tests.bags import bag_model, slide

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: plots)")
matplotlib.use("Agg")

from matplotlib.figure import Figure  # noqa: E402

from attn_closed_form.app.show.figures import AGAINST, FOR  # noqa: E402
from attn_closed_form.app.show.text_figures import (  # noqa: E402
    PADDING,
    placed_words,
    plot_text,
    text_width,
)
from attn_closed_form.app.show.waterfall import waterfall  # noqa: E402
from tests.profiles import mostly_slow  # noqa: E402


@pytest.fixture(scope="module")
def found():
    return load_demo_model().explain(SENTENCE, ["shapley", "alpha-mean"])


def drawn_texts(ax):
    return [text.get_text() for text in ax.texts]


def test_every_word_is_drawn_in_order_with_its_color(found):
    (ax,) = found.plot(figure="text").axes
    written = "".join(drawn_texts(ax))
    assert written.replace(" ", "").endswith(SENTENCE.replace(" ", ""))
    assert "Thistextisratedpositive:66%" in written.replace(" ", "")
    boxes = {
        round(box.get_x(), 3): matplotlib.colors.to_hex(box.get_facecolor()) for box in ax.patches
    }
    colors = {1: "#{:02x}{:02x}{:02x}".format(*FOR), -1: "#{:02x}{:02x}{:02x}".format(*AGAINST)}
    e = found["shapley"]
    level = dict(zip(e.labels, figures.levels(e.strength).tolist(), strict=True))
    for word in placed_words(e, ax.figure.get_figwidth() * 72 - 20):
        if word.text.lower() in level and word.level:
            assert word.level == level[word.text.lower()]
            assert boxes[round(10 + word.x - 0.8, 3)] == colors[np.sign(word.level)]
    # Words against are underlined, and nothing else: the word in the meaning of the colors is one
    # of them.
    against = sum(word.level < 0 for word in placed_words(e, 476))
    assert len(ax.lines) == against + 1


@pytest.mark.parametrize(("inches", "full"), [(7.0, True), (1.5, False)])
def test_the_headline_becomes_smaller_where_it_is_too_long(found, inches, full):
    figure = Figure(figsize=(inches, 2.0))
    ax = figure.add_subplot()
    plot_text(found, ax)
    headline = ax.texts[0]
    assert (headline.get_fontsize() == 12) is full
    longest = 72 * inches - 2 * PADDING
    width = text_width(headline.get_text(), 12, bold=True) * headline.get_fontsize() / 12
    assert longest / 3 < width <= longest * (1 + 1e-9)


def test_lines_are_within_the_width_and_keep_line_breaks():
    text = "A fine film. " * 30 + "<br /><br />The end.\nA new line."
    e = load_demo_model().explain(text, "shapley")["shapley"]
    words = placed_words(e, 300.0)
    assert all(word.x + text_width(word.text.rstrip()) <= 300.0 for word in words)
    starts = {word.line: word.text for word in words if word.x == 0}
    assert "The" in starts.values() and "br" not in "".join(word.text for word in words)
    last = max(word.line for word in words)
    assert starts[last] == "A" and starts[last - 1] == "The"
    assert not any(word.text.isspace() and word.x == 0 for word in words)


def test_a_waterfall_ends_where_the_prediction_is(found):
    (ax,) = found.plot(figure="waterfall").axes
    bars = waterfall(found["shapley"]).bars
    assert [label.get_text() for label in ax.get_yticklabels()] == [bar.label for bar in bars]
    lengths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(lengths, [bar.right - bar.left for bar in bars if bar.kind != "end"])
    numbers = [text.replace("\N{MINUS SIGN}", "-") for text in drawn_texts(ax)]
    assert numbers == [bar.text for bar in bars]
    assert "the probability of positive" in ax.get_title(loc="left")
    assert [tick.get_text() for tick in ax.get_xticklabels()][-1] == "100%"


def test_sentences_have_their_scores_in_the_order_of_the_text():
    found = load_demo_model().explain("A slow start. A wonderful film! And a fine end.", "shapley")
    figure = found.plot(figure="sentences")
    (ax,) = figure.axes
    scores = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(scores, found.sentences().scores)
    # Bars of neighboring sentences do not overlap.
    assert all(bar.get_height() < 1 for bar in ax.patches)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "A slow start.",
        "A wonderful film!",
        "And a fine end.",
    ]
    assert "the probability of positive" in figure.get_suptitle()


def test_many_sentences_are_the_strongest():
    text = " ".join(f"A {word} film number {n}." for n in range(15) for word in ("fine", "bad"))
    figure = load_demo_model().explain(text, "shapley").plot(figure="sentences")
    assert len(figure.axes[0].patches) == 20
    assert "20 strongest of 30 sentences" in figure.get_suptitle()


def test_a_waterfall_needs_the_method_that_adds_up():
    found = load_demo_model().explain("A fine film", "leave-one-out")
    with pytest.raises(ValueError, match=r"^figure: "):
        found.plot(figure="waterfall")


@pytest.mark.parametrize("figure", ["text", "waterfall", "sentences", "removal", "table"])
@pytest.mark.parametrize("suffix", mostly_slow([".pdf", ".svg"], 1))
def test_figures_for_papers_are_vectors_without_a_legend(tmp_path, found, figure, suffix):
    path = tmp_path / f"figure{suffix}"
    drawn = found.plot(path, figure)
    assert path.read_bytes()[:4] in (b"%PDF", b"<?xm") and path.stat().st_size > 3000
    assert all(ax.get_legend() is None for ax in drawn.axes)


def test_a_notebook_shows_a_plot_without_a_magic_command(found):
    """Jupyter shows what `_repr_png_` returns, if there is one."""
    figure = found.plot(figure="waterfall")
    assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"
    assert bag_model().explain(slide(), "shapley").plot()._repr_png_()[:4] == b"\x89PNG"
