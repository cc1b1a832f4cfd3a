"""Test whether a question sets the order of the values that it asks for, read by its words: `in increasing order`,
`Compute $d(6)$ and $d(16)$`, a blank for each.
"""

import re
from collections.abc import Iterator

_I, _S = re.IGNORECASE, re.DOTALL
FORMULA = re.compile(r"\$+([^$]+)\$+|\\\((.+?)\\\)|\\\[(.+?)\\\]", _S)
SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z$\\])|\n\s*\n")
_ASKING = re.compile(
    r"\b(?:find|determine|compute|calculate|evaluate|give|enter|express|arrange|solve for|what (?:is|are)|fill in"
    r"|how (?:many|much|long|far|old))\b|(?:^|, |and )(?:list|state|write|rank|sort|order|then)\b",
    _I,
)
_ORDERED = re.compile(
    r"\brespectively\b|\bin (?:that|this|the (?:same|following|given|stated)) order\b|^(?:arrange|rank|sort|order)\b"
    r"|\b(?:in|by) (?:(?:an?|the|strictly|their|order|of) )*(?:in|de)creasing\b|\b(?:a|de)scending\b|\balphabetical"
    r"|\bfrom (?:the )?(?:least|smallest|largest|greatest|lowest|highest|\w+est|left|top|first)\b.{0,30}?\bto\b"
    r"|\b(?:first|next|last|following|missing) (?:\w+ )?(?:non-?zero )?(?:terms|members|elements|numbers)\b"
    r"|\bfirst\b.{1,60}?\b(?:then|second)\b|\bsecond and third\b",
    _I | _S,
)
_BLANK = re.compile(r"(?:\\?_){2,}|\\underline\s*\{[^{}A-Za-z0-9]*(?:\\[a-z]+[^{}A-Za-z0-9]*)*\}|\(\s{2,}\)|\\blank\b")
_PART = re.compile(r"(?:^|[.?;:。；？：]\s*)\((?:[1-9]|[a-d])\)")
_WHERE = re.compile(
    r"\b(?:such|for which|where|if|when|whose|that|so|given|satisfying|with)\b|[.?!;]\s|[?!;]|:", _I
)  # fmt: skip
_ITEM = r"(?:[a-z]{3,} )?(?:⟨+|\b[A-Za-z]\b(?:_\w)?)"
_ENUMERATED = re.compile(rf"({_ITEM}(?:, (?:and )?{_ITEM})*,? and {_ITEM}|{_ITEM}(?:, {_ITEM})+)")
_PLURAL_OF = re.compile(
    r"\b(?:all|both|every|each|any)\b|\b(?!values)[a-z]+s (?:\w+ )?(?:of|for|to|between|with|from)\b(?! each)", _I
)  # fmt: skip
"""Things of what follows: all points of the graphs of f and g."""
_ITEMS = re.compile(r"⟨|\b(?!and\b)[A-Za-z]\b(?:_\w)?")
_NOUN = r"(?:the )?(?:[a-z-]+ ){0,2}[a-z-]+"
_NOUNS = re.compile(rf"(?:both )?the {_NOUN}(?:, {_NOUN})*,? and {_NOUN}")
_ALONE = re.compile(r"(?:the |all |values? |real |numbers? |of |integers? )*(⟨+)\.?")


def sets_order(text: str, count: int) -> bool:
    """True if the question sets the order of a list of `count` values: it says so, has a blank for each, or asks
    for things that it names (`Compute $d(6)$, $d(16)$, and $d(72)$`)."""
    sentences = [each for each in SENTENCE.split(text[-2000:]) if each]
    asking = [each for each in sentences if _ASKING.search(each)] or sentences[-1:]
    questions = sum(each.rstrip().endswith("?") for each in sentences)
    if count > 1 and count in (len(_BLANK.findall(text)), len(_PART.findall(text)), questions):
        return True
    return any(each in (count, 0) for sentence in asking for each in _asked(sentence))


def _asked(sentence: str) -> Iterator[int]:
    """The number of things a sentence asks for by name, for each of its verbs; 0 if it asks for their order."""
    for verb in _ASKING.finditer(sentence):
        asked = FORMULA.sub(_symbols, sentence[verb.start() :])
        asked = " ".join(asked[: end.start() if (end := _WHERE.search(asked)) else None].split())
        if _ORDERED.search(asked):
            yield 0
        asked = asked[len(verb[0]) :].strip()
        for match in _ENUMERATED.finditer(asked):
            if not _PLURAL_OF.search(asked[: match.start()]):
                yield len(_ITEMS.findall(match[1]))
        if nouns := _NOUNS.match(asked):  # the area and perimeter
            yield len(re.split(r",? and |, ", nouns[0]))
        if whole := _ALONE.fullmatch(asked):
            yield len(whole[1])


def _symbols(match: re.Match[str]) -> str:
    """A mark for each member of a formula: $x, y$ has two."""
    depth = commas = 0
    for character in next(filter(None, match.groups())):
        depth += (character in "([{") - (character in ")]}")
        commas += character == "," and depth == 0
    return "⟨" * (commas + 1)
