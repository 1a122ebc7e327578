"""The benchmark of devices: costs from XLA with loops counted, names of files, and the page that is made of them."""

import json
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from benchmarks.device import TASKS, bars_of, file_name
from benchmarks.device_costs import CARDS, TRANSCENDENTAL, Cost, cost_of, rows_of
from benchmarks.devices_page import NOT_MEASURED, PAGE, devices_page
from jax_model.device.programs import TASKS as PROGRAMS
from jax_model.device.programs import Loop, Program


def test_the_page_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == devices_page(), "run python -m benchmarks.devices_page"


def test_a_card_is_not_measured_until_it_has_a_file(tmp_path):
    costs = {f"predicted documents/s, {card}": 1e6 for card in CARDS}
    costs |= {f"{name} per document": 10.0 for name in ("operations", "bytes", "working bytes")}
    settings = {"games at once": 256, "players, filled up": 160, "cards": "data sheets"}
    row = {"task": "Shapley", "type": "float32", **costs}
    (tmp_path / "device_costs.json").write_text(json.dumps({"rows": [row], "settings": settings}))
    page = devices_page(tmp_path)
    assert page.count(NOT_MEASURED) == len(CARDS) == 2 and "predicted documents/s" in page
    device = SimpleNamespace(device_kind="NVIDIA A100-SXM4-80GB", platform="gpu")
    twin = {
        "task": "Shapley",
        "method": "twin, float32",
        "device": "gpu: NVIDIA A100-SXM4-80GB",
        "documents/s": 123456.0,
    }
    core = {"task": "Shapley", "method": "NumPy core", "device": "cpu", "documents/s": 77.0}
    machine = {"processor": "a processor", "cores": 8, "versions": {"jax": "1"}, "date": "2030-01-01"}
    record = {"rows": [core, twin], "settings": {"documents": 256, "mean tokens": 180.0}, "machine": machine}
    (tmp_path / f"{file_name(device)}.json").write_text(json.dumps(record))
    page = devices_page(tmp_path)
    assert page.count(NOT_MEASURED) == 1 and "| Shapley | twin, float32 | 123,456 |" in page and "77" not in page
    assert re.search(r"\| NVIDIA H100.* \| not measured \|", page)


def test_bars_are_for_the_cpu_alone():
    rows = [{"task": task, "method": m, "documents/s": s} for task in TASKS for m, s in CORE_AND_TWIN]
    assert [bar.measured for bar in bars_of("cpu", rows)] == [2.0] * 5 and not bars_of("gpu", rows)


CORE_AND_TWIN = (("NumPy core", 3.0), ("twin, float64", 6.0))


def test_a_loop_counts_as_often_as_it_runs():
    def body(x):
        return jnp.sin(x) * x + 1

    x = jnp.ones(1000, jnp.float32)
    whole = jax.jit(lambda x: jax.lax.fori_loop(0, 7, lambda i, x: body(x), x))
    by_hand = 1000 * (2 + TRANSCENDENTAL)  # a product, a sum and a sine for each entry
    found = cost_of(Program(whole, (x,), 10, (Loop(jax.jit(body), (x,), 6),)))
    assert found.operations == pytest.approx(7 * by_hand / 10, rel=0.01)
    assert found.bytes > 0


def test_a_prediction_is_what_the_slower_of_two_rates_allows():
    card = next(iter(CARDS.values()))
    assert Cost(card.float32, 1.0, 0.0).seconds(card, "float32") == 1.0
    assert Cost(1.0, card.bandwidth / 2, 0.0).seconds(card, "float64") == 0.5
    costs = {name: Cost(card.float32, 0.0, 5.0) for names in PROGRAMS.values() for name in names}
    rows = {row["task"]: row for row in rows_of(costs, "float32")}
    name = f"predicted documents/s, {next(iter(CARDS))}"
    assert rows["Shapley"][name] == 1 / len(PROGRAMS["Shapley"]) and rows["training step"][name] == 1.0
    assert "training step" not in {row["task"] for row in rows_of(costs, "float64")}
