"""The JAX twin: the same classifier written naively from the paper, to train and to check the closed forms.

`model.py` is P1's section 2, line by line; `params.py` carries weights across without loss; `oracle.py` asks
autodiff for everything that `attn_closed_form` computes in closed form. Nothing here goes through the collapse
(`attn_closed_form/collapse.py`), so agreement between the two is evidence and not tautology.
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
