import importlib
import subprocess
import sys
from pathlib import Path

from tests.pages import REFERENCE

ROOT = Path(__file__).parent.parent

SCRIPT = """
import sys
import numpy
before = set(sys.modules)
import attn_closed_form
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(new - sys.stdlib_module_names - {"numpy"}))
"""


def test_the_core_imports_nothing_but_numpy():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "['attn_closed_form']"


MODULES = """
import sys
import attn_closed_form
names = [name for name in sys.modules if name.startswith("attn_closed_form")]
print(len(names), sum(name.startswith("attn_closed_form.app") for name in names))
attn_closed_form.load_demo_model
print(sum(name.startswith("attn_closed_form.app") for name in sys.modules))
"""
# Attention and games, without LIME, reasons, SLALOM and the product.
MOST_MODULES = 45


def test_the_import_loads_little():
    run = subprocess.run(
        [sys.executable, "-c", MODULES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded, of_app, after_use = map(int, run.stdout.split())
    assert loaded <= MOST_MODULES
    assert of_app == 0
    assert after_use > 0


def test_names_of_the_product_are_listed_before_they_are_imported():
    run = subprocess.run(
        [sys.executable, "-c", "import attn_closed_form as a; print({*a.__all__} - {*dir(a)})"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "set()"


def test_every_exported_name_exists():
    for room in REFERENCE.ROOMS:
        module = importlib.import_module(f"attn_closed_form{room}")
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert hasattr(module, name), name
