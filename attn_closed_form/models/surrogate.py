"""A game that is only fitted to a model, and how wrong it is: what every view of such an explanation has to say."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

# Up to so many tokens are absent in the samples around the text (Leemann et al. 2025, Algorithm 2).
FEW = 5


@dataclass(frozen=True)
class FitReport:
    """How well a surrogate stands for the model, measured on samples that were not fitted.

    Attributes
    ----------
    name : of the surrogate
    error, spread : root mean squared error with up to five tokens absent, and the standard deviation of the model's
        output there; an error as large as the spread means that the surrogate knows nothing
    error_any_size, spread_any_size : the same with any number of tokens absent
    at_text : the model's output for the text minus the surrogate's
    model_calls : sequences that the model was asked for the fit
    undetermined : tokens whose importance the samples do not determine
    """

    name: str
    error: float
    spread: float
    error_any_size: float
    spread_any_size: float
    at_text: float
    model_calls: int
    undetermined: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """What a reader must know, in plain English."""
        said = [
            f"Scores are those of the {self.name}, not of the model itself. On fresh samples it is off by "
            f"{self.error:.2g} with up to {FEW} tokens absent (the model varies by {self.spread:.2g} there) and by "
            f"{self.error_any_size:.2g} with any number absent (varies by {self.spread_any_size:.2g}); for the text "
            f"itself by {abs(self.at_text):.2g}. {self.model_calls:,} model calls."
        ]
        if self.undetermined:
            shown = ", ".join(self.undetermined[:5]) + (" and others" if len(self.undetermined) > 5 else "")
            said.append(f"The samples do not determine the importance of {len(self.undetermined)} tokens: {shown}.")
        return said

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what was not measured is None."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else None if value != value else value
            for name, value in plain.items()
        }
