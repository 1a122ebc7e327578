"""The JAX twin: a reference implementation of the closed forms, training, and batches on devices.

- `witness/` is P1's classifier written naively from the paper (`model.py` is its section 2, line by
  line), with autodiff for derivatives and LRP (`oracle.py`), enumeration of all coalitions for
  Shapley values, Banzhaf values, interactions and LIME (`coalitions.py`), and P2's SLALOM
  (`slalom.py`). It uses neither the score tables (`models/classifier/predict.py`) nor the games, so
  that agreement with the closed forms is evidence.
- `device.py` computes predictions, gradients and Shapley values of many documents on any device,
  and can be differentiated. It shares the score tables and the rules for 1/D with the core:
  agreement with the core shows that it is the same computation, not that it is correct.
- `training/` trains classifiers of texts and of bags with one loop (`loop.py`). The forward pass of
  texts uses the score tables (`text_model.py`), and a test compares it with the reference
  implementation.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .training.estimators import AttentionBagClassifier, AttentionTextClassifier
    from .witness.model import attention_matrices, embed, forward, forward_batch, from_embeddings
    from .witness.params import Params, params_from_weights, weights_from_params

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
# The module of every public name.
MODULES = {
    ".training.estimators": ("AttentionBagClassifier", "AttentionTextClassifier"),
    ".witness.model": (
        "attention_matrices",
        "embed",
        "forward",
        "forward_batch",
        "from_embeddings",
    ),
    ".witness.params": ("Params", "params_from_weights", "weights_from_params"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the settings of the trainer can be listed without
    JAX.
    """
    for module, names in MODULES.items():
        if name in names:
            try:
                return getattr(import_module(module, __name__), name)
            except ImportError as error:
                raise ImportError(
                    f"{name} needs more packages ({error}): pip install '.[train]'"
                ) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
