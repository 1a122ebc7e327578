"""What the wheel holds and what the extras install, read from pyproject.toml: cheap, and right in
every environment.
"""

import ast
import datetime
import fnmatch
import re
import sys
import tomllib
from pathlib import Path

import pytest

import attn_closed_form

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OWN = {"attn_closed_form", "jax_model", "proofs_check", "benchmarks", "tests"}
#: Packages whose name to import is not the name to install.
INSTALLED_AS = {
    "sklearn": "scikit-learn",
    "flint": "python-flint",
    "fasttext": "fasttext-wheel",
    "pydantic_core": "pydantic",
}
#: What tests skip, with a reason, where it is missing.
SKIPPED_WITHOUT = {
    "torch",
    "transformers",
    "tokenizers",
    "fasttext",
    "pandas",
    "polars",
    "duckdb",
    "psutil",
}


def third_party(*folders):
    """Packages that the modules of some folders import, wherever in the module."""
    found = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - OWN - {"numpy"}


def installs(extra):
    """Names that an extra installs, those of the extras that it names included."""
    names = set()
    for requirement in PROJECT["project"]["optional-dependencies"][extra]:
        if match := re.fullmatch(r"attn-closed-form\[(.*)\]", requirement):
            names |= set().union(*(installs(name) for name in match[1].split(",")))
        else:
            names.add(re.match(r"[A-Za-z0-9_-]+", requirement)[0])
    return names


def missing(imported, installed):
    return {
        name for name in imported if INSTALLED_AS.get(name, name).replace("_", "-") not in installed
    }


def test_the_wheel_holds_two_packages():
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.glob("*/__init__.py")}
    held = {
        name for name in packages if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    }
    assert held == {"attn_closed_form", "jax_model"}
    # Folders without __init__.py would be left out.
    for name in held:
        assert all((path.parent / "__init__.py").is_file() for path in (ROOT / name).rglob("*.py"))


def _matches(path, pattern):
    """As setuptools reads a pattern: a star stays within a folder."""
    return path.parent == Path(pattern).parent and fnmatch.fnmatch(path.name, Path(pattern).name)


def test_every_file_that_is_no_module_is_package_data():
    data = PROJECT["tool"]["setuptools"]["package-data"]
    for package in ("attn_closed_form", "jax_model"):
        files = {
            path.relative_to(ROOT / package)
            for path in (ROOT / package).rglob("*")
            if path.is_file() and path.suffix not in (".py", ".pyc")
        }
        declared = {
            path
            for path in files
            if any(_matches(path, pattern) for pattern in data.get(package, []))
        }
        assert files == declared


@pytest.mark.slow
def test_extras_install_what_the_packages_import():
    assert not missing(
        third_party("attn_closed_form", "jax_model") - {"fasttext", "torch", "transformers"},
        installs("all"),
    )


@pytest.mark.slow
def test_extras_install_what_tests_and_benchmarks_import():
    assert not missing(third_party("tests", "proofs_check") - SKIPPED_WITHOUT, installs("dev"))
    # Installed by hand: anchor-exp without its dependencies (benchmarks/anchors.py), and pydvl,
    # which needs NumPy 1.
    assert not missing(third_party("benchmarks") - {"anchor", "pydvl"}, installs("bench"))


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "attn_closed_form.__version__"
    }
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", attn_closed_form.__version__)


def test_metadata_is_complete():
    assert (
        PROJECT["project"]["authors"]
        and PROJECT["project"]["classifiers"]
        and PROJECT["project"]["keywords"]
    )


def test_the_citation_and_the_changelog_have_the_version_and_its_date():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version = re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1]
    date = datetime.date.fromisoformat(
        re.search(r"^date-released: (\S+)$", citation, re.MULTILINE)[1]
    )
    released, day = re.search(r"^## (\d+\.\d+\.\d+) \((.+)\)$", changelog, re.MULTILINE).groups()
    assert version == released and day == f"{date.day} {date:%B %Y}"
    assert attn_closed_form.__version__ == version or attn_closed_form.__version__.endswith(".dev0")


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_their_hashes(path):
    """And no step keeps the token of the repository."""
    text = path.read_text(encoding="utf-8")
    actions = re.findall(r"uses: (\S+)", text)
    assert actions
    assert [
        action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)
    ] == []
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_every_python_and_every_system_is_tested():
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    listed = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert f"python: {str(listed).replace(chr(39), chr(34))}" in text
    assert "os: [macos-latest, windows-latest]" in text
