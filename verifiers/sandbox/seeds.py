"""Seed the generators of random numbers, so that a program, or a check, that draws gets the same verdict each time."""

import itertools
import random
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

_NUMPY = re.compile(r"(?:import|from)\b.*\b(?:numpy|pandas|scipy|sklearn)\b")
"""An import of a package that draws from numpy's generators."""
_default_rng: Callable[..., Any] | None = None  # numpy's own


def seeds(sources: Iterable[str]) -> list[Callable[[], None]]:
    """Functions that seed what these sources may draw from. `random` is seeded once already, in the server."""
    texts = [*sources]
    draws = [lambda: random.seed(0)] if any("random" in text for text in texts) else []
    return [*draws, seed_numpy] if any(map(_NUMPY.search, texts)) else draws


def seed_numpy() -> None:
    """Seed numpy's generator, and those that are made without a seed, each with another."""
    global _default_rng
    with suppress(Exception):  # it cannot be imported, which the program will notice itself
        import numpy as np  # only here: it is large

        np.random.seed(0)
        original = _default_rng = _default_rng or np.random.default_rng
        numbers = itertools.count()

        def default_rng(seed: Any = None) -> Any:
            return original(next(numbers) if seed is None else seed)

        np.random.default_rng = default_rng
