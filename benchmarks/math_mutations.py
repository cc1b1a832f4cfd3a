r"""Small changes that make another answer of a right one: which of them does the math verifier pay?

    python -m benchmarks.math_mutations [--references PATH...] [--most N]

Each kind changes one thing of a published reference: a letter's case, an index, a sign, a digit, a name, a bracket, the
order, a unit, a condition. Each quotation is a piece of the question (a sentence, formula, number or name) or a simple
change of it; those count that pass only with the question. What passes is listed by kind, with the reason why it may;
what has no reason is a fault, and the exit code is then 1. References are those of the tests' labeled pairs, or of your
own files: JSON or lines of JSON with `question`, and `answer`, `final_answer`, or a solution with a box.
"""

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.math_references import published_questions, published_references, shipped_questions, shipped_references
from ratchet.verifiers.math.equivalence import equivalent, reference_fault, reference_text, verify_answer
from ratchet.verifiers.math.families import same_families
from ratchet.verifiers.math.question import read
from ratchet.verifiers.math.structure import parse_answer

Change = Callable[[re.Match[str]], str]
_LETTER = r"(?<![\\A-Za-z{])[A-Za-z](?![A-Za-z])|(?<=[\d}\s])[a-zA-Z](?=[\s_^}+\-)]|$)"
_UNITS = r"(?<=\\text\{)\s*(?:cm|m|km|kg|g|s|mm|J|N|V|W)(?=\b)"


def _next(match: re.Match[str]) -> str:
    return str(int(match[0]) + 1)


def _other_letter(match: re.Match[str]) -> str:
    letter = match[0][-1]  # behind a dollar sign, perhaps
    first = ord("a" if letter.islower() else "A")
    return match[0][:-1] + chr((ord(letter) - first + 9) % 26 + first)


_RELATION = r"<|>|\\leq?(?![a-z])|\\geq?(?![a-z])"
_INTERVAL = r"(?<![A-Za-z\d\\_^}])[(\[](?=[^()\[\]]+,[^()\[\],]+[)\]])"
_TURNED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\leq": "\\geq", "\\geq": "\\leq"}
_STRICTER = {"<": "\\le", ">": "\\ge", "\\le": "<", "\\leq": "<", "\\ge": ">", "\\geq": ">"}
_FUNCTIONS = {"\\sin": "\\cos", "\\cos": "\\sin", "\\ln": "\\log"}


_FORMULA = re.compile(r"\$+([^$]+)\$+|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_RELATIONS = re.compile(r"=|<|>|\\leq?(?![a-z])|\\geq?(?![a-z])|\\ne(?![a-z])|\\equiv|\\in(?![a-z])")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w])")
_MOST_PIECES = 6
"""Sentences, formulas, numbers and names of a question."""
_FORMULA_CHANGES = (
    "-(@)", "2(@)", "(@)^2", "\\frac{1}{@}", "@ + C", "@ = 0", "= @", "\\text{the value of }@", "|@|", "f(x) = @",
)  # fmt: skip
_NUMBER_CHANGES = (
    "-@", "2 \\cdot @", "@\\%", "\\frac{1}{@}", "@!", "@^2", "\\sqrt{@}", "@^\\circ", "\\text{at most }@",
    "\\text{the }@", "x = @",
)  # fmt: skip
_PAIRS = (
    "@ + #", "@ - #", "@ \\cdot #", "\\frac{@}{#}", "@^{#}", "\\binom{@}{#}", "@, #", "(@, #)", "@ : #", "@ = #",
    "@_{#}", "@ \\pmod{#}",
)  # fmt: skip


KINDS: dict[str, tuple[str, str | Change]] = {
    "case": (_LETTER, lambda m: m[0].swapcase()),
    "case in a run": (r"(?<![\\A-Za-z{])[A-Za-z](?=[A-Za-z])", lambda m: m[0].swapcase()),
    "another letter": (_LETTER, _other_letter),
    "another index": (r"(?<=_)\d(?!\d)|(?<=_\{)\d+", _next),
    "sign in front": (r"^\$?(?=[\dA-Za-z\\(])", lambda m: m[0] + "-"),
    "sign inside": (r"(?<=[\w})\s])[+-](?=[\s\w\\(])", lambda m: "-" if m[0] == "+" else "+"),
    "a digit more": (r"(?<![\d.,_^{])\d+(?![\d.,])", _next),
    "last digit": (r"(?<=\d)\d(?!\d|[.,]\d)", lambda m: str((int(m[0]) + 3) % 10)),
    "a digit dropped": (r"(?<=\d)\d(?=\d)", ""),
    "digits swapped": (r"(\d)(?!\1)(\d)(?!\d)", r"\2\1"),
    "decimal point": (r"(\d)\.(\d)(?=\d)", r"\1\2."),
    "another name": (r"^\$?[a-z](?=\s*=)", _other_letter),
    "name dropped": (r"^\$?[a-z]\s*=\s*(?=[^=]+$)", ""),
    "factor": (r"^(?=\\frac|\\sqrt|\()", "2"),
    "factor dropped": (r"(?<![\d.^_{/])\d+\s*(?=\\sqrt|\\pi|[a-z]\b)", ""),
    "summand": (r"(?<=[\w})])\$?$", "+1"),
    "condition dropped": (r",?\s*(?:\\quad|\\ |\\,)*\s*[a-z]\s*\\in\s*\\mathbb\s*\{?[ZNR]\}?\$?$", ""),
    "another domain": (r"(?<=\\mathbb\{)Z(?=\}\$?$)", "N"),
    "opening bracket": (_INTERVAL, lambda m: "[" if m[0] == "(" else "("),
    "closing bracket": (r"(?<=\d)[)\]](?=\s*(?:\\cup|$))", lambda m: "]" if m[0] == ")" else ")"),
    "order of a list": (r"^([^,()\[\]{}]+),\s*([^,()\[\]{}]+)$", r"\2, \1"),
    "order of a tuple": (r"(?<=\()\s*([^(),\[\]]+),\s*([^(),\[\]]+)(?=\))", r"\2, \1"),
    "prefix of a unit": (_UNITS, lambda m: " k" + m[0].strip() if m[0].strip()[0] != "k" else " " + m[0].strip()[1:]),
    "another unit": (_UNITS, " mol"),
    "unit dropped": (r"\s*\\text\s*\{[^{}]*\}(?:\^\{?\d\}?)?\$?$", ""),
    "negation": (r"^", r"\\text{not }"),
    "direction": (_RELATION, lambda m: _TURNED[m[0]]),
    "strictness": (_RELATION, lambda m: _STRICTER[m[0]]),
    "or for and": (r"\band\b", "or"),
    "and for or": (r"\bor\b", "and"),
    "member dropped": (r",[^,()\[\]{}]+$", ""),
    "member doubled": (r"(,[^,()\[\]{}]+)$", r"\1\1"),
    "exponent": (r"(?<=\^)\d(?!\d)|(?<=\^\{)\d+(?=\})", _next),
    "exponent dropped": (r"\^(?:\d|\{\d+\})", ""),
    "reciprocal": (r"\\frac\s*\{([^{}]+)\}\s*\{([^{}]+)\}", r"\\frac{\2}{\1}"),
    "root dropped": (r"\\sqrt\s*(\{[^{}]+\})", r"\1"),
    "percent": (r"(?<=\d)$", r"\\%"),
    "percent dropped": (r"\\%\$?$", ""),
    "degrees dropped": (r"\^\s*\{?\\circ\}?", ""),
    "another function": (r"\\(?:sin|cos|ln)(?![a-z])", lambda m: _FUNCTIONS[m[0]]),
    "one sign of two": (r"\\pm", "+"),
    "cap for cup": (r"\\cup", r"\\cap"),
    "finite": (r"\\infty", "10"),
    "membership": (r"\\in(?![a-z])", r"\\notin "),
    "membership of another": (r"^\$?([a-z])(?=\s*\\in)", r"\1^2"),
}  # fmt: skip

ALLOWED = {
    "name dropped": "x = 5 is 5: the question says of what it is the value",
    "unit dropped": "a unit or a noun that one side does not give is ignored",
    "degrees dropped": "as any unit",
    "condition dropped": "what is said of letters may be left out",
    "percent dropped": "50 answers 50%",
    "order of a list": "roots and other lists have no order, unless the question asks for one",
}
"""Kinds that may pass, by the policy of docs/reference/math_verifier.md."""
REASONS: list[tuple[str, str, str]] = [
    ("case.*", r"_\{\d+\}$|[\d.]e-?\d", "digits of a base and exponents of ten have either case"),
    ("case.*", r"\\(?:text|mbox)|[A-Za-z]{3,}", "words have any case"),
    (
        "case.*|another (?:letter|index)",
        r"^(?:y\s*=\s*)?C[ex]|\bC(?![a-z])|c_\d|^t\\begin|\)\+?[st]\(|[a-z]\([a-z]\)\s*=|_n",
        "constants, parameters and arguments have any name",
    ),
    (
        "sign.*|summand|exponent.*",
        r"\+\s*[Cc]\$?$|\)[+-][stk]?\(|integer|\\mathbb\{Z\}|[kn]\\pi|^t\\begin|matrix\}[+-]t",
        "constants, parameters and integers take either sign",
    ),
    ("another domain|member dropped", r"integer|\\mathbb", "what is said of letters may be left out"),
    ("another (?:name|letter)", r"\)\s*[+-]|matrix\}\s*[+-]", "a line and its parameter have any name"),
    ("factor|.* bracket", r"\\cap", "the same set"),
    ("or for and|and for or", r"^[^<>]*$", "a list of values of one thing has either word"),
    ("exponent.*", r"1\^", "a power of one"),
    ("sign.*|percent", r"=\s*0$|^\\begin.*[^1-9]*$", "zero has no sign, and is zero percent"),
    ("sign in front", r"\\pm", "both signs are there"),
    ("sign inside", r"\(-1\)\^", "n + 1 and n - 1 are both even or odd"),
    ("reciprocal", r"\|x\|", "of a sign"),
    ("sign in front", r"^\$?0", "zero has no sign"),
    ("factor|sign in front", r"^\(0(?:, ?0)+\)", "a multiple of zero is zero"),
    ("strictness", r"begin\{cases\}", "the pieces have one value where they meet"),
]
"""Further passes: kinds, what the reference holds, and why it is right."""


QUOTED = [
    (r"^\\text\{", "the same value, with words of the question around it"),
    (r"\\pmod", "a residue, with the modulus of the question"),
    (r"\\%$|^\\frac\{1\}\{\d+\}$", "the question asks for a percentage"),
    (r"^\w+_\{\d+\}$", "a numeral in the base of the question"),
    (r"^[^=]+= ?[\d.,]+$", "the same number, and of what in the question it is said"),
    (r"!|\^|\\binom|C\(\d", "powers, factorials and binomials answer for their number unless the question has them"),
    (r"^[A-Z][^=]*[\d$]$", "a sentence that states the value"),
]
"""Patterns of quotations that pass only with their question, and why each is right."""


def mutations(reference: str) -> Iterator[tuple[str, str]]:
    """(kind, answer), the first and the last place where each kind fits."""
    for kind, (pattern, change) in KINDS.items():
        places = list(re.finditer(pattern, reference))
        for match in places[:1] + places[1:][-1:]:
            changed = match.expand(change) if isinstance(change, str) else change(match)
            answer = reference[: match.start()] + changed + reference[match.end() :]
            if parse_answer(answer).spelling != parse_answer(reference).spelling:
                yield kind, answer


def quotations(question: str) -> Iterator[tuple[str, str]]:
    """(kind, answer): the pieces of a question, and simple changes of them."""
    formulas = [next(filter(None, match.groups())) for match in _FORMULA.finditer(question)][:_MOST_PIECES]
    sides = [side for formula in formulas for side in _RELATIONS.split(formula) if side.strip()]
    numbers = list(dict.fromkeys(_NUMBER.findall(question)))[:_MOST_PIECES]
    sentences = [each.strip(" .?!") for each in re.split(r"(?<=[.?!])\s+", question)][:_MOST_PIECES]
    clauses = [clause for sentence in sentences for clause in re.split(r"[,;:]\s+", sentence)]
    names = dict.fromkeys(re.findall(r"\b[A-Z][a-z]+\b|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", question))
    pieces = {
        "sentence": [*sentences, *(f"\\text{{{each}}}" for each in sentences if "$" not in each)],
        "clause": [*clauses, *(f"\\text{{{each}}}" for each in clauses if "$" not in each)],
        "formula": formulas, "side of a formula": sides, "name": [*names][:_MOST_PIECES],
        "changed formula": [change.replace("@", each) for each in sides for change in _FORMULA_CHANGES],
        "number": numbers, "changed number": [change.replace("@", n) for n in numbers for change in _NUMBER_CHANGES],
        "two numbers": [change.replace("@", one).replace("#", other) for one in numbers for other in numbers
                        for change in _PAIRS],
        "name with a number": [f"{name} = {n}" for name in [*names][:_MOST_PIECES] for n in numbers],
        "sides with a number": [f"{side} = {n}" for side in sides for n in numbers],
    }  # fmt: skip
    for kind, answers in pieces.items():
        yield from ((f"quoted {kind}", answer) for answer in dict.fromkeys(answers))


def reason(kind: str, reference: str, answer: str) -> str:
    """Why this may pass; "" if there is no reason."""
    if kind in ALLOWED:
        return ALLOWED[kind]
    if kind.startswith("quoted"):
        return next((why for holds, why in QUOTED if re.search(holds, answer)), "")
    one, other = parse_answer(reference), parse_answer(answer)
    if one.value is not None and one.value == other.value:
        return "the same number"
    if reference.partition("\\approx")[0] == answer.partition("\\approx")[0] != reference:
        return "the exact side decides, not what it is about"
    if same_families(one, other):
        return "the same numbers for all integers"
    for kinds, holds, why in REASONS:
        if re.fullmatch(kinds, kind) and re.search(holds, reference):
            return why
    return ""


def search(references: list[str]) -> tuple[Counter[str], dict[tuple[str, str], list[tuple[str, str]]]]:
    """Numbers of mutations tried, by kind, and the pairs that passed, by kind and reason."""
    tried: Counter[str] = Counter()
    passed: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for reference in references:
        text = reference_text(reference)
        for kind, answer in mutations(text):
            tried[kind] += 1
            if not reference_fault(answer) and verify_answer(answer, text).passed:
                passed[kind, reason(kind, text, answer)].append((text, answer))
    return tried, passed


def search_quotations(
    pairs: list[tuple[str, str]],
) -> tuple[Counter[str], dict[tuple[str, str], list[tuple[str, str]]]]:
    """The same for quotations: what is right without its question is no fault of the question."""
    tried: Counter[str] = Counter()
    passed: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for question, reference in pairs:
        text = reference_text(reference)
        same = [text, read(question).options.get(text.strip("()"), text)]
        same += [letter for letter, option in read(question).options.items() if equivalent(option, text)]
        for kind, answer in quotations(question):
            tried[kind] += 1
            if verify_answer(answer, text, question=question).passed and not any(
                verify_answer(answer, each).passed for each in same
            ):
                passed[kind, reason(kind, text, answer)].append((text, answer))
    return tried, passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", type=Path, nargs="+", help="files of problems; default: the tests' references")
    parser.add_argument("--most", type=int, default=20_000, help="references at most")
    parser.add_argument("--examples", type=int, default=3, help="printed for each kind and reason")
    options = parser.parse_args()
    references = published_references(options.references) if options.references else shipped_references()
    questions = published_questions(options.references) if options.references else shipped_questions()
    references = random.Random(1).sample(references, min(options.most, len(references)))
    questions = random.Random(1).sample(questions, min(options.most, len(questions)))
    tried, passed = search(references)
    print(f"{len(references):,} references, {len(tried)} kinds, {tried.total():,} mutations")
    quoted, right = search_quotations(questions)
    print(f"{len(questions):,} questions, {len(quoted)} kinds, {quoted.total():,} quotations")
    tried, passed = tried + quoted, passed | right
    for (kind, why), pairs in sorted(passed.items(), key=lambda item: (bool(item[0][1]), item[0])):
        print(f"{kind}: {len(pairs)} of {tried[kind]:,} pass: {why or 'NO REASON'}")
        for reference, answer in pairs[: None if not why else options.examples]:
            print(f"    {answer[:70]!r} for {reference[:70]!r}")
    sys.exit(any(not why for _, why in passed))


if __name__ == "__main__":
    main()
