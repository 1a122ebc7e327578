"""The statements of P2: Leemann et al., "Attention Mechanisms Don't Learn Additive Models"
(SLALOM).

Importing this module registers them all, in the order of the paper's argument:

- :mod:`proofs_check.leemann2025.transformer`: Sections 3, 4, Appendices B.1 to B.4 (what a
  transformer cannot be);
- :mod:`proofs_check.leemann2025.scope`: Section 7, Appendix C.2 (how far that reaches: [CLS],
  positions, one length);
- :mod:`proofs_check.leemann2025.slalom`: Sections 5.1, 5.2, Appendix B.5 (SLALOM and the
  transformer that computes it);
- :mod:`proofs_check.leemann2025.recovery`: Section 5.2, Appendix B.6 (SLALOM from 2|V| - 1
  queries);
- :mod:`proofs_check.leemann2025.attribution`: Section 5.4, Appendix B.7 (derivatives, linearized
  scores);
- :mod:`proofs_check.leemann2025.shapley`: Appendices A, B.7 (Shapley values);
- :mod:`proofs_check.leemann2025.classes`: Appendix C.1 (several classes);
- :mod:`proofs_check.leemann2025.fitting`: Appendix D (the two fitting algorithms);
- :mod:`proofs_check.leemann2025.experiments`: Appendices E, F and two figures (what the experiments
  compute);
- :mod:`proofs_check.leemann2025.text_and_tables`: sentences against the paper's own tables and the
  authors' code.

The brute force behind them is :mod:`proofs_check.leemann2025.forms`. SLALOM is a rational function
of the masses ``g = exp(s)`` and the values v, so nearly every check runs in ``fractions.Fraction``
with rational masses.
"""

import importlib

# Registration happens on import, so the order of the names is the order of the table.
PARTS = (
    "transformer",
    "scope",
    "slalom",
    "recovery",
    "attribution",
    "shapley",
    "classes",
    "fitting",
    "experiments",
    "text_and_tables",
)

for part in PARTS:
    importlib.import_module(f"proofs_check.leemann2025.{part}")
