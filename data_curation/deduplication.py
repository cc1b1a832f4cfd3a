"""One problem, one row: copies by text, by near text and by address are found, and the best of each stays.

Near copies are found with MinHash (datasketch makes the signatures, bands are compared as arrays), and every candidate
pair is then measured exactly. A row is always compared with the row that stays, so that a chain of small differences
never removes a problem that resembles nothing kept.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import datasketch
import numpy as np
import pyarrow as pa
from datasketch import MinHash

from data_curation.split import Rejection, Split, partition
from data_curation.tokens import Tokens, tokenise
from data_curation.urls import problem_key
from infra.problems import Problem, from_table
from infra.recipe.model import Deduplication

STEP = "deduplicate"
RULES = ("exact", "url", "near")
SCHEME = "affine32"
"""Of datasketch's hash families; signatures of another are not comparable with these."""
SEED = 1
MAX_MISSED = 0.01


def deduplicate(table: pa.Table, settings: Deduplication) -> Split:
    """Reject all but the best row of each problem.

    Rules: `exact` (the same tokens: other spacing, case or typesetting at most), `url` (the same problem of the same
    platform), `near` (token n-gram sets with a Jaccard similarity of at least `settings.jaccard`). Best is
    the row with a golden solution, then with more tests, then with the answer of most exact copies, then the earlier.
    The evidence names the row that stays, the Jaccard similarity, and whether the two disagree about the answer.
    """
    problems = from_table(table)
    tokens = tokenise([problem.prompt for problem in problems])
    spans = list(zip(tokens.bounds[:-1].tolist(), tokens.bounds[1:].tolist(), strict=True))
    exact = [(p.entry_point, tokens.hashes[s:e].tobytes()) for p, (s, e) in zip(problems, spans, strict=True)]
    shingles = _shingles(tokens, settings.ngram)
    order = _best_first(problems, exact)

    verdicts: list[Rejection | None] = [None] * len(problems)
    verdict_of = _first_of(exact, order)
    for row, kept in verdict_of.items():
        verdicts[row] = Rejection("exact", _evidence(problems, row, kept, 1.0))

    left = [row for row in order if verdicts[row] is None]
    keys = [problem_key(problem.source_url) for problem in problems]
    by_url = _first_of(keys, [row for row in left if keys[row]])
    for row, kept in by_url.items():
        evidence = _evidence(problems, row, kept, _jaccard(shingles[row], shingles[kept]))
        verdicts[row] = Rejection("url", evidence | {"url": keys[row]})

    left = [row for row in left if verdicts[row] is None]
    for row, kept, similarity in _near_copies(left, shingles, settings):
        verdicts[row] = Rejection("near", _evidence(problems, row, kept, similarity))

    bands, rows = _bands(settings)
    minhash = {"scheme": SCHEME, "seed": SEED, "permutations": settings.permutations, "bands": bands, "rows": rows}
    return partition(STEP, RULES, table, verdicts, minhash=minhash | {"datasketch": datasketch.__version__})


def _best_first(problems: Sequence[Problem], exact: Sequence[Any]) -> list[int]:
    """Row numbers in the order in which rows are preferred."""
    votes: dict[tuple[Any, str | None], int] = defaultdict(int)
    for problem, key in zip(problems, exact, strict=True):
        votes[key, problem.answer] += 1

    def preference(row: int) -> tuple[Any, ...]:
        problem = problems[row]
        tests = len(json.loads(problem.tests)) if problem.tests else 0
        return (not problem.golden_solutions, -tests, -votes[exact[row], problem.answer], row)

    return sorted(range(len(problems)), key=preference)


def _first_of(keys: Sequence[Any], order: Iterable[int]) -> dict[int, int]:
    """Each row whose key an earlier one of `order` has, to that earlier row."""
    first: dict[Any, int] = {}
    return {row: kept for row in order if (kept := first.setdefault(keys[row], row)) != row}


def _near_copies(
    order: Sequence[int], shingles: Sequence[np.ndarray], settings: Deduplication
) -> Iterable[tuple[int, int, float]]:
    """(row, kept row, Jaccard) for each row of `order` that is near one before it that stays; the nearest, then the
    first, of those."""
    signatures = _signatures([shingles[row] for row in order], settings.permutations)
    bands, rows = _bands(settings)
    buckets: list[dict[bytes, list[int]]] = [defaultdict(list) for _ in range(bands)]
    for row, signature in zip(order, signatures, strict=True):
        keys = [signature[band * rows : (band + 1) * rows].tobytes() for band in range(bands)]
        candidates = {kept for bucket, key in zip(buckets, keys, strict=True) for kept in bucket.get(key, ())}
        near = [(_jaccard(shingles[row], shingles[kept]), kept) for kept in sorted(candidates)]
        similarity, kept = max(near, key=lambda pair: pair[0], default=(0.0, -1))
        if similarity >= settings.jaccard:
            yield row, kept, similarity
            continue
        for bucket, key in zip(buckets, keys, strict=True):
            bucket[key].append(row)


def _bands(settings: Deduplication) -> tuple[int, int]:
    """(bands, rows of a band): the longest bands with which a pair at the threshold is missed at most one time in a
    hundred. Longer ones mean fewer candidates, and candidates are cheap: each is measured exactly."""
    for rows in range(settings.permutations, 0, -1):
        bands = settings.permutations // rows
        if (1 - settings.jaccard**rows) ** bands <= MAX_MISSED:
            return bands, rows
    return settings.permutations, 1


def _signatures(sets: Sequence[np.ndarray], permutations: int) -> np.ndarray:
    """MinHash signatures, one row a set; the shingles are hashes already, of which the lower half serves."""
    if not sets:
        return np.empty((0, permutations), np.uint32)
    made = MinHash.bulk(
        [(values & np.uint64(0xFFFFFFFF)).tolist() for values in sets],
        num_perm=permutations, seed=SEED, scheme=SCHEME, hashfunc=int,
    )  # fmt: skip
    return np.stack([minhash.hashvalues for minhash in made])


def _shingles(tokens: Tokens, n: int) -> list[np.ndarray]:
    """For each text its distinct token n-grams, as sorted hashes; a text of fewer tokens is one shingle."""
    grams, first = tokens.ngrams(n)
    bounds = np.searchsorted(tokens.texts[first], np.arange(len(tokens.bounds)))
    sets = [np.unique(grams[start:end]) for start, end in pairwise(bounds)]
    for text in np.flatnonzero(np.diff(bounds) == 0).tolist():
        whole = tokens.hashes[tokens.bounds[text] : tokens.bounds[text + 1]]
        sets[text] = np.frombuffer(hashlib.blake2b(whole.tobytes(), digest_size=8).digest(), np.uint64)
    return sets


def _jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """Size of the intersection over size of the union, exactly."""
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)


def _evidence(problems: Sequence[Problem], row: int, kept: int, similarity: float) -> dict[str, Any]:
    mine, other = problems[row], problems[kept]
    evidence = {
        "kept": {"problem_id": other.problem_id, "source": other.source, "source_id": other.source_id},
        "jaccard": round(similarity, 4),
    }
    return evidence | ({"answers": [mine.answer, other.answer]} if mine.answer != other.answer else {})
