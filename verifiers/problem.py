"""A problem: one row of a data set."""

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Self


@dataclass(frozen=True)
class CodeTest:
    """One test of a code problem. In `tests` it is JSON: `{"input": str, "output": str}` for stdin/stdout, `{"call":
    {"args": [...], "kwargs": {...}}, "output": <JSON value>}` for a function call, or `{"check": "<Python source that
    defines check(candidate)>"}`, which raises when the candidate is wrong. With `"exact": true` a call's value must
    equal the output in Python; otherwise a tuple counts as a list and floats may differ a little. `"arguments"` are
    further arguments of the problem's checker for this test.

    The judge runs a `check` as written, apart from the solution, on snapshots of what it returns
    (docs/reference/code_judge.md).
    """

    output: Any = None
    input: str | None = None
    call: dict[str, Any] | None = None
    check: str | None = None
    exact: bool = False
    arguments: Sequence[str] = ()


@dataclass(frozen=True)
class Problem:
    """One problem. Structured fields are JSON text: sources disagree about their shape."""

    problem_id: str
    domain: str
    prompt: str
    source: str | None = None  # data set and split, e.g. "MATH/train"
    source_id: str | None = None  # the row's id in its source, or its row number
    source_url: str | None = None
    released: date | None = None
    answer: str | None = None  # math: the reference answer, as published
    tests: str | None = None  # JSON list; code: see `CodeTest`; instructions: `id`, `kwargs`
    entry_point: str | None = None  # code: the function to call; null means stdin/stdout
    starter_code: str | None = None
    golden_solutions: list[str] | None = None
    time_limit_s: float | None = None
    memory_limit_mb: float | None = None
    metadata: str | None = None  # JSON object: everything else in the source
    # Added by curation; null until the step that measures it has run.
    teacher_passes: int | None = None
    teacher_attempts: int | None = None
    teacher_tokens: float | None = None
    difficulty: int | None = None  # failed teacher attempts out of eight

    @classmethod
    def of(
        cls, domain: str, prompt: str = "", tests: "Sequence[Mapping[str, Any]] | None" = None, **fields: Any
    ) -> Self:
        """A problem from plain values: `tests` as a list, `metadata` as a dictionary, the id made from the content.
        Raises ValueError for a prompt that is not text."""
        if not isinstance(prompt, str):
            raise ValueError(f"its prompt must be text, not {type(prompt).__name__}")
        if isinstance(metadata := fields.get("metadata"), Mapping):
            fields["metadata"] = json.dumps(metadata)
        text = json.dumps(tests, ensure_ascii=False) if tests is not None else None
        identity = prompt or text or str(fields.get("answer", ""))
        fields.setdefault("problem_id", problem_id(domain, identity, fields.get("entry_point")))
        return cls(domain=domain, prompt=prompt, tests=text, **fields)

    def code_tests(self) -> list[CodeTest]:
        """The parsed tests. Raises ValueError when the JSON is not a list of tests."""
        return self._tests

    @cached_property
    def _tests(self) -> list[CodeTest]:
        return [CodeTest(**test) for test in json.loads(self.tests)] if self.tests else []


APPENDED_OPTIONS = "appended_options"
"""Key in the metadata for the lines of options that a reader appended to the statement."""


def problem_id(domain: str, prompt: str, entry_point: str | None = None) -> str:
    """The identity of a problem: 16 hex digits of its statement in Unicode's NFC with white space folded.

    The answer is left out, so that deduplication compares two sources that disagree about it.
    """
    folded = " ".join(unicodedata.normalize("NFC", prompt).split())
    identity = f"{domain}\x00{entry_point or ''}\x00{folded}"
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


JUDGED_FIELDS = (
    "problem_id", "domain", "prompt", "starter_code", "answer", "tests", "entry_point", "time_limit_s",
    "memory_limit_mb", "metadata",
)  # fmt: skip
"""The fields of a problem that a verdict may depend on."""


def judged_fields(problem: Problem) -> dict[str, Any]:
    """A problem for another process that judges: `JUDGED_FIELDS` without empty ones, as values of JSON."""
    return {name: value for name in JUDGED_FIELDS if (value := getattr(problem, name)) not in (None, "")}


def from_judged_fields(fields: Mapping[str, Any]) -> Problem:
    """The inverse of `judged_fields`; others are ignored, and an identity is made if there is none. Raises KeyError
    without a domain, and ValueError for a domain or an identity that is not text."""
    values: dict[str, Any] = {n: value for n in JUDGED_FIELDS if (value := fields.get(n)) not in (None, "")}
    for name in ("domain", "problem_id"):
        if not isinstance(values.get(name, ""), str):
            raise ValueError(f"its {name} must be text")
    if "problem_id" not in values:
        values["problem_id"] = problem_id(values["domain"], json.dumps({**fields}))
    values.setdefault("prompt", "")
    return Problem(**values)
