"""Decides whether a statement needs a picture that is missing: it has one, or refers to one, and either has hardly any
other content, or asks for something that only the picture has. Pictures drawn in code and tables can be read."""

import re

from ratchet.data_curation.rules.patterns import any_of

PICTURE = any_of(
    r"!\[[^\]]{0,200}\]\([^)\n]{0,400}\)|<img\b[^>]*>|<svg\b.*?</svg>|<image\d*>",
    r"\[[^\]]{0,200}\]\([^)\s]{0,400}(?:File:|\.(?:png|jpe?g|gif|svg))[^)\s]{0,99}\)",
    r"\[(?:image|figure|diagram|picture)\b[^\]]{0,80}\]|\\includegraphics(?:\[[^\]]*\])?\{[^}]*\}",
    r"https?://[^\s()]{1,200}\.(?:png|jpe?g|gif|svg|bmp|webp)\S*|\S{1,99}\.(?:png|jpe?g)\?(?:height|width)=\S*",
    flags=re.DOTALL | re.IGNORECASE,
)
"""A link, or the mark of a lost picture."""
_MARKS = (
    "](", "<img", "<svg", "<image", "[image", "[figure", "[diagram", "[picture", "\\includegraphics", "://", ".png?",
    ".jpg?", ".jpeg?",
)  # fmt: skip
"""Each match of `PICTURE` has one of these."""
IN_CODE = re.compile(
    r"\[asy\].*?(?:\[/asy\]|\Z)|\\begin\{(tikzpicture|asy|picture|pspicture)\}.*?(?:\\end\{\1\}|\Z)", re.DOTALL
)
_TABLE = re.compile(
    r"\\begin\{(?:array|tabular|[a-zA-Z]?matrix)|\n[^\n?]*(?:\||&|\t|\d[^\n?]*\d|[#.*]{2})[^\n?]*(?=\n|\Z)"
)
_SEEN = (
    r"(?:figure|diagram|picture|drawing|illustration|sketch|photo|histogram|chart|graph(?: of [^.?!]{1,60})?|grid|map"
    r"|plot|number line|spinner|net|image|shape|solid|region|polygon|triangle|quadrilateral|rectangle|square|circle"
    r"|hexagon|pentagon|octagon|angle|tiling|board|maze|clock|pyramid|path|curve|circuit)s?"
)
_WHICH = r"(?:following|given|accompanying|adjoining|adjacent|attached|above|left|right|tree|Venn|circuit|bar|pie)"
_SHOWN = (
    r"(?:shown|pictured|depicted|illustrated|displayed|drawn|graphed)"
    r"(?! (?:to|that|by|how|on an?|in (?:example|table))\b)"
)
_SIDE = r"(?:here|(?:at|on|to) the (?:left|right)|(?:below|above)(?!\s+(?:the|an?|this|that|it|\$|zero|average|\d)\b))"
_POINTS = any_of(
    rf"\b(?:the|this|each) (?:{_WHICH} ){{0,2}}(?:figure|diagram|histogram|chart)s?\b(?! (?:out|plane)\b)",
    r"\b(?:in|from|see) (?:the|this) (?:\w+ )?(?:picture|drawing|illustration|sketch|photo|image)s?\b(?! of\b)",
    rf"\b{_SEEN} (?:(?:is|are|as|that is|that are|which is) )?(?:{_SHOWN}|{_SIDE})\b",
    r"\b(?:the|this) (?:graph|picture|image|drawing|map|plot) (?:shows|depicts|represents)\b",
    rf"\b(?:fig\.|figures?)[ ]?(?:\d|\([a-d]\))|\bas {_SHOWN}\b|\bas seen (?:below|above)\b",
)
_NO_QUANTITY = any_of(  # labels, and instructions about the answer
    r"\b(?:fig(?:ure)?s?|tables?|exercises?|problems?|examples?|parts?|questions?)\.?\s?\(?\d+(?:\.\d+)*|\A\W*\d+[.)]",
    r"(?<![\w\\])[a-zA-Z]\(-?\d+\)",  # $f(3)$ is read from a graph
    r"\b(?:express|round|write|give|leave) (?:your|the) answers?[^.]*|\bto the nearest[^.?]*|\b[\w-]+-digit\b",
)
_QUANTITY = any_of(
    r"(?<![\d.])\d+(?:[.,]\d+)*|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|twice|double)\b",
    r"\b(?:unit (?:circle|square|cube)|equilateral|regular|isosceles)\b",
)
_FORMULA = re.compile(r"\$\$[^$]+\$\$|\$[^$]+\$|\\\(.+?\\\)|[=<>≤≥°∠△⊥∥]|\b[A-Z]{2,}\b", re.DOTALL)
_NO_VALUE = re.compile(  # asks for a drawing or a reason
    r"\b(?:sketch|draw|construct|plot|make|explain|why|prove|show that|describe|discuss|how do(?:es)?)\b", re.IGNORECASE
)
MOST_FORMULAS = 1
"""A text with more formulas, or a number, may describe its picture."""
_SENTENCE = re.compile(r"(?:[^.?!]|[.?!](?=\w))+[.?!]?")
_ASKS = re.compile(r"\?|\b(?:find|determine|compute|calculate|evaluate|what|how)\b", re.IGNORECASE)
_SHADED = re.compile(  # not "the shaded region $ABC$", nor "the mirror (the shaded region)"
    r"\b(?:the|an?|each|this|these) (?:[\w-]+ ){0,3}?(?:un|non-?)?shaded (?:region|area|part|portion|section)s?\b"
    r"(?!\)| \$| \\| [A-Z]{2})|\b(?:is|are) (?:un)?shaded\b",
    re.IGNORECASE,
)
_BOUNDS = re.compile(
    r"\b(?:inside|outside|between|bounded|enclosed|formed|overlap\w*|common|created|under|above|within|remain\w*)\b"
)
_FUNCTION = (  # $f$, $y = F(x)$, $y = ax^2 + bx + c$
    r"\$(?:y ?= ?)?(?P<{}>[a-z]|[A-Z](?=\())(?:\^\{{?-1\}}?)?(?:\([a-z]\))?(?: ?= ?a ?[xy]\b[^$]{{0,40}})?[,.]?\$"
)
_GRAPH = re.compile(  # "Below is the graph of $f$", "The graph of $y = f(x)$ is shown"
    r"\b[Bb]elow (?:is|are) [^.$]{0,40}\bgraphs? of [^.$]{0,50}"
    + _FUNCTION.format("f")
    + r"|\bgraphs? of [^.$]{0,50}"
    + _FUNCTION.format("g")
    + r"[^.]{0,60}?\b(?:shown|(?:is|are) given|drawn|pictured|depicted|provided|(?:below|here)(?! the)"
    r"|in (?:the )?[Ff]ig|in the diagram)"
)
_SAID_OF_IT = (
    r"\\begin\{cases|polynomial|quadratic|linear|cubic|quartic|pass|through|vertex|intercept|roots?\b|zeros?\b|asymptote"
    r"|m(?:ax|in)imum"
)
_WANTED = re.compile(  # "Find $AX$", "what is the measure of angle PMN"
    r"\b(?i:find|determine|compute|calculate|what(?: is| are|'s)"
    r"|the(?= (?:value|size|measure) of [^.]{1,40} is\b[:\s]*\Z)|how (?:many|long)\b[^.?!$]{0,50}?\b(?:is|in|does))"
    r"(?: (?:the )?(?:number of )?[\w ]{2,20}? in)?(?: the)?"
    r"(?:(?: [\w-]+){0,2} (?:value|length|measure|size|area|perimeter|sine|cosine|tangent|sum) of(?: the)?)?"
    r"(?: (?:angles?|segment|line segment|line|side|triangle|arc|quadrilateral|polygon))?"
    r" (?P<name>\$[^$]{1,40}\$|[∠△]?[A-Z]{2,4}\b|[xyz]\b)(?!(?: and \S+)?[- ](?:coordinate|component|axis))"
)
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


_SHOWS_DATA = any_of(  # without a number in the sentence
    r"\b(?:graph|chart|histogram|diagram)s? (?:below |above )?(?:shows?|gives?|displays?|represents?) (?:the |how )?"
    r"(?:[\w']+ ){0,3}(?:rate|miles|distances?|numbers?|amounts?|sales|scores|temperatures?|population|many|percent\w*"
    r"|results|prices?|costs?|heights?|speeds?|balance|profits?|much|ages|votes)\b[^.?!\d]*(?=[.?!])",
)
_SHOWS_PLACES = any_of(  # of numbers to write in, and of what the text does not say otherwise
    r"\b(?:digits?|numbers?|integers?)\b[^.]{0,90}\b(?:squares|circles|boxes|cells|regions|parts|spaces|vertices)\b"
    r" (?:in|of|on) the (?:figure|diagram|picture)\b",
    r"\bcircles in the (?:figure|diagram|picture) intersect\b|\blook at the picture\b|\bposition shown\b",
    r"\b(?:lengths?|angles?|segments?|points?|sides?|regions?) (?:indicated|marked) (?:in|on) the (?:figure|diagram)",
    r"\bcolou?red as shown\b",
)
_MARKED = re.compile(r"\b(?:angles?|sides?|lengths?|segments?|parts?|regions?) (?:marked|labell?ed)\b", re.IGNORECASE)
_SHOWS = re.compile(
    r"\b(?:the|this) (?:diagram|picture|figure|drawing|illustration|image)s? (?:(?:below|above|(?:on|to) the \w+) )?"
    r"shows?\b(?! that\b)",
    re.IGNORECASE,
)
_AS_A_WORD = re.compile(r"\b(?:in|on|from|of|with|see|at|under|using) <image_?\d*>", re.IGNORECASE)
"""The tag of a picture, as data sets for models that see have it, in the place of a word."""


def without_pictures(text: str) -> str:
    if "[asy]" in text or "\\begin{" in text:
        text = IN_CODE.sub(" ", text)
    return PICTURE.sub(" ", text) if has_marks(text) else text


def has_marks(text: str) -> bool:
    """True if `PICTURE` can match at all: far cheaper than to try it."""
    lowered = text.lower()
    return any(mark in lowered for mark in _MARKS)


_CUES = (
    *_MARKS, "<image", "fig", "diagram", "histogram", "chart", "pict", "draw", "illustrat", "sketch", "photo", "image",
    "map", "plot", "shown", "depict", "display", "graph", " here", "left", "right", "below", "above", "shad",
    "indicated", "marked",
)  # fmt: skip
"""Without one of these, a text has no picture and refers to none."""


def needed(text: str) -> re.Match[str] | None:
    """The picture, or the reference to one, without which a text has hardly any content; or the thing that is asked for
    and only a picture shows."""
    lowered = text.lower()
    if not any(cue in lowered for cue in _CUES):
        return None
    prose = _NO_QUANTITY.sub(" ", PICTURE.sub(" ", text))
    if IN_CODE.search(text) or _TABLE.search(prose) or _NO_VALUE.search(prose):
        return None
    match = (PICTURE.search(text) if has_marks(text) else None) or reference(text)
    if _QUANTITY.search(prose) or len(_FORMULA.findall(prose)) > MOST_FORMULAS:
        quantities, formulas = _QUANTITY.findall(prose), _FORMULA.findall(prose)
        few = len(quantities) + len(formulas) == 1
        shown = _SHOWS_DATA.search(text) or _SHOWS_PLACES.search(text) or _AS_A_WORD.search(text)
        shown = shown or (_SHOWS.search(text) if few else None) or (_MARKED.search(text) if match else None)
        if [text.lower() for text in quantities] in (["two"], ["three"], ["four"]) and len(
            formulas
        ) <= MOST_FORMULAS:  # things, rather than their sizes
            shown = shown or match
        return shown or _undescribed(text) or (_named_once(text) if match else None)
    return match


def _undescribed(text: str) -> re.Match[str] | None:
    """A shaded region mentioned only in the question, without bounds, or the graph of a function without a
    description."""
    mentions = [match[0] for match in _SENTENCE.finditer(text) if "shad" in match[0].lower()]
    if len(mentions) == 1 and _ASKS.search(mentions[0]) and not _BOUNDS.search(text):
        return _SHADED.search(text)
    if match := _GRAPH.search(text):
        name, rest = match["f"] or match["g"], text[match.end() :] + text[: match.start()]
        return None if re.search(rf"(?<![a-zA-Z\\]){name}(?:\([a-z]\))? ?=|{_SAID_OF_IT}", rest) else match
    return None


def _named_once(text: str) -> re.Match[str] | None:
    """The question, if it names a point or a variable that the text does not mention otherwise."""
    letters = _letters(" ".join(_MATH.findall(text)))
    for match in _WANTED.finditer(text):
        if _A_NAME.fullmatch(match["name"]) and any(letters.count(c) == 1 for c in _letters(match["name"])):
            return match
    return None


def _letters(text: str) -> list[str]:
    return [c for c in _COMMAND.sub(" ", text) if c.isascii() and c.isalpha()]


def reference(text: str) -> re.Match[str] | None:
    """A reference to a picture that the text has not introduced itself ("A picture hangs …")."""
    for match in _POINTS.finditer(text):
        noun = re.search(_SEEN, match[0], re.IGNORECASE)
        introduced = noun and rf"\ban? (?:\w+ )?{re.escape(noun[0].split()[0].rstrip('s'))}"
        if not introduced or not re.search(introduced, text[: match.start()], re.IGNORECASE):
            return match
    return None


def in_place_of_words(text: str) -> re.Match[str] | None:
    """A picture inside a sentence, in place of a word or a formula."""
    for match in PICTURE.finditer(text):
        line = text[: match.start()].rpartition("\n")[2]
        is_inside = _BROKEN_OFF.search(line) or _CONTINUES.match(text, match.end())
        if line.strip() and is_inside and not match[0].startswith("http"):
            return match
    return None
