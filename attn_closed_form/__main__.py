"""`python -m attn_closed_form`: a demonstration without arguments, the command line with
arguments.
"""

from __future__ import annotations

import shutil
import sys
from math import comb

import numpy as np

from ._arrays import all_coalitions
from .app.cli.main import main, piped, program
from .app.explanations.explanation import Explanation
from .app.files.open_model import load_demo_model
from .app.show.terminal import answer, use_color

# The sentence of `make demo`: mixed, so that words pull both ways.
SENTENCE = "A slow start and a silly plot, but the actors are wonderful and the ending is moving."


def shapley_by_enumeration(explanation: Explanation) -> np.ndarray:
    """Compute Shapley values by their definition, over all 2^d coalitions, to check those of the
    demonstration.

    >>> e = load_demo_model().explain("a slow but fine film", "shapley")["shapley"]
    >>> bool(np.abs(shapley_by_enumeration(e) - e.scores).max() <= e.error)
    True
    """
    game = explanation.game
    d = game.d
    masks = all_coalitions(d)
    size = masks.sum(axis=1)
    # A player gains f(S) in every coalition S that it belongs to and loses f(S) in every other one,
    # weighted by size.
    weight = np.zeros(d + 1)
    weight[:d] = [1 / (d * comb(d - 1, s)) for s in range(d)]
    joined = weight[size - 1, None]
    missed = -weight[size, None]
    weight_of_coalition = np.where(masks, joined, missed)
    return np.asarray(game.value(masks) @ weight_of_coalition)


def demo() -> int:
    """Explain a sentence with the shipped model, and check the Shapley values against their
    definition.
    """
    explanations = load_demo_model().explain(SENTENCE)
    shapley = explanations["shapley"]
    columns = shutil.get_terminal_size((100, 24)).columns
    print(f"The shipped sentiment model reads: {SENTENCE}\n")
    print(answer(explanations, columns, use_color(sys.stdout)))
    gap = np.abs(shapley_by_enumeration(shapley) - shapley.scores).max()
    count = 2 ** len(shapley.labels)
    print(
        f"\nThe Shapley values are exact: over all {count:,} coalitions, the largest difference is "
        f"{gap:.1e}."
    )
    print(f'next: {program()} explain "any text" --compare --html report.html')
    return 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else piped(demo))
