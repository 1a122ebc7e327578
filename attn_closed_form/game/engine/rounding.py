"""Every rounding error that the proof counts, one per line.

An *ulp* is the unit roundoff of float64, 2^-53. A count states how many ulps an operation may cost,
relative to the quantity that its comment names. Each one has its derivation, its step in
`docs/what-tol-guarantees.md`, and the test that fails if it is much too small. Constants that only
trade time (tuning) are in the modules that use them.

The machine is assumed to have IEEE 754 arithmetic, functions (`exp`, `log`, ...) within 4 ulps, and
matrix products whose sums of n terms err by at most n ulps of the sum of the moduli.
"""

from __future__ import annotations

# The unit roundoff: a rounded number x is off by at most ULP |x|.
# Test: tests/game/engine/test_rounding.py::test_the_unit_roundoff.
ULP = 2.0**-53


# --- Step 2: a value of one coalition -------------------------------------------------------------

# A head's numerator and denominator are sums of d + 1 products. Each comes from two matrix
# products, over the players present and absent, so a mean has at most four times d ulps, plus 32
# for masses, products and the division: together 4 (d + 8), relative to the spread.
# Test: tests/game/engine/test_rounding.py::test_a_value_is_the_quotient_of_two_sums
# and tests/game/test_guarantee.py::test_every_family.
VALUE_PER_PLAYER = 4
# The same 32 ulps, as a number of players.
# Test: tests/game/engine/test_rounding.py::test_a_value_is_the_quotient_of_two_sums.
VALUE_FIXED_PLAYERS = 8
# The base is rounded once, and once more when the heads are added.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations.
VALUE_BASE = 2
# The product of a known value with one minus its own error, and the conversion to units of
# 2^exponent.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations.
VALUE_ITSELF = 4


# --- Step 3: masses -------------------------------------------------------------------------------

# A difference of scores below this is rounded by at most half a unit in the last place, 8 u,
# counted as 16 u; its exponential turns that into as many ulps of the mass. Larger differences are
# taken in two floats.
# Test: tests/game/engine/test_rounding_errors.py::test_a_mass_of_a_large_difference.
PLAIN_DIFFERENCE = 16.0
# A mass has those 16 ulps and 4 of `exp`; the gap between the masses of a player costs one more. A
# relative error delta of the masses changes a centered mean by 2 delta of the spread. A constructed
# mass has 9 of the 21 ulps.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/engine/test_rounding_errors.py::test_a_mass_of_a_large_difference.
MASSES = 2 * (16 + 4 + 1)
# Relative room at both ends of a range of D, for the rounding of masses and of their sum: D is a
# pairwise sum of at most 2^40 masses of 21 ulps, which is less than 100 ulps, or 1.2e-14. Generous
# by a factor of 70, which costs no node.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
RANGE_ROOM = 1e-12
# Absolute room for ln R of a tier that is computed from logarithms, d of which
# `logaddexp.accumulate` adds up one by one: 4 ulps times 2^20 players times a logarithm of 700 is
# 3.3e-7. Generous by a factor of 3.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
LOG_RANGE_ROOM = 1e-6
# The same, relative to the logarithms themselves: 32 ulps of the unit and of the sum, of which 4
# are needed. Generous by a factor of 8.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
LOG_RANGE_RELATIVE = 2.0**-48


# --- Step 7: a mean of the engine, relative to the spread of the values ---------------------------

# A factor Y of a player has 7 ulps (4 of `exp`, 2 of the mixture, one of p), its part of the
# product one, and its part of the sum in the numerator one; rounded up. Equal factors that round
# alike reach 1.2.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/engine/test_rounding_errors.py::test_equal_factors_round_alike.
FACTOR = 10.0
# Everything that does not grow with the number of players, the right column of the table of step 7:
# 42 + 40 + 8 + 2 + 30 + 20 + 15 + 5 + 235 = 397.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/engine/test_budget.py::test_the_parts_add_up.
PRECISE = 400.0
# At most this many nodes and terms are added one after the other, so a batch costs 3 * 64 + 1
# successive additions; sums of batches in pairs cost 42 more, for up to 2^42 of them. PRECISE has
# these 235 ulps.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/engine/test_laws.py::test_batches_are_small_enough_for_the_rounding_of_their_sums.
MOST_NODES = 64
# See MOST_NODES.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/engine/test_laws.py::test_batches_are_small_enough_for_the_rounding_of_their_sums.
MOST_TERMS = 128
# A density of degree n at a rounded node: 2 ulps of p cost 2 a ulps in p^a and 2 (a + 1) in (1 -
# p)^b on average, and each of two powers (4), b factors 1 - p and the products (3) are rounded: 4 a
# + b + 13, at most 4 (n + 4).
# Test: tests/game/engine/test_rounding.py::test_a_density_of_one_power.
DENSITY_PER_DEGREE = 4.0
# The last 16 of these ulps, as a number of degrees.
# Test: tests/game/engine/test_rounding.py::test_a_density_of_one_power.
DENSITY_FIXED_DEGREES = 4
# The part of a power series that is cut off, relative to the part that is kept: an eighth of an
# ulp, which is nothing beside the ulps of FACTOR.
# Test: tests/game/engine/test_rounding_errors.py::test_powers_that_a_series_leaves_out.
SERIES_REMAINDER = 2.0**-56
# q of a series is the largest of rounded products, and is rounded up by this factor. Two ulps would
# do. Generous by a factor of 4,500, which costs no power.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states
# and tests/game/engine/test_rounding_errors.py::test_q_of_a_series_is_rounded_up.
SERIES_ROOM = 1 + 1e-12
# Room for the rounding of X in the bound e^-X of a term, where X is a sum over d players: d ulps of
# X <= 10^3 for d = 10^6 are 1.1e-7. Generous by a factor of 9.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
LOG_DECAY_ROOM = 1e-6


# --- Step 8: the sum ------------------------------------------------------------------------------

# The last additions (heads' constants, the empty coalition, a difference of results), relative to
# max|f|.
# Test: tests/game/engine/test_budget.py::test_the_parts_add_up
# and tests/game/engine/test_rounding_errors.py::test_the_last_additions.
OUTPUT = 8
# Constants that are added up by the caller, relative to their sum of moduli.
# Test: tests/game/engine/test_budget.py::test_the_parts_add_up.
CONSTANTS = 8
# The same additions among the smallest numbers of float64: 8 times the smallest number, 2^-1074.
# Test: tests/game/engine/test_budget.py::test_what_is_lost_among_the_smallest_numbers.
SUBNORMAL = 8
# The smallest number of float64 is 2^LEAST_EXPONENT.
# Test: tests/game/engine/test_rounding.py::test_the_unit_roundoff.
LEAST_EXPONENT = -1074
# If another library has told the processor to turn subnormal numbers into zero, every number that
# is read or written may lose 2^-1022: values, their sums, and the parts of exact sums, up to H^2 of
# them for H heads. SUBNORMAL times 2^FLUSHED_EXPONENT is 2^25 such losses; 10^3 heads need
# 10^6. Generous by a factor of 33.
# Test: tests/test_surroundings.py::test_tiny_values_where_subnormal_numbers_are_zero
# and tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
FLUSHED_EXPONENT = -1000
# The sum over heads of their half ranges is rounded, H ulps for H heads. Generous by a factor of 9
# for 10^3 heads.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states
# and tests/game/engine/test_budget.py::test_the_spread_is_not_below_the_sum_of_the_half_ranges.
SPREAD_ROOM = 1 + 1e-12


# --- Owen values, relative to the spread ----------------------------------------------------------

# Q_g, the mean of the product of the other groups' factors, is an integral of positive terms. As a
# player in FACTOR, a group has 7 ulps in its factor (4 of `exp`, 2 of the mixture, one of p) and
# one in the product; R_g, which has one numerator in place of a factor, has the same, and its
# additions are a tree over the groups, which PRECISE covers. The exponent is a sum over members,
# whose rounding is relative to it, as for a player (int X e^-X <= 1).
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations.
OWEN_PER_GROUP = 8.0


# --- Step 10: linked games, relative to the sum of their half ranges ------------------------------

# The exponent of a factor, relative to the sum of |Q_j| of both states: v - z and its product with
# a mass one ulp each, the turn 4 of its exponential and sqrt(5) of a complex product, the gap
# between both states one, and lam times it one: 10.3, rounded up. Without the mass a constructed
# case reaches 0.7, because the turn's rounding does no harm: the weights have the same rounded
# turn.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/engine/test_rounding_errors.py::test_the_exponent_of_a_pole.
POLE_EXPONENT = 12.0
# A complex factor has 11.1 ulps of its exponential (`complex_exponential`), 3 of its mixture, 2.3
# of a complex product and 2.9 of the sum in the numerator, together less than 20, of which FACTOR
# has 10.
# Test: tests/game/engine/test_rounding.py::test_a_complex_factor_is_a_real_one_and_more
# and tests/game/engine/test_rounding_errors.py::test_a_complex_exponential.
POLE_FACTOR = 10.0
# Everything else: the 397 of PRECISE, which here are relative to sums of moduli, with 300 instead
# of 15 for the term of a player whose factor nearly cancels, 15 / LEAST_FACTOR: 682, rounded up.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations.
POLE_REST = 700.0
# No complex term is divided by a |Y| below this share of p |x| + (1 - p) |y|, because the term of
# that player, which cancels, would lose the digits of more than a factor 20.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/test_links.py::test_players_whose_factors_cancel_are_not_divided_by.
LEAST_FACTOR = 0.05
# Nor by one below this, so that the square of 1/Y, times a mass and a value, fits into float64.
# Anything from 1e-100 to 1e-145 would do: a bound of the range of numbers, not of an error, so half
# of it is harmless.
# Test: tests/game/engine/test_rounding.py::test_a_small_factor_has_a_square_in_float64.
LEAST_MODULUS = 1e-100
# Sums of moduli over the nodes of a short sum, relative to the integral: at most this, by
# `proved_moduli` of proofs_check/exponential_sums.py.
# Test: tests/game/engine/test_exponential_sums.py::test_every_bound_of_a_sector_is_proved.
POLE_MODULI = 1.1
# scale (base + value): the base, its product with scale, that of the centered value and their sum
# are rounded once each, relative to |scale base| + max|value|. A constructed case reaches 1.05.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/engine/test_rounding_errors.py::test_the_argument_of_a_link.
LINK_ARGUMENT = 4
# The function itself: 4 ulps each of an exponential, a logarithm and their arguments, relative to
# g(f); a constructed case reaches 4. The logarithm of a small probability is rounded to an ulp of
# x, up to 32 ulps of g(x), which LINK_ARGUMENT covers: it is counted at the slope 1/4, and that of
# g is g(x) there.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations and
# tests/game/engine/test_rounding_errors.py::test_a_value_of_a_link and
# tests/game/engine/test_rounding_errors.py::test_a_small_probability_has_the_rounding_of_its_logarithm. # noqa: E501
LINK_VALUE = 16
# A value of g at one argument, of the empty coalition or of a constant game: LINK_VALUE for itself,
# and for the two values between which its argument may move it.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/engine/test_rounding_errors.py::test_known_values_of_a_link.
LINK_POINT = 3 * LINK_VALUE
# The range of f is widened by this share of the values' spread: its rounding is 4 (d + 8) ulps,
# 4.4e-10 for d = 10^6. Generous by a factor of 2.25.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
LINK_RANGE_ROOM = 1e-9


# --- Sums of games (`game_sum.py`) ----------------------------------------------------------------

# A value of a part: VALUE_PER_PLAYER ulps per player of its argument. Generous by a factor of 3.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
GAME_SUM_PER_PLAYER = 3.0 * VALUE_PER_PLAYER
# One ulp per part for the sum of the parts, and 20 for the function of each (LINK_VALUE), its
# factor and the constant.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations.
GAME_SUM_FIXED_ULPS = 20


# --- Step 9: LIME ---------------------------------------------------------------------------------

# The value of the grand coalition, with which the intercept begins: `grand_means`, relative to the
# spread. Masses have 42 ulps, sums in pairs of up to 2^40 players 40, the products, the background
# and the division 4: 86, rounded up.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations.
LIME_GRAND = 100.0
# Relative to `value_factor` ("The regression" in docs/theory/rules-in-p.md). Weights of 0.7 ulps
# (`lime/kernel.py`) cost 8 * 0.7. The denominators: V has 7 (a deviation of 2 ulps, squared, two
# products, and one rounding of `fsum`), B has 4 (a product, `fsum`, a quotient and the ridge), and
# their combination for k features 5. The solution has ten operations. Together 31.6, rounded up.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations.
LIME_SUMS = 50.0
# The mean size w is wrong by 4 ulps of sum q_s |s - s_0| / (d A): a product, the two sums of `fsum`
# and the quotient. It enters `shared` and, by the share of the absent, the intercept: twice that,
# rounded up.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/lime/test_bounds.py::test_the_rounding_of_the_mean_size.
LIME_MEAN_SIZE = 10.0
# A moment of a rule in p, computed in integers, relative to the sums of the weights of the rule and
# of the kernel: 2^-90 (n (n+1) + 2) for n <= 600 from truncated nodes and P_n, 2^-71.5, and less
# than 2^-90 from q and Q_n ("Integers" in docs/theory/rules-in-p.md). Generous by a factor of 2.9.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states
# and tests/lime/test_rules.py::test_moments_in_exact_arithmetic.
LIME_MOMENT = 2.0**-70
# Rounding is relative to sums of moduli, so weights of both signs count as this times the sums over
# sizes: rules with larger sums (`moduli_are_counted` in `lime/rules.py`) are not used. Any value is
# safe: a larger one takes more rules and counts for more in the budget.
# Test: tests/lime/test_rules.py::test_rules_whose_weights_cancel_are_never_chosen
# and tests/lime/test_rule_bounds.py::test_weights_of_both_signs_count_in_the_rounding.
LIME_MIXED_SIGNS = 1.25
# A distant value of the empty coalition, relative to it: 64 ulps, of which CONSTANTS counts 8 at a
# time.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations.
LIME_EMPTY = 8


# --- Certified bounds and reasons (`game/extrema.py`) ---------------------------------------------

# An exponential of a difference of log-masses, which is at most 745 or the result is 0: one
# rounding of the difference is 745 ulps of the result, `exp` itself has 4, and the product with a
# value one. `relative_error` counts twice that. A constructed case has 512 of the 750 ulps.
# Test: tests/game/engine/test_rounding.py::test_a_constant_is_its_count_of_operations
# and tests/game/test_extrema.py::test_the_error_of_a_term_in_ball_arithmetic.
EXTREMUM_EXPONENTIAL = 750
# The sum of the moduli, by which the error of the sum is bounded, and the product with it are
# rounded, too. Generous by a factor of 2, because `relative_error` counts every ulp twice already.
# Test: tests/game/test_extrema.py::test_the_relative_error_has_its_parts
# and tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
EXTREMUM_SUM = 2
# Terms that underflow, relative to the largest |v - theta| (the largest mass is 1): each of d + 1
# masses, and each product, loses at most 2^-1022, 4.5e-299 for d = 10^9. Generous by a factor of
# 220,000,000, because every margin is at least this.
# Test: tests/game/test_extrema.py::test_what_underflows_is_counted
# and tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
EXTREMUM_LOST = 1e-290
# If rounding exchanges two players in the order of their gains, the sum of terms is off by at most
# the difference of their gains, which is at most the sum of both errors, each counted once with
# both signs.
# Test: tests/game/test_extrema.py::test_exchanged_players_are_counted.
EXTREMUM_SLIP = 2.0
# A value of the game is a sum over players as above; the bias is added and the result rounded: two
# ulps. Generous by a factor of 2.
# Test: tests/reasons/test_heads.py::test_the_error_of_a_value_covers_its_rounding
# and tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
VALUE_BIAS = 4
# H + 2 additions of the heads' bounds and the bias, each of an ulp of the sum of the moduli.
# Generous
# by a factor of 2. A constructed case loses a third of it.
# Test: tests/reasons/test_heads.py::test_the_sum_of_the_heads_is_rounded_down
# and tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
HEADS_SUM = 2
# H + 4 operations between the bounds, the bias, the goal and this slack itself, each of an ulp.
# Generous by a factor of 2.
# Test: tests/reasons/test_heads.py::test_no_goal_above_the_sum_of_the_heads_is_proved
# and tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
JOINT_GOAL = 2
# theta_h, rho_h and their sums: fewer than 16 operations, each of an ulp of sum |theta_h| +
# |bound_h|; it is taken from rho, added to `highest`, and asked of the result. Generous by a factor
# of 2.
# Test: tests/reasons/test_heads.py::test_the_ranges_of_the_ratios_are_not_too_narrow
# and tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
JOINT_RATIOS = 32
# A term of the dual has a mass times mu times a difference, or a quotient by U: eight more
# roundings. Its sums over both states are at least as large as the sum that they bound. Plain
# masses are within e^300, so their exponentials have 256 ulps instead of 745. Generous by a factor
# of 22.4: `relative_error` makes it 4 * 2 * 750 for 256 + 4 + 8.
# Test: tests/game/engine/test_rounding.py::test_a_generous_constant_has_the_factor_that_it_states.
DUAL_SUM = 4
