"""Whole corpora: Parquet in, Parquet out, in processes or on a Dask cluster."""
