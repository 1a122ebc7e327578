"""The classifier of Lopardo et al. 2024: weights, files, predictions, attention, gradients, documents as games."""
