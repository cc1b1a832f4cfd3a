"""Does a statement lean on a picture? Pictures themselves, and words that point at one that the text does not hold."""

from __future__ import annotations

import re

from ratchet.data_curation.rules.evidence import any_of

_DRAWING = any_of(
    r"\[asy\]|\\begin\{(?:tikzpicture|asy|picture|pspicture|figure)\}|\\includegraphics",
    r"!\[[^\]]{0,200}\]\(|<img\b|<svg\b|<image>",
    r"\[(?:image|figure|diagram|picture)\b[^\]]{0,80}\]",
    r"\bhttps?://\S{1,200}\.(?:png|jpe?g|gif|svg|bmp|webp)\b|\.(?:png|jpe?g)\?(?:height|width)=",
)

# Nouns that mean a picture, and nouns of things that can only be "shown" or "below" in one.
_PICTURE = (
    r"(?:(?:figure|diagram|picture|drawing|illustration|sketch|photo|image|screenshot|histogram|graphic)s?"
    r"|(?:(?:pie|bar|flow|colou?r)[ ]?)?chart|(?:scatter|box|dot|line)[ ]plot|(?:bar|line)[ ]graph)"
)
_DRAWN_THING = (
    rf"(?:{_PICTURE}|graph|grid|map|plot|number line|spinner|net|shape|solid|region|polygon|triangle|quadrilateral"
    r"|rectangle|square|circle|hexagon|pentagon|octagon|angle|tiling|pattern|board|maze|clock|scheme|pyramid)s?"
)
# "above zero" and "below the line" are no places on a page.
_NOT_A_HEIGHT = r"(?!\s+(?:the|a|an|this|that|it|\$|zero|average|\d)\b)"
_SIDE = rf"(?:(?:at|on|to) the (?:left|right|top)|(?:below|above){_NOT_A_HEIGHT})"
_SHOWN = r"(?:shown|pictured|depicted|illustrated|displayed|visuali[sz]ed|attached)"
_IN_WORDS = r"(?! (?:to|that|by|how)\b)"
_THE = r"(?:the|this|these|each)"
_BEGINS = r"(?:\A|(?<=[.?!:;\n])|(?<=[.?!:;]\s))"  # a sentence
_DOES = (
    r"(?:shows?|represents?|depicts?|displays?|illustrates?|indicates?|gives?|visuali[sz]es|is|are|consists?|of\b"
    rf"|here|{_SIDE})"
)

_REFERENCE = any_of(
    # a picture with the definite article where it can only be seen: "in the figure", "see the following diagram"
    r"\b(?:in|from|see|using|use|on|by|consider|given|read off|look at|compare|refer to|according to|complete|as)"
    rf" {_THE} (?:(?!same\b)[\w-]+ ){{0,2}}?{_PICTURE}\b(?! (?:out|plane)\b)",
    r"\bof (?:the|this) (?:(?:following|given|adjoining|above|whole) )?figure\b",
    rf"\battached (?:\w+ )?(?:map|{_PICTURE})",
    rf"\(see {_PICTURE}",
    # it does something, or is told from others by its place or number
    rf"{_BEGINS}(?:{_THE}|a portion of the|on the) (?:[\w-]+ ){{0,2}}{_PICTURE}\b(?= {_DOES})",
    r"\b(?:fig\.|figures?)\s?(?:\d|\([a-d]\))",
    # something drawn is shown, or stands at a side
    rf"\b{_DRAWN_THING} (?:(?:is|are|as|that is|that are|which is) )?{_SHOWN}(?! in (?:example|\d)){_IN_WORDS}\b",
    rf"\b(?:{_PICTURE}|graph) (?:of [^.?!]{{1,60}})?(?:is|are) {_SHOWN}\b{_IN_WORDS}",
    rf"\b{_DRAWN_THING} {_SIDE}",
    r"\b(?:the|each) (?:\w+ ){1,2}(?:pictured|depicted|illustrated)\b(?! (?:by|how))",
    rf"\b(?:drawn|sketched|graphed|{_SHOWN}) (?:here|{_SIDE}|in (?:the|this|these) {_PICTURE})\b",
    r"\bas (?:shown|pictured|depicted|illustrated)\b"
    r"(?!:| by| on an?\b| in (?:the )?(?:example|sample|table|equation|first|second))",
    r"\bthe marked (?:angle|length|side|region|point)s?\b",
)
_NOUN = re.compile(rf"\b{_PICTURE}\b", re.IGNORECASE)
_POINTS = re.compile(rf"\b(?:{_SHOWN}|below|above|following|see)\b", re.IGNORECASE)
# A map that moves points has an image, too.
_MOVED = re.compile(r"\b(?:reflect|rotat|translat|dilat|transform|map(?:s|ped)?\b|\\mapsto|inver)", re.IGNORECASE)

# What can be shown in words and formulas, and the signs that it is.
_TEXTUAL = re.compile(
    r"\b(?:equations?|formulas?|expressions?|sums?|products?|numbers?|values?|rows?|sequences?|arrangements?|prices?"
    r"|data|tables?|examples?|matri(?:x|ces)|results?|rules?|texts?|terms?)\b[^.?!]{0,40}\Z",
    re.IGNORECASE,
)
_TYPESET = re.compile(r"\\begin\{(?:array|tabular)")
_ROW_OF_DATA = re.compile(r"\n[^\n?]*(?::|&|\d[^\n?]*\d|[#.*]{2})[^\n?]*(?=\n|\Z)")


def drawing(text: str) -> re.Match[str] | None:
    """A picture itself: in code (`[asy]`, TikZ), by link, or as the mark that one was lost."""
    return _DRAWING.search(text)


def reference(text: str) -> re.Match[str] | None:
    """Words that point at a picture. A picture that the text has introduced ("a picture hangs …") is a thing in the
    story, and what is shown as rows of data or as a formula stands in the text itself."""
    if _TYPESET.search(text):
        return None
    for found in _REFERENCE.finditer(text):
        noun = _NOUN.search(found[0])
        before = text[: found.start()].lower()
        if noun is None or "chart" in noun[0].lower():
            points_up = "above" in text[found.start() : found.end() + 7] and "$$" in before
            in_text = points_up or _TEXTUAL.search(before + found[0]) or _ROW_OF_DATA.search(text, found.end())
            if in_text:
                continue
        if noun and noun[0].lower().rstrip("s") in before:
            continue
        if noun and noun[0].lower().startswith("image") and _MOVED.search(text) and not _POINTS.search(found[0]):
            continue
        return found
    return None
