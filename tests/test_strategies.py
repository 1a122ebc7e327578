"""What the strategies draw, measured: a property that is tried on empty documents alone shows
nothing.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from attn_closed_form.attention import pooled_game
from tests.jax_model.test_oracle import ONE_HEAD, questions
from tests.strategies import SHAPES, cases, problems

# As many examples as the profile "dev" gives one test, for so many tests.
EXAMPLES = 30
TESTS = 10
# Share of ordinary problems that is asked for, over all tests and in the poorest of them.
ORDINARY = 0.60
ORDINARY_IN_ONE = 0.30
# Share of drawn problems in which each of these must appear.
EDGES = {
    "empty": 0.01,
    "one token": 0.01,
    "full": 0.05,
    "room for one token": 0.01,
    "one word repeated": 0.01,
    "some word repeated": 0.05,
    "special ids": 0.05,
    "[CLS] is [UNK]": 0.05,
    "uniform attention": 0.01,
    "one-hot attention": 0.01,
    "scores of 700": 0.01,
    "scores of 1e4": 0.01,
    "biases": 0.25,
    "no biases": 0.25,
    "positions": 0.25,
    "no positions": 0.25,
    "one head": 0.1,
    "six heads": 0.1,
    "one dimension": 0.01,
    "another output": 0.05,
}


def drawn(strategy, number):
    """The problems that a test with this seed would be given."""
    examples = []

    @seed(number)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example):
        examples.append(example)

    collect()
    return examples


@pytest.mark.parametrize("min_size", [0, 1])
@pytest.mark.slow  # hundreds of problems
def test_most_problems_are_ordinary_and_every_edge_case_is_drawn(min_size, record_property):
    tests = [
        [cases(problem) for problem in drawn(problems(min_size=min_size), number)]
        for number in range(TESTS)
    ]
    ordinary = [sum("ordinary" in names for names in test) / len(test) for test in tests]
    everything = [names for test in tests for names in test]
    counts = Counter(name for names in everything for name in names)
    shares = {name: counts[name] / len(everything) for name in ["ordinary", *EDGES]}
    text = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    record_property(
        "shown", f"strategies, {len(everything)} problems of at least {min_size} tokens: {text}"
    )
    print(text, f"ordinary in the poorest test {min(ordinary):.0%}")
    assert len(everything) >= 0.9 * TESTS * EXAMPLES
    assert shares["ordinary"] >= ORDINARY
    assert min(ordinary) >= ORDINARY_IN_ONE
    rare = {
        name: shares[name]
        for name, least in EDGES.items()
        if shares[name] < least and min_size == 0
    }
    assert not rare


# Share of the drawn games that each kind must have.
KINDS = {
    "positions, replaced": 0.15,
    "positions, deleted": 0.15,
    "words, replaced": 0.15,
    "words, deleted": 0.15,
    "repeated words": 0.1,
    "spread of 0 to 1": 0.1,
    "spread of 1 to 50": 0.1,
    "spread of 50 to 700": 0.005,
    "spread above 700": 0.01,
}


def kinds(question):
    """Names of what a game shows: its players, how they are absent, and the spread of its scores."""
    tokens = question.tokens
    absent = {"unk": "replaced", "deleted": "deleted"}[question.absent]
    spread = float(np.ptp(pooled_game(question.weights, tokens).s[0]))
    names = [f"{question.players}, {absent}"]
    if len(set(tokens)) < len(tokens):
        names.append("repeated words")
    ends = {"spread of 0 to 1": 1, "spread of 1 to 50": 50, "spread of 50 to 700": 700}
    names.append(next((name for name, end in ends.items() if spread <= end), "spread above 700"))
    return names


@pytest.mark.parametrize(
    ("link", "shapes"),
    [("identity", tuple(SHAPES)), ("sigmoid", ONE_HEAD)],
    ids=["f", "probability"],
)
@pytest.mark.slow  # hundreds of problems
def test_the_histogram_of_games(link, shapes, record_property):
    games = []
    for number in range(TESTS):
        games += drawn(questions(link=link, shapes=shapes), number)
    counts = Counter(name for question in games for name in kinds(question))
    shares = {name: counts[name] / len(games) for name in KINDS}
    text = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    record_property("shown", f"games, {len(games)} of {link}: {text}")
    assert {question.link for question in games} == {link}
    assert {question.weights.K for question in games} == {shape.K for shape in shapes}
    rare = {name: shares[name] for name, least in KINDS.items() if shares[name] < least}
    assert not rare, text
