"""Benchmarks, sampling, pass@k and its statistics, reports."""

VERSION = 23
"""The version of the step `evaluate`: raised when the same responses may get other verdicts or scores. It is in
`scores.json` too, because scores of different versions are not compared."""
