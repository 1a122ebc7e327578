"""Is `lime_limit` what the lime package converges to with every default, on the probability of a
real classifier?

`LimeTextExplainer().explain_instance(text, predict_proba)` deletes words (`bow=True`), explains the
probability, weighs 5,000 samples with a kernel of width 25 and refits on ten features. For a model
of one head without positions all of that has an exact limit: the game of words, deleted, through
the logistic function. Here the package runs 24 times on each of 20 texts with the shipped model.
Counted are the words whose mean coefficient is within four standard errors of the limit, and how
many of the ten words that the package chooses most often are among the ten of the limit. Words with
nearly equal coefficients change places from run to run: the table has how often the package chose
the same ten itself.

The texts are lower case because the package tells "Film" from "film", which the model does not. Run
with `python -m benchmarks.lime_defaults`; it needs the extra interop.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter

import numpy as np

from attn_closed_form import TextClassifier, lime_limit, load_demo_model
from attn_closed_form._types import Array
from attn_closed_form.attention import pooled_game
from attn_closed_form.game.links import LinkedGame
from attn_closed_form.lime import lime_features

from .harness import Bar, report

TEXTS = (
    "a wonderful film with a great cast and a story that moved me to tears",
    "the plot is dull and the acting is terrible so i left before the end",
    "funny in parts but far too long and the jokes are old",
    "one of the best performances of the year in an otherwise average drama",
    "the music is beautiful the pictures are stunning and the script is awful",
    "i loved every minute of this charming little comedy and so did my children",
    "a waste of time and money with no story no suspense and no point",
    "the first hour is slow but the last half hour is brilliant and tense",
    "not bad not good just another action movie with loud explosions",
    "a perfect mix of horror and humor that never gets boring",
    "the director tries hard but the characters are flat and the dialogue is poor",
    "great fun for the whole family with a lovely message at the end",
    "i expected more from this cast and was disappointed by the weak ending",
    "an intelligent thriller that keeps you guessing until the very last scene",
    "cheap effects bad acting and a ridiculous plot make this the worst film i have seen",
    "beautifully shot and superbly acted this is a classic that everyone should see",
    "the book was better but the film is still enjoyable and well made",
    "boring predictable and silly it fails on every level",
    "a touching story about an old man and his dog that is sad and funny",
    "the second half saves a movie that starts as a mess of bad ideas",
)
RUNS = 24
FEATURES = 10
STANDARD_ERRORS = 4.0


def word_game(model: TextClassifier, text: str) -> tuple[LinkedGame, list[str]]:
    """The probability of the second class as a game of the distinct words of a text, deleted; and
    the words.
    """
    words = text.split()
    game = pooled_game(model.weights, model.read(text).data, players="words", absent="deleted")
    return game.through("sigmoid", scale=1 / model.temperature), list(dict.fromkeys(words))


def package_runs(
    model: TextClassifier, text: str, words: list[str], runs: int, features: int
) -> tuple[Array, list[frozenset[str]]]:
    """Coefficients (runs, d) of the package with its defaults; and its sets of chosen features, one
    per run.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lime.lime_text import LimeTextExplainer

        number = {word: j for j, word in enumerate(words)}
        rows = np.zeros((runs, len(words)))
        chosen = list[frozenset[str]]()
        for seed in range(runs):
            explainer = LimeTextExplainer(random_state=seed)
            explanation = explainer.explain_instance(
                text, model.predict_proba, num_features=len(words)
            )
            for word, coefficient in explanation.as_list():
                rows[seed, number[word]] = coefficient
            few = LimeTextExplainer(random_state=seed).explain_instance(
                text, model.predict_proba, num_features=features
            )
            chosen.append(frozenset(word for word, _ in few.as_list()))
    return rows, chosen


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lime_defaults", description=__doc__)
    parser.add_argument("--texts", type=int, default=len(TEXTS))
    args = parser.parse_args(argv)
    model = load_demo_model()
    rows = []
    near = 0
    total = 0
    same = 0
    features = 0
    for text in TEXTS[: args.texts]:
        game, words = word_game(model, text)
        start = time.perf_counter()
        limit = lime_limit(game)
        ours = time.perf_counter() - start
        chosen = {words[j] for j in lime_features(game, FEATURES)}
        start = time.perf_counter()
        runs, sets = package_runs(model, text, words, RUNS, FEATURES)
        theirs = (time.perf_counter() - start) / (2 * RUNS)
        error = runs.std(axis=0, ddof=1) / np.sqrt(RUNS)
        off = np.abs(runs.mean(axis=0) - limit.coef) / error
        near = near + int((off <= STANDARD_ERRORS).sum())
        total = total + len(words)
        often = Counter(word for few in sets for word in few).most_common(len(chosen))
        common = sum(word in chosen for word, _ in often)
        same = same + common
        features = features + len(chosen)
        rows.append(
            {
                "text": text[:30],
                "words": len(words),
                "within 4 standard errors": int((off <= STANDARD_ERRORS).sum()),
                "largest": float(off.max()),
                "features in common": f"{common} of {len(chosen)}",
                "same set in runs": Counter(sets).most_common(1)[0][1],
                "limit, seconds": ours,
                "lime, seconds": theirs,
            }
        )
    bars = [
        Bar("share of words within 4 standard errors", near / total, ">=", 0.99),
        Bar("share of the package's ten features", same / features, ">=", 0.9),
    ]
    if report("lime_defaults", rows, seed=0, settings={"runs": RUNS, "samples": 5000}, bars=bars):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
