"""Plots show the numbers that they should, on axes that they are given."""

import importlib
import sys

import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form import explain
from attn_closed_form.attention import pooled_game
from tests.bags import bag_model, slide
from tests.profiles import mostly_slow
from tests.texts import HOSTILE, REVIEW, long_text, model_for

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: plots)")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

from attn_closed_form.app.show import drawing, plots  # noqa: E402
from attn_closed_form.app.show.figures import AGAINST, FOR, UNSIGNED  # noqa: E402
from attn_closed_form.app.show.plots import FIGURES, save_figure  # noqa: E402


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return model_for(REVIEW, K=4, C=2)


def axes_of_a_new_figure():
    return plt.figure().subplots()


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_lime_dots_are_errors_around_the_limit(model):
    ax = axes_of_a_new_figure()
    found = explain(model, REVIEW, "lime", output=0)
    plots.plot_lime(found, ax, runs=3, top=6)
    game = pooled_game(model.weights, model.vocabulary.encode(REVIEW), "words")
    exact = acf.lime_limit(game).coef
    order = np.argsort(-np.abs(exact), kind="stable")[:6]
    runs = np.stack([acf.lime_sample(game, seed=run).coef for run in range(3)])
    (dots,) = [line for line in ax.lines if len(line.get_xdata()) == 18]
    assert np.allclose(dots.get_ydata(), (runs - exact)[:, order].ravel(), atol=1e-9)
    assert labels(ax.xaxis) == [found.labels[j] for j in order]


def test_the_interaction_map_is_the_interactions_without_the_diagonal(model):
    found = explain(model, REVIEW, "shapley")
    ax = axes_of_a_new_figure()
    plots.plot_interactions(found, ax, top=5)
    e = found["shapley"]
    order = np.sort(np.argsort(-np.abs(e.scores), kind="stable")[:5])
    expected = e.interactions()[np.ix_(order, order)]
    np.fill_diagonal(expected, 0)
    assert np.array_equal(ax.images[0].get_array(), expected)
    assert labels(ax.yaxis) == [e.labels[j] for j in order]


def test_the_interaction_map_of_one_word_has_a_scale(model):
    ax = axes_of_a_new_figure()
    plots.plot_interactions(explain(model, REVIEW.split()[1], "shapley"), ax)
    assert ax.images[0].get_array().tolist() == [[0.0]] and ax.images[0].get_clim() == (-1.0, 1.0)


def test_the_table_is_orange_for_and_blue_against(model):
    ax = axes_of_a_new_figure()
    plots.plot_table(explain(model, REVIEW, ["shapley", "alpha-mean"]), ax)
    cells = ax.images[0].get_array()
    scores = explain(model, REVIEW, "shapley")["shapley"].scores
    red = cells[0, np.argmax(scores), 0]
    blue = cells[0, np.argmax(scores), 2]
    assert red > blue
    assert cells[0, np.argmin(scores), 2] > cells[0, np.argmin(scores), 0] or scores.min() >= 0
    assert labels(ax.yaxis) == ["Shapley", "Alpha-mean"]
    linked = axes_of_a_new_figure()
    plots.plot_table(
        acf.load_demo_model().explain("A fine film", ["shapley", "alpha-mean"]), linked
    )
    assert labels(linked.yaxis) == ["Shapley", "Alpha-mean (logit)"]


@pytest.mark.parametrize("figure", mostly_slow(FIGURES, 3))
@pytest.mark.parametrize("suffix", mostly_slow([".png", ".svg"], 1))
def test_every_figure_goes_to_a_file(tmp_path, model, figure, suffix):
    path = tmp_path / f"figure{suffix}"
    assert save_figure(explain(model, REVIEW), figure, path) == path
    assert path.read_bytes()[:4] == (b"\x89PNG" if suffix == ".png" else b"<?xm")
    assert plt.get_fignums() == []


@pytest.mark.filterwarnings("ignore:Glyph")  # the font of a machine may lack an emoji
@pytest.mark.parametrize(
    "name",
    mostly_slow(
        ["emoji", "template", "escape sequence", "one word", "unknown", "right to left"], 1
    ),
)
def test_hostile_texts_are_drawn(tmp_path, name):
    found = explain(model_for("fine film bad"), HOSTILE[name])
    for figure in ("table", "interactions"):
        path = save_figure(found, figure, tmp_path / figure)
        assert path.name == f"{figure}.png" and path.stat().st_size > 1000


def test_dollars_are_not_mathematics():
    assert drawing.plain_words(["$x^2$"]) == [r"\$x^2\$"]


def test_long_texts_show_the_strongest_and_name_each():
    text = long_text(200)
    model = model_for(text, T_max=256)
    (ax,) = plots.make_figure(explain(model, text, "alpha-mean")).axes
    shown = labels(ax.xaxis)
    assert 20 < len(shown) < 60 and all(shown)
    assert f"The {len(shown)} strongest of" in ax.get_title(loc="left")


def test_a_figure_whose_method_was_not_run_is_an_error():
    found = acf.ScoreTable().explain({"s": [0.0, 1.0], "v": [1.0, -1.0]}, "shapley")
    with pytest.raises(ValueError, match=r"^figure: "):
        plots.make_figure(found, "lime")


def test_an_unknown_figure_and_a_missing_matplotlib_are_errors(model, monkeypatch):
    found = explain(model, REVIEW, "shapley")
    with pytest.raises(ValueError, match=r"^figure: "):
        save_figure(found, "pie", "x.png")

    def missing(name):
        raise ModuleNotFoundError("No module named 'matplotlib'")

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.delitem(sys.modules, "matplotlib.figure")
    with pytest.raises(ImportError, match=r"pip install .*\[plots\]"):
        save_figure(found, "table", "x.png")


def test_removal_curves_are_drawn_above_the_certified_minimum():
    found = bag_model().explain(slide(), ["shapley", "alpha-mean"], output="tumor")
    ax = found.plot(figure="removal").axes[0]
    curve = found["shapley"].removal_curves()
    drawn = {line.get_label().partition(":")[0]: line for line in ax.get_lines()}
    assert {"Shapley", "Flip order"} <= set(drawn)
    np.testing.assert_allclose(drawn["Shapley"].get_ydata(), 100 * curve.deletion)
    written = [text.get_text() for text in ax.texts]
    assert len(written) == len(drawn) <= 4 and ax.get_legend() is None
    for label, line in drawn.items():
        (text,) = (text for text in ax.texts if text.get_text().startswith(f"{label}: "))
        assert text.get_color() == line.get_color()
        assert list(text.xy) in np.column_stack(line.get_data()).tolist()
    area = ax.collections[0].get_paths()[0].vertices
    assert area[:, 1].max() == pytest.approx(100 * curve.bounds.proved_min.max())
    assert ax.get_ylabel() == "probability of tumor (%)"


def test_figures_have_the_colors_of_the_palette():
    for color in (FOR, AGAINST, UNSIGNED):
        assert matplotlib.colors.to_hex(drawing.rgb(color)) == "#{:02x}{:02x}{:02x}".format(*color)
