"""One page per paper for the documentation, from `proofs_check` and the result files.

python -m benchmarks.papers.paper_pages            # write docs/papers/*.md
python -m benchmarks.papers.paper_pages --check    # fail if one is stale
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from proofs_check.errata import FIGURES, escaped
from proofs_check.registry import (
    CORRECTED,
    HOLDS,
    KINDS,
    NOT_CHECKABLE,
    PAPERS,
    Statement,
    statements,
)

from ..harness import RESULTS
from ..results_page import load_records
from .verdicts import CORRECTED as MENDED
from .verdicts import FAILS, UNTRIED, Verdict, of_paper, tally, verdicts
from .verdicts import HOLDS as CLAIM_HOLDS

FOLDER = Path(__file__).parents[2] / "docs" / "papers"
NAMES = {"P1": "lopardo2024", "P2": "leemann2025"}
TITLES = {
    "P1": "Attention meets post-hoc interpretability, run again",
    "P2": "Attention mechanisms don't learn additive models, run again",
}
ABOUT = {
    "P1": "Lopardo, Precioso and Garreau (ICML 2024) compare attention, gradients and LIME on a "
    "classifier with one layer of attention, in formulas. This library computes those formulas, "
    "and exact values where they approximate.",
    "P2": "Leemann, Fastowski, Pfeiffer and Kasneci (2025) show that transformers do not learn "
    "additive models and propose SLALOM, a softmax-weighted average, as their surrogate. This "
    "library fits and explains SLALOMs.",
}


def page(paper: str, found: list[Verdict]) -> str:
    """The page of one paper, "P1" or "P2"; `found` are the verdicts on both."""
    entries = statements(paper)
    changing = [entry for entry in entries if entry.changes]
    changing.sort(key=lambda entry: -list(KINDS).index(entry.kind))
    mine = of_paper(found, paper)
    parts = [
        "<!-- Made by `python -m benchmarks.papers.paper_pages`; do not edit. -->",
        f"# {TITLES[paper]}",
        ABOUT[paper],
        summary(entries, mine),
        "## What changes a result",
        "Most corrections are notes for a second edition. The following change a conclusion of the "
        "paper, the most serious first:",
        bullets(changing, lambda entry: f"{entry.changes} ({entry.kind})"),
        "## What the authors' figures still show",
        figures(paper),
    ]
    for title, verdict, lead in (
        ("What holds", CLAIM_HOLDS, ""),
        ("What fails as printed and holds in a corrected form", MENDED, ""),
        ("What does not hold", FAILS, "As printed, or on the models that were trained here:"),
        ("What could not be tested", UNTRIED, ""),
    ):
        some = [v for v in mine if v.verdict == verdict]
        if some:
            parts += [
                f"## {title}",
                *([lead] if lead else []),
                "\n".join(claim_line(v) for v in some),
            ]
    parts += [
        "## Where the numbers come from",
        "All numbers are generated from stored results. [The "
        "results](../../benchmarks/RESULTS.md) list them with standard errors, next to the "
        "paper's numbers and the differences in the setup. [The "
        "errata](../../proofs_check/ERRATA.md) list each correction with a counterexample. "
        f"`python -m proofs_check --paper {paper}` checks the statements again, `make reproduce "
        "DATA=PATH` runs a small size of the experiments, and `make reproduce-full DATA=PATH` the "
        "size of this page.",
    ]
    return "\n\n".join(parts) + "\n"


def summary(entries: list[Statement], found: list[Verdict]) -> str:
    """How many statements and claims hold."""
    n = {
        verdict: sum(entry.verdict == verdict for entry in entries)
        for verdict in (HOLDS, CORRECTED, NOT_CHECKABLE)
    }
    kinds = [f"{kind} ({sum(entry.kind == kind for entry in entries)})" for kind in KINDS]
    return (
        f"Of {len(entries)} statements, {n[HOLDS]} hold as printed, {n[CORRECTED]} hold only in a "
        f"corrected form, and {n[NOT_CHECKABLE]} cannot be checked by a machine. The kinds of "
        f"corrections are {', '.join(kinds)}. Of {len(found)} claims that the paper makes with its "
        f"theorems, figures and tables, {tally(found)}."
    )


def figures(paper: str) -> str:
    """The part of the errata on a paper's figures."""
    items = FIGURES.split("\n- ")[1:]
    mine = "\n".join(f"- {item.rstrip()}" for item in items if item.startswith(f"**{paper}"))
    return mine.replace(
        "*Figure 4* below", "*Figure 4* in [the errata](../../proofs_check/ERRATA.md)"
    )


def bullets(entries: list[Statement], text: Callable[[Statement], str]) -> str:
    return "\n".join(f"- **{escaped(entry.ref)}**: {escaped(text(entry))}" for entry in entries)


def claim_line(v: Verdict) -> str:
    """One claim with its numbers."""
    place = v.claim.where.split(maxsplit=1)[1]
    facts = [
        v.numbers,
        *([v.n] if v.n and v.n != "not sampled" else []),
        *([v.modules] if v.modules else []),
    ]
    return f"- **{escaped(place)}**: {escaped(v.claim.text)} ({'; '.join(facts)})"


def pages(folder: Path = RESULTS) -> dict[Path, str]:
    """Text of every page by its file, from the result files of a folder."""
    found = verdicts(load_records(folder))
    return {FOLDER / f"{NAMES[paper]}.md": page(paper, found) for paper in PAPERS}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.paper_pages", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is stale"
    )
    args = parser.parse_args(argv)
    stale = [
        file
        for file, text in pages().items()
        if not file.exists() or file.read_text(encoding="utf-8") != text
    ]
    if args.check:
        for file in stale:
            print(
                f"{file.name} is stale: run python -m benchmarks.papers.paper_pages",
                file=sys.stderr,
            )
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
