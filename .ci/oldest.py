"""Print the oldest versions that pyproject.toml allows, as a constraints file for pip.

`python .ci/oldest.py` turns every lower bound of the core and of the extras for users (`all`) into
an equality, so that `make test-oldest` runs the tests with exactly the versions that are claimed to
be enough.
"""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


def requirements(extra: str) -> list[str]:
    """Requirements of an extra, those of the extras that it names included."""
    found = []
    for requirement in PROJECT["optional-dependencies"][extra]:
        own = re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", requirement)
        found += (
            [name for part in own[1].split(",") for name in requirements(part)]
            if own
            else [requirement]
        )
    return found


def main() -> None:
    """One line per package, in the order of their names."""
    bounds = {}
    for requirement in [*PROJECT["dependencies"], *requirements("all")]:
        name, version = re.match(r"([\w.-]+)(?:\[.*?\])?>=([\w.]+)", requirement).groups()
        bounds[name] = version
    for name, version in sorted(bounds.items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
