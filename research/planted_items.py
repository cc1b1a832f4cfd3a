r"""Decontamination and deduplication on planted copies of benchmark items: typesetting, rewordings, near misses, and
other problems that share a passage.

Items are those of MATH500, AIME24, AMC, OlympiadBench and GSM8K's test set, in two parts by a hash of their text: the
steps were made on part 0, the docs report part 1. Copies keep the item's answer. Typesetting is one of the self-test's
disguises or a habit of TeX; rewordings are those of `near_copies.py`. A near miss has one or all of its numbers drawn
again. Passages are pairs of two problems with an identity, an instruction or a famous text in common, in two halves.

    python -m research.planted_items DATA [--part 0|1] [--show KIND]
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import yaml

from ratchet.data_curation.decontamination.problems import decontaminate
from ratchet.data_curation.decontamination.self_test import DISGUISES
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.settings.curation import Decontamination, Deduplication
from research.near_copies import COPIES, Change, as_table, changed_number, kept_rows, part_of

FILES = (
    "benchmarks/math500.json", "benchmarks/aime24.json", "benchmarks/amc22_23.json", "benchmarks/olympiad_bench.json",
    "word_problems/gsm8k_test.jsonl.gz",
)  # fmt: skip
PASSAGES = Path(__file__).with_name("shared_passages.yaml")
NO_TEX = (
    (r"\\[dt]?frac\{(\w+)\}\{(\w+)\}", r"\1/\2"), (r"\\(?:left|right|,|!|;)", ""), (r"\\leq?(?![a-z])", "≤"),
    (r"\\geq?(?![a-z])", "≥"), (r"\\cdot", "·"), (r"\\times", "×"), (r"\\pi(?![a-z])", "π"), (r"\\ldots", "…"),
    (r"\\sqrt\{(\w+)\}", r"√\1"), (r"\\angle", "∠"), (r"\^\\circ|\^\{\\circ\}", "°"), (r"\^\{?2\}?(?!\d)", "²"),
    (r"\$", ""), (r"\\triangle", "△"),
)  # fmt: skip


def without_tex(text: str) -> str:
    """The text as a web page shows it: signs instead of commands."""
    for pattern, instead in NO_TEX:
        text = re.sub(pattern, instead, text)
    return text


def in_markdown(text: str) -> str:
    return f"**Problem.** {re.sub(r'(?<=[.?!]) (?=[A-Z])', chr(10) * 2, text)}".replace("$", "$$")


def thin_spaces(text: str) -> str:
    return text.replace("$", "\u2009$\u2009").replace("-", "\u2212").replace(" ", "\u00a0")


TYPESETTING: dict[str, Callable[[str], str]] = {
    name: DISGUISES[name]
    for name in ("all", "HTML", "full width", "math italics", "math bold", "zero width", "soft hyphens", "accents",
                 "superscripts", "circled digits", "unicode")
} | {"without TeX": without_tex, "markdown": in_markdown, "thin spaces": thin_spaces,
     "fractions": lambda text: re.sub(r"\\[dt]?frac\{(\d)\}\{(\d)\}", r"\\frac\1\2", text),
     "upright letters": lambda text: re.sub(r"\$([A-Za-z])\$", r"\\(\\mathrm{\1}\\)", text)}  # fmt: skip
REWORDINGS = {name: change for name, change in COPIES.items() if name != "typesetting"}


def changed_numbers(rng: Random, text: str) -> str | None:
    if "[asy]" in text or not re.search(r"(?<![\\\w.])\d+", text):
        return None
    return re.sub(r"(?<![\\\w.])\d+", lambda match: str(int(match[0]) + rng.randint(1, 9)), text)


NEAR_MISSES: dict[str, Change] = {"one number changed": changed_number, "all numbers changed": changed_numbers}


def planted(items: list[tuple[str, str]]) -> list[tuple[str, str, int, str]]:
    """(group, kind, number of the item, statement): 120 of the first two groups and 80 near misses."""
    rows: list[tuple[str, str, int, str]] = []

    def plant(group: str, kind: str, change: Change, count: int) -> None:
        rng = Random(kind)
        for number in rng.sample(range(len(items)), len(items)):
            text = items[number][0]
            if count and (made := change(rng, text)) and made != text:
                rows.append((group, kind, number, made))
                count -= 1

    for number, (kind, disguise) in enumerate(TYPESETTING.items()):
        change: Change = lambda rng, text, disguise=disguise: disguise(text)  # noqa: E731
        plant("typesetting", kind, change, 8 if number < 8 else 7)
    for kind, change in REWORDINGS.items():
        plant("rewordings", kind, change, 20)
    for kind, change in NEAR_MISSES.items():
        plant("near misses", kind, change, 40)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory that holds benchmarks/ and word_problems/")
    parser.add_argument("--part", type=int, default=1, choices=(0, 1))
    parser.add_argument("--show", help="print what this kind or group of them gets wrong with the default settings")
    given = parser.parse_args()

    read = pa.concat_tables([read_problems(given.data / file, "math").kept for file in FILES])
    pairs = dict(zip(read["prompt"].to_pylist(), read["answer"].to_pylist(), strict=True))
    items = [(text, answer) for text, answer in pairs.items() if answer and part_of(text) == given.part]
    rows = planted(items)
    passages = [pair for number, pair in enumerate(yaml.safe_load(PASSAGES.read_text())) if number % 2 == given.part]
    for pair in passages:
        rows.append(("other problems", pair["shares"], len(items), pair["row"]))
        items.append((pair["item"], "-1"))

    table = as_table([(text, items[number][1]) for _, _, number, text in rows])
    found: dict[str, list[str]] = {}
    for policy in ("drop", "keep"):
        split = decontaminate(table, as_table(items), Decontamination(ngram=9, variants=policy))
        rule_of = {row["source_id"]: row["rule"] for row in split.rejected.to_pylist()}
        found[policy] = [rule_of.get(str(row), "stays") for row in range(len(rows))]
    both = [*items, *((text, items[number][1]) for _, _, number, text in rows)]
    for policy in ("keep", "drop"):
        stays = kept_rows(both, Deduplication(variants=policy))
        merged = [stays[len(items) + row] == stays[number] for row, (_, _, number, _) in enumerate(rows)]
        found[f"deduplication, {policy}"] = ["merged" if is_merged else "stays" for is_merged in merged]

    columns = ("dropped as a copy", "as a variant", "copies, variants kept", "merged", "merged, variants dropped")
    print(f"{len(items):,} items, part {given.part}\n\n| | of | " + " | ".join(columns) + " |\n|---|--:|" + "--:|" * 5)
    for group in dict.fromkeys(group for group, *_ in rows):
        kinds = list(dict.fromkeys(kind for g, kind, *_ in rows if g == group))
        for name, mine in [*((kind, [kind]) for kind in kinds), (f"**{group}**", kinds)]:
            at = [row for row, (g, kind, *_) in enumerate(rows) if g == group and kind in mine]
            counts = {column: Counter(found[column][row] for row in at) for column in found}
            dropped = len(at) - counts["drop"]["stays"] - counts["drop"]["variant"]
            values = [dropped, counts["drop"]["variant"], len(at) - counts["keep"]["stays"]]
            values += [counts[f"deduplication, {policy}"]["merged"] for policy in ("keep", "drop")]
            print(f"| {name} | {len(at)} | " + " | ".join(map(str, values)) + " |")
    for row, (group, kind, number, text) in enumerate(rows):
        wrong = (found["drop"][row] in ("stays", "variant")) == (group in ("typesetting", "rewordings"))
        if given.show in (group, kind) and wrong and (group != "near misses" or found["drop"][row] != "variant"):
            print(f"\n{kind}: {found['drop'][row]}\n{items[number][0]}\n{text}")


if __name__ == "__main__":
    main()
