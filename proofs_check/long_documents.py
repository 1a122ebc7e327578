"""Exact LIME limits of long documents whose words come in a few kinds.

P1's asymptotic statements need documents of hundreds or thousands of distinct words, far beyond
enumeration. If the words fall into C kinds with n_c words each, words of a kind having the same (g,
v, g_h, v_h), then f(X) depends on S only through the numbers r_c of removed words of each kind, and
with s = sum_c r_c uniform in {1, ..., d}

    P(r) = (1/d) prod_c binom(n_c, r_c) / binom(d, s)

(multivariate hypergeometric): a sum over prod (n_c + 1) terms is exact, without integral
representation and without sampling. The words stay distinct as P1 asks: different words may have
equal scores. Padding is one kind that never moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LongDocument:
    """A document of one head: n[c] words of kind c, then padding up to T_max.

    Attributes
    ----------
    n : (C,) numbers of words
    g, v, g_h, v_h : (C,) exponential logit and value of a word, and of [UNK] in its place
    padding : number of padded positions, each with mass g_pad and value v_pad
    """

    n: Sequence[int]
    g: Sequence[float]
    v: Sequence[float]
    g_h: Sequence[float]
    v_h: Sequence[float]
    padding: int
    g_pad: float = 1.0
    v_pad: float = 0.0

    @property
    def d(self) -> int:
        """Number of words, all distinct: d = T."""
        return sum(self.n)

    @property
    def T_max(self) -> int:
        """Number of positions."""
        return self.d + self.padding

    @property
    def A(self) -> float:
        """sum_u g_u over all positions."""
        return float(np.dot(self.n, self.g)) + self.padding * self.g_pad

    @property
    def B(self) -> float:
        """sum_u g_{h,u} over all positions."""
        return float(np.dot(self.n, self.g_h)) + self.padding * self.g_pad

    @property
    def N_A(self) -> float:
        """sum_u g_u v_u."""
        return (
            float(np.dot(self.n, np.multiply(self.g, self.v)))
            + self.padding * self.g_pad * self.v_pad
        )

    @property
    def N_B(self) -> float:
        """sum_u g_{h,u} v_{h,u}."""
        return (
            float(np.dot(self.n, np.multiply(self.g_h, self.v_h)))
            + self.padding * self.g_pad * self.v_pad
        )

    @property
    def F(self) -> float:
        """The output for the whole document."""
        return self.N_A / self.A

    def removals(self) -> tuple[Array, Array]:
        """Every vector r of numbers of removed words per kind, and P(r): (C, M) and (M,); r = 0 is
        never drawn.
        """
        axes = [np.arange(count + 1) for count in self.n]
        r = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])[:, 1:]
        log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, self.d + 1)))])
        s = r.sum(axis=0)
        log_p = log_factorial[s] + log_factorial[self.d - s] - log_factorial[self.d]
        for count, removed in zip(self.n, r, strict=True):
            log_p += log_factorial[count] - log_factorial[removed] - log_factorial[count - removed]
        # The logs of factorials carry an error that grows with d; the law of s is known, so restore
        # it exactly.
        p = np.exp(log_p)
        by_size = np.bincount(s, weights=p, minlength=self.d + 1)
        return r.astype(np.float64), p / by_size[s] / self.d

    def denominator(self, r: Array) -> Array:
        """sum_u G_u (P1, Eq. 27) for (C, M) removals."""
        return self.A + np.subtract(self.g_h, self.g) @ r

    def value(self, r: Array) -> Array:
        """f(X) for (C, M) removals."""
        gain = np.multiply(self.g_h, self.v_h) - np.multiply(self.g, self.v)
        return (self.N_A + gain @ r) / self.denominator(r)

    def summand(self, r: Array, kind: int, among: int | None = None) -> Array:
        """E[A_t V_t | r] for a word t of `kind`, of which `among` words (default: all) share the r
        removals.
        """
        share = r[kind] / (self.n[kind] if among is None else among)
        kept = self.g[kind] * self.v[kind]
        replaced = self.g_h[kind] * self.v_h[kind]
        return ((1 - share) * kept + share * replaced) / self.denominator(r)


def given_present(document: LongDocument, r: Array, p: Array, kind: int) -> Array:
    """P(r | l not in S) for a word l of `kind`: P(r) (n - r)/n, normalized.

    Examples
    --------
    >>> document = LongDocument(n=[3], g=[1.0], v=[1.0], g_h=[1.0], v_h=[0.0], padding=1)
    >>> r, p = document.removals()
    >>> given_present(document, r, p, 0).round(4)
    array([0.6667, 0.3333, 0.    ])
    """
    weight = p * (document.n[kind] - r[kind]) / document.n[kind]
    return weight / weight.sum()


def limit_from_means(document: LongDocument, E_present: Array, E: float) -> Array:
    """Least-squares coefficients from E[f | j present] for each kind, and E[f]: P1's Eq. 17,
    corrected.
    """
    d = document.d
    mean = np.dot(document.n, E_present) / d
    return 3 * (d - 1) / (d + 1) * (E_present - mean) + 6 / (d + 1) * (mean - E)


def lime_limit(document: LongDocument) -> Array:
    """Exact LIME coefficients, one per kind, for infinite bandwidth and no ridge: (C,).

    Examples
    --------
    A linear model, whose coefficients least squares must return: equal masses, so f is the mean of
    the values.

    >>> document = LongDocument(
    ...     n=[2, 3], g=[1, 1], v=[5.0, -1.0], g_h=[1, 1], v_h=[0.0, 0.0], padding=5
    ... )
    >>> lime_limit(document).round(12)
    array([ 0.5, -0.1])
    """
    r, p = document.removals()
    # A constant does not matter to the coefficients, but to their rounding.
    f = document.value(r) - document.F
    means = np.array([given_present(document, r, p, kind) @ f for kind in range(len(document.n))])
    return limit_from_means(document, means, float(p @ f))


def first_order(document: LongDocument, factor: float = 1.0) -> Array:
    """Corrected Theorem 5.1, w = [g (v - F) - g_h (v_h - F)]/A for each kind: (C,)."""
    F, g, v, g_h, v_h = (
        document.F,
        *map(np.asarray, (document.g, document.v, document.g_h, document.v_h)),
    )
    return factor * (g * (v - F) - g_h * (v_h - F)) / document.A


def printed_theorem(document: LongDocument, factor: float = 1.5) -> Array:
    """Theorem 5.1 as printed, (3/2)(alpha v - alpha_h v_h) for each kind: (C,)."""
    g, v, g_h, v_h = map(np.asarray, (document.g, document.v, document.g_h, document.v_h))
    return factor * (g * v / document.A - g_h * v_h / document.B)


def integral_form(document: LongDocument, factor: float = 1.0) -> Array:
    """Mean-field form c_1 (g v - g_h v_h) - c_2 (g - g_h) for each kind: (C,); see
    :func:`mean_field_constants`.
    """
    g, v, g_h, v_h = map(np.asarray, (document.g, document.v, document.g_h, document.v_h))
    c_1, c_2 = mean_field_constants(document)
    return factor * (c_1 * (g * v - g_h * v_h) - c_2 * (g - g_h))


def mean_field_constants(document: LongDocument) -> tuple[float, float]:
    """c_1 = 6 I_1/A and c_2 = 6 [N_A J_2 + (N_B - N_A) J_3]/A^2 with r = B/A - 1.

    I_1, J_2, J_3 are the integrals over x in [0, 1], the fraction of removed words, of x
    (1-x)/(1+rx), x (1-x)/(1+rx)^2 and x^2 (1-x)/(1+rx)^2; 64 Gauss-Legendre nodes leave no error
    for r >= -0.99.
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    x = (nodes + 1) / 2
    w = weights / 2
    D = 1 + (document.B / document.A - 1) * x
    I_1 = float(w @ (x * (1 - x) / D))
    J_2 = float(w @ (x * (1 - x) / D**2))
    J_3 = float(w @ (x**2 * (1 - x) / D**2))
    N = document.N_A * J_2 + (document.N_B - document.N_A) * J_3
    return 6 * I_1 / document.A, 6 * N / document.A**2


def growth_exponent(sizes: Sequence[float], errors: Sequence[float]) -> float:
    """Slope of log(error) against log(size) over the last three sizes, where the leading power
    rules.

    Examples
    --------
    >>> round(growth_exponent([1, 2, 4, 8], [9.0, 1.0, 0.25, 0.0625]), 6)
    -2.0
    """
    slope, _ = np.polyfit(np.log(sizes[-3:]), np.log(errors[-3:]), 1)
    return float(slope)


def growing_documents(
    eps: float, sizes: Sequence[int], **scores: Sequence[float]
) -> list[LongDocument]:
    """Documents with d = T = T_max^eps: the sizes d, words spread over the kinds, T_max = d^(1/eps)
    rounded.
    """
    kinds = len(scores["g"])
    documents = []
    for d in sizes:
        n = [d // kinds + (1 if c < d % kinds else 0) for c in range(kinds)]
        padding = math.floor(d ** (1 / eps) + 0.5) - d
        documents.append(
            LongDocument(
                n, scores["g"], scores["v"], scores["g_h"], scores["v_h"], padding, 1.0, 0.3
            )
        )
    return documents
