"""Text classifiers that average word vectors: a linear layer on their mean is a pooled game of
equal masses.

With vectors e of the tokens, f = W mean(e) + b = sum_i (1/n) W e_i + b: every vector has the
log-mass 0 and the value W e. A word with k vectors (a fastText word and its subwords) has the
log-mass log k and the mean of their values. So the exact methods apply to fastText, to
`EmbeddingBag(mode="mean")` with a linear layer, and to a logistic regression on static embeddings.
Models with a sum, with a layer or a normalization after the mean, or with word n-grams are not
pooled games.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._arrays import check, choice, finite, numbered, real
from ..._shapes import axis_sizes, set_fields
from ..._types import Array
from ...game.scores import PooledScores
from ..files.arrays import read_state
from .protocol import TextModel
from .text import Token, check_text, excerpt, tokenize
from .units import Units


class Piece(NamedTuple):
    """A token of a text with its name, its character span and the rows of its vectors."""

    label: str
    start: int
    end: int
    rows: Sequence[int]


Reader = Callable[[str], Sequence[Piece]]
# Types that `as_reader` accepts: words in the order of their rows, a mapping of words to rows, or a
# function.
Readable = Reader | Mapping[str, int] | Sequence[str]


@dataclass(frozen=True)
class VocabularyReader:
    """A reader of the words of a text that are in a vocabulary."""

    rows: Mapping[str, int]  # word -> row of its vector
    tokenizer: Callable[[str], Sequence[Token]] = tokenize
    unknown: int | None = None  # row for words outside the vocabulary; None leaves them out

    def __call__(self, text: str) -> list[Piece]:
        """Return the pieces of a text, one row each."""
        tokens = ((*token, self.rows.get(token[0], self.unknown)) for token in self.tokenizer(text))
        return [
            Piece(label=word, start=start, end=end, rows=(row,))
            for word, start, end, row in tokens
            if row is not None
        ]


# The axes of the arrays: V vectors of length D, C outputs.
TEXT_AXES: dict[str, tuple[str, ...]] = {"bias": ("C",), "W": ("C", "D"), "embeddings": ("V", "D")}


@dataclass(frozen=True, eq=False)
class MeanPooledText(TextModel):
    """A linear layer on the mean of word vectors. The class methods load models
    from other libraries.

    Attributes
    ----------
    embeddings : (V, D) vectors, whose type is kept
    W, bias : (C, D) and (C,) of the linear layer
    reader : text -> pieces; `VocabularyReader`, `FastTextReader`, or any function
    background : rows of vectors that are part of every text, such as fastText's end of line
    outputs, temperature, loss : as in `Model`

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, 0.1]])
    >>> words = {"good": 0, "bad": 1, "film": 2}
    >>> model = MeanPooledText(
    ...     vectors, np.array([[2.0, 0.0]]), np.zeros(1), VocabularyReader(words), ("no", "yes")
    ... )
    >>> model.predict_logits(["A good film", "A bad film"])
    array([[ 1.],
           [-1.]])
    >>> explanation = model.explain("A good film", "shapley")["shapley"]
    >>> dict(zip(explanation.labels, explanation.scores.round(3).tolist(), strict=True))
    {'good': 0.306, 'film': -0.075}
    """

    embeddings: NDArray[Any]
    W: Array
    bias: Array
    reader: Reader
    outputs: tuple[str, ...] = ()
    background: tuple[int, ...] = ()
    temperature: float = 1.0
    loss: str = "softmax"

    groupings = ("words", "positions")
    absences = ("deleted",)

    def __post_init__(self) -> None:
        arrays = {
            "W": finite("W", self.W),
            "bias": finite("bias", self.bias),
            # A view of the embeddings, which may take most of the memory.
            "embeddings": real("embeddings", self.embeddings).view(),
        }
        sizes = axis_sizes(arrays, TEXT_AXES)
        set_fields(self, arrays)
        self.name_outputs(sizes["C"])
        choice("loss", self.loss, ("softmax", "sigmoid"))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle does not say that an array is read-only.
        set_fields(self, state)

    @classmethod
    def from_state_dict(
        cls,
        source: str | os.PathLike[str] | Mapping[str, Any],
        reader: Readable,
        outputs: Sequence[str] | None = None,
        temperature: float = 1.0,
    ) -> MeanPooledText:
        """Load a state dict with one averaged embedding and one linear layer (`EmbeddingBag` and
        `Linear`).

        Parameters
        ----------
        source : a file or a state dict, such as `embedding.weight` (V, D), `fc.weight` (C, D),
            `fc.bias` (C,)
        reader : words in the order of their rows, a mapping of words to rows, or a function (see
            `Reader`)
        """
        state = read_state(source)
        vectors = state.layers(".*embedding.*")
        layers = state.layers("(?!.*embedding).*")
        if len(vectors) != 1 or len(layers) != 1:
            raise ValueError(
                f"{state.source}: expected one embedding and one linear layer, got "
                f"{state.summary()}"
            )
        W, bias = state.linear(layers[0])
        # The embeddings may be large; `StateDict.array` would copy them to float64.
        state.leave(f"{vectors[0]}.weight")
        state.check_all_read("a mean of vectors under a linear layer lacks")
        embeddings = state.arrays[f"{vectors[0]}.weight"]
        return cls(
            embeddings, W, bias, as_reader(reader), tuple(outputs or ()), temperature=temperature
        )

    @classmethod
    def from_linear(
        cls,
        embeddings: NDArray[Any],
        classifier: Any,
        reader: Readable,
        outputs: Sequence[str] | None = None,
    ) -> MeanPooledText:
        """Build a model from static embeddings and a scikit-learn linear classifier fitted on their
        plain means.
        """
        coef = np.atleast_2d(finite("coef_", classifier.coef_))
        # Without an intercept, scikit-learn has the number 0 instead of an array.
        bias = np.broadcast_to(finite("intercept_", classifier.intercept_), (len(coef),))
        if outputs is None:
            outputs = getattr(classifier, "classes_", ())
        return cls(embeddings, coef, bias, as_reader(reader), tuple(map(str, outputs)))

    def read(self, raw: Any) -> Units:
        """Read the pieces of a text that have vectors, or raise an error if there are none."""
        check_text(raw)
        pieces = [piece for piece in self.reader(raw) if len(piece.rows)]
        check("text", len(pieces) > 0, "at least one word of the vocabulary", excerpt(raw))
        labels = tuple(piece.label for piece in pieces)
        return Units(
            labels=labels,
            groups={"words": numbered(labels)[0], "positions": np.arange(len(labels))},
            data=[piece.rows for piece in pieces],
            text=raw,
            places=np.array([(piece.start, piece.end) for piece in pieces], dtype=np.intp),
        )

    def scores(self, units: Units) -> PooledScores:
        """Return the scores: the mass of a piece is its number of vectors, and its value is the
        mean of theirs.
        """
        s, v = self._pieces(units.data)
        background: dict[str, Any] = {}
        if self.background:
            s_background, v_background = self._pieces([self.background])
            background = {"s_background": s_background[:, 0], "v_background": v_background[:, 0]}
        return PooledScores(s, v, self.bias, **background)

    def _pieces(self, rows: Sequence[Sequence[int]]) -> tuple[Array, Array]:
        """Return the log-masses (1, n) and values (C, n) of pieces."""
        sizes = np.array([len(piece) for piece in rows])
        flat = np.array([row for piece in rows for row in piece], dtype=np.intp)
        V = len(self.embeddings)
        fits = flat.min() >= 0 and flat.max() < V
        check("reader", fits, f"rows below {V}", f"{flat.min()}..{flat.max()}")
        values = self.W @ np.asarray(self.embeddings[flat], dtype=np.float64).T
        starts = np.cumsum(sizes) - sizes
        # No piece is empty (`read`); `reduceat` would give an empty one a vector of the next.
        sums = np.add.reduceat(values, starts, axis=1)
        return np.log(sizes)[None], sums / sizes


def as_reader(value: Readable) -> Reader:
    """Convert a function or a vocabulary to a reader."""
    if callable(value):
        return value
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence):
        raise TypeError(
            "reader: expected words, a mapping of words to rows or a function, got "
            f"{type(value).__name__}"
        )
    if isinstance(value, Mapping):
        return VocabularyReader(dict(value))
    return VocabularyReader({word: row for row, word in enumerate(value)})
