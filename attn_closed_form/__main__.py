"""`python -m attn_closed_form`: without arguments a demonstration, with arguments the command line."""

from __future__ import annotations

import shutil
import sys

import numpy as np

from .cli.main import main, piped, program
from .explanations.explanation import Explanation
from .files.open_model import load_demo_model
from .show.terminal import answer, use_color

SENTENCE = "A slow start and a silly plot, but the actors are wonderful and the ending is moving."


def shapley_by_enumeration(explanation: Explanation) -> np.ndarray:
    """Shapley values by the definition, over all 2^d coalitions: the check that the demonstration prints.

    >>> e = load_demo_model().explain("a slow but fine film", "shapley")["shapley"]
    >>> bool(np.abs(shapley_by_enumeration(e) - e.scores).max() <= e.error)
    True
    """
    game = explanation.game
    d = game.d
    masks = (np.arange(2**d)[:, None] >> np.arange(d)) & 1 == 1
    value = game.value(masks)
    size = masks.sum(axis=1)
    # A coalition of s players besides j has weight s! (d - 1 - s)! / d!, here by a running product.
    weight = np.full(d, 1.0 / d)
    for s in range(1, d):
        weight[s] = weight[s - 1] * s / (d - s)
    phi = np.empty(d)
    for j in range(d):
        without = np.flatnonzero(~masks[:, j])
        phi[j] = weight[size[without]] @ (value[without + 2**j] - value[without])
    return phi


def demo() -> int:
    """Explain a sentence with the shipped model, and check the Shapley values against their definition."""
    model = load_demo_model()
    found = model.explain(SENTENCE)
    columns = shutil.get_terminal_size((100, 24)).columns
    shapley = found["shapley"]
    print(f"The shipped sentiment model reads: {SENTENCE}\n")
    print(answer(found, columns, use_color(sys.stdout)))
    gap = np.abs(shapley_by_enumeration(shapley) - shapley.scores).max()
    print(f"\nExact Shapley values: against all {2 ** len(shapley.labels):,} coalitions, largest difference {gap:.1e}.")
    print(f'next: {program()} explain "your own text" --compare --html report.html')
    return 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else piped(demo))
