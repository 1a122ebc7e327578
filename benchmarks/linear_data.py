"""Do transformers learn a linear model, and which surrogate describes what they learn instead?

P2 Fig. 3, 7 and Table 6. Sequences of ten words whose weights add up to the log-odds of the label (Table 3) train
transformers and a feed-forward network; then they are asked about repetitions of one word, and linear, additive (GAM)
and SLALOM surrogates are fitted to their outputs on fresh sequences.

    python -m benchmarks.linear_data [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import PooledGame, shapley
from attn_closed_form._types import Array
from attn_closed_form.slalom.fitted import fit_sequences
from jax_model.training.fit import cross_entropy, fit
from jax_model.transformers.transformer import Config, Tree, forward, init_transformer, pad_documents, predict_documents

from .reproduction import Row, Run, claim, mean_row

# P2 Table 3: word, weight, probability.
WORDS = ("the", "we", "movie", "watch", "good", "best", "perfect", "ok", "bad", "worst")
WEIGHT = np.array([0.0, 0.0, 0.0, 0.0, 0.6, 1.0, 1.5, -0.6, -1.0, -1.5])
PROBABILITY = np.array([1 / 6] * 4 + [1 / 15, 1 / 20, 1 / 20, 1 / 15, 1 / 20, 1 / 20])
LONGEST, CLS = 30, len(WORDS)
PERFECT = WORDS.index("perfect")
# P2 Table 6: MSE x 100 of linear model, GAM, SLALOM, each with its standard error, by kind and number of layers.
TABLE_6 = {
    ("decoder", 1): ((20.31, 2.02), (48.78, 2.70), (16.92, 1.33)),
    ("decoder", 2): ((24.81, 3.11), (54.33, 3.26), (22.17, 1.98)),
    ("decoder", 6): ((32.66, 7.60), (57.08, 7.19), (21.59, 4.14)),
    ("encoder", 1): ((26.33, 1.90), (43.30, 0.88), (7.34, 0.70)),
    ("encoder", 2): ((28.43, 3.75), (48.28, 3.23), (9.92, 1.19)),
    ("encoder", 6): ((50.82, 6.34), (68.23, 4.59), (23.99, 3.38)),
}
SETTING = "from scratch, width 32, 4 heads (paper: pretrained sizes of BERT and GPT-2)"
ASKED = (1, 5, 10, 20, 30)

Documents = list[NDArray[np.intp]]


def draw(rng: np.random.Generator, n: int) -> tuple[Documents, Array]:
    """Draw n sequences by P2's four steps (E.1.1) and their labels; an empty one gets one word."""
    lengths = np.maximum(rng.binomial(LONGEST, 0.5, size=n), 1)
    documents = [rng.choice(len(WORDS), size=length, p=PROBABILITY) for length in lengths]
    odds = np.array([WEIGHT[document].sum() for document in documents])
    return documents, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.float32)


def counts(documents: Documents) -> Array:
    """(n, 10) how often each word occurs."""
    return np.stack([np.bincount(document, minlength=len(WORDS)) for document in documents]).astype(float)


def places(documents: Documents) -> Array:
    """(n, 300) one indicator for each word at each place: the features of P2's GAM."""
    out = np.zeros((len(documents), LONGEST, len(WORDS)))
    for row, document in zip(out, documents, strict=True):
        row[np.arange(document.size), document] = 1
    return out.reshape(len(documents), -1)


def batches(seed: int, steps: int, size: int, first: tuple[int, ...]) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng([seed, 1])
    for _ in range(steps):
        documents, labels = draw(rng, size)
        yield pad_documents(documents, LONGEST + 2, first), labels


def transformer_loss(params: Tree, ids: jax.Array, labels: jax.Array, config: Config) -> jax.Array:
    return cross_entropy(forward(params, config, ids), labels)


def dense(params: list[tuple[jax.Array, jax.Array]], x: jax.Array) -> jax.Array:
    """The feed-forward network of P2's appendix A: two layers, ReLU, on word counts."""
    (W, b), (w, c) = params
    return jax.nn.relu(x @ W + b) @ w + c


def dense_loss(params: Any, x: jax.Array, labels: jax.Array) -> jax.Array:
    return cross_entropy(dense(params, x), labels)


def train_dense(seed: int, steps: int, size: int) -> Any:
    rng = np.random.default_rng([seed, 2])
    start = [
        (rng.normal(size=(len(WORDS), 400)).astype(np.float32) * 0.1, np.zeros(400, np.float32)),
        (rng.normal(size=400).astype(np.float32) * 0.05, np.float32(0.0)),
    ]
    drawn = (draw(rng, size) for _ in range(steps))
    data = ((counts(documents).astype(np.float32), labels) for documents, labels in drawn)
    return fit(dense_loss, start, data, steps, learning_rate=3e-3)


def surrogate_errors(rng: np.random.Generator, f: Any, n: int) -> dict[str, float]:
    """MSE x 100 on fresh sequences of surrogates fitted to outputs f of n others."""
    from sklearn.linear_model import Lasso, LinearRegression, Ridge

    fitted, fresh = draw(rng, n)[0], draw(rng, n)[0]
    y, y_fresh = f(fitted), f(fresh)
    slalom = fit_sequences(y, fitted, np.ones(n)).slalom
    predicted = {
        "linear": LinearRegression().fit(counts(fitted), y).predict(counts(fresh)),
        "GAM": Lasso(alpha=0.01, max_iter=5000).fit(places(fitted), y).predict(places(fresh)),
        "GAM, hardly regularised": Ridge(alpha=1.0).fit(places(fitted), y).predict(places(fresh)),
        "SLALOM": slalom.predict_many(fresh),
    }
    return {name: 100 * float(np.mean((value - y_fresh) ** 2)) for name, value in predicted.items()}


def main(argv: list[str] | None = None) -> int:
    run = Run("linear_data", __doc__ or "", argv, data=False)
    steps, size = (100, 50) if run.quick else (700, 50)
    layers, seeds, sample = ((1,), 1, 600) if run.quick else ((1, 2, 6), 2, 3000)
    lengths = np.arange(1, LONGEST + 1)
    repeated = [np.full(k, PERFECT) for k in lengths]

    curves: dict[str, Array] = {"truth": WEIGHT[PERFECT] * lengths}
    empty: dict[str, float] = {"truth": 0.0}
    errors: dict[tuple[str, int], list[dict[str, float]]] = {}
    for kind in ("encoder", "decoder"):
        first = (CLS,) if kind == "encoder" else ()
        for L in layers:
            config = Config(len(WORDS) + 1, d=32, L=L, H=4, d_ff=64, T_max=LONGEST + 2, causal=kind == "decoder")
            loss = partial(transformer_loss, config=config)
            many = []
            for seed in range(seeds):
                start = init_transformer(jax.random.key(seed), config)
                params = fit(loss, start, batches(seed, steps, size, first), steps, 2e-3, name=f"{kind}, L = {L}")
                f = partial(predict_documents, params, config, first=first)
                many.append(f(repeated))
                rng = np.random.default_rng([seed, 3])
                errors.setdefault((kind, L), []).append(surrogate_errors(rng, f, sample))
            name = f"{kind}, L = {L}"
            curves[name] = np.mean(many, axis=0)
            # Without a [CLS] there is no empty document; the prior odds of the data are even.
            empty[name] = float(f([np.zeros(0, dtype=int)])[0]) if first else 0.0
            run.say(f"{name}: {errors[kind, L][-1]}")
    network = [train_dense(seed, 4 * steps, size) for seed in range(seeds)]
    ask = counts(repeated)
    curves["feed-forward"] = np.mean([np.asarray(dense(p, jnp.asarray(ask, jnp.float32))) for p in network], axis=0)
    empty["feed-forward"] = float(np.mean([float(dense(p, jnp.zeros(len(WORDS)))) for p in network]))

    figure_3_and_7(run, curves, empty, lengths)
    proposition_4_1(run)
    table_6(run, errors)
    draw_figure(run, curves, empty, lengths)
    return run.finish({"steps": steps, "batch": size, "seeds": seeds, "layers": list(layers), "sample": sample})


def figure_3_and_7(run: Run, curves: dict[str, Array], empty: dict[str, float], lengths: NDArray[np.intp]) -> None:
    """Slope of F by the number of repetitions, and the Shapley value of one repetition (all alike, by symmetry)."""
    names = [name for name in curves if name != "truth"]
    for name in names:
        slope = np.polyfit(lengths, curves[name], 1)[0]
        run.rows.append(
            Row(
                "P2 Fig. 3",
                f"{name}: log-odds gained by one more 'perfect' (truth 1.5)",
                float(slope),
                None if name == "feed-forward" else "flat",
                SETTING,
            )
        )
    slopes = {name: np.polyfit(lengths, curves[name], 1)[0] for name in names}
    transformers = [name for name in names if name != "feed-forward"]
    run.rows.append(
        claim(
            "P2 Fig. 3",
            "no transformer follows the linear model (less than half its slope)",
            [slopes[name] < 0.75 for name in transformers],
            SETTING,
            "with a [CLS] token a linear model can be represented, so training may get closer to it",
        )
    )
    for name in [*transformers, "feed-forward"]:
        values = {k: (curves[name][k - 1] - empty[name]) / k for k in ASKED}
        for k in (1, 10, 30):
            run.rows.append(
                Row(
                    "P2 Fig. 7",
                    f"{name}: Shapley value of each of {k} 'perfect' (truth 1.5)",
                    float(values[k]),
                    "about 1.5"
                    if name == "feed-forward"
                    else "too large"
                    if k == 1
                    else "too small"
                    if k == 30
                    else None,
                    "exact: equal players share F(all) - F(none); the paper samples",
                )
            )
    over = [(curves[n][0] - empty[n]) > 1.5 > (curves[n][29] - empty[n]) / 30 for n in transformers]
    run.rows.append(
        claim("P2 Fig. 7", "transformers overrate short sequences and underrate long ones", over, SETTING, SETTING)
    )


def proposition_4_1(run: Run) -> None:
    """Without [CLS] and positions, repetitions cannot change the output at all, whatever the weights."""
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
        )
    )


def table_6(run: Run, errors: dict[tuple[str, int], list[dict[str, float]]]) -> None:
    best = []
    gam_worse, gam_free = [], []
    for (kind, L), many in errors.items():
        paper = dict(zip(("linear", "GAM", "SLALOM"), TABLE_6[kind, L], strict=True))
        for name in many[0]:
            run.rows.append(
                mean_row(
                    "P2 Table 6",
                    f"{kind}, L = {L}, {name}: MSE x 100",
                    [one[name] for one in many],
                    paper.get(name),
                    SETTING if name in paper else "not in the paper: ridge in place of the LASSO of weight 0.01",
                )
            )
        mean = {name: np.mean([one[name] for one in many]) for name in many[0]}
        best.append(bool(mean["SLALOM"] < min(mean["linear"], mean["GAM"])))
        gam_worse.append(bool(mean["GAM"] > mean["linear"]))
        gam_free.append(bool(mean["GAM, hardly regularised"] < mean["GAM"]))
    why = "our transformers come closer to the linear truth than fine-tuned BERT does, so a linear surrogate fits them"
    run.rows += [
        claim("P2 Table 6", "SLALOM describes the transformer best", best, SETTING, why),
        claim(
            "P2 Table 6", "the GAM is worse than the linear model, although it contains it", gam_worse, SETTING, SETTING
        ),
        claim(
            "P2 Table 6",
            "(ours) the GAM's excess is its LASSO: less regularisation fits better",
            gam_free,
            "not in the paper",
        ),
    ]


def draw_figure(run: Run, curves: dict[str, Array], empty: dict[str, float], lengths: NDArray[np.intp]) -> None:
    figure, (left, right) = run.figure(ncols=2, figsize=(10, 4))
    for name, curve in curves.items():
        style = {"truth": "k--", "feed-forward": "k:"}.get(name, "-" if "encoder" in name else "-.")
        left.plot(lengths, curve, style, label=name)
        right.plot(lengths, (curve - empty[name]) / lengths, style)
    left.set(xlabel="repetitions of 'perfect'", ylabel="log-odds", title="P2 Fig. 3", ylim=(-1, 25))
    right.set(xlabel="repetitions of 'perfect'", ylabel="Shapley value of each", title="P2 Fig. 7")
    left.legend(fontsize=7)
    run.save(figure)


if __name__ == "__main__":
    sys.exit(main())
