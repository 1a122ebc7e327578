"""Explanations as objects of shap, lime and shapiq, checked with the packages themselves."""

import importlib.util
from itertools import combinations

import numpy as np
import pytest

from attn_closed_form import explain
from tests import enumeration
from tests.texts import HOSTILE, REVIEW, model_for

# The packages warn about their own dependencies.
pytestmark = pytest.mark.filterwarnings("ignore")


def needs(package):
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed (extra: interop)")


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def explained(text=REVIEW, method="shapley", **options):
    model = model_for("fine film bad", text)
    return explain(model, text, method, **options)[method]


@needs("shap")
def test_shap_holds_the_numbers_and_draws_them(pyplot):
    import shap

    e = explained()
    other = e.to_shap()
    assert "".join(other.data) == e.text and other.base_values == e.baseline
    for j, label in enumerate(e.labels):  # occurrences share a word's score
        own = [
            value
            for value, name in zip(other.values, other.feature_names, strict=True)
            if name == label
        ]
        assert len(own) == len(e.spans[j]) and sum(own) == pytest.approx(e.scores[j])
    page = shap.plots.text(other, display=False)
    assert "wonderful" in page
    shap.plots.bar(other, show=False)
    names = [label.get_text() for label in pyplot.gca().get_yticklabels()]
    strongest = e.top(1)[0][0]
    assert any(strongest in name for name in names)
    pyplot.close("all")
    shap.plots.waterfall(other, show=False)
    drawn = " ".join(text.get_text() for ax in pyplot.gcf().axes for text in ax.texts)
    labels = " ".join(
        label.get_text() for ax in pyplot.gcf().axes for label in ax.get_xticklabels()
    )
    assert f"{e.prediction:.3f}".replace("-", "−") in drawn + labels


@needs("lime")
def test_lime_holds_the_numbers_and_draws_them(pyplot):
    e = explained(method="lime")
    other = e.to_lime()
    listed = other.as_list()
    assert dict(listed) == dict(zip(e.labels, e.scores.tolist(), strict=True))
    assert [abs(score) for _, score in listed] == sorted(np.abs(e.scores), reverse=True)
    assert other.as_map()[1][0][1] == -other.as_map()[0][0][1]
    assert (
        other.predicted_value == e.prediction and other.min_value <= e.prediction <= other.max_value
    )
    assert other.intercept == {1: e.baseline, 0: -e.baseline}
    ends = [e.baseline + sum(score for score in e.scores if score * sign > 0) for sign in (-1, 1)]
    assert (other.min_value, other.max_value) == pytest.approx(
        (min(*ends, e.prediction), max(*ends, e.prediction))
    )
    figure = other.as_pyplot_figure()
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert sorted(widths) == sorted(e.scores)
    assert "exp.show_raw_text(" in other.as_html() and "exp.show_raw_text(" not in other.as_html(
        text=False
    )
    assert other.as_list(positions=True)[0][0].count("_") == 1


@needs("lime")
@pytest.mark.parametrize("name", HOSTILE)
def test_lime_pages_of_hostile_texts_have_no_way_out(name):
    e = explained(HOSTILE[name])
    page = e.to_lime().as_html()
    own = page[page.rindex("<script>") :]
    assert own.lower().count("</script>") == 1 and "<script>alert" not in own
    page.encode("utf-8")


@needs("lime")
def test_lime_highlights_by_javascripts_count():
    e = explained("🎬🎬 fine film")
    places = e.to_lime().domain_mapper.visualize_instance_html(
        [(1, 1.0), (2, 2.0)], 1, "div", "exp"
    )
    # Each emoji is two units of UTF-16.
    assert '["fine", 5, 1.0]' in places and '["film", 10, 2.0]' in places


@pytest.mark.slow
@needs("shapiq")
@pytest.mark.parametrize("absent", ["unk", "deleted"])
def test_shapiq_agrees_with_its_own_exact_computer(absent):
    import shapiq

    e = explained("a fine film but not good", absent=absent)
    d = len(e.labels)
    exact = shapiq.ExactComputer(lambda masks: e.game.value(masks.astype(bool)), n_players=d)
    for order, index in ((1, "SV"), (2, "SII")):
        theirs = exact(index, order=order)
        ours = e.to_shapiq(order)
        assert ours.index == index and ours.n_players == d and not ours.estimated
        assert ours.baseline_value == e.baseline
        assert set(ours.interaction_lookup) == {
            S for k in range(order + 1) for S in combinations(range(d), k)
        }
        assert (ours.min_order, ours.max_order) == (0, order)
        for players in theirs.interaction_lookup:
            if players:
                assert ours[players] == pytest.approx(theirs[players], abs=1e-9), players
    banzhaf = explained("a fine film but not good", "banzhaf", absent=absent)
    assert np.allclose(
        [banzhaf.to_shapiq()[(j,)] for j in range(d)],
        enumeration.banzhaf(banzhaf.game).astype(float),
        atol=1e-9,
    )


def test_shapiq_is_refused_what_it_has_no_name_for():
    with pytest.raises(ValueError, match=r"^explanation: "):
        explained(method="gradient-x-input").to_shapiq()
    with pytest.raises(ValueError, match=r"^order: "):
        explained().to_shapiq(3)
    with pytest.raises(ValueError, match=r"^index: "):
        explained(method="banzhaf").to_shapiq(2, "SII")


@needs("shapiq")
@pytest.mark.parametrize(
    ("method", "index"),
    [("shapley", "STII"), ("shapley", "FSII"), ("banzhaf", "BII"), ("banzhaf", "FBII")],
)
def test_every_index_of_order_two(method, index):
    import shapiq

    e = explained("a fine film but not good", method)
    exact = shapiq.ExactComputer(
        lambda masks: e.game.value(masks.astype(bool)), n_players=len(e.labels)
    )
    theirs = exact(index, order=2)
    ours = e.to_shapiq(2, index)
    assert ours.index == index
    for players in theirs.interaction_lookup:
        if players:
            assert ours[players] == pytest.approx(theirs[players], abs=1e-7), players


@pytest.mark.parametrize("package", ["shap", "lime", "shapiq"])
def test_a_missing_package_is_an_error_that_names_the_extra(monkeypatch, package):
    import sys

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    real = importlib.import_module

    def without(name, *rest):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(
        ImportError, match=rf"{package} could not be imported.*pip install .*\[interop\]"
    ):
        getattr(explained(), f"to_{package}")()
