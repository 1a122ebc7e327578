"""Every page with Python blocks is also a notebook, with the outputs that the tests compare.

A block of Python becomes a code cell, the output below it on the page becomes the output of the cell, and all else is
Markdown. The site offers the notebook at the top of the page. `tests/test_notebooks.py` runs the cells.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any

from mkdocs.structure.files import File, Files

PYTHON_BLOCK = re.compile(
    r"^```(?:python|py)\n(?P<code>.*?)^```\n"
    r'(?:\n*```text title="Output"\n(?P<output>.*?)^```\n)?',
    re.MULTILINE | re.DOTALL,
)
COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
RELATIVE_LINK = re.compile(r"(!?)\[([^\]]+)\]\((?![a-z]+:)[^)]+\)")
SCRIPT = re.compile(r"^<(?:script|div|/div).*?$\n?", re.MULTILINE)


def has_notebook(src_uri: str, text: str) -> bool:
    """Whether a page is a tutorial or a guide with Python blocks at the margin."""
    folder = posixpath.dirname(src_uri)
    return folder in ("", "tutorials") and PYTHON_BLOCK.search(text) is not None


def notebook_uri(src_uri: str) -> str:
    """The path of a page's notebook on the site."""
    return (
        "notebooks/"
        + posixpath.basename(src_uri).removesuffix(".md")
        + ".ipynb"
    )


def notebook(markdown: str) -> dict[str, Any]:
    """The page as a notebook of format 4.5."""
    cells: list[dict[str, Any]] = []
    done = 0
    for execution, match in enumerate(PYTHON_BLOCK.finditer(markdown), start=1):
        _add_text(cells, markdown[done : match.start()])
        cells.append(_code_cell(match["code"], match["output"], execution))
        done = match.end()
    _add_text(cells, markdown[done:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def on_files(files: Files, config: Any, **others: Any) -> Files:
    """Add a notebook for every page that has Python blocks."""
    for file in list(files.documentation_pages()):
        text = file.content_string
        if has_notebook(file.src_uri, text):
            content = json.dumps(notebook(text), indent=1, ensure_ascii=False)
            files.append(
                File.generated(
                    config, notebook_uri(file.src_uri), content=content
                )
            )
    return files


def on_page_content(
    content: str, page: Any, files: Files, **others: Any
) -> str:
    """Offer the notebook below the title of its page."""
    if page.file.src_uri == "index.md" or not has_notebook(
        page.file.src_uri, page.markdown or ""
    ):
        return content
    here = posixpath.dirname(page.file.src_uri) or "."
    target = posixpath.relpath(notebook_uri(page.file.src_uri), here)
    link = f'<p class="notebook"><a href="{target}" download>Download as a notebook</a></p>'
    return content.replace("</h1>", f"</h1>\n{link}", 1)


def _code_cell(code: str, output: str | None, execution: int) -> dict[str, Any]:
    outputs = []
    if output is not None:
        outputs.append(
            {
                "output_type": "stream",
                "name": "stdout",
                "text": output.splitlines(keepends=True),
            }
        )
    return {
        "cell_type": "code",
        "metadata": {},
        "source": code.rstrip("\n").splitlines(keepends=True),
        "execution_count": execution,
        "outputs": outputs,
    }


def _add_text(cells: list[dict[str, Any]], text: str) -> None:
    """Append a cell of Markdown, unless the text is empty. Links to other pages become plain text."""
    text = SCRIPT.sub("", COMMENT.sub("", text))
    text = RELATIVE_LINK.sub(
        lambda match: "" if match[1] else match[2], text
    ).strip("\n")
    if text.strip():
        cells.append(
            {
                "cell_type": "markdown",
                "metadata": {},
                "source": text.splitlines(keepends=True),
            }
        )
