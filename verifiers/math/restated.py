r"""Answers that repeat words or formulas of their question: `3^{20} \text{ is larger}`, "91 is not prime".

Only words that the question has are removed, and none that change a value or take it back.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from ratchet.verifiers.math import words
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.integers import integers_in
from ratchet.verifiers.math.matching import labels_of
from ratchet.verifiers.math.nodes import names_of
from ratchet.verifiers.math.parts import closing, split, trimmed
from ratchet.verifiers.math.quantities import prose
from ratchet.verifiers.math.question import Question, stem
from ratchet.verifiers.math.sentences import direction
from ratchet.verifiers.math.structure import parse_tokens
from ratchet.verifiers.math.tokens import Token, Tokens, spelled
from ratchet.verifiers.math.units import parse_unit
from ratchet.verifiers.math.vocabulary import VOCABULARY

_RESTATED = VOCABULARY["restated"]
_NEUTRAL, _DENYING, _ALTERING = (frozenset(_RESTATED[each].split()) for each in ("neutral", "denying", "changing"))
_HEDGED = frozenset(VOCABULARY["final_answer"]["denied"].split()) | {"would", "should"}
_ALTERING |= frozenset(VOCABULARY["foreign_changing"].split())
_CHANGING = frozenset(VOCABULARY["no_nouns"].split()) - _NEUTRAL | _DENYING | _ALTERING
_APPROXIMATELY, _PLACES, _LEADING, _COPULAS, _BEHIND, _REASONS, _REJECTING = (
    frozenset(_RESTATED[each].split())
    for each in ("approximately", "places", "leading", "copulas", "behind", "reasons", "rejecting")
)
_TAKEN_BACK = frozenset(VOCABULARY["claims"]["taken_back"].split()) - {"so"} | _DENYING | _APPROXIMATELY
_REMARKED = _ALTERING | frozenset(_RESTATED["remarks"].split())
_DECIDES = re.compile(
    r"(?:^|[.?!:,]\s+)(?:is|are|does|do|did|can|could|will|was|were|has|have)\s([^.?!]*)\?", re.IGNORECASE
)
_WINNING = frozenset(["wins", "win", "winning", "strategy", "correct", "true"])
_AROUND = _NEUTRAL | _LEADING | _BEHIND | _WINNING
_LONGEST_SENTENCE, _MORE_WORDS = 24, 3
_EXTREMES = re.compile(r"\b(?:maxim|minim|largest|smallest|greatest|least|extreme)", re.IGNORECASE)
_WHOLE = re.compile(r"\bintegers?\b|\bwhole numbers?\b", re.IGNORECASE)
_LARGER = re.compile(r"\b(?:larger|greater|bigger|largest|greatest|biggest|maximum)\b", re.IGNORECASE)
_SMALLER = re.compile(r"\b(?:smaller|less|lesser|smallest|least|minimum)\b", re.IGNORECASE)


def values(question: Question, reference: Answer, answer: Answer) -> Iterator[Answer]:
    """Versions of the answer without the words and formulas that it repeats."""
    tokens = answer.tokens
    yield from _without_words(question, reference, tokens)
    for formula in question.formulas:  # Point D(1,5), of those that are given
        if len(formula) > 3 and formula[0].text.isupper() and spelled(tokens[-len(formula) :]) == spelled(formula):
            at = len(tokens) - len(formula)
            if all(words.word(token) == "point" for token in tokens[:at]):
                yield parse_tokens(formula[:1])
    if (value := without_remark(tokens)) or (value := _without_place(question, tokens)):
        yield parse_tokens(value)
        yield from _without_words(question, reference, value)
    if len(tokens) > 1 and words.word(tokens[0]) in _APPROXIMATELY and _is_rounded(question, reference):
        yield parse_tokens(tokens[1:])
    given = {spelled(formula): len(formula) for formula in question.formulas}
    for formula, length in given.items():  # \\lim_{x \\to 0} f(x) does not exist
        if len(tokens) > length > 2 and spelled(tokens[:length]) == formula and words.word(tokens[length]):
            yield parse_tokens(tokens[length:])
    if answer.kind == "equation" and not answer.words and len(answer.parts) == 2:
        left, right = answer.parts
        digits = left.tokens[0].text if left.tokens and "_" in left.symbols else ""
        is_false = None not in (left.value, right.value) and left.value != right.value  # 5 = 67
        is_numeral = digits and re.search(rf"\b{re.escape(digits)}\b", question.text)  # 1011_2 = 11
        name = reference.parts[0].text if reference.kind == "equation" else left.text
        is_other = name != left.text and name in given  # y = 3 is not x = 3
        if is_numeral or (left.text in given and not is_false and not is_other):
            yield replace(right, domain=answer.domain)
    if (
        answer.kind == "tuple"
        and answer.variable
        and question.says(_WHOLE)
        and reference.kind == "collection"
        and spelled(tokens) not in given
    ):
        yield from filter(None, [integers_in(answer)])
    for sign, pattern, other in (("<", _LARGER, _SMALLER), (">", _SMALLER, _LARGER)):
        sides = split(tokens, "<", ">") if question.says(pattern) and not question.says(other) else []
        if len(sides) == 2 and all(sides):
            read = [parse_tokens(side) for side in sides]
            if not any(each.node is None or names_of(each.node) for each in read):
                yield read[1 if tokens[len(sides[0])].isa(sign) else 0]


def is_yes(question: Question, tokens: Tokens) -> bool | None:
    """True for an answer that affirms a yes-or-no question by repeating it (`91 is prime`), False for one that denies
    it."""
    asked = _DECIDES.findall(question.text)
    if not asked or any(token.isa(",", ";") for token in tokens) or len(tokens) > 30:
        return None
    predicate = [word for word in _letters(asked[-1]) if word not in _NEUTRAL]
    said = [token.text.lower() for token in tokens if token.text.isalnum()]
    rest = [word for word in said if word not in _NEUTRAL and word != "not"]
    is_plain = "or" not in predicate and predicate and said.count("not") < 2
    if not is_plain or not rest or rest[-1] != predicate[-1] or not {*rest} <= {*predicate}:
        return None
    return "not" not in said


def says(question: Question, reference: Answer, sentence: Answer, short: Answer) -> bool:
    """True if one of two answers has the other's words, and otherwise only the question's: `He faces south`, `Maria has
    the most`, `an isosceles triangle`."""
    tokens, wanted = sentence.tokens, short.words.replace(" ", "")
    if short.kind != "text" or not wanted or not len(short.tokens) < len(tokens) <= _LONGEST_SENTENCE:
        return False
    spoken = [word or token.text.lower() for word, token in zip(words.spoken(tokens), tokens, strict=True)]
    asked = _letters(question.text)
    others = question.alternatives | words.NEXT | {"not", *_letters(short.words)}  # false, of `false that it is false`
    for begin in range(len(tokens)):
        for end in range(begin + 1, min(len(tokens), begin + len(short.tokens) + _MORE_WORDS) + 1):
            if (begin, end) == (0, len(tokens)) or prose(tokens[begin:end]).replace(" ", "") != wanted:
                continue
            around = spoken[:begin] + spoken[end:]
            if sentence is reference and not all(_is_place(question, word) for word in spoken[:begin]):
                return False  # the team, of the blue team
            if others & {*around} or not all(_is_harmless(each, asked) for each in tokens[:begin] + tokens[end:]):
                return False
            copula = max((i for i in range(begin) if spoken[i] in _COPULAS), default=-1)
            rest = [*spoken[copula + 1 : begin], *spoken[end:]]
            return all(
                word in _NEUTRAL | _LEADING | _BEHIND | _WINNING or stem(word) in question.stems for word in rest
            )
    return False


def _is_place(question: Question, word: str) -> bool:
    """True for `the`, and for `under` where the question asks under which."""
    asked = re.search(rf"\b{re.escape(word)} (?:which|what)\b", question.text, re.IGNORECASE)
    return word in ("the", "a", "an") or asked is not None


def _is_harmless(token: Token, asked: list[str]) -> bool:
    """True for a word that takes nothing back and names nobody."""
    word = token.text.lower()
    if word in _DENYING | _ALTERING | _HEDGED | {"and", "non"} or direction(word):
        return False
    if words.is_numeral(word) and word not in asked:
        return False
    return word.isalpha() or token.upright or token.isa("'", ".", "-")


def _without_words(question: Question, reference: Answer, tokens: Tokens) -> Iterator[Answer]:
    """`37` of `The bakery has 37 muffins left`, and what is behind the verb of `Each muffin costs about $2`."""
    said = question.stems
    begin, end = 0, len(tokens)
    spoken = words.spoken(tokens)
    if "not" in spoken:
        return
    skipped = _APPROXIMATELY if _APPROXIMATELY & {*spoken} and _is_rounded(question, reference) else frozenset[str]()
    while begin < end and (
        _is_repeated(tokens[begin], said, True)
        or spoken[begin] in skipped
        or (begin and tokens[begin].isa(":", "=", "-"))
    ):
        begin += 1
    while end > begin and _is_repeated(tokens[end - 1], said, False):
        end -= 1
    copula = max((i for i, token in enumerate(tokens) if spoken[i] in _COPULAS or (i and token.isa(":"))), default=-1)
    is_ratio = copula > 0 and tokens[copula].isa(":") and not any(map(words.word, tokens[:copula]))  # 3 : 4 is no 4
    is_other = all(spoken[copula + 1 :]) and not question.alternatives.isdisjoint(spoken[: copula + 1])  # red, of blue
    if copula >= 0 and not is_ratio and not is_other and all(_is_said(question, token) for token in tokens[:copula]):
        at = copula + 1
        while at + 1 < len(tokens) and spoken[at] in _BEHIND | skipped:
            at += 1
        yield parse_tokens(tokens[at:])
        if at < end < len(tokens):
            yield parse_tokens(trimmed(tokens[at:end]))
    core, nouns = trimmed(tokens[begin:end]), reference.unit.words if reference.unit else ()
    around = {words.word(token) for token in tokens[:begin] + tokens[end:]}
    if not core or len(core) == len(tokens) or not {*nouns} <= {*words.noun_stem([*around])}:
        return
    bare = parse_tokens(core)
    whole = parse_tokens(tokens)
    if whole.kind == bare.kind == "collection" and len({*labels_of(bare.parts)}) < len({*labels_of(whole.parts)}):
        return  # 7 of 4 goats and 7 helicopters
    if bare.kind not in ("text", "option", "phrase") and (bare.node or bare.parts or bare.words):
        yield bare


def _is_repeated(token: Token, said: frozenset[str], leads: bool) -> bool:
    text = token.text if words.word(token) or (token.upright and token.text.isalpha()) else ""
    word = text.lower()
    if word in _CHANGING or words.is_numeral(word) or direction(word) or text[1:] != word[1:]:
        return word in _LEADING and leads
    is_unit = not leads and parse_unit(text) is not None
    return word in _NEUTRAL or (leads and word in _LEADING) or (len(word) > 2 and stem(word) in said and not is_unit)


def _is_said(question: Question, token: Token) -> bool:
    """True if the question has this number or letter, or it is a word that changes nothing."""
    word = token.text.lower()
    if word in _DENYING | _ALTERING or (token.kind == "word" and token.text[1:] != word[1:]):
        return False
    changes = word in _CHANGING | _HEDGED or words.is_numeral(word) or direction(word)
    is_plain = token.kind in ("word", "run") and len(word) > 2 and token.text[1:] == word[1:] and not changes
    is_known = is_plain or token.isa("'", ":") or word in _NEUTRAL | _LEADING or stem(word) in question.stems
    is_given = token.kind in ("number", "name") and question.names(token.text)
    return is_known or is_given or (token.upright and (token.kind == "number" or token.text in ("a", "A")))


def without_remark(tokens: Tokens) -> Tokens:
    """The answer without a remark in brackets or a reason at its end: `9` of `9 \\text{ (attained at }x = 2)`, `54` of
    `54, because ...`; empty for anything else. A remark that may take the value back is kept."""
    at = next((i for i, token in enumerate(tokens) if i and words.word(token) in _REASONS), 0)
    if tokens[-1:] and tokens[-1].isa(")"):
        opened = [i for i in range(1, len(tokens)) if tokens[i].isa("(") and closing(tokens[i:]) == len(tokens) - 1 - i]
        at = opened[0] if opened else at
    remark = [word or token.text for word, token in zip(words.spoken(tokens[at:]), tokens[at:], strict=True)]
    rejects = not _REJECTING.isdisjoint(remark)  # 8 (the negative root is extraneous)
    taken_back = _TAKEN_BACK if rejects else _TAKEN_BACK | _REMARKED
    capitals = {token.text.lower() for token in tokens[at:] if token.text.isupper()}  # 2(ABC) is a product
    spoken = [word for word in remark if len(word) > 2 and word.isalpha() and word not in capitals]
    numbers = sum(token.kind == "number" for token in tokens[at:])  # a list of options is no remark
    is_remark = at and spoken and numbers <= 2 * len(spoken) and taken_back.isdisjoint(remark)
    if any(words.is_numeral(word) or parse_unit(word) for word in spoken):  # 5 (in meters)
        return ()
    if len(spoken) < 2 and any(token.isa("+", "*", "^", "/") for token in tokens[at:]):  # 2(xyz(x + y + z))
        return ()
    if "=" in remark and not (_REJECTING | _PLACES) & {*remark}:  # 8 (x = 1 is a root)
        return ()
    if is_remark and rejects:  # x = 8 (x = -2 is extraneous)
        rejected = tuple(token for token in tokens[at:] if not (words.word(token) or token.isa("(", ")")))
        values = [parse_tokens(part).stated.value for part in (tokens[:at], rejected)]
        is_remark = None not in values and values[0] != values[1]
    return trimmed(tokens[:at]) if is_remark else ()


def _without_place(question: Question, tokens: Tokens) -> Tokens:
    """`9` of `9 \\text{ at }x = 2`, where the question asks for an extreme value; empty for anything else."""
    spoken = [words.word(token) for token in tokens] if question.says(_EXTREMES) else []
    at = next((i for i, word in enumerate(spoken) if i and word in _PLACES), 0)
    rest = [token for i, token in enumerate(tokens[at:], at) if at and spoken[i] not in _PLACES]
    places = split(tuple(rest), ",")
    is_plain = all(len(each) > 2 and each[0].kind == "name" and each[1].isa("=") for each in places)
    return trimmed(tokens[:at]) if is_plain and not any(map(words.word, rest)) else ()


def _is_rounded(question: Question, reference: Answer) -> bool:
    """True if the question asks for a rounded number, or the reference is a decimal."""
    if reference.value is None:
        return False
    return "." in reference.text or "rounded" in question.forms or bool(_APPROXIMATELY & {*_letters(question.text)})


def _letters(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+", text.lower())
