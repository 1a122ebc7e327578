"""Batches of games and documents on a device, with the rules and budgets of the NumPy core."""
