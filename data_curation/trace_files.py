r"""Read traces for a supervised start from files: a user turn and the response to learn.

The layout is recognized by the columns, or by those that the recipe maps:

    messages, conversations     a chat of one question and one answer, in OpenAI's or ShareGPT's layout; thinking that a
                                message has in a field of its own (`reasoning_content`) comes before the answer
    prompt and response         the user turn and the answer; either may be a list of messages, as in TRL
    a problem and its solution  any layout that curation reads: the statement gets the recipe's prompt template; the
                                answer is the worked solution, ending in \boxed{}, or the program in a fenced block
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.data_curation.base.openai_stream import with_thought
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import columns_of, open_raw_file, read_problems
from ratchet.data_curation.readers.boxed import final_box
from ratchet.data_curation.readers.columns import RawRow, chat_turns, parse_structure
from ratchet.data_curation.readers.raw_files import Malformed, Row, read_rows
from ratchet.data_curation.readers.templates import clean_statement
from ratchet.data_curation.split import to_json
from ratchet.verifiers.code.domain import languages_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem, problem_id

STEP = "traces"
CHATS = ("messages", "conversations", "conversation")
PROMPTS = ("prompt", "instruction", "question", "problem")
RESPONSES = ("response", "completion")
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Fields of an assistant's message, as servers with a reasoning parser give it, that hold its thinking."""
_CALCULATIONS = re.compile(r"<<[^<>]*>>")  # GSM8K's calculator annotations
_FINAL = re.compile(r"\s*^####[^\n]*\s*\Z", re.MULTILINE)  # GSM8K's last line; others are headings
TurnsOf = Callable[[RawRow], list[tuple[str, Any]]]


@dataclass(frozen=True)
class Trace:
    """One trace: a user turn and the response to learn."""

    problem: Problem
    """The statement, identity and source of the problem."""
    prompt: str
    """The user turn as the model sees it."""
    response: str


def read_traces(
    path: Path, source: str, domain: str, template: Callable[[Problem], str], columns: Mapping[str, str],
    domains: Collection[str] = (),
) -> tuple[list[Trace], list[Row]]:  # fmt: skip
    """The traces of a file and its other rows, each with rule and evidence (columns of `REJECTED_SCHEMA`).

    `columns` maps `messages`, or `prompt` and `response`, or the fields of a problem (`metadata.solution` is the worked
    one) to the file's columns; of chats and prompts also `domain`, whose rows must name one of `domains`. `template`
    formats a problem of `domain` as a user turn. Raises RatchetError for a file that cannot be read, that lacks a
    mapped column, or of which no row can be used.
    """
    seen = _columns_of(path, columns)
    there = ", ".join(sorted(seen)) or "none"
    turns_of = _turns_of(seen, columns)
    if turns_of is None and "domain" in columns:
        raise RatchetError(
            f"{path}: a column of domains is for chats and prompts; name the files of each domain instead."
        )

    def row_domain(row: Row) -> str:
        if "domain" not in columns:
            return domain
        if not isinstance(value := row.get(columns["domain"]), str) or value not in domains:
            raise Malformed(columns["domain"], f"{value!r} is none of the recipe's domains: {', '.join(domains)}")
        return value

    if turns_of:
        found = [*_of_rows(path, source, row_domain, turns_of, columns.values())]
    else:
        found = [*_of_problems(path, source, domain, template, columns)]
    traces = [each for each in found if isinstance(each, Trace)]
    rejected = [each for each in found if not isinstance(each, Trace)]
    if not traces:
        first = f", the first because of {rejected[0]['rule']}: {rejected[0]['evidence']}" if rejected else ""
        raise RatchetError(f"{path}: not one row of it can be used as a trace{first}. Its columns are {there}.")
    return traces, rejected


def check_columns(path: Path, domain: str, columns: Mapping[str, str]) -> None:
    """Raises RatchetError, from a file's first rows, if it lacks a mapped column or its layout is unknown."""
    if _turns_of(_columns_of(path, columns), columns) is None:
        open_raw_file(path, domain, columns)


def _columns_of(path: Path, columns: Mapping[str, str]) -> set[str]:
    seen = columns_of(path, columns)
    if missing := [name for name in columns.values() if name not in seen]:
        raise RatchetError(
            f"{path}: there is no column {missing[0]!r}; its columns are {', '.join(sorted(seen)) or 'none'}."
        )
    return seen


def _turns_of(seen: Collection[str], columns: Mapping[str, str]) -> TurnsOf | None:
    """A reader of a row's turns, by these mapped columns or the usual ones; None for rows that are problems."""
    mapped = {name: (columns[name],) for name in ("messages", "prompt", "response") if name in columns}
    usual = {*seen} if not columns.keys() - {"domain", "prompt"} else set()
    if "messages" in mapped or (usual & {*CHATS} and "prompt" not in mapped):
        chats = mapped.get("messages", CHATS)
        return lambda row: _chat(row.get(name := row.filled(chats)), name)
    if "response" in mapped or (usual & {*RESPONSES} and ("prompt" in mapped or usual & {*PROMPTS})):
        sides = ("user", mapped.get("prompt", PROMPTS)), ("assistant", mapped.get("response", RESPONSES))
        return lambda row: [turn for role, names in sides for turn in _side(role, row.take(*names), row)]
    return None


def _side(role: str, value: Any, row: RawRow) -> list[tuple[str, Any]]:
    if isinstance(value, list):
        return _chat(value, role)
    # `reasoning` and `thinking` beside a response may be a grader's, or "on"
    return [(role, _with_thinking(value, row, THOUGHTS[:1]) if role == "assistant" else value)]


def _chat(chat: Any, name: str) -> list[tuple[str, Any]]:
    """The turns of a chat, the assistant's with their thinking."""
    chat = parse_structure(chat, name) if isinstance(chat, str) else chat
    messages = [turn for turn in chat if isinstance(turn, dict)] if isinstance(chat, list) else chat
    return [
        (role, _with_thinking(text, message, THOUGHTS) if role == "assistant" else text)
        for (role, text), message in zip(chat_turns(messages, name), messages, strict=True)
    ]


def _with_thinking(text: Any, holder: Row, names: Sequence[str]) -> Any:
    """The text after the thinking that is beside it, as the model would write both."""
    thought = next((held for name in names if isinstance(held := holder.get(name), str) and held.strip()), "")
    answers = isinstance(text, str) and text.strip() and "</think>" not in text
    return with_thought(text, thought.strip("\n"), ended=True) if answers else text


def _of_rows(
    path: Path, source: str, row_domain: Callable[[Row], str], turns_of: TurnsOf, nested: Collection[str]
) -> Iterator[Trace | Row]:
    for number, row in enumerate(read_rows(path)):
        try:
            if isinstance(row, Malformed):
                raise row
            raw = RawRow(row)
            for name in nested:
                raw.lift(name)
            domain = row_domain(raw)
            turns = [turn for turn in turns_of(raw) if turn[0] != "system"]  # a model in training gets none
            if [role for role, _ in turns] != ["user", "assistant"]:
                raise Malformed("turns", f"{len(turns)} turns instead of one question and one answer")
            prompt, response = (RawRow({role: text}).take_text(role) for role, text in turns)
        except Malformed as fault:
            yield _rejected(path, number, source, str(fault))
            continue
        statement = clean_statement(prompt).text
        yield Trace(Problem(problem_id(domain, statement), domain, statement, source, str(number)), prompt, response)


def _of_problems(
    path: Path, source: str, domain: str, template: Callable[[Problem], str], columns: Mapping[str, str]
) -> Iterator[Trace | Row]:
    split = read_problems(path, domain, columns, source)
    yield from split.rejected.to_pylist()
    for problem in from_table(split.kept):
        if response := worked_solution(problem):
            yield Trace(problem, template(problem), response)
        else:
            about = {"problem_id": problem.problem_id, "prompt": problem.prompt}
            yield _rejected(path, problem.source_id or 0, source, "no worked solution") | about


def worked_solution(problem: Problem) -> str | None:
    r"""The solution as a model should write it: without GSM8K's calculator annotations, with the final answer in
    `\boxed{}`; or a golden program in a fenced block."""
    solution: Any = json.loads(problem.metadata or "{}").get("solution")
    if isinstance(solution, str) and solution.strip():
        text = _CALCULATIONS.sub("", solution).strip()
        if problem.answer:
            text = _FINAL.sub("", text).strip()
        if final_box(text) is None and problem.answer:
            text = f"{text}\n\\boxed{{{problem.answer}}}"
        return text
    if problem.golden_solutions:
        return f"```{languages_of(problem)[0]}\n{problem.golden_solutions[0].strip()}\n```"
    return None


def _rejected(path: Path, number: int | str, source: str, reason: str) -> Row:
    evidence = to_json({"file": path.name, "row": number, "reason": reason})
    return {"source": source, "source_id": str(number), "step": STEP, "rule": "malformed", "evidence": evidence}


def problem_rows(traces: list[Trace]) -> Iterator[Row]:
    """The columns that decontamination compares."""
    names = ("problem_id", "domain", "source", "source_id", "source_url", "prompt")
    for trace in traces:
        yield {name: getattr(trace.problem, name) for name in names}
