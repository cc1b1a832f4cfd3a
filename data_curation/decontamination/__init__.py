"""Benchmark items in rows: shared text (`overlaps`), in problems and in any files."""
