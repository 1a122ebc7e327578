"""The arrows between the folders, and public names that no folder hides.

Imports are read from the syntax tree, those inside functions included.
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import attn_closed_form

ROOT = Path(__file__).parent.parent
#: A folder may import from folders of a smaller number, and from itself.
LEVELS = {
    "_types": 0,
    "_erf": 0.5,
    "_legendre": 0.5,
    "_errors": 0,
    "_progress": 0,
    "_arrays": 0.5,
    "_shapes": 0.7,
    # The mathematics.
    "game": 1,
    "attention": 2,
    "lime": 2,
    "reasons": 2,
    "slalom": 3,
    # The product.
    "app/models": 4,
    "app/files": 4,
    "app/explanations": 5,
    "app/show": 6,
    "app/run": 7,
    "app/cli": 8,
    "app/web": 8,
}
#: Models are read from files, and files are read as models: these two folders import each other.
BESIDE = {"app/models", "app/files"}
#: Imports that go up, each inside a function and with its reason.
EXCEPTIONS = {
    (
        "attn_closed_form/app/models/protocol.py",
        "app/explanations",
    ): "`model.explain(...)` is a method of every model",
    (
        "attn_closed_form/app/explanations/explanation.py",
        "app/show",
    ): "`found.report(...)` and the like are methods of a result",
    (
        "attn_closed_form/app/explanations/many.py",
        "app/show",
    ): "`many.plot_bar(...)` and the like are methods of a result",
    (
        "attn_closed_form/app/explanations/comparison.py",
        "app/show",
    ): "`comparison.report(...)` and the like are methods of a result",
    (
        "attn_closed_form/app/explanations/answers.py",
        "app/show",
    ): "`found.reasons().sentences()` is a method of a result",
    ("attn_closed_form/app/cli/serve.py", "app/web"): "the command starts the server",
}
#: What each package of the repository may import of the others.
PACKAGES = {
    "attn_closed_form": set(),
    "jax_model": {"attn_closed_form"},
    "proofs_check": set(),
    "benchmarks": {"attn_closed_form", "jax_model", "proofs_check"},
}


def modules(*packages):
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def name_of(path):
    return path.relative_to(ROOT).as_posix()


@cache
def imports(path):
    """Absolute dotted names of everything that a module imports, with the line."""
    found = []
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package[: len(package) - node.level + 1]
            else:
                base = ()
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            found += [(f"{prefix}.{alias.name}", node.lineno) for alias in node.names]
    return found


def folder_of(parts):
    """The folder, or the module of the package itself, that a path or a dotted name belongs to;
    None for the root.
    """
    for name in ("/".join(parts[:2]), parts[0] if parts else ""):
        if name in LEVELS:
            return name
    return None


def upward():
    """Imports of the core that go against the arrows: (module, folder that is imported, line)."""
    for path in modules("attn_closed_form"):
        folder = folder_of(path.relative_to(ROOT / "attn_closed_form").with_suffix("").parts)
        if folder is None:
            continue  # the package itself and its command line
        for name, line in imports(path):
            pieces = name.split(".")
            if pieces[0] != "attn_closed_form" or pieces[-1] == "__version__":
                continue
            target = folder_of(pieces[1:])
            if target == folder or {target, folder} == BESIDE:
                continue
            if LEVELS.get(target, 99) >= LEVELS[folder]:
                yield name_of(path), target, line


def test_every_folder_has_its_place():
    package = ROOT / "attn_closed_form"
    beside = {
        "__init__",
        "__main__",
        "__pycache__",
        "MODEL_CARD",
        "NOTATION",
        "ARCHITECTURE",
        "demo_model",
        "py",
        "py.typed",
    }
    found = (
        {path.stem if path.is_file() else path.name for path in package.iterdir()}
        - beside
        - {"app"}
    )
    found |= {
        f"app/{path.stem if path.is_file() else path.name}" for path in (package / "app").iterdir()
    }
    assert found - {f"app/{name}" for name in beside} == set(LEVELS)


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
    allowed = set(sys.stdlib_module_names) | {"numpy", "attn_closed_form"}
    wrong = []
    for path in modules("attn_closed_form"):
        if path.is_relative_to(ROOT / "attn_closed_form" / "app" / "web"):
            continue  # imported by `serve` alone, which needs the extra 'web'
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = []
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            wrong += [(name_of(path), name) for name in names if name.split(".")[0] not in allowed]
    assert not wrong


def test_no_folder_or_module_hides_a_public_name():
    """`import attn_closed_form.shapley as m` must not bind a function where a module is meant."""
    hidden = {path.stem for path in (ROOT / "attn_closed_form").iterdir()} & set(
        attn_closed_form.__all__
    )
    assert not hidden


def run(program):
    """The output of a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()


def test_the_package_loads_the_mathematics_alone():
    """At most 45 modules, and none of the product."""
    loaded = run(
        "import sys, attn_closed_form; print(*(name for name in sys.modules if name.split('.')[0] "
        "== 'attn_closed_form'))"
    )
    assert not [name for name in loaded if name.startswith("attn_closed_form.app")]
    assert len(loaded) <= 45, sorted(loaded)


def entered(function):
    """The modules of the package whose functions are called, without the small helpers that all
    folders share.
    """
    rooms = set()

    def profile(frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        room = name.removeprefix("attn_closed_form.")
        if event == "call" and room != name and not room.startswith("_"):
            rooms.add(room)

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return rooms


def test_shapley_values_cross_few_modules():
    game = attn_closed_form.PooledGame.from_scores([0.0, 1.0, 2.0], [1.0, -1.0, 0.5])
    attn_closed_form.shapley(game)  # tables and rules are read once
    rooms = entered(lambda: attn_closed_form.shapley(game))
    assert len(rooms) <= 10, sorted(rooms)
