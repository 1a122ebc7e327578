"""P1's theory of LIME (section 5): Theorem 5.1 as printed, and two corrected forms.

In one head let g be the mass of a player when present and g_h when absent ([UNK] in its place), v
and v_h its values, A = sum g, N_A = sum g v, F = N_A / A (the head's part of f) with the background
in the sums, B and N_B the same with every player absent. Heads add up; the value of a player
carries its head's 1/K.

**As printed**, Eq. 19: beta = 3/2 (alpha v - alpha_h v_h), alpha = g/A, alpha_h = g_h/B. The
constant should be 1, and a term of leading order is lost: a token's presence also changes the
softmax's denominator, by -(alpha - alpha_h) F. As printed, a constant f has non-zero coefficients
(`proofs_check/ERRATA.md`, `docs/theory/limes-limit.md`).

**First order**: beta = [g (v - F) - g_h (v_h - F)] / A, exact when T/T_max goes to 0. Tokens need
not be distinct.

**Mean field**: with a share p absent, numerator and denominator are near N(p) = N_A + p (N_B - N_A)
and D(p) = A + p (B - A), so a player adds Delta(p) = (g v - g_h v_h)/D - (g - g_h) N/D^2. Least
squares with equal weights for all p gives 6 int p (1-p) Delta dp:

    beta = c_1 (g v - g_h v_h) - c_2 (g - g_h),
    c_1 = 6 I_1 / A,   c_2 = 6 [N_A J_2 + (N_B - N_A) J_3] / A^2,

the integrals in r = B/A - 1 below. It approximates the mean of a ratio by the ratio of means, so it
is accurate if no token has much of the attention, for any T/T_max. A kernel weighs p by k(p); see
`lime_mean_field`.

**Recommendation.** Use `lime_limit`, which is exact and takes milliseconds. On random models with
spread attention (T = 99 of 256), the errors of mean field and first order are 0.3% and 2 to 25%.
On reviews (`benchmarks/papers/paper1_lime.py`), with LIME's kernel, they are 3% and a third for a
model of P1's size where 50 tokens share the attention of a head, and a half and two thirds for one
that is trained as appendix F says, where 7 tokens share it. If one token has most of the attention
of a head, all three fail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._arrays import usual_float_errors
from .._legendre import legendre_rule
from .._types import Array
from ..game.pooled_game import PooledGame
from .kernel import check_settings


class _Totals(NamedTuple):
    """Masses and masses times values of players (H, d) and totals (H,), in units that cannot
    overflow.
    """

    g: Array
    gv: Array
    g_h: Array
    gv_h: Array
    A: Array
    B: Array
    N_A: Array
    N_B: Array


@usual_float_errors
def lime_theorem_5_1(game: PooledGame) -> Array:
    """Compute Theorem 5.1 (P1 Eq. 19) **as printed**, (d,), which is wrong, to show its error.

    Its sum over u of g_h includes [UNK] in place of [CLS]; a game does not have that mass, and
    [CLS] itself is used instead, which is one of T_max terms.

    Parameters
    ----------
    game : PooledGame with a background or [UNK] in place of absent players

    Returns
    -------
    (d,) float64
        approximate coefficient of each player as the paper prints it, to compare with `lime_limit`

    Examples
    --------
    A constant model, f = 2 for every document, has nonzero coefficients:

    >>> game = PooledGame.from_scores([0.0, 1.0], [2.0, 2.0], [0.5, 0.0], [2.0, 2.0], 1.0, 2.0)
    >>> lime_theorem_5_1(game).round(3)
    array([-0.456,  0.708])
    >>> lime_first_order(game).round(12) + 0.0
    array([0., 0.])
    """
    t = _totals(game)
    alpha_v = t.gv / t.A[:, None]
    alpha_h_v_h = t.gv_h / t.B[:, None]
    return 1.5 * (alpha_v - alpha_h_v_h).sum(axis=0)


@usual_float_errors
def lime_first_order(game: PooledGame) -> Array:
    """Compute Theorem 5.1 corrected, beta_j = sum over heads of [g (v - F) - g_h (v_h - F)] / A,
    (d,).

    It is correct to first order in the document's share of the attention. It is also the derivative
    of f in the presence of j, at the document. Prefer `lime_mean_field`, and `lime_limit` to both.

    Parameters
    ----------
    game : PooledGame with a background or [UNK] in place of absent players

    Returns
    -------
    (d,) float64
        approximate coefficient of each player: the theorem with its two errors corrected

    Examples
    --------
    >>> game = PooledGame.from_scores([0.0, 0.0], [1.0, 3.0], s_background=5.0, v_background=0.0)
    >>> from attn_closed_form import lime_limit
    >>> lime_first_order(game).round(4), lime_limit(game, np.inf, num_samples=None).coef.round(4)
    (array([0.0065, 0.0198]), array([0.0067, 0.0201]))
    """
    t = _totals(game)
    A = t.A[:, None]
    F = t.N_A[:, None] / A
    present = t.gv - F * t.g
    absent = t.gv_h - F * t.g_h
    return ((present - absent) / A).sum(axis=0)


@usual_float_errors
def lime_mean_field(game: PooledGame, kernel_width: float = np.inf) -> Array:
    """Compute the (d,) mean-field form of LIME's limit, which is the theorem's integral form,
    corrected.

    With `kernel_width` inf it has a closed form. Otherwise the kernel k(p) =
    exp(-(100 (1 - sqrt(1-p)))^2 / (2 width^2)) weighs the differences between players by k p (1-p),
    and their common part is the slope of the regression of f on the share present, Cov_k(1-p, N/D)
    / (d Var_k(p)); both by Gauss-Legendre in sqrt(1-p). There is no ridge and no row for the
    document.

    Trust it if no token has more than a few percent of a head's attention; `lime_limit` has no such
    condition.

    Parameters
    ----------
    game : PooledGame with a background or [UNK] in place of absent players
    kernel_width : width of LIME's kernel; inf weights all samples equally

    Returns
    -------
    (d,) float64
        approximate coefficient of each player, by an integral; closer than the first order

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> game = PooledGame.from_scores(
    ...     rng.normal(size=99) / 2, rng.normal(size=99), 0.0, 0.5, 5.0, 0.5
    ... )
    >>> from attn_closed_form import lime_limit
    >>> exact = lime_limit(game, np.inf, num_samples=None).coef
    >>> exact[:3].round(5), lime_mean_field(game)[:3].round(5)
    (array([-7.87e-03, -3.00e-05,  2.85e-03]), array([-7.87e-03, -3.00e-05,  2.85e-03]))
    """
    kernel_width = check_settings(kernel_width, 0.0, None).kernel_width
    t = _totals(game)
    dN = t.N_B - t.N_A
    if np.isinf(kernel_width):
        I_1, J_2, J_3 = integrals_of(t.B / t.A - 1)
        c_1 = 6 * I_1 / t.A
        c_2 = 6 * (t.N_A * J_2 + dN * J_3) / t.A**2
        return _combine(t, c_1, c_2)
    # Nodes in y = sqrt(1 - p), where kernel and mean field are smooth: enough for every width from
    # 1 on.
    kernel_nodes = 80
    y, w = legendre_rule(kernel_nodes)
    p = 1 - y**2
    # k(p) dp at the nodes, as weights that add up to 1.
    distance = 100 * (1 - y)
    kernel = np.exp(-((distance / kernel_width) ** 2) / 2)
    k = 2 * y * w * kernel
    k /= k.sum()
    dD = t.B - t.A
    D = t.A[:, None] + p * dD[:, None]
    N = t.N_A[:, None] + p * dN[:, None]
    # Differences between players have the weights k p (1 - p).
    variance = p * (1 - p)
    apart = k * p * (1 - p) / (k @ variance)
    of_inverse = (1 / D) @ apart
    of_ratio = (N / D**2) @ apart
    single = _combine(t, of_inverse, of_ratio)
    # What the players have in common is the slope in the share present.
    f = (N / D).sum(axis=0)
    centered = (k @ p) - p
    slope_variance = game.d * (k @ centered**2)
    common = (k * centered) @ f / slope_variance
    return single - single.mean() + common


def _combine(t: _Totals, c_1: Array, c_2: Array) -> Array:
    """Return the sum over heads of c_1 (g v - g_h v_h) - c_2 (g - g_h)."""
    of_numerators = c_1[:, None] * (t.gv - t.gv_h)
    of_masses = c_2[:, None] * (t.g - t.g_h)
    return (of_numerators - of_masses).sum(axis=0)


def _totals(game: PooledGame) -> _Totals:
    """Return the masses and values of a game, and their sums when all are present or absent."""
    g, g_h, c_0 = game.masses
    n_0 = c_0 * game.v_background
    gv = g * game.v
    gv_h = g_h * game.v_absent
    B = c_0 + g_h.sum(axis=1)
    if not (B > 0).all():
        raise ValueError(
            "game: expected some mass when every player is absent (a background, or [UNK] in the "
            "players' place), got none; the theorem divides by it. `lime_limit` does not need it"
        )
    return _Totals(
        g=g,
        gv=gv,
        g_h=g_h,
        gv_h=gv_h,
        A=c_0 + g.sum(axis=1),
        B=B,
        N_A=n_0 + gv.sum(axis=1),
        N_B=n_0 + gv_h.sum(axis=1),
    )


def integrals_of(r: Array) -> tuple[Array, Array, Array]:
    """Integrate over p in [0, 1] for I_1, J_2, J_3: p (1-p) / (1+rp), p (1-p) / (1+rp)^2, p^2 (1-p)
    / (1+rp)^2.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        closed = _closed_integrals(r)
    # Below this |r| the closed forms cancel and the series are used.
    series_below = 0.5
    is_small = np.abs(r) <= series_below
    series = _series_integrals(np.where(is_small, r, 0.0))
    I_1, J_2, J_3 = (np.where(is_small, *both) for both in zip(series, closed, strict=True))
    return I_1, J_2, J_3


def _closed_integrals(r: Array) -> tuple[Array, Array, Array]:
    """Return the integrals in closed form, which cancels for small r."""
    log = np.log1p(r)
    square = r**2
    cube = r**3
    I_1 = (square / 2 + r - (1 + r) * log) / cube
    J_2 = ((r + 2) * log - 2 * r) / cube
    J_3 = (square + 6 * r - (4 * r + 6) * log) / (2 * r**4)
    return I_1, J_2, J_3


def _series_integrals(r: Array) -> tuple[Array, Array, Array]:
    """Return the integrals as power series in r, which converge for small r."""
    # What these terms omit is below 0.5^56, less than an ulp.
    series_terms = 56
    k = np.arange(series_terms)
    powers = (-r[..., None]) ** k
    first = (k + 2) * (k + 3)
    second = (k + 3) * (k + 4)
    I_1 = powers @ (1 / first)
    J_2 = powers @ ((k + 1) / first)
    J_3 = powers @ ((k + 1) / second)
    return I_1, J_2, J_3
