"""The JAX side: a witness of the closed forms, and the programs that train, run on devices and try other models.

- `witness/` is P1's classifier written naively from the paper (`model.py` is its section 2, line by line), with
  autodiff for everything that `attn_closed_form` computes in closed form (`oracle.py`). It uses neither the score
  tables (`models/classifier/predict.py`) nor the games, so that agreement between the two is evidence.
- `device/` computes explanations of batches of documents on any device. It shares quadrature rules, bounds and score
  tables with the core: agreement with the core shows that it is the same computation, not that it is right.
- `training/` trains classifiers of texts and of bags with one loop (`loop.py`). The forward pass of texts goes through
  the score tables (`text_model.py`), and a test holds it to the witness.
- `transformers/` has small transformers with gradients and LRP, for comparison.
"""

from typing import TYPE_CHECKING, Any

from .witness.model import attention_matrices, embed, forward, forward_batch, from_embeddings
from .witness.params import Params, params_from_weights, weights_from_params

if TYPE_CHECKING:
    from .training.estimators import AttentionBagClassifier, AttentionTextClassifier

__all__ = [
    "AttentionBagClassifier",
    "AttentionTextClassifier",
    "Params",
    "attention_matrices",
    "embed",
    "forward",
    "forward_batch",
    "from_embeddings",
    "params_from_weights",
    "weights_from_params",
]


def __getattr__(name: str) -> Any:
    """The estimators on first use: they need scikit-learn and optax, and the witness needs neither."""
    if name not in ("AttentionBagClassifier", "AttentionTextClassifier"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .training import estimators
    except ImportError as error:
        raise ImportError(
            f"{name} needs scikit-learn and optax ({error}): pip install 'attn-closed-form[train]'"
        ) from None
    return getattr(estimators, name)
