"""The command line does what Unix tools do: streams, exit codes, pipes, one-line errors."""

import dataclasses
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import attn_closed_form as acf
from attn_closed_form.__main__ import demo, shapley_by_enumeration
from attn_closed_form.app.cli import COMMANDS
from attn_closed_form.app.cli.main import PROG, main, program
from attn_closed_form.app.explanations.methods import DEFAULT_METHODS
from attn_closed_form.app.files.open_model import DEMO_MODEL
from attn_closed_form.app.show.figures import full_headline
from attn_closed_form.app.show.terminal import comparison_text, reasons_text
from tests import enumeration
from tests.profiles import mostly_slow
from tests.texts import HOSTILE, REVIEW, long_text, model_for, six_heads

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def model_file(tmp_path):
    model = model_for(REVIEW, T_max=24)
    acf.save_model(model, tmp_path / "model.npz")
    return str(tmp_path / "model.npz")


def shell(*arguments, stdin="", **options):
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "attn_closed_form", *arguments],
        cwd=ROOT,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        check=False,
        **options,
    )


@pytest.mark.parametrize("loose", ["shapley", "banzhaf"])
def test_the_accuracy_that_is_printed_is_that_of_the_least_accurate_method(
    capsys, monkeypatch, loose
):
    method = acf.METHODS[loose]

    def score(evidence):
        return method.score(evidence)._replace(error=3e-4)

    monkeypatch.setitem(acf.METHODS, loose, dataclasses.replace(method, score=score))
    assert main(["explain", REVIEW]) == 0
    assert "\nExact to 3e-04." in capsys.readouterr().out


def test_explain_prints_one_row_per_method(capsys):
    assert main(["explain", REVIEW]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "\x1b" not in out
    found = acf.explain(acf.load_demo_model(), REVIEW)
    assert out.startswith(full_headline(found) + "\n")
    assert found.explained in out and found.scale.level(found.prediction) in out
    assert "LIME" not in out and "Exact to" in out
    assert main(["explain", REVIEW, "--compare"]) == 0
    out = capsys.readouterr().out
    for e in found.values():
        assert e.info.label in out
    assert "sampled" not in out and "guaranteed error" in out


def test_color_can_be_forced_and_the_width_is_the_terminals(capsys, monkeypatch):
    main(["explain", REVIEW, "--color", "always", "--method", "shapley"])
    assert "\x1b[1;7;38;5;" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "45")
    main(["explain", REVIEW, "--method", "shapley"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 45


@pytest.mark.parametrize(
    "arguments",
    [
        ["--method", "loo,shapley"],
        ["--method", "leave-one-out", "--method", "shapley"],
        ["--method", "loo, shapley"],
    ],
)
def test_json_is_all_that_is_printed(capsys, arguments):
    assert main(["explain", REVIEW, "--json", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    data = json.loads(out)
    found = acf.explain(acf.load_demo_model(), REVIEW, ["leave-one-out", "shapley"])
    assert list(data["methods"]) == ["leave-one-out", "shapley"]
    assert data["methods"]["shapley"]["scores"] == found["shapley"].scores.tolist()
    assert data["text"] == REVIEW and data["prediction"] == found["leave-one-out"].prediction
    assert [REVIEW[a:b] for a, b in data["spans"][0]] == ["A", "a"]


def test_every_option_of_the_game_arrives(capsys):
    asked = "--players positions --absent deleted --tol 1e-6 --method lime-sampled --seed 3"
    main(["explain", REVIEW, "--json", *asked.split()])
    data = json.loads(capsys.readouterr().out)
    settings = {"players": "positions", "absent": "deleted", "tol": 1e-6, "seed": 3}
    e = acf.load_demo_model().explain(REVIEW, "lime-sampled", **settings)
    assert data["methods"]["lime-sampled"]["scores"] == e["lime-sampled"].scores.tolist()
    assert (data["players"], data["absent"]) == ("positions", "deleted")


def test_a_file_a_pipe_and_a_text_say_the_same(tmp_path, capsys):
    path = tmp_path / "review.txt"
    path.write_text(REVIEW, encoding="utf-8-sig")
    outputs = []
    for arguments in ([REVIEW], [str(path)], ["--file", str(path)], ["--text", REVIEW]):
        assert main(["explain", *arguments, "--json", "--method", "leave-one-out"]) == 0
        outputs.append(capsys.readouterr().out)
    for arguments in (["-"], []):
        run = shell("explain", *arguments, "--json", "--method", "leave-one-out", stdin=REVIEW)
        assert run.returncode == 0 and run.stderr == b""
        outputs.append(run.stdout.decode().replace(os.linesep, "\n"))
    assert len(set(outputs)) == 1


def refused(capsys, *arguments):
    """What a command says that is wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_table_is_not_explained_as_one_text(tmp_path, capsys):
    path = tmp_path / "reviews.csv"
    path.write_text("text\na fine film\n", encoding="utf-8")
    assert "corpus run" in refused(capsys, "explain", str(path))
    assert main(["explain", "--file", str(path), "--json", "--method", "leave-one-out"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == ["text", "a", "fine", "film"]


@pytest.mark.parametrize("name", ["x.xlsx", "x.parquet", "x.json"])
def test_a_table_of_words_is_csv(tmp_path, capsys, name):
    assert "--csv" in refused(capsys, "explain", REVIEW, "--csv", str(tmp_path / name))
    assert not list(tmp_path.iterdir())


def test_a_text_that_is_also_a_file_name(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("film").write_text("wonderful")
    Path("folder").mkdir()
    main(["explain", "film", "--json", "--method", "leave-one-out"])
    assert json.loads(capsys.readouterr().out)["text"] == "wonderful"
    main(["explain", "--text", "film", "--json", "--method", "leave-one-out"])
    assert json.loads(capsys.readouterr().out)["text"] == "film"
    assert main(["explain", "folder"]) == 1
    assert "folder: is a directory; use --text to explain it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", ""], "text: expected at least one word, got an empty text"),
        (["explain", "..."], "text: expected at least one word, got '...'"),
        (["explain", "review.txt"], "review.txt: no such file; use --text to explain it as a text"),
        (["explain", "--file", "none"], "none: No such file or directory"),
        (["explain", "film", "--model", "none.npz"], "none.npz: no such file"),
        (["explain", "film", "--model", "none.bin"], "none.bin: no such file"),
        (
            ["explain", "film", "--output", "7"],
            "output: expected one of negative, positive, or an index below 2, got 7",
        ),
        (
            ["explain", "film", "--players", "letter"],
            "players: expected 'words' or 'positions', got 'letter'",
        ),
        (
            ["explain", "film", "--html", "no/such/folder/x.html"],
            "no/such/folder/x.html: expected a file name in an",
        ),
        (["model", "none.npz"], "none.npz: no such file"),
    ],
)
def test_errors_are_one_line_and_status_1(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{PROG}: error: ") and err.count("\n") == 1 and message in err


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["explain", "film", "--bogus"], ["explain", "film", "--method", "shap"],
     ["explain", "film", "--text", "film"], ["explain", "film", "--tol", "0"], ["explain", "film", "--seed", "-1"],
     ["explain", "film", "--figure", "lime"],
     ["explain", "film", "--top", "0"],
     ["methods", "more"]],
)  # fmt: skip
def test_wrong_usage_is_status_2(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert (
        out == ""
        and err.startswith("attn-closed-form")
        and ": error: " in err
        and err.count("\n") == 1
    )


def test_without_arguments_it_says_in_five_lines_what_it_can_do(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    for line in lines[1:-1]:
        assert line.split()[1] in COMMANDS


def test_nothing_to_read_from_a_terminal_is_wrong_usage(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(SystemExit) as stop:
        main(["explain"])
    assert stop.value.code == 2 and "expected a TEXT, a FILE or -" in capsys.readouterr().err


@pytest.mark.slow  # a new process
def test_bytes_that_are_no_text_are_an_error():
    run = shell("explain", "-", stdin=b"fine \xff film")
    assert run.returncode == 1 and run.stdout == b""
    assert b"standard input: expected UTF-8 text, got byte 0xff at 5" in run.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["xplain", "fine"], "'explain'"),
        (["explain", "fine", "--compere"], "'--compare'"),
        (["explain", "fine", "--method", "shapely"], "'shapley'"),
        (["explain", "fine", "--output", "postive"], "'positive'"),
        (["explain", "fine", "--players", "position"], "'positions'"),
    ],
)
def test_a_mistyped_name_gets_the_nearest_one(capsys, words, meant):
    try:
        status = main(words)
    except SystemExit as exit:
        status = exit.code
    assert status in (1, 2) and f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.slow  # a shell
def test_the_completion_script_completes_commands_and_options():
    script = shell("--completion")
    assert script.returncode == 0
    typed = {"attn-closed-form ex": "explain", "attn-closed-form explain --rea": "--reasons"}
    for line, expected in {**typed, "attn-closed-form corpus s": "summary"}.items():
        ask = (
            f"COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; _attn_closed_form; echo "
            f"${{COMPREPLY[@]}}"
        )
        code = f"{script.stdout.decode()}\n{ask}"
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [expected], done.stderr


def test_what_is_not_seen_is_a_warning_once(capsys, model_file, tmp_path):
    text = f"wonderful {long_text(49)}"
    assert main(["explain", text, "--model", model_file, "--html", str(tmp_path / "r.html")]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        f"{PROG}: warning: text of 50 tokens: the model has room for 23; the last 27 are not read",
        f"wrote {tmp_path / 'r.html'}",
    ]
    assert "… 27 more not read" in out
    with warnings.catch_warnings(record=True) as left_over:
        warnings.simplefilter("always")
        warnings.warn("as before", stacklevel=1)
    assert len(left_over) == 1


def test_a_report_and_a_figure_are_written(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "r.html"
    figure = tmp_path / "f.png"
    assert (
        main(
            [
                "explain",
                REVIEW,
                "--html",
                str(page),
                "--plot",
                str(figure),
                "--json",
                "--method",
                "shapley",
            ]
        )
        == 0
    )
    out, err = capsys.readouterr()
    json.loads(out)
    assert err == f"wrote {figure}\nwrote {page}\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert main(["explain", REVIEW, "--html", "-", "--method", "leave-one-out"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("<!doctype html>") and out.endswith("</html>\n") and err == ""


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\x00" not in HOSTILE[name]])
def test_hostile_texts_are_printed_without_control_characters(capsys, name):
    assert (
        main(["explain", "--text", HOSTILE[name], "--method", "shapley,alpha-avg", "--top", "2"])
        == 0
    )
    out = capsys.readouterr().out
    assert not [
        c
        for c in out
        if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000
    ]


@pytest.mark.slow  # a new process
def test_ten_thousand_words_are_no_trouble(tmp_path):
    run = shell("explain", "-", "--method", "shapley", stdin=long_text(10_000))
    assert run.returncode == 0 and run.stderr == b"" and b"not read" not in run.stdout
    six_heads().save(tmp_path / "six.npz", dtype=np.float32)
    options = ["--method", "shapley", "--model", str(tmp_path / "six.npz")]
    run = shell("explain", "-", *options, stdin=long_text(10_000))
    assert run.returncode == 0 and b"the last 9745 are not read" in run.stderr
    assert "… 9745 more not read" in " ".join(run.stdout.decode().split())


@pytest.mark.parametrize("arguments", mostly_slow([["explain", REVIEW, "--html", "-"], []], 1))
def test_a_reader_that_goes_away_is_no_traceback(arguments):
    command = [sys.executable, "-m", "attn_closed_form", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.slow  # a new process
def test_an_ascii_terminal_gets_question_marks():
    run = shell("explain", "A naïve film", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert run.returncode == 0 and b"na?ve" in run.stdout


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_methods_lists_every_method(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert names[: len(acf.METHODS)] == list(acf.METHODS)
    assert max(map(len, lines)) <= columns
    main(["methods", "--json"])
    assert list(json.loads(capsys.readouterr().out)) == list(acf.METHODS)


def test_model_info(capsys, model_file):
    weights = acf.load_model(model_file).weights
    main(["model", model_file, "--json"])
    info = json.loads(capsys.readouterr().out)
    assert (info["K"], info["D"], info["T_max"]) == (weights.K, weights.D, weights.T_max)
    assert info["parameters"] == sum(array.size for array in weights.arrays().values())
    main(["model"])
    assert "the shipped sentiment model" in capsys.readouterr().out


def test_one_text_is_read_once_played_once_and_each_method_runs_once(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    counts = Counter()

    def counted(owner, name):
        original = getattr(owner, name)

        def call(*arguments, **options):
            counts[f"{name} of {arguments[2].players}" if name == "game" else name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    for name in ("read", "logits", "game"):
        counted(acf.TextClassifier, name)
    for name, method in acf.METHODS.items():

        def score(evidence, method=method, name=name):
            counts[name] += 1
            return method.score(evidence)

        monkeypatch.setitem(acf.METHODS, name, dataclasses.replace(method, score=score))
    files = [
        "--html",
        str(tmp_path / "r.html"),
        "--plot",
        str(tmp_path / "f.png"),
        "--figure",
        "lime",
    ]
    assert main(["explain", REVIEW, *files]) == 0
    # The report has the Shapley values of the logit, too, from the same game.
    assert counts == Counter(
        ["read", "logits", "game of words", "game of positions", *DEFAULT_METHODS, "shapley"]
    )


def test_no_input_and_no_model_is_overwritten(capsys, tmp_path):
    (tmp_path / "review.txt").write_text(REVIEW)
    (tmp_path / "model.npz").write_bytes(DEMO_MODEL.read_bytes())
    os.link(tmp_path / "model.npz", tmp_path / "other-name.csv")
    (tmp_path / "table.csv").write_text("text,label\na,b\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text("{}")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    names = ("review.txt", "model.npz", "table.csv", "folder/config.json")
    review, model, table, config = (str(tmp_path / name) for name in names)
    explain = ["explain", review, "--model", model]
    train = ["train", table, "--out"]
    for command, option in (
        ([*explain, "--html", review], "--html"),
        ([*explain, "--plot", review], "--plot"),
        ([*explain, "--html", model], "--html"),
        ([*explain, "--csv", str(tmp_path / "other-name.csv")], "--csv"),
        (["transformer", str(tmp_path / "folder"), REVIEW, "--html", config], "--html"),
        ([*train, table], "--out"),
        ([*train, str(tmp_path / "new.npz"), "--metrics", table], "--metrics"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert (
            stop.value.code == 2
            and f"{option}: expected a separate file" in capsys.readouterr().err
        )
    for source in (table, str(tmp_path)):  # table.csv is an input in both cases
        with pytest.raises(SystemExit) as stop:
            main(["corpus", "run", source, str(tmp_path / "table"), "--format", "csv"])
        assert stop.value.code == 2 and "table.csv is an input" in capsys.readouterr().err
        with pytest.raises(SystemExit) as stop:
            main(["corpus", "run", source, str(tmp_path)])
        assert stop.value.code == 2 and "other than that of the inputs" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["corpus", "run", table, str(tmp_path / "out"), "--workers", "0"])
    assert stop.value.code == 2 and "--workers: expected" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.*")} == before


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
@pytest.mark.slow  # a new process
def test_a_pipe_is_read_like_a_file():
    run = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m attn_closed_form explain <(echo 'a fine film') --json --method loo"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(run.stdout)["text"] == "a fine film\n"


def test_numbers_fit_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    main(["explain", REVIEW, "--top", "3"])
    blocks = capsys.readouterr().out.split("other methods")[1]
    assert max(map(len, blocks.splitlines())) <= 70
    assert all(name in blocks for name in DEFAULT_METHODS)


def test_check_hands_its_line_to_the_proofs(monkeypatch, capsys):
    import types

    stub = types.ModuleType("proofs_check.__main__")
    stub.main = lambda rest: 0 if rest == ["--list"] else 3
    monkeypatch.setitem(sys.modules, "proofs_check", types.ModuleType("proofs_check"))
    monkeypatch.setitem(sys.modules, "proofs_check.__main__", stub)
    assert main(["check", "--list"]) == 0
    assert main(["check"]) == 3


def test_checks_that_are_not_installed_name_what_works_in_a_clone(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "proofs_check.__main__", None)
    monkeypatch.chdir(ROOT)
    assert main(["check"]) == 1
    assert "run `python -m proofs_check` here" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == 1
    assert "in a clone of the repository" in capsys.readouterr().err


def test_a_missing_part_names_a_command_that_works_in_a_clone(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jax_model.training.command", None)
    assert main(["train", "reviews.csv", "--out", "model.npz"]) == 1
    assert "pip install '.[train]'" in capsys.readouterr().err


EXTRAS = ("jax", "optax", "sklearn", "pyarrow", "distributed", "dask", "h5py", "fastapi", "uvicorn", "pydantic",
          "matplotlib", "rich", "torch", "transformers", "safetensors", "proofs_check")  # fmt: skip


def test_the_help_of_every_command_needs_no_extra():
    commands = [*COMMANDS, "", "corpus run", "corpus summary"]
    script = (
        f"import contextlib, sys; sys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
        "from attn_closed_form.app.cli.main import main\n"
        f"for command in {commands!r}:\n"
        "    with contextlib.suppress(SystemExit): main([*command.split(), '--help'])\n"
        "    print(end='\\0')"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    for command, shown in zip(commands, run.stdout.split("\0"), strict=False):
        assert shown.startswith(f"usage: {PROG} {command}") and "show this help" in shown
    assert f"{PROG} explain" in run.stdout.split("examples:")[1]


def test_one_command_builds_one_parser():
    script = (
        "import sys; from attn_closed_form.app.cli.main import main; main(['methods'])\n"
        "print([name for name in ('bag', 'corpus', 'serve', 'train', 'explain')"
        " if f'attn_closed_form.app.cli.{name}' in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stderr == "[]\n"


def test_the_next_command_can_be_called(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert program() == PROG
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    assert program() == "python -m attn_closed_form"
    script = tmp_path / ".venv" / "bin" / PROG
    script.parent.mkdir(parents=True)
    script.touch()
    assert program() == str(script)
    monkeypatch.chdir(tmp_path)
    assert program() == str(Path(".venv", "bin", PROG))


def test_a_plain_table_imports_numpy_alone():
    script = (
        "import sys, numpy; before = set(sys.modules)\n"
        "from attn_closed_form.app.cli.main import main; main(['explain', 'a fine film'])\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names - {'numpy'}), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stderr.strip() == "['attn_closed_form']"


def test_the_demonstration_checks_itself(capsys):
    assert demo() == 0
    out = capsys.readouterr().out
    gap = float(out.split("largest difference is ")[1].split()[0].rstrip("."))
    assert gap < 1e-9 and "over all 16,384 coalitions" in out
    e = acf.explain(acf.load_demo_model(), "a slow but fine film", "shapley")["shapley"]
    assert np.allclose(
        shapley_by_enumeration(e), enumeration.shapley(e.game).astype(float), atol=1e-13
    )


def test_an_interrupt_is_status_130(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("attn_closed_form.app.cli.explain.explain", interrupted)
    assert main(["explain", "film"]) == 130


def test_a_report_is_written_through_a_symbolic_link(tmp_path):
    target = tmp_path / "target.html"
    link = tmp_path / "link.html"
    target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    assert main(["explain", REVIEW, "--html", str(link), "--method", "leave-one-out"]) == 0
    assert link.is_symlink() and target.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_reasons_are_printed_on_request(capsys):
    reasons = reasons_text(acf.explain(acf.load_demo_model(), REVIEW, "shapley"), 80)
    for options, printed in (([], False), (["--reasons"], True)):
        assert main(["explain", REVIEW, "--method", "shapley", *options]) == 0
        assert (reasons.split("\n")[0] in capsys.readouterr().out) == printed


def test_explain_compares_with_another_text_or_file(capsys, tmp_path):
    other = tmp_path / "after.txt"
    other.write_text("A dull start, but a wonderful film.", encoding="utf-8")
    page = tmp_path / "comparison.html"
    assert main(["explain", REVIEW, "--compare-with", str(other), "--html", str(page)]) == 0
    out, _ = capsys.readouterr()
    first = acf.load_demo_model().explain(REVIEW)
    second = acf.load_demo_model().explain(other.read_text(encoding="utf-8"))
    comparison = first.compare(second, names=("first text", "after.txt"))
    assert out.strip() == comparison_text(comparison, 100)
    assert "after.txt" in page.read_text(encoding="utf-8")
    assert main(["explain", REVIEW, "--compare-with", "A dull film", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["names"] == ["first text", "second text"]
    assert answer["change"] == pytest.approx(answer["predictions"][1] - answer["predictions"][0])


def test_explain_compares_two_models(capsys, model_file):
    assert main(["explain", REVIEW, "--model", model_file, "--compare-model", model_file]) == 0
    out, _ = capsys.readouterr()
    assert out.splitlines()[0].endswith(" in both")
    assert out.count("model.npz") == 4


@pytest.mark.parametrize("option", [["--plot", "x.png"], ["--top", "3"], ["--method", "shapley"]])
def test_a_comparison_refuses_options_that_it_does_not_show(option):
    with pytest.raises(SystemExit):
        main(["explain", REVIEW, "--compare-with", "other", *option])


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["", *COMMANDS, "corpus run", "corpus summary"])
def test_help_and_models_fit_into_the_terminal(capsys, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    assert main(["model"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= columns
    assert "default: None" not in " ".join(shown.split())
