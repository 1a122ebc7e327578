"""P2, Sections 3 and 4, Appendices B.1 to B.4: a transformer without [CLS] and positions cannot be
an additive model.

The random transformers have two heads, a tanh network with its own skip connection as ffn, and run
in longdouble.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from proofs_check.leemann2025.forms import (
    Layer,
    attention_matrix,
    hidden_states,
    log_odds,
    random_transformer,
    sequences,
    worst,
)
from proofs_check.registry import NOT_CHECKABLE, Outcome, statement
from proofs_check.tolerances import ALGEBRA, EXACT

#: Longest sequence of the checks with random transformers (the paper's context length C).
CONTEXT = 7
MODEL = (
    "the transformer of Appendix B.1: no positional embedding, no token prepended, r = 1 (encoder) "
    "or r = |t| (decoder)"
)


@statement(
    paper="P2",
    ref="Eq. 1",
    claim=(
        "a single layer's log-odds depend on the sequence only through h_r^(0) and the attention "
        "output s_r"
    ),
    assumptions=MODEL,
    method="extended precision",
)
def eq_1(perturb: float = 0.0) -> Outcome:
    """F from the full matrices of Eq. 7 to 13 against g(h_r, sum_j alpha_rj v_j), every sequence of
    length up to 3.
    """
    E, layers, W_class = random_transformer(seed=1, vocabulary=3, depth=1, heads=1)
    head = layers[0].heads[0]
    differences = []
    for causal in (False, True):
        for tokens in sequences(3, 3):
            H = E[list(tokens)]
            r = len(tokens) - 1 if causal else 0
            alpha = attention_matrix(H, head, causal)[r]
            s_r = sum(alpha[j] * (head.W_V.T @ H[j] + head.b_V) for j in range(len(tokens)))
            logits = W_class @ layers[0].ffn(H[r] + (1 + perturb) * (s_r @ head.P))
            differences.append(logits[1] - logits[0] - log_odds(H, layers, W_class, causal))
    return Outcome(worst(differences), ALGEBRA)


@statement(
    paper="P2",
    ref="Eq. 10",
    claim="attention rows sum to one; a causal row i is zero beyond i, so the row r = |t| of a "
    "decoder covers the sequence",
    assumptions=(
        "Sections 3.3 and 4.1; Eq. 10 writes sqrt(d_k) where the text calls the head dimension d_h"
    ),
    method="extended precision",
)
def eq_10(perturb: float = 0.0) -> Outcome:
    """Row sums, masked entries, and positivity of all entries of the decoder's last row."""
    E, layers, _ = random_transformer(seed=2, vocabulary=3, depth=1, heads=1)
    differences: list[float] = []
    for tokens in sequences(3, 3):
        for causal in (False, True):
            A = attention_matrix(E[list(tokens)], layers[0].heads[0], causal)
            differences.extend((1 + perturb) * A.sum(axis=1) - 1)
            if causal:
                differences.extend(A[np.triu_indices(len(tokens), 1)])
                differences.append(0.0 if (A[-1] > 0).all() else 1.0)
    return Outcome(worst(differences), ALGEBRA)


@statement(
    paper="P2",
    ref="Eq. 13",
    claim="the log-odds of a two-class softmax are the difference of the logits",
    method="extended precision",
)
def eq_13(perturb: float = 0.0) -> Outcome:
    """Softmax, then the logarithm of the quotient, on a grid of logits."""
    differences = []
    for l_0 in np.linspace(-4, 4, 9, dtype=np.longdouble):
        for l_1 in np.linspace(-3, 5, 9, dtype=np.longdouble):
            p = np.exp([l_0, l_1]) / np.exp([l_0, l_1]).sum()
            differences.append(np.log(p[1] / p[0]) - (1 + perturb) * (l_1 - l_0))
    return Outcome(worst(differences), ALGEBRA)


@statement(
    paper="P2",
    ref="Eq. 19-21",
    claim=(
        "k copies of one token get attention 1/k each, and the attention output is the value "
        "vector for every k"
    ),
    assumptions="identical embeddings at all positions. (The text above Eq. 19 says 'product of "
    "key and value vector'; key and query are meant, as in the formula.)",
    method="exact rational enumeration",
)
def eq_19_21(perturb: float = 0.0) -> Outcome:
    """Softmax of equal scores with a rational mass exp(s), then the weighted sum of equal
    values.
    """
    differences = []
    for mass in (Fraction(1, 9), Fraction(1), Fraction(13, 4)):
        for k in range(1, 12):
            alpha = [mass / sum([mass] * k)] * k
            value = Fraction(-5, 7)
            differences += [a - (1 + Fraction(perturb)) * Fraction(1, k) for a in alpha]
            differences.append(sum(a * value for a in alpha) - value)
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 22-24",
    claim="a GAM's outputs on j and on j - 1 copies of tau differ by w_j(tau)",
    method="exact rational enumeration",
)
def eq_22_24(perturb: float = 0.0) -> Outcome:
    """Direct sums."""
    b = Fraction(1, 3)
    w = [Fraction(2), Fraction(-1, 2), Fraction(3, 7), Fraction(5)]
    differences = [
        (b + sum(w[:j])) - (b + sum(w[: j - 1])) - (1 + Fraction(perturb)) * w[j - 1]
        for j in range(2, len(w) + 1)
    ]
    return Outcome(worst(differences), EXACT)


def _spread_on_repeats(depth: int, heads: int, perturb: float) -> float:
    """Largest |F([tau] * k) - F([tau])| over k, tau, encoder and decoder."""
    E, layers, W_class = random_transformer(seed=3 + depth, vocabulary=2, depth=depth, heads=heads)
    differences = []
    for causal in (False, True):
        for tau in range(2):
            outputs = [
                log_odds(E[[tau] * k], layers, W_class, causal) for k in range(1, CONTEXT + 1)
            ]
            differences += [out - (1 + perturb) * outputs[0] for out in outputs]
    return worst(differences)


@statement(
    paper="P2",
    ref="Prop. 4.1",
    claim=(
        "no single-layer transformer, encoder or decoder, is a GAM b + sum w_i(t_i) with some "
        "w_i(tau) != 0, i >= 2"
    ),
    assumptions=MODEL
    + "; equality is asked on sequences of every length 1 .. C, C >= 2 (see P2 App. C.2 and Sec. 7 for "
    "what happens without these)",
    method="extended precision",
)
def prop_4_1(perturb: float = 0.0) -> Outcome:
    """The crux of the proof: F([tau] * k) does not depend on k, while Eq. 24 asks for a change by
    w_k(tau).
    """
    return Outcome(_spread_on_repeats(depth=1, heads=1, perturb=perturb), ALGEBRA)


@statement(
    paper="P2",
    ref="Eq. 25-27",
    claim="the same with several heads",
    assumptions=MODEL,
    method="extended precision",
)
def eq_25_27(perturb: float = 0.0) -> Outcome:
    """As Prop. 4.1 with three heads."""
    return Outcome(_spread_on_repeats(depth=1, heads=3, perturb=perturb), ALGEBRA)


@statement(
    paper="P2",
    ref="Cor. 4.2",
    claim=(
        "a transformer that equals an additive model is constant or determined by the first token"
    ),
    assumptions=MODEL,
    method="extended precision",
)
def cor_4_2(perturb: float = 0.0) -> Outcome:
    """Repeats force the GAM's weights, w_j(tau) = F(t_j) - F(t_{j-1}); what it then predicts is
    F([t_1]).
    """
    E, layers, W_class = random_transformer(seed=5, vocabulary=3, depth=1, heads=2)
    differences = []
    for causal in (False, True):
        F = {
            (tau, k): log_odds(E[[tau] * k], layers, W_class, causal)
            for tau in range(3)
            for k in range(1, CONTEXT + 1)
        }
        for tokens in sequences(3, 3):
            gam = F[tokens[0], 1] + sum(
                F[t, j] - F[t, j - 1] for j, t in enumerate(tokens[1:], start=2)
            )
            differences.append(gam - (1 + perturb) * F[tokens[0], 1])
    return Outcome(worst(differences), ALGEBRA)


@statement(
    paper="P2",
    ref="Cor. B.2",
    claim=(
        "no single-layer transformer is a linear model: it misses one of the C outputs by |w(tau)| "
        "(C-1)/2 or more"
    ),
    assumptions=MODEL + ". The paper asks for C > 2; C = 2 suffices. The size of the miss is ours",
    method="exact rational enumeration",
)
def cor_b_2(perturb: float = 0.0) -> Outcome:
    """Best constant for b + k w, k = 1 ..

    C, in the maximum norm: tried at the middle of every pair of outputs.
    """
    differences = []
    for C in range(2, 9):
        for w in (Fraction(3, 2), Fraction(-1, 3)):
            outputs = [Fraction(1, 5) + k * w for k in range(1, C + 1)]
            middles = [(x + y) / 2 for x in outputs for y in outputs]
            best = min(max(abs(out - c) for out in outputs) for c in middles)
            differences.append(best - (1 + Fraction(perturb)) * abs(w) * Fraction(C - 1, 2))
    return Outcome(worst(differences), EXACT)


def _deep(seed: int) -> tuple[np.ndarray, list[Layer], np.ndarray]:
    return random_transformer(seed, vocabulary=2, depth=3, heads=2)


@statement(
    paper="P2",
    ref="Lemma in B.4",
    claim="identical input rows, the same for every length, give identical output rows, the same "
    "for every length (Eq. 3)",
    assumptions=MODEL,
    method="extended precision",
)
def lemma_b_4(perturb: float = 0.0) -> Outcome:
    """Every row of H^(0) .. H^(3) on k copies against the only row on one copy."""
    E, layers, _ = _deep(seed=7)
    differences: list[float] = []
    for causal in (False, True):
        single = hidden_states(E[[0]], layers, causal)
        for k in range(2, CONTEXT + 1):
            for H, h in zip(hidden_states(E[[0] * k], layers, causal), single, strict=True):
                differences.extend((H - (1 + perturb) * h).ravel())
    return Outcome(worst(differences), ALGEBRA)


@statement(
    paper="P2",
    ref="Cor. 4.3",
    claim="a stack of transformer blocks is no linear model (nor GAM) either",
    assumptions=MODEL
    + "; every length 1 .. C. (Appendix B.4 restates it as 'Corollary 4.2 in the main paper'.)",
    method="extended precision",
)
def cor_4_3(perturb: float = 0.0) -> Outcome:
    """As Prop. 4.1 with three layers and two heads."""
    return Outcome(_spread_on_repeats(depth=3, heads=2, perturb=perturb), ALGEBRA)


@statement(
    paper="P2",
    ref="Fig. 3",
    claim="trained BERT, DistilBERT and GPT-2 output almost constant values on repeats of one word",
    method="none",
    verdict=NOT_CHECKABLE,
    reason="an observation on trained networks (with [CLS] and positions, outside the "
    "propositions' model), not a theorem",
)
def fig_3(perturb: float = 0.0) -> Outcome:
    """Nothing to run."""
    return Outcome(float("nan"), EXACT)
