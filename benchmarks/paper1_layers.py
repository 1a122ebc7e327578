"""Is LIME related to the attention of a model with six layers and six heads?

P1 appendix E, Fig. 6: a classifier with six layers and six heads is trained on IMDB (82.22 % there), and the weights
that the lime package gives the words of one review are correlated with the attention of its first layer. Here the same
for many reviews, with gradients as a third explanation, and for the shipped model of one layer beside it.

    python -m benchmarks.paper1_layers --data PATH [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from attn_closed_form import alpha_avg, gradient, lime_limit, load_demo_model, pooled_game, predict
from attn_closed_form._types import Array
from attn_closed_form.evaluate.datasets import load_imdb
from jax_model.training.batches import Documents, encode_documents, pad_rows
from jax_model.training.fit import cross_entropy, fit
from jax_model.transformers.transformer import EPS, PAD, Config, Tree, embed, forward, from_embeddings, init_transformer

from .correlations import pearson, pool_words
from .lime_runs import Ids, lime_package
from .reproduction import Row, Run, claim, mean_row

# P1 appendix E: accuracy in per cent, and Pearson's correlations of its one document.
ACCURACY = 82.22
LIME_ALPHA, ABS_LIME_ALPHA = -0.424, 0.672
LAYERS, HEADS, WIDTH = 6, 6, 48
WINDOW = 64  # positions, [CLS] included: attention costs their square
READ = 4  # windows of a long review that are read, together about the paper's T_max = 256
LENGTHS, BLOCK = (32, 64), 256  # shapes of a forward pass
METHODS = ("LIME", "|LIME|", "alpha-avg", "G-avg", "G-l1", "G-l2")
PAIRS = [("LIME", "alpha-avg"), ("|LIME|", "alpha-avg"), ("G-avg", "alpha-avg"), ("G-l1", "alpha-avg")]
PAIRS += [("G-l2", "alpha-avg"), ("LIME", "G-avg"), ("|LIME|", "G-l2")]
PAPER = {("LIME", "alpha-avg"): LIME_ALPHA, ("|LIME|", "alpha-avg"): ABS_LIME_ALPHA}
SIX = "width 48, layer norm, feed-forward, windows of 63 tokens (paper: 255), embeddings start from the shipped model's"


def drop_tokens(rng: np.random.Generator, ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Delete a random share of the tokens of half of the rows, the others move up: LIME asks about such reviews."""
    share = rng.random((len(ids), 1)) * (rng.random((len(ids), 1)) < 0.5)
    gone = (rng.random(ids.shape) < share) | (ids == PAD)
    gone[:, 0] = False
    order = np.argsort(gone, axis=1, kind="stable")
    return np.take_along_axis(np.where(gone, PAD, ids).astype(np.int32), order, axis=1)


def batches(documents: Documents, cls: int, steps: int, size: int, seed: int) -> Iterator[tuple[Any, Any]]:
    """Random windows of random reviews."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(steps):
        rows = rng.integers(documents.size, size=size)
        spare = np.maximum(np.diff(documents.starts)[rows] - (WINDOW - 1), 0)
        ids = pad_rows(documents, rows, WINDOW, cls, PAD, rng.integers(spare + 1))
        yield drop_tokens(rng, ids), documents.labels[rows]


def loss(params: Tree, ids: jax.Array, labels: jax.Array, config: Config) -> jax.Array:
    return cross_entropy(forward(params, config, ids), labels)


def warm_start(params: Tree, W_e: Array, scale: float = 0.3) -> Tree:
    """Embeddings from another model's (D, d_e), by their leading principal components, all of them of size `scale`.

    Most of what a classifier of reviews has to learn is what the words mean; a start from nothing would need some
    thousands of steps for that, and two cores an hour.
    """
    centred = W_e - W_e.mean(axis=0)
    components = np.linalg.svd(centred, full_matrices=False)[2][: params["W_e"].shape[1]]
    found = centred @ components.T
    return {**params, "W_e": jnp.asarray(found * (scale / found.std()), params["W_e"].dtype)}


def windows(ids: Ids, size: int = WINDOW - 1, most: int = READ) -> list[Ids]:
    """A document in pieces of `size` tokens, at most `most`; the last one is shorter."""
    return [ids[start : start + size] for start in range(0, max(1, min(len(ids), size * most)), size)]


def outputs(params: Tree, config: Config, documents: list[Ids]) -> Array:
    """Log-odds of documents without their [CLS] (id 0), in few shapes: (n,)."""
    sizes = np.array([len(document) + 1 for document in documents])
    out = np.empty(len(documents))
    for low, length in zip((0, *LENGTHS), LENGTHS, strict=False):
        rows = np.flatnonzero((sizes > low) & (sizes <= length))
        for start in range(0, rows.size, BLOCK):
            some = rows[start : start + BLOCK]
            ids = np.full((BLOCK, length), PAD, dtype=np.int32)
            ids[:, 0] = 0
            for row, i in zip(ids, some, strict=False):
                row[1 : sizes[i]] = documents[i]
            out[some] = np.asarray(forward(params, config, ids))[: some.size]
    return out


@partial(jax.jit, static_argnums=1)
def first_attention(params: Tree, config: Config, ids: jax.Array) -> jax.Array:
    """Attention of [CLS] in the first layer: (T,) ids -> (H, T)."""
    h = embed(params, ids[None])[0]
    p = jax.tree.map(lambda x: x[0], params["layers"])
    x = h - h.mean(axis=-1, keepdims=True)
    x = x / jnp.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS) * p["gain_1"] + p["shift_1"]
    q, k = ((x @ p[f"W_{n}"] + p[f"b_{n}"]).reshape(len(ids), config.H, -1) for n in "qk")
    scores = jnp.einsum("hc,khc->hk", q[0], k) * (config.d // config.H) ** -0.5
    return jax.nn.softmax(jnp.where(ids >= 0, scores, -1e9), axis=-1)


@partial(jax.jit, static_argnums=1)
def slopes(params: Tree, config: Config, ids: jax.Array) -> jax.Array:
    """Gradient of the log-odds by the embeddings: (T,) ids -> (T, d)."""
    e, real = embed(params, ids[None]), ids[None] >= 0
    return jax.grad(lambda e: from_embeddings(params, config, e, real)[0])(e)[0]


def table_of_scores(lime: Array, alpha: Array, slope: Array, ids: Ids) -> Array:
    """Scores of the words, (6, d), in the order of `METHODS`: LIME (d,), attention (T,) and gradient (T, d_e) given."""
    positions = np.stack([alpha, slope.mean(axis=1), np.abs(slope).sum(axis=1), np.linalg.norm(slope, axis=1)])
    return np.concatenate([[lime, np.abs(lime)], pool_words(positions, ids)])


def six_layers(params: Tree, config: Config, ids: Ids, samples: int, unk: int, seed: int) -> Array:
    """`table_of_scores` of the transformer, LIME by the package with the authors' deletion of words."""
    padded = np.full(WINDOW, PAD, dtype=np.int32)
    padded[: len(ids) + 1] = [0, *ids]
    own = slice(1, len(ids) + 1)
    alpha = np.asarray(first_attention(params, config, padded), dtype=float).mean(axis=0)[own]
    slope = np.asarray(slopes(params, config, padded), dtype=float)[own]
    lime = lime_package(partial(outputs, params, config), ids, True, unk, samples, seed)
    return table_of_scores(lime, alpha, slope, ids)


def main(argv: list[str] | None = None) -> int:
    run = Run("paper1_layers", __doc__ or "", argv, data=True)
    steps, size, tested = (60, 32, 300) if run.quick else (400, 32, 2500)
    explained, samples, single = (5, 500, 100) if run.quick else (30, 1000, 500)
    model = load_demo_model()
    weights, vocabulary = model.weights, model.vocabulary
    cls, unk = vocabulary.cls_id, vocabulary.unk_id
    train, test = load_imdb(run.imdb, "train"), load_imdb(run.imdb, "test")
    every = 5 if run.quick else 1
    documents = encode_documents(vocabulary, train.texts[::every], train.labels[::every])
    rows = np.random.default_rng(0).permutation(len(test.texts))[:tested]
    reviews = [vocabulary.encode(test.texts[i]) for i in rows]
    labels = test.labels[rows] == 1
    run.say(f"{documents.size} reviews to train on")

    config = Config(len(vocabulary), d=WIDTH, L=LAYERS, H=HEADS, d_ff=2 * WIDTH, T_max=WINDOW)
    params = fit(
        partial(loss, config=config),
        warm_start(init_transformer(jax.random.key(0), config), weights.W_e),
        batches(documents, cls, steps, size, 0),
        steps,
        learning_rate=2e-3,
        weight_decay=0.1,
        name="six layers",
    )
    pieces = [windows(ids) for ids in reviews]
    f = outputs(params, config, [piece for some in pieces for piece in some])
    starts = np.cumsum([0, *map(len, pieces)])
    whole = np.array([f[a:b].mean() for a, b in pairwise(starts)])
    accuracy(run, "mean over up to 4 windows of 63 tokens", (whole > 0) == labels, ACCURACY)
    accuracy(run, "first 63 tokens alone", (f[starts[:-1]] > 0) == labels, None)
    run.say(f"accuracy {run.rows[0].ours:.2f} %")

    tables, signs = [], []
    for n, (some, start) in enumerate(zip(pieces[:explained], starts[:explained], strict=True)):
        tables.append(six_layers(params, config, some[0], samples, unk, seed=n))
        signs.append(f[start] > 0)
        if n % 10 == 9:
            run.say(f"{n + 1} of {explained} reviews explained")
    correlations(run, "six layers", tables, np.array(signs), SIX, PAPER)

    one, positive = [], []
    for ids in [ids[: weights.T_max - 1] for ids in reviews[:single]]:
        lime = lime_limit(pooled_game(weights, ids, players="words"), tol=1e-6).coef
        one.append(table_of_scores(lime, alpha_avg(weights, ids), gradient(weights, ids)[1 : 1 + len(ids)], ids))
        positive.append(bool(predict(weights, ids)[0] > 0))
    differs = "the shipped model of one layer, whole reviews, LIME's exact limit under [UNK]; not in the paper"
    correlations(run, "one layer", one, np.array(positive), differs, {})

    figure(run, tables[int(np.argmin([f[start] for start in starts[:explained]]))], tables, one)
    return run.finish({"steps": steps, "batch": size, "tested": tested, "explained": explained, "samples": samples})


def accuracy(run: Run, case: str, right: NDArray[np.bool_], paper: float | None) -> None:
    pm = float(100 * right.std(ddof=1) / np.sqrt(right.size))
    name = f"six layers, six heads: test accuracy in %, {case}"
    run.rows.append(Row("P1 App. E", name, float(100 * right.mean()), paper, SIX, ours_pm=pm))


def correlations(
    run: Run, model: str, tables: list[Array], positive: NDArray[np.bool_], differs: str, paper: dict[Any, float]
) -> None:
    """Rows of Pearson's correlations over reviews, and the paper's two sentences about them as counts."""
    rho = np.stack([pearson(table) for table in tables])
    pair = {(a, b): rho[:, METHODS.index(a), METHODS.index(b)] for a, b in PAIRS}
    for names, values in pair.items():
        for side in (False, True) if names == ("LIME", "alpha-avg") else (None,):
            some = values if side is None else values[positive == side]
            if not some.size:
                continue
            kind = "" if side is None else f", {'positive' if side else 'negative'} reviews"
            value = paper.get(names) if side is not True else None
            note = f"{differs}; paper: one review" if value is not None else differs
            case = f"{model}: Pearson of {names[0]} with {names[1]}{kind}, mean of {some.size}"
            run.rows.append(mean_row("P1 Fig. 6", case, some, value, note))
    signed, plain = pair["LIME", "alpha-avg"], pair["|LIME|", "alpha-avg"]
    right = (signed > 0) == positive
    counts = [f"{right[positive == side].sum()} of {(positive == side).sum()}" for side in (False, True)]
    run.rows += [
        claim(
            "P1 App. E",
            f"{model}: the sign of LIME's correlation with attention is that of the prediction",
            right.tolist(),
            differs,
            f"holds for {counts[0]} reviews that the model finds negative, {counts[1]} that it finds positive",
        ),
        claim(
            "P1 App. E",
            f"{model}: |LIME| and attention are positively related",
            (plain > 0).tolist(),
            differs,
        ),
    ]


def figure(run: Run, table: Array, tables: list[Array], one: list[Array]) -> None:
    """Left P1's Fig. 6 for the most negative review, right the correlations of |LIME| with attention of all reviews."""
    drawn, (left, right) = run.figure(ncols=2, figsize=(9, 3.6))
    left.scatter(table[METHODS.index("alpha-avg")], table[METHODS.index("LIME")], s=14)
    left.axhline(0, color="0.7", linewidth=0.8)
    left.set(xlabel="attention, first layer, mean of 6 heads", ylabel="LIME", title="P1 Fig. 6: words of one review")
    a, b = METHODS.index("|LIME|"), METHODS.index("alpha-avg")
    values = [[pearson(t)[a, b] for t in some] for some in (tables, one)]
    right.boxplot(values)
    right.set_xticks([1, 2], ["six layers", "one layer"])
    right.axhline(ABS_LIME_ALPHA, color="k", linestyle=":", linewidth=0.8)
    right.set(ylabel="Pearson of |LIME| with attention", title="all reviews; dotted: the paper's one")
    run.save(drawn)


if __name__ == "__main__":
    sys.exit(main())
