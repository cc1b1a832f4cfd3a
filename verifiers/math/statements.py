r"""Values with their conditions or subjects: `1 if x > 0, -1 if x < 0`, `A is a knight and B is a knave`, `2k, k = 0,
1, 2`."""

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer, Parse, flattened
from ratchet.verifiers.math.families import INTEGERS
from ratchet.verifiers.math.numerals import plain
from ratchet.verifiers.math.parts import listed, split, top_level, trimmed
from ratchet.verifiers.math.tokens import Token, Tokens, single_letters
from ratchet.verifiers.math.vocabulary import VOCABULARY

_WORDS = VOCABULARY["statements"]
_IF, _ASSIGNING = (frozenset(_WORDS[each].split()) for each in ("if", "assigning"))
_CONDITIONS = _IF | {"otherwise"}
_MARKING = _CONDITIONS | _ASSIGNING
_EVERY = ("all", "any", "every", "each")
_SIGNS = ("=", "<", ">", "\\le", "\\ge", "\\ne", "\\in")
_MOST_VALUES = 24


def statement(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """Parse a statement by the first of these readings that fits."""
    if len(tokens) < 3:
        return None
    if any(token.kind == "word" or (token.kind == "run" and token.text in _MARKING) for token in tokens):
        for read in (_assigned, _piecewise):
            if (answer := read(tokens, depth, parse)) is not None:
                return answer
    return _enumerated(tokens, depth, parse) if any(token.isa("=", "\\in") for token in tokens[3:]) else None


def _piecewise(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """`1 if x > 0, -1 if x < 0` as a function by cases; its name may be before each value."""
    at = [i for i in top_level(tokens) if words.word(tokens[i]) in _CONDITIONS]
    if len(at) < 2 or any(words.word(token) in _EVERY or token.isa("\\forall") for token in tokens):
        return None
    rows = []
    for begin, end in zip([0, *(_next(tokens, i) for i in at[:-1])], at, strict=True):
        value, condition = trimmed(tokens[begin:end]), tokens[end + 1 : _next(tokens, end)]
        if words.word(tokens[end]) == "otherwise":
            condition = tokens[end : end + 1]
        elif not any(token.isa(*_SIGNS) or words.word(token) in ("even", "odd") for token in condition):
            return None
        while condition and (condition[-1].isa(",", ";", "\\and") or words.word(condition[-1]) == "and"):
            condition = condition[:-1]
        if not value:
            return None
        rows.append(Answer("tuple", parts=(parse(value, depth).stated, parse(trimmed(condition), depth))))
    return Answer("collection", tokens, parts=tuple(rows), brackets="cases")


def _next(tokens: Tokens, at: int) -> int:
    """The position where the row after a condition begins: behind the last separator before the next condition."""
    top = [i for i in top_level(tokens) if i > at]
    end = next((i for i in top if words.word(tokens[i]) in _CONDITIONS), len(tokens))
    if end == len(tokens):
        return end
    marks = [i for i in top if i < end and (tokens[i].isa(",", ";", "\\and") or words.word(tokens[i]) == "and")]
    first = [i for i in marks if i + 1 < end]
    return first[-1] + 1 if first else end


def _assigned(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    """`A is a knight and B is a knave`, `A: knight, B: knave`, in any order."""
    is_short = 6 <= len(tokens) < 60 and tokens[0].kind == "name" and (tokens[1].isa(":", "=") or words.word(tokens[1]))
    members = listed(tokens, in_braces=False) if is_short else []
    equations = []
    for member in members if len(members) > 1 else ():
        if len(member) < 3 or member[0].kind != "name":
            return None
        is_pair = member[1].isa(":", "=") or words.word(member[1]) in _ASSIGNING
        said = [token for token in member[2:] if words.word(token) not in ("a", "an", "the") and token.text != "a"]
        if not is_pair or not said or not all(map(words.word, said)) or len(said) > 3:
            return None
        value = Answer("text", tuple(said), words=" ".join(map(words.word, said)))
        equations.append(Answer("equation", member, parts=(Answer("text", member[:1]), value)))
    return Answer("collection", tokens, parts=tuple(equations)) if equations else None


def _enumerated(tokens: Tokens, depth: int, parse: Parse) -> Answer | None:
    r"""`2e^{k\pi i/3}, k = 0, 1, 2` as the list of its values."""
    top = top_level(tokens)
    for at in (i for i in top if 2 < i < len(tokens) - 1 and tokens[i].isa("=", "\\in")):
        name, rest = tokens[at - 1], tokens[at + 1 :]
        if tokens[at].isa("\\in"):
            rest = rest[1:-1] if rest[0].isa("\\{") and rest[-1].isa("\\}") else ()
        numbers = split(rest, ",") if rest else []
        core = tokens[: at - 1]
        while core and (core[-1].isa(",", "(", ";") or words.word(core[-1]) in ("for", "where", "with")):
            core = core[:-1]
        is_list = 1 < len(numbers) <= _MOST_VALUES and all(
            len(each) <= 2 and each and plain(each).value is not None for each in numbers
        )
        if not is_list or name.text not in INTEGERS or not any(token.text == name.text for token in core):
            continue
        opened, closed = Token("op", "("), Token("op", ")")
        values = []
        for number in numbers:
            put = [(opened, *number, closed) if token.text == name.text else (token,) for token in single_letters(core)]
            values.append(parse(tuple(token for each in put for token in each), depth))
        return Answer("collection", tokens, parts=flattened(values))
    return None
