"""Every regular expression of the package on long texts that repeat a few characters.

`python -m tests.attacks.backtracking` tries them all.
A pattern whose time is quadratic takes minutes for one of these texts, and an exponential one never
ends; a linear one takes milliseconds. The test that starts this program ends it after a limit
(`tests/patience.py`). With a pattern as argument, it prints "ready" and tries this one.
"""

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from itertools import product

import attn_closed_form
from attn_closed_form.app.models import text
from attn_closed_form.app.models.sentences import sentences

LENGTH = 100_000
#: Characters and pieces that begin, continue and end what the patterns look for.
ATOMS = ("a", "1", ".", "<", "<br", " ", "\n", "'", "-", "\u0301", "\u200d", "(")
#: What follows the repetitions, so that a match may fail at the very end.
ENDS = ("\x00", "a")
#: Patterns that the package only compares with the beginning of a text or a whole text.
ANCHORED = {
    "DENSE",
    "FILE_LIKE",
    "FORMULA",
    "ROLE",
    "_ABBREVIATIONS",
    "_MAY_END",
    "_NEXT",
    "_WORD",
}


def patterns() -> dict[str, re.Pattern[str]]:
    """The compiled patterns in the globals of all modules, by module and name."""
    found = {"text.any_token()": text.any_token()}
    for info in pkgutil.walk_packages(attn_closed_form.__path__, "attn_closed_form."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # an extra that is not installed
            continue
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                found[f"{info.name}.{name}"] = value
    return found


def hostile_texts(length: int = LENGTH) -> Iterator[str]:
    """Texts that repeat one or two atoms."""
    units = {*ATOMS, *(first + second for first, second in product(ATOMS, repeat=2))}
    for unit, end in product(sorted(units), ENDS):
        yield unit * (length // len(unit)) + end


def try_out(pattern: re.Pattern[str], anchored: bool = False) -> None:
    """Use a pattern on all texts; one that is not anchored also searches them."""
    for hostile in hostile_texts():
        pattern.match(hostile)
        pattern.fullmatch(hostile)
        if not anchored:
            # The first matches only: there may be as many as characters.
            for _, _ in zip(pattern.finditer(hostile), range(100), strict=False):
                pass


def main() -> None:
    """Try the pattern that is named, or all patterns and the functions that combine several."""
    if len(sys.argv) > 1:
        pattern = re.compile(sys.argv[1])
        print("ready", flush=True)
        try_out(pattern)
        return
    for name, pattern in patterns().items():
        print(name, flush=True)
        try_out(pattern, name.split(".")[-1] in ANCHORED)
    for function in (sentences, text.tokenize):
        print(function.__name__, flush=True)
        for hostile in hostile_texts(LENGTH // 50):
            function(hostile)
        function("a" * LENGTH + " " + "A. " * 50)


if __name__ == "__main__":
    main()
