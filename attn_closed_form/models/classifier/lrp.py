"""Layer-wise relevance propagation (LRP) of P1's classifier, in closed form.

The rules are those of Achtibat et al. (2024), "AttnLRP", which P2 compares with: a product hands half of its relevance
to each factor, a linear map hands it on in proportion, a softmax by its own Jacobian. Half of f goes to the values and
half to the attention weights; of the latter, half to the keys, the other half to the query, and so to [CLS]:

    R_t = (1/K) sum_i alpha_t [ e_t.w_v / 2 + (u_t - f_i) e_t.w_k / 4 ].

What reaches biases and [CLS] is lost to the tokens, so that the sum is not f. The same rules by automatic
differentiation are in `jax_model/transformers/lrp.py`, and a test compares the two.
"""

from __future__ import annotations

from ..._arrays import softmax
from ..._types import Array, Tokens
from .score_tables import as_output, as_tokens, scores
from .weights import AttentionWeights


def classifier_lrp(weights: AttentionWeights, tokens: Tokens, output: int = 0) -> Array:
    """Relevance of each token of the document, (T,); see the module docstring.

    >>> from attn_closed_form import random_weights
    >>> classifier_lrp(random_weights(seed=0), [2, 3]).shape
    (2,)
    """
    ids, c = as_tokens(weights, tokens), as_output(weights, output)
    s, u = scores(weights, ids, c)
    alpha = softmax(s)
    tables = weights.collapse
    e_w_v, e_w_k = u - tables.u_const[:, c, None], s - tables.s_const[:, None]
    f = (alpha * u).sum(axis=1, keepdims=True)
    relevance = (alpha * (e_w_v / 2 + (u - f) * e_w_k / 4)).sum(axis=0) / weights.K
    return relevance[1 : 1 + ids.size]
