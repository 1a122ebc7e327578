"""Benchmarks: one file per question, run with `python -m benchmarks.NAME`. Results are written to `results/NAME.json`."""
