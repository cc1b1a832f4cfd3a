"""Raw rows with the truth about each, independent sound rows, their mixture with defective ones, and benchmarks."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from ratchet.data_curation.base.problem_table import to_table
from ratchet.verifiers.problem import problem_id

_DUPLICATE = ("deduplicate:exact", "deduplicate:near")
_CONTAMINATED = ("decontaminate:ngram", "decontaminate:whole_match")
# The rule expected to reject each defect first, and the others that may.
ACCEPTABLE = {
    "exact_duplicate": _DUPLICATE,
    "near_duplicate": _DUPLICATE[::-1],
    "two_urls": ("deduplicate:url", *_DUPLICATE),
    "benchmark_copy": _CONTAMINATED,
    "benchmark_reworded": _CONTAMINATED,
    "wrong_answer": ("majority_vote:likely_wrong_reference", "majority_vote:*"),
    # No rule rejects them. The teacher cannot read them, so its vote or the difficulty step does.
    "too_brief": ("difficulty:*", "majority_vote:*", "deduplicate:*", "validate_tests:*"),
    "malformed": ("normalize:malformed",),
    "wrong_tests": ("validate_tests:golden_fails",),
    "weak_tests": ("validate_tests:weak_tests",),
    "too_few_tests": ("validate_tests:too_few_tests", "validate_tests:weak_tests"),
    "released_after": ("decontaminate:released_after",),
    "look_alike": (),
    "clean": (),
}


@dataclass
class Row:
    """One raw row and the truth about it."""

    columns: dict[str, Any]
    label: str = "clean"
    original: "Row | None" = None
    benchmark_item: str | None = None
    acceptable: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.acceptable = self.acceptable or ACCEPTABLE.get(self.label, (f"rules:{self.label}",))


def contaminated(columns: dict[str, Any], label: str, item: str, item_id: str, ngram: int) -> Row:
    """A row made from the benchmark item; with fewer than `ngram` words only the whole text can match."""
    acceptable = _CONTAMINATED if len(words(item)) >= ngram else _CONTAMINATED[::-1]
    return Row(columns, label, benchmark_item=item_id, acceptable=acceptable)


def words(text: str) -> list[str]:
    """Words and numbers in lower case, without punctuation."""
    return re.findall(r"[a-z]+|\d+", text.lower())


class Independence:
    """Accepts texts that are far from all accepted before: less than half of the word triples in common (Jaccard)."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._where: dict[tuple[str, ...], list[int]] = defaultdict(list)

    def accepts(self, text: str) -> bool:
        spoken = words(text)
        triples = {tuple(spoken[i : i + 3]) for i in range(len(spoken) - 2)}
        shared = Counter(number for triple in triples for number in self._where.get(triple, ()))
        if any(2 * common >= len(triples) + self._sizes[number] - common for number, common in shared.items()):
            return False
        for triple in triples:
            self._where[triple].append(len(self._sizes))
        self._sizes.append(len(triples))
        return True


def draw_independent(
    independence: Independence, levels: tuple[int, ...], number: int, draw: Callable[[int], tuple[str, Any] | None]
) -> tuple[str, Any]:
    """(text, meaning) of a problem that is far from all earlier ones, levels in turn. After ten failed draws at a level
    (too similar, or `draw` returns None) the next level is tried."""
    attempt = 0
    while True:
        drawn = draw(levels[min(number % len(levels) + attempt // 10, len(levels) - 1)])
        if drawn and independence.accepts(drawn[0]):
            return drawn
        attempt += 1


def mixture(
    rng: Random,
    size: int,
    shares: dict[str, float],
    sound: Callable[[int], Row],
    defective: Callable[[str, int, Iterator[Row]], Row],
    most: Mapping[str, int] = MappingProxyType({}),
) -> list[Row]:
    """`size` rows in random order, `shares` of them with a label, but at most `most` of each. A sound row is copied at
    most once."""
    counts = {label: min(round(share * size), most.get(label, size)) for label, share in shares.items()}
    rows = [sound(number) for number in range(size - sum(counts.values()))]
    originals = iter(rng.sample(rows, len(rows)))
    rows += [defective(label, number, originals) for label, count in counts.items() for number in range(count)]
    rng.shuffle(rows)
    return rows


def benchmark_table(domain: str, problems: Iterable[dict[str, Any]]) -> pa.Table:
    """Held-out problems, `PROBLEM_SCHEMA`."""
    return to_table(
        {
            "problem_id": problem_id(domain, problem["prompt"], problem.get("entry_point")), "domain": domain,
            "source": f"tiny-{domain}", "source_id": str(number), **problem,
        }
        for number, problem in enumerate(problems)
    )  # fmt: skip
