"""The registry: one entry per statement, with its location, its check and the recorded verdict.

A check is a function ``check(perturb=0.0) -> Outcome`` under the decorator :func:`statement`.
``perturb`` is multiplied into the formula under test (its leading constant times ``1 + perturb``):
a check that still passes with ``perturb=0.01`` does not test its formula, and
``tests/proofs_check/test_proofs.py`` demands of every check that it fails then.

The verdict on record is reproduced if

- "holds": ``error <= tolerance``, the error being that of the printed statement;
- "holds if corrected": ``error <= tolerance < printed_error``: the corrected form passes, the
  printed form fails;
- "not machine-checkable": there is nothing to run, the entry carries the reason.

A NaN error is a failure. The order of the table is the order of registration, P1 first, our own
last.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

HOLDS = "holds"
CORRECTED = "holds if corrected"
NOT_CHECKABLE = "not machine-checkable"
VERDICTS = (HOLDS, CORRECTED, NOT_CHECKABLE)

MISPRINT = "misprint"
SLIP = "slip without consequence"
CONDITION = "wrong constant or missing condition"
WRONG = "wrong as stated"
#: The kinds of corrections, from the most harmless to the one that says something else, with what
#: each means.
KINDS = {
    MISPRINT: (
        "the intended form is clear, and often correct elsewhere in the paper or in the authors' "
        "code"
    ),
    SLIP: "a step is wrong, but no conclusion of the paper depends on it",
    CONDITION: (
        "the statement holds with another constant, sign or weight, or under a condition that is "
        "not stated"
    ),
    WRONG: "the statement fails, and the correct statement has a different meaning",
}

METHODS = (
    "exact rational enumeration",
    "extended precision",
    "autodiff",
    "sampling",
    "growth rate",
    "exact value at one large size",
    "algebra",
    "none",
)
PAPERS = {
    "P1": "Lopardo, Precioso, Garreau: Attention Meets Post-hoc Interpretability (ICML 2024)",
    "P2": "Leemann et al.: Attention Mechanisms Don't Learn Additive Models (2025)",
}
#: Statements that the library itself rests on, beside those of the papers.
OURS = "ours"
SOURCES = {
    **PAPERS,
    OURS: "attn-closed-form: semivalues, Owen values, interactions and reasons of pooled games",
}
MODULES = ("proofs_check.lopardo2024", "proofs_check.leemann2025", "proofs_check.pooled_games")


#: How the kinds of statements are named in full, and the other ways to write them.
SHORT_FORMS = {
    "theorem": "theorems?|thms?|th",
    "proposition": "propositions?|props?",
    "corollary": "corollary|corollaries|cors?",
    "lemma": "lemmas?|lem",
    "equation": "equations?|eqns?|eqs?",
    "figure": "figures?|figs?",
    "section": "sections?|secs?",
    "appendix": "appendix|appendices|apps?",
    "table": "tables?|tabs?|tbl",
    "algorithm": "algorithms?|algs?",
}


@dataclass(frozen=True)
class Outcome:
    """What a check found.

    Attributes
    ----------
    error : float
        Largest error of the statement that is claimed right: the printed one if it holds, else the
        corrected one.
    tolerance : float
        `error` must not exceed it.
    printed_error : float or None
        Error of the printed form, measured like `error`; must exceed `tolerance` for a corrected
        statement.
    counterexample : str
        Numbers that a reader can put into a calculator; required for a corrected statement.
    detail : str
        More for ``--verbose``.
    """

    error: float
    tolerance: float
    printed_error: float | None = None
    counterexample: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Statement:
    """One entry of the registry; see :func:`statement` for the fields."""

    paper: str
    ref: str
    claim: str
    assumptions: str
    method: str
    verdict: str
    check: Callable[[float], Outcome] = field(repr=False, compare=False)
    printed: str = ""
    corrected: str = ""
    consequence: str = ""
    reason: str = ""
    kind: str = ""
    changes: str = ""

    @property
    def key(self) -> str:
        """Paper and place, e.g. ``"P1 Theorem 5.1"``; unique."""
        return f"{self.paper} {self.ref}"


@dataclass(frozen=True)
class Result:
    """A statement that was run."""

    statement: Statement
    verdict_reproduced: bool
    seconds: float
    outcome: Outcome | None
    failure: str = ""


_REGISTRY: dict[str, Statement] = {}


def statement(
    *,
    paper: str,
    ref: str,
    claim: str,
    assumptions: str = "",
    method: str,
    verdict: str = HOLDS,
    printed: str = "",
    corrected: str = "",
    consequence: str = "",
    reason: str = "",
    kind: str = "",
    changes: str = "",
) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Register the decorated check.

    Parameters
    ----------
    paper : {"P1", "P2", "ours"}
    ref : str
        Where it stands, in the paper's own numbering; unique within the paper.
    claim : str
        The statement in one line.
    assumptions : str
        What it presupposes.
    method : str
        One of :data:`METHODS`.
    verdict : str
        One of :data:`VERDICTS`.
    printed, corrected, consequence : str
        The text of the erratum; required for "holds if corrected".
    reason : str
        Why there is nothing to run; required for "not machine-checkable".
    kind : str
        One of :data:`KINDS`; required for "holds if corrected", and for nothing else.
    changes : str
        The result of the paper that changes with the correction, in one or two sentences; empty if
        none does.
    """
    if paper not in SOURCES:
        raise ValueError(f"paper must be one of {sorted(SOURCES)}, got {paper!r}")
    if method not in METHODS:
        raise ValueError(f"method of {paper} {ref} must be one of {METHODS}, got {method!r}")
    if verdict not in VERDICTS:
        raise ValueError(f"verdict of {paper} {ref} must be one of {VERDICTS}, got {verdict!r}")
    if verdict == CORRECTED and not (printed and corrected and consequence):
        raise ValueError(
            f"{paper} {ref} is corrected: it needs printed=, corrected= and consequence="
        )
    if (verdict == CORRECTED) != (kind in KINDS) or (kind and kind not in KINDS):
        raise ValueError(
            f"kind of {paper} {ref} must be one of {tuple(KINDS)} if it is corrected, got {kind!r}"
        )
    if verdict == NOT_CHECKABLE and not reason:
        raise ValueError(f"{paper} {ref} is not machine-checkable: it needs reason=")

    def register(check: Callable[..., Outcome]) -> Callable[..., Outcome]:
        entry = Statement(
            paper,
            ref,
            claim,
            assumptions,
            method,
            verdict,
            check,
            printed=printed,
            corrected=corrected,
            consequence=consequence,
            reason=reason,
            kind=kind,
            changes=changes,
        )
        known = _REGISTRY.get(entry.key)
        if known is not None and known.check.__qualname__ != check.__qualname__:
            raise ValueError(
                f"{entry.key} is registered twice: {known.check.__qualname__} and "
                f"{check.__qualname__}"
            )
        _REGISTRY[entry.key] = entry
        return check

    return register


def statements(paper: str | None = None, only: str | None = None) -> list[Statement]:
    """All entries in the order of the papers; `only` keeps those whose key contains it as whole
    words.

    "Eq. 1" finds Eq. 1 and not Eq. 13, "Theorem 5.1" finds the theorem and its parts; if no key has
    the whole words, any key that contains the text will do. Case does not matter, nor does the way
    in which a word is shortened: "Thm 5.1", "Proposition 4.1" and "Figure 7" find their statements.

    Examples
    --------
    >>> [entry.key for entry in statements(paper="P1", only="lemma d.3")]
    ['P1 Lemma D.3 (expectation)', 'P1 Lemma D.3 (variance)']
    >>> [entry.key for entry in statements(only="Proposition 5.2")]
    ['P2 Prop. 5.2']
    """
    for name in MODULES:
        importlib.import_module(name)
    entries = [entry for name in SOURCES for entry in _REGISTRY.values() if entry.paper == name]
    entries = [entry for entry in entries if paper is None or entry.paper == paper]
    if only is None:
        return entries
    wanted = in_full(only.strip())
    words = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
    found = [entry for entry in entries if words.search(in_full(entry.key))]
    return found or [entry for entry in entries if wanted in in_full(entry.key)]


def in_full(name: str) -> str:
    """The name of a statement in lower case, with words such as "Thm" or "Eqn." in full.

    Examples
    --------
    >>> in_full("P1 Thm 5.1"), in_full("Eqs. 2, 3"), in_full("App. C.2")
    ('p1 theorem 5.1', 'equation 2, 3', 'appendix c.2')
    """
    text = name.casefold()
    for word, short in SHORT_FORMS.items():
        text = re.sub(rf"(?<!\w)(?:{short})(?:\.(?=\s)|(?=\s|$))", word, text)
    return text


def reproduces(entry: Statement, outcome: Outcome) -> bool:
    """Whether the outcome is the verdict on record (comparisons are written so that NaN fails)."""
    if entry.verdict == NOT_CHECKABLE:
        return True
    right = bool(outcome.error <= outcome.tolerance)
    if entry.verdict == HOLDS:
        return right
    shown = outcome.printed_error is not None and bool(outcome.printed_error > outcome.tolerance)
    return right and shown and bool(outcome.counterexample)


def one_plus(perturb: float) -> Fraction:
    """``1 + perturb`` as the fraction that its decimal digits say, for checks in exact arithmetic.

    Examples
    --------
    >>> one_plus(0.01)
    Fraction(101, 100)
    """
    return 1 + Fraction(str(perturb))


def run(entry: Statement, perturb: float = 0.0) -> Result:
    """Run one check; an exception in it is a verdict not reproduced, with the exception's text as
    the failure.
    """
    if entry.verdict == NOT_CHECKABLE:
        return Result(entry, True, 0.0, None)
    start = time.perf_counter()
    try:
        outcome = entry.check(perturb)
    except Exception as error:  # one broken check must not hide the verdicts of the others
        return Result(
            entry, False, time.perf_counter() - start, None, f"{type(error).__name__}: {error}"
        )
    return Result(entry, reproduces(entry, outcome), time.perf_counter() - start, outcome)
