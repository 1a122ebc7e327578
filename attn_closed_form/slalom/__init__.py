"""SLALOM (Leemann et al. 2025): the model, its recovery, its fits to black boxes, and its reading from weights."""
