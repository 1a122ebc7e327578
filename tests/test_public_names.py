"""Tests let the inside change: they use no private name of another module."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))
# Names that other programs ask for: notebooks, and named tuples.
PROTOCOLS = {"_repr_html_", "_repr_png_", "_replace", "_asdict", "_fields", "_make"}
# Names of other packages, which have no public one for the same thing.
OF_OTHER_PACKAGES = {"_charts", "_colorbar"}


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_names(tree):
    """The private names that a module imports, reads or replaces, except for those it defines."""
    defined = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            defined.add(node.attr)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            names |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
    texts = {name for name in names if isinstance(name, str)}
    return set(filter(is_private, texts)) - defined - PROTOCOLS - OF_OTHER_PACKAGES


def test_no_private_name_of_another_module():
    used = {
        str(file.relative_to(TESTS)): private_names(ast.parse(file.read_text(encoding="utf-8")))
        for file in FILES
    }
    assert {name: names for name, names in used.items() if names} == {}


@pytest.mark.parametrize(
    "code",
    ["from module import _name", "module._name()", 'patch.setattr(module, "_name", None)'],
)
def test_a_private_name_is_noticed(code):
    assert private_names(ast.parse(code)) == {"_name"}
