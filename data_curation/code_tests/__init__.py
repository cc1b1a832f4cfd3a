"""Tests of code problems against golden solutions and their mutants (`validation`)."""
