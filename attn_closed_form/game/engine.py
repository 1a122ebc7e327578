"""Mean values of a pooled game when every player is present with probability p, independently: exact, in O(L m d).

This is the engine behind Shapley values, Banzhaf values, interactions and the limit of LIME. In a head (see `game.py`)
let each player have a light state (mass lo) and a heavy one (mass hi), q the probability of the heavy one, and

    E = e^(-lam (hi - lo)),   Y = (1 - q) + q E,   sigma = 1/Y (light),  tau = E/Y (heavy),   V = mass times value.

With 1/D = sum_l w_l e^(-lam_l D) (`quadrature.py`), P = w e^(-lam D_0) prod_k Y_k, and D_0 the mass always there,

    num       = n_0 + sum_k [ (1 - q_k) V_lo sigma + q_k V_hi tau ]
    E_p[f]    = sum_l P num
    Delta_j   = E_p[f | j light] - E_p[f | j heavy] = sum_l P [ (sigma - tau) num + (V_lo - V_hi) sigma tau ]
    I_ij      = second difference in i, j = sum_l P [ num X_i X_j + X_i Z_j + Z_i X_j ],
                X = sigma - tau,  Z = (V_lo - V_hi) sigma tau.

No term cancels another that is much larger: sigma, tau, Y are sums of positive numbers, and X = -expm1(..) sigma.
Values are centred in each head first, so a constant head contributes exactly zero.

**How many nodes in p.** For complex p on the Bernstein ellipse with parameter e^theta, c = cosh(theta), and
g_k = 1 - E_k, |Y_k|^2 = 1 - 2 Re(q) g + |q|^2 g^2, hence log|prod Y| <= sum_k (-Re(q) g_k + |q|^2 g_k^2 / 2), which is
convex in the real part of p and so largest at the two ends of the ellipse, where q is (1 + c)/2 or (1 - c)/2.
Leaving out a player costs at most a factor e^(1/2). With that, and |V| <= B mass (B: half the range of the values),

    |Delta_j(p)|, |I_ij(p)| <= e^(3/2) B sum_l w e^(-lam D_0) e^(T_l) [ c_0 + (c + 3)/2 sum_k (lo_k + hi_k E_k) ],

with T_l <= d log((1 + c)/2) too, since |Y| = |(1 - g) + g (1 - q)| <= (1 + c)/2. The same M bounds |E_p[f]|, where one
player at most is left out and q, 1 - q are at most (1 + c)/2; and E_p[f 1{j present}] = p E_p[f | j present], where two
are, is at most e^(-1/2) (1 + c)/2 M. The bound costs one pass over arrays that are there anyway; `legendre_count` makes
it a number of nodes that follows the game: about 2.5 sqrt(d) for deletions, ten or so where a background holds much of
the mass, never above ceil(d/2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._types import Array
from .pooled_game import LOG_RANGE_PLAIN, PooledGame
from .quadrature import EPS_MIN, ToleranceError, lambda_rule, legendre_count

# Elements of one working array: about what a core's second-level cache holds.
CHUNK_ELEMENTS = 1 << 16
# Ellipses that are tried for the node count, and the growth rates at their ends (see `log_bound`).
THETA = np.geomspace(0.02, 3.2, 16)
COSH = np.cosh(THETA)
OUTSIDE = (COSH - 1) / 2, (COSH - 1) ** 2 / 8
INSIDE = -(COSH + 1) / 2, (COSH + 1) ** 2 / 8
LARGEST = np.log((COSH + 1) / 2)
# At an end of the ellipse one group of players has q = (1 - c)/2 and the other q = (1 + c)/2.
LEFT_END = np.stack([OUTSIDE[0], INSIDE[0], OUTSIDE[1], INSIDE[1]])
RIGHT_END = np.stack([INSIDE[0], OUTSIDE[0], INSIDE[1], OUTSIDE[1]])
TINY = np.finfo(float).tiny
# Rounding of a product of d factors, each good to some ulps, grows like sqrt(d) (Higham and Mary, 2019: with
# probability near one); measured at d = 10,000: under a tenth of this.
ROUNDING = 1e-15
PRODUCT_AT_ONCE = 200


class Head(NamedTuple):
    """One head of a game, centred and scaled so that the smallest possible mass is 1; all logs, arrays (d,)."""

    log_lo: Array
    log_hi: Array
    log_gap: Array  # log(hi - lo)
    v_lo: Array
    v_hi: Array
    present_is_light: NDArray[np.bool_]
    log_c0: float  # background mass
    v_c0: float
    always: float  # 1.0, or 0.0 when the empty coalition has no mass
    log_range: float
    half_range: float  # B: largest |value|


class Accuracy(NamedTuple):
    """What `tol` asks of the two rules; `scale` is a lower bound of max|f| that `tol` refers to."""

    eps: float
    p_error: float
    scale: float


def heads(game: PooledGame) -> list[Head]:
    """The heads of `game` whose values vary; a constant head has no influence on any difference."""
    least, most = _value_range(game)
    middle, half_range = (least + most) / 2, (most - least) / 2
    s, s_absent, log_c0 = game.s, game.s_absent, game.s_background
    light = s < s_absent
    log_lo, log_hi = np.minimum(s, s_absent), np.maximum(s, s_absent)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_gap = log_hi + np.where(np.isneginf(log_lo), 0.0, np.log(-np.expm1(log_lo - log_hi)))
    v = game.v - middle[:, None]
    v_absent = np.where(np.isneginf(s_absent), 0.0, game.v_absent - middle[:, None])
    v_c0 = np.where(np.isneginf(log_c0), 0.0, game.v_background - middle)
    # The unit of mass: the least that any coalition but an empty one can have.
    unit = s.min(axis=1) if game.can_be_empty else _log_sum(log_lo, log_c0)
    log_range = np.maximum(0.0, _log_sum(log_hi, log_c0) - unit)
    log_lo, log_hi, log_gap = log_lo - unit[:, None], log_hi - unit[:, None], log_gap - unit[:, None]
    v_lo, v_hi = np.where(light, v, v_absent), np.where(light, v_absent, v)
    return [
        Head(
            log_lo=log_lo[h],
            log_hi=log_hi[h],
            log_gap=log_gap[h],
            v_lo=v_lo[h],
            v_hi=v_hi[h],
            present_is_light=light[h],
            log_c0=float(log_c0[h] - unit[h]),
            v_c0=float(v_c0[h]),
            always=0.0 if game.can_be_empty else 1.0,
            log_range=float(log_range[h]),
            half_range=float(half_range[h]),
        )
        for h in range(game.H)
        if half_range[h] > 0
    ]


def centre(game: PooledGame) -> Array:
    """(H,) midpoints of the values that each head can take, which `heads` subtracts."""
    least, most = _value_range(game)
    return (least + most) / 2


def half_ranges(game: PooledGame) -> Array:
    """(H,) the most that a head's value can lie off its `centre`."""
    least, most = _value_range(game)
    return (most - least) / 2


def _value_range(game: PooledGame) -> tuple[Array, Array]:
    """Smallest and largest value with any mass, a head."""
    absent = ~np.isneginf(game.s_absent)
    background = ~np.isneginf(game.s_background)
    least = np.minimum(game.v.min(axis=1), np.where(absent, game.v_absent, np.inf).min(axis=1))
    most = np.maximum(game.v.max(axis=1), np.where(absent, game.v_absent, -np.inf).max(axis=1))
    least = np.where(background, np.minimum(least, game.v_background), least)
    most = np.where(background, np.maximum(most, game.v_background), most)
    return least, most


def _log_sum(log_masses: Array, log_more: Array) -> Array:
    """Log of the total mass a head: (H, d) players and (H,) background, of which one at least is not -inf."""
    top = np.maximum(log_masses.max(axis=1), log_more)
    return top + np.log(np.exp(log_masses - top[:, None]).sum(axis=1) + np.exp(log_more - top))


def accuracy(game: PooledGame, tol: float) -> Accuracy:
    """What the two rules must keep for |error| <= tol * max|f|, half of it each; raises if float64 cannot.

    max|f| itself is not known; the largest of |f| over a few telling coalitions is a lower bound of it.
    """
    if not (np.isfinite(tol) and tol > 0):
        raise ValueError(f"tol: expected a positive number, got {tol}")
    scale = float(np.abs(game.value(_probes(game))).max())
    least, most = _value_range(game)
    spread = float((most - least).sum()) / 2
    if spread == 0:
        return Accuracy(0.01, 1.0, scale)
    eps = min(0.01, tol * scale / (4 * spread))
    rounding = ROUNDING * np.sqrt(game.d)
    if eps < EPS_MIN + rounding:
        best = 4 * spread * (EPS_MIN + rounding) / scale if scale else np.inf
        raise ToleranceError(
            f"tol: {tol:g} cannot be guaranteed for this game in float64 (its values spread over {2 * spread:g}, "
            f"max|f| is about {scale:g}); the smallest possible tol is {best:.1e}"
        )
    return Accuracy(eps - rounding, tol * scale / 2, scale)


def _probes(game: PooledGame) -> NDArray[np.bool_]:
    """(7, d) coalitions where |f| is likely large: all, none, and those with the highest and lowest values."""
    rank = np.argsort(np.argsort(game.v.sum(axis=0)))
    half = game.d // 2
    nobody = np.zeros(game.d, dtype=bool)
    return np.stack([~nobody, nobody, rank < 1, rank < half, rank >= half, rank == game.d - 1, rank % 2 == 0])


class Block(NamedTuple):
    """Arrays of one head over some nodes lam (l of them): what does not depend on p."""

    wt: Array  # (l,) weight times e^(-lam D_0)
    E: Array  # (l, d)
    G: Array  # (l, d) 1 - E
    V_lo: Array  # (d,) or (l, d)
    V_hi: Array
    n0: Array  # () or (l,)
    c0: Array  # () or (l,)
    players: Array  # (l,) sum_k (lo + hi E)


def blocks(head: Head, eps: float, chunk: int = CHUNK_ELEMENTS) -> Iterator[Block]:
    """The head's lambda rule, in pieces of at most `chunk` elements."""
    log_lam, log_w = lambda_rule(head.log_range, eps)
    d = head.log_lo.size
    rows = max(1, chunk // d)
    for start in range(0, log_lam.size, rows):
        ll, lw = log_lam[start : start + rows], log_w[start : start + rows]
        lam = np.exp(ll)
        decay = np.exp(-lam * head.always)
        if head.log_range < LOG_RANGE_PLAIN:
            exponent = np.multiply.outer(lam, -np.exp(head.log_gap))
            lo, hi, c0 = np.exp(head.log_lo), np.exp(head.log_hi), np.exp(head.log_c0)
            wt = np.exp(lw) * decay
        else:  # masses leave float64: multiply the weights in before leaving the log domain
            with np.errstate(over="ignore"):
                exponent = -np.exp(np.add.outer(ll, head.log_gap))
            # Where w times a mass overflows, its e^(-lam mass) is zero: any large number serves.
            lo, hi, c0 = (
                np.exp(np.minimum(np.add.outer(lw, log_mass), 700.0))
                for log_mass in (head.log_lo, head.log_hi, head.log_c0)
            )
            wt = decay
        # Both, since E needs its digits where it is tiny and 1 - E where it is near 1.
        E = np.exp(exponent)
        G = -np.expm1(exponent)
        if head.log_range >= LOG_RANGE_PLAIN:
            hi = np.where(E == 0, 0.0, hi)
        yield Block(
            wt=wt,
            E=E,
            G=G,
            V_lo=lo * head.v_lo,
            V_hi=hi * head.v_hi,
            n0=np.asarray(c0 * head.v_c0),
            c0=np.asarray(c0),
            players=lo.sum(axis=-1) + (E @ hi if hi.ndim == 1 else (hi * E).sum(axis=-1)),
        )


def log_bound(head: Head, pieces: Iterable[Block]) -> Array:
    """Log of the bound M on |Delta_j(p)| and |I_ij(p)| for the ellipses THETA (module's head)."""
    light = head.present_is_light.astype(float)
    groups = np.stack([light, 1 - light], axis=1)
    logs = []
    for piece in pieces:
        sums = np.concatenate([piece.G @ groups, piece.G**2 @ groups], axis=1)
        growth = np.maximum(sums @ LEFT_END, sums @ RIGHT_END)
        growth = np.minimum(growth, head.log_lo.size * LARGEST)
        mass = piece.c0[..., None] + (COSH + 3) / 2 * piece.players[:, None]
        logs.append(growth + np.log(np.maximum(piece.wt[:, None] * mass, TINY)))
    table = np.concatenate(logs)
    top = table.max(axis=0)
    return top + np.log(np.exp(table - top).sum(axis=0)) + 1.5 + np.log(head.half_range)


class Flip(NamedTuple):
    """Everything at some nodes p and lam, unsigned (light minus heavy).

    P, num (m, l); X, Z (m, l, d). Z lacks the factor `dV` (d,), which is 1 where it was needed before.
    """

    P: Array
    num: Array
    X: Array
    Z: Array
    dV: Array


def flip(head: Head, block: Block, p: Array) -> Flip:
    """Evaluate the module's formulas at the nodes p, each the probability that a player is present."""
    light = head.present_is_light
    q = np.where(light, 1 - p[:, None], p[:, None])[:, None, :]
    r = 1 - q
    Y = block.E * q
    Y += r
    P = block.wt * _product(Y)
    sigma = np.divide(1.0, Y, out=Y)
    tau = block.E * sigma
    num = block.n0 + _contract(sigma, r * block.V_lo) + _contract(tau, q * block.V_hi)
    tau *= sigma
    sigma *= block.G
    dV = block.V_lo - block.V_hi
    if dV.ndim == 2:
        tau *= dV
        dV = np.ones(light.size)
    return Flip(P, num, sigma, tau, dV)


def _contract(x: Array, y: Array) -> Array:
    """Sum over players: (m, l, d) with (m, 1 or l, d) -> (m, l)."""
    if y.shape[1] == 1:
        return np.matmul(x, y.transpose(0, 2, 1))[:, :, 0]
    return np.einsum("mld,mld->ml", x, y)


def _product(Y: Array) -> Array:
    """Product over the last axis; long ones are halved first, which vectorises."""
    while Y.shape[-1] > PRODUCT_AT_ONCE:
        half = Y.shape[-1] // 2
        shorter = Y[..., :half] * Y[..., half : 2 * half]
        if Y.shape[-1] % 2:
            shorter[..., 0] *= Y[..., -1]
        Y = shorter
    return np.multiply.reduce(Y, axis=-1)


# A rule in p: from a number of nodes to nodes p and any number of weights for E_p[f] and for Delta_j, (rows, m) each.
Rule = Callable[[int], tuple[Array, Array, Array]]
# From `log_bound` and an allowed error to a number of nodes; or that number itself, which saves the bound.
Count = Callable[[Array, float], int] | int


def integrate(game: PooledGame, rule: Rule, count: Count, goal: Accuracy) -> tuple[Array, Array]:
    """Weighted sums over p of E_p[f] - centre and of Delta_j(p), summed over heads.

    Parameters
    ----------
    game : PooledGame
    rule : from a node count to nodes and weights
    count : how many nodes
    goal : from `accuracy`

    Returns
    -------
    (rows_E,), (rows_Delta, d)
    """
    _, w_E, w_D = rule(1)
    mean, delta = np.zeros(len(w_E)), np.zeros((len(w_D), game.d))
    for head, m, pieces in plan(game, goal, count):
        p, w_E, w_D = rule(m)
        total = np.zeros_like(delta)
        for piece, part in parts(pieces, m):
            at = flip(head, piece, p[part])
            Pn = at.P * at.num
            mean += w_E[:, part] @ Pn.sum(axis=1)
            change = np.matmul(at.P[:, None, :], at.Z)[:, 0] * at.dV
            change += np.matmul(Pn[:, None, :], at.X)[:, 0]
            total += w_D[:, part] @ change
        delta += np.where(head.present_is_light, total, -total)
    return mean, delta


def plan(game: PooledGame, goal: Accuracy, count: Count) -> Iterator[tuple[Head, int, Iterable[Block]]]:
    """Each head with its number of nodes in p and its blocks."""
    active = heads(game)
    share = sum(head.half_range for head in active)
    for head in active:
        # Keep the blocks between the bound and the sum where they are small, make them twice where they are not.
        small = (60 + 5 * head.log_range) * game.d < 1_000_000
        pieces = list(blocks(head, goal.eps)) if small else _Blocks(head, goal.eps)
        allowed = goal.p_error * head.half_range / share
        yield head, count if isinstance(count, int) else count(log_bound(head, pieces), allowed), pieces


@dataclass(frozen=True)
class _Blocks:
    """Blocks made anew at each pass, so that memory stays at one of them."""

    head: Head
    eps: float

    def __iter__(self) -> Iterator[Block]:
        return blocks(self.head, self.eps)


def parts(pieces: Iterable[Block], m: int) -> Iterator[tuple[Block, slice]]:
    """Each block with slices of the m nodes in p that keep a working array small."""
    for piece in pieces:
        step = max(1, CHUNK_ELEMENTS // piece.E.size)
        for start in range(0, m, step):
            yield piece, slice(start, start + step)


def legendre_nodes(d: int) -> Callable[[Array, float], int]:
    """Node count of Gauss-Legendre for degree d - 1: the bound's, or ceil(d/2), which is exact."""
    return lambda bound, allowed: min((d + 1) // 2, legendre_count(bound, THETA, allowed))
