"""The tolerances of the checks, each with one name and one reason; they never share a number.

Every error is relative to the largest magnitude involved unless a check says otherwise.
"""

#: Both sides are ``fractions.Fraction``: equality means equality.
EXACT = 0.0

#: Algebraically equal, both sides in float64 with a few dozen operations of order one.
ALGEBRA = 1e-12

#: Derivatives by automatic differentiation in float64 against a closed form.
AUTODIFF = 1e-11

#: Sums of thousands of float64 terms, or an iteration that stops at rounding.
SUMMATION = 1e-9

#: A fitted exponent of a growth law over sizes that double; the next order bends the line this much
#: at the most.
EXPONENT = 0.15

#: An inequality: the error is the largest violation, and rounding may violate by this.
INEQUALITY = 1e-13

#: A leading-order statement, at a size where the next order is below 1e-4 of it.
LEADING_ORDER = 1e-3

#: Sixty-digit decimals, a few hundred operations.
EXTENDED = 1e-50
