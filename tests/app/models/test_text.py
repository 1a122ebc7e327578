"""Tokens, spans, the vocabulary and model files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form import TextClassifier, load_demo_model, load_model, save_model
from attn_closed_form.app.files.arrays import read_arrays, write_arrays
from attn_closed_form.app.files.open_model import load_weights, save_weights
from attn_closed_form.app.models.text import Vocabulary, excerpt, tokenize
from attn_closed_form.attention import random_weights

WORDS = ["[CLS]", "[UNK]", "don't", "café", "10/10", "!", "映画", "straße"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("   \n\t…—“”", []),
        ("Don't STOP!?", ["don't", "stop", "!", "?"]),
        ("so-so, really...", ["so", "so", "really"]),
        ("line<br />break<br/>again<BR>", ["line", "break", "again"]),
        ("<b>bold</b> 1 < 2 > 0", ["bold", "1", "2", "0"]),
        ("I give it 7.5/10. Or 10/10!", ["i", "give", "it", "7.5/10", "or", "10/10", "!"]),
        ("on 9/11/2001", ["on", "9", "11", "2001"]),
        ("_great_ snake_case", ["great", "snake", "case"]),
        ("don’t donʼt 'quoted' rock'n'roll", ["don't", "don't", "quoted", "rock'n'roll"]),
        ("STRASSE Straße GROẞ", ["strasse", "straße", "groß"]),
        ("cafe\u0301 café CAFÉ", ["café", "café", "café"]),
        ("ﬁne Ｇｒｅａｔ", ["fine", "great"]),
        ("İstanbul", ["i\u0307stanbul"]),
        ("映画は最高、本当に", [*"映画は最高本当に"]),
        ("最高！！本当に？", [*"最高!!本当に?"]),
        ("ﾊﾞｶ バカ", ["バ", "カ", "バ", "カ"]),
        ("ดีมาก", ["ดี", "ม", "า", "ก"]),
        ("영화 최고", ["영화", "최고"]),
        ("फ़िल्म अच्छी है।", ["फ़िल्म", "अच्छी", "है"]),
        ("שָׁלוֹם, مرحبًا", ["שָׁלוֹם", "مرحبًا"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("Ğüzel, Ångström; naïveté", ["ğüzel", "ångström", "naïveté"]),
        ("ΟΔΟΣ", ["οδος"]),
        ("a\u00a0b\u200bc", ["a", "b", "c"]),
        ("good👍bad", ["good", "👍", "bad"]),
        ("👍🏽👍 ❤️❤ ★★☆", ["👍", "👍", "❤", "❤", "★", "★", "☆"]),
        ("🇩🇪🇫🇷 👨\u200d👩\u200d👧 🏽", ["🇩🇪", "🇫🇷", "👨\u200d👩\u200d👧", "🏽"]),
        ("[CLS] [UNK]", ["cls", "unk"]),
    ],
)
def test_words(text, words):
    tokens = tokenize(text)
    assert [token.word for token in tokens] == words


def test_spans_point_at_the_letters_that_the_reader_sees():
    text = "Ｇｒｅａｔ!<br />A cafe\u0301, «Straße»… don’t miss: 10/10"
    seen = [text[token.start : token.end] for token in tokenize(text)]
    assert seen == ["Ｇｒｅａｔ", "!", "A", "cafe\u0301", "Straße", "don’t", "miss", "10/10"]


TEXTS = st.text(
    st.sampled_from("aZé\u0301ß’'_/1.5!?<br >&;👍映İﬁ\n-\ud800🏽\ufe0f\u200d🇩ﾞดี") | st.characters(),
    max_size=60,
)


@given(TEXTS)
def test_spans_are_disjoint_ordered_and_hold_their_word(text):
    end = 0
    for token in tokenize(text):
        assert end <= token.start < token.end <= len(text)
        end = token.end
        alone = tokenize(text[token.start : token.end])
        assert [t.word for t in alone] == [token.word]
        assert token.word and not any(c.isspace() for c in token.word)


@given(st.text(st.characters(codec="ascii"), max_size=60) | st.text("ab'10./<br >!?_", max_size=40))
def test_the_pattern_for_ascii_finds_what_the_general_one_finds(text):
    found = [token.word for token in tokenize(text)]
    assert [token.word for token in tokenize(f"{text} é")] == [*found, "é"]


@given(TEXTS)
def test_encode_is_one_id_a_token(text):
    vocabulary = Vocabulary(WORDS)
    tokens = tokenize(text)
    np.testing.assert_array_equal(
        vocabulary.encode(text), vocabulary.encode_words([token.word for token in tokens])
    )
    assert len(vocabulary.encode(text)) == len(tokens)
    assert not np.any(vocabulary.encode(text) == vocabulary.cls_id)


def test_tokenize_wants_a_string():
    with pytest.raises(TypeError, match=r"^text: "):
        tokenize(b"film")


def test_vocabulary_is_a_sequence_with_ids():
    vocabulary = Vocabulary(WORDS)
    assert (
        list(vocabulary) == WORDS
        and len(vocabulary) == 8
        and "café" in vocabulary
        and "cafe" not in vocabulary
    )
    assert vocabulary.decode(vocabulary.encode("CAFÉ don’t exist!")) == [
        "café",
        "don't",
        "[UNK]",
        "!",
    ]
    assert Vocabulary(WORDS) == vocabulary and hash(Vocabulary(WORDS)) == hash(vocabulary)
    assert Vocabulary(WORDS[:-1]) != vocabulary
    with pytest.raises(ValueError, match=r"^ids: "):
        vocabulary.decode([8])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["[CLS]", "a"], "^words: "),
        (["[CLS]", "[UNK]", "a", "a"], "^words: "),
        (["[CLS]", "[UNK]", "a\nb"], "^words: "),
        (["[CLS]", "[UNK]", ""], "^words: "),
        (["[CLS]", "[UNK]", 3], "^words: "),
    ],
)
def test_vocabulary_refuses(words, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(words)


def test_build_counts_and_breaks_ties_by_the_alphabet():
    texts = ["b a c", "c b", "c once"]
    assert list(Vocabulary.build(texts, size=9, min_count=2)) == ["[CLS]", "[UNK]", "c", "b"]
    assert list(Vocabulary.build(texts, size=9, min_count=1))[2:] == ["c", "b", "a", "once"]
    assert Vocabulary.build(texts) == Vocabulary.build(reversed(texts))
    assert list(Vocabulary.build(texts))[2:] == ["c", "b"]
    assert list(Vocabulary.build(["a b c d e f"], size=7, min_count=1))[2:] == [
        "a",
        "b",
        "c",
        "d",
        "e",
    ]
    with pytest.raises(ValueError, match=r"^size: "):
        Vocabulary.build(texts, size=1)


def test_build_by_groups_counts_a_word_once_a_group():
    texts = ["bond bond", "bond", "dull", "dull"]
    assert list(Vocabulary.build(texts, min_count=2, groups=[0, 0, 1, 2]))[2:] == ["dull"]


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n", codec="utf-8"), min_size=1), unique=True
    )
)
def test_vocabulary_round_trip(words):
    words = ["[CLS]", "[UNK]", *(w for w in words if w not in ("[CLS]", "[UNK]"))]
    assert list(Vocabulary.from_array(Vocabulary(words).to_array())) == words


def test_damaged_vocabulary_arrays():
    with pytest.raises(ValueError, match=r"^vocabulary: "):
        Vocabulary.from_array(np.array([0xFF, 0xFE], dtype=np.uint8))
    with pytest.raises(ValueError, match=r"^vocabulary: "):
        Vocabulary.from_array(np.zeros(3))
    with pytest.raises(ValueError, match=r"^vocabulary: "):
        Vocabulary.from_array(np.frombuffer(b"[CLS]\n[UNK]", dtype=np.uint8)[None])


@pytest.mark.parametrize("wrong", [-1, 3, 4])
def test_decode_refuses_ids_of_no_word(wrong):
    vocabulary = Vocabulary(["[CLS]", "[UNK]", "fine"])
    assert vocabulary.decode([2, 0]) == ["fine", "[CLS]"]
    with pytest.raises(ValueError, match=rf"ids: expected ids in 0\.\.2, got {wrong}"):
        vocabulary.decode([2, wrong])


def test_errors_show_the_beginning_of_a_text():
    assert (excerpt(""), excerpt(" \n")) == ("an empty text", "only white space")
    assert excerpt("a" * 40) == repr("a" * 40) and excerpt("a" * 41) == repr("a" * 40 + "…")


def test_the_first_combining_mark_does_not_cut_a_word():
    assert [token.word for token in tokenize("жx\u0300y")] == ["жx\u0300y"]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_model_round_trip(tmp_path, suffix, dtype):
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    weights = random_weights(seed=3, D=8, biases=True)
    vocabulary = Vocabulary(WORDS)
    path = tmp_path / f"model{suffix}"
    save_model(TextClassifier(weights, vocabulary), path, dtype=dtype)
    model = load_model(path)
    loaded = model.weights
    words = model.vocabulary
    assert words == vocabulary and (loaded.cls, loaded.unk) == (0, 1)
    for name, array in weights.arrays().items():
        np.testing.assert_array_equal(getattr(loaded, name), array.astype(dtype).astype(np.float64))
    np.testing.assert_array_equal(load_weights(path).W_e, loaded.W_e)


def test_model_files_that_do_not_fit(tmp_path):
    path = tmp_path / "model.npz"
    vocabulary = Vocabulary(WORDS)
    with pytest.raises(ValueError, match=r"^vocabulary: "):
        save_model(TextClassifier(random_weights(seed=0, D=9), vocabulary), path)
    with pytest.raises(ValueError, match=r"^vocabulary: "):
        save_model(
            TextClassifier(random_weights(seed=0, D=2), Vocabulary(["[UNK]", "[CLS]"])), path
        )
    with pytest.raises(ValueError, match=r"^dtype: "):
        save_model(TextClassifier(random_weights(seed=0, D=8), vocabulary), path, dtype=np.int64)
    with pytest.raises(ValueError, match=r"^dtype: "):
        save_model(
            TextClassifier(random_weights(seed=0, D=8, score_scale=1e6), vocabulary),
            path,
            dtype=np.float16,
        )
    assert not path.exists()
    save_weights(random_weights(seed=0, D=8), path)
    with pytest.raises(ValueError, match=r"model\.npz: expected an array 'vocabulary'"):
        load_model(path)
    save_model(TextClassifier(random_weights(seed=0, D=8), vocabulary), path)
    write_arrays(
        {**read_arrays(path), "vocabulary": np.frombuffer(b"[CLS]\n[UNK]\na\na", dtype=np.uint8)},
        path,
    )
    with pytest.raises(ValueError, match=r"model\.npz: .*words: expected different words"):
        load_model(path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_model(tmp_path / "nowhere.npz")


def test_the_shipped_model_is_small_and_read_once():
    from attn_closed_form.app.files.open_model import DEMO_MODEL

    model = load_demo_model()

    weights = model.weights
    vocabulary = model.vocabulary
    assert DEMO_MODEL.stat().st_size <= 1_000_000
    assert len(vocabulary) == weights.D and weights.C == weights.K == 1 and weights.T_max is None
    assert load_demo_model().weights is weights
