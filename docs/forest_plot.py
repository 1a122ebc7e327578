"""Draw the forest plot of the page on weighted means: `python docs/forest_plot.py`.

The code is that of the page, so that the picture is what a reader gets.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.pages import reader, run_page  # noqa: E402

PAGE = HERE / "weighted-means.md"
PICTURE = HERE / "gallery" / "forest.png"


def main() -> int:
    """Run the page, and keep its picture."""
    name = PAGE.relative_to(HERE.parent).as_posix()
    with reader(name) as names:
        run_page(PAGE.read_text(encoding="utf-8"), name, names)
        shutil.copy("forest.png", PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
