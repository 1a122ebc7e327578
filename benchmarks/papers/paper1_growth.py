"""Why Theorem 5.1 is far from LIME at the paper's size: T_max grows on a trained model, and reviews
are cut short.

The theorem lets T_max grow for a fixed document, so that its share of the attention goes to zero.
In a trained model of T_max = 256 the words of a review hold nine tenths of it. `growing` keeps the
weights and the review and appends more padding: positions beyond 255 get the embeddings that Eq. 3
has for them, with the base that the model was trained with. Every form is compared with the exact
limit of LIME on the same reviews, once in the theorem's regime (infinite bandwidth, no ridge, all
samples) and once at the package's defaults.

The first order is the first term of the mean field's series in r = B/A - 1, where A is the mass of
a head's softmax at the document and B the mass when every word is [UNK]. The next term comes from
the denominators alone,

    beta = c_1 (g v - g_h v_h) - c_2 (g - g_h),   c_1 = (1 - r/2 + ...)/A,
    c_2 = [N_A (1 - r + ...) + (N_B - N_A)(1/2 + ...)]/A^2,

and at T_max = 256 r is near -0.9: the next term halves the error, and the series converges too
slowly to be cut. Summed up it is the mean field.

`shortening` answers "experimentally satisfying for documents which are a few dozen tokens long"
(section 6): long reviews, cut to 12 to 96 tokens.

    python -m benchmarks.papers.paper1_growth --data PATH [--quick]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attn_closed_form import AttentionWeights, alpha, lime_limit
from attn_closed_form._legendre import legendre_rule
from attn_closed_form._types import Array
from attn_closed_form.game.pooled_game import PooledGame
from attn_closed_form.lime import lime_first_order, lime_mean_field, lime_theorem_5_1
from jax_model.training.imdb import load_imdb

from .lime_deletion import KERNEL_WIDTH, shares
from .lime_runs import Ids
from .paper1_lime import (
    CLOSE,
    FIRST,
    MEAN_FIELD,
    errors,
    game_of,
    lime_run,
    theories,
)
from .reproduction import Run, claim, mean_row
from .retrained import first_model
from .terms import (
    DELETED,
    EXACT,
    FEW_PERCENT,
    MOVED,
    PRINTED,
    RUNS,
    UNK_POSITIONS,
    UNK_WORDS,
    WITH_KERNEL,
)

GROWTH = "P1 Theorem 5.1 (T_max grows)"
LENGTH = "P1 sec. 6 (length)"
SECOND = "first and next order, corrected"
SIZES = (256, 1024, 4096, 16384, 65536)
LENGTHS = (12, 24, 48, 96)
# Tokens that a review needs to be cut, so that every length has the same reviews.
ENOUGH = 192
# The package's number of samples.
SAMPLES = 5000
OF = "test reviews"
WHY = "see the tables of P1's page for the reasons"
BLOCK = 10  # reviews of one part
# Ways to leave a word out, for a legend.
SHORT = {DELETED: "nothing (deleted)", UNK_WORDS: "[UNK]"}


def next_order(game: PooledGame) -> Array:
    """Theorem 5.1 corrected, with the next term of the series in the mass that the words hold,
    (d,).
    """
    g, g_h, background = game.masses
    A = background + g.sum(axis=1)
    B = background + g_h.sum(axis=1)
    rest = background * game.v_background
    N_A = rest + (g * game.v).sum(axis=1)
    N_B = rest + (g_h * game.v_absent).sum(axis=1)
    r = B / A - 1
    c_1 = (1 - r / 2) / A
    c_2 = (N_A * (1 - r) + (N_B - N_A) / 2) / A**2
    change = c_1[:, None] * (g * game.v - g_h * game.v_absent) - c_2[:, None] * (g - g_h)
    return np.asarray(change.sum(axis=0))


def factors(game: PooledGame) -> tuple[Array, Array]:
    """What multiplies alpha_t v_t by the mean field, per head: for equal weights of all samples,
    and LIME's kernel.

    The integral of p (1 - p)/(1 + r p) over that of p (1 - p), r = B/A - 1: the theorem's 3/2,
    which is 1 for r = 0.
    """
    g, g_h, background = game.masses
    r = (background + g_h.sum(axis=1)) / (background + g.sum(axis=1)) - 1
    y, w = legendre_rule(80)
    p = 1 - y**2
    found = []
    for rule_p, kernel in ((p, 2 * y * w), shares(KERNEL_WIDTH)):
        spread = kernel * rule_p * (1 - rule_p)
        found.append((1 / (1 + r[:, None] * rule_p)) @ spread / spread.sum())
    return found[0], found[1]


def grown(weights: AttentionWeights, T_max: int) -> AttentionWeights:
    """The same model with more positions, whose embeddings continue Eq. 3 with the base of the
    training.
    """
    if weights.W_p is None or weights.T_max is None:
        raise ValueError("weights: expected a model with positions, got one without")
    coordinate = np.arange(weights.d_e)
    frequency = float(weights.T_max) ** (-2.0 * (coordinate // 2 + 1) / weights.d_e)
    angle = np.arange(T_max)[:, None] * frequency
    eq_3 = np.where(coordinate % 2 == 0, np.sin(angle), np.cos(angle))
    # The trainer multiplies the positions by a small number.
    old = eq_3[: weights.T_max]
    scale = float(np.vdot(old, weights.W_p) / np.vdot(old, old))
    if not np.allclose(scale * old, weights.W_p, atol=1e-5):
        raise ValueError("weights: expected the positions of Eq. 3, got others")
    return replace(weights, W_p=np.concatenate([weights.W_p, scale * eq_3[weights.T_max :]]))


def at_size(weights: AttentionWeights, documents: list[Ids]) -> list[dict[str, Any]]:
    """Errors of every form against the exact limit, one dictionary per review."""
    out = []
    for ids in documents:
        game = game_of(weights, ids, words=False)
        regime = lime_limit(game, kernel_width=np.inf, ridge=0.0, num_samples=None, tol=1e-9).coef
        defaults = lime_limit(game, num_samples=SAMPLES, tol=1e-9).coef
        simple = {
            PRINTED: lime_theorem_5_1(game),
            FIRST: lime_first_order(game),
            SECOND: next_order(game),
        }
        plain, kernel = factors(game)
        held = alpha(weights, ids)[:, 1 : 1 + len(ids)].sum(axis=1)
        with_kernel = lime_mean_field(game, kernel_width=KERNEL_WIDTH)
        out.append(
            {
                "regime": {
                    name: errors(regime, coefficients)[1]
                    for name, coefficients in {**simple, MEAN_FIELD: lime_mean_field(game)}.items()
                },
                "defaults": {
                    name: errors(defaults, coefficients)[1]
                    for name, coefficients in {**simple, WITH_KERNEL: with_kernel}.items()
                },
                "held": float(held.mean()),
                "factor": float(plain.mean()),
                "factor with kernel": float(kernel.mean()),
            }
        )
    return out


def growing(run: Run, weights: AttentionWeights, documents: list[Ids]) -> dict[int, list[Any]]:
    """Rows of the growing T_max."""
    found: dict[int, list[Any]] = {}
    for size in SIZES:
        larger = grown(weights, size)
        found[size] = []
        for start in range(0, len(documents), BLOCK):
            some = documents[start : start + BLOCK]
            settings = {"T_max": size, "reviews": len(some)}
            compute = partial(at_size, larger, some)
            found[size] += run.part(f"size-{size}-{start:03d}", settings, compute)
        many = found[size]
        for case, key in (
            ("share of the attention on the review", "held"),
            ("factor of the mean field, equal weights (theorem: 3/2, corrected: 1)", "factor"),
            ("factor of the mean field, LIME's kernel", "factor with kernel"),
        ):
            values = [one[key] for one in many]
            run.rows.append(mean_row(GROWTH, f"T_max = {size:,}: {case}", values, None, "", OF))
        for regime, words in (
            ("regime", "infinite bandwidth, no ridge"),
            ("defaults", f"the package's defaults, {SAMPLES} samples"),
        ):
            for name in many[0][regime]:
                values = [one[regime][name] for one in many]
                case = f"T_max = {size:,}, {words}: {name}: error relative to the exact limit"
                run.rows.append(
                    mean_row(GROWTH, case, values, None, "no sampling; not in the paper", OF)
                )
                if regime == "regime":
                    ours = "" if name == PRINTED else "(ours) "
                    text = (
                        f"{ours}T_max = {size:,}: {name} is within {FEW_PERCENT} of the exact limit"
                    )
                    holds = [value <= CLOSE for value in values]
                    run.rows.append(claim(GROWTH, text, holds, f"{UNK_POSITIONS}, {words}", of=OF))
    return found


def at_length(
    weights: AttentionWeights, documents: list[Ids], length: int, samples: int, first: int
) -> list[dict[str, Any]]:
    """Errors of every form against the mean of five runs, for reviews that are cut to a length."""
    out = []
    for n, document in enumerate(documents, start=first):
        ids = document[:length]
        one: dict[str, Any] = {}
        for way in (DELETED, UNK_WORDS):
            seeds = range(RUNS * n, RUNS * (n + 1))
            lime = np.mean([lime_run(weights, ids, way, samples, seed) for seed in seeds], axis=0)
            one[way] = {
                name: errors(lime, form)[1]
                for name, form in theories(weights, ids, way, samples).items()
            }
        one["held"] = float(alpha(weights, ids)[:, 1 : 1 + len(ids)].sum(axis=1).mean())
        out.append(one)
    return out


def shortening(
    run: Run, weights: AttentionWeights, documents: list[Ids], samples: int
) -> dict[int, list[Any]]:
    """Rows of the reviews that are cut short."""
    found: dict[int, list[Any]] = {}
    long = [ids for ids in documents if len(ids) >= ENOUGH]
    for length in LENGTHS:
        found[length] = []
        for start in range(0, len(long), BLOCK):
            some = long[start : start + BLOCK]
            settings = {"length": length, "samples": samples, "reviews": len(some)}
            compute = partial(at_length, weights, some, length, samples, start)
            found[length] += run.part(f"length-{length}-{start:03d}", settings, compute)
        many = found[length]
        for way in (DELETED, UNK_WORDS):
            for name in many[0][way]:
                values = [one[way][name] for one in many]
                measure = f"relative norm-2 error of the mean of {RUNS} runs"
                case = f"{length} tokens, {way}: {name}: {measure}"
                note = f"long test reviews, cut to their first {length} tokens"
                run.rows.append(mean_row(LENGTH, case, values, None, note, OF))
                if name in (PRINTED, FIRST, WITH_KERNEL, EXACT, MOVED):
                    ours = "" if name == PRINTED else "(ours) "
                    near = f"is within {FEW_PERCENT} of the mean of {RUNS} runs"
                    text = f"{ours}{length} tokens: {name} {near}, {way}"
                    holds = [value <= CLOSE for value in values]
                    run.rows.append(claim(LENGTH, text, holds, note, WHY, OF))
        case = f"{length} tokens: share of the attention on the review"
        run.rows.append(mean_row(LENGTH, case, [one["held"] for one in many], None, "", OF))
    return found


def draw(run: Run, sizes: dict[int, list[Any]], lengths: dict[int, list[Any]]) -> None:
    """Errors by T_max and by the length of the review."""
    figure, (left, right) = run.figure(ncols=2, figsize=(11, 5.8))
    for name, mark in ((PRINTED, "rv-"), (FIRST, "b.-"), (SECOND, "c.-"), (MEAN_FIELD, "gx-")):
        means = [np.mean([one["regime"][name] for one in many]) for many in sizes.values()]
        left.loglog(list(sizes), means, mark, label=name)
    left.axhline(CLOSE, color="0.6", linewidth=0.8)
    left.set(
        xlabel="T_max, padded with [UNK]",
        ylabel="error relative to LIME's exact limit",
        title="the same reviews, more padding",
    )
    left.legend(fontsize=9)
    for way, line in ((DELETED, "-"), (UNK_WORDS, "--")):
        names = [PRINTED, FIRST, WITH_KERNEL, *([MOVED] if way == DELETED else [])]
        for name, mark in zip(names, ("rv", "b.", "gx", "k+"), strict=False):
            means = [np.mean([one[way][name] for one in many]) for many in lengths.values()]
            label = f"{name}; {SHORT[way]}"
            right.loglog(list(lengths), means, mark + line, label=label, markersize=4)
    right.axhline(CLOSE, color="0.6", linewidth=0.8)
    right.set(
        xlabel="tokens of the review",
        ylabel=f"error relative to the mean of {RUNS} runs",
        title="reviews cut short, T_max = 256",
    )
    right.set_xticks(list(lengths), [str(length) for length in lengths])
    right.minorticks_off()
    lines, names = right.get_legend_handles_labels()
    title = "on the right: form; what stands for an absent word"
    place = "outside lower center"
    figure.legend(lines, names, loc=place, ncols=2, fontsize=9, title=title)
    run.save(figure)


def main(argv: list[str] | None = None) -> int:
    run = Run("paper1_growth", __doc__ or "", argv, data=True)
    model = first_model(run)
    reviews, samples = (4, 500) if run.quick else (60, SAMPLES)
    texts = load_imdb(run.imdb, "test").texts
    order = np.random.default_rng(0).permutation(len(texts))
    room = int(model.weights.room)
    documents = [model.vocabulary.encode(texts[i])[:room] for i in order[: run.wanted(reviews)]]
    sizes = growing(run, model.weights, documents)
    lengths = shortening(run, model.weights, documents, samples)
    draw(run, sizes, lengths)
    return run.finish(
        {
            "reviews": len(documents),
            "long reviews": len(next(iter(lengths.values()))),
            "T_max": list(SIZES),
            "lengths": list(LENGTHS),
            "samples": samples,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
