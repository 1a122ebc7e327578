"""Explanations of a model's prediction for an input: the table of methods, and their results."""
