"""Softmax-pooled games and their exact values: Shapley, Banzhaf, interactions. Knows nothing of any model."""
