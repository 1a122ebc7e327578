"""Can a SLALOM be recovered from a transformer that was trained on data of one? P2 Fig. 4 (c, d),
8, Tables 7 and 8.

Sequences of words whose label has the log-odds of a SLALOM train a transformer; a SLALOM is fitted
to its outputs. Table 7 compares the fitted SLALOM's outputs with the true ones, Table 8 its
parameters; as in the paper, each number is the mean of five runs, here each with words of its own.
P2's values are twice the Naive Bayes scores of IMDB words, importances follow Eq. 81; that is
undefined for negative values, so |v| is ours. Without `--data` the scores are drawn from a Laplace
distribution of the same spread.

    python -m benchmarks.papers.recovery [--data PATH] [--quick]
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import Slalom, load_demo_model
from attn_closed_form._types import Array
from attn_closed_form.slalom.fit import fit_sequences
from benchmarks.papers.transformers.transformer import (
    Config,
    Tree,
    forward,
    init_transformer,
    pad_documents,
    predict_documents,
)
from jax_model.training.imdb import load_imdb
from jax_model.training.loop import Optimizer, TrainingProgress, cross_entropy, fit

from ..faithfulness import naive_bayes_scores
from .reproduction import Row, Run, claim, mean_row

LONGEST = 30
# The standard deviation of the Naive Bayes scores of IMDB's words, and how many of them are drawn
# without the data.
SCORE_SPREAD = 0.249
SCORES = 4000
# P2 Tables 7 and 8, x 100: (mean, standard error) by kind and number of layers; BERT and GPT-2.
TABLE_7: dict[tuple[str, int], tuple[float, float] | float] = {
    ("encoder", 1): (0.002, 0.000),
    ("encoder", 2): (0.003, 0.002),
    ("encoder", 6): (0.011, 0.007),
    ("decoder", 1): (0.011, 0.009),
    ("decoder", 2): (0.017, 0.011),
    ("decoder", 6): 0.001,
}
TABLE_8: dict[tuple[str, int], tuple[float, float] | float] = {
    ("encoder", 1): (0.540, 0.301),
    ("encoder", 2): (0.368, 0.085),
    ("encoder", 6): (0.830, 0.182),
    ("decoder", 1): (0.940, 0.392),
    ("decoder", 2): (1.652, 0.903),
    ("decoder", 6): (0.569, 0.177),
}

# One loss function per model, so that runs which differ in data alone are compiled once.
LOSSES: dict[Config, Any] = {}

Key = tuple[str, int, str]  # kind, layers, labels
# What a model is trained on: drawn labels, labels' probabilities, or as many labels as the paper
# has.
NOISE = "noise"
FREE = "free"
MANY = "many"
MANY_STEPS = 1600
MANY_SIZE = 250  # 400,000 sequences
ADDED = {
    NOISE: "",
    FREE: ", labels without noise",
    MANY: f", {MANY_STEPS * MANY_SIZE:,} labels",
}

FLOOR = (
    "; larger: the labels' noise, see the minimum possible MSE in Table 7, and the rows without "
    "noise"
)


def word_scores(run: Run) -> Array:
    """Naive Bayes scores of the words that occur in IMDB often enough, by P2's formula (E.3); drawn
    without data.
    """
    if not run.has_data:
        return np.random.default_rng(0).laplace(scale=SCORE_SPREAD / np.sqrt(2), size=SCORES)
    vocabulary = load_demo_model().vocabulary
    reviews = load_imdb(run.imdb, "train")
    documents = [vocabulary.encode(text) for text in reviews.texts[::5]]
    scores = naive_bayes_scores(documents, reviews.labels[::5], len(vocabulary))
    seen = np.flatnonzero(np.bincount(np.concatenate(documents), minlength=len(vocabulary)) >= 20)
    return scores[seen[seen > vocabulary.unk_id]]


def true_slalom(scores: Array, V: int, seed: int) -> Slalom:
    """V words with P2's values and importances (E.2)."""
    rng = np.random.default_rng(seed)
    v = 2 * rng.choice(scores, size=V, replace=False)
    s = 5 * np.abs(v) ** 1.5 + 0.5 * rng.normal(size=V)
    return Slalom(np.arange(V), s, v)


def draw(
    rng: np.random.Generator, slalom: Slalom, n: int
) -> tuple[list[NDArray[np.intp]], Array, Array]:
    """Sequences of equally likely words, lengths uniform in 1..30, true log-odds and labels."""
    documents = [
        rng.integers(slalom.V, size=length) for length in rng.integers(1, LONGEST + 1, size=n)
    ]
    odds = slalom.predict_many(documents)
    return documents, odds, (rng.random(n) < _sigmoid(odds)).astype(np.float32)


def batch(
    rng: np.random.Generator,
    slalom: Slalom,
    size: int,
    first: tuple[int, ...],
    noise: bool,
    step: int,
) -> tuple[Any, Any]:
    """Padded sequences with labels, or without noise with the labels' probabilities."""
    documents, odds, labels = draw(rng, slalom, size)
    return pad_documents(documents, LONGEST + 2, first), labels if noise else _sigmoid(odds)


def _sigmoid(odds: Array) -> Array:
    return (1 / (1 + np.exp(-odds))).astype(np.float32)


def transformer_loss(params: Tree, ids: jax.Array, labels: jax.Array, config: Config) -> jax.Array:
    return cross_entropy(forward(params, config, ids), labels).mean()


def recover(
    slalom: Slalom, kind: str, L: int, noise: bool, seed: int, steps: int, size: int
) -> dict[str, Any]:
    """One run: a transformer is trained on the SLALOM's data and a SLALOM is fitted to it."""
    V = slalom.V
    first = (V,) if kind == "encoder" else ()
    config = Config(V + 1, d=32, L=L, H=2, d_ff=64, T_max=LONGEST + 2, causal=kind == "decoder")
    loss = LOSSES.setdefault(config, partial(transformer_loss, config=config))
    start = init_transformer(jax.random.key(seed), config)
    data = partial(batch, np.random.default_rng([seed, 1]), slalom, size, first, noise)
    params = fit(
        loss,
        start,
        data,
        steps,
        Optimizer(3e-3),
        progress=TrainingProgress(1, steps, name=f"{kind}, L = {L}:"),
    ).params
    f = partial(predict_documents, params, config, first=first)
    rng = np.random.default_rng([seed, 2])
    asked, _, _ = draw(rng, slalom, 2000)
    found = fit_sequences(f(asked), asked, np.ones(len(asked))).slalom
    test, odds, _ = draw(rng, slalom, 200)
    got = found.predict_many(test)
    error = np.concatenate([found.v - slalom.v, found.s - slalom.s])
    return {
        "logits": 100 * float(np.mean((got - odds) ** 2)),
        "parameters": 100 * float(np.mean(error**2)),
        "logits explained": 1 - float(np.mean((got - odds) ** 2) / np.var(odds)),
        "parameters explained": 1
        - float(np.mean(error**2) * 2 / (np.var(slalom.v) + np.var(slalom.s))),
        "pairs": {"odds": [odds, got], "v": [slalom.v, found.v], "s": [slalom.s, found.s]},
    }


def main(argv: list[str] | None = None) -> int:
    run = Run("recovery", __doc__ or "", argv, data=False)
    V = 10
    steps, size, layers, seeds = (100, 64, (1,), 2) if run.quick else (600, 64, (1, 2, 6), 5)
    seeds = run.wanted(seeds)
    source = {"values from": "IMDB" if run.has_data else "a Laplace distribution"}
    scores = np.array(run.part("scores", source, lambda: word_scores(run).tolist()))
    found: dict[Key, list[dict[str, Any]]] = {}
    # Without noise and with more labels only the smallest model: that is enough to see what the
    # labels' chance does.
    cases = [(kind, L, NOISE) for kind in ("encoder", "decoder") for L in layers]
    others = (FREE,) if run.quick else (FREE, MANY)
    cases += [(kind, layers[0], labels) for labels in others for kind in ("encoder", "decoder")]
    for seed in range(seeds):
        for kind, L, labels in cases:
            many = (MANY_STEPS, MANY_SIZE) if labels == MANY else (steps, size)
            compute = partial(
                recover, true_slalom(scores, V, seed), kind, L, labels != FREE, seed, *many
            )
            settings = {**source, "steps": many[0], "batch": many[1], "V": V}
            found.setdefault((kind, L, labels), []).append(
                run.part(f"{kind}-{L}-{labels}-{seed}", settings, compute)
            )
    figure_8(run, scores)
    tables_7_and_8(run, found, steps * size, V)
    draw_figure(run, found, layers[min(1, len(layers) - 1)])
    return run.finish(
        {
            **source,
            "steps": steps,
            "batch": size,
            "seeds": seeds,
            "words": V,
            "layers": list(layers),
        }
    )


def figure_8(run: Run, scores: Array) -> None:
    """Values and importances of the SLALOM of 200 words that the paper draws."""
    slalom = true_slalom(scores, 200, seed=0)
    for name, values in (("value v", slalom.v), ("importance s", slalom.s)):
        note = "drawn by Eq. 81 with |v|; paper: a picture"
        run.rows.append(
            mean_row(
                "P2 Fig. 8", f"{name} of the words of the true SLALOM", values, None, note, "words"
            )
        )


def tables_7_and_8(run: Run, found: dict[Key, list[dict[str, Any]]], n: int, V: int) -> None:
    """Errors of outputs and of parameters, and the paper's sentences about them."""
    setting = f"{n:,} sequences of {V} words (paper: 400,000 of 200), width 32, from scratch"
    notes = {
        FREE: (
            "not in the paper: trained on the probabilities of the labels instead of drawn labels"
        ),
        MANY: f"as many sequences as in the paper, of {V} words instead of 200",
    }
    for table, what, key, paper in (
        ("P2 Table 7", "the log-odds", "logits", TABLE_7),
        ("P2 Table 8", "s and v", "parameters", TABLE_8),
    ):
        for (kind, L, labels), many in found.items():
            values = [one[key] for one in many]
            case = f"{kind}, L = {L}: MSE x 100 of {what}{ADDED[labels]}"
            printed = paper[kind, L]
            number = printed[0] if isinstance(printed, tuple) else printed
            larger = FLOOR if np.mean(values) > 3 * number else ""
            note = notes.get(labels, setting + larger)
            run.rows.append(
                mean_row(table, case, values, printed if labels != FREE else None, note, "runs")
            )
    run.rows += [
        Row(
            "P2 Table 7",
            f"(ours) minimum MSE x 100 of an unbiased estimator from {labels:,} labels, {words} "
            "words",
            100 * 4 * (2 * words - 1) / labels,
            None,
            "4 (2 V - 1) / n, Cramer-Rao at even odds; " + note,
            n=labels,
            of="labels",
        )
        for labels, words, note in (
            (n, V, "the floor of our own setting"),
            (400_000, 200, "the paper is below: small log-odds, or a fit biased to them"),
        )
    ]
    noisy = [one for (_, _, labels), many in found.items() for one in many if labels == NOISE]
    better = [one for (_, _, labels), many in found.items() for one in many if labels != NOISE]
    why = "labels are noisy, and with few labels the recovered SLALOM is noisier"
    rest = "; an importance has an effect only if the value of its token differs from the others"
    for table, text, key, least, reason in (
        (
            "P2 Table 7",
            "the recovered SLALOM explains 90 % of the variance of the true log-odds",
            "logits",
            0.9,
            why,
        ),
        (
            "P2 Table 8",
            "its parameters explain 75 % of the variance of the true ones",
            "parameters",
            0.75,
            why + rest,
        ),
    ):
        explained = [one[f"{key} explained"] for one in noisy]
        run.rows.append(
            claim(table, text, [share >= least for share in explained], setting, reason, "runs")
        )
        mended = [one[f"{key} explained"] >= least for one in better]
        text = f"(ours) {text}, where labels have little noise or none"
        run.rows.append(
            claim(
                table, text, mended, "without noise, or with 400,000 labels of 10 words", of="runs"
            )
        )
        case = f"share of the variance of the true {key} that is explained, drawn labels"
        panel = "P2 Fig. 4 (c, d)"
        run.rows.append(
            mean_row(panel, case, explained, None, "paper: two scatter plots, no number", "runs")
        )


def draw_figure(run: Run, found: dict[Key, list[dict[str, Any]]], L: int) -> None:
    figure, (left, right) = run.figure(ncols=2, figsize=(9, 4))
    for kind in ("encoder", "decoder"):
        pairs = [one["pairs"] for one in found[kind, L, NOISE]]
        for at, name, mark in ((left, "odds", "."), (right, "v", "."), (right, "s", "x")):
            true, got = (np.concatenate([pair[name][i] for pair in pairs]) for i in (0, 1))
            at.plot(true, got, mark, markersize=4, label=f"{name}, {kind}")
    for at, title in ((left, "log-odds (P2 Fig. 4c)"), (right, "parameters (P2 Fig. 4d)")):
        at.axline((0, 0), slope=1, color="k", lw=0.5)
        at.set(xlabel="true", ylabel="recovered", title=f"{title}, {len(pairs)} runs")
        at.legend(fontsize=7)
    run.save(figure)


if __name__ == "__main__":
    sys.exit(main())
