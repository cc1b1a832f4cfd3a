"""Choices that a question lists, `A. 12`, `(b) 12`, `(3) 12` or `ii) 12`, each by a capital letter, in order."""

import functools
import re
from typing import NamedTuple

_STYLE = r"\\(?:text|textbf|mathrm|mathbf|textrm)\s*\{"
_MARK = (
    rf"(?:(?:^|[\s(&$]|(?<=quad))(?:{_STYLE})?|(?<=[;,~}}]){_STYLE})"
    r"\(?(%s)(?:\)|[.:](?=\s|\}))\s*\}?\s*(?:~|\\ |\\quad)?\s*"
)
LETTERS = "ABCDEFGHIJ"
_FAMILIES = (
    ([*LETTERS], re.compile(_MARK % "[A-J]", re.MULTILINE)),
    ([*LETTERS.lower()], re.compile(_MARK % "[a-j]", re.MULTILINE)),
    ([*"123456789"], re.compile(_MARK % "[1-9]", re.MULTILINE)),
    (["i", "ii", "iii", "iv", "v", "vi", "vii", "viii"], re.compile(_MARK % "i{1,3}|iv|vi{0,3}", re.MULTILINE)),
)
_END = re.compile(r"(?:[.?]\s*(?:Select|Choose|Pick|Mark|Enter|Give)\b.*)?(?:\\q?quad|\\\\|[\s,;.&~])*\Z", re.DOTALL)
_LABEL = re.compile(
    rf"\s*(?:(?P<style>{_STYLE})\s*)?(?:(?P<named>(?i:the )?(?i:option|choice|answer|statement)s?)\s*:?\s*)?"
    r"(?P<open>\()?\s*(?P<label>[ivIV]{2,4}|[A-Ja-jvV]|\d)\s*(?P<close>\)|[.:](?=\s|\\|\}|$))?\s*(?P<rest>.*)",
    re.DOTALL,
)
_COPIED = re.compile(r"\s*(?:\\text\{)?\s*\(?([A-J])(?:\)|[.:])\s*(.+?)\s*\.?\s*\}?\s*", re.DOTALL)
"""A choice with its whole text, as the question has it."""
_TASK = re.compile(r"\b(?:find|compute|prove|show|determine|calculate|how|what|let|if|solve|evaluate)\b", re.IGNORECASE)
"""A part of a question, and no choice."""
_BETWEEN = re.compile(r"\s*(?:,\s*(?:and|\\text\{\s*and\s*\})|,|;|\band\b|\\text\{\s*and\s*\}|\\?&|\+)\s*")


class Choices(NamedTuple):
    """The choices of a question: a letter for each label, and a text for each letter; empty if there are none."""

    labels: dict[str, str]
    texts: dict[str, str]


@functools.lru_cache(maxsize=4096)
def choices_of(question: str) -> Choices:
    """The choices that a question lists."""
    for labels, pattern in _FAMILIES:
        begins: list[re.Match[str]] = []
        for match in pattern.finditer(question):
            if [match[1]] == labels[len(begins) : len(begins) + 1]:
                begins.append(match)
            elif match[1] == labels[0]:
                begins = [match]
        ends = [*(match.start() for match in begins[1:]), len(question)]
        texts = [_END.sub("", question[match.end() : end]).strip() for match, end in zip(begins, ends, strict=False)]
        if len(begins) < 2 or not all(texts) or any("\n\n" in text or len(text) > 300 for text in texts):
            continue
        if labels[0] != "A" and any(map(_TASK.match, texts)):
            continue
        plain = [text.strip("$") if text.count("$") in (1, 2) else text for text in texts]
        names = dict(zip(labels[: len(texts)], LETTERS, strict=False))
        return Choices(names, dict(zip(LETTERS, plain, strict=False)))
    return Choices({}, {})


def lettered(question: str, text: str) -> str:
    """The text with a capital letter for each label where the question has other labels; a choice that is copied with
    its whole text is its letter."""
    labels, texts = choices_of(question)
    if (copied := _COPIED.fullmatch(text)) and texts.get(copied[1]) == copied[2]:
        return copied[1]
    if not labels or len(text) > 400 or ("A" in labels and "&" not in text):
        return text
    if (one := _letter(labels, texts, text)) is not None:
        return one
    members = [_letter(labels, texts, each) for each in _BETWEEN.split(text.strip("{}\\ "))]
    return ", ".join(map(str, members)) if len(members) > 1 and None not in members else text


def _letter(labels: dict[str, str], texts: dict[str, str], text: str) -> str | None:
    """`(B) 29` for `b) 29`; None if the text does not begin with a label of the question."""
    match = _LABEL.fullmatch(text.strip().strip("$").strip())
    letter = labels.get(match["label"]) or labels.get(match["label"].lower()) if match else None
    if match is None or letter is None or (match["open"] and match["close"] != ")"):
        return None
    rest = match["rest"].strip()
    if match["style"] and rest.count("}") > rest.count("{"):
        rest = rest.replace("}", "", 1).strip()
    is_marked = match["close"] or match["named"]
    if rest and (not match["close"] or _BETWEEN.match(rest) or rest.startswith("or ")):
        return None
    if not is_marked and any(text == match["label"] for text in texts.values()):
        return None  # 3, of the choices 1, 2, 3
    return f"({letter}) {rest}" if rest.strip(".$ ") else letter
