"""Pages of the site from files outside docs/, the links between all pages, and a site that works
from a file.

On disk and on a code host, a link points to the file itself. On the site, it points to the page
made from the file. A file that is not a page is named without a link.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from split_results import (
    COMPARISONS_PAGE,
    PAPERS,
    VERDICTS_PAGE,
    pages_of_results,
)

ROOT = Path(__file__).parents[2]
#: The path of each repository file on the site.
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "attn_closed_form/NOTATION.md": "theory/notation.md",
    "attn_closed_form/app/MODEL_CARD.md": "project/model-card.md",
    "benchmarks/BARS.md": "papers/bars.md",
    "benchmarks/DEVICES.md": "papers/devices.md",
    "benchmarks/LEARNING_CURVES.md": "papers/learning-curves.md",
    "benchmarks/RESULTS.md": VERDICTS_PAGE,
    "proofs_check/ERRATA.md": "papers/errata.md",
    "README.md": "index.md",
}
#: Pages with wide tables, which are shown without the navigation at the left.
WIDE = (
    VERDICTS_PAGE,
    COMPARISONS_PAGE,
    *(page for page, *_ in PAPERS),
    "papers/bars.md",
)
RESULTS = "benchmarks/RESULTS.md"
FIGURES = "benchmarks/figures"
LINK = r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)"
FENCED = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)
#: A link as a whole, whose text may contain code, or code that is not part of a link.
LINK_OR_CODE = re.compile(rf"{LINK}|`[^`\n]+`")
CODE = re.compile(r"(`[^`\n]+`)")


def on_files(files: Files, config: Any, **others: Any) -> Files:
    """Add the pages and their figures."""
    for name, page in PAGES.items():
        if not (ROOT / name).is_file() or page == "index.md":
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        made = pages_of_results(text) if name == RESULTS else {page: text}
        for path, content in made.items():
            front = "---\nhide: [navigation]\n---\n\n" if path in WIDE else ""
            files.append(File.generated(config, path, content=front + content))
    for figure in sorted((ROOT / FIGURES).glob("*.png")):
        files.append(
            File.generated(
                config,
                f"papers/figures/{figure.name}",
                abs_src_path=str(figure),
            )
        )
    return files


def on_page_markdown(
    markdown: str, page: Any, files: Files, **others: Any
) -> str:
    """Turn every link to a file of the repository into a link to its page."""
    here = page.file.src_uri
    sources = {site: name for name, site in PAGES.items() if site != "index.md"}
    if here.startswith("papers/results-"):
        source = RESULTS
    else:
        source = sources.get(here, f"docs/{here}")
    parts = FENCED.split(markdown)
    for i in range(0, len(parts), 2):  # the text between code blocks
        text = LINK_OR_CODE.sub(
            lambda match: _link(match, source, here, files), parts[i]
        )
        parts[i] = _without_awkward_breaks(text)
    return "".join(parts)


def _without_awkward_breaks(text: str) -> str:
    """No line break around a plus-minus sign; code stays as it is."""
    parts = CODE.split(text)
    for i in range(0, len(parts), 2):
        parts[i] = parts[i].replace(
            " ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
        )
    return "".join(parts)


SHIM = "https://unpkg.com/iframe-worker/shim"


def on_post_page(output: str, page: Any, **others: Any) -> str:
    """Load the script that makes search work from a file from the site, not from the network."""
    here = os.path.dirname(page.file.src_uri)
    output = output.replace(
        SHIM,
        os.path.relpath("assets/offline-search.js", here or ".").replace(
            os.sep, "/"
        ),
    )
    # The dialog of the search has no name in the theme.
    output = output.replace(
        'data-md-component="search" role="dialog"',
        'data-md-component="search" role="dialog" aria-label="Search"',
    )
    if loaded := re.search(
        r'<(?:script|img|link)[^>]+(?:src|href)="https?:[^"]+"', output
    ):
        raise ValueError(
            f"{page.file.src_uri}: expected nothing from the network, got {loaded[0]}"
        )
    return output


def _link(match: re.Match[str], source: str, here: str, files: Files) -> str:
    mark, text, target = match.groups()
    if target is None:  # code
        return match[0]
    path, _, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return match[0]
    name = os.path.normpath(os.path.join(os.path.dirname(source), path))
    site = _on_site(name)
    if site is None or files.get_file_from_path(site) is None:
        if not (ROOT / name).exists():
            return match[0]  # MkDocs reports the broken link
        return f"{text} (`{name}`)" if name not in text else f"`{name}`"
    new = os.path.relpath(site, os.path.dirname(here) or ".").replace(
        os.sep, "/"
    )
    return f"{mark}[{text}]({new}{'#' + anchor if anchor else ''})"


def _on_site(name: str) -> str | None:
    """The path of a repository file on the site, or None."""
    if name in PAGES:
        return PAGES[name]
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if name.startswith(FIGURES):
        return f"papers/figures/{Path(name).name}"
    return None
