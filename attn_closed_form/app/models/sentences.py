"""Sentences of a text: a small splitter by punctuation, and the sentence of every unit.

A sentence ends

- after a run of . ! ? … (and closing quotes and brackets) before white space, unless the run is a
  single period after an abbreviation (Mr., e.g.) or a single letter (J. Smith), or a lowercase
  letter follows;
- after a full stop of Chinese or Japanese (。！？), with or without a space after it;
- at an empty line, and at HTML's <br /> and <p>, which reviews use for line breaks; a single line
  break is white space.

A period inside a number (3.5) or an address (imdb.com) and an ellipsis in mid-sentence (well... no)
do not end a sentence. The list of abbreviations has common English ones. A wrong split moves a
boundary, but never changes the score of a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..._types import Ids, Span
from .text import check_text

# Abbreviations before a name or a number: a capital letter after them does not begin a sentence.
_ABBREVIATIONS = re.compile(
    r"mrs?|ms|dr|prof|[sj]r|st|rev|hon|gen|col|capt|lt|sgt|maj|gov|sen|rep|pres|messrs|mme|mlle|vs|etc|e\.?g|i\.?e|cf|al|"
    r"nos?|vols?|figs?|eds?|pp|ch|chap|sec|dept|est|approx|inc|ltd|co|corp|bros|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|"
    r"dec|mon|tue|wed|thu|fri|sat|sun|[ap]\.m|u\.s|u\.k|u\.s\.a|d\.c"
)
# Abbreviations that often end a sentence: a capital letter after them does begin a new one.
_MAY_END = re.compile(r"etc|inc|ltd|co|corp|[sj]r|[ap]\.m|u\.s|u\.k|u\.s\.a|d\.c|al")
# Quotation marks and brackets that close, inside of a character class.
_CLOSING = "\"'”’»)\\]}」』）】"
# Time is linear in the text: every run of punctuation or white space is tried at its first
# character only (the lookbehinds), and never again with fewer characters (the possessive
# quantifiers).
_BREAK = re.compile(
    rf"(?P<solid>[。！？｡]+[{_CLOSING}]*)"
    rf"|(?<![.!?…])(?P<stop>[.!?…]++)(?P<close>[{_CLOSING}]*+)(?=\s|<|$)"
    r"|(?<!\s)(?P<line>(?:\s*+<\s*+(?:br|p|/p)\b[^<>]*+>)++\s*+"
    r"|[^\S\n]*+\n[^\S\n]*+\n\s*+)",
    re.IGNORECASE,
)
# The word before a period, with the periods inside of it.
_WORD = re.compile(r"[\w.'’]*$")
# White space and opening marks after an end, and the first character after them.
_NEXT = re.compile(r"\s*(?:[\"'“‘«(\[{¿¡「『（]\s*)*(\S?)")


def sentences(text: str) -> list[Span]:
    """Return the character spans of the sentences of a text, in order, without the white space
    between them.

    Examples
    --------
    >>> text = 'Mr. Lee gave it 7.5 stars... why? "It is fun!" he said. See imdb.com.'
    >>> [text[start:end] for start, end in sentences(text)]
    ['Mr. Lee gave it 7.5 stars... why?', '"It is fun!" he said.', 'See imdb.com.']
    >>> sentences(" ")
    []
    """
    check_text(text)
    breaks = [
        match
        for match in _BREAK.finditer(text)
        if match["line"] or match["solid"] or _ends(text, match)
    ]
    # Punctuation belongs to the sentence that it ends, and a line break to none.
    ends = [match.start() if match["line"] else match.end() for match in breaks]
    spans = zip([0, *(match.end() for match in breaks)], [*ends, len(text)], strict=True)
    return [span for span in (trimmed(text, *span) for span in spans) if span[0] < span[1]]


def _ends(text: str, match: re.Match[str]) -> bool:
    """Whether punctuation before white space ends a sentence."""
    following = _NEXT.match(text, match.end())
    first = ""
    if following:
        first = following[1]
    if not first or first == "<":
        return True
    if first.islower():
        return False  # "stars... why", "(sic!) he said"
    if match["stop"] != "." or match["close"]:
        return True
    end = match.start()
    # The word before a period is looked for among so many characters. Every abbreviation is
    # shorter, so a longer word, which is cut, is none of them.
    word_room = 16
    before = _WORD.search(text[max(0, end - word_room) : end])
    word = ""
    if before:
        word = before[0].casefold()
    if len(word) == 1 and word.isalpha() and word != "i":  # an initial
        return False
    if _MAY_END.fullmatch(word):
        return first.isupper()
    return _ABBREVIATIONS.fullmatch(word) is None


def trimmed(text: str, start: int, end: int) -> Span:
    """Return the span without white space at its ends; if nothing remains, the end is before the
    start.
    """
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))


def sentence_numbers(text: str, spans: Sequence[Span]) -> tuple[Ids, list[Span]]:
    """Return the sentence of every unit, numbered without gaps, and the spans of the sentences that
    have a unit.

    A unit, given by its character span, belongs to the sentence in which it begins.
    """
    all_sentences = sentences(text)
    starts = [start for start, _ in all_sentences]
    # Without the first start, what precedes it belongs to the first sentence, too.
    number = np.searchsorted(starts[1:], [start for start, _ in spans], side="right")
    used, numbers = np.unique(number, return_inverse=True)
    return numbers.astype(np.intp), [all_sentences[i] for i in used.tolist()]
