"""Kernel predictors: the contribution of each training example to a prediction, and its exact value as data.

A kernel predictor (Nadaraya-Watson, soft nearest neighbors, a nearest-neighbor head on embeddings) predicts a weighted
mean of its training labels. With the log-weight s_i(x) of training example i at a query x,

    f(x) = ( prior v_0 + sum_i e^(s_i) v_i ) / ( prior + sum_i e^(s_i) ),

where v_i is the label in regression, and in classification it is 1 if example i has the class and 0 otherwise. This is
a pooled game whose players are the training examples; absent ones are deleted. Shapley values of a probability are
those of the game, and those of the log-loss and the squared error are those of the game with a link (`game/links.py`).
KNN-Shapley (Jia et al., 2019) is an exact and far cheaper algorithm for hard, unweighted neighbors; Wang et al. (2024)
have none for normalized continuous weights.

| kernel | log-weight s_i(x) |
|---|---|
| "gaussian" | -|x - x_i|^2 / (2 bandwidth^2) |
| "cosine" | cos(x, x_i) / bandwidth |
| a function | its result for arrays (m, D) and (n, D), an (m, n) array, divided by the bandwidth |

With `k`, only the k examples with the largest weights enter. They are chosen once per query: an absent example is not
replaced by the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import starmap
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._arrays import finite, number, positive, unmasked, whole
from ..._progress import Report, stages
from ..._types import Array, Ids
from ...game.pooled_game import PooledGame
from ...game.scores import PooledScores
from ...game.values import shapley
from .protocol import Model, Resolved, Units

Kernel = str | Callable[[Array, Array], ArrayLike]
UTILITIES = ("probability", "log_loss", "squared_error")
KERNELS = ("gaussian", "cosine")
TASKS = ("auto", "classification", "regression")


@dataclass(frozen=True, eq=False)
class KernelModel(Model):
    """A fitted kernel predictor as a model whose units are training examples; `KernelPredictor.model_` is one."""

    X: Array  # (n, D) training examples
    labels: tuple[str, ...]  # their names
    rows: (
        Array  # (C, n) 1 where an example has the class; in regression the labels, as the only row
    )
    empty: Array  # (C,) values of the prior, and of a coalition without any example
    outputs: tuple[str, ...]
    predictor: KernelPredictor  # kernel, bandwidth, k and prior

    reads = "a row of numbers"
    groupings = ("examples",)
    absences = ("deleted",)

    def read(self, raw: Any) -> Units:
        """Read one query (D,). Its units are the training examples that enter, with their log-weights as data."""
        x = finite("x", raw)
        if x.shape != self.X.shape[1:]:
            raise ValueError(f"x: expected {self.X.shape[1]} numbers, got shape {x.shape}")
        kernel = self.predictor.kernel
        width = self.predictor.bandwidth
        k = self.predictor.k
        if callable(kernel):
            s = finite("kernel", kernel(x[None], self.X)).reshape(-1) / width
        elif kernel == "cosine":
            norms = np.linalg.norm(self.X, axis=1) * np.linalg.norm(x)
            s = (self.X @ x) / np.where(norms > 0, norms, 1.0) / width
        else:
            s = np.square(self.X - x).sum(axis=1) / (-2 * width**2)
        if k is None or k >= s.size:
            nearest = np.arange(s.size)
        else:
            nearest = np.sort(np.argpartition(-s, k - 1)[:k])
        names = tuple(self.labels[i] for i in nearest.tolist())
        return Units(
            labels=names, groups={"examples": np.arange(nearest.size)}, data=(nearest, s[nearest])
        )

    def scores(self, units: Units) -> PooledScores:
        """Return the log-weights of the examples and, for each class, indicators of its examples."""
        nearest, s = units.data
        scores = PooledScores(s[None], self.rows[:, nearest], np.zeros(len(self.rows)))
        if self.predictor.prior:
            log_prior = np.log([self.predictor.prior])
        else:
            log_prior = scores.s_background
        return replace(scores, s_background=log_prior, v_background=self.empty)

    def game(self, units: Units, settings: Resolved) -> PooledGame:
        """Return the game of a class probability, or of the prediction."""
        return self.game_of(units, settings.coefficients)

    def game_of(self, units: Units, coefficients: Sequence[float] | Array) -> PooledGame:
        """Return the game of a combination of outputs; the empty coalition has the value of the prior."""
        game = self.pooled(units).game(coefficients, labels=units.labels)
        return replace(game, empty_value=float(np.dot(coefficients, self.empty)))

    def probabilities(self, logits: Array) -> None:
        """Return None, because the explained output is already a probability or a number, not a logit."""

    def values_at(
        self, x: Array, row: int, target: float, utility: str, tol: float
    ) -> tuple[Ids, Array]:
        """Return the examples that enter at one test point and their Shapley values for its utility."""
        units = self.read(x)
        game: Any = self.game_of(units, np.eye(len(self.rows))[row])
        if utility == "log_loss":
            game = game.through("log")
        elif utility == "squared_error":
            game = game.through("squared_error", target=target)
        return units.data[0], shapley(game, tol) * (-1 if utility == "squared_error" else 1)


@dataclass(eq=False)
class KernelPredictor:
    """Predict a weighted mean of the training labels, with exact explanations by training examples.

    It follows scikit-learn's conventions and works in `cross_val_score`, `GridSearchCV` and `Pipeline`.

    Parameters
    ----------
    kernel : "gaussian", "cosine", or a function of arrays (m, D) and (n, D) that returns (m, n) log-weights
    bandwidth : width of the gaussian, or divisor of the cosine or of the function
    k : use only the k nearest examples; None uses all
    prior : weight of a background with equal probabilities, or with the mean label; a training example at distance 0
        has weight 1 under the gaussian kernel. The log-loss needs a prior of at least 1e-4 times the total weight of
        the examples at a test point, so that no probability is near 0
    task : "classification" or "regression"; "auto" means regression for labels of a floating type

    Attributes
    ----------
    classes_ : the sorted labels, in classification; the columns of `predict_proba`
    model_ : the KernelModel that `attn_closed_form.explain` takes

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [5.0]]), np.array(["a", "a", "b"])
    >>> predictor = KernelPredictor(bandwidth=2.0).fit(X, y)
    >>> predictor.predict([[0.5]]).tolist(), predictor.predict_proba([[0.5]]).round(3).tolist()
    (['a'], [[0.961, 0.039]])
    >>> e = predictor.explain([0.5], "shapley")["shapley"]     # of P("a"), which is 1/2 without examples
    >>> list(zip(e.labels, e.scores.round(3).tolist()))
    [('0: a', 0.333), ('1: a', 0.333), ('2: b', -0.205)]
    >>> predictor.data_values([[0.5], [4.0]], ["a", "b"]).round(3).tolist()
    [0.119, 0.051, 0.447]
    """

    kernel: Kernel = "gaussian"
    bandwidth: float = 1.0
    k: int | None = None
    prior: float = 0.0
    task: str = "auto"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store the training examples X (n, D) and y (n,), labels or numbers."""
        positive("bandwidth", self.bandwidth)
        whole("k", 1 if self.k is None else self.k)
        number("prior", self.prior, "a number of at least 0", lambda x: 0 <= x < math.inf)
        if not callable(self.kernel) and self.kernel not in KERNELS:
            raise ValueError(
                f"kernel: expected 'gaussian', 'cosine' or a function, got {self.kernel!r}"
            )
        if self.task not in TASKS:
            raise ValueError(f"task: expected one of {', '.join(TASKS)}, got {self.task!r}")
        examples = finite("X", X)
        labels = np.asarray(unmasked("y", y))
        if examples.ndim != 2 or not len(examples) or labels.shape != (len(examples),):
            raise ValueError(
                f"X, y: expected shapes (n, D) and (n,), got {examples.shape} and {labels.shape}"
            )
        self.classes_: NDArray[Any] = np.zeros(0)
        outputs: tuple[str, ...] = ("prediction",)
        if self.task == "regression" or (self.task == "auto" and labels.dtype.kind == "f"):
            rows = finite("y", labels)[None]
            empty = rows.mean(axis=1)
        else:
            self.classes_, codes = np.unique(labels, return_inverse=True)
            outputs = tuple(map(str, self.classes_))
            rows = (codes == np.arange(len(outputs))[:, None]).astype(np.float64)
            empty = np.full(len(outputs), 1 / len(outputs))
        names = tuple(f"{i}: {label}" for i, label in enumerate(labels.tolist()))
        self.n_features_in_ = examples.shape[1]
        self.model_ = KernelModel(examples, names, rows, empty, outputs, replace(self))
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the (m, classes) probabilities, with columns in the order of `classes_`."""
        if not self._fitted().size:
            raise ValueError("predict_proba: this predictor was fitted for regression")
        return self._outputs(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the (m,) predicted labels, or numbers in regression."""
        classes = self._fitted()
        outputs = self._outputs(X)
        return np.asarray(classes[outputs.argmax(axis=1)] if classes.size else outputs[:, 0])

    def _outputs(self, X: ArrayLike) -> Array:
        queries = finite("X", X)
        return self.model_.predict_logits(list(queries)).reshape(
            len(queries), len(self.model_.rows)
        )

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the accuracy, or R^2 in regression."""
        predicted = self.predict(X)
        labels = np.asarray(unmasked("y", y))
        if self.classes_.size:
            return float((predicted == labels).mean())
        return 1 - float(
            np.square(labels - predicted).sum() / np.square(labels - labels.mean()).sum()
        )

    def explain(self, x: ArrayLike, methods: Any = None, **settings: Any) -> Any:
        """Explain the prediction for one query (D,) by training examples; see `attn_closed_form.explain`."""
        self._fitted()
        return self.model_.explain(x, methods, **settings)

    def data_values(
        self,
        X_test: ArrayLike,
        y_test: ArrayLike,
        utility: str | None = None,
        tol: float = 1e-8,
        n_jobs: int = 1,
        progress: Report | bool | None = None,
    ) -> Array:
        """Compute the (n,) Shapley values of the training examples for the quality of predictions on test points.

        Values are summed over test points. They add up to the utility with all examples minus that with none.

        Parameters
        ----------
        X_test, y_test : (m, D) and (m,) test points with their labels
        utility : the quality of a prediction that is shared among the training examples: "probability" of the label of
            the test point; "log_loss", the logarithm of that probability; "squared_error", minus the squared error (in
            classification, of that probability against 1). Default: "probability", in regression "squared_error"
        tol : guaranteed accuracy at each test point, relative to the largest utility of a coalition
        n_jobs : number of processes, as in scikit-learn (uses joblib); 1 computes in this process
        progress : a function of (stage, done, total); True for a bar, False for none, None for one on a terminal
        """
        classes = self._fitted()
        queries = finite("X_test", X_test)
        labels = np.asarray(y_test)
        unmasked("y_test", y_test)
        if labels.shape != (len(queries),):
            raise ValueError(
                f"y_test: expected {len(queries)} labels, one per test point, got shape {labels.shape}"
            )
        utility = utility or ("probability" if classes.size else "squared_error")
        if utility not in UTILITIES:
            raise ValueError(f"utility: expected one of {', '.join(UTILITIES)}, got {utility!r}")
        if utility != "squared_error" and not classes.size:
            raise ValueError(
                f"utility: {utility!r} needs classes; this predictor was fitted for regression"
            )
        if utility == "log_loss" and self.prior == 0:
            raise ValueError(
                "utility: the log-loss needs a prior above 0; without one a probability can be 0"
            )
        rows = np.zeros(len(queries), dtype=int)
        targets = np.ones(len(queries))
        if classes.size:
            rows = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
            if (unseen := classes[rows] != labels).any():
                raise ValueError(f"y_test: expected labels seen in fit, got {labels[unseen][0]!r}")
        else:
            targets = finite("y_test", labels)
        total = np.zeros(len(self.model_.X))
        tasks = (
            (x, int(r), float(t), utility, tol)
            for x, r, t in zip(queries, rows, targets, strict=True)
        )
        results = starmap(self.model_.values_at, tasks)
        if n_jobs != 1:
            from joblib import Parallel, delayed

            results = Parallel(n_jobs, return_as="generator")(
                delayed(self.model_.values_at)(*task) for task in tasks
            )
        with stages("data values", progress) as report:
            for done, (nearest, values) in enumerate(results, 1):
                total[nearest] += values
                report("test points", done, len(queries))
        return total

    def _fitted(self) -> NDArray[Any]:
        """Return the classes, or raise an error before `fit`."""
        if not hasattr(self, "model_"):
            raise ValueError("KernelPredictor: call fit first")
        return self.classes_

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(
                    f"{name}: expected parameters among {', '.join(self.get_params())}"
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        kinds = {
            "classification": ("classifier", ClassifierTags()),
            "regression": ("regressor", RegressorTags()),
        }
        kind, tags = kinds.get(self.task, (None, None))
        return Tags(kind, TargetTags(required=True), **({f"{kind}_tags": tags} if kind else {}))
