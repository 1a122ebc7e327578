"""No regular expression of the package takes more than linear time on a hostile text."""

import subprocess
import sys

import pytest

from tests.attacks.backtracking import patterns
from tests.patience import PATIENCE

PROGRAM = [sys.executable, "-m", "tests.attacks.backtracking"]


def test_every_module_with_patterns_is_seen():
    names = {name.rpartition(".")[2] for name in patterns()}
    assert {
        "text.any_token()".rpartition(".")[2],
        "_BREAK",
        "_ASCII",
        "FORMULA",
        "WORD_ENTRIES",
    } <= names


@pytest.mark.slow
def test_no_pattern_backtracks():
    done = subprocess.run(PROGRAM, timeout=PATIENCE, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "tokenize"


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [r"(a+)+\x01", r"\s*<br>"], ids=["exponential", "quadratic"])
def test_a_pattern_that_backtracks_is_found(pattern):
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([*PROGRAM, pattern], timeout=10, capture_output=True, check=True)
