"""Compute MinHash signatures of a column of texts: datasketch's, bit for bit, computed and compared as arrays.

A text is a set of token n-grams, its shingles. Texts whose signatures agree in a whole band share a bucket, and only
those are compared, exactly. Memory per text: its shingles (4 bytes each) and a key per band (8 bytes); signatures exist
for a block of texts at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from itertools import pairwise

import numpy as np

from ratchet.data_curation.settings.curation import Deduplication
from ratchet.data_curation.tokens import Tokens, mixed, tokenize_texts

SCHEME = "affine32"
"""The family of hash functions in datasketch; signatures of different schemes are not comparable."""
SEED = 1
PERMUTATIONS = 128
"""Hash functions of a signature: more find more near copies, and cost time in proportion."""
MAX_MISSED = 0.01
_BLOCK = 1 << 16
"""Shingles permuted at a time: a quarter of a megabyte fits the processor's cache."""
_NONE = np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0, np.uint64)


@dataclass(frozen=True)
class Shingles:
    """The shingles of several texts as 32-bit hashes: text i has `hashes[bounds[i]:bounds[i + 1]]`, at least one, with
    repeats. `wholes[i]` is a 64-bit hash of the text."""

    hashes: np.ndarray
    bounds: np.ndarray
    wholes: np.ndarray

    def of(self, text: int) -> set[int]:
        return set(self.hashes[self.bounds[text] : self.bounds[text + 1]].tolist())


Kind = Callable[[Tokens], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""A function from tokens to the hashes of each text's shingles (at least one), the number of these, and a hash of each
text."""


def shingle(chunks: Iterable[Sequence[str]], *kinds: Kind) -> Iterator[Shingles]:
    """The shingles of all texts, given in chunks, for each kind."""
    parts = [[kind(tokens) for kind in kinds] for texts in chunks if len(texts) for tokens in [tokenize_texts(texts)]]
    for kind in range(len(kinds)):
        columns = zip(*(part[kind] for part in parts), strict=True)
        hashes, counts, wholes = (np.concatenate(arrays) for arrays in columns) if parts else _NONE
        yield Shingles(hashes, np.concatenate([[0], np.cumsum(counts)]), wholes)


def jaccard(one: set[int], other: set[int]) -> float:
    """The Jaccard similarity of two sets, of which one must not be empty."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def ngrams(n: int) -> Kind:
    """Shingle texts by token n-grams; a text of fewer than `n` tokens is one shingle. Texts with the same tokens in the
    same order have the same `wholes`."""
    return partial(_ngrams, n=n)


def _ngrams(tokens: Tokens, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    texts = len(tokens.bounds) - 1
    places = np.arange(len(tokens.hashes), dtype=np.uint64) - tokens.bounds[tokens.texts].astype(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(tokens.hashes ^ mixed(places)))])
    wholes = mixed(sums[tokens.bounds[1:]] - sums[tokens.bounds[:-1]])

    grams, first = tokens.ngrams(n)
    counts = np.bincount(tokens.texts[first], minlength=texts)
    is_short = counts == 0
    counts[is_short] = 1
    hashes = np.empty(counts.sum(), np.uint32)
    of_short = np.zeros(len(hashes), bool)
    of_short[(np.cumsum(counts) - counts)[is_short]] = True
    hashes[of_short] = wholes[is_short].astype(np.uint32)
    hashes[~of_short] = grams.astype(np.uint32)
    return hashes, counts, wholes


def bands_of(settings: Deduplication) -> tuple[int, int]:
    """The number of bands and of rows per band: the longest bands that miss at most one in a hundred pairs at the
    threshold."""
    for rows in range(PERMUTATIONS, 0, -1):
        bands = PERMUTATIONS // rows
        if (1 - settings.jaccard**rows) ** bands <= MAX_MISSED:
            return bands, rows
    return PERMUTATIONS, 1


def described(settings: Deduplication) -> dict[str, int | str]:
    """The parameters of the signatures, for the manifest."""
    bands, rows = bands_of(settings)
    return {
        "scheme": SCHEME, "seed": SEED, "permutations": PERMUTATIONS, "bands": bands, "rows": rows,
        "datasketch": metadata.version("datasketch"),
    }  # fmt: skip


def buckets(keys: np.ndarray, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The (text, bucket) pairs of those of `texts` that share a bucket with another one, sorted by text. There is a
    bucket for each value of each band; `keys[band]` has the values of all texts."""
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for band, values in enumerate(keys):
        values = values[texts] if len(texts) < len(values) else values
        order = np.argsort(values)
        values = values[order]
        repeats = np.zeros(len(order) + 1, bool)  # whether the value here is that of the one before
        repeats[1:-1] = values[1:] == values[:-1]
        shared = repeats[:-1] | repeats[1:]
        numbers = np.cumsum(~repeats[:-1]) + band * len(texts)
        parts.append((texts[order[shared]], numbers[shared]))
    members, numbers = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(members, kind="stable")
    return members[order], numbers[order]


def band_keys(shingles: Shingles, permutations: int, bands: int, rows: int) -> np.ndarray:
    """A 64-bit hash of each band of each signature, shape (bands, texts)."""
    keys = np.empty((bands, len(shingles.wholes)), np.uint64)
    blocks = np.searchsorted(shingles.bounds, np.arange(0, len(shingles.hashes) + _BLOCK, _BLOCK))
    for first, end in pairwise(np.unique(blocks).tolist()):
        end = min(end, len(shingles.wholes))
        signed = signatures(shingles.hashes, shingles.bounds[first : end + 1], permutations)
        for band in range(bands):
            key = keys[band, first:end]
            key[:] = 0
            for row in range(band * rows, (band + 1) * rows):
                key[:] = mixed(key + signed[row])
    return keys


def signatures(hashes: np.ndarray, bounds: np.ndarray, permutations: int) -> np.ndarray:
    """Datasketch's affine32 signatures, shape (permutations, texts). The shingles of text i, at least one, are
    `hashes[bounds[i]:bounds[i + 1]]`."""
    from datasketch import MinHash  # imports SciPy, which plans do without

    drawn = MinHash(num_perm=permutations, seed=SEED, scheme=SCHEME)
    factors, terms = np.asarray(drawn.permutations)
    values, starts = _fmix32(hashes[bounds[0] : bounds[-1]]), bounds[:-1] - bounds[0]
    signed = np.empty((permutations, len(starts)), np.uint32)
    for number, (factor, term) in enumerate(zip(factors, terms, strict=True)):
        np.minimum.reduceat(values * factor + term, starts, out=signed[number])
    return signed


def _fmix32(values: np.ndarray) -> np.ndarray:
    """The 32-bit finalizer of MurmurHash3, which affine32 applies before it permutes."""
    values = values ^ (values >> np.uint32(16))
    values = values * np.uint32(0x85EBCA6B)
    values = values ^ (values >> np.uint32(13))
    values = values * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))
