"""Settings for every test: float64 in JAX, compiled programs kept, and hypothesis without chance or clock."""

import os
from pathlib import Path

# Compiling is most of what tests of JAX do. Programs are shared by the workers, the processes that tests start, and the
# next run; read from the environment, so before JAX is imported.
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

jax.config.update("jax_enable_x64", True)

# Derandomized: the same examples on every run. No deadline: compilation makes the first example slow.
settings.register_profile(
    "project",
    derandomize=True,
    deadline=None,
    max_examples=30,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("project")
