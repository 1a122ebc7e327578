"""Run the statements of the two papers instead of believing them: ``python -m proofs_check``.

P1 is Lopardo, Precioso, Garreau, "Attention Meets Post-hoc Interpretability" (2024); P2 is Leemann
et al., "Attention Mechanisms Don't Learn Additive Models" (2025). Each statement that makes a claim
has an entry in :mod:`proofs_check.registry` and a function that checks it, and so have the
identities that the library itself rests on (:mod:`proofs_check.pooled_games`); ``ERRATA.md`` is
generated from the same entries.
"""
