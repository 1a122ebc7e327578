"""Statements about results of the library beyond the papers, checked in the same way.

- :mod:`proofs_check.pooled_games.values`: semivalues, Owen values and interaction indices as
  integrals over coin flips;
- :mod:`proofs_check.pooled_games.reasons`: linear forms, greedy reasons and bounds for several
  heads.

The games are small and rational (:mod:`proofs_check.pooled_games.games`), so nearly every check is
an equality of fractions.
"""

import importlib

PARTS = ("values", "reasons")

for part in PARTS:
    importlib.import_module(f"proofs_check.pooled_games.{part}")
