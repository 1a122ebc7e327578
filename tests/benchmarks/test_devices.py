"""The benchmark of devices: names of files, promises, and the page that is made of them."""

import json
from types import SimpleNamespace

import numpy as np

from attn_closed_form.lime import LimeCoefficients
from benchmarks.device import TASKS, _difference, bars_of, file_name
from benchmarks.devices_page import PAGE, devices_page


def test_the_page_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == devices_page(), (
        "run python -m benchmarks.devices_page"
    )


def test_a_card_is_on_the_page_when_it_has_a_file(tmp_path):
    assert "A100" not in devices_page(tmp_path)
    device = SimpleNamespace(device_kind="NVIDIA A100-SXM4-80GB", platform="gpu")
    twin = {
        "task": "Shapley",
        "method": "twin, float32",
        "device": "gpu: NVIDIA A100-SXM4-80GB",
        "documents/s": 123456.0,
        "error": 2e-4,
        "compilation, s": 1.5,
    }
    core = {"task": "Shapley", "method": "NumPy core", "device": "cpu", "documents/s": 77.0}
    machine = {
        "processor": "a processor",
        "cores": 8,
        "versions": {"jax": "1"},
        "date": "2030-01-01",
    }
    record = {
        "rows": [core, twin],
        "settings": {"documents": 256, "mean tokens": 180.0},
        "machine": machine,
    }
    (tmp_path / f"{file_name(device)}.json").write_text(json.dumps(record))
    page = devices_page(tmp_path)
    assert (
        "## gpu: NVIDIA A100-SXM4-80GB" in page
        and "| Shapley | twin, float32 | 123,456 | 2.0e-04 | 1.5 |" in page
    )
    assert "77" not in page


def test_bars_are_for_the_cpu_alone():
    speeds = (("NumPy core", 3.0), ("twin, float64", 6.0))
    rows = [
        {"task": task, "method": method, "documents/s": speed}
        for task in TASKS
        for method, speed in speeds
    ]
    assert [bar.measured for bar in bars_of("cpu", rows)] == [2.0] * (
        len(TASKS) - 1
    ) and not bars_of("gpu", rows)


def test_differences_are_relative_to_the_largest_number_of_the_core():
    core = [np.array([1.0, -4.0]), np.array([2.0])]
    ours = [np.array([1.0, -4.2]), np.array([2.1])]
    assert np.isclose(_difference(ours, core), 0.05)
    limits = [[LimeCoefficients(row, 0.0) for row in rows] for rows in (ours, core)]
    assert np.isclose(_difference(*limits), 0.05)
    grid = np.ones((1, 3, 2))
    assert _difference(np.pad(grid, ((0, 0), (0, 1), (0, 0))), grid) == 0.0
