"""Benchmarks, one file per question: run `python -m benchmarks.NAME`.

Results are in `results/NAME.json`.
"""
