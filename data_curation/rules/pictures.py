"""Does a statement lean on a picture? Pictures themselves, and words that point at one that the text does not hold."""

from __future__ import annotations

import re

_I = re.IGNORECASE

_DRAWING = re.compile(
    r"\[asy\]|\\begin\{(?:tikzpicture|asy|picture|pspicture|figure)\}|\\includegraphics|!\[[^\]]{0,200}\]\("
    r"|<img\b|<svg\b|<image>|\[(?:image|figure|diagram|picture)\b[^\]]{0,80}\]"
    r"|\bhttps?://\S{1,200}\.(?:png|jpe?g|gif|svg|bmp|webp)\b|\.(?:png|jpe?g)\?(?:height|width)=",
    _I,
)

# Nouns that mean a picture, and nouns of things that can only be "shown" or "below" in one.
_PICTURE = (
    r"(?:(?:figure|diagram|picture|drawing|illustration|sketch|photo|image|screenshot|histogram|graphic)s?"
    r"|(?:(?:pie|bar|flow|colou?r)[ ]?)?chart|(?:scatter|box|dot|line)[ ]plot|(?:bar|line)[ ]graph)"
)
_DRAWN_THING = (
    rf"(?:{_PICTURE}|graph|grid|map|plot|number line|spinner|net|shape|solid|region|polygon|triangle|quadrilateral"
    r"|rectangle|square|circle|hexagon|pentagon|octagon|angle|figure|tiling|pattern|board|maze|clock|scheme|pyramid)s?"
)
_SIDE = r"(?:(?:at|on|to) the (?:left|right|top)|(?:below|above)(?!\s+(?:the|a|an|this|that|it|\$|zero|average|\d)\b))"
_SHOWS = r"(?:shown|pictured|depicted|illustrated|displayed|visuali[sz]ed|attached)"

_REFERENCE = re.compile(
    # a picture with the definite article where it can only be seen: "in the figure", "see the following diagram"
    rf"\b(?:in|from|see|using|use|on|by|consider|given|read off|look at|compare|refer to|according to|complete|as|attached)"
    rf" (?:the|this|these|each) (?:(?!same\b)[\w-]+ ){{0,2}}?{_PICTURE}\b(?! (?:out|plane)\b)"
    rf"|\bof (?:the|this) (?:(?:following|given|adjoining|above|whole) )?figure\b|\battached (?:\w+ )?(?:map|{_PICTURE})|\(see {_PICTURE}"
    # it does something, or is told from others by its place or number
    rf"|(?:\A|(?<=[.?!:;\n])|(?<=[.?!:;]\s))(?:the|this|these|a portion of the|on the) (?:[\w-]+ ){{0,2}}{_PICTURE}\b"
    rf"(?= (?:shows?|represents?|depicts?|displays?|illustrates?|indicates?|gives?|is|are|consists?|{_SIDE}|of\b|here|visuali[sz]es))"
    rf"|\b(?:fig\.|figures?)\s?(?:\d|\([a-d]\))"
    # something drawn is shown, or stands at a side
    rf"|\b{_DRAWN_THING} (?:(?:is|are|as|that is|that are|which is) )?{_SHOWS}(?! (?:to|that|by|how|in (?:example|\d)))\b"
    rf"|\b{_PICTURE} (?:of [^.?!]{{1,40}} )?(?:is|are) {_SHOWS}\b(?! (?:to|that|by))"
    rf"|\bgraph of [^.?!]{{1,60}}(?:is|are) {_SHOWS}\b(?! (?:to|that|by))"
    rf"|\b{_DRAWN_THING} {_SIDE}"
    r"|\b(?:the|each) (?:\w+ ){1,2}(?:pictured|depicted|illustrated)\b(?! (?:by|how))"
    rf"|\b(?:drawn|sketched|graphed|{_SHOWS}) (?:here|{_SIDE}|in (?:the|this|these) {_PICTURE})\b"
    rf"|\bas (?:shown|pictured|depicted|illustrated)\b(?!:| by| on an?\b| in (?:the )?(?:example|sample|table|equation|first|second))"
    r"|\bthe marked (?:angle|length|side|region|point)s?\b",
    _I,
)
_MOVED = re.compile(
    r"\b(?:reflect|rotat|translat|dilat|transform|map(?:s|ped)?\b|\\mapsto|inver)", _I
)  # and has an image, then
_TEXTUAL = re.compile(  # what can be shown in words and formulas
    r"\b(?:equations?|formulas?|expressions?|sums?|products?|numbers?|values?|rows?|sequences?|arrangements?|prices?|data"
    r"|tables?|examples?|matri(?:x|ces)|results?|rules?|texts?|terms?)\b[^.?!]{0,40}\Z",
    _I,
)
_NOUN = re.compile(rf"\b{_PICTURE}\b", _I)
_POINTS = re.compile(rf"\b(?:{_SHOWS}|below|above|following|see)\b", _I)
_TYPESET = re.compile(r"\\begin\{(?:array|tabular)")
_ROW_OF_DATA = re.compile(r"\n[^\n?]*(?::|&|\d[^\n?]*\d|[#.*]{2})[^\n?]*(?=\n|\Z)")


def drawing(text: str) -> re.Match[str] | None:
    """A picture itself: in code (`[asy]`, TikZ), by link, or as the mark that one was lost."""
    return _DRAWING.search(text)


def reference(text: str) -> re.Match[str] | None:
    """Words that point at a picture. A picture that the text has introduced ("a picture hangs …") is a thing in the story,
    and what is shown as rows of data or as a formula stands in the text itself."""
    typeset = bool(_TYPESET.search(text))
    for found in _REFERENCE.finditer(text):
        noun = _NOUN.search(found[0])
        before = text[: found.start()].lower()
        if noun and noun[0].lower().rstrip("s") in before:
            continue
        if noun and noun[0].lower().startswith("image") and _MOVED.search(text) and not _POINTS.search(found[0]):
            continue
        told = noun is None or "chart" in noun[0].lower()
        if typeset or (noun is None and "above" in found[0] + text[found.end() : found.end() + 7] and "$$" in before):
            continue
        if told and (_TEXTUAL.search(before + found[0]) or _ROW_OF_DATA.search(text, found.end())):
            continue
        return found
    return None
