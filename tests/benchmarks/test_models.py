"""A benchmark without its model stops with a sentence, and random weights are never a substitute."""

import importlib

import pytest

from benchmarks import models

#: Benchmarks of P1's model: the function to call, its arguments, and the package that it needs.
BENCHMARKS = {
    "lime": ("main", (), "lime"),
    "owen": ("main", (["--quick"],), None),
    "reasons": ("main", (["--data", "nowhere"],), None),
    "shapley": ("main", (["--quick"],), None),
    "slalom": ("model_rows", (), "slalom_explanations"),
}


@pytest.fixture
def _untrained(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "SIX_HEADS", tmp_path / "seed0.npz")


@pytest.mark.usefixtures("_untrained")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_without_its_model_stops_with_a_sentence(name):
    function, arguments, package = BENCHMARKS[name]
    if package is not None:
        pytest.importorskip(package)
    benchmark = importlib.import_module(f"benchmarks.{name}")
    with pytest.raises(SystemExit, match=r"seed0\.npz is missing: python -m benchmarks"):
        getattr(benchmark, function)(*arguments)


@pytest.mark.usefixtures("_untrained")
def test_random_weights_say_so():
    weights, name = models.benchmark_model(0, random=True)
    assert models.SIZES["K"] == weights.K
    assert name == "Gaussian weights"
