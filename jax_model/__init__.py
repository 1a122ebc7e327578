"""The JAX twin: the same classifier written naively from the paper, to train and to check the closed forms.

`model.py` is P1's section 2, line by line; `params.py` carries weights across without loss; `oracle.py` asks
autodiff for everything that `attn_closed_form` computes in closed form. Nothing here goes through the collapse
(`attn_closed_form/collapse.py`), so agreement between the two is evidence and not tautology.
"""

from .training.bag_estimator import AttentionBagClassifier
from .witness.model import attention_matrices, embed, forward, forward_batch, from_embeddings
from .witness.params import Params, Sizes, init_params, params_from_weights, weights_from_params

__all__ = [
    "AttentionBagClassifier",
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
