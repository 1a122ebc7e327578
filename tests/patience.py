"""The number of seconds that a test waits for something that takes milliseconds; only a hang lasts
that long.

A loaded machine must not fail a test, so the limit is generous. PATIENCE=10 shortens it while a
test is being mended.
"""

import os

PATIENCE = float(os.environ.get("PATIENCE", "300"))
