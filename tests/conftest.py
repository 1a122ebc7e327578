"""Settings for every test: float64 in JAX, and hypothesis without chance or clock.

With LONGDOUBLE=float64 in the environment the tests run as on platforms whose long double has no more digits than a
double (macOS on arm64, Windows): NumPy's is replaced before anything else is imported. The package itself needs none.
"""

import os

import numpy as np

if os.environ.get("LONGDOUBLE") == "float64":
    np.longdouble = np.float64

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
