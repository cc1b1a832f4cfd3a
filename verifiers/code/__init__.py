"""Verdicts on programs by the tests of their problems."""
