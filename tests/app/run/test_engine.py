"""`--engine jax`: the same columns and the same numbers as the core's, row by row, and a word where it cannot help."""

import sys

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs the corpus extra")
pytest.importorskip("jax", reason="needs the extra jax")

from attn_closed_form import TextClassifier, explain_table, load_demo_model
from attn_closed_form.app.cli.main import main
from attn_closed_form.app.explanations.explain import gather_evidence
from attn_closed_form.app.explanations.settings import Settings
from attn_closed_form.app.models.text import Vocabulary
from attn_closed_form.app.run import task as tasks
from attn_closed_form.app.run.task import RunError, Task, choose_engine
from attn_closed_form.attention import random_weights
from jax_model.device import engine as device
from tests.app.run.corpora import WORDS, texts, write

METHODS = [
    "shapley",
    "lime",
    "gradient-mean",
    "gradient-l1",
    "gradient-l2",
    "gradient-x-input",
    "leave-one-out",
]
AGREE = 1e-9
TEXTS = [
    *texts(12, seed=1),
    "",
    None,
    " ".join(f"word{i}" for i in range(80)),
    " ".join(WORDS * 5),
    "fine",
]


def model(T_max, C):
    words = Vocabulary(["[CLS]", "[UNK]", *WORDS])
    weights = random_weights(
        2, D=len(words), d_e=6, T_max=T_max, K=2, d_att=4, d_out=3, C=C, biases=True
    )
    return TextClassifier(weights, words, tuple(map(str, range(C))))


def differences(one, other):
    """The largest difference of numbers by column; every other column is compared as it is."""
    assert one.column_names == other.column_names
    found = {}
    for name in one.column_names:
        pairs = [
            (a, b) for a, b in zip(one[name].to_pylist(), other[name].to_pylist(), strict=True)
        ]
        assert all((a is None) == (b is None) for a, b in pairs), name
        if "double" not in str(one[name].type):
            assert one[name] == other[name], name
        else:
            found[name] = max(
                (np.abs(np.subtract(a, b)).max() for a, b in pairs if a is not None), default=0.0
            )
    return found


@pytest.mark.parametrize(
    ("explained", "settings"),
    [
        (load_demo_model(), {"scale": "logit"}),
        (load_demo_model(), {}),
        (model(60, 3), {}),
        (model(None, 3), {"output": "margin:0,2", "scale": "logit", "players": "positions"}),
    ],
    ids=["shipped", "shipped, probabilities", "positions, three classes", "margin"],
)
def test_both_engines_give_the_same_rows(explained, settings):
    core, jax = (
        explain_table(
            explained, {"text": TEXTS}, methods=METHODS, form="wide", engine=name, **settings
        )
        for name in ("numpy", "jax")
    )
    found = differences(core, jax)
    assert {name: worst for name, worst in found.items() if not worst <= AGREE} == {}
    # Both computed, so the numbers are not all the same to the last bit.
    assert found["shapley"] > 0 or found["lime"] > 0


def test_the_device_computes_all_that_it_can():
    shipped = load_demo_model()
    task = Task(methods=tuple(METHODS))
    units = [shipped.read(" ".join(words)) for words in (WORDS, WORDS[2:], WORDS[:9])]
    engine = device.Engine()
    for scale, expected in (
        ("logit", set(METHODS[:6])),
        ("probability", {"shapley", *METHODS[2:6]}),
    ):
        evidences = [gather_evidence(shipped, one, Settings(scale=scale)) for one in units]
        assert all(set(scores) == expected for scores in engine.scored(evidences, task.methods))


def test_a_document_that_cannot_keep_its_tol_goes_to_the_core(capsys, tmp_path):
    source = write(tmp_path / "in.parquet", texts(3))
    command = [
        "corpus",
        "run",
        str(source),
        str(tmp_path / "out"),
        "--engine",
        "jax",
        "--scale",
        "logit",
    ]
    assert main([*command, "--tol", "1e-15", "--workers", "1", "--progress", "none"]) == 0
    assert "3 of them by the core" in capsys.readouterr().out
    assert (
        main(
            [
                *command[:-2],
                "--scale",
                "logit",
                "--workers",
                "1",
                "--progress",
                "none",
                "--engine",
                "numpy",
            ]
        )
        == 1
    )
    assert "--engine was jax and is numpy" in capsys.readouterr().err


def test_float32_keeps_its_tolerance(monkeypatch):
    """An accelerator computes in float32 where `tol` allows it; here the processor stands in for one."""
    monkeypatch.setattr(device, "has_accelerator", lambda: True)
    tasks._engine.cache_clear()
    tol = device.FLOAT32_TOL
    core, jax = (
        explain_table(
            model(60, 3),
            {"text": texts(6)},
            form="wide",
            engine=name,
            tol=tol,
            methods=["shapley", "lime"],
        )
        for name in ("numpy", "jax")
    )
    for method in ("shapley", "lime"):
        for a, b, error in zip(core[method], jax[method], jax[f"{method}_error"], strict=True):
            assert np.abs(np.subtract(a.as_py(), b.as_py())).max() <= 2 * error.as_py()
    found = differences(core, jax)
    assert found["shapley"] > 1e-8, "float32 was not used"
    assert 0 < found["prediction"] <= 1e-13, "predictions are those of the device, in float64"
    tasks._engine.cache_clear()


def test_engines_that_cannot_help(monkeypatch):
    assert choose_engine(Task(), "jax").engine == "jax"
    with pytest.raises(RunError, match="explains probabilities; add --scale logit"):
        choose_engine(Task(methods=("lime",)), "jax")
    with pytest.raises(RunError, match="none of them was requested"):
        choose_engine(Task(methods=("banzhaf",)), "jax")
    with pytest.raises(RunError, match="ScoreTable"):
        choose_engine(Task(model="scores"), "jax")
    with pytest.raises(ValueError, match="numpy, jax, auto"):
        choose_engine(Task(), "torch")
    assert choose_engine(Task(methods=("gradient-l1",)), "jax").engine == "jax"
    # This machine's processor is no accelerator.
    assert choose_engine(Task(methods=("gradient-l1",)), "auto").engine == "numpy"


def test_without_jax(monkeypatch):
    tasks._engine.cache_clear()
    monkeypatch.setitem(sys.modules, "jax_model.device.engine", None)
    assert choose_engine(Task(), "auto").engine == "numpy"
    with pytest.raises(ImportError, match="needs JAX"):
        choose_engine(Task(), "jax")
    tasks._engine.cache_clear()
