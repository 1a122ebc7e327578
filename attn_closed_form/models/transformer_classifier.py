"""Any sequence classifier of the transformers package, explained by the SLALOM that is fitted to it.

A transformer is not a pooled game, so its game here is a *surrogate*: the SLALOM that `fit_slalom` fits to the
document with tokens absent (Leemann et al. 2025, Algorithm 2), and its error on held-out samples is reported with every
score. Methods that need nothing but values of coalitions (`leave-one-out`, `lime-sampled`,
`shapley-sampled`) ask the transformer itself.

Units are the tokens. Players are the words of the tokenizer, each where it stands, or the tokens. An absent token is
deleted, or the mask token stands in its place, or it is hidden: the pad token stands in its place and attention passes
it over.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._progress import Report
from .._types import Array, Ids, Masks, Tokens
from ..game.pooled_game import PooledGame
from ..slalom.fit import SlalomFit, SlalomWarning, fit_slalom
from .protocol import FEW, FitReport, Model, Resolved, Units
from .scores import PooledScores
from .text import check_text, excerpt
from .transformer_network import (
    HIDDEN,
    Frame,
    check_sequences,
    evaluating,
    frame_of,
    load_folder,
    read_tokens,
    require_torch,
    room,
    run,
)

# Model calls of a fit, and of each method that samples: some 20 seconds of MiniLM on two cores for 128 tokens.
SAMPLES = 2000
BATCH = 32


@dataclass(eq=False)
class Document:
    """The ids of a text, and what the model has said about parts of it."""

    ids: Ids
    known: dict[bytes, Array] = field(default_factory=dict, repr=False)
    fits: dict[tuple[Any, ...], tuple[SlalomFit, FitReport]] = field(default_factory=dict, repr=False)

    def ask(self, f: Callable[[list[Ids]], Array], sequences: Sequence[Ids]) -> Array:
        """(n, C) outputs; sequences that were asked before, or that occur twice, cost nothing."""
        keys = [np.asarray(sequence, dtype=np.intp).tobytes() for sequence in sequences]
        new = {key: sequence for key, sequence in zip(keys, sequences, strict=True) if key not in self.known}
        if new:
            self.known.update(zip(new, f(list(new.values())), strict=True))
        return np.array([self.known[key] for key in keys])


@dataclass(frozen=True, eq=False)
class TransformerClassifier(Model):
    """A sequence classifier with its tokenizer (extra `transformers`).

    Parameters
    ----------
    model : a `...ForSequenceClassification` of the transformers package, on any device, of any precision
    tokenizer : its tokenizer. A slow one, which does not say where its tokens stand, has the tokens as players
    outputs : class names; by default those of `config.id2label`. One logit may have two names: it then speaks for the
        second, and is the log-odds of the two
    samples : model calls of a fit, and of every method that samples
    batch_size : sequences per batch
    max_length : most tokens of a text, special ones included; by default what the tokenizer and the positions allow
    progress : as in `fit_slalom`: None shows a bar on a terminal after a second

    Examples
    --------
    >>> from transformers import AutoModelForSequenceClassification, AutoTokenizer  # doctest: +SKIP
    >>> name = "my-folder"  # doctest: +SKIP
    >>> model = TransformerClassifier(
    ...     AutoModelForSequenceClassification.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    ... )  # doctest: +SKIP
    >>> model.explain("A slow start, but a wonderful film.").report("report.html")  # doctest: +SKIP
    """

    model: Any
    tokenizer: Any
    outputs: tuple[str, ...] = ()
    samples: int = SAMPLES
    batch_size: int = BATCH
    max_length: int | None = None
    progress: Report | bool | None = None

    temperature = 1.0
    # Its game is fitted, not its own: views say so, and log-odds against the rest may be explained.
    surrogate = "fitted SLALOM"

    def __post_init__(self) -> None:
        require_torch()
        if not (hasattr(self.model, "config") and hasattr(self.model, "parameters") and callable(self.model)):
            kind = type(self.model).__name__
            raise TypeError(f"model: expected a sequence classifier of the transformers package, got {kind}")
        if not hasattr(self.model.config, "num_labels"):
            raise TypeError("model: expected a configuration that says num_labels, got none")
        if self.tokenizer is None or not callable(self.tokenizer):
            raise TypeError(f"tokenizer: expected the tokenizer of the model, got {type(self.tokenizer).__name__}")
        for name in ("samples", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name}: expected an integer of at least 1, got {value!r}")
        known = getattr(self.model.config, "id2label", None) or {}
        C = int(self.model.config.num_labels) or len(self.outputs)
        self.name_outputs(C, [str(known.get(i, known.get(str(i), f"LABEL_{i}"))) for i in range(C)])
        fast = getattr(self.tokenizer, "is_fast", False)
        several_labels = getattr(self.model.config, "problem_type", None) == "multi_label_classification"
        for name, chosen in (
            ("groupings", ("words", "tokens") if fast else ("tokens",)),
            ("absences", ("deleted", "mask", "pad") if self._mask_id is not None else ("deleted", "pad")),
            ("loss", "sigmoid" if several_labels else "softmax"),
        ):
            object.__setattr__(self, name, chosen)
        self.room  # noqa: B018  # a tokenizer that does not fit is an error here, not in the middle of an explanation
        _check_logits(self.model, self.frame.around(read_tokens(self.tokenizer, "the").ids))

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str], device: str | None = None, **options: Any) -> Any:
        """The model and the tokenizer of a folder in the layout of Hugging Face; see `load_folder`."""
        model, tokenizer = load_folder(folder)
        try:
            return cls(model if device is None else model.to(device), tokenizer, **options)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"device: expected one that torch can use, got {device!r} ({error})") from None

    def __repr__(self) -> str:
        shown = ", ".join(self.outputs[:6]) + (", ..." if len(self.outputs) > 6 else "")
        return f"TransformerClassifier({type(self.model).__name__}; {shown}; {self.room} tokens)"

    @cached_property
    def frame(self) -> Frame:
        """The special tokens around a text."""
        return frame_of(self.tokenizer)

    @cached_property
    def room(self) -> int:
        """Tokens of a text that the model reads, special ones not counted."""
        return room(self.model, self.tokenizer, self.frame, self.max_length)

    @cached_property
    def _mask_id(self) -> int | None:
        found = getattr(self.tokenizer, "mask_token_id", None)
        return None if found is None else int(found)

    def __call__(self, sequences: Sequence[Tokens]) -> Array:
        """Logits (n, C) of n sequences of token ids, without special tokens, which are added here.

        The id -1 hides a token: the pad token stands in its place, and attention passes it over.
        """
        vocabulary = int(self.model.get_input_embeddings().weight.shape[0])
        checked = check_sequences(sequences, vocabulary, self.room)
        if self.frame.size == 0 and not all(ids.size for ids in checked):
            # The token that begins or ends a text stands for the empty text.
            names = ("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id")
            found = [token for name in names if (token := getattr(self.tokenizer, name, None)) is not None]
            if not found:
                raise ValueError("tokenizer: expected a bos, eos, pad or unk token for the empty text; got none")
            checked = [ids if ids.size else np.array(found[:1], dtype=np.intp) for ids in checked]
        return run(self.model, self.tokenizer, self.frame, checked, self.batch_size, self.progress)

    def encode(self, text: str) -> Ids:
        """Token ids of a text, without special tokens, as many as the model reads."""
        return read_tokens(self.tokenizer, text).ids[: self.room]

    def predict_logits(self, inputs: Iterable[str]) -> Array:
        """(n, C) logits of texts; what is beyond the model's last position is not seen."""
        return self([self.encode(text) for text in self.several(inputs)])

    def read(self, raw: Any) -> Units:
        """The tokens of a text with their words and characters."""
        check_text(raw)
        ids, spans, words = read_tokens(self.tokenizer, raw)
        if ids.size == 0:
            raise ValueError(f"text: expected at least one token, got {excerpt(raw)}")
        n = min(ids.size, self.room)
        tokens = self.tokenizer.convert_ids_to_tokens(ids.tolist())
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        shared: dict[str, Any] = {
            "data": Document(ids[:n]),
            "unknown": tuple((ids[:n] == (-2 if unknown is None else unknown)).tolist()),
        }
        numbers = np.arange(n)
        if spans is None or words is None:
            cut = tuple((0, 0) for _ in range(n, ids.size))
            return Units(labels=tuple(map(str, tokens[:n])), groups={"tokens": numbers}, unseen=cut, **shared)
        labels = [raw[a:b] or str(token) for (a, b), token in zip(spans[:n], tokens[:n], strict=True)]
        first = np.unique(words[:n], return_index=True)[1]
        last = np.append(first[1:], n) - 1
        whole = [raw[spans[i][0] : spans[j][1]] or labels[i] for i, j in zip(first, last, strict=True)]
        return Units(
            labels=tuple(labels),
            groups={"words": words[:n], "tokens": numbers},
            group_labels={"words": tuple(whole)},
            text=raw,
            spans=spans[:n],
            unseen=spans[n:],
            continues=tuple(np.r_[False, words[1:n] == words[: n - 1]].tolist()),
            **shared,
        )

    def logits(self, units: Units) -> Array:
        """(C,) logits of a text that was read."""
        return units.data.ask(self, [units.data.ids])[0]

    def game(self, units: Units, settings: Resolved) -> PooledGame:
        """The game of the SLALOM that is fitted to the model around this text."""
        return surrogate(self, units, settings)[0]

    def fit(self, units: Units, settings: Resolved) -> FitReport:
        """How well that SLALOM fits the model."""
        return surrogate(self, units, settings)[1]

    def value(self, units: Units, settings: Resolved, present: Masks) -> Array:
        """What the model itself says of coalitions of the players, (n, d) -> (n,)."""
        ids: Ids = units.data.ids
        kept = np.asarray(present, dtype=bool)[:, units.groups[settings.players]]
        if settings.absent == "deleted":
            sequences = [ids[row] for row in kept]
        else:
            sequences = list(np.where(kept, ids, self.absent_id(settings)))
        return settings.explained(units.data.ask(self, sequences))

    def inside(self, name: str, units: Units, settings: Resolved) -> None:
        """Nothing: attention and gradients of a deep model are not closed forms."""
        return None

    def absent_id(self, settings: Resolved) -> int:
        """What stands in the place of an absent token."""
        return HIDDEN if settings.absent == "pad" or self._mask_id is None else self._mask_id


def _check_logits(model: Any, sequence: Ids) -> None:
    """One row of logits per text: known by the name of the class, or else tried."""
    if any("ForSequenceClassification" in each.__name__ for each in type(model).__mro__):
        return
    torch = require_torch()
    with evaluating(model):
        found = model(input_ids=torch.tensor(sequence[None], device=next(iter(model.parameters())).device))
    shape = tuple(getattr(getattr(found, "logits", None), "shape", ()))
    if len(shape) != 2 or shape[0] != 1:
        what = f"logits of shape {shape}" if shape else "no logits"
        raise TypeError(
            "model: expected one row of logits per text (...ForSequenceClassification), got "
            f"{type(model).__name__} with {what}"
        )


def surrogate(model: Any, units: Units, settings: Resolved) -> tuple[PooledGame, FitReport]:
    """The game of the SLALOM that is fitted to a transformer around a text, and how well it fits."""
    document: Document = units.data
    key = (settings.absent, settings.coefficients, settings.rest, settings.seed)
    if key not in document.fits:
        document.fits[key] = _fit(model, units, settings)
    fit, report = document.fits[key]
    slalom = fit.slalom
    index = slalom.index(document.ids)
    deleted = settings.absent == "deleted"
    stand_in = index if deleted else np.broadcast_to(slalom.index([model.absent_id(settings)]), index.shape)
    background = slalom.s_background > -np.inf
    scores = PooledScores(
        slalom.s[None, index],
        slalom.v[None, index],
        np.zeros(1),
        s_absent=None if deleted else slalom.s[None, stand_in],
        v_absent=None if deleted else slalom.v[None, stand_in],
        s_background=np.array([slalom.s_background]),
        v_background=np.reshape(slalom.v_background, 1) if background else np.zeros(1),
        empty_value=settings.explained(document.ask(model, [document.ids[:0]])),
    )
    return scores.game([1.0], *units.players(settings.players)), report


def _fit(model: Any, units: Units, settings: Resolved) -> tuple[SlalomFit, FitReport]:
    document: Document = units.data

    def f(sequences: list[Ids]) -> Array:
        return settings.explained(document.ask(model, sequences))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlalomWarning)  # said below, with the tokens instead of their ids
        fit = fit_slalom(
            f,
            document.ids,
            num_samples=model.samples,
            max_deletions=FEW,
            seed=settings.seed,
            progress=False,
            batch_size=model.samples,
            replacement=None if settings.absent == "deleted" else model.absent_id(settings),
        )
    # The spread of the model's output over what it was asked, with few and with any number of tokens absent.
    T = document.ids.size
    sequences = [np.frombuffer(key, dtype=np.intp) for key in document.known]
    few = np.array([(s != document.ids).sum() <= FEW if s.size == T else T - s.size <= FEW for s in sequences])
    values = settings.explained(np.array(list(document.known.values())))
    near, far = (float(values[part].std()) if part.any() else float("nan") for part in (few, ~few))
    names = {int(i): label for i, label in zip(document.ids, units.labels, strict=True)}
    report = FitReport(
        name=model.surrogate,
        error=float(np.sqrt(fit.fresh_mse)),
        spread=near,
        error_any_size=float(np.sqrt(fit.fresh_mse_any_size)),
        spread_any_size=far,
        at_text=float(f([document.ids])[0] - fit.slalom.predict(document.ids)),
        model_calls=fit.model_calls,
        undetermined=tuple(names.get(i, settings.absent) for i in fit.undetermined),
    )
    if report.undetermined and not document.fits:
        warnings.warn(report.sentences()[-1], SlalomWarning, stacklevel=4)
    return fit, report
