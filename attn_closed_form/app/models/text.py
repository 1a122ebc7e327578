"""Text to tokens and back: a tokenizer that keeps character spans, and a vocabulary.

A token is

- a word: a run of letters, digits and their marks, with inner apostrophes (don't), in every script
  that separates words by spaces, so accents, umlauts, vowel signs and points stay where they are;
- a rating such as 8/10;
- one of ! and ?;
- one character of Chinese, Japanese, Thai, Lao, Khmer or Burmese with its marks, since no space
  ends a word;
- an emoji or a symbol such as ★, its skin tone and variants aside; a flag, or a family joined by
  zero-width joiners, is one token.

HTML tags, other punctuation and white space are not tokens, but separate them. A token's form is
NFKC, in lower case, with a straight apostrophe (ß stays ß); its span points into the text *as
given*. P1 (appendix F) only mentions "standard tokenization"; this library uses whole words,
because an explanation of word pieces is harder to read.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._arrays import check, run_lengths, whole
from ..._types import Ids

# The special words of our own vocabularies.
CLS = "[CLS]"
# The word that stands for all others.
UNK = "[UNK]"

# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, bopomofo and Chinese
# characters.
_SOLID = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf\u1000-\u102a"
    "\u1780-\u17b3\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Skin tones and variation selectors change how an emoji looks, not what it means.
_TONES = "\ufe0e\ufe0f\U0001f3fb-\U0001f3ff"
# An emoji or a symbol with its variants.
_PICTURE = (
    "[\u203c\u2049\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u25a0-\u25ff\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    f"\U0001f000-\U0001f1e5\U0001f200-\U0001faff][{_TONES}\u20e3]*"
)
# Variants of emoji that are left out of the form of a token.
_DROPPED = re.compile(f"(?<=.)[{_TONES}]")
_NO_TOKEN = r"<[a-zA-Z/!][^<>]*>"  # an HTML tag such as <br />
_RATING = r"\d{1,3}(?:\.\d)?/\d{1,3}(?![\w/])"
# The rest of a word in ASCII.
_ASCII_REST = r"[a-zA-Z0-9]*+(?:'[a-zA-Z0-9]++)*+"
# A token, or a tag, which begins with "<" as no token does. The most frequent alternatives come
# first for speed.
_ASCII = re.compile(rf"([a-zA-Z]{_ASCII_REST}|[!?]|{_NO_TOKEN}|{_RATING}|[0-9]{_ASCII_REST})")


# Only a text with this character can have a rating. Words of ASCII texts without it are runs of
# bytes (`_encode_plain`).
_SLASH_DIGIT = re.compile(r"/\d")
# An HTML tag alone.
_TAG = re.compile(_NO_TOKEN)


# Letters become lower case, and characters outside tokens spaces; the question mark gets a code
# below the digits.
def _lower_code(char: str) -> int:
    """Return the code of an ASCII character in `_LOWER`."""
    if char == "?":
        return ord('"')
    if char.isalnum() or char in "'!":
        return ord(char.lower())
    return ord(" ")


# For each ASCII character its lower case, and a blank for everything that is not part of a word.
_LOWER = bytes(map(_lower_code, map(chr, range(128)))).ljust(256)


@functools.cache
def any_token() -> re.Pattern[str]:
    """Compile the pattern for any text; `_ASCII` finds the same tokens in ASCII several times
    faster.
    """
    # Marks are not \w, but a decomposed accent or a vowel sign must not split a word.
    marks = (
        "".join(c for c in map(chr, range(0x300, 0x11FFF)) if unicodedata.category(c)[0] == "M")
        + "\uff9e\uff9f"
    )
    letter = rf"[^\W_{_SOLID}]"
    run = rf"{letter}+(?:(?:[{marks}]+|[\u200c\u200d](?={letter})){letter}*)*"
    word = rf"{run}(?:['’ʼ]{run})*"
    flag = r"[\U0001f1e6-\U0001f1ff]{1,2}"
    picture = rf"{_PICTURE}(?:\u200d{_PICTURE})*"
    # Most words are in ASCII, even here; a letter or mark outside ASCII must not continue them.
    plain = rf"[a-zA-Z]{_ASCII_REST}(?!'?[^\x00-\x7f])"
    # Chinese and Japanese texts have the wide forms of these marks, which NFKC makes narrow.
    marks_of_sentences = "[!?！？]"
    return re.compile(
        rf"({plain}|{_NO_TOKEN}|{_RATING}|{word}|{marks_of_sentences}|[{_SOLID}][{marks}]*|{flag}|{picture})"
    )


def _pattern_for(text: str) -> re.Pattern[str]:
    """Return the faster of the two patterns that find the tokens of a text."""
    if text.isascii():
        return _ASCII
    return any_token()


def check_text(text: Any) -> None:
    """Raise unless the text is a string."""
    if not isinstance(text, str):
        raise TypeError(f"text: expected a string, got {type(text).__name__}")


def excerpt(text: str) -> str:
    """Return the beginning of a text, for error messages."""
    if not text.strip():
        if not text:
            return "an empty text"
        return "only white space"
    if len(text) > 40:
        text = text[:40] + "…"
    return repr(text)


class Token(NamedTuple):
    """The normal form of a token and its span, `text[start:end]`."""

    word: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens `(word, start, end)`; the character spans are in order, disjoint and
    not empty.

    Examples
    --------
    >>> tokenize("Don't miss it!<br />10/10")  # doctest: +ELLIPSIS
    [Token(word="don't", start=0, end=5), Token(word='miss', start=6, end=10), ..., Token(word='10/10', ...)]
    >>> text = "Ｇｒｅａｔ CAFÉ"
    >>> [(token.word, text[token.start : token.end]) for token in tokenize(text)]
    [('great', 'Ｇｒｅａｔ'), ('café', 'CAFÉ')]
    """  # noqa: E501
    check_text(text)
    raw, spans, _ = spelled([text])
    tokens = map(Token, map(_FORMS.__getitem__, raw), *spans.T.tolist())
    return [token for token in tokens if token.word]


class Spelled(NamedTuple):
    """The tokens and tags of several texts as written, with "" after each text."""

    raw: list[str]
    spans: Ids  # (n, 2) start and end of each token in its text
    counts: Ids  # (texts,) number of tokens of each text, including the ""


def spelled(texts: Iterable[str]) -> Spelled:
    """Find the tokens and tags of several texts."""
    pieces: list[str] = []
    counts = []
    lengths = []
    for text in texts:
        # Splitting returns the text between matches and the matches in turn, so the ends of these
        # pieces are the starts and ends of tokens. The number of pieces is odd, so one more keeps
        # the matches at odd positions over all texts.
        found = _pattern_for(text).split(text)
        found.append("")
        pieces += found
        counts.append(len(found) // 2)
        lengths.append(len(text))
    ends = np.cumsum(np.fromiter(map(len, pieces), np.intp, len(pieces))).reshape(-1, 2)
    begins = np.cumsum(lengths, dtype=np.intp) - lengths
    return Spelled(
        raw=pieces[1::2],
        spans=ends - np.repeat(begins, counts)[:, None],
        counts=np.array(counts, dtype=np.intp),
    )


def split_at_spaces(text: str) -> list[Token]:
    """Return the words of a text that is already split: what is between spaces, unchanged.

    >>> [token.word for token in split_at_spaces("这部 电影 很 好看")]
    ['这部', '电影', '很', '好看']
    """
    return [Token(m[0], m.start(), m.end()) for m in re.finditer(r"\S+", text)]


def words_of(text: str) -> list[str]:
    """Return the words of `tokenize(text)`, without the spans."""
    # A tag has the form "" and is no word.
    return list(filter(None, map(_FORMS.__getitem__, _pattern_for(text).findall(text))))


class _Remembered(dict[str, Any]):
    """A cached function of a spelling.

    A limited number of results is kept, because corpora repeat words.
    """

    def __init__(self, function: Callable[[str], Any]) -> None:
        self.function = function

    def __missing__(self, raw: str) -> Any:
        result = self.function(raw)
        # Limits of the cache of spellings: their length and their number.
        longest_kept = 32
        # Tuning: a corpus repeats far fewer spellings than these, and they take some 10 MB.
        most_kept = 1 << 16
        if len(raw) <= longest_kept and len(self) < most_kept:
            self[raw] = result
        return result


def _form(raw: str) -> str:
    """Return the normal form of a token, or "" for a tag or an empty string."""
    if raw.startswith("<"):
        return ""
    return _normal_form(raw)


# The normal forms of the spellings that were met.
_FORMS = _Remembered(_form)


def _normal_form(raw: str) -> str:
    """Return a spelling in lower case and in the NFKC form of Unicode."""
    if raw.isascii():
        return raw.lower()
    # Lowercasing can undo the composition, and vice versa.
    form = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", raw).lower())
    # NFKC turns a few marks into spaces. A word must not contain spaces or line breaks, which
    # separate words in a file.
    return "".join(_DROPPED.sub("", form.replace("’", "'").replace("ʼ", "'")).split()) or raw


class Encoded(NamedTuple):
    """The concatenated tokens of several texts."""

    places: list[int]  # indices of these texts among the given ones
    ids: Ids  # (n,)
    spans: Ids  # (n, 2) start and end of each token in its text
    counts: Ids  # (texts,) number of tokens of each text


class Vocabulary(tuple[str, ...]):
    """The words of a model, by id. Immutable.

    Parameters
    ----------
    words : D distinct, nonempty words without line breaks
    cls, unk : the token that opens a document and the token for every other word, with the ids
        `cls_id` and `unk_id`; a foreign vocabulary may spell them differently, such as "[cls]" and
        "UNK"

    Examples
    --------
    >>> vocabulary = Vocabulary(["[CLS]", "[UNK]", "a", "fine", "film"])
    >>> vocabulary.encode("A FINE, odd film")
    array([2, 3, 1, 4])
    >>> vocabulary.decode([2, 1])
    ['a', '[UNK]']
    >>> vocabulary.id("film"), vocabulary.id("odd"), len(vocabulary), vocabulary[3]
    (4, 1, 5, 'fine')
    """

    def __new__(kind, words: Iterable[str], *special: str, **named: str) -> Vocabulary:
        """Make a tuple of the words, which `__init__` checks."""
        return super().__new__(kind, words)

    def __init__(self, words: Iterable[str], cls: str = CLS, unk: str = UNK) -> None:
        self.cls = cls
        self.unk = unk
        self._ids: dict[str, int] = {}
        for i, word in enumerate(self):
            if not isinstance(word, str) or not word or "\n" in word:
                raise ValueError(
                    f"words: expected a word without line breaks at id {i}, got {word!r}"
                )
            if self._ids.setdefault(word, i) != i:
                raise ValueError(
                    f"words: expected different words, got {word!r} at ids {self._ids[word]} and "
                    f"{i}"
                )
        for special in (cls, unk):
            check(
                "words", special in self, f"{special} among them", f"{len(self)} words without it"
            )
        self.cls_id = self._ids[cls]
        self.unk_id = self._ids[unk]

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        size: int = 20_000,
        min_count: int = 2,
        groups: Iterable[Hashable] | None = None,
    ) -> Vocabulary:
        """Build the vocabulary of the `size` most frequent words of texts, including [CLS] and
        [UNK] (ids 0 and 1).

        Words seen fewer than `min_count` times are omitted; ties are broken alphabetically. With
        groups, one label per text such as the film that a review is about, a word is counted once
        per group.

        >>> texts = ["bond bond film", "bond bond", "dull film"]
        >>> list(Vocabulary.build(texts, size=3, min_count=1))
        ['[CLS]', '[UNK]', 'bond']
        >>> list(Vocabulary.build(texts, size=3, min_count=1, groups=["007", "007", "other"]))
        ['[CLS]', '[UNK]', 'film']
        """
        whole("size", size, least=2)  # for [CLS] and [UNK]
        documents: Iterable[Iterable[str]] = map(words_of, texts)
        if groups is not None:
            members: dict[Hashable, set[str]] = {}
            for words, group in zip(documents, groups, strict=True):
                members.setdefault(group, set()).update(words)
            documents = members.values()
        counts = Counter(word for words in documents for word in words)
        ranked = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        return cls([CLS, UNK, *(word for _, word in ranked[: size - 2])])

    def id(self, word: str) -> int:
        """Return the id of a word in its normal form, or that of [UNK] if it is not in the
        vocabulary.
        """
        return self._ids.get(word, self.unk_id)

    def encode(self, text: str) -> Ids:
        """Return the (T,) ids of the tokens of `tokenize(text)`; unknown words become [UNK]."""
        return self.encode_words(words_of(text))

    def encode_words(self, words: Iterable[str]) -> Ids:
        """Return the (T,) token ids of words in their normal form."""
        # A text that spells out "[CLS]" tokenizes to "cls", so the special words cannot be forged.
        return np.fromiter(map(self._ids.get, words, itertools.repeat(self.unk_id)), np.intp)

    def encode_many(self, texts: Sequence[str]) -> Iterator[Encoded]:
        """Yield the tokens of many texts, grouped by the way in which they are tokenized."""
        plain = [text.isascii() and not _SLASH_DIGIT.search(text) for text in texts]
        for wanted, encode in ((True, self._encode_plain), (False, self._encode_any)):
            if places := [i for i, is_plain in enumerate(plain) if is_plain == wanted]:
                yield Encoded(places, *encode([texts[i] for i in places]))

    def _encode_any(self, texts: Sequence[str]) -> tuple[Ids, Ids, Ids]:
        """Return the ids (n,) and character spans (n, 2) of all tokens, and the number of tokens
        per text.
        """
        raw, spans, counts = spelled(texts)
        ids = np.fromiter(map(self._id_of_spelling.__getitem__, raw), np.intp, len(raw))
        # Every text has at least the "" at its end, so `reduceat` meets no empty text.
        kept = ids >= 0
        return (
            ids[kept],
            spans[kept],
            np.add.reduceat(kept, np.cumsum(counts) - counts, dtype=np.intp),
        )

    def _encode_plain(self, texts: Sequence[str]) -> tuple[Ids, Ids, Ids]:
        """Do the same twice as fast for ASCII texts without ratings, whose words are runs of
        certain bytes.
        """
        # No token and no tag contains it.
        between = "\n<\n"
        joined = f" {between.join(texts)} "
        lower = bytearray(joined.encode("ascii").translate(_LOWER))
        for tag in _TAG.finditer(joined):
            start, end = tag.span()
            lower[start:end] = b" " * (end - start)
        # A view of the same memory: what is set in `byte` is what `decode` reads below.
        byte = np.frombuffer(lower, np.uint8)
        in_word = byte >= ord("0")
        # An apostrophe belongs to a word if it is between two of its letters.
        apostrophe = np.flatnonzero(byte == ord("'"))
        inner = in_word[apostrophe - 1] & in_word[apostrophe + 1]
        in_word[apostrophe[inner]] = True
        # The codes of ! and ? are the only ones between a blank and an apostrophe (`_LOWER`).
        mark = np.flatnonzero((byte < ord("'")) & (byte > ord(" ")))
        kind = byte[mark]
        byte[apostrophe[~inner]] = byte[mark] = ord(" ")
        # Words begin and end where `in_word` changes; the text begins and ends with a blank.
        spans = (np.flatnonzero(in_word[1:] != in_word[:-1]) + 1).reshape(-1, 2)
        words = lower.decode("ascii").split()
        ids = self.encode_words(words)
        if mark.size:
            # The marks were blanks when the words were split, and return to their places.
            at = np.searchsorted(spans[:, 0], mark)
            ids = np.insert(ids, at, np.where(kind == ord("!"), self.id("!"), self.id("?")))
            spans = np.insert(spans, at, np.stack([mark, mark + 1], axis=1), axis=0)
        lengths = np.array([len(text) + len(between) for text in texts])
        # The joined text begins with a blank.
        begins = 1 + np.cumsum(lengths) - lengths
        counts = run_lengths(np.searchsorted(spans[:, 0], begins), len(spans))
        return ids, spans - np.repeat(begins, counts)[:, None], counts

    @functools.cached_property
    def _id_of_spelling(self) -> _Remembered:
        """Ids by spelling, with -1 for a tag or an empty string."""
        return _Remembered(lambda raw: self.id(form) if (form := _form(raw)) else -1)

    def __getstate__(self) -> dict[str, Any]:
        # A pickle cannot have the function of the cache, and does not need its results.
        return {name: value for name, value in self.__dict__.items() if name != "_id_of_spelling"}

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of ids."""
        numbers = list(ids)
        if numbers and not (min(numbers) >= 0 and max(numbers) < len(self)):
            wrong = next(i for i in numbers if not 0 <= i < len(self))
            raise ValueError(f"ids: expected ids in 0..{len(self) - 1}, got {wrong}")
        return list(map(self.__getitem__, numbers))

    def to_array(self) -> NDArray[np.uint8]:
        """Return the UTF-8 bytes of the words joined by newlines, as stored in a model file."""
        return np.frombuffer("\n".join(self).encode("utf-8"), dtype=np.uint8).copy()

    @classmethod
    def from_array(
        cls, array: NDArray[Any], cls_word: str = CLS, unk_word: str = UNK
    ) -> Vocabulary:
        """Read a vocabulary from the bytes of `to_array`."""
        if array.dtype != np.uint8 or array.ndim != 1:
            raise ValueError(
                f"vocabulary: expected a uint8 array of shape (n,), got {array.dtype} {array.shape}"
            )
        try:
            joined = array.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"vocabulary: expected UTF-8 bytes, got {error}") from None
        return cls(joined.split("\n"), cls_word, unk_word)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"
