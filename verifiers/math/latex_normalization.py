"""One spelling for what people and models write in many: LaTeX and Unicode variants of the same answer.

Only notation changes here, never the value: what `normalize` makes equal is equal by typography alone.
"""

from __future__ import annotations

import re

_UNICODE = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": "\\times ", "÷": "/", "·": "\\cdot ", "⋅": "\\cdot ", "π": "\\pi ",
        "∞": "\\infty ", "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "∪": "\\cup ", "∩": "\\cap ", "∈": "\\in ",
        "°": "^\\circ ", "±": "\\pm ", "∓": "\\mp ", "²": "^2", "³": "^3", "⁴": "^4", "½": "\\frac{1}{2}",
        "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}", "⅓": "\\frac{1}{3}", "⅔": "\\frac{2}{3}", "∅": "\\emptyset ",
        "ℝ": "\\mathbb{R}", "≈": "\\approx ",
        "∖": "\\setminus ", "⟨": "(", "⟩": ")",
        "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ", "λ": "\\lambda ", "\u00a0": " ",
        "\u2009": " ", "，": ",", "（": "(", "）": ")", "√": "\\sqrt ", "′": "'",
    }
)  # fmt: skip

# Commands that only say how big or where. `\left` must not eat `\leftarrow`, hence the look-ahead.
_DECORATION = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits|mathstrut)(?![A-Za-z])"
    r"|\\[!()\[\]]|(?<!\\)\$"
)
_SPACE = re.compile(r"\\(?:quad|qquad|enspace|hfill)(?![A-Za-z])|\\[ ,;:>]|~")
_SYNONYMS = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\dbinom": r"\binom", r"\tbinom": r"\binom",
    r"\leq": r"\le", r"\geq": r"\ge", r"\neq": r"\ne", r"\leqslant": r"\le", r"\geqslant": r"\ge", r"\lt": "<",
    r"\gt": ">", r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lvert": "|", r"\rvert": "|", r"\vert": "|", r"\mid": "|",
    r"\div": "/", r"\degree": r"^\circ", r"\ldots": "...", r"\dots": "...", r"\cdots": "...", r"\mbox": r"\text",
    r"\mathrm": r"\text", r"\textbf": r"\text", r"\textrm": r"\text", r"\mathbf": r"\text", r"\textit": r"\text",
    r"\textnormal": r"\text", r"\hbox": r"\text", r"\operatorname": r"\text", r"\varnothing": r"\emptyset",
    r"\ast": r"\cdot", r"\lparen": "(", r"\rparen": ")", r"\lbrack": "[", r"\rbrack": "]",
    r"\infin": r"\infty", r"\R": r"\mathbb{R}", r"\langle": "(", r"\rangle": ")",
    r"\approxeq": r"\approx", r"\bf": "", r"\rm": "", r"\it": "", r"\underline": "",
    r"\nicefrac": r"\frac", r"\sfrac": r"\frac", r"\lor": r"\text{or}", r"\vee": r"\text{or}",
    r"\land": r"\text{and}", r"\wedge": r"\text{and}", r"\intercal": r"\top",
}  # fmt: skip
_COMMAND = re.compile(r"\\[A-Za-z]+")
_TEXT_JOIN = re.compile(r",?\s*\\text\{\s*(?:,?\s*(?:and|or)|,)\s*\}|,?\s+(?:and|or)\s+")
_ROW_SPACING = re.compile(r"\\\\\[-?[\d.]+(?:pt|em|ex|mm|cm)\]")
_INFIX = re.compile(r"\{([^{}]*)\\(over|choose)(?![A-Za-z])([^{}]*)\}")
_PHANTOM = re.compile(r"\\[hv]?phantom(?![A-Za-z])\s*(?:\{[^{}]*\})?")
_PLUS = re.compile(r"(?<=[(\[,]) ?\+(?=[\d\\])")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d,])")
_TWO_DIGITS = re.compile(r"\\(frac|binom)\s*(\d)\s*(\d)(?!\d)")
_CHOICES = re.compile(r"(?:\{\})?(?:_(?:\{(\w+)\}|(\w))|\^(?:\{(\w+)\}|(\w)))C_(?:\{(\w+)\}|(\w))")
_SEGMENT = re.compile(r"\\(?:overline|overrightarrow|overleftrightarrow|vec)\s*\{([A-Z]{2,3})\}")
_MIXED = re.compile(r"(?<![\d./^_{])(\d+)\s+(\d+)/(\d+)(?![\d.])")
_TOKEN = re.compile(r"\\text\{[^{}]*\}|\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)
_SHORT_FRACTION = re.compile(r"\\frac([0-9A-Za-z])(?=[0-9A-Za-z{\\])")
_SHORT_DENOMINATOR = re.compile(r"(\\frac\{(?:[^{}]|\{[^{}]*\})*\})([0-9A-Za-z])")
_SHORT_ROOT = re.compile(r"\\sqrt ?([0-9A-Za-z])")
_LONG_SCRIPT = re.compile(r"([\^_])\{([0-9A-Za-z])\}")
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def normalize(text: str) -> str:
    """The answer in canonical notation, without white space but where it separates (`\\pi r`, list commas, words)."""
    text = text.strip()
    if _PLAIN_NUMBER.fullmatch(text):
        return text
    if not text.isascii():
        text = text.translate(_UNICODE)
    text = text.replace("{,}", ",")
    text = _CHOICES.sub(lambda match: "\\binom{{{}}}{{{}}}".format(*filter(None, match.groups())), text)
    if "\\" in text or "$" in text or "~" in text:
        text = _ROW_SPACING.sub(r"\\\\", text)
        text = _SEGMENT.sub(r"\1", _PHANTOM.sub("", text))
        text = _drop_decoration(text)
        text = _INFIX.sub(
            lambda match: f"\\{'frac' if match[2] == 'over' else 'binom'}{{{match[1]}}}{{{match[3]}}}", text
        )
        text = _COMMAND.sub(lambda match: _SYNONYMS.get(match[0], match[0]), text)
    text = _TEXT_JOIN.sub(", ", text)
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", text).replace(";", ", ")
    text = _TWO_DIGITS.sub(r"\\\1{\2}{\3}", text)
    text = _GROUPED.sub(lambda match: match[0].replace(" ", ""), text)
    text = _without_spaces(text)
    text = _PLUS.sub("", text.replace("^{\\circ}", "^\\circ"))
    text = _SHORT_FRACTION.sub(r"\\frac{\1}", text)
    text = _SHORT_DENOMINATOR.sub(r"\1{\2}", text)
    text = _SHORT_ROOT.sub(r"\\sqrt{\1}", text)
    text = _LONG_SCRIPT.sub(r"\1\2", text)
    return text.strip().rstrip(".,;:").strip() if not text.endswith("...") else text.strip()


def _drop_decoration(text: str) -> str:
    # `\\` ends a matrix row: what follows it is not an escape, so it is set aside first.
    rows = text.split("\\\\")
    return "\\\\".join(_SPACE.sub(" ", _DECORATION.sub("", row)) for row in rows)


def _without_spaces(text: str) -> str:
    """Drop white space except after a list comma, between words, between numbers, and between a command and the letter
    after it."""
    kept: list[str] = []
    space = False
    for token in _TOKEN.findall(text):
        if token.isspace():
            space = True
            continue
        if space and kept:
            last = kept[-1]
            apart = (last[-1].isalpha() and token[0].isalpha()) or (last[-1].isdigit() and token[0].isdigit())
            if last == "," or apart:
                kept.append(" ")
        kept.append(token)
        space = False
    return "".join(kept)
