"""Train the table model on texts with classes: tokens, folds, selection, fit, scores and the model
with its card.

Up to CROSS_VALIDATED words, the settings are chosen in cross-validation, and the printed scores are
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
from attn_closed_form._arrays import usual_float_errors
from attn_closed_form._progress import stages
from attn_closed_form.app.files.open_model import TOKENIZERS
from attn_closed_form.app.files.tables import Labelled, TableWarning
from attn_closed_form.app.models.scale import percent
from attn_closed_form.app.models.text import Token, split_at_spaces, tokenize, words_of
from attn_closed_form.app.models.text_classifier import TextClassifier

from . import table_selection, word_tables
from .config import Config
from .scores import Labels, balanced_weights, log_probabilities, report
from .split import Split, stratified
from .table_fit import TableSettings

# Tuning: up to this many words times logits, the settings are chosen in cross-validation. A tenth
# of more texts is enough to tell settings apart, and one fit takes seconds. The limit is at 6,000
# reviews or 75,000 sentences of two classes.
CROSS_VALIDATED = 1_500_000
# A macro-F1 that is this much below the accuracy is worth a warning.
LARGE_GAP = 0.15
# [CLS] and [UNK], which count as words of the vocabulary.
SPECIAL_WORDS = 2

Tokenizer = Callable[[str], Sequence[Token]]


class Result(NamedTuple):
    """A trained model with its card, the history of its training, and the losses of the held-out
    texts.
    """

    model: TextClassifier
    metrics: dict[str, Any]
    losses: word_tables.Floats


class Texts(NamedTuple):
    """Texts as words, their classes (n,), and what every fit needs to know."""

    documents: list[list[str]]
    labels: Labels
    classes: int
    vocabulary_size: int
    weights: word_tables.Floats | None

    @classmethod
    def of(cls, data: Labelled, options: TableOptions) -> Texts:
        """Split texts into words, and weight them as the options say."""
        labels = np.asarray(data.labels, dtype=np.intp)
        classes = len(data.classes)
        weights = None
        if options.class_weight == "balanced":
            weights = balanced_weights(labels, classes)[labels].astype(np.float64)
        documents = [_words(text, options.tokenizer) for text in data.texts]
        return cls(documents, labels, classes, options.vocabulary_size - SPECIAL_WORDS, weights)

    def take(self, rows: table_selection.Rows) -> Texts:
        """Return some of the texts, in the order of their rows."""
        weights = None if self.weights is None else self.weights[rows]
        return self._replace(
            documents=[self.documents[i] for i in rows], labels=self.labels[rows], weights=weights
        )

    def fit(self, count: int, selection: table_selection.Selection) -> word_tables.FittedTables:
        """Fit the tables to the first texts."""
        return table_selection.fit_tables(
            self.documents[:count],
            self.labels[:count],
            self.classes,
            selection,
            self.vocabulary_size,
            None if self.weights is None else self.weights[:count],
        )


class Chosen(NamedTuple):
    """Chosen settings of the tables, with the texts and the folds on which they were chosen; the
    first `training_texts` of the texts are for training.
    """

    texts: Texts
    training_texts: int
    class_names: tuple[str, ...]
    folds: Sequence[table_selection.Fold]
    selection: table_selection.Selection

    @property
    def losses(self) -> word_tables.Floats:
        """The (m,) cross-entropies of the texts of all folds that their fits did not use."""
        labels = self.texts.labels[self.selection.rows]
        return table_selection.text_losses(self.selection.logits, labels)


class TableStart(NamedTuple):
    """Tables from which the attention model starts, of the training texts and of all texts."""

    of_training: word_tables.FittedTables
    of_all: word_tables.FittedTables


class TableOptions(NamedTuple):
    """What a user may choose; the rest is chosen on texts that were not used in the fit."""

    vocabulary_size: int = 30_000
    validation: float = 0.1
    class_weight: str = "none"
    seed: int = 0
    tokenizer: Tokenizer = tokenize
    sparse: bool = True
    trials: int = 0


@usual_float_errors
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
    chosen = choose_tables(training, options, held_out, progress)
    return fitted_tables(chosen, options, refit, test)


def choose_tables(
    training: Labelled,
    options: TableOptions,
    held_out: Labelled | None = None,
    progress: bool | None = None,
) -> Chosen:
    """Choose the settings of the tables; the parameters are those of `train_tables`."""
    data = training
    if held_out is not None:
        data = joined(training, held_out)
    texts = Texts.of(data, options)
    folds = choose_folds(texts, len(training.texts), options)
    with stages("fits", progress) as stage:
        selection = table_selection.select(
            *texts[:3],
            folds,
            *texts[3:],
            sparse=options.sparse,
            trials=options.trials,
            seed=options.seed,
            progress=lambda done, total: stage("fits", done, total),
        )
    return Chosen(texts, len(training.texts), data.classes, folds, selection)


def fitted_tables(
    chosen: Chosen, options: TableOptions, refit: bool = True, test: Labelled | None = None
) -> Result:
    """Fit the tables of the model with chosen settings to all texts, or to those for training."""
    texts = chosen.texts
    labels = texts.labels
    folds = chosen.folds
    selection = chosen.selection
    classes = chosen.class_names
    final_texts = len(labels)
    if not refit:
        final_texts = chosen.training_texts
    fitted = texts.fit(final_texts, selection)

    # Scores of texts that the fit of their fold has not seen.
    scores = report(selection.logits, labels[selection.rows], classes)
    _warn_about_classes(scores, options)
    card: dict[str, Any] = {
        "training_texts": len(folds[0].training),
        "folds": len(folds),
        "held_out": scores,
        "final_texts": final_texts,
        **_about_tables(fitted, texts.documents),
        "settings": _settings(options, selection.settings),
        "versions": {
            "attn_closed_form": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
    }
    model = TextClassifier(
        word_tables.attention_weights(fitted.tables),
        word_tables.vocabulary_of(fitted.words),
        classes,
        tokenizer=options.tokenizer,
        card=card,
        distinct_words=selection.settings.once,
        labels=integer_labels(classes),
    )
    if test is not None:
        # The model itself, as it is saved, in place of the tables.
        logits = model.predict_logits(test.texts)
        card["test"] = report(logits, np.asarray(test.labels), classes)
    metrics = {**card, "classes": list(classes), "vocabulary": len(fitted.words)}
    return Result(model, metrics, chosen.losses)


def table_start(split: Split, config: Config, chosen: Chosen | None = None) -> TableStart:
    """Fit tables with settings that are chosen on the held-out texts of a split, or were chosen
    already, with the same texts in the first fold.
    """
    if chosen is None:
        options = TableOptions(config.D, class_weight=config.class_weight)
        options = options._replace(sparse=config.takes_masses)
        chosen = choose_tables(split.training, options, split.held_out, progress=False)
    fold = chosen.folds[0]
    texts = chosen.texts.take(np.concatenate([fold.training, fold.held_out]))
    texts = texts._replace(vocabulary_size=config.D - SPECIAL_WORDS)
    selection = chosen.selection
    if not config.takes_masses:
        # The attention model starts with a mass for every word.
        every_word = selection.settings._replace(sparse_from=None)
        selection = selection._replace(settings=every_word)
    return TableStart(
        of_training=texts.fit(len(fold.training), selection),
        of_all=texts.fit(len(texts.labels), selection),
    )


def joined(first: Labelled, second: Labelled) -> Labelled:
    """Return the texts of two parts with the same classes, one after the other."""
    labels = np.concatenate([first.labels, second.labels])
    return Labelled([*first.texts, *second.texts], labels, first.classes)


def choose_folds(
    texts: Texts, training_texts: int, options: TableOptions
) -> list[table_selection.Fold]:
    """Return the folds: the given held-out texts, cross-validation, or a share of every class.

    The first `training_texts` of the texts are for training; the others are the held-out ones that
    the user gave.
    """
    labels = texts.labels
    classes = texts.classes
    n = len(labels)
    rows = np.arange(n)
    if training_texts < n:
        return [table_selection.Fold(rows[:training_texts], rows[training_texts:])]
    # A class with one text is in one fold only, or is not held out.
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
    words = sum(map(len, texts.documents))
    if words * max(classes - 1, 1) <= CROSS_VALIDATED:
        # Tuning: with few texts, every one matters for the fit, and fits are cheap.
        count = 3
        if n < 500:
            count = 5
        return table_selection.cross_validation(labels, classes, min(count, n), options.seed)
    rng = np.random.default_rng([options.seed, n])
    out, _ = stratified(labels, classes, options.validation, rng)
    return [table_selection.Fold(rows[~out], rows[out])]


def named_tokenizer(tokenizer: str | Tokenizer | None) -> Tokenizer:
    """Return a tokenizer by its name, "words" or "spaces", or the function that is given.

    >>> [token.word for token in named_tokenizer("spaces")("很 好看")]
    ['很', '好看']
    """
    if tokenizer is None:
        return tokenize
    if callable(tokenizer):
        return tokenizer
    if tokenizer not in TOKENIZERS:
        names = ", ".join(TOKENIZERS)
        raise ValueError(f"tokenizer: expected {names} or a function, got {tokenizer!r}")
    return TOKENIZERS[tokenizer]


def integer_labels(classes: Sequence[str]) -> tuple[int, ...]:
    """Return the names of classes as integers if all of them are integers in their usual form,
    otherwise ().

    A table of texts has no types: its labels 0 and 1 are integers to whoever compares predictions
    with them.

    >>> integer_labels(("0", "1", "-3")), integer_labels(("0", "01"))
    ((0, 1, -3), ())
    """
    for name in classes:
        digits = name.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or str(int(name)) != name:
            return ()
    return tuple(int(name) for name in classes)


def _words(text: str, tokenizer: Tokenizer) -> list[str]:
    """Return the words of a text; without their places for our own tokenizer, which is faster."""
    if tokenizer is tokenize:
        return words_of(text)
    if tokenizer is split_at_spaces:
        return text.split()
    return [token.word for token in tokenizer(text)]


def _share_without_mass(
    documents: Sequence[Sequence[str]], fitted: word_tables.FittedTables
) -> float:
    """Return the share of the words of texts whose mass is zero."""
    massless = fitted.tables.s <= word_tables.MASSLESS
    counts = word_tables.count_words(documents, fitted.words)
    # Texts of punctuation have no words.
    return float((counts @ massless).sum() / max(counts.sum(), 1.0))


def _about_tables(
    fitted: word_tables.FittedTables, documents: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return what a card says about tables: their words, and the shares of the classes."""
    tables = fitted.tables
    # The first row is [UNK].
    with_mass = tables.s[1:] > word_tables.MASSLESS
    prior = np.exp(log_probabilities(tables.prior[None]))[0]
    return {
        "words": len(fitted.words),
        "words_with_mass": int(with_mass.sum()),
        "tokens_without_mass": _share_without_mass(documents, fitted),
        "prior": prior.tolist(),
    }


def _settings(options: TableOptions, chosen: TableSettings) -> dict[str, Any]:
    """Return the settings for a card: those of the user, and those chosen on the texts."""
    settings: dict[str, Any] = {
        "model": "tables",
        "vocabulary_size": options.vocabulary_size,
        "validation": options.validation,
        "class_weight": options.class_weight,
        "seed": options.seed,
        **chosen._asdict(),
    }
    # JSON has no infinity.
    if np.isinf(chosen.penalty):
        settings["penalty"] = "infinite"
    return settings


def _warn_about_classes(scores: dict[str, Any], options: TableOptions) -> None:
    """Warn about classes that the model never recognized although held-out texts have them, and
    about a macro-F1 far below the accuracy.
    """
    # Classes without a held-out text have no recall.
    never = [name for name, row in scores["classes"].items() if row["texts"] and row["recall"] == 0]
    advice = ""
    if options.class_weight == "none":
        advice = "; class_weight balanced gives rare classes more weight"
    if never:
        shown = ", ".join(repr(name[:40]) for name in never[:5])
        if len(never) > 5:
            shown += f" and {len(never) - 5} more"
        warnings.warn(
            f"no held-out text of class {shown} was recognized, so the accuracy says little about "
            f"it{advice}",
            TableWarning,
            stacklevel=3,
        )
    elif advice and scores["macro_f1"] < scores["accuracy"] - LARGE_GAP:
        warnings.warn(
            f"rare classes are recognized less often: macro-F1 {percent(scores['macro_f1'])}, "
            f"accuracy {percent(scores['accuracy'])}{advice}",
            TableWarning,
            stacklevel=3,
        )
