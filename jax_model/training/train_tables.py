"""Train the table model on texts with classes: tokens, folds, selection, fit, scores and the model
with its card.

Up to CROSS_VALIDATED texts, the settings are chosen in cross-validation, and the printed scores are
those on the texts that each fold leaves out. Beyond, and if the user names held-out texts, one part
is held out. The fit itself is in `word_tables.py`. Nothing here imports JAX, whose start and
compilation take longer than the fit of a thousand texts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from attn_closed_form import __version__
from attn_closed_form._progress import stages
from attn_closed_form.app.files.tables import Labelled, TableWarning
from attn_closed_form.app.models.text import Token, tokenize, words_of
from attn_closed_form.app.models.text_classifier import TextClassifier

from . import word_tables
from .scores import Labels, balanced_weights, log_probabilities, report
from .split import stratified

# Tuning: up to this many texts, the settings are chosen in cross-validation. A tenth of more texts
# is enough to tell settings apart, and one fit takes seconds.
CROSS_VALIDATED = 4000
# Tuning: folds below 500 texts, where every text matters for the fit, and above.
FEW_TEXTS = 500
# Tuning: folds below FEW_TEXTS texts.
FOLDS_OF_FEW = 5
# Tuning: folds from FEW_TEXTS texts on.
FOLDS = 3

Tokenizer = Callable[[str], Sequence[Token]]


class Result(NamedTuple):
    """A trained model with its card, and the history of its training."""

    model: TextClassifier
    metrics: dict[str, Any]


class TableOptions(NamedTuple):
    """What a user may choose; the rest is chosen on texts that were not used in the fit."""

    vocabulary_size: int = 30_000
    validation: float = 0.1
    class_weight: str = "none"
    seed: int = 0
    tokenizer: Tokenizer = tokenize


def train_tables(
    training: Labelled,
    options: TableOptions,
    held_out: Labelled | None = None,
    refit: bool = True,
    test: Labelled | None = None,
    progress: bool | None = None,
) -> Result:
    """Train the table model on texts and their classes.

    Parameters
    ----------
    training : the texts to train on, of at least two classes
    options : TableOptions
    held_out : texts to choose the settings on; None uses folds or a share of the training texts
    refit : whether the final fit also uses the texts of `held_out`; parts of the training texts are
        always used
    test : test texts, which are only scored once, with the final model
    progress : whether to show a progress bar; None shows one on a terminal

    Examples
    --------
    >>> texts = ["a fine film", "a lovely film", "a dull film", "an awful film"] * 5
    >>> data = Labelled(texts, np.array([1, 1, 0, 0] * 5), ("bad", "good"))
    >>> train_tables(data, TableOptions()).model.predict(["lovely", "dull"]).tolist()
    ['good', 'bad']
    """
    classes = len(training.classes)
    data = training if held_out is None else joined(training, held_out)
    documents = [_words(text, options.tokenizer) for text in data.texts]
    labels = np.asarray(data.labels, dtype=np.intp)
    folds = choose_folds(labels, classes, len(training.texts), options)
    weights = None
    if options.class_weight == "balanced":
        weights = balanced_weights(labels, classes)[labels].astype(np.float64)

    with stages("fits", progress) as stage:
        selection = word_tables.select(
            documents,
            labels,
            classes,
            folds,
            options.vocabulary_size - len(("[CLS]", "[UNK]")),
            weights,
            lambda done, total: stage("fits", done, total),
        )
    last = slice(None) if held_out is None or refit else slice(len(training.texts))
    words, tables = word_tables.fit_tables(
        documents[last],
        labels[last],
        classes,
        selection,
        options.vocabulary_size - len(("[CLS]", "[UNK]")),
        None if weights is None else weights[last],
    )

    scores = report(selection.logits, labels[selection.rows], data.classes)
    _warn_about_classes(scores, options)
    card: dict[str, Any] = {
        "training_texts": len(folds[0].training),
        "folds": len(folds),
        "held_out": scores,
        "final_texts": len(labels[last]),
        "prior": _shares(tables.prior),
        "settings": {
            "model": "tables",
            "vocabulary_size": options.vocabulary_size,
            "validation": options.validation,
            "class_weight": options.class_weight,
            "seed": options.seed,
            **selection.settings._replace(
                penalty=_json_number(selection.settings.penalty)
            )._asdict(),
        },
        "versions": {
            "attn_closed_form": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    }
    model = TextClassifier(
        word_tables.attention_weights(tables),
        word_tables.vocabulary_of(words),
        data.classes,
        tokenizer=options.tokenizer,
        card=card,
        distinct_words=selection.settings.once,
        integer_classes=all_integers(data.classes),
    )
    if test is not None:
        logits = model.predict_logits(test.texts)
        card["test"] = report(logits, np.asarray(test.labels), data.classes)
    metrics = {**card, "classes": list(data.classes), "vocabulary": len(words)}
    return Result(model, metrics)


def joined(first: Labelled, second: Labelled) -> Labelled:
    """Return the texts of two parts with the same classes, one after the other."""
    labels = np.concatenate([first.labels, second.labels])
    return Labelled([*first.texts, *second.texts], labels, first.classes)


def choose_folds(
    labels: Labels, classes: int, training_texts: int, options: TableOptions
) -> list[word_tables.Fold]:
    """Return the folds: the given held-out texts, cross-validation, or a share of every class.

    The first `training_texts` of the texts are for training; the others are the held-out ones that
    the user gave.
    """
    n = len(labels)
    rows = np.arange(n)
    if training_texts < n:
        return [word_tables.Fold(rows[:training_texts], rows[training_texts:])]
    counts = np.bincount(labels, minlength=classes)
    single = np.flatnonzero(counts == 1)
    if single.size:
        warnings.warn(
            f"{single.size} of {classes} classes have only one text, which cannot be held out",
            TableWarning,
            stacklevel=3,
        )
    if counts.max() < 2:
        raise ValueError(
            f"validation: expected a class with at least two texts, got {n} single ones"
        )
    if n <= CROSS_VALIDATED:
        count = FOLDS_OF_FEW if n < FEW_TEXTS else FOLDS
        return word_tables.cross_validation(labels, classes, min(count, n), options.seed)
    rng = np.random.default_rng([options.seed, n])
    out, _ = stratified(labels, classes, options.validation, rng)
    return [word_tables.Fold(rows[~out], rows[out])]


def all_integers(classes: Sequence[str]) -> bool:
    """Return whether all names of classes are integers in their usual form, so that they can be
    returned as such.

    >>> all_integers(("0", "1", "-3")), all_integers(("0", "01"))
    (True, False)
    """
    for name in classes:
        digits = name.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or str(int(name)) != name:
            return False
    return True


def _words(text: str, tokenizer: Tokenizer) -> list[str]:
    """Return the words of a text; without their places for our own tokenizer, which is faster."""
    if tokenizer is tokenize:
        return words_of(text)
    return [token.word for token in tokenizer(text)]


def _shares(prior: word_tables.Floats) -> list[float]:
    """Return the shares of the classes from the logits of the prior."""
    return np.exp(log_probabilities(prior[None]))[0].tolist()


def _json_number(number: float) -> Any:
    """Return a number for JSON, which has no infinity."""
    return number if np.isfinite(number) else "infinite"


def _warn_about_classes(scores: dict[str, Any], options: TableOptions) -> None:
    """Warn about classes that the model never predicted although held-out texts have them."""
    never = [name for name, row in scores["classes"].items() if row["texts"] and row["recall"] == 0]
    if not never:
        return
    shown = ", ".join(repr(name[:40]) for name in never[:5])
    if len(never) > 5:
        shown += f" and {len(never) - 5} more"
    advice = ""
    if options.class_weight == "none":
        advice = "; class_weight balanced gives rare classes more weight"
    warnings.warn(
        f"no held-out text of class {shown} was recognized, so the accuracy says little about "
        f"it{advice}",
        TableWarning,
        stacklevel=3,
    )
