"""The results of the benchmarks as four pages: verdicts, the tables of each paper, and comparisons.

On disk they are one file, `benchmarks/RESULTS.md`, which is far too long for one page of a site.
"""

from __future__ import annotations

import re

SECTION = re.compile(r"^## (.+)$\n", re.MULTILINE)
RESULT = re.compile(r"^(?=### )", re.MULTILINE)
#: The section with the tables of both papers; each of its parts begins with the name of its paper.
TABLES = "The papers' tables and figures"
COMPARISONS = "Comparisons"
#: Page, title, and the first letters of the parts of TABLES that belong on it.
PAPERS = (
    (
        "papers/results-lopardo2024.md",
        "Results of Lopardo et al. 2024",
        "### P1",
    ),
    (
        "papers/results-leemann2025.md",
        "Results of Leemann et al. 2025",
        "### P2",
    ),
)
VERDICTS_PAGE = "papers/results.md"
COMPARISONS_PAGE = "papers/results-comparisons.md"
MORE = (
    "\nThe numbers behind the verdicts are on pages of their own: [Lopardo et al. "
    "2024](results-lopardo2024.md), [Leemann et al. 2025](results-leemann2025.md), and "
    "[comparisons](results-comparisons.md) of estimates with long runs.\n"
)
BACK = (
    "\n[The verdicts](results.md) explain the columns and judge each claim.\n\n"
)


def pages_of_results(text: str) -> dict[str, str]:
    """The content of each page, by its path on the site. A part that has no page ends the build."""
    first, *rest = SECTION.split(text)
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    parts = [
        part for part in RESULT.split(sections.pop(TABLES)) if part.strip()
    ]
    pages = {}
    for path, title, start in PAPERS:
        own = [part for part in parts if part.startswith(start)]
        parts = [part for part in parts if not part.startswith(start)]
        # One level up: the page has no section above its parts.
        pages[path] = f"# {title}\n{BACK}" + "".join(part[1:] for part in own)
    if parts:
        raise ValueError(f"expected results of P1 or P2, got {parts[0][:80]!r}")
    compared = sections.pop(COMPARISONS, "").replace("\n### ", "\n## ")
    pages[COMPARISONS_PAGE] = f"# Comparisons\n{BACK}{compared}"
    verdicts = "".join(f"## {name}\n{body}" for name, body in sections.items())
    pages[VERDICTS_PAGE] = f"{first}{MORE}\n{verdicts}"
    return pages
