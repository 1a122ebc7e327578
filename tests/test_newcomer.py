"""A newcomer reaches an explanation of their own data with the commands of the README, at most three for each kind."""

import json
import shlex

import pytest

from attn_closed_form.cli.main import PROG, main
from tests.page_setups import your_bags, your_transformer
from tests.pages import ROOT, commands

#: What a newcomer has, and a file by which the commands for it are recognised in the README.
TASKS = {
    "text file": ("review.txt",),
    "CSV": ("reviews.csv", "model.npz"),
    "bag": ("slide.h5",),
    "transformer": ("my-model",),
}
NEEDS = {
    "CSV": ("jax", "optax", "sklearn"),
    "bag": ("torch", "h5py", "sklearn", "matplotlib"),
    "transformer": ("torch", "transformers"),
}
PRAISE, BLAME = ("wonderful", "moving", "brilliant", "warm"), ("dull", "silly", "awful", "slow")


def doors():
    """(pip command before it, command) of the section with the three doors."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Three doors")[1].split("\n## ")[0]
    install = None
    for _, words in commands(section):
        if words[0] == "pip":
            install = words
        else:
            yield install, words


def own_files():
    """A review, a table of labelled texts, and a network with a slide."""
    with open("review.txt", "w", encoding="utf-8") as file:
        file.write("Slow at first, but the end is wonderful.")
    with open("reviews.csv", "w", encoding="utf-8") as file:
        file.write("text,label\n")
        for i in range(40):
            for label, words in (("liked", PRAISE), ("disliked", BLAME)):
                file.write(f"The film is {words[i % 4]} and the actors are {words[i // 4 % 4]},{label}\n")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", TASKS)
def test_own_data_in_at_most_three_commands(task, tmp_path, monkeypatch, capsys):
    for package in NEEDS.get(task, ()):
        pytest.importorskip(package, reason=f"the door for a {task} uses {package}")
    monkeypatch.chdir(tmp_path)
    own_files()
    if task == "bag":
        your_bags()
    if task == "transformer":
        your_transformer()
    mine = [(pip, words) for pip, words in doors() if any(name in words for name in TASKS[task])]
    installs = {shlex.join(pip) for pip, _ in mine if pip}
    assert mine and len(installs) + len(mine) <= 3
    for _, words in mine:
        assert words[0] == PROG
        assert main(words[1:]) == 0, words
    said = capsys.readouterr().out
    if task == "bag":
        assert len(json.loads((tmp_path / "slide.geojson").read_text(encoding="utf-8"))["features"]) == 11
        assert (tmp_path / "map.png").is_file() and (tmp_path / "scores.csv").is_file()
    else:
        assert "exact to" in said
    if task == "CSV":
        assert "liked" in said
    if task in ("CSV", "transformer"):
        assert (tmp_path / "report.html").is_file()
