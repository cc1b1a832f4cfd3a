"""Is an answer equal to the reference? Cheapest evidence first.

1. `string`: the same but for typography. 2. `exact`: rational numbers. 3. `structure`: tuples, lists, sets, intervals,
±, matrices, equations, units, text, part by part. 4. `cost`: rejects an unevaluated question, and what would cost too
much. 5. `numeric`: expressions evaluated with error bounds. Each tier's work is bounded; nothing of an answer is run.
"""

import ast
import contextlib
import functools
import re
from typing import NamedTuple

from ratchet.verifiers.extraction import MAX_ANSWER_CHARACTERS, boxed_answer, no_answer_reason
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.comparison import Evidence, same_answer
from ratchet.verifiers.math.nodes import Node, kinds_of, names_of
from ratchet.verifiers.math.question import asks_order, asks_percent
from ratchet.verifiers.math.structure import is_list, parse_answer
from ratchet.verifiers.math.vocabulary import VOCABULARY
from ratchet.verifiers.outcome import Outcome, Verdict

_INTEGER = re.compile(r"-?\d{1,18}")
_NUMBER_AND_WORDS = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)[^\d\\]*[A-Za-z]{2}[^\d\\]*")
_UNEVALUATED = frozenset("\\" + name for name in VOCABULARY["unevaluated"].split())
_HOW = {"exact": "as exact numbers", "structure": "part by part", "numeric": "evaluated to 57 digits or more"}
_PLACEHOLDERS = frozenset(["nan", "n/a", "null"])
_ORDERED = " \\text{ in this order}"


class Decision(NamedTuple):
    """Whether the answer equals the reference; the tier that decided, and why."""

    same: bool
    tier: str
    why: str


def verify_math(response: str, reference: str, finished: bool = True) -> Verdict:
    """Judges the boxed answer of a response. A response that was truncated (not `finished`) fails."""
    if not finished and not reference_fault(reference):
        return Verdict(Outcome.FAILED, decided_by="truncated")
    return verify_answer(boxed_answer(response) or "", reference, response)


def verify_answer(answer: str, reference: str, response: str | None = None) -> Verdict:
    """Judges a bare answer, the content of a box; `response` is what it was extracted from."""
    if fault := reference_fault(reference):
        return Verdict(Outcome.UNPARSEABLE, decided_by="reference", detail=fault)
    if not answer.strip():
        why = "the answer is empty" if response is None else no_answer_reason(response)
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail=why)
    decision = decide(reference_text(reference), reference_text(answer))
    outcome = Outcome.PASSED if decision.same else Outcome.FAILED
    return Verdict(outcome, float(decision.same), decision.tier, decision.why, answer.strip())


def equivalent(one: str, other: str) -> bool:
    """Symmetric: tries both orders, because only a reference may be rounded. Undecided means not equivalent."""
    one, other = reference_text(one), reference_text(other)
    return decide(one, other).same or decide(other, one).same


def decide(reference: str, answer: str) -> Decision:
    """Compares two bare answers."""
    if reference == answer:
        return Decision(True, "string", "written the same")
    if max(len(reference), len(answer)) > MAX_ANSWER_CHARACTERS:
        return Decision(False, "cost", "too long")
    texts = [" ".join(text.split())[:60].replace("\\%", "%") for text in (answer, reference)]
    if _INTEGER.fullmatch(reference) and _INTEGER.fullmatch(answer):
        return _decision(int(reference) == int(answer), "exact", texts)
    parsed_reference, parsed = parse_answer(reference), parse_answer(answer)
    if parsed_reference.spelling == parsed.spelling and parsed_reference.spelling:
        return Decision(True, "string", f"both are written {texts[1]}")
    states = parsed.kind == "equation" and parsed_reference.kind == "scalar"  # \\int_0^1 x^2 dx = 1/3 says 1/3
    sides = parsed.parts if states else (parsed,)
    left = set.intersection(*({token.text for token in side.tokens} for side in sides)) & _UNEVALUATED
    left -= {token.text for token in parsed_reference.tokens}
    if left or (_has_tower(parsed) and not _has_tower(parsed_reference)):
        return Decision(False, "cost", f"unevaluated {min(left)}" if left else "a tower of powers")
    evidence = Evidence()
    same = same_answer(parsed_reference, parsed, evidence)
    if same is None:
        return Decision(False, "cost", f"whether {texts[0]} is {texts[1]} costs too much to decide")
    if evidence.unevaluated and not same:
        return Decision(False, "unevaluated", f"{texts[0]} leaves arithmetic to do that {texts[1]} does not")
    both_numbers = parsed_reference.value is not None and parsed.value is not None
    return _decision(same, "numeric" if evidence.numeric else "exact" if both_numbers else "structure", texts)


def _decision(same: bool, tier: str, texts: list[str]) -> Decision:
    return Decision(same, tier, f"{texts[0]} {'is' if same else 'is not'} {texts[1]}, {_HOW[tier]}")


def _has_tower(answer: Answer) -> bool:
    """Whether it has a power of numbers in an exponent: 2^{2^5}, but not e^{x^2}."""

    def is_tower(node: Node) -> bool:
        if node[0] == "^" and "^" in kinds_of(node[2]) and not names_of(node[2]):
            return True
        return any(isinstance(part, tuple) and is_tower(part) for part in node[1:])

    return bool(answer.node and is_tower(answer.node)) or any(map(_has_tower, answer.parts))


def reference_text(reference: str) -> str:
    """A published reference, or an answer in its format, as one answer: the members of a list (`"['2']"` is 2), the
    content of a box."""
    text = reference.strip()
    if text.startswith(("\\boxed{", "$\\boxed{")) and boxed_answer(text) == text.strip("$.")[7:-1].strip():
        text = text.strip("$.")[7:-1].strip()
    if text[:2] not in ("['", '["') or len(text) > MAX_ANSWER_CHARACTERS:
        return text
    # The backslashes of LaTeX may not be doubled in the list; then some become control characters (\f of \frac).
    for literal in (text, text.replace("\\", "\\\\")):
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            items = ast.literal_eval(literal)
            if isinstance(items, list) and items and all(isinstance(item, str) for item in items):
                joined = ", ".join(items)
                if joined.isprintable():
                    return joined
    return text


def asked_reference(reference: str, question: str | None) -> str:
    """The reference as the question requires it: 25 is 25% if it asks "what percent" (numbers up to 1 stay: they are
    ambiguous), and a list has an order if it asks for one."""
    if not question:
        return reference
    text = reference_text(reference)
    answer = parse_answer(text)
    if answer.value is not None and answer.value > 1 and answer.unit is None and not answer.percent:
        return f"{text.rstrip('.')}\\%" if asks_percent(question) else reference
    if is_list(answer) and not answer.ordered and asks_order(question, len(answer.parts)):
        return text.rstrip(".") + _ORDERED
    return reference


def refused_number(reference: str) -> str:
    """The number of a reference that is a number and words (`9 for each`), if it alone would be wrong; else ""."""
    match = _NUMBER_AND_WORDS.fullmatch(text := reference_text(reference))
    return match[1] if match and not decide(text, match[1]).same else ""


@functools.lru_cache(maxsize=16_384)
def reference_fault(reference: str) -> str:
    """Why nothing can be verified against this reference; "" if it can: boxed, it is extracted unchanged."""
    text = reference_text(reference)
    if not text:
        return "the reference is empty"
    if text.casefold() in _PLACEHOLDERS:
        return f"the reference is a placeholder: {text}"
    if len(text) > MAX_ANSWER_CHARACTERS:
        return f"the reference is longer than {MAX_ANSWER_CHARACTERS} characters"
    if boxed_answer(f"\\boxed{{{text}}}") != text:
        return "the reference does not verify against itself: its braces do not match, or it holds a box or <think>"
    named = any(character.isalnum() or character in "∞∅{}" for character in text)
    return "" if named else "the reference holds neither a number nor a word"
