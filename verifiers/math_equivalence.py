"""Do two answers mean the same? Cheapest evidence first.

1. `string`: equal after normalizing notation. 2. `exact`: rational numbers. 3. `structure`: tuples, lists, sets,
intervals, ±, matrices, equations, element by element. 4. `cost`: what would be expensive to evaluate is refused. 5.
`symbolic`: computer algebra, in a process that is killed when it takes too long. The first three decide most answers
in microseconds and never run long.
"""

from __future__ import annotations

import ast
import atexit
import functools
import itertools
import re
import threading
from collections.abc import Callable

from verifiers.answer_cost import too_expensive
from verifiers.answer_structure import Answer, is_symbol, known_unit, parse_answer
from verifiers.extraction import MAX_ANSWER_CHARACTERS, boxed_answer
from verifiers.outcome import Outcome, Verdict
from verifiers.symbolic import Symbolic, SymbolicTimeout

_CONGRUENCE = re.compile(r"\\(?:equiv|p?mod|bmod)(?![A-Za-z])")
_INTEGER = re.compile(r"-?\d{1,18}")

Symbolically = Callable[[str, str], bool]


def reference_text(reference: str) -> str:
    """A reference as published, as one answer: `"['2']"` is 2, and a list of several is all of them."""
    text = reference.strip()
    if text[:2] not in ("['", '["') or len(text) > MAX_ANSWER_CHARACTERS:
        return text
    # The backslashes of LaTeX may or may not have been doubled when the list was written; undoubled ones turn into
    # control characters (\f of \frac) or stay.
    for literal in (text, text.replace("\\", "\\\\")):
        try:
            items = ast.literal_eval(literal)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(items, list) and items and all(isinstance(item, str) for item in items):
            joined = ", ".join(items)
            if joined.isprintable():
                return joined
    return text


def decide(reference: str, answer: str) -> tuple[bool | None, str]:
    """The tiers that need no other process: (verdict, tier); the verdict is None when only algebra could tell."""
    if reference == answer:
        return True, "string"
    if max(len(reference), len(answer)) > MAX_ANSWER_CHARACTERS:
        return False, "cost: too long"
    if _INTEGER.fullmatch(reference) and _INTEGER.fullmatch(answer):
        return int(reference) == int(answer), "exact"
    wanted, got = parse_answer(reference), parse_answer(answer)
    if wanted.text == got.text and wanted.unit == got.unit and wanted.percent == got.percent:
        return True, "string"
    result = _same(wanted, got, None)
    if result is None and (reason := too_expensive(wanted.text, got.text)):
        return False, f"cost: {reason}"
    both_numbers = wanted.value is not None and got.value is not None
    return result, "exact" if both_numbers else "structure"


def decide_symbolically(reference: str, answer: str, symbolic: Symbolic) -> bool:
    """The last tier, for pairs that `decide` left open. Raises SymbolicTimeout."""
    return bool(_same(parse_answer(reference), parse_answer(answer), symbolic.equal))


def verify_math(response: str, reference: str, finished: bool = True) -> Verdict:
    """Is the boxed answer of a response the reference answer?

    `finished` is False when the response was cut at its token limit: a failure, whatever it holds.
    """
    verdict, answer = verify_math_quickly(response, reference, finished)
    if verdict is not None:
        return verdict
    with _shared_lock:
        return verify_math_symbolically(answer, reference, _shared_symbolic())


def verify_math_quickly(response: str, reference: str, finished: bool = True) -> tuple[Verdict | None, str]:
    """`verify_math` without its last tier: (verdict, answer); no verdict when only algebra could tell."""
    if not finished:
        return Verdict(Outcome.FAILED, decided_by="truncated"), ""
    answer = boxed_answer(response)
    if answer is None:
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer"), ""
    same, tier = decide(reference_text(reference), answer)
    return None if same is None else _verdict(same, tier, answer), answer


def verify_math_symbolically(answer: str, reference: str, symbolic: Symbolic) -> Verdict:
    try:
        return _verdict(decide_symbolically(reference_text(reference), answer, symbolic), "symbolic", answer)
    except SymbolicTimeout as timeout:
        return Verdict(Outcome.TIMEOUT, decided_by="symbolic", detail=str(timeout), extracted=answer)


def _verdict(same: bool, tier: str, answer: str) -> Verdict:
    tier, _, detail = tier.partition(": ")
    outcome = Outcome.PASSED if same else Outcome.FAILED
    return Verdict(outcome, float(same), tier, detail, answer)


def equivalent(one: str, other: str) -> bool:
    """Do two answers mean the same? Symmetric. What algebra cannot settle in its time is not equivalent."""
    one, other = reference_text(one), reference_text(other)
    forth, back = decide(one, other)[0], decide(other, one)[0]
    if forth or back:
        return True
    with _shared_lock:
        symbolic = _shared_symbolic()
        for verdict, pair in ((forth, (one, other)), (back, (other, one))):
            try:
                if verdict is None and decide_symbolically(*pair, symbolic):
                    return True
            except SymbolicTimeout:
                continue
    return False


def equivalence_classes(answers: list[str | None]) -> list[list[int]]:
    """Group answers that mean the same: lists of positions, largest class first, then by first position.

    None (no answer) belongs to no class. Classes are the connected components of `equivalent`, so the grouping does
    not depend on the order of the answers.
    """
    positions: dict[str, list[int]] = {}
    for position, answer in enumerate(answers):
        if answer is not None:
            positions.setdefault(answer, []).append(position)
    classes: list[list[str]] = []
    for answer in positions:
        joined = [group for group in classes if any(equivalent(member, answer) for member in group)]
        classes = [group for group in classes if group not in joined] + [[answer, *itertools.chain(*joined)]]
    grouped = [sorted(itertools.chain(*(positions[answer] for answer in group))) for group in classes]
    return sorted(grouped, key=lambda group: (-len(group), group[0]))


# ------------------------------------------------------------------------------------------ structure


def _same(wanted: Answer, got: Answer, symbolically: Symbolically | None) -> bool | None:
    """Three-valued: None is "only algebra could tell", and does not occur when `symbolically` is given."""
    if "equation" in (wanted.kind, got.kind):
        return _same_equation(wanted, got, symbolically)
    if wanted.kind == got.kind == "scalar":
        return _same_scalar(wanted, got, symbolically)
    if wanted.kind != got.kind:
        return _same_across_kinds(wanted, got, symbolically)
    if wanted.kind in ("text", "based"):
        return wanted.text == got.text
    if wanted.kind == "collection":
        return _same_collection(wanted.parts, got.parts, symbolically)
    if wanted.brackets != got.brackets or len(wanted.parts) != len(got.parts):
        return False
    if wanted.variable and got.variable and wanted.variable != got.variable:
        return False
    return _all(_same(one, other, symbolically) for one, other in zip(wanted.parts, got.parts, strict=True))


def _all(results: list[bool | None]) -> bool | None:
    undecided = False
    for result in results:
        if result is False:
            return False
        undecided |= result is None
    return None if undecided else True


def _same_scalar(wanted: Answer, got: Answer, symbolically: Symbolically | None) -> bool | None:
    if wanted.unit != got.unit and known_unit(wanted.unit) and known_unit(got.unit):
        return False
    if wanted.value is not None and got.value is not None:
        return _same_number(wanted, got)
    if wanted.text == got.text:
        return wanted.percent == got.percent or wanted.percent
    if wanted.percent != got.percent or (wanted.text.isdigit() and got.text.isalpha()):
        return False
    return _algebra(wanted.text, got.text, symbolically)


def _same_number(wanted: Answer, got: Answer) -> bool:
    """Where the reference has a percent sign, 50%, 50 and 0.5 all answer "what percent". Where it has none, p% is p/100
    of a whole, or p as the answer to a question that said "percent" itself (four in ten of MATH's do)."""
    if wanted.percent == got.percent:
        return wanted.value == got.value
    if wanted.percent:
        return got.value in (wanted.value, wanted.value / 100)
    return got.value == wanted.value or (abs(wanted.value) < 1 and got.value == 100 * wanted.value)


def _same_across_kinds(wanted: Answer, got: Answer, symbolically: Symbolically | None) -> bool | None:
    for one, other in ((wanted, got), (got, wanted)):
        if one.kind == "collection" and len(one.parts) == 1:
            return _same(*((one.parts[0], other) if one is wanted else (other, one.parts[0])), symbolically)
        if one.kind == "text" and other.kind == "scalar" and other.value is None:
            return one.text.casefold() == other.text.casefold() and len(one.text) == 1
    return False


def _same_collection(
    wanted: tuple[Answer, ...], got: tuple[Answer, ...], symbolically: Symbolically | None
) -> bool | None:
    """One to one, in any order. 1,2,3 is not 1,2,3,3."""
    if len(wanted) != len(got):
        return False
    edges = [[_same(one, other, None) for other in got] for one in wanted]
    if _matched(edges, lambda edge: edge is True):
        return True
    if not _matched(edges, lambda edge: edge is not False):
        return False
    if symbolically is None:
        return None
    edges = [
        [_same(one, other, symbolically) if edge is None else edge for edge, other in zip(row, got, strict=True)]
        for row, one in zip(edges, wanted, strict=True)
    ]
    return _matched(edges, lambda edge: edge is True)


def _matched(edges: list[list[bool | None]], accepted: Callable[[bool | None], bool]) -> bool:
    """Is there a perfect matching? Augmenting paths (Kuhn 1955)."""
    owner: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column, edge in enumerate(edges[row]):
            if accepted(edge) and column not in seen:
                seen.add(column)
                if column not in owner or place(owner[column], seen):
                    owner[column] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(edges)))


def _same_equation(wanted: Answer, got: Answer, symbolically: Symbolically | None) -> bool | None:
    """`x = 5` is 5, but not `y = 5`; `6 = 5` is nothing; two equations are compared by sides, then by algebra."""
    if wanted.kind != got.kind:
        equation, other = (wanted, got) if wanted.kind == "equation" else (got, wanted)
        name, *values = equation.parts
        if not is_symbol(name):
            values = list(equation.parts)
            if len(values) > 2 or values[0].value is None or values[0].value != values[1].value:
                return False
        pairs = [(value, other) if equation is wanted else (other, value) for value in values]
        return _all(_same(one, two, symbolically) for one, two in pairs)
    if len(wanted.parts) != 2 or len(got.parts) != 2:
        return wanted.text == got.text
    (left, right), (got_left, got_right) = wanted.parts, got.parts
    if is_symbol(left) and is_symbol(got_left):
        if left.text != got_left.text:
            return False
        return _same(right, got_right, symbolically)
    for pair in ((got_left, got_right), (got_right, got_left)):
        if _all(_same(one, two, None) for one, two in zip((left, right), pair, strict=True)):
            return True
    return _algebra(wanted.text, got.text, symbolically)


def _algebra(wanted: str, got: str, symbolically: Symbolically | None) -> bool | None:
    if _CONGRUENCE.search(wanted) or _CONGRUENCE.search(got):
        return False  # read as an equation by the parser
    return symbolically(wanted, got) if symbolically else None


_shared_lock = threading.Lock()


@functools.cache
def _shared_symbolic() -> Symbolic:
    symbolic = Symbolic()
    atexit.register(symbolic.close)
    return symbolic
