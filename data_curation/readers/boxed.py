r"""The boxed answer of a worked solution, by TeX's grammar: `\boxed{...}` with balanced braces, `\fbox{...}`, and
`\boxed 4` without braces."""

import re
from typing import NamedTuple

from ratchet.verifiers.math.equivalence import equivalent

_COMMAND = re.compile(r"\\(?:f?boxed|fbox)(?![A-Za-z])\s*")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_UNBRACED_IN_MATH = re.compile(r"(?:\\[^)\]\\]|[^\\$\n&])*")
_UNBRACED = re.compile(r"[^\s$,;]*")
_MATH = re.compile(r"(?<!\\)\$|\\[\[\]()]")
_JOINED_BY = re.compile(r"\b(?:and|or)\b|[,;&]|\\q?quad|\\\\")
_AND = re.compile(r"\b(?:and|or)\b|;|,\s*(?:the|its)\b")
_SENTENCE_ENDS = re.compile(r"[.?!][\"')\]}$]*\s+(?=[A-Z\\$])|\n\s*\n")
_DERIVED = re.compile(
    r"\b(?:so|then|thus|hence|therefore|giv\w+|which|because|since|but|not|becomes|simplif\w+|equals?|that is|i\.e"
    r"|means|yields?|instead|rather|add|subtract|multiply|divide|implies|from|plus|minus|times)\b"
    r"|\\(?:implies|Rightarrow|Longrightarrow|to|rightarrow|therefore|approx|equiv|iff)\b|⇒|→|∴|≈"
)
"""Between two boxes: the second follows from the first, and is the answer."""
_MOST_WORDS_BETWEEN = 10


class Box(NamedTuple):
    start: int
    end: int
    content: str | None
    """None for a box that is not closed."""


def final_box(text: str) -> str | None:
    """The content of the last box, or of all boxes of an answer in parts, separated by commas; None if there is no box,
    or the last one is empty or not closed."""
    found = boxes(text)
    if not found:
        return None
    answers = [found[-1].content]
    for box, following in zip(reversed(found[:-1]), reversed(found[1:]), strict=True):
        if not box.content or not _belong_together(text[box.end : following.start]):
            break
        answers.insert(0, box.content)
    if not answers[-1]:
        return None
    different: list[str] = []
    for answer in answers:
        if answer and not any(answer == other or equivalent(other, answer) for other in different):
            different.append(answer)
    return ", ".join(different)


def boxes(text: str) -> list[Box]:
    """The outermost boxes of a text. A box around a box is the inner one."""
    found: list[Box] = []
    at = 0
    while match := _COMMAND.search(text, at):
        at = match.end()
        if text[at : at + 1] == "{":
            end = _closing_brace(text, at)
            content = None if end is None else text[at + 1 : end].strip()
            at = at if end is None else end + 1
        else:
            unbraced = (_UNBRACED_IN_MATH if _in_math(text, match.start()) else _UNBRACED).match(text, at)
            content = unbraced[0].strip().rstrip(".,;:") if unbraced else ""
            at = unbraced.end() if unbraced else at
        if content and (inner := boxes(content)):
            content = inner[-1].content
        found.append(Box(match.start(), at, content))
    return found


def _closing_brace(text: str, opening: int) -> int | None:
    depth = 0
    for match in _BRACE.finditer(text, opening):
        depth += (match[0] == "{") - (match[0] == "}")
        if depth == 0:
            return match.start()
    return None


def _in_math(text: str, position: int) -> bool:
    inside = False
    for match in _MATH.finditer(text, 0, position):
        inside = not inside if match[0] == "$" else match[0] in (r"\[", r"\(")
    return inside


def _belong_together(between: str) -> bool:
    """True if two boxes are parts of one answer: "$x = \\boxed{2}$ and $y = \\boxed{3}$"."""
    if _SENTENCE_ENDS.search(between) or _DERIVED.search(between) or not _JOINED_BY.search(between):
        return False
    words = re.findall(r"(?<!\\)\b[^\W\d_]{2,}", between)
    return not words or (bool(_AND.search(between)) and len(words) <= _MOST_WORDS_BETWEEN)
