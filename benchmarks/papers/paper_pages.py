"""One page per paper for the documentation, from `proofs_check` and the result files.

python -m benchmarks.papers.paper_pages            # write docs/papers/*.md
python -m benchmarks.papers.paper_pages --check    # fail if one is stale
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
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
from .checklist import CHECKED, EXPERIMENT, ITEMS, UNTESTED
from .checklist import CORRECTED as MENDED_STATEMENT
from .paper_stories import (
    Rows,
    areas_of_table_11,
    attention_repository,
    expressions_of_tables_7_8,
    forms_of_theorem_5_1,
    growing_t_max,
    slalom_repository,
    table,
)
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
    "classifier with one "
    "layer of attention, in formulas. This library computes those formulas, and exact values where "
    "they approximate.",
    "P2": "Leemann, Fastowski, Pfeiffer and Kasneci (2025) show that transformers do not learn "
    "additive models and "
    "propose SLALOM, a softmax-weighted average, as their surrogate. This library fits and "
    "explains SLALOMs.",
}


# The picture of a claim by its place: a file of benchmarks/figures, and what it shows.
PICTURES = {
    "P1 sec. 4.2 (i), correlated": ("paper1_gradients", "correlations of attention and gradients"),
    "P1 Fig. 1 (other trainings)": (
        "paper1_examples",
        "seven explanations of the sentence of Fig. 1, trained as appendix F says",
    ),
    "P1 Fig. 3": ("paper1_examples_heads", "attention of six heads, trained as appendix F says"),
    "P1 Theorem 5.1": ("paper1_growth", "errors by T_max"),
    "P1 Fig. 4, sec. 6, B.1": ("paper1_lime", "five runs of LIME, and the authors' values"),
    "P1 sec. 6": ("paper1_growth", "errors by the length of the review"),
    "P1 App. E": ("paper1_layers", "LIME and attention with six layers"),
    "P2 Fig. 3, 7": ("linear_data", "outputs by the number of repetitions"),
    "P2 Fig. 4 (c, d), Tables 7, 8": ("recovery", "recovered and true scores"),
    "P2 Fig. 6": ("reviews", "errors of predicted changes"),
    "P2 Fig. 5, 12": ("reviews_scatter_encoder", "importances and values of one review"),
    "P2 Tables 1c, 11, 12": ("other_model", "deletion and insertion of the TF-IDF network"),
    "P2 Tables 2, 13a (SLALOM-eff)": ("cost", "times of the methods"),
}
# Reasons of a failure that a page gives; RESULTS.md has all of them.
REASONS = 2
NUMBERS = re.compile(r"[-+]?\d[\d.,]*")
# The modules behind a sample, at its end.
MODULES_OF_A_SAMPLE = re.compile(r" \([^()]*\)$")
STATUSES = (CHECKED, MENDED_STATEMENT, EXPERIMENT, UNTESTED)
PICTURE_FOLDER = RESULTS.parent / "figures"
ROOT = Path(__file__).parents[2]
SECTIONS = (
    ("What holds", CLAIM_HOLDS, ""),
    (
        "What fails as printed and holds in a corrected form",
        MENDED,
        "Both forms are judged by the same measure on the same sample.",
    ),
    ("What does not hold", FAILS, "As printed, or on the models that were trained here:"),
    ("What could not be tested", UNTRIED, ""),
)


def page(paper: str, found: list[Verdict], rows: Rows) -> str:
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
    ]
    shown: set[str] = set()
    for title, verdict, lead in SECTIONS:
        some = [v for v in mine if v.verdict == verdict]
        if some:
            parts += [f"## {title}", *([lead] if lead else [])]
            for v in some:
                parts += claim_parts(v, shown)
    if paper == "P1":
        story = forms_of_theorem_5_1(rows) + growing_t_max(rows)
    else:
        story = expressions_of_tables_7_8(rows) + areas_of_table_11(rows)
    # A claim has already shown some of the pictures.
    again = tuple(f"figures/{name}.png)" for name in shown)
    parts += [part for part in story if not part.endswith(again)]
    parts += [
        "## What changes a result",
        "Most corrections are notes for a second edition. The following change a conclusion of the "
        "paper, the most serious first:",
        bullets(changing, lambda entry: f"{entry.changes} ({entry.kind})"),
        "## What the authors' figures still show",
        figures(paper),
        "## What the authors' repository answers",
        *(attention_repository() if paper == "P1" else slalom_repository()),
        "## Behind this page",
        f"- [All {len(ITEMS)} statements of both papers](statements.md), each with its status and "
        "the code that looks at it.\n"
        "- [The results](../../benchmarks/RESULTS.md): every number with its standard error, next "
        "to "
        "the paper's, and how each claim was judged.\n"
        "- [The errata](../../proofs_check/ERRATA.md): each correction with a counterexample.\n"
        f"- `python -m proofs_check --paper {paper}` checks the statements again, and `--list` "
        "prints their names. `make reproduce DATA=PATH` runs a small size of the experiments, and "
        "`make reproduce-full DATA=PATH` the size of this page.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def code_links(v: Verdict) -> str:
    """Links to the code that shows a claim: checks of statements, and experiments."""
    registry = {entry.key: entry for entry in statements()}
    files = {
        registry[key].check.__module__.replace(".", "/") + ".py": "proofs_check"
        for key in v.claim.proofs
    }
    for module in v.modules.replace("`", "").split(", "):
        file = f"benchmarks/papers/{module}.py"
        if (ROOT / file).exists():
            files[file] = module
    return ", ".join(f"[`{Path(file).stem}`](../../{file})" for file in files)


def claim_parts(v: Verdict, shown: set[str]) -> list[str]:
    """One claim: the sentence, in how many cases it holds, how that was judged, code and picture.

    A picture that the page has already shown is left out.
    """
    place = v.claim.where.split(maxsplit=1)[1]
    parts = [f"### {escaped(place[0].upper() + place[1:])}", escaped(v.claim.text)]
    if v.claim.untried:
        parts.append(f"It was not tested: {v.claim.untried}.")
    parts += [statement_sentence(v), *judged(v)]
    # The same reason for several models differs in its numbers.
    why = list({NUMBERS.sub("", r): r for r in v.reasons if not r.startswith("see ")}.values())
    if why and v.verdict != CLAIM_HOLDS:
        parts.append(f"Where it fails: {escaped('; '.join(why[:REASONS]))}.")
    parts.append(escaped(v.claim.note))
    if links := code_links(v):
        parts.append(f"Code: {links}.")
    name, caption = PICTURES.get(v.claim.where, ("", ""))
    if name and name not in shown and (PICTURE_FOLDER / f"{name}.png").exists():
        shown.add(name)
        parts.append(f"![{caption}](../../benchmarks/figures/{name}.png)")
    return [part for part in parts if part]


def statement_sentence(v: Verdict) -> str:
    """What the registry says of the statements of a claim: the kind of error, and what is right."""
    registry = {entry.key: entry for entry in statements()}
    entries = [registry[key] for key in v.claim.proofs]
    wrong = [entry for entry in entries if entry.kind]
    if not entries:
        return ""
    if not wrong:
        return "As a statement it is right."
    kinds = ", ".join(dict.fromkeys(f"*{entry.kind}*" for entry in wrong))
    corrected = " ".join(entry.changes or entry.corrected for entry in wrong)
    return (
        f"[The errata](../../proofs_check/ERRATA.md) list it as {kinds}, with a counterexample. "
        f"Corrected: {escaped(corrected)}"
    )


def judged(v: Verdict) -> list[str]:
    """In how many cases each form holds, one group for each way to judge."""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for sides, mark in ((v.printed, ""), (v.corrected, "corrected: ")):
        for side in sides:
            if " of " in side.outcome:
                name = escaped(side.name or "as printed")
                mine = groups.setdefault(side.terms, [])
                mine.append([f"{mark}{name.removeprefix('corrected, ')}", side.outcome])
    parts = []
    for (absent, sample, measure, threshold), lines in groups.items():
        # The links to the code name the modules.
        cases = MODULES_OF_A_SAMPLE.sub("", sample)
        how = (
            f"*Measure:* {escaped(measure)}. *Threshold:* {escaped(threshold)}. *Sample:* {cases}. "
            f"*Absent words:* {absent}."
        )
        if len(lines) > 1:
            cells = [[name.replace("|", "\\|"), outcome] for name, outcome in lines]
            parts += [how, table(["form", "holds in"], cells)]
            continue
        ((name, outcome),) = lines
        if name == "as printed":
            parts.append(f"It holds in {outcome}. {how}")
        else:
            parts.append(f"{name[0].upper()}{name[1:]}: {outcome}. {how}")
    return parts


def statements_page() -> str:
    """All statements of both papers with their status and the files that look at them."""
    registry = {entry.key: entry for entry in statements()}
    counts = Counter(item.status(registry) for item in ITEMS)
    said = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    parts = [
        "<!-- Made by `python -m benchmarks.papers.paper_pages`; do not edit. -->",
        "# All statements of the two papers",
        f"An independent reader listed {len(ITEMS)} statements of the two papers and the slides: "
        f"{said}. *Checked* statements hold as printed by enumeration, automatic differentiation "
        "or "
        "a test of the library. *Corrected* ones fail as printed and hold in the form of [the "
        "errata](../../proofs_check/ERRATA.md). *Experiments* are measured on models that were "
        "trained here; [the pages of the papers](lopardo2024.md) have the outcome.",
    ]
    number = 0
    for paper in PAPERS:
        lines = []
        for item in (one for one in ITEMS if one.paper == paper):
            number += 1
            entries = [registry[f"{paper} {ref}"] for ref in item.proofs]
            files = dict.fromkeys(
                [e.check.__module__.replace(".", "/") + ".py" for e in entries]
                + list(item.files)
                + [f"benchmarks/papers/{name}.py" for name in item.experiments]
            )
            links = ", ".join(f"[`{Path(file).stem}`](../../{file})" for file in files)
            why = item.why or " ".join(e.reason for e in entries if e.reason)
            place = escaped(item.place).replace("|", "\\|")
            note = escaped(why).replace("|", "\\|")
            lines.append([str(number), place, item.status(registry), links, note])
        parts += [
            f"## {paper}: {PAPERS[paper]}",
            table(["", "statement", "status", "where", "to know"], lines),
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
        "corrected form, and "
        f"{n[NOT_CHECKABLE]} cannot be checked by a machine. The kinds of corrections are "
        f"{', '.join(kinds)}. Of "
        f"{len(found)} claims that the paper makes with its theorems, figures and tables, "
        f"{tally(found)}."
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


def pages(folder: Path = RESULTS) -> dict[Path, str]:
    """Text of every page by its file, from the result files of a folder."""
    records = load_records(folder)
    found = verdicts(records)
    rows = Rows(records)
    made = {FOLDER / f"{NAMES[paper]}.md": page(paper, found, rows) for paper in PAPERS}
    return {**made, FOLDER / "statements.md": statements_page()}


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
