"""The left side of a definition: the names of values and functions, and which of them are the same."""

import re
from dataclasses import replace

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.nodes import ZERO, names_of, replaced
from ratchet.verifiers.math.regions import variable_of
from ratchet.verifiers.math.tokens import OPAQUE_FUNCTIONS
from ratchet.verifiers.math.vocabulary import VOCABULARY

_DERIVATIVE = re.compile(r"\\frac \{ d (?:\^ (\d) )?([A-Za-z]) \} \{ d ([A-Za-z])(?: \^ \1)? \}")
_CALLED = re.compile(r"([^()]+) \( ([A-Za-z]|\\[A-Za-z]+) \)")
_ARGUMENT = re.compile(r"([A-Za-z]) (?:\( |_ )([a-z])(?: \))?")
_LETTERED = frozenset(VOCABULARY["lettered"].split())
_NO_SYMBOLS = frozenset(VOCABULARY["no_symbols"].split())
_OPERATORS = tuple("\\" + name for name in OPAQUE_FUNCTIONS)
_NAMED_FUNCTIONS = ("\\sin", "\\cos", "\\tan", "\\log", "\\ln", "\\angle", "|", "\\overline")


def is_symbol(answer: Answer) -> bool:
    """True if this is the left side of a definition, such as x, f(x), \\angle A, P(X = 1), \\sin\\theta or (x, y)."""
    if any(words.word(token) in _NO_SYMBOLS for token in answer.tokens):
        return False
    if answer.kind == "tuple":
        return (
            answer.brackets == "[]" or bool(answer.variable) or all(variable_of(part) for part in answer.parts)
        )  # a commutator
    if len(tokens := answer.tokens) > 1 and tokens[-1].kind == "name" and words.word(tokens[-2]):
        return words.word(tokens[-2]) in _LETTERED  # of `zebra x = 42` we know nothing
    if answer.kind == "text" or variable_of(answer) or (answer.kind == "matrix" and answer.brackets == "|"):
        return True
    if answer.value is not None or not tokens:
        return False
    first = tokens[0]
    if first.isa("\\lim", "\\int", "\\iint", "\\oint", "\\sum", "\\prod") or (first.isa(".") and "|" in answer.text):
        return True  # \left.\frac{dy}{dx}\right|_{x = 1}
    if len(tokens) > 14:
        return False
    operators = {token.text for token in tokens} & {"+", "-", "/", "\\cdot", "\\times"}
    if first.isa(*_OPERATORS) and not operators:
        return True
    if first.text in _NAMED_FUNCTIONS or answer.text.startswith("\\frac { d"):
        return not operators and "^" not in answer.text
    if first.kind in ("command", "name", "word") or first.text.isupper():
        if first.text.isupper() and answer.text == f"{first.text} ^ {{ - 1 }}":
            return True
        is_inverse = answer.text.startswith(f"{first.text} ^ {{ - 1 }} (")
        second = tokens[1 % len(tokens)]
        is_called = second.isa("(", "\\{") and tokens[-1].isa(")", "\\}") and not operators
        return is_inverse or is_called or second.isa("_") or (len(tokens) == 1 and first.kind != "command")
    return False


def is_same_name(one: Answer, other: Answer) -> bool:
    """True if both name the same value: `v` and `v(t)`; `y'`, dy/dx and `y'(t)`."""
    if one.text == other.text or (one.node is not None and one.node == other.node):
        return True
    (name, variable), (other_name, other_variable) = map(_name_and_variable, (one, other))
    if {one.kind, other.kind} == {"text", "tuple"}:  # (h, k) of a center
        return True
    if _is_initial(name, other_name) or _is_initial(other_name, name):
        return True
    return name == other_name and (not variable or not other_variable or variable == other_variable)


def is_same_text(name: Answer, variable: str) -> bool:
    """True if a point or a set has this name or initial: F(1, 2) is a focus."""
    return name.text == variable or name.letters == variable or _is_initial(name.text, variable)


def _is_initial(word: str, letter: str) -> bool:
    """r of a radius."""
    return len(word) > 2 and word.isalpha() and letter.replace("\\ell", "l").lower() == word[0].lower()


def _name_and_variable(answer: Answer) -> tuple[str, str]:
    text = answer.letters
    if match := _DERIVATIVE.fullmatch(text):
        return match[2] + " " + "'" * int(match[1] or 1), match[3]
    match = _CALLED.fullmatch(text)
    return (match[1], match[2]) if match else (text, "")


def with_argument(reference: Answer, answer: Answer) -> Answer:
    """Rename the argument as the reference does: `f(t) = t^2` as `f(x) = x^2`, a_k as a_n."""
    ours, theirs = (_ARGUMENT.fullmatch(side.parts[0].text) for side in (reference, answer))
    if not ours or not theirs or ours[1] != theirs[1] or ours[2] == theirs[2]:
        return answer
    if any(part.kind != "scalar" or not part.node or ours[2] in names_of(part.node) for part in answer.parts[1:]):
        return answer
    change = {("name", theirs[2]): ("name", ours[2])}
    values = (replace(part, node=replaced(part.node or ZERO, change)) for part in answer.parts[1:])
    return replace(answer, parts=(reference.parts[0], *values))
