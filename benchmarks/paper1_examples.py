"""Do seven explainers disagree about one sentence, and how different are the six heads?

P1 Fig. 1 colours one sentence by seven methods and draws three conclusions; here signs and ranks under the shipped
model say whether they hold. P1 Fig. 3 shows that heads look at different words; here the distance between their rows of
[CLS], on the same sentence and on test reviews.

    python -m benchmarks.paper1_examples --data PATH [--quick]
"""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from attn_closed_form import attention, load_demo_model
from attn_closed_form._types import Array
from attn_closed_form.evaluate.datasets import load_imdb
from attn_closed_form.show.plots import plot_attention_matrices, plot_table

from .correlations import pearson
from .reproduction import Row, Run, claim, mean_row

# P1 Fig. 1: the sentence, the methods, and what its caption says of them.
SENTENCE = "attention based explanations are popular but questionable"
METHODS = ("alpha-avg", "alpha-max", "lime", "g-avg", "g-l1", "g-l2", "gxi")
WORD, RIVAL = "questionable", "popular"
NEGATIVE = ("lime", "gxi")  # the methods that give `WORD` a negative score
RIVAL_FIRST = ("alpha-avg", "alpha-max")  # those that have `RIVAL` first
OTHER_MODEL = "our model (87.7 %, other vocabulary), LIME's exact limit"


def rank(scores: Array, j: int) -> int:
    """Place of word j by absolute score, from 1."""
    return 1 + int((np.abs(scores) > abs(scores[j])).sum())


def total_variation(alpha: Array) -> Array:
    """Half the L1 distance of every pair of heads' attention (K, T_max): (K (K-1) / 2,), 0 alike, 1 disjoint."""
    return np.array([np.abs(alpha[i] - alpha[j]).sum() / 2 for i, j in combinations(range(len(alpha)), 2)])


def different_favourites(alpha: Array) -> int:
    """How many tokens are some head's favourite: 1 to K."""
    return len(np.unique(alpha.argmax(axis=1)))


def figure_1(run: Run) -> None:
    model = load_demo_model()
    vocabulary = model.vocabulary
    found = model.explain(SENTENCE, METHODS)
    words = SENTENCE.split()
    place, rival = words.index(WORD), words.index(RIVAL)
    # A word outside the vocabulary is [UNK] to the model: its removal changes nothing, so LIME gives it zero.
    unknown = [word for word in words if vocabulary.id(word) == vocabulary.unk_id]
    note = OTHER_MODEL + (f"; not in its vocabulary: {', '.join(unknown)}" if unknown else "")
    explained = model.explain(SENTENCE, METHODS, players="positions")
    scores = {name: e.scores for name, e in explained.items()}
    for name in METHODS:
        said = "negative" if name in NEGATIVE else "positive"
        ours = "negative" if scores[name][place] < 0 else "positive" if scores[name][place] > 0 else "zero"
        label, first = found[name].info.label, words[int(np.abs(scores[name]).argmax())]
        most = RIVAL if name in RIVAL_FIRST else f"not {RIVAL}"
        run.rows += [
            Row("P1 Fig. 1", f"{label}: sign of '{WORD}'", ours, said, note),
            Row("P1 Fig. 1", f"{label}: rank of '{WORD}' among 7 words", rank(scores[name], place), None, note),
            Row("P1 Fig. 1", f"{label}: strongest word", first, most, note),
        ]
    values = model.explain(SENTENCE, "slalom-value", players="positions")["slalom-value"].scores
    value, largest = float(values[place]), float(np.abs(values).max())
    case = f"value W_l v of '{WORD}', heads weighted by attention"
    run.rows.append(Row("P1 Fig. 1", case, value, None, f"the largest of a word here is {largest:.1f}"))
    why = f"in our model '{WORD}' has the value {value:.2f}, against {largest:.1f} of another word"
    missing = f"{why}: much attention (rank {rank(scores['alpha-avg'], place)}), little effect, as LIME and G×I say"
    signs = f"{why}: G×I is near zero for it, and G-avg has the sign of the mean coordinate of W_v^T W_l^T"
    favourite = f"attention has '{words[int(scores['alpha-avg'].argmax())]}' first; another training, another order"
    strong = [rank(scores[name], place) <= 2 for name in METHODS]
    sign = [(scores[name][place] < 0) == (name in NEGATIVE) for name in METHODS]
    first_is = [(rank(scores[name], rival) == 1) == (name in RIVAL_FIRST) for name in METHODS]
    run.rows += [
        claim("P1 Fig. 1", f"every method has '{WORD}' among its two strongest words", strong, note, missing),
        claim("P1 Fig. 1", f"LIME and G×I alone find '{WORD}' negative", sign, note, signs),
        claim("P1 Fig. 1", f"'{RIVAL}' is first for attention and for no other method", first_is, note, favourite),
    ]


def figure_3(run: Run, documents: list[NDArray[np.intp]]) -> None:
    model = load_demo_model()
    weights, vocabulary = model.weights, model.vocabulary
    cases = {"the sentence of Fig. 1": [vocabulary.encode(SENTENCE)], f"{len(documents)} test reviews": documents}
    for case, some in cases.items():
        rows = [attention(weights, ids) for ids in some]
        own = [alpha[:, 1 : 1 + len(ids)] for alpha, ids in zip(rows, some, strict=True)]
        apart = [float(total_variation(alpha).mean()) for alpha in rows]
        favourites = [different_favourites(alpha) for alpha in own]
        pooled = [float(pearson(np.stack([a.mean(axis=0), a.max(axis=0)]))[0, 1]) for a in own]
        held = [float(a.sum(axis=1).mean()) for a in own]
        for what, values in (
            ("mean total variation between two heads (0 alike, 1 disjoint)", apart),
            ("different favourite tokens of the six heads", favourites),
            ("Pearson of alpha-avg and alpha-max (Eq. 10, 11)", pooled),
            ("share of the attention on the document's own tokens", held),
        ):
            run.rows.append(mean_row("P1 Fig. 3", f"{case}: {what}", values, None, "paper: six pictures, no number"))
        heads = [bool(n > 1) for n in favourites]
        text = f"{case}: heads concentrate on different tokens (not all on the same one)"
        run.rows.append(claim("P1 Fig. 3", text, heads, "our model", "there all six have the same favourite"))


def main(argv: list[str] | None = None) -> int:
    run = Run("paper1_examples", __doc__ or "", argv, data=True)
    model = load_demo_model()
    weights, vocabulary = model.weights, model.vocabulary
    tested = 200 if run.quick else 2500
    texts = load_imdb(run.imdb, "test").texts
    rows = np.random.default_rng(0).permutation(len(texts))[:tested]
    run.say(f"{tested} test reviews read")
    figure_1(run)
    figure_3(run, [vocabulary.encode(texts[i])[: weights.T_max - 1] for i in rows])
    drawn, ax = run.figure(figsize=(7, 3.2))
    found = model.explain(SENTENCE, METHODS)
    plot_table(found, ax=ax)
    run.save(drawn)
    drawn, axes = run.figure(nrows=2, ncols=3, figsize=(9, 6.4))
    plot_attention_matrices(found, axes.ravel())
    run.save(drawn, "_heads")
    return run.finish({"reviews": tested})


if __name__ == "__main__":
    sys.exit(main())
