"""A model in words, for readers who know what it was trained for and not how it is built."""

from __future__ import annotations

from ..models.bag_classifier import BagClassifier
from ..models.mean_text import MeanPooledText, VocabularyReader
from ..models.protocol import BagModel, Model, TextModel
from ..models.text_classifier import TextClassifier
from .sanitize import elide, visible


def model_in_words(model: Model) -> str:
    """Describe a model: its kind, its classes, and what it reads.

    >>> from attn_closed_form import load_demo_model
    >>> model_in_words(load_demo_model())
    'a text classifier for negative and positive that knows 6,000 words'
    """
    return f"{kind_of(model)}{_outputs(model)}{_reads(model)}"


def kind_of(model: Model) -> str:
    """Say what kind of model it is.

    >>> from attn_closed_form import load_demo_model
    >>> kind_of(load_demo_model())
    'a text classifier'
    """
    if isinstance(model, TextClassifier):
        return "a text classifier"
    if isinstance(model, MeanPooledText):
        return "a text classifier on the mean of word vectors"
    # Its game is fitted, because a transformer pools nothing that could be read off.
    if model.surrogate is not None:
        return "a transformer"
    if isinstance(model, TextModel):
        return "a text model"
    if isinstance(model, BagModel):
        return "an attention-pooling network"
    return "a softmax-weighted mean"


def _outputs(model: Model) -> str:
    """Name the classes, or count them if there are many."""
    # Tuning: the length of the name of a class.
    longest_name = 32
    # Tuning: the number of classes that are named, about a line.
    named_classes = 4
    names = [elide(visible(name), longest_name) for name in model.outputs]
    if all(name.isdecimal() for name in names):
        if len(names) < 2:
            return ""
        return f" for {len(names):,} classes"
    if len(names) > named_classes:
        shown = ", ".join(names[:named_classes])
        return f" for {len(names):,} classes ({shown}, …)"
    if len(names) > 1:
        return f" for {', '.join(names[:-1])} and {names[-1]}"
    return f" for {names[0]}"


def _reads(model: Model) -> str:
    """Say what a model knows or reads."""
    if isinstance(model, TextClassifier):
        known = f" that knows {model.weights.D:,} words"
        if model.weights.T_max is not None:
            known += f" and reads the first {model.weights.T_max - 1:,}"
        return known
    if isinstance(model, MeanPooledText) and isinstance(model.reader, VocabularyReader):
        return f" that knows {len(model.reader.rows):,} words"
    if isinstance(model, BagClassifier):
        return f" on {model.network.D:,} features"
    return ""
