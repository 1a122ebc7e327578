"""P2, Sections 5.1 and 5.2, Appendix B.5: SLALOM (Eq. 4), and the transformer that computes it
(Prop. 5.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from proofs_check.leemann2025.forms import (
    MASSES,
    VALUES,
    Head,
    Layer,
    log_odds,
    random_transformer,
    sequences,
    slalom,
    worst,
)
from proofs_check.registry import CONDITION, CORRECTED, SLIP, Outcome, statement
from proofs_check.tolerances import ALGEBRA, EXACT

Vector = list[Fraction]
ZERO = Fraction(0)


@statement(
    paper="P2",
    ref="Eq. 4 (shift)",
    claim="s and s + delta give the same SLALOM",
    method="exact rational enumeration",
)
def eq_4_shift(perturb: float = 0.0) -> Outcome:
    """A shift of s multiplies all masses by e^delta: every sequence of length up to 4, three
    factors.
    """
    differences = [
        slalom(tokens, [factor * g for g in MASSES], VALUES)
        - (1 + Fraction(perturb)) * slalom(tokens, MASSES, VALUES)
        for factor in (Fraction(1, 1000), Fraction(7, 3), Fraction(10**6))
        for tokens in sequences(4, 4)
    ]
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 4 (one token)",
    claim=(
        "if only one token is present, once or repeatedly, the output is its value v (Section 5.1, "
        "Figure 9, Eq. 44)"
    ),
    method="exact rational enumeration",
)
def eq_4_one_token(perturb: float = 0.0) -> Outcome:
    """F([tau] * k) for k = 1 .. 6."""
    differences = [
        slalom((tau,) * k, MASSES, VALUES) - (1 + Fraction(perturb)) * VALUES[tau]
        for tau in range(4)
        for k in range(1, 7)
    ]
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Eq. 4 (order, duplicates)",
    claim=(
        "SLALOM does not see the order; n occurrences of a token act as one with importance s + "
        "log n"
    ),
    assumptions="the sums of Eq. 4 run over positions, so that duplicates count",
    method="exact rational enumeration",
)
def eq_4_order(perturb: float = 0.0) -> Outcome:
    """All orders of every sequence of length up to 4, and the sequence of its distinct tokens with
    masses n g.
    """
    differences = []
    for tokens in sequences(3, 4):
        out = (1 + Fraction(perturb)) * slalom(tokens, MASSES, VALUES)
        differences += [
            slalom(order, MASSES, VALUES) - out for order in set(itertools.permutations(tokens))
        ]
        heavier = [g * tokens.count(tau) for tau, g in enumerate(MASSES)]
        differences.append(slalom(sorted(set(tokens)), heavier, VALUES) - out)
    return Outcome(worst(differences), EXACT)


@statement(
    paper="P2",
    ref="Sec. 7 (SLALOM not additive)",
    claim=(
        "SLALOM is not suited for linear relations: a SLALOM that equals a GAM for C >= 2 is "
        "constant"
    ),
    method="exact rational enumeration",
)
def sec_7_not_additive(perturb: float = 0.0) -> Outcome:
    """A GAM has F(ab) - F(a) = w_2(b) = F(bb) - F(b); SLALOM has alpha_b (v_b - v_a) on the left
    and 0 on the right.
    """
    differences = []
    for a, b in itertools.product(range(4), repeat=2):
        left = slalom((a, b), MASSES, VALUES) - slalom((a,), MASSES, VALUES)
        right = slalom((b, b), MASSES, VALUES) - slalom((b,), MASSES, VALUES)
        gap = MASSES[b] / (MASSES[a] + MASSES[b]) * (VALUES[b] - VALUES[a])
        differences.append(left - right - (1 + Fraction(perturb)) * gap)
    return Outcome(
        worst(differences),
        EXACT,
        detail="the gap vanishes for all a, b only if all values are equal",
    )


def _affine(W: Sequence[Vector], b: Vector, e: Vector) -> Vector:
    """W e + b as in Eq. 32 to 39."""
    return [
        sum(w * x for w, x in zip(row, e, strict=True)) + shift
        for row, shift in zip(W, b, strict=True)
    ]


def _dot(x: Vector, y: Vector) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True)), ZERO)


def _matrix(entries: dict[tuple[int, int], Fraction], d: int) -> list[Vector]:
    return [[entries.get((i, j), Fraction(0)) for j in range(d)] for i in range(d)]


def _unit(i: int, d: int, length: Fraction = Fraction(1)) -> Vector:
    return [length if j == i else Fraction(0) for j in range(d)]


SCORES = (Fraction(0), Fraction(1), Fraction(-3, 2))


@statement(
    paper="P2",
    ref="Eq. 30-36",
    claim="the pre-softmax score of query t_i and key t_j is s(t_j) for every query",
    assumptions="embedding [s, v, 0, ..., 0] (Eq. 29)",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=SLIP,
    printed="W_k = 0, b_k = [1, 0, ..., 0], W_q = I, b_q = 0, hence a(t_i, t_j) = s(t_j)",
    corrected="The roles are swapped: W_q = 0, b_q = [1, 0, ..., 0], W_k = I, b_k = 0. (Eq. 35 "
    "writes W_v, b_v for W_q, b_q.)",
    consequence="As printed a(t_i, t_j) = s(t_i), the same for all keys: the softmax is uniform "
    "and the transformer outputs the plain mean of the values for every s.",
)
def eq_30_36(perturb: float = 0.0) -> Outcome:
    """The scores of all pairs of three tokens, d = 3, with both assignments."""
    d = 3
    identity = _matrix({(i, i): Fraction(1) for i in range(d)}, d)
    null = _matrix({}, d)
    right = []
    printed = []
    for i, j in itertools.product(range(3), repeat=2):
        e_i = [SCORES[i], VALUES[i], ZERO]
        e_j = [SCORES[j], VALUES[j], ZERO]
        constant = _unit(0, d, 1 + Fraction(perturb))
        right.append(
            _dot(_affine(null, constant, e_i), _affine(identity, _unit(0, d, ZERO), e_j))
            - SCORES[j]
        )
        printed.append(
            _dot(_affine(identity, _unit(0, d, ZERO), e_i), _affine(null, _unit(0, d), e_j))
            - SCORES[j]
        )
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "s(a) = 0, s(b) = 1: printed, query a and key b give [0, v, 0].[1, 0, 0] = 0 = s(a), not "
        "s(b) = 1. With exp(s) = 1, 3 and v = 0, 1 the sequence [a, b] has F = 3/4 by Eq. 4 and "
        "1/2 by the printed weights.",
    )


@statement(
    paper="P2",
    ref="Eq. 37-43",
    claim=(
        "the attention output carries sum alpha_i v(t_i) in its third coordinate, and the "
        "classifier reads it there"
    ),
    assumptions="the attention weights are those of Eq. 4; P = I, ffn = identity",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=SLIP,
    printed="W_v = diag([0, 1, 0, ..., 0]), hence v_i = [0, 0, v(t_i), 0, ..., 0]",
    corrected="W_v has its only entry 1 in row 3, column 2. (Reading coordinate 2 instead would "
    "not help: the skip connection adds v(t_r) there. In Eq. 42 e(t_0) is e(t_r).)",
    consequence="diag([0, 1, 0, ...]) gives [0, v(t_i), 0, ...]; the classifier of Eq. 43 reads a "
    "coordinate that is always zero, so the printed transformer outputs 0 on every sequence.",
)
def eq_37_43(perturb: float = 0.0) -> Outcome:
    """Third coordinate of e(t_r) + sum_i alpha_i W_v e(t_i), all sequences of length up to 3 over
    four tokens.
    """
    d = 3
    moved = _matrix({(2, 1): 1 + Fraction(perturb)}, d)
    diagonal = _matrix({(1, 1): Fraction(1)}, d)
    right: list[Fraction] = []
    printed: list[Fraction] = []
    for tokens in sequences(4, 3):
        total = sum(MASSES[t] for t in tokens)
        for W_v, differences in ((moved, right), (diagonal, printed)):
            # s(t) of the embedding is never read by W_v nor by the classifier: any number will do.
            output = [Fraction(9), VALUES[tokens[0]], ZERO]
            for t in tokens:
                value = _affine(W_v, _unit(0, d, ZERO), [Fraction(9), VALUES[t], ZERO])
                output = [o + MASSES[t] / total * x for o, x in zip(output, value, strict=True)]
            differences.append(output[2] - slalom(tokens, MASSES, VALUES))
    return Outcome(
        worst(right),
        EXACT,
        worst(printed),
        "one token with s = 0, v = 1: e = [0, 1, 0], W_v e = [0, 1, 0], e + s_r = [0, 2, 0], third "
        "coordinate 0; Eq. 4 says 1.",
    )


def slalom_transformer(
    s: np.ndarray, v: np.ndarray, d: int, d_h: int, depth: int, length: np.longdouble
) -> tuple[np.ndarray, list[Layer], np.ndarray]:
    """The corrected construction of Prop. 5.1, with a second head that P = 0 silences and idle
    layers around it.

    `length` is that of the constant query vector; Eq. 10 asks for sqrt(d_h).
    """
    _, noise, _ = random_transformer(seed=11, vocabulary=1, depth=depth, heads=2, d=d, d_h=d_h)
    E = np.zeros((len(s), d), dtype=np.longdouble)
    E[:, 0] = s
    E[:, 1] = v

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.longdouble)

    b_Q = zeros(d_h)
    W_K = zeros(d, d_h)
    W_V = zeros(d, d_h)
    P = zeros(d_h, d)
    b_Q[0] = length
    W_K[0, 0] = W_V[1, 2] = 1
    P[:3, :3] = np.eye(3)
    working = Head(zeros(d, d_h), b_Q, W_K, zeros(d_h), W_V, zeros(d_h), P)

    def silenced(head: Head) -> Head:
        return Head(head.W_Q, head.b_Q, head.W_K, head.b_K, head.W_V, head.b_V, zeros(d_h, d))

    layers = [
        Layer(
            (silenced(layer.heads[0]), working if i == depth // 2 else silenced(layer.heads[1])),
            lambda z: z,
        )
        for i, layer in enumerate(noise)
    ]
    W_class = zeros(2, d)
    W_class[1, 2] = 1
    return E, layers, W_class


def _deviations(d: int, d_h: int, depth: int, length: np.longdouble) -> list[np.longdouble]:
    """Forward pass minus Eq. 4, encoder and decoder, every sequence of length up to 3 over four
    tokens.
    """
    g = np.array(MASSES, dtype=np.longdouble)
    v = np.array(VALUES, dtype=np.longdouble)
    E, layers, W_class = slalom_transformer(np.log(g), v, d, d_h, depth, length)
    return [
        log_odds(E[list(t)], layers, W_class, causal)
        - (g[list(t)] * v[list(t)]).sum() / g[list(t)].sum()
        for t, causal in itertools.product(sequences(4, 3), (False, True))
    ]


@statement(
    paper="P2",
    ref="Eq. 36 with Eq. 10",
    claim="with the scores of Eq. 36 the attention weights are those of Eq. 4",
    method="extended precision",
    verdict=CORRECTED,
    kind=CONDITION,
    printed=(
        "a(t_i, t_j) = s(t_j) is passed to the softmax as it is (Eq. 40), with a constant vector "
        "of length 1"
    ),
    corrected="Eq. 10 divides by sqrt(d_h): the constant vector must be [sqrt(d_h), 0, ..., 0].",
    consequence=(
        "Otherwise the transformer computes the SLALOM with importances s/sqrt(d_h), flatter than "
        "asked."
    ),
)
def eq_36_scale(perturb: float = 0.0) -> Outcome:
    """Whole forward pass with the constant vector of length sqrt(d_h) and of length 1, d_h = 3, 4,
    9.
    """
    right = []
    printed = []
    for d_h in (3, 4, 9):
        root = np.sqrt(np.longdouble(d_h))
        right += _deviations(d=3, d_h=d_h, depth=1, length=(1 + perturb) * root)
        printed += _deviations(d=3, d_h=d_h, depth=1, length=np.longdouble(1))
    return Outcome(
        worst(right),
        ALGEBRA,
        worst(printed),
        "d_h = 4, exp(s) = 1, 9, v = 0, 1, sequence [a, b]: Eq. 4 gives 9/10; the scores s/2 give "
        "masses 1, 3 and 3/4.",
    )


@statement(
    paper="P2",
    ref="Prop. 5.1",
    claim=(
        "for any s, v a transformer with d, d_h >= 3 computes SLALOM; also with several heads and "
        "layers"
    ),
    assumptions="weights as corrected under Eq. 30-36, Eq. 37-43 and Eq. 36 with Eq. 10; ffn may "
    "be the identity; P pads or cuts if d != d_h (the printed P = I needs d = d_h)",
    method="extended precision",
)
def prop_5_1(perturb: float = 0.0) -> Outcome:
    """Whole forward pass, encoder and decoder, (d, d_h) = (3, 3), (5, 3), (3, 4), depth 1 and 3,
    two heads.
    """
    differences = []
    for d, d_h, depth in ((3, 3, 1), (5, 3, 3), (3, 4, 3)):
        differences += _deviations(d, d_h, depth, (1 + perturb) * np.sqrt(np.longdouble(d_h)))
    return Outcome(worst(differences), ALGEBRA)
