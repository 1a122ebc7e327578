"""Attention weights as explanations: P1 section 3.

`attention` is the row of the [CLS] query (Eq. 8), the only one that the prediction uses; `attention_matrices` has
all T_max queries (P1, Figure 3). `alpha_avg` and `alpha_max` (Eq. 10, 11) pool the heads for the document's tokens.
"""

from __future__ import annotations

import numpy as np

from ..._arrays import softmax
from ..._types import Array, Tokens
from .predict import as_tokens, pad, scores
from .weights import AttentionWeights


def attention(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Attention of the [CLS] query, P1 Eq. 8: (K, T_max), rows sum to 1.

    Column 0 is [CLS], columns 1..T are the document, and the rest is padding.

    >>> from attn_closed_form.models.classifier import random_weights
    >>> attention(random_weights(seed=0), [2, 3, 5]).sum(axis=1)
    array([1., 1.])
    """
    return softmax(scores(weights, tokens, output=0)[0])


def attention_matrices(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Attention of every query (P1 section 3), (K, T_max, T_max): entry (i, s, t) is alpha_t(q_s) in head i.

    Row 0 of each matrix is `attention`.

    >>> from attn_closed_form.models.classifier import random_weights
    >>> weights = random_weights(seed=0)
    >>> A = attention_matrices(weights, [2, 3, 5])
    >>> bool(np.allclose(A[:, 0], attention(weights, [2, 3, 5])))
    True
    """
    ids = pad(weights, [as_tokens(weights, tokens)])[0]
    e = weights.W_e[ids] + weights.W_p
    q = e @ weights.W_q.transpose(0, 2, 1) + weights.b_q[:, None]
    k = e @ weights.W_k.transpose(0, 2, 1) + weights.b_k[:, None]
    return softmax(q @ k.transpose(0, 2, 1) / np.sqrt(weights.d_att))


def alpha_avg(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Mean attention over heads, P1 Eq. 10: (T,), for the document's own tokens.

    >>> from attn_closed_form.models.classifier import random_weights
    >>> alpha_avg(random_weights(seed=0), [2, 3, 5]).shape
    (3,)
    """
    return attention(weights, tokens)[:, 1 : 1 + len(tokens)].mean(axis=0)


def alpha_max(weights: AttentionWeights, tokens: Tokens) -> Array:
    """Largest attention over heads, P1 Eq. 11: (T,), for the document's own tokens.

    >>> from attn_closed_form.models.classifier import random_weights
    >>> weights = random_weights(seed=0)
    >>> bool((alpha_max(weights, [2, 3]) >= alpha_avg(weights, [2, 3])).all())
    True
    """
    return attention(weights, tokens)[:, 1 : 1 + len(tokens)].max(axis=0)
