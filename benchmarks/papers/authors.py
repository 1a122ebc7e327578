"""What the authors' public repositories store: numbers that answer what the papers leave open.
Facts only, no code.

`authors_values.json` has them with repository, commit and cell. It was written from copies of the
repositories by

    python -m benchmarks.papers.authors --attention PATH --slalom PATH

- P1 (gianluigilopardo/attention_meets_xai): the mean LIME coefficient of all 71 words of Fig. 4 and
  the printed value of Eq. 19 for each; both sides of Fig. 5 as far as the notebook prints them; the
  scores of Fig. 1; the model's card.
- P2 (tleemann/slalom_explanations): importances and values of the first words of the recovery
  experiment, a fit of Eq. 81 to all 200, and the numbers that the notebook of the tables prints for
  Table 15.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np

from attn_closed_form._types import Array

FILE = Path(__file__).with_name("authors_values.json")
ATTENTION = "gianluigilopardo/attention_meets_xai"
SLALOM = "tleemann/slalom_explanations"
# Words of the recovery experiment that are kept: the smallest vocabulary that the authors' notebook
# shows.
WORDS = 16
# Cells of the notebooks, counted from 0.
LIME_CELL = 23
THEOREM_CELL = 28
OUTPUT_CELL = 12
GRADIENT_THEORY_CELL = 17
GRADIENT_AUTODIFF_CELL = 19
LARGE_MODELS_CELL = 12
FIGURE_1_CELLS = {
    "α-avg": 14,
    "α-max": 16,
    "LIME": 18,
    "G-avg": 21,
    "G-l2": 23,
    "G-l1": 25,
    "G×I": 27,
}
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")


def values() -> dict[str, Any]:
    """The stored file."""
    return cast("dict[str, Any]", json.loads(FILE.read_text(encoding="utf-8")))


def figure_4() -> tuple[list[str], Array, Array]:
    """The 71 words of P1's Fig. 4, LIME's mean coefficients over five runs, and Eq. 19 as printed.

    >>> words, lime, printed = figure_4()
    >>> len(words), lime.shape, printed.shape
    (71, (71,), (71,))
    """
    stored = values()["P1"]["figure 4"]
    words = sorted(stored["lime"])
    lime = np.array([stored["lime"][word] for word in words])
    return words, lime, np.array([stored["printed"][word] for word in words])


def relative_error(lime: Array, theory: Array) -> float:
    """Norm of the difference over the norm of LIME's coefficients, the measure of `paper1_lime`."""
    return float(np.linalg.norm(lime - theory) / np.linalg.norm(lime))


def best_factor() -> float:
    """The multiple of Eq. 19 without its 3/2 that is nearest to LIME in Fig. 4, by least squares.

    >>> round(best_factor(), 3)
    1.506
    """
    _, lime, printed = figure_4()
    plain = printed / 1.5
    return float(plain @ lime / (plain @ plain))


def outputs(path: Path) -> list[str]:
    """The text that each cell of a notebook printed."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = []
    for cell in cells:
        parts = []
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain") or []
            parts.append("".join(text))
        texts.append("\n".join(parts))
    return texts


def dictionary(text: str) -> dict[str, float]:
    """The dictionary in what a cell printed."""
    found = ast.literal_eval(text[text.index("{") : text.rindex("}") + 1])
    return {str(word): float(value) for word, value in found.items()}


def matrix(text: str) -> list[list[float]]:
    """The rows of a tensor as far as it was printed, six numbers each."""
    numbers = [float(number) for number in NUMBER.findall(text[text.index("tensor") :])]
    return [numbers[i : i + 6] for i in range(0, len(numbers) - len(numbers) % 6, 6)]


def commit_of(folder: Path) -> str:
    """The commit that a copy was made from, which its file COMMIT names."""
    return (folder / "COMMIT").read_text(encoding="utf-8").strip()


def attention_values(folder: Path) -> dict[str, Any]:
    """The numbers of P1's repository."""
    lime = outputs(folder / "lime_meets_attention.ipynb")
    gradient = outputs(folder / "gradient_meets_attention.ipynb")
    scores = outputs(folder / "attention_meets_xai.ipynb")
    card = json.loads((folder / "models/saved/IMDB/multi_head_e/model/info.json").read_text())
    autodiff = gradient[GRADIENT_AUTODIFF_CELL]
    # The cell prints the model's two outputs before the gradient.
    autodiff = autodiff[autodiff.index("tensor", autodiff.index("tensor") + 1) :]
    return {
        "repository": ATTENTION,
        "commit": commit_of(folder),
        "model": card,
        "figure 1": {
            "cells": FIGURE_1_CELLS,
            "scores": {name: dictionary(scores[cell]) for name, cell in FIGURE_1_CELLS.items()},
        },
        "figure 4": {
            "cells": {"lime": LIME_CELL, "printed": THEOREM_CELL, "logits": OUTPUT_CELL},
            "logits": [float(number) for number in NUMBER.findall(lime[OUTPUT_CELL])],
            "lime": dictionary(lime[LIME_CELL]),
            "printed": dictionary(lime[THEOREM_CELL]),
        },
        "figure 5": {
            "cells": {"theory": GRADIENT_THEORY_CELL, "autodiff": GRADIENT_AUTODIFF_CELL},
            "rows": ["[CLS]", "attention", "based", "254th", "255th", "256th"],
            "columns": "the first three and the last three of 128 coordinates",
            "coordinates in the figure": 80,
            "theory": matrix(gradient[GRADIENT_THEORY_CELL]),
            "autodiff": matrix(autodiff),
        },
    }


def slalom_values(folder: Path) -> dict[str, Any]:
    """The numbers of P2's repository."""
    import torch

    words = torch.load(folder / "datasets/slalom_200words.pt", weights_only=False)
    s = np.array([entry[1] for entry in words.values()])
    v = np.array([entry[2] for entry in words.values()])
    power = np.stack([np.abs(v) ** 1.5, np.ones_like(v)], axis=1)
    (slope, offset), *_ = np.linalg.lstsq(power, s, rcond=None)
    tables = outputs(folder / "notebooks/F_Tables.ipynb")[LARGE_MODELS_CELL]
    large = {}
    for line in tables.splitlines():
        numbers = [float(number) for number in NUMBER.findall(line)]
        if numbers:
            large[line.split(" &")[0]] = {
                name: numbers[2 * i : 2 * i + 2] for i, name in enumerate(("v", "s", "lin."))
            }
    return {
        "repository": SLALOM,
        "commit": commit_of(folder),
        "recovery": {
            "file": "datasets/slalom_200words.pt",
            "words": len(words),
            "first words": {
                word: {"s": float(entry[1]), "v": float(entry[2])}
                for word, entry in list(words.items())[:WORDS]
            },
            "s by |v|^1.5": {
                "slope": float(slope),
                "offset": float(offset),
                "residual standard deviation": float((s - power @ [slope, offset]).std(ddof=2)),
                "words of negative value": int((v < 0).sum()),
            },
        },
        "table 15": {"file": "notebooks/F_Tables.ipynb", "AU-ROC and standard error": large},
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.authors", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--attention", type=Path, required=True, help=f"a copy of {ATTENTION}")
    parser.add_argument("--slalom", type=Path, required=True, help=f"a copy of {SLALOM}")
    args = parser.parse_args(argv)
    found = {"P1": attention_values(args.attention), "P2": slalom_values(args.slalom)}
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
