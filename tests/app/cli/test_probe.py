"""`attn-closed-form probe`: every format of activations and tokens, files, and one line for what
goes wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_closed_form import ProbeClassifier, load_activations
from attn_closed_form.app.cli.main import main
from attn_closed_form.app.files.activations import load_tokens
from attn_closed_form.app.files.arrays import write_arrays

D = 6
TOKENS = ["Is", " it", " safe", "?", "\n", "No", "."]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    rng = np.random.default_rng(0)
    state = {
        "context_query.weight": 3 * rng.normal(size=(1, D)),
        "context_query.bias": rng.normal(size=1),
        "classifier.weight": rng.normal(size=(1, D)),
        "classifier.bias": rng.normal(size=1),
    }
    np.savez(folder / "probe.npz", **state)
    x = rng.normal(size=(len(TOKENS), D))
    np.save(folder / "acts.npy", x)
    np.savez(folder / "acts.npz", hidden_states=x[None], other=np.zeros((2, 2)))
    write_arrays({"layer": x}, folder / "acts.safetensors")
    (folder / "tokens.json").write_text(json.dumps(TOKENS), encoding="utf-8")
    chat = {"tokens": TOKENS, "turns": ["user"] * 5 + ["assistant"] * 2}
    (folder / "chat.json").write_text(json.dumps(chat), encoding="utf-8")
    lines = [token.replace("\n", "\\n") for token in TOKENS]
    (folder / "tokens.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def run(place: Path, *more: str, acts: str = "acts.npy", tokens: str = "tokens.json") -> int:
    files = [str(place / "probe.npz"), str(place / acts), "--tokens", str(place / tokens)]
    return main(["probe", *files, *more])


@pytest.mark.parametrize("acts", ["acts.npy", "acts.npz", "acts.safetensors"])
@pytest.mark.parametrize("tokens", ["tokens.json", "tokens.txt", "chat.json"])
def test_every_format_gives_the_same_scores(
    place: Path, acts: str, tokens: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(place, "--json", acts=acts, tokens=tokens) == 0
    answer = json.loads(capsys.readouterr().out)
    given = load_activations(place / "acts.npy", place / "tokens.json")
    probe = ProbeClassifier.from_state_dict(place / "probe.npz")
    expected = probe.explain(given, "shapley", tol=1e-6)["shapley"]
    assert answer["methods"]["shapley"]["scores"] == expected.scores.tolist()
    assert answer["text"] == "Is it safe?\nNo."
    assert set(answer["methods"]) == {"shapley", "alpha-mean"}


def test_torch_activations(place: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="writes a file of torch")
    x = np.load(place / "acts.npy")
    torch.save(torch.from_numpy(x).to(torch.bfloat16), tmp_path / "acts.pt")
    given = load_activations(tmp_path / "acts.pt", place / "tokens.txt")
    assert np.abs(given.features - x).max() < 0.02


def test_files_groups_and_the_check_of_the_logits(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = load_activations(place / "acts.npy", place / "chat.json")
    (logit,) = ProbeClassifier.from_state_dict(place / "probe.npz").predict_logits([given])[0]
    report = tmp_path / "report.html"
    options = ["--groups", "turns", "--html", str(report), f"--logits={logit}", "--reasons"]
    assert run(place, *options, tokens="chat.json") == 0
    printed = capsys.readouterr()
    assert "user" in printed.out and "assistant" in printed.out
    assert "checked: the logits differ by 0.0e+00" in printed.err
    assert "Certified reasons" in report.read_text(encoding="utf-8")
    assert run(place, f"--logits={logit + 1}") == 1
    assert "options that the file does not contain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ('["a"]', "expected 7 tokens, one per row of activations"),
        ('{"words": []}', "expected a list of tokens"),
        ("[1, 2]", "expected a list of tokens"),
        ("[", "expected JSON"),
        (json.dumps({"tokens": TOKENS, "turns": [1]}), "expected 7 turns"),
    ],
)
def test_wrong_tokens_are_one_line(
    place: Path, tmp_path: Path, tokens: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(tokens, encoding="utf-8")
    assert main(["probe", str(place / "probe.npz"), str(place / "acts.npy"), "--tokens", str(path)])
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_tokens_are_required_and_arrays_are_chosen_by_name(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["probe", str(place / "probe.npz"), str(place / "acts.npy")])
    assert "--tokens: expected the file of the tokens" in capsys.readouterr().err
    assert run(place, "--array", "other", acts="acts.npz") == 1
    assert "expected 2 tokens" in capsys.readouterr().err
    assert run(place, "--array", "nothing", acts="acts.npz") == 1
    assert "name: expected one of" in capsys.readouterr().err


def test_backslashes_of_text_files(tmp_path: Path) -> None:
    path = tmp_path / "tokens.txt"
    path.write_text("a\\n\n\\t\n\\\\n\nx\\y\n", encoding="utf-8")
    tokens: Any = ["a\n", "\t", "\\n", "x\\y"]
    assert load_tokens(path) == (tokens, None)
