"""Parts of a response: the text after its thinking, and its program. Boxed answers: `math/boxes.py`."""

import itertools
import re
import textwrap

MAX_ANSWER_CHARACTERS = 2048

_OPENS = re.compile(r"(\ufeff?[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}(?=[^`]*$)|~{3,})(.*)")
_QUOTED = re.compile(r"(?: {0,3}> ?)+(.*)")
"""A line of a block quote, which may have fences of its own."""
_CLOSES = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)")
_NESTED = re.compile(r"[A-Za-z][\w.+#-]*[ \t]*\Z")
"""The rest of a line with a fence that opens a block within a block's text, as in a docstring; other text may follow a
closing fence."""
_TRIPLE = ('"""', "'''")
_QUOTES = re.compile(r"""\"{3}|'{3}|\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|#""")
_MOST_TRIES = 20
"""Blocks of a response in which quotes that never end are looked for."""
_MARK = re.compile(r"[\w+#.-]+")
_PYTHON = re.compile(r"(?:python|py|pypy|cpython)-?(?:\d+(?:\.\d+)*)?\Z")
_CPP = re.compile(r"(?:cpp|c\+\+|cc|cxx|gnu\+\+)-?\d*\Z")
_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)


def after_thinking(response: str) -> str | None:
    """The text after the last `</think>`, in any case of letters; None if a `<think>` is still open at the end.

    If the prompt itself ends in `<think>` (`PromptFormat.response_prefix`), pass prefix and response joined.
    """
    last = None
    for last in _THINK.finditer(response):  # noqa: B007
        pass
    if last is None:
        return response
    return response[last.end() :] if last[1] else None


def python_program(response: str) -> str | None:
    """The last closed fenced block after the thinking that is marked as Python; without one, the last unmarked block;
    without one, the last block. Dedented."""
    blocks = marked_blocks(response)
    program = (
        [body for mark, body in blocks if language_of(mark) == "python"]
        or [body for mark, body in blocks if not mark]
        or [body for _, body in blocks]
        or [""]
    )[-1]
    return program if program.strip() else None


def language_of(mark: str) -> str:
    """The language of a program's block by its mark, `python` or `cpp`; "" for any other mark."""
    return "python" if _PYTHON.match(mark) else "cpp" if _CPP.match(mark) else ""


def marked_blocks(response: str) -> list[tuple[str, str]]:
    """The closed fenced blocks after the thinking, each as the first word of its mark in lower case and its dedented
    text. As in CommonMark (sections 4.5, 5.2), except that text may follow the closing fence."""
    text = after_thinking(response)
    if not text or ("```" not in text and "~~~" not in text):
        return []
    return _blocks(text.replace("\r\n", "\n").split("\n"))


def _blocks(lines: list[str]) -> list[tuple[str, str]]:
    blocks: list[tuple[str, str]] = []
    position, tries = 0, _MOST_TRIES
    while position < len(lines):
        if _QUOTED.match(lines[position]):
            quoted = list(itertools.takewhile(bool, map(_QUOTED.match, lines[position:])))
            blocks += _blocks([match[1] for match in quoted if match])
            position += len(quoted)
            continue
        match = _OPENS.match(lines[position])
        position += 1
        if match is None:
            continue
        mark, indent = _mark_of(match[3]), len(match[1].expandtabs(4))
        end = _end_of(lines, position, match[2], indent, tries > 0 and language_of(mark) != "cpp")
        if end < 0:  # a text in quotes that never ends, or no end at all
            tries -= 1
            end = _end_of(lines, position, match[2], indent, False)
        if end < 0:
            break
        blocks.append((mark, textwrap.dedent("".join(f"{line}\n" for line in lines[position:end]))))
        position = end + 1
    return blocks


def _end_of(lines: list[str], begin: int, fence: str, indent: int, has_strings: bool) -> int:
    """The line that ends a block, -1 if none does. `has_strings`: a fence in a triple-quoted text of Python is text."""
    quote = ""
    for number in range(begin, len(lines)):
        if not quote and _ends(lines[number], fence, indent):
            return number
        if has_strings:
            quote = _quote_after(lines[number], quote)
    return -1


def _quote_after(line: str, quote: str) -> str:
    """The triple quotes that are open at the end of a line of Python, by those open at its beginning."""
    for token in _QUOTES.findall(line):
        if quote:
            quote = "" if token == quote else quote
        elif token in _TRIPLE:
            quote = token
        elif token[0] == "#":
            break
    return quote


def _ends(line: str, fence: str, indent: int) -> bool:
    """True if a line in a block ends it: a fence as long, not deeper than three spaces."""
    match = _CLOSES.match(line)
    if match is None or match[2][0] != fence[0] or len(match[2]) < len(fence):
        return False
    return len(match[1].expandtabs(4)) < indent + 4 and not _NESTED.match(match[3])


def _mark_of(info: str) -> str:
    """The first word of an info string: `python title="x"`, `{.python .numberLines}`."""
    match = _MARK.search(info.strip().lstrip("{").lstrip("."))
    return match[0].lower().strip(".") if match else ""
