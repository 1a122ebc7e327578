"""The table model: its loss and derivatives, the words that it counts, its baseline, and how
settings are chosen.
"""

import numpy as np
import pytest

pytest.importorskip("scipy")

from attn_closed_form import load_model
from attn_closed_form.app.files.tables import Labelled
from attn_closed_form.app.models.text import split_at_spaces, tokenize
from attn_closed_form.app.models.text_classifier import TextClassifier
from jax_model.training import best, table_fit, table_selection, word_tables
from jax_model.training.best import is_better, tries_attention
from jax_model.training.train_tables import (
    TableOptions,
    Texts,
    choose_folds,
    integer_labels,
    named_tokenizer,
    train_tables,
)

WORDS = [["goal", "match"], ["tariff", "export"], ["wheat", "corn"]]


def topics(n=60, classes=3, seed=0):
    """n texts, of which one word tells the class, with class numbers."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    texts = []
    for label in labels:
        words = [*rng.choice(["the", "news", "of"], rng.integers(2, 6)), rng.choice(WORDS[label])]
        texts.append(" ".join(rng.permutation(words)))
    return Labelled(texts, labels, ("sport", "trade", "crops")[:classes])


def plain_loss(tables, documents, words, labels, settings, problem):
    """The loss of the module docstring, text by text: from the formula, without matrices."""
    number = {word: i + 1 for i, word in enumerate(words)}
    total = 0.0
    for document, label in zip(documents, labels, strict=True):
        ids = [number.get(word, 0) for word in document]
        if settings.once:
            ids = sorted(set(ids))
        mass = np.exp(tables.s[ids])
        pooled = (mass[:, None] * tables.v[ids]).sum(axis=0)
        logits = tables.prior + pooled / (mass.sum() + np.exp(tables.s_background))
        if logits.size == 1:
            logits = np.array([0.0, logits[0]])
        total += np.log(np.exp(logits).sum()) - logits[label]
        # The deletion penalty, from the definition of the variance, word by word.
        p = (np.exp(logits) / np.exp(logits).sum())[-tables.v.shape[1] :]
        background = np.exp(tables.s_background)
        evidence = pooled / (mass.sum() + background)
        for word in set(ids):
            attention = ids.count(word) * np.exp(tables.s[word]) / (mass.sum() + background)
            variance = attention**2 * (tables.v[word] - evidence) ** 2
            total += settings.deletion / 2 * (p * (1 - p) * variance).sum()
    total += problem.feature_size(settings.background) / settings.strength / 2 * (tables.v**2).sum()
    distance = (tables.s - problem.log_idf) @ (tables.s - problem.log_idf)
    distance += (tables.s_background - problem.background(settings.background)) ** 2
    return total + settings.penalty * distance


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("once", "deletion"), [(True, 0.0), (False, 0.0), (False, 2.0)])
def test_both_steps_end_at_a_minimum_of_the_loss(classes, once, deletion):
    data = topics(30, classes)
    documents = [text.split() for text in data.texts]
    counts = word_tables.training_counts(documents, 100)
    if once:
        counts = counts.once()
    problem = table_fit.TableProblem(counts, data.labels, classes)
    settings = table_fit.TableSettings(once, 3.0, 0.3, penalty=1.0, deletion=deletion)
    start = problem.convex(settings.strength, settings.background)
    fitted = problem.both(start, settings)

    def loss(tables):
        return plain_loss(tables, documents, counts.words, data.labels, settings, problem)

    def convex_loss(tables):
        plain = settings._replace(deletion=0.0)
        return plain_loss(tables, documents, counts.words, data.labels, plain, problem)

    assert loss(fitted) < loss(start)
    rng = np.random.default_rng(0)
    for _ in range(20):
        moved = fitted._replace(
            s=fitted.s + 0.01 * rng.normal(size=fitted.s.shape),
            v=fitted.v + 0.05 * rng.normal(size=fitted.v.shape),
            s_background=fitted.s_background + 0.01 * rng.normal(),
        )
        assert loss(moved) > loss(fitted)
        fixed_masses = start._replace(v=start.v + 0.05 * rng.normal(size=start.v.shape))
        assert convex_loss(fixed_masses) > convex_loss(start)


@pytest.mark.parametrize("classes", [2, 3])
def test_derivatives_of_the_loss_are_its_differences(classes):
    rng = np.random.default_rng(0)
    documents = [list(rng.choice(list("abcdefghijk"), 7)) for _ in range(29)]
    labels = np.arange(29) % classes
    counts = word_tables.training_counts(documents, 100)
    problem = table_fit.TableProblem(counts, labels, classes, rng.uniform(0.5, 2, 29))
    values = rng.normal(size=(len(counts.words) + 1, problem.outputs))
    masses = np.exp(rng.normal(size=len(values) + 1))
    _, by_values, by_masses = problem.loss(values, masses, 2.0)
    along_values = rng.normal(size=values.shape)
    along_masses = masses * rng.normal(size=masses.shape)
    step = 1e-5
    ends = [
        problem.loss(values + sign * along_values, masses + sign * along_masses, 2.0)[0]
        for sign in (-step, step)
    ]
    slope = (by_values * along_values).sum() + by_masses @ along_masses
    assert (ends[1] - ends[0]) / (2 * step) == pytest.approx(slope, rel=1e-6)


def test_a_sparse_model_gives_words_without_evidence_exactly_zero(tmp_path):
    data = topics(90)
    model = train_tables(data, TableOptions()).model
    model.save(tmp_path / "m.npz", dtype=np.float32)
    model = load_model(tmp_path / "m.npz")
    assert model.card["words_with_mass"] < model.card["words"]
    text = "the news of goal the tariff"
    explanation = model.explain(text, "shapley", output="sport", scale="logit")["shapley"]
    scores = dict(explanation.top(9))
    assert [scores[word] for word in ("the", "news", "of")] == [0.0, 0.0, 0.0]
    assert scores["goal"] > 0.1 > scores["tariff"]
    assert model.card["tokens_without_mass"] == pytest.approx(share_of("the news of", data.texts))
    dense = train_tables(data, TableOptions(sparse=False)).model.card
    assert dense["words_with_mass"] == dense["words"] and dense["tokens_without_mass"] == 0


def share_of(words, texts):
    """The share of the words of texts that are among some words."""
    tokens = [word for text in texts for word in text.split()]
    return np.mean([word in words.split() for word in tokens])


@pytest.mark.parametrize("classes", [2, 3])
def test_frequent_words_without_evidence_lose_their_mass(classes):
    """The gates close for words in four of five texts, but not for "not", which tells the class,
    nor for rarer words.
    """
    rng = np.random.default_rng(0)
    labels = np.arange(300) % classes
    documents = []
    for label in labels:
        document = [word for word in ("the", "of", "it") if rng.random() < 0.8]
        document += [*rng.choice(list("abcdefgh"), 3)]
        if rng.random() < (0.9 if label == 0 else 0.2):
            document.append("not")
        documents.append(document)
    counts = word_tables.training_counts(documents, 100).once()
    problem = table_fit.TableProblem(counts, labels, classes)
    settings = table_fit.TableSettings(True, 10.0, 0.3, penalty=3.0, deletion=1.0, sparse_from=0.45)
    tables = problem.fit(settings)
    massless = np.exp(tables.s) == 0
    names = {word for word, none in zip(counts.words, massless[1:], strict=True) if none}
    assert len(names) >= 2 and names <= {"the", "of", "it"}
    assert (tables.v[massless] == 0).all()


def test_words_lose_their_mass_as_long_as_it_costs_little(monkeypatch):
    data = topics(90)
    texts = Texts.of(data, TableOptions())
    folds = choose_folds(texts, 90, TableOptions())

    def chosen():
        return table_selection.select(*texts[:3], folds, *texts[3:], sparse=True).settings

    assert chosen().sparse_from == table_selection.SPARSE_FROM[-1]
    monkeypatch.setattr(table_selection, "COST_OF_SPARSE", -np.inf)
    assert chosen().sparse_from is None


@pytest.mark.slow  # seven trainings
def test_further_trials_are_the_same_each_time_and_never_worse():
    data = topics(90)
    plain = train_tables(data, TableOptions())
    first, again = (train_tables(data, TableOptions(trials=3)) for _ in range(2))
    assert first.metrics == again.metrics
    np.testing.assert_array_equal(first.model.weights.W_e, again.model.weights.W_e)
    assert first.losses.mean() <= plain.losses.mean()


@pytest.mark.parametrize(("name", "tokenizer"), [("words", tokenize), ("spaces", split_at_spaces)])
def test_a_file_names_its_tokenizer(tmp_path, name, tokenizer):
    assert named_tokenizer(name) is tokenizer
    options = TableOptions(tokenizer=tokenizer)
    data = Labelled(["很 好看", "太 难看 了"] * 9, np.arange(18) % 2, ("good", "bad"))
    model = train_tables(data, options).model
    model.save(tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.tokenizer is tokenizer
    assert ("好看" in loaded.vocabulary) == (name == "spaces")
    np.testing.assert_array_equal(
        loaded.predict_logits(data.texts), model.predict_logits(data.texts)
    )


def test_a_file_with_a_tokenizer_of_the_user_asks_for_it(tmp_path):
    def at_commas(text):
        return [token._replace(word=token.word.strip(",")) for token in split_at_spaces(text)]

    data = Labelled(["fine, film", "dull, film"] * 9, np.arange(18) % 2, ("good", "bad"))
    model = train_tables(data, TableOptions(tokenizer=at_commas)).model
    model.save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="tokenizer"):
        load_model(tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz", tokenizer=at_commas)
    np.testing.assert_array_equal(
        loaded.predict_logits(data.texts), model.predict_logits(data.texts)
    )


def test_a_model_is_better_if_its_losses_are_clearly_smaller():
    rng = np.random.default_rng(0)
    losses = rng.uniform(0.1, 0.9, 100)
    others = losses + 0.1 * rng.normal(size=100)
    assert not is_better(others + 0.1, losses)
    assert not is_better(others - others.mean() + losses.mean() - 0.001, losses)
    assert is_better(others - 0.1, losses)


def test_many_texts_are_worth_the_attention_model():
    assert tries_attention(best.MANY_TEXTS, TableOptions())
    assert not tries_attention(best.MANY_TEXTS - 1, TableOptions())
    assert not tries_attention(best.MANY_TEXTS, TableOptions(tokenizer=split_at_spaces))


@pytest.mark.parametrize("of_unknown", [word_tables.MASSLESS, -1.0])
def test_only_words_that_the_tables_know_have_no_mass(of_unknown):
    tables = word_tables.WordTables(
        s=np.array([of_unknown, word_tables.MASSLESS, 0.5]),
        v=np.zeros((3, 1)),
        s_background=2.0,
        prior=np.zeros(1),
    )
    fitted = word_tables.FittedTables(("the", "film"), tables)
    found = fitted.massless(["[CLS]", "[UNK]", "the", "film", "rare"])
    assert found.tolist() == [False, of_unknown == word_tables.MASSLESS, True, False, False]


def test_the_classifier_computes_what_the_tables_say():
    data = topics(40)
    documents = [text.split() for text in data.texts]
    counts = word_tables.training_counts(documents, 100)
    tables = table_fit.TableProblem(counts, data.labels, 3).convex(10.0, 0.3)
    model = TextClassifier(
        word_tables.attention_weights(tables), word_tables.vocabulary_of(counts.words), data.classes
    )
    expected = tables.logits(word_tables.count_words(documents, counts.words))
    assert np.abs(model.predict_logits(data.texts) - expected).max() < 1e-5
    assert np.allclose(model.predict_logits([""])[0], tables.prior, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [[0] * 30 + [1] * 10, [0] * 5 + [1] * 25 + [2] * 12])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_baseline_is_the_class_prior(labels, seed):
    labels = np.array(labels)
    texts = [f"{WORDS[label][i % 2]} the news number {i % 7}" for i, label in enumerate(labels)]
    data = Labelled(texts, labels, ("sport", "trade", "crops")[: labels.max() + 1])
    model = train_tables(data, TableOptions(seed=seed)).model
    prior = np.bincount(labels) / len(labels)
    assert np.abs(model.predict_proba([""])[0] - prior).max() < 1e-6
    assert model.temperature == 1
    balanced = train_tables(data, TableOptions(seed=seed, class_weight="balanced")).model
    assert np.abs(balanced.predict_proba([""])[0] - 1 / len(prior)).max() < 1e-6


def test_words_of_one_text_are_unknown_words():
    documents = [["a", "film"], ["a", "play"], ["a", "film", "film"], ["odd"]]
    counts = word_tables.training_counts(documents, 100)
    assert counts.words == ("a", "film")
    assert counts.matrix.toarray().tolist() == [[0, 1, 1], [1, 1, 0], [0, 1, 2], [1, 0, 0]]
    assert counts.once().matrix.toarray()[2].tolist() == [0, 1, 1]
    assert counts.idf == pytest.approx(np.log(5 / (1 + np.array([2, 3, 2]))) + 1)
    assert word_tables.choose_words(documents, 1) == ("a",)


@pytest.mark.slow
def test_words_that_only_occur_in_texts_of_one_kind_shape_unknown_words():
    """Every text of one class has a word that occurs nowhere else."""
    texts = [f"the news unique{i}" if i % 2 else "the news" for i in range(60)]
    data = Labelled(texts, np.arange(60) % 2, ("plain", "odd"))
    model = train_tables(data, TableOptions()).model
    assert model.predict(["the news neverseen", "the news"]).tolist() == ["odd", "plain"]


def test_the_simplest_candidate_within_one_standard_error():
    losses = {
        "simple": np.array([1.0, 1.2, 0.9, 1.1]),
        "middle": np.array([0.92, 1.08, 0.9, 1.0]),
        "best": np.array([0.9, 1.1, 0.8, 1.05]),
    }
    assert table_selection.simplest(list(losses), losses.__getitem__) == "middle"


def texts_of(count, words=1):
    return Texts([["word"] * words] * count, np.arange(count) % 2, 2, 100, None)


def test_folds():
    labels = np.arange(100) % 2
    few = choose_folds(texts_of(100), 100, TableOptions())
    assert len(few) == 5
    assert sorted(np.concatenate([fold.held_out for fold in few])) == list(range(100))
    for fold in few:
        assert not set(fold.training) & set(fold.held_out)
        assert abs(labels[fold.held_out].mean() - 0.5) <= 0.1
    assert len(choose_folds(texts_of(1000), 1000, TableOptions())) == 3
    (large,) = choose_folds(texts_of(5000, 400), 5000, TableOptions(validation=0.2))
    assert large.held_out.size == 1000
    (given,) = choose_folds(texts_of(100), 80, TableOptions())
    assert given.held_out.tolist() == list(range(80, 100))
    # Two texts of each class are enough.
    pairs = choose_folds(texts_of(4), 4, TableOptions())
    assert sorted(np.concatenate([fold.held_out for fold in pairs])) == list(range(4))


def test_the_progress_never_exceeds_the_number_of_trials():
    """Texts that are easy to tell apart try every strength."""
    documents = [text.split() for text in topics(n=24, classes=2).texts]
    labels = np.arange(24) % 2
    folds = table_selection.cross_validation(labels, 2, 2, seed=0)
    calls = []
    table_selection.select(
        documents, labels, 2, folds, 100, trials=1, progress=lambda *call: calls.append(call)
    )
    done, totals = map(list, zip(*calls, strict=True))
    assert len(set(totals)) == 1
    assert done[:-1] == list(range(1, len(done)))
    assert done[-2] <= done[-1] == totals[0]


@pytest.mark.parametrize("once", [False, True])
def test_the_final_fit_counts_words_as_was_chosen(once):
    documents = [["good", "good", "film"], ["dull", "film"], ["good"], ["dull", "dull", "the"]]
    labels = np.array([1, 0, 1, 0])
    settings = table_fit.TableSettings(once=once, strength=1.0, background=0.5)
    nothing = np.zeros(0)
    selection = table_selection.Selection(settings, nothing, nothing.astype(int), 1.0, nothing)

    def values(texts):
        return table_selection.fit_tables(texts, labels, 2, selection, 100).tables.v

    of_sets = values([list(dict.fromkeys(document)) for document in documents])
    assert np.allclose(values(documents), of_sets) == once


def test_a_class_that_is_never_recognized_is_named():
    texts = ["the news of today"] * 120
    labels = np.array([0] * 114 + [1] * 6)
    with pytest.warns(UserWarning, match="rare"):
        train_tables(Labelled(texts, labels, ("common", "rare")), TableOptions())


def test_classes_that_are_integers():
    assert integer_labels(("0", "7", "-1")) == (0, 7, -1)
    assert not integer_labels(("0", "1.0")) and not integer_labels(("-0", "1"))
    assert not integer_labels(("٣", "1")) and not integer_labels(("", "1"))
