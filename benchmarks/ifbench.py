"""IFBench's verdicts, here and by its published code: `python -m benchmarks.ifbench CHECKOUT PYTHON [RESPONSES ...]`.

CHECKOUT is allenai/IFBench, PYTHON an interpreter that has its requirements and NLTK's data, RESPONSES are JSONL files
with `response` and perhaps `prompt`. Prints a row per kind of instruction. The cases: responses by the instructions of
their prompts (published); each kind on responses and paragraphs of responses to anything, with its published arguments
(crossed) and with arguments that just hold or just do not (fitted); the examples of tests/verifiers/ifbench.yaml with
small edits (written). A hash of the text puts a case in part 0 or 1: one to fix by, one to report.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml

from ratchet.verifiers.instructions.ifbench import IFBENCH
from ratchet.verifiers.instructions.scoring import instruction, loose, strict
from ratchet.verifiers.instructions.words import count_words, sentences, tokens

EXAMPLES = Path(__file__).parents[1] / "tests/verifiers/ifbench.yaml"
OFFICIAL = """
import json, sys
import evaluation_lib as lib
for line in sys.stdin:
    kind, arguments, text = json.loads(line)
    verdicts = []
    for judge in (lib.test_instruction_following_strict, lib.test_instruction_following_loose):
        try:
            case = lib.InputExample(0, [kind], "p", [dict(arguments)])
            verdicts.append(judge(case, {"p": text}).follow_all_instructions)
        except Exception:
            verdicts.append(None)
    print("verdicts", json.dumps(verdicts), flush=True)
"""
EDITS: dict[str, Callable[[str], str]] = {
    "none": lambda text: text,
    "a word more": lambda text: f"{text} Indeed.",
    "an introduction": lambda text: f"Sure!\n{text}",
    "a closing line": lambda text: f"{text}\nAnything else?",
    "without the first word": lambda text: " ".join(text.split(" ")[1:]),
    "without the last word": lambda text: " ".join(text.split(" ")[:-1]),
    "upper case": str.upper,
    "lower case": str.lower,
    "bold": lambda text: f"**{text}**",
    "quoted": lambda text: f'"{text}"',
    "twice": lambda text: f"{text} {text}",
    "two paragraphs": lambda text: f"{text}\n\n{text}",
    "exclaimed": lambda text: text.replace(".", "!"),
    "without periods": lambda text: text.replace(".", ""),
    "words on lines": lambda text: text.replace(" ", "\n"),
    "lines joined": lambda text: " ".join(text.split()),
}
FITTED: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "count:word_count_range": lambda text: [{"min_words": (n := count_words(text)), "max_words": n}],
    "count:unique_word_count": lambda text: limits("count:unique_word_count", text, "N"),
    "count:conjunctions": lambda text: limits("count:conjunctions", text, "small_n"),
    "count:person_names": lambda text: limits("count:person_names", text, "N"),
    "count:pronouns": lambda text: limits("count:pronouns", text, "N"),
    "count:numbers": lambda text: [{"N": n} for n in range(30) if follows("count:numbers", text, N=n)],
    "ratio:stop_words": lambda text: limits("ratio:stop_words", text, "percentage"),
    "words:repeats": lambda text: limits("words:repeats", text, "small_n"),
    "ratio:overlap": lambda text: [
        {"reference_text": text[::2] + text[len(text) // 2 :], "percentage": percentage} for percentage in (45, 50, 55)
    ],
    "sentence:keyword": lambda text: [
        {"word": word, "N": n} for n, sentence in enumerate(sentences(text)[:8], 1) for word in sentence.split()[-1:]
    ],
    "words:keywords_specific_position": lambda text: [
        {"keyword": word, "n": n, "m": 3} for n, sentence in enumerate(sentences(text)[:8], 1)
        for word in tokens(sentence)[2:3]
    ],
    "words:words_position": lambda text: [{"keyword": word} for word in tokens(text)[1:2]],
}  # fmt: skip


class Case(NamedTuple):
    source: str
    kind: str
    arguments: dict[str, Any]
    text: str

    @property
    def part(self) -> int:
        return hashlib.sha256(self.text.encode(errors="replace")).digest()[0] % 2


def follows(kind: str, text: str, **arguments: Any) -> bool:
    return instruction(kind, arguments).followed(text)


def limits(kind: str, text: str, name: str) -> list[dict[str, Any]]:
    """The last limit on one side and the first on the other."""
    held = [follows(kind, text, **{name: n}) for n in range(101)]
    return [{name: n + i} for n in range(100) if held[n] != held[n + 1] for i in (0, 1)]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def cases(checkout: Path, responses: list[Path], crossed: int) -> Iterator[Case]:
    rows = {row["prompt"].strip(): row for row in lines(checkout / "data/IFBench_test.jsonl")}
    published = defaultdict(list)
    for row in rows.values():
        for kind, arguments in zip(row["instruction_id_list"], row["kwargs"], strict=True):
            published[kind].append({name: value for name, value in arguments.items() if value is not None})
    answers = [row for path in [checkout / "data/sample_output.jsonl", *responses] for row in lines(path)]
    for answer in answers:
        if row := rows.get(answer.get("prompt", "").strip()):
            for kind, arguments in zip(row["instruction_id_list"], row["kwargs"], strict=True):
                arguments = {name: value for name, value in arguments.items() if value is not None}
                yield Case("published", kind, arguments, answer["response"])
    whole = sorted({answer["response"] for answer in answers})
    paragraphs = sorted({part for text in whole for part in text.split("\n\n") if len(part) > 20})
    for kind in IFBENCH:
        rng = Random(kind)
        for text in rng.sample(whole, min(crossed, len(whole))) + rng.sample(paragraphs, min(crossed, len(paragraphs))):
            yield Case("crossed", kind, rng.choice(published[kind]), text)
            for arguments in FITTED.get(kind, lambda text: [])(text):
                yield Case("fitted", kind, arguments, text)
    for row in yaml.safe_load(EXAMPLES.read_text()):
        for text in [*row["follows"], *row["violates"]]:
            for edit in EDITS.values():
                yield Case("written", row["kind"], row["arguments"], edit(text))


def official(checkout: Path, python: Path, judged: list[Case]) -> list[list[bool | None]]:
    asked = "".join(json.dumps([case.kind, case.arguments, case.text]) + "\n" for case in judged)
    command = [python.absolute(), "-c", OFFICIAL]
    printed = subprocess.run(command, input=asked, cwd=checkout, text=True, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line[9:]) for line in printed.splitlines() if line.startswith("verdicts ")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("python", type=Path)
    parser.add_argument("responses", type=Path, nargs="*")
    parser.add_argument("--part", type=int, default=1, choices=(0, 1))
    parser.add_argument("--crossed", type=int, default=100, help="responses to anything, for each kind")
    parser.add_argument("--show", type=int, default=0, help="differences to print for each kind")
    given = parser.parse_args()

    judged = [case for case in cases(given.checkout, given.responses, given.crossed) if case.part == given.part]
    theirs = official(given.checkout, given.python, judged)
    tallies: dict[str, list[int]] = {
        kind: [0] * 5 for kind in IFBENCH
    }  # cases, followed, agree strict and loose, errors
    by_source: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    shown: dict[str, int] = defaultdict(int)
    for case, verdicts in zip(judged, theirs, strict=True):
        tally = tallies[case.kind]
        if None in verdicts:
            tally[4] += 1
            continue
        one = [instruction(case.kind, case.arguments)]
        ours = [strict(one, case.text)[0], loose(one, case.text)[0]]
        agreed = [mine == other for mine, other in zip(ours, verdicts, strict=True)]
        for i, value in enumerate([1, verdicts[0], *agreed]):
            tally[i] += bool(value)
        for i, value in enumerate([1, *agreed]):
            by_source[case.source][i] += value
        if not all(agreed) and shown[case.kind] < given.show:
            shown[case.kind] += 1
            print(f"{case.kind} {case.arguments}, {case.source}: here {ours}, there {verdicts}\n  {case.text[:600]!r}")
    print("| kind | cases | followed there | strict | loose | no verdict there |\n|---|---:|---:|---:|---:|---:|")
    for kind, (count, followed, strictly, loosely, errors) in tallies.items():
        print(f"| `{kind}` | {count} | {followed} | {strictly} | {loosely} | {errors} |")
    for source, (count, strictly, loosely) in by_source.items():
        print(f"{source}: of {count}, strict {strictly}, loose {loosely}")


if __name__ == "__main__":
    main()
