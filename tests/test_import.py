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


def test_every_exported_name_exists():
    for room in REFERENCE.ROOMS:
        module = importlib.import_module(f"attn_closed_form{room}")
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert hasattr(module, name), name
