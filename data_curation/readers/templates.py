"""Remove templates that published data sets put around a statement ("Let's think step by step …").

Otherwise all rows would share the n-grams of a template, and the recipe's own prompt would enclose another one. Only
whole sentences at the start and the end of a statement are removed, never text between or beside them.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ratchet.verifiers.yaml_files import load_yaml

_LISTS = load_yaml(Path(__file__).with_name("templates.yaml"))
_FLAGS = re.DOTALL | re.IGNORECASE
_START = {
    name: re.compile(rf"\s*(?:{''.join(text)})(?:(?=\s|\Z)|(?<=[.:]))", _FLAGS)
    for name, text in _LISTS["start"].items()
}
_END = {name: re.compile(rf"(?:{''.join(text)})\s*\Z", _FLAGS) for name, text in _LISTS["end"].items()}
_CHATS = {
    name: re.compile(rf"\s*{before}(?P<statement>(?:(?!{before}).)*?){after}\s*\Z", _FLAGS)
    for name, (before, after) in _LISTS["chats"].items()
}
_MARK = "|".join(_LISTS["marks"])
_WORDS = "|".join(sorted(map(re.escape, _LISTS["words"].split()), key=len, reverse=True))
_TOKEN = rf"(?:{_MARK}|(?<![\w\\$])(?:{_WORDS})(?![\w\\$^=])|[^\S\n]|[,\"'“”‘’`*()-])"
_ENDS = r"(?:[.!]+:?[\"'”’*)]*(?=\s|\Z)|:(?=\s|\Z)|(?=\s*(?:\n|\Z)))"
_SENTENCE = re.compile(rf"\s*(?>{_TOKEN}+){_ENDS}", re.IGNORECASE)
_SENTENCES = re.compile(rf"(?:\s*(?>{_TOKEN}+){_ENDS})+\s*\Z", re.IGNORECASE)
_MARKED = re.compile(_MARK, re.IGNORECASE)
_HEADING = re.compile(rf"[^:]*(?:{_LISTS['heading']})\W*:\W*\Z", re.IGNORECASE)
_OPENER = (
    "please|let'?s|let us|reason|think|remember|present|return|put|output|provide|enclose|wrap|you must|make sure"
    "|ensure|write your|give your|show your"
)
_BOUNDARY = re.compile(rf"\A|(?<=[.?!…])[\"'”’)*$]*\s+(?=[A-Z\"'“*(`#<])|\s*\n\s*|(?<=[.?!…])\s+(?=(?i:{_OPENER})\b)")
_OPENING = re.compile(rf"\s+(?=(?:{'|'.join(word.capitalize() for word in _OPENER.split('|'))})\b)")
_BREAK = re.compile(r"[.?!…][\"'”’)*$}]*\s+\Z")
_ORDER = re.compile(r"\b(?:solve|give|show|write|generate)\b", re.IGNORECASE)
_A_WORD = re.compile(r"(?<![A-Za-z\\])[^\W\d_]{3,}")
_TAIL, _MOST_BOUNDARIES = 900, 24
"""Characters and sentences at the end that are examined, which bounds the time."""
_CUES = (
    "boxed", "step by step", "step-by-step", "answer", "think>", "_think", "####", "```", "<|", "<｜", "[inst]",
    "_turn>", "python", "below", "following", "this is", "here is", "problem", "question", "### ", "solution:",
    "response:", "assistant:",
)  # fmt: skip
"""A text without any of these has no template."""
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_BREAKS = re.compile("\r\n|[\r\u000b\u000c\u001c-\u001e\u0085\u2028\u2029]")
_INVISIBLE = re.compile("[\u0000-\u0008\u000e-\u001b\u001f\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]")
_CODE = re.compile(r"```(?:python3?)?[^\S\n]*\n?(.*?)\s*```", re.DOTALL | re.IGNORECASE)
_SHOWN = 120


@dataclass(frozen=True)
class Statement:
    """A statement without its templates.

    `removed` has the name of each template, outermost first, and the text that was removed; an instruction in other
    words than those of a known template is its own name. `own_characters` counts removed characters beyond the fixed
    words of templates: text of the row itself.
    """

    text: str
    removed: tuple[tuple[str, str], ...] = ()
    own_characters: int = 0
    starter_code: str | None = None
    """The code of a removed template that shows the beginning of a solution."""

    @property
    def lost_most(self) -> bool:
        """True if more than half of the row's own text, or all of it, is gone."""
        return bool(self.removed) and (not self.text or self.own_characters > len(self.text))


def clean_statement(text: str) -> Statement:
    """The statement without typographic accidents and templates."""
    return strip_templates(clean_text(text))


def clean_text(text: str) -> str:
    """The text in NFC, with one kind of line end and of space, without invisible characters and blanks at its ends."""
    text = _BREAKS.sub("\n", unicodedata.normalize("NFC", text))
    text = _INVISIBLE.sub("", _SPACES.sub(" ", text))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def strip_templates(text: str) -> Statement:
    """The statement without the templates around it."""
    lowered = text.lower()
    if not any(cue in lowered for cue in _CUES):
        return Statement(text)
    removed: list[tuple[str, str]] = []
    own, starter = 0, None
    while cut := next(_cuts(text), None):
        name, left, own_text = cut
        gone = " ".join(text.replace(left, " … ", 1).split()) if left else text
        removed.append((name or _shortened(gone), gone))
        if (code := _CODE.fullmatch(own_text)) and "your code here" not in own_text.lower():
            starter = code[1]
        text, own = left, own + len(own_text)
    return Statement(text, tuple(removed), own, starter)


def _cuts(text: str) -> Iterator[tuple[str, str, str]]:
    """Each template around a text: its name, what is left, and the row's own text that goes with it. Each cut leaves
    less."""
    for name, pattern in _CHATS.items():
        if match := pattern.match(text):
            yield name, match["statement"].strip(), ""
    for name, pattern in _START.items():
        if match := pattern.match(text):
            yield name, text[match.end() :].strip(), ""
    for name, pattern in _END.items():
        if (match := pattern.search(text)) and _stands_alone(text, match):
            yield name, text[: match.start()].strip(), match.groupdict().get("own") or ""
    if end := _instruction_before(text):
        yield "", text[end:].strip(), ""
    if (start := _instruction_after(text)) is not None:
        yield "", text[:start].strip(), ""


def _stands_alone(text: str, match: re.Match[str]) -> bool:
    """True if a text at the end begins behind a sentence, on a line of its own, or with a capital letter or a mark."""
    start = match.start() + len(match[0]) - len(match[0].lstrip())
    is_opening = not text[start].islower() and not text[start - 1 : start].strip()
    return is_opening or bool(_BREAK.search(text, max(0, start - 9), start))


def _instruction_before(text: str) -> int:
    """The end of the instructions at the start of a text; 0 if there are none."""
    end, needs_no_mark = 0, False
    while match := _SENTENCE.match(text, end):
        heading = _HEADING.fullmatch(match[0])
        if match[0].rstrip().endswith(":") and not heading and not _MARKED.search(match[0]):
            break
        if match.end() == end or not match[0].strip():
            break
        end, needs_no_mark = match.end(), needs_no_mark or bool(heading)
    gone, left = text[:end], text[end:]
    if not _A_WORD.search(gone) or not (needs_no_mark or _MARKED.search(gone)):
        return 0
    # "Solve step by step: $x + 1 = 2$" says what to do with the formula.
    return 0 if left.strip() and _ORDER.search(gone) and not _A_WORD.search(left) else end


def _instruction_after(text: str) -> int | None:
    """The start of the instructions at the end of a text; None if there are none."""
    begins = None
    tail = max(0, len(text) - _TAIL)
    if not _MARKED.search(text, tail):
        return None
    starts = {match.end() for pattern in (_BOUNDARY, _OPENING) for match in pattern.finditer(text, tail)}
    for start in sorted(starts, reverse=True)[:_MOST_BOUNDARIES]:
        if _SENTENCES.match(text, start):
            begins = start
    return begins if begins is not None and _MARKED.search(text, begins) else None


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
