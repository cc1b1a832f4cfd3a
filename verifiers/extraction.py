"""The answer in a response: the text after its thinking, its boxed answer, its program.

Without a fallback such as the last number: a policy rewarded through one learns not to state its answer.
`math/final_answer.py` reads the texts of others, which nobody asked for a box.
"""

import itertools
import re
import textwrap

MAX_ANSWER_CHARACTERS = 2048

_OPENS = re.compile(r"(\ufeff?[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}(?=[^`]*$)|~{3,})(.*)")
_QUOTED = re.compile(r"(?: {0,3}> ?)+(.*)")
"""A line of a block quote, which may have fences of its own."""
_CLOSES = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)")
_NESTED = re.compile(r"[A-Za-z][\w.+#-]*[ \t]*\Z")
"""What follows a fence that opens another block in the text of one, as in a docstring; other text follows its end."""
_TRIPLE = ('"""', "'''")
_QUOTES = re.compile(r"""\"{3}|'{3}|\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|#""")
_MOST_TRIES = 20
"""Blocks of a response in which quotes that never end are looked for."""
_MARK = re.compile(r"[\w+#.-]+")
_PYTHON = re.compile(r"(?:python|py|pypy|cpython)-?(?:\d+(?:\.\d+)*)?\Z")
_CPP = re.compile(r"(?:cpp|c\+\+|cc|cxx|gnu\+\+)-?\d*\Z")
_BRACE = re.compile(r"\\boxed *\{|\\.|[{}]", re.DOTALL)
_SPACE = r"(?:[\s$]|\\[()\[\],;:! ]|\\q?quad(?![a-z]))*"
_NAME = r"(?:[A-Za-z](?:_\{?\w\}?)?|\\[a-z]+)\s*="
_PART = r"\((?:[a-hA-H]|i{1,3}|i?v|[1-9])\)"
_LABEL = re.compile(rf"(?:(?P<part>{_PART})|(?<![\w\\=+*/^-])(?P<name>{_NAME})){_SPACE}\Z")
_BESIDE = re.compile(
    rf"{_SPACE}(?:[.,;]?{_SPACE}{_PART}|(?:(?:[,;&]|(?P<or>or\b|\\text\s*\{{\s*or\s*\}})|and\b|\\text\s*\{{\s*and\s*\}})"
    rf"{_SPACE})+){_SPACE}(?:{_NAME})?{_SPACE}"
)
_FARTHEST = 60
"""Characters between two boxes of one answer."""
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


def boxed_answer(response: str) -> str | None:
    r"""The content, stripped, of the `\boxed{...}` after the thinking that opens last; of boxes side by side, between
    which are only separators and names (`x=\boxed{2}` or `x=\boxed{3}`), all of them as one list.

    None if there is none, or if that one is not closed (the response was truncated, and an earlier box does not count),
    is empty, or is longer than 2,048 characters.
    """
    text = after_thinking(response)
    if text is None or "\\boxed" not in text:
        return None
    boxes: list[tuple[int, int, int]] = []  # of each closed box: its beginning, and those of its content and its brace
    opened: list[tuple[int, int]] = []  # of each open brace: the beginning of its box (-1: none) and of its content
    last = -1
    for match in _BRACE.finditer(text):
        token = match[0]
        if token == "}":
            begin, content = opened.pop() if opened else (-1, -1)
            if begin >= 0:
                boxes.append((begin, content, match.start()))
        elif token == "{":
            opened.append((-1, -1))
        elif token.startswith("\\boxed"):
            last = match.start()
            opened.append((last, match.end()))
    at = next((number for number in range(len(boxes) - 1, -1, -1) if boxes[number][0] == last), -1)
    answer = _joined(text, boxes[: at + 1]) if at >= 0 and text[slice(*boxes[at][1:])].strip() else ""
    return answer if answer and len(answer) <= MAX_ANSWER_CHARACTERS else None


def _joined(text: str, boxes: list[tuple[int, int, int]]) -> str:
    """The last of these boxes, with those beside it."""
    first, alternatives = len(boxes) - 1, False
    while first and 0 < boxes[first][0] - boxes[first - 1][2] <= _FARTHEST:
        beside = _BESIDE.fullmatch(text, boxes[first - 1][2] + 1, boxes[first][0])
        if beside is None:
            break
        alternatives |= beside["or"] is not None
        first -= 1
    contents = [text[content:end].strip() for _, content, end in boxes[first:]]
    if len({*contents}) == 1:
        return contents[-1]
    labels = [_LABEL.search(text, max(0, begin - _FARTHEST), begin) for begin, _, _ in boxes[first:]]
    if all(label and not (label["name"] and "=" in content) for label, content in zip(labels, contents, strict=True)):
        contents = [
            f"{label['part'] or label['name']} {content}"
            for label, content in zip(labels, contents, strict=True)
            if label
        ]
    return ("\\text{ or }" if alternatives else ", ").join(contents)


def no_answer_reason(response: str) -> str:
    """Why `boxed_answer` found none."""
    text = after_thinking(response)
    if text is None:
        return "the thinking is not closed"
    if "\\boxed" not in text:
        return "nothing is boxed after the thinking"
    return f"the last box is not closed, empty, or longer than {MAX_ANSWER_CHARACTERS} characters"


def python_program(response: str) -> str | None:
    """The last closed fenced block after the thinking that is marked as Python, else the last without a mark, else the
    last; dedented."""
    blocks = marked_blocks(response)
    program = (
        [body for mark, body in blocks if language_of(mark) == "python"]
        or [body for mark, body in blocks if not mark]
        or [body for _, body in blocks]
        or [""]
    )[-1]
    return program if program.strip() else None


def language_of(mark: str) -> str:
    """`python` or `cpp` for the mark of a program's block, else ""."""
    return "python" if _PYTHON.match(mark) else "cpp" if _CPP.match(mark) else ""


def marked_blocks(response: str) -> list[tuple[str, str]]:
    """The closed fenced blocks after the thinking: the first word of how each is marked, in lower case, and its text,
    dedented. As CommonMark has them (sections 4.5, 5.2), and text may follow the fence that ends one."""
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
