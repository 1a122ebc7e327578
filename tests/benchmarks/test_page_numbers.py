"""Measured numbers in the prose of the pages are those of the stored results.

A page marks such a passage, which ends with its section, with `<!-- numbers: NAME -->`. NAME is a
function below that computes from `benchmarks/results` the sentences or table rows that the passage
must contain.
"""

import json
import re
import tomllib

import pytest

from benchmarks.harness import RESULTS
from proofs_check.registry import CORRECTED, HOLDS, NOT_CHECKABLE, PAPERS, statements
from tests.pages import PAGES, ROOT

MARKED = [ROOT / "attn_closed_form" / "app" / "MODEL_CARD.md", *PAGES]
MARK = re.compile(r"<!-- numbers: (\w+) -->\n(.*?)(?=\n#|<!-- numbers|\Z)", re.DOTALL)


def stored(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def the_row(name, **wanted):
    (row,) = [
        row
        for row in stored(name)["rows"]
        if all(row.get(key) == value for key, value in wanted.items())
    ]
    return row


def maps_of_bags():
    """How well each method finds the tiles that determine the label."""
    columns = (
        ("presence", "auroc for"),
        ("for and against", "auroc sign"),
        ("for and against", "auroc for"),
    )
    for method, name in (
        ("attention", "attention"),
        ("leave-one-out", "leave-one-out"),
        ("Banzhaf, exact", "exact Banzhaf values"),
        ("Shapley, exact", "exact Shapley values"),
        ("single", "`single`, the logit of the instance alone"),
        ("flip-order", "`flip-order`, weight times (value - threshold)"),
    ):
        cells = [
            f"{the_row('bags', data=data, method=method)[measure]:.3f}" for data, measure in columns
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    settings = stored("bags")["settings"]
    orders = [value for name, value in settings.items() if name.endswith("sampled orders")]
    errors = [value for name, value in settings.items() if name.endswith("their error")]
    yield f"{min(orders):.0f} to {max(orders):.0f} random orders"
    yield f"errors of {min(errors):.2f} to {max(errors):.2f} of the largest value"


def deletion_of_bags():
    """Shares of the best possible deletion curve, with standard errors."""
    share = "deletion, share of the best possible"
    for method, name in (
        ("attention", "attention"),
        ("leave-one-out", "leave-one-out"),
        ("Shapley, exact", "exact Shapley values"),
        ("single", "`single`, the logit of the instance alone"),
        ("flip-order", "`flip-order`, weight times (value - threshold)"),
    ):
        found = [
            the_row("bags", data=data, method=method)
            for data in ("presence", "for and against", "ucsb")
        ]
        cells = [f"{row[share]:.3f} ± {row[f'{share}, standard error']:.3f}" for row in found]
        yield f"| {name} | {' | '.join(cells)} |"


def reasons_of_reviews():
    """How often a reason of a model with six heads is proved to be smallest."""
    case = "500 test reviews, 103 words on average"
    for kind in ("sufficient", "contrastive"):
        share = the_row("reasons", case=case, method=f"{kind} reason")["proved minimal"]
        yield f"{100 * share:.0f}% of the {kind} reasons"


def accuracy_of_the_shipped_model():
    found = {row["reviews"]: row for row in stored("accuracy")["rows"]}
    yield f"**{100 * found['all']['accuracy']:.2f}%** of all {found['all']['number']:,} IMDB test reviews"
    for name, text in (
        ("all", "all"),
        ("up to 255 tokens", "up to 255 tokens"),
        ("longer", "longer"),
        ("25% of tokens deleted", "all, 25% of the tokens deleted"),
        ("50% of tokens deleted", "all, 50%"),
        ("75% of tokens deleted", "all, 75%"),
    ):
        yield f"| {text} | {found[name]['number']:,} | {100 * found[name]['accuracy']:.1f}% |"


def accuracy_of_text_models():
    for corpus in ("R8", "R52", "20 newsgroups", "IMDB"):
        found = [
            the_row("texts", corpus=corpus, classifier=classifier)
            for classifier in ("attention, ours", "TF-IDF + logistic regression", "fastText")
        ]
        cells = [f"{row['accuracy %']:.1f}%" for row in found]
        yield f"| {corpus} | {found[0]['test texts']:,} | {' | '.join(cells)} |"
    errors = [row["standard error %"] for row in stored("texts")["rows"] if row["corpus"] != "IMDB"]
    yield f"With standard errors of {min(errors):.1f} to {max(errors):.1f} points"


def statements_of_the_papers():
    verdicts = [entry.verdict for paper in PAPERS for entry in statements(paper)]
    yield (
        f"Of {len(verdicts)} statements, {verdicts.count(HOLDS)} hold as printed, "
        f"{verdicts.count(CORRECTED)} fail as printed and hold in a corrected form, and "
        f"{verdicts.count(NOT_CHECKABLE)} cannot be checked by a machine."
    )


def times_of_large_inputs():
    slide = the_row("bag_speed", instances=80_000)
    game = the_row("shapley_scaling", players=100_000)
    yield f"a slide with 80,000 instances takes {slide['seconds']:.1f} s"
    yield f"100,000 players take {game['seconds']:.2f} s"


def games_of_the_guarantee():
    (outside,) = [
        bar for bar in stored("guarantee")["bars"] if bar["name"].startswith("outside in")
    ]
    yield f"the results for {outside['name'].removeprefix('outside in ')}"
    yield (
        "None was outside the bound" if outside["measured"] == 0 else "some were outside the bound"
    )


def attacks_on_the_guarantee():
    for name, phrase in (
        ("guarantee", "In {games} games, {outside} results were outside the bound"),
        ("guarantee_links", "in {games} games on the probability scale, {outside}"),
        (
            "guarantee_types",
            "Among {games} games of few types, with up to 5,000 players, {outside}",
        ),
    ):
        record = stored(name)
        (bar,) = [bar for bar in record["bars"] if bar["name"].startswith("outside in")]
        yield phrase.format(
            games=f"{record['settings']['games']:,}", outside=f"{bar['measured']:.0f}"
        )

    ratios = [
        bar["measured"]
        for bar in stored("guarantee_search")["bars"]
        if bar["name"].startswith("largest ratio")
    ]
    yield f"the largest error that it found is {100 * max(ratios):.0f}% of its bound"


def changes_that_tests_notice():
    count = sum(
        len(tomllib.loads((ROOT / ".ci" / name).read_text(encoding="utf-8"))["change"])
        for name in ("proof_changes.toml", "other_changes.toml")
    )
    yield f"There are more than {10 * ((count - 1) // 10)} such changes."


def agreement_with_packages():
    record = stored("lime_defaults")
    share = next(bar for bar in record["bars"] if "4 standard errors" in bar["name"])
    yield f"{record['settings']['runs']} runs of the lime package on each of {len(record['rows'])} texts"
    yield f"{100 * share['measured']:.0f}% of the words are within four standard errors"
    for name, phrase in (
        ("shapley", "one document of 106 words is {:.0e}"),
        ("lime", "that of LIME's limit is {:.0e}"),
    ):
        yield phrase.format(stored(name)["bars"][0]["measured"])


def games_of_few_types():
    record = stored("guarantee_types")
    (outside,) = [bar for bar in record["bars"] if bar["name"].startswith("outside in")]
    largest = max(row["largest ratio"] for row in record["rows"])
    lime = sum(row["games"] for row in record["rows"] if row["function"].startswith("lime"))
    yield (
        f"The stored run has {record['settings']['games']:,} games, {lime:,} of them LIME: "
        f"{outside['measured']:.0f} outside, and the largest error is {100 * largest:.0f}% of its bound"
    )


def review_of_the_readme():
    settings = stored("time_error")["settings"]
    yield f"one film review of {settings['words']} distinct words, the file `{settings['review']}`"
    yield f"begins with “{settings['first words']}”"


def runs_of_lime():
    record = stored("lime_defaults")
    yield f"{record['settings']['runs']} runs of the package on each of {len(record['rows'])} texts"


def coverage_of_a_transformer():
    name = "share of words within two standard errors of the truth"
    (bar,) = [bar for bar in stored("transformer_values")["bars"] if bar["name"] == name]
    yield f"{100 * bar['measured']:.0f}% of the estimates lie within two standard errors"


def time_of_a_transformer():
    row = the_row("transformer_speed", what="one document of 128 tokens")
    yield f"takes {row['seconds']:.0f} s on two cores with its report, of which {row['other seconds']:.1f} s"


FUNCTIONS = {
    function.__name__: function
    for function in (
        maps_of_bags,
        deletion_of_bags,
        reasons_of_reviews,
        accuracy_of_the_shipped_model,
        accuracy_of_text_models,
        statements_of_the_papers,
        times_of_large_inputs,
        time_of_a_transformer,
        coverage_of_a_transformer,
        games_of_the_guarantee,
        attacks_on_the_guarantee,
        changes_that_tests_notice,
        agreement_with_packages,
        games_of_few_types,
        review_of_the_readme,
        runs_of_lime,
    )
}
PASSAGES = [
    pytest.param(match[1], match[2], id=f"{path.name}-{match[1]}")
    for path in MARKED
    for match in MARK.finditer(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("name", "passage"), PASSAGES)
def test_a_passage_has_the_stored_numbers(name, passage):
    plain = " ".join(passage.split())
    assert [sentence for sentence in FUNCTIONS[name]() if sentence not in plain] == []


def test_every_function_has_a_passage():
    assert set(FUNCTIONS) == {passage.values[0] for passage in PASSAGES}
