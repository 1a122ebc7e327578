"""The technical report: its numbers are those of the stored results, and every macro is used."""

import re

from benchmarks.report_numbers import NUMBERS, macros, page

REPORT = NUMBERS.parent / "report.tex"


def test_the_numbers_are_those_of_the_results():
    assert NUMBERS.read_text(encoding="utf-8") == page(), "run python -m benchmarks.report_numbers"


def test_the_report_uses_every_number_and_types_none_of_them():
    text = REPORT.read_text(encoding="utf-8")
    used = set(re.findall(r"\\([A-Z][A-Za-z]+)\b", text))
    assert set(macros()) <= used
    cited = set(re.findall(r"\\cite\{([^}]+)\}", text))
    known = set(re.findall(r"\\bibitem\{([^}]+)\}", text))
    assert cited == known
