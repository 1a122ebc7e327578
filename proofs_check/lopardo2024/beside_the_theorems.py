"""P1 and its slides beside the theorems: what the text says of other architectures, of its figures
and of documents, without an equation.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np

from ..registry import CONDITION, CORRECTED, MISPRINT, SLIP, Outcome, one_plus, statement
from ..tolerances import ALGEBRA, EXACT
from . import small_model as m

#: The review of Fig. 4 as the notebook lime_meets_attention.ipynb prints it (its cell 13).
REVIEW = (
    "i find it amazing that so many people probably poles have voted for this movie giving it such "
    "grades mostly tens ok the movie was fine funny but it was nothing special on the other hand "
    "the only good thing about kiler is the dialogues rather not comprehensive for non poles "
    "screenplay is primitive the acting except for jerzy stuhr as ryba awful it s too much ado "
    "about nothing fortunately it s not included in the top 250 p s the sequel kilerow 2 och 2 "
    "kilers is on the way and it s just the same story"
)
#: Scores of 'questionable' in Fig. 1, from the outputs of attention_meets_xai.ipynb.
QUESTIONABLE = {
    "alpha-avg": 0.10408841818571091,
    "alpha-max": 0.31604811549186707,
    "lime": -1.0116138921266682,
    "G-avg": -0.008211946114897728,
    "G-l1": 11.99755573272705,
    "G-l2": 1.331404447555542,
    "GxI": -3.33164644241333,
}


@statement(
    paper="P1",
    ref="Section 2.1, long documents",
    claim="of a document with T > T_max the last tokens are ignored",
    assumptions="position 0 is [CLS], so that T_max - 1 tokens are read, as in the authors' code",
    method="algebra",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="'If T > T_max, the last tokens are ignored and the input document is effectively "
    "discarded.'",
    corrected="The last tokens are ignored, and the document is not discarded: its first T_max - 1 "
    "tokens determine f.",
    consequence="None: the authors' code cuts the list of tokens and reads the rest.",
)
def long_documents_are_cut(perturb: float = 0.0) -> Outcome:
    """The output of a cut document depends on its first tokens and not on the rest."""
    w = m.random_weights(21)
    rng = np.random.default_rng(21)
    full = rng.normal(size=(m.T_max + 5, m.d_e))
    cut = full[: m.T_max]
    other = np.concatenate([cut, rng.normal(size=(5, m.d_e))])[: m.T_max]
    empty = np.concatenate([full[:1], np.tile(w.h, (m.T_max - 1, 1))])
    same = abs((1 + perturb) * m.output(w, cut) - m.output(w, other))
    return Outcome(
        same,
        ALGEBRA,
        abs(m.output(w, cut) - m.output(w, empty)),
        "T_max = 3, one head of equal attention, values 1 and 3 at the two positions that are read "
        "and 0 at [CLS]: f = 4/3 for every document that begins so, and 0 for a discarded one.",
    )


@statement(
    paper="P1",
    ref="Section 2.2, embeddings per head",
    claim="a separate embedding for each head is covered by the analysis",
    method="algebra",
)
def embeddings_per_head(perturb: float = 0.0) -> Outcome:
    """The embeddings of all heads side by side are one shared embedding; each head's matrices read
    their own block. Attention, output and Theorem 4.1 are those of the separate heads.
    """
    w = m.random_weights(22)
    rng = np.random.default_rng(22)
    own = [rng.normal(size=w.e.shape) for _ in range(m.K)]
    shared = np.concatenate(own, axis=1)

    def block(W: np.ndarray, head: int) -> np.ndarray:
        wide = np.zeros((*W.shape[:-1], m.K * m.d_e))
        wide[..., head * m.d_e : (head + 1) * m.d_e] = W
        return wide

    wide = m.Weights(
        np.stack([block(w.W_q[i], i) for i in range(m.K)]),
        np.stack([block(w.W_k[i], i) for i in range(m.K)]),
        np.stack([block(w.W_v[i], i) for i in range(m.K)]),
        w.W_l,
        shared,
        np.tile(w.h, m.K),
    )
    separate = [(1 + perturb) * m.head_output(w, own[i], i) for i in range(m.K)]
    together = [m.head_output(wide, shared, i) for i in range(m.K)]
    error = m.relative_error(np.array(separate), np.array(together))
    gradient = m.gradient_eq_14(wide)
    for i in range(m.K):
        head = slice(i, i + 1)
        one = m.Weights(w.W_q[head], w.W_k[head], w.W_v[head], w.W_l[head], own[i], w.h)
        mine = m.gradient_eq_14(one) / m.K
        columns = gradient[:, i * m.d_e : (i + 1) * m.d_e]
        error = max(error, m.relative_error((1 + perturb) * mine, columns))
    return Outcome(error, ALGEBRA, detail="d_e of the shared model is K d_e")


@statement(
    paper="P1",
    ref="Section 3, non-negative scores",
    claim="alpha-avg and alpha-max are non-negative, and so are some gradient scores",
    method="algebra",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="'alpha-avg and alpha-max, G-l1 generate non-negative weights' (in the section on "
    "attention, before G-l1 is defined)",
    corrected="alpha-avg, alpha-max, G-l1 and G-l2 generate non-negative weights, as section 4.1 "
    "says of the last two.",
    consequence="None.",
)
def non_negative_scores(perturb: float = 0.0) -> Outcome:
    """How many of the seven scores of Fig. 1 are non-negative for every token: two attentions and
    two norms. The others have both signs in the authors' stored figure.
    """
    w = m.random_weights(23)
    alpha = np.array([m.attention(w, w.e, i) for i in range(m.K)])
    gradient = m.gradient_eq_14(w)
    norms = [np.abs(gradient).sum(axis=1), np.sqrt((gradient**2).sum(axis=1))]
    scores = [alpha.mean(axis=0), alpha.max(axis=0), *norms, gradient.mean(axis=1)]
    scores.append((gradient * w.e).sum(axis=1))
    count = sum(bool((score >= 0).all()) for score in scores)
    named = 3
    return Outcome(
        abs((1 + perturb) * 4 - count),
        EXACT,
        abs(named - count),
        "A gradient (3, -4) has l1 norm 7 and l2 norm 5, both positive; its mean is -1/2.",
    )


@statement(
    paper="P1",
    ref="Figure 1, caption",
    claim="LIME and GxI alone find 'questionable' negative",
    assumptions="the scores that the authors' notebook attention_meets_xai.ipynb prints",
    method="algebra",
    verdict=CORRECTED,
    kind=SLIP,
    printed="'all the explainers identify the word questionable as highly significant, while only "
    "lime, and GxI highlight a negative contribution'",
    corrected="Three explainers find it negative: LIME (-1.01), GxI (-3.33) and G-avg (-0.0082), "
    "for which it is the strongest word.",
    consequence="The message of the figure is not affected: explainers differ. (The sentence on "
    "'popular' holds on the stored scores.)",
)
def figure_1_caption(perturb: float = 0.0) -> Outcome:
    """Number of negative scores."""
    negative = sum(score < 0 for score in QUESTIONABLE.values())
    return Outcome(
        abs((1 + perturb) * 3 - negative),
        EXACT,
        abs(2 - negative),
        f"G-avg('questionable') = {QUESTIONABLE['G-avg']:.4f} in the notebook: a third negative "
        "score.",
    )


@statement(
    paper="P1",
    ref="Slides, T = d = 99",
    claim="the review of Fig. 4 has 99 tokens, and the slides say that all of them are distinct",
    assumptions="the review that the notebook lime_meets_attention.ipynb prints",
    method="algebra",
    verdict=CORRECTED,
    kind=CONDITION,
    printed="Slides: 'T = d = 99 in this example.' (The paper: T = 99, d = 71.)",
    corrected="T = 99 and d = 71, as in the paper: 'it' occurs six times and 'the' nine times.",
    consequence="The figure does not satisfy the assumption d = T of the theorem. It is evidence "
    "for repeated words, which appendix B.1 conjectures and which holds (Appendix B.1, repeated "
    "words).",
)
def slides_distinct(perturb: float = 0.0) -> Outcome:
    """Count the tokens and the distinct ones."""
    counts = Counter(REVIEW.split())
    tokens = sum(counts.values())
    return Outcome(
        float(abs(one_plus(perturb) * 71 - len(counts)) + abs(one_plus(perturb) * 99 - tokens)),
        EXACT,
        float(abs(99 - len(counts))),
        f"The review has {tokens} tokens and {len(counts)} distinct ones; 'it' occurs "
        f"{counts['it']} times and 'the' {counts['the']} times.",
    )


@statement(
    paper="P1",
    ref="Slides, softmax",
    claim="attention is a softmax of the scaled products of query and keys",
    method="algebra",
    verdict=CORRECTED,
    kind=MISPRINT,
    printed="'softmax of the vector (q'k_1, ..., q'k_Tmax)', below a formula that divides by "
    "sqrt(d_att); further: samples Z_i in {0,1}^T for a surrogate in R^d, the lemma of the ratio "
    "without the absolute value, and Bahdanau et al. at ICLR 2025",
    corrected="The softmax of (q'k_t / sqrt(d_att))_t; Z_i in {0,1}^d; the absolute value of Lemma "
    "D.1; ICLR 2015.",
    consequence="None.",
)
def slides_softmax(perturb: float = 0.0) -> Outcome:
    """The attention of Eq. 8 against the softmax of scaled and of plain products."""
    w = m.random_weights(24)
    error = 0.0
    printed = 0.0
    for i in range(m.K):
        products = (w.e @ w.W_k[i].T) @ (w.W_q[i] @ w.e[0])
        for scale in (1.0, np.sqrt(m.d_att)):
            g = np.exp((products - products.max()) / scale)
            found = float(np.abs((1 + perturb) * g / g.sum() - m.attention(w, w.e, i)).max())
            if scale > 1:
                error = max(error, found)
            else:
                printed = max(printed, found)
    return Outcome(
        error,
        ALGEBRA,
        printed,
        "d_att = 4, products (2 ln 3, 0): scaled by 1/2, the attention is (3/4, 1/4); the softmax "
        "of the products themselves is (9/10, 1/10).",
    )


@statement(
    paper="P1",
    ref="Slides, histogram task",
    claim="one layer can count tokens with an attention that does not depend on them, and with one "
    "that does",
    assumptions="tied one-hot embeddings and a skip connection; which of the two a training finds "
    "is the subject of Cui et al. (2024), not of P1",
    method="exact rational enumeration",
)
def histogram_task(perturb: float = 0.0) -> Outcome:
    """The slides' example, solved exactly in both ways.

    Uniform attention: the mean of the one-hot embeddings has count/L at the coordinate of each
    token, which its own embedding picks. Attention to equal tokens: next to a first token of mass
    1, that token gets 1/(count + 1).
    """
    text = "DATAIAIAIA"
    expected = [1, 5, 1, 5, 3, 5, 3, 5, 3, 5]
    letters = sorted(set(text))
    size = len(text)
    one_hot = [[Fraction(int(x == letter)) for letter in letters] for x in text]
    none = Fraction(0)
    average = [sum((row[j] for row in one_hot), none) / size for j in range(len(letters))]
    positional = [
        size * sum((a * b for a, b in zip(row, average, strict=True)), none) for row in one_hot
    ]
    semantic: list[Fraction] = []
    for x in text:
        mass = [Fraction(int(x == y)) for y in text]
        first = 1 / (1 + sum(mass, none))
        semantic.append(1 / first - 1)
    scale = one_plus(perturb)
    differences = [
        abs(scale * found - count)
        for solution in (positional, semantic)
        for found, count in zip(solution, expected, strict=True)
    ]
    return Outcome(float(max(differences)), EXACT)


@statement(
    paper="P1",
    ref="Section 6 (ii), skip connections",
    claim="a skip connection does not raise the accuracy, and the analysis adapts to it",
    assumptions="the classifier reads [CLS]: W_l (v~ + P e_[CLS]) with a projection P",
    method="algebra",
)
def skip_connection(perturb: float = 0.0) -> Outcome:
    """At [CLS] the skip connection adds the same number for every document, so that it is a bias.

    The outputs of two documents, their differences under removal of words, and so LIME's
    coefficients and the gradients at tokens of the document are those of the model without it.
    """
    w = m.random_weights(25)
    rng = np.random.default_rng(25)
    P = rng.normal(size=(m.K, m.d_out, m.d_e))

    def with_skip(e: np.ndarray) -> float:
        heads = [m.head_value(w, e, i) + P[i] @ e[0] for i in range(m.K)]
        return float(np.mean([heads[i] @ w.W_l[i] for i in range(m.K)]))

    bias = float(np.mean([w.W_l[i] @ P[i] @ w.e[0] for i in range(m.K)]))
    error = 0.0
    for seed in range(5):
        other = np.concatenate([w.e[:1], np.random.default_rng(seed).normal(size=w.e[1:].shape)])
        for e in (w.e, other):
            found = with_skip(e) - m.output(w, e)
            error = max(error, abs((1 + perturb) * bias - found) / abs(bias))
    return Outcome(
        error, ALGEBRA, detail="the same bias for six documents; accuracy can change by it alone"
    )
