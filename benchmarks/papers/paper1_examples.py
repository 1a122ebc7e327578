"""Do seven explainers disagree about one sentence, and how different are the six heads?

P1 Fig. 1 colors one sentence by seven methods and draws three conclusions; here signs and ranks say
whether they hold, under several trainings (`retrained.py`). The rows of single methods and the
pictures are of the model that is trained as appendix F says. P1 Fig. 3 shows that heads look at
different words; here the distance between their rows of [CLS], on the same sentence and on test
reviews. How far another training changes the order of the words is a number of its own.

    python -m benchmarks.papers.paper1_examples --data PATH [--quick]
"""

from __future__ import annotations

import sys
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_closed_form import METHODS as METHOD_TABLE
from attn_closed_form import AttentionWeights, alpha, shapley
from attn_closed_form._types import Array
from attn_closed_form.app.models.text_classifier import TextClassifier
from attn_closed_form.app.show.plots import plot_table
from attn_closed_form.attention import alpha_avg, alpha_max, attention_matrices, pooled_game
from jax_model.training.imdb import load_imdb

from .correlations import pearson, spearman
from .reproduction import Row, Run, claim, mean_row
from .retrained import LITERAL, trainings

# P1 Fig. 1: the sentence, the methods, and what its caption says of them.
SENTENCE = "attention based explanations are popular but questionable"
METHODS = (
    "alpha-mean",
    "alpha-max",
    "lime",
    "gradient-mean",
    "gradient-l1",
    "gradient-l2",
    "gradient-x-input",
)
WORDS = SENTENCE.split()
WORD = "questionable"
RIVAL = "popular"
NEGATIVE = ("lime", "gradient-x-input")  # the methods that give `WORD` a negative score
RIVAL_FIRST = ("alpha-mean", "alpha-max")  # those that have `RIVAL` first
OTHER_MODEL = "trained as appendix F says (other vocabulary), LIME's exact limit"


def rank(scores: Array, j: int) -> int:
    """Place of word j by absolute score, from 1."""
    return 1 + int((np.abs(scores) > abs(scores[j])).sum())


def total_variation(alpha: Array) -> Array:
    """Half the L1 distance of every pair of heads' attention (K, T_max): (K (K-1) / 2,), 0 alike, 1
    disjoint.
    """
    return np.array(
        [np.abs(alpha[i] - alpha[j]).sum() / 2 for i, j in combinations(range(len(alpha)), 2)]
    )


def different_favorites(alpha: Array) -> int:
    """How many tokens are some head's favorite: 1 to K."""
    return len(np.unique(alpha.argmax(axis=1)))


def scores_of(model: TextClassifier) -> dict[str, Array]:
    """Scores of the words of the sentence by every method, each (7,)."""
    found = model.explain(SENTENCE, METHODS, players="positions")
    return {name: found[name].scores for name in METHODS}


def held(scores: dict[str, Array]) -> dict[str, list[bool]]:
    """For each of the caption's three sentences, whether it is right about each method."""
    place = WORDS.index(WORD)
    rival = WORDS.index(RIVAL)
    return {
        f"every method has '{WORD}' among its two strongest words": [
            rank(scores[m], place) <= 2 for m in METHODS
        ],
        f"LIME and G×I alone find '{WORD}' negative": [
            (scores[m][place] < 0) == (m in NEGATIVE) for m in METHODS
        ],
        f"'{RIVAL}' is first for attention and for no other method": [
            (rank(scores[m], rival) == 1) == (m in RIVAL_FIRST) for m in METHODS
        ],
    }


def figure_1(run: Run, models: dict[str, TextClassifier]) -> None:
    """Rows of one model's signs and ranks, and the caption's sentences over all trainings."""
    every = {name: scores_of(model) for name, model in models.items()}
    literal = every[LITERAL]
    vocabulary = models[LITERAL].vocabulary
    place = WORDS.index(WORD)
    # A word outside the vocabulary is [UNK] to the model: its removal changes nothing, so LIME
    # gives it zero.
    unknown = [word for word in WORDS if vocabulary.id(word) == vocabulary.unk_id]
    note = OTHER_MODEL + (f"; not in its vocabulary: {', '.join(unknown)}" if unknown else "")
    one: dict[str, Any] = {"n": 1, "of": "sentence"}
    for name in METHODS:
        label = METHOD_TABLE[name].label
        scores = literal[name]
        ours = "negative" if scores[place] < 0 else "positive" if scores[place] > 0 else "zero"
        said = "negative" if name in NEGATIVE else "positive"
        first = WORDS[int(np.abs(scores).argmax())]
        most = RIVAL if name in RIVAL_FIRST else f"not {RIVAL}"
        run.rows += [
            Row("P1 Fig. 1", f"{label}: sign of '{WORD}'", ours, said, note, **one),
            Row(
                "P1 Fig. 1",
                f"{label}: rank of '{WORD}' among 7 words",
                rank(scores, place),
                None,
                note,
                **one,
            ),
            Row("P1 Fig. 1", f"{label}: strongest word", first, most, note, **one),
        ]
    firsts = [WORDS[int(scores["alpha-mean"].argmax())] for scores in every.values()]
    case = "α-avg: strongest word, by training"
    run.rows.append(
        Row(
            "P1 Fig. 1",
            case,
            ", ".join(firsts),
            RIVAL,
            ", ".join(every),
            n=len(every),
            of="trainings",
        )
    )
    values = (
        models[LITERAL]
        .explain(SENTENCE, "slalom-value", players="positions")["slalom-value"]
        .scores
    )
    largest = float(np.abs(values).max())
    case = f"value W_l v of '{WORD}', heads weighted by attention"
    run.rows.append(
        Row(
            "P1 Fig. 1",
            case,
            float(values[place]),
            None,
            f"the largest here is {largest:.1f}",
            **one,
        )
    )
    sentences = {name: held(scores) for name, scores in every.items()}
    for text in sentences[LITERAL]:
        counts = {name: sum(found[text]) for name, found in sentences.items()}
        methods = [f"{good} of {len(METHODS)} methods ({name})" for name, good in counts.items()]
        holds = [all(found[text]) for found in sentences.values()]
        how = f"it is right about {', '.join(methods)}"
        run.rows.append(claim("P1 Fig. 1", text, holds, how, how, "trainings"))


def orders(run: Run, models: dict[str, TextClassifier], documents: list[NDArray[np.intp]]) -> None:
    """How far two trainings agree on the order of a review's tokens: rank correlations, by
    method.
    """
    if (
        len(
            {
                tuple(model.vocabulary.decode(range(len(model.vocabulary))))
                for model in models.values()
            }
        )
        > 1
    ):
        raise ValueError("models: expected one vocabulary")
    pairs = list(combinations([model.weights for model in models.values()], 2))
    for name, method in (
        ("alpha-avg", alpha_avg),
        ("alpha-max", alpha_max),
        ("exact Shapley values", _shapley),
    ):
        agree = [
            np.mean([spearman(np.stack([method(a, ids), method(b, ids)]))[0, 1] for a, b in pairs])
            for ids in documents
        ]
        case = f"Spearman of {name} under two trainings, mean of {len(pairs)} pairs"
        run.rows.append(
            mean_row("P1 Fig. 1", case, agree, None, "not in the paper", "test reviews")
        )


def _shapley(weights: AttentionWeights, ids: NDArray[np.intp]) -> Array:
    return shapley(pooled_game(weights, ids), tol=1e-6)


def figure_3(
    run: Run, models: dict[str, TextClassifier], documents: list[NDArray[np.intp]]
) -> None:
    """Rows of how different the heads are, for the first model in full and for the others as
    counts.
    """
    for training, model in models.items():
        cases = {
            "the sentence of Fig. 1": [model.vocabulary.encode(SENTENCE)],
            "test reviews": documents,
        }
        for case, some in cases.items():
            rows = [alpha(model.weights, ids) for ids in some]
            own = [
                attention[:, 1 : 1 + len(ids)] for attention, ids in zip(rows, some, strict=True)
            ]
            favorites = [different_favorites(attention) for attention in own]
            measured: dict[str, ArrayLike] = {
                "mean total variation between two heads (0: identical, 1: disjoint)": [
                    float(total_variation(attention).mean()) for attention in rows
                ],
                "different favorite tokens of the six heads": favorites,
                "Pearson of alpha-avg and alpha-max (Eq. 10, 11)": [
                    float(pearson(np.stack([a.mean(axis=0), a.max(axis=0)]))[0, 1]) for a in own
                ],
                "share of the attention on the document's own tokens": [
                    float(a.sum(axis=1).mean()) for a in own
                ],
            }
            for what, values in measured.items():
                row = mean_row(
                    "P1 Fig. 3", f"{training}, {case}: {what}", values, None, "paper: six pictures"
                )
                exact = row._replace(n=1, of="sentence", statistic="exact")
                run.rows.append(exact if len(some) == 1 else row._replace(of="test reviews"))
            text = (
                f"{training}, {case}: heads concentrate on different tokens (not all on the same "
                "one)"
            )
            of = "sentence" if len(some) == 1 else "test reviews"
            holds = [bool(n > 1) for n in favorites]
            run.rows.append(
                claim(
                    "P1 Fig. 3",
                    text,
                    holds,
                    "our model",
                    "all six heads have the same favorite token there",
                    of,
                )
            )


def main(argv: list[str] | None = None) -> int:
    run = Run("paper1_examples", __doc__ or "", argv, data=True)
    models = trainings(run)
    model = models[LITERAL]
    weights = model.weights
    vocabulary = model.vocabulary
    tested, ordered = (200, 20) if run.quick else (2500, 200)
    texts = load_imdb(run.imdb, "test").texts
    rows = np.random.default_rng(0).permutation(len(texts))[:tested]
    run.say(f"{tested} test reviews read")
    documents = [vocabulary.encode(texts[i])[: int(weights.room)] for i in rows]
    figure_1(run, models)
    figure_3(run, models, documents)
    orders(run, models, documents[:ordered])
    drawn, ax = run.figure(figsize=(7, 3.2))
    found = model.explain(SENTENCE, METHODS)
    plot_table(found, ax=ax)
    run.save(drawn)
    drawn, axes = run.figure(nrows=2, ncols=3, figsize=(9, 6.4))
    ids = model.vocabulary.encode(SENTENCE)
    words = ["[CLS]", *WORDS]
    shown = slice(1 + ids.size)
    for i, (ax, matrix) in enumerate(
        zip(axes.ravel(), attention_matrices(model.weights, ids), strict=True), 1
    ):
        # Only the [CLS] query is trained to be sharp; without a power law the other rows would be
        # blank.
        ax.imshow(matrix[shown, shown] ** 0.4, cmap="gray_r", interpolation="nearest")
        ax.set_xticks(range(len(words)), words, rotation=75, ha="right", fontsize=8)
        ax.set_yticks(range(len(words)), words, fontsize=8)
        ax.set(title=f"head {i}", xlabel="key", ylabel="query")
    run.save(drawn, "_heads")
    return run.finish({"reviews": tested, "trainings": list(models)})


if __name__ == "__main__":
    sys.exit(main())
