"""Statements as their authors wrote them: prompt templates and typographic accidents removed.

Published sets wrap each statement in instructions of their own ("Let's think step by step …"). Left in, these are the
n-grams that all rows share, and the recipe's own prompt would be put around someone else's.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from data_curation.readers import problems as reading
from data_curation.split import Rejection, Split, assemble, partition, set_column
from infra.problems import problem_id

STEP = "normalise"
RULES = ("empty",)


def _prefix(text: str) -> re.Pattern[str]:
    return re.compile(rf"\A\s*(?:{text})", re.DOTALL | re.IGNORECASE)


def _suffix(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{text})\s*\Z", re.DOTALL | re.IGNORECASE)


# A template is cut only at the very start or end of a statement. Each is named after where it is found.
TEMPLATES: dict[str, re.Pattern[str]] = {
    "leetcode_dataset_code": _suffix(r"\n[^\n]*please complete the following python code precisely:\s*```.*?```"),
    "livecodebench_opening": _prefix(
        r"(?:you are an expert python programmer\.\s*)?you will be given a question \(problem specification\) and will "
        r"generate a correct python program that matches the specification and passes all tests\."
        r"(?:[^\n]*\n)+?\s*#{2,3} question:"
    ),
    "livecodebench_format": _suffix(r"#{2,3} format:[^\n]*\n(?:(?!#{2,3} format:).)*"),
    "dapo_opening": _prefix(
        r"solve the following math problem step by step\. the last line of your response should be of the form "
        r"answer: \$?\\?answer\b[^\n]*\n"
    ),
    "dapo_reminder": _suffix(r"remember to put your answer on its own line after \"answer:\"\.?"),
    "verl_boxed": _suffix(r"(?:let'?s think step by step and|please) output the final answer within \\boxed\{\}\.?"),
    "reason_boxed": _suffix(
        r"(?:please )?reason step by step,? and put your final answer (?:with)?in(?:side)? \\boxed\{\}\.?"
    ),
    "return_boxed": _suffix(r"(?:please )?return your final response within \\boxed\{\}\.?[^\n]{0,200}"),
    "eurus_math": _suffix(r"present the answer in latex format: \\boxed\{your answer\}\.?"),
    "eurus_code": _suffix(
        r"write python code to solve the problem\. present the code in\s*```python\s*your code\s*```\s*at the end\.?"
    ),
    "question_heading": _prefix(r"(?:#{1,4}\s*|\*\*)(?:question|problem)(?: statement)?\s*:?\s*(?:\*\*)?\s*:?\s*\n"),
}

_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_INVISIBLE = re.compile("[\u0000-\u0008\u000b\u000c\u000e-\u001f\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufeff]")


def normalise(table: pa.Table, domain: str) -> Split:
    """Clean each prompt and give the row its content identity, `problem_id`.

    A row in which nothing but a template was found is rejected as `empty`. The summary counts what was cut, by name.
    """
    cut: Counter[str] = Counter()
    prompts = []
    for prompt in table.column("prompt").to_pylist():
        text, names = strip_templates(clean_text(prompt))
        cut.update(names)
        prompts.append(text)
    entry_points = table.column("entry_point").to_pylist()
    identities = [problem_id(domain, text, entry) for text, entry in zip(prompts, entry_points, strict=True)]
    verdicts = [None if text else Rejection("empty") for text in prompts]
    table = set_column(set_column(table, "prompt", prompts), "problem_id", identities)
    return partition(STEP, RULES, table, verdicts, templates_cut=dict(sorted(cut.items())))


def read_and_normalise(paths: Sequence[Path], domain: str) -> Split:
    """Raw files to clean problems in one `Split` that accounts for every row of every file.

    Rules `malformed` and `other_domain` (see `readers`), then `empty`. Raises RatchetError as `read_problems` does.
    """
    read = [reading.read_problems(path, domain) for path in paths]
    clean = normalise(pa.concat_tables([split.kept for split in read]), domain)
    rejected = [row | {"step": STEP} for split in [*read, clean] for row in split.rejected.to_pylist()]
    files = [{"file": s.summary["file"], "format": s.summary["format"], "rows": s.summary["rows_in"]} for s in read]
    measured = {"files": files, "templates_cut": clean.summary["templates_cut"]}
    return assemble(STEP, (*reading.RULES, *RULES), clean.kept, rejected, **measured)


def clean_text(text: str) -> str:
    """NFC, one kind of line end, one kind of space, no invisible characters, no blanks at the ends."""
    text = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
    text = _INVISIBLE.sub("", _SPACES.sub(" ", text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def strip_templates(text: str) -> tuple[str, list[str]]:
    """The statement without the templates around it, and the names of those found, outermost first."""
    names: list[str] = []
    found = True
    while found:
        found = False
        for name, pattern in TEMPLATES.items():
            stripped = pattern.sub("", text, count=1).strip()
            if stripped != text:
                text, found = stripped, True
                names.append(name)
    return text, names
