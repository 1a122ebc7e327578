"""Probes on the activations of a language model: which tokens made the probe fire.

A probe reads the activations of one layer, a vector for each token, and pools them: with attention,
with a softmax of its own scores, or by their mean. It is a network that pools a bag
(`bag_network.py`) whose instances have a text. The activations are frozen: an absent token is left
out of the pooling, and the activations of the others stay as they are. So an explanation is of the
probe and not of the language model, in which every token changes those after it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._arrays import check, numbered
from ..._types import Array, Ids
from ...game.hidden_layer import HiddenLayer
from ...game.scores import PooledScores
from ...game.tails import Tail
from .bag import Bag
from .bag_classifier import BagClassifier, BagUnits
from .protocol import Model
from .sentences import sentence_numbers
from .target import Target
from .units import Units

# What one output of a probe is about: the property fires, or it does not.
DETECTED = ("no", "yes")
# The role at the beginning of a turn, up to the end of its line or of its header.
ROLE = re.compile(r"\s*([A-Za-z_]{1,20})\s*(?:\n|<\|)")
# Tuning: tokens from which on sentences are explained by default. A report of as many tokens takes
# about as long as a reader waits, and nobody reads one of more (benchmarks/probes).
MANY_TOKENS = 20_000
# Tuning: a longer sentence, such as a table or a program without a full stop, is cut into parts of
# so many tokens, which are about a paragraph.
MOST_TOKENS_OF_SENTENCE = 128
# A piece of WordPiece that continues a word.
CONTINUES_MARK = "##"


def _byte_of_character() -> dict[str, int]:
    """Return the byte for each character of a byte-level tokenizer, which writes unprintable bytes
    as characters above 255.
    """
    # These bytes are written as themselves, and the others as characters from 256 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    table |= {chr(256 + number): byte for number, byte in enumerate(others)}
    return table


# The byte for each character of byte-level tokenizers, such as those of GPT-2, Llama 3 and Qwen.
BYTES = _byte_of_character()


@dataclass(frozen=True, eq=False)
class Activations:
    """Activations of n tokens, with the tokens as their tokenizer writes them.

    Attributes
    ----------
    features : (n, D) real numbers
    tokens : the n tokens: pieces of a byte-level, SentencePiece or WordPiece tokenizer, pieces of
        text with their spaces, or words without any
    turns : (n,) number or name of the turn of each token; None finds the turns of common chat
        templates

    Examples
    --------
    >>> given = Activations(np.zeros((3, 2)), ["ĠHello", "Ġwor", "ld"])
    >>> given.text, given.spans, given.words.tolist()
    ('Hello world', [(0, 5), (6, 9), (9, 11)], [0, 1, 1])
    """

    features: NDArray[Any]
    tokens: Sequence[str]
    turns: ArrayLike | None = None

    def __post_init__(self) -> None:
        bag = Bag(self.features)
        object.__setattr__(self, "features", bag.features)
        object.__setattr__(self, "tokens", tuple(map(str, self.tokens)))
        count = len(self.tokens)
        check("tokens", count == len(bag), f"{len(bag)} tokens, one per row of activations", count)
        if self.turns is not None:
            given = np.asarray(self.turns)
            check("turns", given.shape == (count,), f"{count} turns, one per token", given.shape)

    @cached_property
    def _joined(self) -> str:
        """All tokens as they are written, in which a mark is found sooner than token by token."""
        return "".join(self.tokens)

    @cached_property
    def _pieces(self) -> tuple[str, list[int]]:
        """The text of all tokens, and the place where each begins, followed by the length."""
        # A space and a line break as these tokenizers write them; one of them is in every text.
        byte_marks = ("\u0120", "\u010a")
        if any(mark in self._joined for mark in byte_marks):
            return _decoded(self.tokens)
        pieces = list(self.tokens)
        # The marker of a space before a token in SentencePiece, and of a piece that continues a
        # word in WordPiece.
        space_mark = "\u2581"
        if space_mark in self._joined:
            pieces = [token.replace(space_mark, " ") for token in pieces]
        elif CONTINUES_MARK in self._joined and any(
            token.startswith(CONTINUES_MARK) for token in pieces
        ):
            pieces = [_after_wordpiece(token) for token in pieces]
        elif not any(token[:1].isspace() or token[-1:].isspace() for token in pieces):
            # Tokens without any white space are words.
            pieces = [f" {token}" for token in pieces]
        if pieces and pieces[0].startswith(" "):
            pieces[0] = pieces[0][1:]
        starts = np.cumsum([0, *map(len, pieces)]).tolist()
        return "".join(pieces), starts

    @property
    def text(self) -> str:
        """The text of all tokens."""
        return self._pieces[0]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The characters of each token in `text`, without white space around them."""
        text, starts = self._pieces
        spans = []
        for start, end in pairwise(starts):
            piece = text[start:end]
            first = end - len(piece.lstrip())
            last = start + len(piece.rstrip())
            if first >= last:  # white space alone
                first, last = start, end
            spans.append((first, last))
        return spans

    @cached_property
    def words(self) -> Ids:
        """The number of the word of each token: a token after white space begins a word."""
        text, starts = self._pieces
        begins = []
        for start, (first, last) in zip(starts[:-1], self.spans, strict=True):
            is_space = text[first:last].isspace()
            # The span of a token with white space in front begins after it.
            at_start = start == 0 or first > start or is_space
            begins.append(at_start or text[start - 1].isspace())
        return np.cumsum(begins) - 1

    @cached_property
    def turn_numbers(self) -> tuple[Ids, tuple[str, ...]] | None:
        """The (n,) number of each token's turn and the names of the turns; None without turns."""
        if self.turns is not None:
            given = np.asarray(self.turns)
            numbers, first = numbered(given)
            return numbers, tuple(str(given[i]) for i in first)
        # Tokens at which a turn begins in the chat templates of Qwen and others (ChatML), Llama 3
        # and 4, and Gemma.
        turn_starts = ("<|im_start|>", "<|start_header_id|>", "<|header_start|>", "<start_of_turn>")
        if not any(mark in self._joined for mark in turn_starts):
            return None
        begins = np.array([token.strip() in turn_starts for token in self.tokens])
        if not begins.any():
            return None
        # What precedes the first mark is a turn, too.
        begins[0] = True
        numbers = np.cumsum(begins) - 1
        names = []
        # Characters after the beginning of a turn among which its role is looked for.
        role_room = 40
        for turn, place in enumerate(np.flatnonzero(begins).tolist(), 1):
            start = self.spans[place][1]
            role = ROLE.match(self.text[start : start + role_room])
            names.append(f"turn {turn} ({role[1]})" if role else f"turn {turn}")
        return numbers.astype(np.intp), tuple(names)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        n, D = self.features.shape
        return f"Activations(n={n}, D={D}, {self.features.dtype})"


def _passages(text: str, spans: Sequence[tuple[int, int]]) -> tuple[Ids, tuple[str, ...]]:
    """Return the sentence of each token, numbered in order, and the texts of the sentences.

    A sentence of very many tokens is cut.
    """
    sentences, _ = sentence_numbers(text, spans)
    first = np.flatnonzero(np.diff(sentences, prepend=-1))
    place_in_sentence = np.arange(len(spans)) - first[sentences]
    begins = place_in_sentence % MOST_TOKENS_OF_SENTENCE == 0
    numbers = (np.cumsum(begins) - 1).astype(np.intp)
    starts = np.flatnonzero(begins)
    lasts = np.append(starts[1:], len(spans)) - 1
    texts = tuple(
        _visible(text[spans[i][0] : spans[j][1]])
        for i, j in zip(starts.tolist(), lasts.tolist(), strict=True)
    )
    return numbers, texts


def _visible(token: str) -> str:
    """Return the name of a token, in which spaces and line breaks alone are written out."""
    if token and not token.isspace():
        return token
    return token.replace("\n", "\\n").replace(" ", "␣") or "␣"


def _after_wordpiece(token: str) -> str:
    """Return a piece of WordPiece with the space before it, if it begins a word."""
    if token.startswith(CONTINUES_MARK):
        return token.removeprefix(CONTINUES_MARK)
    return f" {token}"


def _decoded(tokens: Sequence[str]) -> tuple[str, list[int]]:
    """Return the text of byte-level tokens, and the character at which each token begins.

    A character may consist of bytes of several tokens; it then belongs to the first one.
    """
    parts = []
    for token in tokens:
        if all(character in BYTES for character in token):
            parts.append(bytes(BYTES[character] for character in token))
        else:
            parts.append(token.encode("utf-8", "replace"))  # a special token with other characters
    data = b"".join(parts)
    if data.startswith(b" "):
        data = data[1:]
        parts[0] = parts[0][1:]
    ends = np.cumsum([0, *map(len, parts)])
    text = data.decode("utf-8", "replace")
    # The bytes before each character of the text, of which those that are replaced count once.
    lengths = np.array([_width(character) for character in text], dtype=np.intp)
    if int(lengths.sum()) != len(data):
        # Some bytes are not UTF-8: every token is decoded alone.
        pieces = [part.decode("utf-8", "replace") for part in parts]
        return "".join(pieces), np.cumsum([0, *map(len, pieces)]).tolist()
    offsets = np.cumsum(np.concatenate([[0], lengths]))
    return text, np.searchsorted(offsets, ends).tolist()


def _width(character: str) -> int:
    """Return the bytes of a character in UTF-8."""
    return len(character.encode("utf-8", "replace"))


@dataclass(frozen=True, eq=False)
class ProbeClassifier(Model):
    """A probe on activations, whose explanations are of tokens, words, sentences and turns.

    Attributes
    ----------
    classifier : the probe as a classifier of bags
    outputs, temperature, loss : those of the classifier

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = {
    ...     "context_query.weight": rng.normal(size=(1, 4)),
    ...     "classifier.weight": rng.normal(size=(1, 4)),
    ... }
    >>> probe = ProbeClassifier.from_state_dict(state)
    >>> given = Activations(rng.normal(size=(3, 4)), ["please", "help", "me"])
    >>> found = probe.explain(given, "shapley")
    >>> found.labels, found.text, found.output in ("yes", "no")
    (('please', 'help', 'me'), 'please help me', True)
    """

    classifier: BagClassifier
    outputs: tuple[str, ...] = field(init=False)
    temperature: float = field(init=False)
    loss: str = field(init=False)

    groupings = ("tokens", "words", "turns", "sentences")
    absences = ("deleted",)
    input_name = "list of activations"

    def __post_init__(self) -> None:
        for name in ("outputs", "temperature", "loss"):
            object.__setattr__(self, name, getattr(self.classifier, name))

    @classmethod
    def from_state_dict(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        layout: str = "auto",
        outputs: Sequence[str] | None = None,
        **options: Any,
    ) -> ProbeClassifier:
        """Open the file, the state dict or the module of a probe.

        Parameters
        ----------
        source, layout, **options : as in `BagClassifier.from_state_dict`
        outputs : names of the classes; of a probe with one output by default "no" and "yes"
        """
        model = BagClassifier.from_state_dict(source, layout, outputs, **options)
        # These names mean that neither the file nor the user has named the classes.
        if model.network.Q == 1 and outputs is None and model.outputs == ("0", "1"):
            model = BagClassifier.from_state_dict(source, layout, DETECTED, **options)
        return cls(model)

    def read(self, raw: Any) -> Units:
        """Read `Activations`, or a pair of an array (n, D) and n tokens."""
        if not isinstance(raw, Activations):
            is_pair = isinstance(raw, tuple) and len(raw) == 2
            check("input", is_pair, "Activations, or a pair (array, tokens)", type(raw).__name__)
            raw = Activations(*raw)
        spans = raw.spans
        text = raw.text
        groups: dict[str, Ids] = {"tokens": np.arange(len(raw))}
        names: dict[str, tuple[str, ...]] = {}
        words = raw.words
        groups["words"] = words
        first = np.flatnonzero(np.diff(words, prepend=-1))
        last = np.append(first[1:], len(words)) - 1
        names["words"] = tuple(
            _visible(text[spans[i][0] : spans[j][1]]) for i, j in zip(first, last, strict=True)
        )
        turns = raw.turn_numbers
        if turns is not None:
            groups["turns"], names["turns"] = turns
        groups["sentences"], names["sentences"] = _passages(text, spans)
        return BagUnits(
            labels=tuple(_visible(text[start:end]) for start, end in spans),
            groups=groups,
            data=Bag(raw.features),
            text=text,
            places=np.array(spans, dtype=np.intp).reshape(-1, 2),
            group_labels=names,
        )

    def default_players(self, units: Units) -> str:
        """Return the tokens of a short text, and the sentences of a long one."""
        if len(units.labels) > MANY_TOKENS:
            return "sentences"
        return "tokens"

    @property
    def tail(self) -> Tail | None:
        """What follows the pooling."""
        return self.classifier.tail

    @property
    def hidden_layer(self) -> HiddenLayer | None:
        """The tail, if it is one hidden layer behind which logits have exact values."""
        return self.classifier.hidden_layer

    @property
    def most_heads(self) -> int:
        """The number of heads that an output needs at most."""
        return self.classifier.most_heads

    @property
    def doubts(self) -> str:  # type: ignore[override]
        """Unchecked assumptions about the file; "" if there are none."""
        return self.classifier.doubts

    def scores(self, units: Units) -> PooledScores:
        """Return the log-masses and values of the tokens."""
        return self.classifier.scores(units)

    def inside(self, name: str, units: Units, target: Target) -> Any:
        """Return attention or gradients by method name, or None for other names."""
        return self.classifier.inside(name, units, target)

    def predict_logits(self, inputs: Any) -> Array:
        """Return the (n, C) logits of several texts, each `Activations`."""
        return np.array([self.logits(self.read(raw)) for raw in self.several(inputs)])

    def __repr__(self) -> str:
        network = self.classifier.network
        facts = self.doubts or f"D={network.D}, H={network.H}"
        return f"ProbeClassifier({self.classifier.layout}: outputs={self.outputs}; {facts})"
