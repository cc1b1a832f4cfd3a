"""What a question requires of its answer beyond the reference: a percentage, or values in order."""

import re

_COUNTED = "one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|[a-z]+ty|hundred"
_PERCENT = re.compile(
    rf"\b(?:what|which)\b(?:(?!\b(?:{_COUNTED})\b)[^.?!;\d$]){{0,60}}?\bpercent|\b(?:as|in)\s+(?:an?\s+)?percent",
    re.IGNORECASE,
)
"""Percentages that are requested, not given ("after twenty percent off, what")."""
_ASKING = re.compile(
    r"\b(?:find|determine|compute|calculate|evaluate|give|enter|express|arrange|solve for|what (?:is|are)|fill in"
    r"|how (?:many|much|long|far|old))\b|(?:^|, |and )(?:list|state|write|rank|sort|order|then)\b",
    re.IGNORECASE,
)
_ORDERED = re.compile(
    r"\brespectively\b|\bin (?:that|this|the (?:same|following|given|stated)) order\b|^(?:arrange|rank|sort|order)\b"
    r"|\b(?:in|by) (?:(?:an?|the|strictly|their|order|of) )*(?:in|de)creasing\b|\b(?:a|de)scending\b|\balphabetical"
    r"|\bfrom (?:the )?(?:least|smallest|largest|greatest|lowest|highest|\w+est|left|top|first)\b.{0,30}?\bto\b"
    r"|\bfirst (?:\w+ )?(?:non-?zero )?(?:terms|members|elements)\b"
    r"|\bfirst\b.{1,60}?\b(?:then|second)\b|\bsecond and third\b",
    re.IGNORECASE | re.DOTALL,
)
_BLANK = re.compile(r"(?:\\?_){2,}|\\underline\s*\{[^{}A-Za-z0-9]*(?:\\[a-z]+[^{}A-Za-z0-9]*)*\}|\(\s{2,}\)|\\blank\b")
_PART = re.compile(r"(?:^|[.?;:。；？：]\s*)\((?:[1-9]|[a-d])\)")
_WHERE = re.compile(
    r"\b(?:such|for which|where|if|when|whose|that|so|given|satisfying|with)\b|[.?!;]\s|[?!;]|:", re.IGNORECASE
)
_FORMULA = re.compile(r"\$+([^$]*)\$+|\\\((.*?)\\\)", re.DOTALL)
_ITEM = r"(?:[a-z]{3,} )?(?:⟨+|[A-Za-z](?:_\w)?)"
_ENUMERATED = re.compile(rf"({_ITEM}(?:, (?:and )?{_ITEM})*,? and {_ITEM}|{_ITEM}(?:, {_ITEM})+)")
_ITEMS = re.compile(r"⟨|\b(?!and\b)[A-Za-z]\b(?:_\w)?")
_ALONE = re.compile(r"(?:the |all |values? |real |numbers? |of |integers? )*(⟨+)\.?")
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z$\\])|\n\s*\n")


def asks_percent(question: str) -> bool:
    """Whether a bare number answers with so many percent."""
    return bool(_PERCENT.search(question))


def asks_order(question: str, count: int) -> bool:
    """Whether a list of `count` values is in an order that the question sets: it says so, has a blank for each, or asks
    for things that it names (`Compute $d(6)$, $d(16)$, and $d(72)$`)."""
    if 1 < count == len(_BLANK.findall(question)):
        return True
    sentences = [each for each in _SENTENCE.split(question[-2000:]) if each]
    asking = [each for each in sentences if _ASKING.search(each)] or sentences[-1:]
    if 1 < count == len(_PART.findall(question)):
        return True
    if 1 < count == sum(each.rstrip().endswith("?") for each in sentences):
        return True
    return any(each in (count, 0) for sentence in asking for each in _asked(sentence))


def _asked(sentence: str) -> list[int]:
    """How many things a sentence asks for by name, by each of its verbs; 0 if it asks for their order."""
    counts = []
    for verb in _ASKING.finditer(sentence):
        asked = _FORMULA.sub(_symbols, sentence[verb.start() :])
        asked = " ".join(asked[: found.start() if (found := _WHERE.search(asked)) else None].split())
        if _ORDERED.search(asked):
            counts.append(0)
        asked = asked[len(verb[0]) :].strip()
        counts += [len(_ITEMS.findall(match[1])) for match in _ENUMERATED.finditer(asked)]
        if whole := _ALONE.fullmatch(asked):
            counts.append(len(whole[1]))
    return counts


def _symbols(match: re.Match[str]) -> str:
    """A formula as so many marks as it has members: $x, y$ are two."""
    depth = commas = 0
    for character in match[1] or match[2] or "":
        depth += (character in "([{") - (character in ")]}")
        commas += character == "," and depth == 0
    return "⟨" * (commas + 1)
