"""Benchmarks: one file per question, run with `python -m benchmarks.NAME`. Numbers land in `results/NAME.json`."""
