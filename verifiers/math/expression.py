"""The parser of expressions: from tokens to trees (`nodes.py`). An ambiguous expression (1/2x) is not parsed."""

import contextlib
import math
import re
from fractions import Fraction

from ratchet.verifiers.math import calculus
from ratchet.verifiers.math.cursor import CLOSING, END, Cursor
from ratchet.verifiers.math.nodes import (
    ZERO,
    Node,
    Unsupported,
    in_radians,
    is_sum,
    kinds_of,
    minus,
    names_of,
    rational_value,
)
from ratchet.verifiers.math.propositions import set_table
from ratchet.verifiers.math.tokens import FUNCTIONS, OPAQUE_FUNCTIONS, Token, Tokens
from ratchet.verifiers.math.vocabulary import VOCABULARY

_MOST_TOKENS = 300
"""Tokens of an expression, each letter counted: bounds the depth of trees, which takes two stack frames per level."""
_MOST_DEPTH = 30
_MOST_ROOT = 1000
_SYMBOLS = frozenset("\\" + name for name in VOCABULARY["symbols"].split())
_OPAQUE = frozenset("\\" + name for name in OPAQUE_FUNCTIONS) | {"\\nabla"}
_SYMMETRIC = frozenset(["\\max", "\\min", "\\gcd", "\\lcm"])
"""Functions of a set: their arguments have no order."""
_SIGNS = ("\\sgn", "\\sign")
_ORDER = re.compile(r"\( (?:\d|[nkm]|\\#\d+|[nkm] [+-] \d) \)")
_INDEX = r"(?:[ijkl]|\\(?:mu|nu|rho|sigma|lambda|kappa|alpha|beta|gamma))"
_INDICES = re.compile(rf"{_INDEX}(?: {_INDEX})+")
_DERIVED, _TENSORS = frozenset("fghuvyFG"), frozenset("ABDEFGHJKLMPQRSTUVWXghj\\")
_SEQUENCE = re.compile(r"\[ (?:-? ?\d* ?)[nkm](?: [+-] \w+)? \]")
_STRUCTURE = re.compile(r"\\[A-Z](?:[_^].*)?")
"""\\Z_6: a set or a group, and no number."""
_RECIPROCAL = {"arcsec": "arccos", "arccsc": "arcsin"}
_INVERSE = {"cot": "arccot", "sec": "arcsec", "csc": "arccsc", "sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_INVERSE |= {"sinh": "arsinh", "cosh": "arcosh", "tanh": "artanh"}


def _double_factorial(node: Node) -> Node:
    r"""(2n - 1)!! as (2n)! / (2^n n!), and (2n)!! as 2^n n!: which of them must be seen."""
    one, two = (("number", Fraction(each)) for each in (1, 2))
    above = rational_value(node)
    if above is not None:
        if above.denominator > 1 or not 0 <= above < 1000:
            raise Unsupported
        return ("number", Fraction(math.prod(range(int(above), 0, -2))))
    even = node
    if node[0] in ("-", "+") and node[2] == one:
        even = node[1]
    if even[0] != "*" or even[1] != two:
        raise Unsupported
    half: Node = even[2] if node[0] != "+" else ("+", even[2], one)
    product: Node = ("*", ("^", two, half), ("factorial", half))
    return product if even is node else ("/", ("factorial", ("*", two, half)), product)


def parse_expression(tokens: Tokens) -> Node | None:
    """The tree; None for an answer outside the grammar or an ambiguous one."""
    if not tokens or sum(len(token.text) if token.kind == "run" else 1 for token in tokens) > _MOST_TOKENS:
        return None
    parser = Parser(tokens)
    with contextlib.suppress(Unsupported):
        node = parser.sum(0)
        return node if parser.token is END else None
    return None


class Parser(Cursor):
    """A recursive descent parser: sum, product, power, atom. Juxtaposition multiplies."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self._in_function = self._in_bars = self.bound_indices = 0
        self._is_bare = False

    def sum(self, depth: int) -> Node:
        if depth > _MOST_DEPTH:
            raise Unsupported
        node = self.product(depth)
        while sign := self.eat("+", "-"):
            node = (sign, node, self.product(depth))
        return node

    def product(self, depth: int) -> Node:
        negative = divided = False
        while sign := self.eat("+", "-"):
            negative ^= sign == "-"
        node: Node = self.power(depth)
        while True:
            if sign := self.eat("\\cdot", "\\times", "/", "\\div"):
                while another := self.eat("-", "+"):
                    negative ^= another == "-"
                opening = self.token
                factor = self._denominator(depth) if sign in ("/", "\\div") else self.power(depth)
                if sign == "\\div":  # left to do, and no fraction
                    factor = ("/", ("number", Fraction(1)), factor)
                kind = "/" if sign == "/" else "*"
                if sign == "\\times" and names_of(node) and names_of(factor):
                    kind = "cross"
                elif sign == "\\cdot" and "vector" in kinds_of(node) & kinds_of(factor):
                    kind = "dot"
                node = (kind, node, factor)
                divided |= sign in ("/", "\\div") and not (opening.isa("(") and self.tokens[self.position - 1].isa(")"))
            elif self._starts_factor():
                if divided:
                    raise Unsupported  # 1/2x: which of the two?
                node = self._juxtaposed(node, depth)
            else:
                return minus(node) if negative else node

    def _denominator(self, depth: int) -> Node:
        """1/f(x) is not 1/f times x; t/RC is t/(RC)."""
        node = self.power(depth)
        while node[0] in ("name", "*") and self.token.kind == "name" and self._is_close():
            node = ("*", node, self.power(depth))
        return ("call", *node[1:]) if node[0] == "applied" else node

    def _is_close(self) -> bool:
        before = self.tokens[self.position - 1]
        return before.kind in ("name", "command") and (not self.token.gap or before.text[0] == "\\")

    def _starts_factor(self) -> bool:
        token = self.token
        if token.kind == "op":
            return token.text in CLOSING or (token.text == "|" and not self._in_bars)
        ends = token.text in ("\\degree", "\\rfloor", "\\rceil", "\\end")
        return token.kind in ("number", "name") or (token.kind == "command" and not ends)

    def _juxtaposed(self, node: Node, depth: int) -> Node:
        begin, after = self.token, self.tokens[self.position + 1]
        is_index = self.position > 1 and self.tokens[self.position - 2].isa("_")  # N_0 2^n
        before = END if is_index else self.tokens[self.position - 1]
        factor = self.power(depth)
        if (
            begin.kind == "number"
            and not before.isa("!", ")", "]")
            and (
                before.kind == "number" or not after.isa("^") or not begin.value  # v0^2
            )
        ):
            raise Unsupported  # two numbers side by side, or x2
        mixed = begin.isa("\\frac") and before.kind == node[0] == "number" and factor[0] == "/"
        if not mixed or factor[1][0] != "number" or factor[2][0] != "number":
            return ("*", node, factor)
        if node[1].denominator > 1 or not 0 <= factor[1][1] < factor[2][1]:
            raise Unsupported
        return ("number", node[1] + factor[1][1] / factor[2][1])

    def power(self, depth: int) -> Node:
        node: Node = self._atom(depth)
        while True:
            if self.eat("!"):
                is_double = self.eat("!") != ""
                if node[0] == "factorial" or self.token.isa("!"):
                    raise Unsupported
                node = _double_factorial(node) if is_double else ("factorial", node)
            elif self.eat("\\degree"):
                if self._in_function:
                    node = in_radians(node)
            elif self.eat("^"):
                exponent = self._exponent(depth)
                if node[0] == "name" and self.token.isa("_"):  # v^2_0
                    node = ("name", self._decorated(node[1]))
                if self.token.isa("^", "!"):
                    raise Unsupported
                return ("^", node, exponent)
            else:
                return node

    def _exponent(self, depth: int) -> Node:
        negative, token = bool(self.eat("-")), self.token
        if token.kind == "name" and token.text not in ("i", "e"):  # 2^n(n - 2)
            self.position += 1
            exponent: Node = ("name", self._decorated(token.text))
        else:
            exponent = self._atom(depth)
        return ("-", ZERO, exponent) if negative else exponent

    def _group(self, depth: int) -> Node:
        closing = CLOSING.get(self.token.text)
        if closing is None:
            raise Unsupported
        self.position += 1
        bare, self._is_bare = self._is_bare, False
        node = self.sum(depth + 1)
        self.expect(closing)
        self._is_bare = bare
        return node

    def _argument(self, depth: int) -> Node:
        """A group, or one character: \\frac12 is 1/2."""
        token = self.token
        if token.isa("{") or token.kind != "number" or not token.text.isdigit() or len(token.text) == 1:
            return self._group(depth) if token.isa("{") else self._atom(depth)
        rest = token.text[1:]
        self.tokens[self.position] = Token("number", rest, value=Fraction(rest))
        return ("number", Fraction(token.text[0]))

    def _atom(self, depth: int) -> Node:
        token = self.token
        if depth > _MOST_DEPTH:
            raise Unsupported
        if token.kind == "op" and token.text in CLOSING:
            return self._group(depth)
        self.position += 1
        if token.kind == "number":
            return self._number(token)
        if token.kind == "name":
            is_constant = token.text in ("i", "e") and not self.token.isa("_") and not token.vector
            return ("name", token.text) if is_constant else self._named(token, token.text, depth)
        if token.kind == "command":
            return self._command(token.text[1:], depth + 1)
        if token.isa("...") and self.tokens[self.position - 2].isa("+", "-"):  # a term of a series
            if self._starts_factor() or self.token.isa("^", "_"):
                raise Unsupported
            return ("name", "...")
        if token.isa("|"):
            self._in_bars += 1
            node = self.sum(depth + 1)
            self._in_bars -= 1
            self.expect("|")
            return ("abs", node)
        raise Unsupported

    def _number(self, token: Token) -> Node:
        """A number, which may have separated thousands or be mixed."""
        digits, value = token.text, token.value
        assert value is not None
        while digits.isdigit() and len(token.text) <= 3 and (end := self._end_of_thousands()):
            digits += self.tokens[end - 1].text
            self.position, value = end, Fraction(digits)
        one, slash, two = self.tokens[self.position : self.position + 3]
        if one.kind == two.kind == "number" and one.gap and slash.isa("/") and value.denominator == 1:
            if not (one.text.isdigit() and two.text.isdigit() and 0 < int(one.text) < int(two.text)):
                raise Unsupported
            self.position += 3
            value += Fraction(int(one.text), int(two.text))
        return ("number", value)

    def _end_of_thousands(self) -> int:
        """The position after `,345` or ` 345` that continues the number before it; 0 if there is none."""
        comma = self.token.isa(",") and not self.token.gap
        token = self.tokens[self.position + comma]
        digits = token.text.partition(".")[0]
        fits = token.kind == "number" and len(digits) == 3 and token.text.replace(".", "", 1).isdigit()
        return self.position + comma + 1 if fits and token.gap != comma else 0

    def _decorated(self, text: str) -> str:
        """A name with its indices, primes and stars."""
        while mark := self.eat("_", "'", "''", "'''") or self._raised(text):
            text += mark + (self.skipped() if mark == "_" else "")
        return text

    def _raised(self, text: str) -> str:
        """The mark in `x^*`, `f^{(n)}` and `T^{ij}`, which are no powers; "" if there is none."""
        begin = self.position
        if not self.eat("^"):
            return ""
        length = 3 if self.token.isa("{") else 1
        mark = "".join(token.text for token in self.tokens[self.position :][:length]).strip("{}")
        if mark in ("*", "\\cdot", "\\ast"):
            if not text.isupper():
                self.position += length
                return "^*"
            self.tokens[self.position : self.position + length] = [Token("command", "\\dagger")]  # an adjoint
        elif self.token.isa("{"):
            inside = self.skipped()
            is_order = _ORDER.fullmatch(inside) and (text[0] in _DERIVED or self.token.isa("("))
            if is_order or (text[0] in _TENSORS and _INDICES.fullmatch(inside)):
                return "^" + inside
        self.position = begin
        return ""

    def _named(self, token: Token, text: str, depth: int) -> Node:
        """A name, one with an index that is bound, or a function or factor before a bracket."""
        begin = self.position
        text = self._decorated(text)
        if _STRUCTURE.fullmatch(text):
            raise Unsupported
        if "^( \\#" in text:  # f^{(n)}, in a sum over n
            name, _, index = text.partition("^( ")
            return ("call", name + "^()", ("name", index.split()[0]), *self._arguments(depth))
        if "\\#" in text and not text.startswith("\\#"):
            self.position = begin
            self.expect("_")
            return ("call", text.partition("_")[0] + "_", *self._arguments(depth))
        inverse = ("^", "{", "-", "1", "}", "(")
        if tuple(each.text for each in self.tokens[self.position : self.position + 6]) == inverse:
            self.position += 5
            return ("call", text + "^-1", *self._arguments(depth))
        if self._is_bare and self.token.isa("("):  # \\sin x(1 + \\cos x), but not \\sin x(1 + x)
            if self.holds_function():
                return ("vector" if token.vector else "name", text)
            if is_sum((inside := self._arguments(depth))[0]):
                raise Unsupported
            return ("call", text, *inside)
        if self.token.isa("["):
            begin, inside = self.position, self.skipped()
            self.position = begin
            if text == "E" or (text not in "nkm" and _SEQUENCE.fullmatch(inside)):  # x[n - 1]
                return ("call", text if text == "E" else text + "[", *self._arguments(depth))
        if self.token.isa("(") and not text.startswith("\\#"):  # the index of a sum is a number
            begin, tokens = self.position, [*self.tokens]
            inside = self._arguments(depth)
            powers = self.token.isa("^") and self.tokens[self.position + 1].kind != "number" and text[0] not in "fgh"
            if powers and len(inside) == 1 and inside[0][0] != "text" and not names_of(inside[0]):
                self.position, self.tokens = begin, tokens  # N_0(1/2)^{t/T}
                return ("name", text)
            if text == "C" and len(inside) == 2 and names_of(("/", *inside)) <= {"n", "k", "m", "r"}:
                return ("binomial", *inside)
            may_multiply = len(inside) == 1 and inside[0][0] != "text" and "'" not in text
            return ("applied" if may_multiply and not token.vector else "call", text, *inside)
        return ("vector" if token.vector else "name", text)

    def _arguments(self, depth: int) -> list[Node]:
        """The arguments of a function, in brackets; what is no expression is one opaque text."""
        begin = self.position
        opening = self.eat("(", "[", "{", "\\{")
        if not opening:
            return [self._atom(depth + 1)]
        try:
            nodes = [self.sum(depth + 1)]
            while self.eat(","):
                nodes.append(self.sum(depth + 1))
            self.expect(CLOSING.get(opening, "\\}"))
            return nodes
        except Unsupported:
            self.position = begin
            text = self.skipped()
            inside = tuple(self.tokens[begin + 1 : self.position - 1])
            return [("text", set_table(inside) or text)]

    def _command(self, name: str, depth: int) -> Node:
        if name == "begin":
            return calculus.rows(self, depth)
        if name == "frac" and (derivative := calculus.derivative(self, depth)):
            return derivative
        if name in ("frac", "binom"):
            return ("/" if name == "frac" else "binomial", self._argument(depth), self._argument(depth))
        if name == "sqrt":
            order = self._group(depth) if self.token.isa("[") else ("number", Fraction(2))
            if order[0] != "number" or order[1].denominator != 1 or not 2 <= order[1] <= _MOST_ROOT:
                raise Unsupported
            return ("root", self._argument(depth), int(order[1]))
        if name == "overline":
            inside = self._argument(depth)
            if inside[0] == "name" and self.token.isa("_"):  # \\bar z_1
                inside = ("name", self._decorated(inside[1]))
            is_complex = {name.partition("_")[0] for name in kinds_of(inside, names=True)} & {"z", "w", "i"}
            return ("conjugate", inside) if is_complex else ("call", "\\overline", inside)
        if name in ("lfloor", "lceil"):
            inside = self.sum(depth + 1)
            self.expect("\\r" + name[1:])
            return ("floor", inside) if name == "lfloor" else ("-", ZERO, ("floor", ("-", ZERO, inside)))
        if name in FUNCTIONS:
            return self._application(name, depth)
        if name in ("sum", "prod"):
            return calculus.series(self, name, depth)
        if name == "mean":
            return ("call", "\\mean", *self._arguments(depth))
        if name == "cis":
            self._in_function += 1
            angle = self._group(depth) if self.token.isa("(", "[", "{") else self.power(depth)
            self._in_function -= 1
            return ("^", ("name", "e"), ("*", ("name", "i"), angle))
        token = self.tokens[self.position - 1]
        if token.upright or token.text in _OPAQUE:
            mark = name + self.eat("\\cdot", "\\times")
            if name == "nabla" and self.eat("^"):
                mark += "^" + self.skipped()
            is_called = self.token.isa("(", "[") or (token.text in _SYMMETRIC and self.token.isa("\\{"))
            inside = self._arguments(depth) if is_called else [self.power(depth)]
            if token.text in _SIGNS and len(inside) == 1 and inside[0][0] != "text":
                return ("/", inside[0], ("abs", inside[0]))
            return ("call", "\\" + mark, *(sorted(inside, key=repr) if token.text in _SYMMETRIC else inside))
        if token.text not in _SYMBOLS:
            raise Unsupported
        if name == "Delta" and self.token.kind == "name":  # a difference is one quantity
            self.position += 1
            name += f" {self.tokens[self.position - 1].text}"
        counts = [each.text for each in self.tokens[self.position :][:3]] in (["(", "x", ")"], ["(", "n", ")"])
        is_number = name == "pi" and not counts  # the primes up to x
        return ("name", "\\pi") if is_number else self._named(token, "\\" + name, depth)

    def _application(self, name: str, depth: int) -> Node:
        """sin(x), sin^2 x, log_2 8; without brackets the argument is the product up to the next function or sign."""
        base: Node = ("number", Fraction(10))
        exponent: Node | None = None
        while mark := self.eat("^", "_"):
            if mark == "^":
                exponent = self._exponent(depth)
            elif name == "log":
                base = self._argument(depth)
            else:
                raise Unsupported
        if exponent == ("-", ZERO, ("number", Fraction(1))) or exponent == ("number", Fraction(-1)):
            name, exponent = _INVERSE.get(name, ""), None
        if not name or (exponent is not None and (exponent[0] != "number" or exponent[1].denominator != 1)):
            raise Unsupported
        self._in_function += 1
        bracketed = self.token.isa("(", "[", "{")
        bare, self._is_bare = self._is_bare, not bracketed
        argument = self._group(depth) if bracketed else self.power(depth)
        while not bracketed and self._starts_factor() and not self.token.isa("(", "["):
            if self.token.text[1:] in FUNCTIONS or self.token.text.startswith(("\\dot", "\\ddot")):
                break
            argument = self._juxtaposed(argument, depth)
        self._is_bare = bare
        self._in_function -= 1
        after = self.token.isa("(") and self.tokens[self.position - 1].kind != "number" and self.holds_function()
        over = self.token.isa("/") and argument[0] == "number" and self.tokens[self.position + 1].kind != "number"
        if self.token.isa("[", "^") or (self.token.isa("(", "/") and not (bracketed or after or over)):  # \\ln 2/T
            raise Unsupported
        node: Node = ("^", ("name", "e"), argument) if name == "exp" else (name, argument)
        if name == "arccot":
            node = ("-", ("/", ("name", "\\pi"), ("number", Fraction(2))), ("arctan", argument))
        elif name in _RECIPROCAL:
            node = (_RECIPROCAL[name], ("/", ("number", Fraction(1)), argument))
        node = ("log_base", base, argument) if name in ("log", "lg") else node
        return ("^", node, exponent) if exponent is not None else node
