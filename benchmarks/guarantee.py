"""Does |error| <= tol * max|f|, or ToleranceError, hold? An attack with random and adversarial
games.

Every game goes through one of the functions at a random tolerance, and the answer is compared with
an oracle in higher precision. Where the function refuses, the tolerance that its error names is
tried too, and must work. Counted are answers outside of the guarantee, crashes (anything but
ToleranceError), NaN, and named tolerances that do not work: all must be zero. There are three
attacks and a search:

- small games (`guarantee_games.py`), up to eight players of any kind, against an enumeration of all
  coalitions (`guarantee_oracle.py`);
- `--links`, the same with one head and a link;
- `--types`, games of 10 to 5,000 players of few types (`guarantee_type_games.py`), plain, through a
  link or a hidden layer, against an enumeration of how many players of each type are present
  (`guarantee_types.py`);
- `--search`, which changes games of few types step by step to make their errors larger
  (`guarantee_search.py`).

Run with `python -m benchmarks.guarantee [--types | --links | --search] [--games 100000] [--seed 0]
[--processes 2] [--only "lime, odd settings"]`. Numbers go to `guarantee.json`,
`guarantee_links.json`, `guarantee_types.json` and `guarantee_search.json`. With `--search --only
lime --seconds 300` the search of one function ends at the first result that is outside, and nothing
is written. With `--search --keep FILE` an interrupted search goes on.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form import ToleranceError
from attn_closed_form._errors import CostError
from attn_closed_form._types import Array
from attn_closed_form.game.links import Link

from . import guarantee_search, guarantee_types
from .guarantee_functions import SHARES, answer, random_settings
from .guarantee_games import Trial, random_linked_trial, random_trial
from .guarantee_oracle import (
    ball_values,
    extended_values,
    largest_ratio,
    linked_ball_values,
    linked_extended_values,
    screen,
)
from .guarantee_type_games import SHARES as SHARES_OF_TYPES
from .guarantee_type_games import random_recipe
from .harness import Bar, report

Question = tuple[str, Trial, tuple[Any, ...]]
# Verdicts that are no defects.
GOOD = ("within", "refused", "refused, no tol named", "refused, too long")


class Attack(NamedTuple):
    """A way to draw questions, and an oracle for their answers."""

    results: str  # name of the stored results
    shares: Mapping[str, int]  # functions, in percent
    question: Callable[[np.random.Generator, str | None], Question]
    # An upper bound of error / (tol max|f|) that decides whether it is at most 1.
    ratio: Callable[[str, Trial, Array, tuple[Any, ...]], float]


# --- the oracles ----------------------------------------------------------------------------------


def ratio_by_coalitions(what: str, trial: Trial, ours: Array, settings: tuple[Any, ...]) -> float:
    """Return the ratio from all 2^d coalitions, or 0 if it is safely below a quarter."""
    game = trial.game
    kind = what.split(",")[0]
    if isinstance(trial.link, Link):
        link = (trial.link.name, trial.link.scale)
        values, doubt = linked_extended_values(game, *link)
    else:
        values, doubt = extended_values(game)
    largest = float(np.abs(values).max()) - doubt
    if screen(kind, values, doubt, ours, 0.25 * trial.tol * largest, settings):
        return 0.0
    if isinstance(trial.link, Link):
        balls = linked_ball_values(game, *link)
    else:
        balls = ball_values(game)
    return largest_ratio(kind, balls, ours, trial.tol, settings)


def ratio_by_types(what: str, trial: Trial, ours: Array, settings: tuple[Any, ...]) -> float:
    """Return the ratio from the counts of each type of players."""
    return guarantee_types.largest_ratio(
        what, trial.game, trial.link_of_oracle, ours, trial.tol, settings
    )


# --- questions ------------------------------------------------------------------------------------


def _small_question(rng: np.random.Generator, only: str | None, links: bool) -> Question:
    what = str(rng.choice(list(SHARES), p=np.array(list(SHARES.values())) / 100))
    what = only or what
    draw = random_linked_trial if links else random_trial
    trial = draw(rng, 6 if what.startswith("lime") else 8)
    return what, trial, random_settings(rng, what, trial.game.s.shape[1])


def _plain_question(rng: np.random.Generator, only: str | None) -> Question:
    return _small_question(rng, only, False)


def _linked_question(rng: np.random.Generator, only: str | None) -> Question:
    return _small_question(rng, only, True)


def _typed_question(rng: np.random.Generator, only: str | None) -> Question:
    return random_recipe(rng, only).question()


ATTACKS = {
    "games": Attack("guarantee", SHARES, _plain_question, ratio_by_coalitions),
    "links": Attack("guarantee_links", SHARES, _linked_question, ratio_by_coalitions),
    "types": Attack("guarantee_types", SHARES_OF_TYPES, _typed_question, ratio_by_types),
}


def random_question(seed: int, k: int, only: str | None = None, attack: str = "games") -> Question:
    """Game k of a part of the attack: the function, the game with its tolerance, and the
    settings.
    """
    return ATTACKS[attack].question(np.random.default_rng([seed, k]), only)


# --- verdicts -------------------------------------------------------------------------------------


def judge(
    what: str, trial: Trial, settings: tuple[Any, ...], attack: str = "games"
) -> tuple[str, float]:
    """Verdict (GOOD, outside, not a number, crash: ..., or named tol: ...) and the ratio if it is
    known.
    """
    verdict, ratio = _try(what, trial, settings, attack)
    if verdict != "refused":
        return verdict, ratio
    try:
        answer(what, trial.asked, trial.tol, settings)
    except ToleranceError as error:
        named = re.search(r"smallest possible tol is (\S+)", str(error))
    if named is None:
        return "refused, no tol named", ratio
    verdict, ratio = _try(what, trial._replace(tol=float(named.group(1))), settings, attack)
    if verdict in ("within", "refused, too long"):
        return "refused", ratio
    return f"named tol: {verdict}", ratio


def _try(what: str, trial: Trial, settings: tuple[Any, ...], attack: str) -> tuple[str, float]:
    try:
        ours = answer(what, trial.asked, trial.tol, settings)
    except ToleranceError:
        return "refused", 0.0
    except CostError:
        return "refused, too long", 0.0
    except Exception as error:  # whatever it is, it is a defect and is counted
        return f"crash: {type(error).__name__} {error}", 0.0
    if not np.isfinite(ours).all():
        return "not a number", 0.0
    ratio = ATTACKS[attack].ratio(what, trial, ours, settings)
    return ("within" if ratio <= 1 else "outside"), ratio


class Finding(NamedTuple):
    """The verdict about one game."""

    what: str
    family: str
    verdict: str
    ratio: float
    part: int
    number: int


def run_part(
    seed: int, games: int, only: str | None = None, attack: str = "games"
) -> list[Finding]:
    """Judge `games` random games."""
    warnings.simplefilter("error")
    findings = []
    for k in range(games):
        what, trial, settings = random_question(seed, k, only, attack)
        verdict, ratio = judge(what, trial, settings, attack)
        findings.append(Finding(what, trial.family, verdict, ratio, seed, k))
    return findings


# --- a run ----------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Run an attack or the search."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guarantee", description=__doc__)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--links", action="store_true", help="small one-head games through a link")
    kind.add_argument("--types", action="store_true", help="long games of few types of players")
    kind.add_argument("--search", action="store_true", help="search for the largest errors")
    parser.add_argument("--games", type=int, help="100,000; 20,000 of few types")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", help="attack one function alone, and write no results")
    parser.add_argument(
        "--seconds",
        type=float,
        help="with --search: stop after so many seconds; with --only, too, stop at the first result "
        "that is outside, or after so many processor seconds",
    )
    parser.add_argument(
        "--keep", type=Path, help="with --search: a file of finished climbs, which goes on"
    )
    args = parser.parse_args(argv)
    if args.keep is not None and not args.search:
        parser.error("--keep: expected --search")
    if args.seconds is not None and not args.search:
        parser.error("--seconds: expected --search")
    if args.seconds is not None and args.only is not None:
        return _first_outside(args.only, args.seed, args.seconds)
    if args.search:
        games = args.games or 20_000
        seconds = math.inf if args.seconds is None else args.seconds
        return guarantee_search.run(games, args.seed, args.processes, args.only, args.keep, seconds)
    attack = "types" if args.types else "links" if args.links else "games"
    shares = ATTACKS[attack].shares
    if args.only is not None and args.only not in shares:
        parser.error(f"--only: expected one of {', '.join(shares)}, got {args.only!r}")
    games = args.games or (20_000 if args.types else 100_000)
    findings = run(games, args.seed, args.processes, args.only, attack)
    return 0 if summarize(findings, args.seed, games, args.only, attack) else 1


def _first_outside(what: str, seed: int, seconds: float) -> int:
    """Print the first result outside of its bound, and return 1 if there is one."""
    start = time.process_time()
    found = guarantee_search.first_outside(what, seed, seconds)
    used = time.process_time() - start
    if found is None:
        print(f"{what}: nothing outside in {used:.0f} processor seconds")
        return 0
    print(f"{what}: ratio {found.ratio:.3g} after {used:.0f} processor seconds")
    print(guarantee_search.call_of(found.recipe))
    return 1


def run(games: int, seed: int, processes: int, only: str | None, attack: str) -> list[Finding]:
    """Judge this many games in parallel, in parts of about a thousand (a hundred of few types)."""
    start = time.perf_counter()
    parts = max(processes, games // (100 if attack == "types" else 1000))
    sizes = [games // parts + (i < games % parts) for i in range(parts)]
    seeds = range(seed, seed + parts)
    findings: list[Finding] = []
    with ProcessPoolExecutor(processes) as pool:
        for part in pool.map(run_part, seeds, sizes, [only] * parts, [attack] * parts):
            findings += part
            for finding in part:
                if not _is_good(finding):
                    print(f"  {_shown(finding)}", flush=True)
            seconds = time.perf_counter() - start
            print(f"  {len(findings):,} of {games:,} games, {seconds:.0f} s", file=sys.stderr)
    return findings


def _is_good(finding: Finding) -> bool:
    return finding.verdict in GOOD


def _shown(finding: Finding) -> str:
    game = f"game [{finding.part}, {finding.number}]"
    return f"{finding.what}, {finding.family}, {game}: {finding.verdict}, ratio {finding.ratio:.3g}"


def summarize(
    findings: list[Finding], seed: int, games: int, only: str | None = None, attack: str = "games"
) -> bool:
    """Print and keep the table: one row per function, then every defect."""
    rows: list[dict[str, Any]] = []
    for what in [only] if only else ATTACKS[attack].shares:
        of_function = [finding for finding in findings if finding.what == what]
        verdicts = Counter(finding.verdict.split(":")[0] for finding in of_function)
        ratios = [finding.ratio for finding in of_function if finding.verdict == "within"]
        refused = [
            verdict for verdict in verdicts if "refused" in verdict or verdict == "named tol"
        ]
        rows.append(
            {
                "function": what,
                "games": len(of_function),
                "outside": verdicts["outside"],
                "crashes": verdicts["crash"],
                "NaN": verdicts["not a number"],
                "refused": sum(verdicts[verdict] for verdict in refused),
                "named tol fails": verdicts["named tol"],
                "largest ratio": max(ratios, default=0.0),
            }
        )
    bad = [finding for finding in findings if not _is_good(finding)]
    for finding in bad[:40]:
        print(f"  {_shown(finding)}")
    total = {
        name: float(sum(row[name] for row in rows))
        for name in ("outside", "crashes", "NaN", "named tol fails")
    }
    kind = "games of few types" if attack == "types" else "games"
    bars = [Bar(f"{name} in {games:,} {kind}", value, "<=", 0.0) for name, value in total.items()]
    if only:
        print(rows[0])
        return not any(total.values())
    return report(
        ATTACKS[attack].results,
        rows,
        seed=seed,
        settings={"games": games},
        bars=bars,
    )


if __name__ == "__main__":
    sys.exit(main())
