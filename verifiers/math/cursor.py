"""A position in the tokens of an expression, with methods to read and skip them."""

from ratchet.verifiers.math.nodes import Unsupported
from ratchet.verifiers.math.tokens import FUNCTIONS, Token, Tokens, single_letters, spelled

CLOSING = {"(": ")", "[": "]", "{": "}"}
END = Token("end", "")


class Cursor:
    def __init__(self, tokens: Tokens) -> None:
        """Start at the first token; runs of letters are read as single letters."""
        self.tokens = [*_with_derivative([*single_letters(tokens)]), END, END, END]
        self.position = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def eat(self, *options: str) -> str:
        """Skip one of these operators or commands, and return it; "" if the next token is none of them."""
        token = self.token
        if not token.isa(*options):
            return ""
        self.position += 1
        return token.text

    def expect(self, text: str) -> None:
        """Skip this operator or command. Raises Unsupported if something else is next."""
        if not self.eat(text):
            raise Unsupported

    def skipped(self) -> str:
        """Skip a group or a single token, and return its spelling."""
        begin = self.position
        self.position += 1
        depth = int(self.tokens[begin].isa("{", "(", "["))
        if not depth and self.tokens[begin].kind not in ("name", "number", "word", "command"):
            raise Unsupported
        while depth:
            if self.token is END:
                raise Unsupported
            depth += self.token.isa("{", "(", "[") - self.token.isa("}", ")", "]")
            self.position += 1
        inside = tuple(self.tokens[begin : self.position])
        return spelled(inside[1:-1] if inside[0].isa("{") else inside)

    def holds_function(self) -> bool:
        """True if the bracket that opens here contains a function such as sine."""
        begin = self.position
        self.skipped()
        inside, self.position = self.tokens[begin : self.position], begin
        return any(token.text[1:] in FUNCTIONS for token in inside)


def _with_derivative(tokens: list[Token]) -> list[Token]:
    """The first `dy/dx` as `\\frac{dy}{dx}`."""
    for i, (one, name, slash, other, below) in enumerate(zip(*(tokens[i:] for i in range(5)), strict=False)):
        same = one.text in ("d", "\\partial") and one.text == other.text and slash.isa("/")
        if same and name.kind == below.kind == "name":
            opened, closed = Token("op", "{"), Token("op", "}")
            fraction = [Token("command", "\\frac"), opened, one, name, closed, opened, other, below, closed]
            return [*tokens[:i], *fraction, *tokens[i + 5 :]]
    return tokens
