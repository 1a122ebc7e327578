"""Draw the figures of docs/theory from the library's numbers: `python docs/theory_figures.py`."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from attn_closed_form import PooledGame, load_demo_model, shapley
from attn_closed_form.__main__ import SENTENCE
from attn_closed_form._legendre import legendre_rule
from attn_closed_form.game import weighted_banzhaf
from attn_closed_form.game.engine.budget import budget
from attn_closed_form.game.engine.exponential_sums import lambda_rule
from attn_closed_form.game.engine.laws import UNIFORM
from attn_closed_form.game.engine.terms import terms_of

FOLDER = Path(__file__).parent / "theory" / "figures"
ORANGE = "#d55e00"
BLUE = "#0072b2"
GREEN = "#009e73"
GRAY = "#777777"
#: The game of two words that the page computes by hand, and a third one for the cube.
MASSES = np.array([3.0, 1.0, 2.0])
VALUES = np.array([1.0, -1.0, 0.5])


def new(
    columns: int = 1, width: float = 7.2, height: float = 3.2
) -> tuple[Any, Any]:
    """A figure in the common style."""
    figure, axes = plt.subplots(
        1, columns, figsize=(width, height), layout="constrained"
    )
    for ax in np.atleast_1d(axes):
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, name: str) -> None:
    """Write one figure as SVG, the same bytes on every run."""
    matplotlib.rcParams["svg.hashsalt"] = name
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def cube() -> None:
    """Eight coalitions as corners of a cube, and their mean as a polynomial in p."""
    game = PooledGame.from_scores(
        np.log(MASSES), VALUES, s_background=0.0, v_background=0.0
    )
    masks = np.array(list(product([False, True], repeat=3)))
    f = game.value(masks)
    p = 0.7
    weight = np.where(masks, p, 1 - p).prod(axis=1)
    figure, (left, right) = new(2)
    xy = masks @ np.array([[1.0, 0.12], [0.45, 0.45], [0.0, 1.0]])
    for i, j in product(range(8), repeat=2):
        if i < j and (masks[i] != masks[j]).sum() == 1:
            left.plot(*xy[[i, j]].T, color="#cccccc", zorder=0)
    left.scatter(
        *xy.T,
        s=2200 * weight,
        color=[
            GRAY if abs(value) < 1e-12 else ORANGE if value > 0 else BLUE
            for value in f
        ],
        zorder=1,
    )
    for (x, y), mask, value in zip(xy, masks, f, strict=True):
        name = "{" + ", ".join(str(j + 1) for j in range(3) if mask[j]) + "}"
        left.annotate(
            f"{name}  {value + 0.0:+.2f}",
            (x, y),
            xytext=(9, 9),
            textcoords="offset points",
            fontsize=8,
        )
    left.set(
        title=f"f(S); area: probability at p = {p}",
        xlim=(-0.15, 1.95),
        ylim=(-0.2, 1.85),
    )
    left.axis("off")
    grid = np.linspace(0, 1, 101)
    mean = np.array([np.where(masks, q, 1 - q).prod(axis=1) @ f for q in grid])
    right.plot(grid, mean, color="black")
    right.plot(p, np.where(masks, p, 1 - p).prod(axis=1) @ f, "o", color=GREEN)
    right.annotate(
        f"mean over the cube\nat p = {p}",
        (p, weight @ f),
        xytext=(-8, 8),
        textcoords="offset points",
        ha="right",
    )
    right.set(xlabel="p, the probability of being present", title="E_p[f]")
    save(figure, "cube")


def sentence_game() -> tuple[PooledGame, tuple[str, ...]]:
    """The game of logits of the README's sentence, and its words."""
    explanation = load_demo_model().explain(SENTENCE, "shapley", scale="logit")[
        "shapley"
    ]
    return explanation.game, explanation.labels


def differences() -> None:
    """Delta_j(p) of the strongest words; the area under a curve is a Shapley value."""
    game, words = sentence_game()
    grid = np.linspace(0, 1, 81)
    curves = np.array([weighted_banzhaf(game, float(p)) for p in grid])
    phi = shapley(game)
    nodes, _ = legendre_rule(6)
    figure, ax = new()
    strongest = np.argsort(-np.abs(phi))[:5]
    for j in strongest:
        color = ORANGE if phi[j] > 0 else BLUE
        ax.plot(grid, curves[:, j], color=color)
        ax.plot(
            nodes,
            np.interp(nodes, grid, curves[:, j]),
            "o",
            color=color,
            markersize=3.5,
        )
    ends = spread_out(curves[-1, strongest], 0.38) - 0.1
    for j, y in zip(strongest, ends, strict=True):
        ax.annotate(
            f"{words[j]}, area {phi[j]:+.2f}",
            (1.0, y),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
        )
    ax.axhline(0, color=GRAY, linewidth=0.6)
    ax.set(
        xlabel="p",
        ylabel="mean change of the logit",
        xlim=(0, 1.32),
        xticks=[0, 0.25, 0.5, 0.75, 1],
    )
    ax.set_title("Delta_j(p) of the five strongest words, with six Gauss nodes")
    save(figure, "differences")


def spread_out(y: np.ndarray, gap: float) -> np.ndarray:
    """The numbers moved apart to at least `gap`, in their order."""
    order = np.argsort(y)
    out = np.array(y, dtype=float)
    for before, after in pairwise(order):
        out[after] = max(out[after], out[before] + gap)
    return out


def integrand() -> None:
    """The integrand over lambda at p = 1/2 and the nodes that replace it."""
    game, _ = sentence_game()
    s = game.s[0]
    v = game.v[0]
    a = np.exp(s)
    c_0 = float(np.exp(game.s_background[0]))
    v_0 = float(game.v_background[0])
    p = 0.5

    def value(lam: np.ndarray) -> np.ndarray:
        e = np.exp(-np.outer(lam, a))
        F = p * e + (1 - p)
        return (
            np.exp(-lam * c_0)
            * F.prod(axis=1)
            * (c_0 * v_0 + (p * a * v * e / F).sum(axis=1))
        )

    log_lam = np.linspace(-6.5, 2.5, 400) - np.log(c_0)
    figure, ax = new()
    ax.plot(log_lam, np.exp(log_lam) * value(np.exp(log_lam)), color="black")
    for log_eps, color, y in ((-3, BLUE, 1), (-10, ORANGE, 2)):
        nodes, _ = lambda_rule(
            float(np.log((c_0 + a.sum()) / c_0)), 10.0**log_eps
        )
        lam = nodes / c_0
        ax.plot(
            np.log(lam),
            lam * value(lam),
            "o",
            color=color,
            markersize=5 if y == 1 else 3,
            zorder=4 - y,
        )
        ax.plot(
            [],
            [],
            "o",
            color=color,
            label=f"{lam.size} nodes: relative error of 1/D at most 1e{log_eps}",
        )
    ax.legend(frameon=False, loc="upper left")
    ax.set(
        xlabel="log lambda",
        ylabel="integrand times lambda",
        title="The integrand of E_p[f] at p = 1/2",
    )
    save(figure, "integrand")


def evaluations(d: int, seed: int = 0) -> int:
    """How often the engine evaluates a player's factor for all Shapley values of a random game with
    d players.
    """
    rng = np.random.default_rng(seed)
    s, v = rng.normal(size=(2, d))
    game = PooledGame.from_scores(
        s, v, s_absent=0.0, v_absent=0.0, s_background=1.0, v_background=0.0
    )
    goal = budget(game, 1e-10)
    nodes = 0
    for terms in terms_of(game, goal):
        lam = np.arange(terms.factor.shape[0])
        nodes += sum(
            len(batch.p) * lam[batch.terms].size
            for batch in UNIFORM.batches(terms, goal.p_error)
        )
    return d * nodes


def cost() -> None:
    """Evaluations of a player's factor against the number of players, on logarithmic axes."""
    sizes = np.array([4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
    figure, ax = new()
    small = np.arange(4, 31)
    ax.loglog(small, small * 2.0**small, color=GRAY)
    ax.annotate(
        "all coalitions, d 2^d",
        (26, 26 * 2.0**26),
        xytext=(8, -4),
        textcoords="offset points",
        color=GRAY,
    )
    kernel = sizes * (2.0 * sizes + 2048)
    ax.loglog(sizes, kernel, color=BLUE)
    ax.annotate(
        "KernelSHAP, 2 d + 2,048 samples: an estimate", (sizes[5], kernel[5]), xytext=(-110, 34),
        textcoords="offset points", color=BLUE, ha="left",
    )  # fmt: skip
    ours = [evaluations(int(d)) for d in sizes]
    ax.loglog(sizes, ours, "o-", color=ORANGE, markersize=4)
    ax.annotate(
        "this library, error at most 1e-10",
        (sizes[5], ours[5]),
        xytext=(0, -18),
        textcoords="offset points",
        color=ORANGE,
    )
    ax.set(
        xlabel="number of players d",
        ylabel="player evaluations",
        ylim=(30, 1e10),
    )
    ax.set_title("Work for all Shapley values of one game")
    save(figure, "cost")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for draw in (cube, differences, integrand, cost):
        draw()
