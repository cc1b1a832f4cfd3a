"""Benchmarks, sampling, pass@k and its statistics, reports."""
