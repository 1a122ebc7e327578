"""The benchmark of devices: names of files, and the page that is made of them."""

import json
from types import SimpleNamespace

import jax
import numpy as np

from benchmarks import device
from benchmarks.device import difference, file_name
from benchmarks.devices_page import PAGE, devices_page


def test_the_page_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == devices_page(), (
        "run python -m benchmarks.devices_page"
    )


def test_a_card_is_on_the_page_when_it_has_a_file(tmp_path):
    assert "A100" not in devices_page(tmp_path)
    place = SimpleNamespace(device_kind="NVIDIA A100-SXM4-80GB", platform="gpu")
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
    (tmp_path / f"{file_name(place)}.json").write_text(json.dumps(record))
    page = devices_page(tmp_path)
    assert (
        "## gpu: NVIDIA A100-SXM4-80GB" in page
        and "| Shapley | twin, float32 | 123,456 | 2.0e-04 | 1.5 |" in page
    )
    assert "77" not in page


def test_a_quick_run_leaves_the_stored_results(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(device, "RESULTS", tmp_path)
    monkeypatch.setattr(device, "core_rows", lambda documents: ([], {}))
    monkeypatch.setattr(device, "device_rows", lambda *given: [{"task": "prediction"}])
    assert device.main(["--quick"]) == 0
    written = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json")]
    assert written and all(name.startswith("quick/device-") for name in written)
    if {place.platform for place in jax.devices()} == {"cpu"}:
        assert "no accelerator found" in capsys.readouterr().err


def test_differences_are_relative_to_the_largest_number_of_the_core():
    core = [np.array([1.0, -4.0]), np.array([2.0])]
    padded = np.array([[1.0, -4.2], [2.1, 7.0]])
    assert np.isclose(difference(padded, core), 0.05)
