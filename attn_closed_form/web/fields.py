"""What a request may say: limits, and checks of every field at the door.

A `Refusal` carries the status and the sentence that the client reads. Too much is 413, a field that cannot be is 422,
a body that is no JSON object is 400.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from .._types import Span
from ..classifier.weights import AttentionWeights
from ..explainable.text import Vocabulary, tokenize
from ..explanations.explanation import Document
from ..explanations.methods import METHODS, Method, as_methods
from ..show.sanitize import elide

MAX_BYTES = 128 * 1024  # of a body; a text of MAX_CHARACTERS fits, unless it is all escapes
MAX_CHARACTERS = 20_000  # of a text; the shipped model reads about 1,500

# A player as a request names it: its index, or the span [start, end] of one of its occurrences.
Named = int | Span


class Refusal(Exception):
    """A request that is not answered: HTTP status, sentence, and the field at fault if there is one."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field


class Question(NamedTuple):
    """A checked request. `removed` is for /api/explain, `player` for /api/interactions."""

    text: str
    methods: tuple[Method, ...]
    players: str = "words"
    absent: str = "unk"
    output: int = 0
    removed: tuple[Named, ...] = ()
    player: Named = 0


def read_json(body: bytes) -> dict[str, Any]:
    """The object in a body.

    >>> read_json(b'{"text": "fine"}')
    {'text': 'fine'}
    """
    try:
        data = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:  # not UTF-8, no JSON, NaN, a number too long, nested too deep
        raise Refusal(400, f"body: expected JSON in UTF-8, got {elide(str(error) or 'something else', 80)}") from None
    if not isinstance(data, dict):
        raise Refusal(400, f"body: expected a JSON object, got {_kind(data)}")
    return data


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is not JSON")


def question(data: Mapping[str, Any], outputs: int, player: bool = False) -> Question:
    """Check every field.

    Parameters
    ----------
    data : the request's object
    outputs : C, the number of the model's outputs
    player : whether this is about one player (`player` instead of `methods` and `removed`)

    >>> question({"text": "fine", "methods": ["shapley"]}, outputs=1).methods[0].label
    'Shapley'
    """
    allowed = ["text", "players", "absent", "output", *(["player"] if player else ["methods", "removed"])]
    for name in data:
        if name not in allowed:
            raise Refusal(422, f"expected fields among {', '.join(allowed)}, got {_show(name)}", elide(name, 40))
    for name in ("text", "player") if player else ("text",):
        if name not in data:
            raise Refusal(422, f"{name}: expected a value, got none", name)
    return Question(
        text=_text(data["text"]),
        methods=_methods(data.get("methods")),
        players=_choice("players", data.get("players", "words"), ("words", "positions")),
        absent=_choice("absent", data.get("absent", "unk"), ("unk", "deleted")),
        output=_output(data.get("output", 0), outputs),
        removed=_removed(data.get("removed", [])),
        player=_named("player", data["player"]) if player else 0,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Refusal(422, f"text: expected a string, got {_kind(value)}", "text")
    if len(value) > MAX_CHARACTERS:
        raise Refusal(413, f"text: expected at most {MAX_CHARACTERS:,} characters, got {len(value):,}", "text")
    return value


def _methods(value: Any) -> tuple[Method, ...]:
    names = [value] if isinstance(value, str) and value != "all" else value
    if names is not None and names != "all":
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise Refusal(422, f'methods: expected a list of names or "all", got {_kind(value)}', "methods")
        for name in names:
            if name not in METHODS:
                raise Refusal(422, f"methods: expected names among {', '.join(METHODS)}; got {_show(name)}", "methods")
    return as_methods(names)


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise Refusal(422, f"{name}: expected {' or '.join(map(_show, choices))}, got {_show(value)}", name)
    return value


def _output(value: Any, outputs: int) -> int:
    if not _is_integer(value) or not 0 <= value < outputs:
        raise Refusal(422, f"output: expected an integer in 0..{outputs - 1}, got {_show(value)}", "output")
    return int(value)


def _removed(value: Any) -> tuple[Named, ...]:
    if not isinstance(value, list):
        raise Refusal(422, f"removed: expected a list of players, got {_kind(value)}", "removed")
    return tuple(_named("removed", item) for item in value)


def _named(field: str, value: Any) -> Named:
    if _is_integer(value):
        return int(value)
    if isinstance(value, list) and len(value) == 2 and all(map(_is_integer, value)):
        return int(value[0]), int(value[1])
    raise Refusal(422, f"{field}: expected a player's index or a span [start, end], got {_show(value)}", field)


def find_player(field: str, named: Named, spans: tuple[tuple[Span, ...], ...]) -> int:
    """Index of a player, given its index or the span of an occurrence.

    >>> find_player("player", (5, 9), (((0, 4),), ((5, 9), (10, 14))))
    1
    """
    if isinstance(named, int):
        if not 0 <= named < len(spans):
            raise Refusal(422, f"{field}: expected a player in 0..{len(spans) - 1}, got {_show(named)}", field)
        return named
    for j, own in enumerate(spans):
        if named in own:
            return j
    raise Refusal(422, f"{field}: expected the span of a token that the model reads, got {_show(named)}", field)


def read_text(weights: AttentionWeights, vocabulary: Vocabulary, text: str) -> Document:
    """`read_document` without its warning: the answer names what is not seen, and warnings are not made for threads."""
    tokens = tokenize(text)
    if not tokens:
        raise Refusal(422, "text: expected at least one word, got none", "text")
    room = weights.T_max - 1
    spans = tuple((token.start, token.end) for token in tokens)
    return Document(text, vocabulary.encode_tokens(tokens[:room]), spans[:room], spans[room:])


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    names: dict[type, str] = {str: "a string", list: "a list", dict: "an object", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _show(value: Any) -> str:
    return elide(json.dumps(value), 60)
