"""One hidden layer after the pooling: against enumeration, and the table of poles against ball
arithmetic.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from attn_closed_form import (
    ToleranceError,
    banzhaf,
    expected_value_by_size,
    leave_one_out,
    lime_limit,
    owen,
    shapley,
)
from attn_closed_form.game.game_sum import GameSum
from attn_closed_form.game.hidden_layer import LINKED_ACTIVATIONS, HiddenLayer, hidden_layer_game
from attn_closed_form.game.links import (
    EVEN_PARTS,
    LINKS,
    EvenEntry,
    LinkedGame,
    activation_table,
)
from attn_closed_form.game.scores import PooledScores
from attn_closed_form.game.tails import TailGame
from tests import enumeration
from tests.oracles import checks
from tests.profiles import mostly_slow

EXACT = [name for name, activation in LINKED_ACTIVATIONS.items() if activation.link is not None]
D = 8
K = 5
C = 3


def random_network(
    seed: int, activation: str, d: int = D, background: bool = True, replaced: bool = False
) -> TailGame:
    """Eight players, three pooled numbers, five hidden units."""
    rng = np.random.default_rng(seed)
    more = {}
    if background:
        more = {"s_background": rng.normal(size=1), "v_background": rng.normal(size=C)}
    if replaced:
        more["s_absent"] = rng.normal(size=(1, d))
        more["v_absent"] = rng.normal(size=(C, d))
    scores = PooledScores(
        s=2 * rng.normal(size=(1, d)),
        v=2 * rng.normal(size=(C, d)),
        bias=rng.normal(size=C),
        **more,
    )
    layer = HiddenLayer(
        weight=rng.normal(size=(K, C)),
        bias=rng.normal(size=K),
        activation=activation,
        output=rng.normal(size=(2, K)),
        output_bias=rng.normal(size=2),
    )
    return TailGame(scores, layer)


def values_by_enumeration(game: TailGame, output: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Shapley and Banzhaf values from all coalitions, and the largest value."""
    d = game.d
    masks = (np.arange(1 << d)[:, None] >> np.arange(d) & 1).astype(bool)
    values = game.value(masks)[:, output]
    sizes = masks.sum(axis=1)
    shapley_values = np.zeros(d)
    banzhaf_values = np.zeros(d)
    for j in range(d):
        without = np.flatnonzero(~masks[:, j])
        change = values[without | 1 << j] - values[without]
        weight = [math.factorial(k) * math.factorial(d - 1 - k) for k in sizes[without].tolist()]
        shapley_values[j] = np.dot(weight, change) / math.factorial(d)
        banzhaf_values[j] = change.mean()
    return shapley_values, banzhaf_values, float(np.abs(values).max())


@checks(hidden_layer_game, by="enumeration", through=values_by_enumeration)
@pytest.mark.parametrize("activation", EXACT)
@pytest.mark.parametrize(("background", "replaced"), [(True, False), (False, False), (False, True)])
@pytest.mark.parametrize("tol", mostly_slow([1e-8, 1e-4], 1))
def test_values_keep_their_tolerance(
    activation: str, background: bool, replaced: bool, tol: float
) -> None:
    game = random_network(len(activation), activation, background=background, replaced=replaced)
    for output in (0, 1):
        exact, exact_banzhaf, largest = values_by_enumeration(game, output)
        summed = hidden_layer_game(game, output)
        assert np.abs(shapley(summed, tol) - exact).max() <= tol * largest
        assert np.abs(banzhaf(summed, tol) - exact_banzhaf).max() <= tol * largest


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
@pytest.mark.parametrize("groups", [[[0, 3], [1, 2, 6, 7], [4, 5]], [list(range(D))]])
def test_owen_values_keep_their_tolerance(activation: str, groups: list[list[int]]) -> None:
    game = random_network(5, activation)
    summed = hidden_layer_game(game, 1)
    exact = enumeration.owen(summed, groups)
    _, _, largest = values_by_enumeration(game, 1)
    assert np.abs(owen(summed, groups, 1e-8) - exact).max() <= 1e-8 * largest


@checks(GameSum.value, by="enumeration", through=TailGame.value)
@pytest.mark.parametrize("activation", [*EXACT, "identity"])
def test_the_sum_of_games_has_the_values_of_the_network(activation: str) -> None:
    game = random_network(3, activation, background=False)
    masks = (np.arange(1 << D)[:, None] >> np.arange(D) & 1).astype(bool)
    for output in (0, 1):
        summed = hidden_layer_game(game, output)
        np.testing.assert_allclose(
            summed.value(masks), game.value(masks)[:, output], rtol=1e-12, atol=1e-12
        )
        assert np.abs(summed.value(masks)).max() <= summed.bounds.sum() + abs(summed.constant)
        assert summed.scale <= np.abs(game.value(masks)[:, output]).max()


@pytest.mark.parametrize("activation", ["gelu", "tanh"])
def test_a_tolerance_that_is_named_works(activation: str) -> None:
    game = random_network(4, activation)
    exact, _, largest = values_by_enumeration(game, 0)
    summed = hidden_layer_game(game, 0)
    with pytest.raises(ToleranceError) as refusal:
        shapley(summed, 1e-15)
    smallest = refusal.value.smallest
    assert 1e-15 < smallest < 1e-6
    assert np.abs(shapley(summed, smallest) - exact).max() <= smallest * largest


@pytest.mark.parametrize("activation", ["gelu", "tanh", "identity"])
def test_whether_a_tolerance_can_be_kept_is_known_beforehand(activation: str) -> None:
    answers = set()
    for seed in range(4):
        summed = hidden_layer_game(random_network(seed, activation))
        for tol in (1e-4, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-16):
            possible = summed.can_keep(tol)
            answers.add(possible)
            if possible:
                assert np.isfinite(shapley(summed, tol)).all()
            else:
                with pytest.raises(ToleranceError):
                    shapley(summed, tol)
    assert answers == {True, False}


@pytest.mark.parametrize("activation", EXACT)
@pytest.mark.parametrize("shift", [-6.0, -10.0, -15.0, -20.0, 20.0])
@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_saturated_and_dead_units_do_not_cost_accuracy(
    activation: str, shift: float, size: float
) -> None:
    """Their values only have to be right relative to those of the whole network."""
    scores = random_network(1, activation).scores
    weight = np.eye(2, C)
    weight[1] *= size
    layer = HiddenLayer(weight, [0.0, shift], activation, [[1.0, 4.0]], [0.0])
    game = TailGame(scores, layer)
    exact, exact_banzhaf, largest = values_by_enumeration(game, 0)
    summed = hidden_layer_game(game)
    assert np.abs(shapley(summed, 1e-7) - exact).max() <= 1e-7 * largest
    assert np.abs(banzhaf(summed, 1e-7) - exact_banzhaf).max() <= 1e-7 * largest


def test_functions_of_one_value_per_size_do_not_take_a_sum() -> None:
    summed = hidden_layer_game(random_network(1, "tanh"))
    for function in (lime_limit, expected_value_by_size):
        with pytest.raises(TypeError, match="got a GameSum"):
            function(summed)


def test_leave_one_out_is_the_change_of_the_network() -> None:
    game = random_network(1, "gelu")
    everybody = np.ones((1, D), dtype=bool)
    changes = game.value(everybody)[:, 0] - game.value(~np.eye(D, dtype=bool))[:, 0]
    np.testing.assert_allclose(leave_one_out(hidden_layer_game(game)), changes, atol=1e-13)


def test_an_output_that_reads_no_unit_is_constant() -> None:
    scores = random_network(1, "tanh").scores
    for constant in (0.0, 3.0):
        layer = HiddenLayer(np.eye(2, C), [0.0, 1.0], "tanh", [[0.0, 0.0]], [constant])
        assert shapley(hidden_layer_game(TailGame(scores, layer))).tolist() == [0.0] * D


@pytest.mark.parametrize("activation", EXACT)
@pytest.mark.parametrize("background", [True, False])
def test_a_unit_that_reads_nothing_is_constant(activation: str, background: bool) -> None:
    """Pruning sets all weights of a unit to zero."""
    scores = random_network(2, activation, background=background).scores
    for weight in (np.zeros((2, C)), np.eye(2, C) * [[0.0], [1.0]]):
        layer = HiddenLayer(weight, [0.7, -0.3], activation, [[2.0, -1.0]], [0.1])
        game = TailGame(scores, layer)
        exact, exact_banzhaf, largest = values_by_enumeration(game, 0)
        summed = hidden_layer_game(game)
        assert np.abs(shapley(summed, 1e-8) - exact).max() <= 1e-8 * largest
        assert np.abs(banzhaf(summed, 1e-8) - exact_banzhaf).max() <= 1e-8 * largest


@pytest.mark.parametrize("activation", EXACT)
@pytest.mark.parametrize("background", [True, False])
def test_bounds_of_the_units_hold_and_are_not_far_off(activation: str, background: bool) -> None:
    masks = (np.arange(1 << D)[:, None] >> np.arange(D) & 1).astype(bool)
    for seed in range(8):
        summed = hidden_layer_game(random_network(seed, activation, background=background))
        for (factor, game), bound in zip(summed.parts, summed.bounds.tolist(), strict=True):
            largest = abs(factor) * float(np.abs(game.value(masks)).max())
            assert largest <= bound
            if isinstance(game, LinkedGame):
                assert bound <= 3 * largest


@pytest.mark.parametrize("name", LINKS)
def test_links_are_largest_at_an_end(name: str) -> None:
    rng = np.random.default_rng(0)
    link = LINKS[name].function
    for _ in range(200):
        low, high = np.sort(rng.uniform(-30, 30, size=2))
        inside = np.abs(link(np.linspace(low, high, 301)))
        assert inside.max() <= np.abs(link(np.array([low, high]))).max() * (1 + 1e-12)


def test_what_has_no_exact_values_says_so() -> None:
    with pytest.raises(ValueError, match="relu"):
        hidden_layer_game(random_network(0, "relu"))
    with pytest.raises(ValueError, match="activation"):
        random_network(0, "cube")
    with pytest.raises(TypeError, match="game"):
        hidden_layer_game(TailGame(random_network(0, "tanh").scores, lambda h: h[:, 0]))
    one_head = random_network(0, "tanh").scores
    two_heads = PooledScores(
        s=np.zeros((2, 3)), v=np.zeros((2, 3)), bias=np.zeros(2), head=np.array([0, 1])
    )
    layer = HiddenLayer(np.ones((1, 2)), np.zeros(1), "tanh", np.ones((1, 1)), np.zeros(1))
    assert one_head.s.shape[0] == 1
    with pytest.raises(ValueError, match=r"^game: "):
        hidden_layer_game(TailGame(two_heads, layer))


def entries() -> list[tuple[str, float, EvenEntry]]:
    """All entries of the shipped table."""
    return [
        (kind, R, entry)
        for kind, ranges in activation_table().items()
        for R, of_range in ranges.items()
        for entry in of_range
    ]


def prove(kind: str, R: float, entry: EvenEntry, factor: float = 1.0) -> float:
    """The bound that ball arithmetic proves for an entry, with all residues multiplied by a
    factor.
    """
    pytest.importorskip("flint")
    from proofs_check.links import proved_even_bound

    residue = (entry.residue * factor).tolist()
    return proved_even_bound(kind, entry.constant, entry.z.tolist(), residue, R, entry.bound)


@pytest.mark.parametrize("index", range(0, 240, 23))
def test_bounds_of_the_table_are_proved(index: int) -> None:
    kind, R, entry = entries()[index]
    assert prove(kind, R, entry) <= entry.bound


@pytest.mark.slow
def test_every_bound_of_the_table_is_proved() -> None:
    for kind, R, entry in entries():
        assert prove(kind, R, entry) <= entry.bound, (kind, R, entry.z.size)


def test_the_proof_notices_a_wrong_entry() -> None:
    kind, R, entry = entries()[30]
    assert prove(kind, R, entry, factor=1 + 1e-3) > entry.bound
    assert prove(kind, 2 * R, entry) > 10 * entry.bound


@pytest.mark.parametrize("kind", list(EVEN_PARTS))
def test_slopes_of_links_are_bounds(kind: str) -> None:
    x = np.linspace(-40, 40, 400_001)
    steepest = np.abs(np.diff(EVEN_PARTS[kind](x)) / np.diff(x)).max()
    assert (1 - 1e-9) * steepest <= LINKS[kind].slope(-40.0, 40.0) < 1.02 * steepest


def test_activations_are_a_line_plus_a_link() -> None:
    x = np.linspace(-9, 9, 101)
    for name in EXACT:
        activation = LINKED_ACTIVATIONS[name]
        assert activation.link is not None
        rebuilt = activation.slope * x + activation.factor * activation.link(x)
        np.testing.assert_allclose(
            rebuilt + activation.constant, activation.function(x), atol=1e-14, rtol=1e-13
        )


ACTIVATIONS = {
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log(1 + mpmath.exp(x)),
    "gelu": lambda x: x * mpmath.ncdf(x),
    "gelu-tanh": lambda x: (
        x * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + 0.044715 * x**3))) / 2
    ),
}


def numbers(x: np.ndarray) -> list:
    return [mpmath.mpf(float(y)) for y in np.ravel(x)]


@checks(hidden_layer_game, GameSum.value, by="more digits")
@pytest.mark.parametrize("activation", EXACT)
def test_values_in_fifty_digits(activation: str) -> None:
    """Pooled vector, hidden layer and Shapley values from the definitions."""
    d = 4
    game = random_network(len(activation), activation, d=d)
    layer = game.tail
    scores = game.scores
    with mpmath.workdps(50):
        values = {}
        for mask in np.ndindex((2,) * d):
            masses = [mpmath.exp(x) for x in numbers(scores.s)]
            background = mpmath.exp(numbers(scores.s_background)[0])
            present = [m for m, there in zip(masses, mask, strict=True) if there]
            vector = []
            for c in range(C):
                terms = [
                    m * x
                    for m, x, there in zip(masses, numbers(scores.v[c]), mask, strict=True)
                    if there
                ]
                terms.append(background * numbers(scores.v_background)[c])
                mean = mpmath.fsum(terms) / mpmath.fsum([*present, background])
                vector.append(mean + numbers(scores.bias)[c])
            total = numbers(layer.output_bias)[0]
            for k in range(K):
                inner = mpmath.fdot(numbers(layer.weight[k]), vector) + numbers(layer.bias)[k]
                total += numbers(layer.output[0])[k] * ACTIVATIONS[activation](inner)
            values[mask] = total
        exact = []
        for j in range(d):
            changes = []
            for mask, value in values.items():
                if not mask[j]:
                    size = sum(mask)
                    weight = mpmath.factorial(size) * mpmath.factorial(d - 1 - size)
                    with_j = (*mask[:j], 1, *mask[j + 1 :])
                    changes.append(weight / mpmath.factorial(d) * (values[with_j] - value))
            exact.append(float(mpmath.fsum(changes)))
        largest = float(max(abs(value) for value in values.values()))
    summed = hidden_layer_game(game, 0)
    ours = summed.value(np.array(list(values), dtype=bool))
    np.testing.assert_allclose(ours, [float(value) for value in values.values()], rtol=1e-12)
    found = shapley(summed, 1e-8)
    assert np.abs(found - exact).max() <= 1e-8 * largest
    assert np.abs(exact).max() > 1e-3
