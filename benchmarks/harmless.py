"""Why a change to the mathematics that no test notices does no harm: one reason per (file, function, change).

The keys are those that `python -m benchmarks.mutants` prints; a key may leave out what stands after the arrow, where
every such change is harmless. A survivor without a reason here is a missing test.
"""

from __future__ import annotations

from collections.abc import Mapping

Key = tuple[str, str, str]

#: Why no answer becomes wrong -> (file below attn_closed_form, function, change).
REASONS: Mapping[str, list[Key]] = {
    "The number of elements or rows that are worked on at once: memory and time, not the sums.": [
        ("game/engine.py", "parts", "r * m * d <= BATCH_ELEMENTS"),
        ("game/node_counts.py", "", "BATCH_COST = 30000"),
        ("game/pooled_game.py", "", "1 << 20"),
        ("models/classifier/predict.py", "", "1 << 18"),
        ("lime/moments.py", "_warn", "1 << 16"),
    ],
    (
        "Adds the same constant to all gaps that are above what the head always holds; tiers and ranges are "
        "differences of them."
    ): [
        ("game/heads.py", "_tiers", "np.log(-np.expm1(s_lo - s_hi)) -> np.log1p(-np.expm1(s_lo - s_hi))"),
    ],
    (
        "Players without a gap are left out by the test for finite numbers two lines below, whichever "
        "infinity they have."
    ): [
        ("game/heads.py", "_tiers", "-np.inf -> np.inf"),
    ],
    "A little more room for rounding in the range of 1/D: the rule covers more than it must.": [
        ("game/heads.py", "pieces_of", "3 * ROOM -> 4 * ROOM"),
    ],
    "One node more than needed.": [
        (
            "game/node_counts.py",
            "gauss_count",
            "max(1, math.ceil(needed.min(axis=-1).max())) -> max(2, math.ceil(needed.min(axis=-1).max()))",
        ),
    ],
    "A head without any mass has 0/0 whatever its unit is; `empty_value` takes its place.": [
        ("game/pooled_game.py", "PooledGame._value_block", "top[np.isneginf(top)] = 0.0"),
    ],
    "How long a descent looks for a small value that is attained; what is proved does not depend on it.": [
        ("reasons/bounds.py", "", "DESCENT_STEPS = 50"),
        ("reasons/bounds.py", "_steps", ":8"),
    ],
    "Makes a whole coalition of a fractional one, as a candidate; the bound is that of the fractional one.": [
        ("reasons/head_minima.py", "head_minima", "share > 0.5"),
    ],
    "Where there is no mass at all the value is set to infinity and the margin to zero afterwards.": [
        ("reasons/head_minima.py", "_Masses.pool", "np.where(empty, 0.0, top)"),
        ("reasons/head_minima.py", "_Masses.pool", "np.where(empty, 1.0, mass)"),
    ],
    "The bisection may also try the empty set, which the caller has tried before.": [
        (
            "reasons/search.py",
            "Search.first",
            (
                "(0, int(np.searchsorted(np.cumsum(self.cost[order]), below))) -> (-1, "
                "int(np.searchsorted(np.cumsum(self.cost[order]), below)))"
            ),
        ),
    ],
    "A short way: `proved_above` below proves the same from the same bounds of the heads.": [
        ("reasons/sufficient.py", "SufficientSearch.suffices", "return True -> return False"),
    ],
    "Where the bound equals the price nothing cheaper exists, so that pruning finds nothing.": [
        (
            "reasons/sufficient.py",
            "SufficientSearch.sufficient",
            "lower < self.price(best) -> lower <= self.price(best)",
        ),
    ],
    "log(1 + x) is above log x: the constant of the rule becomes larger, and with it the number of nodes.": [
        ("game/semivalues.py", "", "np.log(4 / -np.expm1(-THETA)) -> np.log1p(4 / -np.expm1(-THETA))"),
    ],
    "Where the exact way for a dominating player begins; around this mass both ways have all of their digits.": [
        ("game/shapley.py", "", "LEAST_MASS = 1e-200"),
    ],
    "How many panels are tried before the tolerance is refused; no result changes.": [
        ("models/classifier/integrated_gradients.py", "", "MAX_PANELS = 4096"),
    ],
    "More bits than needed in whole-number arithmetic.": [
        ("lime/hahn.py", "", "(160, 160) -> (320, 160)"),
    ],
    "With equal factors both branches give the same budget.": [
        ("lime/moments.py", "_rule_budget", "sums > values -> sums >= values"),
    ],
    "The size of the pilot run of an estimate; a smaller one estimates the same number, less precisely.": [
        ("lime/sampled.py", "", "PILOT_SAMPLES = 4000"),
    ],
    "Which numbers of nodes are tried; every rule is accepted by its own bound of the error.": [
        ("lime/tilted_rule.py", "", "(0, 2, 5, 9, 14)"),
        ("lime/tilted_rule.py", "_rules", "2 * first + 4"),
    ],
    "Below which a cost counts as rounding; twice as much is rounding too.": [
        ("slalom/least_squares.py", "", "ROUNDING = 1e-31"),
    ],
    "The scale of the columns: the Schur complement is the same for every positive one, but for rounding.": [
        ("slalom/least_squares.py", "_schur", "np.sqrt(samples.columns(alpha * alpha, ones))"),
    ],
    (
        "The scale of the columns: the solution is the same for every positive one, but for the 1e-13 that keeps the "
        "system solvable, which becomes smaller, because the diagonal is at most 1."
    ): [
        ("slalom/samples.py", "values_from", "np.sqrt(np.diag(H)) -> np.diag(H)"),
    ],
    "One of two proved bounds is taken alone where a mixture of both would do; what comes out is proved, too.": [
        ("reasons/joint_bounds.py", "_least_sum", "L > 0 -> L > 1"),
    ],
    "Differs only in a start, where an entry of a solved system is within 1e-12 of zero, relative to the largest.": [
        ("slalom/polish.py", "linear_start", "a.max() -> a.min() (#2)"),
    ],
    "Differs only where a share is the limit itself to the last bit.": [
        ("slalom/least_squares.py", "undetermined", "share > UNDETERMINED -> share >= UNDETERMINED"),
    ],
    "A long product is taken at once instead of by halves, which are faster; the factors are the same.": [
        ("game/arithmetic.py", "product", "-1 -> -0 (#3)"),
    ],
    "Room for the rounding of a sum, of which a thousandth would be enough.": [
        ("game/node_counts.py", "", "2 + 1e-06 -> 2 + 5e-07"),
    ],
    "The tuple of indices of an array with one axis has one entry: its first is its last.": [
        (
            "game/node_counts.py",
            "batches",
            ("((levels == m) & (counts > 0)).nonzero()[0] -> ((levels == m) & (counts > 0)).nonzero()[-1]"),
        ),
    ],
    "The array has one column: its first is its last.": [
        ("slalom/polish.py", "_joint_step", "(:, 0) -> (:, -1)"),
    ],
    (
        "A rule of thumb for the path of penalties; the penalty is chosen by the error on held-out samples "
        "all the same."
    ): [
        ("slalom/solvers.py", "", "BELIEVABLE = 5.0"),
    ],
    "The bound is cut at the price of the set, which is zero.": [
        (
            "reasons/sufficient.py",
            "SufficientSearch.sufficient",
            "Cheapest(nobody, self.guaranteed(nobody), 0.0) -> Cheapest(nobody, self.guaranteed(nobody), 1.0)",
        ),
    ],
    (
        "Lets go at once of all masses that would become negative; the outer loop takes back those that are "
        "needed, and its test of optimality is the same."
    ): [
        ("slalom/paper_solvers.py", "simplex_least_squares", "low & (x[at] <= 1e-15) -> low | (x[at] <= 1e-15)"),
    ],
}
HARMLESS: Mapping[Key, str] = {key: reason for reason, keys in REASONS.items() for key in keys}


def reason(file: str, function: str, change: str) -> str:
    """The reason why a change is harmless; empty when there is none."""
    for text in (change, change.split(" -> ")[0]):
        if (file, function, text) in HARMLESS:
            return HARMLESS[file, function, text]
    return ""
