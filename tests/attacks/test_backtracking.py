"""No regular expression of the package takes more than linear time on a hostile text."""

import subprocess
import sys

import pytest

from tests.attacks.backtracking import patterns
from tests.patience import PATIENCE

# Seconds after the start. A pattern that backtracks takes minutes, and another one milliseconds.
BACKTRACKING = 3.0
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
    with subprocess.Popen([*PROGRAM, pattern], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=BACKTRACKING)
        process.kill()


def test_a_pattern_that_does_not_backtrack_ends():
    done = subprocess.run([*PROGRAM, "ab"], timeout=PATIENCE, capture_output=True, check=True)
    assert done.stdout == b"ready\n"
