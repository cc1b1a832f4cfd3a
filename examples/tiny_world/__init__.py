"""The synthetic tasks of the tiny recipe: problems, a teacher, and held-out benchmarks, all generated."""
