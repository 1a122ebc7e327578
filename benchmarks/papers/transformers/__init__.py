"""Transformers that the papers compare with."""
