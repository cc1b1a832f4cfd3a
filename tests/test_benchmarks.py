"""Benchmarks are run by hand, and rarely: that they still find what they import is all that is asked of them here."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = sorted(path.stem for path in (Path(__file__).resolve().parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_can_be_imported(name):
    importlib.import_module(f"benchmarks.{name}")
