"""The effect of a word over many documents: its mean score, with a 95% interval, and its strongest
example.

A word counts once per document. Its score there is the sum over its players. The interval of a mean
is mean +- 1.96 standard errors. It describes other documents like these, if there are many; it does
not describe errors of the scores, which are exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# The standard errors in half of a 95% interval of the normal distribution.
HALF_WIDTH = 1.96
# What a list of words can be ordered by: the sum of the scores of a word, or their mean.
ORDERS = ("total", "mean")


class Mean(NamedTuple):
    """A mean, and half of its 95% interval, which is None for one document."""

    value: float
    half_width: float | None

    @classmethod
    def of_sums(cls, n: int, total: float, squares: float) -> Mean:
        """Return the mean of n numbers from their sum and the sum of their squares.

        >>> Mean.of_sums(3, 6.0, 18.0).value, round(Mean.of_sums(3, 6.0, 18.0).half_width, 4)
        (2.0, 1.96)
        """
        value = total / n
        if n == 1:
            return cls(value, None)
        variance = max(squares - n * value**2, 0.0) / (n - 1)
        return cls(value, HALF_WIDTH * math.sqrt(variance / n))


class WordEffect(NamedTuple):
    """A word in the documents of one output.

    Attributes
    ----------
    word : the word
    documents : the number of documents with it
    total : the sum of its scores in them
    mean : their mean
    half_width : half of the 95% interval of `mean`, None for one document
    overall : the mean over all documents of the output, where the word has the score 0 if it is
        absent
    overall_half_width : half of the 95% interval of `overall`
    example : the row with the largest absolute score, None if rows have no numbers
    example_score : that score
    """

    word: str
    documents: int
    total: float
    mean: float
    half_width: float | None = None
    overall: float = 0.0
    overall_half_width: float | None = None
    example: int | None = None
    example_score: float = 0.0

    def ordered_by(self, by: str) -> Mean:
        """Return the number that a list is ordered by: the mean over all documents, or over those
        with the word.
        """
        if by == "total":
            return Mean(self.overall, self.overall_half_width)
        return Mean(self.mean, self.half_width)


def word_effect(
    word: str,
    documents: int,
    total: float,
    squares: float,
    all_documents: int,
    example: int | None = None,
    example_score: float = 0.0,
) -> WordEffect:
    """Return the effect of a word from the sum of its scores and the sum of their squares."""
    where_it_occurs = Mean.of_sums(documents, total, squares)
    overall = Mean.of_sums(all_documents, total, squares)
    return WordEffect(
        word=word,
        documents=documents,
        total=total,
        mean=where_it_occurs.value,
        half_width=where_it_occurs.half_width,
        overall=overall.value,
        overall_half_width=overall.half_width,
        example=example,
        example_score=example_score,
    )
