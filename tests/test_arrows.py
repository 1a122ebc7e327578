"""The arrows between the folders, and what every module keeps to: size, plain English, names that hide nothing.

Imports are read from the syntax tree, those inside functions included.
"""

import ast
import re
from pathlib import Path

import pytest

import attn_closed_form

ROOT = Path(__file__).parent.parent
#: A folder may import from folders of a smaller number, and from itself.
LEVELS = {
    "_types": 0,
    "_files": 0,
    "_progress": 0,
    "_processes": 0,
    "game": 1,
    "classifier": 2,
    "lime": 3,
    "slalom": 3,
    "explainable": 4,
    "explanations": 5,
    "evaluate": 6,
    "show": 7,
    "corpus": 8,
    "cli": 9,
    "web": 9,
}
#: Imports that go up, each inside a function and with its reason.
EXCEPTIONS = {
    ("attn_closed_form/explainable/protocol.py", "explanations"): "`model.explain(...)` is a method of every model",
    (
        "attn_closed_form/explanations/explanation.py",
        "show",
    ): "`found.report(...)` and the like are methods of a result",
    ("attn_closed_form/cli/serve.py", "web"): "the command starts the server",
}
#: What each package of the repository may import of the others.
PACKAGES = {
    "attn_closed_form": set(),
    "jax_model": {"attn_closed_form"},
    "proofs_check": set(),
    "benchmarks": {"attn_closed_form", "jax_model", "proofs_check"},
}
LONGEST_MODULE, LONGEST_FUNCTION = 300, 60
CLIPPED = re.compile(
    r"\b(a|one) (row|head|player|word|token|document|node|number|file|method) (a|each) "
    r"(method|row|head|player|file|document|token|word|class)\b|module's head"
)


def modules(*packages):
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def imports(path):
    """Absolute dotted names of everything that a module imports, with the line."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{prefix}.{alias.name}", node.lineno) for alias in node.names)


def upward():
    """Imports of the core that go against the arrows: (module, folder that is imported, line)."""
    for path in modules("attn_closed_form"):
        parts = path.relative_to(ROOT / "attn_closed_form").with_suffix("").parts
        if parts[0] not in LEVELS:
            continue  # the package itself and its command line
        for name, line in imports(path):
            pieces = name.split(".")
            if pieces[0] != "attn_closed_form" or pieces[-1] == "__version__":
                continue
            target = pieces[1] if len(pieces) > 1 and pieces[1] in LEVELS else "attn_closed_form"
            if target == parts[0]:
                continue
            if LEVELS.get(target, 99) >= LEVELS[parts[0]]:
                yield name_of(path), target, line


def test_every_folder_has_its_place():
    found = {path.stem if path.is_file() else path.name for path in (ROOT / "attn_closed_form").iterdir()}
    found -= {"__init__", "__main__", "__pycache__", "MODEL_CARD", "NOTATION", "demo_model", "py", "py.typed"}
    assert found == set(LEVELS)


def test_arrows_go_one_way():
    against = [entry for entry in upward() if entry[:2] not in EXCEPTIONS]
    assert not against


def test_exceptions_are_still_needed():
    used = {entry[:2] for entry in upward()}
    assert used == set(EXCEPTIONS)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_what_they_may(package):
    others = set(PACKAGES) - {package} - PACKAGES[package] | {"tests"}
    wrong = [
        (name_of(path), name, line)
        for path in modules(package)
        for name, line in imports(path)
        if name.split(".")[0] in others
    ]
    assert not wrong


def test_the_core_needs_numpy_alone_at_import_time():
    """A third-party package is imported inside a function, so that the core starts without it."""
    import sys

    allowed = set(sys.stdlib_module_names) | {"numpy", "attn_closed_form"}
    wrong = []
    for path in modules("attn_closed_form"):
        if path.is_relative_to(ROOT / "attn_closed_form" / "web"):
            continue  # imported by `serve` alone, which needs the extra 'web'
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            wrong += [(name_of(path), name) for name in names if name.split(".")[0] not in allowed]
    assert not wrong


def test_modules_are_short():
    long = {
        name_of(path)
        for path in modules("attn_closed_form", "jax_model")
        if len(path.read_text(encoding="utf-8").splitlines()) > LONGEST_MODULE
    }
    assert not long


def test_functions_are_short():
    """Lines of the body, without the docstring."""
    long = set()
    for path in modules("attn_closed_form", "jax_model"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]
                if node.end_lineno - first.lineno + 1 > LONGEST_FUNCTION:
                    long.add(f"{name_of(path)}:{node.name}")
    assert not long


def test_no_clipped_english():
    texts = [*modules("attn_closed_form", "jax_model", "proofs_check", "benchmarks", "tests"), *ROOT.glob("*.md")]
    texts += [*(ROOT / "docs").glob("*.md"), *(ROOT / "proofs_check").glob("*.md")]
    wrong = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in texts
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if CLIPPED.search(line)
    ]
    assert not wrong


def test_no_folder_or_module_hides_a_public_name():
    """`import attn_closed_form.shapley as m` must not bind a function where a module is meant."""
    hidden = {path.stem for path in (ROOT / "attn_closed_form").iterdir()} & set(attn_closed_form.__all__)
    assert not hidden
