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

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
Labels = NDArray[Any]

# Beyond these limits, a fit reflects a small held-out part rather than the model.
COLDEST = 0.05
# The upper limit of the temperature, for the same reason as COLDEST.
HOTTEST = 20.0


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
    scaled = scaled - scaled.max(axis=1, keepdims=True)
    shifted: NDArray[np.float64] = scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))
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
    return {
        "validation_loss": float((losses if weights is None else weights * losses).mean()),
        "validation_accuracy": float((log_p.argmax(axis=1) == labels).mean()),
    }


def balanced_weights(labels: Labels, classes: int) -> NDArray[np.float32]:
    """Return (classes,) weights inversely proportional to the class frequency, with mean 1 over the
    texts.

    >>> balanced_weights(np.array([0, 1, 1, 1, 1]), 2).tolist()
    [2.5, 0.625]
    """
    counts = np.bincount(labels, minlength=classes)
    weights: NDArray[np.float32] = (
        len(labels) / ((counts > 0).sum() * np.maximum(counts, 1))
    ).astype(np.float32)
    return weights


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
    n, C = two.shape
    miss = 1 / (n + 2)
    target = np.full((n, C), miss / (C - 1))
    target[np.arange(n), labels] = 1 - miss
    low = 1 / HOTTEST
    high = 1 / COLDEST
    for _ in range(60):
        beta = (low * high) ** 0.5
        slope = ((np.exp(log_probabilities(two, 1 / beta)) - target) * two).sum()
        if slope > 0:
            high = beta
        else:
            low = beta
    return float(1 / (low * high) ** 0.5)


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
        precision = right / max(said, 1)
        recall = right / max(there, 1)
        f1 = 2 * right / max(said + there, 1)
        per_class[name] = {"precision": precision, "recall": recall, "f1": f1, "texts": there}
    return {
        "texts": len(labels),
        "accuracy": float((predicted == labels).mean()),
        "macro_f1": float(
            np.mean([scores["f1"] for scores in per_class.values() if scores["texts"]])
        ),
        "loss": float(-log_p[np.arange(len(labels)), labels].mean()),
        "classes": per_class,
    }
