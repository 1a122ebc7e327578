"""LIME for pooled games: the exact limit, the sampler, and the theorems of Lopardo et al. 2024."""
