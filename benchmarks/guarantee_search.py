"""The largest error over its bound: a search over games of few types, for every function of the
library.

Random games use up little of what `tol` allows. A climb starts from the best of some random recipes
(`guarantee_type_games.py`) and changes it step by step: players from type to type, scores, values,
the background, the empty coalition, the tolerance and the settings of the function. A change is
kept if the ratio of the error to tol max|f| does not fall. If a tolerance is refused, the climb
goes on with the smallest possible one, where every part of the error budget is at its smallest.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form import ToleranceError
from attn_closed_form._errors import CostError
from attn_closed_form._types import Array

from .guarantee_functions import LIME, answer
from .guarantee_type_games import (
    LONGEST,
    LONGEST_OTHERS,
    MOST_COUNTS,
    MOST_COUNTS_OF_LAYERS,
    SHARES,
    WIDTHS,
    Recipe,
    random_options,
    random_recipe,
)
from .guarantee_types import ACTIVATIONS, decided_ratio, estimated_ratio, question_of
from .harness import Bar, report

# Random recipes of which the best one is climbed from, and the number of changes of a climb.
STARTS = 12
STEPS = 60
# A search for one result outside climbs this many times as far.
DEEP = 5
# The estimate in long double is used if its own error is below this part of it.
RELIABLE = 0.1
# Share of the starts that ask for less than any tolerance that is possible, and so get the smallest
# possible one, where every ulp of the error budget counts.
AT_THE_SMALLEST_TOL = 0.4
# Tolerances that the search may ask for.
LEAST_TOL = 1e-17
LARGEST_TOL = 1e-2
# Largest number of players of a searched game; a longer one would cost as much as ten others.
MOST_PLAYERS = 400


class Climb(NamedTuple):
    """The end of a climb."""

    recipe: Recipe
    ratio: float
    evaluations: int
    defects: tuple[str, ...]  # crashes, answers that are not numbers, tolerances that do not work


# --- the ratio of one recipe ----------------------------------------------------------------------


class Score(NamedTuple):
    """The ratio of a recipe, -1 if its tolerance is refused and no other works."""

    recipe: Recipe  # with the tolerance that was used
    ratio: float
    defect: str | None = None


def score_of(recipe: Recipe, again: bool = True) -> Score:
    """Compute the ratio of a recipe; if its tolerance is refused, that of the smallest possible
    one.
    """
    what, trial, settings = recipe.question()
    try:
        ours = answer(what, trial.asked, trial.tol, settings)
    except ToleranceError as error:
        named = re.search(r"smallest possible tol is (\S+)", str(error))
        if named is None or not math.isfinite(float(named.group(1))):
            return Score(recipe, -1.0)
        if not again:
            return Score(recipe, -1.0, "the named tolerance does not work")
        return score_of(recipe._replace(tol=float(named.group(1))), again=False)
    except CostError:
        return Score(recipe, -1.0)
    except Exception as error:  # whatever it is, it is a defect and is reported
        return Score(recipe, -1.0, f"{type(error).__name__}: {error}")
    if not np.isfinite(ours).all():
        return Score(recipe, -1.0, "not a number")
    link = trial.link_of_oracle
    question = question_of(what, trial.game, settings)
    estimate = estimated_ratio(question, trial.game, link, ours, trial.tol)
    if estimate.doubt <= RELIABLE * estimate.ratio and estimate.ratio < 0.5:
        return Score(recipe, estimate.ratio)
    if estimate.ratio + estimate.doubt < RELIABLE**2:
        return Score(recipe, estimate.ratio)
    return Score(recipe, decided_ratio(question, trial.game, link, ours, trial.tol))


# --- changes --------------------------------------------------------------------------------------


def changed(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    """Return the recipe after one or two random changes."""
    changes: list[Callable[[np.random.Generator, Recipe], Recipe]] = [
        _other_counts,
        _other_counts,
        _other_scores,
        _other_values,
        _other_state,
        _other_constants,
    ]
    if recipe.link is not None:
        changes.append(_other_scale)
    if recipe.layer is not None:
        changes += [_other_layer, _other_layer, _other_layer]
    if recipe.what != "lime":
        changes += [_other_tol, _other_options]
    for _ in range(int(rng.integers(1, 3))):
        recipe = changes[rng.integers(len(changes))](rng, recipe)
    return recipe


def _other_counts(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    """Add or remove players of a type, or move them to another one."""
    counts = list(recipe.counts)
    t = int(np.argmax(counts)) if rng.random() < 0.5 else int(rng.integers(len(counts)))
    step = int(rng.choice([-8, -3, -2, -1, 1, 2, 3, 8]))
    counts[t] = max(1, counts[t] + step)
    if rng.random() < 0.5:
        u = int(rng.integers(len(counts)))
        counts[u] = max(1, counts[u] - step)
    longest = min(MOST_PLAYERS, LONGEST.get(recipe.what, LONGEST_OTHERS)[recipe.link is not None])
    most_counts = MOST_COUNTS if recipe.layer is None else MOST_COUNTS_OF_LAYERS
    too_many = math.prod(n + 1 for n in counts) > most_counts
    if too_many or not 3 <= sum(counts) <= max(longest, recipe.d):
        return recipe
    return recipe._replace(counts=tuple(counts))


def _moved(rng: np.random.Generator, x: Array) -> Array:
    """Change one number by a step of random size, or set it to its neighbor or to a round
    number.
    """
    x = x.copy()
    h = int(rng.integers(x.shape[0]))
    t = int(rng.integers(x.shape[1]))
    kind = int(rng.integers(6))
    if not np.isfinite(x[h, t]):
        return x
    if kind == 0:
        x[h, t] = x[h, rng.integers(x.shape[1])]
    elif kind == 1:
        x[h, t] = round(float(x[h, t]), 1)
    elif kind == 2:
        x[h, t] *= float(np.exp(rng.normal() / 2))
    else:
        x[h, t] += float(rng.normal() * rng.choice([0.01, 0.1, 1.0]))
    return np.where(np.isfinite(x), x, -np.inf)


def _other_scores(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    if rng.random() < 0.3:
        return recipe._replace(s_absent=_moved(rng, recipe.s_absent))
    return recipe._replace(s=_moved(rng, recipe.s))


def _other_values(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    if rng.random() < 0.3:
        return recipe._replace(v_absent=_moved(rng, recipe.v_absent))
    return recipe._replace(v=_moved(rng, recipe.v))


def _other_state(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    """Add or remove a background, or delete players that were replaced."""
    if rng.random() < 0.3:
        return recipe._replace(s_absent=np.full_like(recipe.s_absent, -np.inf))
    if np.isneginf(recipe.s_background).all():
        return recipe._replace(s_background=np.asarray(rng.normal(size=recipe.s.shape[0])))
    if rng.random() < 0.5:
        return recipe._replace(s_background=np.full_like(recipe.s_background, -np.inf))
    return recipe._replace(
        s_background=recipe.s_background + rng.normal(),
        v_background=recipe.v_background + rng.normal(),
    )


def _other_constants(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    if rng.random() < 0.5:
        return recipe._replace(bias=float(rng.choice([0.0, recipe.bias + rng.normal()])))
    empty = (0.0, 1.0, 6.0, 100.0, recipe.empty_value + rng.normal(), float(recipe.v.mean()))
    return recipe._replace(empty_value=float(rng.choice(empty)))


def _other_scale(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    return recipe._replace(scale=recipe.scale * float(np.exp(rng.normal() / 3)))


def _other_layer(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    """Change the activation, or one number of a hidden layer."""
    layer = recipe.layer
    assert layer is not None
    which = int(rng.integers(5))
    if which == 0:
        names = list(ACTIVATIONS)
        layer = layer._replace(activation=names[rng.integers(len(names))])
    elif which == 1:
        weight = _moved(rng, np.array(layer.weight))
        layer = layer._replace(weight=tuple(map(tuple, weight.tolist())))
    elif which == 2:
        bias = _moved(rng, np.array([layer.bias]))
        layer = layer._replace(bias=tuple(bias[0].tolist()))
    elif which == 3:
        output = _moved(rng, np.array([layer.output]))
        layer = layer._replace(output=tuple(output[0].tolist()))
    else:
        constants = (0.0, layer.output_bias + float(rng.normal()))
        layer = layer._replace(output_bias=float(rng.choice(constants)))
    return recipe._replace(layer=layer)


def _other_tol(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    tol = recipe.tol * 10 ** float(rng.normal() * 0.7)
    return recipe._replace(tol=min(max(tol, LEAST_TOL), LARGEST_TOL))


def _other_options(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    """Change the settings of the function."""
    T = len(recipe.counts)
    if recipe.what.startswith("lime"):
        return recipe._replace(options=_other_lime_options(rng, recipe.options, T))
    if recipe.what == "beta shapley" and rng.random() < 0.7:
        near = [max(1, int(x) + int(rng.integers(-2, 3))) for x in recipe.options]
        return recipe._replace(options=tuple(near))
    return recipe._replace(options=random_options(rng, recipe.what, T))


def _other_lime_options(
    rng: np.random.Generator, options: tuple[Any, ...], T: int
) -> tuple[Any, ...]:
    """Change the width, the ridge, the number of samples or the types in the surrogate model."""
    width, ridge, number, chosen = options
    which = int(rng.integers(5))
    if which == 0:
        width = WIDTHS[rng.integers(len(WIDTHS))]
    elif which == 1:
        width = float(width * np.exp(rng.normal() / 3))
    elif which == 2:
        ridge = LIME[1][rng.integers(len(LIME[1]))]
    elif which == 3:
        number = LIME[2][rng.integers(len(LIME[2]))]
    else:
        chosen = tuple(rng.choice(T, rng.integers(0, T), replace=False).tolist())
    return width, ridge, number, chosen


# --- climbs ---------------------------------------------------------------------------------------


def climb(rng: np.random.Generator, what: str, evaluations: int) -> Climb:
    """Climb from the best of STARTS random recipes, in at most this many evaluations."""
    defects: list[str] = []

    def scored(recipe: Recipe) -> Score:
        score = score_of(recipe)
        if score.defect is not None:
            defects.append(f"{score.defect}: {call_of(score.recipe)}")
        return score

    def start() -> Score:
        recipe = random_recipe(rng, what, MOST_PLAYERS)
        if rng.random() < AT_THE_SMALLEST_TOL:
            recipe = recipe._replace(tol=LEAST_TOL)
        return scored(recipe)

    starts = min(STARTS, evaluations)
    best = max((start() for _ in range(starts)), key=lambda score: score.ratio)
    for _ in range(evaluations - starts):
        score = scored(changed(rng, best.recipe))
        if score.ratio >= best.ratio:
            best = score
    return Climb(best.recipe, best.ratio, evaluations, tuple(defects))


def climb_part(seed: int, k: int, what: str, evaluations: int) -> Climb:
    """Climb number k of a run, in a process of its own."""
    warnings.simplefilter("error")
    return climb(np.random.default_rng([seed, k]), what, evaluations)


def first_outside(what: str, seed: int, seconds: float) -> Climb | None:
    """Climb until a result is outside of its bound, or for this much processor time.

    Returns
    -------
    Climb, the first one whose ratio is above 1, or None
    """
    end = time.process_time() + seconds
    k = 0
    while time.process_time() < end:
        found = climb_part(seed, k, what, STARTS + DEEP * STEPS)
        if found.ratio > 1:
            return found
        k += 1
    return None


def call_of(recipe: Recipe) -> str:
    """Return the call that asks a recipe's question, as text that Python understands.

    >>> recipe = random_recipe(np.random.default_rng(0), "shapley")
    >>> call_of(recipe).startswith("Recipe(")
    True
    """
    fields = []
    for name, value in recipe._asdict().items():
        shown = f"array({value.tolist()})" if isinstance(value, np.ndarray) else repr(value)
        fields.append(f"{name}={shown}")
    return f"Recipe({', '.join(fields)})"


# --- a run ----------------------------------------------------------------------------------------


def run(
    games: int,
    seed: int,
    processes: int,
    only: str | None = None,
    keep: Path | None = None,
    seconds: float = math.inf,
) -> int:
    """Climb until this many games were evaluated, shared out like the random ones, or for so many
    seconds; report the largest ratios.

    Finished climbs are added to the file `keep`, one line of JSON each, and those that are in it
    are not repeated, so an interrupted search goes on.
    """
    shares = SHARES if only is None else {only: 100}
    tasks = []
    for what, share in shares.items():
        tasks += [what] * max(1, round(games * share / 100 / (STARTS + STEPS)))
    # Functions take turns, so that a run that is stopped early has seen all of them.
    tasks = np.random.default_rng(seed).permutation(tasks).tolist()
    n = len(tasks)
    climbs = kept_climbs(keep, tasks)
    known = {row["climb"] for row in climbs}
    missing = [k for k in range(n) if k not in known]
    start = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        asked = [(k, pool.submit(climb_part, seed, k, tasks[k], STARTS + STEPS)) for k in missing]
        for k, future in asked:
            taken = time.perf_counter() - start
            if taken > seconds:
                pool.shutdown(cancel_futures=True)
                break
            climb = future.result()
            row = climb_row(k, tasks[k], climb)
            climbs.append(row)
            if keep is not None:
                with keep.open("a", encoding="utf-8") as file:
                    print(json.dumps(row), file=file)
            if climb.ratio > 1 or climb.defects:
                print(f"  {tasks[k]}, climb {k}: ratio {climb.ratio:.3g}", flush=True)
                print("   ", row["game"], *climb.defects, sep="\n    ", flush=True)
            if len(climbs) % 10 == 0:
                print(f"  {len(climbs)} of {n} climbs, {taken:.0f} s", file=sys.stderr)
    by_function = {what: [row for row in climbs if row["function"] == what] for what in shares}
    rows = [climbs_summary(of_function) for of_function in by_function.values() if of_function]
    if only:
        print(rows[0])
        return int(rows[0]["largest ratio"] > 1 or rows[0]["defects"] > 0)
    bars = [
        Bar(f"largest ratio of {row['function']}", row["largest ratio"], "<=", 1.0) for row in rows
    ]
    bars.append(Bar("defects of the search", float(sum(row["defects"] for row in rows)), "<=", 0.0))
    settings = {"games": sum(row["games"] for row in rows)}
    return 0 if report("guarantee_search", rows, seed=seed, settings=settings, bars=bars) else 1


def climb_row(k: int, what: str, climb: Climb) -> dict[str, Any]:
    """Return a climb as it is kept."""
    return {
        "climb": k,
        "function": what,
        "games": climb.evaluations,
        "ratio": climb.ratio,
        "family": climb.recipe.family,
        "game": call_of(climb.recipe),
        "defects": list(climb.defects),
    }


def kept_climbs(keep: Path | None, tasks: list[str]) -> list[dict[str, Any]]:
    """Return the climbs in a file, which must be those of this search."""
    if keep is None or not keep.exists():
        return []
    rows = [json.loads(line) for line in keep.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        k = row["climb"]
        if k >= len(tasks) or tasks[k] != row["function"]:
            raise ValueError(f"{keep}: expected climbs of this search, got those of another one")
    return rows


def climbs_summary(climbs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the stored row of a function: the largest ratio of its climbs, and their sums."""
    best = max(climbs, key=lambda row: row["ratio"])
    return {
        "function": best["function"],
        "games": sum(row["games"] for row in climbs),
        "largest ratio": best["ratio"],
        "defects": sum(len(row["defects"]) for row in climbs),
        "family": best["family"],
        "game": best["game"],
    }
