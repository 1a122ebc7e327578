"""Settings for every test: float64 in JAX, and hypothesis without chance or clock."""

import jax
from hypothesis import HealthCheck, settings

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
