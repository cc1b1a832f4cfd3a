"""Take columns from a raw row. Columns that no reader takes become the problem's metadata."""

import ast
import contextlib
import json
import re
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal

from ratchet.data_curation.readers.boxed import final_box
from ratchet.data_curation.readers.limits import read_megabytes, read_seconds
from ratchet.data_curation.readers.raw_files import Malformed, Row
from ratchet.verifiers.math.boxes import boxes

EMPTY = (None, "", [], {})
_EARLIEST = 10**8
"""A smaller number is no time in seconds since 1970 but a year."""
_MILLISECONDS = 10**11
"""A larger number is in milliseconds."""
_FINAL_LINE = re.compile(r"(?:\A|\n)####[ \t]*(\S.*?)\s*\Z")
_MOST_ANSWER_WORDS = 40  # more, over several lines, is a worked solution
_NO_ANSWER = frozenset((
    "notfound", "not found", "none", "nan", "n/a", "<na>", "null", "unknown", "no answer", "not available", "missing",
    "not provided", "not given", "none given", "tbd", "todo", "-", "--", "?", "[]", "()", "placeholder", "<answer>",
    "your answer", "answer here",
))  # fmt: skip
"""Texts that data sets have in place of a missing reference."""
_WRAPPED = re.compile(r"\\(?:text|mathrm|textbf|f?boxed|fbox)\s*\{([^{}]*)\}")
_LOST_BACKSLASH = re.compile(
    r"[\a\x08\v\f](?=[a-z])|\r(?=ight|ho\b|angle|floor|ceil|m\{|brace)"
    r"|\t(?=imes|heta|ext(?:bf|it|rm|sf|tt)?\{|frac|riangle|ilde|au\b)|\n(?=eq(?![a-z])|abla|leq|geq|otin)"
)
_FENCED = re.compile(r"```(?:python3?|py)?[^\S\n]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
PYTHON_NAMES = ("python", "python3", "py3", "py", "pypy3", "python 3")
_PROGRAM = ("code", "solution", "program", "source_code", "content")
"""Names of a program in an object."""
_MOST_RESTORED = 100_000
_TRUE = ("True", "true")
_A_LIST = re.compile(r"\s*\[(?:[\"']|-?\d+(?:\.\d+)?\]\s*\Z)")
_AN_OBJECT = re.compile(r'\s*\{\s*"')
_LETTERS = {"\a": "a", "\b": "b", "\v": "v", "\f": "f", "\r": "r", "\t": "t", "\n": "n"}


NumbersAre = Literal["from 0", "from 1", "perhaps from 0", "texts", "unknown"]
"""Places of options that count from 0 or 1, or texts of options."""


@dataclass(frozen=True)
class Format:
    """A published layout, recognized by its columns. `convert` removes the columns that it knows from the row and
    returns columns of `PROBLEM_SCHEMA`."""

    name: str
    matches: Callable[[set[str]], bool]
    convert: Callable[["RawRow"], Row]


def unicode_text(name: str, value: str) -> str:
    """The text itself. Raises Malformed for one that cannot be encoded: JSON may contain half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Malformed(name, f"not Unicode text ({error.reason} at character {error.start})") from None
    return value


class RawRow(Row):
    """A row of a file. Columns that a method takes are removed; the rest becomes the problem's metadata."""

    option_numbers: NumbersAre = "from 0"
    """What the file's numbers of right options are."""

    def take(self, *names: str) -> Any:
        """Remove and return the first of these columns with a value; None when none has one."""
        value = self.pop(self.filled(names), None)
        return None if value in EMPTY or value != value else value  # which only NaN is

    def filled(self, names: tuple[str, ...]) -> str:
        """The first of these columns with a value, or else the first that exists, or the first."""
        there = [name for name in names if name in self]
        return next((name for name in there if not is_empty(self[name])), (there or names)[0])

    def take_text(self, *names: str) -> str:
        """Remove and return the first of these columns with a value. Raises Malformed unless it is a text."""
        name = self.filled(names)
        value = self.pop(name, None)
        if value in (None, ""):
            raise Malformed(name, "missing or empty")
        if not isinstance(value, str):
            raise Malformed(name, f"{type(value).__name__} instead of text")
        if not value.strip():
            raise Malformed(name, "blank")
        return unicode_text(name, value)

    def lift(self, path: str) -> None:
        """Make a nested value, such as `reward_model.ground_truth` or `messages.0.content`, a column of that name. Its
        container may be JSON text, and stays as it is for other readers of the raw row. Nothing changes for a path that
        leads nowhere."""
        first, *steps = split_path(path, self)
        if not steps:
            return
        holder: Any = self  # a copy of each container, so that the value can be removed from it
        for name, step in pairwise([first, *steps]):
            value = child(holder, name)
            if isinstance(value, str):
                value = parse_structure(value, first) if value.lstrip()[:1] in ("{", "[") else None
            elif isinstance(value, dict | list):
                value = holder[name if isinstance(holder, dict) else int(name)] = copy(value)
            if child(value, step) is None:
                return
            holder = value
        self[path] = child(holder, steps[-1])
        if isinstance(holder, dict):
            del holder[steps[-1]]

    def take_statement(self, *names: str) -> str:
        """Take a text, or what the user says last in a chat (a list of messages, or JSON text of one); system prompts,
        which rows share, are omitted, and so are worked examples. Raises Malformed for a chat whose last turn answers
        what the assistant said."""
        name = self.filled(names)
        if (chat := chat_of(self.get(name), name)) is None:
            return self.take_text(*names)
        self.pop(name)
        turns = chat_turns(chat, name)
        users = [at for at, (role, _) in enumerate(turns) if role == "user"]
        if not users:
            raise Malformed(name, "a chat without a user message")
        first = next((at + 1 for at in range(users[-1], -1, -1) if turns[at][0] != "user"), 0)
        if any(role == "assistant" and not marked_answer(str(text)) for role, text in turns[:first]):
            raise Malformed(name, "a chat of several turns, and a problem is asked in one")
        asked = [RawRow({name: text}).take_text(name) for _, text in turns[first : users[-1] + 1]]
        return "\n\n".join(asked)

    def take_structure(self, *names: str) -> Any:
        """Take a structure, published as it is, as JSON text, or as a Python literal."""
        name = self.filled(names)
        value = self.take(name)
        return parse_structure(value, name) if isinstance(value, str) else value

    def take_date(self, *names: str) -> date | None:
        """Take a date; text is read as ISO, with or without a time, and a number as seconds since 1970."""
        name = self.filled(names)
        value = self.take(name)
        if isinstance(value, datetime):
            return value.date()
        if isinstance(value, date) or value is None:
            return value
        try:
            if isinstance(value, (int, float)) and value > _EARLIEST:
                value = value / 1000 if value > _MILLISECONDS else value
                return datetime.fromtimestamp(value, UTC).date()
            return date.fromisoformat(str(value)[:10])
        except (ValueError, OverflowError, OSError):  # the last two: of no year
            raise Malformed(name, f"{str(value)[:40]!r} is not a date like 2024-08-01") from None

    def take_seconds(self, *names: str) -> float | None:
        """Take a time limit in seconds, whatever its unit (`limits.py`)."""
        name = self.filled(names)
        return read_seconds(self.take(name), name)

    def take_megabytes(self, *names: str) -> float | None:
        """Take a memory limit in megabytes, whatever its unit (`limits.py`)."""
        name = self.filled(names)
        return read_megabytes(self.take(name), name)

    def take_answer(self, *names: str) -> str | None:
        """Take a reference answer as text. A worked solution gives its last line `#### 18` or its last box, and becomes
        the row's `solution`. Raises Malformed for a solution with neither. A list holds accepted answers, or all of
        them if the row says so (OlympiadBench, TheoremQA)."""
        absent = [name for name in names if isinstance(text := self.get(name), str) and is_placeholder(text)]
        name = self.filled(tuple(name for name in names if name not in absent) or names)
        value = self.take(name if name in self else self.filled(names))
        kinds = [str(self.get(name)).casefold() for name in ("Answer_type", "answer_type")]
        is_list = any(kind.startswith("list") for kind in kinds) or str(self.get("is_multiple_answer")) in _TRUE
        try:
            return self.final_answer(answer_text(all_answers(value) if is_list else value))
        except Malformed as fault:
            raise Malformed(name, fault.reason) from None

    def final_answer(self, value: str | None) -> str | None:
        """The reference in a text that was taken before (see `take_answer`)."""
        if value is None:
            return None
        final = marked_answer(value)
        if final:
            self["solution"] = value
        elif boxes(value, loose=True):  # empty, not closed, or around a placeholder
            return None
        elif is_solution(value):
            raise Malformed("answer", "a worked solution without a final line `#### …` or a box")
        return final or value

    def take_tests(self, *names: str) -> Any:
        """Take tests: a structure, or the text of a script."""
        return self._structure_or_text(names, ("{", "["))

    def take_solutions(self, *names: str) -> list[str]:
        """Take Python programs (`programs`), published as they are or as JSON text."""
        return programs(self._structure_or_text(names, ("[",)))

    def _structure_or_text(self, names: tuple[str, ...], opening: tuple[str, ...]) -> Any:
        """A text is a torn structure if it begins like one."""
        name = self.filled(names)
        text = self.get(name)
        try:
            return self.take_structure(name)
        except Malformed:
            if str(text).lstrip().startswith(opening):
                raise
            return text

    def restore_backslashes(self) -> None:
        """Restore LaTeX with single backslashes in texts that are short enough to be no tests."""
        for name, value in self.items():
            if isinstance(value, str) and len(value) <= _MOST_RESTORED:
                self[name] = restored(value)

    def reply(self, name: str) -> str | None:
        """The reply to the last user turn of a chat; None if there is none."""
        chat = self.get(name)
        *_, (role, text) = (chat_turns(chat, name) if isinstance(chat, list) else []) or [("", None)]
        return text if role == "assistant" and isinstance(text, str) else None


def is_empty(value: Any) -> bool:
    """True for no value: null, NaN, blank text, or a list with nothing else."""
    if isinstance(value, list):
        return all(map(is_empty, value))
    return not value.strip() if isinstance(value, str) else value in EMPTY or value != value


def programs(solution: Any) -> list[str]:
    """The Python programs of published solutions: texts, which may be fenced blocks, objects with a program and perhaps
    its language, or programs by language."""
    if isinstance(solution, list):
        return [program for one in solution for program in programs(one)]
    if isinstance(solution, dict):
        code = next((solution[name] for name in _PROGRAM if solution.get(name)), None)
        if code is None:
            return programs([held for name, held in solution.items() if str(name).casefold() in PYTHON_NAMES])
        languages = next((solution[name] for name in ("language", "lang") if solution.get(name)), None)
        if not isinstance(code, list):
            code, languages = [code], [languages]
        if not isinstance(languages, list) or len(languages) != len(code):
            languages = [languages] * len(code)
        known = zip(code, languages, strict=True)
        return programs([text for text, name in known if name is None or str(name).casefold() in PYTHON_NAMES])
    if not isinstance(solution, str) or not solution.strip():
        return []
    return (_FENCED.findall(solution) if "```" in solution and not _is_python(solution) else []) or [solution]


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def split_path(path: str, columns: Collection[str]) -> list[str]:
    """The longest column that begins a dotted path, and the steps behind it; the path alone if it is a column."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        if (column := ".".join(parts[:length])) in columns:
            return [column, *parts[length:]]
    return [path]


def child(value: Any, step: str) -> Any:
    """The member of an object by its name, or of a list by its number; None if it does not exist."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and re.fullmatch(r"-?\d+", step) and -len(value) <= int(step) < len(value):
        return value[int(step)]
    return None


_ROLES = {"human": "user", "gpt": "assistant", "model": "assistant"}


def chat_of(value: Any, name: str) -> list[Any] | None:
    """The messages of a chat, which may be JSON text; None for a value that is no list."""
    if isinstance(value, str) and value.lstrip()[:1] == "[" and '"role"' in value:
        value = parse_structure(value, name)
    return value if isinstance(value, list) else None


def chat_turns(chat: Any, name: str) -> list[tuple[str, Any]]:
    """The (role, content) pairs of OpenAI's or ShareGPT's messages, which may be JSON text."""
    if isinstance(chat, str):
        chat = parse_structure(chat, name)
    if not isinstance(chat, list):
        raise Malformed(name, f"{type(chat).__name__} instead of a list of messages")
    turns = [turn for turn in chat if isinstance(turn, dict)]
    messages = [(str(turn.get("role", turn.get("from"))), turn.get("content", turn.get("value"))) for turn in turns]
    return [(_ROLES.get(role, role), _joined(text)) for role, text in messages]


def _joined(content: Any) -> Any:
    """The text of a message in parts, if all parts are text."""
    texts = [text_of(part) for part in content] if isinstance(content, list) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        return content
    return re.sub(r"(?<=\S)\0(?=\w)", "\n", "\0".join(texts)).replace("\0", "")


def text_of(part: Any) -> Any:
    """The text of a message part or an option that may be an object."""
    return part.get("text", part.get("content")) if isinstance(part, dict) else part


def parse_structure(text: str, field: str) -> Any:
    """Parse JSON or a Python literal; nothing is evaluated. Raises Malformed."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if type(error) is ValueError:  # Python's limit; longer ones would cost minutes
            raise Malformed(field, "JSON with an integer of more than 4,300 digits") from None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise Malformed(field, "neither JSON nor a Python literal") from None


def answer_text(value: Any) -> str | None:
    """A reference answer as text: the first of a list of accepted answers, all of a list of numbers (the values of
    several unknowns), the `answer` of an object; 142.0 becomes 142."""
    if isinstance(value, str) and _A_LIST.match(value):
        value = _parsed_list(value)
    if isinstance(value, str) and _AN_OBJECT.match(value):
        with contextlib.suppress(Malformed):
            value = parse_structure(value, "answer")
    if isinstance(value, list | tuple):
        numbers = len(value) > 1 and all(isinstance(one, float | int | Decimal) for one in value)
        if len(value) > 1 and any(isinstance(one, list | tuple) for one in value):
            value = _matrix_text(value)
        else:
            value = all_answers(value) if numbers else next(iter(value), None)
    if isinstance(value, list | tuple):  # the only member of a list
        return answer_text(value)
    if isinstance(value, dict) and "answer" in value:
        return answer_text(value["answer"])
    if isinstance(value, dict | bytes):
        raise Malformed("answer", f"{type(value).__name__} instead of text")
    if isinstance(value, float) and value.is_integer():
        short = f"{value:.15g}"  # of 6.02e23, whose nearest float is 601999999999999995805696
        value = int(Decimal(short)) if float(short) == value else int(value)
    if isinstance(value, float) and len(short := f"{value:.15g}") + 2 < len(repr(value)):
        value = short  # 0.1 + 0.2 is 0.3
    text = "" if value is None else restored(str(value)).strip()
    return None if not text or is_placeholder(text) else text


def _matrix_text(rows: Any) -> str:
    """A list of rows of numbers as text. Raises Malformed for other lists of lists, which may hold anything."""
    flat = [one for row in rows if isinstance(row, list | tuple) for one in row]
    is_matrix = len({len(row) if isinstance(row, list | tuple) else -1 for row in rows}) == 1
    if not is_matrix or not all(isinstance(one, float | int | Decimal) for one in flat):
        raise Malformed("answer", "a list of lists")
    return str([[*map(answer_text, row)] for row in rows]).replace("'", "")


def all_answers(value: Any) -> Any:
    """The members of a list, which may be text, separated by commas; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        value = _parsed_list(value)
    members = [answer_text(one) for one in value] if isinstance(value, list | tuple) else []
    return ", ".join(filter(None, members)) if members else value


def _parsed_list(text: str) -> Any:
    """A list as text, whose members may have LaTeX with single backslashes; the text if it is no list."""
    for literal in (text, text.replace("\\", "\\\\")):
        with contextlib.suppress(Malformed):
            if not isinstance(value := parse_structure(literal, "answer"), list):
                return value
            return [restored(one) if isinstance(one, str) else one for one in value]
    return text


def is_placeholder(text: str) -> bool:
    r"""True if a reference says only that there is none: `nan`, `N/A`, `$None.$`, `\text{N/A}`, an empty box."""
    bare = _WRAPPED.sub(r"\1", text).strip(" \t\n$.*'\"`")
    return not bare or bare.casefold() in _NO_ANSWER


def restored(text: str) -> str:
    r"""The text with LaTeX commands that a file has with single backslashes, which JSON reads as escapes: a form feed
    before `rac` was `\frac`."""
    return _LOST_BACKSLASH.sub(lambda match: f"\\{_LETTERS[match[0]]}", text)


def marked_answer(solution: str) -> str | None:
    """The answer in a worked solution's last line `#### 18`, or else in its last box."""
    line = _FINAL_LINE.search(solution)
    answer = line[1] if line else final_box(solution)
    return None if answer is None or is_placeholder(answer) else answer


def is_solution(text: str) -> bool:
    """True if a text is too long for an answer."""
    return "\n" in text and len(re.findall(r"(?<!\\)\b[^\W\d_]{2,}", text)) > _MOST_ANSWER_WORDS
