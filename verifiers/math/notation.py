r"""Rewrite an answer in one notation before it is read as tokens: Unicode, infix and old commands, separators,
markup."""

import re
import unicodedata

from ratchet.verifiers.math.vocabulary import VOCABULARY

_CHARACTERS = {character: meaning for meaning, characters in VOCABULARY["unicode"].items() for character in characters}
_WIDE = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱˣ", "0123456789+-()nix", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₐₑₒₓₙₖₘᵢⱼ", "0123456789+-()aeoxnkmij", strict=True))
_SCRIPTS = (
    ("^", _RAISED, re.compile(f"[{''.join(_RAISED)}]+")),
    ("_", _LOWERED, re.compile(f"[{''.join(_LOWERED)}]+")),
)
_SMALL_FRACTION = re.compile(f"([{''.join(_RAISED)}]+)⁄([{''.join(_LOWERED)}]+)")
_TABLE = str.maketrans(_WIDE | _CHARACTERS)
_ROOTS = re.compile(r"(√|∛|∜)\s*(\d+(?:\.\d+)?|(?=[({\\])|[^\W\d_])")
_ROOT_ORDERS = {"√": "", "∛": "[3]", "∜": "[4]"}
_GROUPS = re.compile(r"(?<![\d.'])\d{1,3}(?:'\d{3})+(?![\d'])|(?<![\d.])\d{1,3}(?:\\,\d{3})+(?!\d)")
_DECIMAL_GROUPS = re.compile(r"(?<=\.)\d{3}(?:\\,\d{3})*\\,\d{1,3}(?!\d)")
_QUOTED = re.compile(r"\s*(?:``|“|\"|')([^`'\"“”]+)(?:''|”|\"|')(\.?)\s*")
_STARRED = re.compile(r"\\(begin|end)\{([pbvBV]?matrix)\*\}(?:\[[lcr]\])?")
_DOTTED = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:\.\d{3}){2,}(?![\d.,])")
"""1.230.000: two dots are no decimal point."""
_EXPONENT = re.compile(r"(?<=\d)\s*\\(?:text|mathrm|texttt)\s*\{\s*[eE]\s*([+-]?)\s*\}\s*\{?\s*([+-]?\d{1,3})\b\}?")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,}])(0\{,\}\d+|\d+\{,\}(?:\d{1,2}|\d{4,}))(?![\d{])")
"""4{,}80: of thousands there are three digits."""
_LOOSE_GROUPS = re.compile(r"(?<=\d)\s*\{\s*,\s*\}\s*(?=\d{3}(?!\d))")
_PREFIXED = re.compile(r"(?<![\w.\\}])0(?:[bB]([01]+)|[oO]([0-7]+)|x([\dA-Fa-f]+))(?!\w)")
_FACTORIAL = re.compile(r"(?<=\d)!=|(?<=\d\))!=")
"""7!=5040: numbers that differ are no answer."""
_CYCLE = re.compile(r"(\d*\.\d*)\\dot\s*\{?(\d)\}?(\d*)\\dot\s*\{?(\d)\}?")
_CHOICES = re.compile(r"(?<![A-Za-z}\d])(?:\{\})?(?:_(?:\{(\w+)\}|(\w))|\^(?:\{(\w+)\}|(\w)))\s*C_(?:\{(\w+)\}|(\w))")
_NUMERIC = r"(?:\{\s*(\d+)\s*\}|(\d))"
_CHOSEN = re.compile(rf"(?<![A-Za-z\\}}\d])(?:\\(?:mathrm|text)\s*\{{\s*C\s*\}}|C)\s*_\s*{_NUMERIC}\s*\^\s*{_NUMERIC}")
_CALLED = re.compile(r"(?<![A-Za-z\\])C\((\d+),\s*(\d+)\)|(?<![\d.])(\d+)\s*C\s*(\d+)(?!\d)")
_ROOM = re.compile(
    r"(?<=\\\\)\[-?[\d.]+(?:pt|em|ex|mm|cm)\]|\\[hv]?(?:phantom|space)(?![A-Za-z])\s*(?:\{[^{}]*\})?"
    r"|\\(?:text)?color(?:box)?\s*(?:\[\w*\])?\s*\{[^{}]*\}|\\(?:tag|label)\*?\s*\{[^{}]*\}"
)
_MARKED = re.compile(r"\s*(\*\*|__|`+)([^*`]+)\1\s*(\.?)\s*")
_NEGATED = re.compile(r"\\not\s*(=|\\in(?![A-Za-z]))")
_MEASURE = re.compile(r"(?<![A-Za-z])m\s*(?=\\angle(?![A-Za-z]))")
_CONTRACTED = re.compile(r"\b(it|that|there|here|answer|he|she)['’]s\b", re.IGNORECASE)
_CONSTANT = re.compile(r"(?<![A-Za-z\\\d_^{])([cC])(\d)(?![\d^])")
_NUMBER = re.compile(r"\\num\s*\{([^{}\\]*)\}")
_QUANTITY = re.compile(r"\\(?:qty|SI)\s*\{([^{}\\]*)\}\s*\{([\w/^ %]*)\}")
"""siunitx, with units in letters."""
_RAISED_O = re.compile(r"(?<=\d)\s*\^\s*(?:o(?![A-Za-z])|\{\s*o\s*\})")
_INFIX = re.compile(r"\\(over|choose|atop)(?![A-Za-z])")


def standard(text: str) -> str:
    """The text in ASCII and LaTeX as far as possible."""
    if not text.isascii():
        text = _from_unicode(text)
    if text[:1] in "*`_ " and (marked := _MARKED.fullmatch(text)):
        text = marked[2] + marked[3]
    if text[:1] in "`“\"'" and (quoted := _QUOTED.fullmatch(text)):
        text = quoted[1] + quoted[2]
    if "matrix*" in text:
        text = _STARRED.sub(r"\\\1{\2}", text)
    text = text.replace("{:}", ":")
    if "'" in text or "’" in text:
        text = _CONTRACTED.sub(r"\1 is", text)
    if "c1" in text or "C1" in text:
        text = _CONSTANT.sub(r"\1_\2", text)
    if "!=" in text:
        text = _FACTORIAL.sub("! =", text)
    if "C" in text:
        text = _CHOICES.sub(_binomial, text)
        text = _CALLED.sub(_binomial, _CHOSEN.sub(lambda m: _binomial_of(*filter(None, m.groups())), text))
    if "'" in text or "\\," in text:
        text = _DECIMAL_GROUPS.sub(lambda match: match[0].replace("\\,", ""), text)
        text = _GROUPS.sub(lambda match: match[0].replace("'", "").replace("\\,", ""), text)
    if text.count(".") > 1:
        text = _DOTTED.sub(lambda match: match[0].replace(".", ""), text)
    if "{" in text and "," in text:
        text = _LOOSE_GROUPS.sub("{,}", text)
        text = _DECIMAL_COMMA.sub(lambda match: match[0].replace("{,}", "."), text)
    if "^" in text and "o" in text:
        text = _RAISED_O.sub(r"^\\circ", text)
    if "0" in text and not text.isdigit():
        text = _PREFIXED.sub(_based, text)
    if "\\" in text:
        text = _EXPONENT.sub(r"e\1\2", _ROOM.sub("", text))
        text = _QUANTITY.sub(r"\1 \\text{\2}", _NUMBER.sub(r"\1", text))
        text = _MEASURE.sub("", text) if "angle" in text else text
        if "\\not" in text:
            text = _NEGATED.sub(lambda match: "\\ne " if match[1] == "=" else "\\notin ", text)
        if "\\dot" in text:
            text = _CYCLE.sub(r"\1\\overline{\2\3\4}", text)
        while match := _INFIX.search(text):
            text = _prefixed(text, match)
    return text


def _from_unicode(text: str) -> str:
    if "⁄" in text:
        text = _SMALL_FRACTION.sub(lambda m: unicodedata.normalize("NFKC", f"\\frac{{{m[1]}}}{{{m[2]}}}"), text)
    text = _ROOTS.sub(lambda m: f"\\sqrt{_ROOT_ORDERS[m[1]]}" + (f"{{{m[2]}}}" if m[2] else ""), text)
    for mark, scripts, pattern in _SCRIPTS:
        text = pattern.sub(
            lambda m, mark=mark, scripts=scripts: f"{mark}{{{''.join(map(scripts.__getitem__, m[0]))}}}", text
        )
    text = text.translate(_TABLE)
    if text.isascii():
        return text
    return "".join(map(_plain_letter, text)).translate(_TABLE)


def _plain_letter(character: str) -> str:
    """A mathematical letter or digit (𝑥, 𝟙, 𝐑) as the plain one."""
    is_styled = "\U0001d400" <= character <= "\U0001d7ff"
    return unicodedata.normalize("NFKC", character) if is_styled else character


def _binomial(match: re.Match[str]) -> str:
    above, below = filter(None, match.groups())
    return f"\\binom{{{above}}}{{{below}}}"


def _binomial_of(below: str, above: str) -> str:
    """C_{10}^3 or, elsewhere, C_3^{10}: the larger one is chosen from."""
    larger, smaller = sorted((int(below), int(above)), reverse=True)
    return f"\\binom{{{larger}}}{{{smaller}}}"


def _based(match: re.Match[str]) -> str:
    base = (2, 8, 16)[match.lastindex - 1 if match.lastindex else 0]
    return f"{match[match.lastindex or 0].upper()}_{{{base}}}"


def _prefixed(text: str, match: re.Match[str]) -> str:
    r"""The text with `{a \over b}` or a bare `a \over b` as `\frac{a}{b}`."""
    begin, end = _enclosing(text, match.start())
    name = "frac" if match[1] == "over" else "binom"
    return f"{text[:begin]}\\{name}{{{text[begin : match.start()]}}}{{{text[match.end() : end]}}}{text[end:]}"


def _enclosing(text: str, at: int) -> tuple[int, int]:
    """Begin and end of the group around a position: inside its braces, or the formula's dollar signs."""
    depth, begin, end = 0, at, at
    while begin > 0 and not (depth == 0 and text[begin - 1] in "{$"):
        begin -= 1
        depth += (text[begin] == "}") - (text[begin] == "{")
    depth = 0
    while end < len(text) and not (depth == 0 and text[end] in "}$"):
        depth += (text[end] == "{") - (text[end] == "}")
        end += 1
    return begin, end
