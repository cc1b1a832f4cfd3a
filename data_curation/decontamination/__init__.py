"""Benchmark items in rows: shared text (`overlaps`), problems and any files, and items in other words."""
