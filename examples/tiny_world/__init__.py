"""The embedded default: a procedural world of problems, a teacher, and held-out benchmarks."""
