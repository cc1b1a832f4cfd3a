r"""Text around the last box of a response: a unit or a condition behind it, words that deny it or change its value,
another value, other boxes. `\boxed{3072}` bits is not 3072 bytes.

Only words right beside the box are read. What a sentence means is not: `\boxed{3} is the number of those that fail`.
"""

import re
from collections.abc import Iterator

from ratchet.verifiers.math.boxes import answered
from ratchet.verifiers.math.nodes import names_of
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.math.units import NO_UNITS, is_measure, parse_unit

_NEAR = 60
"""Characters beside a box that are read."""
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
_REST_OF_SENTENCE = re.compile(r"(?:[^.;?!\n]|\.(?=[\d.])|(?<=\.)\.){0,80}")
_RETRACTING = re.compile(r"\b(?:correction|actually|oops|misread|mistake|wrong|incorrect)\b", re.IGNORECASE)
_STATED = re.compile(r"(?:\b(?:is|are|be|equals)\b|=)[^\w=.-]*(-?\d+(?:[.,]\d+)*)[^\w=]*\Z")
_MATH_SIGNS = re.compile(r"(?<!\\)\$|\\[()\[\]]")
_CONDITION = re.compile(
    r"(?:(?:for|where|with|if|when|and)\b|[\s,])*([A-Za-z])\s*(?:[<>≤≥≠]|\\(?:[lg]eq?|neq?)(?![a-z]))"
)
_COMPARING = re.compile(
    r"\bthan\b|\bdifference\b|\bby how\b|\bhow (?:many|much) (?:more|fewer|less)\b|\bcompar|\bexceed", re.IGNORECASE
)
_BESIDE = re.compile(
    r"(?:\\[,;: ]|~|\s)*(\\?%|(?:dozen|hundred|thousand|million|billion)\b"
    r"|\\(?:text|mathrm)\s*\{([^{}]*)\}(?:\s*\^\s*\{?[23]\}?)?)"
)
"""A percent sign, a magnitude, or a typeset unit behind a box."""
_GIVEN = re.compile(r"((?:[A-Za-z]|\\[a-z]+)(?:_\{?\w+\}?)?(?:\(\w{1,9}\))?)\s*=[\s$]*(?:\\[(\[]\s*)?\Z")
"""The name of what is in a box, `e(18) =`."""
_ENUMERATED = re.compile(r"[a-z-]{3,}(?:, (?:the )?[a-z-]{3,})*,? and (?:the )?[a-z-]{3,}")
_THING = re.compile(r"(?!and\b|the\b)[a-z-]{3,}")
_LONGEST_UNIT = 3
"""Words of a unit behind a box."""


def qualified(answer: str, response: str, has_domain: bool) -> str:
    """The boxed answer with the unit that follows the box, or with the conditions on its letters there, if the
    reference has such conditions too (it `has_domain`)."""
    if not (behind := _behind(response)):
        return answer
    alone = parse_answer(answer)
    if alone.kind == "scalar" and alone.node and not (names_of(alone.node) or alone.unit or alone.percent):
        if (beside := _BESIDE.match(behind)) and (beside[2] is None or parse_unit(beside[2])):
            return f"{answer} {beside[1]}"
        spoken = behind.replace("\\text", "").replace("{", "").replace("}", "").split()[:_LONGEST_UNIT]
        for end in range(len(spoken), 0, -1):
            unit = parse_unit(text := " ".join(spoken[:end]).rstrip(","))
            if unit and is_measure(unit) and len(text) > 1 and text.lower() not in NO_UNITS:
                return f"{answer} \\text{{ {text}}}"
    whole, condition = f"{answer} {behind}", _CONDITION.match(behind)
    is_said = has_domain and not alone.domain
    is_said = is_said and (parse_answer(whole).domain or (condition and condition[1] in alone.letters.split()))
    return whole if is_said else answer


def _behind(response: str) -> str:
    """The rest of the last box's sentence, without dollar signs: `bits`, `where k = 0, 1, 2, ...`"""
    text, found = answered(response)
    rest = _REST_OF_SENTENCE.match(text, found[-1].end) if found else None
    return _MATH_SIGNS.sub("", rest[0]).strip(" ,") if rest else ""


def apart(response: str, request: str) -> list[str]:
    """The contents of several boxes in one paragraph if no word takes one back, each with its name or the noun that it
    counts, in the order of the question's `request`; empty for anything else."""
    text, found = answered(response)
    between = text[found[0].end : found[-1].start] if found else ""
    if len(found) < 2 or "\n\n" in between or _RETRACTING.search(between):
        return []
    before = [
        text[max(0, box.start - _NEAR, *(each.end for each in found[:i])) : box.start] for i, box in enumerate(found)
    ]
    names = [_GIVEN.search(each) for each in before]
    if all(names) and not any("=" in (box.content or "") for box in found):
        return [f"{name[1]} = {box.content}" for name, box in zip(names, found, strict=True) if name]
    nouns = [_COUNTED.match(text, box.end) for box in found]
    contents = [
        f"{box.content}\\text{{ {noun[1]}}}" if noun else box.content or ""
        for box, noun in zip(found, nouns, strict=True)
    ]
    return _in_order(contents, before, request)


def _in_order(contents: list[str], before: list[str], request: str) -> list[str]:
    """The contents in the order in which the request names what the words before each say: smallest and largest."""
    for match in _ENUMERATED.finditer(request.lower()):
        things = _THING.findall(match[0])
        said = [[thing for thing in things if re.search(rf"\b{thing}", each, re.IGNORECASE)] for each in before]
        if all(len(each) == 1 for each in said) and sorted(each[0] for each in said) == sorted(things):
            return [
                content
                for _, content in sorted((things.index(one), c) for (one,), c in zip(said, contents, strict=True))
            ]
    return contents


def denial(response: str, question: str) -> str:
    """The words beside the last box that change its value: `not`, `half of`, `does not`; also `more than`, unless the
    question compares; otherwise ""."""
    text, found = answered(response)
    if not found:
        return ""
    before = _DENIED.search(text, max(0, found[-1].start - _NEAR), found[-1].start)
    behind = _behind(response)
    after = _FAILS.match(behind) or (not _COMPARING.search(question) and _COMPARED.match(behind))
    return before[0].strip(" $\n\\([") if before else after[0] if after else ""


def others(response: str) -> Iterator[str]:
    """The other value in `3 or 4` with 3 in the last box, and a number at the end of a response that takes its box
    back: `Actually, it is 30`."""
    text, found = answered(response)
    other = _OR.match(_behind(response))
    if other and re.search(r"\d", other[1]) and not _SAME.search(other[1]):
        yield other[1]
    rest = text[found[-1].end :] if found else ""
    if _RETRACTING.search(rest) and (stated := _STATED.search(rest[-_NEAR:])):
        yield stated[1]
