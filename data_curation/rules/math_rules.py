"""Rules for math problems, in the order in which they are applied (AceReason, section 3.1; the wording is ours)."""

from __future__ import annotations

import re

from data_curation.rules.evidence import Evidence, declared, seen, too_brief
from data_curation.rules.language import non_english
from infra.problems import Problem
from infra.recipe.model import Rules

_I = re.IGNORECASE

# ------------------------------------------------------------------------------------ multiple choice

_INSIDE_MARKS = tuple(
    re.compile(style)
    for style in (
        r"(?<![\w\\)'^])\([ ]?([A-H])[ ]?\)",  # (A), also in \textbf{(A)}; not P(A)
        r"\\(?:text|mathrm|mathbf)[a-z]{0,4}[ ]?\{[ ]?\(?([A-H])[).]",  # \textbf{A.}
        r"(?<!\w)\[([A-H])\](?=\s)",
    )
)
_AT_BREAKS = tuple(re.compile(style) for style in (r"([A-H])\)", r"([A-H])\.(?=[\s$*])", r"([A-H])[ ]?:(?=\s)"))
_BREAK = re.compile(r"(?:\A|\n|[ \t]{2}|\\q?quad|[;.?:]\s|\\\\)[\s$*]{0,6}\Z")
_BREAK_WINDOW = 14  # characters before a label that are looked at: a bound on time, whatever the text
_DRAWING_CODE = re.compile(r"\[asy\].{0,9999}?\[/asy\]", re.DOTALL)  # reflect(A)*(B) is no option either
_LOWER_OPTIONS = re.compile(r"(?<![\w\\)'^])\([ ]?([a-e])[ ]?\)")
_ENUMERATED = re.compile(r"\s{0,4}(?:,|and\b|or\b)")  # "(A), (B) and (C)" speaks of options, and is none


def multiple_choice(problem: Problem, limits: Rules) -> Evidence | None:
    """Three labels of one style in order, with nothing asked after the first; or two, if the answer is a letter."""
    letter = _unwrapped(problem.answer)
    is_letter = len(letter) == 1 and letter.upper() in "ABCDEFGH"
    text = _DRAWING_CODE.sub(lambda found: " " * len(found[0]), problem.prompt)
    for style in (*_INSIDE_MARKS, *_AT_BREAKS, *([_LOWER_OPTIONS] if is_letter else [])):
        labels = [m for m in style.finditer(text) if not _ENUMERATED.match(text, m.end())]
        if style in _AT_BREAKS:
            labels = [m for m in labels if _BREAK.search(text[max(0, m.start() - _BREAK_WINDOW) : m.start()])]
        run = _run_from_a(labels)
        if len(run) >= (2 if is_letter else 3) and not _ASKS.search(text, run[-1].end()):
            start, end = run[0].start(), run[-1].end()
            return {"text": problem.prompt[start:end], "span": [start, end], "options": len(run)}
    return declared(problem, "question_type", "mcq")


def _run_from_a(labels: list[re.Match[str]]) -> list[re.Match[str]]:
    """The last A, B, C, … among the labels, without gaps."""
    best: list[re.Match[str]] = []
    run: list[re.Match[str]] = []
    for label in labels:
        letter = label[1].upper()
        run = [label] if letter == "A" else [*run, label] if run and ord(letter) == ord("A") + len(run) else []
        best = run if len(run) >= min(2, len(best)) and run else best
    return best


# ---------------------------------------------------------------------------------------- true or false

_TRUTH_VALUES = frozenset(("true", "false", "yes", "no", "correct", "incorrect"))
_TRUE_OR_FALSE = re.compile(
    r"\A\W*true or false\b|\(\s*true or false\s*\)|\btrue or false\W*\Z"
    r"|\b(?:is|are|whether|if)\b[^.?!]{0,120}\btrue or false\b",
    _I,
)


def true_false(problem: Problem, limits: Rules) -> Evidence | None:
    """An answer that a coin gets right half the time."""
    if _unwrapped(problem.answer).lower() in _TRUTH_VALUES:
        return {"answer": problem.answer}
    found = _TRUE_OR_FALSE.search(problem.prompt)
    return seen(found) if found else None


# ------------------------------------------------------------------------------------------------ proof

_PROOF = re.compile(
    r"\b(?:prove|disprove|demonstrate|verify|establish)\b(?:\s+(?:that|by|or|if|why|the following|your)\b|\s*[:,])"
    r"|\bprove\s+(?:\$|the\b|each\b|every\b|a\b|an\b)|\bshow\s+(?:that\b|how\b|why\b|:)"
    r"|\b(?:give|write|find) a proof\b",
    _I,
)
_ASKS = re.compile(
    r"\?|(?:\A|[.!?;:,)$]\s{1,8}|\n\s{0,8}|\b(?:and|then|hence|also|please)\s+)"
    r"(?:find(?! a proof)|determine|compute|calculate|evaluate|simplify|solve|express|give(?! a proof)|state)\b"
    r"|\bwhat (?:is|are|was|will)\b|\bhow (?:many|much|long|far|old|large|often)\b",
    _I,
)
_NO_VALUE = frozenset(("proof", "see proof", "see solution", "see the solution", "qed", "q.e.d", "proved", "proven"))


def proof(problem: Problem, limits: Rules) -> Evidence | None:
    """Nothing but a proof is asked for, in so many words or by the source's own mark."""
    if _unwrapped(problem.answer).lower() in _NO_VALUE:
        return {"answer": problem.answer}
    found = asks_for_proof(problem.prompt)
    return seen(found) if found else declared(problem, "question_type", "proof")


def asks_for_proof(statement: str) -> re.Match[str] | None:
    """The words that ask for a proof, unless a value is asked for as well."""
    found = _PROOF.search(statement)
    return found if found and not _ASKS.search(statement) else None


# ---------------------------------------------------------------------------------------- sub-questions

_PLACE = r"(?:\A|\n|(?<=[.?!:;])\s)[\s*]{0,8}(?i:part )?"
_LABEL_STYLES = tuple(
    (re.compile(_PLACE + style), sequence)
    for style, sequence in (
        (r"\(([a-h])\)", "abcdefgh"),
        (r"([a-h])\)", "abcdefgh"),
        (r"\((\d)\)", "123456789"),
        (r"(\d)\)", "123456789"),
        (r"\((i{1,3}|iv|v)\)", ("i", "ii", "iii", "iv", "v")),
        (r"\((I{1,3}|IV|V)\)", ("I", "II", "III", "IV", "V")),
        (r"(?:(?<=\n)|\A)(\d)\.(?=\s)", "123456789"),
        (r"(?:(?<=\n)|\A)([a-h])\.(?=\s)", "abcdefgh"),
    )
)
_PART_ASKS = re.compile(
    r"\A[\s*:.]*(?:if\b[^.?]*[,.]\s*)?(?:hence,?\s+|then\s+|also\s+|now\s+)?(?:find|determine|compute|calculate|evaluate|"
    r"give|state|write|solve|show|prove|simplify|express|compare|list|draw|sketch|explain|describe|deduce|verify|derive|"
    r"estimate|factor|expand|what|how)\b|\?|\A.*\b(?:find|what is|how many)\b",
    _I,
)


def sub_questions(problem: Problem, limits: Rules) -> Evidence | None:
    """Two consecutive labels of one style, each at the start of a line or sentence and each followed by a question:
    labelled conditions, coordinates and decimals are no questions."""
    text = problem.prompt
    for style, sequence in _LABEL_STYLES:
        labels = list(style.finditer(text))
        for first, second, end in zip(labels, labels[1:], [m.start() for m in labels[2:]] + [len(text)], strict=False):
            consecutive = first[1] in sequence[:-1] and sequence[sequence.index(first[1]) + 1] == second[1]
            parts = text[first.end() : second.start()], text[second.end() : end]
            if consecutive and all(_PART_ASKS.search(part) for part in parts):
                return {"text": text[first.start() : second.end()].strip(), "span": [first.start(), second.end()]}
    return None


# ----------------------------------------------------------------------------------------------- figure

_DRAWING = re.compile(
    r"\[asy\]|\\begin\{(?:tikzpicture|asy|picture)\}|\\includegraphics|!\[[^\]]{0,200}\]\(|<img\b|<svg\b", _I
)
_PICTURE = r"(?:figure|diagram|picture|drawing|sketch|illustration)"
_DRAWN = r"(?:shown|pictured|drawn|illustrated|depicted|sketched|graphed|displayed)"
_SIDE = r"(?:below|above|at (?:the )?(?:right|left)|(?:on|to) the (?:right|left))"
_REFERENCE = re.compile(
    rf"\b(?:in|from|see|using|of|to|by) (?:the|this|each) (?:\w+ )?{_PICTURE}\b(?!s? out\b)"
    rf"|\b(?:{_PICTURE}|graphs?|image) (?:\w+ ){{0,3}}(?:{_SIDE}|shown|pictured|depicted|displayed)\b"
    rf"|\b{_DRAWN} (?:here|{_SIDE}|in (?:the|this) {_PICTURE})|\bas (?:shown|pictured|depicted|illustrated)\b(?! by)"
    rf"|\b(?:the )?{_PICTURE} (?:shows|represents|depicts)\b",
    _I,
)


def figure(problem: Problem, limits: Rules) -> Evidence | None:
    """A drawing, or words that point at one. `kind` tells them apart: a drawing in code (`[asy]`) may hold the data."""
    if found := _DRAWING.search(problem.prompt):
        return seen(found, kind="drawing")
    found = _REFERENCE.search(problem.prompt)
    return seen(found, kind="reference") if found else None


# ------------------------------------------------------------------------------------------- long answer


def long_answer(problem: Problem, limits: Rules) -> Evidence | None:
    """An answer that is long, or made of many numbers, is hard to verify."""
    answer = problem.answer or ""
    characters, numbers = len(answer), len(re.findall(r"\d+(?:\.\d+)?", answer))
    if characters <= limits.max_answer_characters and numbers <= limits.max_answer_numbers:
        return None
    return {"answer": answer, "characters": characters, "numbers": numbers}


def _unwrapped(answer: str | None) -> str:
    r"""The answer without `\text{}`, dollars, brackets and a full stop."""
    text = re.sub(r"\\(?:text|mathrm|textbf|mathbf|boxed)\w*\s*\{([^{}]*)\}", r"\1", answer or "")
    return text.strip(" $().,!*\n\t")


RULES = (multiple_choice, true_false, proof, sub_questions, figure, non_english, too_brief, long_answer)
