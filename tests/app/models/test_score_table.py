"""Plain arrays go through everything that a text goes through: nothing after the game knows about
text.
"""

import json

import numpy as np
import pytest

from attn_closed_form import PooledGame, ScoreTable, banzhaf, lime_limit, shapley
from attn_closed_form.app.show.figures import headline
from attn_closed_form.app.show.terminal import numbers, table
from tests import enumeration
from tests.tolerances import assert_algebraic

RNG = np.random.default_rng(5)
TABLE = {
    "label": list("uvwxyz"),
    "s": RNG.normal(size=6).tolist(),
    "v": RNG.normal(size=6).tolist(),
}


def test_scores_are_those_of_the_game():
    game = PooledGame.from_scores(TABLE["s"], TABLE["v"], labels=TABLE["label"])
    found = ScoreTable().explain(TABLE)
    assert_algebraic(found["shapley"].scores, shapley(game))
    assert_algebraic(found["banzhaf"].scores, banzhaf(game))
    assert_algebraic(found["lime"].scores, lime_limit(game).coef)
    np.testing.assert_allclose(found["shapley"].scores, enumeration.shapley(game), atol=1e-9)
    mass = np.exp(TABLE["s"])
    assert_algebraic(found["alpha-mean"].scores, mass / mass.sum())
    assert found.prediction == pytest.approx(mass @ TABLE["v"] / mass.sum())
    assert "gradient-l1" not in found and "integrated-gradients" not in found


def test_a_method_of_the_inside_that_is_asked_for_is_an_error():
    with pytest.raises(ValueError, match=r"^methods: "):
        ScoreTable().explain(TABLE, "integrated-gradients")


def test_every_view_takes_it(tmp_path):
    found = ScoreTable().explain(TABLE)
    assert "score" in headline(found)
    assert table(found).count("\n") > len(found) and "u" in numbers(found, 3)
    assert json.loads(json.dumps(found.to_dict()))["labels"] == TABLE["label"]
    page = found.report(tmp_path / "r.html")
    assert page == (tmp_path / "r.html").read_text(encoding="utf-8") and ">u</i>" in page
    assert found["shapley"].top(1)[0][0] in TABLE["label"]
    pytest.importorskip("matplotlib", reason="needs the plots extra")
    for figure in ("table", "lime", "interactions"):
        found.plot(tmp_path / "f.png", figure)
        assert (tmp_path / "f.png").stat().st_size > 1000


def test_groups_outputs_and_replacements():
    raw = {
        "group": ["a", "b", "a", "c", "b", "b"],
        "s": TABLE["s"],
        "v_no": TABLE["v"],
        "v_yes": RNG.normal(size=6),
        "s_absent": np.zeros(6),
        "v_absent_no": np.zeros(6),
        "v_absent_yes": np.ones(6),
    }
    model = ScoreTable(
        outputs=("no", "yes"), bias=(0.5, -0.5), s_background=0.3, v_background=(1.0, 2.0)
    )
    found = model.explain(raw, "shapley", players="groups", output="margin:yes,no", scale="logit")
    assert found["shapley"].labels == ("a", "b", "c") and found["shapley"].spans[0] == (
        (0, 1),
        (4, 5),
    )
    value = np.asarray(raw["v_yes"]) - np.asarray(raw["v_no"])
    game = PooledGame.from_scores(raw["s"], value, raw["s_absent"], np.ones(6), 0.3, 1.0, bias=-1.0)
    expected = enumeration.shapley(game.merge([[0, 2], [1, 4, 5], [3]]))
    np.testing.assert_allclose(found["shapley"].scores, expected, atol=1e-9)
    assert abs(found["shapley"].baseline + expected.sum() - found.prediction) < 1e-9


def test_tables_in_files(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("label,s,v\nx,0.0,1.0\ny,1.0,-1.0\n", encoding="utf-8-sig")
    expected = ScoreTable().explain({"label": ["x", "y"], "s": [0, 1], "v": [1, -1]}, "shapley")[
        "shapley"
    ]
    assert (
        ScoreTable().explain(path, "shapley")["shapley"].scores.tolist() == expected.scores.tolist()
    )
    pa = pytest.importorskip("pyarrow", reason="needs the corpus extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        pa.table({"label": ["x", "y"], "s": [0.0, 1.0], "v": [1.0, -1.0]}), tmp_path / "s.parquet"
    )
    assert ScoreTable().explain(tmp_path / "s.parquet", "shapley")["shapley"].labels == ("x", "y")


@pytest.mark.parametrize(
    ("raw", "error", "message"),
    [
        ({"s": [0.0]}, ValueError, "^scores: "),
        ({"s": [0.0, 1.0], "v": [1.0]}, ValueError, "^v: "),
        ({"s": ["a"], "v": [1.0]}, ValueError, "^s: "),
        ({"s": [0.0], "v": [1.0], "w": [1.0]}, ValueError, "got w"),
        (
            {"s": [0.0], "v": [1.0], "s_absent": [1.0]},
            ValueError,
            "^s_absent, v_absent: ",
        ),
        ([1.0], TypeError, "^scores: "),
        ("scores.txt", FileNotFoundError, "scores.txt: no such file; expected a CSV"),
    ],
)
def test_bad_tables_are_named(raw, error, message):
    with pytest.raises(error, match=message):
        ScoreTable().explain(raw)
