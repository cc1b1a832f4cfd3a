r"""The boxed answer of a response.

There is no fallback such as the last number: a policy rewarded through one learns not to state its answer.
`final_answer.py` reads responses to prompts that did not ask for a box.
"""

import functools
import re
from typing import NamedTuple

from ratchet.verifiers.extraction import MAX_ANSWER_CHARACTERS, after_thinking

_TOKEN = re.compile(r"\\(?P<box>f?boxed|fbox)(?![A-Za-z])\s*(?P<brace>\{)?|\\.|[{}]", re.DOTALL)
_UNBRACED_IN_MATH = re.compile(r"(?:\\[^)\]\\]|[^\\$\n&])*")
_UNBRACED = re.compile(r"[^\s$,;]*")
_MATH = re.compile(r"(?<!\\)\$\$?|\\[\[\]()]")
_SPACE = r"(?:[\s$]|\\[()\[\],;:! ]|\\q?quad(?![a-z]))*"
_NAME = r"(?:[A-Za-z](?:_\{?\w\}?)?|\\[a-z]+)\s*="
_PART = r"\((?:[a-hA-H]|i{1,3}|i?v|[1-9])\)"
_LABEL = re.compile(rf"(?:(?P<part>{_PART})|(?<![\w\\=+*/^-])(?P<name>{_NAME})){_SPACE}\Z")
_BESIDE = re.compile(
    rf"{_SPACE}(?:[.,;]?{_SPACE}{_PART}|(?:(?:[,;&]|(?P<or>or\b|\\text\s*\{{\s*or\s*\}})|and\b|\\text\s*\{{\s*and\s*\}})"
    rf"{_SPACE})+){_SPACE}(?:{_NAME})?{_SPACE}"
)
_GOES_ON = re.compile(r"\s*(?:[\^%*/+-]|\\(?:%|pi|sqrt|cdot|times)(?![A-Za-z]))(?!\s*\\(?:text|mathrm))")
_WITHIN = re.compile(
    r"(?:[\w})\]|]\s*(?:[-+*/^]|\\(?:cdot|times|div)(?![a-z]))|\\[dt]?frac\s*(?:\{[^{}]*\})?|\\sqrt\s*(?:\[[^\]]*\])?)\s*\{?\s*\Z"
)
_SIGNED = re.compile(r"(?:\A|=)\s*(?:-|\\pm)\s*\Z")
_FUNCTION = re.compile(r"(?<![A-Za-z\\])([A-Za-z]\([a-z]\))\s*=\s*\Z")
_NEIGHBORS = re.compile(r"=|\\(?:approx|quad|qquad|text|Rightarrow|implies|[,;:])|[,&\n]|\.\s*\Z")
_FARTHEST = 60
"""Characters between two boxes of one answer."""


class Box(NamedTuple):
    """A box in a text: its place and content."""

    start: int
    end: int
    content: str | None
    """The stripped content; None for a box that is not closed."""


def boxes(text: str, loose: bool = False) -> list[Box]:
    r"""The boxes of a text in order, `\boxed{...}` with balanced braces; `loose`: also `\fbox{...}` and `\boxed 4`.

    A box around a box is the inner one."""
    found: list[Box] = []
    opened: list[int | None] = []  # of each open brace: its box
    for match in _TOKEN.finditer(text):
        if match["brace"] and (loose or match["box"] == "boxed"):
            opened.append(len(found))
            found.append(Box(match.start(), match.end(), None))
        elif match["box"] and loose and not any(number is not None for number in opened):
            pattern = _UNBRACED_IN_MATH if _in_math(text, match.start()) else _UNBRACED
            if inside := pattern.match(text, match.end()):
                found.append(Box(match.start(), inside.end(), inside[0].strip().rstrip(".,;:")))
        elif match["brace"] or match[0] == "{":
            opened.append(None)
        elif match[0] == "}" and opened and (number := opened.pop()) is not None:
            start, begin, _ = found[number]
            inner = found[number + 1 :]
            content = inner[-1].content if inner else text[begin : match.start()].strip()
            found[number:] = [Box(start, match.end(), content)]
    return found


def _in_math(text: str, position: int) -> bool:
    inside = False
    for match in _MATH.finditer(text, 0, position):
        inside = not inside if "$" in match[0] else match[0] in (r"\[", r"\(")
    return inside


def boxed_answer(response: str) -> str | None:
    r"""The content of the last box after the thinking. Boxes side by side, with only separators and names between them
    (`x=\boxed{2}` or `x=\boxed{3}`), are one list.

    A sign before the box, and the rest of a formula behind it, belong to it: `-\boxed{2}`, `\boxed{x^2} + C`. None if
    there is none, or if the last one is not closed (the response was truncated, and an earlier box does not count), is
    empty, or is longer than 2,048 characters.
    """
    text, found = answered(response)
    answer = _joined(text, found) if found and found[-1].content else ""
    return answer if answer and len(answer) <= MAX_ANSWER_CHARACTERS else None


@functools.lru_cache(maxsize=4)
def answered(response: str) -> tuple[str, list[Box]]:
    """The text after the thinking, and the boxes in it."""
    text = after_thinking(response) or ""
    return text, boxes(text) if "\\boxed" in text else []


def _joined(text: str, found: list[Box]) -> str:
    """The last of these boxes, with those beside it."""
    first, alternatives = len(found) - 1, False
    while first and found[first - 1].content is not None and 0 <= found[first].start - found[first - 1].end < _FARTHEST:
        beside = _BESIDE.fullmatch(text, found[first - 1].end, found[first].start)
        if beside is None:
            break
        alternatives |= beside["or"] is not None
        first -= 1
    contents = [box.content or "" for box in found[first:]]
    if first == len(found) - 1:
        return _whole(text, found[-1])
    if len({*contents}) == 1:
        return contents[-1]
    labels = [_LABEL.search(text, max(0, box.start - _FARTHEST), box.start) for box in found[first:]]
    if all(label and not (label["name"] and "=" in content) for label, content in zip(labels, contents, strict=True)):
        named = [(label["part"] or label["name"]) if label else "" for label in labels]
        contents = [f"{name} {content}" for name, content in zip(named, contents, strict=True)]
    return ("\\text{ or }" if alternatives else ", ").join(contents)


def _whole(text: str, box: Box) -> str:
    """The content of a box in a formula, with `f(t) =`, a sign, or the operation that the formula does with it."""
    content = box.content or ""
    if not _in_math(text, box.start):
        return content
    begin = max((match.end() for match in _MATH.finditer(text, 0, box.start)), default=0)
    end = _MATH.search(text, box.end)
    before, behind = text[begin : box.start], text[box.end : end.start() if end else len(text)]
    if "=" not in content and "," not in content:
        if name := _FUNCTION.search(before):
            return f"{name[1]} = {content}"
        if _WITHIN.search(before) or _GOES_ON.match(behind) or _SIGNED.search(before):
            before, behind = _NEIGHBORS.split(before)[-1], _NEIGHBORS.split(behind)[0]
            return f"{before.strip()}{{{content}}}{behind.strip(' .')}"
    return content


def no_answer_reason(response: str) -> str:
    """The reason why `boxed_answer` found none."""
    text = after_thinking(response)
    if text is None:
        return "the thinking is not closed"
    if not boxes(text):
        return "nothing is boxed after the thinking"
    return f"the last box is not closed, empty, or longer than {MAX_ANSWER_CHARACTERS} characters"
