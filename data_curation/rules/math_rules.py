"""Rules for math problems, in order of application (after AceReason, section 3.1)."""

import json
import re
from itertools import islice

from ratchet.data_curation.rules.evidence import Evidence, declared, no_answer, seen, unverifiable
from ratchet.data_curation.rules.labels import LabeledList, labeled_lists
from ratchet.data_curation.rules.language import non_english
from ratchet.data_curation.rules.patterns import PATTERNS, find
from ratchet.data_curation.rules.pictures import needed
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.problem import APPENDED_OPTIONS, Problem


def multiple_choice(problem: Problem, limits: Rules) -> Evidence | None:
    """Options that the reader appended; a labeled list of options without a question in or after it; or an answer that
    is a letter, and words about a choice."""
    has_options = f'"{APPENDED_OPTIONS}"' in (problem.metadata or "")
    if has_options and (lines := json.loads(problem.metadata or "{}").get(APPENDED_OPTIONS)):
        return {"field": f"metadata.{APPENDED_OPTIONS}", "options": lines}
    text = PATTERNS["drawing_code"].blanked(problem.prompt)
    letter = re.fullmatch(
        r"(?:[A-H]|(?-i:[JK]))(?:\s*[).:].*|(?:\s*,\s*[A-H])*)", _unwrapped(problem.answer), re.I | re.S
    )
    numeral = re.fullmatch(r"\s*\(\d\)\s*", problem.answer or "")
    for options in labeled_lists(text):
        if _offers(options, bool(letter), bool(numeral)):
            start, end = options.span
            return {"text": problem.prompt[start:end], "span": [start, end], "options": len(options.parts)}
    cue = (find("choice_cue", text) if letter and not find("counts_options", text) else None) or find(
        "choose_the_correct", text
    )
    return seen(cue, answer=problem.answer) if cue else declared(problem, "question_type", "mcq")


def _offers(options: LabeledList, answer_is_letter: bool, answer_is_numeral: bool) -> bool:
    """True if these are options: conditions are followed by a question, and parts have one each."""
    *others, last = options.parts
    if not all(re.search(r"[^\s$\\{}~,;]", part) for part in options.parts):
        return False  # \underline{A} \underline{B} is a number of two digits
    if find("counts_options", options.stem) or len(options.parts) < (2 if answer_is_letter else 3):
        return False
    if answer_is_letter and options.kind in ("upper", "lower"):
        return True
    # Nothing is asked in or after the last option.
    if (
        any(find("part_asks", part) for part in others)
        or find("asks_for_value", last)
        or PATTERNS["part_asks"].whole.match(last)
    ):
        return False
    if options.kind == "upper" or (options.kind == "digit" and answer_is_numeral):
        return True
    values = all(len(re.findall(r"(?<!\\)\b[^\W\d_]{3,}", part)) <= 2 for part in options.parts)
    if options.kind == "lower" and values and not find("bare_instruction", options.stem):
        return True
    return bool(find("choice_cue", options.stem) or find("choice_cue", last)) and options.kind != "ordinal"


def true_false(problem: Problem, limits: Rules) -> Evidence | None:
    """An answer with two possible values."""
    answer = _unwrapped(problem.answer)
    if len(answer.split()) > 1 and find("if_so", problem.prompt):
        return None  # "Yes, for $A \\cap B$": a value is asked for too
    if find("truth_value", answer) or (find("truth_value_if_asked", answer) and find("polar_question", problem.prompt)):
        return {"answer": problem.answer}
    match = find("true_or_false", problem.prompt)
    return seen(match) if match and not re.search(r"\d", answer) else None  # "… How many programs output TRUE?"


_NO_VALUE = frozenset(("proof", "see proof", "see solution", "see the solution", "qed", "q.e.d", "proved", "proven"))


def proof(problem: Problem, limits: Rules) -> Evidence | None:
    """Only a proof is asked for, by the text or by the source's metadata."""
    if _unwrapped(problem.answer).lower() in _NO_VALUE:
        return {"answer": problem.answer}
    match = find("proof", problem.prompt)
    asked = problem.prompt
    for sign in ("hint", "rhetorical_question") if match else ():
        asked = PATTERNS[sign].whole.sub("", asked)
    if match and not find("asks_for_value", asked):
        return seen(match)
    return declared(problem, "question_type", "proof")


_QUOTED = re.compile(r"[\"“”][^\"“”]{0,300}[\"“”]|\([^()]{0,200}\)")


def sub_questions(problem: Problem, limits: Rules) -> Evidence | None:
    """More than one question: a list with questions in two parts, or one request for all parts; two blanks; two
    questions in a row. Labeled conditions, coordinates, decimals, hints and answered parts do not count."""
    text = problem.prompt
    for sign in ("answered_part", "hint"):
        text = PATTERNS[sign].blanked(text)
    for parts in labeled_lists(text):
        if find("rules_follow", parts.stem):
            continue
        asking = sum(bool(find("part_asks", part)) for part in parts.parts)
        if asking >= 2 or (len(parts.parts) >= 2 and asking == 0 and find("bare_instruction", parts.stem)):
            start, end = parts.span
            return {"text": problem.prompt[start:end].strip(), "span": [start, end]}
    if match := find("also_asks", text) or find("two_blanks", text):
        return seen(match)
    if ";" in (problem.answer or ""):  # in one text, "find" and "find" may be steps to one value
        two = find("request_for_two", text) or next(islice(PATTERNS["request"].finditer(text), 1, None), None)
        if two:
            return seen(two, answer=problem.answer)
    if (match := find("unknowns", text)) and re.fullmatch(r"[^,;&=]*", answer := problem.answer or "") and answer:
        return seen(match, answer=answer)
    if text.count("?") < 2:
        return None
    plain = _QUOTED.sub(lambda match: " " * len(match[0]), text)
    questions = [match for match in PATTERNS["question"].whole.finditer(plain) if not find("same_question", match[0])]
    if len(questions) >= 2 and not find("in_a_form", plain[questions[0].end() : questions[1].end()]):
        return {"text": text[slice(*questions[1].span())], "span": list(questions[1].span())}
    return None


def figure(problem: Problem, limits: Rules) -> Evidence | None:
    """A picture, or a reference to one, and a text without numbers; or a question that only a picture can answer."""
    match = needed(problem.prompt)
    return {"text": problem.prompt[slice(*match.span())], "span": list(match.span())} if match else None


MAX_DIGITS = 30
"""Most digits of a number in an answer."""
MAX_ANSWER_CHARACTERS, MAX_ANSWER_NUMBERS, MAX_ANSWER_WORDS = 100, 8, 4
"""Limits of an answer; longer ones are hard to verify, or sentences."""


def long_answer(problem: Problem, limits: Rules) -> Evidence | None:
    """The answer is long, a sentence, a series, or has many numbers: hard to verify."""
    answer = problem.answer or ""
    characters, numbers = len(answer), len(re.findall(r"\d+(?:\.\d+)?|\\infty|∞", answer))
    prose = re.sub(r"\\(?:begin|end)\{\w+\*?\}|\\(?:text|mathrm|mbox|textbf)\w*\s*\{|\\[a-zA-Z]+", " ", answer)
    words = len(re.findall(r"[^\W\d_]{2,}", prose)) if " " in prose else 0
    letters = len(re.findall(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])", prose)) + answer.count("\\pi")
    measured = {"answer": answer, "characters": characters, "numbers": numbers, "letters": letters, "words": words}
    if (
        characters > MAX_ANSWER_CHARACTERS
        or numbers > MAX_ANSWER_NUMBERS
        or numbers + letters >= 2 * MAX_ANSWER_NUMBERS
        or words > MAX_ANSWER_WORDS
        or re.search(rf"\\[cl]?dots\b|\.\.\.|…|\d{{{MAX_DIGITS + 1},}}", answer)
    ):
        return measured
    return None


def _unwrapped(answer: str | None) -> str:
    r"""The answer without `\text{}`, dollars, brackets and a full stop."""
    text = answer or ""
    for _ in range(2):  # \boxed{\text{…}}
        text = re.sub(r"\\(?:text|math|boxed)\w*\s*\{([^{}]*)\}", r"\1", text)
    return text.strip(" $().,!*{}\n\t")


RULES = (multiple_choice, true_false, proof, no_answer, unverifiable, sub_questions, figure, non_english, long_answer)
