"""Each of the five kinds of users gets from a clone to a result with at most three commands of the
README.
"""

import json
import shlex

import numpy as np
import pytest

from attn_closed_form import load_demo_model
from attn_closed_form.__main__ import SENTENCE
from attn_closed_form.app.cli.main import PROG, main
from proofs_check.__main__ import main as check
from tests.page_setups import your_bags, your_transformer
from tests.pages import ROOT, blocks, commands, run_page

README = (ROOT / "README.md").read_text(encoding="utf-8")
START = README.split("## Start from what you have")[1].split("\n## ")[0]
#: What a user has, and words by which the commands for it are recognized in the README.
TASKS = {
    "table of texts": {"reviews.csv", "model.npz"},
    "bag": {"slide.h5"},
    "transformer": {"my-model"},
    "theorem": {"proofs_check"},
}
NEEDS = {
    "table of texts": ("jax", "optax", "sklearn"),
    "bag": ("torch", "h5py", "sklearn", "matplotlib"),
    "transformer": ("torch", "transformers"),
    "theorem": ("jax", "flint"),
}
PRAISE = ("wonderful", "moving", "brilliant", "warm")
BLAME = ("dull", "silly", "awful", "slow")


def commands_for(task):
    """(pip command before it, command) of each command for a task."""
    install = None
    for _, words in commands(START):
        if words[0] == "pip":
            install = words
        elif TASKS[task] & set(words):
            yield install, words


def test_torch_is_installed_as_the_makefile_does():
    pin = next(
        word
        for word in (ROOT / "Makefile").read_text(encoding="utf-8").split()
        if word.startswith("torch==")
    )
    assert {pin} == {
        word
        for install, _ in commands_for("transformer")
        for word in install
        if word.startswith("torch")
    }
    assert f"pip install {pin}\n" in (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")


def labeled_texts():
    """A table of 80 texts with two labels."""
    with open("reviews.csv", "w", encoding="utf-8") as file:
        file.write("text,label\n")
        for i in range(40):
            for label, words in (("liked", PRAISE), ("disliked", BLAME)):
                file.write(
                    f"The film is {words[i % 4]} and the actors are {words[i // 4 % 4]},{label}\n"
                )


SETUPS = {
    "table of texts": labeled_texts,
    "bag": your_bags,
    "transformer": your_transformer,
    "theorem": dict,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", TASKS)
def test_a_result_in_at_most_three_commands(task, tmp_path, monkeypatch, capsys):
    for package in NEEDS[task]:
        pytest.importorskip(package, reason=f"a {task} needs {package}")
    monkeypatch.chdir(tmp_path)
    SETUPS[task]()
    path = list(commands_for(task))
    installs = {shlex.join(pip) for pip, _ in path}
    assert path and len(installs) + len(path) <= 3
    for _, words in path:
        if words[:3] == ["python", "-m", "proofs_check"]:
            assert check(words[3:]) == 0
        else:
            assert words[0] == PROG and main(words[1:]) == 0, words
    out = capsys.readouterr().out
    if task == "table of texts":
        assert "liked" in out and "Exact to" in out and (tmp_path / "report.html").is_file()
    elif task == "bag":
        assert (
            len(json.loads((tmp_path / "slide.geojson").read_text(encoding="utf-8"))["features"])
            == 11
        )
        assert (tmp_path / "map.png").is_file() and (tmp_path / "scores.csv").is_file()
    elif task == "transformer":
        assert (tmp_path / "report.html").is_file()
    else:
        assert "counterexample" in out and "Theorem 5.1" in out


def test_a_weighted_mean_in_one_command_and_four_lines():
    names, _ = run_page(START, "README.md")
    ((_, code),) = blocks(START, "python")
    assert "pip install ." in START and len([line for line in code.splitlines() if line]) == 4
    weights = names["weights"]
    effects = names["effects"]
    shares = names["shapley"](names["studies"])
    assert abs(shares.sum() - np.average(effects, weights=weights)) < 1e-9


def test_a_text_file_needs_no_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "review.txt").write_text(
        "Slow at first, but the end is wonderful.", encoding="utf-8"
    )
    assert f"`{PROG} explain review.txt`" in START
    assert main(["explain", "review.txt"]) == 0
    assert "wonderful" in capsys.readouterr().out


def test_the_readme_and_the_demonstration_explain_one_sentence():
    assert SENTENCE in blocks(README, "python")[0][1]
    assert (
        f"all {2 ** len(load_demo_model().explain(SENTENCE, 'shapley')['shapley'].labels):,} "
        "coalitions" in README
    )
