"""The engine: mean values of pooled games within a proved error. `evaluate.py` states the
theorem.
"""
