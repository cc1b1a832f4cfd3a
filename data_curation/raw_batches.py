"""Convert batches of raw rows to problems: each row is read by the file's layout, its statement cleaned and its content
identity computed; rows that cannot be read are rejected. Runs in any process."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.data_curation.base.problem_table import PROBLEM_SCHEMA
from ratchet.data_curation.base.protocol import valid_text
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.readers.columns import (
    Format,
    NumbersAre,
    RawRow,
    chat_turns,
    parse_structure,
    restored,
    unicode_text,
)
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS, Columns, by_columns, mapped_names, respelled
from ratchet.data_curation.readers.raw_files import Malformed, Raw, Row, parsed
from ratchet.data_curation.readers.rl_formats import openthoughts, verified
from ratchet.data_curation.readers.templates import Statement, clean_statement
from ratchet.data_curation.split import Split, assemble, to_json
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import JUDGED_FIELDS, problem_id
from ratchet.verifiers.serving.rows import COLUMN, decode

STEP = "normalize"
RULES = ("malformed", "other_domain", "empty")
WINDOW_RULES = (*RULES, "outside_window")
Window = tuple[date, date]  # from the first day up to, but not including, the second
MAX_STATEMENT = 100_000
"""Most characters of a statement. A longer text is no statement, and would slow down every later step."""
UNREADABLE = (Malformed, LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""Exceptions that reading a published row can raise, since it can be wrong in any way."""
OWN_COLUMNS = "own columns"
_SHOWN_TEMPLATE = 400
_SHOWN = ("problem_id", "source", "source_id", "prompt")


@dataclass(frozen=True)
class RawFile:
    """A file whose rows are problems of a domain, in the layout of that name or with mapped columns."""

    path: Path
    domain: str
    layout: str
    seen: frozenset[str]
    """The file's columns."""
    columns: Columns
    """The recipe's mapping of fields to columns."""
    source: str
    window: Window | None
    option_numbers: NumbersAre = "from 0"
    """What numbers of right options are."""

    @property
    def title(self) -> str:
        """Name of the file in the summary."""
        *folders, _ = self.source.split("/")
        return "/".join([*folders, self.path.name]) + f" ({self.layout})"

    def row_file(self, name: str) -> str:
        """The file, or the folder of a package, in which a folder has the row of this name."""
        return file if (self.path / (file := f"{name}.json")).is_file() else name

    def converter(self) -> Callable[[RawRow], Row]:
        """The function that reads the layout, looked up by name in each process because functions cannot be pickled."""
        convert = self._converter()
        if self.option_numbers == "from 0":
            return convert

        def counted(row: RawRow) -> Row:
            row.option_numbers = self.option_numbers
            return convert(row)

        return counted

    def _converter(self) -> Callable[[RawRow], Row]:
        if self.layout == OWN_COLUMNS:
            return self._by_own_columns
        convert = next(layout for layout in formats_of(self.domain) if layout.name == self.layout).convert
        names = respelled(self.seen)

        def respell(row: RawRow) -> Row:
            for name in names.keys() & row.keys():
                row[names[name]] = row.pop(name)
            return convert(row)

        return respell if names else convert

    def statement(self, row: Row) -> str | None:
        """A text of a row that could not be read; half of a surrogate pair is escaped."""
        mapped = [self.columns["prompt"]] if "prompt" in self.columns else []
        names = (*mapped, *MATH_COLUMNS["prompt"], "question_content", "description", "query")
        for name in names:
            with suppress(*UNREADABLE):
                (copy := RawRow(row)).lift(name)
                text = copy.get(name)
                if isinstance(text, list):
                    text = "\n\n".join(said for role, said in chat_turns(text, name) if role == "user")
                with suppress(*UNREADABLE):
                    text = copy.take_statement(name)
                if isinstance(text, str) and text.strip():
                    return text[:MAX_STATEMENT].encode("utf-8", "backslashreplace").decode()
        return None

    def _by_own_columns(self, row: RawRow) -> Row:
        for path in mapped_names(self.columns):
            row.lift(path)
        return by_columns(row, self.columns, plan_of(self.domain).plain)


def formats_of(domain: str) -> tuple[Format, ...]:
    """The published layouts of a domain, in the order in which they are tried."""
    return *SHARED_FORMATS, *plan_of(domain).formats


def _ratchet(row: RawRow) -> Row:
    """Our own Parquet: the output of one curation can be the input of another."""
    problem = {name: row.pop(name, None) for name in PROBLEM_SCHEMA.names}
    if not isinstance(problem["prompt"], str) or not problem["prompt"].strip():
        raise Malformed("prompt", "missing or empty")
    unicode_text("prompt", problem["prompt"])
    metadata = parse_structure(problem["metadata"] or "{}", "metadata")
    if not isinstance(metadata, dict):
        raise Malformed("metadata", f"{type(metadata).__name__} instead of an object")
    problem["metadata"] = problem["metadata"] if metadata else "{}"
    return problem | {"released": RawRow(problem).take_date("released")}


def _verl(row: RawRow) -> Row:
    """verl, Eurus-2-RL, Skywork-OR1, and what this house exports for verl."""
    if isinstance(own := row.get("extra_info"), dict) and own.get(COLUMN):
        row.update(row.pop("extra_info"))
        return _exported(row)
    return _VERL.convert(row)


def _exported(row: RawRow) -> Row:
    """Read a row that `ratchet export` wrote for another trainer."""
    try:
        problem, _ = decode(row.take_text(COLUMN))
    except RatchetError as error:
        raise Malformed(COLUMN, str(error)) from error
    judged = {name: getattr(problem, name) for name in JUDGED_FIELDS if name != "problem_id"}
    for name in judged.keys() & row.keys() - {"prompt", "starter_code"}:
        del row[name]
    statement, starter = row.take_statement("prompt", "input", "messages"), row.take("starter_code")
    return judged | {
        "prompt": problem.prompt or statement,
        "starter_code": starter,
        "source_url": row.take("source_url"),
    }


def _open_instruct(row: RawRow) -> Row:
    """What `ratchet export` wrote for open-instruct, whose ground truth is the problem."""
    row[COLUMN], _ = row.pop("ground_truth"), row.pop("dataset")
    return _exported(row)


_VERL = verified("verl")
_OPEN_INSTRUCT = {"messages", "ground_truth", "dataset", "problem_id", "domain"}
SHARED_FORMATS = (
    Format("ratchet", lambda c: c >= {"problem_id", "domain", "prompt", "metadata"}, _ratchet),
    replace(_VERL, convert=_verl),
    Format("exported", lambda c: COLUMN in c, _exported),
    Format(
        "open-instruct", lambda c: c >= {"messages", "ground_truth", "dataset", "problem_id", "domain"}, _open_instruct
    ),
    *map(verified, ("verification", "nemo-gym", "areal")),
    Format("openthoughts", lambda c: c >= {"problem", "ground_truth_solution"}, openthoughts),
)
"""Layouts whose rows name their own domain."""


@dataclass
class RawBatch:
    """Consecutive rows of a file that are not parsed yet; `first` is the number of the first row in the file. Rows of a
    folder have `names`, those of their files."""

    file: RawFile
    first: int
    rows: list[Raw] = field(default_factory=list)
    names: Sequence[str] = ()


def normalize(batch: RawBatch) -> Split:
    """Convert a batch to problems and rejected rows: `malformed`, `other_domain`, `empty`, `outside_window`."""
    file, convert = batch.file, batch.file.converter()
    problems: list[Row] = []
    rejected: list[Row] = []
    templates_cut, shortened = Counter[str](), 0
    templates_shown = dict[str, str]()

    def reject(row: Row, rule: str, evidence: Any) -> None:
        reason = {"step": STEP, "rule": rule, "evidence": to_json(evidence)}
        rejected.append({name: row.get(name) for name in _SHOWN} | reason)

    def malformed(row: Row, fault: Malformed) -> None:
        place = row["source_id"]
        name, number = (file.row_file(place), 0) if batch.names else (file.path.name, int(place))
        reject(row, "malformed", {"file": name, "row": number, "field": fault.field, "reason": fault.reason})

    numbers = dict[str, int]()
    for number, row in enumerate(chain.from_iterable(map(parsed, batch.rows)), batch.first):
        name = batch.names[number - batch.first] if batch.names else str(number)
        numbers[name] = number
        place = {"source": file.source, "source_id": name}
        try:
            if isinstance(row, Malformed):
                raise row
            problem, statement_read = read_row(row, file.domain, convert)
            problem |= place
            for template, removed in statement_read.removed:
                templates_cut[template] += 1
                templates_shown.setdefault(template, f"{file.source}:{name}: {removed}"[:_SHOWN_TEMPLATE])
            shortened += statement_read.lost_most
            released = problem.get("released")
            if problem["domain"] != file.domain:
                reject(problem, "other_domain", {"domain": problem["domain"]})
            elif file.window and not (released is not None and file.window[0] <= released < file.window[1]):
                evidence = {"released": str(released), "window": [str(day) for day in file.window]}
                reject(problem, "outside_window", evidence)
            elif not problem["prompt"]:
                reject(problem, "empty", {})
            else:
                problems.append(problem)
        except UNREADABLE as error:
            # A published row can be wrong in any way; the error that it causes is evidence, not our failure.
            fault = error if isinstance(error, Malformed) else Malformed("row", repr(error)[:200])
            malformed(place | {"prompt": None if isinstance(row, Malformed) else file.statement(row)}, fault)
    try:
        table = pa.Table.from_pylist(problems, schema=PROBLEM_SCHEMA)
    except _UNFIT:
        fit = []
        for problem in problems:
            if fault := _unfit(problem):
                malformed(problem | {"problem_id": None, fault.field: None}, fault)
            else:
                fit.append(problem)
        table = pa.Table.from_pylist(fit, schema=PROBLEM_SCHEMA)
    rejected.sort(key=lambda row: numbers[row["source_id"]])
    lost = [row["evidence"] for row in rejected if row["rule"] == "malformed"]
    measured = {
        "files": {file.title: len(table) + len(rejected)},
        **({"unreadable": {file.title: len(lost)}, "unreadable_first": {file.title: lost[0]}} if lost else {}),
        **({"shortened": {file.title: shortened}} if shortened else {}),
        "templates_cut": dict(sorted(templates_cut.items())),
        "templates_shown": dict(sorted(templates_shown.items())),
    }
    return assemble(STEP, WINDOW_RULES if file.window else RULES, table, rejected, **measured)


def read_row(raw: Row, domain: str, convert: Callable[[RawRow], Row]) -> tuple[Row, Statement]:
    """The columns of a problem, and its statement with the text that was removed from it."""
    row = RawRow({name: None if isinstance(value, float) and value != value else value for name, value in raw.items()})
    if domain != "code":
        row.restore_backslashes()
    problem: Row = {"domain": domain} | convert(row)
    rest = {name: value for name, value in row.items() if value is not None}
    problem["metadata"] = problem.get("metadata") or valid_text(to_json(rest))
    if (length := len(problem["prompt"])) > MAX_STATEMENT:
        raise Malformed("prompt", f"{length:,} characters, more than {MAX_STATEMENT:,}")
    text = problem["prompt"] if problem["domain"] == "code" else restored(problem["prompt"])  # tabs of code are tabs
    statement = clean_statement(text)
    if statement.starter_code:  # nothing is lost where the row has it as a column
        problem["starter_code"] = problem.get("starter_code") or statement.starter_code
        statement = replace(statement, own_characters=0)
    problem["prompt"] = statement.text
    problem["problem_id"] = problem_id(problem["domain"], problem["prompt"], problem.get("entry_point"))
    return problem, statement


_UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)


def _unfit(problem: Row) -> Malformed | None:
    """The column of this row whose value the schema cannot hold, if any."""
    for column in PROBLEM_SCHEMA:
        try:
            pa.array([problem.get(column.name)], column.type)
        except _UNFIT as error:
            return Malformed(column.name, str(error)[:200])
    return None
