"""The API's documentation, from one table: `/openapi.json` for programs and `/api` for people."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import __version__
from ..explanations.methods import DEFAULT_METHODS, METHODS
from ..show.sanitize import escape
from .fields import MAX_BYTES, MAX_CHARACTERS

_PLAYER: dict[str, Any] = {
    "oneOf": [
        {"type": "integer", "minimum": 0},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
    ]
}
_TEXT = {"type": "string", "maxLength": MAX_CHARACTERS}
_NAME = {"type": "string"}
_OUTPUT = {"type": ["string", "integer"]}
_METHODS = {
    "oneOf": [{"type": "array", "items": {"type": "string", "enum": list(METHODS)}, "minItems": 1}, {"const": "all"}],
    "default": list(DEFAULT_METHODS),
}
_SHARED: dict[str, tuple[dict[str, Any], str]] = {
    "text": (
        _TEXT,
        f"the text, at most {MAX_CHARACTERS:,} characters; required, unless there is `input`",
    ),
    "players": (_NAME, "what gets a score, one of the model's `players`, such as words or positions"),
    "absent": (_NAME, "what a removed player becomes, one of the model's `absent`, such as unk or deleted"),
    "output": (_OUTPUT, "a class name or its index, or margin:A,B; without it the predicted class"),
    "tol": ({"type": "number"}, "guaranteed accuracy, relative to max|f|"),
    "seed": ({"type": "integer"}, "of the sampled methods"),
}
REQUESTS: dict[str, dict[str, tuple[dict[str, Any], str]]] = {
    "/api/explain": {
        **_SHARED,
        "methods": (_METHODS, 'a list of names (below), or "all"; without it, all that do not sample'),
        "removed": (
            {"type": "array", "items": _PLAYER, "default": []},
            "players to take away: indices, or spans [start, end] of their occurrences",
        ),
    },
    "/api/why": {**_SHARED},
    "/api/interactions": {**_SHARED, "player": (_PLAYER, "whose interactions: an index or a span; required")},
}
ANSWERS: dict[str, dict[str, tuple[dict[str, Any], str]]] = {
    "/api/explain": {
        "output": ({"type": "string"}, "the class, or the margin of two, that is explained"),
        "prediction": ({"type": "number"}, "its logit for the whole input"),
        "probabilities": ({"type": ["object", "null"]}, "of each class"),
        "logits": ({"type": "array"}, "the model's outputs"),
        "absent_value": ({"type": "number"}, "the logit with every player absent"),
        "labels": ({"type": "array"}, "the d players as the model reads them, [UNK] if it does not know the word"),
        "spans": ({"type": "array"}, "one list per player: [start, end] of its occurrences, in Unicode code points"),
        "unknown": ({"type": "array"}, "which players are outside the vocabulary"),
        "unseen": ({"type": "array"}, "spans beyond what the model can read"),
        "methods": (
            {"type": "object"},
            "by name: scores (d numbers), levels (-4..4, the colours), base_value, error (a guaranteed bound of each "
            "score's error, or null), label, kind, accuracy",
        ),
        "removal": (
            {"type": ["object", "null"]},
            "if something was removed: players, prediction without them, change = prediction without - with, and "
            "forecasts: what each method said the change would be (minus the sum of the scores) and how far off it "
            f"was (error = said - did), for {', '.join(name for name, method in METHODS.items() if method.forecasts)}",
        ),
        "text, players, absent": ({}, "as asked"),
    },
    "/api/why": {
        "reasons": (
            {"type": "object"},
            "what suffices for the prediction without the others, what its flip would take, and the minimum "
            "and maximum prediction over all coalitions, each proved; `sentences` says so in words",
        ),
        "sentences": ({"type": ["object", "null"]}, "Owen values: labels, scores, and the units' scores inside"),
    },
    "/api/interactions": {
        "player": ({"type": "integer"}, "the index of the player asked about"),
        "labels": ({"type": "array"}, "the d players"),
        "interactions": (
            {"type": "array"},
            "d Shapley interactions: positive where two words say more together than each adds alone; null for the "
            "player itself",
        ),
        "error": ({"type": "number"}, "a guaranteed bound of each interaction's error"),
    },
}
SUMMARIES = {
    "/api/why": "Reasons that are proved, and scores of sentences",
    "/api/explain": "Scores of every word by every method, and what removing words does",
    "/api/interactions": "Shapley interactions of one word with all others",
}
ERRORS = {
    400: "the body is not a JSON object",
    404: "no such address",
    405: "wrong HTTP method",
    408: "the body took too long to arrive",
    413: f"the body has more than {MAX_BYTES:,} bytes, or the text more than {MAX_CHARACTERS:,} characters",
    415: "the Content-Type is not application/json",
    421: "the Host is not this machine, though the server is bound to it",
    422: "a field is missing, unknown or has a value that cannot be; `field` names it",
    500: "a fault of the server",
    503: "too many requests at once; try again",
    504: "the answer took too long",
}
EXAMPLE = '{"text": "A slow start, but a wonderful film.", "methods": ["shapley", "lime"], "removed": [5]}'


@cache
def openapi() -> dict[str, Any]:
    """The API in OpenAPI 3.1.

    >>> sorted(openapi()["paths"])
    ['/api/explain', '/api/interactions', '/api/model', '/api/why']
    """
    failure = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    failures = {
        str(status): {"description": text, "content": failure}
        for status, text in ERRORS.items()
        if status not in (404, 405)
    }
    paths: dict[str, Any] = {
        path: {
            "post": {
                "summary": SUMMARIES[path],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": _schema(fields, closed=True)}},
                },
                "responses": {
                    "200": {
                        "description": "computed",
                        "content": {"application/json": {"schema": _schema(ANSWERS[path])}},
                    },
                    **failures,
                },
            }
        }
        for path, fields in REQUESTS.items()
    }
    paths["/api/model"] = {
        "get": {
            "summary": "The model, the limits and the table of methods",
            "responses": {"200": {"description": "known", "content": {"application/json": {"schema": {}}}}},
        }
    }
    error = {
        "type": "object",
        "required": ["error", "status"],
        "properties": {"error": {"type": "string"}, "status": {"type": "integer"}, "field": {"type": "string"}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "attn-closed-form", "version": __version__, "description": "Explanations without sampling."},
        "paths": paths,
        "components": {"schemas": {"Error": error}},
    }


def _schema(fields: dict[str, tuple[dict[str, Any], str]], closed: bool = False) -> dict[str, Any]:
    properties = {name: {**kind, "description": text} for name, (kind, text) in fields.items() if "," not in name}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if closed:
        schema["required"] = [name for name in ("player",) if name in fields]
        schema["additionalProperties"] = False
    return schema


@cache
def reference_page() -> str:
    """The same for people, with the table of methods.

    >>> "<code>slalom-linear</code>" in reference_page()
    True
    """
    parts = []
    for path, fields in REQUESTS.items():
        parts.append(f"<h2><code>POST {path}</code></h2><p>{escape(SUMMARIES[path])}.</p>")
        parts.append(f"<h3>Fields</h3>{_list(fields)}<h3>Answer</h3>{_list(ANSWERS[path])}")
    methods = "".join(
        f"<tr><th scope=row><code>{m.name}</code></th><td>{escape(m.label)}</td><td>{m.accuracy}</td>"
        f"<td>{escape(m.summary)}</td></tr>"
        for m in METHODS.values()
    )
    errors = "".join(f"<tr><th scope=row>{status}</th><td>{escape(text)}</td></tr>" for status, text in ERRORS.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>API · attn-closed-form</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/icon.svg">
<link rel="stylesheet" href="/words.css"><link rel="stylesheet" href="/style.css"></head>
<body><main class="doc"><p><a href="/">Back to the page</a> · <a href="/openapi.json">openapi.json</a></p>
<h1>The numbers as JSON</h1>
<p>Send a JSON object with <code>Content-Type: application/json</code>:</p>
<pre>curl -s http://127.0.0.1:8000/api/explain -H 'Content-Type: application/json' \\
  -d '{escape(EXAMPLE).replace("&quot;", '"')}'</pre>
{"".join(parts)}
<h2><code>GET /api/model</code></h2><p>The model, the limits and the table of methods.</p>
<h2><code>GET /health</code>, <code>GET /metrics</code></h2>
<p>Whether some worker can answer (200 or 503); counts and latencies for Prometheus.</p>
<h2>Methods</h2><div class="scroll"><table class="plain"><tbody>{methods}</tbody></table></div>
<h2>Errors</h2><p><code>{{"error": "a sentence", "status": 422, "field": "text"}}</code></p>
<div class="scroll"><table class="plain"><tbody>{errors}</tbody></table></div>
</main></body></html>
"""


def _list(fields: dict[str, tuple[dict[str, Any], str]]) -> str:
    items = (f"<dt><code>{name}</code></dt><dd>{escape(text)}</dd>" for name, (_, text) in fields.items())
    return f"<dl>{''.join(items)}</dl>"
