"""Preview how a source is read, before anything is paid for: three rows beside their published fields, and counts of
what looks wrong.

    print(*preview_file("train.jsonl", "math").lines(), sep="\\n")

Only the first rows are read; the step `normalize` reads all of them by the same functions.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.data_curation.raw_batches import UNREADABLE, RawFile, read_row
from ratchet.data_curation.read import open_raw_file
from ratchet.data_curation.readers.columns import RawRow, chat_turns
from ratchet.data_curation.readers.options import has_options, take_options
from ratchet.data_curation.readers.plain_formats import Columns
from ratchet.data_curation.readers.raw_files import Malformed, Row, read_rows
from ratchet.data_curation.readers.sources import local_files, source_names
from ratchet.data_curation.readers.templates import Statement
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.problem import Problem

ROWS_LOOKED_AT = 1000
_SHOWN = 300
_READ = ("prompt", "answer", "tests", "entry_point", "starter_code", "time_limit_s", "memory_limit_mb", "released")
CONCERNS = {
    "no_reference": "no reference answer and no tests",
    "unverifiable": "a reference that cannot be verified against itself",
    "mostly_template": "a prompt that lost more than half of its text to templates",
    "options_missing": "options that are not in the prompt",
    "system_prompt": "a system prompt, which is left out (give it as model.prompt.system_prompt)",
}


ASSUMED = "numbers of right options are read as counting from 0: no row names the first of them, or the last, to tell"


class RowPreview(BaseModel):
    """A preview of one row: its published fields and the fields read from them, as texts of at most 300 characters."""

    row: int
    published: dict[str, str]
    read: dict[str, str] = {}
    removed: list[str] = []
    """Templates that were removed from the statement."""
    rejected: str = ""
    """The reason why the row cannot be read; "" if it can."""


class FilePreview(BaseModel):
    """A preview of one file: how its first rows are read, and what looks wrong."""

    source: str
    """The file's name without endings, with as much of its path as makes it unique."""
    domain: str
    layout: str
    rows: int
    """The number of rows that were looked at."""
    kept: int
    """The number of rows that are problems of the domain."""
    rejected: dict[str, int]
    """The number of other rows by reason, with their field."""
    ignored: list[str]
    """Columns from which nothing is read; the metadata keep them."""
    templates: dict[str, int]
    concerns: dict[str, int]
    """The number of rows for each of `CONCERNS`."""
    examples: dict[str, str]
    """An example for each of the concerns."""
    notes: list[str] = []
    """What was assumed of the whole file."""
    shown: list[RowPreview]

    def as_json(self) -> dict[str, Any]:
        return self.model_dump()

    def lines(self) -> Iterator[str]:
        """The preview as text; a line that begins with `!` is a warning."""
        yield from self.counts()
        for shown in self.shown:
            yield f"  row {shown.row}, as published"
            yield from (f"      {name}: {value}" for name, value in shown.published.items())
            yield f"  row {shown.row}, {'rejected: ' + shown.rejected if shown.rejected else 'as read'}"
            yield from (f"    > {name}: {value}" for name, value in shown.read.items())
            yield from (f"    > removed: {text}" for text in shown.removed)

    def counts(self) -> Iterator[str]:
        """The lines about all rows."""
        rows = f"{self.rows:,} rows"
        yield f"{self.source}: layout {self.layout}; {self.kept:,} of the first {rows} are {self.domain} problems"
        for reason, count in self.rejected.items():
            yield f"! {count:,} of {rows}: {reason}"
        for name, count in self.concerns.items():
            if count:
                yield f"! {count:,} of {rows}: {CONCERNS[name]}, e.g. {self.examples[name]}"
        yield from (f"! {note}" for note in self.notes)
        for template, count in self.templates.items():
            yield f"  removed from {count:,} prompts: {template}"
        if self.ignored:
            yield f"  nothing is read from (kept in the metadata): {', '.join(self.ignored)}"


def preview_file(
    path: str | Path, domain: str = "math", columns: Columns | None = None, source: str = "", rows: int = ROWS_LOOKED_AT
) -> FilePreview:
    """Preview how the first `rows` rows of a file are read. Raises the errors of `read_problems` for a file that is
    missing, unreadable or in no known layout."""
    path = Path(path)
    file = open_raw_file(path, domain, columns, source or source_names([path])[0])
    rejected, templates, ignored = Counter[str](), Counter[str](), set[str]()
    concerns, examples = dict.fromkeys(CONCERNS, 0), dict[str, str]()
    notes = [ASSUMED] if file.option_numbers == "perhaps from 0" else []
    sample, shown = list(islice(read_rows(path), rows)), []
    for number, raw in enumerate(sample):
        fields = {raw.field: raw.reason} if isinstance(raw, Malformed) else raw
        row = RowPreview(row=number, published={name: _short(value) for name, value in fields.items()})
        try:
            if isinstance(raw, Malformed):
                raise raw
            problem, statement = _problem(raw, file)
            row.removed = [text for _, text in statement.removed]
            row.read = {name: _short(value) for name in _READ if (value := getattr(problem, name)) is not None}
            if problem.golden_solutions:
                row.read["golden_solutions"] = f"{len(problem.golden_solutions)}"
            templates.update(name for name, _ in statement.removed)
            kept = json.loads(problem.metadata or "{}")  # an own domain's answer too, as it was published
            ignored |= {name for name, value in kept.items() if name in raw and value != problem.answer}
            for concern, example in _concerns(problem, row.removed, _options(raw), _system_prompt(raw)):
                concerns[concern] += 1
                examples.setdefault(concern, f"row {number}: {example}")
        except UNREADABLE as error:
            row.rejected = str(error) if isinstance(error, Malformed) else repr(error)[:200]
            rejected[row.rejected] += 1
        if number in (0, len(sample) // 2, len(sample) - 1):
            shown.append(row)
    return FilePreview(
        source=file.source, domain=domain, layout=file.layout, rows=len(sample), kept=len(sample) - rejected.total(),
        rejected=dict(rejected.most_common(5)), ignored=sorted(ignored), templates=dict(templates.most_common()),
        concerns=concerns, examples=examples, notes=notes, shown=shown,
    )  # fmt: skip


def preview_sources(
    name: str | Path, domain: str = "math", columns: Columns | None = None, rows: int = ROWS_LOOKED_AT
) -> list[FilePreview]:
    """Previews of each file of a source: a file, directory, glob, or data set on the Hugging Face Hub."""
    paths = local_files(name)
    named = zip(paths, source_names(paths), strict=True)
    return [preview_file(path, domain, columns, source, rows) for path, source in named]


def first_problems(
    path: str | Path, domain: str, columns: Columns | None = None, count: int = 3
) -> list[tuple[int, Problem]]:
    """Up to `count` problems among a file's first `ROWS_LOOKED_AT` rows, each with its row, counted from 0. Raises the
    errors of `read_problems` for the file."""
    file, found = open_raw_file(path := Path(path), domain, columns, source_names([path])[0]), []
    for number, raw in enumerate(islice(read_rows(path), ROWS_LOOKED_AT)):
        if isinstance(raw, Malformed):
            continue
        with suppress(*UNREADABLE):
            found.append((number, _problem(raw, file)[0]))
        if len(found) == count:
            break
    return found


def _problem(raw: Row, file: RawFile) -> tuple[Problem, Statement]:
    """The problem that a row is read as, and its statement. Raises the errors of reading, and Malformed for a row that
    is no problem of the domain."""
    row, statement = read_row(deepcopy(raw), file.domain, file.converter())
    values: dict[str, Any] = {name: row.get(name) for name in PROBLEM_SCHEMA.names}
    problem = Problem(**values)
    if problem.domain != file.domain:
        raise Malformed("domain", f"a problem of {problem.domain}")
    if not problem.prompt:
        raise Malformed("prompt", "nothing but a template")
    return problem, statement


def _concerns(
    problem: Problem, removed: Sequence[str], options: Sequence[str], system_prompt: str
) -> Iterator[tuple[str, str]]:
    """The suspicious findings, keys of `CONCERNS`, each with the evidence."""
    domain = domain_of(problem.domain)
    if missing := domain.fault(problem):
        yield "no_reference", missing
    elif fault := domain.reference_fault(problem):
        yield "unverifiable", f"{problem.answer!r}: {fault}"
    if sum(map(len, removed)) > len(problem.prompt):
        yield "mostly_template", f"only {_short(problem.prompt)!r} is left"
    if (absent := next((text for text in options if text not in problem.prompt), None)) is not None:
        yield "options_missing", f"{absent!r} is not in it"
    if system_prompt and system_prompt not in problem.prompt:
        yield "system_prompt", repr(_short(system_prompt))


def _system_prompt(raw: Row) -> str:
    """The system turn of a row's chat; "" without one."""
    for value in raw.values():
        with suppress(Malformed):
            roles = dict(reversed(chat_turns(value, ""))) if isinstance(value, list) else {}
            if isinstance(system := roles.get("system"), str):
                return system
    return ""


def _options(raw: Row) -> list[str]:
    """The options that a row has; none if they cannot be read."""
    if not has_options({*raw}):
        return []
    try:
        options = take_options(RawRow(deepcopy(raw)))
    except Malformed:
        return []
    return [text for text in options.texts if text] if options else []


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}… ({len(text):,} characters)"
