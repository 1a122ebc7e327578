"""P2, Section 7 and Appendix C.2: the scope of "transformers cannot be additive".

Prop. 4.1 and Cor. 4.3 hold for the model of Appendix B.1
(:mod:`proofs_check.leemann2025.transformer`). The paper then extends them in words to models with a
[CLS] token, with positional embeddings, and to "the function spaces". One construction answers all
three. Let attention be uniform and let one position carry a marker, [CLS] itself or the first
position; with n tokens in the denominator the attention output holds

    x = sum_i w(t_i) / n,      y = 1/n,      so that      b + sum_i w(t_i) = b + x/y.

The feed-forward part has to do one division on a pair of numbers, whatever the sequence. Since y
takes one of C values, 2C ReLU units do it exactly: on the line y = 1/n the slope in x must be n,
and unit k, ``relu(x + K (y - theta_k)) - relu(K (y - theta_k))`` with theta_k between 1/(k+1) and
1/k, adds x if n <= k and nothing if n > k, as soon as K is large enough for |x| <= max|w|.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

from proofs_check.leemann2025.forms import sequences, worst
from proofs_check.registry import CONDITION, CORRECTED, NOT_CHECKABLE, WRONG, Outcome, statement
from proofs_check.tolerances import EXACT

WEIGHTS = (Fraction(3, 2), Fraction(-1), Fraction(2, 5))
OFFSET = Fraction(1, 3)


def _uniform_attention(values: Sequence[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Attention output for equal scores: the mean of the value vectors (w(t_i), marker_i)."""
    n = len(values)
    return sum((x for x, _ in values), Fraction(0)) / n, sum(
        (y for _, y in values), Fraction(0)
    ) / n


def _with_cls(tokens: Sequence[int]) -> tuple[Fraction, Fraction]:
    """[CLS] in front, value (0, 1); ordinary tokens (w, 0)."""
    return _uniform_attention(
        [(Fraction(0), Fraction(1)), *((WEIGHTS[t], Fraction(0)) for t in tokens)]
    )


def _with_positions(tokens: Sequence[int]) -> tuple[Fraction, Fraction]:
    """No [CLS]; the embedding of position 1 carries the marker, the other positions none."""
    return _uniform_attention([(WEIGHTS[t], Fraction(int(i == 0))) for i, t in enumerate(tokens)])


def _smallest_cls_example() -> list[Fraction]:
    """Half the spread of the outputs 6 z - 2 on [CLS] tau and [CLS] tau tau, z the attention output
    at [CLS].
    """
    values = [[(Fraction(0), Fraction(1)), *[(Fraction(1), Fraction(0))] * k] for k in (1, 2)]
    first, second = (6 * _uniform_attention(row)[0] - 2 for row in values)
    return [(second - first) / 2]


def _relu(z: Fraction) -> Fraction:
    return max(z, Fraction(0))


def divide_by_relus(
    x: Fraction, y: Fraction, longest: int, bound: Fraction, scale: Fraction = Fraction(1)
) -> Fraction:
    """x/y for y in {1, 1/2, ..., 1/longest} and |x| <= bound, by 2 longest units of one hidden ReLU
    layer.

    >>> divide_by_relus(Fraction(-3, 4), Fraction(1, 3), longest=5, bound=Fraction(1))
    Fraction(-9, 4)
    """
    out = scale * longest * (_relu(x) - _relu(-x))
    for k in range(1, longest):
        theta = (Fraction(1, k) + Fraction(1, k + 1)) / 2
        K = bound / (Fraction(1, k) - theta)
        out -= _relu(x + K * (y - theta)) - _relu(K * (y - theta))
    return out


@statement(
    paper="P2",
    ref="App. C.2 ([CLS])",
    claim=(
        "'we consider the CLS token just as a standard token': Prop. 4.1 and Cor. 4.3 apply to "
        "BERT with [CLS]"
    ),
    assumptions=(
        "uniform attention, ffn any function of the attention output, as Section 3.2 allows"
    ),
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    changes=(
        "A transformer with a [CLS] token in front can represent every linear model, so Prop. 4.1 "
        "and Cor. 4.3 do not apply to BERT."
    ),
    printed="Section 3.3 and Appendix C.2 treat a [CLS] token that is prepended to every sequence "
    "as a standard token; Section 6.2 and Figure 3 test Prop. 4.1 and Cor. 4.3 on BERT with [CLS].",
    corrected="The propositions need that no fixed token is prepended. With [CLS] in front, one "
    "layer represents every linear model b + sum_i w(t_i): equal scores, value (w(t), 0) for a "
    "token and (0, 1) for [CLS] give the attention output (x, y) = (sum w/(n+1), 1/(n+1)), and b + "
    "x/y is the model. (A GAM whose weights depend on the position stays out of reach for one "
    "encoder layer without positions, which does not see the order.)",
    consequence="A sequence of k equal tokens is [CLS], tau, ..., tau, and its attention output "
    "does depend on k. That BERT fails on linear data (Figure 3) is an observation about training, "
    "not a consequence of Prop. 4.1 or Cor. 4.3.",
)
def app_c_2_cls(perturb: float = 0.0) -> Outcome:
    """Exact equality with the linear model on every sequence of length up to 5 over three
    tokens.
    """
    differences = []
    for tokens in sequences(3, 5):
        x, y = _with_cls(tokens)
        differences.append(
            OFFSET + (1 + Fraction(perturb)) * x / y - OFFSET - sum(WEIGHTS[t] for t in tokens)
        )
    return Outcome(
        worst(differences),
        EXACT,
        printed_error=worst(_smallest_cls_example()),
        counterexample="V = {tau}, C = 2, w(tau) = 1, b = 0. All scores 0, value 1 for tau and 0 "
        "for [CLS]: the attention output at [CLS] is 1/2 on [CLS] tau and 2/3 on [CLS] tau tau. "
        "The affine ffn 6 z - 2 gives 6/2 - 2 = 1 and 12/3 - 2 = 2, the linear model. Cor. B.2 "
        "would force an error of |w|(C-1)/2 = 1/2 on one of them.",
        detail=(
            "printed_error is the spread of that example's two outputs, over 2: by Prop. 4.1 they "
            "would be equal"
        ),
    )


@statement(
    paper="P2",
    ref="App. C.2 (inversion)",
    claim=(
        "with positional embeddings a linear model stays out of reach of realistic feed-forward "
        "parts"
    ),
    assumptions="uniform attention; an ffn with one hidden ReLU layer; exact arithmetic",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=WRONG,
    changes=(
        "Position embeddings cannot be neglected: with them a small feed-forward layer makes one "
        "layer linear."
    ),
    printed="The softmax must be inverted for any input sequence; there are |V|^C of them, more "
    "than the O(d n_hidden log(d n_hidden)) pairs a two-layer network can represent; 'We conclude "
    "that the inversion is therefore impossible for realistic setups and positional embeddings can "
    "be neglected'.",
    corrected="One scalar division has to be done, not |V|^C inversions: with a marker in the "
    "embedding of position 1 (or in [CLS]) the attention output is (x, y) = (sum w/n, 1/n), and 2C "
    "ReLU units compute x/y exactly for all n <= C. The capacity bound limits how many *arbitrary* "
    "labels can be fitted; a linear model's labels are not arbitrary.",
    consequence="C = 1024 takes 2048 hidden units, fewer than the 3072 that Appendix C.2 quotes "
    "for BERT. Positions (or [CLS]) cannot be neglected in a proof; whether training finds this "
    "solution, at weights of order C^2, is a question for experiments. (BERT's width is d = 768, "
    "printed 786, and its context is 512.)",
)
def app_c_2_inversion(perturb: float = 0.0) -> Outcome:
    """All 1092 sequences of length up to 6 over three tokens, with positions and with [CLS]; a few
    of length ~1000.
    """
    scale = 1 + Fraction(perturb)
    bound = max(abs(w) for w in WEIGHTS)
    differences = []
    for tokens in sequences(3, 6):
        linear = sum(WEIGHTS[t] for t in tokens)
        x, y = _with_positions(tokens)
        differences.append(divide_by_relus(x, y, 6, bound, scale) - linear)
        x, y = _with_cls(tokens)
        differences.append(divide_by_relus(x, y, 7, bound, scale) - linear)
    rng = random.Random(1)
    for length in (1, 2, 37, 512, 1023, 1024):
        tokens = tuple(rng.randrange(3) for _ in range(length))
        x, y = _with_positions(tokens)
        differences.append(
            divide_by_relus(x, y, 1024, bound, scale) - sum(WEIGHTS[t] for t in tokens)
        )
    pairs = len(list(sequences(3, 6)))
    capacity = 2 * 12 * math.log(2 * 12)
    return Outcome(
        worst(differences),
        EXACT,
        printed_error=pairs / capacity - 1,
        counterexample="V = {tau}, C = 2, w(tau) = 1, no [CLS], position 1 marked: (x, y) = (1, 1) "
        "on [tau] and (1, 1/2) on [tau, tau]. 2 x - relu(x + 4y - 3) + relu(4y - 3) gives 2 - "
        "relu(2) + relu(1) = 1 and 2 - relu(0) + relu(-1) = 2, the linear model, with 4 = 2C "
        "hidden units (2 x = 2 relu(x) - 2 relu(-x)).",
        detail=f"|V| = 3, C = 6: {pairs} sequences exactly right with 12 units on 2 inputs, where "
        f"d n log(d n) = {capacity:.0f} (constant one); printed_error is the excess of the first "
        "number over the second.",
    )


@statement(
    paper="P2",
    ref="App. C.2 (capacity bound)",
    claim="a two-layer network represents at most O(d n_hidden log(d n_hidden)) input-output pairs",
    method="none",
    verdict=NOT_CHECKABLE,
    reason="an order of growth without its constant, cited from Bartlett et al. (1998), where it "
    "bounds the Vapnik-Chervonenkis dimension; what the paper concludes from it is checked under "
    "P2 App. C.2 (inversion)",
)
def app_c_2_capacity(perturb: float = 0.0) -> Outcome:
    """Nothing to run."""
    return Outcome(float("nan"), EXACT)


def _length_two(first: int, second: int) -> Fraction:
    """The example's transformer on two tokens with weights 0 (a) and 1 (b): twice the uniform
    mean.
    """
    return 2 * _uniform_attention([(Fraction(w), Fraction(0)) for w in (first, second)])[0]


@statement(
    paper="P2",
    ref="Sec. 7 (disjoint spaces)",
    claim=(
        "the function spaces of transformers and linear models are disjoint but for trivial cases"
    ),
    assumptions="the model of Appendix B.1",
    method="exact rational enumeration",
    verdict=CORRECTED,
    kind=CONDITION,
    changes=(
        "Transformers and linear models share functions on sequences of one fixed length, which is "
        "where mask tokens are used."
    ),
    printed="'We prove that the function spaces learnable by transformers and linear models are "
    "disjoint when ruling out trivial cases' (Section 7; likewise Section 1).",
    corrected="They are disjoint as functions on sequences of *every* length up to C >= 2. On "
    "sequences of one fixed length n each linear model b + sum_i w(t_i) is a transformer: uniform "
    "attention gives sum w/n, the ffn multiplies by n.",
    consequence="The proof compares two lengths, so it does not apply where the length is fixed, "
    "as when LIME or SHAP replace a token by a mask token instead of deleting it (the SHAP "
    "baseline in the authors' published code puts [UNK] in place): there an additive surrogate can "
    "be exact.",
)
def sec_7_disjoint(perturb: float = 0.0) -> Outcome:
    """N times the mean against the sum, every sequence of one length n, n = 1 .. 5."""
    differences = []
    for n in range(1, 6):
        for tokens in itertools.product(range(3), repeat=n):
            mean = sum((WEIGHTS[t] for t in tokens), Fraction(0)) / n
            differences.append(
                OFFSET
                + (1 + Fraction(perturb)) * n * mean
                - OFFSET
                - sum(WEIGHTS[t] for t in tokens)
            )
    return Outcome(
        worst(differences),
        EXACT,
        printed_error=worst([_length_two(0, 1) - _length_two(0, 0)]),
        counterexample="V = {a, b}, w(a) = 0, w(b) = 1, sequences of length 2 only, all scores 0, "
        "value w, ffn z -> 2 z: F(aa) = 2 (0+0)/2 = 0, F(ab) = F(ba) = 2 (0+1)/2 = 1, F(bb) = 2 "
        "(1+1)/2 = 2. The transformer is the linear model, and it is neither constant nor "
        "determined by the first token: F(ab) - F(aa) = 1.",
        detail="printed_error is F(ab) - F(aa), which would have to vanish.",
    )
