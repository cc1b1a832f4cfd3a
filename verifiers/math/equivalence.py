"""Decide whether an answer equals the reference, by the cheapest evidence first.

1. `string`: the same but for typography. 2. `exact`: rational numbers. 3. `structure`: tuples, lists, sets, intervals,
±, matrices, equations, units, text, part by part. 4. `cost`: rejects an unevaluated question, and what would cost too
much. 5. `numeric`: expressions evaluated with error bounds. Each tier's work is bounded; nothing of an answer is run.
"""

import ast
import contextlib
import functools
import re
from dataclasses import replace
from typing import NamedTuple

from ratchet.verifiers.extraction import MAX_ANSWER_CHARACTERS
from ratchet.verifiers.math import beside_box, context, forms
from ratchet.verifiers.math.answer import Answer
from ratchet.verifiers.math.asked import names_another
from ratchet.verifiers.math.boxes import boxed_answer, no_answer_reason
from ratchet.verifiers.math.choices import lettered
from ratchet.verifiers.math.closed_forms import allows_closed_form
from ratchet.verifiers.math.comparison import Evidence, same_answer
from ratchet.verifiers.math.listings import named_list
from ratchet.verifiers.math.question import read
from ratchet.verifiers.math.structure import parse_answer
from ratchet.verifiers.math.vocabulary import VOCABULARY
from ratchet.verifiers.outcome import Outcome, Verdict

_INTEGER = re.compile(r"-?\d{1,18}")
_DOLLARS = re.compile(r"^\$\s?(?=\d[\d,]*(?:\.\d+)?$)")
_LETTER_FOR_TIMES = re.compile(r"(?<=\d)\s*x\s*(?=10\s*(?:\^|\*\*))")
_NUMBER_AND_WORDS = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)[^\d\\]*[A-Za-z]{2}[^\d\\]*")
_UNEVALUATED = frozenset("\\" + name for name in VOCABULARY["unevaluated"].split())
_HOW = {"exact": "as exact numbers", "structure": "part by part", "numeric": "evaluated to 57 digits or more"}
_PLACEHOLDERS = frozenset(["nan", "n/a", "null"])
_LONGEST_QUESTION = 8192
"""Most characters of a question that is read."""


class Decision(NamedTuple):
    """A decision: True if the answer equals the reference; the tier that decided, and the reason."""

    same: bool
    tier: str
    why: str


def verify_math(response: str, reference: str, finished: bool = True, question: str = "") -> Verdict:
    """Judge the boxed answer of a response. A response that was truncated (not `finished`) fails."""
    if not finished and not reference_fault(reference):
        return Verdict(Outcome.FAILED, decided_by="truncated")
    verdict = _verify_boxed(response, reference, question)
    if verdict.outcome is not Outcome.PASSED:
        return verdict
    denial = beside_box.denial(response, question)
    why = f"it stands beside {denial!r}" if denial else ""
    for other in beside_box.others(response):
        also = verify_answer(other, reference, question=question)
        if also.outcome is not Outcome.PASSED and also.decided_by != "unevaluated":
            why = f"the response also answers {_shown(other)}"
    if why:
        return replace(verdict, outcome=Outcome.FAILED, fraction=0.0, decided_by="retracted", detail=why)
    return verdict


def _verify_boxed(response: str, reference: str, question: str) -> Verdict:
    """Judge the last box, or those of a sentence that has one for each part of the reference."""
    answer = boxed_answer(response) or ""
    if answer and not reference_fault(reference):
        answer = beside_box.qualified(answer, response, bool(parse_answer(reference_text(reference)).domain))
    verdict = verify_answer(answer, reference, response, question)
    failed = verdict.outcome is Outcome.FAILED
    apart = beside_box.apart(response, read(question[:_LONGEST_QUESTION]).last_sentence) if failed else []
    wanted = parse_answer(reference_text(reference)) if apart else Answer("text")
    are_named = wanted.kind != "tuple" or all("=" in each for each in apart)
    if apart and len(apart) == len(wanted.parts) and are_named:  # Length: 8. Width: 5.
        listed = verify_answer(", ".join(apart), reference, response, question)
        return listed if listed.outcome is Outcome.PASSED else verdict
    return verdict


def verify_answer(answer: str, reference: str, response: str | None = None, question: str = "") -> Verdict:
    """Judge a bare answer, the content of a box; `response` is the text that it was extracted from."""
    if fault := reference_fault(reference):
        return Verdict(Outcome.UNPARSEABLE, decided_by="reference", detail=fault)
    if not answer.strip():
        why = "the answer is empty" if response is None else no_answer_reason(response)
        return Verdict(Outcome.UNPARSEABLE, decided_by="no_answer", detail=why)
    decision = decide(reference_text(reference), reference_text(answer), question)
    outcome = Outcome.PASSED if decision.same else Outcome.FAILED
    return Verdict(outcome, float(decision.same), decision.tier, decision.why, answer.strip())


def equivalent(one: str, other: str) -> bool:
    """True if two answers are equal in either order, because only a reference may be rounded. Undecided means not
    equivalent."""
    one, other = reference_text(one), reference_text(other)
    return decide(one, other).same or decide(other, one).same


def decide(reference: str, answer: str, question: str = "") -> Decision:
    """Compare two bare answers under the question's requirements and the omissions that it allows."""
    if reference.replace("{,}", ",") == answer.replace("{,}", ","):
        return Decision(True, "string", "written the same")
    if max(len(reference), len(answer)) > MAX_ANSWER_CHARACTERS:
        return Decision(False, "cost", "too long")
    texts = (answer, reference)
    if _INTEGER.fullmatch(reference) and _INTEGER.fullmatch(answer):
        return _decision(int(reference) == int(answer), "exact", texts)
    question = question if len(question) <= _LONGEST_QUESTION else ""
    if question:
        reference, answer = lettered(question, reference), lettered(question, answer)
    asked, wanted, parsed = read(question), _required(reference, question), parse_answer(answer)
    if wanted.spelling == parsed.spelling and wanted.spelling:
        return Decision(True, "string", f"both are written {_shown(reference)}")
    if not question:
        return _compared(wanted, parsed, texts, Evidence())
    if wanted.percent and reference[-1].isdigit():
        texts = (answer, f"{reference}%")
    said = parsed = context.rounded(asked, parsed)
    if (named := named_list(asked, wanted, parsed)) is not None:
        wanted, parsed = replace(wanted, ordered=True), named
    decision = _compared(wanted, parsed, texts, Evidence(fixed=asked.fixed))
    if decision.tier == "unevaluated" and allows_closed_form(asked, parsed):
        decision = _compared(wanted, parsed, texts, Evidence(closed_form=True, fixed=asked.fixed))
    readings = () if decision.same else context.other_readings(asked, wanted, parsed, answer)
    for pair in readings:
        if (read_so := _compared(*pair, texts, Evidence(fixed=asked.fixed))).same:
            decision, parsed = read_so, parsed if pair[1] is wanted else context.rounded(asked, pair[1])
            break
    other = "it names something else" if decision.same and names_another(asked, wanted, said) else ""
    if decision.same and (why := other or forms.refusal(asked, wanted, parsed)):
        return Decision(False, "question", f"{_shown(answer)} is {_shown(reference)}, but {why}")
    return decision


@functools.lru_cache(maxsize=16_384)
def _required(reference: str, question: str) -> Answer:
    if not question:
        return parse_answer(reference)
    return context.required(read(question), reference, lambda one, other: decide(one, other).same)


def _compared(reference: Answer, answer: Answer, texts: tuple[str, str], evidence: Evidence) -> Decision:
    """Compare by structure and value; `texts` are the answer's and the reference's, as they are shown."""
    if left := _left_to_do(reference, answer):
        return Decision(False, "cost", left)
    same = same_answer(reference, answer, evidence)
    if same is None:
        return Decision(False, "cost", "whether {} is {} costs too much to decide".format(*map(_shown, texts)))
    if evidence.unevaluated and not same:
        why = "{} leaves arithmetic to do that {} does not".format(*map(_shown, texts))
        return Decision(False, "unevaluated", why)
    both_numbers = reference.value is not None and answer.value is not None
    return _decision(same, "numeric" if evidence.numeric else "exact" if both_numbers else "structure", texts)


def _decision(same: bool, tier: str, texts: tuple[str, str]) -> Decision:
    answer, reference = map(_shown, texts)
    return Decision(same, tier, f"{answer} {'is' if same else 'is not'} {reference}, {_HOW[tier]}")


@functools.lru_cache(maxsize=16_384)
def _shown(text: str) -> str:
    return " ".join(text.split())[:60].replace("\\%", "%")


def _left_to_do(reference: Answer, answer: Answer) -> str:
    """The operation that an answer leaves to do and its reference does not have; "" if there is none."""
    if not answer.symbols.isdisjoint(_UNEVALUATED):
        for member in answer.parts if answer.kind == "collection" and answer.parts else (answer,):
            states = member.kind == "equation" and reference.kind in ("scalar", "collection")  # \\int_0^1 x^2 dx = 1/3
            sides = member.parts if states else (member,)
            if left := frozenset.intersection(*(side.symbols for side in sides)) & _UNEVALUATED - reference.symbols:
                return f"unevaluated {min(left)}"
    return "a tower of powers" if answer.has_tower and not reference.has_tower else ""


def reference_text(reference: str) -> str:
    """A published reference, or an answer in its format, as one answer: the members of a list (`"['2']"` is 2), the
    content of a box, the last line of a GSM8K solution; with a cross for the letter in `1.5 x 10^6`."""
    _, _, final = f"\n{reference.strip()}".rpartition("\n#### ")  # GSM8K's
    text = _DOLLARS.sub(r"\\$", _LETTER_FOR_TIMES.sub(r"\\times ", final.strip()))
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


def refused_number(reference: str) -> str:
    """The number in a reference of a number and words (`9 for each`), if the number alone would be wrong; otherwise
    ""."""
    match = _NUMBER_AND_WORDS.fullmatch(text := reference_text(reference))
    return match[1] if match and not decide(text, match[1]).same else ""


@functools.lru_cache(maxsize=16_384)
def reference_fault(reference: str) -> str:
    """The reason why nothing can be verified against this reference; "" if it can be used: boxed, it is extracted
    unchanged."""
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
