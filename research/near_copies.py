"""Deduplication on planted copies: seven kinds of the same problem, and three of another one.

Originals are rows of MATH, GSM8K and SVAMP, in two parts by a hash of the statement: the step was made on part 0, the
docs report part 1. Copies have the original's answer: other typesetting, typos, other names, sentences in another
order, other words for the same, numbers in words, an instruction added. Other problems keep the answer too, which is
harder than real ones: a number changed, the question turned to its opposite, two numbers exchanged. They are planted
among all rows of the files; a pair is merged when one of its two rows goes.

    python research/near_copies.py DATA [--part 0|1] [--each 40] [--others 60] [--show KIND]
    python research/near_copies.py DATA --rephrased REPHRASED    # also items that models put in other words

REPHRASED holds `rephrase_gsm8k.jsonl` of lm-sys/llm-decontaminator and `gsmplus_testmini.jsonl` of qtli/GSM-Plus.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.data_curation.deduplication.copies import judge
from ratchet.data_curation.read import read_files
from ratchet.data_curation.settings.curation import Deduplication
from ratchet.data_curation.split import joined
from ratchet.verifiers.math.tokens import VOCABULARY

FILES = ("math_raw/math_train.json", "word_problems/gsm8k_train.jsonl.gz", "word_problems/svamp.jsonl.gz")
NAMES = (
    "Amara", "Bence", "Chidi", "Daria", "Emeka", "Freya", "Goran", "Hanna", "Imani", "Jonas", "Kenji", "Leila", "Milos",
    "Nadia", "Omar", "Petra", "Quinn",
)  # fmt: skip
NO_NAMES = frozenset(
    ["What", "How", "The", "Each", "Every", "There", "They", "She", "Let", "Find", "And", "His", "Her"]
)
SMALL = VOCABULARY["numbers"]["ones"].split()
SAME_MEANING = """
    buys=purchases bought=purchased sells=offers sold=traded gives=hands gave=handed has=owns have=own had=owned
    makes=produces made=produced gets=receives got=received eats=consumes ate=consumed needs=requires need=require
    wants=wishes costs=amounts child=kid children=kids dollars=bucks also=additionally each=every big=large
    small=little started=began starts=begins picked=collected spent=used friends=pals house=home store=shop car=vehicle
    compute=calculate find=determine evaluate=compute let=suppose such=so integer=number integers=numbers
    number=count total=overall positive=nonzero average=mean week=week box=crate boxes=crates bag=sack bags=sacks
    many=numerous more=additional then=afterwards earns=gets works=labors walks=strolls drives=travels
    money=cash books=volumes students=pupils people=persons"""
OTHER_WORDS = dict(pair.split("=") for pair in SAME_MEANING.split() if len(set(pair.split("="))) == 2)
OPENINGS = (("How many", "What is the number of"), ("How much", "What amount"), ("What is", "Work out"))
OPPOSITES = (
    ("left", "sold in all"), ("in all", "left"), ("altogether", "left"), ("in total", "left"), ("total", "remaining"),
    ("more", "fewer"), ("fewer", "more"), ("greatest", "smallest"), ("largest", "smallest"), ("smallest", "largest"),
    ("least", "greatest"), ("maximum", "minimum"), ("minimum", "maximum"), ("sum", "product"), ("product", "sum"),
    ("area", "perimeter"), ("perimeter", "area"), ("odd", "even"), ("even", "odd"), ("volume", "surface area"),
    ("positive", "negative"), ("remain", "sold altogether"),
)  # fmt: skip
INSTRUCTIONS = (
    "Show your work.",
    "Give the answer as a number.",
    "Note: you may use a calculator.",
    "Explain briefly.",
)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+", text.strip())


def typeset(rng: Random, text: str) -> str | None:
    other = text.replace(r"\frac", r"\dfrac").replace("\\left", "").replace("\\right", "")
    other = re.sub(r"\$([^$]+)\$", r"\\( \1 \\)", other)
    return other if other != text else None


def typos(rng: Random, text: str) -> str | None:
    words = [found for found in re.finditer(r"(?<![\\\w])[a-z]{5,}\b", text) if found[0] not in SMALL]
    if len(words) < 8:
        return None
    for found in sorted(rng.sample(words, rng.randint(2, 4)), key=lambda found: -found.start()):
        at = rng.randrange(1, len(found[0]) - 1)
        word = found[0]
        kinds = (
            word[:at] + word[at + 1 :],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at:],
        )
        text = text[: found.start()] + rng.choice(kinds[:2]) + text[found.end() :]
    return text


def names(rng: Random, text: str) -> str | None:
    inside = set(re.findall(r"(?<=[a-z,] )([A-Z][a-z]{2,})\b(?! (?:of|University))", text))
    opening = set(
        re.findall(r"(?:\A|[.?!] )([A-Z][a-z]{2,})\b(?:'s| (?:has|had|is|was|bought|went|wants|makes))", text)
    )
    said = sorted(
        (inside | opening)
        - set(["What", "How", "The", "Each", "Every", "There", "They", "She", "Let", "Find", "And", "His", "Her"])
    )
    if not said or "\\" in text:
        return None
    for name, other in zip(said, rng.sample(NAMES, len(NAMES)), strict=False):
        text = re.sub(rf"\b{name}\b", other, text)
    return text


def reordered(rng: Random, text: str) -> str | None:
    parts = sentences(text)
    if len(parts) < 4 or "[asy]" in text:
        return None
    given = parts[:-1]
    rng.shuffle(given)
    return " ".join([*given, parts[-1]]) if given != parts[:-1] else None


def paraphrased(rng: Random, text: str) -> str | None:
    other, count = re.subn(
        r"(?<![\\\w])[a-zA-Z]+\b", lambda found: OTHER_WORDS.get(found[0].lower(), found[0]), text
    )  # fmt: skip
    if sum(a != b for a, b in zip(text.split(), other.split(), strict=True)) < 4 or not count:
        return None
    for opening, instead in OPENINGS:
        other = other.replace(opening, instead)
    return other


def in_words(rng: Random, text: str) -> str | None:
    other = re.sub(r"(?<![\d.,$\\^_{/:(-])\b(1?\d)\b(?![\d.,%}$/:^)]\S)(?= [a-z])", lambda f: SMALL[int(f[1])], text)
    return other if other != text else None


def instructed(rng: Random, text: str) -> str | None:
    return f"{rng.choice(('Solve the following problem.', 'Please answer.', ''))} {text} {rng.choice(INSTRUCTIONS)}"


def changed_number(rng: Random, text: str) -> str | None:
    found = list(re.finditer(r"(?<![\\\w.])\d+", text))
    if not found or "[asy]" in text:  # numbers of a drawing are no numbers of the problem
        return None
    one = rng.choice(found)
    return text[: one.start()] + str(int(one[0]) + rng.randint(1, 5)) + text[one.end() :]


def changed_question(rng: Random, text: str) -> str | None:
    *given, question = sentences(text)
    for word, opposite in OPPOSITES:
        if re.search(rf"\b{word}\b", question):
            return " ".join([*given, re.sub(rf"\b{word}\b", opposite, question, count=1)])
    return None


def exchanged_numbers(rng: Random, text: str) -> str | None:
    found = list({f[0]: f for f in re.finditer(r"(?<![\\\w.$^_{])\d+\b(?=\s[a-z]{3})", text)}.values())
    if len(found) < 2 or "\\" in text:
        return None
    one, two = sorted(rng.sample(found, 2), key=lambda f: f.start())
    return text[: one.start()] + two[0] + text[one.end() : two.start()] + one[0] + text[two.end() :]


Change = Callable[[Random, str], str | None]
COPIES: dict[str, Change] = {
    "typesetting": typeset, "typos": typos, "other names": names, "another order": reordered,
    "other words": paraphrased, "numbers in words": in_words, "an instruction added": instructed,
}  # fmt: skip
OTHERS: dict[str, Change] = {
    "a number changed": changed_number, "the question turned": changed_question, "numbers exchanged": exchanged_numbers,
}  # fmt: skip


def part_of(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0] % 2


def planted(originals: list[tuple[str, str]], each: int, others: int) -> Iterator[tuple[str, int, str]]:
    """(kind, number of the original, statement)."""
    for kind, change in (COPIES | OTHERS).items():
        rng, count = Random(kind), each if kind in COPIES else others
        for number in rng.sample(range(len(originals)), len(originals)):
            if count and (made := change(rng, originals[number][0])) and made != originals[number][0]:
                count -= 1
                yield kind, number, made


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def rephrased(folder: Path, data: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """(kind, original, its answer, statement, answer) of what models wrote."""
    with gzip.open(data / "word_problems/gsm8k_test.jsonl.gz", "rt") as file:
        items = [json.loads(line) for line in file]
    for item, row in zip(items, lines(folder / "rephrase_gsm8k.jsonl"), strict=True):
        answer = item["answer"].split("####")[1].strip()
        yield "llm-decontaminator, rephrased", item["question"], answer, row["text"].split("\nAnswer:")[0][10:], answer
    for row in lines(folder / "gsmplus_testmini.jsonl"):
        if row["perturbation_type"] in ("problem understanding", "numerical substitution", "reversing operation"):
            original, seed = row["seed_question"], row["seed_answer"]
            yield f"GSM-Plus, {row['perturbation_type']}", original, seed, row["question"], row["answer"]


def as_table(rows: list[tuple[str, str]]) -> pa.Table:
    numbers = [str(number) for number in range(len(rows))]
    columns = {"prompt": [text for text, _ in rows], "answer": [answer for _, answer in rows]}
    columns |= {"problem_id": numbers, "source_id": numbers, "domain": ["math"] * len(rows)}
    arrays = [pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in PROBLEM_SCHEMA]
    return pa.table(arrays, PROBLEM_SCHEMA)


def kept_rows(rows: list[tuple[str, str]], settings: Deduplication) -> list[int]:
    """The row that stays for each row."""
    verdicts, _ = judge(as_table(rows), settings)
    return [int(verdict.evidence["kept"]["source_id"]) if verdict else row for row, verdict in enumerate(verdicts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the directory that holds math_raw/ and word_problems/")
    parser.add_argument("--rephrased", type=Path)
    parser.add_argument("--part", type=int, default=1, choices=(0, 1))
    parser.add_argument("--each", type=int, default=40, help="copies of each kind")
    parser.add_argument("--others", type=int, default=60, help="other problems of each kind")
    parser.add_argument("--show", help="print pairs of this kind that were decided wrongly")
    given = parser.parse_args()

    read = joined(read_files([given.data / file for file in FILES], "math")).kept
    rows = list(zip(read["prompt"].to_pylist(), read["answer"].to_pylist(), strict=True))
    places = [place for place, (text, answer) in enumerate(rows) if answer and part_of(text) == given.part]
    pairs: list[tuple[str, int, int]] = []
    for kind, number, text in list(planted([rows[place] for place in places], given.each, given.others)):
        pairs.append((kind, places[number], len(rows)))
        rows.append((text, rows[places[number]][1]))
    if given.rephrased:
        seen: dict[str, int] = {}
        for kind, original, seed, text, answer in rephrased(given.rephrased, given.data):
            if part_of(original) == given.part:
                place = seen.setdefault(original, len(rows))
                rows += [(original, seed)] * (place == len(rows)) + [(text, answer)]
                pairs.append((kind, place, len(rows) - 1))

    settings = {"n-grams alone": Deduplication(reworded=False), "default": Deduplication()}
    stays = {name: kept_rows(rows, setting) for name, setting in settings.items()}
    print(f"| merged of part {given.part} | of | " + " | ".join(stays) + " |\n|---|---:|" + "---:|" * len(stays))
    kinds = list(dict.fromkeys(kind for kind, *_ in pairs))
    merged = {name: dict.fromkeys(kinds, 0) for name in stays}
    for name, kept in stays.items():
        for kind, one, other in pairs:
            merged[name][kind] += kept[one] == kept[other]
    of = {kind: sum(k == kind for k, *_ in pairs) for kind in kinds}
    for kind in kinds:
        print(f"| {kind} | {of[kind]} | " + " | ".join(str(merged[name][kind]) for name in stays) + " |")
    print(f"| all seven | {sum(of[k] for k in COPIES)} | "
          + " | ".join(str(sum(merged[name][k] for k in COPIES)) for name in stays) + " |")  # fmt: skip
    for kind, one, other in pairs:
        is_merged = stays["default"][one] == stays["default"][other]
        if kind == given.show and is_merged == (kind in OTHERS):
            print(f"\n{rows[one][0]}\n{rows[other][0]}\n[{rows[one][1]}]")


if __name__ == "__main__":
    main()
