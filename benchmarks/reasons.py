"""Reasons that are proved: how often minimal, how large, how fast; and Anchors on the same texts.

    python -m benchmarks.reasons --data PATH [--reviews 500] [--quick]

PATH holds `aclImdb_v1.tar.gz` or is the unpacked folder. Its test reviews are taken in a seeded
order, words as players, absent words as [UNK]. Bounds are also timed on games of 10,000 players.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import (
    PooledGame,
    TextClassifier,
    bounds,
    contrastive_reason,
    sufficient_reason,
)
from attn_closed_form.attention import pooled_game
from attn_closed_form.reasons import ContrastiveReason, SufficientReason
from jax_model.training.imdb import load_imdb

from . import anchors
from .harness import RESULTS, Bar, best_of, report
from .models import needed_p1_model

SEED = 0
PLAYERS = 10_000
LONG = 240


def review_texts(data: Path) -> list[str]:
    """The test reviews in a seeded order."""
    archive = data / "aclImdb_v1.tar.gz"
    texts = load_imdb(archive if archive.exists() else data, "test").texts
    return [texts[i] for i in np.random.default_rng(SEED).permutation(len(texts))]


def short_reviews(model: TextClassifier, texts: list[str], count: int = 4) -> list[str]:
    """Reviews of 40 to 60 tokens, which Anchors explain within a minute."""
    return [text for text in texts if 40 <= len(model.vocabulary.encode(text)) <= 60][:count]


def game_of(model: TextClassifier, text: str, players: str, longest: int) -> PooledGame:
    return pooled_game(model.weights, model.vocabulary.encode(text)[:longest], players=players)


def reason_rows(games: list[PooledGame]) -> list[dict[str, Any]]:
    """Share proved minimal, sizes and seconds of both kinds of reason."""
    rows = []
    for name, find in (
        ("sufficient reason", sufficient_reason),
        ("contrastive reason", contrastive_reason),
    ):
        found = []
        seconds = []
        for game in games:
            start = time.perf_counter()
            found.append(find(game))
            seconds.append(time.perf_counter() - start)
        rows.append(
            {
                "case": (
                    f"{len(games)} test reviews, {np.mean([game.d for game in games]):.0f} words "
                    "on average"
                ),
                "method": name,
                "proved minimal": float(np.mean([reason.minimal for reason in found])),
                "largest gap to the lower bound": max(
                    r.size - r.lower_bound for r in found if r.players is not None
                ),
                "none exists": float(np.mean([r.players is None for r in found])),
                "mean size": float(np.mean([reason.size for reason in found])),
                "mean share of words": float(
                    np.mean([r.size / game.d for r, game in zip(found, games, strict=True)])
                ),
                "seconds": float(np.median(seconds)),
                "slowest seconds": max(seconds),
            }
        )
    return rows


def both_reasons(game: PooledGame) -> tuple[SufficientReason, ContrastiveReason]:
    return sufficient_reason(game), contrastive_reason(game)


def bounds_rows(games: list[PooledGame]) -> list[dict[str, Any]]:
    """Bounds of large games, and how often those of reviews meet."""
    rng = np.random.default_rng(SEED)
    s, v = rng.normal(size=(2, PLAYERS))
    s_absent, v_absent = rng.normal(size=(2, PLAYERS))
    large = {
        "10,000 deleted players, 1 head": PooledGame.from_scores(s, v),
        "10,000 replaced players, 1 head": PooledGame.from_scores(
            s, v, s_absent, v_absent, 0.0, 0.0
        ),
    }
    rows: list[dict[str, Any]] = [
        {
            "case": case,
            "method": "bounds",
            "exact": float(bounds(game).exact),
            "seconds": best_of(partial(bounds, game), repeats=9).best,
        }
        for case, game in large.items()
    ]
    if games:
        found = [bounds(game) for game in games[:100]]
        gaps = [
            max(b.attained_min - b.proved_min, b.proved_max - b.attained_max)
            / (b.proved_max - b.proved_min)
            for b in found
        ]
        rows.append(
            {
                "case": f"{len(found)} test reviews, 6 heads",
                "method": "bounds",
                "exact": float(np.mean([b.exact for b in found])),
                "largest gap, share of the range": max(gaps),
            }
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reasons", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--data", type=Path, metavar="PATH", help="where aclImdb_v1.tar.gz or its folder is"
    )
    parser.add_argument("--reviews", type=int, default=500, metavar="N")
    parser.add_argument(
        "--quick", action="store_true", help="20 reviews, no Anchors, results to results/quick"
    )
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # reviews that are too long for the model are cut
    model = needed_p1_model()
    if args.data:
        texts = review_texts(args.data)
    else:
        texts = []
    room = int(model.weights.room)
    games = [
        game_of(model, text, "words", room) for text in texts[: 20 if args.quick else args.reviews]
    ]
    rows = bounds_rows(games)
    bars = [
        Bar(f"bounds of {row['case']}, seconds", row["seconds"], "<=", 0.05)
        for row in rows
        if "seconds" in row
    ]
    if games:
        found = reason_rows(games)
        rows += found
        long_text = next(text for text in texts if len(model.vocabulary.encode(text)) >= LONG)
        for players in ("words", "positions"):
            game = game_of(model, long_text, players, LONG)
            both = best_of(partial(both_reasons, game), repeats=9).best
            case = f"a review of {LONG} tokens, {game.d} {players}"
            rows.append({"case": case, "method": "both reasons", "seconds": both})
            bars.append(Bar(f"both reasons of {case}, seconds", both, "<=", 0.1))
        bars += [
            Bar(f"{row['method']}: proved minimal, share", row["proved minimal"], ">=", 0.9)
            for row in found
        ]
        bars += [
            Bar(f"{row['method']}: mean number of words", row["mean size"], "<=", 20.0)
            for row in found
        ]
    if not args.quick:
        rows += anchors.rows(model, [*anchors.TEXTS, *short_reviews(model, texts)], SEED)
    players = "words (Anchors: positions)"
    settings = {
        "model": "P1's model, six heads",
        "players": players,
        "absent": "[UNK]",
        "reviews": len(games),
    }
    if args.quick:
        folder = RESULTS / "quick"
    else:
        folder = RESULTS
    if report("reasons", rows, seed=SEED, settings=settings, bars=bars, folder=folder):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
