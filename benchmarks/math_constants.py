r"""Answers that are right whatever the question: does the math verifier pay one?

    python -m benchmarks.math_constants [--references PATH...] [--sample 0] [--processes N]

Every word and command of the vocabulary, common phrases, short strings of a grammar, and a hill climb from the best of
them, against every reference. A constant may answer references that are equal to each other; one that answers two
that are not is universal, and the exit code is then 1. References as in `benchmarks.math_mutations`.
"""

import argparse
import functools
import itertools
import multiprocessing
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.math_references import published_references, shipped_references
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.equivalence import decide
from ratchet.verifiers.math.regions import expression
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.math.vocabulary import VOCABULARY

PHRASES = """
otherwise | else | if x | any | all | everything | anything | whatever | none | none of the above
all of the above | both | either | neither | yes or no | true or false | it depends | depends on x | unknown
undefined | not defined | does not exist | no solution | infinitely many solutions | all real numbers | real
for all x | there exists x | the answer | the answer is | see above | as above | same | same as above
as required | QED | proven | done | x | n | x = x | 1 = 1 | 0 = 0 | x \\in S | x \\in \\mathbb{R} | S | f(x)
y = f(x) | y | answer | solution | \\text{answer} | 1 or 2 or 3 | 0, 1 | 1, 2, 3 | \\{x\\} | \\{x : x\\}
\\ldots | 1, 2, \\ldots | ... | ? | \\square | \\_\\_\\_ | \\cdots | \\pm x | \\pm 1 | (x, y) | (a, b)
[a, b] | (a, b] | a \\le x \\le b | x \\ne x | x < y | x > 0 | x \\ge a | \\infty | -\\infty | \\emptyset
\\varnothing | \\mathbb{R} | \\mathbb{Z} | \\mathbb{N} | A | B | C | D | (A) | A, B, C, D | option | choice A
k \\in \\mathbb{Z} | n \\in \\mathbb{N} | \\forall x | \\exists x | C | +C | x + C | c | constant | a constant
\\text{constant} | \\begin{cases} x & \\text{otherwise} \\end{cases} | \\frac{a}{b} | \\frac{x}{x} | x^0 | |x|
\\text{} | \\text{ } | \\ | {} | {{}} | \\operatorname{answer} | \\text{some number} | a number | number
the value | value | \\therefore | \\checkmark | correct
"""
_ATOMS = r"""
0 1 2 x y n k A B \pi e i C = < > \le \ge \ne \in \notin \equiv \pm + - / , ; : ! ' % ^ _ ( ) [ ] \{ \} | \cup \cap
\setminus \mathbb{R} \mathbb{Z} \emptyset \infty \text{or} \text{and} \text{otherwise} \text{not} \text{any} \text{all}
\text{if} \text{no} \text{is} \circ \ldots \approx \to \forall \vec{x} \frac{1}{x} \sqrt{x} f(x)
"""
ATOMS = _ATOMS.split()
_VALUES = 4


def words() -> Iterator[str]:
    """Every word and command of the vocabulary, bare, upright and as a command."""

    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, dict | list):
            for each in itertools.chain(value, value.values() if isinstance(value, dict) else ()):
                yield from strings(each)
        elif isinstance(value, str):
            yield from re.split(r"[\s,]+", value)

    commands = {
        *strings([VOCABULARY[each] for each in ("commands", "operators", "functions", "opaque_functions", "symbols")])
    }
    for word in sorted({*strings(VOCABULARY)} - {""}):
        yield from (word, f"\\text{{{word}}}") if word.isalpha() else (word,)
        if word.isascii() and word.isalpha() and word in commands:
            yield f"\\{word}"


def phrases() -> list[str]:
    bare = [each.strip() for each in re.split(r" \| |\n", PHRASES.strip().replace("\\\\", "\\"))]
    return bare + [f"\\text{{{each}}}" for each in bare if each.replace(" ", "").isalpha()]


def strings(count: int, seed: int = 0) -> list[str]:
    """All strings of two atoms, then so many of three and four."""
    draw = random.Random(seed)
    longer = (" ".join(draw.choices(ATOMS, k=draw.choice((3, 3, 4)))) for _ in range(count))
    pairs = [" ".join(pair) for pair in itertools.product(ATOMS, repeat=2)]
    return [*ATOMS, *draw.sample(pairs, min(len(pairs), count)), *longer]


def values(reference: Answer) -> Answer:
    """The reference without the parts that an answer may leave out: its name, unit, domain and option."""
    if reference.kind == "option" and reference.parts:
        return reference.parts[0]
    if reference.kind == "ratio" and len(reference.parts) == 2 and (below := reference.parts[1].value):
        return expression(("number", (reference.parts[0].value or 0) / below))
    is_named = reference.kind == "equation" and not reference.words and len(reference.parts) == 2
    return reference.parts[1] if is_named and reference.parts[1].kind != "text" else reference


def _letter(reference: Answer) -> str:
    """The letter of an option, whatever its text, or of a value that is one letter."""
    letter = reference.words if reference.kind == "option" else values(reference).letters
    return letter if len(letter) == 1 else ""


def answered(constant: str, references: list[str]) -> list[str]:
    return [reference for reference in references if decide(reference, constant).same]


def unequal(constant: str, references: list[str]) -> list[str]:
    """References that a constant answers and that are no two the same, the first and those that differ from it."""
    kept: list[str] = []
    for reference in references:
        if not any(_same(reference, other) for other in kept):
            kept.append(reference)
            if len(kept) > _VALUES:
                break
    return kept if len(kept) > 1 else []


def _same(one: str, other: str) -> bool:
    """True if two references have the same value: as written, or without names, units and percent signs."""
    if decide(one, other).same or decide(other, one).same:
        return True
    letters = [_letter(parse_answer(text)) for text in (one, other)]
    if letters[0] == letters[1] != "":
        return True
    ours, theirs = values(parse_answer(one)), values(parse_answer(other))
    if ours.value is not None and theirs.value is not None:
        return bool({ours.value, ours.value / 100} & {theirs.value, theirs.value / 100})
    if all((answer.kind == "collection" and not answer.parts) or answer.words == "none" for answer in (ours, theirs)):
        return True
    texts = [answer.letters or answer.words for answer in (ours, theirs)]
    return texts[0] == texts[1] != "" or (ours.node is not None and ours.node == theirs.node)


def climb(constants: list[str], references: list[str], steps: int, seed: int = 0) -> tuple[str, list[str]]:
    """The best that is found by changing one atom at a time: by how many different references it answers."""
    draw = random.Random(seed)
    best, found = "", list[str]()
    for begin in constants:
        now, score = begin.split(), len(unequal(begin, answered(begin, references)))
        for _ in range(steps):
            other, place = [*now], draw.randrange(len(now) + 1)
            other[place : place + draw.randrange(2)] = draw.choice(([], [draw.choice(ATOMS)], [draw.choice(ATOMS)]))
            text = " ".join(other)
            if text and (better := len(unequal(text, answered(text, references)))) >= score:
                now, score = other, better
        if score > len(found):
            best, found = " ".join(now), unequal(" ".join(now), answered(" ".join(now), references))
    return best, found


def universal(constants: list[str], references: list[str], sample: list[str]) -> dict[str, list[str]]:
    """The constants that answer references which are not equal, each with some of these: of those that answer any of a
    sample (all if it is empty)."""
    tried = [each for each in constants if not sample or answered(each, sample)]
    return {each: kinds for each in tried if (kinds := unequal(each, answered(each, references)))}


def searched(constants: list[str], references: list[str], sample: list[str], processes: int) -> dict[str, list[str]]:
    """`universal` in several processes, telling on standard error how far it is."""
    parts = [constants[i : i + 50] for i in range(0, len(constants), 50)]
    found: dict[str, list[str]] = {}
    with multiprocessing.Pool(processes) as pool:
        search = functools.partial(universal, references=references, sample=sample)
        for count, part in enumerate(pool.imap_unordered(search, parts), 1):
            found |= part
            print(f"\r{count * 50:,} of {len(constants):,} constants", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def spread(references: list[str], count: int) -> list[str]:
    """At most `count` references, evenly from each kind of answer."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for reference in references:
        answer = parse_answer(reference)
        groups.setdefault((answer.kind, answer.brackets, answer.words[:3], str(bool(answer.unit))), []).append(
            reference
        )
    turns = itertools.zip_longest(*groups.values())
    return [each for turn in turns for each in turn if each is not None][:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", type=Path, nargs="+", help="files of problems; default: the tests' references")
    parser.add_argument("--most", type=int, default=20_000, help="references at most")
    parser.add_argument("--sample", type=int, default=500, help="a constant must answer one of so many first; 0: none")
    parser.add_argument("--words", type=int, default=100_000, help="words and commands of the vocabulary")
    parser.add_argument("--strings", type=int, default=2000, help="strings of the grammar of each length")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200, help="of each of ten climbs, over 300 references")
    options = parser.parse_args()
    references = published_references(options.references) if options.references else shipped_references()
    references = spread(references, options.most)
    if not unequal("any", ["x>3", "x<2"]) or unequal("5", ["5", "x=5", "5\\text{ cm}", "500\\%"]):
        sys.exit("this search no longer tells different references from equal ones")
    drawn = [*words()]
    drawn = random.Random(1).sample(drawn, min(options.words, len(drawn)))
    constants = list(dict.fromkeys([*phrases(), *drawn, *strings(options.strings)]))
    found = searched(constants, references, spread(references, options.sample), options.processes)
    draw = random.Random(0)
    starts = draw.sample(constants, 10)
    best, climbed = climb(starts, draw.sample(references, min(300, len(references))), options.steps)
    found |= {best: climbed} if climbed else {}
    pairs = len(constants) * len(references)
    print(f"{len(constants):,} constants, {len(references):,} references: {pairs:,} pairs; 10 climbs")
    print(f"{len(found)} universal answers")
    for constant, answers in found.items():
        print(f"    {constant!r} for {', '.join(f'{each[:50]!r}' for each in answers)}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
