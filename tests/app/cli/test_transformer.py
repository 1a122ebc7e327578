"""`attn-closed-form transformer`: a local folder and a text to every view, and one line for
whatever is wrong.
"""

import json
import shutil

import pytest

from attn_closed_form import TransformerClassifier
from attn_closed_form.app.cli.main import main
from tests.tiny_transformers import REVIEW, bert, need_torch

need_torch()
pytestmark = pytest.mark.filterwarnings("ignore::attn_closed_form.SlalomWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny"
    for part in bert():
        part.save_pretrained(path)
    return path


def test_a_text_to_a_table_a_report_and_a_file(folder, tmp_path, capsys):
    page = tmp_path / "r.html"
    scores = tmp_path / "s.csv"
    status = main(
        [
            "transformer",
            str(folder),
            REVIEW,
            "--samples",
            "60",
            "--html",
            str(page),
            "--csv",
            str(scores),
            "--top",
            "2",
        ]
    )
    out = capsys.readouterr()
    assert status == 0 and "SLALOM scores are those of the fitted SLALOM" in " ".join(
        out.out.split()
    )
    assert (
        "wonderful" in page.read_text(encoding="utf-8") and "sampled, ± standard error" in out.out
    )
    assert scores.read_text(encoding="utf-8-sig").startswith("player,")
    assert "Loading" not in out.err


def test_json_is_what_python_says(folder, capsys):
    options = [
        "--samples",
        "60",
        "--method",
        "shapley,leave-one-out",
        "--output",
        "odds:neutral",
        "--seed",
        "2",
        "--json",
    ]
    assert (
        main(
            [
                "transformer",
                str(folder),
                REVIEW,
                *options,
                "--players",
                "tokens",
                "--absent",
                "mask",
            ]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    model = TransformerClassifier.from_folder(folder, samples=60)
    found = model.explain(
        REVIEW,
        ["shapley", "leave-one-out"],
        output="odds:neutral",
        seed=2,
        players="tokens",
        absent="mask",
    )
    assert told == json.loads(json.dumps(found.to_dict()))
    assert (
        list(told["methods"]) == ["shapley", "leave-one-out"]
        and told["surrogate"]["model_calls"] <= 60
    )


def broken(folder, tmp_path, change):
    path = tmp_path / "broken"
    shutil.copytree(folder, path)
    change(path)
    return path


def config_with(**more):
    def change(path):
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        (path / "config.json").write_text(json.dumps({**config, **more}), encoding="utf-8")

    return change


def pickled(path):
    (path / "model.safetensors").rename(path / "pytorch_model.bin")


def without_tokenizer(path):
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (path / name).unlink(missing_ok=True)


def without_head(path):
    from safetensors.numpy import load_file, save_file

    kept = {
        k: v
        for k, v in load_file(path / "model.safetensors").items()
        if not k.startswith("classifier")
    }
    save_file(kept, path / "model.safetensors", metadata={"format": "pt"})


def cut_short(path):
    data = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(data[: len(data) // 2])


BROKEN = {
    "no config": (lambda path: (path / "config.json").unlink(), "without config.json"),
    "config no JSON": (
        lambda path: (path / "config.json").write_text("{"),
        "expected a JSON object",
    ),
    "code": (config_with(auto_map={"AutoModel": "evil.Model"}), "contains Python code to run"),
    "unknown kind": (config_with(model_type="nonesuch"), "does not load"),
    "pickle": (pickled, "a pickle can run any code"),
    "no weights": (
        lambda path: (path / "model.safetensors").unlink(),
        "expected weights as model.safetensors",
    ),
    "cut weights": (cut_short, "does not load"),
    "no tokenizer": (without_tokenizer, "of a tokenizer next to the model"),
    "no head": (without_head, "expected a model with a trained classification head"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_one_line(name, folder, tmp_path, capsys):
    change, message = BROKEN[name]
    path = broken(folder, tmp_path, change)
    assert main(["transformer", str(path), "a film", "--samples", "20"]) == 1
    out, err = capsys.readouterr()
    last = err.strip().splitlines()[-1]
    assert (
        last.startswith("attn-closed-form: error: ")
        and message in last
        and "Traceback" not in err
        and not out
    )


@pytest.mark.parametrize(
    ("arguments", "message", "status"),
    [
        (["nowhere", "a film"], "nowhere: expected a folder", 1),
        (["{}", ""], "an empty text", 1),
        (["{}", "film", "--output", "nonsense"], "output: expected one of", 1),
        (["{}", "film", "--players", "sentences"], "players: expected 'words' or 'tokens'", 1),
        (["{}", "film", "--absent", "unk"], "absent: expected 'deleted' or 'mask' or 'pad'", 1),
        (["{}", "film", "--device", "nonsense"], "device: expected one that torch can use", 1),
        (
            ["{}", "film", "--method", "gradient-x-input"],
            "'gradient-x-input' needs attention or gradients",
            1,
        ),
    ],
)
def test_wrong_arguments_are_one_line(arguments, message, status, folder, capsys):
    assert (
        main(["transformer", *[a.format(folder) for a in arguments], "--samples", "20"]) == status
    )
    err = capsys.readouterr().err.strip().splitlines()
    assert message in err[-1] and "Traceback" not in "".join(err)


@pytest.mark.parametrize("wrong", ["0", "five", "9"])
def test_too_few_samples(wrong, folder, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["transformer", str(folder), "film", "--samples", wrong])
    assert stop.value.code == 2 and "at least 10" in capsys.readouterr().err


def test_a_text_that_is_too_long_is_cut_with_a_warning(folder, capsys):
    assert (
        main(
            [
                "transformer",
                str(folder),
                "film " * 50,
                "--samples",
                "20",
                "--method",
                "leave-one-out",
            ]
        )
        == 0
    )
    assert (
        "text of 50 tokens: the model has room for 38; the last 12 are not read"
        in capsys.readouterr().err
    )
