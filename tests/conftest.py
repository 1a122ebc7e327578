"""Settings for every test: float64 in JAX, compiled programs that are kept, and how much hypothesis
tries.

With LONGDOUBLE=float64 in the environment the tests run as on platforms whose long double has no
more digits than a double (macOS on arm64, Windows): NumPy's is replaced before anything else is
imported. The package itself needs none.

With NUMPY_ERRORS=raise every floating-point error of NumPy raises, as in a program that called
np.seterr(all="raise"). With FLUSH_SUBNORMALS=1 the processor rounds subnormal numbers to zero, as
after torch.set_flush_denormal(True).
"""

import gc
import os
from pathlib import Path

# Workers share the processors, so that none of them takes several for one product of matrices.
if "PYTEST_XDIST_WORKER" in os.environ:
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

import numpy as np

if os.environ.get("LONGDOUBLE") == "float64":
    np.longdouble = np.float64
if os.environ.get("NUMPY_ERRORS") == "raise":
    np.seterr(all="raise")
if os.environ.get("FLUSH_SUBNORMALS") == "1":
    import torch

    assert torch.set_flush_denormal(True), "this processor cannot round subnormal numbers to zero"

# shap and shapiq compile functions with numba, which takes longer than running them on a test's few
# players.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")

import jax
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests import oracles

ROOT = Path(__file__).parents[1]

jax.config.update("jax_enable_x64", True)

# Compiling is most of what tests of JAX do. Programs are shared by the workers, the processes that
# tests start (which read the environment) and the next run. JAX 0.4.35 crashes when it reads them.
if jax.__version_info__ >= (0, 5):
    for option, value in {
        "jax_compilation_cache_dir": str(ROOT / "build" / "jax_cache"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }.items():
        jax.config.update(option, value)
        os.environ.setdefault(option.upper(), str(value))

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
# The first run takes a quarter less; continuous integration compiles as users do.
if PROFILE == "dev":
    jax.config.update("jax_disable_most_optimizations", True)
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# HYPOTHESIS_PROFILE chooses one. No deadline: compilation makes the first example slow.
COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
KEPT = DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples")
# At a desk: the same examples on every run.
settings.register_profile("dev", max_examples=30, derandomize=True, database=None, **COMMON)
# Others on every run. What fails is printed as a line that repeats it, and is tried first until it
# passes. Then keep it for good: as an `@example` of its test, or in a table of explicit examples
# (`KEPT` in tests/jax_model/test_oracle.py).
settings.register_profile(
    "ci", max_examples=100, derandomize=False, print_blob=True, database=KEPT, **COMMON
)
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=1000)
settings.load_profile(PROFILE)


# Examples in docstrings that train a model, compile programs or start the page for a second.
SLOW_EXAMPLES = (
    "attn_closed_form.app.show.plots",
    "attn_closed_form.app.web",
    "jax_model.device",
    "jax_model.training.bags",
    "jax_model.training.estimators",
    "jax_model.training.loop",
    "jax_model.training.train_tables",
)


def pytest_collection_modifyitems(items):
    """Mark what needs a browser by its fixture; that, what needs a cluster and long examples are
    slow. Files with slow tests come first, so that no worker waits for another one at the end.
    """
    subnormals_are_flushed = os.environ.get("FLUSH_SUBNORMALS") == "1"
    no_subnormals = pytest.mark.skip(reason="the processor rounds subnormal numbers to zero")
    for item in items:
        if subnormals_are_flushed and item.get_closest_marker("subnormals"):
            item.add_marker(no_subnormals)
        if isinstance(item, pytest.DoctestItem) and item.name.startswith(SLOW_EXAMPLES):
            item.add_marker("slow")
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if any(item.get_closest_marker(name) for name in ("browser", "cluster")):
            item.add_marker("slow")
    long_files = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in long_files)


# Folders of inner functions, which the public ones call with the usual handling of floating-point
# errors (`usual_float_errors`), and of oracles, whose masses underflow as well.
INNER = ("tests/game/engine", "tests/proofs_check")

if os.environ.get("NUMPY_ERRORS") == "raise":

    @pytest.fixture(autouse=True)
    def _usual_errors_of_inner_functions(request):
        path = request.path.relative_to(ROOT).as_posix()
        if path.startswith(INNER) or request.node.get_closest_marker("usual_errors"):
            with np.errstate(all="warn", under="ignore"):
                yield
        else:
            yield


def pytest_collection_finish():
    """Leave the modules and the tests, which stay, out of every later search for garbage, and search
    less often than after 700 new objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_itemcollected(item):
    """Keep every test, also those that are deselected afterwards."""
    item.config.stash.setdefault(oracles.COLLECTED, []).append(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Watch that a test which is marked as a comparison executes what it compares
    (tests/oracles.py).
    """
    marks = list(item.iter_markers("oracle"))
    if not marks:
        return (yield)
    with oracles.watching(marks):
        return (yield)


def pytest_terminal_summary(terminalreporter):
    """Print what tests have measured with `record_property("shown", ...)`."""
    for report in terminalreporter.stats.get("passed", []):
        for name, text in getattr(report, "user_properties", []):
            if name == "shown":
                terminalreporter.write_line(text)
