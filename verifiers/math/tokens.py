r"""The tokens of an answer, in LaTeX or plain text.

A token keeps how it was written, because that decides its meaning: `\mathrm{i}` and `\text{m}` are single upright
letters, `\text{men}` a word, `abc` a run of letters (a word, a unit or a product: the parser decides), `x` a name.
Commands for size and position are dropped, synonyms become one command, numbers get their exact value.
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from ratchet.verifiers.math.notation import standard
from ratchet.verifiers.math.vocabulary import VOCABULARY

MAX_TOKENS = 1024
_MAX_TEXT_DEPTH = 8


class Token(NamedTuple):
    """A token. `kind` is number, name (one letter, or a Greek one), run (several plain letters), word (several upright
    letters), command, or op. `gap`: white space precedes it. `upright`: it was in \\text, \\mathrm, or the like; of a
    number: it was written in words."""

    kind: str
    text: str
    gap: bool = False
    value: Fraction | None = None
    upright: bool = False
    vector: bool = False

    def isa(self, *texts: str) -> bool:
        """True if the token is one of these operators or commands."""
        return self.text in texts and (self.kind == "op" or self.kind == "command")


class Unreadable(Exception):
    """A text whose braces do not match, or with too many tokens."""


Tokens = tuple[Token, ...]


def _meanings(section: str) -> dict[str, str]:
    return {word: meaning for meaning, words in VOCABULARY[section].items() for word in words.split()}


FUNCTIONS = frozenset(VOCABULARY["functions"].split())
OPAQUE_FUNCTIONS = frozenset(VOCABULARY["opaque_functions"].split())
_COMMANDS, _OPERATORS = _meanings("commands"), _meanings("operators")
_PLAIN = _meanings("plain") | {name: f"\\{name}" for name in FUNCTIONS}
_LEX = re.compile(
    r"(?P<space>\s+|~)|\\(?P<command>[A-Za-z]+|.)|(?P<degree>\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z])))"
    r"|(?P<prime>\^\s*(?:\{(?:\s*\\prime)+\s*\}|\\prime(?![A-Za-z]))|'+)"
    r"|(?P<number>\d+(?:\{,\}\d{3})*(?:\.\d+|\.(?=\s*\\(?:overline|bar|dot)(?![A-Za-z])|[(/]))?|\.\d+)"
    r"|(?P<han>[\u2e80-\u9fff]+)|(?P<letters>[^\W\d_\u2e80-\u9fff]+)|(?P<op>\.\.\.+|<=|>=|!=|\*\*|.)",
    re.DOTALL,
)
_CYCLE = re.compile(
    r"\s*(?:\\(?:overline|bar)\s*\{(\d+)\}|\\(?:bar|overline)\s*(\d)|\\dot\{?(\d)\}?|\((\d+)\)(?![\d(]))"
)
_DOTS = re.compile(r"\s*(?:\.\.\.+|\\(?:l|c)?dots(?![a-z]))")
_SCIENTIFIC = re.compile(r"[eE]([+-]?\d{1,4})(?![\dA-Za-z({^]|\.\d|\\(?!math|text|[ ,;:!]))")
_ONE_LETTER = re.compile(r"\s*(\\?[A-Za-z]|\\[A-Za-z]+)\s*(?=_|$)")
_INTERVAL = re.compile(r"\s*(?:\\left\s*)?(?:\\\{|[(\[][^()\[\]]*,)")
_PROPOSITION = re.compile(r"\s*(?:[A-Za-z(]|\\(?:sim|neg|lnot)(?![A-Za-z]))")
_ACCENTS = frozenset(["dot", "ddot", "hat", "widehat", "tilde", "widetilde", "bar", "overline", "check", "breve"])
_ARROWS = frozenset(["vec", "overrightarrow"])
_SIZED = re.compile(r"\\(?:left|right|[bB]igg?[lrm]?)\s*(?=\||\\[lr]?vert(?![a-z])|\\[lr]angle)")
_BAR = r"(?:(?<!\\)\||\\[lr]?vert(?![a-z])|\\mid(?![a-z]))"
_INSIDE = rf"((?:(?!{_BAR}|\\[lr]angle).)*)"
_STATES = (  # an inner product, one with an operator, a ket, a bra, a mean: no vectors, and no products
    (re.compile(rf"\\langle{_INSIDE}{_BAR}{_INSIDE}\\rangle"), r"\\braket{\1|\2}"),
    (re.compile(rf"\\langle([^|,]+?){_BAR}{_INSIDE}{_BAR}([^|,]+?)\\rangle"), r"\\braket{\1|\2|\3}"),
    (re.compile(rf"{_BAR}{_INSIDE}\\rangle"), r"\\ket{\1}"),
    (re.compile(rf"\\langle(?![^|]*,){_INSIDE}{_BAR}"), r"\\bra{\1}"),
    (re.compile(r"\\langle((?:(?!\\[lr]angle)[^,;])*)\\rangle"), r"\\mean{\1}"),
)
_FACED = re.compile(r"(\\(?:wide)?hat\s*\{?\s*)\\(?:math(?:bf|rm)|boldsymbol|bm|vec)\s*(?:\{\s*(\\?\w+)\s*\})?")
_COMPLEMENTS = re.compile(r"[+'*]|\\(?:cdot|o(?:plus|r)|l(?:or|and)|vee|wedge|c[au]p|(?:overline|bar)\s*\{?\s*[A-Z]\b)")
"""Beside it, \\overline{AB} is no segment."""
_SPACING = re.compile(r"[\s{}]|\\[,;! ]")
_CALLED = re.compile(r"\s*(?:\\left\s*)?[(\[]")
_OWNER = re.compile(r"(?<=[A-Za-z]{3})'s\b")  # Fermat's: no derivative
_CONVOLVED = re.compile(r"(?<![A-Za-z])([fgh])\s*(?:\*|\\ast(?![a-z]))\s*(?=[fgh](?![A-Za-z]))")


def tokenize(text: str) -> Tokens:
    """Split a text into tokens. Raises Unreadable."""
    text = standard(text)
    if "'s" in text:
        text = _OWNER.sub("s", text)
    if "*" in text or "\\ast" in text:
        text = _CONVOLVED.sub(r"\1\\star ", text)
    if "\\" in text:
        text = _FACED.sub(r"\1\2", text) if "hat" in text else text
        if "angle" in text:
            text = _SIZED.sub("", text)
            for pattern, meaning in _STATES:
                text = pattern.sub(meaning, text)
    lexer = _Lexer(text)
    lexer.read(0, len(text), False, 0)
    return tuple(lexer.tokens)


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.gap = False

    def add(self, kind: str, text: str, value: Fraction | None = None, upright: bool = False) -> None:
        if len(self.tokens) >= MAX_TOKENS:
            raise Unreadable
        self.tokens.append(Token(kind, text, self.gap, value, upright))
        self.gap = False

    def read(self, position: int, end: int, upright: bool, depth: int) -> None:
        """Add the tokens from one position to another; `upright` inside \\text and the like."""
        while position < end:
            match = _LEX.match(self.text, position)
            assert match
            position, kind, text = match.end(), match.lastgroup, match[0]
            if kind == "space":
                self.gap = True
            elif kind == "number":
                position = self._number(text.replace("{,}", ""), position)
            elif kind == "letters":
                self._letters(text, upright, position)
            elif kind == "han":
                self.add("word", text, upright=True)
            elif kind == "command":
                position = self._command(match["command"], position, end, depth)
            elif kind == "degree":
                self.add("command", "\\degree")
            elif kind == "prime":
                self.add("op", "'" * (text.count("'") or text.count("\\prime")))
            elif text != "$":
                self.add("op", _PLAIN.get(text, text))

    def _letters(self, letters: str, upright: bool, position: int) -> None:
        before = self.tokens[-1] if self.tokens else None
        if letters in ("degrees", "degree") and before and (before.kind in ("number", "name") or before.isa("}", ")")):
            self.add("command", "\\degree")
        elif letters == "U" and before and before.isa(")", "]", "\\}") and _INTERVAL.match(self.text, position):
            self.add("command", "\\cup")
        elif letters in OPAQUE_FUNCTIONS and self.text.startswith("(", position):
            self.add("command", "\\" + letters)
        elif letters in ("cup", "union") and not (before and (before.kind == "name" or before.isa(")", "]", "\\}"))):
            self.add("word" if upright else "run", letters, upright=upright)
        elif letters in _PLAIN and not (upright and letters == "union"):
            self.add("command", _PLAIN[letters])
        else:
            self.add("name" if len(letters) == 1 else "word" if upright else "run", letters, upright=upright)

    def _number(self, digits: str, position: int) -> int:
        value = Fraction(digits)
        if "." in digits:
            places = len(digits) - digits.index(".") - 1
            if repeating := _CYCLE.match(self.text, position):
                cycle = next(filter(None, repeating.groups()))
                self.add("number", f"{digits}({cycle})", value + _cycle(cycle, places))
                return repeating.end()
            if (dots := _DOTS.match(self.text, position)) and (continued := _continued(digits)) is not None:
                self.add("number", digits + "...", continued)
                return dots.end()
        if exponent := _SCIENTIFIC.match(self.text, position):
            digits, position, value = digits + exponent[0], exponent.end(), value * Fraction(10) ** int(exponent[1])
        self.add("number", digits, value)
        return position

    def _command(self, name: str, position: int, end: int, depth: int) -> int:
        meaning = "space" if name.isspace() else _COMMANDS.get(name, name)
        if meaning == "space":
            self.gap = True
        elif meaning in ("text", "letters", "vector"):
            return self._styled(name, meaning, position, end, depth)
        elif name == "!":  # 11,\\! 111 is one number
            while self.text[position : position + 1].isspace():
                position += 1
        elif name in ("ket", "bra", "braket"):
            position = self._state(name, position, end)
        elif name == "underline" and self.tokens[-2:-1] and self.tokens[-2].isa("^"):
            self.add("command", "\\underline")  # a falling factorial
        elif name in _ACCENTS and (accented := self._accented(meaning, position, end, depth)):
            return accented
        elif name == "triangle" and not (self.tokens and self.tokens[-1].kind in ("name", "run", "number")):
            pass  # the word, not the difference of sets
        elif name == "sim":
            starts = not self.tokens or self.tokens[-1].isa("(", "\\neg", "\\vee", "\\wedge", "\\implies", "\\iff")
            self.add("command", "\\neg" if starts and _PROPOSITION.match(self.text, position) else "\\approx")
        elif name in _OPERATORS:
            self.add("op", _OPERATORS[name])
        elif name == "mathbb":
            (begin, close), position = self._argument(position, end)
            text = self.text[begin:close].strip()
            self.add("name", text if text in ("E", "P") and _CALLED.match(self.text, position) else "\\" + text)
        elif name == "Pr":
            self.add("name", "P")
        elif meaning == "overline" and re.fullmatch("[A-Z]{2,3}", self.text[slice(*self._argument(position, end)[0])]):
            if _COMPLEMENTS.search(self.text):
                self.add("command", "\\overline")
        elif meaning != "nothing":
            self.add("command", "\\" + meaning)
        return position

    def _accented(self, accent: str, position: int, end: int, depth: int) -> int:
        """A letter with a dot, a hat, ... is one name, and \\hat i a vector; 0 for anything else."""
        (begin, close), after = self._argument(position, end)
        match = _ONE_LETTER.match(self.text, begin, close)
        base = match[1].replace("math", "") if match else ""
        if not match or (accent == "overline" and base in ("z", "w")):
            return 0
        unit = accent == "hat" and base.lstrip("\\") in ("i", "j", "k", "imath", "jmath")
        base = base.lstrip("\\")[0] if unit else base
        self.tokens.append(Token("name", base if unit else f"\\{accent} {base}", self.gap, vector=unit))
        self.gap = False
        if depth < _MAX_TEXT_DEPTH:
            self.read(match.end(), close, False, depth + 1)
        return after

    def _state(self, name: str, position: int, end: int) -> int:
        """A ket, a bra or an inner product as one name, as are kets in a row: they do not commute."""
        (begin, close), position = self._argument(position, end)
        text = f"\\{name} {_SPACING.sub('', self.text[begin:close])}"
        if name != "braket" and self.tokens and self.tokens[-1].isa("\\otimes"):
            self.tokens.pop()
        if name != "braket" and self.tokens and self.tokens[-1].text.startswith(f"\\{name} "):
            text = f"{self.tokens.pop().text} {text}"
        self.add("name", text)
        return position

    def _styled(self, name: str, meaning: str, position: int, end: int, depth: int) -> int:
        (begin, close), position = self._argument(position, end)
        content = self.text[begin:close]
        if depth > _MAX_TEXT_DEPTH:
            raise Unreadable
        if name == "operatorname" and len(content) > 1 and content.isalpha():
            self.add("command", "\\" + content, upright=True)  # an unknown function, not a noun
        else:
            upright = meaning == "text" or (len(content) > 1 and content.isalpha())
            self.gap |= content[:1].isspace()
            first = len(self.tokens)
            self.read(begin, close, upright, depth + 1)
            if meaning == "vector" and (added := self.tokens[first:]) and added[0].kind in ("name", "run", "command"):
                points = content.isupper() and len(content) == 2  # \\overrightarrow{AB}
                if points or (len(added) == 1 and added[0].kind != "run"):
                    self.tokens[first:] = [added[0]._replace(kind="name", vector=True)]
            elif meaning == "vector" and name in _ARROWS:  # of a number: nothing we know
                self.tokens.insert(first, Token("command", "\\vec"))
        return position

    def _argument(self, position: int, end: int) -> tuple[tuple[int, int], int]:
        """Begin and end of the content of the next group, or of the next character; and the position after it."""
        while position < end and self.text[position].isspace():
            position += 1
        if command := re.compile(r"\\[A-Za-z]+").match(self.text, position, end):
            return command.span(), command.end()
        begin, depth = position + 1, 0
        while position < end:
            character = self.text[position]
            depth += (character == "{") - (character == "}")
            position += 1 + (character == "\\")
            if depth == 0:
                return ((begin, position - 1) if self.text[begin - 1] == "{" else (begin - 1, begin)), position
        raise Unreadable


def _continued(digits: str) -> Fraction | None:
    """0.333..., 0.4545... and 0.142857142857...: only if they end in a digit three times, or more of them twice."""
    decimals = digits.partition(".")[2]
    for length in range(1, len(decimals) // 2 + 1):
        times = 2 if length > 1 else 3
        if decimals.endswith(decimals[-length:] * times):
            start = len(decimals) - times * length
            return Fraction(digits[: len(digits) - times * length]) + _cycle(decimals[-length:], start)
    return None


def _cycle(digits: str, places: int) -> Fraction:
    """The value of digits that repeat forever after `places` decimal places."""
    return Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)


def single_letters(tokens: Iterable[Token]) -> Tokens:
    """Tokens with runs of letters as products of names."""
    split = []
    for token in tokens:
        names = [Token("name", letter, token.gap and not i) for i, letter in enumerate(token.text)]
        split += names if token.kind == "run" else [token]
    return tuple(split)


def spelled(tokens: Tokens) -> str:
    """The tokens in one spelling, equal for answers that differ only in typography. Case counts: kT is not kt."""
    text = " ".join(token.text for token in tokens)
    return re.sub(r"(_|\^(?! \{ [a-zA-Z]{2})) \{ (\S+) \}", r"\1 \2", text)  # a^{bc} is not a^bc
