"""scikit-learn estimators: `AttentionTextClassifier` for texts and `AttentionBagClassifier` for
bags of instances.

`cross_val_score`, `GridSearchCV` and `Pipeline` accept them like any other classifier, and both
explain their predictions exactly. The text classifier trains as `attn-closed-form train` does, with
the same settings under the same names. The bag classifier takes a list of arrays, one per bag, and
one label per bag; its network is that of `bags.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from attn_closed_form import BagClassifier
from attn_closed_form._arrays import whole
from attn_closed_form.app.explanations.explanation import Explanations
from attn_closed_form.app.explanations.settings import MARGIN
from attn_closed_form.app.files.arrays import write_arrays
from attn_closed_form.app.files.tables import Labelled
from attn_closed_form.app.models.text_classifier import TextClassifier

from .bags import LAYOUT_OPTIONS, BagConfig, BagTraining, fit_bags, predict_bags, state_dict
from .best import train_best
from .config import Config, automatic, by_letter, named
from .scores import balanced_weights, log_probabilities
from .split import Split, split_stratified, stratified
from .train_tables import Result, TableOptions, named_tokenizer, train_tables

Bags = Sequence[NDArray[Any]]


class _AttentionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base class for the labels and predictions of both estimators, which implement
    `_logits(X)`.
    """

    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the logits, (n,) for two classes and (n, classes) for more."""
        check_is_fitted(self)
        logits = self._logits(X)
        if logits.shape[1] == 1:
            return logits[:, 0]
        return logits

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the (n, classes) probabilities, with columns in the order of `classes_`."""
        check_is_fitted(self)
        return np.exp(log_probabilities(self._logits(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the (n,) most probable label of each text or bag."""
        # Labels have the type that they had in training.
        columns = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[columns])

    def _encode_labels(self, y: Any, inputs: int) -> NDArray[np.int64]:
        """Return the (n,) class numbers of the labels, and set `classes_`."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        labels = column_or_1d(y, warn=True)
        if len(labels) != inputs:
            raise ValueError(
                f"y: expected one label per text or bag, {inputs} of them, got {len(labels)}"
            )
        check_classification_targets(labels)
        # Sorted, as scikit-learn expects.
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "y: expected at least two classes, got one class only, "
                f"{self.classes_[:1].tolist()}"
            )
        return codes.astype(np.int64)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


class AttentionTextClassifier(_AttentionClassifier):
    """Classify texts by softmax attention over words, with exact explanations.

    The default is the table model: one mass per word and one value per word and class, fitted in
    seconds. From 10,000 texts on, the attention model of Lopardo et al. (2024) is trained as well,
    by gradient steps from these tables, and kept if it predicts held-out texts better. If `heads`,
    `positions`, `max_length`, `embedding_size` or `settings` is given, the attention model alone is
    trained. The parameters are those of `attn-closed-form train`.

    Parameters
    ----------
    vocabulary_size : maximum number of words, by default 30,000
    validation : share of every class that is held out to choose the settings and to calibrate.
        Small tables (about a million words) are cross-validated instead
    class_weight : None, or "balanced" to weight classes inversely to their frequency
    seed : int; the same seed and texts give the same model
    tokenizer : a function from a text to its tokens, such as
        `attn_closed_form.app.models.text.Token`; "spaces" for texts whose words are already split;
        None is the tokenizer of this library, which reads scripts without spaces character by
        character
    sparse : whether frequent words without evidence lose their mass, so that explanations give them
        exactly 0
    trials : number of further settings to try
    model : "tables" or "attention"; None chooses
    heads : number of attention heads
    positions : "none" or "sinusoidal"
    max_length : maximum number of words that the attention model reads
    embedding_size : size of a word's embedding in the attention model
    settings : further settings of the attention model by name, such as {"epochs": 20}
        (`jax_model.training.config`)
    device : "auto", "cpu" or "gpu", for the attention model
    verbose : whether to show the progress on standard error

    Attributes
    ----------
    classes_ : labels in sorted order, which is the order of the columns of `predict_proba`
    model_ : the TextClassifier that explains and that `save` writes
    metrics_ : scores on held-out texts and settings

    Examples
    --------
    >>> texts = ["a fine film", "a lovely film", "a dull film", "an awful film"] * 10
    >>> labels = ["good", "good", "bad", "bad"] * 10
    >>> model = AttentionTextClassifier().fit(texts, labels)
    >>> model.predict(["lovely", "dull"]).tolist(), model.classes_.tolist()
    (['good', 'bad'], ['bad', 'good'])
    >>> model.explain("a lovely film", "shapley")["shapley"].top(1)[0][0]
    'lovely'
    """

    def __init__(
        self,
        *,
        vocabulary_size: int = 30_000,
        validation: float = 0.1,
        class_weight: str | None = None,
        seed: int = 0,
        tokenizer: Any = None,
        sparse: bool = True,
        trials: int = 0,
        model: str | None = None,
        heads: int | None = None,
        positions: str | None = None,
        max_length: int | None = None,
        embedding_size: int | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        _keep_arguments(self, locals())

    def fit(
        self,
        X: Iterable[str],
        y: ArrayLike,
        X_val: Iterable[str] | None = None,
        y_val: ArrayLike | None = None,
    ) -> AttentionTextClassifier:
        """Train on texts X and their labels y.

        `X_val` and `y_val` are held out instead of a part of X, and are not used for the fit.
        """
        texts = _texts(X, "X")
        codes = self._encode_labels(y, len(texts))
        # A model file has names of classes; `classes_` keeps the labels and their type.
        names = tuple(str(label) or "(empty)" for label in self.classes_.tolist())
        data = Labelled(texts=texts, labels=codes, classes=names)
        held_out = None
        if X_val is not None:
            held_out = self._held_out(X_val, y_val, data.classes)
        if self.class_weight not in (None, "balanced"):
            raise ValueError(
                f"class_weight: expected None or 'balanced', got {self.class_weight!r}"
            )
        shared = {
            "D": self.vocabulary_size,
            "validation": self.validation,
            "class_weight": self.class_weight or "none",
            "seed": self.seed,
        }
        only_attention = {
            "K": self.heads,
            "positions": self.positions,
            "T_max": self.max_length,
            "d_e": self.embedding_size,
            **by_letter(self.settings or {}),
        }
        # None leaves a setting to the library, which derives it from the texts.
        chosen = {name: value for name, value in only_attention.items() if value is not None}
        if self.model not in (None, "tables", "attention"):
            raise ValueError(f"model: expected 'tables', 'attention' or None, got {self.model!r}")
        if self.model == "tables" and chosen:
            raise ValueError(f"{named(min(chosen))}: only the attention model has this setting")
        if chosen or self.model == "attention":
            result = self._train_attention(data, held_out, {**shared, **chosen})
        else:
            # Checks the settings, which both models have.
            Config(**shared)
            options = TableOptions(
                vocabulary_size=self.vocabulary_size,
                validation=self.validation,
                class_weight=self.class_weight or "none",
                seed=self.seed,
                tokenizer=named_tokenizer(self.tokenizer),
                sparse=self.sparse,
                trials=whole("trials", self.trials, 0),
            )
            progress = None if self.verbose else False
            if self.model == "tables":
                result = train_tables(data, options, held_out, refit=False, progress=progress)
            else:
                result = train_best(
                    data, options, held_out, refit=False, progress=progress, device=self.device
                )
        # Texts such as "0" stay texts, and booleans and numbers what they are, also in a file.
        labels = tuple(self.classes_.tolist())
        self.model_: TextClassifier = replace(result.model, labels=labels)
        self.metrics_ = result.metrics
        return self

    def _train_attention(
        self, data: Labelled, held_out: Labelled | None, settings: dict[str, Any]
    ) -> Result:
        """Train the model of Lopardo et al. with JAX."""
        from .train import train

        for name, unused in (("tokenizer", None), ("trials", 0)):
            if getattr(self, name) != unused:
                raise ValueError(f"{name}: only the table model takes it")
        if not self.sparse:
            settings = {**settings, "zeros": "none"}
        if held_out is None:
            split = split_stratified(data, self.validation, self.seed)
        else:
            split = Split(data, held_out)
            # Texts that the caller holds out are not used in the fit.
            settings = {"refit": "none", **settings}
        config = automatic(split.training.texts, **settings)
        log = None if self.verbose else lambda line: None
        return train(config, split, self.device, log=log)

    def explain(
        self, text: str, methods: str | Iterable[str] | None = None, **settings: Any
    ) -> Explanations:
        """Explain the prediction for one text; `output` may be a label.

        See `attn_closed_form.explain`.
        """
        check_is_fitted(self)
        output = settings.get("output")
        # A label may have another type than its name in the model.
        if output is not None and not str(output).startswith(MARGIN):
            columns = np.flatnonzero(self.classes_ == output)
            if columns.size:
                settings["output"] = self.model_.outputs[columns[0]]
        return self.model_.explain(text, methods, **settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the model to one `.npz` or `.safetensors` file for `load_model` and the command
        line.
        """
        check_is_fitted(self)
        self.model_.save(path, dtype=np.float32)

    def _logits(self, X: Iterable[str]) -> NDArray[np.float64]:
        return self.model_.predict_logits(_texts(X, "X"))

    def predict_proba(self, X: Iterable[str]) -> NDArray[np.float64]:
        """Return the (n, classes) probabilities, bit-identical to the saved model, in the order of
        `classes_`.
        """
        check_is_fitted(self)
        return self.model_.predict_proba(_texts(X, "X"))

    def _held_out(self, X: Any, y: Any, classes: tuple[str, ...]) -> Labelled:
        texts = _texts(X, "X_val")
        labels = np.asarray(y)
        if y is None or labels.shape != (len(texts),):
            raise ValueError(
                f"y_val: expected {len(texts)} labels, one per text of X_val, got shape "
                f"{labels.shape}"
            )
        if not np.isin(labels, self.classes_).all():
            raise ValueError(
                "y_val: expected labels that occur in y, got "
                f"{set(labels.tolist()) - set(self.classes_)}"
            )
        # `classes_` is sorted, and has all of these labels.
        return Labelled(texts=texts, labels=np.searchsorted(self.classes_, labels), classes=classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags


class AttentionBagClassifier(_AttentionClassifier):
    """Classify bags (lists of instances) by gated attention (Ilse et al., 2018), with exact
    explanations.

    Parameters
    ----------
    hidden, attention : widths of the embedding and of the gates
    dropout : share of features and of embedding units that is dropped in training
    instance_dropout : every bag in training loses a random share of its instances, up to this one
    learning_rate, weight_decay, epochs, batch_size : settings of AdamW; a batch has `batch_size`
        bags
    ema : decay of the running average of the weights, which is the saved model
    early_stopping : hold out `validation_fraction` of the bags (stratified), keep the epoch that
        predicts them best, and stop `patience` epochs after it. Off by default, as in scikit-learn:
        with a hundred bags, a tenth of them is a small sample, and averaging and the falling
        learning rate make the last epoch a good one.
    class_weight : None, or "balanced" to weight classes inversely to their frequency
    random_state : int; the same seed and data give the same model

    Attributes
    ----------
    classes_ : labels in sorted order; the columns of `predict_proba`
    n_features_in_ : number of features of an instance
    history_ : one record per epoch: training loss and, with early stopping, validation loss
    held_out_ : indices of the held-out bags

    Examples
    --------
    Bags are positive when any instance has a large first feature:

    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(5, 3)) for _ in range(40)]
    >>> labels = ["high" if bag[:, 0].max() > 1.2 else "low" for bag in bags]
    >>> model = AttentionBagClassifier(hidden=16, learning_rate=1e-2, random_state=0).fit(
    ...     bags, labels
    ... )
    >>> model.classes_.tolist(), model.score(bags, labels) > 0.8
    (['high', 'low'], True)
    """

    def __init__(
        self,
        hidden: int = 64,
        attention: int = 32,
        dropout: float = 0.25,
        instance_dropout: float = 0.3,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.1,
        epochs: int = 60,
        batch_size: int = 8,
        ema: float = 0.98,
        early_stopping: bool = False,
        validation_fraction: float = 0.15,
        patience: int = 10,
        class_weight: str | None = None,
        random_state: int = 0,
    ) -> None:
        _keep_arguments(self, locals())

    def fit(self, X: Bags, y: ArrayLike) -> AttentionBagClassifier:
        """Train on bags and their labels.

        Parameters
        ----------
        X : arrays (n_i, D), one per bag, with at least one instance each and the same D
        y : (B,) labels, text or numbers, of at least two classes
        """
        bags = check_bags(X)
        codes = self._encode_labels(y, len(bags))
        # scikit-learn calls the seed `random_state`, and allows generators as well.
        names = {field.name for field in fields(BagConfig)} - {"seed"}
        config = BagConfig(seed=self._seed(), **{name: getattr(self, name) for name in names})
        if self.class_weight not in (None, "balanced"):
            raise ValueError(
                f"class_weight: expected None or 'balanced', got {self.class_weight!r}"
            )
        # Without early stopping, no bag is held out.
        out = self._held_out(codes, config.seed)
        self.n_features_in_ = bags[0].shape[1]
        self.held_out_ = np.flatnonzero(out)
        held_out = None
        if out.any():
            held_out = ([bags[i] for i in self.held_out_], codes[out])
        weight = None
        if self.class_weight == "balanced":
            weight = balanced_weights(codes[~out], len(self.classes_))
        training = [bags[i] for i in np.flatnonzero(~out)]
        self.training_: BagTraining = fit_bags(
            training,
            codes[~out],
            classes=len(self.classes_),
            config=config,
            held_out=held_out,
            class_weight=weight,
        )
        self.history_ = self.training_.history
        return self

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """Return the weights for `BagClassifier.from_state_dict`, including the standardization of
        features.
        """
        check_is_fitted(self)
        return state_dict(self.training_)

    def to_model(self) -> BagClassifier:
        """Convert the network to an `attn_closed_form.BagClassifier`, which only needs NumPy."""
        return BagClassifier.from_state_dict(
            self.state_dict(),
            layout="clam",
            outputs=tuple(map(str, self.classes_)),
            labels=tuple(self.classes_.tolist()),
            **LAYOUT_OPTIONS,
        )

    def explain(self, bag: Any, methods: Any = None, **settings: Any) -> Explanations:
        """Explain one bag exactly; the same as `to_model().explain(bag, methods, **settings)`."""
        return self.to_model().explain(bag, methods, **settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the network as `.npz` or `.safetensors`, without pickle.

        `BagClassifier.from_state_dict(path)` and the command `attn-closed-form bag` read it; the
        file includes the class names.
        """
        texts = {
            "outputs": self.classes_.astype(str),
            "labels": np.array([json.dumps(self.classes_.tolist())]),
            "options": np.array([json.dumps(LAYOUT_OPTIONS)]),
        }
        write_arrays({**self.state_dict(), **texts}, path)

    def _logits(self, X: Bags) -> NDArray[np.float64]:
        return predict_bags(self.training_, check_bags(X, self.n_features_in_))

    def _held_out(self, codes: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
        """Return a (B,) mask of bags to hold out, at least one of each class."""
        if not self.early_stopping:
            return np.zeros(len(codes), dtype=bool)
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                "validation_fraction: expected a number between 0 and 1, got "
                f"{self.validation_fraction}"
            )
        # A stream of its own: the weights and the order of the bags do not depend on the split.
        rng = np.random.default_rng([seed, 2])
        held_out, single = stratified(
            codes, len(self.classes_), share=self.validation_fraction, rng=rng
        )
        if single:
            name = self.classes_[single[0]]
            raise ValueError(
                f"y: early stopping needs at least two bags of each class, got one of {name!r}"
            )
        return held_out


def _keep_arguments(estimator: Any, arguments: dict[str, Any]) -> None:
    """Set the arguments of a constructor as attributes, which is all that scikit-learn allows it to
    do.
    """
    for name, value in arguments.items():
        if name != "self":
            setattr(estimator, name, value)


def _texts(X: Any, name: str) -> list[str]:
    # A string is a sequence of strings, too: its characters.
    if isinstance(X, str):
        raise ValueError(
            f"{name}: expected an iterable over texts, got one string; put it in a list"
        )
    if getattr(X, "ndim", 1) != 1:
        raise ValueError(
            f"{name}: expected a list or a column of texts, got an array of shape {X.shape}"
        )
    texts = list(X)
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(
                f"{name}: expected texts, got {type(text).__name__}; replace missing values first"
            )
    # NumPy's strings become Python's.
    return [str(text) for text in texts]


def check_bags(bags: Any, features: int | None = None) -> list[NDArray[Any]]:
    """Return bags as finite arrays (n_i, D) with the same D, or raise an error that names the
    bag.
    """
    # A bag may be an object with features, such as one that was read from a file.
    arrays = [np.asarray(getattr(bag, "features", bag)) for bag in bags]
    if not arrays:
        raise ValueError("X: expected at least one bag, got none")
    for i, bag in enumerate(arrays):
        if bag.ndim != 2 or not len(bag) or bag.dtype.kind not in "fiub":
            raise ValueError(
                f"X[{i}]: expected numbers of shape (instances, features) with at least one "
                f"instance, got shape {bag.shape} of {bag.dtype}"
            )
        if features is None:
            wanted = arrays[0].shape[1]
        else:
            wanted = features
        if bag.shape[1] != wanted:
            raise ValueError(f"X[{i}]: expected {wanted} features, got {bag.shape[1]}")
        if not np.isfinite(bag).all():
            raise ValueError(f"X[{i}]: expected finite numbers, got NaN or infinity")
    return arrays
