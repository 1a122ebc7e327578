"""Many texts at once have the same tokens, logits and games, to the last bit, as the texts one by
one.
"""

import pickle

import numpy as np
import pytest

from attn_closed_form import TextClassifier, explain, load_demo_model
from attn_closed_form._arrays import numbered
from attn_closed_form.app.explanations.settings import Settings
from attn_closed_form.app.models.text import Token, Vocabulary, tokenize
from attn_closed_form.app.models.text_classifier import numbered_in_runs
from attn_closed_form.attention import random_weights
from tests.profiles import mostly_slow

COMMON = [
    "the",
    "film",
    "was",
    "Wonderful",
    "dull",
    "don't",
    "8/10",
    "<br />",
    "!",
    "CAFÉ",
    "x2",
    "a",
    "zzyzx",
    "it's",
]
RARE = ["", "   ", "…", "one", "<b>", "1/2/3", "dull", "word " * 3000]
RARE += ["映画は最高、本当に", "ดีมาก", "👍🏽👍", "naïve cafe\u0301"]


def texts(n, seed=0):
    """Random texts, among them empty ones, single and repeated words, unknown words, scripts
    without spaces.
    """
    rng = np.random.default_rng(seed)
    drawn = [" ".join(rng.choice(COMMON, size=rng.integers(0, 60))) for _ in range(n)]
    return [*RARE, *drawn[: n // 2], "the film " * 40, *drawn[n // 2 :], ""]


def by_spaces(text):
    """A tokenizer of the user's own."""
    words = text.split(" ")
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    return [
        Token(word.lower(), int(end) - len(word), int(end))
        for word, end in zip(words, ends, strict=True)
        if word
    ]


def random_model(C, T_max, K=1, tokenizer=tokenize):
    words = [
        "[CLS]",
        "[UNK]",
        "the",
        "film",
        "wonderful",
        "dull",
        "don't",
        "!",
        "café",
        "8/10",
        "映",
        "👍",
        "word",
    ]
    weights = random_weights(seed=7, D=len(words), T_max=T_max, K=K, C=C, biases=True)
    return TextClassifier(weights, Vocabulary(words), tokenizer=tokenizer)


MODELS = {
    "shipped": load_demo_model(),
    "positions": random_model(C=3, T_max=23, K=2),
    "many classes": random_model(C=11, T_max=None, K=3),
    "own tokenizer": random_model(C=1, T_max=19, tokenizer=by_spaces),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(
    "settings",
    mostly_slow([Settings(), Settings(players="positions"), Settings(absent="unk")], 1),
    ids=str,
)
def test_many_texts_are_read_and_scored_as_one_by_one(model, settings):
    raws = [*texts(200), None]
    many = model.read_many(raws)
    good = [i for i, units in enumerate(many) if units is not None]
    for i in set(range(len(raws))) - set(good):
        with pytest.raises((ValueError, TypeError), match=r"^text: "):
            model.read(raws[i])
    assert len(good) > 180
    singles = [model.read(raws[i]) for i in good]
    model.prepare_logits([many[i] for i in good])
    chosen = [settings.resolve(model, model.logits(units)) for units in singles]
    model.prepare_games([many[i] for i in good], chosen)
    for i, single, resolved in zip(good, singles, chosen, strict=True):
        units = many[i]
        for name in ("labels", "spans", "unseen", "text"):
            assert getattr(units, name) == getattr(single, name)
        assert units.unknown.tolist() == single.unknown.tolist()
        assert units.places.tolist() == [list(span) for span in units.spans]
        assert units.players(resolved.players)[1] == single.players(resolved.players)[1]
        np.testing.assert_array_equal(
            units.players(resolved.players)[0], single.players(resolved.players)[0]
        )
        assert resolved.game_key in units.computed.games
        assert resolved.game_key not in single.computed.games
        assert model.logits(units).tobytes() == model.logits(single).tobytes()
        assert pickle.dumps(model.pooled_game(units, resolved)) == pickle.dumps(
            model.pooled_game(single, resolved)
        )


def nonsense(n, seed=0):
    """Texts of characters that begin, end and join tokens; without "é" and "1/2" they are read as
    bytes.
    """
    rng = np.random.default_rng(seed)
    return [
        "".join(rng.choice([*"ab Z9!?'<>/._\n\tbx<b >\x00", "'", " "], size=rng.integers(0, 30)))
        for _ in range(n)
    ]


@pytest.mark.parametrize(
    "raws", [texts(50), nonsense(1500), [text + "é 1/2" for text in nonsense(300)]]
)
def test_the_tokens_are_those_of_tokenize(raws):
    model = MODELS["shipped"]
    for raw, units in zip(raws, model.read_many(raws), strict=True):
        tokens = tokenize(raw)
        assert (units is None) == (not tokens)
        if tokens:
            assert units.spans == tuple((token.start, token.end) for token in tokens)
            np.testing.assert_array_equal(units.data, model.vocabulary.encode(raw))


def test_runs_are_numbered_one_by_one(monkeypatch):
    # Blocks of a few runs.
    monkeypatch.setattr("attn_closed_form.app.models.text_classifier.TABLE_CELLS", 40)
    rng = np.random.default_rng(3)
    lengths = np.array([0, 5, 0, 1, 13, 0, 0, 7, 2, 0])
    ids = rng.integers(0, 11, lengths.sum())
    numbers, first = numbered_in_runs(ids, lengths, 11)
    ends = np.cumsum(lengths)
    runs = [slice(int(end - n), int(end)) for end, n in zip(ends, lengths, strict=True)]
    np.testing.assert_array_equal(numbers, np.concatenate([numbered(ids[run])[0] for run in runs]))
    np.testing.assert_array_equal(
        first, np.concatenate([run.start + numbered(ids[run])[1] for run in runs])
    )
    assert [part.size for part in numbered_in_runs(ids[:0], np.zeros(3, dtype=int), 11)] == [0, 0]


def test_a_model_that_has_read_texts_is_the_same_pickle():
    model = random_model(C=1, T_max=None)
    before = pickle.dumps(model.vocabulary)
    model.read_many(texts(20))
    assert pickle.dumps(model.vocabulary) == before
    assert pickle.loads(before).encode("the film").tolist() == [2, 3]


def test_units_of_a_text_survive_a_pickle():
    model = MODELS["shipped"]
    units = pickle.loads(pickle.dumps(model.read("A fine, fine film")))
    assert units.labels == ("a", "fine", "fine", "film") and units.spans[2] == (8, 12)
    assert explain(model, "A fine, fine film", "shapley").labels == ("a", "fine", "film")
