"""Random games of few types of players for the attack on the guarantee, with 10 to 5,000 players.

A `Recipe` has the numbers of each type once, so that a search can change it; `question` makes the
game and the settings that `guarantee_functions.answer` takes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from attn_closed_form import PooledGame
from attn_closed_form._types import Array, Ids
from attn_closed_form.game.links import Link
from attn_closed_form.game.scores import PooledScores

from .guarantee_functions import BETAS, INDICES, LIME, PROBABILITIES
from .guarantee_games import Trial
from .guarantee_types import ACTIVATIONS, Layer

# How the games are shared out, in percent: LIME has the longest chain of rules, and its defaults
# are what people use.
SHARES = {
    "lime": 28,
    "lime, odd settings": 20,
    "shapley": 8,
    "banzhaf": 4,
    "weighted banzhaf": 5,
    "beta shapley": 6,
    "semivalue": 4,
    "by size": 5,
    "interactions": 4,
    "index": 4,
    "owen": 6,
    "shapley, hidden layer": 3,
    "banzhaf, hidden layer": 3,
}
FAMILIES = (
    "plain",
    "equal masses",
    "one type",
    "dominating",
    "light",
    "wide",
    "masked",
    "offset",
    "constants",
    "nearly equal values",
    "cancelling heads",
    "mixed absence",
    "huge empty value",
)
# Numbers of players, the part of the games with at most as many, and the lengths of longer games:
# few, because LIME's rules depend on the length and take up to a second to make.
LENGTHS = ((10, 30, 0.15), (30, 120, 0.65), (120, 300, 0.13))
LONG_LENGTHS = (400, 500, 700, 1000, 1428, 2000, 3000, 5000)
# The longest game of each function, plain and linked: those with O(d^2) steps take seconds beyond.
LONGEST = {
    "lime": (5000, 300),
    "lime, odd settings": (400, 200),
    "semivalue": (300, 90),
    "by size": (300, 90),
    "interactions": (120, 60),
    "index": (120, 60),
    "owen": (400, 200),
    "shapley, hidden layer": (200, 200),
    "banzhaf, hidden layer": (200, 200),
}
LONGEST_OTHERS = (5000, 1000)
# From this length on, LIME's default tolerance leaves only its slow route for some games, which
# takes up to a minute.
LONGEST_OF_LIME_BY_DEFAULT = 1000
# Most counts of all types that the oracle goes through, and of a game with a hidden layer, whose
# units are as many games.
MOST_COUNTS = 30_000
MOST_COUNTS_OF_LAYERS = 2_000
DEFAULT_TOL = 1e-10
# Links: the even parts of activations that hidden layers use, and the largest arguments of each
# link.
EVEN_PARTS = ("x tanh", "log cosh", "x erf", "x tanh cubic")
REACHES = {"sigmoid": (0.5, 2.0, 5.0, 15.0, 40.0), "exp": (0.3, 1.0, 3.0, 8.0)}
REACH_OF_EVEN_PARTS = (0.5, 2.0, 5.0, 12.0)
WIDTHS = (*LIME[0], 8.0, 15.0, 40.0, 60.0, 100.0, 400.0)


class Recipe(NamedTuple):
    """A question about a game of T types with H heads; log-masses of -inf are those of deleted
    players.
    """

    what: str
    family: str
    counts: tuple[int, ...]  # players of each type
    s: Array  # (H, T)
    v: Array
    s_absent: Array
    v_absent: Array
    s_background: Array  # (H,)
    v_background: Array
    bias: float
    empty_value: float
    link: str | None
    scale: float
    tol: float
    options: tuple[Any, ...]  # settings, with types in the place of players
    layer: Layer | None = None  # with one head, and one row of values for each of its C inputs

    @property
    def d(self) -> int:
        """Number of players."""
        return sum(self.counts)

    def question(self) -> tuple[str, Trial, tuple[Any, ...]]:
        """Return the function, the game with its tolerance, and the settings."""
        of_type = np.repeat(np.arange(len(self.counts)), self.counts)
        if self.layer is not None:
            return self.what, self._trial_of_layer(of_type), ()
        game = PooledGame.from_scores(
            self.s[:, of_type],
            self.v[:, of_type],
            self.s_absent[:, of_type],
            self.v_absent[:, of_type],
            self.s_background,
            self.v_background,
            bias=self.bias,
            empty_value=self.empty_value,
        )
        link = None if self.link is None else Link(self.link, self.scale)
        return self.what, Trial(self.family, game, self.tol, link), self._settings(of_type)

    def _trial_of_layer(self, of_type: Ids) -> Trial:
        scores = PooledScores(
            s=self.s[:, of_type],
            v=self.v[:, of_type],
            bias=np.zeros(len(self.v)),
            s_absent=self.s_absent[:, of_type],
            v_absent=self.v_absent[:, of_type],
            s_background=self.s_background,
            v_background=self.v_background,
        )
        return Trial(self.family, scores, self.tol, self.layer)

    def _settings(self, of_type: Ids) -> tuple[Any, ...]:
        if self.what.startswith("lime"):
            *settings, types = self.options
            return *settings, tuple(np.flatnonzero(np.isin(of_type, types)).tolist())
        if self.what == "owen":
            return tuple(np.array(self.options)[of_type].tolist())
        if self.what == "semivalue":
            rng = np.random.default_rng(self.options[0])
            return tuple((rng.integers(-3, 4, self.d) * 2.0 ** rng.integers(-30, 30)).tolist())
        return self.options


def random_recipe(
    rng: np.random.Generator, what: str | None = None, longest: int | None = None
) -> Recipe:
    """Draw a question about a random function, or about this one, and at most `longest` players."""
    if what is None:
        what = str(rng.choice(list(SHARES), p=np.array(list(SHARES.values())) / 100))
    if what.endswith("hidden layer"):
        return _recipe_of_layer(rng, what, longest)
    family = str(rng.choice(FAMILIES))
    H = 1
    if family == "cancelling heads":
        H = 2
    elif rng.random() < 0.2:
        H = int(rng.integers(2, 4))
    linked = H == 1 and rng.random() < 0.6
    plain_longest, linked_longest = LONGEST.get(what, LONGEST_OTHERS)
    most_players = linked_longest if linked else plain_longest
    if longest is not None:
        most_players = min(most_players, longest)
    counts = _counts(rng, family, most_players, MOST_COUNTS)
    recipe = _numbers(rng, what, family, counts, H)
    if linked:
        recipe = _linked(rng, recipe)
    tol = DEFAULT_TOL
    if rng.random() < (0.3 if what == "lime" else 0.6):
        tol = float(10 ** rng.uniform(-12, -2))
    if what.startswith("lime") and sum(counts) > LONGEST_OF_LIME_BY_DEFAULT:
        tol = float(10 ** rng.uniform(-7, -2))
    return recipe._replace(tol=tol, options=random_options(rng, what, len(counts)))


def _counts(
    rng: np.random.Generator, family: str, longest: int, most_counts: int
) -> tuple[int, ...]:
    """Draw the players of each type: up to two single ones, and up to three groups of equal
    ones.
    """
    while True:
        d = _length(rng, longest)
        singles = int(rng.integers(0, 3))
        groups = int(rng.choice([1, 2, 3], p=[0.35, 0.45, 0.2]))
        if family == "one type":
            singles = 0
            groups = 1
        ends = np.sort(rng.choice(np.arange(1, d - singles), groups - 1, replace=False))
        sizes = np.diff(np.concatenate([[0], ends, [d - singles]])).astype(int)
        counts = (*[1] * singles, *sizes.tolist())
        if math.prod(n + 1 for n in counts) <= most_counts:
            return counts


def _length(rng: np.random.Generator, longest: int) -> int:
    """Draw a number of players, at most this one."""
    while True:
        part = rng.random()
        d = int(rng.choice(LONG_LENGTHS))
        for least, most, share in LENGTHS:
            if part < share:
                d = int(rng.integers(least, most + 1))
                break
            part -= share
        if d <= longest:
            return d


def _numbers(
    rng: np.random.Generator, what: str, family: str, counts: tuple[int, ...], H: int
) -> Recipe:
    """Draw scores and values of a family."""
    T = len(counts)
    spread = float(rng.choice([0.1, 0.5, 1.0, 3.0]))
    if family == "wide":
        spread = float(rng.choice([10.0, 30.0, 100.0, 300.0]))
    s, s_absent = rng.normal(size=(2, H, T)) * spread
    v, v_absent = rng.normal(size=(2, H, T)) * float(rng.choice([0.3, 1.0, 3.0, 10.0]))
    s_background, v_background = rng.normal(size=(2, H))
    bias = float(rng.choice([0.0, 1.0])) * float(rng.normal())
    empty_value = float(rng.choice([0.0, 1.0, 6.0, -3.0]))
    # Deletions are where rules differ most from term to term.
    deleted = np.full(T, rng.random() < 0.65)
    with_background = rng.random() < 0.35
    if family == "equal masses":
        s[:] = s[:, :1]
    if family in ("dominating", "light"):
        step = float(rng.choice([3.0, 8.0, 20.0, 40.0]))
        s[:, rng.integers(T)] += step if family == "dominating" else -step
    if family == "masked" and T > 1:
        s[:, 0] = float(rng.choice([-1e9, -65504.0, -1e4]))
    if family == "offset":
        offset = rng.normal(size=H) * float(rng.choice([1e2, 1e4, 1e8]))
        s += offset[:, None]
        s_absent += offset[:, None]
        s_background = s_background + offset
    if family == "constants":
        large = float(10 ** rng.uniform(2, 8))
        v -= large / H
        v_absent -= large / H
        v_background = v_background - large / H
        bias = large
    if family == "nearly equal values":
        v = v[:, :1] + 1e-6 * v
    if family == "cancelling heads":
        v[0] *= float(10 ** rng.uniform(1, 6))
        v[1] = -v[0] + rng.normal(size=T)
        s[1] = s[0]
        deleted[:] = True
        with_background = False
    if family == "mixed absence":
        deleted = rng.random(T) < 0.5
    if family == "huge empty value":
        empty_value = float(10 ** rng.uniform(1, 6))
        deleted[:] = True
        with_background = False
    s_absent[:, deleted] = -np.inf
    if not with_background:
        s_background = np.full(H, -np.inf)
    return Recipe(
        what=what,
        family=family,
        counts=counts,
        s=s,
        v=v,
        s_absent=s_absent,
        v_absent=v_absent,
        s_background=s_background,
        v_background=v_background,
        bias=bias,
        empty_value=empty_value,
        link=None,
        scale=1.0,
        tol=DEFAULT_TOL,
        options=(),
    )


def _linked(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    """Send the game through a link, whose argument has one of the moduli in REACHES at most."""
    arrays = (recipe.v, recipe.v_absent, recipe.v_background)
    largest = max(abs(recipe.bias), abs(recipe.empty_value), *(np.abs(x).max() for x in arrays))
    even = EVEN_PARTS[rng.integers(len(EVEN_PARTS))]
    link = str(rng.choice(["sigmoid", "exp", even], p=[0.5, 0.3, 0.2]))
    scale = float(rng.choice(REACHES.get(link, REACH_OF_EVEN_PARTS))) / float(largest)
    if rng.random() < 0.3 and largest < 20:
        scale = 0.5 if link == "exp" else 1.0
    return recipe._replace(link=link, scale=scale)


# The sizes of an argument that a random layer may reach: small ones are almost a line, and beyond 30
# most units are saturated.
REACHES_OF_LAYERS = (0.1, 1.0, 4.0, 12.0, 30.0)


def _recipe_of_layer(rng: np.random.Generator, what: str, longest: int | None) -> Recipe:
    """Draw a network with one head, up to three pooled numbers and up to four units."""
    families = [name for name in FAMILIES if name not in ("cancelling heads", "huge empty value")]
    family = str(rng.choice(families))
    most_players = LONGEST[what][0]
    if longest is not None:
        most_players = min(most_players, longest)
    counts = _counts(rng, family, most_players, MOST_COUNTS_OF_LAYERS)
    C = int(rng.integers(1, 4))
    recipe = _numbers(rng, what, family, counts, C)
    # One head has the masses of all rows of values.
    recipe = recipe._replace(
        s=recipe.s[:1],
        s_absent=recipe.s_absent[:1],
        s_background=recipe.s_background[:1],
        bias=0.0,
        empty_value=0.0,
    )
    arrays = (recipe.v, recipe.v_absent, recipe.v_background)
    largest = max(float(np.abs(x).max()) for x in arrays)
    K = int(rng.integers(1, 5))
    reach = float(rng.choice(REACHES_OF_LAYERS))
    weight = rng.normal(size=(K, C)) * reach / largest
    layer = Layer(
        activation=str(rng.choice(list(ACTIVATIONS))),
        weight=tuple(map(tuple, weight.tolist())),
        bias=tuple((rng.normal(size=K) * float(rng.choice([0.0, 1.0, 10.0]))).tolist()),
        output=tuple((rng.normal(size=K) * 10 ** rng.uniform(-3, 3, K)).tolist()),
        output_bias=float(rng.choice([0.0, rng.normal(), 100.0])),
    )
    tol = DEFAULT_TOL
    if rng.random() < 0.8:
        tol = float(10 ** rng.uniform(-11, -2))
    return recipe._replace(layer=layer, tol=tol)


def random_options(rng: np.random.Generator, what: str, T: int) -> tuple[Any, ...]:
    """Draw the settings of a function: for LIME types in the surrogate model, for Owen values the
    group of each type.
    """
    if what == "lime":
        return 25.0, 1.0, 5000, ()
    if what.startswith("lime"):
        _, ridges, numbers, left_out = LIME
        chosen: tuple[int, ...] = ()
        if T > 1 and left_out[rng.integers(len(left_out))]:
            chosen = tuple(rng.choice(T, rng.integers(1, T), replace=False).tolist())
        ridge = ridges[rng.integers(len(ridges))]
        number = numbers[rng.integers(len(numbers))]
        return WIDTHS[rng.integers(len(WIDTHS))], ridge, number, chosen
    if what == "owen":
        groups = np.unique(rng.integers(0, T, T), return_inverse=True)[1]
        return tuple(groups.reshape(-1).tolist())
    if what == "weighted banzhaf":
        extreme = PROBABILITIES[rng.integers(len(PROBABILITIES))]
        return (float(rng.choice([rng.random(), extreme])),)
    if what == "beta shapley":
        return tuple(BETAS[rng.integers(len(BETAS))])
    if what == "semivalue":
        return (int(rng.integers(1 << 30)),)
    if what == "index":
        return (INDICES[rng.integers(len(INDICES))],)
    return ()
