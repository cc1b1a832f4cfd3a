"""Precision and recall of decontamination against pairs that were read and labeled by hand.

`tests/data_curation/contamination_labels.jsonl` names pairs of a row and a benchmark item, by file and row number, and
says what they have in common: `contaminated` (the same problem), `other numbers` (the same question about other numbers
or another quantity of the same set-up), `phrase only` (words, forms of answers, drawings). The texts are read from the
published files.

    python -m tests.data_curation.decontamination.labels DATA
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ratchet.data_curation.decontamination.overlaps import MIN_SHARED_NGRAMS, BenchmarkIndex
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.tokens import tokenize_texts

LABELS = Path(__file__).parents[1] / "contamination_labels.jsonl"
KINDS = ("contaminated", "other numbers", "phrase only")
DEFAULTS = {domain: Decontamination(ngram=plan_of(domain).ngram) for domain in ("math", "code")}
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


def measured(data: Path) -> list[tuple[str, float, bool]]:
    """Of each labeled pair: its label, its coverage (0 with fewer shared n-grams than the preset wants), and whether
    it shares any n-gram, which is the paper's rule."""
    labels = [json.loads(line) for line in LABELS.read_text().splitlines()]
    texts_of: dict[str, dict[str, str]] = {}
    pairs = []
    for benchmark, file in sorted({(label["benchmark"], label["file"]) for label in labels}):
        domain = "math" if file.startswith("math") else "code"
        items = read_problems(data / benchmark, domain).kept
        if file not in texts_of:
            rows = read_problems(data / file, domain).kept.select(["source_id", "prompt"])
            texts_of[file] = dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        places = {item: place for place, item in enumerate(items.column("source_id").to_pylist())}
        settings = DEFAULTS[domain]
        index = BenchmarkIndex(items.column("prompt").to_pylist(), [("", "")] * len(items), settings.ngram)
        mine = [label for label in labels if (label["benchmark"], label["file"]) == (benchmark, file)]
        found = index.compare(tokenize_texts([texts_of[file][str(label["row"])] for label in mine]))
        for row, label in enumerate(mine):
            item = places[str(label["item"])]
            overlap = next((overlap for overlap in found.get(row, ()) if overlap.item == item), None)
            enough = overlap and overlap.shared >= min(MIN_SHARED_NGRAMS, index.gram_counts[item])
            pairs.append((label["label"], overlap.coverage if overlap and enough else 0.0, overlap is not None))
    return pairs


def scores(dropped: Iterable[str], all_labels: Iterable[str]) -> tuple[Counter[str], float, float, float]:
    """How many of each label were dropped; the share of dropped pairs that are contaminated; the share that are that or
    a variant with other numbers; the share of contaminated pairs that were dropped."""
    counts, total = Counter(dropped), Counter(all_labels)
    everything = max(counts.total(), 1)
    same = counts["contaminated"]
    return counts, same / everything, (same + counts["other numbers"]) / everything, same / total["contaminated"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory that holds math_raw/, code_raw/ and benchmarks/")
    pairs = measured(parser.parse_args().data)
    labels = [label for label, _, _ in pairs]
    print(", ".join(f"{count} {label}" for label, count in Counter(labels).items()) + "\n")
    print("| dropped at | " + " | ".join(KINDS) + " | precision | with variants | recall |")
    print("|---|" + "---:|" * 6)
    rules = [("any shared n-gram (`paper`)", [label for label, _, hit in pairs if hit])]
    rules += [(f"coverage {t}", [label for label, coverage, _ in pairs if coverage >= t]) for t in THRESHOLDS]
    for name, dropped in rules:
        counts, precision, lenient, recall = scores(dropped, labels)
        cells = [*(str(counts[kind]) for kind in KINDS), f"{precision:.2f}", f"{lenient:.2f}", f"{recall:.3f}"]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
