"""`AttentionBagClassifier`: gated-attention multiple-instance learning behind scikit-learn's interface.

`fit` takes a list of arrays, one per bag, and one label per bag. What it learns is a pooled game, so `explain` and
`to_model` give exact explanations of every prediction. The network and its training are those of `bags.py`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_closed_form import BagClassifier
from attn_closed_form.explanations.explanation import Explanations
from attn_closed_form.files.arrays import write_arrays

from .bag_network import BagConfig
from .bags import BagTraining, fit_bags, predict_bags, state_dict

Bags = Sequence[NDArray[Any]]


class AttentionBagClassifier:
    """A classifier of bags (lists of instances) by gated attention, Ilse et al. 2018.

    Parameters
    ----------
    hidden, attention : widths of the embedding and of the gates
    dropout : share of features and of embedding units that is dropped in training
    instance_dropout : every bag in training loses a random share of its instances, up to this one
    learning_rate, weight_decay, epochs, batch_size : of AdamW; batches are counted in bags
    ema : decay of the running average of the weights, which is the model that is kept
    early_stopping : hold out `validation_fraction` of the bags (stratified), keep the epoch that predicts them best,
        and stop `patience` epochs after it. Off by default, as in scikit-learn: with a hundred bags, a tenth of them
        says little, and the average and the falling learning rate make the last epoch a good one.
    class_weight : None, or "balanced" to weigh every class alike
    random_state : an int; the same one on the same data gives the same model

    Attributes
    ----------
    classes_ : labels in sorted order; the columns of `predict_proba`
    n_features_in_ : number of features of an instance
    history_ : one record per epoch: training loss and, with early stopping, validation loss
    held_out_ : positions of the bags that were held out, in the order of the data

    Examples
    --------
    Bags are positive when any instance has a large first feature:

    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(5, 3)) for _ in range(40)]
    >>> labels = ["high" if bag[:, 0].max() > 1.2 else "low" for bag in bags]
    >>> model = AttentionBagClassifier(hidden=16, learning_rate=1e-2, random_state=0).fit(bags, labels)
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
        self.hidden = hidden
        self.attention = attention
        self.dropout = dropout
        self.instance_dropout = instance_dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.ema = ema
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.class_weight = class_weight
        self.random_state = random_state

    def fit(self, X: Bags, y: ArrayLike) -> AttentionBagClassifier:
        """Train.

        Parameters
        ----------
        X : arrays (n_i, D), one per bag, with at least one instance each and the same D
        y : (B,) labels, text or numbers, of at least two classes
        """
        bags, labels = check_bags(X), np.asarray(y)
        if labels.shape != (len(bags),):
            raise ValueError(f"y: expected one label per bag, shape ({len(bags)},), got shape {labels.shape}")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y: expected at least two classes, got {self.classes_.tolist()} alone")
        config = self._config()
        self.n_features_in_ = bags[0].shape[1]
        kept, self.held_out_ = self._split(codes)
        held_out = ([bags[i] for i in self.held_out_], codes[self.held_out_]) if len(self.held_out_) else None
        weight = self._class_weight(codes[kept])
        training = [bags[i] for i in kept]
        self._training: BagTraining = fit_bags(training, codes[kept], len(self.classes_), config, held_out, weight)
        self.history_ = self._training.history
        return self

    def decision_function(self, X: Bags) -> NDArray[np.float64]:
        """Logits: (B,) log-odds of `classes_[1]` for two classes, (B, C) for more."""
        self._check_fitted()
        logits = predict_bags(self._training, check_bags(X, self.n_features_in_))
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict_proba(self, X: Bags) -> NDArray[np.float64]:
        """Probabilities (B, C); the columns are `classes_`."""
        logits = self.decision_function(X)
        if logits.ndim == 1:
            logits = np.stack([np.zeros_like(logits), logits], axis=1)
        mass = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def predict(self, X: Bags) -> NDArray[Any]:
        """The likeliest class of each bag."""
        columns = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[columns])

    def score(self, X: Bags, y: ArrayLike) -> float:
        """Share of bags that are classified as `y` says."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """The weights, as `BagClassifier.from_state_dict` reads them; features go in as they are."""
        self._check_fitted()
        return state_dict(self._training)

    def to_model(self) -> BagClassifier:
        """The trained network as an `attn_closed_form.BagClassifier`, which needs NumPy alone."""
        return BagClassifier.from_state_dict(self.state_dict(), layout="clam", outputs=self._names())

    def explain(self, bag: Any, methods: Any = None, **settings: Any) -> Explanations:
        """Exact explanations of one bag: `to_model().explain(bag, methods, **settings)`."""
        return self.to_model().explain(bag, methods, **settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to `.npz` or `.safetensors`, without pickle.

        `BagClassifier.from_state_dict(path)` and the command `attn-closed-form bag` read it; the names of the
        classes are in the file.
        """
        self._check_fitted()
        write_arrays({**self.state_dict(), "outputs": np.array(self._names())}, path)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments, as scikit-learn's `clone` and searches want them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> AttentionBagClassifier:
        """Set constructor arguments by name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{name}: unknown parameter; expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        tags = InputTags(two_d_array=False)
        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=tags,
        )

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
        changed = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if v != defaults[k])
        return f"{type(self).__name__}({changed})"

    def _config(self) -> BagConfig:
        given = self.get_params()
        return BagConfig(
            seed=int(self.random_state), **{f.name: given[f.name] for f in fields(BagConfig) if f.name in given}
        )

    def _split(self, codes: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Positions to train on and to hold out, at least one bag of each class in both."""
        everything = np.arange(len(codes))
        if not self.early_stopping:
            return everything, everything[:0]
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction: expected a number between 0 and 1, got {self.validation_fraction}")
        rng = np.random.default_rng([int(self.random_state), 2])
        out = []
        for code in range(len(self.classes_)):
            members = rng.permutation(np.flatnonzero(codes == code))
            if len(members) < 2:
                raise ValueError(
                    f"y: early stopping needs at least two bags of each class, got one of {self.classes_[code]!r}"
                )
            out.append(members[: min(len(members) - 1, max(1, round(self.validation_fraction * len(members))))])
        held_out = np.sort(np.concatenate(out))
        return np.setdiff1d(everything, held_out), held_out

    def _class_weight(self, codes: NDArray[np.intp]) -> NDArray[Any] | None:
        if self.class_weight is None:
            return None
        if self.class_weight != "balanced":
            raise ValueError(f"class_weight: expected None or 'balanced', got {self.class_weight!r}")
        counts = np.bincount(codes, minlength=len(self.classes_))
        return np.asarray(len(codes) / (len(counts) * counts))

    def _names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.classes_)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_training"):
            raise ValueError("AttentionBagClassifier: not fitted yet; call fit first")


def check_bags(bags: Any, features: int | None = None) -> list[NDArray[Any]]:
    """Bags as finite arrays (n_i, D) of one D, or an error that names the bag."""
    found = [np.asarray(getattr(bag, "features", bag)) for bag in bags]
    if not found:
        raise ValueError("X: expected at least one bag, got none")
    for i, bag in enumerate(found):
        if bag.ndim != 2 or not len(bag) or bag.dtype.kind not in "fiub":
            raise ValueError(
                f"X[{i}]: expected numbers of shape (instances, features) with at least one instance, "
                f"got shape {bag.shape} of {bag.dtype}"
            )
        wanted = found[0].shape[1] if features is None else features
        if bag.shape[1] != wanted:
            raise ValueError(f"X[{i}]: expected {wanted} features, got {bag.shape[1]}")
        if not np.isfinite(bag).all():
            raise ValueError(f"X[{i}]: expected finite numbers, got NaN or infinity")
    return found
