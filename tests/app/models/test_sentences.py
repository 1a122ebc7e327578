"""The sentence splitter, on the cases that such splitters get wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_closed_form.app.models.sentences import sentence_numbers, sentences
from attn_closed_form.app.models.text import tokenize

CASES = {
    "plain": ["It is good.", "I liked it!", "Did you?"],
    "abbreviations": ["Mr. Smith met Dr. Jones vs. Prof. Hall.", "He left."],
    "latin": ["Some films, e.g. Alien, are old.", "Others, i.e. Avatar, are new."],
    "initials": ["A film by J. J. Abrams.", "Not by D. W. Griffith."],
    "I is no initial": ["So did I.", "We left."],
    "may end": ["I saw it in the U.S.", "It was fun."],
    "etc.": ["Cars, guns, etc. and so on.", "It has songs, dances, etc.", "We left."],
    "decimals": ["I give it 3.5 out of 10.0.", "Really."],
    "rating at the end": ["7.", "No more."],
    "addresses": ["See imdb.com for more.", "Or not."],
    "ellipsis goes on": ["Well... it was fine."],
    "ellipsis ends": ["Well...", "It was fine."],
    "one character ellipsis": ["Well…", "It was fine."],
    "runs": ["What?!", "No!!!", "Yes."],
    "quotes": ['"It is fun!"', "She left.", "‘Why?’", "He stayed."],
    "quote goes on": ['"Is it fun?" he asked.', "She left."],
    "no full stop": ["It was long"],
    "German": ["Das ist schön.", "Über alles."],
    "Spanish": ["No sé.", "¿Por qué no?", "¡Ya!"],
    "Cyrillic": ["Это хорошо.", "Очень."],
    "digits begin": ["It ended.", "12 people left."],
}


@pytest.mark.parametrize("name", list(CASES))
def test_cases(name):
    text = " ".join(CASES[name])
    assert [text[start:end] for start, end in sentences(text)] == CASES[name]


def test_bracketed_sentence_stands_alone():
    text = "It was long. (Too long.) I left."
    assert [text[a:b] for a, b in sentences(text)] == ["It was long.", "(Too long.)", "I left."]


def test_chinese_and_japanese_have_no_spaces():
    text = "很好看。真的吗？是的！「好。」他说"
    assert [text[a:b] for a, b in sentences(text)] == [
        "很好看。",
        "真的吗？",
        "是的！",
        "「好。」",
        "他说",
    ]


def test_line_breaks():
    text = "A title\n\nFirst line\nstill the same.<br /><br />Second one<p>third"
    expected = ["A title", "First line\nstill the same.", "Second one", "third"]
    assert [text[a:b] for a, b in sentences(text)] == expected


@pytest.mark.parametrize("text", ["", " ", "\n\n", "<br />"])
def test_nothing(text):
    assert sentences(text) == []


def test_only_strings():
    with pytest.raises(TypeError, match=r"^text: "):
        sentences(b"a")


@given(st.text(alphabet="ab AB.!?…\"') \n<br/>。1", max_size=60))
def test_spans_are_ordered_and_leave_nothing_but_space_and_breaks(text):
    spans = sentences(text)
    flat = [place for span in spans for place in span]
    assert flat == sorted(flat)
    assert all(start < end and text[start:end] == text[start:end].strip() for start, end in spans)
    words = tokenize(text)
    if words:
        numbers, found = sentence_numbers(text, [(token.start, token.end) for token in words])
    else:
        numbers = []
        found = []
    for token, number in zip(words, numbers, strict=True):
        assert found[number][0] <= token.start < found[number][1]


def test_numbers_leave_no_gap():
    text = "Good. ... Bad? Fine."
    numbers, found = sentence_numbers(text, [(t.start, t.end) for t in tokenize(text)])
    assert set(numbers.tolist()) == set(range(len(found)))
    assert (np.diff(numbers) >= 0).all()
