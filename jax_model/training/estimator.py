"""`AttentionTextClassifier`: the trainer behind scikit-learn's interface.

Texts and labels in, a classifier out that `cross_val_score`, `GridSearchCV` and `Pipeline` take like any other, and
that explains itself exactly. It trains as `attn-closed-form train` does, with the same settings under the same names
(`config.py`), but for three that scikit-learn has names for: `random_state`, `class_weight`, `validation_fraction`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from attn_closed_form.explanations.explanation import Explanations
from attn_closed_form.explanations.settings import MARGIN
from attn_closed_form.files.labelled import Labelled

from .config import automatic
from .split import Split, split_stratified
from .train import train

SETTINGS = (
    "T_max", "D", "d_e", "K", "d_att", "d_out", "scale", "query_scale", "unk_start", "epochs", "patience", "batch_size",
    "learning_rate", "warmup_steps", "weight_decay", "ema", "max_unk", "unk_by", "crop", "refit",
)  # fmt: skip


class AttentionTextClassifier(ClassifierMixin, BaseEstimator):
    """Classify texts by softmax attention over words, with exact explanations.

    Parameters
    ----------
    T_max, D, d_e, K, d_att, d_out, scale, query_scale, unk_start, epochs, patience, batch_size, learning_rate, \
warmup_steps, weight_decay, ema, max_unk, unk_by, crop, refit : settings of the trainer, which `attn-closed-form train \
--help` explains; None lets the trainer choose, from the texts where it depends on them
    validation_fraction : share of every class that is held out to stop by, to keep the best epoch and to fit the
        temperature
    class_weight : None, or "balanced" to count all classes alike, however many texts each has
    random_state : int for the same model on every run; None draws a seed
    device : "auto", "cpu" or "gpu"
    verbose : False is silent; True shows the progress on standard error

    Attributes
    ----------
    classes_ : the labels, sorted; the columns of `predict_proba`
    model_ : TextClassifier; explains, and is what `save` writes
    metrics_ : scores on the held-out texts, settings, and one record per epoch

    Examples
    --------
    >>> texts = ["a fine film", "a lovely film", "a dull film", "an awful film"] * 10
    >>> labels = ["good", "good", "bad", "bad"] * 10
    >>> model = AttentionTextClassifier(d_e=16, K=2, random_state=0).fit(texts, labels)
    >>> model.predict(["lovely", "dull"]).tolist(), model.classes_.tolist()
    (['good', 'bad'], ['bad', 'good'])
    >>> model.explain("a lovely film", "shapley")["shapley"].top(1)[0][0]
    'lovely'
    """

    def __init__(
        self,
        *,
        T_max: int | None = None,
        D: int | None = None,
        d_e: int | None = None,
        K: int | None = None,
        d_att: int | None = None,
        d_out: int | None = None,
        scale: float | None = None,
        query_scale: float | None = None,
        unk_start: float | None = None,
        epochs: int | None = None,
        patience: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        warmup_steps: int | None = None,
        weight_decay: float | None = None,
        ema: float | None = None,
        max_unk: float | None = None,
        unk_by: str | None = None,
        crop: float | None = None,
        refit: str | None = None,
        validation_fraction: float = 0.1,
        class_weight: str | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.T_max = T_max
        self.D = D
        self.d_e = d_e
        self.K = K
        self.d_att = d_att
        self.d_out = d_out
        self.scale = scale
        self.query_scale = query_scale
        self.unk_start = unk_start
        self.epochs = epochs
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.weight_decay = weight_decay
        self.ema = ema
        self.max_unk = max_unk
        self.unk_by = unk_by
        self.crop = crop
        self.refit = refit
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(
        self, X: Iterable[str], y: ArrayLike, X_val: Iterable[str] | None = None, y_val: ArrayLike | None = None
    ) -> AttentionTextClassifier:
        """Train on texts X and their labels y; `X_val` and `y_val` are held out instead of a share of these."""
        texts, codes = _texts(X, "X"), self._encode_labels(y)
        if len(texts) != len(codes):
            raise ValueError(f"X, y: expected as many texts as labels, got {len(texts)} and {len(codes)}")
        seed = self._seed()
        data = Labelled(texts, codes, tuple(str(label) or "(empty)" for label in self.classes_))
        if X_val is None:
            split = split_stratified(data, self.validation_fraction, seed)
        else:
            split = Split(data, self._held_out(X_val, y_val, data.classes))
        chosen = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        if X_val is not None:  # texts that were given to validate with are not trained on unasked
            chosen.setdefault("refit", "none")
        weight = "none" if self.class_weight is None else self.class_weight
        config = automatic(split.training.texts, **chosen, class_weight=weight, seed=seed)
        result = train(config, split, self.device, log=None if self.verbose else lambda line: None)
        self.model_, self.metrics_ = result.model, result.metrics
        return self

    def predict_proba(self, X: Iterable[str]) -> NDArray[np.float64]:
        """(n, classes) probabilities, columns in the order of `classes_`."""
        check_is_fitted(self)
        return self.model_.predict_proba(_texts(X, "X"))

    def predict(self, X: Iterable[str]) -> NDArray[Any]:
        """(n,) the most probable label of each text."""
        columns = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[columns])

    def decision_function(self, X: Iterable[str]) -> NDArray[np.float64]:
        """The logits that explanations are of: (n,) for two classes, (n, classes) for more."""
        check_is_fitted(self)
        logits = self.model_.predict_logits(_texts(X, "X"))
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def explain(self, text: str, methods: str | Iterable[str] | None = None, **settings: Any) -> Explanations:
        """Explain the prediction for one text; `output` may be a label. See `attn_closed_form.explain`."""
        check_is_fitted(self)
        output = settings.get("output")
        if output is not None and not str(output).startswith(MARGIN):
            columns = np.flatnonzero(self.classes_ == output)
            if columns.size:
                settings["output"] = self.model_.outputs[columns[0]]
        return self.model_.explain(text, methods, **settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `.npz` or `.safetensors` file, which `load_model` and every command read."""
        check_is_fitted(self)
        self.model_.save(path, dtype=np.float32)

    def _encode_labels(self, y: Any) -> NDArray[np.int64]:
        """(n,) class numbers of the labels; sets `classes_`."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y: expected at least two classes, got one class only, {self.classes_[:1].tolist()}")
        return codes.astype(np.int64)

    def _held_out(self, X: Any, y: Any, classes: tuple[str, ...]) -> Labelled:
        texts, labels = _texts(X, "X_val"), np.asarray(y)
        if y is None or labels.shape != (len(texts),):
            raise ValueError(f"y_val: expected {len(texts)} labels, one per text of X_val, got shape {labels.shape}")
        if not np.isin(labels, self.classes_).all():
            raise ValueError(f"y_val: expected labels that y has, got {set(labels.tolist()) - set(self.classes_)}")
        return Labelled(texts, np.searchsorted(self.classes_, labels), classes)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags


def _texts(X: Any, name: str) -> list[str]:
    if isinstance(X, str):
        raise ValueError(f"{name}: expected an iterable over texts, got one string; put it in a list")
    if getattr(X, "ndim", 1) != 1:
        raise ValueError(f"{name}: expected a list or a column of texts, got an array of shape {X.shape}")
    texts = list(X)
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"{name}: expected texts, got {type(text).__name__}; replace missing values first")
    return [str(text) for text in texts]
