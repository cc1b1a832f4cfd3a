"""Verdicts on science answers: a choice, a number with its unit, or an expression (docs/reference/science.md)."""
