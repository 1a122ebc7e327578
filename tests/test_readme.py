"""Every Python block of the README runs, in order and in one namespace; every command in it exists, and in docs/."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from attn_closed_form.cli.main import PROG, make_parser

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
PROGRAMS = (PROG, "make", "pip", "python", "python3")
HANDED_ON = {"train", "check"}  # their options belong to other parsers


def blocks(markdown, *languages):
    """(line number, code) of the fenced blocks in one of the languages."""
    return [
        (markdown[: match.start()].count("\n") + 2, match[2])
        for match in BLOCK.finditer(markdown)
        if match[1] in languages
    ]


def run_python(markdown, source):
    """Run the blocks one after the other; a failure points at the line of the file."""
    namespace = {"__name__": "__readme__"}
    for line, code in blocks(markdown, "python", "py"):
        exec(compile("\n" * (line - 1) + code, str(source), "exec"), namespace)


def indented(markdown):
    """(line number, code) of the indented blocks, fenced ones aside."""
    plain = BLOCK.sub(lambda match: re.sub(r"[^\n]+", "-", match[0]), markdown)
    for match in INDENTED.finditer(plain):
        yield plain[: match.start()].count("\n") + 1, re.sub(r"^ {4}", "", match[0], flags=re.MULTILINE)


def commands(markdown):
    """(line number, words) of each simple command: no prompts, comments, pipes or redirections.

    All lines of fenced shell blocks are commands; of indented ones, those that start with a program that we know.
    """
    yield from _commands(blocks(markdown, "sh", "bash", "shell", "console"))
    for line, words in _commands(indented(markdown)):
        if words[0] in PROGRAMS:
            yield line, words


def _commands(code_blocks):
    for first, code in code_blocks:
        joined = re.sub(r"\\\n", " ", code)
        for offset, line in enumerate(joined.splitlines()):
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|;&<>")
            lexer.whitespace_split = True
            words = []
            try:
                parts = [*lexer, ";"]
            except ValueError:  # a formula with a lone quote
                continue
            for word in parts:
                if set(word) <= set("|;&"):
                    if words:
                        yield first + offset, words
                    words = []
                else:
                    words.append(word)


def problem(words):
    """What is wrong with a command, or None; commands of other programs are taken as they are."""
    for arrow in ("<", ">", ">>"):
        if arrow in words:
            words = words[: words.index(arrow)]
    if words[:1] == [PROG]:
        try:
            _, rest = make_parser().parse_known_args(words[1:])
        except SystemExit as stop:
            return f"status {stop.code}" if stop.code else None
        return f"unknown {rest}" if rest and words[1] not in HANDED_ON else None
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return next((f"no target {word}" for word in words[1:] if "=" not in word and word not in targets), None)
    if re.fullmatch(r"(\S*/)?python3?", words[0]) and words[1:2] == ["-m"]:
        return None if importlib.util.find_spec(words[2]) else f"no module {words[2]}"
    if words[:2] == ["pip", "install"]:
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        asked = [name for word in words for part in re.findall(r"\[(.+)\]", word) for name in part.split(",")]
        return next((f"no extra {name}" for name in asked if name not in known), None)
    return None


@pytest.mark.filterwarnings("ignore")
def test_every_python_block_of_the_readme_runs(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)  # blocks may write files
    run_python(README.read_text(encoding="utf-8"), README)


@pytest.mark.parametrize("path", [README, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name)
def test_every_command_exists(path):
    markdown = path.read_text(encoding="utf-8")
    found = list(commands(markdown))
    if path == README:
        assert len(found) >= 10, "the commands of the README are no longer recognised"
    wrong = {f"line {line}: {shlex.join(words)}": what for line, words in found if (what := problem(words))}
    assert wrong == {}


SAMPLE = """
```python
x = 2
```
```python
assert x == {}
```
```sh
$ cat review.txt | attn-closed-form explain - --json > out.json   # a comment
attn-closed-form explain \\
    "a film" {}
make demo; python -m attn_closed_form methods
pip install 'attn-closed-form[plots,interop]'
```

    attn-closed-form methods   # indented
    beta = 3 x' y

"""


def test_the_checks_can_fail():
    run_python(SAMPLE.format("2", ""), "sample")
    with pytest.raises(AssertionError):
        run_python(SAMPLE.format("3", ""), "sample")
    found = [words for _, words in commands(SAMPLE.format("2", "--top 3"))]
    assert [words[0] for words in found] == ["cat", PROG, PROG, "make", "python", "pip", PROG]
    assert found[2] == [PROG, "explain", "a film", "--top", "3"]
    assert [problem(words) for words in found] == [None] * 7
    for wrong in (
        [PROG, "explain", "film", "--bogus"], [PROG, "nonsense"], [PROG, "explain", "film", "--method", "shap"],
        ["make", "coffee"], ["python", "-m", "no_such_module"], ["pip", "install", "attn-closed-form[nothing]"],
    ):  # fmt: skip
        assert problem(wrong), wrong
