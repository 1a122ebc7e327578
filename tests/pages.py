"""What the tests of the documentation share: blocks, commands, links and headings of a Markdown page."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

from attn_closed_form.cli.main import PROG, make_parser

ROOT = Path(__file__).parent.parent
#: Every page that people read, but for those that are generated.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^( *)```(\w+)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
PROGRAMS = (PROG, "make", "pip", "python", "python3")
HANDED_ON = {"check"}  # its options belong to another parser


def build_site(name):
    """A module of docs/build_site, which is a folder of MkDocs hooks and not a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "build_site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = build_site("reference")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks(markdown, *languages):
    """(line number, code) of the fenced blocks in one of the languages."""
    return [
        (markdown[: match.start()].count("\n") + 2, re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE))
        for match in BLOCK.finditer(markdown)
        if match[2] in languages
    ]


def run_python(markdown, source, namespace=None):
    """Run the blocks one after the other in one namespace; a failure points at the line of the file."""
    namespace = {"__name__": "__page__", **(namespace or {})}
    for line, code in blocks(markdown, "python", "py"):
        exec(compile("\n" * (line - 1) + code, str(source), "exec"), namespace)
    return namespace


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
            _, rest = make_parser(words[1]).parse_known_args(words[1:])
        except SystemExit as stop:
            return f"status {stop.code}" if stop.code else None
        return f"unknown {rest}" if rest and words[1] not in HANDED_ON else None
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return next((f"no target {word}" for word in words[1:] if "=" not in word and word not in targets), None)
    if re.fullmatch(r"(\S*/)?python3?", words[0]) and words[1:2] == ["-m"]:
        return None if importlib.util.find_spec(words[2]) else f"no module {words[2]}"
    if words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        asked = [name for word in words for part in re.findall(r"\[(.+)\]", word) for name in part.split(",")]
        return next((f"no extra {name}" for name in asked if name not in project["optional-dependencies"]), None)
    return None


def without_code(markdown):
    """The page with its code, fenced and inline, left out."""
    return re.sub(r"`[^`\n]+`", "", BLOCK.sub("", markdown))


def anchors(markdown):
    """Anchors of the headings, as Python-Markdown and code hosts both make them for plain headings."""
    headings = re.findall(r"^#+ +(.+?) *$", BLOCK.sub("", markdown), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", heading)).strip().lower() for heading in headings]
    return {re.sub(r"[\s-]+", "-", text) for text in plain}


def broken_links(path, markdown=None):
    """Links of a page that lead to no file or no heading; addresses elsewhere must be https."""
    markdown = path.read_text(encoding="utf-8") if markdown is None else markdown
    wrong = []
    for target in LINK.findall(without_code(markdown)):
        file, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            wrong += [] if target.startswith("https://") else [target]
            continue
        page = (path.parent / file).resolve() if file else path
        made_here = page.is_relative_to(ROOT / "docs" / "reference")  # its entries are made when the site is built
        if not page.exists() or (anchor and not made_here and anchor not in anchors(page.read_text(encoding="utf-8"))):
            wrong.append(target)
    return wrong
