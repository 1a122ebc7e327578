"""Blocks, outputs, commands, links and headings of the Markdown pages.

A page's Python blocks run one after the other in one namespace. What a block prints, and the value
of the expression that it ends with, appears below it in a block that starts with ```text
title="Output". A shell block has an output if such a block follows it. A block below `<!-- needs:
PACKAGE -->` is left as it is where the package is not installed. `python -m tests.pages` (`make
outputs`) writes all outputs into the pages, or into those that are named; the tests compare them.
"""

import ast
import contextlib
import importlib.util
import io
import os
import re
import shlex
import sys
import tempfile
import tomllib
import warnings
from pathlib import Path

import numpy as np

from attn_closed_form.app.cli.main import PROG, main, make_parser

ROOT = Path(__file__).parent.parent
#: Every page that people read, but for those that are generated.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r'\n+( *)```text title="Output"\n(.*?)^\1```', re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?")
NEEDS_PACKAGE = re.compile(r"<!-- needs: (\w+) -->\s*\Z")
INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
PROGRAMS = (PROG, "make", "pip", "python", "python3")
HANDED_ON = {"check"}  # its options belong to another parser


def build_site(name):
    """A module of docs/build_site, which is a folder of MkDocs hooks and not a package. While a
    hook is loaded, MkDocs looks for modules in its folder, too.
    """
    folder = ROOT / "docs" / "build_site"
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


REFERENCE = build_site("reference")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks(markdown, *languages):
    """(line number, code) of the fenced blocks in one of the languages."""
    return [
        (
            markdown[: match.start()].count("\n") + 2,
            re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE),
        )
        for match in BLOCK.finditer(markdown)
        if match[2] in languages
    ]


def run(code, line, source, namespace):
    """What a block prints, and the value of the expression that it ends with, as a notebook shows
    it.
    """
    tree = ast.parse("\n" * (line - 1) + code, str(source))
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body.pop()
    else:
        last = None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(source), "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), str(source), "eval"), namespace)
            # No pages, no addresses.
            if value is not None and len(repr(value)) < 1000 and repr(value)[0] != "<":
                print(repr(value))
    return printed.getvalue()


def run_commands(code):
    """What the commands of a shell block print, each to a terminal of 80 columns without colors."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        for _, words in _commands([(1, code)]):
            if words[0] == "cat":
                print(Path(words[1]).read_text(encoding="utf-8").rstrip("\n"))
            else:
                assert words[0] == PROG, (
                    f"expected a command of {PROG} above an output, got {shlex.join(words)}"
                )
                try:
                    status = main(words[1:])
                except SystemExit as stop:
                    status = stop.code
                assert status in (0, None), f"{shlex.join(words)}: status {status}"
    return printed.getvalue()


def run_page(markdown, source, namespace=None):
    """Run a page's blocks in order: the namespace of the Python blocks, and the page with every
    output up to date.
    """
    namespace = {"__name__": "__page__", **(namespace or {})}
    pieces = []
    done = 0
    for match in BLOCK.finditer(markdown):
        indent = match[1]
        language = match[2]
        code = re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE)
        following = OUTPUT.match(markdown, match.end())
        needed = NEEDS_PACKAGE.search(markdown, 0, match.start())
        if needed and importlib.util.find_spec(needed[1]) is None:
            continue
        if language in ("python", "py"):
            out = run(code, markdown[: match.start()].count("\n") + 2, source, namespace)
        elif language == "sh" and following:
            out = run_commands(code)
        else:
            continue
        pieces.append(markdown[done : match.end()])
        if following:
            done = following.end()
        else:
            done = match.end()
        if out := "\n".join(line.rstrip() for line in out.strip("\n").splitlines()):
            lines = ["", '```text title="Output"', *out.splitlines(), "```"]
            pieces.append("\n" + "\n".join(indent + line if line else line for line in lines))
    return namespace, "".join([*pieces, markdown[done:]])


def outputs(markdown):
    """The text of every output block, in order."""
    return [match[2] for match in OUTPUT.finditer(markdown)]


def same_output(one, other):
    """Whether two outputs agree: numbers to a unit of their last digit, rounding errors below 1e-8
    in any case.
    """
    if NUMBER.sub("#", one).split() != NUMBER.sub("#", other).split():
        return False
    return all(map(_close, NUMBER.findall(one), NUMBER.findall(other)))


def _close(one, other):
    a = float(one.replace(",", ""))
    b = float(other.replace(",", ""))
    if one == other or max(abs(a), abs(b)) < 1e-8:
        return True
    return abs(a - b) <= 1.001 * max(map(_last_digit, (one, other))) or abs(a - b) <= 1e-9 * abs(a)


def _last_digit(number):
    mantissa, _, exponent = number.lower().replace(",", "").partition("e")
    if "." in mantissa:
        places = len(mantissa.partition(".")[2])
    else:
        places = 0
    if "." in mantissa or exponent:
        return 10.0 ** (int(exponent or 0) - places)
    return 0.0


def indented(markdown):
    """(line number, code) of the indented blocks, fenced ones aside."""
    plain = BLOCK.sub(lambda match: re.sub(r"[^\n]+", "-", match[0]), markdown)
    for match in INDENTED.finditer(plain):
        yield (
            plain[: match.start()].count("\n") + 1,
            re.sub(r"^ {4}", "", match[0], flags=re.MULTILINE),
        )


def commands(markdown):
    """(line number, words) of each simple command: no prompts, comments, pipes or redirections.

    All lines of fenced shell blocks are commands; of indented ones, those that start with a program
    that we know.
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
            _, rest = make_parser(words[1]).parse_known_args(words[1:])
        except SystemExit as stop:
            if stop.code:
                return f"status {stop.code}"
            return None
        if rest and words[1] not in HANDED_ON:
            return f"unknown {rest}"
        return None
    if words[0] == "make":
        targets = re.findall(
            r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
        return next(
            (f"no target {word}" for word in words[1:] if "=" not in word and word not in targets),
            None,
        )
    if re.fullmatch(r"(\S*/)?python3?", words[0]) and words[1:2] == ["-m"]:
        if importlib.util.find_spec(words[2]):
            return None
        return f"no module {words[2]}"
    if words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        asked = [
            name
            for word in words
            for part in re.findall(r"\[(.+)\]", word)
            for name in part.split(",")
        ]
        return next(
            (f"no extra {name}" for name in asked if name not in project["optional-dependencies"]),
            None,
        )
    return None


def without_code(markdown):
    """The page with its code, fenced and inline, left out."""
    return re.sub(r"`[^`\n]+`", "", BLOCK.sub("", markdown))


def anchors(markdown):
    """Anchors of the headings, as Python-Markdown and code hosts both make them for plain
    headings.
    """
    headings = re.findall(r"^#+ +(.+?) *$", BLOCK.sub("", markdown), re.MULTILINE)
    plain = [
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", heading)).strip().lower()
        for heading in headings
    ]
    return {re.sub(r"[\s-]+", "-", text) for text in plain}


def broken_links(path, markdown=None):
    """Links of a page that lead to no file or no heading; addresses elsewhere must be https."""
    if markdown is None:
        markdown = path.read_text(encoding="utf-8")
    wrong = []
    for target in LINK.findall(without_code(markdown)):
        file, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            wrong += [] if target.startswith("https://") else [target]
            continue
        if file:
            page = (path.parent / file).resolve()
        else:
            page = path
        # Its entries are made when the site is built.
        made_here = page.is_relative_to(ROOT / "docs" / "reference")
        if not page.exists() or (
            anchor and not made_here and anchor not in anchors(page.read_text(encoding="utf-8"))
        ):
            wrong.append(target)
    return wrong


@contextlib.contextmanager
def reader(name):
    """A reader of the page `name`: an empty folder with the files and names that the page assumes,
    a plain terminal.
    """
    from tests.page_setups import NEEDS, SETUPS

    if "matplotlib" in NEEDS.get(name, ()):
        import matplotlib

        matplotlib.use("Agg")
    environment = dict(os.environ)
    before = Path.cwd()
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        np.printoptions(linewidth=79),
    ):
        warnings.simplefilter("ignore")
        os.environ.update(COLUMNS="80", NO_COLOR="1")
        os.chdir(folder)
        try:
            yield SETUPS.get(name, dict)()
        finally:
            if "matplotlib.pyplot" in sys.modules:  # a page may leave a figure open
                sys.modules["matplotlib.pyplot"].close("all")
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)


def update(path):
    """Write the outputs of a page's blocks into the page; whether something changed that
    `same_output` notices.
    """
    markdown = path.read_text(encoding="utf-8")
    with reader(name_of(path)) as names:
        _, made = run_page(markdown, path, names)
    old = outputs(markdown)
    new = outputs(made)
    if len(old) == len(new) and all(map(same_output, old, new)):
        return False
    path.write_text(made, encoding="utf-8")
    return True


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]] or [
        p for p in PAGES if blocks(p.read_text(), "python")
    ]:
        print(name_of(page), "changed" if update(page) else "is up to date", flush=True)
