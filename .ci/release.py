"""Two steps of a release: the tag is the version, and the links of the README are absolute.

    python .ci/release.py version v0.4.0
    python .ci/release.py readme https://HOST/OWNER/NAME/blob/v0.4.0

A package index shows the README alone, so a link to a file of the repository needs its address, and
a picture the address of its content ("raw" in place of "blob"). There, the package is installed by
its name and not from its source. The second step changes README.md in place; nothing commits it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s]+)\)")
# How to install from source, which a reader of the package index does not need.
FROM_SOURCE = re.compile(r"<!-- from source -->.*?<!-- end of from source -->\n", re.DOTALL)
FROM_INDEX = """\
You need Python 3.11 or newer; NumPy is the only dependency.

```sh
pip install attn-closed-form
```
"""
CODE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def version() -> str:
    """The version of the package, without importing it."""
    text = (ROOT / "attn_closed_form" / "__init__.py").read_text(encoding="utf-8")
    found = VERSION.search(text)
    assert found is not None
    return found[1]


def with_addresses(markdown: str, address: str) -> str:
    """The text with an absolute address in every link to a file; code stays as it is."""

    def absolute(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        base = address.replace("/blob/", "/raw/") if mark else address
        return f"{mark}[{text}]({base.rstrip('/')}/{target})"

    parts = CODE.split(markdown)
    for i in range(0, len(parts), 2):  # the text between blocks of code
        parts[i] = LINK.sub(absolute, parts[i])
    return "".join(parts)


def from_index(markdown: str) -> str:
    """The text with the name of the package where it is installed from its folder."""
    text = FROM_SOURCE.sub(FROM_INDEX, markdown)
    text = text.replace("pip install .`", "pip install attn-closed-form`")
    return text.replace("'.[", "'attn-closed-form[")


def main(argv: list[str]) -> int:
    """Run one step; return 1 with a sentence if it fails."""
    if argv[:1] == ["version"] and len(argv) == 2:
        if argv[1] == f"v{version()}":
            return 0
        print(f"expected the tag v{version()}, got {argv[1]}", file=sys.stderr)
        return 1
    if argv[:1] == ["readme"] and len(argv) == 2:
        path = ROOT / "README.md"
        text = path.read_text(encoding="utf-8")
        path.write_text(from_index(with_addresses(text, argv[1])), encoding="utf-8")
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
