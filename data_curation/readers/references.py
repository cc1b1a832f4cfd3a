r"""Find the reference of a problem whose answer is a worked solution: its box, its stated answer, or its final
quantity. A wrong reference is worse than none, so there is none if the final value is not clear."""

import re
from typing import Any

from ratchet.data_curation.readers.columns import marked_answer
from ratchet.verifiers.science.domain import TOLERANCE, read_quantity, unit_text

_SAID = re.compile(
    r"\b(?:answer|(?:correct|right) (?:option|choice))\b\**\s*(?:is|:|=)\s*:?\s*(?:option|choice)?\s*", re.IGNORECASE
)
_LETTER = re.compile(
    r"[\s*$]*(?:\\(?:text|mathrm|mathbf|textbf)\s*\{)?(?:\(([A-J])\)|([A-J])(?=[.,:;)}*$]|\s*(?:\n|\Z)))"
)
_RELATION = re.compile(r"(?:=|≈|\\(?:approx|simeq|cong)(?![A-Za-z]))[\s&]*")
_BREAK = re.compile(r"(?<!\\)\$|\n|\\\\|\\end\b|\\begin\b|\\[\[\]()]|&")
_NO_WORD = re.compile(r"\\(?:begin|end)\{[^}]*\}|\\[A-Za-z]+|[^A-Za-z]+")
_ASIDE = re.compile(
    r"\b(?:where|using|used|because|since|with|for|note|recall|if|when|let|take|taking|given|assum\w+|suppose|check)\b"
    r"[^.$\n]*\W*\Z",
    re.IGNORECASE,
)
_ENDS = re.compile(r"\b(?:is|are|equals)\s+(?:about\s+|approximately\s+)?\$([^$=]+)\$[\s.]*\Z")
_REMARK = re.compile(r"[,\s]*(?:\\q?quad\s*)?\\text\s*\{\s*\([^{}()]*\)\s*\}\s*\Z")
"""`\\text{(Answer)}` behind a value."""
_OPTION = re.compile(r"(?:(?<=\n)|(?<=\s))\(?([A-J])[).:]\s+")
_MOST_WORDS_BEHIND, _MOST_ASIDES = 25, 3
_INTEGER_OR_FRACTION = re.compile(r"[-+−]?\d[\d,]*(?:\s*/\s*\d+)?")
_DIMENSIONLESS = re.compile(r"(?<=[\d}$])\s*\(?(?:dimensionless|unitless|no units?)\)?\.?\s*\Z", re.IGNORECASE)
_LETTERS = re.compile("[A-Za-z]{1,3}")
_CONSTANTS = "gcGhkR"  # questions seldom say what they are
_ITALIC = re.compile(r"\$[^$]*[\d}][A-Za-z]{1,3}\$")
_VARIABLE = r"(?:\$(?:[^$]*[^$A-Za-z\\])?|\b[a-z]{{3,}}\s+){0}(?![A-Za-z])"  # "$m$", "mass m"
_LONGEST_SAID = 200
_COMMAND = re.compile(r"\\[A-Za-z]+")


def retrieved(solution: str) -> str | None:
    """The reference that a worked solution gives, or None."""
    return marked_answer(solution) or _said(solution) or _final_quantity(solution)


def _said(solution: str) -> str | None:
    """`The answer is (B).`, `Answer: 5 m/s`: the last one."""
    matches = [*_SAID.finditer(solution)]
    if not matches:
        return None
    statement = solution[matches[-1].end() :].partition("\n")[0]
    if letter := _LETTER.match(statement):
        return letter[1] or letter[2]
    statement = re.split(r"\.(?:\s|\Z)|;\s", statement, maxsplit=1)[0].strip(" *_$")
    is_value = read_quantity(statement) or not re.search(r"[A-Za-z]{2}", _COMMAND.sub("", statement))
    return statement if is_value and 0 < len(statement) <= _LONGEST_SAID else None


def _final_quantity(solution: str) -> str | None:
    """The value of the last equation of a solution, if a number with or without a unit stands alone behind its sign and
    little follows."""
    if (match := _ENDS.search(solution)) and read_quantity(match[1]):
        return match[1].strip()
    for _ in range(_MOST_ASIDES):
        relations = [*_RELATION.finditer(solution)]
        if not relations:
            return None
        last = relations[-1]
        stop = _BREAK.search(solution, last.end())
        end = stop.start() if stop else len(solution)
        value, behind = _REMARK.sub("", solution[last.end() : end]).strip(" .,;"), solution[end:]
        if re.search(r"\d", behind) or len(_NO_WORD.sub(" ", behind).split()) > _MOST_WORDS_BEHIND:
            return None
        breaks = [match.end() for match in _BREAK.finditer(solution, 0, last.start())]
        chain_begins = breaks[-1] if breaks else 0
        first = _RELATION.split(solution[chain_begins : last.start()])[0]
        before = solution[:chain_begins].rstrip("$ \n")
        # 1 J = 1 kg m²/s² and recalled values are no results: the result comes before.
        if not read_quantity(first) and not _ASIDE.search(before):
            return value if read_quantity(value) else None
        solution = before
    return None


def how_compared(prompt: str, answer: str) -> tuple[str, dict[str, Any] | None]:
    """A reference with the `tests` for its comparison (`verifiers.science.domain`): the letter of an option in the
    statement, a number with its unit, or, with None, an expression, such as a bare integer or fraction."""
    if re.fullmatch("[A-J]", letter := answer.strip("().$ ")):
        options = _options(prompt)
        return (letter, {"options": options}) if ord(letter) - ord("A") < len(options) else (answer, None)
    answer = _DIMENSIONLESS.sub("", answer)
    quantity = read_quantity(answer)
    if quantity is None or _is_symbolic(prompt, answer) or _INTEGER_OR_FRACTION.fullmatch(answer.strip("$ ")):
        return answer, None
    return f"{quantity.value:.12g}", {"unit": unit_text(answer), "tolerance": TOLERANCE}


def _is_symbolic(prompt: str, answer: str) -> bool:
    """True for an expression whose letters are variables rather than a unit: `$2mg$` is a force, not a mass. Such
    letters are italic and follow the number at once, or the question names them; but a question that has numbers with
    this unit asks for another one."""
    unit = unit_text(answer)
    letters = unit.replace(" ", "").replace("*", "")
    if not _LETTERS.fullmatch(letters) or re.search(rf"\d[\s~$]*{letters}(?![A-Za-z])", prompt):
        return False
    if re.search(rf"\bin terms of\b[^.?;]*(?<![A-Za-z]){letters[-1]}(?![A-Za-z])", prompt):
        return True
    if re.search(r"\d\.\d", answer):  # measured
        return False
    named = [letter for letter in letters if re.search(_VARIABLE.format(letter), prompt)]
    is_italic = _ITALIC.fullmatch(answer.strip(" ."))
    several = len(letters) > 1 and bool(named) and all(each in named or each in _CONSTANTS for each in letters)
    return bool(is_italic or several or (named and " " not in answer.strip(" $")))


def _options(prompt: str) -> list[str]:
    """The options at the end of a statement, in order from A; empty if there are none."""
    matches = [*_OPTION.finditer(prompt)]
    starts = [n for n, match in enumerate(matches) if match[1] == "A"]
    listed = matches[starts[-1] :] if starts else []
    if len(listed) < 2 or [match[1] for match in listed] != [chr(ord("A") + n) for n in range(len(listed))]:
        return []
    ends = [*(match.start() for match in listed[1:]), len(prompt)]
    return [prompt[match.end() : end].strip(" ;,\n") for match, end in zip(listed, ends, strict=True)]
