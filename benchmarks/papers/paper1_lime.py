"""How far is LIME, as the lime package runs it, from Theorem 5.1, from its corrections and from its
exact limit?

P1 Fig. 4, section 6 and appendix B.1: the norm of the difference between the package's weights and
the theorem's, which the paper gives as 0.808 +- 0.219 on its test set. LIME is run in two ways: as
the authors did, deleting words, with the package's draws and regression (`lime_runs.lime_by_masks`,
equal to the package to rounding), and with [UNK] in the place of a token, which is what the theorem
speaks of (`lime_sample`, the same estimator on other draws).

    python -m benchmarks.papers.paper1_lime --data PATH [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attn_closed_form import AttentionWeights, alpha, lime_limit, lime_sample
from attn_closed_form._types import Array
from attn_closed_form.attention import pooled_game, predict_many
from attn_closed_form.game.pooled_game import PooledGame
from attn_closed_form.lime import lime_first_order, lime_mean_field, lime_theorem_5_1
from jax_model.training.imdb import load_imdb

from ..harness import Bar
from .lime_runs import Ids, lime_by_masks, lime_package, words_deleted
from .reproduction import Row, Run, claim, mean_row
from .retrained import first_model

# P1 section 6 and appendix B.1: mean and standard deviation over the test set of the norm-2 error
# of Theorem 5.1.
ERROR = 0.808
DEVIATION = 0.219
# P1 Fig. 4: tokens, different words, runs of LIME.
TOKENS = 99
WORDS = 71
RUNS = 5
SECTION = "P1 sec. 6, B.1"
FIGURE = "P1 Fig. 4"
PRINTED = "Theorem 5.1 as printed"
FIRST = "first order, corrected"
EXACT = "exact limit"
OURS = (
    "our model, f = log-odds (paper: one of two logits); the norm scales with f, so see the "
    "relative error"
)
# The two ways to run LIME: the package's option `bow`.
DELETED = "words deleted (bow=True, the authors')"
REPLACED = "[UNK] in place (bow=False)"
# Relative norm-2 error from which on we no longer call two explanations a very good match.
CLOSE = 0.1
OF = "test reviews"
BLOCK = 10  # reviews of one part

Forms = dict[str, Callable[[PooledGame], Array]]


def forms(samples: int) -> Forms:
    """What LIME with so many samples is compared with."""
    return {
        PRINTED: lime_theorem_5_1,
        FIRST: lime_first_order,
        "mean field, corrected": lime_mean_field,
        "mean field with LIME's kernel": partial(lime_mean_field, kernel_width=25.0),
        EXACT: lambda game: lime_limit(game, num_samples=samples, tol=1e-8).coef,
    }


def game_of(weights: AttentionWeights, ids: Ids, bow: bool) -> PooledGame:
    """Theorem 5.1's game ([UNK] in place) with the features that the package has."""
    return pooled_game(weights, ids, players="words" if bow else "positions")


def output(weights: AttentionWeights, documents: list[Ids] | Ids) -> Array:
    """The first output of many documents, (n,)."""
    return predict_many(weights, documents)[:, 0]


def lime_run(weights: AttentionWeights, ids: Ids, way: str, samples: int, seed: int) -> Array:
    """One run of LIME, (d,)."""
    if way == REPLACED:
        return lime_sample(game_of(weights, ids, False), samples, seed=seed).coef
    value = words_deleted(partial(output, weights), ids, weights.unk)
    return lime_by_masks(value, len(np.unique(ids)), samples, seed)


def errors(lime: Array, theory: Array) -> tuple[float, float]:
    """Norm of the difference, and the same relative to the norm of LIME's weights."""
    norm = float(np.linalg.norm(lime - theory))
    return norm, norm / float(np.linalg.norm(lime))


def inside_share(runs: Array, theory: Array) -> float:
    """Share of the words whose theory lies within the range of the runs (runs, d)."""
    return float(((runs.min(axis=0) <= theory) & (theory <= runs.max(axis=0))).mean())


def closest_to_figure_4(documents: list[Ids], negative: list[bool]) -> int:
    """The document that the model finds negative and whose sizes are nearest to those of Fig. 4."""
    distance = [
        abs(len(ids) - TOKENS) + abs(len(np.unique(ids)) - WORDS) + (0 if below else 1000)
        for ids, below in zip(documents, negative, strict=True)
    ]
    return int(np.argmin(distance))


def measure(
    weights: AttentionWeights,
    documents: list[Ids],
    way: str,
    samples: int,
    repeats: int,
    first: int,
) -> list[dict[str, Any]]:
    """One dictionary per review: for each form the errors of one run, of the mean of the runs, and
    from the limit.
    """
    out = []
    for n, ids in enumerate(documents, start=first):
        seeds = range(RUNS * n, RUNS * n + repeats)
        runs = np.stack([lime_run(weights, ids, way, samples, seed) for seed in seeds])
        game = game_of(weights, ids, way == DELETED)
        theory = {name: form(game) for name, form in forms(samples).items()}
        exact = theory[EXACT]
        line = theory[FIRST]
        one: dict[str, Any] = {
            name: {
                "run": errors(runs[0], values),
                "mean": errors(runs.mean(axis=0), values)[1],
                "inside": inside_share(runs, values),
                "limit": errors(exact, values)[1],
            }
            for name, values in theory.items()
        }
        one["slope"] = float(line @ exact / (line @ line))
        one["scaled"] = errors(exact, 1.5 * line)[1]
        one["held"] = float(alpha(weights, ids)[:, 1 : 1 + len(ids)].sum(axis=1).mean())
        out.append(one)
    return out


def measure_all(
    run: Run, weights: AttentionWeights, documents: list[Ids], way: str, samples: int, repeated: int
) -> list[dict[str, Any]]:
    """`measure` in parts; the first `repeated` reviews have five runs each."""
    found = []
    for start in range(0, len(documents), BLOCK):
        repeats = RUNS if start < repeated else 1
        some = documents[start : start + BLOCK]
        settings = {"way": way, "samples": samples, "repeats": repeats, "reviews": len(some)}
        name = f"{'words' if way == DELETED else 'positions'}-{start:04d}"
        found += run.part(
            name, settings, partial(measure, weights, some, way, samples, repeats, start)
        )
    return found


def figure_4(run: Run, way: str, found: list[dict[str, Any]]) -> None:
    """Rows of the reviews with five runs each."""
    several = (
        f"{len(found)} test reviews of any length (paper: one of {TOKENS} tokens, {WORDS} words)"
    )
    for name in forms(0):
        inside, relative = ([one[name][key] for one in found] for key in ("inside", "mean"))
        expected = (
            "; the true limit of independent runs is within their range with probability 0.94"
        )
        case = f"{way}: {name}: share of features within the range of {RUNS} runs"
        if name == PRINTED and way == DELETED:
            paper = "very good match"
        else:
            paper = None
        row = mean_row(
            FIGURE, case, inside, None, several + (expected if name == EXACT else ""), OF
        )
        run.rows.append(row._replace(paper=paper))
        case = f"{way}: {name}: relative norm-2 error of the mean of {RUNS} runs"
        run.rows.append(mean_row(FIGURE, case, relative, None, several, OF))


def figure_4_claims(
    run: Run, deleted: list[dict[str, Any]], replaced: list[dict[str, Any]]
) -> None:
    near = f"is within {100 * CLOSE:.0f} % of the mean of {RUNS} runs"
    why = "the factor 3/2 and the missing term of the theorem; see proofs_check/ERRATA.md"
    for text, name, found in (
        (f"the printed theorem {near}, {DELETED}", PRINTED, deleted),
        (f"the printed theorem {near}, {REPLACED}", PRINTED, replaced),
        (f"(ours) the exact limit {near}, {REPLACED}", EXACT, replaced),
    ):
        holds = [one[name]["mean"] <= CLOSE for one in found]
        run.rows.append(
            claim(FIGURE, text, holds, "one number per review instead of a picture", why, OF)
        )


def section_6(run: Run, way: str, found: list[dict[str, Any]], samples: int) -> None:
    """Rows of the errors of one run per review."""
    if way == DELETED:
        moved = "; in the package, words after a deleted one move up; in the theory, they do not"
    else:
        moved = ""
    for name in forms(0):
        norm, relative = np.array([one[name]["run"] for one in found]).T
        printed = name == PRINTED and way == DELETED
        case = f"{way}: {name}: norm-2 error"
        note = OURS + (f"; paper: ± {DEVIATION} is the standard deviation" if printed else "")
        row = mean_row(SECTION, case, norm, ERROR if printed else None, note, OF)
        deviation = Row(
            SECTION,
            f"{case}, standard deviation over reviews",
            float(norm.std(ddof=1)),
            n=len(found),
            of=OF,
        )
        # The standard error of a standard deviation, from the fourth moment.
        spread = norm - norm.mean()
        moment = float(
            np.sqrt(max((spread**4).mean() - (spread**2).mean() ** 2, 0) / norm.size)
            / (2 * norm.std())
        )
        run.rows += [
            row,
            deviation._replace(
                paper=DEVIATION if printed else None, ours_pm=moment, statistic="mean"
            ),
        ]
        if name == EXACT:
            rest = f"the remainder is the noise of {samples} samples{moved}"
        else:
            rest = "not in the paper"
        run.rows.append(
            mean_row(
                SECTION,
                f"{way}: {name}: error relative to the norm of LIME",
                relative,
                None,
                rest,
                OF,
            )
        )
    text = f"(ours) LIME is closer to the exact limit than to the printed theorem, {way}"
    holds = [one[EXACT]["run"][0] < one[PRINTED]["run"][0] for one in found]
    run.rows.append(claim(SECTION, text, holds, "not in the paper", of=OF))
    text = f"the printed theorem's error is at most {100 * CLOSE:.0f} % of LIME's norm, {way}"
    why = "the factor 3/2 and the missing term of the theorem; see proofs_check/ERRATA.md"
    run.rows.append(
        claim(SECTION, text, [one[PRINTED]["run"][1] <= CLOSE for one in found], OURS, why, OF)
    )


def without_noise(run: Run, found: list[dict[str, Any]]) -> None:
    """Rows of errors against the exact limit, which need no sampling."""
    note = "no sampling; not in the paper"
    for name in forms(0):
        if name != EXACT:
            case = f"{name} against the exact limit of words, relative norm-2 error"
            run.rows.append(
                mean_row(SECTION, case, [one[name]["limit"] for one in found], None, note, OF)
            )
    slope = [one["slope"] for one in found]
    case = "1.5 times the corrected first order against the exact limit, relative"
    run.rows += [
        mean_row(
            SECTION, "slope of the exact limit by the corrected first order", slope, None, note, OF
        ),
        mean_row(SECTION, case, [one["scaled"] for one in found], None, note, OF),
    ]
    why = (
        "the first order is the derivative at the whole review, for reviews that hold little of "
        f"the attention; here they hold {np.mean([one['held'] for one in found]):.0%}, LIME looks "
        f"at half-empty ones, where a word that is left weighs {np.mean(slope):.2f} times as much, "
        "and the printed factor 3/2, which should be 1, happens to be near that"
    )
    worse = [one[FIRST]["limit"] > one[PRINTED]["limit"] for one in found]
    text = (
        "(ours) the corrected first order is further from the exact limit than the printed theorem"
    )
    run.rows.append(claim(SECTION, text, worse, why, why, OF))


def against_the_package(
    run: Run, weights: AttentionWeights, documents: list[Ids], samples: int
) -> float:
    """The largest difference of a coefficient from the package's own, relative to the review's
    largest.
    """

    def compare() -> float:
        worst = 0.0
        for n, ids in enumerate(documents):
            own = lime_run(weights, ids, DELETED, samples, n)
            package = lime_package(partial(output, weights), ids, True, weights.unk, samples, n)
            worst = max(worst, float(np.abs(own - package).max() / np.abs(package).max()))
        return worst

    worst = float(run.part("package", {"reviews": len(documents), "samples": samples}, compare))
    case = "largest difference of our fast run from the lime package itself, relative"
    note = "same draws, same regression; the model reads ids instead of strings"
    run.rows.append(
        Row(SECTION, case, worst, None, note, n=len(documents), of=OF, statistic="largest")
    )
    return worst


def draw(
    run: Run,
    weights: AttentionWeights,
    ids: Ids,
    names: list[str],
    found: dict[str, Any],
    samples: int,
) -> None:
    """Left P1's Fig. 4 for a review like the paper's, right the relative errors of all reviews."""
    figure, (left, right) = run.figure(ncols=2, figsize=(12, 4), width_ratios=[3, 2])
    sampled = np.stack([lime_run(weights, ids, DELETED, samples, seed) for seed in range(RUNS)])
    game = game_of(weights, ids, True)
    theory = {name: form(game) for name, form in forms(samples).items()}
    order = np.argsort(-np.abs(theory[EXACT]))[:30]
    left.boxplot(sampled[:, order], positions=range(order.size), widths=0.6, showfliers=False)
    left.plot(theory[EXACT][order], "x", label="exact limit with [UNK]")
    left.plot(theory[PRINTED][order], "rv", markersize=4, label=PRINTED)
    left.axhline(0, color="0.7", linewidth=0.8)
    left.set_xticks(
        range(order.size), [names[j] for j in order], rotation=60, ha="right", fontsize=7
    )
    left.set(title=f"P1 Fig. 4: {RUNS} runs of lime (words deleted)", ylabel="LIME coefficient")
    left.legend(fontsize=8)
    relative = {
        f"{name}\n{way.split(' (')[0]}": [one[name]["run"][1] for one in some]
        for way, some in found.items()
        for name in forms(0)
    }
    right.boxplot(list(relative.values()), orientation="horizontal", showfliers=False)
    right.set_yticks(range(1, len(relative) + 1), list(relative), fontsize=6)
    right.set(xlabel="error relative to the norm of LIME", xlim=(0, None), title="test reviews")
    run.save(figure)


def main(argv: list[str] | None = None) -> int:
    run = Run("paper1_lime", __doc__ or "", argv, data=True)
    model = first_model(run)
    weights = model.weights
    vocabulary = model.vocabulary
    # The package's default is 5000 samples.
    if run.quick:
        reviews = 30
        replaced = 30
        repeated = 10
        samples = 1000
    else:
        reviews = 1000
        replaced = 1000
        repeated = 100
        samples = 5000
    texts = load_imdb(run.imdb, "test").texts
    order = np.random.default_rng(0).permutation(len(texts))
    documents = [vocabulary.encode(texts[i])[: int(weights.room)] for i in order[:reviews]]
    run.say("reviews read")
    worst = against_the_package(run, weights, documents[: 2 if run.quick else 10], samples)
    found = {
        DELETED: measure_all(
            run, weights, documents[: run.wanted(reviews)], DELETED, samples, repeated
        ),
        REPLACED: measure_all(run, weights, documents[:replaced], REPLACED, samples, repeated),
    }
    for way, some in found.items():
        figure_4(run, way, some[:repeated])
        section_6(run, way, some, samples)
    figure_4_claims(run, found[DELETED][:repeated], found[REPLACED][:repeated])
    without_noise(run, found[DELETED])
    ids = documents[closest_to_figure_4(documents, (output(weights, documents) < 0).tolist())]
    draw(run, weights, ids, vocabulary.decode(dict.fromkeys(ids.tolist())), found, samples)
    settings = {
        "reviews": len(found[DELETED]),
        "reviews with [UNK]": replaced,
        "reviews with five runs": repeated,
    }
    bars = [Bar("fast run of LIME against the package, relative difference", worst, "<=", 1e-10)]
    return run.finish({**settings, "samples": samples}, bars=bars)


if __name__ == "__main__":
    sys.exit(main())
