"""The format of `--help`: examples keep their lines, as far as the terminal is wide enough."""

from __future__ import annotations

import argparse
import re

from ..show.sanitize import fitted_lines


class FittedHelp(argparse.RawDescriptionHelpFormatter):
    """Help whose examples keep their lines, as far as they fit into the terminal."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return fitted_lines(_paragraphs(text), width)


def _paragraphs(text: str) -> str:
    r"""Join the lines of each paragraph; indented lines are examples, and keep theirs.

    >>> _paragraphs("examples:\n  run FILE\n\nOne\nsentence.")
    'examples:\n  run FILE\n\nOne sentence.'
    """
    return re.sub(r"(?<=[^\n:])\n(?=[^\s])", " ", text)
