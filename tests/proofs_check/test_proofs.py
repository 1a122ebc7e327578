"""The registry reproduces its verdicts, every check can fail, command line and ERRATA.md say what
the registry says.
"""

import functools
import json
import subprocess
import sys

import numpy as np
import pytest

from proofs_check import errata, registry
from proofs_check.__main__ import main, record, row
from proofs_check.registry import CORRECTED, HOLDS, KINDS, NOT_CHECKABLE, Outcome, Result, Statement
from tests.profiles import mostly_slow

ENTRIES = registry.statements()
CHECKED = [entry for entry in ENTRIES if entry.verdict != NOT_CHECKABLE]
result_of = functools.cache(registry.run)


def needs(entry):
    """Skip a check whose optional dependency is missing, with the name of the extra."""
    if entry.method == "autodiff":
        pytest.importorskip("jax", reason="needs the extra 'jax'")


@pytest.mark.parametrize("entry", CHECKED, ids=lambda entry: entry.key)
def test_verdict_on_record_is_reproduced(entry):
    needs(entry)
    result = result_of(entry)
    assert result.failure == ""
    assert result.verdict_reproduced, result.outcome
    if entry.verdict == CORRECTED:
        assert any(character.isdigit() for character in result.outcome.counterexample)


# Every third one in `make test`.
SOME_FIRST = [entry for start in range(3) for entry in CHECKED[start::3]]


@pytest.mark.parametrize(
    "entry", mostly_slow(SOME_FIRST, len(CHECKED) // 3), ids=lambda entry: entry.key
)
def test_check_fails_when_its_formula_is_perturbed(entry):
    needs(entry)
    outcome = entry.check(0.01)
    assert not outcome.error <= outcome.tolerance, outcome


def test_enough_statements_and_every_known_slip():
    assert sum(entry.paper == "P1" for entry in ENTRIES) >= 30
    assert sum(entry.paper == "P2" for entry in ENTRIES) >= 25
    assert sum(entry.paper == "ours" for entry in ENTRIES) >= 15
    corrected = [entry.key for entry in ENTRIES if entry.verdict == CORRECTED]
    slips = [
        "Theorem 4.1",
        "gradient of alpha_t",
        "Eq. 17",
        "size law",
        "Eq. 29",
        "Eq. 30",
        "Eq. 31",
        "Theorem 5.1",
    ]
    slips += [
        "missing term",
        "constant 3/2",
        "remainder",
        "repeated words",
        "integral form",
        "Lemma D.1",
    ]
    slips += ["Lemma D.3 (variance)", "Figure 4"]
    for slip in slips:
        assert any(slip in key for key in corrected if key.startswith("P1")), slip


def test_keys_fit_the_table_and_texts_are_there():
    assert len({entry.key for entry in ENTRIES}) == len(ENTRIES)
    for entry in ENTRIES:
        assert len(entry.ref) <= 36, entry.ref
        assert entry.claim
        assert "\n" not in entry.claim


def made_up(verdict, check):
    return Statement("P1", "made up", "nothing", "", "algebra", verdict, check, "a", "b", "c", "d")


@pytest.mark.parametrize(
    ("verdict", "outcome", "reproduced"),
    [
        (HOLDS, Outcome(0.0, 0.0), True),
        (HOLDS, Outcome(2.0, 1.0), False),
        (HOLDS, Outcome(float("nan"), 1.0), False),
        (CORRECTED, Outcome(0.5, 1.0, 2.0, "1 is not 2"), True),
        (CORRECTED, Outcome(0.5, 1.0, 2.0), False),
        (CORRECTED, Outcome(0.5, 1.0, 0.9, "1 is not 2"), False),
        (CORRECTED, Outcome(0.5, 1.0, None, "1 is not 2"), False),
        (CORRECTED, Outcome(1.5, 1.0, 2.0, "1 is not 2"), False),
    ],
)
def test_what_counts_as_reproduced(verdict, outcome, reproduced):
    assert registry.run(made_up(verdict, lambda perturb: outcome)).verdict_reproduced is reproduced


def test_a_broken_check_is_reported_and_not_raised():
    def broken(perturb):
        raise ImportError("install the extra 'jax'")

    result = registry.run(made_up(HOLDS, broken))
    assert not result.verdict_reproduced
    assert "extra 'jax'" in result.failure
    assert row(result).startswith("NO made up")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"paper": "P3"}, "paper must be one of"),
        ({"method": "hope"}, "method of P1 made up"),
        ({"verdict": "maybe"}, "verdict of P1 made up"),
        ({"verdict": CORRECTED}, "needs printed="),
        (
            {"verdict": CORRECTED, "printed": "a", "corrected": "b", "consequence": "c"},
            "kind of P1 made up",
        ),
        ({"kind": "misprint"}, "kind of P1 made up"),
        ({"verdict": NOT_CHECKABLE}, "needs reason="),
        ({"ref": "Theorem 5.1"}, "registered twice"),
    ],
)
def test_registration_refuses_what_it_cannot_use(change, message):
    fields = {"paper": "P1", "ref": "made up", "claim": "c", "method": "algebra"} | change
    with pytest.raises(ValueError, match=message):
        registry.statement(**fields)(lambda perturb=0.0: Outcome(0.0, 0.0))


def test_only_takes_whole_words_first():
    assert [entry.ref for entry in registry.statements("P1", "eq. 1")] == ["Eq. 1"]
    assert {entry.ref for entry in registry.statements("P1", "Theorem 5.1")} >= {
        "Theorem 5.1",
        "Theorem 5.1 (remainder)",
    }
    assert registry.statements("P1", "Propos")
    assert registry.statements("P2", "no such thing") == []


@pytest.mark.parametrize(
    ("asked", "refs"),
    [
        ("Thm 4.1", ["Theorem 4.1"]),
        ("thm. 4.1", ["Theorem 4.1"]),
        ("Fig 4", ["Figure 4", "Fig. 4", "Fig. 4 (c, d), RMSE"]),
        ("Figure 9", ["Fig. 9"]),
        ("Proposition 5.2", ["Prop. 5.2"]),
        ("Prop B.1", ["Proposition B.1 (Eq. 29)", "Proposition B.1 (Eq. 30)"]),
        ("corollary 4.3", ["Cor. 4.3"]),
        ("Eqn. 81", ["Eq. 81"]),
        ("Equation 20", ["Eq. 20"]),
        ("Alg 1", ["Algorithm 1"]),
        ("Sec. 6 (ii)", ["Section 6 (ii), skip connections"]),
    ],
)
def test_only_knows_the_short_forms(asked, refs):
    assert [entry.ref for entry in registry.statements(only=asked)] == refs


def test_the_list_has_every_name_and_runs_nothing(capsys, monkeypatch):
    monkeypatch.setattr("proofs_check.__main__.run", None)
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    for entry in ENTRIES:
        assert f"  {entry.ref}  " in out
    assert max(map(len, out.splitlines())) <= 100
    assert main(["--list", "--only", "Thm 5.1", "--paper", "P1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert main(["--list", "--only", "no such thing"]) == 2


def test_command_line_table(capsys):
    assert main(["--paper", "P1", "--only", "Lemma D"]) == 0
    out = capsys.readouterr().out
    assert "Lemma D.3 (variance)" in out
    assert "every verdict is the recorded one" in out
    assert max(map(len, out.splitlines())) <= 100


def test_command_line_verbose_prints_numbers(capsys):
    assert main(["--only", "Theorem 5.1 (constant 3/2)", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "counterexample:" in out
    assert "3/8" in out
    assert max(map(len, out.splitlines())) <= 100


def test_command_line_json(capsys):
    assert main(["--paper", "P1", "--only", "size law", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["verdict"] == CORRECTED
    assert entry["error"] == 0.0 < entry["printed_error"]
    assert entry["reproduced"] is True


def test_json_of_a_check_that_answers_in_numpy_numbers(capsys, monkeypatch):
    outcome = Outcome(np.float64(0.5), np.float32(1.0), np.float64("inf"), "1 is not 2")
    entry = made_up(CORRECTED, lambda perturb: outcome)
    monkeypatch.setattr("proofs_check.__main__.statements", lambda paper, only: [entry])
    assert main(["--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["reproduced"] is True
    assert (found["error"], found["tolerance"], found["printed_error"]) == (0.5, 1.0, "inf")


def test_every_result_can_be_written_as_json():
    for entry in CHECKED:
        if entry.method != "autodiff":
            json.dumps(record(result_of(entry)), allow_nan=False)


def test_errata_count_the_kinds_and_name_the_results_that_change():
    text = errata.overview()
    corrected = [entry for entry in ENTRIES if entry.verdict == CORRECTED]
    assert all(entry.kind in KINDS for entry in corrected)
    assert not any(entry.kind or entry.changes for entry in ENTRIES if entry.verdict != CORRECTED)
    for kind in KINDS:
        counts = [
            sum(e.kind == kind and e.paper == paper for e in corrected) for paper in ("P1", "P2")
        ]
        assert f"| {kind} | {counts[0]} | {counts[1]} | {sum(counts)} |" in text
    assert text.index("**Theorem 5.1**") < text.index("**Eq. 65**")
    assert "misprint" not in {entry.kind for entry in corrected if entry.changes}


def test_command_line_exit_codes(capsys, monkeypatch):
    assert main(["--only", "no such thing"]) == 2
    assert "no such thing" in capsys.readouterr().err
    failing = made_up(HOLDS, lambda perturb: Outcome(2.0, 1.0))
    monkeypatch.setattr("proofs_check.__main__.statements", lambda paper, only: [failing])
    assert main([]) == 1
    out = capsys.readouterr().out
    assert "verdict not reproduced: P1 made up" in out


def test_module_runs_as_a_command():
    command = [sys.executable, "-m", "proofs_check", "--only", "Lemma D.4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Lemma D.4 (Eq. 37)" in done.stdout


def test_errata_file_is_not_stale(monkeypatch):
    pytest.importorskip("jax", reason="needs the extra 'jax'")
    monkeypatch.setattr(errata, "run", result_of)
    assert errata.PATH.read_text(encoding="utf-8") == errata.generate(), (
        "run: python -m proofs_check --errata"
    )


def test_errata_refuses_a_check_that_did_not_run():
    entry = made_up(CORRECTED, lambda perturb: Outcome(0.0, 0.0))
    with pytest.raises(RuntimeError, match="could not be checked: no jax"):
        errata.erratum(Result(entry, False, 0.0, None, "no jax"))
