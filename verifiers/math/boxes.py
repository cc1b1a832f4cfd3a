r"""The boxed answer of a response.

Without a fallback such as the last number: a policy rewarded through one learns not to state its answer.
`final_answer.py` reads the texts of others, which nobody asked for a box.
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
_DENIED = re.compile(
    r"\b(?:(?:not|cannot|can't|never)(?: be)?|except|instead of|other than|half(?: of)?|twice|double|minus"
    r"|(?:reciprocal|predecessor|successor|supplement|complement|negative|opposite|square|inverse) of"
    r"|(?:one|somewhat|strictly) (?:more|less|greater|smaller|larger) than)[\s$]*(?:\\[(\[]\s*)?\Z",
    re.IGNORECASE,
)
_FAILS = re.compile(
    r"(?:does not|do not|is not|isn't|doesn't|is wrong|is incorrect|is extraneous|fails?|except|excluding|would hold)\b"
)
_COUNTED = re.compile(r"\$? ((?!and\b|or\b|is\b|are\b|so\b|then\b)[a-z]+(?: [a-z]+s)?)\b(?=[ ,.$])")
_OR = re.compile(r",?\s*or\s+((?:(?!\b(?:if|when|for|depending)\b)[^,;.]|\.(?=\d)){1,40})")
_SAME = re.compile(r"\b(?:approximately|about|roughly|equivalently|simply|around)\b|≈|\\approx")
_COMPARED = re.compile(
    r"(?:(?!is\b|are\b)\w+ )?(?:(?:more|less|fewer|larger|smaller|greater|longer|shorter|older|younger|higher|lower)"
    r" than|short of|too (?:few|many|much))\b"
)
_FARTHEST = 60
"""Characters between two boxes of one answer."""
_REST_OF_SENTENCE = re.compile(r"(?:[^.;?!\n]|\.(?=[\d.])|(?<=\.)\.){0,80}")
_RETRACTING = re.compile(r"\b(?:correction|actually|oops|misread|mistake|wrong|incorrect)\b", re.IGNORECASE)
_STATED = re.compile(r"(?:\b(?:is|are|be|equals)\b|=)[^\w=.-]*(-?\d+(?:[.,]\d+)*)[^\w=]*\Z")
_MATH_SIGNS = re.compile(r"(?<!\\)\$|\\[()\[\]]")


class Box(NamedTuple):
    start: int
    end: int
    content: str | None
    """Stripped; None for a box that is not closed."""


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
    r"""The content of the last box after the thinking; of boxes side by side, between which are only separators and
    names (`x=\boxed{2}` or `x=\boxed{3}`), all of them as one list.

    A sign before it, and what a formula goes on with behind it, are its own: `-\boxed{2}`, `\boxed{x^2} + C`. None if
    there is none, or if the last one is not closed (the response was truncated, and an earlier box does not count), is
    empty, or is longer than 2,048 characters.
    """
    text, found = _answered(response)
    answer = _joined(text, found) if found and found[-1].content else ""
    return answer if answer and len(answer) <= MAX_ANSWER_CHARACTERS else None


@functools.lru_cache(maxsize=4)
def _answered(response: str) -> tuple[str, list[Box]]:
    """What follows the thinking, and the boxes in it."""
    text = after_thinking(response) or ""
    return text, boxes(text) if "\\boxed" in text else []


def behind_box(response: str) -> str:
    """What the sentence of the last box says behind it, without dollar signs: `bits`, `where k = 0, 1, 2, ...`"""
    text, found = _answered(response)
    rest = _REST_OF_SENTENCE.match(text, found[-1].end) if found else None
    return _MATH_SIGNS.sub("", rest[0]).strip(" ,") if rest else ""


def boxes_apart(response: str) -> list[str]:
    """The contents of several boxes in one paragraph without a word that takes one back, each with the noun that it
    counts; empty for anything else."""
    text, found = _answered(response)
    between = text[found[0].end : found[-1].start] if found else ""
    if len(found) < 2 or "\n\n" in between or _RETRACTING.search(between):
        return []
    nouns = [_COUNTED.match(text, box.end) for box in found]
    return [
        f"{box.content}\\text{{ {noun[1]}}}" if noun else box.content or ""
        for box, noun in zip(found, nouns, strict=True)
    ]


def denied(response: str, compares: bool) -> str:
    """The words beside the last box that make another value of it: `not`, `half of`, `does not`; also `more than`, if
    the question does not compare; else ""."""
    text, found = _answered(response)
    if not found:
        return ""
    before = _DENIED.search(text, max(0, found[-1].start - _FARTHEST), found[-1].start)
    behind = behind_box(response)
    after = _FAILS.match(behind) or (not compares and _COMPARED.match(behind))
    return before[0].strip(" $\n\\([") if before else after[0] if after else ""


def alternative(response: str) -> str:
    """The other value of `3 or 4`, with 3 in the last box; "" if there is none."""
    other = _OR.match(behind_box(response))
    return other[1] if other and re.search(r"\d", other[1]) and not _SAME.search(other[1]) else ""


def retracted_for(response: str) -> str:
    """The number that a response ends with where it takes its last box back (`Actually, it is 30`); else ""."""
    text, found = _answered(response)
    rest = text[found[-1].end :] if found else ""
    stated = _STATED.search(rest[-_FARTHEST:]) if _RETRACTING.search(rest) else None
    return stated[1] if stated else ""


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
    """Why `boxed_answer` found none."""
    text = after_thinking(response)
    if text is None:
        return "the thinking is not closed"
    if not boxes(text):
        return "nothing is boxed after the thinking"
    return f"the last box is not closed, empty, or longer than {MAX_ANSWER_CHARACTERS} characters"
