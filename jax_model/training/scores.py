"""Scores of a classifier: loss, accuracy, F1 per class, and the temperature that calibrates its
probabilities.

Everything takes the model's outputs, (n, C). One output is a binary logit of two classes, the
second against the first; `class_logits` writes it as two. With a temperature T, probabilities are
softmax(logits / T): one number, fitted on held-out texts (Guo et al., On Calibration of Modern
Neural Networks, 2017). It changes no prediction, and an explanation of a logit stays exact.
Departure: the target of a text is not 1 for its class but 1 - 1/(n + 2), as in Platt's scaling;
otherwise a held-out part without errors would give T = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Labels = NDArray[Any]

# Beyond these limits, a fit reflects a small held-out part rather than the model.
COLDEST = 0.05


def class_logits(logits: Floats) -> NDArray[np.float64]:
    """Return one column per class: (n, C) unchanged, (n, 1) as (n, 2) with 0 for the first class.

    >>> class_logits(np.array([[3.0], [-1.0]]))
    array([[ 0.,  3.],
           [ 0., -1.]])
    """
    logits = np.asarray(logits, dtype=np.float64)
    if logits.shape[1] == 1:
        return np.concatenate([np.zeros_like(logits), logits], axis=1)
    return logits


def log_probabilities(logits: Floats, temperature: float = 1.0) -> NDArray[np.float64]:
    """Return the log-probabilities of the classes, one row per text."""
    scaled = class_logits(logits) / temperature
    # A softmax does not change if the largest logit is subtracted, and then nothing overflows.
    scaled = scaled - scaled.max(axis=1, keepdims=True)
    total = np.exp(scaled).sum(axis=1, keepdims=True)
    shifted: NDArray[np.float64] = scaled - np.log(total)
    return shifted


def validation_scores(
    logits: Floats, labels: Labels, weights: Floats | None = None
) -> dict[str, float]:
    """Return loss (cross-entropy, optionally weighted by text) and accuracy of outputs (n, C) for
    class numbers (n,).

    >>> scores = validation_scores(np.float32([[0.0], [3.0]]), np.array([0, 1]))
    >>> scores["validation_accuracy"], round(scores["validation_loss"], 4)
    (1.0, 0.3709)
    """
    log_p = log_probabilities(logits)
    losses = -log_p[np.arange(len(labels)), labels]
    if weights is not None:
        losses = weights * losses
    right = log_p.argmax(axis=1) == labels
    return {
        "validation_loss": float(losses.mean()),
        "validation_accuracy": float(right.mean()),
    }


def balanced_weights(labels: Labels, classes: int) -> NDArray[np.float32]:
    """Return (classes,) weights inversely proportional to the class frequency, with mean 1 over the
    texts.

    >>> balanced_weights(np.array([0, 1, 1, 1, 1]), 2).tolist()
    [2.5, 0.625]
    """
    counts = np.bincount(labels, minlength=classes)
    # A class without texts, which a fold may have, needs a finite weight that nothing uses.
    present = (counts > 0).sum()
    weights: NDArray[np.float64] = len(labels) / (present * np.maximum(counts, 1))
    return weights.astype(np.float32)


def fit_temperature(logits: Floats, labels: Labels) -> float:
    """Fit the temperature T that minimizes the cross-entropy on held-out texts.

    The loss is convex in 1/T, so its minimum is found by bisection on the sign of its slope.

    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(5000, 3))
    >>> labels = (logits / 2.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> round(fit_temperature(logits, labels), 1)
    2.5
    """
    two = class_logits(logits)
    target = smoothed_targets(labels, two.shape[1])

    def slope(beta: float) -> float:
        """Return the derivative of the loss by beta = 1/T."""
        p = np.exp(log_probabilities(two, 1 / beta))
        return float(((p - target) * two).sum())

    # The upper limit of the temperature, for the same reason as COLDEST.
    hottest = 20.0
    return 1 / root(slope, 1 / hottest, 1 / COLDEST)


def smoothed_targets(labels: Labels, classes: int) -> NDArray[np.float64]:
    """Return the (n, classes) targets of Platt's scaling, which are not quite 1 for the class of a
    text.

    >>> smoothed_targets(np.array([1, 0]), 2)
    array([[0.25, 0.75],
           [0.75, 0.25]])
    """
    n = len(labels)
    miss = 1 / (n + 2)
    target = np.full((n, classes), miss / (classes - 1))
    target[np.arange(n), labels] = 1 - miss
    return target


def root(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return where a rising function of a positive number changes its sign, by bisection on a
    logarithmic scale; the nearer end if it has one sign.

    >>> round(root(lambda x: x - 3, 0.1, 10.0), 6)
    3.0
    """
    # Sixty halvings are more than the bits of a float64.
    for _ in range(60):
        middle = math.sqrt(low * high)
        if slope(middle) > 0:
            high = middle
        else:
            low = middle
    return math.sqrt(low * high)


def report(
    logits: Floats, labels: Labels, classes: tuple[str, ...], temperature: float = 1.0
) -> dict[str, Any]:
    """Return accuracy, macro-F1, calibrated loss, and precision, recall, F1 and number of texts of
    every class.

    Macro-F1 is the mean over the classes that occur among the labels; the precision of a class that
    is never predicted is 0.

    >>> found = report(
    ...     np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 1]), ("ham", "spam")
    ... )
    >>> (
    ...     round(found["accuracy"], 4),
    ...     round(found["macro_f1"], 4),
    ...     found["classes"]["ham"]["precision"],
    ... )
    (0.6667, 0.6667, 0.5)
    """
    log_p = log_probabilities(logits, temperature)
    predicted = log_p.argmax(axis=1)
    per_class: dict[str, dict[str, float]] = {}
    for c, name in enumerate(classes):
        right = int(((predicted == c) & (labels == c)).sum())
        said = int((predicted == c).sum())
        there = int((labels == c).sum())
        # Scores of a class that is never predicted, or has no texts, are 0 instead of 0/0.
        precision = right / max(said, 1)
        recall = right / max(there, 1)
        f1 = 2 * right / max(said + there, 1)
        per_class[name] = {"precision": precision, "recall": recall, "f1": f1, "texts": there}
    f1_of_classes = [scores["f1"] for scores in per_class.values() if scores["texts"]]
    return {
        "texts": len(labels),
        "accuracy": float((predicted == labels).mean()),
        "macro_f1": float(np.mean(f1_of_classes)),
        "loss": float(-log_p[np.arange(len(labels)), labels].mean()),
        "classes": per_class,
    }
