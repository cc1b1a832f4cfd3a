"""Decide whether a statement needs a picture that is missing: it has one, or refers to one, and either has hardly any
other content, or asks for something that only the picture has. Pictures drawn in code and tables can be read."""

import re

from ratchet.data_curation.rules.patterns import PATTERNS, find

_FORMULA = re.compile(r"\$\$[^$]+\$\$|\$[^$]+\$|\\\(.+?\\\)|[=<>≤≥°∠△⊥∥]|\b[A-Z]{2,}\b", re.DOTALL)
_POINT = re.compile(r"\$[A-Z]\$")
_FEW_POINTS = 2
MOST_FORMULAS = 1
"""Most formulas of a text that does not describe its picture; one with more, or with a number, may."""
_SENTENCE = re.compile(r"(?:[^.?!]|[.?!](?=\w))+[.?!]?")
_A_NAME = re.compile(  # a name, no formula
    r"\$?(?:\\(?:angle|triangle|Delta|overline|overarc|widehat|sin|cos|tan)\s*|m ?(?=\\angle)|[{∠△ ])*"
    r"(?:[A-Za-z]{1,4}|[a-z](?: ?[+-] ?[a-z])+)[},?. ]*\$?"
)
_MATH = re.compile(r"\$[^$]*\$|\\\(.*?\\\)|\\\[.*?\\\]|\b[A-Z]{1,9}\b|\b[b-z]\b", re.DOTALL)
_COMMAND = re.compile(r"\\(?:text|mathrm|mbox|operatorname)\s*\{[^}]*\}|\\[A-Za-z]+")
_CONTINUES = re.compile(r"[ \t]*(?:[,.;:)'\"”’=<>]|[a-z(])")  # a sentence continues after a picture
_BROKEN_OFF = re.compile(  # the text before breaks off, unless it refers to the picture
    r"(?<!\bbelow)(?<!\babove)(?<!\bhere)(?<!\bshown)(?<!\bfollowing)(?<=[\w,('\"“‘=+*/<>≤≥-])[ \t]*\Z"
)


def without_pictures(text: str) -> str:
    """The text without its pictures, and the code that draws them."""
    for sign in ("drawing_code", "picture"):
        if find(sign, text):
            text = PATTERNS[sign].whole.sub(" ", text)
    return text


def needed(text: str) -> re.Match[str] | None:
    """The picture, or the reference to one, without which a text has hardly any content; or the thing asked for that
    only a picture shows."""
    match = find("picture", text) or reference(text)
    shown = find("shows_data", text) or find("shows_places", text) or find("image_as_a_word", text)
    shows, undescribed = find("shows", text), _undescribed(text)
    if not (match or shown or shows or undescribed):
        return None
    prose = PATTERNS["no_quantity"].whole.sub(" ", PATTERNS["picture"].whole.sub(" ", text))
    if find("drawing_code", text) or find("table", prose) or find("no_value_asked", prose):
        return None
    quantities, formulas = PATTERNS["quantity"].whole.findall(prose), len(_FORMULA.findall(prose))
    if not quantities and formulas <= MOST_FORMULAS:
        return match or shown
    are_points = not quantities and formulas == len(_POINT.findall(prose)) <= _FEW_POINTS
    if not shown and (len(quantities) + formulas == 1 or are_points):
        shown = shows
    if not shown and match:
        are_things = [text.lower() for text in quantities] in (["two"], ["three"], ["four"])  # rather than their sizes
        shown = find("marked", text) or (match if are_things and formulas <= MOST_FORMULAS else None)
    return shown or undescribed or (_named_once(text) if match else None)


def _undescribed(text: str) -> re.Match[str] | None:
    """A shaded region mentioned only in the question, without bounds, or the graph of a function without a
    description."""
    mentions = [match[0] for match in _SENTENCE.finditer(text) if "shad" in match[0].lower()]
    if len(mentions) == 1 and find("asks_in_sentence", mentions[0]) and not find("bounds", text):
        return find("shaded", text)
    if match := find("graph_of_function", text):
        rest = text[match.end() :] + text[: match.start()]
        is_defined = re.search(rf"(?<![a-zA-Z\\]){match[1]}(?:\([a-z]\))? ?=(?! ?-?\d+ ?\$)", rest)
        return None if is_defined or find("said_of_function", rest) else match
    if (match := find("graph_of_data", text)) and not find("said_of_function", text):
        return match
    return None


def _named_once(text: str) -> re.Match[str] | None:
    """The question, if it names a point or a variable that the text does not mention otherwise."""
    letters = _letters(" ".join(_MATH.findall(text)))
    for match in PATTERNS["wanted"].finditer(text):
        if _A_NAME.fullmatch(match["name"]) and any(letters.count(c) == 1 for c in _letters(match["name"])):
            return match
    return None


def _letters(text: str) -> list[str]:
    return [c for c in _COMMAND.sub(" ", text) if c.isascii() and c.isalpha()]


def reference(text: str) -> re.Match[str] | None:
    """A reference to a picture that the text has not introduced itself ("A picture hangs …")."""
    for match in PATTERNS["points_at_picture"].finditer(text):
        noun = find("drawn_thing", match[0])
        introduced = noun and rf"\ban? (?:\w+ )?{re.escape(noun[0].split()[0].rstrip('s'))}"
        if not introduced or not re.search(introduced, text[: match.start()], re.IGNORECASE):
            return match
    return None


def in_place_of_words(text: str) -> re.Match[str] | None:
    """A picture inside a sentence, in place of a word or a formula."""
    for match in PATTERNS["picture"].finditer(text):
        line = text[: match.start()].rpartition("\n")[2]
        is_inside = _BROKEN_OFF.search(line) or _CONTINUES.match(text, match.end())
        if line.strip() and is_inside and not match[0].startswith("http"):
            return match
    return None
