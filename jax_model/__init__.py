"""The JAX side: a witness of the closed forms, and the programs that train, run on devices and try other models.

- `witness/` is P1's classifier written naively from the paper (`model.py` is its section 2, line by line), with
  autodiff for everything that `attn_closed_form` computes in closed form (`oracle.py`). It uses neither the score
  tables (`models/classifier/predict.py`) nor the games, so that agreement between the two is evidence.
- `device/` computes explanations of batches of documents on any device. It shares quadrature rules, bounds and score
  tables with the core: agreement with the core shows that it is the same computation, not that it is right.
- `training/` trains classifiers, with a forward pass through the score tables (`collapsed.py`) that a test holds to
  the witness.
- `transformers/` has small transformers with gradients and LRP, for comparison.
"""

from typing import TYPE_CHECKING, Any

from .training.bag_estimator import AttentionBagClassifier
from .witness.model import attention_matrices, embed, forward, forward_batch, from_embeddings
from .witness.params import Params, Sizes, init_params, params_from_weights, weights_from_params

if TYPE_CHECKING:
    from .training.estimator import AttentionTextClassifier

__all__ = [
    "AttentionBagClassifier",
    "AttentionTextClassifier",
    "Params",
    "Sizes",
    "attention_matrices",
    "embed",
    "forward",
    "forward_batch",
    "from_embeddings",
    "init_params",
    "params_from_weights",
    "weights_from_params",
]


def __getattr__(name: str) -> Any:
    """`AttentionTextClassifier` on first use: it is an estimator of scikit-learn, which nothing else here needs."""
    if name != "AttentionTextClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .training.estimator import AttentionTextClassifier
    except ImportError as error:
        raise ImportError(
            f"AttentionTextClassifier needs scikit-learn and optax ({error}): pip install 'attn-closed-form[train]'"
        ) from None
    return AttentionTextClassifier
