import json

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.harness import Bar, best_of, relative_error, report, show_seconds, table


def test_bars():
    assert Bar("speed-up", 10.0, ">=", 10.0).met and not Bar("speed-up", 9.9, ">=", 10.0).met
    assert Bar("error", 1e-11, "<=", 1e-10).met and not Bar("error", 1e-9, "<=", 1e-10).met
    assert not Bar("error", np.nan, "<=", 1.0).met and not Bar("error", np.nan, ">=", 1.0).met
    with pytest.raises(ValueError, match=r"^relation: "):
        Bar("error", 1.0, "<", 2.0).met


@pytest.mark.parametrize("result", [None, np.zeros(2), jnp.zeros(2), [jnp.zeros(2), 1.0]])
def test_timer_calls_and_counts(result):
    calls = []
    timing = best_of(lambda: calls.append(1) or result, repeats=3, warm_up=2)
    assert len(calls) > 3 + 2 and timing.repeats == 3
    assert 0 < timing.best <= timing.median


def test_relative_error():
    assert relative_error([1.0, -4.0], [1.0, -4.4]) == pytest.approx(0.4 / 4.4)
    with pytest.raises(ValueError, match=r"^got: "):
        relative_error([1.0], 1.0)


def test_report(tmp_path, capsys):
    rows = [
        {"method": "ours", "error": 1e-15, "seconds": np.float64(2e-3)},
        {"method": "theirs", "seconds": 1.5, "n": 3},
    ]
    assert report(
        "demo", rows, seed=4, settings={"K": 6}, bars=[Bar("b", 2.0, ">=", 1.0)], folder=tmp_path
    )
    assert not report("demo", rows, seed=4, bars=[Bar("b", 0.5, ">=", 1.0)], folder=tmp_path)
    printed = capsys.readouterr().out
    assert "1.0e-15" in printed and "2 ms" in printed and "MISSED: b: 0.5, to be >= 1" in printed
    record = json.loads((tmp_path / "demo.json").read_text())
    assert record["seed"] == 4 and record["rows"][0]["seconds"] == 2e-3
    assert record["machine"]["versions"]["numpy"] == np.__version__


def test_table_aligns_columns():
    assert table([{"a": "x", "n": 1}, {"a": "yy", "n": 20}]).splitlines() == [
        "a    n",
        "--  --",
        "x    1",
        "yy  20",
    ]


def test_units():
    assert [show_seconds(s) for s in (12.0, 0.00123, 4.5e-6)] == ["12 s", "1.23 ms", "4.5 us"]
