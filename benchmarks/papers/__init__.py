"""The experiments of the two papers: `python -m benchmarks.papers.NAME`; `reproduce` runs all of
them.
"""
