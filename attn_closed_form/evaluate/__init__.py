"""Measures of faithfulness, and loaders of the papers' data."""
