"""Responses sampled elsewhere, to be judged and scored here.

The format of a file is recognized by its content; docs/evaluation.md lists the known ones. Scores that depend on finish
reasons or lengths are undefined where a file has none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.data_curation.base.openai_stream import FINISHED, with_thought
from ratchet.evaluation.benchmarks import PUBLISHED_IDS, metadata_value
from ratchet.evaluation.sampling import GENERATION_SCHEMA
from ratchet.evaluation.spec import Plan
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem

ROWS_AT_ONCE = 256
IDS = ("problem_id", *PUBLISHED_IDS)
STATEMENTS = ("question", "problem", "question_content", "prompt", "query", "full_prompt", "input", "messages")
RESPONSES = ("response", "responses", "output", "outputs", "generation", "generations", "completion", "completions",
             "solution", "predictions", "prediction", "model_output", "generated_text", "resps", "output_list",
             "code_list", "code", "text")  # fmt: skip
"""Columns with a response or a list of them; the first that a row has counts, if it is not an empty list."""
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
ENDINGS = ("finish_reason", "finish_reasons", "stop_reason")
LENGTHS = ("tokens", "output_tokens", "completion_tokens", "num_tokens")


class ImportedGenerations:
    """A Parquet file with `GENERATION_SCHEMA`."""

    def __init__(self, plan: Plan) -> None:
        self.path = plan.spec.model.generations
        self.total = pq.read_metadata(self.path).num_rows

    def stream(self) -> Iterator[pa.Table]:
        for batch in pq.ParquetFile(self.path).iter_batches(ROWS_AT_ONCE):
            yield pa.Table.from_batches([batch]).cast(GENERATION_SCHEMA)

    in_order = stream


def import_generations(
    path: Path, rows: Iterable[dict[str, Any] | Exception], benchmark: str, problems: Sequence[Problem]
) -> pa.Table:
    """A benchmark's responses from the rows of another tool's file, with `GENERATION_SCHEMA`. Raises RatchetError
    naming file and row for one that cannot be read, for an unknown format, and for a question that the benchmark does
    not have."""
    find, by_id = _Finder(problems), {problem.problem_id: problem for problem in problems}
    samples: Counter[str] = Counter()
    generations: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        where = f"{path}, row {number}"
        if isinstance(row, Exception):
            raise RatchetError(f"{where}: {row}.")
        responses = _responses(row, where)
        question = find.problem(row)
        if question is None:
            asked = next(iter([*_statements(row), *_ids(row)]), "")
            raise RatchetError(
                f"{where}: benchmark {benchmark} has no question {asked[:80]!r}. A row must have the id or the text of "
                "a question of this benchmark, in this version."
            )
        for text, reason, tokens in responses:
            if by_id[question].domain == "code" and reason != "error":
                text = _fenced(text, by_id[question])
            generations.append(
                {"benchmark": benchmark, "problem_id": question, "sample": samples[question], "text": text,
                 "finish_reason": reason, "tokens": tokens}
            )  # fmt: skip
            samples[question] += 1
    if not generations:
        raise RatchetError(f"{path} has no responses.")
    return pa.Table.from_pylist(generations, schema=GENERATION_SCHEMA)


def _responses(row: Mapping[str, Any], where: str) -> list[tuple[str, str, int | None]]:
    """Text, finish reason as in `GENERATION_SCHEMA`, and number of tokens, if known, of each response. Raises
    RatchetError for a row without any."""
    inner = row.get("model_response")  # lighteval's
    own = inner if isinstance(inner, Mapping) else row
    name = next((name for name in RESPONSES if name in own and own[name] != []), None)
    if name is None:
        raise RatchetError(
            f"{where}: no response. It has {', '.join(row)}; a response must be in one of {', '.join(RESPONSES)} "
            "(docs/evaluation.md lists the known formats)."
        )
    texts = _list(own[name])
    if len(texts) == 1 and isinstance(texts[0], list):  # lm-eval's
        texts = texts[0]
    facts = (
        next((_list(own[key]) for key in keys if own.get(key) is not None), []) for keys in (ENDINGS, LENGTHS, THOUGHTS)
    )
    ends, counts, thoughts = (values if len(values) == len(texts) else [None] * len(texts) for values in facts)
    responses = []
    for text, end, count, thought in zip(texts, ends, counts, thoughts, strict=True):
        reason = FINISHED.get(str(end).lower(), "error" if end == "error" else "unknown")
        text = with_thought("" if text is None else str(text), str(thought or ""), reason != "length")
        tokens = len(count) if isinstance(count, list) else count
        responses.append((text, reason, tokens if isinstance(tokens, int) else None))
    return responses


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _fenced(text: str, problem: Problem) -> str:
    """A bare program as a fenced response; one that starts inside a function gets the given header first."""
    if "```" in text or not text.strip():
        return text
    inside = text[0] in " \t" or text[:2] == "\n "
    begun = (problem.starter_code or problem.prompt).rstrip() + "\n" if inside else ""
    return f"```python\n{begun}{text}\n```"


def _ids(row: Mapping[str, Any]) -> list[str]:
    return [str(row[name]) for name in IDS if isinstance(row.get(name), str | int)]


def _statements(row: Mapping[str, Any]) -> list[str]:
    doc = row.get("doc")
    for place in (row, doc if isinstance(doc, Mapping) else {}):
        for name in STATEMENTS:
            value = place.get(name)
            if isinstance(value, list | tuple):  # a chat: the last user turn
                turns = (turn for turn in reversed(value) if isinstance(turn, Mapping) and turn.get("role") == "user")
                value = next(turns, {}).get("content")
            if isinstance(value, str) and value.strip():
                return [value]
    return []


class _Finder:
    """Finds a row's problem by its statement, also inside a longer prompt, or else by `problem_id` or the published id:
    a plain `id` may be a row number."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.by_id: dict[str, str] = {}
        self.by_statement: dict[str, str] = {}
        for problem in problems:
            for name in (problem.problem_id, *(metadata_value(problem, [key]) for key in PUBLISHED_IDS)):
                if name is not None and self.by_id.setdefault(str(name), problem.problem_id) != problem.problem_id:
                    self.by_id[str(name)] = ""  # an id of two questions names neither
            self.by_statement[_folded(problem.prompt)] = problem.problem_id
        # A statement may be part of a longer one.
        self.longest_first = sorted(self.by_statement, key=len, reverse=True)

    def problem(self, row: Mapping[str, Any]) -> str | None:
        for text in map(_folded, _statements(row)):
            if text in self.by_statement:
                return self.by_statement[text]
            if match := next((self.by_statement[s] for s in self.longest_first if s and s in text), None):
                return match
        return next((self.by_id[name] for name in _ids(row) if self.by_id.get(name)), None)


def _folded(text: str) -> str:
    return " ".join(text.split())
