"""Do transformers learn a linear model, and which surrogate describes what they learn instead?

P2 Fig. 3, 4 (a, b), 7 and Table 6. Sequences of ten words whose weights add up to the log-odds of
the label (Table 3) train transformers and a feed-forward network, five of each kind; then they are
asked about repetitions of one word, and linear, additive (GAM) and SLALOM surrogates are fitted to
their outputs on fresh sequences.

    python -m benchmarks.papers.linear_data [--quick]
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import PooledGame, shapley
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
from jax_model.training.loop import Optimizer, TrainingProgress, cross_entropy, fit

from .reproduction import Row, Run, claim, mean_row

# P2 Table 3: word, weight, probability.
WORDS = ("the", "we", "movie", "watch", "good", "best", "perfect", "ok", "bad", "worst")
WEIGHT = np.array([0.0, 0.0, 0.0, 0.0, 0.6, 1.0, 1.5, -0.6, -1.0, -1.5])
PROBABILITY = np.array([1 / 6] * 4 + [1 / 15, 1 / 20, 1 / 20, 1 / 15, 1 / 20, 1 / 20])
LONGEST = 30
CLS = len(WORDS)
PERFECT = WORDS.index("perfect")
# P2 Table 6: MSE x 100 of linear model, GAM, SLALOM, each with its standard error, by kind and
# number of layers.
TABLE_6 = {
    ("decoder", 1): ((20.31, 2.02), (48.78, 2.70), (16.92, 1.33)),
    ("decoder", 2): ((24.81, 3.11), (54.33, 3.26), (22.17, 1.98)),
    ("decoder", 6): ((32.66, 7.60), (57.08, 7.19), (21.59, 4.14)),
    ("encoder", 1): ((26.33, 1.90), (43.30, 0.88), (7.34, 0.70)),
    ("encoder", 2): ((28.43, 3.75), (48.28, 3.23), (9.92, 1.19)),
    ("encoder", 6): ((50.82, 6.34), (68.23, 4.59), (23.99, 3.38)),
}
SETTING = (
    "from scratch, width 32, 4 heads (paper: sizes of BERT and GPT-2), 25,000 sequences as in the "
    "paper"
)
OF = "trainings"
FIGURE = "P2 Fig. 4 (a, b)"
DENSE = "feed-forward"
LENGTHS = np.arange(1, LONGEST + 1)
REPEATED = [np.full(k, PERFECT) for k in LENGTHS]
# One loss function per model, so that trainings which differ in their seed alone are compiled once.
LOSSES: dict[Config, Any] = {}

Documents = list[NDArray[np.intp]]


def draw(rng: np.random.Generator, n: int) -> tuple[Documents, Array]:
    """Draw n sequences by P2's four steps (E.1.1) and their labels; an empty one gets one word."""
    lengths = np.maximum(rng.binomial(LONGEST, 0.5, size=n), 1)
    documents = [rng.choice(len(WORDS), size=length, p=PROBABILITY) for length in lengths]
    odds = np.array([WEIGHT[document].sum() for document in documents])
    return documents, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.float32)


def counts(documents: Documents) -> Array:
    """(n, 10) how often each word occurs."""
    return np.stack([np.bincount(document, minlength=len(WORDS)) for document in documents]).astype(
        float
    )


def places(documents: Documents) -> Array:
    """(n, 300) one indicator for each word at each place: the features of P2's GAM."""
    out = np.zeros((len(documents), LONGEST, len(WORDS)))
    for row, document in zip(out, documents, strict=True):
        row[np.arange(document.size), document] = 1
    return out.reshape(len(documents), -1)


def batch(
    rng: np.random.Generator, size: int, first: tuple[int, ...], step: int
) -> tuple[Any, Any]:
    documents, labels = draw(rng, size)
    return pad_documents(documents, LONGEST + 2, first), labels


def transformer_loss(params: Tree, ids: jax.Array, labels: jax.Array, config: Config) -> jax.Array:
    return cross_entropy(forward(params, config, ids), labels).mean()


def dense(params: list[tuple[jax.Array, jax.Array]], x: jax.Array) -> jax.Array:
    """The feed-forward network of P2's appendix A: two layers, ReLU, on word counts."""
    (W, b), (w, c) = params
    return jax.nn.relu(x @ W + b) @ w + c


def dense_loss(params: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
    return cross_entropy(dense(params, x), labels).mean()


def train_dense(seed: int, steps: int, size: int) -> Any:
    rng = np.random.default_rng([seed, 2])
    start = [
        (rng.normal(size=(len(WORDS), 400)).astype(np.float32) * 0.1, np.zeros(400, np.float32)),
        (rng.normal(size=400).astype(np.float32) * 0.05, np.float32(0.0)),
    ]

    def batch(step: int) -> tuple[Any, Any]:
        documents, labels = draw(rng, size)
        return counts(documents).astype(np.float32), labels

    return fit(dense_loss, start, batch, steps, Optimizer(3e-3)).params


def surrogates(
    rng: np.random.Generator, f: Any, n: int, repeated: Documents
) -> dict[str, dict[str, float]]:
    """MSE x 100 of surrogates fitted to n outputs f: on fresh sequences, and on repetitions of a
    word (Fig. 4a, b).
    """
    from sklearn.linear_model import Lasso, LinearRegression, Ridge

    fitted = draw(rng, n)[0]
    fresh = draw(rng, n)[0]
    y = f(fitted)
    slalom = fit_sequences(y, fitted, np.ones(n)).slalom
    linear = LinearRegression().fit(counts(fitted), y)
    lasso = Lasso(alpha=0.01, max_iter=5000).fit(places(fitted), y)
    ridge = Ridge(alpha=1.0).fit(places(fitted), y)
    predict = {
        "linear": lambda some: linear.predict(counts(some)),
        "GAM": lambda some: lasso.predict(places(some)),
        "GAM, weakly regularized": lambda some: ridge.predict(places(some)),
        "SLALOM": slalom.predict_many,
    }
    return {
        what: {
            name: 100 * float(np.mean((guess(some) - truth) ** 2))
            for name, guess in predict.items()
        }
        for what, some, truth in (("fresh", fresh, f(fresh)), ("repeated", repeated, f(repeated)))
    }


def transformer_part(
    kind: str, L: int, seed: int, steps: int, size: int, sample: int
) -> dict[str, Any]:
    """One training: outputs on repetitions of one word and on nothing, and the surrogates'
    errors.
    """
    first = (CLS,) if kind == "encoder" else ()
    config = Config(
        len(WORDS) + 1, d=32, L=L, H=4, d_ff=64, T_max=LONGEST + 2, causal=kind == "decoder"
    )
    loss = LOSSES.setdefault(config, partial(transformer_loss, config=config))
    start = init_transformer(jax.random.key(seed), config)
    data = partial(batch, np.random.default_rng([seed, 1]), size, first)
    params = fit(
        loss,
        start,
        data,
        steps,
        Optimizer(2e-3),
        progress=TrainingProgress(1, steps, name=f"{kind}, L = {L}:"),
    ).params
    f = partial(predict_documents, params, config, first=first)
    # Without a [CLS] there is no empty document; the prior odds of the data are even.
    empty = float(f([np.zeros(0, dtype=int)])[0]) if first else 0.0
    found = surrogates(np.random.default_rng([seed, 3]), f, sample, REPEATED)
    return {"curve": f(REPEATED).tolist(), "empty": empty, **found}


def dense_part(seed: int, steps: int, size: int) -> dict[str, Any]:
    """The same for the feed-forward network, without surrogates."""
    params = train_dense(seed, steps, size)
    ask = jnp.asarray(counts(REPEATED), jnp.float32)
    return {
        "curve": np.asarray(dense(params, ask)).tolist(),
        "empty": float(dense(params, jnp.zeros(len(WORDS)))),
    }


def main(argv: list[str] | None = None) -> int:
    run = Run("linear_data", __doc__ or "", argv, data=False)
    steps, size = (100, 50) if run.quick else (500, 50)
    layers, seeds, sample = ((1,), 2, 600) if run.quick else ((1, 2, 6), 5, 2000)
    seeds = run.wanted(seeds)
    found: dict[str, list[dict[str, Any]]] = {}
    settings = {"steps": steps, "batch": size, "sample": sample}
    for seed in range(seeds):
        for kind, L in [(kind, L) for kind in ("encoder", "decoder") for L in layers]:
            compute = partial(transformer_part, kind, L, seed, steps, size, sample)
            found.setdefault(f"{kind}, L = {L}", []).append(
                run.part(f"{kind}-{L}-{seed}", settings, compute)
            )
    settings = {"steps": 4 * steps, "batch": size}
    found[DENSE] = [
        run.part(f"dense-{seed}", settings, partial(dense_part, seed, 4 * steps, size))
        for seed in range(seeds)
    ]
    figures_3_and_7(run, found)
    proposition_4_1(run)
    table_6(run, found)
    draw_figure(run, found)
    return run.finish(
        {"steps": steps, "batch": size, "seeds": seeds, "layers": list(layers), "sample": sample}
    )


def shapley_of_each(one: dict[str, Any], k: int) -> float:
    """Shapley value of each of k equal tokens: they share F(all) - F(none)."""
    return (one["curve"][k - 1] - one["empty"]) / k


def figures_3_and_7(run: Run, found: dict[str, list[dict[str, Any]]]) -> None:
    """Slope of F by the number of repetitions, and the Shapley value of one repetition (all alike,
    by symmetry).
    """
    slopes = {
        name: [np.polyfit(LENGTHS, one["curve"], 1)[0] for one in many]
        for name, many in found.items()
    }
    for name, values in slopes.items():
        case = f"{name}: log-odds gained by one more 'perfect' (truth 1.5)"
        row = mean_row("P2 Fig. 3", case, values, None, SETTING, OF)
        run.rows.append(row._replace(paper=None if name == DENSE else "flat"))
    flat = [slope < 0.75 for name, values in slopes.items() if name != DENSE for slope in values]
    why = "with a [CLS] token a linear model can be represented, so training may get closer to it"
    text = "no transformer follows the linear model (less than half its slope)"
    run.rows.append(claim("P2 Fig. 3", text, flat, SETTING, why, OF))
    for name, many in found.items():
        for k, said in ((1, "too large"), (10, None), (30, "too small")):
            case = f"{name}: Shapley value of each of {k} 'perfect' (truth 1.5)"
            values = [shapley_of_each(one, k) for one in many]
            row = mean_row(
                "P2 Fig. 7", case, values, None, "exact: equal players share F(all) - F(none)", OF
            )
            run.rows.append(row._replace(paper="about 1.5" if name == DENSE else said))
    over = [
        shapley_of_each(one, 1) > 1.5 > shapley_of_each(one, 30)
        for name, many in found.items()
        for one in many
        if name != DENSE
    ]
    text = "transformers overrate short sequences and underrate long ones"
    run.rows.append(claim("P2 Fig. 7", text, over, SETTING, SETTING, OF))


def proposition_4_1(run: Run) -> None:
    """Without [CLS] and positions, repetitions cannot change the output at all, whatever the
    weights.
    """
    worst = 0.0
    for causal in (False, True):
        config = Config(len(WORDS), d=32, L=6, H=4, causal=causal, positions=False)
        params = init_transformer(jax.random.key(0), config)
        f = predict_documents(params, config, [np.full(k, PERFECT) for k in range(1, 31)])
        worst = max(worst, float(np.ptp(f)))
    run.rows.append(
        Row(
            "P2 Prop. 4.1",
            "largest change of F over 1..30 repetitions, no [CLS], no positions, L = 6",
            worst,
            0.0,
            "random weights, float32; with [CLS] the proposition does not hold",
            n=2,
            of="models",
            statistic="largest",
        )
    )
    # The same statement for a pooled game: its Shapley values are F/k, and they shrink as k grows.
    game = PooledGame.from_scores(s=np.zeros(30), v=np.full(30, 1.5))
    run.rows.append(
        Row(
            "P2 Prop. 4.1",
            "Shapley value of each of 30 equal tokens under SLALOM, v = 1.5",
            float(shapley(game)[0]),
            0.05,
            n=1,
            of="game",
        )
    )


def table_6(run: Run, found: dict[str, list[dict[str, Any]]]) -> None:
    """Errors of the surrogates: Table 6 on fresh sequences, Fig. 4 (a, b) on repetitions of one
    word.
    """
    trained = [one for name, many in found.items() if name != DENSE for one in many]
    for name, many in found.items():
        if name == DENSE:
            continue
        kind, L = name.split(", L = ")
        paper = dict(zip(("linear", "GAM", "SLALOM"), TABLE_6[kind, int(L)], strict=True))
        for surrogate in many[0]["fresh"]:
            own = surrogate not in paper
            note = (
                "not in the paper: ridge in place of the LASSO of weight 0.01" if own else SETTING
            )
            for result, key, printed in (
                ("P2 Table 6", "fresh", paper.get(surrogate)),
                (FIGURE, "repeated", None),
            ):
                values = [one[key][surrogate] for one in many]
                where = "" if key == "fresh" else " on 1 to 30 'perfect'"
                case = f"{name}, {surrogate}: MSE x 100{where}"
                run.rows.append(mean_row(result, case, values, printed, note, OF))
    why = (
        "our transformers come closer to the linear truth than fine-tuned BERT does, so a linear "
        "surrogate fits them"
    )
    for result, key in (("P2 Table 6", "fresh"), (FIGURE, "repeated")):
        best = [one[key]["SLALOM"] < min(one[key]["linear"], one[key]["GAM"]) for one in trained]
        run.rows.append(
            claim(result, "SLALOM describes the transformer best", best, SETTING, why, OF)
        )
    fresh = [one["fresh"] for one in trained]
    worse = [one["GAM"] > one["linear"] for one in fresh]
    text = "the GAM is worse than the linear model, although it contains it"
    run.rows.append(claim("P2 Table 6", text, worse, SETTING, SETTING, OF))
    free = [one["GAM, weakly regularized"] < one["GAM"] for one in fresh]
    text = "(ours) the GAM's excess is its LASSO: less regularization fits better"
    run.rows.append(claim("P2 Table 6", text, free, "not in the paper", of=OF))


def draw_figure(run: Run, found: dict[str, list[dict[str, Any]]]) -> None:
    figure, (left, right) = run.figure(ncols=2, figsize=(10, 4))
    left.plot(LENGTHS, WEIGHT[PERFECT] * LENGTHS, "k--", label="truth")
    right.plot(LENGTHS, np.full(LONGEST, WEIGHT[PERFECT]), "k--")
    for name, many in found.items():
        style = "k:" if name == DENSE else "-" if "encoder" in name else "-."
        curves = np.array([one["curve"] for one in many])
        each = np.array([[shapley_of_each(one, k) for k in LENGTHS.tolist()] for one in many])
        for at, values in ((left, curves), (right, each)):
            (line,) = at.plot(LENGTHS, values.mean(axis=0), style, label=name)
            at.fill_between(
                LENGTHS, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.15
            )
    left.set(xlabel="repetitions of 'perfect'", ylabel="log-odds", title="P2 Fig. 3", ylim=(-1, 25))
    right.set(xlabel="repetitions of 'perfect'", ylabel="Shapley value of each", title="P2 Fig. 7")
    left.legend(fontsize=7)
    run.save(figure)


if __name__ == "__main__":
    sys.exit(main())
