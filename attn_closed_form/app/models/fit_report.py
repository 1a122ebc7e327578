"""How well a game that is fitted to a model matches it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..._arrays import plain
from ...slalom.fit import FAIR, GOOD

# The samples around the text leave out at most this many tokens (Leemann et al. 2025, Algorithm 2).
MAX_DELETIONS = 5
# Tuning: the minimum rank correlation between the Shapley values of a good and a fair fit and the
# sampled ones of the model. With the first limit, at least 95 of 100 fits graded good have a rank
# correlation of 0.9 with long runs (`benchmarks/transformer_values.py`). Below the second, the
# ranks of the fit explain less than a quarter of the variance of those of the model.
GOOD_AGREEMENT = 0.92
# The lower limit of a fair fit; see above.
FAIR_AGREEMENT = 0.5


@dataclass(frozen=True)
class FitReport:
    """How well a surrogate matches the model on held-out samples.

    Attributes
    ----------
    name : name of the surrogate
    error, spread : root mean squared error with up to five tokens absent, and the standard
        deviation of the model's output there; with an error as large as the spread the surrogate is
        no better than a constant
    error_any_size, spread_any_size : the same with any number of tokens absent
    at_text : the model's output for the text minus the surrogate's
    model_calls : sequences that the model evaluated for the fit
    undetermined : tokens whose importance the samples do not determine
    agreement : the rank correlation of its Shapley values with the sampled ones of the model
    """

    name: str
    error: float
    spread: float
    error_any_size: float
    spread_any_size: float
    at_text: float
    model_calls: int
    undetermined: tuple[str, ...] = ()
    agreement: float = float("nan")

    @property
    def explained(self) -> float:
        """The share of the variation with few tokens absent that the fit explains on held-out
        samples.
        """
        return _explained_share(self.error, self.spread)

    @property
    def grade(self) -> str:
        """One of "good", "fair" and "poor", by the explained share and by the agreement where it
        was measured.
        """
        if self.explained < FAIR or self.agreement < FAIR_AGREEMENT:
            return "poor"
        if self.explained >= GOOD and self.agreement >= GOOD_AGREEMENT:
            return "good"
        return "fair"

    def verdict(self) -> str:
        """Say in one line whether to trust the scores of the fit, with the number that decides it.

        >>> FitReport("fitted SLALOM", 0.1, 0.5, 0.6, 2.0, 0.0, 500, agreement=0.97).verdict()
        'Good fit: the fitted SLALOM explains 96% of the variation near the text on held-out samples'
        """  # noqa: E501
        share = f"{100 * self.explained:.0f}% of the variation near the text on held-out samples"
        text = f"{self.grade.capitalize()} fit: the {self.name} explains {share}"
        if self.explained >= FAIR and self.agreement < FAIR_AGREEMENT:
            text += (
                ", but its Shapley values rank the tokens differently (correlation "
                f"{self.agreement:.2f})"
            )
        if self.grade == "poor":
            text += "; do not trust its scores"
        return text

    def sentences(self) -> list[str]:
        """Describe the numbers behind the verdict in whole sentences."""
        sentences = [
            "The Shapley values are those of the model itself. The SLALOM scores are those of the "
            f"{self.name}, not of the model. On held-out samples its logit is off by "
            f"{self.error:.2g} with up to {MAX_DELETIONS} tokens absent (that of the model varies "
            f"by {self.spread:.2g} there) and by {self.error_any_size:.2g} with any number absent "
            f"(varies by {self.spread_any_size:.2g}). For the text itself it is off by "
            f"{abs(self.at_text):.2g}. {self.model_calls:,} model calls were used."
        ]
        if self.agreement == self.agreement:
            sentences.append(
                f"The Shapley values of the {self.name} have a rank correlation of "
                f"{self.agreement:.2f} with the sampled ones of the model; a good fit has at least "
                f"{GOOD_AGREEMENT}."
            )
        if self.undetermined:
            shown = ", ".join(self.undetermined[:5]) + (
                " and others" if len(self.undetermined) > 5 else ""
            )
            tokens = f"{len(self.undetermined)} token{'s' * (len(self.undetermined) > 1)}"
            sentences.append(f"The samples do not determine the importance of {tokens}: {shown}.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with None for numbers that were not measured."""
        numbers = {**asdict(self), "explained": self.explained, "grade": self.grade}
        return {name: None if value != value else plain(value) for name, value in numbers.items()}


def _explained_share(error: float, spread: float) -> float:
    """Return 1 - error^2 / spread^2 or 0 if that is negative, nothing varies or nothing was
    measured.
    """
    if spread > 0 and error == error:
        return max(0.0, 1 - (error / spread) ** 2)
    return 0.0
