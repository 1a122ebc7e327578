"""The shipped model for the page that explains a text in the browser (`assets/exact-explainer.js`).

The build writes `assets/demo-model.js`: the mass and the value of every word, the background, and
the simple fractions that make the logistic function on the range of the model. It is a script and
not JSON, because a site that is opened from a file must not fetch.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from mkdocs.structure.files import File, Files

from attn_closed_form import load_demo_model
from attn_closed_form.attention import pooled_game
from attn_closed_form.game.links import LINKS

SCRIPT = "assets/demo-model.js"
EXAMPLE = "A slow start and a silly plot, but the actors are wonderful and the ending is moving."
#: Largest error of the simple fractions. The tests allow 1e-6 for the whole computation.
POLE_ERROR = 1e-8
#: Largest modulus of the log-odds: the last interval of the table of `game/links.py`. The page refuses texts
#: with more, such as the most negative word fifty times.
LARGEST_LOG_ODDS = 64.0


def on_files(files: Files, config: Any, **others: Any) -> Files:
    """Add the model to the site."""
    content = f"window.demoModel = {json.dumps(demo_model())};\n"
    files.append(File.generated(config, SCRIPT, content=content))
    return files


def demo_model() -> dict[str, Any]:
    """Masses and values of the shipped model's words, whose mean is the log-odds of the second
    class.
    """
    model = load_demo_model()
    weights = model.weights
    ids = np.arange(weights.D)
    game = pooled_game(weights, ids, absent="deleted")
    # The bias and the temperature belong to every value: the mean of (v + bias) / temperature is
    # the log-odds.
    values = (game.v[0] + game.bias) / model.temperature
    background = (float(game.v_background[0]) + game.bias) / model.temperature
    of_words = float(max(np.abs(values).max(), abs(background)))
    largest = min(of_words, LARGEST_LOG_ODDS)
    poles = LINKS["sigmoid"].poles(-largest, largest, POLE_ERROR)
    return {
        "words": list(model.vocabulary),
        "special": [
            model.vocabulary[weights.cls],
            model.vocabulary[weights.unk],
        ],
        "unknown": int(weights.unk),
        "masses": rounded(np.exp(game.s[0])),
        "values": rounded(values),
        "background": {
            "mass": float(np.exp(game.s_background[0])),
            "value": background,
        },
        "distinct": model.distinct_words,
        "outputs": list(model.outputs),
        "poles": [
            {"y": y, "r": r}
            for y, r in zip(
                poles.z.imag.tolist(), poles.residue.real.tolist(), strict=True
            )
        ],
        "largest": largest,
        "example": EXAMPLE,
    }


def rounded(numbers: Any) -> list[float]:
    """Ten digits, which keep the page small and the result within 1e-9."""
    return [float(f"{number:.10g}") for number in numbers.tolist()]
