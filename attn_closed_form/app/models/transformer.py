"""Sequence classifiers and language models of the transformers package, by sampled values and by a
fitted SLALOM.

Methods that only need values of coalitions (`shapley-sampled`, `lime-sampled`, `leave-one-out`)
call the transformer. All others are exact values of a *surrogate*: the SLALOM that `fit_slalom`
fits to the text with tokens absent (Leemann et al. 2025, Algorithm 2). Its error on held-out
samples is reported. Players are words or tokens. An absent token is deleted, replaced by the mask
token, or replaced by a pad token that attention skips.

Ids are never decoded and tokenized again, which could change them. Classifiers on decoders read the
logits at the last token that is not a pad token, so a model without a pad token temporarily gets an
id that occurs in no sequence. If a tokenizer pads on the left, which shifts the positions of some
models, or if padding changes the logits, only sequences of equal length share a batch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from ..._arrays import check, members, numbered, spearman, whole
from ..._errors import warn_user
from ..._progress import Report, stages
from ..._shapes import set_fields
from ..._types import Array, Ids, Masks, Span, Tokens
from ...game.engine.budget import ToleranceError
from ...game.pooled_game import PooledGame
from ...game.values import shapley
from ...slalom.design import Deletions
from ...slalom.fit import SlalomFit, SlalomWarning, fit_slalom
from ...slalom.recover import remembered
from ...slalom.slalom import as_ids
from .fit_report import MAX_DELETIONS, FitReport
from .hugging_face import LANGUAGE_MODELS, Frame, batches, evaluating, imported_package, load_folder
from .protocol import Model, TextModel
from .sentences import trimmed
from .target import ModelGame, Target
from .text import check_text, excerpt
from .units import Units

#: The id of a hidden token: a pad token replaces it, and attention skips it.
HIDDEN = -1
# Model calls of a fit, and of each method that samples: about 20 seconds of MiniLM on two cores for
# 128 tokens.
SAMPLES = 2000
# Tuning: sequences per batch. Larger ones are hardly faster on a CPU, and need more memory.
CALLS_AT_ONCE = 32


class PaddingWarning(UserWarning):
    """Warning that a transformer reads padding, so that sequences of different length do not share
    a batch.
    """


@dataclass
class ComputedByTransformer:
    """What a transformer has computed for one text, so that no sequence is evaluated twice.

    Attributes
    ----------
    outputs : the logits of parts of the text, by the bytes of their ids
    fits : the SLALOMs that were fitted, by the parts of the target that affect them
    reports : their reports with the agreement, by the players and the same parts
    warned : whether a warning about undetermined tokens was issued
    """

    outputs: dict[bytes, Array] = field(default_factory=dict)
    fits: dict[tuple[Any, ...], tuple[SlalomFit, FitReport]] = field(default_factory=dict)
    reports: dict[tuple[Any, ...], FitReport] = field(default_factory=dict)
    warned: bool = False


class TokenUnits(Units):
    """The tokens of a text, with what a transformer has computed for them."""

    @cached_property
    def by_transformer(self) -> ComputedByTransformer:
        """What the transformer has computed for this text."""
        return ComputedByTransformer()


@dataclass(frozen=True, eq=False)
class TransformerClassifier(TextModel):
    """A sequence classifier or language model with its tokenizer (extra `transformers`).

    Parameters
    ----------
    model : a `...ForSequenceClassification` or `...ForCausalLM` of transformers, on any device, of
        any precision
    tokenizer : its tokenizer. Slow tokenizers do not report character offsets, so their players are
        tokens
    outputs : class names; by default those of `config.id2label`. One logit may have two names: it
        is then the log-odds of the second
    samples : number of model calls of a fit, and of every sampling method
    batch_size : number of sequences per batch
    max_length : maximum number of tokens, including special ones; by default that of the tokenizer
        and the positions
    continuations : for a language model (`...ForCausalLM`), continuations of the text: (" good",)
        compares with any other token, (" good", " bad") with each other; the logit is the log-odds
        of the first. A number is the id of a token. `explain` takes them as `output="token: good"`
        or `output="token: good, bad"`; its default is the most probable next token
    progress : as in `fit_slalom`: None shows a bar on a terminal after a second

    Examples
    --------
    >>> model = TransformerClassifier.from_folder("my-folder")  # doctest: +SKIP
    >>> model.explain("A slow start, but a wonderful film.").report("report.html")  # doctest: +SKIP
    """

    model: Any
    tokenizer: Any
    outputs: tuple[str, ...] = ()
    samples: int = SAMPLES
    batch_size: int = CALLS_AT_ONCE
    max_length: int | None = None
    continuations: tuple[str | int, ...] = ()
    progress: Report | bool | None = None

    surrogate = "fitted SLALOM"

    def __post_init__(self) -> None:
        imported_package("torch")
        kind = type(self.model)
        config = getattr(self.model, "config", None)
        if not (
            hasattr(config, "num_labels")
            and hasattr(self.model, "parameters")
            and callable(self.model)
        ):
            raise TypeError(
                "model: expected a sequence classifier of the transformers package, got "
                f"{kind.__name__}"
            )
        if not callable(self.tokenizer):
            raise TypeError(
                "tokenizer: expected the tokenizer of the model, got "
                f"{type(self.tokenizer).__name__}"
            )
        whole("samples", self.samples)
        whole("batch_size", self.batch_size)
        if self._continuations and not self.predicts_tokens:
            raise ValueError(
                f"continuations: expected none for a classifier, got {self.continuations}"
            )
        self.name_outputs(self._outputs, self._default_names())
        # An unsuitable tokenizer or model raises an error here, not in the middle of an
        # explanation.
        example = self.frame.around(self.encode("the"))
        is_classifier = any("ForSequenceClassification" in c.__name__ for c in kind.__mro__)
        # A class with another name may return one row of logits per text; one call shows it.
        if not self.predicts_tokens and not is_classifier:
            with evaluating(self.model):
                self._batch([example], pad=0)
        groupings: tuple[str, ...] = ("tokens",)
        # Only fast tokenizers tell which tokens belong to a word.
        if getattr(self.tokenizer, "is_fast", False):
            groupings = ("words", "tokens")
        absences = ["deleted"]
        if self._special("mask") is not None:
            absences.append("mask")
        # A pad token is absent only for a model that does not read it.
        if not self.predicts_tokens and not self.reads_padding:
            absences.append("pad")
        loss = "softmax"
        if getattr(config, "problem_type", None) == "multi_label_classification":
            loss = "sigmoid"
        set_fields(self, {"groupings": groupings, "absences": tuple(absences), "loss": loss})

    def _default_names(self) -> list[str]:
        """Return the names of the outputs: those of the configuration, or the continuations."""
        if not self.predicts_tokens:
            labels = getattr(self.model.config, "id2label", None) or {}
            # A configuration that was read from JSON may have texts as keys.
            return [
                str(labels.get(i, labels.get(str(i), f"LABEL_{i}"))) for i in range(self._outputs)
            ]
        if not self.continuations:
            return ["next token"]
        texts = [
            c if isinstance(c, str) else self.tokenizer.decode([c]) for c in self.continuations
        ]
        first, *second = [f'"{text}"' for text in texts]
        # The logit is the log-odds of the first continuation, which is the second of two classes.
        return [*(second or ["another token"]), first]

    @classmethod
    def from_folder(
        cls, folder: str | os.PathLike[str], device: str | None = None, **options: Any
    ) -> Any:
        """Load a folder written by Hugging Face's `save_pretrained`, without running any code in
        it.
        """
        model, tokenizer = load_folder(Path(folder))
        try:
            if device is not None:
                model = model.to(device)
            return cls(model, tokenizer, **options)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(
                f"device: expected one that torch can use, got {device!r} ({error})"
            ) from None

    def __repr__(self) -> str:
        shown = ", ".join(self.outputs[:6])
        if len(self.outputs) > 6:
            shown += ", ..."
        return f"TransformerClassifier({type(self.model).__name__}; {shown}; {self.room} tokens)"

    @cached_property
    def predicts_tokens(self) -> bool:
        """Whether this is a language model, which predicts the next token."""
        return any(parent.__name__.endswith(LANGUAGE_MODELS) for parent in type(self.model).__mro__)

    def _special(self, name: str) -> int | None:
        """Return the id of a special token, or None if the tokenizer does not have it."""
        return getattr(self.tokenizer, f"{name}_token_id", None)

    @property
    def _outputs(self) -> int:
        """Number of logits."""
        if self.predicts_tokens:
            return 1
        return int(self.model.config.num_labels) or len(self.outputs)

    @cached_property
    def frame(self) -> Frame:
        """The special tokens around a text, without those between a text and its continuation."""
        frame = Frame.of(self.tokenizer)
        if self.predicts_tokens:
            return Frame(frame.prefix)
        return frame

    @cached_property
    def _continuations(self) -> tuple[tuple[int, ...], ...]:
        """The ids of the continuations."""
        ids = [self._ids_of(continuation) for continuation in self.continuations]
        if not all(ids) or len(ids) > 2 or len(set(ids)) < len(ids):
            raise ValueError(
                "output: expected one continuation or two different ones, of at least one token "
                f"each, got {self.continuations}"
            )
        return tuple(ids)

    def _ids_of(self, continuation: str | int) -> tuple[int, ...]:
        """Return the ids of a continuation, which is a text or one id."""
        if isinstance(continuation, int):
            return (continuation,)
        return tuple(self.tokenizer(continuation, add_special_tokens=False)["input_ids"])

    def asked(self, raw: Any, output: str | int | None) -> tuple[Model, str | int | None]:
        """Return this language model as a classifier of given continuations of the text."""
        # An output that names continuations of a text begins with it: "token: good, bad".
        token = "token:"
        named = isinstance(output, str) and output.startswith(token)
        if not self.predicts_tokens and named:
            raise ValueError(
                f"output: expected a class, got {output!r}; only a language model predicts tokens"
            )
        if not self.predicts_tokens or (self.continuations and not named):
            return self, output
        if output is None:
            rows = np.stack(
                [self.frame.around(ids) for ids in self._checked([self.read(raw).data])]
            )
            with evaluating(self.model):
                chosen: tuple[str | int, ...] = (int(self._run(rows, keep=1)[0, -1].argmax()),)
        elif named:
            text = str(output)[len(token) :]
            # A token may contain a comma, or be one.
            single = len(self.tokenizer(text, add_special_tokens=False)["input_ids"]) == 1
            chosen = (text,)
            if not single:
                chosen = tuple(text.split(","))
        else:
            raise ValueError(
                "output: expected 'token:...' of a language model, such as 'token: good', got "
                f"{output!r}"
            )
        model = replace(self, continuations=chosen, outputs=())
        return model, model.outputs[-1]

    @cached_property
    def room(self) -> int:
        """The maximum number of tokens of a text, without special tokens."""
        limits = [
            limit
            for limit in (self.max_length, getattr(self.tokenizer, "model_max_length", None))
            if limit
        ]
        tables = (
            module
            for name, module in self.model.named_modules()
            if name.endswith("position_embeddings")
        )
        padding = getattr(next(tables, None), "padding_idx", None)
        first = 0
        # RoBERTa and similar models count positions from there.
        if padding is not None:
            first = int(padding) + 1
        for name in ("max_position_embeddings", "n_positions"):
            positions = getattr(self.model.config, name, None)
            if isinstance(positions, int) and positions > 0:
                limits.append(positions - first)
        # Tokenizers without a limit report 10^30, which does not fit into every integer.
        most = min([*limits, 10**9])
        # The last token of a continuation is only predicted and takes no position.
        taken = self.frame.size + max((len(ids) - 1 for ids in self._continuations), default=0)
        if most <= taken:
            raise ValueError(
                f"max_length: expected more than the {taken} special tokens, got {most}"
            )
        return int(most) - taken

    @property
    def _pads_right(self) -> bool:
        """Whether sequences of different length may be padded after their end."""
        # Next tokens are predicted at the end of a row.
        if self.predicts_tokens:
            return False
        return getattr(self.tokenizer, "padding_side", "right") == "right"

    @cached_property
    def reads_padding(self) -> bool:
        """Whether padding changes the logits, as measured with a short text; a warning says so.

        A Fourier transform (FNet) and a convolution (ConvBERT) read pad tokens, and XLNet reads the
        last position.
        """
        if not self._pads_right:
            return False
        # A text whose beginnings are padded to its length, to see whether padding is neutral.
        padded_text = "the film was good, and not too long."
        ids = self.encode(padded_text)
        # One token, half of the text and all of it, so that two of three rows are padded.
        rows = [self.frame.around(ids[:n]) for n in sorted({1, (ids.size + 1) // 2, ids.size})]
        with evaluating(self.model), self._padding(rows) as pad:
            alone = np.concatenate([self._batch([row], pad) for row in rows])
            together = self._batch(rows, pad)
        # If half precision overflows, the first call raises an error that says so.
        if not np.isfinite([alone, together]).all():
            return False
        difference = float(np.abs(together - alone).max())
        accuracy = imported_package("torch").finfo(next(iter(self.model.parameters())).dtype).eps
        # Tuning: the logits of a padded and of a single sequence differ by rounding, for small
        # models in float32 by up to 5 ulps of the largest logit. Padding that is read changed them
        # by 5e-3 of it and more, 40,000 ulps.
        ulps = 1000.0
        # The relative accuracy above which a type counts as half precision.
        coarse_steps = 1e-6
        if accuracy > coarse_steps:
            # In half precision, rounding and padding that is read cannot be separated as clearly:
            # 2% (float16), 12% (bfloat16).
            ulps = 16.0
        if not difference > ulps * accuracy * float(np.abs(alone).max()):
            return False
        text = (
            f"{type(self.model).__name__} reads the padding of a batch, which changes its logits "
            f"by {difference:.1g}. Only sequences of equal length share a batch, so explanations "
            "take longer."
        )
        warn_user(text, PaddingWarning)
        return True

    def __call__(self, sequences: Sequence[Tokens]) -> Array:
        """Return the (n, C) logits of n sequences of token ids without special tokens; the id
        HIDDEN hides a token.
        """
        rows = [self.frame.around(ids) for ids in self._checked(sequences)]
        lengths = np.array([row.size for row in rows], dtype=np.intp)
        pads = self._pads_right and not self.reads_padding
        logits = np.empty((len(rows), self._outputs))
        done = 0
        with (
            stages("transformer", self.progress) as report,
            evaluating(self.model),
            self._padding(rows) as pad,
        ):
            for batch in batches(lengths, self.batch_size, pads):
                logits[batch] = self._batch([rows[i] for i in batch], pad)
                done += batch.size
                report("model", done, lengths.size)
        if not np.isfinite(logits).all():
            raise ValueError(
                f"model: expected finite logits, got {logits[~np.isfinite(logits)][0]}; half "
                "precision may overflow (model.float() helps)"
            )
        return logits

    def _checked(self, sequences: Sequence[Tokens]) -> Iterator[Ids]:
        """Yield the sequences as arrays of ids, after checking that they fit the vocabulary and the
        maximum length.
        """
        vocabulary = int(self.model.get_input_embeddings().weight.shape[0])
        for row, sequence in enumerate(sequences):
            ids = as_ids("sequences", sequence)
            if ids.size > self.room:
                raise ValueError(
                    f"sequences: expected at most {self.room} tokens, got {ids.size} at {row}"
                )
            if ids.size and not HIDDEN <= ids.min() <= ids.max() < vocabulary:
                raise ValueError(
                    f"sequences: expected ids below {vocabulary}, got {ids.min()}..{ids.max()} at "
                    f"{row}"
                )
            if ids.size == self.frame.size == 0:
                # The token that begins or ends a text represents the empty text.
                tokens = [
                    token
                    for token in map(self._special, ("bos", "eos", "pad", "unk"))
                    if token is not None
                ]
                if not tokens:
                    raise ValueError(
                        "tokenizer: expected a bos, eos, pad or unk token for the empty text; got "
                        "none"
                    )
                ids = np.array(tokens[:1])
            yield ids

    @contextmanager
    def _padding(self, rows: Sequence[Ids]) -> Iterator[int]:
        """Provide a pad token; a model without one temporarily gets that of the tokenizer or an
        unused id.
        """
        config = self.model.config
        if hasattr(config, "get_text_config"):
            config = config.get_text_config()
        pad = configured = getattr(config, "pad_token_id", None)
        if pad is None:
            used = {i for row in rows for i in row.tolist()}
            candidates = (self._special("pad"), *range(len(used) + 1))
            # The model looks for this id to find the end of a text, so no text may contain it.
            pad = config.pad_token_id = next(
                i for i in candidates if i is not None and i not in used
            )
        try:
            yield int(pad)
        finally:
            # The configuration is that of the user's model, which must not stay changed after an
            # error.
            config.pad_token_id = configured

    def _batch(self, rows: Sequence[Ids], pad: int) -> Array:
        """Return the (n, C) logits of n sequences with their special tokens."""
        if self.predicts_tokens:
            return self._log_odds(np.stack(rows))
        longest = max(row.size for row in rows)
        types = None
        if self.frame.types is not None:
            before, inside, after = self.frame.types
            # Special tokens may have another type than the text, and those that pad have type 0.
            typed = [[*before, *[inside] * (row.size - self.frame.size), *after] for row in rows]
            types = np.array([[*row, *[0] * (longest - len(row))] for row in typed])
        logits = self._run(
            np.array([[*row, *[HIDDEN] * (longest - row.size)] for row in rows]), pad, types
        )
        if logits is None or logits.ndim != 2:
            if logits is None:
                shown = "no logits"
            else:
                shown = f"logits of shape {logits.shape}"
            raise TypeError(
                "model: expected one row of logits per text (...ForSequenceClassification), got "
                f"{type(self.model).__name__} with {shown}"
            )
        return np.asarray(logits)

    def _run(self, ids: Ids, pad: int = 0, types: Ids | None = None, keep: int = 0) -> Any:
        """Call the model on rows (n, T) of ids and return its logits, at the last `keep` positions
        if that is not 0.
        """
        # A hidden token needs some id of the vocabulary; the mask makes attention skip it.
        arrays = {"input_ids": np.where(ids == HIDDEN, pad, ids), "attention_mask": ids != HIDDEN}
        if types is not None:
            arrays["token_type_ids"] = types
        torch = imported_package("torch")
        device = next(iter(self.model.parameters())).device
        tensors = {
            name: torch.from_numpy(array.astype(np.int64)).to(device)
            for name, array in arrays.items()
        }
        # A language model computes a logit for every token of its vocabulary; some do so only at
        # the last positions.
        few = {}
        if keep and "logits_to_keep" in signature(self.model.forward).parameters:
            few = {"logits_to_keep": keep}
        logits = getattr(self.model(**tensors, **few), "logits", None)
        if logits is None:
            return None
        # With keep = 0 the slice takes everything, such as the classes of a classifier.
        return logits[:, -keep:].cpu().to(torch.float64).numpy()

    def _log_odds(self, rows: Ids) -> Array:
        """Return the (n, 1) log-odds of the first continuation of rows (n, T) against the second,
        or against all others.

        A continuation c_1 ... c_m has the log-probability sum_k log p(c_k), and everything else has
        the probability sum_k p(c_1) ... p(c_{k-1}) (1 - p(c_k)).
        """
        check(
            "continuations",
            len(self.continuations) > 0,
            "what may follow the text, such as (' good',)",
            "none",
        )
        # Continuations that differ in their last token share a call of the model.
        logits: dict[tuple[int, ...], Array] = {}
        sides = []
        for ids in self._continuations:
            stem = ids[:-1]
            if stem not in logits:
                # A token is predicted at the position before it, so the last one is not appended.
                longer = [[*row, *stem] for row in rows.tolist()]
                logits[stem] = self._run(np.array(longer, dtype=np.intp), keep=len(ids))
            z = logits[stem]
            chosen = np.arange(z.shape[-1]) == np.array(ids)[:, None]
            total = np.logaddexp.reduce(z, axis=-1)
            log_p = z[:, chosen] - total
            log_not = np.logaddexp.reduce(np.where(chosen, -np.inf, z), axis=-1) - total
            # The cumulative sum without its last term is the log-probability of the earlier tokens.
            others = np.logaddexp.reduce(np.cumsum(log_p, axis=1) - log_p + log_not, axis=1)
            sides.append((log_p.sum(axis=1), others))
        (log_p, others), *second = sides
        if second:
            others, _ = second[0]
        return np.asarray(log_p - others)[:, None]

    def _tokens(self, text: str) -> tuple[Ids, tuple[Span, ...] | None, Ids | None]:
        """Return ids, character spans and word numbers of a text without special tokens; None if
        not available.
        """
        fast = bool(getattr(self.tokenizer, "is_fast", False))
        options = {}
        if fast:
            options = {"return_offsets_mapping": True}
        encoding = self.tokenizer(
            text, add_special_tokens=False, truncation=False, verbose=False, **options
        )
        ids = np.asarray(encoding["input_ids"], dtype=np.intp).reshape(-1)
        if not fast:
            return ids, None, None
        # Spans have no white space at their ends, and must not overlap if tokens share a character
        # (bytes of an emoji).
        spans = []
        last = 0
        for start, end in encoding["offset_mapping"]:
            start = max(int(start), last)
            start, end = trimmed(text, start, max(int(end), start))
            last = max(start, end)
            spans.append((start, last))
        # A token outside of words (a special one in the text) is a separate word.
        words = [-1 - i if word is None else word for i, word in enumerate(encoding.word_ids())]
        return ids, tuple(spans), numbered(words)[0]

    def encode(self, text: str) -> Ids:
        """Return the token ids of a text that the model reads, without special tokens."""
        return self._tokens(text)[0][: self.room]

    def predict_logits(self, inputs: Iterable[str]) -> Array:
        """Return the (n, C) logits of texts; tokens beyond the model's last position are
        ignored.
        """
        return self([self.encode(text) for text in self.several(inputs)])

    def read(self, raw: Any) -> Units:
        """Read the tokens of a text with their words and character spans."""
        check_text(raw)
        ids, spans, words = self._tokens(raw)
        if ids.size == 0:
            raise ValueError(f"text: expected at least one token, got {excerpt(raw)}")
        n = min(ids.size, self.room)
        tokens = tuple(map(str, self.tokenizer.convert_ids_to_tokens(ids[:n].tolist())))
        unknown = None
        if self._special("unk") is not None:
            unknown = ids[:n] == self._special("unk")
        shared: dict[str, Any] = {"data": ids[:n], "unknown": unknown}
        groups = {"tokens": np.arange(n)}
        if spans is None or words is None:
            beyond = np.zeros((ids.size - n, 2), dtype=np.intp)
            return TokenUnits(labels=tokens, groups=groups, beyond=beyond, **shared)
        labels = tuple(raw[a:b] or token for (a, b), token in zip(spans[:n], tokens, strict=True))
        first = np.unique(words[:n], return_index=True)[1]
        last = np.append(first[1:], n) - 1
        places = np.array(spans, dtype=np.intp).reshape(-1, 2)
        return TokenUnits(
            labels=labels,
            groups={"words": words[:n], **groups},
            group_labels={
                "words": tuple(
                    raw[spans[i][0] : spans[j][1]] or labels[i]
                    for i, j in zip(first, last, strict=True)
                )
            },
            text=raw,
            places=places[:n],
            beyond=places[n:],
            continues=np.r_[False, words[1:n] == words[: n - 1]],
            **shared,
        )

    def logits(self, units: Units) -> Array:
        """Return the (C,) logits of a text."""
        return self._ask(units, [units.data])[0]

    def _ask(self, units: Units, sequences: Sequence[Ids]) -> Array:
        """Return the (n, C) outputs for parts of a text; each distinct part is evaluated only
        once.
        """
        return remembered(_computed(units).outputs, self, sequences)

    def value(self, units: Units, target: Target, present: Masks) -> Array:
        """Return the outputs of the model itself for coalitions of the players, (n, d) -> (n,)."""
        ids = units.data
        stand_in = self._stand_in(target)
        kept = np.asarray(present, dtype=bool)[:, units.groups[target.players]]
        if stand_in is None:
            sequences = [ids[row] for row in kept]
        else:
            sequences = [np.where(row, ids, stand_in) for row in kept]
        return target.explained(self._ask(units, sequences))

    def _stand_in(self, target: Target) -> int | None:
        """Return the id that replaces an absent token, or None if it is deleted."""
        return {"deleted": None, "pad": HIDDEN, "mask": self._special("mask")}[target.absent]

    def inside(self, name: str, units: Units, target: Target) -> None:
        """Return None, because attention and gradients of a deep model have no closed form."""
        return None

    def game(self, units: Units, target: Target) -> PooledGame:
        """Return the game of the SLALOM that is fitted to the model around this text."""
        ids = units.data
        slalom = self._fitted(units, target)[0].slalom
        # A SLALOM has no value without tokens, so the model itself is asked.
        empty = target.explained(self._ask(units, [ids[:0]]))
        game = slalom.game(ids, empty_value=float(empty[0]), absent=self._stand_in(target))
        players, names = units.players(target.players)
        return game.merge(members(players), names)

    def fit(self, units: Units, target: Target) -> FitReport:
        """Return how well the SLALOM of `game` fits the model; its Shapley values are compared with
        sampled ones.
        """
        reports = _computed(units).reports
        key = (target.players, *_fit_key(target))
        if key not in reports:
            _, report = self._fitted(units, target)
            reports[key] = replace(report, agreement=self._agreement(units, target))
        return reports[key]

    def _agreement(self, units: Units, target: Target) -> float:
        """Return the rank correlation of the SLALOM's Shapley values with sampled ones of the
        model.
        """
        names = units.players(target.players)[1]
        try:
            # Relative accuracy of the SLALOM's Shapley values in the comparison with the sampled
            # ones.
            agreement_tol = 1e-6
            fitted = shapley(self.pooled_game(units, target), agreement_tol)
        except ToleranceError:
            # Values that cannot be computed confirm nothing.
            return 0.0
        sampled = ModelGame(self, units, target.unlinked).shapley().values
        if len(names) > 1:
            return spearman(fitted, sampled)
        # A single player has the whole change in both.
        return 1.0

    def _fitted(self, units: Units, target: Target) -> tuple[SlalomFit, FitReport]:
        """Return the fitted SLALOM and its report without the agreement, fitted once per text."""
        fits = _computed(units).fits
        key = _fit_key(target)
        if key not in fits:
            fits[key] = self._fit(units, target)
        return fits[key]

    def _fit(self, units: Units, target: Target) -> tuple[SlalomFit, FitReport]:
        """Fit a SLALOM to the model near a text, and report how well it fits."""
        ids = units.data
        queries = list[Ids]()

        def f(sequences: list[Ids]) -> Array:
            queries.extend(sequences)
            return target.explained(self._ask(units, sequences))

        kind = Deletions(max_deletions=MAX_DELETIONS, replacement=self._stand_in(target))
        with warnings.catch_warnings():
            # Raised below, with the tokens instead of their ids.
            warnings.simplefilter("ignore", SlalomWarning)
            # One call of `f` has all samples; the model is then called in batches of similar
            # length.
            fit = fit_slalom(
                f,
                ids,
                num_samples=self.samples,
                batch_size=self.samples,
                seed=target.seed,
                progress=False,
                kind=kind,
            )
        # The spread of the model's output over the samples of the fit, with few and with any number
        # of tokens absent.
        absent = np.array([_number_absent(query, ids) for query in queries])
        values = target.explained(self._ask(units, queries))
        is_near = absent <= MAX_DELETIONS
        names = {int(i): label for i, label in zip(ids, units.labels, strict=True)}
        report = FitReport(
            name=self.surrogate,
            error=float(np.sqrt(fit.fresh_mse)),
            spread=_spread(values[is_near]),
            error_any_size=float(np.sqrt(fit.fresh_mse_any_size)),
            spread_any_size=_spread(values[~is_near]),
            at_text=float(f([ids])[0] - fit.slalom.predict(ids)),
            model_calls=fit.model_calls,
            undetermined=tuple(names.get(i, target.absent) for i in fit.undetermined),
        )
        computed = _computed(units)
        if report.undetermined and not computed.warned:
            computed.warned = True
            warn_user(report.sentences()[-1], SlalomWarning)
        return fit, report


def _number_absent(query: Ids, ids: Ids) -> int:
    """Return how many tokens of a text are deleted or replaced in a sample."""
    # A fit either deletes absent tokens or replaces them.
    if query.size < ids.size:
        return ids.size - query.size
    return int((query != ids).sum())


def _spread(values: Array) -> float:
    """Return the standard deviation of some outputs, NaN if there are none."""
    if not values.size:
        return float("nan")
    return float(values.std())


def _computed(units: Units) -> ComputedByTransformer:
    """Return what a transformer has computed for a text that it read."""
    assert isinstance(units, TokenUnits)
    return units.by_transformer


def _fit_key(target: Target) -> tuple[Any, ...]:
    """Return the parts of the target that affect the fit."""
    return (target.absent, target.coefficients, target.against_rest, target.seed)
