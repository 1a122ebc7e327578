"""Is LIME related to the attention of a model with six layers and six heads?

P1 appendix E, Fig. 6: a classifier with six layers and six heads is trained on IMDB (82.22%
there), and the weights that the lime package gives the words of one review are correlated with the
attention of its first layer. Here the same for many reviews (`layers_model.py` trains the model),
with gradients as a third explanation, and for the shipped model of one layer beside it.

    python -m benchmarks.papers.paper1_layers --data PATH [--quick]
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_closed_form import AttentionWeights, gradient, lime_limit, predict
from attn_closed_form._types import Array
from attn_closed_form.attention import alpha_avg, pooled_game
from benchmarks.papers.transformers.transformer import PAD, Config, Tree
from jax_model.training.batches import encode_documents
from jax_model.training.imdb import load_imdb

from ..harness import Bar
from .correlations import pearson, pool_words
from .layers_model import (
    FULL,
    HEAD_WIDTH,
    QUICK,
    T_MAX,
    WIDTH,
    first_attention,
    outputs,
    six_layer_config,
    slopes,
    train_six_layers,
)
from .lime_runs import Ids, lime_package
from .reproduction import Run, claim, mean_row
from .retrained import first_model

# P1 appendix E: accuracy in per cent, and Pearson's correlations of its one document.
ACCURACY = 82.22
LIME_ALPHA = -0.424
ABS_LIME_ALPHA = 0.672
METHODS = ("LIME", "|LIME|", "alpha-avg", "G-avg", "G-l1", "G-l2")
PAIRS = [
    ("LIME", "alpha-avg"),
    ("|LIME|", "alpha-avg"),
    ("G-avg", "alpha-avg"),
    ("G-l1", "alpha-avg"),
]
PAIRS += [("G-l2", "alpha-avg"), ("LIME", "G-avg"), ("|LIME|", "G-l2")]
PAPER = {("LIME", "alpha-avg"): LIME_ALPHA, ("|LIME|", "alpha-avg"): ABS_LIME_ALPHA}
SIX = (
    f"d_e = {WIDTH}, six heads of {HEAD_WIDTH}, layer norm and feed-forward, T_max = {T_MAX}, from "
    f"scratch (paper: 128 and 64; the rest is not stated); {FULL.windows} steps on windows of 63 "
    f"words, then {FULL.reviews} on {FULL.review_batch} whole reviews each, to save processor time"
)
MINUTES = 60  # that the training may take on two cores


def table_of_scores(lime: Array, alpha: Array, slope: Array, ids: Ids) -> Array:
    """Scores of the words, (6, d), in the order of `METHODS`: LIME (d,), attention (T,) and
    gradient (T, d_e) given.
    """
    positions = np.stack(
        [alpha, slope.mean(axis=1), np.abs(slope).sum(axis=1), np.linalg.norm(slope, axis=1)]
    )
    return np.concatenate([[lime, np.abs(lime)], pool_words(positions, ids)])


def six_layers(params: Tree, config: Config, ids: Ids, samples: int, unk: int, seed: int) -> Array:
    """`table_of_scores` of the transformer, LIME by the package with the authors' deletion of
    words.
    """
    padded = np.full(T_MAX, PAD, dtype=np.int32)
    padded[: len(ids) + 1] = [0, *ids]
    own = slice(1, len(ids) + 1)
    alpha = np.asarray(first_attention(params, config, padded), dtype=float).mean(axis=0)[own]
    slope = np.asarray(slopes(params, config, padded), dtype=float)[own]
    lime = lime_package(partial(outputs, params, config), ids, True, unk, samples, seed)
    return table_of_scores(lime, alpha, slope, ids)


def one_layer(weights: AttentionWeights, reviews: list[Ids]) -> tuple[list[Array], list[bool]]:
    """`table_of_scores` of the model of one layer and whether it finds the review positive, for
    each review.
    """
    tables = []
    positive = []
    for ids in reviews:
        lime = lime_limit(pooled_game(weights, ids, players="words"), tol=1e-6).coef
        tables.append(
            table_of_scores(
                lime, alpha_avg(weights, ids), gradient(weights, ids)[1 : 1 + len(ids)], ids
            )
        )
        positive.append(bool(predict(weights, ids)[0] > 0))
    return tables, positive


def main(argv: list[str] | None = None) -> int:
    run = Run("paper1_layers", __doc__ or "", argv, data=True)
    if run.quick:
        plan = QUICK
        tested = 100
    else:
        plan = FULL
        tested = 2500
    if run.quick:
        explained = 3
        samples = 100
        single = 50
    else:
        explained = 100
        samples = 600
        single = 500
    explained = run.wanted(explained)
    model = first_model(run)
    vocabulary = model.vocabulary
    train = load_imdb(run.imdb, "train")
    test = load_imdb(run.imdb, "test")
    every = 5 if run.quick else 1
    documents = encode_documents(vocabulary, train.texts[::every], train.labels[::every])
    rows = np.random.default_rng(0).permutation(len(test.texts))[:tested]
    reviews = [vocabulary.encode(test.texts[i])[: T_MAX - 1] for i in rows]
    labels = test.labels[rows] == 1
    run.say(f"{documents.size} reviews to train on")

    config = six_layer_config(len(vocabulary))
    if run.quick:
        checkpoint = None
    else:
        checkpoint = run.work / run.name / "six_layers.npz"
    if checkpoint is not None:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter(), time.process_time()
    fitted = train_six_layers(documents, len(vocabulary), vocabulary.cls_id, plan, checkpoint)
    params = fitted.params
    # What earlier runs have spent on it.
    run.earlier["seconds"] += max(fitted.seconds - (time.perf_counter() - began[0]), 0.0)
    run.earlier["processor seconds"] += max(
        fitted.processor_seconds - (time.process_time() - began[1]), 0.0
    )
    settings = {**plan._asdict(), "tested": tested}
    f = np.array(run.part("accuracy", settings, lambda: outputs(params, config, reviews).tolist()))
    right = 100.0 * ((f > 0) == labels)
    case = "six layers, six heads: test accuracy in %, whole reviews of at most 255 tokens"
    run.rows.append(mean_row("P1 App. E", case, right, ACCURACY, SIX, of="test reviews"))
    run.say(f"accuracy {run.rows[0].ours:.2f}%")

    settings = {**plan._asdict(), "samples": samples}
    tables = []
    for n in range(explained):
        scores = partial(six_layers, params, config, reviews[n], samples, vocabulary.unk_id, n)
        tables.append(np.array(run.part(f"review-{n}", settings, scores)))
    correlations(run, "six layers", tables, f[:explained] > 0, SIX, PAPER)
    one, positive = one_layer(model.weights, reviews[:single])
    differs = "our model of one layer, LIME's exact limit under [UNK]; not in the paper"
    correlations(run, "one layer", one, np.array(positive), differs, {})
    figure(run, tables[int(np.argmin(f[:explained]))], tables, one)

    spent = {"seconds": fitted.seconds, "processor_seconds": fitted.processor_seconds}
    bars = [
        Bar(
            "training of six layers, processor minutes",
            fitted.processor_seconds / 60,
            "<=",
            MINUTES,
        )
    ]
    done = {**plan._asdict(), "tested": tested, "explained": explained, "samples": samples}
    return run.finish(
        done | {f"training, {key}": round(value, 1) for key, value in spent.items()},
        bars=[] if run.quick else bars,
    )


def correlations(
    run: Run,
    model: str,
    tables: list[Array],
    positive: NDArray[np.bool_],
    differs: str,
    paper: dict[Any, float],
) -> None:
    """Rows of Pearson's correlations over reviews, and the paper's two sentences about them as
    counts.
    """
    rho = np.stack([pearson(table) for table in tables])
    pair = {(a, b): rho[:, METHODS.index(a), METHODS.index(b)] for a, b in PAIRS}
    for names, values in pair.items():
        for side in (False, True) if names == ("LIME", "alpha-avg") else (None,):
            if side is None:
                some = values
            else:
                some = values[positive == side]
            if not some.size:
                continue
            if side is None:
                kind = ""
            else:
                kind = f", {'positive' if side else 'negative'} reviews"
            if side is not True:
                value = paper.get(names)
            else:
                value = None
            if value is not None:
                note = f"{differs}; paper: one review"
            else:
                note = differs
            case = f"{model}: Pearson of {names[0]} with {names[1]}{kind}"
            run.rows.append(mean_row("P1 Fig. 6", case, some, value, note, of="test reviews"))
    signed = pair["LIME", "alpha-avg"]
    plain = pair["|LIME|", "alpha-avg"]
    right = (signed > 0) == positive
    counts = [
        f"{right[positive == side].sum()} of {(positive == side).sum()}" for side in (False, True)
    ]
    run.rows += [
        claim(
            "P1 App. E",
            f"{model}: the sign of LIME's correlation with attention is that of the prediction",
            right.tolist(),
            differs,
            f"holds for {counts[0]} reviews with a negative prediction, {counts[1]} with a "
            "positive prediction",
            of="test reviews",
        ),
        claim(
            "P1 App. E",
            f"{model}: |LIME| and attention are positively related",
            (plain > 0).tolist(),
            differs,
            of="test reviews",
        ),
    ]


def figure(run: Run, table: Array, tables: list[Array], one: list[Array]) -> None:
    """Left P1's Fig. 6 for the most negative review, right the correlations of |LIME| with
    attention of all reviews.
    """
    drawn, (left, right) = run.figure(ncols=2, figsize=(9, 3.6))
    left.scatter(table[METHODS.index("alpha-avg")], table[METHODS.index("LIME")], s=14)
    left.axhline(0, color="0.7", linewidth=0.8)
    left.set(
        xlabel="attention, first layer, mean of 6 heads",
        ylabel="LIME",
        title="P1 Fig. 6: words of one review",
    )
    a = METHODS.index("|LIME|")
    b = METHODS.index("alpha-avg")
    values = [[pearson(t)[a, b] for t in some] for some in (tables, one)]
    right.boxplot(values)
    right.set_xticks([1, 2], ["six layers", "one layer"])
    right.axhline(ABS_LIME_ALPHA, color="k", linestyle=":", linewidth=0.8)
    right.set(
        ylabel="Pearson of |LIME| with attention", title="all reviews; dotted: the paper's one"
    )
    run.save(drawn)


if __name__ == "__main__":
    sys.exit(main())
