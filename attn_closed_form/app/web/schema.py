"""The fields of requests and answers.

The same pydantic models check the requests and define /openapi.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from ..explanations.methods import METHODS, as_methods
from ..explanations.settings import Settings
from ..show.sanitize import elide

# Maximum size of a body: a text of MAX_CHARACTERS fits unless it consists of escapes.
MAX_BYTES = 128 * 1024
# Maximum length of a text: far more than a person reads at once.
MAX_CHARACTERS = 20_000
# Tuning, maximum number of tokens: memory grows with their square, and 2,000 take 100 MB. Samples
# of 5,000 coalitions need more, so methods that sample have a smaller limit.
MAX_TOKENS = 2_000
# Tuning: the limit for methods that sample 5,000 coalitions, which need more memory per token.
MAX_SAMPLED = 400

#: Statuses other than 200, with their meaning.
STATUSES = {
    400: "The body is not a JSON object, or the Host header is not accepted by the server.",
    411: "The Content-Length is missing.",
    413: f"The body has more than {MAX_BYTES:,} bytes, or the text more than {MAX_CHARACTERS:,} "
    f"characters or {MAX_TOKENS:,} tokens ({MAX_SAMPLED} for methods that sample).",
    415: "The Content-Type is not application/json.",
    422: "A field is missing, unknown or has a wrong value; `field` is its name.",
    503: "The server is shutting down.",
    504: "The answer took too long.",
}


def _limited(text: str) -> str:
    """Check the length of a text."""
    # Field(max_length=...) would reject lone surrogates, which browsers can send.
    if len(text) > MAX_CHARACTERS:
        raise PydanticCustomError(
            "string_too_long", f"expected at most {MAX_CHARACTERS:,} characters, got {len(text):,}"
        )
    return text


def _check_methods(names: str | list[str] | None) -> str | list[str] | None:
    as_methods(names)  # raises a ValueError for an unknown name
    return names


Text = Annotated[
    str, AfterValidator(_limited), Field(json_schema_extra={"maxLength": MAX_CHARACTERS})
]
Span = Annotated[list[int], Field(min_length=2, max_length=2)]
Player = Annotated[int, Field(ge=0)] | Span


class Question(BaseModel):
    """The fields that every request may contain."""

    # Strict means that "5" is not a number and true is not an index.
    model_config = ConfigDict(extra="forbid", strict=True)

    text: Text = Field(description="the text to explain")
    players: str | None = Field(
        None, description="kind of player that gets a score, one of the model's `players`"
    )
    absent: str | None = Field(
        None, description="treatment of removed players, one of the model's `absent`"
    )
    output: int | str | None = Field(
        None, description="a class or its index, or margin:A,B; default: the prediction"
    )
    tol: float = Field(Settings.tol, description="guaranteed accuracy, relative to max|f|")
    seed: int = Field(Settings.seed, description="seed of the sampled methods")
    scale: str | None = Field(
        Settings.scale,
        description='"probability" or "logit"; default: the probability, which is sampled if it '
        "has no exact values",
    )
    max_error: float | None = Field(
        Settings.max_error,
        description="largest standard error of sampled values; default: 0.05 percentage points",
    )

    @property
    def settings(self) -> Settings:
        """The settings of the explanation."""
        return Settings(
            players=self.players,
            absent=self.absent,
            output=self.output,
            tol=self.tol,
            seed=self.seed,
            scale=self.scale,
            max_error=self.max_error,
        )

    @property
    def samples(self) -> bool:
        """Whether a method that samples is requested."""
        return False

    @field_validator("players", "absent", "output", "tol", "seed", "scale", "max_error")
    @classmethod
    def _check_setting(cls, value: Any, info: ValidationInfo) -> Any:
        """Check each setting by itself, so that an error has the name of its field."""
        Settings(**{str(info.field_name): value})
        return value


class ExplainQuestion(Question):
    """A text, the methods to run, and the players to remove."""

    methods: Annotated[str | list[str] | None, AfterValidator(_check_methods)] = Field(
        None,
        description=(
            f'"all" or names among {", ".join(METHODS)}; default: all methods that do not sample'
        ),
    )
    removed: list[Player] = Field(
        [], description="players to remove: indices, or spans [start, end] of an occurrence"
    )

    @property
    def samples(self) -> bool:
        """Whether a method that samples is requested."""
        return self.methods is not None and any(
            method.accuracy == "sampled" for method in as_methods(self.methods)
        )


class CompareQuestion(Question):
    """A text and another one to compare it with."""

    other: Text = Field(description="the text to compare with, which comes first")


class InteractionsQuestion(Question):
    """A text and one of its players."""

    player: Player = Field(description="an index, or the span [start, end] of an occurrence")


class ExplainAnswer(BaseModel):
    """The scores of every player by every method."""

    text: str
    labels: list[str] = Field(description="the players as the model reads them")
    spans: list[list[Span]] = Field(
        description="per player, [start, end] of its occurrences, in code points"
    )
    unknown: list[bool] = Field(description="whether each player is outside the vocabulary")
    unseen: list[Span] = Field(description="spans that the model does not read")
    output: str = Field(description="the explained class or margin of two classes")
    scale: str = Field(description="the explained scale: probability or logit")
    scale_note: str = Field(
        description="the scale in a sentence, with the reason if it is the logit"
    )
    prediction: float = Field(description="the value of the output on that scale")
    baseline: float = Field(description="the value of the output with every player absent")
    logit: float = Field(description="the logit of the prediction, before the temperature")
    logits: list[float]
    probabilities: dict[str, float] | None
    players: str
    absent: str
    methods: dict[str, dict[str, Any]] = Field(
        description=(
            "by method: scores, baseline, label, kind, accuracy, scale, and error, a guaranteed "
            "bound or null"
        )
    )
    removal: dict[str, Any] | None = Field(
        description="the removed players, the prediction without them, its change, and the "
        "forecasts: for each method minus the sum of the scores, and its error"
    )
    figures: dict[str, Any] = Field(
        description="data for drawing: names, colors, positions and ticks"
    )


class WhyAnswer(BaseModel):
    """Certified reasons of the prediction, Owen values of the sentences, and the SLALOM plane."""

    reasons: dict[str, Any] = Field(
        description="sufficient and contrastive reason, bounds, and `sentences` in words"
    )
    sentences: dict[str, Any]
    figures: dict[str, Any] = Field(description="data for drawing")


class CompareAnswer(BaseModel):
    """Two texts side by side: the differences of their words add up to that of the predictions."""

    output: str = Field(description="the explained output, which is that of the other text")
    scale: str
    names: list[str] = Field(description="what the other text and this text are called")
    predictions: list[float] = Field(description="of the other text and of this text")
    baselines: list[float]
    change: float = Field(description="the prediction of this text minus that of the other one")
    words: list[dict[str, Any]] = Field(
        description="word, its scores in both texts (null where it does not occur), and their "
        "difference"
    )
    explanations: list[dict[str, Any]]
    figures: dict[str, Any] = Field(description="data for drawing")


class ReportAnswer(BaseModel):
    """The report as one file."""

    page: str = Field(description="the HTML page")


class InteractionsAnswer(BaseModel):
    """Shapley interactions of one player with every other player, null for the player itself."""

    player: int
    labels: list[str]
    interactions: list[float | None]
    scale: str = Field(description="probability or logit")
    error: float = Field(description="guaranteed bound on the error of each interaction")
    figures: dict[str, Any] = Field(description="data for drawing")


class Error(BaseModel):
    """The body of every status other than 200."""

    error: str
    status: int
    field: str | None = None


class Refusal(Exception):
    """A rejected request, with its HTTP status, message, and the wrong field if there is one."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field


def refusal_of(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    """Summarize the errors of pydantic in one sentence: "field: expected X, got Y".

    >>> from pydantic import ValidationError
    >>> try:
    ...     InteractionsQuestion.model_validate({"text": "fine", "player": True})
    ... except ValidationError as error:
    ...     print(refusal_of([{**e, "loc": ("body", *e["loc"])} for e in error.errors()]))
    player: expected a valid integer or a valid list, got true
    """
    error = errors[0]
    location = error["loc"]
    kind = error["type"]
    if kind == "json_invalid":
        reason = elide(str(error["ctx"]["error"]), 80)
        return Refusal(400, f"body: expected JSON in UTF-8, got {reason}")
    if len(location) < 2:
        return Refusal(400, "body: expected a JSON object")
    field = elide(str(location[1]), 40)
    if kind == "value_error":  # raised by this package, with the field's name in the message
        return Refusal(422, str(error["ctx"]["error"]), field)
    if kind == "string_too_long":
        return Refusal(413, f"{field}: {error['msg']}", field)
    if kind == "missing":
        return Refusal(422, f"{field}: expected a value, got none", field)
    if kind == "extra_forbidden":
        message = f"{field}: expected no such field; /openapi.json lists the fields"
        return Refusal(422, message, field)
    # A field of several types has one error per type: "a valid integer or a valid list".
    alternatives = {
        re.sub(r"^\w+ should (be|have) ", "", other["msg"]): None
        for other in errors
        if other["loc"][:2] == location[:2]
    }
    received = elide(json.dumps(error["input"]), 60)
    return Refusal(422, f"{field}: expected {' or '.join(alternatives)}, got {received}", field)
