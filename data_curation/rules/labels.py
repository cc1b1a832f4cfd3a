"""Labeled lists in a statement: `(A) … (B) … (C) …`, `1. … 2. …`, bullets, circled numbers. The rules decide whether a
list has options, questions or conditions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_ORDERS = {
    "upper": tuple("ABCDEFGH"),
    "FGHJK": tuple("FGHJK"),  # every second question of the ACT
    "lower": tuple("abcdefgh"),
    "digit": tuple("123456789"),
    "roman": ("i", "ii", "iii", "iv", "v"),
    "ROMAN": ("I", "II", "III", "IV", "V"),
    "①": tuple("①②③④⑤⑥⑦⑧⑨"),
    "Ⅰ": tuple("ⅠⅡⅢⅣⅤ"),
    "ordinal": ("first", "second", "third", "fourth"),
}
_NAMES = {
    "upper": "[A-H]",
    "FGHJK": "[F-HJK]",
    "lower": "[a-h]",
    "digit": r"\d",
    "roman": "[iv]{1,3}",
    "ROMAN": "[IV]{1,3}",
}
_CAPITALS = ("upper", "FGHJK")
_PART = r"(?<!\w)(?:part|question|problem|task|exercise|q)[ ]?\(?({})\b\)?[.:)]?\**(?=\s)"  # in any case
# Each form with what it ends with: a text without that behind the second label of a style has no list of this form.
_ANYWHERE = {
    # (A), also in \textbf{(A)}; not P(A)
    r"(?<![\w\\)'^_])[(\[][ ]?({})[ ]?[)\]](?!\s{{0,4}}[\^_=<>*])": (")", "]", " )", " ]"),
    r"\\(?:text|math|rm|bf|underline)[a-z]{{0,8}}[ ]?\{{{{1,2}}[ ]?({})[).:}}]"  # \text{{A.}}
    r"(?!\s{{0,4}}(?:[\^_=<>*+/-]|\\[a-z]+dot))": (")", ".", ":", "}"),  # not \mathbf{{a}} + \mathbf{{b}}
    r"\*\*\(?({})[).:]?\*\*": ("**", ")**", ".**", ":**"),
    _PART: (),
}
_AT_SPACE = {r"(?<![\w\\])({})[)\]](?!\w)": (")", "]")}  # A)
_AT_BREAK = {r"(?<![\w\\])({})[.:](?=[\s$*\\])": (".", ":")}  # A.
_UPPER = {r"(?<![\w\\])({})[.:](?![A-Z.])": (".", ":")}  # after a blank, for capital letters: "is A. 7 B. 9"
_AT_LINE = {r"(?:\n|\A)({})(?=[ \t]+[^\s=+*/<>(^-])": (" ", "\t")}  # A 7

_BREAK = re.compile(r"(?:\A|\n|[ \t]{2}|\\q?quad|\}|[;.?:!,$]\s|\\\\|\s/\s)[\s$*]{0,6}\Z")
_SPACE = re.compile(r"(?:\A|[\s$}*])\Z")
_OPEN_BRACKET = re.compile(r"[(\[][^()\[\]]{0,30}\Z")
_WINDOW = 32  # characters before a label that are examined: bounds the time
_ENUMERATED = re.compile(r"\s{0,4}(?:,|and\b|or\b)")  # "(A), (B) and (C)" mentions labels
_WORD_BEFORE = re.compile(r"(\w+)\s{1,3}\Z")
_ITEMS = re.compile(r"\\item\b|(?:\n|\A)[ ]{0,4}[-*•·▪☐□○][ ](?=\S)")
_SECOND = re.compile(
    r"[bg2][ ]?[)\].:*}、．）]|\bii?\b|\bII?\b|\n[ \t]*B |[②Ⅱ]|\bsecond|[QqTt](?:ask|uestion)?[ ]?2", re.I
)
_ONE_FOR_ONE = str.maketrans("（）［］．：；、", "()[].:;.")


@dataclass(frozen=True)
class LabeledList:
    """A labeled list in a statement."""

    kind: str  # a key of _ORDERS, or "item"
    span: tuple[int, int]  # from the first label to the end of the last one
    stem: str  # the text before
    parts: list[str]  # the text after each label; after the last, the rest


@lru_cache(maxsize=4)
def labeled_lists(text: str) -> tuple[LabeledList, ...]:
    """Every list of at least two labels of one style, in order from the first (A, 1, i, …). Cached, because two rules
    ask for the same text."""
    return tuple(_lists(text.translate(_ONE_FOR_ONE)))


def _lists(text: str) -> Iterator[LabeledList]:
    if _SECOND.search(text):
        for kind, pattern, place, seconds in _STYLES:
            if seconds and not any(second in text for second in seconds):
                continue
            marks = [
                mark
                for mark in pattern.finditer(text)
                if not _ENUMERATED.match(text, mark.end()) and (place is None or _stands(text, mark.start(1), place))
            ]
            run = _run(marks, _ORDERS[kind])
            if len(run) >= 2 and (kind == "ordinal" or not _named_things(text, run)):
                yield _listed("upper" if kind in _CAPITALS else kind, text, run)
    items = list(_ITEMS.finditer(text))
    if len(items) >= 2:
        yield _listed("item", text, items)


_Style = tuple[str, re.Pattern[str], re.Pattern[str] | None, tuple[str, ...]]
"""Kind, pattern, what must precede a label, and the second label in the forms that it may have; () for any."""


def _styles() -> Iterator[_Style]:
    for kind, name in _NAMES.items():
        places = [(_ANYWHERE, None), (_AT_SPACE, _SPACE), (_AT_BREAK, _BREAK)]
        places += [(_UPPER, _SPACE), (_AT_LINE, None)] if kind in _CAPITALS else []
        for forms, place in places:
            for form, ends in forms.items():
                pattern = re.compile(form.format(name), re.I if form == _PART else 0)
                yield kind, pattern, place, tuple(_ORDERS[kind][1] + end for end in ends)
    yield "①", re.compile(f"([{''.join(_ORDERS['①'])}])"), None, ("②",)
    yield "Ⅰ", re.compile(rf"\(([{''.join(_ORDERS['Ⅰ'])}])\)"), None, ("Ⅱ",)
    yield "ordinal", re.compile(r"\b(first|second|third|fourth)(?:ly)?(?:,|[ ]part,|[ ]question,)", re.I), None, ()


def _stands(text: str, start: int, place: re.Pattern[str]) -> bool:
    before = text[max(0, start - _WINDOW) : start]
    return bool(place.search(before)) and not _OPEN_BRACKET.search(before)  # no coordinates


def _run(marks: list[re.Match[str]], order: tuple[str, ...]) -> list[re.Match[str]]:
    """The longest gapless run from the first name; of equally long ones the last."""
    best: list[re.Match[str]] = []
    run: list[re.Match[str]] = []
    for mark in marks:
        name = mark[1].lower() if mark[1].lower() in order else mark[1]
        run = [mark] if name == order[0] else [*run, mark] if run and name == order[len(run) % len(order)] else []
        best = run if len(run) >= max(len(best), 1) else best
    return best


def _named_things(text: str, run: list[re.Match[str]]) -> bool:
    """ "Box A: … Box B: …": the labels are names."""
    before = [_WORD_BEFORE.search(text[max(0, m.start() - _WINDOW) : m.start()]) for m in run]
    return all(before) and len({word[1].lower() for word in before if word}) == 1


def _listed(kind: str, text: str, run: list[re.Match[str]]) -> LabeledList:
    ends = [mark.start() for mark in run[1:]] + [len(text)]
    parts = [text[mark.end() : end] for mark, end in zip(run, ends, strict=True)]
    return LabeledList(kind, (run[0].start(), run[-1].end()), text[: run[0].start()], parts)


_STYLES = tuple(_styles())
