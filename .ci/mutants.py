"""Print a module of the library and its tests, another one every day: `make mutants ARGS="$(python .ci/mutants.py)"`.

Modules are those with a test of their own name, `attn_closed_form/game/owen.py` for `tests/game/test_owen.py`. Tests
of the folder and the module's own examples come along. `python .ci/mutants.py 3` prints the choice of day 3.
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def choices() -> list[tuple[Path, Path]]:
    """Every module that has a test of its own name, and that test; paths from the root."""
    found = []
    for package, tests in (("attn_closed_form", "tests"), ("jax_model/training", "tests/jax_model")):
        for module in sorted((ROOT / package).rglob("*.py")):
            test = ROOT / tests / module.relative_to(ROOT / package).with_name(f"test_{module.name}")
            if test.is_file():
                found.append((module.relative_to(ROOT), test.relative_to(ROOT)))
    return found


def main() -> None:
    """One line: the module, its own examples, the tests of its folder."""
    day = int(sys.argv[1]) if len(sys.argv) > 1 else datetime.datetime.now(datetime.UTC).toordinal()
    pairs = choices()
    module, test = pairs[day % len(pairs)]
    print(module.as_posix(), module.as_posix(), test.parent.as_posix())


if __name__ == "__main__":
    main()
