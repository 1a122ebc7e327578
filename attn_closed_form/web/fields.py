"""What a request may say: limits, and checks of every field at the door.

A `Refusal` carries the status and the sentence that the client reads. Too much is 413, a field that cannot be is 422,
a body that is no JSON object is 400.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from .._types import Span
from ..explanations.methods import METHODS, Method, as_methods, find_method
from ..explanations.settings import Settings
from ..show.sanitize import elide

MAX_BYTES = 128 * 1024  # of a body; a text of MAX_CHARACTERS fits, unless it is all escapes
MAX_CHARACTERS = 20_000  # of a text; the shipped model reads about 1,500

# The settings that a request may choose.
SETTINGS = ("players", "absent", "output", "tol", "seed")

# A player as a request names it: its index, or the span [start, end] of one of its occurrences.
Named = int | Span


class Refusal(Exception):
    """A request that is not answered: HTTP status, sentence, and the field at fault if there is one."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field


class Question(NamedTuple):
    """A checked request. `removed` is for /api/explain, `player` for /api/interactions."""

    raw: Any
    methods: tuple[Method, ...]
    settings: Settings = Settings()
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


def question(data: Mapping[str, Any], player: bool = False) -> Question:
    """Check every field.

    Parameters
    ----------
    data : the request's object
    player : whether this is about one player (`player` instead of `methods` and `removed`)

    >>> question({"text": "fine", "methods": ["shapley"]}).methods[0].label
    'Shapley'
    """
    allowed = ["text", "input", *SETTINGS, *(["player"] if player else ["methods", "removed"])]
    for name in data:
        if name not in allowed:
            raise Refusal(422, f"expected fields among {', '.join(allowed)}, got {_show(name)}", elide(name, 40))
    if ("text" in data) == ("input" in data):
        raise Refusal(
            422, "text: expected a value, got none" if "text" not in data else "input: not beside text", "text"
        )
    if player and "player" not in data:
        raise Refusal(422, "player: expected a value, got none", "player")
    return Question(
        raw=_text(data["text"]) if "text" in data else data["input"],
        methods=_methods(data.get("methods")),
        settings=_settings(data),
        removed=_removed(data.get("removed", [])),
        player=_named("player", data["player"]) if player else 0,
    )


def _settings(data: Mapping[str, Any]) -> Settings:
    try:
        return Settings(**{name: data[name] for name in SETTINGS if data.get(name) is not None})
    except ValueError as error:
        raise Refusal(422, str(error), str(error).partition(":")[0]) from None


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
            if not isinstance(name, str) or find_method(name) is None:
                raise Refusal(422, f"methods: expected names among {', '.join(METHODS)}; got {_show(name)}", "methods")
    return as_methods(names)


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


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    names: dict[type, str] = {str: "a string", list: "a list", dict: "an object", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")


def _show(value: Any) -> str:
    return elide(json.dumps(value), 60)
