"""Does |error| <= tol * max|f|, or ToleranceError, hold? An attack with random and adversarial games.

Every game of `guarantee_games.py` (up to eight players) goes through one of the functions at a tolerance between 1e-13
and 1e-1, and the answer is compared with an enumeration in higher precision (`guarantee_oracle.py`). Where the
function refuses, the tolerance that its error names is tried too, and must work. Counted are answers outside of the
guarantee, crashes (anything but ToleranceError), NaN, and named tolerances that do not work: all must be zero.

Run with `python -m benchmarks.guarantee [--games 100000] [--seed 0] [--processes 2] [--only "lime, odd settings"]
[--links]`; with --links the games have one head and go through a link, and `guarantee_links.json` has the numbers.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from attn_closed_form import (
    ToleranceError,
)

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
from .harness import Bar, report


def judge(what: str, trial: Trial, settings: tuple[Any, ...]) -> tuple[str, float]:
    """Verdict (within, refused, outside, not a number, crash: ..., named tol: ...) and the ratio if it is known."""
    verdict, ratio = _try(what, trial, settings)
    if verdict != "refused":
        return verdict, ratio
    try:
        answer(what, trial.asked, trial.tol, settings)
    except ToleranceError as error:
        named = re.search(r"smallest possible tol is (\S+)", str(error))
    if named is None:
        return "refused, no tol named", ratio
    verdict, ratio = _try(what, trial._replace(tol=float(named.group(1))), settings)
    return ("refused" if verdict == "within" else f"named tol: {verdict}"), ratio


def _try(what: str, trial: Trial, settings: tuple[Any, ...]) -> tuple[str, float]:
    game = trial.game
    kind = what.split(",")[0]
    try:
        ours = answer(what, trial.asked, trial.tol, settings)
    except ToleranceError:
        return "refused", 0.0
    except Exception as error:  # whatever it is, it is a defect and is counted
        return f"crash: {type(error).__name__} {error}", 0.0
    if not np.isfinite(ours).all():
        return "not a number", 0.0
    link = () if trial.link is None else (trial.link.name, trial.link.scale)
    values, doubt = linked_extended_values(game, *link) if link else extended_values(game)
    largest = float(np.abs(values).max()) - doubt
    if screen(kind, values, doubt, ours, 0.25 * trial.tol * largest, settings):
        return "within", 0.0
    balls = linked_ball_values(game, *link) if link else ball_values(game)
    ratio = largest_ratio(kind, balls, ours, trial.tol, settings)
    return ("within" if ratio <= 1 else "outside"), ratio


def random_question(
    seed: int, k: int, only: str | None = None, links: bool = False
) -> tuple[str, Trial, tuple[Any, ...]]:
    """Game k of a part of the attack: the function, the game with its tolerance, and the settings."""
    rng = np.random.default_rng([seed, k])
    what = str(rng.choice(list(SHARES), p=np.array(list(SHARES.values())) / 100))
    what = only or what
    trial = (random_linked_trial if links else random_trial)(
        rng, 6 if what.startswith("lime") else 8
    )
    return what, trial, random_settings(rng, what, trial.game.d)


def run_part(
    seed: int, games: int, only: str | None = None, links: bool = False
) -> list[tuple[str, str, str, float, int]]:
    """Judge `games` random games: function, family, verdict, ratio, and the number of the game."""
    warnings.simplefilter("error")
    found = []
    for k in range(games):
        what, trial, settings = random_question(seed, k, only, links)
        found.append((what, trial.family, *judge(what, trial, settings), k))
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guarantee", description=__doc__)
    parser.add_argument("--games", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--only", choices=SHARES, help="attack one function alone, and write no results"
    )
    parser.add_argument(
        "--links",
        action="store_true",
        help="one-head games through a link: probabilities and losses",
    )
    args = parser.parse_args(argv)
    start = time.perf_counter()
    parts = max(args.processes, args.games // 1000)
    sizes = [args.games // parts + (i < args.games % parts) for i in range(parts)]
    with ProcessPoolExecutor(args.processes) as pool:
        found = []
        tasks = pool.map(
            run_part,
            range(args.seed, args.seed + parts),
            sizes,
            [args.only] * parts,
            [args.links] * parts,
        )
        for i, part in enumerate(tasks):
            found += [(*one, args.seed + i) for one in part]
            print(
                f"  {len(found):,} of {args.games:,} games, {time.perf_counter() - start:.0f} s",
                file=sys.stderr,
            )
    return 0 if summarise(found, args.seed, args.games, args.only, args.links) else 1


def summarise(
    found: list[tuple[str, str, str, float, int, int]],
    seed: int,
    games: int,
    only: str | None = None,
    links: bool = False,
) -> bool:
    """Print and keep the table: one row per function, then every defect."""
    rows: list[dict[str, Any]] = []
    bad: list[tuple[str, str, str, float, int, int]] = []
    for what in [only] if only else SHARES:
        own = [one for one in found if one[0] == what]
        verdicts = Counter(one[2].split(":")[0] for one in own)
        rows.append(
            {
                "function": what,
                "games": len(own),
                "outside": verdicts["outside"],
                "crashes": verdicts["crash"],
                "NaN": verdicts["not a number"],
                "refused": verdicts["refused"]
                + verdicts["refused, no tol named"]
                + verdicts["named tol"],
                "named tol fails": verdicts["named tol"],
                "largest ratio": max([one[3] for one in own if one[2] == "within"], default=0.0),
            }
        )
        good = ("within", "refused", "refused, no tol named")
        bad += [one for one in own if one[2] not in good]
    for what, family, verdict, ratio, k, part in bad[:40]:
        print(f"  {what}, {family}, game [{part}, {k}]: {verdict}, ratio {ratio:.3g}")
    total = {
        name: float(sum(row[name] for row in rows))
        for name in ("outside", "crashes", "NaN", "named tol fails")
    }
    bars = [Bar(f"{name} in {games:,} games", value, "<=", 0.0) for name, value in total.items()]
    if only:
        print(rows[0])
        return not any(total.values())
    return report(
        "guarantee_links" if links else "guarantee",
        rows,
        seed=seed,
        settings={"games": games},
        bars=bars,
    )


if __name__ == "__main__":
    sys.exit(main())
