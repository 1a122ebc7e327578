"""Reasons that are proved: bounds of a prediction, sets of players that suffice, sets whose removal flips."""
