"""From a sentence to explanations: `explain` reads a text, plays its game once, and asks every method for scores.

An `Explanation` is plain data (scores of players, and where the players stand in the text) with ways out: `to_dict`,
`to_shap`, `to_lime`, `to_shapiq` (see `interop.py`) and `_repr_html_` (see `html.py`). Players are words (every
occurrence together, P1 section 5.1) or positions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._types import Array, Ids, Span
from ..classifier.score_tables import TruncationWarning
from ..classifier.weights import AttentionWeights
from ..explainable.text import Vocabulary, tokenize
from ..game.pooled_game import PooledGame
from ..game.shapley import shapley_interactions
from .case import Case
from .methods import METHODS, Method, as_methods


class Document(NamedTuple):
    """A text as the model reads it.

    `text[start:end]` of each span is a token; the first T of them are seen, the others fall beyond T_max - 1.
    """

    text: str
    ids: Ids  # (T,) of the tokens that are seen
    spans: tuple[Span, ...]  # (T,)
    unseen: tuple[Span, ...]

    @property
    def seen_until(self) -> int:
        """Where in the text the model stops reading."""
        return self.unseen[0][0] if self.unseen else len(self.text)


def read_document(weights: AttentionWeights, vocabulary: Vocabulary, text: str, stacklevel: int = 2) -> Document:
    """Tokens of a text, cut to what the model can read (with a `TruncationWarning`); an error if there is none.

    >>> from attn_closed_form import random_weights
    >>> vocabulary = Vocabulary(["[CLS]", "[UNK]", "fine"])
    >>> read_document(random_weights(seed=0, D=3), vocabulary, "so fine").ids
    array([1, 2])
    """
    if len(vocabulary) != weights.D:
        raise ValueError(f"vocabulary: expected D={weights.D} words, one a row of W_e, got {len(vocabulary)}")
    tokens = tokenize(text)
    if not tokens:
        raise ValueError(f"text: expected at least one word, got {_shorten(text)}")
    room = weights.T_max - 1
    if room < 1:
        raise ValueError("weights: expected room for at least one token, got T_max = 1")
    if len(tokens) > room:
        warnings.warn(
            f"text of {len(tokens)} tokens: the model has room for {room}, the last {len(tokens) - room} are not seen",
            TruncationWarning,
            stacklevel=stacklevel + 1,
        )
    spans = tuple((token.start, token.end) for token in tokens)
    return Document(text, vocabulary.encode_tokens(tokens[:room]), spans[:room], spans[room:])


def _shorten(text: str, limit: int = 40) -> str:
    if not text.strip():
        return "an empty text" if not text else "only white space"
    return repr(text if len(text) <= limit else text[:limit] + "…")


class Occurrence(NamedTuple):
    """A token's place in the text, `text[start:end]`, and the player that it belongs to."""

    start: int
    end: int
    player: int


@dataclass(frozen=True, eq=False)
class Explanation:
    """Scores of the players of one document by one method.

    Attributes
    ----------
    method : name in `METHODS`
    text : the text as given
    tokens : d words as the model reads them, so "[UNK]" for one outside its vocabulary
    spans : d tuples of character spans: where each player occurs in `text`
    scores : (d,) float64, read-only
    base_value : what the scores are relative to: f with every player absent, the intercept for LIME, f of the
        document for a derivative
    prediction : f of the document
    error : guaranteed bound of the error of each score; None where the method has none to give (see
        `METHODS[method].accuracy`: closed forms round like any float64, estimates and samples are not bounded)
    players, absent, output : what was asked (see `pooled_game`)
    unseen : character spans of tokens beyond what the model reads
    game : the game behind it, for `interactions`

    Examples
    --------
    >>> from attn_closed_form import random_weights
    >>> vocabulary = Vocabulary(["[CLS]", "[UNK]", "a", "fine", "film"])
    >>> e = explain(random_weights(seed=0, D=5), vocabulary, "A fine, fine film", "shapley")["shapley"]
    >>> e.tokens, e.spans[1]
    (('a', 'fine', 'film'), ((2, 6), (8, 12)))
    >>> bool(np.isclose(e.base_value + e.scores.sum(), e.prediction))
    True
    """

    method: str
    text: str
    tokens: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
    scores: Array
    base_value: float
    prediction: float
    error: float | None
    players: str
    absent: str
    output: int
    unknown: tuple[bool, ...]
    unseen: tuple[Span, ...] = ()
    game: PooledGame | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("spans", "scores", "unknown"):
            if len(getattr(self, name)) != len(self.tokens):
                raise ValueError(f"{name}: expected {len(self.tokens)}, one a token, got {len(getattr(self, name))}")
        self.scores.flags.writeable = False

    @property
    def info(self) -> Method:
        """The method's entry in the table: label, kind, accuracy, summary."""
        return METHODS[self.method]

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Every seen token in the order of the text, with its player."""
        places = (Occurrence(*span, j) for j, spans in enumerate(self.spans) for span in spans)
        return tuple(sorted(places))

    @cached_property
    def strength(self) -> Array:
        """(d,) colours: the scores scaled to [-1, 1], see `Method.strength`."""
        return self.info.strength(self.scores)

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """The n strongest players, strongest first, with their scores."""
        order = np.argsort(-np.abs(self.strength), kind="stable")[:n]
        return [(self.tokens[j], float(self.scores[j])) for j in order]

    def interactions(self, tol: float = 1e-10) -> Array:
        """(d, d) Shapley interactions of the same players (see `shapley_interactions`)."""
        if self.game is None:
            raise ValueError("game: expected an explanation made by explain, which keeps its game, got none")
        return shapley_interactions(self.game, tol)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for `json.dumps`."""
        return {
            "method": self.method,
            "label": self.info.label,
            "accuracy": self.info.accuracy,
            "tokens": list(self.tokens),
            "spans": [[list(span) for span in spans] for spans in self.spans],
            "scores": self.scores.tolist(),
            "unknown": list(self.unknown),
            "base_value": self.base_value,
            "prediction": self.prediction,
            "error": self.error,
            "players": self.players,
            "absent": self.absent,
            "output": self.output,
            "unseen": [list(span) for span in self.unseen],
            "text": self.text,
        }

    def to_shap(self) -> Any:
        """A `shap.Explanation`, for shap's plots; needs the `interop` extra."""
        from ..show.interop import to_shap

        return to_shap(self)

    def to_lime(self) -> Any:
        """A lime `Explanation`, for `as_list`, `as_html`, `as_pyplot_figure`; needs the `interop` extra."""
        from ..show.interop import to_lime

        return to_lime(self)

    def to_shapiq(self, order: int = 1) -> Any:
        """A `shapiq.InteractionValues` of order 1, or 2 for Shapley interactions; needs the `interop` extra."""
        from ..show.interop import to_shapiq

        return to_shapiq(self, order)

    def _repr_html_(self) -> str:
        from ..show.report import fragment

        return fragment([self])


class Explanations(dict[str, Explanation]):
    """Explanations of one text by method name: a dict that a notebook shows as P1's Figure 1."""

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, with what all methods share said once."""
        first = next(iter(self.values())).to_dict()
        own = ("method", "label", "accuracy", "scores", "base_value", "error")
        shared = {key: value for key, value in first.items() if key not in own}
        each = {name: {key: e.to_dict()[key] for key in own if key != "method"} for name, e in self.items()}
        return {**shared, "methods": each}

    def _repr_html_(self) -> str:
        from ..show.report import fragment

        return fragment(list(self.values()))


def explain(
    weights: AttentionWeights,
    vocabulary: Vocabulary,
    text: str,
    methods: str | Iterable[str] | None = None,
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    tol: float = 1e-10,
    seed: int = 0,
) -> Explanations:
    """Explanations of a text by several methods.

    Parameters
    ----------
    weights, vocabulary : the model, for instance `load_demo_model()`
    text : a sentence or a document. What lies beyond the model's T_max - 1 tokens is not seen (`TruncationWarning`)
    methods : a name, several, "all", or None for all that do not sample; see `METHODS`
    players : "words", every occurrence of a word together, or "positions"; scores that belong to positions
        (attention, gradients) are summed over a word's occurrences. All words outside the vocabulary are one player
    absent : what an absent player means for the game methods: "unk", [UNK] in its place, or "deleted"
    output : which of the C outputs
    tol : accuracy of the guaranteed methods, relative to max|f|. Where float64 cannot keep it, it is loosened by
        powers of ten; `Explanation.error` says what holds
    seed : of the sampled methods

    Returns
    -------
    Explanations, a dict from method name to `Explanation`, in the order asked

    Examples
    --------
    >>> from attn_closed_form import random_weights
    >>> vocabulary = Vocabulary(["[CLS]", "[UNK]", "a", "fine", "film"])
    >>> explanations = explain(random_weights(seed=0, D=5), vocabulary, "A fine film", ["shapley", "alpha-avg"])
    >>> [(name, e.scores.shape) for name, e in explanations.items()]
    [('shapley', (3,)), ('alpha-avg', (3,))]
    """
    chosen = as_methods(methods)
    document = read_document(weights, vocabulary, text)
    return explain_document(weights, vocabulary, document, chosen, players, absent, output, tol, seed)


def explain_document(
    weights: AttentionWeights,
    vocabulary: Vocabulary,
    document: Document,
    methods: Iterable[Method],
    players: str = "words",
    absent: str = "unk",
    output: int = 0,
    tol: float = 1e-10,
    seed: int = 0,
) -> Explanations:
    """`explain` for a document that `read_document` made."""
    case = Case(weights, document.ids, players, absent, output, tol, seed)
    d = case.game.d  # builds the game, and with it checks players, absent and output
    spans: list[list[Span]] = [[] for _ in range(d)]
    for span, j in zip(document.spans, case.player_of, strict=True):
        spans[j].append(span)
    own_ids = [int(label) for label in case.game.labels]
    shared: dict[str, Any] = {
        "text": document.text,
        "tokens": tuple(vocabulary.decode(own_ids)),
        "spans": tuple(map(tuple, spans)),
        "prediction": case.prediction,
        "players": players,
        "absent": absent,
        "output": output,
        "unknown": tuple(i == weights.unk for i in own_ids),
        "unseen": document.unseen,
        "game": case.game,
    }
    found = Explanations()
    for method in methods:
        scored = method.score(case)
        found[method.name] = Explanation(
            method=method.name,
            scores=np.asarray(scored.scores, dtype=np.float64),
            base_value=scored.base_value,
            error=scored.error,
            **shared,
        )
    return found
